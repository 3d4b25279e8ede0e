"""The two conveniences of the Python package: window and sequence_lengths_like."""

import sys
from typing import Any

import numpy as np
import pytest
import torch
from backends import DEVICE
from contract_cases import assert_right, maker

import torch_dml_ops as dml

INDEXES = [
    *(np.s_[:], np.s_[...], np.s_[::-1], np.s_[::2], np.s_[::-2], np.s_[1:], np.s_[:-1], np.s_[-3:], np.s_[:3]),
    *(np.s_[1:5:2], np.s_[5:1:-2], np.s_[-1:-6:-1], np.s_[-2:1:-3], np.s_[100:2:-1], np.s_[-100:100], np.s_[3::-1]),
    *(np.s_[:3:-1], np.s_[2:3], np.s_[2:1:-1], np.s_[6:], np.s_[:1], np.s_[0::-1]),
    *(np.s_[::7], np.s_[::-7], np.s_[::100], np.s_[::-100], np.s_[:: sys.maxsize], np.s_[:: -sys.maxsize - 1]),
    *(np.s_[sys.maxsize :: -1], np.s_[-sys.maxsize - 1 :], np.s_[: sys.maxsize], np.s_[:: -sys.maxsize]),
    *(np.s_[10**30 :: -1], np.s_[: 10**30], np.s_[:: 10**30], np.s_[:: -(10**30)]),
    *(np.s_[..., ::-1], np.s_[::-1, ...], np.s_[1:3, ..., ::-2], np.s_[:, 1:4], np.s_[::-2, 1:5], np.s_[..., 2:, :]),
    *(np.s_[:, :, :], np.s_[1:, ..., 1:, ::-1], np.s_[:, :, ..., ::3], np.s_[::-1, ::-1, ::-1], (slice(2), ...), ()),
]


@pytest.mark.parametrize("index", INDEXES, ids=str)
def test_window_is_a_numpy_index(index: Any) -> None:
    x = torch.arange(7 * 6 * 5).reshape(7, 6, 5)
    expected = x.cpu().numpy()[index]
    assert expected.size
    window = dml.window(x.shape, index)
    result = dml.slice1(x, *window)
    assert result.shape == expected.shape
    assert result.tolist() == expected.tolist()
    assert all(type(numbers) is tuple for numbers in window)
    whole = np.zeros(x.shape, np.int64)
    whole[index] = expected
    assert dml.slice_grad(result, x.shape, *window).tolist() == whole.tolist()


def test_window_of_all_slices_of_small_sizes() -> None:
    bounds = [None, *range(-5, 6)]
    for size in range(1, 5):
        x = torch.arange(size)
        for index in (slice(a, b, c) for a in bounds for b in bounds for c in (None, 1, 2, 3, -1, -2, -3)):
            expected = x.cpu().numpy()[index].tolist()
            if expected:
                assert dml.slice1(x, *dml.window((size,), index)).tolist() == expected
            else:
                with pytest.raises(ValueError, match="must select something"):
                    dml.window((size,), index)


def test_window_of_an_empty_dimension_is_empty() -> None:
    x = torch.zeros(0, 3)
    for index in (np.s_[:], np.s_[::-1], np.s_[5:2, ::2], np.s_[...]):
        assert dml.slice1(x, *dml.window(x.shape, index)).shape == x.cpu().numpy()[index].shape
    assert dml.window((0,), np.s_[::-2]) == ((0,), (0,), (-2,))


def test_window_of_a_shape_or_a_list() -> None:
    assert dml.window((5, 6), np.s_[::-2, 1:5]) == ((0, 1), (5, 4), (-2, 1))
    assert dml.window([5, 6], np.s_[::-2, 1:5]) == ((0, 1), (5, 4), (-2, 1))
    assert dml.window(torch.zeros(5, 6).shape, np.s_[::-2, 1:5]) == ((0, 1), (5, 4), (-2, 1))


# sequence_lengths_like.


@pytest.mark.parametrize(("axis", "batch_axis"), [(1, 0), (2, 0), (0, 1), (2, 1), (0, 2), (1, 2)])
def test_sequence_lengths_like(axis: int, batch_axis: int) -> None:
    x = maker(DEVICE)(3, 4, 5)
    lengths = torch.tensor([2, 4, 3, 0, 9][: x.shape[batch_axis]], device=DEVICE)
    shaped = dml.sequence_lengths_like(x, lengths, axis, batch_axis)
    assert shaped.shape == torch.Size([1 if d == axis else size for d, size in enumerate(x.shape)])
    for k, length in enumerate(lengths.tolist()):
        assert (shaped.select(batch_axis, k) == length).all()
    arguments = x, shaped, axis
    assert_right(dml.reverse_subsequences(*arguments), "reverse_subsequences", arguments)


def test_sequence_lengths_like_takes_no_memory() -> None:
    x, lengths = torch.empty(1, device="meta").expand(3, 10**6, 10**6), torch.tensor([1, 2, 3, 4, 5, 6])[::2]
    shaped = dml.sequence_lengths_like(x, lengths, 1)
    assert shaped.shape == (3, 1, 10**6)
    assert shaped.data_ptr() == lengths.data_ptr()
    assert shaped.untyped_storage().data_ptr() == lengths.untyped_storage().data_ptr()
    assert shaped.stride() == (2, shaped.stride(1), 0)


def test_sequence_lengths_like_takes_batch_axis_0_unless_told() -> None:
    x, lengths = torch.zeros(3, 3), torch.tensor([1, 2, 3])
    assert dml.sequence_lengths_like(x, lengths, 1).tolist() == [[1], [2], [3]]
    assert dml.sequence_lengths_like(x, lengths, axis=0, batch_axis=1).tolist() == [[1, 2, 3]]
