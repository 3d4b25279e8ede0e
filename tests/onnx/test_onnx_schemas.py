"""Every operator that the importers take, in the forms that ONNX's own schemas give it, against ONNX Runtime.

The forms are made of the schemas: each input as a constant, as an input of the graph, left out, and of other sizes and
values; each attribute at its limits and beyond; each dtype that is allowed, and some that are not. Where ONNX Runtime
gives a result, from_onnx gives the same bytes; where it refuses, from_onnx does so in one sentence. So does onnx2torch
with the converters of register_onnx2torch, as far as there are results.
"""

import pickle
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest
import torch
from onnx import ModelProto, helper, numpy_helper
from onnx.defs import OpSchema
from onnx.reference import ReferenceEvaluator
from onnx_models import (
    ALWAYS_REFUSED,
    LEAST,
    MOST,
    NO_KERNEL,
    OUR_SENTENCE,
    REFUSED_HERE,
    RIGHT,
    SENTENCE,
    bits,
    by_onnx2torch,
    filled,
    judged,
    model_of,
    needs_onnxruntime_1_24,
    outputs_of,
    session_of,
)
from oracle import as_list

from torch_dml_ops.onnx import from_onnx
from torch_dml_ops.onnx._importer.operators import IGNORED_ATTRIBUTES, OPERATORS
from torch_dml_ops.onnx._importer.resize import COORDINATES, NEAREST, POLICIES
from torch_dml_ops.onnx._onnx2torch import OF_WHOLE_NUMBERS, OPERATOR_TYPES, DataMovement

pytestmark = needs_onnxruntime_1_24

# The shape inference of older ones finds fewer mistakes in a model before it is called.
INFERS = tuple(map(int, onnx.__version__.split(".")[:2])) >= (1, 23)

# The inputs and attributes of a node that is valid, under the names that they have in any opset: data are given by
# their sizes, numbers as they are.
VALID: Mapping[str, Mapping[str, Any]] = {
    "Add": {"A": [3, -4], "B": [5, 2]},
    "Cast": {"input": (2, 3), "to": 6},
    "CenterCropPad": {"input_data": (2, 3, 5), "shape": [3, 2], "axes": [1, 2]},
    "Clip": {"input": (2, 3), "min": (), "max": ()},
    "Compress": {"input": (3, 4), "condition": [0, 1, 1], "axis": 0},
    "Concat": {"inputs": (2, 3), "axis": 0},
    "ConstantOfShape": {"input": [2, 3]},
    "DepthToSpace": {"input": (2, 8, 1, 3), "blocksize": 2, "mode": "CRD"},
    "Div": {"A": [7, -7], "B": [2, 3]},
    "Expand": {"input": (2, 1), "shape": [2, 3]},
    "Flatten": {"input": (2, 3, 2)},
    "Gather": {"data": (3, 4), "indices": [[0, -1], [1, 2]]},
    "GatherElements": {"data": (3, 4), "indices": [[0, -1], [1, 2]]},
    "GatherND": {"data": (3, 4, 2), "indices": [[0, -1], [2, 1]]},
    "Identity": {"input": (2, 3)},
    "Less": {"A": (2, 3), "B": (2, 3)},
    "Max": {"data_0": [3, 4]},
    "Min": {"data_0": [3, 4]},
    "Mod": {"A": [7, -7], "B": [2, 3]},
    "Mul": {"A": [3, 4], "B": [2, -2]},
    "Pad": {"data": (2, 3), "pads": [1, 0, 0, 2], "constant_value": ()},  # modes: see OTHERS
    "Range": {"start": 1, "limit": 8, "delta": 2},
    "Reshape": {"data": (2, 3), "shape": [3, 2]},
    "Resize": {"X": (2, 3), "roi": [], "scales": [2.0, 1.0]},
    "ReverseSequence": {"input": (4, 3), "sequence_lens": [2, 4, 1]},
    "Scatter": {"data": (3, 4), "indices": [[0, -1], [2, 1]], "updates": (2, 2), "axis": 1},
    "ScatterElements": {"data": (3, 4), "indices": [[0, -1], [2, 1]], "updates": (2, 2), "axis": 1},
    "ScatterND": {"data": (3, 4, 2), "indices": [[0, -1], [2, 1]], "updates": (2, 2)},
    "Shape": {"data": (2, 3)},
    "Size": {"data": (2, 3)},
    "Slice": {"data": (3, 4), "starts": [0, -1], "ends": [2, -9], "axes": [0, 1], "steps": [1, -2]},
    "SpaceToDepth": {"input": (2, 1, 4, 6), "blocksize": 2},
    "Split": {"input": (4, 3), "split": [1, 3]},
    "Squeeze": {"data": (1, 3, 1), "axes": [0, 2]},
    "Sub": {"A": (2, 3), "B": (2, 3)},
    "Tile": {"input": (2, 3), "repeats": [2, 1]},
    "Transpose": {"data": (2, 3)},
    "Trilu": {"input": (2, 3, 4), "k": 1},
    "Unsqueeze": {"data": (2, 3), "axes": [0, 2]},
    "Upsample": {"X": (2, 3), "scales": [2.0, 1.0]},
    "Where": {"condition": (2, 3), "X": (2, 3), "Y": (2, 3)},
}

