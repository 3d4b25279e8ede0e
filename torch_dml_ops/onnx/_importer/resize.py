"""ONNX's operators that resize by the nearest element, on tensors; see moving.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import floor, inf
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torch_dml_ops._sentences.text import text
from torch_dml_ops._torch.symbols import known_true
from torch_dml_ops.onnx._importer.inputs import (
    Numbers,
    axes_of,
    check_length,
    check_size,
    kept_by_fx,
    numbers,
    smaller,
)

# Where along an axis of the input element `x` of the result lies, by the factor and by the sizes of that axis before
# and after. As ONNX Runtime computes it, in its precision: with another one, other elements are the nearest.
COORDINATES: dict[str, Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]] = {
    "half_pixel": lambda x, factor, before, after: (x + 0.5) / factor - 0.5,
    "half_pixel_symmetric": lambda x, factor, before, after: (
        before / 2 * (1 - after / (factor * before)) + (x.double() + 0.5) / factor - 0.5
    ).to(x.dtype),
    "pytorch_half_pixel": lambda x, factor, before, after: torch.where(after > 1, (x + 0.5) / factor - 0.5, 0),
    "align_corners": lambda x, factor, before, after: x * (before - 1) / torch.clamp(after - 1, min=1),
    "asymmetric": lambda x, factor, before, after: x / factor,
    "tf_half_pixel_for_nn": lambda x, factor, before, after: (x + 0.5) / factor,
}

# The element that is nearest to a coordinate. What ONNX Runtime takes for the middle of two: float32 may miss it.
MIDDLE = 1e-6
NEAREST: dict[str, Callable[[Tensor], Tensor]] = {
    "round_prefer_floor": lambda x: x.floor() + (x - x.floor() - 0.5 > MIDDLE),
    "round_prefer_ceil": lambda x: x.floor() + (x - x.floor() - 0.5 >= -MIDDLE),
    "floor": torch.floor,
    "ceil": torch.ceil,
}

POLICIES = {"stretch": None, "not_larger": min, "not_smaller": max}

MOST_IN_FLOAT32 = 2**23  # elements of an axis, of which float32 still tells the middles apart


@kept_by_fx
def resize(
    X: Tensor,
    roi: Tensor | None = None,
    scales: Numbers | None = None,
    sizes: Numbers | None = None,
    *,
    mode: str = "nearest",
    coordinate_transformation_mode: str = "half_pixel",
    nearest_mode: str = "round_prefer_floor",
    axes: Sequence[int] | None = None,
    keep_aspect_ratio_policy: str = "stretch",
) -> Tensor:
    scales = () if scales is None else numbers("Resize: scales", scales)
    sizes = () if sizes is None else numbers("Resize: sizes", sizes)
    if (len(scales) == 0) == (len(sizes) == 0):
        raise ValueError(f"Resize: one of scales and sizes must be given, got {'both' if scales else 'none'}")
    chosen = axes_of("Resize: axes", axes or range(X.dim()), X.dim())  # in ONNX Runtime also for a list without axes
    before = [X.shape[d] for d in chosen]
    after: Sequence[int]
    factors: Sequence[float | None]
    if scales:
        after, factors = scaled_sizes("Resize", before, scales), scales
    else:
        after, factors = _resized(before, sizes, keep_aspect_ratio_policy)
    _check_result("Resize", X, chosen, after)
    for d, size, factor in zip(chosen, after, factors, strict=True):
        X = _nearest(X, d, size, factor, coordinate_transformation_mode, nearest_mode)
    return X


@kept_by_fx
def resize_10(X: Tensor, scales: Numbers, *, mode: str = "nearest") -> Tensor:
    return _before_opset_11("Resize", X, scales)


@kept_by_fx
def upsample(X: Tensor, scales: Numbers, *, mode: str = "nearest") -> Tensor:
    return _before_opset_11("Upsample", X, scales)


def _before_opset_11(op: str, x: Tensor, scales: Numbers) -> Tensor:
    """ONNX does not say there which element is the nearest; so does ONNX Runtime."""
    factors: Sequence[float] = numbers(f"{op}: scales", scales)
    after = scaled_sizes(op, x.shape, factors)
    _check_result(op, x, range(x.dim()), after)
    for d, (size, factor) in enumerate(zip(after, factors, strict=True)):
        x = _nearest(x, d, size, factor, "asymmetric", "ceil" if factor < 1 else "floor")
    return x


def scaled_sizes(op: str, sizes: Sequence[int], scales: Sequence[float]) -> list[int]:
    """The sizes that axes become: products in float32, cut off, as ONNX Runtime and ONNX's rules compute them.

    float32 may round up to the next integer: 10 x 0.7 is 7, and 60 x 1.05 is 62. Sizes may be symbolic, so this is
    done in whole numbers, and right for results below 2**23.
    """
    check_length(f"{op}: scales", scales, sizes)
    least = 1 if op == "Upsample" else 0
    results = []
    for k, (size, scale) in enumerate(zip(sizes, scales, strict=True)):
        if not least <= scale < inf or scale == 0:
            rule = f"a finite number {'from 1 on' if least else 'above 0'}"
            raise ValueError(f"{op}: scales[{k}] must be {rule}, got {scale}")
        numerator, denominator = scale.as_integer_ratio()
        product = size * numerator
        half = 0  # of the distance to the next number: 1 from 2**24 on, and twice as much from each further power of 2
        for bits in range(24, 22 + denominator.bit_length()):
            half += 2 ** max(bits - 25, 0) * smaller(product // 2**bits, 1)
        results.append((product + half) // denominator)
    return results


def _resized(before: Sequence[int], sizes: Sequence[int], policy: str) -> tuple[Sequence[int], Sequence[float | None]]:
    """The sizes that axes become, and by which factors if these are not the quotients."""
    check_length("Resize: sizes", sizes, before)
    for k, (size, result) in enumerate(zip(before, sizes, strict=True)):
        if known_true(size == 0) and known_true(result != 0):
            raise ValueError(f"Resize: sizes[{k}] must be 0, as that axis has no elements, got {text(result)}")
        if policy != "not_smaller" and known_true(result < 1) and not known_true(size == 0):
            raise ValueError(f"Resize: sizes[{k}] must be at least 1, got {text(result)}")
    if (chosen := POLICIES[policy]) is None:
        return sizes, [None] * len(sizes)
    before, sizes = list(map(int, before)), list(map(int, sizes))  # what follows has no form in symbolic sizes
    factor = chosen([_in_float32(result / size) if size else 1.0 for size, result in zip(before, sizes, strict=True)])
    if factor <= 0:
        raise ValueError(f"Resize: one of sizes must be at least 1, got {text(sizes)}")
    return [floor(_in_float32(size * factor) + 0.5) for size in before], [factor] * len(sizes)


def _in_float32(number: float) -> float:
    return float(np.float32(number))


def _check_result(op: str, x: Tensor, axes: Iterable[int], after: Sequence[int]) -> None:
    sizes = list(x.shape)
    for d, size in zip(axes, after, strict=True):
        sizes[d] = size
    check_size(op, sizes, x.itemsize)


def _nearest(x: Tensor, d: int, size: int, factor: float | None, coordinates: str, nearest: str) -> Tensor:
    """The elements along axis `d` that `size` others are the nearest to; without a factor, by the quotient of sizes."""
    if factor in (None, 1) and known_true(size == x.shape[d]):
        return x
    many = any(known_true(n > MOST_IN_FLOAT32) for n in (size, x.shape[d]))
    # On the CPU: GPUs, and the code that torch.compile makes for them, do not round quotients as it does.
    options: Any = {"dtype": torch.float64 if many else torch.float32, "device": "cpu"}
    at = torch.arange(size, **options)
    before, after = (torch.full((), n, **options) for n in (x.shape[d], size))
    by = after / before if factor is None else torch.full((), factor, **options)
    coordinate = torch.where(by == 1, at, COORDINATES[coordinates](at, by, before, after))
    index = NEAREST[nearest](coordinate).long().clamp(0, x.shape[d] - 1).to(x.device)
    if x.dim() > 1 or x.dtype not in (torch.uint16, torch.uint32, torch.uint64):
        return x.index_select(d, index)
    return x.unsqueeze(0).index_select(1, index).squeeze(0)  # torch's lacks these where there is one dimension
