"""ONNX models as modules: by from_onnx, and by onnx2torch with the converters of register_onnx2torch.

Compared with the test cases that the onnx package has for its operators, and with ONNX Runtime.
"""

import copy
import functools
import inspect
import io
import itertools
import keyword
import pickle
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.backend.test.case.node as node_cases
import onnxruntime
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    external_data_helper,
    helper,
    numpy_helper,
    parser,
)
from onnx.reference import ReferenceEvaluator
from onnx_models import (
    CASES,
    DTYPES_OF_EXPORTS,
    LEAST,
    MOST,
    REFUSED_CASES,
    Model,
    affine_calls,
    affine_inputs,
    bits,
    by_onnx2torch,
    each_importer,
    exported,
    filled,
    model_of,
    onnxruntime_outputs,
    outputs_of,
    random_bits,
    reason,
    tensor_of,
)
from oracle import as_list
from processes import run_python
from torch import Tensor, fx

import torch_dml_ops as dml
from torch_dml_ops.onnx import from_onnx, register_onnx2torch
from torch_dml_ops.onnx._importer import indexing
from torch_dml_ops.onnx._importer.graph import (
    IGNORED_ATTRIBUTES,
    OPERATORS,
    in_todays_form,
    operator_of,
    parameters_of,
)
from torch_dml_ops.onnx._onnx2torch import OPERATOR_TYPES, DataMovement

# Values.


def one(
    op: str,
    feeds: Mapping[str, np.ndarray],
    constants: Mapping[str, np.ndarray] | None = None,
    outputs: Sequence[str] = ("y",),
    opset: int = 18,
    **attributes: Any,
) -> ModelProto:
    """A model of one node, which reads the feeds and then the constants, and gives the dtype of the first of them."""
    given = {**feeds, **(constants or {})}
    node = helper.make_node(op, [*given], outputs, **attributes)
    return model_of([node], feeds, dict.fromkeys(outputs, next(iter(given.values())).dtype), constants, opset)


# The cases of the onnx package.


def outputs_of_case(case: Any, importer: Callable[[ModelProto], torch.nn.Module]) -> None:
    ((inputs, outputs),) = case.data_sets
    assert outputs_of(importer(case.model), inputs) == [bits(np.asarray(output)) for output in outputs]


@pytest.mark.parametrize("name", CASES)
def test_the_onnx_package_s_cases(name: str) -> None:
    if why := reason(name):
        assert re.search(f" {why}(; for whole models see register_onnx2torch)?$", refusal(CASES[name].model))
    else:
        outputs_of_case(CASES[name], from_onnx)


# Those that are refused are left to onnx2torch itself, as constants are.
@pytest.mark.parametrize(
    "name",
    [name for name, case in CASES.items() if not (reason(name) or case.model.graph.node[0].op_type == "Constant")],
)
def test_the_onnx_package_s_cases_by_onnx2torch(name: str) -> None:
    outputs_of_case(CASES[name], by_onnx2torch)


def test_the_cases_are_found() -> None:
    assert len(CASES) >= 250
    assert {"slice_neg_steps", "split_zero_size_splits_opset18", "reversesequence_batch", "wrap_pad", "triu_pos"} <= {
        name.removeprefix("test_") for name in CASES
    }
    assert len([name for name in CASES if name.startswith("test_resize") and reason(name) is None]) >= 15
    for names in REFUSED_CASES:
        assert any(re.fullmatch(f"test_({names})", name) for name in CASES)


def test_the_onnx_package_s_other_cases() -> None:
    """Of other operators and of several nodes: refused in a sentence, or as they should be."""
    for case in node_cases._NodeTestCases:
        if case.name not in CASES:
            try:
                outputs_of_case(case, from_onnx)
            except (NotImplementedError, ValueError) as error:
                sentence = str(error)
                kind = "|".join([
                    r"graph\.node.* must (move data|have an element type that torch has), got [\w. ]+",
                    r"input '\w+' must (have an element type that torch has|be a tensor), got \w+",
                    r"model must say which opset of ONNX it uses, and says [\w.]+ \d+ alone",
                ])  # fmt: skip
                if not re.fullmatch(f"from_onnx: ({kind})(; for whole models see register_onnx2torch)?", sentence):
                    raise


def test_every_input_and_attribute_of_every_opset_has_a_parameter() -> None:
    """Or is known to be without meaning for data movement."""
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain or schema.name not in OPERATORS:
            continue
        operator = operator_of(schema.name, schema.since_version)
        if schema.since_version < operator.since or operator.on_tensors is None or schema.deprecated:
            continue
        names = parameters_of(operator.on_tensors)
        if names is not None:
            inputs = [given.name for given in schema.inputs]
            assert inputs == names[: len(inputs)], (schema.name, schema.since_version)
        attributes = in_todays_form(schema.name, dict.fromkeys(schema.attributes), schema.since_version, 1)
        accepted = set(inspect.signature(operator.on_tensors).parameters)
        assert set(attributes) <= accepted, (schema.name, schema.since_version)
    assert IGNORED_ATTRIBUTES.isdisjoint({"axis", "axes", "split", "starts"})


def test_every_version_of_the_operators_has_our_converter() -> None:
    from onnx2torch.node_converters.registry import get_converter

    for schema in onnx.defs.get_all_schemas_with_history():
        op, version = schema.name, schema.since_version
        since = (
            1 if op in ("Shape", "Size") else operator_of(op, version).since if op in OPERATOR_TYPES else version + 1
        )
        if not schema.domain and version >= since:
            assert get_converter(op, version).__module__.startswith("torch_dml_ops.")


# Operators on sizes, as NumPy has them.

OF_SIZES: dict[str, tuple[int, Callable[..., Any]]] = {  # how many values, and what becomes of them
    "Add": (2, np.add),
    "Concat": (2, lambda *values: np.concatenate(values)),
    "Div": (2, lambda a, b: np.where(b == 0, None, np.fix(a / np.where(b == 0, 1, b))).astype(np.int64)),
    "Gather": (2, np.take),
    "Max": (3, lambda *values: functools.reduce(np.maximum, values)),
    "Min": (3, lambda *values: functools.reduce(np.minimum, values)),
    "Mod": (2, lambda a, b: np.where(b == 0, None, a % np.where(b == 0, 1, b)).astype(np.int64)),
    "Mul": (2, np.multiply),
    "Reshape": (2, np.reshape),
    "Squeeze": (1, lambda value: np.squeeze(value, 0)),
    "Sub": (2, np.subtract),
    "Unsqueeze": (2, lambda value, axes: value[None]),
}
SOME_SIZES = [0, 1, 2, 7, -3, (), (-1,), (0,), (1,), (2,), (5, 4), (0, 1), (3, -2, 2)]
LISTS_ALONE = {"Concat": 2, "Gather": 1, "Squeeze": 1}  # as that many of its first values


def test_each_operator_is_taken_from_the_opset_on_in_which_onnx_changed_it() -> None:
    versions = {name: {1} for name in OPERATORS}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "" and schema.name in versions:
            versions[schema.name].add(schema.since_version)
    assert [name for name, operator in OPERATORS.items() if operator.since not in versions[name]] == []


@pytest.mark.parametrize("op", OF_SIZES)
def test_an_operator_on_sizes_is_numpys(op: str) -> None:
    """Where NumPy refuses it, or has no result of int64, it is refused too. (Reshape has one dimension at most.)"""
    count, numpys = OF_SIZES[op]
    named = {"Concat": {"axis": 0}}.get(op, {})
    outcomes, said = set(), list[str]()
    for values in itertools.product(SOME_SIZES, repeat=count):
        if any(isinstance(value, int) for value in values[: LISTS_ALONE.get(op, 0)]):
            continue
        if (op == "Reshape" and (values[1] == 0 or not len(np.shape(values[1])) or len(values[1]) > 1)) or (
            op == "Unsqueeze" and (isinstance(values[0], tuple) or values[1] != (0,))
        ):
            continue
        try:
            expected = numpys(*(np.asarray(value, np.int64) for value in values)).tolist()
        except (ValueError, TypeError, IndexError):
            expected = None
        try:
            result: Any = OPERATORS[op].on_sizes(*values, **named)
        except ValueError as error:
            result = None
            said.append(str(error))
        as_lists = list(result) if isinstance(result, tuple) else result
        assert as_lists == expected, values
        outcomes.add(result is None)
    assert False in outcomes
    assert all(sentence.startswith(f"{op}: ") for sentence in said)


# Against ONNX Runtime.

DTYPES = [np.dtype(name) for name in ("float32", "float64", "float16", "int64", "int32", "int8", "uint8", "bool")]
SIZES = st.lists(st.integers(0, 5), min_size=1, max_size=4)
BOUNDS = st.integers(-8, 8) | st.sampled_from([LEAST, LEAST + 1, -(2**31), 2**31 - 1, MOST])
STEPS = st.sampled_from([1, 2, 3, -1, -2, -3, 100, -100, 2**31 - 1, -(2**31), MOST, LEAST + 1])


def agrees(node: NodeProto, feeds: Mapping[str, np.ndarray], opset: int, constants: Sequence[str] = ()) -> None:
    """A model of one node, whose inputs of these names are constants: as ONNX Runtime, by both importers."""
    known = {name: feeds[name] for name in constants}
    given = {name: array for name, array in feeds.items() if name not in known}
    model = model_of([node], given, dict.fromkeys(node.output, feeds["x"].dtype), known, opset)
    expected = [bits(output) for output in onnxruntime_outputs(model, given)]
    assert outputs_of(from_onnx(model), list(given.values())) == expected
    assert outputs_of(by_onnx2torch(model), list(given.values())) == expected


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_slice(data: st.DataObject) -> None:
    x = filled(data.draw(SIZES), data.draw(st.sampled_from(DTYPES)))
    axes = data.draw(st.lists(st.integers(0, x.ndim - 1), unique=True, min_size=1))
    opset = data.draw(st.integers(7, 23))
    bounds = st.lists(BOUNDS, min_size=len(axes), max_size=len(axes))
    starts, ends = data.draw(bounds), data.draw(bounds)
    if opset < 10:
        node = helper.make_node("Slice", ["x"], ["y"], starts=starts, ends=ends, axes=axes)
        agrees(node, {"x": x}, opset)
        return
    if opset >= 11:
        axes = [data.draw(st.sampled_from([d, d - x.ndim])) for d in axes]
    steps = data.draw(st.lists(STEPS, min_size=len(axes), max_size=len(axes)))
    kind = data.draw(st.sampled_from([np.int64, np.int32]))
    lists = {"starts": starts, "ends": ends, "axes": axes, "steps": steps}
    limits = np.iinfo(kind)
    feeds = {"x": x} | {name: np.clip(numbers, limits.min, limits.max).astype(kind) for name, numbers in lists.items()}
    constants = data.draw(st.lists(st.sampled_from([*lists]), unique=True))
    agrees(helper.make_node("Slice", [*feeds], ["y"]), feeds, opset, constants)


