"""dml.index: NumPy's basic indices, compared with NumPy, and what torch does around a call."""

import copy
import operator
import sys
from collections.abc import Callable
from contextlib import nullcontext
from decimal import Decimal
from fractions import Fraction
from random import Random
from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import oracle
import pytest
import torch
import torch.autograd.forward_ad as forward_ad
from backends import DEVICE
from contract_cases import maker
from hypothesis import given
from hypothesis import strategies as st
from random_calls import blocks
from torch import Tensor
from torch.func import vmap
from torch.fx.experimental.proxy_tensor import make_fx
from transform_cases import PassingMode, examples, graphs, same

import torch_dml_ops as dml
from torch_dml_ops._indexing.slices import has_negative_step

pytestmark = pytest.mark.usefixtures("fresh_compiler")


def ordinary_way(x: Tensor, index: Any) -> Tensor:
    with PassingMode():
        return dml.index(x)[index]


def with_gradient(x: Tensor, index: Any) -> Tensor:
    differentiable = x.is_floating_point() or x.is_complex()
    return dml.index(x.detach().requires_grad_(differentiable))[index].detach()


def forward_mode(x: Tensor, index: Any) -> Tensor:
    with forward_ad.dual_level():
        return dml.index(x)[index]


WAYS: dict[str, Callable[[Tensor, Any], Tensor]] = {
    "plain": lambda x, index: dml.index(x)[index],
    "ordinary way": ordinary_way,
    "with gradient": with_gradient,
    "forward mode": forward_mode,
    "inference mode": torch.inference_mode()(lambda x, index: dml.index(x)[index]),
}
every_way = pytest.mark.parametrize("way", WAYS)


def selected(x: Tensor, index: Any) -> Any:
    items = oracle.items(x)
    return np.asarray(items[index], items.dtype)


def assert_a_copy(result: Tensor, x: Tensor) -> None:
    assert not result._is_view()
    if result.numel():
        assert result.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()


@st.composite
def tensors_and_indices(draw: st.DrawFn) -> tuple[Tensor, Any]:
    dtype = draw(st.sampled_from(oracle.DTYPES))
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=5))
    x = draw(blocks(shape, dtype)).tensor(DEVICE)
    index = draw(hnp.basic_indices(tuple(x.shape), allow_newaxis=True, allow_ellipsis=True, max_dims=8))
    return x, index


@every_way
@examples
@given(case=tensors_and_indices())
def test_an_index_is_numpys(way: str, case: tuple[Tensor, Any]) -> None:
    x, index = case
    result, expected = WAYS[way](x, index), selected(x, index)
    assert result.dtype == x.dtype
    assert oracle.equal(result, expected), (index, result)
    assert_a_copy(result, x)


BOUNDS = [None, *range(-5, 6), sys.maxsize, -sys.maxsize - 1, 10**30, -(10**30)]
STEPS = [None, 1, 2, 3, -1, -2, -3, sys.maxsize, -sys.maxsize - 1, 10**30, -(10**30)]


def by_window(x: Tensor, index: slice) -> Tensor:
    if x.numel() and not x.cpu().numpy()[index].size:
        with pytest.raises(ValueError, match="must select something"):
            dml.window(x.shape, index)
        return x[:0]
    return dml.slice1(x, *dml.window(x.shape, index))


@pytest.mark.parametrize("way", [WAYS["plain"], ordinary_way, by_window], ids=["plain", "ordinary way", "window"])
def test_all_slices_of_small_sizes(way: Callable[[Tensor, Any], Tensor]) -> None:
    for size in range(4):
        x = torch.arange(size, device=DEVICE)
        for index in (slice(a, b, c) for a in BOUNDS for b in BOUNDS for c in STEPS):
            assert way(x, index).tolist() == x.cpu().numpy()[index].tolist(), index


@every_way
def test_the_layout_is_the_same_every_way(way: str) -> None:
    x = maker(DEVICE)(3, 4, 5, 2)
    for given_x in (x, x.permute(2, 0, 3, 1), x.contiguous(memory_format=torch.channels_last), x[:, ::2]):
        for index in (np.s_[::-1], np.s_[:, 1], np.s_[..., 1], np.s_[1, ::-1, None], np.s_[:, :, None, ::-2, 0]):
            assert WAYS[way](given_x, index).stride() == WAYS["plain"](given_x, index).stride()


def test_a_tuple_of_a_class_of_its_own() -> None:
    x, index = maker(DEVICE)(4, 6), type("Pair", (tuple,), {})(np.s_[1, ::-1])
    assert oracle.equal(dml.index(x)[index], selected(x, np.s_[1, ::-1]))


