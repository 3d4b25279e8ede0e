"""``python -m torch_dml_ops``: what this build can do on this machine."""

import platform

import torch

import torch_dml_ops
from torch_dml_ops import _autograd, _libraries


def report() -> dict[str, str]:
    """Labels and values, in the order in which they are printed."""
    architectures = _libraries.cuda_architectures()
    if architectures is None:
        kernels = "none in this build (build with nvcc on the PATH, or TORCH_DML_OPS_CUDA=1)"
    elif not _libraries.cuda_kernels_loaded:
        kernels = f"compiled for {architectures}; not loaded, as this torch is a CPU build"
    else:
        kernels = f"compiled for {architectures}"
    gpus = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    return {
        "torch_dml_ops": torch_dml_ops.__version__,
        "torch": torch.__version__,
        "Python": platform.python_version(),
        "CPU threads": str(torch.get_num_threads()),
        "SIMD level": _libraries.simd_level(),
        "CUDA kernels": kernels,
        "GPUs": ", ".join(f"{g.name} (compute capability {g.major}.{g.minor})" for g in gpus) or "none seen",
        "derivatives": "every order, torch.func included"
        if _autograd.composes
        else "backward only: this torch lacks names that torch.func support is built on",
    }


def main() -> None:
    lines = report()
    width = max(map(len, lines)) + 2
    for label, value in lines.items():
        print(f"{label:{width}}{value}")


if __name__ == "__main__":
    main()
