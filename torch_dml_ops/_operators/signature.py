"""What an operator's schema says of its calls: read here once, and asked by all that serves any operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

# What an argument is, by its type in the schema, in the letters of csrc/python/fast_calls.cpp.
TENSOR, TENSORS, NUMBER, NUMBERS, NUMBERS_OR_NONE = "T", "TT", "n", "N", "?"
_KINDS = {
    "Tensor": TENSOR,
    "List[Tensor]": TENSORS,
    "int": NUMBER,
    "List[int]": NUMBERS,
    "Optional[List[int]]": NUMBERS_OR_NONE,
}


class Signature:
    """The arguments of an operator and what it returns.

    The first argument, a tensor or a list of them, is what the operator is linear in. Further tensors are constants.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.title = name.title().replace("_", "")  # in names of classes
        self.packet: Any = getattr(torch.ops.torch_dml_ops, name)
        self.default, self.out = self.packet.default, self.packet.out
        # What these call where nothing else has taken the place: torch's own, the ordinary way.
        self.ordinary, self.ordinary_out = self.default._op, self.out._op
        schema = self.default._schema
        for k, a in enumerate(schema.arguments):
            if _KINDS.get(str(a.type)) not in (
                (TENSOR, TENSORS) if k == 0 else (TENSOR, NUMBER, NUMBERS, NUMBERS_OR_NONE)
            ):
                wanted = "a tensor or a list of tensors" if k == 0 else "a tensor, a whole number or a list of such"
                raise TypeError(f"{name}: {a.name} must be {wanted} in the schema, got {a.type}")
        self.arguments = tuple((a.name, _KINDS[str(a.type)]) for a in schema.arguments)
        self.takes_list = self.arguments[0][1] == TENSORS
        self.gives_list = schema.returns[0].type.kind() == "ListType"
        self.constants = tuple(k for k, (_, kind) in enumerate(self.arguments) if k and kind == TENSOR)

    def positional(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        """All arguments in their order; None for those that are left out."""
        return [*arguments, *(named.get(name) for name, _ in self.arguments[len(arguments) :])]

    def named_inputs(self, arguments: Sequence[Any]) -> list[tuple[str, Any]]:
        """The tensors that a call is linear in, with their names, those of a list with their index."""
        name, first = self.arguments[0][0], arguments[0]
        return [(f"{name}[{k}]", t) for k, t in enumerate(first)] if self.takes_list else [(name, first)]

    def named_tensors(self, arguments: Sequence[Any]) -> list[tuple[str, Any]]:
        """The same, and the constants after them."""
        return [*self.named_inputs(arguments), *((self.arguments[k][0], arguments[k]) for k in self.constants)]

    def numbers(self, arguments: Sequence[Any]) -> tuple[Any, ...]:
        """A call's other arguments. Lists are tuples here."""
        others = (a for k, a in enumerate(arguments) if k > 0 and k not in self.constants)
        return tuple([tuple(a) if isinstance(a, list) else a for a in others])

    def others(self, constants: Sequence[Any], numbers: Sequence[Any]) -> Sequence[Any]:
        """The arguments after the first."""
        if not self.constants:
            return numbers
        others = list(numbers)
        for k, constant in zip(self.constants, constants, strict=True):
            others.insert(k - 1, constant)
        return others

    def with_tensors(self, tensors: Sequence[Any], numbers: Sequence[Any]) -> list[Any]:
        """The arguments that have these tensors, the constants last, and these numbers."""
        count = len(tensors) - len(self.constants)
        first = list(tensors[:count]) if self.takes_list else tensors[0]
        return [first, *self.others(tensors[count:], numbers)]

    def named_outs(self, out: Any) -> list[tuple[str, Any]]:
        return [(f"out[{k}]", t) for k, t in enumerate(out)] if self.gives_list else [("out", out)]

    def listed(self, results: Any) -> list[Any]:
        """The results of a call, or what there is for each, in a list also where there is one."""
        return list(results) if self.gives_list else [results]


# By the operator's name. (A function with a cache would not do: torch.compile follows none.)
signatures: dict[str, Signature] = {}


def call(op: str, *arguments: Any) -> Any:
    """Calls an operator, the short way if possible. Lists among the numbers are kept for the backward pass, and must be
    of types that cannot change."""
    return signatures[op].default(*arguments)
