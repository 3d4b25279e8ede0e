"""What the operators become in ONNX: the functions that ``torch.onnx.export(…, dynamo=True)`` calls to translate them.

Each takes the arguments of its operator, tensors as values of the graph. A number is an int, or a scalar of the graph
where it depends on a size that is dynamic; torch's recorder gives these scalars arithmetic, and makes constants of ints
and lists. The nodes are those of opset 18, which later opsets have too.
"""

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import onnxscript
import torch
from onnxscript import ir

import torch_dml_ops  # noqa: F401  (registers the operators)
from torch_dml_ops._torch.private import ONNX

op: Any = onnxscript.opset18  # its methods are annotated for tensors with values

# Any, because torch's exporter reads the annotations of a translation and misunderstands ir.Value.
Value = Any  # an ir.Value
Number = Any  # an int or an ir.Value

# As the end of a slice with a negative step, for one that reaches the first element: -1 would be the last one.
BEFORE_FIRST = -(2**63) + 1

DTYPES = {
    ir.DataType.BFLOAT16,
    ir.DataType.BOOL,
    ir.DataType.DOUBLE,
    ir.DataType.FLOAT,
    ir.DataType.FLOAT16,
    ir.DataType.INT8,
    ir.DataType.INT16,
    ir.DataType.INT32,
    ir.DataType.INT64,
    ir.DataType.UINT8,
    ir.DataType.UINT16,
    ir.DataType.UINT32,
    ir.DataType.UINT64,
}


def slice1(
    input: Value,
    window_offsets: Sequence[Number],
    window_sizes: Sequence[Number],
    window_strides: Sequence[Number],
    output_sizes: Sequence[Number] | None = None,
) -> Value:
    _check_dtype("slice1", input)
    _check_strides("slice1", window_strides)
    counts = [None] * len(window_strides) if output_sizes is None else output_sizes
    axes, starts, ends, steps = [], [], [], []
    for d, (offset, size, stride, count) in enumerate(
        zip(window_offsets, window_sizes, window_strides, counts, strict=True)
    ):
        if stride > 0:
            start = offset
            end = offset + (size if count is None else (count - 1) * stride + 1)
            if stride == 1 and _equal(start, 0) and _equal(end, input.shape[d]):
                continue
        else:
            start = offset + size - 1
            end = (offset if count is None else start + (count - 1) * stride) - 1
            if not isinstance(end, int):
                end = end - _size(input, d)  # ONNX adds it to a negative end: -1 would be the last element
            elif end < 0:
                end = BEFORE_FIRST
        axes.append(d)
        starts.append(start)
        ends.append(end)
        steps.append(stride)
    return op.Slice(input, starts, ends, axes, steps) if axes else op.Identity(input)


def slice_grad(
    grad_output: Value,
    input_sizes: Sequence[Number],
    window_offsets: Sequence[Number],
    window_sizes: Sequence[Number],
    window_strides: Sequence[Number],
) -> Value:
    """Turns what was walked backwards; then in each dimension puts zeros between the elements and on both sides.

    The zeros are concatenated: ONNX Runtime's Pad does not take every dtype, is slower, and changes NaNs of float16.
    """
    _check_dtype("slice_grad", grad_output)
    _check_strides("slice_grad", window_strides)
    x, dtype = grad_output, grad_output.dtype
    sizes = [_size(x, d) for d in range(len(x.shape))]
    turned = [d for d, stride in enumerate(window_strides) if stride < 0]
    if turned:
        x = op.Slice(x, [-1] * len(turned), [BEFORE_FIRST] * len(turned), turned, [-1] * len(turned))
    for d, (size, offset, window, stride) in enumerate(
        zip(input_sizes, window_offsets, window_sizes, window_strides, strict=True)
    ):
        count, step, gap = sizes[d], abs(stride), 0
        extent = count  # from the first element to the last
        if step > 1 and not (_equal(count, 0) or _equal(count, 1)):
            gap = step - 1  # the zeros behind each element
            zeros = _zeros([*sizes[: d + 1], gap, *sizes[d + 1 :]], dtype)
            x = op.Concat(op.Unsqueeze(x, [d + 1]), zeros, axis=d + 1)
            x = op.Reshape(x, [*sizes[:d], count * step, *sizes[d + 1 :]], allowzero=1)
            extent = count * step - gap
            if not isinstance(extent, int):
                extent = op.Max(extent, 0)
        if stride > 0:
            before, after = offset, size - offset - extent
        else:
            before, after = offset + window - extent, size - offset - window
        # The zeros behind the last element are some of those after it, or too many.
        too_many = max(gap - after, 0) if isinstance(after, int) else gap
        if too_many:
            x = op.Slice(x, [0], [-too_many], [d])
        if isinstance(after, int):
            after = max(after - gap, 0)
        first, last = (
            [] if _equal(n, 0) else [_zeros([*sizes[:d], n, *sizes[d + 1 :]], dtype)] for n in (before, after)
        )
        if first or last:
            x = op.Concat(*first, x, *last, axis=d)
        sizes[d] = size
    return op.Identity(x) if x is grad_output else x


def split(input: Value, split_sizes: Sequence[Number], axis: int) -> list[Value]:
    _check_dtype("split", input)
    if len(split_sizes) == 1:
        return [op.Identity(input)]
    pieces = list(op.Split(input, split_sizes, axis=axis, num_outputs=len(split_sizes)))
    # torch's recorder asks for this attribute, which ONNX forbids beside the sizes.
    del pieces[0].producer().attributes["num_outputs"]
    return pieces


def join(inputs: Sequence[Value], axis: int) -> Value:
    _check_dtype("join", inputs[0])
    return op.Concat(*inputs, axis=axis)


