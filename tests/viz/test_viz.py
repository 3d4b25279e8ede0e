"""The pictures: every cell shows the right element, every text is in its place, and nothing else is touched."""

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
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
from matplotlib.patches import Rectangle
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
    ([2, 3, 2, 4], [3], 1),
]
SPLITS += [([2, 3, 2, 4], [1, 3], 3), ([2, 3, 2, 4], [1, 1], 0), ([2, 12], [1] * 12, 1)]
REVERSALS = [
    ([7], [5], 0),
    ([3, 4], [[2], [4], [3]], 1),
    ([3, 4], [[2, 3, 1, 0]], 0),
    ([2, 3, 2], [[[3, 2]], [[9, -1]]], 1),
    ([3, 2, 2], [[[0, 1], [2, 3]]], 0),
    ([2, 2, 2, 3], [[[[0, 1, 2], [2, 1, 0]], [[1, 1, 2], [2, 2, 2]]]], 0),
    ([2, 2, 2, 3], [[[[0, 1, 2], [2, 1, 0]]], [[[1, 1, 2], [2, 2, 2]]]], 1),
    ([2, 2, 2, 3], [[[[3], [2]], [[1], [0]]]] * 2, 3),
]

each_window = pytest.mark.parametrize("case", WINDOWS, ids=str)
each_split = pytest.mark.parametrize("case", SPLITS, ids=str)
each_reversal = pytest.mark.parametrize("case", REVERSALS, ids=str)
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


@each_window
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


@each_split
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


@each_reversal
@with_values_and_without
def test_reverse_subsequences(case: Any, with_values: bool) -> None:
    sizes, lengths, axis = case
    x, lengths = numbered(sizes), torch.tensor(lengths)
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


def test_lengths_that_are_broadcast() -> None:
    x = numbered([2, 3, 2])
    lengths = dml.sequence_lengths_like(x, torch.tensor([3, 2], dtype=torch.uint32), axis=1)
    drawn = Drawn(viz.plot_reverse_subsequences(x, lengths, 1))
    assert [drawn.text("lengths", index) for index in np.ndindex(2, 1, 2)] == ["3", "3", "2", "2"]
    assert drawn.text("output", (0, 0, 0)) == "104"


def test_lengths_of_64_bits() -> None:
    drawn = Drawn(viz.plot_reverse_subsequences([2], torch.tensor([2**64 - 1], dtype=torch.uint64), 0))
    assert (drawn.text("lengths", (0,)), drawn.text("output", (0,))) == (str(2**64 - 1), "1")


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
    **{f"slice1 {c}": lambda c=c: viz.plot_slice1(*c) for c in WINDOWS},
    **{f"slice1 of values {c}": lambda c=c: viz.plot_slice1(torch.randn(c[0]) * 100, *c[1:]) for c in WINDOWS},
    **{f"split {c}": lambda c=c: viz.plot_split(*c) for c in SPLITS},
    **{
        f"reverse {c}": lambda c=c: viz.plot_reverse_subsequences(numbered(c[0]), torch.tensor(c[1]), c[2])
        for c in REVERSALS
    },
    "all in one": lambda: viz.plot_slice1([1], [0], [1], [1]),
    "large": lambda: viz.plot_slice1([32, 32], [1, 1], [30, 31], [-3, 2]),
    "long": lambda: viz.plot_split([24], [8, 16], 0),
    "large reversal": lambda: viz.plot_reverse_subsequences([20, 20], torch.full((20, 1), 12), 1),
    "wide values": lambda: viz.plot_split(torch.tensor([-(2**63), 2**63 - 1]), [1, 1], 0),
}


@pytest.mark.parametrize("draw", PICTURES.values(), ids=PICTURES.keys())
def test_texts_are_in_their_places(draw: Callable[[], Figure]) -> None:
    """In their cells, in the figure, and none on another."""
    figure = draw()
    assert figure.get_figwidth() <= 9
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    drawn = Drawn(figure)
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
    left, bottom, right, top = (extents[:, k] for k in range(4))
    over = (left[:, None] + apart < right) & (left < right[:, None] - apart)
    over &= (bottom[:, None] + apart < top) & (bottom < top[:, None] - apart)
    on_another = [(texts[a].get_text(), texts[b].get_text()) for a, b in np.argwhere(np.triu(over, 1))]
    assert on_another == []


@pytest.mark.parametrize(
    ("draw", "cases"),
    [
        (viz.plot_slice1, WINDOWS),
        (viz.plot_split, SPLITS),
        (viz.plot_reverse_subsequences, [(sizes, torch.tensor(n), axis) for sizes, n, axis in REVERSALS]),
    ],
)
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


