"""How long calls take on a GPU, by CUDA events."""

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from frameworks import Call

Measurement = Callable[[], float]  # measures once more: microseconds per call

# Clock cycles that the GPU is kept busy for while the host queues what is measured, so that the host's time to queue it
# is not: about 3 ms. Sixty-four copies, one for each piece of a split, take the host a tenth of that.
AHEAD = 5_000_000
GRAPHED = 200  # calls in a graph of small ones: two events and the start of a graph are little beside them


class Timer(Protocol):
    def measurement(self, calls: Sequence[Call], replayed: bool) -> Measurement:
        """Measures these calls, one after another; replayed, many rounds of them as one CUDA graph."""
        ...


def _queue(calls: Sequence[Call]) -> object:
    """Runs the calls, and keeps every result until the last so that none takes another's memory, which is in the L2."""
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
        for _ in range(2):  # what is loaded, compiled and allocated at the first call is there afterwards
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
    """Runs every call once, where there is no GPU, and tells the same time of all."""

    def measurement(self, calls: Sequence[Call], replayed: bool) -> Measurement:
        _queue(calls)
        return lambda: 100.0
