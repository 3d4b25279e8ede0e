"""How DTensors are placed before a call, which sizes this rank's parts have, and what placing them costs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard

from torch_dml_ops._sentences.text import text
from torch_dml_ops.distributed._shards import leaving, runs_of_join, shard

Placements = tuple[Placement, ...]


def settle(x: DTensor, moved: set[int]) -> tuple[Placements, dict[int, int]]:
    """How `x` is placed before elements move along the dimensions `moved`, and which of these are still sharded then,
    over which dimension of the mesh."""
    placements: list[Placement] = []
    exchanged: dict[int, int] = {}
    for mesh_dim, p in enumerate(x.placements):
        dim = getattr(p, "dim", None)  # Shard and torch's own _StridedShard
        if type(p) is Shard and dim in moved and dim not in exchanged:
            exchanged[dim] = mesh_dim
            # Compiled code is guarded by the sizes of this rank's part: torch drops guards on those of the whole.
            int(x._local_tensor.shape[dim])
        elif not (p.is_replicate() or type(p) is Partial or (dim is not None and dim not in moved)):
            p = Replicate()
        placements.append(p)
    return tuple(placements), exchanged


def rank_along(mesh: DeviceMesh, mesh_dim: int) -> int:
    """This rank along a mesh dimension; one outside of the mesh plans as the first one does, to know the placements."""
    coordinate = mesh.get_coordinate()
    return coordinate[mesh_dim] if coordinate is not None else 0


def sizes_here(sizes: Sequence[int], mesh: DeviceMesh, placements: Placements, first_of: int = -1) -> list[int]:
    """The sizes of this rank's part under placements of Shard, Replicate and Partial; of the first rank's along the
    mesh dimension `first_of`, whose part is the largest."""
    here = list(sizes)
    for mesh_dim, p in enumerate(placements):
        if type(p) is Shard:
            rank = 0 if mesh_dim == first_of else rank_along(mesh, mesh_dim)
            begin, end = shard(here[p.dim], mesh.size(mesh_dim), rank)
            here[p.dim] = end - begin
    return here


def local_sizes(x: DTensor, placed: Placements, moved: set[int]) -> list[int]:
    """The sizes of this rank's part of `x` when it is placed as `settle` says."""
    part = sizes_here(x.shape, x.device_mesh, placed)
    if x.device_mesh.get_coordinate() is None:
        return part
    return [part[d] if d in moved else n for d, n in enumerate(x._local_tensor.shape)]


def check_part(name: str, argument: str, x: DTensor) -> None:
    """Refuses a part of other sizes than this rank has to have: others would get something else than they expect."""
    shards = [p for p in x.placements if hasattr(p, "dim")]
    # Only torch knows the sizes under its own _StridedShard, and where one dimension is sharded more than once.
    is_known = all(type(p) is Shard for p in shards) and len({p.dim for p in shards}) == len(shards)
    if x.device_mesh.get_coordinate() is None or not is_known:
        return
    wanted, given = sizes_here(x.shape, x.device_mesh, x.placements), list(x._local_tensor.shape)
    if given != wanted:
        raise RuntimeError(f"{name}: {argument} must have sizes {text(wanted)} on this rank, got {text(given)}")


def common(pieces: Sequence[DTensor], axis: int) -> Placements:
    """The common placement of a join's inputs that takes the least traffic."""
    mesh = pieces[0].device_mesh
    sizes = [t.shape[axis] for t in pieces]
    rest = math.prod(n for d, n in enumerate(pieces[0].shape) if d != axis)
    common: list[Placement] = []
    for mesh_dim, now in enumerate(zip(*(t.placements for t in pieces), strict=True)):
        ranks = mesh.size(mesh_dim)

        def elements(to: Placement, now: Sequence[Placement] = now, ranks: int = ranks) -> float:
            """How many elements the ranks receive."""
            total = sum(n * rest * parts_received(p, to, ranks, mesh) for n, p in zip(sizes, now, strict=True))
            if to == Shard(axis):
                runs = runs_of_join(sizes)
                total += rest * sum(leaving(runs, sizes, [sum(sizes)], ranks))
            return total

        shards = [p for p in dict.fromkeys(now) if type(p) is Shard and (p.dim != axis or p not in common)]
        candidates = [*shards, Replicate()]
        if len(set(now)) == 1 and type(now[0]) in (Partial, Shard) and now[0] != Shard(axis):
            candidates = [now[0]]
        common.append(min(candidates, key=elements))  # of equal ones a shard, which takes less memory
    return tuple(common)


def parts_received(p: Placement, to: Placement, ranks: int, mesh: DeviceMesh) -> float:
    """How many copies of a tensor the ranks receive together when it is redistributed along one mesh dimension."""
    if p == to or p.is_replicate():
        return 0
    if p.is_partial():
        return (2 if to.is_replicate() else 1) * (ranks - 1)
    # From shard to shard torch gathers on CPUs.
    return ranks - 1 if to.is_replicate() or mesh.device_type == "cpu" else (ranks - 1) / ranks
