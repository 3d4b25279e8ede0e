"""The descriptors of the operators: their fields, what follows from them, and their JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, ClassVar, TypeVar, get_type_hints

from torch_dml_ops._arguments import instance, integer, integers, list_of
from torch_dml_ops._text import JsonPath, in_repr
from torch_dml_ops.directml import _rules as rules
from torch_dml_ops.directml.enums import FeatureLevel
from torch_dml_ops.directml.errors import DescriptorError, Violation
from torch_dml_ops.directml.support import PREFIX, check_level
from torch_dml_ops.directml.tensor_desc import TensorDesc
from torch_dml_ops.directml.tensor_policy import PACKED, TensorPolicy, output_desc

D = TypeVar("D", bound="OperatorDesc")

TENSOR, TENSORS, NUMBERS, COUNT = TensorDesc, Sequence[TensorDesc], Sequence[int], int | None
ABSENT = type(None)  # a field that DirectML has, and that nothing but its absence is supported of


@cache
def kinds(op: str) -> dict[str, Any]:
    """The fields of an operator's descriptor, in the struct's order, with their types."""
    hints = get_type_hints(DESCS[op])
    return {field.name: hints[field.name] for field in fields(DESCS[op])}


@dataclass(frozen=True, kw_only=True, repr=False)
class OperatorDesc:
    """What the descriptors share. Making one checks nothing but types; :meth:`validate` checks the rules."""

    operator_type: ClassVar[str]
    input_fields: ClassVar[tuple[str, ...]] = ("input_tensor",)
    output_fields: ClassVar[tuple[str, ...]] = ("output_tensor",)

    def __post_init__(self) -> None:
        if type(self) is OperatorDesc:
            raise TypeError("OperatorDesc: must be one of its kinds, such as SplitOperatorDesc")
        for name, kind in kinds(self.operator_type).items():
            label, value = f"{type(self).__name__}: {name}", getattr(self, name)
            if kind == NUMBERS:
                object.__setattr__(self, name, integers(label, value))
            elif kind == TENSOR:
                instance(TensorDesc, label, value)
            elif kind == TENSORS:
                object.__setattr__(self, name, list_of(TensorDesc, label, value))
            elif kind is int or (kind == COUNT and value is not None):
                object.__setattr__(self, name, integer(label, value))
            elif kind == ABSENT:
                instance(ABSENT, label, value, "None", way_out="; elements are copied here, not computed")
        for name, (count, *_) in self._counts().items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, count)

    def __repr__(self) -> str:
        kept = (name for name, kind in kinds(self.operator_type).items() if kind != ABSENT)
        fields = (f"{name}={in_repr(getattr(self, name))}" for name in kept)
        return f"{type(self).__name__}({', '.join(fields)})"

    def tensors(self) -> dict[str, TensorDesc | Sequence[TensorDesc]]:
        """The tensors by field, the inputs first."""
        return {name: getattr(self, name) for name in (*self.input_fields, *self.output_fields)}

    def inputs(self) -> list[tuple[JsonPath, TensorDesc]]:
        """The input tensors, each with its place: ``("input_tensors", 1)``."""
        return self._with_places(self.input_fields)

    def outputs(self) -> list[tuple[JsonPath, TensorDesc]]:
        """The output tensors, each with its place."""
        return self._with_places(self.output_fields)

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
        """The rules that hold at every feature level."""
        yield from self._rules()
        for path, tensor in self.inputs():
            yield from tensor.violations(path)
        for path, tensor in self.outputs():
            yield from tensor.violations(path, written=True)
        for name, (count, meaning, of) in self._counts().items():
            if getattr(self, name) != count:
                yield Violation((name,), (f"must be {count}, {meaning} ", (of,)), getattr(self, name))
        yield from rules.alike([*self.inputs(), *self.outputs()])

    def _counts(self) -> dict[str, tuple[int, str, str]]:
        """What the fields that count something must be, and of which field."""
        raise NotImplementedError

    def _rules(self) -> Iterator[Violation]:
        """The operator's own."""
        raise NotImplementedError

    # The form in model files.

    def to_json(self) -> dict[str, Any]:
        """The operator as a dispatchable of a model file: its ``type`` and its ``desc``.

        >>> from torch_dml_ops.directml import *
        >>> x = TensorDesc(TensorDataType.INT8, [4])
        >>> SplitOperatorDesc(input_tensor=x, output_tensors=[x], axis=0).to_json()["desc"]["OutputCount"]
        1
        """
        json: dict[str, Any] = {}
        for name, kind in kinds(self.operator_type).items():
            value = getattr(self, name)
            if kind == TENSOR:
                value = value.to_json()
            elif kind == TENSORS:
                value = [tensor.to_json() for tensor in value]
            elif kind == NUMBERS:
                value = list(value)
            if kind != ABSENT:
                json[name_in_json(name)] = value
        return {"type": f"{PREFIX}{self.operator_type}", "desc": json}

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
        from torch_dml_ops.directml._parse_descs import operator_from_json

        return operator_from_json(cls, value)


