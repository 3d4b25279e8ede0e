"""Which tests run what: recorded once in build/mutants_reached, by test file, until it or what it tests changes."""

from __future__ import annotations

import ast
import hashlib
import mmap
import os
import pickle
import re
import resource
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from mutant_copy import COPY, ROOT, Mutant, first_statements, source, statements, tree
from mutant_sample import product_files

if TYPE_CHECKING:
    from tree_sitter import Node

KEPT = COPY.with_name("mutants_reached")
SETTINGS = """[run]
include = {copy}/*
omit = {copy}/tests/*
data_file = {data}
parallel = true
patch = _exit
context = ${{PYTEST_CURRENT_TEST-}}
"""


@dataclass
class Reached:
    """By a test: as bits, the statements of sources in C++ by number, and the lines of those in Python."""

    seconds: float
    passed: bool = True
    places: dict[str, int] = field(default_factory=dict)


def test_files() -> list[str]:
    """What pytest runs by itself, as its arguments."""
    tests = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py"))
    return [*tests, "torch_dml_ops", "README.md", "docs"]


def needed(test_file: Path) -> list[Path]:
    """What of tests/ the tests of a file use, by its names."""
    folder = ROOT / "tests"
    others = [path for path in sorted(folder.rglob("*")) if path.suffix in (".py", ".cpp", ".h")]
    others = [path for path in others if not path.name.startswith(("test_", "mutant"))]
    result, texts = (
        ([test_file], [test_file.read_text()]) if test_file.is_file() else (sorted(test_file.glob("*.md")), [])
    )
    while texts:
        words = {*re.findall(r"\w+", texts.pop())}
        for path in others:
            if path not in result and words & {path.stem, *path.relative_to(folder).parts[1:-1]}:
                result.append(path)
                if path.suffix == ".py" and path.stem != "host_build":  # which names everything
                    texts.append(path.read_text())
    return result


def kept(test_file: str) -> Path:
    """Where it is kept what the tests of a file run: elsewhere whenever something has changed."""
    given = [path.read_text() for path in needed(ROOT / test_file) if path.is_file()]
    given += map(source, product_files())
    return KEPT / f"{Path(test_file).name}_{hashlib.sha256(repr(given).encode()).hexdigest()[:16]}"


def seconds() -> float:
    """Of processors, until now, by this process and those that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


class Recorder:
    """Of a run of pytest in a process of its own."""

    def __init__(self, to: Path) -> None:
        import coverage

        self.to, self.tests = to, dict[str, Reached]()
        self.folder = Path(f"{to}.parts")
        self.folder.mkdir(parents=True, exist_ok=True)
        seen, settings = self.folder / "seen", self.folder / "settings"
        seen.write_bytes(bytes(first_statements()[""]))
        settings.write_text(SETTINGS.format(copy=COPY, data=self.folder / "data"))
        with seen.open("r+b") as file:
            self.seen = mmap.mmap(file.fileno(), 0)
        os.environ.pop("PYTEST_CURRENT_TEST", None)
        os.environ.update(MUTANTS_SEEN=str(seen), COVERAGE_CORE="ctrace")
        self.coverage = coverage.Coverage(config_file=str(settings))
        self.coverage.start()
        os.environ["COVERAGE_PROCESS_START"] = str(settings)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[Any]:
        self.coverage.switch_context(item.nodeid)
        if is_interrupted := "interrupted" in getattr(item, "fixturenames", ()):
            self.coverage.stop()  # its lock is not made for signal handlers that raise
        self.seen[:] = bytes(len(self.seen))
        begin = seconds()
        self.tests[item.nodeid] = test = Reached(0)
        result = yield
        test.seconds = seconds() - begin
        if is_interrupted:
            self.coverage.start()
        files, places = first_statements(), self.seen[:]
        for (file, first), past in zip(files.items(), [*files.values()][1:], strict=False):
            test.places[file] = sum(1 << k for k, seen in enumerate(places[first:past]) if seen)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.tests[report.nodeid].passed &= report.passed

    def write(self) -> None:
        self.coverage.stop()
        self.coverage.save()
        self.coverage.combine()
        data = self.coverage.get_data()
        for path in data.measured_files():
            file = str(Path(path).relative_to(COPY))
            for line, contexts in data.contexts_by_lineno(path).items():
                for context in contexts:
                    if (test := self.tests.get(re.sub(r" \((setup|call|teardown)\)$", "", context))) is not None:
                        test.places[file] = test.places.get(file, 0) | 1 << line
        self.to.write_bytes(pickle.dumps(self.tests))
        shutil.rmtree(self.folder)


def places(mutant: Mutant) -> list[int]:
    """What of its file a test must reach to notice it, as bits; if no test does, what follows, which is around it."""
    return cpp_places(mutant) if mutant.is_cpp else python_places(mutant)


def cpp_places(mutant: Mutant) -> list[int]:
    """The least statement that changes, or where there is none, those in the class or the file."""
    spans = [(node.start_byte, node.end_byte) for node in statements(mutant.file)]
    around = [(end - begin, k) for k, (begin, end) in enumerate(spans) if begin <= mutant.begin and mutant.end <= end]
    if around:
        return [1 << min(around)[1]]
    result: list[int] = []
    node: Node | None = tree(mutant.file).descendant_for_byte_range(mutant.begin, mutant.end)
    while node is not None:
        within = [node.start_byte <= begin and end <= node.end_byte for begin, end in spans]
        result.append(sum(1 << k for k, is_within in enumerate(within) if is_within))
        node = node.parent
    return result


def python_places(mutant: Mutant) -> list[int]:
    """The lines of the least statement that changes, or where that runs at import, those in the class or the file."""
    text = source(mutant.file)
    first, last = (text.count("\n", 0, at) + 1 for at in (mutant.begin, max(mutant.begin, mutant.end - 1)))
    result = [bits(1, text.count("\n") + 1)]
    in_function, node = False, ast.parse(text)
    while True:
        parts = [part for part in ast.iter_child_nodes(node) if isinstance(part, ast.stmt | ast.ExceptHandler)]
        spans = {
            part: (min(n.lineno for n in ast.walk(part) if hasattr(n, "lineno")), part.end_lineno) for part in parts
        }
        node = next((part for part, (begin, end) in spans.items() if begin <= first and last <= end), None)
        if node is None:
            return result
        begin, end = spans[node]
        body = getattr(node, "body", [])
        if in_function:
            head_end = max(begin, body[0].lineno - 1) if body else end
            result = [bits(begin, head_end if last <= head_end else end)]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            result.insert(0, bits(body[0].lineno, end))
        in_function |= isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def bits(first: int, last: int) -> int:
    return (1 << last + 1) - (1 << first)


def in_order(mutant: Mutant, tests: Mapping[str, Reached]) -> list[list[str]]:
    """The tests that run what changes: first the fastest case of each test, and then the others."""
    for place in places(mutant):
        found = sorted(
            (t.seconds, name) for name, t in tests.items() if t.passed and t.places.get(mutant.file, 0) & place
        )
        if found:
            fastest = {name.partition("[")[0]: name for _, name in reversed(found)}
            first = [name for _, name in found if fastest[name.partition("[")[0]] == name]
            return [first, [name for _, name in found if name not in {*first}]]
    return []
