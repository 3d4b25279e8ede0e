"""Models exported to ONNX: what ONNX Runtime makes of them equals what the operators give, bit for bit."""

import io
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import onnxruntime
import oracle
import pytest
import torch
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from onnx import helper
from onnx_models import (
    DTYPES_OF_EXPORTS,
    Model,
    affine_calls,
    affine_inputs,
    bits,
    exported,
    onnxruntime_outputs,
    onnxruntime_results,
    outputs_of,
    random_bits,
    session_of,
)
from processes import run_python
from torch import Tensor
from torch.onnx import ONNXProgram
from transform_cases import EXAMPLES, all_operators, examples, indices, program

import torch_dml_ops as dml
import torch_dml_ops.onnx
from torch_dml_ops.onnx import from_onnx

OLDEST, *BETWEEN, NEWEST = range(17, 24)
OPSETS = [OLDEST, *(pytest.param(opset, marks=pytest.mark.thorough) for opset in BETWEEN), NEWEST]

# Of torch's own.
pytestmark = [
    pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore:# The axis name:UserWarning"),
]


def session(program: ONNXProgram) -> onnxruntime.InferenceSession:
    onnx.checker.check_model(program.model_proto, full_check=True)
    return session_of(program.model_proto)


def check(program: ONNXProgram, function: Callable[..., Any], *several: Sequence[Tensor]) -> None:
    """Runs the exported model on each of the lists of inputs, and the module that it is imported as."""
    runtime, module = session(program), from_onnx(program.model_proto)
    for inputs in several:
        assert onnxruntime_outputs(runtime, inputs) == outputs_of(module, inputs) == outputs_of(function, inputs)


def exports(
    function: Callable[..., Any], example: Sequence[Tensor], *more: Sequence[Tensor], **options: Any
) -> ONNXProgram:
    program = exported(Model(function), example, **options)
    check(program, function, example, *more)
    return program


def nodes(program: ONNXProgram) -> list[str]:
    """The types of the graph's nodes, but for those that compute sizes."""
    return [node.op_type for node in program.model.graph if node.op_type not in ("Constant", "Shape", "Squeeze")]


# Random calls.


@pytest.mark.parametrize("opset", OPSETS)
def test_random_windows_and_pieces(opset: int) -> None:
    """Dimension 0 is dynamic, the others are static. Each opset has a few dtypes, and each dtype a few opsets."""
    dtypes = [DTYPES_OF_EXPORTS[(2 * opset + k) % len(DTYPES_OF_EXPORTS)] for k in range(3)]
    several = [affine_inputs(batch, dtypes) for batch in (4, 3, 7)]
    program = exports(lambda *inputs: affine_calls(opset, *inputs), *several, dynamic=True, opset_version=opset)
    assert program.model.opset_imports == {"": max(opset, 18)}  # has Split


def test_random_windows_and_pieces_of_static_sizes() -> None:
    program = exports(lambda *inputs: affine_calls(0, *inputs), affine_inputs(4, DTYPES_OF_EXPORTS))
    assert not {node.op_type for node in program.model.graph} & {"Shape", "Max"}  # nothing is left to compute


def random_lengths(sizes: Sequence[int], dtype: torch.dtype, generator: torch.Generator) -> Tensor:
    """Negative ones, those larger than any axis, and the largest of the dtype among them."""
    lengths = torch.randint(-3 if dtype.is_signed else 0, 9, tuple(sizes), generator=generator).to(dtype)
    most = np.full(1, torch.iinfo(dtype).max, str(dtype).removeprefix("torch."))
    lengths.view(-1)[-1:] = torch.from_numpy(most)[: lengths.numel()]
    return lengths


def reversal_inputs(batch: int, dtype: torch.dtype, length_dtype: torch.dtype) -> list[Tensor]:
    generator = torch.Generator().manual_seed(batch)
    lengths = [random_lengths(n, length_dtype, generator) for n in ([batch, 1, 4], [batch], [1, 5, 4])]
    return [random_bits([batch, 5, 4], dtype, generator), *lengths]