def name_in_json(field: str) -> str:
    """``InputTensor`` of ``input_tensor``: the name in C, and so in model files."""
    return field.title().replace("_", "")


def _label(caller: type[OperatorDesc], name: str) -> str:
    return f"{caller.__name__}.infer_output: {name}"


def _resized(caller: type[OperatorDesc], tensor: TensorDesc, sizes: Iterable[int], policy: TensorPolicy) -> TensorDesc:
    """Of the same data type, laid out as the policy says."""
    return output_desc(instance(TensorPolicy, _label(caller, "tensor_policy"), policy), tensor.data_type, tuple(sizes))


# The operators.


@dataclass(frozen=True, kw_only=True, repr=False)
class Slice1OperatorDesc(OperatorDesc):
    """Copies a window of a tensor, walked with any stride: ``DML_SLICE1_OPERATOR_DESC``.

    Attributes:
        input_tensor: what is read.
        output_tensor: its sizes are from 1 to ``1 + (input_window_sizes[d] - 1) // abs(input_window_strides[d])``.
        dimension_count: that of the tensors, which None stands for.
        input_window_offsets: where the window begins in each dimension, in elements.
        input_window_sizes: its extent, at least 1 and within the input.
        input_window_strides: the steps of the walk, in elements, not 0; a negative one starts at the window's end.

    Source: `DML_SLICE1_OPERATOR_DESC
    <https://learn.microsoft.com/en-us/windows/win32/api/directml/ns-directml-dml_slice1_operator_desc>`_.

    >>> from torch_dml_ops.directml import *
    >>> x = TensorDesc(TensorDataType.FLOAT32, [4, 4])
    >>> window = dict(input_window_offsets=[0, 1], input_window_sizes=[4, 3], input_window_strides=[-2, 2])
    >>> y = Slice1OperatorDesc.infer_output(x, **window)
    >>> Slice1OperatorDesc(input_tensor=x, output_tensor=y, **window).validate()
    >>> window["input_window_strides"] = [-2, 0]
    >>> Slice1OperatorDesc(input_tensor=x, output_tensor=y, **window).validate(FeatureLevel.LEVEL_6_4)
    Traceback (most recent call last):
        ...
    torch_dml_ops.directml.errors.DescriptorError: SLICE1 at feature level 6_4 breaks a rule:
      input_window_strides[1] must not be 0, got 0
    """

    operator_type = "SLICE1"

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    dimension_count: int | None = None
    input_window_offsets: Sequence[int]
    input_window_sizes: Sequence[int]
    input_window_strides: Sequence[int]

    @classmethod
    def infer_output(
        cls,
        input_tensor: TensorDesc,
        input_window_offsets: Sequence[int],
        input_window_sizes: Sequence[int],
        input_window_strides: Sequence[int],
        *,
        tensor_policy: TensorPolicy = PACKED,
    ) -> TensorDesc:
        """The output that takes every step, laid out as the policy says, by default packed.

        Raises ``DescriptorError`` for a window that is not in the input.

        >>> from torch_dml_ops.directml import *
        >>> Slice1OperatorDesc.infer_output(TensorDesc(TensorDataType.INT8, [9]), [1], [8], [-3])
        TensorDesc(INT8, [3])
        """
        instance(TensorDesc, _label(cls, "input_tensor"), input_tensor)
        input_window_sizes = integers(_label(cls, "input_window_sizes"), input_window_sizes)
        input_window_strides = integers(_label(cls, "input_window_strides"), input_window_strides)
        pairs = zip(input_window_sizes, input_window_strides, strict=False)
        steps = [rules.most_steps(*pair) or 1 for pair in pairs]
        rank = len(input_tensor.sizes)
        output = _resized(cls, input_tensor, [*steps, *[1] * rank][:rank], tensor_policy)
        cls(
            input_tensor=input_tensor,
            output_tensor=output,
            input_window_offsets=input_window_offsets,
            input_window_sizes=input_window_sizes,
            input_window_strides=input_window_strides,
        ).validate()
        return output

    def _counts(self) -> dict[str, tuple[int, str, str]]:
        return {"dimension_count": (len(self.input_tensor.sizes), "that of", "input_tensor")}

    def _rules(self) -> Iterator[Violation]:
        walk = self.input_window_offsets, self.input_window_sizes, self.input_window_strides
        return rules.window(*walk, self.input_tensor, "input_tensor", self.output_tensor, "output_tensor")


