"""Converts callers' arguments: lists of whole numbers become tuples, and a wrong type is refused in one sentence.

The rules about values (that a window lies within its input, for example) are in csrc/ops and _operators/definitions.py.
"""

from __future__ import annotations

import inspect
import operator
import warnings
from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import suppress
from enum import Enum
from numbers import Number
from types import NoneType
from typing import Any, NoReturn, TypeVar

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling
from torch.nn.utils.rnn import PackedSequence

from torch_dml_ops._operators.signature import Signature
from torch_dml_ops._sentences.text import shown

T = TypeVar("T")

# They can be iterated over, and are no lists: they have no order, or are one value, as in Python 3.11 a flag is.
NO_LISTS = (str, bytes, bytearray, Mapping, Set, Enum, type)


def is_proxy(value: Any) -> bool:
    """Whether this stands for a value in a graph that is being traced, as torch.fx's Proxy does."""
    # The types of None, an Ellipsis and a shape are left out because torch.compile of torch 2.11 cannot ask them.
    if value is None or value is ... or type(value) is int or isinstance(value, (Tensor, torch.Size)):
        return False
    return not is_dynamo_compiling() and hasattr(type(value), "__torch_function__")  # Dynamo cannot ask NumPy's numbers


def proxy_among(*values: Any) -> Any:
    """The first of these that is a proxy, or None."""
    for value in values:
        if is_proxy(value):
            return value
    return None


def whole_number(name: str, value: Any) -> int:
    """An int, or a torch.SymInt as it is; raises TypeError for what `operator.index` does not take."""
    if type(value) is int or isinstance(value, torch.SymInt) or is_proxy(value):
        return value  # type: ignore[no-any-return]
    if isinstance(value, Tensor) and value.dim() == 0 and not value.is_meta and value.dtype != torch.bool:
        with suppress(TypeError):
            number = index_of(value)  # or torch says why it has no value, in vmap for example
            if torch.jit.is_tracing():  # type: ignore[attr-defined,no-untyped-call]
                _warn_of_constant(name, number)
            return number
    return integer(name, value, _of_slices(value))


def _warn_of_constant(name: str, number: int) -> None:
    """As torch does where a trace keeps a number, but in the caller's name: torch has such warnings ignored in modules
    whose names begin as its own do, and so do this package's."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and str(frame.f_globals.get("__name__")).startswith("torch_dml_ops."):
        level, frame = level + 1, frame.f_back
    message = f"{name} is {number} in the trace, for every input; torch.export and torch.compile keep sizes symbolic"
    warnings.warn(message, torch.jit.TracerWarning, stacklevel=level)  # type: ignore[attr-defined]


def index_of(value: Any) -> int:
    """As `operator.index`, which fails at torch's numbers of 2^63 and more."""
    is_large = isinstance(value, Tensor) and value.dtype == torch.uint64
    return int(value.item() if is_large else operator.index(value))


def integer(name: str, value: Any, way_out: str = "") -> int:
    """What `operator.index` makes of a value that is no boolean: an int, also of NumPy's and torch's.

    `int` would truncate 1.9 to 1, and so would torch, if it is one of NumPy's numbers, for example.
    """
    if type(value) is int:  # or a size that Dynamo traces, which it cannot ask for attributes
        return value
    try:
        # A tensor of one element has an index too, and is a list of numbers. What has none is not asked for it, as
        # torch.compile would end there, of torch 2.11 for None and slices.
        may_have = not isinstance(value, (NoneType, float, slice)) and not is_boolean(value)
        if may_have and hasattr(value, "__index__") and getattr(value, "shape", ()) == ():
            return int(operator.index(value))
    except Exception:  # a number of a class of the caller's may raise anything
        pass
    raise TypeError(f"{name} must be a whole number, got {shown(value)}{way_out}")


def is_boolean(value: Any) -> bool:
    """Python's, NumPy's or torch's."""
    if isinstance(value, bool):
        return True
    if is_dynamo_compiling() and not isinstance(value, Tensor):  # it cannot ask for dtypes of NumPy; bool_ has no index
        return False
    return str(getattr(value, "dtype", "")) in ("bool", "torch.bool")


def whole_numbers(name: str, values: Any, length: int = 1) -> Sequence[int]:
    """The whole numbers as a tuple, so that later changes of the list, array or tensor have no effect.

    `length` is that of the list which one number alone may stand for.
    """
    kind = type(values)
    if kind is list or kind is tuple or kind is torch.Size:
        if are_plain_numbers(values):
            return tuple(values)
    elif is_proxy(values):
        return values  # type: ignore[no-any-return]
    elif not _is_list(values):
        raise TypeError(f"{name} must be a list of whole numbers, got {shown(values)}{as_list(values, length)}")
    elif getattr(values, "ndim", 1) != 1:
        what = "tensor" if isinstance(values, Tensor) else type(values).__name__
        raise TypeError(f"{name} must be a list of whole numbers, got a {values.ndim}-d {what}")
    return tuple([whole_number(f"{name}[{k}]", value) for k, value in enumerate(values)])


def are_plain_numbers(values: Any) -> bool:
    """Whether they need no conversion: an int, a list or tuple of ints, or None."""
    kind = type(values)
    if kind is list or kind is tuple or kind is torch.Size:
        for value in values:  # noqa: SIM110 - Dynamo takes longer for `all`
            if type(value) is not int:
                return False
        return True
    return kind is int or values is None


