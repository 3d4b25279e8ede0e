"""Arguments of every type to everything public: each is taken, or refused in one sentence of ours."""

import dataclasses
import decimal
import enum
import fractions
import inspect
import io
import math
import operator
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from descriptors.bad_models import nested, places, replaced
from descriptors.cases import arguments_of_infer_output, op_desc
from descriptors.graphs import between, into, out_of
from descriptors.rules import VALID, X

from torch_dml_ops import directml
from torch_dml_ops.__main__ import main
from torch_dml_ops.directml import Graph, Model, ModelError, OperatorDesc, TensorDataType, TensorDesc, Violation

pytestmark = pytest.mark.filterwarnings("ignore::torch_dml_ops.directml.ModelWarning")

EXAMPLES = Path(__file__).parents[2] / "examples" / "models"

LONGEST = 300  # of a sentence


def refuse(*_: object) -> Any:
    raise RuntimeError("nothing can be learned from it")


Hostile = type("Hostile", (), dict.fromkeys(("__repr__", "__index__", "__iter__", "__eq__", "__hash__"), refuse))


def anything() -> list[Any]:
    """A value of every type, made anew, as generators can be used once."""
    jagged = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
    fractional, ints, floats = (decimal.Decimal("1.9"), fractions.Fraction(19, 10)), torch.tensor([1, 2]), torch.ones(2)
    return [
        *(None, True, 1, 10**30, 10**5000, -1, 1.9, math.nan, 1 + 2j, *fractional),
        *("x", "", "a\nb", "a\0b", b"\1\2", bytearray(b"\1\2"), Path("x")),
        *([1, 2], [], ["x"], [1.5], [[1], [2]], nested(5000), (1, 2), range(2)),
        *({"x": 1}, {1: 2}, {}, {1, 2}, frozenset({1}), object(), Hostile(), [Hostile()]),
        *((k for k in (1, 2)), (k for k in ("x", "y")), iter([1, 2])),
        *(..., slice(1), int, lambda: 1, math, TensorDataType.INT8, directml.FeatureLevel.LEVEL_2_1),
        *(torch.int8, torch.bfloat16, torch.device("cpu"), torch.device("meta")),
        *(X, [X], VALID["SPLIT"], Violation(("x",), "must be y", 1)),
        *(floats, ints, ints.reshape(1, 2), torch.tensor([[1]]), torch.tensor(1), torch.tensor(1.9), torch.empty(0)),
        *(torch.zeros(400, dtype=torch.uint8), torch.tensor([True, False]), ints.to("meta"), ints[0].to("meta")),
        *(torch.ones(2, 2).to_sparse(), torch.ones(2, 2, device="cpu").to_mkldnn(), jagged),
        *(torch.quantize_per_tensor(floats, 0.1, 0, torch.qint8), torch.ones(2, dtype=torch.complex64).conj()),
        *(np.ones(2), np.array([1, 2]), np.ones((1, 1), np.int64), np.array(1), np.array([None, "x"])),
        *(np.zeros(2, "i4, f4"), np.float32(1.9), np.int8(1), np.True_, np.datetime64("2020")),
    ]


# What is public, each with arguments that it takes.

W = {"input_window_offsets": [0, 1], "input_window_sizes": [4, 5], "input_window_strides": [-2, 2]}
I64 = TensorDesc(TensorDataType.INT64, [4, 6])
T = torch.arange(24.0).reshape(4, 6)
PACKED = directml.TensorPolicy.default()
POLICY = {"tensor_policy": PACKED}
LEVEL = {"feature_level": directml.FeatureLevel.NEWEST}
NO_FLAGS = directml.TensorFlags.NONE


def fields(desc: Any) -> dict[str, Any]:
    return {field.name: getattr(desc, field.name) for field in dataclasses.fields(desc)}


def model() -> Model:
    return Model.load(EXAMPLES / "join.json")