FIRST_OPSET = 7  # that ONNX Runtime supports
VARIADIC = OpSchema.FormalParameterOption.Variadic
# Of float16, which ONNX Runtime converts to float32 and back, as it has no kernels for it: that makes NaNs quiet.
IN_FLOAT32 = {"CenterCropPad", "DepthToSpace", "Pad", "SpaceToDepth", "Tile", "Upsample"}
COMPUTE = {"Add", "Clip", "Div", "Less", "Max", "Min", "Mod", "Mul", "Range", "Sub"}  # whole numbers alone
MAKE_AS_MUCH = {"CenterCropPad", "ConstantOfShape", "Expand", "Resize", "Tile", "Upsample"}  # as their numbers say

OTHER_SIZES = [(), (0,), (1,), (3,), (0, 3), (2, 0), (1, 3, 1), (4, 2, 3)]
OTHER_NUMBERS = [-2, -1, 0, 1, 2, 9, MOST]
OTHER_LISTS = [
    [], [0], [-1], [5], [1, 0], [-1, 0], [0, 0], [-1, -1], [2, 2], [3, -1], [0, 1, 2], [1, -4, 0, 0], [-3, 0, 2, 0],
    [2**62], [MOST, 3], [LEAST],
]  # fmt: skip
STRINGS = {
    "coordinate_transformation_mode": [*COORDINATES, "tf_crop_and_resize"],
    "keep_aspect_ratio_policy": [*POLICIES],
    "mode": ["constant", "edge", "reflect", "wrap", "DCR", "CRD", "nearest", "linear", "cubic"],
    "nearest_mode": [*NEAREST],
    "reduction": ["none", "add", "mul", "max", "min"],
}

# What else is changed together, as constants and as inputs of the graph in turn, and random graphs do not have.
OTHERS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "GatherND": [
        {"data": (2, 3, 4), "batch_dims": b, "indices": i}
        for b in (0, 1, 2)
        for i in ([[1], [-1]], [[[1], [0]], [[2], [0]]], [[[1], [0], [3]], [[2], [-1], [0]]], [[3, 0], [0, 0]], [[]])
    ],
    "Pad": [
        {"pads": [*pads], "mode": mode}
        for mode in ("constant", "edge", "reflect", "wrap")
        for pads in ((3, 0, 2, 1), (-1, 1, -2, 2), (0, -2, 9, 0), (-3, 0, 3, 0))
    ],
    "Range": [
        {"start": start, "limit": limit, "delta": delta}
        for start, limit, delta in (
            *((0, 5, 0), (0, 2, MOST), (5, 0, LEAST), (7, 1, 2), ([1], [7], [2]), ([1, 2], 7, 2), (1, [], 2)),
        )
    ],
    "Resize": [
        *({"scales": None, "sizes": sizes} for sizes in ([4, 3], [2, 9], [3, 3], [1, 3], [0, 3], [4], [])),
        *(
            {"X": (4, 6), "scales": None, "sizes": sizes, "keep_aspect_ratio_policy": policy}
            for sizes in ([2, 9], [8, 6], [0, 3], [-1, 3], [2], [2, 3])
            for policy in STRINGS["keep_aspect_ratio_policy"][1:]
        ),
        *({"X": (2, 3, 1, 2), "scales": [2.0, 3.0], "axes": axes} for axes in ([1, 3], [-1, 0], [0, 0], [1, 4])),
        {"scales": [], "sizes": [4, 6]},
        {"scales": [2.0, 2.0], "sizes": [4, 6]},
        {"X": (0, 3), "scales": [2.0, 2.0]},
    ],
    "Trilu": [{"k": k} for k in ([1], [1, 2])],
    "Upsample": [{"scales": scales} for scales in ([1.0, 1.0], [3.0, 4.0], [1.5, 1.0], [0.5, 1.0], [2.0], [])],
}


