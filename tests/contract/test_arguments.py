"""What callers give: numbers of every kind in sequences of every kind, and what is no number, list or tensor at all.

Numbers are copied when they are given; what is no whole number is refused; and every refusal is one sentence, with
gradients, under torch.func, in forward mode and under torch.compile too.
"""

import array
import collections
import contextlib
import decimal
import fractions
import inspect
import re
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
import torch.autograd.forward_ad as forward_ad
from backends import DEVICE
from contract_cases import CALLS_BY_NAME, HELPERS, Call
from processes import started
from short_way_situations import one
from torch import Tensor
from torch.func import grad, vmap
from torch.fx.experimental.proxy_tensor import make_fx
from transform_cases import WHOLE, PassingMode, graphs, same

import torch_dml_ops as dml

pytestmark = [pytest.mark.usefixtures("fresh_compiler"), pytest.mark.filterwarnings("ignore:.*is deprecated:")]


every_call = pytest.mark.parametrize("call", CALLS_BY_NAME, ids=str)


def matrix() -> Tensor:
    return torch.arange(24.0, device=DEVICE).reshape(4, 6)


def number_lists(call: Call) -> dict[str, list[int]]:
    given = call.arguments(matrix())
    return {name: value for name, value in given.items() if isinstance(value, list) and type(value[0]) is int}


def public_functions() -> Iterator[tuple[str, Any]]:
    return ((name, getattr(dml, name)) for name in dml.__all__ if not inspect.isclass(getattr(dml, name)))


# Numbers are copied.


def unchanged(sequence: Any) -> None:
    """What is no list, to a caller."""


# How to make a sequence of numbers, and how a caller changes it afterwards.
SEQUENCES: dict[str, tuple[Callable[[list[int]], Any], Callable[[Any], None]]] = {
    "list": (list, lambda s: s.__setitem__(0, 1 - s[0])),
    "ndarray": (np.array, lambda s: s.__setitem__(0, 1 - s[0])),
    "ndarray of int32": (lambda n: np.array(n, np.int32), lambda s: s.fill(7)),
    "view of an ndarray": (lambda n: np.repeat(np.array(n), 2)[::2], lambda s: s.fill(7)),
    "tensor": (torch.tensor, lambda s: s.add_(1)),
    "array.array": (lambda n: array.array("q", n), lambda s: s.__setitem__(0, 1 - s[0])),
    "deque": (collections.deque, lambda s: s.rotate(1)),
    "UserList": (collections.UserList, lambda s: s.append(3)),
    "tuple": (tuple, unchanged),
    "torch.Size": (lambda n: torch.Size(n) if min(n) >= 0 else tuple(n), unchanged),
    "memoryview": (lambda n: memoryview(np.array(n)), unchanged),
}


@pytest.mark.parametrize("kind", SEQUENCES)
@every_call
def test_sequences_of_every_kind_and_their_change_after_the_call(call: Call, kind: str) -> None:
    make, change = SEQUENCES[kind]
    expected_leaf, leaf = matrix().requires_grad_(), matrix().requires_grad_()
    expected = one(call(expected_leaf))
    given = {name: make(numbers) for name, numbers in number_lists(call).items()}
    result = one(call(leaf, **given))
    for sequence in given.values():
        change(sequence)
    same(result, expected)
    for y in (result, expected):
        y.sin().sum().backward()
    same(leaf.grad, expected_leaf.grad)
    assert one(expected_leaf.grad).any()


# What is a whole number, and what is not.

NOT_WHOLE: dict[str, tuple[Callable[[int], Any], str]] = {
    "float": (lambda n: n + 0.9, "{n}.9"),
    "float of a whole number": (float, "{n}.0"),
    **{
        kind.__name__: (lambda n, kind=kind: kind(n + 0.5), "{n}.5")
        for kind in (np.float16, np.float32, np.float64, np.longdouble, np.array, torch.tensor)
    },
    "complex": (lambda n: complex(n), "({n}+0j)"),
    "boolean": (lambda n: True, "True"),
    "NumPy boolean": (lambda n: np.True_, "True"),
    "boolean tensor": (lambda n: torch.tensor(True), "True"),
    "complex64": (lambda n: np.complex64(n), "({n}+0j)"),
    "Decimal": (lambda n: decimal.Decimal(f"{n}.9"), "{n}.9"),
    "Fraction": (lambda n: fractions.Fraction(2 * n + 1, 2), "{m}/2"),
    "str": (str, "'{n}'"),
    "None": (lambda n: None, "None"),
    "list": (lambda n: [n], "[{n}]"),
    "list with a boolean": (lambda n: [n, True], "[{n}, True]"),
    "object": (lambda n: object(), "object"),
    "array of one": (lambda n: np.array([n]), "an array of sizes [1]"),
}


