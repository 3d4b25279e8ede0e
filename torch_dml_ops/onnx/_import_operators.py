"""ONNX's operators that move data, on tensors.

Parameters have the names of ONNX's inputs and attributes. Inputs that are lists of whole numbers, such as the `starts`
of Slice, are tuples where the graph has them as constants. Where they are tensors, these are read when the graph runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from math import prod
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor
from torch.overrides import handle_torch_function

import torch_dml_ops as dml
from torch_dml_ops._arguments import records_calls
from torch_dml_ops._layout import known
from torch_dml_ops._text import shown, text, with_sum

# As the end of a slice with a negative step, for one that reaches the first element in ONNX Runtime. By ONNX's text it
# selects nothing.
UNBOUNDED = 2**31 - 1, 2**63 - 1

Numbers = Tensor | Sequence[int]
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def recorded(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """torch.fx records a call of the function as it is; so it does when it restores a module that was pickled."""

    @wraps(function)
    def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        for value in (*args, *kwargs.values()):
            if records_calls(value):
                result: Result = handle_torch_function(call, (value,), *args, **kwargs)
                return result
        return function(*args, **kwargs)

    return call


def numbers(name: str, value: Numbers) -> Sequence[int]:
    """The list that a tensor holds. From a GPU it has to be copied, and torch.compile breaks the graph there."""
    if isinstance(value, (list, tuple, range)):
        return value
    if not isinstance(value, Tensor):
        raise ValueError(f"{name} must be a 1-d tensor of int32 or int64, got {shown(value)}")
    if value.dim() != 1 or value.dtype not in (torch.int32, torch.int64):
        raise ValueError(
            f"{name} must be a 1-d tensor of int32 or int64, got a {value.dim()}-d tensor of {_name(value.dtype)}"
        )
    values: list[int] = value.tolist()
    return values


def axis_of(name: str, axis: int, rank: int) -> int:
    """The axis from 0 on; ONNX's may be negative."""
    if not -rank <= axis < rank:
        rule = f"from {-rank} to {rank - 1}" if rank else "left out, as the input is 0-d"
        raise ValueError(f"{name} must be {rule}, got {shown(axis)}")
    return axis + rank if axis < 0 else axis


def _axes(name: str, axes: Numbers, rank: int) -> list[int]:
    """Without repetitions."""
    chosen: list[int] = []
    for k, axis in enumerate(numbers(name, axes)):
        d = axis_of(f"{name}[{k}]", axis, rank)
        if d in chosen:
            raise ValueError(f"{name} must differ from one another, got {axis} for axes[{k}] and for one before it")
        chosen.append(d)
    return chosen


def _check_size(op: str, sizes: Sequence[int], itemsize: int) -> None:
    """Before torch multiplies them in 64 bits."""
    if any(known(size >= 2**63) for size in sizes) or known(prod(sizes) * itemsize >= 2**63):
        raise ValueError(f"{op}: output must have less than 2**63 bytes, got sizes {text(sizes)}")


def _broadcast(*shapes: Sequence[int]) -> bool:
    """Whether they broadcast, or may for some values of symbolic sizes."""
    return all(
        not known(m != n) or known(m == 1) or known(n == 1)
        for k, shape in enumerate(shapes)
        for other in shapes[:k]
        for m, n in zip(reversed(shape), reversed(other), strict=False)
    )


def _check_broadcast(op: str, *tensors: Tensor) -> None:
    sizes = [tensor.shape for tensor in tensors]
    if not _broadcast(*sizes):
        raise ValueError(f"{op}: inputs must have sizes that broadcast, got {' and '.join(map(text, sizes))}")


