"""Compares the operators with what a user could use instead: torch's idioms, eager and compiled, NumPy, ONNX Runtime.

A few of them also run exported to ONNX.

    python benchmarks/bench.py [--quick] [--case TEXT …] [--peer NAME …] [--threads 1 2]
    python benchmarks/bench.py --device cuda …    on an NVIDIA GPU: see gpu.py

Each framework has a process of its own (torch's idioms share ours). The processes take turns, case by case, so that
only one thread pool is busy at a time. A full run writes benchmarks/results/cpu-<model>.json, a table (.md) and a
picture (.png) beside it; a restricted run prints its table. A ratio is our time divided by the other's: below 1, ours
is faster. It is the median over the passes, each of which measures both.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gpu
import picture
import results_file
import summary
import torch
from cases import BYTES, Case, all_cases, measured_with_all_threads
from tqdm import tqdm

from torch_dml_ops.__main__ import report

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

    def measure(self, number: int) -> dict[str, float]:
        assert self.process.stdin
        assert self.process.stdout
        time.sleep(0.02)  # lets the threads of the previous process stop spinning for work
        self.process.stdin.write(f"{number}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process that measures {self.frameworks} ended with {self.process.wait()}")
        times: dict[str, float] = json.loads(line)
        return times

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


def row(case: Case, threads: int, passes: list[dict[str, float]]) -> dict[str, Any]:
    medians = {name: statistics.median(p[name] for p in passes) for name in passes[0]}
    peers = {name: t for name, t in medians.items() if name not in NO_PEERS}
    result: dict[str, Any] = {
        "case": case.key,
        "name": case.name,
        "size": case.size,
        "form": case.form,
        "dtype": case.dtype,
        "layout": case.layout,
        "lengths": case.lengths,
        "target": case.target,
        "row": case.row,
        "threads": threads,
        "us": medians,
        "spread": {k: (max(p[k] for p in passes) - min(p[k] for p in passes)) / medians[k] for k in medians},
    }
    for label, names in (("best_peer", peers), ("copy", [n for n in medians if n == "torch_copy"])):
        if names:
            best = min(names, key=lambda name: medians[name])
            ratios = [p["ours"] / p[best] for p in passes]
            result[label] = best
            result[f"ratio_to_{label}"] = statistics.median(ratios)
            result[f"ratio_to_{label}_range"] = [min(ratios), max(ratios)]
    return result


def agree(passes: list[dict[str, float]]) -> bool:
    """Whether the three passes in the middle are within a tenth of each other, for our time and for the best peer's."""
    medians = {name: statistics.median(p[name] for p in passes) for name in passes[0]}
    best = min((name for name in medians if name != "ours"), key=medians.__getitem__, default="ours")
    for name in {"ours", best}:
        middle = sorted(p[name] for p in passes)[len(passes) // 2 - 1 :][:3]
        if middle[-1] > 1.1 * middle[0]:
            return False
    return True


def other_calls(threads: int, seconds: float) -> list[dict[str, Any]]:
    """The calls of calls.py, as rows."""
    command = [sys.executable, str(FOLDER / "calls.py"), str(seconds)]
    done = subprocess.run(
        command, env=os.environ | {"BENCHMARK_THREADS": str(threads)}, capture_output=True, text=True, check=True
    )
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return [r | {"threads": threads, "ratio": r["ours_us"] / r["peer_us"]} for r in rows]


def head(content: dict[str, Any]) -> str:
    """What a reader needs to know before the table."""
    versions = ", ".join(f"{name} {number}" for name, number in content["versions"].items())
    return f"""# Benchmark on {content["machine"]}

{content["machine"]}, {content["cores"]} cores, {content["build"]["SIMD level"]}; {versions};
{content["date"]}, commit {content["commit"]}. Made by `make bench`.

A ratio is the time of torch_dml_ops divided by another's: **below 1, torch_dml_ops is faster**. "fresh" allocates a
new result each time; its best peer is the fastest of eager torch, torch.compile and NumPy (which cannot reverse by
lengths). "out" writes into given memory; its peer is ONNX Runtime, whose arena keeps its memory, and its yardstick
`out.copy_()` of as many bytes: for strides along the last axis, the cache lines read and the bytes written; for other
layouts, a copy between the same layouts. torch.compile is not measured on rows of 500 items and the like; all threads
are on a third of the cases. A few of the operators also run in ONNX Runtime, exported. ± is half the range
of the passes. Arrays are (4, 32, 128), (16, 128, 512) and (64, 512, 1024) float32, unless stated otherwise.
"""


def table(rows: list[dict[str, Any]], calls: list[dict[str, Any]]) -> str:
    """Markdown: every case with its time, its spread over the passes, and its ratios; a table per thread count."""
    lines = []
    for threads in sorted({r["threads"] for r in rows}):
        lines += [f"## {threads} thread{'s' if threads > 1 else ''}", ""]
        lines += ["| case | µs | by the best peer | by copy_ |", "|---|---|---|---|"]
        for r in (r for r in rows if r["threads"] == threads):
            peer = f"{r['ratio_to_best_peer']:.2f} ({r['best_peer']})" if "best_peer" in r else ""
            copy = f"{r['ratio_to_copy']:.2f}" if "copy" in r else ""
            spread = f" ± {50 * r['spread']['ours']:.0f} %" if r["spread"]["ours"] else ""  # none of a single pass
            lines.append(f"| {r['case']} | {r['us']['ours']:.1f}{spread} | {peer} | {copy} |")
        lines.append("")
    lines += exported(rows)
    if calls:
        lines += ["## Calls", "", "| call | threads | µs | by |", "|---|---|---|---|"]
    lines += [f"| {c['name']} | {c['threads']} | {c['ours_us']:.1f} | {c['ratio']:.2f} ({c['peer']}) |" for c in calls]
    return "\n".join(lines) + "\n"


def exported(rows: list[dict[str, Any]]) -> list[str]:
    """A table of the cases whose operator was also exported to ONNX, beside the node that one would write by hand."""
    found = [r for r in rows if "onnx_exported" in r["us"]]
    if not found:
        return []
    lines = ["## Exported to ONNX, in ONNX Runtime", ""]
    lines += ["| case | threads | µs | by torch_dml_ops | by a node written by hand |", "|---|---|---|---|---|"]
    for r in found:
        us = r["us"]
        by_hand = f"{us['onnx_exported'] / us['onnx_runtime']:.2f}" if "onnx_runtime" in us else ""
        ratio = us["onnx_exported"] / us["ours"]
        lines.append(f"| {r['case']} | {r['threads']} | {us['onnx_exported']:.1f} | {ratio:.2f} | {by_hand} |")
    return [*lines, ""]


def main() -> None:
    device = argparse.ArgumentParser(add_help=False)
    device.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    chosen, others = device.parse_known_args()
    if chosen.device == "cuda":
        return gpu.main(others)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, parents=[device]
    )
    parser.add_argument("--quick", action="store_true", help="a subset for about two minutes")
    parser.add_argument(
        "--case", nargs="+", default=[], help='only cases that contain one of these, as "stride 2" or "4 MB, out"'
    )
    parser.add_argument("--peer", nargs="+", help="only these of " + ", ".join(TORCH_PEERS + OTHER_PEERS))
    parser.add_argument("--threads", nargs="+", type=int, help="default: 1 and all; with --quick, 1")
    parser.add_argument("--also", help="a folder that gets a copy of the results")
    arguments = parser.parse_args()
    wanted = arguments.peer or TORCH_PEERS + OTHER_PEERS
    if unknown := set(wanted) - set(TORCH_PEERS + OTHER_PEERS):
        parser.error(f"--peer: there is no {', '.join(sorted(unknown))}, only {', '.join(TORCH_PEERS + OTHER_PEERS)}")
    if arguments.quick:
        wanted = [p for p in wanted if p not in ("onnx_runtime", "onnx_exported", "torch_copy")]  # of the form "out"
    needed = {"onnx_runtime": ["onnx", "onnxruntime"], "onnx_exported": ["onnx", "onnxruntime", "onnxscript"]}
    missing = sorted({name for peer in wanted for name in needed.get(peer, []) if not find_spec(name)})
    if missing:
        parser.error(f"missing: {', '.join(missing)}; pip install {' '.join(missing)}, or name other peers by --peer")
    everything = all_cases()
    numbers = [
        k
        for k, case in enumerate(everything)
        if (not arguments.case or any(text in case.key for text in arguments.case))
        and (not arguments.quick or (case.size != "128 MB" and case.form == "fresh" and case.target and not case.row))
    ]
    if not numbers:
        parser.error(f"--case: no case's name contains {' or '.join(map(repr, arguments.case))}")
    if arguments.threads and min(arguments.threads) < 1:
        parser.error(f"--threads: must be at least 1, got {min(arguments.threads)}")
    all_threads = torch.get_num_threads()
    thread_counts = arguments.threads or ([1] if arguments.quick else sorted({1, all_threads}))
    passes, seconds = (1, 0.02) if arguments.quick else (3, 0.06)
    groups = [["ours", *(p for p in TORCH_PEERS if p in wanted)], *([p] for p in OTHER_PEERS if p in wanted)]
    if not (arguments.quick or arguments.peer):
        groups.append(["ours_small_pages"])

    machine = results_file.machine_name("cpu")
    print(f"{machine}, {os.cpu_count()} cores, {report()['SIMD level']}")
    measured_at = {
        threads: numbers
        if threads == thread_counts[0] or arguments.threads
        else [k for k in numbers if measured_with_all_threads(k, everything[k])]
        for threads in thread_counts
    }
    rows, calls = [], []
    with tqdm(total=sum(map(len, measured_at.values())), unit="case", smoothing=0.05) as progress:
        for threads in thread_counts:
            workers = [Worker(group, threads, seconds) for group in groups]
            for number in measured_at[threads]:
                measured: list[dict[str, float]] = []
                # Something else may take a share of the machine for some seconds: then more passes, for the median.
                while len(measured) < passes or (passes > 1 and len(measured) < 3 * passes and not agree(measured)):
                    measured.append({k: t for w in workers for k, t in w.measure(number).items()})
                rows.append(row(everything[number], threads, measured))
                progress.update()
            for worker in workers:
                worker.close()
            if not arguments.case:
                calls += other_calls(threads, seconds)

    results: dict[str, Any] = {"machine": machine, "bytes": BYTES, "rows": rows, "calls": calls}
    content = results_file.environment() | results
    if arguments.quick or arguments.case or arguments.peer or arguments.threads:
        print(table(rows, calls))
        return
    text = f"{head(content)}\n{summary.table(content)}\n{table(rows, calls)}"
    written = results_file.write(f"cpu-{machine}.json", content)
    written.with_suffix(".md").write_text(text)
    picture.draw(content, written.with_suffix(".png"))
    if arguments.also:
        results_file.copy_to(arguments.also, written)
    print(summary.table(content))
    print(f"{written.with_suffix('').relative_to(FOLDER.parent)}.json, .md, .png")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("interrupted; only results of a GPU are written before the end")
