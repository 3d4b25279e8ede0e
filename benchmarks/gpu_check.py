"""Runs the tests on this machine's NVIDIA GPU, some of them under compute-sanitizer too, and records the outcome.

    python benchmarks/gpu_check.py [--also FOLDER] [--minutes 8] [--since SECONDS]
    python benchmarks/gpu_check.py --dry-run --also FOLDER

Tests of the operators' results come first, then all others. Beside them run compute-sanitizer's tools, each in a
process of its own: memcheck (accesses out of bounds), racecheck (shared memory without a barrier), initcheck (memory
read before it is written) and synccheck (barriers that not all threads reach). A run stops after 30 failures, and is
stopped when the time is over. compute-sanitizer is first tried on a call that is right: some virtual machines refuse
it.

Nothing is fetched. Tests whose packages are missing are skipped.

Writes benchmarks/results/gpu-check-<gpu>.json (versions, counts, failures, outcome) after each run, and while tests run
a line for each of them to build/gpu-check/outcomes.jsonl; both go to FOLDER too. Exits with 1 where anything failed or
was not finished. --dry-run does the same on the CPU with the first test of each file.
"""

import argparse
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import results_file
import torch

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "build" / "gpu-check"
# Tests that do not use the GPU, or compile for minutes what is to run without one.
NOT_ON_GPU = [
    *("test_benchmarks.py", "test_build.py", "test_command_line.py", "test_demo.py", "test_docs.py", "test_imports.py"),
    *("test_cuda_compiled.py", "test_distributed.py", "test_inductor.py", "test_kernels.py", "test_notebooks.py"),
    *("test_onnx2torch.py", "test_onnx_export.py", "test_onnx_files.py", "test_onnx_import.py", "test_recipe.py"),
    *("test_checks.py", "test_onnx_refusals.py", "test_onnx_schemas.py"),
    *("test_fuzz_models.py", "test_mutants.py", "test_other_processors.py", "test_private_names.py", "test_soak.py"),
    *("test_explore.py", "test_overlap.py", "test_tables.py", "test_viz.py"),
]
NOR_THESE = "not has_loaded_everything"  # what other tests do, again in a process that has compiled before
# Tests of what the kernels do.
RESULTS = [
    *("test_cuda.py", "test_directml_examples.py", "test_results.py", "test_out.py", "test_unusual_inputs.py"),
    *("test_windows_and_lengths.py", "test_large_and_parallel.py", "test_properties.py"),
]
# Under the sanitizers: no graphs, which need the caching allocator that is switched off; nothing that asks how much
# memory is in use or takes gigabytes; of the properties, only those of results.
REDUCED = ["test_directml_examples.py", "test_cuda.py", "test_properties.py"]
REDUCED_TO = "not graph and not memory and not vmap and not too_large"
REDUCED_CASES = 12  # examples of each property
MOST_FAILURES = 30
OURS = "torch_dml_ops"  # part of the names of all our kernels
# Options that restrict a tool to our kernels. memcheck and initcheck watch all kernels: memory counts as initialized
# only if the tool sees the kernel that writes it.
TOOLS: dict[str, list[str]] = {
    "memcheck": [],
    "racecheck": ["--kernel-name", f"kns={OURS}"],
    "initcheck": [],
    "synccheck": ["--kernel-name", f"kns={OURS}"],
}
# Allocates memory through the driver.
PROBE = """
import ctypes
cuda, device, memory = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.c_uint64()
context = ctypes.c_void_p()
for name, *arguments in (
    ("cuInit", 0),
    ("cuDeviceGet", ctypes.byref(device), 0),
    ("cuDevicePrimaryCtxRetain", ctypes.byref(context), device),
    ("cuCtxSetCurrent", context),
    ("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(1024)),
):
    if error := getattr(cuda, name)(*arguments):
        raise SystemExit(f"{name} returns error {error}")
"""


@dataclass(frozen=True)
class Step:
    """A run of pytest; with a tool, under compute-sanitizer."""

    name: str
    tests: list[str]
    tool: str = ""


def test_files() -> dict[str, Path]:
    """By name, wherever they are."""
    return {path.name: path for path in (ROOT / "tests").rglob("test_*.py")}