@pytest.mark.parametrize(
    ("start", "end", "selected"),
    [
        (-7, -9, [0.0]),  # by ONNX's rule it begins at the first element; Python selects nothing
        (-2, 2**31 - 1, [3.0, 2.0, 1.0, 0.0]),  # in ONNX Runtime alone it ends there; by ONNX's rule it selects nothing
        (9, MOST, [4.0, 3.0, 2.0, 1.0, 0.0]),
    ],
)
@pytest.mark.parametrize("constants", [(), ("starts", "ends")], ids=["inputs", "constants"])
def test_slice_downwards(constants: Sequence[str], start: int, end: int, selected: list[float]) -> None:
    feeds = {"x": np.arange(5.0), "starts": np.array([start]), "ends": np.array([end]), "axes": np.array([0])}
    feeds["steps"] = np.array([-1])
    node = helper.make_node("Slice", [*feeds], ["y"])
    agrees(node, feeds, 13, constants)
    (y,) = onnxruntime_outputs(one("Slice", feeds), feeds)
    assert y.tolist() == selected


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_split(data: st.DataObject) -> None:
    opset = data.draw(st.integers(7, 23))
    sizes = data.draw(SIZES)
    d = data.draw(st.integers(0, len(sizes) - 1))
    axis = data.draw(st.sampled_from([d, d - len(sizes)])) if opset >= 11 else d
    pieces = data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=5))
    names = [f"y{k}" for k in range(len(pieces))]
    form = data.draw(st.sampled_from(["sizes", "equal"]))
    if form == "equal" and opset >= 18:
        each = pieces[0] + 1
        last = data.draw(st.integers(1, each))
        pieces = [each] * (len(names) - 1) + [last]
    elif form == "equal":
        pieces = [pieces[0]] * len(names)
    x = filled([*sizes[:d], sum(pieces), *sizes[d + 1 :]], data.draw(st.sampled_from(DTYPES)))
    if form == "equal":
        number = {"num_outputs": len(names)} if opset >= 18 else {}
        agrees(helper.make_node("Split", ["x"], names, axis=axis, **number), {"x": x}, opset)
    elif opset < 13:
        agrees(helper.make_node("Split", ["x"], names, axis=axis, split=pieces), {"x": x}, opset)
    else:
        feeds = {"x": x, "split": np.array(pieces)}
        constants = data.draw(st.sampled_from([(), ("split",)]))
        agrees(helper.make_node("Split", [*feeds], names, axis=axis), feeds, opset, constants)


def splits(number: int, rank: int = 1) -> ModelProto:
    x = np.zeros([0] * rank, np.float32)
    return one("Split", {"x": x}, outputs=[f"y{k}" for k in range(number)], num_outputs=number, axis=-1)


@each_importer
@pytest.mark.parametrize("number", [1, 2, 3, 4, 7])
def test_split_in_more_pieces_than_there_are(number: int, importer: Callable[[ModelProto], torch.nn.Module]) -> None:
    """As ONNX's own implementation; ONNX Runtime splits only where no piece is empty."""
    for sizes in ((), (2,), (0,)):
        model = splits(number, len(sizes) + 1)
        module, reference = importer(model), ReferenceEvaluator(model)
        for size in range(12):
            x = filled((*sizes, size), np.dtype("float32"))
            expected = [bits(np.ascontiguousarray(piece)) for piece in reference.run(None, {"x": x})]
            assert outputs_of(module, [x]) == expected


@pytest.mark.filterwarnings("ignore")  # from within torch's exporter
def test_split_of_dynamic_sizes() -> None:
    """In torch.compile, torch.export and what is exported to ONNX again; the last pieces may be empty."""
    module = from_onnx(splits(4)).eval()
    dynamic = {"dynamic_shapes": ({0: torch.export.Dim.DYNAMIC},)}
    program = torch.export.export(module, (torch.zeros(8),), **dynamic).module()
    again = torch.onnx.export(module, (torch.zeros(8),), dynamo=True, verbose=False, **dynamic).model_proto
    torch.compiler.reset()
    compiled = torch.compile(module, fullgraph=True, dynamic=True, backend="eager")
    for size in range(13):
        x = np.arange(size, dtype=np.float32)
        expected = outputs_of(module, [x])
        assert outputs_of(compiled, [x]) == expected
        assert [bits(y) for y in onnxruntime_outputs(again, {"x": x})] == expected
        if size in (8, 11, 12):  # of pieces of several elements, which torch.export takes for granted
            assert outputs_of(program, [x]) == expected
    torch.compiler.reset()


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_concat(data: st.DataObject) -> None:
    opset = data.draw(st.integers(7, 23))
    sizes, dtype = data.draw(SIZES), data.draw(st.sampled_from(DTYPES))
    d = data.draw(st.integers(0, len(sizes) - 1))
    axis = data.draw(st.sampled_from([d, d - len(sizes)])) if opset >= 11 else d
    along = data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=5))
    names = ["x", *(f"x{k}" for k in range(1, len(along)))]
    feeds = {name: filled([*sizes[:d], n, *sizes[d + 1 :]], dtype) for name, n in zip(names, along, strict=True)}
    constants = data.draw(st.lists(st.sampled_from(names[1:]), unique=True)) if names[1:] else []
    agrees(helper.make_node("Concat", names, ["y"], axis=axis), feeds, opset, constants)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_reverse_sequence(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 5), min_size=2, max_size=4))
    x = filled(sizes, data.draw(st.sampled_from(DTYPES)))
    time_axis = data.draw(st.integers(0, 1))
    lengths = st.lists(st.integers(1, sizes[time_axis]), min_size=sizes[1 - time_axis], max_size=sizes[1 - time_axis])
    feeds = {"x": x, "lengths": np.array(data.draw(lengths))}
    axes = {"time_axis": time_axis, "batch_axis": 1 - time_axis}
    if time_axis == 0 and data.draw(st.booleans()):
        axes = {}
    constants = data.draw(st.sampled_from([(), ("lengths",)]))
    agrees(
        helper.make_node("ReverseSequence", [*feeds], ["y"], **axes),
        feeds,
        data.draw(st.integers(10, 23)),
        constants,
    )


@pytest.mark.parametrize("dynamic", [pytest.param(False, marks=pytest.mark.thorough), True], ids=["static", "dynamic"])
def test_every_model_that_the_package_exports(dynamic: bool) -> None:
    """bfloat16 among the dtypes, which is reversed by other nodes, and an axis of a dynamic size."""
    count = len(DTYPES_OF_EXPORTS)

    def function(rows: Tensor, columns: Tensor, *inputs: Tensor) -> list[Tensor]:
        reversals = [
            y
            for x in inputs[count:]
            for y in (dml.reverse_sequence(x, rows, 1), dml.reverse_sequence(x, columns[0], 0, 1))
        ]
        return [*affine_calls(3, *inputs[:count]), *reversals]

    def inputs(batch: int) -> list[Tensor]:
        generator = torch.Generator().manual_seed(0)
        pictures = [random_bits((batch, 5), dtype, generator) for dtype in DTYPES_OF_EXPORTS]
        lengths = torch.arange(batch) * 3, torch.tensor([[3, 9, 0, 1, 2]])
        return [*lengths, *affine_inputs(batch, DTYPES_OF_EXPORTS), *pictures]

    module = from_onnx(exported(Model(function), inputs(4), dynamic=dynamic).model_proto)
    for batch in (4, 3, 7) if dynamic else (4,):
        given = inputs(batch)
        assert [bits(y) for y in module(*given)] == [bits(y) for y in function(*given)]


# Graphs of several nodes.

HALVES = """
<ir_version: 8, opset_import: ["": 18]>
halves (float[N, T, C] x) => (float[U, T, C] y) {
    one = Constant <value_int = 1> ()
    two = Constant <value_int = 2> ()
    axes = Constant <value_ints = [1]> ()
    zero_axis = Constant <value_ints = [0]> ()
    minus_two = Constant <value_ints = [-2]> ()
    lowest = Constant <value_ints = [-9223372036854775807]> ()
    sizes = Shape (x)
    time = Gather <axis = 0> (sizes, one)
    half = Div (time, two)
    middle = Unsqueeze (half, zero_axis)
    length = Unsqueeze (time, zero_axis)
    late = Slice (x, middle, length, axes)
    early = Slice (x, minus_two, lowest, axes, minus_two)
    both = Concat <axis = 1> (late, early, x)
    rest = Shape <start = 2> (x)
    everything = Constant <value_ints = [-1]> ()
    shape = Concat <axis = 0> (everything, rest)
    y = Reshape (both, shape)
}
"""


MOVES = """
<ir_version: 8, opset_import: ["": 19]>
moves (float[N, T, 4, 6] x) => (
    float[N, A, 4, 8] a, float[N, B, 7, 4] b, float[N, C, 7, 6] c, float[N, T, 8, 12] d, float[N, E, 2, 3] e,
    float[N, T, 2] f, float[N, T, 4, 6] g, float[N, T, 4, 6] h, float[N, I, 12, 6] i, float[N, T, 8, 6] j,
    float[N, T, 2, 6] k, int64[L] l, float[N, T, 4, 6] m, float[N, T, 3, 9] n
) <
    int64[8] edge = {0, 3, -1, 2, 0, 2, 1, 0}, int64[8] reflect = {0, 1, 3, 0, 0, 0, 0, -2},
    int64[8] wrap = {0, 2, 0, 0, 0, 1, 3, 0}, int64[2, 2] places = {0, 1, 3, -1}, int64[2, 1] rows = {3, 0},
    int64[2] pieces = {2, 2}, int64 one = {1}, float[4] scales = {1, 2, 3, 1}, bool[4] some = {1, 0, 0, 1},
    int64[4] twice = {1, 1, 2, 1}, int32 nine = {9}, int32 zero = {0}, int32 down = {-2},
    int64[1, 1, 1, 2] columns = {5, -6}, float[1, 1, 1, 2] numbers = {2.5, -0.5}, int64[2] centred = {3, 9}
> {
    a = Pad <mode = "edge"> (x, edge)
    b = Pad <mode = "reflect"> (x, reflect)
    c = Pad <mode = "wrap"> (x, wrap)
    four = Concat <axis = 1> (x, x, x, x)
    d = DepthToSpace <blocksize = 2> (four)
    e = SpaceToDepth <blocksize = 2> (x)
    turned = Transpose <perm = [2, 3, 0, 1]> (x)
    gathered = GatherND (turned, places)
    f = Transpose <perm = [1, 2, 0]> (gathered)
    early, late = Split <axis = 0> (turned, pieces)
    scattered = ScatterND (turned, rows, late)
    g = Transpose <perm = [2, 3, 0, 1]> (scattered)
    h = Trilu <upper = 0> (x, one)
    i = Resize <coordinate_transformation_mode = "asymmetric", nearest_mode = "ceil"> (x, , scales)
    sizes = Shape (x)
    doubled = Mul (sizes, twice)
    j = Resize (x, , , doubled)
    k = Compress <axis = 2> (x, some)
    m = ScatterElements <axis = 3> (x, columns, numbers)
    n = CenterCropPad <axes = [2, -1]> (x, centred)
    range = Range (nine, zero, down)
    l = Cast <to = 7> (range)
}
"""

AGAIN = """
<ir_version: 8, opset_import: ["": 18]>
again (float[N] x) => (float[A] a, float[B] b, float[C] c)
<int64[1] minus = {-1}, int64[1] zero = {0}, int64[1] one = {1}, int64[1] three = {3}, int64[1] seven = {-7},
 int64[1] two = {2}, int64[1] lowest = {-9223372036854775807}> {
    a = Slice (x, seven, lowest, zero, minus)
    size = Shape (x)
    computed = Sub (one, size)
    b = Slice (x, computed, lowest, zero, minus)
    less = Sub (size, three)
    quotient = Div (less, two)
    c = Slice (x, zero, quotient)
}"""


