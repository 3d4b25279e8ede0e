"""ONNX's operators that move data, on tensors.

Parameters have the names of ONNX's inputs and attributes. Inputs that are numbers or lists of them, such as the
`starts` of Slice, are numbers and tuples where the graph has them as constants. Where they are tensors, these are read
when the graph runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

import torch
from torch import Tensor

import torch_dml_ops as dml
from torch_dml_ops._sentences.text import dtype_name, shown, text, with_sum
from torch_dml_ops._torch.symbols import always_true, known_true
from torch_dml_ops.onnx._importer.inputs import (
    Numbers,
    as_dtype,
    axes_of,
    axis_of,
    check_one_dtype,
    check_size,
    kept_by_fx,
    larger,
    may_broadcast,
    may_mix,
    number,
    numbers,
    signed,
    smaller,
)

# As the end of a slice with a negative step, for one that reaches the first element in ONNX Runtime. By ONNX's text it
# selects nothing.
UNBOUNDED = 2**31 - 1, 2**63 - 1


def slices_of(
    sizes: Sequence[int], starts: Numbers, ends: Numbers, axes: Numbers | None, steps: Numbers | None
) -> tuple[slice, ...]:
    """Python's slices that select what Slice does of a tensor of these sizes."""
    starts, ends = numbers("Slice: starts", starts), numbers("Slice: ends", ends)
    axes = axes_of("Slice: axes", range(len(starts)) if axes is None else axes, len(sizes))
    steps = [1] * len(starts) if steps is None else numbers("Slice: steps", steps)
    for name, given in (("ends", ends), ("axes", axes), ("steps", steps)):
        if len(given) != len(starts):
            raise ValueError(f"Slice: {name} must have length {len(starts)}, as starts has, got {len(given)}")
    slices = [slice(None)] * len(sizes)
    end: int | None
    for k, (d, start, end, step) in enumerate(zip(axes, starts, ends, steps, strict=True)):
        if step == 0:
            raise ValueError(f"Slice: steps[{k}] must not be 0")
        if step < 0:
            if not (known_true(start >= -1) or known_true(start >= -sizes[d])):
                start = larger(start, -sizes[d])  # ONNX begins at the first element; Python selects nothing
            if isinstance(end, torch.SymInt) and not always_true(end >= UNBOUNDED[0]):
                torch._check(end < UNBOUNDED[0], lambda: "Slice: an end that is read must be less than 2**31 - 1")
            elif isinstance(end, torch.SymInt) or end in UNBOUNDED:
                end = None
        slices[d] = slice(start, end, step)
    return tuple(slices)


@kept_by_fx
def slice_(
    data: Tensor, starts: Numbers, ends: Numbers, axes: Numbers | None = None, steps: Numbers | None = None
) -> Tensor:
    return dml.index(data)[slices_of(data.shape, starts, ends, axes, steps)]


@kept_by_fx
def split(
    input: Tensor,
    split: Numbers | None = None,
    *,
    axis: int = 0,
    num_outputs: int,
    must_divide: bool = False,
) -> list[Tensor]:
    d, pieces = pieces_of(input.shape, split, axis=axis, num_outputs=num_outputs, must_divide=must_divide)
    if all(known_true(piece > 0) for piece in pieces):
        return dml.split(input, pieces, d)
    # DirectML has no empty tensors.
    whole = [slice(None)] * d
    return [dml.index(input)[(*whole, slice(start, end))] for start, end in pairwise(accumulate(pieces, initial=0))]


def pieces_of(
    sizes: Sequence[int], split: Numbers | None, *, axis: int = 0, num_outputs: int, must_divide: bool
) -> tuple[int, Sequence[int]]:
    """The axis, and the sizes along it. `num_outputs` is the number of the node's outputs. Where the node does not say
    it, as before opset 18, they must divide the axis without a rest; else the last ones are smaller, or empty."""
    d = axis_of("Split: axis", axis, len(sizes))
    size = sizes[d]
    pieces: Sequence[int] = () if split is None else numbers("Split: split", split)
    if not pieces:  # in ONNX Runtime also for a list without sizes
        if must_divide and known_true(size % num_outputs != 0):
            raise ValueError(f"Split: axis {d} must divide by {num_outputs}, the number of outputs, got size {size}")
        each = (size + num_outputs - 1) // num_outputs
        pieces = [larger(smaller(each, size - k * each), 0) for k in range(num_outputs)]
    else:
        if len(pieces) != num_outputs:
            raise ValueError(f"Split: split must have length {num_outputs}, one for each output, got {len(pieces)}")
        for k, piece in enumerate(pieces):
            if piece < 0:
                raise ValueError(f"Split: split[{k}] must be at least 0, got {shown(piece)}")
        if sum(pieces) != size:
            raise ValueError(f"Split: split must sum to {text(size)}, the size of axis {d}, got {with_sum(pieces)}")
    return d, pieces


