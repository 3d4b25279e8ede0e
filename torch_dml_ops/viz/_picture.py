"""Pictures of tensors: a cell for each element, a grid for each two dimensions, grids in rows and columns for the rest.

Everything is measured before it is drawn, in inches from the upper left corner, so that no text leaves its place.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import Rectangle
from matplotlib.textpath import TextPath

WIDEST, HIGHEST = 9.0, 12.0  # inches: what a notebook shows without making it smaller
FONT_SIZES = (10, 9, 8, 7)  # points: the largest that fits; the small text of the last is 5 points

INK, PALE_INK, RULE = "#000000", "#6B6B6B", "#BDBDBD"
BLANK, LENGTH_FILL = "#FFFFFF", "#EDEDED"
WINDOW = "#D55E00"
# Okabe and Ito's colours, lightened so that text on them can be read. In this order, colour-blind readers can tell
# neighbours apart too.
PIECES = ("#F1CA73", "#73B1D5", "#E28E4D", "#DBA1C1", "#F7F097", "#4DBB9D", "#BBE1F6")
_RAMP = (np.array([232, 242, 250]), np.array([86, 160, 211]))

# Inches.
_MARGIN = 0.1
_BETWEEN_PANELS, _BETWEEN_ROWS, _BETWEEN_ENTRIES = 0.35, 0.2, 0.3
_SWATCH, _AFTER_SWATCH, _LEGEND_LINE = 0.17, 0.08, 0.24
_LEGEND_POINTS = 8.0


def shade(k: int, count: int) -> str:
    """From pale to dark: the k-th of several."""
    first, last = _RAMP
    red, green, blue = (first + (last - first) * (k / max(count - 1, 1))).astype(int)
    return f"#{red:02X}{green:02X}{blue:02X}"


class Cell(NamedTuple):
    """An element: its text, and below it a small one."""

    text: str
    fill: str = BLANK
    tag: str = ""
    color: str = INK


class Outline(NamedTuple):
    """A line around elements, in each grid that has some of them."""

    offsets: Sequence[int]
    sizes: Sequence[int]
    color: str
    width: float  # points


@dataclass(frozen=True)
class Panel:
    """A tensor.

    Attributes:
        name: the prefix of its artists' gids: ``name[0, 1]`` is the gid of an element's artist.
        sizes: of 1 to 4 dimensions.
        cells: for each element, in order.
        outlines: lines around some of them.
        start: the element that is marked as the first.
        lengths: for each row along ``axis``, in order; they are drawn at its end.
        axis: that of the lengths.
    """

    name: str
    sizes: tuple[int, ...]
    cells: Sequence[Cell]
    outlines: Sequence[Outline] = ()
    start: tuple[int, ...] | None = None
    lengths: Sequence[Cell] = ()
    axis: int = -1

    @property
    def title(self) -> str:
        return f"{self.name}, sizes {list(self.sizes)}"

    @property
    def everything(self) -> Iterator[Cell]:
        return itertools.chain(self.cells, self.lengths)


class Entry(NamedTuple):
    """What a mark means: fills side by side, or a line where there are none."""

    label: str
    fills: Sequence[str] = ()
    line: str = RULE
    width: float = 0.8


@lru_cache(maxsize=4096)
def _points(text: str, weight: str) -> float:
    """The width of a text of 100 points."""
    font = FontProperties(family="DejaVu Sans", weight=weight)
    path: Any = TextPath((0, 0), text, size=100, prop=font, usetex=False)
    return float(path.get_extents().x1)


def _width(text: str, points: float, weight: str = "normal") -> float:
    """Inches."""
    return _points(text, weight) / 100 * points / 72 if text else 0.0


def _line(points: float) -> float:
    """The height of a line of text, in inches."""
    return points * 1.4 / 72


class _Style(NamedTuple):
    """What all panels of a picture share."""

    points: float
    small: float
    width: float  # of a cell
    height: float

    @classmethod
    def of(cls, panels: Sequence[Panel], points: float) -> _Style:
        small = 0.72 * points
        cells = [cell for panel in panels for cell in panel.everything]
        lines = [points, small] if any(cell.tag for cell in cells) else [points]
        height = sum(map(_line, lines)) + 0.5 * points / 72
        widest = max(max(_width(cell.text, points), _width(cell.tag, small)) for cell in cells)
        return cls(points, small, max(height, widest + 0.8 * points / 72), height)


class _Geometry:
    """Where the parts of a panel are, from its own upper left corner."""

    def __init__(self, panel: Panel, style: _Style) -> None:
        rank = len(panel.sizes)
        self.panel, self.style, self.rank = panel, style, rank
        self.sizes = (1,) * (4 - rank) + panel.sizes
        self.along = panel.axis % rank + 4 - rank if panel.lengths else None
        self.apart = 0.3 * style.height  # between the elements and their lengths
        counts = [size + (d == self.along) for d, size in enumerate(self.sizes)]
        self.grid = tuple(
            counts[d] * cell + (self.apart if d == self.along else 0)
            for d, cell in ((2, style.height), (3, style.width))
        )
        row_labels = [*map(str, range(self.sizes[2])), *(["length"] if self.along == 2 else [])]
        labels = max(_width(label, style.small) for label in row_labels)
        self.left = labels + _line(style.small) + 0.8 * style.small / 72 if rank > 1 else 0.0
        self.over_blocks = _line(style.small) if rank > 2 else 0.0
        self.over_columns = _line(style.small)  # in the first row of grids, their indices
        title = max((_width(name, style.small) for _, name in self.blocks()), default=0.0)
        self.step = self.grid[0] + 0.6 * style.height + self.over_blocks, max(self.grid[1], title) + 0.6 * style.height
        axis_name = _line(style.small)
        self.top = _line(style.points) + 0.06 + axis_name + self.over_blocks + self.over_columns
        self.height = self.top + (counts[0] - 1) * self.step[0] + self.grid[0]
        drawn = self.left + (counts[1] - 1) * self.step[1] + max(self.grid[1], title)
        self.width = max(drawn, _width(panel.title, style.points, "bold"))

    def blocks(self) -> Iterator[tuple[tuple[int, int], str]]:
        """Each grid with its title, those of lengths included."""
        if self.rank < 3:
            return
        counts = [self.sizes[d] + (d == self.along) for d in (0, 1)]
        for block in itertools.product(*map(range, counts)):
            beyond = [self.along == d and block[d] == self.sizes[d] for d in (0, 1)]
            index = [0 if is_beyond else k for k, is_beyond in zip(block, beyond, strict=True)][4 - self.rank :]
            name = "lengths" if any(beyond) else ""
            yield (block[0], block[1]), f"{name}[{', '.join(map(str, index))}, :, :]"

    def corner(self, index: Sequence[int]) -> tuple[float, float]:
        """The upper left corner of an element; one past the end of the lengths' axis is a length."""
        at = (0,) * (4 - len(index)) + tuple(index)
        beyond = [self.apart if d == self.along and at[d] == self.sizes[d] else 0.0 for d in (2, 3)]
        x = self.left + at[1] * self.step[1] + at[3] * self.style.width + beyond[1]
        y = self.top + at[0] * self.step[0] + at[2] * self.style.height + beyond[0]
        return x, y


