"""What `make mutants` rests on: the table's faults fit the sources, and what is drawn, switched on and noticed."""

import ast
import json
import os
import pickle
import random
import subprocess
from collections import Counter

import pytest

pytest.importorskip("tree_sitter_cpp", reason="needs tree-sitter-cpp, which has no wheel for every Python")

import host_build
import mutant_copy
import mutant_reach
import mutant_sample
import mutants
from mutant_equivalents import EQUIVALENT_CHANGES
from mutant_sample import mutant_of

EVERY = mutants.mutants()
FILES = sorted({mutant.file for mutant in EVERY})


@pytest.mark.parametrize("file", FILES)
def test_every_fault_has_its_place(file: str) -> None:
    for mutant in EVERY:
        if mutant.file == file and mutant.is_cpp:
            assert mutant_copy.switched_statement(mutant) is not None
        elif mutant.file == file:
            ast.parse(mutant.put_into(mutant_copy.source(file)))


def test_every_area_has_faults_and_tests() -> None:
    assert min(Counter(mutant.area for mutant in EVERY).values()) >= 8
    for tests in {mutant.tests for mutant in EVERY}:
        files = [name.partition("::")[0] for name in tests.split() if name.startswith("tests/")]
        assert all((mutant_copy.ROOT / name).exists() for name in files)
        assert files or tests.split()[1] in host_build.programs()


def test_every_product_file_has_an_area_and_lines() -> None:
    files = {file for file, _ in mutant_sample.lines()}
    assert {*mutant_sample.product_files()} - files <= {"torch_dml_ops/_sentences/packages.py"}
    assert {mutant_sample.area_of(file) for file in files} == {*mutant_sample.AREAS.values()}


def test_equivalent_changes_are_each_of_one_line_that_is_there() -> None:
    for file, changes in Counter(row.file for row in EQUIVALENT_CHANGES).items():
        assert len(mutant_sample.equivalents(file)) == changes
        assert all(line != changed for line, changed in mutant_sample.equivalents(file))


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Instead of the repository and its copy, a folder with one module, one source in C++ and their tests."""
    (tmp_path / "csrc").mkdir()
    (tmp_path / "tests").mkdir()
    (tmp_path / "build").mkdir()
    (tmp_path / "csrc" / "sum.cpp").write_text(SUM)
    (tmp_path / "halves.py").write_text(HALVES)
    (tmp_path / "tests" / "test_halves.py").write_text(TESTS)
    (tmp_path / "mutant.h").write_text(mutant_copy.HEADER)
    for module in mutant_copy, mutant_reach, mutant_sample, mutants:
        for name in ("ROOT", "COPY"):
            monkeypatch.setattr(module, name, tmp_path, raising=False)
    monkeypatch.setattr(mutant_reach, "product_files", lambda: ["csrc/sum.cpp", "halves.py"])
    cached = mutant_copy.source, mutant_copy.tree, mutant_copy.statements, mutant_copy.first_statements
    cached += mutant_reach.words_in_functions, mutant_sample.equivalents
    for function in cached:
        function.cache_clear()
    yield tmp_path
    for function in cached:
        function.cache_clear()


def test_statements_that_no_test_runs_are_told(small):
    line = HALVES.split("\n").index("        raise ValueError") + 1
    files = mutant_reach.product_files()
    every = dict.fromkeys(files, -1)
    reached = {"half": {"halves.py": ~(1 << line)}, "other": {"csrc/sum.cpp": -1}}
    tests = {name: mutant_reach.Reached(1.0, places=places) for name, places in reached.items()}
    assert [*mutant_reach.run_by_none(tests, files)] == [f"halves.py:{line}: raise ValueError"]
    assert [*mutant_reach.run_by_none({"all": mutant_reach.Reached(1.0, places=every)}, files)] == []
    none = [*mutant_reach.run_by_none({}, files)]
    assert "halves.py:11: return n // 2" in none
    assert "csrc/sum.cpp:7: if (k == 2) continue;" in none
    assert not any("kStep = 1" in line or "LEAST = 1" in line for line in none)


SUM = """#include <cstdio>
#include <cstdlib>
constexpr int kStep = 1;
int sum(int n) {
  int result = 0;
  for (int k = 0; k < n; k += kStep) {
    if (k == 2) continue;
    result += k;  // of all but one
  }
  return result;
}
int main(int, char** arguments) { std::printf("%d", sum(std::atoi(arguments[1]))); }
"""

HALVES = '''"""Halves."""
LEAST = 1


def half(n: int) -> int:
    """Of an even number."""
    if n < LEAST:
        raise ValueError
    while n % 2:
        n += 1
    return n // 2
'''

TESTS = """import pytest
from halves import half

@pytest.mark.parametrize("n", [2, 4, 6])
def test_half(n):
    assert half(n) * 2 == n

def test_least():
    with pytest.raises(ValueError):
        half(0)

def test_nothing():
    pass
