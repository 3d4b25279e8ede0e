"""What the tests of derivatives, vmap, torch.compile and exports are run over: calls of the operators, and indices.

A call takes the module to find the operators in, ``torch_dml_ops`` or ``plain_torch``, and the tensors that the
operator is linear in.
"""

import math
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from oracle import as_list
from torch import Tensor
from torch.overrides import TorchFunctionMode

import torch_dml_ops as dml

EXAMPLES = int(os.environ.get("TORCH_DML_OPS_CASES", "100"))
examples = settings(max_examples=EXAMPLES, deadline=None, derandomize=True, database=None)  # the same every time


@dataclass(frozen=True)
class Case:
    name: str
    call: Callable[..., Tensor | list[Tensor]]
    sizes: tuple[tuple[int, ...], ...]  # of the tensors

    def results(self, ops: ModuleType, *tensors: Tensor) -> list[Tensor]:
        return as_list(self.call(ops, *tensors))

    def tensors(self, dtype: torch.dtype = torch.float64) -> list[Tensor]:
        return [values(sizes, dtype, seed) for seed, sizes in enumerate(self.sizes)]


def values(sizes: Sequence[int], dtype: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
    generator = torch.Generator("cpu").manual_seed(seed)
    if dtype.is_floating_point or dtype.is_complex:
        wide = torch.complex128 if dtype.is_complex else torch.float64
        numbers = torch.randn(tuple(sizes), dtype=wide, generator=generator, device="cpu")
    else:
        most = 2 if dtype == torch.bool else 100
        numbers = torch.randint(0, most, tuple(sizes), generator=generator, device="cpu")
    return numbers.to(torch.get_default_device(), dtype)


def same(actual: object, expected: object) -> None:
    """Equal to the last bit but for the sign of zeros, which sums of derivatives may change."""
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)


def graphs(f: Callable[..., Any], calls: Sequence[tuple[Any, ...]], backend: str = "eager", **options: Any) -> int:
    """How many graphs torch.compile makes of the function for these calls, which give what they give without it."""
    from torch._dynamo.testing import CompileCounterWithBackend

    counter = CompileCounterWithBackend(backend)
    g = torch.compile(f, backend=counter, fullgraph=True, **options)
    for arguments in calls:
        same(g(*arguments), f(*arguments))
    return counter.frame_count


WHOLE: dict[str, Callable[[int], Any]] = {  # what is a whole number
    "int": int,
    **{t.__name__: t for t in (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64)},
    "0-d array": np.array,
    "0-d array of uint8": lambda n: np.array(n, np.uint8),
    "tensor": torch.tensor,
    "int32 tensor": lambda n: torch.tensor(n, dtype=torch.int32),
    "uint8 tensor": lambda n: torch.tensor(n, dtype=torch.uint8),  # a mask to torch, a number to NumPy
    "int of a class of its own": type("Whole", (int,), {}),
    "what has __index__": lambda n: type("Index", (), {"__index__": lambda self: n})(),
}


