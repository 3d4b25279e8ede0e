"""dml.negative_steps: within it plain indexing takes negative steps, reading and assigning; all else is torch's own."""

import asyncio
import functools
import inspect
import operator
import re
import threading
from collections.abc import AsyncGenerator, Callable, Generator
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
from torch_dml_ops._torch.short_way import fast, is_set_up

S = np.s_


pytestmark = pytest.mark.usefixtures("fresh_compiler")


def in_force() -> bool:
    try:
        torch.zeros(2)[::-1]
    except ValueError:
        return False
    return True


class AddsInstead(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (Tensor.__setitem__, operator.setitem):
            return args[0].add_(1)
        return func(*args, **(kwargs or {}))


@functools.cache
def compiled_code_hides_assignments() -> bool:
    """As that of torch 2.14 and later does from every mode for torch functions."""

    @torch.compile(backend="eager", fullgraph=True)
    def f(x: Tensor) -> Tensor:
        with AddsInstead():
            x[:1] = 5
        return x

    result = f(torch.zeros(2)).tolist()
    assert result in ([1, 1], [5, 0]), result
    return result == [5, 0]


def skip_if_compiled_code_hides_assignments() -> None:
    if compiled_code_hides_assignments():
        pytest.skip("this torch hides assignments in compiled code from modes, as the documents on building say")


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
    if compiled_code_hides_assignments():
        with pytest.raises(RuntimeError, match="step must be"):
            f(x)
        assert x.tolist() == [0, 1, 2]
    else:
        assert f(x.clone()).tolist() == [3, 2, 1]
    assert by_index(x).tolist() == [3, 2, 1]


# What is read and what is assigned is NumPy's.


@st.composite
def cases(draw: st.DrawFn) -> tuple[Tensor, Any]:
    dtype = draw(st.sampled_from([d for d in oracle.DTYPES if d != torch.bool]))  # of which torch makes bytes 0 or 1
    x = maker(DEVICE)(*draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)), dtype=dtype)
    x = x.permute(draw(st.permutations(range(x.dim()))))
    return x, draw(hnp.basic_indices(tuple(x.shape), allow_newaxis=True, allow_ellipsis=True, max_dims=7))


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
    indices = hnp.basic_indices(tuple(x.shape), allow_newaxis=True, allow_ellipsis=True, max_dims=7)
    value = data.draw(indices.filter(lambda i: broadcasts(array[i].shape, array[index].shape)))
    y = torch.from_numpy(array.copy())
    with dml.negative_steps():
        source = torch.from_numpy(np.array(array[value])) if negative(value) or not negative(index) else y[value]
        y[index] = source
    array[index] = array[value].copy()
    assert y.tolist() == array.tolist()


def negative(index: Any) -> bool:
    entries = index if isinstance(index, tuple) else (index,)
    return any(isinstance(e, slice) and e.step is not None and e.step < 0 for e in entries)


def broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    try:
        np.broadcast_to(np.empty(shape), to)
    except ValueError:
        return False
    return True


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


