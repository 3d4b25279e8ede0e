"""Models in ONNX for the tests of both directions, and their results by all that runs them."""

import copy
import ctypes
import functools
import pickle
import random
import re
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.backend.test.case.node as node_cases
import onnxruntime
import oracle
import pytest
import torch
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper, parser
from oracle import as_list
from torch import Tensor, fx
from torch.onnx import ONNXProgram

import torch_dml_ops as dml
from torch_dml_ops.onnx import from_onnx, register_onnx2torch
from torch_dml_ops.onnx._onnx2torch import OPERATOR_TYPES

HAS_ONNX2TORCH = find_spec("onnx2torch") is not None
needs_onnx2torch = pytest.mark.skipif(not HAS_ONNX2TORCH, reason="needs onnx2torch")
needs_onnxruntime_1_24 = pytest.mark.skipif(
    tuple(map(int, onnxruntime.__version__.split(".")[:2])) < (1, 24),
    reason="this ONNX Runtime, as the last for Python 3.10, refuses and accepts other forms",
)
if HAS_ONNX2TORCH:
    register_onnx2torch()  # before the import, as there may be no torchvision
    import onnx2torch

LEAST, MOST = -(2**63), 2**63 - 1

Array = np.ndarray | Tensor
Bits = tuple[str, tuple[int, ...], bytes]
Outcome = list[Bits] | str  # or an error
Importer = Callable[[ModelProto], torch.nn.Module]


def by_onnx2torch(model: ModelProto) -> torch.nn.Module:
    if not HAS_ONNX2TORCH:
        pytest.skip("needs onnx2torch")
    return onnx2torch.convert(copy.deepcopy(model))  # which changes what it is given


each_importer = pytest.mark.parametrize("importer", [from_onnx, by_onnx2torch])
IMPORTERS: Sequence[Importer] = (from_onnx, by_onnx2torch) if HAS_ONNX2TORCH else (from_onnx,)


