"""The short way for plain calls: all that can be seen of a call is as on the ordinary way, and nothing stays behind.

The short way is torch_dml_ops/_torch/short_way.py, over csrc/python/fast_calls.cpp. short_way_situations.py has the
situations. (The derivatives are tested on both ways too, by test_autograd.py.)
"""

import contextlib
import copy
import ctypes
import gc
import itertools
import os
import signal
import sys
import sysconfig
import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import oracle
import pytest
import refusals
import torch
from backends import DEVICE, WAYS, no_forks, ordinary_way
from contract_cases import maker, tensors_in
from host_build import cuda_on_host
from oracle import as_list
from private_names import assert_work
from processes import assert_returns
from short_way_situations import (
    ARGUMENTS,
    CPU_ONLY,
    ENTRIES,
    FORMS,
    KINDS,
    OF_ONE_DEVICE,
    OPERATORS,
    TABLES,
    WITHOUT_STRIDES,
    Form,
    Index,
    SeesDispatch,
    fresh,
    one,
    outcome,
    outs_for,
    requires_grad,
    run,
    seen,
    with_second,
)
from torch import Tensor
from torch.overrides import TorchFunctionMode
from transform_cases import Mine, same

import torch_dml_ops as dml
from torch_dml_ops.__main__ import report
from torch_dml_ops._operators.signature import signatures
from torch_dml_ops._torch import short_way

pytestmark = [
    pytest.mark.skipif(
        not short_way.is_set_up,
        reason="no Python headers, or a torch without names of the short way",
    ),
    pytest.mark.filterwarnings("ignore"),  # of torch's own, about kinds of tensors and ways to trace
]
every_op = pytest.mark.parametrize("op", OPERATORS)
SITUATIONS = [
    pytest.param(table, name, id=f"{table}: {name}")
    for table in TABLES
    for name in TABLES[table]
    if DEVICE == "cpu" or not name.startswith(CPU_ONLY)
]


@pytest.mark.parametrize(("table", "name"), SITUATIONS)
def test_every_situation_is_as_on_the_ordinary_way(table: str, name: str) -> None:
    situation = TABLES[table][name]
    forms = [form for form in situation.forms() if form.out or table != "out"]
    results, served = run(situation, forms)
    with ordinary_way():
        expected, none_served = run(situation, forms)
    assert results == expected
    assert not any(map(any, none_served.values()))
    for form in forms:
        short = situation.short_for(form)
        if short is True:
            assert served[str(form)], f"{form} did not ask for the short way"
            assert all(served[str(form)]), f"{form} is plain, and did not go the short way"
        if short is False:  # a mode may call what it was handed, and that call may be plain
            assert not any(served[str(form)][:1]), f"{form} is not plain, and went the short way"


@pytest.mark.parametrize(
    ("table", "name"),
    [
        (table, name)
        for table in ("derivatives", "modes")
        for name, situation in TABLES[table].items()
        if not (situation.at_once or name == "fx.symbolic_trace")  # where there are no sizes to make a window of
    ],
)
def test_an_index_is_in_every_situation_as_the_operator_on_the_ordinary_way(table: str, name: str) -> None:
    results, _ = run(TABLES[table][name], [Index("index")])
    with ordinary_way():
        expected, _ = run(TABLES[table][name], [Index("slice1")])
    assert results == expected


@pytest.mark.parametrize("index", [np.s_[::-1], np.s_[-1], np.s_[0], np.s_[-2, ::3], np.s_[..., -6], np.s_[None, 1:]])
def test_indices_go_the_short_way(index: Any) -> None:
    x = torch.arange(24).reshape(4, 6)
    assert short_way.fast.index(x, index).tolist() == x.cpu().numpy()[index].tolist()


def test_calls_are_counted_one_by_one() -> None:
    """The situations rely on it."""
    _, served = run(TABLES["tensors"]["plain"], FORMS)
    assert list(served.values()) == [[True]] * len(FORMS)


