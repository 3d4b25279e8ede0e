"""dml.negative_steps: within it plain indexing takes negative steps, reading and assigning; all else is torch's own."""

import asyncio
import contextlib
import inspect
import operator
import re
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import oracle
import pytest
import torch
from backends import DEVICE
from contract_cases import instructions, maker
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend
from torch.overrides import TorchFunctionMode
from transform_cases import PassingMode, examples, graphs, same

import torch_dml_ops as dml
from torch_dml_ops._indexing.slices import has_negative_step
from torch_dml_ops._torch.short_way import fast, is_set_up

S = np.s_


pytestmark = pytest.mark.usefixtures("fresh_compiler")


def in_force() -> bool:
    try:
        torch.zeros(2)[::-1]
    except ValueError:
        return False
    return True


# As that of torch 2.14 and later does from every mode for torch functions.
HIDES = torch.__version__ >= "2.14"
in_compiled_code = pytest.mark.skipif(
    HIDES, reason="this torch hides assignments in compiled code from modes, as the documents on building say"
)


def test_where_compiled_code_hides_assignments_they_are_errors() -> None:
    @torch.compile(backend="eager", fullgraph=True)
    def f(x: Tensor) -> Tensor:
        with dml.negative_steps():
            x[::-1] = x + 1
        return x

    @torch.compile(backend="eager", fullgraph=True)
    def by_index(x: Tensor) -> Tensor:
        dml.index(x)[::-1] = x + 1
        return x

    x = torch.arange(3)
    if HIDES:
        with pytest.raises(RuntimeError, match="step must be"):
            f(x)
        assert x.tolist() == [0, 1, 2]
    else:
        assert f(x.clone()).tolist() == [3, 2, 1]
    assert by_index(x).tolist() == [3, 2, 1]


# What is read and what is assigned is NumPy's.


def every_index(x: Tensor) -> st.SearchStrategy[Any]:
    return hnp.basic_indices(tuple(x.shape), allow_newaxis=True, allow_ellipsis=True, max_dims=7)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Tensor, Any]:
    dtype = draw(st.sampled_from([d for d in oracle.DTYPES if d != torch.bool]))  # of which torch makes bytes 0 or 1
    x = maker(DEVICE)(*draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)), dtype=dtype)
    x = x.permute(draw(st.permutations(range(x.dim()))))
    return x, draw(every_index(x))


@examples
@given(case=cases())
def test_what_is_read_is_numpys(case: tuple[Tensor, Any]) -> None:
    x, index = case
    items = oracle.items(x)
    with dml.negative_steps():
        result = x[index]
    assert oracle.equal(result, np.asarray(items[index], items.dtype))


@pytest.mark.parametrize("of", [dml.index, lambda x: x], ids=["index", "in the mode"])
@examples
@given(case=cases(), data=st.data())
def test_what_is_assigned_is_numpys(of: Callable[[Tensor], Any], case: tuple[Tensor, Any], data: st.DataObject) -> None:
    x, index = case
    items = oracle.items(x)
    shape = items[index].shape
    value = tuple(data.draw(st.sampled_from([n, 1])) for n in shape)[data.draw(st.integers(0, len(shape))) :]
    value = maker(DEVICE)(*[1] * data.draw(st.integers(0, 2)), *value, dtype=x.dtype)
    whole = torch.cat([x.reshape(-1), x.reshape(-1)]).as_strided(x.shape, x.stride())  # its end must stay as it is
    whole.copy_(x)
    end = oracle.storage_bytes(whole)[x.nbytes :]
    with dml.negative_steps():
        of(whole)[index] = value
    items[index] = oracle.items(value).reshape(oracle.items(value).shape[max(value.dim() - len(shape), 0) :])
    assert oracle.equal(whole, items)
    assert oracle.storage_bytes(whole)[x.nbytes :].tobytes() == end.tobytes()


@examples
@given(case=cases(), data=st.data())
def test_values_of_the_same_memory(case: tuple[Tensor, Any], data: st.DataObject) -> None:
    """NumPy reads all before it writes; so does what stands here for it."""
    x, index = case
    array = np.arange(x.numel()).reshape(x.shape)
    value = data.draw(every_index(x).filter(lambda i: broadcasts(array[i].shape, array[index].shape)))
    y = torch.from_numpy(array.copy())
    in_place = has_negative_step(index) and not has_negative_step(value)
    with dml.negative_steps():
        y[index] = y[value] if in_place else torch.from_numpy(np.array(array[value]))
    array[index] = array[value].copy()
    assert y.tolist() == array.tolist()


def broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    with contextlib.suppress(ValueError):
        return np.broadcast_shapes(shape, to) == to
    return False


# Of a matrix x, which both sides name.
OVERLAPPING = (
    "x[::-1] = x",
    "x[::-1, 1] = x[:, 1]",
    "x[::-1, 1:] = x[:, :-1]",
    "x[::-1, 1:] = x[0, :-1]",
    "x[::-1] = x[1, 2]",
    "x[::-1, ::-1] = x[:, ::-1]",
    "x[::-2] += x[:2] * 10",
    "x[::-1] += x",
    "x[1::-1] -= 1",
)


@pytest.mark.parametrize(
    "backend", [None, *(pytest.param(name, marks=in_compiled_code) for name in ("eager", "aot_eager", "inductor"))]
)
@pytest.mark.parametrize("assignment", OVERLAPPING)
def test_assignments_that_overlap(assignment: str, backend: str | None) -> None:
    scope: dict[str, Any] = {}
    exec(f"def assign(x): {assignment}", scope)
    assign = scope["assign"]
    array = np.arange(12).reshape(3, 4)
    assign(array)

    def f(x: Tensor) -> Tensor:
        with dml.negative_steps():
            assign(x)
        return x

    x = torch.arange(12).reshape(3, 4)
    g = f if backend is None else torch.compile(f, fullgraph=True, backend=backend)
    assert g(x).tolist() == array.tolist()
    assert x.tolist() == array.tolist()


@pytest.mark.parametrize(
    "value", [3, 2.7, True, 1 + 1j, torch.tensor(2.7), torch.tensor([1.5, 2.5, 3.5]).double()], ids=str
)
@pytest.mark.parametrize("dtype", [torch.int64, torch.float16, torch.complex64, torch.bool])
def test_values_are_converted_as_torch_does(value: Any, dtype: torch.dtype) -> None:
    x = torch.zeros(6, dtype=dtype)
    expected = x.clone()
    turned = value.flip(0) if isinstance(value, Tensor) and value.dim() else value
    if isinstance(value, complex) and dtype in (torch.int64, torch.float16):
        with pytest.raises(RuntimeError, match="overflow"):
            expected[1::2] = value
        rule = f"negative_steps: the value must fit {str(dtype)[6:]}, the dtype of input, got {value}"
        with dml.negative_steps(), pytest.raises(RuntimeError, match=f"^{re.escape(rule)}$"):
            x[::-2] = value
        return
    expected[1::2] = turned
    with dml.negative_steps():
        x[::-2] = value
    same(x, expected)


def test_shapes_that_do_not_fit_and_values_of_other_types_are_refused_where_torch_does() -> None:
    x = torch.zeros(6)
    for value in (torch.zeros(4), torch.zeros(2, 3), [1, 2, 3], np.zeros(3), "abc", None):
        with pytest.raises((RuntimeError, TypeError)) as torchs:
            x[1::2] = value
        with dml.negative_steps(), pytest.raises(type(torchs.value)) as refused:
            x[::-2] = value
        if isinstance(value, Tensor):
            rule = f"the value must have sizes that broadcast to [3], got {list(value.shape)}"
            assert str(refused.value) == f"negative_steps: {rule}"
        else:
            assert str(refused.value).startswith("negative_steps: the value must be a number or a tensor, got ")
    assert not x.any()


def test_without_parentheses() -> None:
    def backwards(x: Tensor) -> Tensor:
        with dml.negative_steps:
            return x[::-2]

    x = torch.arange(6)
    for function in (backwards, torch.compile(backwards, backend="eager"), dml.negative_steps(backwards)):
        assert function(x).tolist() == [5, 3, 1]
    with dml.negative_steps:
        with dml.negative_steps, dml.negative_steps():
            assert backwards(x).tolist() == [5, 3, 1]
        with pytest.raises(TypeError), dml.negative_steps:
            x[::-1] = "a"
        assert x[::-1].tolist() == [5, 4, 3, 2, 1, 0]
    with pytest.raises(ValueError, match="step must be greater than zero"):
        x[::-2]


