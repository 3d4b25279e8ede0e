"""The benchmarks run: a few cases, without asking how fast."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(FOLDER / "bench.py"), *arguments], capture_output=True, text=True)


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


def test_what_there_is_not_is_refused() -> None:
    for arguments, message in (
        (
            ["--peer", "torch"],
            "--peer: there is no torch, only torch_eager, torch_compiled, torch_copy, numpy_arrays, onnx_runtime",
        ),
        (["--case", "copy", "clone"], "--case: no case's name contains 'copy' or 'clone'"),
        (["--threads", "0"], "--threads: must be at least 1, got 0"),
    ):
        done = bench(*arguments)
        assert done.returncode == 2
        assert done.stderr.endswith(f"error: {message}\n")


def test_cases_agree_with_what_frameworks_give() -> None:
    """What is compared does the same: our results and the torch idiom's, of every case at the smallest size."""
    program = """
import cases, numpy, torch
from frameworks import numpy_arrays, ours, torch_eager
def arrays(result):
    return [numpy.asarray(r) for r in (result if isinstance(result, list | tuple) else [result])]
seen = 0
for case in cases.all_cases():
    if case.size != "64 KB" or case.form != "fresh":
        continue
    expected = arrays(ours.prepare(case)())
    for peer in (torch_eager, numpy_arrays):
        if call := peer.prepare(case):
            assert all(numpy.array_equal(a, b) for a, b in zip(expected, arrays(call()), strict=True)), case.key
            seen += 1
print(seen)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=FOLDER, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 30


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
    done = subprocess.run([sys.executable, "-c", program], cwd=FOLDER, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    measured = done.stdout.splitlines()
    files = [path for path in (FOLDER.parent / "csrc").rglob("*") if path.is_file()]
    named = [(path.name, name) for path in files for name in cases_named_in(path.read_text())]
    assert len(named) > 15
    assert [(file, name) for file, name in named if not any(name in key for key in measured)] == []


def test_the_readme_quotes_the_results_whose_picture_it_shows() -> None:
    readme = (FOLDER.parent / "README.md").read_text()
    [picture] = re.findall(r"\(benchmarks/results/(cpu-.+)\.readme\.png\)", readme)
    results = FOLDER / "results" / f"{picture}.json"
    for suffix in (".md", ".png", ".readme.png"):
        assert results.with_suffix(suffix).exists()
    done = subprocess.run([sys.executable, str(FOLDER / "summary.py"), str(results)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    wanted = done.stdout[done.stdout.index("![") :].strip()
    assert f"<!-- figures: written by benchmarks/summary.py -->\n{wanted}\n<!-- end of figures -->" in readme, (
        f"what the README should quote, which benchmarks/summary.py writes with --update:\n{wanted}"
    )


def test_figures_are_written_into_the_readme_and_nothing_else_changes(tmp_path: Path) -> None:
    readme = (FOLDER.parent / "README.md").read_text()
    before, _, rest = readme.partition("<!-- figures: written by benchmarks/summary.py -->\n")
    old = tmp_path / "README.md"
    old.write_text(f"{before}<!-- figures: written by benchmarks/summary.py -->\nold\n{rest[rest.index('<!-- end') :]}")
    [picture] = re.findall(r"\(benchmarks/results/(cpu-.+)\.readme\.png\)", readme)
    command = [sys.executable, str(FOLDER / "summary.py"), str(FOLDER / "results" / f"{picture}.json")]
    done = subprocess.run([*command, "--update", str(old)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert old.read_text() == readme


GPU_CHECK = """
from gpu_check import findings
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
"""


def test_gpu_check_tells_our_kernels_from_others() -> None:
    done = subprocess.run([sys.executable, "-c", GPU_CHECK], cwd=FOLDER, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# On a GPU: everything but the events is run here.


def test_gpu_benchmark_prepares_checks_and_calls_every_case(tmp_path: Path) -> None:
    done = bench("--device", "cuda", "--dry-run", "--also", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "skipped" not in done.stdout, done.stdout
    content = json.loads((tmp_path / "gpu-dry-run.json").read_text())
    rows = {row["case"]: row["us"] for row in content["rows"]}
    assert len(rows) > 150
    for size in ("64 KB", "16 MB", "1 GB", "4 GB"):
        assert sum(f", {size}, " in case for case in rows) >= 23
    assert all({"ours", "copy", "torch_eager"} <= set(us) for us in rows.values())
    assert set(rows["split last axis in 64 unequal, 16 MB, out"]) == {"ours", "copy", "torch_eager", "torch_out"}
    assert sum("torch_compiled" in us for us in rows.values()) > 40
    text = (tmp_path / "gpu-dry-run.md").read_text()
    assert "| split into 64 unequal pieces, by the better of torch's two ways; 16 MB | 3.00 | 1.00 |" in text
    assert len(re.findall(r"\| (?:yes|no, \d+ under) \|", text)) == 9  # a line for every target
    assert (tmp_path / "gpu-dry-run.png").stat().st_size > 10_000


def test_gpu_benchmark_says_what_it_skips() -> None:
    done = bench("--device", "cuda", "--dry-run", "--case", "join last axis of 2, 1 GB", "--minutes", "0")
    assert done.returncode == 0, done.stderr
    assert "skipped: join last axis of 2, 1 GB, out, all but compiled: no time left" in done.stdout


CUDA_TIMER = """
import contextlib, types, torch
from gpu_timing import CudaTimer
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
    measure = CudaTimer().measurement(calls, replayed)
    assert [measure(), measure()] == [3000.0, 3000.0], measure()
assert len(launched) == 200
"""


def test_cuda_timer_with_events_of_another_clock() -> None:
    done = subprocess.run([sys.executable, "-c", CUDA_TIMER], cwd=FOLDER, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
