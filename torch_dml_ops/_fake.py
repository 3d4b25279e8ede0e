"""Shapes and layouts without data, for torch.compile, torch.export and tensors on the device "meta"."""

from collections.abc import Sequence

import torch
from torch import Tensor

from torch_dml_ops._checks import (
    check_out,
    check_reverse_subsequences,
    check_slice_grad,
    join_sizes,
    require,
    slice1_sizes,
    split_sizes_of_pieces,
)
from torch_dml_ops._layout import new_dense
from torch_dml_ops._overlap import check_memory


@torch.library.register_fake("torch_dml_ops::slice1")
def _(
    input: Tensor,
    window_offsets: Sequence[int],
    window_sizes: Sequence[int],
    window_strides: Sequence[int],
    output_sizes: Sequence[int] | None = None,
) -> Tensor:
    return new_dense("slice1", slice1_sizes(input, window_offsets, window_sizes, window_strides, output_sizes), [input])


@torch.library.register_fake("torch_dml_ops::slice1.out")
def _(
    input: Tensor,
    window_offsets: Sequence[int],
    window_sizes: Sequence[int],
    window_strides: Sequence[int],
    output_sizes: Sequence[int] | None = None,
    *,
    out: Tensor,
) -> None:
    sizes = slice1_sizes(input, window_offsets, window_sizes, window_strides, output_sizes)
    check_out("slice1", "out", out, sizes, "input", input)
    check_memory("slice1", [("out", out)], [("input", input)])


@torch.library.register_fake("torch_dml_ops::slice_grad")
def _(
    grad_output: Tensor,
    input_sizes: Sequence[int],
    window_offsets: Sequence[int],
    window_sizes: Sequence[int],
    window_strides: Sequence[int],
) -> Tensor:
    check_slice_grad(grad_output, input_sizes, window_offsets, window_sizes, window_strides)
    return new_dense("slice_grad", input_sizes, [grad_output])


@torch.library.register_fake("torch_dml_ops::slice_grad.out")
def _(
    grad_output: Tensor,
    input_sizes: Sequence[int],
    window_offsets: Sequence[int],
    window_sizes: Sequence[int],
    window_strides: Sequence[int],
    *,
    out: Tensor,
) -> None:
    check_slice_grad(grad_output, input_sizes, window_offsets, window_sizes, window_strides)
    check_out("slice_grad", "out", out, input_sizes, "grad_output", grad_output)
    check_memory("slice_grad", [("out", out)], [("grad_output", grad_output)])


@torch.library.register_fake("torch_dml_ops::split")
def _(input: Tensor, split_sizes: Sequence[int], axis: int) -> list[Tensor]:
    return [new_dense("split", sizes, [input]) for sizes in split_sizes_of_pieces(input, split_sizes, axis)]


@torch.library.register_fake("torch_dml_ops::split.out")
def _(input: Tensor, split_sizes: Sequence[int], axis: int, *, out: Sequence[Tensor]) -> None:
    pieces = split_sizes_of_pieces(input, split_sizes, axis)
    require(
        len(out) == len(pieces),
        f"split: out must have length {len(pieces)}, a tensor for each of split_sizes, got {len(out)}",
    )
    for k, (tensor, sizes) in enumerate(zip(out, pieces, strict=True)):
        check_out("split", f"out[{k}]", tensor, sizes, "input", input)
    check_memory("split", [(f"out[{k}]", tensor) for k, tensor in enumerate(out)], [("input", input)])


@torch.library.register_fake("torch_dml_ops::join")
def _(inputs: Sequence[Tensor], axis: int) -> Tensor:
    return new_dense("join", join_sizes(inputs, axis), inputs)


@torch.library.register_fake("torch_dml_ops::join.out")
def _(inputs: Sequence[Tensor], axis: int, *, out: Tensor) -> None:
    check_out("join", "out", out, join_sizes(inputs, axis), "inputs[0]", inputs[0])
    check_memory("join", [("out", out)], [(f"inputs[{k}]", tensor) for k, tensor in enumerate(inputs)])


@torch.library.register_fake("torch_dml_ops::reverse_subsequences")
def _(input: Tensor, sequence_lengths: Tensor, axis: int) -> Tensor:
    check_reverse_subsequences(input, sequence_lengths, axis)
    return new_dense("reverse_subsequences", input.shape, [input])


@torch.library.register_fake("torch_dml_ops::reverse_subsequences.out")
def _(input: Tensor, sequence_lengths: Tensor, axis: int, *, out: Tensor) -> None:
    check_reverse_subsequences(input, sequence_lengths, axis)
    check_out("reverse_subsequences", "out", out, input.shape, "input", input)
    check_memory("reverse_subsequences", [("out", out)], [("input", input), ("sequence_lengths", sequence_lengths)])
