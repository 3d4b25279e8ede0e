"""Graphs of random nodes, written in random ways, against ONNX Runtime.

A graph grows by one node at a time. ONNX Runtime says what a node makes of what there is: its results are looked for in
those of the whole model, and where it refuses the node, so must from_onnx. Lists and numbers are constants of either
kind, inputs, or computed from sizes; the model is then written in other ways that mean the same.

TORCH_DML_OPS_SEED=0             another number: other graphs
TORCH_DML_OPS_FUZZ_CASES=1000    ten for each graph
"""

import copy
import os
import pickle
import random
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnx_models import (
    LEAST,
    MOST,
    RIGHT,
    Outcome,
    bits,
    filled,
    judged,
    model_of,
    needs_onnxruntime_1_24,
    outputs_of,
    recorded_again,
    session_of,
    tensor_of,
    untyped,
)
from oracle import as_list

from torch_dml_ops.onnx import from_onnx
from torch_dml_ops.onnx._importer.operators import OPERATORS

pytestmark = needs_onnxruntime_1_24

SEED = int(os.environ.get("TORCH_DML_OPS_SEED", "0"))
DTYPES = [np.dtype(name) for name in ("float32", "float64", "int64", "int32", "uint8", "bool")]
CASES = int(os.environ.get("TORCH_DML_OPS_FUZZ_CASES", "1000")) // 10
ODD_NAMES = ["a.b", "a/b", "a_b", "x:0", "1", "self", "class", "é", "training", "/m/Shape_output_0", "torch", "_a"]


KINDS_OF_SIZES = ("int32", "int64", "bool")


