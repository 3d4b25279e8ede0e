"""Descriptors from JSON."""

from __future__ import annotations

from functools import cache, partial
from typing import Any, Literal, TypeVar, cast

from pydantic import create_model

from torch_dml_ops.directml._structure import Structure, parse, parse_name, parser, read
from torch_dml_ops.directml._text import JsonPath, dotted, text
from torch_dml_ops.directml.enums import TensorDataType, TensorFlags, named
from torch_dml_ops.directml.errors import Problem, Violation, sentence_on
from torch_dml_ops.directml.operator_descs import (
    ABSENT,
    DESCS,
    NUMBERS,
    TENSOR,
    TENSORS,
    OperatorDesc,
    kinds,
    name_in_json,
)
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


@parser
def parse_tensor(problems: list[Problem], value: Any, path: JsonPath) -> TensorDesc | None:
    if isinstance(value, dict) and ("Type" in value or "Desc" in value):
        long = parse(problems, _LongTensorJson, value, path)
        if long is None:
            return None
        if long.Type.removeprefix("DML_TENSOR_TYPE_") != "BUFFER":
            problems.append(Problem((*path, "Type"), f"must be DML_TENSOR_TYPE_BUFFER, got {text(long.Type)}"))
        value, path = long.Desc, (*path, "Desc")
    json = parse(problems, _TensorJson, value, path)
    if json is None:
        return None
    data_type = parse_name(problems, partial(named, TensorDataType), json.DataType, (*path, "DataType"))
    flags = parse_name(problems, partial(named, TensorFlags), json.Flags, (*path, "Flags"))
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
    """The structure of a ``desc``: every field is required that has a value. Its tensors are parsed one by one."""
    of_json = {TENSOR: (Any, ...), TENSORS: (list[Any], ...), NUMBERS: (list[int], ...), ABSENT: (Any, None)}
    declared: dict[str, Any] = {name_in_json(name): of_json.get(kind, (int, ...)) for name, kind in kinds(op).items()}
    return create_model(op, __base__=Structure, **declared)


@parser
def parse_operator(problems: list[Problem], value: Any, path: JsonPath) -> OperatorDesc | None:
    """The descriptor that a dispatchable holds."""
    json = parse(problems, _OperatorJson, value, path)
    if json is None:
        return None
    op = parse_name(problems, operator_named, json.type, (*path, "type"))
    if op is None:
        return None
    path = (*path, "desc")
    found = parse(problems, _desc_json(op), json.desc, path)
    if found is None:
        return None
    values: dict[str, Any] = {}
    for name, kind in kinds(op).items():
        key = name_in_json(name)
        value = getattr(found, key)
        if kind == TENSOR:
            value = parse_tensor(problems, value, (*path, key))
        elif kind == TENSORS:
            value = [parse_tensor(problems, tensor, (*path, key, k)) for k, tensor in enumerate(value)]
        elif kind == ABSENT and value is not None:
            rule = "must be absent or null, as elements are copied here, not computed"
            problems.append(Problem((*path, key), f"{rule}, got {text(value)}"))
        values[name] = value
    return None if problems else DESCS[op](**values)


def _in_json(field: JsonPath) -> str:
    return dotted(tuple(part if isinstance(part, int) else name_in_json(part) for part in field))


def problem_in_json(violation: Violation, dispatchable: dict[str, Any], path: JsonPath) -> Problem:
    """The violation, in the words and at the place of the dispatchable that the descriptor was read from."""
    sentence = sentence_on(violation, _in_json)
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
    return read(parse_tensor, value, ())


def operator_from_json(kind: type[D], value: object) -> D:
    return cast(D, read(_parse_kind, kind, value))


@parser
def _parse_kind(problems: list[Problem], kind: type[OperatorDesc], value: object) -> OperatorDesc | None:
    result = parse_operator(problems, value, ())
    if result is None or isinstance(result, kind):
        return result
    problems.append(Problem(("type",), f"must be {PREFIX}{kind.operator_type}, got {text(result.operator_type)}"))
    return None
