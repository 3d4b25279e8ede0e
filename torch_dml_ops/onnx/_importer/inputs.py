"""What ONNX's operators share: how they read numbers and axes, and what of sizes and dtypes they check."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from math import prod
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor
from torch.overrides import handle_torch_function

from torch_dml_ops._sentences.arguments import is_proxy
from torch_dml_ops._sentences.text import dtype_name, shown, text
from torch_dml_ops._torch.symbols import known_true

SINGLE = {"start", "limit", "delta", "k", "position"}  # inputs that are one whole number

# The dtypes of those that are lists, other than of whole numbers.
WHOLE = torch.int32, torch.int64
LISTS = {"scales": (torch.float32,), "condition": (torch.bool,)}

Numbers = Tensor | Sequence[int]
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def kept_by_fx(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """torch.fx records a call of the function as it is; so it does when it restores a module that was pickled."""

    @wraps(function)
    def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        for value in (*args, *kwargs.values()):
            if is_proxy(value):
                result: Result = handle_torch_function(call, (value,), *args, **kwargs)
                return result
        return function(*args, **kwargs)

    return call


def numbers(name: str, value: Numbers) -> Sequence[int]:
    """The list that a tensor holds. From a GPU it has to be copied, and torch.compile breaks the graph there."""
    if isinstance(value, (list, tuple, range)):
        return value
    dtypes = LISTS.get(name.split()[-1], WHOLE)
    if isinstance(value, Tensor) and value.dim() == 1 and value.dtype in dtypes:
        values: list[int] = value.tolist()
        return values
    got = f"a {value.dim()}-d tensor of {dtype_name(value.dtype)}" if isinstance(value, Tensor) else shown(value)
    raise ValueError(f"{name} must be a 1-d tensor of {' or '.join(map(dtype_name, dtypes))}, got {got}")


def check_length(name: str, values: Sequence[float], axes: Sequence[int]) -> None:
    if len(values) != len(axes):
        raise ValueError(f"{name} must have length {len(axes)}, one for each axis, got {len(values)}")


def larger(a: int, b: int) -> int:
    """torch.sym_max, which torch.compile of torch 2.11 cannot trace of two ints."""
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else torch.sym_max(a, b)


def smaller(a: int, b: int) -> int:
    """torch.sym_min, in the same way."""
    return -larger(-a, -b)


def number(name: str, value: Tensor | int | tuple[int, ...]) -> int:
    """Read as lists are, which may be of one number."""
    if isinstance(value, int | torch.SymInt):
        return value
    if isinstance(value, tuple):
        if len(value) != 1:
            raise ValueError(f"{name} must be one whole number, got {shown(value)}")
        return value[0]
    if value.dim() > 1 or not known_true(value.numel() == 1) or not is_whole(value.dtype):
        raise ValueError(f"{name} must be one whole number, got {shown(value)}, of dtype {dtype_name(value.dtype)}")
    return int(value)


def constant_numbers(name: str, value: Any) -> Any:
    """What such an input is where it is a constant."""
    if name.split()[-1] in SINGLE:
        return number(name, value)
    return tuple(numbers(name, value))


def axis_of(name: str, axis: int, rank: int) -> int:
    """The axis from 0 on; ONNX's may be negative."""
    if not -rank <= axis < rank:
        rule = f"from {-rank} to {rank - 1}" if rank else "an axis of the input, which is 0-d and has none"
        raise ValueError(f"{name} must be {rule}, got {shown(axis)}")
    return axis + rank if axis < 0 else axis


def axes_of(name: str, axes: Numbers, rank: int) -> list[int]:
    """Without repetitions."""
    chosen: list[int] = []
    for k, axis in enumerate(numbers(name, axes)):
        d = axis_of(f"{name}[{k}]", axis, rank)
        if d in chosen:
            raise ValueError(f"{name} must differ from one another, got {axis} for axes[{k}] and for one before it")
        chosen.append(d)
    return chosen


def check_size(op: str, sizes: Sequence[int], itemsize: int) -> None:
    """Before torch multiplies them in 64 bits."""
    if any(known_true(size >= 2**63) for size in sizes) or known_true(prod(sizes) * itemsize >= 2**63):
        raise ValueError(f"{op}: output must have less than 2**63 bytes, got sizes {text(sizes)}")


def may_broadcast(*shapes: Sequence[int]) -> bool:
    """Whether they broadcast, or may for some values of symbolic sizes."""
    return all(
        not known_true(m != n) or known_true(m == 1) or known_true(n == 1)
        for k, shape in enumerate(shapes)
        for other in shapes[:k]
        for m, n in zip(reversed(shape), reversed(other), strict=False)
    )


def check_broadcast(op: str, *tensors: Tensor) -> None:
    sizes = [tensor.shape for tensor in tensors]
    if not may_broadcast(*sizes):
        raise ValueError(f"{op}: inputs must have sizes that broadcast, got {' and '.join(map(text, sizes))}")


def check_one_dtype(op: str, first: str, like: Tensor, others: Mapping[str, Tensor | None]) -> None:
    """Where ONNX has them of one type."""
    for name, tensor in others.items():
        if tensor is not None and tensor.dtype != like.dtype:
            wanted, given = dtype_name(like.dtype), dtype_name(tensor.dtype)
            raise ValueError(f"{op}: {name} must have dtype {wanted}, as {first} has, got {given}")


def may_mix(*tensors: Tensor) -> bool:
    """Whether torch computes with them as one type: of floating-point numbers, where a module was converted in part."""
    return all(tensor.is_floating_point() and tensor.itemsize > 1 for tensor in tensors)


_SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}


def signed(tensor: Tensor) -> Tensor:
    """The same bits as signed numbers: torch has fewer operators for the larger unsigned ones."""
    return as_dtype(_SIGNED.get(tensor.dtype, tensor.dtype), tensor)


def as_dtype(dtype: torch.dtype, tensor: Tensor) -> Tensor:
    return tensor if tensor.dtype == dtype else tensor.view(dtype)  # which ONNX cannot have


def is_whole(dtype: torch.dtype) -> bool:
    return not (dtype.is_floating_point or dtype.is_complex or dtype == torch.bool)