@dataclass(frozen=True, kw_only=True, repr=False)
class SliceOperatorDesc(OperatorDesc):
    """Copies every ``strides[d]``-th element from ``offsets[d]`` on: ``DML_SLICE_OPERATOR_DESC``, older than SLICE1.

    Attributes:
        input_tensor: what is read.
        output_tensor: of the sizes ``sizes``.
        dimension_count: that of the tensors, which None stands for.
        offsets: where to begin in each dimension, in elements.
        sizes: how many elements to take, at least 1.
        strides: the steps, in elements, at least 1; the last element taken must be within the input.

    Source: `DML_SLICE_OPERATOR_DESC
    <https://learn.microsoft.com/en-us/windows/win32/api/directml/ns-directml-dml_slice_operator_desc>`_.

    >>> from torch_dml_ops.directml import *
    >>> x = TensorDesc(TensorDataType.FLOAT32, [5, 5])
    >>> y = SliceOperatorDesc.infer_output(x, offsets=[1, 1], sizes=[3, 2], strides=[1, 2])
    >>> SliceOperatorDesc(input_tensor=x, output_tensor=y, offsets=[1, 1], sizes=[3, 2], strides=[1, 2]).validate()
    """

    operator_type = "SLICE"

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    dimension_count: int | None = None
    offsets: Sequence[int]
    sizes: Sequence[int]
    strides: Sequence[int]

    @classmethod
    def infer_output(
        cls,
        input_tensor: TensorDesc,
        offsets: Sequence[int],
        sizes: Sequence[int],
        strides: Sequence[int],
        *,
        tensor_policy: TensorPolicy = PACKED,
    ) -> TensorDesc:
        """The output, of the sizes ``sizes``, laid out as the policy says, by default packed.

        Raises ``DescriptorError`` for elements that the input lacks.

        >>> from torch_dml_ops.directml import *
        >>> SliceOperatorDesc.infer_output(TensorDesc(TensorDataType.INT8, [9]), [0], [3], [4])
        TensorDesc(INT8, [3])
        """
        instance(TensorDesc, _label(cls, "input_tensor"), input_tensor)
        sizes = integers(_label(cls, "sizes"), sizes)
        output = _resized(cls, input_tensor, sizes, tensor_policy)
        desc = cls(input_tensor=input_tensor, output_tensor=output, offsets=offsets, sizes=sizes, strides=strides)
        desc.validate()
        return output

    def _counts(self) -> dict[str, tuple[int, str, str]]:
        return {"dimension_count": (len(self.input_tensor.sizes), "that of", "input_tensor")}

    def _rules(self) -> Iterator[Violation]:
        return rules.slice_walk(self.offsets, self.sizes, self.strides, self.input_tensor, self.output_tensor)


