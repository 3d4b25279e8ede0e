# ruff: noqa: E501  (a problem to a line)
"""Model files that are refused: what a good one is changed to, and everything that is then said of it."""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

DROP = object()  # for a field that is taken away

RESOURCES = "'x', 'a', 'b', 'mixed', 'bytes'"
BUFFER = {"initialValuesDataType": "FLOAT32", "initialValues": [1]}
TENSOR_FIELDS = (
    "DataType, Sizes, Flags, DimensionCount, Strides, TotalTensorSizeInBytes, GuaranteedBaseOffsetAlignment, Type"
)
DATA_TYPES = "FLOAT32, FLOAT16, UINT32, UINT16, UINT8, INT32, INT16, INT8, FLOAT64, UINT64, INT64"
NOT_RUN = (
    "which is not run here; the operators SLICE, SLICE1, SPLIT, JOIN, REVERSE_SUBSEQUENCES, SLICE_GRAD and "
    "ELEMENT_WISE_IDENTITY are"
)
INPUT_PATH = "in the input path (the model's folder if none is given) or in the current directory"
OUTPUT_PATH = "in the output path (the model's folder if none is given; --allow-outside allows others)"
EXECUTION_FLAGS = "NONE, ALLOW_HALF_PRECISION_COMPUTATION, DISABLE_META_COMMANDS, DESCRIPTORS_VOLATILE"
WORDS = 'there is no NaN and no infinity in JSON, but the strings "nan", "inf", "-inf"'


def good() -> dict[str, Any]:
    """Splits 6 numbers into 2 and 4."""
    return {
        "$schema": "./_schema.json",
        "resources": {
            "x": {"initialValuesDataType": "FLOAT32", "initialValues": [1, 2.5, -3, "nan", "inf", "-inf"]},
            "a": {"initialValuesDataType": "FLOAT32", "initialValues": {"valueCount": 2, "value": 0}},
            "b": {"initialValuesDataType": "DML_TENSOR_DATA_TYPE_FLOAT32", "initialValues": {"valueCount": 4, "value": 0}},
            "mixed": {"initialValuesDataType": "UNKNOWN", "initialValues": [{"name": "count", "type": "UINT8", "value": 6}, {"type": "FLOAT32", "value": "nan"}], "sizeInBytes": 30},
            "bytes": {"initialValuesDataType": "UINT8", "initialValues": {"valueCount": 7, "valueStart": 250, "valueDelta": 3}},
        },
        "dispatchables": {
            "split": {
                "type": "DML_OPERATOR_SPLIT",
                "desc": {
                    "InputTensor": {"DataType": "FLOAT32", "Sizes": [6]},
                    "OutputCount": 2,
                    "OutputTensors": [{"DataType": "FLOAT32", "Sizes": [2]}, {"Type": "BUFFER", "Desc": {"DataType": "FLOAT32", "Sizes": [4]}}],
                    "Axis": 0,
                },
                "dmlCompileType": "DmlCompileOp",
            }
        },
        "commands": [
            {"type": "writeFile", "resource": "x", "targetPath": "before.npy"},
            {"type": "dispatch", "dispatchable": "split", "bindings": {"InputTensor": "x", "OutputTensors": ["a", "b"]}},
            {"type": "print", "resource": "a"},
            {"type": "print", "resource": "b", "verbose": True},
        ],
    }  # fmt: skip


