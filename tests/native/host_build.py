"""Builds what the tests run besides the package: the CUDA kernels for the host, and torch-free C++ programs.

Ninja makes one object of each source and set of flags, in build/tests, and makes it again when the source, a header
that it includes, or the flags change. A test builds what it runs; `make test` has it built before, side by side, by
`python tests/native/host_build.py test`, and `make test-all` by `python tests/native/host_build.py test-all`.
"""

import contextlib
import ctypes
import fcntl
import functools
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROOT = Path(__file__).parents[2]
SOURCES = Path(__file__).parent
FOLDER = ROOT / "build" / "tests"
EMULATION = SOURCES / "cuda_on_host"
COMPILED = SOURCES / "cuda_compiled" / "programs"
KERNELS = ROOT / "csrc" / "kernels"
CUDA_KERNELS = sorted((KERNELS / "cuda").glob("*.cu"))
CPU_KERNELS = sorted((KERNELS / "cpu").glob("*.cpp"))
OPERATORS = [ROOT / "csrc" / "library.cpp"]
OPERATORS += [p for p in sorted((ROOT / "csrc" / "ops").glob("*.cpp")) if not p.stem.startswith("execute_")]
COVERAGE = FOLDER / "coverage.txt"  # which lines of the kernels the tests ran, as a table
HOST_DEVICE = "hostdev"  # the name of the device of host_device.cpp
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
FAULTY_ENGINE = ROOT / "build" / "sanitized" / "faulty" / "affine_copy.cpp"  # which sanitize.py writes


@dataclass(frozen=True)
class Flags:
    name: str  # of the folder that the objects are in
    options: tuple[str, ...]
    compiler: str = "g++"

    def command(self) -> list[str]:
        warnings = ["-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas", "-Wno-unused-parameter"]
        return [self.compiler, "-std=c++20", *warnings, f"-I{EMULATION}", *self.options]

    def object_of(self, source: Path) -> Path:
        return FOLDER / self.name / f"{source.parent.name}_{source.stem}.o"


CHECKED = "-D_GLIBCXX_ASSERTIONS"  # an index beyond a span or a vector ends the program
PLAIN = Flags("plain", ("-O1", "-fPIC", "-fvisibility=hidden", CHECKED))  # for programs and libraries
SANITIZED = Flags("sanitized", ("-O1", "-g1", CHECKED, *SANITIZERS))
COVERED = Flags("covered", ("-O0", "--coverage"))  # its objects note which lines run, in files beside them
THREADS = Flags("threads", ("-O1", "-g1", "-fsanitize=thread", f"-I{KERNELS / 'cpu'}"))
CLANG = Flags("clang", ("-O1",), "clang++")
AARCH64 = Flags("aarch64_plain", ("-O1",), "aarch64-linux-gnu-g++")
# As setup.py compiles them: their instructions are counted, and what is made of them for ARM runs nowhere else.
EMULATED = {"x86_64": Flags("x86_64", ("-O3",)), "aarch64": Flags("aarch64", ("-O3",), AARCH64.compiler)}

Part = tuple[Path, Flags]


@dataclass(frozen=True)
class Program:
    """A program, or a library whose name ends in .so."""

    parts: Sequence[Part]
    link: tuple[str, ...] = ()
    built_for: str = "test"  # the target of make that has it built before the tests; others are built when they run

    @property
    def compiler(self) -> str:
        return self.parts[0][1].compiler

    @property
    def objects(self) -> list[Path]:
        return [flags.object_of(source) for source, flags in self.parts]


def _with(flags: Flags, *sources: Path) -> list[Part]:
    return [(source, flags) for source in sources]


