"""The public functions: DirectML's data-movement operators on tensors.

They are thin over ``torch.ops.torch_dml_ops.*`` and share its rules:

* Any dtype: bits are moved, never converted. Any rank from 1 on.
* Every device that torch has. The CPU and CUDA have kernels. Elsewhere torch's own functions serve, with a warning, as
  they are slower.
* Inputs may have any strides and are not made contiguous first. A result is dense. Where the input is dense in some
  order of its dimensions, the result has that order (so ``channels_last`` stays); otherwise it is contiguous.
* With ``out``, the result is written there and ``out`` is returned. It must have the right shape, dtype and device,
  must not overlap itself or an input, and is never resized; a refused call leaves it untouched. Under
  :func:`torch.compile` an overlap between the tensors that are traced is refused while compiling. Where a compiled
  function is called again with tensors that overlap only then, it either refuses them too or writes what it would have
  written if all inputs had been read before.
* Bad arguments raise ``RuntimeError``, and arguments of another type ``TypeError``, with one sentence that names
  operator, argument, index, rule and value. A whole number is what ``operator.index`` takes, except booleans; lists of
  them may be any sequence, array or 1-D tensor, and are copied: what a caller changes afterwards changes nothing.
* All of them are differentiable to any order; sequence lengths have no gradient.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from types import EllipsisType
from typing import Any

from torch import Tensor
from torch.compiler import is_dynamo_compiling
from torch.overrides import handle_torch_function

from torch_dml_ops._indexing.slices import Window, as_slice, numbers_in, text_of, walk_of
from torch_dml_ops._operators import checks
from torch_dml_ops._sentences.arguments import (
    is_boolean,
    proxy_among,
    refused_layout,
    require_tensor,
    whole_number,
    whole_numbers,
)
from torch_dml_ops._sentences.text import shown, text
from torch_dml_ops._torch.ordinary_way import call_as_given
from torch_dml_ops._torch.short_way import fast
from torch_dml_ops._torch.symbols import known_true

__all__ = [
    "join",
    "reverse_sequence",
    "reverse_subsequences",
    "sequence_lengths_like",
    "slice1",
    "slice_grad",
    "split",
    "window",
]


def slice1(
    input: Tensor,
    window_offsets: Sequence[int],
    window_sizes: Sequence[int],
    window_strides: Sequence[int],
    output_sizes: Sequence[int] | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Copies a window of ``input``, walked with any stride, forwards or backwards.

    In dimension ``d`` the walk starts at ``window_offsets[d]`` where the stride is positive and at
    ``window_offsets[d] + window_sizes[d] - 1`` where it is negative, and takes ``output_sizes[d]`` steps of
    ``window_strides[d]``. :func:`index` takes slices instead, ``index(x)[::-2]``, and :func:`window` makes a window of
    them.

    Args:
        input: tensor of any dtype, shape ``(n_0, …, n_k)``, at least 1-D.
        window_offsets: where the window begins in each dimension, in elements, at least 0.
        window_sizes: its extent, at least 1, with ``window_offsets[d] + window_sizes[d] <= n_d``. In a dimension of
            size 0 the window is ``[0, 0)`` and the result is empty.
        window_strides: the steps of the walk, in elements, not 0.
        output_sizes: the result's sizes, each from 1 to ``1 + (window_sizes[d] - 1) // abs(window_strides[d])``, which
            is the default.
        out: where to write the result instead of into a new tensor.

    Returns:
        A tensor of ``input``'s dtype and of shape ``output_sizes``.

    Raises:
        TypeError: an argument of another type, such as a number that is not whole.
        RuntimeError: a window that leaves the input, a stride of 0, an output size out of range, lists that do not have
            an entry for each dimension, an ``out`` that does not fit.

    Its gradient is :func:`slice_grad`. Source: `DML_SLICE1_OPERATOR_DESC
    <https://learn.microsoft.com/en-us/windows/win32/api/directml/ns-directml-dml_slice1_operator_desc>`_.

    >>> import torch, torch_dml_ops as dml
    >>> x = torch.arange(1, 17).reshape(4, 4)
    >>> dml.slice1(x, window_offsets=[0, 1], window_sizes=[4, 3], window_strides=[-2, 2])
    tensor([[14, 16],
            [ 6,  8]])
    """
    if not is_dynamo_compiling():
        done: Tensor | None = fast.slice1(input, window_offsets, window_sizes, window_strides, output_sizes, out)
        if done is not None:
            return done
    return call_as_given("slice1", input, window_offsets, window_sizes, window_strides, output_sizes, out=out)  # type: ignore[no-any-return]


