"""Structs: what their fields hold, how they are shown, and how they are read from JSON and written to it.

The type of a field says of which kind it is, and a kind is all that depends on that: the checks of an argument and of a
value in JSON, and the ways from there and back. What is wrong in JSON is noted in a list, so that all is reported.
"""

from __future__ import annotations

import json
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from enum import Enum, Flag
from functools import partial, wraps
from types import NoneType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Concatenate,
    Literal,
    NamedTuple,
    ParamSpec,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

from torch_dml_ops._arguments import instance, integer, integers, listed, string, true_or_false
from torch_dml_ops._text import JsonPath, as_json, in_repr
from torch_dml_ops.directml.enums import named
from torch_dml_ops.directml.errors import Ignored, ModelError, ModelWarning, Problem

S = TypeVar("S", bound="Struct")
T = TypeVar("T")
P = ParamSpec("P")

# Reading.

# Notes what is wrong in the list, and goes on with the rest.
Parser = Callable[Concatenate[list[Problem], P], T | None]


def is_wrong(problems: Iterable[Problem]) -> bool:
    """Whether there is any besides those that say what is not read."""
    return any(not isinstance(problem, Ignored) for problem in problems)


def parser(function: Parser[P, T]) -> Parser[P, T]:
    """Makes the function return None wherever it has noted a problem."""

    @wraps(function)
    def parse_whole(problems: list[Problem], /, *args: P.args, **kwargs: P.kwargs) -> T | None:
        found: list[Problem] = []
        result = function(found, *args, **kwargs)
        problems += found
        return None if is_wrong(found) else result

    return parse_whole