# What has no negative step.


def test_all_else_is_torchs_own() -> None:
    x = torch.arange(12).reshape(3, 4)
    basic = [S[1:], S[::2, None], S[0], S[...], S[2:1], None, ()]
    advanced = [[0, 1], S[:, [0, 2]], x > 3, True, torch.tensor([1])]
    for index in (*basic, *advanced):
        expected = x[index]
        with dml.negative_steps():
            result = x[index]
            assert result._is_view() == expected._is_view()
            same(result, expected)
            y, z = x.clone(), x.clone()
            y[index] = -1
        z[index] = -1
        same(y, z)


def test_assignments_that_a_graph_records_as_the_function_of_operator() -> None:
    """As a mode gets them from tracers; in plain code it gets the method."""
    x = torch.zeros(4)
    mode = dml.negative_steps()
    for function in (operator.setitem, Tensor.__setitem__):
        mode.__torch_function__(function, (), (x, S[::-2], torch.tensor([1.0, 2.0])))
        assert x.tolist() == [0, 2, 0, 1]
        x.zero_()


def test_sentences_of_torch() -> None:
    x = torch.zeros(3)
    for index in (S[::0], S[1.5], S["a"], S[:, :], S[5], S[::1.5], S[::"a"]):
        with pytest.raises(Exception) as torchs:
            x[index]
        with dml.negative_steps(), pytest.raises(type(torchs.value)) as refused:
            x[index]
        assert str(refused.value) == str(torchs.value)


# What else is at work.


def test_a_leaf_and_what_a_graph_needs_are_kept_from_writing_as_ever() -> None:
    x = torch.zeros(3, requires_grad=True)
    for index in (S[1::2], S[::-2]):
        with dml.negative_steps(), pytest.raises(RuntimeError, match=r"leaf .*that requires grad"):
            x[index] = 1
    y = (x + 1).exp()
    with dml.negative_steps():
        y[::-1] = 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    with dml.negative_steps(), torch.no_grad():
        x[::-2] = 1
    assert x.tolist() == [1, 0, 1]


def test_inference_tensors() -> None:
    with torch.inference_mode():
        x = torch.zeros(3)
        with dml.negative_steps():
            x[::-2] = torch.tensor([1, 2])
    assert x.tolist() == [2, 0, 1]
    with dml.negative_steps(), pytest.raises(RuntimeError, match=r"[Ii]nference"):
        x[::-1] = 1


def test_memory_that_overlaps_itself_is_refused_as_ever() -> None:
    sentence = r"^negative_steps: input must not overlap itself where it is assigned to; assign to a clone\(\)$"
    with dml.negative_steps(), pytest.raises(RuntimeError, match=sentence):
        torch.zeros(1, 3).expand(2, 3)[::-1] = torch.arange(6.0).reshape(2, 3)


@in_compiled_code
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_compiled_inside_and_around(backend: str) -> None:
    def f(x: Tensor, v: Tensor) -> Tensor:
        x[::-2] = v
        return x[::-1] * 2

    def with_it_inside(x: Tensor, v: Tensor) -> Tensor:
        with dml.negative_steps():
            return f(x, v)

    x, v, expected = torch.arange(6.0), torch.tensor([10.0, 20.0, 30.0]), torch.tensor([20.0, 8, 40, 4, 60, 0])
    for g in (with_it_inside, dml.negative_steps()(f), dml.negative_steps(f)):
        y = x.clone()
        same(torch.compile(g, fullgraph=True, backend=backend)(y, v), expected)
        assert y.tolist() == [0, 30, 2, 20, 4, 10]
    counter = CompileCounterWithBackend(backend)
    g = torch.compile(f, fullgraph=True, backend=counter)
    for _ in range(3):
        with dml.negative_steps():  # another one each time, and one graph
            same(g(x.clone(), v), expected)
    assert counter.frame_count == 1