def sentence_of(schema: OpSchema) -> str:
    return rf"(?=[a-z]|{schema.name}: ){SENTENCE.pattern}"


class Form(NamedTuple):
    """A model of one node."""

    model: ModelProto
    feeds: Mapping[str, np.ndarray]


def versions() -> list[OpSchema]:
    """Those of the operators that are taken, as far as ONNX Runtime knows them."""
    opsets = range(FIRST_OPSET, newest_opset() + 1)
    found = {
        (schema.name, schema.since_version): schema
        for name in VALID
        for opset in opsets
        if onnx.defs.has(name, opset) and not (schema := onnx.defs.get_schema(name, opset)).deprecated
    }
    return [
        schema for (name, since), schema in found.items() if name not in OPERATORS or since >= OPERATORS[name].since
    ]


def is_newest(schema: OpSchema) -> bool:
    return onnx.defs.get_schema(schema.name, newest_opset()).since_version == schema.since_version


@cache
def newest_opset() -> int:
    """Of ONNX Runtime, which onnx may be ahead of."""
    x = helper.make_tensor_value_info("x", 1, [1])
    graph = helper.make_graph([], "graph", [x], [x])
    for opset in range(onnx.defs.onnx_opset_version(), 0, -1):
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
        try:
            session_of(model)
        except Exception:  # of classes that are not documented
            continue
        return opset
    raise AssertionError("ONNX Runtime takes no opset")


def dtype_of(type_name: str) -> np.dtype | None:
    """None for what is no tensor, and of types that are no numbers."""
    name = type_name.removeprefix("tensor(").removesuffix(")")
    if type_name != f"tensor({name})" or name == "string":
        return None
    return np.dtype(helper.tensor_dtype_to_np_dtype(onnx.TensorProto.DataType.Value(name.upper())))


def dtypes_of(schema: OpSchema) -> dict[str, list[np.dtype]]:
    """Of each type variable: float32, or else int64, is the first."""
    first = (np.float32, np.int64) if schema.name not in COMPUTE else (np.int64,)
    result = {}
    for constraint in schema.type_constraints:
        dtypes = [dtype for name in sorted(constraint.allowed_type_strs) if (dtype := dtype_of(name)) is not None]
        if schema.name in ("Pad", "Where") and torch.__version__ < "2.13":  # whose torch.where lacks the others
            dtypes = [dtype for dtype in dtypes if dtype.kind != "u" or dtype.itemsize == 1]
        result[constraint.type_param_str] = sorted(dtypes, key=lambda dtype: dtype not in first)
    return result