class Picture(Figure):
    """A figure that notebooks show without pyplot."""

    def _repr_png_(self) -> bytes:
        file = io.BytesIO()
        self.savefig(file, format="png")
        return file.getvalue()


class _Drawing:
    """Draws at places in inches, y downwards, with nothing taken from matplotlib's settings."""

    def __init__(self, width: float, height: float) -> None:
        self.figure = Picture(figsize=(width, height), dpi=100, facecolor="white")
        self.axes: Axes = self.figure.add_axes((0, 0, 1, 1))
        self.axes.set(xlim=(0, width), ylim=(height, 0))
        self.axes.set_axis_off()

    def text(self, x: float, y: float, text: str, points: float, **more: Any) -> None:
        options = {"ha": "center", "va": "center", "color": INK} | more
        options |= {"fontfamily": "DejaVu Sans", "fontsize": points, "usetex": False, "parse_math": False}
        self.axes.text(x, y, text, **options)

    def rectangle(self, x: float, y: float, width: float, height: float, **more: Any) -> None:
        options: dict[str, Any] = {"facecolor": "none", "clip_on": False} | more
        self.axes.add_patch(Rectangle((x, y), width, height, **options))


def _draw_panel(drawing: _Drawing, g: _Geometry, x: float, y: float) -> None:
    panel, style = g.panel, g.style
    drawing.text(x, y + _line(style.points) / 2, panel.title, style.points, ha="left", fontweight="bold")
    _draw_indices(drawing, g, x, y)
    places = [(panel.name, index, index) for index in np.ndindex(panel.sizes)]
    if panel.lengths:
        axis, end = panel.axis, panel.sizes[panel.axis]
        sizes = tuple(1 if d == axis else n for d, n in enumerate(panel.sizes))
        at_end = [(index, (*index[:axis], end, *index[axis + 1 :])) for index in np.ndindex(sizes)]
        places += [("lengths", index, place) for index, place in at_end]
    for (name, index, place), cell in zip(places, panel.everything, strict=True):
        left, top = g.corner(place)
        _draw_cell(drawing, style, cell, x + left, y + top, f"{name}{list(index)}")
    for k, outline in enumerate(panel.outlines):
        _draw_outline(drawing, g, outline, x, y, f"{panel.name} outline {k}")
    if panel.start is not None:
        left, top = g.corner(panel.start)
        inset = 0.04
        box = x + left + inset, y + top + inset, style.width - 2 * inset, style.height - 2 * inset
        drawing.rectangle(*box, edgecolor=INK, linewidth=2.0, zorder=5, gid=f"{panel.name} start")