@dataclass(frozen=True)
class Place:
    """Where a function takes a whole number."""

    name: str  # as in errors
    number: int  # that is right there
    call: Callable[[Any, Tensor], Any]  # with a number there, of a 4 by 6 tensor


def places_of(call: Call) -> Iterator[Place]:
    for name, value in call.arguments(matrix()).items():
        if name == "axis":
            yield Place(f"{call}: axis", value, lambda n, x: call(x, axis=n))
        for k, number in enumerate(value if name in number_lists(call) else ()):
            parts = name, value[:k], value[k + 1 :]
            yield Place(
                f"{call}: {name}[{k}]",
                number,
                lambda n, x, parts=parts: call(x, **{parts[0]: [*parts[1], n, *parts[2]]}),
            )


def lengths(x: Tensor) -> Tensor:
    return torch.tensor([2, 0, 6, 5], device=x.device)


SLICED: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "index": lambda index, x: dml.index(x)[index],
    "negative_steps": dml.negative_steps(lambda index, x: x[index]),
    "window": lambda index, x: dml.slice1(x, *dml.window(x.shape, index)),
}
PARTS: dict[str, tuple[int, Callable[[Any], slice]]] = {  # of a slice, and a right number there
    "start": (2, lambda n: slice(n, None, -1)),
    "stop": (1, lambda n: slice(None, n, -1)),
    "step": (-2, lambda n: slice(None, None, n)),
}
PLACES = (
    *(place for call in CALLS_BY_NAME for place in places_of(call)),
    Place("reverse_sequence: axis", 1, lambda n, x: dml.reverse_sequence(x, lengths(x), n)),
    Place("reverse_sequence: batch_axis", 0, lambda n, x: dml.reverse_sequence(x, lengths(x), 1, n)),
    Place("sequence_lengths_like: axis", 1, lambda n, x: x * dml.sequence_lengths_like(x, lengths(x), n)),
    Place("sequence_lengths_like: batch_axis", 0, lambda n, x: x * dml.sequence_lengths_like(x, lengths(x), 1, n)),
    Place("window: shape[1]", 6, lambda n, x: dml.slice1(x, *dml.window((4, n), slice(None, None, -1)))),
    Place("index: index[0]", 2, lambda n, x: dml.index(x)[n]),
    Place("index: index[1]", -3, lambda n, x: dml.index(x)[::-1, n]),
    Place("negative_steps: index[1]", -3, lambda n, x: SLICED["negative_steps"]((slice(None, None, -1), n), x)),
    *(
        Place(
            f"{function}: the {part} of the slice of dimension 0",
            number,
            lambda n, x, take=take, sliced=sliced: take(sliced(n), x),
        )
        for function, take in SLICED.items()
        for part, (number, sliced) in PARTS.items()
    ),
)


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        pytest.param(place, kind, id=f"{place.name}, {kind}")
        for place in PLACES
        for kind in WHOLE
        if place.number >= 0 or "uint" not in kind
    ],
)
def test_whole_numbers_of_every_kind(place: Place, kind: str) -> None:
    for situation in SITUATIONS.values():
        actual, expected = (
            situation(partial(place.call, number), matrix()) for number in (WHOLE[kind](place.number), place.number)
        )
        same(one(actual), one(expected))


