"""Builds three libraries into one wheel: _C (schemas, CPU), _fast_calls (a short way to them from Python) where there
are Python's headers, and _C_cuda where there is nvcc.

TORCH_DML_OPS_CUDA=auto|0|1   whether to compile the CUDA kernels; auto (the default) does where there is nvcc, for a
                              torch with CUDA: others do not load them
TORCH_CUDA_ARCH_LIST          GPU architectures, as torch's own builds read it
CUDA_HOME                     the CUDA toolkit, where it is not the one whose nvcc is on the PATH
CXX, _PYTHON_HOST_PLATFORM    a cross compiler, and what it compiles for: linux-aarch64

A CUDA build of torch is not needed to build them: the kernels include nothing of torch, and what queues them goes
through torch's stable ABI, in which CPU and CUDA builds are alike.
"""

import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from glob import glob
from pathlib import Path
from typing import Any

try:
    import torch
    from setuptools import Extension, setup
    from setuptools import __version__ as setuptools_version
    from setuptools.command.build import build
    from torch.utils import cpp_extension
    from torch.version import __version__ as torch_version
except ModuleNotFoundError as error:
    sys.exit(
        f"torch_dml_ops: to build needs {str(error.name).partition('.')[0]} in this environment: pip install "
        "'setuptools>=77' wheel ninja 'torch>=2.11', then pip install --no-build-isolation ."
    )

# A free-threaded Python has no limited API, so what is built there is for its version alone.
LIMITED_API = not sysconfig.get_config_var("Py_GIL_DISABLED")
SUFFIX = ".abi3.so" if LIMITED_API else sysconfig.get_config_var("EXT_SUFFIX")

PLATFORM = sysconfig.get_platform()

# The oldest torch that may load the result: the stable ABI of 2.11, whatever torch builds it.
TARGET = "-DTORCH_TARGET_VERSION=0x020b000000000000"
ARCHITECTURES = "8.0;9.0;10.0;12.0+PTX"  # A100, H100 and H200, B200, RTX 50; PTX for what comes after

OPERATORS = ["csrc/library.cpp", *sorted(glob("csrc/ops/*.cpp"))]
OPERATORS = [name for name in OPERATORS if "execute_" not in name]  # which are of one engine
LOOPS = sorted(glob("csrc/kernels/cpu/inner_loops_*.cpp"))  # first, as they take longest
CPU_ENGINE = [*LOOPS, *sorted({*glob("csrc/kernels/cpu/*.cpp")} - {*LOOPS}), "csrc/ops/execute_cpu.cpp"]
CUDA_ENGINE = [
    "csrc/ops/execute_cuda.cpp",
    *(f"csrc/kernels/cuda/{name}.cu" for name in ("affine_copy", "reverse_copy")),
]


PTXAS_REPORT = "csrc/ptxas_report.py"

# Where these functions were until glibc 2.34 moved them into libc.so.6, and the versions that they had there. Every
# later glibc still has them under these, so what is linked with them runs on older ones too, as torch's own wheels do.
MOVED_INTO_LIBC = {
    "libdl.so.2": {"GLIBC_2.2.5": "dladdr dlclose dlerror dlopen dlsym dlvsym", "GLIBC_2.3.4": "dlmopen"},
    "librt.so.1": {"GLIBC_2.2.5": "shm_open shm_unlink"},
    "libpthread.so.0": {
        "GLIBC_2.2.5": """
            pthread_condattr_setpshared pthread_create pthread_detach pthread_getspecific pthread_join
            pthread_key_create pthread_key_delete pthread_kill pthread_mutex_trylock pthread_mutexattr_destroy
            pthread_mutexattr_init pthread_mutexattr_setpshared pthread_mutexattr_settype pthread_once
            pthread_rwlock_destroy pthread_rwlock_init pthread_rwlock_rdlock pthread_rwlock_timedrdlock
            pthread_rwlock_timedwrlock pthread_rwlock_tryrdlock pthread_rwlock_trywrlock pthread_rwlock_unlock
            pthread_rwlock_wrlock pthread_rwlockattr_destroy pthread_rwlockattr_init pthread_rwlockattr_setpshared
            pthread_setspecific pthread_spin_destroy pthread_spin_init pthread_spin_lock pthread_spin_trylock
            pthread_spin_unlock sem_destroy sem_init sem_post sem_timedwait sem_trywait sem_wait
        """
    },
}