def steps() -> list[list[Step]]:
    """What runs at the same time, each list in its order."""
    others = sorted({*test_files()} - {*NOT_ON_GPU, *RESULTS})
    plain = [Step("results", RESULTS), Step("all other tests", others)]
    return [plain, *([Step(f"compute-sanitizer {tool}", REDUCED, tool)] for tool in TOOLS)]


def run(command: list[str], variables: dict[str, str], seconds: float) -> int | None:
    """The command's exit code, None where it was stopped for taking longer."""
    process = subprocess.Popen(command, cwd=ROOT, env=variables, start_new_session=True)
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # its children too: under a sanitizer, the tests are one
        process.wait()
        return None


def outcomes(path: Path, name: str) -> dict[str, Any]:
    """Counts of a run, its failures, and the tests that were running when it ended."""
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    lines = [line for line in lines if line["run"] == name]
    ended = {line["test"]: line for line in lines if line["outcome"] != "started"}
    counts = Counter(line["outcome"] for line in ended.values())
    return {
        **{outcome: counts[outcome] for outcome in ("passed", "failed", "skipped")},
        "failures": [
            {k: line[k] for k in ("test", "message")} for line in ended.values() if line["outcome"] == "failed"
        ],
        "skipped_because": Counter(line["message"] for line in ended.values() if line["outcome"] == "skipped"),
        "unfinished": sorted({line["test"] for line in lines} - ended.keys()),
    }


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


def refusal(sanitizer: str | None) -> str | None:
    """Why compute-sanitizer cannot be used here, None where it can."""
    if sanitizer is None:
        return "compute-sanitizer is not installed"
    command = [sanitizer, "--tool", "memcheck", sys.executable, "-c", PROBE]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        return "compute-sanitizer did not get through an allocation in 60 seconds"
    text = done.stdout + done.stderr
    if done.returncode == 0 and "ERROR SUMMARY: 0 errors" in text:
        return None
    lines = [line.strip("= ") for line in text.splitlines()]
    said = [line for line in lines if line and not line.startswith(("COMPUTE-SANITIZER", "ERROR SUMMARY"))]
    return f"compute-sanitizer is refused here: {said[0] if said else f'exit code {done.returncode}'}"


