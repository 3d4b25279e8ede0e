"""Finds and loads the compiled libraries."""

import ctypes
import os
import re
import sys
import sysconfig
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

_FOLDER = Path(__file__).parent
# A free-threaded Python has no limited API, so what is built there is named after its version.
_SUFFIX = sysconfig.get_config_var("EXT_SUFFIX") if sysconfig.get_config_var("Py_GIL_DISABLED") else ".abi3.so"
CPU_LIBRARY, CUDA_LIBRARY, FAST_CALLS_LIBRARY = (
    _FOLDER / f"{name}{_SUFFIX}" for name in ("_C", "_C_cuda", "_fast_calls")
)

if not CPU_LIBRARY.exists():
    raise ImportError(
        f"torch_dml_ops is not built in {_FOLDER.parent}: run `pip install --no-build-isolation -e .` there, or import "
        "the installed package from another folder"
    )

_operators: Any = torch.ops.torch_dml_ops


def _loaded(library: Path) -> ctypes.CDLL | None:
    """The library if this process has it already."""
    try:
        return ctypes.CDLL(str(library), mode=os.RTLD_NOW | os.RTLD_NOLOAD)
    except OSError:
        return None


def _mapped_files() -> set[str]:
    """The paths of the files that this process has mapped; " (deleted)" follows the path of one that was removed."""
    try:
        lines = Path("/proc/self/maps").read_text(errors="surrogateescape").splitlines()
    except OSError:
        return set()
    return {line[line.index("/") :] for line in lines if "/" in line}


def _refuse_another(library: Path, function: str) -> None:
    """Raises ImportError if this process has loaded the library, recognised by a function, from another file."""
    for file in _mapped_files():
        path = Path(file.removesuffix(" (deleted)"))
        if path.name != library.name or (path.exists() and path.samefile(library) and file == str(path)):
            continue
        if path == library.resolve():
            raise ImportError(
                f"torch_dml_ops: {library} was replaced after this process had loaded it; start a new process"
            )
        if hasattr(_loaded(path), function):
            raise ImportError(
                f"torch_dml_ops: {library} cannot be loaded, because this process has the operators from {path}; start "
                "a new process with only one of the two on its path"
            )


def _text(library: Path, function: str) -> str:
    """Calls a function of the library that takes no arguments and returns a string."""
    call = getattr(ctypes.CDLL(str(library)), function)
    call.restype = ctypes.c_char_p
    result: bytes = call()
    return result.decode()


def simd_levels() -> list[str]:
    """What TORCH_DML_OPS_SIMD may be, the lowest level first."""
    return _text(CPU_LIBRARY, "torch_dml_ops_simd_levels").split()


def _require_simd_level(wanted: str) -> None:
    if wanted and wanted not in simd_levels():
        *others, highest = simd_levels()
        allowed = f"{', '.join(others)} or {highest}" if others else highest
        raise ImportError(f"TORCH_DML_OPS_SIMD must be {allowed}, got {wanted!r}")


# torch does not check this, and ends the process when operators are defined a second time.
if hasattr(_operators, "slice1"):
    _refuse_another(CPU_LIBRARY, "torch_dml_ops_simd_level")
    _refuse_another(CUDA_LIBRARY, "torch_dml_ops_cuda_architectures")
    if _loaded(CPU_LIBRARY) is None:
        raise ImportError(
            f"torch_dml_ops: {CPU_LIBRARY} cannot be loaded, because this process has operators of the same names from "
            "a library of another name"
        )
torch.ops.load_library(str(CPU_LIBRARY))
_require_simd_level(os.environ.get("TORCH_DML_OPS_SIMD", ""))
cuda_kernels_loaded = bool(torch.version.cuda) and CUDA_LIBRARY.exists()
if cuda_kernels_loaded:
    torch.ops.load_library(str(CUDA_LIBRARY))
# _operators/without_kernels.py serves all others
devices_with_kernels = ("cpu", "cuda") if cuda_kernels_loaded else ("cpu",)

# The package may be imported again after it was removed from sys.modules. What its modules registered with torch is
# still registered, so they must not be executed again: they come from the first package, which torch's namespace keeps.
_package = sys.modules[__package__]
_first_package = vars(_operators).setdefault("_python_package", _package)
if _first_package is not _package:
    for _room, _names in {
        "_operators": ("definitions", "registration", "signature", "without_kernels"),
        "_torch": ("autograd", "ordinary_way", "short_way"),
        "_compile": ("inductor", "setting"),
    }.items():
        for _name in _names:
            if _module := getattr(getattr(_first_package, _room, None), _name, None):
                sys.modules[_module.__name__] = _module
                setattr(import_module(f"{__package__}.{_room}"), _name, _module)


def leave_to_python() -> None:
    """Removes the library's refusals of what Python serves: lazily conjugated and negated tensors where `out` is given,
    and CUDA tensors in a build without CUDA kernels."""
    ctypes.CDLL(str(CPU_LIBRARY)).torch_dml_ops_leave_to_python()


def simd_level() -> str:
    """The SIMD level that the CPU kernels chose on this processor."""
    return _text(CPU_LIBRARY, "torch_dml_ops_simd_level")


def cuda_architectures() -> str | None:
    """The GPU architectures that the CUDA kernels were compiled for, None where the build has none.

    They are read from the library's file: to load it would register its kernels, whatever torch they are beside.
    """
    if not CUDA_LIBRARY.exists():
        return None
    found = re.search(rb"CUDA architectures: ([^\0]+)", CUDA_LIBRARY.read_bytes())
    assert found is not None
    return found[1].decode()
