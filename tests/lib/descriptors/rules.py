# ruff: noqa: E501  (a sentence to a line)
"""DirectML's constraints, sentence by sentence: what a valid descriptor is changed to, and all rules that this breaks."""

from typing import Any

from descriptors.cases import F16, F32, I8, UINT32, UINT64, op_desc, window

from torch_dml_ops.directml import (
    ElementWiseIdentityOperatorDesc,
    JoinOperatorDesc,
    OperatorDesc,
    ReverseSubsequencesOperatorDesc,
    Slice1OperatorDesc,
    SliceGradOperatorDesc,
    SliceOperatorDesc,
    SplitOperatorDesc,
    TensorDesc,
)

X = TensorDesc(F32, [4, 6])
WINDOW = window([0, 1], [4, 5], [-2, 2])  # takes at most 2 by 3

VALID: dict[str, OperatorDesc] = {
    "SLICE": op_desc("SLICE", X, TensorDesc(F32, [2, 3]), [1, 0], [2, 3], [2, 2]),
    "SLICE1": op_desc("SLICE1", X, TensorDesc(F32, [2, 3]), **WINDOW),
    "SPLIT": op_desc("SPLIT", X, [TensorDesc(F32, [4, 2]), TensorDesc(F32, [4, 4])], 1),
    "JOIN": op_desc("JOIN", [TensorDesc(F32, [4, 2]), TensorDesc(F32, [4, 4])], X, 1),
    "REVERSE_SUBSEQUENCES": op_desc("REVERSE_SUBSEQUENCES", X, TensorDesc(UINT32, [4, 1]), X, 1),
    "SLICE_GRAD": op_desc("SLICE_GRAD", TensorDesc(F32, [2, 3]), X, **WINDOW),
    "ELEMENT_WISE_IDENTITY": op_desc("ELEMENT_WISE_IDENTITY", X, TensorDesc(F32, [4, 6], strides=[1, 4])),
}


def pieces(*sizes: list[int]) -> list[TensorDesc]:
    return [TensorDesc(F32, s) for s in sizes]