class Check:
    def __init__(self, dry: bool, deadline: float, also: Path | None) -> None:
        self.dry, self.deadline = dry, deadline
        machine = "dry-run" if dry else results_file.machine_name("cuda")
        self.name = f"gpu-check-{machine}"
        self.folders = [*([] if dry else [results_file.FOLDER]), *([also] if also else [])]
        self.outcomes = (also or FOLDER) / "outcomes.jsonl"
        self.outcomes.parent.mkdir(parents=True, exist_ok=True)
        self.outcomes.unlink(missing_ok=True)
        self.runs: list[dict[str, Any]] = []
        self.one_at_a_time = threading.Lock()
        self.environment = results_file.environment()
        if not dry:
            self.environment |= {"gpu": torch.cuda.get_device_name(), "cuda": torch.version.cuda}
        self.sanitizer = shutil.which("compute-sanitizer", path=f"{os.environ['PATH']}:/usr/local/cuda/bin")
        self.refusal = refusal(self.sanitizer)

    def variables(self, step: Step) -> dict[str, str]:
        result = os.environ | {
            "TORCH_DML_OPS_TEST_DEVICE": "cpu" if self.dry else "cuda",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # other packages' plugins are not ours to debug here
            "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT / "benchmarks"), os.environ.get("PYTHONPATH")])),
            "GPU_CHECK_OUTCOMES": str(self.outcomes),
            "GPU_CHECK_RUN": step.name,
        }
        if self.dry:
            result["GPU_CHECK_DRY_RUN"] = "1"
        if self.dry or step.tool:
            result["TORCH_DML_OPS_CASES"] = str(REDUCED_CASES)
        if step.tool:
            # Each tensor has an allocation of its own, so that reading past its end is an error.
            result["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"
        return result

    def pytest(self, step: Step, prefix: list[str]) -> dict[str, Any]:
        command = [*prefix, sys.executable, "-m", "pytest", "-q", "-p", "gpu_outcomes", f"--maxfail={MOST_FAILURES}"]
        if step.tool:
            command += ["-k", REDUCED_TO]
        else:
            command += ["-k", NOR_THESE]
            if importlib.util.find_spec("xdist"):
                workers = str(min(14, max((os.cpu_count() or 1) - 2, 1)))
                command += ["-p", "xdist.plugin", "-n", workers, "--dist", "worksteal"]
        command += [str(test_files().get(name, name)) for name in step.tests]
        start = time.monotonic()
        code = run(command, self.variables(step), self.deadline - start)
        result = {"name": step.name, "exit_code": code, "seconds": round(time.monotonic() - start, 1)}
        return result | outcomes(self.outcomes, step.name)

    def sanitize(self, step: Step) -> dict[str, Any]:
        """Errors in torch's own kernels are recorded, but do not count as a failure."""
        assert self.sanitizer
        with tempfile.TemporaryDirectory() as folder:
            prefix = [self.sanitizer, "--tool", step.tool, "--target-processes", "all", *TOOLS[step.tool]]
            prefix += ["--log-file", f"{folder}/%p.txt"]  # one per process
            prefix += ["--show-backtrace", "no"]  # of the host: it names our library where torch's kernels are at fault
            result = self.pytest(step, prefix)
            log = "".join(path.read_text(errors="replace") for path in sorted(Path(folder).iterdir()))
        result |= findings(log)
        return result | ({"log": log[-4000:]} if result["in_our_kernels"] or not result["finished"] else {})

    def do(self, steps: list[Step]) -> None:
        for step in steps:
            if step.tool and self.refusal:
                result = {"name": step.name, "outcome": "left out", "why": self.refusal}
            elif time.monotonic() > self.deadline:
                result = {"name": step.name, "outcome": "unfinished", "why": "no time was left"}
            else:
                result = self.sanitize(step) if step.tool else self.pytest(step, [])
                result["outcome"] = outcome_of(result)
            with self.one_at_a_time:
                self.runs.append(result)
                print(summary(result), flush=True)
                self.write()

    @property
    def outcome(self) -> str:
        all_of = {run["outcome"] for run in self.runs}
        return next((outcome for outcome in ("failed", "unfinished") if outcome in all_of), "passed")

    def write(self, **more: Any) -> None:
        content = self.environment | {
            "examples_under_sanitizers": REDUCED_CASES,
            "runs": self.runs,
            "outcome": self.outcome,
            **more,
        }
        for folder in self.folders:
            results_file.write(f"{self.name}.json", content, folder)


def outcome_of(result: dict[str, Any]) -> str:
    if result["failed"] or result.get("in_our_kernels"):
        return "failed"
    if result["exit_code"] is None or result["unfinished"] or not result.get("finished", True):
        return "unfinished"
    return "passed" if result["exit_code"] == 0 and result["passed"] else "failed"


def summary(result: dict[str, Any]) -> str:
    if "why" in result:
        return f"{result['name']}: {result['outcome']}, {result['why']}"
    text = f"{result['name']}: {result['outcome']}, {result['passed']} passed, {result['failed']} failed, "
    text += f"{result['skipped']} skipped in {result['seconds']} s"
    if result["unfinished"]:
        text += f", stopped in {result['unfinished'][0]}"
    if "in_our_kernels" in result:
        text += f", errors found in our kernels: {result['in_our_kernels']}, elsewhere: {result['elsewhere']}"
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--also", type=Path, metavar="FOLDER", help="a folder that gets the results too")
    parser.add_argument("--minutes", type=float, default=8, help="what is not done by then is unfinished")
    parser.add_argument(
        "--since", type=float, default=time.time(), metavar="SECONDS", help="when they began, in Unix time"
    )
    parser.add_argument("--dry-run", action="store_true", help="the first test of each file, on the CPU")
    arguments = parser.parse_args()
    if not arguments.dry_run and not torch.cuda.is_available():
        parser.error("an NVIDIA GPU is needed, and torch sees none; --dry-run goes without")
    left = arguments.since + 60 * arguments.minutes - time.time()
    check = Check(arguments.dry_run, time.monotonic() + left, arguments.also)
    check.write()
    with ThreadPoolExecutor(len(steps())) as pool:
        list(pool.map(check.do, steps()))
    print(*map(summary, check.runs), sep="\n")
    print(f"{check.outcome}; {', '.join(str(folder / check.name) for folder in check.folders)}.json")
    return 0 if check.outcome == "passed" else 1


if __name__ == "__main__":
    sys.exit(main())
