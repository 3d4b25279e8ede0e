"""ONNX graphs that only move data, as PyTorch modules."""

from __future__ import annotations

import inspect
import keyword
import os
import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from math import prod
from operator import getitem
from pathlib import Path
from typing import Any, NamedTuple

import onnx
import torch
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto
from onnx.helper import make_tensor_type_proto
from torch import Tensor, fx, nn
from torch.compiler import is_dynamo_compiling

from torch_dml_ops._sentences.arguments import require_tensor
from torch_dml_ops._sentences.text import shown, text
from torch_dml_ops.onnx._importer import arithmetic, gather_scatter, moving, resize, sizes
from torch_dml_ops.onnx._importer.files import (
    ONNX_DOMAINS,
    dtype_of,
    external_tensors,
    line_of,
    read_model,
    tensor_of,
    type_name,
    zero,
)
from torch_dml_ops.onnx._importer.inputs import WHOLE, constant_numbers


class Kind(NamedTuple):
    """What is computed from sizes: a list where the rank is 1, one number or truth value where it is 0."""

    rank: int
    dtype: torch.dtype


# What an operator makes of such data, with its other inputs and attributes; None where that is no longer sizes. What
# the rules here do not tell is whether a list has one number: the last argument is the rank that ONNX infers.
Rule = Callable[[Sequence["SizesNode | Constant"], Mapping[str, Any], int | None], Kind | None]


def _elementwise(data: Sequence[SizesNode | Constant], arguments: Any = (), inferred: Any = None) -> Kind | None:
    dtype = data[0].dtype
    if dtype not in WHOLE or any(value.dtype != dtype for value in data):
        return None
    return Kind(max(value.rank for value in data), dtype)


def _compared(data: Sequence[SizesNode | Constant], arguments: Any, inferred: Any) -> Kind | None:
    kind = _elementwise(data)
    return kind and kind._replace(dtype=torch.bool)


def _chosen(data: Sequence[SizesNode | Constant], arguments: Any, inferred: Any) -> Kind | None:
    condition, *others = data
    kind = _elementwise(others)
    return kind and kind._replace(rank=max(condition.rank, kind.rank)) if condition.dtype == torch.bool else None


def _cast(data: Sequence[SizesNode | Constant], arguments: Mapping[str, Any], inferred: Any) -> Kind | None:
    to = {TensorProto.INT32: torch.int32, TensorProto.INT64: torch.int64, TensorProto.BOOL: torch.bool}
    return Kind(data[0].rank, to[arguments["to"]]) if arguments["to"] in to else None


def _listed(data: Sequence[SizesNode | Constant], arguments: Any, inferred: Any) -> Kind | None:
    kind = _elementwise(data)
    return kind if all(value.rank == 1 for value in data) else None


def _gathered(data: Sequence[SizesNode | Constant], arguments: Any, inferred: Any) -> Kind | None:
    numbers, indices = data
    is_list = numbers.rank == 1 and numbers.dtype in WHOLE and indices.dtype in WHOLE
    return Kind(indices.rank, numbers.dtype) if is_list else None


def _by_one(before: int, after: int) -> Rule:
    def rule(data: Sequence[SizesNode | Constant], arguments: Mapping[str, Any], inferred: int | None) -> Kind | None:
        axes, kind = arguments.get("axes"), _elementwise(data)
        is_one = inferred == after or (isinstance(axes, tuple) and len(axes) == 1)
        return kind and kind._replace(rank=after) if kind and kind.rank == before and is_one else None

    return rule


def _reshaped(data: Sequence[SizesNode | Constant], arguments: Mapping[str, Any], inferred: Any) -> Kind | None:
    shape, kind = arguments["shape"], _elementwise(data)
    return kind and kind._replace(rank=len(shape)) if isinstance(shape, tuple) and len(shape) <= 1 else None


def _repeated(data: Sequence[SizesNode | Constant], arguments: Mapping[str, Any], inferred: Any) -> Kind | None:
    """As many times as a list has sizes, or as a constant says."""
    (length,), value = data, arguments.get("value")
    if isinstance(length, Constant):
        is_list = length.may_be_numbers and length.tensor.shape == (1,) and 0 <= length.tensor.item() <= MOST_NUMBERS
    else:
        is_list = length.is_length
    dtypes = {TensorProto.INT32: torch.int32, TensorProto.INT64: torch.int64}
    return Kind(1, dtypes[value.data_type]) if is_list and value and value.data_type in dtypes else None


def _reduced(data: Sequence[SizesNode | Constant], arguments: Mapping[str, Any], inferred: Any) -> Kind | None:
    kind = _listed(data, arguments, inferred)
    kept = arguments.get("keepdims", 1) or (arguments.get("noop_with_empty_axes") and not arguments.get("axes"))
    return kind and kind._replace(rank=1 if kept else 0)


class OnnxOperator(NamedTuple):
    """What an operator does on tensors, and on sizes that the graph computes, where the rule says that it gives such.

    Parameters have the names of ONNX's inputs, or of the attributes that older opsets have in their place.
    """

    on_tensors: Callable[..., Any] | None
    on_sizes: Callable[..., Any] | None = None
    rule: Rule = _elementwise
    numbers: tuple[str, ...] = ()  # inputs that are numbers, or lists of them
    since: int = 1  # the opset from which on it means this