class Graph:
    """Its nodes, what they are given, and what every value in it is."""

    def __init__(self, rng: random.Random, opset: int = 0) -> None:
        self.rng = rng
        self.opset, self.named = opset or rng.choice([13, 14, 16, 18, 18, 18, 19, 21]), 0
        self.nodes: list[NodeProto] = []
        self.feeds: dict[str, np.ndarray] = {}
        self.constants: dict[str, np.ndarray] = {}
        self.values: dict[str, np.ndarray] = {}
        self.of_sizes: set[str] = set()
        for _ in range(rng.randint(1, 2)):
            sizes = [rng.choice([1, 2, 3, 4, 4, 6, 1, 2, 3, 4, 6, 0]) for _ in range(rng.choice([0, 1, 2, 2, 3, 4]))]
            self.given(filled(sizes, rng.choice(DTYPES)))
        self.given_at_first = len(self.feeds)

    def name(self) -> str:
        self.named += 1
        return f"v{self.named}"

    def given(self, array: np.ndarray) -> str:
        name = self.name()
        self.feeds[name] = self.values[name] = array
        return name

    def held(self, array: np.ndarray) -> str:
        """As an initializer, or as a constant of a node, in one of its forms."""
        name = self.name()
        self.values[name] = array = np.asarray(array)
        self.note_sizes([name])
        form = self.rng.choice(["initializer", "value", "numbers"])
        if form == "initializer" or (form == "numbers" and (array.dtype != np.int64 or array.ndim > 1)):
            self.constants[name] = array
        elif form == "value":
            node = helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array, "held"))
            self.nodes.append(node)
        else:
            node = helper.make_node("Constant", [], [name])
            kind = onnx.AttributeProto.INTS if array.ndim else onnx.AttributeProto.INT
            key = "value_ints" if array.ndim else "value_int"
            node.attribute.append(helper.make_attribute(key, array.tolist(), attr_type=kind))
            self.nodes.append(node)
        return name

    def add(self, op: str, inputs: Sequence[str], outputs: int = 1, **attributes: Any) -> list[str]:
        """The names of what a node makes, by ONNX Runtime, which may refuse it."""
        names = [self.name() for _ in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names))
        for name, value in attributes.items():
            kind = onnx.AttributeProto.INTS if value == [] else None
            self.nodes[-1].attribute.append(helper.make_attribute(name, value, attr_type=kind))
        given = {name: self.values[name] for name in inputs if name}
        held = {name: given.pop(name) for name in inputs[1:] if name in given} if op == "Resize" else {}
        results = session_of(model_of(self.nodes[-1:], given, dict.fromkeys(names), held, self.opset)).run(None, given)
        self.values |= zip(names, map(np.asarray, results), strict=True)
        if op in ("Shape", "Size") or (OPERATORS[op].on_sizes and self.of_sizes.issuperset(filter(None, inputs))):
            self.note_sizes(names)
        return names

    def note_sizes(self, names: Sequence[str]) -> None:
        """Lists and numbers that are, or are computed from sizes and constants alone."""
        made = [(name, self.values[name]) for name in names]
        self.of_sizes |= {name for name, value in made if value.ndim <= 1 and value.dtype.name in KINDS_OF_SIZES}

    def pick(self, *wanted: Callable[[np.ndarray], Any]) -> str:
        """A value for which this holds; one of the last ones more often."""
        names = [name for name, value in self.values.items() if all(holds(value) for holds in wanted)]
        return self.rng.choice(names[-3:] if self.rng.random() < 0.5 else names) if names else ""

    def numbers(self, numbers: Any, dtype: Any = np.int64) -> str:
        """A value that holds these."""
        array = np.array(numbers, dtype)
        same = [name for name, value in self.values.items() if bits(value) == bits(array)]
        if same and self.rng.random() < 0.3:
            return self.rng.choice(same)
        way = self.rng.choice(["given", "held", "computed", "computed"])
        if array.dtype.kind == "u" and array.itemsize > 1:
            way = "given"  # what a module holds is pickled, and by torch, not these
        most = {"int64": 2**40, "int32": 2**20}.get(array.dtype.name, 0)
        if way == "computed" and most and array.ndim <= 1 and np.all(abs(array.astype(float)) < most):
            return self.computed(array) or self.held(array)
        return self.given(array) if way == "given" else self.held(array)

    def computed(self, wanted: np.ndarray) -> str:
        """From the sizes of what there is."""
        rng = self.rng
        data = self.pick(lambda value: value.ndim)
        if not data:
            return ""
        (sizes,) = self.add("Shape", [data])
        where = [rng.randrange(len(self.values[sizes])) for _ in range(wanted.size)]
        which = np.array(where if wanted.ndim else where[0], rng.choice([np.int32, np.int64]))
        (chosen,) = self.add("Gather", [sizes, self.held(which)])
        if wanted.dtype == np.int32:
            (chosen,) = self.add("Cast", [chosen], to=6)

        def held(array: Any) -> str:
            return self.held(np.asarray(array, wanted.dtype))

        factor = rng.choice([1, 1, 2, -3])
        if factor > 1 or factor < 0:
            (chosen,) = self.add("Mul", [chosen, held(factor)])
        have = self.values[chosen]
        match rng.randrange(8):
            case 0:
                (result,) = self.add("Add", [chosen, held(wanted - have)])
            case 5:
                (up,) = self.add("Neg", [chosen])
                (result,) = self.add("Sub", [held(wanted - have), up])
            case 6:
                ops = [rng.choice(["Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual"]) for _ in range(2)]
                a, b = (self.add(op, [chosen, held(have + rng.choice([0, 1, -1]))])[0] for op in ops)
                (which,) = self.add(rng.choice(["And", "Or"]), [a, rng.choice([b, *self.add("Not", [b])])])
                (mixed,) = self.add("Where", [which, chosen, held(wanted)])
                (result,) = self.add("Add", [mixed, held(wanted - self.values[mixed])])
            case 3:
                divisor = rng.choice([3, -3])
                lost = np.where(wanted * divisor < 0, -1, 1)  # as the quotient is rounded towards 0
                (above,) = self.add("Add", [chosen, held(wanted * divisor + lost - have)])
                (result,) = self.add("Div", [above, held(divisor)])
            case 4:
                limit = wanted + np.where(wanted < 0, -2, 2)
                (above,) = self.add("Add", [chosen, held(wanted + limit * rng.choice([0, 1, -2]) - have)])
                (result,) = self.add("Mod", [above, held(limit)])
            case 1:
                (result,) = self.add("Sub", [held(wanted + have), chosen])
            case 2 if np.all(abs(wanted) < 2**30):
                (least,) = self.add("Min", [chosen, held(wanted), held(wanted + 1)])
                (result,) = self.add("Max", [held(wanted), least])
            case _:
                (zero,) = self.add("Sub", [chosen, chosen])
                (result,) = self.add("Add", [held(wanted), zero])
        if not wanted.ndim or not wanted.size:
            return rng.choice([result, *self.add("Identity", [result])])
        match rng.randrange(4):
            case 0:
                bounds = [self.held(np.array([n])) for n in (1, wanted.size)]
                (rest,) = self.add("Slice", [result, *bounds])
                (first,) = self.add("Gather", [result, self.held(np.array([0]))])
                (result,) = self.add("Concat", [first, rest], axis=0)
            case 1 if wanted.size == 1:
                zero = self.held(np.array([0]))
                (one,) = self.add("Squeeze", [result, zero])
                (result,) = self.add("Unsqueeze", [one, zero])
            case 2:
                (result,) = self.add("Cast", [result], to=7 if wanted.dtype == np.int64 else 6)
            case _:
                op, sizes = rng.choice([("Reshape", [-1]), ("Expand", [1]), ("Expand", [wanted.size])])
                (result,) = self.add(op, [result, self.held(np.array(sizes))])
        return result

    def model(self, outputs: Sequence[str]) -> ModelProto:
        return model_of(self.nodes, self.feeds, dict.fromkeys(outputs), self.constants, self.opset)

    # How a node is made of one of these values.

    def axis(self, x: np.ndarray) -> int:
        return self.rng.randint(-x.ndim - (self.rng.random() < 0.03), x.ndim - (self.rng.random() > 0.03))

    def axes(self, x: np.ndarray) -> list[int]:
        chosen = self.rng.sample(range(x.ndim), self.rng.randint(0 if self.rng.random() < 0.1 else 1, max(x.ndim, 1)))
        return [d - x.ndim * self.rng.randrange(2) for d in chosen]

    def grow(self, op: str) -> str | None:
        """By a node, and how it went; None where there is no such node of what there is."""
        before = len(self.nodes), {**self.values}, {**self.feeds}, {**self.constants}
        outcome = self.tried(op)
        if outcome != "the same":
            del self.nodes[before[0] :]
            _, self.values, self.feeds, self.constants = before
        return outcome

    def tried(self, op: str) -> str | None:
        name = self.pick(*NEEDS.get(op, []))
        if not name:
            return None
        try:
            inputs, attributes = NODES[op](self, name, self.values[name])
        except (IndexError, KeyError, ValueError):
            return None
        if self.rng.random() < 0.2:
            self.spoil(op, inputs, attributes)
        elif self.rng.random() < 0.1 and len(inputs) < onnx.defs.get_schema(op).max_input < 9:
            inputs.append("")
        expected: Outcome = []
        try:
            expected = [bits(self.values[output]) for output in self.add(op, inputs, **attributes)]
        except Exception as error:  # of classes that are not documented
            expected = str(error)
        model = self.model(self.nodes[-1].output)
        if self.rng.random() < 0.3:  # else ONNX finds some of the mistakes
            untyped(model)
        outcome = compared(model, lambda: from_onnx(model), self.feeds, expected, {op})
        if self.of_sizes.issuperset(filter(None, [*inputs, *self.nodes[-1].output])):
            with suppress(ValueError):
                from_onnx(model)  # which does not find that they are no sizes
        return None if any(value.size > 10_000 for value in self.values.values()) else outcome

    def spoil(self, op: str, inputs: list[str], attributes: dict[str, Any]) -> None:
        """One thing about a node, perhaps so that it is none."""
        numbers = [name for name, value in attributes.items() if isinstance(value, int | list)]
        if numbers and self.rng.random() < 0.5:
            name, other = self.rng.choice(numbers), self.rng.choice([-9, -1, 1, 2])
            value = attributes[name]
            attributes[name] = value + other if isinstance(value, int) else [*value[1:], other]
            if self.rng.random() < 0.3:
                del attributes[name]
            return
        k = self.rng.randrange(len(inputs))
        match self.rng.randrange(3 if op not in ("Max", "Min") else 1):  # of which ONNX Runtime ends the process
            case 1:
                del inputs[k]
            case 2:
                inputs[k] = ""
            case _:
                inputs[k] = self.pick(lambda value: True)


