"""What Inductor computes in the place of an operator: a `Pointwise`, which is a new buffer (never a view: a result must
not share memory with an input), each element of which is loaded from where the operator reads it; for a join, what
Inductor has for torch's `cat`.

A function returns None where there is no formula for the numbers given.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import sympy
import torch

from torch_dml_ops._torch.private import INDUCTOR as private

private.need()
FloorDiv, ModularIndexing = private.FloorDiv, private.ModularIndexing
V, ir, ops = private.V, private.ir, private.ops
_cat = private.lowerings[torch.ops.aten.cat.default]

Expr = Any  # an int or a sympy expression
IR = Any  # a tensor in Inductor's IR

_LARGEST_INT32 = 2**31 - 1

# Inductor leaves a CPU loop scalar if more than an eighth of its operations are loads that are not contiguous, though
# vectors that are gathered are up to six times as fast. Operations that do nothing lower the share: they are counted,
# and leave no trace in the code.
_PADDING = 8


def known(condition: Any) -> bool:
    """Whether a condition on sizes holds for every size that they may have."""
    return condition if isinstance(condition, bool) else V.graph.sizevars.statically_known_true(condition)


def _index_dtype(*largest: Expr) -> torch.dtype:
    """On a GPU, arithmetic with 64 bits takes twice as long."""
    return torch.int32 if all(known(sympy.Le(n, _LARGEST_INT32)) for n in largest) else torch.int64


def _pointwise(like: IR, sizes: Sequence[Expr], load: Callable[[list[Expr]], Any]) -> IR:
    return ir.Pointwise.create(
        device=like.get_device(), dtype=like.get_dtype(), inner_fn=lambda index: load(list(index)), ranges=list(sizes)
    )


def _walks(offsets: Sequence[Expr], sizes: Sequence[Expr], strides: Sequence[Expr]) -> list[tuple[Expr, Expr]] | None:
    """Where the walk starts in each dimension, and its stride; None where the sign of a stride is unknown."""
    walks = []
    for offset, size, stride in zip(offsets, sizes, strides, strict=True):
        if known(sympy.sympify(stride) > 0):
            walks.append((offset, stride))
        elif known(sympy.sympify(stride) < 0):
            walks.append((offset + size - 1, stride))
        else:
            return None
    return walks


def slice1(
    input: IR,
    window_offsets: Sequence[Expr],
    window_sizes: Sequence[Expr],
    window_strides: Sequence[Expr],
    output_sizes: Sequence[Expr] | None = None,
) -> IR | None:
    walks = _walks(window_offsets, window_sizes, window_strides)
    if walks is None:
        return None
    if output_sizes is None:
        output_sizes = [
            1 + FloorDiv(size - 1, abs(stride)) for size, stride in zip(window_sizes, window_strides, strict=True)
        ]
    read = input.make_loader()
    padding = _PADDING if input.get_device().type == "cpu" and any(stride != 1 for _, stride in walks) else 0

    def load(index: list[Expr]) -> Any:
        element = read([start + stride * i for (start, stride), i in zip(walks, index, strict=True)])
        for _ in range(padding):
            element = ops.identity(element)
        return element

    return _pointwise(input, output_sizes, load)


def slice_grad(
    grad_output: IR,
    input_sizes: Sequence[Expr],
    window_offsets: Sequence[Expr],
    window_sizes: Sequence[Expr],
    window_strides: Sequence[Expr],
) -> IR | None:
    walks = _walks(window_offsets, window_sizes, window_strides)
    if walks is None:
        return None
    read, dtype = grad_output.make_loader(), grad_output.get_dtype()
    zero = False if dtype == torch.bool else 0.0 if dtype.is_floating_point else 0
    windows = []  # in each dimension the lowest index that has an element, the end of the last step, and the step
    for count, (start, stride) in zip(grad_output.get_size(), walks, strict=True):
        backwards = known(sympy.sympify(stride) < 0)
        step = -stride if backwards else stride
        first = start + (count - 1) * stride if backwards else start
        windows.append((first, first + count * step, step, count if backwards else None))
    index_dtype = _index_dtype(*input_sizes, *(end for _, end, *_ in windows))

    def place(value: Expr) -> Any:
        return ops.index_expr(sympy.expand(value), index_dtype)

    def load(index: list[Expr]) -> Any:
        inside, at = [], []
        for i, size, (first, end, step, reversed_count) in zip(index, input_sizes, windows, strict=True):
            if not known(sympy.Eq(first, 0)):
                inside.append(ops.ge(place(i), place(first)))
            if not known(sympy.Ge(end, size)):
                inside.append(ops.lt(place(i), place(end)))
            if not known(sympy.Eq(step, 1)):
                inside.append(ops.eq(place(ModularIndexing(i - first, 1, step)), place(0)))
            k = FloorDiv(i - first, step)
            at.append(k if reversed_count is None else reversed_count - 1 - k)
        return ops.masked(functools.reduce(ops.and_, inside), lambda: read(at), zero) if inside else read(at)

    return _pointwise(grad_output, input_sizes, load)


def split(input: IR, split_sizes: Sequence[Expr], axis: int) -> list[IR]:
    read, sizes = input.make_loader(), list(input.get_size())
    pieces, start = [], sympy.S.Zero

    def load(index: list[Expr], start: Expr) -> Any:
        index[axis] += start
        return read(index)

    for size in split_sizes:
        sizes[axis] = size
        pieces.append(_pointwise(input, sizes, functools.partial(load, start=start)))
        start += size
    return pieces


def join(inputs: Sequence[IR], axis: int) -> IR:
    return _cat(list(inputs), axis)


def reverse_subsequences(input: IR, sequence_lengths: IR, axis: int) -> IR:
    size, dtype = input.get_size()[axis], sequence_lengths.get_dtype()
    read, read_length = input.make_loader(), sequence_lengths.make_loader()
    narrow = _index_dtype(size)
    wide = narrow if dtype == torch.int32 else torch.int64  # every length fits

    def load(index: list[Expr]) -> Any:
        length = read_length([sympy.S.Zero if d == axis else i for d, i in enumerate(index)])
        length = ops.to_dtype(length, wide, src_dtype=dtype)
        none, whole = ops.constant(0, wide), ops.index_expr(size, wide)
        if dtype == torch.uint64:  # the upper half of its range has become negative
            length = ops.where(ops.lt(length, none), whole, length)
        length = ops.to_dtype(ops.maximum(ops.minimum(length, whole), none), narrow, src_dtype=wide)
        i = ops.index_expr(index[axis], narrow)
        mirrored = ops.sub(ops.sub(length, ops.constant(1, narrow)), i)
        index[axis] = ops.indirect_indexing(
            ops.where(ops.lt(i, length), mirrored, i), size, check=False, wrap_neg=False
        )
        return read(index)

    return _pointwise(input, input.get_size(), load)
