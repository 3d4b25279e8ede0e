"""Faults for `make mutants SAMPLE=300`: in lines drawn from all of the product's, by universalmutator's rules and those
of mutants.rules. What can change nothing is left out: comments, docstrings, annotations; and what does not compile."""

from __future__ import annotations

import ast
import builtins
import contextlib
import functools
import hashlib
import io
import itertools
import json
import keyword
import posixpath
import random
import re
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, replace
from pathlib import Path
from typing import TypeGuard

import torch
from mutant_copy import COPY, CPP_SUFFIXES, HEADER, ROOT, Mutant, source, switched_statement, with_switches
from mutant_equivalents import EQUIVALENT_CHANGES
from mutant_table import ROWS

TRIES = 12  # of a line, after which another one is drawn
RULES = Path(__file__).with_name("mutants.rules")
AREAS = {
    "csrc/kernels/cuda/": "CUDA kernels",
    "csrc/kernels/": "CPU kernels",
    "csrc/ops/(overlap|execute|layout)|torch_dml_ops/_operators/(overlap|layout)": "layout, planning",
    "csrc/python/|torch_dml_ops/_(torch/(short|ordinary)_way|operators/signature)": "short way",
    "csrc/.*.py|setup.py|torch_dml_ops/(__|_libraries|_paths|_sentences/packages)": "setup, command line",
    "torch_dml_ops/_operators/without_kernels": "devices without kernels",
    "csrc/|torch_dml_ops/(ops|_operators/|_sentences/)": "operators",
    "torch_dml_ops/(distributed/|_torch/loaded_later)": "distributed",
    "torch_dml_ops/_torch/": "autograd",
    "torch_dml_ops/_compile/": "Inductor",
    "torch_dml_ops/_indexing/": "indexing",
    "torch_dml_ops/directml/": "DirectML",
    "torch_dml_ops/onnx/": "ONNX",
    "torch_dml_ops/viz/": "viz",
}


def area_of(file: str) -> str:
    return next(area for pattern, area in AREAS.items() if re.match(pattern, file))


def product_files() -> list[str]:
    found = [ROOT / "setup.py", *(ROOT / "torch_dml_ops").rglob("*.py"), *(ROOT / "csrc").rglob("*")]
    return sorted(str(path.relative_to(ROOT)) for path in found if path.suffix in (".py", *CPP_SUFFIXES))


def lines() -> list[tuple[str, int]]:
    """Files and places of the lines that have words which are not a comment's, and do more than make room."""
    result = []
    for file in product_files():
        at = 0
        for line in source(file).splitlines(keepends=True):
            if re.search(r"\w", line) and not re.match(r"\s*(#|//|\S+\.reserve\()", line):
                result.append((file, at))
            at += len(line)
    return result


def faulty_lines(file: str, line: str, draw: random.Random) -> Iterator[str]:
    """What may become of a line, in random order: each rule's pattern is as likely as any other's."""
    from universalmutator.mutator import mutants_regexp

    rules = ["python.rules"] if file.endswith(".py") else ["c_like.rules", "cpp.rules"]
    with contextlib.redirect_stdout(io.StringIO()):
        found = mutants_regexp([line], ruleFiles=["universal.rules", *rules, str(RULES)], ignorePatterns=[])
    by_pattern: dict[str, list[str]] = {}
    for _, faulty, _, (pattern, _) in found:
        by_pattern.setdefault(pattern.pattern, []).append(faulty)
    while by_pattern:
        pattern = draw.choice([*by_pattern])
        of_pattern = by_pattern[pattern]
        yield of_pattern.pop(draw.randrange(len(of_pattern)))
        if not of_pattern:
            del by_pattern[pattern]


