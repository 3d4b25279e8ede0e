"""What from_onnx refuses, and what its modules do."""

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import ModelProto, helper
from onnx_models import LEAST, MOST, by_onnx2torch, graph_of, one, parsed, refusal, tensor_of, untyped

from torch_dml_ops.onnx import from_onnx
from torch_dml_ops.onnx._importer import files


def with_functions(**calls: Sequence[str]) -> ModelProto:
    """A model that calls the function f0; each calls these one after the other, or does nothing."""
    text = "main (float[N] x) => (float[N] y) { y = our.f0 (x) }"
    for name, called in calls.items():
        names = ["x", *(f"a{k}" for k in range(1, len(called))), "y"]
        body = [f"{names[k + 1]} = {op} ({names[k]})" for k, op in enumerate(called)]
        text += f'<domain: "our", opset_import: ["": 18, "our": 1]> {name} (x) => (y) {{ {" ".join(body)} }}'
    return parsed(text, '"": 18, "our": 1')


def twice_each(last: int) -> ModelProto:
    return with_functions(**{f"f{k}": ["Identity" if k == last else f"our.f{k + 1}"] * 2 for k in range(last + 1)})


def in_branches(model: ModelProto) -> ModelProto:
    """The same, with the nodes of each function in the graph of a node."""
    for function in model.functions:
        branch = helper.make_graph(function.node, "branch", [], [onnx.ValueInfoProto(name=function.output[0])])
        function.ClearField("node")
        function.node.append(helper.make_node("If", function.input[:1], function.output, then_branch=branch))
    return model


