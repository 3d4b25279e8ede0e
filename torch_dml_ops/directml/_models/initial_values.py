"""What a model file fills its buffers with, read and checked before anything is allocated."""

from __future__ import annotations

import math
import warnings
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from torch_dml_ops.directml._schema.in_sentences import JsonPath, as_json, names
from torch_dml_ops.directml._schema.json_documents import Cursor, Wrong
from torch_dml_ops.directml._schema.structs import FileObject, whole_number_within
from torch_dml_ops.directml.enums import TensorDataType, element_type_named
from torch_dml_ops.directml.errors import ModelError, Problem
from torch_dml_ops.directml.tensor_desc import UINT_MAX

Bytes = NDArray[np.uint8]


@cache
def numpy_type(data_type: TensorDataType) -> np.dtype[Any]:
    """The data type in NumPy, little-endian as buffers are."""
    return np.dtype(data_type.name.lower()).newbyteorder("<")


class InitialValues(Protocol):
    """Values of a buffer."""

    @property
    def data_type(self) -> TensorDataType | None:
        """Of the values, None where they are of several types."""

    @property
    def size_in_bytes(self) -> int: ...

    def write(self, memory: Bytes) -> None:
        """Writes them to memory of their size."""


@dataclass(frozen=True)
class Listed:
    """Values that the file lists."""

    data_type: TensorDataType | None
    memory: bytes

    @property
    def size_in_bytes(self) -> int:
        return len(self.memory)

    def write(self, memory: Bytes) -> None:
        memory[:] = np.frombuffer(self.memory, np.uint8)


@dataclass(frozen=True)
class Counted:
    """A value, and what is added from each to the next, None where all are alike.

    Both in bytes: a NaN is not equal to itself, and two models that have it may be equal.
    """

    data_type: TensorDataType
    count: int
    start: bytes
    delta: bytes | None = None

    @property
    def size_in_bytes(self) -> int:
        return self.count * self.data_type.size_in_bytes

    def write(self, memory: Bytes) -> None:
        values = memory.view(numpy_type(self.data_type))
        values[0], values[1:] = (np.frombuffer(b, values.dtype)[0] for b in (self.start, self.delta or self.start))
        if self.delta is not None:  # adds one by one, in the values' own type, as DxDispatch does
            with np.errstate(over="ignore", invalid="ignore"):
                np.add.accumulate(values, dtype=values.dtype, out=values)


@dataclass(frozen=True)
class FromFile:
    """The contents of a .npy file, or of one of raw bytes."""

    data_type: TensorDataType
    size_in_bytes: int
    file: Path
    path: JsonPath

    def write(self, memory: Bytes) -> None:
        values = memory.view(numpy_type(self.data_type))
        try:
            if not self.file.is_file():  # to open a pipe would wait for its other end
                raise ValueError("it is no file")
            if self.file.suffix.lower() == ".npy":
                contents = array_in(self.file)
            else:
                contents = np.memmap(self.file, values.dtype, "r")
            had, has = (f"{array.size} values of {array.dtype.name.upper()}" for array in (values, contents))
            if had != has:
                raise ValueError(f"it had {had} and has {has}")
            values[:] = contents.reshape(-1)
        except (OSError, ValueError) as error:
            raise ModelError([Problem(self.path, f"has changed since the model was loaded: {error}")]) from None


_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def array_in(file: Path) -> NDArray[Any]:
    """The array of a .npy file, mapped and not read; raises ValueError where there is none, OSError as files do."""
    try:
        with file.open("rb") as opened, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Python, which parses the header
            sizes, in_columns, dtype = _HEADERS[np.lib.format.read_magic(opened)](opened)
            offset = opened.tell()
        whole = all(type(size) is int and size >= 0 for size in sizes)  # True is no size, and is an int
        if not whole or dtype.hasobject or offset + math.prod(sizes) * dtype.itemsize > file.stat().st_size:
            raise ValueError
        if dtype == np.bool_:  # which DirectML has as UINT8
            dtype = np.dtype(np.uint8)
        memory = np.memmap(file, np.uint8, "r")
        return np.ndarray(sizes, dtype, memory, offset, order="F" if in_columns else "C")
    except OSError:
        raise
    except Exception:  # the parser's own, of which NumPy lets several through
        raise ValueError(f"must be an array in NumPy's format, got {as_json(file.name)}") from None