def reversals(x: Tensor, rows: Tensor, column: Tensor, across: Tensor) -> list[Tensor]:
    """Along every axis, with lengths that vary along none, one, two or all of the other axes."""
    batch = x.shape[0]
    time_major, in_four = x.transpose(0, 1), x.reshape(batch, 5, 2, 2)
    return [
        dml.reverse_subsequences(x, rows, 1),
        dml.reverse_subsequences(x, across, 0),
        dml.reverse_sequence(x, column, 1),
        dml.reverse_sequence(x, column, 2),
        dml.reverse_sequence(time_major, column, 0, batch_axis=1),
        dml.reverse_subsequences(in_four, rows[:, :, :2, None].expand(batch, 1, 2, 2), 1),
        dml.reverse_subsequences(in_four, rows[:, :, :1, None].expand(batch, 1, 2, 2), 1),
        dml.reverse_subsequences(x, across[:, :1, :1].expand(batch, 1, 4), 1),
        dml.reverse_subsequences(across[0, :, 0], across[0, 1:2, 0], 0),
    ]


def test_reversals_of_nothing() -> None:
    lengths = torch.zeros(2, 1, 0, dtype=torch.int64)
    program = exports(lambda x, lengths: dml.reverse_subsequences(x, lengths, 1), [torch.zeros(2, 3, 0), lengths])
    assert nodes(program) == ["Identity"]


@pytest.mark.parametrize("opset", OPSETS)
def test_reversals(opset: int) -> None:
    dtypes = DTYPES_OF_EXPORTS[2 * (opset - 17) % len(DTYPES_OF_EXPORTS)], oracle.LENGTH_DTYPES[opset % 4]
    several = [reversal_inputs(batch, *dtypes) for batch in (4, 7, 1, 0)]
    program = exports(reversals, *several, dynamic=True, opset_version=opset)
    assert program.model.opset_imports == {"": opset}


def test_reversals_of_static_sizes() -> None:
    count = len(DTYPES_OF_EXPORTS)
    given = [
        reversal_inputs(4, dtype, oracle.LENGTH_DTYPES[k % len(oracle.LENGTH_DTYPES)])
        for k, dtype in enumerate(DTYPES_OF_EXPORTS)
    ]

    def two_of_each(*inputs: Tensor) -> list[Tensor]:
        several = list(zip(inputs[:count], inputs[count : 2 * count], inputs[2 * count :], strict=True))
        along_rows = [dml.reverse_subsequences(x, rows, 1) for x, rows, _ in several]
        return [*along_rows, *(dml.reverse_sequence(x, column, 1) for x, _, column in several)]

    exports(two_of_each, [inputs[k] for k in range(3) for inputs in given])


def test_lengths_that_were_expanded_from_every_rank_and_size() -> None:
    def every_reversal(x: Tensor, lengths: Tensor) -> list[Tensor]:
        results = []
        for axis, rank in itertools.product(range(3), range(4)):
            for kept in itertools.product([False, True], repeat=rank):  # of the last dimensions, those that are not 1
                few = lengths[(0,) * (3 - rank)]
                for d, is_kept in enumerate(kept):
                    if not is_kept or 3 - rank + d == axis:
                        few = few.narrow(d, 0, 1)
                sizes = [1 if d == axis else n for d, n in enumerate(x.shape)]
                results.append(dml.reverse_subsequences(x, few.expand(sizes), axis))
        return results

    sizes = (2, 3, 4)
    generator = torch.Generator().manual_seed(0)
    exports(every_reversal, [torch.arange(24).view(sizes), random_lengths(sizes, torch.int64, generator)])


def test_no_reversal_gets_a_length_of_0() -> None:
    """Some versions of ONNX Runtime leave unwritten what has it."""
    x, lengths = torch.rand(4, 6), torch.tensor([-1, 0, 1, 9])
    proto = exported(Model(lambda *inputs: dml.reverse_sequence(*inputs, 1)), [x, lengths]).model_proto
    (reversal,) = (node for node in proto.graph.node if node.op_type == "ReverseSequence")
    proto.graph.output.append(helper.make_tensor_value_info(reversal.input[1], onnx.TensorProto.INT64, [4]))
    _, actual = onnxruntime_results(proto, [x, lengths])
    assert actual.tolist() == [1, 1, 1, 6]


