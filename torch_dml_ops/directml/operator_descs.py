"""The descriptors of the operators: their fields, their rules, and the sizes of their outputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import NoneType
from typing import Any

from torch_dml_ops.directml._descriptors import rules as rules
from torch_dml_ops.directml._descriptors.base import Call, OperatorDesc
from torch_dml_ops.directml._schema.arguments import instance
from torch_dml_ops.directml._schema.in_sentences import as_json
from torch_dml_ops.directml._schema.json_documents import Cursor
from torch_dml_ops.directml._schema.structs import INTEGER, Kind, or_none
from torch_dml_ops.directml.errors import Violation
from torch_dml_ops.directml.tensor_desc import PACKED, TensorDesc, TensorPolicy

_COUNT = or_none(INTEGER)._replace(read=INTEGER.read, required=True)
_WHY_ABSENT = "elements are copied here, not computed"


def _read_absent(cursor: Cursor) -> None:
    if cursor.value is not None:
        cursor.fail(f"must be absent or null, as {_WHY_ABSENT}, got {as_json(cursor.value)}")


_ABSENT = Kind(partial(instance, NoneType, called="None", way_out=f"; {_WHY_ABSENT}"), _read_absent, at_first=object)


def _count_of(name: str) -> dict[str, Any]:
    """The metadata of a field that has as many as there are tensors in another one, or dimensions of its tensor."""
    return {"kind": _COUNT, "counts": name}


def _with_size(tensor: TensorDesc, axis: int, size: int) -> tuple[int, ...]:
    return (*tensor.sizes[:axis], size, *tensor.sizes[axis + 1 :])


def _window(desc: Slice1OperatorDesc | SliceGradOperatorDesc) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
    return desc.input_window_offsets, desc.input_window_sizes, desc.input_window_strides


def _sizes_of_walk(given: Any) -> list[list[int]]:
    """With as many dimensions as the input has; if the window has more or fewer, validate says so."""
    walks = zip(given.input_window_sizes, given.input_window_strides, strict=False)
    sizes, rank = [rules.most_steps(*walk) or 1 for walk in walks], len(given.input_tensor.sizes)
    return [[*sizes, *[1] * rank][:rank]]


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
    dimension_count: int | None = field(default=None, metadata=_count_of("input_tensor"))
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
        return cls._infer(
            tensor_policy,
            _sizes_of_walk,
            input_tensor=input_tensor,
            input_window_sizes=input_window_sizes,
            input_window_strides=input_window_strides,
            input_window_offsets=input_window_offsets,
        )[0]

    def _rules(self) -> Iterator[Violation]:
        return rules.window(*_window(self), self.input_tensor, "input_tensor", self.output_tensor, "output_tensor")

    def _call(self) -> Call:
        return Call("slice1", (*_window(self), self.output_tensor.sizes))


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
    dimension_count: int | None = field(default=None, metadata=_count_of("input_tensor"))
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
        given = {"input_tensor": input_tensor, "offsets": offsets, "sizes": sizes, "strides": strides}
        return cls._infer(tensor_policy, lambda given: [given.sizes], **given)[0]

    def _rules(self) -> Iterator[Violation]:
        return rules.slice_walk(self.offsets, self.sizes, self.strides, self.input_tensor, self.output_tensor)

    def _call(self) -> Call:
        extents = tuple((size - 1) * stride + 1 for size, stride in zip(self.sizes, self.strides, strict=True))
        return Call("slice1", (self.offsets, extents, self.strides, self.sizes))


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
    dimension_count: int | None = field(default=None, metadata=_count_of("input_gradient_tensor"))
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
        return cls._infer(
            tensor_policy,
            lambda given: [given.output_gradient_sizes],
            input_gradient_tensor=input_gradient_tensor,
            output_gradient_sizes=output_gradient_sizes,
            input_window_offsets=input_window_offsets,
            input_window_sizes=input_window_sizes,
            input_window_strides=input_window_strides,
        )[0]

    def _rules(self) -> Iterator[Violation]:
        whole, part = self.output_gradient_tensor, self.input_gradient_tensor
        return rules.window(*_window(self), whole, "output_gradient_tensor", part, "input_gradient_tensor")

    def _call(self) -> Call:
        return Call("slice_grad", (self.output_gradient_tensor.sizes, *_window(self)))


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
    output_count: int | None = field(default=None, metadata=_count_of("output_tensors"))
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

        def sizes_of(given: Any) -> list[tuple[int, ...]]:
            cls._refuse_if_any(rules.axis_within(given.axis, given.input_tensor, "input_tensor"))
            return [_with_size(given.input_tensor, given.axis, size) for size in given.output_axis_sizes]

        given = {"input_tensor": input_tensor, "axis": axis, "output_axis_sizes": output_axis_sizes}
        return cls._infer(tensor_policy, sizes_of, **given)

    def _rules(self) -> Iterator[Violation]:
        whole = self.input_tensor
        return rules.pieces_of_whole(self.output_tensors, "output_tensors", whole, "input_tensor", self.axis)

    def _call(self) -> Call:
        return Call("split", (tuple(tensor.sizes[self.axis] for tensor in self.output_tensors), self.axis))


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

    input_count: int | None = field(default=None, metadata=_count_of("input_tensors"))
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

        def sizes_of(given: Any) -> list[tuple[int, ...]]:
            cls._refuse_if_any(rules.some(given.input_tensors, "input_tensors"))
            first, axis = given.input_tensors[0], given.axis
            cls._refuse_if_any(rules.axis_within(axis, first, "output_tensor"))
            return [_with_size(first, axis, sum(sum(piece.sizes[axis : axis + 1]) for piece in given.input_tensors))]

        return cls._infer(tensor_policy, sizes_of, input_tensors=input_tensors, axis=axis)[0]

    def _rules(self) -> Iterator[Violation]:
        whole = self.output_tensor
        return rules.pieces_of_whole(self.input_tensors, "input_tensors", whole, "output_tensor", self.axis)

    def _call(self) -> Call:
        return Call("join", (self.axis,))


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
        given = {"input_tensor": input_tensor, "sequence_lengths_tensor": sequence_lengths_tensor, "axis": axis}
        return cls._infer(tensor_policy, lambda given: [given.input_tensor.sizes], **given)[0]

    def _rules(self) -> Iterator[Violation]:
        return rules.subsequences(self.input_tensor, self.sequence_lengths_tensor, self.output_tensor, self.axis)

    def _call(self) -> Call:
        return Call("reverse_subsequences", (self.axis,))


@dataclass(frozen=True, kw_only=True, repr=False)
class ElementWiseIdentityOperatorDesc(OperatorDesc):
    """Copies a tensor, into other strides where they differ: ``DML_ELEMENT_WISE_IDENTITY_OPERATOR_DESC``.

    Graphs transpose and broadcast by it: the memory of a tensor is read by the strides of another one, see
    :class:`Graph`. The output may be the input itself, the same memory in the same strides, which stays as it is.

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
    in_place = True

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    scale_bias: None = field(default=None, metadata={"kind": _ABSENT})

    @classmethod
    def infer_output(cls, input_tensor: TensorDesc, *, tensor_policy: TensorPolicy = PACKED) -> TensorDesc:
        """The output, of the input's sizes; raises ``DescriptorError`` for an input that breaks rules.

        >>> from torch_dml_ops.directml import *
        >>> broadcast = TensorDesc(TensorDataType.INT8, [2, 3], strides=[0, 1])
        >>> ElementWiseIdentityOperatorDesc.infer_output(broadcast)
        TensorDesc(INT8, [2, 3])
        """
        return cls._infer(tensor_policy, lambda given: [given.input_tensor.sizes], input_tensor=input_tensor)[0]

    def _rules(self) -> Iterator[Violation]:
        sizes = self.output_tensor.sizes
        return rules.same_sizes(("output_tensor",), sizes, self.input_tensor.sizes, "input_tensor")

    def _call(self) -> Call:
        sizes = self.input_tensor.sizes
        rank = len(sizes)
        return Call("slice1", ((0,) * rank, sizes, (1,) * rank, sizes))