def require_tools() -> None:
    """Ends with a sentence where torch or setuptools is too old, or there is no compiler."""
    for tool, version, *oldest in ("torch", torch_version, 2, 11), ("setuptools", setuptools_version, 77):
        if list(map(int, re.findall(r"\d+", re.split(r"[^\d.]", version)[0]))) < oldest:  # "2.11.0a0+git" is 2.11.0
            needed = ".".join(map(str, oldest))
            sys.exit(
                f"torch_dml_ops: to build needs {tool} {needed} or later, got {version}: pip install '{tool}>={needed}'"
            )
    if shutil.which(compiler()[0]) is None:
        sys.exit(
            f"torch_dml_ops: to build needs a C++ compiler, and {compiler()[0]} was not found: install g++ 11 or later "
            "(on Debian: apt install g++), or name another by CXX"
        )


def compiler() -> list[str]:
    """The one that builds everything: CXX, or c++."""
    return shlex.split(cpp_extension.get_cxx_compiler())


def has_python_headers() -> bool:
    folders = {sysconfig.get_path("include", scheme="posix_prefix"), sysconfig.get_config_var("INCLUDEPY")}
    includes = [f"-I{folder}" for folder in folders if folder]
    preprocess = [*compiler(), *includes, *("-include", "Python.h", "-E", "-x", "c++", os.devnull)]
    found = subprocess.run(preprocess, capture_output=True).returncode == 0
    if not found:
        print(
            "torch_dml_ops: building without the short way from Python, so small calls take several times as long: "
            "Python.h was not found; install Python's headers (on Debian: apt install python3-dev) and build again",
            file=sys.stderr,
        )
    return found


def cuda_toolkit() -> str | None:
    """The toolkit's folder: CUDA_HOME, else where the nvcc on the PATH lies, which may be a script that calls it."""
    if home := os.environ.get("CUDA_HOME"):
        if not Path(home, "bin", "nvcc").exists():
            sys.exit(f"CUDA_HOME must be the folder of a CUDA toolkit, and {home} has no bin/nvcc")
        return home
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        return None
    candidates = [Path(nvcc).resolve()]
    if candidates[0].stat().st_size < 10_000:  # a script: the path that it calls
        candidates += map(Path, re.findall(r"[^\s\"'=]+/bin/nvcc", candidates[0].read_text(errors="ignore")))
    roots = (c.parents[1] for c in candidates)
    return next((str(root) for root in roots if Path(root, "include", "cuda_runtime.h").exists()), None)


def wanted_toolkit() -> str | None:
    wanted = os.environ.get("TORCH_DML_OPS_CUDA", "auto")
    if wanted not in ("auto", "0", "1"):
        sys.exit(f"TORCH_DML_OPS_CUDA must be auto, 0 or 1, got {wanted!r}")
    toolkit = cuda_toolkit() if wanted != "0" else None
    if toolkit is None and wanted == "1":
        sys.exit(
            "TORCH_DML_OPS_CUDA=1 needs nvcc, and none was found: install the CUDA toolkit (12.8 or later) and put its "
            "bin folder on the PATH or set CUDA_HOME, or build for the CPU alone with TORCH_DML_OPS_CUDA=0"
        )
    why = "TORCH_DML_OPS_CUDA=0" if wanted == "0" else "no nvcc was found"
    if toolkit is not None and wanted == "auto" and torch.version.cuda is None:
        toolkit, why = None, "this torch has no CUDA; TORCH_DML_OPS_CUDA=1 builds kernels for one that has"
    if toolkit is None:
        print(f"torch_dml_ops: building for the CPU alone ({why})", file=sys.stderr)
    else:
        architectures = os.environ.setdefault("TORCH_CUDA_ARCH_LIST", ARCHITECTURES)
        print(f"torch_dml_ops: building CUDA kernels with {toolkit} for {architectures}", file=sys.stderr)
    return toolkit


