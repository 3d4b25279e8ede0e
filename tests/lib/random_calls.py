"""Random calls of the operators, and what is checked of each: against the oracle, bit for bit.

TORCH_DML_OPS_CASES=100    how many examples each property is tried on
TORCH_DML_OPS_SEED=        a number: other examples than the fixed ones that are tried without it

Every example runs in both forms. With `out`, all of its storage is compared: what lies between and beside the view's
elements must stay as it was.
"""

import itertools
import math
import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import oracle
import torch
from backends import Backend, backends
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from oracle import Block, Items, as_list
from transform_cases import EXAMPLES

SEED = os.environ.get("TORCH_DML_OPS_SEED")
Test = TypeVar("Test", bound=Callable[..., None])
PROFILE = settings(
    max_examples=EXAMPLES,
    derandomize=SEED is None,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],  # the machine's speed is not what is tested here
)


def examples(test: Test) -> Test:
    """EXAMPLES of them: the same ones every time, or those of SEED."""
    test = PROFILE(test)
    return test if SEED is None else seed(int(SEED))(test)


AROUND_VECTORS = [15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257]
MOST_ELEMENTS = 40_000  # at 4 bytes and more, enough that threads share the work

dtypes = st.sampled_from(oracle.DTYPES)
few = st.integers(1, 4)
many = st.sampled_from(AROUND_VECTORS) | st.integers(100, 3000)


@st.composite
def shapes(
    draw: st.DrawFn, min_rank: int = 1, max_rank: int = 8, most_elements: int = MOST_ELEMENTS
) -> tuple[int, ...]:
    sizes = draw(st.lists(few, min_size=min_rank, max_size=max_rank))
    longest = draw(st.integers(0, len(sizes) - 1))
    kind = draw(st.sampled_from(["small", "long", "wide", "narrow"]))
    if kind == "long":
        sizes[longest] = draw(many)
    if kind == "narrow":  # many rows of a few items
        sizes[0], sizes[-1] = draw(many), draw(few)
    if kind == "wide":  # enough of two dimensions for tiles of both
        other = draw(st.integers(0, len(sizes) - 1))
        sizes[longest], sizes[other] = draw(st.integers(5, 150)), draw(st.integers(5, 100))
    for d in range(len(sizes)):
        if math.prod(sizes) > (1000 if kind == "small" else most_elements) and sizes[d] <= 4:
            sizes[d] = 1
    return tuple(sizes)


@st.composite
def with_empty_dimension(draw: st.DrawFn, sizes: tuple[int, ...], keep: int | None = None) -> tuple[int, ...]:
    """Now and then, one dimension of size 0, but not `keep`."""
    others = [d for d in range(len(sizes)) if d != keep]
    if not others or draw(st.integers(0, 15)):
        return sizes
    empty = draw(st.sampled_from(others))
    return (*sizes[:empty], 0, *sizes[empty + 1 :])


Window = tuple[list[int], list[int], list[int]]
small_strides = st.sampled_from([1, -1, 2, -2, 3, -3, 4, -5, 8])
huge_strides = st.sampled_from([2**62, -(2**62), 2**63 - 1, -(2**63)])


@st.composite
def windows(draw: st.DrawFn, sizes: Sequence[int]) -> tuple[Window, list[int]]:
    """A window of a tensor of these sizes, and output sizes from 1 to as many as it has."""
    offsets, extents, strides, steps = [], [], [], []
    for size in sizes:
        kind = draw(st.sampled_from(["whole", "whole", "backwards", "strided", "any", "huge stride"]))
        offset, extent, stride = 0, size, -1 if kind == "backwards" else 1
        if kind in ("any", "huge stride"):
            offset = draw(st.just(0) | st.integers(0, max(size - 1, 0)))
            extent = draw(st.just(size - offset) | st.integers(min(1, size), size - offset))
        if kind in ("any", "strided"):
            stride = draw(small_strides)
        if kind == "huge stride":
            stride = draw(huge_strides)
        most = oracle.most_steps(extent, stride)
        offsets.append(offset)
        extents.append(extent)
        strides.append(stride)
        steps.append(draw(st.integers(min(1, most), most)) if kind == "any" else most)
    return (offsets, extents, strides), steps


@st.composite
def blocks(draw: st.DrawFn, sizes: Sequence[int], dtype: torch.dtype, writable: bool = False) -> Block:
    """Random memory, and a view in it whose dimensions lie in any order, with steps, padding and an offset.

    Where nothing is written to it, elements may share memory: broadcast, or windows that slide over one another.
    """
    rank = len(sizes)
    order = list(range(rank))
    gaps, pads, offset = [1] * rank, [0] * rank, 0
    lone = [0] * rank  # strides of dimensions of size 1, which mean nothing
    kind = draw(st.sampled_from(["contiguous", "any order", "any", "any"] + ["sharing"] * (not writable)))
    if kind != "contiguous":
        order = list(draw(st.permutations(order)))
        lone = draw(st.lists(st.sampled_from([0, 1, 7, 10**9, 2**62]), min_size=rank, max_size=rank))
    if kind in ("any", "sharing"):
        gaps = draw(st.lists(st.sampled_from([1, 1, 1, 2, 3]), min_size=rank, max_size=rank))
        pads = draw(st.lists(st.sampled_from([0, 0, 0, 1, 5]), min_size=rank, max_size=rank))
        offset = draw(st.sampled_from([0, 1, 3, 8, 16]))
    strides, stride = [0] * rank, 1
    for d in reversed(order):
        strides[d] = stride * gaps[d]
        stride = strides[d] * max(sizes[d], 1) + pads[d]
        if sizes[d] == 1 and kind != "contiguous":
            strides[d] = lone[d]
    if kind == "sharing":
        for d in range(rank):
            if draw(st.booleans()):
                strides[d] = draw(st.sampled_from([0, 0, 1, 2]))
    reach = sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True)) if 0 not in sizes else 0
    length = (offset + reach + 1 + draw(st.integers(0, 3))) * dtype.itemsize
    memory = np.random.default_rng(draw(st.integers(0, 999))).integers(0, 256, length, np.uint8)
    return Block(memory, dtype, tuple(sizes), tuple(strides), offset)


