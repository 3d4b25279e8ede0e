"""What results are like: their bits, for every dtype and rank, and their layouts."""

import numpy as np
import oracle
import pytest
import torch
from backends import DEVICE, Backend
from contract_cases import (
    CALLS,
    FORMS,
    Make,
    assert_right,
    every_dtype,
    every_op,
    given_as_out,
    lengths_of,
    named,
    one_length,
    same_sizes,
)
from oracle import as_list
from short_way_situations import ARGUMENTS
from torch import Tensor


@every_op
@every_dtype
def test_every_dtype(backend: Backend, t: Make, op: str, dtype: torch.dtype) -> None:
    arguments = CALLS[op](t, dtype=dtype)
    result = backend(op, *arguments)
    assert_right(result, op, arguments)
    assert as_list(result)[0].dtype == dtype
    assert as_list(result)[0].device == t(1).device


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


def test_more_dimensions_than_directml_has_none_of_which_merge(backend: Backend, t: Make) -> None:
    for rank in (9, 10):
        sizes, room = [2] * rank, [3] * rank
        x = t(*room)[(slice(0, 2),) * rank].permute(*reversed(range(rank)))
        out = t(*room)[(slice(1, 3),) * rank]
        window = [0] * rank, sizes, [-1 if d % 2 else 1 for d in range(rank)]
        lengths = torch.arange(2**rank, device=x.device).reshape(sizes).select(3, 0).unsqueeze(3) % 3
        for op, arguments in (
            ("slice1", (x, *window)),
            ("slice_grad", (x[:, :1], sizes, [0] * rank, sizes, [1, -2, *window[2][2:]])),
            ("split", (x, [2], 4)),
            ("join", ([x[:1], x[1:]], 0)),
            ("reverse_subsequences", (x, lengths, 3)),
        ):
            assert_right(backend(op, *arguments, out=given_as_out(op, out)), op, arguments)


@pytest.mark.parametrize("empty", [0, 1, 2])
def test_an_empty_batch_passes_through(backend: Backend, t: Make, empty: int) -> None:
    sizes = [2, 3, 4]
    sizes[empty] = 0
    few = [min(size, 1) for size in sizes]
    x = t(*sizes)
    for op, arguments in (
        *((op, arguments_for(x)) for op, arguments_for in ARGUMENTS.items()),
        ("slice1", (x, [0, 0, 0], sizes, [1, 1, 1], few)),
        ("slice_grad", (t(*few), sizes, [0, 0, 0], sizes, [1, 1, 1])),
        ("reverse_subsequences", (x, one_length(x, empty, 2), empty)),
    ):
        results = as_list(backend(op, *arguments))
        assert_right(results, op, arguments)
        backend(op, *arguments, out=results if op == "split" else results[0])


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


def test_join_keeps_the_order_that_its_inputs_share(backend: Backend, t: Make) -> None:
    last, first = t(2, 3, 4, 5).to(memory_format=torch.channels_last), t(2, 3, 4, 5)
    one = t(2, 1, 4, 5)  # dense in both orders: as channels_last, and contiguous
    transposed = t(4, 5, 2, 3).permute(2, 3, 0, 1)
    for inputs, format in (
        ([last, last], torch.channels_last),
        ([last, one], torch.channels_last),
        ([one, last], torch.channels_last),
        ([one, one, last, one], torch.channels_last),
        ([first, one], torch.contiguous_format),
        ([one, one], torch.contiguous_format),
        ([last, first], torch.contiguous_format),
        ([first, last], torch.contiguous_format),
        ([one, first, last], torch.contiguous_format),
        ([last, transposed], torch.contiguous_format),
        ([last, t(2, 6, 4, 5).to(memory_format=torch.channels_last)[:, ::2]], torch.contiguous_format),
        ([last, t(2, 1, 4, 5).expand(2, 3, 4, 5)], torch.contiguous_format),
    ):
        result = backend("join", inputs, 1)
        assert result.is_contiguous(memory_format=format)
        assert_right(result, "join", (inputs, 1))
    assert backend("join", [transposed, transposed], 0).permute(2, 3, 0, 1).is_contiguous()
