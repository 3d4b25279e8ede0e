"""Graphs that torch.fx and make_fx record of calls: of every pair of operators, and with every argument unknown.

What a process did before must change neither these nor what is refused: they run in one that did nothing else too, and
in one that has loaded all that the package can meet.
"""

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from backends import default_device
from contract_cases import CALLS_BY_NAME
from processes import FEWER, file_of_tests, path_with_lib, run_python
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_map

import torch_dml_ops as dml
from torch_dml_ops._operators.definitions import OPERATORS

TESTS = Path(__file__).parent
TRACED: dict[str, Callable[..., Any]] = {
    "symbolic_trace": lambda f, x: torch.fx.symbolic_trace(f),
    "make_fx": lambda f, x: make_fx(f)(x),
    "symbolic make_fx": lambda f, x: make_fx(f, tracing_mode="symbolic")(x),
}


def assert_same(actual: Any, expected: Any) -> None:
    """Not by torch.testing, which imports torch.distributed.tensor."""
    if isinstance(expected, (list, tuple)):
        for one, other in zip(actual, expected, strict=True):
            assert_same(one, other)
    else:
        assert torch.equal(actual, expected) if isinstance(expected, Tensor) else actual == expected


# Every pair, of 1-D tensors. The second one gets the first one's result, also where that is a list.

STEPS: dict[str, Callable[..., Any]] = {
    "slice1": lambda ops, x, n: ops.slice1(x, [0], [n], [-1]),
    "slice_grad": lambda ops, x, n: ops.slice_grad(x, [2 * n], [0], [2 * n], [-2]),
    "split": lambda ops, x, n: ops.split(x, [2, n - 2], 0),
    "join": lambda ops, x, n: ops.join([x, x], 0),
    "reverse_subsequences": lambda ops, x, n: ops.reverse_subsequences(x, x.new_full((1,), 4, dtype=torch.int64), 0),
    "index": lambda ops, x, n: dml.index(x)[n - 2 :: -1],
}
ENTRIES = {
    "dml": dml,
    "torch.ops": torch.ops.torch_dml_ops,
    "overloads": SimpleNamespace(**{name: getattr(torch.ops.torch_dml_ops, name).default for name in OPERATORS}),
}


def pair(ops: Any, first: str, second: str) -> Callable[[Tensor], Any]:
    def call(x: Tensor) -> Any:
        y = STEPS[first](ops, x, 6)
        if first == "split":
            return ops.join(y, 0) if second == "join" else STEPS[second](ops, y[1], 4)
        return STEPS[second](ops, y, size)

    size = len(STEPS[first](dml, torch.zeros(6), 6))
    return call


@pytest.mark.parametrize(
    ("way", "entry"),
    [*(("symbolic_trace", entry) for entry in ENTRIES), ("make_fx", "dml"), ("symbolic make_fx", "dml")],
)
@pytest.mark.parametrize("second", [*OPERATORS, "index"])
@pytest.mark.parametrize("first", [*OPERATORS, "index"])
def test_every_pair(first: str, second: str, way: str, entry: str) -> None:
    call = pair(ENTRIES[entry], first, second)
    traced = TRACED[way](call, torch.zeros(6))
    x = torch.arange(6.0)
    assert_same(traced(x), call(x))


# Every argument, and every number in one, stands for a value in the graph.

X, ROWS = torch.arange(24.0).reshape(4, 6), torch.tensor([2, 0, 6, 5])


def _assigned(index: Any, value: Any) -> Tensor:
    y = X.clone()
    dml.index(y)[index] = value
    return y


def _into(op: str) -> Callable[..., Any]:
    """What it is written into is the last argument."""
    return lambda *arguments: getattr(dml, op)(*arguments[:-1], out=arguments[-1])


def _out_for(call: Any, x: Tensor) -> Any:
    return tree_map(torch.zeros_like, getattr(dml, call.function)(**call.arguments(x)))


def _in_the_mode(start: Any, stop: Any, number: Any, value: Any = None) -> Tensor:
    y = X.clone()
    with dml.negative_steps():
        if value is None:
            return y[start:stop:-2, number]
        y[start:stop:-2, number] = value
        return y


