"""The faults of mutants.py fit the sources. (`make mutants` looks whether the tests notice them.)"""

import ast
from collections import Counter

import host_build
import mutants
import pytest
from mutant_table import EQUIVALENT

EVERY = mutants.mutants()
FILES = sorted({mutant.file for mutant in EVERY})


@pytest.mark.parametrize("file", FILES)
def test_every_fault_has_its_place(file: str) -> None:
    source = (mutants.ROOT / file).read_text()
    of_file = [mutant for mutant in EVERY if mutant.file == file]
    if of_file[0].is_cpp:
        mutants.with_switches(source, of_file)
        return
    for mutant in of_file:
        ast.parse(mutant.put_into(source))


def test_every_area_has_faults_and_tests() -> None:
    assert min(Counter(mutant.area for mutant in EVERY).values()) >= 8
    for tests in {mutant.tests for mutant in EVERY}:
        files = [name.partition("::")[0] for name in tests.split() if name.startswith("tests/")]
        assert all((mutants.ROOT / name).exists() for name in files)
        assert files or tests.split()[1] in host_build.programs()
    assert {*EQUIVALENT} <= {mutant.text for mutant in EVERY}
