"""How the dimensions of a tensor lie in memory: the layout that results take over from inputs.

The same rules as new_dense in csrc/ops/check.cpp, for shapes without data.
"""

from collections.abc import Sequence
from functools import cmp_to_key

import torch
from torch import Tensor


def _has_unknown_extent(tensor: Tensor) -> bool:
    """Whether a size depends on data (the rows that a mask selects, say), so that sizes cannot be compared."""
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    return bool(free_unbacked_symbols([*tensor.shape, *tensor.stride()]))


def memory_order(tensor: Tensor) -> list[int]:
    """Dimensions, outermost in memory first. Of two with equal strides, the one of size 1 counts as the inner one."""
    sizes, strides = tensor.shape, tensor.stride()

    def compare(a: int, b: int) -> int:
        if strides[a] != strides[b]:
            return -1 if strides[a] > strides[b] else 1
        if sizes[a] != sizes[b]:
            return -1 if sizes[a] > sizes[b] else 1
        return 0

    return sorted(range(tensor.dim()), key=cmp_to_key(compare))


def _dense_in(order: Sequence[int], tensor: Tensor) -> bool:
    expected = 1
    for d in reversed(order):
        if tensor.shape[d] != 1 and tensor.stride(d) != expected:
            return False
        expected *= tensor.shape[d]
    return tensor.numel() != 0


def new_dense(sizes: Sequence[int], order_of: Sequence[Tensor]) -> Tensor:
    """A new tensor, dense, its dimensions in memory in the order that `order_of` share, else contiguous."""
    like = order_of[0]
    order = list(range(like.dim()))
    if not any(isinstance(n, torch.SymInt) and _has_unknown_extent(t) for t in order_of for n in t.shape):
        for candidate in order_of:
            shared = memory_order(candidate)
            if all(_dense_in(shared, t) for t in order_of):
                order = shared
                break
    strides: list[int] = [0] * len(order)
    stride = 1
    for d in reversed(order):
        strides[d] = stride
        stride *= torch.sym_max(sizes[d], 1)
    return like.new_empty_strided(tuple(sizes), tuple(strides))
