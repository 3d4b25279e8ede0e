"""How values, names and places look in a sentence: short and on one line, whatever they are."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum
from numbers import Number
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling

LONGEST = 60  # characters of a value or a list


_MOST_BITS = 100_000  # of a number of which digits are shown; they cost more than linear time


Shown = int | torch.SymInt | Sequence[int] | Callable[[], str]  # a value in a sentence; a function returns its text


def cut(text: str, longest: int = LONGEST) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def digits(value: int) -> str:
    """The digits, or as many as fit into a sentence: of very many, Python refuses to write them all."""
    if -(2**63) <= value < 2**63:
        return f"{operator.index(value)}"  # str() of a symbolic size is beyond Dynamo
    if value.bit_length() > _MOST_BITS:
        return f"a number of {value.bit_length()} bits"
    return cut(str(value // 10 ** max(int(math.log10(abs(value))) - 2 * LONGEST, 0)))


def text(value: Shown) -> str:
    """As Numbers in csrc/ops/check.h prints it: "[2, 3]"; of a longer list the first few and how many there are.

    For a symbolic size, the number that it stands for, so that the sentence is the same as without torch.compile.
    """
    if callable(value):
        return value()
    if isinstance(value, torch.SymInt):
        from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

        has_number = not (value.node.is_nested_int() or free_unbacked_symbols(value))
        return cut(str(int(value) if has_number else value))
    if isinstance(value, int):
        return digits(value)
    return in_full(value) or f"{_beginning(value)} ({len(value)} in all)"


def with_sum(numbers: Sequence[int]) -> str:
    """The list; if it is shortened, with its sum."""
    return in_full(numbers) or f"{_beginning(numbers)} ({len(numbers)} in all, sum {text(sum(numbers))})"


def in_full(numbers: Sequence[int]) -> str:
    """The list in brackets, or nothing if that is too long."""
    if len(numbers) > LONGEST:
        return ""
    shown = f"[{', '.join(map(text, numbers))}]"
    return shown if len(shown) <= LONGEST else ""


def _beginning(numbers: Sequence[int]) -> str:
    shown = "["
    for number in numbers:
        following = f"{text(number)}, "
        if len(shown) + len(following) + len("…]") > LONGEST:
            break
        shown += following
    return f"{shown}…]"


def shown(value: Any) -> str:
    """A value of any type: a number as it is written, of most others the type."""
    try:
        return _shown(value)
    except Exception:  # a class of the caller's may raise anything
        return _type_of(value)


def _shown(value: Any) -> str:
    if isinstance(value, Tensor):
        return _shown_tensor(value)
    if isinstance(value, Enum):
        return cut(value.name)
    if isinstance(value, (str, bytes)):
        return cut(repr(value[: 2 * LONGEST]))
    if isinstance(value, (int, torch.SymInt)) and not isinstance(value, bool):
        return text(value)
    if isinstance(value, float):
        return f"{float(value)}"  # str() of one that is computed from sizes is beyond Dynamo
    if value is None or isinstance(value, (bool, Number)):  # without its type: 1.9 and not np.float32(1.9)
        return _line(str(value))
    if isinstance(value, (list, tuple)) and all(isinstance(v, int) for v in value):
        return cut(str([*value])) if any(isinstance(v, bool) for v in value) else text(value)
    # Dynamo cannot ask a slice for an attribute.
    shape = getattr(value, "shape", None) if not isinstance(value, slice) and hasattr(value, "__array__") else None
    if isinstance(shape, tuple):
        return _line(str(value)) if shape == () else f"an array of sizes {text(shape)}"
    return _type_of(value)


def _type_of(value: Any) -> str:
    return cut(f"{type(value).__name__}")  # of the name itself Dynamo does not know the length


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _line(text: str) -> str:
    return cut(" ".join(map(str.strip, text.splitlines())))


def _shown_tensor(tensor: Tensor) -> str:
    if tensor.dim() == 0 and type(tensor) is Tensor:
        with suppress(RuntimeError, NotImplementedError):  # in a transform, or on the device "meta"
            if not is_dynamo_compiling():
                return _shown(tensor.item())
        return f"a 0-d tensor of dtype {dtype_name(tensor.dtype)} without a value"
    return f"a tensor of sizes {text(tensor.shape)}"
