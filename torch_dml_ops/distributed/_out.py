"""Calls with `out` on DTensors: all ranks write, or none does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from torch_dml_ops._operators.definitions import checked_outs
from torch_dml_ops._operators.overlap import check_memory
from torch_dml_ops._operators.signature import Signature
from torch_dml_ops._torch import autograd
from torch_dml_ops._torch.private import DTENSORS as private
from torch_dml_ops.distributed._calls import require_dtensors, run
from torch_dml_ops.distributed._exchange import has_data
from torch_dml_ops.distributed._placements import check_part
from torch_dml_ops.distributed._plans import plan

_LONGEST = 1024  # of a sentence in bytes, that ranks send each other


def rule_with_out(signature: Signature) -> Callable[..., None]:
    def rule(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> None:
        given, numbers = signature.named_tensors(args), signature.numbers(args)
        outs = signature.named_outs(kwargs["out"])
        refusal: Exception | None = None
        try:
            read, written = _checked_for_out(signature, args, given, numbers, outs, kwargs["out"])
        except (RuntimeError, TypeError, ValueError) as error:
            refusal = error
        if (refusal := refusal_of_a_rank(refusal, [t for _, t in (*given, *outs)])) is not None:
            raise refusal
        for t, result in zip(written, run(signature, read, numbers), strict=True):
            t._local_tensor.copy_(result._local_tensor)

    return rule


def _checked_for_out(
    signature: Signature, args: Any, given: Sequence[tuple[str, Any]], numbers: tuple[Any, ...], outs: Any, out: Any
) -> tuple[list[DTensor], list[DTensor]]:
    """What a call with `out` reads and writes, if it may."""
    name = signature.name
    checked_outs(signature, args, out)
    tensors = require_dtensors(name, [*given, *outs])
    read, written = tensors[: len(given)], tensors[len(given) :]
    parts = _parts(outs, written)
    autograd.check_writable(name, parts)
    for (argument, _), t, spec in zip(outs, written, plan(signature, read, numbers).specs, strict=True):
        if t.placements != spec.placements:
            raise RuntimeError(
                f"{name}: {argument} must be placed as the result is, {spec.placements}, got {t.placements}; call "
                "redistribute on it, or the operator without out"
            )
    for (argument, _), t in zip(outs, written, strict=True):
        check_part(name, argument, t)
    check_memory(name, parts, _parts(given, read))
    return read, written


def refusal_of_a_rank(refusal: Exception | None, tensors: Sequence[Any]) -> Exception | None:
    """What this rank refuses a call with `out` for, or another one does; None on all ranks if none does.

    Whether tensors share memory, for example, may not be the same on every rank. If one raised alone, the others would
    wait for what it does not send.
    """
    sharded = [t for t in tensors if isinstance(t, DTensor)]
    if not sharded or not all(has_data(t._local_tensor) for t in sharded):
        return refusal
    mesh = sharded[0].device_mesh
    if mesh.get_coordinate() is None:
        return refusal

    def largest(numbers: list[int]) -> list[int]:
        tensor = torch.tensor(numbers, device=mesh.device_type)
        for mesh_dim in range(mesh.ndim):
            tensor = private.all_reduce(tensor, "max", (mesh, mesh_dim))
        found: list[int] = tensor.tolist()
        return found

    rank = torch.distributed.get_rank()
    (refusing,) = largest([-1 if refusal is None else rank])
    if refusing < 0:
        return None
    said = list(str(refusal).encode()[:_LONGEST]) if refusing == rank else []
    sentence = bytes(largest(said + [0] * (_LONGEST - len(said)))).rstrip(b"\0").decode(errors="ignore")
    return refusal or RuntimeError(f"{sentence} (on rank {refusing})")


def _parts(named: Sequence[tuple[str, Any]], tensors: Sequence[DTensor]) -> list[tuple[str, Tensor]]:
    """This rank's parts of tensors, with their names."""
    return [(argument, t._local_tensor) for (argument, _), t in zip(named, tensors, strict=True)]
