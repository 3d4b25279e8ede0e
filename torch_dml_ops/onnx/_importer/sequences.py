"""ONNX's operators on sequences of tensors. Most work on whatever a list holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from torch_dml_ops._sentences.text import shown
from torch_dml_ops.onnx._importer import moving
from torch_dml_ops.onnx._importer.inputs import Numbers, axis_of, kept_by_fx, number, numbers

Item = TypeVar("Item")
Position = Tensor | int


def _place(op: str, position: Position, length: int, most: int) -> int:
    """From 0 on; a negative position is counted from the end of the sequence."""
    place = number(f"{op}: position", position)
    if not -length <= place <= most:
        rule = f"from {-length} to {most}" if most >= 0 else "that of a tensor, and the sequence has none"
        raise ValueError(f"{op}: position must be {rule}, got {shown(place)}")
    return place if place >= 0 else place + length


@kept_by_fx
def sequence_construct(*inputs: Tensor) -> list[Tensor]:
    return [*inputs]


@kept_by_fx
def sequence_at(input_sequence: Sequence[Item], position: Position) -> Item:
    length = len(input_sequence)
    return input_sequence[_place("SequenceAt", position, length, length - 1)]


@kept_by_fx
def sequence_erase(input_sequence: Sequence[Item], position: Position = -1) -> list[Item]:
    length = len(input_sequence)
    place = _place("SequenceErase", position, length, length - 1)
    return [*input_sequence[:place], *input_sequence[place + 1 :]]


@kept_by_fx
def sequence_insert(input_sequence: Sequence[Item], tensor: Item, position: Position | None = None) -> list[Item]:
    length = len(input_sequence)
    place = length if position is None else _place("SequenceInsert", position, length, length)
    return [*input_sequence[:place], tensor, *input_sequence[place:]]


@kept_by_fx
def sequence_length(input_sequence: Sequence[Any]) -> int:
    return len(input_sequence)


@kept_by_fx
def concat_from_sequence(input_sequence: Sequence[Tensor], *, axis: int, new_axis: int = 0) -> Tensor:
    if not input_sequence:
        raise ValueError("ConcatFromSequence: input_sequence must have at least one tensor, got none")
    if new_axis:
        rank = input_sequence[0].dim()
        axis = axis_of("ConcatFromSequence: axis", axis, rank + 1)
        for k, tensor in enumerate(input_sequence):
            if tensor.dim() != rank:
                rule = f"{rank} dimensions, as input_sequence[0] has"
                raise ValueError(f"ConcatFromSequence: input_sequence[{k}] must have {rule}, got {tensor.dim()}")
        input_sequence = [tensor.unsqueeze(axis) for tensor in input_sequence]
    return moving.concat(*input_sequence, axis=axis)


@kept_by_fx
def split_to_sequence(
    input: Tensor, split: Numbers | int | None = None, *, axis: int = 0, keepdims: int = 1
) -> list[Tensor]:
    d = axis_of("SplitToSequence: axis", axis, input.dim())
    pieces: Sequence[int] = ()
    most = None
    if isinstance(split, int | torch.SymInt) or (isinstance(split, Tensor) and split.dim() == 0):
        most = number("SplitToSequence: split", split)
        if most < 1:
            raise ValueError(f"SplitToSequence: split must be at least 1, got {most}")
    elif split is not None:
        pieces = numbers("SplitToSequence: split", split)
    # As in ONNX Runtime, also for a list without sizes, and for a split of 1, where ONNX would keep the axis.
    is_in_ones = not keepdims and not pieces and most in (1, None)
    if not pieces:
        size, most = int(input.shape[d]), most or 1
        pieces = [min(most, size - start) for start in range(0, size, most)]
    parts = moving.split(input, pieces, axis=d, num_outputs=len(pieces)) if pieces else []
    return [part.squeeze(d) for part in parts] if is_in_ones else parts


@kept_by_fx
def copied(input_sequence: Sequence[Tensor]) -> list[Tensor]:
    return [tensor.clone() for tensor in input_sequence]


# Those that do not ask what the sequence holds.
ON_ANYTHING: Mapping[str, Callable[..., Any]] = {
    "SequenceAt": sequence_at,
    "SequenceErase": sequence_erase,
    "SequenceInsert": sequence_insert,
    "SequenceLength": sequence_length,
}
