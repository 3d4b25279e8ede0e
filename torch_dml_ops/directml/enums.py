"""DirectML's enumerations, with the values that its headers give them."""

from __future__ import annotations

from enum import EnumMeta, IntEnum, IntFlag
from typing import Any, TypeVar

import torch

from torch_dml_ops.directml._arguments import instance, string, whole_number
from torch_dml_ops.directml._text import text as shown

E = TypeVar("E", "TensorDataType", "TensorFlags", "ExecutionFlags", "FeatureLevel")

# What DirectML's headers put before the names.
_PREFIXES = {
    "TensorDataType": "DML_TENSOR_DATA_TYPE_",
    "TensorFlags": "DML_TENSOR_FLAG_",
    "ExecutionFlags": "DML_EXECUTION_FLAG_",
    "FeatureLevel": "DML_FEATURE_LEVEL_",
}


class _Numbered(EnumMeta):
    """Of a number that no member has, and of what is no number, calling the enumeration says so in a sentence."""

    def __call__(cls, value: Any, *definition: Any, **options: Any) -> Any:
        if definition or options:  # of another enumeration
            return super().__call__(value, *definition, **options)
        number = whole_number(cls.__name__, value)
        if number not in list(_members(cls).values()):
            names = ", ".join(_members(cls))
            raise ValueError(f"{cls.__name__} must be the number of a member ({names}), got {shown(number)}")
        return super().__call__(number)


def _members(enumeration: Any) -> dict[str, Any]:
    """By name, as it is short of all prefixes."""
    members = enumeration.__members__.items()
    return {name.removeprefix("LEVEL_"): member for name, member in members if member.name == name}


def named(enumeration: type[E], name: str) -> E:
    """The member of this name; for another one raises ``ValueError``, with a sentence that lacks its subject."""
    members = _members(enumeration)
    short = name.removeprefix(_PREFIXES[enumeration.__name__])
    if short not in members:
        raise ValueError(f"must be one of {', '.join(members)}, got {shown(name)}")
    result: E = members[short]
    return result


def _parsed(enumeration: type[E], name: Any) -> E:
    subject = f"{enumeration.__name__}.parse: text"
    string(subject, name)
    try:
        return named(enumeration, name)
    except ValueError as error:
        raise ValueError(f"{subject} {error}") from None


class TensorDataType(IntEnum, metaclass=_Numbered):
    """The type of a tensor's elements: those of DirectML's that the data-movement operators take.

    Source: `DML_TENSOR_DATA_TYPE
    <https://learn.microsoft.com/en-us/windows/win32/api/directml/ne-directml-dml_tensor_data_type>`_.

    >>> from torch_dml_ops.directml import TensorDataType
    >>> TensorDataType.FLOAT16.dtype, TensorDataType.FLOAT16.size_in_bytes
    (torch.float16, 2)
    """

    FLOAT32 = 1
    FLOAT16 = 2
    UINT32 = 3
    UINT16 = 4
    UINT8 = 5
    INT32 = 6
    INT16 = 7
    INT8 = 8
    FLOAT64 = 9
    UINT64 = 10
    INT64 = 11

    @property
    def dtype(self) -> torch.dtype:
        """The same type in torch."""
        dtype: torch.dtype = getattr(torch, self.name.lower())
        return dtype

    @property
    def size_in_bytes(self) -> int:
        """The size of an element, in bytes."""
        return self.dtype.itemsize

    @classmethod
    def of(cls, dtype: torch.dtype) -> TensorDataType:
        """The data type of torch tensors of this dtype; raises ``ValueError`` where DirectML has none.

        >>> TensorDataType.of(torch.int64)
        <TensorDataType.INT64: 11>
        """
        return data_type_of("TensorDataType.of: dtype", instance(torch.dtype, "TensorDataType.of: dtype", dtype))

    @classmethod
    def parse(cls, text: str) -> TensorDataType:
        """``FLOAT32`` or ``DML_TENSOR_DATA_TYPE_FLOAT32``; raises ``ValueError`` for any other text.

        >>> TensorDataType.parse("DML_TENSOR_DATA_TYPE_UINT8")
        <TensorDataType.UINT8: 5>
        """
        return _parsed(cls, text)


def data_type_of(name: str, dtype: torch.dtype) -> TensorDataType:
    for data_type in TensorDataType:
        if data_type.dtype == dtype:
            return data_type
    has = ", ".join(data_type.name.lower() for data_type in TensorDataType)
    raise ValueError(f"{name} must be one that DirectML has ({has}), got {str(dtype).removeprefix('torch.')}")


class TensorFlags(IntFlag, metaclass=_Numbered):
    """Options of a tensor. Here they mean nothing, as no operator keeps its inputs.

    Source: `DML_TENSOR_FLAGS
    <https://learn.microsoft.com/en-us/windows/win32/api/directml/ne-directml-dml_tensor_flags>`_.

    >>> TensorFlags.parse("DML_TENSOR_FLAG_OWNED_BY_DML").name
    'OWNED_BY_DML'
    """

    NONE = 0
    OWNED_BY_DML = 1

    @classmethod
    def parse(cls, text: str) -> TensorFlags:
        """``NONE`` or ``DML_TENSOR_FLAG_NONE``; raises ``ValueError`` for any other text."""
        return _parsed(cls, text)


class ExecutionFlags(IntFlag, metaclass=_Numbered):
    """Options of a compiled operator."""

    NONE = 0
    ALLOW_HALF_PRECISION_COMPUTATION = 1
    DISABLE_META_COMMANDS = 2
    DESCRIPTORS_VOLATILE = 4


class FeatureLevel(IntEnum, metaclass=_Numbered):
    """What a DirectML device can do, from the first level to the newest; they are ordered.

    Source: `DML_FEATURE_LEVEL
    <https://learn.microsoft.com/en-us/windows/win32/api/directml/ne-directml-dml_feature_level>`_ and the `feature
    level history <https://learn.microsoft.com/en-us/windows/ai/directml/dml-feature-level-history>`_.

    >>> from torch_dml_ops.directml import FeatureLevel
    >>> print(max(FeatureLevel), FeatureLevel.LEVEL_2_1 < FeatureLevel.LEVEL_4_1)
    6_4 True
    """

    LEVEL_1_0 = 0x1000
    LEVEL_2_0 = 0x2000
    LEVEL_2_1 = 0x2100
    LEVEL_3_0 = 0x3000
    LEVEL_3_1 = 0x3100
    LEVEL_4_0 = 0x4000
    LEVEL_4_1 = 0x4100
    LEVEL_5_0 = 0x5000
    LEVEL_5_1 = 0x5100
    LEVEL_5_2 = 0x5200
    LEVEL_6_0 = 0x6000
    LEVEL_6_1 = 0x6100
    LEVEL_6_2 = 0x6200
    LEVEL_6_3 = 0x6300
    LEVEL_6_4 = 0x6400
    NEWEST = LEVEL_6_4

    def __str__(self) -> str:
        return self.name.removeprefix("LEVEL_")

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    @classmethod
    def parse(cls, text: str) -> FeatureLevel:
        """``6_4`` or ``DML_FEATURE_LEVEL_6_4``; raises ``ValueError`` for any other text.

        >>> FeatureLevel.parse("4_1")
        <FeatureLevel.LEVEL_4_1: 16640>
        """
        return _parsed(cls, text)
