"""The structure of JSON objects: which fields, of which types."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, Field, dataclass, fields
from functools import cache, wraps
from types import NoneType
from typing import (
    Annotated,
    Any,
    Concatenate,
    Literal,
    NamedTuple,
    ParamSpec,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

from torch_dml_ops._text import JsonPath, as_json
from torch_dml_ops.directml._json_text import LongInteger
from torch_dml_ops.directml.errors import Ignored, ModelError, ModelWarning, Problem


@dataclass(frozen=True, kw_only=True)
class Structure:
    """An object of JSON. Its fields have the types that the values must have: none is converted to another."""


class Within(NamedTuple):
    """Limits of a whole number: ``Annotated[int, Within(0, 9)]``."""

    least: int
    most: int


S = TypeVar("S", bound=Structure)
T = TypeVar("T")
P = ParamSpec("P")

# Notes what is wrong in the list, and goes on with the rest, so that all of it is reported.
Parser = Callable[Concatenate[list[Problem], P], T | None]

_NAMES = {int: "a whole number", bool: "true or false", str: "a string", list: "an array", dict: "an object"}


def is_wrong(problems: Iterable[Problem]) -> bool:
    """Whether there is more among them than what is not read."""
    return any(not isinstance(problem, Ignored) for problem in problems)


def parser(function: Parser[P, T]) -> Parser[P, T]:
    """Takes care that what has a problem has no result, whatever the function returns."""

    @wraps(function)
    def parse_whole(problems: list[Problem], /, *args: P.args, **kwargs: P.kwargs) -> T | None:
        found: list[Problem] = []
        result = function(found, *args, **kwargs)
        problems += found
        return None if is_wrong(found) else result

    return parse_whole


def read(strict: bool, function: Parser[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What the parser makes of its arguments; raises ``ModelError`` with all the problems that it noted.

    What it noted as not read is among them if `strict`; else the caller's caller is warned of it.
    """
    problems: list[Problem] = []
    result = function(problems, *args, **kwargs)
    if not strict:
        for problem in problems:
            if isinstance(problem, Ignored):
                warnings.warn(str(problem), ModelWarning, stacklevel=4)
        problems = [problem for problem in problems if not isinstance(problem, Ignored)]
    if problems:
        raise ModelError(problems)
    assert result is not None
    return result


def _problems(kind: Any, value: Any, path: JsonPath) -> Iterator[Problem]:
    """What is wrong with a value that is to be of this kind."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any or (value is None and NoneType in arguments):
        return
    if NoneType in arguments:  # kind | None
        yield from _problems(arguments[0], value, path)
    elif origin is Literal:
        if value not in arguments:
            yield Problem(path, f"must be {' or '.join(map(repr, arguments))}, got {as_json(value)}")
    elif origin is Annotated:
        kind, limits = arguments
        wrong = list(_problems(kind, value, path))
        yield from wrong
        if not wrong and value < limits.least:
            yield Problem(path, f"must be at least {limits.least}, got {as_json(value)}")
        elif not wrong and value > limits.most:
            yield Problem(path, f"must be at most {limits.most}, got {as_json(value)}")
    elif not isinstance(value, origin or kind) or (kind is int and isinstance(value, bool)):
        of_64_bits = " of 64 bits" if kind is int and isinstance(value, LongInteger) else ""
        yield Problem(path, f"must be {_NAMES[origin or kind]}{of_64_bits}, got {as_json(value)}")
    elif origin is list:
        for k, entry in enumerate(value):
            yield from _problems(arguments[0], entry, (*path, k))


@cache
def _known(structure: Any) -> dict[str, tuple[Field[Any], Any]]:
    """The fields by their names in JSON, with their types."""
    types = get_type_hints(structure, include_extras=True)
    return {field.metadata.get("json", field.name): (field, types[field.name]) for field in fields(structure)}


def parse(problems: list[Problem], structure: type[S], value: Any, path: JsonPath) -> S | None:
    """The structure that `value` is; None, and what is wrong among `problems`, where it is not."""
    if not isinstance(value, dict):
        problems.append(Problem(path, f"must be an object, got {as_json(value)}"))
        return None
    known: dict[str, tuple[Field[Any], Any]] = _known(structure)  # type: ignore[arg-type]  # a class has a hash
    for key in value:
        if not isinstance(key, str):
            problems.append(Problem(path, f"must have strings as keys, got {as_json(key)}"))
        elif key not in known:
            problems.append(Ignored((*path, key), f"is not a field here; those that are: {', '.join(known)}"))
    found: dict[str, Any] = {}
    wrong: list[Problem] = []
    for key, (field, kind) in known.items():
        if key in value:
            found[field.name] = value[key]
            wrong += _problems(kind, value[key], (*path, key))
        elif field.default is MISSING:
            wrong.append(Problem((*path, key), "is required"))
    problems += wrong
    return None if wrong else structure(**found)


def parse_name(problems: list[Problem], meaning: Callable[[str], T], name: Any, path: JsonPath) -> T | None:
    """What a name stands for; `meaning` raises ValueError for one that it does not know."""
    if not isinstance(name, str):
        problems.append(Problem(path, f"must be a string, got {as_json(name)}"))
        return None
    try:
        return meaning(name)
    except ValueError as error:
        problems.append(Problem(path, str(error)))
        return None
