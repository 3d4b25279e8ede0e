# ruff: noqa: E501  (a sentence to a line)
"""DirectML's rules: what each feature level supports, and every constraint that its texts state."""

import copy
import dataclasses
import itertools
import json
import operator
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from descriptors.cases import (
    DATA_TYPES,
    DESCS,
    OPERATORS,
    UINT64,
    along,
    arguments_of_infer_output,
    descs,
    op_desc,
    plain,
)
from descriptors.rules import CONSTRAINTS, F16, F32, I8, INFERRED_FROM_BAD, VALID, X
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_cases import EXAMPLES, examples

from torch_dml_ops.directml import (
    DescriptorError,
    ElementWiseIdentityOperatorDesc,
    FeatureLevel,
    JoinOperatorDesc,
    ModelError,
    OperatorDesc,
    ReverseSubsequencesOperatorDesc,
    Slice1OperatorDesc,
    SliceGradOperatorDesc,
    SliceOperatorDesc,
    SplitOperatorDesc,
    Support,
    TensorDataType,
    TensorDesc,
    TensorFlags,
    Violation,
    check_support,
    support_table,
)
from torch_dml_ops.directml._descriptors.base import note_violation
from torch_dml_ops.directml._schema.documents import Cursor

every_op = pytest.mark.parametrize("op", OPERATORS)
every_level = pytest.mark.parametrize("level", list(FeatureLevel), ids=str)


def broken(desc: OperatorDesc, level: FeatureLevel = FeatureLevel.NEWEST) -> list[str]:
    """The sentences about the rules that the descriptor breaks."""
    try:
        desc.validate(level)
    except DescriptorError as caught:
        error = caught
    else:
        return []
    sentences = [str(violation) for violation in error.violations]
    rules = "a rule" if len(sentences) == 1 else f"{len(sentences)} rules"
    title = f"{desc.operator_type} at feature level {level} breaks {rules}:"
    assert str(error).splitlines() == [title, *(f"  {sentence}" for sentence in sentences)]
    return sentences


def dotted(path: tuple[Any, ...]) -> str:
    """``input_tensors[1]``."""
    return path[0] if len(path) == 1 else f"{path[0]}[{path[1]}]"


# Support by feature level, as the tables of the API's pages and the history of feature levels have it.

LEVELS = ("1_0", "2_0", "2_1", "3_0", "3_1", "4_0", "4_1", "5_0")  # nothing changes after the last
TABLE = {
    "SLICE": "4–5 T6 | | 4–5 T8 | 1–8 T8 | | | 1–8 T11 |",
    "SLICE1": "– | | 4–5 T8 | 1–8 T8 | | | 1–8 T11 |",
    "SPLIT": "4–4 T6 | | 4–4 T8 | 1–8 T8 | | | 1–8 T11 |",
    "JOIN": "4–4 T6 | | 4–4 T8 | 4–5 T8 | 1–8 T8 | | 1–8 T11 |",
    "REVERSE_SUBSEQUENCES": "– | | 4–4 T8 U32 | 4–5 T8 U32 | | 1–8 T8 U32 | | 1–8 T11 U64",
    "SLICE_GRAD": "– | | | 4–5 T8 | 1–8 T8 | | 1–8 T11 |",
    "ELEMENT_WISE_IDENTITY": "4–5 T2 | | 4–5 T8 | 1–8 T8 | | | 1–8 T11 |",
}
NAMES = ["FLOAT32", "FLOAT16", "INT32", "INT16", "UINT32", "UINT16", "INT8", "UINT8", "FLOAT64", "INT64", "UINT64"]
FOUR_BITS = ("UINT4", "INT4")
KNOWN = [t for t in TensorDataType if t.name != "UNKNOWN"]
LENGTHS = {"": [], "U32": ["UINT32"], "U64": ["UINT32", "UINT64"]}

Cell = tuple[int, int, list[str], list[str]]  # the fewest and most dimensions, data types, types of lengths


def cells(op: str) -> dict[str, Cell | None]:
    """By level; a level that the table leaves empty is like the one before it."""
    result: dict[str, Cell | None] = {}
    last: Cell | None = None
    for level, text in itertools.zip_longest(LEVELS, TABLE[op].split("|"), fillvalue=""):
        if match := re.match(r"(\d)–(\d) T(\d+) ?(\w*)", text.strip()):
            last = int(match[1]), int(match[2]), NAMES[: int(match[3])], LENGTHS[match[4]]
        result[level] = last
    return {str(level): result[max(name for name in LEVELS if name <= str(level))] for level in FeatureLevel}


def since(op: str, allowed: Callable[[Cell], bool]) -> str:
    """How a sentence ends: with the first level that allows it, where there is one."""
    levels = [level for level, cell in cells(op).items() if cell is not None and allowed(cell)]
    return f"; allowed from feature level {levels[0]}" if levels else ""


def test_feature_levels() -> None:
    names = ["1_0", "2_0", "2_1", "3_0", "3_1", "4_0", "4_1", "5_0", "5_1", "5_2", "6_0", "6_1", "6_2", "6_3", "6_4"]
    assert [str(level) for level in FeatureLevel] == names
    assert list(FeatureLevel) == sorted(FeatureLevel)
    assert max(FeatureLevel) is FeatureLevel.NEWEST is FeatureLevel.LEVEL_6_4
    assert [FeatureLevel.parse(f"DML_FEATURE_LEVEL_{name}") for name in names] == list(FeatureLevel)
    assert f"{FeatureLevel.LEVEL_2_1:>5}" == "  2_1"
    with pytest.raises(ValueError, match=r"^FeatureLevel.parse: text must be one of 1_0, 2_0, .*, 6_4, got '6_5'$"):
        FeatureLevel.parse("6_5")


@every_level
@every_op
def test_support(op: str, level: FeatureLevel) -> None:
    cell = cells(op)[str(level)]
    support = check_support(f"DML_OPERATOR_{op}", level)
    if cell is None:
        assert support is None
        rule = f"operator_type must be an operator of feature level {level}, got {op}"
        assert broken(plain(op, 4, F32), level) == [rule + since(op, lambda _: True)]
        return
    least, most, types, lengths = cell
    assert support is not None
    assert [n for n in range(20) if n in support.dimension_counts] == list(range(least, most + 1))
    assert [t.name for t in support.data_types] == types
    assert [t.name for t in support.length_types] == lengths


@every_level
@every_op
def test_supported_dimension_counts_and_data_types(op: str, level: FeatureLevel) -> None:
    cell = cells(op)[str(level)]
    if cell is None:
        return
    least, most, types, _ = cell
    counts = f"must be {least}" if least == most else f"must be from {least} to {most}"
    for rank, data_type in itertools.product(range(1, 10), KNOWN):
        desc = plain(op, rank, data_type)
        expected = []
        for path, tensor in (*desc.inputs(), *desc.outputs()):
            name = dotted(path)
            if not least <= rank <= most:
                end = since(op, lambda c, n=rank: c[0] <= n <= c[1])
                if (least, most) != (1, 8):
                    expected.append(f"{name}.dimension_count {counts} at feature level {level}, got {rank}{end}")
            if tensor.data_type.name not in types and path != ("sequence_lengths_tensor",):
                end = since(op, lambda c, t=data_type: t.name in c[2])
                allowed = f"must be one of {', '.join(types)} at feature level {level}"
                other = ", which feature level 6_3 brought for other operators" if data_type.name in FOUR_BITS else ""
                expected.append(f"{name}.data_type {allowed}, got {data_type.name}{other}{end}")
        if not 1 <= rank <= 8:
            tensors = (*desc.inputs(), *desc.outputs())
            expected += [f"{dotted(path)}.dimension_count must be from 1 to 8, got {rank}" for path, _ in tensors]
        assert broken(desc, level) == expected