@pytest.mark.parametrize("draw", PICTURES.values(), ids=PICTURES.keys())
def test_cells_do_not_overlap(draw: Callable[[], Figure]) -> None:
    drawn = Drawn(draw())
    corners = np.array([drawn.cells[name].get_bbox().extents for name in sorted(drawn.names())])
    left, top, right, bottom = (np.round(corners[:, k], 6) for k in range(4))
    over = (left[:, None] < right) & (left < right[:, None]) & (top[:, None] < bottom) & (top < bottom[:, None])
    assert np.triu(over, 1).sum() == 0


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


# Descriptors.


def pixels(figure: Figure) -> Any:
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())


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
    for sizes, numbers, axis in REVERSALS:
        x, lengths = TensorDesc(TensorDataType.FLOAT32, sizes), torch.tensor(numbers)
        desc = op_desc("REVERSE_SUBSEQUENCES", x, TensorDesc(TensorDataType.UINT32, lengths.shape), x, axis)
        yield viz.plot_reverse_subsequences(desc, lengths), viz.plot_reverse_subsequences(sizes, lengths, axis)


def test_descriptors() -> None:
    for of_descriptor, of_arguments in descriptors():
        assert np.array_equal(pixels(of_descriptor), pixels(of_arguments))


# Arguments of every kind.


@pytest.mark.parametrize(
    "kind", [iter, tuple, np.array, lambda ns: [np.int32(n) for n in ns], lambda ns: (n for n in ns)]
)
def test_numbers_of_every_kind(kind: Callable[[list[int]], Any]) -> None:
    sizes, *window = WINDOWS[2]
    figure = viz.plot_slice1(kind(sizes), *map(kind, window))
    assert np.array_equal(pixels(figure), pixels(viz.plot_slice1(*WINDOWS[2])))
    sizes, parts, axis = SPLITS[1]
    figure = viz.plot_split(kind(sizes), kind(parts), next(iter(kind([axis]))))
    assert np.array_equal(pixels(figure), pixels(viz.plot_split(*SPLITS[1])))


def test_axis_of_numpy() -> None:
    sizes, lengths, axis = REVERSALS[1]
    figure = viz.plot_reverse_subsequences(np.array(sizes), torch.tensor(lengths), np.uint8(axis))
    assert np.array_equal(pixels(figure), pixels(viz.plot_reverse_subsequences(sizes, torch.tensor(lengths), axis)))


def test_a_tensor_without_data_is_drawn_by_its_sizes() -> None:
    by_sizes = pixels(viz.plot_split([4], [4], 0))
    assert np.array_equal(pixels(viz.plot_split(torch.empty(4, device="meta"), [4], 0)), by_sizes)
    with torch.device("meta"):  # where tensors have no data otherwise, either
        assert np.array_equal(pixels(viz.plot_split([4], [4], 0)), by_sizes)


# Refusals.

X = TensorDesc(TensorDataType.FLOAT32, [4])
SPLIT = op_desc("SPLIT", X, [X], 0)
REVERSE = op_desc("REVERSE_SUBSEQUENCES", X, TensorDesc(TensorDataType.UINT32, [1]), X, 0)
SLICE1, BROKEN = (op_desc("SLICE1", X, X, [0], [4], [stride]) for stride in (1, 0))
LENGTHS = torch.tensor([2])
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


def on(*arguments: Any) -> tuple[Any, ...]:
    return arguments