@functools.cache
def programs() -> dict[str, Program]:
    kernels = [*CPU_KERNELS, *CUDA_KERNELS]
    fuzz = [SOURCES / "kernels_fuzz.cpp", *kernels]
    launch = [EMULATION / "launch_test.cpp", *CUDA_KERNELS]
    with_fault = [FAULTY_ENGINE if source.name == FAULTY_ENGINE.name else source for source in fuzz]
    result = {
        "kernels_fuzz": Program(_with(PLAIN, *fuzz)),
        "kernels_fuzz_sanitized": Program(
            [*_with(SANITIZED, fuzz[0], *CPU_KERNELS), *_with(PLAIN, *CUDA_KERNELS)], SANITIZERS, built_for="test-all"
        ),
        "kernels_fuzz_all_sanitized": Program(_with(SANITIZED, *fuzz), SANITIZERS, built_for=""),
        "kernels_fuzz_covered": Program(
            # first, so that what is inline is theirs
            [*_with(COVERED, *kernels), *_with(PLAIN, fuzz[0])],
            ("-lgcov",),
            built_for="test-all",
        ),
        "kernels_fuzz_threads": Program(_with(THREADS, *fuzz), ("-fsanitize=thread",), built_for=""),
        "kernels_fuzz_threads_faulty": Program(_with(THREADS, *with_fault), ("-fsanitize=thread",), built_for=""),
        "kernels_fuzz_clang": Program(
            [*_with(CLANG, *CPU_KERNELS), *_with(PLAIN, fuzz[0], *CUDA_KERNELS)], built_for=""
        ),
        **{
            f"loop_calls_{machine}": Program(
                _with(flags, SOURCES / "loop_calls.cpp", *CPU_KERNELS), ("-static",), built_for=""
            )
            for machine, flags in EMULATED.items()
        },
        "kernels_fuzz_aarch64": Program(
            [*_with(AARCH64, fuzz[0], *CUDA_KERNELS), *_with(EMULATED["aarch64"], *CPU_KERNELS)],
            ("-static",),
            built_for="",
        ),
        "launch_test": Program(_with(PLAIN, *launch)),
        "launch_test_covered": Program(_with(COVERED, *launch), ("-lgcov",), built_for="test-all"),
        "self_test": Program(_with(PLAIN, EMULATION / "self_test.cpp")),
    }
    if (spec := find_spec("torch")) is None or spec.origin is None:  # which most of them do without
        return result
    torch = Path(spec.origin).parent
    libraries = (f"-L{torch / 'lib'}", "-Wl,--no-as-needed", "-ltorch", "-ltorch_cpu", "-lc10")
    load = (*libraries, f"-Wl,-rpath,{torch / 'lib'}", "-ldl")

    def operators(name: str, *options: str) -> Flags:
        """They are registered as torch.ops.torch_dml_ops_<name>."""
        defined = "-DTORCH_TARGET_VERSION=0x020b000000000000", f"-DTORCH_DML_OPS_NAMESPACE=torch_dml_ops_{name}"
        return Flags(name, ("-fPIC", "-fvisibility=hidden", *options, *defined, f"-isystem{torch / 'include'}"))

    on_host, counted = operators("on_host", "-O1"), operators("counted", "-O0", "-finstrument-functions")
    steps = SOURCES / "counted_operators.cpp"
    of_torch = [f"-isystem{torch / 'include' / folder}" for folder in ("", "torch/csrc/api/include")]
    with_torch = Flags("with_torch", ("-O1", "-fPIC", "-fvisibility=hidden", *of_torch))
    return result | {
        "load_library": Program(_with(PLAIN, SOURCES / "load_library.cpp"), load),
        "cuda_on_host.so": Program(
            [*_with(on_host, *OPERATORS, EMULATION / "execute_on_host.cpp"), *_with(PLAIN, *CUDA_KERNELS)],
            ("-shared", *libraries),
        ),
        "host_device.so": Program(_with(with_torch, SOURCES / "host_device.cpp"), ("-shared", *libraries)),
        # The C library has functions of the names that -finstrument-functions calls, too; they do nothing, and
        # -Bsymbolic takes ours.
        "counted_operators.so": Program(
            _with(counted, *OPERATORS, steps), ("-shared", "-Wl,-Bsymbolic-functions", *libraries)
        ),
    }


