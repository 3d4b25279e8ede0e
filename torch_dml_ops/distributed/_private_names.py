"""The names that the rules take from torch, which does not promise to keep them; `missing` says which one it lacks."""

import torch
import torch.autograd.forward_ad as forward_ad
from torch.distributed.tensor import DTensor

__all__ = [
    "AsyncCollectiveTensor",
    "DTensorSpec",
    "TensorMeta",
    "_are_functorch_transforms_active",
    "_get_tracing_state",
    "_len_torch_dispatch_stack",
    "_len_torch_dispatch_stack_pre_dispatch",
    "_len_torch_function_stack",
    "all_reduce",
    "all_to_all_single",
    "missing",
    "require",
]

missing: Exception | None = None
try:
    from torch._C import (
        _are_functorch_transforms_active,
        _get_tracing_state,
        _len_torch_dispatch_stack,
        _len_torch_function_stack,
    )
    from torch._ops import _len_torch_dispatch_stack_pre_dispatch
    from torch.distributed._functional_collectives import AsyncCollectiveTensor, all_reduce, all_to_all_single
    from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta

    for owner, name in (
        (DTensor, "_local_tensor"),
        (DTensor, "_spec"),
        (DTensor._op_dispatcher, "_allow_implicit_replication"),
        (forward_ad, "_current_level"),
    ):
        getattr(owner, name)
except (ImportError, AttributeError) as error:
    missing = error


def require(op: str) -> None:
    if missing is not None:
        raise RuntimeError(
            f"{op}: DTensors need a torch with the names that their rules are built on, got {torch.__version__} "
            f"({missing}); call to_local() for this rank's part, or full_tensor()"
        )
