"""Initial values from JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from torch_dml_ops._text import JsonPath, as_json, names
from torch_dml_ops.directml._initial_values import Counted, FromFile, InitialValues, Listed, array_in, numpy_type
from torch_dml_ops.directml._structure import Structure, Within, is_wrong, parse, parse_name, parser
from torch_dml_ops.directml.enums import TensorDataType, element_type_named
from torch_dml_ops.directml.errors import Problem
from torch_dml_ops.directml.tensor_desc import UINT_MAX

_WORDS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}  # in any case

IMAGES = (".png", ".jpg")


@dataclass(frozen=True, kw_only=True)
class _ConstantJson(Structure):
    valueCount: Annotated[int, Within(1, UINT_MAX)]
    value: Any


@dataclass(frozen=True, kw_only=True)
class _SequenceJson(Structure):
    valueCount: Annotated[int, Within(1, UINT_MAX)]
    valueStart: Any
    valueDelta: Any


@dataclass(frozen=True, kw_only=True)
class _SourceJson(Structure):
    sourcePath: str


@dataclass(frozen=True, kw_only=True)
class _ItemJson(Structure):
    name: str | None = None
    type: str
    value: Any


@parser
def parse_initial_values(
    problems: list[Problem], value: Any, data_type: TensorDataType | None, folder: Path, path: JsonPath
) -> InitialValues | None:
    """The initial values of a resource whose data type is this, None for UNKNOWN or where none is given."""
    if value == "deferred":
        problems.append(Problem(path, "must not be 'deferred', as such values come from an ONNX model"))
        return None
    if not isinstance(value, (list, dict)):
        problems.append(Problem(path, f"must be an array or an object, got {as_json(value)}"))
        return None
    if isinstance(value, list) and not value:
        problems.append(Problem(path, "must have at least 1 value, got none"))
        return None
    if isinstance(value, list) and data_type is None and any(isinstance(item, dict) for item in value):
        return _items(problems, value, path)
    form = _form(problems, value, path) if isinstance(value, dict) else None
    if form is _SourceJson:
        source = parse(problems, _SourceJson, value, path)
        if source is None:
            return None
        return _file(problems, source.sourcePath, data_type, folder, (*path, "sourcePath"))
    if data_type is None:
        problems.append(
            Problem((*path[:-1], "initialValuesDataType"), "is required, and not UNKNOWN, for these values")
        )
        return None
    if isinstance(value, list):
        numbers = [_number(problems, number, data_type, (*path, k)) for k, number in enumerate(value)]
        return None if is_wrong(problems) else Listed(data_type, _bytes(numbers, data_type))
    if form is _SequenceJson:
        sequence = parse(problems, _SequenceJson, value, path)
        if sequence is None:
            return None
        start = _number(problems, sequence.valueStart, data_type, (*path, "valueStart"))
        delta = _number(problems, sequence.valueDelta, data_type, (*path, "valueDelta"))
        if is_wrong(problems):
            return None
        return Counted(data_type, sequence.valueCount, _bytes([start], data_type), _bytes([delta], data_type))
    constant = parse(problems, _ConstantJson, value, path) if form is _ConstantJson else None
    if constant is None:
        return None
    start = _number(problems, constant.value, data_type, (*path, "value"))
    return None if is_wrong(problems) else Counted(data_type, constant.valueCount, _bytes([start], data_type), None)


def _form(problems: list[Problem], value: dict[str, Any], path: JsonPath) -> type[Structure] | None:
    """Which of them an object is, by the first of its keys that DxDispatch looks for."""
    forms: dict[str, type[Structure]] = {
        "value": _ConstantJson,
        "valueStart": _SequenceJson,
        "sourcePath": _SourceJson,
        "valueDelta": _SequenceJson,
    }
    keys = [key for key in forms if key in value]
    if not keys:
        wanted = "value, valueStart and valueDelta, or sourcePath"
        problems.append(Problem(path, f"must have {wanted}, got {names(value) or 'no field'}"))
        return None
    if keys[0] == "value" and {"valueStart", "sourcePath"} & {*keys}:
        problems.append(Problem(path, f"must have only one of {', '.join(keys)}"))
        return None
    return forms[keys[0]]


def _number(problems: list[Problem], value: Any, data_type: TensorDataType, path: JsonPath) -> Any:
    """The value as NumPy's of the type; None, and what is wrong among `problems`, where it is none."""
    kind = numpy_type(data_type)
    if kind.kind == "f":
        if isinstance(value, str) and value.lower() in _WORDS:
            return kind.type(_WORDS[value.lower()])
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            with np.errstate(over="ignore"):
                number = kind.type(value)
            if np.isfinite(number):
                return number
            words = "no NaN and no infinity in JSON, but the strings " + ", ".join(f'"{word}"' for word in _WORDS)
            allowed = f"a number that {data_type.name} can hold; there is {words}"
        else:
            allowed = f"a number, or one of the strings {', '.join(_WORDS)}"
    else:
        limits = np.iinfo(kind)
        if isinstance(value, int) and not isinstance(value, bool) and limits.min <= value <= limits.max:
            return kind.type(value)
        allowed = f"a whole number from {limits.min} to {limits.max}, as the type is {data_type.name}"
    problems.append(Problem(path, f"must be {allowed}, got {as_json(value)}"))
    return None


