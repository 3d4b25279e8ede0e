"""torch.ops.torch_dml_ops.slice1(…), as models call it, by the short way of _fast.py where that can be gone.

What torch puts into its namespace, an OpOverloadPacket, is replaced by one that looks there first. All else that it is
asked for (its overloads, its schemas) it answers as before, and a call that is not plain goes where it went.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._ops import OpOverloadPacket

from torch_dml_ops._fast import OPERATORS, available, fast

_namespace: Any = torch.ops.torch_dml_ops


class ShortPacket(OpOverloadPacket):
    """An operator's packet, and the function of the short way."""

    def __init__(self, packet: Any, short_way: Any) -> None:
        self.__dict__ = packet.__dict__
        self._short_way = short_way
        self._overload_names = ["", "out"]  # without those that only the short way calls
        self._most = len(packet.default._schema.arguments)
        self._missing = (None,) * self._most  # for what has a default, and for `out`, which is given by name alone
        for overload in (packet.default, packet.out):
            overload._overloadpacket = self

    def __call__(self, /, *arguments: Any, **named: Any) -> Any:
        if not named and len(arguments) <= self._most:
            result = self._short_way(*arguments, *self._missing[len(arguments) - 1 :])
            if result is not None:
                return result
        return self._op(*arguments, **named)


def put_in_place() -> None:
    if available:
        for name in OPERATORS:
            packet = getattr(_namespace, name)
            if not isinstance(packet, ShortPacket):  # as where the package is imported again
                setattr(_namespace, name, ShortPacket(packet, getattr(fast, name)))
