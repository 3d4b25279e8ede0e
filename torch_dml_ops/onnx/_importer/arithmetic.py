"""ONNX's operators that sequence lengths and indices may go through on their way, on tensors."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from torch_dml_ops._sentences.text import dtype_name, shown
from torch_dml_ops._torch.symbols import known_true
from torch_dml_ops.onnx._importer.inputs import (
    as_dtype,
    check_broadcast,
    check_one_dtype,
    check_size,
    is_whole,
    kept_by_fx,
    larger,
    may_mix,
    number,
    signed,
)


def is_exact(dtype: torch.dtype, to: torch.dtype) -> bool:
    """Whether floating-point numbers hold those of `dtype`: zeros of bfloat16 may be made of bytes."""
    return dtype in (torch.uint8, torch.int8) and to.is_floating_point and to.itemsize > 1


@kept_by_fx
def cast(input: Tensor, *, to: torch.dtype) -> Tensor:
    for name, dtype in () if input.dtype == to else (("input", input.dtype), ("to", to)):
        if not (is_whole(dtype) or (name == "to" and is_exact(input.dtype, dtype))):
            raise ValueError(f"Cast: {name} must have a dtype of whole numbers, got {dtype_name(dtype)}")
    return input.to(to)


@kept_by_fx
def clip(input: Tensor, min: Tensor | None = None, max: Tensor | None = None) -> Tensor:
    if not is_whole(input.dtype):
        raise ValueError(f"Clip: input must have a dtype of whole numbers, got {dtype_name(input.dtype)}")
    limits = {"min": min, "max": max}
    check_one_dtype("Clip", "input", input, limits)
    for name, limit in limits.items():
        if limit is not None and (limit.dim() > 1 or not known_true(limit.numel() == 1)):
            raise ValueError(f"Clip: {name} must be one number, got {shown(limit)}")
    result = _ordered(input)
    if min is not None:
        result = torch.maximum(result, _ordered(min))
    if max is not None:
        result = torch.minimum(result, _ordered(max))
    return (result ^ _HIGHEST_BIT).view(input.dtype) if input.dtype == torch.uint64 else result.to(input.dtype)


@kept_by_fx
def less(A: Tensor, B: Tensor) -> Tensor:
    _check_numbers("Less", A, B)
    return torch.lt(_ordered(A), _ordered(B))


@kept_by_fx
def add(A: Tensor, B: Tensor) -> Tensor:
    return _computed("Add", torch.add, A, B)


@kept_by_fx
def mul(A: Tensor, B: Tensor) -> Tensor:
    return _computed("Mul", torch.mul, A, B)


@kept_by_fx
def sub(A: Tensor, B: Tensor) -> Tensor:
    return _computed("Sub", torch.sub, A, B)


@kept_by_fx
def where(condition: Tensor, X: Tensor, Y: Tensor) -> Tensor:
    if condition.dtype != torch.bool:
        raise ValueError(f"Where: condition must have dtype bool, got {dtype_name(condition.dtype)}")
    check_broadcast("Where", condition, X, Y)
    if may_mix(X, Y):
        return torch.where(condition, X, Y)
    check_one_dtype("Where", "X", X, {"Y": Y})
    return as_dtype(X.dtype, torch.where(condition, signed(X), signed(Y)))


@kept_by_fx
def range_(
    start: Tensor | int,
    limit: Tensor | int,
    delta: Tensor | int,
    *,
    like: Tensor | None = None,
) -> Tensor:
    """`like` has the dtype and the device of a `start` that is a number here: a constant, or a size."""
    begin, end, step = number("Range: start", start), number("Range: limit", limit), number("Range: delta", delta)
    if known_true(step == 0):
        raise ValueError("Range: delta must not be 0")
    count = larger((end - begin + step + (1 if step < 0 else -1)) // step, 0)
    check_size("Range", [count], 8)
    given = {"start": start if like is None else like, "limit": limit, "delta": delta}
    tensors = {name: value for name, value in given.items() if isinstance(value, Tensor)}
    first, of_first = next(iter(tensors.items()))
    check_one_dtype("Range", first, of_first, tensors)
    return (torch.arange(count, device=of_first.device) * step + begin).to(of_first.dtype)


def _computed(op: str, function: Callable[[Tensor, Tensor], Tensor], A: Tensor, B: Tensor) -> Tensor:
    _check_numbers(op, A, B)
    return as_dtype(A.dtype, function(signed(A), signed(B)))


def _check_numbers(op: str, A: Tensor, B: Tensor) -> None:
    if not is_whole(A.dtype):
        raise ValueError(f"{op}: inputs must have a dtype of whole numbers, got {dtype_name(A.dtype)}")
    check_one_dtype(op, "A", A, {"B": B})
    check_broadcast(op, A, B)


_HIGHEST_BIT = -(2**63)


def _ordered(tensor: Tensor) -> Tensor:
    """int64 in the same order: torch does not compare uint64."""
    return tensor.view(torch.int64) ^ _HIGHEST_BIT if tensor.dtype == torch.uint64 else tensor.to(torch.int64)
