"""How long calls take, in microseconds: calls in turns on the CPU, and by CUDA events on a GPU."""

import statistics
from collections.abc import Callable, Sequence

import torch
from frameworks import Call
from torch.utils.benchmark import Timer

Measurement = Callable[[], float]  # measures once more: microseconds per call
Pass = dict[str, float]  # microseconds by what was measured

# For so many clock cycles, about 3 ms, the GPU is kept busy while the host queues what is measured, so that the time to
# queue it is not measured. Queueing 64 copies, one for each piece of a split, takes the host a tenth of that.
AHEAD = 5_000_000
GRAPHED = 200  # small calls in a graph: enough to make two events and the start of a graph negligible


def in_turns(measurements: dict[str, Measurement], turns: int = 3, runs: int = 5) -> list[Pass]:
    """A pass is a turn of each; its time is the median of so many runs."""
    return [
        {name: statistics.median(measure() for _ in range(runs)) for name, measure in measurements.items()}
        for _ in range(turns)
    ]


def medians(passes: Sequence[Pass]) -> Pass:
    return {name: statistics.median(p[name] for p in passes) for name in passes[0]}


def microseconds(calls: dict[str, Call], threads: int, seconds: float, turns: int = 2) -> Pass:
    """On the CPU: the median of each call; the calls take turns and share the time."""
    timers = {name: Timer("call()", globals={"call": call}, num_threads=threads) for name, call in calls.items()}
    runs: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(turns):
        for name, timer in timers.items():
            runs[name] += timer.blocked_autorange(min_run_time=seconds / turns).times
    return {name: torch.tensor(times).median().item() * 1e6 for name, times in runs.items()}


def _queue(calls: Sequence[Call]) -> list[object]:
    """Runs the calls and keeps all results until the end: one that reused another's memory would find it in the L2."""
    return [call() for call in calls]


def _by_events(queue: Callable[[], object]) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(AHEAD)
    start.record()
    queue()
    end.record()
    end.synchronize()
    return 1000 * float(start.elapsed_time(end))


def on_gpu(calls: Sequence[Call], replayed: bool) -> Measurement:
    """Measures these calls, one after another; replayed, many rounds of them as one CUDA graph."""
    for _ in range(2):  # first calls load, compile and allocate
        _queue(calls)
    torch.cuda.synchronize()
    if not replayed:
        return lambda: _by_events(lambda: _queue(calls)) / len(calls)
    rounds = max(GRAPHED // len(calls), 1)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(rounds):
            _queue(calls)
    graph.replay()
    return lambda: _by_events(graph.replay) / (rounds * len(calls))


def dry(calls: Sequence[Call], replayed: bool) -> Measurement:
    """Runs every call once, where there is no GPU, and reports the same time for each."""
    return lambda: 100.0 * len(_queue(calls)) / len(calls)
