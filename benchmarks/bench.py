"""Compares the operators with what a user could use instead.

    python benchmarks/bench.py [--quick] [--case TEXT …] [--peer NAME …] [--threads 1 2]     on the CPU: see cpu.py
    python benchmarks/bench.py --fused [--case TEXT …] [--threads 1 2] [--seconds 0.4]       compiled: see fused.py
    python benchmarks/bench.py --device cuda [--size "1 GB" …] [--case TEXT …] [--minutes 7] on a GPU: see gpu.py
    python benchmarks/bench.py --device cuda --dry-run

A full run writes benchmarks/results/cpu-<model>.json, fused-…, or gpu-… and fused-…, and a table (.md) and pictures
beside it; a restricted run prints its table.
"""

import argparse
import math
import sys
import time
from pathlib import Path
from typing import Any

import cpu
import fused
import gpu
import picture
import results_file
import summary
import torch
from results_file import Benchmark
from tqdm import tqdm


class Run:
    """Measures the cases of a benchmark and writes the results at the end. Where there is a deadline, it writes what is
    known after each case, and skips what cannot be measured."""

    def __init__(self, benchmark: Benchmark, machine: str, folders: list[Path], began: float, deadline: float) -> None:
        self.benchmark, self.machine, self.folders = benchmark, machine, folders
        self.began, self.deadline = began, deadline
        self.environment = results_file.environment()
        self.failed = False  # a result was wrong, or a call of ours did not run

    def content(self) -> dict[str, Any]:
        known = {"machine": self.machine, "rows": self.benchmark.rows, "skipped": self.benchmark.skipped}
        return self.environment | self.benchmark.more | known | {"seconds": round(time.monotonic() - self.began)}

    def write(self, finished: bool) -> None:
        content = self.content() | {"finished": finished}
        for folder in self.folders:
            written = results_file.write(f"{self.benchmark.kind}-{self.machine}.json", content, folder)
            written.with_suffix(".md").write_text(summary.page(self.benchmark.kind, content))
            if finished:
                picture.draw(self.benchmark.kind, content, written.with_suffix(".png"))
                print(f"{written.with_suffix('')}.json, .md, .png")

    def measure(self) -> None:
        for what, cases, measure in self.benchmark.parts():
            for case in tqdm(cases, desc=what, unit="case", smoothing=0.05):
                if time.monotonic() > self.deadline:
                    self.benchmark.skipped.append(f"{case.key}, {what}: no time left")
                    continue
                try:
                    measure(case)
                except (RuntimeError, AssertionError) as error:  # keeps the results of the other cases
                    if self.deadline == math.inf:
                        raise
                    self.benchmark.skipped.append(f"{case.key}, {what}: {str(error).splitlines()[0]}")
                    self.failed |= what != gpu.COMPILED and not isinstance(error, torch.OutOfMemoryError)
                if self.deadline < math.inf:
                    self.write(finished=False)
                if torch.cuda.is_available():
                    torch.cuda.empty_cache()  # sizes change from case to case
        self.write(finished=True)


def parse() -> tuple[argparse.Namespace, argparse.ArgumentParser]:
    first = argparse.ArgumentParser(add_help=False)
    which = first.add_mutually_exclusive_group()
    which.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    which.add_argument("--fused", action="store_true", help="compiled functions, with the operators fused and not")
    chosen, _ = first.parse_known_args()
    module = gpu if chosen.device == "cuda" else fused if chosen.fused else cpu
    parser = argparse.ArgumentParser(
        description=f"{__doc__}\n{module.__doc__}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[first],
    )
    parser.add_argument(
        "--case", nargs="+", default=[], help='only cases that contain one of these, as "stride 2" or "4 MB, out"'
    )
    parser.add_argument("--also", type=Path, help="a folder that gets the results too")
    module.add_arguments(parser)
    return parser.parse_args(), parser


def main() -> None:
    options, parser = parse()
    benchmarks: list[Benchmark]
    began, deadline, dry = time.monotonic(), math.inf, False
    if options.device == "cuda":
        benchmarks = [gpu.OnGpu(options, parser.error)]
        began -= time.time() - options.since
        deadline, dry = began + 60 * options.minutes, options.dry_run
        if benchmarks[0].whole:
            benchmarks.append(fused.OnGpu(options))
    else:
        benchmarks = [(fused if options.fused else cpu).OnCpu(options, parser.error)]
    if not any(benchmarks[0].cases.values()):
        parser.error(f"--case: no case's name contains {' or '.join(map(repr, options.case))}")
    machine = "dry-run" if dry else results_file.machine_name(options.device)
    if dry:
        print("A dry run: every case is prepared, compared and called once. The times in it are made up.\n")
    failed = False
    for benchmark in benchmarks:
        folders = [results_file.FOLDER] if benchmark.whole and not dry else []
        run = Run(benchmark, machine, folders + [options.also] * bool(options.also), began, deadline)
        run.measure()
        failed |= run.failed
        for line in benchmark.skipped:
            print(f"skipped: {line}")
        content = run.content()
        if not benchmark.whole:
            print(summary.cases(benchmark.kind, content))
        if benchmark.whole or benchmark.kind == "fused":
            print(summary.targets(benchmark.kind, content))
    if failed:
        sys.exit(1)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("interrupted; only results of a GPU are written before the end")