@pytest.mark.parametrize("kind", ["0-d array", "tensor"])
@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.name)
def test_a_number_that_is_changed_after_the_call_changes_no_gradient(place: Place, kind: str) -> None:
    leaf, expected_leaf, number = matrix().requires_grad_(), matrix().requires_grad_(), WHOLE[kind](place.number)
    result = one(place.call(number, leaf))
    number += 1
    result.sin().sum().backward()
    one(place.call(place.number, expected_leaf)).sin().sum().backward()
    same(leaf.grad, expected_leaf.grad)


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize(
    ("place", "kind"),
    [
        pytest.param(place, kind, id=f"{place.name}, {kind}")
        for place in PLACES
        for kind in NOT_WHOLE
        # None says something of its own in an index; torch itself refuses what is no negative step.
        if kind != "None" or not re.search(r": index\[|of the slice", place.name)
        if not place.name.startswith("negative_steps: the step")
    ],
)
def test_what_is_no_whole_number_is_refused(place: Place, kind: str, requires_grad: bool) -> None:
    make, written = NOT_WHOLE[kind]
    in_an_index = ": index[" in place.name
    rule = "a slice, a whole number, None or an Ellipsis" if in_an_index else "a whole number"
    with pytest.raises(IndexError if in_an_index else TypeError) as refused:
        place.call(make(1), matrix().requires_grad_(requires_grad))
    said = str(refused.value).partition("; write ")[0]
    assert said == f"{place.name} must be {rule}, got {written.format(n=1, m=3)}"


FLOATS = [np.float16, np.float32, np.float64, np.longdouble, np.complex64, np.complex128]


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda t: np.dtype(t).name)
@every_call
def test_arrays_and_tensors_of_other_than_whole_numbers_are_refused(call: Call, dtype: Any) -> None:
    for name, numbers in number_lists(call).items():
        arrays = [np.array(numbers, dtype)]
        if np.dtype(dtype).itemsize <= 8 and np.dtype(dtype).kind == "f":
            arrays.append(torch.from_numpy(arrays[0]))
        for given in arrays:
            with pytest.raises(TypeError, match=rf"^{call.function}: {name}\[0\] must be a whole number, got "):
                call(matrix(), **{name: given})


@pytest.mark.parametrize("order", ["=", "S"], ids=["native", "swapped"])
@pytest.mark.parametrize("code", np.typecodes["All"])
def test_what_is_advised_for_an_array_makes_a_tensor_of_it(code: str, order: Any) -> None:
    """Whatever its dtype, order of bytes and strides; where torch has no such tensors, nothing is advised."""
    for zeros in (np.zeros((2, 3), code), np.zeros((2, 3), code)[::-1], np.zeros(3, code)[::-1], np.zeros((), code)):
        given = zeros.view(zeros.dtype.newbyteorder(order))
        with pytest.raises(TypeError, match=r"^slice1: input must be a tensor, got ") as refused:
            dml.slice1(given, [0], [1], [1])
        advised = str(refused.value).partition("; write ")[2]
        try:
            torch.from_numpy(given.copy())
        except (TypeError, ValueError):
            assert not advised
        else:
            made = eval(advised, {"torch": torch, "array": given, "input": given})
            assert made.tolist() == given.tolist()


# One sentence for every argument of a wrong type, in every situation.


class Unrelated:
    def __repr__(self) -> str:
        return "x" * 1000


WRONG: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "int": lambda: 4,
    "long int": lambda: 10**5000,
    "float": lambda: 4.5,
    "str": lambda: "ab" * 500,
    "bytes": lambda: b"\x01\x01",
    "dict": lambda: {0: 1, 1: 1},
    "set": lambda: {0, 1},
    "generator": lambda: (n for n in (0, 1)),
    "object": Unrelated,
    "type": lambda: Tensor,
    "long list": lambda: ["x" * 1000] * 1000,
    "ndarray": lambda: np.ones((2, 2)),
    "0-d array": lambda: np.array(1),
    "0-d tensor": lambda: torch.tensor(1.5),
    "tensor": lambda: torch.ones(3, 3, 3),
    "list of tensors": lambda: [torch.ones(1), torch.ones(1)],
    "nested list": lambda: [[0, 1], [1, 1]],
    "numbers beyond 64 bits": lambda: [2**63, 1],
    "numbers of 5000 digits": lambda: [-(10**5000), 1],
    "function": lambda: torch.add,
    "dtype": lambda: torch.float32,
}


def assert_one_sentence(error: BaseException, function: str) -> None:
    text = str(error)
    assert text.startswith(f"{function}: "), text[:500]
    assert "\n" not in text, text[:500]
    assert len(text) < 300
    assert isinstance(error, (RuntimeError, TypeError, ValueError, IndexError))
    assert error.__suppress_context__ or error.__context__ is None  # else torch's own words come before the sentence


def forward_mode(f: Callable[[Tensor], Any], x: Tensor) -> Any:
    with forward_ad.dual_level():
        return f(forward_ad.make_dual(x, x))


def in_a_mode(f: Callable[[Tensor], Any], x: Tensor) -> Any:
    with PassingMode():
        return f(x)