def form_of(
    schema: OpSchema,
    values: Mapping[str, Any],
    dtypes: Mapping[str, np.dtype],
    constant: bool = True,
    outputs: int | None = None,
) -> Form:
    """`values` are data by their sizes, arrays as they are, None for an input without a name, or numbers."""
    feeds: dict[str, np.ndarray] = {}
    constants: dict[str, np.ndarray] = {}
    names = []
    for k, parameter in enumerate(schema.inputs):
        if parameter.name not in values:
            continue
        value = values[parameter.name]
        dtype = dtypes.get(parameter.type_str) or dtype_of(parameter.type_str)
        for copy in range(2 if parameter.option == VARIADIC else 1):
            names.append("" if value is None else f"{parameter.name}{copy}")
            if isinstance(value, tuple):
                exact = schema.name not in IN_FLOAT32 or dtype != np.float16
                if schema.name == "Resize":  # of which ONNX's own, where ONNX Runtime has none, computes in float64
                    exact = dtype.itemsize in (1, 4)
                data = filled(value, dtype) if exact else np.arange(np.prod(value)).astype(dtype).reshape(value)
                feeds[names[-1]] = np.roll(data, k + copy)
            elif value is not None:
                array = value if isinstance(value, np.ndarray) else np.array(value).astype(dtype)
                (constants if constant else feeds)[names[-1]] = array
    node = helper.make_node(schema.name, names, [f"y{k}" for k in range(outputs or _outputs(schema, values))])
    inputs = {parameter.name for parameter in schema.inputs}
    for name in schema.attributes:
        if name in values and name not in inputs:
            value = 1.0 if values[name] == () else values[name]
            kind = onnx.AttributeProto.INTS if value == [] else None
            node.attribute.append(helper.make_attribute(name, value, attr_type=kind))
    opset = max(schema.since_version, FIRST_OPSET)
    model = model_of([node], feeds, dict.fromkeys(node.output), constants, opset)
    with suppress(onnx.shape_inference.InferenceError, ValueError):
        model = onnx.shape_inference.infer_shapes(model)  # which gives the outputs their types
    return Form(model, feeds)


def _outputs(schema: OpSchema, values: Mapping[str, Any]) -> int:
    split = values.get("split", [1, 1]) if schema.name == "Split" else [1]
    return max(len(split), 1) if isinstance(split, list) else 2


def forms(schema: OpSchema) -> Iterator[Form]:
    """The dtypes take turns, so that each meets many forms; so do the versions of an operator, except the newest, and
    except in attributes that it lacks."""
    allowed = dtypes_of(schema)
    first = {name: dtypes[0] for name, dtypes in allowed.items()}
    valid = VALID[schema.name]
    changes = list(changed(schema, valid))
    if not is_newest(schema):
        older = schema.attributes.keys() - onnx.defs.get_schema(schema.name, newest_opset()).attributes.keys()
        changes = [
            change
            for k, change in enumerate(changes)
            if k < 2 or k % 4 == (2 + schema.since_version) % 4 or older & (change[0].keys() ^ valid.keys())
        ]
    for turn, (values, more) in enumerate(changes):
        dtypes = first
        if schema.name not in COMPUTE:
            dtypes = {name: choice[turn % len(choice)] for name, choice in allowed.items()}
        yield form_of(schema, values, dtypes, **more)
    for constraint in schema.type_constraints:
        others = ("bool", "uint16", "complex64") if torch.__version__ >= "2.13" else ("bool", "complex64")
        for dtype in {*allowed[constraint.type_param_str], *map(np.dtype, others)}:
            if not is_newest(schema) and (dtype.num + schema.since_version) % 4:
                continue
            chosen = {**first, constraint.type_param_str: dtype}
            yield form_of(schema, valid, chosen, constant=dtype.itemsize > 2)
            if schema.name == "Cast" and constraint.type_param_str == "T1":
                yield from (form_of(schema, {**valid, "to": to}, chosen) for to in range(25))


