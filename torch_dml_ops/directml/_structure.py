"""The structure of JSON objects: which fields, of which types. Pydantic checks it.

Pydantic and not msgspec, because it reports everything that is wrong, each with its place, where msgspec stops at the
first.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from torch_dml_ops.directml._json_text import LongInteger
from torch_dml_ops.directml._text import JsonPath, text
from torch_dml_ops.directml.errors import Ignored, ModelError, ModelWarning, Problem


class Structure(BaseModel):
    """An object of JSON, of whose values none is converted to another type."""

    model_config = ConfigDict(strict=True, frozen=True)


S = TypeVar("S", bound=Structure)
T = TypeVar("T")
P = ParamSpec("P")

# Notes what is wrong in the list, and goes on with the rest, so that all of it is reported.
Parser = Callable[Concatenate[list[Problem], P], T | None]

_SENTENCES = {
    "missing": "is required",
    "int_type": "must be a whole number",
    "bool_type": "must be true or false",
    "string_type": "must be a string",
    "list_type": "must be an array",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "literal_error": "must be {expected}",
}


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


def parse(problems: list[Problem], structure: type[S], value: Any, path: JsonPath) -> S | None:
    """The structure that `value` is; None, and what is wrong among `problems`, where it is not."""
    if isinstance(value, dict):
        fields = [field.alias or name for name, field in structure.model_fields.items()]
        for key in value:
            if not isinstance(key, str):
                problems.append(Problem(path, f"must have strings as keys, got {text(key)}"))
            elif key not in fields:
                problems.append(Ignored((*path, key), f"is not a field here; those that are: {', '.join(fields)}"))
    try:
        return structure.model_validate(value)
    except ValidationError as error:
        for found in error.errors(include_url=False):
            kind, place, got = found["type"], (*path, *found["loc"]), text(found["input"])
            if kind == "int_type" and isinstance(found["input"], LongInteger):
                sentence = f"must be a whole number of 64 bits, got {got}"
            else:
                sentence = _SENTENCES[kind].format(**found.get("ctx", {})) if kind in _SENTENCES else found["msg"]
                if kind != "missing":
                    sentence += f", got {got}"
            problems.append(Problem(place, sentence))
        return None


def parse_name(problems: list[Problem], meaning: Callable[[str], T], name: Any, path: JsonPath) -> T | None:
    """What a name stands for; `meaning` raises ValueError for one that it does not know."""
    if not isinstance(name, str):
        problems.append(Problem(path, f"must be a string, got {text(name)}"))
        return None
    try:
        return meaning(name)
    except ValueError as error:
        problems.append(Problem(path, str(error)))
        return None
