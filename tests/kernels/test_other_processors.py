"""Processors and compilers that the tests do not run on or with: ARM, x86-64 without AVX2, and clang.

`make test-processors` runs these tests with fifteen times as many random plans.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from filelock import FileLock
from host_build import ROOT, program, unoptimized
from processes import run_program, run_python, started

from torch_dml_ops import _libraries

pytestmark = pytest.mark.thorough

CASES = int(os.environ.get("TORCH_DML_OPS_FUZZ_CASES", "2000"))
AARCH64 = "aarch64-linux-gnu-g++"


def needs(tool: str, package: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(
        shutil.which(tool) is None, reason=f"needs {tool}: install Debian's or Ubuntu's package {package}"
    )


needs_aarch64 = needs(AARCH64, "g++-aarch64-linux-gnu")
needs_qemu_aarch64 = needs("qemu-aarch64", "qemu-user")
needs_qemu_x86_64 = needs("qemu-x86_64", "qemu-user")
needs_clang = needs("clang++", "clang")
on_x86_64 = pytest.mark.skipif(os.uname().machine != "x86_64", reason="has a counterpart only on x86-64")


@pytest.fixture
def one_emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Each takes up to 14 GB: two at once took more than a machine had."""
    with FileLock(tmp_path_factory.getbasetemp().parent / "emulator.lock"):
        yield


@needs_aarch64
@needs_qemu_aarch64
@pytest.mark.parametrize(
    "plans", [(CASES // 25, 0), (f"alignments/{5 if CASES <= 2000 else 1}", "cpu")], ids=["random", "alignments"]
)
def test_plans_on_aarch64(plans: tuple[int | str, ...], one_emulator: None) -> None:
    assert run_program("qemu-aarch64", program("kernels_fuzz_aarch64"), *plans).endswith(" cases right\n")


@on_x86_64
@needs_qemu_x86_64
@pytest.mark.parametrize("processor", ["Nehalem", "Haswell"])  # without AVX, and with AVX2 but not AVX-512
def test_random_plans_on_older_x86_64(processor: str, one_emulator: None) -> None:
    emulator = ["qemu-x86_64", "-cpu", processor]
    assert run_program(*emulator, program("kernels_fuzz"), CASES // 10, 0, "cpu").endswith(" cases right\n")


@on_x86_64
@needs_qemu_x86_64
def test_an_older_x86_64_refuses_the_instructions_it_lacks(tmp_path: Path) -> None:
    """So that the test above would find a kernel of the wrong level."""
    source = tmp_path / "avx2.cpp"
    source.write_text(
        "#include <immintrin.h>\n"
        "int main(int count, char**) {\n"
        "  const __m256i sum = _mm256_add_epi32(_mm256_set1_epi32(count), _mm256_set1_epi32(1));\n"
        "  return _mm256_extract_epi32(sum, 7) - 2;\n"
        "}\n"
    )
    avx2 = tmp_path / "avx2"
    subprocess.run(["g++", "-mavx2", "-static", str(source), "-o", str(avx2)], check=True)
    assert run_program("qemu-x86_64", "-cpu", "Haswell", avx2) == ""
    done = subprocess.run(["qemu-x86_64", "-cpu", "Nehalem", str(avx2)], capture_output=True, cwd=tmp_path)
    assert b"Illegal instruction" in done.stderr


COUNT_ONE = """
import loop_instructions as loops
loops.LOOPS = {name: loops.LOOPS[name] for name in ("stride -1",)}
print(loops.version())
print(loops.table())
"""


@on_x86_64
@needs_aarch64
@needs_qemu_aarch64
@needs_qemu_x86_64
def test_inner_loops_take_the_instructions_that_are_written() -> None:
    written = (ROOT / "benchmarks" / "results" / "loop-instructions.md").read_text()
    version, *lines = run_python("-c", COUNT_ONE, PYTHONPATH=str(ROOT / "benchmarks")).splitlines()
    row = lines[2]
    assert re.fullmatch(r"\| stride -1 (\| \d\.\d\d / \d\.\d\d / \d\.\d\d ){5}\|", row)
    if f"by g++ {version}," in written:  # another makes other loops of them
        assert row in written.splitlines()


def build(folder: Path, compiler: str, **environment: str) -> list[Path]:
    """Runs setup.py on a copy of the sources, for the CPU alone, and returns the libraries."""
    sources = folder / "sources"
    sources.mkdir()
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, sources)
    for name in ("csrc", "torch_dml_ops"):
        shutil.copytree(ROOT / name, sources / name, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    environment |= {"CXX": unoptimized(compiler, folder / "c++"), "TORCH_DML_OPS_CUDA": "0"}
    printed = started(sys.executable, "setup.py", "build_ext", "--inplace", cwd=sources, **environment)
    assert printed.returncode == 0, printed.stdout + printed.stderr
    assert "warning: " not in printed.stdout + printed.stderr
    return sorted((sources / "torch_dml_ops").glob("*.so"))


@needs_aarch64
def test_setup_builds_for_aarch64(tmp_path: Path) -> None:
    """Every source, with the flags that setup.py has for that machine. Empty libraries stand in for torch's there."""
    for library in ("torch", "torch_cpu", "c10"):
        to = str(tmp_path / f"lib{library}.so")
        subprocess.run([AARCH64, "-shared", "-nostdlib", "-x", "c", os.devnull, "-o", to], check=True)
    libraries = build(tmp_path, AARCH64, LDFLAGS=f"-L{tmp_path}", _PYTHON_HOST_PLATFORM="linux-aarch64")
    assert libraries[0].name == "_C.abi3.so"  # the other one needs Python's headers for that machine
    for library in libraries:
        header = run_program("readelf", "-hd", library)
        assert re.search(r"Machine: +AArch64", header)
        assert "[libtorch.so]" in header
        assert "aoti_torch_" in run_program("nm", "-D", "--undefined-only", library)


@needs_clang
@pytest.mark.parametrize("level", _libraries.simd_levels())
def test_random_plans_compiled_by_clang(level: str) -> None:
    said = run_program(program("kernels_fuzz_clang"), CASES // 10, TORCH_DML_OPS_SIMD=level)
    assert said.endswith(" cases right\n")


@needs_clang
def test_setup_builds_with_clang(tmp_path: Path) -> None:
    """With every SIMD level; what it makes of the kernels is run by the test above."""
    folder = build(tmp_path, "clang++")[0].parents[1]
    program = "import torch, torch_dml_ops as dml; from torch_dml_ops import _libraries as l\n"
    program += "print(l.CPU_LIBRARY, dml.slice1(torch.arange(3), [0], [3], [-1]), *l.simd_levels(), sep='\\n')"
    library, result, *levels = run_python("-c", program, cwd=folder).splitlines()
    assert Path(library).is_relative_to(folder)
    assert result == "tensor([2, 1, 0])"
    all_levels = ["baseline", "avx2", "avx512", "avx512_gather"]
    assert levels == (all_levels if os.uname().machine == "x86_64" else ["baseline"])
