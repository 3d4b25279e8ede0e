"""Calls on DTensors, by the rules that torch's dispatcher finds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, Replicate

from torch_dml_ops._operators.signature import Signature
from torch_dml_ops._torch.private import DTENSORS as private
from torch_dml_ops.distributed._placements import Placements
from torch_dml_ops.distributed._plans import plan, spec_like

_CARRIERS = {1: torch.uint8, 2: torch.bfloat16, 4: torch.int32, 8: torch.int64}  # dtypes that every backend can send


def require_names(op: str) -> None:
    if private.missing:
        raise RuntimeError(
            f"{op}: DTensors need a torch with the names that their rules are built on, got {torch.__version__} "
            f"(without {private.missing}); call to_local() for this rank's part, or full_tensor()"
        )


def _part(x: DTensor) -> Tensor:
    """This rank's part, resolved: within a rule, torch's dispatcher takes lazily conjugated views for plain tensors."""
    return x._local_tensor.resolve_conj().resolve_neg()


def _redistributed(x: DTensor, placements: Placements) -> Tensor:
    """This rank's part of `x` when it is placed so."""
    carrier = _CARRIERS.get(x.element_size(), x.dtype)
    if any(p.is_partial() for p in x.placements):
        carrier = x.dtype  # it is to be reduced
    spec = spec_like(x, x.placements, private.TensorMeta(x.shape, x.stride(), carrier))
    bits = _wrapped(_part(x).detach().view(carrier), spec)
    return bits.redistribute(placements=placements)._local_tensor.view(x.dtype)


def run(signature: Signature, tensors: Sequence[DTensor], numbers: tuple[Any, ...]) -> list[DTensor]:
    placed, steps, specs = plan(signature, tensors, numbers)
    local = [
        _part(t) if t._spec.placements == placements else _redistributed(t, placements)
        for t, placements in zip(tensors, placed, strict=True)
    ]
    for step in steps:
        local = step(local)
    return [_wrapped(t, spec) for t, spec in zip(local, specs, strict=True)]


def _wrapped(local: Tensor, spec: Any) -> DTensor:
    return DTensor.__new__(DTensor, local, spec, requires_grad=False)  # __init__ does nothing, and takes as long again


def require_dtensors(op: str, named: Sequence[tuple[str, Any]]) -> list[DTensor]:
    """The tensors, if all are DTensors on one mesh."""
    first_name, first = next((n, t) for n, t in named if isinstance(t, DTensor))
    mesh = first.device_mesh
    tensors = []
    for argument, t in named:
        if not isinstance(t, DTensor):
            if not private._op_dispatcher._allow_implicit_replication:
                raise RuntimeError(
                    f"{op}: {argument} must be a DTensor, as {first_name} is, got a plain tensor; call "
                    "distribute_tensor on it, or implicit_replication if every rank has it whole"
                )
            t = DTensor.from_local(t, mesh, [Replicate()] * mesh.ndim, run_check=False)
        if t.device_mesh != mesh:
            raise RuntimeError(f"{op}: {argument} must be on the mesh of {first_name}, {mesh}, got {t.device_mesh}")
        tensors.append(t)
    return tensors


def rule(signature: Signature) -> Callable[..., Any]:
    def rule(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        tensors = require_dtensors(signature.name, signature.named_tensors(args))
        results = run(signature, tensors, signature.numbers(args))
        return results if signature.gives_list else results[0]

    return rule
