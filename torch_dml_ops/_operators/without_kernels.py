"""The operators by torch's own functions, for devices without kernels: mps, xpu, a vendor's own, and cuda in a build
without CUDA kernels.

They check their arguments as the kernels do, and their results have the same bits and strides. What is moved are whole
numbers of the items' size, for a device may lack functions for float8, unsigned or complex numbers, or change a NaN's
bits.
"""

from __future__ import annotations

import math
import os
import re
import warnings
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from torch_dml_ops._operators.checks import every_tensor, require
from torch_dml_ops._operators.definitions import OPERATORS, Numbers, Tensors, checked_outs
from torch_dml_ops._operators.layout import dense_strides, new_dense
from torch_dml_ops._operators.overlap import check_memory
from torch_dml_ops._operators.signature import Signature, signatures
from torch_dml_ops._sentences.arguments import explanation
from torch_dml_ops._sentences.text import cut, text

_library = torch.library.Library("torch_dml_ops", "IMPL")

_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def _bits(tensor: Tensor) -> Tensor:
    """Its memory as whole numbers. (Items of 16 bytes stay complex: torch has no whole numbers of that size.)"""
    return tensor.view(_BITS.get(tensor.element_size(), tensor.dtype))


class _Out:
    """Where a result goes: into new memory, which is allocated when it is asked for, or into `given`."""

    def __init__(self, op: str, like: Tensor, sizes: Numbers, strides: Numbers, given: Tensor | None = None) -> None:
        self.op, self.like, self.sizes, self.strides, self.given = op, like, tuple(sizes), tuple(strides), given

    @cached_property
    def memory(self) -> Tensor:
        """Its bits."""
        if self.given is not None:
            return _bits(self.given)
        try:
            return _bits(self.like.new_empty_strided(self.sizes, self.strides))
        except (NotImplementedError, torch.AcceleratorError):
            raise
        except RuntimeError:
            raise torch.OutOfMemoryError(
                f"{self.op}: out of memory on {self.like.device}, which cannot allocate a result of sizes "
                f"{text(self.sizes)}, {math.prod(self.sizes) * self.like.element_size()} bytes"
            ) from None

    def take(self, moved: Tensor) -> None:
        """Makes what one of torch's functions has made the result, or copies it where it is laid out otherwise."""
        if self.given is None and moved.stride() == self.strides:
            self.memory = moved
        else:
            self.memory.copy_(moved)

    def tensor(self) -> Tensor:
        """The result; a new one is no view, and counts no writes."""
        if self.given is not None:
            return self.given
        result = self.like.new_empty(0)
        result.data = self.memory.view(result.dtype)
        return result


def _walk(
    tensor: Tensor, offsets: Numbers, sizes: Numbers, strides: Numbers, steps: Numbers
) -> tuple[Tensor, list[int]]:
    """A view of the elements that a walk visits, in ascending order, and the dimensions in which it goes backwards."""
    start, apart = tensor.storage_offset(), list(tensor.stride())
    for d, (offset, size, stride, count) in enumerate(zip(offsets, sizes, strides, steps, strict=True)):
        start += apart[d] * (offset if stride > 0 else offset + size - 1 + (count - 1) * stride)
        if count > 1:  # a stride that leads nowhere may be so large that the product overflows
            apart[d] *= abs(stride)
    view = tensor.as_strided(tuple(steps), apart, start)
    return view, [d for d, (stride, count) in enumerate(zip(strides, steps, strict=True)) if stride < 0 and count > 1]


def _slice1(
    out: _Out, input: Tensor, offsets: Numbers, sizes: Numbers, strides: Numbers, _: Numbers | None = None
) -> None:
    view, backwards = _walk(input, offsets, sizes, strides, out.sizes)
    if backwards:
        out.take(view.flip(backwards))
    else:
        out.memory.copy_(view)


def _slice_grad(out: _Out, grad_output: Tensor, _: Numbers, offsets: Numbers, sizes: Numbers, strides: Numbers) -> None:
    if grad_output.shape != out.sizes:
        out.memory.zero_()
    view, backwards = _walk(out.memory, offsets, sizes, strides, grad_output.shape)
    view.copy_(grad_output.flip(backwards) if backwards else grad_output)


def _split(outs: Sequence[_Out], input: Tensor, split_sizes: Numbers, axis: int) -> None:
    for out, piece in zip(outs, input.split(list(split_sizes), axis), strict=True):
        out.memory.copy_(piece)


def _join(out: _Out, inputs: Tensors, axis: int) -> None:
    if out.memory.is_contiguous():
        torch.cat(list(inputs), axis, out=out.memory)
        return
    for piece, tensor in zip(out.memory.split([t.shape[axis] for t in inputs], axis), inputs, strict=True):
        piece.copy_(tensor)