SITUATIONS: dict[str, Callable[[Callable[[Tensor], Any], Tensor], Any]] = {
    "plain": lambda f, x: f(x),
    "requires grad": lambda f, x: f(x.requires_grad_()),
    "torch.func.grad": lambda f, x: grad(lambda y: one(f(y)).sum())(x),
    "vmap": lambda f, x: vmap(f)(torch.stack([x, x])),
    "forward mode": forward_mode,
    "inference mode": lambda f, x: torch.inference_mode()(f)(x),
    "meta": lambda f, x: f(x.to("meta")),
    "in a mode": in_a_mode,
}


def assert_refused_or_right(function: str, call: Callable[[], Any]) -> None:
    try:
        call()
    except Exception as error:
        assert_one_sentence(error, function)


# What takes an argument, by the function that refuses it: with something there, of a 4 by 6 tensor.
TAKING: list[tuple[str, Callable[[Any, Tensor], Any]]] = [
    *(
        (call.function, lambda wrong, x, call=call, name=name: call(x, **{name: wrong}))
        for call in CALLS_BY_NAME
        for name in call.arguments(matrix())
    ),
    ("index", lambda wrong, x: dml.index(x)[wrong]),
    ("index", lambda wrong, x: dml.index(x)[0, wrong]),
    ("negative_steps", lambda wrong, x: SLICED["negative_steps"]((slice(None, None, -1), wrong), x)),
    *(
        (function, lambda wrong, x, take=take, sliced=sliced: take(sliced(wrong), x))
        for function, take in SLICED.items()
        for part, (_, sliced) in PARTS.items()
        if (function, part) != ("negative_steps", "step")
    ),
]


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("kind", WRONG)
def test_arguments_of_wrong_types_get_one_sentence(kind: str, situation: str) -> None:
    for function, take in TAKING:
        assert_refused_or_right(
            function, lambda take=take: SITUATIONS[situation](partial(take, WRONG[kind]()), matrix())
        )


@pytest.mark.parametrize("kind", ["None", "float", "str", "generator", "object", "list of tensors"])
@every_call
def test_arguments_of_wrong_types_under_torch_compile_get_one_sentence(call: Call, kind: str) -> None:
    """Where compiling may give up, the eager call says it; with fullgraph=True, torch's words are around it."""
    for name in call.arguments(matrix()):
        if name == "inputs" and kind == "list of tensors":  # the right type
            continue
        f = torch.compile(lambda x, name=name: call(x, **{name: WRONG[kind]()}), backend="eager")
        assert_refused_or_right(call.function, partial(f, matrix()))


@pytest.mark.parametrize("kind", WRONG)
@every_call
def test_arguments_of_wrong_types_with_out_get_one_sentence(call: Call, kind: str) -> None:
    x = matrix()
    right = call(x)
    for name in [*call.arguments(x), "out"]:
        out = torch.empty_like(right) if isinstance(right, Tensor) else [torch.empty_like(r) for r in right]
        wrong = WRONG[kind]()
        if (name == "out" and wrong is None) or (name == "axis" and kind == "0-d array"):
            continue
        with pytest.raises((RuntimeError, TypeError)) as refused:
            call(x, **{"out": out, name: wrong})
        if not (name in number_lists(call) and kind == "0-d tensor"):
            assert_one_sentence(refused.value, call.function)


RIGHT = {**{call.function: partial(call.arguments, matrix()) for call in CALLS_BY_NAME}, **HELPERS}


@pytest.mark.parametrize("kind", WRONG)
@pytest.mark.parametrize("function", [name for name, f in public_functions()])
def test_public_functions_refuse_wrong_types_in_one_sentence(function: str, kind: str) -> None:
    """Of one argument, and of all at once."""
    f = getattr(dml, function)
    required = [p.name for p in inspect.signature(f).parameters.values() if p.default is p.empty]
    for names in (required, *([name] for name in RIGHT[function]())):
        assert_refused_or_right(
            function, lambda names=names: f(**{**RIGHT[function](), **{name: WRONG[kind]() for name in names}})
        )


# A list is shown as a whole up to 60 characters, and otherwise by its first entries and their number.

