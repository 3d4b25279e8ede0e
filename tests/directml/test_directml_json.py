"""JSON as DxDispatch reads it, and that all that is noted while it is read is raised."""

import copy
import json
import re
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from descriptors.bad_models import BAD, DROP, changed, good, places, replaced
from descriptors.cases import DESCS
from descriptors.rules import VALID
from hypothesis import example, given, settings
from hypothesis import strategies as st
from transform_cases import EXAMPLES, examples

from torch_dml_ops.directml import DescriptorError, Model, ModelError, ModelWarning, OperatorDesc, Problem, TensorDesc
from torch_dml_ops.directml._descriptors.base import note_violation
from torch_dml_ops.directml._schema.json_documents import Cursor, Wrong, load_json, read

# Text: RapidJSON's grammar, with comments and with commas before closing brackets.

TOKENS = [*"[]{},:1/ \n", "null", '"a"', '"b"', '",]"', "/*x*/", "/*\n\n*/", "/*", "*/", "//,]\n"]
TOKEN = re.compile(r'\s+|//[^\n]*|/\*.*?\*/|(?P<token>"[^"]*"|null|[0-9]+|[][{},:])', re.DOTALL)


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Ours: RapidJSON takes a key twice."""
    if len(dict(pairs)) < len(pairs):
        raise ValueError
    return dict(pairs)


def by_tokens(text: str) -> Any:
    """As RapidJSON's documentation has it: with comments, and a comma behind the last value of an array or object."""
    tokens, at = [""], 0
    while at < len(text):
        found = TOKEN.match(text, at)
        if found is None:
            raise ValueError
        tokens, at = [*tokens, *filter(None, [found["token"]])], found.end()
    kept = [
        token
        for before, token, after in zip(tokens, tokens[1:], [*tokens[2:], ""], strict=False)
        if token != "," or after not in ("]", "}") or before in ("", *"[{,:")
    ]
    return json.loads(" ".join(kept), object_pairs_hook=once)


def loaded(text: str) -> Any:
    document = Cursor(text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        read(document, load_json)
    return document.value


texts = st.lists(st.sampled_from(TOKENS), max_size=12).map("".join)


@st.composite
def nearly_json(draw: st.DrawFn) -> str:
    """A text with blanks and comments, and a comma too many or too few."""
    values = st.recursive(
        st.sampled_from([1, None, "a", ",]"]),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2),
        max_leaves=8,
    )
    words = re.findall(r'"[^"]*"|\w+|\S', json.dumps(draw(values)))
    k = draw(st.integers(0, len(words)))
    words[k : k + draw(st.integers(0, 1))] = draw(
        st.sampled_from([[], [","], [",", ","], [",", "/**/"], ["/*"], ["//"]])
    )
    return draw(st.sampled_from(["", " ", "\n", "/*,*/"])).join(words)


@settings(examples, max_examples=3 * EXAMPLES)
@given(texts | nearly_json())
@example("[[,],]")
@example("[1,]/*")
@example("[1,] //")
def test_texts_are_json_where_rapidjson_has_it_so(text: str) -> None:
    try:
        expected = by_tokens(text)
    except ValueError:
        with pytest.raises(ModelError) as refused:
            loaded(text)
        for line, column in re.findall(r" at line (\d+), column (\d+)$", str(refused.value)):
            lines = text.split("\n")
            assert int(line) <= len(lines)
            assert int(column) <= len(lines[int(line) - 1]) + 1
        return
    assert loaded(text) == expected


@pytest.mark.parametrize("before", ["", "\n", "/* a\nb\n\n*/", "// a\n", "/**/ /*\n*/\n"])
def test_where_a_text_is_no_json(before: str) -> None:
    """As an editor counts, whatever stands before it."""
    line, column = 1 + before.count("\n"), len(before) - before.rfind("\n")
    with pytest.raises(ModelError, match=rf" at line {line}, column {column + 3}$"):
        loaded(f"{before}[1 2]")


@pytest.mark.parametrize(
    "text",
    [
        *("/*" * 200_000, "[" + " ," * 200_000, "[" + " " * 400_000 + ",]", '"' * 200_001),
        *('{"' + '\\"' * 50_000 + end for end in ("", "\\", "/*")),  # a string that nothing closes
    ],
    ids=len,
)
def test_long_texts_that_are_no_json(text: str) -> None:
    """A search that began again at each of them would not end."""
    with pytest.raises(ModelError, match=r"^\$ must be JSON: "):
        loaded(text)


# What is noted while something is read is raised, or warned of.


LONG = "name" * 5000
WRONG = [None, True, -1, 1.5, 2**70, "X", [], [None], {}, {"Type": "X", "Desc": {}}, {"name": "X", "type": "X"}]
WRONG += [LONG, f"{LONG}.npy", [LONG[:400]] * 300, [0.5] * 300, {LONG: 1}, 10**400]
MANY = {f"{k}{LONG[:400]}": 1 for k in range(300)}


def others(before: Any) -> list[Any]:
    more = [before | {"X": 1}, before | MANY] if isinstance(before, dict) else []
    return [*WRONG, DROP, *more, *([[*before, "X"], before * 300] if isinstance(before, list) else [])]


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> list[Problem]:
    """The problems that were made, whoever was told of them."""
    result: list[Problem] = []
    made = Problem.__post_init__

    def remember(problem: Problem) -> None:
        made(problem)
        result.append(problem)

    monkeypatch.setattr(Problem, "__post_init__", remember)
    return result


