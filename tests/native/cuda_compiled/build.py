"""Makes programs in which compiled kernels run: nvcc's PTX or SASS, translated to C++, linked with the host's code.

Everything lies in build/cuda_compiled and is made anew when what it is made from has changed.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sysconfig
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import host_build
from host_build import CPU_KERNELS, CUDA_KERNELS

from . import ptx, sass
from .kernels import Kernel, plain_name, readable_names

PROGRAMS = Path(__file__).parent / "programs"
ROOT = PROGRAMS.parents[3]
FOLDER = ROOT / "build" / "cuda_compiled"
HEADERS = sorted((ROOT / "csrc" / "kernels").rglob("*.[hi]*"))

# As setup.py and torch's extensions compile the kernels.
NVCC = ["nvcc", "-O3", "-std=c++20", "--expt-relaxed-constexpr"]
TRANSLATED = ["g++", "-std=c++20", "-O1", "-w", "-fno-pie", "-fwrapv", "-fno-strict-aliasing", f"-I{PROGRAMS}"]

# Files of about the same size that the translated kernels are in, to be compiled side by side: at most so many, unless
# a file has fewer instructions than take as long as the header.
SHARDS, LEAST = 16, 2000


def cuda_tool(name: str) -> str | None:
    """cuobjdump or nvdisasm: on the PATH, or where NVIDIA's Python packages put it."""
    packages = Path(sysconfig.get_path("purelib"), "nvidia")
    return shutil.which(name) or next((str(p) for p in packages.glob(f"*/bin/{name}")), None)


def missing_tool(with_sass: bool = False) -> str:
    """Why kernels cannot be compiled here, if they cannot."""
    if shutil.which("nvcc") is None:
        return "needs nvcc, to compile the CUDA kernels"
    if with_sass and not (cuda_tool("cuobjdump") and cuda_tool("nvdisasm")):
        return "needs cuobjdump and nvdisasm: pip install nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm"
    return ""


def environment(**variables: str) -> dict[str, str]:
    return {**os.environ, **variables}


def _run(command: Sequence[str], **variables: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, env=environment(**variables))
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout}{done.stderr}"[:6000])
    return done.stdout


def make(target: Path, inputs: Iterable[Path], command: Sequence[str]) -> Path:
    """Runs the command that makes `target`, unless it is already made from the same inputs by the same command."""
    content = b"".join(path.read_bytes() for path in inputs)
    key = hashlib.sha256(repr(command).encode() + content).hexdigest()
    stamp = target.with_name(f"{target.name}.key")
    with host_build.locked(target.with_name(f"{target.name}.lock")):
        if not (target.exists() and stamp.exists() and stamp.read_text() == key):
            stamp.unlink(missing_ok=True)
            _run(command)
            stamp.write_text(key)
    return target


def _write(path: Path, text: str) -> Path:
    """At once, for another process may be reading it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}")
    new.write_text(text)
    return new.replace(path)


def compiled_ptx(arch: str) -> list[Path]:
    def compiled(source: Path) -> Path:
        target = FOLDER / arch / f"{source.stem}.ptx"
        return make(target, [source, *HEADERS], [*NVCC, "-ptx", f"-arch={arch}", str(source), "-o", str(target)])

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(compiled, CUDA_KERNELS))


def disassembled(source: Path, arch: str) -> str:
    """The SASS of a file of PTX."""
    target = source.with_suffix(".cubin")
    cubin = make(target, [source], ["nvcc", "-cubin", f"-arch={arch}", str(source), "-o", str(target)])
    disassembler = str(Path(cuda_tool("nvdisasm") or "").parent)  # cuobjdump calls it
    path = f"{disassembler}{os.pathsep}{os.environ['PATH']}"
    return _run([cuda_tool("cuobjdump") or "cuobjdump", "-sass", str(cubin)], PATH=path)


def compiled_sass(arch: str) -> list[str]:
    """Disassemblies of the sources' kernels."""
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda source: disassembled(source, arch), compiled_ptx(arch)))


def ptx_entries(arch: str, pattern: str = "") -> list[ptx.Entry]:
    """The kernels in whose readable name the pattern is found, of which there must be one."""
    entries = [entry for path in compiled_ptx(arch) for entry in ptx.entries(path.read_text())]
    names = readable_names(entry.name for entry in entries)
    found = [entry for entry in entries if re.search(pattern, names[entry.name])]
    if not found:
        raise SystemExit(f"--only: no kernel's name has {pattern}; they are named as {min(names.values())}")
    return found


