"""ONNX's operators that move data: what each calls, what it makes of sizes, and what its nodes must be."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import onnx
import torch
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto

from torch_dml_ops._sentences.text import shown, text
from torch_dml_ops.onnx._importer import arithmetic, gather_scatter, moving, resize, sequences, sizes
from torch_dml_ops.onnx._importer.files import external_tensors, line_of
from torch_dml_ops.onnx._importer.inputs import WHOLE
from torch_dml_ops.onnx._importer.values import MOST_NUMBERS, Constant, SizesNode


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


def _logical(data: Sequence[SizesNode | Constant], arguments: Any, inferred: Any) -> Kind | None:
    return Kind(max(value.rank for value in data), torch.bool) if all(v.dtype == torch.bool for v in data) else None


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


def _expanded(data: Sequence[SizesNode | Constant], arguments: Mapping[str, Any], inferred: Any) -> Kind | None:
    shape, kind = arguments["shape"], _elementwise(data)
    is_list = isinstance(shape, tuple) and len(shape) <= 1
    return kind and kind._replace(rank=max(kind.rank, len(shape))) if is_list else None


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
    nothing = arguments.get("noop_with_empty_axes") == 1 and not arguments.get("axes")
    kept = nothing or arguments.get("keepdims", 1) == 1
    return (kind := _elementwise(data)) and kind._replace(rank=kind.rank if kept else 0)


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
    "Abs": OnnxOperator(None, sizes.abs_),
    "Add": OnnxOperator(arithmetic.add, sizes.add, since=7),
    "And": OnnxOperator(None, sizes.and_, _logical, since=7),
    "Cast": OnnxOperator(arithmetic.cast, sizes.cast, _cast, since=6),
    "CenterCropPad": OnnxOperator(moving.center_crop_pad, numbers=("shape",)),
    "Clip": OnnxOperator(arithmetic.clip, since=12),
    "Compress": OnnxOperator(gather_scatter.compress, numbers=("condition",)),
    "Concat": OnnxOperator(moving.concat, sizes.concat, _listed),
    "ConstantOfShape": OnnxOperator(moving.constant_of_shape, sizes.constant_of_shape, _repeated, numbers=("input",)),
    "DepthToSpace": OnnxOperator(moving.depth_to_space),
    "Div": OnnxOperator(None, sizes.div, since=7),
    "Equal": OnnxOperator(None, sizes.equal, _compared, since=7),
    "Expand": OnnxOperator(moving.expand, sizes.expand, _expanded, numbers=("shape",)),
    "Flatten": OnnxOperator(moving.flatten),
    "Gather": OnnxOperator(gather_scatter.gather, sizes.gather, _gathered),
    "GatherElements": OnnxOperator(gather_scatter.gather_elements),
    "GatherND": OnnxOperator(gather_scatter.gather_nd),
    "Greater": OnnxOperator(None, sizes.greater, _compared, since=9),
    "GreaterOrEqual": OnnxOperator(None, sizes.greater_or_equal, _compared),
    "Identity": OnnxOperator(moving.identity, sizes.identity),
    "Less": OnnxOperator(arithmetic.less, sizes.less, _compared, since=9),
    "LessOrEqual": OnnxOperator(None, sizes.less_or_equal, _compared),
    "Max": OnnxOperator(None, sizes.maximum),
    "Min": OnnxOperator(None, sizes.minimum),
    "Mod": OnnxOperator(None, sizes.mod),
    "Mul": OnnxOperator(arithmetic.mul, sizes.mul, since=7),
    "Neg": OnnxOperator(None, sizes.neg),
    "Not": OnnxOperator(None, sizes.not_, _logical),
    "Or": OnnxOperator(None, sizes.or_, _logical, since=7),
    "Pad": OnnxOperator(moving.pad, numbers=("pads", "axes"), since=2),
    "Range": OnnxOperator(arithmetic.range_, numbers=("start", "limit", "delta")),
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
    "Tile": OnnxOperator(moving.tile, sizes.tile, _listed, numbers=("repeats",), since=6),
    "Transpose": OnnxOperator(moving.transpose),
    "Trilu": OnnxOperator(moving.trilu, numbers=("k",)),
    "Unsqueeze": OnnxOperator(moving.unsqueeze, sizes.unsqueeze, _by_one(0, 1), numbers=("axes",)),
    "Upsample": OnnxOperator(resize.upsample, numbers=("scales",), since=7),
    "Where": OnnxOperator(arithmetic.where, sizes.where, _chosen),
}
# The operators whose results share no memory with their inputs.
COPYING = frozenset(
    OPERATORS[op].on_tensors
    for op in (
        "Compress", "Concat", "GatherElements", "GatherND", "ReverseSequence", "Scatter", "ScatterElements",
        "ScatterND", "Slice", "Split", "Trilu", "Where",
    )
) | {sequences.concat_from_sequence, sequences.split_to_sequence}  # fmt: skip
# The functions whose results may be any of what they are given.
OF_SEVERAL = frozenset({sequences.sequence_construct, *sequences.ON_ANYTHING.values()})
# Those of whole numbers alone, where they have tensors to work on.
OF_WHOLE_NUMBERS = frozenset({"Add", "Cast", "Clip", "Less", "Mul", "Range", "Sub"})
# Those whose result is known with their inputs, as far as these are few numbers, in however many dimensions.
OF_NUMBERS = frozenset({"Cast", "Concat", "Gather", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"})
# Those that make other numbers of sizes: the others choose some.
COMPUTING = frozenset({"Abs", "Add", "Cast", "Div", "Mul", "Neg", "ReduceProd", "Sub"})
# Others, whose graph says what they become.
BY_THE_GRAPH = frozenset(
    {
        "CastLike", "ConcatFromSequence", "Constant", "If", "SequenceConstruct", "SequenceEmpty", "SequenceMap",
        "Shape", "Size", "SplitToSequence", *sequences.ON_ANYTHING,
    }
)  # fmt: skip
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


def operator_of(op: str, opset: int) -> OnnxOperator:
    return RESIZE_10 if op == "Resize" and opset < 11 else OPERATORS[op]


def beyond_moving(op: str, arguments: Mapping[str, Any]) -> str | None:
    """What would have to hold of attributes and constants for an operator that moves data, if it does not."""
    for name, values in MOVING.get(op, {}).items():
        if (value := arguments.get(name, values[0])) not in values:
            return f"be {op} with {name} {_or(values)}, got {shown(value)}"
    return None


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


@cache
def kinds_of_inputs(op: str, opset: int) -> Sequence[set[str]]:
    """Of tensor, seq and optional."""
    return [{kind.partition("(")[0] for kind in given.types} for given in onnx.defs.get_schema(op, opset).inputs]


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
    if (
        node.op_type in ("Concat", "Max", "Min", "SequenceConstruct", "SequenceMap") and "" in node.input
    ):  # which the checker lets pass
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


def _or(values: Sequence[str]) -> str:
    return " or ".join([", ".join(values[:-1]), values[-1]] if len(values) > 1 else values)
