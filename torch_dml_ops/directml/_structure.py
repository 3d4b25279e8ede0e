"""The structure of JSON objects: which fields, of which types. Pydantic checks it.

Pydantic and not msgspec, because it reports everything that is wrong, each with its place, where msgspec stops at the
first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from torch_dml_ops.directml._json_text import LongInteger
from torch_dml_ops.directml.errors import Path, Problem, text


class Structure(BaseModel):
    """An object of JSON: no field besides those that are declared, and no value converted to another type."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


S = TypeVar("S", bound=Structure)
T = TypeVar("T")

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
    "literal_error": "must be one of {expected}",
}


def _fields(structure: type[Structure]) -> str:
    return ", ".join(field.alias or name for name, field in structure.model_fields.items())


def parse(structure: type[S], value: Any, path: Path, problems: list[Problem]) -> S | None:
    """The structure that `value` is; None, and what is wrong among `problems`, where it is not."""
    try:
        return structure.model_validate(value)
    except ValidationError as error:
        for found in error.errors(include_url=False):
            kind = found["type"]
            if kind == "extra_forbidden":
                sentence = f"is not a field here; those that are: {_fields(structure)}"
            elif kind == "int_type" and isinstance(found["input"], LongInteger):
                sentence = f"must be a whole number of 64 bits, got {text(found['input'])}"
            else:
                sentence = _SENTENCES.get(kind, found["msg"]).format(**found.get("ctx", {}))
                if kind != "missing":
                    sentence += f", got {text(found['input'])}"
            problems.append(Problem((*path, *found["loc"]), sentence))
        return None


def parse_name(parser: Callable[[str], T], name: str, path: Path, problems: list[Problem]) -> T | None:
    """What a name stands for; `parser` raises ValueError for one that it does not know."""
    try:
        return parser(name)
    except ValueError as error:
        problems.append(Problem(path, str(error)))
        return None