def _draw_indices(drawing: _Drawing, g: _Geometry, x: float, y: float) -> None:
    style, small = g.style, g.style.small
    pale: dict[str, Any] = {"color": PALE_INK}
    middle = x + g.left + g.sizes[3] * style.width / 2
    above = y + g.top - _line(small) / 2
    drawing.text(middle, above - _line(small) - g.over_blocks, f"axis {g.rank - 1}", small, **pale)
    if g.rank > 1:
        middle = y + g.top + g.sizes[2] * style.height / 2
        drawing.text(x + _line(small) / 2, middle, f"axis {g.rank - 2}", small, rotation=90, **pale)
        for k in range(g.sizes[2] + (g.along == 2)):
            _, top = g.corner((0, 0, k, 0))
            name, right = "length" if k == g.sizes[2] else str(k), x + g.left - 0.3 * small / 72
            drawing.text(right, y + top + style.height / 2, name, small, ha="right", **pale)
    for column, k in itertools.product(range(g.sizes[1]), range(g.sizes[3] + (g.along == 3))):
        left, _ = g.corner((0, column, 0, k))
        name = "length" if k == g.sizes[3] else str(k)
        drawing.text(x + left + style.width / 2, above, name, small, **pale)
    for block, name in g.blocks():
        left, top = g.corner((*block, 0, 0))
        above = top - _line(small) / 2 - (g.over_columns if block[0] == 0 else 0)
        drawing.text(x + left, y + above, name, small, ha="left", color=INK)


def _draw_cell(drawing: _Drawing, style: _Style, cell: Cell, x: float, y: float, gid: str) -> None:
    box = {"facecolor": cell.fill, "edgecolor": RULE, "linewidth": 0.8}
    drawing.rectangle(x, y, style.width, style.height, gid=gid, **box)
    middle, upper, lower = x + style.width / 2, 0.5, 0.79
    if cell.tag:
        upper = 0.36
        drawing.text(middle, y + lower * style.height, cell.tag, style.small, gid=f"{gid} tag", color=cell.color)
    drawing.text(middle, y + upper * style.height, cell.text, style.points, gid=f"{gid} text", color=cell.color)


def _draw_outline(drawing: _Drawing, g: _Geometry, outline: Outline, x: float, y: float, gid: str) -> None:
    offsets = (0,) * (4 - g.rank) + tuple(outline.offsets)
    sizes = (1,) * (4 - g.rank) + tuple(outline.sizes)
    for block in itertools.product(*(range(offsets[d], offsets[d] + sizes[d]) for d in (0, 1))):
        left, top = g.corner((*block, *offsets[2:]))
        drawing.rectangle(
            x + left,
            y + top,
            sizes[3] * g.style.width,
            sizes[2] * g.style.height,
            edgecolor=outline.color,
            linewidth=outline.width,
            zorder=4,
            gid=gid,
        )


