"""How long calls take on a GPU, by CUDA events."""

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from frameworks import Call

Measurement = Callable[[], float]  # measures once more: microseconds per call

# For so many clock cycles, about 3 ms, the GPU is kept busy while the host queues what is measured, so that the time to
# queue it is not measured. Queueing 64 copies, one for each piece of a split, takes the host a tenth of that.
AHEAD = 5_000_000
GRAPHED = 200  # small calls in a graph: enough to make two events and the start of a graph negligible


class Timer(Protocol):
    def measurement(self, calls: Sequence[Call], replayed: bool) -> Measurement:
        """Measures these calls, one after another; replayed, many rounds of them as one CUDA graph."""
        ...


def _queue(calls: Sequence[Call]) -> object:
    """Runs the calls and keeps all results until the end: one that reused another's memory would find it in the L2."""
    return [call() for call in calls]


def _microseconds(queue: Callable[[], object]) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(AHEAD)
    start.record()
    queue()
    end.record()
    end.synchronize()
    return 1000 * float(start.elapsed_time(end))


class CudaTimer:
    def measurement(self, calls: Sequence[Call], replayed: bool) -> Measurement:
        for _ in range(2):  # first calls load, compile and allocate
            _queue(calls)
        torch.cuda.synchronize()
        if not replayed:
            return lambda: _microseconds(lambda: _queue(calls)) / len(calls)
        rounds = max(GRAPHED // len(calls), 1)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(rounds):
                _queue(calls)
        graph.replay()
        return lambda: _microseconds(graph.replay) / (rounds * len(calls))


class DryTimer:
    """Runs every call once, where there is no GPU, and reports the same time for all."""

    def measurement(self, calls: Sequence[Call], replayed: bool) -> Measurement:
        _queue(calls)
        return lambda: 100.0