def compared(
    model: ModelProto,
    module: Callable[[], Callable[..., Any]],
    feeds: Mapping[str, np.ndarray],
    expected: Outcome,
    ops: Collection[str],
) -> str:
    given: Outcome
    try:
        given = outputs_of(module(), [*feeds.values()])
    except (NotImplementedError, RuntimeError, ValueError) as error:
        nodes = model.graph.node
        of_ours = rf"node\[({'|'.join(str(k) for k, node in enumerate(nodes) if node.op_type in ops)})\]"
        given = re.sub(of_ours, "node[0]", str(error))
    how = judged(expected, given, ops)
    listed = {name: array.tolist() for name, array in feeds.items()}
    assert how in RIGHT, (how, onnx.printer.to_text(model), listed, expected, given)
    return how


def of_rank(*ranks: int) -> list[Callable[[np.ndarray], Any]]:
    return [lambda value: value.ndim in ranks]


WHOLE = [lambda value: value.dtype in (np.int64, np.int32)]
SIZES = [lambda value: value.dtype in (np.int64, np.int32) and value.ndim <= 1]
SMALL = [*SIZES, lambda value: np.all(abs(value.astype(float)) < 2**31)]  # of others, Min of ONNX Runtime may be wrong
COMPARISONS = ("Equal", "Greater", "GreaterOrEqual", "LessOrEqual")
NEEDS: dict[str, list[Callable[[np.ndarray], Any]]] = {
    **dict.fromkeys(("Abs", "Add", "Sub", "Mul", "Div", "Mod", "Neg", "ReduceProd", *COMPARISONS), SIZES),
    **dict.fromkeys(("Min", "Max"), SMALL),
    **dict.fromkeys(("Clip", "Less", "Range"), WHOLE),
    **dict.fromkeys(("DepthToSpace", "SpaceToDepth"), of_rank(4)),
    "ReverseSequence": of_rank(2, 3, 4),
    **dict.fromkeys(("Split", "Concat", "Slice"), of_rank(1, 2, 3, 4)),
    "Trilu": of_rank(2, 3, 4),
}
NODES: dict[str, Callable[[Graph, str, np.ndarray], tuple[list[str], dict[str, Any]]]] = {}


def node_of(function: Callable[[Graph, str, np.ndarray], Any]) -> Callable[[Graph, str, np.ndarray], Any]:
    NODES[function.__name__.title().replace("_", "").replace("Nd", "ND")] = function
    return function


def elementwise(g: Graph, name: str, x: np.ndarray) -> Any:
    def fits(value: np.ndarray) -> bool:
        return value.dtype == x.dtype and (value.size in (1, x.size) or x.size == 1)

    other = g.pick(*SMALL, fits) if g.rng.random() < 0.5 else ""
    other = other or g.numbers(np.reshape([g.rng.choice([1, 2, -3, 7]) for _ in range(x.size)], x.shape), x.dtype)
    return [name, other] if g.rng.random() < 0.5 else [other, name], {}


NODES |= dict.fromkeys(("Add", "Sub", "Mul", "Div", "Min", "Max", *COMPARISONS), elementwise)


def of_truth_values(g: Graph, name: str, x: np.ndarray) -> Any:
    sizes = [g.add(op, [name])[0] for op in ("Shape", g.rng.choice(["Shape", "Size"]))]
    others = [g.held(g.values[a] + g.rng.choice([0, 1, -1])) for a in sizes]
    results = [g.add(g.rng.choice(COMPARISONS), pair)[0] for pair in zip(sizes, others, strict=True)]
    return g.rng.sample(results, 2), {}


NODES |= dict.fromkeys(("And", "Or"), of_truth_values)


@node_of
def not_(g: Graph, name: str, x: np.ndarray) -> Any:
    return of_truth_values(g, name, x)[0][:1], {}


@node_of
def mod(g: Graph, name: str, x: np.ndarray) -> Any:
    return elementwise(g, name, x)[0], {"fmod": g.rng.randrange(2)}


@node_of
def cast(g: Graph, name: str, x: np.ndarray) -> Any:
    larger_unsigned = [12, 13] if torch.__version__ >= "2.13" else []  # of which an older torch.where has none
    own = helper.np_dtype_to_tensor_dtype(x.dtype)
    return [name], {"to": own if x.dtype.kind not in "iu" else g.rng.choice([own, 2, 3, 5, 6, 7, 7, *larger_unsigned])}


@node_of
def center_crop_pad(g: Graph, name: str, x: np.ndarray) -> Any:
    axes = g.axes(x)
    if axes or g.rng.random() < 0.5:
        return [name, g.numbers([g.rng.randint(0, 7) for _ in axes])], {"axes": axes}
    return [name, g.numbers([g.rng.randint(0, 7) for _ in x.shape])], {}


@node_of
def clip(g: Graph, name: str, x: np.ndarray) -> Any:
    limits = [g.numbers(g.rng.randint(-9, 9), x.dtype) if g.rng.random() < 0.8 else "" for _ in range(2)]
    return [name, *limits], {}


@node_of
def compress(g: Graph, name: str, x: np.ndarray) -> Any:
    more = {"axis": g.axis(x)} if g.rng.random() < 0.7 else {}
    size = x.shape[more["axis"]] if more else x.size
    choice = [g.rng.random() < 0.5 for _ in range(size + g.rng.choice([0, 0, -1, 2]))]
    return [name, g.numbers(choice, np.bool_)], more


