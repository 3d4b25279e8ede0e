"""DirectML's enumerations and constants, with the values that its header gives them."""

from __future__ import annotations

import re
from enum import EnumMeta, IntEnum, IntFlag
from typing import Any, TypeVar

import torch

from torch_dml_ops._sentences.arguments import integer
from torch_dml_ops._sentences.text import dtype_name
from torch_dml_ops.directml._schema.arguments import instance, string
from torch_dml_ops.directml._schema.in_sentences import as_json

E = TypeVar("E", bound="_Named")

# The header's constants, whose names there begin with DML_.
TENSOR_DIMENSION_COUNT_MAX = 5  # before feature level 3_0
TENSOR_DIMENSION_COUNT_MAX1 = 8
TEMPORARY_BUFFER_ALIGNMENT = 256  # in bytes, as those that follow
PERSISTENT_BUFFER_ALIGNMENT = 256
MINIMUM_BUFFER_TENSOR_ALIGNMENT = 16

# What the header puts before the names.
_PREFIXES = {
    "TensorDataType": "DML_TENSOR_DATA_TYPE_",
    "TensorType": "DML_TENSOR_TYPE_",
    "TensorFlags": "DML_TENSOR_FLAG_",
    "OperatorType": "DML_OPERATOR_",
    "ExecutionFlags": "DML_EXECUTION_FLAG_",
    "FeatureLevel": "DML_FEATURE_LEVEL_",
}


class _Numbered(EnumMeta):
    """Of enumerations that are called with a number and give its member, or refuse it in one sentence."""

    def __call__(cls, value: Any) -> Any:  # type: ignore[override]
        number, numbers = integer(cls.__name__, value), [int(member) for member in _members(cls).values()]
        if issubclass(cls, IntFlag) and ~sum(numbers) <= number <= sum(numbers):
            return super().__call__(number & sum(numbers))  # ~flag is a negative number in Python
        if number not in numbers:
            names = ", ".join(_members(cls))
            raise ValueError(f"{cls.__name__} must be the number of a member ({names}), got {as_json(number)}")
        return super().__call__(number)

    def __getattr__(cls, name: str) -> Any:
        members = cls.__dict__.get("_member_map_", {})
        if name in members:  # Python 3.10 and 3.11 ask for them here
            return members[name]
        choices = f"; its members are {', '.join(members)}" if name.isupper() else ""
        raise AttributeError(f"{cls.__name__} has no attribute {name}{choices}")


def _members(enumeration: Any) -> dict[str, Any]:
    """By their names without prefixes: "6_4" for LEVEL_6_4."""
    members = enumeration.__members__.items()
    return {name.removeprefix("LEVEL_"): member for name, member in members if member.name == name}


def named(enumeration: type[E], name: str) -> E:
    """The member of this name, or ``ValueError`` with a sentence that the caller begins: "must be one of …"."""
    members = _members(enumeration)
    short = name.removeprefix(_PREFIXES[enumeration.__name__]).removeprefix("LEVEL_")
    if short not in members:
        raise ValueError(f"must be one of {', '.join(members)}, got {as_json(name)}")
    result: E = members[short]
    return result


class _Named:
    """What the enumerations have in common."""

    @classmethod
    def parse(cls: type[E], text: str) -> E:
        """The member of this name, with or without the header's prefix; raises ``ValueError`` for any other text.

        >>> from torch_dml_ops.directml import FeatureLevel, TensorDataType
        >>> TensorDataType.parse("UINT8"), TensorDataType.parse("DML_TENSOR_DATA_TYPE_UINT8")
        (<TensorDataType.UINT8: 5>, <TensorDataType.UINT8: 5>)
        >>> FeatureLevel.parse("4_1")
        <FeatureLevel.LEVEL_4_1: 16640>
        """
        subject = f"{cls.__name__}.parse: text"
        string(subject, text)
        try:
            return named(cls, text)
        except ValueError as error:
            raise ValueError(f"{subject} {error}") from None


class TensorDataType(_Named, IntEnum, metaclass=_Numbered):
    """The type of a tensor's elements.

    ``UNKNOWN`` is never valid. ``UINT4`` and ``INT4`` came with feature level 6_3 for other operators than those here,
    which refuse them, as torch has nothing to keep them in.

    Source: `DML_TENSOR_DATA_TYPE
    <https://learn.microsoft.com/en-us/windows/win32/api/directml/ne-directml-dml_tensor_data_type>`_.

    >>> from torch_dml_ops.directml import TensorDataType
    >>> TensorDataType.FLOAT16.dtype, TensorDataType.FLOAT16.size_in_bytes, TensorDataType.INT4.size_in_bits
    (torch.float16, 2, 4)
    """

    UNKNOWN = 0
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
    UINT4 = 12
    INT4 = 13

    @property
    def dtype(self) -> torch.dtype:
        """The same type in torch; raises ``ValueError`` for ``UNKNOWN``, ``UINT4`` and ``INT4``, which it lacks."""
        if self not in WITH_DTYPE:
            raise ValueError(f"TensorDataType.{self.name} has no dtype, as torch lacks the type")
        dtype: torch.dtype = getattr(torch, self.name.lower())
        return dtype

    @property
    def size_in_bits(self) -> int:
        """The size of an element, in bits; 0 for ``UNKNOWN``."""
        return int(re.sub(r"\D", "", self.name) or 0)

    @property
    def size_in_bytes(self) -> int:
        """The size of an element, in bytes; raises ``ValueError`` where ``dtype`` does."""
        return self.dtype.itemsize

    @classmethod
    def of(cls, dtype: torch.dtype) -> TensorDataType:
        """The data type of torch tensors of this dtype; raises ``ValueError`` where DirectML has none.

        >>> TensorDataType.of(torch.int64)
        <TensorDataType.INT64: 11>
        """
        return data_type_of("TensorDataType.of: dtype", instance(torch.dtype, "TensorDataType.of: dtype", dtype))


