"""Faults that the tests must notice: `make mutants` switches them on one by one, and prints those that no test noticed.

mutant_table.py lists them, each as a piece of a source's text and what it becomes. The sources know nothing of them: a
copy of the repository in build/mutants gets all faults in C++ at once, each behind a switch, and is built once; a fault
in Python is put into its module's text when that is imported there. The environment's MUTANT says which one is on: "7",
or "7@avx2" for a fault in the inner loops at that SIMD level alone.

    mutants.py [--jobs 2] [AREA, FILE or NUMBER …]     all of them, or some
"""

from __future__ import annotations

import argparse
import gc
import os
import re
import resource
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mutant_table import AREAS, EQUIVALENT

ROOT = Path(__file__).parents[1]
COPY = ROOT / "build" / "mutants"
COPIED = ["benchmarks", "csrc", "docs", "examples", "tests", "torch_dml_ops"]
COPIED += ["setup.py", "pyproject.toml", "README.md", "LICENSE"]
NO_TESTS = 5  # pytest's status
BEFORE = "before any test"
CPU_SECONDS = 100  # after which a fault counts as noticed: a loop without an end, say
HEADER = """#pragma once
#include <cstdlib>
#include <cstring>
inline bool mutant(int number, const char* level = nullptr) {
  static const char* const given = std::getenv("MUTANT");
  static const int active = given ? std::atoi(given) : 0;
  if (number != active) return false;
  const char* at = std::strchr(given, '@');
  return !at || !level || !std::strcmp(at + 1, level);
}
"""
START_FILE = "sitecustomize.py"  # which Python runs first, and which the copy alone has
START = """import os, sys

if number := int(os.environ.get("MUTANT", "0").partition("@")[0]):
    sys.path.append(os.path.join(os.path.dirname(__file__), "tests"))
    import mutants

    mutants.install(number)
"""
# What the tests import, but for the package itself: once, before each fault's own process is forked.
IMPORTED = (
    "hypothesis",
    "numpy",
    "onnx",
    "onnxruntime",
    "onnxscript",
    "pytest",
    "torch._inductor.lowering",
)


@dataclass(frozen=True)
class Mutant:
    """`text` occurs once in the file; of it, what is between « and » is replaced, or all where there are none."""

    number: int
    area: str
    tests: str  # that should notice it
    file: str
    text: str
    becomes: str

    def __str__(self) -> str:
        return f"{self.number} {self.area}, {self.file}: {' '.join(self.text.split())}  ->  {self.becomes or 'nothing'}"

    def place(self, source: str) -> slice:
        """Of what is replaced."""
        found = re.sub("[«»]", "", self.text)
        assert source.count(found) == 1, f"{source.count(found)} times in {self.file}: {found}"
        replaced = self.text.partition("«")[2].partition("»")[0] or self.text
        begin = source.index(found) + max(self.text.find("«"), 0)
        return slice(begin, begin + len(replaced))

    def put_into(self, source: str) -> str:
        at = self.place(source)
        return source[: at.start] + self.becomes + source[at.stop :]

    @property
    def is_cpp(self) -> bool:
        return self.file.startswith("csrc/")

    @property
    def has_levels(self) -> bool:
        return "inner_loops/" in self.file

    def levels(self, of_processor: Sequence[str]) -> Sequence[str]:
        """Those to run it at. The one with gathers has loops of its own in gather.inl, and the others from avx512."""
        gathers = self.file.endswith("gather.inl")
        return [level for level in of_processor if level.endswith("_gather") == gathers] if self.has_levels else [""]

    def switched(self, piece: str) -> str:
        """In C++, the piece with its fault behind a switch: an expression, or whole statements."""
        on = f"mutant({self.number}{', kLevel' if self.has_levels else ''})"
        if piece.endswith(";"):
            return f"{{ if ({on}) {{ {self.becomes} }} else {{ {piece} }} }}"
        return f"({on} ? ({self.becomes}) : ({piece}))"


def mutants() -> list[Mutant]:
    result: list[Mutant] = []
    for area, (tests, files) in AREAS.items():
        for file, rows in files.items():
            for text, becomes, *own_tests in rows:
                result.append(Mutant(len(result) + 1, area, (own_tests or [tests])[0], file, text, becomes))
    return result


