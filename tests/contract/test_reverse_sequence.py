"""dml.reverse_sequence, compared with ONNX's ReverseSequence as its text defines it, in NumPy."""

from collections.abc import Callable
from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import oracle
import pytest
import torch
from backends import DEVICE
from contract_cases import lengths_of, maker, named
from hypothesis import given
from hypothesis import strategies as st
from operator_cases import examples, graphs, same
from torch import Tensor
from torch.func import vmap
from torch.fx.experimental.proxy_tensor import make_fx

import torch_dml_ops as dml

pytestmark = pytest.mark.usefixtures("fresh_compiler")


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
    x = torch.tensor([[0.0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15]])
    assert dml.reverse_sequence(x, torch.tensor([4, 3, 2, 1]), axis=0, batch_axis=1).tolist() == [
        [3, 6, 9, 12],
        [2, 5, 8, 13],
        [1, 4, 10, 14],
        [0, 7, 11, 15],
    ]
    x = torch.arange(16.0).reshape(4, 4)
    assert dml.reverse_sequence(x, torch.tensor([1, 2, 3, 4]), axis=1).tolist() == [
        [0, 1, 2, 3],
        [5, 4, 6, 7],
        [10, 9, 8, 11],
        [15, 14, 13, 12],
    ]


def test_lengths_beyond_the_axis() -> None:
    x = torch.arange(8).reshape(2, 4)
    assert dml.reverse_sequence(x, torch.tensor([99, -3]), 1).tolist() == [[3, 2, 1, 0], [4, 5, 6, 7]]


TWO = torch.tensor([1, 2], device="cpu")
SAME_AXES = "batch_axis must differ from axis, got {} for both"
OF_ONE = "of one sequence without a batch, reverse_subsequences takes the length"
OF_MASK = "of a mask that is true within the sequences write lengths"
OF_THE_AXES = "must have sizes [{}], one for each index of axis {} of input, got {}"
REFUSED: dict[type[Exception], list[tuple[str, Callable[[Tensor], Any]]]] = {
    TypeError: [
        (
            "input must be a tensor, got an array of sizes [2, 3, 4]; write torch.from_numpy(array)",
            lambda x: (x.numpy(), TWO, 1),
        ),
        ("lengths must be a tensor, got [1, 2]; write torch.tensor(lengths)", lambda x: (x, [1, 2], 1)),
        ("input must be a tensor, got list; write torch.tensor(input)", lambda x: ([[1, 2]], TWO, 1)),
        ("axis must be a whole number, got True", lambda x: (x, TWO, True)),
        (
            "lengths must be a tensor, got an array of sizes [2]; write torch.from_numpy(array)",
            lambda x: (x, TWO.numpy(), 1),
        ),
        ("axis must be a whole number, got 1.0", lambda x: (x, TWO, 1.0)),
        ("batch_axis must be a whole number, got None", lambda x: (x, TWO, 1, None)),
    ],
    RuntimeError: [
        (f"{SAME_AXES.format(0)}; where items lie along axis 1, write batch_axis=1", lambda x: (x, TWO, 0)),
        (f"{SAME_AXES.format(2)}; where items lie along axis 0, write batch_axis=0", lambda x: (x, TWO, 2, 2)),
        (f"{SAME_AXES.format(0)}; {OF_ONE}", lambda x: (x, TWO[0], 0)),
        (f"input must have at least 2 dimensions, got 1; {OF_ONE}", lambda x: (x[0, 0], TWO[:1], 0)),
        (f"input must have at least 2 dimensions, got 0; {OF_ONE}", lambda x: (x[0, 0, 0], TWO[:1], 0)),
        ("input must have at least 2 dimensions, got 1; are input and lengths swapped?", lambda x: (TWO, x, 1)),
        (
            f"lengths {OF_THE_AXES.format(2, 0, [3])}; where items lie along axis 1, write axis=0, batch_axis=1",
            lambda x: (x, torch.tensor([1, 2, 3]), 1),
        ),
        (f"lengths {OF_THE_AXES.format(2, 0, [2, 1])}; write lengths.flatten()", lambda x: (x, TWO[:, None], 1)),
        (
            f"lengths {OF_THE_AXES.format(2, 0, [2, 3])}; {OF_MASK}.sum(1)",
            lambda x: (x, x[:, :, 0] == 0, 1),
        ),
        (
            f"lengths {OF_THE_AXES.format(3, 1, [2, 3])}; {OF_MASK}.sum(0)",
            lambda x: (x, x[:, :, 0] == 0, 0, 1),
        ),
        (
            f"lengths {OF_THE_AXES.format(2, 0, [])}; for the same length everywhere write lengths.expand(2)",
            lambda x: (x, TWO[0], 1),
        ),
        (f"lengths {OF_THE_AXES.format(4, 2, [2])}", lambda x: (x, TWO, 1, 2)),
        ("axis must be from 0 to 2, got -1; write 2 instead", lambda x: (x, TWO, -1)),
        ("axis must be from 0 to 2, got -4", lambda x: (x, TWO, -4)),
        ("axis must be from 0 to 2, got 3", lambda x: (x, TWO, 3)),
        ("batch_axis must be from 0 to 2, got -3; write 0 instead", lambda x: (x, TWO, 1, -3)),
        ("batch_axis must be from 0 to 2, got 3", lambda x: (x, TWO, 1, 3)),
        ("input must have strides, got layout sparse_coo; call to_dense() first", lambda x: (x.to_sparse(), TWO, 1)),
        ("lengths must have strides, got layout sparse_coo; call to_dense() first", lambda x: (x, TWO.to_sparse(), 1)),
        (
            "input must not be quantized; call dequantize() or int_repr() first",
            lambda x: (torch.quantize_per_tensor(x, 0.1, 0, torch.qint8), TWO, 1),
        ),
        (
            "input must not be a nested tensor; call to_padded_tensor(0.0) or unbind() first",
            lambda x: (torch.nested.nested_tensor([x[0], x[1]]), TWO, 1),
        ),
    ],
}