# Those that torch has, and DirectML's data-movement operators take.
WITH_DTYPE = tuple(data_type for data_type in TensorDataType if data_type.size_in_bits >= 8)


def data_type_of(name: str, dtype: torch.dtype) -> TensorDataType:
    for data_type in WITH_DTYPE:
        if data_type.dtype == dtype:
            return data_type
    has = ", ".join(data_type.name.lower() for data_type in WITH_DTYPE)
    raise ValueError(f"{name} must be one that DirectML has ({has}), got {dtype_name(dtype)}")


def element_type_named(name: str) -> TensorDataType:
    """That of values in memory; as :func:`named`, which knows those that torch lacks, too."""
    names = [data_type.name for data_type in WITH_DTYPE]
    if name.removeprefix(_PREFIXES["TensorDataType"]) not in names:
        raise ValueError(f"must be one of {', '.join(names)}, got {as_json(name)}")
    return named(TensorDataType, name)


class TensorType(_Named, IntEnum, metaclass=_Numbered):
    """What a tensor lies in: a buffer.

    Source: `DML_TENSOR_TYPE <https://learn.microsoft.com/en-us/windows/win32/api/directml/ne-directml-dml_tensor_type>`_.
    """

    INVALID = 0
    BUFFER = 1


class TensorFlags(_Named, IntFlag, metaclass=_Numbered):
    """Options of a tensor.

    ``OWNED_BY_DML`` is for inputs: such a tensor is given to :meth:`Operator.initialize`, once, and not to a call.

    Source: `DML_TENSOR_FLAGS
    <https://learn.microsoft.com/en-us/windows/win32/api/directml/ne-directml-dml_tensor_flags>`_.

    >>> TensorFlags.parse("DML_TENSOR_FLAG_OWNED_BY_DML").name
    'OWNED_BY_DML'
    """

    NONE = 0
    OWNED_BY_DML = 1


class OperatorType(_Named, IntEnum, metaclass=_Numbered):
    """The operators of this package.

    Source: `DML_OPERATOR_TYPE
    <https://learn.microsoft.com/en-us/windows/win32/api/directml/ne-directml-dml_operator_type>`_.

    >>> from torch_dml_ops.directml import OperatorType
    >>> OperatorType.parse("DML_OPERATOR_SLICE1")
    <OperatorType.SLICE1: 111>
    """

    INVALID = 0
    ELEMENT_WISE_IDENTITY = 1
    SLICE = 60
    SPLIT = 62
    JOIN = 63
    REVERSE_SUBSEQUENCES = 106
    SLICE1 = 111
    SLICE_GRAD = 135


class ExecutionFlags(_Named, IntFlag, metaclass=_Numbered):
    """Options of a compiled operator; to the operators here they make no difference.

    Source: `DML_EXECUTION_FLAGS
    <https://learn.microsoft.com/en-us/windows/win32/api/directml/ne-directml-dml_execution_flags>`_.

    >>> from torch_dml_ops.directml import ExecutionFlags
    >>> int(ExecutionFlags.DISABLE_META_COMMANDS | ExecutionFlags.parse("DESCRIPTORS_VOLATILE"))
    6
    """

    NONE = 0
    ALLOW_HALF_PRECISION_COMPUTATION = 1
    DISABLE_META_COMMANDS = 2
    DESCRIPTORS_VOLATILE = 4


class FeatureLevel(_Named, IntEnum, metaclass=_Numbered):
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
    def of_version(cls, version: str) -> FeatureLevel:
        """The level that a version of DirectML supports; of one between two that brought a level, the earlier one's.

        Raises ``ValueError`` for text that is not such a version.

        Source: the `version history <https://learn.microsoft.com/en-us/windows/ai/directml/dml-version-history>`_ and
        the feature level history.

        >>> FeatureLevel.of_version("1.15.4")
        <FeatureLevel.LEVEL_6_4: 25600>
        """
        subject = "FeatureLevel.of_version: version"
        string(subject, version)
        match = re.fullmatch(r"1\.(\d{1,9})(\.\d{1,9}){0,2}", version, re.ASCII)
        if match is None:
            raise ValueError(f"{subject} must be one of DirectML, such as 1.15.4, got {as_json(version)}")
        return next(level for minor, level in reversed(_LEVEL_OF_MINOR_VERSION.items()) if minor <= int(match[1]))


# By the minor versions that brought one; 1.15 brought two.
_LEVEL_OF_MINOR_VERSION = {
    0: FeatureLevel.LEVEL_1_0,
    1: FeatureLevel.LEVEL_2_0,
    2: FeatureLevel.LEVEL_2_1,
    4: FeatureLevel.LEVEL_3_0,
    5: FeatureLevel.LEVEL_3_1,
    6: FeatureLevel.LEVEL_4_0,
    7: FeatureLevel.LEVEL_4_1,
    8: FeatureLevel.LEVEL_5_0,
    9: FeatureLevel.LEVEL_5_1,
    10: FeatureLevel.LEVEL_5_2,
    11: FeatureLevel.LEVEL_6_0,
    12: FeatureLevel.LEVEL_6_1,
    13: FeatureLevel.LEVEL_6_2,
    15: FeatureLevel.LEVEL_6_4,
}