def slices_of(
    sizes: Sequence[int], starts: Numbers, ends: Numbers, axes: Numbers | None, steps: Numbers | None
) -> tuple[slice, ...]:
    """Python's slices that select what Slice does of a tensor of these sizes."""
    starts, ends = numbers("Slice: starts", starts), numbers("Slice: ends", ends)
    axes = _axes("Slice: axes", range(len(starts)) if axes is None else axes, len(sizes))
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
            if not (known(start >= -1) or known(start >= -sizes[d])):
                start = torch.sym_max(start, -sizes[d])  # ONNX begins at the first element; Python selects nothing
            if isinstance(end, int) and end in UNBOUNDED:
                end = None
        slices[d] = slice(start, end, step)
    return tuple(slices)


@recorded
def slice_(
    data: Tensor, starts: Numbers, ends: Numbers, axes: Numbers | None = None, steps: Numbers | None = None
) -> Tensor:
    return dml.index(data)[slices_of(data.shape, starts, ends, axes, steps)]


@recorded
def split(
    input: Tensor,
    split: Numbers | None = None,
    *,
    axis: int = 0,
    num_outputs: int,
    must_divide: bool = False,
) -> list[Tensor]:
    """`num_outputs` is the number of the node's outputs. Where the node does not say it, as before opset 18, they must
    divide the axis without a rest."""
    d = axis_of("Split: axis", axis, input.dim())
    size = input.shape[d]
    pieces = () if split is None else numbers("Split: split", split)
    if not pieces:  # in ONNX Runtime also for a list without sizes
        each = (size + num_outputs - 1) // num_outputs
        last = size - (num_outputs - 1) * each
        if must_divide and last != each:
            raise ValueError(f"Split: axis {d} must divide by {num_outputs}, the number of outputs, got size {size}")
        if last <= 0 and not must_divide:  # also where the axis is empty
            raise ValueError(
                f"Split: axis {d} must divide into {num_outputs} outputs of size {each}, of which the last may be "
                f"smaller, got size {size}"
            )
        pieces = [*[each] * (num_outputs - 1), last]
    else:
        if len(pieces) != num_outputs:
            raise ValueError(f"Split: split must have length {num_outputs}, one for each output, got {len(pieces)}")
        for k, piece in enumerate(pieces):
            if piece < 0:
                raise ValueError(f"Split: split[{k}] must be at least 0, got {shown(piece)}")
        if sum(pieces) != size:
            raise ValueError(f"Split: split must sum to {text(size)}, the size of axis {d}, got {with_sum(pieces)}")
    # DirectML has no empty tensors.
    filled = [piece for piece in pieces if not known(piece == 0)]
    copies = iter(dml.split(input, filled, d) if filled else ())
    return [input.narrow(d, 0, 0).clone() if known(piece == 0) else next(copies) for piece in pieces]


@recorded
def concat(*inputs: Tensor, axis: int) -> Tensor:
    first = inputs[0]
    d = axis_of("Concat: axis", axis, first.dim())
    if not any(known(size == 0) for tensor in inputs for size in tensor.shape):
        return dml.join(inputs, d)
    expected = _except(first, d)
    for k, tensor in enumerate(inputs):
        if tensor.dtype != first.dtype or tensor.dim() != first.dim() or _except(tensor, d) != expected:
            raise ValueError(
                f"Concat: inputs[{k}] must have dtype {_name(first.dtype)} and sizes {text(first.shape)}, as inputs[0] "
                f"has, except along axis {d}, got {_name(tensor.dtype)} and {text(tensor.shape)}"
            )
    filled = [tensor for tensor in inputs if not known(tensor.shape[d] == 0)]
    return dml.join(filled, d) if filled else first.clone()


def _except(tensor: Tensor, d: int) -> list[int]:
    return [*tensor.shape[:d], *tensor.shape[d + 1 :]]


@recorded
def reverse_sequence(input: Tensor, sequence_lens: Tensor, *, time_axis: int = 0, batch_axis: int = 1) -> Tensor:
    return dml.reverse_sequence(input, sequence_lens, time_axis, batch_axis)


@recorded
def identity(input: Tensor) -> Tensor:
    return input