@dataclass(frozen=True, kw_only=True, repr=False)
class SliceGradOperatorDesc(OperatorDesc):
    """Puts elements back to where SLICE1 read them, into zeros: ``DML_SLICE_GRAD_OPERATOR_DESC``.

    Attributes:
        input_gradient_tensor: of sizes that SLICE1's output could have.
        output_gradient_tensor: of the sizes of SLICE1's input, which the window lies in.
        dimension_count: that of the tensors, which None stands for.
        input_window_offsets, input_window_sizes, input_window_strides: SLICE1's window.

    Source: `DML_SLICE_GRAD_OPERATOR_DESC
    <https://learn.microsoft.com/en-us/windows/win32/api/directml/ns-directml-dml_slice_grad_operator_desc>`_.

    >>> from torch_dml_ops.directml import *
    >>> g = TensorDesc(TensorDataType.FLOAT32, [3])
    >>> window = dict(input_window_offsets=[1], input_window_sizes=[5], input_window_strides=[-2])
    >>> y = SliceGradOperatorDesc.infer_output(g, output_gradient_sizes=[7], **window)
    >>> SliceGradOperatorDesc(input_gradient_tensor=g, output_gradient_tensor=y, **window).validate()
    """

    operator_type = "SLICE_GRAD"
    input_fields = ("input_gradient_tensor",)
    output_fields = ("output_gradient_tensor",)

    input_gradient_tensor: TensorDesc
    output_gradient_tensor: TensorDesc
    dimension_count: int | None = None
    input_window_offsets: Sequence[int]
    input_window_sizes: Sequence[int]
    input_window_strides: Sequence[int]

    @classmethod
    def infer_output(
        cls,
        input_gradient_tensor: TensorDesc,
        output_gradient_sizes: Sequence[int],
        input_window_offsets: Sequence[int],
        input_window_sizes: Sequence[int],
        input_window_strides: Sequence[int],
        *,
        tensor_policy: TensorPolicy = PACKED,
    ) -> TensorDesc:
        """The output of these sizes, laid out as the policy says, by default packed.

        The sizes are those of SLICE1's input and follow from nothing else here.

        Raises ``DescriptorError`` for a window that does not lie in them or that the gradient does not fit.

        >>> from torch_dml_ops.directml import *
        >>> SliceGradOperatorDesc.infer_output(TensorDesc(TensorDataType.FLOAT32, [3]), [7], [1], [5], [-2])
        TensorDesc(FLOAT32, [7])
        """
        instance(TensorDesc, _label(cls, "input_gradient_tensor"), input_gradient_tensor)
        sizes = integers(_label(cls, "output_gradient_sizes"), output_gradient_sizes)
        output = _resized(cls, input_gradient_tensor, sizes, tensor_policy)
        cls(
            input_gradient_tensor=input_gradient_tensor,
            output_gradient_tensor=output,
            input_window_offsets=input_window_offsets,
            input_window_sizes=input_window_sizes,
            input_window_strides=input_window_strides,
        ).validate()
        return output

    def _counts(self) -> dict[str, tuple[int, str, str]]:
        return {"dimension_count": (len(self.input_gradient_tensor.sizes), "that of", "input_gradient_tensor")}

    def _rules(self) -> Iterator[Violation]:
        walk = self.input_window_offsets, self.input_window_sizes, self.input_window_strides
        whole, part = self.output_gradient_tensor, self.input_gradient_tensor
        return rules.window(*walk, whole, "output_gradient_tensor", part, "input_gradient_tensor")


