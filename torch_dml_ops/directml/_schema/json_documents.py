"""Documents of JSON: cursors, which know their places in them, and their text, as DxDispatch reads it."""

from __future__ import annotations

import json
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NoReturn, TypeVar

from torch_dml_ops.directml._schema.in_sentences import JsonPath, as_json
from torch_dml_ops.directml.errors import Ignored, ModelError, ModelWarning, Problem

T = TypeVar("T")

ABSENT = object()  # the value of a field that is not there

_NAMES = {int: "a whole number", bool: "true or false", str: "a string", list: "an array", dict: "an object"}


class Wrong(Exception):
    """Ends the reading of what something is wrong with, after that has been noted."""


class Cursor:
    """A value in a document, and its place there. What is wrong is noted for the whole document.

    What reads a value is a function of a cursor, and raises ``Wrong`` where it has no result.
    """

    __slots__ = ("_above", "_key", "is_wrong", "problems", "value")

    def __init__(self, value: Any, above: Cursor | None = None, key: str | int = "") -> None:
        self.value, self._above, self._key = value, above, key
        self.problems: list[Problem] = [] if above is None else above.problems
        self.is_wrong = False  # with this value, or inside it

    def get(self, key: str | int, default: Any) -> Cursor:
        """At a field, or at an entry of an array."""
        value = self.value
        return Cursor(value.get(key, default) if isinstance(value, dict) else value[key], self, key)

    def __getitem__(self, key: str | int) -> Cursor:
        return self.get(key, ABSENT)

    def inside(self) -> Iterator[Cursor]:
        """At every field or entry; of other values there are none."""
        value = self.value
        pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        return (Cursor(inner, self, key) for key, inner in pairs)

    def _way(self) -> list[Cursor]:
        """From the root to this one."""
        way = [self]
        while way[-1]._above is not None:
            way.append(way[-1]._above)
        return way[::-1]

    @property
    def path(self) -> JsonPath:
        return tuple([place._key for place in self._way()[1:]])

    # What is wrong.

    def note(self, sentence: str) -> None:
        self.problems.append(Problem(self.path, sentence))
        for place in self._way():
            place.is_wrong = True

    def fail(self, sentence: str) -> NoReturn:
        self.note(sentence)
        raise Wrong

    def ignored(self, sentence: str) -> None:
        """Notes that this is not read."""
        self.problems.append(Ignored(self.path, sentence))

    def whole(self, result: T) -> T:
        """The result, which there is only where nothing is wrong."""
        if self.is_wrong:
            raise Wrong
        return result

    # Reading.

    def expect(self, kind: type[T]) -> T:
        """The value, if it is of exactly this type: nothing is converted, and true is no number."""
        value = self.value
        if isinstance(value, kind) and (kind is not int or not isinstance(value, bool)):
            return value
        self.fail(f"must be {_NAMES[kind]}, got {as_json(value)}")

    def required(self, reason: str = "") -> Cursor:
        if self.value is ABSENT:
            self.fail(f"is required{reason}")
        return self

    def each(self, read: Callable[[Cursor], T], keys: Iterable[str] | None = None) -> list[T]:
        """What is read at these fields, or at every entry of an array."""
        if keys is None:
            self.expect(list)
        found = []
        for inner in self.inside() if keys is None else map(self.__getitem__, keys):
            try:
                found.append(read(inner))
            except Wrong:
                continue
        return self.whole(found)

    def named(self, meaning: Callable[[str], T]) -> T:
        """What a name stands for; `meaning` raises ValueError for one that it does not know."""
        try:
            return meaning(self.expect(str))
        except ValueError as error:
            self.fail(str(error))


def read(document: Cursor, function: Callable[[Cursor], T], strict: bool = False) -> T:
    """What the function reads; raises ``ModelError`` with all the problems that were noted.

    What is not read is among these if `strict`; otherwise it is a warning to the caller's caller.
    """
    with suppress(Wrong):
        result = function(document)
    problems = document.problems
    if not strict:
        for problem in problems:
            if isinstance(problem, Ignored):
                warnings.warn(str(problem), ModelWarning, stacklevel=3)
        problems = [problem for problem in problems if not isinstance(problem, Ignored)]
    if problems:
        raise ModelError(problems)
    return result


# Text, as DxDispatch reads it: with comments and commas before closing brackets.

# A string that is never closed matches up to the end of the text; else each quote in it would be tried as its start.
_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)'
_HALF_CHARACTER = re.compile(r"\\u[dD][89a-fA-F]")
# Matches other than `blank` stay as they are: a comment that is never closed, a comma without a value before it.
_COMMENT = re.compile(rf"{_STRING}|(?P<blank>//[^\n]*|/\*.*?\*/)|/\*.*\Z", re.DOTALL)
_COMMA = re.compile(rf"{_STRING}|[\[{{,:]\s*,|(?P<blank>,)(?=\s*[\]}}])", re.DOTALL)


def _blanked(found: re.Match[str]) -> str:
    """Spaces, so that what follows keeps its line and column."""
    return re.sub(r"[^\n]", " ", found[0]) if found["blank"] else found[0]


def load_json(document: Cursor) -> None:
    """Puts what the document's text says in the place of the text; an object must not have a key twice.

    Comments, and commas before closing brackets, are noted.
    """
    source = plain = document.value
    repeated: list[tuple[dict[str, Any], list[str]]] = []

    def to_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) != len(pairs):
            counts = Counter(key for key, _ in pairs)
            repeated.append((result, [key for key in result if counts[key] > 1]))
        return result

    def to_number(digits: str) -> float:
        return int(digits) if len(digits) <= 300 else float(digits)  # Python refuses some of the longer ones

    load = partial(json.loads, object_pairs_hook=to_object, parse_int=to_number)
    try:
        try:
            document.value = load(source)
        except json.JSONDecodeError:
            repeated.clear()
            plain = _COMMA.sub(_blanked, _COMMENT.sub(_blanked, source))
            document.value = load(plain)
        if _HALF_CHARACTER.search(plain):  # no name that has one could be shown
            json.dumps(document.value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        document.fail(f"must be JSON: {error.msg} at line {error.lineno}, column {error.colno}")
    except RecursionError:  # of the standard library's parser, which gives up at a depth that no model has
        document.fail("must not be nested this deep")
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        document.fail(f"must have whole characters in its strings, got {half} alone")
    if repeated:
        _note_repeated(document, {id(owner): keys for owner, keys in repeated})
        raise Wrong
    if plain != source:
        first = next(k for k, (a, b) in enumerate(zip(source, plain, strict=True)) if a != b)
        line = source.count("\n", 0, first) + 1
        document.ignored(f"has comments, or commas before closing brackets, the first in line {line}")


def _note_repeated(document: Cursor, keys: Mapping[int, Sequence[str]]) -> None:
    """The keys are those that objects have twice, by the identities of these."""
    waiting = [document]
    while waiting:
        here = waiting.pop()
        for key in keys.get(id(here.value), ()):
            here[key].note("must be there once, and is there more than once")
        waiting += reversed([*here.inside()])
    # An object that another one of the same key has replaced is not found; but that key is.
