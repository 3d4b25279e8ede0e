"""The operators' checks where csrc/ops does not run: for tensors without data, and for a single example of a vmap.

The rules and their sentences are those of csrc/ops (check.h says why there are two), and tests/refusals.py tests both
against one table. What needs addresses (whether `out` overlaps something) is checked when the operator runs.
"""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from torch_dml_ops._private import CHECK
from torch_dml_ops._text import Shown, in_full, text, with_sum

LENGTH_DTYPES = (torch.uint32, torch.uint64, torch.int32, torch.int64)


def _difference(required: Sequence[int], given: Sequence[int], except_at: int = -1) -> str:
    """Follows both lists in a sentence: where they first differ, unless both are shown in full.

    Index `except_at` is left out, as the lists may differ there.
    """
    if len(required) != len(given) or (in_full(required) and in_full(given)):
        return ""
    for k, (a, b) in enumerate(zip(required, given, strict=True)):
        if k != except_at and a != b:
            return f", with {text(b)} instead of {text(a)} at index {k}"
    return ""


def require(condition: bool, message: str, *shown: Shown) -> None:
    """Raises `message`, its "%s" replaced by the values, unless the condition holds; values are read only then."""
    _check(condition, lambda: message % tuple(map(text, shown)))


def _raise_unless(condition: bool, message: Callable[[], str]) -> None:
    if not condition:
        raise RuntimeError(message())


_check: Callable[..., None] = _raise_unless if CHECK.missing else CHECK._check


def _dtype_name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _check_rank(op: str, argument: str, tensor: Tensor) -> None:
    require(tensor.dim() >= 1, f"{op}: {argument} must have at least 1 dimension, got a 0-d tensor")


def _check_axis(op: str, axis: int, rank: int) -> None:
    instead = f"; write {axis + rank} instead" if -rank <= axis < 0 else ""
    require(0 <= axis < rank, f"{op}: axis must be from 0 to {rank - 1}, got {axis}{instead}")


def _check_same_device(op: str, name: str, tensor: Tensor, like_name: str, like: Tensor) -> None:
    require(
        tensor.device == like.device,
        f"{op}: {name} must be on the device of {like_name}, {like.device}, got {tensor.device}",
    )


def _check_same_kind(op: str, name: str, tensor: Tensor, like_name: str, like: Tensor) -> None:
    _check_same_device(op, name, tensor, like_name, like)
    require(
        tensor.dtype == like.dtype,
        f"{op}: {name} must have the dtype of {like_name}, {_dtype_name(like)}, got {_dtype_name(tensor)}",
    )


def _same(a: Sequence[int], b: Sequence[int]) -> bool:
    return len(a) == len(b) and all(x == y for x, y in zip(a, b, strict=True))


def check_out(op: str, name: str, out: Tensor, sizes: Sequence[int], like_name: str, like: Tensor) -> None:
    message = f"{op}: {name} must have sizes %s, got %s%s"
    require(_same(out.shape, sizes), message, sizes, out.shape, partial(_difference, sizes, out.shape))
    _check_same_kind(op, name, out, like_name, like)


def _check_from(least: int, size: int, limit: int, message: str) -> None:
    for condition in (size >= least, size <= limit):
        require(condition, message, least, limit, size)