@dataclass(frozen=True, kw_only=True, repr=False)
class SplitOperatorDesc(OperatorDesc):
    """Copies a tensor into pieces along an axis: ``DML_SPLIT_OPERATOR_DESC``.

    Attributes:
        input_tensor: what is read.
        output_count: the number of pieces, at least 1, which None stands for.
        output_tensors: of the input's sizes but along the axis, where theirs sum to the input's.
        axis: from 0 to the dimension count less 1.

    Source: `DML_SPLIT_OPERATOR_DESC
    <https://learn.microsoft.com/en-us/windows/win32/api/directml/ns-directml-dml_split_operator_desc>`_.

    >>> from torch_dml_ops.directml import *
    >>> x = TensorDesc(TensorDataType.FLOAT32, [6, 2])
    >>> pieces = SplitOperatorDesc.infer_output(x, axis=0, output_axis_sizes=[2, 1, 3])
    >>> SplitOperatorDesc(input_tensor=x, output_tensors=pieces, axis=0).validate()
    """

    operator_type = "SPLIT"
    output_fields = ("output_tensors",)

    input_tensor: TensorDesc
    output_count: int | None = None
    output_tensors: Sequence[TensorDesc]
    axis: int

    @classmethod
    def infer_output(
        cls,
        input_tensor: TensorDesc,
        axis: int,
        output_axis_sizes: Sequence[int],
        *,
        tensor_policy: TensorPolicy = PACKED,
    ) -> tuple[TensorDesc, ...]:
        """The outputs of these sizes along the axis, laid out as the policy says, by default packed.

        Raises ``DescriptorError`` where they do not sum to the input's.

        >>> from torch_dml_ops.directml import *
        >>> SplitOperatorDesc.infer_output(TensorDesc(TensorDataType.INT8, [2, 3]), 1, [1, 2])
        (TensorDesc(INT8, [2, 1]), TensorDesc(INT8, [2, 2]))
        """
        instance(TensorDesc, _label(cls, "input_tensor"), input_tensor)
        axis = integer(_label(cls, "axis"), axis)
        output_axis_sizes = integers(_label(cls, "output_axis_sizes"), output_axis_sizes)
        sizes = tuple(input_tensor.sizes)
        if not 0 <= axis < len(sizes):
            raise DescriptorError(cls.operator_type, list(rules.axis_within(axis, input_tensor, "input_tensor")))
        of_pieces = [(*sizes[:axis], size, *sizes[axis + 1 :]) for size in output_axis_sizes]
        pieces = tuple(_resized(cls, input_tensor, sizes, tensor_policy) for sizes in of_pieces)
        cls(input_tensor=input_tensor, output_tensors=pieces, axis=axis).validate()
        return pieces

    def _counts(self) -> dict[str, tuple[int, str, str]]:
        return {"output_count": (len(self.output_tensors), "the number of", "output_tensors")}

    def _rules(self) -> Iterator[Violation]:
        whole = self.input_tensor
        return rules.pieces_of_whole(self.output_tensors, "output_tensors", whole, "input_tensor", self.axis)


