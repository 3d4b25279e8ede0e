"""Whole models, by onnx2torch."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import ModelProto
from onnx_models import by_onnx2torch, needs_onnx2torch, onnxruntime_results, parsed, refusal, same_as_onnxruntime
from oracle import as_list

from torch_dml_ops.onnx import from_onnx, register_onnx2torch
from torch_dml_ops.onnx._onnx2torch import DataMovement


@needs_onnx2torch
def test_registering_again_changes_nothing() -> None:
    from onnx2torch.node_converters import registry

    known = set(registry._CONVERTER_REGISTRY)
    register_onnx2torch()
    assert set(registry._CONVERTER_REGISTRY) == known


@pytest.mark.parametrize("name", ["squeezenet", "shufflenet"])
def test_whole_networks_that_the_onnx_package_ships(name: str, tmp_path: Path) -> None:
    """Their weights are computed by nodes, which ONNX Runtime does once and for all."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(tmp_path / "model.onnx")
    shipped = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / f"light_{name}.onnx"
    (given,) = onnxruntime.InferenceSession(shipped, options, providers=["CPUExecutionProvider"]).get_inputs()
    model = onnx.load(tmp_path / "model.onnx")
    model.ir_version = 8  # from 4 on, what nodes no longer read need not be an input
    read = {name for node in model.graph.node for name in node.input}
    for unused in [info for info in model.graph.input if info.name not in read]:
        model.graph.input.remove(unused)
    x = np.random.default_rng(0).standard_normal(given.shape, np.float32)
    (expected,) = onnxruntime_results(model, [x])
    module = by_onnx2torch(model).eval()
    assert any(isinstance(part, DataMovement) for part in module.modules())
    torch.testing.assert_close(module(torch.from_numpy(x)).detach(), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.usefixtures("fresh_compiler")
def test_modules_of_onnx2torch_compile_and_train() -> None:
    model = parsed("""
    gated (float[N, 5, 4] x, int64[N] lengths) => (float[N, 5, 2] y)
    <float[4, 4] w = {1, 0, 2, 0, 0, 1, 0, 2, 1, 1, 0, 0, 0, 0, 1, 1},
     int64[1] axes = {1}, int64[1] down = {-1}, int64[1] low = {-99}> {
        backwards = ReverseSequence <batch_axis = 0, time_axis = 1> (x, lengths)
        turned = Slice (backwards, down, low, axes, down)
        product = MatMul (turned, w)
        a, b = Split <axis = 2, num_outputs = 2> (product)
        gate = Sigmoid (b)
        y = Mul (a, gate)
    }""")
    module = by_onnx2torch(model)
    x, lengths = torch.randn(3, 5, 4, requires_grad=True), torch.tensor([5, 2, 3])
    (expected,) = onnxruntime_results(model, [x.detach(), lengths])
    for f in (module, torch.compile(module, fullgraph=True, backend="aot_eager")):
        result = f(x, lengths)
        torch.testing.assert_close(result.detach(), expected)
        (gradient,) = torch.autograd.grad(result.sum(), x)
        assert gradient.abs().sum() > 0


@pytest.mark.parametrize(
    "node",
    [
        "Concat <axis = 1> (product, x)",
        "ScatterElements (product, elements, x)",
        "ScatterElements (x, elements, product)",
        "ScatterND (product, rows, x)",
        "ScatterND (x, rows, product)",
    ],
)
def test_autocast_leaves_tensors_of_several_dtypes(node: str) -> None:
    """Which torch.cat, and so onnx2torch's own Concat, takes as they are; its own ScatterND converts them."""
    model = parsed(f"""
    mixed (float[2, 2] x) => (float[2, N] y)
    <int64[2, 2] elements = {{0, 0, 1, 1}}, int64[2, 1] rows = {{1, 0}}> {{
        product = MatMul (x, x)
        y = {node}
    }}""")
    with torch.autocast("cpu", torch.bfloat16):
        assert by_onnx2torch(model)(torch.eye(2)).dtype == torch.float32


@needs_onnx2torch
def test_halves_of_two_kinds_are_joined_in_what_holds_both() -> None:
    module = by_onnx2torch(parsed("g (float16[N] x, float16[M] y) => (float16[L] z) { z = Concat <axis = 0> (x, y) }"))
    result = module(torch.ones(1, dtype=torch.float16), torch.full((1,), 2.0**100, dtype=torch.bfloat16))
    assert result.dtype == torch.float32
    assert result.tolist() == [1, 2.0**100]


@pytest.mark.parametrize(
    "node", ["Where (c, a, z)", "Where (c, z, a)", "Where (c, a, t)", "Where (c, t, a)", "Pad (a, p, z)"]
)
def test_floating_point_tensors_of_several_dtypes(node: str) -> None:
    """In a module that was converted, but for what its Cast makes, and in onnx2torch under autocast."""

    def model(given: str, a: str) -> ModelProto:
        return parsed(f"""
        mixed ({given} s, bool[3] c) => (float[N] y)
        <float z = {{-1}}, float[3] t = {{4, 5, 6}}, float[3, 3] e = {{1, 0, 0, 0, 1, 0, 0, 0, 1}},
        int64[2] p = {{0, 1}}> {{
            a = {a}
            y = {node}
        }}""")

    cast, c = from_onnx(model("uint8[3]", "Cast <to = 1> (s)")), torch.tensor([True, False, True])
    s = torch.tensor([1, 2, 3], dtype=torch.uint8)
    wanted = cast(s, c)
    for dtype in (torch.float16, torch.float64, torch.bfloat16):
        assert cast.to(dtype)(s, c).double().equal(wanted.double())
    module = by_onnx2torch(model("float[3]", "MatMul (s, e)"))
    with torch.autocast("cpu", torch.bfloat16):
        assert module(s.float(), c).equal(wanted)


def halving(*outputs: str) -> ModelProto:
    given = ", ".join(f"float[{name.upper()}] {name}" for name in outputs)
    return parsed(f"halving (float[N] x) => ({given}) {{ a, b = Split <num_outputs = 2> (x) c = Identity (b) }}")


@pytest.mark.parametrize("outputs", ["ab", "c", "ba", "b", "ac", "acb", "aba"])
def test_pieces_of_a_split_that_are_the_outputs(outputs: str) -> None:
    """Which onnx2torch would return in another order."""
    model, x = halving(*outputs), torch.arange(3.0)
    pieces = {"a": [0.0, 1.0], "b": [2.0], "c": [2.0]}
    expected = [pieces[name] for name in outputs]
    assert [y.tolist() for y in as_list(from_onnx(model)(x))] == expected
    if outputs in ("ab", "c"):
        assert [y.tolist() for y in as_list(by_onnx2torch(model)(x))] == expected
    else:
        assert refusal(model, by_onnx2torch) == (
            "register_onnx2torch: node 'Split' must have none of the graph's outputs among its own, or all of them in "
            "their order, as onnx2torch returns them; put Identity nodes between"
        )


def test_onnx2torch_keeps_sequence_lengths_whole() -> None:
    """As they are clipped where torch exports a reversal, beside a Shape of opset 20."""
    text = """
    reversed (float[N, T] x, int64[N] lengths) => (float[N, T] y, int64[2] sizes) <int64 one = {1}, int64 five = {5}> {
        clipped = Clip (lengths, one, five)
        y = ReverseSequence <batch_axis = 0, time_axis = 1> (x, clipped)
        sizes = Shape (y)
    }"""
    x, lengths = np.arange(15, dtype=np.float32).reshape(3, 5), np.array([-2, 3, 9])
    same_as_onnxruntime(parsed(text, '"": 20'), [x, lengths], importers=[by_onnx2torch])


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_what_these_operators_do_not_do_is_left_to_onnx2torch(mode: str) -> None:
    text = f"""
    resized (float[1, 1, 4] x) => (float[1, 1, T] y) <float[3] scales = {{1, 1, 2}}> {{
        y = Resize <mode = "{mode}", coordinate_transformation_mode = "half_pixel"> (x, , scales)
    }}"""
    model = parsed(text, '"": 13')
    same_as_onnxruntime(model, [np.arange(4, dtype=np.float32).reshape(1, 1, 4)], importers=[by_onnx2torch])
    assert any(isinstance(part, DataMovement) for part in by_onnx2torch(model).modules()) == (mode == "nearest")


@pytest.mark.parametrize("opset", [13, 19, 21, 23])
def test_what_later_opsets_have_of_more_types_is_left_to_onnx2torch(opset: int) -> None:
    nodes = "c = Constant <value = float[2] {1.5, -2.5}> () s = Add (x, c) i = Cast <to = 7> (s) y = Cast <to = 1> (i)"
    nodes += "e = Equal (s, y) r = Round (s) n = IsNaN (r)"
    outputs = "int64[2] i, float[2] y, bool[2] e, float[2] r, bool[2] n"
    model = parsed(f"g (float[2] x) => ({outputs}) {{ {nodes} }}", f'"": {opset}')
    same_as_onnxruntime(model, [np.array([0.75, -0.25], np.float32)], importers=[by_onnx2torch])
