# ruff: noqa: E501  (a problem to a line)
"""Model files that are refused: what a good one is changed to, and everything that is then said of it."""

from typing import Any

DROP = object()  # for a field that is taken away

RESOURCES = "'x', 'a', 'b', 'mixed', 'bytes'"
BUFFER = {"initialValuesDataType": "FLOAT32", "initialValues": [1]}
TENSOR_FIELDS = "DataType, Sizes, Flags, DimensionCount, Strides, TotalTensorSizeInBytes, GuaranteedBaseOffsetAlignment"
DATA_TYPES = "FLOAT32, FLOAT16, UINT32, UINT16, UINT8, INT32, INT16, INT8, FLOAT64, UINT64, INT64"
OPERATORS = "SLICE, SLICE1, SPLIT, JOIN, REVERSE_SUBSEQUENCES, SLICE_GRAD, ELEMENT_WISE_IDENTITY"
WORDS = 'there is no NaN and no infinity in JSON, but the strings "nan", "inf", "-inf"'


def good() -> dict[str, Any]:
    """Splits 6 numbers into 2 and 4."""
    return {
        "$schema": "./_schema.json",
        "resources": {
            "x": {"initialValuesDataType": "FLOAT32", "initialValues": [1, 2.5, -3, "nan", "inf", "-inf"]},
            "a": {"initialValuesDataType": "FLOAT32", "initialValues": {"valueCount": 2, "value": 0}},
            "b": {"initialValuesDataType": "DML_TENSOR_DATA_TYPE_FLOAT32", "initialValues": {"valueCount": 4, "value": 0}},
            "mixed": {
                "initialValuesDataType": "UNKNOWN",
                "initialValues": [{"name": "count", "type": "UINT8", "value": 6}, {"type": "FLOAT32", "value": "nan"}],
                "sizeInBytes": 30,
            },
            "bytes": {"initialValuesDataType": "UINT8", "initialValues": {"valueCount": 7, "valueStart": 250, "valueDelta": 3}},
        },
        "dispatchables": {
            "split": {
                "type": "DML_OPERATOR_SPLIT",
                "desc": {
                    "InputTensor": {"DataType": "FLOAT32", "Sizes": [6]},
                    "OutputCount": 2,
                    "OutputTensors": [
                        {"DataType": "FLOAT32", "Sizes": [2]},
                        {"Type": "BUFFER", "Desc": {"DataType": "FLOAT32", "Sizes": [4]}},
                    ],
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


def changed(changes: dict[str, Any]) -> Any:
    """The good model with values put at these places, which are written as paths."""
    model: Any = good()
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


def nested(depth: int) -> list[Any]:
    result: list[Any] = []
    for _ in range(depth):
        result = [result]
    return result


X = "resources/x"
SPLIT = "dispatchables/split"
DESC = f"{SPLIT}/desc"
BIND = "commands/1/bindings"

BAD: list[tuple[dict[str, Any], list[str]]] = [
    # The root.
    ({"": []}, ["$ must be an object, got []"]),
    ({"": {}}, ["$.resources is required", "$.dispatchables is required", "$.commands is required"]),
    ({"resources": []}, ["$.resources must be an object, got []"]),
    ({"commands": {}}, ["$.commands must be an array, got an object"]),
    ({"Resources": {}}, ["$.Resources is not a field here; those that are: $schema, resources, dispatchables, commands"]),
    # Resources.
    ({f"{X}": [1]}, ["$.resources.x must be an object, got [1]"]),
    ({f"{X}/initialValues": DROP}, ["$.resources.x.initialValues is required"]),
    ({f"{X}/initialvalues": []}, ["$.resources.x.initialvalues is not a field here; those that are: initialValuesDataType, initialValues, sizeInBytes"]),
    ({f"{X}/initialValues": []}, ["$.resources.x.initialValues must have at least 1 value, got none"]),
    ({f"{X}/initialValues": 3}, ["$.resources.x.initialValues must be an array or an object, got 3"]),
    ({f"{X}/initialValues": "deferred"}, ["$.resources.x.initialValues must be an array or an object, got 'deferred'"]),
    ({f"{X}/initialValues": {}}, ["$.resources.x.initialValues must have value, valueStart and valueDelta, or sourcePath, got no field"]),
    ({f"{X}/initialValues": {"valueCount": 6, "Value": 1}}, ["$.resources.x.initialValues must have value, valueStart and valueDelta, or sourcePath, got 'valueCount', 'Value'"]),
    ({f"{X}/initialValues": {"value": 1}}, ["$.resources.x.initialValues.valueCount is required"]),
    ({f"{X}/initialValues": {"valueCount": 0, "value": 1}}, ["$.resources.x.initialValues.valueCount must be at least 1, got 0"]),
    ({f"{X}/initialValues": {"valueCount": 2**32, "value": 1}}, ["$.resources.x.initialValues.valueCount must be at most 4294967295, got 4294967296"]),
    ({f"{X}/initialValues": {"valueCount": 6.0, "value": 1}}, ["$.resources.x.initialValues.valueCount must be a whole number, got 6.0"]),
    ({f"{X}/initialValues": {"valueCount": 6, "valueStart": 1}}, ["$.resources.x.initialValues.valueDelta is required"]),
    ({f"{X}/initialValues": {"valueCount": 6, "valueDelta": 1, "valueStart": 1, "value": 1}}, ["$.resources.x.initialValues.value is not a field here; those that are: valueCount, valueStart, valueDelta"]),
    ({f"{X}/initialValues/1": "2"}, ["$.resources.x.initialValues[1] must be a number, or one of the strings nan, inf, -inf, got '2'"]),
    ({f"{X}/initialValues/1": True}, ["$.resources.x.initialValues[1] must be a number, or one of the strings nan, inf, -inf, got true"]),
    ({f"{X}/initialValues/1": None}, ["$.resources.x.initialValues[1] must be a number, or one of the strings nan, inf, -inf, got null"]),
    ({f"{X}/initialValues/1": [1]}, ["$.resources.x.initialValues[1] must be a number, or one of the strings nan, inf, -inf, got [1]"]),
    ({f"{X}/initialValues/1": nested(900)}, ["$.resources.x.initialValues[1] must be a number, or one of the strings nan, inf, -inf, got an array"]),
    ({"commands": [nested(900)]}, ["$.commands[0] must be an object, got an array"]),
    ({f"{X}/initialValues/1": float("nan")}, [f"$.resources.x.initialValues[1] must be a number that FLOAT32 can hold; {WORDS}, got nan"]),
    ({f"{X}/initialValues/5": float("-inf")}, [f"$.resources.x.initialValues[5] must be a number that FLOAT32 can hold; {WORDS}, got -inf"]),
    ({f"{X}/initialValues/5": 1e39}, [f"$.resources.x.initialValues[5] must be a number that FLOAT32 can hold; {WORDS}, got 1e+39"]),
    ({f"{X}/initialValues/5": 10**400}, [f"$.resources.x.initialValues[5] must be a number that FLOAT32 can hold; {WORDS}, got 1{'0' * 58}…"]),
    ({"resources/a/initialValues/value": "zero"}, ["$.resources.a.initialValues.value must be a number, or one of the strings nan, inf, -inf, got 'zero'"]),
    (
        {"resources/bytes/initialValues": [256, -1, 1.5, "nan", 255]},
        [f"$.resources.bytes.initialValues[{k}] must be a whole number from 0 to 255, as the type is UINT8, got {got}" for k, got in enumerate(("256", "-1", "1.5", "'nan'"))],
    ),
    ({"resources/bytes/initialValues/valueDelta": -3}, ["$.resources.bytes.initialValues.valueDelta must be a whole number from 0 to 255, as the type is UINT8, got -3"]),
    ({f"{X}/initialValuesDataType": "FLOAT"}, [f"$.resources.x.initialValuesDataType must be one of {DATA_TYPES}, got 'FLOAT'"]),
    ({f"{X}/initialValuesDataType": "UINT4"}, [f"$.resources.x.initialValuesDataType must be one of {DATA_TYPES}, got 'UINT4'"]),
    ({f"{X}/initialValuesDataType": "float32"}, [f"$.resources.x.initialValuesDataType must be one of {DATA_TYPES}, got 'float32'"]),
    ({f"{X}/initialValuesDataType": 1}, ["$.resources.x.initialValuesDataType must be a string, got 1"]),
    ({"resources/a/initialValuesDataType": "UNKNOWN"}, ["$.resources.a.initialValuesDataType is required, and not UNKNOWN, for these values"]),
    ({"resources/mixed/initialValues/0": 6}, ["$.resources.mixed.initialValues[0] must be an object, got 6"]),
    ({"resources/mixed/initialValues/0/type": DROP}, ["$.resources.mixed.initialValues[0].type is required"]),
    ({"resources/mixed/initialValues/0/type": "BOOL"}, [f"$.resources.mixed.initialValues[0].type must be one of {DATA_TYPES}, got 'BOOL'"]),
    ({"resources/mixed/initialValues/0/value": 300}, ["$.resources.mixed.initialValues[0].value must be a whole number from 0 to 255, as the type is UINT8, got 300"]),
    ({f"{X}/sizeInBytes": 23}, ["$.resources.x.sizeInBytes must be at least 24, the bytes of the initial values, got 23"]),
    ({f"{X}/sizeInBytes": -1}, ["$.resources.x.sizeInBytes must be at least 0, got -1"]),
    ({f"{X}/sizeInBytes": "24"}, ["$.resources.x.sizeInBytes must be a whole number, got '24'"]),
    ({"resources/a b": 1}, ['$.resources["a b"] must be an object, got 1']),
    # Their files; "full.dat" has 12 bytes, "empty.bin" none, "text.npy" no array and "words.npy" one of strings.
    ({f"{X}/initialValues": {"sourcePath": "none.npy"}}, ["$.resources.x.initialValues.sourcePath must be a file, beside the model or in the current directory, got 'none.npy'"]),
    ({f"{X}/initialValues": {"sourcePath": 3}}, ["$.resources.x.initialValues.sourcePath must be a string, got 3"]),
    ({f"{X}/initialValues": {"sourcePath": "x.jpg"}}, ["$.resources.x.initialValues.sourcePath must not be an image, as images are not supported, got 'x.jpg'"]),
    ({f"{X}/initialValues": {"sourcePath": "x.txt"}}, ["$.resources.x.initialValues.sourcePath must end in .npy, .dat or .bin, got 'x.txt'"]),
    ({f"{X}/initialValues": {"sourcePath": ""}}, ["$.resources.x.initialValues.sourcePath must end in .npy, .dat or .bin, got ''"]),
    ({f"{X}/initialValuesDataType": DROP, f"{X}/initialValues": [1, 2, 3]}, ["$.resources.x.initialValuesDataType is required, and not UNKNOWN, for these values"]),
    ({f"{X}/initialValuesDataType": "UNKNOWN", f"{X}/initialValues": [1, "nan"]}, ["$.resources.x.initialValuesDataType is required, and not UNKNOWN, for these values"]),
    ({f"{X}/initialValues": {"sourcePath": "full.dat", "valueCount": 3}}, ["$.resources.x.initialValues.valueCount is not a field here; those that are: sourcePath"]),
    ({f"{X}": {"initialValues": {"sourcePath": "full.dat"}}}, ["$.resources.x.initialValues.sourcePath needs the data type of its values: give initialValuesDataType, and not UNKNOWN"]),
    ({f"{X}": {"initialValuesDataType": "INT64", "initialValues": {"sourcePath": "full.dat"}}}, ["$.resources.x.initialValues.sourcePath must have whole values of INT64, got 12 bytes"]),
    ({f"{X}/initialValues": {"sourcePath": "empty.bin"}}, ["$.resources.x.initialValues.sourcePath must not be an empty file, got 'empty.bin'"]),
    ({f"{X}/initialValues": {"sourcePath": "text.npy"}}, ["$.resources.x.initialValues.sourcePath must be an array in NumPy's format, got 'text.npy'"]),
    ({f"{X}/initialValues": {"sourcePath": "words.npy"}}, ["$.resources.x.initialValues.sourcePath must be an array of one of DirectML's data types, got str96"]),
    ({f"{X}/initialValues": {"sourcePath": "numbers.npy"}}, ["$.resources.x.initialValues.sourcePath must be an array of FLOAT32, as initialValuesDataType says, got INT16"]),
    ({f"{X}/initialValues": {"sourcePath": "a folder.npy"}}, ["$.resources.x.initialValues.sourcePath must be a file, beside the model or in the current directory, got 'a folder.npy'"]),
    # Dispatchables.
    ({SPLIT: None}, ["$.dispatchables.split must be an object, got null"]),
    ({f"{SPLIT}/type": DROP}, ["$.dispatchables.split.type is required"]),
    ({f"{SPLIT}/desc": DROP}, ["$.dispatchables.split.desc is required"]),
    ({f"{SPLIT}/Desc": {}}, ["$.dispatchables.split.Desc is not a field here; those that are: type, desc, dmlCompileType"]),
    ({f"{SPLIT}/type": "DML_OPERATOR_GEMM"}, [f"$.dispatchables.split.type must be an operator of this package ({OPERATORS}), got 'DML_OPERATOR_GEMM'"]),
    ({f"{SPLIT}/type": "hlsl"}, [f"$.dispatchables.split.type must be an operator of this package ({OPERATORS}), got 'hlsl'"]),
    ({f"{SPLIT}/dmlCompileType": "DmlCompile"}, ["$.dispatchables.split.dmlCompileType must be one of 'DmlCompileOp' or 'DmlCompileGraph', got 'DmlCompile'"]),
    ({DESC: []}, ["$.dispatchables.split.desc must be an object, got []"]),
    ({f"{DESC}/InputTensor": DROP}, ["$.dispatchables.split.desc.InputTensor is required"]),
    ({f"{DESC}/OutputCount": DROP}, ["$.dispatchables.split.desc.OutputCount is required"]),
    ({f"{DESC}/axis": 0}, ["$.dispatchables.split.desc.axis is not a field here; those that are: InputTensor, OutputCount, OutputTensors, Axis"]),
    ({f"{DESC}/OutputTensors": {}}, ["$.dispatchables.split.desc.OutputTensors must be an array, got an object"]),
    ({f"{DESC}/Axis": "0"}, ["$.dispatchables.split.desc.Axis must be a whole number, got '0'"]),
    ({f"{DESC}/InputTensor/Sizes": DROP}, ["$.dispatchables.split.desc.InputTensor.Sizes is required"]),
    ({f"{DESC}/InputTensor/Sizes": 6}, ["$.dispatchables.split.desc.InputTensor.Sizes must be an array, got 6"]),
    ({f"{DESC}/InputTensor/sizes": []}, [f"$.dispatchables.split.desc.InputTensor.sizes is not a field here; those that are: {TENSOR_FIELDS}"]),
    ({f"{DESC}/InputTensor/DataType": "BFLOAT16"}, [f"$.dispatchables.split.desc.InputTensor.DataType must be one of UNKNOWN, {DATA_TYPES}, UINT4, INT4, got 'BFLOAT16'"]),
    ({f"{DESC}/OutputTensors/1/Desc/Sizes/0": 4.0}, ["$.dispatchables.split.desc.OutputTensors[1].Desc.Sizes[0] must be a whole number, got 4.0"]),
    ({f"{DESC}/OutputTensors/1/Type": "IMAGE"}, ["$.dispatchables.split.desc.OutputTensors[1].Type must be DML_TENSOR_TYPE_BUFFER, got 'IMAGE'"]),
    ({f"{DESC}/OutputTensors/1/Type": DROP}, ["$.dispatchables.split.desc.OutputTensors[1].Type is required"]),
    # Rules that descriptors break, in the struct's words.
    ({f"{DESC}/Axis": 1}, ["$.dispatchables.split.desc.Axis must be from 0 to 0, a dimension of InputTensor, got 1"]),
    ({f"{DESC}/InputTensor/Sizes": [7]}, ["$.dispatchables.split.desc.OutputTensors must have sizes along axis 0 that sum to 7, that of InputTensor, got [2, 4]"]),
    ({f"{DESC}/OutputCount": 3}, ["$.dispatchables.split.desc.OutputCount must be 2, the number of OutputTensors, got 3"]),
    ({f"{DESC}/OutputTensors/1/Desc/TotalTensorSizeInBytes": 18}, ["$.dispatchables.split.desc.OutputTensors[1].Desc.TotalTensorSizeInBytes must be a multiple of 4, got 18"]),
    ({f"{DESC}/OutputTensors/0/Strides": [0]}, ["$.dispatchables.split.desc.OutputTensors[0].Strides[0] must not be 0, as the tensor is written to, got 0"]),
    ({f"{DESC}/OutputTensors/0/DimensionCount": 4}, ["$.dispatchables.split.desc.OutputTensors[0].DimensionCount must be 1, the number of Sizes, got 4"]),
    ({f"{DESC}/OutputTensors/0/DataType": "INT32"}, ["$.dispatchables.split.desc.OutputTensors[0].DataType must be FLOAT32, that of InputTensor, got INT32"]),
    # Commands.
    ({"commands/4": 1}, ["$.commands[4] must be an object, got 1"]),
    ({"commands/4": {}}, ["$.commands[4].type is required"]),
    ({"commands/4": {"type": "wait"}}, ["$.commands[4].type must be dispatch, print or writeFile, got 'wait'"]),
    ({"commands/4": {"type": ["print"]}}, ["$.commands[4].type must be dispatch, print or writeFile, got an array"]),
    ({"commands/2/resource": DROP}, ["$.commands[2].resource is required"]),
    ({"commands/2/resource": "c"}, [f"$.commands[2].resource must be the name of a resource ({RESOURCES}), got 'c'"]),
    ({"commands/2/resource": "mixed"}, ["$.commands[2].resource must have values of one type to be shown, got 'mixed'"]),
    ({"commands/2/verbose": 1}, ["$.commands[2].verbose must be true or false, got 1"]),
    ({"commands/2/Verbose": True}, ["$.commands[2].Verbose is not a field here; those that are: type, resource, verbose"]),
    ({"commands/1/dispatchable": "join"}, ["$.commands[1].dispatchable must be the name of a dispatchable ('split'), got 'join'"]),
    ({"commands/1/bindings": DROP}, ["$.commands[1].bindings is required"]),
    ({"commands/1/bindings": []}, ["$.commands[1].bindings must be an object, got []"]),
    ({"commands/1/threadGroupCount": [1, 1, 1]}, ["$.commands[1].threadGroupCount is not a field here; those that are: type, dispatchable, bindings"]),
    # Bindings.
    ({f"{BIND}/InputTensor": DROP}, ["$.commands[1].bindings.InputTensor is required"]),
    ({f"{BIND}/ATensor": "a"}, ["$.commands[1].bindings.ATensor is not a tensor of SPLIT; it has InputTensor, OutputTensors"]),
    ({f"{BIND}/InputTensor": 1}, ["$.commands[1].bindings.InputTensor must be the name of a resource or an object, got 1"]),
    ({f"{BIND}/InputTensor": "z"}, [f"$.commands[1].bindings.InputTensor must be the name of a resource ({RESOURCES}), got 'z'"]),
    ({f"{BIND}/InputTensor": {"name": "z"}}, [f"$.commands[1].bindings.InputTensor.name must be the name of a resource ({RESOURCES}), got 'z'"]),
    ({f"{BIND}/InputTensor": {"Name": "x"}}, ["$.commands[1].bindings.InputTensor.name is required", "$.commands[1].bindings.InputTensor.Name is not a field here; those that are: name, elementCount, elementOffset, elementSizeInBytes"]),
    ({f"{BIND}/OutputTensors": "a"}, ["$.commands[1].bindings.OutputTensors must be an array of 2 bindings, got 1"]),
    ({f"{BIND}/OutputTensors": ["a", "b", "b"]}, ["$.commands[1].bindings.OutputTensors must be an array of 2 bindings, got 3"]),
    ({f"{BIND}/InputTensor": ["x", "x"]}, ["$.commands[1].bindings.InputTensor must be 1 binding, got 2"]),
    ({f"{BIND}/InputTensor": "a"}, ["$.commands[1].bindings.InputTensor must hold the 24 bytes of the tensor, got 8 bytes of 'a'"]),
    ({f"{BIND}/InputTensor": {"name": "x", "elementOffset": 1}}, ["$.commands[1].bindings.InputTensor must hold the 24 bytes of the tensor, got 20 bytes of 'x'"]),
    ({f"{BIND}/InputTensor": {"name": "x", "elementCount": 5}}, ["$.commands[1].bindings.InputTensor must hold the 24 bytes of the tensor, got 20 bytes of 'x'"]),
    ({f"{BIND}/InputTensor": {"name": "x", "elementOffset": 2**64 - 1}}, ["$.commands[1].bindings.InputTensor must hold the 24 bytes of the tensor, got 0 bytes of 'x'"]),
    ({f"{BIND}/InputTensor": {"name": "x", "elementCount": 7}}, ["$.commands[1].bindings.InputTensor.elementCount must stay within the 24 bytes of 'x', got 7 elements of 4 bytes from 0 on"]),
    ({f"{BIND}/InputTensor": {"name": "x", "elementOffset": -1}}, ["$.commands[1].bindings.InputTensor.elementOffset must be at least 0, got -1"]),
    ({f"{BIND}/InputTensor": {"name": "x", "elementSizeInBytes": 0}}, ["$.commands[1].bindings.InputTensor.elementSizeInBytes must be at least 1, got 0"]),
    ({f"{BIND}/InputTensor": {"name": "mixed", "elementCount": 7}}, ["$.commands[1].bindings.InputTensor.elementSizeInBytes is required, as 'mixed' has values of several types"]),
    ({f"{BIND}/InputTensor": {"name": "mixed", "elementOffset": 2, "elementSizeInBytes": 1}}, ["$.commands[1].bindings.InputTensor.elementOffset must begin at a multiple of 4 bytes, got 2 elements of 1 bytes"]),
    ({f"{DESC}/InputTensor/GuaranteedBaseOffsetAlignment": 16, "resources/x/sizeInBytes": 64, f"{BIND}/InputTensor": {"name": "x", "elementOffset": 2}}, ["$.commands[1].bindings.InputTensor.elementOffset must begin at a multiple of 16 bytes, got 2 elements of 4 bytes"]),
    ({f"{BIND}/OutputTensors": ["b", {"name": "b"}]}, ["$.commands[1].bindings.OutputTensors[1] must not overlap OutputTensors[0], which is bytes 0 to 8 of 'b', got 0 to 16"]),
    ({"resources/b/sizeInBytes": 20, f"{BIND}/OutputTensors": [{"name": "b", "elementOffset": 3}, "b"]}, ["$.commands[1].bindings.OutputTensors[0] must not overlap OutputTensors[1], which is bytes 0 to 16 of 'b', got 12 to 20"]),
    ({f"{BIND}/OutputTensors/1": {"name": "x", "elementOffset": 2}}, ["$.commands[1].bindings.OutputTensors[1] must not overlap InputTensor, which is bytes 0 to 24 of 'x', got 8 to 24"]),
    (
        {"resources/b/sizeInBytes": 40, f"{DESC}/InputTensor/Sizes": [7], f"{DESC}/OutputCount": 3, f"{DESC}/OutputTensors/2": {"DataType": "FLOAT32", "Sizes": [1]}, "resources/x/sizeInBytes": 28,
         f"{BIND}/OutputTensors": [{"name": "b", "elementOffset": 1}, "b", {"name": "b", "elementOffset": 3}]},
        [f"$.commands[1].bindings.OutputTensors[{k}] must not overlap OutputTensors[1], which is bytes 0 to 16 of 'b', got {got}" for k, got in ((0, "4 to 12"), (2, "12 to 16"))],
    ),
    # Files that are written.
    ({"commands/0/targetPath": DROP}, ["$.commands[0].targetPath is required"]),
    ({"commands/0/resource": "c"}, [f"$.commands[0].resource must be the name of a resource ({RESOURCES}), got 'c'"]),
    ({"commands/0/resource": "mixed"}, ["$.commands[0].resource must have values of one type to be written as .npy, got 'mixed'"]),
    ({"commands/0/targetPath": ""}, ["$.commands[0].targetPath must end in .npy, .dat or .bin, got ''"]),
    ({"commands/0/targetPath": "model.json"}, ["$.commands[0].targetPath must end in .npy, .dat or .bin, got 'model.json'"]),
    ({"commands/0/targetPath": "x.png"}, ["$.commands[0].targetPath must end in .npy, .dat or .bin, as images are not supported, got 'x.png'"]),
    ({"commands/0/dimensions": [2, 2]}, ["$.commands[0].dimensions must make 6 values, as many as 'x' has, got [2, 2]"]),
    ({"commands/0/targetPath": "a folder.npy"}, ["$.commands[0].targetPath must be a file that can be written, got 'a folder.npy'"]),
    ({"commands/0/targetPath": "full.dat/x.npy"}, ["$.commands[0].targetPath must be a file that can be written, got 'full.dat/x.npy'"]),
    *(
        ({f"commands/{k}": {"type": "writeFile", "resource": "x", "targetPath": path} for k, path in ((0, first), (4, second))}, [f"$.commands[4].targetPath must not {rule}, got {second!r}"])
        for first, second, rule in (
            ("a.npy", "a.npy/b.npy", "lie under the file that $.commands[0] writes"),
            ("a.npy", "c/../a.npy/b/c.dat", "lie under the file that $.commands[0] writes"),
            ("a.npy/b.npy", "a.npy", "be the folder that $.commands[0] writes to"),
            ("a.npy/b/c.npy", "a.npy", "be the folder that $.commands[0] writes to"),
        )
    ),
    *(
        ({"commands/0/targetPath": path}, [f"$.commands[0].targetPath must lie in the folder of the model (--allow-outside allows others), got {path!r}"])
        for path in ("../out.npy", "/tmp/out.npy", "a/../../out.npy", "link/out.npy", "..\\out.npy")
    ),
    # Several problems: each is reported, wherever it is.
    (
        {f"{X}/sizeInBytes": 1, f"{DESC}/Axis": "0", "commands/0/targetPath": "../x.npy", f"{BIND}/InputTensor": 1, "commands/3/resource": 4, "more": 1},
        [
            "$.more is not a field here; those that are: $schema, resources, dispatchables, commands",
            "$.resources.x.sizeInBytes must be at least 24, the bytes of the initial values, got 1",
            "$.dispatchables.split.desc.Axis must be a whole number, got '0'",
            "$.commands[0].targetPath must lie in the folder of the model (--allow-outside allows others), got '../x.npy'",
            "$.commands[3].resource must be a string, got 4",
        ],
    ),
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
    (
        '{"resources": {"x": 1, "x": 2}, "commands": [{"type": "print", "type": "print"}], "dispatchables": {}}',
        [
            "$.resources.x must be there once, and is there more than once",
            "$.commands[0].type must be there once, and is there more than once",
        ],
    ),
    (r'{"resources": {"\ud800": 1}}', [r"$ must have whole characters in its strings, got \ud800 alone"]),
    (r'{"\u00e4": "\ud83d\ude00\uDC00"}', [r"$ must have whole characters in its strings, got \udc00 alone"]),
    ('"x"', ["$ must be an object, got 'x'"]),
    ("NaN", ["$ must be an object, got nan"]),
]  # fmt: skip