def changed(schema: OpSchema, valid: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """What is valid, and that with one thing changed; with further arguments of form_of."""
    inputs = [parameter.name for parameter in schema.inputs]
    for constant in (True, False):
        yield {**valid}, {"constant": constant}
    yield from (({**valid}, {"outputs": outputs}) for outputs in (1, 2, 3))
    for name in {*inputs, *schema.attributes} & {*valid}:
        yield {key: value for key, value in valid.items() if key != name}, {}
    data = next((name for name in inputs if isinstance(valid.get(name), tuple)), None)
    for name in inputs:
        if valid.get(name) is None:
            continue
        yield {**valid, name: None}, {}
        if isinstance(valid[name], tuple):
            yield from (({**valid, name: sizes}, {}) for sizes in OTHER_SIZES)
            continue
        yield {**valid, name: np.array(valid[name]).astype(np.int32)}, {}
        yield {**valid, name: np.array(valid[name]).astype(np.float32)}, {"constant": False}
        if isinstance(valid[name], list):
            yield {**valid, name: np.array(1)}, {"constant": False}
            yield {**valid, name: np.array([[1, 0]])}, {}
            for k, numbers in enumerate(OTHER_LISTS):
                if schema.name not in MAKE_AS_MUCH or max(numbers, default=0) < 2**60:
                    yield {**valid, name: numbers}, {"constant": k % 2 == 0}
                    yield {**valid, name: numbers, **({data: (1, 2, 1)} if data else {})}, {"constant": k % 2 == 1}
    for name, attribute in schema.attributes.items():
        if name in IGNORED_ATTRIBUTES or name in inputs:
            continue
        kept = {key: value for key, value in valid.items() if (schema.name, key) != ("Split", "split")}
        if attribute.type == OpSchema.AttrType.INT:
            numbers = range(0, 25) if name == "to" else OTHER_NUMBERS
            if name == "batch_dims":
                numbers = OTHER_NUMBERS[:-1]  # of the largest number, ONNX Runtime ends the process
            yield from (({**valid, name: number}, {}) for number in numbers)
            yield from (({**kept, name: number}, {"outputs": 2}) for number in OTHER_NUMBERS if kept != valid)
        elif attribute.type == OpSchema.AttrType.INTS:
            yield from (({**valid, name: numbers}, {}) for numbers in OTHER_LISTS)
        elif attribute.type == OpSchema.AttrType.STRING:
            yield from (({**valid, name: word}, {}) for word in [*STRINGS[name], "other"])
        elif attribute.type == OpSchema.AttrType.FLOAT:
            yield from (({**valid, name: number}, {}) for number in (0.0, 1.5, float("nan")))
        elif attribute.type == OpSchema.AttrType.TENSOR:
            for sizes in ((), (1,), (2,), (0,), (1, 1)):
                yield {**valid, name: numpy_helper.from_array(filled(sizes, np.dtype(np.int32)))}, {}
            for dtype in dtypes_of(schema)["T2"]:
                yield {**valid, name: numpy_helper.from_array(filled((1,), dtype))}, {}
    for k, values in enumerate(OTHERS.get(schema.name, ())):
        yield {**valid, **values}, {"constant": k % 2 == 0}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of numbers that overflow in ONNX's reference implementation
@pytest.mark.parametrize("schema", versions(), ids=lambda schema: f"{schema.name}-{schema.since_version}")
def test_every_form_as_in_onnx_runtime(schema: OpSchema) -> None:
    compared, differences = 0, []
    for turn, form in enumerate(forms(schema)):
        form.model.graph.node[0].domain = ("", "ai.onnx")[turn % 2]  # two names of one domain
        expected, when = of_onnx_runtime(form)
        form.model.opset_import.add(domain="others", version=99)  # which says nothing of ONNX's
        given, where = of_importer(from_onnx, form)
        how = judged(given if expected is None else expected, given, [schema.name], sentence_of(schema))
        compared += how == "the same" and expected is not None
        if how == "refused here only" and when == "no kernel":
            how = RIGHT[-1]
        if how == "refused by both" and when == "rules" and where == "run" and INFERS:
            how = "refused late"
        if how not in RIGHT:
            differences.append(f"{how}: {expected} and {given} of {helper.printable_graph(form.model.graph)}")
    assert not differences, f"{len(differences)} of them: " + "\n".join(differences[:3])
    assert compared or (schema.name in COMPUTE and np.int64 not in dtypes_of(schema)["T"])


@pytest.mark.parametrize("name", sorted(MAKE_AS_MUCH))
def test_results_beyond_64_bits(name: str) -> None:
    schema = onnx.defs.get_schema(name, 9 if name == "Upsample" else newest_opset())
    numbers = {"Resize": "sizes", "Tile": "repeats", "Upsample": "scales"}
    numbers |= dict.fromkeys(("CenterCropPad", "Expand"), "shape")
    of_data = [sizes for sizes in VALID[name].values() if isinstance(sizes, tuple)]
    values: dict[str, Any] = {**VALID[name], numbers.get(name, "input"): [2**62] * len((*of_data, (1, 1))[0])}
    if name == "CenterCropPad":
        del values["axes"]
    values |= {"scales": None} if name == "Resize" else {}
    dtypes = {key: dtypes[0] for key, dtypes in dtypes_of(schema).items()}
    form = form_of(schema, values, dtypes, constant=name == "Resize")
    feeds = [form.feeds]
    if name in ("Expand", "Tile"):  # of no elements, too, whose other sizes may be as large
        feeds.append({key: array[..., :0] if array.ndim > 1 else array for key, array in form.feeds.items()})
    for given_to in feeds:
        given, _ = of_importer(from_onnx, Form(form.model, given_to))
        assert isinstance(given, str)
        assert "must have less than 2**63 bytes" in given


@pytest.mark.parametrize("schema", [*filter(is_newest, versions())], ids=lambda schema: schema.name)
def test_tensors_other_than_declared(schema: OpSchema) -> None:
    """They are moved as well, or refused in one sentence; if ONNX has tensors of one type, they are of one dtype."""
    types = {parameter.name: parameter.type_str for parameter in schema.inputs}
    for form in forms(schema):
        try:
            module = from_onnx(form.model)
            outputs_of(module, list(form.feeds.values()))
        except (NotImplementedError, RuntimeError, ValueError):
            continue
        of_one_type = Counter(types[name[:-1]] for name in form.feeds)
        for name, array in form.feeds.items():
            for sizes in ((), (3,), (2, 0, 3, 1)):
                other = Form(form.model, {**form.feeds, name: np.resize(array, sizes)})
                given, _ = of_importer(lambda _, module=module: module, other)
                assert isinstance(given, list) or re.fullmatch(OUR_SENTENCE, given), (given, other)
            for dtype in {np.dtype(dtype) for dtype in ("bool", "int8", "uint16", "float16", "float32", "complex64")}:
                given, _ = of_importer(
                    lambda _, module=module: module,
                    Form(form.model, {**form.feeds, name: np.zeros(array.shape, dtype)}),
                )
                floating = {dtype.name, array.dtype.name} <= {"bfloat16", "float16", "float32", "float64"}
                is_mixed = floating and schema.name in ("Pad", "Where")  # as in a module that was converted in part
                is_alone = of_one_type[types[name[:-1]]] == 1 or dtype == array.dtype or is_mixed
                is_sentence = isinstance(given, str) and re.fullmatch(OUR_SENTENCE, given)
                assert is_sentence or (isinstance(given, list) and is_alone), (
                    f"{name} of {dtype}, {given}: {helper.printable_graph(form.model.graph)}"
                )


@pytest.mark.parametrize("schema", versions(), ids=lambda schema: f"{schema.name}-{schema.since_version}")
def test_what_a_caller_writes_into_results_is_in_no_later_one(schema: OpSchema) -> None:
    """Where the model holds all of its data, as an initializer may be all that an output consists of."""
    tried = 0
    for form in forms(schema):
        model = onnx.ModelProto()
        model.CopyFrom(form.model)
        del model.graph.input[:]
        model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in form.feeds.items())
        with suppress(NotImplementedError, RuntimeError, ValueError):
            module = from_onnx(model)
            expected = outputs_of(module, [])
            for again in [module] if tried else [module, pickle.loads(pickle.dumps(module))]:
                for result in as_list(again()):
                    torch.empty(0, dtype=torch.uint8).set_(result.detach().untyped_storage()).bitwise_not_()
                assert outputs_of(again, []) == expected, helper.printable_graph(model.graph)
            tried += 1
    assert tried or schema.name in COMPUTE


