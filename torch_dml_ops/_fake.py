"""Shapes and layouts without data, for torch.compile, torch.export and tensors on the device "meta".

Each operator has one rule, a function that checks the arguments and returns what the result is like and which tensors
are read. Both overloads are made from it.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torch_dml_ops import _fusion
from torch_dml_ops._checks import (
    check_out,
    check_reverse_subsequences,
    check_slice_grad,
    join_sizes,
    require,
    slice1_sizes,
    split_sizes_of_pieces,
)
from torch_dml_ops._layout import new_dense
from torch_dml_ops._overlap import check_memory


class Result(NamedTuple):
    """What the result of a call is like."""

    sizes: Sequence[Any]  # the result's sizes; those of each result for an operator that returns a list
    like: dict[str, Tensor]  # the tensors whose dtype, device and layout it has, by name
    also_read: tuple[tuple[str, Tensor], ...] = ()  # other tensors that `out` must not share memory with


def _slice1(
    input: Tensor,
    window_offsets: Sequence[int],
    window_sizes: Sequence[int],
    window_strides: Sequence[int],
    output_sizes: Sequence[int] | None = None,
) -> Result:
    sizes = slice1_sizes(input, window_offsets, window_sizes, window_strides, output_sizes)
    return Result(sizes, {"input": input})


def _slice_grad(
    grad_output: Tensor,
    input_sizes: Sequence[int],
    window_offsets: Sequence[int],
    window_sizes: Sequence[int],
    window_strides: Sequence[int],
) -> Result:
    check_slice_grad(grad_output, input_sizes, window_offsets, window_sizes, window_strides)
    return Result(input_sizes, {"grad_output": grad_output})


def _split(input: Tensor, split_sizes: Sequence[int], axis: int) -> Result:
    return Result(split_sizes_of_pieces(input, split_sizes, axis), {"input": input})


def _join(inputs: Sequence[Tensor], axis: int) -> Result:
    return Result(join_sizes(inputs, axis), {f"inputs[{k}]": tensor for k, tensor in enumerate(inputs)})


def _reverse_subsequences(input: Tensor, sequence_lengths: Tensor, axis: int) -> Result:
    check_reverse_subsequences(input, sequence_lengths, axis)
    return Result(input.shape, {"input": input}, (("sequence_lengths", sequence_lengths),))


def checked_outs(name: str, result: Result, out: Any) -> list[tuple[str, Tensor]]:
    """The tensors to write into, with their names; raises where one does not fit the result."""
    several = name == "split"
    outs = [(f"out[{k}]", tensor) for k, tensor in enumerate(out)] if several else [("out", out)]
    every_size = result.sizes if several else [result.sizes]
    require(
        len(outs) == len(every_size),
        f"{name}: out must have length {len(every_size)}, a tensor for each of split_sizes, got {len(outs)}",
    )
    first_name, first = next(iter(result.like.items()))
    for (out_name, tensor), wanted in zip(outs, every_size, strict=True):
        check_out(name, out_name, tensor, wanted, first_name, first)
    return outs


def _register(name: str, rule: Callable[..., Result]) -> None:
    gives_list = name == "split"

    def new(*arguments: Any, **named: Any) -> Tensor | list[Tensor]:
        _fusion.prepare()
        sizes, like, _ = rule(*arguments, **named)
        order_of = list(like.values())
        return [new_dense(name, s, order_of) for s in sizes] if gives_list else new_dense(name, sizes, order_of)

    def given(*arguments: Any, out: Any, **named: Any) -> None:
        result = rule(*arguments, **named)
        check_memory(name, checked_outs(name, result, out), [*result.like.items(), *result.also_read])

    torch.library.register_fake(f"torch_dml_ops::{name}", new)
    torch.library.register_fake(f"torch_dml_ops::{name}.out", given)


RULES: dict[str, Callable[..., Result]] = {
    "slice1": _slice1,
    "slice_grad": _slice_grad,
    "split": _split,
    "join": _join,
    "reverse_subsequences": _reverse_subsequences,
}
for _name, _rule in RULES.items():
    _register(_name, _rule)
