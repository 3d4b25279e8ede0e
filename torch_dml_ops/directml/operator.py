"""Operators on tensors: by a descriptor, and as DirectMLX writes them."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

import torch_dml_ops as dml
from torch_dml_ops._arguments import require_tensor, whole_numbers
from torch_dml_ops._text import cut, shown
from torch_dml_ops.directml._arguments import tensor as checked_tensor
from torch_dml_ops.directml._text import JsonPath, dotted, text
from torch_dml_ops.directml.enums import FeatureLevel
from torch_dml_ops.directml.operator_descs import (
    ElementWiseIdentityOperatorDesc,
    JoinOperatorDesc,
    OperatorDesc,
    ReverseSubsequencesOperatorDesc,
    Slice1OperatorDesc,
    SliceGradOperatorDesc,
    SliceOperatorDesc,
    SplitOperatorDesc,
)
from torch_dml_ops.directml.tensor_desc import TensorDesc


class _Call(NamedTuple):
    """A function of torch_dml_ops, and its arguments behind the tensors."""

    function: str
    arguments: tuple[Any, ...]


def _slice1(desc: Slice1OperatorDesc) -> _Call:
    window = desc.input_window_offsets, desc.input_window_sizes, desc.input_window_strides
    return _Call("slice1", (*window, desc.output_tensor.sizes))


def _slice(desc: SliceOperatorDesc) -> _Call:
    extents = tuple((size - 1) * stride + 1 for size, stride in zip(desc.sizes, desc.strides, strict=True))
    return _Call("slice1", (desc.offsets, extents, desc.strides, desc.sizes))


def _slice_grad(desc: SliceGradOperatorDesc) -> _Call:
    window = desc.input_window_offsets, desc.input_window_sizes, desc.input_window_strides
    return _Call("slice_grad", (desc.output_gradient_tensor.sizes, *window))


def _split(desc: SplitOperatorDesc) -> _Call:
    return _Call("split", (tuple(tensor.sizes[desc.axis] for tensor in desc.output_tensors), desc.axis))


def _join(desc: JoinOperatorDesc) -> _Call:
    return _Call("join", (desc.axis,))


def _reverse_subsequences(desc: ReverseSubsequencesOperatorDesc) -> _Call:
    return _Call("reverse_subsequences", (desc.axis,))


def _identity(desc: ElementWiseIdentityOperatorDesc) -> _Call:
    rank, sizes = len(desc.input_tensor.sizes), desc.input_tensor.sizes
    return _Call("slice1", ((0,) * rank, sizes, (1,) * rank, sizes))  # the whole


_CALLS: dict[type[OperatorDesc], Callable[[Any], _Call]] = {
    Slice1OperatorDesc: _slice1,
    SliceOperatorDesc: _slice,
    SliceGradOperatorDesc: _slice_grad,
    SplitOperatorDesc: _split,
    JoinOperatorDesc: _join,
    ReverseSubsequencesOperatorDesc: _reverse_subsequences,
    ElementWiseIdentityOperatorDesc: _identity,
}


class _Expected(NamedTuple):
    """A tensor of the descriptor, in torch's terms."""

    name: str
    dtype: torch.dtype
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    packed: bool
    items: int  # up to the last element, gaps included

    @classmethod
    def of(cls, path: JsonPath, desc: TensorDesc) -> _Expected:
        strides, items = desc.effective_strides, desc.items_up_to_last
        return cls(dotted(path), desc.data_type.dtype, tuple(desc.sizes), strides, desc.strides is None, items)

    def check(self, op: str, tensor: Tensor) -> None:
        checked_tensor(f"{op}: {self.name}", tensor)
        if tensor.dtype != self.dtype:
            raise ValueError(
                f"{op}: {self.name} must have dtype {str(self.dtype).removeprefix('torch.')}, got "
                f"{str(tensor.dtype).removeprefix('torch.')}"
            )
        if tuple(tensor.shape) != self.sizes:
            raise ValueError(f"{op}: {self.name} must have sizes {text(self.sizes)}, got {text(tensor.shape)}")

    def check_out(self, op: str, tensor: Tensor) -> None:
        self.check(op, tensor)
        for size, stride, wanted in zip(self.sizes, tensor.stride(), self.strides, strict=True):
            if size != 1 and stride != wanted:
                raise ValueError(
                    f"{op}: {self.name} must have strides {text(self.strides)}, got {text(tensor.stride())}"
                )

    @property
    def size_in_bytes(self) -> int:
        return self.items * self.dtype.itemsize

    def lay_out(self, op: str, result: Tensor) -> Tensor:
        """The result in the described strides; what lies between its elements is zero."""
        if self.packed:
            return result.contiguous()
        try:
            memory = result.new_zeros(self.items)
        except RuntimeError:  # nothing else can be wrong with it
            raise _beyond_memory(op, self.name, self.size_in_bytes) from None
        return memory.as_strided(self.sizes, self.strides).copy_(result)