def as_list(value: Any, length: int = 1) -> str:
    """What to write for a list of whole numbers, if that can be known."""
    if type(value) is int and abs(value) < 2**63:
        return f"; write {[operator.index(value)] * length}"  # of a symbol, its number
    return _of_slices(value)


def _of_slices(value: Any) -> str:
    return "; torch_dml_ops.index takes slices" if isinstance(value, slice) else ""


def _is_list(values: Any) -> bool:
    if isinstance(values, (int, float, slice)):  # which Dynamo cannot ask for an attribute
        return False
    return hasattr(values, "__array__") or (isinstance(values, Sequence) and not isinstance(values, (str, bytes)))


def is_array(value: Any) -> bool:
    """NumPy's, or one of its numbers."""
    if value is None:  # the type of which torch.compile of torch 2.11 cannot ask
        return False
    return hasattr(type(value), "__array_interface__") and hasattr(value, "dtype")  # which images of PIL lack


def require_tensor(name: str, value: Any, kind: str = "a tensor") -> None:
    """Raises TypeError for what is no tensor."""
    if not (isinstance(value, Tensor) or is_proxy(value)):
        raise TypeError(f"{name} must be {kind}, got {shown(value)}{as_tensor(name, value)}")


def as_tensor(name: str, value: Any) -> str:
    """How to make a tensor of a value, if it can be one."""
    if isinstance(value, PackedSequence):
        return "; call torch.nn.utils.rnn.pad_packed_sequence first"
    argument = name.rpartition(" ")[2]
    if is_array(value):
        try:
            torch.from_numpy(value.reshape(-1)[:0].copy())
        except (TypeError, ValueError):  # torch has no such dtype, or not in this order of bytes
            return ""
        if value.ndim == 0:
            return f"; write torch.tensor({argument})"
        return f"; write torch.from_numpy(array{'.copy()' if any(s < 0 for s in value.strides) else ''})"
    if isinstance(value, torch.Size):
        return f"; write {argument} itself"
    entries = value if isinstance(value, (list, tuple)) else [value]
    if argument.startswith("out"):
        return ""
    if isinstance(value, (list, tuple)) and entries and all(isinstance(entry, Tensor) for entry in entries):
        return f"; write torch.stack({argument}), or pad_sequence({argument}, batch_first=True) of torch.nn.utils.rnn"
    if all(isinstance(entry, (Number, list, tuple)) for entry in entries):
        return f"; write torch.tensor({argument})"
    return ""


def require_tensors(name: str, values: Any) -> None:
    """Raises TypeError for what is no list of tensors."""
    if isinstance(values, (list, tuple)):
        for value in values:
            if not isinstance(value, Tensor):
                break
        else:
            return
    elif is_proxy(values):
        return
    elif isinstance(values, (str, bytes, Tensor)) or not isinstance(values, Sequence):
        way_out = ""
        if isinstance(values, Tensor):
            way_out = "; put tensors into a list"
        elif isinstance(values, Iterable) and not isinstance(values, NO_LISTS) and not is_array(values):
            way_out = f"; write list({name.rpartition(' ')[2]})"
        raise TypeError(f"{name} must be a list of tensors, got {shown(values)}{way_out}")
    if isinstance(values, PackedSequence):  # a tuple, of other things than pieces
        raise TypeError(f"{name} must be a list of tensors, got PackedSequence{as_tensor(name, values)}")
    for k, value in enumerate(values):
        require_tensor(f"{name}[{k}]", value)


def refuse_script(function: str) -> NoReturn:
    raise RuntimeError(f"{function}: torch.jit.script cannot compile this function; write torch.compile")


def explanation(signature: Signature, values: Sequence[Any], out: Any = None) -> RuntimeError | None:
    """One sentence on why torch refused arguments of the right types: their layout, or more than 64 bits.

    Raise it `from None`, because torch's own message has up to 50 lines. None if torch had another reason.
    """
    arguments = [(argument, value) for (argument, _), value in zip(signature.arguments, values, strict=False)]
    for argument, value in (*arguments, ("out", out)):
        several = isinstance(value, (list, tuple))
        for k, one in enumerate(value if several else (value,)):
            rule = refused_layout(one) if isinstance(one, Tensor) else _refused_number(one)
            if rule is not None:
                return RuntimeError(f"{signature.name}: {argument}{f'[{k}]' if several else ''} {rule}")
    return None


def has_strides(tensor: Tensor) -> bool:
    """Dynamo takes no sparse tensors, and does not say layouts in a backward pass."""
    return is_dynamo_compiling() or tensor.layout == torch.strided


def refused_layout(tensor: Tensor) -> str | None:
    if tensor.is_quantized:
        return "must not be quantized; call dequantize() or int_repr() first"
    if tensor.is_nested:
        return "must not be a nested tensor; call to_padded_tensor(0.0) or unbind() first"
    if not has_strides(tensor):
        layout = str(tensor.layout).removeprefix("torch.").removeprefix("_")
        return f"must have strides, got layout {layout}; call to_dense() first"
    if tensor.device.type in ("lazy", "xla"):  # to view such a tensor's memory as another dtype ends the process
        return f"must not be on {tensor.device}, where tensors have no memory until they are needed; call cpu() first"
    return None


def _refused_number(value: Any) -> str | None:
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return f"must be from -2^63 to 2^63 - 1, got {shown(value)}"
    return None
