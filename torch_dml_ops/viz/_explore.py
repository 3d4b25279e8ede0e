"""Widgets of a notebook with which an operator's arguments are changed, and the picture with them."""

from __future__ import annotations

import ast
import html
import math
from collections.abc import Callable, Sequence
from importlib import import_module
from inspect import isfunction
from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

import torch_dml_ops as dml
from torch_dml_ops._sentences.arguments import require_tensor
from torch_dml_ops._sentences.packages import need_packages
from torch_dml_ops._sentences.text import shown
from torch_dml_ops.viz.plots import input_of, numbers, plot_reverse_subsequences, plot_slice1, plot_split

MOST_SLIDERS = 16  # for lengths; more are typed


Draw = Callable[[], Figure | str]  # or says why there is nothing to draw


class _Controls(NamedTuple):
    widgets: list[Any]
    call: Callable[[], tuple[str, Draw]]  # the call as it is written, and what draws it


def explore(operator: str | Callable[..., Any], input: Tensor | Sequence[int]) -> Any:
    """Sliders and fields for an operator's arguments, with the call that they make, and its picture or its error.

    The call, and the sentence of a call that is refused, can be copied: a click selects them.

    Args:
        operator: ``"index"``, ``"slice1"``, ``"split"`` or ``"reverse_subsequences"``, or the function of that name.
        input: 1-D to 4-D tensor of at most 1024 elements, or the sizes of one.

    Returns:
        A widget of ipywidgets, which notebooks show.

    Raises:
        ImportError: without ipywidgets; ``pip install ipywidgets`` brings it.
        ValueError: another operator, an input that cannot be drawn.

    >>> import torch
    >>> from torch_dml_ops import viz
    >>> viz.explore("slice1", torch.arange(12).reshape(3, 4))  # doctest: +SKIP
    """
    if isfunction(operator):
        operator = operator.__name__
    if operator not in _CONTROLS:
        raise ValueError(f"explore: operator must be one of {', '.join(_CONTROLS)}, got {shown(operator)}")
    need_packages("torch_dml_ops.viz.explore", "ipywidgets")
    widgets = import_module("ipywidgets")
    if not isinstance(input, (Tensor, list, tuple)):
        require_tensor("explore: input", input, "a tensor or a list of sizes")
    given = input if isinstance(input, Tensor) else tuple(input)
    sizes = input_of("explore", given).sizes
    code, picture, error = widgets.HTML(), _picture(widgets), widgets.HTML()

    def show(_: Any = None) -> None:
        try:
            written, draw = controls.call()
            code.value = _copied(written)
            drawn = draw()
            if isinstance(drawn, Figure):
                picture.value = drawn._repr_png_()  # type: ignore[attr-defined]
            picture.layout.display = "none" if isinstance(drawn, str) else None
            error.value = _copied(drawn) if isinstance(drawn, str) else ""
        except (IndexError, RuntimeError, TypeError, ValueError) as refused:
            picture.layout.display = "none"
            error.value = _copied(f"{type(refused).__name__}: {refused}")

    controls = _CONTROLS[operator](widgets, given, sizes, show)
    show()
    return widgets.VBox([*controls.widgets, code, error, picture])


def _picture(widgets: Any) -> Any:
    """In its own size, unless that is too wide."""
    return widgets.Image(layout=widgets.Layout(align_self="flex-start", max_width="100%"))


def _copied(text: str) -> str:
    return f'<pre style="user-select: all; white-space: pre-wrap; line-height: 1.4">{html.escape(text)}</pre>'


def _watched(widget: Any, show: Callable[[Any], None]) -> Any:
    widget.observe(show, "value")
    return widget


def _numbers(text: str) -> list[int]:
    """Numbers that are typed, with commas or blanks between them; what is none is left for the operator to refuse."""
    return [_number(part) for part in text.replace(",", " ").split()]


def _number(text: str) -> Any:
    try:
        return int(text)
    except ValueError:
        return text


def _index_of(text: str) -> Any:
    """What is typed between the brackets; only numbers, slices, None and an Ellipsis are read."""

    def value(node: ast.expr | None) -> Any:
        if isinstance(node, ast.Slice):
            return slice(value(node.lower), value(node.upper), value(node.step))
        if isinstance(node, ast.Tuple):
            return tuple(map(value, node.elts))
        return None if node is None else ast.literal_eval(node)

    try:
        tree = ast.parse(f"x[{text}]", mode="eval").body
        assert isinstance(tree, ast.Subscript)
        return value(tree.slice)
    except (AssertionError, SyntaxError, ValueError):
        raise ValueError(f"explore: index must be written as between brackets, as in ::-2, 1:, got {text}") from None