def _bytes(numbers: list[Any], data_type: TensorDataType) -> bytes:
    return np.array(numbers, numpy_type(data_type)).tobytes()


@parser
def _items(problems: list[Problem], values: Sequence[Any], path: JsonPath) -> InitialValues | None:
    """Values of several types, each with its own."""
    memory: list[bytes] = []
    for k, value in enumerate(values):
        item = parse(problems, _ItemJson, value, (*path, k))
        if item is None:
            continue
        data_type = parse_name(problems, element_type_named, item.type, (*path, k, "type"))
        if data_type is not None:
            number = _number(problems, item.value, data_type, (*path, k, "value"))
            if number is not None:
                memory.append(_bytes([number], data_type))
    return None if is_wrong(problems) else Listed(None, b"".join(memory))


def _file(
    problems: list[Problem], source: str, data_type: TensorDataType | None, folder: Path, path: JsonPath
) -> InitialValues | None:
    try:
        return _opened(source, data_type, folder, path)
    except OSError as error:
        problems.append(Problem(path, f"must be a file that can be read, got {as_json(source)}: {error.strerror}"))
    except ValueError as error:
        problems.append(Problem(path, str(error)))
    return None


def _opened(source: str, data_type: TensorDataType | None, folder: Path, path: JsonPath) -> InitialValues:
    """Raises ValueError, with the rest of a sentence, for a file that cannot be used."""
    relative = Path(source.replace("\\", "/"))  # as Windows writes it
    suffix = relative.suffix.lower()
    if suffix in IMAGES:
        raise ValueError(f"must not be an image, as images are not supported, got {as_json(source)}")
    file = next((f for f in (folder / relative, Path.cwd() / relative) if f.is_file()), None)
    if file is None:
        where = "in the input path (the model's folder if none is given) or in the current directory"
        raise ValueError(f"must be a file {where}, got {as_json(source)}")
    if suffix != ".npy" and data_type is None:
        raise ValueError("needs the data type of its values: give initialValuesDataType, and not UNKNOWN")
    if file.stat().st_size == 0:
        raise ValueError(f"must not be an empty file, got {as_json(source)}")
    if suffix != ".npy":
        assert data_type is not None
        if file.stat().st_size % data_type.size_in_bytes:
            raise ValueError(f"must have whole values of {data_type.name}, got {file.stat().st_size} bytes")
        return FromFile(data_type, file.stat().st_size, file, path)
    array = array_in(file)
    try:
        found = element_type_named(array.dtype.name.upper())
    except ValueError:
        raise ValueError(f"must be an array of one of DirectML's data types, got {array.dtype.name}") from None
    if array.size == 0:
        raise ValueError(f"must be an array with at least 1 value, got sizes {as_json(array.shape)}")
    if data_type not in (None, found):
        raise ValueError(f"must be an array of {as_json(data_type)}, as initialValuesDataType says, got {found.name}")
    return FromFile(found, array.nbytes, file, path)
