"""How a caller's value looks in a sentence: short and on one line, whatever it is."""

from __future__ import annotations

import math
import re
from enum import Enum
from numbers import Number
from typing import Any

from torch import Tensor

LONGEST = 60  # characters of a value

_MOST_BITS = 100_000  # of a number of which digits are shown; they cost more than linear time


def cut(text: str, longest: int = LONGEST) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def digits(value: int) -> str:
    """As many as fit: Python does not write out numbers of very many digits."""
    if value.bit_length() > _MOST_BITS:
        return f"a number of {value.bit_length()} bits"
    return cut(str(value // 10 ** max(int(math.log10(abs(value) or 1)) - 2 * LONGEST, 0)))


def shown(value: Any) -> str:
    """A value of any type: a number as it is written, of most others the type."""
    try:
        return cut(re.sub(r"\s*\n\s*", " ", _shown(value)))
    except Exception:  # a class of the caller's may raise anything
        return cut(type(value).__name__)


def _shown(value: Any) -> str:
    if isinstance(value, Tensor):
        return _shown_tensor(value)
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, (str, bytes)):
        return repr(value[: 2 * LONGEST])
    if isinstance(value, int) and not isinstance(value, bool):
        return digits(value)
    if value is None or isinstance(value, (bool, Number)):  # without its type: 1.9 and not np.float32(1.9)
        return str(value)
    if isinstance(value, (list, tuple)) and all(isinstance(v, int) for v in value):
        return f"[{', '.join(map(_shown, value[:LONGEST]))}]"
    shape = getattr(value, "shape", None) if hasattr(value, "__array__") else None
    if isinstance(shape, tuple):
        return str(value) if shape == () else f"an array of sizes {_shown(shape)}"
    return type(value).__name__


def _shown_tensor(tensor: Tensor) -> str:
    if tensor.dim() == 0 and type(tensor) is Tensor:
        try:
            return _shown(tensor.item())
        except (RuntimeError, NotImplementedError):  # one without a value: of a transform, or of the device "meta"
            return f"a 0-d tensor of dtype {str(tensor.dtype).removeprefix('torch.')}"
    return f"a tensor of sizes {cut(str(list(tensor.shape)))}"