def told_by(read: Callable[[Any], object], value: Any) -> set[str]:
    """The problems and the warnings."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            read(value)
            problems: Iterable[Problem] = ()
        except ModelError as error:
            problems = error.problems
    return {*map(str, problems), *(str(warning.message) for warning in warned)}


def check_all_is_raised(read: Callable[[Any], object], value: Any, noted: list[Problem]) -> None:
    """In short sentences, however long what they are about."""
    assert told_by(read, value) == set(noted) == set()
    told = 0
    for _ in replaced(value, others):
        sentences = told_by(read, value)
        assert sentences == set(map(str, noted)), value
        assert all(len(sentence) <= 1000 for sentence in sentences)
        told += len(noted) > 0
        noted.clear()
    assert told > 20


X = {"DataType": "INT32", "Sizes": [2], "Strides": [1], "Flags": "NONE", "GuaranteedBaseOffsetAlignment": 4}


@pytest.mark.parametrize("value", [X, {"Type": "BUFFER", "Desc": X}], ids=["short", "long"])
def test_all_that_is_wrong_with_a_tensor_is_raised(value: Any, noted: list[Problem]) -> None:
    check_all_is_raised(TensorDesc.from_json, copy.deepcopy(value), noted)


@pytest.mark.parametrize("kind", [OperatorDesc, *DESCS.values()], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("op", VALID)
def test_all_that_is_wrong_with_an_operator_is_raised(op: str, kind: Any, noted: list[Problem]) -> None:
    value = VALID[op].to_json()
    for owner, key in list(places(value)):
        if key in ("InputTensor", "OutputTensor", "InputGradientTensor", 0) and isinstance(owner[key], dict):
            owner[key] = {"Type": "BUFFER", "Desc": owner[key]}
    if isinstance(VALID[op], kind):
        check_all_is_raised(kind.from_json, value, noted)
    else:
        assert told_by(kind.from_json, value) == {f"$.type must be DML_OPERATOR_{kind.operator_type}, got '{op}'"}


def test_all_that_is_wrong_with_a_model_is_raised(tmp_path: Path, noted: list[Problem]) -> None:
    (tmp_path / "full.dat").write_bytes(bytes(range(12)))
    model = good()
    model["resources"]["file"] = {"initialValuesDataType": "INT8", "initialValues": {"sourcePath": "full.dat"}}
    model["resources"][LONG] = model["dispatchables"][LONG] = model["resources"]["x"]
    model["dispatchables"][LONG] = model["dispatchables"]["split"]

    def load(value: Any) -> object:
        (tmp_path / "model.json").write_text(json.dumps(value))
        return Model.load(tmp_path / "model.json")

    check_all_is_raised(load, model, noted)


def test_what_has_a_problem_has_no_result() -> None:
    """Whatever a function returns; what lies beside it has one."""
    document = Cursor({"x": [1, "two"], "y": [3]})

    def complains(cursor: Cursor) -> int:
        cursor.note("must be another")
        return 4

    with pytest.raises(Wrong):
        document["x"].each(lambda cursor: cursor.expect(int))
    y = document["y"]
    assert y.each(lambda cursor: cursor.expect(int)) == y.whole([3])
    with pytest.raises(Wrong):
        y.each(complains)
    for cursor in (y, document):
        with pytest.raises(Wrong):
            cursor.whole(4)
    with pytest.raises(ModelError) as caught:
        read(document, lambda document: 4)
    sentences = ["$.x[1] must be a whole number, got 'two'", "$.y[0] must be another"]
    assert [str(problem) for problem in caught.value.problems] == sentences


SPLIT = "$.dispatchables.split"


@pytest.mark.parametrize(
    ("changes", "problems"),
    [
        pytest.param(*row, id=row[1][0].removeprefix(SPLIT))
        for row in BAD
        if all(re.match(r"\$\.dispatchables\.split(?!.* bound |\.bindings)", problem) for problem in row[1])
    ],
)
def test_bad_descriptors(changes: dict[str, Any], problems: list[str]) -> None:
    """What is wrong with them in a model file is wrong with them alone."""
    value = changed(changes)["dispatchables"]["split"]
    document = Cursor(value)
    try:
        OperatorDesc.from_json(value).validate()
    except DescriptorError as error:
        for violation in error.violations:
            note_violation(violation, document)
        told = document.problems
    except ModelError as error:
        told = list(error.problems)
    assert [str(problem).replace("$", SPLIT, 1) for problem in told] == problems
    of_input = f"{SPLIT}.desc.InputTensor"
    if all(problem.startswith((f"{of_input}.", f"{of_input} must")) for problem in problems):
        read_alone = told_by(TensorDesc.from_json, value["desc"]["InputTensor"])
        assert read_alone == {problem.replace(of_input, "$", 1) for problem in problems}


def test_keys_that_are_no_strings() -> None:
    told = told_by(TensorDesc.from_json, {"Type": 1, 2: 3, "DataType": "INT4", "Sizes": [4], "Flags": "SOME"})
    assert told == {
        "$.Type must be DML_TENSOR_TYPE_BUFFER, got 1",
        "$ must have strings as keys, got 2",
        "$.Flags must be one of NONE, OWNED_BY_DML, got 'SOME'",
    }
