"""The operators as DirectML's texts state them, in NumPy index arithmetic, and torch tensors as the bytes they are.

The operators move items and never look into them. So an item here is an unsigned integer of its size, or 16 opaque
bytes: NaN payloads, signalling NaNs and the signs of zeros count as much as everything else.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Items = NDArray[np.void]  # an array of one of the types in ITEMS

ITEMS = {1: np.dtype("u1"), 2: np.dtype("u2"), 4: np.dtype("u4"), 8: np.dtype("u8"), 16: np.dtype("V16")}

DTYPES = (
    torch.bool,
    *(torch.uint8, torch.uint16, torch.uint32, torch.uint64),
    *(torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
    *(torch.complex32, torch.complex64, torch.complex128),
    *(torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz, torch.float8_e8m0fnu),
)
DTYPE_OF_SIZE = {1: torch.uint8, 2: torch.int16, 4: torch.float32, 8: torch.int64, 16: torch.complex128}
LENGTH_DTYPES = (torch.uint32, torch.uint64, torch.int32, torch.int64)


# The operators.


def walk(offset: int, size: int, stride: int, steps: int) -> NDArray[np.int64]:
    """The indices that a window's walk visits along one dimension: CopyStart + InputWindowStride * coordinate."""
    start = offset
    if stride < 0:
        start += size - 1  # start at the end of the window in this dimension
    return np.array([start + stride * coordinate for coordinate in range(steps)], np.int64)


def most_steps(size: int, stride: int) -> int:
    """MaxCopiedElements of a window of this size; none of an empty one."""
    return 1 + (size - 1) // abs(stride) if size else 0


def _walks(
    offsets: Sequence[int], sizes: Sequence[int], strides: Sequence[int], steps: Sequence[int]
) -> tuple[NDArray[np.int64], ...]:
    return np.ix_(*(walk(*dim) for dim in zip(offsets, sizes, strides, steps, strict=True)))


def slice1(
    x: Items,
    offsets: Sequence[int],
    sizes: Sequence[int],
    strides: Sequence[int],
    output_sizes: Sequence[int] | None = None,
) -> Items:
    if output_sizes is None:
        output_sizes = [most_steps(size, stride) for size, stride in zip(sizes, strides, strict=True)]
    return x[_walks(offsets, sizes, strides, output_sizes)]


def slice_grad(
    g: Items, input_sizes: Sequence[int], offsets: Sequence[int], sizes: Sequence[int], strides: Sequence[int]
) -> Items:
    result = np.zeros(input_sizes, g.dtype)
    result[_walks(offsets, sizes, strides, g.shape)] = g
    return result