# (operator, changed fields, sentences)
CONSTRAINTS: list[tuple[str, dict[str, Any], list[str]]] = [
    # Input and output share data type and dimension count.
    ("SLICE1", {"output_tensor": TensorDesc(F16, [2, 3])}, ["output_tensor.data_type must be FLOAT32, that of input_tensor, got FLOAT16"]),
    ("SLICE", {"output_tensor": TensorDesc(F16, [2, 3])}, ["output_tensor.data_type must be FLOAT32, that of input_tensor, got FLOAT16"]),
    (
        "SPLIT",
        {"output_tensors": [TensorDesc(F32, [4, 2]), TensorDesc(UINT32, [4, 4])]},
        ["output_tensors[1].data_type must be FLOAT32, that of input_tensor, got UINT32"],
    ),
    (
        "JOIN",
        {"input_tensors": [TensorDesc(F32, [4, 2]), TensorDesc(UINT32, [4, 4])]},
        ["input_tensors[1].data_type must be FLOAT32, that of input_tensors[0], got UINT32"],
    ),
    ("REVERSE_SUBSEQUENCES", {"output_tensor": TensorDesc(I8, [4, 6])}, ["output_tensor.data_type must be FLOAT32, that of input_tensor, got INT8"]),
    (
        "SLICE_GRAD",
        {"output_gradient_tensor": TensorDesc(I8, [4, 6])},
        ["output_gradient_tensor.data_type must be FLOAT32, that of input_gradient_tensor, got INT8"],
    ),
    ("SLICE1", {"output_tensor": TensorDesc(F32, [2, 3, 1])}, ["output_tensor.dimension_count must be 2, that of input_tensor, got 3"]),
    (
        "REVERSE_SUBSEQUENCES",
        {"sequence_lengths_tensor": TensorDesc(UINT32, [4])},
        ["sequence_lengths_tensor.dimension_count must be 2, that of input_tensor, got 1"],
    ),
    ("JOIN", {"output_tensor": TensorDesc(F32, [4, 6, 1])}, ["output_tensor.dimension_count must be 2, that of input_tensors[0], got 3"]),
    # Sizes of 0 are invalid in any dimension; a tensor has at most 2^32 - 1 elements.
    (
        "SLICE1",
        {"output_tensor": TensorDesc(F32, [0, 3])},
        [
            "output_tensor.sizes[0] must be from 1 to 4294967295, got 0",
            "output_tensor.sizes[0] must be from 1 to 2, the steps of input_window_strides[0] in input_window_sizes[0], got 0",
        ],
    ),
    (
        "REVERSE_SUBSEQUENCES",
        {
            "input_tensor": TensorDesc(I8, [65536, 65536]),
            "sequence_lengths_tensor": TensorDesc(UINT32, [65536, 1]),
            "output_tensor": TensorDesc(I8, [65536, 65536]),
        },
        [
            "input_tensor.sizes must reach over at most 4294967295 elements, got 4294967296",
            "output_tensor.sizes must reach over at most 4294967295 elements, got 4294967296",
        ],
    ),
    (
        "SPLIT",
        {"input_tensor": TensorDesc(F32, [4, 2**32]), "output_tensors": pieces([4, 2**32])} | {"output_count": 1},
        [
            "input_tensor.sizes[1] must be from 1 to 4294967295, got 4294967296",
            "input_tensor.sizes must reach over at most 4294967295 elements, got 17179869184",
            "output_tensors[0].sizes[1] must be from 1 to 4294967295, got 4294967296",
            "output_tensors[0].sizes must reach over at most 4294967295 elements, got 17179869184",
        ],
    ),
    # SLICE1.
    (
        "SLICE1",
        {"input_window_offsets": [1, 1]},
        ["input_window_offsets[0] plus input_window_sizes[0] must be at most 4, the size of input_tensor there, got 1 + 4"],
    ),
    (
        "SLICE1",
        {"input_window_sizes": [4, 6]},
        ["input_window_offsets[1] plus input_window_sizes[1] must be at most 6, the size of input_tensor there, got 1 + 6"],
    ),
    ("SLICE1", {"input_window_offsets": [0, -1]}, ["input_window_offsets[1] must be at least 0, got -1"]),
    ("SLICE1", {"input_window_sizes": [4, 0]}, ["input_window_sizes[1] must be at least 1, got 0"]),
    ("SLICE1", {"input_window_strides": [0, 2]}, ["input_window_strides[0] must not be 0, got 0"]),
    (
        "SLICE1",
        {"input_window_strides": [-2, -(2**31) - 1], "output_tensor": TensorDesc(F32, [2, 1])},
        ["input_window_strides[1] must be from -2147483648 to 2147483647, got -2147483649"],
    ),
    (
        "SLICE1",
        {"input_window_strides": [2**31, 2], "output_tensor": TensorDesc(F32, [1, 3])},
        ["input_window_strides[0] must be from -2147483648 to 2147483647, got 2147483648"],
    ),
    (
        "SLICE1",
        {"output_tensor": TensorDesc(F32, [2, 4])},
        ["output_tensor.sizes[1] must be from 1 to 3, the steps of input_window_strides[1] in input_window_sizes[1], got 4"],
    ),
    ("SLICE1", {"output_tensor": TensorDesc(F32, [1, 1])}, []),  # not all reachable elements need be copied
    ("SLICE1", {"dimension_count": 3}, ["dimension_count must be 2, that of input_tensor, got 3"]),
    ("SLICE1", {"input_window_offsets": [0]}, ["input_window_offsets must have length 2, an entry for each dimension of input_tensor, got 1"]),
    ("SLICE1", {"input_window_sizes": [4, 5, 1]}, ["input_window_sizes must have length 2, an entry for each dimension of input_tensor, got 3"]),
    ("SLICE1", {"input_window_strides": []}, ["input_window_strides must have length 2, an entry for each dimension of input_tensor, got 0"]),
    # SLICE.
    ("SLICE", {"output_tensor": TensorDesc(F32, [2, 2])}, ["output_tensor.sizes[1] must be 3, as sizes[1] is, got 2"]),
    ("SLICE", {"strides": [2, 0]}, ["strides[1] must be from 1 to 4294967295, got 0"]),
    ("SLICE", {"sizes": [2, 1], "strides": [2, 2**32], "output_tensor": TensorDesc(F32, [2, 1])}, ["strides[1] must be from 1 to 4294967295, got 4294967296"]),
    ("SLICE", {"strides": [2, -1]}, ["strides[1] must be from 1 to 4294967295, got -1"]),
    ("SLICE", {"offsets": [2, 0]}, ["offsets[0] plus (sizes[0] - 1) * strides[0] must be less than 4, the size of input_tensor there, got 2 + 1 * 2"]),
    ("SLICE", {"offsets": [-1, 0]}, ["offsets[0] must be at least 0, got -1"]),
    ("SLICE", {"sizes": [0, 3]}, ["sizes[0] must be at least 1, got 0"]),
    ("SLICE", {"offsets": [0]}, ["offsets must have length 2, an entry for each dimension of input_tensor, got 1"]),
    ("SLICE", {"sizes": [2]}, ["sizes must have length 2, an entry for each dimension of input_tensor, got 1"]),
    ("SLICE", {"strides": [2]}, ["strides must have length 2, an entry for each dimension of input_tensor, got 1"]),
    ("SLICE", {"dimension_count": 4}, ["dimension_count must be 2, that of input_tensor, got 4"]),
    # SLICE_GRAD.
    ("SLICE_GRAD", {"input_window_strides": [-2, 0]}, ["input_window_strides[1] must not be 0, got 0"]),
    (
        "SLICE_GRAD",
        {"input_window_sizes": [5, 5]},
        [
            "input_window_offsets[0] plus input_window_sizes[0] must be at most 4, the size of output_gradient_tensor "
            "there, got 0 + 5"
        ],
    ),
    (
        "SLICE_GRAD",
        {"input_gradient_tensor": TensorDesc(F32, [3, 3])},
        [
            "input_gradient_tensor.sizes[0] must be from 1 to 2, the steps of input_window_strides[0] in "
            "input_window_sizes[0], got 3"
        ],
    ),
    ("SLICE_GRAD", {"dimension_count": 1}, ["dimension_count must be 2, that of input_gradient_tensor, got 1"]),
    # SPLIT and JOIN.
    ("SPLIT", {"output_tensors": [], "output_count": 0}, ["output_tensors must have at least 1 tensor, got none"]),
    ("SPLIT", {"output_count": 3}, ["output_count must be 2, the number of output_tensors, got 3"]),
    ("SPLIT", {"output_tensors": pieces([4, 2], [3, 4])}, ["output_tensors[1].sizes[0] must be 4, the size of input_tensor there, got 3"]),
    ("SPLIT", {"output_tensors": pieces([4, 2], [4, 3])}, ["output_tensors must have sizes along axis 1 that sum to 6, that of input_tensor, got [2, 3]"]),
    (
        "SPLIT",
        {"axis": 2},  # which sizes had to be equal, and which to sum, nobody can tell
        ["axis must be from 0 to 1, a dimension of input_tensor, got 2"],
    ),
    ("SPLIT", {"output_tensors": pieces([4, 6]), "output_count": 1}, []),  # a plain copy
    ("JOIN", {"input_count": 1}, ["input_count must be 2, the number of input_tensors, got 1"]),
    ("JOIN", {"input_tensors": pieces([4, 2], [5, 4])}, ["input_tensors[1].sizes[0] must be 4, the size of output_tensor there, got 5"]),
    ("JOIN", {"input_tensors": pieces([4, 3], [4, 4])}, ["input_tensors must have sizes along axis 1 that sum to 6, that of output_tensor, got [3, 4]"]),
    ("JOIN", {"axis": -1, "input_tensors": pieces([4, 6], [4, 6])}, ["axis must be from 0 to 1, a dimension of output_tensor, got -1"]),
    # REVERSE_SUBSEQUENCES.
    (
        "REVERSE_SUBSEQUENCES",
        {"sequence_lengths_tensor": TensorDesc(UINT64, [4, 6])},
        ["sequence_lengths_tensor.sizes[1] must be 1, as this is the axis, got 6"],
    ),
    (
        "REVERSE_SUBSEQUENCES",
        {"sequence_lengths_tensor": TensorDesc(UINT32, [3, 1])},
        ["sequence_lengths_tensor.sizes[0] must be 4, the size of input_tensor there, got 3"],
    ),
    ("REVERSE_SUBSEQUENCES", {"output_tensor": TensorDesc(F32, [4, 5])}, ["output_tensor.sizes[1] must be 6, the size of input_tensor there, got 5"]),
    ("REVERSE_SUBSEQUENCES", {"axis": 2}, ["axis must be from 0 to 1, a dimension of input_tensor, got 2"]),
    # ELEMENT_WISE_IDENTITY.
    (
        "ELEMENT_WISE_IDENTITY",
        {"output_tensor": TensorDesc(F32, [6, 4])},
        [
            "output_tensor.sizes[0] must be 4, the size of input_tensor there, got 6",
            "output_tensor.sizes[1] must be 6, the size of input_tensor there, got 4",
        ],
    ),
    ("ELEMENT_WISE_IDENTITY", {"output_tensor": TensorDesc(F16, [4, 6])}, ["output_tensor.data_type must be FLOAT32, that of input_tensor, got FLOAT16"]),
    ("ELEMENT_WISE_IDENTITY", {"input_tensor": TensorDesc(F32, [4, 6], strides=[0, 1])}, []),
    # Buffer tensors.
    ("SLICE1", {"input_tensor": TensorDesc(F32, [4, 6], strides=[0, 1])}, []),  # 0 broadcasts
    ("SLICE1", {"input_tensor": TensorDesc(F32, [4, 6], strides=[9, 1])}, []),  # larger than packed pads
    ("SLICE1", {"output_tensor": TensorDesc(F32, [2, 3], strides=[1, 2])}, []),
    ("SLICE1", {"output_tensor": TensorDesc(F32, [2, 3], strides=[3, 2])}, []),  # dimensions that interlace, and do not overlap
    ("SLICE1", {"input_tensor": TensorDesc(F32, [4, 6], strides=[6])}, ["input_tensor.strides must have length 2, an entry for each of sizes, got 1"]),
    (
        "SLICE1",
        {"input_tensor": TensorDesc(F32, [4, 6], strides=[6, -1], total_tensor_size_in_bytes=96)},
        ["input_tensor.strides[1] must be from 0 to 4294967295, got -1"],
    ),
    (
        "SLICE1",
        {"output_tensor": TensorDesc(F32, [2, 3], strides=[2**32, 1])},
        [
            "output_tensor.strides must reach over at most 4294967295 elements, got 4294967299",
            "output_tensor.strides[0] must be from 0 to 4294967295, got 4294967296",
        ],
    ),
    ("SLICE1", {"output_tensor": TensorDesc(F32, [2, 3], strides=[0, 1])}, ["output_tensor.strides[0] must not be 0, as the tensor is written to, got 0"]),
    ("SLICE1", {"output_tensor": TensorDesc(F32, [1, 3], strides=[0, 1])}, []),  # a stride that is never taken
    (
        "SLICE1",
        {"output_tensor": TensorDesc(F32, [2, 3], strides=[2, 1])},
        ["output_tensor.strides must not lay elements of an output on one another, got [2, 1]"],
    ),
    (
        "SLICE1",
        {"input_tensor": TensorDesc(F32, [4, 6], total_tensor_size_in_bytes=92)},
        [
            "input_tensor.total_tensor_size_in_bytes must be from 96, the bytes up to the last element, to "
            "18446744073709551615, got 92"
        ],
    ),
    (
        "SLICE1",
        {"input_tensor": TensorDesc(F32, [4, 6], strides=[9, 1], total_tensor_size_in_bytes=96)},
        [
            "input_tensor.total_tensor_size_in_bytes must be from 132, the bytes up to the last element, to "
            "18446744073709551615, got 96"
        ],
    ),
    (
        "SLICE1",
        {"input_tensor": TensorDesc(F32, [4, 6], total_tensor_size_in_bytes=98)},
        ["input_tensor.total_tensor_size_in_bytes must be a multiple of 4, got 98"],
    ),
    (
        "SLICE1",  # the published helper's 32 bits would have overflowed
        {"input_tensor": TensorDesc(F32, [4, 6], strides=[2**30, 1], total_tensor_size_in_bytes=24)},
        [
            "input_tensor.total_tensor_size_in_bytes must be from 12884901912, the bytes up to the last element, to "
            "18446744073709551615, got 24"
        ],
    ),
    *(
        (
            "SLICE1",
            {"output_tensor": TensorDesc(F32, [2, 3], guaranteed_base_offset_alignment=n)},
            [
                f"output_tensor.guaranteed_base_offset_alignment must be 0 or a power of two from 4, the size of FLOAT32, "
                f"on, got {n}"
            ],
        )
        for n in (1, 2, 12, -4, 2**32)
    ),
    ("SLICE1", {"output_tensor": TensorDesc(F32, [2, 3], guaranteed_base_offset_alignment=256)}, []),
    ("SLICE1", {"output_tensor": TensorDesc(F32, [2, 3], dimension_count=4)}, ["output_tensor.dimension_count must be 2, the number of sizes, got 4"]),
    (
        "SLICE1",
        {"input_tensor": TensorDesc(F32, []), "dimension_count": 0},
        [
            "input_tensor.dimension_count must be from 1 to 8, got 0",
            "output_tensor.dimension_count must be 0, that of input_tensor, got 2",
            "input_window_offsets must have length 0, an entry for each dimension of input_tensor, got 2",
            "input_window_sizes must have length 0, an entry for each dimension of input_tensor, got 2",
            "input_window_strides must have length 0, an entry for each dimension of input_tensor, got 2",
        ],
    ),
]  # fmt: skip

