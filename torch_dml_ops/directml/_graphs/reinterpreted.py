"""Memory that one description wrote and another one reads."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_dml_ops.directml.tensor_desc import TensorDesc, packed_strides


def same_elements(a: TensorDesc, b: TensorDesc) -> bool:
    """Whether both find the same elements in the same places."""
    strides = zip(a.sizes, a.effective_strides, b.effective_strides, strict=False)
    return (
        a.data_type == b.data_type
        and tuple(a.sizes) == tuple(b.sizes)
        and all(size == 1 or stride == other for size, stride, other in strides)
    )


def _without_repeats(desc: TensorDesc) -> tuple[int, ...]:
    """The sizes without what a stride of 0 repeats: they are 1 there."""
    return tuple(1 if stride == 0 else n for n, stride in zip(desc.sizes, desc.effective_strides, strict=True))


def can_be_laid_out(desc: TensorDesc) -> bool:
    """Whether the elements of a valid description are apart, not counting those that a stride of 0 repeats."""
    once = TensorDesc(desc.data_type, _without_repeats(desc), strides=desc.effective_strides)
    return not any(once.violations(written=True))


class Reinterpretation:
    """Reads the memory of a tensor that is described by ``source`` as ``target`` describes it.

    Made of differentiable operations; only where the data types differ no derivative passes. What ``source`` leaves
    between and behind its elements is 0.
    """

    def __init__(self, source: TensorDesc, target: TensorDesc) -> None:
        self._sizes, self._strides = _without_repeats(source), source.effective_strides
        self._items, self._item_size = source.items_up_to_last, source.data_type.size_in_bytes
        order = sorted(range(len(self._sizes)), key=lambda d: -self._strides[d])
        sizes = [self._sizes[d] for d in order]
        places = zip(sizes, packed_strides(sizes), (self._strides[d] for d in order), strict=True)
        dense = all(size == 1 or packed == stride for size, packed, stride in places)
        self._order = order if dense else None  # of the dimensions in memory, which then has no gaps
        self._dtype, self._bytes = target.data_type.dtype, target.items_up_to_last * target.data_type.size_in_bytes
        self._target = tuple(target.sizes), target.effective_strides

    def __call__(self, tensor: Tensor) -> Tensor:
        memory = self._memory(tensor)
        count = -(-self._bytes // self._item_size)
        if count > self._items:
            memory = torch.cat([memory, memory.new_zeros(count - self._items)])
        if memory.dtype != self._dtype:
            # A copy, as the tensor may begin where items of another size cannot.
            memory = memory.new_empty(count).copy_(memory[:count]).view(self._dtype)
        return memory.as_strided(*self._target)

    def _memory(self, tensor: Tensor) -> Tensor:
        """1-D, up to the last element."""
        for d, size in enumerate(self._sizes):
            if size == 1:
                tensor = tensor.narrow(d, 0, 1)
        if self._order is not None:
            return tensor.permute(self._order).reshape(-1).contiguous()  # it may be a view with steps
        memory = tensor.new_zeros(self._items)
        memory.as_strided(self._sizes, self._strides).copy_(tensor)
        return memory