IN_A_GRAPH = Graph().input(X)
PIECE = [IN_A_GRAPH.graph.add(VALID["SPLIT"], IN_A_GRAPH) for _ in range(2)][1][1]  # of node 1, output 1
EDGES = into(0, 0, name="x"), between((0, 0), (0, 0), "x"), out_of(0, 0, 0, "x")
PARTS: dict[str, Any] = {
    "inputs": [X],
    "nodes": [directml.OperatorGraphNodeDesc(operator=VALID["ELEMENT_WISE_IDENTITY"], name="x")],
    "input_edges": [EDGES[0]],
    "intermediate_edges": [],
    "output_edges": [EDGES[2]],
}

OWNED_X = dataclasses.replace(X, flags=directml.TensorFlags.OWNED_BY_DML)
OWNING, OWNED_SPLIT = (
    dataclasses.replace(VALID[op], input_tensor=OWNED_X) for op in ("ELEMENT_WISE_IDENTITY", "SPLIT")
)
NAMED = {  # a number and a name of a member
    **{"TensorDataType": (1, "INT8"), "TensorFlags": (1, "NONE"), "TensorType": (1, "BUFFER")},
    **{"OperatorType": (62, "SPLIT"), "ExecutionFlags": (1, "NONE"), "FeatureLevel": (0x6400, "6_4")},
}
ARGUMENTS: dict[str, dict[str, Any]] = {
    # Enumerations.
    **{kind: {"value": number} for kind, (number, _) in NAMED.items()},
    **{f"{kind}.parse": {"text": name} for kind, (_, name) in NAMED.items()},
    "TensorDataType.of": {"dtype": torch.int8},
    "FeatureLevel.of_version": {"version": "1.15.4"},
    # Tensors.
    "TensorDesc": fields(X) | {"strides": [6, 1]},
    "TensorDesc.from_tensor": {"tensor": T, "flags": NO_FLAGS, "guaranteed_base_offset_alignment": 0},
    "TensorDesc.view": {"buffer": torch.zeros(96, dtype=torch.uint8)},
    "TensorDesc.violations": {"path": ("x",), "written": True},
    "TensorDesc.from_json": {"value": X.to_json()},
    "TensorPolicy": {"function": lambda *_: directml.TensorProperties()},
    "TensorPolicy.get": {"data_type": X.data_type, "flags": NO_FLAGS, "sizes": [4, 6]},
    "TensorProperties": {"strides": [6, 1], "total_tensor_size_in_bytes": 96, "guaranteed_base_offset_alignment": 16},
    # Operators.
    "OperatorDesc": {},
    "OperatorDesc.from_json": {"value": VALID["SPLIT"].to_json()},
    "OperatorDesc.validate": LEVEL,
    **{type(desc).__name__: fields(desc) for desc in VALID.values()},
    **{f"{type(desc).__name__}.from_json": {"value": desc.to_json()} for desc in VALID.values()},
    **{f"{type(desc).__name__}.validate": LEVEL for desc in VALID.values()},
    **{f"{type(desc).__name__}.infer_output": arguments_of_infer_output(desc) | POLICY for desc in VALID.values()},
    "Operator": {"desc": VALID["SPLIT"], **LEVEL},
    "Operator.initialize": {"input_tensor": T},
    "Operator.__call__": {"inputs": T, "out": [torch.ones(4, 2), torch.ones(4, 4)]},
    # DirectMLX's functions.
    "slice_": {"input": T, **W, **POLICY},
    "slice_grad": {"input_gradient": torch.ones(2, 3), "output_gradient_sizes": [4, 6], **W, **POLICY},
    "split": {"input": T, "axis": 1, "output_axis_sizes": [2, 4], **POLICY},
    "join": {"inputs": [T, T], "axis": 1, **POLICY},
    "reverse_subsequences": {"input": T, "sequence_lengths": torch.tensor([[1], [2], [3], [9]]), "axis": 1, **POLICY},
    # Graphs.
    "Graph": {},
    **{type(part).__name__: fields(part) for part in (PARTS["nodes"][0], *EDGES)},
    "Expression": fields(PIECE),
    "Expression.reinterpret": {"data_type": X.data_type, "sizes": [6, 4], "strides": [1, 6]},
    "Graph.from_desc": PARTS,
    "Graph.input": {"desc": X},
    "Graph.add": {"operator": VALID["ELEMENT_WISE_IDENTITY"], "inputs": IN_A_GRAPH, "name": "x"},
    "Graph.output": {"outputs": PIECE},
    "Graph.validate": LEVEL,
    "Graph.compile": LEVEL,
    "CompiledGraph": {"graph": Graph.from_desc(**PARTS), **LEVEL},
    "CompiledGraph.initialize": {"owned": T},
    "CompiledGraph.__call__": {"inputs": T},
    "check_support": {"operator": "JOIN", **LEVEL},
    "Support": {
        "dimension_counts": range(1, 9),
        "data_types": [X.data_type],
        "length_types": [TensorDataType.UINT32],
    },
    # Models.
    "Model": {"resources": model().resources, "commands": model().commands},
    "Model.load": {
        **{"path": EXAMPLES / "join.json", "input_path": EXAMPLES, "output_path": EXAMPLES},
        **{"allow_outside": False, "strict": True, **LEVEL},
    },
    "Model.run": {"device": "cpu", "file": io.StringIO()},
    # Errors.
    "Violation": {"path": ("x", 1), "rule": "must be y", "value": 1, "allowed_from": None},
    "Problem": {"path": ("x", 1), "sentence": "must be y"},
    "DescriptorError": {"subject": "x", "violations": [Violation((), "must be y", 1)]},
    "ModelWarning": {},
    "ModelError": {"problems": [directml.Problem((), "must be y")]},
}
OF_INSTANCES: dict[str, Callable[..., Any]] = {  # the calls of methods
    "TensorDesc.view": X.view,
    "TensorDesc.violations": lambda **given: [*X.violations(**given)],
    "TensorPolicy.get": PACKED.get,
    "OperatorDesc.validate": VALID["JOIN"].validate,
    **{f"{type(desc).__name__}.validate": desc.validate for desc in VALID.values()},
    "Operator.initialize": directml.Operator(OWNED_SPLIT).initialize,
    "Operator.__call__": lambda inputs, out: directml.Operator(VALID["SPLIT"])(inputs, out=out),
    "Expression.reinterpret": IN_A_GRAPH.reinterpret,
    "Graph.input": Graph().input,
    "Graph.add": lambda operator, inputs, name: IN_A_GRAPH.graph.add(operator, inputs, name=name),
    "Graph.output": lambda outputs: IN_A_GRAPH.graph.output(outputs),
    "Graph.validate": Graph.from_desc(**PARTS).validate,
    "Graph.compile": Graph.from_desc(**PARTS).compile,
    "CompiledGraph.initialize": lambda owned: (
        Graph.from_desc(**PARTS | {"inputs": [OWNED_X], "nodes": [OWNING]}).compile().initialize(owned)
    ),
    "CompiledGraph.__call__": lambda inputs: Graph.from_desc(**PARTS).compile()(inputs),
    "Model.run": lambda **given: model().run(**given),
}
CALLS = {
    name: (OF_INSTANCES.get(name) or operator.attrgetter(name)(directml), given) for name, given in ARGUMENTS.items()
}

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
    if isinstance(error, directml.DescriptorError):
        return [str(violation) for violation in error.violations]
    return [str(error)]


