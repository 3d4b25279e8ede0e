"""Arguments of every type to everything public: each is taken, or refused in one sentence of ours."""

import dataclasses
import decimal
import enum
import fractions
import inspect
import io
import json
import math
import operator
import re
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from descriptors.bad_models import good, nested, places, replaced
from descriptors.cases import arguments_of_infer_output, op_desc
from descriptors.rules import VALID, X

from torch_dml_ops import directml
from torch_dml_ops.__main__ import main
from torch_dml_ops.directml import (
    CompiledGraph,
    DescriptorError,
    ExecutionFlags,
    Expression,
    FeatureLevel,
    Graph,
    InputGraphEdgeDesc,
    IntermediateGraphEdgeDesc,
    Model,
    ModelError,
    ModelWarning,
    Operator,
    OperatorDesc,
    OperatorGraphNodeDesc,
    OperatorType,
    OutputGraphEdgeDesc,
    Problem,
    Support,
    TensorDataType,
    TensorDesc,
    TensorFlags,
    TensorPolicy,
    TensorProperties,
    TensorType,
    Violation,
)

pytestmark = pytest.mark.filterwarnings("ignore::torch_dml_ops.directml.ModelWarning")

EXAMPLES = Path(__file__).parents[2] / "examples" / "models"

LONGEST = 300  # of a sentence


