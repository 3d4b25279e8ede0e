"""Whether tensors without data share memory: the search of csrc/ops/overlap.cpp on their storages and strides."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from enum import IntEnum
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torch_dml_ops._libraries import CPU_LIBRARY
from torch_dml_ops._sentences.text import text
from torch_dml_ops._torch.private import STORAGE


class Overlap(IntEnum):
    """The numbers of csrc/ops/overlap.h."""

    NONE = 0
    SOME = 1
    TOO_COMPLICATED = 2


class View(NamedTuple):
    """Where a tensor's elements are: an address in bytes, the size of an item in bytes, sizes and strides in items."""

    address: int
    item_size: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]


@cache
def _search() -> Any:
    return ctypes.CDLL(str(CPU_LIBRARY)).torch_dml_ops_find_overlap


def _find(views: Sequence[View]) -> tuple[Overlap, int, int]:
    numbers = [n for v in views for n in (v.address, v.item_size, len(v.sizes), *v.sizes, *v.strides)]
    pair = (ctypes.c_int64 * 2)()
    found = _search()(ctypes.c_int64(len(views)), (ctypes.c_int64 * len(numbers))(*numbers), pair)
    return Overlap(found), pair[0], pair[1]


def overlaps_itself(view: View) -> Overlap:
    """Whether two different indices of the view name the same memory."""
    return _find([view])[0]


def find_overlap(views: Sequence[View]) -> tuple[Overlap, int, int]:
    """Whether two of several views share memory, and which two, by their indices, the larger one first."""
    return _find(views) if len(views) > 1 else (Overlap.NONE, 0, 0)


def view_of(tensor: Tensor) -> tuple[int, View] | None:
    """A number that identifies the tensor's storage, and the view of it that the tensor is; None where that is unknown.

    Symbolic sizes have the values that the call was traced with. Reading these adds no guard.
    """
    sizes, strides = tuple(map(_hint, tensor.shape)), tuple(map(_hint, tensor.stride()))
    offset = _hint(tensor.storage_offset())
    if STORAGE.missing or offset is None or None in sizes or None in strides:
        return None
    try:
        storage = tensor.untyped_storage()._cdata
    except (NotImplementedError, RuntimeError):  # layouts that have no storage
        return None
    item = tensor.element_size()
    return storage, View(offset * item, item, sizes, strides)  # type: ignore[arg-type]


def _hint(value: int | torch.SymInt) -> int | None:
    if not isinstance(value, torch.SymInt):
        return value
    hint = getattr(value.node, "hint", None)  # None for a size that depends on data
    return int(hint) if isinstance(hint, int) else None


def check_memory(op: str, outs: Sequence[tuple[str, Tensor]], inputs: Sequence[tuple[str, Tensor]]) -> None:
    """Raises, as the operator itself does, where an `out` overlaps itself, another one or an input."""
    written = [(name, *seen) for name, out in outs if (seen := view_of(out)) is not None]
    read = [(name, *seen) for name, tensor in inputs if (seen := view_of(tensor)) is not None]
    for name, _, view in written:
        found = overlaps_itself(view)
        if found != Overlap.NONE:
            said = "got strides" if found == Overlap.SOME else "and it is too complicated to tell with strides"
            raise RuntimeError(f"{op}: {name} must not overlap itself, {said} {text(view.strides)}")
    for name, storage, view in written:
        for other, other_storage, other_view in read:
            if storage == other_storage:
                _require_disjoint(op, find_overlap([view, other_view])[0], name, other)
    by_storage: dict[int, list[tuple[str, View]]] = {}
    for name, storage, view in written:
        by_storage.setdefault(storage, []).append((name, view))
    for sharing in by_storage.values():
        found, second, first = find_overlap([view for _, view in sharing])
        _require_disjoint(op, found, sharing[second][0], sharing[first][0])


def _require_disjoint(op: str, found: Overlap, name: str, other: str) -> None:
    if found != Overlap.NONE:
        doubt = ", and their strides are too complicated to tell" if found == Overlap.TOO_COMPLICATED else ""
        raise RuntimeError(f"{op}: {name} must not share memory with {other}{doubt}")