COMPUTED = """
<ir_version: 8, opset_import: ["": 18]>
computed (float[N, T, C] x) => (float[N, U, C] y, float[N, V, C] z)
<int64[1] zero = {0}, int64[1] one = {1}, int64 two = {2}, int64[1] lowest = {-9223372036854775808}> {
    sizes = Shape (x)
    time = Gather <axis = 0> (sizes, one)
    half = Div (time, two)
    rest = Sub (time, half)
    pieces = Concat <axis = 0> (half, rest)
    early, late = Split <axis = -2> (x, pieces)
    down = Sub (zero, one)
    turned = Slice (x, half, lowest, one, down)
    rows = Gather <axis = 0> (sizes, zero)
    lengths = Expand (half, rows)
    y = Concat <axis = -2> (late, early, late, turned)
    z = ReverseSequence <batch_axis = 0, time_axis = 1> (early, lengths)
}"""


@pytest.mark.parametrize(
    ("importer", "text", "several"),
    [
        (from_onnx, HALVES, [(2, 6, 3), (1, 5, 1), (3, 2, 2)]),
        (from_onnx, MOVES, [(2, 3, 4, 6), (1, 2, 4, 6)]),
        *((importer, COMPUTED, [(2, 6, 3), (1, 5, 1), (3, 1, 2)]) for importer in (from_onnx, by_onnx2torch)),
    ],
    ids=["halves", "moves", "computed", "computed by onnx2torch"],
)
def test_sizes_that_the_graph_computes(
    importer: Callable[[ModelProto], torch.nn.Module], text: str, several: Sequence[tuple[int, ...]]
) -> None:
    model = parser.parse_model(text)
    module = importer(model)
    for sizes in several:
        x = filled(sizes, np.dtype("float32"))
        assert outputs_of(module, [x]) == [bits(output) for output in onnxruntime_outputs(model, {"x": x})]


@pytest.mark.parametrize(
    ("text", "several"),
    [(HALVES, [(3, 8, 4), (2, 6, 4), (5, 9, 4), (3, 12, 4)]), (MOVES, [(2, 3, 4, 6), (3, 2, 4, 6), (5, 7, 4, 6)])],
    ids=["halves", "moves"],
)
def test_sizes_that_the_graph_computes_stay_symbolic(text: str, several: Sequence[tuple[int, ...]]) -> None:
    """One graph for every size, in torch.compile and torch.export, without a break."""
    module = from_onnx(parser.parse_model(text))
    graphs = []

    def backend(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        graphs.append(graph)
        return graph

    torch.compiler.reset()
    compiled = torch.compile(module, fullgraph=True, dynamic=True, backend=backend)
    dims = dict.fromkeys(range(2), torch.export.Dim.DYNAMIC)
    program = torch.export.export(module, (torch.randn(several[0]),), dynamic_shapes={"x": dims}).module()
    for sizes in several[1:]:
        x = [filled(sizes, np.dtype("float32"))]
        assert outputs_of(compiled, x) == outputs_of(program, x) == outputs_of(module, x)
    assert len(graphs) == 1
    torch.compiler.reset()


def test_arithmetic_of_sizes() -> None:
    """As ONNX Runtime computes it: division towards zero, lengths 1 broadcast."""
    text = """
    <ir_version: 8, opset_import: ["": 18]>
    sizes (float[N, T] x) => (
        int64[A] a, int64[B] b, int64 c, int64[D] d, int64[E] e, int64[F] f, int64 g, int64[H] h, int64[I] i
    ) {
        minus = Constant <value_ints = [-4]> ()
        pair = Constant <value_ints = [10, -3]> ()
        all = Shape (x)
        last = Shape <start = -1> (x)
        less = Sub (all, pair)
        a = Div (less, minus)
        most = Max (all, pair, last)
        least = Min (pair, last)
        b = Mul (most, least)
        c = Size (x)
        sum = Add (pair, pair)
        begin = Constant <value_ints = [1]> ()
        down = Constant <value_ints = [-1]> ()
        end = Constant <value_ints = [-9]> ()
        zero = Constant <value_ints = [0]> ()
        d = Slice (sum, begin, end, zero, down)
        both = Constant <value_ints = [1, -2]> ()
        picked = Gather (all, both)
        e = Identity (picked)
        scalar = Squeeze (last, zero)
        f = Reshape (scalar, down)
        g = Cast <to = 7> (scalar)
        h = Mod (less, minus)
        i = Mod <fmod = 1> (less, minus)
    }
    """
    model = parser.parse_model(text)
    x = np.zeros((4, 7), np.float32)
    assert outputs_of(from_onnx(model), [x]) == [bits(output) for output in onnxruntime_outputs(model, {"x": x})]


def test_lengths_that_are_clipped_and_cast() -> None:
    model = parser.parse_model("""
    <ir_version: 8, opset_import: ["": 18]>
    clipped (float[N, T] x, uint32[N] lengths) => (float[N, T] y) {
        least = Constant <value = uint32 {0}> ()
        most = Constant <value = uint32 {5}> ()
        clipped = Clip (lengths, least, most)
        cast = Cast <to = 7> (clipped)
        y = ReverseSequence <batch_axis = 0, time_axis = 1> (x, cast)
    }""")
    x, lengths = np.arange(15, dtype=np.float32).reshape(3, 5), np.array([2, 2**32 - 1, 0], np.uint32)
    (result,) = outputs_of(from_onnx(model), [x, lengths])
    assert result == bits(np.array([[1, 0, 2, 3, 4], [9, 8, 7, 6, 5], [10, 11, 12, 13, 14]], np.float32))


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"])
def test_clip_and_less_of_every_whole_dtype(dtype: str) -> None:
    limits = np.iinfo(dtype)
    x = np.array([limits.min, 0, 1, 5, 7, 100, limits.max], dtype)
    feeds = {"x": x, "least": np.array(1, dtype), "most": np.array(7, dtype)}
    nodes = [helper.make_node("Clip", [*feeds], ["clipped"]), helper.make_node("Less", ["x", "most"], ["less"])]
    model = model_of(nodes, feeds, {"clipped": x.dtype, "less": np.dtype("bool")})
    clipped, less = np.clip(*feeds.values()), np.less(x, feeds["most"])
    assert outputs_of(from_onnx(model), [*feeds.values()]) == [bits(clipped), bits(less)]


GLUED = """
<ir_version: 8, opset_import: ["": 18]>
glued (double[N, 4] x, int64[N] lengths) => (double[N, 7] y, double[N, 4] z)
<double[1, 3] learned = {0.5, -1.5, 2.5}, int64[1] axes = {1}, int64[1] minus = {-2},
 int64[1] first = {-1}, int64[1] last = {-9}> {
    z = ReverseSequence <batch_axis = 0, time_axis = 1> (x, lengths)
    a, b = Split <axis = 1, num_outputs = 2> (z)
    turned = Slice (x, first, last, axes, minus)
    rows = Shape <end = 1> (x)
    columns = Constant <value_ints = [3]> ()
    shape = Concat <axis = 0> (rows, columns)
    repeated = Expand (learned, shape)
    y = Concat <axis = 1> (b, turned, repeated)
}
"""


def test_gradients() -> None:
    """With respect to inputs, and to initializers, which are parameters."""
    module = from_onnx(parser.parse_model(GLUED))
    assert [(name, p.tolist()) for name, p in module.named_parameters()] == [("learned", [[0.5, -1.5, 2.5]])]
    x = torch.randn(3, 4, dtype=torch.double, requires_grad=True)

    def f(x: Tensor, learned: Tensor) -> tuple[Tensor, ...]:
        result: tuple[Tensor, ...] = torch.func.functional_call(
            module, {"learned": learned}, (x, torch.tensor([4, 2, 3]))
        )
        return result

    assert torch.autograd.gradcheck(f, (x, module.learned))
    assert torch.autograd.gradgradcheck(f, (x, module.learned))


@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize("of_a_node", [False, True])
def test_what_several_nodes_use_is_one_tensor(of_a_node: bool, dtype: str) -> None:
    """As weights that are tied: an initializer, or a constant, by every way on which a node can get it."""
    value, x = np.array([1, 2], dtype), np.array([5, 6], dtype)
    indices = helper.make_node("Gather", ["several", "i"], ["y"])
    nodes = [
        helper.make_node("Concat", ["x", "w"], ["a"], axis=0),
        helper.make_node("Concat", ["w", "a", "w"], ["several"], axis=0),
        helper.make_node("Expand", ["w", "shape"], ["b"]),
        helper.make_node("Where", ["some", "w", "x"], ["c"]),
        indices,
    ]
    constants = {"i": np.array([0]), "shape": np.array([3, 2]), "some": np.array([True, False])}
    if of_a_node:
        nodes.insert(0, helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(value)))
    else:
        constants["w"] = value
    outputs = dict.fromkeys(("several", "b", "c", "w"), value.dtype)
    module = from_onnx(model_of(nodes, {"x": x}, outputs, constants))
    held = [tensor for tensor in (*module.parameters(), *module.buffers()) if tensor.tolist() == [1, 2]]
    assert len(held) == 1
    with torch.no_grad():
        held[0].add_(2)
    assert [output.tolist() for output in module(torch.from_numpy(x))] == [
        [3, 4, 5, 6, 3, 4, 3, 4],
        [[3, 4]] * 3,
        [3, 6],
        [3, 4],
    ]


def test_module_is_copied_saved_and_moved_as_others(tmp_path: Path) -> None:
    module = from_onnx(parser.parse_model(GLUED))
    arguments = torch.randn(3, 4, dtype=torch.double), torch.tensor([4, 2, 3])
    expected = [bits(output) for output in module(*arguments)]
    torch.save(module, tmp_path / "module.pt")
    same = (
        copy.deepcopy(module),
        pickle.loads(pickle.dumps(module)),
        torch.load(tmp_path / "module.pt", weights_only=False),
    )
    for other in same:
        assert [bits(output) for output in other(*arguments)] == expected
        other.load_state_dict(module.state_dict())
    moved = module.to("meta")
    assert [output.shape for output in moved(*(a.to("meta") for a in arguments))] == [(3, 7), (3, 4)]


def test_names_that_python_does_not_take() -> None:
    x = np.arange(4.0, dtype=np.float32)
    nodes = [
        helper.make_node("Concat", ["x:0", "x.0", "1", "training"], ["class"], axis=0),
        helper.make_node("Identity", ["class"], ["/a/b.2"]),
    ]
    constants = {"1": x, "training": x}
    model = model_of(nodes, {"x:0": x, "x.0": x + 1}, {"/a/b.2": x.dtype, "class": x.dtype, "1": x.dtype}, constants)
    outputs = outputs_of(from_onnx(model), [x, x + 1])
    assert outputs == [bits(np.concatenate([x, x + 1, x, x]))] * 2 + [bits(x)]


def names_that_modules_have() -> list[str]:
    empty = fx.GraphModule(torch.nn.Module(), fx.Graph())
    return sorted({*dir(empty), *keyword.kwlist, "self", "torch", "device", "print"})


def test_names_of_python_and_of_modules() -> None:
    """As those of an input, a parameter, a buffer and an output each, one by one."""
    x = np.arange(2.0, dtype=np.float32)
    joined = [bits(np.concatenate([x, x]))]
    for name in names_that_modules_have():
        concat = helper.make_node("Concat", ["other", name], ["result"], axis=0)
        for array in (x, x.astype(np.int64)):
            module = from_onnx(model_of([concat], {"other": array}, {"result": array.dtype}, {name: array}))
            copied = pickle.loads(pickle.dumps(copy.deepcopy(module)))
            expected = [bits(np.concatenate([array, array]))]
            assert outputs_of(module, [array]) == outputs_of(copied, [array]) == expected, name
        assert outputs_of(from_onnx(model_of([concat], {"other": x, name: x}, {"result": x.dtype})), [x, x]) == joined
        named = helper.make_node("Concat", ["other", "other"], [name], axis=0)
        assert outputs_of(from_onnx(model_of([named], {"other": x}, {name: x.dtype})), [x]) == joined, name