# Lists and shapes of so many entries and digits that a sentence must shorten them.
LONG: dict[str, Callable[[], Any]] = {
    "list": lambda: [1] * 1000,
    "list of large numbers": lambda: [-(2**63)] * 5,
    "list of numbers of 5000 digits": lambda: [10**5000] * 5,
    "tuple": lambda: (1,) * 1000,
    "torch.Size": lambda: torch.Size([1] * 1000),
    "ndarray": lambda: np.ones(1000, np.int64),
    "array": lambda: array.array("q", [1] * 1000),
    "1-D tensor": lambda: torch.ones(1000, dtype=torch.int64),
    "tensor of many dimensions": lambda: torch.zeros([1] * 60, dtype=torch.int64),
    "tensor of large sizes": lambda: torch.zeros(1, dtype=torch.int64).expand(10**7, 10**6, *[1] * 22),
    "tensors of many dimensions": lambda: [torch.zeros([1] * 60), torch.zeros([1] * 59 + [2])],
    "slices": lambda: (slice(None),) * 1000,
    "slice of large numbers": lambda: slice(10**5000, -(10**5000), 10**5000),
}


def assert_lists_are_shortened(sentence: str) -> None:
    for shown in re.finditer(r"\[(?!\d+\] must| ?\d+\]? \+)([^\[\]]*)\]( \(\d+ in all[,)])?", sentence):
        assert len(shown[0]) - len(shown[2] or "") <= 60, sentence
        assert shown[1].endswith("…") == bool(shown[2]), sentence


@pytest.mark.parametrize("kind", LONG)
@pytest.mark.parametrize("function", [name for name, f in public_functions() if inspect.signature(f).parameters])
def test_lists_in_sentences_are_shortened(function: str, kind: str) -> None:
    """Whatever argument is long, `out` included; alone, and together with another that is long."""
    right, f, refused = RIGHT[function](), getattr(dml, function), 0
    for name in inspect.signature(f).parameters:
        for other in (None, *right):
            long = {name: LONG[kind](), **({other: LONG[kind]()} if other else {})}
            try:
                f(**{**right, **long})
            except (RuntimeError, TypeError, ValueError) as error:
                refused += 1
                assert_one_sentence(error, function)
                assert_lists_are_shortened(str(error))
    assert refused > len(right) or (function == "index" and isinstance(LONG[kind](), Tensor))  # it takes any tensor


def test_a_list_that_is_not_shortened_is_found() -> None:
    assert_lists_are_shortened("split: a must have sizes [2, 3], got [1, 1, …] (1000 in all), with [1] at index 2")
    for sentence in (f"must have sizes {[1] * 30}", f"got {[10**40, 10**40]}", "got [1, 1, …]", "got [1] (3 in all)"):
        with pytest.raises(AssertionError):
            assert_lists_are_shortened(sentence)


@pytest.mark.parametrize("gradients", [False, True])
def test_none_is_no_sequence_lengths_for_torch_ops_either(gradients: bool) -> None:
    """torch itself lets it pass where the schema has a tensor. (`out`: see test_out.py.)"""
    x, lengths = torch.ones(1, requires_grad=gradients), torch.ones(1, dtype=torch.int32)
    for arguments in ((x, None, 0), (None, lengths, 0)):
        with pytest.raises(RuntimeError, match=r"^reverse_subsequences: every tensor must be given, got None"):
            torch.ops.torch_dml_ops.reverse_subsequences(*arguments)


def test_the_sizes_of_a_nested_tensor() -> None:
    nested = torch.nested.nested_tensor([matrix(), matrix()[:2]], layout=torch.jagged)
    with pytest.raises(
        TypeError, match=r"^join: inputs must be a list of tensors, got a tensor of sizes \[2, j\d+, 6\]; put tensors"
    ):
        dml.join(nested, 0)


# Tools that trace: what is no plain tensor goes to the operator.


class Recorder:
    """No tensor, but stands for one where torch's functions are called."""

    calls: ClassVar[list[Any]] = []

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.calls.append(function)
        return cls()


@every_call
def test_objects_with_torch_function_alone(call: Call) -> None:
    recorder = Recorder()
    first = [recorder, recorder] if call.linear == "inputs" else recorder
    Recorder.calls.clear()
    assert isinstance(call(matrix(), **{call.linear: first}), Recorder)
    op = getattr(torch.ops.torch_dml_ops, call.function)
    assert Recorder.calls in ([op], [op.default])
    out = [matrix()] * 3 if call.function == "split" else matrix()
    call(matrix(), **{call.linear: first}, out=out)
    assert Recorder.calls[1] in (op, op.out)


