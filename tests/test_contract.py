"""The contract of the operators, rule by rule: what is refused, and with which sentence; which `out` is taken; what
results are like; dtypes, lengths and unusual inputs; and the two conveniences of the Python package.
"""

import math
import multiprocessing
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import oracle
import pytest
import refusals
import torch
from backends import DEVICE, Backend, backends
from torch import Tensor

import torch_dml_ops as dml

Make = Callable[..., Tensor]  # (*sizes, dtype=float32) -> a tensor whose elements differ, on the device under test


def maker(device: str) -> Make:
    def make(*sizes: int, dtype: torch.dtype = torch.float32) -> Tensor:
        count = math.prod(sizes) * dtype.itemsize
        memory = np.arange(1, count + 1).astype(np.uint8)
        return oracle.tensor(memory.view(oracle.ITEMS[dtype.itemsize]).reshape(sizes), dtype, device)

    return make


@pytest.fixture
def t(backend: Backend) -> Make:
    return maker(backend.device)


def as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def tensors_in(values: Any) -> list[Tensor]:
    return [t for value in as_list(values) for t in as_list(value) if isinstance(t, Tensor)]


def lengths_of(numbers: object, dtype: torch.dtype, device: str) -> Tensor:
    array = np.asarray(numbers, str(dtype).removeprefix("torch."))
    return oracle.tensor(array, dtype, device)


# One call of each operator with a single result of sizes [2, 3].
CALLS = {
    "slice1": lambda t, **kind: (t(4, 3, **kind), [0, 0], [4, 3], [-2, 1]),
    "slice_grad": lambda t, **kind: (t(1, 3, **kind), [2, 3], [0, 0], [2, 3], [-2, -1]),
    "split": lambda t, **kind: (t(2, 3, **kind), [3], 1),
    "join": lambda t, **kind: ([t(2, 1, **kind), t(2, 2, **kind)], 1),
    "reverse_subsequences": lambda t, **kind: (
        t(2, 3, **kind),
        lengths_of([[2], [3]], torch.int64, t(1).device),
        1,
    ),
}
OPS = tuple(CALLS)

every_op = pytest.mark.parametrize("op", OPS)
every_dtype = pytest.mark.parametrize("dtype", oracle.DTYPES, ids=lambda dtype: str(dtype).removeprefix("torch."))


def one_length(x: Tensor, axis: int, length: int) -> Tensor:
    """The same length everywhere."""
    sizes = [1 if d == axis else size for d, size in enumerate(x.shape)]
    return torch.full(sizes, length, dtype=torch.int64, device=x.device)


