"""Runs the tests on this machine's NVIDIA GPU, also under compute-sanitizer, and writes down what came of it.

    python benchmarks/gpu_check.py [--also FOLDER]

Writes benchmarks/results/gpu-check-<gpu>.json: versions, counts, outcome. Exits with 1 where anything failed.
"""

import argparse
import os
import shutil
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
# What concerns building and teaching, not the GPU.
NOT_ON_GPU = [
    "test_benchmarks.py",
    "test_build.py",
    "test_demo.py",
    "test_kernels.py",
    "test_notebooks.py",
    "test_viz.py",
]
REDUCED = ["tests/test_examples.py", "tests/test_cuda.py", "-k", "not graph and not memory and not 2_to_the_31"]


def run_pytest(name: str, arguments: list[str], prefix: list[str]) -> dict[str, Any]:
    """Counts of one run of pytest on the GPU."""
    print(f"--- {name}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        command = [*prefix, sys.executable, "-m", "pytest", "-q", "-x", f"--junitxml={report}", *arguments]
        start = time.monotonic()
        done = subprocess.run(command, cwd=ROOT, env=os.environ | {"TORCH_DML_OPS_TEST_DEVICE": "cuda"}, check=False)
        seconds = round(time.monotonic() - start, 1)
        counts = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
        if report.exists():
            for suite in ElementTree.parse(report).getroot().iter("testsuite"):
                counts = {k: counts[k] + int(suite.get(k, 0)) for k in counts}
    return {"name": name, "exit_code": done.returncode, "seconds": seconds, **counts}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--also", help="a folder that gets a copy of the results")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("an NVIDIA GPU is needed, and torch sees none")
    tests = [str(p) for p in sorted((ROOT / "tests").glob("test_*.py")) if p.name not in NOT_ON_GPU]
    runs = [run_pytest("all tests on cuda", tests, [])]
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer:
        prefix = [sanitizer, "--tool", "memcheck", "--error-exitcode", "1", "--target-processes", "all"]
        runs.append(run_pytest("compute-sanitizer memcheck", REDUCED, prefix))
    passed = all(run["exit_code"] == 0 and run["tests"] > 0 for run in runs)
    content = results_file.environment() | {
        "gpu": torch.cuda.get_device_name(),
        "cuda": torch.version.cuda,
        "compute_sanitizer": sanitizer is not None,
        "runs": runs,
        "outcome": "passed" if passed else "failed",
    }
    path = results_file.write(f"gpu-check-{results_file.machine_name('cuda')}.json", content)
    if arguments.also:
        results_file.copy_to(arguments.also, path)
    print(f"{content['outcome']}; {path.relative_to(ROOT)}")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
