"""Arguments of DirectML's own classes: a wrong type is refused in one sentence."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import torch
from torch import Tensor

from torch_dml_ops._sentences.arguments import NO_LISTS, as_list, as_tensor, has_strides, integer, is_array
from torch_dml_ops._sentences.text import cut, shown
from torch_dml_ops.directml._schema.in_sentences import JsonPath

T = TypeVar("T")


def integers(name: str, values: Any) -> tuple[int, ...]:
    """Numbers as `integer` has them, of any iterable; those that are traced stay symbolic."""
    entries = listed(name, values, "whole numbers", as_list(values))
    kept = int, torch.SymInt
    return tuple(v if type(v) in kept else integer(f"{name}[{k}]", v) for k, v in enumerate(entries))


def listed(name: str, values: Any, of: str, way_out: str = "") -> list[Any]:
    """The entries of any iterable that has them in an order, and is no text."""
    if isinstance(values, Iterable) and not isinstance(values, NO_LISTS):
        try:
            return list(values)
        except Exception:  # of tensors and arrays without dimensions, and of sparse ones
            pass
    raise TypeError(f"{name} must be a list of {of}, got {shown(values)}{way_out}")


def list_of(kind: type[T], name: str, values: Any) -> tuple[T, ...]:
    entries = listed(name, values, kind.__name__)
    return tuple(instance(kind, f"{name}[{k}]", entry) for k, entry in enumerate(entries))


def instance(
    kind: type[T] | tuple[type[T], ...], name: str, value: Any, called: str | None = None, way_out: str = ""
) -> T:
    if isinstance(value, kind):
        return value
    wanted = called or f"a {getattr(kind, '__name__', kind)}"
    raise TypeError(f"{name} must be {wanted}, got {shown(value)}{way_out}")


def string(name: str, value: Any) -> str:
    return instance(str, name, value, "a string")


def true_or_false(name: str, value: Any) -> bool:
    return instance(bool, name, value, "True or False")


def place(name: str, value: Any) -> JsonPath:
    """A path of field names, keys and indices."""
    if isinstance(value, (list, tuple)) and all(isinstance(part, (str, int)) for part in value):
        return tuple(value)
    raise TypeError(f"{name} must be a tuple of names and indices, got {shown(value)}")


def require_strided(name: str, value: Any) -> None:
    """A tensor whose elements lie in memory by strides."""
    if not isinstance(value, Tensor):
        way_out = as_tensor(name, value) if is_array(value) else ""
        raise TypeError(f"{name} must be a tensor, got {cut(type(value).__name__)}{way_out}")
    if value.is_nested:
        raise ValueError(f"{name} must be a strided tensor, got a nested one; call to_padded_tensor(0.0) first")
    if not has_strides(value):
        layout = str(value.layout).removeprefix("torch.")
        raise ValueError(f"{name} must be a strided tensor, got one of layout {layout}; call to_dense() first")
