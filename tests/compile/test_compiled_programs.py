"""Small programs, compiled and eager: whatever fuses, an operator moves bits.

TORCH_DML_OPS_CASES=100    random programs: 16 for 100, and about as many more for every further 50, in every mode
TORCH_DML_OPS_SEED=0       another number: other programs
"""

import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import oracle
import pytest
import torch
from torch import Tensor
from torch._functorch import config as functorch_config
from torch._inductor import config as inductor_config
from transform_cases import EXAMPLES

import torch_dml_ops as dml

SEED = int(os.environ.get("TORCH_DML_OPS_SEED", "0"))
PROGRAMS = 16  # of one compilation

DTYPES = [dtype for dtype in oracle.DTYPES if dtype.itemsize <= 2]
FLOATS = [torch.float16, torch.bfloat16]
INTS = [torch.int16, torch.int8, torch.uint8]


def every_pattern(dtype: torch.dtype) -> Tensor:
    """Every NaN and every byte of a bool among them, in no order."""
    order = torch.randperm(65536, generator=torch.Generator("cpu").manual_seed(0), device="cpu").reshape(256, 256)
    return order.to(torch.uint16 if dtype.itemsize == 2 else torch.uint8).view(dtype)


def same_bits(a: Tensor, b: Tensor) -> bool:
    return (a.dtype, a.shape) == (b.dtype, b.shape) and bool((oracle.items(a) == oracle.items(b)).all())


def same_values(a: Tensor, b: Tensor) -> bool:
    """A NaN may be any NaN, and a bool that is not 0 any other byte."""
    if a.dtype == torch.bool:
        a, b = a.view(torch.uint8) != 0, b.view(torch.uint8) != 0
    return same_bits(a.masked_fill(a.isnan(), 0), b.masked_fill(b.isnan(), 0)) and a.isnan().equal(b.isnan())


# The steps of a program: from one matrix to another.


def copied(x: Tensor) -> Tensor:
    q = torch.zeros_like(x)
    q.copy_(x)
    return q


def assigned(x: Tensor) -> Tensor:
    q = torch.zeros_like(x)
    q[:] = x
    return q


def turn_round(x: Tensor) -> None:
    if torch.__version__ >= "2.14":  # which hides assignments in compiled code from modes
        dml.index(x)[::-1] = x
        return
    with dml.negative_steps():
        x[::-1] = x


def assigned_backwards(x: Tensor) -> Tensor:
    q = x.clone()
    turn_round(q)
    return q


def other_bits(x: Tensor) -> Tensor:
    integers = {1: torch.uint8, 2: torch.int16}[x.dtype.itemsize]
    return (x.view(integers) ^ 1).view(x.dtype)


def rows(x: Tensor) -> Tensor:
    """Every second row."""
    return (torch.arange(x.shape[0], device=x.device) % 2 == 0)[:, None]


def sizes(x: Tensor) -> list[int]:
    return [*x.shape]


def padded(x: Tensor) -> Tensor:
    a, b = x.shape
    return dml.slice_grad(x, [a + 2, b + 1], [1, 1], [a, b], [-1, 1])


def dilated(x: Tensor) -> Tensor:
    a, b = x.shape
    return dml.slice_grad(x, [a, 2 * b], [0, 0], [a, 2 * b], [1, -2])


def by_length(x: Tensor) -> Tensor:
    lengths = torch.arange(x.shape[0], device=x.device) % (x.shape[1] + 3)
    return dml.reverse_subsequences(x, lengths[:, None], 1)