@dataclass(frozen=True, kw_only=True, repr=False)
class JoinOperatorDesc(OperatorDesc):
    """Copies tensors one after another along an axis: ``DML_JOIN_OPERATOR_DESC``.

    Attributes:
        input_count: the number of pieces, at least 1, which None stands for.
        input_tensors: of the output's sizes but along the axis, where theirs sum to the output's.
        output_tensor: what is written.
        axis: from 0 to the dimension count less 1.

    Source: `DML_JOIN_OPERATOR_DESC
    <https://learn.microsoft.com/en-us/windows/win32/api/directml/ns-directml-dml_join_operator_desc>`_.

    >>> from torch_dml_ops.directml import *
    >>> pieces = [TensorDesc(TensorDataType.FLOAT32, [n, 2]) for n in (2, 1, 3)]
    >>> y = JoinOperatorDesc.infer_output(pieces, axis=0)
    >>> JoinOperatorDesc(input_tensors=pieces, output_tensor=y, axis=0).validate()
    """

    operator_type = "JOIN"
    input_fields = ("input_tensors",)

    input_count: int | None = None
    input_tensors: Sequence[TensorDesc]
    output_tensor: TensorDesc
    axis: int

    @classmethod
    def infer_output(
        cls, input_tensors: Sequence[TensorDesc], axis: int, *, tensor_policy: TensorPolicy = PACKED
    ) -> TensorDesc:
        """The output, laid out as the policy says, by default packed.

        Raises ``DescriptorError`` for inputs whose sizes differ elsewhere than along the axis.

        >>> from torch_dml_ops.directml import *
        >>> JoinOperatorDesc.infer_output([TensorDesc(TensorDataType.INT8, [2, n]) for n in (1, 2)], 1)
        TensorDesc(INT8, [2, 3])
        """
        input_tensors = list_of(TensorDesc, _label(cls, "input_tensors"), input_tensors)
        axis = integer(_label(cls, "axis"), axis)
        if not input_tensors:
            raise DescriptorError(cls.operator_type, list(rules.some(input_tensors, "input_tensors")))
        first = input_tensors[0]
        if not 0 <= axis < len(first.sizes):
            raise DescriptorError(cls.operator_type, list(rules.axis_within(axis, first, "output_tensor")))
        total = sum(size for piece in input_tensors for size in piece.sizes[axis : axis + 1])
        output = _resized(cls, first, (*first.sizes[:axis], total, *first.sizes[axis + 1 :]), tensor_policy)
        cls(input_tensors=input_tensors, output_tensor=output, axis=axis).validate()
        return output

    def _counts(self) -> dict[str, tuple[int, str, str]]:
        return {"input_count": (len(self.input_tensors), "the number of", "input_tensors")}

    def _rules(self) -> Iterator[Violation]:
        whole = self.output_tensor
        return rules.pieces_of_whole(self.input_tensors, "input_tensors", whole, "output_tensor", self.axis)


@dataclass(frozen=True, kw_only=True, repr=False)
class ReverseSubsequencesOperatorDesc(OperatorDesc):
    """Reverses the first elements along an axis, each row by its length: ``DML_REVERSE_SUBSEQUENCES_OPERATOR_DESC``.

    Attributes:
        input_tensor: what is read.
        sequence_lengths_tensor: UINT32, and UINT64 from feature level 5_0 on; of the input's sizes, with 1 at the axis.
        output_tensor: of the input's sizes.
        axis: from 0 to the dimension count less 1.

    Source: `DML_REVERSE_SUBSEQUENCES_OPERATOR_DESC
    <https://learn.microsoft.com/en-us/windows/win32/api/directml/ns-directml-dml_reverse_subsequences_operator_desc>`_.

    >>> from torch_dml_ops.directml import *
    >>> x, lengths = TensorDesc(TensorDataType.FLOAT32, [3, 4]), TensorDesc(TensorDataType.UINT32, [3, 1])
    >>> y = ReverseSubsequencesOperatorDesc.infer_output(x, lengths, axis=1)
    >>> desc = ReverseSubsequencesOperatorDesc(
    ...     input_tensor=x, sequence_lengths_tensor=lengths, output_tensor=y, axis=1
    ... )
    >>> desc.validate()
    """

    operator_type = "REVERSE_SUBSEQUENCES"
    input_fields = ("input_tensor", "sequence_lengths_tensor")

    input_tensor: TensorDesc
    sequence_lengths_tensor: TensorDesc
    output_tensor: TensorDesc
    axis: int

    @classmethod
    def infer_output(
        cls,
        input_tensor: TensorDesc,
        sequence_lengths_tensor: TensorDesc,
        axis: int,
        *,
        tensor_policy: TensorPolicy = PACKED,
    ) -> TensorDesc:
        """The output, of the input's sizes, laid out as the policy says, by default packed.

        Raises ``DescriptorError`` for lengths that do not fit it.

        >>> from torch_dml_ops.directml import *
        >>> lengths = TensorDesc(TensorDataType.UINT32, [1, 3])
        >>> ReverseSubsequencesOperatorDesc.infer_output(TensorDesc(TensorDataType.INT8, [2, 3]), lengths, 0)
        TensorDesc(INT8, [2, 3])
        """
        instance(TensorDesc, _label(cls, "input_tensor"), input_tensor)
        instance(TensorDesc, _label(cls, "sequence_lengths_tensor"), sequence_lengths_tensor)
        axis = integer(_label(cls, "axis"), axis)
        output = _resized(cls, input_tensor, input_tensor.sizes, tensor_policy)
        tensors = {"input_tensor": input_tensor, "sequence_lengths_tensor": sequence_lengths_tensor}
        cls(**tensors, output_tensor=output, axis=axis).validate()
        return output

    def _counts(self) -> dict[str, tuple[int, str, str]]:
        return {}

    def _rules(self) -> Iterator[Violation]:
        return rules.subsequences(self.input_tensor, self.sequence_lengths_tensor, self.output_tensor, self.axis)