NO_NUMBERS = {"numbers": np.array([], np.int64)}


@pytest.mark.parametrize(
    ("op", "lists"),
    [
        *((op, {}) for op in ("Transpose", "Flatten", "Identity", "Squeeze")),
        *((op, NO_NUMBERS) for op in ("Expand", "Reshape", "Squeeze", "Tile", "Unsqueeze")),
    ],
)
def test_operators_of_0_d_tensors(op: str, lists: Mapping[str, np.ndarray]) -> None:
    if op == "Tile" and tuple(map(int, onnxruntime.__version__.split(".")[:2])) < (1, 24):
        pytest.skip("this ONNX Runtime, as the last for Python 3.10, refuses a Tile of a 0-d tensor")
    feeds = {"x": np.array(3.0, np.float32)}
    model = one(op, feeds, lists, **({"axis": 0} if op == "Flatten" else {}))
    assert outputs_of(from_onnx(model), [*feeds.values()]) == [bits(y) for y in onnxruntime_outputs(model, feeds)]


@pytest.mark.parametrize("value", [None, np.array([7.0], np.float32)])
def test_constants_of_the_shape_of_a_0_d_tensor(value: np.ndarray | None) -> None:
    x = np.array(3.0, np.float32)
    attributes = {} if value is None else {"value": numpy_helper.from_array(value)}
    nodes = [helper.make_node("Shape", ["x"], ["s"]), helper.make_node("ConstantOfShape", ["s"], ["y"], **attributes)]
    model = model_of(nodes, {"x": x}, {"y": x.dtype})
    assert outputs_of(from_onnx(model), [x]) == [bits(np.array(0 if value is None else 7, np.float32))]


# Torch 2.11 and 2.12 have no `where` for them on the CPU, as the documents on building say.
larger_unsigned = pytest.mark.xfail(torch.__version__ < "2.13", reason="torch.where of this torch lacks them")


@pytest.mark.parametrize(
    "dtype",
    [
        *map(str, DTYPES),
        "int16",
        "complex64",
        *(pytest.param(dtype, marks=larger_unsigned) for dtype in ("uint16", "uint32", "uint64")),
    ],
)
def test_padding_keeps_the_bits_of_its_constant(dtype: str) -> None:
    x, constant = np.array([1, 0, 1], dtype), np.array(1, dtype)
    if dtype.startswith("float"):  # a signaling NaN, which a change of its dtype would make quiet
        bytes_ = np.dtype(dtype).itemsize
        kind, infinity = f"uint{8 * bytes_}", np.array(np.inf, dtype)
        constant = (infinity.view(kind) + np.array(5, kind)).view(dtype)
    elif dtype.startswith(("int", "uint")):
        constant = np.array(np.iinfo(dtype).max, dtype)
    module = from_onnx(one("Pad", {"x": x}, {"pads": np.array([2, -1]), "constant": constant}))
    assert outputs_of(module, [x]) == [bits(np.concatenate([constant[None], constant[None], x[:2]]))]


def test_gradient_of_the_constant_of_a_padding() -> None:
    x, constant = np.arange(3.0, dtype=np.float32), np.array(7.0, np.float32)
    module = from_onnx(one("Pad", {"x": x}, {"pads": np.array([2, 1]), "constant": constant}))
    given = tensor_of(x).requires_grad_()
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    for run in (module, compiled):
        module.zero_grad()
        given.grad = None
        (run(given) * torch.arange(6.0)).sum().backward()
        assert given.grad is not None
        assert given.grad.tolist() == [2.0, 3.0, 4.0]
        assert module.constant.grad == 0.0 + 1.0 + 5.0


@pytest.mark.parametrize(("op", "a", "b"), [("Add", MOST, 1), ("Sub", LEAST, 1), ("Mul", MOST, MOST)])
def test_constants_that_leave_int64(op: str, a: int, b: int) -> None:
    model = one(op, {}, {"a": np.array([a]), "b": np.array([b])})
    with pytest.raises(ValueError, match=rf"^from_onnx: graph\.node\[0\] cannot be computed: {op}: .* fit int64, got "):
        from_onnx(model)


def test_local_functions_are_followed() -> None:
    model = parser.parse_model("""
    <ir_version: 8, opset_import: ["": 18, "ours": 1]>
    main (float[N] x) => (float[N] y) { y = ours.turn (x) }
    <domain: "ours", opset_import: ["": 18]>
    turn (x) => (y) {
        minus = Constant <value_ints = [-1]> ()
        low = Constant <value_ints = [-100]> ()
        zero = Constant <value_ints = [0]> ()
        y = Slice (x, minus, low, zero, minus)
    }""")
    assert from_onnx(model)(torch.arange(3)).tolist() == [2, 1, 0]


# Element types that torch has too, under NumPy's names, but for those of which a byte has several.
ELEMENT_TYPES = [
    name
    for name, number in TensorProto.DataType.items()
    if number and not re.fullmatch("U?INT[24]", name) and hasattr(torch, helper.tensor_dtype_to_np_dtype(number).name)
]


@pytest.mark.parametrize("name", ELEMENT_TYPES)
@pytest.mark.parametrize("raw", [True, False])
def test_initializers_of_every_dtype(name: str, raw: bool) -> None:
    array = np.array([[0, 1, 1], [1, 0, 1]]).astype(helper.tensor_dtype_to_np_dtype(TensorProto.DataType.Value(name)))
    proto = numpy_helper.from_array(array, "w")
    if not raw:
        values = array.flatten().tolist() if name != "BFLOAT16" else array.astype(np.float32).flatten().tolist()
        proto = helper.make_tensor("w", proto.data_type, array.shape, values)
    nodes = [helper.make_node("Transpose", [x], [y]) for x, y in ("xy", "wz")]
    newest = onnx.defs.onnx_opset_version()
    model = model_of(nodes, {"x": array}, dict.fromkeys("yz", array.dtype), {"w": proto}, newest)
    assert outputs_of(from_onnx(model), [array]) == [bits(array.T)] * 2


def test_models_that_pytorch_exported_and_the_onnx_package_ships() -> None:
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "pytorch-operator"
    for name in ("chunk", "concat2", "flatten", "index", "permute2", "view"):
        case = folder / f"test_operator_{name}"
        read = {
            kind: [
                numpy_helper.to_array(onnx.load_tensor(str(file)))
                for file in sorted((case / "test_data_set_0").glob(f"{kind}_*.pb"))
            ]
            for kind in ("input", "output")
        }
        assert outputs_of(from_onnx(case / "model.onnx"), read["input"]) == [
            bits(output) for output in read["output"]
        ], name


@pytest.mark.parametrize(
    ("call", "axis"), [("our.outer (x)", 1), ("our.outer <axis = 0> (x)", 0), ("our.inner (x)", 2)]
)
def test_attributes_of_functions_that_have_a_default(call: str, axis: int) -> None:
    model = parser.parse_model(f"""
    <ir_version: 10, opset_import: ["": 18, "our": 1]>
    main (float[2, 3, 2] x) => (float[A, B, C] y) {{ y = {call} }}
    <domain: "our", opset_import: ["": 18, "our": 1]> outer <axis: int = 1> (x) => (y) {{
        y = our.inner <axis: int = @axis> (x)
    }}
    <domain: "our", opset_import: ["": 18]> inner <axis: int = 2> (x) => (y) {{
        i = Constant <value_ints = [1, 0]> ()
        y = Gather <axis: int = @axis> (x, i)
    }}""")
    x = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    expected = [bits(np.take(x, [1, 0], axis))]
    assert [bits(y) for y in onnxruntime_outputs(model, {"x": x})] == expected
    assert outputs_of(from_onnx(model), [x]) == expected


# What torch exports.


LENGTHS = torch.tensor([3, 9, 0, 1])


