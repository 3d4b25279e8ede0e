"""The sizes that an ONNX graph computes from those of its tensors: whole numbers instead of tensors.

A number stands for a 0-d tensor of int64 or int32, and a tuple for a 1-d one. So sizes stay symbolic under
torch.compile and torch.export, and nothing is read back from a GPU.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from torch_dml_ops._sentences.text import shown, text
from torch_dml_ops._torch.symbols import known_true
from torch_dml_ops.onnx._importer.inputs import Numbers, axes_of, kept_by_fx, larger, smaller
from torch_dml_ops.onnx._importer.moving import slices_of

Sizes = int | tuple[int, ...]

# A list that is joined with itself forty times has 2 ** 40 numbers.
MOST_SIZES = 2**20


@kept_by_fx
def shape(data: Tensor, *, start: int = 0, end: int | None = None) -> tuple[int, ...]:
    return tuple(data.shape)[start:end]


@kept_by_fx
def size(data: Tensor) -> int:
    return data.numel()


@kept_by_fx
def as_tensor(sizes: Sizes, beside: Tensor | None = None, dtype: torch.dtype = torch.int64) -> Tensor:
    """On the device of another tensor, or on the CPU."""
    return torch.tensor(sizes, dtype=dtype, device="cpu" if beside is None else beside.device)


@kept_by_fx
def in_int32(sizes: Sizes, op: str) -> Sizes:
    for value in sizes if isinstance(sizes, tuple) else (sizes,):
        if known_true(value >= 2**31) or known_true(value < -(2**31)):
            raise ValueError(f"{op}: the result must fit int32, got {text(value)}")
    return sizes


@kept_by_fx
def identity(input: Sizes, **attributes: Any) -> Sizes:
    return input


@kept_by_fx
def gather(data: tuple[int, ...], indices: Sizes, *, axis: int = 0) -> Sizes:
    for index in indices if isinstance(indices, tuple) else (indices,):
        if not -len(data) <= index < len(data):
            raise ValueError(f"Gather: indices must be from {-len(data)} to {len(data) - 1}, got {shown(index)}")
    return tuple([data[index] for index in indices]) if isinstance(indices, tuple) else data[indices]


@kept_by_fx
def slice_(
    data: tuple[int, ...], starts: Numbers, ends: Numbers, axes: Numbers | None = None, steps: Numbers | None = None
) -> tuple[int, ...]:
    (chosen,) = slices_of([len(data)], starts, ends, axes, steps)
    return data[chosen]


@kept_by_fx
def concat(*inputs: tuple[int, ...], axis: int) -> tuple[int, ...]:
    length = sum(map(len, inputs))
    if length > MOST_SIZES:
        raise ValueError(f"Concat: output must hold at most {MOST_SIZES} sizes, got {length}")
    return tuple([number for numbers in inputs for number in numbers])


@kept_by_fx
def squeeze(data: tuple[int, ...], axes: Numbers | None = None) -> int:
    if len(data) != 1:
        raise ValueError(f"Squeeze: data must have 1 element, got {len(data)}")
    axes_of("Squeeze: axes", [0] if axes is None else axes, 1)
    return data[0]


@kept_by_fx
def unsqueeze(data: int, axes: Numbers) -> tuple[int, ...]:
    axes_of("Unsqueeze: axes", axes, 1)
    return (data,)


@kept_by_fx
def reshape(data: Sizes, shape: Sequence[int], *, allowzero: int = 0) -> Sizes:
    numbers = data if isinstance(data, tuple) else (data,)
    if shape == (0,) and isinstance(data, tuple) and allowzero != 1:
        shape = (len(numbers),)
    if shape not in ((), (-1,), (len(numbers),)) or (shape == () and len(numbers) != 1):
        raise ValueError(f"Reshape: shape must hold {len(numbers)} elements, got {shown(shape)}")
    return numbers if shape else numbers[0]


@kept_by_fx
def add(a: Sizes, b: Sizes) -> Sizes:
    return _elementwise("Add", operator.add, a, b)


@kept_by_fx
def sub(a: Sizes, b: Sizes) -> Sizes:
    return _elementwise("Sub", operator.sub, a, b)


@kept_by_fx
def mul(a: Sizes, b: Sizes) -> Sizes:
    return _elementwise("Mul", operator.mul, a, b)


@kept_by_fx
def div(a: Sizes, b: Sizes) -> Sizes:
    return _elementwise("Div", _divide, a, b)


@kept_by_fx
def mod(a: Sizes, b: Sizes, *, fmod: int = 0) -> Sizes:
    return _elementwise("Mod", _remainder if fmod else _modulo, a, b)


@kept_by_fx
def minimum(*values: Sizes) -> Sizes:
    return _all_elementwise("Min", smaller, values)


@kept_by_fx
def maximum(*values: Sizes) -> Sizes:
    return _all_elementwise("Max", larger, values)


def _divide(a: int, b: int) -> int:
    """Towards 0, as ONNX does."""
    if b == 0:
        raise ValueError("Div: the divisor must not be 0")
    if b < 0:
        a, b = -a, -b
    return a // b if known_true(a >= 0) else larger(a, 0) // b - larger(-a, 0) // b


def _modulo(a: int, b: int) -> int:
    """With the sign of the divisor, as Python's."""
    if b == 0:
        raise ValueError("Mod: the divisor must not be 0")
    return a % b


def _remainder(a: int, b: int) -> int:
    """With the sign of the dividend."""
    if b == 0:
        raise ValueError("Mod: the divisor must not be 0")
    return a - b * _divide(a, b)


def _elementwise(op: str, function: Callable[[int, int], int], a: Sizes, b: Sizes) -> Sizes:
    if not isinstance(a, tuple) and not isinstance(b, tuple):
        return _one(op, function, a, b)
    left, right = (value if isinstance(value, tuple) else (value,) for value in (a, b))
    length = len(left) if len(right) == 1 else len(right)
    if len(left) not in (1, length):
        raise ValueError(
            f"{op}: the inputs must have the same length, or one of them length 1, got {len(left)} and {len(right)}"
        )
    return tuple([_one(op, function, left[k % len(left)], right[k % len(right)]) for k in range(length)])


def _one(op: str, function: Callable[[int, int], int], a: int, b: int) -> int:
    result = function(a, b)
    if isinstance(result, int) and not -(2**63) <= result < 2**63:  # else squares of squares have no end
        raise ValueError(f"{op}: the result must fit int64, got {text(result)}")
    return result


def _all_elementwise(op: str, function: Callable[[int, int], int], values: Sequence[Sizes]) -> Sizes:
    result = values[0]
    for value in values[1:]:
        result = _elementwise(op, function, result, value)
    return result
