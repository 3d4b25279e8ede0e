"""The examples of DirectML's texts, value for value: in FLOAT32 as printed there, and in every other dtype.

SLICE_GRAD and JOIN have no examples of their own. They are the inverses of SLICE1 and SPLIT, so theirs are read
backwards.
"""

from collections.abc import Callable, Sequence
from typing import Any

import oracle
import pytest
import torch
from backends import Backend
from oracle import as_list
from torch import Tensor

# bool and the narrow floats cannot tell the examples' numbers apart: there, the number is in the item's bits.
BY_BITS = (torch.bool, *(dtype for dtype in oracle.DTYPES if str(dtype).startswith("torch.float8")))
Maker = Callable[[object], Tensor]  # of the examples' tensors, of one dtype on one device


@pytest.fixture(params=oracle.DTYPES, ids=lambda dtype: str(dtype).removeprefix("torch."))
def make(request: pytest.FixtureRequest, backend: Backend) -> Maker:
    dtype, device = request.param, backend.device
    if dtype in BY_BITS:
        return lambda values: oracle.tensor(oracle.numbered(values, dtype), dtype, device)
    return lambda values: torch.tensor(values, dtype=dtype).to(device)


def check(backend: Backend, expected: Tensor | Sequence[Tensor], op: str, *arguments: Any) -> None:
    """The call gives `expected`, as a new result and in a given `out`."""
    outs: Any = torch.empty_like(expected) if isinstance(expected, Tensor) else [torch.empty_like(t) for t in expected]
    new = backend(op, *arguments)
    backend(op, *arguments, out=outs)
    for results in (new, outs):
        for result, want in zip(as_list(results), as_list(expected), strict=True):
            assert result.dtype == want.dtype
            assert oracle.equal(result, oracle.items(want))


SLICE1_INPUT = [[[[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12], [13, 14, 15, 16]]]]
SLICE1_EXAMPLE_1 = [[[[2, 4], [10, 12]]]]
SLICE1_EXAMPLE_2 = [[[[14, 16], [6, 8]]]]
WINDOW_1 = [0, 0, 0, 1], [1, 1, 4, 3], [1, 1, 2, 2]
WINDOW_2 = [0, 0, 0, 1], [1, 1, 4, 3], [1, 1, -2, 2]
BACKWARDS_1 = [[[[0, 2, 0, 4], [0, 0, 0, 0], [0, 10, 0, 12], [0, 0, 0, 0]]]]
BACKWARDS_2 = [[[[0, 0, 0, 0], [0, 6, 0, 8], [0, 0, 0, 0], [0, 14, 0, 16]]]]
SPLIT_INPUT = [[[[1, 2], [3, 4], [5, 6], [7, 8], [9, 10], [11, 12]]]]
SPLIT_EXAMPLE_1 = ([[[[1, 2], [3, 4]]]], [[[[5, 6]]]], [[[[7, 8], [9, 10], [11, 12]]]])
SPLIT_EXAMPLE_2 = ([[[[1], [3], [5], [7], [9], [11]]]], [[[[2], [4], [6], [8], [10], [12]]]])

# What is expected, and the call; of split and join, a tuple is of tensors.
EXAMPLES: dict[str, tuple[Any, ...]] = {
    "slice1, example 1": (SLICE1_EXAMPLE_1, "slice1", SLICE1_INPUT, *WINDOW_1),
    "slice1, example 1 with its output sizes": (SLICE1_EXAMPLE_1, "slice1", SLICE1_INPUT, *WINDOW_1, [1, 1, 2, 2]),
    "slice1, example 2": (SLICE1_EXAMPLE_2, "slice1", SLICE1_INPUT, *WINDOW_2),
    "slice1, example 2 with its output sizes": (SLICE1_EXAMPLE_2, "slice1", SLICE1_INPUT, *WINDOW_2, [1, 1, 2, 2]),
    "slice1, example 1 read backwards": (BACKWARDS_1, "slice_grad", SLICE1_EXAMPLE_1, [1, 1, 4, 4], *WINDOW_1),
    "slice1, example 2 read backwards": (BACKWARDS_2, "slice_grad", SLICE1_EXAMPLE_2, [1, 1, 4, 4], *WINDOW_2),
    "split, example 1": (SPLIT_EXAMPLE_1, "split", SPLIT_INPUT, [2, 1, 3], 2),
    "split, example 2": (SPLIT_EXAMPLE_2, "split", SPLIT_INPUT, [1, 1], 3),
    "split, example 1 read backwards": (SPLIT_INPUT, "join", SPLIT_EXAMPLE_1, 2),
    "split, example 2 read backwards": (SPLIT_INPUT, "join", SPLIT_EXAMPLE_2, 3),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(backend: Backend, make: Maker, name: str) -> None:
    expected, op, first, *others = EXAMPLES[name]
    expected, first = (
        [make(v) for v in value] if isinstance(value, tuple) else make(value) for value in (expected, first)
    )
    check(backend, expected, op, first, *others)


REVERSE_INPUT = [[[[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]]]]
REVERSE_EXAMPLES: dict[int, tuple[Any, Any]] = {  # by the axis, what is expected and the lengths
    3: ([[[[2, 1, 3, 4], [8, 7, 6, 5], [11, 10, 9, 12]]]], [[[[2], [4], [3]]]]),
    2: ([[[[5, 10, 3, 4], [1, 6, 7, 8], [9, 2, 11, 12]]]], [[[[2, 3, 1, 0]]]]),  # 1 and 0 leave a column as it is
}


@pytest.mark.parametrize("axis", REVERSE_EXAMPLES)
@pytest.mark.parametrize("length_dtype", oracle.LENGTH_DTYPES, ids=str)
def test_reverse_subsequences_examples(backend: Backend, make: Maker, length_dtype: torch.dtype, axis: int) -> None:
    expected, lengths = REVERSE_EXAMPLES[axis]
    given = torch.tensor(lengths, dtype=length_dtype).to(backend.device)
    check(backend, make(expected), "reverse_subsequences", make(REVERSE_INPUT), given, axis)