@node_of
def concat(g: Graph, name: str, x: np.ndarray) -> Any:
    axis = g.axis(x)
    d = range(x.ndim)[axis]

    def fits(value: np.ndarray) -> bool:
        return value.dtype == x.dtype and value.ndim == x.ndim and np.delete(value.shape, d).tolist() == rest

    rest = np.delete(x.shape, d).tolist()
    names = [name, *(g.pick(fits) for _ in range(g.rng.randrange(4)))]
    if g.rng.random() < 0.3:
        names.append(g.numbers(filled([2 if k == d else size for k, size in enumerate(x.shape)], x.dtype), x.dtype))
    return g.rng.sample(names, len(names)), {"axis": axis}


@node_of
def constant_of_shape(g: Graph, name: str, x: np.ndarray) -> Any:
    more = {} if g.rng.random() < 0.3 else {"value": numpy_helper.from_array(filled([1], g.rng.choice(DTYPES)))}
    if x.ndim == 1 and g.rng.random() < 0.5:
        return g.add("Shape", [name]), more
    return [g.numbers([g.rng.randint(0, 4) for _ in range(g.rng.randint(0, 3))])], more


@node_of
def depth_to_space(g: Graph, name: str, x: np.ndarray) -> Any:
    return [name], {"blocksize": g.rng.choice([1, 2]), "mode": g.rng.choice(["DCR", "CRD"])}


@node_of
def space_to_depth(g: Graph, name: str, x: np.ndarray) -> Any:
    return [name], {"blocksize": g.rng.choice([1, 2, 3])}


@node_of
def expand(g: Graph, name: str, x: np.ndarray) -> Any:
    sizes = [size if g.rng.random() < 0.5 and size != 1 else g.rng.choice([1, size, 3]) for size in x.shape]
    return [name, g.numbers([*[2] * g.rng.randrange(2), *sizes][g.rng.randrange(2) :])], {}


@node_of
def flatten(g: Graph, name: str, x: np.ndarray) -> Any:
    return [name], {"axis": g.rng.randint(-x.ndim, x.ndim)} if g.rng.random() < 0.8 else {}


def some_indices(g: Graph, sizes: Sequence[int], least: int, most: int) -> str:
    wrong = g.rng.random() < 0.05
    found = np.array([g.rng.randint(least - wrong, most + wrong) for _ in range(int(np.prod(sizes)))]).reshape(sizes)
    return g.numbers(found, g.rng.choice([np.int64, np.int32]))


@node_of
def gather(g: Graph, name: str, x: np.ndarray) -> Any:
    axis = g.axis(x)
    sizes = g.rng.choice([(), (1,), (2,), (3, 2), (0,)])
    return [name, some_indices(g, sizes, -x.shape[axis], x.shape[axis] - 1)], {"axis": axis}


@node_of
def gather_elements(g: Graph, name: str, x: np.ndarray) -> Any:
    axis = g.axis(x)
    sizes = [g.rng.randint(1, size) for size in x.shape]
    return [name, some_indices(g, sizes, -x.shape[axis], x.shape[axis] - 1)], {"axis": axis}


@node_of
def gather_nd(g: Graph, name: str, x: np.ndarray) -> Any:
    sizes, depth = g.rng.choice([(), (1,), (3,), (2, 2)]), g.rng.randint(1, x.ndim)
    along = [[g.rng.randint(-size, size - 1) for _ in range(np.prod(sizes, dtype=int))] for size in x.shape[:depth]]
    return [name, g.numbers(np.reshape(np.array(along).T, [*sizes, depth]))], {}


@node_of
def less(g: Graph, name: str, x: np.ndarray) -> Any:
    if x.ndim <= 1 and g.rng.random() < 0.5:
        return elementwise(g, name, x)
    return [name, g.pick(lambda value: value.dtype == x.dtype and value.ndim in (0, x.ndim))], {}


def alone(g: Graph, name: str, x: np.ndarray) -> Any:
    return [name], {}


NODES |= dict.fromkeys(("Abs", "Identity", "Neg", "Size"), alone)


@node_of
def pad(g: Graph, name: str, x: np.ndarray) -> Any:
    axes = g.axes(x) if g.rng.random() < 0.5 else list(range(x.ndim))
    most = [g.rng.choice([0, 1, size - 1, size, 7]) for size in x.shape]
    pads = [g.rng.choice([0, 0, -1, most[d]]) for _ in range(2) for d in axes]
    mode = g.rng.choice(["constant", "edge", "reflect", "wrap"])
    constant = g.numbers(filled([], x.dtype), x.dtype) if g.rng.random() < 0.5 else ""
    inputs = [name, g.numbers(pads), constant, g.numbers(axes) if axes != list(range(x.ndim)) else ""]
    return inputs, {"mode": mode}


@node_of
def range_(g: Graph, name: str, x: np.ndarray) -> Any:
    numbers = g.rng.randint(-5, 5), g.rng.randint(-5, 9), g.rng.choice([1, 2, -1, -3])
    return [g.numbers(number, x.dtype) for number in numbers], {}


@node_of
def reduce_prod(g: Graph, name: str, x: np.ndarray) -> Any:
    more = {} if g.rng.random() < 0.5 else {"keepdims": g.rng.randrange(3)}
    if x.ndim == 0 or g.rng.random() < 0.5:
        return [name], more
    axes = g.rng.choice([[0], [-1], [], [1]]) if x.size else [0]  # of nothing, ONNX Runtime takes any for no axis
    if g.opset < 18:
        return [name], {**more, **({"axes": axes} if axes else {})}
    return [name, g.numbers(axes)], {**more, "noop_with_empty_axes": g.rng.randrange(3)}


@node_of
def reshape(g: Graph, name: str, x: np.ndarray) -> Any:
    sizes: list[int] = g.rng.choice([[-1], [*x.shape], [*x.shape[::-1]], [0, -1], [-1, 1], [1, -1, *x.shape[1:]], []])
    if sizes and g.rng.random() < 0.3:
        sizes = [*sizes]
        sizes[g.rng.randrange(len(sizes))] = g.rng.choice([-1, 0, 2])
    return [name, g.numbers(sizes)], {"allowzero": g.rng.choice([0, 0, 1])}