def _beyond_memory(op: str, name: str, size: int) -> RuntimeError:
    return RuntimeError(f"{op}: {name} must fit into memory, and {size} bytes do not")


class Operator:
    """An operator that a descriptor describes, to be called on tensors.

    ``operator(*inputs)`` gives new tensors, ``operator(*inputs, out=…)`` writes into given ones. Operators of equal
    descriptors are equal. Calls go through
    ``torch.ops.torch_dml_ops``: without ``out`` they are differentiable, and ``torch.compile(fullgraph=True)`` takes
    them.

    Args:
        desc: a descriptor of an operator.
        feature_level: the level that the descriptor is to be valid at, by default the newest.

    Raises:
        DescriptorError: a descriptor that breaks rules, with all of them.

    Source: `IDMLDevice::CreateOperator
    <https://learn.microsoft.com/en-us/windows/win32/api/directml/nf-directml-idmldevice-createoperator>`_.

    >>> import torch
    >>> from torch_dml_ops.directml import *
    >>> x = torch.arange(6)
    >>> tensor = TensorDesc.from_tensor(x)
    >>> pieces = SplitOperatorDesc.infer_output(tensor, axis=0, output_axis_sizes=[2, 4])
    >>> split = Operator(SplitOperatorDesc(input_tensor=tensor, output_tensors=pieces, axis=0))
    >>> split(x)
    [tensor([0, 1]), tensor([2, 3, 4, 5])]
    """

    def __init__(self, desc: OperatorDesc, feature_level: FeatureLevel = FeatureLevel.NEWEST) -> None:
        if type(desc) not in _CALLS:
            raise TypeError(f"Operator: desc must be a descriptor of an operator, got {shown(desc)}")
        desc.validate(feature_level)
        self.desc = desc
        self._call = _CALLS[type(desc)](desc)
        self._inputs = tuple(_Expected.of(*tensor) for tensor in desc.inputs())
        self._outputs = tuple(_Expected.of(*tensor) for tensor in desc.outputs())
        self.takes_list, self.gives_list = isinstance(desc, JoinOperatorDesc), isinstance(desc, SplitOperatorDesc)

    def __repr__(self) -> str:
        return f"Operator({self.desc})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Operator) and self.desc == other.desc

    def __hash__(self) -> int:
        return hash(self.desc)

    def __call__(self, *inputs: Tensor, out: Tensor | Sequence[Tensor] | None = None) -> Any:
        """Runs the operator.

        Args:
            inputs: the descriptor's input tensors, in its order, of the described dtypes and sizes and of any strides.
                JOIN takes its tensors one by one.
            out: a tensor of the described dtype, sizes and strides, or for SPLIT a list of them, on the inputs' device.
                Memory between and beside its elements stays as it is.

        Returns:
            ``out``, or a new tensor with the described strides and zeros between its elements where those leave gaps;
            for SPLIT a list of tensors. New memory ends with the last element, however much more
            ``total_tensor_size_in_bytes`` says.

        Raises:
            ValueError: tensors other than described.
            TypeError: something that is no tensor.
            RuntimeError: what the operator itself refuses, such as an ``out`` that overlaps an input; a new tensor that
                does not fit into memory.
        """
        op = self.desc.operator_type
        if len(inputs) != len(self._inputs):
            raise ValueError(f"{op}: there must be {len(self._inputs)} input tensors, got {len(inputs)}")
        for expected, tensor in zip(self._inputs, inputs, strict=True):
            expected.check(op, tensor)
        tensors = (inputs,) if self.takes_list else inputs
        if out is None:
            for expected in self._outputs:
                if expected.size_in_bytes > sys.maxsize:
                    raise _beyond_memory(op, expected.name, expected.size_in_bytes)
            results = [
                expected.lay_out(op, result)
                for expected, result in zip(self._outputs, self._results(tensors), strict=True)
            ]
            return results if self.gives_list else results[0]
        if not isinstance(out, (Tensor, list, tuple)):
            raise TypeError(f"{op}: out must be a tensor or a list of them, got {cut(type(out).__name__)}")
        outs = [out] if isinstance(out, Tensor) else list(out)
        if self.gives_list == isinstance(out, Tensor) or len(outs) != len(self._outputs):
            wanted = f"a list of {len(self._outputs)} tensors" if self.gives_list else "a tensor"
            raise ValueError(f"{op}: out must be {wanted}, got {_kind_of(out)}")
        for expected, tensor in zip(self._outputs, outs, strict=True):
            expected.check_out(op, tensor)
        destination = outs if self.gives_list else outs[0]
        if torch.compiler.is_compiling():
            from torch_dml_ops.directml._in_graph import write  # with torch._dynamo, which takes long to import

            write(self._call.function, tensors, self._call.arguments, destination)
        else:
            getattr(dml, self._call.function)(*tensors, *self._call.arguments, out=destination)
        return out

    def _results(self, tensors: Sequence[Any]) -> list[Tensor]:
        """As the function gives them: dense."""
        try:
            results = getattr(dml, self._call.function)(*tensors, *self._call.arguments)
        except RuntimeError as error:
            if not isinstance(error, torch.OutOfMemoryError) and "DefaultCPUAllocator" not in str(error):
                raise
            (name,) = self.desc.output_fields
            size = sum(math.prod(expected.sizes) * expected.dtype.itemsize for expected in self._outputs)
            raise _beyond_memory(self.desc.operator_type, name, size) from None
        return list(results) if self.gives_list else [results]


