"""Faults that the tests must notice: `make mutants` switches them on one by one and prints those that no test noticed.

mutant_table.py lists them, each as a piece of a source's text and what it becomes. The sources know nothing of them: a
copy of the repository in build/mutants gets all faults in C++ at once, each behind a switch, and is built once; a
fault in Python is put into its module's text when that is imported there. The environment's MUTANT says which one is
on: "7", or "7@avx2" for a fault in the inner loops at that SIMD level alone.

    mutants.py [--jobs 2] [AREA or FILE …]     all of them, or those of some areas or files
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COPY = ROOT / "build" / "mutants"
COPIED = ("csrc", "tests", "torch_dml_ops", "setup.py", "pyproject.toml", "README.md", "LICENSE")
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


@dataclass(frozen=True)
class Mutant:
    """`text` occurs once in the file; of it, what is between « and » is replaced, or all where there are none."""

    number: int
    area: str
    file: str
    text: str
    becomes: str
    tests: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.number} {self.area}, {self.file}: {self.text}  ->  {self.becomes or 'nothing'}"

    @property
    def found(self) -> str:
        return re.sub("[«»]", "", self.text)

    @property
    def replaced(self) -> str:
        return self.text.partition("«")[2].partition("»")[0] or self.text

    def place(self, source: str) -> slice:
        assert source.count(self.found) == 1, f"{source.count(self.found)} times in {self.file}: {self.found}"
        begin = source.index(self.found) + max(self.text.find("«"), 0)
        return slice(begin, begin + len(self.replaced))

    @property
    def is_cpp(self) -> bool:
        return self.file.startswith("csrc/")

    @property
    def has_levels(self) -> bool:
        return "inner_loops/" in self.file

    def switched(self) -> str:
        """In C++, the piece with its fault behind a switch: a condition or other expression, or whole statements."""
        on = f"mutant({self.number}{', kLevel' if self.has_levels else ''})"
        if self.replaced.endswith(";"):
            return f"if ({on}) {{ {self.becomes} }} else {{ {self.replaced} }}"
        return f"({on} ? ({self.becomes}) : ({self.replaced}))"


def mutants() -> list[Mutant]:
    from mutant_table import AREAS

    rows = (
        (area, file, row, tests)
        for area, (tests, files) in AREAS.items()
        for file, rows in files.items()
        for row in rows
    )
    return [
        Mutant(n, area, file, *row, tuple(shlex.split(tests))) for n, (area, file, row, tests) in enumerate(rows, 1)
    ]


def mutated(source: str, of_file: Sequence[Mutant]) -> str:
    """With all of a file's faults behind switches."""
    at_each = sorted(((m.place(source), m) for m in of_file), key=lambda pair: pair[0].start, reverse=True)
    for at, mutant in at_each:
        source = source[: at.start] + mutant.switched() + source[at.stop :]
    return source


def install(number: int) -> None:
    """Called when Python starts in the copy: puts a fault into a module's text as that is imported."""
    from importlib.machinery import SourceFileLoader

    mutant = mutants()[number - 1]
    if mutant.is_cpp:
        return
    whole, code_of = Path(__file__).parents[1] / mutant.file, SourceFileLoader.get_code

    def get_code(self: SourceFileLoader, name: str) -> object:
        if Path(self.path) != whole:
            return code_of(self, name)
        source = whole.read_text()
        at = mutant.place(source)
        return self.source_to_code((source[: at.start] + mutant.becomes + source[at.stop :]).encode(), self.path)

    SourceFileLoader.get_code = get_code  # type: ignore[assignment]