@node_of
def resize(g: Graph, name: str, x: np.ndarray) -> Any:
    if x.dtype.itemsize not in (1, 4) or x.dtype == np.bool_ or g.rng.random() < 0.1:
        raise ValueError
    if g.rng.random() < 0.5:
        return [name, "", "", g.numbers([g.rng.choice([size, size * 2, 5]) for size in x.shape])], {"mode": "nearest"}
    return [name, "", g.numbers([g.rng.choice([1, 2, 0.5, 3]) for _ in x.shape], np.float32)], {}


@node_of
def reverse_sequence(g: Graph, name: str, x: np.ndarray) -> Any:
    time = g.rng.randrange(2)
    lengths = [g.rng.randint(1, max(x.shape[time], 1)) for _ in range(x.shape[1 - time])]
    return [name, g.numbers(lengths)], {"time_axis": time, "batch_axis": 1 - time}


@node_of
def scatter_elements(g: Graph, name: str, x: np.ndarray) -> Any:
    axis = g.axis(x)
    sizes = [1 if d == axis % x.ndim else g.rng.randint(1, size) for d, size in enumerate(x.shape)]
    updates = g.numbers(filled(sizes, x.dtype), x.dtype)
    return [name, some_indices(g, sizes, -x.shape[axis], x.shape[axis] - 1), updates], {"axis": axis}


@node_of
def scatter_nd(g: Graph, name: str, x: np.ndarray) -> Any:
    depth = g.rng.randint(1, x.ndim)
    place, count = [g.rng.randint(-size, size - 1) for size in x.shape[:depth]], g.rng.choice([(), (1,), (1, 1)])
    updates = g.numbers(filled([*count, *x.shape[depth:]], x.dtype), x.dtype)
    return [name, g.numbers(np.reshape(place, [*count, depth])), updates], {}


@node_of
def shape(g: Graph, name: str, x: np.ndarray) -> Any:
    return [name], g.rng.choice([{}, {"start": g.rng.randint(-5, 5)}, {"start": 1, "end": g.rng.randint(-5, 5)}])


@node_of
def slice_(g: Graph, name: str, x: np.ndarray) -> Any:
    axes = g.axes(x)
    dtype = g.rng.choice([np.int64, np.int64, np.int32])
    extremes = [MOST, LEAST, LEAST + 1, 2**31 - 1] if dtype == np.int64 else [2**31 - 1, -(2**31)]
    lists = [[g.rng.choice([*range(-7, 8), *extremes]) for _ in axes] for _ in range(2)]
    wrong = 0 if g.rng.random() < 0.1 else 1
    steps = [g.rng.choice([1, 1, 2, -1, -1, -2, 3, extremes[0], 1 - extremes[0], wrong]) for _ in axes]
    more = [g.numbers(axes, dtype) if g.rng.random() < 0.9 else "", g.numbers(steps, dtype)][: g.rng.choice([1, 2, 2])]
    return [name, *(g.numbers(numbers, dtype) for numbers in lists), *more], {}


@node_of
def split(g: Graph, name: str, x: np.ndarray) -> Any:
    axis, count = g.axis(x), g.rng.randint(1, 4)
    cuts = sorted(g.rng.randint(0, x.shape[axis]) for _ in range(count - 1))
    if g.rng.random() < 0.5:
        return [name], {"axis": axis, "num_outputs": count, "outputs": count}
    sizes = np.diff([0, *cuts, x.shape[axis] + (g.rng.random() < 0.05)])
    return [name, g.numbers(sizes)], {"axis": axis, "outputs": count}


@node_of
def squeeze(g: Graph, name: str, x: np.ndarray) -> Any:
    ones = [d for d, size in enumerate(x.shape) if size == 1 or g.rng.random() < 0.05]
    return [name, *([g.numbers(ones)] if g.rng.random() < 0.7 else [])], {}


@node_of
def tile(g: Graph, name: str, x: np.ndarray) -> Any:
    return [name, g.numbers([g.rng.choice([1, 1, 2, 0, 3]) for _ in x.shape])], {}


@node_of
def transpose(g: Graph, name: str, x: np.ndarray) -> Any:
    return [name], {"perm": g.rng.sample(range(x.ndim), x.ndim)} if x.ndim and g.rng.random() < 0.8 else {}


@node_of
def trilu(g: Graph, name: str, x: np.ndarray) -> Any:
    return [name, *([g.numbers(g.rng.choice([*range(-4, 5), MOST, LEAST]))] if g.rng.random() < 0.8 else [])], {
        "upper": g.rng.randrange(2)
    }


@node_of
def unsqueeze(g: Graph, name: str, x: np.ndarray) -> Any:
    axes = g.rng.sample(range(x.ndim + 2), g.rng.randint(1, 2))
    return [name, g.numbers([axis - (x.ndim + len(axes)) * (g.rng.random() < 0.3) for axis in axes])], {}


@node_of
def where(g: Graph, name: str, x: np.ndarray) -> Any:
    condition = [g.rng.random() < 0.5 for _ in range(x.size)]
    sizes = x.shape if g.rng.random() < 0.7 else x.shape[1:]
    flags = g.pick(lambda value: value.dtype == np.bool_ and value.shape in ((), (1,), x.shape))
    if not flags or g.rng.random() < 0.5:
        flags = g.numbers(np.resize(condition, sizes), np.bool_)
    return [flags, name, g.pick(lambda value: value.dtype == x.dtype and value.shape in (x.shape, ()))], {}


def grown(number: int) -> tuple[Graph, list[str]]:
    """A graph, and the names of its outputs."""
    rng = random.Random(f"{SEED} {number}")
    graph = Graph(rng)
    for _ in range(rng.randint(3, 12)):
        graph.grow(rng.choice(sorted(NODES)))
    made = [name for node in graph.nodes for name in node.output]
    if not made:
        made = graph.add("Identity", [*graph.feeds][:1])
    return graph, rng.sample(made, rng.randint(1, min(len(made), 5)))


# Ways in which a model may be written.


