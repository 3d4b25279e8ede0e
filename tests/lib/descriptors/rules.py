# ruff: noqa: E501  (a sentence to a line)
"""DirectML's constraints, sentence by sentence: what a valid descriptor is changed to, and all rules that this breaks."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from descriptors.cases import F16, F32, I8, UINT32, along, dotted, op_desc, window, with_tensor

from torch_dml_ops import directml
from torch_dml_ops.directml import FeatureLevel, Graph, JoinOperatorDesc, OperatorDesc, SplitOperatorDesc, TensorDesc

X = TensorDesc(F32, [4, 6])
WINDOW = window([0, 1], [4, 5], [-2, 2])  # takes at most 2 by 3

VALID: dict[str, OperatorDesc] = {
    "SLICE": op_desc("SLICE", X, TensorDesc(F32, [2, 3]), [1, 0], [2, 3], [2, 2]),
    "SLICE1": op_desc("SLICE1", X, TensorDesc(F32, [2, 3]), **WINDOW),
    "SPLIT": op_desc("SPLIT", X, [TensorDesc(F32, [4, 2]), TensorDesc(F32, [4, 4])], 1),
    "JOIN": op_desc("JOIN", [TensorDesc(F32, [4, 2]), TensorDesc(F32, [4, 4])], X, 1),
    "REVERSE_SUBSEQUENCES": op_desc("REVERSE_SUBSEQUENCES", X, TensorDesc(UINT32, [4, 1]), X, 1),
    "SLICE_GRAD": op_desc("SLICE_GRAD", TensorDesc(F32, [2, 3]), X, **WINDOW),
    "ELEMENT_WISE_IDENTITY": op_desc("ELEMENT_WISE_IDENTITY", X, TensorDesc(F32, [4, 6], strides=[1, 4])),
}


def pieces(*sizes: list[int]) -> list[TensorDesc]:
    return [TensorDesc(F32, s) for s in sizes]


def broken(
    desc: OperatorDesc | Graph, level: FeatureLevel = FeatureLevel.NEWEST, check: Callable[..., object] | None = None
) -> list[str]:
    """The sentences about the rules that the descriptor or graph breaks, by `validate` or by another check."""
    try:
        (check or desc.validate)(level)
    except directml.DescriptorError as caught:
        error = caught
    else:
        return []
    sentences = [str(violation) for violation in error.violations]
    rules = "a rule" if len(sentences) == 1 else f"{len(sentences)} rules"
    title = f"{getattr(desc, 'operator_type', 'Graph')} at feature level {level} breaks {rules}:"
    assert str(error).splitlines() == [title, *(f"  {sentence}" for sentence in sentences)]
    return sentences


# One rule broken, of any descriptor.

LENGTHS = ("sequence_lengths_tensor",)


class Broken(NamedTuple):
    place: tuple[Any, ...]  # of the tensor with other fields; () is the descriptor itself
    changes: dict[str, Any]
    sentences: list[str]
    more: bool = False  # whether this may break other rules too

    def of(self, desc: OperatorDesc) -> OperatorDesc:
        if self.place:
            return with_tensor(desc, self.place, **self.changes)  # type: ignore[no-any-return]
        return dataclasses.replace(desc, **self.changes)


def of_sizes(sizes: Sequence[int]) -> dict[str, Any]:
    """The fields of a packed tensor of these sizes."""
    return {"sizes": sizes, "strides": None, "total_tensor_size_in_bytes": None, "dimension_count": None}


def broken_tensors(desc: OperatorDesc, d: int) -> Iterator[Broken]:
    """The rules that hold of every tensor; d is the dimension in which they are broken."""
    (first_path, first), *others = [*desc.inputs(), *desc.outputs()]
    for path, tensor in ((first_path, first), *others):
        written, name = path[0] in desc.output_fields, dotted(path)
        rank, strides, least = len(tensor.sizes), tensor.effective_strides, tensor.minimum_size_in_bytes
        item = tensor.data_type.size_in_bytes
        up_to_last = f"must be from {least}, the bytes up to the last element, to 18446744073709551615"
        aligned = f"must be 0 or a power of two from {item}, the size of {tensor.data_type.name}, on"
        rows: list[tuple[str, Any, str]] = [
            *(("sizes", along(tensor.sizes, d, n), f"[{d}] must be from 1 to 4294967295, got {n}") for n in (0, -1, 2**32)),
            *(("dimension_count", n, f" must be {rank}, the number of sizes, got {n}") for n in (rank - 1, rank + 1)),
            # Of a length that is wrong, what the entries are is not said too.
            ("strides", [*strides, -1], f" must have length {rank}, an entry for each of sizes, got {rank + 1}"),
            ("strides", along(strides, d, -1), f"[{d}] must be from 0 to 4294967295, got -1"),
            *(("total_tensor_size_in_bytes", n, f" {up_to_last}, got {n}") for n in (least - 4, 2**64)),
            *(("total_tensor_size_in_bytes", least + n, f" must be a multiple of 4, got {least + n}") for n in (1, 2, 3)),
            *(("guaranteed_base_offset_alignment", n, f" {aligned}, got {n}") for n in (3, 48, item + 16, -item, 2**32)),
        ]  # fmt: skip
        if item > 1:
            rows.append(("guaranteed_base_offset_alignment", item // 2, f" {aligned}, got {item // 2}"))
        if written:
            rule = "must be NONE, as only inputs can be owned by DirectML"
            rows.append(("flags", directml.TensorFlags.OWNED_BY_DML, f" {rule}, got OWNED_BY_DML"))
        if written and tensor.sizes[d] > 1:
            rows.append(("strides", along(strides, d, 0), f"[{d}] must not be 0, as the tensor is written to, got 0"))
        for field, value, rule in rows:
            yield Broken(path, {field: value}, [f"{name}.{field}{rule}"], more=field == "sizes")
        yield Broken(path, of_sizes([1] * 9), [f"{name}.dimension_count must be from 1 to 8, got 9"], more=True)
        other = F16 if tensor.data_type == I8 else I8
        if path == LENGTHS:
            sentences = [f"{name}.data_type must be one of UINT32, UINT64 at feature level 6_4, got {other.name}"]
        elif path == first_path:
            rule = f"data_type must be {other.name}, that of {name}"
            sentences = [f"{dotted(p)}.{rule}, got {t.data_type.name}" for p, t in others if p != LENGTHS]
        else:
            rule = f"must be {first.data_type.name}, that of {dotted(first_path)}"
            sentences = [f"{name}.data_type {rule}, got {other.name}"]
        as_small = {"total_tensor_size_in_bytes": None, "guaranteed_base_offset_alignment": 0}
        yield Broken(path, {"data_type": other} | as_small, sentences)
        if path != first_path:
            rule = f"must be {rank}, that of {dotted(first_path)}, got {rank + 1}"
            more = desc.operator_type == "SLICE_GRAD"
            yield Broken(path, of_sizes([*tensor.sizes, 1]), [f"{name}.dimension_count {rule}"], more)


WHOLES = {"SLICE_GRAD": "output_gradient_tensor", "JOIN": "output_tensor"}  # the others' is the input


def broken_fields(desc: OperatorDesc, d: int) -> Iterator[Broken]:
    """The rules of the operator's own."""
    op, fields = desc.operator_type, {field.name: getattr(desc, field.name) for field in dataclasses.fields(desc)}
    whole_name = WHOLES.get(op, "input_tensor")
    limit, rank = fields[whole_name].sizes[d], len(fields[whole_name].sizes)

    def entry(field: str, value: int, rule: str, more: bool = False) -> Broken:
        return Broken((), {field: along(fields[field], d, value)}, [f"{field}[{d}] {rule}, got {value}"], more)

    for name, value in fields.items():
        if name == "dimension_count":
            first = dotted(desc.inputs()[0][0])
            yield Broken((), {name: rank + 1}, [f"{name} must be {rank}, that of {first}, got {rank + 1}"])
        elif name.endswith("_count"):
            counted = name.replace("count", "tensors")
            rule = f"must be {value}, the number of {counted}"
            yield from (Broken((), {name: n}, [f"{name} {rule}, got {n}"]) for n in (value - 1, value + 1))
        elif name == "axis":
            rule = f"must be from 0 to {rank - 1}, a dimension of {whole_name}"
            yield from (Broken((), {name: n}, [f"{name} {rule}, got {n}"]) for n in (rank, -1, 2**32))
        elif isinstance(value, tuple) and isinstance(value[0], int):
            rule = f"must have length {rank}, an entry for each dimension of {whole_name}"
            lists = (value[:-1], [*value, 1])
            yield from (Broken((), {name: other}, [f"{name} {rule}, got {len(other)}"]) for other in lists)
    if op == "SLICE":
        size, stride = fields["sizes"][d], fields["strides"][d]
        yield entry("offsets", -1, "must be at least 0")
        yield entry("sizes", 0, "must be at least 1")
        yield from (entry("strides", n, "must be from 1 to 4294967295", n > 0) for n in (0, -1, 2**32))
        offset = limit - (size - 1) * stride
        rule = f"plus (sizes[{d}] - 1) * strides[{d}] must be less than {limit}, the size of input_tensor there"
        sentence = f"offsets[{d}] {rule}, got {offset} + {size - 1} * {stride}"
        yield Broken((), {"offsets": along(fields["offsets"], d, offset)}, [sentence])
        sentence = f"output_tensor.sizes[{d}] must be {size}, as sizes[{d}] is, got {size + 1}"
        yield Broken(("output_tensor",), of_sizes(along(fields["sizes"], d, size + 1)), [sentence])
    elif op in ("SLICE1", "SLICE_GRAD"):
        size, stride = fields["input_window_sizes"][d], fields["input_window_strides"][d]
        yield entry("input_window_offsets", -1, "must be at least 0")
        yield entry("input_window_sizes", 0, "must be at least 1")
        yield entry("input_window_strides", 0, "must not be 0")
        for n in (2**31, -(2**31) - 1):
            yield entry("input_window_strides", n, "must be from -2147483648 to 2147483647", more=True)
        rule = f"plus input_window_sizes[{d}] must be at most {limit}, the size of {whole_name} there"
        for n in (limit - size + 1, 2**32):
            sentence = f"input_window_offsets[{d}] {rule}, got {n} + {size}"
            yield Broken((), {"input_window_offsets": along(fields["input_window_offsets"], d, n)}, [sentence])
        most, part = 1 + (size - 1) // abs(stride), "input_gradient_tensor" if op == "SLICE_GRAD" else "output_tensor"
        rule = f"must be from 1 to {most}, the steps of input_window_strides[{d}] in input_window_sizes[{d}]"
        sizes = along(fields[part].sizes, d, most + 1)
        yield Broken((part,), of_sizes(sizes), [f"{part}.sizes[{d}] {rule}, got {most + 1}"])
    else:
        for path, tensor in (*desc.inputs(), *desc.outputs()):
            size = tensor.sizes[d]
            for n in (size - 1, size + 1):
                if path == (whole_name,) or n == 0:
                    continue
                if path == ("output_tensor",) or d != fields["axis"]:
                    sentence = f"{dotted(path)}.sizes[{d}] must be {size}, the size of {whole_name} there, got {n}"
                elif path == LENGTHS:
                    sentence = f"{dotted(path)}.sizes[{d}] must be 1, as this is the axis, got {n}"
                else:
                    sizes = [n if place == path[1] else t.sizes[d] for place, t in enumerate(fields[path[0]])]
                    rule = f"must have sizes along axis {d} that sum to {limit}, that of {whole_name}"
                    sentence = f"{path[0]} {rule}, got {sizes}"
                yield Broken(path, of_sizes(along(tensor.sizes, d, n)), [sentence])