def _manifest() -> str:
    """The programs, and objects of all that the compiled CUDA kernels are linked with, for ninja."""

    def path(p: Path) -> str:
        return str(p).replace("$", "$$").replace(" ", "$ ").replace(":", "$:")

    def command(words: Iterable[str]) -> str:
        return shlex.join(words).replace("$", "$$")

    others = [*COMPILED.glob("*.cpp"), SOURCES / "kernels_fuzz.cpp", *CPU_KERNELS, *CUDA_KERNELS]
    parts = {part: None for program in programs().values() for part in program.parts} | dict.fromkeys(
        _with(PLAIN, *sorted(others))
    )
    lines = [f"builddir = {path(FOLDER)}", "rule link", "  command = $compiler $in $options -o $out"]
    for flags in dict.fromkeys(flags for _, flags in parts):
        lines += [f"rule {flags.name}", "  deps = gcc", "  depfile = $out.d"]
        lines += [f"  command = {command(flags.command())} -MMD -MF $out.d -x c++ -c $in -o $out"]
    lines += [f"build {path(flags.object_of(source))}: {flags.name} {path(source)}" for source, flags in parts]
    for name, program in programs().items():
        lines += [f"build {path(FOLDER / name)}: link {' '.join(map(path, program.objects))}"]
        lines += [f"  compiler = {program.compiler}", f"  options = {command(program.link)}"]
    return "\n".join([*lines, ""])


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Several processes may want something built at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def build(*targets: Path, jobs: int = len(os.sched_getaffinity(0))) -> None:
    ninja = shutil.which("ninja", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    assert ninja is not None, "needs ninja, which the extra dev brings"
    manifest = FOLDER / "build.ninja"
    with locked(FOLDER / "build.lock"):
        manifest.write_text(_manifest())
        done = subprocess.run(
            [ninja, "--quiet", "-f", manifest, "-j", str(jobs), *targets], cwd=ROOT, capture_output=True, text=True
        )
    assert done.returncode == 0, f"does not compile:\n{done.stdout}{done.stderr}"


def objects(sources: Iterable[Path], jobs: int) -> list[Path]:
    """For programs that are linked with something else."""
    result = [PLAIN.object_of(source) for source in sources]
    build(*result, jobs=jobs)
    return result


@functools.cache
def program(name: str) -> Path:
    build(FOLDER / name)
    return FOLDER / name


def unoptimized(compiler: str, script: Path) -> str:
    """For builds of which nobody asks how fast they are: a script that calls the compiler with -O0 as its last word."""
    script.write_text(f'#!/bin/sh\nexec {shutil.which(compiler)} "$@" -O0\n')
    script.chmod(0o755)
    return str(script)


def _operators(name: str) -> ctypes.CDLL:
    import torch

    library = program(name)
    torch.ops.load_library(str(library))
    return ctypes.CDLL(str(library))


@functools.cache
def cuda_on_host() -> ctypes.CDLL:
    """Loads the operators as torch.ops.torch_dml_ops_on_host, over the CUDA kernels, for CPU tensors."""
    return _operators("cuda_on_host.so")


@functools.cache
def counted_operators() -> ctypes.CDLL:
    """Loads the operators as torch.ops.torch_dml_ops_counted: they check, allocate and plan, and each of their steps, a
    call of a function, counts."""
    return _operators("counted_operators.so")


@functools.cache
def host_device() -> ctypes.CDLL:
    """Registers the device with torch. Before the first backward pass, for which torch starts a thread per device."""
    import torch

    library = program("host_device.so")
    torch.ops.load_library(str(library))
    torch.utils.rename_privateuse1_backend(HOST_DEVICE)
    answers = {"is_available": True, "is_initialized": True, "device_count": 1, "current_device": 0}
    answers |= {"_is_in_bad_fork": False, "get_amp_supported_dtype": [], "manual_seed_all": None}
    answers |= {"get_rng_state": torch.empty(0, device="cpu"), "set_rng_state": None}
    answers |= {"device": contextlib.nullcontext()}
    module = SimpleNamespace(**{name: lambda *_, answer=answer: answer for name, answer in answers.items()})
    torch._register_device_module(HOST_DEVICE, module)
    return ctypes.CDLL(str(library))


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


if __name__ == "__main__":
    build(*(FOLDER / name for name, program in programs().items() if program.built_for in sys.argv[1:]))
