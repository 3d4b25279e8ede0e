"""The order of a tensor's dimensions in memory, which results take from their inputs.

The same rules as new_dense in csrc/ops/layout.cpp, for tensors without data.
"""

import sys
from collections.abc import Sequence
from functools import cmp_to_key
from itertools import takewhile

import torch
from torch import Tensor

from torch_dml_ops._operators.checks import require
from torch_dml_ops._torch.symbols import known_true


def _at_least(a: int, b: int) -> bool:
    """Whether a >= b, or if that is unknown, as for strides (n, 1) where n depends on data, a is a multiple of b."""
    try:
        return known_true(a >= b) or (not known_true(a < b) and known_true(a % b == 0))
    except ZeroDivisionError:  # b is 0 for the sizes of the example by which a program is exported
        return False


def memory_order(tensor: Tensor) -> list[int]:
    """Dimensions, outermost in memory first. Of two with equal strides, the one of size 1 counts as the inner one."""
    sizes, strides = tensor.shape, tensor.stride()

    def compare(a: int, b: int) -> int:
        keys = sizes if known_true(strides[a] == strides[b]) else strides
        if known_true(keys[a] == keys[b]):
            return 0
        return -1 if _at_least(keys[a], keys[b]) else 1

    return sorted(range(tensor.dim()), key=cmp_to_key(compare))


def _dense_in(order: Sequence[int], tensor: Tensor) -> bool:
    expected = 1
    for d in reversed(order):
        if not (known_true(tensor.shape[d] == 1) or known_true(tensor.stride(d) == expected)):
            return False
        expected *= torch.sym_max(tensor.shape[d], 1)
    return True


def shared_order(tensors: Sequence[Tensor]) -> list[int]:
    """The memory order of the first tensor in whose order all of them are dense, or the contiguous order.

    The tensors have equal sizes except in one dimension, and there none is 0.
    """
    # A dimension of size 1 can be anywhere in an order, so the tensor with the fewest of them fits the fewest orders.
    # Its dimensions larger than 1 include those of every other tensor. So if all are dense in some order, they are
    # dense in the order of that tensor.
    widest = (
        min(tensors, key=lambda t: sum(known_true(size == 1) for size in t.shape)) if len(tensors) > 1 else tensors[0]
    )
    order = memory_order(widest)
    if not all(_dense_in(order, t) for t in tensors):
        return list(range(widest.dim()))
    before = takewhile(lambda t: t is not widest, tensors)
    return next((own for own in map(memory_order, before) if _dense_in(own, widest)), order)


def dense_strides(op: str, sizes: Sequence[int], order_of: Sequence[Tensor]) -> tuple[int, ...]:
    """The strides of a new dense tensor: its dimensions, as many as each of `order_of` has, are in the memory order in
    which all of these are dense, if there is one; otherwise it is contiguous."""
    strides: list[int] = [0] * len(sizes)
    stride = 1
    for d in reversed(shared_order(order_of)):
        _require_fits(op, sizes, not isinstance(stride, int) or stride <= sys.maxsize)
        strides[d] = stride
        stride *= torch.sym_max(sizes[d], 1)
    fits = not isinstance(stride, int) or stride <= sys.maxsize // order_of[0].element_size()
    _require_fits(op, sizes, _is_empty(sizes) or fits)
    return tuple(strides)


def new_dense(op: str, sizes: Sequence[int], order_of: Sequence[Tensor]) -> Tensor:
    """A new tensor with these strides, of the dtype and device of the first of `order_of`."""
    strides = dense_strides(op, sizes, order_of)
    try:
        return order_of[0].new_empty_strided(tuple(sizes), strides)
    except RuntimeError:
        _require_fits(op, sizes, not _is_empty(sizes))  # torch multiplies the sizes before the 0: that overflows
        raise


def _is_empty(sizes: Sequence[int]) -> bool:
    return any(isinstance(size, int) and size == 0 for size in sizes)


def _require_fits(op: str, sizes: Sequence[int], fits: bool) -> None:
    if fits:
        return
    wrong = (
        "be empty, but its other sizes multiply to more than 2^63 - 1"
        if _is_empty(sizes)
        else "have more than 2^63 - 1 bytes"
    )
    require(False, f"{op}: a result of sizes %s would {wrong}", sizes)
