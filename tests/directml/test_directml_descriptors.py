"""DirectML's rules: what each feature level supports, and every constraint that its texts state."""

import copy
import dataclasses
import itertools
import math
import operator
import pickle
import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch
from descriptors.cases import DATA_TYPES, DESCS, OPERATORS, arguments_of_infer_output, descs, dotted, op_desc, plain
from descriptors.rules import (
    CONSTRAINTS,
    F16,
    F32,
    I8,
    INFERRED_FROM_BAD,
    VALID,
    X,
    broken,
    broken_fields,
    broken_tensors,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import as_list
from transform_cases import EXAMPLES, examples

from torch_dml_ops import directml
from torch_dml_ops.directml import DescriptorError, FeatureLevel, OperatorDesc, TensorDataType, TensorDesc, TensorFlags
from torch_dml_ops.directml._descriptors.base import note_violation
from torch_dml_ops.directml._schema.json_documents import Cursor
from torch_dml_ops.directml.tensor_desc import packed_strides

every_op = pytest.mark.parametrize("op", OPERATORS)
every_level = pytest.mark.parametrize("level", list(FeatureLevel), ids=str)


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


@every_level
@every_op
def test_support(op: str, level: FeatureLevel) -> None:
    cell = cells(op)[str(level)]
    support = directml.check_support(f"DML_OPERATOR_{op}", level)
    if cell is None:
        assert support is None
        rule = f"operator_type must be an operator of feature level {level}, got {op}"
        assert broken(plain(op, 4, F32), level) == [rule + since(op, lambda _: True)]
        return
    least, most, types, lengths = cell
    data_types, length_types = ([TensorDataType[name] for name in names] for names in (types, lengths))
    assert support == directml.Support(range(least, most + 1), data_types, length_types=length_types)
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


def test_the_documents_have_the_table() -> None:
    before, table, _ = (
        (Path(__file__).parents[2] / "docs" / "from-directml.md").read_text().partition(directml.support_table())
    )
    assert table, "docs/from-directml.md must have what this prints: print(directml.support_table())"
    assert {*re.findall(r"\bT\d+", table)} <= {*re.findall(r"\bT\d+", before)}, "a set of data types is not explained"


def test_table_says_what_the_levels_support() -> None:
    header, _, *rows = (line.strip("| ").split(" | ") for line in directml.support_table().splitlines())
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


@pytest.mark.parametrize("d", [0, 1])
@every_op
def test_one_rule_broken_and_no_other(op: str, d: int) -> None:
    """And the sentence on it where the descriptor was read from JSON: with the names there in the place of ours."""
    for rule in (*broken_tensors(VALID[op], d), *broken_fields(VALID[op], d)):
        desc = rule.of(VALID[op])
        sentences = broken(desc)
        assert {*rule.sentences} <= {*sentences} if rule.more else sentences == rule.sentences
        assert OperatorDesc.from_json(desc.to_json()) == desc
        dispatchable = Cursor(desc.to_json())
        for violation in violations_of(desc):
            note_violation(violation, dispatchable)
        in_json = [str(problem) for problem in dispatchable.problems]
        assert [s.replace("_", "").lower() for s in in_json] == [
            f"$.desc.{s.replace('_', '').lower()}" for s in sentences
        ]
        assert not [s for s in in_json if re.search(r"[a-z]_[a-z]|\b[a-z]\w*\[|^\$\.desc\.[a-z]", s)]


@pytest.mark.parametrize(
    ("op", "changes", "sentences"),
    [pytest.param(*row, id=f"{row[0]} {(row[2] or ['is valid'])[0]}") for row in CONSTRAINTS],
)
def test_constraint(op: str, changes: dict[str, Any], sentences: list[str]) -> None:
    desc = dataclasses.replace(VALID[op], **changes)
    assert broken(desc) == sentences
    assert OperatorDesc.from_json(desc.to_json()) == desc


@pytest.mark.parametrize("op", ["SLICE", "SLICE1", "SLICE_GRAD"])
def test_every_dimension_that_breaks_a_rule_is_listed(op: str) -> None:
    """Of two dimensions in which it is broken, each is named as where it is broken alone."""
    for first, second in zip(*(broken_fields(VALID[op], d) for d in (0, 1)), strict=True):
        (field, entries), *_ = first.changes.items()
        if first.sentences[0].startswith(f"{field}[0] "):
            both = dataclasses.replace(VALID[op], **{field: [entries[0], second.changes[field][1]]})
            assert sorted(broken(both)) == sorted(broken(first.of(VALID[op])) + broken(second.of(VALID[op])))


def test_every_rule_that_is_broken_is_listed() -> None:
    desc = op_desc(
        "SLICE1",
        TensorDesc(TensorDataType.FLOAT64, [4, 6], guaranteed_base_offset_alignment=4),
        TensorDesc(TensorDataType.FLOAT64, [3, 3]),
        [0, 9],
        [4, 0],
        [2, 0],
    )
    assert [sentence.partition(" must ")[0] for sentence in broken(desc, FeatureLevel.LEVEL_2_1)] == [
        *(
            f"{tensor}.{field}"
            for tensor in ("input_tensor", "output_tensor")
            for field in ("dimension_count", "data_type")
        ),
        *("input_tensor.guaranteed_base_offset_alignment", "input_window_sizes[1]", "input_window_strides[1]"),
        *("input_window_offsets[1] plus input_window_sizes[1]", "output_tensor.sizes[0]"),
    ]


def violations_of(desc: OperatorDesc, level: FeatureLevel = FeatureLevel.NEWEST) -> tuple[directml.Violation, ...]:
    with pytest.raises(DescriptorError) as caught:
        desc.validate(level)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.violations) == (str(caught.value), caught.value.violations)
    return caught.value.violations


