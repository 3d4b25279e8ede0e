"""Processes that tests start."""

import os
import subprocess
import sys
from pathlib import Path

SECONDS = 1800  # after which a program counts as hanging


def started(*command: object, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """The program when it has ended, however it did."""
    words, variables = list(map(str, command)), os.environ | environment
    return subprocess.run(words, cwd=cwd, env=variables, capture_output=True, text=True, timeout=SECONDS)


def run_program(*command: object, cwd: Path | None = None, **environment: str) -> str:
    """What the program prints; it must exit with 0."""
    done = started(*command, cwd=cwd, **environment)
    assert done.returncode == 0, f"exit status {done.returncode}: {done.args}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def run_python(*arguments: object, cwd: Path | None = None, **environment: str) -> str:
    return run_program(sys.executable, *arguments, cwd=cwd, **environment)