def slice_grad(
    grad_output: Tensor,
    input_sizes: Sequence[int],
    window_offsets: Sequence[int],
    window_sizes: Sequence[int],
    window_strides: Sequence[int],
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Puts elements back where :func:`slice1` read them, into zeros: the gradient of ``slice1``, its transpose.

    Args:
        grad_output: tensor of any dtype with the shape of a result of ``slice1`` over this window.
        input_sizes: the sizes of the input that ``slice1`` read, and of the result.
        window_offsets, window_sizes, window_strides: the window, as for :func:`slice1`.
        out: where to write the result instead of into a new tensor.

    Returns:
        A tensor of ``grad_output``'s dtype and of shape ``input_sizes``, zero wherever ``slice1`` did not read.

    Raises:
        TypeError: an argument of another type, such as a number that is not whole.
        RuntimeError: what :func:`slice1` refuses, and a ``grad_output`` larger than the window allows.

    Its gradient is :func:`slice1`. Source: `DML_SLICE_GRAD_OPERATOR_DESC
    <https://learn.microsoft.com/en-us/windows/win32/api/directml/ns-directml-dml_slice_grad_operator_desc>`_.

    >>> import torch, torch_dml_ops as dml
    >>> dml.slice_grad(torch.tensor([1, 2, 3]), [7], window_offsets=[1], window_sizes=[5], window_strides=[-2])
    tensor([0, 3, 0, 2, 0, 1, 0])
    """
    if not is_dynamo_compiling():
        done: Tensor | None = fast.slice_grad(
            grad_output, input_sizes, window_offsets, window_sizes, window_strides, out
        )
        if done is not None:
            return done
    return call_as_given("slice_grad", grad_output, input_sizes, window_offsets, window_sizes, window_strides, out=out)  # type: ignore[no-any-return]


def split(input: Tensor, split_sizes: Sequence[int], axis: int, *, out: list[Tensor] | None = None) -> list[Tensor]:
    """Copies ``input`` into pieces along ``axis``, all in one pass.

    Unlike :func:`torch.split` it gives copies, never views, even for a single piece; it takes the size of every piece,
    and ``axis`` for ``dim``.

    Args:
        input: tensor of any dtype, at least 1-D.
        split_sizes: the size of each piece along ``axis``, each at least 1, together exactly the input's size there.
        axis: from 0 to ``input.dim() - 1``; negative axes are refused, as DirectML's are unsigned.
        out: tensors to write the pieces into, one for each.

    Returns:
        A list of tensors of ``input``'s dtype, with its sizes except along ``axis``; ``out`` where that is given.

    Raises:
        TypeError: an argument of another type, such as a number that is not whole.
        RuntimeError: sizes that do not sum to the axis, an axis out of range, an ``out`` that does not fit.

    Its gradient is :func:`join`. Source: `DML_SPLIT_OPERATOR_DESC
    <https://learn.microsoft.com/en-us/windows/win32/api/directml/ns-directml-dml_split_operator_desc>`_.

    >>> import torch, torch_dml_ops as dml
    >>> dml.split(torch.arange(6), [1, 2, 3], axis=0)
    [tensor([0]), tensor([1, 2]), tensor([3, 4, 5])]
    """
    if not is_dynamo_compiling():
        done: list[Tensor] | None = fast.split(input, split_sizes, axis, out)
        if done is not None:
            return done
    if isinstance(split_sizes, int) and not isinstance(split_sizes, bool) and isinstance(input, Tensor):
        raise TypeError(
            f"split: split_sizes must be a list of whole numbers, got {shown(split_sizes)}"
            f"{_pieces_of(split_sizes, input, axis)}"
        )
    return call_as_given("split", input, split_sizes, axis, out=out)  # type: ignore[no-any-return]


def _pieces_of(size: int, input: Tensor, axis: int) -> str:
    """The list to write for what ``torch.split(input, size, axis)`` gives."""
    if not (isinstance(input, Tensor) and type(axis) is int and -input.dim() <= axis < input.dim()):
        return ""
    size, whole = operator.index(size), operator.index(input.shape[axis])  # of symbols, their numbers
    if not 1 <= size <= whole:
        return ""
    count, rest = divmod(whole, size)
    last = [rest] if rest else []
    pieces = text([size] * count + last) if count <= 8 else f"[{size}] * {count}" + (f" + {last}" if last else "")
    return f"; for pieces of {size} write {pieces}"


def join(inputs: Sequence[Tensor], axis: int, *, out: Tensor | None = None) -> Tensor:
    """Copies tensors one after another along ``axis``: the inverse of :func:`split`.

    Unlike :func:`torch.cat` it takes no empty tensors, and ``axis`` for ``dim``, without a default.

    Args:
        inputs: at least one tensor, all of one dtype and device, with equal sizes except along ``axis``, where each has
            at least 1 element.
        axis: from 0 to the rank less 1.
        out: where to write the result instead of into a new tensor.

    Returns:
        A tensor of the inputs' dtype. Where all inputs are dense in the same order of dimensions, so is the result.

    Raises:
        TypeError: an argument of another type, such as a number that is not whole.
        RuntimeError: inputs that differ in dtype, device, rank or another size, an axis out of range, an ``out`` that
            does not fit.

    Its gradient is :func:`split`. Source: `DML_JOIN_OPERATOR_DESC
    <https://learn.microsoft.com/en-us/windows/win32/api/directml/ns-directml-dml_join_operator_desc>`_.

    >>> import torch, torch_dml_ops as dml
    >>> dml.join([torch.zeros(2, 1), torch.ones(2, 2)], axis=1)
    tensor([[0., 1., 1.],
            [0., 1., 1.]])
    """
    if not is_dynamo_compiling():
        done: Tensor | None = fast.join(inputs, axis, out)
        if done is not None:
            return done
    if isinstance(inputs, (list, tuple)) and not inputs:  # torch itself would say that it knows no device
        raise RuntimeError("join: inputs must have at least 1 tensor, got none")
    return call_as_given("join", inputs, axis, out=out)  # type: ignore[no-any-return]


def reverse_subsequences(input: Tensor, sequence_lengths: Tensor, axis: int, *, out: Tensor | None = None) -> Tensor:
    """Reverses the first elements along ``axis``, as many as ``sequence_lengths`` says, and copies the rest as it is.

    The lengths are read where they lie: no index tensor is made, and the host never waits for a device. With one
    length for each batch item, call :func:`reverse_sequence`.

    Args:
        input: tensor of any dtype, at least 1-D.
        sequence_lengths: uint32, uint64, int32 or int64 tensor with the sizes of ``input`` but 1 at ``axis``, and on
            its device. A length above the axis' size counts as that size, a negative one as 0. It may be a broadcast
            view; :func:`sequence_lengths_like` makes one from a length per batch item.
        axis: from 0 to ``input.dim() - 1``; negative axes are refused, as DirectML's are unsigned.
        out: where to write the result instead of into a new tensor.

    Returns:
        A tensor with the dtype and sizes of ``input``.

    Raises:
        TypeError: an argument of another type, such as a number that is not whole.
        RuntimeError: lengths of another dtype, shape or device, an axis out of range, an ``out`` that does not fit.

    Its gradient is itself, with the same lengths. Source: `DML_REVERSE_SUBSEQUENCES_OPERATOR_DESC
    <https://learn.microsoft.com/en-us/windows/win32/api/directml/ns-directml-dml_reverse_subsequences_operator_desc>`_.

    >>> import torch, torch_dml_ops as dml
    >>> x = torch.arange(1, 13).reshape(3, 4)
    >>> dml.reverse_subsequences(x, torch.tensor([[2], [4], [3]]), axis=1)
    tensor([[ 2,  1,  3,  4],
            [ 8,  7,  6,  5],
            [11, 10,  9, 12]])
    """
    if not is_dynamo_compiling():
        done: Tensor | None = fast.reverse_subsequences(input, sequence_lengths, axis, out)
        if done is not None:
            return done
    return call_as_given("reverse_subsequences", input, sequence_lengths, axis, out=out)  # type: ignore[no-any-return]


def window(shape: Sequence[int], index: slice | EllipsisType | tuple[slice | EllipsisType, ...]) -> Window:
    """The window of a NumPy-style index of slices, for :func:`slice1` and :func:`slice_grad`.

    ``slice1(x, *window(x.shape, index))`` equals ``x.numpy()[index]`` wherever that selects something.

    Args:
        shape: the sizes of the tensor that is to be sliced.
        index: a slice for each dimension, as ``np.s_[::-2, 1:5]`` makes them; an Ellipsis, and dimensions left out at
            the end, stand for whole dimensions. (Inside a function that is compiled, write ``slice(None, None, -2)``:
            torch.compile does not follow ``np.s_``.)

    Returns:
        ``(window_offsets, window_sizes, window_strides)``.

    Raises:
        TypeError: an entry that is neither a slice nor an Ellipsis, a slice of other than whole numbers.
        ValueError: a slice that selects nothing (operators of DirectML have no empty results; a dimension of size 0
            passes, with the window ``[0, 0)``), a step of 0, more entries than dimensions, more than one Ellipsis.

    >>> import numpy as np, torch, torch_dml_ops as dml
    >>> dml.window((5, 6), np.s_[::-2, 1:5])
    ((0, 1), (5, 4), (-2, 1))
    >>> dml.slice1(torch.arange(5), *dml.window((5,), np.s_[::-1]))
    tensor([4, 3, 2, 1, 0])
    """
    if not is_dynamo_compiling():
        plain: Window | None = fast.window(shape, index)
        if plain is not None:
            return plain
    if isinstance(shape, Tensor):
        raise TypeError("window: shape must be a list of sizes, got a tensor; write its shape")
    sizes = shape if isinstance(shape, (list, tuple)) else ()
    if (proxy := proxy_among(shape, *sizes, *numbers_in(index))) is not None:
        result: Window = handle_torch_function(_window, (proxy,), shape, index, proxy)
        return result
    if any(isinstance(size, slice) for size in (shape, *sizes)):
        raise TypeError(f"window: shape must be a list of sizes, got {shown(shape)}; are shape and index swapped?")
    shape = whole_numbers("window: shape", shape)
    for d, size in enumerate(shape):
        if size < 0:
            raise ValueError(f"window: shape[{d}] must be at least 0, got {shown(size)}")
    entries = index if isinstance(index, tuple) else (index,)
    for k, entry in enumerate(entries):
        if not isinstance(entry, (slice, EllipsisType)):
            way_out = ""
            if isinstance(entry, int) and k < len(shape) and -shape[k] <= entry < shape[k]:
                way_out = f"; write {as_slice(entry)} to keep the dimension"
            if isinstance(index, list) and any(isinstance(e, slice) for e in index):
                way_out = "; write tuple(index)"
            raise TypeError(f"window: index[{k}] must be a slice or an Ellipsis, got {shown(entry)}{way_out}")
    ellipses = [k for k, entry in enumerate(entries) if isinstance(entry, EllipsisType)]
    if len(ellipses) > 1:
        raise ValueError(f"window: index must have at most one Ellipsis, got {len(ellipses)}")
    at = ellipses[0] if ellipses else len(entries)
    before, after = list(entries[:at]), list(entries[at + 1 :])
    if len(before) + len(after) > len(shape):
        raise ValueError(
            f"window: index must have no more slices than shape has sizes, {len(shape)}, got {len(before) + len(after)}"
        )
    whole = [slice(None)] * (len(shape) - len(before) - len(after))
    walks = []
    for d, (s, size) in enumerate(zip([*before, *whole, *after], shape, strict=True)):
        assert isinstance(s, slice)
        walk = walk_of("window", s, size, d)
        if known_true(walk.length == 0) and size != 0:
            raise ValueError(
                f"window: the slice of dimension {d} must select something, got {text_of(s)} for size {text(size)}"
            )
        walks.append(walk)
    offsets, sizes = zip(*(walk.least_window() for walk in walks), strict=True) if walks else ((), ())
    return offsets, sizes, tuple(walk.step for walk in walks)


def _window(shape: Sequence[int], index: Any, _proxy: Any) -> Window:
    """As `window`, in a graph. `_proxy` is an argument because torch.fx finds nothing of its own within slices."""
    return window(shape, index)


def sequence_lengths_like(input: Tensor, lengths: Tensor, axis: int, batch_axis: int = 0) -> Tensor:
    """One length per batch item in the shape that :func:`reverse_subsequences` wants, as a broadcast view.

    Args:
        input: the tensor that is to be reversed, at least 2-D.
        lengths: 1-D tensor with an entry for each index of ``batch_axis``.
        axis: the axis that is to be reversed.
        batch_axis: the axis that the lengths belong to, different from ``axis``.

    Returns:
        A view of ``lengths`` with the sizes of ``input`` but 1 at ``axis``; it takes no memory.

    Raises:
        TypeError: an ``input`` or ``lengths`` that is no tensor, an axis that is no whole number.
        RuntimeError: lengths that are not 1-D or not as many as the batch has items, an axis out of range, equal axes,
            tensors without strides.

    >>> import torch, torch_dml_ops as dml
    >>> x = torch.arange(12).reshape(2, 3, 2)
    >>> lengths = dml.sequence_lengths_like(x, torch.tensor([3, 2]), axis=1)
    >>> lengths.shape, lengths.stride(2)
    (torch.Size([2, 1, 2]), 0)
    >>> dml.reverse_subsequences(x, lengths, axis=1)[:, :, 0]
    tensor([[ 4,  2,  0],
            [ 8,  6, 10]])
    """
    if (proxy := proxy_among(input, lengths, axis, batch_axis)) is not None:
        result: Tensor = handle_torch_function(
            sequence_lengths_like, (proxy,), input, lengths, axis, batch_axis=batch_axis
        )
        return result
    return _lengths_like("sequence_lengths_like", input, lengths, axis, batch_axis)[0]


def reverse_sequence(input: Tensor, lengths: Tensor, axis: int, batch_axis: int = 0) -> Tensor:
    """Reverses the first elements of each batch item along ``axis``, as many as its length says.

    This is TensorFlow's and ONNX's form of :func:`reverse_subsequences`.

    Args:
        input: tensor of any dtype, at least 2-D.
        lengths: 1-D uint32, uint64, int32 or int64 tensor with a length for each index of ``batch_axis``, on the
            device of ``input``. A length above the axis' size counts as that size, a negative one as 0; 0 and 1 leave
            the item as it is.
        axis: the axis that is reversed (TensorFlow's ``seq_axis``, ONNX's ``time_axis``), from 0 to
            ``input.dim() - 1``.
        batch_axis: the axis that the lengths belong to, different from ``axis``.

    Returns:
        A tensor with the dtype and sizes of ``input``.

    Raises:
        TypeError: an ``input`` or ``lengths`` that is no tensor, an axis that is no whole number.
        RuntimeError: lengths that are not 1-D or not as many as the batch has items, of another dtype or on another
            device, an axis out of range, equal axes, tensors without strides.

    Its gradient is itself, with the same lengths. Sources: `ReverseSequence
    <https://onnx.ai/onnx/operators/onnx__ReverseSequence.html>`_ of ONNX, `tf.reverse_sequence
    <https://www.tensorflow.org/api_docs/python/tf/reverse_sequence>`_.

    >>> import torch, torch_dml_ops as dml
    >>> x = torch.arange(1, 9).reshape(2, 4)
    >>> dml.reverse_sequence(x, torch.tensor([2, 4]), axis=1)
    tensor([[2, 1, 3, 4],
            [8, 7, 6, 5]])
    """
    if (proxy := proxy_among(input, lengths, axis, batch_axis)) is not None:
        result: Tensor = handle_torch_function(reverse_sequence, (proxy,), input, lengths, axis, batch_axis=batch_axis)
        return result
    column, axis = _lengths_like("reverse_sequence", input, lengths, axis, batch_axis)
    checks.lengths("reverse_sequence", "lengths", lengths, input, "long()")
    return reverse_subsequences(input, column, axis)


def _lengths_like(op: str, input: Tensor, lengths: Tensor, axis: int, batch_axis: int) -> tuple[Tensor, int]:
    """The lengths as `reverse_subsequences` takes them, and the axis as an int."""
    require_tensor(f"{op}: input", input)
    if isinstance(axis, Tensor) and not isinstance(lengths, Tensor):
        raise TypeError(f"{op}: lengths must be a tensor, got {shown(lengths)}; are lengths and axis swapped?")
    require_tensor(f"{op}: lengths", lengths)
    for name, tensor in (("input", input), ("lengths", lengths)):
        if (rule := refused_layout(tensor)) is not None:
            raise RuntimeError(f"{op}: {name} {rule}")
    rank, of_one = input.dim(), "of one sequence without a batch, reverse_subsequences takes the length"
    if rank < 2:
        way_out = "are input and lengths swapped?" if lengths.dim() > 1 else of_one
        raise RuntimeError(f"{op}: input must have at least 2 dimensions, got {rank}; {way_out}")
    axis, batch_axis = whole_number(f"{op}: axis", axis), whole_number(f"{op}: batch_axis", batch_axis)
    for name, value in (("axis", axis), ("batch_axis", batch_axis)):
        if not 0 <= value < rank:
            instead = f"; write {value + rank} instead" if -rank <= value < 0 else ""
            raise RuntimeError(f"{op}: {name} must be from 0 to {rank - 1}, got {shown(value)}{instead}")
    axis, batch_axis = operator.index(axis), operator.index(batch_axis)  # of symbols, their numbers
    if axis == batch_axis:
        other = 0 if axis else 1
        fits = [d for d in (other, axis) if lengths.numel() == input.shape[d]]
        way_out = of_one if lengths.numel() == 1 else f"where items lie along axis {other}, write batch_axis={other}"
        if fits:
            write = "batch_axis" if fits[0] == other else "axis"
            way_out = f"where items lie along axis {fits[0]}, write {write}={other}"
        raise RuntimeError(f"{op}: batch_axis must differ from axis, got {axis} for both; {way_out}")
    count = input.shape[batch_axis]
    if lengths.dim() != 1 or lengths.shape[0] != count:
        way_out = ""
        if lengths.numel() == 1:
            way_out = f"; for the same length everywhere write lengths.expand({text(count)})"
        elif lengths.dim() == 2 and is_boolean(lengths):
            way_out = (
                f"; of a mask that is true within the sequences write lengths.sum({int(lengths.shape[0] == count)})"
            )
        elif lengths.dim() == 1 and lengths.shape[0] == input.shape[axis]:
            way_out = f"; where items lie along axis {axis}, write axis={batch_axis}, batch_axis={axis}"
        elif lengths.numel() == count:
            way_out = "; write lengths.flatten()"
        raise RuntimeError(
            f"{op}: lengths must have sizes {text([count])}, one for each index of axis {batch_axis} of input, got "
            f"{text(lengths.shape)}{way_out}"
        )
    column = lengths[tuple(slice(None) if d == batch_axis else None for d in range(rank))]
    return column.expand([1 if d == axis else n for d, n in enumerate(input.shape)]), axis
