"""Finds and loads the compiled libraries."""

import ctypes
import os
from pathlib import Path

import torch

_FOLDER = Path(__file__).parent
CPU_LIBRARY = _FOLDER / "_C.abi3.so"
CUDA_LIBRARY = _FOLDER / "_C_cuda.abi3.so"

if not CPU_LIBRARY.exists():
    raise ImportError(
        f"torch_dml_ops is not built in {_FOLDER.parent}: run `pip install --no-build-isolation -e .` there, or import "
        "the installed package from another folder"
    )

if os.environ.get("TORCH_DML_OPS_SIMD", "") not in ("", "baseline", "avx2", "avx512"):
    raise ImportError(f"TORCH_DML_OPS_SIMD must be baseline, avx2 or avx512, got {os.environ['TORCH_DML_OPS_SIMD']!r}")

torch.ops.load_library(str(CPU_LIBRARY))
cuda_kernels_loaded = bool(torch.version.cuda) and CUDA_LIBRARY.exists()
if cuda_kernels_loaded:
    torch.ops.load_library(str(CUDA_LIBRARY))


def _text(library: Path, function: str) -> str:
    """What a function of the library without arguments returns."""
    call = getattr(ctypes.CDLL(str(library)), function)
    call.restype = ctypes.c_char_p
    result: bytes = call()
    return result.decode()


def simd_level() -> str:
    """The SIMD level that the CPU kernels chose on this processor."""
    return _text(CPU_LIBRARY, "torch_dml_ops_simd_level")


def cuda_architectures() -> str | None:
    """The GPU architectures that the CUDA kernels were compiled for, None where the build has none."""
    return _text(CUDA_LIBRARY, "torch_dml_ops_cuda_architectures") if CUDA_LIBRARY.exists() else None
