"""The short way from Python to the operators, for plain tensors: csrc/python/fast_calls.cpp, set up for this torch.

Its functions, in `fast`, take the operator's arguments, and `out` or None. They return the result of a plain call:
tensors, not of a subclass, on a device with kernels; no mode, transform or tracing; numbers that are ints; no kernel
that somebody else registered for an operator; and nothing that the operator refuses. For every other call they return
None, and the caller goes the ordinary way, through torch.ops.

torch.ops.torch_dml_ops.slice1(…) and its overloads, as models and compiled code call them, try the short way too. They
call their `_op`, whose place a function in C takes that calls it where a call is not plain. (A subclass in the place of
an overload would not do: Inductor asks for the very type.)

It uses names that are private to torch. On a torch that lacks one of them, and in a build without Python's headers,
every call goes the ordinary way, and `is_set_up` is False.
"""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import torch
import torch.autograd.forward_ad as forward_ad

from torch_dml_ops._libraries import CPU_LIBRARY, CUDA_LIBRARY, cuda_kernels_loaded
from torch_dml_ops._operators.signature import Signature
from torch_dml_ops._torch.private import DERIVATIVES
from torch_dml_ops._torch.private import SHORT_WAY as private

# At these keys, the calls that go the short way would meet a kernel on the ordinary one.
_KEYS = (
    *("CPU", "CUDA", "Autograd", "AutogradCPU", "AutogradCUDA", "AutocastCPU", "AutocastCUDA", "BackendSelect"),
    *("ADInplaceOrView", "Conjugate", "Negative", "ZeroTensor", "Functionalize"),
)
# Kernels that somebody else may register, as torch.library names them.
foreign_kernels: set[str] = set()
# Modes for torch functions that do nothing to an operator, by their types.
harmless_modes: set[type] = set()
_library = torch.library.Library("torch_dml_ops", "IMPL")


def _takes_ownership() -> bool:
    """Whether alloc_tensor_by_stealing_from_void_ptr takes ownership of the handle, as its name says.

    In torch 2.11 to 2.15 it does not: the caller has to delete the handle, or every result stays in memory.
    """
    tensor: Any = torch.empty(0, device="cpu")
    count = tensor._use_count()
    private.alloc_tensor_by_stealing_from_void_ptr(private.unsafe_alloc_void_ptr_from_tensor(tensor))
    return bool(tensor._use_count() == count)


def names_of_torch() -> SimpleNamespace:
    """What csrc/python/plain.inl asks of torch."""
    return SimpleNamespace(
        tensor=torch.Tensor,
        parameter=torch.nn.Parameter,
        size=torch.Size,
        checks=(
            private._len_torch_dispatch_stack,
            private._are_functorch_transforms_active,
            private._get_tracing_state,
        ),
        count_modes=private._len_torch_function_stack,
        mode_at=private._get_function_stack_at,
        harmless_modes=harmless_modes,
        pre_dispatch_modes=private._ModeStackStateForPreDispatch__infra_modes,
        forward_ad=vars(forward_ad),  # in which it looks for _current_level
        registered=private._impls,
        foreign=foreign_kernels,
        is_excluded=private._dispatch_tls_is_dispatch_key_excluded,
        autograd_key=private.AutogradFunctionality,
        version_key=private.ADInplaceOrView,
        is_wrapped=private.is_functorch_wrapped_tensor,
        to_capsule=private.unsafe_alloc_void_ptr_from_tensor,
        from_capsule=private.alloc_tensor_by_stealing_from_void_ptr,
        takes_ownership=_takes_ownership(),
        increment_version=private._increment_version,
        cpu_library=str(CPU_LIBRARY),
        cuda_library=str(CUDA_LIBRARY) if cuda_kernels_loaded else None,
    )


def own_kernels_are_registered() -> None:
    """Takes the package's own off torch's list of kernels: one that replaces them is a foreign one, and adds to it."""
    if is_set_up:
        private._impls.difference_update(foreign_kernels)


def not_plain(*arguments: Any) -> None:
    """Takes the place of every function where the short way is not set up: every call goes the ordinary way."""


fast: Any = SimpleNamespace(window=not_plain, index=not_plain)
# By the operator's name: what makes calls that need a derivative, and what that calls with what it was given.
recorders: dict[str, Any] = {}
recorded: dict[str, Any] = {}
try:
    private.need()
    DERIVATIVES.need()  # by which calls are recorded
    fast_calls: Any = importlib.import_module("torch_dml_ops._fast_calls")
    fast_calls.set_up(names_of_torch())
    is_set_up = True
    fast.window, NotPlain = fast_calls.window, fast_calls.NotPlain
    harmless_modes.add(private.DeviceContext)  # that of torch.set_default_device
except (ImportError, AttributeError):
    is_set_up = False


def add(signature: Signature, recorder: Any) -> None:
    """Gives an operator its functions, and its packet and overloads those that try it first.

    Calls that need a derivative are made by `recorder`, of the numbers of a call and its tensors. It raises NotPlain if
    the call has to be made in the ordinary way.
    """
    name, packet = signature.name, signature.packet
    if not is_set_up:
        setattr(fast, name, not_plain)
        return
    foreign_kernels.update(f"torch_dml_ops/{name}{form}/{key}" for form in ("", ".out") for key in _KEYS)
    for overload in packet.overloads():
        if overload.startswith("fast"):
            for key in ("Autograd", "ADInplaceOrView"):
                _library.impl(f"{name}.{overload}", torch.library.fallthrough_kernel, key)
    recorders[name] = recorder
    entries = packet, signature.default, signature.out
    function, recorded[name], index, *replaced = fast_calls.functions_of(
        f"torch_dml_ops::{name}", signature.arguments, signature.gives_list, recorder, *(entry._op for entry in entries)
    )
    setattr(fast, name, function)
    if index is not None:
        fast.index = index
    for entry, function in zip(entries, replaced, strict=True):
        entry._op = function
    packet._overload_names = ["", "out"]  # not those that only the short way calls
    private._register_builtin(packet._op, f"torch_dml_ops::{name}")  # for TorchScript
