"""One process has the operators once: what happens where a second file has them, or the package comes a second time."""

import importlib.metadata
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from processes import started

import torch_dml_ops
from torch_dml_ops import _libraries

pytestmark = pytest.mark.thorough  # each test starts processes that import torch
PACKAGE = Path(torch_dml_ops.__file__).parent
CPU, CUDA = _libraries.CPU_LIBRARY.name, _libraries.CUDA_LIBRARY.name

PRELUDE = """
import importlib, os, shutil, sys, warnings
import torch
warnings.simplefilter("error")

def forget():
    for name in [name for name in sys.modules if name.partition(".")[0] == "torch_dml_ops"]:
        del sys.modules[name]

def refused():
    try:
        import torch_dml_ops
    except ImportError as error:
        return str(error)

def check():
    "Every registration of the package: kernels, derivatives, shapes without data, batching rules."
    import torch_dml_ops as dml
    x = torch.arange(6.0, requires_grad=True)
    dml.slice1(x, [0], [6], [-2]).sum().backward()
    assert x.grad.tolist() == [0, 1, 0, 1, 0, 1]
    assert dml.slice1(torch.empty(6, device="meta"), [0], [6], [-2]).shape == (3,)
    rows = torch.func.vmap(lambda row: dml.slice1(row, [0], [2], [-1]))(torch.arange(6).view(3, 2))
    assert rows.tolist() == [[1, 0], [3, 2], [5, 4]]
    assert torch.func.grad(lambda x: dml.slice1(x, [0], [2], [2]).sum())(torch.ones(2)).tolist() == [1, 0]
"""


def copy_of_the_package(folder: Path) -> Path:
    """The package there, as another installation is."""
    return Path(shutil.copytree(PACKAGE, folder / "torch_dml_ops", ignore=shutil.ignore_patterns("__pycache__")))


