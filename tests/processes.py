"""Processes that tests start."""

import os
import subprocess
import sys
from pathlib import Path

SECONDS = 600  # after which a program counts as hanging


def run_program(*command: object, cwd: Path | None = None, **environment: str) -> str:
    """What the program prints; it must exit with 0."""
    words, variables = list(map(str, command)), os.environ | environment
    done = subprocess.run(words, cwd=cwd, env=variables, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, f"exit status {done.returncode}: {words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def run_python(*arguments: object, cwd: Path | None = None, **environment: str) -> str:
    return run_program(sys.executable, *arguments, cwd=cwd, **environment)
