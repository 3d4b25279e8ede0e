"""The cases, described so that every framework can run them: NumPy indices, axes, counts."""

import itertools
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

BYTES = {"64 KB": 64 << 10, "4 MB": 4 << 20, "128 MB": 128 << 20}  # the sizes that are measured on the CPU
GPU_SIZES = ["64 KB", "16 MB", "1 GB", "4 GB"]
SHAPES = {  # at 4 bytes an item
    "64 KB": (4, 32, 128),
    "4 MB": (16, 128, 512),
    "16 MB": (64, 128, 512),
    "128 MB": (64, 512, 1024),
    "1 GB": (256, 1024, 1024),
    "4 GB": (1024, 1024, 1024),
}

Index = tuple[slice, ...]
ALL = slice(None)


@dataclass(frozen=True)
class Case:
    """One operation on one input.

    `layout` is the input's: "contiguous", "transposed" (the last two axes swapped), or "channels last" (four axes, the
    second one innermost). The result has the same, unless `to_contiguous`. `lengths` says how long the sequences of a
    reversal are: "uniform" (anything up to the axis), "short" (a tenth of the axis on average), "full" or "zero". They
    vary along the axes `varies`.
    """

    name: str
    operation: str  # slice, slice_grad, split, join or reverse
    size: str = ""
    dtype: str = "float32"
    layout: str = "contiguous"
    to_contiguous: bool = False
    form: str = "fresh"  # or "out": into given memory; "backward": the backward pass alone
    index: Index = ()
    axis: int = 0
    count: int = 0
    unequal: bool = False  # pieces of many sizes instead of (nearly) equal ones
    varies: tuple[int, ...] = ()
    lengths: str = "uniform"
    inner: int = 0  # the size of the last axis, where it is not the usual one: of two axes
    row: int = 0  # the same, of three
    axes: int = 3  # more than three have pairs of rows, pairs of these, and so on as further axes
    target: str = ""  # the group of cases that targets.py has bounds for

    @property
    def described(self) -> dict[str, Any]:
        """What a row of results says of it."""
        names = ("name", "size", "form", "dtype", "layout", "lengths", "target", "row", "bound")
        return {"case": self.key} | {name: getattr(self, name) for name in names}

    @property
    def key(self) -> str:
        parts = [self.name, self.size, self.form, *([f"rows of {self.row}"] if self.row else [])]
        parts += [part for part in (self.dtype, self.layout) if part not in ("float32", "contiguous")]
        return ", ".join(parts)

    @property
    def shape(self) -> tuple[int, ...]:
        a, b, c = SHAPES[self.size]
        itemsize = np.dtype(self.dtype).itemsize
        if self.inner:
            return 4 * a * b * c // itemsize // self.inner, self.inner
        if self.row:
            return a, 4 * b * c // itemsize // self.row, self.row
        b = b * 4 // itemsize
        if self.axes > 3:
            return (a, *[2] * (self.axes - 3), b >> self.axes - 3, c)
        return (a, 32, b * c // 1024, 32) if self.layout == "channels last" else (a, b, c)

    @property
    def split_sizes(self) -> list[int]:
        size = self.shape[self.axis]
        if self.unequal:  # from one item to twice the mean, in no particular order
            share = [(37 * k % self.count) + 0.5 for k in range(self.count)]
            ends = [k + round((size - self.count) * sum(share[:k]) / sum(share)) for k in range(self.count + 1)]
            return [end - begin for begin, end in itertools.pairwise(ends)]
        return [len(range(k, size, self.count)) for k in range(self.count)]

    def array(self) -> np.ndarray[Any, Any]:
        """The input, in the case's layout."""
        numbers = np.random.default_rng(0).integers(0, 100, math.prod(self.shape)).astype(self.dtype)
        if self.layout == "transposed":
            *outer, rows, columns = self.shape
            return numbers.reshape(*outer, columns, rows).swapaxes(-1, -2)
        if self.layout == "channels last":
            n, c, h, w = self.shape
            return numbers.reshape(n, h, w, c).transpose(0, 3, 1, 2)
        return numbers.reshape(self.shape)

    @property
    def length_bounds(self) -> tuple[int, int]:
        """The least and the greatest length that a sequence may have."""
        n = self.shape[self.axis]
        return {"uniform": (0, n), "short": (0, n // 5), "full": (n, n), "zero": (0, 0)}[self.lengths]

    def sequence_lengths(self) -> np.ndarray[Any, Any]:
        """The lengths of a reversal, of size 1 along every axis along which they do not vary."""
        least, most = self.length_bounds
        sizes = [self.shape[d] if d in self.varies else 1 for d in range(len(self.shape))]
        return np.random.default_rng(1).integers(least, most + 1, sizes)

    @property
    def bytes_written(self) -> int:
        return self._window_bytes if self._moves == "slice" else self._total

    @property
    def bytes_touched(self) -> int:
        """The bytes of the cache lines that are read, plus the bytes written."""
        return 2 * self._total if self._moves != "slice" else self._window_bytes + self._touched(64)

    @property
    def bound(self) -> float:
        """How many copies of as many bytes as are written the cache lines read and the bytes written amount to."""
        return round(self.bytes_touched / (2 * self.bytes_written), 2)

    @property
    def bytes_in_sectors(self) -> int:
        """The bytes of the 32-byte sectors that a GPU reads, plus the bytes written."""
        if self._moves == "slice":
            return self._window_bytes + self._touched(32)
        return self._total + (self._window_bytes if self._moves == "slice_grad" else self._total)

    @property
    def _moves(self) -> str:
        """The operation that moves the bytes: those of a slice's backward pass are those of slice_grad."""
        derivatives = {"slice": "slice_grad", "slice_grad": "slice"} if self.form == "backward" else {}
        return derivatives.get(self.operation, self.operation)

    @property
    def _total(self) -> int:
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    @property
    def _window_bytes(self) -> int:
        counts = (len(range(*s.indices(n))) for s, n in zip(self.index, self.shape, strict=True))
        return math.prod(counts) * np.dtype(self.dtype).itemsize

    def _touched(self, granule: int) -> int:
        """The bytes that are read with the window if memory is read in aligned units of `granule` bytes."""
        itemsize = np.dtype(self.dtype).itemsize
        read = self._total
        for d, (s, n) in enumerate(zip(self.index, self.shape, strict=True)):
            start, stop, step = s.indices(n)
            apart = abs(step) * (math.prod(self.shape[d + 1 :]) * itemsize)
            read = read * (len(range(start, stop, step)) if apart >= granule else abs(stop - start)) // n
        return read


def last(s: slice) -> Index:
    return (ALL, ALL, s)


PLAIN = "windows, stride −1, split, join, slice_grad, one length per batch item"
STRIDED = "strides ±2, ±3, ±4 of the last axis"
COLUMN = "a length per column"
ROW = "a length per row, last axis"
OTHER = "transposed inputs, channels_last"
CROSSED = "transposed input to contiguous result"
UNEQUAL = "split into 64 unequal pieces"

BASIC = [
    Case("window, last axis halved", "slice", index=last(ALL), target=PLAIN),
    Case("stride -1, last axis", "slice", index=last(slice(None, None, -1)), target=PLAIN),
    Case("stride -1, all axes", "slice", index=(slice(None, None, -1),) * 3, target=PLAIN),
    Case("stride -2, middle axis", "slice", index=(ALL, slice(None, None, -2), ALL), target=PLAIN),
    *(
        Case(f"stride {k}, last axis", "slice", index=last(slice(None, None, k)), target=STRIDED)
        for k in (2, 3, 4, -2, -3, -4)
    ),
    Case("slice_grad, last axis halved", "slice_grad", index=last(ALL), target=PLAIN),
    Case("slice_grad, stride 2, last axis", "slice_grad", index=last(slice(None, None, 2)), target=PLAIN),
    *(Case(f"split last axis in {k}", "split", axis=2, count=k, target=PLAIN) for k in (2, 3, 16, 64)),
    Case("split middle axis in 4", "split", axis=1, count=4, target=PLAIN),
    *(Case(f"join last axis of {k}", "join", axis=2, count=k, target=PLAIN) for k in (2, 3, 16, 64)),
    Case("reverse axis 1, a length per batch item", "reverse", axis=1, varies=(0,), target=PLAIN),
    Case("reverse axis 1, a length per column", "reverse", axis=1, varies=(0, 2), target=COLUMN),
    Case("reverse last axis, a length per row", "reverse", axis=2, varies=(0, 1), target=ROW),
]


# Rows that are no power of two, and of the smaller dtypes no whole number of 4-byte words.
ODD_ROWS = [("float32", 500), ("float32", 1023), ("float16", 333), ("uint8", 1001)]
SHORT_ROWS = [("float32", 21), ("float16", 77), ("uint8", 31), ("uint8", 333)]
LONG_ROWS = [("float32", 1500), ("uint8", 13000)]


def _of_many_axes() -> list[Case]:
    """Every other axis turned round, so that no two are one."""
    flips = [tuple(slice(None, None, -1 if d % 2 == 0 else 1) for d in range(axes)) for axes in (4, 5, 6, 8)]
    return [Case(f"stride -1, every other of {len(f)} axes", "slice", index=f, axes=len(f)) for f in flips]


def sized(case: Case, size: str) -> Case:
    """The case at a size; "halved" refers to the last axis at that size."""
    result = replace(case, size=size)
    return replace(result, index=last(slice(0, result.shape[2] // 2))) if "halved" in case.name else result


def _of_few_columns() -> list[Case]:
    return [
        case
        for inner in (1, 2, 3, 7)
        for case in (
            Case(f"stride -1 of a last axis of {inner}", "slice", index=(ALL, slice(None, None, -1)), inner=inner),
            Case(f"split a last axis of {inner} into ones", "split", axis=1, count=inner, inner=inner),
            Case(f"join ones to a last axis of {inner}", "join", axis=1, count=inner, inner=inner),
        )
    ]


def _by_other_lengths(size: str) -> list[Case]:
    return [
        replace(sized(case, size), lengths=lengths, name=f"{case.name}, {lengths}")
        for lengths in ("short", "full", "zero")
        for case in BASIC[-3:]
    ]


def _in_layout(layout: str) -> list[Case]:
    tail = (ALL,) * (2 if layout == "channels last" else 1)
    return [
        Case("window, axis 1", "slice", index=(ALL, slice(1, None), *tail), layout=layout, target=OTHER),
        Case("stride -1, axis 1", "slice", index=(ALL, slice(None, None, -1), *tail), layout=layout, target=OTHER),
        Case("split axis 1 in 4", "split", axis=1, count=4, layout=layout, target=OTHER),
    ]


def _crossed(window: Case) -> Case:
    return replace(window, name=f"{window.name}, to contiguous", to_contiguous=True, form="out")


def all_cases() -> list[Case]:
    """What is measured on the CPU."""
    cases = [sized(case, size) for case in BASIC for size in BYTES]
    cases += [replace(case, form="out") for case in cases]
    for dtype, row in ODD_ROWS:
        odd = [sized(replace(case, dtype=dtype, row=row), "4 MB") for case in BASIC]
        cases += odd + [replace(case, form="out") for case in odd]
    some = [case for case in BASIC if case.name.startswith("stride") or case.target == ROW]
    for rows, size in ((SHORT_ROWS, "4 MB"), (LONG_ROWS, "128 MB")):
        cases += [replace(case, dtype=dtype, row=row, size=size, form="out") for dtype, row in rows for case in some]
    for dtype in ("float64", "complex64"):
        cases += [replace(sized(case, "4 MB"), dtype=dtype, target="") for case in BASIC[::3]]
    cases += [replace(case, size=size) for case in _of_few_columns() for size in ("4 MB", "128 MB")]
    cases += _by_other_lengths("4 MB")
    many = sized(Case("split last axis in 128", "split", axis=2, count=128), "4 MB")
    cases += [many, replace(many, form="out")]
    for layout in ("transposed", "channels last"):
        for case in (in_layout := _in_layout(layout)):
            cases += [replace(case, size=size, form=form) for size in ("4 MB", "128 MB") for form in ("fresh", "out")]
        cases += [replace(_crossed(in_layout[0]), size=size) for size in ("4 MB", "128 MB")]
    return cases


def measured_with_all_threads(number: int, case: Case) -> bool:
    """A third of the cases, of every size and form."""
    return (number // 3 + number) % 3 == 0 or case.target in (COLUMN, ROW)


def gpu_cases() -> list[Case]:
    """What is measured on a GPU: into given memory, except at 64 KB, where the launch dominates."""
    basic = [*BASIC, Case("split last axis in 64 unequal", "split", axis=2, count=64, unequal=True, target=UNEQUAL)]
    cases = [sized(case, size) for size in GPU_SIZES for case in basic]
    cases += [replace(_crossed(_in_layout("transposed")[0]), target=CROSSED, size=size) for size in GPU_SIZES[1:]]
    for dtype in ("uint8", "float16"):
        cases += [replace(sized(case, "1 GB"), dtype=dtype) for case in BASIC if case.target == PLAIN]
    unequal = [Case(f"join last axis of {k} unequal", "join", axis=2, count=k, unequal=True) for k in (3, 16, 64)]
    others = [*_in_layout("transposed"), *_in_layout("channels last"), _crossed(_in_layout("channels last")[0])]
    others += [replace(case, dtype="uint8") for case in [unequal[-1], *_of_few_columns()] if case.inner in (0, 3)]
    others += [replace(unequal[-1], dtype="float16"), *unequal, *_of_few_columns(), *_of_many_axes()]
    others = [replace(case, size="1 GB") for case in others]
    cases += [replace(case, target="") for case in [*others, *_by_other_lengths("1 GB")]]
    odd = [replace(case, dtype=dtype, row=row, target="") for dtype, row in ODD_ROWS for case in BASIC[1::3]]
    cases += [sized(case, "1 GB") for case in odd]
    return [replace(case, form="fresh" if case.size == "64 KB" else "out") for case in cases]


def gpu_backward_cases() -> list[Case]:
    """One of each derivative and each way in which lengths may vary."""
    some = [case for case in BASIC if case.operation == "reverse" or case.count in (2, 16)]
    some += [case for case in BASIC if re.match("window|stride (-1|2), last|slice_grad", case.name)]
    return [replace(sized(case, "1 GB"), form="backward", target="") for case in some]


def selected(cases: Iterable[Any], texts: Sequence[str]) -> list[Any]:
    """The cases whose keys contain one of the texts; all, where there is none."""
    return [case for case in cases if not texts or any(text in case.key for text in texts)]
