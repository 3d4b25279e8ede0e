"""The numbers: windows, strides and sequence lengths up to the limits of their types."""

import math

import numpy as np
import oracle
import pytest
import torch
from backends import Backend
from contract_cases import Make, assert_right, lengths_of, named


def test_a_window_walks_from_its_first_element_or_from_its_last(backend: Backend, t: Make) -> None:
    x = torch.arange(10, device=backend.device)
    for window, expected in (
        (([2], [5], [1]), [2, 3, 4, 5, 6]),
        (([2], [5], [4]), [2, 6]),
        (([2], [5], [-1]), [6, 5, 4, 3, 2]),
        (([2], [5], [-3]), [6, 3]),
        (([2], [5], [-5]), [6]),
        (([0], [10], [9]), [0, 9]),
        (([9], [1], [-1]), [9]),
        (([2], [5], [-2], [2]), [6, 4]),  # not all that the walk could reach need be copied
    ):
        assert backend("slice1", x, *window).tolist() == expected
        steps = torch.tensor([n + 1 for n in expected], device=backend.device)
        scattered = [n + 1 if n in expected else 0 for n in range(10)]
        assert backend("slice_grad", steps, [10], *window[:3]).tolist() == scattered


def test_windows_in_dimensions_up_to_the_limits_of_64_bits(backend: Backend, t: Make) -> None:
    """Views of one element, repeated almost without end."""
    n = 2**63 - 1
    x = t(1, 3).expand(1, 3)[:, :, None].expand(1, 3, 2**59)
    m = 2**59
    assert backend("slice1", x, [0, 0, m - 1], [1, 3, 1], [n, -1, 1]).equal(x[:, :, :1].flip(1))
    assert backend("slice1", x, [0, 0, 0], [1, 3, m], [1, -1, -(m - 1)]).equal(x[:, :, :2].flip(1))
    assert backend("slice1", x, [0, 0, 5], [1, 3, m - 5], [1, 1, 2**57], [1, 3, 3]).equal(x[:, :, :3])


# Lengths.


@pytest.mark.parametrize("dtype", oracle.LENGTH_DTYPES, ids=named)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_lengths_of_every_kind(backend: Backend, t: Make, dtype: torch.dtype, axis: int) -> None:
    """0 and 1 leave a row as it is, one over the axis means the whole axis, a negative one counts as 0."""
    limits = np.iinfo(named(dtype))
    strange = [0, 1, 2, 3, 4, 5, 100, -1, -2, 2**31 - 1, 2**31, -(2**31), 2**32 - 1, 2**32 + 1, 2**63, 2**63 + 1]
    strange = [n for n in (*strange, limits.min, limits.max) if limits.min <= n <= limits.max]
    sizes = [len(strange), len(strange), len(strange)]
    sizes[axis] = 4
    count = math.prod(sizes) // 4
    lengths = (strange * count)[:count]
    x = t(*sizes, dtype=torch.int32)
    n = lengths_of(
        np.array(lengths, named(dtype)).reshape([1 if d == axis else s for d, s in enumerate(sizes)]),
        dtype,
        backend.device,
    )
    result = backend("reverse_subsequences", x, n, axis)
    assert_right(result, "reverse_subsequences", (x, n, axis))
    rows, given = result.movedim(axis, -1).reshape(-1, 4), x.movedim(axis, -1).reshape(-1, 4)
    for length, row, before in zip(lengths, rows.tolist(), given.tolist(), strict=True):
        k = min(max(length, 0), 4)
        assert row == before[:k][::-1] + before[k:]
