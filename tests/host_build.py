"""Compiles what the tests run besides the package: the CUDA kernels for the host, and torch-free C++ programs.

Results lie in build/tests and are made anew when a source is newer.
"""

import ctypes
import functools
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock
from torch.utils import cpp_extension

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "build" / "tests"
EMULATION = ROOT / "tests" / "cuda_on_host"
KERNELS = ROOT / "csrc" / "kernels"
CUDA_KERNELS = sorted((KERNELS / "cuda").glob("*.cu"))
CPU_KERNELS = sorted((KERNELS / "cpu").glob("*.cpp"))
COVERAGE = FOLDER / "coverage.txt"  # which lines of the kernels the tests ran, as a table
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def compile_to(target: Path, *arguments: str, compiler: str = "g++") -> Path:
    """Runs the compiler for `target` unless that is newer than all sources."""
    sources = [p for folder in ("csrc", "tests") for p in (ROOT / folder).rglob("*.[chi]*")]  # .cpp, .cu, .h, .inl
    newest = max(p.stat().st_mtime for p in [*sources, Path(__file__)])
    target.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{target}.lock"):  # several test processes may want it at once
        if target.exists() and target.stat().st_mtime > newest:
            return target
        warnings = ["-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas", "-Wno-unused-parameter"]
        command = [compiler, "-std=c++20", "-g1", *warnings, f"-I{EMULATION}", *arguments, "-o", str(target)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, f"{target.name} does not compile:\n{done.stderr}"
    return target


def compile_cpp(name: str, sources: Sequence[Path], *options: str, compiler: str = "g++") -> Path:
    """The program or library `name`, made from C++ and, as C++, from .cu sources."""
    cpp = [str(s) for s in sources if s.suffix == ".cpp"]
    cuda = ["-x", "c++", *(str(s) for s in sources if s.suffix == ".cu"), "-x", "none"]
    return compile_to(FOLDER / name, *cpp, *cuda, *options, compiler=compiler)


def with_coverage(sources: Sequence[Path]) -> list[Path]:
    """Objects that note which lines of the sources run; their notes lie beside them."""
    return [
        compile_to(FOLDER / "coverage" / f"{s.parent.name}_{s.stem}.o", "--coverage", "-O0", "-x", "c++", "-c", str(s))
        for s in sources
    ]


def launch_test() -> tuple[Path, list[Path]]:
    """The program that tests launches, and its objects, which note which of their lines run."""
    objects = with_coverage([EMULATION / "launch_test.cpp", *CUDA_KERNELS])
    return compile_cpp("launch_test", [], *map(str, objects), "-lgcov"), objects


def run_program(program: Path, *arguments: object, emulator: Sequence[str] = (), **environment: str) -> str:
    """What the program prints; it must exit with 0."""
    command = [*emulator, str(program), *map(str, arguments)]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{program.name} {arguments} failed:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def _operators(name: str, namespace: str, sources: Sequence[Path], *options: str) -> ctypes.CDLL:
    """Loads the operators as torch.ops.<namespace>, with `sources` for what executes their plans."""
    operators = [ROOT / "csrc" / "library.cpp"]
    operators += [p for p in sorted((ROOT / "csrc" / "ops").glob("*.cpp")) if not p.stem.startswith("execute_")]
    library = compile_cpp(
        name,
        [*operators, *sources],
        *("-shared", "-fPIC", "-fvisibility=hidden", *options),
        *("-DTORCH_TARGET_VERSION=0x020b000000000000", f"-DTORCH_DML_OPS_NAMESPACE={namespace}"),
        *(f"-isystem{p}" for p in cpp_extension.include_paths()),
        *(f"-L{p}" for p in cpp_extension.library_paths()),
        *("-Wl,--no-as-needed", "-ltorch", "-ltorch_cpu", "-lc10"),
    )
    torch.ops.load_library(str(library))
    return ctypes.CDLL(str(library))


@functools.cache
def cuda_on_host() -> ctypes.CDLL:
    """Loads the operators as torch.ops.torch_dml_ops_on_host, over the CUDA kernels, for CPU tensors."""
    sources = [EMULATION / "execute_on_host.cpp", *CUDA_KERNELS]
    return _operators("cuda_on_host.so", "torch_dml_ops_on_host", sources, "-O1")


@functools.cache
def counted_operators() -> ctypes.CDLL:
    """Loads the operators as torch.ops.torch_dml_ops_counted: they check, allocate and plan, and each of their steps, a
    call of a function, counts."""
    # The C library has functions of these names too, which do nothing; -Bsymbolic takes ours.
    options = "-O0", "-finstrument-functions", "-Wl,-Bsymbolic-functions"
    counted = ROOT / "tests" / "counted_operators.cpp"
    return _operators("counted_operators.so", "torch_dml_ops_counted", [counted], *options)


def take_steps() -> int:
    """How many steps the counted operators took since the last call."""
    take = counted_operators().counted_operators_take
    take.restype = ctypes.c_int64
    steps: int = take()
    return steps


def take_accesses() -> dict[str, Any]:
    """What the emulated kernels loaded and stored since the last call, in how many launches and blocks.

    Of `loads`: `bytes_loaded`; `widths_loaded`, how many were of so many bytes; `sectors_loaded`, the 32-byte sectors
    that each warp-wide load touches, summed; `distinct_bytes_loaded` and `distinct_sectors_loaded`, where what a block
    loads repeatedly counts once. The same of `stores`.
    """
    counts = (ctypes.c_int64 * 22)()
    cuda_on_host().cuda_on_host_take_accesses(counts)
    result: dict[str, Any] = {"launches": counts[0], "blocks": counts[1]}
    for kind, past, (count, total, *widths, sectors, distinct_bytes, distinct_sectors) in (
        ("loads", "loaded", counts[2:12]),
        ("stores", "stored", counts[12:22]),
    ):
        result |= {
            kind: count,
            f"bytes_{past}": total,
            f"widths_{past}": {1 << k: n for k, n in enumerate(widths) if n},
            f"sectors_{past}": sectors,
            f"distinct_bytes_{past}": distinct_bytes,
            f"distinct_sectors_{past}": distinct_sectors,
        }
    return result
