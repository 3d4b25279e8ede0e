"""Which `out` is taken, what is written there, and what is refused."""

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import oracle
import pytest
import torch
from backends import DEVICE, WAYS, Backend, backends
from contract_cases import (
    CALLS,
    FIRST,
    SEVERAL,
    Make,
    assert_refused,
    assert_right,
    assert_written,
    every_dtype,
    every_form,
    every_op,
    given_as_out,
    lengths_of,
    maker,
    same_sizes,
    tensors_in,
)
from oracle import as_list
from short_way_situations import ENTRIES, Form
from torch import Tensor

import torch_dml_ops as dml


@every_op
@every_dtype
def test_out_is_returned_and_the_same_object(op: str, dtype: torch.dtype) -> None:
    t = maker(DEVICE)
    arguments = CALLS[op](t, dtype=dtype)
    out = t(2, 3, dtype=dtype)
    result = getattr(dml, op)(*arguments, out=given_as_out(op, out))
    assert (result[0] if op == "split" else result) is out
    assert_right(result, op, arguments)


@every_op
@pytest.mark.parametrize(("strides", "offset"), [((3, 2), 0), ((4, 3), 5)], ids=str)
def test_out_with_strides_that_do_not_nest(
    backend: Backend, t: Make, op: str, strides: tuple[int, int], offset: int
) -> None:
    """Of all others random calls make some."""
    assert_written(partial(backend, op), op, CALLS[op](t), [t(24).as_strided((2, 3), strides, offset)])


def test_strides_of_dimensions_of_size_1_mean_nothing_where_items_are_not_aligned() -> None:
    stride = 2**62
    memory = bytearray(3 * 8 + 1)
    for size, strides in (((1, 3, 1), (stride, 1, stride)), ((1, 1, 3), (stride, stride, 1))):
        x = torch.frombuffer(memory, dtype=torch.float64, count=3, offset=1).as_strided(size, strides)
        for op, arguments in same_sizes(x, 0, stride=-1).items():
            assert_right(getattr(torch.ops.torch_dml_ops, op)(*arguments), op, arguments)


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
        first = (x := t(2, 3).clone())._lazy_clone()[:, :1]
        assert_refused(backend, f"split: {message}", "split", x, [1, 2], 1, out=[first, second])
        assert torch._C._is_cow_tensor(first)
    x, whole, first = t(2, 3), t(2, 3), t(2, 1)
    shared: tuple[tuple[int, str, list[int], list[Tensor]], ...] = (
        (1, "input", [1, 2], [first, x[:, 1:]]),
        (1, "out[0]", [1, 2], [whole[:, 1:2], whole[:, :2]]),
        (2, "out[0]", [1, 1, 1], [first, t(2, 1), first]),
    )
    for k, other, sizes, outs in shared:
        refusal = f"split: out[{k}] must not share memory with {other}"
        assert_refused(backend, refusal, "split", x, sizes, 1, out=outs)


@every_form
def test_out_must_not_be_an_input(form: Backend) -> None:
    t = maker(form.device)
    x = t(2, 3)
    for op, arguments in same_sizes(x, 1).items():
        refusal = f"{op}: {'out[0]' if op == 'split' else 'out'} must not share memory with {FIRST[op]}"
        for out in (x, x.detach()):
            assert_refused(form, refusal, op, *arguments, out=given_as_out(op, out))
    refusal = "reverse_subsequences: out must not share memory with sequence_lengths"
    lengths = lengths_of([[2], [1]], torch.int64, form.device)
    same_bytes = lengths.view(torch.float32)
    assert_refused(form, refusal, "reverse_subsequences", t(2, 2), lengths, 1, out=same_bytes)


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
    memory, backend = np.arange(32, dtype=np.uint8), Backend("cpu", "cpu")
    for dtype, count, begin, shared, beside in (
        (torch.float32, 4, 0, (0, 4, 13, 14, 15), (16,)),
        (torch.float64, 1, 8, range(1, 16), (0, 16)),
    ):
        over = partial(torch.frombuffer, memory, dtype=dtype, count=count)
        arguments = over(offset=begin), [0], [count], [-1]
        for offset in shared:
            refusal = "slice1: out must not share memory with input"
            assert_refused(backend, refusal, "slice1", *arguments, out=over(offset=offset))
        for offset in beside:
            assert_right(backend("slice1", *arguments, out=over(offset=offset)), "slice1", arguments)


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
        for op, arguments in same_sizes(x, 1, stride=-1, length=2).items():
            backend(op, *arguments, out=given_as_out(op, out))
            assert_right(out, op, arguments)
            assert x.equal(before)


@every_op
def test_an_overload_that_is_given_none_as_out_refuses_it(op: str) -> None:
    """None stands for no `out` in Python's functions alone."""
    t = maker(DEVICE)
    for arguments in (
        CALLS[op](t),
        [x.requires_grad_() if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in CALLS[op](t)],
    ):
        for call in (getattr(torch.ops.torch_dml_ops, op), getattr(torch.ops.torch_dml_ops, op).out):
            with pytest.raises(RuntimeError, match=rf"{op}.*(must|Expected|with out)"):
                call(*arguments, out=None)


