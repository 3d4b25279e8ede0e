"""DirectML's enumerations, with the values that its headers give them."""

from __future__ import annotations

from enum import Enum, IntEnum, IntFlag
from typing import TypeVar

import torch

E = TypeVar("E", bound=Enum)


def _named(enumeration: type[E], text: str, prefix: str) -> E:
    """The member of this name, which may have before it what DirectML's headers put there."""
    names = enumeration.__members__
    if text.removeprefix(prefix) not in names:
        raise ValueError(f"must be one of {', '.join(names)}, got {text!r}")
    return names[text.removeprefix(prefix)]


class TensorDataType(IntEnum):
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
        for data_type in cls:
            if data_type.dtype == dtype:
                return data_type
        raise ValueError(f"DirectML has no data type for {dtype}; it has {', '.join(t.name for t in cls)}")

    @classmethod
    def parse(cls, text: str) -> TensorDataType:
        """``FLOAT32`` or ``DML_TENSOR_DATA_TYPE_FLOAT32``; raises ``ValueError`` for any other text.

        >>> TensorDataType.parse("DML_TENSOR_DATA_TYPE_UINT8")
        <TensorDataType.UINT8: 5>
        """
        return _named(cls, text, "DML_TENSOR_DATA_TYPE_")


class TensorFlags(IntFlag):
    """Options of a tensor. Here they mean nothing, as no operator keeps its inputs.

    Source: `DML_TENSOR_FLAGS
    <https://learn.microsoft.com/en-us/windows/win32/api/directml/ne-directml-dml_tensor_flags>`_.

    >>> TensorFlags.parse("DML_TENSOR_FLAG_OWNED_BY_DML").name
    'OWNED_BY_DML'
    """

    NONE = 0
    OWNED_BY_DML = 1

    @classmethod
    def _missing_(cls, value: object) -> TensorFlags:
        raise ValueError(f"TensorFlags: there are no flags but NONE and OWNED_BY_DML, got {value!r}")

    @classmethod
    def parse(cls, text: str) -> TensorFlags:
        """``NONE`` or ``DML_TENSOR_FLAG_NONE``; raises ``ValueError`` for any other text."""
        return _named(cls, text, "DML_TENSOR_FLAG_")


class FeatureLevel(IntEnum):
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
        name = text.removeprefix("DML_FEATURE_LEVEL_")
        for level in cls:
            if str(level) == name:
                return level
        raise ValueError(f"must be one of {', '.join(map(str, cls))}, got {text!r}")
