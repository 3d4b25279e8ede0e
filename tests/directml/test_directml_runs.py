"""What is found right when it is loaded can be run, as long as nothing outside of it changes."""

import io
import json
import math
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from descriptors.cases import DATA_TYPES, OPERATORS, descs
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transform_cases import EXAMPLES, examples

from torch_dml_ops.directml import Model, ModelError, Operator, OperatorDesc, TensorDataType, TensorDesc

Json = dict[str, Any]


@contextmanager
def folder() -> Iterator[Path]:
    """A new one, with something of each kind beside the model."""
    with tempfile.TemporaryDirectory() as name:
        result = Path(name, "models")
        result.mkdir()
        os.mkfifo(result / "pipe.npy")
        (result / "folder.npy").mkdir()
        (result / "file.dat").write_bytes(bytes(range(24)))
        (result / "inside").symlink_to(result / "folder.npy")
        (result / "nowhere.npy").symlink_to(result / "new" / "there.npy")
        (result / "circle.npy").symlink_to(result / "circle.npy")
        (result / "raw.npy").symlink_to(result / "raw.bin")
        np.save(result / "array.npy", np.arange(24, dtype=">i4").reshape(2, 3, 4))
        np.save(result / "columns.npy", np.arange(24, dtype=np.float16).reshape(4, 6, order="F"))
        yield result


# Buffers.

names = st.sampled_from(["x", "y", "ä \n", "z" * 300])
words = st.sampled_from(["nan", "inf", "-inf"])


@st.composite
def numbers(draw: st.DrawFn, data_type: str) -> Any:
    if data_type.startswith("FLOAT"):
        width = min(int(data_type.removeprefix("FLOAT")), 64)
        return draw(st.floats(width=width, allow_nan=False, allow_infinity=False) | words | st.integers(-99, 99))  # type: ignore[arg-type]
    limits = np.iinfo(data_type.lower())
    return draw(st.integers(int(limits.min), int(limits.max)))


@st.composite
def resources(draw: st.DrawFn) -> Json:
    data_type = draw(st.sampled_from([t.name for t in DATA_TYPES]))
    count = draw(st.sampled_from([1, 2, 6, 24]))
    kind = draw(st.sampled_from(["list", "value", "sequence", "items", "array.npy", "columns.npy", "file.dat"]))
    resource: Json = {"initialValuesDataType": data_type}
    if kind == "list":
        resource["initialValues"] = draw(st.lists(numbers(data_type), min_size=count, max_size=count))
    elif kind == "value":
        resource["initialValues"] = {"valueCount": count, "value": draw(numbers(data_type))}
    elif kind == "sequence":
        start, delta = draw(numbers(data_type)), draw(numbers(data_type))
        resource["initialValues"] = {"valueCount": count, "valueStart": start, "valueDelta": delta}
    elif kind == "items":
        types = draw(st.lists(st.sampled_from([t.name for t in DATA_TYPES]), min_size=1, max_size=4))
        resource = {"initialValues": [{"type": t, "value": draw(numbers(t))} for t in types]}
    else:
        resource["initialValues"] = {"sourcePath": kind}
        if kind.endswith(".npy"):
            del resource["initialValuesDataType"]
    size = draw(st.sampled_from([None, None, 0, 200, 201]))
    return resource if size is None else resource | {"sizeInBytes": size}


# Commands on them.

parts = st.sampled_from(
    ["a", "b.npy", "file.dat", "folder.npy", "inside", "..", ".", "ä", "n" * 250, "n" * 255, "n" * 256, "new", "\\"]
)
ends = st.sampled_from(
    [
        *["x.npy", "X.NPY", "x.dat", "x.bin", "pipe.npy", "folder.npy", "nowhere.npy", "circle.npy", "raw.npy"],
        *[".npy", "n" * 251 + ".npy", "n" * 252 + ".npy", "ä" * 130 + ".npy", "a\0.npy", "x.npy/", "x.npy/."],
        *["file.dat", "array.npy"],
    ]
)
paths = st.builds(lambda parts, end: "/".join([*parts, end]), st.lists(parts, max_size=3), ends) | st.builds(
    lambda count, length, end: "/".join([*["n" * length] * count, end]), st.integers(1, 40), st.integers(90, 255), ends
)


