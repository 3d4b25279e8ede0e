"""Random calls against the oracle, bit for bit: see random_calls.py."""

import math
from collections.abc import Sequence

import numpy as np
import oracle
import pytest
import torch
from backends import Backend, backends
from contract_cases import OPS, every_op
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import Block
from random_calls import (
    PROFILE,
    Window,
    calls,
    check,
    check_all,
    dtypes,
    examples,
    shapes,
    with_empty_dimension,
    with_size,
)
from transform_cases import EXAMPLES

import torch_dml_ops as dml


def test_draws_are_the_same_in_every_run() -> None:
    """So are those of every test: tests/conftest.py seeds torch before each."""
    expected = torch.rand(4, generator=torch.Generator("cpu").manual_seed(0), device="cpu")
    assert torch.equal(torch.rand(4, device="cpu"), expected)


def order_in_memory(x: torch.Tensor) -> list[int]:
    """Dimensions, the outermost first; where strides are equal, the smaller size is the inner one."""
    return sorted(range(x.dim()), key=lambda d: (-x.stride(d), -x.shape[d]))


def is_dense_in(x: torch.Tensor, order: Sequence[int]) -> bool:
    dense = oracle.dense_strides(x.shape, order)
    return all(size == 1 or stride == d for size, stride, d in zip(x.shape, x.stride(), dense, strict=True))


@examples
@given(st.data())
def test_join_takes_the_first_order_in_which_all_its_inputs_are_dense(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.sampled_from([1, 2, 1, 3, 0]), min_size=2, max_size=5))
    axis = data.draw(st.integers(0, len(sizes) - 1))
    orders = data.draw(st.lists(st.permutations(range(len(sizes))), min_size=1, max_size=2))
    inputs = []
    for size in data.draw(st.lists(st.integers(1, 2), min_size=2, max_size=4)):
        shape = with_size(sizes, axis, size)
        strides = list(oracle.dense_strides(shape, data.draw(st.sampled_from(orders))))
        for d in range(len(shape)):
            if shape[d] == 1:
                strides[d] = data.draw(st.integers(0, 9))
            elif data.draw(st.integers(0, 20)) == 0:  # not dense any more, or in another order
                strides[d] += data.draw(st.integers(1, 4))
        inputs.append(torch.zeros(1000).as_strided(shape, strides))
    expected = next(
        (o for o in map(order_in_memory, inputs) if all(is_dense_in(x, o) for x in inputs)), range(len(sizes))
    )
    for device in ("cpu", "meta"):
        given = [torch.empty_strided(x.shape, x.stride(), device=device) for x in inputs]
        result = dml.join(given, axis)
        assert result.stride() == oracle.dense_strides(result.shape, expected)


@every_op
@examples
@given(st.data())
def test_results(op: str, data: st.DataObject) -> None:
    sizes = data.draw(shapes())
    axis = data.draw(st.integers(0, len(sizes) - 1))
    sizes = data.draw(with_empty_dimension(sizes, keep=axis if op in ("split", "join") else None))
    check_all(op, *data.draw(calls(op, sizes, axis, data.draw(dtypes))))


@examples
@given(st.data())
def test_results_of_rank_9(data: st.DataObject) -> None:
    """A batch of tensors of DirectML's largest rank."""
    sizes = (data.draw(st.integers(1, 3)), *data.draw(shapes(min_rank=8, most_elements=3000)))
    op, axis = data.draw(st.sampled_from(OPS)), data.draw(st.integers(1, 8))
    check_all(op, *data.draw(calls(op, sizes, axis, data.draw(dtypes))))


# Results of more bytes than a cache has are written in other ways than small ones.

LARGE = 32 << 20


@st.composite
def large_blocks(draw: st.DrawFn, sizes: Sequence[int], dtype: torch.dtype, writable: bool = False) -> Block:
    """As `blocks`, but not many times larger than the elements are."""
    rank = len(sizes)
    order = draw(st.just(list(range(rank))) | st.permutations(range(rank)))
    stretched = draw(st.sampled_from([None, *range(rank)]))
    pads = draw(st.lists(st.sampled_from([0, 0, 0, 1]), min_size=rank, max_size=rank))
    broadcast = None if writable or draw(st.integers(0, 5)) else draw(st.integers(0, rank - 1))
    offset = draw(st.sampled_from([0, 0, 1, 3]))
    strides, stride = [0] * rank, 1
    for d in reversed(order):
        strides[d] = 0 if d == broadcast else stride * (2 if d == stretched else 1)
        stride = stride if d == broadcast else strides[d] * sizes[d] + pads[d]
    memory = np.frombuffer(np.random.default_rng(0).bytes((offset + stride) * dtype.itemsize), np.uint8).copy()
    return Block(memory, dtype, tuple(sizes), tuple(strides), offset)