def meaning(text: str) -> str:
    """Of a module, without what only people and type checkers read, imports for them too, an order of types or names
    that says nothing, and what follows where a block ends. A SyntaxError if there is none."""
    compile(text, "", "exec", dont_inherit=True)
    module = ast.parse(text)
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
            node.body = [s for s in node.body if not isinstance(s, ast.AnnAssign) or s.value is not None]
        is_read = isinstance(node, ast.ClassDef) and {"Struct", "FileObject", "OperatorDesc"} & {
            getattr(base, "id", "") for base in node.bases
        }  # whose annotations say how a field is checked
        if isinstance(node, ast.ClassDef) and not is_read:
            for field in [s for s in node.body if isinstance(s, ast.AnnAssign)]:
                if "ClassVar" not in ast.dump(field.annotation):  # which is no field of a dataclass
                    field.annotation = ast.Constant(None)
                elif field.value is None:
                    node.body.remove(field)
        if isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef):
            for annotated in (n for s in node.body if not isinstance(s, ast.ClassDef) for n in ast.walk(s)):
                if isinstance(annotated, ast.AnnAssign):
                    annotated.annotation = ast.Constant(None)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("TypeVar", "ParamSpec"):
            node.args = node.keywords = []
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "zip":
            node.keywords = []  # which make errors of what cannot be
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance" and len(node.args) == 2:
            for types in (n for n in ast.walk(node.args[1]) if isinstance(n, ast.Tuple)):
                types.elts.sort(key=ast.dump)
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__" and hasattr(node.value, "elts"):
            node.value.elts.sort(key=ast.dump)
        for block in (getattr(node, name, None) for name in ("body", "orelse", "finalbody")):
            if isinstance(block, list):
                ends = (
                    k for k, s in enumerate(block) if isinstance(s, ast.Raise | ast.Return | ast.Break | ast.Continue)
                )
                del block[next(ends, len(block)) + 1 :]
                if block and isinstance(node, ast.For | ast.While) and isinstance(block[-1], ast.Continue):
                    del block[-1]
        if isinstance(node, ast.arg):
            node.annotation = None
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = [ast.Pass()]
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [s for s in node.body if not isinstance(s, ast.Expr) or not isinstance(s.value, ast.Constant)]
            node.body = [s for s in node.body if not isinstance(s, ast.Pass)]
    used = {n.id for s in module.body if not _makes_type_variable(s) for n in ast.walk(s) if isinstance(n, ast.Name)}
    module.body = [s for s in module.body if not _makes_type_variable(s) or ast.unparse(s.targets[0]) in used]
    for node in module.body if "from __future__ import annotations" in text else ():
        if isinstance(node, ast.ImportFrom) and node.module != "__future__":
            node.names = sorted((n for n in node.names if (n.asname or n.name) in used), key=ast.dump)
    module.body = [s for s in module.body if not isinstance(s, ast.ImportFrom) or s.names]
    return ast.dump(module)


def _makes_type_variable(statement: ast.stmt) -> TypeGuard[ast.Assign]:
    value = statement.value if isinstance(statement, ast.Assign) else None
    return isinstance(value, ast.Call) and getattr(value.func, "id", "") in ("TypeVar", "ParamSpec")


@functools.cache
def words(file: str) -> set[str]:
    """Names that a fault may have: any others end in a NameError."""
    return {*re.findall(r"[A-Za-z_]\w*", source(file)), *keyword.kwlist, *dir(builtins)}


def changes_python(mutant: Mutant) -> bool:
    if not {*re.findall(r"[A-Za-z_]\w*", mutant.becomes)} <= words(mutant.file):
        return False
    try:
        return meaning(mutant.put_into(source(mutant.file))) != meaning(source(mutant.file))
    except (SyntaxError, ValueError):
        return False


class Compiler:
    """Looks whether a fault in C++ compiles for the CPU, in a copy of csrc/ of its own."""

    def __init__(self) -> None:
        self.kept = tempfile.TemporaryDirectory()  # as long as this object
        self.folder = Path(self.kept.name)
        shutil.copytree(ROOT / "csrc", self.folder / "csrc")
        (self.folder / "mutant.h").write_text(HEADER)
        includes = (
            f"-I{ROOT / 'tests' / 'native' / 'cuda_on_host'}",
            f"-isystem{Path(torch.__file__).parent / 'include'}",
        )
        self.command = ["g++", "-std=c++20", "-w", "-x", "c++", *includes, f"-I{sysconfig.get_path('include')}"]
        self.command += ["-DTORCH_DML_OPS_CPU_ONLY", "-DTORCH_TARGET_VERSION=0x020b000000000000"]
        self.command += ["-include", "mutant.h", "-Werror=return-type"]
        self.units: dict[str, list[str]] = {}  # by file, the sources that include it, or itself
        self.seen: dict[str, list[str]] = {}  # by file, what the preprocessor leaves of it
        for unit in sorted((self.folder / "csrc").rglob("*.c[pu]*")):
            name = str(unit.relative_to(self.folder))
            if name == "csrc/ops/execute_cuda.cpp":  # which is compiled with nvcc alone
                continue
            for included in {*map(posixpath.normpath, re.findall(r"csrc/\S+", self.output("-MM", name) or ""))}:
                self.units.setdefault(included, []).append(name)

    def output(self, *arguments: str) -> str | None:
        done = subprocess.run([*self.command, *arguments], cwd=self.folder, capture_output=True, text=True)
        return done.stdout if done.returncode == 0 else None

    @contextlib.contextmanager
    def replaced(self, texts: Mapping[str, str]) -> Iterator[None]:
        for file, text in texts.items():
            (self.folder / file).write_text(text)
        yield
        for file in texts:
            (self.folder / file).write_text(source(file))

    def preprocessed(self, file: str) -> list[str]:
        return (self.output("-E", "-P", self.units[file][0]) or "").split()

    def failing(self, texts: Mapping[str, str], units: Iterable[str]) -> list[str]:
        """Those of the sources that do not compile with these texts."""
        with self.replaced(texts):
            return [unit for unit in units if self.output("-fsyntax-only", unit) is None]

    def checked(self, mutant: Mutant) -> Mutant | None:
        """With a switch if it can have one; None if it does not compile, or the compiler does not see it. One with a
        switch is compiled in one source alone: see `everywhere`."""
        file, plain = mutant.file, mutant.put_into(source(mutant.file))
        units = self.units.get(file, [])
        if not units or self.failing({file: plain}, units[:1]):
            return None
        if file not in self.seen:
            self.seen[file] = self.preprocessed(file)
        with self.replaced({file: plain}):
            if self.preprocessed(file) == self.seen[file]:
                return None
        if switched_statement(mutant) and not self.failing({file: with_switches(file, [mutant])}, units[:1]):
            return mutant
        return None if self.failing({file: plain}, units[1:]) else replace(mutant, is_switched=False)

    def everywhere(self, mutants: Sequence[Mutant], units: Sequence[str]) -> list[Mutant]:
        """Those that compile in all of the sources, which all of them are compiled with at once."""
        files = {m.file: [n for n in mutants if n.file == m.file] for m in mutants if m.is_cpp and m.is_switched}
        texts = {file: with_switches(file, of_file) for file, of_file in files.items()}
        failing = self.failing(texts, units if texts else ())
        if not failing:
            return [*mutants]
        if len(mutants) > 1:
            half = len(mutants) // 2
            return [*self.everywhere(mutants[:half], failing), *self.everywhere(mutants[half:], failing)]
        (mutant,) = mutants
        plain = {mutant.file: mutant.put_into(source(mutant.file))}
        return [] if self.failing(plain, self.units[mutant.file]) else [replace(mutant, is_switched=False)]

    def same_code(self, mutant: Mutant) -> bool:
        """Whether the compiler makes the same of it."""
        for unit in self.units[mutant.file]:
            before = self.output("-O3", "-S", "-o", "-", unit)
            with self.replaced({mutant.file: mutant.put_into(source(mutant.file))}):
                if self.output("-O3", "-S", "-o", "-", unit) != before:
                    return False
        return True


