"""The cases of fused code: an operator before, after and without a computation, and programs of several operators."""

import itertools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from cases import BYTES
from torch import Tensor

import torch_dml_ops as dml

SIZES = {"1 KB": 1 << 10, "1 MB": 1 << 20, "16 MB": 16 << 20, **BYTES}  # in bytes

Operation = Callable[[Tensor], Any]
Function = Callable[..., object]


def _sliced(*strides: int, halved: bool = False) -> Operation:
    def operation(x: Tensor) -> Tensor:
        a, b, c = x.shape
        return dml.slice1(x, [0, 0, 0], [a, b, c // 2 if halved else c], strides)

    return operation


def _spread(x: Tensor) -> Tensor:
    a, b, c = x.shape
    return dml.slice_grad(x, [a, 2 * b, c], [0, 0, 0], [a, 2 * b, c], [1, -2, 1])


def _joined(x: Tensor) -> Tensor:
    half = x.shape[0] // 2
    return dml.join([x[:half], x[half:]], 2)


def _joined_after(f: Operation) -> Operation:
    """What is joined is computed by two formulas, not by one that both parts are taken from."""
    return lambda x: dml.join([f(x[: x.shape[0] // 2]), f(x[x.shape[0] // 2 :])], 2)


def _reversed(x: Tensor) -> Tensor:
    n, size, inner = x.shape
    lengths = (torch.arange(n, device=x.device) * 7919 % (size + 1)).reshape(n, 1, 1)
    return dml.reverse_subsequences(x, lengths.expand(n, 1, inner), 1)


OPERATIONS: dict[str, Operation] = {
    "window, last axis halved": _sliced(1, 1, 1, halved=True),
    "stride -1, last axis": _sliced(1, 1, -1),
    "stride 2, last axis": _sliced(1, 1, 2),
    "stride -2, middle axis": _sliced(1, -2, 1),
    "slice_grad, stride -2, middle axis": _spread,
    "split last axis in 2": lambda x: dml.split(x, [x.shape[2] // 2] * 2, 2),
    "join last axis of 2": _joined,
    "reverse axis 1, a length per batch item": _reversed,
}


def _each(f: Operation, result: Any) -> Any:
    return [f(y) for y in result] if isinstance(result, list) else f(result)


def _before(name: str, f: Operation) -> Operation:
    operation = OPERATIONS[name]
    return _joined_after(f) if operation is _joined else lambda x: operation(f(x))


# The operator before a computation, after one, and alone.
FORMS: dict[str, Callable[[str], Operation]] = {
    "relu(op * 2 + 1)": lambda name: lambda x: _each(lambda y: (y * 2 + 1).relu(), OPERATIONS[name](x)),
    "op(relu)": lambda name: _before(name, torch.relu),
    "mean(op * 2)": lambda name: lambda x: _each(lambda y: (y * 2).mean(), OPERATIONS[name](x)),
    "softmax(op)": lambda name: lambda x: _each(lambda y: y.softmax(-1), OPERATIONS[name](x)),
    "op": lambda name: OPERATIONS[name],
}


@dataclass(frozen=True)
class Case:
    name: str  # of OPERATIONS, or of PROGRAMS
    form: str  # of FORMS, or "program"
    size: str
    dtype: str = "float32"
    threads: int = 1  # none on a GPU

    @property
    def key(self) -> str:
        parts = [f"{self.form}: {self.name}", self.size, self.dtype if self.dtype != "float32" else ""]
        parts.append(f"{self.threads} thread{'s' * (self.threads > 1)}" if self.threads else "")
        return ", ".join(filter(None, parts))

    def function(self, device: str = "cpu") -> tuple[Function, list[Tensor]]:
        """What is compiled, and its arguments."""
        if self.form == "program":
            return PROGRAMS[self.name]()
        dtype = getattr(torch, self.dtype)
        elements = SIZES[self.size] // dtype.itemsize
        inner = 128 if elements <= 1 << 15 else 512
        shape = (elements // inner // 16, 16, inner) if elements >= 32 * inner else (2, 2, elements // 4)
        return FORMS[self.form](self.name), [torch.randn(shape, device=device).to(dtype)]


# Programs: functions that are longer than one operator and its neighbour.


def _between_matmuls() -> tuple[Function, list[Tensor]]:
    def f(x: Tensor, w: Tensor) -> Tensor:
        return dml.slice1(x @ w, [0, 0, 0], x.shape, [1, -1, 1]) @ w

    return f, [torch.randn(16, 64, 256), torch.randn(256, 256)]


def _step(model: torch.nn.Module, *inputs: Tensor) -> tuple[Function, list[Tensor]]:
    """Forward and backward."""

    def step(*inputs: Tensor) -> Tensor:
        loss: Tensor = model(*inputs).square().mean()
        return loss

    return step, list(inputs)


class _Bidirectional(torch.nn.Module):
    """Two layers, one of which reads backwards, and what a training step makes of all five operators."""

    def __init__(self) -> None:
        super().__init__()
        self.there, self.back, self.out = (torch.nn.Linear(n, m) for n, m in ((64, 64), (64, 64), (128, 64)))

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        back = dml.reverse_sequence(self.back(dml.reverse_sequence(x, lengths, axis=1)).tanh(), lengths, axis=1)
        gates, values = dml.split(self.out(dml.join([self.there(x).tanh(), back], 2)), [32, 32], 2)
        every_second: Tensor = dml.index(gates.sigmoid() * values)[:, ::-2]
        return every_second


def _training_step() -> tuple[Function, list[Tensor]]:
    return _step(_Bidirectional(), torch.randn(16, 64, 64), torch.arange(16) * 4)


def _gru() -> tuple[Function, list[Tensor]]:
    sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
    from japanese_vowels import BidirectionalGRU

    return _step(BidirectionalGRU(12, 64), torch.randn(30, 8, 12), torch.arange(30) % 8 + 1)


def _sixteen_elements() -> tuple[Function, list[Tensor]]:
    return _sliced(1, -1, 1), [torch.randn(1, 4, 4)]


PROGRAMS = {
    "between matmuls": _between_matmuls,
    "training step": _training_step,
    "bidirectional GRU": _gru,
    "a call on 16 elements": _sixteen_elements,
}
# Functions of torch's own that do as much as a program.
PEERS: dict[str, Operation] = {"a call on 16 elements": lambda x: x.flip(1)}


AROUND = ["relu(op * 2 + 1)", "op(relu)", "mean(op * 2)"]  # the forms that are measured at every size


def gpu_cases() -> list[Case]:
    return [Case(n, f, s, threads=0) for s, f, n in itertools.product(("16 MB", "128 MB"), AROUND, OPERATIONS)]


def cpu_cases(threads: int) -> list[Case]:
    """With one thread every operator in every form and size that matters; with more, a part."""
    names = list(OPERATIONS)
    programs = [Case(name, "program", "", threads=threads) for name in PROGRAMS]
    cases = [Case(n, f, "4 MB", threads=threads) for n in names for f in FORMS if f != "op"]
    if threads > 1:
        return cases + [Case(n, "relu(op * 2 + 1)", "16 MB", threads=threads) for n in names] + programs
    cases += [Case(n, f, s) for n, f, s in itertools.product(names, AROUND, ("64 KB", "1 MB", "16 MB", "128 MB"))]
    cases += [Case(n, "op", s) for n in names for s in ("1 KB", "64 KB")]
    cases += [Case(n, f, "4 MB", "float16") for n in names for f in AROUND]
    return cases + [Case(n, "relu(op * 2 + 1)", "64 KB", "float16") for n in names] + programs
