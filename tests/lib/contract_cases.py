"""What the tests of the contract are made of: calls, forms of the operators, and what they must refuse."""

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import signature
from types import FrameType
from typing import Any

import numpy as np
import oracle
import pytest
import torch
from backends import DEVICE, Backend, backends
from oracle import as_list
from torch import Tensor

import torch_dml_ops as dml

Make = Callable[..., Tensor]  # (*sizes, dtype=float32) -> a tensor whose elements differ, on the device under test


def maker(device: str) -> Make:
    def make(*sizes: int, dtype: torch.dtype = torch.float32) -> Tensor:
        count = math.prod(sizes) * dtype.itemsize
        memory = np.arange(1, count + 1).astype(np.uint8)
        return oracle.tensor(memory.view(oracle.ITEMS[dtype.itemsize]).reshape(sizes), dtype, device)

    return make


def tensors_in(values: Any) -> list[Tensor]:
    return [t for value in as_list(values) for t in as_list(value) if isinstance(t, Tensor)]


def lengths_of(numbers: object, dtype: torch.dtype, device: str) -> Tensor:
    array = np.asarray(numbers, str(dtype).removeprefix("torch."))
    return oracle.tensor(array, dtype, device)


# One call of each operator with a single result of sizes [2, 3].
CALLS = {
    "slice1": lambda t, **kind: (t(4, 3, **kind), [0, 0], [4, 3], [-2, 1]),
    "slice_grad": lambda t, **kind: (t(1, 3, **kind), [2, 3], [0, 0], [2, 3], [-2, -1]),
    "split": lambda t, **kind: (t(2, 3, **kind), [3], 1),
    "join": lambda t, **kind: ([t(2, 1, **kind), t(2, 2, **kind)], 1),
    "reverse_subsequences": lambda t, **kind: (
        t(2, 3, **kind),
        lengths_of([[2], [3]], torch.int64, t(1).device),
        1,
    ),
}
OPS = tuple(CALLS)
FIRST = {op: {"slice_grad": "grad_output", "join": "inputs[0]"}.get(op, "input") for op in OPS}  # their first tensors

every_op = pytest.mark.parametrize("op", OPS)
every_dtype = pytest.mark.parametrize("dtype", oracle.DTYPES, ids=lambda dtype: str(dtype).removeprefix("torch."))


def one_length(x: Tensor, axis: int, length: int) -> Tensor:
    """The same length everywhere."""
    sizes = [1 if d == axis else size for d, size in enumerate(x.shape)]
    return torch.full(sizes, length, dtype=torch.int64, device=x.device)


def same_sizes(x: Tensor, axis: int, stride: int = 1, length: int = 1) -> dict[str, tuple[Any, ...]]:
    """A call of each operator on x with one result, which has the sizes of x."""
    window = [0] * x.dim(), x.shape, [stride] * x.dim()
    return {
        "slice1": (x, *window),
        "slice_grad": (x, x.shape, *window),
        "split": (x, [x.shape[axis]], axis),
        "join": ([x], axis),
        "reverse_subsequences": (x, one_length(x, axis, length), axis),
    }