@dataclass(frozen=True, kw_only=True, repr=False)
class ElementWiseIdentityOperatorDesc(OperatorDesc):
    """Copies a tensor, into other strides where they differ: ``DML_ELEMENT_WISE_IDENTITY_OPERATOR_DESC``.

    Graphs transpose and broadcast by it: the memory of a tensor is read by the strides of another one, see
    :class:`Graph`.

    Attributes:
        input_tensor: what is read.
        output_tensor: of the input's sizes.
        scale_bias: None, as elements are copied here, not computed.

    Source: `DML_ELEMENT_WISE_IDENTITY_OPERATOR_DESC
    <https://learn.microsoft.com/en-us/windows/win32/api/directml/ns-directml-dml_element_wise_identity_operator_desc>`_.

    >>> import torch
    >>> from torch_dml_ops.directml import *
    >>> x, y = TensorDesc(TensorDataType.FLOAT32, [2, 3]), TensorDesc(TensorDataType.FLOAT32, [2, 3], strides=[1, 2])
    >>> identity = Operator(ElementWiseIdentityOperatorDesc(input_tensor=x, output_tensor=y))
    >>> identity(torch.ones(2, 3)).stride()
    (1, 2)
    """

    operator_type = "ELEMENT_WISE_IDENTITY"

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    scale_bias: None = None

    @classmethod
    def infer_output(cls, input_tensor: TensorDesc, *, tensor_policy: TensorPolicy = PACKED) -> TensorDesc:
        """The output, of the input's sizes; raises ``DescriptorError`` for an input that breaks rules.

        >>> from torch_dml_ops.directml import *
        >>> broadcast = TensorDesc(TensorDataType.INT8, [2, 3], strides=[0, 1])
        >>> ElementWiseIdentityOperatorDesc.infer_output(broadcast)
        TensorDesc(INT8, [2, 3])
        """
        instance(TensorDesc, _label(cls, "input_tensor"), input_tensor)
        output = _resized(cls, input_tensor, input_tensor.sizes, tensor_policy)
        cls(input_tensor=input_tensor, output_tensor=output).validate()
        return output

    def _counts(self) -> dict[str, tuple[int, str, str]]:
        return {}

    def _rules(self) -> Iterator[Violation]:
        sizes = self.output_tensor.sizes
        return rules.same_sizes(("output_tensor",), sizes, self.input_tensor.sizes, "input_tensor")


DESCS: dict[str, type[OperatorDesc]] = {
    desc.operator_type: desc
    for desc in (
        SliceOperatorDesc,
        Slice1OperatorDesc,
        SplitOperatorDesc,
        JoinOperatorDesc,
        ReverseSubsequencesOperatorDesc,
        SliceGradOperatorDesc,
        ElementWiseIdentityOperatorDesc,
    )
}
