"""What the operators do before any data moves: whether tensors share memory, and how many steps a check takes.

A step is the call of a function in C++, and an instruction of the interpreter in Python. Unlike seconds they are the
same every time, and whatever compares each with each shows in them.
"""

import itertools
import math
import random
from collections.abc import Callable
from functools import partial
from typing import Any

import host_build
import pytest
import torch
from backends import ordinary_way
from contract_cases import OPS, given_as_out, instructions, same_sizes
from oracle import on_tensors, without_data
from torch import Tensor

import torch_dml_ops as dml


def columns(n: int) -> list[Tensor]:
    return list(torch.empty(8, n).split(1, 1))


def blocks_of_columns(n: int) -> list[Tensor]:
    widths = [1 + k % 5 for k in range(n)]
    return list(torch.empty(8, sum(widths)).split(widths, 1))


def columns_from_both_ends(n: int) -> list[Tensor]:
    whole = columns(n)
    return [whole[k // 2] if k % 2 else whole[-1 - k // 2] for k in range(n)]


def blocks_past_the_end_of_a_row(n: int) -> list[Tensor]:
    whole = torch.empty(9 * 3 * n)
    return [whole.as_strided((8, 3), (3 * n, 1), 3 * k + 2) for k in range(n)]


def every_nth(n: int, whole: Tensor) -> list[Tensor]:
    """Of its columns."""
    return [whole[:, k::n] for k in range(n)]


# The axis of a split, and its outs by their number. Where they lie one in another, each still has a place of its own.
OUTS: dict[str, tuple[int, Callable[[int], list[Tensor]]]] = {
    "own tensors": (1, lambda n: [torch.empty(8, 1) for _ in range(n)]),
    "rows": (1, lambda n: [row.view(8, 1) for row in torch.empty(n, 8)]),
    "columns": (1, columns),
    "columns from both ends": (1, columns_from_both_ends),
    "blocks of columns": (1, blocks_of_columns),
    "blocks past the end of a row": (1, blocks_past_the_end_of_a_row),
    "every nth column": (1, lambda n: every_nth(n, torch.empty(8, 4 * n))),
    "every nth column of padded rows": (1, lambda n: every_nth(n, torch.empty(8, 4 * n + 3)[:, : 4 * n])),
    "every nth row": (0, lambda n: [t.t() for t in every_nth(n, torch.empty(4 * n, 8).t())]),
    "tiles": (0, lambda n: [tile for strip in torch.empty(n // 4 * 2, 12).split(2) for tile in strip.split(3, 1)]),
    "swapped dimensions": (1, lambda n: [t.transpose(0, 1) for t in torch.empty(n, 4, 12, 5)]),
    "padded panels": (1, lambda n: list(torch.empty(4, n, 3, 3)[:, :, :2, :2].split(1, 1))),
    "last of three dimensions": (2, lambda n: list(torch.empty(3, 5, n)[:, :4].split(1, 2))),
}


def split_into(outs: list[Tensor], axis: int) -> tuple[Tensor, list[int], int]:
    """The arguments of a split into them."""
    sizes = [out.shape[axis] for out in outs]
    return torch.empty(()).expand(*outs[0].shape[:axis], sum(sizes), *outs[0].shape[axis + 1 :]), sizes, axis


@pytest.mark.parametrize(("axis", "outs"), OUTS.values(), ids=OUTS)
def test_one_shared_byte_among_many_outs_is_found(axis: int, outs: Callable[[int], list[Tensor]]) -> None:
    for count in (8, 40, 200):
        for k in (1, count // 2, count - 1):
            views = outs(count)
            dml.split(*split_into(views, axis), out=views)
            moved = views[k]
            views[k] = moved.as_strided(moved.shape, moved.stride(), views[k - 1].storage_offset())
            if moved.untyped_storage().data_ptr() != views[k - 1].untyped_storage().data_ptr():
                views[k] = views[k - 1].view_as(moved)
            with pytest.raises(RuntimeError, match=rf"^split: out\[{k}\] must not share memory with out\[{k - 1}\]$"):
                dml.split(*split_into(views, axis), out=views)


# How the steps of a call grow with the number of pieces, of inputs or of dimensions.

N = 100


def assert_no_faster_than_n_log_n(steps: Callable[[int], int]) -> None:
    few, many = steps(N), steps(8 * N)
    assert few > N
    assert many <= 8 * few * math.log(8 * N) / math.log(N)  # quadratic would be 64 times


def alike(n: int) -> list[Tensor]:
    return [torch.empty(2, 3, 4) for _ in range(n)]


def two_layouts(n: int) -> list[Tensor]:
    return [torch.empty(3, 2, 4).transpose(0, 1) for _ in range(n // 2)] + alike(n - n // 2)


def orders_of_one_element(n: int) -> list[Tensor]:
    """Each with an order of its own, in which the others are dense too, but for the last, which is dense in none."""
    orders = itertools.islice(itertools.permutations(range(1, 8)), n - 1)
    rest = torch.empty(3).as_strided((2, *(1,) * 6), (2, *(1,) * 6))
    return [*(torch.empty(1).as_strided((1,) * 7, order) for order in orders), rest]


def with_rank(n: int) -> Tensor:
    return torch.empty([1] * (n - 2) + [2, 3])


def out_of_rank(n: int) -> Tensor:
    """Of strides that do not nest."""
    return torch.empty(24).as_strided([1] * (n - 2) + [2, 3], [*range(n - 2), 4, 3])


Call = tuple[str, tuple[Any, ...], Any]  # the operator, its arguments, out or None

CALLS: dict[str, Callable[[int], Call]] = {
    "split": lambda n: ("split", (torch.empty(8, n), [1] * n, 1), None),
    "split, refused": lambda n: ("split", (torch.empty(8, n), [1] * n + [1], 1), None),
    **{
        f"split into {name}": lambda n, axis=axis, outs=outs: ("split", split_into(outs(n), axis), outs(n))
        for name, (axis, outs) in OUTS.items()
    },
    "join of one layout": lambda n: ("join", (alike(n), 0), None),
    "join of two layouts": lambda n: ("join", (two_layouts(n), 1), None),
    "join of many orders": lambda n: ("join", (orders_of_one_element(n), 0), None),
    "join of columns": lambda n: ("join", (columns(n), 1), torch.empty(8, n)),
    "join, the last input refused": lambda n: ("join", ([*alike(n), torch.empty(1, 3, 3)], 0), None),
    **{
        f"{name} of n dimensions, {form}": lambda n, name=name, with_out=with_out: (
            name,
            same_sizes(with_rank(n), n - 1)[name],
            given_as_out(name, out_of_rank(n)) if with_out else None,
        )
        for name in OPS
        for form, with_out in (("new", False), ("into out", True))
    },
    "slice1 of n dimensions, refused": lambda n: (
        "slice1",
        (with_rank(n), [0] * n, [1] * n, [1] * n),
        torch.empty([1] * (n - 1) + [2]),
    ),
}


def carry_out(name: str, call: Callable[[], Any]) -> None:
    try:
        call()
    except RuntimeError:
        assert "refused" in name
    else:
        assert "refused" not in name


@pytest.mark.parametrize("name", CALLS)
def test_steps_in_cpp(name: str) -> None:
    host_build.counted_operators()

    def steps(n: int) -> int:
        op, arguments, out = CALLS[name](n)
        packet = getattr(torch.ops.torch_dml_ops_counted, op)
        host_build.take_steps()
        carry_out(
            name, partial(packet.default, *arguments) if out is None else partial(packet.out, *arguments, out=out)
        )
        return host_build.take_steps()

    assert_no_faster_than_n_log_n(steps)


@pytest.mark.parametrize("place", ["cpu", "meta"])
@pytest.mark.parametrize("name", CALLS)
def test_steps_in_python(name: str, place: str) -> None:
    """Of the ordinary way: whatever is long takes it."""

    def steps(n: int) -> int:
        op, arguments, out = CALLS[name](n)
        if place == "meta":
            arguments, out = (on_tensors(without_data, value) for value in ([*arguments], out))
        call = partial(getattr(dml, op), *arguments, **({} if out is None else {"out": out}))
        with ordinary_way():
            return N + instructions(partial(carry_out, name, call))  # it may take the same few, whatever n is

    assert_no_faster_than_n_log_n(steps)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (lambda whole: whole[:, ::2], lambda whole: whole[:, 1::2]),
        (lambda whole: whole[:, : whole.shape[0]], lambda whole: whole[:, whole.shape[0] :]),
        (lambda whole: whole[:, : whole.shape[0]].t(), lambda whole: whole[:, whole.shape[0] :]),
    ],
    ids=["every other column", "halves", "halves, one transposed"],
)
def test_steps_do_not_grow_with_the_number_of_elements(
    source: Callable[[Tensor], Tensor], target: Callable[[Tensor], Tensor]
) -> None:
    host_build.counted_operators()

    def steps(n: int) -> int:
        whole = torch.empty(n, 2 * n)
        host_build.take_steps()
        torch.ops.torch_dml_ops_counted.slice1.out(source(whole), [0, 0], [n, n], [1, 1], out=target(whole))
        return host_build.take_steps()

    assert 0 < steps(1024) <= 2 * steps(16)


def test_what_would_take_too_many_steps_to_tell_is_refused() -> None:
    """Strides of which nothing but the trial of millions of sums tells anything: it ends after a million."""
    numbers = random.Random(0)
    strides = [numbers.randrange(10**5, 2 * 10**7) for _ in range(18)]
    out = torch.empty(sum(strides) + 1, dtype=torch.uint8).as_strided([2] * 18, strides)  # hardly a page is touched
    x = torch.empty((), dtype=torch.uint8).expand([2] * 18)
    sentence = r"^slice1: out must not overlap itself, and it is too complicated to tell with strides \["
    host_build.counted_operators()
    for ops in (torch.ops.torch_dml_ops, torch.ops.torch_dml_ops_counted):
        host_build.take_steps()
        with pytest.raises(RuntimeError, match=sentence):
            ops.slice1.out(x, [0] * 18, [2] * 18, [1] * 18, out=out)
    assert 10**6 < host_build.take_steps() < 10**8