class PassingMode(TorchFunctionMode):
    """Does nothing; but what it is in force for is no plain call."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return function(*args, **(kwargs or {}))


class Mine(Tensor):
    """A subclass that does nothing of its own."""


def by_name(cases: Sequence[Case]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.name)


COLUMN = torch.tensor([[2], [4], [0]])
ROW = torch.tensor([[3, 1, 2, 9]], dtype=torch.uint32)


def _all_five(ops: ModuleType, x: Tensor) -> Tensor:
    left, right = ops.split(ops.reverse_subsequences(x, COLUMN, 1), [1, 3], 1)
    y = ops.join([right, left, right], 1)
    return ops.slice_grad(ops.slice1(y, [0, 1], [3, 5], [-2, 2]), [4, 4], [1, 0], [3, 4], [2, -1])


# What is made of the operators: window, index, negative_steps and reverse_sequence.

INDICES = {
    "slices": np.s_[::-2, 1:],
    "numbers": np.s_[-1, :, 2],
    "new dimensions": np.s_[None, ::-1, ..., None, 0],
    "one element": np.s_[1, 2, 3],
    "nothing": np.s_[::-1, 2:2],
    "huge steps": np.s_[:: -sys.maxsize, :: sys.maxsize],
}


def _assign(target: Any, x: Tensor) -> None:
    target[::-1] = x
    target[::-2, ::-1] += x[0]
    target[1, ::-1] = x[0, :1]
    target[None, ::-1, 2] = x[1, 1]
    target[::-1, 2:2] = x[0, :1]


def _assigned(ops: ModuleType, x: Tensor) -> Tensor:
    y = x**3
    _assign(ops.index(y), x)
    return y


def _in_the_mode(ops: ModuleType, x: Tensor) -> Tensor:
    y = x**3
    with ops.negative_steps():
        _assign(y, x)
        return y[::-1, ..., ::-2]


def _windowed(ops: ModuleType, x: Tensor) -> Tensor:
    window = dml.window(x.shape, (slice(None, None, -2), ..., slice(1, -1)))
    return ops.slice_grad(ops.slice1(x, *window), x.shape, *window)


def _beyond_two(ops: ModuleType, x: Tensor) -> Tensor:
    """By a size of a tensor, more than another one has."""
    two, n = x.flatten().narrow(0, 0, 2), x.shape[1]
    return ops.index(two)[:n] + ops.index(two)[n::-1]


COMPOSITIONS = (
    Case("slice1 and slice_grad by window", _windowed, ((2, 3, 4),)),
    *(
        Case(f"index of {name}", lambda ops, x, index=index: ops.index(x)[index], ((2, 3, 4),))
        for name, index in INDICES.items()
    ),
    Case("index of two elements by a size", _beyond_two, ((2, 3, 4),)),
    Case("index, assigned to", _assigned, ((2, 3, 4),)),
    Case("negative_steps, assigned to", _in_the_mode, ((2, 3, 4),)),
    Case(
        "reverse_sequence by lengths that follow from the input",
        lambda ops, x: ops.reverse_sequence(x, (x.abs() > 1.5).sum((1, 2)), 1),
        ((2, 3, 4),),
    ),
)


CASES = (
    Case("slice1", lambda ops, x: ops.slice1(x, [1, 0], [3, 5], [1, 2]), ((4, 5),)),
    Case("slice1 backwards", lambda ops, x: ops.slice1(x, [0, 1], [4, 3], [-2, -1]), ((4, 5),)),
    Case("slice1 of fewer steps", lambda ops, x: ops.slice1(x, [0, 0], [4, 5], [-1, 2], [3, 2]), ((4, 5),)),
    Case("slice_grad", lambda ops, g: ops.slice_grad(g, [4, 5], [1, 0], [3, 5], [1, 2]), ((3, 3),)),
    Case("slice_grad backwards", lambda ops, g: ops.slice_grad(g, [4, 5], [0, 1], [4, 3], [-2, -1]), ((2, 3),)),
    Case("slice_grad of fewer steps", lambda ops, g: ops.slice_grad(g, [4, 5], [0, 0], [4, 5], [-1, 2]), ((3, 2),)),
    Case("split", lambda ops, x: ops.split(x, [1, 3, 2], 1), ((2, 6),)),
    Case("one piece of a split", lambda ops, x: ops.split(x, [1, 2], 0)[1], ((3, 4),)),
    Case("join", lambda ops, *xs: ops.join(xs, 1), ((3, 2), (3, 1), (3, 3))),
    Case("join of a tensor with itself", lambda ops, x: ops.join([x, x], 0), ((2, 3),)),
    Case("reverse_subsequences", lambda ops, x: ops.reverse_subsequences(x, COLUMN, 1), ((3, 4),)),
    Case("reverse_subsequences, axis 0", lambda ops, x: ops.reverse_subsequences(x, ROW, 0), ((3, 4),)),
    *COMPOSITIONS,
    Case("all five", _all_five, ((3, 4),)),
)
FIVE = tuple(case for case in CASES if " " not in case.name)  # one for each operator
# From 2.14 on torch hides assignments in compiled code from modes.
COMPILED = tuple(case for case in CASES if torch.__version__ < "2.14" or not case.name.startswith("negative_steps"))


# Calls for one tensor of any shape, with arguments that follow from it.


def _last_axis(x: Tensor) -> int:
    """The last one that is not empty."""
    return max(d for d in range(x.dim()) if x.shape[d] != 0)


def _strides(x: Tensor) -> list[int]:
    return [2 if d % 2 else -1 for d in range(x.dim())]


def _split(ops: ModuleType, x: Tensor) -> list[Tensor]:
    axis = _last_axis(x)
    size = x.shape[axis]
    return ops.split(x, [1, size - 1] if size > 1 else [1], axis)


def _slice_grad(ops: ModuleType, g: Tensor) -> Tensor:
    sizes = [n * abs(stride) for n, stride in zip(g.shape, _strides(g), strict=True)]
    return ops.slice_grad(g, sizes, [0] * g.dim(), sizes, _strides(g))


def _reverse_subsequences(ops: ModuleType, x: Tensor) -> Tensor:
    axis = _last_axis(x)
    rows = [1 if d == axis else n for d, n in enumerate(x.shape)]
    lengths = torch.arange(math.prod(rows), device=x.device).reshape(rows) % (x.shape[axis] + 2)
    return ops.reverse_subsequences(x, lengths, axis)


ANY_SHAPE = (
    Case("slice1", lambda ops, x: ops.slice1(x, [0] * x.dim(), x.shape, _strides(x)), ((4, 5),)),
    Case("slice_grad", _slice_grad, ((4, 5),)),
    Case("split", _split, ((4, 5),)),
    Case("join", lambda ops, x: ops.join([x, x], _last_axis(x)), ((4, 5),)),
    Case("reverse_subsequences", _reverse_subsequences, ((4, 5),)),
)


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.movedim(0, -1).contiguous().movedim(-1, 0),
    "sliced": lambda x: torch.stack([x, x], -1)[..., 1],
    "expanded": lambda x: x[:1].expand(x.shape),
}


def gradients(f: Callable[..., Sequence[Tensor]], *tensors: Tensor) -> tuple[list[Tensor], tuple[Tensor, ...]]:
    leaves = [x.detach().requires_grad_() for x in tensors]
    results = f(*leaves)
    return results, torch.autograd.grad(results, leaves, [torch.arange(y.numel()).view(y.shape).cos() for y in results])


@dataclass(frozen=True)
class OutCase:
    op: str
    sizes: dict[str, tuple[int, ...]]  # of the arguments, by the names that errors give them
    call: Callable[..., Any]

    def tensors(self) -> dict[str, Tensor]:
        return {name: values(sizes, seed=k) for k, (name, sizes) in enumerate(self.sizes.items())}


OUT_CASES = (
    OutCase("slice1", {"input": (4,), "out": (4,)}, lambda ops, x, out: ops.slice1(x, [0], [4], [-1], out=out)),
    OutCase(
        "slice_grad",
        {"grad_output": (2,), "out": (4,)},
        lambda ops, g, out: ops.slice_grad(g, [4], [0], [4], [-2], out=out),
    ),
    OutCase(
        "split", {"input": (4,), "out[0]": (1,), "out[1]": (3,)}, lambda ops, x, *out: ops.split(x, [1, 3], 0, out=out)
    ),
    OutCase(
        "join", {"inputs[0]": (1,), "inputs[1]": (3,), "out": (4,)}, lambda ops, a, b, out: ops.join([a, b], 0, out=out)
    ),
    OutCase(
        "reverse_subsequences",
        {"input": (4,), "out": (4,)},
        lambda ops, x, out: ops.reverse_subsequences(x, torch.tensor([3]), 0, out=out),
    ),
)


def all_operators(x: Tensor, lengths: Tensor) -> list[Tensor]:
    """A result of each operator; lengths of shape (batch, 1, channels)."""
    window = dml.window(x.shape, (slice(None, None, -1), slice(1, None, 2)))
    y = dml.slice1(x, *window)
    pieces = dml.split(x, [1, x.shape[2] - 1], 2)
    return [
        y,
        dml.slice_grad(y, x.shape, *window),
        *pieces,
        dml.join(pieces[::-1], 2),
        dml.reverse_subsequences(x, lengths, 1),
    ]


# Random indices, as they are written.


@st.composite
def indices(draw: st.DrawFn, bounds: Sequence[str], *numbers: Sequence[str]) -> str:
    """Of some first dimensions a slice or a whole number, which `numbers` has for each, and now and then new ones."""
    bound = st.sampled_from(bounds)
    walk = st.builds("{}:{}:{}".format, bound, bound, st.sampled_from(["", "-1", "2", "-2", "-3"]))
    parts: list[str] = []
    for whole in numbers[: draw(st.integers(1, len(numbers)))]:
        parts += draw(st.sampled_from([[], [], [], ["None"]]))
        parts.append(draw(walk | walk | st.sampled_from(whole) if whole else walk))
    return ", ".join(parts)


def program(head: str, read: Sequence[str], assigned: Sequence[str], sized: Sequence[str] = ()) -> Callable[..., Any]:
    """A function that begins with these lines, and returns a list.

    Of what each index reads of x, of copies of x to which others have assigned, and of numbers, as many as the first
    dimension has of what is read by those that are left.
    """
    lines = [*head.split("\n"), f"results = [{', '.join(f'index(x)[{i}]' for i in read)}]"]
    for i in assigned:
        lines += ["y = x + 0", f"index(y)[{i}] = index(x)[{i}] + 100", "results.append(y)"]
    lines += [f"results.append(arange(index(x)[{i}].shape[0]))" for i in sized]
    names: dict[str, Any] = {"index": dml.index}
    exec("\n    ".join([*lines, "return results"]), names)
    f: Callable[..., Any] = names["f"]
    return f


def in_a_backward_pass(f: Callable[..., Sequence[Tensor]]) -> Callable[..., tuple[Tensor, ...]]:
    """A function whose derivative somebody else has written, with this one."""

    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *xs: Tensor) -> tuple[Tensor, ...]:
            return tuple(2 * x for x in xs)

        @staticmethod
        def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
            total = sum(y.sum() for y in f(*grads))
            return tuple(grad + total for grad in grads)

    apply: Callable[..., tuple[Tensor, ...]] = Doubled.apply
    return apply
