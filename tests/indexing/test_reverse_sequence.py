"""dml.reverse_sequence, compared with ONNX's ReverseSequence as its text defines it, in NumPy."""

from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import oracle
import torch
from backends import DEVICE
from contract_cases import lengths_of, maker
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from transform_cases import examples, same

import torch_dml_ops as dml


def onnx_reverse_sequence(x: Any, lengths: list[int], time_axis: int, batch_axis: int) -> Any:
    """For each slice i along the batch axis, the first lengths[i] elements along the time axis are reversed."""
    result = x.copy()
    for i, length in enumerate(lengths):
        item, given = (np.moveaxis(a, (batch_axis, time_axis), (0, 1))[i] for a in (result, x))
        for t in range(length):
            item[t] = given[length - 1 - t]
    return result


@st.composite
def cases(draw: st.DrawFn) -> tuple[Tensor, list[int], torch.dtype, int, int]:
    dtype = draw(st.sampled_from(oracle.DTYPES))
    sizes = draw(hnp.array_shapes(min_dims=2, max_dims=5, min_side=0, max_side=4))
    axis, batch_axis = draw(st.permutations(range(len(sizes))))[:2]
    lengths = draw(st.lists(st.integers(0, sizes[axis]), min_size=sizes[batch_axis], max_size=sizes[batch_axis]))
    return maker(DEVICE)(*sizes, dtype=dtype), lengths, draw(st.sampled_from(oracle.LENGTH_DTYPES)), axis, batch_axis


@examples
@given(case=cases())
def test_it_is_onnxs(case: tuple[Tensor, list[int], torch.dtype, int, int]) -> None:
    x, lengths, dtype, axis, batch_axis = case
    expected = onnx_reverse_sequence(oracle.items(x), lengths, axis, batch_axis)
    result = dml.reverse_sequence(x, lengths_of(lengths, dtype, DEVICE), axis, batch_axis)
    assert result.dtype == x.dtype
    assert oracle.equal(result, expected)
    assert oracle.equal(x, oracle.items(x))


def test_the_examples_of_onnxs_text() -> None:
    x = torch.arange(16.0).reshape(4, 4)
    result = dml.reverse_sequence(x.t(), torch.tensor([4, 3, 2, 1]), axis=0, batch_axis=1)
    assert result.tolist() == [[3, 6, 9, 12], [2, 5, 8, 13], [1, 4, 10, 14], [0, 7, 11, 15]]
    result = dml.reverse_sequence(x, torch.tensor([1, 2, 3, 4]), axis=1)
    assert result.tolist() == [[0, 1, 2, 3], [5, 4, 6, 7], [10, 9, 8, 11], [15, 14, 13, 12]]


def test_lengths_beyond_the_axis() -> None:
    x = torch.arange(8).reshape(2, 4)
    assert dml.reverse_sequence(x, torch.tensor([99, -3]), 1).tolist() == [[3, 2, 1, 0], [4, 5, 6, 7]]


class Duck:
    """Stands for a tensor where torch's functions are called."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return function(*(a.tensor if isinstance(a, Duck) else a for a in args), **(kwargs or {}))


def test_objects_with_torch_function_alone() -> None:
    x, lengths = torch.randn(3, 4, 2), torch.tensor([3, 0, 2])
    for arguments in ((Duck(x), lengths), (x, Duck(lengths)), (Duck(x), Duck(lengths))):
        same(dml.reverse_sequence(*arguments, axis=1), dml.reverse_sequence(x, lengths, axis=1))
    same(dml.index(Duck(x))[::-1, 0], x[:, 0].flip(0))


def test_a_model_of_recurrent_layers_backwards() -> None:
    """What the documents show: each sequence is read from its end, and the results lie where its elements do."""
    torch.manual_seed(0)
    backwards, both = torch.nn.GRU(2, 3, batch_first=True), torch.nn.GRU(2, 3, batch_first=True, bidirectional=True)
    both.load_state_dict({**both.state_dict(), **{f"{k}_reverse": v for k, v in backwards.state_dict().items()}})
    x, lengths = torch.randn(4, 6, 2), torch.tensor([6, 4, 3, 1])
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths.cpu(), batch_first=True)
    with torch.backends.cudnn.flags(allow_tf32=False):
        expected, _ = torch.nn.utils.rnn.pad_packed_sequence(both(packed)[0], batch_first=True)
        y, _ = backwards(dml.reverse_sequence(x, lengths, axis=1))
    y = dml.reverse_sequence(y, lengths, axis=1)
    inside = (torch.arange(6) < lengths[:, None])[..., None]
    torch.testing.assert_close(y * inside, expected[..., 3:])
