"""What the tests of results run on: an implementation of the operators, and a device for its tensors.

TORCH_DML_OPS_TEST_DEVICE=cuda in the environment runs them on the GPU instead of the CPU; hostdev, on a device without
kernels (host_device.cpp).
"""

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import host_build
import pytest
import torch
from torch import Tensor

import torch_dml_ops  # noqa: F401  (registers the operators)

DEVICE = os.environ.get("TORCH_DML_OPS_TEST_DEVICE", "cpu")
no_forks = pytest.mark.skipif(DEVICE == "cuda", reason="a forked child cannot use a GPU that its parent has used")


def use_device() -> None:
    """New tensors are on the device under test."""
    torch.set_default_device(None if DEVICE == "cpu" else DEVICE)


@contextlib.contextmanager
def default_device(device: str | None) -> Iterator[None]:
    """New tensors are on another device; with None, on the CPU, without a mode for functions that puts them there."""
    torch.set_default_device(device)
    try:
        yield
    finally:
        use_device()


@dataclass(frozen=True)
class Backend:
    name: str
    device: str
    namespace: str = "torch_dml_ops"
    slow: bool = False  # a call takes milliseconds: fewer and smaller ones

    def __str__(self) -> str:
        return self.name

    def __call__(self, op: str, *arguments: Any, out: Tensor | Sequence[Tensor] | None = None) -> Any:
        """Calls an operator; `out` comes back where it is given, as from the package's functions."""
        if self.namespace == ON_HOST:
            host_build.cuda_on_host()  # built and loaded by the first call
        overloads = getattr(getattr(torch.ops, self.namespace), op)
        if out is None:
            return overloads.default(*arguments)
        assert overloads.out(*arguments, out=out) is None
        return out


ON_HOST = "torch_dml_ops_on_host"  # the CUDA kernels' own code, run on the CPU
EVERY_DEVICE = Backend("every_device", host_build.HOST_DEVICE, slow=True)  # torch's own functions


def backends() -> list[Backend]:
    on_device = Backend(DEVICE, DEVICE)
    others = [Backend("cuda_on_host", "cpu", ON_HOST, slow=True), EVERY_DEVICE]
    return [on_device, *others] if DEVICE == "cpu" else [on_device]


# The two ways of a call: the short one of torch_dml_ops/_torch/short_way.py, and the ordinary one.


@contextlib.contextmanager
def ordinary_way() -> Iterator[None]:
    """All calls go it while somebody else has registered a kernel for an operator; this one does nothing."""
    with torch.library._scoped_library("torch_dml_ops", "IMPL") as library:
        library.impl("slice1", torch.library.fallthrough_kernel, "AutocastCUDA")
        yield


WAYS = {"short way": contextlib.nullcontext, "ordinary way": ordinary_way}
