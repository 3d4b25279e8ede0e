"""Models in files, and data beside them."""

import io
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    external_data_helper,
    helper,
    numpy_helper,
)
from onnx_models import bits, exported, one, outputs_of, refusal

import torch_dml_ops as dml
from torch_dml_ops.onnx import from_onnx

OF_MANY_NAMES = """<ir_version: 10, opset_import: ["": 18, "our": 1], producer_name: "producer">
main (float[rows, 4] given) => (float[m, 4] result) <float[1] held = {1.0}, int64[1] starts = {1}> {
    ends = Constant <value_ints = [9]> ()
    part = our.twice (given)
    result = Slice (part, starts, ends)
}
<domain: "our", opset_import: ["": 18]> twice (inside) => (made) { made = Concat <axis = 0> (inside, inside) }"""


def test_names_that_are_no_text(tmp_path: Path) -> None:
    """Wherever the bytes of the model have one."""
    model = onnx.parser.parse_model(OF_MANY_NAMES)
    model.graph.node[0].name, model.graph.node[1].doc_string = "first", "about"
    assert from_onnx(model)(torch.ones(2, 4)).shape == (3, 4)
    content, refused, taken = model.SerializeToString(), [], []
    for name in sorted({*re.findall(r"\w{3,}", OF_MANY_NAMES), "first", "about"}):
        for match in re.finditer(rf"\b{name}\b".encode(), content):
            (tmp_path / "a.onnx").write_bytes(content[: match.start()] + b"\xff" * len(name) + content[match.end() :])
            try:
                from_onnx(tmp_path / "a.onnx")
                taken.append(name)
            except ValueError as error:
                refused.append(str(error).partition("\\xff")[0])
    assert {*refused} == {"from_onnx: the names in the model must be UTF-8, got b'"}
    assert len(refused) > 20
    assert taken == ["about", "our", "producer"]  # in the list of opsets


def test_what_is_no_model(tmp_path: Path) -> None:
    file = tmp_path / "a.onnx"
    for content in (b"no model", b"\x08"):
        file.write_bytes(content)
        assert re.fullmatch(r"from_onnx: (?!.*DxDispatch)[^\n]{,288}", refusal(file))
    for name in ("a.onnx", "a.json", "a.textproto"):
        (tmp_path / name).write_bytes(b"")
        assert refusal(tmp_path / name).endswith(" must be an ONNX model, got an empty file; export it again")
    example = Path(dml.__file__).parent / "directml/example-models/chain.json"
    for other in (example, shutil.copy(example, tmp_path / "b.onnx")):
        rule = "be an ONNX model, got one of DxDispatch; torch_dml_ops.directml.Model.load takes it"
        assert refusal(other).partition(" must ")[2] == rule
    with pytest.raises(FileNotFoundError):
        from_onnx(tmp_path / "none.onnx")
    program = exported(torch.nn.Identity(), [torch.zeros(2)])
    for wrong, end in (
        (5, " got 5"),
        (io.BytesIO(), "; write onnx.load(model)"),
        (program, "; write model.model_proto"),
    ):
        with pytest.raises(TypeError) as refused:
            from_onnx(wrong)
        assert str(refused.value).startswith("from_onnx: model must be a path or an onnx.ModelProto, got ")
        assert str(refused.value).endswith(end)


DATA = np.arange(6, dtype=np.float32).reshape(2, 3)


def with_initializer(change: Callable[[TensorProto], None]) -> ModelProto:
    proto = numpy_helper.from_array(DATA, "w")
    change(proto)
    return one("Concat", {"x": np.zeros((2, 1), np.float32), "w": proto}, ["w"], axis=1)


@pytest.mark.parametrize(
    "change",
    [
        lambda proto: setattr(proto, "raw_data", proto.raw_data[:-1]),
        lambda proto: setattr(proto, "raw_data", b""),
        lambda proto: proto.dims.append(2**40),
        lambda proto: proto.dims.append(-1),
        lambda proto: proto.dims.__setitem__(0, -1),
        lambda proto: setattr(proto, "data_type", 99),
        lambda proto: setattr(proto, "data_type", TensorProto.STRING),
        lambda proto: setattr(proto, "data_type", TensorProto.INT4),
        lambda proto: proto.ClearField("raw_data"),
    ],
)
def test_initializers_that_are_malformed(change: Callable[[TensorProto], None]) -> None:
    sentence = refusal(with_initializer(change))
    assert re.fullmatch(r"from_onnx: [^\n]+", sentence)
    assert not sentence.endswith("Error")  # the name of a type, of an error that says nothing


def saved(folder: Path, location: str, **more: int) -> Path:
    """A model whose data are said to be there."""
    model = with_initializer(lambda proto: external_data_helper.set_external_data(proto, location, **more))
    model.graph.initializer[0].ClearField("raw_data")
    file = folder / "model.onnx"
    file.write_bytes(model.SerializeToString())
    return file