def _check_window(
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
        require(window[d] >= least, f"{op}: window_sizes[{d}] must be at least %s, got %s", least, window[d])
        require(
            offsets[d] + window[d] <= size,
            f"{op}: window_offsets[{d}] + window_sizes[{d}] must be at most %s, the size of {sized} in dimension {d}, "
            "got %s + %s",
            size,
            offsets[d],
            window[d],
        )
        most.append(1 + (window[d] - 1) // abs(strides[d]))
    return most


def slice1_sizes(
    input: Tensor,
    window_offsets: Sequence[int],
    window_sizes: Sequence[int],
    window_strides: Sequence[int],
    output_sizes: Sequence[int] | None,
) -> Sequence[int]:
    _check_rank("slice1", "input", input)
    most = _check_window("slice1", window_offsets, window_sizes, window_strides, input.shape, "input")
    if output_sizes is None:
        return most
    require(
        len(output_sizes) == len(most),
        f"slice1: output_sizes must have length {len(most)}, an entry for each dimension of input, got "
        f"{len(output_sizes)}",
    )
    for d, (size, limit) in enumerate(zip(output_sizes, most, strict=True)):
        _check_from(torch.sym_min(limit, 1), size, limit, f"slice1: output_sizes[{d}] must be from %s to %s, got %s")
    return output_sizes


def check_slice_grad(
    grad_output: Tensor,
    input_sizes: Sequence[int],
    window_offsets: Sequence[int],
    window_sizes: Sequence[int],
    window_strides: Sequence[int],
) -> None:
    _check_rank("slice_grad", "grad_output", grad_output)
    require(
        len(input_sizes) == grad_output.dim(),
        f"slice_grad: input_sizes must have length {grad_output.dim()}, an entry for each dimension of grad_output, "
        f"got {len(input_sizes)}",
    )
    for d, size in enumerate(input_sizes):
        require(size >= 0, f"slice_grad: input_sizes[{d}] must be at least 0, got %s", size)
    most = _check_window("slice_grad", window_offsets, window_sizes, window_strides, input_sizes, "input_sizes")
    for d, (size, limit) in enumerate(zip(grad_output.shape, most, strict=True)):
        message = f"slice_grad: grad_output must have from %s to %s elements in dimension {d}, got %s"
        _check_from(torch.sym_min(limit, 1), size, limit, message)


def split_sizes_of_pieces(input: Tensor, split_sizes: Sequence[int], axis: int) -> list[list[int]]:
    """The sizes of every piece."""
    _check_rank("split", "input", input)
    _check_axis("split", axis, input.dim())
    require(len(split_sizes) > 0, "split: split_sizes must have at least 1 entry, got none")
    for k, size in enumerate(split_sizes):
        require(size >= 1, f"split: split_sizes[{k}] must be at least 1, got %s; leave empty pieces out", size)
    require(
        sum(split_sizes) == input.shape[axis],
        f"split: split_sizes must sum to %s, the size of input along axis {axis}, got %s",
        input.shape[axis],
        partial(with_sum, split_sizes),
    )
    return [[*input.shape[:axis], size, *input.shape[axis + 1 :]] for size in split_sizes]


def join_sizes(inputs: Sequence[Tensor], axis: int) -> list[int]:
    require(len(inputs) > 0, "join: inputs must have at least 1 tensor, got none")
    first = inputs[0]
    _check_rank("join", "inputs[0]", first)
    _check_axis("join", axis, first.dim())
    for k, piece in enumerate(inputs):
        require(
            piece.dim() == first.dim(),
            f"join: inputs[{k}] must have {first.dim()} dimensions, as inputs[0] has, got {piece.dim()}",
        )
        _check_same_kind("join", f"inputs[{k}]", piece, "inputs[0]", first)
        for d in range(first.dim()):
            require(
                d == axis or piece.shape[d] == first.shape[d],
                f"join: inputs[{k}] must have the sizes of inputs[0], %s, except along axis {axis}, got %s%s",
                first.shape,
                piece.shape,
                partial(_difference, first.shape, piece.shape, axis),
            )
        require(
            piece.shape[axis] >= 1,
            f"join: inputs[{k}] must have at least 1 element along axis {axis}, got %s; leave empty tensors out",
            piece.shape[axis],
        )
    total = sum(t.shape[axis] for t in inputs)
    # Not for a symbolic size: the comparison would be a guard, which limits the sizes of an exported program.
    require(
        isinstance(total, torch.SymInt) or total < 2**63, f"join: inputs must sum to less than 2^63 along axis {axis}"
    )
    return [*first.shape[:axis], total, *first.shape[axis + 1 :]]


def check_reverse_subsequences(input: Tensor, sequence_lengths: Tensor, axis: int) -> None:
    op = "reverse_subsequences"
    _check_rank(op, "input", input)
    _check_axis(op, axis, input.dim())
    require(
        sequence_lengths.dtype in LENGTH_DTYPES,
        f"{op}: sequence_lengths must have dtype uint32, uint64, int32 or int64, got {_dtype_name(sequence_lengths)}",
    )
    _check_same_device(op, "sequence_lengths", sequence_lengths, "input", input)
    expected = [*input.shape[:axis], 1, *input.shape[axis + 1 :]]
    one_each = sequence_lengths.dim() == 1 and input.dim() > 1
    way_out = "; reverse_sequence takes a length per batch item" if one_each else ""
    require(
        _same(sequence_lengths.shape, expected),
        f"{op}: sequence_lengths must have sizes %s, those of input with 1 at axis {axis}, got %s%s{way_out}",
        expected,
        sequence_lengths.shape,
        partial(_difference, expected, sequence_lengths.shape),
    )
