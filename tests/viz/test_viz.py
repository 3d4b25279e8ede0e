"""The pictures: every cell shows the right element, every text is in its place, and nothing else is touched."""

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
import refusals
import torch
from descriptors.cases import op_desc
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from matplotlib.text import Text
from processes import run_python

import torch_dml_ops as dml
from torch_dml_ops import viz
from torch_dml_ops.directml import DescriptorError, Slice1OperatorDesc, SplitOperatorDesc, TensorDataType, TensorDesc
from torch_dml_ops.viz import _picture

Index = tuple[int, ...]


def numbered(sizes: list[int] | tuple[int, ...]) -> torch.Tensor:
    """Values that are all different, and different from their places."""
    return torch.arange(100, 100 + math.prod(sizes)).reshape(sizes)


class Drawn:
    """A picture's artists, by the names of what they show."""

    def __init__(self, figure: Figure) -> None:
        self.axes = figure.axes[0]
        self.boxes = [patch for patch in self.axes.patches if isinstance(patch, Rectangle) and patch.get_gid()]
        self.cells = {str(box.get_gid()): box for box in self.boxes}
        self.texts = {str(text.get_gid()): text.get_text() for text in self.axes.texts if text.get_gid()}
        self.inks = {str(text.get_gid()): text.get_color() for text in self.axes.texts if text.get_gid()}
        self.legend = [patch for patch in self.axes.patches if not patch.get_gid()]

    def names(self) -> set[str]:
        """Of all elements."""
        return {gid.removesuffix(" text") for gid in self.texts if gid.endswith(" text")}

    def text(self, name: str, index: Index) -> str:
        return self.texts[f"{name}{list(index)} text"]

    def tag(self, name: str, index: Index) -> str | None:
        return self.texts.get(f"{name}{list(index)} tag")

    def fill(self, name: str, index: Index) -> Any:
        return self.cells[f"{name}{list(index)}"].get_facecolor()

    def within(self, outline: str, name: str, sizes: tuple[int, ...]) -> set[Index]:
        """The elements that lie in an outline."""
        lines = [box.get_bbox() for box in self.boxes if box.get_gid() == outline]
        middles = {index: self.middle(name, index) for index in np.ndindex(sizes)}
        return {index for index, middle in middles.items() if any(line.contains(*middle) for line in lines)}

    def middle(self, name: str, index: Index) -> tuple[float, float]:
        (x0, y0), (x1, y1) = self.cells[f"{name}{list(index)}"].get_bbox().get_points()
        return (x0 + x1) / 2, (y0 + y1) / 2


def names(**sizes: tuple[int, ...]) -> set[str]:
    return {f"{name}{list(index)}" for name, size in sizes.items() for index in np.ndindex(size)}


# What the cells show.

WINDOWS: list[tuple[list[int], list[int], list[int], list[int], list[int] | None]] = [
    ([9], [1], [8], [-3], None),
    ([4, 4], [0, 1], [4, 3], [-2, 2], None),
    ([4, 4], [0, 1], [4, 3], [-2, 2], [1, 2]),
    ([3, 4, 5], [0, 1, 0], [3, 3, 5], [-2, -1, 2], None),
    ([1, 1, 4, 4], [0, 0, 0, 1], [1, 1, 4, 3], [1, 1, -2, 2], None),
    ([2, 3, 3, 4], [1, 0, 0, 1], [1, 3, 3, 3], [1, -2, -1, 2], None),
]
SPLITS = [
    ([7], [2, 4, 1], 0),
    ([6, 2], [2, 1, 3], 0),
    ([6, 2], [1, 1], 1),
    ([3, 3, 2], [1, 2], 0),
    *(([2, 3, 2, 4], *pieces) for pieces in (([3], 1), ([1, 3], 3), ([1, 1], 0))),
    ([2, 12], [1] * 12, 1),
]
REVERSALS = [
    (sizes, torch.tensor(lengths), axis)
    for sizes, lengths, axis in (
        ([7], [5], 0),
        ([3, 4], [[2], [4], [3]], 1),
        ([3, 4], [[2, 3, 1, 0]], 0),
        ([2, 3, 2], [[[3, 2]], [[9, -1]]], 1),
        ([3, 2, 2], [[[0, 1], [2, 3]]], 0),
        ([2, 2, 2, 3], [[[[0, 1, 2], [2, 1, 0]], [[1, 1, 2], [2, 2, 2]]]], 0),
        ([2, 2, 2, 3], [[[[0, 1, 2], [2, 1, 0]]], [[[1, 1, 2], [2, 2, 2]]]], 1),
        ([2, 2, 2, 3], [[[[3], [2]], [[1], [0]]]] * 2, 3),
    )
]
PLOTS: dict[Callable[..., Figure], Sequence[tuple[Any, ...]]] = {
    viz.plot_slice1: WINDOWS,
    viz.plot_split: SPLITS,
    viz.plot_reverse_subsequences: REVERSALS,
}