@kept_by_fx
def concat(*inputs: Tensor, axis: int) -> Tensor:
    first = inputs[0]
    d = axis_of("Concat: axis", axis, first.dim())
    if not any(known_true(size == 0) for tensor in inputs for size in tensor.shape):
        return dml.join(inputs, d)
    expected = _except(first, d)
    for k, tensor in enumerate(inputs):
        if tensor.dtype != first.dtype or tensor.dim() != first.dim() or _except(tensor, d) != expected:
            raise ValueError(
                f"Concat: inputs[{k}] must have dtype {dtype_name(first.dtype)} and sizes {text(first.shape)}, as "
                f"inputs[0] has, except along axis {d}, got {dtype_name(tensor.dtype)} and {text(tensor.shape)}"
            )
    filled = [tensor for tensor in inputs if not known_true(tensor.shape[d] == 0)]
    return dml.join(filled, d) if filled else first.clone()


def _except(tensor: Tensor, d: int) -> list[int]:
    return [*tensor.shape[:d], *tensor.shape[d + 1 :]]


@kept_by_fx
def reverse_sequence(input: Tensor, sequence_lens: Tensor, *, time_axis: int = 0, batch_axis: int = 1) -> Tensor:
    return dml.reverse_sequence(input, sequence_lens, time_axis, batch_axis)


@kept_by_fx
def identity(input: Tensor) -> Tensor:
    return input


@kept_by_fx
def transpose(data: Tensor, *, perm: Sequence[int] | None = None) -> Tensor:
    axes = tuple(reversed(range(data.dim()))) if perm is None else tuple(perm)
    if sorted(axes) != list(range(data.dim())):
        raise ValueError(f"Transpose: perm must hold each axis from 0 to {data.dim() - 1} once, got {text(axes)}")
    return data.permute(axes)


@kept_by_fx
def reshape(data: Tensor, shape: Numbers, *, allowzero: int = 0) -> Tensor:
    sizes = list(numbers("Reshape: shape", shape))
    rest: int | None = None
    count = 1  # of the elements that the others have
    for d, size in enumerate(sizes):
        if known_true(size < 0):
            if not known_true(size == -1):
                raise ValueError(f"Reshape: shape[{d}] must be at least -1, got {text(size)}")
            if rest is not None:
                raise ValueError(f"Reshape: shape must hold one -1 at most, got {text(sizes)}")
            rest = d
            continue
        if size == 0 and allowzero != 1:
            if d >= data.dim():
                raise ValueError(f"Reshape: shape[{d}] must not be 0, as data has no dimension {d}")
            sizes[d] = data.shape[d]
        count *= sizes[d]
    elements = data.numel()
    if known_true(elements != count) if rest is None else known_true(count == 0) or known_true(elements % count != 0):
        raise ValueError(f"Reshape: shape must hold the {elements} elements of data, got {text(sizes)}")
    return data.reshape(sizes)


@kept_by_fx
def flatten(input: Tensor, *, axis: int = 1) -> Tensor:
    rank = input.dim()
    d = axis if axis == rank else axis_of("Flatten: axis", axis, rank)
    rows, columns = 1, 1
    for k, size in enumerate(input.shape):
        rows, columns = (rows * size, columns) if k < d else (rows, columns * size)
    return input.reshape(rows, columns)


@kept_by_fx
def squeeze(data: Tensor, axes: Numbers | None = None) -> Tensor:
    chosen = [] if axes is None else axes_of("Squeeze: axes", axes, data.dim())
    if not chosen:  # all of size 1; in ONNX Runtime also for a list without axes
        return data.squeeze()
    for k, d in enumerate(chosen):
        if data.shape[d] != 1:
            raise ValueError(f"Squeeze: axes[{k}] must be an axis of size 1, got {d}, of size {text(data.shape[d])}")
    return data.squeeze(chosen)


@kept_by_fx
def unsqueeze(data: Tensor, axes: Numbers) -> Tensor:
    axes = numbers("Unsqueeze: axes", axes)
    for d in sorted(axes_of("Unsqueeze: axes", axes, data.dim() + len(axes))):
        data = data.unsqueeze(d)
    return data