def test_a_dynamic_size_may_become_0_and_1() -> None:
    def inputs(batch: int) -> list[Tensor]:
        return [torch.arange(5.0 * batch).reshape(batch, 5), torch.arange(batch) % 7]

    def whole_batches(x: Tensor, lengths: Tensor) -> list[Tensor]:
        batch, size = x.shape
        window = [0, 0], [batch, size], [-1, 2]
        part = dml.slice1(x, *window)
        return [
            part,
            dml.slice_grad(part, x.shape, *window),
            dml.slice_grad(x, [3 * batch, size], [0, 0], [3 * batch, size], [-3, 1]),
            dml.slice_grad(x, [3 * batch, size + 1], [0, 1], [3 * batch, size], [3, 1]),
            *dml.split(x, [1, size - 1], 1),
            dml.join([x, x], 1),
            dml.reverse_sequence(x, lengths, 1),
        ]

    exports(whole_batches, inputs(4), inputs(1), inputs(0), dynamic=True)


def test_the_longest_strides() -> None:
    def strides(x: Tensor) -> list[Tensor]:
        longest = [2**62, -(2**62), 2**63 - 1, -(2**63) + 1, -(2**63)]
        parts = [dml.slice1(x, [1], [3], [stride], steps) for stride in longest for steps in (None, [1])]
        return [*parts, *(dml.slice_grad(p, [5], [1], [3], [s]) for p, s in zip(parts[::2], longest, strict=True))]

    exports(strides, [torch.arange(5)])


def test_empty_tensors() -> None:
    def function(*inputs: Tensor) -> list[Tensor]:
        results = []
        for x in inputs:
            twice = [2 * n for n in x.shape]
            lengths = torch.ones(x.shape[0], 1, x.shape[2], dtype=torch.int64)
            pieces = dml.split(x, [1, 3], x.shape.index(4))
            results += [*pieces, dml.join(pieces, x.shape.index(4))]
            results += [dml.slice_grad(x, twice, [0, 0, 0], twice, [2, -2, 2]), dml.reverse_subsequences(x, lengths, 1)]
        return results

    exports(function, [torch.zeros(sizes) for sizes in ((0, 4, 6), (4, 0, 6), (4, 6, 0))])


# What is exported.

X = torch.arange(24.0).reshape(4, 6)
LENGTHS = torch.tensor([3, 9, 0, 1])
WINDOW = [0, 1], [4, 5], [-1, 2]  # of X
FORMS: dict[str, tuple[Callable[..., Any], list[str]]] = {
    "slice1": (lambda x: dml.slice1(x, *WINDOW), ["Slice"]),
    "slice1 of the whole": (lambda x: dml.slice1(x, [0, 0], [4, 6], [1, 1]), ["Identity"]),
    "slice_grad": (lambda x: dml.slice_grad(x, [4, 8], [0, 1], [4, 6], [1, 1]), ["ConstantOfShape", "Concat"]),
    "slice_grad backwards": (lambda x: dml.slice_grad(x, [4, 6], [0, 0], [4, 6], [-1, 1]), ["Slice"]),
    "slice_grad with steps": (
        lambda x: dml.slice_grad(x, [4, 12], [0, 0], [4, 12], [1, 2]),
        ["ConstantOfShape", "Unsqueeze", "Concat", "Reshape"],
    ),
    "split": (lambda x: dml.split(x, [1, 5], 1), ["Split"]),
    "join": (lambda x: dml.join([x, x], 1), ["Concat"]),
    "reverse_subsequences": (lambda x: dml.reverse_subsequences(x, LENGTHS[:, None], 1), ["ReverseSequence"]),
}


@pytest.mark.parametrize("form", FORMS)
def test_forms(form: str) -> None:
    function, expected = FORMS[form]
    assert nodes(exports(function, [X])) == expected


