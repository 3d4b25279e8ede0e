"""ONNX models as modules: by from_onnx, and by onnx2torch with the converters of register_onnx2torch.

Compared with the test cases that the onnx package has for its operators, and with ONNX Runtime.
"""

import builtins
import copy
import inspect
import io
import itertools
import keyword
import pickle
import re
import shutil
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.backend.test.case.node as node_cases
import onnxruntime
import pytest
import torch
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
)
from onnx.reference import ReferenceEvaluator
from onnx_models import (
    IMPORTERS,
    LEAST,
    MOST,
    Importer,
    Model,
    bits,
    by_onnx2torch,
    each_importer,
    exported,
    filled,
    for_every_size,
    model_of,
    needs_onnx2torch,
    onnx_cases,
    onnxruntime_outputs,
    onnxruntime_results,
    outputs_of,
    parsed,
    reason,
    same_as_onnxruntime,
    session_of,
    tensor_of,
)
from oracle import as_list
from torch import Tensor
from torch._dynamo.testing import CompileCounter
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import torch_dml_ops as dml
from torch_dml_ops.onnx import from_onnx, register_onnx2torch
from torch_dml_ops.onnx._importer import files, gather_scatter
from torch_dml_ops.onnx._importer.operators import (
    IGNORED_ATTRIBUTES,
    OPERATORS,
    in_todays_form,
    operator_of,
    parameters_of,
)
from torch_dml_ops.onnx._onnx2torch import OPERATOR_TYPES, DataMovement


def one(
    op: str,
    inputs: Mapping[str, np.ndarray | TensorProto],
    constants: Collection[str] = (),
    outputs: int = 1,
    opset: int = 18,
    **attributes: Any,
) -> ModelProto:
    """A model of one node, some of whose inputs are constants, and which gives the dtype of the first of them."""
    names = [f"y{k}" for k in range(outputs)]
    node = helper.make_node(op, [*inputs], names, **attributes)
    feeds = {name: array for name, array in inputs.items() if name not in constants}
    known = {name: inputs[name] for name in inputs if name in constants}
    return model_of([node], feeds, dict.fromkeys(names, next(iter(inputs.values())).dtype), known, opset)


# The cases of the onnx package.


OF_OTHERS = "|".join([
    r"graph\.node.* must (move data|have an element type that torch has), got [\w. ]+",
    r"input '\w+' must (have an element type that torch has|be a tensor), got \w+",
    r"model must say which opset of ONNX it uses, and says [\w.]+ \d+ alone",
])  # fmt: skip


def test_the_onnx_package_s_cases() -> None:
    """Those of other operators and of several nodes are refused in a sentence, or as they should be."""
    ours = onnx_cases()
    for case in node_cases.collect_testcases():
        is_ours = case.name in ours
        rule = f"from_onnx: ({f'.* {reason(case.name)}' if is_ours else OF_OTHERS})"
        rule += "(; for whole models see register_onnx2torch)?"
        if is_ours and reason(case.name):
            assert re.fullmatch(rule, refusal(case.model)), case.name
            continue
        # Constants are left to onnx2torch itself.
        importers = IMPORTERS if is_ours and case.model.graph.node[0].op_type != "Constant" else [from_onnx]
        ((inputs, outputs),) = case.data_sets
        arrays = [array for y in outputs for array in (y if isinstance(y, list) else [y])]  # of a sequence, those in it
        try:
            for importer in importers:
                assert outputs_of(importer(case.model), inputs) == [bits(np.asarray(y)) for y in arrays], case.name
        except (NotImplementedError, ValueError) as error:
            if is_ours or not re.fullmatch(rule, str(error)):
                raise
    found = {"slice_neg_steps", "split_zero_size_splits_opset18", "reversesequence_batch", "wrap_pad", "triu_pos"}
    assert {f"test_{name}" for name in found} <= ours.keys()
    assert len([name for name in ours if name.startswith("test_resize") and reason(name) is None]) >= 15
    assert len(ours) >= 250


SCHEMAS = [schema for schema in onnx.defs.get_all_schemas_with_history() if not schema.domain]


def test_every_input_and_attribute_of_every_opset_has_a_parameter() -> None:
    """Or is known to be without meaning for data movement."""
    for schema in SCHEMAS:
        if schema.name not in OPERATORS or schema.deprecated:
            continue
        operator = operator_of(schema.name, schema.since_version)
        if schema.since_version < operator.since or operator.on_tensors is None:
            continue
        names = parameters_of(operator.on_tensors)
        if names is not None:
            inputs = [given.name for given in schema.inputs]
            assert inputs == names[: len(inputs)], (schema.name, schema.since_version)
        attributes = in_todays_form(schema.name, dict.fromkeys(schema.attributes), schema.since_version, 1)
        accepted = set(inspect.signature(operator.on_tensors).parameters)
        assert set(attributes) <= accepted, (schema.name, schema.since_version)
    assert IGNORED_ATTRIBUTES.isdisjoint({"axis", "axes", "split", "starts"})


@needs_onnx2torch
def test_every_version_of_the_operators_has_our_converter() -> None:
    from onnx2torch.node_converters.registry import get_converter

    for schema in SCHEMAS:
        op, version = schema.name, schema.since_version
        if op in ("Shape", "Size") or (op in OPERATOR_TYPES and version >= operator_of(op, version).since):
            assert get_converter(op, version).__module__.startswith("torch_dml_ops.")
    with pytest.raises(NotImplementedError):  # whose axes became an input, which its own converter would not see
        get_converter("ReduceMean", 18)


def test_each_operator_is_taken_from_the_opset_on_in_which_onnx_changed_it() -> None:
    versions = {(name, 1) for name in OPERATORS} | {(schema.name, schema.since_version) for schema in SCHEMAS}
    assert {(name, operator.since) for name, operator in OPERATORS.items()} <= versions


def test_the_page_names_the_operators_on_sizes() -> None:
    page = (Path(__file__).parents[2] / "docs/from-onnx.md").read_text()
    named = re.findall(r"\w+", re.split(r"of int64 or int32 with|, and so for what", page)[1])
    assert set(named) - {"and"} == {op for op, operator in OPERATORS.items() if operator.on_sizes}


def splits(number: int, rank: int = 1) -> ModelProto:
    return one("Split", {"x": np.zeros([0] * rank, np.float32)}, outputs=number, num_outputs=number, axis=-1)


@each_importer
@pytest.mark.parametrize("number", [1, 2, 3, 4, 7])
def test_split_in_more_pieces_than_there_are(number: int, importer: Importer) -> None:
    """As ONNX's own implementation; ONNX Runtime splits only where no piece is empty."""
    for sizes in ((), (2,), (0,)):
        model = splits(number, len(sizes) + 1)
        module, reference = importer(model), ReferenceEvaluator(model)
        for size in range(12):
            x = filled((*sizes, size), np.dtype("float32"))
            expected = [bits(np.ascontiguousarray(piece)) for piece in reference.run(None, {"x": x})]
            assert outputs_of(module, [x]) == expected


# Graphs of several nodes.


HALVES = parsed("""
halves (float[N, T, C] x) => (float[U, C] y, float[N, V, C] z)
<int64 axis = {1}, int64[1] zero = {0}, int64[1] minus_two = {-2}, int64[1] lowest = {-9223372036854775808},
 int64[1] end = {2}> {
    one = Constant <value_ints = [1]> ()
    two = Constant <value_int = 2> ()
    sizes = Shape (x)
    size = Gather <axis = 0> (sizes, axis)
    time = Cast <to = 7> (size)
    named = Identity (sizes)
    part = Slice (named, one, end)
    first_axis = Div (one, two)
    again = Squeeze (part, first_axis)
    half = Div (again, two)
    rest = Sub (time, half)
    middle = Unsqueeze (half, zero)
    after = Reshape (rest, one)
    length = Unsqueeze (time, zero)
    pieces = Concat <axis = 0> (middle, after)
    first, last = Split <axis = -2> (x, pieces)
    late = Slice (x, middle, length, one)
    early = Slice (x, minus_two, lowest, one, minus_two)
    down = Sub (zero, one)
    turned = Slice (x, middle, lowest, one, down)
    both = Concat <axis = -2> (last, late, early, x, turned)
    channels = Shape <start = 2> (x)
    shape = Concat <axis = 0> (down, channels)
    y = Reshape (both, shape)
    rows = Shape <end = 1> (x)
    lengths = Expand (half, rows)
    z = ReverseSequence <batch_axis = 0, time_axis = 1> (first, lengths)
}""")
MOVES = parsed(
    """
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
}""",
    '"": 19',
)
AGAIN = parsed("""
again (float[N] x) => (float[A] a, float[B] b, float[C] c, float[D] d, float[E] e, float[F, G, H] f, int32[2] g)
<int64[1] minus = {-1}, int64[1] zero = {0}, int64[1] one = {1}, int64[1] three = {3}, int64[1] seven = {-7},
 int64[1] two = {2}, int64[1] lowest = {-9223372036854775807},
 int64[1] highest = {9223372036854775807}, int32[1] first = {0}, bool[11] some = {0, 0, 1, 1, 0, 0, 1, 0, 0, 1, 0}> {
    a = Slice (x, seven, lowest, zero, minus)
    sizes = Shape (x)
    size = Gather (sizes, first)
    computed = Sub (one, size)
    b = Slice (x, computed, lowest, zero, minus)
    less = Sub (size, three)
    quotient = Div (less, two)
    c = Slice (x, zero, quotient)
    d = Compress <axis = 0> (x, some)
    end = Max (size, highest)
    e = Slice (x, minus, end, zero, minus)
    wanted = Concat <axis = 0> (sizes, one, minus)
    rank = Shape (wanted)
    ones = ConstantOfShape <value = int64[1] {1}> (rank)
    downs = Neg (ones)
    is_kept = Equal (wanted, downs)
    shape = Where (is_kept, ones, wanted)
    f = Expand (x, shape)
    above, below = Split <axis = 0, num_outputs = 2> (wanted)
    are_more = Greater (above, three)
    are_less = Less (size, above)
    flags = Cast <to = 6> (are_more)
    others = Cast <to = 6> (are_less)
    g = Sub (flags, others)
}""")


