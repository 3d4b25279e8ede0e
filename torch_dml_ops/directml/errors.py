"""What is wrong with a descriptor or with a model file, and where."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from torch_dml_ops._sentences.text import cut, shown
from torch_dml_ops.directml._schema.arguments import instance, list_of, place, string
from torch_dml_ops.directml._schema.in_sentences import JsonPath, as_json, dotted, json_path
from torch_dml_ops.directml.enums import FeatureLevel

_LONGEST_SENTENCE = 500
_MOST_LISTED = 100  # in a message; the attributes have them all


def _listed(what: str, sentences: Sequence[object], indent: str = "") -> list[str]:
    """A line for each of the first, and how many more there are."""
    lines = [f"{indent}{sentence}" for sentence in sentences[:_MOST_LISTED]]
    if len(sentences) > _MOST_LISTED:
        lines.append(f"{indent}and {len(sentences) - _MOST_LISTED} more; the attribute {what} has them all")
    return lines


def _rule(name: str, value: Any) -> str | tuple[str | JsonPath, ...]:
    if isinstance(value, str):
        return value
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"{name} must be a string, or a tuple of strings and paths, got {shown(value)}")
    return tuple(part if isinstance(part, str) else place(f"{name}[{k}]", part) for k, part in enumerate(value))


@dataclass(frozen=True)
class Violation:
    """A rule that a descriptor breaks.

    Attributes:
        path: the field and, in a list, the index: ``("input_tensor", "sizes", 2)``.
        rule: what is required of it: a string, or a tuple of strings and of the paths of the fields that it names.
        value: what it is.
        allowed_from: the feature level from which it would be allowed, None where none allows it.
    """

    path: JsonPath
    rule: str | Sequence[str | JsonPath]
    value: object
    allowed_from: FeatureLevel | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", place("Violation: path", self.path))
        object.__setattr__(self, "rule", _rule("Violation: rule", self.rule))
        if self.allowed_from is not None:
            instance(FeatureLevel, "Violation: allowed_from", self.allowed_from)

    @property
    def sentence(self) -> str:
        """Rule, value and level, without the field."""
        return sentence_on(self, dotted)

    def __str__(self) -> str:
        return f"{dotted(self.path)} {self.sentence}"


def sentence_on(violation: Violation, name: Callable[[JsonPath], str]) -> str:
    """Rule, value and level; `name` says what a field is called that the rule names."""
    parts = [violation.rule] if isinstance(violation.rule, str) else violation.rule
    rule = "".join(part if isinstance(part, str) else name(part) for part in parts)
    way_out = "" if violation.allowed_from is None else f"; allowed from feature level {violation.allowed_from}"
    got = violation.value if isinstance(violation.value, str) else as_json(violation.value)
    return f"{cut(f'{rule}, got {got}', _LONGEST_SENTENCE)}{way_out}"


class DescriptorError(ValueError):
    """A descriptor that breaks rules; ``violations`` has them all, the message a sentence for each of the first."""

    def __init__(self, subject: str, violations: Sequence[Violation]) -> None:
        self.subject = string("DescriptorError: subject", subject)
        self.violations = list_of(Violation, "DescriptorError: violations", violations)
        rules = "a rule" if len(self.violations) == 1 else f"{len(self.violations)} rules"
        super().__init__(
            "\n".join([f"{cut(subject, 100)} breaks {rules}:", *_listed("violations", self.violations, "  ")])
        )

    def __reduce__(self) -> tuple[type[DescriptorError], tuple[str, tuple[Violation, ...]]]:
        return DescriptorError, (self.subject, self.violations)


@dataclass(frozen=True)
class Problem:
    """Something wrong in JSON.

    Attributes:
        path: where.
        sentence: about it; it begins after the place.
    """

    path: JsonPath
    sentence: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", place("Problem: path", self.path))
        string("Problem: sentence", self.sentence)

    def __str__(self) -> str:
        return f"{json_path(self.path)} {cut(self.sentence, _LONGEST_SENTENCE)}"


class Ignored(Problem):
    """Something in JSON that is not read: what it stands in is used all the same, unless it is read strictly."""


class ModelWarning(UserWarning):
    """Something in a model file, or in a part of one, is not read: an unknown field, or a comment."""


class ModelError(ValueError):
    """A model file, or a part of one, that cannot be used; ``problems`` has all of it, the message the first."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = list_of(Problem, "ModelError: problems", problems)
        super().__init__("\n".join(_listed("problems", self.problems)))

    def __reduce__(self) -> tuple[type[ModelError], tuple[tuple[Problem, ...]]]:
        return ModelError, (self.problems,)
