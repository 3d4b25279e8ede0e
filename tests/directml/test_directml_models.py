"""DxDispatch's model files: the examples, every form, files that are refused, and the command line."""

import io
import itertools
import json
import operator
import os
import pickle
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from descriptors.bad_models import BAD, BAD_TEXTS, BUFFER, DROP, IGNORED, NOT_RUN, OUTPUT_PATH, changed, good

from torch_dml_ops.__main__ import main, report
from torch_dml_ops.directml import Model, ModelError, ModelWarning
from torch_dml_ops.directml._schema.in_sentences import as_json

EXAMPLES = Path(__file__).parents[2] / "examples" / "models"

PRINTED = {
    "slice1": "Resource 'y': 14, 16, 6, 8\n",
    "slice": "Resource 'y': 7, 9, 12, 14, 17, 19\n",
    "slice_grad": "Resource 'y': 0, 0, 0, 0, 0, 6, 0, 8, 0, 0, 0, 0, 0, 14, 0, 16\n",
    "split": "Resource 'a': 1, 2, 3, 4\nResource 'b': 5, 6\nResource 'c': 7, 8, 9, 10, 11, 12\n",
    "join": "Resource 'y': 5, 6, -1, 1, 2, 3\n",
    "reverse_subsequences": "Resource 'y': 2, 1, 3, 4, 8, 7, 6, 5, 11, 10, 9, 12\n",
    # Each row but its first element, of which two, all and one are reversed, and then the first.
    "chain": "Resource 'y': 3, 2, 4, 1, 8, 7, 6, 5, 10, 11, 12, 9\n",
    "owned_by_dml": "Resource 'y': 2, 1, 3, 6, 5, 4\n",
    "identity": "Resource 'y': 1, 4, 2, 5, 3, 6\n",
    "strided_and_padded": "Resource 'y': 3, 2, 1, -1, -1, 3, 2, 1, -1, -1\n",
    "reinterpreted": "Resource 'x': 1, -2, inf\n"
    "Resource 'y':\n[0] 2139095040 (0x7F800000)\n[1] 3221225472 (0xC0000000)\n[2] 1065353216 (0x3F800000)\n",
}


def test_an_identity_in_place(tmp_path: Path) -> None:
    tensor = {"DataType": "FLOAT32", "Sizes": [3]}
    bindings = {"InputTensor": "x", "OutputTensor": "x"}
    content = {
        "resources": {"x": {"initialValuesDataType": "FLOAT32", "initialValues": [1, 2, 3]}},
        "dispatchables": {"i": {"type": "ELEMENT_WISE_IDENTITY", "desc": dict.fromkeys(bindings, tensor)}},
        "commands": [
            {"type": "dispatch", "dispatchable": "i", "bindings": bindings},
            {"type": "print", "resource": "x"},
        ],
    }
    (tmp_path / "model.json").write_text(json.dumps(content))
    assert printed(Model.load(tmp_path / "model.json")) == "Resource 'x': 1, 2, 3\n"


