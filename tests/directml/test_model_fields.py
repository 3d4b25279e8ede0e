# ruff: noqa: E501  (a case to a line)
"""The tables of docs/model-files.md: what becomes of every field of DxDispatch's model files, and of its kinds."""

import io
import json
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from descriptors.bad_models import DROP, NOT_RUN, changed

from torch_dml_ops.directml import Model, ModelError

PAGE = Path(__file__).parents[2] / "docs" / "model-files.md"

# The properties in models/_schema.json of DxDispatch, by the section of the page that has them.
SCHEMA = {
    "The file": "resources dispatchables commands",
    "Resources": "type initialValues initialValuesDataType initialValuesOffsetInBytes sizeInBytes valueCount value "
    "valueStart valueDelta",
    "Dispatchables": "type desc executionFlags sourcePath compiler compilerArgs freeDimensionNameOverrides "
    "freeDimensionDenotationOverrides sessionOptionsConfigEntries graphOptimizationLevel loggingLevel",
    "Commands": "type dispatchable bindings threadGroupCount resource verbose",
    "Bindings": "name format elementCount elementSizeInBytes elementOffset counter shape",
}


def table() -> dict[tuple[str, str], tuple[str, str]]:
    """What becomes of a field, and the remark, by the section and the field."""
    rows, section = {}, ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            section = line[3:]
        elif found := re.fullmatch(r"\| (.+) \| (read|ignored|refused) \|(.*)\|", line):
            rows[section, found[1]] = found[2], found[3]
    return rows


TENSOR = {"DataType": "INT16", "Sizes": [4]}
WINDOW = {"DimensionCount": 1, "InputWindowOffsets": [0], "InputWindowSizes": [4], "InputWindowStrides": [-1]}
DESC = {"InputTensor": TENSOR, "OutputTensor": TENSOR, **WINDOW}
OTHER = DESC | {"InputWindowStrides": [1]}
OUTCOME = "4, 3, 2, 1; int16 (4,)"


def reverse() -> dict[str, Any]:
    """A model that reverses four numbers, prints them and writes them to a file."""
    model = {
        "resources": {
            "x": {"initialValuesDataType": "INT16", "initialValues": [1, 2, 3, 4]},
            "y": {"initialValuesDataType": "INT16", "initialValues": {"valueCount": 4, "value": 0}},
        },
        "dispatchables": {"op": {"type": "SLICE1", "desc": DESC}},
        "commands": [
            {"type": "dispatch", "dispatchable": "op", "bindings": {"InputTensor": "x", "OutputTensor": "y"}},
            {"type": "print", "resource": "y"},
            {"type": "writeFile", "resource": "y", "targetPath": "y.npy"},
        ],
    }
    return json.loads(json.dumps(model))  # type: ignore[no-any-return]


def outcome(folder: Path, changes: dict[str, Any], strict: bool = False) -> str:
    """What the model prints, and the file that it writes; or what is wrong with it."""
    np.save(folder / "array.npy", np.array([[5, 6], [7, 8]], np.int16))
    np.save(folder / "flags.npy", np.array([True, False] * 4))
    (folder / "raw").write_bytes(bytes(range(8)))
    (folder / "model.json").write_text(json.dumps(changed(changes, reverse())))
    before, to = {*folder.iterdir()}, io.StringIO()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            Model.load(folder / "model.json", strict=strict).run(file=to)
    except ModelError as error:
        return str(error)
    (written,) = {*folder.iterdir()} - before
    array = np.load(written) if written.suffix == ".npy" else None
    content = written.read_bytes().hex() if array is None else f"{array.dtype} {array.shape}"
    printed = to.getvalue().removesuffix(f"Resource 'y' written to '{written.name}'\n").removeprefix("Resource 'y':")
    return f"{printed.strip()}; {content}"


X, OP, BIND = "resources/x", "dispatchables/op", "commands/0/bindings"
IN, OUT = f"{OP}/desc/InputTensor", f"{OP}/desc/OutputTensor"
LARGE = {f"{X}/initialValues": [*range(24)], f"{X}/sizeInBytes": 64}
IMAGE = "must not be an image, as images are not supported, got"
ITEMS = [{"type": "INT16", "value": 1, "name": "n"}, {"type": "UINT8", "value": 2}, {"type": "UINT8", "value": 1}]
ITEMS += [{"type": "UINT32", "value": 2**31}]