@kept_by_fx
def expand(input: Tensor, shape: Numbers) -> Tensor:
    sizes = tuple(numbers("Expand: shape", shape))
    for d, size in enumerate(sizes):
        if known_true(size < 0):
            raise ValueError(f"Expand: shape[{d}] must be at least 0, got {text(size)}")
    check_size("Expand", sizes, input.itemsize)
    if not may_broadcast(input.shape, sizes):
        raise ValueError(
            f"Expand: shape must broadcast with the sizes of input, {text(input.shape)}, got {text(sizes)}"
        )
    result = torch.broadcast_shapes(input.shape, sizes)
    check_size("Expand", result, input.itemsize)
    return input.expand(result)


@kept_by_fx
def tile(input: Tensor, repeats: Numbers) -> Tensor:
    repeats = numbers("Tile: repeats", repeats)
    if len(repeats) != input.dim():
        raise ValueError(f"Tile: repeats must have length {input.dim()}, one for each dimension, got {len(repeats)}")
    for d, repeat in enumerate(repeats):
        if known_true(repeat < 0):
            raise ValueError(f"Tile: repeats[{d}] must be at least 0, got {text(repeat)}")
    check_size("Tile", [size * repeat for size, repeat in zip(input.shape, repeats, strict=True)], input.itemsize)
    return input.repeat(tuple(repeats))


@kept_by_fx
def pad(
    data: Tensor,
    pads: Numbers,
    constant_value: Tensor | None = None,
    axes: Numbers | None = None,
    *,
    mode: str = "constant",
    value: float = 0,
) -> Tensor:
    if constant_value is not None and may_mix(data, constant_value):
        constant_value = constant_value.to(data.dtype)
    check_one_dtype("Pad", "data", data, {"constant_value": constant_value})
    if constant_value is not None and (constant_value.dim() > 1 or not known_true(constant_value.numel() == 1)):
        raise ValueError(f"Pad: constant_value must be one number, got {shown(constant_value)}")
    pads = numbers("Pad: pads", pads)
    chosen = axes_of("Pad: axes", range(data.dim()) if axes is None else axes, data.dim())
    if len(pads) != 2 * len(chosen):
        raise ValueError(f"Pad: pads must have length {2 * len(chosen)}, two for each axis, got {len(pads)}")
    at_both_ends = list(zip(chosen, pads[: len(chosen)], pads[len(chosen) :], strict=True))
    sizes = list(data.shape)
    for d, before, after in at_both_ends:
        sizes[d] += before + after
        if known_true(data.shape[d] + min(before, 0) + min(after, 0) < 0):
            removed = -min(before, 0) - min(after, 0)
            raise ValueError(
                f"Pad: pads must remove at most {text(data.shape[d])} from axis {d}, its size, got {text(removed)}"
            )
    check_size("Pad", sizes, data.itemsize)
    if mode != "constant":
        for d, before, after in at_both_ends:
            data = _extended(data, d, before, after, mode)
        return data
    before_and_after = [0] * (2 * data.dim())  # of the last dimension first
    for d, *both in at_both_ends:
        at = 2 * (data.dim() - 1 - d)
        before_and_after[at : at + 2] = both
    if constant_value is None:
        return torch.constant_pad_nd(data, before_and_after, value)
    inside = torch.constant_pad_nd(torch.ones_like(data, dtype=torch.bool), before_and_after, False)
    # Not the number that it holds, which has no gradient.
    padded = torch.constant_pad_nd(signed(data), before_and_after)
    return as_dtype(data.dtype, torch.where(inside, padded, signed(constant_value).reshape(())))


def _extended(x: Tensor, d: int, before: int, after: int, mode: str) -> Tensor:
    """By what it has at its ends itself; negative numbers take away from these first."""
    if known_true(before < 0) or known_true(after < 0):
        kept = x.shape[d] + min(before, 0) + min(after, 0)
        x, before, after = x.narrow(d, max(-before, 0), kept), max(before, 0), max(after, 0)
    size = x.shape[d]
    if known_true(before + after == 0):
        return x
    most = 0 if known_true(size == 0) else size - 1 if mode == "reflect" else 2**63
    if known_true(before > most) or known_true(after > most):
        raise ValueError(
            f"Pad: pads of mode {mode} must be at most {text(most)} for axis {d}, of which it keeps {text(size)}, got "
            f"{text((before, after))}"
        )
    if mode == "wrap":
        left, right = (before + size - 1) // size, (after + size - 1) // size
        repeated = x.repeat([left + 1 + right if k == d else 1 for k in range(x.dim())])
        return repeated.narrow(d, left * size - before, before + size + after)
    if mode == "edge":
        first, last = (
            x.narrow(d, at, 1).expand([count if k == d else -1 for k in range(x.dim())])
            for at, count in ((0, before), (size - 1, after))
        )
    else:
        along = [slice(None)] * d
        first, last = (dml.index(x)[(*along, s)] for s in (slice(before, 0, -1), slice(-2, -2 - after, -1)))
    return concat(first, x, last, axis=d)