@every_op
def test_a_write_is_not_counted_below_the_version_counters(op: str) -> None:
    """As where a subclass has been counted already, and calls on with what is in it."""
    for form in FORMS:
        if form.op == op and form.out:
            out = form.outs(fresh())
            with torch._C._AutoDispatchBelowADInplaceOrView():
                form.into(out, *form.arguments(fresh()))
            assert [t._version for t in as_list(out)] == [0] * len(as_list(out))


def test_the_report_says_which_way_calls_go() -> None:
    assert report()["calls"].startswith("short way")


# Nothing stays behind.

CALLS = 8_000  # of each kind


def arguments_for(op: str, count: int) -> tuple[Any, ...]:
    """With so many tensors in the list that the operator takes or gives. Up to four go to the operator one by one."""
    x = torch.ones(6, 4, device=DEVICE)
    return {"join": ([x.clone() for _ in range(count)], 0), "split": (x.repeat(count, 1), [6] * count, 0)}.get(
        op, ARGUMENTS[op](x)
    )


def counts(op: str) -> Sequence[int]:
    return (1, 2, 5) if op in ("join", "split") else (1,)


def repeated(kind: str, form: Form, count: int) -> tuple[Callable[[], Any], list[Any]]:
    """A call to be repeated, and all that is given to it."""
    arguments = arguments_for(form.op, count)
    for t in as_list(arguments[0]):
        t.requires_grad_(kind in ("with gradients", "forward and backward"))
    function, watched = Form(form.op, form.entry, kind == "out").function(), [*arguments, *tensors_in(arguments)]
    if kind == "out":
        out = outs_for(form.op, arguments)
        return lambda: function(*arguments, out=out), [*watched, out, *tensors_in([out])]
    if kind == "refused":
        *others, last = arguments
        wrong = [*others, -3 if isinstance(last, int) else [0, *last[1:]]]

        def refused() -> None:
            with contextlib.suppress(RuntimeError):
                function(*wrong)
                raise AssertionError("it was not refused")

        return refused, [*watched, *wrong]
    if kind == "forward and backward":
        inputs = as_list(arguments[0])
        cotangents = [torch.ones_like(y) for y in as_list(function(*arguments))]
        return lambda: torch.autograd.grad(as_list(function(*arguments)), inputs, cotangents), [*watched, *cotangents]
    return lambda: function(*arguments), watched


def held(watched: list[Any]) -> list[int]:
    """How often they are held: by Python, and tensors by C++."""
    watched = [o for o in watched if isinstance(o, (list, tuple, Tensor))]  # everybody holds numbers
    return [sys.getrefcount(o) for o in watched] + [o._use_count() for o in watched if isinstance(o, Tensor)]


class Allocated(ctypes.Structure):
    """The GNU C library's struct mallinfo2."""

    _fields_ = [(f"field_{k}", ctypes.c_size_t) for k in range(10)]

    def bytes(self) -> int:
        return int(self.field_4 + self.field_7)  # hblkhd and uordblks: mapped, and in use on the heaps


def allocated() -> list[int]:
    """Tensors that Python has, its memory blocks, references to None, and the bytes that C and C++ have allocated."""
    mallinfo2 = ctypes.CDLL(None).mallinfo2
    mallinfo2.restype = Allocated
    gc.collect()
    allocations = mallinfo2()
    tensors = sum(issubclass(type(o), Tensor) for o in gc.get_objects())
    # From Python 3.12 on None is immortal: Python no longer counts references to it, extensions for older ones do.
    nones = sys.getrefcount(None) if sys.version_info < (3, 12) else 0
    return [tensors, sys.getallocatedblocks(), nones, allocations.bytes()]


def left_behind(calls: Sequence[Callable[[], Any]], times: int = 60, count_nones: bool = True) -> list[int]:
    """By so many of each of the calls, if that is more than a few: what `allocated` counts. What they raise goes."""
    gc.collect()
    gc.freeze()  # what is there already, or it is gone through each time that something is counted
    for _ in range(5):  # what is cached grows at first
        before = allocated()
        for call in calls:
            for _ in range(times):
                with contextlib.suppress(Exception):
                    call()
        grown = [after - b for after, b in zip(allocated(), before, strict=True)]
        tensors, blocks, nones, bytes_ = grown
        nones *= count_nones
        blocks *= not sysconfig.get_config_var("Py_GIL_DISABLED")  # where those that are freed go later, and in heaps
        # The smallest allocation takes 32 bytes.
        if tensors == 0 and blocks < times // 2 and abs(nones) < times // 2 and bytes_ < 24 * times:
            return []
    return grown


