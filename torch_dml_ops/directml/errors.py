"""What is wrong with a descriptor or with a model file, and where."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from torch_dml_ops.directml.enums import FeatureLevel

Path = tuple[str | int, ...]  # of field names, keys and indices

_LONGEST = 60  # of a value in a sentence


def text(value: object) -> str:
    """A value as sentences show it: short, whatever a file may hold."""
    if isinstance(value, Enum):
        return value.name
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, (list, tuple)):
        if not all(isinstance(v, int) for v in value):
            return "an array"
        return _cut(f"[{', '.join(map(text, value[:_LONGEST]))}]")
    if isinstance(value, int):
        return _cut(str(value // 10 ** max(int(math.log10(abs(value) or 1)) - 2 * _LONGEST, 0)))  # str has a limit
    return _cut(repr(value) if isinstance(value, str) else str(value))


def _cut(shown: str) -> str:
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…"


def shown(value: object) -> str:
    """A value of any type, as Python shows it."""
    try:
        return _cut(repr(value))
    except ValueError:  # Python does not write out numbers of very many digits
        return f"a value of type {type(value).__name__}"


def in_repr(value: object) -> str:
    """A field in the repr of a descriptor: tuples as lists, and no number too long."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(in_repr, value))}]"
    return text(value) if isinstance(value, int) else repr(value)


def dotted(path: Path) -> str:
    """``input_tensor.sizes[2]``."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return "".join(parts).removeprefix(".")


def json_path(path: Path) -> str:
    """``$.resources["a b"].initialValues[2]``."""
    parts = []
    for part in path:
        if isinstance(part, int):
            parts.append(f"[{part}]")
        elif re.fullmatch(r"\w+", part):
            parts.append(f".{part}")
        else:
            quoted = part.replace("\\", "\\\\").replace('"', '\\"')
            parts.append(f'["{printable(quoted)}"]')
    return "$" + "".join(parts)


def printable(name: str) -> str:
    """A name with JSON's escapes for what would end a line, move the cursor or turn the direction of writing."""
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in name)


@dataclass(frozen=True)
class Violation:
    """A rule that a descriptor breaks.

    Attributes:
        path: the field and, in a list, the index: ``("input_tensor", "sizes", 2)``.
        rule: what is required of it.
        value: what it is.
        allowed_from: the feature level from which it would be allowed, None where none allows it.
    """

    path: Path
    rule: str
    value: object
    allowed_from: FeatureLevel | None = None

    @property
    def sentence(self) -> str:
        """Rule, value and level, without the field."""
        way_out = "" if self.allowed_from is None else f"; allowed from feature level {self.allowed_from}"
        return f"{self.rule}, got {self.value if isinstance(self.value, str) else text(self.value)}{way_out}"

    def __str__(self) -> str:
        return f"{dotted(self.path)} {self.sentence}"


class DescriptorError(ValueError):
    """A descriptor that breaks rules; ``violations`` has them all, and the message a sentence for each."""

    def __init__(self, subject: str, violations: Sequence[Violation]) -> None:
        rules = "a rule" if len(violations) == 1 else f"{len(violations)} rules"
        super().__init__(f"{subject} breaks {rules}:" + "".join(f"\n  {violation}" for violation in violations))
        self.subject, self.violations = subject, tuple(violations)

    def __reduce__(self) -> tuple[type[DescriptorError], tuple[str, tuple[Violation, ...]]]:
        return DescriptorError, (self.subject, self.violations)


@dataclass(frozen=True)
class Problem:
    """Something wrong in JSON: where, and a sentence about it that begins after the place."""

    path: Path
    sentence: str

    def __str__(self) -> str:
        return f"{json_path(self.path)} {self.sentence}"


class ModelError(ValueError):
    """A model file, or a part of one, that cannot be used; ``problems`` has all that is wrong, by JSON path."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))

    def __reduce__(self) -> tuple[type[ModelError], tuple[tuple[Problem, ...]]]:
        return ModelError, (self.problems,)
