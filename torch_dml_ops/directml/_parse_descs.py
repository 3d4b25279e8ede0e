"""Descriptors from JSON."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field, make_dataclass
from functools import cache, partial
from typing import Any, Literal, TypeVar, cast

from torch_dml_ops._text import JsonPath, as_json, dotted
from torch_dml_ops.directml._structure import Structure, is_wrong, parse, parse_name, parser, read
from torch_dml_ops.directml.enums import ExecutionFlags, TensorDataType, TensorFlags, named
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
from torch_dml_ops.directml.support import PREFIX
from torch_dml_ops.directml.tensor_desc import TensorDesc

D = TypeVar("D", bound=OperatorDesc)

# What DxDispatch runs besides operators, by its `type` in any case.
_OTHER_KINDS = {"onnx": "an ONNX model", "hlsl": "an HLSL shader", "dmlserializedgraph": "a serialized graph"}


def not_run(what: str) -> str:
    """The sentence about something that DxDispatch runs, and this package does not."""
    *others, last = DESCS
    return f"is {what}, which is not run here; the operators {', '.join(others)} and {last} are"


def first_of(value: dict[str, Any], *keys: str) -> str | None:
    """The first of the keys that is there: DxDispatch looks for some under several."""
    return next((key for key in keys if key in value), None)


@dataclass(frozen=True, kw_only=True)
class _TensorJson(Structure):
    DataType: str
    Sizes: list[int]
    Flags: Any = "NONE"
    DimensionCount: int | None = None
    Strides: list[int] | None = None
    TotalTensorSizeInBytes: int | None = None
    GuaranteedBaseOffsetAlignment: int = 0
    Type: Any = None


@dataclass(frozen=True, kw_only=True)
class _LongTensorJson(Structure):
    Type: Any = None
    Desc: Any


def parse_flags(problems: list[Problem], enumeration: Any, value: Any, path: JsonPath) -> Any:
    """The flags of a name, or of an array of names; None where one is wrong."""
    named_by = {(*path, k): name for k, name in enumerate(value)} if isinstance(value, list) else {path: value}
    result = enumeration(0)
    for place, name in named_by.items():
        flag = parse_name(problems, partial(named, enumeration), name, place)
        result = None if flag is None or result is None else result | flag
    return result


@parser
def parse_tensor(problems: list[Problem], value: Any, path: JsonPath) -> TensorDesc | None:
    if isinstance(value, dict):
        kind = value.get("Type", "BUFFER")
        if not isinstance(kind, str) or kind.removeprefix("DML_TENSOR_TYPE_") != "BUFFER":
            problems.append(Problem((*path, "Type"), f"must be DML_TENSOR_TYPE_BUFFER, got {as_json(kind)}"))
        if "Desc" in value:
            parse(problems, _LongTensorJson, value, path)
            value, path = value["Desc"], (*path, "Desc")
    json = parse(problems, _TensorJson, value, path)
    if json is None:
        return None
    data_type = parse_name(problems, partial(named, TensorDataType), json.DataType, (*path, "DataType"))
    flags = parse_flags(problems, TensorFlags, json.Flags, (*path, "Flags"))
    if data_type is None or flags is None:
        return None
    return TensorDesc(
        data_type,
        json.Sizes,
        strides=json.Strides or None,
        flags=flags,
        total_tensor_size_in_bytes=json.TotalTensorSizeInBytes or None,
        guaranteed_base_offset_alignment=json.GuaranteedBaseOffsetAlignment,
        dimension_count=json.DimensionCount,
    )


@dataclass(frozen=True, kw_only=True)
class _DispatchableJson(Structure):
    """What a dispatchable has besides the fields of its operator."""

    type: Any = None
    Type: Any = None
    executionFlags: Any = "NONE"  # these two mean nothing here
    dmlCompileType: Literal["DmlCompileOp", "DmlCompileGraph"] | None = None
    bindings: Any = None  # of which a descriptor has nothing


@dataclass(frozen=True, kw_only=True)
class _LongDispatchableJson(_DispatchableJson):
    desc: Any = None
    Desc: Any = None


@cache
def _desc_json(op: str, base: type[Structure]) -> type[Structure]:
    """The structure of a ``desc``: every field is required that has a value. Its tensors are parsed one by one."""
    of_json = {TENSOR: Any, TENSORS: list[Any], NUMBERS: list[int], ABSENT: Any}
    declared = [
        (name_in_json(name), of_json.get(kind, int), field(default=None if kind == ABSENT else MISSING))
        for name, kind in kinds(op).items()
    ]
    return make_dataclass(op, declared, bases=(base,), frozen=True, kw_only=True)


def _operator_of(problems: list[Problem], value: dict[str, Any], path: JsonPath) -> str | None:
    """The name of the operator that a dispatchable runs."""
    key = first_of(value, "Type", "type")
    if key is None:
        problems.append(Problem((*path, "type"), "is required"))
        return None
    name = parse_name(problems, lambda name: name.removeprefix(PREFIX), value[key], (*path, key))
    if name is None or name in DESCS:
        return name
    problems.append(Problem(path, not_run(_OTHER_KINDS.get(name.lower(), f"the operator {as_json(name)}"))))
    return None


def _key_of_desc(op: str, value: dict[str, Any]) -> str | None:
    """Under which a dispatchable has the fields of its operator, None where they stand in it."""
    key = first_of(value, "Desc", "desc")
    return "desc" if key is None and not any(name_in_json(name) in value for name in kinds(op)) else key


@parser
def parse_operator(problems: list[Problem], value: Any, path: JsonPath) -> OperatorDesc | None:
    """The descriptor that a dispatchable holds."""
    if not isinstance(value, dict):
        problems.append(Problem(path, f"must be an object, got {as_json(value)}"))
        return None
    op = _operator_of(problems, value, path)
    if op is None:
        return None
    parse_flags(problems, ExecutionFlags, value.get("executionFlags", "NONE"), (*path, "executionFlags"))
    key = _key_of_desc(op, value)
    if key is None:
        found = parse(problems, _desc_json(op, _DispatchableJson), value, path)
    else:
        parse(problems, _LongDispatchableJson, value, path)
        path = (*path, key)
        if key not in value:
            problems.append(Problem(path, "is required"))
            return None
        found = parse(problems, _desc_json(op, Structure), value[key], path)
    if found is None:
        return None
    values: dict[str, Any] = {}
    for name, kind in kinds(op).items():
        field = name_in_json(name)
        value = getattr(found, field)
        if kind == TENSOR:
            value = parse_tensor(problems, value, (*path, field))
        elif kind == TENSORS:
            value = [parse_tensor(problems, tensor, (*path, field, k)) for k, tensor in enumerate(value)]
        elif kind == ABSENT and value is not None:
            rule = "must be absent or null, as elements are copied here, not computed"
            problems.append(Problem((*path, field), f"{rule}, got {as_json(value)}"))
        values[name] = value
    return None if is_wrong(problems) else DESCS[op](**values)


def place_of_desc(dispatchable: dict[str, Any], path: JsonPath) -> tuple[JsonPath, dict[str, Any]]:
    """Where a dispatchable that was parsed has the fields of its operator."""
    key = first_of(dispatchable, "Desc", "desc")
    return (path, dispatchable) if key is None else ((*path, key), dispatchable[key])


def _in_json(field: JsonPath) -> str:
    return dotted(tuple(part if isinstance(part, int) else name_in_json(part) for part in field))


def problem_in_json(violation: Violation, dispatchable: dict[str, Any], path: JsonPath) -> Problem:
    """The violation, in the words and at the place of the dispatchable that the descriptor was read from."""
    sentence = sentence_on(violation, _in_json)
    if violation.path == ("operator_type",):
        return Problem((*path, first_of(dispatchable, "Type", "type") or ""), sentence)
    value: Any
    path, value = place_of_desc(dispatchable, path)
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
    return read(False, parse_tensor, value, ())


def operator_from_json(kind: type[D], value: object) -> D:
    return cast(D, read(False, _parse_kind, kind, value))


@parser
def _parse_kind(problems: list[Problem], kind: type[OperatorDesc], value: object) -> OperatorDesc | None:
    result = parse_operator(problems, value, ())
    if result is None or isinstance(result, kind):
        return result
    problems.append(Problem(("type",), f"must be {PREFIX}{kind.operator_type}, got {as_json(result.operator_type)}"))
    return None