@pytest.mark.filterwarnings("ignore")  # from within torch's exporter
@pytest.mark.parametrize(
    ("function", "more"),
    [
        (lambda x: dml.index(x)[::-2, x.shape[1] // 2 :, None, 1], ()),
        (lambda x: dml.slice_grad(x, [9, x.shape[1] + 1, 7], [1, 0, 1], [7, x.shape[1], 5], [-2, 1, -1]), ()),
        (lambda x: dml.join([*dml.split(x, [2, x.shape[1] - 2], 1), x], 1), ()),
        (lambda x, n: dml.reverse_sequence(x, n, 1), (LENGTHS.to(torch.uint32),)),
        (lambda x, n: dml.reverse_subsequences(x, n, 1), (LENGTHS[:, None, None].expand(4, 1, 5) - torch.arange(5),)),
    ],
    ids=["index", "slice_grad", "split and join", "reverse_sequence", "reverse_subsequences"],
)
def test_what_was_exported_comes_back(function: Callable[..., Any], more: tuple[Tensor, ...]) -> None:
    arguments = torch.randn(4, 6, 5), *more
    sizes = (({1: "time"}, *({} for _ in more)),)
    program = torch.onnx.export(Model(function), arguments, dynamo=True, dynamic_shapes=sizes, verbose=False)
    module = from_onnx(program.model_proto)
    for time in (6, 9):
        arguments = torch.randn(4, time, 5), *more
        assert bits(module(*arguments)) == bits(function(*arguments))


@pytest.mark.filterwarnings("ignore")  # from within torch's exporter
@pytest.mark.parametrize(
    ("text", "several"),
    [(AGAIN, [(9,), *((size,) for size in range(11))]), (MOVES, [(2, 3, 4, 6), (3, 2, 4, 6), (1, 7, 4, 6)])],
    ids=["again", "moves"],
)
def test_what_was_imported_is_exported_for_every_size(text: str, several: Sequence[tuple[int, ...]]) -> None:
    """Though the example's size is on one side of what depends on it."""
    model = parser.parse_model(text)
    dynamic = dict(zip(range(2), ("n", "t")[: len(several[0])], strict=False))
    program = torch.onnx.export(
        from_onnx(model).eval(), (torch.zeros(several[0]),), dynamo=True, dynamic_shapes=(dynamic,), verbose=False
    )
    for sizes in several:
        x = filled(sizes, np.dtype("float32"))
        expected = onnxruntime_outputs(model, {"x": x})
        assert [bits(y) for y in onnxruntime_outputs(program.model_proto, {"x": x})] == [bits(y) for y in expected]


# What is refused.


def refusal(model: str | Path | ModelProto) -> str:
    with pytest.raises((NotImplementedError, ValueError)) as caught:
        from_onnx(parser.parse_model(model) if isinstance(model, str) else model)
    return str(caught.value)


def graph_of(body: str, head: str = "float[N] x", opset: int = 18) -> str:
    return (
        f'<ir_version: 8, opset_import: ["": {opset}, "com.microsoft": 1]> graph ({head}) => (float[M] y) {{ {body} }}'
    )


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("y = Relu (x)", "graph.node[0] must move data, got Relu"),
        ("a = Identity (x) y = Relu (a)", "graph.node[1] must move data, got Relu"),
        ("[act] a = Relu (x) y = Sigmoid (a)", "graph.node[0] ('act') must move data, got Relu"),
        ("y = com.microsoft.Gelu (x)", "graph.node[0] must move data, got com.microsoft.Gelu"),
        ("y = Add (x, x)", "graph.node[0] must move data, got Add of tensors that are no sizes"),
        ("y = Cast <to = 7> (x)", "graph.node[0] must move data, got Cast of FLOAT"),
        ("b = Shape (x) a = Cast <to = 2> (b) y = Cast <to = 9> (a)", "graph.node[2] must move data, got Cast of BOOL"),
        ("b = Shape (x) a = Cast <to = 1> (b) y = Identity (a)", "graph.node[1] must move data, got Cast of FLOAT"),
        ("y = Less (x, x)", "graph.node[0] must move data, got Less of FLOAT"),
        ("y = Sub (x, x)", "graph.node[0] must move data, got Sub of FLOAT"),
        ("a = Identity (x) b = Cast <to = 6> (a) y = Identity (b)", "graph.node[1] must move data, got Cast of FLOAT"),
        ("y = Clip (x)", "graph.node[0] must move data, got Clip of FLOAT"),
    ],
)
def test_the_first_node_that_is_not_data_movement(body: str, sentence: str) -> None:
    assert refusal(graph_of(body)) == f"from_onnx: {sentence}; for whole models see register_onnx2torch"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (graph_of("y = Tile (x, x, x)", opset=1), "graph.node[0] must be Tile of opset 6 or later, got opset 1"),
        (
            graph_of('y = Pad <mode = "odd"> (x, p)', "float[N] x, int64[2] p"),
            "graph.node[0] must be Pad with mode constant, edge, reflect or wrap, got 'odd'; for whole models see "
            "register_onnx2torch",
        ),
        (
            graph_of('s = Constant <value_floats = [1.5]> () y = Resize <mode = "linear"> (x, , s)'),
            "graph.node[1] must be Resize with mode nearest, got 'linear'; for whole models see register_onnx2torch",
        ),
        (
            graph_of('y = Resize <coordinate_transformation_mode = "tf_crop_and_resize"> (x, x, x)'),
            "graph.node[0] must be Resize with coordinate_transformation_mode half_pixel, half_pixel_symmetric, "
            "pytorch_half_pixel, align_corners, asymmetric or tf_half_pixel_for_nn, got 'tf_crop_and_resize'; for "
            "whole models see register_onnx2torch",
        ),
        (
            graph_of('y = Constant <value_string = "a"> ()'),
            "graph.node[0] must be a Constant of dense numbers, got value_string",
        ),
        (graph_of("y = Identity (x)", "string[N] x"), "input 'x' must have an element type that torch has, got STRING"),
        (graph_of("y = Identity (x)", "int4[N] x"), "input 'x' must have an element type that torch has, got INT4"),
        (graph_of("y = Identity (x)", "seq(float[N]) x"), "input 'x' must be a tensor, got sequence_type"),
        (graph_of("z = Identity (x)"), "output 'y' must be the output of a node, and is of none"),
        (graph_of("y = Identity (z)"), "graph.node[0] must have inputs that are known before it, got 'z'"),
        (
            graph_of("y = Identity (x) y = Identity (x)"),
            "graph.node[1] must have outputs with names of their own, got 'y' again",
        ),
        (graph_of("x = Identity (x)"), "graph.node[0] must have outputs with names of their own, got 'x' again"),
        (
            graph_of("y = Concat <axis = 0> ()"),
            "graph.node[0] must be a valid Concat: Node with schema(::Concat:13) has input size 0 not in range [min=1, "
            "max=2147483647]",
        ),
        (
            graph_of("y = Constant ()"),
            "graph.node[0] must be a valid Constant: One and only one of the attributes 'value', 'value_*' or "
            "'sparse_value' must be specified for a Constant node",
        ),
        (
            graph_of("y = NoSuch (x)"),
            "graph.node[0] must move data, got NoSuch; for whole models see register_onnx2torch",
        ),
        (graph_of("y = Concat (x, x)"), "graph.node[0] must be a valid Concat: Required attribute 'axis' is missing"),
        (
            graph_of("z = Constant <value_int = 0> () n = Shape (x) m = Identity (z) d = Div (z, m) y = Identity (d)"),
            "graph.node[3] cannot be computed: Div: the divisor must not be 0",
        ),
        (graph_of("y = Identity (x)", "float[N] x, float[M] x"), "inputs must have names of their own, got 'x' again"),
        (
            graph_of("y, y = Split (x)", opset=13),
            "graph.node[0] must have outputs with names of their own, got 'y' again",
        ),
        (
            graph_of("y = Shape (x)"),
            "output 'y' must be of the type that it is declared as, got FLOAT and INT64",
        ),
        (
            graph_of("y = Transpose <perm = [-1]> (x)"),
            "graph.node[0] must have a perm that holds each axis once, got [-1]",
        ),
        (
            graph_of("y, z = Split <num_outputs = 9> (x)"),
            "graph.node[0] must have as many outputs as num_outputs says, got 2 and 9",
        ),
        (
            graph_of("y = Identity (x)").replace('"": 18, ', ""),
            "model must say which opset of ONNX it uses, and says com.microsoft 1 alone",
        ),
        (
            graph_of("y = Identity (x)").replace('"com.microsoft": 1', '"ai.onnx": 13'),
            "model must use one opset of ONNX, got 13 and 18",
        ),
    ],
)
def test_what_else_is_refused(text: str, sentence: str) -> None:
    assert refusal(text) == f"from_onnx: {sentence}"


@pytest.mark.parametrize("opset", [-1, 0, onnx.defs.onnx_opset_version() + 1, 2**31 - 1, 2**31, MOST])
def test_opsets_that_onnx_does_not_know(opset: int) -> None:
    model = one("Identity", {"x": np.zeros(2, np.float32)})
    model.opset_import[0].version = opset
    last = f"{onnx.defs.onnx_opset_version()}, the last of onnx {onnx.__version__}"
    assert refusal(model) == f"from_onnx: model must use an opset from 1 to {last}, got {opset}"


def with_functions(**calls: Sequence[str]) -> ModelProto:
    """A model that calls the function f0; each calls these one after the other, or does nothing."""
    text = '<ir_version: 8, opset_import: ["": 18, "our": 1]> main (float[N] x) => (float[N] y) { y = our.f0 (x) }'
    for name, called in calls.items():
        names = ["x", *(f"a{k}" for k in range(1, len(called))), "y"]
        body = [f"{names[k + 1]} = {op} ({names[k]})" for k, op in enumerate(called)]
        text += f'<domain: "our", opset_import: ["": 18, "our": 1]> {name} (x) => (y) {{ {" ".join(body)} }}'
    return parser.parse_model(text)


@pytest.mark.parametrize(
    ("functions", "sentence"),
    [
        (
            {f"f{k}": ["Identity" if k == 25 else f"our.f{k + 1}"] * 2 for k in range(26)},
            "give at most 100000 nodes where they are inlined, got 67108864",
        ),
        (
            {f"f{k}": ["Identity" if k == 400 else f"our.f{k + 1}"] * 2 for k in range(401)},
            f"give at most 100000 nodes where they are inlined, got {str(2**401)[:59]}…",
        ),
        ({"f0": ["our.f0"]}, "not call themselves, got 'our.f0'"),
        ({"f0": ["our.f1"], "f1": ["Identity", "our.f2"], "f2": ["our.f1"]}, "not call themselves, got 'our.f1'"),
    ],
)
def test_functions_that_call_one_another(functions: Mapping[str, Sequence[str]], sentence: str) -> None:
    """Found before they are inlined, which would take for ever."""
    assert refusal(with_functions(**functions)) == f"from_onnx: the functions of the model must {sentence}"


@pytest.mark.parametrize(
    ("op", "of_constants", "sentence"),
    [
        ("Concat", True, "output must hold at most 1048576 sizes, got 2097152"),
        ("Concat", False, "output must hold at most 1048576 sizes, got 2097152"),
        ("Mul", True, "the result must fit int64, got 3433683820292512484657849089281"),
        ("Mul", False, "the result must fit int64, got 3433683820292512484657849089281"),
    ],
)
def test_sizes_that_grow_without_end(op: str, of_constants: bool, sentence: str) -> None:
    """Sixty doublings of a list, and sixty squares of a number."""
    x = np.zeros(3, np.float32)
    first = {"a0": np.array([3])} if of_constants else {}
    nodes = [] if of_constants else [helper.make_node("Shape", ["x"], ["a0"])]
    attributes = {"axis": 0} if op == "Concat" else {}
    nodes += [helper.make_node(op, [f"a{k}"] * 2, [f"a{k + 1}"], **attributes) for k in range(60)]
    model = model_of(nodes, {"x": x}, {"a60": np.dtype("int64")}, first)
    with pytest.raises(ValueError, match=rf"{op}: {sentence}$"):
        from_onnx(model)(torch.from_numpy(x))


@pytest.mark.parametrize(
    ("op", "inputs", "rule"),
    [
        (
            "Slice",
            ["x", "", "e"],
            "be a valid Slice: Node ()'s input 1 is marked single but has an empty string in the graph",
        ),
        ("Concat", ["x", ""], "be a Concat of named inputs, got one without a name"),
    ],
)
def test_inputs_that_a_node_must_have(op: str, inputs: list[str], rule: str) -> None:
    attributes = {"axis": 0} if op == "Concat" else {}
    feeds = {name: np.zeros(2, np.int64) for name in ("x", "e")}
    model = model_of([helper.make_node(op, inputs, ["y"], **attributes)], feeds, {"y": np.dtype("int64")})
    assert refusal(model) == f"from_onnx: graph.node[0] must {rule}"


def test_damaged_files(tmp_path: Path) -> None:
    """A file in which some bytes are others is read as what it is then, or refused in one sentence."""
    content = parser.parse_model(HALVES).SerializeToString()
    random = np.random.default_rng(0)
    sentences = []
    for _ in range(400):
        damaged = bytearray(content)
        for at in random.integers(0, len(content), random.integers(1, 4)):
            damaged[at] = random.integers(0, 256)
        (tmp_path / "a.onnx").write_bytes(damaged)
        try:
            from_onnx(tmp_path / "a.onnx")
        except (NotImplementedError, ValueError) as error:
            sentences.append(str(error))
    assert len(sentences) > 100
    assert [sentence for sentence in sentences if not re.fullmatch(r"from_onnx: [^\n]{,388}", sentence)] == []


def test_what_is_no_model(tmp_path: Path) -> None:
    file = tmp_path / "a.onnx"
    for content in (b"no model", b"\x08"):
        file.write_bytes(content)
        assert re.fullmatch(r"from_onnx: [^\n]{,288}", refusal(file))
    for name in ("a.onnx", "a.json", "a.textproto"):
        empty = tmp_path / name
        empty.write_bytes(b"")
        assert refusal(empty).partition(" must ")[2] == "be an ONNX model, got an empty file; export it again"
    example = Path(dml.__file__).parent / "directml/example-models/chain.json"
    for other in (example, shutil.copy(example, tmp_path / "b.onnx")):
        sentence = refusal(other).partition(" must ")[2]
        assert sentence == "be an ONNX model, got one of DxDispatch; torch_dml_ops.directml.Model.load takes it"
    with pytest.raises(FileNotFoundError):
        from_onnx(tmp_path / "none.onnx")
    with pytest.raises(TypeError, match=r"^from_onnx: model must be a path or an onnx\.ModelProto, got 5$"):
        from_onnx(5)  # type: ignore[arg-type]
    program = torch.onnx.export(torch.nn.Identity(), (torch.zeros(2),), dynamo=True, verbose=False)
    for wrong, way_out in (
        (program.model_proto.SerializeToString(), "onnx.load_from_string(model)"),
        (io.BytesIO(), "onnx.load(model)"),
        (program, "model.model_proto"),
    ):
        with pytest.raises(TypeError) as refused:
            from_onnx(wrong)
        start = "from_onnx: model must be a path or an onnx.ModelProto, got "
        assert str(refused.value).startswith(start)
        assert str(refused.value).endswith(f"; write {way_out}")


