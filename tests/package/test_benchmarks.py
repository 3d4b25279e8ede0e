"""The benchmarks run: a few cases, without asking how fast."""

import copy
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from processes import HIDDEN, ROOT, run_program, run_python, started

pytestmark = pytest.mark.thorough

FOLDER = ROOT / "benchmarks"


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return started(sys.executable, FOLDER / "bench.py", *arguments)


def test_each_peer_measures_what_it_can() -> None:
    peers = ["torch_eager", "torch_copy", "numpy_arrays", "onnx_runtime"]
    names = ["stride -1, last axis, 64 KB", "split last axis in 3, 64 KB", "a length per column, 64 KB"]
    done = bench("--quick", "--threads", "1", "--peer", *peers, "--case", *names)
    assert done.returncode == 0, done.stderr
    rows = re.findall(r"\| (.+), 64 KB, fresh \| [\d.]+ \| [\d.]+ \((.+)\) \|", done.stdout)
    assert [name for name, _ in rows] == [
        "stride -1, last axis",
        "split last axis in 3",
        "reverse axis 1, a length per column",
    ]
    assert all(peer in peers for _, peer in rows)
    assert rows[2][1] == "torch_eager"  # the only one of them that can


def test_exported_models_have_a_table() -> None:
    case = "join last axis of 3, 4 MB, out"
    done = bench("--threads", "1", "--peer", "onnx_runtime", "onnx_exported", "--case", case)
    assert done.returncode == 0, done.stderr
    _, _, table = done.stdout.partition("## Exported to ONNX, in ONNX Runtime\n")
    assert re.search(rf"^\| {case} \| 1 \| [\d.]+ \| [\d.]+ \| [\d.]+ \|$", table, re.M), done.stdout


@pytest.fixture
def call_instructions(benchmark: Any) -> Any:
    return benchmark("call_instructions")


def test_no_form_of_call_takes_other_instructions_than_were_written(call_instructions: Any) -> None:
    written = json.loads(call_instructions.RESULTS.read_text())
    if (reason := call_instructions.missing()) is not None:
        pytest.skip(reason)
    if written["versions"] != call_instructions.versions():
        pytest.skip(f"instructions were counted with {written['versions']}")
    # Recorded calls leave nodes behind, and pay for memory that grows now and then: by a tenth in some processes.
    rows = [row for row in call_instructions.count() if "recorded" not in row["call"]]
    assert len(rows) > 25
    assert call_instructions.changed(written["rows"], rows) == []


def test_calls_whose_instructions_change_are_named(call_instructions: Any) -> None:
    before = [{"call": "a", "instructions": 1000}, {"call": "b", "instructions": 1000}]
    now = [{"call": "a", "instructions": 1049}, {"call": "b", "instructions": 940}, {"call": "c", "instructions": 1}]
    assert call_instructions.changed(before, now) == [
        "b: 940 instructions, before 1000",
        "c: 1 instructions, before None",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--peer torch", "--peer: there is no torch, only torch_eager, torch_compiled, torch_copy, numpy_arrays, "),
        ("--case copy clone", "--case: no case's name contains 'copy' or 'clone'\n"),
        ("--threads 0", "--threads: must be at least 1, got 0\n"),
    ],
)
def test_what_there_is_not_is_refused(
    arguments: str, message: str, benchmark: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["bench.py", *arguments.split()])
    with pytest.raises(SystemExit, match=r"^2$"):
        benchmark("bench").main()
    assert f"error: {message}" in capsys.readouterr().err


def test_cases_agree_with_what_frameworks_give() -> None:
    """What is compared does the same: our results and the torch idiom's, of every case at the smallest size."""
    program = """
import cases, numpy, torch
from frameworks import numpy_arrays, onnx_exported, ours, torch_eager
def arrays(result):
    return [numpy.asarray(r) for r in (result if isinstance(result, list | tuple) else [result])]
seen = 0
for case in cases.all_cases():
    if case.size != "64 KB" or case.form != "fresh":
        continue
    expected = arrays(ours.prepare(case)())
    calls = [peer.prepare(case) for peer in (torch_eager, numpy_arrays)]
    if case.name in onnx_exported.NAMES:
        inputs = [torch.from_numpy(x) for x in onnx_exported.inputs_of(case)]
        calls.append(lambda: onnx_exported.Model(case)(*inputs))
    for call in calls:
        if call:
            assert all(numpy.array_equal(a, b) for a, b in zip(expected, arrays(call()), strict=True)), case.key
            seen += 1
print(seen)
"""
    assert int(run_python("-c", program, cwd=FOLDER)) > 30