# What of the operators that move data onnx2torch converts itself, if at all.
LEFT = r"must be \w+ (with|of whole numbers)|of min/max is not implemented|is not a valid ReductionOnnxAttr"


@pytest.mark.parametrize(
    "schema",
    [schema for schema in versions() if schema.name in OPERATOR_TYPES],
    ids=lambda schema: f"{schema.name}-{schema.since_version}",
)
def test_every_form_by_onnx2torch(schema: OpSchema) -> None:
    compared, differences = 0, []
    for form in forms(schema):
        expected, when = of_onnx_runtime(form)
        if not all(hasattr(torch, array.dtype.name) for array in form.feeds.values()):
            continue
        if isinstance(expected, str | None):
            with suppress(Exception):  # onnx2torch's own, of many classes
                module = by_our_converter(form.model)
                given, _ = of_importer(lambda _, module=module: module, form)
                if (
                    isinstance(given, str)
                    and not re.fullmatch(sentence_of(schema), given)
                    and not re.search("Int[24]'", given)
                ):
                    differences.append(f"no sentence: {given} of {helper.printable_graph(form.model.graph)}")
            continue
        given, _ = of_importer(by_our_converter, form)
        refused = rf"{ALWAYS_REFUSED}|{LEFT}|{REFUSED_HERE.get(schema.name, '^$')}"
        if isinstance(given, str) and (when == "no kernel" or re.search(refused, given) or computes(form)):
            continue
        compared += 1
        if given != expected:
            differences.append(f"{expected} and {given} of {helper.printable_graph(form.model.graph)}")
    assert not differences, f"{len(differences)} of them: " + "\n".join(differences[:3])
    assert compared or (schema.name in OF_WHOLE_NUMBERS and np.int64 not in dtypes_of(schema).get("T", [np.int64]))