def _reverse_subsequences(out: _Out, input: Tensor, sequence_lengths: Tensor, axis: int) -> None:
    size, lengths = input.shape[axis], _bits(sequence_lengths)
    for d, stride in enumerate(lengths.stride()):  # an index for each length, and not for all that share it
        if stride == 0:
            lengths = lengths.narrow(d, 0, 1)
    lengths = lengths.to(torch.int64)
    if sequence_lengths.dtype == torch.uint32:
        lengths = lengths & 0xFFFFFFFF
    elif sequence_lengths.dtype == torch.uint64:
        lengths = torch.where(lengths < 0, size, lengths)
    lengths = lengths.clamp(0, size)
    steps = torch.arange(size, device=input.device).reshape([-1 if d == axis else 1 for d in range(input.dim())])
    index = torch.where(steps < lengths, lengths - 1 - steps, steps)
    out.take(input.gather(axis, index.expand(input.shape)))


_KERNELS: dict[str, Callable[..., None]] = {
    "slice1": _slice1,
    "slice_grad": _slice_grad,
    "split": _split,
    "join": _join,
    "reverse_subsequences": _reverse_subsequences,
}
_warned: set[str] = set()  # types of devices


def _warn(device: torch.device) -> None:
    if device.type in _warned or os.environ.get("TORCH_DML_OPS_DEVICE_WARNING") == "0":
        return
    has_nvcc = device.type == "cuda" and torch.version.hip is None
    faster = "a build where nvcc is on the PATH has kernels" if has_nvcc else "torch.compile may generate faster code"
    warnings.warn(
        f"torch_dml_ops: there are no kernels for tensors on {device.type}. torch's own functions move them, which is "
        f"slower; {faster}. TORCH_DML_OPS_DEVICE_WARNING=0 silences this.",
        stacklevel=2,
    )
    _warned.add(device.type)


def _check_storages(op: str, tensors: Sequence[tuple[str, Tensor]]) -> None:
    for argument, tensor in tensors:
        last = tensor.storage_offset() + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
        has, needed = tensor.untyped_storage().nbytes(), (last + 1) * tensor.element_size()
        require(
            needed <= has,
            f"{op}: {argument} must lie within its storage, but this was made smaller: it has {has} bytes of the "
            f"{needed} that are needed",
        )


def _moved(signature: Signature, places: Sequence[_Out], arguments: Sequence[Any]) -> list[Tensor]:
    """The results, which go to `places`."""
    op, (argument, tensor), (first, *others) = signature.name, signature.named_inputs(arguments)[0], arguments
    _warn(tensor.device)
    try:
        bits = [_bits(t) for t in first] if signature.takes_list else _bits(first)
        _KERNELS[op](places if signature.gives_list else places[0], bits, *others)
        return [place.tensor() for place in places]
    except (torch.OutOfMemoryError, torch.AcceleratorError):
        raise
    except (RuntimeError, TypeError) as error:  # torch's sentence may be followed by pages of what it has registered
        reason = cut(re.split(r"\. |\n", str(error))[0], 200)
        raise RuntimeError(
            f"{op}: {argument} cannot be moved on {tensor.device}, as torch says: {reason}; move the tensors to the "
            f"CPU, as by {argument}.cpu()"
        ) from None


def _register(signature: Signature) -> None:
    name = signature.name

    def checked(given: Sequence[Any], *out: Any) -> list[Any]:
        arguments = signature.positional(given, {})
        every_tensor(name, *(t for _, t in signature.named_tensors(arguments)), *out)
        if (refusal := explanation(signature, arguments, *out)) is not None:
            raise refusal
        return arguments

    def new(*given: Any) -> Any:
        arguments = checked(given)
        every_size = signature.listed(OPERATORS[name].result_sizes(*arguments))
        order_of = [t for _, t in signature.named_inputs(arguments)]
        if any(0 in sizes for sizes in every_size):
            results = [new_dense(name, sizes, order_of) for sizes in every_size]
        else:
            places = [_Out(name, order_of[0], sizes, dense_strides(name, sizes, order_of)) for sizes in every_size]
            _check_storages(name, signature.named_tensors(arguments))
            results = _moved(signature, places, arguments)
        return results if signature.gives_list else results[0]

    def into(*given: Any, out: Any) -> None:
        arguments = checked(given, out)
        outs = checked_outs(signature, arguments, out)
        if outs[0][1].numel() > 0:
            read = signature.named_tensors(arguments)
            _check_storages(name, [*outs, *read])
            check_memory(name, outs, read)
            _moved(signature, [_Out(name, t, t.shape, t.stride(), t) for _, t in outs], arguments)

    for key in ("CompositeExplicitAutograd", "CompositeImplicitAutogradNestedTensor"):
        _library.impl(name, new, key)
        _library.impl(f"{name}.out", into, key)


for _signature in signatures.values():
    _register(_signature)