def changed(changes: dict[str, Any], model: Any = None) -> Any:
    """The model, by default the good one, with values put at these places, which are written as paths."""
    model = good() if model is None else model
    for place, value in changes.items():
        if place == "":
            return value
        *way, last = [int(part) if part.isdigit() else part for part in place.split("/")]
        owner = model
        for part in way:
            owner = owner[part]
        if value is DROP:
            del owner[last]
        elif isinstance(owner, list) and last == len(owner):
            owner.append(value)
        else:
            owner[last] = value
    return model


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Everything that lies in a value of JSON: what it lies in, and its key or index."""
    for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from places(value[key])


def replaced(value: Any, others: Callable[[Any], Iterable[Any]]) -> Iterator[tuple[Any, Any]]:
    """The value of JSON with something else in one place at a time, for as long as that is looked at.

    What is to stand there follows from what does; DROP takes a field away.
    """
    for owner, key in list(places(value)):
        before = owner[key]
        for other in others(before):
            if other is not DROP:
                owner[key] = other
            elif isinstance(owner, dict):
                del owner[key]
            yield key, other
            owner[key] = before


def nested(depth: int) -> list[Any]:
    result: list[Any] = []
    for _ in range(depth):
        result = [result]
    return result


X = "resources/x"
SPLIT = "dispatchables/split"
DESC = f"{SPLIT}/desc"
BIND = "commands/1/bindings"
TENSOR = {"DataType": "FLOAT32", "Sizes": [6]}

# Something else at one place: by the rule, the places and the values that are put there.
RULES: dict[str, list[tuple[str, Any]]] = {
    "must be an object": [
        ("", []), ("resources", []), (f"{X}", [1]), ("resources/mixed/initialValues/0", 6), (SPLIT, None), (DESC, []), (f"{DESC}/InputTensor", []),
        ("commands/4", 1), ("commands/1/bindings", []), (f"{SPLIT}/bindings", []),
    ],
    "must be an array": [("commands", {}), (f"{DESC}/OutputTensors", {}), (f"{DESC}/InputTensor/Sizes", 6)],
    "must be an array or an object": [(f"{X}/initialValues", 3), (f"{X}/initialValues", "Deferred")],
    "must be a number, or one of the strings nan, inf, -inf": [
        (f"{X}/initialValues/1", "2"), (f"{X}/initialValues/1", True), (f"{X}/initialValues/1", None), (f"{X}/initialValues/1", [1]),
        (f"{X}/initialValues/1", nested(900)), ("resources/a/initialValues/value", "zero"),
    ],
    f"must be a number that FLOAT32 can hold; {WORDS}": [(f"{X}/initialValues/1", float("nan")), (f"{X}/initialValues/5", float("-inf")), (f"{X}/initialValues/5", 1e39)],
    "must be a whole number from 0 to 255, as the type is UINT8": [("resources/bytes/initialValues/valueDelta", -3), ("resources/mixed/initialValues/0/value", 300)],
    f"must be one of {DATA_TYPES}": [
        (f"{X}/initialValuesDataType", "FLOAT"), (f"{X}/initialValuesDataType", "UINT4"), (f"{X}/initialValuesDataType", "float32"),
        ("resources/mixed/initialValues/0/type", "BOOL"),
    ],
    "must be a string": [(f"{X}/initialValuesDataType", 1), (f"{SPLIT}/type", 1), (f"{SPLIT}/Type", None)],
    "must be at least 24, the end of the initial values in bytes": [(f"{X}/sizeInBytes", 23)],
    "must be at least 0": [(f"{X}/initialValuesOffsetInBytes", -1), (f"{X}/sizeInBytes", -1)],
    "must be 'buffer'": [(f"{X}/type", "texture")],
    "must be a whole number": [(f"{X}/sizeInBytes", "24"), (f"{DESC}/Axis", "0"), (f"{DESC}/OutputTensors/1/Desc/Sizes/0", 4.0)],
    f"must be one of {EXECUTION_FLAGS}": [(f"{SPLIT}/executionFlags", "SOME")],
    "must be 'DmlCompileOp' or 'DmlCompileGraph'": [(f"{SPLIT}/dmlCompileType", ["DmlCompileOp"]), (f"{SPLIT}/dmlCompileType", "DmlCompile")],
    f"must be one of UNKNOWN, {DATA_TYPES}, UINT4, INT4": [(f"{DESC}/InputTensor/DataType", "BFLOAT16")],
    "must be DML_TENSOR_TYPE_BUFFER": [(f"{DESC}/OutputTensors/1/Type", "IMAGE"), (f"{DESC}/OutputTensors/0/Type", 2)],
    "must be from 0 to 0, a dimension of InputTensor": [(f"{DESC}/Axis", 1)],
    "must be 2, the number of OutputTensors": [(f"{DESC}/OutputCount", 3)],
    "must be a multiple of 4": [(f"{DESC}/OutputTensors/1/Desc/TotalTensorSizeInBytes", 18)],
    "must be 1, the number of Sizes": [(f"{DESC}/OutputTensors/0/DimensionCount", 4)],
    f"must be the name of a resource ({RESOURCES})": [("commands/2/resource", "c"), (f"{BIND}/InputTensor", "z"), ("commands/0/resource", "c")],
    "must have values of one type to be shown": [("commands/2/resource", "mixed")],
    "must be true or false": [("commands/2/verbose", 1)],
    "must be the name of a dispatchable ('split')": [("commands/1/dispatchable", "join")],
    "must be the name of a resource or an object": [(f"{BIND}/InputTensor", 1)],
    "must have values of one type to be written as .npy": [("commands/0/resource", "mixed")],
    "must be a file that can be written": [("commands/0/targetPath", ""), ("commands/0/targetPath", "a folder.npy"), ("commands/0/targetPath", "full.dat/x.npy")],
    "must make 6 values, as many as 'x' has": [("commands/0/dimensions", [2, 2])],
}  # fmt: skip
REQUIRED = [
    f"{X}/initialValues", "resources/mixed/initialValues/0/type", f"{SPLIT}/type", f"{SPLIT}/desc", f"{DESC}/InputTensor", f"{DESC}/OutputCount",
    f"{DESC}/InputTensor/Sizes", "commands/2/resource", "commands/1/bindings", f"{BIND}/InputTensor", "commands/0/targetPath",
]  # fmt: skip


def at(place: str) -> str:
    """The place as sentences have it."""
    return "$" + "".join(f"[{part}]" if part.isdigit() else f".{part}" for part in place.split("/") if part)


def shown(value: Any) -> str:
    """The value as sentences have it."""
    if isinstance(value, dict) or (isinstance(value, list) and not all(type(inner) is int for inner in value)):
        return "an object" if isinstance(value, dict) else "an array"
    return json.dumps(value) if value is None or value is True else repr(value)


BAD: list[tuple[dict[str, Any], list[str]]] = [
    *(({place: value}, [f"{at(place)} {rule}, got {shown(value)}"]) for rule, rows in RULES.items() for place, value in rows),
    *(({place: DROP}, [f"{at(place)} is required"]) for place in REQUIRED),
    # The root.
    ({"": {}}, ["$.resources is required", "$.dispatchables is required", "$.commands is required"]),
    # Resources.
    ({f"{X}/initialValues": []}, ["$.resources.x.initialValues must have at least 1 value, got none"]),
    ({f"{X}/initialValues": "deferred"}, ["$.resources.x.initialValues must not be 'deferred', as such values come from an ONNX model"]),
    ({f"{X}/initialValues": {}}, ["$.resources.x.initialValues must have value, valueStart and valueDelta, or sourcePath, got no field"]),
    ({f"{X}/initialValues": {"valueCount": 6, "Value": 1}}, ["$.resources.x.initialValues must have value, valueStart and valueDelta, or sourcePath, got 'valueCount', 'Value'"]),
    ({f"{X}/initialValues": {"value": 1}}, ["$.resources.x.initialValues.valueCount is required"]),
    ({f"{X}/initialValues": {"valueCount": 0, "value": 1}}, ["$.resources.x.initialValues.valueCount must be at least 1, got 0"]),
    ({f"{X}/initialValues": {"valueCount": 2**32, "value": 1}}, ["$.resources.x.initialValues.valueCount must be at most 4294967295, got 4294967296"]),
    ({f"{X}/initialValues": {"valueCount": 6.0, "value": 1}}, ["$.resources.x.initialValues.valueCount must be a whole number, got 6.0"]),
    ({f"{X}/initialValues": {"valueCount": 6, "valueStart": 1}}, ["$.resources.x.initialValues.valueDelta is required"]),
    ({f"{X}/initialValues": {"valueCount": 6, "valueDelta": 1, "valueStart": 1, "value": 1}}, ["$.resources.x.initialValues must have only one of value, valueStart, valueDelta"]),
    ({f"{X}/initialValues": {"valueCount": 6, "value": 1, "sourcePath": "full.dat"}}, ["$.resources.x.initialValues must have only one of value, sourcePath"]),
    ({f"{X}/initialValues": {"valueCount": 6, "valueDelta": 1}}, ["$.resources.x.initialValues.valueStart is required"]),
    ({"commands": [nested(900)]}, ["$.commands[0] must be an object, got an array"]),
    ({f"{X}/initialValues/5": 10**400}, [f"$.resources.x.initialValues[5] must be a number that FLOAT32 can hold; {WORDS}, got inf"]),
    ({"resources/bytes/initialValues": [256, -1, 1.5, "nan", 255]}, [f"$.resources.bytes.initialValues[{k}] must be a whole number from 0 to 255, as the type is UINT8, got {got}" for k, got in enumerate(("256", "-1", "1.5", "'nan'"))],),
    ({"resources/a/initialValuesDataType": "UNKNOWN"}, ["$.resources.a.initialValuesDataType is required, and not UNKNOWN, for these values"]),
    ({f"{X}/initialValuesOffsetInBytes": 1, f"{X}/sizeInBytes": 24}, ["$.resources.x.sizeInBytes must be at least 25, the end of the initial values in bytes, got 24"]),
    ({f"{X}/initialValuesOffsetInBytes": 4}, ["$.resources.x.sizeInBytes must be at least 28, the end of the initial values in bytes, got 24"]),
    ({"resources/a b": 1}, ['$.resources["a b"] must be an object, got 1']),
    # Their files; "full.dat" has 12 bytes, "empty.bin" none, "text.npy" no array and "words.npy" one of strings.
    ({f"{X}/initialValues": {"sourcePath": "none.npy"}}, [f"$.resources.x.initialValues.sourcePath must be a file {INPUT_PATH}, got 'none.npy'"]),
    ({f"{X}/initialValues": {"sourcePath": 3}}, ["$.resources.x.initialValues.sourcePath must be a string, got 3"]),
    ({f"{X}/initialValues": {"sourcePath": "x.jpg"}}, ["$.resources.x.initialValues.sourcePath must not be an image, as images are not supported, got 'x.jpg'"]),
    ({f"{X}/initialValues": {"sourcePath": "x.PNG"}}, ["$.resources.x.initialValues.sourcePath must not be an image, as images are not supported, got 'x.PNG'"]),
    ({f"{X}/initialValues": {"sourcePath": ""}}, [f"$.resources.x.initialValues.sourcePath must be a file {INPUT_PATH}, got ''"]),
    ({f"{X}/initialValuesDataType": DROP, f"{X}/initialValues": [1, 2, 3]}, ["$.resources.x.initialValuesDataType is required, and not UNKNOWN, for these values"]),
    ({f"{X}/initialValuesDataType": "UNKNOWN", f"{X}/initialValues": [1, "nan"]}, ["$.resources.x.initialValuesDataType is required, and not UNKNOWN, for these values"]),
    ({f"{X}": {"initialValues": {"sourcePath": "full.dat"}}}, ["$.resources.x.initialValues.sourcePath needs the data type of its values: give initialValuesDataType, and not UNKNOWN"]),
    ({f"{X}": {"initialValuesDataType": "INT64", "initialValues": {"sourcePath": "full.dat"}}}, ["$.resources.x.initialValues.sourcePath must have whole values of INT64, got 12 bytes"]),
    ({f"{X}/initialValues": {"sourcePath": "empty.bin"}}, ["$.resources.x.initialValues.sourcePath must not be an empty file, got 'empty.bin'"]),
    ({f"{X}/initialValues": {"sourcePath": "text.npy"}}, ["$.resources.x.initialValues.sourcePath must be an array in NumPy's format, got 'text.npy'"]),
    ({f"{X}/initialValues": {"sourcePath": "no numbers.npy"}}, ["$.resources.x.initialValues.sourcePath must be an array with at least 1 value, got sizes [2, 0]"]),
    ({f"{X}/initialValues": {"sourcePath": "words.npy"}}, ["$.resources.x.initialValues.sourcePath must be an array of one of DirectML's data types, got str96"]),
    ({f"{X}/initialValues": {"sourcePath": "numbers.npy"}}, ["$.resources.x.initialValues.sourcePath must be an array of FLOAT32, as initialValuesDataType says, got INT16"]),
    ({f"{X}/initialValues": {"sourcePath": "a folder.npy"}}, [f"$.resources.x.initialValues.sourcePath must be a file {INPUT_PATH}, got 'a folder.npy'"]),
    ({f"{X}/initialValues": {"sourcePath": "flags.npy"}}, ["$.resources.x.initialValues.sourcePath must be an array of FLOAT32, as initialValuesDataType says, got UINT8"]),
    # Dispatchables.
    ({f"{SPLIT}/executionFlags": ["NONE", "SOME", 1]}, [f"$.dispatchables.split.executionFlags[1] must be one of {EXECUTION_FLAGS}, got 'SOME'", "$.dispatchables.split.executionFlags[2] must be a string, got 1"]),
    ({f"{SPLIT}/type": "DML_OPERATOR_GEMM"}, [f"$.dispatchables.split is the operator 'GEMM', {NOT_RUN}"]),
    ({f"{SPLIT}/Type": "slice"}, [f"$.dispatchables.split is the operator 'slice', {NOT_RUN}"]),
    ({f"{DESC}/InputTensor/Flags": ["NONE", "SOME"]}, ["$.dispatchables.split.desc.InputTensor.Flags[1] must be one of NONE, OWNED_BY_DML, got 'SOME'"]),
    ({f"{DESC}/InputTensor": {"DataType": "FLOAT31", "Sizes": [1, "2", 2.0, True]}}, [f"$.dispatchables.split.desc.InputTensor.Sizes[{k}] must be a whole number, got {got}" for k, got in ((1, "'2'"), (2, "2.0"), (3, "true"))]),
    ({f"{DESC}/InputTensor": {"DataType": "FLOAT31", "Sizes": [1], "Flags": "SOME"}}, [f"$.dispatchables.split.desc.InputTensor.DataType must be one of UNKNOWN, {DATA_TYPES}, UINT4, INT4, got 'FLOAT31'", "$.dispatchables.split.desc.InputTensor.Flags must be one of NONE, OWNED_BY_DML, got 'SOME'"],),
    ({f"{DESC}/InputTensor": {"Type": "TEXTURE", "Desc": {}}}, [f"$.dispatchables.split.desc.InputTensor.{rule}" for rule in ("Type must be DML_TENSOR_TYPE_BUFFER, got 'TEXTURE'", "Desc.DataType is required", "Desc.Sizes is required")],),
    ({DESC: {"Axis": "0", "OutputTensors": [{}]}}, [f"$.dispatchables.split.desc.{rule}" for rule in ("InputTensor is required", "OutputCount is required", "Axis must be a whole number, got '0'")],),
    ({SPLIT: {"type": "ELEMENT_WISE_IDENTITY", "desc": {"InputTensor": {"DataType": "INT8", "Sizes": [4]}, "OutputTensor": {"DataType": "INT8", "Sizes": [4]}, "ScaleBias": {"Scale": 2}}}}, ["$.dispatchables.split.desc.ScaleBias must be absent or null, as elements are copied here, not computed, got an object"],),
    # Rules that descriptors break, in the struct's words.
    ({f"{DESC}/InputTensor/Sizes": [7]}, ["$.dispatchables.split.desc.OutputTensors must have sizes along axis 0 that sum to 7, that of InputTensor, got [2, 4]"]),
    ({f"{DESC}/OutputTensors/0/Strides": [0]}, ["$.dispatchables.split.desc.OutputTensors[0].Strides[0] must not be 0, as the tensor is written to, got 0"]),
    ({f"{DESC}/OutputTensors/0/DataType": "INT32"}, ["$.dispatchables.split.desc.OutputTensors[0].DataType must be FLOAT32, that of InputTensor, got INT32"]),
    # Commands.
    ({"commands/4": {}}, ["$.commands[4].type is required"]),
    ({"commands/4": {"type": "wait"}}, ["$.commands[4].type must be dispatch, print or writeFile, got 'wait'"]),
    ({"commands/4": {"type": ["print"]}}, ["$.commands[4].type must be dispatch, print or writeFile, got an array"]),
    # Bindings.
    ({f"{BIND}/InputTensor": {"name": "z"}}, [f"$.commands[1].bindings.InputTensor.name must be the name of a resource ({RESOURCES}), got 'z'"]),
    ({f"{BIND}/OutputTensors": "a"}, ["$.commands[1].bindings.OutputTensors must be an array of 2 bindings, got 1"]),
    ({f"{BIND}/OutputTensors": ["a", "b", "b"]}, ["$.commands[1].bindings.OutputTensors must be an array of 2 bindings, got 3"]),
    ({f"{BIND}/InputTensor": ["x", "x"]}, ["$.commands[1].bindings.InputTensor must be 1 binding, got 2"]),
    ({f"{BIND}/InputTensor": "a"}, ["$.commands[1].bindings.InputTensor must hold the 24 bytes of the tensor, got 8 bytes of 'a'"]),
    ({f"{BIND}/InputTensor": {"name": "x", "elementOffset": 4}}, ["$.commands[1].bindings.InputTensor must hold the 24 bytes of the tensor, got 8 bytes of 'x'"]),
    ({f"{BIND}/InputTensor": {"name": "x", "elementOffset": 2**64 - 4}}, ["$.commands[1].bindings.InputTensor must hold the 24 bytes of the tensor, got 0 bytes of 'x'"]),
    ({f"{BIND}/InputTensor": {"name": "x", "elementCount": -1}}, ["$.commands[1].bindings.InputTensor.elementCount must be at least 0, got -1"]),
    ({f"{BIND}/InputTensor": {"name": "x", "elementOffset": -1}}, ["$.commands[1].bindings.InputTensor.elementOffset must be at least 0, got -1"]),
    ({f"{BIND}/InputTensor": {"name": "mixed", "elementOffset": 1}}, ["$.commands[1].bindings.InputTensor.elementSizeInBytes is required, as 'mixed' has values of several types"]),
    ({f"{BIND}/InputTensor": {"name": "mixed", "elementOffset": 2, "elementSizeInBytes": 1}}, ["$.commands[1].bindings.InputTensor.elementOffset must begin at a multiple of 16 bytes, got 2 elements of 1 bytes"]),
    *(({"resources/x/sizeInBytes": 64, f"{BIND}/InputTensor": {"name": "x", "elementOffset": k}}, [f"$.commands[1].bindings.InputTensor.elementOffset must begin at a multiple of 16 bytes, got {k} elements of 4 bytes"]) for k in (3, 5, 6)),
    *(({f"{DESC}/InputTensor/GuaranteedBaseOffsetAlignment": n, "resources/x/sizeInBytes": 128, f"{BIND}/InputTensor": {"name": "x", "elementOffset": least // 8}}, [f"$.commands[1].bindings.InputTensor.elementOffset must begin at a multiple of {least} bytes, got {least // 8} elements of 4 bytes"]) for n, least in ((4, 16), (8, 16), (16, 16), (32, 32))),
    ({f"{BIND}/OutputTensors": ["b", {"name": "b"}]}, ["$.commands[1].bindings.OutputTensors[1] must not overlap OutputTensors[0], which is bytes 0 to 8 of 'b', got 0 to 16"]),
    ({"resources/b/sizeInBytes": 40, "resources/x/sizeInBytes": 48, f"{DESC}/InputTensor/Sizes": [12], f"{DESC}/OutputTensors/1/Desc/Sizes": [10], f"{BIND}/OutputTensors": [{"name": "b", "elementOffset": 4}, "b"]}, ["$.commands[1].bindings.OutputTensors[0] must not overlap OutputTensors[1], which is bytes 0 to 40 of 'b', got 16 to 24"]),
    *(({"resources/x/sizeInBytes": 64, f"{BIND}/OutputTensors/1": bound}, ["$.commands[1].bindings.OutputTensors[1] must be bound to another resource than InputTensor is, got 'x'"]) for bound in ("x", {"name": "x", "elementOffset": 8})),
    *(({SPLIT: {"type": "ELEMENT_WISE_IDENTITY", "desc": {"InputTensor": TENSOR, "OutputTensor": TENSOR | strides}}, BIND: {"InputTensor": "x", "OutputTensor": {"name": "x", "elementOffset": offset}}, "resources/x/sizeInBytes": 128}, ["$.commands[1].bindings.OutputTensor must be bound to another resource than InputTensor is, got 'x'"]) for offset, strides in ((8, {}), (0, {"Strides": [2]}))),
    ({SPLIT: {"type": "JOIN", "desc": {"InputCount": 2, "InputTensors": [TENSOR, TENSOR], "OutputTensor": TENSOR | {"Sizes": [2 * TENSOR["Sizes"][0]]}, "Axis": 0}}, BIND: {"InputTensors": ["x", "x"], "OutputTensor": {"name": "x", "elementOffset": 8}}, "resources/x/sizeInBytes": 128}, ["$.commands[1].bindings.OutputTensor must be bound to another resource than InputTensors[0] is, got 'x'"],),
    (
        {"resources/b/sizeInBytes": 64, f"{DESC}/InputTensor/Sizes": [15], f"{DESC}/OutputCount": 3, f"{DESC}/OutputTensors/1/Desc/Sizes": [12], f"{DESC}/OutputTensors/2": {"DataType": "FLOAT32", "Sizes": [1]}, "resources/x/sizeInBytes": 60,
         f"{BIND}/OutputTensors": [{"name": "b", "elementOffset": 4}, "b", {"name": "b", "elementOffset": 8}]},
        [f"$.commands[1].bindings.OutputTensors[{k}] must not overlap OutputTensors[1], which is bytes 0 to 48 of 'b', got {got}" for k, got in ((0, "16 to 24"), (2, "32 to 36"))],
    ),
    # What is not run: nothing else about it is wrong.
    *(({SPLIT: {"type": kind, "desc": {"ATensor": TENSOR}, "sourcePath": "x", "bindings": {"B": "a"}}, BIND: {"ATensor": "x"}}, [f"$.dispatchables.split is {what}, {NOT_RUN}"]) for kind, what in (("GEMM", "the operator 'GEMM'"), ("ONNX", "an ONNX model"), ("hlsl", "an HLSL shader"), ("dmlSerializedGraph", "a serialized graph"))),
    ({"resources/a/initialValues": "deferred", f"{SPLIT}/type": "onnx"}, ["$.resources.a.initialValues must not be 'deferred', as such values come from an ONNX model", f"$.dispatchables.split is an ONNX model, {NOT_RUN}"],),
    (
        {
            X: {"initialValues": {"sourcePath": "x.jpg"}, "initialValuesDataType": "FLOAT32", "resampleSize": [1, 3, 2, 2]},
            SPLIT: {"type": "DML_OPERATOR_CONVOLUTION", "desc": {}},
            "commands/0": {"type": "writeFile", "resource": "b", "targetPath": "x.png", "dimensions": [1, 1, 1, 4]},
        },
        [
            "$.resources.x.initialValues.sourcePath must not be an image, as images are not supported, got 'x.jpg'",
            f"$.dispatchables.split is the operator 'CONVOLUTION', {NOT_RUN}",
            "$.commands[0].targetPath must not be an image, as images are not supported, got 'x.png'",
        ],
    ),
    # Tensors that are bound at initialization.
    ({f"{SPLIT}/bindings": {"InputTensor": "x"}}, ["$.dispatchables.split.bindings.InputTensor must be bound in dispatch commands only, as it is not OWNED_BY_DML"]),
    ({f"{SPLIT}/bindings": {"OutputTensors": ["a", "b"]}}, ["$.dispatchables.split.bindings.OutputTensors must be bound in dispatch commands only, as it is not OWNED_BY_DML"]),
    ({f"{DESC}/OutputTensors/0/Flags": "OWNED_BY_DML"}, ["$.dispatchables.split.desc.OutputTensors[0].Flags must be NONE, as only inputs can be owned by DirectML, got OWNED_BY_DML"]),
    ({f"{DESC}/InputTensor/Flags": "OWNED_BY_DML"}, ["$.dispatchables.split.bindings.InputTensor is required, as the tensor is OWNED_BY_DML"]),
    ({f"{DESC}/InputTensor/Flags": "OWNED_BY_DML", f"{SPLIT}/bindings": {"InputTensor": "x"}}, ["$.commands[1].bindings.InputTensor must be bound in the dispatchable only, as it is OWNED_BY_DML"]),
    ({f"{DESC}/InputTensor/Flags": "OWNED_BY_DML", f"{SPLIT}/bindings": {"InputTensor": {"name": "x", "elementOffset": 3}}}, ["$.dispatchables.split.bindings.InputTensor must hold the 24 bytes of the tensor, got 12 bytes of 'x'", "$.dispatchables.split.bindings.InputTensor.elementOffset must begin at a multiple of 16 bytes, got 3 elements of 4 bytes"]),
    ({SPLIT: {"type": "JOIN", "desc": {"InputCount": 2, "InputTensors": [{"DataType": "FLOAT32", "Sizes": [1], "Flags": flag} for flag in ("NONE", "OWNED_BY_DML")], "OutputTensor": {"DataType": "FLOAT32", "Sizes": [2]}, "Axis": 0}}}, ["$.dispatchables.split.desc.InputTensors must have OWNED_BY_DML in the Flags of all tensors or of none, as they are bound together"],),
    # Files that are written.
    *(({"commands/0/targetPath": name}, [f"$.commands[0].targetPath must not be an image, as images are not supported, got {name!r}"]) for name in ("x.png", "x.JPG")),
    *(
        ({f"commands/{k}": {"type": "writeFile", "resource": "x", "targetPath": path} for k, path in ((0, first), (4, second))}, [f"$.commands[4].targetPath must not {rule}, got {second!r}"])
        for first, second, rule in (
            ("a.npy", "a.npy/b.npy", "lie under the file that $.commands[0] writes"),
            ("a.npy", "c/../a.npy/b/c.dat", "lie under the file that $.commands[0] writes"),
            ("a.npy/b.npy", "a.npy", "be the folder that $.commands[0] writes to"),
            ("a.npy/b/c.npy", "a.npy", "be the folder that $.commands[0] writes to"),
        )
    ),
    *(({"commands/0/targetPath": path}, [f"$.commands[0].targetPath must lie {OUTPUT_PATH}, got {path!r}"]) for path in ("../out.npy", "/tmp/out.npy", "a/../../out.npy", "link/out.npy", "..\\out.npy")),
    # Several problems: each is reported, wherever it is.
    (
        {f"{X}/sizeInBytes": 1, f"{DESC}/Axis": "0", "commands/0/targetPath": "../x.npy", f"{BIND}/InputTensor": 1, "commands/3/resource": 4},
        [
            "$.resources.x.sizeInBytes must be at least 24, the end of the initial values in bytes, got 1",
            "$.dispatchables.split.desc.Axis must be a whole number, got '0'",
            f"$.commands[0].targetPath must lie {OUTPUT_PATH}, got '../x.npy'",
            "$.commands[3].resource must be a string, got 4",
        ],
    ),
]  # fmt: skip

# Models that run, of which something is not read: what is said of it, as a warning or, read strictly, as a problem.
IGNORED: list[tuple[dict[str, Any], list[str]]] = [
    ({"Resources": {}}, ["$.Resources is not a field here; those that are: $schema, resources, dispatchables, commands"]),
    ({f"{X}/initialvalues": []}, ["$.resources.x.initialvalues is not a field here; those that are: type, initialValuesDataType, initialValues, initialValuesOffsetInBytes, sizeInBytes, resampleSize, resampleMode"]),
    ({f"{X}/sizeInBytes": 28, f"{X}/initialValuesOffsetInBytes": 4}, ["$.resources.x.initialValuesOffsetInBytes is not used: DxDispatch checks it, and then writes the values to the buffer's start"]),
    ({"resources/bytes/initialValues/sourcePath": "none.npy"}, ["$.resources.bytes.initialValues.sourcePath is not a field here; those that are: valueCount, valueStart, valueDelta"]),
    ({"resources/bytes": {"initialValuesDataType": "UINT8", "initialValues": {"sourcePath": "full.dat", "valueCount": 3}}}, ["$.resources.bytes.initialValues.valueCount is not a field here; those that are: sourcePath"]),
    ({"resources/mixed/initialValues/0/comment": ""}, ["$.resources.mixed.initialValues[0].comment is not a field here; those that are: name, type, value"]),
    ({f"{SPLIT}/ExecutionFlags": 1}, ["$.dispatchables.split.ExecutionFlags is not a field here; those that are: type, Type, executionFlags, dmlCompileType, bindings, desc, Desc"]),
    ({f"{SPLIT}/Axis": 7}, ["$.dispatchables.split.Axis is not a field here; those that are: type, Type, executionFlags, dmlCompileType, bindings, desc, Desc"]),
    ({f"{DESC}/axis": 1}, ["$.dispatchables.split.desc.axis is not a field here; those that are: InputTensor, OutputCount, OutputTensors, Axis"]),
    ({f"{DESC}/InputTensor/sizes": []}, [f"$.dispatchables.split.desc.InputTensor.sizes is not a field here; those that are: {TENSOR_FIELDS}"]),
    ({f"{DESC}/OutputTensors/1/Sizes": [3]}, ["$.dispatchables.split.desc.OutputTensors[1].Sizes is not a field here; those that are: Type, Desc"]),
    ({f"{SPLIT}/bindings": {"ATensor": "a"}}, ["$.dispatchables.split.bindings.ATensor is not a tensor of SPLIT; it has InputTensor, OutputTensors"]),
    ({f"{BIND}/ATensor": "none"}, ["$.commands[1].bindings.ATensor is not a tensor of SPLIT; it has InputTensor, OutputTensors"]),
    ({f"{BIND}/InputTensor": {"name": "x", "elementStride": 4}}, ["$.commands[1].bindings.InputTensor.elementStride is not a field here; those that are: name, elementOffset, elementSizeInBytes, elementCount, format, shape, counter, counterOffsetBytes"]),
    ({"commands/2/Verbose": True, "commands/3/a\nb": 1}, ["$.commands[2].Verbose is not a field here; those that are: type, resource, verbose", '$.commands[3]["a\\nb"] is not a field here; those that are: type, resource, verbose']),
    ({"commands/0/dimension": [6]}, ["$.commands[0].dimension is not a field here; those that are: type, resource, targetPath, dimensions"]),
    ({"commands/1/threadGroupCounts": 1}, ["$.commands[1].threadGroupCounts is not a field here; those that are: type, dispatchable, bindings, threadGroupCount"]),
]  # fmt: skip

# Text that is no JSON, or no JSON that a model can be.
BAD_TEXTS: list[tuple[str, list[str]]] = [
    ("", ["$ must be JSON: Expecting value at line 1, column 1"]),
    ("{", ["$ must be JSON: Expecting property name enclosed in double quotes at line 1, column 2"]),
    ('{"resources": {},\n "commands" []}', ["$ must be JSON: Expecting ':' delimiter at line 2, column 13"]),
    ("{} // but\n {}", ["$ must be JSON: Extra data at line 2, column 2"]),
    ('{"resources": /* never ends', ["$ must be JSON: Expecting value at line 1, column 15"]),
    ("{} /* never ends", ["$ must be JSON: Extra data at line 1, column 4"]),
    ("[,]", ["$ must be JSON: Expecting value at line 1, column 2"]),
    ("{,}", ["$ must be JSON: Expecting property name enclosed in double quotes at line 1, column 2"]),
    ('{"a": [1,,]}', ["$ must be JSON: Expecting value at line 1, column 10"]),
    ('{"a": 1, /* and */ ,}', ["$ must be JSON: Expecting property name enclosed in double quotes at line 1, column 20"]),
    ('{"a":,}', ["$ must be JSON: Expecting value at line 1, column 6"]),
    ("[" * 100_000, ["$ must not be nested this deep"]),
    ('{"resources":' * 100_000, ["$ must not be nested this deep"]),
    ('{"resources": {"x": 1, "x": 2}, "commands": [{"type": "print", "type": "print"}], /* and */ "dispatchables": {}}', ["$.resources.x must be there once, and is there more than once", "$.commands[0].type must be there once, and is there more than once"],),
    (r'{"resources": {"\ud800": 1}}', [r"$ must have whole characters in its strings, got \ud800 alone"]),
    (r'{"\u00e4": "\ud83d\ude00\uDC00"}', [r"$ must have whole characters in its strings, got \udc00 alone"]),
    ('"x"', ["$ must be an object, got 'x'"]),
    ("NaN", ["$ must be an object, got nan"]),
]  # fmt: skip