@pytest.fixture
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@every_op
@pytest.mark.parametrize("kind", ["plain", "with gradients", "forward and backward", "out", "refused"])
def test_calls_leave_nothing_behind(kind: str, op: str, one_thread: None) -> None:
    repeat = [repeated(kind, Form(op, entry), count) for entry in ENTRIES for count in counts(op)]
    calls = [call for call, _ in repeat]
    for call in calls:
        call()
    holders = [held(watched) for _, watched in repeat]
    times = CALLS // len(calls) // (10 if kind == "refused" else 1)  # the ordinary way says why, and takes its time
    assert left_behind(calls, times) == []
    assert [held(watched) for _, watched in repeat] == holders


@every_op
def test_results_are_held_by_their_owner_alone(op: str) -> None:
    for x in (fresh(), requires_grad()):
        before = x._use_count()
        results = as_list(Form(op)(x))
        assert [r._use_count() for r in results] == [1] * len(results)
        references = sys.getrefcount(results[0])
        assert references == 2  # of the list, and of the argument
        gone = [weakref.ref(r) for r in (*results, *(r.untyped_storage() for r in results))]
        del results
        assert not any(r() for r in gone)
        assert x._use_count() == before


@every_op
@pytest.mark.parametrize("name", ["to_capsule", "from_capsule", "increment_version", "is_excluded", "is_wrapped"])
def test_a_call_that_fails_half_way_leaves_nothing_behind(name: str, op: str, one_thread: None) -> None:
    """Torch's function fails when it is called for the nth time, as where memory is short."""
    until, calls = 0, []
    right = getattr(short_way.names_of_torch(), name)

    def fails(*arguments: Any) -> Any:
        nonlocal until
        until -= 1
        if until == 0:
            raise MemoryError
        return right(*arguments)

    def failing_at(n: int, call: Callable[[], Any]) -> None:
        nonlocal until
        until = n
        call()

    with set_up_with(**{name: fails}):
        kinds = ("plain", "out", "with gradients", "forward and backward")
        for kind, count, entry in itertools.product(kinds, counts(op), ENTRIES):
            until = 0
            call, _ = repeated(kind, Form(op, entry), count)
            for n in itertools.count(1):
                calls.append(partial(failing_at, n, call))
                with contextlib.suppress(MemoryError):
                    calls[-1]()
                if until > 0:  # it is not called as often
                    break
        # (Where torch records a call in the ordinary way, it leaves a reference to what setup_context returns behind.)
        assert left_behind(calls, times=200, count_nones=False) == []


WRONG: dict[str, Callable[[Tensor], Any]] = {
    **{kind: convert for kind, convert in WITHOUT_STRIDES.items() if DEVICE == "cpu" or kind != "mkldnn"},
    **{kind: KINDS[kind] for kind in ("meta", "another dtype", "another shape", "functional")},
    "conjugate": lambda x: x.to(torch.complex64).conj(),
    "requires grad": lambda x: x.clone().requires_grad_(),
}


def one_wrong(op: str, count: int, into: bool, change: Callable[[Any], Any]) -> Iterator[list[Any]]:
    """The arguments of the function in C, `out` last, with each of the tensors changed in turn."""
    for k in itertools.count():
        arguments = [*arguments_for(op, count), *[None] * (op == "slice1"), None]
        if into:
            arguments[-1] = outs_for(op, arguments[:-1])
        tensors = tensors_in(arguments)
        if k == len(tensors):
            return
        with contextlib.suppress(RuntimeError):  # numbers have no derivatives, and mkldnn does not have them
            tensors[k] = change(tensors[k])
        rest = iter(tensors)
        yield [oracle.on_tensors(lambda _: next(rest), argument) for argument in arguments]  # noqa: B023


