"""The sizes that an ONNX graph computes from those of its tensors: whole numbers instead of tensors.

A number stands for a 0-d tensor of int64 or int32, and a tuple for a 1-d one; 0 and 1 stand for truth values. So sizes
stay symbolic under torch.compile and torch.export, and nothing is read back from a GPU.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import reduce
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor

from torch_dml_ops._sentences.text import shown, text
from torch_dml_ops._torch.symbols import always_true, known_true
from torch_dml_ops.onnx._importer.inputs import Numbers, axes_of, check_length, kept_by_fx, larger, numbers, smaller
from torch_dml_ops.onnx._importer.moving import pieces_of, slices_of

Sizes = int | tuple[int, ...]

# A list that is joined with itself forty times has 2 ** 40 numbers.
MOST_SIZES = 2**20


@kept_by_fx
def shape(data: Tensor | Sizes, *, start: int = 0, end: int | None = None) -> tuple[int, ...]:
    if isinstance(data, Tensor):
        return tuple(data.shape)[start:end]
    return ((len(data),) if isinstance(data, tuple) else ())[start:end]


@kept_by_fx
def size(data: Tensor | Sizes) -> int:
    if isinstance(data, Tensor):
        return data.numel()
    return len(data) if isinstance(data, tuple) else 1


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
def cast(input: Sizes, *, to: torch.dtype) -> Sizes:
    return _elementwise("Cast", _is_not_0, input) if to == torch.bool else input


@kept_by_fx
def constant_of_shape(length: tuple[int], *, value: int) -> tuple[int, ...]:
    return (value,) * length[0]


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
    _check_length("Concat", sum(map(len, inputs)))
    return tuple([number for numbers in inputs for number in numbers])


@kept_by_fx
def tile(input: tuple[int, ...], repeats: Numbers) -> tuple[int, ...]:
    counts = numbers("Tile: repeats", repeats)
    check_length("Tile: repeats", counts, [0])
    if counts[0] < 0:
        raise ValueError(f"Tile: repeats[0] must be at least 0, got {counts[0]}")
    _check_length("Tile", len(input) * counts[0])
    return input * int(counts[0])


@kept_by_fx
def expand(input: Sizes, shape: tuple[int, ...]) -> Sizes:
    values = input if isinstance(input, tuple) else (input,)
    if not shape:
        return input
    (length,) = shape
    if known_true(length < 0):
        raise ValueError(f"Expand: shape[0] must be at least 0, got {text(length)}")
    if len(values) != 1:
        if not known_true(length == 1) and not known_true(length == len(values)):
            raise ValueError(f"Expand: shape must broadcast with {len(values)} sizes, got {text(shape)}")
        return values
    _check_length("Expand", length)
    return values * int(length)


def _check_length(op: str, length: int) -> None:
    if length > MOST_SIZES:
        raise ValueError(f"{op}: output must hold at most {MOST_SIZES} sizes, got {length}")


@kept_by_fx
def split(input: tuple[int, ...], split: Numbers | None = None, **attributes: Any) -> list[tuple[int, ...]]:
    _, pieces = pieces_of([len(input)], split, **attributes)
    return [input[start:end] for start, end in pairwise(accumulate(pieces, initial=0))]


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
def abs_(X: Sizes) -> Sizes:
    return _elementwise("Abs", _magnitude, X)


@kept_by_fx
def neg(X: Sizes) -> Sizes:
    return _elementwise("Neg", operator.neg, X)


@kept_by_fx
def minimum(*values: Sizes) -> Sizes:
    return _elementwise("Min", _least, *values)


@kept_by_fx
def maximum(*values: Sizes) -> Sizes:
    return _elementwise("Max", _most, *values)


@kept_by_fx
def equal(A: Sizes, B: Sizes) -> Sizes:
    return _elementwise("Equal", _is_equal, A, B)


@kept_by_fx
def greater(A: Sizes, B: Sizes) -> Sizes:
    return _elementwise("Greater", _is_less, B, A)


@kept_by_fx
def less(A: Sizes, B: Sizes) -> Sizes:
    return _elementwise("Less", _is_less, A, B)


@kept_by_fx
def greater_or_equal(A: Sizes, B: Sizes) -> Sizes:
    return not_(less(A, B))


@kept_by_fx
def less_or_equal(A: Sizes, B: Sizes) -> Sizes:
    return not_(greater(A, B))


@kept_by_fx
def not_(X: Sizes) -> Sizes:
    return _elementwise("Not", _negated, X)


@kept_by_fx
def and_(A: Sizes, B: Sizes) -> Sizes:
    return _elementwise("And", smaller, A, B)


@kept_by_fx
def or_(A: Sizes, B: Sizes) -> Sizes:
    return _elementwise("Or", larger, A, B)


@kept_by_fx
def where(condition: Sizes, X: Sizes, Y: Sizes) -> Sizes:
    return _elementwise("Where", _chosen, condition, X, Y)


@kept_by_fx
def reduce_prod(data: Sizes, axes: Numbers | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Sizes:
    axes = axes_of("ReduceProd: axes", () if axes is None else axes, int(isinstance(data, tuple)))
    if not isinstance(data, tuple) or (not axes and noop_with_empty_axes == 1):
        return data
    product = 1
    for size in data:
        product = _one("ReduceProd", operator.mul, product, size)
    return (product,) if keepdims == 1 else product  # as in ONNX Runtime


def _least(*values: int) -> int:
    return reduce(smaller, values)


def _most(*values: int) -> int:
    return reduce(larger, values)


# Of symbols nothing is asked that torch takes for granted, as it does that sizes are at least 2: a program that was
# exported may run with others.


def _is_equal(a: int, b: int) -> int:
    if (always_true(a < 0) and always_true(b >= 0)) or (always_true(b < 0) and always_true(a >= 0)):
        return 0  # as the -1 for a size that stays as it is, which is no term of the result then
    return 1 - _is_not_0(a - b)


def _magnitude(value: int) -> int:
    return larger(value, -value)


def _negated(truth: int) -> int:
    return 1 - truth


def _is_not_0(value: int) -> int:
    return smaller(_magnitude(value), 1)


def _is_less(a: int, b: int) -> int:
    return smaller(larger(b - a, 0), 1)


def _chosen(condition: int, x: int, y: int) -> int:
    return y + condition * (x - y)


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


def _elementwise(op: str, function: Callable[..., int], *values: Sizes) -> Sizes:
    lists = [value if isinstance(value, tuple) else (value,) for value in values]
    lengths = [len(numbers) for numbers in lists]
    length = next((length for length in lengths if length != 1), 1)
    if any(other not in (1, length) for other in lengths):
        got = " and ".join(map(str, lengths))
        raise ValueError(f"{op}: the inputs must have the same length, or one of them length 1, got {got}")
    results = tuple([_one(op, function, *[numbers[k % len(numbers)] for numbers in lists]) for k in range(length)])
    return results if any(isinstance(value, tuple) for value in values) else results[0]


def _one(op: str, function: Callable[..., int], *numbers: int) -> int:
    result = function(*numbers)
    beyond = isinstance(result, int) and (known_true(result < -(2**63)) or known_true(result >= 2**63))
    if beyond:  # else squares of squares have no end
        raise ValueError(f"{op}: the result must fit int64, got {text(result)}")
    return result
