"""JSON as DxDispatch reads it: with comments and commas before closing brackets."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

from torch_dml_ops._text import JsonPath
from torch_dml_ops.directml.errors import Ignored, ModelError, Problem

# One that nothing closes goes to the end: without a match, each quote in it would be tried as the first.
_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)'
_HALF_CHARACTER = re.compile(r"\\u[dD][89a-fA-F]")
# What matches and is not `blank` stays: a comment that nothing closes, a comma that no value stands before.
_COMMENT = re.compile(rf"{_STRING}|(?P<blank>//[^\n]*|/\*.*?\*/)|/\*.*\Z", re.DOTALL)
_COMMA = re.compile(rf"{_STRING}|[\[{{,:]\s*,|(?P<blank>,)(?=\s*[\]}}])", re.DOTALL)


class LongInteger(float):
    """A whole number of more than 64 bits: a float, as DxDispatch reads it, which is shown as it was written."""

    digits: str

    def __new__(cls, digits: str) -> LongInteger:
        result = super().__new__(cls, digits)
        result.digits = digits
        return result

    def __str__(self) -> str:
        return self.digits


def _integer(digits: str) -> int | LongInteger:
    return int(digits) if len(digits) <= 20 else LongInteger(digits)  # 2^64 - 1 and -2^63 have 20 characters


def _blanked(found: re.Match[str]) -> str:
    """Spaces, so that what follows keeps its line and column."""
    return re.sub(r"[^\n]", " ", found[0]) if found["blank"] else found[0]


def load(problems: list[Problem], source: str) -> Any:
    """The value; raises ``ModelError`` for text that is no JSON, and for keys that an object has twice.

    That there are comments, or commas before closing brackets, is noted among `problems`.
    """
    repeated: list[tuple[dict[str, Any], list[str]]] = []

    def to_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) != len(pairs):
            counts = Counter(key for key, _ in pairs)
            repeated.append((result, [key for key in result if counts[key] > 1]))
        return result

    try:
        try:
            value = json.loads(source, object_pairs_hook=to_object, parse_int=_integer)
        except json.JSONDecodeError:
            repeated.clear()
            plain = _COMMA.sub(_blanked, _COMMENT.sub(_blanked, source))
            value = json.loads(plain, object_pairs_hook=to_object, parse_int=_integer)
            first = next(k for k, (a, b) in enumerate(zip(source, plain, strict=True)) if a != b)
            line = source.count("\n", 0, first) + 1
            sentence = f"has comments, or commas before closing brackets, the first in line {line}"
            problems.append(Ignored((), sentence))
            source = plain
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise ModelError([Problem((), f"must be JSON: {error.msg} at {place}")]) from None
    except RecursionError:  # of the standard library's parser, which gives up at a depth that no model has
        raise _too_deep() from None
    if _HALF_CHARACTER.search(source):
        _check_characters(value)
    if repeated:
        raise ModelError(_places(value, repeated))
    return value


def _too_deep() -> ModelError:
    return ModelError([Problem((), "must not be nested this deep")])


def _check_characters(value: Any) -> None:
    """Refuses half of a surrogate pair: no name that has one could be shown."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise _too_deep() from None
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        raise ModelError([Problem((), f"must have whole characters in its strings, got {half} alone")]) from None


def _places(value: Any, repeated: list[tuple[dict[str, Any], list[str]]]) -> list[Problem]:
    keys = {id(owner): keys for owner, keys in repeated}
    problems: list[Problem] = []
    waiting: list[tuple[JsonPath, Any]] = [((), value)]
    while waiting:
        path, here = waiting.pop()
        sentence = "must be there once, and is there more than once"
        problems += [Problem((*path, key), sentence) for key in keys.get(id(here), ())]
        children = here.items() if isinstance(here, dict) else enumerate(here) if isinstance(here, list) else ()
        waiting += reversed([((*path, key), child) for key, child in children])
    # Where the object itself gave way to another one of the same key, it has no place, but that key has.
    return problems