@pytest.mark.filterwarnings("ignore")  # from within torch's exporter
@pytest.mark.parametrize(
    ("model", "dims", "several", "more"),
    [
        (HALVES, 2, [(3, 8, 4), (2, 6, 4), (5, 9, 4), (3, 12, 4)], []),
        (MOVES, 2, [(2, 3, 4, 6), (3, 2, 4, 6), (5, 7, 4, 6)], [(1, 7, 4, 6)]),
        (AGAIN, 1, [(9,)], [(size,) for size in range(11)]),
        (splits(3), 1, [(8,), (11,), (12,)], [(size,) for size in range(13)]),
    ],
    ids=["halves", "moves", "again", "splits"],
)
def test_dynamic_sizes(
    model: ModelProto, dims: int, several: Sequence[Sequence[int]], more: Sequence[Sequence[int]]
) -> None:
    """Of `several` in one graph; of more, torch.export takes for granted what is true of these."""
    counter = CompileCounter()
    module = from_onnx(model).eval()
    ways = for_every_size(module, several[0], dims, counter)
    ways |= {importer.__name__: partial(outputs_of, importer(model)) for importer in IMPORTERS}
    reference = ReferenceEvaluator(model) if model.graph.node[0].op_type == "Split" else session_of(model)
    for k, sizes in enumerate((*several, *more), 1):
        x = filled(sizes, np.dtype("float32"))
        expected = [bits(np.ascontiguousarray(y)) for y in reference.run(None, {"x": x})]
        for way, run in ways.items():
            if sizes in several or way != "exported":
                assert run([x]) == expected, (way, sizes)
        assert counter.frame_count == 1 or k > len(several)


def test_an_end_that_is_read_by_an_exported_program() -> None:
    """Of the largest numbers, which stand for no end, the program would make one."""
    text = "g (float[N] x, int64[1] end) => (float[M] y) <int64[1] minus = {-1}, int64[1] zero = {0}>"
    module = from_onnx(parsed(f"{text} {{ y = Slice (x, minus, end, zero, minus) }}"))
    x, end = torch.arange(5.0), torch.tensor([1])
    program = torch.export.export(module, (x, end), strict=False).module()
    for number in (-7, -2, 0, 3, 9):
        assert torch.equal(program(x, torch.tensor([number])), module(x, torch.tensor([number])))
    for number in (2**31 - 1, MOST):
        assert module(x, torch.tensor([number])).tolist() == [4, 3, 2, 1, 0]
        with pytest.raises(RuntimeError, match="Runtime assertion failed"):
            program(x, torch.tensor([number]))


@pytest.mark.parametrize("field", ["shape", "elem_type"])
@pytest.mark.parametrize("model", [HALVES, AGAIN, splits(3)], ids=["halves", "again", "splits"])
def test_inputs_of_unknown_types(model: ModelProto, field: str) -> None:
    """What is a list of sizes is known without what ONNX infers of types."""
    other = copy.deepcopy(model)
    other.graph.input[0].type.tensor_type.ClearField(field)
    x = filled((4, 9, 2) if model is HALVES else (9,), np.dtype("float32"))
    assert outputs_of(from_onnx(other), [x]) == outputs_of(from_onnx(model), [x])


GLUED = parsed("""
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
}""")


def test_gradients() -> None:
    """With respect to inputs, and to initializers, which are parameters."""
    module, lengths = from_onnx(GLUED), torch.tensor([4, 2, 3])
    assert [(name, p.tolist()) for name, p in module.named_parameters()] == [("learned", [[0.5, -1.5, 2.5]])]
    x = torch.randn(3, 4, dtype=torch.double, requires_grad=True)

    def f(x: Tensor, learned: Tensor) -> Any:
        return torch.func.functional_call(module, {"learned": learned}, (x, lengths))

    assert torch.autograd.gradcheck(f, (x, module.learned))
    assert torch.autograd.gradgradcheck(f, (x, module.learned))


@pytest.mark.parametrize("dtype", ["float", "int64"])
@pytest.mark.parametrize("of_a_node", [False, True])
def test_what_several_nodes_use_is_one_tensor(of_a_node: bool, dtype: str) -> None:
    """As weights that are tied: an initializer, or a constant, by every way on which a node can get it."""
    w, node = f"{dtype}[2] w = {{1, 2}}, ", f"w = Constant <value = {dtype}[2] {{1, 2}}> ()"
    model = parsed(f"""
    tied ({dtype}[2] x) => ({dtype}[A] several, {dtype}[B, C] b, {dtype}[D] c, {dtype}[E] w)
    <{"" if of_a_node else w}int64[1] i = {{0}}, int64[2] shape = {{3, 2}}, bool[2] some = {{1, 0}}> {{
        {node if of_a_node else ""}
        a = Concat <axis = 0> (x, w)
        several = Concat <axis = 0> (w, a, w)
        b = Expand (w, shape)
        c = Where (some, w, x)
        y = Gather (several, i)
    }}""")
    module = from_onnx(model)
    (held,) = (tensor for tensor in (*module.parameters(), *module.buffers()) if tensor.tolist() == [1, 2])
    with torch.no_grad():
        held.add_(2)
    x = torch.tensor([5, 6], dtype=getattr(torch, dtype))
    expected = [[3, 4, 5, 6, 3, 4, 3, 4], [[3, 4]] * 3, [3, 6], [3, 4]]
    assert [output.tolist() for output in module(x)] == expected


def test_module_is_copied_saved_and_moved_as_others(tmp_path: Path) -> None:
    module = from_onnx(GLUED)
    arguments = torch.randn(3, 4, dtype=torch.double), torch.tensor([4, 2, 3])
    torch.save(module, tmp_path / "module.pt")
    loaded = torch.load(tmp_path / "module.pt", weights_only=False)
    for other in (module, copy.deepcopy(module), copy.deepcopy(copy.deepcopy(module)), loaded, copy.deepcopy(loaded)):
        assert type(other).__name__ == "OnnxGraph"
        assert outputs_of(other, arguments) == outputs_of(module, arguments)
        other.load_state_dict(module.state_dict())
        with pytest.raises(TypeError, match=r"^OnnxGraph: \w+ must be a tensor, got list; write "):
            other([1.0], arguments[1])
    moved = module.to("meta")
    assert [output.shape for output in moved(*(a.to("meta") for a in arguments))] == [(3, 7), (3, 4)]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exceptions have notes from Python 3.11 on")
def test_an_error_notes_its_node() -> None:
    """Of the graph as it is called, copied, restored, or a part of another module; none where no node is at fault."""
    module = from_onnx(GLUED)
    for called in (module, copy.deepcopy(module), torch.nn.Sequential(module)[0], pickle.loads(pickle.dumps(module))):
        for lengths, nodes in (torch.tensor([4, 2]), ["reverse_sequence"]), ([4, 2, 3], []):
            with pytest.raises((RuntimeError, TypeError)) as caught:
                called(torch.randn(3, 4, dtype=torch.double), lengths)
            at = [
                re.fullmatch(r"OnnxGraph: at %\w+ : .*\.(\w+)\]\(.*", note)
                for note in vars(caught.value).get("__notes__", ())
            ]
            assert [found and found[1] for found in at] == nodes


@pytest.mark.parametrize("kind", ["input", "parameter", "buffer", "node"])
def test_names_of_python_and_of_modules(kind: str) -> None:
    """One by one, or the same name in Python; with constants, a NaN and what torch does."""
    x, w = np.arange(2.0, dtype=np.float32), np.ones(1, np.float32)
    attributes = dir(from_onnx(one("Identity", {"x": x})))
    words = {*attributes, *keyword.kwlist, *dir(builtins), "self", "torch", "device"}
    for name in sorted({*words, "training", "x.0", "1", "/a/b.2", "inf", "nan"}):
        given = {"x:0": x, name: x} if kind == "input" else {"x:0": x}
        held = {name: x if kind == "parameter" else x.astype(np.int64)} if kind in ("parameter", "buffer") else {}
        nodes = [helper.make_node("Identity", ["x:0"], [name if kind == "node" else "other"])]
        nodes += [helper.make_node("Pad", [name], ["y"], pads=[0, 1], value=np.nan, mode="constant")]
        nodes += [helper.make_node("Concat", ["w", "x:0"], ["z"], axis=0), helper.make_node("Identity", ["w"], ["v"])]
        if kind == "buffer":
            nodes[1] = helper.make_node("Identity", [name], ["y"])
        outputs = {"y": held[name].dtype if held else x.dtype, "z": x.dtype, "v": x.dtype}
        module = from_onnx(model_of(nodes, given, outputs, {**held, "w": w}, opset=9))
        y = held[name] if kind == "buffer" else np.append(x, np.float32(np.nan))
        for same in (module, pickle.loads(pickle.dumps(copy.deepcopy(module)))):
            assert outputs_of(same, [*given.values()]) == [bits(y), bits(np.append(w, x)), bits(w)], name


