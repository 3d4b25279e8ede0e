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


def _address(library: Any) -> int:
    """Where the library's operators look for the numbers of a call."""
    return ctypes.cast(ctypes.CDLL(str(library)).torch_dml_ops_fast_call, ctypes.c_void_p).value or 0


def _set_up() -> Any:
    _fast_calls: Any = importlib.import_module("torch_dml_ops._fast_calls")
    private = torch._C
    assert forward_ad._current_level < 0  # it is looked up by this name
    _fast_calls.set_up(
        torch.Tensor,
        torch.nn.Parameter,
        (
            private._len_torch_function_stack,
            private._len_torch_dispatch_stack,
            private._are_functorch_transforms_active,
            private._get_tracing_state,
        ),
        vars(forward_ad),
        private._aoti.unsafe_alloc_void_ptr_from_tensor,
        private._aoti.alloc_tensors_by_stealing_from_void_ptrs,
        private._increment_version,
        _address(CPU_LIBRARY),
        _address(CUDA_LIBRARY) if cuda_kernels_loaded else 0,
    )
    for name in OPERATORS:
        for overload in ("fast", "fast_out"):
            _library.impl(f"{name}.{overload}", torch.library.fallthrough_kernel, "Autograd")
            _library.impl(f"{name}.{overload}", torch.library.fallthrough_kernel, "ADInplaceOrView")
    return _fast_calls


_library = torch.library.Library("torch_dml_ops", "IMPL")

# What stands for the functions where they cannot be had: everything goes the ordinary way.
nothing: Any = SimpleNamespace(
    **{name + form: lambda *arguments: None for name in OPERATORS for form in ("", "_below")}
)
try:
    fast: Any = _set_up()
    available = True
except (ImportError, AttributeError):
    fast = nothing
    available = False
