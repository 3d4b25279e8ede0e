"""What the operators receive on a sharded tensor, in bytes per rank, "of" what they would if they gathered it first.

    python benchmarks/traffic.py [RANKS …]

The tensor has 16 MB: float32, sizes (4096, 1024), Shard(0). The process groups are fake ones, so that any number of
ranks is planned on one machine. Of all ranks the one that receives most is shown.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import Placement, Replicate, Shard, empty
from torch.testing._internal.distributed.fake_pg import FakeStore

from torch_dml_ops.distributed import Traffic, traffic

SIZES = (4096, 1024)

Call = Callable[[DeviceMesh], tuple[Any, ...]]


def calls(rows: int, columns: int) -> Iterator[tuple[str, Call]]:
    """By name, the arguments of `traffic`."""

    def tensor(mesh: DeviceMesh, placement: Placement, *sizes: int) -> Any:
        return empty(sizes or (rows, columns), device_mesh=mesh, placements=[placement])

    def slice1(placement: Placement, *window: Sequence[int]) -> Call:
        return lambda mesh: ("slice1", tensor(mesh, placement), *window)

    whole = (rows, columns)
    yield "slice1, stride −1 along the other dimension", slice1(Shard(0), (0, 0), whole, (1, -1))
    yield "slice1, stride −1", slice1(Shard(0), (0, 0), whole, (-1, 1))
    yield "slice1, stride 2", slice1(Shard(0), (0, 0), whole, (2, 1))
    yield "slice1, a window of a quarter", slice1(Shard(0), (rows // 8, 0), (rows // 4, columns), (1, 1))
    yield "slice1, all but the first row", slice1(Shard(0), (1, 0), (rows - 1, columns), (1, 1))
    yield (
        "slice_grad, into twice the size",
        lambda mesh: ("slice_grad", tensor(mesh, Shard(0)), (2 * rows, columns), (0, 0), (2 * rows, columns), (2, 1)),
    )
    yield "split in 4", lambda mesh: ("split", tensor(mesh, Shard(0)), (rows // 4,) * 4, 0)
    yield (
        "join of 4",
        lambda mesh: ("join", [tensor(mesh, Shard(0), rows // 4, columns) for _ in range(4)], 0),
    )
    yield (
        "join along the other dimension, one input replicated",
        lambda mesh: ("join", [tensor(mesh, Shard(0)), tensor(mesh, Replicate())], 1),
    )
    yield (
        "reverse_subsequences",
        lambda mesh: ("reverse_subsequences", tensor(mesh, Shard(0)), lengths(mesh, columns), 0),
    )


def lengths(mesh: DeviceMesh, count: int) -> Any:
    return empty((1, count), dtype=torch.int64, device_mesh=mesh, placements=[Replicate()])


def most_received(ranks: int) -> list[Traffic]:
    """For each call, what the rank receives that receives most."""
    found = []
    for rank in range(ranks):
        dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=ranks)
        try:
            mesh = init_device_mesh("cpu", (ranks,))
            found.append([traffic(*call(mesh)) for _, call in calls(*SIZES)])
        finally:
            dist.destroy_process_group()
    return [max(of_ranks, key=lambda t: t.received) for of_ranks in zip(*found, strict=True)]


def amount(count: int) -> str:
    for factor, unit in ((1 << 20, "MB"), (1 << 10, "KB")):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count} B"


def main() -> None:
    numbers = [int(a) for a in sys.argv[1:]] or [8, 64, 512]
    columns = [most_received(ranks) for ranks in numbers]
    print("| call | " + " | ".join(f"{n} ranks" for n in numbers) + " |")
    print("|---|" + "---|" * len(numbers))
    for (name, _), *cells in zip(calls(*SIZES), *columns, strict=True):
        print(f"| {name} | " + " | ".join(f"{amount(t.received)} of {amount(t.gathered)}" for t in cells) + " |")


if __name__ == "__main__":
    main()
