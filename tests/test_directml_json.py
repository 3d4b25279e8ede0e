"""What is JSON to DxDispatch: RapidJSON's grammar, with comments and with commas before closing brackets."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from operator_cases import examples

from torch_dml_ops.directml import ModelError, _json_text

TOKENS = [
    "[",
    "]",
    "{",
    "}",
    ",",
    ":",
    "1",
    "null",
    '"a"',
    '"b"',
    '",]"',
    " ",
    "\n",
    "/*x*/",
    "/*",
    "*/",
    "//,]\n",
    "/",
]
SCALAR = re.compile(r'"[^"]*"|0|[1-9][0-9]*|null')


class NotJson(Exception):
    pass


class Grammar:
    """RapidJSON's, written down from its documentation: kParseCommentsFlag and kParseTrailingCommasFlag."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def skip(self) -> None:
        while self.at < len(self.text):
            rest = self.text[self.at :]
            if rest[0] in " \t\r\n":
                self.at += 1
            elif rest.startswith("//"):
                self.at += len(rest.split("\n")[0])
            elif rest.startswith("/*"):
                if "*/" not in rest[2:]:
                    raise NotJson
                self.at += rest.index("*/", 2) + 2
            else:
                return

    def take(self, character: str) -> bool:
        self.skip()
        found = self.text.startswith(character, self.at)
        self.at += found
        return found

    def need(self, character: str) -> None:
        if not self.take(character):
            raise NotJson

    def value(self) -> object:
        self.skip()
        if self.take("["):
            return self.items("]", self.value)
        if self.take("{"):
            members = self.items("}", self.member)
            if len(dict(members)) < len(members):  # ours: RapidJSON takes a key twice
                raise NotJson
            return dict(members)
        found = SCALAR.match(self.text, self.at)
        if found is None:
            raise NotJson
        self.at = found.end()
        return json.loads(found[0])

    def member(self) -> tuple[object, object]:
        key = self.value()
        if not isinstance(key, str):
            raise NotJson
        self.need(":")
        return key, self.value()

    def items(self, close: str, item: Callable[[], Any]) -> list[Any]:
        result: list[Any] = []
        while not self.take(close):
            result.append(item())
            if self.take(close):
                break
            self.need(",")
        return result

    def whole(self) -> object:
        result = self.value()
        self.skip()
        if self.at < len(self.text):
            raise NotJson
        return result


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


@settings(examples, max_examples=1500)
@given(texts | nearly_json())
@example("[,]")
@example("{,}")
@example("[1,,]")
@example("[[,],]")
@example("[1, /* */ ,]")
@example('{"a": ,}')
@example("[1,]/*")
@example("[1,] //")
def test_texts_are_json_where_rapidjson_has_it_so(text: str) -> None:
    try:
        expected = Grammar(text).whole()
    except NotJson:
        with pytest.raises(ModelError):
            _json_text.load(text)
        return
    assert _json_text.load(text) == expected


@pytest.mark.parametrize("text", ["/*" * 200_000, "[" + " ," * 200_000, "[" + " " * 400_000 + ",]", '"' * 200_001])
def test_long_texts_that_are_no_json(text: str) -> None:
    """A search that began again at each of them would not end."""
    with pytest.raises(ModelError, match=r"^\$ must be JSON: "):
        _json_text.load(text)