OPERATORS: dict[str, Callable[[Tensor], Tensor]] = {
    "rows backwards": lambda x: dml.index(x)[::-1],
    "columns backwards": lambda x: dml.index(x)[:, ::-1],
    "every second": lambda x: dml.index(x)[:, ::2],
    "a window": lambda x: dml.index(x)[1:, :-1],
    "padded": padded,
    "dilated": dilated,
    "a piece": lambda x: dml.split(x, [1, x.shape[0] - 1], 0)[1],
    "pieces": lambda x: dml.join(dml.split(x, [1, x.shape[1] - 1], 1)[::-1], 1),
    "joined": lambda x: dml.join([x, dml.index(x)[::-1]], 0),
    "by length": by_length,
}
VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "transposed": lambda x: x.t(),
    "part": lambda x: x[1:, ::2],
    "expanded": lambda x: x[:1].expand(5, -1),
}
# Inductor keeps the bits, as eager mode does, but for bools other than 0 and 1, which it copies as 1.
MOVES: dict[str, Callable[[Tensor], Tensor]] = {
    "clone": torch.clone,
    "transposed and contiguous": lambda x: x.t().contiguous(),
    "strided": lambda x: x.contiguous().as_strided((3, x.shape[1]), (x.shape[1], 1), 1),
    "gathered": lambda x: x[torch.arange(x.shape[0] - 1, -1, -1, device=x.device)],
    "copy_": copied,
    "q[:] =": assigned,
    "q[::-1] = q": assigned_backwards,
    "cat": lambda x: torch.cat([x, x], 1),
    "repeat": lambda x: x.repeat(2, 1),
    "flip": lambda x: x.flip(0),
    "roll": lambda x: x.roll(1, 0),
    "other bits": other_bits,
    "put": lambda x: torch.index_put(x, (torch.arange(2, device=x.device),), x[-2:]),
}
# Here Inductor converts, without these operators too, or may do so: what fuses with these decides.
CONVERTED: dict[str, Callable[[Tensor], Tensor]] = {
    "where": lambda x: torch.where(rows(x), x, 0),
    "masked_fill": lambda x: x.masked_fill(rows(x), 0),
    "pad": lambda x: torch.nn.functional.pad(x, (1, 0)),
    "slice_scatter": lambda x: torch.slice_scatter(x, x[:1], 0, 1, 2),
    "select_scatter": lambda x: torch.select_scatter(x, x[0], 0, 1),
}
# Each is exact, and none chooses between zeros of both signs.
COMPUTED: dict[str, Callable[[Tensor], Tensor]] = {
    "neg": torch.neg,
    "relu": torch.relu,
    "clamp": lambda x: x.clamp(1, 2),
    "maximum": lambda x: torch.maximum(x, torch.ones_like(x)),
    "there and back": lambda x: x.double().to(x.dtype),
}


@dataclass
class Program:
    dtype: torch.dtype
    steps: list[str]
    kept: list[int]  # after which steps the matrix is a result

    def exact(self) -> list[bool]:
        """For each result, whether its bits are those of eager mode."""
        return [all(map(self._keeps_bits, self.steps[: k + 1])) for k in self.kept]

    def _keeps_bits(self, step: str) -> bool:
        if self.dtype == torch.bool:
            return step in OPERATORS or step in VIEWS
        return self.dtype not in FLOATS or step in OPERATORS or step in VIEWS or step in MOVES


STEPS = OPERATORS | VIEWS | MOVES | CONVERTED | COMPUTED


def random_program(draw: random.Random) -> Program:
    dtype = draw.choice(FLOATS * 12 + DTYPES)
    others = [*VIEWS]
    if dtype in [*FLOATS, *INTS, torch.bool]:  # for others Inductor lacks code for some steps
        others += MOVES
    if dtype in FLOATS + INTS:
        others += [*CONVERTED, *COMPUTED]
    steps = [draw.choice([*OPERATORS] if draw.random() < 0.3 else others) for _ in range(draw.randint(1, 4))]
    steps.insert(draw.randint(0, len(steps)), draw.choice([*OPERATORS]))
    # From other NaNs, other bits would make other values.
    exact = [True, *Program(dtype, steps, list(range(len(steps)))).exact()]
    steps = [step for step, bits in zip(steps, exact[:-1], strict=True) if bits or step != "other bits"]
    return Program(dtype, steps, sorted({len(steps) - 1, draw.randrange(len(steps))}))