def reverse_subsequences(input: Value, sequence_lengths: Value, axis: int) -> Value:
    _check_dtype("reverse_subsequences", input)
    if any(_equal(n, 0) for n in input.shape):
        return op.Identity(input)
    size = _size(input, axis)
    if input.dtype == ir.DataType.BFLOAT16:  # which ONNX Runtime's ReverseSequence does not take
        lengths = _clamped(sequence_lengths, sequence_lengths.dtype, size)
        steps = op.Reshape(op.Range(0, size, 1), [-1 if d == axis else 1 for d in range(len(input.shape))])
        index = op.Where(op.Less(steps, lengths), op.Sub(op.Sub(lengths, 1), steps), steps)
        return op.GatherElements(input, index, axis=axis)
    lengths = _before_broadcast(sequence_lengths)
    varies = [d for d, n in enumerate(lengths.shape) if d != axis and not _equal(n, 1)]
    lengths = op.Reshape(_clamped(lengths, sequence_lengths.dtype, size), [-1])
    # ReverseSequence has a length per item of one batch dimension, and takes both first: time and batch, in any order.
    front = sorted([axis, *varies]) if len(varies) == 1 else [*varies, axis]
    order = [*front, *(d for d in range(len(input.shape)) if d not in front)]
    x = _transposed(input, order)
    if len(varies) == 1:
        time = front.index(axis)
        x = op.ReverseSequence(x, lengths, time_axis=time, batch_axis=1 - time)
    else:
        sizes = [_size(input, d) for d in order]
        rows = op.Reshape(x, [math.prod(sizes[: len(varies)]), *sizes[len(varies) :]], allowzero=1)
        rows = op.ReverseSequence(rows, lengths, time_axis=1, batch_axis=0)
        x = op.Reshape(rows, sizes, allowzero=1)
    return _transposed(x, [order.index(d) for d in range(len(order))])


def _check_dtype(name: str, x: Value) -> None:
    if x.dtype not in DTYPES:
        raise NotImplementedError(
            f"{name}: to be exported, a tensor must have a dtype that ONNX moves, got {x.dtype}; convert it to float32"
        )


def _check_strides(name: str, strides: Sequence[Number]) -> None:
    for d, stride in enumerate(strides):
        if not isinstance(stride, int):
            raise NotImplementedError(
                f"{name}: to be exported, window_strides[{d}] must be a constant, got one that depends on a dynamic "
                "size; make that size static"
            )


def _equal(a: Any, b: Any) -> bool:
    """Whether both are known and the same. (`a == b` may be a node of the graph.)"""
    return isinstance(a, int) and isinstance(b, int) and a == b


def _size(x: Value, d: int) -> Number:
    n = x.shape[d]
    return n if isinstance(n, int) else op.Squeeze(op.Shape(x, start=d, end=d + 1), [0])


def _zeros(sizes: Sequence[Number], dtype: Any) -> Value:
    if dtype == ir.DataType.BFLOAT16:
        # ConstantOfShape takes it from opset 20 on, ONNX Runtime's Expand never. (onnxscript's optimizer would make one
        # node of a ConstantOfShape and a Cast.)
        return op.Cast(op.Expand(op.Constant(value=ir.tensor(0, dtype=ir.DataType.UINT8)), sizes), to=dtype)
    return op.ConstantOfShape(sizes, value=ir.tensor([0], dtype=dtype))


def _transposed(x: Value, order: Sequence[int]) -> Value:
    return x if list(order) == sorted(order) else op.Transpose(x, perm=list(order))


def _before_broadcast(lengths: Value) -> Value:
    node = lengths.producer()
    if node is not None and node.op_type == "Expand":
        before = node.inputs[0]
        if before.shape is not None and len(before.shape) == len(lengths.shape):
            return before
    return lengths


def _clamped(lengths: Value, dtype: Any, size: Number) -> Value:
    """From 1 to `size`, as int64. Before the cast, as a uint64 beyond 2^63 is long and not negative.

    Not from 0, which means the same: ONNX Runtime 1.23, for example, then leaves that part of the result unwritten.
    By Clip: onnxscript's optimizer fuses two pairs of Max and Min into a model that does not load.
    """
    least, most = (
        op.Constant(value=ir.tensor(n, dtype=dtype)) if isinstance(n, int) else op.Cast(n, to=dtype) for n in (1, size)
    )
    return op.Cast(op.Clip(lengths, least, most), to=ir.DataType.INT64)


def translation_table() -> dict[Callable[..., Any], Callable[..., Any]]:
    """The translations, for ``torch.onnx.export(…, dynamo=True, custom_translation_table=translation_table())``.

    Only needed where importing this package has warned that it could not register them.

    Returns:
        The function that translates each operator, by operator: ``torch.ops.torch_dml_ops.slice1.default`` and so on.

    >>> import torch
    >>> from torch_dml_ops.onnx import translation_table
    >>> torch.ops.torch_dml_ops.slice1.default in translation_table()
    True
    """
    functions = (slice1, slice_grad, split, join, reverse_subsequences)
    return {getattr(torch.ops.torch_dml_ops, function.__name__).default: function for function in functions}


def register() -> None:
    """Makes torch's exporter know the translations, by a registry that is private to torch.

    Complex tensors are pairs of numbers in its graphs, along one more dimension at the end, which these translations
    leave alone.
    """
    try:
        ONNX.need()
        for target, function in translation_table().items():
            for is_complex in (False, True):
                ONNX.onnx_impl(target, no_compile=True, complex=is_complex)(function)
    except (AttributeError, TypeError) as error:
        warnings.warn(
            f"torch_dml_ops.onnx: this torch ({torch.__version__}) has another registry ({error}); pass "
            "custom_translation_table=torch_dml_ops.onnx.translation_table() to torch.onnx.export",
            stacklevel=3,
        )