def by_our_converter(model: ModelProto) -> torch.nn.Module:
    module = by_onnx2torch(model)
    if not any(isinstance(part, DataMovement) for part in module.modules()):
        raise NotImplementedError("left to onnx2torch")
    return module


def computes(form: Form) -> bool:
    """With other than whole numbers, or by interpolation."""
    (node,) = form.model.graph.node
    attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    if node.op_type not in OF_WHOLE_NUMBERS:
        return node.op_type == "Resize" and attributes.get("mode", b"nearest") != b"nearest"
    types = {value.name: value.type.tensor_type.elem_type for value in form.model.graph.input}
    types |= {constant.name: constant.data_type for constant in form.model.graph.initializer}
    kinds = types[node.input[0]], attributes.get("to", onnx.TensorProto.INT64)
    return any(np.dtype(helper.tensor_dtype_to_np_dtype(kind)).kind not in "iu" for kind in kinds)


Result = list[tuple[str, tuple[int, ...], bytes]] | str | None


def of_onnx_runtime(form: Form) -> tuple[Result, str]:
    """Its outputs or its error, and whether the latter came from ONNX's rules, when it loaded the model or ran it;
    where it has no kernel, what ONNX's reference implementation gives, if anything."""
    when = "load"
    try:
        session = session_of(form.model)
        when = "run"
        return [bits(np.asarray(output)) for output in session.run(None, dict(form.feeds))], when
    except Exception as error:  # of classes that are not documented
        sentence = str(error)
    if not re.search(NO_KERNEL, sentence):
        return sentence, "rules" if when == "load" and "during initialization" not in sentence else when
    try:
        outputs = ReferenceEvaluator(form.model).run(None, dict(form.feeds))
        return [bits(np.asarray(output)) for output in outputs], "no kernel"
    except Exception:
        return None, "no kernel"


def of_importer(importer: Callable[[ModelProto], torch.nn.Module], form: Form) -> tuple[Result, str]:
    when = "load"
    try:
        module = importer(form.model)
        when = "run"
        return outputs_of(module, list(form.feeds.values())), when
    except (NotImplementedError, RuntimeError, ValueError) as error:
        return str(error), when
