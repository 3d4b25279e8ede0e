"""What torch.compile puts into a graph as it is. Importing this imports torch._dynamo."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

import torch_dml_ops as dml


# Dynamo would look at `out` and refuse one that has gaps between its elements.
@torch.compiler.allow_in_graph  # type: ignore[untyped-decorator]
def write(function: str, tensors: Sequence[Any], arguments: tuple[Any, ...], out: Any) -> None:
    getattr(dml, function)(*tensors, *arguments, out=out)