@pytest.mark.parametrize("backend", [None, "eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("assignment", OVERLAPPING)
def test_assignments_that_overlap(assignment: str, backend: str | None) -> None:
    scope: dict[str, Any] = {}
    exec(f"def assign(x): {assignment}", scope)
    assign = scope["assign"]
    if backend is not None:
        skip_if_compiled_code_hides_assignments()
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
    indices = [
        S[1:],
        S[::2, None],
        S[0],
        S[...],
        S[2:1],
        [0, 1],
        S[:, [0, 2]],
        x > 3,
        True,
        None,
        torch.tensor([1]),
        (),
    ]
    for index in indices:
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
    x = torch.zeros(1, 3).expand(2, 3)
    sentence = r"^negative_steps: input must not overlap itself where it is assigned to; assign to a clone\(\)$"
    with dml.negative_steps(), pytest.raises(RuntimeError, match=sentence):
        x[::-1] = torch.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_compiled_inside_and_around(backend: str) -> None:
    skip_if_compiled_code_hides_assignments()

    def f(x: Tensor, v: Tensor) -> Tensor:
        x[::-2] = v
        return x[::-1] * 2

    def with_it_inside(x: Tensor, v: Tensor) -> Tensor:
        with dml.negative_steps():
            return f(x, v)

    def expected(x: Tensor, v: Tensor) -> Tensor:
        y = x.clone()
        y[1::2] = v.flip(0)
        return y.flip(0) * 2

    x, v = torch.arange(6.0), torch.tensor([10.0, 20.0, 30.0])
    for g in (with_it_inside, dml.negative_steps()(f), dml.negative_steps(f)):
        y = x.clone()
        same(torch.compile(g, fullgraph=True, backend=backend)(y, v), expected(x, v))
        assert y.tolist() == [0, 30, 2, 20, 4, 10]
    counter = CompileCounterWithBackend(backend)
    g = torch.compile(f, fullgraph=True, backend=counter)
    for _ in range(3):
        with dml.negative_steps():  # another one each time, and one graph
            same(g(x.clone(), v), expected(x, v))
    assert counter.frame_count == 1


def test_steps_that_vary_are_compiled_once() -> None:
    skip_if_compiled_code_hides_assignments()

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
    seen = []
    with dml.negative_steps():
        thread = threading.Thread(target=lambda: seen.append(in_force()))
        thread.start()
        thread.join()
    assert seen == [False]


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


def test_a_decorated_function_that_calls_itself() -> None:
    @dml.negative_steps
    def f(n: int) -> list[int]:
        return torch.arange(n)[::-1].tolist() + (f(n - 1) if n else [])

    assert f(2) == [1, 0, 0]


@pytest.mark.parametrize("wrong", [4, "f", Tensor, torch.nn.Linear, [1]], ids=str)
def test_what_is_no_function_is_refused(wrong: Any) -> None:
    for decorate in (dml.negative_steps, dml.negative_steps()):
        with pytest.raises(TypeError, match=r"^negative_steps: function must be a function, got "):
            decorate(wrong)


def test_a_decorated_generator() -> None:
    log = []

    @dml.negative_steps
    def generator(n: int) -> Generator[bool, Any, str]:
        try:
            for _ in range(n):
                try:
                    log.append((yield in_force()))
                except KeyError:
                    yield in_force()
        finally:
            log.append(in_force())
        return "end"

    g = generator(3)
    assert inspect.isgenerator(g)
    assert next(g)
    assert not in_force()
    assert g.send("sent")
    assert g.throw(KeyError())
    assert not in_force()
    assert next(g)
    with pytest.raises(StopIteration) as end:
        next(g)
    assert end.value.value == "end"
    assert log == ["sent", None, True]

    g = generator(3)
    next(g)
    g.close()
    assert log[3:] == [True]
    g = generator(1)
    next(g)
    with pytest.raises(ZeroDivisionError):
        g.throw(ZeroDivisionError())
    assert log[4:] == [True]
    assert not in_force()


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

    async def cancels() -> None:
        task = asyncio.ensure_future(waits())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        seen.append(in_force())

    asyncio.run(cancels())
    assert seen == [True, False]


def test_a_decorated_asynchronous_generator() -> None:
    seen = []

    @dml.negative_steps
    async def generator(n: int) -> AsyncGenerator[bool, Any]:
        try:
            for _ in range(n):
                await asyncio.sleep(0)
                try:
                    seen.append((yield in_force()))
                except KeyError:
                    yield in_force()
        finally:
            await asyncio.sleep(0)
            seen.append(in_force())

    async def runs() -> None:
        assert [item async for item in generator(2)] == [True, True]
        g = generator(3)
        assert await anext(g)
        assert await g.asend("sent")
        assert await g.athrow(KeyError())
        assert not in_force()
        await g.aclose()

    assert inspect.isasyncgenfunction(generator)
    asyncio.run(runs())
    assert seen == [None, None, True, "sent", True]
    assert not in_force()


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
