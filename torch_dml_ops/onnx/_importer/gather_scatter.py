"""ONNX's operators that choose elements by indices, on tensors; see moving.py."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from torch_dml_ops._sentences.text import dtype_name, shown, text
from torch_dml_ops._torch.symbols import known_true
from torch_dml_ops.onnx._importer.inputs import (
    WHOLE,
    Numbers,
    as_dtype,
    axis_of,
    check_one_dtype,
    kept_by_fx,
    larger,
    numbers,
    signed,
    smaller,
)

# On the CPU, torch's gather and scatter convert these to float32 and back, which changes the bits of NaNs. Its indexing
# does not.
HALVES = (torch.float16, torch.bfloat16)


@kept_by_fx
def gather(data: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    d = axis_of("Gather: axis", axis, data.dim())
    before: list[slice | Tensor] = [slice(None)] * d
    places = _as_int64("Gather", indices)
    try:
        if places.dim() == 0:  # torch would read the number, for which one waits for a GPU, and a compiled graph ends
            return data[(*before, places[None])].squeeze(d)
        return data[(*before, places)]
    except IndexError:  # of the CPU: on a GPU, nobody waits for what the kernel finds
        _check_range("Gather", indices, data.shape[d])
        raise


@kept_by_fx
def gather_elements(data: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    d = axis_of("GatherElements: axis", axis, data.dim())
    chosen = _chosen("GatherElements", data, indices, d)
    try:
        if data.dtype in HALVES:
            return data[_places(chosen, d)]
        return as_dtype(data.dtype, signed(data).gather(d, _from_0_on(chosen, data.shape[d])))
    except (IndexError, RuntimeError) as error:
        if "out of bounds" in str(error):
            _check_range("GatherElements", indices, data.shape[d])
        raise


@kept_by_fx
def scatter_elements(
    data: Tensor,
    indices: Tensor,
    updates: Tensor,
    *,
    axis: int = 0,
    reduction: str = "none",
    op: str = "ScatterElements",
) -> Tensor:
    d = axis_of(f"{op}: axis", axis, data.dim())
    chosen = _chosen(op, data, indices, d)
    _check_updates(op, data, updates, indices.shape)
    try:
        if data.dtype in HALVES:
            return torch.index_put(data, _places(chosen, d), updates)
        return as_dtype(data.dtype, signed(data).scatter(d, _from_0_on(chosen, data.shape[d]), signed(updates)))
    except (IndexError, RuntimeError) as error:
        if "out of bounds" in str(error):
            _check_range(op, indices, data.shape[d])
        raise


@kept_by_fx
def scatter(data: Tensor, indices: Tensor, updates: Tensor, *, axis: int = 0) -> Tensor:
    return scatter_elements(data, indices, updates, axis=axis, op="Scatter")


def _chosen(op: str, data: Tensor, indices: Tensor, d: int) -> Tensor:
    """The indices along an axis, with the right sizes and of torch's dtype."""
    if indices.dim() != data.dim():
        raise ValueError(f"{op}: indices must have as many dimensions as data, {data.dim()}, got {indices.dim()}")
    for k, (size, most) in enumerate(zip(indices.shape, data.shape, strict=True)):
        if k != d and known_true(size > most):
            raise ValueError(
                f"{op}: indices must have at most size {text(most)}, as data has, at axis {k}, got {text(size)}"
            )
    return _as_int64(op, indices)


def _from_0_on(indices: Tensor, size: int) -> Tensor:
    """For torch's gather and scatter. (Its indexing takes negative ones, and would take those below -size if `size` had
    been added before.)"""
    return torch.where(indices < 0, indices + size, indices)


def _places(indices: Tensor, d: int) -> tuple[Tensor, ...]:
    """For torch's indexing, all indices of the elements that `indices` choose along axis `d`."""
    return tuple(indices if k == d else _along(k, indices) for k in range(indices.dim()))


def _along(k: int, indices: Tensor) -> Tensor:
    """From 0 on along axis `k`, to be broadcast with the indices."""
    every = torch.arange(indices.shape[k], device=indices.device)
    return every.reshape([-1 if d == k else 1 for d in range(indices.dim())])


