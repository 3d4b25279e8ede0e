"""Registers with Inductor how an operator is lowered: to its formula, where `RULE` says so, or to a call of its kernel.

Importing this module imports Inductor; setting.py says when.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch

from torch_dml_ops._compile.rule import RULE, Call
from torch_dml_ops._torch.private import INDUCTOR as private

V = private.V
log = logging.getLogger(__name__)
_ops = torch.ops.torch_dml_ops


def _fuses(call: Call, mode: str) -> bool:
    if mode == "never" or "val" not in call.node.meta:
        return False
    if not call.has_formula():
        log.debug("%s: kernel, as generated code has other bits", call.name)
        return False
    if mode == "always":
        return True
    line = next(line for line in RULE if line.holds(call))
    log.debug("%s: %s, as %s", call.name, "fused" if line.fuses else "kernel", line.because)
    return line.fuses


def _kernel(op: Any, arguments: Sequence[Any]) -> Any:
    """The call of a kernel, as Inductor makes it for an operator that it has no formula for: with the strides that the
    inputs have in eager mode, from which those of the result follow."""
    seen = V.graph.current_node.meta.get("eager_input_vals")
    if seen is not None:
        fakes = [*seen[0], *seen[1].values()]
        count = min(len(arguments), len(fakes))
        constrained = map(private.constrain_to_fake_tensor, arguments[:count], fakes)
        arguments = [*constrained, *arguments[count:]]
    return private.fallback_handler(op, add_to_fallback_set=False)(*arguments)


def _register(kind: type[Call], get_fusion: Callable[[], str]) -> None:
    kind.name = kind.formula.__name__
    op = getattr(_ops, kind.name).default

    def lower(*arguments: Any, **named: Any) -> Any:
        arguments = (*arguments, *named.values())
        call = kind(arguments, V.graph.current_node)
        result = kind.formula(*arguments) if _fuses(call, get_fusion()) else None
        return _kernel(op, arguments) if result is None else result

    private.register_lowering(op, type_promotion_kind=None)(lower)
    private._maybe_layout_constraints.pop(op, None)  # of a compilation before this, which would store the inputs


def register(get_fusion: Callable[[], str]) -> None:
    for kind in Call.__subclasses__():
        _register(kind, get_fusion)