@every_op
@pytest.mark.parametrize("kind", WRONG)
def test_a_call_that_is_refused_leaves_nothing_behind(kind: str, op: str, one_thread: None) -> None:
    """Nor does one that goes the ordinary way in the end."""
    in_c, calls, watched = [], [], []
    for into, count in itertools.product((False, True), counts(op)):
        for arguments in one_wrong(op, count, into, WRONG[kind]):
            watched += [t for t in tensors_in(arguments) if not t.requires_grad]
            in_c.append(partial(getattr(short_way.fast, op), *arguments))
            given, out = arguments[: -2 if op == "slice1" else -1], {"out": arguments[-1]} if into else {}
            calls += [partial(Form(op, entry, into).function(), *given, **out) for entry in ENTRIES]
    before = [t._use_count() for t in watched]
    assert left_behind(in_c, 20) == []
    for call in calls:
        with contextlib.suppress(Exception):
            call()
    assert [t._use_count() for t in watched] == before


# What is refused.


def state(arguments: Any) -> list[Any]:
    """What a call that is refused must leave as it is, and how often a tensor is held."""
    tensors = [t.detach() for t in tensors_in(arguments)]
    held = [t._use_count() for t in tensors_in(arguments)]
    return [held, *((oracle.storage_bytes(t).tobytes(), t.shape, t._version) for t in tensors)]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("entry", ENTRIES)
def test_refusals(entry: str, gradients: bool, way: str) -> None:
    """Each has its sentence and leaves no trace. With `out`, grad mode is off."""
    t, wrong = maker(DEVICE), []
    tables = refusals.ARGUMENTS, refusals.WITH_OUT, refusals.TOO_LARGE, refusals.OUT
    for refusal in refusals.rows(*tables):
        arguments, out = refusal.arguments(t), refusal.out(t)
        for first in as_list(arguments[0]):
            if first.is_floating_point():
                first.requires_grad_(gradients)
        call = Form(refusal.op, entry, out is not None).function()
        before = state([*arguments, out])
        with WAYS[way](), torch.set_grad_enabled(gradients and out is None):
            result = outcome(lambda: call(*arguments) if out is None else call(*arguments, out=out))  # noqa: B023
        if result != f"raised RuntimeError: {refusal}":
            wrong.append(f"{refusal}, {result}")
        elif state([*arguments, out]) != before:
            wrong.append(f"{refusal} left a trace")
    assert wrong == []


@pytest.mark.parametrize("count", [1, 2, 4, 5, 64, 65, 1024])
def test_splits_and_joins_of_so_many_pieces_go_the_short_way(count: int) -> None:
    x = torch.arange(2 * count)
    out = [torch.empty(2, dtype=x.dtype) for _ in range(count)]
    fresh_pieces = short_way.fast.split(x, [2] * count, 0, None)
    assert short_way.fast.split(x, [2] * count, 0, out) is out
    for pieces in (fresh_pieces, out):
        assert all(map(torch.equal, pieces, x.split(2)))
    whole = torch.empty_like(x)
    assert short_way.fast.join(out, 0, whole) is whole
    for joined in (short_way.fast.join(out, 0, None), whole):
        assert torch.equal(joined, x)
    overloads = {f"torch_dml_ops::{op}.fast_{count}" for op in ("split", "join")}
    every = {*torch._C._dispatch_get_all_op_names()}
    assert overloads & every == (overloads if 2 <= count <= 4 else set())


@every_op
def test_the_overloads_of_the_short_way_are_for_the_package_alone(op: str) -> None:
    packet = getattr(torch.ops.torch_dml_ops, op)
    tensors = ARGUMENTS[op](fresh())[: 2 if op == "reverse_subsequences" else 1]
    for function in (packet, packet.fast):
        outcome(
            with_second(lambda x: x.to("meta")), Form("reverse_subsequences")
        )  # does not get as far as the overload's kernel
        with pytest.raises(RuntimeError, match=r"^torch_dml_ops: this overload is for the package alone; call the "):
            function(*tensors)


# Nothing is printed: torch writes to stderr what a kernel throws below the functions in C.