def _kind_of(out: Tensor | Sequence[Tensor]) -> str:
    return "a tensor" if isinstance(out, Tensor) else f"a list of {len(out)}"


# As DirectMLX has them: without descriptors. The operators check their arguments, but for what has another name there.


def _window(
    function: str, offsets: Sequence[int], sizes: Sequence[int], strides: Sequence[int]
) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
    return (
        whole_numbers(f"{function}: input_window_offsets", offsets),
        whole_numbers(f"{function}: input_window_sizes", sizes),
        whole_numbers(f"{function}: input_window_strides", strides),
    )


def slice_(
    input: Tensor,
    input_window_offsets: Sequence[int],
    input_window_sizes: Sequence[int],
    input_window_strides: Sequence[int],
) -> Tensor:
    """``dml::Slice``, SLICE1 with every step taken: see :func:`torch_dml_ops.slice1` for dtypes, shapes, errors.

    Source: `DirectMLX.h <https://github.com/microsoft/DirectML/blob/master/Libraries/DirectMLX.h>`_.

    >>> import torch, torch_dml_ops.directml as directml
    >>> directml.slice_(torch.arange(9), [1], [8], [-3])
    tensor([8, 5, 2])
    """
    require_tensor("slice_: input", input)
    window = _window("slice_", input_window_offsets, input_window_sizes, input_window_strides)
    return dml.slice1(input, *window)


def slice_grad(
    input_gradient: Tensor,
    output_gradient_sizes: Sequence[int],
    input_window_offsets: Sequence[int],
    input_window_sizes: Sequence[int],
    input_window_strides: Sequence[int],
) -> Tensor:
    """``dml::SliceGrad``: see :func:`torch_dml_ops.slice_grad` for dtypes, shapes, errors.

    Source: `DirectMLX.h <https://github.com/microsoft/DirectML/blob/master/Libraries/DirectMLX.h>`_.

    >>> import torch, torch_dml_ops.directml as directml
    >>> directml.slice_grad(torch.tensor([1, 2]), [4], [0], [4], [-3])
    tensor([2, 0, 0, 1])
    """
    require_tensor("slice_grad: input_gradient", input_gradient)
    sizes = whole_numbers("slice_grad: output_gradient_sizes", output_gradient_sizes)
    window = _window("slice_grad", input_window_offsets, input_window_sizes, input_window_strides)
    return dml.slice_grad(input_gradient, sizes, *window)


def split(input: Tensor, axis: int, output_axis_sizes: Sequence[int]) -> list[Tensor]:
    """``dml::Split``, with its order of arguments: see :func:`torch_dml_ops.split` for dtypes, shapes, errors.

    Source: `DirectMLX.h <https://github.com/microsoft/DirectML/blob/master/Libraries/DirectMLX.h>`_.

    >>> import torch, torch_dml_ops.directml as directml
    >>> directml.split(torch.arange(3), 0, [1, 2])
    [tensor([0]), tensor([1, 2])]
    """
    return dml.split(input, whole_numbers("split: output_axis_sizes", output_axis_sizes), axis)


def join(inputs: Sequence[Tensor], axis: int) -> Tensor:
    """``dml::Join``: see :func:`torch_dml_ops.join` for dtypes, shapes, errors.

    Source: `DirectMLX.h <https://github.com/microsoft/DirectML/blob/master/Libraries/DirectMLX.h>`_.

    >>> import torch, torch_dml_ops.directml as directml
    >>> directml.join([torch.tensor([0]), torch.tensor([1, 2])], 0)
    tensor([0, 1, 2])
    """
    return dml.join(inputs, axis)


def reverse_subsequences(input: Tensor, sequence_lengths: Tensor, axis: int) -> Tensor:
    """``dml::ReverseSubsequences``: see :func:`torch_dml_ops.reverse_subsequences` for dtypes, shapes, errors.

    Source: `DirectMLX.h <https://github.com/microsoft/DirectML/blob/master/Libraries/DirectMLX.h>`_.

    >>> import torch, torch_dml_ops.directml as directml
    >>> directml.reverse_subsequences(torch.arange(4), torch.tensor([3]), 0)
    tensor([2, 1, 0, 3])
    """
    return dml.reverse_subsequences(input, sequence_lengths, axis)
