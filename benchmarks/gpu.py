"""Compares the operators on an NVIDIA GPU with a copy of as many bytes and with torch's idioms, eager and compiled.

    python benchmarks/bench.py --device cuda [--size "1 GB" …] [--case TEXT …] [--compiled "1 GB" …] [--minutes 7]
    python benchmarks/bench.py --device cuda --dry-run

Calls of up to 16 MB are measured as replays of a CUDA graph of many of them, larger ones one by one. From 16 MB on,
calls cycle through so many inputs and results that each has to come from memory: together they are at least four times
as large as the GPU's L2 cache. 64 KB stay in it, as they would between two operators. Each result is first compared
with the idiom's.

Writes benchmarks/results/gpu-<model>.json and a table (.md) beside it, anew with every case, and at the end a picture
(.png); with --size or --case they go to --also alone. Cases that have targets come first, and of them those of 1 GB.
Compiling comes last and takes most of the time; cases for which none is left are skipped and listed. --dry-run does
everything but the timing, on the CPU and at a tiny size.
"""

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import gpu_fused
import gpu_summary
import picture
import results_file
import torch
from cases import GPU_SIZES, SHAPES, Case, gpu_cases
from frameworks import Call, ours, torch_compiled, torch_eager, torch_out
from gpu_timing import CudaTimer, DryTimer, Timer
from torch import Tensor
from tqdm import tqdm

TURNS, RUNS = 3, 5  # the median of so many runs, in so many turns
REPLAYED = ("64 KB", "16 MB")  # as CUDA graphs
NOT_REPLAYED = "torch_out"  # it copies from temporary host memory, which is reused by the time a graph is replayed
COMPILED = "torch_compiled"
TINY = (2, 8, 128)  # the shape that stands for every size in a dry run

Row = dict[str, Any]


def input_of(case: Case, device: str) -> Tensor:
    """The input, in the case's layout, made on the device: gigabytes take the host seconds."""
    shape = list(case.shape)
    order = {"transposed": [0, 2, 1], "channels last": [0, 2, 3, 1]}.get(case.layout, list(range(len(shape))))
    dense = torch.empty([shape[d] for d in order], dtype=getattr(torch, case.dtype), device=device).random_(0, 100)
    return dense.permute([order.index(d) for d in range(len(shape))])


def tensors(result: object) -> list[Tensor]:
    return list(result) if isinstance(result, list | tuple) else [result]  # type: ignore[list-item]


def the_same(mine: Call, theirs: Call) -> bool:
    """Whether the results are equal. Ours is first overwritten, so that every element must be written anew."""
    for t in tensors(mine()):
        t.fill_(101)  # a value that no input has
    return all(torch.equal(a, b) for a, b in zip(tensors(mine()), tensors(theirs()), strict=True))


def most_informative_first(cases: Sequence[Case]) -> list[Case]:
    sizes = ["1 GB", "64 KB", "16 MB", "4 GB"]
    return sorted(cases, key=lambda case: (not case.target, case.dtype != "float32", sizes.index(case.size)))


