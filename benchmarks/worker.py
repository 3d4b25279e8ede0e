"""One process of the benchmark: frameworks that share a thread pool, measured in turns on each case.

Reads case numbers from standard input, one per line, and answers each with a line of JSON: microseconds by framework.
"""

import importlib
import json
import os
import signal
import sys

import torch
from cases import all_cases
from frameworks import Call
from torch.utils.benchmark import Timer


def microseconds(calls: dict[str, Call], threads: int, seconds: float, turns: int = 2) -> dict[str, float]:
    """The median of each call; the calls take turns and share the time."""
    timers = {name: Timer("call()", globals={"call": call}, num_threads=threads) for name, call in calls.items()}
    runs: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(turns):
        for name, timer in timers.items():
            runs[name] += timer.blocked_autorange(min_run_time=seconds / turns).times
    return {name: torch.tensor(times).median().item() * 1e6 for name, times in runs.items()}


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process ends when its standard input does
    frameworks, seconds = sys.argv[1].split(","), float(sys.argv[2])
    threads = int(os.environ["BENCHMARK_THREADS"])
    modules = {name: importlib.import_module(f"frameworks.{name}") for name in frameworks}
    cases = all_cases()
    torch.set_num_threads(threads)
    prepared = -1
    calls: dict[str, Call] = {}
    for line in sys.stdin:
        if int(line) != prepared:  # else it is another pass over the same case
            prepared, calls = int(line), {}  # frees the previous case's memory first
            for name, module in modules.items():
                if call := module.prepare(cases[prepared]):
                    calls[name] = call
        print(json.dumps(microseconds(calls, threads, seconds)), flush=True)


if __name__ == "__main__":
    main()
