"""What the descriptors of operators share: their checks, the inference of outputs, and their form in model files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar

from torch_dml_ops.directml._descriptors import rules as rules
from torch_dml_ops.directml._schema.arguments import instance
from torch_dml_ops.directml._schema.in_sentences import JsonPath, as_json, dotted
from torch_dml_ops.directml._schema.json_documents import ABSENT, Cursor, Wrong, read
from torch_dml_ops.directml._schema.structs import (
    INTEGERS,
    FileObject,
    Struct,
    fields_of,
    flags,
    name_in_json,
    read_fields,
)
from torch_dml_ops.directml.enums import ExecutionFlags, FeatureLevel
from torch_dml_ops.directml.errors import DescriptorError, Violation, sentence_on
from torch_dml_ops.directml.support import OPERATORS, PREFIX, check_level
from torch_dml_ops.directml.tensor_desc import TensorDesc, TensorPolicy, output_desc

D = TypeVar("D", bound="OperatorDesc")

OPERATOR_DESCS: dict[str, type[OperatorDesc]] = {}  # by their operators


class Call(NamedTuple):
    """A function of torch_dml_ops, and its arguments behind the tensors."""

    function: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True, kw_only=True, repr=False)
class OperatorDesc(Struct):
    """What the descriptors share. Making one checks nothing but types; :meth:`validate` checks the rules."""

    _called = "a descriptor of an operator"
    operator_type: ClassVar[str]
    input_fields: ClassVar[tuple[str, ...]] = ("input_tensor",)
    output_fields: ClassVar[tuple[str, ...]] = ("output_tensor",)
    in_place: ClassVar[bool] = False  # whether the output may be the input

    def __init_subclass__(cls) -> None:
        OPERATOR_DESCS.setdefault(cls.operator_type, cls)

    def __post_init__(self) -> None:
        if type(self) is OperatorDesc:
            raise TypeError("OperatorDesc: must be one of its kinds, such as SplitOperatorDesc")
        super().__post_init__()
        for name, count, _ in self._counts():
            if getattr(self, name) is None:
                object.__setattr__(self, name, count)

    def tensors(self) -> dict[str, TensorDesc | Sequence[TensorDesc]]:
        """The tensors by field, the inputs first."""
        return {name: getattr(self, name) for name in (*self.input_fields, *self.output_fields)}

    def inputs(self) -> list[tuple[JsonPath, TensorDesc]]:
        """The input tensors, each with its place: ``("input_tensors", 1)``."""
        return self._with_places(self.input_fields)

    def outputs(self) -> list[tuple[JsonPath, TensorDesc]]:
        """The output tensors, each with its place."""
        return self._with_places(self.output_fields)

    @classmethod
    def _are_list(cls, names: Sequence[str]) -> bool:
        """Whether the tensors of these fields are a list, by the fields' types."""
        return any(field.kind.is_list for field in fields_of(cls).values() if field.name in names)

    def _output_count(self) -> int:
        values = (getattr(self, name) for name in self.output_fields)
        return sum(1 if isinstance(value, TensorDesc) else len(value) for value in values)

    def _with_places(self, names: Sequence[str]) -> list[tuple[JsonPath, TensorDesc]]:
        result: list[tuple[JsonPath, TensorDesc]] = []
        for name in names:
            value = getattr(self, name)
            if isinstance(value, TensorDesc):
                result.append(((name,), value))
            else:
                result += [((name, k), tensor) for k, tensor in enumerate(value)]
        return result

    def validate(self, feature_level: FeatureLevel = FeatureLevel.NEWEST) -> None:
        """Checks every rule of the operator at a feature level.

        Raises:
            DescriptorError: with every rule that is broken, a sentence each: field, index, rule, value, and the level
                from which it would be allowed, where there is one.
        """
        check_level(feature_level)
        tensors = [*self.inputs(), *self.outputs()]
        violations = [*rules.supported(self.operator_type, feature_level, tensors), *self._violations()]
        if violations:
            raise DescriptorError(f"{self.operator_type} at feature level {feature_level}", violations)

    def _violations(self) -> Iterator[Violation]:
        """The rules that hold at every feature level: of what others follow from comes first."""
        for path, tensor in self.inputs():
            yield from tensor.violations(path)
        for path, tensor in self.outputs():
            yield from tensor.violations(path, written=True)
        for name, count, meaning in self._counts():
            if getattr(self, name) != count:
                yield Violation((name,), (f"must be {count}, ", *meaning), getattr(self, name))
        yield from rules.alike([*self.inputs(), *self.outputs()])
        yield from self._rules()

    def _counts(self) -> Iterator[tuple[str, int, Sequence[str | JsonPath]]]:
        """The fields that count something, what they must be, and the end of the sentence on that."""
        for field in fields(self):
            if of := field.metadata.get("counts"):
                value = getattr(self, of)
                if isinstance(value, TensorDesc):
                    yield field.name, len(value.sizes), ("that of ", (of,))
                else:
                    yield field.name, len(value), ("the number of ", (of,))

    def _rules(self) -> Iterator[Violation]:
        """The operator's own."""
        raise NotImplementedError

    def _call(self) -> Call:
        """What runs the operator, where the descriptor breaks no rule."""
        raise NotImplementedError

    # The form in model files.

    def to_json(self) -> dict[str, Any]:
        """The operator as a dispatchable of a model file: its ``type`` and its ``desc``.

        >>> from torch_dml_ops.directml import *
        >>> x = TensorDesc(TensorDataType.INT8, [4])
        >>> SplitOperatorDesc(input_tensor=x, output_tensors=[x], axis=0).to_json()["desc"]["OutputCount"]
        1
        """
        return {"type": f"{PREFIX}{self.operator_type}", "desc": self._to_json()}

    @classmethod
    def from_json(cls: type[D], value: object) -> D:
        """The operator that a dispatchable of a model file describes. Called on :class:`OperatorDesc`, any of them.

        Raises:
            ModelError: an object of another structure or another operator; it names every field that is wrong.

        Warns:
            ModelWarning: of unknown fields.

        >>> from torch_dml_ops.directml import *
        >>> x = TensorDesc(TensorDataType.INT8, [4])
        >>> desc = SplitOperatorDesc(input_tensor=x, output_tensors=[x], axis=0)
        >>> OperatorDesc.from_json(desc.to_json()) == desc
        True
        """
        return read(Cursor(value), partial(_read_kind, cls))

    @classmethod
    def _infer(
        cls, policy: TensorPolicy, sizes_of: Callable[[Any], Iterable[Iterable[int]]], **given: Any
    ) -> tuple[TensorDesc, ...]:
        """The outputs; `sizes_of` says their sizes, by the arguments of `infer_output` when they are checked."""
        label, kinds = f"{cls.__name__}.infer_output", {f.name: f.kind for f in fields_of(cls).values()}
        given = {name: kinds.get(name, INTEGERS).argument(f"{label}: {name}", value) for name, value in given.items()}
        instance(TensorPolicy, f"{label}: tensor_policy", policy)
        sizes = sizes_of(SimpleNamespace(**given))
        first = given[cls.input_fields[0]]
        data_type = (first if isinstance(first, TensorDesc) else first[0]).data_type
        outputs = tuple([output_desc(policy, data_type, tuple(each)) for each in sizes])
        given[cls.output_fields[0]] = outputs if cls._are_list(cls.output_fields) else outputs[0]
        cls(**{name: value for name, value in given.items() if name in kinds}).validate()
        return outputs

    @classmethod
    def _refuse_if_any(cls, violations: Iterable[Violation]) -> None:
        """What the sizes of the output cannot be inferred without."""
        if found := list(violations):
            raise DescriptorError(cls.operator_type, found)