@every_level
@pytest.mark.parametrize("length_type", DATA_TYPES, ids=lambda t: t.name)
def test_supported_types_of_sequence_lengths(length_type: TensorDataType, level: FeatureLevel) -> None:
    op = "REVERSE_SUBSEQUENCES"
    cell = cells(op)[str(level)]
    if cell is None:
        return
    expected = []
    if length_type.name not in cell[3]:
        end = since(op, lambda c: length_type.name in c[3])
        rule = f"must be one of {', '.join(cell[3])} at feature level {level}, got {length_type.name}"
        expected = [f"sequence_lengths_tensor.data_type {rule}{end}"]
    assert broken(plain(op, 4, F32, length_type), level) == expected


def test_support_of_an_operator_that_is_not_here() -> None:
    with pytest.raises(
        ValueError, match=r"^check_support: operator must be an operator of this package \(.*\), got 'GEMM'$"
    ):
        check_support("GEMM")


def test_the_documents_have_the_table() -> None:
    before, table, _ = (Path(__file__).parents[2] / "docs" / "from-directml.md").read_text().partition(support_table())
    assert table, "docs/from-directml.md must have what this prints: print(directml.support_table())"
    assert {*re.findall(r"\bT\d+", table)} <= {*re.findall(r"\bT\d+", before)}, "a set of data types is not explained"


def test_table_says_what_the_levels_support() -> None:
    header, _, *rows = (line.strip("| ").split(" | ") for line in support_table().splitlines())
    assert header == ["operator", "1_0–2_0", "2_1", "3_0", "3_1", "4_0", "4_1", "5_0–6_4"]
    assert [row[0] for row in rows] == list(OPERATORS)
    for op, *row in rows:
        for column, cell in zip(header[1:], row, strict=True):
            for level in column.split("–"):
                expected = cells(op)[level]
                if expected is None:
                    assert cell == "–"
                    continue
                least, most, types, lengths = expected
                counts = f"{least}" if least == most else f"{least}–{most}"
                with_lengths = f"; lengths {', '.join(lengths)}" if lengths else ""
                assert cell == f"{counts}, T{len(types)}{with_lengths}"


# The constraints, sentence by sentence.


@every_op
def test_valid(op: str) -> None:
    assert broken(VALID[op]) == []


@pytest.mark.parametrize(
    ("op", "changes", "sentences"),
    [pytest.param(*row, id=f"{row[0]} {(row[2] or ['is valid'])[0]}") for row in CONSTRAINTS],
)
def test_constraint(op: str, changes: dict[str, Any], sentences: list[str]) -> None:
    desc = dataclasses.replace(VALID[op], **changes)
    assert broken(desc) == sentences
    assert OperatorDesc.from_json(desc.to_json()) == desc


IN_EVERY_DIMENSION = {  # what an entry of a field is, by which each dimension breaks a rule of its own
    "SLICE": {"offsets": [-1, 9], "sizes": [0, 9], "strides": [0, 9]},
    "SLICE1": {"input_window_offsets": [-1, 9], "input_window_sizes": [0, 9], "input_window_strides": [0, 2**31]},
    "SLICE_GRAD": {"input_window_offsets": [-1, 9], "input_window_sizes": [0, 9], "input_window_strides": [0, 2**31]},
}


@pytest.mark.parametrize(
    ("op", "field", "entry"),
    [(op, field, entry) for op, fields in IN_EVERY_DIMENSION.items() for field in fields for entry in fields[field]],
)
def test_every_dimension_that_breaks_a_rule_is_listed(op: str, field: str, entry: int) -> None:
    """Of two dimensions in which it is broken, each is named as where it is broken alone."""
    good = list(getattr(VALID[op], field))
    of_each = [
        broken(dataclasses.replace(VALID[op], **{field: entries})) for entries in ([entry, good[1]], [good[0], entry])
    ]
    both = broken(dataclasses.replace(VALID[op], **{field: [entry, entry]}))
    assert all(of_each)
    assert sorted(both) == sorted([*of_each[0], *of_each[1]])


def test_every_rule_that_is_broken_is_listed() -> None:
    desc = op_desc(
        "SLICE1",
        TensorDesc(TensorDataType.FLOAT64, [4, 6], guaranteed_base_offset_alignment=4),
        TensorDesc(TensorDataType.FLOAT64, [3, 3]),
        [0, 9],
        [4, 0],
        [2, 0],
    )
    assert broken(desc, FeatureLevel.LEVEL_2_1) == [
        f"{name}.{rule}"
        for name in ("input_tensor", "output_tensor")
        for rule in (
            "dimension_count must be from 4 to 5 at feature level 2_1, got 2; allowed from feature level 3_0",
            "data_type must be one of FLOAT32, FLOAT16, INT32, INT16, UINT32, UINT16, INT8, UINT8 at feature level 2_1, "
            "got FLOAT64; allowed from feature level 4_1",
        )
    ] + [
        "input_tensor.guaranteed_base_offset_alignment must be 0 or a power of two from 8, the size of FLOAT64, on, got 4",
        "input_window_sizes[1] must be at least 1, got 0",
        "input_window_strides[1] must not be 0, got 0",
        "input_window_offsets[1] plus input_window_sizes[1] must be at most 6, the size of input_tensor there, got 9 + 0",
        "output_tensor.sizes[0] must be from 1 to 2, the steps of input_window_strides[0] in input_window_sizes[0], got 3",
    ]


def test_violation_says_field_index_value_and_level() -> None:
    with pytest.raises(DescriptorError) as caught:
        plain("SPLIT", 1, F32).validate(FeatureLevel.LEVEL_2_1)
    first = caught.value.violations[0]
    assert first.path == ("input_tensor", "dimension_count")
    assert (first.value, first.allowed_from) == (1, FeatureLevel.LEVEL_3_0)
    assert caught.value.violations[1].path == ("output_tensors", 0, "dimension_count")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.violations) == (str(caught.value), caught.value.violations)


def test_a_message_has_the_first_hundred_rules() -> None:
    desc = dataclasses.replace(VALID["SLICE1"], input_window_offsets=[-1] * 200)
    with pytest.raises(DescriptorError) as caught:
        desc.validate()
    title, *lines, last = str(caught.value).splitlines()
    assert title == "SLICE1 at feature level 6_4 breaks 201 rules:"
    assert lines == [f"  {violation}" for violation in caught.value.violations[:100]]
    assert last == "  and 101 more; the attribute violations has them all"


