"""Which tests run what: recorded once in build/mutants_reached, by test file, until it or what it tests changes."""

from __future__ import annotations

import ast
import functools
import hashlib
import mmap
import operator
import os
import pickle
import re
import resource
import shutil
from collections.abc import Iterable, Iterator, Mapping
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


def places(mutant: Mutant) -> list[dict[str, int]]:
    """What a test must reach to notice it, as bits by file; then, for the tests that reach none of that, what is around
    it."""
    if mutant.is_cpp:
        return [{mutant.file: place} for place in cpp_places(mutant)]
    return [*names_used(mutant), *({mutant.file: place} for place in python_places(mutant))]


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
    result = [bits(1, source(mutant.file).count("\n") + 1)]
    in_function = False
    for node, begin, end in statements_around(mutant):
        body = getattr(node, "body", [])
        if in_function:
            head_end = max(begin, body[0].lineno - 1) if body else end
            result = [bits(begin, head_end if last_line(mutant) <= head_end else end)]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            result.insert(0, bits(body[0].lineno, end))
        in_function |= isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    return result


def names_used(mutant: Mutant) -> list[dict[str, int]]:
    """Where what changes runs at import, the lines of functions with a name that the least statement gives."""
    around = statements_around(mutant)
    if not around or any(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) for node, _, _ in around[:-1]):
        return []
    node = around[-1][0]
    nodes = [node] if hasattr(node, "name") else [*ast.walk(node)]
    names = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    names |= {n.name for n in nodes if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    names |= {n.asname or n.name.partition(".")[0] for n in nodes if isinstance(n, ast.alias)}
    result = {}
    only_here = isinstance(node, ast.Import | ast.ImportFrom) or all(name.startswith("_") for name in names)
    for file in ([mutant.file] if only_here else product_files()) if names else ():
        if file.endswith(".py"):
            lines = [k for k, words in words_in_functions(file).items() if names & words]
            result[file] = sum(1 << k for k in lines)
    return [result]


@functools.cache
def words_in_functions(file: str) -> dict[int, set[str]]:
    """By line."""
    functions = (n for n in ast.walk(ast.parse(source(file))) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
    lines = {k for function in functions for k in range(function.body[0].lineno, function.body[-1].end_lineno + 1)}
    return {k: {*re.findall(r"\w+", line)} for k, line in enumerate(source(file).split("\n"), 1) if k in lines}


def run_by_none(tests: Mapping[str, Reached], files: Iterable[str]) -> Iterator[str]:
    """The statements in functions that no test was seen to run. (In a process that has another's end, none is.)"""
    for file in sorted(files):
        seen = functools.reduce(operator.or_, (test.places.get(file, 0) for test in tests.values()), 0)
        text = source(file)
        if file.endswith(".py"):
            functions = (n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
            within = {id(n): n for function in functions for body in function.body for n in ast.walk(body)}
            places = {
                node.lineno: bits(node.lineno, node.lineno if hasattr(node, "body") else node.end_lineno or node.lineno)
                for node in within.values()
                if isinstance(node, ast.stmt)
                and not isinstance(node, ast.FunctionDef | ast.Global | ast.Nonlocal)
                and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
            }
        else:
            nodes = [(k, n) for k, n in enumerate(statements(file)) if n.type != "compound_statement"]
            places = {text.count("\n", 0, n.start_byte) + 1: 1 << k for k, n in nodes}
        yield from (
            f"{file}:{line}: {text.splitlines()[line - 1].strip()}"
            for line, place in sorted(places.items())
            if not seen & place
        )


def last_line(mutant: Mutant) -> int:
    return source(mutant.file).count("\n", 0, max(mutant.begin, mutant.end - 1)) + 1


def statements_around(mutant: Mutant) -> list[tuple[ast.AST, int, int]]:
    """From the outermost to the least, with their first and last lines."""
    first, last = source(mutant.file).count("\n", 0, mutant.begin) + 1, last_line(mutant)
    result: list[tuple[ast.AST, int, int]] = []
    node: ast.AST = ast.parse(source(mutant.file))
    while True:
        for part in ast.iter_child_nodes(node):
            if isinstance(part, ast.stmt | ast.ExceptHandler):
                begin = min(n.lineno for n in ast.walk(part) if hasattr(n, "lineno"))
                end = part.end_lineno or begin
                if begin <= first and last <= end:
                    result.append((part, begin, end))
                    node = part
                    break
        else:
            return result


def bits(first: int, last: int) -> int:
    return (1 << last + 1) - (1 << first)


def in_order(mutant: Mutant, tests: Mapping[str, Reached]) -> list[list[str]]:
    """The tests that run what changes: first the fastest case of each test and those that run more of the file, then
    the others; those whose names have a word of the line, or the file's, before those without one."""
    words = {*re.findall(r"[A-Za-z]\w{3,}", " ".join(mutant.shown)), Path(mutant.file).stem.strip("_")}
    left = {name: test for name, test in tests.items() if test.passed}
    result: list[list[str]] = []
    for place in places(mutant):
        found = sorted(
            (not any(word in name for word in words), t.seconds, name)
            for name, t in left.items()
            if any(t.places.get(file, 0) & lines for file, lines in place.items())
        )
        first, seen = [], dict[str, int]()
        for _, _, name in found:
            test, reached = name.partition("[")[0], left[name].places.get(mutant.file, 0)
            if test not in seen or reached & ~seen[test]:
                first.append(name)
                seen[test] = seen.get(test, 0) | reached
        result += [first, [name for _, _, name in found if name not in {*first}]]
        for _, _, name in found:
            del left[name]
        if found and mutant.is_cpp:
            break
    return [names for names in result if names]
