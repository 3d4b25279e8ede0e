"""What each feature level supports: DirectML's tables as data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from torch_dml_ops.directml._schema.arguments import instance, string
from torch_dml_ops.directml._schema.in_sentences import as_json
from torch_dml_ops.directml._schema.structs import Struct
from torch_dml_ops.directml.enums import FeatureLevel, OperatorType, TensorDataType

T = TensorDataType
L = FeatureLevel

_T2 = (T.FLOAT32, T.FLOAT16)
_T6 = (T.FLOAT32, T.FLOAT16, T.INT32, T.INT16, T.UINT32, T.UINT16)
_T8 = (*_T6, T.INT8, T.UINT8)
_T11 = (*_T8, T.FLOAT64, T.INT64, T.UINT64)


@dataclass(frozen=True)
class Support(Struct):
    """What an operator takes at a feature level.

    Attributes:
        dimension_counts: of its tensors.
        data_types: of its tensors but the sequence lengths.
        length_types: of the sequence lengths, where it has them.
    """

    dimension_counts: range
    data_types: tuple[TensorDataType, ...]
    length_types: tuple[TensorDataType, ...] = field(default=(), kw_only=True)


# By operator, the levels at which something changes. The page of JOIN has no row for 3_1 and the feature level history
# has one: the history holds.
_SUPPORT: dict[str, dict[FeatureLevel, Support]] = {
    "SLICE": {
        L.LEVEL_1_0: Support(range(4, 6), _T6),
        L.LEVEL_2_1: Support(range(4, 6), _T8),
        L.LEVEL_3_0: Support(range(1, 9), _T8),
        L.LEVEL_4_1: Support(range(1, 9), _T11),
    },
    "SLICE1": {
        L.LEVEL_2_1: Support(range(4, 6), _T8),
        L.LEVEL_3_0: Support(range(1, 9), _T8),
        L.LEVEL_4_1: Support(range(1, 9), _T11),
    },
    "SPLIT": {
        L.LEVEL_1_0: Support(range(4, 5), _T6),
        L.LEVEL_2_1: Support(range(4, 5), _T8),
        L.LEVEL_3_0: Support(range(1, 9), _T8),
        L.LEVEL_4_1: Support(range(1, 9), _T11),
    },
    "JOIN": {
        L.LEVEL_1_0: Support(range(4, 5), _T6),
        L.LEVEL_2_1: Support(range(4, 5), _T8),
        L.LEVEL_3_0: Support(range(4, 6), _T8),
        L.LEVEL_3_1: Support(range(1, 9), _T8),
        L.LEVEL_4_1: Support(range(1, 9), _T11),
    },
    "REVERSE_SUBSEQUENCES": {
        L.LEVEL_2_1: Support(range(4, 5), _T8, length_types=(T.UINT32,)),
        L.LEVEL_3_0: Support(range(4, 6), _T8, length_types=(T.UINT32,)),
        L.LEVEL_4_0: Support(range(1, 9), _T8, length_types=(T.UINT32,)),
        L.LEVEL_5_0: Support(range(1, 9), _T11, length_types=(T.UINT32, T.UINT64)),
    },
    "SLICE_GRAD": {
        L.LEVEL_3_0: Support(range(4, 6), _T8),
        L.LEVEL_3_1: Support(range(1, 9), _T8),
        L.LEVEL_4_1: Support(range(1, 9), _T11),
    },
    "ELEMENT_WISE_IDENTITY": {
        L.LEVEL_1_0: Support(range(4, 6), _T2),
        L.LEVEL_2_1: Support(range(4, 6), _T8),
        L.LEVEL_3_0: Support(range(1, 9), _T8),
        L.LEVEL_4_1: Support(range(1, 9), _T11),
    },
}

OPERATORS = tuple(_SUPPORT)
PREFIX = "DML_OPERATOR_"


def operator_named(text: str) -> str:
    """``SLICE1`` of ``SLICE1`` or ``DML_OPERATOR_SLICE1``.

    For another operator it raises ``ValueError`` with a sentence that the caller begins: "must be an operator …".
    """
    name = text.removeprefix(PREFIX)
    if name not in _SUPPORT:
        raise ValueError(f"must be an operator of this package ({', '.join(OPERATORS)}), got {as_json(text)}")
    return name


def check_level(value: FeatureLevel) -> None:
    instance(FeatureLevel, "feature_level", value, way_out="; FeatureLevel.parse reads text")


def check_support(operator: str | OperatorType, feature_level: FeatureLevel = FeatureLevel.NEWEST) -> Support | None:
    """What an operator takes at a feature level, None where the level does not have it yet.

    Args:
        operator: ``"SLICE1"``, ``"DML_OPERATOR_SLICE1"`` or ``OperatorType.SLICE1``; one that this package has.
        feature_level: by default the newest.

    Raises:
        ValueError: an operator that this package does not have.
        TypeError: an operator that is neither a string nor an ``OperatorType``, a level that is not a ``FeatureLevel``.

    Source: the pages of the operators, of which `DML_JOIN_OPERATOR_DESC
    <https://learn.microsoft.com/en-us/windows/win32/api/directml/ns-directml-dml_join_operator_desc>`_ is one, and the
    `feature level history <https://learn.microsoft.com/en-us/windows/ai/directml/dml-feature-level-history>`_.

    >>> from torch_dml_ops.directml import FeatureLevel, check_support
    >>> check_support("JOIN", FeatureLevel.LEVEL_3_0).dimension_counts
    range(4, 6)
    >>> check_support("SLICE_GRAD", FeatureLevel.LEVEL_2_1) is None
    True
    """
    check_level(feature_level)
    if isinstance(operator, OperatorType):
        operator = operator.name
    string("check_support: operator", operator)
    try:
        changes = _SUPPORT[operator_named(operator)]
    except ValueError as error:
        raise ValueError(f"check_support: operator {error}") from None
    return next((changes[level] for level in reversed(changes) if level <= feature_level), None)


def first_level(operator: str, wanted: Callable[[Support], bool]) -> FeatureLevel | None:
    """The first level at which the operator is there and its support is as wanted."""
    return next((level for level, support in _SUPPORT[operator].items() if wanted(support)), None)


def _cell(support: Support | None) -> str:
    if support is None:
        return "–"
    counts = support.dimension_counts
    dimensions = str(counts[0]) if len(counts) == 1 else f"{counts[0]}–{counts[-1]}"
    lengths = f"; lengths {', '.join(t.name for t in support.length_types)}" if support.length_types else ""
    return f"{dimensions}, T{len(support.data_types)}{lengths}"


def support_table() -> str:
    """The table in Markdown, as in :doc:`/docs/from-directml`: a row for each operator, a column for levels that are
    all alike."""
    changes = sorted({level for levels in _SUPPORT.values() for level in levels})
    columns = []
    for begin, end in zip(changes, [*changes[1:], None], strict=True):
        levels = [level for level in FeatureLevel if begin <= level and (end is None or level < end)]
        columns.append(str(begin) if len(levels) == 1 else f"{begin}–{levels[-1]}")
    rows = [
        ["operator", *columns],
        ["---"] * (len(columns) + 1),
        *([op, *(_cell(check_support(op, level)) for level in changes)] for op in OPERATORS),
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
