"""The short way from Python to the operators, for plain tensors: csrc/python/fast_calls.cpp, set up for this torch.

A function of it takes what the operator takes, and `out` or None. It gives the result, where all is plain: tensors, not
of a subclass, on a device with kernels; no mode, transform or tracing; numbers that are ints; and nothing that the
operator refuses. It gives None for all else, which goes the ordinary way.

It uses names that are private to torch. On a torch that lacks one of them, everything goes the ordinary way, and
`available` is False.
"""

from __future__ import annotations

import ctypes
import importlib
from types import SimpleNamespace
from typing import Any

import torch
import torch.autograd.forward_ad as forward_ad

from torch_dml_ops._libraries import CPU_LIBRARY, CUDA_LIBRARY, cuda_kernels_loaded

OPERATORS = ("slice1", "slice_grad", "split", "join", "reverse_subsequences")
JOINS_OF_FEW = [f"join.fast_{count}" for count in (2, 3, 4)]


def _address(library: Any) -> int:
    """Where the library's operators look for the numbers of a call."""
    return ctypes.cast(ctypes.CDLL(str(library)).torch_dml_ops_fast_call, ctypes.c_void_p).value or 0


def _takes_over() -> bool:
    """Whether alloc_tensor_by_stealing_from_void_ptr takes the handle over, as its name says.

    It does not in 2.11 to 2.15; then the handle has to be deleted after it, or every result stays in memory.
    """
    aoti: Any = torch._C._aoti
    tensor: Any = torch.empty(0, device="cpu")
    count = tensor._use_count()
    aoti.alloc_tensor_by_stealing_from_void_ptr(aoti.unsafe_alloc_void_ptr_from_tensor(tensor))
    return bool(tensor._use_count() == count)


def _set_up() -> Any:
    _fast_calls: Any = importlib.import_module("torch_dml_ops._fast_calls")
    private = torch._C
    assert forward_ad._current_level < 0  # it is looked up by this name
    _fast_calls.set_up(
        torch.Tensor,
        torch.nn.Parameter,
        torch.Size,
        (
            private._len_torch_function_stack,
            private._len_torch_dispatch_stack,
            private._are_functorch_transforms_active,
            private._get_tracing_state,
        ),
        vars(forward_ad),
        private._aoti.unsafe_alloc_void_ptr_from_tensor,
        private._aoti.alloc_tensor_by_stealing_from_void_ptr,
        _takes_over(),
        private._increment_version,
        _address(CPU_LIBRARY),
        _address(CUDA_LIBRARY) if cuda_kernels_loaded else 0,
    )
    for name in [f"{name}.{form}" for name in OPERATORS for form in ("fast", "fast_out")] + JOINS_OF_FEW:
        for key in ("Autograd", "ADInplaceOrView"):
            _library.impl(name, torch.library.fallthrough_kernel, key)
    return _fast_calls


_library = torch.library.Library("torch_dml_ops", "IMPL")


def not_plain(*arguments: Any) -> None:
    """What stands for a function that cannot be had: every call goes the ordinary way."""


nothing: Any = SimpleNamespace(
    **{name + form: not_plain for name in OPERATORS for form in ("", "_below")}, window=not_plain, index=not_plain
)
try:
    fast: Any = _set_up()
    available = True
except (ImportError, AttributeError):
    fast = nothing
    available = False
