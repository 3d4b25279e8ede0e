"""Threads that make calls at once, in every form, and threads that change meanwhile what a call was given.

On a free-threaded Python nothing but the package's own care holds them together; `make test-matrix` runs these there.
"""

import contextlib
import random
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from backends import DEVICE
from oracle import as_list
from short_way_situations import FORMS, Form, fresh, one
from torch import Tensor
from transform_cases import same

import torch_dml_ops as dml

THREADS, TIMES = 8, 100
REFUSED = (RuntimeError, TypeError, ValueError, IndexError)


@pytest.fixture(autouse=True)
def often() -> Iterator[None]:
    """Threads take turns a hundred times as often, where they have to."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(before / 100)
    yield
    sys.setswitchinterval(before)


def gradient(call: Callable[[Tensor], Any]) -> Callable[[Tensor], Tensor]:
    def first(x: Tensor) -> Tensor:
        leaf = x.detach().clone().requires_grad_()
        return torch.autograd.grad((one(call(leaf)) ** 2).sum(), leaf)[0]

    return first


def assigned(x: Tensor) -> Tensor:
    y = x.clone()
    dml.index(y)[::-2, ..., 1:] = 7
    return y


def in_a_mode(x: Tensor) -> Tensor:
    with dml.negative_steps():
        return x[::-1, ..., ::-2]


CALLS: dict[str, Callable[[Tensor], Any]] = {
    **{str(form): form for form in FORMS},
    **{f"{form}, gradient": gradient(form) for form in FORMS if not form.out},
    "index": lambda x: dml.index(x)[::-1, None, 1, ..., -1:],
    "index, gradient": gradient(lambda x: dml.index(x)[::-1, None, 1]),
    "index, assigned": assigned,
    "negative_steps": in_a_mode,
}


def together(*functions: Callable[[], None]) -> None:
    begin = threading.Barrier(len(functions))

    def started(function: Callable[[], None]) -> None:
        begin.wait()
        function()

    with ThreadPoolExecutor(len(functions)) as pool:
        list(pool.map(started, functions))


def test_every_call_from_eight_threads() -> None:
    """Each of sizes of its own, so that one that got another's numbers or tensors would show."""
    made = [0] * THREADS

    def run(k: int) -> None:
        x = torch.cat([fresh()] * (k + 1))[k // 2 :, :, k % 2 :] + k
        want = {name: call(x) for name, call in CALLS.items()}
        for _ in range(20):
            for name in random.Random(k).sample(list(CALLS), len(CALLS)):
                same(CALLS[name](x), want[name])
                made[k] += 1

    together(*(lambda k=k: run(k) for k in range(THREADS)))
    assert made == [20 * len(CALLS)] * THREADS


def while_changed(call: Callable[[], Any], change: Callable[[int], None], times: int) -> list[Any]:
    """The results of a call while another thread goes through changes, without those that were refused."""
    ended = threading.Event()
    results: list[Any] = []

    def changes() -> None:
        k = 0
        while not ended.is_set():
            change(k)
            k += 1

    def calls() -> None:
        try:
            for _ in range(times):
                with contextlib.suppress(*REFUSED):
                    results.append(call())
        finally:
            ended.set()

    together(changes, calls)
    return results


@pytest.mark.parametrize(
    ("form", "gradients"), [(form, gradients) for form in FORMS for gradients in {False, not form.out}], ids=str
)
def test_lists_that_another_thread_changes(form: Form, gradients: bool) -> None:
    """A call sees each of them as it is at one moment, or refuses it."""
    x = fresh().requires_grad_(gradients)
    right = [list(a) if isinstance(a, (list, tuple)) else a for a in form.arguments(x)]
    want = form.function()(*right) if not form.out else form.into(form.outs(x), *right)
    for place, argument in enumerate(right):
        if not isinstance(argument, list):
            continue
        given = list(right)
        given[place] = changing = list(argument)
        others: list[list[Any]] = [[], [None], ["a"], argument * 40, [2**70] * len(argument), argument[:-1]]

        def change(k: int, changing: list[Any] = changing, right: list[Any] = argument) -> None:
            changing[:] = right if k % 3 == 0 else others[k % len(others)]  # noqa: B023

        def call(given: list[Any] = given) -> Any:
            return form.into(form.outs(x), *given) if form.out else form.function()(*given)

        for result in while_changed(call, change, TIMES):
            if [r.shape for r in as_list(result)] == [r.shape for r in as_list(want)]:
                same(result, want)
    same(form(x), want)


def numbers_come_and_go(k: int) -> None:
    """A list grows and shrinks, and has numbers that nobody else holds."""
    NUMBERS[1] = 2**40 + k
    NUMBERS[1] = 0
    if k % 3 == 0:
        NUMBERS.extend([2**41 + k] * 100)
        del NUMBERS[2:]


def kernels_come_and_go(k: int) -> None:
    """Of somebody else, at which the short way is not gone."""
    with torch.library._scoped_library("torch_dml_ops", "IMPL") as library:
        library.impl("slice1", lambda x, *_: x, f"Autocast{'CUDA' if DEVICE == 'cpu' else 'CPU'}")


NUMBERS = [0, 0]


@pytest.mark.parametrize(("change", "times"), [(numbers_come_and_go, 50), (kernels_come_and_go, 10)])
def test_what_a_call_reads_at_every_moment(change: Callable[[int], None], times: int) -> None:
    x = fresh()[0, 0]
    for result in while_changed(lambda: dml.slice1(x, NUMBERS, [4, 5], [1, 1]), change, times * TIMES):
        same(result, x)


@pytest.mark.parametrize("form", [form for form in FORMS if form.entry == "packet"], ids=str)
def test_dictionaries_that_another_thread_changes(form: Form) -> None:
    packet = getattr(torch.ops.torch_dml_ops, form.op)
    overload = packet.out if form.out else packet.default
    x = fresh()
    names = [argument.name for argument in overload._schema.arguments]
    right = dict(zip(names, form.arguments(x), strict=False)) | ({"out": form.outs(x)} if form.out else {})
    given, want = dict(right), one(form(x))

    def change(k: int) -> None:
        name = names[k % len(names)]
        given.pop(name, None)
        given[f"unknown{k % 2}"] = 2**40 + k
        given[name] = right.get(name)
        given.pop(f"unknown{k % 2}")

    for function in (packet, overload):
        for result in while_changed(lambda: function(**given), change, TIMES):  # noqa: B023
            same(one(right["out"] if form.out else result), want)


@pytest.mark.parametrize("form", [form for form in FORMS if not form.out], ids=str)
def test_tensors_that_another_thread_changes(form: Form) -> None:
    """Their items, and whether they require grad."""
    x = fresh()
    shapes = [r.shape for r in as_list(form(x))]

    def change(k: int) -> None:
        x.requires_grad_(k % 2 == 0)
        with torch.no_grad():
            x.fill_(k % 100)

    results = while_changed(lambda: form(x), change, TIMES)
    assert len(results) == TIMES
    assert all([r.shape for r in as_list(result)] == shapes for result in results)
