"""Calls that the operators refuse, and the sentences they refuse them with, after the operator's name.

Arguments are made by a function of `t`, which makes tensors: t(*sizes, dtype=float32).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch

Table = dict[str, list[tuple[Any, ...]]]

FAR = 2**62
LIMIT = 2**63 - 1

# A list of more than 60 characters is shown as its first few numbers and their count.
TWENTY_ONES = "[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"
MANY_ONES = "[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, …]"


def given(*numbers: Any) -> Callable[..., Any]:
    """A tensor of sizes [2, 3], and these."""
    return lambda t: (t(2, 3), *numbers)


def tensor(*sizes: int, **kind: Any) -> Callable[..., Any]:
    return lambda t: t(*sizes, **kind)


# Sentences that several rows share.


def length(name: str, whole: str, got: int) -> str:
    return f"{name} must have length 2, an entry for each dimension of {whole}, got {got}"


def past(most: int, d: int, whole: str, offset: int, size: int) -> str:
    rule = f"must be at most {most}, the size of {whole} in dimension {d}"
    return f"window_offsets[{d}] + window_sizes[{d}] {rule}, got {offset} + {size}"


def sums(most: int, axis: int, got: object) -> str:
    return f"split_sizes must sum to {most}, the size of input along axis {axis}, got {got}"


def lengths(sizes: object, axis: int, got: object) -> str:
    return f"sequence_lengths must have sizes {sizes}, those of input with 1 at axis {axis}, got {got}"


def steps(most: int, d: int, got: int, least: int = 1) -> str:
    return f"grad_output must have from {least} to {most} elements in dimension {d}, got {got}"


def too_large(sizes: object) -> str:
    return f"a result of sizes {sizes} would have more than 2^63 - 1 bytes"


def too_large_but_for_a_0(sizes: object) -> str:
    """Which torch.empty refuses too: a stride would be the product of the others, or it multiplies those before."""
    return f"a result of sizes {sizes} would be empty, but its other sizes multiply to more than 2^63 - 1"


NO_DIMENSION = "must have at least 1 dimension, got a 0-d tensor"
OF_AXES = [(-1, "; write 1 instead"), (-2, "; write 0 instead"), *((n, "") for n in (-3, 2, LIMIT, -LIMIT - 1))]
AXES = {f"axis must be from 0 to 1, got {n}{way_out}": n for n, way_out in OF_AXES}


def of_windows(whole: str, *before: list[int]) -> list[tuple[str, Callable[..., Any]]]:
    """What both operators with windows refuse of one in a tensor of sizes [2, 3], which sentences call `whole`."""
    rows: list[tuple[str, list[list[int]]]] = [
        (length("window_offsets", whole, 1), [[0], [2, 3], [1, 1]]),
        (length("window_sizes", whole, 3), [[0, 0], [2, 3, 1], [1, 1]]),
        (length("window_strides", whole, 0), [[0, 0], [2, 3], []]),
        ("window_strides[1] must not be 0", [[0, 0], [2, 3], [1, 0]]),
        ("window_offsets[1] must be at least 0, got -1", [[0, -1], [2, 3], [1, 1]]),
        ("window_sizes[0] must be at least 1, got 0", [[0, 0], [0, 3], [1, 1]]),
        ("window_sizes[1] must be at least 1, got -3", [[0, 0], [2, -3], [1, 1]]),
        (past(3, 1, whole, 1, 3), [[0, 1], [2, 3], [1, 1]]),
        (past(2, 0, whole, 2, 1), [[2, 0], [1, 3], [-1, 1]]),
    ]
    return [(sentence, given(*before, *window)) for sentence, window in rows]


ARGUMENTS: Table = {
    "slice1": [
        (f"input {NO_DIMENSION}", lambda t: (t(), [], [], [])),
        *of_windows("input"),
        (length("output_sizes", "input", 1), given([0, 0], [2, 3], [1, 1], [2])),
        ("output_sizes[1] must be from 1 to 2, got 3", given([0, 0], [2, 3], [1, -2], [2, 3])),
        ("output_sizes[0] must be from 1 to 2, got 0", given([0, 0], [2, 3], [1, 1], [0, 3])),
        ("output_sizes[1] must be from 1 to 3, got -1", given([0, 0], [2, 3], [1, 1], [2, -1])),
        # a dimension of size 0 has nothing that a window could cover
        (past(0, 0, "input", 0, 1), lambda t: (t(0, 3), [0, 0], [1, 3], [1, 1])),
        (past(0, 0, "input", 1, 0), lambda t: (t(0, 3), [1, 0], [0, 3], [1, 1])),
        ("window_sizes[0] must be at least 0, got -1", lambda t: (t(0, 3), [0, 0], [-1, 3], [1, 1])),
        ("output_sizes[0] must be from 0 to 0, got 1", lambda t: (t(0, 3), [0, 0], [0, 3], [1, 1], [1, 3])),
        # numbers near the limits of 64 bits
        (past(3, 0, "input", FAR, FAR), lambda t: (t(3), [FAR], [FAR], [1])),
        (past(3, 0, "input", 3, LIMIT), lambda t: (t(3), [3], [LIMIT], [-1])),
        (f"window_offsets[0] must be at least 0, got {-LIMIT - 1}", lambda t: (t(3), [-LIMIT - 1], [1], [1])),
        (f"window_sizes[0] must be at least 1, got {-LIMIT - 1}", lambda t: (t(3), [0], [-LIMIT - 1], [1])),
        (f"output_sizes[0] must be from 1 to 1, got {LIMIT}", lambda t: (t(3), [0], [3], [-LIMIT - 1], [LIMIT])),
    ],
    "slice_grad": [
        (f"grad_output {NO_DIMENSION}", lambda t: (t(), [], [], [], [])),
        (length("input_sizes", "grad_output", 3), given([2, 3, 1], [0, 0], [2, 3], [1, 1])),
        ("input_sizes[1] must be at least 0, got -3", given([2, -3], [0, 0], [2, 3], [1, 1])),
        *of_windows("input_sizes", [2, 3]),
        (steps(3, 1, 4), lambda t: (t(2, 4), [4, 9], [0, 0], [4, 9], [-3, 4])),
        (steps(2, 0, 0), lambda t: (t(0, 3), [2, 3], [0, 0], [2, 3], [1, 1])),
        (steps(0, 0, 1, least=0), lambda t: (t(1, 3), [0, 3], [0, 0], [0, 3], [1, 1])),
        (past(LIMIT, 0, "input_sizes", LIMIT, LIMIT), lambda t: (t(2), [LIMIT], [LIMIT], [LIMIT], [1])),
        (steps(1, 0, 2), lambda t: (t(2), [LIMIT], [0], [LIMIT], [-LIMIT - 1])),
    ],
    "split": [
        (f"input {NO_DIMENSION}", lambda t: (t(), [1], 0)),
        *((sentence, given([2, 1], axis)) for sentence, axis in AXES.items()),
        ("split_sizes must have at least 1 entry, got none", given([], 1)),
        ("split_sizes[1] must be at least 1, got 0; leave empty pieces out", given([3, 0], 1)),
        ("split_sizes[1] must be at least 1, got 0; leave empty pieces out", given([5, 0], 1)),
        ("split_sizes[0] must be at least 1, got -1", given([-1, 4], 1)),
        ("split_sizes[0] must be at least 1, got 0; leave empty pieces out", lambda t: (t(0, 3), [0], 0)),
        (sums(3, 1, [1, 1]), given([1, 1], 1)),
        (sums(3, 1, [2, 2]), given([2, 2], 1)),
        (sums(0, 0, [1]), lambda t: (t(0, 3), [1], 0)),
        # this sum is 3 where 64 bits overflow
        (sums(3, 1, f"[{FAR}, {FAR}, …] (5 in all, sum {4 * FAR + 3})"), given([FAR, FAR, FAR, FAR, 3], 1)),
        (sums(3, 1, TWENTY_ONES), given([1] * 20, 1)),
        (sums(3, 1, f"{MANY_ONES} (21 in all, sum 21)"), given([1] * 21, 1)),
        (
            sums(3, 1, "[1000000, 1000001, 1000002, 1000003, 1000004, 1000005, …] (8 in all, sum 8000028)"),
            given([1_000_000 + k for k in range(8)], 1),
        ),
        (sums(3, 1, f"[{LIMIT}, {LIMIT}, …] (9 in all, sum {9 * LIMIT})"), given([LIMIT] * 9, 1)),
    ],
    "join": [
        (f"inputs[0] {NO_DIMENSION}", lambda t: ([t()], 0)),
        *((sentence, lambda t, axis=axis: ([t(2, 1), t(2, 2)], axis)) for sentence, axis in AXES.items()),
        ("inputs[1] must have as many dimensions as inputs[0], 2, got 1", lambda t: ([t(2, 3), t(2)], 1)),
        ("inputs[1] must have as many dimensions as inputs[0], 2, got 0", lambda t: ([t(2, 3), t()], 1)),
        (
            "inputs[2] must have the dtype of inputs[0], float32, got int32; convert one of them with to()",
            lambda t: ([t(2, 3), t(2, 3), t(2, 3, dtype=torch.int32)], 1),
        ),
        (
            "inputs[1] must have the sizes of inputs[0], [2, 3], except along axis 1, got [1, 3]",
            lambda t: ([t(2, 3), t(1, 3)], 1),
        ),
        (
            f"inputs[1] must have the sizes of inputs[0], {MANY_ONES} (30 in all), except along axis 28, got "
            f"{MANY_ONES} (30 in all), with 2 instead of 1 at index 29",
            lambda t: ([t(*[1] * 30), t(*[1] * 28, 3, 2)], 28),
        ),
        *(
            (
                f"inputs[{k}] must have at least 1 element along axis {axis}, got 0; leave empty tensors out",
                lambda t, tensors=tensors, axis=axis: ([t(*sizes) for sizes in tensors], axis),
            )
            for k, axis, tensors in ((1, 1, [(2, 3), (2, 0)]), (0, 0, [(0, 3)]))
        ),
        ("inputs must sum to less than 2^63 along axis 0", lambda t: ([t(1).expand(FAR), t(1).expand(FAR)], 0)),
    ],
    "reverse_subsequences": [
        (f"input {NO_DIMENSION}", lambda t: (t(), t(dtype=torch.int32), 0)),
        *(
            (sentence, lambda t, axis=axis: (t(2, 3), t(2, 1, dtype=torch.int32), axis))
            for sentence, axis in AXES.items()
        ),
        *(
            (
                f"sequence_lengths must have dtype uint32, uint64, int32 or int64, got {name}; write "
                f"sequence_lengths.{'sum(1, keepdim=True)' if name == 'bool' else 'long()'}",
                lambda t, name=name: (t(2, 3), t(2, 1, dtype=getattr(torch, name)), 1),
            )
            for name in ("bool", "uint8", "int8", "int16", "uint16", "float32", "float64", "bfloat16", "complex64")
        ),
        *(
            (
                lengths(right, axis, got),
                lambda t, sizes=sizes, given=given, dtype=dtype, axis=axis: (t(*sizes), t(*given, dtype=dtype), axis),
            )
            for right, axis, got, sizes, given, dtype in (
                ([2, 1], 1, "[2]; reverse_sequence takes a length per batch item", [2, 3], [2], torch.int32),
                ([1], 0, [3], [3], [3], torch.int32),
                ([2, 1], 1, [2, 3], [2, 3], [2, 3], torch.int64),
                ([2, 1], 1, "[1, 1]; write sequence_lengths.expand(2, 1)", [2, 3], [1, 1], torch.uint64),
                ([2, 1], 1, "[]; write sequence_lengths.expand(2, 1)", [2, 3], [], torch.uint32),
                (TWENTY_ONES, 2, f"{MANY_ONES} (21 in all)", [1] * 20, [1] * 21, torch.int64),
                (
                    *(f"{MANY_ONES} (25 in all)", 2, f"{MANY_ONES} (25 in all), with 1 instead of 4 at index 24"),
                    *([1] * 24 + [4], [1] * 25, torch.int64),
                ),
            )
        ),
    ],
}

# New results of more bytes than there can be, and empty ones that torch cannot make either.
TOO_LARGE: Table = {
    "slice1": [
        (too_large([FAR]), lambda t: (t(1).expand(FAR), [0], [FAR], [1])),
        (
            too_large_but_for_a_0([0, FAR, FAR]),
            lambda t: (t(0, 1, 1).expand(0, FAR, FAR), [0] * 3, [0, FAR, FAR], [1] * 3),
        ),
    ],
    "slice_grad": [
        (too_large([FAR, 3]), lambda t: (t(1, 2), [FAR, 3], [5, 0], [1, 2], [1, 1])),
        (too_large(f"[{FAR}, {FAR}, …] (5 in all)"), lambda t: (t(*[1] * 5), [FAR] * 5, [0] * 5, [1] * 5, [1] * 5)),
        (too_large_but_for_a_0([FAR, 4, 0]), lambda t: (t(1, 1, 0), [FAR, 4, 0], [0, 0, 0], [1, 1, 0], [1, 1, 1])),
        (too_large_but_for_a_0([0, 2, FAR]), lambda t: (t(0, 2, 1), [0, 2, FAR], [0, 0, 0], [0, 2, 1], [1, 1, 1])),
    ],
    "split": [
        (too_large([FAR]), lambda t: (t(1).expand(FAR + 1), [1, FAR], 0)),
        (too_large_but_for_a_0([0, 2, FAR]), lambda t: (t(0, 1, 1).expand(0, 3, FAR), [1, 2], 1)),
    ],
    "join": [
        (too_large([FAR]), lambda t: ([t(1).expand(FAR // 2)] * 2, 0)),
        (too_large_but_for_a_0([0, 2, FAR]), lambda t: ([t(0, 1, 1).expand(0, 1, FAR)] * 2, 1)),
    ],
    "reverse_subsequences": [
        (
            too_large([2**31] * 2),
            lambda t: (t(1, 1).expand([2**31] * 2), t(1, 1, dtype=torch.int64).expand(2**31, 1), 1),
        ),
        (
            too_large_but_for_a_0([0, FAR, FAR]),
            lambda t: (t(0, 1, 1).expand(0, FAR, FAR), t(0, 1, 1, dtype=torch.int64).expand(0, FAR, 1), 2),
        ),
    ],
}

# A call of each operator with one result, of sizes [2, 3], and what its first tensor is called.
ONE_RESULT = {
    "slice1": ("input", given([0, 0], [2, 3], [1, -1])),
    "slice_grad": ("grad_output", given([2, 3], [0, 0], [2, 3], [1, -1])),
    "split": ("input", given([3], 1)),
    "join": ("inputs[0]", lambda t: ([t(2, 1), t(2, 2)], 1)),
    "reverse_subsequences": ("input", lambda t: (t(2, 3), t(2, 1, dtype=torch.int64), 1)),
}


def one_out(op: str, *sizes: int, dtype: torch.dtype = torch.float32) -> Callable[..., Any]:
    return lambda t: [t(*sizes, dtype=dtype)] if op == "split" else t(*sizes, dtype=dtype)


# With an `out` that does not fit; it is made by a third function.
OUT: Table = {
    op: [
        (f"{out} must have sizes [2, 3], got [6]", call, one_out(op, 6)),
        (f"{out} must have sizes [2, 3], got [2, 1, 3]", call, one_out(op, 2, 1, 3)),
        *(
            (f"{out} must have the dtype of {first}, float32, got {name}", call, one_out(op, 2, 3, dtype=dtype))
            for name, dtype in (("float64", torch.float64), ("uint32", torch.uint32))
        ),
    ]
    for op, (first, call) in ONE_RESULT.items()
    for out in ("out[0]" if op == "split" else "out",)
}
OUT["slice1"] += [
    (
        f"out must have sizes {MANY_ONES} (22 in all), got {MANY_ONES} (22 in all), with 3 instead of 2 at index 20",
        lambda t: (t(*[1] * 20, 2, 3), [0] * 22, [1] * 20 + [2, 3], [1] * 22),
        tensor(*[1] * 20, 3, 3),
    ),
    (
        f"out must have sizes {MANY_ONES.replace(' …', ' 1')}, got {MANY_ONES} (20 in all), with 10 instead of 1 at "
        "index 19",
        lambda t: (t(*[1] * 20), [0] * 20, [1] * 20, [1] * 20),
        tensor(*[1] * 19, 10),
    ),
    ("out must have sizes [2, 1], got [2, 2]", given([0, 0], [2, 3], [1, 2], [2, 1]), tensor(2, 2)),
    ("out must have sizes [0, 3], got [1, 3]", lambda t: (t(0, 3), [0, 0], [0, 3], [1, 1]), tensor(1, 3)),
]
OUT["split"] += [
    *(
        (
            f"out must have length 2, a tensor for each of split_sizes, got {count}",
            given([1, 2], 1),
            lambda t, count=count: [t(2, 1), t(2, 2), t(2, 1)][:count],
        )
        for count in (0, 1, 3)
    ),
    ("out[1] must have sizes [2, 2], got [2, 1]", given([1, 2], 1), lambda t: [t(2, 1), t(2, 1)]),
]

# The rows of ARGUMENTS once more, with an `out`.
WITH_OUT = {op: [(*row, one_out(op, 1, 1)) for row in rows] for op, rows in ARGUMENTS.items()}


@dataclass(frozen=True)
class Refusal:
    """A row of a table; without `out`, its function makes None."""

    op: str
    sentence: str  # the whole of it
    arguments: Callable[..., Any]
    out: Callable[..., Any] = lambda t: None

    def __str__(self) -> str:
        return self.sentence


def rows(*tables: Table) -> list[Refusal]:
    return [Refusal(op, f"{op}: {row[0]}", *row[1:]) for table in tables for op in table for row in table[op]]


def every_row(*tables: Table) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("refusal", rows(*tables), ids=str)