@in_compiled_code
def test_steps_that_vary_are_compiled_once() -> None:
    @dml.negative_steps
    def f(a: int, c: int) -> tuple[Tensor, Tensor]:
        x = torch.arange(20)
        x[a::-c] = x[2 : a + 3 : c]
        return x, x[a::-c]

    calls = [(7, 2), (9, 3), (11, 4), (5, 2)]
    for a, c in calls:
        array = np.arange(20)
        array[a::-c] = array[2 : a + 3 : c].copy()
        assert [t.tolist() for t in f(a, c)] == [array.tolist(), array[a::-c].tolist()]
    assert graphs(f, calls, dynamic=True) == 1


def test_a_graph_break_within() -> None:
    @torch.compile(backend="eager")
    def f(x: Tensor) -> Tensor:
        with dml.negative_steps():
            y = x[::-1] + 1
            torch._dynamo.graph_break()
            return y[::-2]

    same(f(torch.arange(6.0)), torch.tensor([1.0, 3.0, 5.0]))
    assert not in_force()


# Where it is in force.


def test_nested_and_beside_other_modes() -> None:
    mode, x = dml.negative_steps(), torch.arange(4)
    with mode, mode, dml.negative_steps():
        assert x[::-1].tolist() == [3, 2, 1, 0]
    assert not in_force()
    for inner, outer in ((mode, PassingMode()), (PassingMode(), mode)):
        with outer, inner:
            assert x[::-1].tolist() == [3, 2, 1, 0]
            x[::-1] = x.clone()
            x[::-1] = x.clone()
    with torch.device("meta"), dml.negative_steps():
        assert torch.empty(3, 2)[::-2].shape == (2, 2)


def test_an_exception_ends_it() -> None:
    with pytest.raises(ZeroDivisionError), dml.negative_steps():
        1 / in_force() / 0

    @dml.negative_steps()
    def fails() -> None:
        assert in_force()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert not in_force()


def test_it_holds_for_its_thread_alone() -> None:
    with dml.negative_steps(), ThreadPoolExecutor(1) as another:
        assert not another.submit(in_force).result()


@pytest.mark.parametrize("decorate", [dml.negative_steps, dml.negative_steps()], ids=["bare", "called"])
def test_a_decorator(decorate: Any) -> None:
    @decorate
    def f(x: Tensor, *, step: int = -1) -> Tensor:
        """Words."""
        return x[::step]

    assert (f.__name__, f.__doc__) == ("f", "Words.")
    assert list(inspect.signature(f).parameters) == ["x", "step"]
    assert f(torch.arange(3)).tolist() == [2, 1, 0]
    assert f(torch.arange(3), step=-2).tolist() == [2, 0]
    assert not in_force()

    class Model(torch.nn.Module):
        @decorate
        def forward(self, x: Tensor) -> Tensor:
            return x[::-1]

    assert Model()(torch.arange(3)).tolist() == [2, 1, 0]

    @decorate
    def calls_itself(n: int) -> list[int]:
        return torch.arange(n)[::-1].tolist() + (calls_itself(n - 1) if n else [])

    assert calls_itself(2) == [1, 0, 0]

    @decorate
    def generator() -> Generator[bool, None, str]:
        yield in_force()
        return "end"

    returned = generator()
    assert next(returned)
    with pytest.raises(StopIteration, match=r"^end$"):
        next(returned)


async def in_a_list(awaited: Any) -> list[Any]:
    return [item async for item in awaited] if inspect.isasyncgen(awaited) else [await awaited]


@pytest.mark.parametrize("kind", ["def", "async def"])
@pytest.mark.parametrize("word", ["return", "yield"])
def test_decorated_functions_take_arguments_of_all_kinds(kind: str, word: str) -> None:
    known: dict[str, Any] = {}
    exec(f"{kind} f(x, /, *more, step, **named): {word} x[::step].tolist(), more, named", known)
    result = dml.negative_steps(known["f"])(torch.arange(3), 4, step=-2, last=5)
    result = asyncio.run(in_a_list(result)) if kind == "async def" else [*result] if word == "yield" else [result]
    assert result == [([2, 0], (4,), {"last": 5})]


@pytest.mark.parametrize("wrong", [4, "f", Tensor, torch.nn.Linear, [1]], ids=str)
def test_what_is_no_function_is_refused(wrong: Any) -> None:
    for decorate in (dml.negative_steps, dml.negative_steps()):
        with pytest.raises(TypeError, match=r"^negative_steps: function must be a function, got "):
            decorate(wrong)