def test_data_beside_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "w.bin").write_bytes(b"1234" + DATA.tobytes())
    file = saved(tmp_path, "parts/w.bin", offset=4, length=DATA.nbytes)
    x = np.zeros((2, 1), np.float32)
    for path in (file, str(file)):
        assert outputs_of(from_onnx(path), [x]) == [bits(np.concatenate([x, DATA], axis=1))]
    monkeypatch.chdir(tmp_path)
    assert outputs_of(from_onnx("model.onnx"), [x]) == [bits(np.concatenate([x, DATA], axis=1))]


def test_data_outside_of_the_model_s_folder(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(DATA.tobytes())
    for link, target in {"link.bin": "secret.bin", "parts": ".", "circle.bin": "model/circle.bin"}.items():
        (folder / link).symlink_to(tmp_path / target)
    within = folder / "data.bin"  # which ONNX does not let a path from the root name, either
    within.write_bytes(DATA.tobytes())
    outside = "../secret.bin", str(tmp_path / "secret.bin"), "x/../../secret.bin", "link.bin", "parts/secret.bin"
    for location in (*outside, str(within), "circle.bin", "a\0b"):
        shown = repr(location) if len(location) < 58 else repr(location)[:59] + "…"
        sentence = f"from_onnx: the data of tensor 'w' must lie in the model's folder, got {shown}"
        assert refusal(saved(folder, location)) == sentence


def places_of_tensors(message: Any = ModelProto.DESCRIPTOR, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The fields by which one comes from a model to a tensor, through graphs within nodes once."""
    for field in message.fields:
        if (inner := field.message_type) is TensorProto.DESCRIPTOR:
            yield (*path, field)
        elif inner and [other.message_type for other in path].count(inner) < 2:
            yield from places_of_tensors(inner, (*path, field))


NAMES_OF_VALUES = {"t": "value", "sparse_tensor": "sparse_value"}


def with_tensor_at(path: Sequence[Any], tensor: TensorProto) -> ModelProto:
    """A model whose output is that tensor, if it may be where the path leads."""
    model = helper.make_model(GraphProto(name="graph"), opset_imports=[helper.make_opsetid(d, 18) for d in ("", "our")])
    if path[0].name == "functions":
        model.graph.node.append(helper.make_node("f", ["x"], ["w"], domain="our"))
        model.graph.input.append(helper.make_tensor_value_info("x", TensorProto.FLOAT, None))
    message: Any = model
    for field in path:
        if isinstance(message, NodeProto):
            message.op_type, message.output[:] = "Constant", ["w"]
        elif isinstance(message, FunctionProto):
            message.domain, message.name, message.input[:], message.output[:] = "our", "f", ["x"], ["w"]
            message.opset_import.append(helper.make_opsetid("", 18))
        elif isinstance(message, AttributeProto):
            message.name = NAMES_OF_VALUES.get(field.name, "other")
            message.type = AttributeProto.AttributeType.Value(
                {"t": "TENSOR", "g": "GRAPH"}.get(field.name.rstrip("s"), field.name.rstrip("s").upper())
                + "S" * field.name.endswith("s")
            )
        value = getattr(message, field.name)
        message = value.add() if hasattr(value, "add") else value
    message.CopyFrom(tensor)
    model.graph.node.append(helper.make_node("Identity", ["w"], ["y"]))
    model.graph.output.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, None))
    return model


def test_every_place_of_a_model_that_may_hold_a_tensor(tmp_path: Path) -> None:
    """Nothing outside of the model's folder is read, or looked for, for any of them."""
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location")
    read = set()
    for path in places_of_tensors():
        sentences = []
        for location in ("gone.bin", "../gone.bin"):
            tensor.external_data[0].value = location
            (tmp_path / "model.onnx").write_bytes(with_tensor_at(path, tensor).SerializeToString())
            try:
                from_onnx(tmp_path / "model.onnx")
            except (NotImplementedError, OSError, ValueError) as error:
                sentences.append(str(error))
        place = ".".join(field.name for field in path)
        inside, outside = sentences
        if "gone.bin" in inside:
            read.add(place)
        rule = r"from_onnx: the data of tensor 'w\w*' must lie in the model's folder, got '\.\./gone\.bin'"
        assert re.fullmatch(rule, outside) or (place not in read and outside == inside), place
    assert read == {"graph.initializer", "graph.node.attribute.t", "functions.node.attribute.t"}


@pytest.mark.parametrize("more", [{"offset": 100}, {"length": 1000}, {"length": 4}, {"offset": 2}])
def test_data_that_the_file_does_not_have(tmp_path: Path, more: dict[str, int]) -> None:
    (tmp_path / "w.bin").write_bytes(DATA.tobytes())
    assert re.fullmatch(r"from_onnx: [^\n]+", refusal(saved(tmp_path, "w.bin", **more)))


def test_data_without_a_file_or_a_folder(tmp_path: Path) -> None:
    file = saved(tmp_path, "gone.bin")
    with pytest.raises((OSError, ValueError), match=r"gone\.bin"):
        from_onnx(file)
    assert refusal(onnx.load(file, load_external_data=False)) == (
        "from_onnx: the data of tensor 'w' must lie in the model's folder, got 'gone.bin' and a ModelProto, which has "
        "none; write the model's path"
    )