def cases_named_in(source: str) -> list[str]:
    """The references [case NAME] in comments, which may go on in the next line; nothing else in brackets has a size."""
    comments = re.sub(r"\n\s*// ?", " ", source)
    assert re.findall(r"\[(?!case )[a-z][^\]]* [KMG]B\b[^\]]*\]", comments) == []
    return re.findall(r"\[case ([^\]]+)\]", comments)


def test_cases_that_kernels_name_are_measured() -> None:
    """The fast paths name their benchmark cases as `bench.py --case` takes them: by a part of the name."""
    assert cases_named_in("// Fast. [case stride 2,\n  // last axis, 4 MB]\nf[k];") == ["stride 2, last axis, 4 MB"]
    with pytest.raises(AssertionError):
        cases_named_in("// [stride 2, last axis, 4 MB]")
    program = "import cases; print(*(case.key for case in cases.all_cases() + cases.gpu_cases()), sep='\\n')"
    measured = run_python("-c", program, cwd=FOLDER).splitlines()
    files = [path for path in (ROOT / "csrc").rglob("*") if path.is_file()]
    named = [(path.name, name) for path in files for name in cases_named_in(path.read_text())]
    assert len(named) > 15
    assert [(file, name) for file, name in named if not any(name in key for key in measured)] == []


def test_the_pages_quote_the_results_whose_picture_the_readme_shows() -> None:
    [machine] = re.findall(r"\(benchmarks/results/cpu-(.+)\.readme\.png\)", (ROOT / "README.md").read_text())
    results = FOLDER / "results" / f"cpu-{machine}.json"
    for suffix in (".md", ".png", ".readme.png"):
        assert results.with_suffix(suffix).exists()
    program = """
import json, re, sys, summary
content = json.load(open(sys.argv[1]))
for path in summary.PAGES:
    page = path.read_text()
    emptied, found = re.subn(r"(<!-- (\\w+): written .* -->\\n)(?:.|\\n)+?(?=<!-- end of \\2 -->)", r"\\1", page)
    print(path.name, found, summary.quoted(emptied, content) == page != emptied)
"""
    done = run_python("-c", program, results, cwd=FOLDER)
    assert done == "README.md 1 True\nperformance.md 1 True\nonnx.md 1 True\n", "benchmarks/summary.py --update"