def with_inner(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """Those in their branches, too."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            yield from with_inner(attribute.g.node if attribute.HasField("g") else [])


def read_by(graph: GraphProto) -> set[str]:
    return {name for node in with_inner(graph.node) for name in node.input} | {output.name for output in graph.output}


def with_odd_names(model: ModelProto, rng: random.Random) -> None:
    names: dict[str, str] = {"": ""}
    spare = rng.sample(ODD_NAMES, len(ODD_NAMES))

    def other(name: str) -> str:
        if name not in names:
            names[name] = spare.pop() if spare and rng.random() < 0.7 else f"/layer.{len(names)}/out"
        return names[name]

    branches = [attribute.g for node in with_inner(model.graph.node) for attribute in node.attribute]
    for node in with_inner(model.graph.node):
        node.name = rng.choice(["", "a node", node.op_type])
        node.input[:], node.output[:] = map(other, node.input), map(other, node.output)
    for graph in (model.graph, *branches):
        for value in (*graph.input, *graph.output, *graph.initializer):
            value.name = other(value.name)


def taken_out(model: ModelProto, rng: random.Random) -> tuple[int, list[NodeProto], list[str]]:
    """Some nodes that follow one another, where they begin, and what others read of them."""
    nodes = [*model.graph.node]
    begin = rng.randrange(len(nodes))
    inside = nodes[begin : rng.randint(begin + 1, len(nodes))]
    del model.graph.node[begin : begin + len(inside)]
    used = read_by(model.graph)
    made = [name for node in inside for name in node.output]
    return begin, inside, [name for name in made if name in used] or made[:1]


def with_a_branch(model: ModelProto, rng: random.Random) -> None:
    """Some nodes that follow one another are those of a branch. Nobody looks at the other."""
    begin, inside, outputs = taken_out(model, rng)
    names = {name: f"{name}_inside" for name in outputs}
    for node in with_inner(inside):
        node.input[:], node.output[:] = ([names.get(name, name) for name in of] for of in (node.input, node.output))
    made = [onnx.ValueInfoProto(name=name) for name in names.values()]
    elsewhere = read_by(model.graph) | {value.name for value in model.graph.input}
    held = [tensor for tensor in model.graph.initializer if tensor.name not in elsewhere and rng.random() < 0.5]
    for tensor in held:
        model.graph.initializer.remove(tensor)
    branches = {"then_branch": helper.make_graph(inside, "inside", [], made, held)}
    branches["else_branch"] = helper.make_graph([helper.make_node("Relu", ["nothing"], ["none"])], "never", [], [])
    if is_else := rng.random() < 0.5:
        branches = dict(zip(branches, [*branches.values()][::-1], strict=True))
    chosen = numpy_helper.from_array(np.full(rng.choice([(), (1,)]), not is_else), f"chosen{rng.random()}")
    model.graph.initializer.append(chosen)
    model.graph.node.insert(begin, helper.make_node("If", [chosen.name], outputs, **branches))


def with_sequences(model: ModelProto, rng: random.Random) -> None:
    """A Concat or a Split by way of one, any node as what a map does with each tensor; a Cast as to another's type."""
    nodes = [*model.graph.node]
    del model.graph.node[:]
    opset = next(opset.version for opset in model.opset_import if opset.domain in ("", "ai.onnx"))
    held = [[tensor.name] for tensor in model.graph.initializer]
    held += [node.output for node in nodes if node.op_type == "Constant"]  # else pieces of sizes are no longer sizes

    def add(op: str, inputs: Sequence[str], outputs: Sequence[str] = (), **attributes: Any) -> str:
        outputs = outputs or [f"sequence{rng.random()}"]
        model.graph.node.append(helper.make_node(op, inputs, outputs, **attributes))
        return outputs[0]

    def number(value: int) -> str:
        dtype = rng.choice([np.int64, np.int32])
        model.graph.initializer.append(numpy_helper.from_array(np.array(value, dtype), f"number{rng.random()}"))
        return model.graph.initializer[-1].name

    for node in nodes:
        axis = {attribute.name: attribute.i for attribute in node.attribute if attribute.name == "axis"}
        if node.op_type == "Cast" and opset >= 15 and rng.random() < 0.5:
            like = np.zeros((), helper.tensor_dtype_to_np_dtype(node.attribute[0].i))
            name = f"like{rng.random()}"
            model.graph.initializer.append(numpy_helper.from_array(like, name))
            if rng.random() < 0.5:
                name = add("SequenceAt", [add("SequenceConstruct", [name]), number(0)])
            add("CastLike", [*node.input, name], node.output)
        elif node.op_type == "Concat" and rng.random() < 0.5:
            add("ConcatFromSequence", [add("SequenceConstruct", node.input)], node.output, **axis)
        elif node.op_type == "Split" and node.input[1:2] in held and all(node.output) and rng.random() < 0.7:
            pieces = add("SplitToSequence", node.input, **axis)
            for k, name in enumerate(node.output):
                add("SequenceAt", [pieces, number(k)], [name])
        elif (
            node.input
            and len(node.output) == 1
            and "Sequence" not in node.op_type
            and opset >= 17
            and rng.random() < 0.3
        ):
            given, names = rng.choice([*filter(None, node.input)]), [f"of_a_map{rng.random()}" for _ in range(2)]
            body = NodeProto()
            body.CopyFrom(node)
            body.input[:], body.output[:] = [names[0] if name == given else name for name in node.input], names[1:]
            ends = [onnx.ValueInfoProto(name=name) for name in names]
            several = add("SequenceConstruct", [given] * rng.randint(1, 3))
            graph = helper.make_graph([body], "body", ends[:1], ends[1:])
            add("SequenceAt", [add("SequenceMap", [several], body=graph), number(rng.choice([0, -1]))], node.output)
        else:
            model.graph.node.append(node)


def with_a_function(model: ModelProto, rng: random.Random) -> None:
    """Some nodes that follow one another become one, one of whose attributes may be theirs, given or by default."""
    domain = f"our{len(model.functions)}"
    begin, inside, outputs = taken_out(model, rng)
    made = [name for node in with_inner(inside) for name in node.output]
    made += [value.name for node in with_inner(inside) for a in node.attribute for value in a.g.input]
    inputs = [*dict.fromkeys(name for node in with_inner(inside) for name in node.input if name and name not in made)]
    call = helper.make_node("f", inputs, outputs, domain=domain)
    function = helper.make_function(domain, "f", inputs, outputs, inside, [*model.opset_import])
    attributes = [attribute for node in function.node for attribute in node.attribute if not attribute.HasField("g")]
    attributes = [attribute for attribute in attributes if not attribute.ref_attr_name]
    if attributes and rng.random() < 0.7:
        attribute = rng.choice(attributes)
        attribute.name, name = "given", attribute.name
        way = rng.choice(["given", "default", "both"])
        if way != "default":
            call.attribute.add().CopyFrom(attribute)
        if way == "given":
            function.attribute.append("given")
        else:
            function.attribute_proto.add().CopyFrom(attribute)
            if way == "both" and attribute.type == onnx.AttributeProto.INT:
                function.attribute_proto[0].i += 1  # which nobody takes
        kept = onnx.AttributeProto(name=name, type=attribute.type, ref_attr_name="given")
        attribute.CopyFrom(kept)
    model.graph.node.insert(begin, call)
    model.functions.append(function)
    model.opset_import.append(helper.make_opsetid(domain, 1))


def under_the_other_name_of_the_domain(model: ModelProto, rng: random.Random) -> None:
    for node in (*model.graph.node, *(node for function in model.functions for node in function.node)):
        if not node.domain and rng.random() < 0.5:
            node.domain = "ai.onnx"


def without_types(model: ModelProto, rng: random.Random) -> None:
    for value in model.graph.input:
        if rng.random() < 0.7:
            value.type.tensor_type.ClearField(rng.choice(["shape", "elem_type"]))


def with_types(model: ModelProto, rng: random.Random) -> None:
    with suppress(onnx.shape_inference.InferenceError):  # under the other name of the domain
        model.CopyFrom(onnx.shape_inference.infer_shapes(model))


def with_another_domain(model: ModelProto, rng: random.Random) -> None:
    """Of which nothing is used, and whose version says nothing of ONNX's."""
    model.opset_import.insert(rng.randrange(2), helper.make_opsetid("others", rng.choice([1, 99])))


def without_names_of_what_nobody_needs(model: ModelProto, rng: random.Random) -> None:
    """Which ends the process of ONNX Runtime."""
    needed = read_by(model.graph)
    for node in model.graph.node:
        if node.op_type == "Split":
            node.output[:] = [name if name in needed else "" for name in node.output]


def with_defaults(model: ModelProto, rng: random.Random) -> None:
    """As up to version 3 of ONNX's files, where every initializer is that of an input."""
    for held in model.graph.initializer:
        model.graph.input.append(helper.make_tensor_value_info(held.name, held.data_type, held.dims))


WAYS = [with_odd_names, with_a_function, with_a_function, under_the_other_name_of_the_domain]
WAYS += [without_types, with_types, with_another_domain, with_defaults]
WAYS += [with_a_branch, with_a_branch, with_sequences, with_sequences, without_names_of_what_nobody_needs]


def in_another_way(model: ModelProto, rng: random.Random, folder: Path) -> ModelProto | Path:
    for way in rng.sample(WAYS, rng.randint(1, 4)):
        way(model, rng)
    if rng.random() < 0.5:
        return model
    file = folder / f"model{rng.choice(['.onnx', '.textproto', '.json'])}"
    for tensor in tensors_in(model) if file.suffix == ".onnx" else ():
        if rng.random() < 0.7:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))
            with (folder / "data.bin").open("ab") as data:
                onnx.external_data_helper.set_external_data(tensor, "data.bin", data.tell(), len(tensor.raw_data))
                data.write(tensor.raw_data)
            tensor.ClearField("raw_data")
    onnx.save(model, file)
    return file