with_values_and_without = pytest.mark.parametrize("with_values", [True, False])


def check_cells(
    drawn: Drawn, tensors: dict[str, torch.Tensor], shown: Callable[[int], tuple[str, str | None, Any]]
) -> None:
    """By the number that an element has: its text, its tag and its colour."""
    for name, tensor in tensors.items():
        for index in np.ndindex(tensor.shape):
            text, tag, colour = shown(int(tensor[index]))
            assert (drawn.text(name, index), drawn.tag(name, index)) == (text, tag)
            assert to_rgb(drawn.fill(name, index)) == to_rgb(colour)
            inks = {drawn.inks.get(f"{name}{list(index)} {kind}") for kind in ("text", "tag")}
            assert inks - {None} == {_picture.PALE_INK if colour == _picture.BLANK else _picture.INK}


@pytest.mark.parametrize("case", WINDOWS, ids=str)
@with_values_and_without
def test_slice1(case: Any, with_values: bool) -> None:
    sizes, offsets, extents, strides, output_sizes = case
    x = numbered(sizes)
    result = dml.slice1(x, *case[1:])
    drawn = Drawn(viz.plot_slice1(x if with_values else sizes, offsets, extents, strides, output_sizes))
    assert drawn.names() == names(input=x.shape, output=result.shape)
    places = {value: k for k, value in enumerate(result.flatten().tolist())}

    def shown(value: int) -> tuple[str, str | None, Any]:
        number = str(places[value]) if value in places else None
        colour = _picture.BLANK if number is None else _picture.shade(places[value], len(places))
        return (str(value), number, colour) if with_values else (number or "", None, colour)

    check_cells(drawn, {"input": x, "output": result}, shown)
    window = itertools.product(*(range(o, o + e) for o, e in zip(offsets, extents, strict=True)))
    assert drawn.within("input outline 0", "input", x.shape) == set(window)
    start = tuple(o + (e - 1 if s < 0 else 0) for o, e, s in zip(offsets, extents, strides, strict=True))
    assert drawn.within("input start", "input", x.shape) == {start}


@pytest.mark.parametrize("case", SPLITS, ids=str)
@with_values_and_without
def test_split(case: Any, with_values: bool) -> None:
    sizes, parts, axis = case
    x = numbered(sizes)
    pieces = {f"output[{k}]": piece for k, piece in enumerate(dml.split(x, parts, axis))}
    drawn = Drawn(viz.plot_split(x if with_values else sizes, parts, axis))
    assert drawn.names() == names(input=x.shape, **{name: piece.shape for name, piece in pieces.items()})
    owners = {value: k for k, piece in enumerate(pieces.values()) for value in piece.flatten().tolist()}

    def shown(value: int) -> tuple[str, str | None, Any]:
        colour = _picture.PIECES[owners[value] % len(_picture.PIECES)]
        return str(value if with_values else value - 100), f"[{owners[value]}]", colour

    check_cells(drawn, {"input": x, **pieces}, shown)
    for k in range(len(pieces)):
        inside = {index for index in np.ndindex(x.shape) if owners[int(x[index])] == k}
        assert drawn.within(f"input outline {k}", "input", x.shape) == inside