@pytest.mark.parametrize("name", ["slice1", "slice_grad", "slice_grad with steps", "join"])
def test_opset_17(name: str) -> None:
    """torch exports opset 18 and converts it, which ONNX's converter can do for all that is not Split."""
    assert exports(FORMS[name][0], [X], opset_version=17).model.opset_imports == {"": 17}


# What is built on the operators.


def numpy_indices(x: Tensor) -> list[Tensor]:
    read = dml.index(x)
    with dml.negative_steps():
        y, z = x.clone(), x.clone()
        y[::-2, 1:] = x[None, 1::2, :0:-1]
        z[:, ::-1] = x[-1]
        return [y, z, x[::-1, ::-3], read[::-2, 1:], read[-1, ::-1], read[None, ..., 1], read[1:1]]


def windows(x: Tensor) -> Tensor:
    window = dml.window(x.shape, (slice(None, None, -1), slice(-2, 0, -2)))
    return dml.slice_grad(dml.slice1(x, *window), x.shape, *window)


EXPORTS_ASSIGNMENTS = torch.__version__ >= "2.13"
assigns_with_dynamic_sizes = pytest.mark.xfail(
    not EXPORTS_ASSIGNMENTS, reason="this torch cannot export it, as the documents on building say"
)


@pytest.mark.parametrize(
    ("function", "dynamic"),
    [
        (numpy_indices, False),
        pytest.param(numpy_indices, True, marks=assigns_with_dynamic_sizes),
        (windows, False),
        (windows, True),
    ],
)
def test_indices_and_windows(function: Callable[..., Any], dynamic: bool) -> None:
    exports(function, [X], *([[torch.rand(8, 6)]] if dynamic else []), dynamic=dynamic)


SIZES_OF_A = "def f(index, arange, x, a):\nn = a.shape[0]"
BOUNDS = ["", "n", "-n", "1 - n", "n - 2", "2 * n - 2", "-(n // 2)", "x.shape[0] - n", "0", "2", "-1", "-3", "5", "-6"]
BOUNDS += ["9", "2**63 - 1", "-2**63", "10**30"]
OF_7 = ["n", "-n", "n - 1", "2 - n", "n + 1", "n - n", "-1"]  # whole numbers that 7 elements have, whatever n is
WAYS = {"read": 4, "assigned": 1, "sized": 4, "windows": 4}  # with so many indices at most


@dataclass
class Windows:
    """An index of it is what `slice1` reads with the numbers of `window`."""

    x: Tensor

    def __getitem__(self, slices: slice) -> Tensor:
        return dml.slice1(self.x, *dml.window(self.x.shape, slices))


@st.composite
def programs(draw: st.DrawFn) -> tuple[bool, tuple[int, int, int], str, list[str]]:
    dynamic, way = draw(st.booleans()), draw(st.sampled_from(list(WAYS)))
    rows, columns = draw(st.tuples(*[st.integers(2, 9)] * 2)) if dynamic else (7, 7)
    of_one = way in ("sized", "windows")
    numbers = [] if dynamic or of_one else OF_7
    drawn = indices(BOUNDS, *[numbers] * (1 if of_one else 2))
    if way == "windows":
        drawn = drawn.map(lambda index: index.removeprefix("None, "))
    sizes = rows, columns, draw(st.integers(2, 4))
    return dynamic, sizes, way, draw(st.lists(drawn, min_size=1, max_size=WAYS[way]))