def test_levels_of_a_processor_are_compared_case_by_case(benchmark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TORCH_DML_OPS_SIMD", raising=False)
    own = benchmark("results_file").machine_name("cpu")
    monkeypatch.setenv("TORCH_DML_OPS_SIMD", "avx2")
    assert benchmark("results_file").machine_name("cpu") == f"{own}-avx2"
    content = json.loads((FOLDER / "results" / "cpu-amd-epyc.json").read_text())
    assert "thread(s)" not in benchmark("summary").beside(content, content)
    other = copy.deepcopy(content)
    slower = next(row for row in other["rows"] if "copy" in row)
    slower["ratio_to_copy"] *= 2
    text = benchmark("summary").beside(content, other)
    assert re.findall(r"\| (.+), 1 thread\(s\) \| ([\d.]+) \|", text) == [(slower["case"], "2.00")]


# On a GPU: everything but the GPU is run here.


def test_make_fetches_nothing_for_a_gpu() -> None:
    for target in ("gpu-check", "bench-gpu"):
        command = ["make", "-n", "--no-print-directory", target, "OUT=out", "PYTHON=python3"]
        # What `make test` passes on to its children, this test among them, is not a user's.
        said = run_program("env", *(f"-u{name}" for name in os.environ if name.startswith("MAKE")), *command, cwd=ROOT)
        [install] = [line for line in said.splitlines() if " pip install " in line]
        assert {"--no-deps", "--no-index"} <= {*install.split()}
        script = "gpu_check.py" if target == "gpu-check" else "bench.py --device cuda"
        assert re.search(rf"benchmarks/{script} --since \d+ --also 'out'$", said.strip())


# Plays compute-sanitizer: runs the command, and finds nothing. It takes the probe for granted, which needs a driver.
SANITIZER = """#!{python}
import os, subprocess, sys
options = {{}}
while sys.argv[1].startswith("--"):
    options[sys.argv[1]] = sys.argv[2]
    del sys.argv[1:3]
code = 0 if "cuInit" in sys.argv[-1] else subprocess.run(sys.argv[1:]).returncode
log = open(options["--log-file"].replace("%p", str(os.getpid())), "w") if "--log-file" in options else sys.stdout
print("========= COMPUTE-SANITIZER\\n========= ERROR SUMMARY: 0 errors", file=log)
sys.exit(code)
"""

# A machine with a GPU may lack these.
MISSING = ["gcovr", "myst_nb", "myst_parser", "nbclient", "nbformat", "sktime", "sphinx"]


def test_gpu_check_runs_every_step_and_keeps_every_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, benchmark: Callable[[str], ModuleType]
) -> None:
    (tmp_path / "sitecustomize.py").write_text(f"{HIDDEN}hide({MISSING})")
    sanitizer = tmp_path / "compute-sanitizer"
    sanitizer.write_text(SANITIZER.format(python=sys.executable))
    sanitizer.chmod(0o755)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("TORCH_DML_OPS_PART", "16")  # of tests that all run elsewhere
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    run_python(FOLDER / "gpu_check.py", "--dry-run", "--also", tmp_path, "--minutes", 30)
    content = json.loads((tmp_path / "gpu-check-dry-run.json").read_text())
    assert content["outcome"] == "passed"
    sanitized = [f"compute-sanitizer {tool}" for tool in ("initcheck", "memcheck", "racecheck", "synccheck")]
    assert sorted(run["name"] for run in content["runs"]) == ["all other tests", *sanitized, "results"]
    lines = [json.loads(line) for line in (tmp_path / "outcomes.jsonl").read_text().splitlines()]
    ended = [line for line in lines if line["outcome"] != "started"]
    for run in content["runs"]:
        assert run["passed"] > 0
        assert sum(line["run"] == run["name"] for line in ended) == run["passed"] + run["skipped"]
    tested = {Path(line["test"].partition("::")[0]).name for line in ended}
    everything = {path.name for path in (ROOT / "tests").rglob("test_*.py")}
    assert everything - tested == {*benchmark("gpu_check").NOT_ON_GPU}


def test_gpu_check_without_time_leaves_nothing_passed(tmp_path: Path) -> None:
    arguments = "--dry-run", "--also", tmp_path, "--minutes", 1, "--since", time.time() - 60
    done = started(sys.executable, FOLDER / "gpu_check.py", *arguments)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "results: unfinished, no time was left\n" in done.stdout
    assert json.loads((tmp_path / "gpu-check-dry-run.json").read_text())["outcome"] == "unfinished"


TESTS = """
import os, pathlib, pytest, signal, time
def test_right(): pass
def test_wrong(): assert 1 == 2
def test_not_here(): pytest.skip("needs two of them")
def test_that_takes_everything_with_it(request):
    # Under pytest-xdist another process writes that this test has begun, some time after it has.
    while request.node.nodeid not in pathlib.Path(os.environ["GPU_CHECK_OUTCOMES"]).read_text():
        time.sleep(0.01)
    os.killpg(0, signal.SIGKILL)
def test_never_begun(): pass
"""