OPERATORS = {
    "Add": OnnxOperator(arithmetic.add, sizes.add, since=7),
    "Cast": OnnxOperator(arithmetic.cast, sizes.cast, _cast, since=6),
    "CenterCropPad": OnnxOperator(moving.center_crop_pad, numbers=("shape",)),
    "Clip": OnnxOperator(arithmetic.clip, since=12),
    "Compress": OnnxOperator(gather_scatter.compress, numbers=("condition",)),
    "Concat": OnnxOperator(moving.concat, sizes.concat, _listed),
    "ConstantOfShape": OnnxOperator(moving.constant_of_shape, sizes.constant_of_shape, _repeated, numbers=("input",)),
    "DepthToSpace": OnnxOperator(moving.depth_to_space),
    "Div": OnnxOperator(None, sizes.div, since=7),
    "Equal": OnnxOperator(None, sizes.equal, _compared, since=7),
    "Expand": OnnxOperator(moving.expand, numbers=("shape",)),
    "Flatten": OnnxOperator(moving.flatten),
    "Gather": OnnxOperator(gather_scatter.gather, sizes.gather, _gathered),
    "GatherElements": OnnxOperator(gather_scatter.gather_elements, since=11),
    "GatherND": OnnxOperator(gather_scatter.gather_nd),
    "Greater": OnnxOperator(None, sizes.greater, _compared, since=9),
    "Identity": OnnxOperator(moving.identity, sizes.identity),
    "Less": OnnxOperator(arithmetic.less, sizes.less, _compared, since=9),
    "Max": OnnxOperator(None, sizes.maximum, since=8),
    "Min": OnnxOperator(None, sizes.minimum, since=8),
    "Mod": OnnxOperator(None, sizes.mod, since=10),
    "Mul": OnnxOperator(arithmetic.mul, sizes.mul, since=7),
    "Neg": OnnxOperator(None, sizes.neg, since=6),
    "Pad": OnnxOperator(moving.pad, numbers=("pads", "axes"), since=2),
    "Range": OnnxOperator(arithmetic.range_, numbers=("start", "limit", "delta"), since=11),
    "ReduceProd": OnnxOperator(None, sizes.reduce_prod, _reduced, numbers=("axes",)),
    "Reshape": OnnxOperator(moving.reshape, sizes.reshape, _reshaped, numbers=("shape",)),
    "Resize": OnnxOperator(resize.resize, numbers=("scales", "sizes")),
    "ReverseSequence": OnnxOperator(moving.reverse_sequence),
    "Scatter": OnnxOperator(gather_scatter.scatter),
    "ScatterElements": OnnxOperator(gather_scatter.scatter_elements),
    "ScatterND": OnnxOperator(gather_scatter.scatter_nd),
    "Slice": OnnxOperator(moving.slice_, sizes.slice_, _listed, numbers=("starts", "ends", "axes", "steps")),
    "SpaceToDepth": OnnxOperator(moving.space_to_depth),
    "Split": OnnxOperator(moving.split, sizes.split, _listed, numbers=("split",)),
    "Squeeze": OnnxOperator(moving.squeeze, sizes.squeeze, _by_one(1, 0), numbers=("axes",)),
    "Sub": OnnxOperator(arithmetic.sub, sizes.sub, since=7),
    "Tile": OnnxOperator(moving.tile, numbers=("repeats",), since=6),
    "Transpose": OnnxOperator(moving.transpose),
    "Trilu": OnnxOperator(moving.trilu, numbers=("k",)),
    "Unsqueeze": OnnxOperator(moving.unsqueeze, sizes.unsqueeze, _by_one(0, 1), numbers=("axes",)),
    "Upsample": OnnxOperator(resize.upsample, numbers=("scales",), since=7),
    "Where": OnnxOperator(arithmetic.where, sizes.where, _chosen, since=9),
}
# The operators whose results share no memory with their inputs.
COPYING = frozenset(
    OPERATORS[op].on_tensors
    for op in (
        "Compress", "Concat", "GatherElements", "GatherND", "ReverseSequence", "Scatter", "ScatterElements",
        "ScatterND", "Slice", "Split", "Trilu", "Where",
    )
)  # fmt: skip
# Those of whole numbers alone, where they have tensors to work on.
OF_WHOLE_NUMBERS = frozenset({"Add", "Cast", "Clip", "Less", "Mul", "Range", "Sub"})
# Those whose result is known with their inputs, as far as these are few numbers, in however many dimensions.
OF_NUMBERS = frozenset({"Cast", "Concat", "Gather", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"})
# Those that make other numbers of sizes: the others choose some.
COMPUTING = frozenset({"Add", "Cast", "Div", "Mul", "Neg", "ReduceProd", "Sub"})
RESIZE_10 = OnnxOperator(resize.resize_10, numbers=("scales",))

# They are about casts, sums and interpolation of floating-point numbers, and about memory that operators of the first
# opsets reuse.
IGNORED_ATTRIBUTES = {
    "antialias", "consumed_inputs", "cubic_coeff_a", "exclude_outside", "extrapolation_value", "round_mode", "saturate",
    "stash_type",
}  # fmt: skip

# The attributes with which an operator may do more than move data, and the values with which it does not; the default
# first.
MOVING: Mapping[str, Mapping[str, Sequence[str]]] = {
    "DepthToSpace": {"mode": ("DCR", "CRD")},
    "Pad": {"mode": ("constant", "edge", "reflect", "wrap")},
    "Resize": {
        "mode": ("nearest",),
        "coordinate_transformation_mode": tuple(resize.COORDINATES),
        "nearest_mode": tuple(resize.NEAREST),
        "keep_aspect_ratio_policy": tuple(resize.POLICIES),
    },
    "ScatterElements": {"reduction": ("none",)},
    "ScatterND": {"reduction": ("none",)},
    "SpaceToDepth": {"mode": ("DCR", "CRD")},
    "Upsample": {"mode": ("nearest",)},
}


MOST_NUMBERS = 1000  # of a list whose length is that of a tensor's rank or of a node's outputs


def operator_of(op: str, opset: int) -> OnnxOperator:
    return RESIZE_10 if op == "Resize" and opset < 11 else OPERATORS[op]


def beyond_moving(op: str, arguments: Mapping[str, Any]) -> str | None:
    """What would have to hold of attributes and constants for an operator that moves data, if it does not."""
    for name, values in MOVING.get(op, {}).items():
        if (value := arguments.get(name, values[0])) not in values:
            return f"be {op} with {name} {_or(values)}, got {shown(value)}"
    return None


class Constant:
    """A tensor that the model holds, read when it is first used."""

    def __init__(self, name: str, data: Tensor | TensorProto, folder: Path | None, trainable: bool = False) -> None:
        self.name, self._data, self._folder, self._trainable = name, data, folder, trainable

    @cached_property
    def tensor(self) -> Tensor:
        return self._data if isinstance(self._data, Tensor) else tensor_of(self._data, self._folder)

    @property
    def is_parameter(self) -> bool:
        """Not of a single number, as exporters write what is filled in: training would change zeros and infinities."""
        return self._trainable and self.rank > 0 and (self.tensor.is_floating_point() or self.tensor.is_complex())

    @property
    def may_be_sizes(self) -> bool:
        return self.tensor.dtype in (*WHOLE, torch.bool) and self.tensor.dim() <= 1

    @property
    def rank(self) -> int:
        return self.tensor.dim()

    @property
    def dtype(self) -> torch.dtype:
        return self.tensor.dtype

    @property
    def may_be_numbers(self) -> bool:
        """Whether an operator's rules may depend on what it holds: not on weights, which are not read for that."""
        if isinstance(self._data, Tensor):
            return self._data.dtype == torch.int64 and self._data.numel() <= MOST_NUMBERS
        return self._data.data_type in (TensorProto.INT32, TensorProto.INT64) and prod(self._data.dims) <= MOST_NUMBERS

    @property
    def numbers(self) -> TensorProto:
        return onnx.numpy_helper.from_array(self.tensor.numpy(), self.name)


class SizesNode(NamedTuple):
    """Sizes that the graph computes: a tuple of them where the rank is 1, one where it is 0."""

    node: fx.Node
    rank: int
    dtype: torch.dtype = torch.int64
    is_length: bool = False  # a list of one number, of how many there are in another


Value = fx.Node | SizesNode | Constant


def from_onnx(model: str | os.PathLike[str] | ModelProto) -> nn.Module:
    """Imports an ONNX model that only moves data, as a module that has gradients, compiles, and runs on any device.

    The operators are Slice, Split, Concat and ReverseSequence, in the form of every opset, and what goes with them:
    Identity, Transpose, Reshape, Flatten, Squeeze, Unsqueeze, Expand, Tile, Pad, CenterCropPad, DepthToSpace,
    SpaceToDepth, Gather, GatherElements, GatherND, Scatter, ScatterElements and ScatterND without a reduction,
    Compress, Trilu, Where, Constant and ConstantOfShape; Upsample and Resize to the nearest element; Shape, Size, Add,
    Sub, Mul, Div, Mod, Neg, Min, Max, ReduceProd, Equal, Less and Greater that compute sizes; Add, Cast, Clip, Less,
    Mul and Sub of sequence lengths and indices, and Range, all of whole numbers. The model's own functions are
    followed, and of an If the branch that a constant chooses, or the rank of an input.

    Args:
        model: the path of a file, or an :class:`onnx.ModelProto`. Data that a file keeps in other files is read
            only from its own folder.

    Returns:
        A :class:`torch.fx.GraphModule`. It takes the inputs of the graph as tensors in their order, and returns its
        output or, if there are several, a tuple of them. Initializers of floating-point or complex numbers are its
        parameters, but for single numbers (0-d), which exporters write for what is filled in; these, other
        initializers, and constants are buffers; they are no inputs, also where the graph lists them among its inputs,
        as their defaults. Numbers that are inputs of the graph, such as the starts of a Slice,
        are read when it runs: on a GPU that waits for them, and :func:`torch.compile` breaks the graph there.

    Raises:
        NotImplementedError: a node that does something else, the first of the graph; an element type that torch lacks.
        ValueError: a file that is not a valid model, data outside of the file's folder, local functions that would be
            more than 100 000 nodes.
        TypeError: a ``model`` that is neither a path nor a model.
        OSError: a file that cannot be read.

    Slice, Split, Concat and ReverseSequence copy; the others may return a view of an input, as in torch. Sources: the
    `operators <https://onnx.ai/onnx/operators/>`_ of ONNX.

    >>> import onnx.parser, torch, torch_dml_ops.onnx
    >>> model = onnx.parser.parse_model('''
    ... <ir_version: 8, opset_import: ["": 18]>
    ... every_other (int64[n] x) => (int64[m] y) {
    ...     start = Constant <value_ints = [-1]> ()
    ...     end = Constant <value_ints = [-100]> ()
    ...     axis = Constant <value_ints = [0]> ()
    ...     step = Constant <value_ints = [-2]> ()
    ...     y = Slice(x, start, end, axis, step)
    ... }''')
    >>> module = torch_dml_ops.onnx.from_onnx(model)
    >>> module(torch.arange(6))
    tensor([5, 3, 1])
    """
    read, folder = read_model(model)
    return _Importer(read, folder).module()


def attributes_of(node: NodeProto) -> dict[str, Any]:
    attributes = {}
    for attribute in node.attribute:
        value = onnx.helper.get_attribute_value(attribute)
        if attribute.type in (AttributeProto.INTS, AttributeProto.FLOATS):
            value = tuple(value)
        attributes[attribute.name] = value.decode(errors="replace") if isinstance(value, bytes) else value
    return attributes


def in_todays_form(op: str, attributes: Mapping[str, Any], opset: int, outputs: int) -> dict[str, Any]:
    """The attributes as keyword arguments of the functions, with what older opsets mean by the same node."""
    result = {name: value for name, value in attributes.items() if name not in IGNORED_ATTRIBUTES}
    if op == "Split":
        result["must_divide"] = "num_outputs" not in attributes
        result["num_outputs"] = outputs
    elif op == "Concat" and opset < 4:
        result.setdefault("axis", 1)
    return result


def parameters_of(function: Callable[..., Any]) -> list[str] | None:
    """The names of ONNX's inputs, or None where there may be any number of them."""
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind == parameter.VAR_POSITIONAL for parameter in parameters):
        return None
    return [parameter.name for parameter in parameters if parameter.kind == parameter.POSITIONAL_OR_KEYWORD]


def check_node(what: str, node: NodeProto, opset: int, ir_version: int = onnx.IR_VERSION) -> None:
    context = onnx.checker.C.CheckerContext()
    context.ir_version, context.opset_imports = ir_version, {"": opset}
    checked = NodeProto()
    checked.CopyFrom(node)
    checked.domain = ""  # or its other name, "ai.onnx"
    for attribute in checked.attribute:
        if attribute.HasField("g"):
            attribute.g.CopyFrom(GraphProto(name=attribute.name))  # whose nodes are checked where they are added
    for tensor in external_tensors(checked):  # which the checker would look for in the current folder
        tensor.CopyFrom(TensorProto(data_type=tensor.data_type, dims=[0]))
    try:
        onnx.checker.check_node(checked, context)
    except (onnx.checker.ValidationError, UnicodeDecodeError) as error:  # or text that is no UTF-8, in its message
        raise ValueError(f"{what} must be a valid {node.op_type}: {line_of(error)}") from None
    if node.op_type in ("Concat", "Max", "Min") and "" in node.input:  # which the checker lets pass
        raise ValueError(f"{what} must be a {node.op_type} of named inputs, got one without a name")
    if rule := _broken_rule(node.op_type, attributes_of(node), [bool(name) for name in node.input], len(node.output)):
        raise ValueError(f"{what} must {rule}")


def _broken_rule(op: str, attributes: Mapping[str, Any], inputs: Sequence[bool], outputs: int) -> str | None:
    """What ONNX's text asks of a node's attributes, and its checker does not."""
    if op == "Split":
        number = attributes.get("num_outputs", outputs)
        if number != outputs:
            return f"have as many outputs as num_outputs says, got {outputs} and {number}"
        if "num_outputs" in attributes and inputs[1:] == [True]:
            return "have either split or num_outputs, got both"
        for k, piece in enumerate(attributes.get("split", ())):
            if piece < 0:
                return f"have a split of sizes that are at least 0, got {piece} for split[{k}]"
    if op == "ReverseSequence":
        axes = attributes.get("time_axis", 0), attributes.get("batch_axis", 1)
        if sorted(axes) != [0, 1]:
            return f"have one of time_axis and batch_axis 0 and the other 1, got {axes[0]} and {axes[1]}"
    if op == "Mod" and (fmod := attributes.get("fmod", 0)) not in (0, 1):
        return f"have an fmod of 0 or 1, got {fmod}"
    if op == "ConstantOfShape" and "value" in attributes and list(attributes["value"].dims) not in ([1], []):
        return f"have a value of one element, got sizes {text(tuple(attributes['value'].dims))}"
    if op == "Transpose" and sorted(perm := attributes.get("perm", ())) != list(range(len(perm))):
        return f"have a perm that holds each axis once, got {text(perm)}"
    return None


def _require_tensors(names: Sequence[str], module: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """A graph's inputs, which are not NumPy arrays, as in ONNX Runtime."""
    for name, value in (*zip(names, args, strict=False), *kwargs.items()):
        require_tensor(f"OnnxGraph: {name}", value)


class OnnxGraph(fx.GraphModule):
    """What :func:`from_onnx` gives. It checks its inputs by a hook, which torch.fx would neither copy nor pickle."""

    def __init__(self, root: nn.Module, graph: fx.Graph) -> None:
        super().__init__(root, graph, class_name="OnnxGraph")
        self._check_inputs()

    def _check_inputs(self) -> None:
        names = [node.name for node in self.graph.nodes if node.op == "placeholder"]
        self.register_forward_pre_hook(partial(_require_tensors, names), with_kwargs=True)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if is_dynamo_compiling():  # which knows no notes
            return super().__call__(*args, **kwargs)
        try:
            return super().__call__(*args, **kwargs)
        except Exception as error:
            if hasattr(error, "add_note"):  # from Python 3.11 on
                self._add_node_to(error)
            raise

    def _add_node_to(self, error: Any) -> None:
        """Notes the node of the graph at which it was raised, if it was at one."""
        for frame, line in traceback.walk_tb(error.__traceback__):
            if frame.f_code.co_name == "forward" and frame.f_locals.get("self") is self:
                name = self.code.splitlines()[line - 1].partition(" = ")[0].strip()
                for node in self.graph.nodes:
                    if node.name == name:
                        error.add_note(f"OnnxGraph: at {node.format_node()}")

    def __deepcopy__(self, memo: dict[int, Any]) -> OnnxGraph:
        copied: Any = super().__deepcopy__(memo)
        type(copied).__name__ = type(self).__name__
        copied._check_inputs()
        return copied  # type: ignore[no-any-return]

    def __reduce__(self) -> Any:
        return _restored, super().__reduce__()


def _restored(restore: Callable[..., fx.GraphModule], given: Sequence[Any]) -> OnnxGraph:
    module = restore(*given)
    return OnnxGraph(module, module.graph)


_EMPTY = OnnxGraph(nn.Module(), fx.Graph())  # has the attributes that no constant may replace


class _Tracer(fx.Tracer):
    """What records the graph again where it is restored from a pickle: the buffers too, and what is made of them."""

    proxy_buffer_attributes = True


class _Importer:
    """Goes through a graph once and writes down what is to be called."""

    def __init__(self, model: ModelProto, folder: Path | None) -> None:
        self._model, self._folder = model, folder
        self._opset = max(opset.version for opset in model.opset_import if opset.domain in ONNX_DOMAINS)
        self._graph = fx.Graph(tracer_cls=_Tracer)
        self._root = nn.Module()
        self._values: dict[str, Value] = {}
        self._types: dict[str, TypeProto] = {}  # of the values for which they can be told
        self._registered: dict[Constant, fx.Node] = {}
        self._numbers_of: dict[fx.Node, Tensor] = {}  # what some nodes make of constants

    def module(self) -> nn.Module:
        self._add_initializers(self._model.graph)
        self._add_inputs(self._model.graph)
        self._add_nodes("graph", self._model.graph)
        results = [self._apart(self._tensor(self._values[output.name])) for output in self._model.graph.output]
        self._graph.output(results[0] if len(results) == 1 else tuple(results))
        self._graph.eliminate_dead_code()
        return OnnxGraph(self._root, self._graph)

    def _add_initializers(self, graph: GraphProto) -> None:
        if graph.sparse_initializer:
            name = shown(graph.sparse_initializer[0].values.name)
            raise NotImplementedError(f"from_onnx: initializer {name} must be dense, got a sparse tensor")
        for initializer in graph.initializer:
            self._values[initializer.name] = Constant(initializer.name, initializer, self._folder, trainable=True)
            if initializer.data_type in TensorProto.DataType.values():
                self._types[initializer.name] = make_tensor_type_proto(initializer.data_type, initializer.dims)

    def _add_nodes(self, where: str, graph: GraphProto) -> None:
        for k, node in enumerate(graph.node):
            self._add_node(f"{where}.node[{k}]{f' ({shown(node.name)})' if node.name else ''}", node)
        for output in graph.output:
            if output.name not in self._values:
                raise ValueError(f"from_onnx: output {shown(output.name)} must be the output of a node, and is of none")
            self._check_type(f"output {shown(output.name)}", output)

    def _add_branch(self, label: str, node: NodeProto, attributes: Mapping[str, GraphProto]) -> None:
        """The nodes of a branch take the place of the node, if a constant chooses it."""
        condition = self._values[node.input[0]]
        if not isinstance(condition, Constant):
            raise self._not_data_movement(label, "If of a condition that depends on the inputs")
        if condition.dtype != torch.bool or condition.tensor.numel() != 1:
            raise ValueError(f"from_onnx: {label} must be an If of one truth value, got {shown(condition.tensor)}")
        name = "then_branch" if condition.tensor.item() else "else_branch"
        branch = attributes[name]
        if (has := len(branch.output)) != (given := len(node.output)):
            raise ValueError(f"from_onnx: {label} must have as many outputs as its {name}, {has}, got {given}")
        for again in (held.name for held in branch.initializer if held.name in self._values):
            raise ValueError(
                f"from_onnx: {label} must have initializers with names of their own, got {shown(again)} again"
            )
        self._add_initializers(branch)
        self._add_nodes(f"{label}.{name}", branch)
        for output, inner in zip(node.output, branch.output, strict=True):
            if output:
                self._values[output] = self._values[inner.name]
            if output and inner.name in self._types:
                self._types[output] = self._types[inner.name]

    def _add_inputs(self, graph: GraphProto) -> None:
        names: set[str] = set()
        given: set[str] = set()
        for value in graph.input:
            what = f"input {shown(value.name)}"
            if value.name in given:
                raise ValueError(f"from_onnx: inputs must have names of their own, got {shown(value.name)} again")
            given.add(value.name)
            if not value.type.HasField("tensor_type"):
                kind = value.type.WhichOneof("value")
                raise NotImplementedError(f"from_onnx: {what} must be a tensor, got {kind or 'no type'}")
            if element_type := value.type.tensor_type.elem_type:
                dtype_of(what, element_type)
            self._check_type(what, value)
            if value.name not in self._values:  # an initializer is the default of an input of the same name
                if element_type:
                    self._types[value.name] = value.type
                name = _identifier(value.name)
                while name in names:
                    name += "_"
                names.add(name)
                self._values[value.name] = self._graph.create_node("placeholder", name, name=name)

    def _check_type(self, what: str, value: ValueInfoProto) -> None:
        given, declared = self._element_type(value.name), value.type.tensor_type.elem_type
        if given and declared and given != declared:
            types = " and ".join(map(type_name, (declared, given)))
            raise ValueError(f"from_onnx: {what} must be of the type that it is declared as, got {types}")

    def _add_node(self, label: str, node: NodeProto) -> None:
        op = node.op_type
        attributes = attributes_of(node)
        if node.domain not in ONNX_DOMAINS:
            raise self._not_data_movement(label, f"{node.domain}.{op}")
        if op not in OPERATORS and op not in ("Constant", "If", "Shape", "Size"):
            raise self._not_data_movement(label, op)
        self._check_node(label, node)
        if op == "Constant":
            ((kind, value),) = attributes.items()
            self._values[node.output[0]] = self._constant(label, node.output[0], kind, value)
        elif op == "If":
            self._add_branch(label, node, attributes)
        elif op in ("Shape", "Size"):
            value, function = self._values[node.input[0]], sizes.shape if op == "Shape" else sizes.size
            if op == "Size" and isinstance(value, SizesNode) and (length := self._inferred_length(node.input[0])):
                value = Constant("", torch.empty(length, device="meta"), None)
            if isinstance(value, Constant):
                numbers = torch.tensor(function(value.tensor, **attributes), dtype=torch.int64, device="cpu")
                self._values[node.output[0]] = Constant(node.output[0], numbers, None)
                return
            data = value.node if isinstance(value, SizesNode) else value
            call = self._call(function, (data,), attributes, node.output[0])
            is_length = op == "Shape" and not attributes and isinstance(value, SizesNode) and value.rank == 1
            self._values[node.output[0]] = SizesNode(call, 1 if op == "Shape" else 0, is_length=is_length)
        elif self._opset < (since := operator_of(op, self._opset).since):
            raise NotImplementedError(
                f"from_onnx: {label} must be {op} of opset {since} or later, got opset {self._opset}"
            )
        else:
            attributes = in_todays_form(op, attributes, self._opset, len(node.output))
            inputs = [self._values[name] if name else None for name in node.input]
            if not self._add_on_sizes(label, node, inputs, attributes):
                self._add_on_tensors(label, node, inputs, attributes)

    def _check_node(self, label: str, node: NodeProto) -> None:
        for name in node.input:
            if name and name not in self._values:
                raise ValueError(f"from_onnx: {label} must have inputs that are known before it, got {shown(name)}")
        for name in node.output:
            if name in self._values:
                raise ValueError(
                    f"from_onnx: {label} must have outputs with names of their own, got {shown(name)} again"
                )
        if len(named := [name for name in node.output if name]) > len(set(named)):
            again = next(name for name in named if named.count(name) > 1)
            raise ValueError(f"from_onnx: {label} must have outputs with names of their own, got {shown(again)} again")
        check_node(f"from_onnx: {label}", node, self._opset, self._model.ir_version)
        self._infer_types(label, node)

    def _infer_types(self, label: str, node: NodeProto) -> None:
        """ONNX's own rules on types, ranks and sizes, as far as these are known, and constants."""
        names = [name for name in node.input if name]
        if node.op_type == "If" or not all(name in self._types for name in names):
            return
        constants = {name: value for name in names if isinstance(value := self._values[name], Constant)}
        scaled = node.op_type in ("Resize", "Upsample")  # by numbers that are no whole ones
        # Exporters wrote sizes as constants before opset 9 allowed whole numbers there; ONNX Runtime takes them.
        opset = max(self._opset, 9) if node.op_type == "Constant" else self._opset
        try:
            outputs = onnx.shape_inference.infer_node_outputs(
                onnx.defs.get_schema(node.op_type, opset),
                node,
                {name: self._types[name] for name in names},
                {
                    name: constant.numbers
                    for name, constant in constants.items()
                    if constant.may_be_numbers or (scaled and name != node.input[0])
                },
                opset_imports=[onnx.helper.make_opsetid("", opset)],
                ir_version=self._model.ir_version,
            )
        except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError, ValueError) as error:
            line = re.sub(r"^\[\w+\] ", "", line_of(error))
            raise ValueError(f"from_onnx: {label} must be a valid {node.op_type}: {line}") from None
        self._types.update(outputs)

    def _element_type(self, name: str) -> int:
        """0 where it cannot be told."""
        return self._types[name].tensor_type.elem_type if name in self._types else 0

    def _inferred_rank(self, name: str) -> int | None:
        tensor = self._types[name].tensor_type if name in self._types else TypeProto.Tensor()
        return len(tensor.shape.dim) if tensor.HasField("shape") else None

    def _inferred_length(self, name: str) -> int | None:
        """Of a list of sizes: of those of a tensor whose rank the model declares, for example."""
        return self._types[name].tensor_type.shape.dim[0].dim_value if self._inferred_rank(name) == 1 else None

    def _not_data_movement(self, label: str, what: str) -> NotImplementedError:
        what = what if what.isprintable() else shown(what)
        return NotImplementedError(
            f"from_onnx: {label} must move data, got {what}; for whole models see register_onnx2torch"
        )

    def _constant(self, label: str, name: str, kind: str, value: Any) -> Constant:
        if kind == "value":
            return Constant(name, value, self._folder)
        if kind in ("value_int", "value_ints"):
            return Constant(name, torch.tensor(value, dtype=torch.int64, device="cpu"), None)
        if kind in ("value_float", "value_floats"):
            return Constant(name, torch.tensor(value, dtype=torch.float32, device="cpu"), None)
        raise NotImplementedError(f"from_onnx: {label} must be a Constant of dense numbers, got {kind}")

    def _add_on_sizes(
        self, label: str, node: NodeProto, inputs: Sequence[Value | None], attributes: Mapping[str, Any]
    ) -> bool:
        """False where the operator has tensors to work on."""
        operator = OPERATORS[node.op_type]
        if operator.on_sizes is None:
            return False
        names = parameters_of(operator.on_sizes)
        data = []
        for k, value in enumerate(inputs):
            if value is None or (names and names[k] in operator.numbers):
                continue
            if not (isinstance(value, SizesNode) or (isinstance(value, Constant) and value.may_be_sizes)):
                return False
            data.append(value)
        args, kwargs = self._arguments(operator, names, inputs, _sizes)
        inferred = self._inferred_rank(node.output[0])
        kind = operator.rule(data, {**kwargs, **attributes}, inferred)
        if kind is None or inferred not in (kind.rank, None):
            return False
        if node.op_type == "Cast":
            attributes = {"to": kind.dtype}
        elif node.op_type == "ConstantOfShape":
            attributes = {"value": tensor_of(attributes["value"], self._folder).item()}
        results: list[Value]
        if all(value is None or isinstance(value, Constant) for value in inputs):
            try:
                made = operator.on_sizes(*args, **kwargs, **attributes)
                made = made if node.op_type == "Split" else [made]
                tensors = [sizes.as_tensor(numbers, dtype=kind.dtype) for numbers in made]
            except (ValueError, RuntimeError) as error:  # torch's, of a number that does not fit
                raise ValueError(f"from_onnx: {label} cannot be computed: {line_of(error)}") from None
            results = [Constant(*named, None) for named in zip(node.output, tensors, strict=True)]
        else:
            call = self._call(operator.on_sizes, args, {**kwargs, **attributes}, node.output[0])
            if kind.dtype == torch.int32 and node.op_type in COMPUTING:
                call = self._call(sizes.in_int32, (call, node.op_type), {}, "")
            several = range(len(node.output)) if node.op_type == "Split" else ()
            nodes = [self._call(getitem, (call, k), {}, node.output[k]) for k in several] or [call]
            results = [SizesNode(node, *kind) for node in nodes]
        self._values.update((name, result) for name, result in zip(node.output, results, strict=True) if name)
        return True

    def _add_on_tensors(
        self, label: str, node: NodeProto, inputs: Sequence[Value | None], attributes: dict[str, Any]
    ) -> None:
        op = node.op_type
        operator = operator_of(op, self._opset)
        if operator.on_tensors is None:
            raise self._not_data_movement(label, f"{op} of tensors that are no sizes")
        names = parameters_of(operator.on_tensors)
        args, kwargs = self._arguments(operator, names, inputs, self._tensor)
        self._check(label, node, {**kwargs, **attributes})
        if op == "Cast":
            attributes["to"] = dtype_of(label, attributes["to"])
        elif op == "ConstantOfShape":
            value = attributes.get("value", zero())
            attributes["value"] = self._tensor(Constant(f"{node.output[0]}_value", value, self._folder))
        elif op == "Range" and isinstance(inputs[0], Constant | SizesNode):
            attributes["like"] = self._tensor(inputs[0])
        call = self._call(operator.on_tensors, args, {**kwargs, **attributes}, op if op == "Split" else node.output[0])
        if op in OF_NUMBERS and all(self._known(value) is not None for value in inputs if value is not None):
            args, kwargs = self._arguments(operator, names, inputs, self._known)
            with suppress(Exception):  # what is wrong with its numbers, the node says when it runs
                self._numbers_of[call] = operator.on_tensors(*args, **kwargs, **attributes)
        if op != "Split":
            self._values[node.output[0]] = call
            return
        for k, name in enumerate(node.output):
            if name:
                self._values[name] = self._call(getitem, (call, k), {}, name)

    def _check(self, label: str, node: NodeProto, arguments: Mapping[str, Any]) -> None:
        """What is data movement only with some arguments or element types."""
        if rule := beyond_moving(node.op_type, arguments):
            raise NotImplementedError(f"from_onnx: {label} must {rule}; for whole models see register_onnx2torch")
        if node.op_type in OF_WHOLE_NUMBERS:
            given, to = self._element_type(node.input[0]), arguments.get("to", 0)
            if not given or given == to:  # if it is not known now, the function says it when it runs
                return
            exact = to and arithmetic.is_exact(dtype_of(label, given), dtype_of(label, to))
            for kind in (given, 0 if exact else to):
                if kind and (dtype_of(label, kind).is_floating_point or dtype_of(label, kind) == torch.bool):
                    what = f"{node.op_type} of {type_name(given)}{f' to {type_name(to)}' if to else ''}"
                    raise self._not_data_movement(label, what)

    def _call(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], name: str) -> fx.Node:
        return self._graph.create_node("call_function", function, args, kwargs, _identifier(name) if name else None)

    def _arguments(
        self,
        operator: OnnxOperator,
        names: Sequence[str] | None,
        inputs: Sequence[Value | None],
        other: Callable[[Value], Any],
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What to call the operator's function with, leaving out what the node leaves out.

        The first input is given by its place, and the others by name where the function has names for them. Numbers and
        lists of them are prepared by `_numbers`, all else by `other`.
        """
        arguments = [
            (k, self._numbers(names[k], value) if names and names[k] in operator.numbers else other(value))
            for k, value in enumerate(inputs)
            if value is not None
        ]
        if names is None:
            return tuple(argument for _, argument in arguments), {}
        (_, first), *others = arguments
        return (first,), {names[k]: argument for k, argument in others}

    def _numbers(self, name: str, value: Value) -> Any:
        """An argument that is a number or a list of them: these themselves where they are known now."""
        tensor = value.tensor if isinstance(value, Constant) else self._known(value)
        if tensor is not None:
            try:
                return constant_numbers(name, tensor)
            except ValueError:  # which the function says in its own words
                return self._tensor(value)
        return value.node if isinstance(value, SizesNode) else value

    def _known(self, value: Value) -> Tensor | None:
        if isinstance(value, Constant):
            return value.tensor if value.may_be_numbers else None
        return self._numbers_of.get(value) if isinstance(value, fx.Node) else None

    def _tensor(self, value: Value) -> fx.Node:
        if isinstance(value, fx.Node):
            return value
        if isinstance(value, SizesNode):
            other: dict[str, Any] = {} if value.dtype == torch.int64 else {"dtype": value.dtype}
            return self._graph.call_function(sizes.as_tensor, (value.node, self._first_input()), other)
        if value not in self._registered:
            self._registered[value] = self._graph.get_attr(self._register(value))
        return self._registered[value]

    def _apart(self, result: fx.Node) -> fx.Node:
        """A copy of what may lie in a tensor that the module holds, which the caller would write to."""
        data: Any = result
        while isinstance(data, fx.Node) and data.op == "call_function" and data.target not in COPYING:
            data = data.args[0]
        is_held = isinstance(data, fx.Node) and data.op == "get_attr"
        return self._graph.call_function(torch.clone, (result,)) if is_held else result

    def _first_input(self) -> fx.Node | None:
        """On whose device tensors are."""
        return next(iter(self._graph.find_nodes(op="placeholder")), None)

    def _register(self, constant: Constant) -> str:
        name = _identifier(constant.name)
        while hasattr(self._root, name) or hasattr(_EMPTY, name):
            name += "_"
        if constant.is_parameter:
            self._root.register_parameter(name, nn.Parameter(constant.tensor))
        else:
            self._root.register_buffer(name, constant.tensor)
        return name


def _or(values: Sequence[str]) -> str:
    return " or ".join([", ".join(values[:-1]), values[-1]] if len(values) > 1 else values)


NAMES_IN_CODE = {"__debug__", "inf", "nan", "self", "torch"}  # that fx writes of a graph, or Python keeps to itself


def _identifier(name: str) -> str:
    name = re.sub(r"[^0-9A-Za-z_]", "_", name)
    if keyword.iskeyword(name) or name in NAMES_IN_CODE:
        return f"{name}_"
    return name if name[:1].isalpha() or name[:1] == "_" else f"_{name}"


def _sizes(value: Value) -> Any:
    """As the functions on sizes take them."""
    if isinstance(value, Constant):
        return tuple(value.tensor.tolist()) if value.tensor.dim() else value.tensor.item()
    return value.node if isinstance(value, SizesNode) else value