@pytest.mark.parametrize("case", REVERSALS, ids=str)
@with_values_and_without
def test_reverse_subsequences(case: Any, with_values: bool) -> None:
    sizes, lengths, axis = case
    x = numbered(sizes)
    result = dml.reverse_subsequences(x, lengths, axis)
    drawn = Drawn(viz.plot_reverse_subsequences(x if with_values else sizes, lengths, axis))
    assert drawn.names() == names(input=x.shape, output=x.shape, lengths=lengths.shape)

    def shown(value: int) -> tuple[str, str | None, Any]:
        source = [int(k) for k in np.unravel_index(value - 100, sizes)]
        moves = source[axis] < lengths[tuple(0 if d == axis else k for d, k in enumerate(source))]
        colour = _picture.shade(source[axis], sizes[axis]) if moves else _picture.BLANK
        return (str(value), str(source[axis]), colour) if with_values else (str(value - 100), None, colour)

    check_cells(drawn, {"input": x, "output": result}, shown)
    across = 1 if axis == len(sizes) - 1 else 0
    for index in np.ndindex(lengths.shape):
        assert drawn.text("lengths", index) == str(int(lengths[index]))
        assert to_rgb(drawn.fill("lengths", index)) == to_rgb(_picture.LENGTH_FILL)  # as in the legend
        if axis >= len(sizes) - 2:  # beside its row, or below its column
            assert drawn.middle("lengths", index)[across] == pytest.approx(drawn.middle("input", index)[across])


def test_lengths_that_are_broadcast_and_of_64_bits() -> None:
    x = numbered([2, 3, 2])
    lengths = dml.sequence_lengths_like(x, torch.tensor([2**64 - 1, 2], dtype=torch.uint64), axis=1)
    drawn = Drawn(viz.plot_reverse_subsequences(x, lengths, 1))
    assert [drawn.text("lengths", index) for index in np.ndindex(2, 1, 2)] == [str(2**64 - 1)] * 2 + ["2"] * 2
    assert [drawn.text("output", (k, 0, 0)) for k in range(2)] == ["104", "108"]


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        (torch.tensor([0.1, -1234.5, float("nan"), float("-inf"), -0.0]), ["0.1", "-1.23e+03", "nan", "-inf", "-0"]),
        (torch.tensor([True, False]), ["True", "False"]),
        (torch.tensor([1 + 2j]), ["1+2j"]),
        (torch.tensor([2**63], dtype=torch.uint64), ["9223372036854775808"]),
        (torch.ones(2, dtype=torch.bfloat16, requires_grad=True), ["1", "1"]),
        (torch.ones(2).to(torch.float8_e4m3fn), ["1", "1"]),
    ],
    ids=str,
)
def test_values_of_every_kind(values: torch.Tensor, shown: list[str]) -> None:
    drawn = Drawn(viz.plot_split(values, [len(values)], 0))
    assert [drawn.text("input", (k,)) for k in range(len(values))] == shown


# Places.

PICTURES: dict[str, Callable[[], Figure]] = {
    **{f"{draw.__name__} {case}": partial(draw, *case) for draw, cases in PLOTS.items() for case in cases},
    **{f"slice1 of values {c}": lambda c=c: viz.plot_slice1(torch.randn(c[0]) * 100, *c[1:]) for c in WINDOWS},
    **{f"reverse values {c}": partial(viz.plot_reverse_subsequences, numbered(c[0]), *c[1:]) for c in REVERSALS},
    "all in one": lambda: viz.plot_slice1([1], [0], [1], [1]),
    "large": lambda: viz.plot_slice1([32, 32], [1, 1], [30, 31], [-3, 2]),
    "long": lambda: viz.plot_split([24], [8, 16], 0),
    "large reversal": lambda: viz.plot_reverse_subsequences([20, 20], torch.full((20, 1), 12), 1),
    "wide values": lambda: viz.plot_split(torch.tensor([-(2**63), 2**63 - 1]), [1, 1], 0),
}


def on_one_another(extents: Any) -> Any:
    """Of boxes, their least and their largest coordinates: which overlap."""
    left, bottom, right, top = extents.T
    over = (left[:, None] < right) & (left < right[:, None]) & (bottom[:, None] < top) & (bottom < top[:, None])
    return np.triu(over, 1)