# Of some memory, where a call reads and where it writes. Until then, a lazy clone has the address of its origin.
LAZY: dict[str, Callable[[Tensor], tuple[Tensor, ...]]] = {
    "out": lambda memory: (memory, memory._lazy_clone()),
    "the input": lambda memory: (memory._lazy_clone(), memory),
    "both": lambda memory: (memory._lazy_clone(), memory._lazy_clone()),
    "a clone of a clone": lambda memory: (clone := memory._lazy_clone(), clone._lazy_clone()),
    "one clone": lambda memory: (memory._lazy_clone(),) * 2,
    "three clones": lambda memory: tuple(memory._lazy_clone() for _ in range(3)),
}


def by_form(form: Form, way: str) -> Callable[..., Any]:
    def call(out: Any, *arguments: Any) -> None:
        with WAYS[way]():
            form.into(out, *arguments)

    return call


def compiled(op: str) -> Callable[..., Any]:
    torch._dynamo.reset()
    call = getattr(dml, op)
    return torch.compile(lambda out, *arguments: call(*arguments, out=out), fullgraph=True)


INTO: dict[str, Callable[[str], Callable[..., Any]]] = {  # how to call an operator, as a function of `out` and the rest
    **{
        f"{entry}, {way}": lambda op, entry=entry, way=way: by_form(Form(op, entry, out=True), way)
        for entry in ENTRIES
        for way in WAYS
    },
    "compiled": compiled,
    "on_host": lambda op: lambda out, *arguments: backends()[-1](op, *arguments, out=out),
}


@every_op
@pytest.mark.parametrize("into", INTO)
def test_what_is_written_into_a_lazy_clone_goes_nowhere_else(into: str, op: str) -> None:
    """One of the tensors that are read, or another out, shares its memory with the last out, or will not in the end."""
    write, make = INTO[into](op), SEVERAL[op]
    wanted = as_list(oracle.expected(op, *make(maker(DEVICE))))
    reads = len(tensors_in(make(maker(DEVICE))))
    outs = [torch.zeros(want.shape, device=DEVICE) for want in wanted]
    for k, (where, lay), begin in itertools.product(range(reads + len(outs) - 1), LAZY.items(), (0, 128)):
        arguments, memory = make(maker(DEVICE)), torch.arange(256, dtype=torch.uint8, device=DEVICE)
        tensors = [*tensors_in(arguments), *outs]
        memory[: tensors[k].nbytes] = tensors[k].flatten().view(torch.uint8)
        places = lay(memory)
        if len(places) > 2 and not reads <= k < len(tensors) - 2:  # as many outs
            continue
        for number, place, first in zip((k, -1, -2), places, (0, begin, begin)):  # noqa: B905
            like = tensors[number]
            tensors[number] = place[first : first + like.nbytes].view(like.dtype).view(like.shape)
        rest = iter(tensors)
        given = [oracle.on_tensors(lambda _: next(rest), argument) for argument in arguments]  # noqa: B023
        out = list(rest)
        seen = {t.untyped_storage()._cdata: oracle.storage_bytes(t) for t in (*tensors, memory)}
        if refused := where == "one clone" and begin == 0:
            with pytest.raises(RuntimeError, match=rf"^{op}: out(\[\d\])? must not share memory with "):
                write(out if op == "split" else out[0], *given)
        else:
            write(out if op == "split" else out[0], *given)
        for t, want in () if refused else zip(out, wanted, strict=True):
            key = t.untyped_storage()._cdata
            place = oracle.Block(seen[key], t.dtype, tuple(t.shape), t.stride(), t.storage_offset())
            seen[key] = place.written(want)
        for t in (*tensors, memory):
            assert oracle.storage_bytes(t).tobytes() == seen[t.untyped_storage()._cdata].tobytes(), (k, where, begin)


@every_op
@pytest.mark.parametrize("into_out", [False, True], ids=["new result", "out"])
def test_a_lazy_clone_that_is_read_is_not_copied(op: str, into_out: bool) -> None:
    kept = []

    def clones(*sizes, **kind):
        kept.append(maker(DEVICE)(*sizes, **kind).clone())
        kept.append(kept[-1]._lazy_clone())
        return kept[-1]

    arguments = CALLS[op](clones)
    out = {"out": given_as_out(op, torch.zeros(2, 3, device=DEVICE))} if into_out else {}
    getattr(dml, op)(*arguments, **out)
    assert all(map(torch._C._is_cow_tensor, kept))


def test_out_that_is_an_inference_tensor_is_refused_outside_of_inference_mode() -> None:
    with torch.inference_mode():
        out = torch.zeros(2, 3, device=DEVICE)
    with pytest.raises(RuntimeError, match=r"^slice1: out must not be an inference tensor outside of"):
        dml.slice1(torch.ones(2, 3, device=DEVICE), [0, 0], [2, 3], [1, 1], out=out)
    assert not out.any()