def _as_int64(op: str, indices: Tensor) -> Tensor:
    """Of other dtypes, torch would cut off fractions, or take them for masks."""
    if indices.dtype not in WHOLE:
        raise ValueError(f"{op}: indices must have dtype int32 or int64, got {dtype_name(indices.dtype)}")
    return indices.long()


def _check_updates(op: str, data: Tensor, updates: Tensor, sizes: Sequence[int]) -> None:
    if updates.dim() != len(sizes) or any(known_true(m != n) for m, n in zip(updates.shape, sizes, strict=True)):
        raise ValueError(f"{op}: updates must have sizes {text(sizes)}, got {text(updates.shape)}")
    check_one_dtype(op, "data", data, {"updates": updates})


def _check_range(op: str, indices: Tensor, size: int) -> None:
    for index in indices.reshape(-1).tolist():
        if not -size <= index < size:
            rule = f"from {-size} to {size - 1}" if size else "none, as the axis has size 0"
            raise ValueError(f"{op}: indices must be {rule}, got {index}") from None


@kept_by_fx
def gather_nd(data: Tensor, indices: Tensor, *, batch_dims: int = 0) -> Tensor:
    depth = _depth("GatherND", data, indices, batch_dims)
    indices = _as_int64("GatherND", indices)
    batch = indices.shape[:batch_dims]
    if any(known_true(m != n) for m, n in zip(batch, data.shape, strict=False)):
        raise ValueError(
            f"GatherND: indices must begin with sizes {text(data.shape[:batch_dims])}, as data does, got {text(batch)}"
        )
    one = indices.dim() == 1  # torch.compile would read the numbers in 0-d tensors
    parts = (indices[None] if one else indices).unbind(-1)
    try:
        chosen = data[(*(_along(b, parts[0]) for b in range(batch_dims)), *parts)]
        return chosen[0] if one else chosen
    except IndexError:
        for d in range(depth):
            _check_range("GatherND", indices[..., d], data.shape[batch_dims + d])
        raise


@kept_by_fx
def scatter_nd(data: Tensor, indices: Tensor, updates: Tensor, *, reduction: str = "none") -> Tensor:
    depth = _depth("ScatterND", data, indices)
    indices = _as_int64("ScatterND", indices)
    _check_updates("ScatterND", data, updates, [*indices.shape[:-1], *data.shape[depth:]])
    try:
        return as_dtype(data.dtype, torch.index_put(signed(data), indices.unbind(-1), signed(updates)))
    except IndexError:
        for d in range(depth):
            _check_range("ScatterND", indices[..., d], data.shape[d])
        raise


def _depth(op: str, data: Tensor, indices: Tensor, batch_dims: int = 0) -> int:
    """How many axes of data each of the indices is for."""
    if not 0 <= batch_dims < max(indices.dim(), 1):
        raise ValueError(f"{op}: batch_dims must be from 0 to {max(indices.dim() - 1, 0)}, got {shown(batch_dims)}")
    depth = indices.shape[-1] if indices.dim() else 0
    if not 1 <= depth <= data.dim() - batch_dims:
        raise ValueError(
            f"{op}: indices must have a last axis of 1 to {data.dim() - batch_dims}, as many as data has axes"
            f"{' besides batch_dims' if batch_dims else ''}, got sizes {text(indices.shape)}"
        )
    return depth


@kept_by_fx
def compress(input: Tensor, condition: Numbers, *, axis: int | None = None) -> Tensor:
    x = input.reshape(-1) if axis is None else input
    d = 0 if axis is None else axis_of("Compress: axis", axis, input.dim())
    choices, size = numbers("Compress: condition", condition), x.shape[d]
    # As in ONNX Runtime, the condition may be longer than the axis.
    chosen = [k for k, choice in enumerate(choices) if choice and not known_true(k >= size)]
    places = torch.tensor(chosen, dtype=torch.int64, device=x.device)
    if chosen and not known_true(chosen[-1] < size):  # in a program for several sizes
        places = places.narrow(0, 0, sum(smaller(larger(size - k, 0), 1) for k in chosen))
    return gather(x, places, axis=d)
