"""The Triton code that Inductor generates for the operators, run by NumPy: neither a GPU nor Triton is needed."""

import operator
import re
from collections.abc import Callable, Iterator
from functools import partialmethod
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import plain_torch
import pytest
import torch
from torch import Tensor
from torch._inductor import config as inductor_config
from torch._inductor.utils import get_code
from transform_cases import values

import torch_dml_ops as dml

SIZES = (4, 32, 128)
WHOLE = [0, 0, 0], SIZES
WARP, SECTOR = 32, 8  # threads, and elements of 4 bytes

# A function of a (4, 32, 128) float32 tensor and of lengths, and how many times as many sectors of memory as are needed
# a warp's loads may touch.
FUNCTIONS: dict[str, tuple[Callable[[Any, Tensor, Tensor], Tensor], float]] = {
    "slice1, stride -1": (lambda ops, x, _: ops.slice1(x.relu(), *WHOLE, [1, 1, -1]) * 2, 1),
    "slice1, stride 2": (lambda ops, x, _: ops.slice1(x, *WHOLE, [1, -1, 2]) * 2, 2),  # every second is skipped
    "slice_grad, middle axis": (
        lambda ops, x, _: ops.slice_grad(x * 2, [4, 64, 128], [0, 0, 0], [4, 64, 128], [1, -2, 1]) + 1,
        1,
    ),
    "slice_grad, last axis": (
        lambda ops, x, _: ops.slice_grad(x * 2, [4, 33, 259], [0, 1, 2], [4, 32, 256], [1, 1, 2]) + 1,
        1.5,  # rows begin within sectors
    ),
    "split": (lambda ops, x, _: (lambda a, b: a * b)(*ops.split(x * 2, [64, 64], 2)), 1),
    "join, last axis": (lambda ops, x, _: ops.join([x.relu(), x + 1], 2) * 2, 1),
    "join, middle axis": (lambda ops, x, _: ops.join([x.relu(), x + 1, -x], 1) * 2, 1),
    "reverse_subsequences": (lambda ops, x, lengths: ops.reverse_subsequences(x, lengths, 1) * 2 + 1, 1),
}


@pytest.fixture(autouse=True)
def triton_for_the_cpu(monkeypatch: pytest.MonkeyPatch, uncached_compiler: None) -> Iterator[None]:
    """On the CPU, Inductor has to be told to join as it does on a GPU. Its own processes end where there is no Triton,
    and with them what is compiled later."""
    monkeypatch.setattr("torch.utils._triton.triton_hash_with_backend", lambda: "")
    pretended = {"cpu_backend": "triton", "force_pointwise_cat": True, "compile_threads": 1}
    with inductor_config.patch(pretended), dml.set_fusion("always"):
        yield


class Value(np.ndarray):  # type: ignore[type-arg]
    def to(self, dtype: Any) -> "Value":
        return self.astype(dtype)


class Pointer:
    def __init__(self, memory: Any, index: Any = None) -> None:
        self.memory, self.index = memory, index

    def __add__(self, index: Any) -> "Pointer":
        assert index.dtype == np.int32
        return Pointer(self.memory, index)


class Language:
    """Triton's language, and Inductor's helpers, for one program that has a thread for every element."""

    int1, int32, int64, float32, constexpr = np.bool_, np.int32, np.int64, np.float32, None
    PropagateNan = SimpleNamespace(ALL=None)

    def __init__(self) -> None:
        self.touched: list[float] = []  # of each load, how many times the sectors that are needed

    def program_id(self, axis: int) -> np.int32:
        return np.int32(0)

    def arange(self, start: int, end: int) -> Value:
        return np.arange(start, end, dtype=np.int32).view(Value)

    def full(self, shape: Any, value: Any, dtype: Any) -> Value:
        return np.full(shape, value, dtype).view(Value)

    def where(self, condition: Any, a: Any, b: Any) -> Value:
        return np.where(condition, a, b).view(Value)

    def maximum(self, a: Any, b: Any, *_: Any, choose: Any = np.maximum) -> Value:
        return choose(a, b).astype(b.dtype).view(Value)

    minimum = partialmethod(maximum, choose=np.minimum)
    div_floor_integer = staticmethod(operator.floordiv)

    def load(self, pointer: Pointer, mask: Any, other: float = 0.0, eviction_policy: str = "") -> Value:
        active = np.full(pointer.index.shape, True) if mask is None else mask
        warps = zip(pointer.index.reshape(-1, WARP), active.reshape(-1, WARP), strict=True)
        sectors = sum(len(np.unique(index[on] // SECTOR)) for index, on in warps)
        self.touched.append(sectors / (active.sum() / SECTOR))
        loaded = np.where(active, pointer.memory[np.where(active, pointer.index, 0)], other)
        return loaded.astype(pointer.memory.dtype).view(Value)

    def store(self, pointer: Pointer, value: Any, mask: Any) -> None:
        assert (np.diff(pointer.index) == 1).all()
        active = slice(None) if mask is None else mask
        pointer.memory[pointer.index[active]] = value[active]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_kernel_with_coalesced_loads_and_indices_of_32_bits(on_cpu: None, name: str) -> None:
    function, limit = FUNCTIONS[name]
    x, lengths = values(SIZES, torch.float32), torch.tensor([0, 7, 32, 40], dtype=torch.int32)
    shaped = lengths.reshape(4, 1, 1).expand(4, 1, 128)

    def f(ops: ModuleType, x: Tensor, lengths: Tensor) -> Tensor:
        return function(ops, x, lengths)

    code = "".join(get_code(torch.compile(lambda x, n: f(dml, x, n), fullgraph=True), x, shaped))
    assert " = torch.ops.torch_dml_ops." not in code
    [kernel] = re.findall(r"@triton.jit\n(def .*?)'''", code, re.DOTALL)
    if "join" not in name:  # Inductor's cat compares 64 bits, which Triton narrows
        assert "int64" not in kernel

    [(called, arguments)] = re.findall(r"(\w+)\.run\((.*), stream=", code)
    *tensors, count = arguments.split(", ")
    expected = f(plain_torch, x, shaped)
    memory = {
        "arg0_1": x.numpy().ravel(),
        "arg1_1": lengths.numpy(),
        "buf0": np.full(expected.numel(), np.nan, np.float32),
    }
    language = Language()
    scope: dict[str, Any] = {"tl": language, "triton_helpers": language}
    exec(kernel, scope)
    scope[called](*(Pointer(memory[tensor]) for tensor in tensors), int(count), -(-int(count) // WARP) * WARP)
    assert np.array_equal(memory["buf0"], expected.numpy().ravel())
    assert max(language.touched) <= limit