@settings(examples, max_examples=max(EXAMPLES // 20, 1))
@example((False, (7, 7, 4), "assigned", [":n:-3"]))  # of which the example selects one element
@example((False, (7, 7, 4), "assigned", ["-3:-(n // 2):-3, 1"]))  # steps that are a quotient of what torch takes apart
@example((True, (7, 7, 4), "sized", ["0:-3:-2", "-1::-7", "::2"]))
@example((True, (7, 7, 4), "read", ["-1:, None", "None, 1 - n::-1, None, ::2", ":2:-1, 5:2", "-3:-6, 2:5:-1"]))
@example((True, (5, 2, 2), "read", [":, None, 9:"]))  # of which the example selects nothing
@given(programs())
def test_random_indices(drawn: tuple[bool, tuple[int, int, int], str, list[str]]) -> None:
    """Are NumPy's for many sizes of a tensor of two dimensions, and of another, whatever those of the example are.

    Not where something else is made of the size of what is read of nothing, as torch takes `x[-1:]` for one element,
    and windows not where nothing is in one.
    """
    dynamic, sizes, way, some = drawn
    assume(EXPORTS_ASSIGNMENTS or way != "assigned")
    f = program(SIZES_OF_A, **{"read": [], "assigned": [], **{"read" if way == "windows" else way: some}})
    index = Windows if way == "windows" else dml.index
    module = Model(lambda x, a: f(index, torch.arange, x, a))

    def of_numpy(rows: int, columns: int, n: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
        x = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
        inputs = [x, np.zeros(n, np.float32)]
        return inputs, [np.asarray(array) for array in f(lambda x: x, np.arange, *inputs)]

    example, results = of_numpy(*sizes)
    assume(way != "windows" or all(result.size for result in results))
    dynamic_shapes = ({0: "rows", 1: "columns"} if dynamic else None, {0: "n"})
    runtime = session(exported(module, list(map(torch.from_numpy, example)), dynamic_shapes=(dynamic_shapes,)))
    for size in itertools.product(*[range(9), (0, 1, 4, 7)] if dynamic else [[7], [7]], (0, 1, 3, 4)):
        inputs, wanted = of_numpy(*size)
        nothing = 0 in (size[0], size[2]) if way == "sized" else way == "windows" and any(not a.size for a in wanted)
        assert nothing or onnxruntime_outputs(runtime, inputs) == [bits(array) for array in wanted], size


def test_a_whole_number_that_is_out_of_range_fails() -> None:
    for number in (3, -4):
        rows = {"dynamic_shapes": (({0: "rows"},),)}
        program = exports(lambda x, number=number: dml.index(x)[number], [X], [torch.rand(9, 6)], **rows)
        for size in range(3):
            with pytest.raises(Exception, match="out of data bounds"):  # of classes of ONNX Runtime's
                onnxruntime_results(session(program), [torch.rand(size, 6)])


def gradients(x: Tensor, lengths: Tensor) -> list[Tensor]:
    """A backward graph: of every operator its transpose."""
    batch = x.shape[0]
    x = x.detach().requires_grad_()
    with torch.enable_grad():
        left, right = dml.split(dml.reverse_sequence(x, lengths, 1), [2, 4], 1)
        part = dml.slice1(dml.join([right, left, left], 1), [0, 1], [batch, 6], [-1, 2])
        result = dml.slice_grad(part, [batch, 9], [0, 1], [batch, 8], [1, 3])
        return [result, *torch.autograd.grad(result, x, result * 2)]


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_backward_graphs(dynamic: bool) -> None:
    program = exported(Model(gradients), [X, LENGTHS], dynamic=dynamic)  # which adds, as from_onnx does not
    assert onnxruntime_outputs(session(program), [X, LENGTHS]) == outputs_of(gradients, [X, LENGTHS])


@pytest.mark.thorough
def test_the_example_gives_the_same_predictions(demo: ModuleType) -> None:
    """On every other frame, as the example takes them in training: half the nodes, as its loop is unrolled."""
    torch.manual_seed(0)
    data, test = demo.load_data()
    recogniser = demo.SpeakerRecogniser()
    demo.train(recogniser, data, test, epochs=1, quiet=True)
    recogniser.eval()
    model = Model(lambda frames, lengths: recogniser(*demo.stretch(frames, lengths, 0, demo.LONGEST, 2)))
    model.add_module("recogniser", recogniser)  # for its parameters
    inputs = [test.frames, test.lengths]
    with torch.no_grad():
        expected = model(*inputs)
        program = exported(model, [x[:4] for x in inputs], dynamic=True)
    (actual,) = onnxruntime_results(session(program), inputs)
    torch.testing.assert_close(actual, expected)
    assert torch.equal(actual.argmax(1), expected.argmax(1))
    assert len(actual.argmax(1).unique()) > demo.SPEAKERS // 2  # it has learned to tell some of them apart


# What cannot be exported.


def test_the_table_of_translations_is_quiet_and_gives_the_same(caplog: pytest.LogCaptureFixture) -> None:
    function, expected = FORMS["slice1"]
    program = exported(Model(function), [X], custom_translation_table=torch_dml_ops.onnx.translation_table())
    assert nodes(program) == expected
    assert [record.getMessage() for record in caplog.records if "signature" in record.getMessage()] == []


WITHOUT = """
import sys, warnings
sys.modules["onnxruntime"] = None
import torch
from torch.onnx._internal.exporter._torchlib import _torchlib_registry, ops
del _torchlib_registry.onnx_impl
warnings.simplefilter("ignore")
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import torch_dml_ops.onnx
print(*(w.message for w in caught), *({w.filename for w in caught}))
class Model(torch.nn.Module):
    def forward(self, x):
        return torch_dml_ops.slice1(x, [0], [6], [-2])
table = torch_dml_ops.onnx.translation_table()
program = torch.onnx.export(Model(), (torch.arange(6),), dynamo=True, custom_translation_table=table, verbose=False)
print(*(node.op_type for node in program.model.graph))
"""


def test_another_torch_has_the_table_and_nothing_needs_onnxruntime() -> None:
    warning, types = run_python("-c", WITHOUT).splitlines()
    assert warning.startswith(
        f"torch_dml_ops.onnx: this torch ({torch.__version__}) has another registry (torch.onnx._internal"
    )
    assert warning.endswith(
        "; pass custom_translation_table=torch_dml_ops.onnx.translation_table() to torch.onnx.export <string>"
    )
    assert types == "Slice"


def test_complex_tensors_become_pairs() -> None:
    x, lengths = torch.view_as_complex(torch.rand(4, 3, 6, 2)), torch.arange(24).reshape(4, 1, 6) % 5
    program = exported(Model(all_operators), [x, lengths])
    actual = onnxruntime_results(session(program), [torch.view_as_real(x), lengths])
    for pairs, expected in zip(actual, all_operators(x, lengths), strict=True):
        assert torch.equal(pairs, torch.view_as_real(expected))


@pytest.mark.parametrize(
    ("x", "stride", "sentence"),
    [
        (
            X.to(torch.float8_e5m2),
            lambda x: 1,
            "a tensor must have a dtype that ONNX moves, got FLOAT8E5M2; convert it to float32",
        ),
        (
            X,
            lambda x: x.shape[0],
            "window_strides[1] must be a constant, got one that depends on a dynamic size; make that size static",
        ),
    ],
    ids=["float8", "stride"],
)
def test_what_onnx_cannot_say_gets_a_sentence(x: Tensor, stride: Callable[..., Any], sentence: str) -> None:
    with pytest.raises(torch.onnx.OnnxExporterError) as caught:
        exported(Model(lambda x: dml.slice1(x, [0, 0], [x.shape[0], 6], [1, stride(x)])), [x], dynamic=True)
    assert f"slice1: to be exported, {sentence}" in str(caught.value)


def test_the_older_exporter_gets_a_sentence() -> None:
    sentence = "{}: torch.onnx.export must be called with dynamo=True, got dynamo=False"
    for function, op in (
        (lambda x: dml.index(x)[::-2], "slice1"),
        (lambda x: dml.join(dml.split(x, [1, 2], 0), 0), "split"),
        (lambda x: dml.reverse_sequence(x, torch.tensor([1, 2, 3]), 1), "reverse_subsequences"),
    ):
        with pytest.raises(RuntimeError) as caught:
            torch.onnx.export(Model(function), (torch.zeros(3, 4),), io.BytesIO(), dynamo=False)
        assert str(caught.value) == sentence.format(op)
