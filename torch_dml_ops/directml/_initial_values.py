"""What a model file fills its buffers with, checked before anything is allocated."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from torch_dml_ops._text import JsonPath, as_json
from torch_dml_ops.directml.enums import TensorDataType
from torch_dml_ops.directml.errors import ModelError, Problem

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
    delta: bytes | None

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