class Hostile:
    """Nothing can be learned from it."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    def __index__(self) -> int:
        raise RuntimeError("no index")

    def __iter__(self) -> Iterator[Any]:
        raise RuntimeError("no items")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not even comparable")

    def __hash__(self) -> int:
        raise RuntimeError("no hash")


def anything() -> dict[str, Any]:
    """A value of every type, made anew, as generators can be used once."""
    jagged = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
    return {
        "None": None,
        "bool": True,
        "int": 1,
        "large int": 10**30,
        "int of 5 001 digits": 10**5000,
        "negative int": -1,
        "float": 1.9,
        "nan": math.nan,
        "complex": 1 + 2j,
        "Decimal": decimal.Decimal("1.9"),
        "Fraction": fractions.Fraction(19, 10),
        "str": "x",
        "empty str": "",
        "str of lines": "a\nb",
        "str with a NUL": "a\0b",
        "bytes": b"\1\2",
        "bytearray": bytearray(b"\1\2"),
        "list": [1, 2],
        "empty list": [],
        "list of str": ["x"],
        "list of float": [1.5],
        "list of lists": [[1], [2]],
        "deep list": nested(5000),
        "tuple": (1, 2),
        "range": range(2),
        "dict": {"x": 1},
        "dict of numbers": {1: 2},
        "empty dict": {},
        "set": {1, 2},
        "frozenset": frozenset({1}),
        "object": object(),
        "hostile": Hostile(),
        "list of hostile": [Hostile()],
        "generator": (k for k in (1, 2)),
        "generator of str": (k for k in ("x", "y")),
        "iterator": iter([1, 2]),
        "Ellipsis": ...,
        "slice": slice(1),
        "type": int,
        "function": lambda: 1,
        "module": math,
        "Path": Path("x"),
        "enum": TensorDataType.INT8,
        "other enum": FeatureLevel.LEVEL_2_1,
        "dtype": torch.int8,
        "dtype that DirectML lacks": torch.bfloat16,
        "device": torch.device("cpu"),
        "meta device": torch.device("meta"),
        "TensorDesc": X,
        "list of TensorDesc": [X],
        "OperatorDesc": VALID["SPLIT"],
        "Violation": Violation(("x",), "must be y", 1),
        "tensor": torch.ones(2),
        "tensor of ints": torch.tensor([1, 2]),
        "2-D tensor": torch.ones(1, 1, dtype=torch.int64),
        "0-d tensor": torch.tensor(1),
        "0-d float tensor": torch.tensor(1.9),
        "empty tensor": torch.empty(0),
        "uint8 tensor": torch.zeros(400, dtype=torch.uint8),
        "bool tensor": torch.tensor([True, False]),
        "meta tensor": torch.ones(2, dtype=torch.int64, device="meta"),
        "0-d meta tensor": torch.ones((), dtype=torch.int64, device="meta"),
        "sparse tensor": torch.ones(2, 2).to_sparse(),
        "mkldnn tensor": torch.ones(2, 2, device="cpu").to_mkldnn(),
        "nested tensor": jagged,
        "quantized tensor": torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
        "conjugated tensor": torch.ones(2, dtype=torch.complex64).conj(),
        "array": np.ones(2),
        "array of ints": np.array([1, 2]),
        "2-D array": np.ones((1, 1), np.int64),
        "0-d array": np.array(1),
        "array of objects": np.array([None, "x"]),
        "array of records": np.zeros(2, "i4, f4"),
        "NumPy float": np.float32(1.9),
        "NumPy int": np.int8(1),
        "NumPy bool": np.True_,
        "NumPy time": np.datetime64("2020"),
    }


# What is public, each with arguments that it takes.

W = {"input_window_offsets": [0, 1], "input_window_sizes": [4, 5], "input_window_strides": [-2, 2]}
I64 = TensorDesc(TensorDataType.INT64, [4, 6])
T = torch.arange(24.0).reshape(4, 6)
OWNED = TensorFlags.OWNED_BY_DML
PACKED = TensorPolicy.default()
POLICY = {"tensor_policy": PACKED}


def fields(desc: Any) -> dict[str, Any]:
    return {field.name: getattr(desc, field.name) for field in dataclasses.fields(desc)}


def model() -> Model:
    return Model.load(EXAMPLES / "join.json")


IN_A_GRAPH = Graph().input(X)
PIECE = [IN_A_GRAPH.graph.add(VALID["SPLIT"], IN_A_GRAPH) for _ in range(2)][1][1]  # of node 1, output 1
EDGES = (
    InputGraphEdgeDesc(graph_input_index=0, to_node_index=0, to_node_input_index=0, name="x"),
    IntermediateGraphEdgeDesc(
        from_node_index=0, from_node_output_index=0, to_node_index=0, to_node_input_index=0, name="x"
    ),
    OutputGraphEdgeDesc(from_node_index=0, from_node_output_index=0, graph_output_index=0, name="x"),
)
PARTS: dict[str, Any] = {
    "inputs": [X],
    "nodes": [OperatorGraphNodeDesc(operator=VALID["ELEMENT_WISE_IDENTITY"], name="x")],
    "input_edges": [EDGES[0]],
    "intermediate_edges": [],
    "output_edges": [EDGES[2]],
}

OWNED_X = dataclasses.replace(X, flags=TensorFlags.OWNED_BY_DML)
OWNING = PARTS | {
    "inputs": [OWNED_X],
    "nodes": [dataclasses.replace(VALID["ELEMENT_WISE_IDENTITY"], input_tensor=OWNED_X)],
}

CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    # Enumerations.
    "TensorDataType": (TensorDataType, {"value": 1}),
    "TensorDataType.of": (TensorDataType.of, {"dtype": torch.int8}),
    "TensorDataType.parse": (TensorDataType.parse, {"text": "INT8"}),
    "TensorFlags": (TensorFlags, {"value": 1}),
    "TensorFlags.parse": (TensorFlags.parse, {"text": "NONE"}),
    "TensorType": (TensorType, {"value": 1}),
    "TensorType.parse": (TensorType.parse, {"text": "BUFFER"}),
    "OperatorType": (OperatorType, {"value": 62}),
    "OperatorType.parse": (OperatorType.parse, {"text": "SPLIT"}),
    "ExecutionFlags": (ExecutionFlags, {"value": 1}),
    "ExecutionFlags.parse": (ExecutionFlags.parse, {"text": "NONE"}),
    "FeatureLevel.of_version": (FeatureLevel.of_version, {"version": "1.15.4"}),
    "FeatureLevel": (FeatureLevel, {"value": 0x6400}),
    "FeatureLevel.parse": (FeatureLevel.parse, {"text": "6_4"}),
    # Tensors.
    "TensorDesc": (TensorDesc, fields(X) | {"strides": [6, 1]}),
    "TensorDesc.from_tensor": (
        TensorDesc.from_tensor,
        {"tensor": T, "flags": TensorFlags.NONE, "guaranteed_base_offset_alignment": 0},
    ),
    "TensorDesc.view": (X.view, {"buffer": torch.zeros(96, dtype=torch.uint8)}),
    "TensorDesc.violations": (lambda **given: [*X.violations(**given)], {"path": ("x",), "written": True}),
    "TensorDesc.from_json": (TensorDesc.from_json, {"value": X.to_json()}),
    "TensorPolicy": (TensorPolicy, {"function": lambda *_: TensorProperties()}),
    "TensorPolicy.get": (PACKED.get, {"data_type": X.data_type, "flags": TensorFlags.NONE, "sizes": [4, 6]}),
    "TensorProperties": (
        TensorProperties,
        {"strides": [6, 1], "total_tensor_size_in_bytes": 96, "guaranteed_base_offset_alignment": 16},
    ),
    # Operators.
    "OperatorDesc": (OperatorDesc, {}),
    "OperatorDesc.from_json": (OperatorDesc.from_json, {"value": VALID["SPLIT"].to_json()}),
    "OperatorDesc.validate": (VALID["JOIN"].validate, {"feature_level": FeatureLevel.NEWEST}),
    **{type(desc).__name__: (type(desc), fields(desc)) for desc in VALID.values()},
    **{f"{type(d).__name__}.from_json": (type(d).from_json, {"value": d.to_json()}) for d in VALID.values()},
    **{f"{type(d).__name__}.validate": (d.validate, {"feature_level": FeatureLevel.NEWEST}) for d in VALID.values()},
    **{
        f"{type(d).__name__}.infer_output": (type(d).infer_output, arguments_of_infer_output(d) | POLICY)
        for d in VALID.values()
    },
    "Operator": (Operator, {"desc": VALID["SPLIT"], "feature_level": FeatureLevel.NEWEST}),
    "Operator.initialize": (
        Operator(dataclasses.replace(VALID["SPLIT"], input_tensor=dataclasses.replace(X, flags=OWNED))).initialize,
        {"input_tensor": T},
    ),
    "Operator.__call__": (
        lambda inputs, out: Operator(VALID["SPLIT"])(inputs, out=out),
        {"inputs": T, "out": [torch.ones(4, 2), torch.ones(4, 4)]},
    ),
    # DirectMLX's functions.
    "slice_": (directml.slice_, {"input": T, **W, **POLICY}),
    "slice_grad": (
        directml.slice_grad,
        {"input_gradient": torch.ones(2, 3), "output_gradient_sizes": [4, 6], **W, **POLICY},
    ),
    "split": (directml.split, {"input": T, "axis": 1, "output_axis_sizes": [2, 4], **POLICY}),
    "join": (directml.join, {"inputs": [T, T], "axis": 1, **POLICY}),
    "reverse_subsequences": (
        directml.reverse_subsequences,
        {"input": T, "sequence_lengths": torch.tensor([[1], [2], [3], [9]]), "axis": 1, **POLICY},
    ),
    # Graphs.
    "Graph": (Graph, {}),
    **{type(part).__name__: (type(part), fields(part)) for part in (PARTS["nodes"][0], *EDGES)},
    "Expression": (Expression, fields(PIECE)),
    "Expression.reinterpret": (
        IN_A_GRAPH.reinterpret,
        {"data_type": X.data_type, "sizes": [6, 4], "strides": [1, 6]},
    ),
    "Graph.from_desc": (Graph.from_desc, PARTS),
    "Graph.input": (Graph().input, {"desc": X}),
    "Graph.add": (
        lambda operator, inputs, name: IN_A_GRAPH.graph.add(operator, inputs, name=name),
        {"operator": VALID["ELEMENT_WISE_IDENTITY"], "inputs": IN_A_GRAPH, "name": "x"},
    ),
    "Graph.output": (lambda outputs: IN_A_GRAPH.graph.output(outputs), {"outputs": PIECE}),
    "Graph.validate": (Graph.from_desc(**PARTS).validate, {"feature_level": FeatureLevel.NEWEST}),
    "Graph.compile": (Graph.from_desc(**PARTS).compile, {"feature_level": FeatureLevel.NEWEST}),
    "CompiledGraph": (CompiledGraph, {"graph": Graph.from_desc(**PARTS), "feature_level": FeatureLevel.NEWEST}),
    "CompiledGraph.initialize": (
        lambda owned: Graph.from_desc(**OWNING).compile().initialize(owned),
        {"owned": T},
    ),
    "CompiledGraph.__call__": (lambda inputs: Graph.from_desc(**PARTS).compile()(inputs), {"inputs": T}),
    "check_support": (directml.check_support, {"operator": "JOIN", "feature_level": FeatureLevel.NEWEST}),
    "Support": (
        Support,
        {"dimension_counts": range(1, 9), "data_types": [X.data_type], "length_types": [TensorDataType.UINT32]},
    ),
    # Models.
    "Model": (Model, {"resources": model().resources, "commands": model().commands}),
    "Model.load": (
        Model.load,
        {
            "path": EXAMPLES / "join.json",
            "feature_level": FeatureLevel.NEWEST,
            "allow_outside": False,
            "strict": True,
            "input_path": EXAMPLES,
            "output_path": EXAMPLES,
        },
    ),
    "Model.run": (lambda **given: model().run(**given), {"device": "cpu", "file": io.StringIO()}),
    # Errors.
    "Violation": (Violation, {"path": ("x", 1), "rule": "must be y", "value": 1, "allowed_from": None}),
    "Problem": (Problem, {"path": ("x", 1), "sentence": "must be y"}),
    "DescriptorError": (DescriptorError, {"subject": "x", "violations": [Violation((), "must be y", 1)]}),
    "ModelWarning": (ModelWarning, {}),
    "ModelError": (ModelError, {"problems": [Problem((), "must be y")]}),
}  # fmt: skip


DIRECTMLX = {"slice_", "slice_grad", "split", "join", "reverse_subsequences"}


def public() -> Iterator[str]:
    """Everything that takes arguments."""
    for name in directml.__all__:
        value = getattr(directml, name)
        if not callable(value):  # a constant
            continue
        if not inspect.isclass(value):
            if inspect.signature(value).parameters:
                yield name
            continue
        yield name
        for method in {method: None for base in value.__mro__ for method in vars(base)}:  # dir of an Enum lacks some
            member = getattr(value, method, None)
            ours = (getattr(member, "__module__", None) or "").startswith("torch_dml_ops")
            if not ours or not inspect.isroutine(member) or (method.startswith("_") and method != "__call__"):
                continue
            if set(inspect.signature(member).parameters) - {"self"}:
                yield f"{name}.{method}"


def test_all_that_is_public_is_here() -> None:
    assert set(public()) == set(CALLS)


def test_options_are_given_by_name() -> None:
    options: dict[str, set[str]] = {}
    for name in public():
        function = operator.attrgetter(name)(directml)
        for option in () if inspect.isclass(function) else inspect.signature(function).parameters.values():
            if option.kind is not option.KEYWORD_ONLY and option.default is not option.empty:
                options.setdefault(option.name, set()).add(name.rpartition(".")[-1])
    assert options == {"feature_level": {"check_support", "compile", "validate"}, "path": {"violations"}}


@pytest.mark.parametrize("name", CALLS)
def test_right_arguments(name: str) -> None:
    call, arguments = CALLS[name]
    if name == "OperatorDesc":
        with pytest.raises(TypeError, match=r"^OperatorDesc: must be one of its kinds, such as SplitOperatorDesc$"):
            call()
        return
    call(**arguments)


def sentences(error: Exception) -> list[str]:
    """What an error says: one sentence, or for what lists all that is wrong one each."""
    if isinstance(error, ModelError):
        return [str(problem) for problem in error.problems]
    if isinstance(error, DescriptorError):
        return [str(violation) for violation in error.violations]
    return [str(error)]


def check_refusal(error: Exception, name: str, argument: str) -> None:
    assert error.__cause__ is None
    assert error.__suppress_context__ or error.__context__ is None, "torch's or Python's own words come before ours"
    subjects = [name.partition(".")[0], argument, "SPLIT: ", *(["$"] if isinstance(error, ModelError) else [])]
    if isinstance(error, RuntimeError):  # of the operator that DirectMLX's function calls
        subjects += ["slice1: ", "slice_grad: ", "split: ", "join: ", "reverse_subsequences: "]
    if isinstance(error, DescriptorError):
        subjects += ["operator_type", "nodes[", *(field for desc in VALID.values() for field in fields(desc))]
    for sentence in sentences(error):
        assert len(sentence) <= LONGEST, sentence
        assert "\n" not in sentence
        assert sentence.startswith(tuple(subjects)), sentence
        assert re.search(
            r" must |: there must | is required|, which is not run here; | is not a field here; ", sentence
        ), sentence
        for kind in re.findall(r" must be an? ([A-Z]\w+)", sentence):
            assert hasattr(directml, kind) or kind.isupper(), sentence


every_argument = pytest.mark.parametrize(
    ("name", "argument"), [(name, argument) for name, (_, arguments) in CALLS.items() for argument in arguments]
)


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
@every_argument
def test_any_argument(name: str, argument: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    call, arguments = CALLS[name]
    for kind, value in anything().items():
        given = arguments | {argument: value}
        print(kind)
        try:
            call(**given)
        except OSError:
            assert (name, argument) == ("Model.load", "path")  # of a file that is not there
        except (TypeError, ValueError) as error:
            check_refusal(error, name, argument)
        except RuntimeError as error:
            assert name in DIRECTMLX
            check_refusal(error, name, argument)


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
@pytest.mark.parametrize("long", [False, True], ids=["short", "long"])
@pytest.mark.parametrize("op", ["SPLIT", "SLICE1"])
def test_anything_in_json(op: str, long: bool) -> None:
    """Which from_json takes from Python, where there may be more than JSON has."""
    json = VALID[op].to_json()
    tensor = json["desc"]["InputTensor"] | {"Flags": "NONE", "Strides": [6, 1], "TotalTensorSizeInBytes": 96}
    json["desc"]["InputTensor"] = {"Type": "BUFFER", "Desc": tensor} if long else tensor
    for key, value in replaced(json, lambda _: anything().values()):
        print(key, type(value))
        try:
            OperatorDesc.from_json(json)
        except ModelError as error:
            check_refusal(error, "$", key)
    for kind, value in anything().items():
        try:
            changed = json | {value: 1}
        except (TypeError, RuntimeError):  # no key
            continue
        print("key", kind)
        if isinstance(value, str):
            with pytest.warns(ModelWarning, match=r" is not a field here; those that are: type, "):
                OperatorDesc.from_json(changed)
            continue
        with pytest.raises(ModelError) as caught:
            OperatorDesc.from_json(changed)
        check_refusal(caught.value, "$", "")


# Numbers: operator.index decides what is whole.

INTEGERS = [torch.uint8, torch.int8, torch.uint16, torch.int16, torch.uint32, torch.int32, torch.uint64, torch.int64]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.float8_e5m2]

WHOLE = [
    1,
    TensorDataType.FLOAT32,
    *(np.dtype(name).type(1) for name in "bBhHiIlLqQ"),
    *(np.array(1, name) for name in "bBhHiIlLqQ"),
    *(torch.tensor(1, dtype=dtype) for dtype in INTEGERS),
]
# None stands for the number that there is, or for the graph.
MAY_BE_NONE = ("dimension_count", "input_count", "output_count", "total_tensor_size_in_bytes", "node_index", "strides")

FRACTIONS: list[tuple[Any, str]] = [
    *((number, str(number)) for number in (1.9, 2.0, math.nan, math.inf, 1 + 2j, True)),
    *((number, str(number)) for number in (decimal.Decimal("1.9"), decimal.Decimal(2), np.True_, np.complex64(1))),
    *((number, str(number)) for number in (fractions.Fraction(19, 10), fractions.Fraction(2))),
    *((kind(1.5), "1.5") for kind in (np.float16, np.float32, np.float64, np.longdouble)),
    *((np.array(1.5, name), "1.5") for name in "efdg"),
    *((torch.tensor(1.5).to(dtype), "1.5") for dtype in FLOATS),
    *((number, "True") for number in (torch.tensor(True), np.array(True))),
    (np.array(None), "None"),
    (torch.tensor(1 + 2j), "(1+2j)"),
    (torch.tensor(1, device="meta"), "a 0-d tensor of dtype int64 without a value"),
    (torch.tensor([1]), "a tensor of sizes [1]"),  # has an index, and is a list
    (torch.tensor([[1]]), "a tensor of sizes [1, 1]"),
    (np.array([1]), "an array of sizes [1]"),
    *((value, repr(value)) for value in ("1", b"1", None)),
]


def numbers() -> Iterator[tuple[str, str, Any]]:
    """Every number that a call takes, by itself or in a list; the value with a slot in its place."""
    for name, (call, arguments) in CALLS.items():
        for argument, value in arguments.items():
            if isinstance(call, enum.EnumMeta) or name in ("Violation", "Problem"):
                continue
            if type(value) is int:
                yield name, argument, None
            if isinstance(value, (list, tuple)) and value and all(type(v) is int for v in value):
                yield from ((name, argument, k) for k in range(len(value)))


def with_number(name: str, argument: str, place: int | None, number: Any) -> Any:
    call, arguments = CALLS[name]
    value = arguments[argument]
    if place is not None:
        value = [number if k == place else v for k, v in enumerate(value)]
    return call(**arguments | {argument: number if place is None else value})


def test_numbers_are_found() -> None:
    assert len(list(numbers())) > 40


@pytest.mark.parametrize(("name", "argument", "place"), [*numbers()])
def test_whole_numbers_of_every_kind(name: str, argument: str, place: int | None) -> None:
    def result(number: Any) -> object:
        try:
            return with_number(name, argument, place, number)
        except (DescriptorError, RuntimeError) as error:
            return str(error)

    expected = result(1)
    for number in WHOLE:
        assert repr(result(number)) == repr(expected)  # the repr shows of which type a number in it is


@pytest.mark.parametrize(("name", "argument", "place"), [*numbers()])
def test_what_is_no_whole_number(name: str, argument: str, place: int | None) -> None:
    entry = argument if place is None else f"{argument}[{place}]"
    for number, shown in FRACTIONS:
        if number is None and place is None and argument in MAY_BE_NONE:
            continue
        with pytest.raises(TypeError) as caught:
            with_number(name, argument, place, number)
        assert str(caught.value).endswith(f": {entry} must be a whole number, got {shown}"), shown


# What descriptors and errors keep is theirs.


def sequences() -> Iterator[tuple[str, str]]:
    for name, (call, arguments) in CALLS.items():
        if inspect.isclass(call):
            yield from ((name, argument) for argument, v in arguments.items() if isinstance(v, (list, tuple, dict)))


def test_sequences_are_found() -> None:
    assert len(list(sequences())) == 22


@pytest.mark.parametrize(("name", "argument"), [*sequences()])
def test_a_list_that_changes_afterwards(name: str, argument: str) -> None:
    call, arguments = CALLS[name]
    value = arguments[argument]
    forms: list[Any] = [dict(value)] if isinstance(value, dict) else [list(value)]
    if value and all(type(v) is int for v in value):
        forms += [np.array(value), torch.tensor(value)]
    for form in forms:
        kept = call(**arguments | {argument: form})
        before = repr(kept), hash(kept) if name not in ("DescriptorError", "ModelError") else str(kept)
        if isinstance(form, (dict, list)):
            form.clear()
        else:
            form[:] = 7
        assert (repr(kept), hash(kept) if name not in ("DescriptorError", "ModelError") else str(kept)) == before
        assert getattr(kept, argument) == (value if isinstance(value, dict) else tuple(value))


ITERABLES = [
    (name, argument)
    for name, (_, arguments) in CALLS.items()
    if name not in DIRECTMLX  # where lists are as operators take them
    for argument, value in arguments.items()
    if isinstance(value, (list, tuple)) and argument not in ("out", "path")
]


@pytest.mark.parametrize(("name", "argument"), ITERABLES)
def test_lists_may_be_any_iterable(name: str, argument: str) -> None:
    call, arguments = CALLS[name]
    assert repr(call(**arguments | {argument: iter(arguments[argument])})) == repr(call(**arguments))


@pytest.mark.parametrize("desc", [X, I64, *VALID.values()], ids=repr)
def test_json_that_changes_afterwards(desc: Any) -> None:
    def spoil(value: Any) -> None:
        for owner, key in list(places(value)):
            if isinstance(owner, list):
                owner[key] = None
        value.clear()

    json = desc.to_json()
    again = type(desc).from_json(json)
    spoil(json)
    assert again == desc == type(desc).from_json(desc.to_json())


# Sentences are short, however long what they are about.

MANY = 5000
LONG_NAME = "name" * 250_000
HUGE = 10**5000  # Python itself writes out no number of more than 4300 digits
HUGE_TENSOR = TensorDesc(TensorDataType.FLOAT32, [HUGE] * 2, guaranteed_base_offset_alignment=HUGE)


@cache
def long_values() -> dict[str, Any]:
    return {
        "name": LONG_NAME,
        "bytes": LONG_NAME.encode(),
        "number": 10**100_000,
        "small numbers": [1] * MANY,
        "large numbers": [2**32 - 1] * MANY,
        "wrong numbers": [0.5] * MANY,
        "zeros": [0] * MANY,
        "negative numbers": [-1] * MANY,
        "names": [LONG_NAME] * MANY,
        "dict": {f"{k}{LONG_NAME[:100]}": k for k in range(MANY)},
        "long dict": {LONG_NAME: LONG_NAME},
        "set": set(range(MANY)),
        "tensors": [X] * MANY,
        "wrong tensors": [TensorDesc(TensorDataType.INT8, [0, -1, 2**40])] * MANY,
        "tensor of many dimensions": TensorDesc(TensorDataType.INT8, [2] * MANY, strides=[2**32 - 1] * MANY),
        "packed tensor of many dimensions": TensorDesc(TensorDataType.INT8, [2**32 - 1] * MANY),
        "operator": dataclasses.replace(VALID["SPLIT"], output_tensors=[X] * MANY),
        "torch tensor of many dimensions": torch.ones([1] * 2000),
        "long tensor": torch.ones(MANY),
        "path": Path(LONG_NAME),
        "type": type(LONG_NAME, (), {}),
        "instance": type(LONG_NAME, (), {})(),
        "problems": [Problem(("name" * 100,) * 9, LONG_NAME)] * MANY,
        "violations": [Violation(("name" * 100,) * 9, "must", LONG_NAME)] * MANY,
        "file in memory": io.StringIO(LONG_NAME),
        "huge number": HUGE,
        "huge numbers": [HUGE] * 2,
        "huge tensor": HUGE_TENSOR,
        "huge tensors": [HUGE_TENSOR] * 2,
    }


def check_length(error: Exception) -> None:
    for sentence in sentences(error):
        assert len(sentence) <= 1000, sentence[:2000]
    assert len(str(error)) <= 110_000  # of which a hundred are shown


@every_argument
def test_long_arguments(name: str, argument: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    call, arguments = CALLS[name]
    for kind, value in long_values().items():
        print(kind)
        given = arguments | {argument: value}
        try:
            made = call(**given)
            assert not kind.startswith("huge") or len(repr(made)) < 1000
            if isinstance(made, TensorDesc):
                made = op_desc("SPLIT", made, [made], 0)
            if isinstance(made, OperatorDesc):
                Operator(made)
        except OSError:
            assert (name, argument) == ("Model.load", "path")
        except (TypeError, ValueError, RuntimeError) as error:
            check_length(error)


def long_models() -> Iterator[tuple[str, Any]]:
    """The good model with something long in one place at a time."""
    model = good()
    model["resources"]["file"] = {"initialValues": {"sourcePath": "x.npy"}}
    values = [LONG_NAME, f"{LONG_NAME}.npy", [LONG_NAME[:400]] * 300, [0.5] * 300, {LONG_NAME: 1}, 10**400]

    def others(before: Any) -> list[Any]:
        more = [before | {f"{k}{LONG_NAME[:400]}": 1 for k in range(300)}] if isinstance(before, dict) else []
        return values + more + ([before * 300] if isinstance(before, list) else [])

    for key, value in replaced(model, others):
        yield f"{key} {str(value)[:20]}", model
    for owner, key in list(places(model)):
        if isinstance(owner, dict):
            owner[LONG_NAME] = owner.pop(key)
            yield f"long name instead of {key}", model
            owner[key] = owner.pop(LONG_NAME)


def test_long_models(tmp_path: Path) -> None:
    file, refused = tmp_path / "model.json", 0
    for kind, changed in long_models():
        print(kind)
        file.write_text(json.dumps(changed))
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                Model.load(file)
            except ModelError as error:
                check_length(error)
                refused += 1
        for warning in warned:
            check_length(cast(Warning, warning.message))
    assert refused > 300


@pytest.mark.parametrize(
    "text",
    [
        f'{{"{LONG_NAME}": 1, "{LONG_NAME}": 2}}',
        '{"a":' * 900 + f'{{"{LONG_NAME}": 1, "{LONG_NAME}": 2}}' + "}" * 900,
        f'"{LONG_NAME}',
        f"{LONG_NAME}",
        f'"{LONG_NAME}\\ud800"',
        "1" * MANY,
        f"[{','.join(['[1]'] * MANY)}]",
        "{" + ",".join(f'"{k % (MANY // 2)}": 1' for k in range(MANY)) + "}",
    ],
    ids=lambda text: text[:20],
)
def test_long_texts(tmp_path: Path, text: str) -> None:
    (tmp_path / "model.json").write_text(text)
    with pytest.raises(ModelError) as caught:
        Model.load(tmp_path / "model.json")
    check_length(caught.value)


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", LONG_NAME],
        ["validate", LONG_NAME],
        ["run", "x.json", "--feature-level", LONG_NAME],
        ["run", "x.json", "--device", LONG_NAME],
        ["run", "x.json", LONG_NAME],
        [LONG_NAME],
    ],
    ids=lambda arguments: " ".join(arguments)[:40],
)
def test_long_arguments_of_the_command_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status = main(arguments)
    except SystemExit as left:
        status = left.code  # type: ignore[assignment]
    assert status
    out, error = capsys.readouterr()
    assert out == ""
    assert all(len(line) <= 1100 for line in error.splitlines())
    assert len(error) <= 2000
