"""The public functions: which cells, outlines and legends make the picture of an operator."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

import torch_dml_ops as dml
from torch_dml_ops._operators.definitions import ReverseSubsequences, Slice1, Split
from torch_dml_ops._sentences.arguments import integer
from torch_dml_ops._sentences.text import text
from torch_dml_ops.directml import ReverseSubsequencesOperatorDesc, Slice1OperatorDesc, SplitOperatorDesc
from torch_dml_ops.directml._schema.arguments import integers, listed
from torch_dml_ops.viz._picture import (
    BLANK,
    INK,
    LENGTH_FILL,
    PALE_INK,
    PIECES,
    WINDOW,
    Cell,
    Entry,
    Outline,
    Panel,
    draw,
    shade,
)

MOST_ELEMENTS = 1024

_RAMP = tuple(shade(k, 3) for k in range(3))


class _Input(NamedTuple):
    """What is drawn as the input."""

    tensor: Tensor  # without data: for the operators' own checks
    sizes: tuple[int, ...]
    values: list[str]  # as the cells show them; none where only sizes were given


def _flat_indices(sizes: Sequence[int]) -> Tensor:
    """The tensor that operators are called on: each element of a result is the flat index of an input element."""
    return torch.arange(math.prod(sizes), device="cpu").reshape(tuple(sizes))


def _number(name: str, value: Any) -> int:
    number = integer(name, value)
    if not -(2**63) <= number < 2**63:  # as for the operators; longer ones may have too many digits for a sentence
        raise ValueError(f"{name} must be a whole number of 64 bits, got one of {number.bit_length()} bits")
    return number


def numbers(name: str, values: Any) -> tuple[int, ...]:
    return tuple(_number(f"{name}[{k}]", value) for k, value in enumerate(integers(name, values)))


def _values(caller: str, name: str, tensor: Tensor) -> list[Any]:
    """The values in order; raises ``ValueError`` for a tensor without data, or with values that cannot be listed."""
    try:
        return tensor.detach().flatten().tolist()
    except RuntimeError:
        dtype, layout = (str(kind).removeprefix("torch.") for kind in (tensor.dtype, tensor.layout))
        raise ValueError(
            f"{caller}: {name} must have values that can be shown, got a {layout} tensor of {dtype} on {tensor.device}"
        ) from None


def _texts(values: Sequence[Any]) -> list[str]:
    return [f"{value:.3g}" if isinstance(value, (float, complex)) else str(value) for value in values]


def input_of(caller: str, input: Tensor | Sequence[int]) -> _Input:
    sizes = tuple(input.shape if isinstance(input, Tensor) else input)
    if not 1 <= len(sizes) <= 4:
        raise ValueError(f"{caller}: input must have from 1 to 4 dimensions to be drawn, got {len(sizes)}")
    if any(size < 1 for size in sizes):
        raise ValueError(f"{caller}: input must have sizes of at least 1 to be drawn, got {text(sizes)}")
    if math.prod(sizes) > MOST_ELEMENTS:
        raise ValueError(
            f"{caller}: input must have at most {MOST_ELEMENTS} elements, so that they can be read, got "
            f"{math.prod(sizes)}"
        )
    values = _texts(_values(caller, "input", input)) if isinstance(input, Tensor) and not input.is_meta else []
    return _Input(torch.empty(sizes, device="meta"), sizes, values)


def _checked(caller: str, input: Any, desc: type, given: dict[str, Any]) -> Any:
    """The input, sizes as a tuple. Refuses arguments that a descriptor has already, and missing ones without one."""
    is_desc = isinstance(input, desc)
    if not is_desc and not isinstance(input, Tensor):
        try:
            input = numbers(f"{caller}: input", input)
        except TypeError:
            raise TypeError(
                f"{caller}: input must be a tensor, a list of sizes or a {desc.__name__}, got {type(input).__name__}"
            ) from None
    for name, value in given.items():
        if not is_desc and value is None:
            raise TypeError(f"{caller}: {name} is required, unless a descriptor is given")
        if is_desc and value is not None:
            raise TypeError(f"{caller}: {name} must not be given beside a descriptor, which has it")
    return input


def _cells(sources: Tensor, cell: Callable[[int], Cell]) -> list[Cell]:
    """The cells of a tensor whose elements are flat indices of the input."""
    return [cell(source) for source in sources.reshape(-1).tolist()]


def plot_slice1(
    input: Tensor | Sequence[int] | Slice1OperatorDesc,
    window_offsets: Sequence[int] | None = None,
    window_sizes: Sequence[int] | None = None,
    window_strides: Sequence[int] | None = None,
    output_sizes: Sequence[int] | None = None,
) -> Figure:
    """Draws what :func:`torch_dml_ops.slice1` reads and gives.

    The window is outlined, the element where the walk starts is framed, and the elements that are read are shaded and
    numbered from 0 in the order of the output: an element has the same number in both.

    Args:
        input: 1-D to 4-D tensor of at most 1024 elements, or the sizes of one, or a descriptor, which has the other
            arguments.
        window_offsets, window_sizes, window_strides, output_sizes: as for :func:`torch_dml_ops.slice1`.

    Returns:
        A figure at most 9 inches wide.

    Raises:
        ValueError: an input of more dimensions or elements, or one that takes more room than the figure may have.
        RuntimeError: what the operator refuses.
        DescriptorError: a descriptor that breaks rules.
        TypeError: a missing argument, or one beside a descriptor.

    Source: `DML_SLICE1_OPERATOR_DESC
    <https://learn.microsoft.com/en-us/windows/win32/api/directml/ns-directml-dml_slice1_operator_desc>`_.

    >>> import torch
    >>> from torch_dml_ops import viz
    >>> figure = viz.plot_slice1(torch.arange(1, 17).reshape(4, 4), [0, 1], [4, 3], [-2, 2])
    >>> figure.savefig("slice1.png")  # doctest: +SKIP
    """
    caller = "plot_slice1"
    window: dict[str, Any] = {
        "window_offsets": window_offsets,
        "window_sizes": window_sizes,
        "window_strides": window_strides,
    }
    if isinstance(input, Slice1OperatorDesc):
        window["output_sizes"] = output_sizes
    input = _checked(caller, input, Slice1OperatorDesc, window)
    if isinstance(input, Slice1OperatorDesc):
        input.validate()
        window_offsets, window_sizes = input.input_window_offsets, input.input_window_sizes
        window_strides, output_sizes = input.input_window_strides, input.output_tensor.sizes
        input = input.input_tensor.sizes
    window_offsets = numbers(f"{caller}: window_offsets", window_offsets)
    window_sizes = numbers(f"{caller}: window_sizes", window_sizes)
    window_strides = numbers(f"{caller}: window_strides", window_strides)
    output_sizes = None if output_sizes is None else numbers(f"{caller}: output_sizes", output_sizes)
    x = input_of(caller, input)
    output_sizes = Slice1.result_sizes(x.tensor, window_offsets, window_sizes, window_strides, output_sizes)
    sources = dml.slice1(_flat_indices(x.sizes), window_offsets, window_sizes, window_strides, output_sizes)
    places = {source: k for k, source in enumerate(sources.reshape(-1).tolist())}

    def cell(source: int) -> Cell:
        value = x.values[source] if x.values else ""
        if source not in places:
            return Cell(value, color=PALE_INK)
        place = places[source]
        fill = shade(place, len(places))
        return Cell(value, fill, str(place)) if x.values else Cell(str(place), fill)

    input_panel = Panel(
        "input",
        x.sizes,
        _cells(_flat_indices(x.sizes), cell),
        outlines=[Outline(window_offsets, window_sizes, WINDOW, 2.6)],
        start=tuple(int(k) for k in np.unravel_index(int(sources.flatten()[0]), x.sizes)),
    )
    which = "small number" if x.values else "number"
    legend = [
        Entry("window", line=WINDOW, width=2.6),
        Entry("start of the walk", line=INK, width=2.0),
        Entry(f"read; the {which} is the place in the output", _RAMP),
    ]
    return draw(caller, [input_panel, Panel("output", sources.shape, _cells(sources, cell))], legend)


def plot_split(
    input: Tensor | Sequence[int] | SplitOperatorDesc,
    split_sizes: Sequence[int] | None = None,
    axis: int | None = None,
) -> Figure:
    """Draws the pieces that :func:`torch_dml_ops.split` copies its input into.

    Each piece has a colour, which repeats after the seventh, an outline, and its number in all of its elements. Where
    only sizes are given, the elements show their flat indices in the input.

    Args:
        input: as for :func:`plot_slice1`.
        split_sizes, axis: as for :func:`torch_dml_ops.split`.

    Returns:
        A figure at most 9 inches wide.

    It raises what :func:`plot_slice1` raises. Source: `DML_SPLIT_OPERATOR_DESC
    <https://learn.microsoft.com/en-us/windows/win32/api/directml/ns-directml-dml_split_operator_desc>`_.

    >>> from torch_dml_ops import viz
    >>> figure = viz.plot_split([6, 2], [2, 1, 3], axis=0)
    """
    caller = "plot_split"
    input = _checked(caller, input, SplitOperatorDesc, {"split_sizes": split_sizes, "axis": axis})
    if isinstance(input, SplitOperatorDesc):
        input.validate()
        axis = input.axis
        split_sizes = [tensor.sizes[axis] for tensor in input.output_tensors]
        input = input.input_tensor.sizes
    name = f"{caller}: split_sizes"
    split_sizes = numbers(name, listed(name, split_sizes, "whole numbers"))  # one number may stand for several pieces
    axis = _number(f"{caller}: axis", axis)
    x = input_of(caller, input)
    Split.result_sizes(x.tensor, split_sizes, axis)
    pieces = dml.split(_flat_indices(x.sizes), split_sizes, axis)
    owners = {source: k for k, piece in enumerate(pieces) for source in piece.reshape(-1).tolist()}

    def cell(source: int) -> Cell:
        k = owners[source]
        return Cell(x.values[source] if x.values else str(source), PIECES[k % len(PIECES)], f"[{k}]")

    begins = [sum(split_sizes[:k]) for k in range(len(split_sizes))]
    outlines = [
        Outline([begin if d == axis else 0 for d in range(len(x.sizes))], piece.shape, INK, 1.6)
        for begin, piece in zip(begins, pieces, strict=True)
    ]
    panels = [
        Panel("input", x.sizes, _cells(_flat_indices(x.sizes), cell), outlines),
        *(Panel(f"output[{k}]", piece.shape, _cells(piece, cell)) for k, piece in enumerate(pieces)),
    ]
    shown = "[k]: the piece" if x.values else "[k]: the piece; above it the flat index in the input"
    return draw(caller, panels, [Entry(shown, PIECES[: len(pieces)])])


def plot_reverse_subsequences(
    input: Tensor | Sequence[int] | ReverseSubsequencesOperatorDesc,
    sequence_lengths: Tensor,
    axis: int | None = None,
) -> Figure:
    """Draws what :func:`torch_dml_ops.reverse_subsequences` moves.

    The elements that are reversed are shaded by their index along the axis, which a small number gives too; the
    rest is left white. The lengths are drawn at the end of the axis. Where only sizes are given, the elements show
    their flat indices in the input.

    Args:
        input: as for :func:`plot_slice1`; a descriptor has the axis.
        sequence_lengths: as for :func:`torch_dml_ops.reverse_subsequences`, broadcast views included. A descriptor has
            its sizes but not its values, so that it is needed here too.
        axis: as for :func:`torch_dml_ops.reverse_subsequences`.

    Returns:
        A figure at most 9 inches wide.

    It raises what :func:`plot_slice1` raises. Source: `DML_REVERSE_SUBSEQUENCES_OPERATOR_DESC
    <https://learn.microsoft.com/en-us/windows/win32/api/directml/ns-directml-dml_reverse_subsequences_operator_desc>`_.

    >>> import torch
    >>> from torch_dml_ops import viz
    >>> figure = viz.plot_reverse_subsequences([3, 4], torch.tensor([[2], [4], [3]]), axis=1)
    """
    caller = "plot_reverse_subsequences"
    input = _checked(caller, input, ReverseSubsequencesOperatorDesc, {"axis": axis})
    if isinstance(input, ReverseSubsequencesOperatorDesc):
        input.validate()
        axis, input = input.axis, input.input_tensor.sizes
    axis = _number(f"{caller}: axis", axis)
    if not isinstance(sequence_lengths, Tensor):
        raise TypeError(f"{caller}: sequence_lengths must be a tensor, got {type(sequence_lengths).__name__}")
    x = input_of(caller, input)
    values = _values(caller, "sequence_lengths", sequence_lengths)
    ReverseSubsequences.result_sizes(x.tensor, sequence_lengths.to("meta"), axis)
    sources = dml.reverse_subsequences(_flat_indices(x.sizes), sequence_lengths.detach().cpu(), axis)
    size = x.sizes[axis]
    lengths = np.array([min(max(value, 0), size) for value in values]).reshape(sequence_lengths.shape)
    length_of = np.broadcast_to(lengths, x.sizes).reshape(-1).tolist()
    index_of = np.indices(x.sizes)[axis].reshape(-1).tolist()

    def cell(source: int) -> Cell:
        index, length = index_of[source], length_of[source]
        value = x.values[source] if x.values else str(source)
        tag = str(index) if x.values else ""
        return Cell(value, shade(index, size), tag) if index < length else Cell(value, BLANK, tag, PALE_INK)

    panels = [
        Panel(
            "input",
            x.sizes,
            _cells(_flat_indices(x.sizes), cell),
            lengths=[Cell(str(length), LENGTH_FILL) for length in values],
            axis=axis,
        ),
        Panel("output", x.sizes, _cells(sources, cell)),
    ]
    number = f"small number: the index along axis {axis}" if x.values else "number: the flat index"
    legend = [
        Entry(f"reversed; {number} in the input", _RAMP),
        Entry("stays", [BLANK]),
        Entry("length", [LENGTH_FILL]),
    ]
    return draw(caller, panels, legend)