def extension(
    name: str, sources: list[str], defines: list[str], nvcc: list[str] | None = None, **more: Any
) -> Extension:
    # Hidden: the libraries hold functions of the same names, which must not stand in for one another.
    paths = (os.getcwd(), sysconfig.get_path("purelib"))  # which the libraries are not to name
    cxx = [
        *(f"-ffile-prefix-map={path}{os.sep}=" for path in paths),
        "-O3",
        "-std=c++20",
        "-fvisibility=hidden",
        "-g0",
        "-Wall",
        "-Wextra",
        "-Wno-unused-parameter",
        TARGET,
        *defines,
    ]
    result: Extension = cpp_extension.CppExtension(
        f"torch_dml_ops.{name}",
        sources,
        depends=[*(str(p) for p in Path("csrc").rglob("*.[him]*")), PTXAS_REPORT],
        extra_compile_args={"cxx": cxx, "nvcc": nvcc or []},
        py_limited_api=True,  # without libtorch_python
        # libtorch.so stays among the needed libraries: on a CUDA torch it brings libtorch_cuda into scope.
        extra_link_args=[
            *("-Wl,--no-as-needed", "-ltorch", "-Wl,--as-needed"),
            *older_glibc(Path("build", "glibc")),
            *("-Wl,--version-script=csrc/exports.map", "-Wl,-s"),
        ],
        **more,
    )
    result.py_limited_api = LIMITED_API
    return result


def older_glibc(folder: Path) -> list[str]:
    """Arguments for the linker, by which it finds those functions where they were: in empty libraries made here."""
    if PLATFORM not in ("linux-x86_64", "linux-aarch64") or platform.libc_ver()[0] != "glibc":
        return []
    folder.mkdir(parents=True, exist_ok=True)
    for library, versions in MOVED_INTO_LIBC.items():
        if PLATFORM == "linux-aarch64":  # whose first glibc was this one
            versions = {"GLIBC_2.17": " ".join(versions.values())}
        source, script = Path(folder, f"{library}.c"), Path(folder, f"{library}.map")
        source.write_text("".join(f"void {name}() {{}}\n" for names in versions.values() for name in names.split()))
        script.write_text("".join(f"{v} {{ global: {'; '.join(names.split())}; }};\n" for v, names in versions.items()))
        linked = ["-shared", "-nostdlib", f"-Wl,-soname,{library}", f"-Wl,--version-script={script}", "-w"]
        subprocess.run([*compiler(), *linked, "-x", "c", "-o", str(Path(folder, library)), str(source)], check=True)
    return [str(Path(folder, library)) for library in MOVED_INTO_LIBC]  # -l would find the system's: Python adds -L


