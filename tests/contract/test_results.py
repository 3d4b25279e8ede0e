"""What results are like: their bits, for every dtype and rank, and their layouts."""

import numpy as np
import oracle
import pytest
import torch
from backends import DEVICE, Backend
from contract_cases import (
    FORMS,
    Make,
    assert_right,
    every_op,
    given_as_out,
    lengths_of,
    named,
    same_sizes,
)
from oracle import as_list
from short_way_situations import ARGUMENTS
from torch import Tensor

# Bit patterns that arithmetic, a conversion or a comparison would change.
PATTERNS = {
    torch.float16: [0x7C01, 0x7DFF, 0xFC01, 0x7E00, 0xFE55, 0x8000, 0x0001, 0x7C00],
    torch.bfloat16: [0x7F81, 0x7FBF, 0xFF81, 0x7FC0, 0xFFD5, 0x8000, 0x0001, 0x7F80],
    torch.float32: [0x7F800001, 0x7FBFFFFF, 0xFF800001, 0x7FC00000, 0xFFD55555, 0x80000000, 0x00000001, 0x7F800000],
    torch.float64: [
        *(0x7FF0000000000001, 0x7FF7FFFFFFFFFFFF, 0xFFF0000000000001, 0x7FF8000000000000),
        *(0xFFFD555555555555, 0x8000000000000000, 0x0000000000000001, 0x7FF0000000000000),
    ],
    torch.float8_e4m3fn: [0x7F, 0xFF, 0x80, 0x01, 0x7E, 0x00, 0x55, 0xFE],
    torch.float8_e4m3fnuz: [0x80, 0x7F, 0xFF, 0x01, 0x7E, 0x00, 0x55, 0xFE],
    torch.float8_e5m2: [0x7D, 0x7E, 0x7F, 0xFD, 0xFE, 0xFF, 0x80, 0x7C],
    torch.float8_e5m2fnuz: [0x80, 0x7F, 0xFF, 0x01, 0x7E, 0x00, 0x55, 0xFE],
    torch.float8_e8m0fnu: [0xFF, 0x00, 0x7F, 0x80, 0x01, 0xFE, 0x55, 0xAA],
    torch.bool: [0x00, 0x01, 0x02, 0xFF, 0x80, 0x01, 0x00, 0x7F],
}
PARTS = {torch.complex32: torch.float16, torch.complex64: torch.float32, torch.complex128: torch.float64}


def patterns(dtype: torch.dtype, device: str) -> Tensor:
    """Eight elements, complex ones with a pattern in each part."""
    part = PARTS.get(dtype, dtype)
    bits = np.array(PATTERNS[part], oracle.ITEMS[part.itemsize])
    if dtype != part:
        bits = np.stack([bits, np.roll(bits, 3)], axis=-1)
    return oracle.tensor(bits.view(oracle.ITEMS[dtype.itemsize]).reshape(8), dtype, device)


@pytest.mark.parametrize("dtype", [*PATTERNS, *PARTS], ids=named)
def test_bits_are_moved_and_never_converted(backend: Backend, dtype: torch.dtype) -> None:
    """NaNs keep their payloads and stay signalling, zeros keep their signs."""
    x = patterns(dtype, backend.device)
    lengths = lengths_of([5], torch.int32, backend.device)
    for op, arguments in (
        ("slice1", (x, [0], [8], [1])),
        ("slice1", (x, [0], [8], [-1])),
        ("slice1", (x, [1], [7], [-3])),
        ("slice_grad", (x, [8], [0], [8], [-1])),
        ("slice_grad", (x, [17], [1], [16], [2])),
        ("split", (x, [3, 5], 0)),
        ("join", ([x, x[1:], x[:5]], 0)),
        ("reverse_subsequences", (x, lengths, 0)),
    ):
        result = backend(op, *arguments)
        assert_right(result, op, arguments)
        outs = [torch.empty_like(r) for r in as_list(result)]
        backend(op, *arguments, out=outs if op == "split" else outs[0])
        assert_right(outs, op, arguments)


def test_results_are_never_views(backend: Backend, t: Make) -> None:
    x = t(2, 3)
    for op, arguments in (*same_sizes(x, 1).items(), ("split", (x, [1, 2], 1))):
        results = as_list(backend(op, *arguments))
        storages = {r.untyped_storage().data_ptr() for r in (x, *results)}
        assert len(storages) == 1 + len(results)
        for result in results:
            result.zero_()
        assert x.equal(t(2, 3))


def test_any_rank_from_1_on(backend: Backend, t: Make) -> None:
    for rank in (*range(1, 13), 20):
        x = t(*(2 if d % 3 == 0 else 1 for d in range(rank - 1)), 3)
        for op, arguments_for in ARGUMENTS.items():
            arguments = arguments_for(x)
            assert_right(backend(op, *arguments), op, arguments)