@pytest.mark.parametrize("draw", PICTURES.values(), ids=PICTURES.keys())
def test_texts_are_in_their_places(draw: Callable[[], Figure]) -> None:
    """In their cells, of which none lies on another, in the figure, and none on another."""
    figure = draw()
    assert figure.get_figwidth() <= 9
    assert all(patch.get_linewidth() >= 0 for patch in figure.findobj(Patch))
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    drawn = Drawn(figure)
    corners = np.array([drawn.cells[name].get_bbox().extents for name in sorted(drawn.names())])
    assert not on_one_another(np.round(corners, 6)).any()
    texts = [text for text in drawn.axes.texts if text.get_text()]
    extents = np.array([text.get_window_extent(renderer).extents for text in texts])
    width, height = canvas.get_width_height()
    assert (extents >= 0).all()
    assert (extents <= [width, height, width, height]).all()
    for text, (x0, y0, x1, y1) in zip(texts, extents, strict=True):
        assert text.get_fontsize() >= 5
        if text.get_gid():
            cell = drawn.cells[str(text.get_gid()).rsplit(" ", 1)[0]].get_window_extent(renderer)
            assert cell.x0 <= x0 <= x1 <= cell.x1
            assert cell.y0 <= y0 <= y1 <= cell.y1
    apart = 0.5  # pixels: what rounding to them may take
    over = on_one_another(extents + np.array([apart, apart, 0, 0]))
    assert [(texts[a].get_text(), texts[b].get_text()) for a, b in np.argwhere(over)] == []


@pytest.mark.parametrize(("draw", "cases"), PLOTS.items())
def test_axes_and_indices_are_named(draw: Callable[..., Figure], cases: Sequence[tuple[Any, ...]]) -> None:
    """Of the last two beside each panel, and lengths that stand at the end of rows or columns."""
    for sizes, *case in cases:
        texts = Counter(text.get_text() for text in draw(sizes, *case).axes[0].texts if not text.get_gid())
        for d in range(len(sizes))[-2:]:
            assert texts[f"axis {d}"] >= 2, texts
            assert all(texts[str(k)] >= 1 for k in range(sizes[d])), texts
        for block in np.ndindex(*sizes[:-2]) if len(sizes) > 2 else ():
            assert texts[f"[{', '.join(map(str, block))}, :, :]"] >= 1, texts
            if draw is viz.plot_reverse_subsequences and case[-1] < len(block):
                at = ", ".join("0" if d == case[-1] else str(k) for d, k in enumerate(block))
                assert texts[f"lengths[{at}, :, :]"] == 1, texts
        at_the_end = draw is viz.plot_reverse_subsequences and case[-1] in range(len(sizes))[-2:]
        assert (texts["length"] > 1) == at_the_end, texts  # beside the legend's


# Colours.

# Machado, Oliveira and Fernandes (2009): how people without one kind of cones see, in linear RGB.
SEEN_BY = {
    "all cones": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def linear(color: str) -> Any:
    rgb = np.array(to_rgb(color))
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def lab(rgb: Any) -> Any:
    """CIELAB, of linear RGB."""
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    f = np.cbrt(to_xyz @ np.clip(rgb, 0.01, 1) / [0.9505, 1, 1.089])
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("eyes", SEEN_BY)
def test_pieces_differ_to_all_eyes(eyes: str) -> None:
    seen = [lab(np.array(SEEN_BY[eyes]) @ linear(color)) for color in _picture.PIECES]
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)) > 9  # 2.3 can just be seen
    assert min(np.linalg.norm(a - b) for a, b in itertools.pairwise([*seen, seen[0]])) > 25


def test_text_stands_out_from_what_is_behind_it() -> None:
    def luminance(color: str) -> float:
        return float(linear(color) @ [0.2126, 0.7152, 0.0722])

    fills = [*_picture.PIECES, _picture.BLANK, _picture.LENGTH_FILL, *(_picture.shade(k, 9) for k in range(9))]
    pairs = [(_picture.INK, fill) for fill in fills] + [(_picture.PALE_INK, _picture.BLANK)]
    for ink, fill in pairs:
        assert (luminance(fill) + 0.05) / (luminance(ink) + 0.05) >= 4.5  # as the web's guidelines want it


# Arguments of every kind.


def pixels(figure: Figure) -> Any:
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())


def same(actual: Figure, expected: Figure) -> None:
    np.testing.assert_array_equal(pixels(actual), pixels(expected))