def test_calls_within_a_mode_for_dispatch_print_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    """Such a mode is at work when a compiled function is called for the first time."""
    for form in FORMS:
        with SeesDispatch():
            form(fresh())
        assert capfd.readouterr().err == "", form


@contextlib.contextmanager
def set_up_with(**names: Any) -> Iterator[None]:
    """The functions in C, with other things in the place of torch's."""
    short_way.fast_calls.set_up(SimpleNamespace(**{**vars(short_way.names_of_torch()), **names}))
    try:
        yield
    finally:
        short_way.fast_calls.set_up(short_way.names_of_torch())


@pytest.mark.skipif(DEVICE != "cpu", reason="both libraries have to have kernels for the CPU")
def test_kernels_of_each_library_find_the_numbers_of_a_call(capfd: pytest.CaptureFixture[str]) -> None:
    """As where a CUDA tensor's call gets to a refusal of the CPU's library. Here, the two have changed places."""
    cpu_library = short_way.names_of_torch().cpu_library
    with set_up_with(cpu_library=cuda_on_host()._name, cuda_library=cpu_library):
        for form in FORMS:
            form(fresh().cpu())
            assert capfd.readouterr().err == "", form


# Whatever Python hands to the functions in C.

WRONG_VALUES: tuple[Any, ...] = (
    *(None, 5, -1, 2**70, 0.5, "a", object(), Tensor, len, ..., slice(None)),
    *((), [], (None,), [None], ((),), [[0]], ("a", 0), (1,) * 65, (1,) * 1025, torch.Size([1, 1]), set(), {}),
    *(torch.ones(2), [torch.ones(2)], (torch.ones(2),) * 9, [torch.ones(2), None], torch.ones(1).as_subclass(Mine)),
)


