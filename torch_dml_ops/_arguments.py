"""What callers give: whole numbers, frozen, and one sentence for an argument of another type.

The rules about values (that a window lies within its input, say) are elsewhere: csrc/ops has them, and _checks.py.
"""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

LONGEST = 60  # characters of a value in a sentence


def shown(value: Any) -> str:
    """A value of any type in a sentence: short, a number as it is written."""
    if isinstance(value, Tensor):
        return _shown_tensor(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return _cut(_leading_digits(value))
    if value is None or isinstance(value, (bool, str, bytes)):
        return _cut(repr(value if not isinstance(value, (str, bytes)) else value[: 2 * LONGEST]))
    if isinstance(value, numbers.Number):
        try:
            return _cut(str(value))
        except ValueError:  # Python does not write out numbers of very many digits
            return f"a {type(value).__name__}"
    if isinstance(value, (list, tuple)) and all(isinstance(v, int) for v in value):
        return _cut(f"[{', '.join(map(shown, value[:LONGEST]))}]")
    if hasattr(value, "__array__") and getattr(value, "shape", None) == ():
        return _cut(str(value))
    return type(value).__name__


def _shown_tensor(tensor: Tensor) -> str:
    if tensor.dim() == 0 and type(tensor) is Tensor:
        try:
            return shown(tensor.item())
        except (RuntimeError, NotImplementedError):  # one without a value: of a transform, or of the device "meta"
            return f"a 0-d tensor of dtype {str(tensor.dtype).removeprefix('torch.')}"
    return f"a tensor of sizes {_cut(str(list(tensor.shape)))}"


def _leading_digits(value: int) -> str:
    """As many as are shown, and more: Python does not write out numbers of very many digits."""
    return str(value // 10 ** max(int(math.log10(abs(value) or 1)) - 2 * LONGEST, 0))


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def records_calls(value: Any) -> bool:
    """Whether this stands for a value in a graph that is being written down, as torch.fx's Proxy does."""
    return hasattr(type(value), "__torch_function__") and not isinstance(value, Tensor)


def whole_number(name: str, value: Any) -> int:
    """An int, or a torch.SymInt as it is; raises TypeError for what `operator.index` does not take.

    Conversion by `int` would take 1.9 for 1, and so would torch, of NumPy's numbers among others.
    """
    if type(value) is int or isinstance(value, torch.SymInt) or records_calls(value):
        return value  # type: ignore[no-any-return]
    try:
        return int(operator.index(value))  # a boolean's index is itself
    except TypeError:
        raise TypeError(f"{name} must be a whole number, got {shown(value)}") from None


def whole_numbers(name: str, values: Any) -> Sequence[int]:
    """A tuple of whole numbers, which a caller who changes the list, array or tensor afterwards does not change."""
    kind = type(values)
    if kind is list or kind is tuple or kind is torch.Size:
        for value in values:
            if type(value) is not int:
                break
        else:
            return tuple(values)
    elif records_calls(values):
        return values  # type: ignore[no-any-return]
    elif getattr(values, "ndim", 1) != 1:
        what = "tensor" if isinstance(values, Tensor) else type(values).__name__
        raise TypeError(f"{name} must be a list of whole numbers, got a {values.ndim}-d {what}")
    elif not _is_list(values):
        raise TypeError(f"{name} must be a list of whole numbers, got {shown(values)}")
    return tuple([whole_number(f"{name}[{k}]", value) for k, value in enumerate(values)])


def _is_list(values: Any) -> bool:
    return hasattr(values, "__array__") or (isinstance(values, Sequence) and not isinstance(values, (str, bytes)))


def require_tensor(name: str, value: Any, way_out: str = "") -> None:
    """Raises TypeError for what is no tensor."""
    if not (isinstance(value, Tensor) or records_calls(value)):
        raise TypeError(f"{name} must be a tensor, got {shown(value)}{way_out}")


def require_tensors(name: str, values: Any) -> None:
    """Raises TypeError for what is no list of tensors."""
    if isinstance(values, (list, tuple)):
        for value in values:
            if not isinstance(value, Tensor):
                break
        else:
            return
    elif records_calls(values):
        return
    elif isinstance(values, (str, bytes, Tensor)) or not isinstance(values, Sequence):
        raise TypeError(f"{name} must be a list of tensors, got {shown(values)}")
    for k, value in enumerate(values):
        require_tensor(f"{name}[{k}]", value)


def explanation(op: Any, values: Sequence[Any], out: Any = None) -> RuntimeError | None:
    """One sentence on why torch refused arguments of the right types: their layout, or more than 64 bits.

    It is to be raised `from None`: torch's own words for it are up to 50 lines. None where it was something else.
    """
    name = op.name().partition("::")[2].removesuffix(".out")
    arguments = [(a.name, value) for a, value in zip(op._schema.arguments, values, strict=False)]
    for argument, value in (*arguments, ("out", out)):
        several = isinstance(value, (list, tuple))
        for k, one in enumerate(value if several else (value,)):
            rule = refused_layout(one) if isinstance(one, Tensor) else _refused_number(one)
            if rule is not None:
                return RuntimeError(f"{name}: {argument}{f'[{k}]' if several else ''} {rule}")
    return None


def refused_layout(tensor: Tensor) -> str | None:
    if tensor.is_quantized:
        return "must not be quantized; call dequantize() or int_repr() first"
    if tensor.is_nested:
        return "must not be a nested tensor; call to_padded_tensor() or unbind() first"
    if tensor.layout != torch.strided:
        layout = str(tensor.layout).removeprefix("torch.").removeprefix("_")
        return f"must have strides, got layout {layout}; call to_dense() first"
    return None


def _refused_number(value: Any) -> str | None:
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return f"must be from -2^63 to 2^63 - 1, got {shown(value)}"
    return None