@st.composite
def large_windows(draw: st.DrawFn, sizes: Sequence[int]) -> tuple[Window, list[int]]:
    """The whole of it, with strides other than 1 and -1 in the longest dimension alone."""
    some = [1, 1, -1]
    strides = [draw(st.sampled_from([*some, -2, 2, 3] if size == max(sizes) else some)) for size in sizes]
    return ([0] * len(sizes), list(sizes), strides), list(map(oracle.most_steps, sizes, strides))


@settings(PROFILE, max_examples=max(EXAMPLES // 20, 1))
@given(st.data())
def test_results_too_large_for_the_cache(data: st.DataObject) -> None:
    dtype = oracle.DTYPE_OF_SIZE[data.draw(st.sampled_from([4, 8, 8, 16, 16, 16]))]
    sizes = data.draw(st.lists(st.integers(1, 9), max_size=3))
    longest = LARGE // dtype.itemsize // math.prod(sizes) + data.draw(st.integers(1, 1000))
    sizes.insert(data.draw(st.integers(0, len(sizes))), longest)
    op, axis = data.draw(st.sampled_from(OPS)), data.draw(st.integers(0, len(sizes) - 1))
    check(backends()[0], op, *data.draw(calls(op, sizes, axis, dtype, large_blocks, large_windows)))


# Which `out` is accepted.


@st.composite
def views(draw: st.DrawFn, sizes: Sequence[int], factor: int, length: int) -> tuple[tuple[int, ...], int]:
    """Strides, all multiples of `factor`, and offset of any view of these sizes in a storage of so many items."""
    strides, reach = [0] * len(sizes), 0
    for d in draw(st.permutations(range(len(sizes)))):
        most = (length - 1 - reach) // max(sizes[d] - 1, 1) // factor
        beyond = min(reach // factor + 1, most)  # so that the elements reached so far are stepped over
        strides[d] = factor * draw(st.just(beyond) | st.integers(0, min(12, most)))
        reach += (sizes[d] - 1) * strides[d]
    return tuple(strides), draw(st.integers(0, length - 1 - reach))


def _addresses(sizes: Sequence[int], strides: Sequence[int], offset: int) -> list[int]:
    return [offset + sum(map(int.__mul__, index, strides)) for index in np.ndindex(*sizes)]


@examples
@given(st.data())
def test_out_must_share_no_memory_with_itself_or_an_input(backend: Backend, data: st.DataObject) -> None:
    """Exactly those are refused of which two elements lie on one another."""
    dtype = oracle.DTYPE_OF_SIZE[data.draw(st.sampled_from(sorted(oracle.DTYPE_OF_SIZE)))]
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    factor, length = data.draw(st.integers(1, 4)), 150
    memory = np.random.default_rng(0).integers(0, 256, length * dtype.itemsize, np.uint8)
    source, target = (Block(memory, dtype, tuple(sizes), *data.draw(views(sizes, factor, length))) for _ in range(2))
    read = _addresses(sizes, source.strides, source.offset)
    written = _addresses(sizes, target.strides, target.offset)
    whole = torch.from_numpy(memory.copy()).to(backend.device).view(dtype)
    x, out = (whole.as_strided(b.sizes, b.strides, b.offset) for b in (source, target))
    window = [0] * len(sizes), sizes, [1] * len(sizes)
    if len(set(written)) < len(written):
        refusal = f"slice1: out must not overlap itself, got strides {list(out.stride())}"
    elif set(written) & set(read):
        refusal = "slice1: out must not share memory with input"
    else:
        backend("slice1", x, *window, out=out)
        assert oracle.storage_bytes(whole).tobytes() == target.written(source.items()).tobytes()
        return
    with pytest.raises(RuntimeError) as caught:
        backend("slice1", x, *window, out=out)
    assert str(caught.value) == refusal
    assert oracle.storage_bytes(whole).tobytes() == memory.tobytes()