# What is not one of these: (operator, changed fields, sentences)
CONSTRAINTS: list[tuple[str, dict[str, Any], list[str]]] = [
    # Sizes of 0 are invalid in any dimension; a tensor has at most 2^32 - 1 elements.
    ("SLICE1", {"output_tensor": TensorDesc(F32, [0, 3])}, ["output_tensor.sizes[0] must be from 1 to 4294967295, got 0", "output_tensor.sizes[0] must be from 1 to 2, the steps of input_window_strides[0] in input_window_sizes[0], got 0"],),
    (
        "REVERSE_SUBSEQUENCES",
        {
            "input_tensor": TensorDesc(I8, [65536, 65536]),
            "sequence_lengths_tensor": TensorDesc(UINT32, [65536, 1]),
            "output_tensor": TensorDesc(I8, [65536, 65536]),
        },
        [
            "input_tensor.sizes must reach over at most 4294967295 elements, got 4294967296",
            "output_tensor.sizes must reach over at most 4294967295 elements, got 4294967296",
        ],
    ),
    (
        "SPLIT",
        {"input_tensor": TensorDesc(F32, [4, 2**32]), "output_tensors": pieces([4, 2**32])} | {"output_count": 1},
        [
            "input_tensor.sizes[1] must be from 1 to 4294967295, got 4294967296",
            "input_tensor.sizes must reach over at most 4294967295 elements, got 17179869184",
            "output_tensors[0].sizes[1] must be from 1 to 4294967295, got 4294967296",
            "output_tensors[0].sizes must reach over at most 4294967295 elements, got 17179869184",
        ],
    ),
    # Operators.
    ("SLICE1", {"output_tensor": TensorDesc(F32, [1, 1])}, []),  # not all reachable elements need be copied
    ("SPLIT", {"output_tensors": [], "output_count": 0}, ["output_tensors must have at least 1 tensor, got none"]),
    ("SPLIT", {"output_tensors": pieces([4, 6]), "output_count": 1}, []),  # a plain copy
    ("ELEMENT_WISE_IDENTITY", {"output_tensor": TensorDesc(F32, [6, 4])}, ["output_tensor.sizes[0] must be 4, the size of input_tensor there, got 6", "output_tensor.sizes[1] must be 6, the size of input_tensor there, got 4"],),
    ("ELEMENT_WISE_IDENTITY", {"input_tensor": TensorDesc(F32, [4, 6], strides=[0, 1])}, []),
    # Buffer tensors.
    ("SLICE1", {"input_tensor": TensorDesc(F32, [4, 6], strides=[0, 1])}, []),  # 0 broadcasts
    ("SLICE1", {"input_tensor": TensorDesc(F32, [4, 6], strides=[9, 1])}, []),  # larger than packed pads
    ("SLICE1", {"output_tensor": TensorDesc(F32, [2, 3], strides=[1, 2])}, []),
    ("SLICE1", {"output_tensor": TensorDesc(F32, [2, 3], strides=[3, 2])}, []),  # dimensions that interlace, and do not overlap
    ("SLICE1", {"output_tensor": TensorDesc(F32, [2, 3], strides=[2**32, 1])}, ["output_tensor.strides must reach over at most 4294967295 elements, got 4294967299", "output_tensor.strides[0] must be from 0 to 4294967295, got 4294967296"],),
    ("SLICE1", {"output_tensor": TensorDesc(F32, [1, 3], strides=[0, 1])}, []),  # a stride that is never taken
    ("SLICE1", {"output_tensor": TensorDesc(F32, [2, 3], strides=[2, 1])}, ["output_tensor.strides must not lay elements of an output on one another, got [2, 1]"],),
    ("SLICE1", {"input_tensor": TensorDesc(F32, [4, 6], strides=[9, 1], total_tensor_size_in_bytes=96)}, ["input_tensor.total_tensor_size_in_bytes must be from 132, the bytes up to the last element, to " "18446744073709551615, got 96"],),
    (
        "SLICE1",  # the published helper's 32 bits would have overflowed
        {"input_tensor": TensorDesc(F32, [4, 6], strides=[2**30, 1], total_tensor_size_in_bytes=24)},
        [
            "input_tensor.total_tensor_size_in_bytes must be from 12884901912, the bytes up to the last element, to "
            "18446744073709551615, got 24"
        ],
    ),
    ("SLICE1", {"output_tensor": TensorDesc(F32, [2, 3], guaranteed_base_offset_alignment=256)}, []),
    (
        "SLICE1",
        {"input_tensor": TensorDesc(F32, []), "dimension_count": 0},
        [
            "input_tensor.dimension_count must be from 1 to 8, got 0",
            "output_tensor.dimension_count must be 0, that of input_tensor, got 2",
            "input_window_offsets must have length 0, an entry for each dimension of input_tensor, got 2",
            "input_window_sizes must have length 0, an entry for each dimension of input_tensor, got 2",
            "input_window_strides must have length 0, an entry for each dimension of input_tensor, got 2",
        ],
    ),
]  # fmt: skip