def test_gpu_check_keeps_what_a_run_that_ended_early_did(tmp_path: Path) -> None:
    """So also with one that is killed because the time is over."""
    (tmp_path / "test_few.py").write_text(TESTS)
    (tmp_path / "test_broken.py").write_text("import no_such_package")
    program = """
import json, sys, time
from pathlib import Path
from types import ModuleType
import gpu_check
folder = Path(sys.argv[1])
variables = gpu_check.Check.variables
gpu_check.Check.variables = lambda self, step: {k: v for k, v in variables(self, step).items() if "DRY" not in k}
check = gpu_check.Check(dry=True, deadline=time.monotonic() + 600, also=folder)
check.do([gpu_check.Step(name, [str(folder / name)]) for name in ("test_few.py", "test_broken.py")])
print(json.dumps(check.runs))
"""
    few, broken = json.loads(run_python("-c", program, tmp_path, cwd=FOLDER).splitlines()[-1])
    assert (few["passed"], few["failed"], few["skipped"], few["outcome"]) == (1, 1, 1, "failed")
    assert [failure["test"].partition("::")[2] for failure in few["failures"]] == ["test_wrong"]
    assert "assert 1 == 2" in few["failures"][0]["message"]
    assert few["skipped_because"] == {"Skipped: needs two of them": 1}
    assert [test.partition("::")[2] for test in few["unfinished"]] == ["test_that_takes_everything_with_it"]
    assert (broken["failed"], broken["outcome"]) == (1, "failed")
    assert "no_such_package" in broken["failures"][0]["message"]


GPU_CHECK = """
import os, sys
from pathlib import Path
from types import ModuleType
from gpu_check import findings, outcome_of, refusal
read = "========= Uninitialized __global__ memory read of size 4 bytes\\n=========     at {}+0x70\\n"
log = "========= COMPUTE-SANITIZER\\n" + read.format("at::native::gather(int*)") + 2 * read.format(
    "void torch_dml_ops::cuda::<unnamed>::affine_copy<int>(int)"
)
assert findings(log) == {"in_our_kernels": 2, "elsewhere": 1, "finished": 0}
assert findings(log + "========= ERROR SUMMARY: 3 errors\\n")["finished"]
race = "========= COMPUTE-SANITIZER\\n"
race += "========= Error: Race reported between Write access at torch_dml_ops::cuda::f+0x10\\n"
race += "=========     and Read access at torch_dml_ops::cuda::f+0x20 [64 hazards]\\n"
race += "========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)\\n"
assert findings(race) == {"in_our_kernels": 1, "elsewhere": 0, "finished": 1}

right = {"passed": 5, "failed": 0, "exit_code": 0, "unfinished": []}
for change, outcome in (
    ({}, "passed"),
    ({"passed": 0}, "failed"),  # nothing was selected
    ({"failed": 1, "exit_code": None}, "failed"),
    ({"exit_code": None}, "unfinished"),
    ({"exit_code": 1}, "failed"),
    ({"in_our_kernels": 0, "elsewhere": 3, "finished": 1}, "passed"),
    ({"in_our_kernels": 1, "elsewhere": 0, "finished": 1}, "failed"),
    ({"in_our_kernels": 0, "elsewhere": 0, "finished": 0}, "unfinished"),
):
    assert outcome_of(right | change) == outcome, change

sanitizer = Path(sys.argv[1], "compute-sanitizer")
for output, code, expected in (
    ("========= COMPUTE-SANITIZER\\n========= ERROR SUMMARY: 0 errors", 0, None),
    ("========= COMPUTE-SANITIZER\\n========= Device not supported\\ncuMemAlloc_v2 returns error 999\\n"
     "========= ERROR SUMMARY: 0 errors", 1, "compute-sanitizer is refused here: Device not supported"),
    ("", 127, "compute-sanitizer is refused here: exit code 127"),
):
    sanitizer.write_text(f"#!/bin/sh\\ncat <<'END'\\n{output}\\nEND\\nexit {code}\\n")
    sanitizer.chmod(0o755)
    assert refusal(str(sanitizer)) == expected, refusal(str(sanitizer))
assert refusal(None) == "compute-sanitizer is not installed"
"""


def test_gpu_check_understands_compute_sanitizer(tmp_path: Path) -> None:
    run_python("-c", GPU_CHECK, tmp_path, cwd=FOLDER)


def test_fused_code_is_compared_with_kernels() -> None:
    names = ["relu(op * 2 + 1): stride -1, last axis, 64 KB, 1 thread", "op: window, last axis halved, 1 KB"]
    printed = run_python(FOLDER / "bench.py", "--fused", "--threads", 1, "--seconds", 0.01, "--case", *names)
    assert re.search(r"\| the result is small \| 1 \| [\d.]+ \| [\d.]+: relu\(op", printed), printed
    assert re.search(r"\| all \| 2 \| [\d.]+ \|", printed), printed


