"""Structs: what their fields hold, how they are shown, and how they are read from JSON and written to it.

The type of a field says of which kind it is, and a kind is all that depends on that: the check of an argument, the
reading of a value in JSON, and the way back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields
from enum import Enum, Flag
from functools import partial
from types import NoneType
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import torch

from torch_dml_ops._sentences.arguments import integer
from torch_dml_ops._sentences.text import dtype_name
from torch_dml_ops.directml._schema.arguments import instance, integers, listed, string, true_or_false
from torch_dml_ops.directml._schema.in_sentences import as_json, in_repr
from torch_dml_ops.directml._schema.json_documents import Cursor, Wrong
from torch_dml_ops.directml.enums import named

S = TypeVar("S", bound="Struct")

# Kinds of fields.


class Kind(NamedTuple):
    """What a field holds."""

    argument: Callable[[str, Any], Any]  # what is kept of an argument, given with its name; raises TypeError
    read: Callable[[Cursor], Any] = lambda cursor: cursor.value  # what stands in JSON
    write: Callable[[Any], Any] = lambda value: value
    required: bool = False  # in JSON, although an argument of it has a default
    # Of names and objects, which are read when all else around them is right: the type that is asked for until then.
    at_first: type | None = None
    is_list: bool = False


ANYTHING = Kind(lambda name, value: value)
INTEGER = Kind(integer, lambda cursor: cursor.expect(int))
_STRING = Kind(string, lambda cursor: cursor.expect(str))


def whole_number_within(least: int, most: int) -> Kind:
    def read(cursor: Cursor) -> int:
        value = cursor.expect(int)
        if not least <= value <= most:
            rule = f"must be at least {least}" if value < least else f"must be at most {most}"
            cursor.fail(f"{rule}, got {as_json(value)}")
        return value

    return Kind(integer, read)


def _one_of(*values: object) -> Kind:
    def read(cursor: Cursor) -> Any:
        if cursor.value not in values:
            cursor.fail(f"must be {' or '.join(map(repr, values))}, got {as_json(cursor.value)}")
        return cursor.value

    return ANYTHING._replace(read=read)


def or_none(kind: Kind) -> Kind:
    return kind._replace(
        argument=lambda name, value: None if value is None else kind.argument(name, value),
        read=lambda cursor: None if cursor.value is None else kind.read(cursor),
    )


def _list_of(entry: Kind, called: str) -> Kind:
    return Kind(
        lambda name, values: tuple(
            [entry.argument(f"{name}[{k}]", value) for k, value in enumerate(listed(name, values, called))]
        ),
        lambda cursor: cursor.each(entry.read),
        lambda values: [entry.write(value) for value in values],
        at_first=entry.at_first and list,
        is_list=True,
    )


INTEGERS = _list_of(INTEGER, "whole numbers")._replace(argument=integers)


def _member(enumeration: Any) -> Kind:
    def argument(name: str, value: Any) -> Any:
        if isinstance(value, enumeration):
            return value
        # (torch.compile of torch 2.11 would end at what follows.)
        member = dtype_name(value) if isinstance(value, torch.dtype) else value
        member = member.upper() if isinstance(member, str) else ""
        way_out = f"; write {enumeration.__name__}.{member}" if member in enumeration.__members__ else ""
        return instance(enumeration, name, value, way_out=way_out)

    return Kind(
        argument,
        lambda cursor: cursor.named(partial(named, enumeration)),
        lambda member: member.name,
        at_first=str,
    )


def flags(enumeration: Any) -> Kind:
    """In JSON a name, or an array of names."""
    one = _member(enumeration)

    def read(cursor: Cursor) -> Any:
        found = cursor.each(one.read) if isinstance(cursor.value, list) else [one.read(cursor)]
        return enumeration(sum({*found}))

    argument = partial(instance, enumeration, called=enumeration.__name__)
    return one._replace(argument=argument, read=read, at_first=object)


def _struct(struct: type[Struct]) -> Kind:
    return Kind(
        lambda name, value: instance(struct, name, value, struct._called),
        struct._read,
        lambda value: value.to_json(),
        at_first=object,
    )


_KINDS: dict[Any, Kind] = {
    Any: ANYTHING,
    int: INTEGER,
    str: _STRING,
    bool: Kind(true_or_false, lambda cursor: cursor.expect(bool)),
    str | None: or_none(_STRING)._replace(argument=partial(instance, (str, NoneType), called="a string or None")),
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
        return _one_of(*arguments)
    if origin is dict:
        return ANYTHING._replace(read=lambda cursor: cursor.expect(dict))
    if origin is not None:
        return _list_of(_kind_of(arguments[0]), arguments[0].__name__)
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
    def _read(cls: type[S], cursor: Cursor) -> S:
        """The struct that an object of JSON is."""
        return cls(**read_fields(cursor, fields_of(cls)))


@dataclass(frozen=True, kw_only=True)
class FileObject(Struct):
    """An object of a model file, whose fields are called as there."""

    _name_in_json = str


def read_fields(cursor: Cursor, known: Mapping[str, Field]) -> dict[str, Any]:
    """The values of an object's fields, by the names of those."""
    value = cursor.expect(dict)
    for key in value:
        if not isinstance(key, str):
            cursor.note(f"must have strings as keys, got {as_json(key)}")
        elif key not in known:
            cursor[key].ignored(f"is not a field here; those that are: {', '.join(known)}")
    present = [(field, cursor[key]) for key, field in known.items() if key in value or field.required]
    found: dict[str, Any] = {}
    last: list[tuple[Field, Cursor]] = []
    for field, inner in present:
        with suppress(Wrong):
            if field.kind.at_first is None:
                found[field.name] = field.kind.read(inner.required())
            else:
                inner.required().expect(field.kind.at_first)
                last.append((field, inner))
    if len(found) + len(last) == len(present):
        for field, inner in last:
            with suppress(Wrong):
                found[field.name] = field.kind.read(inner)
    return cursor.whole(found)