def _index(widgets: Any, input: Any, sizes: tuple[int, ...], show: Any) -> _Controls:
    field = _watched(widgets.Text("::-1", description="index"), show)

    def call() -> tuple[str, Draw]:
        text = field.value.strip() or "..."

        def draw() -> Figure | str:
            index = _index_of(text)
            result = dml.index(torch.empty(sizes))[index]
            if result.numel() == 0:
                return f"selects nothing: the result has sizes {list(result.shape)}"
            entries = index if isinstance(index, tuple) else (index,)
            return plot_slice1(input, *dml.window(sizes, tuple(_kept(e) for e in entries if e is not None)))

        return f"dml.index(x)[{text}]", draw

    return _Controls([field], call)


def _kept(entry: Any) -> Any:
    """A slice in the place of a whole number, which would drop its dimension from the picture."""
    return slice(entry, entry + 1 or None) if isinstance(entry, int) else entry


def _slice1(widgets: Any, input: Any, sizes: tuple[int, ...], show: Any) -> _Controls:
    def slider(name: str, d: int, value: int, least: int, most: int) -> Any:
        layout = widgets.Layout(width="20em")
        return _watched(widgets.IntSlider(value, least, most, description=f"{name}[{d}]", layout=layout), show)

    offsets = [slider("offsets", d, 0, 0, n - 1) for d, n in enumerate(sizes)]
    windows = [slider("sizes", d, n, 1, n) for d, n in enumerate(sizes)]
    strides = [slider("strides", d, -1 if d == 0 else 1, -n, n) for d, n in enumerate(sizes)]

    def call() -> tuple[str, Draw]:
        lists = [[slider.value for slider in column] for column in (offsets, windows, strides)]
        return f"dml.slice1(x, {', '.join(map(str, lists))})", lambda: plot_slice1(input, *lists)

    rows = [widgets.HBox(row) for row in zip(offsets, windows, strides, strict=True)]
    return _Controls(rows, call)


def _axis(widgets: Any, sizes: tuple[int, ...], value: int) -> Any:
    return widgets.Dropdown(options=list(range(len(sizes))), value=value, description="axis")


def _split(widgets: Any, input: Any, sizes: tuple[int, ...], show: Any) -> _Controls:
    half = sizes[0] // 2
    field = _watched(widgets.Text(f"{half}, {sizes[0] - half}" if half else "1", description="sizes"), show)
    axis = _watched(_axis(widgets, sizes, 0), show)

    def call() -> tuple[str, Draw]:
        pieces = _numbers(field.value)
        return f"dml.split(x, {pieces}, axis={axis.value})", lambda: plot_split(input, pieces, axis.value)

    return _Controls([field, axis], call)


def _reverse_subsequences(widgets: Any, input: Any, sizes: tuple[int, ...], show: Any) -> _Controls:
    axis, rows = _axis(widgets, sizes, len(sizes) - 1), widgets.VBox()

    def make_rows() -> None:
        """A slider for each length; or a field, where there would be too many."""
        size = sizes[axis.value]
        count = math.prod(sizes) // size
        if count <= MOST_SLIDERS:
            sliders = [widgets.IntSlider(size, 0, size, description=f"lengths[{k}]") for k in range(count)]
        else:
            sliders = [widgets.Text(", ".join([str(size)] * count), description="lengths")]
        rows.children = [_watched(slider, show) for slider in sliders]

    def change_axis(_: Any) -> None:
        make_rows()
        show()

    def call() -> tuple[str, Draw]:
        values = [slider.value for slider in rows.children]
        if isinstance(values[0], str):
            values = _numbers(values[0])
        shape = [1 if d == axis.value else n for d, n in enumerate(sizes)]
        lengths = np.array(values, object)  # whatever has been typed
        if len(values) == math.prod(shape):
            lengths = lengths.reshape(shape)

        def draw() -> Figure:
            checked = torch.tensor(numbers("explore: sequence_lengths", values), dtype=torch.int64)
            return plot_reverse_subsequences(input, checked.reshape(lengths.shape), axis.value)

        return f"dml.reverse_subsequences(x, torch.tensor({lengths.tolist()}), axis={axis.value})", draw

    make_rows()
    axis.observe(change_axis, "value")
    return _Controls([axis, rows], call)


_CONTROLS: dict[str, Callable[[Any, Any, tuple[int, ...], Any], _Controls]] = {
    "index": _index,
    "slice1": _slice1,
    "split": _split,
    "reverse_subsequences": _reverse_subsequences,
}
