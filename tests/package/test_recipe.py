"""CONTRIBUTING's recipe for an operator, followed: recipe_roll.patch adds one to a copy, which is built and tried."""

import shutil
import sys
from pathlib import Path

import pytest
from host_build import ROOT, unoptimized
from processes import run_program, started

PATCH = Path(__file__).parent / "recipe_roll.patch"

PROGRAM = """
import torch
import torch_dml_ops as dml
from torch_dml_ops._torch import short_way

x = torch.arange(24.0).reshape(2, 3, 4)
compiled = torch.compile(lambda x, shift: dml.roll(x, shift, 2) * 1, fullgraph=True, dynamic=True)
for axis in range(3):
    for shift in (-7, -1, 0, 1, 2, 5):
        want = x.roll(shift, axis)
        assert torch.equal(dml.roll(x, shift, axis), want)
        assert torch.equal(short_way.fast.roll(x.mT.contiguous().mT, shift, axis, None), want)
        assert torch.equal(torch.ops.torch_dml_ops.roll(x, axis=axis, shift=shift), want)
        out = torch.empty_like(x)
        assert dml.roll(x, torch.tensor(shift), axis, out=out) is out and torch.equal(out, want)
        assert axis == 0 or torch.equal(torch.vmap(lambda x: dml.roll(x, shift, axis - 1))(x), want)
        assert torch.equal(compiled(x, shift), x.roll(shift, 2))
y = x.double().requires_grad_()
assert torch.autograd.gradcheck(lambda y: dml.roll(y, 2, 1), y)
assert torch.autograd.gradgradcheck(lambda y: dml.roll(y, 2, 1), y)
assert torch.equal(torch.func.jvp(lambda x: dml.roll(x, 1, 0), (x,), (x,))[1], x.roll(1, 0))
torch.library.opcheck(torch.ops.torch_dml_ops.roll.default, (y, 1, 2))
for call, said in (
    (lambda: dml.roll(x, 1, -1), "roll: axis must be from 0 to 2, got -1; write 2 instead"),
    (lambda: dml.roll(x.to("meta"), 1, 3), "roll: axis must be from 0 to 2, got 3"),
    (lambda: dml.roll(x, 1.5, 0), "roll: shift must be a whole number, got 1.5"),
    (lambda: dml.roll(x, 1, 0, out=x), "roll: out must not share memory with input"),
    (lambda: dml.roll(x, 1, 0, out=x[:1]), "roll: out must have sizes [2, 3, 4], got [1, 3, 4]"),
):
    try:
        call()
    except (RuntimeError, TypeError) as error:
        assert str(error) == said, error
    else:
        raise AssertionError(said)
"""


@pytest.mark.thorough
def test_an_operator_is_added_as_the_recipe_says(tmp_path: Path) -> None:
    """With what the recipe names as product code, all ways to call it work; what tests lack, they say themselves."""
    copy = tmp_path / "copy"
    ignored = shutil.ignore_patterns(".venv", ".git", "build", "*.so", "*.egg-info", "__pycache__", ".*_cache")
    shutil.copytree(ROOT, copy, ignore=ignored, symlinks=True)
    run_program("git", "apply", "--unsafe-paths", f"--directory={copy}", PATCH, cwd=copy)
    compiler = unoptimized("g++", tmp_path / "c++")
    build = ("setup.py", "-q", "build_ext", "--inplace")
    run_program(sys.executable, *build, cwd=copy, TORCH_DML_OPS_CUDA="0", CXX=compiler)
    run_program(sys.executable, "-c", PROGRAM, cwd=tmp_path, PYTHONPATH=str(copy))
    tests = "--noconftest", "tests/contract/test_tables.py", "-k", "not emulation"  # which compile more
    tables = started(
        *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests),
        cwd=copy,
        PYTHONPATH=str(copy),
    )
    assert tables.returncode == 1, tables.stdout + tables.stderr
    assert " error" not in tables.stdout.splitlines()[-1], tables.stdout


def test_the_recipe_is_short() -> None:
    """An operator is at most 70 lines of product code in five files; CONTRIBUTING names each."""
    lines = PATCH.read_text().splitlines()
    added = [line for line in lines if line.startswith("+") and not line.startswith("+++")]
    files = [line.removeprefix("+++ b/") for line in lines if line.startswith("+++ ")]
    assert len(added) <= 70
    assert len(files) <= 5
    recipe = (ROOT / "CONTRIBUTING.md").read_text()
    assert [file for file in files if Path(file).name not in recipe] == []
