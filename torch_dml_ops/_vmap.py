"""Batching rules: the batch becomes dimension 0, and one call of the same operator serves it all."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from torch_dml_ops._checks import (
    check_reverse_subsequences,
    check_slice_grad,
    join_sizes,
    slice1_sizes,
    split_sizes_of_pieces,
)

_ops = torch.ops.torch_dml_ops


def _front(tensor: Tensor, dim: int | None, batch_size: int) -> Tensor:
    """The batch as dimension 0; a tensor without one is shared by the batch, without a copy."""
    return tensor.expand(batch_size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)


def _example(tensor: Tensor, dim: int | None) -> Tensor:
    """One example of the batch, to check the arguments as given: the batch would shift the indices in errors by one."""
    if dim is None:
        return tensor
    sizes = list(tensor.shape)
    del sizes[dim]
    return tensor.new_empty(()).expand(sizes)  # select(dim, 0) would fail on an empty batch


@torch.library.register_vmap("torch_dml_ops::slice1")
def _(
    info: Any,
    in_dims: Sequence[Any],
    input: Tensor,
    window_offsets: Sequence[int],
    window_sizes: Sequence[int],
    window_strides: Sequence[int],
    output_sizes: Sequence[int] | None = None,
) -> tuple[Tensor, int]:
    slice1_sizes(_example(input, in_dims[0]), window_offsets, window_sizes, window_strides, output_sizes)
    n = info.batch_size
    sizes = None if output_sizes is None else [n, *output_sizes]
    x = _front(input, in_dims[0], n)
    return _ops.slice1.default(x, [0, *window_offsets], [n, *window_sizes], [1, *window_strides], sizes), 0


@torch.library.register_vmap("torch_dml_ops::slice_grad")
def _(
    info: Any,
    in_dims: Sequence[Any],
    grad_output: Tensor,
    input_sizes: Sequence[int],
    window_offsets: Sequence[int],
    window_sizes: Sequence[int],
    window_strides: Sequence[int],
) -> tuple[Tensor, int]:
    check_slice_grad(_example(grad_output, in_dims[0]), input_sizes, window_offsets, window_sizes, window_strides)
    n = info.batch_size
    g = _front(grad_output, in_dims[0], n)
    window = [0, *window_offsets], [n, *window_sizes], [1, *window_strides]
    return _ops.slice_grad.default(g, [n, *input_sizes], *window), 0


@torch.library.register_vmap("torch_dml_ops::split")
def _(
    info: Any, in_dims: Sequence[Any], input: Tensor, split_sizes: Sequence[int], axis: int
) -> tuple[list[Tensor], list[int]]:
    split_sizes_of_pieces(_example(input, in_dims[0]), split_sizes, axis)
    pieces = _ops.split.default(_front(input, in_dims[0], info.batch_size), split_sizes, axis + 1)
    return pieces, [0] * len(pieces)


@torch.library.register_vmap("torch_dml_ops::join")
def _(info: Any, in_dims: Sequence[Any], inputs: Sequence[Tensor], axis: int) -> tuple[Tensor, int]:
    join_sizes([_example(t, dim) for t, dim in zip(inputs, in_dims[0], strict=True)], axis)
    whole = [_front(t, dim, info.batch_size) for t, dim in zip(inputs, in_dims[0], strict=True)]
    return _ops.join.default(whole, axis + 1), 0


@torch.library.register_vmap("torch_dml_ops::reverse_subsequences")
def _(info: Any, in_dims: Sequence[Any], input: Tensor, sequence_lengths: Tensor, axis: int) -> tuple[Tensor, int]:
    check_reverse_subsequences(_example(input, in_dims[0]), _example(sequence_lengths, in_dims[1]), axis)
    x, lengths = (
        _front(t, dim, info.batch_size) for t, dim in zip((input, sequence_lengths), in_dims[:2], strict=True)
    )
    return _ops.reverse_subsequences.default(x, lengths, axis + 1), 0


# torch.autograd.grad(is_grads_batched=True) uses an older vmap, which cannot batch operators on lists of tensors by
# itself. It can batch torch's own functions.
_library = torch.library.Library("torch_dml_ops", "IMPL")


def _split_batched(input: Tensor, split_sizes: Sequence[int], axis: int) -> list[Tensor]:
    split_sizes_of_pieces(input, split_sizes, axis)
    return [piece.clone() for piece in torch.split(input, list(split_sizes), axis)]


def _join_batched(inputs: Sequence[Tensor], axis: int) -> Tensor:
    join_sizes(inputs, axis)
    return torch.cat(list(inputs), axis)


_library.impl("split", _split_batched, "Batched")
_library.impl("join", _join_batched, "Batched")