def named(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def given_as_out(op: str, out: Tensor) -> Any:
    return [out] if op == "split" else out


def assert_right(results: Any, op: str, arguments: tuple[Any, ...]) -> None:
    wanted = as_list(oracle.expected(op, *arguments))
    results = as_list(results)
    assert len(results) == len(wanted)
    for result, want in zip(results, wanted, strict=True):
        assert oracle.equal(result, want)


# What is refused, and with which sentence: by the operators and by the package's functions, with data and without.


class PackageFunctions(Backend):
    def __call__(self, op: str, *arguments: Any, out: Any = None) -> Any:
        return getattr(dml, op)(*arguments) if out is None else getattr(dml, op)(*arguments, out=out)


PACKAGE = (Backend("operators", DEVICE), PackageFunctions("functions", DEVICE))
FORMS = (*backends(), PACKAGE[1], Backend("meta", "meta"), PackageFunctions("functions, meta", "meta"))
every_form = pytest.mark.parametrize("form", FORMS, ids=str)


def every_row(table: dict[str, list[tuple[Any, ...]]]) -> pytest.MarkDecorator:
    rows = [(op, f"{op}: {row[0]}", *row[1:]) for op, rows in table.items() for row in rows]
    names = ("op", "message", "arguments", "out")[: len(rows[0])]
    return pytest.mark.parametrize(names, [pytest.param(*row, id=row[1]) for row in rows])


def assert_refused(form: Backend, message: str, op: str, *arguments: Any, out: Any = None) -> None:
    """The call raises this sentence as a RuntimeError, and writes nothing."""
    tensors = [t for t in tensors_in([*arguments, out]) if t.device.type != "meta"]
    before = [oracle.storage_bytes(t).tobytes() for t in tensors]
    shapes = [t.shape for t in tensors]
    with pytest.raises(RuntimeError) as caught:
        form(op, *arguments, out=out)
    assert str(caught.value) == message
    assert type(caught.value) is RuntimeError
    assert [oracle.storage_bytes(t).tobytes() for t in tensors] == before
    assert [t.shape for t in tensors] == shapes


@every_form
@every_row(refusals.ARGUMENTS)
def test_refused(form: Backend, op: str, message: str, arguments: Callable[[Make], tuple[Any, ...]]) -> None:
    t = maker(form.device)
    assert_refused(form, message, op, *arguments(t))
    assert_refused(form, message, op, *arguments(t), out=given_as_out(op, t(1, 1)))


@every_form
def test_a_sentence_does_not_grow_with_a_list(form: Backend) -> None:
    """Not among the other refusals, which are compiled too: with so many numbers that takes minutes."""
    refusal = (
        f"split: split_sizes must sum to 3, the size of input along axis 1, got {refusals.MANY_ONES} (100000 in all, "
        "sum 100000)"
    )
    assert_refused(form, refusal, "split", maker(form.device)(2, 3), [1] * 100_000, 1)


@every_form
def test_join_of_nothing(form: Backend) -> None:
    message = "join: inputs must have at least 1 tensor, got none"
    assert_refused(form, message, "join", [], 0, out=maker(form.device)(1, 1))
    if "functions" in form.name:  # the bare operator has no tensor to tell the device by, and torch says so
        assert_refused(form, message, "join", [], 0)


@every_form
@every_row(refusals.TOO_LARGE)
def test_too_large(form: Backend, op: str, message: str, arguments: Callable[[Make], tuple[Any, ...]]) -> None:
    assert_refused(form, message, op, *arguments(maker(form.device)))


@every_form
@every_row(refusals.OUT)
def test_out_that_does_not_fit(
    form: Backend, op: str, message: str, arguments: Callable[[Make], tuple[Any, ...]], out: Callable[[Make], Any]
) -> None:
    t = maker(form.device)
    assert_refused(form, message, op, *arguments(t), out=out(t))


@pytest.mark.parametrize("form", PACKAGE, ids=str)
@pytest.mark.parametrize("data_is_here", [True, False])
def test_all_tensors_are_on_one_device(form: Backend, data_is_here: bool) -> None:
    here, there = maker(form.device), maker("meta")
    if not data_is_here:
        here, there = there, here
    names = f"{here(1).device}, got {there(1).device}"
    for op, like in (("slice1", "input"), ("slice_grad", "grad_output"), ("reverse_subsequences", "input")):
        refusal = f"{op}: out must be on the device of {like}, {names}"
        assert_refused(form, refusal, op, *CALLS[op](here), out=there(2, 3))
    refusal = f"split: out[1] must be on the device of input, {names}"
    assert_refused(form, refusal, "split", here(2, 3), [1, 2], 1, out=[here(2, 1), there(2, 2)])
    refusal = f"join: inputs[1] must be on the device of inputs[0], {names}"
    assert_refused(form, refusal, "join", [here(2, 1), there(2, 2)], 1)
    refusal = f"join: out must be on the device of inputs[0], {names}"
    assert_refused(form, refusal, "join", [here(2, 1), here(2, 2)], 1, out=there(2, 3))
    refusal = f"reverse_subsequences: sequence_lengths must be on the device of input, {names}"
    assert_refused(form, refusal, "reverse_subsequences", here(2, 3), there(2, 1, dtype=torch.int64), 1)


@every_form
@every_dtype
def test_dtypes_are_named_as_in_python(form: Backend, dtype: torch.dtype) -> None:
    t = maker(form.device)
    other = torch.int8 if dtype != torch.int8 else torch.uint8
    refusal = f"slice1: out must have the dtype of input, {named(dtype)}, got {named(other)}"
    assert_refused(form, refusal, "slice1", t(2, dtype=dtype), [0], [2], [1], out=t(2, dtype=other))


@every_form
def test_every_dtype_of_torch_has_its_name(form: Backend) -> None:
    """Those of fewer bits than a byte too, of which not much more than an empty tensor can be made."""
    dtypes = {dtype for dtype in vars(torch).values() if isinstance(dtype, torch.dtype)}
    plain = [dtype for dtype in dtypes if not named(dtype).startswith(("qint", "quint"))]
    assert {torch.int4, torch.bits8, torch.float4_e2m1fn_x2} < set(plain)
    for dtype in plain:
        out = torch.empty(2, dtype=torch.float64 if dtype != torch.float64 else torch.int8, device=form.device)
        refusal = f"slice1: out must have the dtype of input, {named(dtype)}, got {named(out.dtype)}"
        assert_refused(form, refusal, "slice1", torch.empty(2, dtype=dtype, device=form.device), [0], [2], [1], out=out)


def test_a_result_that_memory_cannot_hold(backend: Backend, t: Make) -> None:
    x = t(1).expand(2**45)
    sentence = f"slice1: out of memory on {x.device}, which cannot allocate a result of sizes [{2**45}], {2**47} bytes"
    with pytest.raises(RuntimeError) as caught:
        backend("slice1", x, [0], [2**45], [1])
    assert str(caught.value) == sentence


# out.


@every_op
@every_dtype
def test_out_is_returned_and_the_same_object(op: str, dtype: torch.dtype) -> None:
    t = maker(DEVICE)
    arguments = CALLS[op](t, dtype=dtype)
    out = t(2, 3, dtype=dtype)
    result = getattr(dml, op)(*arguments, out=given_as_out(op, out))
    assert (result[0] if op == "split" else result) is out
    assert_right(result, op, arguments)


def test_the_list_of_outs_of_a_split_is_returned() -> None:
    t = maker(DEVICE)
    first, second = outs = [t(2, 1), t(2, 2)]
    assert dml.split(t(2, 3), [1, 2], 1, out=outs) is outs
    assert outs[0] is first
    assert outs[1] is second
    assert_right(outs, "split", (t(2, 3), [1, 2], 1))


# Views of sizes [2, 3] that do not overlap themselves: sizes of the whole, strides, offset.
OUTS = {
    "contiguous": (6, (3, 1), 0),
    "transposed": (6, (1, 2), 0),
    "with an offset": (9, (3, 1), 2),
    "padded": (16, (8, 1), 1),
    "stepped": (12, (6, 2), 0),
    "stepped and transposed": (20, (2, 7), 1),
    "strides that do not nest": (12, (3, 2), 0),
    "strides that do not nest either": (24, (4, 3), 5),
}


@every_op
@pytest.mark.parametrize("view", OUTS.values(), ids=OUTS)
def test_out_with_any_strides(backend: Backend, t: Make, op: str, view: tuple[int, tuple[int, int], int]) -> None:
    length, strides, offset = view
    arguments, whole = CALLS[op](t), t(length)
    block = oracle.Block(oracle.storage_bytes(whole), torch.float32, (2, 3), strides, offset)
    out = whole.as_strided((2, 3), strides, offset)
    backend(op, *arguments, out=given_as_out(op, out))
    want = as_list(oracle.expected(op, *arguments))[0]
    assert oracle.storage_bytes(whole).tobytes() == block.written(want).tobytes()


def test_strides_of_dimensions_of_size_1_mean_nothing(backend: Backend, t: Make) -> None:
    for stride in (0, 1, 3, 2**40, 2**62):
        x = t(3).as_strided((1, 3, 1), (stride, 1, stride))
        out = t(3).as_strided((1, 3, 1), (stride, 1, stride))
        lengths = lengths_of([[[2]]], torch.int64, backend.device).as_strided((1, 1, 1), (stride,) * 3)
        for op, arguments in (
            ("slice1", (x, [0, 0, 0], [1, 3, 1], [-1, -1, 1])),
            ("slice_grad", (x, [1, 3, 1], [0, 0, 0], [1, 3, 1], [5, -1, 1])),
            ("split", (x, [1], 2)),
            ("join", ([x], 0)),
            ("reverse_subsequences", (x, lengths, 1)),
            ("reverse_subsequences", (x, lengths_of([[[0], [1], [9]]], torch.int32, backend.device), 2)),
        ):
            assert_right(backend(op, *arguments), op, arguments)
            assert_right(backend(op, *arguments, out=given_as_out(op, out)), op, arguments)


@every_op
@pytest.mark.parametrize("strides", [(0, 1), (3, 0), (0, 0), (1, 1), (2, 1), (2, 2)], ids=str)
def test_out_must_not_overlap_itself(backend: Backend, t: Make, op: str, strides: tuple[int, int]) -> None:
    out = t(16).as_strided((2, 3), strides)
    name = "out[0]" if op == "split" else "out"
    refusal = f"{op}: {name} must not overlap itself, got strides {list(strides)}"
    assert_refused(backend, refusal, op, *CALLS[op](t), out=given_as_out(op, out))


def test_one_wrong_out_of_a_split_leaves_all_as_they_were(backend: Backend, t: Make) -> None:
    wrong = {
        "out[1] must have sizes [2, 2], got [2, 3]": t(2, 3),
        "out[1] must have the dtype of input, float32, got int32": t(2, 2, dtype=torch.int32),
        "out[1] must not overlap itself, got strides [0, 1]": t(1, 2).expand(2, 2),
    }
    for message, second in wrong.items():
        assert_refused(backend, f"split: {message}", "split", t(2, 3), [1, 2], 1, out=[t(2, 1), second])
    x, first = t(2, 3), t(2, 1)
    assert_refused(
        backend, "split: out[1] must not share memory with input", "split", x, [1, 2], 1, out=[first, x[:, 1:]]
    )
    whole = t(2, 3)
    assert_refused(
        backend,
        "split: out[1] must not share memory with out[0]",
        *("split", x, [1, 2], 1),
        out=[whole[:, 1:2], whole[:, :2]],
    )
    assert_refused(
        backend, "split: out[2] must not share memory with out[0]", "split", x, [1] * 3, 1, out=[first, t(2, 1), first]
    )


@every_op
def test_out_must_not_be_an_input(backend: Backend, t: Make, op: str) -> None:
    x = t(2, 3)
    arguments, name = {
        "slice1": ((x, [0, 0], [2, 3], [1, 1]), "input"),
        "slice_grad": ((x, [2, 3], [0, 0], [2, 3], [1, 1]), "grad_output"),
        "split": ((x, [3], 1), "input"),
        "join": (([x], 0), "inputs[0]"),
        "reverse_subsequences": ((x, lengths_of([[0], [0]], torch.int64, backend.device), 1), "input"),
    }[op]
    out = "out[0]" if op == "split" else "out"
    refusal = f"{op}: {out} must not share memory with {name}"
    assert_refused(backend, refusal, op, *arguments, out=given_as_out(op, x))
    assert_refused(backend, refusal, op, *arguments, out=given_as_out(op, x.detach()))


def test_out_must_not_share_memory_with_an_input(backend: Backend, t: Make) -> None:
    x, window = t(8), ([0], [4], [-1])
    for begin in (0, 1, 3):  # one element is enough
        refusal = "slice1: out must not share memory with input"
        assert_refused(backend, refusal, "slice1", x[:4], *window, out=x[begin : begin + 4])
    backend("slice1", x[:4], *window, out=x[4:])
    assert_right(x[4:], "slice1", (x[:4], *window))
    refusal = "join: out must not share memory with inputs[1]"
    assert_refused(backend, refusal, "join", [t(2), x[:2]], 0, out=x[1:5])
    # of both, every other element, which only the bytes' ranges share, and then one in common
    y = t(4, 8)
    backend("slice1", y[:, ::2], [0, 0], [4, 4], [1, 1], out=y[:, 1::2])
    refusal = "slice1: out must not share memory with input"
    assert_refused(backend, refusal, "slice1", y[:, ::2], [0, 0], [4, 4], [1, 1], out=y[:, :4])


def test_out_must_not_share_memory_with_the_lengths(backend: Backend, t: Make) -> None:
    op, refusal = "reverse_subsequences", "reverse_subsequences: out must not share memory with sequence_lengths"
    lengths = lengths_of([[2], [1]], torch.int64, backend.device)
    assert_refused(backend, refusal, op, t(2, 2), lengths, 1, out=lengths.view(torch.float32))  # the same 16 bytes
    memory = lengths_of([2, 7, 1, 7], torch.int32, backend.device)
    lengths, floats = memory.as_strided((2, 1), (2, 1)), memory.view(torch.float32)
    assert_refused(backend, refusal, op, t(2, 1), lengths, 1, out=floats[1:3].reshape(2, 1))
    between = floats.as_strided((2, 1), (2, 1), 1)
    backend(op, t(2, 1), lengths, 1, out=between)
    assert_right(between, op, (t(2, 1), lengths, 1))
    memory = lengths_of([7, 1, 7], torch.int64, backend.device)
    for byte in range(8, 16):  # one byte of a length is enough
        out = memory.view(torch.uint8)[byte : byte + 1]
        assert_refused(backend, refusal, op, t(1, dtype=torch.uint8), memory[1:2], 0, out=out)
    for byte in (7, 16):
        backend(op, t(1, dtype=torch.uint8), memory[1:2], 0, out=memory.view(torch.uint8)[byte : byte + 1])


def test_memory_is_shared_across_storages_too() -> None:
    """Tensors over foreign memory: what counts is where the bytes are."""
    memory = np.arange(32, dtype=np.uint8)
    x, out = torch.frombuffer(memory, dtype=torch.float32, count=4), torch.from_numpy(memory)
    backend = Backend("cpu", "cpu")
    refusal = "slice1: out must not share memory with input"
    for offset in (0, 4, 13, 14, 15):
        out = torch.frombuffer(memory, dtype=torch.float32, count=4, offset=offset)
        assert_refused(backend, refusal, "slice1", x, [0], [4], [-1], out=out)
    out = torch.frombuffer(memory, dtype=torch.float32, count=4, offset=16)
    assert_right(backend("slice1", x, [0], [4], [-1], out=out), "slice1", (x, [0], [4], [-1]))
    x = torch.frombuffer(memory, dtype=torch.float64, count=1, offset=8)
    for offset in range(1, 16):  # 0 and 16 are beside it
        out = torch.frombuffer(memory, dtype=torch.float64, count=1, offset=offset)
        assert_refused(backend, refusal, "slice1", x, [0], [1], [1], out=out)
    for offset in (0, 16):
        out = torch.frombuffer(memory, dtype=torch.float64, count=1, offset=offset)
        backend("slice1", x, [0], [1], [1], out=out)


def test_views_that_interleave_are_taken(backend: Backend, t: Make) -> None:
    for source, target in (
        (np.s_[:, ::2], np.s_[:, 1::2]),
        (np.s_[:, 1::2], np.s_[:, ::2]),
        (np.s_[:, :8], np.s_[:, 8:]),  # left and right half of the columns
        (np.s_[:, 8:], np.s_[:, :8]),
        (np.s_[:, 4:8], np.s_[:, 8:12]),
        (np.s_[::2], np.s_[1::2]),
        (np.s_[::2, ::2], np.s_[1::2, ::2]),
        (np.s_[::2, ::2], np.s_[1::2, 1::2]),
        (np.s_[:4, :4], np.s_[:4, 12:]),
    ):
        whole = t(8, 16)
        x, out = whole[source], whole[target]
        before = x.clone()
        lengths = lengths_of([[2]] * x.shape[0], torch.int64, backend.device)
        for op, arguments in (
            ("slice1", (x, [0, 0], x.shape, [-1, -1])),
            ("slice_grad", (x, x.shape, [0, 0], x.shape, [1, -1])),
            ("split", (x, [x.shape[1]], 1)),
            ("join", ([x], 0)),
            ("reverse_subsequences", (x, lengths, 1)),
        ):
            backend(op, *arguments, out=given_as_out(op, out))
            assert_right(out, op, arguments)
            assert x.equal(before)


def test_64_interleaved_outs_of_a_split_are_told_apart(backend: Backend, t: Make) -> None:
    x, whole = t(12, 4 * 64, 5), t(12, 4 * 64, 5)
    by_step = [whole[:, k::64] for k in range(64)]
    by_block = [whole[:, 4 * k : 4 * k + 4] for k in range(64)]
    across = [whole.as_strided((12, 4, 5), (5, 60, 1), 240 * k) for k in range(64)]  # dimensions swapped
    for outs in (by_step, by_block, across):
        backend("split", x, [4] * 64, 1, out=outs)
        for k, out in enumerate(outs):
            assert out.equal(x[:, 4 * k : 4 * k + 4])


@every_op
def test_whatever_requires_grad_is_refused_with_out(op: str) -> None:
    t = maker(DEVICE)
    rest = "requires grad; call it without out, or under torch.no_grad()"
    first = {"slice_grad": "grad_output", "join": "inputs[1]"}.get(op, "input")
    out_name = "out[0]" if op == "split" else "out"
    for form in PACKAGE:
        arguments = CALLS[op](t)
        refusal = f"{op}: with out there is no automatic differentiation, and {out_name} {rest}"
        assert_refused(form, refusal, op, *arguments, out=given_as_out(op, t(2, 3).requires_grad_()))
        tensors_in(arguments)[-1 if op == "join" else 0].requires_grad_()
        refusal = f"{op}: with out there is no automatic differentiation, and {first} {rest}"
        assert_refused(form, refusal, op, *arguments, out=given_as_out(op, t(2, 3)))
        with torch.no_grad():
            out = t(2, 3).requires_grad_()
            form(op, *arguments, out=given_as_out(op, out))
            assert_right(out, op, arguments)


@every_op
def test_out_counts_as_written(op: str) -> None:
    t = maker(DEVICE)
    out = t(2, 3)
    version = out._version
    getattr(dml, op)(*CALLS[op](t), out=given_as_out(op, out))
    assert out._version == version + 1


# Results.


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


@every_dtype
def test_zeros_of_slice_grad_have_all_bits_0(backend: Backend, t: Make, dtype: torch.dtype) -> None:
    ones = np.full(3 * dtype.itemsize, 0xFF, np.uint8).view(oracle.ITEMS[dtype.itemsize])
    out = oracle.tensor(ones, dtype, backend.device)
    arguments = t(1, dtype=dtype), [3], [1], [1], [1]
    for result in (backend("slice_grad", *arguments), backend("slice_grad", *arguments, out=out)):
        assert not oracle.items(result[::2]).view(np.uint8).any()
        assert oracle.items(result[1:2]).tobytes() == oracle.items(t(1, dtype=dtype)).tobytes()


def test_a_split_into_one_piece_is_a_copy(backend: Backend, t: Make) -> None:
    x = t(2, 3)
    (piece,) = backend("split", x, [3], 1)
    assert piece.equal(x)
    assert piece.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()


@every_op
def test_results_are_never_views(backend: Backend, t: Make, op: str) -> None:
    x = t(2, 3)
    lengths = lengths_of([[0], [1]], torch.int64, backend.device)
    arguments = {
        "slice1": (x, [0, 0], [2, 3], [1, 1]),
        "slice_grad": (x, [2, 3], [0, 0], [2, 3], [1, 1]),
        "split": (x, [1, 2], 1),
        "join": ([x], 1),
        "reverse_subsequences": (x, lengths, 1),
    }[op]
    results = as_list(backend(op, *arguments))
    for result in results:
        result.zero_()
    assert x.equal(t(2, 3))
    storages = {r.untyped_storage().data_ptr() for r in results}
    assert len(storages) == len(results)


def test_any_rank_from_1_on(backend: Backend, t: Make) -> None:
    for rank in (*range(1, 13), 20):
        sizes = [2 if d % 3 == 0 else 1 for d in range(rank - 1)] + [3]
        x = t(*sizes)
        axis = rank - 1
        lengths = lengths_of(np.full([*sizes[:-1], 1], 2), torch.uint32, backend.device)
        window = [0] * rank, sizes, [-1] * rank
        for op, arguments in (
            ("slice1", (x, *window)),
            ("slice_grad", (x, sizes, *window)),
            ("split", (x, [2, 1], axis)),
            ("join", ([x, x], axis)),
            ("reverse_subsequences", (x, lengths, axis)),
        ):
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


def test_numbers_may_come_in_any_sequence(backend: Backend, t: Make) -> None:
    x = t(3, 4)
    window = [0, 1], [3, 3], [-1, 2]
    want = backend("slice1", x, *window)
    for kind in (tuple, torch.Size, np.array, lambda numbers: [np.int64(n) for n in numbers]):
        if kind is torch.Size:
            assert backend("slice1", x, window[0], torch.Size(window[1]), window[2]).equal(want)
        else:
            assert backend("slice1", x, *map(kind, window)).equal(want)
        assert backend("slice_grad", want, x.shape, *map(tuple, window)).shape == x.shape
        pieces = backend("split", x, kind([1, 3]), np.int64(1))
        assert backend("join", tuple(pieces), np.int64(1)).equal(x)


@pytest.mark.parametrize("empty", [0, 1, 2])
def test_an_empty_batch_passes_through(backend: Backend, t: Make, empty: int) -> None:
    sizes = [2, 3, 4]
    sizes[empty] = 0
    few = [min(size, 1) for size in sizes]
    axis = (empty + 1) % 3
    x = t(*sizes)
    for op, arguments in (
        ("slice1", (x, [0, 0, 0], sizes, [-2, 1, 1])),
        ("slice1", (x, [0, 0, 0], sizes, [1, 1, 1], few)),
        ("slice_grad", (t(*few), sizes, [0, 0, 0], sizes, [1, 1, 1])),
        ("split", (x, [1, sizes[axis] - 1], axis)),
        ("join", ([x, x], axis)),
        ("reverse_subsequences", (x, one_length(x, axis, 2), axis)),
        ("reverse_subsequences", (x, one_length(x, empty, 2), empty)),
    ):
        results = as_list(backend(op, *arguments))
        assert_right(results, op, arguments)
        backend(op, *arguments, out=results if op == "split" else results[0])


EMPTY = [(0, 2**62), (2**62, 0), (2**62, 0, 2**62), (0, 2**63 - 1), (2**63 - 1, 0), (2, 2**62, 0), (3, 0, 2**40, 2**20)]


@pytest.mark.parametrize("sizes", EMPTY, ids=str)
def test_an_empty_result_may_have_every_size_that_torch_allows(sizes: tuple[int, ...]) -> None:
    """And has the strides that torch gives it."""
    rank, axis = len(sizes), 1 if sizes[0] == 0 else 0
    least = [min(size, 1) for size in sizes]
    wanted = torch.empty(sizes, device=DEVICE)
    for form in FORMS:
        x = torch.empty(sizes, device=form.device)
        gradient = torch.empty(least, device=form.device).as_strided(least, x.stride())
        for op, arguments in (
            ("slice1", (x, [0] * rank, sizes, [1] * rank)),
            ("slice_grad", (gradient, sizes, [0] * rank, least, [1] * rank)),
            ("split", (x, [sizes[axis]], axis)),
            ("join", ([x], axis)),
            ("reverse_subsequences", (x, one_length(x, axis, 1), axis)),
        ):
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


def calls_on(x: Tensor) -> list[tuple[str, tuple[Any, ...]]]:
    """A call of each operator on x, that changes sizes where the operator can, the last axis' to begin with."""
    sizes, axis = list(x.shape), x.dim() - 1
    larger = [2 * size + 1 for size in sizes]
    half = [(size + 1) // 2 for size in sizes]
    return [
        ("slice1", (x, [0] * x.dim(), sizes, [-2] * x.dim())),
        ("slice_grad", (x, larger, [1] * x.dim(), [2 * size for size in sizes], [2] * x.dim())),
        ("split", (x, [half[axis], sizes[axis] - half[axis]] if sizes[axis] > 1 else [1], axis)),
        ("join", ([x, x, x], 0)),
        ("reverse_subsequences", (x, one_length(x, axis, 2), axis)),
    ]


@pytest.mark.parametrize("op", range(5), ids=OPS)
@pytest.mark.parametrize("layout", DENSE)
def test_a_result_keeps_the_order_of_a_dense_input(backend: Backend, t: Make, op: int, layout: str) -> None:
    x = DENSE[layout](t)
    name, arguments = calls_on(x)[op]
    order = order_of(torch.empty_like(x))
    for result in as_list(backend(name, *arguments)):
        assert result.stride() == oracle.dense_strides(result.shape, order)


@pytest.mark.parametrize("op", range(5), ids=OPS)
@pytest.mark.parametrize("layout", NOT_DENSE)
def test_a_result_of_any_other_input_is_contiguous(backend: Backend, t: Make, op: int, layout: str) -> None:
    name, arguments = calls_on(NOT_DENSE[layout](t))[op]
    for result in as_list(backend(name, *arguments)):
        assert result.is_contiguous()
    assert_right(backend(name, *arguments), name, arguments)


@pytest.mark.parametrize("op", range(5), ids=OPS)
def test_channels_last_stays(backend: Backend, t: Make, op: int) -> None:
    name, arguments = calls_on(t(2, 3, 4, 5).to(memory_format=torch.channels_last))[op]
    for result in as_list(backend(name, *arguments)):
        assert result.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("op", range(5), ids=OPS)
@pytest.mark.parametrize("layout", [*DENSE, *NOT_DENSE])
def test_layouts_without_data_are_the_same(op: int, layout: str) -> None:
    make = (DENSE | NOT_DENSE)[layout]
    name, arguments = calls_on(make(maker("cpu")))[op]
    on_meta = [oracle.on_tensors(oracle.without_data, a) for a in arguments]
    results = as_list(getattr(dml, name)(*arguments))
    without_data = as_list(getattr(dml, name)(*on_meta))
    assert [(r.shape, r.stride(), r.dtype) for r in without_data] == [(r.shape, r.stride(), r.dtype) for r in results]


def test_an_empty_channels_last_batch_stays_channels_last(backend: Backend, t: Make) -> None:
    x = t(0, 3, 4, 5).to(memory_format=torch.channels_last)
    for op, arguments in (
        ("slice1", (x, [0] * 4, x.shape, [1] * 4)),
        ("slice_grad", (x, x.shape, [0] * 4, x.shape, [1] * 4)),
        ("split", (x, [1, 2], 1)),
        ("join", ([x, x], 1)),
        ("reverse_subsequences", (x, one_length(x, 1, 2), 1)),
    ):
        for result in as_list(backend(op, *arguments)):
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


# Windows.


def test_a_window_walks_from_its_first_element_or_from_its_last(backend: Backend, t: Make) -> None:
    x = torch.arange(10, device=backend.device)
    for window, expected in (
        (([2], [5], [1]), [2, 3, 4, 5, 6]),
        (([2], [5], [2]), [2, 4, 6]),
        (([2], [5], [3]), [2, 5]),
        (([2], [5], [4]), [2, 6]),
        (([2], [5], [5]), [2]),
        (([2], [5], [-1]), [6, 5, 4, 3, 2]),
        (([2], [5], [-2]), [6, 4, 2]),
        (([2], [5], [-3]), [6, 3]),
        (([2], [5], [-4]), [6, 2]),
        (([2], [5], [-5]), [6]),
        (([0], [10], [9]), [0, 9]),
        (([0], [10], [10]), [0]),
        (([9], [1], [-1]), [9]),
        # not all that the walk could reach need be copied
        (([2], [5], [1], [1]), [2]),
        (([2], [5], [2], [2]), [2, 4]),
        (([2], [5], [-2], [2]), [6, 4]),
        (([2], [5], [-1], [4]), [6, 5, 4, 3]),
    ):
        assert backend("slice1", x, *window).tolist() == expected
        steps = torch.tensor([n + 1 for n in expected], device=backend.device)
        scattered = [n + 1 if n in expected else 0 for n in range(10)]
        assert backend("slice_grad", steps, [10], *window[:3]).tolist() == scattered


@pytest.mark.parametrize("stride", [2**62, 2**63 - 1, -(2**62), -(2**63), -(2**63) + 1])
def test_strides_up_to_the_limits_of_64_bits(backend: Backend, t: Make, stride: int) -> None:
    x = t(3, 5)
    window = [0, 1], [3, 4], [stride, -1]
    part = backend("slice1", x, *window)
    assert_right(part, "slice1", (x, *window))
    assert part.shape == (1, 4)
    assert_right(backend("slice_grad", part, [3, 5], *window), "slice_grad", (part, [3, 5], *window))


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


def test_lengths_may_be_broadcast(backend: Backend, t: Make) -> None:
    for x, axis, lengths in (
        (t(3, 5, 4), 1, [[[2]], [[5]], [[3]]]),  # one for each batch item
        (t(3, 5, 4), 1, [[[2, 5, 3, 0]]]),  # one for each column
        (t(3, 5, 4), 1, [[[4]]]),  # one for all
        (t(3, 5, 4), 2, [[[4]], [[2]], [[3]]]),
        (t(3, 5, 4), 0, [[[3, 2, 1, 9]]]),
        (t(3, 5, 4).permute(2, 0, 1), 1, [[[2]], [[1]], [[3]], [[9]]]),
    ):
        n = lengths_of(lengths, torch.int64, backend.device)
        n = n.expand([1 if d == axis else size for d, size in enumerate(x.shape)])
        assert 0 in n.stride()
        assert_right(backend("reverse_subsequences", x, n, axis), "reverse_subsequences", (x, n, axis))


def test_lengths_may_have_any_strides(backend: Backend, t: Make) -> None:
    x = t(4, 6, 5)
    memory = lengths_of(np.arange(400) % 9, torch.int32, backend.device)
    for strides, offset in (((5, 5, 1), 0), ((1, 7, 4), 3), ((9, 1, 2), 1), ((50, 2**40, 10), 7), ((1, 0, 1), 0)):
        n = memory.as_strided((4, 1, 5), strides, offset)
        assert_right(backend("reverse_subsequences", x, n, 1), "reverse_subsequences", (x, n, 1))


# Unusual inputs.


@every_op
def test_conjugate_views_and_negative_views(op: str) -> None:
    def conjugate(*sizes: int) -> Tensor:
        return torch.view_as_complex(maker(DEVICE)(*sizes, 2)).conj()

    def negative(*sizes: int) -> Tensor:
        return conjugate(*sizes).imag

    for lazy in (conjugate, negative):
        arguments = CALLS[op](lazy)
        assert all(t.is_conj() or t.is_neg() for t in tensors_in(arguments)[:1])
        resolved = CALLS[op](lambda *sizes, lazy=lazy: lazy(*sizes).resolve_conj().resolve_neg())
        wanted = as_list(oracle.expected(op, *resolved))[0]
        result = as_list(getattr(dml, op)(*arguments))[0]
        assert oracle.equal(result.resolve_conj().resolve_neg(), wanted)
        out = torch.zeros_like(result)
        getattr(dml, op)(*arguments, out=given_as_out(op, out))
        assert oracle.equal(out, wanted)


@every_op
def test_out_must_not_be_a_lazy_view(op: str) -> None:
    arguments = CALLS[op](maker(DEVICE), dtype=torch.complex64)
    out = torch.zeros(2, 3, dtype=torch.complex64, device=DEVICE)
    with pytest.raises(RuntimeError, match=rf"{op}: out(\[0\])? must not be a lazily conjugated or negated view"):
        getattr(dml, op)(*arguments, out=given_as_out(op, out.conj()))
    assert not out.any()


@every_op
def test_sparse_tensors_are_refused(op: str) -> None:
    def sparse(*sizes: int) -> Tensor:
        return torch.ones(sizes, device=DEVICE).to_sparse()

    arguments = list(CALLS[op](maker(DEVICE)))
    arguments[0] = [sparse(2, 1), sparse(2, 2)] if op == "join" else sparse(*arguments[0].shape)
    with pytest.raises(NotImplementedError, match=f"torch_dml_ops::{op}' with arguments from the 'Sparse"):
        getattr(dml, op)(*arguments)


@every_op
def test_parameters_and_subclasses(op: str) -> None:
    class Mine(torch.Tensor):
        pass

    arguments = CALLS[op](maker(DEVICE))
    wanted = as_list(getattr(dml, op)(*arguments))[0]
    for wrap in (torch.nn.Parameter, lambda x: x.as_subclass(Mine)):
        first = [wrap(x) for x in arguments[0]] if op == "join" else wrap(arguments[0])
        result = as_list(getattr(dml, op)(first, *arguments[1:]))[0]
        assert oracle.equal(result.detach(), oracle.items(wanted))
    assert isinstance(result, Mine)


def unaligned_calls() -> None:
    memory = np.arange(1, 1200).astype(np.uint8)
    lengths = torch.frombuffer(bytearray(3) + np.array([4, 2, 0, 6]).tobytes(), dtype=torch.int64, offset=3)
    lengths = lengths.reshape(4, 1)
    for dtype in oracle.DTYPES:
        for offset in (1, 2, 4, 8, 15):
            x = torch.frombuffer(memory, dtype=dtype, offset=offset, count=24).reshape(4, 6)
            out = torch.frombuffer(bytearray(1200), dtype=dtype, offset=offset, count=24).reshape(4, 6)
            for op, arguments in (
                *(("slice1", (x, [0, 0], [4, 6], [1, stride])) for stride in (1, -1, 2, -2, 3)),
                ("slice1", (x.t(), [0, 0], [6, 4], [1, 1])),
                ("slice_grad", (x[:, ::2], [4, 6], [0, 0], [4, 6], [1, -2])),
                ("split", (x, [6], 1)),
                ("join", ([x[:, 3:], x[:, :3]], 1)),
                ("reverse_subsequences", (x, lengths, 1)),
                ("reverse_subsequences", (x.t(), lengths.t(), 0)),
            ):
                assert_right(getattr(dml, op)(*arguments), op, arguments)
                if as_list(oracle.expected(op, *arguments))[0].shape == (4, 6):
                    assert_right(getattr(dml, op)(*arguments, out=given_as_out(op, out)), op, arguments)


def test_elements_may_lie_at_any_address() -> None:
    """Views of foreign memory need not be aligned. In a process of its own, which an unaligned access may end."""
    process = multiprocessing.get_context("fork").Process(target=unaligned_calls)
    process.start()
    process.join(timeout=60)
    assert process.exitcode == 0


@every_op
def test_inference_mode(op: str) -> None:
    t = maker(DEVICE)
    with torch.inference_mode():
        arguments = CALLS[op](t)
        assert_right(getattr(dml, op)(*arguments), op, arguments)
        out = t(2, 3)
        getattr(dml, op)(*arguments, out=given_as_out(op, out))
        assert_right(out, op, arguments)


# window.

INDEXES = [
    *(np.s_[:], np.s_[...], np.s_[::-1], np.s_[::2], np.s_[::-2], np.s_[1:], np.s_[:-1], np.s_[-3:], np.s_[:3]),
    *(np.s_[1:5:2], np.s_[5:1:-2], np.s_[-1:-6:-1], np.s_[-2:1:-3], np.s_[100:2:-1], np.s_[-100:100], np.s_[3::-1]),
    *(np.s_[:3:-1], np.s_[2:3], np.s_[2:1:-1], np.s_[6:], np.s_[:1], np.s_[0::-1]),
    *(np.s_[::7], np.s_[::-7], np.s_[::100], np.s_[::-100], np.s_[:: sys.maxsize], np.s_[:: -sys.maxsize - 1]),
    *(np.s_[sys.maxsize :: -1], np.s_[-sys.maxsize - 1 :], np.s_[: sys.maxsize], np.s_[:: -sys.maxsize]),
    *(np.s_[10**30 :: -1], np.s_[: 10**30], np.s_[:: 10**30], np.s_[:: -(10**30)]),
    *(np.s_[..., ::-1], np.s_[::-1, ...], np.s_[1:3, ..., ::-2], np.s_[:, 1:4], np.s_[::-2, 1:5], np.s_[..., 2:, :]),
    *(np.s_[:, :, :], np.s_[1:, ..., 1:, ::-1], np.s_[:, :, ..., ::3], np.s_[::-1, ::-1, ::-1], (slice(2), ...)),
    *(slice(np.int64(1), np.int32(6), np.int8(2)), (slice(None, None, np.int16(-1)),), ()),
]


@pytest.mark.parametrize("index", INDEXES, ids=str)
def test_window_is_a_numpy_index(index: Any) -> None:
    x = torch.arange(7 * 6 * 5).reshape(7, 6, 5)
    expected = x.numpy()[index]
    assert expected.size
    window = dml.window(x.shape, index)
    result = dml.slice1(x, *window)
    assert result.shape == expected.shape
    assert result.tolist() == expected.tolist()
    assert all(type(numbers) is tuple for numbers in window)


def test_window_of_all_slices_of_small_sizes() -> None:
    bounds = [None, *range(-5, 6)]
    for size in range(1, 5):
        x = torch.arange(size)
        for index in (slice(a, b, c) for a in bounds for b in bounds for c in (None, 1, 2, 3, -1, -2, -3)):
            expected = x.numpy()[index].tolist()
            if expected:
                assert dml.slice1(x, *dml.window((size,), index)).tolist() == expected
            else:
                with pytest.raises(ValueError, match="must select something"):
                    dml.window((size,), index)


def test_window_of_an_empty_dimension_is_empty() -> None:
    x = torch.zeros(0, 3)
    for index in (np.s_[:], np.s_[::-1], np.s_[5:2, ::2], np.s_[...]):
        assert dml.slice1(x, *dml.window(x.shape, index)).shape == x.numpy()[index].shape
    assert dml.window((0,), np.s_[::-2]) == ((0,), (0,), (-2,))


def test_window_of_a_shape_or_a_list() -> None:
    assert dml.window((5, 6), np.s_[::-2, 1:5]) == ((0, 1), (5, 4), (-2, 1))
    assert dml.window([5, 6], np.s_[::-2, 1:5]) == ((0, 1), (5, 4), (-2, 1))
    assert dml.window(torch.zeros(5, 6).shape, np.s_[::-2, 1:5]) == ((0, 1), (5, 4), (-2, 1))


@pytest.mark.parametrize(
    ("error", "message", "index"),
    [
        (TypeError, "window: index[0] must be a slice or an Ellipsis, got 2; write 2:3 to keep the dimension", 2),
        (
            TypeError,
            "window: index[1] must be a slice or an Ellipsis, got 0; write 0:1 to keep the dimension",
            np.s_[:, 0],
        ),
        (TypeError, "window: index[0] must be a slice or an Ellipsis, got -1; write -1:None to keep the dimension", -1),
        (TypeError, "window: index[0] must be a slice or an Ellipsis, got -3; write -3:-2 to keep the dimension", -3),
        (TypeError, "window: index[1] must be a slice or an Ellipsis, got None", np.s_[:, None]),
        (TypeError, "window: index[0] must be a slice or an Ellipsis, got [0, 1]", np.s_[[0, 1]]),
        (ValueError, "window: index must have at most one Ellipsis, got 2", np.s_[..., :, ...]),
        (ValueError, "window: index must have at most 2 slices, one for each dimension, got 3", np.s_[:, :, :]),
        (ValueError, "window: index must have at most 2 slices, one for each dimension, got 3", np.s_[:, ..., :, :]),
        (ValueError, "window: the slice of dimension 1 must not have a step of 0", np.s_[:, ::0]),
        (
            ValueError,
            "window: the slice of dimension 0 must select something, got slice(3, 3, None) for size 5",
            np.s_[3:3],
        ),
        (
            ValueError,
            "window: the slice of dimension 1 must select something, got slice(1, 4, -1) for size 6",
            np.s_[..., 1:4:-1],
        ),
        (
            ValueError,
            "window: the slice of dimension 1 must select something, got slice(6, None, None) for size 6",
            np.s_[:, 6:],
        ),
    ],
    ids=str,
)
def test_window_refuses(error: type[Exception], message: str, index: Any) -> None:
    with pytest.raises(error) as caught:
        dml.window((5, 6), index)
    assert str(caught.value) == message


@pytest.mark.parametrize("index", [np.s_[0.5:3], np.s_[:2.0], np.s_[::1.5], np.s_["a":]], ids=str)
def test_window_takes_whole_numbers_only_as_numpy_does(index: Any) -> None:
    with pytest.raises(TypeError):
        np.zeros(5)[index]
    with pytest.raises(TypeError):
        dml.window((5,), index)


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


@pytest.mark.parametrize(
    ("message", "lengths", "axis", "batch_axis"),
    [
        ("axis must be from 0 to 2, got -1; write 2 instead", [1, 2], -1, 0),
        ("axis must be from 0 to 2, got 3", [1, 2], 3, 0),
        ("axis must be from 0 to 2, got -4", [1, 2], -4, 0),
        ("batch_axis must be from 0 to 2, got -3; write 0 instead", [1, 2], 1, -3),
        ("batch_axis must be from 0 to 2, got 3", [1, 2], 1, 3),
        ("batch_axis must be another than axis, got 1 for both", [1, 2], 1, 1),
        ("lengths must have sizes [2], one for each index of axis 0 of input, got [3]", [1, 2, 3], 1, 0),
        ("lengths must have sizes [4], one for each index of axis 2 of input, got [2]", [1, 2], 1, 2),
        ("lengths must have sizes [2], one for each index of axis 0 of input, got [2, 1]", [[1], [2]], 1, 0),
        ("lengths must have sizes [2], one for each index of axis 0 of input, got []", 1, 1, 0),
    ],
    ids=str,
)
def test_sequence_lengths_like_refuses(message: str, lengths: Any, axis: int, batch_axis: int) -> None:
    with pytest.raises(ValueError) as caught:
        dml.sequence_lengths_like(torch.zeros(2, 3, 4), torch.tensor(lengths), axis, batch_axis)
    assert str(caught.value) == f"sequence_lengths_like: {message}"


@pytest.mark.parametrize("op", ["slice1", "slice_grad", "split", "join", "reverse_subsequences"])
def test_a_lazy_clone_given_as_out_leaves_its_origin_alone(op: str) -> None:
    arguments = CALLS[op](maker(DEVICE))
    origin = torch.zeros(2, 3, device=DEVICE)
    getattr(dml, op)(*arguments, out=given_as_out(op, origin._lazy_clone()))
    assert not origin.any()


def test_out_that_is_an_inference_tensor_is_refused_outside_of_inference_mode() -> None:
    with torch.inference_mode():
        out = torch.zeros(2, 3, device=DEVICE)
    with pytest.raises(RuntimeError, match=r"^slice1: out must not be an inference tensor outside of"):
        dml.slice1(torch.ones(2, 3, device=DEVICE), [0, 0], [2, 3], [1, 1], out=out)
    assert not out.any()


def test_join_takes_a_list_and_sequence_lengths_like_a_tensor() -> None:
    x = torch.ones(2, 3)
    with pytest.raises(RuntimeError, match=r"^join: inputs must be a list of tensors, got a tensor of sizes \[2, 3\]$"):
        dml.join(x, 0)
    with pytest.raises(TypeError, match=r"^sequence_lengths_like: lengths must be a tensor, got list; write"):
        dml.sequence_lengths_like(x, [1, 2], 1)
    with pytest.raises(ValueError, match=r"^sequence_lengths_like: input must have at least 1 dimension, got a 0-d"):
        dml.sequence_lengths_like(torch.tensor(1), torch.tensor([1]), 0)


X = torch.arange(12.0).reshape(3, 4)
WRONG_TYPES = [
    (lambda x: dml.slice1(x.detach().numpy(), [0, 0], [1, 1], [1, 1]), "slice1: input must be a tensor, got ndarray"),
    (lambda x: dml.slice1(x, 1, 2, 1), "slice1: window_offsets must be a list of whole numbers, got 1"),
    (lambda x: dml.slice1(x, [0, 0.5], [1, 1], [1, 1]), "slice1: window_offsets[1] must be a whole number, got 0.5"),
    (lambda x: dml.split(x, 2, axis=0), "split: split_sizes must be a list of whole numbers, got 2"),
    (lambda x: dml.split(x, [1, 2], axis="0"), "split: axis must be a whole number, got '0'"),
    (lambda x: dml.join((x, None), 0), "join: inputs[1] must be a tensor, got None"),
    (
        lambda x: dml.reverse_subsequences(x, [1, 2], 1),
        "reverse_subsequences: sequence_lengths must be a tensor, got list",
    ),
    (lambda x: dml.slice1(x, [0, 0], [3, 4], [1, 1], out=[X]), "slice1: out must be a tensor, got list"),
    (lambda x: dml.split(x, [1, 2], 0, out=[X, 3]), "split: out[1] must be a tensor, got 3"),
    (lambda x: dml.window(x, ...), "window: shape must be a list of sizes, got a tensor; write its shape"),
]


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize(("call", "sentence"), WRONG_TYPES)
def test_arguments_of_other_types_are_named(call, sentence, requires_grad):
    with pytest.raises(TypeError) as error:
        call(X.clone().requires_grad_(requires_grad))
    assert str(error.value) == sentence