def wrong(right: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """Arguments of another number, and those with one that is another thing."""
    for value in WRONG_VALUES:
        yield from ((value,) * count for count in range(8))
        yield from ((*right[:k], value, *right[k + 1 :]) for k in range(len(right)))
    yield from (tuple(right[:k]) for k in range(len(right)))
    yield (*right, None)


def hand_over_what_is_wrong(op: str) -> Iterator[Callable[[], Any]]:
    """Calls that hand it to the functions of an operator, and to the nodes that autograd has of it."""
    leaf = torch.ones(2, 3, requires_grad=True)
    first, *others = ARGUMENTS[op](leaf)
    signature, inputs = signatures[op], as_list(first)
    given = (first, *others, *[None] * (op == "slice1"), None)
    for arguments in wrong(given):
        yield partial(getattr(short_way.fast, op), *arguments)
    node = as_list(getattr(dml, op)(first, *others))[0].grad_fn
    assert node is not None
    numbers, constants = signature.numbers(given[:-1]), [t for _, t in signature.named_tensors(given)[len(inputs) :]]
    recorded = (numbers, *inputs, *constants)
    for arguments in (*wrong(recorded), *((n, *recorded[1:]) for n in wrong(numbers))):
        yield partial(short_way.recorded[op], *arguments)
        yield partial(node._forward_cls.forward, node, *arguments)
        yield partial(node._forward_cls.apply, *arguments)


def hand_over_what_is_wrong_elsewhere(_: str) -> Iterator[Callable[[], Any]]:
    for arguments in wrong([torch.ones(2, 3), (slice(None), 1)]):
        yield partial(short_way.fast.index, *arguments)
    for arguments in wrong([(2, 3), (slice(None), slice(1))]):
        yield partial(short_way.fast.window, *arguments)
    functions_of, others = short_way.fast_calls.functions_of, (False, print, len, len, len)
    schema = (("input", "T"), ("numbers", "N"), ("number", "n"))
    for arguments in wrong(["torch_dml_ops::other", schema, *others]):
        yield partial(functions_of, *arguments)
    for kinds in (*wrong(schema), *((("input", kind),) for kind in ("TT", "T", "n", "N", "?", "", "TTT", "x"))):
        yield lambda kinds=kinds: [f(torch.ones(1)) for f in functions_of("other", kinds, *others)]
        yield lambda kinds=kinds: functions_of("other", kinds, *others)[0](torch.ones(1), *[[1]] * len(kinds))
    torch_ = vars(short_way.names_of_torch())
    calls = [
        partial(getattr(dml, op), *ARGUMENTS[op](torch.ones(2, 3, requires_grad=g)))
        for op in OPERATORS
        for g in (True, False)
    ]
    for arguments in wrong([SimpleNamespace()]):
        yield partial(short_way.fast_calls.set_up, *arguments)
    for name in torch_:
        for value in WRONG_VALUES:
            yield partial(short_way.fast_calls.set_up, SimpleNamespace(**{**torch_, name: value}))
            yield from calls
    yield partial(short_way.fast_calls.set_up, SimpleNamespace(**torch_))


@no_forks
@pytest.mark.parametrize("op", [*OPERATORS, "all"])
def test_whatever_python_hands_to_the_functions_in_c_they_raise_at_most(op: str) -> None:
    """None of it is anything that the package does. It happens in another process, which may end by a signal."""
    calls = (hand_over_what_is_wrong_elsewhere if op == "all" else hand_over_what_is_wrong)(op)
    child = os.fork()
    if child == 0:
        status, made = 1, 0
        try:
            for call in calls:
                made += 1
                try:
                    call()
                except SystemError:  # raised by Python itself, for a function that broke a rule of C
                    raise
                except Exception:
                    continue
            status = 0 if made > 500 else 2
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("count", [0, 9])
def test_operators_have_from_1_to_7_arguments(count: int) -> None:
    names = tuple((f"name{k}", "N") for k in range(count))
    with pytest.raises(ValueError, match=r"^other must have from 1 to \d arguments$"):
        short_way.fast_calls.functions_of("other", names, False, print, len, len, len)


# torch.ops.


def torchs_own(op: str, form: str) -> Callable[..., Any]:
    """What a packet or an overload calls where nothing else has taken the place."""
    packets: Callable[..., Any] = torch._C._jit_get_operation(f"torch_dml_ops::{op}")[0]
    return {"packet": packets, "default": signatures[op].ordinary, "out": signatures[op].ordinary_out}[form]


def ways_to_call(op: str, into: bool) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """Arguments by position and by name: as the schema takes them, and with one thing that may be wrong."""
    packet = getattr(torch.ops.torch_dml_ops, op)
    names = [a.name for a in (packet.out if into else packet.default)._schema.arguments]
    x = torch.arange(24.0, device=DEVICE).reshape(6, 4)
    right = dict(zip(names, ARGUMENTS[op](x), strict=False))
    for optional in ({}, *({name: None} for name in names if name not in right and name != "out")):
        arguments = {**right, **optional}
        for count in range(len(arguments) + 1):
            positional = list(arguments.values())[:count]
            named = dict(list(arguments.items())[count:])
            if into:
                named["out"] = Form(op).outs(x)
            yield positional, named
            yield positional, dict(reversed(named.items()))
            yield [*positional, *named.values()], {}  # too many, with `out`
            yield [*positional, None], named
            yield positional[::-1], named
            for value in (1, None):
                yield positional, {**named, "bogus": value}
                yield positional, {**named, "out": value}
            for name, value in arguments.items():
                yield positional, {**named, name: value}  # repeated, if it is there by position
                yield positional, {k: v for k, v in named.items() if k != name}
                yield positional, {**named, name: None}
                yield positional, {("bogus" if k == name else k): v for k, v in named.items()}


@every_op
@pytest.mark.parametrize("form", ["packet", "default", "out"])
def test_arguments_are_taken_and_refused_as_torch_does(op: str, form: str) -> None:
    packet = getattr(torch.ops.torch_dml_ops, op)
    called = packet if form == "packet" else getattr(packet, form)
    different = []
    for into in (False, True):
        for (positional, named), again in zip(ways_to_call(op, into), ways_to_call(op, into), strict=True):
            got = outcome(called._op, *positional, **named), seen(named.get("out"))
            expected = outcome(torchs_own(op, form), *again[0], **again[1]), seen(again[1].get("out"))
            if got != expected:
                different.append((len(positional), list(named), got, expected))
    assert different == []


def dispatch_keys() -> Iterator[str]:
    """Those at which kernels can be registered."""
    for key in torch._C.DispatchKey.__members__:
        with contextlib.suppress(RuntimeError):
            torch._C._dispatch_key_parse(key)
            yield key


def register_at_every_key(op: str, into: bool) -> None:
    calls, missed, met = [], [], set()
    ones = torch.ones(1, device=DEVICE)
    packet = getattr(torch.ops.torch_dml_ops, op)
    called = packet.out if into else packet.default

    def kernel(*arguments: Any, **named: Any) -> Any:
        calls.append(1)
        return None if into else [ones, ones] if op == "split" else ones

    def calls_it(call: Callable[..., Any], kind: str) -> bool:
        x = OF_ONE_DEVICE[kind]()
        calls.clear()
        with contextlib.suppress(Exception):
            call(*ARGUMENTS[op](x), **({"out": Form(op).outs(x)} if into else {}))
        return bool(calls)

    for key in dispatch_keys():
        with torch.library._scoped_library("torch_dml_ops", "IMPL") as library, torch.autocast(DEVICE):
            try:
                library.impl(f"{op}.out" if into else op, kernel, key)
            except RuntimeError:  # torch 2.11 lets nobody replace a kernel that was registered from Python
                continue
            for kind in OF_ONE_DEVICE:
                if calls_it(torchs_own(op, "out" if into else "default"), kind):
                    met.add(key)
                    missed += [(key, kind, f) for f in (packet, called, getattr(dml, op)) if not calls_it(f, kind)]
        Form(op)(fresh())  # the number of kernels changes twice between calls
    assert missed == []
    assert {DEVICE.upper(), "BackendSelect", f"Autocast{DEVICE.upper()}"} <= met


@no_forks
@every_op
@pytest.mark.parametrize("into", [False, True], ids=["new result", "out"])
def test_a_kernel_of_somebody_else_is_called_wherever_torch_calls_it(op: str, into: bool) -> None:
    """In a process of its own: torch keeps what such a kernel gave for tensors without data."""
    assert_returns(register_at_every_key, op, into)


@every_op
def test_what_torch_ops_has_is_a_packet_in_every_respect(op: str) -> None:
    packet = getattr(torch.ops.torch_dml_ops, op)
    assert isinstance(packet, torch._ops.OpOverloadPacket)
    assert getattr(torch.ops.torch_dml_ops, op) is packet
    assert copy.deepcopy(packet) is packet
    assert str(packet) == f"torch_dml_ops.{op}"
    assert packet.__name__ == op
    assert packet.overloads() == ["default", "out"]
    assert packet.default.overloadpacket is packet
    assert packet.out.overloadpacket is packet
    assert torch.overrides.resolve_name(packet) == f"torch_dml_ops.{op}"
    assert op in dir(torch.ops.torch_dml_ops)


def scripted(x: Tensor) -> Tensor:
    return torch.ops.torch_dml_ops.join(torch.ops.torch_dml_ops.split(x, [1, 1], 1), 0)


def test_jit_script() -> None:
    x = torch.arange(6.0).reshape(3, 2)
    same(torch.jit.script(scripted)(x), scripted(x))


# Interruptions, recursion.


class Changes(TorchFunctionMode):
    """Python code that runs within a call, and changes the lists that the call was given."""

    def __init__(self, change: Callable[[list[Any]], object], lists: list[list[Any]]) -> None:
        super().__init__()
        self.change, self.lists = change, lists

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for changed in self.lists:
            self.change(changed)
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    "change", [list.clear, list.reverse, lambda x: x.extend(x[:1]), lambda x: x.__setitem__(0, None)]
)
@pytest.mark.parametrize("form", [form for form in FORMS if form.entry == "dml"], ids=str)
def test_lists_that_change_during_a_call(form: Form, change: Callable[[list[Any]], object]) -> None:
    """It goes on with what they held at first, and so do its derivatives."""
    for gradients in {False, not form.out}:
        x = fresh()[:, :, 0, 0].clone().requires_grad_(gradients)
        expected, arguments, out = form(x), list(form.arguments(x)), form.outs(x)
        kept = list(as_list(out))
        lists = [a for a in (*arguments, out) if isinstance(a, list)]
        with set_up_with(harmless_modes={Changes}), Changes(change, lists):
            result = form.into(out, *arguments) if form.out else form.function()(*arguments)
        same(kept if form.out else as_list(result), as_list(expected))
        if gradients:
            same(*(torch.autograd.grad((one(r) ** 2).sum(), x) for r in (result, expected)))


