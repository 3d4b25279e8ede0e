"""Runs the tests on this machine's NVIDIA GPU, some of them under compute-sanitizer too, and records the outcome.

    python benchmarks/gpu_check.py [--also FOLDER] [--minutes 8]

Under compute-sanitizer, where it is installed, run the examples of DirectML's texts, the tests of tests/test_cuda.py
but those of graphs and of memory, and eight properties of random calls with twelve examples each, 357 tests in all:
with memcheck (accesses out of bounds), initcheck (memory read before it is written), racecheck (shared memory without a
barrier) and synccheck (barriers that not all threads reach).

Writes benchmarks/results/gpu-check-<gpu>.json: versions, counts, outcome. Exits with 1 where anything failed.
"""

import argparse
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import results_file
import torch

ROOT = Path(__file__).parents[1]
# Tests of building, documents and benchmarks, which do not use the GPU.
NOT_ON_GPU = [
    *("test_benchmarks.py", "test_build.py", "test_demo.py", "test_docs.py", "test_kernels.py", "test_notebooks.py"),
    "test_viz.py",
]
# Under the sanitizers: no graphs, which need the caching allocator that is switched off; nothing that asks how much
# memory is in use or takes gigabytes; of the properties, only those of results.
REDUCED = [
    *("tests/test_examples.py", "tests/test_cuda.py", "tests/test_properties.py"),
    *("-k", "not graph and not memory and not 2_to_the_31 and not vmap and not numpy_index and not too_large"),
]
REDUCED_CASES = 12  # examples of each property
OURS = "torch_dml_ops"  # part of the names of all our kernels
# Options that restrict a tool to our kernels. memcheck and initcheck watch all kernels: memory counts as initialized
# only if the tool sees the kernel that writes it.
TOOLS: dict[str, list[str]] = {
    "memcheck": [],
    "initcheck": [],
    "racecheck": ["--kernel-name", f"kns={OURS}"],
    "synccheck": ["--kernel-name", f"kns={OURS}"],
}


def environment(sanitized: bool) -> dict[str, str]:
    result = os.environ | {"TORCH_DML_OPS_TEST_DEVICE": "cuda"}
    if sanitized:
        # Each tensor has an allocation of its own, so that reading past its end is an error.
        result |= {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "TORCH_DML_OPS_CASES": str(REDUCED_CASES)}
    return result


def run(command: list[str], variables: dict[str, str], seconds: float) -> int | None:
    """The command's exit code, None where it was stopped for taking longer."""
    process = subprocess.Popen(command, cwd=ROOT, env=variables, start_new_session=True)
    try:
        return process.wait(max(seconds, 1))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # its children too: under a sanitizer, the tests are one
        process.wait()
        return None


def run_pytest(
    name: str, arguments: list[str], prefix: list[str], variables: dict[str, str], seconds: float
) -> dict[str, Any]:
    """Counts of one run of pytest on the GPU."""
    print(f"--- {name}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        command = [*prefix, sys.executable, "-m", "pytest", "-q", "-x", f"--junitxml={report}", *arguments]
        start = time.monotonic()
        code = run(command, variables, seconds)
        taken = round(time.monotonic() - start, 1)
        counts = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
        if report.exists():
            for suite in ElementTree.parse(report).getroot().iter("testsuite"):
                counts = {k: counts[k] + int(suite.get(k, 0)) for k in counts}
    return {"name": name, "exit_code": code, "timed_out": code is None, "seconds": taken, **counts}


def findings(log: str) -> dict[str, int]:
    """How many errors a sanitizer's log reports in our kernels and in others, and whether the log is complete."""
    kinds = "Invalid|Uninitialized|Misaligned|Error:|Warning:|Race|Potential|Barrier|Program hit"
    reports = re.split(rf"\n(?==+ (?:{kinds}))", log)[1:]
    ours = sum(OURS in report for report in reports)
    return {
        "in_our_kernels": ours,
        "elsewhere": len(reports) - ours,
        "finished": int(bool(re.search("(?:ERROR|RACECHECK) SUMMARY", log))),
    }


def run_sanitizer(sanitizer: str, tool: str, seconds: float) -> dict[str, Any]:
    """One tool's run. Errors in torch's own kernels are recorded, but do not count as a failure."""
    with tempfile.TemporaryDirectory() as folder:
        prefix = [
            sanitizer,
            "--tool",
            tool,
            "--target-processes",
            "all",
            "--log-file",
            f"{folder}/%p.txt",
            *TOOLS[tool],
        ]
        prefix += ["--show-backtrace", "no"]  # of the host: it names our library where torch's kernels are at fault
        result = run_pytest(f"compute-sanitizer {tool}", REDUCED, prefix, environment(True), seconds)
        log = "".join(path.read_text(errors="replace") for path in sorted(Path(folder).iterdir()))  # one per process
        result |= findings(log)
        if result["in_our_kernels"] or not result["finished"]:
            print(log[-4000:])
    return result


def passed(result: dict[str, Any]) -> bool:
    right = result["exit_code"] == 0 and result["tests"] > 0
    return right and not result.get("in_our_kernels", 0) and bool(result.get("finished", True))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--also", help="a folder that gets a copy of the results")
    parser.add_argument("--minutes", type=float, default=8, help="what is not done by then counts as failed")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("an NVIDIA GPU is needed, and torch sees none")
    deadline = time.monotonic() + 60 * arguments.minutes
    tests = [str(p) for p in sorted((ROOT / "tests").glob("test_*.py")) if p.name not in NOT_ON_GPU]
    at_once = ["-n", str(min(4, os.cpu_count() or 1))] if importlib.util.find_spec("xdist") else []
    results = [run_pytest("all tests on cuda", [*tests, *at_once], [], environment(False), deadline - time.monotonic())]
    sanitizer = shutil.which("compute-sanitizer")
    for tool in TOOLS if sanitizer else ():
        assert sanitizer
        results.append(run_sanitizer(sanitizer, tool, deadline - time.monotonic()))
    right = all(map(passed, results))
    content = results_file.environment() | {
        "gpu": torch.cuda.get_device_name(),
        "cuda": torch.version.cuda,
        "compute_sanitizer": sanitizer is not None,
        "examples_under_sanitizers": REDUCED_CASES,
        "runs": results,
        "outcome": "passed" if right else "failed",
    }
    path = results_file.write(f"gpu-check-{results_file.machine_name('cuda')}.json", content)
    if arguments.also:
        results_file.copy_to(arguments.also, path)
    for result in results:
        found = f", found {result['in_our_kernels']} + {result['elsewhere']}" if "in_our_kernels" in result else ""
        print(f"{result['name']}: {result['tests']} tests, {result['seconds']} s, exit {result['exit_code']}{found}")
    print(f"{content['outcome']}; {path.relative_to(ROOT)}")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