@recorded
def transpose(data: Tensor, *, perm: Sequence[int] | None = None) -> Tensor:
    axes = tuple(reversed(range(data.dim()))) if perm is None else tuple(perm)
    if sorted(axes) != list(range(data.dim())):
        raise ValueError(f"Transpose: perm must hold each axis from 0 to {data.dim() - 1} once, got {text(axes)}")
    return data.permute(axes)


@recorded
def reshape(data: Tensor, shape: Numbers, *, allowzero: int = 0) -> Tensor:
    sizes = list(numbers("Reshape: shape", shape))
    rest: int | None = None
    count = 1  # of the elements that the others have
    for d, size in enumerate(sizes):
        if known(size < 0):
            if not known(size == -1):
                raise ValueError(f"Reshape: shape[{d}] must be at least -1, got {text(size)}")
            if rest is not None:
                raise ValueError(f"Reshape: shape must hold one -1 at most, got {text(sizes)}")
            rest = d
            continue
        if size == 0 and not allowzero:
            if d >= data.dim():
                raise ValueError(f"Reshape: shape[{d}] must not be 0, as data has only {data.dim()} dimensions")
            sizes[d] = data.shape[d]
        count *= sizes[d]
    elements = data.numel()
    if known(elements != count) if rest is None else known(count == 0) or known(elements % count != 0):
        raise ValueError(f"Reshape: shape must hold the {elements} elements of data, got {text(sizes)}")
    return data.reshape(sizes)


@recorded
def flatten(input: Tensor, *, axis: int = 1) -> Tensor:
    rank = input.dim()
    d = axis if axis == rank else axis_of("Flatten: axis", axis, rank)
    rows, columns = 1, 1
    for k, size in enumerate(input.shape):
        rows, columns = (rows * size, columns) if k < d else (rows, columns * size)
    return input.reshape(rows, columns)


@recorded
def squeeze(data: Tensor, axes: Numbers | None = None) -> Tensor:
    chosen = [] if axes is None else _axes("Squeeze: axes", axes, data.dim())
    if not chosen:  # all of size 1; in ONNX Runtime also for a list without axes
        return data.squeeze()
    for k, d in enumerate(chosen):
        if data.shape[d] != 1:
            raise ValueError(f"Squeeze: axes[{k}] must be an axis of size 1, got {d}, of size {text(data.shape[d])}")
    return data.squeeze(chosen)


@recorded
def unsqueeze(data: Tensor, axes: Numbers) -> Tensor:
    axes = numbers("Unsqueeze: axes", axes)
    for d in sorted(_axes("Unsqueeze: axes", axes, data.dim() + len(axes))):
        data = data.unsqueeze(d)
    return data


@recorded
def expand(input: Tensor, shape: Numbers) -> Tensor:
    sizes = tuple(numbers("Expand: shape", shape))
    for d, size in enumerate(sizes):
        if known(size < 0):
            raise ValueError(f"Expand: shape[{d}] must be at least 0, got {text(size)}")
    _check_size("Expand", sizes, input.itemsize)
    if not _broadcast(input.shape, sizes):
        raise ValueError(
            f"Expand: shape must broadcast with the sizes of input, {text(input.shape)}, got {text(sizes)}"
        )
    result = torch.broadcast_shapes(input.shape, sizes)
    _check_size("Expand", result, input.itemsize)
    return input.expand(result)


@recorded
def tile(input: Tensor, repeats: Numbers) -> Tensor:
    repeats = numbers("Tile: repeats", repeats)
    if len(repeats) != input.dim():
        raise ValueError(f"Tile: repeats must have length {input.dim()}, one for each dimension, got {len(repeats)}")
    for d, repeat in enumerate(repeats):
        if known(repeat < 0):
            raise ValueError(f"Tile: repeats[{d}] must be at least 0, got {text(repeat)}")
    _check_size("Tile", [size * repeat for size, repeat in zip(input.shape, repeats, strict=True)], input.itemsize)
    return input.repeat(tuple(repeats))