def read(strict: bool, function: Parser[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What the parser makes of its arguments; raises ``ModelError`` with all the problems that it noted.

    What is not read is among these if `strict`; otherwise it is a warning to the caller's caller.
    """
    problems: list[Problem] = []
    result = function(problems, *args, **kwargs)
    if not strict:
        for problem in problems:
            if isinstance(problem, Ignored):
                warnings.warn(str(problem), ModelWarning, stacklevel=3)
        problems = [problem for problem in problems if not isinstance(problem, Ignored)]
    if problems:
        raise ModelError(problems)
    assert result is not None
    return result


def parse_name(problems: list[Problem], meaning: Callable[[str], T], name: Any, path: JsonPath) -> T | None:
    """What a name stands for; `meaning` raises ValueError for one that it does not know."""
    problems += (wrong := list(is_a(str)(name, path)))
    if wrong:
        return None
    try:
        return meaning(name)
    except ValueError as error:
        problems.append(Problem(path, str(error)))
        return None


# Checks of values in JSON, which are put together to those of fields.

Check = Callable[[Any, JsonPath], Iterable[Problem]]

_NAMES = {int: "a whole number", bool: "true or false", str: "a string", list: "an array", dict: "an object"}


def is_a(kind: type) -> Check:
    """Of exactly this type: nothing is converted, and true is no number."""

    def check(value: Any, path: JsonPath) -> Iterator[Problem]:
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            of_64_bits = " of 64 bits" if kind is int and isinstance(value, LongInteger) else ""
            yield Problem(path, f"must be {_NAMES[kind]}{of_64_bits}, got {as_json(value)}")

    return check


def is_one_of(*values: object) -> Check:
    def check(value: Any, path: JsonPath) -> Iterator[Problem]:
        if value not in values:
            yield Problem(path, f"must be {' or '.join(map(repr, values))}, got {as_json(value)}")

    return check


def is_within(least: int, most: int) -> Check:
    def check(value: Any, path: JsonPath) -> Iterator[Problem]:
        if not least <= value <= most:
            rule = f"must be at least {least}" if value < least else f"must be at most {most}"
            yield Problem(path, f"{rule}, got {as_json(value)}")

    return check


def _each(entry: Check) -> Check:
    return lambda values, path: [found for k, value in enumerate(values) for found in entry(value, (*path, k))]


def _in_turn(*checks: Check) -> Check:
    """The checks one after another, until one finds something."""
    return lambda value, path: next((found for check in checks if (found := list(check(value, path)))), [])


def _no_check(value: Any, path: JsonPath) -> Iterable[Problem]:
    return ()


# Kinds of fields.


class Kind(NamedTuple):
    """What a field holds."""

    argument: Callable[[str, Any], Any]  # what is kept of an argument, given with its name; raises TypeError
    check: Check = _no_check  # of what stands in JSON; only what all fields passed is read
    read: Callable[[list[Problem], Any, JsonPath], Any] = lambda problems, value, path: value
    write: Callable[[Any], Any] = lambda value: value
    required: bool = False  # in JSON, although an argument of it has a default


ANYTHING = Kind(lambda name, value: value)
INTEGER = Kind(integer, is_a(int))


def whole_number_within(least: int, most: int) -> Kind:
    return Kind(integer, _in_turn(is_a(int), is_within(least, most)))


def or_none(kind: Kind) -> Kind:
    return kind._replace(
        argument=lambda name, value: None if value is None else kind.argument(name, value),
        check=lambda value, path: () if value is None else kind.check(value, path),
        read=lambda problems, value, path: None if value is None else kind.read(problems, value, path),
    )


def _list_of(entry: Kind, called: str) -> Kind:
    return Kind(
        lambda name, values: tuple(
            [entry.argument(f"{name}[{k}]", value) for k, value in enumerate(listed(name, values, called))]
        ),
        _in_turn(is_a(list), _each(entry.check)),
        lambda problems, values, path: [entry.read(problems, value, (*path, k)) for k, value in enumerate(values)],
        lambda values: [entry.write(value) for value in values],
    )


INTEGERS = _list_of(INTEGER, "whole numbers")._replace(argument=integers)


def _member(enumeration: Any) -> Kind:
    return Kind(
        partial(instance, enumeration),
        is_a(str),
        lambda problems, value, path: parse_name(problems, partial(named, enumeration), value, path),
        lambda member: member.name,
    )


def flags(enumeration: Any) -> Kind:
    """In JSON a name, or an array of names."""
    one = _member(enumeration)

    def read(problems: list[Problem], value: Any, path: JsonPath) -> Any:
        names = {(*path, k): name for k, name in enumerate(value)} if isinstance(value, list) else {path: value}
        found = [one.read(problems, name, place) for place, name in names.items()]
        return None if None in found else enumeration(sum({*found}))

    return one._replace(
        argument=partial(instance, enumeration, called=enumeration.__name__), check=_no_check, read=read
    )


def _struct(struct: type[Struct]) -> Kind:
    return Kind(
        lambda name, value: instance(struct, name, value, struct._called),
        read=struct._read,
        write=lambda value: value.to_json(),
    )


_KINDS: dict[Any, Kind] = {
    Any: ANYTHING,
    int: INTEGER,
    str: Kind(string, is_a(str)),
    bool: Kind(true_or_false, is_a(bool)),
    str | None: Kind(
        lambda name, value: instance((str, NoneType), name, value, "a string or None"),
        lambda value, path: () if value is None else is_a(str)(value, path),
    ),
    Sequence[int]: INTEGERS,
}


def _kind_of(hint: Any) -> Kind:
    """Of fields of this type."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint in _KINDS:
        return _KINDS[hint]
    if origin is Annotated:
        return next(extra for extra in arguments if isinstance(extra, Kind))
    if NoneType in arguments:
        return or_none(_kind_of(arguments[0]))
    if origin is Literal:
        return ANYTHING._replace(check=is_one_of(*arguments))
    if origin is dict:
        return ANYTHING._replace(check=is_a(dict))
    if origin is not None:
        return _list_of(_kind_of(arguments[0]), getattr(arguments[0], "__name__", "values"))
    if issubclass(hint, Struct):
        return _struct(hint)
    if issubclass(hint, Enum):
        return flags(hint) if issubclass(hint, Flag) else _member(hint)
    return Kind(partial(instance, hint))


# Structs.


class Field(NamedTuple):
    name: str
    kind: Kind
    default: Any  # MISSING where there is none
    has_name: bool  # in the repr

    @property
    def required(self) -> bool:
        """In JSON."""
        return self.kind.required or self.default is MISSING


def name_in_json(field: str) -> str:
    """``InputTensor`` of ``input_tensor``: the name in C, and so in model files."""
    return field.title().replace("_", "")


def fields_of(struct: type[Struct]) -> dict[str, Field]:
    """The fields of a struct by their names in JSON; with `kind` and `json` among a field's metadata it has others."""
    if "_fields" not in vars(struct):
        # KW_ONLY is an object, and Python 3.10 refuses hints that are no types.
        hints = get_type_hints(struct, localns={"KW_ONLY": object}, include_extras=True)
        struct._fields = {
            f.metadata.get("json") or struct._name_in_json(f.name): Field(
                f.name, f.metadata.get("kind") or _kind_of(hints[f.name]), f.default, f.kw_only is True
            )
            for f in fields(struct)
        }
    return struct._fields


@dataclass(frozen=True)
class Struct:
    """A dataclass whose fields are of the kinds that their types say. Making one checks nothing but types."""

    _called: ClassVar[str | None] = None  # in sentences
    _fields: ClassVar[dict[str, Field]]
    _name_in_json: ClassVar[Callable[[str], str]] = staticmethod(name_in_json)

    def __post_init__(self) -> None:
        values, owner = vars(self), type(self).__name__  # written to directly, as the class is frozen
        for name, kind, _, _ in fields_of(type(self)).values():
            values[name] = kind.argument(f"{owner}: {name}", values[name])
        for name, value in self._assumed().items():
            if values[name] is None:
                values[name] = value

    def _assumed(self) -> dict[str, Any]:
        """The values that None stands for, by field."""
        return {}

    def _more_than_assumed(self) -> dict[str, Any]:
        """The values, by their names in JSON, of all fields that would be others if they were not given."""
        assumed = self._assumed()
        values = {
            key: (getattr(self, f.name), assumed.get(f.name, f.default)) for key, f in fields_of(type(self)).items()
        }
        return {key: value for key, (value, unless) in values.items() if unless is MISSING or value != unless}

    def __repr__(self) -> str:
        known = fields_of(type(self))
        shown = (
            f"{known[key].name}={in_repr(value)}" if known[key].has_name else in_repr(value)
            for key, value in self._more_than_assumed().items()
        )
        return f"{type(self).__name__}({', '.join(shown)})"

    def _to_json(self) -> dict[str, Any]:
        known = fields_of(type(self))
        return {key: known[key].kind.write(value) for key, value in self._more_than_assumed().items()}

    @classmethod
    def _read(cls: type[S], problems: list[Problem], value: Any, path: JsonPath) -> S | None:
        return parse(problems, cls, value, path)


@dataclass(frozen=True, kw_only=True)
class FileObject(Struct):
    """An object of a model file, whose fields are called as there."""

    _name_in_json = str


@parser
def parse_fields(
    problems: list[Problem], known: Mapping[str, Field], value: Any, path: JsonPath
) -> dict[str, Any] | None:
    """The values of an object's fields, by the names of those."""
    if wrong := list(is_a(dict)(value, path)):
        problems += wrong
        return None
    for key in value:
        if not isinstance(key, str):
            problems.append(Problem(path, f"must have strings as keys, got {as_json(key)}"))
        elif key not in known:
            problems.append(Ignored((*path, key), f"is not a field here; those that are: {', '.join(known)}"))
    for key, field in known.items():
        if key in value:
            wrong += field.kind.check(value[key], (*path, key))
        elif field.required:
            wrong.append(Problem((*path, key), "is required"))
    problems += wrong
    if wrong:
        return None
    return {f.name: f.kind.read(problems, value[key], (*path, key)) for key, f in known.items() if key in value}


def parse(problems: list[Problem], struct: type[S], value: Any, path: JsonPath) -> S | None:
    """The struct that an object of JSON is; None, and what is wrong among `problems`, where it is not."""
    found = parse_fields(problems, fields_of(struct), value, path)
    return None if found is None else struct(**found)


# The text of JSON, as DxDispatch reads it: with comments and commas before closing brackets.

# A string that is never closed matches up to the end of the text; else each quote in it would be tried as its start.
_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)'
_HALF_CHARACTER = re.compile(r"\\u[dD][89a-fA-F]")
# Matches other than `blank` stay as they are: a comment that is never closed, a comma without a value before it.
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


def load_json(problems: list[Problem], source: str) -> Any:
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
    # An object that another one of the same key has replaced is not found; but that key is.
    return problems