class Interruption(BaseException):
    pass


@pytest.fixture
def interrupted() -> Iterator[None]:
    def interrupt(*_: Any) -> None:
        raise Interruption

    before = signal.signal(signal.SIGALRM, interrupt)
    gc.disable()  # which calls functions of hypothesis, and Python drops what is raised in those
    yield
    gc.enable()
    signal.signal(signal.SIGALRM, before)


def call_until(seconds: float, call: Callable[[], Any]) -> None:
    def often() -> None:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        for _ in range(100_000):
            call()

    with pytest.raises(Interruption):
        often()


def test_no_interruption_is_lost_within_a_mode_that_passes(interrupted: None) -> None:
    x, out = torch.ones(8), torch.ones(8)
    window = [0], [8], [-1]
    with dml.negative_steps():
        for _ in range(500):
            call_until(0.0002, lambda: dml.index(x)[::-1])
            call_until(0.0002, lambda: dml.slice1(x, *window))
            call_until(0.0002, lambda: dml.slice1(x, *window, out=out))


@pytest.mark.parametrize("gradients", [False, True])
def test_interruptions_at_any_moment(interrupted: None, gradients: bool) -> None:
    """By a signal whose handler raises, as that of Ctrl-C does: the calls after it are as ever, and nothing is held."""
    kept: list[tuple[Tensor, int]] = []
    for form in [form for form in FORMS if not (form.out and gradients)]:
        x = fresh()[0, 0].clone().requires_grad_(gradients)
        expected = [t.detach() for t in as_list(form(x))]
        uses = x._use_count()
        for k in range(5):
            call_until(0.00003 * (k + 1), partial(form, x))
        same([t.detach() for t in as_list(form(x))], expected)
        kept.append((x, uses))
    gc.collect()
    assert all(x._use_count() == uses for x, uses in kept)