def with_switches(source: str, of_file: Sequence[Mutant]) -> str:
    """The text of a source in C++ with all of its faults."""
    begin, pieces = 0, []
    for at, mutant in sorted(((m.place(source), m) for m in of_file), key=lambda pair: pair[0].start):
        assert at.start >= begin, f"overlaps another one: {mutant}"
        pieces += source[begin : at.start], mutant.switched(source[at])
        begin = at.stop
    return "".join([*pieces, source[begin:]])


def install(number: int) -> None:
    """Puts a fault in Python into its module's text as that is imported. Called wherever Python starts in the copy."""
    from importlib.machinery import SourceFileLoader

    mutant = mutants()[number - 1]
    whole, code_of = (ROOT if (ROOT / START_FILE).exists() else COPY) / mutant.file, SourceFileLoader.get_code

    def get_code(self: SourceFileLoader, name: str) -> object:
        if Path(self.path) != whole:
            return code_of(self, name)
        return self.source_to_code(mutant.put_into(whole.read_text()).encode(), self.path)

    if not mutant.is_cpp:
        SourceFileLoader.get_code = get_code  # type: ignore[assignment]


def make_copy(every: Sequence[Mutant]) -> None:
    """Writes only what has changed, so that little is built again."""
    texts = {"csrc/mutant.h": HEADER.encode(), START_FILE: START.encode()}
    for name in COPIED:
        for path in sorted((ROOT / name).rglob("*")) if (ROOT / name).is_dir() else [ROOT / name]:
            if not path.is_file() or path.suffix in (".so", ".pyc"):
                continue
            file = str(path.relative_to(ROOT))
            texts[file] = path.read_bytes()
            if file.startswith("csrc/"):
                text = with_switches(path.read_text(), [m for m in every if m.file == file])
                include = f'#include "{COPY}/csrc/mutant.h"\n'  # not in .inl, which others include within a namespace
                texts[file] = f"{include if path.suffix in ('.h', '.cpp', '.cu') else ''}{text}".encode()
    for name in COPIED:
        for path in (COPY / name).rglob("*"):
            if path.is_file() and path.suffix not in (".so", ".pyc") and str(path.relative_to(COPY)) not in texts:
                path.unlink()
    for file, text in texts.items():
        to = COPY / file
        if not to.exists() or to.read_bytes() != text:
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_bytes(text)


class Note:
    """Keeps the name of the test that runs in a file, so that it is known of a process that ends within it too."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.file.write_text(nodeid)


@dataclass
class Run:
    """Tests in a process of their own, which ends with the first that fails: of pytest, or programs, after a `$`."""

    tests: Sequence[str]
    mutant: Mutant | None = None
    level: str = ""
    status: int | None = None
    cpu_seconds: float = 0.0
    noticed_by: str = ""

    @property
    def switch(self) -> str:
        """MUTANT's value."""
        number = self.mutant.number if self.mutant else 0
        return f"{number}@{self.level.removesuffix('_gather')}" if self.level else str(number)

    @property
    def program(self) -> str:
        return self.tests[1] if self.tests[0] == "$" else ""

    @property
    def is_noticed(self) -> bool:
        """What fails before any test, as tests are collected, says of any fault whatever that it breaks something."""
        return self.status != 0 and not self.noticed_by.startswith(BEFORE)

    def start(self) -> int:
        """The process's number."""
        files = COPY / "build" / f"mutant_{self.switch}"
        self.log, self.test = files.with_suffix(".log"), files.with_suffix(".test")
        self.test.write_text("")
        if process := os.fork():
            return process
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
            with self.log.open("wb") as file:
                os.dup2(file.fileno(), 1)
                os.dup2(file.fileno(), 2)
            os.environ.update(PYTHONPATH=str(COPY), MUTANT=self.switch, TORCH_DML_OPS_SIMD=self.level)
            os.chdir(COPY)
            if self.program:
                os.environ["PATH"] = f"{COPY / 'build' / 'tests'}:{os.environ['PATH']}"
                os.execvp("sh", ["sh", "-c", " ".join(self.tests[1:])])
            sys.path[:0] = [str(COPY), str(COPY / "tests")]
            if self.mutant:
                install(self.mutant.number)
            import pytest

            options = ["-x", "-q", "--no-header", "--tb=short", "-m", "not thorough", "-p", "no:xdist"]
            status = pytest.main([*options, *self.tests], [Note(self.test)])
            sys.stdout.flush()
            os._exit(int(status))
        finally:
            os._exit(9)

    def end(self, status: int, used: resource.struct_rusage) -> None:
        self.status, self.cpu_seconds = os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime
        if self.status != 0:
            last_lines = " ".join(self.text.splitlines()[-2:])[-150:]
            self.noticed_by = self.test.read_text() or f"{self.program or BEFORE}: {last_lines}"

    @property
    def text(self) -> str:
        """What was printed."""
        return self.log.read_text(errors="replace")