def descriptors() -> Iterator[tuple[Figure, Figure]]:
    """What is drawn of descriptors, and of the same arguments."""
    for sizes, *walk, steps in WINDOWS:
        if steps is None:
            x = TensorDesc(TensorDataType.FLOAT32, sizes)
            desc = op_desc("SLICE1", x, Slice1OperatorDesc.infer_output(x, *walk), *walk)
            yield viz.plot_slice1(desc), viz.plot_slice1(sizes, *walk)
    for sizes, parts, axis in SPLITS:
        x = TensorDesc(TensorDataType.FLOAT32, sizes)
        desc = op_desc("SPLIT", x, SplitOperatorDesc.infer_output(x, axis, parts), axis)
        yield viz.plot_split(desc), viz.plot_split(sizes, parts, axis)
    for sizes, lengths, axis in REVERSALS:
        x = TensorDesc(TensorDataType.FLOAT32, sizes)
        desc = op_desc("REVERSE_SUBSEQUENCES", x, TensorDesc(TensorDataType.UINT32, lengths.shape), x, axis)
        yield viz.plot_reverse_subsequences(desc, lengths), viz.plot_reverse_subsequences(sizes, lengths, axis)


def test_descriptors() -> None:
    for pictures in descriptors():
        same(*pictures)


@pytest.mark.parametrize(
    "kind", [iter, tuple, np.array, lambda ns: [np.int32(n) for n in ns], lambda ns: (n for n in ns)]
)
def test_numbers_of_every_kind(kind: Callable[[list[int]], Any]) -> None:
    same(viz.plot_slice1(*map(kind, WINDOWS[2])), viz.plot_slice1(*WINDOWS[2]))
    sizes, parts, axis = SPLITS[1]
    same(viz.plot_split(kind(sizes), kind(parts), next(iter(kind([axis])))), viz.plot_split(sizes, parts, axis))
    sizes, lengths, axis = REVERSALS[1]
    expected = viz.plot_reverse_subsequences(sizes, lengths, axis)
    same(viz.plot_reverse_subsequences(kind(sizes), lengths, next(iter(kind([axis])))), expected)


def test_a_tensor_without_data_is_drawn_by_its_sizes() -> None:
    by_sizes = viz.plot_split([4], [4], 0)
    same(viz.plot_split(torch.empty(4, device="meta"), [4], 0), by_sizes)
    with torch.device("meta"):  # where tensors have no data otherwise, either
        same(viz.plot_split([4], [4], 0), by_sizes)


# Refusals.

X = TensorDesc(TensorDataType.FLOAT32, [4])
OPERATORS = ("slice1", "split", "reverse_subsequences")


@pytest.mark.parametrize(
    ("op", "sentence", "arguments"), [(op, *row) for op in OPERATORS for row in refusals.ARGUMENTS[op]]
)
def test_refusals_of_the_operators(op: str, sentence: str, arguments: Callable[..., Any]) -> None:
    x, *rest = arguments(lambda *sizes, dtype=torch.float32: torch.zeros(sizes, dtype=dtype))
    if 1 <= x.dim() <= 4 and x.numel():  # of others the picture's own rule is told first
        for given in (x, x.shape):
            with pytest.raises(RuntimeError) as caught:
                getattr(viz, f"plot_{op}")(given, *rest)
            assert str(caught.value) == f"{op}: {sentence}"


@pytest.mark.parametrize(
    ("error", "arguments", "sentence"),
    [
        (
            ValueError,
            [[1024], [0], [1024], [1]],
            "plot_slice1: with the smallest text that can be read, the picture must fit into 9 by 12 inches, got",
        ),
        (
            DescriptorError,
            [op_desc("SLICE1", X, X, [0], [4], [0])],
            "SLICE1 at feature level 6_4 breaks a rule:\n  input_window_strides[0] must not be 0, got 0",
        ),
    ],
)
def test_refusals(error: type[Exception], arguments: list[Any], sentence: str) -> None:
    """The others are lines of tests/contract/mistakes.txt."""
    with pytest.raises(error, match=f"^{re.escape(sentence)}"):
        viz.plot_slice1(*arguments)


# Matplotlib.