def check_refusal(error: Exception, name: str, argument: str) -> None:
    assert error.__cause__ is None
    assert error.__suppress_context__ or error.__context__ is None, "torch's or Python's own words come before ours"
    subjects = [name.partition(".")[0], argument, "SPLIT: ", *(["$"] if isinstance(error, ModelError) else [])]
    if isinstance(error, RuntimeError):  # of the operator that DirectMLX's function calls
        assert name in DIRECTMLX
        subjects += ["slice1: ", "slice_grad: ", "split: ", "join: ", "reverse_subsequences: "]
    if isinstance(error, directml.DescriptorError):
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
    huge = [HUGE, [HUGE] * 2, HUGE_TENSOR, [HUGE_TENSOR] * 2]
    checks = {check_refusal: anything(), check_length: [*huge, *long_values()]}
    for check, value in ((check, value) for check, values in checks.items() for value in values):
        print(type(value))
        try:
            made = call(**arguments | {argument: value})
            assert all(value is not other for other in huge) or len(repr(made)) < 1000
            if check is check_length and isinstance(made, TensorDesc):
                made = op_desc("SPLIT", made, [made], 0)
            if check is check_length and isinstance(made, OperatorDesc):
                directml.Operator(made)
        except OSError:
            assert (name, argument) == ("Model.load", "path")  # of a file that is not there
        except (TypeError, ValueError, RuntimeError) as error:
            check(error, name, argument)


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
@pytest.mark.parametrize("long", [False, True], ids=["short", "long"])
@pytest.mark.parametrize("op", ["SPLIT", "SLICE1"])
def test_anything_in_json(op: str, long: bool) -> None:
    """Which from_json takes from Python, where there may be more than JSON has."""
    json = VALID[op].to_json()
    tensor = json["desc"]["InputTensor"] | {"Flags": "NONE", "Strides": [6, 1], "TotalTensorSizeInBytes": 96}
    json["desc"]["InputTensor"] = {"Type": "BUFFER", "Desc": tensor} if long else tensor
    for key, value in replaced(json, lambda _: anything()):
        print(key, type(value))
        try:
            OperatorDesc.from_json(json)
        except ModelError as error:
            check_refusal(error, "$", key)
    for value in anything():
        try:
            changed = json | {value: 1}
        except (TypeError, RuntimeError):  # no key
            continue
        print("key", type(value))
        if isinstance(value, str):
            with pytest.warns(directml.ModelWarning, match=r" is not a field here; those that are: type, "):
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
        except (directml.DescriptorError, RuntimeError) as error:
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
def long_values() -> list[Any]:
    named = type(LONG_NAME, (), {})
    return [
        *(LONG_NAME, LONG_NAME.encode(), Path(LONG_NAME), named, named(), io.StringIO(LONG_NAME), 10**100_000),
        *([number] * MANY for number in (1, 2**32 - 1, 0.5, 0, -1)),
        *([LONG_NAME] * MANY, {f"{k}{LONG_NAME[:100]}": k for k in range(MANY)}, {LONG_NAME: LONG_NAME}),
        *(set(range(MANY)), torch.ones([1] * 2000), torch.ones(MANY)),
        *([X] * MANY, [TensorDesc(TensorDataType.INT8, [0, -1, 2**40])] * MANY),
        TensorDesc(TensorDataType.INT8, [2] * MANY, strides=[2**32 - 1] * MANY),
        TensorDesc(TensorDataType.INT8, [2**32 - 1] * MANY),
        dataclasses.replace(VALID["SPLIT"], output_tensors=[X] * MANY),
        [directml.Problem(("name" * 100,) * 9, LONG_NAME)] * MANY,
        [Violation(("name" * 100,) * 9, "must", LONG_NAME)] * MANY,
    ]


