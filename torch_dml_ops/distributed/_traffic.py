"""What a call on DTensors would send."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from torch.distributed.tensor import DTensor, Replicate, Shard

from torch_dml_ops._operators.definitions import OPERATORS
from torch_dml_ops._operators.signature import NUMBERS_OR_NONE, signatures
from torch_dml_ops._torch.ordinary_way import converted
from torch_dml_ops.distributed._calls import require_dtensors, require_names
from torch_dml_ops.distributed._exchange import Exchange
from torch_dml_ops.distributed._placements import Placements, parts_received, sizes_here
from torch_dml_ops.distributed._plans import plan


class Traffic(NamedTuple):
    """What a call on DTensors sends.

    Where a tensor has to be redistributed over several dimensions of the mesh, or to or from a placement by which
    several of them shard one dimension, torch chooses how, and may receive more.

    Attributes:
        placements: of the result, or of each result.
        received: the bytes that this rank receives from others.
        gathered: what it would receive if every shard along a dimension that elements move along were gathered.
    """

    placements: Placements
    received: int
    gathered: int


def traffic(op: str, *arguments: Any) -> Traffic:
    """How the result of a call would be placed, and how many bytes this rank would receive for it.

    Nothing is sent, so the process group may be a fake one, of any size. An all-reduce counts as two passes over the
    tensor, as a ring does it.

    Args:
        op: the name of one of the five operators, ``"slice1"`` for example.
        arguments: those of the call, with DTensors.

    Returns:
        A :class:`Traffic`.

    Raises:
        RuntimeError: what the operator refuses.
        TypeError: arguments that are missing, or of another type.
        ValueError: a name that is none of the five.

    >>> import torch, torch.distributed as dist
    >>> from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh
    >>> from torch.testing._internal.distributed.fake_pg import FakeStore
    >>> from torch_dml_ops.distributed import traffic
    >>> dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=8)
    >>> x = distribute_tensor(torch.zeros(64), init_device_mesh("cpu", (8,)), [Shard(0)])
    >>> traffic("slice1", x, [0], [64], [-1])  # eight elements of four bytes, from the last rank
    Traffic(placements=(Shard(dim=0),), received=32, gathered=224)
    >>> dist.destroy_process_group()
    """
    if op not in OPERATORS:
        raise ValueError(f"traffic: op must be one of {', '.join(OPERATORS)}, got {op!r}")
    require_names("traffic")
    signature = signatures[op]
    names = [name for name, _ in signature.arguments]
    least = sum(kind != NUMBERS_OR_NONE for _, kind in signature.arguments)
    if not least <= len(arguments) <= len(names):
        raise TypeError(f"traffic: {op} must have its arguments, {', '.join(names)}, got {len(arguments)}")
    given = converted(signature, arguments)
    named = signature.named_tensors(given)
    if not any(isinstance(t, DTensor) for _, t in named):
        raise TypeError(f"traffic: {named[0][0]} must be a DTensor, got a plain tensor; call distribute_tensor on it")
    tensors = require_dtensors(op, named)
    placed, steps, specs = plan(signature, tensors, signature.numbers(given))
    bytes_received = sum(_bytes_received(t, p) for t, p in zip(tensors, placed, strict=True))
    item = tensors[0].element_size()
    bytes_received += sum(item * sum(step.received_from) for step in steps if isinstance(step, Exchange))
    moved = {step.axis for step in steps if isinstance(step, Exchange)}
    gathered = 0
    for t, p in zip(tensors, placed, strict=True):
        whole = tuple(Replicate() if isinstance(q, Shard) and q.dim in moved else q for q in p)
        gathered += _bytes_received(t, whole)
    return Traffic(specs[0].placements, bytes_received, gathered)


def _bytes_received(x: DTensor, placements: Placements) -> int:
    """What this rank receives when `x` is redistributed."""
    mesh, now, total = x.device_mesh, list(x.placements), 0
    for mesh_dim in reversed(range(mesh.ndim)):
        ranks, p, to = mesh.size(mesh_dim), now[mesh_dim], placements[mesh_dim]
        # torch pads shards to the largest one, that of the first rank
        part = sizes_here(x.shape, mesh, tuple(now), first_of=mesh_dim)
        if isinstance(to, Shard) and not p.is_replicate():
            part[to.dim] = -(-part[to.dim] // ranks) * ranks
        # A gather brings a part from every other rank; all else is a share of this rank's own part.
        parts = ranks if isinstance(p, Shard) else 1
        total += round(math.prod(part) * parts * parts_received(p, to, ranks, mesh) / ranks)
        now[mesh_dim] = to
    return total * x.element_size()