# What is refused.

S = np.s_
TOO_MANY = "index must have no more slices and whole numbers than input has dimensions, 2, got 3"
PARTS, OF_SLICE = ("start", "stop", "step"), "the slice of dimension 1 must be a whole number"
MALFORMED: list[tuple[Any, str]] = [
    (S[..., ...], "index must have at most one Ellipsis, got 2"),
    (S[..., 1, ...], "index must have at most one Ellipsis, got 2"),
    (S[:, :, 0], TOO_MANY),
    (S[:, None, 0, ..., 1], TOO_MANY),
    (S[4], "index[0] must be from -4 to 3, as dimension 0 has size 4, got 4"),
    (S[-5], "index[0] must be from -4 to 3, as dimension 0 has size 4, got -5"),
    (S[..., None, 6], "index[2] must be from -6 to 5, as dimension 1 has size 6, got 6"),
    (S[10**30], f"index[0] must be from -4 to 3, as dimension 0 has size 4, got {10**30}"),
    (S[np.int64(-7), ::-1], "index[0] must be from -4 to 3, as dimension 0 has size 4, got -7"),
    (S[0:0, 6], "index[1] must be from -6 to 5, as dimension 1 has size 6, got 6"),
    (S[::0], "the slice of dimension 0 must not have a step of 0"),
    (S[..., None, 1 :: np.int8(0)], "the slice of dimension 1 must not have a step of 0"),
    (S[:, : object()], "the stop of the slice of dimension 1 must be a whole number, got object"),
    (S["name"], "index[0] must be a slice, a whole number, None or an Ellipsis, got 'name'"),
    (S[::-1, 1.0], "index[1] must be a slice, a whole number, None or an Ellipsis, got 1.0"),
    (S[0, {1: 2}], "index[1] must be a slice, a whole number, None or an Ellipsis, got dict"),
    (S[::-1, ::0], "the slice of dimension 1 must not have a step of 0"),
    (S[::-1, 6], "index[1] must be from -6 to 5, as dimension 1 has size 6, got 6"),
    (S[..., ::-1, ...], "index must have at most one Ellipsis, got 2"),
    (S[::-1, 0, 0], TOO_MANY),
]


def in_a_slice(part: str, value: Any) -> slice:
    return slice(*(value if p == part else -1 if p == "step" else None for p in PARTS))


MALFORMED += [
    (S[0, in_a_slice(part, value)], f"the {part} of {OF_SLICE}, got {said}")
    for part in PARTS
    for value, said in ((1.5, "1.5"), ("1", "'1'"), (object(), "object"))
]
ADVANCED: list[tuple[Any, str]] = [
    ([0, 2], "[0, 2]"),
    (S[::-1, [0, 2]], "[0, 2]"),
    (True, "True"),
    (np.False_, "False"),
    (np.array(True), "True"),
    (torch.tensor(True), "True"),
    (S[:, np.array([1, 2])], "an array of sizes [2]"),
    (np.array([1]), "an array of sizes [1]"),
    (S[:, torch.tensor([1])], "a tensor of sizes [1]"),
    (torch.ones(4, 6, dtype=torch.bool), "a tensor of sizes [4, 6]"),
    (S[::-1, np.ones(6, bool)], "an array of sizes [6]"),
]


REFUSING: dict[str, Callable[[Tensor, Any], Any]] = {
    **WAYS,
    "assigning": lambda x, index: operator.setitem(dml.index(x), index, 0),
    "negative_steps": dml.negative_steps(lambda x, index: x[index]),
    "negative_steps, assigning": dml.negative_steps(lambda x, index: operator.setitem(x, index, 0)),
}
BASIC = "must be a slice, a whole number, None or an Ellipsis, got"


@pytest.mark.parametrize(
    ("index", "sentence", "error", "way"),
    [
        pytest.param(index, sentence, error, way, id=f"{way}: {sentence}")
        for index, sentence, error in (
            *((index, sentence, None) for index, sentence in MALFORMED),
            *((index, f"{BASIC} {got}", IndexError) for index, got in ADVANCED),
        )
        for way in REFUSING
        if "negative_steps" not in way or has_negative_step(index)
    ],
)
def test_a_malformed_or_advanced_index_gets_a_sentence(
    index: Any, sentence: str, error: type[Exception] | None, way: str
) -> None:
    """With the exception of NumPy, or where that takes the index, an IndexError and what to write instead."""
    x = torch.zeros(4, 6, device=DEVICE)
    if error is None:
        with pytest.raises(Exception) as numpys:
            x.cpu().numpy()[index]
        error = type(numpys.value)
    else:
        sentence = f"index[{len(index) - 1 if isinstance(index, tuple) else 0}] {sentence}"
    with pytest.raises(error) as refused:
        REFUSING[way](x, index)
    assert type(refused.value) is error
    function = "negative_steps" if "negative_steps" in way else "index"
    assert str(refused.value).partition("; write ")[0] == f"{function}: {sentence}"
    assert not x.any()


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("way", [way for way in REFUSING if "negative_steps" not in way])
def test_a_truth_value_is_no_whole_number(part: str, way: str) -> None:
    """Although NumPy takes it for 0 or 1."""
    x = torch.zeros(4, 6, device=DEVICE)
    for value in (True, np.True_, torch.tensor(True)):
        with pytest.raises(TypeError, match=rf"^index: the {part} of {OF_SLICE}, got True$"):
            REFUSING[way](x, S[0, in_a_slice(part, value)])
    assert not x.any()


