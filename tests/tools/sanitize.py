"""`make sanitize`: the operators' tests on an extension with AddressSanitizer and UndefinedBehaviorSanitizer, inside
torch, and the CPU engine on threads under ThreadSanitizer; the short way too, by the tests of threads, if TSAN_PYTHON
is a CPython without the lock that was built `--with-thread-sanitizer`, with a torch and pytest.

Before that, each sanitizer has to find a fault that is put into a copy of the sources, to show that it looks.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / room) for room in ("lib", "native")]
import host_build  # noqa: E402
from host_build import ROOT  # noqa: E402
from processes import file_of_tests, started  # noqa: E402

FOLDER = ROOT / "build" / "sanitized"
SOURCES = FOLDER / "sources"
CHANGED = Path("csrc", "kernels", "cpu", "affine_copy.cpp")
TESTS = ["arguments", "compositions", "short_way", "negative_steps", "out", "checks", "properties", "refusals"]
TESTS += ["results", "reverse_sequence", "unusual_inputs", "windows_and_lengths"]
CASES = os.environ.get("TORCH_DML_OPS_FUZZ_CASES", "6000")


@dataclass(frozen=True)
class Fault:
    """`text` of a file becomes `faulty`, and then `finding` is reported."""

    text: str
    faulty: str
    finding: str
    file: Path = CHANGED


PAST_THE_END = Fault(
    "end = std::min(begin + fused.chunk_size, fused.copies.front().dims[fused.chunk_dim].size)",
    "end = begin + fused.chunk_size",
    "ERROR: AddressSanitizer: heap-buffer-overflow",
)
DIVISION = Fault("at /= along;", "at /= along - 1;", "runtime error: division by zero")
RACE = Fault(
    "executor.execute(begin, end);", "executor.execute(begin ? begin - 1 : 0, end);", "ThreadSanitizer: data race"
)

OF_ANOTHER_LIST = Fault(
    "Py_BEGIN_CRITICAL_SECTION(list);",
    "Py_BEGIN_CRITICAL_SECTION(Py_None);",
    "ThreadSanitizer: data race",
    Path("csrc", "python", "plain.inl"),
)

# Its numbers are never freed, so that a fault is a race and no crash.
A_LIST_THAT_CHANGES = """
import threading, torch, torch_dml_ops as dml
numbers, ended = [0, 0], threading.Event()
def change():
    while not ended.is_set():
        numbers[1] = 1 - numbers[1]
thread = threading.Thread(target=change)
thread.start()
for _ in range(20000):
    dml.slice1(torch.zeros(2, 3), numbers, [1, 1], [1, 1])