"""


def faults(file, *changes):
    text = mutant_copy.source(file)
    result = []
    for number, (line, faulty) in enumerate(changes, 1):
        begin = text.index(line)
        result.append(mutant_of(number, file, begin, line, faulty))
    return result


@pytest.fixture
def area(monkeypatch):
    monkeypatch.setitem(mutant_sample.AREAS, "", "all")


CPP_CHANGES = {
    ("k < n;", "k <= n;"): "8",  # an expression
    ("if (k == 2) continue;", ""): "6",  # a statement
    ("int result = 0;", "int result = 5;"): "9",  # a declaration
    ("return result;", "return result + 1;"): "5",
    ("result += k;", "result -= k;"): "-4",
}


def test_faults_in_cpp_are_switched_on_one_by_one(small, area):
    changed = faults("csrc/sum.cpp", *CPP_CHANGES)
    program = small / "sum.cpp"
    program.write_text(f'#include "mutant.h"\n{mutant_copy.with_switches("csrc/sum.cpp", changed)}')
    subprocess.run(
        ["g++", "-std=c++20", "-Wall", "-Werror", "-Wno-dangling-else", program, "-o", small / "sum"], check=True
    )

    def result(n, number, **environment):
        run = [small / "sum", str(n)]
        return subprocess.check_output(run, env=os.environ | {"MUTANT": str(number)} | environment, text=True)

    assert [result(4, k) for k in range(len(changed) + 1)] == ["4", *CPP_CHANGES.values()]
    lines = [
        mutant_copy.source("csrc/sum.cpp").count("\n", 0, n.start_byte) + 1
        for n in mutant_copy.statements("csrc/sum.cpp")
    ]
    assert lines == [5, 6, 7, 7, 8, 10, 12]
    seen = small / "seen"
    for n, reached in ((0, {5, 6, 10, 12}), (1, {5, 6, 7, 8, 10, 12})):
        seen.write_bytes(bytes(len(lines)))
        result(n, 0, MUTANTS_SEEN=str(seen))
        assert {line for line, byte in zip(lines, seen.read_bytes(), strict=True) if byte} == reached


def test_constants_have_no_switch(small, area):
    (constant,) = faults("csrc/sum.cpp", ("kStep = 1", "kStep = 2"))
    assert mutant_copy.switched_statement(constant) is None
    assert mutant_reach.places(constant)[-1] == {
        "csrc/sum.cpp": 0b1111111
    }  # whatever runs anything of the file may notice it


def test_what_runs_at_import_is_for_the_tests_of_its_name_and_then_for_those_around(small, area, monkeypatch):
    (small / "halves.py").write_text("LEAST = 1\n_MOST = 9\n\n\ndef half(n):\n    return max(LEAST, min(n, _MOST))\n")
    (small / "other.py").write_text("def other():\n    return LEAST, _MOST\n")
    monkeypatch.setattr(mutant_reach, "product_files", lambda: ["halves.py", "other.py"])
    public, private = faults("halves.py", ("LEAST = 1", "LEAST = 2"), ("_MOST = 9", "_MOST = 8"))
    reached = {"other": {"other.py": 1 << 2}, "half": {"halves.py": 1 << 6}, "imports": {"halves.py": 0b11}}
    tests = {name: mutant_reach.Reached(1.0, places=places) for name, places in reached.items()}
    tests |= {f"half[{n}]": mutant_reach.Reached(2.0, places={"halves.py": n << 6}) for n in (1, 3)}
    tests |= {"fails": mutant_reach.Reached(1.0, passed=False, places=reached["half"])}
    assert mutant_reach.in_order(public, tests) == [["half", "other", "half[3]"], ["half[1]"], ["imports"]]
    assert mutant_reach.in_order(private, tests) == [["half", "half[3]"], ["half[1]"], ["imports"]]


def test_what_changes_nothing_is_not_drawn(small, area):
    nothing = faults(
        "halves.py",
        ('"""Halves."""', '"""Quarters."""'),
        ('    """Of an even number."""\n', "    pass\n"),
        ("n: int", "n: str"),
        ("-> int", "-> bool"),
        ("LEAST = 1", "LEAST =  1"),
        ("return n // 2", "return m // 2"),  # ends in a NameError
        ("return n // 2", "return n ) 2"),
        ("return n // 2", "return n // 2; raise"),
    )
    assert not any(map(mutant_sample.changes_python, nothing))
    assert mutant_sample.changes_python(*faults("halves.py", ("LEAST = 1", "LEAST = 2")))
    annotated = "from __future__ import annotations\nfrom typing import Any, cast\ndef f(x: Any): return cast(int, x)\n"
    assert mutant_sample.meaning(annotated) == mutant_sample.meaning(annotated.replace("Any, ", ""))
    assert mutant_sample.meaning(annotated) != mutant_sample.meaning(annotated.replace(", cast", ""))
    for before, after in (
        ("x: int = 1", "x: str = 1"),
        ('__all__ = ["f", "g"]', '__all__ = ["g", "f"]'),
        ('T = TypeVar("T")', 'T = TypeVar("T", bound=int)'),
        ("isinstance(x, (int, str))", "isinstance(x, (str, int))"),
        ("for k in x:\n    y = k", "for k in x:\n    y = k\n    continue"),
    ):
        assert mutant_sample.meaning(before) == mutant_sample.meaning(after)
        assert mutant_sample.meaning(before) != mutant_sample.meaning(f"{before}\nz = 1")


def test_faults_are_drawn_by_the_seed() -> None:
    file, line = "csrc/ops/pieces.cpp", "    if (a.size() < b[k] && std::max(c, d) == 1) copy(dst, src, size);\n"
    drawn = [[*mutant_sample.faulty_lines(file, line, random.Random(seed))] for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert sorted(drawn[0]) == sorted(drawn[2])
    assert {*drawn[0]} >= {
        "    if (a.size() < b && std::max(c, d) == 1) copy(dst, src, size);\n",
        "    if (a.size() < b[k] && (d) == 1) copy(dst, src, size);\n",
        "    if (a.size() < b[k]) copy(dst, src, size);\n",
        "    if ( std::max(c, d) == 1) copy(dst, src, size);\n",
        "    if (a.size() < b[k] && std::max(c, d) == 1) ;\n",
        "    if (a.size() < b[k] && std::max(c, d) == 1) copy(src, dst, size);\n",
        "    if (a.size() < b[k] && std::max(c, d) == 1) copy(src, src, size);\n",
        "    if (a.size() < b[k] && std::max(c, d) == 1) copy(dst, src, stride);\n",
        "    if (a.size() <= b[k] && std::max(c, d) == 1) copy(dst, src, size);\n",
    }


@pytest.mark.filterwarnings("ignore::SyntaxWarning")  # of faults that Python warns of
@pytest.mark.parametrize("only", ["viz", "torch_dml_ops/onnx/_onnx2torch.py"])
def test_faults_are_drawn_from_what_is_named_alone(tmp_path, monkeypatch, only) -> None:
    monkeypatch.setattr(mutant_sample, "COPY", tmp_path / "mutants")
    drawn = mutant_sample.sample(4, "1", [only, "7"])
    assert [mutant.number for mutant in drawn] == sorted({mutant.number for mutant in drawn})
    assert len(drawn) == 4
    assert all(only in (mutant.area, mutant.file) for mutant in drawn)
    assert mutant_sample.sample(4, "1", [only]) == drawn != mutant_sample.sample(4, "1", ["indexing"])


def test_the_compiler_says_which_faults_change_something(monkeypatch) -> None:
    compiler = mutant_sample.Compiler()
    file = "csrc/kernels/cpu/huge_pages.cpp"
    text = mutant_copy.source(file)
    line = next(line for line in text.splitlines() if line.lstrip().startswith("const auto first"))
    for faulty, outcome in ((line.replace("auto", "nothing"), None), (line + "  // said", None), (line + " ;", True)):
        checked = compiler.checked(mutant_of(1, file, text.index(line), line, faulty))
        assert (checked and checked.is_switched) == outcome
    assert compiler.same_code(mutant_of(1, file, text.index(line), line, line + " ;"))
    assert not compiler.same_code(mutant_of(1, file, text.index(line), line, line.replace("memory", "memory + 1")))


def test_faults_in_python_are_noticed_by_the_tests_that_run_them(small, area, capfd):
    recording = mutants.Run(["tests/test_halves.py"], record=small / "record")
    with capfd.disabled():
        assert [run.status for run in mutants.outcomes([recording], 1)] == [0]
    tests = pickle.loads(recording.record.read_bytes())
    assert [name.partition("::")[2] for name in tests] == [
        *(f"test_half[{n}]" for n in (2, 4, 6)),
        "test_least",
        "test_nothing",
    ]
    noticed_by = {
        ("n // 2", "n // 3"): "test_half",
        ("raise ValueError", "pass"): "test_least",
        ("while n % 2", "while 2"): "test_half",  # ends with the time it is given
        ("LEAST = 1", "LEAST = 7"): "test_half",  # runs at import
        ("LEAST = 1", "LEAST = least"): "before any test",  # ends the import
        ("LEAST = 1", "LEAST = 2"): "",
        ("n += 1", "n += 3"): None,  # which no test runs
    }
    changed = faults("halves.py", *noticed_by)
    endless = changed[2]
    (small / mutant_copy.LIST).write_text(json.dumps({m.number: (m.file, m.begin, m.end, m.becomes) for m in changed}))
    runs = [run for mutant in changed for run in mutants.runs_of(mutant, tests)]
    for run in runs:
        if run.mutant == endless:
            run.limit = 5
    with capfd.disabled():
        done = {run.mutant.number: run for run in mutants.all_outcomes(changed, runs, 2)}
    for number, expected in enumerate(noticed_by.values(), 1):
        run = done[number]
        assert run.is_noticed == bool(expected), run.mutant
        assert (not run.tests) == (expected is None)
        assert run.noticed_by.rpartition("::")[2].startswith(expected or "")