@kept_by_fx
def center_crop_pad(input_data: Tensor, shape: Numbers, *, axes: Sequence[int] | None = None) -> Tensor:
    given = range(input_data.dim()) if axes is None else axes
    chosen = axes_of("CenterCropPad: axes", given, input_data.dim())
    sizes = numbers("CenterCropPad: shape", shape)
    if len(sizes) != len(chosen):
        raise ValueError(f"CenterCropPad: shape must have length {len(chosen)}, one for each axis, got {len(sizes)}")
    result, pads = list(input_data.shape), []
    for k, (d, size) in enumerate(zip(chosen, sizes, strict=True)):
        if known_true(size < 0):
            raise ValueError(f"CenterCropPad: shape[{k}] must be at least 0, got {text(size)}")
        more, result[d] = size - input_data.shape[d], size
        before = larger(more, 0) // 2 - larger(-more, 0) // 2  # of an odd number, one less than after
        pads.append((before, more - before))
    check_size("CenterCropPad", result, input_data.itemsize)
    return pad(input_data, [before for before, _ in pads] + [after for _, after in pads], axes=chosen)


@kept_by_fx
def constant_of_shape(input: Numbers, *, value: Tensor) -> Tensor:
    sizes = tuple(numbers("ConstantOfShape: input", input))
    for d, size in enumerate(sizes):
        if known_true(size < 0):
            raise ValueError(f"ConstantOfShape: input[{d}] must be at least 0, got {text(size)}")
    check_size("ConstantOfShape", sizes, value.itemsize)
    return value.reshape(()).expand(sizes).clone()


@kept_by_fx
def depth_to_space(input: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    n, depth, rows, columns = _pictures("DepthToSpace", input, blocksize)
    if known_true(depth % blocksize**2 != 0):
        raise ValueError(
            f"DepthToSpace: axis 1 must divide by {blocksize**2}, the square of blocksize, got size {text(depth)}"
        )
    rest = depth // blocksize**2
    if mode == "DCR":
        blocks = input.reshape(n, blocksize, blocksize, rest, rows, columns).permute(0, 3, 4, 1, 5, 2)
    else:
        blocks = input.reshape(n, rest, blocksize, blocksize, rows, columns).permute(0, 1, 4, 2, 5, 3)
    return blocks.reshape(n, rest, rows * blocksize, columns * blocksize)


@kept_by_fx
def space_to_depth(input: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    n, depth, *space = _pictures("SpaceToDepth", input, blocksize)
    for d, size in enumerate(space, start=2):
        if known_true(size % blocksize != 0):
            raise ValueError(f"SpaceToDepth: axis {d} must divide by {blocksize}, the blocksize, got size {text(size)}")
    rows, columns = (size // blocksize for size in space)
    blocks = input.reshape(n, depth, rows, blocksize, columns, blocksize)
    blocks = blocks.permute(0, 3, 5, 1, 2, 4) if mode == "DCR" else blocks.permute(0, 1, 3, 5, 2, 4)
    return blocks.reshape(n, depth * blocksize**2, rows, columns)


def _pictures(op: str, input: Tensor, blocksize: int) -> Sequence[int]:
    if input.dim() != 4:
        raise ValueError(f"{op}: input must have 4 dimensions, got {input.dim()}")
    if blocksize < 1:
        raise ValueError(f"{op}: blocksize must be at least 1, got {shown(blocksize)}")
    return input.shape


@kept_by_fx
def trilu(input: Tensor, k: Tensor | int = 0, *, upper: int = 1) -> Tensor:
    if input.dim() < 2:
        raise ValueError(f"Trilu: input must have 2 dimensions or more, got {input.dim()}")
    part = torch.triu if upper else torch.tril
    return as_dtype(input.dtype, part(signed(input), number("Trilu: k", k)))