def named(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


# A split into several pieces.
SEVERAL = {**CALLS, "split": lambda t: (t(2, 3), [1, 1, 1], 1)}


def given_as_out(op: str, out: Tensor) -> Any:
    return [out] if op == "split" else out


def assert_right(results: Any, op: str, arguments: tuple[Any, ...]) -> None:
    wanted = as_list(oracle.expected(op, *arguments))
    results = as_list(results)
    assert len(results) == len(wanted)
    for result, want in zip(results, wanted, strict=True):
        assert oracle.equal(result, want)


def assert_written(call: Callable[..., Any], op: str, arguments: Any, outs: Sequence[Tensor]) -> None:
    """With `out`, all bytes of its storages are what they should be, those beside its elements too."""
    memory = {out.untyped_storage()._cdata: oracle.storage_bytes(out) for out in outs}
    wanted = as_list(oracle.expected(op, *arguments))
    call(*arguments, out=list(outs) if op == "split" else outs[0])
    for out, want in zip(outs, wanted, strict=True):
        key = out.untyped_storage()._cdata
        block = oracle.Block(memory[key], out.dtype, tuple(out.shape), out.stride(), out.storage_offset())
        memory[key] = block.written(want)
    for out in outs:
        assert oracle.storage_bytes(out).tobytes() == memory[out.untyped_storage()._cdata].tobytes()


# Forms of the operators that refuse alike.


class PackageFunctions(Backend):
    def __call__(self, op: str, *arguments: Any, out: Any = None) -> Any:
        return getattr(dml, op)(*arguments) if out is None else getattr(dml, op)(*arguments, out=out)


PACKAGE = (Backend("operators", DEVICE), PackageFunctions("functions", DEVICE))
FORMS = (*backends(), PACKAGE[1], Backend("meta", "meta"), PackageFunctions("functions, meta", "meta"))
every_form = pytest.mark.parametrize("form", FORMS, ids=str)


def assert_refused(form: Backend, message: str, op: str, *arguments: Any, out: Any = None) -> None:
    """The call raises this sentence as a RuntimeError, and writes nothing."""
    tensors = [t for t in tensors_in([*arguments, out]) if t.device.type != "meta"]
    before = [oracle.storage_bytes(t).tobytes() for t in tensors]
    shapes = [t.shape for t in tensors]
    with pytest.raises(RuntimeError) as caught:
        form(op, *arguments, out=out)
    assert str(caught.value) == message, f"got: {caught.value}"
    assert type(caught.value) is RuntimeError
    assert [oracle.storage_bytes(t).tobytes() for t in tensors] == before
    assert [t.shape for t in tensors] == shapes


@dataclass(frozen=True)
class Call:
    """A right call of a public function, its arguments by name."""

    function: str
    values: Callable[[Tensor], tuple[Any, ...]]  # of a 4 by 6 tensor

    def __str__(self) -> str:
        return self.function

    def arguments(self, x: Tensor) -> dict[str, Any]:
        return dict(zip(signature(getattr(dml, self.function)).parameters, self.values(x), strict=False))

    @property
    def linear(self) -> str:
        return next(iter(self.arguments(torch.zeros(4, 6))))

    def __call__(self, x: Tensor, **changed: Any) -> Any:
        return getattr(dml, self.function)(**{**self.arguments(x), **changed})


CALLS_BY_NAME = (
    Call("slice1", lambda x: (x, [0, 1], [4, 4], [-2, 1], [2, 3])),
    Call("slice_grad", lambda x: (x, [8, 7], [0, 1], [8, 6], [-2, 1])),
    Call("split", lambda x: (x, [1, 2, 3], 1)),
    Call("join", lambda x: ([x, 2 * x], 1)),
    Call("reverse_subsequences", lambda x: (x, torch.tensor([[2], [0], [6], [5]], device=x.device), 1)),
)


HELPERS: dict[str, Callable[[], dict[str, Any]]] = {
    "window": lambda: {"shape": (4, 6), "index": np.s_[::-1]},
    **dict.fromkeys(
        ("sequence_lengths_like", "reverse_sequence"),
        lambda: {"input": torch.zeros(2, 3, 4), "lengths": torch.tensor([1, 2]), "axis": 1, "batch_axis": 0},
    ),
    "index": lambda: {"input": torch.zeros(2, 3, 4)},
    "negative_steps": lambda: {"function": torch.add},
    "set_fusion": lambda: {"mode": "rule"},
    "get_fusion": dict,
}


def instructions(call: Callable[[], object]) -> int:
    """How many the interpreter carries out."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    for _ in range(2):  # Python 3.12 reports no instructions to the first trace of a process
        count = 0
        sys.settrace(trace)
        try:
            call()
        finally:
            sys.settrace(before)
    return count


# What has no strides, and the rest of the sentence that refuses it.
LAYOUTS_WITHOUT_STRIDES: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "sparse_coo": (Tensor.to_sparse, "must have strides, got layout sparse_coo; call to_dense() first"),
    "sparse_csr": (Tensor.to_sparse_csr, "must have strides, got layout sparse_csr; call to_dense() first"),
    "mkldnn": (Tensor.to_mkldnn, "must have strides, got layout mkldnn; call to_dense() first"),
    "quantized": (
        lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8),
        "must not be quantized; call dequantize() or int_repr() first",
    ),
    "nested": (
        lambda x: torch.nested.nested_tensor([x, x]),
        "must not be a nested tensor; call to_padded_tensor(0.0) or unbind() first",
    ),
    "jagged": (
        lambda x: torch.nested.nested_tensor([x, x], layout=torch.jagged),
        "must not be a nested tensor; call to_padded_tensor(0.0) or unbind() first",
    ),
}