def test_violation_says_field_index_value_and_level() -> None:
    first, second, *_ = violations_of(plain("SPLIT", 1, F32), FeatureLevel.LEVEL_2_1)
    assert first.path == ("input_tensor", "dimension_count")
    assert (first.value, first.allowed_from) == (1, FeatureLevel.LEVEL_3_0)
    assert second.path == ("output_tensors", 0, "dimension_count")


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
@examples
@given(st.data())
def test_random_descriptors(op: str, data: st.DataObject) -> None:
    """Valid ones, which stay the same in JSON, and one rule broken, which is told."""
    desc = data.draw(descs(op))
    assert broken(desc) == []
    json = desc.to_json()
    assert json["type"] == f"DML_OPERATOR_{op}"
    again = OperatorDesc.from_json(copy.deepcopy(json))
    assert DESCS[op].from_json(json) == again == desc
    assert hash(again) == hash(desc)
    d = data.draw(st.integers(0, len(desc.inputs()[0][1].sizes) - 1))
    rule = data.draw(st.sampled_from([*broken_tensors(desc, d), *broken_fields(desc, d)]))
    assert {*rule.sentences} <= {*broken(rule.of(desc))}


# infer_output.


@every_op
@settings(examples, max_examples=EXAMPLES // 3)
@given(st.data())
def test_inferred_outputs(op: str, data: st.DataObject) -> None:
    """They are valid, and lie as the policy says, which is asked once for each."""
    desc: Any = data.draw(descs(op))
    arguments, seen = arguments_of_infer_output(desc), []
    chosen = {"total_tensor_size_in_bytes": 2**21, "guaranteed_base_offset_alignment": 64}

    def choose(data_type: TensorDataType, flags: TensorFlags, sizes: tuple[int, ...]) -> directml.TensorProperties:
        seen.append((data_type, flags, sizes))
        return directml.TensorProperties([2 * s for s in packed_strides(sizes)], **chosen)

    (field,) = desc.output_fields
    packed, laid_out = (
        DESCS[op].infer_output(**arguments, **more) for more in ({}, {"tensor_policy": directml.TensorPolicy(choose)})
    )
    for inferred in (packed, laid_out):
        assert broken(dataclasses.replace(desc, **{field: inferred})) == []
    sizes = [t.sizes for t in as_list(getattr(desc, field))]
    if op == "SLICE1":  # whose descriptor may take fewer steps
        steps = zip(desc.input_window_sizes, desc.input_window_strides, strict=True)
        sizes = [tuple(1 + (size - 1) // abs(stride) for size, stride in steps)]
    assert [t.sizes for t in as_list(packed)] == sizes
    assert seen == [(t.data_type, TensorFlags.NONE, t.sizes) for t in as_list(packed)]
    for tensor, other in zip(as_list(laid_out), as_list(packed), strict=True):
        assert tensor == dataclasses.replace(other, strides=[2 * s for s in other.packed_strides], **chosen)


@pytest.mark.parametrize(("infer", "sentences"), INFERRED_FROM_BAD)
def test_nothing_is_inferred_from_bad_arguments(infer: Callable[[], object], sentences: list[str]) -> None:
    with pytest.raises(DescriptorError) as caught:
        infer()
    assert [str(violation) for violation in caught.value.violations] == sentences


# Making descriptors, showing them, and their JSON.


FULL = TensorDesc(
    F16,
    [2, 3],
    **{"strides": [4, 1], "flags": TensorFlags.OWNED_BY_DML, "total_tensor_size_in_bytes": 32},  # type: ignore[arg-type]
    **{"guaranteed_base_offset_alignment": 16, "dimension_count": 3},
)


def test_repr() -> None:
    assert repr(TensorDesc(F32, (2, 3))) == "TensorDesc(FLOAT32, [2, 3])"
    assert repr(FULL) == (
        "TensorDesc(FLOAT16, [2, 3], strides=[4, 1], flags=OWNED_BY_DML, total_tensor_size_in_bytes=32, "
        "guaranteed_base_offset_alignment=16, dimension_count=3)"
    )
    assert repr(VALID["SPLIT"]) == (
        "SplitOperatorDesc(input_tensor=TensorDesc(FLOAT32, [4, 6]), output_count=2, "
        "output_tensors=[TensorDesc(FLOAT32, [4, 2]), TensorDesc(FLOAT32, [4, 4])], axis=1)"
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


def test_descriptors_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        VALID["SPLIT"].axis = 0  # type: ignore[attr-defined]
    with pytest.raises(dataclasses.FrozenInstanceError):
        X.sizes = (1,)  # type: ignore[misc]


def test_json_has_no_more_than_it_needs() -> None:
    assert X.to_json() == {"DataType": "FLOAT32", "Sizes": [4, 6]}
    assert FULL.to_json() == {
        **{"DataType": "FLOAT16", "Sizes": [2, 3], "Strides": [4, 1], "Flags": "OWNED_BY_DML", "DimensionCount": 3},
        **{"TotalTensorSizeInBytes": 32, "GuaranteedBaseOffsetAlignment": 16},
    }
    assert TensorDesc.from_json(FULL.to_json()) == FULL  # which is invalid
    walk = {"InputWindowOffsets": [0, 1], "InputWindowSizes": [4, 5], "InputWindowStrides": [-2, 2]}
    tensors = {"InputTensor": X.to_json(), "OutputTensor": {"DataType": "FLOAT32", "Sizes": [2, 3]}}
    desc = {**tensors, "DimensionCount": 2, **walk}
    assert VALID["SLICE1"].to_json() == {"type": "DML_OPERATOR_SLICE1", "desc": desc}


def test_scale_bias_of_an_identity_may_be_absent_or_null() -> None:
    desc = VALID["ELEMENT_WISE_IDENTITY"]
    assert "ScaleBias" not in desc.to_json()["desc"]
    json = desc.to_json()
    json["desc"]["ScaleBias"] = None
    assert OperatorDesc.from_json(json) == desc


# TensorDesc on tensors and buffers.


def test_data_types_are_torch_dtypes() -> None:
    for data_type in DATA_TYPES:
        assert TensorDataType.of(data_type.dtype) is data_type
        assert data_type.size_in_bytes == int(re.sub(r"\D", "", data_type.name)) // 8
        assert TensorDataType.parse(f"DML_TENSOR_DATA_TYPE_{data_type.name}") is data_type


def test_from_tensor() -> None:
    x = torch.zeros(2, 3, 4, dtype=torch.uint16, device="cpu")
    assert TensorDesc.from_tensor(x) == TensorDesc(TensorDataType.UINT16, [2, 3, 4])
    assert TensorDesc.from_tensor(x[:, ::2]).strides == (12, 8, 1)
    assert TensorDesc.from_tensor(x[:1].expand(5, 3, 4)).strides == (0, 4, 1)
    with_options = TensorDesc.from_tensor(x, flags=TensorFlags.OWNED_BY_DML, guaranteed_base_offset_alignment=16)
    assert (with_options.flags, with_options.guaranteed_base_offset_alignment) == (TensorFlags.OWNED_BY_DML, 16)


def test_view_shares_the_buffer() -> None:
    buffer = torch.zeros(64, dtype=torch.uint8, device="cpu")
    view = TensorDesc(TensorDataType.INT16, [2, 3], strides=[5, 1]).view(buffer[4:])
    assert (view.dtype, view.shape, view.stride()) == (torch.int16, (2, 3), (5, 1))
    view.fill_(-1)
    assert buffer.nonzero().flatten().tolist() == [*range(4, 10), *range(14, 20)]
    broadcast = TensorDesc(TensorDataType.INT16, [4, 2], strides=[0, 1]).view(buffer[8:])
    assert broadcast.tolist() == [[-1, 0]] * 4
    assert broadcast.untyped_storage().data_ptr() == buffer.untyped_storage().data_ptr()


# What stands beside the rules.


def test_a_level_without_the_operator_names_what_else_is_too_new() -> None:
    x = TensorDesc(TensorDataType.FLOAT64, [1] * 5)
    desc = op_desc("SPLIT", x, [x], 0)
    slice1 = op_desc("SLICE1", x, x, [0] * 5, [1] * 5, [1] * 5)
    assert [v.split("; ")[-1] for v in broken(slice1, FeatureLevel.LEVEL_1_0)] == [
        "allowed from feature level 2_1",
        *["allowed from feature level 4_1"] * 2,
    ]
    assert len(broken(desc, FeatureLevel.LEVEL_1_0)) == 4


def test_largest_numbers() -> None:
    at_most, over = 2**32 - 1, 2**32
    for stride, right in ((at_most, True), (over, False)):
        desc = op_desc("SLICE", X, TensorDesc(F32, [1, 1]), [0, 0], [1, 1], [1, stride])
        assert (broken(desc) == []) == right
    for total, right in ((2**64 - 4, True), (2**64, False)):
        assert (list(TensorDesc(F32, [1], total_tensor_size_in_bytes=total).violations()) == []) == right


ELEMENTS: list[tuple[list[int], list[int] | None, int]] = [  # sizes, strides, and places from the first to the last
    *(([count], None, count) for count in (1, 3, 4, 5, 8, 9, 16, 17, 2**32 - 1)),
    ([2, 3], None, 6),
    ([2, 3], [5, 1], 8),
    ([2, 3], [0, 1], 3),
    ([2, 3], [0, 0], 1),
    ([65536, 65536], None, 2**32),
    ([65535, 65537], None, 2**32 - 1),
    ([65536, 65536], [0, 0], 1),  # repeated, and so one element in memory
    ([65536, 65536], [0, 1], 65536),
    ([65536, 65536], [65536, 1], 2**32),
    ([2], [2**32 - 2], 2**32 - 1),
    ([2], [2**32 - 1], 2**32),  # two elements, too far from each other
    ([2, 2], [2**31, 2**31 - 2], 2**32 - 1),
    ([2, 2], [2**31, 2**31 - 1], 2**32),
    ([2, 2], [2**32 - 1, 2**32 - 1], 2**33 - 1),
    ([2, 3], [1, 2**32 - 1], 2**33),
]


@pytest.mark.parametrize(("sizes", "strides", "places"), ELEMENTS)
@pytest.mark.parametrize("data_type", KNOWN, ids=lambda t: t.name)
def test_elements_up_to_the_last_one(
    sizes: list[int], strides: list[int] | None, places: int, data_type: TensorDataType
) -> None:
    tensor = TensorDesc(data_type, sizes, strides=strides)
    assert tensor.items_up_to_last == places
    of_32_bits = math.ceil(Fraction(places * int(re.sub(r"\D", "", data_type.name)), 32))
    assert tensor.minimum_size_in_bytes == tensor.total_tensor_size_in_bytes == of_32_bits * 4
    field = "sizes" if strides is None else "strides"
    expected = [] if places < 2**32 else [f"{field} must reach over at most 4294967295 elements, got {places}"]
    assert [str(violation) for violation in tensor.violations()] == expected
    assert TensorDesc.from_json(tensor.to_json()) == tensor
    for d in range(len(sizes)):  # what it would reach over means nothing then
        tensor = TensorDesc(data_type, [*sizes[:d], 0, *sizes[d + 1 :]], strides=strides)
        assert [str(violation) for violation in tensor.violations()] == [
            f"sizes[{d}] must be from 1 to 4294967295, got 0"
        ]


def test_an_unknown_data_type_is_never_right() -> None:
    unknown = TensorDesc(TensorDataType.UNKNOWN, [4])
    assert list(map(str, unknown.violations())) == ["data_type must be a known type, got UNKNOWN"]
    sentences = broken(op_desc("SPLIT", unknown, [unknown], 0))
    assert sentences == [
        f"{name}.data_type must be a known type, got UNKNOWN" for name in ("input_tensor", "output_tensors[0]")
    ]


def test_rules_are_strings_or_parts() -> None:
    parts = directml.Violation(("x",), ["must be that of ", ("y", 1), ", a field"], 3)
    assert str(parts) == "x must be that of y[1], a field, got 3"
    assert hash(parts) == hash(directml.Violation(("x",), ("must be that of ", ("y", 1), ", a field"), 3))