@recorded
def pad(
    data: Tensor,
    pads: Numbers,
    constant_value: Tensor | None = None,
    axes: Numbers | None = None,
    *,
    mode: str = "constant",
    value: float = 0,
) -> Tensor:
    if mode != "constant":
        raise ValueError(f"Pad: mode must be constant, got {mode}")
    pads = numbers("Pad: pads", pads)
    chosen = _axes("Pad: axes", range(data.dim()) if axes is None else axes, data.dim())
    if len(pads) != 2 * len(chosen):
        raise ValueError(f"Pad: pads must have length {2 * len(chosen)}, two for each axis, got {len(pads)}")
    before_and_after = [0] * (2 * data.dim())  # of the last dimension first
    sizes = list(data.shape)
    for d, before, after in zip(chosen, pads[: len(chosen)], pads[len(chosen) :], strict=True):
        at = 2 * (data.dim() - 1 - d)
        before_and_after[at : at + 2] = before, after
        sizes[d] += before + after
        if known(data.shape[d] + min(before, 0) + min(after, 0) < 0):
            removed = -min(before, 0) - min(after, 0)
            raise ValueError(
                f"Pad: pads must remove at most {text(data.shape[d])} from axis {d}, its size, got {text(removed)}"
            )
    _check_size("Pad", sizes, data.itemsize)
    if constant_value is not None and (constant_value.dim() > 1 or not known(constant_value.numel() == 1)):
        raise ValueError(f"Pad: constant_value must be one number, got {shown(constant_value)}")
    if constant_value is None:
        return torch.constant_pad_nd(data, before_and_after, value)
    inside = torch.constant_pad_nd(torch.ones_like(data, dtype=torch.bool), before_and_after, False)
    # Not the number that it holds, which has no gradient.
    return torch.where(inside, torch.constant_pad_nd(data, before_and_after), constant_value.reshape(()))