def module(call: Call) -> torch.nn.Module:
    class Module(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.linspace(1, 2, 6, device=DEVICE))

        def forward(self, x: Tensor) -> Any:
            return call(x * self.weight)

    return Module()


TRACERS: dict[str, tuple[Callable[..., Any], str]] = {
    "fx": (torch.fx.symbolic_trace, "torch_dml_ops.{}"),
    "jit": (lambda m: torch.jit.trace(m, matrix()), "torch_dml_ops::{}"),  # checks it by tracing once more
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("tracer", TRACERS)
@every_call
def test_a_module_with_parameters_is_traced(call: Call, tracer: str) -> None:
    trace, name = TRACERS[tracer]
    m, x = module(call), matrix().requires_grad_()
    traced = trace(m)
    assert name.format(call.function) in str(traced.graph)
    same(one(traced(x)), one(m(x)))
    same(torch.autograd.grad(one(traced(x)).sum(), x), torch.autograd.grad(one(m(x)).sum(), x))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: dml.index(x)[::-1],
        lambda x: dml.slice1(x, *dml.window(x.shape, slice(1, None))),
        lambda x: dml.split(x, [1, x.shape[0] - 1], 0),
    ],
    ids=["index", "window", "split"],
)
@pytest.mark.filterwarnings("ignore:`torch.jit.trace")
def test_jit_trace_warns_where_it_keeps_a_size(function: Callable[[Tensor], Any]) -> None:
    with pytest.warns(torch.jit.TracerWarning, match=" in the trace, for every input") as warned:
        torch.jit.trace(function, matrix(), check_trace=False)
    assert {w.filename for w in warned if "in the trace" in str(w.message)} == {__file__}


def test_what_has_only_the_interface_of_an_array_gets_a_sentence() -> None:
    """As an image of PIL."""
    image = type("Image", (), {"__array_interface__": property(lambda self: np.zeros((2, 3)).__array_interface__)})()
    for call in (lambda: dml.index(image), lambda: dml.join(image, 0), lambda: dml.split(image, [1, 1], 0)):
        with pytest.raises(TypeError, match=r"must be a (list of )?tensors?, got Image$"):
            call()
    with pytest.raises(TypeError, match=r"^index: the value must be a number or a tensor, got Image$"):
        dml.index(matrix())[0] = image


def test_warnings_of_a_trace_are_shown() -> None:
    """By the filters that torch sets, which ignore those of its own modules."""
    code = "torch.jit.trace(lambda x: dml.index(x)[1:, ::-1], torch.zeros(2, 3))"
    done = started(sys.executable, "-c", f"import torch, torch_dml_ops as dml; {code}")
    assert "TracerWarning: index: the shape of input[0] is 2 in the trace, for every input" in done.stderr


# window, compiled.


BOUNDS = [(torch.arange(40.0), a, 40 - b) for a, b in ((2, 3), (3, 4), (4, 2), (5, 9), (6, 6), (7, 2), (8, 3), (9, 9))]


def test_a_window_whose_bounds_vary_is_compiled_as_often_as_a_slice() -> None:
    def f(x: Tensor, a: int, b: int) -> Tensor:
        return dml.slice1(x, *dml.window(x.shape, slice(a, b)))

    def backwards(x: Tensor, a: int, b: int) -> Tensor:
        return dml.slice1(x, *dml.window(x.shape, slice(b, a, -2)))

    for g in (f, backwards):
        assert graphs(g, BOUNDS) <= 3
        assert graphs(g, BOUNDS, dynamic=True) == 1


# `out` that shares memory, compiled.


def shared_memory(call: Call, y: Tensor) -> Any:
    """Arguments and `out` that share memory; y has 100 items."""
    x = y[:24].reshape(4, 6)
    sizes = call(x)
    if call.function == "split":
        return x, [torch.as_strided(y, piece.shape, piece.stride(), 30 + k) for k, piece in enumerate(sizes)]
    return x, torch.as_strided(y, sizes.shape, sizes.stride(), 5)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("inside", [False, True])