DATA = np.arange(6, dtype=np.float32).reshape(2, 3)


def with_initializer(change: Callable[[TensorProto], None]) -> ModelProto:
    proto = numpy_helper.from_array(DATA, "w")
    change(proto)
    return one("Concat", {"x": np.zeros((2, 1), np.float32)}, {"w": proto}, axis=1)


@pytest.mark.parametrize(
    "change",
    [
        lambda proto: setattr(proto, "raw_data", proto.raw_data[:-1]),
        lambda proto: setattr(proto, "raw_data", b""),
        lambda proto: proto.dims.append(2**40),
        lambda proto: proto.dims.append(-1),
        lambda proto: proto.dims.__setitem__(0, -1),
        lambda proto: setattr(proto, "data_type", 99),
        lambda proto: setattr(proto, "data_type", TensorProto.STRING),
        lambda proto: setattr(proto, "data_type", TensorProto.INT4),
        lambda proto: proto.ClearField("raw_data"),
    ],
)
def test_initializers_that_are_malformed(change: Callable[[TensorProto], None]) -> None:
    sentence = refusal(with_initializer(change))
    assert re.fullmatch(r"from_onnx: [^\n]+", sentence)
    assert not sentence.endswith("Error")  # the name of a type, of an error that says nothing


def external(location: str, **more: int) -> Callable[[TensorProto], None]:
    return lambda proto: external_data_helper.set_external_data(proto, location, **more)


def saved(folder: Path, location: str, **more: int) -> Path:
    """A model whose data are said to be there."""
    model = with_initializer(external(location, **more))
    model.graph.initializer[0].ClearField("raw_data")
    file = folder / "model.onnx"
    file.write_bytes(model.SerializeToString())
    return file


def test_data_beside_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "w.bin").write_bytes(b"1234" + DATA.tobytes())
    file = saved(tmp_path, "parts/w.bin", offset=4, length=DATA.nbytes)
    x = np.zeros((2, 1), np.float32)
    for path in (file, str(file)):
        assert outputs_of(from_onnx(path), [x]) == [bits(np.concatenate([x, DATA], axis=1))]
    monkeypatch.chdir(tmp_path)
    assert outputs_of(from_onnx("model.onnx"), [x]) == [bits(np.concatenate([x, DATA], axis=1))]


def test_data_outside_of_the_model_s_folder(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(DATA.tobytes())
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    (folder / "parts").symlink_to(tmp_path)
    (folder / "circle.bin").symlink_to(folder / "circle.bin")
    for location in (
        "../secret.bin",
        str(tmp_path / "secret.bin"),
        "link.bin",
        "parts/secret.bin",
        "x/../../secret.bin",
        "circle.bin",
        "a\0b",
    ):
        shown = repr(location) if len(location) < 58 else repr(location)[:59] + "…"
        sentence = f"from_onnx: the data of tensor 'w' must lie in the model's folder, got {shown}"
        assert refusal(saved(folder, location)) == sentence


CONSTANTS_OF_NODES = {
    "Constant": "y = Constant <value = float[2, 3] {0, 1, 2, 3, 4, 5}> ()",
    "Constant of a function": "y = our.constant (x)",
    "default of a function": "y = our.with_default (x)",
    "attribute of a function": "y = our.with_default <value = float[2, 3] {0, 1, 2, 3, 4, 5}> (x)",
    "ConstantOfShape": "s = Constant <value_ints = [2, 3]> () y = ConstantOfShape <value = float[1] {4}> (s)",
}


@pytest.mark.parametrize("node", CONSTANTS_OF_NODES.values(), ids=CONSTANTS_OF_NODES)
def test_data_of_nodes_beside_the_model(tmp_path: Path, node: str) -> None:
    """Whatever the current folder is, as in ONNX Runtime; and not in other folders."""
    (tmp_path / "model").mkdir()
    file, data = tmp_path / "model" / "model.onnx", tmp_path / "model" / "data.bin"
    model = parser.parse_model(f"""
    <ir_version: 10, opset_import: ["": 18, "our": 1]> main (float[N] x) => (float[2, 3] y) {{ {node} }}
    <domain: "our", opset_import: ["": 18]> constant (x) => (y) {{
        y = Constant <value = float[2, 3] {{0, 1, 2, 3, 4, 5}}> ()
    }}
    <domain: "our", opset_import: ["": 18]> with_default <value: tensor = float[2, 3] {{0, 1, 2, 3, 4, 5}}>
    (x) => (y) {{ y = Constant <value: tensor = @value> () }}""")
    x = np.zeros(1, np.float32)
    expected = onnxruntime_outputs(model, {"x": x})
    tensors = [*tensors_in(model)]
    for tensor in tensors:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), "w"))
        with data.open("ab") as content:
            external_data_helper.set_external_data(tensor, "data.bin", content.tell(), len(tensor.raw_data))
            content.write(tensor.raw_data)
        tensor.ClearField("raw_data")
    file.write_bytes(model.SerializeToString())
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    assert [bits(y) for y in session.run(None, {"x": x})] == [bits(y) for y in expected]
    assert outputs_of(from_onnx(file), [x]) == [bits(y) for y in expected]
    data.rename(tmp_path / "data.bin")
    for tensor in tensors:
        tensor.external_data[0].value = "../data.bin"
    file.write_bytes(model.SerializeToString())
    assert refusal(file).endswith(" must lie in the model's folder, got '../data.bin'")


def tensors_in(message: Any) -> Iterator[TensorProto]:
    if isinstance(message, TensorProto):
        yield message
        return
    for field, value in message.ListFields():
        if field.message_type:
            for part in value if hasattr(value, "add") else [value]:
                yield from tensors_in(part)


def places_of_tensors(message: Any = ModelProto.DESCRIPTOR, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The fields by which one comes from a model to a tensor, through graphs within nodes once."""
    for field in message.fields:
        if (inner := field.message_type) is TensorProto.DESCRIPTOR:
            yield (*path, field)
        elif inner and [other.message_type for other in path].count(inner) < 2:
            yield from places_of_tensors(inner, (*path, field))


NAMES_OF_VALUES = {"t": "value", "sparse_tensor": "sparse_value"}


def with_tensor_at(path: Sequence[Any], tensor: TensorProto) -> ModelProto:
    """A model whose output is that tensor, if it may be where the path leads."""
    model = helper.make_model(GraphProto(name="graph"), opset_imports=[helper.make_opsetid(d, 18) for d in ("", "our")])
    if path[0].name == "functions":
        model.graph.node.append(helper.make_node("f", ["x"], ["w"], domain="our"))
        model.graph.input.append(helper.make_tensor_value_info("x", TensorProto.FLOAT, None))
    message: Any = model
    for field in path:
        if isinstance(message, NodeProto):
            message.op_type, message.output[:] = "Constant", ["w"]
        elif isinstance(message, FunctionProto):
            message.domain, message.name, message.input[:], message.output[:] = "our", "f", ["x"], ["w"]
            message.opset_import.append(helper.make_opsetid("", 18))
        elif isinstance(message, AttributeProto):
            message.name = NAMES_OF_VALUES.get(field.name, "other")
            message.type = AttributeProto.AttributeType.Value(
                {"t": "TENSOR", "g": "GRAPH"}.get(field.name.rstrip("s"), field.name.rstrip("s").upper())
                + "S" * field.name.endswith("s")
            )
        value = getattr(message, field.name)
        message = value.add() if hasattr(value, "add") else value
    message.CopyFrom(tensor)
    model.graph.node.append(helper.make_node("Identity", ["w"], ["y"]))
    model.graph.output.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, None))
    return model


def test_every_place_of_a_model_that_may_hold_a_tensor(tmp_path: Path) -> None:
    """Nothing outside of the model's folder is read, or looked for, for any of them."""
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location")
    read = set()
    for path in places_of_tensors():
        sentences = []
        for location in ("gone.bin", "../gone.bin"):
            tensor.external_data[0].value = location
            (tmp_path / "model.onnx").write_bytes(with_tensor_at(path, tensor).SerializeToString())
            try:
                from_onnx(tmp_path / "model.onnx")
            except (NotImplementedError, OSError, ValueError) as error:
                sentences.append(str(error))
        place = ".".join(field.name for field in path)
        inside, outside = sentences
        if "gone.bin" in inside:
            read.add(place)
        rule = r"from_onnx: the data of tensor 'w\w*' must lie in the model's folder, got '\.\./gone\.bin'"
        assert re.fullmatch(rule, outside) or (place not in read and outside == inside), place
    assert read == {"graph.initializer", "graph.node.attribute.t", "functions.node.attribute.t"}


@pytest.mark.parametrize("more", [{"offset": 100}, {"length": 1000}, {"length": 4}, {"offset": 2}])
def test_data_that_the_file_does_not_have(tmp_path: Path, more: dict[str, int]) -> None:
    (tmp_path / "w.bin").write_bytes(DATA.tobytes())
    assert re.fullmatch(r"from_onnx: [^\n]+", refusal(saved(tmp_path, "w.bin", **more)))


def test_data_without_a_file_or_a_folder(tmp_path: Path) -> None:
    file = saved(tmp_path, "gone.bin")
    with pytest.raises((OSError, ValueError), match=r"gone\.bin"):
        from_onnx(file)
    assert refusal(onnx.load(file, load_external_data=False)) == (
        "from_onnx: the data of tensor 'w' must lie in the model's folder, got 'gone.bin' and a ModelProto, which has "
        "none; write the model's path"
    )


def untyped(model: ModelProto) -> ModelProto:
    """A model that does not say what its inputs are, so that nothing is known of them before it runs."""
    for value in model.graph.input:
        value.type.tensor_type.Clear()
        value.type.tensor_type.SetInParent()
    return model


@pytest.mark.parametrize(
    ("op", "attributes", "inputs", "sentence"),
    [
        ("Slice", {}, [[0], [1], [0], [0]], "Slice: steps[0] must not be 0"),
        ("Slice", {}, [[0], [1], [2], [1]], "Slice: axes[0] must be from -2 to 1, got 2"),
        (
            "Slice",
            {},
            [[0, 0], [1, 1], [1, -1], [1, 1]],
            "Slice: axes must differ from one another, got -1 for axes[1] and for one before it",
        ),
        ("Slice", {}, [[0], [1, 1], [0], [1]], "Slice: ends must have length 1, as starts has, got 2"),
        (
            "Slice",
            {},
            [[[0]], [1], [0], [1]],
            "Slice: starts must be a 1-d tensor of int32 or int64, got a 2-d tensor of int64",
        ),
        ("Split", {}, [[1, 3]], "Split: split must sum to 2, the size of axis 0, got [1, 3]"),
        ("Split", {}, [[3, -1]], "Split: split[1] must be at least 0, got -1"),
        ("Split", {}, [[1, 1, 0]], "Split: split must have length 2, one for each output, got 3"),
        ("Split", {"axis": 2}, [[1, 1]], "Split: axis must be from -2 to 1, got 2"),
        (
            "ReverseSequence",
            {"time_axis": 1},
            [[1, 1]],
            "from_onnx: graph.node[0] must have one of time_axis and batch_axis 0 and the other 1, got 1 and 1",
        ),
        (
            "ReverseSequence",
            {},
            [[1, 1]],
            "reverse_sequence: lengths must have sizes [3], one for each index of axis 1 of input, got [2]; where "
            "items lie along axis 0, write axis=1, batch_axis=0",
        ),
        ("Reshape", {}, [[1, 6, 0]], "Reshape: shape[2] must not be 0, as data has only 2 dimensions"),
        ("Squeeze", {}, [[0]], "Squeeze: axes[0] must be an axis of size 1, got 0, of size 2"),
        ("Tile", {}, [[2]], "Tile: repeats must have length 2, one for each dimension, got 1"),
        ("Pad", {}, [[1, 1]], "Pad: pads must have length 4, two for each axis, got 2"),
        *(
            (
                "Pad",
                {"mode": mode},
                [pads],
                f"Pad: pads must remove at most {most} from axis {d}, its size, got {most + 1}",
            )
            for mode in ("constant", "edge", "reflect", "wrap")
            for pads, most, d in (([-3, 0, 9, 0], 2, 0), ([9, 0, -3, 0], 2, 0), ([0, -2, 0, -2], 3, 1))
        ),
        (
            "Pad",
            {"mode": "reflect"},
            [[-1, 0, 1, 0]],
            "Pad: pads of mode reflect must be at most 0 for axis 0, of which it keeps 1, got [0, 1]",
        ),
        ("SpaceToDepth", {"blocksize": 2}, [], "SpaceToDepth: input must have 4 dimensions, got 2"),
        ("GatherND", {}, [[1, 3]], "GatherND: indices must be from -3 to 2, got 3"),
        (
            "GatherND",
            {},
            [[[[0, 0, 0]]]],
            "GatherND: indices must have a last axis of 1 to 2, as many as data has axes, got sizes [1, 1, 3]",
        ),
        (
            "ScatterND",
            {},
            [[[0]], [[1, 1, 1]]],
            "ScatterND: updates must have dtype float32, as data has, got int64",
        ),
        (
            "ScatterElements",
            {},
            [[[0]], [[1, 1]]],
            "ScatterElements: updates must have sizes [1, 1], got [1, 2]",
        ),
        (
            "ScatterElements",
            {},
            [[[0]], [[1]]],
            "ScatterElements: updates must have dtype float32, as data has, got int64",
        ),
        ("Scatter", {}, [[[0]], [[1, 1]]], "Scatter: updates must have sizes [1, 1], got [1, 2]"),
        ("Scatter", {}, [[[2]], [[1.0]]], "Scatter: indices must be from -2 to 1, got 2"),
        ("Scatter", {"axis": 2}, [[[0]], [[1.0]]], "Scatter: axis must be from -2 to 1, got 2"),
        ("Trilu", {}, [[1, 2]], "Trilu: k must be one whole number, got a tensor of sizes [2], of dtype int64"),
        ("Upsample", {}, [[2.0, 0.5]], "Upsample: scales[1] must be a finite number from 1 on, got 0.5"),
        ("Upsample", {}, [[float("inf"), 1.0]], "Upsample: scales[0] must be a finite number from 1 on, got inf"),
        ("Resize", {}, [[], [0.0, 1.0]], "Resize: scales[0] must be a finite number above 0, got 0.0"),
        ("Resize", {}, [[], [1.0, float("nan")]], "Resize: scales[1] must be a finite number above 0, got nan"),
        ("Resize", {}, [[], [2.0]], "Resize: scales must have length 2, one for each axis, got 1"),
        ("Resize", {}, [[], [], [4, 0]], "Resize: sizes[1] must be at least 1, got 0"),
        ("Resize", {}, [[], [], [4, 0, 1]], "Resize: sizes must have length 2, one for each axis, got 3"),
        ("Resize", {}, [[], [2.0, 2.0], [4, 6]], "Resize: one of scales and sizes must be given, got both"),
        (
            "Resize",
            {"keep_aspect_ratio_policy": "not_larger"},
            [[], [], [0, 3]],
            "Resize: sizes[0] must be at least 1, got 0",
        ),
        (
            "Resize",
            {"keep_aspect_ratio_policy": "not_smaller"},
            [[], [], [0, -1]],
            "Resize: one of sizes must be at least 1, got [0, -1]",
        ),
    ],
)
def test_numbers_that_do_not_fit(op: str, attributes: dict[str, Any], inputs: list[Any], sentence: str) -> None:
    """Known only when the module runs."""
    feeds = {"x": np.zeros((2, 3), np.float32)}
    for k, numbers in enumerate(map(np.array, inputs)):
        feeds[f"n{k}"] = numbers.astype(np.float32) if numbers.dtype.kind == "f" else numbers
    outputs = ["y", "z"] if op == "Split" else ["y"]
    opset = 9 if op in ("Scatter", "Upsample") else 18
    model = one(op, feeds, outputs=outputs, opset=opset, **attributes)
    with pytest.raises((RuntimeError, ValueError)) as caught:
        from_onnx(untyped(model))(*map(tensor_of, feeds.values()))
    assert str(caught.value) == sentence


BY_INDICES = ("Gather", "GatherElements", "GatherND", "ScatterElements", "ScatterND")


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "float32", "complex64"])
@pytest.mark.parametrize("op", BY_INDICES)
def test_indices_of_other_dtypes_are_no_masks_and_lose_no_fractions(op: str, dtype: str) -> None:
    x = np.ones((2, 2), np.float32)
    feeds = {"x": x, "i": np.ones((2, 1) if op.endswith("ND") else (2, 2), dtype)}
    if op.startswith("Scatter"):
        feeds["u"] = x
    with pytest.raises(ValueError) as caught:
        from_onnx(untyped(one(op, feeds)))(*map(tensor_of, feeds.values()))
    assert str(caught.value) == f"{op}: indices must have dtype int32 or int64, got {dtype}"