COORDINATES = (
    "must be Resize with coordinate_transformation_mode half_pixel, half_pixel_symmetric, pytorch_half_pixel, "
    "align_corners, asymmetric or tf_half_pixel_for_nn, got 'tf_crop_and_resize'"
)
# What from_onnx says of one of these nodes.
NOT_MOVING = {
    "a = Identity (x) y = Relu (a)": "[1] must move data, got Relu",
    "[act] a = Relu (x) y = Sigmoid (a)": "[0] ('act') must move data, got Relu",
    "y = com.microsoft.Gelu (x)": "[0] must move data, got com.microsoft.Gelu",
    "y = Add (x, x)": "[0] must move data, got Add of FLOAT",
    "y = Div (x, x)": "[0] must move data, got Div of tensors that are no sizes",
    "a = Identity (x) b = Cast <to = 6> (a) y = Identity (b)": "[1] must move data, got Cast of FLOAT to INT32",
    "b = Shape (x) a = Cast <to = 2> (b) y = Cast <to = 9> (a)": "[2] must move data, got Cast of UINT8 to BOOL",
    "b = Shape (x) a = Cast <to = 1> (b) y = Identity (a)": "[1] must move data, got Cast of INT64 to FLOAT",
    'y = Pad <mode = "odd"> (x, i)': "[0] must be Pad with mode constant, edge, reflect or wrap, got 'odd'",
    'y = Resize <coordinate_transformation_mode = "tf_crop_and_resize"> (x, x, x)': f"[0] {COORDINATES}",
}
ONE_AND_TWO = "then_branch = one () => (float[N] a) { a = Identity (x) }, else_branch = two () => (float[N] x) { }"
NOT_MOVING |= {
    f"n = Shape (x) m = Size (x) c = Less (m, n) y = If (c) <{ONE_AND_TWO}>": "[3] must move data, got If of a "
    "condition that depends on the inputs",
    f"c = Constant <value = bool {{1}}> () z = If (c) <{ONE_AND_TWO}> y = Cast <to = 6> (z)": "[2] must move data, got "
    "Cast of FLOAT to INT32",
    "c = Constant <value = bool {1}> () y = If (c) <then_branch = one () => (float[N] a) { a = Relu (x) }, "
    "else_branch = two () => (float[N] x) { }>": "[1].then_branch.node[0] must move data, got Relu",
}
FOR_EACH = "y = SequenceMap ({}) <body = one (float[N] {}) => (float[N] b) {{ b = Identity (a) }}>"
NOT_MOVING |= {
    f"s = SplitToSequence (x) {FOR_EACH.format('s', 'a')}": "[1] must move data, got SequenceMap of a sequence whose "
    "length depends on the inputs",
}
MALFORMED = {
    "s = SequenceConstruct (x) y = Shape (s)": "[1] must have a tensor as input 0, got a sequence, 's'",
    "y = SequenceAt (x, i)": "[0] must have a sequence as input 0, got a tensor, 'x'",
    "y = SequenceConstruct (x, , x)": "[0] must be a SequenceConstruct of named inputs, got one without a name",
    f"s = SequenceConstruct (x) {FOR_EACH.format('s', 'x')}": "[1] must have inputs with names of their own, got 'x' "
    "again",
    f"s = SequenceConstruct (x, x) t = SequenceConstruct (x) {FOR_EACH.format('s, t', 'a, float[N] c')}": "[2] must "
    "have sequences of one length, got [1, 2]",
    f"s = SequenceConstruct (x, x) {FOR_EACH.format('s, x', 'a, float[N] a')}": "[1] must have inputs with names of "
    "their own, got 'a' again",
    f"s = SequenceConstruct (x) {FOR_EACH.format('s, , x', 'a, float c, float d')}": "[1] must be a SequenceMap of "
    "named inputs, got one without a name",
    "s = SequenceConstruct (x) y = SequenceMap (s) <body = one (float a) => (seq(float) b) { b = SequenceConstruct (a) "
    "}>": "[1] must have a body that gives tensors, got one that gives a sequence",
    "s = SequenceEmpty () y = ConcatFromSequence <axis = 0> (s)": "[1] must have at least one tensor in its sequence, "
    "got none",
    f"s = SequenceConstruct (x) {FOR_EACH.format('s, x', 'a')}": "[1] must have as many inputs as its body, 1, got 2",
    f"c = Constant <value_int = 1> () y = If (c) <{ONE_AND_TWO}>": "[1] must be an If of one truth value, got 1",
    "c = Constant <value = bool {0}> () y = If (c) <then_branch = one () => (float[N] x) { }, else_branch = two () => "
    "(float[N] x) <float[1] x = {2}> { }>": "[1] must have initializers with names of their own, got 'x' again",
    f"c = Constant <value = bool {{1}}> () y, z = If (c) <{ONE_AND_TWO}>": "[1] must have as many outputs as its "
    "then_branch, 1, got 2",
    "c = Constant <value = bool {0}> () y = If (c) <then_branch = one () => (float[N] x) { }>": "[1] must be a valid "
    "If: Required attribute 'else_branch' is missing",
    'y = Constant <value_string = "a"> ()': "[0] must be a Constant of dense numbers, got value_string",
    "y = Constant ()": "[0] must be a valid Constant: One and only one of the attributes 'value', 'value_*' or "
    "'sparse_value' must be specified for a Constant node",
    "y = Identity (z)": "[0] must have inputs that are known before it, got 'z'",
    "x = Identity (x)": "[0] must have outputs with names of their own, got 'x' again",
    "y = Identity (x) y = Identity (x)": "[1] must have outputs with names of their own, got 'y' again",
    "y, y = Split <num_outputs = 2> (x)": "[0] must have outputs with names of their own, got 'y' again",
    "y, z = Split <num_outputs = 9> (x)": "[0] must have as many outputs as num_outputs says, got 2 and 9",
    "y = Concat (x, x)": "[0] must be a valid Concat: Required attribute 'axis' is missing",
    "y = Concat <axis = 0> (x, , x)": "[0] must be a Concat of named inputs, got one without a name",
    "y = Transpose <perm = [-1]> (x)": "[0] must have a perm that holds each axis once, got [-1]",
    "y = ReverseSequence <time_axis = 1> (x, i)": "[0] must have one of time_axis and batch_axis 0 and the other 1, "
    "got 1 and 1",
}
MALFORMED |= {
    f"z = Constant <value_int = 0> () n = Shape (x) m = Identity (z) y = {op} (z, m)": "[3] cannot be computed: "
    f"{op[:3]}: the divisor must not be 0"
    for op in ("Div", "Mod", "Mod <fmod = 1>")
}
MALFORMED |= {
    f"a = Constant <value_ints = [{a}]> () b = Constant <value_ints = [{b}]> () y = {op} (a, b)": "[2] cannot be "
    f"computed: {op}: the result must fit int64, got {result}"
    for op, a, b, result in (
        ("Add", MOST, 1, MOST + 1),
        ("Sub", LEAST, 1, LEAST - 1),
        ("Mul", MOST, MOST, 85070591730234615847396907784232501249),
    )
}
REFUSED = [
    *(
        (graph_of(nodes), f"graph.node{said}; for whole models see register_onnx2torch")
        for nodes, said in NOT_MOVING.items()
    ),
    *((graph_of(nodes), f"graph.node{said}") for nodes, said in MALFORMED.items()),
    (graph_of("z = Identity (x)"), "output 'y' must be the output of a node, and is of none"),
    (graph_of("y = Shape (x)"), "output 'y' must be of the type that it is declared as, got FLOAT and INT64"),
    (
        untyped(graph_of("y = CastLike (i, x)")),
        "graph.node[0] must move data, got CastLike of a type that the model does not tell; for whole models see "
        "register_onnx2torch",
    ),
    (
        graph_of(f"s = SequenceConstruct (x) {FOR_EACH.replace('float', 'int64', 1).format('s', 'a')}"),
        "input 'a' of graph.node[1] must be of the type that it is declared as, got INT64 and FLOAT",
    ),
    (graph_of("y = SequenceConstruct (x)"), "output 'y' must be of the type that it is declared as, got a sequence"),
    *(
        (graph_of("y = Identity (x)", inputs), sentence)
        for inputs, sentence in {
            "int4[N] x": "input 'x' must have an element type that torch has, got INT4",
            "float[N] x, float[M] x": "inputs must have names of their own, got 'x' again",
        }.items()
    ),
    *(
        (
            graph_of("y = Identity (x)", opsets={"": opset}),
            f"model must use an opset from 1 to {onnx.defs.onnx_opset_version()}, the last of onnx {onnx.__version__}, "
            f"got {opset}",
        )
        for opset in (-1, 0, onnx.defs.onnx_opset_version() + 1, 2**31 - 1, 2**31, MOST)
    ),
    (graph_of("y = Identity (x)", opsets={"": 18, "ai.onnx": 13}), "model must use one opset of ONNX, got 13 and 18"),
    *(
        (
            graph_of(f"y, z = Split <split = {sizes}> (x)", opsets={"": opset}),
            f"graph.node[0] must have a split of sizes that are at least 0, got {said}",
        )
        for opset in (2, 11)
        for sizes, said in (([3, -1], "-1 for split[1]"), ([LEAST, 3], f"{LEAST} for split[0]"))
    ),
    (graph_of("y = Tile (x, x, x)", opsets={"": 1}), "graph.node[0] must be Tile of opset 6 or later, got opset 1"),
    # Found before functions are inlined, which would take for ever.
    *(
        (model, f"the functions of the model must give at most 100000 nodes where they are inlined, got {got}")
        for model, got in (
            (twice_each(25), "67108864"),
            (twice_each(400), f"{str(2**401)[:59]}…"),
            (in_branches(twice_each(25)), "134217727"),
        )
    ),
    *(
        (where(with_functions(**functions)), f"the functions of the model must not call themselves, got 'our.{name}'")
        for where in (lambda model: model, in_branches)
        for name, functions in (
            ("f0", {"f0": ["our.f0"]}),
            ("f1", {"f0": ["our.f1"], "f1": ["Identity", "our.f2"], "f2": ["our.f1"]}),
        )
    ),
]


