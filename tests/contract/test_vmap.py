"""torch.func.vmap: what a loop over the batch gives, in one call, whichever arguments carry the batch and wherever."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import plain_torch
import pytest
import torch
from oracle import LENGTH_DTYPES, as_list
from refusals import ARGUMENTS, Refusal, every_row
from torch import Tensor
from torch.func import vmap
from torch.utils._pytree import tree_flatten, tree_unflatten
from transform_cases import CASES, FIVE, Case, by_name, same, values

import torch_dml_ops as dml

BATCH = 3


def batched(tensor: Tensor, dim: int | None) -> Tensor:
    """The tensor and others of its kind, stacked along `dim`."""
    if dim is None:
        return tensor
    others = [tensor.roll(k, -1) for k in range(BATCH)]
    return torch.stack(others, dim)


def loop(call: Callable[..., Any], tensors: Sequence[Tensor], in_dims: Sequence[int | None]) -> list[Tensor]:
    """The results for every item of the batch, stacked along dimension 0."""
    size = next(t.shape[d] for t, d in zip(tensors, in_dims, strict=True) if d is not None)
    items = [
        as_list(call(*(t if d is None else t.select(d, k) for t, d in zip(tensors, in_dims, strict=True))))
        for k in range(size)
    ]
    return [torch.stack(results) for results in zip(*items, strict=True)]


def placements(count: int) -> list[tuple[int | None, ...]]:
    """Every way to give `count` tensors a batch dimension, or none to some of them."""
    return [dims for dims in itertools.product((None, 0, 1, -1), repeat=count) if any(d is not None for d in dims)]


@pytest.mark.parametrize(
    ("case", "in_dims"),
    [(case, in_dims) for case in CASES for in_dims in placements(len(case.sizes))],
    ids=lambda v: v.name if isinstance(v, Case) else str(v),
)
def test_every_input_may_be_batched_in_any_dimension(case: Case, in_dims: tuple[int | None, ...]) -> None:
    tensors = [batched(x, dim) for x, dim in zip(case.tensors(), in_dims, strict=True)]
    expected = loop(lambda *xs: case.results(plain_torch, *xs), tensors, in_dims)
    batched_call = vmap(lambda *xs: case.results(dml, *xs), in_dims)
    same(batched_call(*tensors), expected)
    if None in in_dims:
        without_data = as_list(batched_call(*(x.to("meta") for x in tensors)))
        assert [(y.device.type, y.shape) for y in without_data] == [("meta", y.shape) for y in expected]


@pytest.mark.parametrize("in_dims", placements(2), ids=str)
@pytest.mark.parametrize("dtype", LENGTH_DTYPES, ids=str)
@pytest.mark.parametrize(
    ("name", "axis"), [*(("reverse_subsequences", axis) for axis in range(3)), ("reverse_sequence", 1)]
)
def test_lengths_may_be_batched_or_not(
    name: str, axis: int, dtype: torch.dtype, in_dims: tuple[int | None, int | None]
) -> None:
    sizes = (2, 3, 4)
    rows = [2] if name == "reverse_sequence" else [1 if d == axis else n for d, n in enumerate(sizes)]
    lengths = values(rows, torch.int64) % 6
    x, lengths = batched(values(sizes), in_dims[0]), batched(lengths, in_dims[1]).to(dtype)
    (expected,) = loop(lambda *a: getattr(plain_torch, name)(*a, axis), (x, lengths.long()), in_dims)
    reversed_ = vmap(lambda *a: getattr(dml, name)(*a, axis), in_dims)
    same(reversed_(x, lengths), expected)
    assert reversed_(x.to("meta"), lengths.to("meta")).shape == expected.shape


@pytest.mark.parametrize(
    ("size", "options"),
    [*((BATCH, {"out_dims": d}) for d in (0, 1, 2, -1)), (BATCH, {"chunk_size": 2}), (1, {}), (0, {})],
    ids=str,
)
@by_name(FIVE)
def test_batches_of_every_size_wherever_they_come_out(case: Case, size: int, options: dict[str, int]) -> None:
    tensors = [batched(x, 0) for x in case.tensors()]
    expected = loop(lambda *xs: case.results(plain_torch, *xs), tensors, [0] * len(tensors))
    actual = vmap(lambda *xs: tuple(case.results(dml, *xs)), **options)(*(x[:size] for x in tensors))
    same(list(actual), [y[:size].movedim(0, options.get("out_dims", 0)) for y in expected])


@by_name(CASES)
def test_nested(case: Case) -> None:
    inner = [0] + [None] * (len(case.sizes) - 1)  # the inner batch lies in the first tensor alone
    tensors = [batched(batched(x, dim), -1) for x, dim in zip(case.tensors(), inner, strict=True)]

    def inner_vmap(*xs: Tensor) -> list[Tensor]:
        return vmap(lambda *ys: case.results(dml, *ys), tuple(inner))(*xs)

    def inner_loop(*xs: Tensor) -> list[Tensor]:
        return loop(lambda *ys: case.results(plain_torch, *ys), xs, inner)

    same(vmap(inner_vmap, -1)(*tensors), loop(inner_loop, tensors, [-1] * len(tensors)))


# Not those of which no batch can be made, as there are too many elements.
REFUSED = {op: [row for row in rows if "2^63" not in row[0]] for op, rows in ARGUMENTS.items()}


@pytest.mark.parametrize("in_dims", [(0, 0, 0), (-1, -1, -1), (0, None, None)], ids=["first", "last", "one tensor"])
@every_row(REFUSED)
def test_an_error_names_what_was_given_and_nothing_of_the_batch(
    refusal: Refusal, in_dims: tuple[int | None, ...]
) -> None:
    leaves, structure = tree_flatten(
        refusal.arguments(lambda *sizes, dtype=torch.float32: torch.ones(sizes, dtype=dtype))
    )
    dims = iter(in_dims)
    dim_of = [next(dims) if isinstance(x, Tensor) else None for x in leaves]
    many = [x if d is None else torch.stack([x] * BATCH, d) for x, d in zip(leaves, dim_of, strict=True)]
    with pytest.raises(RuntimeError) as error:
        vmap(lambda *items: getattr(dml, refusal.op)(*tree_unflatten(items, structure)), tuple(dim_of))(*many)
    assert str(error.value) == refusal.sentence


@pytest.mark.parametrize(
    "call",
    [
        lambda x: dml.join([x, x[:, :2]], 0),
        lambda x: dml.join([x, x.double()], 0),
        lambda x: dml.split(x, [1, 1], 0),
        lambda x: dml.split(x, [3, 0], 0),
    ],
    ids=["sizes", "dtypes", "sum", "empty piece"],
)
def test_the_older_vmap_refuses_what_a_plain_call_does(call: Callable[[Tensor], Any]) -> None:
    """That of torch.autograd.grad(is_grads_batched=True)."""
    with pytest.raises(RuntimeError) as plain:
        call(torch.ones(3, 4))
    with pytest.raises(RuntimeError) as batched:
        torch._vmap_internals._vmap(call)(torch.ones(2, 3, 4))
    assert str(batched.value) == str(plain.value)


def test_the_pieces_of_the_older_vmap_are_copies() -> None:
    x = torch.ones(2, 3, 4)
    for piece in torch._vmap_internals._vmap(lambda x: tuple(dml.split(x, [1, 2], 0)))(x):
        piece.zero_()
    assert x.all()


def test_out_is_refused() -> None:
    out = torch.zeros(3, 4)
    with pytest.raises(RuntimeError, match="out= or view ops"):
        vmap(lambda x: dml.slice1(x, [0], [4], [1], out=out))(torch.ones(3, 4))
    assert not out.any()