@pytest.mark.parametrize("op", ["Gather", "GatherElements", "ScatterElements", "Split"])
def test_a_0_d_input_has_no_axis_even_where_none_is_given(op: str) -> None:
    x = np.zeros((), np.float32)
    feeds = {"x": x, "i": np.zeros((), np.int64), "u": x} if op != "Split" else {"x": x}
    if op.startswith("Gather"):
        del feeds["u"]
    model = one(op, feeds, **({"num_outputs": 1} if op == "Split" else {}))
    with pytest.raises(ValueError) as caught:
        from_onnx(untyped(model))(*map(tensor_of, feeds.values()))
    assert str(caught.value) == f"{op}: axis must be an axis of the input, which is 0-d and has none, got 0"


def test_a_size_that_does_not_divide() -> None:
    x = np.zeros(7, np.float32)
    model = one("Split", {"x": x}, outputs=["a", "b", "c"], opset=13)
    with pytest.raises(ValueError) as caught:
        from_onnx(model)(torch.from_numpy(x))
    assert str(caught.value) == "Split: axis 0 must divide by 3, the number of outputs, got size 7"


@pytest.mark.parametrize(
    ("sizes", "dtypes"), [([(2, 0), (3, 1)], "ff"), ([(2, 0), (2,)], "ff"), ([(2, 0), (2, 1)], "fd")]
)
def test_empty_pieces_are_checked_as_others(sizes: list[tuple[int, ...]], dtypes: str) -> None:
    feeds = {f"x{k}": np.zeros(s, dtype) for k, (s, dtype) in enumerate(zip(sizes, dtypes, strict=True))}
    model = untyped(one("Concat", feeds, axis=1))
    with pytest.raises(
        ValueError, match=r"^Concat: inputs\[1\] must have dtype float32 and sizes \[2, 0\], as inputs\[0\] has"
    ):
        from_onnx(model)(*map(tensor_of, feeds.values()))


# Whole models, by onnx2torch.


def test_registering_again_changes_nothing() -> None:
    from onnx2torch.node_converters import registry

    known = set(registry._CONVERTER_REGISTRY)
    register_onnx2torch()
    assert set(registry._CONVERTER_REGISTRY) == known


@pytest.mark.parametrize("name", ["squeezenet", "shufflenet"])
def test_whole_networks_that_the_onnx_package_ships(name: str, tmp_path: Path) -> None:
    """Their weights are computed by nodes, which ONNX Runtime does once and for all."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(tmp_path / "model.onnx")
    shipped = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / f"light_{name}.onnx"
    (given,) = onnxruntime.InferenceSession(shipped, options, providers=["CPUExecutionProvider"]).get_inputs()
    model = onnx.load(tmp_path / "model.onnx")
    model.ir_version = 8  # from 4 on, what nodes no longer read need not be an input
    read = {name for node in model.graph.node for name in node.input}
    for unused in [info for info in model.graph.input if info.name not in read]:
        model.graph.input.remove(unused)
    x = np.random.default_rng(0).standard_normal(given.shape, np.float32)
    (expected,) = onnxruntime_outputs(model, {given.name: x})
    module = by_onnx2torch(model).eval()
    assert any(isinstance(part, DataMovement) for part in module.modules())
    torch.testing.assert_close(module(torch.from_numpy(x)).detach().numpy(), expected, rtol=1e-4, atol=1e-6)


def test_modules_of_onnx2torch_compile_and_train() -> None:
    model = parser.parse_model("""
    <ir_version: 8, opset_import: ["": 18]>
    gated (float[N, 5, 4] x, int64[N] lengths) => (float[N, 5, 2] y)
    <float[4, 4] w = {1, 0, 2, 0, 0, 1, 0, 2, 1, 1, 0, 0, 0, 0, 1, 1},
     int64[1] axes = {1}, int64[1] down = {-1}, int64[1] low = {-99}> {
        backwards = ReverseSequence <batch_axis = 0, time_axis = 1> (x, lengths)
        turned = Slice (backwards, down, low, axes, down)
        product = MatMul (turned, w)
        a, b = Split <axis = 2, num_outputs = 2> (product)
        gate = Sigmoid (b)
        y = Mul (a, gate)
    }""")
    module = by_onnx2torch(model)
    x, lengths = torch.randn(3, 5, 4, requires_grad=True), torch.tensor([5, 2, 3])
    (expected,) = onnxruntime_outputs(model, {"x": x.detach().numpy(), "lengths": lengths.numpy()})
    torch.compiler.reset()
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    for f in (module, compiled):
        result = f(x, lengths)
        torch.testing.assert_close(result.detach().numpy(), expected)
        (gradient,) = torch.autograd.grad(result.sum(), x)
        assert gradient.abs().sum() > 0
    torch.compiler.reset()


@pytest.mark.parametrize(
    "node",
    [
        "Concat <axis = 1> (product, x)",
        "ScatterElements (product, elements, x)",
        "ScatterElements (x, elements, product)",
        "ScatterND (product, rows, x)",
        "ScatterND (x, rows, product)",
    ],
)
def test_autocast_leaves_tensors_of_several_dtypes(node: str) -> None:
    """Which torch.cat, and so onnx2torch's own Concat, takes as they are; its own ScatterND converts them."""
    model = parser.parse_model(f"""
    <ir_version: 8, opset_import: ["": 18]>
    mixed (float[2, 2] x) => (float[2, N] y)
    <int64[2, 2] elements = {{0, 0, 1, 1}}, int64[2, 1] rows = {{1, 0}}> {{
        product = MatMul (x, x)
        y = {node}
    }}""")
    with torch.autocast("cpu", torch.bfloat16):
        assert by_onnx2torch(model)(torch.eye(2)).dtype == torch.float32


HALVING = "halving (float[N] x) => ({outputs}) {{ a, b = Split <num_outputs = 2> (x) c = Identity (b) }}"