def tensors_in(message: Any) -> Iterator[TensorProto]:
    """Of the graph, of nodes, of functions, and what these have by default."""
    if isinstance(message, TensorProto):
        yield message
        return
    for field, value in message.ListFields():
        if field.message_type:
            for part in value if hasattr(value, "add") else [value]:
                yield from tensors_in(part)


def refuses_data_elsewhere(file: Path) -> None:
    model = onnx.load(file, load_external_data=False)
    outside = [tensor for tensor in tensors_in(model) if tensor.external_data]
    for tensor in outside:
        tensor.external_data[0].value = "../data.bin"
    if outside:
        onnx.save(model, file)
        with pytest.raises(ValueError, match=r" must lie in the model's folder, got '\.\./data\.bin'$"):
            from_onnx(file)


@pytest.mark.parametrize("op", sorted(NODES))
def test_every_operator_is_met(op: str) -> None:
    """What it gives, and what it refuses."""
    outcomes = Counter[str | None]()
    for number in range(100):
        graph = Graph(random.Random(f"{op} {number}"))
        for _ in range(2):
            graph.grow("Shape")
        outcomes[graph.grow(op)] += 1
        if number > 50 and outcomes["the same"] > 1 and outcomes["refused by both"]:
            break
    assert outcomes["the same"] > 1, outcomes
    assert outcomes["refused by both"], outcomes