@every_call
def test_an_overlap_that_is_traced_is_refused(call: Call, inside: bool, dynamic: bool | None, backend: str) -> None:
    def f(y: Tensor) -> Tensor:
        y = y + 0 if inside else y
        x, out = shared_memory(call, y)
        call(x, out=out)
        return y

    y = torch.arange(100.0)
    with pytest.raises(RuntimeError, match=rf"{call.function}: out(\[\d\])? must not share memory with "):
        f(y.clone())
    with pytest.raises(RuntimeError, match=rf"{call.function}: out(\[\d\])? must not share memory with "):
        torch.compile(f, backend=backend, fullgraph=True, dynamic=dynamic)(y)
    same(y, torch.arange(100.0))


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_an_overlap_that_comes_later_is_refused_or_the_input_was_read_first(backend: str) -> None:
    @torch.compile(backend=backend, fullgraph=True)
    def f(x: Tensor, out: Tensor) -> Tensor:
        return dml.slice1(x, [0], [4], [-1], out=out)

    y = torch.arange(8.0)
    same(f(y[:4], y[4:]), torch.tensor([3.0, 2, 1, 0]))
    refused, read_first = y.clone(), y.clone()
    read_first[2:6] = read_first[:4].flip(0)
    with contextlib.suppress(RuntimeError):
        f(y[:4], y[2:6])
    assert y.tolist() in (refused.tolist(), read_first.tolist())


@every_call
def test_an_overlap_of_meta_tensors_is_refused(call: Call) -> None:
    x, out = shared_memory(call, torch.empty(100, device="meta"))
    with pytest.raises(RuntimeError, match=rf"^{call.function}: out(\[\d\])? must not share memory with "):
        call(x, out=out)
    itself = torch.empty(3, device="meta").as_strided((2, 3), (1, 1))
    with pytest.raises(RuntimeError, match=r"^slice1: out must not overlap itself, got strides \[1, 1\]$"):
        dml.slice1(torch.empty(2, 3, device="meta"), [0, 0], [2, 3], [1, 1], out=itself)


# Sizes that are symbols, without torch.compile.


def rows_of(x: Tensor, table: Tensor) -> Tensor:
    return dml.slice1(table, *dml.window((16, 4), (slice(0, x.shape[0]), slice(None))))


def test_a_symbolic_bound_stays_one() -> None:
    table = torch.randn(16, 4)
    traced = make_fx(rows_of, tracing_mode="symbolic")(torch.zeros(5, 4), table)
    same(traced(torch.zeros(7, 4), table), table[:7])


@pytest.mark.parametrize("strict", [False, True])
def test_a_bound_of_a_known_range_exports(strict: bool) -> None:
    class Positions(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("table", torch.randn(16, 4))

        def forward(self, x: Tensor) -> Tensor:
            return x + rows_of(x, self.table)

    module, rows = Positions(), torch.export.Dim("rows", min=2, max=12)
    program = torch.export.export(module, (torch.zeros(5, 4),), dynamic_shapes={"x": {0: rows}}, strict=strict)
    same(program.module()(torch.zeros(7, 4)), module.table[:7])


# What the short way of plain calls must not take for plain.


def test_a_tuple_is_what_it_gives_when_it_is_iterated() -> None:
    class Zeros(tuple):
        def __iter__(self) -> Iterator[int]:
            return iter((0, 0))

    x = torch.arange(9).reshape(3, 3)
    for strides in ([1, 1], (np.int64(1), 1)):  # plain, and not
        same(dml.slice1(x, Zeros((1, 1)), [2, 2], strides), x[:2, :2])


@every_call
def test_out_is_given_by_name_alone(call: Call) -> None:
    operator, x = getattr(torch.ops.torch_dml_ops, call.function), matrix()
    given = [*call.arguments(x).values()]
    result = operator(*given)
    out = torch.empty_like(result) if isinstance(result, Tensor) else [torch.empty_like(r) for r in result]
    for last in (out, None):
        with pytest.raises(RuntimeError, match="argument"):
            operator(*given, last)
    assert operator(*given, out=out) is None
    same(one(out), one(result))


def test_outs_that_are_exchanged_meanwhile_do_not_count_as_written() -> None:
    x, other = torch.randn(2, 4_000_000), torch.empty(1)
    for _ in range(10):
        outs = [torch.empty(1, 4_000_000) for _ in range(2)]
        written = list(outs)
        exchange = threading.Thread(target=outs.__setitem__, args=(0, other))
        exchange.start()
        with contextlib.suppress(RuntimeError):  # where it came first
            dml.split(x, [1, 1], 0, out=outs)
            assert [t._version for t in written] == [1, 1]
        exchange.join()
    assert other._version == 0