@st.composite
def dimensions(draw: st.DrawFn, count: int) -> list[int]:
    """That make as many values, and more or fewer of 1."""
    first = draw(st.sampled_from([d for d in range(1, count + 1) if count % d == 0] or [0]))
    sizes = [first, count // (first or 1), *[1] * draw(st.sampled_from([0, 1, 30, 31, 62, 63, 64, 1000]))]
    return draw(st.sampled_from([sizes, sizes[::-1], sizes[:1], []]))


def values_of(resource: Json) -> int:
    """How many there are; 0 where they are of several types."""
    values = resource["initialValues"]
    if isinstance(values, list):
        return len(values) if "initialValuesDataType" in resource else 0
    if values.get("sourcePath") == "file.dat":
        return 24 // TensorDataType.parse(resource["initialValuesDataType"]).size_in_bytes
    return int(values.get("valueCount", 24))


@st.composite
def commands(draw: st.DrawFn, known: dict[str, Json]) -> Json:
    name = draw(st.sampled_from([*known]))
    if draw(st.booleans()):
        return {"type": "print", "resource": name, "verbose": draw(st.booleans())}
    command: Json = {"type": "writeFile", "resource": name, "targetPath": draw(paths)}
    if draw(st.booleans()):
        command["dimensions"] = draw(dimensions(values_of(known[name])))
    return command


@st.composite
def models(draw: st.DrawFn) -> Json:
    known = draw(st.dictionaries(names, resources(), min_size=1, max_size=2))
    chosen = draw(st.lists(commands(known), min_size=1, max_size=3))
    return {"resources": known, "dispatchables": {}, "commands": chosen}


def run(folder: Path, model: Json) -> dict[str, Tensor] | None:
    """The model's buffers afterwards, where it is right."""
    (folder / "model.json").write_text(json.dumps(model), encoding="utf-8")
    try:
        loaded = Model.load(folder / "model.json")
    except ModelError:
        return None
    return loaded.run(file=io.StringIO())


@settings(examples, max_examples=2 * EXAMPLES)
@given(model=models())
def test_buffers_that_are_shown_and_written(model: Json) -> None:
    with folder() as here:
        before = {entry: entry.lstat().st_mode for entry in here.iterdir()}
        run(here, model)
        for entry, mode in before.items():  # what was there is still what it was
            assert entry.lstat().st_mode == mode


@examples
@given(data=st.data())
def test_written_arrays_have_the_dimensions(data: st.DataObject) -> None:
    resource = data.draw(resources())
    resource.pop("sizeInBytes", None)
    count = values_of(resource)
    sizes = data.draw(dimensions(count))
    written = {"type": "writeFile", "resource": "x", "targetPath": "x.npy", "dimensions": sizes}
    with folder() as here:
        done = None is not run(here, {"resources": {"x": resource}, "dispatchables": {}, "commands": [written]})
        if len(sizes) <= 32:  # as every version of NumPy has them
            assert done == (count > 0 and (not sizes or math.prod(sizes) == count))
        if done:
            assert list(np.load(here / "x.npy").shape) == (sizes or [count])


def bound(name: str, desc: TensorDesc, before: int) -> tuple[Json, Json]:
    """A resource that holds the tensor, from this many bytes on or a little later, and the binding to it."""
    alignment = max(desc.guaranteed_base_offset_alignment, 16)  # of every buffer that is bound
    offset = math.ceil(before / alignment) * alignment
    values = {"valueCount": offset + (desc.total_tensor_size_in_bytes or 0), "valueStart": 0, "valueDelta": 7}
    return {"initialValuesDataType": "UINT8", "initialValues": values}, {"name": name, "elementOffset": offset}


@st.composite
def of_one_operator(draw: st.DrawFn, op: str, before: list[int]) -> Json:
    """A model that runs it once; each tensor has one of these numbers of bytes before it."""
    desc = draw(descs(op))
    known: dict[str, Json] = {}
    bindings: dict[str, list[Json]] = {}
    for path, tensor in (*desc.inputs(), *desc.outputs()):
        known[str(path)], binding = bound(str(path), tensor, draw(st.sampled_from(before)))
        bindings.setdefault(str(path[0]).title().replace("_", ""), []).append(binding)
    dispatch = {"type": "dispatch", "dispatchable": "op", "bindings": bindings}
    return {"resources": known, "dispatchables": {"op": desc.to_json()}, "commands": [dispatch]}


@pytest.mark.parametrize("op", OPERATORS)
@settings(examples, max_examples=EXAMPLES // 2)
@given(data=st.data())
def test_operators_on_buffers(op: str, data: st.DataObject) -> None:
    """Whatever the strides, the padding and the alignment; no byte changes that no operator writes."""
    model = data.draw(of_one_operator(op, [0, 4, 100]))
    with folder() as here:
        buffers = run(here, model)
    assert buffers is not None
    desc = OperatorDesc.from_json(model["dispatchables"]["op"])
    offsets = {b["name"]: b["elementOffset"] for bound in model["commands"][0]["bindings"].values() for b in bound}
    wanted = {name: (torch.arange(len(b), device="cpu") * 7).to(torch.uint8) for name, b in buffers.items()}
    inputs, outs = (
        [tensor.view(wanted[str(path)][offsets[str(path)] :]) for path, tensor in tensors]
        for tensors in (desc.inputs(), desc.outputs())
    )
    operator = Operator(desc)
    operator(*inputs, out=outs if operator.gives_list else outs[0])
    for name, buffer in buffers.items():
        assert buffer.tolist() == wanted[name].tolist()


# Every form that DxDispatch reads of the same model.


@st.composite
def other_tensor(draw: st.DrawFn, tensor: Json) -> Json:
    more = {"Flags": ["NONE", "DML_TENSOR_FLAG_NONE", [], ["NONE", "NONE"]], "DimensionCount": [len(tensor["Sizes"])]}
    more |= {"TotalTensorSizeInBytes": [0], "Strides": [[], None], "GuaranteedBaseOffsetAlignment": [0]}
    added = {key: draw(st.sampled_from(values)) for key, values in more.items() if draw(st.booleans())}
    tensor = added | tensor | {"DataType": draw(st.sampled_from(["", "DML_TENSOR_DATA_TYPE_"])) + tensor["DataType"]}
    kind = {"Type": draw(st.sampled_from(["BUFFER", "DML_TENSOR_TYPE_BUFFER"]))} if draw(st.booleans()) else {}
    return kind | ({"Desc": tensor} if draw(st.booleans()) else tensor)


@st.composite
def other_dispatchable(draw: st.DrawFn, dispatchable: Json) -> Json:
    desc = {}
    for name, value in dispatchable["desc"].items():
        several = isinstance(value, list) and isinstance(value[0], dict)
        desc[name] = [draw(other_tensor(v)) for v in value] if several else value
        if isinstance(value, dict):
            desc[name] = draw(other_tensor(value))
    kind = dispatchable["type"].removeprefix(draw(st.sampled_from(["", "DML_OPERATOR_"])))
    more = {
        "executionFlags": ["NONE", ["DISABLE_META_COMMANDS"]],
        "dmlCompileType": ["DmlCompileGraph"],
        "bindings": [{}],
    }
    added = {key: draw(st.sampled_from(values)) for key, values in more.items() if draw(st.booleans())}
    key = draw(st.sampled_from(["desc", "Desc", ""]))
    return added | {draw(st.sampled_from(["type", "Type"])): kind} | ({key: desc} if key else desc)


@st.composite
def other_binding(draw: st.DrawFn, binding: Json) -> Any:
    if binding["elementOffset"] == 0 and draw(st.booleans()):
        return binding["name"]
    more = {"elementCount": [0, 1, 2**40], "format": ["R8_UINT"], "elementSizeInBytes": [0, 1], "shape": [[1]]}
    return binding | {key: draw(st.sampled_from(values)) for key, values in more.items() if draw(st.booleans())}


@pytest.mark.parametrize("op", OPERATORS)
@settings(examples, max_examples=EXAMPLES // 3)
@given(data=st.data())
def test_other_forms_of_a_model_are_the_same(op: str, data: st.DataObject) -> None:
    plain = data.draw(of_one_operator(op, [0, 16]))
    other: Json = {"resources": {}}
    for name, value in plain["resources"].items():
        other["resources"][name] = {"type": "buffer", "sizeInBytes": value["initialValues"]["valueCount"]} | value
    other["dispatchables"] = {"op": data.draw(other_dispatchable(plain["dispatchables"]["op"]))}
    bindings = plain["commands"][0]["bindings"]
    others = {name: [data.draw(other_binding(b)) for b in found] for name, found in bindings.items()}
    others = {
        name: found[0] if len(found) == 1 and data.draw(st.booleans()) else found for name, found in others.items()
    }
    other["commands"] = [{"type": "DISPATCH", "dispatchable": "op", "bindings": others, "threadGroupCount": [1, 1, 1]}]
    with folder() as here:
        loaded = []
        for model in (plain, other):
            (here / "model.json").write_text(json.dumps(model))
            loaded.append(Model.load(here / "model.json", strict=True))
        assert loaded[0] == loaded[1]
    one, another = (OperatorDesc.from_json(model["dispatchables"]["op"]) for model in (plain, other))
    assert one == another