@pytest.mark.parametrize(
    ("sizes", "number", "sentence"),
    [
        (
            [4],
            torch.tensor(2**63, dtype=torch.uint64),
            "from -4 to 3, as dimension 0 has size 4, got 9223372036854775808",
        ),
        ([0, 3], 0, "a slice, as dimension 0 has size 0, got 0"),
    ],
)
def test_a_number_of_64_bits_and_one_of_an_empty_dimension(sizes: list[int], number: Any, sentence: str) -> None:
    with pytest.raises(IndexError, match=rf"^index: index\[0\] must be {sentence}$"):
        dml.index(torch.zeros(sizes))[number]


def test_what_an_indexer_is_not() -> None:
    x = torch.tensor(1.0)
    indexer = dml.index(x)
    with pytest.raises(TypeError, match="not iterable"):
        iter(indexer)
    with pytest.raises(TypeError):
        assert 1 in indexer
    assert repr(indexer) == f"index({x!r})"


@pytest.mark.parametrize("index", [S[::-1], S[0], S[1:1], S[None]], ids=str)
@pytest.mark.parametrize("kind", ["sparse", "quantized"])
def test_a_tensor_without_strides(kind: str, index: Any) -> None:
    x = torch.ones(2, 3)
    x = x.to_sparse() if kind == "sparse" else torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)
    with pytest.raises(RuntimeError, match=r"^index: input must .* first$"):
        dml.index(x)[index]
    with pytest.raises(RuntimeError, match=r"^index: the value must .* first$"):
        dml.index(torch.zeros(2, 3))[index] = x


@pytest.mark.parametrize(("number", "another"), [(1.5, 2.5), (2, 3), (True, False)])
def test_numbers_that_traced_code_reads_are_assigned(number: Any, another: Any) -> None:
    def assign(x: Tensor, number: Tensor) -> Tensor:
        x = x.clone()
        dml.index(x)[::-2] = number.item()
        return x

    traced = make_fx(assign, tracing_mode="symbolic")(torch.zeros(3), torch.tensor(number))
    assert traced(torch.zeros(3), torch.tensor(another)).tolist() == [another, 0, another]


# The caller's own.


@pytest.mark.parametrize("way", ["plain", "ordinary way"])
@pytest.mark.parametrize("differentiable", [False, True])
@pytest.mark.parametrize("index", [np.s_[::-1], np.s_[1], np.s_[::2, 0], np.s_[None, 1:]])
def test_a_tensor_that_its_storage_no_longer_holds_is_refused(way: str, index: Any, differentiable: bool) -> None:
    x = torch.randn(6, 4, device=DEVICE)
    x.untyped_storage().resize_(8)
    with pytest.raises(RuntimeError, match=r"^slice1: input must lie within its storage, but this was made"):
        WAYS[way](x.requires_grad_(differentiable), index)


def test_the_indexer_reads_its_tensor_when_it_is_indexed() -> None:
    x = torch.arange(4)
    indexer = dml.index(x)
    before = indexer[::-1]
    x += 10
    assert before.tolist() == [3, 2, 1, 0]
    assert indexer[::-1].tolist() == [13, 12, 11, 10]
    x.resize_(2)
    assert indexer[::-1].tolist() == [11, 10]


def test_a_result_without_grad_mode_may_be_written_with_it() -> None:
    x, w = torch.arange(6.0).reshape(2, 3), torch.ones(3).requires_grad_()
    for index in (S[1], S[::-1, None], S[1, 2], S[2:]):
        with torch.no_grad():
            y = dml.index(x)[index]
        y += w[: 1 if y.dim() == 0 else 3].sum()
        assert y.requires_grad


# Transforms, compiled, traced.


def assigned_at(i: Any, x: Tensor) -> Tensor:
    dml.index(x)[i, ::-2] = x[0, ::2].clone()
    return x