@pytest.mark.parametrize("function", ["reverse_sequence", "sequence_lengths_like"])
@pytest.mark.parametrize(
    ("error", "sentence", "arguments"),
    [pytest.param(error, *row, id=row[0]) for error, rows in REFUSED.items() for row in rows],
)
def test_what_is_refused(
    function: str, error: type[Exception], sentence: str, arguments: Callable[[Tensor], Any]
) -> None:
    with torch.device("cpu"), pytest.raises(error) as refused:
        getattr(dml, function)(*arguments(torch.zeros(2, 3, 4)))
    assert type(refused.value) is error
    assert str(refused.value) == f"{function}: {sentence}"


@pytest.mark.parametrize("dtype", [torch.float32, torch.int16, torch.uint8, torch.bool, torch.complex64])
def test_lengths_of_other_dtypes_or_devices_are_refused(dtype: torch.dtype) -> None:
    x = torch.zeros(2, 3, 4, device="cpu")
    for lengths, sentence in (
        (TWO.to(dtype), f"have dtype uint32, uint64, int32 or int64, got {named(dtype)}; write lengths.long()"),
        (TWO.to("meta"), "be on the device of input, cpu, got meta; write lengths.to(input.device)"),
    ):
        with pytest.raises(RuntimeError) as refused:
            dml.reverse_sequence(x, lengths, 1)
        assert str(refused.value) == f"reverse_sequence: lengths must {sentence}"


# What follows from reverse_subsequences.

LENGTHS = torch.tensor([3, 0, 2])


def plain_torch(x: Tensor, lengths: Tensor) -> Tensor:
    return torch.stack([torch.cat([row[:n].flip(0), row[n:]]) for row, n in zip(x, lengths.tolist(), strict=True)])


@pytest.mark.parametrize("in_dims", [(0, None), (None, 0), (0, 0), (-1, 1)], ids=str)
def test_vmap(in_dims: tuple[int | None, int | None]) -> None:
    x, lengths = torch.randn(3, 4, 2), LENGTHS
    xs = x if in_dims[0] is None else torch.stack([x, x + 9], in_dims[0])
    many = lengths if in_dims[1] is None else torch.stack([lengths, lengths + 1], in_dims[1])
    expected = torch.stack(
        [
            plain_torch(
                xs if in_dims[0] is None else xs.select(in_dims[0], k),
                many if in_dims[1] is None else many.select(in_dims[1], k),
            )
            for k in range(2)
        ]
    )
    same(vmap(lambda x, n: dml.reverse_sequence(x, n, 1), in_dims)(xs, many), expected)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_compiled_once_for_all_sizes(backend: str) -> None:
    def f(x: Tensor, n: Tensor) -> Tensor:
        return dml.reverse_sequence(x, n, 1) * 2

    calls = [(torch.randn(rows, steps, 2), torch.arange(rows) % 4) for rows, steps in ((3, 4), (5, 6), (7, 8))]
    assert graphs(f, calls, backend, dynamic=True) == 1


def test_exported_and_traced() -> None:
    class Module(torch.nn.Module):
        def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
            return dml.reverse_sequence(x, lengths, axis=1)

    x = torch.randn(3, 4, 2)
    rows = torch.export.Dim("rows", min=2)
    shapes = {"x": {0: rows}, "lengths": {0: rows}}
    for traced in (
        torch.export.export(Module(), (x, LENGTHS), dynamic_shapes=shapes).module(),
        torch.fx.symbolic_trace(Module()),
        make_fx(Module())(x, LENGTHS),
        torch.jit.trace(Module(), (x, LENGTHS)),
    ):
        same(traced(x + 1, LENGTHS + 1), plain_torch(x + 1, LENGTHS + 1))
    same(torch.export.export(Module(), (x, LENGTHS), dynamic_shapes=shapes).module()(x[:2], LENGTHS[:2]),
         plain_torch(x[:2], LENGTHS[:2]))  # fmt: skip


class Duck:
    """Stands for a tensor where torch's functions are called."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return function(*(a.tensor if isinstance(a, Duck) else a for a in args), **(kwargs or {}))


def test_objects_with_torch_function_alone() -> None:
    x = torch.randn(3, 4, 2)
    for arguments in ((Duck(x), LENGTHS), (x, Duck(LENGTHS)), (Duck(x), Duck(LENGTHS))):
        same(dml.reverse_sequence(*arguments, axis=1), plain_torch(x, LENGTHS))
    same(dml.index(Duck(x))[::-1, 0], x[:, 0].flip(0))


def test_a_model_of_recurrent_layers_backwards() -> None:
    """What the documents show: each sequence is read from its end, and the results lie where its elements do."""
    torch.manual_seed(0)
    backwards, both = torch.nn.GRU(2, 3, batch_first=True), torch.nn.GRU(2, 3, batch_first=True, bidirectional=True)
    both.load_state_dict({**both.state_dict(), **{f"{k}_reverse": v for k, v in backwards.state_dict().items()}})
    x, lengths = torch.randn(4, 6, 2), torch.tensor([6, 4, 3, 1])
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths.cpu(), batch_first=True)
    expected, _ = torch.nn.utils.rnn.pad_packed_sequence(both(packed)[0], batch_first=True)
    y, _ = backwards(dml.reverse_sequence(x, lengths, axis=1))
    y = dml.reverse_sequence(y, lengths, axis=1)
    inside = (torch.arange(6) < lengths[:, None])[..., None]
    torch.testing.assert_close(y * inside, expected[..., 3:])
