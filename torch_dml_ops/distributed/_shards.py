"""Which elements ranks send each other when elements move along a dimension that is sharded over them.

Numbers only: _exchange.py does the sending. A dimension of size n is sharded as DTensor's Shard does it, and
torch.chunk: every rank has ceil(n / ranks) indices in a row, the last ones with any have what remains.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple


class Run(NamedTuple):
    """Elements that move along a dimension: step k goes from index `source_start + k * source_step` of one tensor to
    index `target_start + k * target_step` of another, for k from 0 to `steps - 1`."""

    source: int  # which of the tensors that are read
    target: int  # which of those that are written
    source_start: int
    source_step: int
    target_start: int
    target_step: int
    steps: int

    def backwards(self) -> Run:
        """From the target to the source."""
        return Run(
            self.target,
            self.source,
            self.target_start,
            self.target_step,
            self.source_start,
            self.source_step,
            self.steps,
        )


class Transfer(NamedTuple):
    """Steps `first` to `end - 1` of a run, which two ranks share."""

    peer: int  # the other rank, or the rank itself
    run: int  # the index of the run
    first: int
    end: int


def shard(size: int, ranks: int, rank: int) -> tuple[int, int]:
    """The indices that a rank has: where they begin and end."""
    chunk = -(-size // ranks)
    return min(rank * chunk, size), min((rank + 1) * chunk, size)


def steps_within(start: int, step: int, count: int, begin: int, end: int) -> tuple[int, int]:
    """The steps of a walk that are at indices from `begin` to `end - 1`: the first one, and the one after the last."""
    if step < 0:  # the same walk, seen from the other end of the dimension
        start, step, begin, end = -start, -step, 1 - end, 1 - begin
    first, last = (-((start - bound) // step) for bound in (begin, end))  # rounded up
    return max(first, 0), min(last, count)


def transfers(
    runs: Sequence[Run], source_sizes: Sequence[int], target_sizes: Sequence[int], ranks: int, rank: int
) -> list[Transfer]:
    """What a rank sends, by receiver and then by run; what stays with it has the rank itself as peer."""
    found = []
    for number, run in enumerate(runs):
        here = shard(source_sizes[run.source], ranks, rank)
        first, end = steps_within(run.source_start, run.source_step, run.steps, *here)
        if first >= end:
            continue
        size = target_sizes[run.target]
        chunk = -(-size // ranks)
        peers = sorted((run.target_start + k * run.target_step) // chunk for k in (first, end - 1))
        for peer in range(peers[0], peers[1] + 1):
            there = shard(size, ranks, peer)
            begin, stop = steps_within(run.target_start, run.target_step, run.steps, *there)
            if max(first, begin) < min(end, stop):
                found.append(Transfer(peer, number, max(first, begin), min(end, stop)))
    return sorted(found)


def received(
    runs: Sequence[Run], source_sizes: Sequence[int], target_sizes: Sequence[int], ranks: int, rank: int
) -> list[Transfer]:
    """What a rank receives, by sender and then by run."""
    return transfers([run.backwards() for run in runs], target_sizes, source_sizes, ranks, rank)


def leaving(runs: Sequence[Run], source_sizes: Sequence[int], target_sizes: Sequence[int], ranks: int) -> Iterator[int]:
    """How many indices go from one rank to another, for every pair of ranks where there are any."""
    for rank in range(ranks):
        for t in transfers(runs, source_sizes, target_sizes, ranks, rank):
            if t.peer != rank:
                yield t.end - t.first


def runs_of_join(sizes: Sequence[int]) -> list[Run]:
    """Of pieces of these sizes that are joined."""
    return [Run(k, 0, 0, 1, sum(sizes[:k]), 1, size) for k, size in enumerate(sizes)]