@pytest.mark.parametrize("call", ["y = our.f (x, x)", "y, z = our.f (x)"])
def test_what_the_onnx_package_refuses_of_functions(call: str) -> None:
    """In its own words, on one line."""
    function = '<domain: "our", opset_import: ["": 18]> f (x) => (y) { y = Identity (x) }'
    model = parsed(f"main (float[N] x) => (float[N] y) {{ {call} }} {function}", '"": 18, "our": 1')
    assert re.fullmatch(r"from_onnx: the functions of the model must be valid: \S[^\n]+", refusal(model))


@pytest.mark.parametrize(("model", "sentence"), [pytest.param(*row, id=row[1][:60]) for row in REFUSED])
def test_what_is_refused(model: ModelProto, sentence: str) -> None:
    assert refusal(model) == f"from_onnx: {sentence}"


def test_what_is_nearly_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """An opset under both names of ONNX's domain; as many nodes as functions must not give, and no functions."""
    monkeypatch.setattr(files, "MOST_NODES", 2)
    model = graph_of("a = Identity (x) b = Identity (a) y = Identity (b)", "float[N] x", opsets={"": 18, "ai.onnx": 18})
    assert from_onnx(model)(torch.ones(2)).tolist() == [1, 1]
    assert "must give at most 2 nodes" in refusal(with_functions(f0=["Identity"] * 3))
    too_many = "must be a SequenceMap that gives at most 2 nodes"
    for given, more, said in (
        ("x, x", "", ""),
        ("x, x, x", "", f"graph.node[1] {too_many}"),
        ("x, x", "=> (float[N] d) { d = Identity (c) }", f"graph.node[2] {too_many}"),
        ("x, x", "=> (float[N] c) { }", f"graph.node[2] {too_many}"),
    ):
        again = f"w = SequenceMap (y) <body = two (float[N] c) {more}>" if more else ""
        each = f"s = SequenceConstruct ({given}) {FOR_EACH.format('s', 'a')} {again} z = SequenceAt (y, i)"
        model = parsed(f"g (float[N] x) => (float[N] z) <int64 i = {{-1}}> {{ {each} }}")
        assert refusal(model) == f"from_onnx: {said}" if said else from_onnx(model)(torch.ones(2)).tolist() == [1, 1]


