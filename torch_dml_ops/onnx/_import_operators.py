"""ONNX's operators that move data, on tensors.

Parameters have the names of ONNX's inputs and attributes. Inputs that are lists of whole numbers, such as the `starts`
of Slice, are tuples where the graph has them as constants. Where they are tensors, these are read when the graph runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
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
    """`num_outputs` is the number of the node's outputs. Before opset 18, they must divide the axis without a rest."""
    d = axis_of("Split: axis", axis, input.dim())
    size = input.shape[d]
    if split is None:
        each = (size + num_outputs - 1) // num_outputs
        last = size - (num_outputs - 1) * each
        if must_divide and last != each:
            raise ValueError(f"Split: axis {d} must divide by {num_outputs}, the number of outputs, got size {size}")
        if last < 0:
            raise ValueError(
                f"Split: axis {d} must divide into {num_outputs} outputs of size {each}, of which the last may be "
                f"smaller, got size {size}"
            )
        pieces: Sequence[int] = [*[each] * (num_outputs - 1), last]
    else:
        pieces = numbers("Split: split", split)
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
    for name, axis in (("time_axis", time_axis), ("batch_axis", batch_axis)):
        if axis not in (0, 1):
            raise ValueError(f"ReverseSequence: {name} must be 0 or 1, got {shown(axis)}")
    return dml.reverse_sequence(input, sequence_lens, time_axis, batch_axis)


@recorded
def identity(input: Tensor) -> Tensor:
    return input


@recorded
def transpose(data: Tensor, *, perm: Sequence[int] | None = None) -> Tensor:
    return data.permute(tuple(reversed(range(data.dim()))) if perm is None else tuple(perm))


@recorded
def reshape(data: Tensor, shape: Numbers, *, allowzero: int = 0) -> Tensor:
    sizes = list(numbers("Reshape: shape", shape))
    for d, size in enumerate(sizes):
        if size == 0 and not allowzero:
            if d >= data.dim():
                raise ValueError(f"Reshape: shape[{d}] must not be 0, as data has only {data.dim()} dimensions")
            sizes[d] = data.shape[d]
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
    return input.expand(torch.broadcast_shapes(input.shape, tuple(numbers("Expand: shape", shape))))


@recorded
def tile(input: Tensor, repeats: Numbers) -> Tensor:
    repeats = numbers("Tile: repeats", repeats)
    if len(repeats) != input.dim():
        raise ValueError(f"Tile: repeats must have length {input.dim()}, one for each dimension, got {len(repeats)}")
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
    for d, before, after in zip(chosen, pads[: len(chosen)], pads[len(chosen) :], strict=True):
        at = 2 * (data.dim() - 1 - d)
        before_and_after[at : at + 2] = before, after
    if constant_value is None:
        return torch.constant_pad_nd(data, before_and_after, value)
    inside = torch.constant_pad_nd(torch.ones_like(data, dtype=torch.bool), before_and_after, False)
    # Not the number that it holds, which has no gradient.
    return torch.where(inside, torch.constant_pad_nd(data, before_and_after), constant_value.reshape(()))


@recorded
def gather(data: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    d = axis_of("Gather: axis", axis, data.dim())
    before: list[slice | Tensor] = [slice(None)] * d
    return data[(*before, indices.long())]


@recorded
def gather_elements(data: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    d = axis_of("GatherElements: axis", axis, data.dim())
    indices = indices.long()
    return data.gather(d, torch.where(indices < 0, indices + data.shape[d], indices))


@recorded
def constant_of_shape(input: Numbers, *, value: Tensor) -> Tensor:
    return value.reshape(()).expand(tuple(numbers("ConstantOfShape: input", input))).clone()


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
    result = _ordered(input)
    if min is not None:
        result = torch.maximum(result, _ordered(min))
    if max is not None:
        result = torch.minimum(result, _ordered(max))
    return (result ^ _HIGHEST_BIT).view(input.dtype) if input.dtype == torch.uint64 else result.to(input.dtype)


@recorded
def less(A: Tensor, B: Tensor) -> Tensor:
    _check_whole("Less", A)
    return torch.lt(_ordered(A), _ordered(B))


@recorded
def sub(A: Tensor, B: Tensor) -> Tensor:
    _check_whole("Sub", A)
    return torch.sub(A, B)


@recorded
def where(condition: Tensor, X: Tensor, Y: Tensor) -> Tensor:
    return torch.where(condition, X, Y)


@recorded
def range_(start: Tensor | int, limit: Tensor | int, delta: Tensor | int) -> Tensor:
    begin, end, step = (int(number) if isinstance(number, Tensor) else number for number in (start, limit, delta))
    return torch.arange(begin, end, step)


def _check_whole(op: str, tensor: Tensor) -> None:
    if not _is_whole(tensor.dtype):
        raise ValueError(f"{op}: inputs must have a dtype of whole numbers, got {_name(tensor.dtype)}")


_HIGHEST_BIT = -(2**63)


def _ordered(tensor: Tensor) -> Tensor:
    """int64 in the same order: torch does not compare uint64."""
    return tensor.view(torch.int64) ^ _HIGHEST_BIT if tensor.dtype == torch.uint64 else tensor.to(torch.int64)


def _is_whole(dtype: torch.dtype) -> bool:
    return not (dtype.is_floating_point or dtype.is_complex or dtype == torch.bool)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