OVERLAPS = "must not lay elements of an output on one another"


def test_tensors_of_many_dimensions() -> None:
    """For which neither recursion nor quadratic time would do."""
    nested = [2**k for k in range(5000)]
    for strides in (nested[::-1], [*nested, 3]):
        rules = {
            violation.rule
            for violation in TensorDesc(F32, [2] * len(strides), strides=strides).violations(written=True)
        }
        assert "must be from 0 to 4294967295" in rules
        assert OVERLAPS not in rules  # with what no tensor can have, nobody searches
    assert TensorDesc(I8, [3] * 5000).minimum_size_in_bytes == -(-(3**5000) // 4) * 4


@examples
@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 12)), min_size=1, max_size=4))
def test_outputs_that_overlap(dimensions: list[tuple[int, int]]) -> None:
    sizes, strides = zip(*dimensions, strict=True)
    places = [sum(map(operator.mul, index, strides)) for index in itertools.product(*map(range, sizes))]
    rules = [violation.rule for violation in TensorDesc(F32, sizes, strides=strides).violations(written=True)]
    assert rules == [OVERLAPS] * (len(set(places)) < len(places))


def test_outputs_too_intricate_to_tell_count_as_overlapping() -> None:
    sizes, strides = [1000, 1001, 1003, 1007], [9973 * 7919, 9967 * 7907, 9949 * 7901, 9941 * 7883]
    rules = list(TensorDesc(F32, [2] * 4, strides=strides).violations(written=True))
    assert rules == []
    rules = list(TensorDesc(F32, sizes, strides=strides).violations(written=True))
    assert OVERLAPS in [rule.rule for rule in rules]


# Random descriptors.


