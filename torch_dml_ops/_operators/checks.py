"""The operators' checks where csrc/ops does not run: for tensors without data, and for a single example of a vmap.

The rules and their sentences are those of csrc/ops (check.h says why there are two), and tests/lib/refusals.py tests
both against one table. Whether `out` overlaps something is overlap.py's.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from torch_dml_ops._sentences.text import Shown, dtype_name, in_full, text
from torch_dml_ops._torch.private import CHECK
from torch_dml_ops._torch.symbols import always_true, quotient

LENGTH_DTYPES = (torch.uint32, torch.uint64, torch.int32, torch.int64)


def difference(required: Sequence[int], given: Sequence[int], except_at: int = -1) -> str:
    """Follows two lists that differ, elsewhere than at index `except_at`, in a sentence: where they first do, unless
    both are shown in full."""
    if len(required) != len(given) or (in_full(required) and in_full(given)):
        return ""
    k = next(k for k, (a, b) in enumerate(zip(required, given, strict=True)) if k != except_at and a != b)
    return f", with {text(given[k])} instead of {text(required[k])} at index {k}"


def require(condition: bool, message: str, *shown: Shown) -> None:
    """Raises `message`, its "%s" replaced by the values, unless the condition holds; values are read only then."""
    _check(condition, lambda: message % tuple(map(text, shown)))


def _raise_unless(condition: bool, message: Callable[[], str]) -> None:
    if not condition:
        raise RuntimeError(message())


_check: Callable[..., None] = _raise_unless if CHECK.missing else CHECK._check


def every_tensor(op: str, *given: Any) -> None:
    """torch lets None pass where a schema has a tensor."""
    require(not any(tensor is None for tensor in given), f"{op}: every tensor must be given, got None")


def rank(op: str, argument: str, tensor: Tensor) -> None:
    require(tensor.dim() >= 1, f"{op}: {argument} must have at least 1 dimension, got a 0-d tensor")


def axis(op: str, axis: int, rank: int) -> None:
    instead = f"; write {axis + rank} instead" if -rank <= axis < 0 else ""
    require(0 <= axis < rank, f"{op}: axis must be from 0 to {rank - 1}, got {axis}{instead}")


def same_device(op: str, name: str, tensor: Tensor, like_name: str, like: Tensor) -> None:
    if tensor.device != like.device:
        way_out = "" if name.startswith("out") else f"; write {name}.to({like_name}.device)"
        raise RuntimeError(
            f"{op}: {name} must be on the device of {like_name}, {like.device}, got {tensor.device}{way_out}"
        )


def same_kind(op: str, name: str, tensor: Tensor, like_name: str, like: Tensor) -> None:
    same_device(op, name, tensor, like_name, like)
    if tensor.dtype != like.dtype:
        way_out = "" if name.startswith("out") else "; convert one of them with to()"
        raise RuntimeError(
            f"{op}: {name} must have the dtype of {like_name}, {dtype_name(like.dtype)}, got "
            f"{dtype_name(tensor.dtype)}{way_out}"
        )


def lengths(op: str, name: str, tensor: Tensor, input: Tensor, of_mask: str) -> None:
    """`of_mask` is the method that makes lengths of a mask."""
    if tensor.dtype not in LENGTH_DTYPES:
        method = of_mask if tensor.dtype == torch.bool else "long()"
        raise RuntimeError(
            f"{op}: {name} must have dtype uint32, uint64, int32 or int64, got {dtype_name(tensor.dtype)}; write "
            f"{name}.{method}"
        )
    same_device(op, name, tensor, "input", input)


def sizes(required: Sequence[int], given: Sequence[int], message: str, *more: Shown) -> None:
    """`message` has a "%s" for the required sizes, for those that are given, for where they differ, and for each of
    `more`."""
    same = len(required) == len(given) and all(a == b for a, b in zip(required, given, strict=True))
    require(same, message, required, given, partial(difference, required, given), *more)


def steps(taken: int, most: int, message: str) -> None:
    """`message` has a "%s" for the least steps that a walk must take, for the most, and for those that are taken."""
    least = torch.sym_min(most, 1)
    for condition in (_is_least(taken, most), taken <= most):
        require(condition, message, least, most, taken)


def _is_least(given: int, most: int) -> bool:
    """Whether it is at least 1, or all, of which torch does not see that this is at least the smaller of it and 1."""
    return always_true(given == most) or given >= torch.sym_min(most, 1)


def window(
    op: str,
    offsets: Sequence[int],
    window: Sequence[int],
    strides: Sequence[int],
    sizes: Sequence[int],
    sized: str,
) -> list[int]:
    """The most steps that the walk can take in every dimension."""
    for name, values in (("window_offsets", offsets), ("window_sizes", window), ("window_strides", strides)):
        require(
            len(values) == len(sizes),
            f"{op}: {name} must have length {len(sizes)}, an entry for each dimension of {sized}, got {len(values)}",
        )
    most = []
    for d, size in enumerate(sizes):
        least = torch.sym_min(size, 1)
        require(strides[d] != 0, f"{op}: window_strides[{d}] must not be 0")
        require(offsets[d] >= 0, f"{op}: window_offsets[{d}] must be at least 0, got %s", offsets[d])
        require(_is_least(window[d], size), f"{op}: window_sizes[{d}] must be at least %s, got %s", least, window[d])
        require(
            offsets[d] + window[d] <= size,
            f"{op}: window_offsets[{d}] + window_sizes[{d}] must be at most %s, the size of {sized} in dimension {d}, "
            "got %s + %s",
            size,
            offsets[d],
            window[d],
        )
        most.append(quotient(window[d] + abs(strides[d]) - 1, abs(strides[d])))
    return most