ended.set()
thread.join()
"""

# Rows of 1000 items: a thousand are several chunks, the last of them smaller, and ten are one.
ROWS = {PAST_THE_END: 1000, DIVISION: 10}


def run(command: Sequence[str | Path], cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    done = started(*command, cwd=cwd, **environment)
    return subprocess.CompletedProcess(command, done.returncode, done.stdout + done.stderr)


def require(done: subprocess.CompletedProcess[str], what: str) -> None:
    if done.returncode != 0:
        sys.exit(f"{done.stdout}\n{what}")


def with_fault(fault: Fault) -> str:
    text = (ROOT / fault.file).read_text()
    assert text.count(fault.text) == 1, fault.text
    return text.replace(fault.text, fault.faulty)


def build_extension(python: str = sys.executable, sanitizers: Sequence[str] = host_build.SANITIZERS) -> None:
    flags = " ".join([*sanitizers, "-fno-omit-frame-pointer"])
    command = [python, "setup.py", "egg_info", "build_ext", "--inplace"]
    environment = {"TORCH_DML_OPS_CUDA": "0", "CFLAGS": flags, "LDFLAGS": flags, "TSAN_OPTIONS": "report_bugs=0"}
    require(run(command, SOURCES, **environment), "does not build")


def run_with_extension(command: Sequence[str | Path], shown: bool = False) -> subprocess.CompletedProcess[str]:
    """Runs python on the sanitized package. Python and torch themselves leak, by intention."""
    libraries = [run(["g++", f"-print-file-name={name}"]).stdout.strip() for name in ("libasan.so", "libstdc++.so")]
    environment = {
        "LD_PRELOAD": " ".join(libraries),
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "TORCH_DML_OPS_CASES": "100",
    }
    return subprocess.run(
        [sys.executable, *map(str, command)],
        stdout=None if shown else subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=SOURCES,
        env=os.environ | environment,
        text=True,
    )


def copy_sources() -> None:
    SOURCES.mkdir(parents=True, exist_ok=True)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy2(ROOT / name, SOURCES)
    setup = (ROOT / "setup.py").read_text()
    for without_lines, with_lines in (('"-g0"', '"-g1"'), ('"-Wl,-s"', '"-g"')):
        assert setup.count(without_lines) == 1, without_lines
        setup = setup.replace(without_lines, with_lines)
    (SOURCES / "setup.py").write_text(setup)
    for name in ("csrc", "torch_dml_ops"):  # with their times, so that only what has changed is compiled again
        ignored = shutil.ignore_patterns("*.so", "__pycache__")
        shutil.copytree(ROOT / name, SOURCES / name, dirs_exist_ok=True, ignore=ignored)


def check_extension() -> None:
    print("=== Building the extension with AddressSanitizer and UndefinedBehaviorSanitizer", flush=True)
    copy_sources()
    for fault, rows in ROWS.items():
        (SOURCES / CHANGED).write_text(with_fault(fault))
        build_extension()
        call = f"dml.slice1(torch.zeros({rows}, 1001), [0, 0], [{rows}, 1000], [1, 1])"
        done = run_with_extension(["-c", f"import torch, torch_dml_ops as dml; {call}"])
        if done.returncode == 0 or fault.finding not in done.stdout:
            sys.exit(f"{done.stdout}\nnot found: {fault.faulty}")
        print(f"found: {fault.finding}", flush=True)
    shutil.copy(ROOT / CHANGED, SOURCES / CHANGED)
    build_extension()
    print("=== Running the operators' tests", flush=True)
    files = [file_of_tests(name) for name in TESTS]
    chosen = "not on_host and not compile and not inductor"  # what is compiled by others is not what is checked
    options = ["-c", ROOT / "pyproject.toml", "--rootdir", ROOT, "-q", "--capture=sys", "-n", "0"]
    command = ["-m", "pytest", *options, "-k", chosen, "-m", "not memory", *files]
    done = run_with_extension(command, shown=True)
    if done.returncode != 0:
        sys.exit("a finding, or a test that fails")


def check_short_way() -> None:
    python = os.environ.get("TSAN_PYTHON")
    if not python:
        print("=== No TSAN_PYTHON: the short way does not run under ThreadSanitizer", flush=True)
        return
    print("=== Building the extension for a Python with ThreadSanitizer", flush=True)
    copy_sources()
    rooms = [SOURCES, *(ROOT / "tests" / room for room in ("lib", "native"))]
    environment = {
        "PYTHONPATH": os.pathsep.join(map(str, rooms)),
        "PYTHON_GIL": "0",
        "TSAN_OPTIONS": "exitcode=0",  # other reports are of torch, which is not instrumented, and of Python itself
    }
    options = ["--noconftest", "-p", "no:cacheprovider", "-c", SOURCES / "pyproject.toml", "-q"]
    threads = ["-m", "pytest", *options, "-k", "not tensors_that", file_of_tests("threads")]
    short_way = SOURCES / OF_ANOTHER_LIST.file
    for fault, what in ((True, ["-c", A_LIST_THAT_CHANGES]), (False, threads)):
        short_way.write_text(with_fault(OF_ANOTHER_LIST) if fault else (ROOT / OF_ANOTHER_LIST.file).read_text())
        build_extension(python, ["-fsanitize=thread"])
        done = run([python, *what], SOURCES, **environment)
        reports = [r for r in done.stdout.split("=" * 18) if OF_ANOTHER_LIST.finding in r and "_fast_calls." in r]
        if fault and not reports:
            sys.exit(f"{done.stdout}\nnot found: {OF_ANOTHER_LIST.faulty}")
        if not fault and (reports or done.returncode):
            sys.exit(f"{done.stdout}\na race, or a test that fails")
        passed = [line for line in done.stdout.splitlines() if " passed" in line]
        print(f"found: {OF_ANOTHER_LIST.finding}" if fault else passed[-1], flush=True)


def check_engines() -> None:
    print("=== Random plans under AddressSanitizer and UndefinedBehaviorSanitizer", flush=True)
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-k", "sanitized", str(file_of_tests("kernels"))]
    if subprocess.run(command, cwd=ROOT, env=os.environ | {"TORCH_DML_OPS_FUZZ_CASES": CASES}).returncode:
        sys.exit("a finding")


def check_threads() -> None:
    print("=== Building the CPU engine with ThreadSanitizer", flush=True)
    host_build.FAULTY_ENGINE.parent.mkdir(parents=True, exist_ok=True)
    host_build.FAULTY_ENGINE.write_text(with_fault(RACE))
    done = run([host_build.program("kernels_fuzz_threads_faulty"), "100", "0", "threads"])
    if done.returncode == 0 or RACE.finding not in done.stdout:
        sys.exit(f"{done.stdout}\nnot found: {RACE.faulty}")
    print(f"found: {RACE.finding}", flush=True)
    program = host_build.program("kernels_fuzz_threads")
    for level in ("baseline", "avx2", "avx512", "avx512_gather"):
        done = run([program, CASES, "0", "threads"], TORCH_DML_OPS_SIMD=level)
        require(done, "a race")
        print(f"{level}: {done.stdout.strip()}", flush=True)


if __name__ == "__main__":
    check_threads()
    check_short_way()
    check_engines()
    check_extension()