CALLS: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    **{
        f"{entry}: {call}": (getattr(ops, call.function), [*call.arguments(X).values()])
        for entry, ops in ENTRIES.items()
        for call in CALLS_BY_NAME
    },
    **{
        f"dml, into out: {call}": (_into(call.function), [*call.arguments(X).values(), _out_for(call, X)])
        for call in CALLS_BY_NAME
    },
    "reverse_sequence": (dml.reverse_sequence, [X, ROWS, 1, 0]),
    "sequence_lengths_like": (dml.sequence_lengths_like, [X, ROWS, 1, 0]),
    "window": (dml.window, [[4, 6], (slice(3, 0, -2), ..., slice(1, 5, 2))]),
    "index": (lambda x, index: dml.index(x)[index], [X, (slice(3, 0, -2), None, ..., 4)]),
    "index by one": (lambda x, index: dml.index(x)[index], [X, 3]),
    "assignment": (_assigned, [(slice(3, 0, -2), slice(5, 1, -1)), torch.arange(4.0)]),
    "negative_steps": (_in_the_mode, [3, 0, 4]),
    "negative_steps, assignment": (_in_the_mode, [3, 0, 4, 9.0]),
}


def places(value: Any) -> Iterator[tuple[tuple[int, ...], Any, Callable[[Any], Any]]]:
    """Where in arguments there are tensors, numbers and lists of them: each, and the whole with another there."""

    def inside(k: int, put: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda new: make([*parts[:k], put(new), *parts[k + 1 :]])

    if isinstance(value, (list, int, float, Tensor)):
        yield (), value, lambda new: new
    if isinstance(value, (list, tuple, slice)):
        parts = [value.start, value.stop, value.step] if isinstance(value, slice) else [*value]
        make = (lambda values: slice(*values)) if isinstance(value, slice) else type(value)
        for k, part in enumerate(parts):
            for at, taken, put in places(part):
                yield (k, *at), taken, inside(k, put)


PLACES = {
    f"{name}{''.join(f'[{k}]' for k in at)}": (name, taken, put)
    for name, (_, arguments) in CALLS.items()
    for at, taken, put in places(tuple(arguments))
    # For the operators themselves torch looks at the first number of a list alone, as for its own.
    if name.startswith("dml") or not name.endswith(tuple(OPERATORS)) or at[-1] == 0 or len(at) == 1
}


@pytest.mark.parametrize("place", PLACES)
def test_every_argument_is_unknown(place: str) -> None:
    name, taken, put = PLACES[place]
    function, arguments = CALLS[name]
    traced = torch.fx.symbolic_trace(lambda unknown: function(*put(unknown)))
    traced.graph.eliminate_dead_code()
    traced.recompile()
    assert_same(copy.deepcopy(traced)(copy.deepcopy(taken)), function(*copy.deepcopy(arguments)))


@pytest.mark.parametrize("place", ["dml: slice1[1][1]", "dml: split[1][1]"])
def test_numbers_are_unknown_where_a_default_device_is_set(place: str) -> None:
    with default_device("cpu"):
        test_every_argument_is_unknown(place)


# What the process did before: nothing, as far as the package can tell, or everything.

NOTHING = "import sys, pytest; sys.exit(pytest.main(sys.argv[1:]) or 'torch.distributed.tensor' in sys.modules)"
EVERYTHING = "import sys, pytest, everything_loaded; sys.exit(pytest.main(sys.argv[1:]))"
QUICK = "tracing or torch_function or symbolic_trace or subclass or typed or sentences or (test_refused and functions)"


# torch.compile loads everything itself, and a process of its own nothing.
ALIKE = "a_process_that or compile or eager or inductor or imported_at or warnings_of_a_trace"


def assert_pass(before: str, names: tuple[str, ...], selected: str) -> None:
    files = [file_of_tests(name) for name in names]
    selected = f"({selected}) and not ({ALIKE})"
    run_python("-c", before, "-q", "-k", selected, *files, PYTHONPATH=path_with_lib(), **FEWER)


def test_in_a_process_that_did_nothing_else() -> None:
    assert_pass(NOTHING, ("tracing",), "not make_fx")  # which imports torch.distributed.tensor


def test_in_a_process_that_has_loaded_everything() -> None:
    assert_pass(EVERYTHING, ("tracing", "arguments", "refusals", "mistakes"), QUICK)


OTHERS = ("refusals", "mistakes", "unusual_inputs", "compositions", "reverse_sequence")


@pytest.mark.thorough
@pytest.mark.parametrize(
    "names", [("arguments",), ("index", "short_way", "negative_steps"), OTHERS], ids=lambda n: n[0]
)
def test_more_in_a_process_that_has_loaded_everything(names: tuple[str, ...]) -> None:
    assert_pass(EVERYTHING, names, "test")


@pytest.mark.parametrize("name", ["index", *dml.ops.__all__])
def test_script_is_refused_in_a_sentence(name: str) -> None:
    function = getattr(dml, name)

    def calls_it(x: Tensor) -> Tensor:
        return function(x)  # type: ignore[no-any-return]

    for scripted in (function, calls_it):
        with pytest.raises(RuntimeError) as refused:
            torch.jit.script(scripted)
        assert str(refused.value) == f"{name}: torch.jit.script cannot compile this function; write torch.compile"