@pytest.mark.parametrize("are_inputs", [True, False])
def test_names_that_become_one_in_python(are_inputs: bool) -> None:
    """Of as many inputs or constants, none takes the place of another one."""
    held = {name: np.full(2, k, np.float32) for k, name in enumerate(("a.b", "a/b", "a_b", "a:b", "a b"))}
    module = from_onnx(one("Concat", {"x": np.zeros(2, np.float32), **held}, [] if are_inputs else [*held], axis=0))
    given = map(torch.from_numpy, held.values() if are_inputs else ())
    assert module(torch.full((1,), 7.0), *given).tolist() == [7, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


def test_gradient_of_the_constant_of_a_padding() -> None:
    """If it is no single number, as exporters write them, which training is to leave as it is."""
    x, constant = np.arange(3.0, dtype=np.float32), np.array([7.0], np.float32)
    inputs = {"x": x, "pads": np.array([2, 1]), "constant": constant}
    module = from_onnx(one("Pad", inputs | {"constant": constant[0]}, ("pads", "constant")))
    assert [name for name, _ in module.named_buffers()] == ["constant"]
    assert not module(tensor_of(x)).requires_grad
    module = from_onnx(one("Pad", inputs, ("pads", "constant")))
    for run in (module, torch.compile(module, fullgraph=True, backend="aot_eager")):
        given = tensor_of(x).requires_grad_()
        loss = (run(given) * torch.arange(6.0)).sum()
        gradients = torch.autograd.grad(loss, [given, module.constant])
        assert [gradient.tolist() for gradient in gradients] == [[2.0, 3.0, 4.0], [0.0 + 1.0 + 5.0]]


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
    module = from_onnx(model)
    assert outputs_of(module, [array]) == [bits(array.T)] * 2
    (held,) = (*module.parameters(), *module.buffers())
    assert isinstance(held, torch.nn.Parameter) == (held.is_floating_point() or held.is_complex())


def test_models_that_pytorch_exported_and_the_onnx_package_ships() -> None:
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "pytorch-operator"
    for name in ("chunk", "concat2", "flatten", "index", "permute2", "view"):
        case = folder / f"test_operator_{name}"
        inputs, outputs = (
            [numpy_helper.to_array(onnx.load_tensor(file)) for file in sorted(case.glob(f"*/{kind}_*.pb"))]
            for kind in ("input", "output")
        )
        assert outputs_of(from_onnx(case / "model.onnx"), inputs) == [bits(output) for output in outputs], name


def every_other(x: Tensor) -> Tensor:
    result = x.clone()
    result[1:, ::2] = 5.0
    return result


EXPORTED = {
    "expand": lambda x: x[:, None].expand(-1, x.shape[1], -1),
    "expand to a constant size": lambda x: x[:, None].expand(-1, 3, -1),
    "unfold": lambda x: x[:, -(x.shape[0] // 2) :].unfold(0, 2, 1),
    "pad": lambda x: torch.nn.functional.pad(x, (0, -x.shape[1] % 8)),
    "pad by reflection": lambda x: torch.nn.functional.pad(x[None], (1, 2), mode="reflect"),
    "tile": lambda x: x.tile(2, x.shape[0]),
    "split": lambda x: x.tensor_split(2, 1)[1],
    "chunk": lambda x: torch.cat(x.chunk(2, 1)[::-1], 1),
    "stack side by side": lambda x: torch.hstack([x, x + 0]),
    "stack as rows": lambda x: torch.vstack([x, x[0]]),
    "mask": lambda x: x.masked_fill(torch.ones(1, x.shape[1], dtype=torch.bool).triu(1), -torch.inf),
    "assign": every_other,
}
SIZES_OF_EXPORTED = {0: "N", 1: "T"}
BY_TORCHSCRIPT = {"dynamo": False, "input_names": ["x"], "dynamic_axes": {"x": SIZES_OF_EXPORTED}}
EXPORTERS: dict[str, dict[str, Any]] = {
    "torch.export": {"dynamo": True, "dynamic_shapes": ((SIZES_OF_EXPORTED,),)},
    "TorchScript": BY_TORCHSCRIPT,  # which has no unfold
    "TorchScript, as it is": BY_TORCHSCRIPT | {"do_constant_folding": False},
}


@pytest.mark.filterwarnings("ignore")  # of the exporter, from within torch
@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize(
    ("name", "exporter"),
    [
        (name, exporter)
        for name in EXPORTED
        for exporter in EXPORTERS
        if (name, exporter[0]) not in {("unfold", "T"), ("chunk", "t")}
    ],
)
def test_what_torch_exports(name: str, exporter: str, tmp_path: Path) -> None:
    file = tmp_path / "model.onnx"
    torch.onnx.export(Model(EXPORTED[name]), (torch.rand(4, 6),), file, verbose=False, **EXPORTERS[exporter])
    module, model = from_onnx(file), onnx.load(file)
    compiled = torch.compile(module, fullgraph=True, dynamic=True, backend="eager")
    for given in ((4, 6), (7, 5), (2, 12)):
        x = filled(given, np.dtype("float32"))
        expected = onnxruntime_outputs(model, [x])
        assert outputs_of(module, [x]) == outputs_of(compiled, [x]) == expected


# What is refused.


def refusal(model: str | Path | ModelProto, importer: Callable[..., Any] = from_onnx) -> str:
    with pytest.raises((NotImplementedError, ValueError)) as caught:
        importer(model)
    return str(caught.value)


def graph_of(nodes: str, inputs: str = "float[N] x, int64[2] i", opsets: Mapping[str, int] | None = None) -> ModelProto:
    model = parsed(f"graph ({inputs}) => (float[M] y) {{ {nodes} }}", '"": 18, "com.microsoft": 1')
    if opsets is not None:
        del model.opset_import[:]
        model.opset_import.extend(helper.make_opsetid(*opset) for opset in opsets.items())
    return model


def with_functions(**calls: Sequence[str]) -> ModelProto:
    """A model that calls the function f0; each calls these one after the other, or does nothing."""
    text = "main (float[N] x) => (float[N] y) { y = our.f0 (x) }"
    for name, called in calls.items():
        names = ["x", *(f"a{k}" for k in range(1, len(called))), "y"]
        body = [f"{names[k + 1]} = {op} ({names[k]})" for k, op in enumerate(called)]
        text += f'<domain: "our", opset_import: ["": 18, "our": 1]> {name} (x) => (y) {{ {" ".join(body)} }}'
    return parsed(text, '"": 18, "our": 1')


def twice_each(last: int) -> ModelProto:
    return with_functions(**{f"f{k}": ["Identity" if k == last else f"our.f{k + 1}"] * 2 for k in range(last + 1)})


def in_branches(model: ModelProto) -> ModelProto:
    """The same, with the nodes of each function in the graph of a node."""
    for function in model.functions:
        branch = helper.make_graph(function.node, "branch", [], [onnx.ValueInfoProto(name=function.output[0])])
        function.ClearField("node")
        function.node.append(helper.make_node("If", function.input[:1], function.output, then_branch=branch))
    return model


COORDINATES = (
    "must be Resize with coordinate_transformation_mode half_pixel, half_pixel_symmetric, pytorch_half_pixel, "
    "align_corners, asymmetric or tf_half_pixel_for_nn, got 'tf_crop_and_resize'"
)
# What from_onnx says of one of these nodes.
NOT_MOVING = {
    "a = Identity (x) y = Relu (a)": "[1] must move data, got Relu",
    "[act] a = Relu (x) y = Sigmoid (a)": "[0] ('act') must move data, got Relu",
    "y = com.microsoft.Gelu (x)": "[0] must move data, got com.microsoft.Gelu",
    "y = Add (x, x)": "[0] must move data, got Add of FLOAT",
    "y = Div (x, x)": "[0] must move data, got Div of tensors that are no sizes",
    "a = Identity (x) b = Cast <to = 6> (a) y = Identity (b)": "[1] must move data, got Cast of FLOAT to INT32",
    "b = Shape (x) a = Cast <to = 2> (b) y = Cast <to = 9> (a)": "[2] must move data, got Cast of UINT8 to BOOL",
    "b = Shape (x) a = Cast <to = 1> (b) y = Identity (a)": "[1] must move data, got Cast of INT64 to FLOAT",
    'y = Pad <mode = "odd"> (x, i)': "[0] must be Pad with mode constant, edge, reflect or wrap, got 'odd'",
    'y = Resize <coordinate_transformation_mode = "tf_crop_and_resize"> (x, x, x)': f"[0] {COORDINATES}",
}
ONE_AND_TWO = "then_branch = one () => (float[N] a) { a = Identity (x) }, else_branch = two () => (float[N] x) { }"
NOT_MOVING |= {
    f"n = Shape (x) m = Size (x) c = Less (m, n) y = If (c) <{ONE_AND_TWO}>": "[3] must move data, got If of a "
    "condition that depends on the inputs",
    f"c = Constant <value = bool {{1}}> () z = If (c) <{ONE_AND_TWO}> y = Cast <to = 6> (z)": "[2] must move data, got "
    "Cast of FLOAT to INT32",
    "c = Constant <value = bool {1}> () y = If (c) <then_branch = one () => (float[N] a) { a = Relu (x) }, "
    "else_branch = two () => (float[N] x) { }>": "[1].then_branch.node[0] must move data, got Relu",
}
FOR_EACH = "y = SequenceMap ({}) <body = one (float[N] {}) => (float[N] b) {{ b = Identity (a) }}>"
NOT_MOVING |= {
    f"s = SplitToSequence (x) {FOR_EACH.format('s', 'a')}": "[1] must move data, got SequenceMap of a sequence whose "
    "length depends on the inputs",
}
MALFORMED = {
    "s = SequenceConstruct (x) y = Shape (s)": "[1] must have a tensor as input 0, got a sequence, 's'",
    "y = SequenceAt (x, i)": "[0] must have a sequence as input 0, got a tensor, 'x'",
    "y = SequenceConstruct (x, , x)": "[0] must be a SequenceConstruct of named inputs, got one without a name",
    f"s = SequenceConstruct (x) {FOR_EACH.format('s', 'x')}": "[1] must have inputs with names of their own, got 'x' "
    "again",
    f"s = SequenceConstruct (x, x) t = SequenceConstruct (x) {FOR_EACH.format('s, t', 'a, float[N] c')}": "[2] must "
    "have sequences of one length, got [1, 2]",
    f"s = SequenceConstruct (x, x) {FOR_EACH.format('s, x', 'a, float[N] a')}": "[1] must have inputs with names of "
    "their own, got 'a' again",
    f"s = SequenceConstruct (x) {FOR_EACH.format('s, , x', 'a, float c, float d')}": "[1] must be a SequenceMap of "
    "named inputs, got one without a name",
    "s = SequenceConstruct (x) y = SequenceMap (s) <body = one (float a) => (seq(float) b) { b = SequenceConstruct (a) "
    "}>": "[1] must have a body that gives tensors, got one that gives a sequence",
    "s = SequenceEmpty () y = ConcatFromSequence <axis = 0> (s)": "[1] must have at least one tensor in its sequence, "
    "got none",
    f"s = SequenceConstruct (x) {FOR_EACH.format('s, x', 'a')}": "[1] must have as many inputs as its body, 1, got 2",
    f"c = Constant <value_int = 1> () y = If (c) <{ONE_AND_TWO}>": "[1] must be an If of one truth value, got 1",
    "c = Constant <value = bool {0}> () y = If (c) <then_branch = one () => (float[N] x) { }, else_branch = two () => "
    "(float[N] x) <float[1] x = {2}> { }>": "[1] must have initializers with names of their own, got 'x' again",
    f"c = Constant <value = bool {{1}}> () y, z = If (c) <{ONE_AND_TWO}>": "[1] must have as many outputs as its "
    "then_branch, 1, got 2",
    "c = Constant <value = bool {0}> () y = If (c) <then_branch = one () => (float[N] x) { }>": "[1] must be a valid "
    "If: Required attribute 'else_branch' is missing",
    'y = Constant <value_string = "a"> ()': "[0] must be a Constant of dense numbers, got value_string",
    "y = Constant ()": "[0] must be a valid Constant: One and only one of the attributes 'value', 'value_*' or "
    "'sparse_value' must be specified for a Constant node",
    "y = Identity (z)": "[0] must have inputs that are known before it, got 'z'",
    "x = Identity (x)": "[0] must have outputs with names of their own, got 'x' again",
    "y = Identity (x) y = Identity (x)": "[1] must have outputs with names of their own, got 'y' again",
    "y, y = Split <num_outputs = 2> (x)": "[0] must have outputs with names of their own, got 'y' again",
    "y, z = Split <num_outputs = 9> (x)": "[0] must have as many outputs as num_outputs says, got 2 and 9",
    "y = Concat (x, x)": "[0] must be a valid Concat: Required attribute 'axis' is missing",
    "y = Concat <axis = 0> (x, , x)": "[0] must be a Concat of named inputs, got one without a name",
    "y = Transpose <perm = [-1]> (x)": "[0] must have a perm that holds each axis once, got [-1]",
    "y = ReverseSequence <time_axis = 1> (x, i)": "[0] must have one of time_axis and batch_axis 0 and the other 1, "
    "got 1 and 1",
}
MALFORMED |= {
    f"z = Constant <value_int = 0> () n = Shape (x) m = Identity (z) y = {op} (z, m)": "[3] cannot be computed: "
    f"{op[:3]}: the divisor must not be 0"
    for op in ("Div", "Mod", "Mod <fmod = 1>")
}
MALFORMED |= {
    f"a = Constant <value_ints = [{a}]> () b = Constant <value_ints = [{b}]> () y = {op} (a, b)": "[2] cannot be "
    f"computed: {op}: the result must fit int64, got {result}"
    for op, a, b, result in (
        ("Add", MOST, 1, MOST + 1),
        ("Sub", LEAST, 1, LEAST - 1),
        ("Mul", MOST, MOST, 85070591730234615847396907784232501249),
    )
}
REFUSED = [
    *(
        (graph_of(nodes), f"graph.node{said}; for whole models see register_onnx2torch")
        for nodes, said in NOT_MOVING.items()
    ),
    *((graph_of(nodes), f"graph.node{said}") for nodes, said in MALFORMED.items()),
    (graph_of("z = Identity (x)"), "output 'y' must be the output of a node, and is of none"),
    (graph_of("y = Shape (x)"), "output 'y' must be of the type that it is declared as, got FLOAT and INT64"),
    (
        graph_of(f"s = SequenceConstruct (x) {FOR_EACH.replace('float', 'int64', 1).format('s', 'a')}"),
        "input 'a' of graph.node[1] must be of the type that it is declared as, got INT64 and FLOAT",
    ),
    (graph_of("y = SequenceConstruct (x)"), "output 'y' must be of the type that it is declared as, got a sequence"),
    *(
        (graph_of("y = Identity (x)", inputs), sentence)
        for inputs, sentence in {
            "int4[N] x": "input 'x' must have an element type that torch has, got INT4",
            "float[N] x, float[M] x": "inputs must have names of their own, got 'x' again",
        }.items()
    ),
    *(
        (
            graph_of("y = Identity (x)", opsets={"": opset}),
            f"model must use an opset from 1 to {onnx.defs.onnx_opset_version()}, the last of onnx {onnx.__version__}, "
            f"got {opset}",
        )
        for opset in (-1, 0, onnx.defs.onnx_opset_version() + 1, 2**31 - 1, 2**31, MOST)
    ),
    (graph_of("y = Identity (x)", opsets={"": 18, "ai.onnx": 13}), "model must use one opset of ONNX, got 13 and 18"),
    *(
        (
            graph_of(f"y, z = Split <split = {sizes}> (x)", opsets={"": opset}),
            f"graph.node[0] must have a split of sizes that are at least 0, got {said}",
        )
        for opset in (2, 11)
        for sizes, said in (([3, -1], "-1 for split[1]"), ([LEAST, 3], f"{LEAST} for split[0]"))
    ),
    (graph_of("y = Tile (x, x, x)", opsets={"": 1}), "graph.node[0] must be Tile of opset 6 or later, got opset 1"),
    # Found before functions are inlined, which would take for ever.
    *(
        (model, f"the functions of the model must give at most 100000 nodes where they are inlined, got {got}")
        for model, got in (
            (twice_each(25), "67108864"),
            (twice_each(400), f"{str(2**401)[:59]}…"),
            (in_branches(twice_each(25)), "134217727"),
        )
    ),
    *(
        (where(with_functions(**functions)), f"the functions of the model must not call themselves, got 'our.{name}'")
        for where in (lambda model: model, in_branches)
        for name, functions in (
            ("f0", {"f0": ["our.f0"]}),
            ("f1", {"f0": ["our.f1"], "f1": ["Identity", "our.f2"], "f2": ["our.f1"]}),
        )
    ),
]


@pytest.mark.parametrize("call", ["y = our.f (x, x)", "y, z = our.f (x)"])
def test_what_the_onnx_package_refuses_of_functions(call: str) -> None:
    """In its own words, on one line."""
    function = '<domain: "our", opset_import: ["": 18]> f (x) => (y) { y = Identity (x) }'
    model = parsed(f"main (float[N] x) => (float[N] y) {{ {call} }} {function}", '"": 18, "our": 1')
    assert re.fullmatch(r"from_onnx: the functions of the model must be valid: \S[^\n]+", refusal(model))


@pytest.mark.parametrize(("model", "sentence"), [pytest.param(*row, id=row[1][:60]) for row in REFUSED])
def test_what_is_refused(model: ModelProto, sentence: str) -> None:
    assert refusal(model) == f"from_onnx: {sentence}"


def test_what_is_nearly_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """An opset under both names of ONNX's domain; as many nodes as functions must not give, and no functions."""
    monkeypatch.setattr(files, "MOST_NODES", 2)
    model = graph_of("a = Identity (x) b = Identity (a) y = Identity (b)", "float[N] x", opsets={"": 18, "ai.onnx": 18})
    assert from_onnx(model)(torch.ones(2)).tolist() == [1, 1]
    assert "must give at most 2 nodes" in refusal(with_functions(f0=["Identity"] * 3))
    too_many = "must be a SequenceMap that gives at most 2 nodes"
    for given, more, said in (
        ("x, x", "", ""),
        ("x, x, x", "", f"graph.node[1] {too_many}"),
        ("x, x", "=> (float[N] d) { d = Identity (c) }", f"graph.node[2] {too_many}"),
        ("x, x", "=> (float[N] c) { }", f"graph.node[2] {too_many}"),
    ):
        again = f"w = SequenceMap (y) <body = two (float[N] c) {more}>" if more else ""
        each = f"s = SequenceConstruct ({given}) {FOR_EACH.format('s', 'a')} {again} z = SequenceAt (y, i)"
        model = parsed(f"g (float[N] x) => (float[N] z) <int64 i = {{-1}}> {{ {each} }}")
        assert refusal(model) == f"from_onnx: {said}" if said else from_onnx(model)(torch.ones(2)).tolist() == [1, 1]


def test_graphs_of_two_nodes_have_the_same_names() -> None:
    nodes = f"c = Constant <value = bool {{1}}> () z = If (c) <{ONE_AND_TWO}> y = If (c) <{ONE_AND_TWO}>"
    assert from_onnx(graph_of(nodes, "float[N] x"))(torch.ones(2)).tolist() == [1, 1]


def test_what_a_body_holds_is_one_parameter() -> None:
    body = "one (float[N] a) => (float[M] b) <float[1] w = {7}> { b = Concat <axis = 0> (a, w) }"
    nodes = f"s = SequenceConstruct (x, x) y = SequenceMap (s) <body = {body}>"
    module = from_onnx(parsed(f"g (float[N] x) => (seq(float[M]) y) {{ {nodes} }}"))
    assert [*dict(module.named_parameters())] == ["w"]
    sum(module(torch.ones(2))).sum().backward()
    assert module.w.grad.tolist() == [2]


def test_long_lists_of_whole_numbers_are_no_sizes() -> None:
    numbers = np.arange(600_000)
    (joined,) = outputs_of(from_onnx(one("Concat", {"a": numbers, "b": numbers}, "ab", axis=0)), [])
    assert joined == bits(np.tile(numbers, 2))


@pytest.mark.parametrize(
    "nodes",
    [
        "y = SequenceConstruct (x, c)",
        "s = SequenceConstruct (x, c) e = SequenceErase (s, i) y = SequenceInsert (e, c, i)",
        "s = SplitToSequence (x, i) y = SequenceInsert (s, c)",
        "s = SequenceConstruct (c) a = SequenceAt (s, i) y = SequenceConstruct (a, a)",
    ],
)
def test_a_sequence_as_an_output(nodes: str) -> None:
    """A list, of tensors that share no memory with what the module holds."""
    model = parsed(f"g (float[N] x, int64 i) => (seq(float[N]) y) <float[2] c = {{5, 6}}> {{ {nodes} }}")
    module, inputs = from_onnx(model), [np.array([1, 2, 3], np.float32), np.array(0)]
    if "SplitToSequence" in nodes:
        inputs[1] += 2
    (expected,) = session_of(model).run(None, dict(zip("xi", inputs, strict=True)))
    for _ in range(2):
        results = module(*map(tensor_of, inputs))
        assert isinstance(results, list)
        assert [bits(result) for result in results] == [bits(array) for array in expected]
        with torch.no_grad():
            for result in results:
                result.zero_()


@pytest.mark.parametrize(
    ("nodes", "opsets", "expected"),
    [
        ("a, b = Split <num_outputs = 2> (x, NO) y = Concat <axis = 0> (b, a)", {"": 18}, [[3, 4], [1, 2]]),
        *(("y = Concat (x, x)", {"": opset}, [[1, 2, 1, 2], [3, 4, 3, 4]]) for opset in (1, 2, 3)),
    ],
)
def test_what_looks_like_something_else(nodes: str, opsets: Mapping[str, int], expected: list[list[int]]) -> None:
    """An input without a name, and the first opsets of ONNX."""
    model = parsed(f"g (float[2, 2] x) => (float[M, N] y) {{ {nodes} }}")
    del model.opset_import[:]
    model.opset_import.extend(helper.make_opsetid(*opset) for opset in opsets.items())
    for node in model.graph.node:
        node.input[:] = [name.replace("NO", "") for name in node.input]
    assert from_onnx(model)(torch.tensor([[1.0, 2], [3, 4]])).tolist() == expected


def test_constants_that_grow_without_end() -> None:
    """Fourteen doublings of a row of numbers: only short ones are computed at import."""
    most = 0

    class Sizes(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            nonlocal most
            result = func(*args, **(kwargs or {}))
            most = max(most, *(value.numel() for value in tree_leaves(result) if isinstance(value, Tensor)), 0)
            return result

    nodes = [f"a{k + 1} = Concat <axis = 1> (a{k}, a{k})" for k in range(14)]
    model = parsed(f"g () => (int64[1, M] a14) <int64[1, 1] a0 = {{3}}> {{ {' '.join(nodes)} }}")
    with Sizes():
        module = from_onnx(model)
    assert 512 <= most < 4096
    assert module().shape == (1, 2**14)


@pytest.mark.parametrize("of_constants", [True, False])
@pytest.mark.parametrize(
    ("op", "sentence"),
    [
        ("Concat <axis = 0>", "Concat: output must hold at most 1048576 sizes, got 2097152"),
        ("Mul", "Mul: the result must fit int64, got 3433683820292512484657849089281"),
    ],
)
def test_sizes_that_grow_without_end(op: str, sentence: str, of_constants: bool) -> None:
    """Sixty doublings of a list, and sixty squares of a number."""
    first = "a0 = Constant <value_ints = [3]> ()" if of_constants else "a0 = Shape (x)"
    nodes = [first, *(f"a{k + 1} = {op} (a{k}, a{k})" for k in range(60))]
    model = parsed(f"g (float[N] x) => (int64[M] a60) {{ {' '.join(nodes)} }}")
    with pytest.raises(ValueError, match=rf"{sentence}(\n|$)"):
        from_onnx(model)(torch.zeros(3))


@pytest.mark.usefixtures("fresh_compiler")
def test_sizes_of_int32() -> None:
    """As exporters of TensorFlow write them."""
    model = parsed("""
    g (float[N, T, 2] x) => (float[A, B] y, int32[2] z, int32[R] r, int32 p)
    <int64[1] one = {1}, int64[1] two = {2}, int64[1] zero = {0}, int32 k = {2}, int32 step = {1}> {
        sizes = Shape (x)
        cast = Cast <to = 6> (sizes)
        part = Slice (cast, one, two)
        time = Squeeze (part, zero)
        twice = Mul (time, k)
        columns = Unsqueeze (twice, zero)
        rows = Slice (cast, zero, one)
        z = Concat <axis = 0> (rows, columns)
        shape = Cast <to = 7> (z)
        y = Reshape (x, shape)
        r = Range (time, twice, step)
        p = ReduceProd <keepdims = 0> (cast)
    }""")
    module = from_onnx(model)
    compiled = torch.compile(module, fullgraph=True, dynamic=True, backend="eager")
    for sizes in ((2, 3, 2), (5, 7, 2), (0, 1, 2)):
        x = filled(sizes, np.dtype("float32"))
        assert outputs_of(compiled, [x]) == outputs_of(module, [x]) == onnxruntime_outputs(model, [x])


@pytest.mark.parametrize("op", ["Abs", "Add", "Cast", "Div", "Mul", "Neg", "ReduceProd", "Sub"])
def test_sizes_that_do_not_fit_int32(op: str) -> None:
    """Of a size that is 2^30; `least` is -2^31, which fits."""
    inputs = {"Add": "size, size", "Cast": "double", "Mul": "size, two", "ReduceProd": "list", "Sub": "least, size"}
    inputs |= {"Div": "least, minus"}
    attributes = {"Cast": "<to = 6>", "ReduceProd": "<keepdims = 0>"}.get(op, "")
    module = from_onnx(
        parsed(f"""
    g (float[A, B, C] x) => (int32 y) <int32 two = {{2}}, int32 minus = {{-1}}> {{
        sizes = Shape (x)
        list = Cast <to = 6> (sizes)
        size = Gather (list, minus)
        negative = Neg (size)
        least = Sub (negative, size)
        double = Size (x)
        y = {op} {attributes} ({inputs.get(op, "least")})
    }}""")
    )
    with pytest.raises(ValueError, match=rf"^{op}: the result must fit int32, got -?(2147483648|3221225472)(\n|$)"):
        module(torch.empty(1).expand(1, 2, 2**30))


def test_damaged_files(tmp_path: Path) -> None:
    """A file in which some bytes are others is read as what it is then, or refused in one sentence."""
    content = HALVES.SerializeToString()
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


@pytest.mark.parametrize("opset", [12, 17, 18, 19])
def test_a_function_of_another_opset(opset: int) -> None:
    """Of 12, with an attribute that became an input."""
    squeeze = "Squeeze <axes = [0]> (both)" if opset == 12 else "Squeeze (both, axis)"
    model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["": 18, "our": 1]>
main (float[n] x) => (float[m] y) {{ y = our.f (x) }}
<domain: "our", opset_import: ["": {opset}]> f (x) => (y) {{
    axis = Constant <value = int64[1] {{0}}> ()
    shape = Constant <value = int64[2] {{1, -1}}> ()
    both = Reshape (x, shape)
    y = {squeeze}
}}""")
    assert from_onnx(model)(torch.arange(3.0)).tolist() == [0, 1, 2]


@pytest.mark.parametrize("opset", [7, 8])
def test_sizes_that_a_model_of_an_old_opset_has_as_constants(opset: int) -> None:
    """Of whole numbers, which ONNX did not allow there, but exporters wrote."""
    model = onnx.parser.parse_model(f"""<ir_version: 3, opset_import: ["": {opset}]>
g (float[2, 3] x) => (float[3, m] y) {{
    shape = Constant <value = int64[2] {{3, -1}}> ()
    y = Reshape (x, shape)
}}""")
    same_as_onnxruntime(model, [torch.rand(2, 3)], importers=[from_onnx])


OF_MANY_NAMES = """<ir_version: 10, opset_import: ["": 18, "our": 1], producer_name: "producer">
main (float[rows, 4] given) => (float[m, 4] result) <float[1] held = {1.0}, int64[1] starts = {1}> {
    ends = Constant <value_ints = [9]> ()
    part = our.twice (given)
    result = Slice (part, starts, ends)
}
<domain: "our", opset_import: ["": 18]> twice (inside) => (made) { made = Concat <axis = 0> (inside, inside) }"""


def test_names_that_are_no_text(tmp_path: Path) -> None:
    """Wherever the bytes of the model have one."""
    model = onnx.parser.parse_model(OF_MANY_NAMES)
    model.graph.node[0].name, model.graph.node[1].doc_string = "first", "about"
    assert from_onnx(model)(torch.ones(2, 4)).shape == (3, 4)
    content, refused, taken = model.SerializeToString(), [], []
    for name in sorted({*re.findall(r"\w{3,}", OF_MANY_NAMES), "first", "about"}):
        for match in re.finditer(rf"\b{name}\b".encode(), content):
            (tmp_path / "a.onnx").write_bytes(content[: match.start()] + b"\xff" * len(name) + content[match.end() :])
            try:
                from_onnx(tmp_path / "a.onnx")
                taken.append(name)
            except ValueError as error:
                refused.append(str(error).partition("\\xff")[0])
    assert {*refused} == {"from_onnx: the names in the model must be UTF-8, got b'"}
    assert len(refused) > 20
    assert taken == ["about", "our", "producer"]  # in the list of opsets


def test_what_is_no_model(tmp_path: Path) -> None:
    file = tmp_path / "a.onnx"
    for content in (b"no model", b"\x08"):
        file.write_bytes(content)
        assert re.fullmatch(r"from_onnx: (?!.*DxDispatch)[^\n]{,288}", refusal(file))
    for name in ("a.onnx", "a.json", "a.textproto"):
        (tmp_path / name).write_bytes(b"")
        assert refusal(tmp_path / name).endswith(" must be an ONNX model, got an empty file; export it again")
    example = Path(dml.__file__).parent / "directml/example-models/chain.json"
    for other in (example, shutil.copy(example, tmp_path / "b.onnx")):
        rule = "be an ONNX model, got one of DxDispatch; torch_dml_ops.directml.Model.load takes it"
        assert refusal(other).partition(" must ")[2] == rule
    with pytest.raises(FileNotFoundError):
        from_onnx(tmp_path / "none.onnx")
    program = exported(torch.nn.Identity(), [torch.zeros(2)])
    for wrong, end in (
        (5, " got 5"),
        (io.BytesIO(), "; write onnx.load(model)"),
        (program, "; write model.model_proto"),
    ):
        with pytest.raises(TypeError) as refused:
            from_onnx(wrong)
        assert str(refused.value).startswith("from_onnx: model must be a path or an onnx.ModelProto, got ")
        assert str(refused.value).endswith(end)


DATA = np.arange(6, dtype=np.float32).reshape(2, 3)


def with_initializer(change: Callable[[TensorProto], None]) -> ModelProto:
    proto = numpy_helper.from_array(DATA, "w")
    change(proto)
    return one("Concat", {"x": np.zeros((2, 1), np.float32), "w": proto}, ["w"], axis=1)


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


def saved(folder: Path, location: str, **more: int) -> Path:
    """A model whose data are said to be there."""
    model = with_initializer(lambda proto: external_data_helper.set_external_data(proto, location, **more))
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
    for link, target in {"link.bin": "secret.bin", "parts": ".", "circle.bin": "model/circle.bin"}.items():
        (folder / link).symlink_to(tmp_path / target)
    within = folder / "data.bin"  # which ONNX does not let a path from the root name, either
    within.write_bytes(DATA.tobytes())
    outside = "../secret.bin", str(tmp_path / "secret.bin"), "x/../../secret.bin", "link.bin", "parts/secret.bin"
    for location in (*outside, str(within), "circle.bin", "a\0b"):
        shown = repr(location) if len(location) < 58 else repr(location)[:59] + "…"
        sentence = f"from_onnx: the data of tensor 'w' must lie in the model's folder, got {shown}"
        assert refusal(saved(folder, location)) == sentence


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


X = np.zeros((2, 3), np.float32)


def on(sentence: str, *inputs: Any, x: np.ndarray = X, **more: Any) -> tuple[str, list[np.ndarray], Any]:
    """What is said, the first input of a node, and others as arrays or lists; with other arguments of `one`."""
    arrays = [np.asarray(given) for given in inputs]
    for k, array in enumerate(arrays):
        if isinstance(inputs[k], list) and array.dtype == np.float64:
            arrays[k] = array.astype(np.float32)
    return sentence, [x, *arrays], more


# What is said when the module runs, and what its node is given.
REFUSED_WHEN_RUN = [
    on("Slice: steps[0] must not be 0", [0], [1], [0], [0]),
    on("Slice: axes[0] must be from -2 to 1, got 2", [0], [1], [2], [1]),
    on("Slice: axes must differ from one another, got -1 for axes[1] and for one before it", [0, 0], [1, 1], [1, -1]),
    on("Slice: ends must have length 1, as starts has, got 2", [0], [1, 1], [0], [1]),
    on("Slice: starts must be a 1-d tensor of int32 or int64, got a 2-d tensor of int64", [[0]], [1], [0], [1]),
    on("Split: split must sum to 2, the size of axis 0, got [1, 3]", [1, 3], outputs=2),
    on("Split: split[1] must be at least 0, got -1", [3, -1], outputs=2),
    on("Split: split must have length 2, one for each output, got 3", [1, 1, 0], outputs=2),
    on("Split: axis must be from -2 to 1, got 2", [1, 1], outputs=2, axis=2),
    on("Split: axis 0 must divide by 3, the number of outputs, got size 7", x=np.zeros(7), outputs=3, opset=13),
    on(
        "ReverseSequence: reverse_sequence: lengths must have sizes [3], one for each index of axis 1 of input, got [2]"
        "; where items lie along axis 0, write axis=1, batch_axis=0",
        [1, 1],
    ),
    on("Reshape: shape[2] must not be 0, as data has no dimension 2", [1, 6, 0]),
    on("Squeeze: axes[0] must be an axis of size 1, got 0, of size 2", [0]),
    on("Reshape: shape[1] must be at least -1, got -2", [3, -2]),
    on("Reshape: shape must hold one -1 at most, got [-1, -1]", [-1, -1]),
    on("Reshape: shape must hold the 6 elements of data, got [4]", [4]),
    on("Transpose: perm must hold each axis from 0 to 1 once, got [0, 1, 2]", perm=[0, 1, 2]),
    on("Expand: shape[1] must be at least 0, got -1", [2, -1]),
    on("Expand: shape must broadcast with the sizes of input, [2, 3], got [2]", [2]),
    on(f"Expand: output must have less than 2**63 bytes, got sizes [{2**61}, 1, 1]", [2**61, 1, 1]),
    on("Tile: repeats must have length 2, one for each dimension, got 1", [2]),
    on("Tile: repeats[1] must be at least 0, got -1", [1, -1]),
    on(f"Tile: output must have less than 2**63 bytes, got sizes [2, {3 * 2**60}]", [1, 2**60]),
    on("Cast: input must have a dtype of whole numbers, got float32", to=7),
    on("Where: condition must have dtype bool, got int64", [1], [2.0], x=np.ones(1, np.int64)),
    on("Where: inputs must have sizes that broadcast, got [2] and [3] and [1]", [1, 2, 3], [1], x=np.ones(2, bool)),
    on("Range: delta must not be 0", 3, 0, x=np.array(0)),
    on("Clip: input must have a dtype of whole numbers, got float32", 0.0),
    on("Less: inputs must have a dtype of whole numbers, got float32", [1.0]),
    on("Sub: inputs must have sizes that broadcast, got [2] and [3]", [1, 2, 3], x=np.arange(2)),
    on("Pad: pads must have length 4, two for each axis, got 2", [1, 1]),
    *(
        on(f"Pad: pads must remove at most {most} from axis {d}, its size, got {most + 1}", pads, mode=mode)
        for mode in ("constant", "edge", "reflect", "wrap")
        for pads, most, d in (([-3, 0, 9, 0], 2, 0), ([9, 0, -3, 0], 2, 0), ([0, -2, 0, -2], 3, 1))
    ),
    on(
        "Pad: pads of mode reflect must be at most 0 for axis 0, of which it keeps 1, got [0, 1]",
        [-1, 0, 1, 0],
        mode="reflect",
    ),
    on("CenterCropPad: shape must have length 2, one for each axis, got 1", [2]),
    on("CenterCropPad: shape must have length 1, one for each axis, got 2", [2, 2], axes=[0]),
    on("CenterCropPad: shape[1] must be at least 0, got -1", [2, -1]),
    on("Pad: constant_value must be one number, got a tensor of sizes [2]", [1] * 4, [1.0, 2.0]),
    on("SpaceToDepth: input must have 4 dimensions, got 2", blocksize=2),
    on("SpaceToDepth: blocksize must be at least 1, got 0", x=np.zeros((1, 1, 2, 2)), blocksize=0),
    on("SpaceToDepth: axis 3 must divide by 2, the blocksize, got size 3", x=np.zeros((1, 1, 2, 3)), blocksize=2),
    on(
        "DepthToSpace: axis 1 must divide by 4, the square of blocksize, got size 6",
        x=np.zeros((1, 6, 1, 1)),
        blocksize=2,
    ),
    on("GatherElements: indices must have as many dimensions as data, 2, got 1", [0]),
    on("GatherElements: indices must have at most size 3, as data has, at axis 1, got 4", [[0] * 4]),
    on("GatherND: indices must begin with sizes [2], as data does, got [1]", [[0]], batch_dims=1),
    on("GatherND: batch_dims must be from 0 to 1, got 2", [[0], [0]], batch_dims=2),
    on("GatherND: indices must be from -3 to 2, got 3", [1, 3]),
    on(
        "GatherND: indices must have a last axis of 1 to 2, as many as data has axes, got sizes [1, 1, 3]",
        [[[0, 0, 0]]],
    ),
    on(
        "GatherND: indices must have a last axis of 1 to 1, as many as data has axes besides batch_dims, got sizes "
        "[2, 2]",
        [[0, 0], [0, 0]],
        batch_dims=1,
    ),
    on("ScatterND: updates must have dtype float32, as data has, got int64", [[0]], [[1, 1, 1]]),
    on("ScatterElements: updates must have sizes [1, 1], got [1, 2]", [[0]], [[1, 1]]),
    on("ScatterElements: updates must have dtype float32, as data has, got int64", [[0]], [[1]]),
    on("Scatter: updates must have sizes [1, 1], got [1, 2]", [[0]], [[1, 1]], opset=9),
    on("Scatter: indices must be from -2 to 1, got 2", [[2]], [[1.0]], opset=9),
    on("Scatter: axis must be from -2 to 1, got 2", [[0]], [[1.0]], opset=9, axis=2),
    *(
        on(f"Clip: {name} must be one number, got a tensor of sizes [1, 1]", *limits, x=np.arange(3))
        for name, limits in (("min", ([[0]], 2)), ("max", (0, [[2]])))
    ),
    on("Trilu: k must be one whole number, got a tensor of sizes [2], of dtype int64", [1, 2]),
    on("Trilu: input must have 2 dimensions or more, got 1", x=np.arange(3)),
    on("Upsample: scales[1] must be a finite number from 1 on, got 0.5", [2.0, 0.5], opset=9),
    on("Upsample: scales[0] must be a finite number from 1 on, got inf", [float("inf"), 1.0], opset=9),
    on("Resize: scales[0] must be a finite number above 0, got 0.0", [], [0.0, 1.0]),
    on("Resize: scales[1] must be a finite number above 0, got nan", [], [1.0, float("nan")]),
    on("Resize: scales must have length 2, one for each axis, got 1", [], [2.0]),
    on("Resize: sizes[1] must be at least 1, got 0", [], [], [4, 0]),
    on("Resize: sizes must have length 2, one for each axis, got 3", [], [], [4, 0, 1]),
    on("Resize: one of scales and sizes must be given, got both", [], [2.0, 2.0], [4, 6]),
    on("Resize: sizes[0] must be 0, as that axis has no elements, got 4", [], [], [4, 6], x=X[:0]),
    on("Resize: sizes[0] must be at least 1, got 0", [], [], [0, 3], keep_aspect_ratio_policy="not_larger"),
    on("Resize: one of sizes must be at least 1, got [0, -1]", [], [], [0, -1], keep_aspect_ratio_policy="not_smaller"),
    *(
        on(
            "Concat: inputs[1] must have dtype float32 and sizes [2, 0], as inputs[0] has, except along axis 1, got "
            f"{piece.dtype} and {[*piece.shape]}",
            piece,
            x=X[:, :0],
            axis=1,
        )
        for piece in (np.zeros((3, 1), np.float32), np.zeros(2, np.float32), np.zeros((2, 1), np.float64))
    ),
]
SQUARE, ONE, CUBE = (np.ones(sizes, np.float32) for sizes in ((2, 2), (), (2, 3, 4)))
REFUSED_WHEN_RUN += [  # no masks, and no fractions that are lost
    on(f"{op}: indices must have dtype int32 or int64, got {dtype}", np.ones(sizes, dtype), *updates, x=SQUARE)
    for op, sizes, *updates in (
        *(("Gather", (2, 2)), ("GatherElements", (2, 2)), ("GatherND", (2, 1))),
        *(("ScatterElements", (2, 2), SQUARE), ("ScatterND", (2, 1), SQUARE)),
    )
    for dtype in ("bool", "uint8", "int8", "float32", "complex64")
]
REFUSED_WHEN_RUN += [
    on(f"{op}: axis must be an axis of the input, which is 0-d and has none, got 0", *inputs, x=ONE, **more)
    for op, inputs, more in (
        *(("Gather", [0], {}), ("GatherElements", [0], {})),
        *(("ScatterElements", [0, ONE], {}), ("Split", [], {"num_outputs": 1})),
    )
]


def out_of_range() -> Iterator[Any]:
    """One index for each axis of CUBE, one more than the last and one less than the first."""
    for axis, last in itertools.product(range(3), (True, False)):
        n = CUBE.shape[axis]
        wrong = n if last else -n - 1
        said = f"indices must be from {-n} to {n - 1}, got {wrong}"
        yield from (on(f"{op}: {said}", [[[0, wrong]]], x=CUBE, axis=axis) for op in ("Gather", "GatherElements"))
        yield on(f"ScatterElements: {said}", [[[0, wrong]]], CUBE[:1, :1, :2], x=CUBE, axis=axis)
        for batch, end in itertools.product(range(axis + 1), range(axis + 1, 4)):
            indices = np.zeros((*CUBE.shape[:batch], 2, end - batch), np.int64)
            indices[..., 1, axis - batch] = wrong
            yield on(f"GatherND: {said}", indices, x=CUBE, batch_dims=batch)
            if batch == 0:
                yield on(f"ScatterND: {said}", indices, np.ones((2, *CUBE.shape[end:]), np.float32), x=CUBE)


@pytest.mark.parametrize(("sentence", "inputs", "more"), [*REFUSED_WHEN_RUN, *out_of_range()])
def test_what_is_refused_when_it_runs(sentence: str, inputs: Sequence[np.ndarray], more: Any) -> None:
    feeds, op = {f"x{k}": array for k, array in enumerate(inputs)}, sentence.partition(":")[0]
    module = from_onnx(untyped(one(op, feeds, **more)))
    with pytest.raises((RuntimeError, ValueError)) as caught:
        module(*map(tensor_of, feeds.values()))
    assert str(caught.value) == sentence.removeprefix("ReverseSequence: ")


# Whole models, by onnx2torch.


@needs_onnx2torch
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
    (expected,) = onnxruntime_results(model, [x])
    module = by_onnx2torch(model).eval()
    assert any(isinstance(part, DataMovement) for part in module.modules())
    torch.testing.assert_close(module(torch.from_numpy(x)).detach(), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.usefixtures("fresh_compiler")
def test_modules_of_onnx2torch_compile_and_train() -> None:
    model = parsed("""
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
    (expected,) = onnxruntime_results(model, [x.detach(), lengths])
    for f in (module, torch.compile(module, fullgraph=True, backend="aot_eager")):
        result = f(x, lengths)
        torch.testing.assert_close(result.detach(), expected)
        (gradient,) = torch.autograd.grad(result.sum(), x)
        assert gradient.abs().sum() > 0


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
    model = parsed(f"""
    mixed (float[2, 2] x) => (float[2, N] y)
    <int64[2, 2] elements = {{0, 0, 1, 1}}, int64[2, 1] rows = {{1, 0}}> {{
        product = MatMul (x, x)
        y = {node}
    }}""")
    with torch.autocast("cpu", torch.bfloat16):
        assert by_onnx2torch(model)(torch.eye(2)).dtype == torch.float32


@needs_onnx2torch
def test_halves_of_two_kinds_are_joined_in_what_holds_both() -> None:
    module = by_onnx2torch(parsed("g (float16[N] x, float16[M] y) => (float16[L] z) { z = Concat <axis = 0> (x, y) }"))
    result = module(torch.ones(1, dtype=torch.float16), torch.full((1,), 2.0**100, dtype=torch.bfloat16))
    assert result.dtype == torch.float32
    assert result.tolist() == [1, 2.0**100]


@pytest.mark.parametrize(
    "node", ["Where (c, a, z)", "Where (c, z, a)", "Where (c, a, t)", "Where (c, t, a)", "Pad (a, p, z)"]
)
def test_floating_point_tensors_of_several_dtypes(node: str) -> None:
    """In a module that was converted, but for what its Cast makes, and in onnx2torch under autocast."""

    def model(given: str, a: str) -> ModelProto:
        return parsed(f"""
        mixed ({given} s, bool[3] c) => (float[N] y)
        <float z = {{-1}}, float[3] t = {{4, 5, 6}}, float[3, 3] e = {{1, 0, 0, 0, 1, 0, 0, 0, 1}},
        int64[2] p = {{0, 1}}> {{
            a = {a}
            y = {node}
        }}""")

    cast, c = from_onnx(model("uint8[3]", "Cast <to = 1> (s)")), torch.tensor([True, False, True])
    s = torch.tensor([1, 2, 3], dtype=torch.uint8)
    wanted = cast(s, c)
    for dtype in (torch.float16, torch.float64, torch.bfloat16):
        assert cast.to(dtype)(s, c).double().equal(wanted.double())
    module = by_onnx2torch(model("float[3]", "MatMul (s, e)"))
    with torch.autocast("cpu", torch.bfloat16):
        assert module(s.float(), c).equal(wanted)


def halving(*outputs: str) -> ModelProto:
    given = ", ".join(f"float[{name.upper()}] {name}" for name in outputs)
    return parsed(f"halving (float[N] x) => ({given}) {{ a, b = Split <num_outputs = 2> (x) c = Identity (b) }}")


@pytest.mark.parametrize("outputs", ["ab", "c", "ba", "b", "ac", "acb", "aba"])
def test_pieces_of_a_split_that_are_the_outputs(outputs: str) -> None:
    """Which onnx2torch would return in another order."""
    model, x = halving(*outputs), torch.arange(3.0)
    pieces = {"a": [0.0, 1.0], "b": [2.0], "c": [2.0]}
    expected = [pieces[name] for name in outputs]
    assert [y.tolist() for y in as_list(from_onnx(model)(x))] == expected
    if outputs in ("ab", "c"):
        assert [y.tolist() for y in as_list(by_onnx2torch(model)(x))] == expected
    else:
        assert refusal(model, by_onnx2torch) == (
            "register_onnx2torch: node 'Split' must have none of the graph's outputs among its own, or all of them in "
            "their order, as onnx2torch returns them; put Identity nodes between"
        )


def test_onnx2torch_keeps_sequence_lengths_whole() -> None:
    """As they are clipped where torch exports a reversal, beside a Shape of opset 20."""
    text = """
    reversed (float[N, T] x, int64[N] lengths) => (float[N, T] y, int64[2] sizes) <int64 one = {1}, int64 five = {5}> {
        clipped = Clip (lengths, one, five)
        y = ReverseSequence <batch_axis = 0, time_axis = 1> (x, clipped)
        sizes = Shape (y)
    }"""
    x, lengths = np.arange(15, dtype=np.float32).reshape(3, 5), np.array([-2, 3, 9])
    same_as_onnxruntime(parsed(text, '"": 20'), [x, lengths], importers=[by_onnx2torch])


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_what_these_operators_do_not_do_is_left_to_onnx2torch(mode: str) -> None:
    text = f"""
    resized (float[1, 1, 4] x) => (float[1, 1, T] y) <float[3] scales = {{1, 1, 2}}> {{
        y = Resize <mode = "{mode}", coordinate_transformation_mode = "half_pixel"> (x, , scales)
    }}"""
    model = parsed(text, '"": 13')
    same_as_onnxruntime(model, [np.arange(4, dtype=np.float32).reshape(1, 1, 4)], importers=[by_onnx2torch])
    assert any(isinstance(part, DataMovement) for part in by_onnx2torch(model).modules()) == (mode == "nearest")


@pytest.mark.parametrize("opset", [13, 19, 21, 23])
def test_what_later_opsets_have_of_more_types_is_left_to_onnx2torch(opset: int) -> None:
    nodes = "c = Constant <value = float[2] {1.5, -2.5}> () s = Add (x, c) i = Cast <to = 7> (s) y = Cast <to = 1> (i)"
    nodes += "e = Equal (s, y) r = Round (s) n = IsNaN (r)"
    outputs = "int64[2] i, float[2] y, bool[2] e, float[2] r, bool[2] n"
    model = parsed(f"g (float[2] x) => ({outputs}) {{ {nodes} }}", f'"": {opset}')
    same_as_onnxruntime(model, [np.array([0.75, -0.25], np.float32)], importers=[by_onnx2torch])


@pytest.mark.parametrize(
    ("opset", "node", "sentence"),
    [
        (13, 'Resize <coordinate_transformation_mode = "tf_crop_and_resize"> (x, , s)', f" {COORDINATES}"),
        (
            18,
            'ScatterElements <reduction = "max"> (x, i, x)',
            " must be ScatterElements with reduction none, got 'max'",
        ),
        (18, "Concat (x, x)", " must be a valid Concat: Required attribute 'axis' is missing"),
        (18, "Concat <axis = 0> (x, , x)", " must be a Concat of named inputs, got one without a name"),
        (18, "Slice (x, k, k)", ": starts must be a 1-d tensor of int32 or int64, got a 0-d tensor of int64"),
    ],
)
def test_what_neither_these_operators_nor_onnx2torch_do(opset: int, node: str, sentence: str) -> None:
    constants = "float[1] s = {2}, int64[2] i = {0, 1}, int64 k = {1}"
    model = parsed(f"refused (float[2] x) => (float[N] y) <{constants}> {{ y = {node} }}", f'"": {opset}')
    assert refusal(model, by_onnx2torch) == f"register_onnx2torch: node '{node.split()[0]}'{sentence}"


@each_importer
@pytest.mark.parametrize(("value", "dtype", "number"), [("", "float", 0), ("<value = int32[1] {7}>", "int32", 7)])
def test_what_is_made_of_sizes_is_where_the_module_is(value: str, dtype: str, number: int, importer: Importer) -> None:
    module = importer(
        parsed(f"""
    made (int64[2] sizes) => ({dtype}[A, B] a, int32[C] c, int64 d)
    <int32 start = {{1}}, int32 limit = {{9}}, int32 step = {{3}}, int64[2] two = {{2, 3}}> {{
        a = ConstantOfShape {value} (two)
        c = Range (start, limit, step)
        d = Size (sizes)
    }}""")
    )
    a, c, d = module(torch.tensor([0, 0]))
    assert (a.tolist(), c.tolist()) == ([[number] * 3] * 2, [1, 4, 7])
    assert (a.dtype, c.dtype) == (getattr(torch, dtype), torch.int32)
    assert d.item() == 2
    assert {y.device.type for y in module.to("meta")(torch.tensor([0, 0], device="meta"))} == {"meta"}


# What else.


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
    module = from_onnx(parsed("g (float[N, M] data) => (float[M, N] y) { y = Transpose (data) }"))
    for arguments, named in (((given,), {}), ((), {"data": given})):
        with pytest.raises(TypeError) as refused:
            module(*arguments, **named)
        assert str(refused.value) == f"OnnxGraph: data must be a tensor, got {got}"


CHOOSING = {
    "GatherElements": "(T[n, k] x, int64[m, k] i) => (T[m, k] y) { y = GatherElements (x, i) }",
    "GatherElements, last axis": "(T[n, k] x, int64[n, m] i) => (T[n, m] y) { y = GatherElements <axis = -1> (x, i) }",
    "ScatterElements": "(T[n, k] x, int64[m, k] i, T[m, k] u) => (T[n, k] y) { y = ScatterElements (x, i, u) }",
    "GatherND": "(T[n, k] x, int64[m, q] i) => (T[a, b] y) { y = GatherND (x, i) }",
    "ScatterND": "(T[n, k] x, int64[m, q] i, T[m, k] u) => (T[n, k] y) { y = ScatterND (x, i, u) }",
    "Gather": "(T[n, k] x, int64[m, q] i) => (T[a, b, k] y) { y = Gather (x, i) }",
    "Pad": "(T[n, k] x, int64[r] i, T c) => (T[a, b] y) { y = Pad (x, i, c) }",
}


@each_importer
@pytest.mark.parametrize(("of", "as_whole"), [("float16", "int16"), ("bfloat16", "int16"), ("float", "int32")])
@pytest.mark.parametrize("op", CHOOSING)
def test_what_indices_choose_keeps_the_bits_of_nans(op: str, of: str, as_whole: str, importer: Importer) -> None:
    module, reference = (importer(parsed(f"g {CHOOSING[op].replace('T', name)}")) for name in (of, as_whole))
    dtype, whole = getattr(torch, of), getattr(torch, as_whole)
    exponent = torch.tensor(float("inf"), dtype=dtype).view(whole)
    nans = (exponent + torch.arange(1, 25, dtype=whole)).reshape(3, 8)  # quiet ones would have a higher bit, too
    index = torch.tensor([[2, 0, -1, 1, 0, 2, -3, 1]])
    if op.endswith("axis"):
        index = index.expand(3, 8)
    elif op.endswith("ND"):
        index = torch.tensor([[2], [-3]])
    elif op == "Pad":
        index = torch.tensor([0, 2, 1, -1])
    updates = [(nans - nans.numel() - 2**9 * exponent.sign())[: index.shape[0]]] if op.startswith("Scatter") else []
    updates += [nans[0, 1]] if op == "Pad" else []
    x, viewed = nans.view(dtype), [update.view(dtype) for update in updates]
    found = module(x, index, *viewed)
    assert found.dtype == dtype
    assert torch.equal(found.detach().view(whole), reference(nans, index, *updates))
    if op.startswith(("GatherElements", "ScatterElements")):
        for wrong in (-9 if op.endswith("axis") else -4, 8):  # torch's indexing takes negative numbers too
            with pytest.raises(ValueError, match=f"Elements: indices must be from .* got {wrong}"):
                module(x, torch.full_like(index, wrong), *viewed)
    x = torch.ones(3, 8, dtype=torch.float64).to(dtype).requires_grad_()
    module(x, index, *viewed).sum().backward()
    assert x.grad is not None


def test_what_else_torch_raises_comes_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not about indices out of bounds, which have a sentence of their own."""

    def no_memory(*arguments: Any) -> Any:
        raise RuntimeError("no memory")

    monkeypatch.setattr(gather_scatter, "signed", no_memory)
    with pytest.raises(RuntimeError, match=r"^no memory$"):
        gather_scatter.gather_elements(torch.zeros(2), torch.tensor([0]))


def test_what_stands_in_for_torchvision_is_taken_away() -> None:
    for name in ("torchvision", "torchvision.ops"):
        assert getattr(sys.modules.get(name), "__spec__", "none") is not None


@pytest.mark.parametrize(
    "nodes",
    [
        "float y = ConstantOfShape (t)",
        "y = Sub (t, n)",
        "b = Less (n, t) y = Where (b, n, t)",
        "y = Concat <axis = 0> (n, t)",
        "z = Constant <value_int = 0> () s = Squeeze (t) o = Div (s, s) w = Sub (o, o) y = Range (w, s, o)",
        "o = Constant <value_int = 1> () s = Squeeze (t) w = Sub (s, s) y = Range (w, s, o)",
        "y = Identity (t)",
        "y = ConstantOfShape <value = int64[1] {7}> (t)",
        "c = Constant <value_ints = [1, 2]> () y = Sub (n, c)",
    ],
)
def test_sizes_and_constants_are_on_the_device_of_the_input(nodes: str) -> None:
    """Whatever the default device and dtype are, when the model is read and when the module runs."""
    of = "float" if nodes.startswith("float") else "int64"
    nodes = f"t = Shape <start = 1, end = 2> (x) {nodes.removeprefix('float')}"
    model = parsed(f"g (float[N, T] x, int64[N] n) => ({of}[M] y) {{ {nodes} }}")
    inputs = torch.zeros(2, 3, device="cpu"), torch.tensor([1, 2], device="cpu")
    expected = (first := from_onnx(model))(*inputs)
    dtype = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float64)
        with torch.device("meta"):
            module = from_onnx(model)
            assert bits(module(*inputs)) == bits(first(*inputs)) == bits(expected)
    finally:
        torch.set_default_dtype(dtype)
    y = module.to("meta")(*(tensor.to("meta") for tensor in inputs))
    assert (y.device.type, y.shape, y.dtype) == ("meta", expected.shape, expected.dtype)


def test_a_range_by_sizes_of_a_model_without_inputs() -> None:
    """An initializer is not an input, and its sizes are known only by its type."""
    nodes = "t = Shape (c) s = Squeeze (t) o = Div (s, s) w = Sub (o, o) y = Range (w, s, o)"
    assert from_onnx(parsed(f"g () => (int64[M] y) <float[3] c = {{1, 2, 3}}> {{ {nodes} }}"))().tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((f"<{dtype} i = {{-2}}> {{ y = Gather <axis = 1> (x, i) }}", [1, 4]) for dtype in ("int32", "int64")),
        ("<int64[2] i = {1, -2}> { y = GatherND (x, i) }", 4),
    ],
)
def test_gathering_by_one_index_compiles(text: str, expected: Any) -> None:
    """As exporters write x[:, 0]."""
    x, module = torch.arange(6.0).reshape(2, 3), from_onnx(parsed(f"g (float[N, T] x) => (float y) {text}"))
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager", dynamic=True)
    assert compiled(x).tolist() == module(x).tolist() == expected


def test_where_and_pad_of_unsigned_numbers_compile() -> None:
    x, condition = torch.arange(3).to(torch.uint16), torch.tensor([True, False, True])
    of_where = parsed("g (bool[N] c, uint16[N] a, uint16[N] b) => (uint16[N] y) { y = Where (c, a, b) }")
    of_pad = parsed(
        "g (uint16[N] x, uint16 c) => (uint16[M] y) { p = Constant <value_ints = [1, 1]> () y = Pad (x, p, c) }"
    )
    for model, inputs in ((of_where, (condition, x, x)), (of_pad, (x, x[2]))):
        module = from_onnx(model)
        assert torch.compile(module, fullgraph=True)(*inputs).tolist() == module(*inputs).tolist()