def check_length(error: Exception, *_: str) -> None:
    for sentence in sentences(error):
        assert len(sentence) <= 1000, sentence[:2000]
    assert len(str(error)) <= 110_000  # of which a hundred are shown


TWICE = f'{{"{LONG_NAME}": 1, "{LONG_NAME}": 2}}'
LONG_TEXTS = [TWICE, '{"a":' * 900 + TWICE + "}" * 900, f'"{LONG_NAME}', LONG_NAME, f'"{LONG_NAME}\\ud800"', "1" * MANY]
LONG_TEXTS += [f"[{','.join(['[1]'] * MANY)}]", "{" + ",".join(f'"{k % (MANY // 2)}": 1' for k in range(MANY)) + "}"]


@pytest.mark.parametrize("text", LONG_TEXTS, ids=lambda text: text[:20])
def test_long_texts(tmp_path: Path, text: str) -> None:
    (tmp_path / "model.json").write_text(text)
    with pytest.raises(ModelError) as caught:
        Model.load(tmp_path / "model.json")
    check_length(caught.value)


@pytest.mark.parametrize("before", ["run", "validate", "run x --feature-level", "run x --device", "run x", ""])
def test_long_arguments_of_the_command_line(before: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status = main([*before.split(), LONG_NAME])
    except SystemExit as left:
        status = left.code  # type: ignore[assignment]
    assert status
    out, error = capsys.readouterr()
    assert out == ""
    assert all(len(line) <= 1100 for line in error.splitlines())
    assert len(error) <= 2000
