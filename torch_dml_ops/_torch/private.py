"""The names that torch does not promise to keep: what each is for, and what falls away on a torch without it.

They are looked up here and nowhere else, section by section, when a section is first asked for: Inductor and DTensors
take long to import. A section is used whole or not at all, and nothing else changes. Every torch from 2.11 on, the
oldest that the package is built for, has all of them up to now, unless it says otherwise.

Attributes of values, `_spec` of a DTensor for example, are in the table too, and read where the values are.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from importlib import import_module
from typing import Any

import torch
import torch.autograd.forward_ad as forward_ad


def _found(path: str) -> Any:
    """What has this path, whose modules are imported if need be."""
    value: Any = torch
    parts = path.split(".")
    for k, name in enumerate(parts[1:], 2):
        if not hasattr(value, name) and isinstance(value, type(torch)):
            with suppress(ModuleNotFoundError):
                import_module(".".join(parts[:k]))
        value = getattr(value, name)
    return value


class Section:
    """Names that are used together, each as an attribute; to be read once `missing` is known to be empty."""

    def __init__(self, without: str, names: dict[str, str]) -> None:
        self.without = without  # what falls away
        self.names = names  # what each path is for

    @cached_property
    def missing(self) -> str:
        """The first name that this torch lacks, or nothing."""
        for path in self.names:
            try:
                setattr(self, path.rpartition(".")[2], _found(path))
            except (AttributeError, ImportError):
                return path
        return ""

    def need(self) -> None:
        """Raises AttributeError where a name is missing."""
        if self.missing:
            raise AttributeError(self.missing)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{name} of this section has not been looked up")


DERIVATIVES = Section(
    "derivatives beyond the first, and torch.func: torch.library.register_autograd serves, and a warning says so",
    {
        "torch._C._AutoDispatchBelowAutograd": "calls the operator below the Autograd key",
        "torch._C._after_autograd_keyset": "the keys below it, to redispatch to",
        "torch._C.DispatchKey.Conjugate": "the key of lazily conjugated tensors, which rules of subclasses resolve",
        "torch._C.DispatchKey.Negative": "the same of negated ones",
        "torch._C._AutoDispatchBelowADInplaceOrView": "calls `out` below the key that counts writes",
        "torch._C._after_ADInplaceOrView_keyset": "the keys below that one",
        "torch._C._are_functorch_transforms_active": "whether a transform of torch.func needs the derivative",
        "torch._C._functorch.get_single_level_autograd_function_allowed": "what to restore after a recorded call",
        "torch._C._functorch.set_single_level_autograd_function_allowed": "lets a single-level Function be applied",
        "torch.autograd.forward_ad._set_fwd_grad_enabled": "keeps forward mode on inside of a Function",
        "torch.autograd.forward_ad._current_level": "whether forward mode is on",
        "torch.autograd.function._SingleLevelFunction": "the Function that transforms compose with",
        "torch.autograd.function._SingleLevelFunction._backward_cls": "the class of its nodes, with their name",
        "torch.autograd.function._SingleLevelFunction._backward_cls._autograd_function_id": "compiled autograd's key",
    },
)

SHORT_WAY = Section(
    "the short way: every call goes the ordinary one",
    {
        "torch.utils._device.DeviceContext": "the mode of torch.set_default_device, which changes no call",
        "torch._ops._mode_stack_state_for_pre_dispatch._ModeStackStateForPreDispatch__infra_modes": (
            "whether a mode of tracing before dispatch is on"
        ),
        "torch.autograd.forward_ad._current_level": "whether forward mode is on",
        "torch.library._impls": "whether somebody else registered a kernel for an operator",
        "torch._C._len_torch_dispatch_stack": "whether a mode for dispatch is on",
        "torch._C._are_functorch_transforms_active": "whether a transform of torch.func is at work",
        "torch._C._get_tracing_state": "whether torch.jit traces",
        "torch._C._len_torch_function_stack": "how many modes for torch functions are on",
        "torch._C._get_function_stack_at": "which ones, as some are harmless",
        "torch._C._dispatch_tls_is_dispatch_key_excluded": "whether the call is below autograd",
        "torch._C.DispatchKey.AutogradFunctionality": "the key that is asked for",
        "torch._C.DispatchKey.ADInplaceOrView": "whether the call is below what counts writes",
        "torch._C._functorch.is_functorch_wrapped_tensor": "whether a tensor is a transform's",
        "torch._C._aoti.unsafe_alloc_void_ptr_from_tensor": "a tensor for the stable ABI",
        "torch._C._aoti.alloc_tensor_by_stealing_from_void_ptr": "a tensor from it",
        "torch._C.TensorBase._use_count": "whether that one takes ownership",
        "torch.ops.aten.add._op": "what a packet calls, for those that models call by torch.ops",
        "torch.ops.aten.add.Tensor._op": "what an overload calls",
        "torch.ops.aten.add._overload_names": "hides the overloads of the short way",
        "torch.jit._builtins._register_builtin": "tells TorchScript what a packet calls",
        "torch._C._increment_version": "counts writes into `out`",
    },
)

RESUMED = Section(
    "negative_steps on a generator that suspends within another mode for torch functions: that mode is left early",
    {
        "torch._C._len_torch_function_stack": "how many modes are on",
        "torch._C._pop_torch_function_stack": "takes off those that the generator has entered",
        "torch._C._push_on_torch_function_stack": "puts them back",
    },
)

CHECK = Section(
    "checks of sizes that depend on data: they raise at once",
    {"torch._check": "a check that symbolic sizes keep for when their values are known"},
)

RESHAPE = Section(
    "writing to an index's result with new or dropped dimensions where grad mode has been switched on since",
    {"torch.ops.aten._unsafe_view.default": "other sizes for a result, without making it a view"},
)

STORAGE = Section(
    "refusing `out` that overlaps, for tensors without data; the kernels refuse it when it runs",
    {"torch.UntypedStorage._cdata": "which storage a tensor without data has"},
)

EXPORTING = Section(
    "telling torch.export from torch.compile: all that is compiled counts as exported, as in torch 2.11",
    {"torch.compiler._is_exporting_flag": "is read whenever sizes are compared; torch 2.11 lacks it"},
)

INDUCTOR = Section(
    "fusing: compiled functions call the kernels, and a warning says so",
    {
        "torch._inductor.ir": "Inductor's tensors: Pointwise, which a formula becomes, and what it may be wrapped in",
        "torch._inductor.ir.Pointwise.create": "a formula as a new buffer",
        "torch._inductor.ir.TensorBox": "a tensor",
        "torch._inductor.ir.StorageBox": "its memory",
        "torch._inductor.ir.BaseView": "a view of it",
        "torch._inductor.lowering._maybe_layout_constraints": "forgets the constraints of a compilation before",
        "torch._inductor.lowering.constrain_to_fake_tensor": "gives a kernel's inputs the strides of eager mode",
        "torch._inductor.lowering.fallback_handler": "the call of a kernel",
        "torch._inductor.lowering.lowerings": "Inductor's own formula for aten.cat",
        "torch._inductor.lowering.register_lowering": "registers a formula",
        "torch._inductor.sizevars.SizeVarAllocator.statically_known_true": "whether a condition on sizes holds",
        "torch._inductor.sizevars.SizeVarAllocator.optimization_hint": "an estimate of a size",
        "torch._inductor.virtualized.V": "the graph that is being lowered",
        "torch._inductor.virtualized.ops": "what formulas are made of",
        "torch.fx.experimental.symbolic_shapes.free_unbacked_symbols": "whether a size depends on data",
        "torch.utils._sympy.functions.FloorDiv": "division of indices",
        "torch.utils._sympy.functions.ModularIndexing": "remainders of indices",
    },
)

DTENSORS = Section(
    "DTensors: they are refused in one sentence",
    {
        "torch.distributed._functional_collectives.AsyncCollectiveTensor": "a result that has to be waited for",
        "torch.distributed._functional_collectives.all_reduce": "tells all ranks of a refusal",
        "torch.distributed._functional_collectives.all_to_all_single": "the exchange of elements",
        "torch.distributed.tensor._dtensor_spec.DTensorSpec": "the placement of a result",
        "torch.distributed.tensor._dtensor_spec.TensorMeta": "the sizes and strides in it",
        "torch.distributed.tensor.DTensor._local_tensor": "this rank's part, without a node for autograd",
        "torch.distributed.tensor.DTensor._spec": "how a tensor is placed",
        "torch.distributed.tensor.DTensor._op_dispatcher": "torch's rules for DTensors",
        "torch.distributed.tensor.DTensor._op_dispatcher._allow_implicit_replication": (
            "whether plain tensors count as replicated"
        ),
    },
)

ONNX = Section(
    "exporting without a table: a warning names the argument to pass",
    {"torch.onnx._internal.exporter._torchlib._torchlib_registry.onnx_impl": "makes the exporter know translations"},
)


def in_forward_mode() -> bool:
    return forward_ad._current_level >= 0