def extensions() -> list[Extension]:
    if platform.system() != "Linux":
        sys.exit(
            f"torch_dml_ops is built on Linux, and not yet on {platform.system()}: build it there in a container, as "
            "by Containerfile, or on Windows in WSL"
        )
    require_tools()
    toolkit = wanted_toolkit()
    cpu_only = [] if toolkit else ["-DTORCH_DML_OPS_CPU_ONLY"]
    result = [extension("_C", OPERATORS + CPU_ENGINE, cpu_only)]
    if has_python_headers():
        result.append(extension("_fast_calls", ["csrc/python/fast_calls.cpp"], []))
    if toolkit:
        cpp_extension.CUDA_HOME = toolkit  # None on a CPU build of torch, whatever is installed
        nvcc = os.environ.get("PYTORCH_NVCC") or shlex.quote(f"{toolkit}/bin/nvcc")
        os.environ["PYTORCH_NVCC"] = f"{shlex.join([sys.executable, os.path.abspath(PTXAS_REPORT)])} {nvcc}"
        result.append(
            extension(
                "_C_cuda",
                OPERATORS + CUDA_ENGINE,
                [
                    "-DTORCH_DML_OPS_CUDA_LIBRARY",
                    "-DUSE_CUDA",
                    f'-DTORCH_DML_OPS_CUDA_ARCHITECTURES="{os.environ["TORCH_CUDA_ARCH_LIST"]}"',
                ],
                nvcc=[
                    *("-O3", "-std=c++20", "-Xcompiler=-fvisibility=hidden", "--threads=2", "-Xptxas=-v"),
                    "-Xfatbin=-compress-all",  # a quarter of the size; every driver unpacks it
                ],
                include_dirs=[f"{toolkit}/include"],
                library_dirs=[f"{toolkit}/lib64"],
                libraries=["cudart_static", "dl", "rt", "pthread"],
            )
        )
    return result


def description() -> str:
    """README for where the package lies without the repository, as in a registry: links to its files, which would lead
    nowhere there, become the files' names, and pictures go. The source distribution has the files."""
    text = Path("README.md").read_text(encoding="utf-8")
    text = re.sub(r"!\[[^]]*\]\((?!\w+:)[^)]*\)\n*", "", text)

    def name(link: re.Match[str]) -> str:
        return link[2] if link[1] == link[2] else f"{link[1]} ({link[2]})"

    return re.sub(r"(?<!!)\[([^]]*)\]\((?!\w+:)([^)]*)\)", name, text)


class Build(build):
    """Starts without what an earlier build gathered for its wheel: libraries and files that this one may not have."""

    def run(self) -> None:
        for stale in Path("build").glob("lib*"):
            shutil.rmtree(stale)
        super().run()


class BuildExtensions(cpp_extension.BuildExtension):
    """Keeps object files in build/, a folder for each library: both compile the same sources, and an editable install
    would otherwise start from nothing every time. build/ptxas.txt says what each CUDA kernel takes."""

    def run(self) -> None:
        # It refuses an nvcc of another version than torch's own CUDA. Our kernels have nothing to do with that one.
        cpp_extension._check_cuda_version = lambda *_: None
        if self.inplace:  # an earlier build may have had nvcc, or Python's headers
            built = {f"{ext.name.rpartition('.')[2]}{SUFFIX}" for ext in self.extensions}
            for stale in Path("torch_dml_ops").glob("*.so"):
                if stale.name not in built:
                    stale.unlink()
        super().run()

    def build_extension(self, ext: Extension) -> None:
        self.build_temp = str(Path("build", ext.name))
        objects = [
            Path(self.build_temp, source).with_suffix(".o") for source in ext.sources if str(source).endswith(".cu")
        ]
        # With a torch for CPUs, ninja does not learn which headers they include.
        headers = [path for path in Path("csrc/kernels").rglob("*.h") if "cpu" not in path.parts]
        for path in objects:
            if path.exists() and path.stat().st_mtime < max(header.stat().st_mtime for header in headers):
                path.unlink()
        super().build_extension(ext)
        kernels = [path.with_suffix(".o.ptxas") for path in objects]
        if reports := [path.read_text() for path in kernels if path.exists()]:  # none from a build without ninja
            Path("build/ptxas.txt").write_text("".join(reports))


setup(
    ext_modules=extensions(),
    long_description=description(),
    long_description_content_type="text/markdown",
    cmdclass={"build": Build, "build_ext": BuildExtensions},
    # _fast_calls keeps to it, the others use nothing of Python
    options={"bdist_wheel": {"py_limited_api": "cp310"}} if LIMITED_API else {},
)
