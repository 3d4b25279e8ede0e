"""Descriptors from JSON."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Literal, TypeVar, cast

from pydantic import create_model

from torch_dml_ops.directml._structure import Structure, parse, parse_name
from torch_dml_ops.directml.enums import TensorDataType, TensorFlags
from torch_dml_ops.directml.errors import ModelError, Path, Problem, Violation
from torch_dml_ops.directml.operator_descs import DESCS, NUMBERS, TENSOR, TENSORS, OperatorDesc, kinds, name_in_json
from torch_dml_ops.directml.support import PREFIX, operator_named
from torch_dml_ops.directml.tensor_desc import TensorDesc

D = TypeVar("D", bound=OperatorDesc)


class _TensorJson(Structure):
    DataType: str
    Sizes: list[int]
    Flags: str = "NONE"
    DimensionCount: int | None = None
    Strides: list[int] | None = None
    TotalTensorSizeInBytes: int | None = None
    GuaranteedBaseOffsetAlignment: int = 0


class _LongTensorJson(Structure):
    Type: str
    Desc: Any


def parse_tensor(value: Any, path: Path, problems: list[Problem]) -> TensorDesc | None:
    if isinstance(value, dict) and ("Type" in value or "Desc" in value):
        long = parse(_LongTensorJson, value, path, problems)
        if long is None:
            return None
        if long.Type.removeprefix("DML_TENSOR_TYPE_") != "BUFFER":
            problems.append(Problem((*path, "Type"), f"must be DML_TENSOR_TYPE_BUFFER, got {long.Type!r}"))
        value, path = long.Desc, (*path, "Desc")
    json = parse(_TensorJson, value, path, problems)
    if json is None:
        return None
    data_type = parse_name(TensorDataType.parse, json.DataType, (*path, "DataType"), problems)
    flags = parse_name(TensorFlags.parse, json.Flags, (*path, "Flags"), problems)
    if data_type is None or flags is None:
        return None
    return TensorDesc(
        data_type,
        json.Sizes,
        strides=json.Strides,
        flags=flags,
        total_tensor_size_in_bytes=json.TotalTensorSizeInBytes,
        guaranteed_base_offset_alignment=json.GuaranteedBaseOffsetAlignment,
        dimension_count=json.DimensionCount,
    )


class _OperatorJson(Structure):
    type: str
    desc: Any
    dmlCompileType: Literal["DmlCompileOp", "DmlCompileGraph"] | None = None  # either is the same to us


@cache
def _desc_json(op: str) -> type[Structure]:
    """The structure of a ``desc``: every field is required. The tensors in it are parsed one by one."""
    of_json = {TENSOR: Any, TENSORS: list[Any], NUMBERS: list[int]}
    declared: dict[str, Any] = {name_in_json(name): (of_json.get(kind, int), ...) for name, kind in kinds(op).items()}
    return create_model(op, __base__=Structure, **declared)


def parse_operator(value: Any, path: Path, problems: list[Problem]) -> OperatorDesc | None:
    """The descriptor that a dispatchable holds; None, and what is wrong among `problems`, where it holds none."""
    json = parse(_OperatorJson, value, path, problems)
    if json is None:
        return None
    op = parse_name(operator_named, json.type, (*path, "type"), problems)
    if op is None:
        return None
    path = (*path, "desc")
    found = parse(_desc_json(op), json.desc, path, problems)
    if found is None:
        return None
    before = len(problems)
    values: dict[str, Any] = {}
    for name, kind in kinds(op).items():
        key = name_in_json(name)
        value = getattr(found, key)
        if kind == TENSOR:
            value = parse_tensor(value, (*path, key), problems)
        elif kind == TENSORS:
            value = [parse_tensor(tensor, (*path, key, k), problems) for k, tensor in enumerate(value)]
        values[name] = value
    return DESCS[op](**values) if len(problems) == before else None


_NAMES = re.compile(
    rf"\b(?:{'|'.join(sorted({name for op in DESCS for name in kinds(op) if '_' in name}))})\b"
    r"|\b(?:offsets|sizes|strides)(?=\[)"
)


def problem_in_json(violation: Violation, dispatchable: dict[str, Any], path: Path) -> Problem:
    """The violation, in the words and at the place of the dispatchable that the descriptor was read from."""
    sentence = _NAMES.sub(lambda name: name_in_json(name[0]), violation.sentence)
    if violation.path == ("operator_type",):
        return Problem((*path, "type"), sentence)
    path, value = (*path, "desc"), dispatchable["desc"]
    for part in violation.path:
        if isinstance(value, dict) and "Desc" in value:  # the long form of a tensor
            path, value = (*path, "Desc"), value["Desc"]
        if isinstance(part, int):
            path, value = (*path, part), value[part]
        else:
            key = name_in_json(part)
            path, value = (*path, key), value.get(key)  # None for one that is assumed
    return Problem(path, sentence)


def tensor_from_json(value: object) -> TensorDesc:
    problems: list[Problem] = []
    result = parse_tensor(value, (), problems)
    if result is None:
        raise ModelError(problems)
    return result


def operator_from_json(kind: type[D], value: object) -> D:
    problems: list[Problem] = []
    result = parse_operator(value, (), problems)
    if result is not None and not isinstance(result, kind):
        problems.append(Problem(("type",), f"must be {PREFIX}{kind.operator_type}, got {result.operator_type!r}"))
    if problems:
        raise ModelError(problems)
    return cast(D, result)
