"""The benchmarks run: a few cases, without asking how fast."""

import re
import subprocess
import sys
from pathlib import Path

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


def test_the_readme_quotes_the_results_whose_picture_it_shows() -> None:
    readme = (FOLDER.parent / "README.md").read_text()
    [picture] = re.findall(r"\(benchmarks/results/(cpu-.+)\.png\)", readme)
    results = FOLDER / "results" / f"{picture}.json"
    assert results.with_suffix(".png").exists()
    assert results.with_suffix(".md").exists()
    done = subprocess.run([sys.executable, str(FOLDER / "summary.py"), str(results)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    quoted = done.stdout[done.stdout.index("| float32, one thread") :].strip()
    assert quoted in readme, f"what the README should quote:\n{quoted}"
