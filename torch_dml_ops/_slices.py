"""How Python's slices walk along a dimension, and the window that such walks read."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NamedTuple

from torch_dml_ops._arguments import shown, whole_number

Window = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


class Walk(NamedTuple):
    """Along a dimension: ``range(start, start + length * step, step)``. A length of 0 selects nothing."""

    start: int
    length: int
    step: int


ONE = Walk(0, 1, 1)


def walk_of(op: str, s: slice, size: int, d: int) -> Walk:
    """What the slice selects of dimension `d`, of this size: the indices ``range(*s.indices(size))``."""
    first, last, step = (
        value if value is None else whole_number(f"{op}: the {part} of the slice of dimension {d}", value)
        for part, value in (("start", s.start), ("stop", s.stop), ("step", s.step))
    )
    step = 1 if step is None else max(min(step, sys.maxsize), -sys.maxsize)  # one that is larger leaves at once as well
    if step == 0:
        raise ValueError(f"{op}: the slice of dimension {d} must not have a step of 0")
    least, most = (0, size) if step > 0 else (-1, size - 1)

    def bound(index: int | None, default: int) -> int:
        if index is None:
            return default
        # Not max and min: of symbolic sizes, what they give is one of the two only to those who know which.
        if index < 0:
            return index + size if index + size >= least else least
        return index if index <= most else most

    start = bound(first, least if step > 0 else most)
    stop = bound(last, most if step > 0 else least)
    return Walk(start, max((stop - start + step + (-1 if step > 0 else 1)) // step, 0), step)


def window_of(walks: Sequence[Walk]) -> Window:
    offsets, sizes = [], []
    for start, length, step in walks:
        extent = (length - 1) * abs(step) + 1 if length else 0
        offsets.append(0 if length == 0 else start if step > 0 else start - extent + 1)
        sizes.append(extent)
    return tuple(offsets), tuple(sizes), tuple(step for _, _, step in walks)


def text_of(s: slice) -> str:
    """The slice in a sentence."""
    return f"slice({', '.join(map(shown, (s.start, s.stop, s.step)))})"


def as_slice(index: int) -> str:
    """The slice that selects this index alone, as it is written."""
    return f"{shown(index)}:{'' if index == -1 else shown(index + 1)}"