def test_graphs_of_two_nodes_have_the_same_names() -> None:
    nodes = f"c = Constant <value = bool {{1}}> () z = If (c) <{ONE_AND_TWO}> y = If (c) <{ONE_AND_TWO}>"
    assert from_onnx(graph_of(nodes, "float[N] x"))(torch.ones(2)).tolist() == [1, 1]


X = np.zeros((2, 3), np.float32)


def on(sentence: str, *inputs: Any, x: np.ndarray = X, **more: Any) -> tuple[str, list[np.ndarray], Any]:
    """What is said, the first input of a node, and others as arrays or lists; with other arguments of `one`."""
    arrays = [np.asarray(given) for given in inputs]
    for k, array in enumerate(arrays):
        if isinstance(inputs[k], list) and array.dtype == np.float64:
            arrays[k] = array.astype(np.float32)
    return sentence, [x, *arrays], more


# What is said when the module runs, and what its node is given.
REFUSED_WHEN_RUN = [
    on("Slice: steps[0] must not be 0", [0], [1], [0], [0]),
    on("Slice: axes[0] must be from -2 to 1, got 2", [0], [1], [2], [1]),
    on("Slice: axes must differ from one another, got -1 for axes[1] and for one before it", [0, 0], [1, 1], [1, -1]),
    on("Slice: ends must have length 1, as starts has, got 2", [0], [1, 1], [0], [1]),
    on("Slice: starts must be a 1-d tensor of int32 or int64, got a 2-d tensor of int64", [[0]], [1], [0], [1]),
    on("Split: split must sum to 2, the size of axis 0, got [1, 3]", [1, 3], outputs=2),
    on("Split: split[1] must be at least 0, got -1", [3, -1], outputs=2),
    on("Split: split must have length 2, one for each output, got 3", [1, 1, 0], outputs=2),
    on("Split: axis must be from -2 to 1, got 2", [1, 1], outputs=2, axis=2),
    on("Split: axis 0 must divide by 3, the number of outputs, got size 7", x=np.zeros(7), outputs=3, opset=13),
    on(
        "ReverseSequence: reverse_sequence: lengths must have sizes [3], one for each index of axis 1 of input, got [2]"
        "; where items lie along axis 0, write axis=1, batch_axis=0",
        [1, 1],
    ),
    on("Reshape: shape[2] must not be 0, as data has no dimension 2", [1, 6, 0]),
    on("Squeeze: axes[0] must be an axis of size 1, got 0, of size 2", [0]),
    on("Reshape: shape[1] must be at least -1, got -2", [3, -2]),
    on("Reshape: shape must hold one -1 at most, got [-1, -1]", [-1, -1]),
    on("Reshape: shape must hold the 6 elements of data, got [4]", [4]),
    on("Transpose: perm must hold each axis from 0 to 1 once, got [0, 1, 2]", perm=[0, 1, 2]),
    on("Expand: shape[1] must be at least 0, got -1", [2, -1]),
    on("Expand: shape must broadcast with the sizes of input, [2, 3], got [2]", [2]),
    on(f"Expand: output must have less than 2**63 bytes, got sizes [{2**61}, 1, 1]", [2**61, 1, 1]),
    on("Tile: repeats must have length 2, one for each dimension, got 1", [2]),
    on("Tile: repeats[1] must be at least 0, got -1", [1, -1]),
    on(f"Tile: output must have less than 2**63 bytes, got sizes [2, {3 * 2**60}]", [1, 2**60]),
    on("Cast: input must have a dtype of whole numbers, got float32", to=7),
    on("Where: condition must have dtype bool, got int64", [1], [2.0], x=np.ones(1, np.int64)),
    on("Where: inputs must have sizes that broadcast, got [2] and [3] and [1]", [1, 2, 3], [1], x=np.ones(2, bool)),
    on("Range: delta must not be 0", 3, 0, x=np.array(0)),
    on("Clip: input must have a dtype of whole numbers, got float32", 0.0),
    on("Less: inputs must have a dtype of whole numbers, got float32", [1.0]),
    on("Sub: inputs must have sizes that broadcast, got [2] and [3]", [1, 2, 3], x=np.arange(2)),
    on("Pad: pads must have length 4, two for each axis, got 2", [1, 1]),
    *(
        on(f"Pad: pads must remove at most {most} from axis {d}, its size, got {most + 1}", pads, mode=mode)
        for mode in ("constant", "edge", "reflect", "wrap")
        for pads, most, d in (([-3, 0, 9, 0], 2, 0), ([9, 0, -3, 0], 2, 0), ([0, -2, 0, -2], 3, 1))
    ),
    on(
        "Pad: pads of mode reflect must be at most 0 for axis 0, of which it keeps 1, got [0, 1]",
        [-1, 0, 1, 0],
        mode="reflect",
    ),
    on("CenterCropPad: shape must have length 2, one for each axis, got 1", [2]),
    on("CenterCropPad: shape must have length 1, one for each axis, got 2", [2, 2], axes=[0]),
    on("CenterCropPad: shape[1] must be at least 0, got -1", [2, -1]),
    on("Pad: constant_value must be one number, got a tensor of sizes [2]", [1] * 4, [1.0, 2.0]),
    on("SpaceToDepth: input must have 4 dimensions, got 2", blocksize=2),
    on("SpaceToDepth: blocksize must be at least 1, got 0", x=np.zeros((1, 1, 2, 2)), blocksize=0),
    on("SpaceToDepth: axis 3 must divide by 2, the blocksize, got size 3", x=np.zeros((1, 1, 2, 3)), blocksize=2),
    on(
        "DepthToSpace: axis 1 must divide by 4, the square of blocksize, got size 6",
        x=np.zeros((1, 6, 1, 1)),
        blocksize=2,
    ),
    on("GatherElements: indices must have as many dimensions as data, 2, got 1", [0]),
    on("GatherElements: indices must have at most size 3, as data has, at axis 1, got 4", [[0] * 4]),
    on("GatherND: indices must begin with sizes [2], as data does, got [1]", [[0]], batch_dims=1),
    on("GatherND: batch_dims must be from 0 to 1, got 2", [[0], [0]], batch_dims=2),
    on("GatherND: indices must be from -3 to 2, got 3", [1, 3]),
    on(
        "GatherND: indices must have a last axis of 1 to 2, as many as data has axes, got sizes [1, 1, 3]",
        [[[0, 0, 0]]],
    ),
    on(
        "GatherND: indices must have a last axis of 1 to 1, as many as data has axes besides batch_dims, got sizes "
        "[2, 2]",
        [[0, 0], [0, 0]],
        batch_dims=1,
    ),
    on("ScatterND: updates must have dtype float32, as data has, got int64", [[0]], [[1, 1, 1]]),
    on("ScatterElements: updates must have sizes [1, 1], got [1, 2]", [[0]], [[1, 1]]),
    on("ScatterElements: updates must have dtype float32, as data has, got int64", [[0]], [[1]]),
    on("Scatter: updates must have sizes [1, 1], got [1, 2]", [[0]], [[1, 1]], opset=9),
    on("Scatter: indices must be from -2 to 1, got 2", [[2]], [[1.0]], opset=9),
    on("Scatter: axis must be from -2 to 1, got 2", [[0]], [[1.0]], opset=9, axis=2),
    *(
        on(f"Clip: {name} must be one number, got a tensor of sizes [1, 1]", *limits, x=np.arange(3))
        for name, limits in (("min", ([[0]], 2)), ("max", (0, [[2]])))
    ),
    on("Trilu: k must be one whole number, got a tensor of sizes [2], of dtype int64", [1, 2]),
    on("Trilu: input must have 2 dimensions or more, got 1", x=np.arange(3)),
    on("Upsample: scales[1] must be a finite number from 1 on, got 0.5", [2.0, 0.5], opset=9),
    on("Upsample: scales[0] must be a finite number from 1 on, got inf", [float("inf"), 1.0], opset=9),
    on("Resize: scales[0] must be a finite number above 0, got 0.0", [], [0.0, 1.0]),
    on("Resize: scales[1] must be a finite number above 0, got nan", [], [1.0, float("nan")]),
    on("Resize: scales must have length 2, one for each axis, got 1", [], [2.0]),
    on("Resize: sizes[1] must be at least 1, got 0", [], [], [4, 0]),
    on("Resize: sizes must have length 2, one for each axis, got 3", [], [], [4, 0, 1]),
    on("Resize: one of scales and sizes must be given, got both", [], [2.0, 2.0], [4, 6]),
    on("Resize: sizes[0] must be 0, as that axis has no elements, got 4", [], [], [4, 6], x=X[:0]),
    on("Resize: sizes[0] must be at least 1, got 0", [], [], [0, 3], keep_aspect_ratio_policy="not_larger"),
    on("Resize: one of sizes must be at least 1, got [0, -1]", [], [], [0, -1], keep_aspect_ratio_policy="not_smaller"),
    *(
        on(
            "Concat: inputs[1] must have dtype float32 and sizes [2, 0], as inputs[0] has, except along axis 1, got "
            f"{piece.dtype} and {[*piece.shape]}",
            piece,
            x=X[:, :0],
            axis=1,
        )
        for piece in (np.zeros((3, 1), np.float32), np.zeros(2, np.float32), np.zeros((2, 1), np.float64))
    ),
]
SQUARE, ONE, CUBE = (np.ones(sizes, np.float32) for sizes in ((2, 2), (), (2, 3, 4)))
REFUSED_WHEN_RUN += [  # no masks, and no fractions that are lost
    on(f"{op}: indices must have dtype int32 or int64, got {dtype}", np.ones(sizes, dtype), *updates, x=SQUARE)
    for op, sizes, *updates in (
        *(("Gather", (2, 2)), ("GatherElements", (2, 2)), ("GatherND", (2, 1))),
        *(("ScatterElements", (2, 2), SQUARE), ("ScatterND", (2, 1), SQUARE)),
    )
    for dtype in ("bool", "uint8", "int8", "float32", "complex64")
]
REFUSED_WHEN_RUN += [
    on(f"{op}: axis must be an axis of the input, which is 0-d and has none, got 0", *inputs, x=ONE, **more)
    for op, inputs, more in (
        *(("Gather", [0], {}), ("GatherElements", [0], {})),
        *(("ScatterElements", [0, ONE], {}), ("Split", [], {"num_outputs": 1})),
    )
]


