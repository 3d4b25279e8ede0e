"""What torch has to know of each operator besides its kernels: a class for each.

Each has a result without data, for torch.compile, torch.export and tensors on the device "meta"; a batching rule; and a
transpose, from which its derivatives follow. registration.py tells torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor

from torch_dml_ops._operators import checks
from torch_dml_ops._operators.signature import Signature, call
from torch_dml_ops._sentences.text import in_full, with_sum
from torch_dml_ops._torch.symbols import known_true

Numbers = Sequence[int]  # some may be torch.SymInts
Tensors = Sequence[Tensor]
Shapes = Sequence[torch.Size]


class Definition:
    """What is known of an operator besides its schema and its kernels. Sizes may be symbols."""

    # Of the operator's arguments: checks them, and gives the result's sizes, or those of each result. A result has the
    # dtype, the device and the layout of the tensors that the operator is linear in.
    result_sizes: ClassVar[Callable[..., Sequence[Any]]]

    # Of the size of a batch and the operator's arguments, in whose tensors the batch is dimension 0, while the numbers
    # are those of one example: the arguments of the one call that serves the whole batch.
    batched: ClassVar[Callable[..., tuple[Any, ...]]]

    # Of the cotangents of the results, the shapes of the linear inputs, and the other arguments: the cotangents of the
    # linear inputs.
    transpose: ClassVar[Callable[..., Tensors]]

    # The same call by functions of torch, if the operator takes or gives a list. The older vmap, that of
    # torch.autograd.grad(is_grads_batched=True), can batch these and no other operators on lists.
    by_torch: ClassVar[Callable[..., Any] | None] = None


def _window_of_batch(n: int, offsets: Numbers, sizes: Numbers, strides: Numbers) -> tuple[Numbers, ...]:
    return [0, *offsets], [n, *sizes], [1, *strides]


class Slice1(Definition):
    @staticmethod
    def result_sizes(
        input: Tensor,
        window_offsets: Numbers,
        window_sizes: Numbers,
        window_strides: Numbers,
        output_sizes: Numbers | None = None,
    ) -> Sequence[Any]:
        checks.rank("slice1", "input", input)
        most = checks.window("slice1", window_offsets, window_sizes, window_strides, input.shape, "input")
        if output_sizes is None:
            return most
        checks.require(
            len(output_sizes) == len(most),
            f"slice1: output_sizes must have length {len(most)}, an entry for each dimension of input, got "
            f"{len(output_sizes)}",
        )
        for d, size in enumerate(output_sizes):
            checks.steps(size, most[d], f"slice1: output_sizes[{d}] must be from %s to %s, got %s")
        return output_sizes

    @staticmethod
    def batched(
        n: int, input: Tensor, offsets: Numbers, sizes: Numbers, strides: Numbers, output_sizes: Numbers | None = None
    ) -> tuple[Any, ...]:
        window = _window_of_batch(n, offsets, sizes, strides)
        return input, *window, None if output_sizes is None else [n, *output_sizes]

    @staticmethod
    def transpose(
        cotangents: Tensors, shapes: Shapes, offsets: Numbers, sizes: Numbers, strides: Numbers, _: Any = None
    ) -> Tensors:
        return [call("slice_grad", cotangents[0], shapes[0], offsets, sizes, strides)]


class SliceGrad(Definition):
    @staticmethod
    def result_sizes(
        grad_output: Tensor,
        input_sizes: Numbers,
        window_offsets: Numbers,
        window_sizes: Numbers,
        window_strides: Numbers,
    ) -> Sequence[Any]:
        checks.rank("slice_grad", "grad_output", grad_output)
        checks.require(
            len(input_sizes) == grad_output.dim(),
            f"slice_grad: input_sizes must have length {grad_output.dim()}, an entry for each dimension of "
            f"grad_output, got {len(input_sizes)}",
        )
        for d, size in enumerate(input_sizes):
            checks.require(size >= 0, f"slice_grad: input_sizes[{d}] must be at least 0, got %s", size)
        most = checks.window("slice_grad", window_offsets, window_sizes, window_strides, input_sizes, "input_sizes")
        for d, size in enumerate(grad_output.shape):
            message = f"slice_grad: grad_output must have from %s to %s elements in dimension {d}, got %s"
            checks.steps(size, most[d], message)
        return input_sizes

    @staticmethod
    def batched(
        n: int, grad_output: Tensor, input_sizes: Numbers, offsets: Numbers, sizes: Numbers, strides: Numbers
    ) -> tuple[Any, ...]:
        return grad_output, [n, *input_sizes], *_window_of_batch(n, offsets, sizes, strides)

    @staticmethod
    def transpose(
        cotangents: Tensors, shapes: Shapes, _: Any, offsets: Numbers, sizes: Numbers, strides: Numbers
    ) -> Tensors:
        return [call("slice1", cotangents[0], offsets, sizes, strides, shapes[0])]


class Split(Definition):
    @staticmethod
    def result_sizes(input: Tensor, split_sizes: Numbers, axis: int) -> Sequence[Any]:
        checks.rank("split", "input", input)
        checks.axis("split", axis, input.dim())
        checks.require(len(split_sizes) > 0, "split: split_sizes must have at least 1 entry, got none")
        for k, size in enumerate(split_sizes):
            way_out = "; leave empty pieces out" if known_true(size == 0) else ""
            checks.require(size >= 1, f"split: split_sizes[{k}] must be at least 1, got %s{way_out}", size)
        checks.require(
            sum(split_sizes) == input.shape[axis],
            f"split: split_sizes must sum to %s, the size of input along axis {axis}, got %s",
            input.shape[axis],
            partial(with_sum, split_sizes),
        )
        return [[*input.shape[:axis], size, *input.shape[axis + 1 :]] for size in split_sizes]

    @staticmethod
    def batched(n: int, input: Tensor, split_sizes: Numbers, axis: int) -> tuple[Any, ...]:
        return input, split_sizes, axis + 1

    @staticmethod
    def transpose(cotangents: Tensors, shapes: Shapes, _: Any, axis: int) -> Tensors:
        # For a result that the loss does not depend on, torch gives plain zeros, also where the others are DTensors.
        like: Any = next((t for t in cotangents if hasattr(t, "__tensor_flatten__")), None)
        if like is not None:
            cotangents = [t if isinstance(t, type(like)) else like.new_zeros(t.shape) for t in cotangents]
        return [call("join", cotangents, axis)]

    @staticmethod
    def by_torch(input: Tensor, split_sizes: Numbers, axis: int) -> list[Tensor]:
        return [piece.clone() for piece in torch.split(input, list(split_sizes), axis)]


class Join(Definition):
    @staticmethod
    def result_sizes(inputs: Tensors, axis: int) -> Sequence[Any]:
        checks.require(len(inputs) > 0, "join: inputs must have at least 1 tensor, got none")
        first = inputs[0]
        checks.rank("join", "inputs[0]", first)
        checks.axis("join", axis, first.dim())
        for k, piece in enumerate(inputs):
            checks.require(
                piece.dim() == first.dim(),
                f"join: inputs[{k}] must have as many dimensions as inputs[0], {first.dim()}, got {piece.dim()}",
            )
            checks.same_kind("join", f"inputs[{k}]", piece, "inputs[0]", first)
            for d in range(first.dim()):
                checks.require(
                    d == axis or piece.shape[d] == first.shape[d],
                    f"join: inputs[{k}] must have the sizes of inputs[0], %s, except along axis {axis}, got %s%s",
                    first.shape,
                    piece.shape,
                    partial(checks.difference, first.shape, piece.shape, axis),
                )
            checks.require(
                piece.shape[axis] >= 1,
                f"join: inputs[{k}] must have at least 1 element along axis {axis}, got %s; leave empty tensors out",
                piece.shape[axis],
            )
        total = sum(t.shape[axis] for t in inputs)
        # Not for a symbolic size: the comparison would be a guard, which limits the sizes of an exported program.
        checks.require(
            isinstance(total, torch.SymInt) or total < 2**63,
            f"join: inputs must sum to less than 2^63 along axis {axis}",
        )
        return [*first.shape[:axis], total, *first.shape[axis + 1 :]]

    @staticmethod
    def batched(n: int, inputs: Tensors, axis: int) -> tuple[Any, ...]:
        return inputs, axis + 1

    @staticmethod
    def transpose(cotangents: Tensors, shapes: Shapes, axis: int) -> Tensors:
        pieces: Tensors = call("split", cotangents[0], [shape[axis] for shape in shapes], axis)
        return pieces

    @staticmethod
    def by_torch(inputs: Tensors, axis: int) -> Tensor:
        return torch.cat(list(inputs), axis)


class ReverseSubsequences(Definition):
    @staticmethod
    def result_sizes(input: Tensor, sequence_lengths: Tensor, axis: int) -> Sequence[Any]:
        op, lengths = "reverse_subsequences", sequence_lengths
        checks.rank(op, "input", input)
        checks.axis(op, axis, input.dim())
        checks.lengths(op, "sequence_lengths", lengths, input, f"sum({axis}, keepdim=True)")
        expected = [*input.shape[:axis], 1, *input.shape[axis + 1 :]]

        def way_out() -> str:
            if lengths.dim() == 1 and lengths.numel() > 1 and input.dim() > 1:
                return "; reverse_sequence takes a length per batch item"
            given = [1] * (input.dim() - lengths.dim()) + list(lengths.shape)
            fits = len(given) == len(expected) and all(n in (1, m) for n, m in zip(given, expected, strict=True))
            return f"; write sequence_lengths.expand({sizes[1:-1]})" if fits and (sizes := in_full(expected)) else ""

        rule = f"must have sizes %s, those of input with 1 at axis {axis}, got %s%s%s"
        checks.sizes(expected, lengths.shape, f"{op}: sequence_lengths {rule}", way_out)
        return input.shape

    @staticmethod
    def batched(n: int, input: Tensor, sequence_lengths: Tensor, axis: int) -> tuple[Any, ...]:
        return input, sequence_lengths, axis + 1

    @staticmethod
    def transpose(cotangents: Tensors, shapes: Shapes, sequence_lengths: Tensor, axis: int) -> Tensors:
        return [call("reverse_subsequences", cotangents[0], sequence_lengths, axis)]


OPERATORS: dict[str, type[Definition]] = {
    "slice1": Slice1,
    "slice_grad": SliceGrad,
    "split": Split,
    "join": Join,
    "reverse_subsequences": ReverseSubsequences,
}


def checked_outs(signature: Signature, arguments: Sequence[Any], out: Any) -> list[tuple[str, Tensor]]:
    """The tensors to write into, with their names; raises where the call is refused, or one does not fit the result."""
    name, outs, pieces = signature.name, signature.named_outs(out), signature.arguments[1][0]
    every_size = signature.listed(OPERATORS[name].result_sizes(*arguments))
    checks.require(
        len(outs) == len(every_size),
        f"{name}: out must have length {len(every_size)}, a tensor for each of {pieces}, got {len(outs)}",
    )
    first_name, first = signature.named_inputs(arguments)[0]
    for (out_name, tensor), sizes in zip(outs, every_size, strict=True):
        checks.sizes(sizes, tensor.shape, f"{name}: {out_name} must have sizes %s, got %s%s")
        checks.same_kind(name, out_name, tensor, first_name, first)
    return outs