@every_op
@settings(examples, max_examples=EXAMPLES // 2)
@given(st.data())
def test_random_valid_descriptors(op: str, data: st.DataObject) -> None:
    desc = data.draw(descs(op))
    assert broken(desc) == []
    json = desc.to_json()
    assert json["type"] == f"DML_OPERATOR_{op}"
    assert DESCS[op].from_json(json) == desc
    assert OperatorDesc.from_json(copy.deepcopy(json)) == desc
    assert hash(OperatorDesc.from_json(json)) == hash(desc)


Broken = tuple[OperatorDesc, str]  # and how one of the sentences about it begins


def with_tensor(desc: OperatorDesc, path: tuple[Any, ...], tensor: TensorDesc) -> OperatorDesc:
    value = tensor
    if len(path) == 2:
        value = [tensor if k == path[1] else t for k, t in enumerate(getattr(desc, path[0]))]
    return dataclasses.replace(desc, **{path[0]: value})


@st.composite
def broken_tensors(draw: st.DrawFn, desc: OperatorDesc) -> Broken:
    """One rule broken that holds of every tensor."""
    path, tensor = draw(st.sampled_from([*desc.inputs(), *desc.outputs()]))
    name = dotted(path)
    d = draw(st.integers(0, len(tensor.sizes) - 1))
    written = path[0] in desc.output_fields
    kinds = ["size", "total", "multiple", "alignment", "count", "strides", "rank", "type"]
    kind = draw(st.sampled_from(kinds + ["stride 0"] * (written and tensor.sizes[d] > 1)))
    changes: dict[str, Any]
    if kind == "size":
        size = draw(st.sampled_from([0, -1, 2**32]))
        changes, sentence = (
            {"sizes": along(tensor.sizes, d, size)},
            f".sizes[{d}] must be from 1 to 4294967295, got {size}",
        )
    elif kind == "total":
        total = draw(st.integers(0, tensor.minimum_size_in_bytes // 4 - 1)) * 4
        changes, sentence = {"total_tensor_size_in_bytes": total}, ".total_tensor_size_in_bytes must be from"
    elif kind == "multiple":
        total = tensor.minimum_size_in_bytes + draw(st.integers(1, 3))
        changes, sentence = {"total_tensor_size_in_bytes": total}, ".total_tensor_size_in_bytes must be a multiple of 4"
    elif kind == "alignment":
        n = draw(st.sampled_from([3, 48, tensor.data_type.size_in_bytes + 16, -1]))
        changes, sentence = {"guaranteed_base_offset_alignment": n}, ".guaranteed_base_offset_alignment must be 0 or a"
    elif kind == "count":
        changes = {"dimension_count": len(tensor.sizes) + draw(st.sampled_from([-1, 1]))}
        sentence = f".dimension_count must be {len(tensor.sizes)}, the number of sizes"
    elif kind == "strides":
        changes = {"strides": [*tensor.effective_strides, -1]}  # of which that is not said too
        sentence = f".strides must have length {len(tensor.sizes)}, an entry for each of sizes"
    elif kind == "rank":
        changes = {"sizes": [*tensor.sizes, 1] + [1] * 8, "strides": None, "dimension_count": None}
        sentence = ".dimension_count must be from 1 to 8, got"
    elif kind == "type" and path == ("sequence_lengths_tensor",):
        changes, sentence = {"data_type": I8}, ".data_type must be one of UINT32, UINT64 at feature level 6_4, got INT8"
    elif kind == "type":
        other = draw(st.sampled_from([t for t in DATA_TYPES if t != tensor.data_type]))
        first_path, first = desc.inputs()[0]
        changed = with_tensor(desc, path, dataclasses.replace(tensor, data_type=other))
        if path != first_path:
            return (
                changed,
                f"{name}.data_type must be {first.data_type.name}, that of {dotted(first_path)}, got {other.name}",
            )
        last_path, last = desc.outputs()[-1]
        return (
            changed,
            f"{dotted(last_path)}.data_type must be {other.name}, that of {dotted(first_path)}, got {last.data_type.name}",
        )
    else:
        changes = {"strides": along(tensor.effective_strides, d, 0)}
        sentence = f".strides[{d}] must not be 0, as the tensor is written to"
    return with_tensor(desc, path, dataclasses.replace(tensor, **changes)), name + sentence


@st.composite
def broken_fields(draw: st.DrawFn, desc: OperatorDesc) -> Broken:
    """One rule of the operator's own broken."""
    changes: dict[str, Any]
    if isinstance(desc, (Slice1OperatorDesc, SliceGradOperatorDesc)):
        kind = draw(st.sampled_from(["offset", "negative", "size", "stride", "far", "steps", "length", "count"]))
        grad = isinstance(desc, SliceGradOperatorDesc)
        whole = desc.output_gradient_tensor if grad else desc.input_tensor
        part_name = "input_gradient_tensor" if grad else "output_tensor"
        part, rank = getattr(desc, part_name), len(whole.sizes)
        d = draw(st.integers(0, rank - 1))
        offsets, extents, strides = desc.input_window_offsets, desc.input_window_sizes, desc.input_window_strides
        if kind == "offset":
            value = whole.sizes[d] - extents[d] + draw(st.integers(1, 2**32))
            return (
                dataclasses.replace(desc, input_window_offsets=along(offsets, d, value)),
                f"input_window_offsets[{d}] plus input_window_sizes[{d}] must be at most {whole.sizes[d]}, the size",
            )
        if kind == "steps":
            most = 1 + (extents[d] - 1) // abs(strides[d])
            tensor = dataclasses.replace(
                part, sizes=along(part.sizes, d, most + 1), strides=None, total_tensor_size_in_bytes=None
            )
            return dataclasses.replace(
                desc, **{part_name: tensor}
            ), f"{part_name}.sizes[{d}] must be from 1 to {most}, the"
        changes, sentence = {
            "negative": ({"input_window_offsets": along(offsets, d, -1)}, f"input_window_offsets[{d}] must be at least 0"),
            "size": ({"input_window_sizes": along(extents, d, 0)}, f"input_window_sizes[{d}] must be at least 1, got 0"),
            "stride": ({"input_window_strides": along(strides, d, 0)}, f"input_window_strides[{d}] must not be 0, got 0"),
            "far": ({"input_window_strides": along(strides, d, 2**31)}, f"input_window_strides[{d}] must be from -2147483648"),
            "length": ({"input_window_sizes": [*extents, 1]}, f"input_window_sizes must have length {rank}, an entry"),
            "count": ({"dimension_count": rank + 1}, f"dimension_count must be {rank}, that of "),
        }[kind]  # fmt: skip
        return dataclasses.replace(desc, **changes), sentence
    if isinstance(desc, SliceOperatorDesc):
        d = draw(st.integers(0, len(desc.sizes) - 1))
        size = desc.input_tensor.sizes[d]
        changes, sentence = draw(
            st.sampled_from(
                [
                    ({"offsets": along(desc.offsets, d, size)}, f"offsets[{d}] plus (sizes[{d}] - 1) * strides[{d}] must be"),
                    ({"offsets": along(desc.offsets, d, -1)}, f"offsets[{d}] must be at least 0, got -1"),
                    ({"sizes": along(desc.sizes, d, 0)}, f"sizes[{d}] must be at least 1, got 0"),
                    ({"sizes": along(desc.sizes, d, size + 1)}, f"output_tensor.sizes[{d}] must be {size + 1}, as sizes"),
                    ({"strides": along(desc.strides, d, 0)}, f"strides[{d}] must be from 1 to"),
                    ({"strides": [*desc.strides, 1]}, f"strides must have length {len(desc.sizes)}, an entry"),
                ]
            )
        )  # fmt: skip
        return dataclasses.replace(desc, **changes), sentence
    rank = len(desc.inputs()[0][1].sizes)
    if isinstance(desc, ElementWiseIdentityOperatorDesc):
        tensor, d = desc.output_tensor, draw(st.integers(0, rank - 1))
        other = TensorDesc(tensor.data_type, along(tensor.sizes, d, tensor.sizes[d] + 1))
        return dataclasses.replace(desc, output_tensor=other), f"output_tensor.sizes[{d}] must be {tensor.sizes[d]}, "
    if draw(st.booleans()):
        axis = draw(st.sampled_from([rank, -1, 2**32]))
        return dataclasses.replace(desc, axis=axis), f"axis must be from 0 to {rank - 1}, a dimension of "
    if isinstance(desc, ReverseSubsequencesOperatorDesc):
        name = draw(st.sampled_from(["output_tensor", "sequence_lengths_tensor"]))
        tensor, d = getattr(desc, name), draw(st.integers(0, rank - 1))
        other = TensorDesc(tensor.data_type, along(tensor.sizes, d, tensor.sizes[d] + 1))
        return dataclasses.replace(desc, **{name: other}), f"{name}.sizes[{d}] must be {tensor.sizes[d]}, "
    assert isinstance(desc, (SplitOperatorDesc, JoinOperatorDesc))
    name, whole = ("output", "input_tensor") if isinstance(desc, SplitOperatorDesc) else ("input", "output_tensor")
    tensors = list(getattr(desc, f"{name}_tensors"))
    if draw(st.booleans()):
        return (
            dataclasses.replace(desc, **{f"{name}_count": len(tensors) + draw(st.sampled_from([1, -1]))}),
            f"{name}_count must be {len(tensors)}, the number of {name}_tensors",
        )
    k, d = draw(st.integers(0, len(tensors) - 1)), draw(st.integers(0, rank - 1))
    sizes = tensors[k].sizes
    tensors[k] = TensorDesc(tensors[k].data_type, along(sizes, d, sizes[d] + 1))
    if d == desc.axis:
        sentence = f"{name}_tensors must have sizes along axis {d} that sum to {getattr(desc, whole).sizes[d]}, that of"
    else:
        sentence = f"{name}_tensors[{k}].sizes[{d}] must be {sizes[d]}, the size of {whole} there, got {sizes[d] + 1}"
    return dataclasses.replace(desc, **{f"{name}_tensors": tensors}), sentence


@every_op
@examples
@given(st.data())
def test_one_rule_broken_is_refused_by_its_name(op: str, data: st.DataObject) -> None:
    desc = data.draw(descs(op))
    assert broken(desc) == []
    changed, beginning = data.draw(data.draw(st.sampled_from([broken_tensors, broken_fields]))(desc))
    sentences = broken(changed)
    assert any(sentence.startswith(beginning) for sentence in sentences), (beginning, sentences)


# infer_output.


@every_op
@settings(examples, max_examples=EXAMPLES // 3)
@given(st.data())
def test_inferred_outputs_are_valid(op: str, data: st.DataObject) -> None:
    desc: Any = data.draw(descs(op))
    arguments = arguments_of_infer_output(desc)
    inferred = DESCS[op].infer_output(**arguments)
    (output_field,) = desc.output_fields
    assert broken(dataclasses.replace(desc, **{output_field: inferred})) == []
    if op not in ("SLICE1",):  # whose descriptor may take fewer steps
        sizes = [t.sizes for t in inferred] if op == "SPLIT" else inferred.sizes
        outputs = getattr(desc, output_field)
        assert sizes == ([t.sizes for t in outputs] if op == "SPLIT" else outputs.sizes)
    else:
        steps = zip(desc.input_window_sizes, desc.input_window_strides, strict=True)
        assert inferred.sizes == tuple(1 + (size - 1) // abs(stride) for size, stride in steps)


@pytest.mark.parametrize(("infer", "sentences"), INFERRED_FROM_BAD)
def test_nothing_is_inferred_from_bad_arguments(infer: Callable[[], object], sentences: list[str]) -> None:
    with pytest.raises(DescriptorError) as caught:
        infer()
    assert [str(violation) for violation in caught.value.violations] == sentences


# Making descriptors, showing them, and their JSON.


def test_repr() -> None:
    assert repr(TensorDesc(F32, (2, 3))) == "TensorDesc(FLOAT32, [2, 3])"
    tensor = TensorDesc(
        F16,
        [2, 3],
        strides=[4, 1],
        flags=TensorFlags.OWNED_BY_DML,
        total_tensor_size_in_bytes=32,
        guaranteed_base_offset_alignment=16,
        dimension_count=3,
    )
    assert repr(tensor) == (
        "TensorDesc(FLOAT16, [2, 3], strides=[4, 1], flags=OWNED_BY_DML, total_tensor_size_in_bytes=32, "
        "guaranteed_base_offset_alignment=16, dimension_count=3)"
    )
    assert repr(VALID["SPLIT"]) == (
        "SplitOperatorDesc(input_tensor=TensorDesc(FLOAT32, [4, 6]), output_count=2, "
        "output_tensors=[TensorDesc(FLOAT32, [4, 2]), TensorDesc(FLOAT32, [4, 4])], axis=1)"
    )
    assert repr(VALID["SLICE1"]).endswith(
        "dimension_count=2, input_window_offsets=[0, 1], input_window_sizes=[4, 5], input_window_strides=[-2, 2])"
    )


HUGE = 10**5000  # Python itself writes out no number of more than 4300 digits
FAR_OFF = f"1{'0' * 58}…"


def test_repr_of_huge_numbers() -> None:
    tensor = TensorDesc(F32, [HUGE], strides=[-HUGE], total_tensor_size_in_bytes=HUGE, dimension_count=HUGE)
    assert repr(tensor) == (
        f"TensorDesc(FLOAT32, [{FAR_OFF}], strides=[-{FAR_OFF[:-2]}…], total_tensor_size_in_bytes={FAR_OFF}, "
        f"dimension_count={FAR_OFF})"
    )
    split = op_desc("SPLIT", X, [tensor], HUGE)
    assert repr(split).endswith(f"axis={FAR_OFF})")


def test_sentences_on_huge_numbers() -> None:
    sentences = broken(op_desc("SLICE", TensorDesc(F32, [HUGE, HUGE]), X, [-HUGE, 2 * HUGE], [HUGE, 6], [HUGE, 1]))
    assert f"input_tensor.sizes[0] must be from 1 to 4294967295, got {FAR_OFF}" in sentences
    assert f"input_tensor.sizes must reach over at most 4294967295 elements, got {FAR_OFF}" in sentences
    assert f"offsets[0] must be at least 0, got -{FAR_OFF[:-2]}…" in sentences
    assert f"output_tensor.sizes[0] must be {FAR_OFF}, as sizes[0] is, got 4" in sentences
    assert all(len(sentence) < 400 for sentence in sentences)


@every_op
def test_every_number_may_be_huge(op: str) -> None:
    """Only the descriptor itself is broken, and neither showing it nor saying so fails."""
    tensor = TensorDesc(F32, [HUGE, HUGE], guaranteed_base_offset_alignment=HUGE)
    desc = VALID[op]
    for field in dataclasses.fields(desc):
        value = getattr(desc, field.name)
        if value is None:
            continue
        replaced: Any = tensor
        if isinstance(value, int):
            replaced = HUGE
        elif isinstance(value, tuple):
            replaced = [tensor if isinstance(v, TensorDesc) else HUGE for v in value]
        changed = dataclasses.replace(desc, **{field.name: replaced})
        assert broken(changed)
        assert len(repr(changed)) < 1000
        assert len(repr(dataclasses.replace(changed, **{field.name: value}))) < 1000


def test_fields_are_those_of_the_structs() -> None:
    names = {op: [field.name for field in dataclasses.fields(desc)] for op, desc in DESCS.items()}
    lists = ["input_window_offsets", "input_window_sizes", "input_window_strides"]
    assert names == {
        "SLICE": ["input_tensor", "output_tensor", "dimension_count", "offsets", "sizes", "strides"],
        "SLICE1": ["input_tensor", "output_tensor", "dimension_count", *lists],
        "SPLIT": ["input_tensor", "output_count", "output_tensors", "axis"],
        "JOIN": ["input_count", "input_tensors", "output_tensor", "axis"],
        "REVERSE_SUBSEQUENCES": ["input_tensor", "sequence_lengths_tensor", "output_tensor", "axis"],
        "SLICE_GRAD": ["input_gradient_tensor", "output_gradient_tensor", "dimension_count", *lists],
        "ELEMENT_WISE_IDENTITY": ["input_tensor", "output_tensor", "scale_bias"],
    }


def test_arguments_may_come_from_any_iterable() -> None:
    window = {"input_window_offsets": [0, 1], "input_window_sizes": [4, 5], "input_window_strides": [-2, 2]}
    once: Any = {name: iter(values) for name, values in window.items()}
    assert Slice1OperatorDesc.infer_output(X, **once) == TensorDesc(F32, [2, 3])
    assert SliceOperatorDesc.infer_output(X, *map(iter, ([1, 0], [2, 3], [2, 2]))) == TensorDesc(F32, [2, 3])
    assert JoinOperatorDesc.infer_output(iter([X, X]), 0) == TensorDesc(F32, [8, 6])


def test_numbers_of_numpy_are_whole_numbers() -> None:
    tensor = TensorDesc(F32, np.array([4, 6]), total_tensor_size_in_bytes=np.int64(96), dimension_count=np.int8(2))
    split = SplitOperatorDesc(input_tensor=tensor, output_count=np.int64(1), output_tensors=[tensor], axis=np.int64(1))
    assert split == op_desc("SPLIT", X, [X], 1)
    assert json.loads(json.dumps(split.to_json())) == split.to_json()


def test_tensors_may_come_from_any_iterable() -> None:
    split = op_desc("SPLIT", X, (t for t in (X,)), 0)  # type: ignore[arg-type]
    assert split == SplitOperatorDesc(input_tensor=X, output_count=1, output_tensors=[X], axis=0)


def test_descriptors_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        VALID["SPLIT"].axis = 0  # type: ignore[attr-defined]
    with pytest.raises(dataclasses.FrozenInstanceError):
        X.sizes = (1,)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: TensorDesc("FLOAT32", [1]),
            "TensorDesc: data_type must be a TensorDataType, got 'FLOAT32'; write TensorDataType.FLOAT32",
        ),
        (lambda: TensorDesc(F32, 3), r"TensorDesc: sizes must be a list of whole numbers, got 3; write \[3\]"),
        (
            lambda: dataclasses.replace(VALID["SLICE1"], input_tensor="x"),
            "Slice1OperatorDesc: input_tensor must be a TensorDesc, got 'x'",
        ),
        (
            lambda: dataclasses.replace(VALID["SPLIT"], output_tensors=[1]),
            r"SplitOperatorDesc: output_tensors\[0\] must be a TensorDesc, got 1",
        ),
        (
            lambda: dataclasses.replace(VALID["SLICE"], offsets=None),
            "SliceOperatorDesc: offsets must be a list of whole numbers, got None",
        ),
        (lambda: TensorDesc(F32, [1], flags=1), "TensorDesc: flags must be TensorFlags, got 1"),
        (lambda: TensorDesc(F32, [0.5, HUGE]), r"TensorDesc: sizes\[0\] must be a whole number, got 0\.5"),
        (lambda: TensorDesc(HUGE, [1]), f"TensorDesc: data_type must be a TensorDataType, got {FAR_OFF}"),
        (lambda: TensorDesc(F32, "1" * 99), f"TensorDesc: sizes must be a list of whole numbers, got '{'1' * 58}…"),
        (
            lambda: VALID["SPLIT"].validate("6_4"),
            "feature_level must be a FeatureLevel, got '6_4'; FeatureLevel.parse reads text",
        ),
        *(
            (lambda desc=desc, given=given: desc.infer_output(*given), f"{desc.__name__}.infer_output: {sentence}")
            for desc, given, sentence in (
                (SplitOperatorDesc, ([4, 6], 0, [4]), r"input_tensor must be a TensorDesc, got \[4, 6\]"),
                (
                    SplitOperatorDesc,
                    (X, 0, 4),
                    r"output_axis_sizes must be a list of whole numbers, got 4; write \[4\]",
                ),
                (JoinOperatorDesc, ([X, None], 0), r"input_tensors\[1\] must be a TensorDesc, got None"),
                (
                    Slice1OperatorDesc,
                    (X, 0, 4, 1),
                    r"input_window_sizes must be a list of whole numbers, got 4; write \[4\]",
                ),
                (SliceOperatorDesc, (X, [0], 4, [1]), r"sizes must be a list of whole numbers, got 4; write \[4\]"),
            )
        ),
    ],
)
def test_wrong_types(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(TypeError, match=f"^{sentence}$"):
        make()


def test_json_has_no_more_than_it_needs() -> None:
    tensor = TensorDesc(
        F32,
        [2],
        strides=[2],
        flags=TensorFlags.OWNED_BY_DML,
        total_tensor_size_in_bytes=16,
        guaranteed_base_offset_alignment=4,
    )
    assert X.to_json() == {"DataType": "FLOAT32", "Sizes": [4, 6]}
    assert tensor.to_json() == {
        "DataType": "FLOAT32",
        "Sizes": [2],
        "Flags": "OWNED_BY_DML",
        "Strides": [2],
        "TotalTensorSizeInBytes": 16,
        "GuaranteedBaseOffsetAlignment": 4,
    }
    assert TensorDesc.from_json(tensor.to_json()) == tensor
    odd = TensorDesc(F32, [2], dimension_count=7)  # invalid, and still the same after a round trip
    assert TensorDesc.from_json(odd.to_json()) == odd
    assert VALID["SLICE1"].to_json() == {
        "type": "DML_OPERATOR_SLICE1",
        "desc": {
            "InputTensor": {"DataType": "FLOAT32", "Sizes": [4, 6]},
            "OutputTensor": {"DataType": "FLOAT32", "Sizes": [2, 3]},
            "DimensionCount": 2,
            "InputWindowOffsets": [0, 1],
            "InputWindowSizes": [4, 5],
            "InputWindowStrides": [-2, 2],
        },
    }


def test_from_json_takes_every_form() -> None:
    long = {
        "Type": "DML_TENSOR_TYPE_BUFFER",
        "Desc": {
            "DataType": "DML_TENSOR_DATA_TYPE_FLOAT32",
            "Flags": "DML_TENSOR_FLAG_NONE",
            "DimensionCount": 2,
            "Sizes": [4, 6],
            "Strides": None,
            "TotalTensorSizeInBytes": 96,
            "GuaranteedBaseOffsetAlignment": 0,
        },
    }
    assert TensorDesc.from_json(long) == X
    assert TensorDesc.from_json(long | {"Type": "BUFFER"}) == X
    json = VALID["JOIN"].to_json()
    assert JoinOperatorDesc.from_json(json | {"type": "JOIN", "dmlCompileType": "DmlCompileGraph"}) == VALID["JOIN"]


def with_scale_bias(value: object) -> dict[str, Any]:
    json = VALID["ELEMENT_WISE_IDENTITY"].to_json()
    return {"type": json["type"], "desc": json["desc"] | {"ScaleBias": value}}


def test_scale_bias_of_an_identity_may_be_absent_or_null() -> None:
    desc = VALID["ELEMENT_WISE_IDENTITY"]
    assert "ScaleBias" not in desc.to_json()["desc"]
    assert OperatorDesc.from_json(desc.to_json()) == OperatorDesc.from_json(with_scale_bias(None)) == desc
    with pytest.raises(
        TypeError, match=r": scale_bias must be None, got tuple; elements are copied here, not computed$"
    ):
        dataclasses.replace(desc, scale_bias=(2.0, 10.0))  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("read", "problems"),
    [
        (lambda: TensorDesc.from_json([]), ["$ must be an object, got []"]),
        (
            lambda: TensorDesc.from_json({"DataType": "FLOAT31", "Sizes": [1, "2", 2.0, True]}),
            [f"$.Sizes[{k}] must be a whole number, got {got}" for k, got in ((1, "'2'"), (2, "2.0"), (3, "true"))],
        ),
        (
            lambda: TensorDesc.from_json({"DataType": "FLOAT31", "Sizes": [1], "Flags": "SOME"}),
            [
                "$.DataType must be one of UNKNOWN, FLOAT32, FLOAT16, UINT32, UINT16, UINT8, INT32, INT16, INT8, FLOAT64, "
                "UINT64, INT64, UINT4, INT4, got 'FLOAT31'",
                "$.Flags must be one of NONE, OWNED_BY_DML, got 'SOME'",
            ],
        ),
        (
            lambda: TensorDesc.from_json({"Type": "TEXTURE", "Desc": {}}),
            [
                "$.Type must be DML_TENSOR_TYPE_BUFFER, got 'TEXTURE'",
                "$.Desc.DataType is required",
                "$.Desc.Sizes is required",
            ],
        ),
        (
            lambda: TensorDesc.from_json({"Type": 1, 2: 3, "DataType": "INT4", "Sizes": [4], "Flags": "SOME"}),
            [
                "$.Type must be DML_TENSOR_TYPE_BUFFER, got 1",
                "$ must have strings as keys, got 2",
                "$.Flags must be one of NONE, OWNED_BY_DML, got 'SOME'",
            ],
        ),
        (
            lambda: SplitOperatorDesc.from_json(VALID["JOIN"].to_json()),
            ["$.type must be DML_OPERATOR_SPLIT, got 'JOIN'"],
        ),
        (
            lambda: OperatorDesc.from_json({"type": "DML_OPERATOR_GEMM", "desc": {}}),
            [
                "$ is the operator 'GEMM', which is not run here; the operators SLICE, SLICE1, SPLIT, JOIN, "
                "REVERSE_SUBSEQUENCES, SLICE_GRAD and ELEMENT_WISE_IDENTITY are"
            ],
        ),
        (
            lambda: OperatorDesc.from_json({"type": "SPLIT", "desc": {"Axis": "0", "OutputTensors": [{}]}}),
            [
                "$.desc.InputTensor is required",
                "$.desc.OutputCount is required",
                "$.desc.Axis must be a whole number, got '0'",
            ],
        ),
        (
            lambda: OperatorDesc.from_json(with_scale_bias({"Scale": 2, "Bias": 10})),
            ["$.desc.ScaleBias must be absent or null, as elements are copied here, not computed, got an object"],
        ),
    ],
)
def test_json_of_another_structure(read: Callable[[], object], problems: list[str]) -> None:
    with pytest.raises(ModelError) as caught:
        read()
    assert [str(problem) for problem in caught.value.problems] == problems
    assert str(caught.value) == "\n".join(problems)


# TensorDesc on tensors and buffers.


def test_data_types_are_torch_dtypes() -> None:
    for data_type in DATA_TYPES:
        assert TensorDataType.of(data_type.dtype) is data_type
        assert data_type.size_in_bytes == int(re.sub(r"\D", "", data_type.name)) // 8
        assert TensorDataType.parse(f"DML_TENSOR_DATA_TYPE_{data_type.name}") is data_type
    for dtype in (torch.bool, torch.bfloat16, torch.complex64):
        rule = rf"must be one that DirectML has \(float32, .*, int64\), got {str(dtype).removeprefix('torch.')}$"
        with pytest.raises(ValueError, match=f"^TensorDataType.of: dtype {rule}"):
            TensorDataType.of(dtype)
        with pytest.raises(ValueError, match=f"^TensorDesc.from_tensor: the dtype of tensor {rule}"):
            TensorDesc.from_tensor(torch.zeros(1, dtype=dtype))


def test_from_tensor() -> None:
    x = torch.zeros(2, 3, 4, dtype=torch.uint16, device="cpu")
    assert TensorDesc.from_tensor(x) == TensorDesc(TensorDataType.UINT16, [2, 3, 4])
    assert TensorDesc.from_tensor(x[:, ::2]).strides == (12, 8, 1)
    assert TensorDesc.from_tensor(x[:1].expand(5, 3, 4)).strides == (0, 4, 1)
    with_options = TensorDesc.from_tensor(x, flags=TensorFlags.OWNED_BY_DML, guaranteed_base_offset_alignment=16)
    assert (with_options.flags, with_options.guaranteed_base_offset_alignment) == (TensorFlags.OWNED_BY_DML, 16)


@pytest.mark.parametrize(
    ("sizes", "strides", "data_type", "least"),
    [
        ([3], None, I8, 4),
        ([4], None, I8, 4),
        ([5], None, I8, 8),
        ([2, 3], None, F16, 12),
        ([2, 3], [5, 1], F16, 16),
        ([2, 3], [0, 1], F16, 8),
        ([2, 3], [0, 0], F16, 4),
        ([65536, 65536], None, F32, 2**34),
        ([2, 2], [2**32 - 1, 2**32 - 1], UINT64, (2 * (2**32 - 1) + 1) * 8),
    ],
)
def test_minimum_size(sizes: list[int], strides: list[int] | None, data_type: TensorDataType, least: int) -> None:
    desc = TensorDesc(data_type, sizes, strides=strides)
    assert desc.minimum_size_in_bytes == desc.total_tensor_size_in_bytes == least


def test_view_shares_the_buffer() -> None:
    buffer = torch.zeros(64, dtype=torch.uint8, device="cpu")
    view = TensorDesc(TensorDataType.INT16, [2, 3], strides=[5, 1]).view(buffer[4:])
    assert (view.dtype, view.shape, view.stride()) == (torch.int16, (2, 3), (5, 1))
    view.fill_(-1)
    assert buffer.nonzero().flatten().tolist() == [*range(4, 10), *range(14, 20)]
    broadcast = TensorDesc(TensorDataType.INT16, [4, 2], strides=[0, 1]).view(buffer[8:])
    assert broadcast.tolist() == [[-1, 0]] * 4
    assert broadcast.untyped_storage().data_ptr() == buffer.untyped_storage().data_ptr()


@pytest.mark.parametrize(
    ("buffer", "sentence"),
    [
        (lambda: torch.zeros(7, dtype=torch.uint8), "must have at least 8 bytes, got 7"),
        (lambda: torch.zeros(64), "must be a 1-D contiguous uint8 tensor, got sizes [64] and dtype float32"),
        (
            lambda: torch.zeros(8, 8, dtype=torch.uint8),
            "must be a 1-D contiguous uint8 tensor, got sizes [8, 8] and dtype uint8",
        ),
        (
            lambda: torch.zeros(64, dtype=torch.uint8)[::2],
            "must be a 1-D contiguous uint8 tensor, got sizes [32] and dtype uint8",
        ),
        (
            lambda: torch.zeros(64, dtype=torch.uint8)[2:],
            "must begin at a multiple of 4 bytes, the size of FLOAT32, got an offset of 2",
        ),
    ],
)
def test_buffers_that_cannot_be_viewed(buffer: Callable[[], torch.Tensor], sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(f'TensorDesc.view: buffer {sentence}')}$"):
        TensorDesc(F32, [2]).view(buffer())


def test_a_description_that_breaks_rules_is_not_viewed() -> None:
    with pytest.raises(
        DescriptorError, match=r"^TensorDesc breaks a rule:\n  strides\[0\] must be from 0 to \d+, got -1$"
    ):
        TensorDesc(F32, [2], strides=[-1]).view(torch.zeros(64, dtype=torch.uint8))


# What stands beside the rules.


def test_a_level_without_the_operator_names_what_else_is_too_new() -> None:
    x = TensorDesc(TensorDataType.FLOAT64, [1] * 5)
    desc = op_desc("SPLIT", x, [x], 0)
    window = {name: [1] * 5 for name in ("input_window_sizes", "input_window_strides")}
    slice1 = Slice1OperatorDesc(input_tensor=x, output_tensor=x, input_window_offsets=[0] * 5, **window)
    assert [v.split("; ")[-1] for v in broken(slice1, FeatureLevel.LEVEL_1_0)] == [
        "allowed from feature level 2_1",
        *["allowed from feature level 4_1"] * 2,
    ]
    assert len(broken(desc, FeatureLevel.LEVEL_1_0)) == 4


def test_inferred_outputs_are_valid_at_the_newest_level() -> None:
    lengths = TensorDesc(F32, [4, 1])
    with pytest.raises(DescriptorError, match=r"sequence_lengths_tensor.data_type must be one of UINT32, UINT64"):
        ReverseSubsequencesOperatorDesc.infer_output(X, lengths, 1)
    with pytest.raises(DescriptorError, match=r"dimension_count must be from 1 to 8"):
        SplitOperatorDesc.infer_output(TensorDesc(F32, [1] * 9), 0, [1])


def test_flags_that_do_not_exist() -> None:
    with pytest.raises(ValueError, match=r"^TensorFlags must be the number of a member \(NONE, OWNED_BY_DML\), got 2$"):
        TensorFlags(2)


def test_largest_numbers() -> None:
    at_most, over = 2**32 - 1, 2**32
    for stride, right in ((at_most, True), (over, False)):
        desc = op_desc("SLICE", X, TensorDesc(F32, [1, 1]), [0, 0], [1, 1], [1, stride])
        assert (broken(desc) == []) == right
    for total, right in ((2**64 - 4, True), (2**64, False)):
        assert (list(TensorDesc(F32, [1], total_tensor_size_in_bytes=total).violations()) == []) == right


# The arguments of TensorDesc in the order of pydirectml and DirectMLX: data type, flags, sizes.


@pytest.mark.parametrize(
    "sizes",
    [
        TensorFlags.NONE,
        TensorFlags.OWNED_BY_DML,
        TensorDataType.INT8,
        TensorDataType,
        True,
        4,
        np.int64(4),
        torch.tensor(4),
    ],
    ids=repr,
)
def test_what_is_no_list_of_sizes(sizes: Any) -> None:
    with pytest.raises(TypeError, match=r"^TensorDesc: sizes must be a list of whole numbers, got "):
        TensorDesc(F32, sizes)


def test_what_follows_the_sizes_has_to_be_named() -> None:
    make: Any = TensorDesc
    for more in ([4], [TensorFlags.NONE], [[1], TensorFlags.NONE]):
        with pytest.raises(TypeError, match=r"takes 3 positional arguments but"):
            make(F32, [4], *more)
    with pytest.raises(TypeError, match=r"takes 3 positional arguments but"):
        make(F32, TensorFlags.OWNED_BY_DML, [4])


def test_the_types_of_lengths_are_not_taken_for_those_of_tensors() -> None:
    make: Any = Support
    with pytest.raises(TypeError, match=r"takes 3 positional arguments but 4 were given"):
        make(range(1, 9), [F32], [UINT64])


# The limits of a tensor itself.


@pytest.mark.parametrize("rank", range(11))
def test_dimension_counts(rank: int) -> None:
    tensor = TensorDesc(F32, [1] * rank)
    rules = [str(violation) for violation in tensor.violations(("x",))]
    assert rules == ([] if 1 <= rank <= 8 else [f"x.dimension_count must be from 1 to 8, got {rank}"])
    if rules:
        with pytest.raises(
            DescriptorError, match=rf"^TensorDesc breaks a rule:\n  dimension_count must .*, got {rank}$"
        ):
            tensor.view(torch.zeros(4, dtype=torch.uint8))
    else:
        assert tensor.view(torch.zeros(4, dtype=torch.uint8)).shape == (1,) * rank


@pytest.mark.parametrize(
    ("sizes", "strides", "places"),
    [
        ([2**32 - 1], None, 2**32 - 1),
        ([65536, 65536], None, 2**32),
        ([65535, 65537], None, 2**32 - 1),
        ([65536, 65536], [0, 0], 1),  # repeated, and so one element in memory
        ([65536, 65536], [0, 1], 65536),
        ([65536, 65536], [65536, 1], 2**32),
        ([2], [2**32 - 2], 2**32 - 1),
        ([2], [2**32 - 1], 2**32),  # two elements, too far from each other
        ([2, 2], [2**31, 2**31 - 2], 2**32 - 1),
        ([2, 2], [2**31, 2**31 - 1], 2**32),
    ],
)
@pytest.mark.parametrize("data_type", [I8, F32, UINT64], ids=lambda t: t.name)
def test_elements_up_to_the_last_one(
    sizes: list[int], strides: list[int] | None, places: int, data_type: TensorDataType
) -> None:
    tensor = TensorDesc(data_type, sizes, strides=strides)
    assert tensor.items_up_to_last == places
    field = "sizes" if strides is None else "strides"
    expected = [] if places < 2**32 else [f"{field} must reach over at most 4294967295 elements, got {places}"]
    assert [str(violation) for violation in tensor.violations()] == expected


@pytest.mark.parametrize(("count", "least"), [(1, 4), (8, 4), (9, 8), (16, 8), (17, 12)])
def test_tensors_of_four_bits(count: int, least: int) -> None:
    for name in FOUR_BITS:
        tensor = TensorDesc(TensorDataType.parse(name), [count])
        assert tensor.minimum_size_in_bytes == least
        assert list(tensor.violations()) == []
        with pytest.raises(
            ValueError, match=rf"^TensorDesc.view: the data type must be one that torch has, got {name}$"
        ):
            tensor.view(torch.zeros(64, dtype=torch.uint8))
        assert TensorDesc.from_json(tensor.to_json()) == tensor


def test_an_unknown_data_type_is_never_right() -> None:
    unknown = TensorDesc(TensorDataType.UNKNOWN, [4])
    assert list(map(str, unknown.violations())) == ["data_type must be a known type, got UNKNOWN"]
    sentences = broken(op_desc("SPLIT", unknown, [unknown], 0))
    assert sentences == [
        f"{name}.data_type must be a known type, got UNKNOWN" for name in ("input_tensor", "output_tensors[0]")
    ]


@every_op
def test_only_inputs_are_owned_by_directml(op: str) -> None:
    desc = VALID[op]
    for path, tensor in (*desc.inputs(), *desc.outputs()):
        changed = with_tensor(desc, path, dataclasses.replace(tensor, flags=TensorFlags.OWNED_BY_DML))
        sentence = f"{dotted(path)}.flags must be NONE, as only inputs can be owned by DirectML, got OWNED_BY_DML"
        assert broken(changed) == ([sentence] if path[0] in desc.output_fields else [])


# Violations name fields in the words of their reader.


@pytest.mark.parametrize(
    ("op", "changes", "in_python", "in_json"),
    [
        (
            "SLICE1",
            {"input_window_offsets": [1, 1]},
            "input_window_offsets[0] plus input_window_sizes[0] must be at most 4, the size of input_tensor there, got 1 + 4",
            "InputWindowOffsets[0] plus InputWindowSizes[0] must be at most 4, the size of InputTensor there, got 1 + 4",
        ),
        (
            "SLICE",
            {"offsets": [2, 0]},
            "offsets[0] plus (sizes[0] - 1) * strides[0] must be less than 4, the size of input_tensor there, got 2 + 1 * 2",
            "Offsets[0] plus (Sizes[0] - 1) * Strides[0] must be less than 4, the size of InputTensor there, got 2 + 1 * 2",
        ),
        (
            "JOIN",
            {"output_tensor": TensorDesc(F16, [4, 6])},
            "output_tensor.data_type must be FLOAT32, that of input_tensors[0], got FLOAT16",
            "OutputTensor.DataType must be FLOAT32, that of InputTensors[0], got FLOAT16",
        ),
    ],
)
def test_fields_in_python_and_in_json(op: str, changes: dict[str, Any], in_python: str, in_json: str) -> None:
    desc = dataclasses.replace(VALID[op], **changes)
    with pytest.raises(DescriptorError) as caught:
        desc.validate()
    violation = caught.value.violations[0]
    assert str(violation) == in_python
    dispatchable = Cursor(desc.to_json())
    note_violation(violation, dispatchable)
    assert [str(problem) for problem in dispatchable.problems] == [f"$.desc.{in_json}"]


def test_rules_are_strings_or_parts() -> None:
    parts = Violation(("x",), ["must be that of ", ("y", 1), ", a field"], 3)
    assert str(parts) == "x must be that of y[1], a field, got 3"
    assert hash(parts) == hash(Violation(("x",), ("must be that of ", ("y", 1), ", a field"), 3))
    make: Any = Violation
    with pytest.raises(TypeError, match=r"^Violation: rule must be a string, or a tuple of strings and paths, got 3$"):
        make(("x",), 3, 3)
    with pytest.raises(TypeError, match=r"^Violation: rule\[1\] must be a tuple of names and indices, got 1.5$"):
        make(("x",), ["must be", 1.5], 3)
