"""DirectML's enumerations and constants, against the numbers of its header, and its versions."""

import pytest
import torch

from torch_dml_ops import directml
from torch_dml_ops.directml import ExecutionFlags, FeatureLevel, OperatorType, TensorDataType, TensorFlags


def counted(prefix: str, names: str) -> dict[str, int]:
    return {prefix + name: number for number, name in enumerate(names.split())}


# As DirectML.h of version 1.15.4 numbers them.
HEADER = {
    TensorDataType: counted(
        "DML_TENSOR_DATA_TYPE_",
        "UNKNOWN FLOAT32 FLOAT16 UINT32 UINT16 UINT8 INT32 INT16 INT8 FLOAT64 UINT64 INT64 UINT4 INT4",
    ),
    directml.TensorType: counted("DML_TENSOR_TYPE_", "INVALID BUFFER"),
    TensorFlags: counted("DML_TENSOR_FLAG_", "NONE OWNED_BY_DML"),
    OperatorType: {
        f"DML_OPERATOR_{name}": number
        for name, number in {
            **{"INVALID": 0, "ELEMENT_WISE_IDENTITY": 1, "SLICE": 60, "SPLIT": 62, "JOIN": 63},
            **{"REVERSE_SUBSEQUENCES": 106, "SLICE1": 111, "SLICE_GRAD": 135},
        }.items()
    },
    ExecutionFlags: {
        "DML_EXECUTION_FLAG_NONE": 0,
        "DML_EXECUTION_FLAG_ALLOW_HALF_PRECISION_COMPUTATION": 1,
        "DML_EXECUTION_FLAG_DISABLE_META_COMMANDS": 2,
        "DML_EXECUTION_FLAG_DESCRIPTORS_VOLATILE": 4,
    },
    FeatureLevel: {
        f"DML_FEATURE_LEVEL_{major}_{minor}": 0x1000 * major + 0x100 * minor
        for major, minors in {1: 1, 2: 2, 3: 2, 4: 2, 5: 3, 6: 5}.items()
        for minor in range(minors)
    },
}
CONSTANTS = {
    "TENSOR_DIMENSION_COUNT_MAX": 5,
    "TENSOR_DIMENSION_COUNT_MAX1": 8,
    "TEMPORARY_BUFFER_ALIGNMENT": 256,
    "PERSISTENT_BUFFER_ALIGNMENT": 256,
    "MINIMUM_BUFFER_TENSOR_ALIGNMENT": 16,
}


@pytest.mark.parametrize("enumeration", HEADER, ids=lambda e: e.__name__)
def test_numbers_are_those_of_the_header(enumeration: type) -> None:
    members = [member for name, member in enumeration.__members__.items() if member.name == name]  # type: ignore[attr-defined]
    assert {enumeration.parse(name): number for name, number in HEADER[enumeration].items()} == {  # type: ignore[attr-defined]
        member: int(member) for member in members
    }
    for name, number in HEADER[enumeration].items():
        assert enumeration(number) is enumeration.parse(name)  # type: ignore[attr-defined, call-arg]
        short = str(enumeration(number)) if enumeration is FeatureLevel else enumeration(number).name  # type: ignore[attr-defined, call-arg]
        assert name.endswith(short)
        assert enumeration.parse(short) is enumeration(number)  # type: ignore[attr-defined, call-arg]


def test_constants() -> None:
    assert {name: getattr(directml, name) for name in directml.__all__ if name.isupper()} == CONSTANTS


def test_flags_combine() -> None:
    both = ExecutionFlags.DISABLE_META_COMMANDS | ExecutionFlags.DESCRIPTORS_VOLATILE
    assert both == 6
    assert both & ExecutionFlags.DISABLE_META_COMMANDS
    assert not both & ExecutionFlags.ALLOW_HALF_PRECISION_COMPUTATION
    assert ExecutionFlags(7) & ~both == ExecutionFlags.ALLOW_HALF_PRECISION_COMPUTATION
    for flags in (ExecutionFlags, TensorFlags):
        every = flags(sum(flags))
        assert [~flags(k) for k in range(every + 1)] == [every - k for k in range(every + 1)]


@pytest.mark.parametrize("name", ["UNKNOWN", "UINT4", "INT4"])
def test_data_types_that_torch_lacks(name: str) -> None:
    data_type = TensorDataType.parse(name)
    assert data_type.size_in_bits == (0 if name == "UNKNOWN" else 4)
    for attribute in ("dtype", "size_in_bytes"):
        with pytest.raises(ValueError, match=rf"^TensorDataType.{name} has no dtype, as torch lacks the type$"):
            getattr(data_type, attribute)
    if hasattr(torch, name.lower()):  # torch has names for them, and nothing that computes
        with pytest.raises(ValueError, match=r"must be one that DirectML has"):
            TensorDataType.of(getattr(torch, name.lower()))


def test_operator_types_are_looked_up() -> None:
    for operator in OperatorType:
        if operator is not OperatorType.INVALID:
            assert directml.check_support(operator) == directml.check_support(operator.name) is not None


# From the version history; 1.2.0, which it names only in a note, is in the history of the feature levels.
VERSIONS = {
    "1.0.0": "1_0", "1.1.0": "2_0", "1.2.0": "2_1", "1.4.0": "3_0", "1.5.0": "3_1", "1.6.0": "4_0", "1.7.0": "4_1",
    "1.8.0": "5_0", "1.9.0": "5_1", "1.10.0": "5_2", "1.11.0": "6_0", "1.12.0": "6_1", "1.13.0": "6_2",
    "1.13.1": "6_2", "1.15.0": "6_4", "1.15.4": "6_4",
}  # fmt: skip


def test_feature_levels_of_versions() -> None:
    for version, level in VERSIONS.items():
        assert str(FeatureLevel.of_version(version)) == level
        assert str(FeatureLevel.of_version(version.rpartition(".")[0])) == level
    assert str(FeatureLevel.of_version("1.3.0")) == "2_1"  # between two that brought a level
    assert str(FeatureLevel.of_version("1.14")) == "6_2"
    assert FeatureLevel.of_version("1.99.0") is FeatureLevel.NEWEST


@pytest.mark.parametrize("version", ["", "1", "0.9.0", "2.0.0", "1.x", "1.15.", "1.-1", "6_4", "1.15.4\n", "1.１５"])
def test_what_is_no_version(version: str) -> None:
    with pytest.raises(
        ValueError, match=r"^FeatureLevel.of_version: version must be one of DirectML, such as 1.15.4, got "
    ):
        FeatureLevel.of_version(version)
