"""Registers the operators with torch: what it computes without data, derivatives, batching."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from torch_dml_ops._compile import setting
from torch_dml_ops._operators.checks import every_tensor
from torch_dml_ops._operators.definitions import OPERATORS, Definition, checked_outs
from torch_dml_ops._operators.layout import new_dense
from torch_dml_ops._operators.overlap import check_memory
from torch_dml_ops._operators.signature import Signature, signatures
from torch_dml_ops._torch import autograd, short_way, vmap


def _register_fake(signature: Signature, definition: type[Definition]) -> None:
    name = signature.name

    def checked(given: Sequence[Any], named: Mapping[str, Any], *out: Any) -> list[Any]:
        arguments = signature.positional(given, named)
        every_tensor(name, *(t for _, t in signature.named_tensors(arguments)), *out)
        return arguments

    def new(*given: Any, **named: Any) -> Tensor | list[Tensor]:
        setting.prepare()
        arguments = checked(given, named)
        sizes = definition.result_sizes(*arguments)
        order_of = [t for _, t in signature.named_inputs(arguments)]
        results = [new_dense(name, s, order_of) for s in signature.listed(sizes)]
        return results if signature.gives_list else results[0]

    def into(*given: Any, out: Any, **named: Any) -> None:
        arguments = checked(given, named, out)
        check_memory(name, checked_outs(signature, arguments, out), signature.named_tensors(arguments))

    torch.library.register_fake(f"torch_dml_ops::{name}", new)
    torch.library.register_fake(f"torch_dml_ops::{name}.out", into)


for _name, _definition in OPERATORS.items():
    signatures[_name] = _signature = Signature(_name)
    autograd.register(_signature, _definition.transpose)
    _register_fake(_signature, _definition)
    vmap.register(_signature, _definition.result_sizes, _definition.batched, _definition.by_torch)
short_way.own_kernels_are_registered()
