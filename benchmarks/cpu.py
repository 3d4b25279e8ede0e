"""The operators on the CPU beside torch's idioms, eager and compiled, NumPy and ONNX Runtime.

A few of them also run exported to ONNX. Each framework has a process of its own (torch's idioms share ours). The
processes take turns, case by case, so that only one thread pool is busy at a time. A ratio is our time divided by the
other's: below 1, ours is faster. It is the median over the passes, each of which measures both.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

import torch
from cases import BYTES, Case, all_cases, measured_with_all_threads, selected
from results_file import Benchmark, Part, Row
from timing import Pass, medians

FOLDER = Path(__file__).parent
TORCH_PEERS = ["torch_eager", "torch_compiled", "torch_copy"]
OTHER_PEERS = ["numpy_arrays", "onnx_runtime", "onnx_exported"]
NO_PEERS = ["ours", "ours_small_pages", "torch_copy", "onnx_exported"]


class Worker:
    """A process that measures one case at a time and sleeps in between."""

    def __init__(self, frameworks: list[str], threads: int, seconds: float) -> None:
        self.frameworks = ", ".join(frameworks)
        environment = os.environ | {"BENCHMARK_THREADS": str(threads)}
        command = [sys.executable, str(FOLDER / "worker.py"), ",".join(frameworks), str(seconds)]
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def measure(self, case: Case) -> Pass:
        assert self.process.stdin
        assert self.process.stdout
        time.sleep(0.02)  # lets the threads of the previous process stop spinning for work
        self.process.stdin.write(f"{case.key}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process that measures {self.frameworks} ended with {self.process.wait()}")
        times: Pass = json.loads(line)
        return times

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


def row(case: Case, passes: Sequence[Pass]) -> Row:
    us = medians(passes)
    peers = [name for name in us if name not in NO_PEERS]
    spread = {k: (max(p[k] for p in passes) - min(p[k] for p in passes)) / us[k] for k in us}
    result = case.described | {"us": us, "spread": spread}
    for label, names in (("best_peer", peers), ("copy", [n for n in us if n == "torch_copy"])):
        if names:
            best = min(names, key=us.__getitem__)
            ratios = [p["ours"] / p[best] for p in passes]
            result[label] = best
            result[f"ratio_to_{label}"] = statistics.median(ratios)
            result[f"ratio_to_{label}_range"] = [min(ratios), max(ratios)]
    return result


def agree(passes: list[Pass]) -> bool:
    """Whether the three passes in the middle are within a tenth of each other, for our time and for the best peer's."""
    us = medians(passes)
    best = min((name for name in us if name != "ours"), key=us.__getitem__, default="ours")
    for name in {"ours", best}:
        middle = sorted(p[name] for p in passes)[len(passes) // 2 - 1 :][:3]
        if middle[-1] > 1.1 * middle[0]:
            return False
    return True


def other_calls(threads: int, seconds: float) -> list[Row]:
    """The calls of calls.py, as rows."""
    command = [sys.executable, str(FOLDER / "calls.py"), str(seconds)]
    environment = os.environ | {"BENCHMARK_THREADS": str(threads)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return [r | {"threads": threads, "ratio": r["ours_us"] / r["peer_us"]} for r in json.loads(done.stdout)]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="a subset for about two minutes")
    parser.add_argument("--peer", nargs="+", help="only these of " + ", ".join(TORCH_PEERS + OTHER_PEERS))
    parser.add_argument("--threads", nargs="+", type=int, help="default: 1 and all; with --quick, 1")


class OnCpu(Benchmark):
    kind = "cpu"

    def __init__(self, options: argparse.Namespace, refuse: Callable[[str], NoReturn]) -> None:
        super().__init__()
        wanted = options.peer or TORCH_PEERS + OTHER_PEERS
        if unknown := set(wanted) - set(TORCH_PEERS + OTHER_PEERS):
            refuse(f"--peer: there is no {', '.join(sorted(unknown))}, only {', '.join(TORCH_PEERS + OTHER_PEERS)}")
        if options.quick:
            wanted = [
                p for p in wanted if p not in ("onnx_runtime", "onnx_exported", "torch_copy")
            ]  # of the form "out"
        needed = {"onnx_runtime": ["onnx", "onnxruntime"], "onnx_exported": ["onnx", "onnxruntime", "onnxscript"]}
        if missing := sorted({name for peer in wanted for name in needed.get(peer, []) if not find_spec(name)}):
            refuse(f"missing: {', '.join(missing)}; pip install {' '.join(missing)}, or name other peers by --peer")
        if options.threads and min(options.threads) < 1:
            refuse(f"--threads: must be at least 1, got {min(options.threads)}")
        thread_counts = options.threads or ([1] if options.quick else sorted({1, torch.get_num_threads()}))
        self.passes, self.seconds = (1, 0.02) if options.quick else (3, 0.06)
        self.groups = [["ours", *(p for p in TORCH_PEERS if p in wanted)], *([p] for p in OTHER_PEERS if p in wanted)]
        if not (options.quick or options.peer):
            self.groups.append(["ours_small_pages"])
        self.with_calls = not options.case
        self.whole = not (options.quick or options.case or options.peer or options.threads)
        everything = all_cases()
        if options.quick:
            everything = [c for c in everything if c.size != "128 MB" and c.form == "fresh" and c.target and not c.row]
        part = [case for number, case in enumerate(everything) if measured_with_all_threads(number, case)]
        self.cases = {
            threads: selected(everything if threads == 1 or options.threads else part, options.case)
            for threads in thread_counts
        }
        self.more = {"bytes": BYTES, "calls": []}

    def parts(self) -> Iterator[Part]:
        for threads, cases in self.cases.items():
            workers = [Worker(group, threads, self.seconds) for group in self.groups]
            yield f"{threads} thread(s)", cases, partial(self.measure, workers, threads)
            for worker in workers:
                worker.close()
            if self.with_calls:
                self.more["calls"] += other_calls(threads, self.seconds)

    def measure(self, workers: Sequence[Worker], threads: int, case: Case) -> None:
        measured: list[Pass] = []
        # Something else may take a share of the machine for some seconds: then more passes, for the median.
        while len(measured) < self.passes or (self.passes > 1 and len(measured) < 9 and not agree(measured)):
            measured.append({k: t for w in workers for k, t in w.measure(case).items()})
        self.rows.append(row(case, measured) | {"threads": threads})