# Arguments that infer_output refuses.
INFERRED_FROM_BAD = [
    (lambda: Slice1OperatorDesc.infer_output(X, [0, 0], [4, 6], [0, 1]), ["input_window_strides[0] must not be 0, got 0"]),
    (lambda: Slice1OperatorDesc.infer_output(X, [0], [4], [1]), [f"input_window_{n} must have length 2, an entry for each dimension of input_tensor, got 1" for n in ("offsets", "sizes", "strides")]),
    (lambda: SliceOperatorDesc.infer_output(X, [0, 0], [4, 6], [1, 2]), ["offsets[1] plus (sizes[1] - 1) * strides[1] must be less than 6, the size of input_tensor there, got 0 + 5 * 2"]),
    (lambda: SliceGradOperatorDesc.infer_output(X, [4, 5], [0, 0], [4, 6], [1, 1]), ["input_window_offsets[1] plus input_window_sizes[1] must be at most 5, the size of output_gradient_tensor there, got 0 + 6"]),
    (lambda: SplitOperatorDesc.infer_output(X, 1, [2, 5]), ["output_tensors must have sizes along axis 1 that sum to 6, that of input_tensor, got [2, 5]"]),
    (lambda: SplitOperatorDesc.infer_output(X, -1, [2, 4]), ["axis must be from 0 to 1, a dimension of input_tensor, got -1"]),
    (lambda: JoinOperatorDesc.infer_output([X, X], 2), ["axis must be from 0 to 1, a dimension of output_tensor, got 2"]),
    (lambda: SplitOperatorDesc.infer_output(X, 0, []), ["output_tensors must have at least 1 tensor, got none"]),
    (lambda: ElementWiseIdentityOperatorDesc.infer_output(TensorDesc(F32, [4, 6], strides=[6])), ["input_tensor.strides must have length 2, an entry for each of sizes, got 1"]),
    (lambda: JoinOperatorDesc.infer_output([], 0), ["input_tensors must have at least 1 tensor, got none"]),
    (lambda: JoinOperatorDesc.infer_output([X, TensorDesc(F32, [4, 5])], 0), ["input_tensors[1].sizes[1] must be 6, the size of output_tensor there, got 5"]),
    (lambda: JoinOperatorDesc.infer_output([X], 2), ["axis must be from 0 to 1, a dimension of output_tensor, got 2"]),
    (lambda: ReverseSubsequencesOperatorDesc.infer_output(X, TensorDesc(UINT32, [4, 2]), 1), ["sequence_lengths_tensor.sizes[1] must be 1, as this is the axis, got 2"]),
]  # fmt: skip
