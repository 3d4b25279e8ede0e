"""The kernels by themselves: both engines on random plans under the sanitizers, and the CUDA kernels' accesses."""

import json
import os
import subprocess
import sys

import host_build
import pytest
import torch
from host_build import compile_cpp, run_program

CASES = int(os.environ.get("TORCH_DML_OPS_FUZZ_CASES", "6000"))
SEED = int(os.environ.get("TORCH_DML_OPS_SEED", "0"))


@pytest.mark.parametrize("level", ["baseline", "avx2", "avx512"])
def test_engines_agree_with_random_plans_under_the_sanitizers(level):
    """At each SIMD level that this processor has; it runs the next lower one for a higher one."""
    sources = [host_build.ROOT / "tests" / "kernels_fuzz.cpp", *host_build.CPU_KERNELS, *host_build.CUDA_KERNELS]
    fuzz = compile_cpp("kernels_fuzz", sources, "-O1", *host_build.SANITIZERS)
    assert run_program(fuzz, CASES // 3, SEED, TORCH_DML_OPS_SIMD=level) == f"{CASES // 3} cases right\n"


def test_random_plans_run_every_line_of_the_cpu_kernels():
    objects = host_build.cpu_kernels_with_coverage()
    fuzz = compile_cpp(
        "kernels_fuzz_coverage",
        [host_build.ROOT / "tests" / "kernels_fuzz.cpp", *host_build.CUDA_KERNELS],
        *("-O1", *map(str, objects), "-lgcov"),
    )
    folder = objects[0].parent
    for counts in folder.glob("*.gcda"):
        counts.unlink()
    for level in ("baseline", "avx2", "avx512"):
        run_program(fuzz, max(CASES // 4, 1500), SEED, TORCH_DML_OPS_SIMD=level)
    command = [sys.executable, "-m", "gcovr", "--root", str(host_build.ROOT), "--filter", "csrc/kernels/cpu/"]
    # A line of a template counts once, whichever of its instances ran it.
    command += ["--merge-lines", "--txt", str(host_build.COVERAGE), "--json-summary", "-", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=host_build.ROOT)
    assert done.returncode == 0, done.stderr
    total = json.loads(done.stdout)
    assert total["line_total"] > 500
    assert total["line_covered"] == total["line_total"], host_build.COVERAGE.read_text()


def test_emulation_sees_a_missing_barrier():
    program = compile_cpp("self_test", [host_build.EMULATION / "self_test.cpp"], "-O1")
    assert run_program(program) == "the emulation sees a missing barrier\n"


def on_host(name, *arguments):
    """The result of the CUDA kernels' code, and its accesses."""
    host_build.cuda_on_host()
    host_build.take_accesses()
    result = getattr(torch.ops.torch_dml_ops_on_host, name)(*arguments)
    return result, host_build.take_accesses()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float32, torch.float64, torch.complex128])
def test_aligned_copies_move_16_bytes_at_a_time(dtype):
    x = torch.zeros(8, 64, 32, dtype=dtype)
    total = 8 * 32 * 32 * x.element_size()
    for result, accesses in (
        on_host("slice1", x, [0, 16, 0], [8, 32, 32], [1, 1, 1]),
        on_host("slice1", x, [0, 0, 0], [8, 64, 32], [-1, -2, 1]),
        on_host("split", x, [32, 32], 1),
        on_host("join", [x[:4], x[4:]], 0),
        on_host("reverse_subsequences", x, torch.full((8, 1, 1), 20).expand(8, 1, 32), 1),
    ):
        moved = total if isinstance(result, torch.Tensor) and result.numel() < x.numel() else 2 * total
        assert accesses["bytes_stored"] == moved
        assert accesses["stores"] == moved // 16


def test_slice_grad_stores_every_element_once():
    g = torch.zeros(8, 16, 32)
    result, accesses = on_host("slice_grad", g, [8, 64, 64], [0, 3, 16], [8, 61, 32], [1, -4, 1])
    assert accesses["bytes_stored"] == result.numel() * 4
    assert accesses["bytes_loaded"] == g.numel() * 4