def test_vmap_over_whole_numbers() -> None:
    x, i, j = torch.randn(3, 4, 5), torch.tensor([2, 0, -1]), torch.tensor([3, -4, 1])
    for index in (
        lambda i, j: (i,),
        lambda i, j: (i, slice(None, None, -2)),
        lambda i, j: (slice(None, None, -1), i, None, slice(1, None)),
        lambda i, j: (i, slice(None, None, -1), j),
        lambda i, j: (..., i, 3),
        lambda i, j: (i, j, i),
        lambda i, j: (i, slice(2, 1)),
    ):
        expected = torch.stack([dml.index(x)[index(*ij)] for ij in zip(i.tolist(), j.tolist(), strict=True)])
        same(vmap(lambda i, j, index=index: dml.index(x)[index(i, j)])(i, j), expected)
        xs = torch.stack([x, x + 1, x + 2], 1)
        expected = torch.stack([dml.index(xs[:, k])[index(int(i[k]), int(j[k]))] for k in range(3)])
        same(vmap(lambda x, i, j, index=index: dml.index(x)[index(i, j)], (1, 0, 0))(xs, i, j), expected)
    # Of uint8, torch would take as many as the dimension has elements for a mask.
    for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64):
        i = torch.tensor([1, 1, 2], dtype=dtype)
        same(vmap(lambda i: dml.index(x)[i, ::-1])(i), torch.stack([x[k].flip(0) for k in i.tolist()]))
        written = vmap(assigned_at, (0, 0))(i, torch.stack([x] * 3))
        same(written, torch.stack([assigned_at(k, x.clone()) for k in i.tolist()]))
    slices = vmap(lambda x, i: dml.index(x)[i:], (None, 0))
    with pytest.raises(RuntimeError, match="vmap"):  # each item would have another size
        slices(x, i)


VARYING = [(torch.arange(40.0 * n).reshape(40, n), a, 40 - b, c) for n, a, b, c in zip(
    (6, 6, 7, 8, 9), (2, 3, 4, 5, 6), (3, 4, 2, 9, 6), (2, 3, 4, 2, 3), strict=True)]  # fmt: skip


def varying(x: Tensor, a: int, b: int, c: int) -> Tensor:
    return dml.index(x)[b:a:-c, None, c]


def test_numbers_that_vary_are_compiled_once() -> None:
    assert graphs(varying, VARYING, dynamic=True) == 1
    assert graphs(varying, VARYING) <= 3
    assert graphs(lambda x, a, b, c: dml.index(x)[-a, ::-c], VARYING, dynamic=True) == 1


def test_a_step_whose_sign_varies_is_compiled_once_for_each_sign() -> None:
    calls = [(torch.arange(40.0), c) for c in (2, -2, 3, -3, 4, -4)]
    assert graphs(lambda x, c: dml.index(x)[::c], calls, dynamic=True) == 2


def test_sizes_that_depend_on_data() -> None:
    def f(x: Tensor) -> Tensor:
        rows = torch.nonzero(x)
        first = dml.index(rows)[::-1, 0] + dml.index(rows)[:, ::-1][:, 1]
        return first + dml.slice1(rows, *dml.window(rows.shape, (slice(None, None, -1), slice(1))))[:, 0]

    x = torch.eye(3)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(f, fullgraph=True, backend="aot_eager")
        for y in (x, x + 1):
            same(compiled(y), f(y))


ADVANCED: dict[str, Any] = {
    "list": [2, 0],
    "tensor": torch.tensor([[1, -1, 0]]),  # none twice: on a GPU either value may stay
    "mask": torch.tensor([True, False, True]),
    "mask of two dimensions": torch.tensor([[True, False, True], [False, True, True], [True, True, False]]),
}
OTHERS = (slice(None), slice(1, None), slice(None, None, -1), slice(None, None, -2), slice(2, 0, -1), None, ...)


