"""The rules of the operators. Each function yields what breaks its rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch_dml_ops.directml._schema.in_sentences import JsonPath, as_json
from torch_dml_ops.directml.enums import TENSOR_DIMENSION_COUNT_MAX1, FeatureLevel, TensorDataType
from torch_dml_ops.directml.errors import Violation
from torch_dml_ops.directml.support import Support, check_support, first_level
from torch_dml_ops.directml.tensor_desc import UINT_MAX, TensorDesc

INT_MIN, INT_MAX = -(2**31), 2**31 - 1

_ANY_COUNT = range(1, TENSOR_DIMENSION_COUNT_MAX1 + 1)  # to which the tensors themselves are bound

LENGTHS = ("sequence_lengths_tensor",)

Tensors = Sequence[tuple[JsonPath, TensorDesc]]  # each with its place
Rule = Sequence[str | JsonPath]


# Of all operators.


def supported(op: str, level: FeatureLevel, tensors: Tensors) -> Iterator[Violation]:
    """The feature level has the operator, with these dimension counts and data types."""
    support = check_support(op, level)
    if support is None:
        since = first_level(op, lambda _: True)
        assert since is not None
        yield Violation(("operator_type",), f"must be an operator of feature level {level}", op, since)
        yield from supported(op, since, tensors)
        return
    for path, tensor in tensors:
        count, data_type = len(tensor.sizes), tensor.data_type
        if count not in support.dimension_counts and support.dimension_counts != _ANY_COUNT:
            least, most = support.dimension_counts[0], support.dimension_counts[-1]
            rule = f"must be {least}" if least == most else f"must be from {least} to {most}"
            since = first_level(op, lambda s, count=count: count in s.dimension_counts)  # type: ignore[misc]
            yield Violation((*path, "dimension_count"), f"{rule} at feature level {level}", count, since)
        types = _types_of(path, support)
        if data_type not in types and data_type is not TensorDataType.UNKNOWN:  # which is never right
            rule = f"must be one of {', '.join(t.name for t in types)} at feature level {level}"
            since = first_level(op, lambda s, path=path, t=data_type: t in _types_of(path, s))  # type: ignore[misc]
            got: object = data_type
            if data_type in (TensorDataType.UINT4, TensorDataType.INT4):
                got = f"{data_type.name}, which feature level 6_3 brought for other operators"
            yield Violation((*path, "data_type"), rule, got, since)


def _types_of(path: JsonPath, support: Support) -> Sequence[TensorDataType]:
    return support.length_types if path == LENGTHS else support.data_types


def alike(tensors: Tensors) -> Iterator[Violation]:
    """All tensors have the dimension count of the first one and, but for sequence lengths, its data type."""
    if not tensors:
        return
    first_path, first = tensors[0]
    for path, tensor in tensors[1:]:
        if len(tensor.sizes) != len(first.sizes):
            rule = (f"must be {len(first.sizes)}, that of ", first_path)
            yield Violation((*path, "dimension_count"), rule, len(tensor.sizes))
        if tensor.data_type != first.data_type and path != LENGTHS:
            rule = (f"must be {first.data_type.name}, that of ", first_path)
            yield Violation((*path, "data_type"), rule, tensor.data_type)


def an_entry_each(name: str, values: Sequence[int], whole: TensorDesc, whole_name: str) -> Iterator[Violation]:
    if len(values) != len(whole.sizes):
        rule = (f"must have length {len(whole.sizes)}, an entry for each dimension of ", (whole_name,))
        yield Violation((name,), rule, str(len(values)))


def at_least(least: int, name: str, values: Sequence[int]) -> Iterator[Violation]:
    for d, value in enumerate(values):
        if value < least:
            yield Violation((name, d), f"must be at least {least}", value)


def same_sizes(
    path: JsonPath, sizes: Sequence[int], expected: Sequence[int], like: str, axis: int = -1
) -> Iterator[Violation]:
    """As the tensor `like` has them, except along the axis."""
    for d, (size, wanted) in enumerate(zip(sizes, expected, strict=False)):
        if d != axis and size != wanted:
            yield Violation((*path, "sizes", d), (f"must be {as_json(wanted)}, the size of ", (like,), " there"), size)


def axis_within(axis: int, whole: TensorDesc, whole_name: str) -> Iterator[Violation]:
    if not 0 <= axis < len(whole.sizes):
        rule = (f"must be from 0 to {len(whole.sizes) - 1}, a dimension of ", (whole_name,))
        yield Violation(("axis",), rule, axis)


# SLICE1 and SLICE_GRAD.


def most_steps(size: int, stride: int) -> int | None:
    """The most elements that a walk can take; None where it is no walk."""
    return 1 + (size - 1) // abs(stride) if size >= 1 and stride != 0 else None


def window(
    offsets: Sequence[int],
    sizes: Sequence[int],
    strides: Sequence[int],
    whole: TensorDesc,
    whole_name: str,
    part: TensorDesc,
    part_name: str,
) -> Iterator[Violation]:
    """SLICE1 reads a window of the whole and writes the part; SLICE_GRAD does the reverse."""
    fields = {"input_window_offsets": offsets, "input_window_sizes": sizes, "input_window_strides": strides}
    for name, values in fields.items():
        yield from an_entry_each(name, values, whole, whole_name)
    yield from at_least(0, "input_window_offsets", offsets)
    yield from at_least(1, "input_window_sizes", sizes)
    for d, stride in enumerate(strides):
        if stride == 0:
            yield Violation(("input_window_strides", d), "must not be 0", stride)
        elif not INT_MIN <= stride <= INT_MAX:
            yield Violation(("input_window_strides", d), f"must be from {INT_MIN} to {INT_MAX}", stride)
    for d, (offset, size, limit) in enumerate(zip(offsets, sizes, whole.sizes, strict=False)):
        if offset + size > limit:
            most = f" must be at most {as_json(limit)}, the size of "
            rule: Rule = ("plus ", ("input_window_sizes", d), most, (whole_name,), " there")
            yield Violation(("input_window_offsets", d), rule, f"{as_json(offset)} + {as_json(size)}")
    for d, (size, *walk) in enumerate(zip(part.sizes, sizes, strides, strict=False)):
        steps = most_steps(*walk)
        if steps is not None and not 1 <= size <= steps:
            of = ("input_window_strides", d), " in ", ("input_window_sizes", d)
            rule = (f"must be from 1 to {as_json(steps)}, the steps of ", *of)
            yield Violation((part_name, "sizes", d), rule, size)


# SLICE.


def slice_walk(
    offsets: Sequence[int], sizes: Sequence[int], strides: Sequence[int], whole: TensorDesc, output: TensorDesc
) -> Iterator[Violation]:
    for name, values in {"offsets": offsets, "sizes": sizes, "strides": strides}.items():
        yield from an_entry_each(name, values, whole, "input_tensor")
    yield from at_least(0, "offsets", offsets)
    yield from at_least(1, "sizes", sizes)
    for d, stride in enumerate(strides):
        if not 1 <= stride <= UINT_MAX:
            yield Violation(("strides", d), f"must be from 1 to {UINT_MAX}", stride)
    for d, (offset, size, stride, limit) in enumerate(zip(offsets, sizes, strides, whole.sizes, strict=False)):
        if offset + (size - 1) * stride >= limit:
            last = "plus (", ("sizes", d), " - 1) * ", ("strides", d)
            rule: Rule = (*last, f" must be less than {as_json(limit)}, the size of ", ("input_tensor",), " there")
            yield Violation(("offsets", d), rule, f"{as_json(offset)} + {as_json(size - 1)} * {as_json(stride)}")
    for d, (size, expected) in enumerate(zip(output.sizes, sizes, strict=False)):
        if size != expected and expected >= 1:
            rule = (f"must be {as_json(expected)}, as ", ("sizes", d), " is")
            yield Violation(("output_tensor", "sizes", d), rule, size)


# SPLIT and JOIN.


def some(pieces: Sequence[TensorDesc], name: str) -> Iterator[Violation]:
    if not pieces:
        yield Violation((name,), "must have at least 1 tensor", "none")


def pieces_of_whole(
    pieces: Sequence[TensorDesc], pieces_name: str, whole: TensorDesc, whole_name: str, axis: int
) -> Iterator[Violation]:
    """The outputs of SPLIT, the inputs of JOIN."""
    yield from axis_within(axis, whole, whole_name)
    yield from some(pieces, pieces_name)
    if not 0 <= axis < len(whole.sizes):  # then nobody can tell which sizes have to be equal
        return
    for k, piece in enumerate(pieces):
        yield from same_sizes((pieces_name, k), piece.sizes, whole.sizes, whole_name, axis)
    if pieces and all(axis < len(piece.sizes) for piece in pieces):
        sizes = tuple(piece.sizes[axis] for piece in pieces)
        if sum(sizes) != whole.sizes[axis]:
            wanted = f"must have sizes along axis {axis} that sum to {as_json(whole.sizes[axis])}, that of "
            yield Violation((pieces_name,), (wanted, (whole_name,)), sizes)


# REVERSE_SUBSEQUENCES.


def subsequences(whole: TensorDesc, lengths: TensorDesc, output: TensorDesc, axis: int) -> Iterator[Violation]:
    yield from axis_within(axis, whole, "input_tensor")
    yield from same_sizes(("output_tensor",), output.sizes, whole.sizes, "input_tensor")
    if not 0 <= axis < len(whole.sizes):  # then nobody can tell where the lengths must have 1
        return
    for size in lengths.sizes[axis : axis + 1]:
        if size != 1:
            yield Violation((*LENGTHS, "sizes", axis), "must be 1, as this is the axis", size)
    yield from same_sizes(LENGTHS, lengths.sizes, whole.sizes, "input_tensor", axis)