@recorded
def gather(data: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    d = axis_of("Gather: axis", axis, data.dim())
    before: list[slice | Tensor] = [slice(None)] * d
    try:
        return data[(*before, indices.long())]
    except IndexError:  # of the CPU: on a GPU, nobody waits for what the kernel finds
        raise _out_of_range("Gather", indices, data.shape[d]) from None


@recorded
def gather_elements(data: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    d = axis_of("GatherElements: axis", axis, data.dim())
    if indices.dim() != data.dim():
        raise ValueError(f"GatherElements: indices must have {data.dim()} dimensions, as data has, got {indices.dim()}")
    for k, (size, most) in enumerate(zip(indices.shape, data.shape, strict=True)):
        if k != d and known(size > most):
            raise ValueError(
                f"GatherElements: indices must have at most size {text(most)}, as data has, at axis {k}, got "
                f"{text(size)}"
            )
    indices = indices.long()
    given = _signed(data)
    try:
        result = given.gather(d, torch.where(indices < 0, indices + data.shape[d], indices))
    except RuntimeError as error:
        if "out of bounds" not in str(error):
            raise
        raise _out_of_range("GatherElements", indices, data.shape[d]) from None
    return result.view(data.dtype)


def _out_of_range(op: str, indices: Tensor, size: int) -> ValueError:
    index = next(int(index) for index in indices.reshape(-1) if not -size <= index < size)
    rule = f"from {-size} to {size - 1}" if size else "none, as the axis has size 0"
    return ValueError(f"{op}: indices must be {rule}, got {index}")


@recorded
def constant_of_shape(input: Numbers, *, value: Tensor) -> Tensor:
    sizes = tuple(numbers("ConstantOfShape: input", input))
    for d, size in enumerate(sizes):
        if known(size < 0):
            raise ValueError(f"ConstantOfShape: input[{d}] must be at least 0, got {text(size)}")
    _check_size("ConstantOfShape", sizes, value.itemsize)
    return value.reshape(()).expand(sizes).clone()


# What sequence lengths may go through on their way.


def is_exact(dtype: torch.dtype, to: torch.dtype) -> bool:
    """Whether floating-point numbers hold those of `dtype`: zeros of bfloat16 may be made of bytes."""
    return dtype in (torch.uint8, torch.int8) and to.is_floating_point and to.itemsize > 1


@recorded
def cast(input: Tensor, *, to: torch.dtype) -> Tensor:
    for name, dtype in (("input", input.dtype), ("to", to)):
        if not (_is_whole(dtype) or (name == "to" and is_exact(input.dtype, dtype))):
            raise ValueError(f"Cast: {name} must have a dtype of whole numbers, got {_name(dtype)}")
    return input.to(to)


@recorded
def clip(input: Tensor, min: Tensor | None = None, max: Tensor | None = None) -> Tensor:
    if not _is_whole(input.dtype):
        raise ValueError(f"Clip: input must have a dtype of whole numbers, got {_name(input.dtype)}")
    for name, limit in (("min", min), ("max", max)):
        if limit is not None and (limit.dim() > 1 or not known(limit.numel() == 1)):
            raise ValueError(f"Clip: {name} must be one number, got {shown(limit)}")
    result = _ordered(input)
    if min is not None:
        result = torch.maximum(result, _ordered(min))
    if max is not None:
        result = torch.minimum(result, _ordered(max))
    return (result ^ _HIGHEST_BIT).view(input.dtype) if input.dtype == torch.uint64 else result.to(input.dtype)


@recorded
def less(A: Tensor, B: Tensor) -> Tensor:
    _check_whole("Less", A)
    _check_broadcast("Less", A, B)
    return torch.lt(_ordered(A), _ordered(B))


@recorded
def sub(A: Tensor, B: Tensor) -> Tensor:
    _check_whole("Sub", A)
    _check_broadcast("Sub", A, B)
    return torch.sub(_signed(A), _signed(B)).view(A.dtype)


@recorded
def where(condition: Tensor, X: Tensor, Y: Tensor) -> Tensor:
    _check_broadcast("Where", condition, X, Y)
    return torch.where(condition, X, Y)


@recorded
def range_(start: Tensor | int, limit: Tensor | int, delta: Tensor | int) -> Tensor:
    begin, end, step = (_one(name, number) for name, number in (("start", start), ("limit", limit), ("delta", delta)))
    if known(step == 0):
        raise ValueError("Range: delta must not be 0")
    count = torch.sym_max((end - begin + step + (1 if step < 0 else -1)) // step, 0)
    _check_size("Range", [count], 8)
    # In another dtype than int64, the numbers are tensors.
    dtype = next((number.dtype for number in (start, limit, delta) if isinstance(number, Tensor)), torch.int64)
    return (torch.arange(count) * step + begin).to(dtype)


def _one(name: str, number: Tensor | int) -> int:
    if not isinstance(number, Tensor):
        return number
    if number.numel() != 1 or not _is_whole(number.dtype):
        raise ValueError(f"Range: {name} must be one whole number, got {shown(number)}, of dtype {_name(number.dtype)}")
    return int(number)


def _check_whole(op: str, tensor: Tensor) -> None:
    if not _is_whole(tensor.dtype):
        raise ValueError(f"{op}: inputs must have a dtype of whole numbers, got {_name(tensor.dtype)}")


_HIGHEST_BIT = -(2**63)
_SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}


def _ordered(tensor: Tensor) -> Tensor:
    """int64 in the same order: torch does not compare uint64."""
    return tensor.view(torch.int64) ^ _HIGHEST_BIT if tensor.dtype == torch.uint64 else tensor.to(torch.int64)


def _signed(tensor: Tensor) -> Tensor:
    """The same bits as signed numbers: torch has fewer operators for the larger unsigned ones."""
    return tensor.view(_SIGNED[tensor.dtype]) if tensor.dtype in _SIGNED else tensor


def _is_whole(dtype: torch.dtype) -> bool:
    return not (dtype.is_floating_point or dtype.is_complex or dtype == torch.bool)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