EMPTY = [(0, 2**62), (2**62, 0), (2**62, 0, 2**62), (0, 2**63 - 1), (2**63 - 1, 0), (2, 2**62, 0), (3, 0, 2**40, 2**20)]


@pytest.mark.parametrize("sizes", EMPTY, ids=str)
def test_an_empty_result_may_have_every_size_that_torch_allows(sizes: tuple[int, ...]) -> None:
    """And has the strides that torch gives it."""
    axis = 1 if sizes[0] == 0 else 0
    wanted = torch.empty(sizes, device=DEVICE)
    for form in FORMS:
        x = torch.empty(sizes, device=form.device)
        for op, arguments in same_sizes(x, axis).items():
            (result,) = as_list(form(op, *arguments))
            assert (result.shape, result.stride()) == (wanted.shape, wanted.stride()), (form, op)
            form(op, *arguments, out=given_as_out(op, torch.empty_like(x)))


def test_an_empty_join_of_large_sizes(backend: Backend) -> None:
    inputs = [torch.empty(0, 2**61, 1, device=backend.device), torch.empty(0, 2**61, 2, device=backend.device)]
    result = backend("join", inputs, 2)
    assert (result.shape, result.stride()) == ((0, 2**61, 3), torch.empty(0, 2**61, 3).stride())


# Layouts of results.


def order_of(t: Tensor) -> list[int]:
    """The dimensions, outermost in memory first; of equal strides, one of the two belongs to a size of 1."""
    return sorted(range(t.dim()), key=lambda d: (-t.stride(d), t.shape[d] == 1))


DENSE = {
    "contiguous": lambda t: t(2, 3, 4, 5),
    "channels_last": lambda t: t(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "channels_last, one channel": lambda t: t(2, 1, 4, 5).to(memory_format=torch.channels_last),
    "channels_last, one pixel": lambda t: t(2, 3, 1, 1).to(memory_format=torch.channels_last),
    "channels_last_3d": lambda t: t(2, 3, 4, 5, 2).to(memory_format=torch.channels_last_3d),
    "one dimension": lambda t: t(7),
    "transposed": lambda t: t(3, 4).t(),
    "permuted": lambda t: t(2, 3, 4, 5).permute(2, 0, 3, 1),
    "permuted, with a dimension of size 1": lambda t: t(2, 1, 4, 5).permute(3, 1, 0, 2),
    "odd stride in a dimension of size 1": lambda t: t(2, 1, 4).as_strided((2, 1, 4), (4, 100, 1)),
    "stride 0 in a dimension of size 1": lambda t: t(2, 1, 4).as_strided((2, 1, 4), (4, 0, 1)),
    "one row of a larger tensor": lambda t: t(5, 3, 4)[2:3],
    "middle of a larger tensor": lambda t: t(5, 3, 4)[1:4],
}
NOT_DENSE = {
    "half of the columns": lambda t: t(4, 6)[:, :3],
    "every other row": lambda t: t(4, 6)[::2],
    "every other column, transposed": lambda t: t(4, 6)[:, ::2].t(),
    "expanded": lambda t: t(1, 6).expand(4, 6),
    "expanded and transposed": lambda t: t(1, 6).expand(4, 6).t(),
    "channels_last, cropped": lambda t: t(2, 3, 4, 5).to(memory_format=torch.channels_last)[:, :, 1:, 1:],
    "sliding windows": lambda t: t(8).unfold(0, 3, 1),
}


@every_op
@pytest.mark.parametrize("layout", DENSE)
def test_a_result_keeps_the_order_of_a_dense_input(backend: Backend, t: Make, op: str, layout: str) -> None:
    x = DENSE[layout](t)
    order = order_of(torch.empty_like(x))
    for result in as_list(backend(op, *ARGUMENTS[op](x))):
        assert result.stride() == oracle.dense_strides(result.shape, order)


@every_op
@pytest.mark.parametrize("layout", NOT_DENSE)
def test_a_result_of_any_other_input_is_contiguous(backend: Backend, t: Make, op: str, layout: str) -> None:
    arguments = ARGUMENTS[op](NOT_DENSE[layout](t))
    for result in as_list(backend(op, *arguments)):
        assert result.is_contiguous()
    assert_right(backend(op, *arguments), op, arguments)


def test_an_empty_channels_last_batch_stays_channels_last(backend: Backend, t: Make) -> None:
    x = t(0, 3, 4, 5).to(memory_format=torch.channels_last)
    for op, arguments_for in ARGUMENTS.items():
        for result in as_list(backend(op, *arguments_for(x))):
            assert result.is_contiguous(memory_format=torch.channels_last), op