def in_step(programs: Sequence[Program], inputs: Sequence[Tensor]) -> list[list[Tensor]]:
    """All take their first step before any takes its second, and operators go first.

    What is generated between two calls of kernels is a file, and each takes seconds to compile.
    """
    values, results = [*inputs], [[] for _ in programs]
    for k in range(max(len(program.steps) for program in programs)):
        walking = [n for n, program in enumerate(programs) if k < len(program.steps)]
        for n in sorted(walking, key=lambda n: programs[n].steps[k] not in OPERATORS):
            values[n] = STEPS[programs[n].steps[k]](values[n])
            if k in programs[n].kept:
                results[n].append(values[n])
    return results


def compiled(f: Callable[..., Any], mode: str, *arguments: Any) -> Any:
    torch._dynamo.reset()
    with (
        dml.set_fusion(mode),
        inductor_config.patch(fx_graph_cache=False),
        functorch_config.patch(enable_autograd_cache=False),
    ):
        return torch.compile(f, fullgraph=True, dynamic=False)(*arguments)


def backwards(x: Tensor) -> Tensor:
    return dml.index(x)[::-1]


def copy(x: Tensor, q: Tensor) -> None:
    q.copy_(backwards(x))


def assign(x: Tensor, q: Tensor) -> None:
    q[:] = backwards(x)


# Of an input and another one to write to.
STORED: dict[str, Callable[[Tensor, Tensor], Tensor | None]] = {
    "q.copy_(op(x))": copy,
    "q[:] = op(x)": assign,
    "x[::-1] = x": lambda x, q: turn_round(x),
    "op(x.t().contiguous())": lambda x, q: backwards(x.t().contiguous()),
    "op(x).t().contiguous()": lambda x, q: backwards(x).t().contiguous(),
    "-op(x)": lambda x, q: -backwards(x),
    "cat of op(x) twice": lambda x, q: (lambda y: torch.cat([y, y], 1))(backwards(x)),
    "op(x) as integers": lambda x, q: other_bits(backwards(x)),
}


def test_what_is_stored_keeps_its_bits_by_the_rule() -> None:
    """Each is of a size that is fused where the bits allow it."""

    def f(xs: list[Tensor], qs: list[Tensor]) -> list[Tensor | None]:
        return [call(x, q) for call, x, q in zip(calls, xs, qs, strict=True)]

    def outcomes(f: Callable[..., list[Tensor | None]]) -> list[tuple[Tensor, ...]]:
        xs = [every_pattern(dtype) for _ in STORED for dtype in FLOATS]
        qs = [torch.zeros_like(x) for x in xs]
        results = f(xs, qs)
        return [(x, q) if y is None else (x, q, y) for x, q, y in zip(xs, qs, results, strict=True)]

    calls = [call for call in STORED.values() for _ in FLOATS]
    names = [f"{name}, {dtype}" for name in STORED for dtype in FLOATS]
    actual, expected = outcomes(lambda xs, qs: compiled(f, "rule", xs, qs)), outcomes(f)
    assert [n for n, a, e in zip(names, actual, expected, strict=True) if not all(map(same_bits, a, e))] == []


# Enough for a few seconds; `make test-random` tries many more.
@pytest.mark.parametrize("batch", range(max(1, EXAMPLES // 50 - 1)))
def test_random_programs(batch: int) -> None:
    draw = random.Random(f"{SEED} {batch}")
    programs = [random_program(draw) for _ in range(PROGRAMS)]
    inputs = [every_pattern(program.dtype) for program in programs]

    def f(inputs: list[Tensor]) -> list[list[Tensor]]:
        return in_step(programs, inputs)

    wrong = []
    mode = ("always", "rule", "never")[batch % 3]  # "never": the steps keep bits, or not, as is said of them
    for program, actual, expected in zip(programs, compiled(f, mode, inputs), f(inputs), strict=True):
        same = [
            same_bits(a, e) if exact else same_values(a, e)
            for exact, a, e in zip(program.exact(), actual, expected, strict=True)
        ]
        wrong += [] if all(same) else [program]
    assert wrong == []
