"""A mode under which torch's own indexing takes negative steps."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import suppress
from typing import Any, ParamSpec, TypeVar, overload

from torch import Tensor
from torch.compiler import is_dynamo_compiling
from torch.overrides import TorchFunctionMode

from torch_dml_ops._indexing.index import assign, read
from torch_dml_ops._indexing.slices import has_negative_step
from torch_dml_ops._sentences.text import shown
from torch_dml_ops._torch.private import RESUMED as private
from torch_dml_ops._torch.short_way import fast, harmless_modes

P = ParamSpec("P")
T = TypeVar("T")

_getitem: Any = Tensor.__getitem__
_setitem: Any = Tensor.__setitem__


class NegativeSteps(TorchFunctionMode):
    """What :func:`negative_steps` gives: a context manager, and a decorator of functions."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        # torch.export sends operator.getitem.
        if (func is _getitem or func is operator.getitem) and has_negative_step(args[1]):
            done = fast.index(*args) if not is_dynamo_compiling() else None
            return read("negative_steps", *args) if done is None else done
        if (func is _setitem or func is operator.setitem) and has_negative_step(args[1]):
            return assign("negative_steps", *args)
        return func(*args, **(kwargs or {}))

    def __call__(self, function: Callable[P, T]) -> Callable[P, T]:
        if not callable(function) or isinstance(function, type):
            way_out = "decorate its methods" if callable(function) else "write with negative_steps() for a context"
            raise TypeError(f"negative_steps: function must be a function, got {shown(function)}; {way_out}")
        result: Callable[P, T] = _decorated(function)
        return result


harmless_modes.add(NegativeSteps)


class _NegativeSteps:
    """Within ``with negative_steps():``, plain ``x[::-2, 1:]`` and ``x[::-2] = value`` work, as in NumPy.

    It is a decorator too, ``@negative_steps()`` or ``@negative_steps``, of functions, generators and coroutines, and is
    then in force whenever their own code runs. ``with negative_steps:`` works too, except where ``torch.compile`` has
    ``fullgraph=True``.

    An index with a negative step works as with :func:`index`: what it reads is a copy, and advanced indices beside a
    negative step are refused. All other indices go torch's own way, so ``x[2:]`` is a view as ever. Both can be
    compiled, with the ``with`` inside the compiled function or around its call. (torch 2.14 and
    later compile only reading; an assignment is an error there, and ``index(x)[::-2] = value`` works.)

    Like torch's own modes it holds for the thread, from entering to leaving: while a generator or coroutine with such a
    ``with`` is suspended, it holds for the callers too. The decorator's does not.

    Args:
        function: what to decorate; leave it out for a context manager.

    Raises:
        TypeError: a ``function`` that is not a function; within, what :func:`index` refuses.
        IndexError, ValueError: within, what :func:`index` refuses.

    >>> import torch, torch_dml_ops as dml
    >>> x = torch.arange(6)
    >>> with dml.negative_steps():
    ...     x[::-2] += 10
    ...     x[::-2]
    tensor([15, 13, 11])
    """

    @overload
    def __call__(self, function: None = None) -> NegativeSteps: ...
    @overload
    def __call__(self, function: Callable[P, T]) -> Callable[P, T]: ...
    def __call__(self, function: Any = None) -> Any:
        mode = NegativeSteps()
        return mode if function is None else mode(function)

    def __enter__(self) -> None:
        NegativeSteps().__enter__()  # type: ignore[no-untyped-call]  # torch keeps it, for the thread

    def __exit__(self, *error: Any) -> None:
        NegativeSteps().__exit__(*error)  # type: ignore[no-untyped-call]


negative_steps = _NegativeSteps()


def _decorated(function: Callable[..., Any]) -> Any:
    """A generator's or coroutine's code runs when that is resumed, long after the function has returned."""

    def call(*args: Any, **kwargs: Any) -> Any:
        with NegativeSteps():
            return function(*args, **kwargs)

    def generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        return (yield from _Resumed(function(*args, **kwargs)))

    async def coroutine(*args: Any, **kwargs: Any) -> Any:
        return await _Resumed(function(*args, **kwargs))

    async def async_generator(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        generator = function(*args, **kwargs)
        following = _Resumed(generator.asend(None))
        with suppress(StopAsyncIteration):
            while True:
                item = await following
                try:
                    following.resumed = generator.asend((yield item))
                except BaseException as error:
                    following.resumed = generator.athrow(error)

    kinds: dict[Callable[[Any], bool], Callable[..., Any]] = {
        inspect.isgeneratorfunction: generator,
        inspect.iscoroutinefunction: coroutine,
        inspect.isasyncgenfunction: async_generator,
    }
    return functools.wraps(function)(next((kinds[is_one] for is_one in kinds if is_one(function)), call))


class _Resumed(Generator[Any, Any, Any]):
    """A generator or what can be awaited, under the mode whenever its own code runs.

    Modes that its code has entered when it suspends stay on, as torch's do; this one lies beneath them.
    """

    def __init__(self, resumed: Any) -> None:
        self.resumed = resumed
        self._entered = 0  # modes that its code has entered and not left; below 0, others that it has left

    def send(self, value: Any) -> Any:
        return self._run(self.resumed.send, value)

    def throw(self, *error: Any) -> Any:
        return self._run(self.resumed.throw, *error)

    def _run(self, resume: Callable[..., Any], *given: Any) -> Any:
        if private.missing:
            with NegativeSteps():
                return resume(*given)
        beneath = max(private._len_torch_function_stack() - self._entered, 0)
        _beneath_others(beneath, NegativeSteps().__enter__)
        try:
            return resume(*given)
        finally:
            self._entered = private._len_torch_function_stack() - beneath - 1
            _beneath_others(beneath + 1, private._pop_torch_function_stack)

    def __await__(self) -> Generator[Any, Any, Any]:
        return self


def _beneath_others(number: int, change: Callable[[], object]) -> None:
    """Changes the stack of modes where it has so many of them, below all others."""
    above = [private._pop_torch_function_stack() for _ in range(private._len_torch_function_stack() - number)]
    change()
    for mode in reversed(above):
        private._push_on_torch_function_stack(mode)