def make_copy(chosen: Sequence[Mutant]) -> None:
    """Rewrites only what has changed, so that little is built again."""
    of_file: dict[str, list[Mutant]] = {}
    for mutant in chosen:
        of_file.setdefault(mutant.file, []).append(mutant)
    texts: dict[str, bytes] = {
        "csrc/mutant.h": HEADER.encode(),
        "sitecustomize.py": b"import os, sys\nif number := int(os.environ.get('MUTANT', '0').partition('@')[0]):\n"
        b"    sys.path.append(os.path.dirname(__file__) + '/tests')\n    import mutants\n\n"
        b"    mutants.install(number)\n",
    }
    for name in COPIED:
        for path in sorted((ROOT / name).rglob("*")) if (ROOT / name).is_dir() else [ROOT / name]:
            if not path.is_file() or path.suffix in (".so", ".pyc"):
                continue
            file = str(path.relative_to(ROOT))
            texts[file] = path.read_bytes()
            if file.startswith("csrc/") and path.suffix in (".cpp", ".cu"):
                texts[file] = f'#include "{COPY}/csrc/mutant.h"\n'.encode() + texts[file]
            if file.startswith("csrc/") and file in of_file:
                texts[file] = mutated(texts[file].decode(), of_file[file]).encode()
    for folder in ("csrc", "tests", "torch_dml_ops"):
        for path in (COPY / folder).rglob("*"):
            if path.is_file() and path.suffix not in (".so", ".pyc") and str(path.relative_to(COPY)) not in texts:
                path.unlink()
    for file, text in texts.items():
        to = COPY / file
        if not to.exists() or to.read_bytes() != text:
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_bytes(text)


def run(*command: str, mutant: str = "0") -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(COPY), "MUTANT": mutant, "TORCH_DML_OPS_CUDA": "0"}
    return subprocess.run(
        [sys.executable, *command], cwd=COPY, env=environment, capture_output=True, text=True, timeout=SECONDS
    )


def outcome(tests: Sequence[str], mutant: str = "0") -> str:
    """The first failure; nothing if there is none."""
    try:
        done = run("-m", "pytest", "-x", "-q", "--no-header", "--tb=no", "-p", "no:randomly", *tests, mutant=mutant)
    except subprocess.TimeoutExpired:
        return f"more than {SECONDS} seconds"
    if done.returncode == 0:
        return ""
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return (failed or [f"ended with status {done.returncode}: {(done.stdout + done.stderr)[-300:]}"])[0]


def switches(chosen: Sequence[Mutant]) -> Iterator[tuple[Mutant, str, tuple[str, ...]]]:
    """What MUTANT becomes, and the tests that should notice."""
    sys.path.insert(0, str(ROOT))
    from torch_dml_ops._libraries import simd_levels

    for mutant in chosen:
        if mutant.has_levels:
            for level in simd_levels():
                yield mutant, f"{mutant.number}@{level}", tuple(t.replace("LEVEL", f"[{level}-") for t in mutant.tests)
        else:
            yield mutant, str(mutant.number), tuple(t.replace("LEVEL", "") for t in mutant.tests)


def main() -> int:
    from mutant_table import EQUIVALENT

    parser = argparse.ArgumentParser()
    parser.add_argument("only", nargs="*")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    began, every = time.monotonic(), mutants()
    chosen = [m for m in every if not options.only or any(o in (m.area, m.file, str(m.number)) for o in options.only)]
    make_copy(every)
    built = run("setup.py", "build_ext", "--inplace")
    if built.returncode:
        print(built.stdout + built.stderr)
        return 2
    survivors = 0

    def without_fault(tests: tuple[str, ...]) -> bool:
        if what := outcome(tests):
            print(f"without any fault, {' '.join(tests)}: {what}", flush=True)
        return not what

    def tried(switch: tuple[Mutant, str, tuple[str, ...]]) -> bool:
        mutant, number, tests = switch
        what = outcome(tests, number)
        reason = EQUIVALENT.get(mutant.found)
        word = "noticed " if what else "the same" if reason else "SURVIVED"
        print(f"{word} {number.partition('@')[2]} {mutant}: {what or reason or ''}", flush=True)
        return bool(what or reason)

    with ThreadPoolExecutor(options.jobs) as pool:
        every_switch = list(switches(chosen))
        if not all(list(pool.map(without_fault, sorted({tests for _, _, tests in every_switch})))):
            return 2
        results = list(pool.map(tried, every_switch))
    survivors = results.count(False)
    print(f"{len(results)} faults, {survivors} survived, {(time.monotonic() - began) / 60:.0f} minutes")
    return survivors > 0


if __name__ == "__main__":
    sys.exit(main())