def refused_kind(what: str, kind: str, fields: str) -> list[tuple[dict[str, Any], str]]:
    value = {"type": kind, "sourcePath": "none"} | {field: {} for field in fields.split()}
    return [({OP: value}, f"$.dispatchables.op is {what}, {NOT_RUN}")]


# Changes of the model, and what then comes of it.
CASES: dict[tuple[str, str], list[tuple[dict[str, Any], str]]] = {
    ("The file", "`$schema`"): [({"$schema": "./_schema.json"}, OUTCOME), ({"$schema": 1}, OUTCOME)],
    ("The file", "`resources`"): [({"resources": DROP}, "$.resources is required")],
    ("The file", "`dispatchables`"): [({"dispatchables": DROP}, "$.dispatchables is required")],
    ("The file", "`commands`"): [({"commands": DROP}, "$.commands is required")],
    ("Resources", "`type`"): [({f"{X}/type": "buffer"}, OUTCOME), ({f"{X}/type": "texture"}, "$.resources.x.type must be 'buffer', got 'texture'")],
    ("Resources", "`initialValuesDataType`"): [
        ({f"{X}/initialValuesDataType": "DML_TENSOR_DATA_TYPE_INT16"}, OUTCOME),
        ({f"{X}/initialValuesDataType": "INT32"}, "0, 2, 0, 1; int16 (4,)"),
        ({f"{X}/initialValuesDataType": DROP, f"{X}/initialValues": ITEMS}, "-32768, 0, 258, 1; int16 (4,)"),
    ],
    ("Resources", "`initialValues`"): [
        ({f"{X}/initialValues": [5, 6, 7, 8]}, "8, 7, 6, 5; int16 (4,)"),
        ({f"{X}/initialValuesDataType": "FLOAT16", f"{X}/initialValues": ["Inf", "-INF", 0, 1]}, "15360, 0, -1024, 31744; int16 (4,)"),
    ],
    ("Resources", "`initialValues.valueCount`, `initialValues.value`"): [({f"{X}/initialValues": {"valueCount": 4, "value": 7}}, "7, 7, 7, 7; int16 (4,)")],
    ("Resources", "`initialValues.valueStart`, `initialValues.valueDelta`"): [({f"{X}/initialValues": {"valueCount": 4, "valueStart": 32766, "valueDelta": 2}}, "-32764, -32766, -32768, 32766; int16 (4,)")],
    ("Resources", "`initialValues.sourcePath`"): [
        ({f"{X}/initialValues": {"sourcePath": "array.npy"}}, "8, 7, 6, 5; int16 (4,)"),
        ({X: {"initialValues": {"sourcePath": "flags.npy"}}}, "1, 1, 1, 1; int16 (4,)"),
        ({f"{X}/initialValues": {"sourcePath": "raw"}}, "1798, 1284, 770, 256; int16 (4,)"),
    ],
    ("Resources", "`initialValues.sourcePath` of an image"): [({f"{X}/initialValues": {"sourcePath": name}}, f"$.resources.x.initialValues.sourcePath {IMAGE} '{name}'") for name in ("x.png", "x.JPG")],
    ("Resources", "`initialValues[].type`, `initialValues[].value`"): [({X: {"initialValuesDataType": "UNKNOWN", "initialValues": ITEMS}}, "-32768, 0, 258, 1; int16 (4,)")],
    ("Resources", "`initialValues[].name`"): [({X: {"initialValues": [{"type": "INT16", "value": k, "name": ""} for k in (1, 2, 3, 4)]}}, OUTCOME)],
    ("Resources", '`"initialValues": "deferred"`'): [({f"{X}/initialValues": "deferred"}, "$.resources.x.initialValues must not be 'deferred', as such values come from an ONNX model")],
    ("Resources", "`sizeInBytes`"): [({f"{X}/sizeInBytes": 9}, OUTCOME), ({f"{X}/initialValues": [1, 2], f"{X}/sizeInBytes": 5}, "0, 0, 2, 1; int16 (4,)")],
    ("Resources", "`initialValuesOffsetInBytes`"): [({f"{X}/initialValuesOffsetInBytes": 8, f"{X}/sizeInBytes": 16}, OUTCOME)],
    ("Resources", "`resampleSize`, `resampleMode`"): [({f"{X}/resampleSize": [1, 3, 2, 2], f"{X}/resampleMode": "scale"}, OUTCOME)],
    ("Dispatchables", "`type`, `Type`"): [
        ({f"{OP}/type": "DML_OPERATOR_SLICE1"}, OUTCOME),
        ({OP: {"Type": "SLICE1", "desc": DESC}}, OUTCOME),
        ({f"{OP}/type": "SPLIT", f"{OP}/Type": "SLICE1"}, OUTCOME),
        ({OP: {"desc": DESC}}, "$.dispatchables.op.type is required"),
    ],
    ("Dispatchables", "`desc`, `Desc`"): [({OP: {"type": "SLICE1", "Desc": DESC}}, OUTCOME), ({f"{OP}/Desc": OTHER}, "1, 2, 3, 4; int16 (4,)")],
    ("Dispatchables", "the operator's fields"): [
        ({OP: {"type": "SLICE1", **DESC}}, OUTCOME),
        ({OP: {"type": "SLICE1", **OTHER}}, "1, 2, 3, 4; int16 (4,)"),
        ({OP: {"type": "SLICE1", **DESC, "executionFlags": "NONE", "dmlCompileType": "DmlCompileGraph", "bindings": {}}}, OUTCOME),
        ({OP: {"type": "SLICE1", **WINDOW}}, "$.dispatchables.op.InputTensor is required\n$.dispatchables.op.OutputTensor is required"),
        ({OP: {"type": "SLICE1", **DESC, "InputWindowStrides": [0]}}, "$.dispatchables.op.InputWindowStrides[0] must not be 0, got 0"),
    ],
    ("Dispatchables", "`executionFlags`"): [({f"{OP}/executionFlags": flags}, OUTCOME) for flags in ("NONE", "DML_EXECUTION_FLAG_DISABLE_META_COMMANDS", [], ["DESCRIPTORS_VOLATILE", "NONE"])],
    ("Dispatchables", "`dmlCompileType`"): [({f"{OP}/dmlCompileType": kind}, OUTCOME) for kind in ("DmlCompileOp", "DmlCompileGraph")],
    ("Dispatchables", "`bindings`"): [
        ({f"{OP}/bindings": {}}, OUTCOME),
        ({f"{OP}/bindings": {"InputTensor": "x"}, f"{IN}/Flags": "OWNED_BY_DML", f"{BIND}/InputTensor": DROP}, OUTCOME),
        (
            {f"{IN}/Flags": "OWNED_BY_DML", f"{BIND}/InputTensor": DROP},
            "$.dispatchables.op.bindings.InputTensor is required, as the tensor is OWNED_BY_DML",
        ),
    ],
    (
        "Dispatchables",
        '`"type": "onnx"`; `sourcePath`, `freeDimensionNameOverrides`, `freeDimensionDenotationOverrides`, '
        "`sessionOptionsConfigEntries`, `graphOptimizationLevel`, `loggingLevel`",
    ): refused_kind("an ONNX model", "onnx", SCHEMA["Dispatchables"].partition("compilerArgs")[2]),
    ("Dispatchables", '`"type": "hlsl"`; `sourcePath`, `compiler`, `compilerArgs`'): refused_kind("an HLSL shader", "hlsl", "compiler compilerArgs"),
    ("Dispatchables", '`"type": "dmlSerializedGraph"`; `sourcePath`'): refused_kind("a serialized graph", "dmlSerializedGraph", "executionFlags bindings"),
    ("Dispatchables", "`type` of another operator"): [
        *refused_kind("the operator 'GEMM'", "DML_OPERATOR_GEMM", "desc bindings dmlCompileType executionFlags"),
        *refused_kind("the operator 'ELEMENT_WISE_ADD1'", "ELEMENT_WISE_ADD1", "ATensor BTensor"),
    ],
    ("Tensors", "`Type`"): [({f"{IN}/Type": "BUFFER"}, OUTCOME), ({f"{IN}/Type": "INVALID"}, "$.dispatchables.op.desc.InputTensor.Type must be DML_TENSOR_TYPE_BUFFER, got 'INVALID'")],
    ("Tensors", "`Desc`"): [
        ({IN: {"Desc": TENSOR}}, OUTCOME),
        ({IN: {"Desc": TENSOR, "Type": "DML_TENSOR_TYPE_BUFFER"}}, OUTCOME),
        ({IN: {"Desc": {}}}, "$.dispatchables.op.desc.InputTensor.Desc.DataType is required\n$.dispatchables.op.desc.InputTensor.Desc.Sizes is required"),
    ],
    ("Tensors", "`DataType`"): [({f"{IN}/DataType": "INT8"}, "$.dispatchables.op.desc.OutputTensor.DataType must be INT8, that of InputTensor, got INT16")],
    ("Tensors", "`Flags`"): [
        *(({f"{IN}/Flags": flags}, OUTCOME) for flags in ("DML_TENSOR_FLAG_NONE", [], ["NONE"], ["NONE", "NONE"])),
        *(
            ({f"{IN}/Flags": flags, f"{BIND}/InputTensor": DROP, f"{OP}/bindings": {"InputTensor": "x"}}, OUTCOME)
            for flags in ("OWNED_BY_DML", ["NONE", "DML_TENSOR_FLAG_OWNED_BY_DML"])
        ),
        ({f"{IN}/Flags": ["SOME"]}, "$.dispatchables.op.desc.InputTensor.Flags[0] must be one of NONE, OWNED_BY_DML, got 'SOME'"),
    ],
    ("Tensors", "`DimensionCount`"): [({f"{IN}/DimensionCount": 1}, OUTCOME), ({f"{IN}/DimensionCount": 4}, "$.dispatchables.op.desc.InputTensor.DimensionCount must be 1, the number of Sizes, got 4")],
    ("Tensors", "`Sizes`"): [({f"{OUT}/Sizes": [3]}, "4, 3, 2, 0; int16 (4,)")],
    ("Tensors", "`Strides`"): [*(({f"{IN}/Strides": strides}, OUTCOME) for strides in ([], [1], None)), ({f"{IN}/Strides": [0]}, "1, 1, 1, 1; int16 (4,)")],
    ("Tensors", "`TotalTensorSizeInBytes`"): [
        *(({f"{IN}/TotalTensorSizeInBytes": size}, OUTCOME) for size in (0, 8)),
        (
            {f"{IN}/TotalTensorSizeInBytes": 12},
            "$.commands[0].bindings.InputTensor must hold the 12 bytes of the tensor, got 8 bytes of 'x'",
        ),
    ],
    ("Tensors", "`GuaranteedBaseOffsetAlignment`"): [
        ({f"{IN}/GuaranteedBaseOffsetAlignment": 4096}, OUTCOME),
        (
            {f"{IN}/GuaranteedBaseOffsetAlignment": 32, f"{BIND}/InputTensor": {"name": "x", "elementOffset": 8}} | LARGE,
            "$.commands[0].bindings.InputTensor.elementOffset must begin at a multiple of 32 bytes, got 8 elements of 2 bytes",
        ),
    ],
    ("Commands", "`type`"): [
        ({"commands/0/type": "Dispatch", "commands/1/type": "PRINT", "commands/2/type": "writefile"}, OUTCOME),
        ({"commands/1/type": "wait"}, "$.commands[1].type must be dispatch, print or writeFile, got 'wait'"),
    ],
    ("Commands", "dispatch: `dispatchable`"): [({"commands/0/dispatchable": "other", "dispatchables/other": {"type": "SLICE1", "desc": OTHER}}, "1, 2, 3, 4; int16 (4,)")],
    ("Commands", "dispatch: `bindings`"): [({BIND: {"InputTensor": ["x"], "OutputTensor": {"name": "y"}}}, OUTCOME), ({BIND: {"InputTensor": "x"}}, "$.commands[0].bindings.OutputTensor is required")],
    ("Commands", "dispatch: `threadGroupCount`"): [({"commands/0/threadGroupCount": [2, 1, 1]}, OUTCOME)],
    ("Commands", "print: `resource`"): [({"commands/1/resource": "z"}, "$.commands[1].resource must be the name of a resource ('x', 'y'), got 'z'")],
    ("Commands", "print: `verbose`"): [({"commands/1/verbose": False}, OUTCOME), ({"commands/1/verbose": True}, "[0] 4 (0x0004)\n[1] 3 (0x0003)\n[2] 2 (0x0002)\n[3] 1 (0x0001); int16 (4,)")],
    ("Commands", "writeFile: `resource`"): [({"commands/2/resource": "z"}, "$.commands[2].resource must be the name of a resource ('x', 'y'), got 'z'")],
    ("Commands", "writeFile: `targetPath`"): [
        *(({"commands/2/targetPath": name}, "4, 3, 2, 1; 0400030002000100") for name in ("y.dat", "y", "y.jpeg", ".npy", "y" * 251 + ".dat")),
        ({"commands/2/targetPath": DROP}, "$.commands[2].targetPath is required"),
    ],
    ("Commands", "writeFile: `targetPath` of an image"): [({"commands/2/targetPath": name}, f"$.commands[2].targetPath {IMAGE} '{name}'") for name in ("y.png", "y.jpg")],
    ("Commands", "writeFile: `dimensions`"): [({"commands/2/dimensions": []}, OUTCOME), ({"commands/2/dimensions": [2, 1, 2]}, "4, 3, 2, 1; int16 (2, 1, 2)")],
    ("Bindings", "`name`"): [({f"{BIND}/InputTensor": {}}, "$.commands[0].bindings.InputTensor.name is required"), ({f"{BIND}/InputTensor": {"name": "x"}}, OUTCOME)],
    ("Bindings", "`elementOffset`"): [({f"{BIND}/InputTensor": {"name": "x", "elementOffset": 8}} | LARGE, "11, 10, 9, 8; int16 (4,)")],
    ("Bindings", "`elementSizeInBytes`"): [
        ({f"{BIND}/InputTensor": {"name": "x", "elementOffset": 8, "elementSizeInBytes": size}} | LARGE, f"{values}; int16 (4,)")
        for size, values in ((0, "11, 10, 9, 8"), (2, "11, 10, 9, 8"), (4, "19, 18, 17, 16"))
    ],
    ("Bindings", "`elementCount`"): [({f"{BIND}/InputTensor": {"name": "x", "elementCount": count}}, OUTCOME) for count in (0, 1, 3, 4, 5, 2**64 - 1)],
    ("Bindings", "`format`, `counter`, `counterOffsetBytes`"): [({f"{BIND}/InputTensor": {"name": "x", "format": "R32_FLOAT", "counter": "none", "counterOffsetBytes": 4}}, OUTCOME)],
    ("Bindings", "`shape`"): [({f"{BIND}/InputTensor": {"name": "x", "shape": [2, 2]}}, OUTCOME)],
    ("Bindings", "`elementStride`"): [({f"{BIND}/InputTensor": {"name": "x", "elementStride": 4}}, OUTCOME)],
}  # fmt: skip


def test_the_page_has_every_field_and_every_row_a_test() -> None:
    assert table().keys() == CASES.keys()
    for section, fields in SCHEMA.items():
        named = {name for (place, cell), _ in table().items() if place == section for name in re.findall(r"\w+", cell)}
        assert {*fields.split()} - named == set()


@pytest.mark.parametrize(("section", "field"), table(), ids=lambda name: name.replace("`", ""))
def test_what_becomes_of_a_field(tmp_path: Path, section: str, field: str) -> None:
    becomes, remark = table()[section, field]
    cases = CASES[section, field]
    for k, (changes, expected) in enumerate(cases):
        (tmp_path / str(k)).mkdir()
        (tmp_path / f"{k} strictly").mkdir()
        assert outcome(tmp_path / str(k), changes) == expected
        strictly = outcome(tmp_path / f"{k} strictly", changes, strict=True)
        assert strictly.startswith("$.") if "with a warning" in remark else strictly == expected
    expected_of_all = {expected for _, expected in cases}
    if becomes == "ignored":
        assert expected_of_all == {OUTCOME}
    elif becomes == "refused":
        assert all(expected.startswith("$.") for expected in expected_of_all)
    else:
        assert expected_of_all - {OUTCOME}