def tensor_of(array: Array) -> Tensor:
    """Whatever the dtype; its bytes."""
    if isinstance(array, Tensor):
        return array
    tensor = torch.empty(array.size, dtype=getattr(torch, array.dtype.name), device="cpu")
    tensor.view(torch.uint8).numpy()[:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return tensor.reshape(array.shape)


def bits(value: Array) -> Bits:
    """Name of the dtype, sizes and bytes."""
    if isinstance(value, np.ndarray):
        return value.dtype.name, value.shape, value.tobytes()
    content = value.detach().reshape(-1).repeat(1).view(torch.uint8).numpy().tobytes()
    return str(value.dtype).removeprefix("torch."), tuple(value.shape), content


def outputs_of(module: Callable[..., Any], inputs: Sequence[Array]) -> list[Bits]:
    return [bits(output) for output in as_list(module(*map(tensor_of, inputs)))]


def calls_of_inputs(module: fx.GraphModule) -> Counter[Any]:
    """The functions that are called with something that hangs on an input."""
    known: set[fx.Node] = set()
    for node in module.graph.nodes:
        if node.op == "placeholder" or known.intersection(node.all_input_nodes):
            known.add(node)
    return Counter(node.target for node in known if node.op == "call_function")


def recorded_again(module: torch.nn.Module) -> Counter[Any]:
    """Its calls, which are those of whatever fx records of it: as a module that was pickled is restored, too."""
    assert isinstance(module, fx.GraphModule)
    calls = calls_of_inputs(module)
    assert calls_of_inputs(fx.symbolic_trace(copy.deepcopy(module))) == calls  # to which it adds what it computes
    assert calls_of_inputs(pickle.loads(pickle.dumps(module))) == calls
    return calls


def session_of(model: ModelProto, *, as_written: bool = False) -> onnxruntime.InferenceSession:
    """Its optimizations, which also leave out nodes that would refuse what they are given, may be left out."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    if as_written:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def onnxruntime_results(model: ModelProto | onnxruntime.InferenceSession, inputs: Sequence[Array]) -> list[Tensor]:
    """By OrtValue: NumPy lacks bfloat16, and ONNX Runtime 1.23, the last for Python 3.10, lacks DLPack."""
    session = session_of(model) if isinstance(model, ModelProto) else model
    feeds, results = {}, []
    for given, array in zip(session.get_inputs(), inputs, strict=True):
        number = TensorProto.DataType.Value(given.type.removeprefix("tensor(").removesuffix(")").upper())
        items = oracle.items(tensor_of(array))
        feeds[given.name] = onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(items, number)
    for value in session.run_with_ort_values(None, feeds):
        content = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
        dtype = helper.tensor_dtype_to_np_dtype(value.element_type())
        results.append(tensor_of(np.frombuffer(content, dtype).reshape(value.shape())))
    return results


def onnxruntime_outputs(model: ModelProto | onnxruntime.InferenceSession, inputs: Sequence[Array]) -> list[Bits]:
    return [bits(result) for result in onnxruntime_results(model, inputs)]


def same_as_onnxruntime(
    model: ModelProto, *several: Sequence[Array], importers: Sequence[Importer] = IMPORTERS
) -> list[Bits]:
    """For each of the lists of inputs; returns the outputs for the last."""
    session, modules = session_of(model), [importer(model) for importer in importers]
    for inputs in several:
        outputs = onnxruntime_outputs(session, inputs)
        for module in modules:
            assert outputs_of(module, inputs) == outputs
    return outputs


def for_every_size(
    module: torch.nn.Module, example: Sequence[int], dims: int = 1, backend: Any = "eager"
) -> dict[str, Callable[[Sequence[Array]], list[Bits]]]:
    """The outputs by torch.compile, torch.export and what is exported to ONNX again, where the sizes of the input in
    its first dimensions are dynamic; torch.export may take for granted of others what is true of the example."""
    given, dynamic = (torch.zeros(example),), (dict.fromkeys(range(dims), torch.export.Dim.DYNAMIC),)
    program = torch.export.export(module, given, dynamic_shapes=dynamic)
    again = torch.onnx.export(program, dynamo=True, verbose=False)
    torch.compiler.reset()
    compiled = torch.compile(module, fullgraph=True, dynamic=True, backend=backend)
    return {
        "compiled": partial(outputs_of, compiled),
        "exported": partial(outputs_of, program.module()),
        "in ONNX": partial(onnxruntime_outputs, session_of(again.model_proto)),
    }


def parsed(text: str, opsets: str = '"": 18') -> ModelProto:
    """A graph, and functions, in ONNX's text format."""
    return parser.parse_model(f"<ir_version: 10, opset_import: [{opsets}]> {text}")


def model_of(
    nodes: Sequence[NodeProto],
    feeds: Mapping[str, np.ndarray],
    outputs: Mapping[str, np.dtype | None],
    constants: Mapping[str, np.ndarray | TensorProto] | None = None,
    opset: int = 18,
) -> ModelProto:
    def info(name: str, dtype: np.dtype | None, rank: int | None) -> onnx.ValueInfoProto:
        if dtype is None:  # it is left to be inferred
            return onnx.ValueInfoProto(name=name)
        sizes = None if rank is None else [f"{name}_{d}" for d in range(rank)]
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(dtype), sizes)

    graph = helper.make_graph(
        list(nodes),
        "graph",
        [info(name, array.dtype, array.ndim) for name, array in feeds.items()],
        [info(name, dtype, None) for name, dtype in outputs.items()],
        [
            c if isinstance(c, TensorProto) else numpy_helper.from_array(c, name)
            for name, c in (constants or {}).items()
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


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


def untyped(model: ModelProto) -> ModelProto:
    """A model that does not say what its inputs are, so that nothing is known of them before it runs."""
    for value in model.graph.input:
        value.type.tensor_type.Clear()
        value.type.tensor_type.SetInParent()
    return model


@functools.cache
def onnx_cases() -> dict[str, Any]:
    """The test cases of the onnx package with the operators that move data, without what they are made of. It takes
    seconds to make all of its cases."""
    with warnings.catch_warnings():  # of numbers that overflow in what is expected
        warnings.simplefilter("ignore")
        cases = node_cases.collect_testcases()
    types = OPERATOR_TYPES | {"Constant"}
    return {c.name: c for c in cases if c.model.graph.node[0].op_type in types and "_expanded" not in c.name}


# All of these that are refused, and why.
REFUSED_CASES = {
    "cast_.*(U?INT[24]|FLOAT4E2M1).*": r"must have an element type that torch has, got (U?INT[24]|FLOAT4E2M1)",
    "cast_(?!.*(U?INT[24]|FLOAT4E2M1)).*": r"must move data, got Cast of (?P<of>\w+) to (?!(?P=of)\b)\w+",
    "clip_(?!.*int8).*|clip": "must move data, got Clip of FLOAT",
    "identity_opt": "must be a tensor, got optional_type",
    "identity_sequence": "must be a tensor, got sequence_type",
    "less(_bcast)?": "must move data, got Less of FLOAT",
    "(add|mul)(_bcast|_example)?": "must move data, got (Add|Mul) of FLOAT",
    "range_b?float.*": r"must move data, got Range of B?FLOAT\d*",
    "resize_.*(linear|cubic|tf_crop).*": "must be Resize with mode nearest, got '(linear|cubic)'",
    "scatter_elements_with_(duplicate|reduction).*": "must be ScatterElements with reduction none, got '.*'",
    "scatternd_(add|multiply|max|min).*": "must be ScatterND with reduction none, got '.*'",
    "sub(_bcast|_example)?": "must move data, got Sub of FLOAT",
}


def reason(name: str) -> str | None:
    (*reasons,) = [why for names, why in REFUSED_CASES.items() if re.fullmatch(f"test_({names})", name)]
    assert len(reasons) <= 1
    return reasons[0] if reasons else None


def filled(sizes: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """Any bits, NaN of any payload among them."""
    raw = np.random.default_rng(len(sizes)).integers(0, 256, int(np.prod(sizes)) * dtype.itemsize, np.uint8)
    if dtype.kind == "f" and raw.size:  # a signaling NaN, which arithmetic and changes of the dtype make quiet
        raw[: dtype.itemsize] = (np.array([np.inf], dtype).view(f"u{dtype.itemsize}") + 5).view(np.uint8)
    return (raw % 2 if dtype.kind == "b" else raw).view(dtype).reshape(sizes)


# Of other models, what differs, with the reason: in what from_onnx says where ONNX Runtime gives a result,
ALWAYS_REFUSED = (
    r"must move data, got (?!Cast of (\w+) to \1;)|must have an element type that torch has, got|"
    r": the result must fit int(64|32), got"
)
REFUSED_HERE = {
    # It takes one for all axes, and -1 as 0.
    "CenterCropPad": r"shape must have length|Number of elements of input 'shape'|shape\[\d\] must be at least 0",
    # Of empty tensors, whose other sizes it does not compare.
    **dict.fromkeys(("Concat", "ConcatFromSequence"), r"except along axis|dimensions, as input_sequence\[0\] has"),
    # Of an older opset, which has fewer; and of dtypes that only the input tells.
    "Cast": r"unsupported type tensor\(|must have a dtype of whole numbers",
    "ConstantOfShape": "must be a 1-d tensor of int32 or int64",  # as ONNX has it
    "Expand": "must be a 1-d tensor of int32 or int64",
    # There may be as much left in other places; and nothing is read where the result is empty.
    "Pad": "pads must remove at most|pads of mode .* must be at most",
    "GatherND": "must have a last axis of",  # it takes an index of no axes
    "Reshape": r"got \[(?=.*\b0\b)(?=.*-1)|Product cannot be 0",  # of allowzero, whose -1 has no one meaning
    "Resize": r"must be Resize with|Either `sizes` or `scales`|elements of input 'sizes' \(0\)",
    "ReverseSequence": "must have one of time_axis and batch_axis 0",
    "ScatterElements": "must be ScatterElements with reduction none",
    "ScatterND": "must be ScatterND with reduction none",
    "Split": "as many outputs as num_outputs says|Neither 'split' input nor",  # it takes 1, what is below 0, none
    "Squeeze": "axes must differ from one another",
    "Unsqueeze": "must be a 1-d tensor of int32 or int64",
    "Upsample": "must be Upsample with",
}
# and in what ONNX Runtime says where from_onnx gives one.
TAKEN_HERE = {
    "CenterCropPad": "Input tensor has no dimensions",
    "Compress": "Indices tensor must have rank >= 1",  # if its rank is known before it runs
    **dict.fromkeys(("Div", "Mod"), "Integer (division|modulo) by zero"),  # of a list without sizes
    # Of which none is read or written, as data have no elements.
    "Gather": "indices element out of data bounds",
    "ScatterND": "invalid indice found",
    # A tensor of 0 dimensions or without elements that nothing is added to.
    "Pad": "Cannot use 'constant' mode to pad|Rank of 'pads'|dimension|zero effective input extent|Unexpected mode",
    "ReverseSequence": "Invalid sequence length",  # as documented, longer than the axis is the whole axis
    # Empty pieces, as in ONNX's own implementation, and num_outputs beside a split that has no name.
    "Split": "Invalid num_outputs value|exceeds the remaining size|the 'split' input should not be provided",
    "SplitToSequence": "split_size_sum",  # of a split whose pieces nothing reads
    "Squeeze": "axes",  # a name of no input in place of the axes
}
SENTENCE = re.compile(r"(from_onnx: (graph\.node\[0\]|input|output|tensor) |[A-Z]\w+: |reverse_sequence: )[^\n]{,400}")
OUR_SENTENCE = rf"{SENTENCE.pattern}|(slice1|split|join): [^\n]{{,400}}"  # of the operators themselves, too

# The last is of CenterCropPad, which it takes apart into operators that do not fit a shape of int32.
NO_KERNEL = r"NOT_IMPLEMENTED|not currently registered|Numpy|Unsupported value attribute|Optype \(Max\) bound to diff"


def judged(expected: Outcome, given: Outcome, ops: Collection[str], sentence: str = OUR_SENTENCE) -> str:
    """What ONNX Runtime and from_onnx make of a model with these operators: "the same", "refused by both" or "refused
    by one", as it may be; or what is wrong."""
    if isinstance(given, str) and not re.fullmatch(sentence, given):
        return "no sentence"
    if isinstance(expected, str) and isinstance(given, str):
        return "refused by both"
    if isinstance(expected, list) and isinstance(given, list):
        return "the same" if given == expected else "another result"
    alone, table, always = expected, TAKEN_HERE, f"{NO_KERNEL}|Shape mismatch attempting to re-use buffer"
    if isinstance(given, str):
        alone, table, always = given, REFUSED_HERE, ALWAYS_REFUSED
    if re.search("|".join([always, *(table[op] for op in ops if op in table)]), str(alone)):
        return "refused by one"
    return f"refused {'here' if alone is given else 'there'} only"


RIGHT = ("the same", "refused by both", "refused by one")


# To be exported.


DTYPES_OF_EXPORTS = [
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.bool),
    *(torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.uint8, torch.uint16, torch.uint32, torch.uint64),
]


def exported(module: Any, inputs: Sequence[Tensor], *, dynamic: bool = False, **options: Any) -> ONNXProgram:
    """With static sizes alone, or where an input has the first one's size in dimension 0, with that one dynamic."""
    if dynamic:
        batch = inputs[0].shape[0]
        options["dynamic_shapes"] = (tuple({0: "batch"} if x.shape[0] == batch else None for x in inputs),)
    program = torch.onnx.export(module.eval(), tuple(inputs), dynamo=True, verbose=False, **options)
    assert program is not None
    return program


class Model(torch.nn.Module):
    """A function of tensors, as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(*inputs)


def random_bits(sizes: Sequence[int], dtype: torch.dtype, generator: torch.Generator) -> Tensor:
    """Random ones, NaN of every kind among them."""
    most = 2 if dtype == torch.bool else 256
    count = torch.Size(sizes).numel() * dtype.itemsize
    memory = torch.randint(0, most, (count,), dtype=torch.uint8, generator=generator)
    return memory.view(dtype).reshape(tuple(sizes))


def random_window(rng: random.Random, x: Tensor) -> tuple[list[Any], ...]:
    """Offsets, sizes, strides and output sizes. The size of dimension 0, which is at least 2, may be dynamic."""
    window: list[tuple[Any, ...]] = []
    for d, n in enumerate(x.shape):
        stride = rng.choice([1, 1, -1, 2, -2, 3, -3])
        offset = rng.randint(0, n - 1 if d else 1)
        size = rng.randint(1, n - offset) if d else n - offset
        most = 1 + (size - 1) // abs(stride)
        window.append((offset, size, stride, rng.randint(1, most) if d else most))
        if d and rng.random() < 0.25:
            window[-1] = 0, n, 1, n
    return tuple(map(list, zip(*window, strict=True)))


def affine_calls(seed: int, *inputs: Tensor) -> list[Tensor]:
    """A call of each operator on each input; the numbers are the same for inputs of the same dtypes and ranks."""
    rng = random.Random(seed)
    found: list[Tensor] = []
    for x in inputs:
        *window, steps = random_window(rng, x)
        part = dml.slice1(x, *window, steps if rng.random() < 0.5 else None)
        axis = rng.randrange(x.dim())
        size = x.shape[axis]
        sizes = rng.choice([[1, size - 1], [size - 2, 1, 1], [size]])
        pieces = dml.split(x, sizes, axis)
        shuffled = rng.sample(pieces, rng.randint(1, len(pieces)))
        found += [part, dml.slice_grad(part, x.shape, *window), *pieces, dml.join([*shuffled, x], axis)]
    return found


def affine_inputs(batch: int, dtypes: Sequence[torch.dtype]) -> list[Tensor]:
    rng, generator = random.Random(len(dtypes)), torch.Generator().manual_seed(batch)
    sizes = [[batch, *(rng.randint(3, 6) for _ in range(rng.randint(0, 3)))] for _ in dtypes]
    return [random_bits(n, dtype, generator) for n, dtype in zip(sizes, dtypes, strict=True)]