# What the function says, after its name, and the arguments; some are made by the test.
REFUSALS: dict[type[Exception], dict[Callable[..., Figure], dict[str, tuple[Any, ...]]]] = {
    ValueError: {
        viz.plot_slice1: {
            "input must have from 1 to 4 dimensions to be drawn, got 5": on([1] * 5, [0] * 5, [1] * 5, [1] * 5),
            "with the smallest text that can be read, the picture must fit into 9 by 12 inches, got": on(
                [1024], [0], [1024], [1]
            ),
            "window_sizes[0] must be a whole number of 64 bits, got one of": on([4], [0], [10**5000], [1]),
            "window_offsets[0] must be a whole number of 64 bits": on([4], [-(2**63) - 1], [4], [1]),
            "input[0] must be a whole number of 64 bits, got one of 13288 bits": on(
                [10**4000] * 2, [0, 0], [1, 1], [1, 1]
            ),
        },
        viz.plot_split: {
            "input must have from 1 to 4 dimensions to be drawn, got 0": on(torch.tensor(1), [1], 0),
            "input must have sizes of at least 1 to be drawn, got [0, 3]": on(torch.empty(0, 3), [3], 1),
            f"input must have sizes of at least 1 to be drawn, got [0, {10**18}, {10**18}, …] (4 in all)": on(
                [0, *[10**18] * 3], [1], 0
            ),
            **{
                f"input must have at most 1024 elements, so that they can be read, got {math.prod(sizes)}": on(
                    sizes, sizes[1:2], 1
                )
                for sizes in ([25, 41], [10**6] * 4)
            },
            "axis must be a whole number of 64 bits, got": on([4], [4], 2**64),
            **{
                f"input must have values that can be shown, got a {kind}": on(tensor, [4], 0)
                for kind, tensor in {
                    "sparse_coo tensor of float32 on cpu": lambda: torch.ones(4).to_sparse(),
                    "strided tensor of bits8 on cpu": lambda: torch.empty(4, dtype=torch.bits8),
                    "strided ": lambda: torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.quint8),
                }.items()
            },
        },
        viz.plot_reverse_subsequences: {
            f"sequence_lengths must have values that can be shown, got a {kind}": on([4], lengths, 0)
            for kind, lengths in {
                "strided tensor of int32 on meta": torch.ones(1, dtype=torch.int32, device="meta"),
                "sparse_coo tensor of int32 on cpu": torch.ones(1, dtype=torch.int32).to_sparse(),
            }.items()
        },
    },
    TypeError: {
        viz.plot_slice1: {
            "window_strides is required, unless a descriptor is given": on([4], [0], [4]),
            "output_sizes must not be given beside a descriptor, which has it": on(SLICE1, None, None, None, [4]),
            "input must be a tensor, a list of sizes or a Slice1OperatorDesc, got SplitOperatorDesc": on(SPLIT),
            "window_offsets[0] must be a whole number, got 0.0": on([4], [0.0], [4], [1]),
            "window_sizes must be a list of whole numbers, got b": on([4], [0], b"\4", [1]),
            "window_strides must be a list of whole numbers, got 1": on([4], [0], [4], 1),
            "output_sizes must be a list of whole numbers, got '4'": on([4], [0], [4], [1], "4"),
        },
        viz.plot_split: {
            "axis is required, unless a descriptor is given": on([4], [4]),
            "split_sizes must not be given beside a descriptor, which has it": on(SPLIT, [4]),
            "input must be a tensor, a list of sizes or a SplitOperatorDesc, got list": on([2.0], [2], 0),
            "input must be a tensor, a list of sizes or a SplitOperatorDesc, got bytes": on(b"\4", [2], 0),
            "axis must be a whole number, got 0.0": on([4], [4], 0.0),
        },
        viz.plot_reverse_subsequences: {
            "sequence_lengths must be a tensor, got list": on([4], [2], 0),
            "axis must not be given beside a descriptor, which has it": on(REVERSE, LENGTHS, 0),
            "axis must be a whole number, got 0.0": on([4], LENGTHS, 0.0),
        },
    },
}


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
@pytest.mark.parametrize(
    ("kind", "plot", "sentence", "arguments"),
    [(kind, plot, *row) for kind, plots in REFUSALS.items() for plot, rows in plots.items() for row in rows.items()],
)
def test_refusals(kind: type[Exception], plot: Callable[..., Figure], sentence: str, arguments: Sequence[Any]) -> None:
    with pytest.raises(kind, match=f"^{re.escape(f'{plot.__name__}: {sentence}')}"):
        plot(*(given() if callable(given) else given for given in arguments))


def test_a_descriptor_that_breaks_a_rule() -> None:
    sentence = "SLICE1 at feature level 6_4 breaks a rule:\n  input_window_strides[0] must not be 0, got 0"
    with pytest.raises(DescriptorError, match=f"^{re.escape(sentence)}"):
        viz.plot_slice1(BROKEN)


# Matplotlib.


def test_what_is_drawn_grows_with_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """All distances do, but the one below a title."""
    drawn: list[_picture.Panel] = []
    monkeypatch.setattr(viz.plots, "draw", lambda _, panels, *__, **___: drawn.extend(panels))
    for plot, cases in (
        (viz.plot_slice1, WINDOWS),
        (viz.plot_split, SPLITS),
        (viz.plot_reverse_subsequences, [(sizes, torch.tensor(lengths), axis) for sizes, lengths, axis in REVERSALS]),
    ):
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
    expected = pixels(viz.plot_slice1(*WINDOWS[1]))
    strange = {"text.usetex": True, "font.size": 30, "lines.linewidth": 9, "figure.dpi": 17, "font.family": "serif"}
    with mpl.rc_context(strange):
        before = dict(mpl.rcParams)
        figure = viz.plot_slice1(*WINDOWS[1])
        assert dict(mpl.rcParams) == before
        assert np.array_equal(pixels(figure), expected)


def test_notebooks_show_it() -> None:
    assert viz.plot_slice1(*WINDOWS[1])._repr_png_().startswith(b"\x89PNG")


def test_pyplot_is_not_imported() -> None:
    code = "import sys; from torch_dml_ops import viz; viz.plot_split([2], [2], 0)"
    assert run_python("-c", f"{code}; print('matplotlib.pyplot' in sys.modules)") == "False\n"


def test_the_legend_says_what_the_marks_are() -> None:
    figure = viz.plot_slice1(numbered([4, 6]), [0, 0], [4, 6], [-1, 1])
    texts = {text.get_text() for text in figure.findobj(Text)}
    assert texts >= {"input, sizes [4, 6]", "output, sizes [4, 6]", "window", "start of the walk"}