def out_of_range() -> Iterator[Any]:
    """One index for each axis of CUBE, one more than the last and one less than the first."""
    for axis, last in itertools.product(range(3), (True, False)):
        n = CUBE.shape[axis]
        wrong = n if last else -n - 1
        said = f"indices must be from {-n} to {n - 1}, got {wrong}"
        yield from (on(f"{op}: {said}", [[[0, wrong]]], x=CUBE, axis=axis) for op in ("Gather", "GatherElements"))
        yield on(f"ScatterElements: {said}", [[[0, wrong]]], CUBE[:1, :1, :2], x=CUBE, axis=axis)
        for batch, end in itertools.product(range(axis + 1), range(axis + 1, 4)):
            indices = np.zeros((*CUBE.shape[:batch], 2, end - batch), np.int64)
            indices[..., 1, axis - batch] = wrong
            yield on(f"GatherND: {said}", indices, x=CUBE, batch_dims=batch)
            if batch == 0:
                yield on(f"ScatterND: {said}", indices, np.ones((2, *CUBE.shape[end:]), np.float32), x=CUBE)


@pytest.mark.parametrize(("sentence", "inputs", "more"), [*REFUSED_WHEN_RUN, *out_of_range()])
def test_what_is_refused_when_it_runs(sentence: str, inputs: Sequence[np.ndarray], more: Any) -> None:
    feeds, op = {f"x{k}": array for k, array in enumerate(inputs)}, sentence.partition(":")[0]
    module = from_onnx(untyped(one(op, feeds, **more)))
    with pytest.raises((RuntimeError, ValueError)) as caught:
        module(*map(tensor_of, feeds.values()))
    assert str(caught.value) == sentence.removeprefix("ReverseSequence: ")