# Reading.

_WORDS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}  # in any case

IMAGES = (".png", ".jpg")


@dataclass(frozen=True, kw_only=True)
class _ConstantJson(FileObject):
    valueCount: Annotated[int, whole_number_within(1, UINT_MAX)]
    value: Any


@dataclass(frozen=True, kw_only=True)
class _SequenceJson(FileObject):
    valueCount: Annotated[int, whole_number_within(1, UINT_MAX)]
    valueStart: Any
    valueDelta: Any


@dataclass(frozen=True, kw_only=True)
class _SourceJson(FileObject):
    sourcePath: str


@dataclass(frozen=True, kw_only=True)
class _ItemJson(FileObject):
    name: str | None = None
    type: str
    value: Any


def read_initial_values(resource: Cursor, data_type: TensorDataType | None, folder: Path) -> InitialValues:
    """The initial values of a resource whose data type is this, None for UNKNOWN or where none is given."""
    cursor = resource["initialValues"]
    value = cursor.value
    if value == "deferred":
        cursor.fail("must not be 'deferred', as such values come from an ONNX model")
    if not isinstance(value, (list, dict)):
        cursor.fail(f"must be an array or an object, got {as_json(value)}")
    if isinstance(value, list) and not value:
        cursor.fail("must have at least 1 value, got none")
    if isinstance(value, list) and data_type is None and any(isinstance(item, dict) for item in value):
        return Listed(None, b"".join(cursor.each(_item)))
    form: Any = None
    with suppress(Wrong):
        form = _form(cursor) if isinstance(value, dict) else None
    if form is _SourceJson:
        form._read(cursor)
        return _file(cursor["sourcePath"], data_type, folder)
    if data_type is None:
        resource["initialValuesDataType"].fail("is required, and not UNKNOWN, for these values")
    number = partial(_number, data_type)
    if cursor.whole(form) is None:
        return Listed(data_type, _bytes(cursor.each(number), data_type))
    json: Any = form._read(cursor)
    keys = ("value",) if form is _ConstantJson else ("valueStart", "valueDelta")
    return Counted(data_type, json.valueCount, *(_bytes([found], data_type) for found in cursor.each(number, keys)))


def _form(cursor: Cursor) -> type[FileObject]:
    """Which of them an object is, by the first of its keys that DxDispatch looks for."""
    forms: dict[str, type[FileObject]] = {
        "value": _ConstantJson,
        "valueStart": _SequenceJson,
        "sourcePath": _SourceJson,
        "valueDelta": _SequenceJson,
    }
    keys = [key for key in forms if key in cursor.value]
    if not keys:
        wanted = "value, valueStart and valueDelta, or sourcePath"
        cursor.fail(f"must have {wanted}, got {names(cursor.value) or 'no field'}")
    if keys[0] == "value" and {"valueStart", "sourcePath"} & {*keys}:
        cursor.fail(f"must have only one of {', '.join(keys)}")
    return forms[keys[0]]


def _number(data_type: TensorDataType, cursor: Cursor) -> Any:
    """The value as NumPy's of the type."""
    kind, value = numpy_type(data_type), cursor.value
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
    cursor.fail(f"must be {allowed}, got {as_json(value)}")


def _bytes(numbers: list[Any], data_type: TensorDataType) -> bytes:
    return np.array(numbers, numpy_type(data_type)).tobytes()


def _item(cursor: Cursor) -> bytes:
    """One of several values that each have their own type."""
    _ItemJson._read(cursor)
    data_type = cursor["type"].named(element_type_named)
    return _bytes([_number(data_type, cursor["value"])], data_type)


def _file(cursor: Cursor, data_type: TensorDataType | None, folder: Path) -> InitialValues:
    try:
        return _opened(cursor.value, data_type, folder, cursor.path)
    except OSError as error:
        cursor.fail(f"must be a file that can be read, got {as_json(cursor.value)}: {error.strerror}")
    except ValueError as error:
        cursor.fail(str(error))


def _opened(source: str, data_type: TensorDataType | None, folder: Path, path: JsonPath) -> InitialValues:
    """For a file that cannot be used it raises ValueError with a sentence that the caller begins: "must be …"."""
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
