"""The operators on PyTorch's DTensors: how they are placed, and what the ranks send each other.

Importing this module registers the rules. The package imports it by itself, at once where ``torch.distributed.tensor``
has been imported before it, and otherwise with the first call after that (but for one by ``torch.ops`` in inference
mode, which meets nothing of the package: import this module before that).

The numbers of a call (offsets, sizes, axes) are those of the whole tensor, and so are those in an error's sentence. For
each dimension of the device mesh:

* What is replicated stays so.
* What is sharded along a dimension that nothing moves along stays so, without communication.
* What is sharded along a dimension that elements move along stays so too: each rank sends the others the elements that
  belong to their part of the result, and nothing else, in one all-to-all. (``reverse_subsequences`` gathers the axis
  that it reverses instead: where an element goes depends on the lengths. And of several mesh dimensions over which one
  such dimension is sharded, all but the first are gathered.)
* What is partial stays so, whatever its reduction: moving elements and reducing them commute.
* ``join`` finds the common placement of its inputs that takes the least traffic, and ``reverse_subsequences`` places
  the lengths as the input is.

Derivatives, :func:`torch.func.vmap` and :func:`torch.compile` work as they do on plain tensors.
"""

from collections.abc import Callable
from typing import Any

import torch

if not torch.distributed.is_available():
    raise ImportError("torch_dml_ops.distributed needs a torch that is built with torch.distributed")

from torch.distributed.tensor import DTensor

from torch_dml_ops._operators.definitions import OPERATORS
from torch_dml_ops._operators.signature import signatures
from torch_dml_ops._torch import autograd
from torch_dml_ops._torch.private import DTENSORS
from torch_dml_ops.distributed._calls import require_names, rule
from torch_dml_ops.distributed._out import refusal_of_a_rank, rule_with_out
from torch_dml_ops.distributed._traffic import Traffic, traffic

__all__ = ["Traffic", "traffic"]


def _refusal(name: str) -> Callable[..., None]:
    def rule(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> None:
        require_names(name)

    return rule


def _register() -> None:
    """Once, also where the package is imported again after it was removed from sys.modules."""
    if autograd.when_out_is_refused:
        return
    for name in OPERATORS:
        signature = signatures[name]
        rules = [_refusal(name)] * 2 if DTENSORS.missing else [rule(signature), rule_with_out(signature)]
        for form, of_dtensors in zip(("", ".out"), rules, strict=True):
            torch.library.register_torch_dispatch(f"torch_dml_ops::{name}{form}", DTensor, of_dtensors)
    autograd.when_out_is_refused.append(refusal_of_a_rank)
    autograd.with_rules_for_lazy_views.add(DTensor)


_register()