class Benchmark:
    def __init__(self, device: str, timer: Timer, l2_bytes: int, deadline: float, backend: str) -> None:
        self.device, self.timer, self.l2_bytes, self.deadline, self.backend = device, timer, l2_bytes, deadline, backend
        self.rows: list[Row] = []
        self.skipped: list[str] = []
        self.failed = False  # a result was wrong, or a call of ours did not run

    def inputs(self, case: Case) -> list[Tensor]:
        sets = 1 if case.size == "64 KB" else math.ceil(4 * self.l2_bytes / case.bytes_in_sectors)
        return [input_of(case, self.device) for _ in range(max(sets, 1))]

    def copies(self, case: Case, sets: int) -> list[Call]:
        """The yardstick: a copy that reads and writes as many bytes in total as the case. At 64 KB it allocates a new
        result, as the case does."""
        moved = case.bytes_in_sectors // 2

        def copy() -> Call:
            x = torch.empty(moved, dtype=torch.uint8, device=self.device).random_()
            if case.form == "fresh":
                return x.clone
            y = torch.empty_like(x)
            return lambda: y.copy_(x)

        return [copy() for _ in range(sets)]

    def times(self, case: Case, peers: dict[str, list[Call]]) -> dict[str, list[float]]:
        """Microseconds of each peer: the median of every turn."""
        measurements = {}
        for name, calls in peers.items():
            replayed = case.size in REPLAYED and name != NOT_REPLAYED
            try:
                measurements[name] = self.timer.measurement(calls, replayed)
            except RuntimeError as error:
                if name in ("ours", "copy"):
                    raise
                self.skip(case, name, error)
        turns: dict[str, list[float]] = {name: [] for name in measurements}
        for _ in range(TURNS):
            for name, measure in measurements.items():
                turns[name].append(statistics.median(measure() for _ in range(RUNS)))
        return turns

    def measure(self, case: Case) -> None:
        """Adds a row: ours, a copy, and what torch does without compiling."""
        fresh = replace(case, form="fresh")
        inputs = self.inputs(case)
        peers = {"ours": [ours.prepare(case, x) for x in inputs], "copy": self.copies(case, len(inputs))}
        for name, module in (("torch_eager", torch_eager), ("torch_out", torch_out)):
            calls = [call for x in inputs if (call := module.prepare(fresh, x))]
            if not calls or (name == NOT_REPLAYED and case.size == "64 KB"):
                continue
            if not the_same(peers["ours"][0], calls[0]):
                raise RuntimeError(f"the result is not that of {name}")
            peers[name] = calls
        turns = self.times(case, peers)
        us = {name: statistics.median(times) for name, times in turns.items()}
        of_copy = [copy / mine for copy, mine in zip(turns["copy"], turns["ours"], strict=True)]
        self.rows.append(
            {
                "case": case.key,
                "name": case.name,
                "size": case.size,
                "dtype": case.dtype,
                "layout": case.layout,
                "lengths": case.lengths,
                "target": case.target,
                "bytes": case.bytes_in_sectors,
                "us": us,
                "spread": {name: (max(times) - min(times)) / us[name] for name, times in turns.items()},
                "of_copy": statistics.median(of_copy),
                "of_copy_range": [min(of_copy), max(of_copy)],
            }
        )

    def measure_compiled(self, case: Case) -> None:
        """Adds the compiled idiom to the case's row."""
        inputs = self.inputs(case)
        calls = [torch_compiled.prepare(replace(case, form="fresh"), x, self.backend) for x in inputs]
        turns = self.times(case, {COMPILED: [call for call in calls if call]})
        if COMPILED in turns:
            row = next(row for row in self.rows if row["case"] == case.key)
            row["us"][COMPILED] = statistics.median(turns[COMPILED])

    def skip(self, case: Case, what: str, why: object) -> None:
        self.skipped.append(f"{case.key}, {what}: {str(why).splitlines()[0]}")

    def each(self, cases: Sequence[Case], measure: Callable[[Case], None], what: str, save: Callable[[], None]) -> None:
        """Measures the cases while there is time, and saves what is known after each."""
        for case in tqdm(most_informative_first(cases), desc=what, unit="case"):
            if time.monotonic() > self.deadline:
                self.skip(case, what, "no time left")
                continue
            try:
                measure(case)
            except RuntimeError as error:  # keeps the results of the other cases
                self.skip(case, what, error)
                self.failed |= what != COMPILED and not isinstance(error, torch.OutOfMemoryError)
            save()
            if self.device == "cuda":
                torch.cuda.empty_cache()  # sizes change from case to case


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench.py --device cuda", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", nargs="*", choices=GPU_SIZES, help="only these sizes")
    parser.add_argument("--case", nargs="*", default=[], help="only cases whose names contain one of these")
    parser.add_argument(
        "--compiled", nargs="*", choices=["1 GB", "4 GB"], default=["1 GB"], help="also compiled idioms"
    )
    parser.add_argument("--minutes", type=float, default=7, help="what is not begun by then is skipped")
    parser.add_argument(
        "--since", type=float, default=time.time(), metavar="SECONDS", help="when they began, in Unix time"
    )
    parser.add_argument("--dry-run", action="store_true", help="everything but the timing, on the CPU")
    parser.add_argument("--also", type=Path, help="a folder that gets a copy of the results")
    parsed = parser.parse_args(arguments)
    if not parsed.dry_run and not torch.cuda.is_available():
        parser.error("an NVIDIA GPU is needed, and torch sees none; --dry-run goes without")
    return parsed


def main(arguments: Sequence[str]) -> None:
    options = parse(arguments)
    began = time.monotonic() - (time.time() - options.since)
    deadline = began + 60 * options.minutes
    machine: dict[str, Any]
    if options.dry_run:
        SHAPES.update(dict.fromkeys(GPU_SIZES, TINY))
        benchmark = Benchmark("cpu", DryTimer(), 1 << 13, deadline, "eager")
        machine = {"machine": "dry-run"}
    else:
        gpu = torch.cuda.get_device_properties()
        benchmark = Benchmark("cuda", CudaTimer(), gpu.L2_cache_size, deadline, "inductor")
        machine = {"machine": results_file.machine_name("cuda"), "gpu": gpu.name, "l2_bytes": gpu.L2_cache_size}
    sizes = GPU_SIZES if options.size is None else options.size
    cases = [case for case in gpu_cases() if case.size in sizes]
    cases = [case for case in cases if not options.case or any(text in case.key for text in options.case)]
    to_compile = [case for case in cases if case.size in options.compiled and case.dtype == "float32"]
    whole = options.size is None and not options.case and not options.dry_run
    folders = [*([results_file.FOLDER] if whole else []), *([options.also] if options.also else [])]
    environment = results_file.environment()
    order = [case.key for case in cases]

    def results(finished: bool) -> dict[str, Any]:
        rows = sorted(benchmark.rows, key=lambda row: order.index(row["case"]))
        known = {"rows": rows, "skipped": benchmark.skipped, "seconds": round(time.monotonic() - began)}
        return environment | machine | known | {"finished": finished}

    def save(finished: bool = False) -> None:
        content = results(finished)
        for folder in folders:
            written = results_file.write(f"gpu-{machine['machine']}.json", content, folder)
            written.with_suffix(".md").write_text(f"{gpu_summary.targets(content)}\n{gpu_summary.table(content)}")
            if finished:
                picture.draw_gpu(content, written.with_suffix(".png"))

    with torch.no_grad():
        benchmark.each(cases, benchmark.measure, "all but compiled", save)
        done = {row["case"] for row in benchmark.rows}
        benchmark.each([case for case in to_compile if case.key in done], benchmark.measure_compiled, COMPILED, save)
    save(finished=True)
    for folder in folders:
        print(f"{folder}/gpu-{machine['machine']}.json, .md, .png")
    for line in benchmark.skipped:
        print(f"skipped: {line}")
    if options.dry_run:
        print("A dry run: every case was prepared, compared and called once. The times in it are made up.\n")
    content = results(finished=True)
    print(gpu_summary.targets(content) if whole else gpu_summary.table(content))
    if options.size is None and not options.case:
        name = machine["machine"]
        print(gpu_fused.measure(benchmark.device, benchmark.timer, benchmark.backend, deadline, name, folders))
    if benchmark.failed:
        sys.exit(1)