def test_what_is_drawn_grows_with_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """All distances do, but the one below a title."""
    drawn: list[_picture.Panel] = []
    monkeypatch.setattr(viz.plots, "draw", lambda _, panels, *__, **___: drawn.extend(panels))
    for plot, cases in PLOTS.items():
        for sizes, *arguments in cases:
            plot(numbered(sizes), *arguments)
    assert drawn
    for panel in drawn:
        small, large = (_picture._Geometry(panel, _picture._Style.of([panel], points)) for points in (6.0, 12.0))
        for index in np.ndindex(panel.sizes):
            places = [np.subtract(g.corner(index), (0, g.top)) for g in (small, large)]
            assert 2 * places[0] == pytest.approx(places[1])
        assert (2 * small.width, 2 * (small.height - small.top)) == pytest.approx(
            (large.width, large.height - large.top)
        )
        assert 2 * (small.top - 0.06) == pytest.approx(large.top - 0.06)


def test_settings_are_neither_changed_nor_used() -> None:
    expected = viz.plot_slice1(*WINDOWS[1])
    strange = {"text.usetex": True, "font.size": 30, "lines.linewidth": 9, "figure.dpi": 17, "font.family": "serif"}
    with mpl.rc_context(strange):
        before = dict(mpl.rcParams)
        figure = viz.plot_slice1(*WINDOWS[1])
        assert dict(mpl.rcParams) == before
        same(figure, expected)


def test_notebooks_show_it() -> None:
    assert viz.plot_slice1(*WINDOWS[1])._repr_png_().startswith(b"\x89PNG")


def test_pyplot_is_not_imported() -> None:
    code = "import sys; from torch_dml_ops import viz; viz.plot_split([2], [2], 0)"
    assert run_python("-c", f"{code}; print('matplotlib.pyplot' in sys.modules)") == "False\n"


def test_a_picture_that_is_too_large_is_the_smallest_that_there_is() -> None:
    """Of a tall input, that with the panels beside one another."""

    def longest(sizes: list[int], axis: int) -> float:
        with pytest.raises(ValueError, match=r"must fit into 9 by 12 inches, got [\d.]+ by [\d.]+ for") as caught:
            viz.plot_split(sizes, [150, 150], axis)
        return max(map(float, re.findall(r"[\d.]+", str(caught.value).partition(" got ")[2])[:2]))

    assert longest([300, 2], 0) < 1.2 * longest([2, 300], 1)


def test_the_legend_says_what_the_marks_are() -> None:
    x = numbered([4, 6])
    for figure, texts in (
        (
            viz.plot_slice1(x, [0, 0], [4, 6], [-1, 1]),
            {"window", "start of the walk", "read; the small number is the place in the output"},
        ),
        (viz.plot_slice1([4, 6], [0, 0], [4, 6], [-1, 1]), {"read; the number is the place in the output"}),
        (
            viz.plot_reverse_subsequences(x, torch.tensor([[2], [0], [6], [1]]), 1),
            {"reversed; small number: the index along axis 1 in the input", "stays", "length"},
        ),
        (
            viz.plot_reverse_subsequences([4, 6], torch.tensor([[2], [0], [6], [1]]), 1),
            {"reversed; number: the flat index in the input"},
        ),
    ):
        shown = {text.get_text() for text in figure.findobj(Text)}
        assert shown >= texts | {"input, sizes [4, 6]", "output, sizes [4, 6]"}


def test_the_legend_has_the_marks_themselves() -> None:
    def lines(patches: list[Any]) -> list[Any]:
        return [(patch.get_edgecolor(), patch.get_linewidth()) for patch in patches]

    ramp = [_picture.shade(k, 3) for k in range(3)]
    window = Drawn(viz.plot_slice1([4, 6], [0, 0], [4, 6], [-1, 1]))
    lengths = torch.tensor([[2], [0], [6], [1]])
    for drawn, fills in (
        (window, [_picture.BLANK, _picture.BLANK, *ramp]),
        (Drawn(viz.plot_split([4, 6], [1, 2, 3], 1)), _picture.PIECES[:3]),
        (Drawn(viz.plot_reverse_subsequences([4, 6], lengths, 1)), [*ramp, _picture.BLANK, _picture.LENGTH_FILL]),
    ):
        assert [to_rgb(patch.get_facecolor()) for patch in drawn.legend] == [*map(to_rgb, fills)]
    cell = window.cells["input[0, 0]"]
    assert lines(window.legend) == lines([window.cells["input outline 0"], window.cells["input start"], *[cell] * 3])
