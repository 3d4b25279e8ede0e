"""What the operators move, as data: the input's element, by its flat index, that each element of an output is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Sources = NDArray[np.int64]


def flat_indices(sizes: Sequence[int]) -> Sources:
    return np.arange(math.prod(sizes), dtype=np.int64).reshape(sizes)


def slice1_sources(
    sizes: Sequence[int],
    window_offsets: Sequence[int],
    window_sizes: Sequence[int],
    window_strides: Sequence[int],
    output_sizes: Sequence[int],
) -> Sources:
    """An output of the sizes of the walk.

    >>> slice1_sources([4, 4], [0, 1], [4, 3], [-2, 2], [2, 2])
    array([[13, 15],
           [ 5,  7]])
    """
    walks = [
        offset + (extent - 1 if stride < 0 else 0) + stride * np.arange(steps)
        for offset, extent, stride, steps in zip(
            window_offsets, window_sizes, window_strides, output_sizes, strict=True
        )
    ]
    return flat_indices(sizes)[np.ix_(*walks)]


def split_sources(sizes: Sequence[int], split_sizes: Sequence[int], axis: int) -> list[Sources]:
    """An output for each piece.

    >>> split_sources([3], [1, 2], 0)
    [array([0]), array([1, 2])]
    """
    return np.split(flat_indices(sizes), np.cumsum(split_sizes)[:-1], axis)


def clamped(lengths: NDArray[Any], size: int) -> NDArray[np.int64]:
    """The lengths as the operator takes them: from 0 to the size of the axis."""
    return np.asarray(np.minimum(np.maximum(lengths, 0), size), np.int64)


def reverse_sources(sizes: Sequence[int], lengths: NDArray[Any], axis: int) -> Sources:
    """An output of the input's sizes.

    >>> reverse_sources([2, 3], np.array([[2], [3]]), 1)
    array([[1, 0, 2],
           [5, 4, 3]])
    """
    length = clamped(lengths, sizes[axis])
    place = np.arange(sizes[axis]).reshape([-1 if d == axis else 1 for d in range(len(sizes))])
    indices = np.where(place < length, length - 1 - place, place)
    return np.asarray(np.take_along_axis(flat_indices(sizes), indices, axis))