def printed(model: Model, **options: Any) -> str:
    to = io.StringIO()
    model.run(file=to, **options)
    return to.getvalue()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder for a model, with files of all kinds beside it."""
    result = tmp_path / "models"
    result.mkdir()
    (result / "full.dat").write_bytes(bytes(range(12)))
    (result / "empty.bin").touch()
    for name in ("raw", "raw.anything"):
        (result / name).write_bytes(b"\x01\xff")
    (result / "text.npy").write_text("no array")
    (result / "a folder.npy").mkdir()
    (result / "link").symlink_to(tmp_path)
    np.save(result / "words.npy", np.array(["one"]))
    np.save(result / "no numbers.npy", np.zeros((2, 0), np.float32))
    np.save(result / "flags.npy", np.array([True, False, True]))
    np.save(result / "numbers.npy", np.arange(6, dtype=np.int16).reshape(2, 3))
    np.save(result / "big.npy", np.array([[1, 2], [3, 4]], ">i4", order="F"))
    return result


def load(folder: Path, model: Any, **options: Any) -> Model:
    text = model if isinstance(model, str) else json.dumps(model)
    (folder / "model.json").write_text(text, encoding="utf-8")
    return Model.load(folder / "model.json", **options)


def buffers_of(**resources: Any) -> dict[str, Any]:
    """A model of buffers, and of no commands yet."""
    return {"resources": resources, "dispatchables": {}, "commands": []}


def values_of(data_type: str, values: Any) -> dict[str, Any]:
    return {"initialValuesDataType": data_type, "initialValues": values}


def problems_of(folder: Path, model: Any, **options: Any) -> list[str]:
    with pytest.raises(ModelError) as caught:
        load(folder, model, **options)
    problems = [str(problem) for problem in caught.value.problems]
    more = [f"and {len(problems) - 100} more; the attribute problems has them all"] if len(problems) > 100 else []
    assert str(caught.value).splitlines() == problems[:100] + more
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.problems) == (str(caught.value), caught.value.problems)
    return problems


# The examples.


def test_every_example_is_tested() -> None:
    assert {path.stem for path in EXAMPLES.glob("*")} == set(PRINTED)


@pytest.mark.parametrize("accelerated", [False, True], ids=["cpu", "accelerator"])
@pytest.mark.parametrize("name", PRINTED)
def test_examples(name: str, accelerated: bool, capsys: pytest.CaptureFixture[str]) -> None:
    accelerator = torch.accelerator.current_accelerator()  # of the tests on the CPU, that of host_device.cpp
    options = ["--device", str(accelerator)] if accelerated else []
    assert main(["run", *options, str(EXAMPLES / f"{name}.json")]) == 0
    assert capsys.readouterr() == (PRINTED[name], "")
    assert main(["validate", str(EXAMPLES / f"{name}.json")]) == 0
    assert capsys.readouterr() == (f"{EXAMPLES / name}.json: nothing is wrong\n", "")


def test_buffers_come_back() -> None:
    model = Model.load(EXAMPLES / "split.json")
    buffers = model.run(file=io.StringIO())
    assert {name: (len(b), b.dtype) for name, b in buffers.items()} == {
        name: (size, torch.uint8) for name, size in {"x": 48, "a": 16, "b": 8, "c": 24}.items()
    }
    assert buffers["b"].view(torch.int32).tolist() == [5, 6]
    buffers["x"].zero_()
    assert printed(model) == PRINTED["split"]  # a second run begins with fresh buffers


def test_models_that_do_the_same_are_equal(folder: Path) -> None:
    model = load(folder, good())
    again = load(folder, good())
    assert model == again
    assert hash(model) == hash(again)
    reordered = load(folder, {**good(), "resources": dict(reversed(good()["resources"].items()))})
    assert reordered == model
    assert hash(reordered) == hash(model)
    copied = pickle.loads(pickle.dumps(model))
    assert copied == model
    assert printed(copied) == printed(model)
    others = [
        {"resources/x/initialValues/0": 2},
        {"resources/x/initialValues/3": "inf"},
        {"resources/a/initialValues/value": -0.0},
        {"resources/a/sizeInBytes": 12},
        {"resources/bytes/initialValues/valueDelta": 4},
        {"dispatchables/split/desc/InputTensor/GuaranteedBaseOffsetAlignment": 4},
        {"commands/0/targetPath": "after.npy"},
        {"commands/3/verbose": False},
    ]
    for change in others:
        assert load(folder, changed(change)) != model, change
    assert model != 1


# Initial values and what is shown of them.


def shown(folder: Path, resource: dict[str, Any], verbose: bool = False) -> str:
    commands = [{"type": "print", "resource": "x", "verbose": verbose}]
    model = buffers_of(x=resource) | {"commands": commands}
    return printed(load(folder, model)).removeprefix("Resource 'x':").strip()


@pytest.mark.parametrize(
    ("data_type", "values", "text"),
    [
        ("FLOAT32", [1, 2.5, -0.0, 1e10, 123456789, 0.1, 1e-7], "1, 2.5, -0, 1e+10, 1.23457e+08, 0.1, 1e-07"),
        ("FLOAT16", [65504, "nan", "inf", "-inf", 0.1], "65504, nan, inf, -inf, 0.0999756"),
        ("FLOAT64", [0.1, 1e300], "0.1, 1e+300"),
        ("FLOAT32", ["NaN", "Inf", "-INF", "nAn"], "nan, inf, -inf, nan"),
        ("FLOAT64", {"valueCount": 2, "valueStart": "-Inf", "valueDelta": 1}, "-inf, -inf"),
        ("UINT8", [0, 65, 255], "0, 65, 255"),
        ("INT8", [-128, 127], "-128, 127"),
        ("UINT64", [2**64 - 1, 2**53 + 1], "18446744073709551615, 9007199254740993"),
        ("INT64", [-(2**63)], "-9223372036854775808"),
        ("INT32", {"valueCount": 3, "value": -7}, "-7, -7, -7"),
        ("FLOAT16", {"valueCount": 2, "value": "-inf"}, "-inf, -inf"),
        ("FLOAT32", {"valueCount": 4, "valueStart": 1, "valueDelta": 2.5}, "1, 3.5, 6, 8.5"),
        ("INT16", {"valueCount": 3, "valueStart": 5, "valueDelta": -5}, "5, 0, -5"),
        ("UINT8", {"valueCount": 4, "valueStart": 250, "valueDelta": 3}, "250, 253, 0, 3"),  # as C++ adds
        ("FLOAT16", {"valueCount": 4, "valueStart": 2047, "valueDelta": 1}, "2047, 2048, 2048, 2048"),
        ("INT16", {"sourcePath": "numbers.npy"}, "0, 1, 2, 3, 4, 5"),
        ("UINT16", {"sourcePath": "full.dat"}, "256, 770, 1284, 1798, 2312, 2826"),
        ("INT8", {"sourcePath": "raw.anything"}, "1, -1"),
        ("INT8", {"sourcePath": "raw"}, "1, -1"),
        ("UINT8", {"sourcePath": "flags.npy"}, "1, 0, 1"),
        ("UNKNOWN", {"sourcePath": "flags.npy"}, "1, 0, 1"),
        ("UNKNOWN", {"sourcePath": "big.npy"}, "1, 2, 3, 4"),  # an array brings its type
        ("FLOAT64", [10**20, -(10**300)], "1e+20, -1e+300"),  # of more than 64 bits
        ("UINT8", {"sourcePath": ".\\full.dat"}, "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11"),
        ("DML_TENSOR_DATA_TYPE_INT8", [1], "1"),
    ],
)
def test_initial_values(folder: Path, data_type: str, values: Any, text: str) -> None:
    assert shown(folder, values_of(data_type, values)) == text


def test_verbose_shows_bytes_in_hexadecimal(folder: Path) -> None:
    lines = shown(folder, values_of("INT16", [*range(9), 255, -1]), verbose=True).splitlines()
    assert lines[:2] == ["[ 0] 0 (0x0000)", "[ 1] 1 (0x0001)"]
    assert lines[9:] == ["[ 9] 255 (0x00FF)", "[10] -1 (0xFFFF)"]
    for count, first in ((9, "[0]"), (10, "[ 0]"), (99, "[ 0]"), (100, "[  0]")):
        assert shown(folder, values_of("INT16", [7] * count), verbose=True).startswith(f"{first} 7 (0x0007)\n")


def test_sources_are_found_in_the_current_directory(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "other.bin").write_bytes(b"\x07")
    (elsewhere / "full.dat").write_bytes(b"\x07")
    monkeypatch.chdir(elsewhere)
    values = values_of("INT8", {"sourcePath": "other.bin"})
    assert shown(folder, values) == "7"
    loaded = load(folder, buffers_of(x=values))
    monkeypatch.chdir(tmp_path)  # what was found stays found
    assert loaded.run()["x"].tolist() == [7, 0, 0, 0]
    monkeypatch.chdir(elsewhere)
    assert shown(folder, values_of("INT8", {"sourcePath": "full.dat"})).startswith("0, 1, 2")


def test_sizes_of_buffers(folder: Path) -> None:
    model = good()
    model["resources"]["x"]["sizeInBytes"] = 41
    buffers = load(folder, model).run(file=io.StringIO())
    assert {name: len(b) for name, b in buffers.items()} == {"x": 44, "a": 8, "b": 16, "mixed": 32, "bytes": 8}
    assert buffers["x"][24:].tolist() == [0] * 20
    assert buffers["mixed"][:8].tolist() == [6, *np.array([np.nan], "<f4").view(np.uint8), 0, 0, 0]
    assert buffers["bytes"].tolist() == [250, 253, 0, 3, 6, 9, 12, 0]


def write_header(file: Path, header: str) -> None:
    """An array of 12 bytes, and what is said of it."""
    encoded = header.encode()
    file.write_bytes(b"\x93NUMPY\1\0" + len(encoded).to_bytes(2, "little") + encoded + bytes(range(12)))


def of_sizes(sizes: str, descr: str = "'<i2'") -> str:
    return f"{{'descr': {descr}, 'fortran_order': False, 'shape': {sizes}}}"


@pytest.mark.parametrize(
    "header",
    [
        *("", "(" * 8000, "-" * 8000 + "1", "[" * 50 + "]" * 50, "0in {}", "1 if", "\0", "9" * 5000),
        *(of_sizes(sizes) for sizes in ("(7,)", "(2, 4)", f"({10**30},)", f"({2**62},)", f"({2**62}, 4)", "(True,)")),
        *(of_sizes(sizes) for sizes in ("(-1,)", "(-2, -3)", "(1.0,)", "6", f"({'1,' * 70})", f"({10**2000},) * 2")),
        *(of_sizes("(1,)", descr) for descr in ("'|O'", "'O'", "'no type'", "'\\d'", "[('x', 'O')]", "0", "'i999'")),
    ],
    ids=lambda header: header[:80],
)
def test_files_that_are_no_arrays(folder: Path, header: str, recwarn: pytest.WarningsRecorder) -> None:
    write_header(folder / "x.npy", header)
    model = changed({"resources/x/initialValues": {"sourcePath": "x.npy"}})
    assert problems_of(folder, model) == [
        "$.resources.x.initialValues.sourcePath must be an array in NumPy's format, got 'x.npy'"
    ]
    assert not recwarn.list


def test_files_of_old_and_large_headers(folder: Path, recwarn: pytest.WarningsRecorder) -> None:
    values = {"initialValues": {"sourcePath": "x.npy"}}
    write_header(folder / "x.npy", of_sizes("(2L, 3)"))  # as Python 2 wrote it
    expected = "256, 770, 1284, 1798, 2312, 2826"
    assert shown(folder, values) == expected
    with (folder / "x.npy").open("wb") as file:
        np.lib.format.write_array(file, np.frombuffer(bytes(range(12)), np.int16), version=(2, 0))
    assert shown(folder, values) == expected
    assert not recwarn.list


# Bindings.


def test_good_model(folder: Path) -> None:
    assert printed(load(folder, good())) == (
        "Resource 'x' written to 'before.npy'\n"
        "Resource 'a': 1, 2.5\n"
        "Resource 'b':\n"
        "[0] -3 (0xC0400000)\n[1] nan (0x7FC00000)\n[2] inf (0x7F800000)\n[3] -inf (0xFF800000)\n"
    )


def dispatched(kind: str, desc: dict[str, Any], bindings: dict[str, Any], **resources: Any) -> dict[str, Any]:
    """A model of one command, on these buffers; x, y and z have 96 bytes where nothing else is said."""
    zeros = dict.fromkeys("xyz", values_of("INT8", {"valueCount": 96, "value": 0}))
    return buffers_of(**zeros | resources) | {
        "dispatchables": {"op": {"type": kind, "desc": desc}},
        "commands": [{"type": "dispatch", "dispatchable": "op", "bindings": bindings}],
    }


X_TO_Y = {"InputTensor": "x", "OutputTensor": "y"}


def walk(tensor: dict[str, Any], out: dict[str, Any], stride: int) -> dict[str, Any]:
    """Of SLICE1, over all of one dimension."""
    desc = {"InputTensor": tensor, "OutputTensor": out, "DimensionCount": 1, "InputWindowOffsets": [0]}
    return desc | {"InputWindowSizes": tensor["Sizes"], "InputWindowStrides": [stride]}


def test_a_buffer_of_narrow_values_is_rounded_up_to_4_bytes(folder: Path) -> None:
    tensor = {"DataType": "FLOAT16", "Sizes": [3]}
    resource = values_of("FLOAT16", {"valueCount": 3, "valueStart": 1, "valueDelta": 1})
    model = dispatched("SLICE1", walk(tensor, tensor, -1), X_TO_Y, x=resource, y=resource)
    assert load(folder, model).run()["y"].view(torch.float16).tolist() == [3, 2, 1, 0]


BYTES = [{"DataType": "INT8", "Sizes": [size]} for size in (20, 20, 40)]
JOINED = {"InputCount": 2, "InputTensors": BYTES[:2], "OutputTensor": BYTES[2], "Axis": 0}
TWENTIES = values_of("INT8", [*range(20)] * 4)


# Tensors that are OWNED_BY_DML.


def test_an_owned_tensor_is_read_before_the_first_command(folder: Path) -> None:
    """And is constant from then on, whatever becomes of its resource, which may even be an output."""
    model = dispatched("JOIN", JOINED, {"InputTensors": ["y", "y"], "OutputTensor": "x"}, x=TWENTIES)
    model["dispatchables"]["owned"] = {
        "type": "JOIN",
        "desc": JOINED | {"InputTensors": [BYTES[0] | {"Flags": "DML_TENSOR_FLAG_OWNED_BY_DML"}] * 2},
        "bindings": {"InputTensors": ["x", {"name": "x", "elementOffset": 32}]},
    }
    for name in ("z", "x"):
        model["commands"].append({"type": "dispatch", "dispatchable": "owned", "bindings": {"OutputTensor": name}})
    loaded = load(folder, model)
    loaded.run()
    buffers = loaded.run()  # which reads them again
    expected = [*range(20), *range(12, 20), *range(12)]
    assert buffers["z"][:40].tolist() == buffers["x"][:40].tolist() == expected


# Files that are written.


def written(folder: Path, target: str, resource: str = "x", **options: Any) -> Model:
    command = {"type": "writeFile", "resource": resource, "targetPath": target}
    model = good() | {"commands": [command | options.pop("more", {})]}
    return load(folder, model, **options)


def test_written_files(folder: Path) -> None:
    assert printed(written(folder, "deep/er\\x.npy")) == "Resource 'x' written to 'deep/er\\x.npy'\n"
    array = np.load(folder / "deep" / "er" / "x.npy")
    np.testing.assert_array_equal(array, np.array([1, 2.5, -3, np.nan, np.inf, -np.inf], np.float32), strict=True)
    printed(written(folder, "x.NPY", more={"dimensions": [2, 3]}))
    assert np.load(folder / "x.NPY").shape == (2, 3)
    printed(written(folder, "numbers.npy", "bytes"))  # the old file makes way
    assert np.load(folder / "numbers.npy").tolist() == [250, 253, 0, 3, 6, 9, 12]
    assert not list(folder.rglob(".*"))


def test_outputs_in_one_resource_are_apart(tmp_path: Path) -> None:
    """Those that share bytes with any other one before them are refused, and no others."""
    document = json.loads((EXAMPLES / "split.json").read_text())
    document["resources"]["a"]["initialValues"]["valueCount"] = 400
    sizes, refused = (4, 2, 6), 0
    for offsets in itertools.product(range(0, 13, 4), repeat=3):
        document["commands"][0]["bindings"]["OutputTensors"] = [{"name": "a", "elementOffset": n} for n in offsets]
        (tmp_path / "model.json").write_text(json.dumps(document))
        begun = list(zip(offsets, map(operator.add, offsets, sizes), strict=True))
        shared = any(a < d and c < b for (a, b), (c, d) in itertools.combinations(begun, 2))
        refused += shared
        with pytest.raises(ModelError, match="must not overlap OutputTensors") if shared else nullcontext():
            Model.load(tmp_path / "model.json")
    assert 10 < refused < 60


@pytest.mark.parametrize("name", ["input_path", "output_path"])
def test_a_folder_has_a_name_that_a_folder_can_have(name: str) -> None:
    sentence = rf"^Model\.load: {name} must be the name of a folder, got 'a\\x00b'$"
    with pytest.raises(ValueError, match=sentence):
        Model.load(EXAMPLES / "slice1.json", **{name: "a\0b"})


def test_folders_to_read_from_and_to_write_to(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("in", "here"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.bin").write_text(name)
    (tmp_path / "here" / "y.bin").write_text("here")
    monkeypatch.chdir(tmp_path / "here")
    model = {"dispatchables": {}, "commands": [{"type": "writeFile", "resource": "y", "targetPath": "deep/z"}]}
    source = {"initialValuesDataType": "UINT8"}
    model["resources"] = {k: source | {"initialValues": {"sourcePath": f"{k}.bin"}} for k in ("x", "y")}
    (tmp_path / "in" / "model.json").write_text(json.dumps(model))
    loaded = Model.load("model.json", input_path=tmp_path / "in", output_path="../out")  # found in the input path
    monkeypatch.chdir(tmp_path)
    buffers = loaded.run(file=io.StringIO())
    assert bytes(buffers["x"].tolist()) == b"in\0\0"
    assert (tmp_path / "out" / "deep" / "z").read_bytes() == b"here"
    (folder / "model.json").write_text(json.dumps(model))
    arguments = ["--input-path", "in", "--output-path", "here", str(folder / "model.json")]
    with pytest.raises(ModelError):
        Model.load(folder / "model.json")
    assert main(["run", *arguments]) == 1  # there is no y.bin in it, nor here
    monkeypatch.chdir(tmp_path / "here")
    assert main(["run", "--input-path", "../in", "--output-path", "../out/2", str(folder / "model.json")]) == 0
    assert (tmp_path / "out" / "2" / "deep" / "z").exists()
    assert not (folder / "deep").exists()


def test_a_model_is_looked_for_here_and_then_in_the_input_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = itertools.product(("model.json", "deep/model.json"), *[(False, True)] * 3)
    for k, (name, given, here, elsewhere) in enumerate(cases):
        for folder, exists in {"here": here, "in": elsewhere}.items():
            path = tmp_path / str(k) / folder / name
            path.parent.mkdir(parents=True)
            if exists:
                path.write_text(json.dumps(buffers_of(x=values_of("UINT8", [*folder.encode()]))))
        monkeypatch.chdir(tmp_path / str(k) / "here")
        options: Any = {"input_path": tmp_path / str(k) / "in"} if given else {}
        expected = b"here" if here else b"in\0\0" if elsewhere and given else None
        with pytest.raises(FileNotFoundError) if expected is None else nullcontext():
            assert bytes(Model.load(name, **options).run()["x"].tolist()) == expected


def test_the_output_path_is_what_is_written_to(folder: Path, tmp_path: Path) -> None:
    for target in ("../x.npy", str(folder / "x.npy")):
        problems = problems_of(folder, changed({"commands/0/targetPath": target}), output_path=tmp_path / "out")
        assert problems == [f"$.commands[0].targetPath must lie {OUTPUT_PATH}, got {as_json(target)}"]
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for path in (folder / "full.dat", tmp_path / "loop"):
        (problem,) = problems_of(folder, changed({}), output_path=path)
        assert problem.startswith("$.commands[0].targetPath must be a file that can be written, got 'before.npy'")


def test_writing_outside_has_to_be_allowed(folder: Path, tmp_path: Path) -> None:
    for target in ("../a.npy", "link/b.npy", str(tmp_path / "c.dat")):
        (problem,) = problems_of(folder, changed({"commands/0/targetPath": target}))
        assert problem == f"$.commands[0].targetPath must lie {OUTPUT_PATH}, got {as_json(target)}"
        printed(written(folder, target, allow_outside=True))
    assert {path.name for path in tmp_path.iterdir()} == {"models", "a.npy", "b.npy", "c.dat"}


def test_a_folder_that_becomes_a_link_after_loading(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    model = written(folder, "deep/x.npy")
    (folder / "deep").symlink_to(tmp_path / "outside")
    sentence = r"^\$\.commands\[0\]\.targetPath leads elsewhere than when the model was loaded, to '/"
    with pytest.raises(ModelError, match=sentence):
        model.run()
    assert not list((tmp_path / "outside").iterdir())
    (folder / "deep").unlink()
    (folder / "deep").symlink_to(folder / "deep")
    with pytest.raises(OSError, match="symbolic links"):
        model.run()


def test_a_file_keeps_its_mode(folder: Path) -> None:
    (folder / "full.dat").chmod(0o600)
    printed(written(folder, "full.dat"))
    printed(written(folder, "new.dat"))
    (folder / "umask").touch()
    modes = [stat.S_IMODE((folder / name).stat().st_mode) for name in ("full.dat", "new.dat", "umask")]
    assert modes[0] == 0o600
    assert modes[1] == modes[2]


@pytest.mark.parametrize(
    ("target", "room"),  # the header of a .npy has 128 bytes
    [("full.dat", 0), ("full.dat", 23), ("full.npy", 0), ("full.npy", 100), ("full.npy", 128), ("full.npy", 151)],
)
def test_a_file_without_room_is_an_error_that_names_it_and_leaves_the_old_one(
    folder: Path, target: str, room: int
) -> None:
    resource = pytest.importorskip("resource", reason="needs Python's module resource, to limit the size of files")
    (folder / target).write_bytes(before := bytes(range(12)))
    model = written(folder, target)
    least, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, most))
    try:
        with pytest.raises(OSError, match=rf"File too large: '.*/{target}'$"):
            model.run(file=io.StringIO())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (least, most))
    assert (folder / target).read_bytes() == before
    assert not list(folder.rglob(".*"))


def test_one_file_several_times(folder: Path) -> None:
    model = good()
    command = {"type": "writeFile", "targetPath": "deep/x.npy"}
    model["commands"] = [command | {"resource": "x"}, command | {"resource": "bytes"}]
    model["commands"].append(command | {"resource": "x", "targetPath": "deep/er/y.npy"})
    printed(load(folder, model))
    assert np.load(folder / "deep" / "x.npy").dtype == np.uint8
    assert np.load(folder / "deep" / "er" / "y.npy").dtype == np.float32


def test_paths_that_the_system_cannot_have(folder: Path) -> None:
    (folder / "circle.npy").symlink_to(folder / "circle.npy")
    deep = "/".join(["x" * 250] * 20)  # 5 000 characters, of which the system takes 4 095
    targets = ["\0.npy", "x" * 300 + ".npy", "new/" + "x" * 300 + "/y.npy", f"{deep}/y.npy", "a/" * 50_000 + "b.npy"]
    for target in [*targets, "circle.npy", "circle.npy/x.npy"]:
        (problem,) = problems_of(folder, changed({"commands/0/targetPath": target}))
        assert problem.startswith("$.commands[0].targetPath must be a file that can be written, got ")
    for source in ("\0.npy", "x" * 300 + ".npy", "text.npy"):
        (problem,) = problems_of(folder, changed({"resources/x/initialValues": {"sourcePath": source}}))
        assert problem.startswith("$.resources.x.initialValues.sourcePath ")


@pytest.fixture
def special(folder: Path) -> Iterator[dict[str, Path]]:
    """What is there and is no file, by kind."""
    os.mkfifo(folder / "pipe.npy")
    (folder / "folder.npy").mkdir()
    (folder / "device.npy").symlink_to("/dev/null")
    with socket.socket(socket.AF_UNIX) as bound:
        before = os.getcwd()
        os.chdir(folder)  # the names of sockets are short
        bound.bind("socket.npy")
        os.chdir(before)
        yield {kind: folder / f"{kind}.npy" for kind in ("pipe", "folder", "device", "socket")}


def test_files_take_the_place_of_files_only(folder: Path, special: dict[str, Path]) -> None:
    for file in special.values():
        kind = file.stat().st_mode
        problem = f"$.commands[0].targetPath must be a file that can be written, got '{file.name}'"
        with pytest.raises(ModelError) as caught:
            written(folder, file.name, allow_outside=True)
        assert str(caught.value) == problem
        assert file.stat().st_mode == kind


@pytest.mark.parametrize("kind", ["pipe", "folder", "socket"])
def test_a_target_that_becomes_something_else_after_loading(folder: Path, special: dict[str, Path], kind: str) -> None:
    (folder / "x.npy").write_bytes(b"old")
    model = written(folder, "x.npy")
    (folder / "x.npy").unlink()
    special[kind].rename(folder / "x.npy")
    with pytest.raises(ModelError) as caught:
        model.run()
    rule = "must lead to a file, or to nothing yet, as it did when the model was loaded"
    assert str(caught.value) == f"$.commands[0].targetPath {rule}"
    assert not (folder / "x.npy").is_file()


HAD, INT16 = "it had 6 values of INT16 and has", np.arange(6, dtype=np.int16)
SOURCES: list[tuple[str, Callable[[Path], object], str | None]] = [  # what is done to the file, and what is then said
    ("full.dat", lambda file: file.write_bytes(b"other"), ""),
    ("full.dat", Path.unlink, ""),
    ("numbers.npy", lambda file: np.save(file, INT16.astype(">i2")), None),  # the same values
    ("numbers.npy", lambda file: np.save(file, INT16.astype(np.float16)), f"{HAD} 6 values of FLOAT16"),
    ("numbers.npy", lambda file: np.save(file, INT16.view(np.int8)), f"{HAD} 12 values of INT8"),
    ("numbers.npy", lambda file: np.save(file, INT16[:5]), f"{HAD} 5 values of INT16"),
    ("numbers.npy", lambda file: write_header(file, "((((("), "must be an array in NumPy's format, got 'numbers.npy'"),
    *(  # none of which is waited for
        ("numbers.npy", lambda file, kind=kind: file.with_name(f"{kind}.npy").rename(file), "it is no file")
        for kind in ("pipe", "socket")
    ),
    ("numbers.npy", lambda file: [file.unlink(), file.mkdir()], "it is no file"),
]


@pytest.mark.parametrize(("name", "change", "told"), SOURCES)
@pytest.mark.usefixtures("special")
def test_a_source_that_changes_after_loading(
    folder: Path, name: str, change: Callable[[Path], object], told: str
) -> None:
    data_type = "UINT8" if name == "full.dat" else "INT16"
    model = load(folder, buffers_of(x=values_of(data_type, {"sourcePath": name})))
    change(folder / name)
    if told is None:
        assert model.run()["x"].view(torch.int16).tolist() == [*range(6)]
        return
    with pytest.raises(ModelError) as caught:
        model.run()
    beginning = "$.resources.x.initialValues.sourcePath has changed since the model was loaded: "
    assert str(caught.value) == beginning + told or (not told and str(caught.value).startswith(beginning))


def test_as_many_dimensions_as_numpy_has(folder: Path) -> None:
    def of(count: int) -> dict[str, Any]:
        return {"commands/0/dimensions": [6] + [1] * (count - 1)}

    most = 64 if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else 32
    printed(load(folder, changed(of(most))))
    assert np.load(folder / "before.npy").ndim == most
    for more in (most + 1, 100_000):
        rule = f"must have at most {most} entries, as NumPy has no more dimensions, got {more}"
        assert problems_of(folder, changed(of(more))) == [f"$.commands[0].dimensions {rule}"]


def test_a_message_has_the_first_hundred_problems(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = good() | {"commands": [{"type": "print", "resource": "c"}] * 101}
    problems = problems_of(folder, model)
    assert len(problems) == 101
    file = str(folder / "model.json")
    for command in ("validate", "run"):  # which say all that is wrong
        assert main([command, file]) == 1
        out, error = capsys.readouterr()
        assert (out if command == "validate" else error).splitlines() == [f"{file}: {said}" for said in problems]


# What is refused.


@pytest.mark.parametrize(("changes", "problems"), [pytest.param(*row, id=row[1][0]) for row in BAD])
def test_bad_models(
    folder: Path, changes: dict[str, Any], problems: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(folder.parent.rglob("*"))
    assert problems_of(folder, changed(changes)) == problems
    model = folder / "model.json"
    told = "".join(f"{model}: {problem}\n" for problem in problems)
    assert main(["validate", str(model)]) == 1
    assert capsys.readouterr() == (told, "")
    assert main(["run", str(model)]) == 1
    assert capsys.readouterr() == ("", told)
    assert sorted(folder.parent.rglob("*")) == sorted([*before, model])  # nothing was written


@pytest.mark.parametrize(("changes", "ignored"), [pytest.param(*row, id=row[1][0]) for row in IGNORED])
def test_what_is_not_read(
    folder: Path, changes: dict[str, Any], ignored: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    model, file = changed(changes), str(folder / "model.json")
    with pytest.warns(ModelWarning) as caught:
        loaded = load(folder, model)
    assert [str(warning.message) for warning in caught] == ignored
    assert {warning.filename for warning in caught} == {__file__}  # whose fault it is
    expected = printed(load(folder, good()))
    assert printed(loaded) == expected
    assert problems_of(folder, model, strict=True) == ignored
    warned = "".join(f"{file}: warning: {sentence}\n" for sentence in ignored)
    assert main(["run", file]) == 0
    assert capsys.readouterr() == (expected, warned)
    assert main(["validate", file]) == 0
    assert capsys.readouterr() == (f"{warned}{file}: nothing is wrong; warnings: {len(ignored)}\n", "")
    for command in ("run", "validate"):
        assert main([command, "--strict", file]) == 1
        out, error = capsys.readouterr()
        assert (error if command == "run" else out).splitlines() == [f"{file}: {sentence}" for sentence in ignored]


@pytest.mark.filterwarnings("ignore::torch_dml_ops.directml.ModelWarning")
def test_a_typo_is_seen_beside_what_it_leads_to(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    desc = "dispatchables/split/desc"
    problem = "$.dispatchables.split.desc.Axis is required"
    assert problems_of(folder, changed({f"{desc}/Axis": DROP, f"{desc}/axis": 0})) == [problem]
    file = str(folder / "model.json")
    assert main(["validate", file]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{file}: warning: $.dispatchables.split.desc.axis is not a field here; those that are: "
        "InputTensor, OutputCount, OutputTensors, Axis",
        f"{file}: {problem}",
    ]


@pytest.mark.parametrize(("text", "problems"), BAD_TEXTS, ids=lambda value: value[0][:60] if value else "empty")
def test_bad_texts(folder: Path, text: str, problems: list[str]) -> None:
    assert problems_of(folder, text) == problems


@pytest.mark.parametrize("digits", ["1" + "0" * 20, "-" + "9" * 20, "1" * 300, "1" * 301, "1" * 4000, "1" * 5000])
def test_numbers_of_more_than_64_bits(folder: Path, digits: str) -> None:
    """They break the rules of their fields; those that are too long for any double are no whole numbers."""
    long = len(digits) > 300
    got = as_json(float(digits) if long else int(digits))
    text = json.dumps(good()).replace('"Axis": 0', f'"Axis": {digits}')
    rule = "must be a whole number" if long else "must be from 0 to 0, a dimension of InputTensor"
    assert problems_of(folder, text) == [f"$.dispatchables.split.desc.Axis {rule}, got {got}"]
    text = json.dumps(good()).replace('"Sizes": [6]', f'"Sizes": [{digits}, {digits}]')
    rule = "must be a whole number" if long else "must be from 1 to 4294967295"
    expected = {f"$.dispatchables.split.desc.InputTensor.Sizes[{k}] {rule}, got {got}" for k in (0, 1)}
    assert expected <= {*problems_of(folder, text)}


def test_text_that_is_not_utf_8(folder: Path) -> None:
    (folder / "model.json").write_bytes(b'{"resources": "\xff"}')
    with pytest.raises(ModelError, match=r"^\$ must be text in UTF-8: invalid start byte at byte 15$"):
        Model.load(folder / "model.json")


def test_nan_and_infinity_where_numbers_are_not_values(folder: Path) -> None:
    text = json.dumps(good()).replace('"Axis": 0', '"Axis": NaN').replace('"Sizes": [6]', '"Sizes": [Infinity]')
    assert problems_of(folder, text) == ["$.dispatchables.split.desc.Axis must be a whole number, got nan"]
    text = json.dumps(good()).replace('"Sizes": [6]', '"Sizes": [1e999]')
    assert problems_of(folder, text) == [
        "$.dispatchables.split.desc.InputTensor.Sizes[0] must be a whole number, got inf"
    ]


def test_comments_and_commas_as_dxdispatch_allows_them(folder: Path) -> None:
    text = json.dumps(good(), indent=1)
    text = text.replace("\n }", ', // the "last" one\n }').replace('"Axis": 0', '"Axis": /* the\nonly one */ 0,')
    with_slashes = text.replace('"x": {', '"x": { "sizeInBytes": 24, ')
    names = json.dumps(good()).replace('"x"', '"/* x // ,]"')[:-1] + ",}"
    for source, shown in ((with_slashes, good()), (names, None)):
        with pytest.warns(ModelWarning) as caught:
            result = printed(load(folder, source))
        assert result == printed(load(folder, shown)) if shown else "Resource '/* x // ,]' written to" in result
        line = 1 if shown is None else 1 + source[: source.index("//")].count("\n")
        sentence = f"$ has comments, or commas before closing brackets, the first in line {line}"
        assert [str(warning.message) for warning in caught] == [sentence]
        assert problems_of(folder, source, strict=True) == [sentence]


def test_byte_order_mark(folder: Path) -> None:
    assert printed(load(folder, "\ufeff" + json.dumps(good()))) == printed(load(folder, good()))


def test_feature_level_of_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    rule = "must be from 4 to 5 at feature level 3_0, got 1; allowed from feature level 3_1"
    tensors = *(f"InputTensors[{k}]" for k in range(3)), "OutputTensor"
    operator = "must be an operator of feature level 2_1, got SLICE_GRAD; allowed from feature level 3_0"
    for name, level, problems in (
        ("join", "3_0", [f"$.dispatchables.join.desc.{tensor}.DimensionCount {rule}" for tensor in tensors]),
        ("join", "DML_FEATURE_LEVEL_3_1", []),
        ("slice_grad", "2_1", [f"$.dispatchables.slice_grad.type {operator}"]),
    ):
        file = EXAMPLES / f"{name}.json"
        for command in ("validate", "run"):
            assert main([command, str(file), "--feature-level", level]) == bool(problems)
            told = capsys.readouterr()
            assert not problems or "".join(told).splitlines() == [f"{file}: {said}" for said in problems]
    with pytest.raises(SystemExit) as caught:
        main(["run", "x.json", "--feature-level", "7_0"])
    assert caught.value.code == 2
    assert "argument --feature-level: must be one of 1_0, 2_0, " in capsys.readouterr().err


# Large ones.


@pytest.mark.parametrize(
    "size", [2**60, *(pytest.param(size, marks=pytest.mark.memory) for size in (2**63 - 4, 2**63, 2**64 - 1))]
)
def test_a_large_resource_costs_nothing_before_it_is_run(folder: Path, size: int) -> None:
    values = values_of("FLOAT32", {"valueCount": 2**32 - 1, "value": 0}) | {"sizeInBytes": size}
    loaded = load(folder, buffers_of(**{f"x{k}": values for k in range(9)}))
    with pytest.raises(ModelError, match=r"^\$\.resources\.x0 must fit into memory on cpu, and \d+ bytes do not$"):
        loaded.run()


def test_memory_that_another_device_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(*_: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    model = Model.load(EXAMPLES / "join.json")
    monkeypatch.setattr(torch.Tensor, "to", lacking)
    with pytest.raises(ModelError, match=r"^\$\.resources\.a must fit into memory on cpu, and 32 bytes do not$"):
        model.run()


@pytest.mark.parametrize(
    "device", ["mps", "meta", "xpu", "cpu:1", "cuda:99", "'foo'", "''", "'cuda:-1'", f"'cuda:{10**30}'"]
)
def test_devices_that_are_not_there(device: str, capsys: pytest.CaptureFixture[str]) -> None:
    given, example, kind = device.strip("'"), EXAMPLES / "join.json", torch.accelerator.current_accelerator()
    seen = f"{torch.accelerator.device_count()} of {kind.type}" if kind else "none"
    rule = f"device must be cpu, or an accelerator that torch sees, got {device}; it sees {seen}"
    with pytest.raises(ValueError) as caught:
        Model.load(example).run(device=given)
    assert str(caught.value) == f"Model.run: {rule}"
    assert main(["run", "--device", given, str(example)]) == 2
    assert capsys.readouterr() == ("", f"--{rule}\n")


def test_devices_of_torch() -> None:
    model = Model.load(EXAMPLES / "join.json")
    for device in ("cpu", torch.device("cpu"), "cpu:0"):
        assert printed(model, device=device) == PRINTED["join"]


def test_a_resource_of_2_gb(folder: Path) -> None:
    count = 2**29
    tensors = [{"DataType": "FLOAT32", "Sizes": [n]} for n in (count, 2)]
    x, y = (values_of("FLOAT32", values) for values in ({"valueCount": count, "value": 3}, [0, 0]))
    model = dispatched("SLICE1", walk(*tensors, 1 - count), X_TO_Y, x=x, y=y)
    model["commands"].append({"type": "print", "resource": "y"})
    assert printed(load(folder, model)) == "Resource 'y': 3, 3\n"


@pytest.mark.memory
def test_many_commands(folder: Path) -> None:
    def of(count: int, resource: str) -> str:
        show = json.dumps({"type": "print", "resource": resource})
        model = json.dumps(good() | {"commands": [good()["commands"][1]] * 5_000})
        return f"{model[:-2]}, {', '.join([show] * count)}]}}"

    loaded = load(folder, of(50_000, "a"))
    assert len(loaded.commands) == 55_000
    assert printed(loaded) == "Resource 'a': 1, 2.5\n" * 50_000
    assert len(problems_of(folder, of(20_000, "c"))) == 20_000


def test_many_outputs(folder: Path) -> None:
    count = 3000
    tensors = [{"DataType": "INT32", "Sizes": [n]} for n in (count, *[1] * count)]
    desc = {"InputTensor": tensors[0], "OutputCount": count, "OutputTensors": tensors[1:], "Axis": 0}
    bound = [{"name": "y", "elementOffset": 4 * (count - 1 - k)} for k in range(count)]
    values = values_of("INT32", {"valueCount": 4 * count, "valueStart": 1, "valueDelta": 1})
    model = dispatched("SPLIT", desc, {"InputTensor": "x", "OutputTensors": bound}, x=values, y=values)
    buffers = load(folder, model).run()
    assert buffers["y"].view(torch.int32)[::4].tolist() == list(range(count, 0, -1))


# The command line.


def command_line(*arguments: str, **options: Any) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "torch_dml_ops", *arguments]
    run = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    return run.returncode, run.stdout, run.stderr


def test_names_that_the_encoding_lacks(folder: Path) -> None:
    model = good() | {"commands": [{"type": "print", "resource": "ä😀"}]}
    model["resources"]["ä😀"] = BUFFER
    (folder / "model.json").write_text(json.dumps(model))
    in_ascii = os.environ | {"PYTHONIOENCODING": "ascii"}
    expected = "Resource '\\xe4\\U0001f600': 1\n"
    assert command_line("run", str(folder / "model.json"), env=in_ascii) == (0, expected, "")


def test_output_that_nobody_reads(folder: Path) -> None:
    model = good() | {"commands": [{"type": "print", "resource": "x"}] * 10_000}
    (folder / "model.json").write_text(json.dumps(model))
    command = [sys.executable, "-m", "torch_dml_ops", "run", str(folder / "model.json")]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait() == -signal.SIGPIPE


def test_the_report_stays_what_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    labels = [line.split("  ")[0] for line in capsys.readouterr().out.splitlines()]
    assert labels == list(report())


def test_files_and_memory_that_are_not_there(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["run", str(folder / "none.json")]) == 1
    assert capsys.readouterr().err == f"there is no file {folder / 'none.json'}\n"
    load(folder, changed({"commands/0/targetPath": "new/é.npy"}))
    assert main(["run", str(folder / "model.json"), "--output-path", "/proc"]) == 1
    assert capsys.readouterr() == ("", "/proc/new/é.npy: No such file or directory\n")
    assert main(["run", str(folder / "model.json" / "x")]) == 1
    assert capsys.readouterr().err == f"{folder / 'model.json' / 'x'}: Not a directory\n"
    with monkeypatch.context() as patch:

        def run(*arguments: Any, **named: Any) -> None:
            raise MemoryError

        patch.setattr(Model, "run", run)
        load(folder, good())
        assert main(["run", str(folder / "model.json")]) == 1
        assert capsys.readouterr().err == f"{folder / 'model.json'}: there is not enough memory to run it\n"


def test_models_that_are_no_files(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    for path in (folder, folder / "pipe", "/dev/null", "/dev/stdin", "/a\0b"):
        with pytest.raises(ModelError, match=r"^\$ must be a file, whose folder is that of the files it names, got '/"):
            Model.load(path)


@pytest.mark.parametrize("name", ["x.onnx", "x.BIN", "x.hlsl"])
def test_files_of_other_kinds(folder: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    what = {"x.onnx": "an ONNX model", "x.BIN": "a serialized graph", "x.hlsl": "an HLSL shader"}[name]
    way_out = "; torch_dml_ops.onnx.from_onnx reads such models" if name == "x.onnx" else ""
    (folder / name).write_bytes(b"\x08\x07\xff")
    for command in ("run", "validate"):
        assert main([command, str(folder / name)]) == 1
        assert "".join(capsys.readouterr()) == f"{folder / name}: $ is by its name {what}, {NOT_RUN}{way_out}\n"
    assert main(["run", str(folder / f"no {name}")]) == 1
    assert capsys.readouterr().err == f"there is no file {folder / f'no {name}'}\n"


def test_names_of_any_characters(folder: Path) -> None:
    """Also those that a terminal would obey."""
    name, target = 'ä "x"\\\n\x1b[2J\x9b\u202e', "\n\x1b.bin"
    shown, place = r'ä "x"\\n\u001b[2J\u009b\u202e', r"ä \"x\"\\\n\u001b[2J\u009b\u202e"
    commands = [{"type": "print", "resource": name, "verbose": verbose} for verbose in (False, True)]
    model = good() | {"commands": [*commands, {"type": "writeFile", "resource": name, "targetPath": target}]}
    model["resources"][name] = BUFFER
    assert printed(load(folder, model)).splitlines() == [
        *(f"Resource '{shown}': 1", f"Resource '{shown}':", "[0] 1 (0x3F800000)"),
        rf"Resource '{shown}' written to '\n\u001b.bin'",
    ]
    assert (folder / target).exists()
    model["resources"][name] = BUFFER | {"sizeInBytes": -1}
    assert problems_of(folder, model) == [f'$.resources["{place}"].sizeInBytes must be at least 0, got -1']