# The dispatchables of model files.

# What DxDispatch runs besides operators, by its `type` in any case.
_OTHER_KINDS = {"onnx": "an ONNX model", "hlsl": "an HLSL shader", "dmlserializedgraph": "a serialized graph"}


def not_run(what: str) -> str:
    """The sentence about something that DxDispatch runs, and this package does not."""
    *others, last = OPERATORS
    return f"is {what}, which is not run here; the operators {', '.join(others)} and {last} are"


def _field(dispatchable: Cursor, name: str) -> Cursor:
    """DxDispatch looks for some fields under two names, first for the one with a capital."""
    capital = name.title()
    return dispatchable[capital if capital in dispatchable.value else name]


@dataclass(frozen=True, kw_only=True)
class _Dispatchable(FileObject):
    """What a dispatchable has besides the fields of its operator. How DirectML is to compile it makes no difference."""

    type: Any = None
    Type: Any = None
    executionFlags: Any = "NONE"
    dmlCompileType: Literal["DmlCompileOp", "DmlCompileGraph"] | None = None
    bindings: Any = None  # they are no part of a descriptor


@dataclass(frozen=True, kw_only=True)
class _LongDispatchable(_Dispatchable):
    desc: Any = None
    Desc: Any = None


def _operator_of(dispatchable: Cursor) -> type[OperatorDesc]:
    """What describes the operator that it runs."""
    name = _field(dispatchable, "type").required().expect(str).removeprefix(PREFIX)
    if name not in OPERATOR_DESCS:
        dispatchable.fail(not_run(_OTHER_KINDS.get(name.lower(), f"the operator {as_json(name)}")))
    return OPERATOR_DESCS[name]


def read_operator(dispatchable: Cursor) -> OperatorDesc:
    """The descriptor that a dispatchable holds."""
    dispatchable.expect(dict)
    desc = _operator_of(dispatchable)
    with suppress(Wrong):
        flags(ExecutionFlags).read(dispatchable.get("executionFlags", "NONE"))
    known, place = fields_of(desc), _field(dispatchable, "desc")
    if place.value is ABSENT and any(key in dispatchable.value for key in known):  # which stand in it themselves
        found = read_fields(dispatchable, fields_of(_Dispatchable) | known)
        found = {field.name: found[field.name] for field in known.values() if field.name in found}
    else:
        with suppress(Wrong):
            _LongDispatchable._read(dispatchable)
        found = read_fields(place.required(), known)
    return dispatchable.whole(desc(**found))


def place_of_desc(dispatchable: Cursor) -> Cursor:
    """What has the fields of its operator."""
    desc = _field(dispatchable, "desc")
    return dispatchable if desc.value is ABSENT else desc


def _in_json(field: JsonPath) -> str:
    return dotted(tuple(part if isinstance(part, int) else name_in_json(part) for part in field))


def note_violation(violation: Violation, dispatchable: Cursor) -> None:
    """In the words and at the place of the dispatchable that the descriptor was read from."""
    if violation.path == ("operator_type",):
        place = _field(dispatchable, "type")
    else:
        place = place_of_desc(dispatchable)
        for part in violation.path:
            if isinstance(place.value, dict) and "Desc" in place.value:  # the long form of a tensor
                place = place["Desc"]
            place = place[part if isinstance(part, int) else name_in_json(part)]
    place.note(sentence_on(violation, _in_json))


def _read_kind(kind: type[D], dispatchable: Cursor) -> D:
    result = read_operator(dispatchable)
    if not isinstance(result, kind):
        got = as_json(result.operator_type)
        dispatchable["type"].fail(f"must be {PREFIX}{kind.operator_type}, got {got}")
    return result
