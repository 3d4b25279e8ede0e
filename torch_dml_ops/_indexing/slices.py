"""How Python's slices walk along a dimension, and the window that such walks read."""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from torch_dml_ops._sentences.arguments import whole_number
from torch_dml_ops._sentences.text import shown
from torch_dml_ops._torch.symbols import is_exporting, is_undecided, known_true, quotient

Window = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


class Walk(NamedTuple):
    """Along a dimension: the indices ``range(start, stop, step)``, `length` of them."""

    start: int
    stop: int
    step: int
    length: int

    def window(self) -> tuple[int, int]:
        """Offset and size of the window from where the walk starts to where it must stop."""
        return (self.start, self.stop - self.start) if self.step > 0 else (self.stop + 1, self.start - self.stop)

    def least_window(self) -> tuple[int, int]:
        """Offset and size of the window from the lowest to the highest of the indices."""
        if known_true(self.length == 0):
            return 0, 0
        extent = (self.length - 1) * abs(self.step) + 1
        if is_exporting() and isinstance(extent, torch.SymInt):
            extent = torch.sym_max(extent, 0)  # of an input of other sizes, the slice may select nothing
        return self.start if self.step > 0 else self.start - extent + 1, extent


def of_numbers(op: str, s: slice, d: int) -> Iterator[int | None]:
    """Start, stop and step of the slice of dimension `d`."""
    for part, value in (("start", s.start), ("stop", s.stop), ("step", s.step)):
        yield value if value is None else whole_number(f"{op}: the {part} of the slice of dimension {d}", value)


def walk_of(op: str, s: slice, size: int, d: int) -> Walk:
    """What the slice selects of dimension `d`, of this size: the indices ``range(*s.indices(size))``."""
    first, last, step = of_numbers(op, s, d)
    least, most = (0, size) if step is None or step > 0 else (-1, size - 1)
    symbolic = is_exporting() and any(isinstance(value, torch.SymInt) for value in (size, first, last))
    symbolic = symbolic or is_undecided_slice(first, last, step, size)
    largest = _PERIOD if symbolic else sys.maxsize  # a larger step, too, ends after one index; ONNX adds sizes to it
    step = 1 if step is None else max(min(step, largest), -largest)
    if step == 0:
        raise ValueError(f"{op}: the slice of dimension {d} must not have a step of 0")

    def bound(index: int | None, default: int) -> int:
        if index is None:
            return default
        if symbolic:
            return _clamped(index, size, least, most)
        # By conditions, which torch decides for symbolic sizes. max and min would make new expressions, of which it
        # does not know that they equal one or the other.
        if index < 0:
            return index + size if index + size >= least else least
        return index if index <= most else most

    ordered = first is None and last is None
    if symbolic and isinstance(first, int) and isinstance(last, int):
        decided = not any(map(is_undecided, (first < 0, last < 0, first < last)))  # Dynamo takes symbols for ints
        if decided and (min(first, last) >= 0 or max(first, last) < 0):
            # Here, and not for the clamped bounds: torch fails at the maximum of two minima with numbers.
            last, ordered = max(first, last) if step > 0 else min(first, last), True
    start = bound(first, least if step > 0 else most)
    stop = bound(last, most if step > 0 else least)
    if symbolic and not ordered:
        stop = torch.sym_max(start, stop) if step > 0 else torch.sym_min(start, stop)
    distance, stride = (stop - start, step) if step > 0 else (start - stop, -step)
    length = quotient(distance + stride - 1, stride)
    if symbolic:
        return Walk(start, stop, step, length)
    length = max(length, 0)
    return Walk(0, 0, step, 0) if known_true(length == 0) else Walk(start, stop, step, length)


def is_undecided_slice(first: int | None, last: int | None, step: int | None, size: int) -> bool:
    """Whether a bound of the slice is on a side of the dimension's ends that depends on data."""
    least, most = (0, size) if step is None or step > 0 else (-1, size - 1)
    return _bound_is_undecided(first, size, least, most) or _bound_is_undecided(last, size, least, most)


def _bound_is_undecided(index: int | None, size: int, least: int, most: int) -> bool:
    if index is None or is_undecided(index < 0):
        return index is not None
    return is_undecided(index + size >= least) if index < 0 else is_undecided(index <= most)


_PERIOD = 2**62  # larger than any bound


def _clamped(index: int, size: int, least: int, most: int) -> int:
    """A bound of a slice, by arithmetic that holds for every size.

    To compare the sizes would be a guard, which an exported program has, and a model in ONNX no longer.
    """
    if isinstance(index, torch.SymInt) and index.node.expr.is_Symbol and known_true(index >= 0):  # a size
        within: int = index if isinstance(most, int) and known_true(index <= most) else torch.sym_min(index, most)
    elif isinstance(index, torch.SymInt) or is_undecided(index < 0):
        # Not by comparing with 0, or torch would decide it for sizes from 1 on, of which -size is always negative.
        is_negative = (index % _PERIOD - index) // _PERIOD
        within = torch.sym_max(index + size * is_negative, least)
        # Not by sym_min: where several pairs of Min and Max have the same number, onnxscript's optimizer makes a model
        # that does not load.
        within = most - torch.sym_max(most - within, 0)
    elif abs(index) >= sys.maxsize:  # the sum might be beyond int64
        within = least if index < 0 else most
    else:
        within = torch.sym_max(index + size, least) if index < 0 else torch.sym_min(index, most)
    return within


def numbers_in(index: Any) -> Iterator[Any]:
    """The entries of an index, and of each slice its start, stop and step."""
    for entry in index if isinstance(index, tuple) else (index,):
        if isinstance(entry, slice):
            yield from (entry.start, entry.stop, entry.step)
        else:
            yield entry


def has_negative_step(index: Any) -> bool:
    for entry in index if isinstance(index, tuple) else (index,):
        if isinstance(entry, slice) and entry.step is not None and _is_negative(entry.step):
            return True
    return False


def _is_negative(step: Any) -> bool:
    if not isinstance(step, (int, torch.SymInt)):
        try:
            step = operator.index(step)
        except TypeError:
            return False  # torch says what is wrong with it
    return bool(step < 0)


def text_of(s: slice) -> str:
    """The slice in a sentence."""
    return f"slice({', '.join(map(shown, (s.start, s.stop, s.step)))})"


def as_written(entry: Any) -> str:
    """An entry of a basic index as it is written between brackets; of others nothing."""
    if isinstance(entry, slice):
        start, stop, step = ("" if bound is None else shown(bound) for bound in (entry.start, entry.stop, entry.step))
        return f"{start}:{stop}:{step}" if step else f"{start}:{stop}"
    if entry is ...:
        return "..."
    is_number = isinstance(entry, int) and not isinstance(entry, bool)
    return shown(entry) if entry is None or is_number else ""


def as_slice(index: int) -> str:
    """The slice that selects this index alone, as it is written."""
    return f"{shown(index)}:{'' if index == -1 else shown(index + 1)}"