GENERATOR = """
@dml.negative_steps
async def generator(n):
    try:
        with torch.device(device):  # a mode of its own, which lasts
            for _ in range(n):
                await asyncio.sleep(0)
                try:
                    log.append((yield in_force() and torch.empty(0).device.type == device))
                except KeyError:
                    yield in_force() and torch.empty(0).device.type == device
        log.append(in_force() and torch.empty(0).device == torch.get_default_device())
    finally:
        await asyncio.sleep(0)
        log.append(in_force() and torch.empty(0).device == torch.get_default_device())
"""


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "asynchronous"])
def test_a_decorated_generator(is_async: bool, device: str) -> None:
    log: list[Any] = []
    known, loop = globals() | {"log": log, "device": device}, asyncio.new_event_loop()
    exec(GENERATOR if is_async else re.sub("async |await .*", "", GENERATOR), known)
    generator = known["generator"]
    assert (inspect.isasyncgenfunction if is_async else inspect.isgeneratorfunction)(generator)

    def step(g: Any, method: str, *sent: Any) -> Any:
        """What it yields, or the exception that ends it."""
        try:
            return loop.run_until_complete(getattr(g, f"a{method}")(*sent)) if is_async else getattr(g, method)(*sent)
        except (StopIteration, StopAsyncIteration, ZeroDivisionError) as end:
            return type(end)
        finally:
            assert not in_force()

    g, ended = generator(3), StopAsyncIteration if is_async else StopIteration
    steps = [("send", None), ("send", "sent"), ("throw", KeyError()), ("send", None), ("send", None)]
    assert [step(g, *sent) for sent in steps] == [True, True, True, True, ended]
    for method, *sent in (("close",), ("throw", ZeroDivisionError())):
        g = generator(1)
        assert step(g, "send", None)
        assert step(g, method, *sent) is (ZeroDivisionError if sent else None)
    assert log == ["sent", None, True, True, True, True]
    loop.close()


def test_decorated_coroutines_that_take_turns() -> None:
    async def watches(n: int) -> list[bool]:
        seen = []
        for _ in range(n):
            seen.append(in_force())
            await asyncio.sleep(0)
        return seen

    inside, outside = dml.negative_steps(watches), watches

    async def everything() -> list[list[bool]]:
        return await asyncio.gather(inside(3), outside(3), inside(2), outside(4))

    assert inspect.iscoroutinefunction(inside)
    assert asyncio.run(everything()) == [[True] * 3, [False] * 3, [True] * 2, [False] * 4]
    assert not in_force()


def test_a_cancelled_coroutine() -> None:
    seen = []

    @dml.negative_steps
    async def waits() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            seen.append(in_force())

    with pytest.raises(asyncio.TimeoutError):
        asyncio.run(asyncio.wait_for(waits(), 0.01))
    seen.append(in_force())
    assert seen == [True, False]


@pytest.mark.skipif(not is_set_up, reason="no Python headers, or a torch without names of the short way")
def test_the_packages_own_functions_go_the_short_way_within_it() -> None:
    x = torch.arange(4.0).reshape(2, 2)

    def short() -> list[bool]:
        return [
            fast.slice1(x, (0, 0), (2, 2), (-1, 1), None, None) is not None,
            fast.index(x, S[::-1]) is not None,
            fast.join([x, x], 0, None) is not None,
        ]

    assert all(short())
    with dml.negative_steps(), dml.negative_steps():
        assert all(short())
        with PassingMode():
            assert not any(short())
        x.requires_grad_()
        dml.slice1(x, (0, 0), (2, 2), (-1, 1)).sum().backward()
        with torch.device("meta"):  # a mode for functions that make tensors, which does nothing to the operators
            assert all(short())
    with PassingMode(), dml.negative_steps():
        assert not any(short())
    assert x.grad.tolist() == [[1, 1], [1, 1]]


def test_other_calls_take_few_instructions_more() -> None:
    """A mode of Python is entered for every call of torch's; this one adds few instructions to that."""

    def instructions_in(mode: TorchFunctionMode) -> int:
        with mode:
            return instructions(lambda: torch.add(x, x))

    x = torch.zeros(2)
    assert instructions_in(dml.negative_steps()) <= instructions_in(PassingMode()) + 20