def test_gpu_benchmark_prepares_checks_and_calls_every_case(tmp_path: Path) -> None:
    done = bench("--device", "cuda", "--dry-run", "--also", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "skipped" not in done.stdout, done.stdout
    content = json.loads((tmp_path / "gpu-dry-run.json").read_text())
    rows = {row["case"]: row["us"] for row in content["rows"]}
    assert len(rows) > 150
    for size in ("64 KB", "16 MB", "1 GB", "4 GB"):
        assert sum(f", {size}, " in case for case in rows) >= 23
    assert all({"ours", "torch_copy", "torch_eager"} <= set(us) for us in rows.values())
    assert set(rows["split last axis in 64 unequal, 16 MB, out"]) == {"ours", "torch_copy", "torch_eager", "torch_out"}
    assert sum("torch_compiled" in us for us in rows.values()) > 40
    text = (tmp_path / "gpu-dry-run.md").read_text()
    assert "| split into 64 unequal pieces, by the better of torch's two ways; 16 MB | each 0.33 | 1.00 |" in text
    assert len(re.findall(r"\| (?:yes|no, \d+ over) \|", text)) == 9  # a line for every target
    assert (tmp_path / "gpu-dry-run.png").stat().st_size > 10_000

    compiled = json.loads((tmp_path / "fused-dry-run.json").read_text())["rows"]
    assert len(compiled) == 48
    assert all(row["us"]["fused"] and row["us"]["kernels"] for row in compiled)


KILLED = """
import os, sys, bench, gpu
measure = gpu.OnGpu.measure
def measure_two(self, case):
    if len(self.rows) == 2:
        os._exit(0)
    measure(self, case)
gpu.OnGpu.measure = measure_two
sys.argv[1:] = ["--device", "cuda", "--dry-run", "--also", sys.argv[1]]
bench.main()
"""


def test_gpu_benchmark_that_is_killed_keeps_its_rows(tmp_path: Path) -> None:
    """The cases that have targets come first, at 1 GB."""
    run_python("-c", KILLED, tmp_path, cwd=FOLDER)
    content = json.loads((tmp_path / "gpu-dry-run.json").read_text())
    rows = ["window, last axis halved, 1 GB, out", "stride -1, last axis, 1 GB, out"]
    assert [row["case"] for row in content["rows"]] == rows
    assert not content["finished"]
    table = (tmp_path / "gpu-dry-run.md").read_text()
    assert all(f"| {row} |" in table for row in rows)


def test_gpu_benchmark_says_what_it_skips() -> None:
    done = bench("--device", "cuda", "--dry-run", "--case", "join last axis of 2, 1 GB", "--minutes", "0")
    assert done.returncode == 0, done.stderr
    assert "skipped: join last axis of 2, 1 GB, out, all but compiled: no time left" in done.stdout


CUDA_TIMER = """
import contextlib, types, torch
from timing import on_gpu
now = 0.0  # milliseconds
launched = []  # while a graph is captured, instead of running
capturing = False
def call(ms):
    def called():
        global now
        if capturing: launched.append(ms)
        else: now += ms
    return called
class Event:
    def __init__(self, enable_timing): assert enable_timing
    def record(self): self.at = now
    def synchronize(self): pass
    def elapsed_time(self, end): return end.at - self.at
class Graph:
    def replay(self):
        global now
        now += sum(launched)
@contextlib.contextmanager
def graph(g):
    global capturing
    capturing = True
    yield
    capturing = False
def sleep(cycles):
    global now
    now += 100  # what is before the first event is not measured
torch.cuda = types.SimpleNamespace(Event=Event, _sleep=sleep, synchronize=lambda: None, CUDAGraph=Graph, graph=graph)
calls = [call(2.0), call(4.0)]
for replayed in (False, True):
    measure = on_gpu(calls, replayed)
    assert [measure(), measure()] == [3000.0, 3000.0], measure()
assert len(launched) == 200
"""


def test_cuda_timer_with_events_of_another_clock() -> None:
    run_python("-c", CUDA_TIMER, cwd=FOLDER)
