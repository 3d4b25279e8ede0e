"""Registers the operators' batching rules: a vmap makes one call of the whole batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from torch_dml_ops._operators.signature import Signature

_library = torch.library.Library("torch_dml_ops", "IMPL")


def _in_tensors(function: Callable[[Tensor, Any], Tensor], argument: Any, dim: Any) -> Any:
    """The argument, with each of its tensors replaced by what `function` makes of it and of its batch dimension."""
    if isinstance(argument, Tensor):
        return function(argument, dim)
    if isinstance(argument, (list, tuple)):
        return [_in_tensors(function, a, d) for a, d in zip(argument, dim, strict=True)]
    return argument


def _example(tensor: Tensor, dim: int | None) -> Tensor:
    """One example of the batch, to check the arguments as given: the batch would shift the indices in errors by one."""
    if dim is None:
        return tensor
    sizes = list(tensor.shape)
    del sizes[dim]
    return tensor.new_empty(()).expand(sizes)  # select(dim, 0) would fail on an empty batch


def register(
    signature: Signature,
    check: Callable[..., object],
    batched: Callable[..., tuple[Any, ...]],
    by_torch: Callable[..., Any] | None,
) -> None:
    """`check` is called with the arguments of one example; the others are as of a Definition."""

    def rule(info: Any, in_dims: Sequence[Any], *arguments: Any) -> tuple[Any, Any]:
        def front(tensor: Tensor, dim: int | None) -> Tensor:
            """The batch as dimension 0; a tensor without one is shared by the batch, without a copy."""
            return tensor.expand(info.batch_size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)

        check(*map(partial(_in_tensors, _example), arguments, in_dims))
        given = map(partial(_in_tensors, front), arguments, in_dims)
        results = signature.default(*batched(info.batch_size, *given))
        return results, [0] * len(results) if signature.gives_list else 0

    def older_rule(*arguments: Any) -> Any:
        check(*arguments)
        return by_torch(*arguments)  # type: ignore[misc]

    torch.library.register_vmap(f"torch_dml_ops::{signature.name}", rule)
    if by_torch is not None:
        _library.impl(signature.name, older_rule, "Batched")
