"""ONNX models as modules: by from_onnx, and by onnx2torch with the converters of register_onnx2torch.

Compared with the test cases that the onnx package has for its operators, and with ONNX Runtime.
"""

import builtins
import copy
import inspect
import keyword
import pickle
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.backend.test.case.node as node_cases
import pytest
import torch
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx_models import (
    IMPORTERS,
    MOST,
    Importer,
    Model,
    bits,
    each_importer,
    filled,
    model_of,
    needs_onnx2torch,
    one,
    onnx_cases,
    onnxruntime_outputs,
    outputs_of,
    parsed,
    reason,
    refusal,
    same_as_onnxruntime,
    session_of,
    tensor_of,
)
from torch import Tensor, fx
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from torch_dml_ops.onnx import from_onnx
from torch_dml_ops.onnx._importer import gather_scatter, sequences
from torch_dml_ops.onnx._importer.operators import (
    IGNORED_ATTRIBUTES,
    OPERATORS,
    in_todays_form,
    operator_of,
    parameters_of,
)
from torch_dml_ops.onnx._onnx2torch import OPERATOR_TYPES

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
    for name, since in ((name, operator.since) for name, operator in OPERATORS.items() if operator.since > 1):
        before, now = (onnx.defs.get_schema(name, opset) for opset in (since - 1, since))
        assert before.since_version < now.since_version == since, name


def test_every_function_is_recorded_as_it_is() -> None:
    """As it is too where a module is restored that was pickled."""
    functions = {function for operator in OPERATORS.values() for function in (operator.on_tensors, operator.on_sizes)}
    functions |= {*sequences.ON_ANYTHING.values(), sequences.concat_from_sequence, sequences.split_to_sequence}
    for function in functions - {None}:
        graph = fx.Graph()
        given = fx.Proxy(graph.placeholder("given"), fx.proxy.GraphAppendingTracer(graph))
        assert function(given).node.target is function


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
    """A few at a time, beside one that is the same in Python; with constants, a NaN and what torch does."""
    x, w = np.arange(2.0, dtype=np.float32), np.ones(1, np.float32)
    attributes = dir(from_onnx(one("Identity", {"x": x})))
    words = {*attributes, *keyword.kwlist, *dir(builtins), "self", "torch", "device"}
    words = sorted({*words, "training", "x.0", "1", "/a/b.2", "inf", "nan"})
    for k in range(0, len(words), 20):
        names = words[k : k + 20]
        of_them = x.astype(np.int64) if kind == "buffer" else x
        given = {"x:0": x} | (dict.fromkeys(names, x) if kind == "input" else {})
        held = dict.fromkeys(names, of_them) if kind in ("parameter", "buffer") else {}
        nodes = [helper.make_node("Identity", ["x:0"], [name]) for name in names if kind == "node"]
        nodes += [
            helper.make_node("Concat", ["w", "x:0"], ["z:0"], axis=0),
            helper.make_node("Identity", ["w"], ["v:0"]),
        ]
        outputs = {"z:0": x.dtype, "v:0": x.dtype} | {f"{name}:y": of_them.dtype for name in names}
        for name in names:
            if kind == "buffer":
                nodes.append(helper.make_node("Identity", [name], [f"{name}:y"]))
            else:
                nodes.append(helper.make_node("Pad", [name], [f"{name}:y"], pads=[0, 1], value=np.nan, mode="constant"))
        module = from_onnx(model_of(nodes, given, outputs, {**held, "w": w}, opset=9))
        y = of_them if kind == "buffer" else np.append(x, np.float32(np.nan))
        expected = [bits(np.append(w, x)), bits(w), *[bits(y)] * len(names)]
        for same in (module, pickle.loads(pickle.dumps(copy.deepcopy(module)))):
            assert outputs_of(same, [*given.values()]) == expected, names


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


def test_a_tensor_of_a_sequence_has_the_rank_that_it_had() -> None:
    """Which the sequence's type no longer tells, where others differ: what is computed of its sizes stays sizes."""
    nodes = "s = SequenceConstruct (x, v) a = SequenceAt (s, one) n = Shape (a) k = Squeeze (n)"
    model = parsed(
        f"g (float[A, B] x, float[N] v) => (int64[M] y) <int64 zero = {{0}}, int64 one = {{1}}, int64 two = {{2}}>"
        f"{{ {nodes} half = Div (k, two) y = Range (zero, half, one) }}"
    )
    inputs = [np.ones((2, 3), np.float32), np.ones(5, np.float32)]
    assert outputs_of(from_onnx(model), inputs) == onnxruntime_outputs(model, inputs)


def test_what_a_body_holds_is_one_parameter() -> None:
    body = "one (float[N] a) => (float[M] b) <float[1] w = {7}> { b = Concat <axis = 0> (a, w) }"
    nodes = f"s = SequenceConstruct (x, x) y = SequenceMap (s) <body = {body}>"
    module = from_onnx(parsed(f"g (float[N] x) => (seq(float[M]) y) {{ {nodes} }}"))
    assert [*dict(module.named_parameters())] == ["w"]
    sum(module(torch.ones(2))).sum().backward()
    assert module.w.grad.tolist() == [2]


def test_pieces_of_a_sequence_take_no_name_of_another_value() -> None:
    nodes = "s = SplitToSequence (x, ones) a = SequenceAt (s, zero) y = Concat <axis = 0> (a, w)"
    held = "int64[2] ones = {1, 1}, int64 zero = {0}, float[1] w = {7}"
    model = parsed(f"g (float[N] x) => (float[M] y) <{held}> {{ {nodes} }}")
    model.graph.initializer[2].name = model.graph.node[2].input[1] = "s[0]"
    assert from_onnx(model)(torch.tensor([1.0, 2.0])).tolist() == [1, 7]


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


def test_a_default_of_a_function_within_another() -> None:
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 18, "our": 1]>
main (float[n, m] x) => (float[n, k] y) { y = our.outer (x) }
<domain: "our", opset_import: ["": 18, "our": 1]> outer (x) => (y) { y = our.inner (x) }
<domain: "our", opset_import: ["": 18]> inner <axis: int = 1> (x) => (y) { y = Concat <axis: int = @axis> (x, x) }""")
    assert from_onnx(model)(torch.tensor([[1.0, 2.0]])).tolist() == [[1, 2, 1, 2]]


@pytest.mark.parametrize("opset", [7, 8])
def test_sizes_that_a_model_of_an_old_opset_has_as_constants(opset: int) -> None:
    """Of whole numbers, which ONNX did not allow there, but exporters wrote."""
    model = onnx.parser.parse_model(f"""<ir_version: 3, opset_import: ["": {opset}]>
g (float[2, 3] x) => (float[3, m] y) {{
    shape = Constant <value = int64[2] {{3, -1}}> ()
    y = Reshape (x, shape)
}}""")
    same_as_onnxruntime(model, [torch.rand(2, 3)], importers=[from_onnx])


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
