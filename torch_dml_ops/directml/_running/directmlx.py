"""Operators as DirectMLX has them: without descriptors. The operators check their arguments, but for what has another
name there. The results are packed, whatever the input's strides, or as a policy says."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

import torch_dml_ops as dml
from torch_dml_ops._sentences.arguments import require_tensor, whole_numbers
from torch_dml_ops._sentences.text import shown
from torch_dml_ops._torch.symbols import is_exporting
from torch_dml_ops.directml._schema.arguments import instance
from torch_dml_ops.directml.enums import data_type_of
from torch_dml_ops.directml.errors import DescriptorError
from torch_dml_ops.directml.operator import laid_out
from torch_dml_ops.directml.tensor_desc import OVERLAP, PACKED, TensorDesc, TensorPolicy, output_desc


def _window(
    function: str, offsets: Sequence[int], sizes: Sequence[int], strides: Sequence[int]
) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
    return (
        whole_numbers(f"{function}: input_window_offsets", offsets),
        whole_numbers(f"{function}: input_window_sizes", sizes),
        whole_numbers(f"{function}: input_window_strides", strides),
    )


def _are_nested(desc: TensorDesc) -> bool:
    """Whether each stride passes all that the smaller ones reach. All but contrived ones of distinct elements do."""
    strides = desc.effective_strides
    for d, stride in enumerate(strides):
        reach = 0
        for k, other in enumerate(strides):
            if other < stride or (other == stride and k < d):
                reach += other * (desc.sizes[k] - 1)
        if desc.sizes[d] > 1 and stride <= reach:
            return False
    return True


def _by_policy(function: str, policy: TensorPolicy, results: Sequence[Tensor]) -> list[Tensor]:
    if instance(TensorPolicy, f"{function}: tensor_policy", policy) is PACKED:
        return [result.contiguous() for result in results]
    tensors = []
    for result in results:
        data_type = data_type_of(f"{function}: the dtype of tensors by a policy", result.dtype)
        desc = output_desc(policy, data_type, result.shape)
        what = f"{function}: a tensor by tensor_policy"
        if torch.compiler.is_compiling():  # which can follow neither the search for overlaps nor sentences
            if not is_exporting() and list(desc.violations()):  # which would bound the sizes of an exported program
                raise ValueError(f"{what} must keep DirectML's rules; without torch.compile it is said which it breaks")
            if not _are_nested(desc):
                way_out = "in compiled code each must pass all that the smaller ones reach"
                raise ValueError(f"{what}: strides {OVERLAP}; {way_out}, got {desc.strides}")
        elif violations := list(desc.violations(written=True)):
            raise DescriptorError(what, violations)
        tensors.append(laid_out(result, desc.strides, desc.items_up_to_last))
    return tensors


def slice_(
    input: Tensor,
    input_window_offsets: Sequence[int],
    input_window_sizes: Sequence[int],
    input_window_strides: Sequence[int],
    *,
    tensor_policy: TensorPolicy = PACKED,
) -> Tensor:
    """``dml::Slice``, SLICE1 with every step taken: see :func:`torch_dml_ops.slice1` for dtypes, shapes, errors.

    What it returns is packed, or laid out as ``tensor_policy`` says.

    Source: `DirectMLX.h <https://github.com/microsoft/DirectML/blob/master/Libraries/DirectMLX.h>`_.

    >>> import torch, torch_dml_ops.directml as directml
    >>> directml.slice_(torch.arange(9), [1], [8], [-3])
    tensor([8, 5, 2])
    """
    require_tensor("slice_: input", input)
    window = _window("slice_", input_window_offsets, input_window_sizes, input_window_strides)
    return _by_policy("slice_", tensor_policy, [dml.slice1(input, *window)])[0]


def slice_grad(
    input_gradient: Tensor,
    output_gradient_sizes: Sequence[int],
    input_window_offsets: Sequence[int],
    input_window_sizes: Sequence[int],
    input_window_strides: Sequence[int],
    *,
    tensor_policy: TensorPolicy = PACKED,
) -> Tensor:
    """``dml::SliceGrad``: see :func:`torch_dml_ops.slice_grad` for dtypes, shapes, errors.

    What it returns is packed, or laid out as ``tensor_policy`` says.

    Source: `DirectMLX.h <https://github.com/microsoft/DirectML/blob/master/Libraries/DirectMLX.h>`_.

    >>> import torch, torch_dml_ops.directml as directml
    >>> directml.slice_grad(torch.tensor([1, 2]), [4], [0], [4], [-3])
    tensor([2, 0, 0, 1])
    """
    require_tensor("slice_grad: input_gradient", input_gradient)
    sizes = whole_numbers("slice_grad: output_gradient_sizes", output_gradient_sizes)
    window = _window("slice_grad", input_window_offsets, input_window_sizes, input_window_strides)
    return _by_policy("slice_grad", tensor_policy, [dml.slice_grad(input_gradient, sizes, *window)])[0]


def split(
    input: Tensor, axis: int, output_axis_sizes: Sequence[int], *, tensor_policy: TensorPolicy = PACKED
) -> list[Tensor]:
    """``dml::Split``, with its order of arguments: see :func:`torch_dml_ops.split` for dtypes, shapes, errors.

    What it returns is packed, or laid out as ``tensor_policy`` says.

    Source: `DirectMLX.h <https://github.com/microsoft/DirectML/blob/master/Libraries/DirectMLX.h>`_.

    >>> import torch, torch_dml_ops.directml as directml
    >>> directml.split(torch.arange(3), 0, [1, 2])
    [tensor([0]), tensor([1, 2])]
    """
    if isinstance(axis, (list, tuple)):
        raise TypeError(f"split: axis must be a whole number, got {shown(axis)}; axis comes before output_axis_sizes")
    sizes = whole_numbers("split: output_axis_sizes", output_axis_sizes)
    pieces = dml.split(input, sizes, axis)
    return _by_policy("split", tensor_policy, [pieces[k] for k in range(len(sizes))])  # torch.fx iterates over no list


def join(inputs: Sequence[Tensor], axis: int, *, tensor_policy: TensorPolicy = PACKED) -> Tensor:
    """``dml::Join``: see :func:`torch_dml_ops.join` for dtypes, shapes, errors.

    What it returns is packed, or laid out as ``tensor_policy`` says.

    Source: `DirectMLX.h <https://github.com/microsoft/DirectML/blob/master/Libraries/DirectMLX.h>`_.

    >>> import torch, torch_dml_ops.directml as directml
    >>> directml.join([torch.tensor([0]), torch.tensor([1, 2])], 0)
    tensor([0, 1, 2])
    """
    return _by_policy("join", tensor_policy, [dml.join(inputs, axis)])[0]


def reverse_subsequences(
    input: Tensor, sequence_lengths: Tensor, axis: int, *, tensor_policy: TensorPolicy = PACKED
) -> Tensor:
    """``dml::ReverseSubsequences``: see :func:`torch_dml_ops.reverse_subsequences` for dtypes, shapes, errors.

    What it returns is packed, or laid out as ``tensor_policy`` says.

    Source: `DirectMLX.h <https://github.com/microsoft/DirectML/blob/master/Libraries/DirectMLX.h>`_.

    >>> import torch, torch_dml_ops.directml as directml
    >>> directml.reverse_subsequences(torch.arange(4), torch.tensor([3]), 0)
    tensor([2, 1, 0, 3])
    """
    result = dml.reverse_subsequences(input, sequence_lengths, axis)
    return _by_policy("reverse_subsequences", tensor_policy, [result])[0]