def run(code: str, *arguments: object, folder: Path = PACKAGE.parent) -> tuple[str, str]:
    """What the program prints in the folder of a package, and its errors; it must end as it should."""
    done = started(sys.executable, "-c", PRELUDE + code, *arguments, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def cannot_be_loaded(refused: Path, loaded: Path) -> str:
    return (
        f"torch_dml_ops: {refused} cannot be loaded, because this process has the operators from {loaded}; start a new "
        "process with only one of the two on its path\n"
    )


def test_a_second_package_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    copy = copy_of_the_package(tmp_path)
    code = "import torch_dml_ops; forget(); sys.path.insert(0, sys.argv[1]); print(refused())\n"
    code += "sys.path.pop(0); check()"
    assert run(code, tmp_path) == (cannot_be_loaded(copy / CPU, PACKAGE / CPU), "")


@pytest.mark.parametrize("renamed", [False, True])
def test_a_library_loaded_by_hand_before_another_package(tmp_path: Path, renamed: bool) -> None:
    library = copy_of_the_package(tmp_path) / CPU
    words = cannot_be_loaded(PACKAGE / CPU, library)
    if renamed:
        library = library.rename(tmp_path / "operators.so")
        words = (
            f"torch_dml_ops: {PACKAGE / CPU} cannot be loaded, because this process has operators of the same names "
            "from a library of another name\n"
        )
    assert run("torch.ops.load_library(sys.argv[1]); print(refused())", library) == (words, "")


def test_a_second_library_loaded_by_hand_registers_nothing_and_says_so(tmp_path: Path) -> None:
    """Nor does it end the process, as a second definition of an operator does in torch."""
    library = copy_of_the_package(tmp_path) / CPU
    out, errors = run("check(); torch.ops.load_library(sys.argv[1]); check()", library)
    words = f"torch_dml_ops: {library} registers nothing, for this process has the operators from another file\n"
    logs = importlib.metadata.version("torch") < "2.13"  # the second definition, with a stack
    assert (out, errors.splitlines(keepends=True)[-1 if logs else 0 :]) == ("", [words])


LOAD = f"torch.ops.load_library({str(PACKAGE / CPU)!r}); "
AGAIN = """
import torch_dml_ops; first = torch_dml_ops; check()
for _ in range({times}):
    forget(); import torch_dml_ops; check()
assert torch_dml_ops is not first and torch_dml_ops._torch.autograd is first._torch.autograd
assert first.slice1(torch.arange(3), [0], [3], [-1]).tolist() == [2, 1, 0]
torch_dml_ops.set_fusion('never'); assert first.get_fusion() == 'never'
"""
# Nothing is registered twice, of which torch would warn, and what was imported first works on.
WORKS: dict[str, str] = {
    "the same library loaded by hand before and after": f"{LOAD} check(); {LOAD} check()",
    "the same package imported again": AGAIN.format(times=1),
    "the same package imported three times again": AGAIN.format(times=3),
    "the same package by another path": "check(); forget(); sys.path.insert(0, sys.argv[1]); check()",
    # As the folder above the checkout has one; Python takes it for an empty package if it finds no other.
    "the package from a folder that has one of its name": "check()",
    "the package reloaded": "import torch_dml_ops; importlib.reload(torch_dml_ops); check()",
    "an import after one that failed on the way": """
sys.modules['torch_dml_ops._operators.definitions'] = None; assert 'halted' in refused()
del sys.modules['torch_dml_ops._operators.definitions']; check()
""",
}


@pytest.mark.parametrize("situation", WORKS)
def test_the_package_works_and_says_nothing(situation: str, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(PACKAGE.parent)
    (tmp_path / "torch_dml_ops").mkdir()
    elsewhere = {"folder": tmp_path} if "from a folder" in situation else {}
    assert run(WORKS[situation], tmp_path / "link", **elsewhere) == ("", "")


def test_a_package_installed_anew_under_a_running_process(tmp_path: Path) -> None:
    library = copy_of_the_package(tmp_path) / CPU
    code = "check(); forget(); shutil.copy(sys.argv[1], 'new'); os.replace('new', sys.argv[1]); print(refused())"
    out, _ = run(code, library, folder=tmp_path)
    assert out == f"torch_dml_ops: {library} was replaced after this process had loaded it; start a new process\n"


def test_a_package_with_the_cuda_kernels_of_another(tmp_path: Path) -> None:
    """Of which a library with the name and the one function of the real one takes the place here."""
    source = tmp_path / "kernels.cpp"
    source.write_text('extern "C" const char* torch_dml_ops_cuda_architectures() { return "9.0"; }\n')
    ours, theirs = copy_of_the_package(tmp_path / "ours"), copy_of_the_package(tmp_path / "theirs")
    kernels = source.with_suffix(".so")
    subprocess.run(["g++", "-shared", "-fPIC", str(source), "-o", str(kernels)], check=True)
    for package in (ours, theirs):
        (package / CUDA).unlink(missing_ok=True)
        shutil.copy(kernels, package / CUDA)
    code = "for library in sys.argv[1:]: torch.ops.load_library(library)\nprint(refused())"
    refused, _ = run(code, ours / CPU, theirs / CUDA, folder=ours.parent)
    assert refused == cannot_be_loaded(ours / CUDA, theirs / CUDA)
    taken, _ = run(code, ours / CPU, ours / CUDA, folder=ours.parent)
    assert taken == "None\n"


def test_the_library_alone_refuses_lazy_views_where_out_is_given() -> None:
    """Torch's kernels for them are not made for operators that return nothing; the package resolves them."""
    code = """
warnings.simplefilter("error")
torch.ops.load_library(sys.argv[1])
x = torch.view_as_complex(torch.arange(8.0).view(4, 2))
calls = {"slice1": ([0], [4], [-1]), "slice_grad": ([4], [0], [4], [-1]), "split": ([4], 0), "join": (0,)}
calls["reverse_subsequences"] = (torch.tensor([4]), 0)
for op, arguments in calls.items():
    for first, out in ((x.conj(), x.clone()), (x, x.clone().conj()), (x.conj().imag, x.real.clone())):
        first, out = [first] if op == "join" else first, [out] if op == "split" else out
        try:
            getattr(torch.ops.torch_dml_ops, op).out(first, *arguments, out=out)
        except RuntimeError as refusal:
            print(refusal)
import torch_dml_ops
for op, arguments in calls.items():
    out = x.clone()
    first, result = [x.conj()] if op == "join" else x.conj(), [out] if op == "split" else out
    getattr(torch.ops.torch_dml_ops, op).out(first, *arguments, out=result)
    assert out.equal(x.conj() if op in ("split", "join") else x.conj().resolve_conj().flip(0))
"""
    words = (
        "torch_dml_ops: without the Python package, tensors must not be lazily conjugated or negated views where out "
        "is given; call resolve_conj() or resolve_neg() first\n"
    )
    assert run(code, PACKAGE / CPU) == (15 * words, "")
