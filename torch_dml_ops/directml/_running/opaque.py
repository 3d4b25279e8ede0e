"""What torch.compile puts into a graph as it is.

It is a module of its own, because to say so to torch imports torch._dynamo, which takes long: only torch.compile, which
has imported that already, comes here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

import torch_dml_ops as dml


# Dynamo would look at `out` and refuse one that has gaps between its elements.
@torch.compiler.allow_in_graph  # type: ignore[untyped-decorator]
def write(function: str, tensors: Sequence[Any], arguments: tuple[Any, ...], out: Any) -> None:
    getattr(dml, function)(*tensors, *arguments, out=out)
