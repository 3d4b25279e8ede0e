"""The operators in plain torch: index arithmetic from DirectML's texts, and torch's own differentiable functions.

They have the signatures of ``torch_dml_ops``, so that a test runs one lambda with either of the two.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode


def _walk(device: torch.device, offset: int, size: int, stride: int, count: int) -> Tensor:
    """The indices that are read: from the window's first on, or from its last where the stride is negative."""
    first = offset if stride > 0 else offset + size - 1
    return first + stride * torch.arange(count, device=device)


def slice1(
    x: Tensor,
    offsets: Sequence[int],
    sizes: Sequence[int],
    strides: Sequence[int],
    output_sizes: Sequence[int] | None = None,
) -> Tensor:
    if output_sizes is None:
        output_sizes = [1 + (size - 1) // abs(stride) for size, stride in zip(sizes, strides, strict=True)]
    for d, step in enumerate(zip(offsets, sizes, strides, output_sizes, strict=True)):
        x = x.index_select(d, _walk(x.device, *step))
    return x


def slice_grad(
    g: Tensor, input_sizes: Sequence[int], offsets: Sequence[int], sizes: Sequence[int], strides: Sequence[int]
) -> Tensor:
    for d, step in enumerate(zip(offsets, sizes, strides, g.shape, strict=True)):
        zeros = g.new_zeros([*g.shape[:d], input_sizes[d], *g.shape[d + 1 :]])
        g = zeros.index_copy(d, _walk(g.device, *step), g)
    return g


def split(x: Tensor, split_sizes: Sequence[int], axis: int) -> list[Tensor]:
    return [piece.clone() for piece in x.split(split_sizes, axis)]


def join(xs: Sequence[Tensor], axis: int) -> Tensor:
    return torch.cat(list(xs), axis)


def reverse_subsequences(x: Tensor, lengths: Tensor, axis: int) -> Tensor:
    steps = torch.arange(x.shape[axis], device=x.device).reshape([-1 if d == axis else 1 for d in range(x.dim())])
    lengths = lengths.long()
    return x.gather(axis, torch.where(steps < lengths, lengths.clamp(max=x.shape[axis]) - 1 - steps, steps))


def reverse_sequence(x: Tensor, lengths: Tensor, axis: int) -> Tensor:
    """With a length for each index of dimension 0."""
    rows = [1 if d == axis else n for d, n in enumerate(x.shape)]
    return reverse_subsequences(x, lengths.reshape([-1] + [1] * (x.dim() - 1)).expand(rows), axis)


class index:
    """By advanced indices into the flattened tensor."""

    def __init__(self, x: Tensor) -> None:
        self.x = x

    def _places(self, index: Any) -> Tensor:
        numbers = np.arange(self.x.numel()).reshape(self.x.shape)
        return torch.from_numpy(np.array(numbers[index])).to(self.x.device)

    def __getitem__(self, index: Any) -> Tensor:
        return self.x.reshape(-1)[self._places(index)]

    def __setitem__(self, index: Any, value: Tensor) -> None:
        changed = self.x.reshape(-1).index_put((self._places(index),), value)
        self.x.copy_(changed.reshape(self.x.shape))


class negative_steps(TorchFunctionMode):
    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is Tensor.__getitem__:
            return index(args[0])[args[1]]
        if function is Tensor.__setitem__:
            return index(args[0]).__setitem__(*args[1:])
        return function(*args, **(kwargs or {}))