def _along(sizes: Sequence[int], axis: int, indices: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
    return np.ix_(*(indices if d == axis else np.arange(n) for d, n in enumerate(sizes)))


def split(x: Items, split_sizes: Sequence[int], axis: int) -> list[Items]:
    begins = [sum(split_sizes[:k]) for k in range(len(split_sizes))]
    return [
        x[_along(x.shape, axis, np.arange(begin, begin + size))]
        for begin, size in zip(begins, split_sizes, strict=True)
    ]


def join(xs: Sequence[Items], axis: int) -> Items:
    sizes = list(xs[0].shape)
    sizes[axis] = sum(x.shape[axis] for x in xs)
    result = np.empty(sizes, xs[0].dtype)
    begin = 0
    for x in xs:
        result[_along(sizes, axis, np.arange(begin, begin + x.shape[axis]))] = x
        begin += x.shape[axis]
    return result


def reverse_subsequences(x: Items, lengths: NDArray[np.integer], axis: int) -> Items:
    """`lengths` has one of NumPy's integer types and the sizes of x, but 1 along the axis."""
    size = x.shape[axis]
    clamped = np.where(lengths > size, size, np.where(lengths < 0, 0, lengths)).astype(np.int64)
    places = list(np.ix_(*map(np.arange, x.shape)))
    places[axis] = np.where(places[axis] < clamped, clamped - 1 - places[axis], places[axis])
    return x[tuple(places)]


def expected(op: str, *arguments: Any) -> Items | list[Items]:
    """What a call of the operator with these arguments gives."""
    if op == "reverse_subsequences":
        x, lengths, axis = arguments
        return reverse_subsequences(items(x), integers(lengths), axis)
    operators = {"slice1": slice1, "slice_grad": slice_grad, "split": split, "join": join}
    return operators[op](*(on_tensors(items, a) for a in arguments))


def on_tensors(function: Callable[[Tensor], Any], argument: Any) -> Any:
    """`function` of a tensor, or of each in a list of tensors; any other argument as it is."""
    if isinstance(argument, Tensor):
        return function(argument)
    return [on_tensors(function, a) for a in argument] if isinstance(argument, list) else argument


# Tensors as bytes.


def storage_bytes(t: Tensor) -> NDArray[np.uint8]:
    """A copy of all bytes of the tensor's storage, those between and beside its elements too. Lazy clones stay lazy."""
    everything = torch.empty(0, dtype=torch.uint8, device=t.device).set_(t.untyped_storage())
    return everything.clone().cpu().numpy()


def _items(
    memory: NDArray[np.uint8], item_size: int, sizes: Sequence[int], strides: Sequence[int], offset: int
) -> Items:
    if 0 in sizes:
        return np.empty(sizes, ITEMS[item_size])
    steps = [0 if size == 1 else stride * item_size for size, stride in zip(sizes, strides, strict=True)]
    return np.ndarray(sizes, ITEMS[item_size], memory, offset * item_size, steps)  # stays within `memory`, or raises


def items(t: Tensor) -> Items:
    """The tensor's elements, a copy, as items of their size."""
    return _items(storage_bytes(t), t.element_size(), t.shape, t.stride(), t.storage_offset()).copy()


def integers(t: Tensor) -> NDArray[np.integer]:
    """A tensor of an integer dtype as NumPy's array of the same type."""
    return items(t).view(str(t.dtype).removeprefix("torch."))


def tensor(values: Items, dtype: torch.dtype, device: str) -> Tensor:
    """A contiguous tensor of these items."""
    if not values.size:
        return torch.empty(values.shape, dtype=dtype, device=device)
    memory = np.frombuffer(values.tobytes(), np.uint8).copy()
    return torch.from_numpy(memory).to(device).view(dtype).reshape(values.shape)


def without_data(t: Tensor) -> Tensor:
    """A tensor on the device "meta" with the same dtype, sizes and strides."""
    return torch.empty(0, dtype=t.dtype, device="meta").as_strided(t.shape, t.stride())


def numbered(numbers: object, dtype: torch.dtype) -> Items:
    """Items whose bits, read as a little-endian integer, are these small numbers."""
    array = np.asarray(numbers, np.uint8)
    wide = np.zeros((*array.shape, dtype.itemsize), np.uint8)
    wide[..., 0] = array
    return wide.view(ITEMS[dtype.itemsize]).reshape(array.shape)


def as_list(results: Any) -> list[Any]:
    """Of split, its pieces; of the others, the one result."""
    return list(results) if isinstance(results, (list, tuple)) else [results]


def equal(actual: Tensor, expected: Items) -> bool:
    """Whether the tensor has these sizes and, bit for bit, these items."""
    return tuple(actual.shape) == expected.shape and items(actual).tobytes() == expected.tobytes()


@dataclass(frozen=True)
class Block:
    """A view of memory, before it becomes a tensor: all bytes of a storage, and where in it the elements lie."""

    memory: NDArray[np.uint8]
    dtype: torch.dtype
    sizes: tuple[int, ...]
    strides: tuple[int, ...]  # in items
    offset: int  # in items

    def items(self) -> Items:
        """The elements, as a view that can be written to."""
        return _items(self.memory, self.dtype.itemsize, self.sizes, self.strides, self.offset)

    def tensor(self, device: str) -> Tensor:
        """The same view of a copy of the memory."""
        whole = torch.from_numpy(self.memory.copy()).to(device).view(self.dtype)
        return whole.as_strided(self.sizes, self.strides, self.offset)

    def written(self, values: Items) -> NDArray[np.uint8]:
        """What all of the memory should be once `values` were written to the view."""
        after = Block(self.memory.copy(), self.dtype, self.sizes, self.strides, self.offset)
        after.items()[...] = values
        return after.memory


# Memory layouts.


def dense_strides(sizes: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    """The strides of a dense tensor whose dimensions lie in memory in this order, the outermost first."""
    strides, stride = [0] * len(sizes), 1
    for d in reversed(order):
        strides[d] = stride
        stride *= max(sizes[d], 1)
    return tuple(strides)


def is_dense(t: Tensor) -> bool:
    """Whether some order of the dimensions leaves no gap between elements and lets none lie on another."""
    expected = 1
    for stride, size in sorted((stride, size) for stride, size in zip(t.stride(), t.shape, strict=True) if size > 1):
        if stride != expected:
            return False
        expected *= size
    return True