# Arguments that infer_output refuses.
INFERRED_FROM_BAD = [
    (lambda: directml.Slice1OperatorDesc.infer_output(X, [0, 0], [4, 6], [0, 1]), ["input_window_strides[0] must not be 0, got 0"]),
    (lambda: directml.Slice1OperatorDesc.infer_output(X, [0], [4], [1]), [f"input_window_{n} must have length 2, an entry for each dimension of input_tensor, got 1" for n in ("offsets", "sizes", "strides")]),
    (lambda: directml.SliceOperatorDesc.infer_output(X, [0, 0], [4, 6], [1, 2]), ["offsets[1] plus (sizes[1] - 1) * strides[1] must be less than 6, the size of input_tensor there, got 0 + 5 * 2"]),
    (lambda: directml.SliceGradOperatorDesc.infer_output(X, [4, 5], [0, 0], [4, 6], [1, 1]), ["input_window_offsets[1] plus input_window_sizes[1] must be at most 5, the size of output_gradient_tensor there, got 0 + 6"]),
    (lambda: SplitOperatorDesc.infer_output(X, 1, [2, 5]), ["output_tensors must have sizes along axis 1 that sum to 6, that of input_tensor, got [2, 5]"]),
    (lambda: SplitOperatorDesc.infer_output(X, -1, [2, 4]), ["axis must be from 0 to 1, a dimension of input_tensor, got -1"]),
    (lambda: JoinOperatorDesc.infer_output([X, X], 2), ["axis must be from 0 to 1, a dimension of output_tensor, got 2"]),
    (lambda: SplitOperatorDesc.infer_output(X, 0, []), ["output_tensors must have at least 1 tensor, got none"]),
    (lambda: directml.ElementWiseIdentityOperatorDesc.infer_output(TensorDesc(F32, [4, 6], strides=[6])), ["input_tensor.strides must have length 2, an entry for each of sizes, got 1"]),
    (lambda: JoinOperatorDesc.infer_output([], 0), ["input_tensors must have at least 1 tensor, got none"]),
    (lambda: JoinOperatorDesc.infer_output([X, TensorDesc(F32, [4, 5])], 0), ["input_tensors[1].sizes[1] must be 6, the size of output_tensor there, got 5"]),
    (lambda: JoinOperatorDesc.infer_output([X], 2), ["axis must be from 0 to 1, a dimension of output_tensor, got 2"]),
    (lambda: directml.ReverseSubsequencesOperatorDesc.infer_output(X, TensorDesc(F32, [4, 1]), 1), ["sequence_lengths_tensor.data_type must be one of UINT32, UINT64 at feature level 6_4, got FLOAT32"]),
    (lambda: SplitOperatorDesc.infer_output(TensorDesc(F32, [1] * 9), 0, [1]), [f"{tensor}.dimension_count must be from 1 to 8, got 9" for tensor in ("input_tensor", "output_tensors[0]")]),
    (lambda: directml.ReverseSubsequencesOperatorDesc.infer_output(X, TensorDesc(UINT32, [4, 2]), 1), ["sequence_lengths_tensor.sizes[1] must be 1, as this is the axis, got 2"]),
]  # fmt: skip