def translated_kernels(arch: str, with_sass: bool, entries: Iterable[ptx.Entry]) -> list[Kernel]:
    """The kernels, from their PTX or from their SASS."""
    if not with_sass:
        return [entry.kernel() for entry in entries]
    code = {name: lines for text in compiled_sass(arch) for name, lines in sass.functions(text).items()}
    return [sass.kernel(entry.head(), code[entry.name]) for entry in entries]


def translation(kernels: Iterable[Kernel]) -> str:
    functions = (kernel.cpp(number) for number, kernel in enumerate(kernels))
    return f'#include "machine.h"\nnamespace cuda_compiled {{\nnamespace {{\n{"".join(functions)}}}\n}}\n'


def translated_objects(kernels: Sequence[Kernel], jobs: int) -> list[Path]:
    """Named after their content: nvcc makes much the same of the kernels for one architecture as for another."""
    number = sum(len(kernel.instructions) for kernel in kernels) // LEAST
    shards: list[list[Kernel]] = [[] for _ in range(max(1, min(SHARDS, number, len(kernels))))]
    for kernel in sorted(kernels, key=lambda k: len(k.instructions), reverse=True):
        min(shards, key=lambda shard: sum(len(k.instructions) for k in shard)).append(kernel)

    def compiled(shard: list[Kernel]) -> Path:
        text = translation(shard)
        cpp = _write(FOLDER / "translated" / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.cpp", text)
        target = cpp.with_suffix(".o")
        return make(target, [cpp, PROGRAMS / "machine.h"], [*TRANSLATED, "-c", str(cpp), "-o", str(target)])

    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(compiled, shards))


# cuda::execute(AffineCopies, Stream) and cuda::execute(ReverseCopy, Stream)
EXECUTE = [f"_ZN13torch_dml_ops4cuda7executeENS_{plan}EPv" for plan in ("12AffineCopies", "11ReverseCopy")]


def linked(program: Path, objects: Sequence[Path], checked: bool) -> Path:
    """The program, with the names of its kernels beside it. `checked`: cuda::execute is that of check_plans.cpp."""
    wrap = [f"-Wl,--wrap={function}" for function in EXECUTE] if checked else []
    make(program, objects, ["g++", "-no-pie", *map(str, objects), *wrap, "-o", str(program)])
    symbols = (line.split() for line in _run(["nm", str(program)]).splitlines() if "_GLOBAL__N_" in line)
    names = [f"{address} {plain_name(name)}" for address, kind, name in symbols if kind in "tT"]
    _write(program.with_name(f"{program.name}.symbols"), "\n".join(names))
    return program


def counting_program(arch: str, with_sass: bool, plans: str, jobs: int = 2) -> tuple[Path, dict[str, Kernel]]:
    """count_instructions.cpp with the kernels that the plans launch, and these by their names."""
    host = host_build.objects([*CUDA_KERNELS, PROGRAMS / "count_instructions.cpp"], jobs)
    names_only = linked(FOLDER / "kernels_of_plans", host, checked=False)
    names = subprocess.run([names_only, "kernels"], input=plans, capture_output=True, text=True, check=True).stdout
    entries = [entry for entry in ptx_entries(arch) if entry.name in names.split()]
    kernels = translated_kernels(arch, with_sass, entries)
    program = FOLDER / arch / ("count_sass" if with_sass else "count_ptx")
    linked(program, [*translated_objects(kernels, jobs), *host], checked=False)
    return program, {kernel.name: kernel for kernel in kernels}


def each_kernel(folder: Path, kernels: Sequence[Kernel], jobs: int = 2) -> Path:
    """each_kernel.cpp with these kernels."""
    host = host_build.objects([*CUDA_KERNELS, PROGRAMS / "check_plans.cpp", PROGRAMS / "each_kernel.cpp"], jobs)
    return linked(folder / "each_kernel", [*translated_objects(kernels, jobs), *host], checked=True)


def large_plans(folder: Path, kernels: Sequence[Kernel], jobs: int = 2) -> Path:
    """large_plans.cpp with these kernels."""
    host = host_build.objects([*CUDA_KERNELS, PROGRAMS / "large_plans.cpp"], jobs)
    return linked(folder / "large_plans", [*translated_objects(kernels, jobs), *host], checked=False)


def kernels_fuzz(folder: Path, kernels: Sequence[Kernel], jobs: int = 2) -> Path:
    """tests/native/kernels_fuzz.cpp with these kernels; its plans are executed where its last argument is `cuda`."""
    fuzz = PROGRAMS.parents[1] / "kernels_fuzz.cpp"
    host = host_build.objects([*CUDA_KERNELS, *CPU_KERNELS, PROGRAMS / "check_plans.cpp", fuzz], jobs)
    return linked(folder / "kernels_fuzz", [*translated_objects(kernels, jobs), *host], checked=True)