# Imports at odd moments.

MOMENTS = (
    "load()",
    *("within(FakeTensorMode)", "within(forward_ad.dual_level)", "within(torch.inference_mode)"),
    *("within(torch.no_grad)", "within(lambda: torch.device('meta'))", "within(torch._C._AutoDispatchBelowAutograd)"),
    *("called_by(torch.func.vmap)", "called_by(lambda f: torch.func.grad(lambda x: f(x).sum()))"),
    *("called_by(lambda f: lambda x: torch.func.jvp(f, (x,), (x,)))", "called_by(torch.func.functionalize)"),
    *("called_by(make_fx)", "called_by(lambda f: make_fx(f, pre_dispatch=True))"),
    "called_by(lambda f: lambda x: torch.jit.trace(f, (x,), check_trace=False))",
)
IMPORT = """
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

def load():
    import torch_dml_ops

def within(context):
    with context():
        load()

def called_by(transform):
    transform(lambda x: (load(), x * 1)[1])(torch.ones(3))

def work(moment):
    eval(moment)
    import torch_dml_ops as dml
    from torch_dml_ops._torch import short_way
    x = torch.arange(6.0)
    window = [0], [6], [-2]
    assert short_way.is_set_up and short_way.fast.slice1(x, *window, None, None).tolist() == [5, 3, 1]
    leaf = x.clone().requires_grad_()
    dml.slice1(leaf, *window).sum().backward()
    assert leaf.grad.tolist() == [0, 1, 0, 1, 0, 1]
    assert torch.func.jvp(lambda x: dml.slice1(x, *window), (x,), (x,))[1].tolist() == [5, 3, 1]
    assert dml.slice1(x, *window)._use_count() == 1
"""


@pytest.mark.thorough
def test_the_package_may_be_imported_at_any_moment() -> None:
    assert_work(moments=(IMPORT, MOMENTS))
