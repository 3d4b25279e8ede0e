"""Descriptors for the tests of torch_dml_ops.directml: plain ones of any operator, and random valid ones."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from torch_dml_ops import directml
from torch_dml_ops.directml import OperatorDesc, TensorDataType, TensorDesc, TensorFlags
from torch_dml_ops.directml._schema.structs import Struct

# So hypothesis shows what a failing test has drawn by its repr: a line, and not a page with what its class has too.
Struct._repr_pretty_ = lambda struct, printer, cycle: printer.text(repr(struct))  # type: ignore[attr-defined]

OPERATORS = ("SLICE", "SLICE1", "SPLIT", "JOIN", "REVERSE_SUBSEQUENCES", "SLICE_GRAD", "ELEMENT_WISE_IDENTITY")
DESCS: dict[str, Any] = {op: getattr(directml, f"{op.title().replace('_', '')}OperatorDesc") for op in OPERATORS}

# What data-movement operators take; the others have no dtype.
DATA_TYPES = tuple(t for t in TensorDataType if t.name not in ("UNKNOWN", "UINT4", "INT4"))

F16, F32, F64 = TensorDataType.FLOAT16, TensorDataType.FLOAT32, TensorDataType.FLOAT64
I8, U8, UINT32, UINT64 = (TensorDataType[name] for name in ("INT8", "UINT8", "UINT32", "UINT64"))


def window(offsets: Sequence[int], sizes: Sequence[int], strides: Sequence[int]) -> dict[str, Any]:
    return {"input_window_offsets": offsets, "input_window_sizes": sizes, "input_window_strides": strides}


def op_desc(op: str, *fields: Any, **more: Any) -> Any:
    """A descriptor by its fields in order, but for the counts, which it knows itself."""
    names = [field.name for field in dataclasses.fields(DESCS[op]) if not field.name.endswith("_count")]
    return DESCS[op](**dict(zip(names, fields, strict=False)), **more)


def plain(op: str, rank: int, data_type: TensorDataType, length_type: TensorDataType = UINT32) -> OperatorDesc:
    """A valid descriptor of this many dimensions but for what the feature level says."""
    zeros, ones, twos = [0] * rank, [1] * rank, [2] * rank
    x = TensorDesc(data_type, twos)
    lengths = TensorDesc(length_type, [1, *twos[1:]])
    fields: dict[str, list[Any]] = {
        "SPLIT": [x, [x], 0],
        "JOIN": [[x], x, 0],
        "REVERSE_SUBSEQUENCES": [x, lengths, x, 0],
        "ELEMENT_WISE_IDENTITY": [x, x],
    }
    return op_desc(op, *fields.get(op, [x, x, zeros, twos, ones]))


def with_tensor(desc: Any, path: Sequence[Any], **changes: Any) -> Any:
    """The descriptor with other fields of the tensor at the path."""
    field, *entry = path
    value = getattr(desc, field)
    tensors = list(value) if entry else [value]
    k = entry[0] if entry else 0
    tensors[k] = dataclasses.replace(tensors[k], **changes)
    return dataclasses.replace(desc, **{field: tensors if entry else tensors[0]})


def owned(desc: Any, *paths: Sequence[Any]) -> Any:
    """The descriptor with inputs that are owned by DirectML."""
    for path in paths:
        desc = with_tensor(desc, path, flags=TensorFlags.OWNED_BY_DML)
    return desc


def dotted(path: Sequence[Any]) -> str:
    """``input_tensors[1]``."""
    return "".join([path[0], *(f"[{k}]" for k in path[1:])])


# Random ones.

data_types = st.sampled_from(DATA_TYPES)


@st.composite
def tensor_descs(
    draw: st.DrawFn, sizes: Sequence[int], data_type: TensorDataType, *, written: bool = False
) -> TensorDesc:
    """A tensor of these sizes, packed, padded, in any order of dimensions or, where it is only read, broadcast."""
    strides = None
    kind = draw(st.sampled_from(["packed", "padded", "padded"] + ["broadcast"] * (not written)))
    if kind != "packed":
        strides, stride = [0] * len(sizes), 1
        for d in draw(st.permutations(range(len(sizes)))):
            strides[d] = stride
            stride = stride * sizes[d] + draw(st.sampled_from([0, 0, 1, 3]))
    if kind == "broadcast":
        assert strides is not None
        strides = [0 if draw(st.booleans()) else stride for stride in strides]
    least = TensorDesc(data_type, sizes, strides=strides).minimum_size_in_bytes
    total = draw(st.sampled_from([None, least, least + 4, least + 64]))
    alignment = draw(st.sampled_from([0, 0, data_type.size_in_bytes, 16, 256]))
    return TensorDesc(
        data_type, sizes, strides=strides, total_tensor_size_in_bytes=total, guaranteed_base_offset_alignment=alignment
    )


@st.composite
def walks(draw: st.DrawFn, whole: int, *, forwards: bool = False) -> tuple[int, int, int, int]:
    """Offset, extent, stride and steps of a walk over this many elements."""
    offset = draw(st.integers(0, whole - 1))
    extent = draw(st.integers(1, whole - offset))
    stride = draw(st.sampled_from([1, 2, 3, 9] if forwards else [1, 1, -1, 2, -2, 3, -9, 2**31 - 1, -(2**31)]))
    return offset, extent, stride, draw(st.integers(1, 1 + (extent - 1) // abs(stride)))


@st.composite
def descs(draw: st.DrawFn, op: str, first: TensorDesc | None = None) -> OperatorDesc:
    """A valid descriptor at the newest feature level; its first input is the one that is given, or any."""
    is_given = first is not None
    if first is None:
        rank = draw(st.integers(1, 8))
        sizes = draw(st.lists(st.integers(1, 6 if rank < 4 else 3), min_size=rank, max_size=rank))
        first = draw(tensor_descs(sizes, draw(data_types)))
    sizes, data_type, axis = first.sizes, first.data_type, draw(st.integers(0, len(first.sizes) - 1))

    def tensor(sizes: Sequence[int], *, written: bool = True) -> TensorDesc:
        return draw(tensor_descs(sizes, data_type, written=written))

    if op in ("SLICE", "SLICE1") or (op == "SLICE_GRAD" and not is_given):
        chosen = [draw(walks(size, forwards=op == "SLICE")) for size in sizes]
        offsets, extents, strides, steps = (list(values) for values in zip(*chosen, strict=True))
        if op == "SLICE_GRAD":
            return op_desc(op, tensor(steps, written=False), tensor(sizes), offsets, extents, strides)
        return op_desc(op, first, tensor(steps), offsets, steps if op == "SLICE" else extents, strides)
    if op == "SLICE_GRAD":
        strides = [draw(st.sampled_from([1, -1, 2])) for _ in sizes]
        extents = [1 + (steps - 1) * abs(stride) for steps, stride in zip(sizes, strides, strict=True)]
        whole = tensor([extent + draw(st.integers(0, 1)) for extent in extents])
        return op_desc(op, first, whole, [0] * len(sizes), extents, strides)
    if op == "SPLIT":
        ends = sorted({*draw(st.lists(st.integers(1, sizes[axis]), max_size=3)), sizes[axis]})
        pieces = [tensor(along(sizes, axis, end - begin)) for begin, end in zip([0, *ends], ends, strict=False)]
        return op_desc(op, first, pieces, axis)
    if op == "JOIN":
        counts = draw(st.lists(st.integers(1, 4), max_size=3))
        pieces = [first, *(tensor(along(sizes, axis, n), written=False) for n in counts)]
        return op_desc(op, pieces, tensor(along(sizes, axis, sum(piece.sizes[axis] for piece in pieces))), axis)
    if op == "REVERSE_SUBSEQUENCES":
        lengths = draw(tensor_descs(along(sizes, axis, 1), draw(st.sampled_from([UINT32, UINT64]))))
        return op_desc(op, first, lengths, tensor(sizes), axis)
    return op_desc(op, first, tensor(sizes))


def arguments_of_infer_output(desc: Any) -> dict[str, Any]:
    """Those that infer an output as `desc` has it."""
    (output_field,) = desc.output_fields
    fields = {field.name: getattr(desc, field.name) for field in dataclasses.fields(desc)}
    outputs = fields.pop(output_field)
    arguments = {name: value for name, value in fields.items() if not name.endswith("_count") and value is not None}
    if desc.output_fields == ("output_tensors",):
        arguments["output_axis_sizes"] = [t.sizes[desc.axis] for t in outputs]
    if output_field == "output_gradient_tensor":
        arguments["output_gradient_sizes"] = outputs.sizes
    return arguments


def along(sizes: Sequence[int], axis: int, size: int) -> list[int]:
    """The sizes, but `size` at the axis."""
    return [size if d == axis else n for d, n in enumerate(sizes)]