@pytest.mark.parametrize(
    ("opset", "node", "sentence"),
    [
        (13, 'Resize <coordinate_transformation_mode = "tf_crop_and_resize"> (x, , s)', f" {COORDINATES}"),
        (
            18,
            'ScatterElements <reduction = "max"> (x, i, x)',
            " must be ScatterElements with reduction none, got 'max'",
        ),
        (18, "Concat (x, x)", " must be a valid Concat: Required attribute 'axis' is missing"),
        (18, "Concat <axis = 0> (x, , x)", " must be a Concat of named inputs, got one without a name"),
        (18, "Slice (x, k, k)", ": starts must be a 1-d tensor of int32 or int64, got a 0-d tensor of int64"),
    ],
)
def test_what_neither_these_operators_nor_onnx2torch_do(opset: int, node: str, sentence: str) -> None:
    constants = "float[1] s = {2}, int64[2] i = {0, 1}, int64 k = {1}"
    model = parsed(f"refused (float[2] x) => (float[N] y) <{constants}> {{ y = {node} }}", f'"": {opset}')
    assert refusal(model, by_onnx2torch) == f"register_onnx2torch: node '{node.split()[0]}'{sentence}"


@pytest.mark.parametrize(
    ("node", "sentence"),
    [
        ("Gather (sizes, three)", "Gather: indices must be from -2 to 1, got 3"),
        ("Tile (sizes, minus)", "Tile: repeats[0] must be at least 0, got -1"),
        ("Expand (count, minus)", "Expand: shape[0] must be at least 0, got -1"),
        ("Expand (sizes, three)", "Expand: shape must broadcast with 2 sizes, got [3]"),
        ("Squeeze (sizes, zero)", "Squeeze: data must have 1 element, got 2"),
        ("Reshape (sizes, three)", "Reshape: shape must hold 2 elements, got [3]"),
    ],
)
def test_what_is_refused_of_sizes(node: str, sentence: str) -> None:
    numbers = "int64[1] three = {3}, int64[1] minus = {-1}, int64[1] zero = {0}"
    nodes = f"sizes = Shape (x) count = Size (x) y = {node}"
    module = from_onnx(untyped(parsed(f"g (float[A, B] x) => (int64[M] y) <{numbers}> {{ {nodes} }}")))
    with pytest.raises(ValueError, match=rf"^{re.escape(sentence)}(\n|$)"):
        module(torch.zeros(4, 5))
