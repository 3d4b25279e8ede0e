"""What the tests of results run on: an implementation of the operators, and a device for its tensors.

TORCH_DML_OPS_TEST_DEVICE=cuda in the environment runs them on the GPU instead of the CPU.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import torch_dml_ops  # noqa: F401  (registers the operators)

DEVICE = os.environ.get("TORCH_DML_OPS_TEST_DEVICE", "cpu")


@dataclass(frozen=True)
class Backend:
    name: str
    ops: Any  # a namespace such as torch.ops.torch_dml_ops
    device: str
    slow: bool = False  # a call takes milliseconds: fewer and smaller ones

    def __str__(self) -> str:
        return self.name

    def __call__(self, op: str, *arguments: Any, out: Tensor | Sequence[Tensor] | None = None) -> Any:
        """Calls an operator; `out` comes back where it is given, as from the package's functions."""
        overloads = getattr(self.ops, op)
        if out is None:
            return overloads.default(*arguments)
        assert overloads.out(*arguments, out=out) is None
        return out


def backends() -> list[Backend]:
    return [Backend(DEVICE, torch.ops.torch_dml_ops, DEVICE)]