def without_faults(runs: Sequence[Run]) -> list[Run]:
    """The tests that noticed something, once more: that one fails means something only if it is right otherwise."""
    tests = sorted({run.noticed_by for run in runs if "::" in run.noticed_by})
    programs = {(shlex.join(run.tests), run.level): Run(run.tests, level=run.level) for run in runs if run.program}
    return [*([Run(["-m", "", *tests])] if tests else []), *programs.values()]


def outcomes(runs: Sequence[Run], at_once: int) -> Iterator[Run]:
    running: dict[int, Run] = {}
    waiting = list(reversed(runs))
    while waiting or running:
        while waiting and len(running) < at_once:
            run = waiting.pop()
            running[run.start()] = run
        process, status, used = os.wait4(-1, 0)
        run = running.pop(process)
        run.end(status, used)
        yield run


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("only", nargs="*", metavar="AREA, FILE or NUMBER")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    every = mutants()
    chosen = [m for m in every if not options.only or {m.area, m.file, str(m.number)} & {*options.only}]
    make_copy(every)
    os.environ["TORCH_DML_OPS_CUDA"] = "0"
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    subprocess.run(command, cwd=COPY, check=True, stdout=subprocess.DEVNULL)
    command = [sys.executable, "-c", "from torch_dml_ops import _libraries as l; print(*l.simd_levels())"]
    levels = subprocess.check_output(command, cwd=COPY, text=True, env=os.environ | {"PYTHONPATH": "."}).split()
    for name in IMPORTED:
        __import__(name)
    gc.collect()
    gc.freeze()  # or each process would go through it all again, and copy it
    runs = [Run(shlex.split(mutant.tests), mutant, level) for mutant in chosen for level in mutant.levels(levels)]
    if programs := {run.program for run in runs} - {""}:
        build = "import sys, host_build; [host_build.program(name) for name in sys.argv[1:]]"
        subprocess.run([sys.executable, "-c", build, *programs], cwd=COPY / "tests", check=True)
    areas: dict[str, Counter[str]] = {}
    for run in outcomes(runs, options.jobs):
        mutant = run.mutant
        assert mutant is not None
        if run.status == NO_TESTS and not run.program:
            print(f"no such tests: {shlex.join(run.tests)}")
            return 2
        reason = EQUIVALENT.get(mutant.text, "")
        word = "noticed" if run.is_noticed else "same" if reason else "SURVIVED"
        areas.setdefault(mutant.area, Counter()).update({"faults": 1, word: 1, "CPU": run.cpu_seconds})
        what = run.noticed_by or reason
        print(f"{word:8} {run.cpu_seconds:5.1f} s  {run.level} {mutant}: {what}", flush=True)

    again = without_faults(runs)
    for run in outcomes(again, options.jobs):
        if run.status != 0:
            print(f"fails without any fault: {run.noticed_by}\n{run.text}")
            return 2
    total = sum(areas.values(), Counter())
    for area, counted in [*areas.items(), ("all", total)]:
        print(
            f"{area:16} {counted['faults']:4} faults, {counted['noticed']:4} noticed, {counted['same']:2} change "
            f"nothing, {counted['SURVIVED']:2} survived, {counted['CPU']:5.0f} CPU seconds"
        )
    print(f"Without any fault these tests are right, in {sum(run.cpu_seconds for run in again):.0f} CPU seconds.")
    return int(total["SURVIVED"] > 0)


if __name__ == "__main__":
    sys.exit(main())
