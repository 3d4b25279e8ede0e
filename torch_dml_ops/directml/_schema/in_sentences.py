"""How JSON, descriptors and places in them look in a sentence."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from enum import Enum
from itertools import islice

from torch_dml_ops._sentences.text import LONGEST, cut, digits, shown

_LONGEST_PLACE = 200


JsonPath = tuple[str | int, ...]  # of field names, keys and indices


def as_json(value: object) -> str:
    """A value of JSON or of a descriptor, as JSON has it; of an enumeration its name."""
    if isinstance(value, Enum):
        return value.name
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, (list, tuple)):
        if not all(isinstance(v, int) for v in value):
            return "an array"
        return cut(f"[{', '.join(map(as_json, value[:LONGEST]))}]")
    if isinstance(value, int):
        return digits(value)
    if isinstance(value, float):
        return cut(str(value))
    return shown(value)


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def names(values: Iterable[str]) -> str:
    """As many of them as fit into a sentence."""
    return cut(", ".join(map(as_json, islice(values, 20))), 200)


def in_repr(value: object) -> str:
    """A field in the repr of a descriptor: tuples as lists, and no number too long."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(in_repr, value))}]"
    return as_json(value) if isinstance(value, int) else repr(value)


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