@pytest.mark.parametrize("kind", ADVANCED)
@pytest.mark.parametrize("in_mode", [False, True], ids=["index", "negative_steps"])
def test_what_is_advised_does_what_numpy_does(kind: str, in_mode: bool) -> None:
    """An advanced index among slices is refused; what the sentence says to write selects and assigns the same."""
    entry, random, tried = ADVANCED[kind], Random(kind), 0
    indices = mask = entry
    x = maker(DEVICE)(3, 3, 3, 3)
    room = x.dim() - (2 if kind == "mask of two dimensions" else 1)
    while tried < 40:
        others = random.choices(OTHERS, k=random.randrange(room + 1))
        at = random.randrange(len(others) + 1)
        index = (*others[:at], entry, *others[at:])
        if others.count(...) > 1 or not (has_negative_step(index) or not in_mode):
            continue
        tried += 1
        for_numpy = tuple(np.asarray(e.cpu()) if isinstance(e, Tensor) else e for e in index)
        want = x.cpu().numpy()[for_numpy]
        value = maker(DEVICE)(*want.shape[random.randrange(want.ndim + 1) :]) + 100
        assigned = x.cpu().numpy().copy()
        assigned[for_numpy] = value.cpu().numpy()
        y = x.clone()
        known = {"x": y, "index": dml.index, "indices": indices, "mask": mask, "value": value}
        with dml.negative_steps() if in_mode else nullcontext():
            with pytest.raises(IndexError) as refused:
                _ = y[index] if in_mode else dml.index(y)[index]
            np.testing.assert_array_equal(eval(str(refused.value).partition("; write ")[2], known).cpu(), want)
            with pytest.raises(IndexError) as refused:
                (y if in_mode else dml.index(y))[index] = value
            same(y, x)
            exec(str(refused.value).partition("; write ")[2], known)
        np.testing.assert_array_equal(y.cpu(), assigned)


def test_fx_of_numbers_that_follow_from_the_input() -> None:
    traced = torch.fx.symbolic_trace(lambda x, table: dml.index(table)[x.shape[0] :: -1, x.size(1)])
    table = torch.randn(9, 9)
    for n in (3, 4):
        same(traced(torch.zeros(n, n + 2), table), dml.index(table)[n::-1, n + 2])


@pytest.mark.parametrize("at", [lambda n: n, lambda n: (n, slice(None, None, -1)), lambda n: (slice(n, None, -1), 2)])
def test_fx_of_a_table_at_a_place_that_is_not_known_yet(at: Callable[[int], Any]) -> None:
    def filled(n: int) -> torch.Tensor:
        result = table.clone()
        dml.index(result)[at(n)] = 7.0
        return result

    table = torch.randn(9, 9)
    for call in (lambda n: dml.index(table)[at(n)], filled):
        traced = torch.fx.symbolic_trace(call)
        for n in (0, 5, -2):
            same(copy.deepcopy(traced)(n), call(n))


def test_what_an_entry_itself_raises_comes_through() -> None:
    class Entry:
        def __index__(self) -> int:
            raise RuntimeError("of its own")

    with pytest.raises(RuntimeError, match=r"^of its own$"):
        dml.index(torch.zeros(3))[Entry()]


# Assigning; tests/indexing/test_negative_steps.py has the rest.


def test_values_that_overlap_what_they_are_assigned_to() -> None:
    x = torch.arange(8)
    dml.index(x)[1:] = x[:-1]
    assert x.tolist() == [0, 0, 1, 2, 3, 4, 5, 6]


def test_steps_larger_than_what_torch_multiplies_by_strides() -> None:
    for step in (2**31, 2**62, -(2**62), 2**63 - 1, -(2**63), 2**70, -(2**70)):
        x = torch.arange(12).reshape(3, 4)
        items = np.arange(12).reshape(3, 4)
        dml.index(x)[1::step, ::step] = items[1::step, ::step] = 50
        assert x.tolist() == items.tolist()
        assert dml.index(x)[3:3:step, ::step].shape == items[3:3:step, ::step].shape


NUMBERS = [np.float32(3), np.float16(2), np.bool_(True), np.int8(-3), np.uint64(7), np.array(4.0), np.longdouble(2.5)]
NUMBERS += [Decimal("2.5"), Fraction(5, 2), 2**63, 2**64 - 1, 2**64, -(2**63) - 1, -(2**70), 10**400]


@pytest.mark.parametrize("value", NUMBERS, ids=lambda value: f"{value!r:.30}")
@pytest.mark.parametrize("dtype", [torch.uint64, torch.int64, torch.float32, torch.complex64, torch.bool])
def test_numbers_that_torch_may_not_take_are_assigned_as_numpy_does(value: Any, dtype: torch.dtype) -> None:
    x, expected = torch.zeros(5, dtype=dtype, device=DEVICE), torch.zeros(5, dtype=dtype, device="cpu")
    if dtype == torch.uint64 and value == -3:
        return  # as 2^64 - 3 by NumPy 1 alone
    try:
        expected.numpy()[::-2] = value
    except OverflowError:
        with pytest.raises(RuntimeError, match=r"^index: the value must fit \w+, the dtype of input, got -?\d+…?$"):
            dml.index(x)[::-2] = value
    else:
        dml.index(x)[::-2] = value
    assert x.tolist() == expected.tolist()
