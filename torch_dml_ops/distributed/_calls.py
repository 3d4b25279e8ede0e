"""Calls on DTensors: by the rule that torch's dispatcher finds, or past the dispatcher and recorded by autograd."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, Replicate

from torch_dml_ops import _autograd
from torch_dml_ops._arguments import records_calls
from torch_dml_ops._private import DTENSORS as private
from torch_dml_ops._private import in_forward_mode
from torch_dml_ops.distributed._exchange import is_plain
from torch_dml_ops.distributed._placements import Placements
from torch_dml_ops.distributed._plans import plan, spec_like

_CARRIERS = {1: torch.uint8, 2: torch.bfloat16, 4: torch.int32, 8: torch.int64}  # dtypes that every backend can send


def require_names(op: str) -> None:
    if private.missing:
        raise RuntimeError(
            f"{op}: DTensors need a torch with the names that their rules are built on, got {torch.__version__} "
            f"(without {private.missing}); call to_local() for this rank's part, or full_tensor()"
        )


def _redistributed(x: DTensor, placements: Placements) -> Tensor:
    """This rank's part of `x` when it is placed so."""
    carrier = _CARRIERS.get(x.element_size(), x.dtype)
    if any(p.is_partial() for p in x.placements):
        carrier = x.dtype  # it is to be reduced
    spec = spec_like(x, x.placements, private.TensorMeta(x.shape, x.stride(), carrier))
    part = x._local_tensor.detach().resolve_conj().resolve_neg()  # other views have no dtype but their own
    bits = _wrapped(part.view(carrier), spec)
    return bits.redistribute(placements=placements)._local_tensor.view(x.dtype)


def run(name: str, tensors: Sequence[DTensor], numbers: tuple[Any, ...]) -> list[DTensor]:
    placed, steps, specs = plan(name, tensors, numbers)
    local = [
        t._local_tensor if t._spec.placements == placements else _redistributed(t, placements)
        for t, placements in zip(tensors, placed, strict=True)
    ]
    for step in steps:
        local = step(local)
    return [_wrapped(t, spec) for t, spec in zip(local, specs, strict=True)]


def _wrapped(local: Tensor, spec: Any) -> DTensor:
    return DTensor.__new__(DTensor, local, spec, requires_grad=False)  # __init__ does nothing, and takes as long again


def call_past_the_dispatcher(name: str, first: Any, others: tuple[Any, ...]) -> Any:
    """The result of a call where only the rule is at work, or None where a mode, a transform or tracing is, too."""
    constants = others[:1] if name == "reverse_subsequences" else ()
    tensors = first if name == "join" else (first, *constants)
    if records_calls(tensors):
        return None
    recorded = False
    for t in tensors:
        if type(t) is not DTensor or not is_plain(t._local_tensor):
            return None
        if t is not tensors[0] and t._spec.mesh != tensors[0]._spec.mesh:
            return None
        recorded = recorded or t.requires_grad
    if (
        private._len_torch_dispatch_stack()
        or private._len_torch_function_stack()
        or private._are_functorch_transforms_active()
        or private._get_tracing_state()
        or private._len_torch_dispatch_stack_pre_dispatch()
        or in_forward_mode()
    ):
        return None
    numbers = _frozen(others[len(constants) :])
    for given in numbers:
        for number in given if isinstance(given, tuple) else (given,):
            if not (type(number) is int or number is None):  # it may stand for one in a graph that is being recorded
                return None
    if recorded and torch.is_grad_enabled():
        if name not in _recorders:
            return None
        given = (numbers, *tensors) if name == "join" else (first, (*constants, *numbers))
        results = _recorders[name].apply(*given)
        return list(results) if name == "split" else results
    results = run(name, tensors, numbers)
    return results if name == "split" else results[0]


def _recorder(name: str, linear: Any) -> Any:
    """An autograd.Function that records such a call, as _autograd.py has for plain tensors."""

    def forward(ctx: Any, first: DTensor, others: tuple[Any, ...]) -> Any:
        constants = [a for a in others if isinstance(a, DTensor)]
        numbers = others[len(constants) :]
        ctx.recorded = first.shape, numbers
        ctx.save_for_backward(*constants)
        results = run(name, [first, *constants], numbers)
        return tuple(results) if name == "split" else results[0]

    def forward_of_list(ctx: Any, others: tuple[Any, ...], *tensors: DTensor) -> Any:
        ctx.recorded = [t.shape for t in tensors], others
        return run(name, tensors, others)[0]

    return linear.plain_function(forward_of_list if name == "join" else forward)


_recorders = {name: _recorder(name, linear) for name, linear in _autograd.linears.items()}


def named_tensors(name: str, arguments: Sequence[Any]) -> tuple[list[tuple[str, Any]], tuple[Any, ...]]:
    """A call's tensors with their names, and its numbers, whose lists are tuples."""
    if name == "join":
        return [(f"inputs[{k}]", t) for k, t in enumerate(arguments[0])], tuple(arguments[1:])
    count = 2 if name == "reverse_subsequences" else 1
    names = ("grad_output" if name == "slice_grad" else "input", "sequence_lengths")
    return list(zip(names, arguments[:count], strict=False)), _frozen(arguments[count:])


def _frozen(numbers: Sequence[Any]) -> tuple[Any, ...]:
    return tuple([tuple(a) if isinstance(a, list) else a for a in numbers])


def require_dtensors(name: str, named: Sequence[tuple[str, Any]]) -> list[DTensor]:
    """The tensors, if all are DTensors on one mesh."""
    first_name, first = next((n, t) for n, t in named if isinstance(t, DTensor))
    mesh = first.device_mesh
    tensors = []
    for argument, t in named:
        if not isinstance(t, DTensor):
            if not private._op_dispatcher._allow_implicit_replication:
                raise RuntimeError(
                    f"{name}: {argument} must be a DTensor, as {first_name} is, got a plain tensor; call "
                    "distribute_tensor on it, or implicit_replication if every rank has it whole"
                )
            t = DTensor.from_local(t, mesh, [Replicate()] * mesh.ndim, run_check=False)
        if t.device_mesh != mesh:
            raise RuntimeError(f"{name}: {argument} must be on the mesh of {first_name}, {mesh}, got {t.device_mesh}")
        tensors.append(t)
    return tensors


def rule(name: str) -> Callable[..., Any]:
    def rule(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named, numbers = named_tensors(name, args)
        results = run(name, require_dtensors(name, named), numbers)
        return results if name == "split" else results[0]

    return rule
