"""Makes torch.ops.torch_dml_ops.slice1(…), as models call the operators, try the short way of _fast.py first.

The OpOverloadPacket that torch keeps in its namespace is replaced by a subclass. It has the same overloads and schemas,
and a call that is not plain goes the same way as before.
"""

from __future__ import annotations

from typing import Any

import torch

from torch_dml_ops._fast import OPERATORS, available, fast

_namespace: Any = torch.ops.torch_dml_ops
_Packet: Any = type(torch.ops.aten.add)


class ShortPacket(_Packet):  # type: ignore[misc]
    """An operator's packet, with the function of the short way."""

    def __init__(self, packet: Any, short_way: Any) -> None:
        self.__dict__ = packet.__dict__
        self._short_way = short_way
        self._overload_names = ["", "out"]  # not those that only the short way calls
        self._most = len(packet.default._schema.arguments)
        self._missing = (None,) * self._most  # for arguments with a default, and for `out`, which is keyword-only
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
            if not isinstance(packet, ShortPacket):  # it is one where the package is imported again
                setattr(_namespace, name, ShortPacket(packet, getattr(fast, name)))