def test_every_operator_has_nodes() -> None:
    assert NODES.keys() | {"Scatter", "Upsample"} == OPERATORS.keys() | {"Shape", "Size"}


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("number", range(4 * CASES))
def test_sequences(number: int) -> None:
    """Nodes that make sequences of sequences, and tensors and numbers of them. Some are compiled too."""
    rng = random.Random(f"sequences {SEED} {number}")
    graph = Graph(rng, rng.choice([12, 13, 18, 21]))
    x = rng.choice([*graph.feeds])
    of_x = graph.feeds[x]
    tensors = [x, *(graph.given(np.roll(of_x, k).reshape(of_x.shape)) for k in (1, 2))]

    def add(op: str, *inputs: str, **attributes: Any) -> str:
        graph.nodes.append(helper.make_node(op, inputs, [graph.name()], **attributes))
        return graph.nodes[-1].output[0]

    def numbers(value: Any) -> str:
        array = np.array(value, rng.choice([np.int64, np.int32]))
        return rng.choice([graph.given, graph.held, graph.held])(array)

    def place() -> list[str]:
        return [numbers(rng.randint(-3, 2))] if rng.random() < 0.7 else []

    axis = rng.randint(-2, 1)
    match rng.randrange(5):
        case 0:
            sequence = add("SequenceEmpty", dtype=helper.np_dtype_to_tensor_dtype(graph.feeds[x].dtype))
        case 1 | 2:
            cuts = sorted(rng.choices(range(of_x.shape[axis] + 1), k=rng.randint(0, 3))) if of_x.ndim > 1 else []
            whole = np.diff([0, *cuts, *of_x.shape[axis:][:1]]).tolist()
            some = [rng.randint(0, 3) for _ in range(rng.randint(0, 3))]
            split = rng.choice([None, rng.randint(0, 3), whole, whole, some])
            sizes = [] if split is None else [numbers(split)]
            # With a split, ONNX ignores it; ONNX Runtime does where that is a list, and is at a loss with one above 1.
            kept = 1 if isinstance(split, int) and split > 1 else rng.randrange(2)
            sequence = add("SplitToSequence", x, *sizes, axis=axis, keepdims=kept)
        case _:
            sequence = add("SequenceConstruct", *rng.choices(tensors, k=rng.randint(1, 3)))
    for _ in range(rng.randrange(4)):
        if rng.random() < 0.6:
            sequence = add("SequenceInsert", sequence, rng.choice(tensors), *place())
        else:
            sequence = add("SequenceErase", sequence, *place())
        if rng.random() < 0.2:
            sequence = add("Identity", sequence)
    outputs = [add("SequenceLength", sequence)]
    if rng.random() < 0.7:
        outputs.append(add("SequenceAt", sequence, *(place() or [numbers(0)])))
    if rng.random() < 0.7:
        more_axes = {"new_axis": rng.randrange(2)} if rng.random() < 0.7 else {}
        outputs.append(add("ConcatFromSequence", sequence, axis=axis, **more_axes))
    model = graph.model(outputs)
    expected: Outcome = []
    try:
        results = session_of(model, as_written=True).run(None, graph.feeds)
        expected = [bits(np.asarray(result)) for result in results]
    except Exception as error:  # of classes that are not documented
        expected = str(error)
    how = compared(model, lambda: from_onnx(model), graph.feeds, expected, {node.op_type for node in graph.nodes})
    if number % 20 == 0 and how == "the same":
        has_numbers = len(graph.feeds) > graph.given_at_first + len(tensors[1:])  # as inputs, which break the graph
        compiled = torch.compile(from_onnx(model), dynamic=True, backend="aot_eager", fullgraph=not has_numbers)
        assert outputs_of(compiled, [*graph.feeds.values()]) == expected, onnx.printer.to_text(model)


@pytest.mark.parametrize("number", range(CASES))
def test_a_graph(number: int, tmp_path: Path) -> None:
    """Written in another way too, copied, called again after its results were overwritten, and of other sizes."""
    graph, outputs = grown(number)
    model = graph.model(outputs)
    text = onnx.printer.to_text(model)
    module, expected = from_onnx(model), [bits(graph.values[name]) for name in outputs]
    recorded_again(module)
    for other in (module, pickle.loads(pickle.dumps(module)), copy.deepcopy(module)):
        results = as_list(other(*(tensor_of(array.copy()) for array in graph.feeds.values())))
        assert [bits(result) for result in results] == expected, text
        for result in results:
            torch.empty(0, dtype=torch.uint8, device=result.device).set_(result.untyped_storage()).bitwise_not_()
        assert outputs_of(other, [*graph.feeds.values()]) == expected, text
    written = in_another_way(copy.deepcopy(model), graph.rng, tmp_path)
    as_written = copy.deepcopy(written)
    assert outputs_of(from_onnx(written), [*graph.feeds.values()]) == expected, (text, written)
    assert written == as_written, text
    if isinstance(written, Path) and written.suffix == ".onnx":
        refuses_data_elsewhere(written)
    # Without what no output needs, as only one of the two might refuse that.
    needed = onnx.utils.Extractor(model).extract_model([*graph.feeds], outputs)
    session, module = session_of(needed, as_written=True), from_onnx(needed)
    ops = {node.op_type for node in needed.graph.node}
    least = 2 if "ReverseSequence" in ops else 1  # of 1-d tensors, ONNX Runtime ends the process
    for turn in range(3):
        for name in [*graph.feeds][: graph.given_at_first]:
            sizes = [graph.rng.choice([size, size + turn, min(size, least)]) for size in graph.feeds[name].shape]
            graph.feeds[name] = filled(sizes, graph.feeds[name].dtype)
        results = []
        try:
            results = [bits(np.asarray(output)) for output in session.run(None, graph.feeds)]
        except Exception as error:  # of classes that are not documented
            results = str(error)
        compared(needed, lambda: module, graph.feeds, results, ops)


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("number", range(CASES, CASES + max(CASES // 10, 1)))
def test_a_compiled_graph(number: int) -> None:
    """Of sizes that are symbols. Numbers that are inputs break the graph; what nothing reads may be checked no more."""
    graph, outputs = grown(number)
    module = from_onnx(model := graph.model(outputs))
    compiled = torch.compile(module, dynamic=True, backend="aot_eager")
    for turn in range(4):
        feeds, expected = [*graph.feeds.values()], None
        with suppress(RuntimeError, ValueError):
            expected = outputs_of(module, feeds)
        assert expected is None or outputs_of(compiled, feeds) == expected, (onnx.printer.to_text(model), feeds)
        for name in [*graph.feeds][: graph.given_at_first]:
            sizes = [graph.rng.choice([size, size + turn, 1]) for size in graph.feeds[name].shape]
            graph.feeds[name] = filled(sizes, graph.feeds[name].dtype)
