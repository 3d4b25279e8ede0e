"""Faults that the tests must notice: `make mutants` switches them on one by one, and prints those that no test noticed.

mutant_table.py lists them, each as a piece of a source's text and what it becomes. The sources know nothing of them: a
copy of the repository in build/mutants gets all faults in C++ at once, each behind a switch, and is built once; a fault
in Python is put into its module's text when that is imported there. The environment's MUTANT says which one is on: "7",
or "7@avx2" for a fault in the inner loops at that SIMD level alone.

    mutants.py [--jobs 2] [AREA, FILE or NUMBER …]     all of them, or some
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mutant_table import AREAS, EQUIVALENT

ROOT = Path(__file__).parents[1]
COPY = ROOT / "build" / "mutants"
COPIED = ("csrc", "docs", "examples", "tests", "torch_dml_ops", "setup.py", "pyproject.toml", "README.md", "LICENSE")
SECONDS = 600  # after which a fault counts as noticed: a loop without an end, say
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

    def switched(self, piece: str) -> str:
        """In C++, the piece with its fault behind a switch: an expression, or whole statements."""
        on = f"mutant({self.number}{', kLevel' if self.has_levels else ''})"
        if piece.endswith(";"):
            return f"if ({on}) {{ {self.becomes} }} else {{ {piece} }}"
        return f"({on} ? ({self.becomes}) : ({piece}))"


def mutants() -> list[Mutant]:
    rows = ((area, file, row) for area, (_, files) in AREAS.items() for file, rows in files.items() for row in rows)
    return [Mutant(number, area, file, *row) for number, (area, file, row) in enumerate(rows, 1)]


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
    whole, code_of = (ROOT if ROOT.name == "mutants" else COPY) / mutant.file, SourceFileLoader.get_code

    def get_code(self: SourceFileLoader, name: str) -> object:
        if Path(self.path) != whole:
            return code_of(self, name)
        return self.source_to_code(mutant.put_into(whole.read_text()).encode(), self.path)

    if not mutant.is_cpp:
        SourceFileLoader.get_code = get_code  # type: ignore[assignment]


def make_copy(every: Sequence[Mutant]) -> None:
    """Writes only what has changed, so that little is built again."""
    texts = {"csrc/mutant.h": HEADER.encode(), "sitecustomize.py": START.encode()}
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


def start(tests: Sequence[str], switch: str, log: Path) -> int:
    """Runs tests in a process forked from this one; the process's number."""
    if process := os.fork():
        return process
    try:
        signal.alarm(SECONDS)
        with log.open("wb") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        os.environ.update(PYTHONPATH=str(COPY), MUTANT=switch)
        os.chdir(COPY)
        sys.path[:0] = [str(COPY), str(COPY / "tests")]
        if number := int(switch.partition("@")[0]):
            install(number)
        import pytest

        status = pytest.main(["-x", "-q", "--no-header", "--tb=no", "-p", "no:xdist", *tests])
        sys.stdout.flush()
        os._exit(int(status))
    finally:
        os._exit(9)


def failure(status: int, log: Path) -> str:
    """The first test that failed; nothing if none did."""
    if status == 0:
        return ""
    lines = log.read_text(errors="replace").splitlines()
    failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    return (failed or [f"ended with {status}: {' '.join(lines[-3:])[-200:]}"])[0]


Job = tuple[Mutant | None, str, str]  # MUTANT's value, and the tests that should notice


def outcomes(jobs: Sequence[Job], at_once: int) -> Iterator[tuple[Job, str]]:
    running: dict[int, tuple[Job, Path]] = {}
    waiting = list(reversed(jobs))
    while waiting or running:
        while waiting and len(running) < at_once:
            job = waiting.pop()
            log = COPY / "build" / f"log_{len(waiting)}.txt"
            running[start(shlex.split(job[2]), job[1], log)] = job, log
        process, status = os.wait()
        job, log = running.pop(process)
        yield job, failure(os.waitstatus_to_exitcode(status), log)
        log.unlink()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("only", nargs="*", metavar="AREA, FILE or NUMBER")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    began, every = time.monotonic(), mutants()
    chosen = [m for m in every if not options.only or {m.area, m.file, str(m.number)} & {*options.only}]
    make_copy(every)
    os.environ["TORCH_DML_OPS_CUDA"] = "0"
    subprocess.run([sys.executable, "setup.py", "-q", "build_ext", "--inplace"], cwd=COPY, check=True)
    command = [sys.executable, "-c", "from torch_dml_ops import _libraries as l; print(*l.simd_levels())"]
    levels = subprocess.check_output(command, cwd=COPY, text=True, env=os.environ | {"PYTHONPATH": "."}).split()
    for name in IMPORTED:
        __import__(name)

    jobs: list[Job] = []
    for mutant in chosen:
        tests, _ = AREAS[mutant.area]
        for level in levels if mutant.has_levels else [""]:
            here = tests.replace("ANY_LEVEL", f"[{level}-" if level else "[")
            jobs.append((mutant, f"{mutant.number}@{level}" if level else str(mutant.number), here))
    clean = True
    for (_, _, tests), what in outcomes(
        [(None, "0", tests) for tests in sorted({job[2] for job in jobs})], options.jobs
    ):
        clean &= not what
        print(f"{tests}, without any fault: {what or 'right'}", flush=True)
    if not clean:
        return 2
    survived = 0
    for (mutant, switch, _), what in outcomes(jobs, options.jobs):
        assert mutant is not None
        reason = EQUIVALENT.get(mutant.text, "")
        survived += not what and not reason
        word = "noticed " if what else "the same" if reason else "SURVIVED"
        print(f"{word} {switch.partition('@')[2]} {mutant}: {what or reason}", flush=True)
    print(f"{len(jobs)} faults, {survived} survived, {(time.monotonic() - began) / 60:.0f} minutes")
    return int(survived > 0)


if __name__ == "__main__":
    sys.exit(main())
