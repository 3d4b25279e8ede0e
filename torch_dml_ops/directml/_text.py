"""How values, names and places look in a sentence: short and on one line, whatever they are."""

from __future__ import annotations

import json
import math
import re
import reprlib
from collections.abc import Iterable, Mapping
from enum import Enum
from itertools import islice
from numbers import Number

from torch import Tensor

JsonPath = tuple[str | int, ...]  # of field names, keys and indices

_LONGEST = 60  # of a value
_LONGEST_PLACE = 200
_MOST_BITS = 100_000  # of a number of which digits are shown; they cost more than linear time

_brief = reprlib.Repr()
_brief.maxlist = _brief.maxtuple = _brief.maxset = _brief.maxfrozenset = _brief.maxdict = _brief.maxarray = 20
_brief.maxlevel, _brief.maxstring, _brief.maxother = 4, _LONGEST, 4 * _LONGEST


def cut(shown: str, longest: int = _LONGEST) -> str:
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"


def text(value: object) -> str:
    """A value of JSON or of a descriptor."""
    if isinstance(value, Enum):
        return value.name
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, (list, tuple)):
        if not all(isinstance(v, int) for v in value):
            return "an array"
        return cut(f"[{', '.join(map(text, value[:_LONGEST]))}]")
    if isinstance(value, int):
        return _digits(value)
    if isinstance(value, float):
        return cut(str(value))
    return shown(value)


def names(values: Iterable[str]) -> str:
    """The first of them, if not all."""
    return cut(", ".join(map(text, islice(values, 20))), 200)


def _digits(value: int) -> str:
    if value.bit_length() > _MOST_BITS:
        return f"a number of {value.bit_length()} bits"
    return cut(str(value // 10 ** max(int(math.log10(abs(value) or 1)) - 2 * _LONGEST, 0)))  # str has a limit


def shown(value: object) -> str:
    """A value of any type, as Python shows it."""
    try:
        return cut(re.sub(r"\s*\n\s*", " ", _shown(value)))
    except Exception:  # of numbers of very many digits, of tensors without values, of a class of the caller's
        return cut(f"a value of type {type(value).__name__}")


def _shown(value: object) -> str:
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, (str, bytes)):
        return repr(value[:_LONGEST])
    if isinstance(value, Number):  # as it is written, without its type: 1.9 and not np.float32(1.9)
        return str(value)
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        kind = "a tensor" if isinstance(value, Tensor) else "an array"
        return str(value.item()) if shape == () else f"{kind} of sizes {text(shape)}"  # type: ignore[attr-defined]
    return _brief.repr(value)


def in_repr(value: object) -> str:
    """A field in the repr of a descriptor: tuples as lists, and no number too long."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(in_repr, value))}]"
    return text(value) if isinstance(value, int) else repr(value)


def dotted(path: JsonPath) -> str:
    """``input_tensor.sizes[2]``."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{printable(cut(part))}" for part in path)
    return _shortened("".join(parts).removeprefix("."))


def json_path(path: JsonPath) -> str:
    """``$.resources["a b"].initialValues[2]``."""
    parts = []
    for part in path:
        if isinstance(part, int):
            parts.append(f"[{part}]")
        elif re.fullmatch(r"\w+", name := cut(part)):
            parts.append(f".{name}")
        else:
            quoted = name.replace("\\", "\\\\").replace('"', '\\"')
            parts.append(f'["{printable(quoted)}"]')
    return _shortened("$" + "".join(parts))


def _shortened(place: str) -> str:
    """Without its middle where it is long: its end tells more than that."""
    half = _LONGEST_PLACE // 2
    return place if len(place) <= _LONGEST_PLACE else f"{place[:half]}…{place[1 - half :]}"


def printable(name: str) -> str:
    """A name with JSON's escapes for what would end a line, move the cursor or turn the direction of writing."""
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in name)