compiler = functools.cache(Compiler)


@functools.cache
def equivalents(file: str) -> dict[tuple[str, ...], str]:
    """By the line and what becomes of it, without their white space: why nothing could notice it."""
    lines = {" ".join(line.split()) for line in source(file).splitlines()}
    result: dict[tuple[str, ...], str] = {}
    for row in (row for row in EQUIVALENT_CHANGES if row.file == file):
        before, replaced, after = re.split("[«»]", row.text)
        found = before + replaced + after
        (line,) = {found} & lines or {line for line in lines if found in line}
        changed = line.replace(found, before + row.becomes + after)
        result[line, " ".join(changed.split())] = row.why_equal
    return result


def reason_of(mutant: Mutant) -> str:
    """Why nothing could notice it, or nothing."""
    of_table = {row.text: row.why_equal for row in ROWS}.get(mutant.text)
    known = of_table or equivalents(mutant.file).get(tuple(" ".join(text.split()) for text in mutant.shown))
    if known or mutant.text:
        return known or ""
    return "the same machine code" if mutant.is_cpp and compiler().same_code(mutant) else ""


def in_common(a: str, b: str) -> int:
    return next((k for k, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def mutant_of(number: int, file: str, at: int, line: str, faulty: str) -> Mutant:
    """What differs, and no more."""
    begin = in_common(line, faulty)
    same = in_common(line[begin:][::-1], faulty[begin:][::-1])
    is_switched = not re.fullmatch(r"setup.py|csrc/.*\.py", file)  # programs, which nobody imports
    place = file, at + begin, at + len(line) - same
    return Mutant(number, area_of(file), *place, faulty[begin : len(faulty) - same], is_switched=is_switched)


def fault_of(number: int, file: str, at: int, seed: str) -> Mutant | None:
    """In the line that begins there."""
    line = source(file)[at : source(file).index("\n", at) + 1]
    for faulty in itertools.islice(faulty_lines(file, line, random.Random(f"{seed} {file} {at}")), TRIES):
        mutant = mutant_of(number, file, at, line, faulty)
        checked = compiler().checked(mutant) if mutant.is_cpp else mutant if changes_python(mutant) else None
        if checked is not None:
            return checked
    return None


def sample(count: int, seed: str, only: Sequence[str] = ()) -> list[Mutant]:
    """Of as many lines, of all or of these areas and files, one fault each; the same for the same sources. It is kept,
    because it takes minutes."""
    chosen = {name for name in only if not name.isdigit()}
    given = [count, seed, sorted(chosen), RULES.read_text(), Path(__file__).read_text(), *map(source, product_files())]
    kept = COPY.with_name(f"mutants_{hashlib.sha256(repr(given).encode()).hexdigest()[:16]}.json")
    if kept.exists():
        return [Mutant(*row) for row in json.loads(kept.read_text())]
    places = [(file, at) for file, at in lines() if not chosen or {file, area_of(file)} & chosen]
    random.Random(seed).shuffle(places)
    drawn = itertools.count(1)
    faults = (fault for file, at in places if (fault := fault_of(next(drawn), file, at, seed)) is not None)
    result: list[Mutant] = []
    while more := [*itertools.islice(faults, count - len(result))]:
        result += compiler().everywhere(more, sorted({unit for units in compiler().units.values() for unit in units}))
    kept.parent.mkdir(exist_ok=True)
    kept.write_text(json.dumps([astuple(mutant) for mutant in result]))
    return result