@st.composite
def cut(draw: st.DrawFn, size: int) -> list[int]:
    """At least one size, each at least 1, that sum to `size`; often single items."""
    if size <= 12 and draw(st.booleans()):
        return [1] * size
    places = draw(st.sets(st.integers(1, size - 1), max_size=12)) if size > 1 else set()
    ends = [0, *sorted(places), size]
    return [end - begin for begin, end in itertools.pairwise(ends)]


def check_all(op: str, *call: Any) -> None:
    """On every backend, as drawing a call takes longer than most calls."""
    for backend in backends():
        check(backend, op, *call)


def check(
    backend: Backend,
    op: str,
    arguments: Sequence[Any],
    expected: Items | list[Items],
    out: Block | list[Block],
) -> None:
    """Both forms of the call give `expected`. Blocks among the arguments become tensors."""
    given = [as_tensors(a, backend.device) for a in arguments]
    results = as_list(backend(op, *given))
    wanted = expected if isinstance(expected, list) else [expected]
    for result, want, block in zip(results, wanted, as_list(out), strict=True):
        assert oracle.equal(result, want), backend
        assert oracle.is_dense(result), backend
        assert (result.dtype, result.device.type) == (block.dtype, torch.device(backend.device).type), backend
    on_meta = [oracle.on_tensors(oracle.without_data, a) for a in given]
    without_data = as_list(getattr(torch.ops.torch_dml_ops, op).default(*on_meta))
    assert [t.stride() for t in results] == [t.stride() for t in without_data], backend

    outs = as_tensors(out, backend.device)
    backend(op, *given, out=outs)
    for block, written, want in zip(as_list(out), as_list(outs), wanted, strict=True):
        assert oracle.storage_bytes(written).tobytes() == block.written(want).tobytes(), backend


def as_tensors(value: Any, device: str) -> Any:
    if isinstance(value, Block):
        return value.tensor(device)
    return [as_tensors(v, device) for v in value] if isinstance(value, list) else value


def with_size(sizes: Sequence[int], axis: int, size: int) -> tuple[int, ...]:
    return (*sizes[:axis], size, *sizes[axis + 1 :])


@st.composite
def length_blocks(draw: st.DrawFn, sizes: Sequence[int], axis: int) -> Block:
    """Lengths that fit, exceed the axis or are negative, in any layout, broadcast ones included."""
    dtype = draw(st.sampled_from(oracle.LENGTH_DTYPES))
    block = draw(blocks(with_size(sizes, axis, 1), dtype))
    limits = np.iinfo(str(dtype).removeprefix("torch."))
    size = sizes[axis]
    strange = [0, 1, 2, size - 1, size, size + 1, -1, 2**31, 2**32 - 1, 2**63, limits.min, limits.max]
    strange = [n for n in strange if limits.min <= n <= limits.max]
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    everywhere = block.memory.view(limits.dtype)
    everywhere[:] = rng.integers(0, size + 1, everywhere.size)
    odd = rng.random(everywhere.size) < draw(st.sampled_from([0, 0.3, 1]))
    everywhere[odd] = np.array(strange, limits.dtype)[rng.integers(0, len(strange), odd.sum())]
    return block


def lengths_in(block: Block) -> np.ndarray:
    return block.items().view(str(block.dtype).removeprefix("torch."))


@st.composite
def calls(
    draw: st.DrawFn,
    op: str,
    sizes: Sequence[int],
    axis: int,
    dtype: torch.dtype,
    blocks: Any = blocks,
    windows: Any = windows,
) -> tuple[list[Any], Items | list[Items], Block | list[Block]]:
    """Arguments of a call that moves items of or to a tensor of these sizes, what they give, and an `out` for it."""
    if op == "reverse_subsequences":
        x, lengths = draw(blocks(sizes, dtype)), draw(length_blocks(sizes, axis))
        expected = oracle.reverse_subsequences(x.items(), lengths_in(lengths), axis)
        return [x, lengths, axis], expected, draw(blocks(sizes, dtype, writable=True))
    whole = draw(blocks(sizes, dtype, writable=op in ("slice_grad", "join")))
    if op in ("slice1", "slice_grad"):
        window, steps = draw(windows(sizes))
        part = draw(blocks(steps, dtype, writable=op == "slice1"))
        if op == "slice_grad":
            return [part, list(sizes), *window], oracle.slice_grad(part.items(), sizes, *window), whole
        is_all = steps == list(map(oracle.most_steps, *window[1:]))
        given = [] if is_all and draw(st.booleans()) else [steps]
        return [whole, *window, *given], oracle.slice1(whole.items(), *window, *given), part
    assert op in ("split", "join")
    split_sizes = draw(cut(sizes[axis]))
    pieces = [draw(blocks(with_size(sizes, axis, size), dtype, writable=op == "split")) for size in split_sizes]
    if op == "split":
        return [whole, split_sizes, axis], oracle.split(whole.items(), split_sizes, axis), pieces
    return [pieces, axis], oracle.join([piece.items() for piece in pieces], axis), whole