def halving(*outputs: str) -> ModelProto:
    text = HALVING.format(outputs=", ".join(f"float[{name.upper()}] {name}" for name in outputs))
    return parser.parse_model(f'<ir_version: 8, opset_import: ["": 18]> {text}')


def test_a_split_whose_pieces_are_the_outputs() -> None:
    x = torch.arange(3.0)
    assert [piece.tolist() for piece in by_onnx2torch(halving("a", "b"))(x)] == [[0.0, 1.0], [2.0]]
    assert by_onnx2torch(halving("c"))(x).tolist() == [2.0]


@pytest.mark.parametrize("outputs", [("b", "a"), ("b",), ("a", "c"), ("a", "c", "b"), ("a", "b", "a")])
def test_pieces_that_onnx2torch_would_return_in_another_order(outputs: Sequence[str]) -> None:
    model = halving(*outputs)
    with pytest.raises(NotImplementedError) as caught:
        by_onnx2torch(model)
    assert str(caught.value) == (
        "register_onnx2torch: node 'Split' must have none of the graph's outputs among its own, or all of them in "
        "their order, as onnx2torch returns them; put Identity nodes between"
    )
    pieces = {"a": [0.0, 1.0], "b": [2.0], "c": [2.0]}
    assert [y.tolist() for y in as_list(from_onnx(model)(torch.arange(3.0)))] == [pieces[name] for name in outputs]


def test_onnx2torch_keeps_sequence_lengths_whole() -> None:
    """As they are clipped where torch exports a reversal, beside a Shape of opset 20."""
    model = parser.parse_model("""
    <ir_version: 9, opset_import: ["": 20]>
    reversed (float[N, T] x, int64[N] lengths) => (float[N, T] y, int64[2] sizes) <int64 one = {1}, int64 five = {5}> {
        clipped = Clip (lengths, one, five)
        y = ReverseSequence <batch_axis = 0, time_axis = 1> (x, clipped)
        sizes = Shape (y)
    }""")
    feeds = {"x": np.arange(15, dtype=np.float32).reshape(3, 5), "lengths": np.array([-2, 3, 9])}
    expected = [bits(y) for y in onnxruntime_outputs(model, feeds)]
    assert outputs_of(by_onnx2torch(model), list(feeds.values())) == expected


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_what_these_operators_do_not_do_is_left_to_onnx2torch(mode: str) -> None:
    model = parser.parse_model(f"""
    <ir_version: 8, opset_import: ["": 13]>
    resized (float[1, 1, 4] x) => (float[1, 1, T] y) <float[3] scales = {{1, 1, 2}}> {{
        y = Resize <mode = "{mode}", coordinate_transformation_mode = "half_pixel"> (x, , scales)
    }}""")
    module = by_onnx2torch(model)
    assert any(isinstance(part, DataMovement) for part in module.modules()) == (mode == "nearest")
    x = np.arange(4, dtype=np.float32).reshape(1, 1, 4)
    assert outputs_of(module, [x]) == [bits(y) for y in onnxruntime_outputs(model, {"x": x})]


@pytest.mark.parametrize(
    ("opset", "node", "rule"),
    [
        (
            13,
            'Resize <coordinate_transformation_mode = "tf_crop_and_resize"> (x, , s)',
            "Resize with coordinate_transformation_mode half_pixel, half_pixel_symmetric, pytorch_half_pixel, "
            "align_corners, asymmetric or tf_half_pixel_for_nn, got 'tf_crop_and_resize'",
        ),
        (18, 'ScatterElements <reduction = "max"> (x, i, x)', "ScatterElements with reduction none, got 'max'"),
        (19, "Cast <to = 7> (x)", "Cast of whole numbers, got FLOAT"),
        (19, "Cast <to = 1> (i)", "Cast of whole numbers, got FLOAT"),
    ],
)
def test_what_neither_these_operators_nor_onnx2torch_do(opset: int, node: str, rule: str) -> None:
    model = parser.parse_model(f"""
    <ir_version: 8, opset_import: ["": {opset}]>
    refused (float[2] x) => (float[N] y) <float[1] s = {{2}}, int64[2] i = {{0, 1}}> {{ y = {node} }}""")
    with pytest.raises(NotImplementedError) as caught:
        by_onnx2torch(model)
    op = node.split()[0]
    assert str(caught.value) == f"register_onnx2torch: node '{op}' must be {rule}"


@each_importer
@pytest.mark.parametrize("value", ["", "<value = int32[1] {7}>"])
def test_what_is_made_of_sizes_is_where_the_module_is(value: str, importer: Callable[..., Any]) -> None:
    model = parser.parse_model(
        f"""
    <ir_version: 8, opset_import: ["": 18]>
    made (int64[2] sizes) => (float[A, B] a, int32[C] c) <int32 start = {{1}}, int32 limit = {{9}}, int32 step = {{3}},
     int64[2] two = {{2, 3}}> {{
        a = ConstantOfShape {value} (two)
        c = Range (start, limit, step)
    }}""".replace("float[A, B]", "int32[A, B]" if value else "float[A, B]")
    )
    module = importer(model)
    a, c = module(torch.tensor([0, 0]))
    assert (a.tolist(), c.tolist()) == ([[7 if value else 0] * 3] * 2, [1, 4, 7])
    assert (a.dtype, c.dtype) == (torch.int32 if value else torch.float32, torch.int32)
    a, c = module.to("meta")(torch.tensor([0, 0], device="meta"))
    assert (a.device.type, c.device.type) == ("meta", "meta")


@pytest.mark.parametrize(
    ("op", "inputs", "sentence"),
    [
        ("Concat", ["x", "x"], "node 'Concat' must be a valid Concat: Required attribute 'axis' is missing"),
        ("Concat", ["x", "", "x"], "node 'Concat' must be a Concat of named inputs, got one without a name"),
        (
            "Slice",
            ["x", "number", "number"],
            "node 'Slice': starts must be a 1-d tensor of int32 or int64, got a 0-d tensor of int64",
        ),
    ],
)
def test_malformed_nodes_of_whole_models(op: str, inputs: list[str], sentence: str) -> None:
    feeds = {"x": np.zeros(2, np.float32)}
    attributes = {"axis": 0} if "" in inputs else {}
    node = helper.make_node(op, inputs, ["y"], **attributes)
    with pytest.raises(ValueError) as caught:
        by_onnx2torch(model_of([node], feeds, {"y": feeds["x"].dtype}, {"number": np.array(1)}))
    assert str(caught.value) == f"register_onnx2torch: {sentence}"


# Packages that are missing.


@pytest.mark.parametrize(
    ("given", "got"),
    [
        (np.zeros((2, 3), np.float32), "an array of sizes [2, 3]; write torch.from_numpy(array)"),
        (np.zeros((2, 3), np.float32)[::-1], "an array of sizes [2, 3]; write torch.from_numpy(array.copy())"),
        ([[0.0] * 3] * 2, "list; write torch.tensor(data)"),
        (None, "None"),
    ],
)
def test_inputs_are_tensors(given: Any, got: str) -> None:
    """ONNX Runtime takes arrays."""
    module = from_onnx(
        parser.parse_model("""
    <ir_version: 8, opset_import: ["": 18]>
    g (float[N, M] data) => (float[M, N] y) { y = Transpose (data) }
    """)
    )
    for call in (lambda: module(given), lambda: module(data=given)):
        with pytest.raises(TypeError) as refused:
            call()
        assert str(refused.value) == f"OnnxGraph: data must be a tensor, got {got}"


def test_onnx2torch_is_imported_only_to_register() -> None:
    code = "import sys, torch_dml_ops.onnx; print('onnx2torch' in sys.modules)"
    assert run_python("-c", code) == "False\n"


def model_text(signature: str, node: str, opset: int = 18) -> ModelProto:
    return parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> graph {signature} {{ {node} }}')


CHOOSING = {
    "GatherElements": ("(T[n, k] x, int64[m, k] i) => (T[m, k] y)", "y = GatherElements(x, i)"),
    "GatherElements, last axis": ("(T[n, k] x, int64[n, m] i) => (T[n, m] y)", "y = GatherElements<axis = -1>(x, i)"),
    "ScatterElements": ("(T[n, k] x, int64[m, k] i, T[m, k] u) => (T[n, k] y)", "y = ScatterElements(x, i, u)"),
    "GatherND": ("(T[n, k] x, int64[m, q] i) => (T[a, b] y)", "y = GatherND(x, i)"),
    "ScatterND": ("(T[n, k] x, int64[m, q] i, T[m, k] u) => (T[n, k] y)", "y = ScatterND(x, i, u)"),
    "Gather": ("(T[n, k] x, int64[m, q] i) => (T[a, b, k] y)", "y = Gather(x, i)"),
}


@each_importer
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("op", CHOOSING)
def test_what_indices_choose_keeps_the_bits_of_nans(op: str, dtype: torch.dtype, importer: Callable[..., Any]) -> None:
    signature, node = CHOOSING[op]
    whole = {2: torch.int16, 4: torch.int32}[dtype.itemsize]
    exponent = torch.tensor(float("inf"), dtype=dtype).view(whole)
    nans = (exponent + torch.arange(1, 25, dtype=whole)).reshape(3, 8)  # quiet ones would have a higher bit, too
    index = torch.tensor([[2, 0, -1, 1, 0, 2, -3, 1]])
    if op.endswith("axis"):
        index = index.expand(3, 8)
    elif op.endswith("ND"):
        index = torch.tensor([[2], [-3]])
    updates = (nans - nans.numel() - 2**9 * exponent.sign())[: index.shape[0]]
    given = (nans, index, updates) if op.startswith("Scatter") else (nans, index)
    name = str(dtype).removeprefix("torch.").replace("float32", "float")
    model = model_text(signature.replace("T", name), node)
    module = importer(model)
    reference = importer(model_text(signature.replace("T", str(whole).removeprefix("torch.")), node))
    found = module(*(value.view(dtype) if value.dtype == whole else value for value in given))
    assert found.dtype == dtype
    assert torch.equal(found.detach().view(whole), reference(*given))
    if op.startswith(("GatherElements", "ScatterElements")):
        for wrong in (-9 if op.endswith("axis") else -4, 8):  # torch's indexing takes negative numbers too
            with pytest.raises(ValueError, match=f"Elements: indices must be from .* got {wrong}"):
                module(nans.view(dtype), torch.full_like(index, wrong), *(v.view(dtype) for v in given[2:]))
    x = torch.ones(3, 8, dtype=torch.float64).to(dtype).requires_grad_()
    module(x, *(value.view(dtype) if value.dtype == whole else value for value in given[1:])).sum().backward()
    assert x.grad is not None


def test_gather_nd_by_the_indices_of_one_element_is_one_graph() -> None:
    module = from_onnx(model_text("(float[3, 4] x, int64[2] i) => (float y)", "y = GatherND(x, i)"))
    x, i = torch.arange(12.0).reshape(3, 4), torch.tensor([1, -2])
    assert module(x, i).item() == 6
    assert torch.compile(module, fullgraph=True, backend="eager")(x, i).item() == 6


def test_what_else_torch_raises_comes_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not about indices out of bounds, which have a sentence of their own."""

    def no_memory(*arguments: Any) -> Any:
        raise RuntimeError("no memory")

    monkeypatch.setattr(indexing, "signed", no_memory)
    with pytest.raises(RuntimeError, match=r"^no memory$"):
        indexing.gather_elements(torch.zeros(2), torch.tensor([0]))


def test_what_stands_in_for_torchvision_is_taken_away() -> None:
    for name in ("torchvision", "torchvision.ops"):
        assert getattr(sys.modules.get(name), "__spec__", "none") is not None
