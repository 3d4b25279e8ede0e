"""Resize and Upsample to the nearest element, by both importers, against ONNX Runtime."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx_models import (
    Importer,
    bits,
    by_onnx2torch,
    each_importer,
    filled,
    for_every_size,
    model_of,
    onnxruntime_outputs,
    onnxruntime_results,
    outputs_of,
    parsed,
    same_as_onnxruntime,
)

from torch_dml_ops.onnx import from_onnx
from torch_dml_ops.onnx._importer.files import DTYPES
from torch_dml_ops.onnx._importer.resize import COORDINATES, NEAREST, POLICIES, scaled_sizes
from torch_dml_ops.onnx._onnx2torch import DataMovement

pytestmark = pytest.mark.usefixtures("on_cpu")  # on which ONNX Runtime is compared with
FACTORS = st.one_of(
    st.integers(1, 4),
    st.builds(lambda a, b: a / b, st.integers(1, 9), st.integers(1, 20)),
    st.integers(1, 400).map(lambda hundredths: hundredths / 100),
    st.floats(0.05, 3),
)


def resized(
    x: np.ndarray,
    lists: dict[str, np.ndarray],
    opset: int = 23,
    constants: Sequence[str] = ("scales", "sizes"),
    **attributes: Any,
) -> ModelProto:
    """A Resize, or before opset 10 an Upsample; what is not constant is an input of the graph."""
    feeds = {"x": x} | {name: numbers for name, numbers in lists.items() if name not in constants}
    known = {name: numbers for name, numbers in lists.items() if name in constants}
    if opset in (11, 12):  # which do not let them be left out
        known |= {name: np.zeros(0, np.float32) for name in ("roi", "scales") if name not in lists}
    names = ["roi", "scales", "sizes"] if opset > 10 else ["scales"]
    given = [name if name in {**known, **feeds} else "" for name in names]
    while given and not given[-1]:
        given.pop()
    node = helper.make_node("Resize" if opset > 9 else "Upsample", ["x", *given], ["y"], **attributes)
    model = model_of([node], feeds, {"y": x.dtype}, known, opset)
    for value in model.graph.input[1:]:  # whose lengths ONNX Runtime wants to know
        value.type.tensor_type.shape.dim[0].dim_value = len(feeds[value.name])
    return model


def takes_middles() -> bool:
    """(4 + 0.5) * 20 / 6 - 0.5 is 14.5, of which float32 makes 14.499999; before 1.27, ONNX Runtime took that."""
    x = np.arange(20, dtype=np.float32)
    model = resized(x, {"sizes": np.array([6])}, nearest_mode="round_prefer_ceil")
    return bool(onnxruntime_results(model, [x])[0][4] == 15)


as_onnx_runtime = pytest.mark.skipif(
    not takes_middles(), reason="this ONNX Runtime takes none for the middle of two elements that float32 misses"
)


@as_onnx_runtime
@settings(max_examples=300, deadline=None)
@given(st.data())
def test_resize(data: st.DataObject) -> None:
    """By scales, sizes and policies, of some axes or all, in every mode and opset."""
    opset = data.draw(st.sampled_from([7, 9, 10, 11, 13, 18, 19, 23]))
    sizes = data.draw(
        st.lists(st.integers(0, 9), min_size=1, max_size=4) | st.lists(st.integers(10, 60), min_size=1, max_size=2)
    )
    x = filled(sizes, np.dtype(data.draw(st.sampled_from(["float32", "int32", "int8", "uint8"]))))
    axes, attributes = list(range(x.ndim)), {}
    if opset > 10:
        attributes["coordinate_transformation_mode"] = data.draw(st.sampled_from([*COORDINATES]))
        attributes["nearest_mode"] = data.draw(st.sampled_from([*NEAREST]))
    policy = data.draw(st.sampled_from([*POLICIES])) if opset >= 18 else "stretch"
    if opset >= 18:
        attributes["keep_aspect_ratio_policy"] = policy
        if data.draw(st.booleans()):
            axes = data.draw(st.permutations(axes))[: data.draw(st.integers(1, x.ndim))]
            # With a policy, ONNX Runtime leaves negative ones as they are.
            attributes["axes"] = [d - x.ndim if policy == "stretch" and data.draw(st.booleans()) else d for d in axes]
    if opset > 10 and (policy != "stretch" or data.draw(st.booleans())):
        least = [min(x.shape[d], 1) for d in axes]
        lists = {"sizes": np.array([data.draw(st.integers(1, 30)) * one for one in least])}
    else:
        scales = np.array([data.draw(FACTORS) for _ in axes], np.float32)
        scales = np.maximum(scales, np.float32(1)) if opset < 10 else scales
        # Where no size changes, ONNX Runtime returns the input, though of these axes it would choose other elements.
        after = [int(np.float32(x.shape[d]) * scale) for d, scale in zip(axes, scales, strict=True)]
        assume(np.all(scales == 1) or after != [x.shape[d] for d in axes])
        lists = {"scales": scales}
    if opset < 9:
        model = resized(x, {}, opset, scales=lists.pop("scales").tolist())
    else:
        model = resized(x, lists, opset, data.draw(st.sampled_from([(), ("scales", "sizes")])), **attributes)
    given = {"x": x, **lists}
    same_as_onnxruntime(model, [given[value.name] for value in model.graph.input])
    assert any(isinstance(part, DataMovement) for part in by_onnx2torch(model).modules())


TYPES = onnx.defs.get_schema("Resize", 23).type_constraints[0].allowed_type_strs


@as_onnx_runtime
@pytest.mark.parametrize("nearest_mode", NEAREST)
@pytest.mark.parametrize(
    ("before", "after", "coordinates"),
    [(20, 6, "half_pixel"), (11, 26, "asymmetric"), (13, 7, "tf_half_pixel_for_nn"), (5, 11, "align_corners")],
)
def test_middles_that_float32_misses(before: int, after: int, coordinates: str, nearest_mode: str) -> None:
    x = np.arange(before, dtype=np.float32)
    modes = {"coordinate_transformation_mode": coordinates, "nearest_mode": nearest_mode}
    model = resized(x, {"sizes": np.array([after])}, **modes)
    same_as_onnxruntime(model, [x], importers=[from_onnx])


@each_importer
@pytest.mark.parametrize("name", [name for name in DTYPES if f"tensor({name.lower()})" in TYPES])
def test_resize_keeps_the_bits(name: str, importer: Importer) -> None:
    """Of every dtype, NaN of any payload among them."""
    dtype, scales = DTYPES[name], np.array([1.7, 0.6], np.float32)
    for sizes in ((5, 7), (35,)):
        raw = torch.from_numpy(filled((*sizes, dtype.itemsize), np.dtype("uint8")))
        places = np.arange(35, dtype=np.int32).reshape(sizes)
        model = resized(places, {"scales": scales[: len(sizes)]})
        (chosen,) = onnxruntime_results(model, [places])
        for value in (*model.graph.input, *model.graph.output):
            value.type.tensor_type.elem_type = TensorProto.DataType.Value(name)
        raw = raw % 2 if name == "BOOL" else raw
        result = importer(model)(raw.reshape(-1).view(dtype).reshape(sizes))
        assert result.dtype == dtype
        content = raw.reshape(35, dtype.itemsize)[chosen.long()]
        assert torch.equal(result.contiguous().view(torch.uint8).reshape(content.shape), content)


# Where float32 rounds products up to integers, among others; the results of some sizes are empty.
DYNAMIC = {"half_pixel": 0.7, "half_pixel_symmetric": 1.05, "pytorch_half_pixel": 0.3}
DYNAMIC |= {"asymmetric": 3.0, "align_corners": 0.5, "tf_half_pixel_for_nn": 2.5}


@pytest.mark.filterwarnings("ignore")  # from within torch's exporter
@pytest.mark.parametrize(
    ("by", "coordinates"),
    [
        pytest.param(by, coordinates, marks=[pytest.mark.thorough] if coordinates != "half_pixel" else [])
        for k, coordinates in enumerate(DYNAMIC)
        for by in ("scales", "sizes")
        if coordinates == "half_pixel" or by == ("scales", "sizes")[k % 2]
    ],
)
def test_resize_of_dynamic_sizes(by: str, coordinates: str) -> None:
    """In torch.compile, torch.export and what is exported to ONNX again."""
    attributes = {"coordinate_transformation_mode": coordinates, "nearest_mode": "ceil"}
    scale = np.array([DYNAMIC[coordinates]], np.float32)
    model = resized(np.zeros(10, np.float32), {"scales": scale}, **attributes)
    if by == "sizes":
        model = parsed(f"""
        enlarged (float[N] x) => (float[M] y) <int64[1] seven = {{7}}, int64[1] four = {{4}}> {{
            before = Shape (x)
            product = Mul (before, seven)
            after = Div (product, four)
            y = Resize <coordinate_transformation_mode = "{coordinates}", nearest_mode = "ceil"> (x, , , after)
        }}""")
    module = from_onnx(model).eval()
    ways = for_every_size(module, (10,), backend="inductor" if coordinates == "asymmetric" else "aot_eager")
    for size in (0, 1, 2, 3, 5, 20, 60):
        x = np.arange(size, dtype=np.float32)
        expected = onnxruntime_outputs(model, [x])
        if by == "scales" and expected == [bits(x)]:  # as it returns what keeps its size, by whatever scale
            expected = outputs_of(module, [x])
        assert outputs_of(module, [x]) == expected
        for way, run in ways.items():
            if way != "exported" or expected[0][1][0] > 1:  # torch.export takes it for granted of other results
                assert run([x]) == expected, (way, size)


@pytest.mark.thorough
@pytest.mark.usefixtures("fresh_compiler")
def test_a_compiled_resize_to_an_empty_tensor() -> None:
    module = from_onnx(resized(np.zeros((2, 7), np.float32), {"scales": np.array([1, 0.3], np.float32)}))
    compiled = torch.compile(module, fullgraph=True, dynamic=True)
    for size in (7, 2, 5):
        x = filled([2, size], np.dtype("float32"))
        assert outputs_of(compiled, [x]) == outputs_of(module, [x])


@pytest.mark.filterwarnings("ignore")  # from within torch's exporter
def test_an_exported_resize_to_the_size_that_there_is() -> None:
    """Which is not known when it is exported; of what is not resized, elements stay where they are."""
    attributes = {"coordinate_transformation_mode": "tf_half_pixel_for_nn", "nearest_mode": "ceil"}
    model = resized(np.zeros(5, np.float32), {"sizes": np.array([4])}, **attributes)
    for run in for_every_size(from_onnx(model), (5,)).values():
        for size in (3, 4, 5):
            x = np.arange(size, dtype=np.float32)
            assert run([x]) == onnxruntime_outputs(model, [x])


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("policy", [policy for policy in POLICIES if policy != "stretch"])
def test_one_factor_for_all_axes_compiles_for_each_size(policy: str) -> None:
    x = np.zeros((3, 5), np.float32)
    module = from_onnx(resized(x, {"sizes": np.array([7, 8])}, keep_aspect_ratio_policy=policy))
    compiled = torch.compile(module, fullgraph=True, dynamic=True, backend="eager")
    for sizes in ((3, 5), (10, 5), (14, 3)):  # 7 * 5 / 10 is 3.5, which float32 keeps
        x = filled(sizes, x.dtype)
        assert outputs_of(compiled, [x]) == outputs_of(module, [x])


@pytest.mark.parametrize("scales", [[0.6, 1.75], [2, 3], [3, 0.3]])
def test_gradients_of_resize(scales: list[float]) -> None:
    x = np.zeros((5, 4), np.float64)
    module = from_onnx(resized(x, {"scales": np.array(scales, np.float32)}))
    given = torch.randn(5, 4, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(module, given, check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(module, given)


def test_sizes_by_scales_are_products_in_float32() -> None:
    random = np.random.default_rng(0)
    for _ in range(20_000):
        kinds = random.integers(1, 200, 2), (random.integers(1, 3000), 1000), (random.random() * 4 + 1e-4, 1)
        above, below = kinds[random.integers(len(kinds))]
        scale, size = np.float32(above / below), int(random.integers(0, random.choice([50, 5000, 4_000_000])))
        if (product := np.float32(size) * scale) < 2**23:
            assert scaled_sizes("Resize", [size], [float(scale)]) == [int(product)], (size, scale)


@pytest.mark.thorough
def test_an_axis_whose_elements_float32_does_not_tell_apart() -> None:
    x = torch.randint(0, 256, (2**23 + 3,), dtype=torch.uint8)
    attributes = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    module = from_onnx(resized(x.numpy(), {"scales": np.array([2], np.float32)}, **attributes))
    assert torch.equal(module(x), x.repeat_interleave(2))
    third, many = np.float32(1 / 3), torch.randint(0, 256, (2**24 + 3,), dtype=torch.uint8)
    chosen = np.floor(np.arange(2**24 // 3) / np.float64(third)).astype(np.int64)
    fewer = from_onnx(resized(many.numpy(), {"scales": np.array([third])}, **attributes))(many)
    assert torch.equal(fewer[: len(chosen)], many[chosen])


def test_the_scales_of_an_upsample_are_constants_too() -> None:
    x = np.arange(5, dtype=np.float32)
    model = resized(x, {"scales": np.array([1.5], np.float32)}, 9)
    assert numpy_helper.to_array(model.graph.initializer[0]).tolist() == [1.5]
    assert from_onnx(model)(torch.from_numpy(x)).tolist() == [0, 0, 1, 2, 2, 3, 4]