def _entry_width(entry: Entry) -> float:
    return _SWATCH * max(len(entry.fills), 1) + _AFTER_SWATCH + _width(entry.label, _LEGEND_POINTS)


def _flow(widths: Sequence[float], limit: float, between: float) -> list[list[int]]:
    """The indices, line by line."""
    lines: list[list[int]] = []
    used = 0.0
    for k, width in enumerate(widths):
        if not lines or used + between + width > limit:
            lines.append([])
            used = -between
        lines[-1].append(k)
        used += between + width
    return lines


def _arrangements(panels: Sequence[_Geometry]) -> Iterator[list[list[_Geometry]]]:
    """The input beside the outputs, and above them."""
    limit = WIDEST - 2 * _MARGIN
    yield [list(panels)]
    first, *others = panels
    lines = _flow([g.width for g in others], limit, _BETWEEN_PANELS)
    yield [[first], *([others[k] for k in line] for line in lines)]


def _size(rows: Sequence[Sequence[_Geometry]]) -> tuple[float, float]:
    widths = [sum(g.width for g in row) + _BETWEEN_PANELS * (len(row) - 1) for row in rows]
    heights = [max(g.height for g in row) for row in rows]
    return max(widths) + 2 * _MARGIN, sum(heights) + _BETWEEN_ROWS * (len(rows) - 1) + 2 * _MARGIN


def _arranged(caller: str, panels: Sequence[Panel]) -> tuple[list[list[_Geometry]], float, float]:
    """The panels in rows, with the largest text that fits, and the width and height that they take."""
    sizes: list[tuple[float, float]] = []
    for points in FONT_SIZES:
        style = _Style.of(panels, points)
        for rows in _arrangements([_Geometry(panel, style) for panel in panels]):
            width, height = _size(rows)
            if width <= WIDEST and height <= HIGHEST:
                return rows, width, height
            sizes.append((width, height))
    width, height = min(sizes, key=lambda size: max(size[0] / WIDEST, size[1] / HIGHEST))
    raise ValueError(
        f"{caller}: with the smallest text that can be read, the picture must fit into {WIDEST:g} by {HIGHEST:g} "
        f"inches, got {width:.1f} by {height:.1f} for an input of sizes {list(panels[0].sizes)}"
    )


def draw(caller: str, panels: Sequence[Panel], legend: Sequence[Entry]) -> Figure:
    """The first panel, the others beside it or below, and what the marks mean.

    Raises ``ValueError`` where that needs more room than a notebook has.
    """
    rows, width, height = _arranged(caller, panels)
    widths = [_entry_width(entry) for entry in legend]
    width = max(width, max(widths) + 2 * _MARGIN)
    lines = _flow(widths, width - 2 * _MARGIN, _BETWEEN_ENTRIES)
    drawing = _Drawing(width, height + len(lines) * _LEGEND_LINE + _MARGIN)
    y = _MARGIN
    for row in rows:
        x = _MARGIN
        for g in row:
            _draw_panel(drawing, g, x, y)
            x += g.width + _BETWEEN_PANELS
        y += max(g.height for g in row) + _BETWEEN_ROWS
    for n, line in enumerate(lines):
        x = _MARGIN
        for k in line:
            _draw_entry(drawing, legend[k], x, height + (n + 0.5) * _LEGEND_LINE)
            x += widths[k] + _BETWEEN_ENTRIES
    return drawing.figure


def _draw_entry(drawing: _Drawing, entry: Entry, x: float, y: float) -> None:
    box = {"edgecolor": entry.line, "linewidth": entry.width}
    for fill in entry.fills or [BLANK]:
        drawing.rectangle(x, y - _SWATCH / 2, _SWATCH, _SWATCH, facecolor=fill, **box)
        x += _SWATCH
    drawing.text(x + _AFTER_SWATCH, y, entry.label, _LEGEND_POINTS, ha="left")
