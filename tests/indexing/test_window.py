"""The two conveniences of the Python package: window and sequence_lengths_like."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transform_cases import examples

import torch_dml_ops as dml

slices = st.tuples(st.slices(7), st.slices(6), st.slices(5))


@examples
@given(slices, st.integers(0, 3), st.sampled_from([(), (...,)]))
def test_window_is_a_numpy_index(of_all: tuple[slice, ...], count: int, rest: tuple[Any, ...]) -> None:
    """Of slices before an Ellipsis or behind it, or without one."""
    x = torch.arange(7 * 6 * 5).reshape(7, 6, 5)
    for index in ((*of_all[:count], *rest), (*rest, *of_all[3 - count :]) if rest else of_all):
        expected = x.cpu().numpy()[index]
        if not expected.size:
            with pytest.raises(ValueError, match="must select something"):
                dml.window(x.shape, index)
            continue
        window = dml.window(x.shape, index)
        result = dml.slice1(x, *window)
        np.testing.assert_array_equal(result.cpu(), expected)
        assert all(type(numbers) is tuple for numbers in window)
        whole = np.zeros(x.shape, np.int64)
        whole[index] = expected
        np.testing.assert_array_equal(dml.slice_grad(result, x.shape, *window).cpu(), whole)


def test_window_of_an_empty_dimension_is_empty() -> None:
    x = torch.zeros(0, 3)
    for index in (np.s_[:], np.s_[::-1], np.s_[5:2, ::2], np.s_[...]):
        assert dml.slice1(x, *dml.window(x.shape, index)).shape == x.cpu().numpy()[index].shape
    assert dml.window((0,), np.s_[::-2]) == ((0,), (0,), (-2,))


def test_window_of_a_shape_or_a_list() -> None:
    for shape in ((5, 6), [5, 6], torch.zeros(5, 6).shape):
        assert dml.window(shape, np.s_[::-2, 1:5]) == ((0, 1), (5, 4), (-2, 1))


# sequence_lengths_like; of what it gives, reverse_sequence is made, which is compared with ONNX's.


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
