"""Processes that tests start."""

import multiprocessing
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

LIB = Path(__file__).parent
ROOT = LIB.parents[1]
SECONDS = 1800  # after which a program counts as hanging


def started(*command: object, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """The program when it has ended, however it did. If it hangs, it is killed with the processes that it started."""
    words, variables = list(map(str, command)), os.environ | environment
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, cwd=cwd, env=variables, start_new_session=True, **pipes) as process:
        try:
            printed, errors = process.communicate(timeout=SECONDS)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(words, process.returncode, printed, errors)


def run_program(*command: object, cwd: Path | None = None, **environment: str) -> str:
    """What the program prints; it must exit with 0."""
    done = started(*command, cwd=cwd, **environment)
    assert done.returncode == 0, f"exit status {done.returncode}: {done.args}\n{done.stdout}\n{done.stderr}"
    return done.stdout


# For tests that run others again: of what is random the first ones, and a part of the cases of each test.
FEWER = {"TORCH_DML_OPS_CASES": os.environ.get("TORCH_DML_OPS_CASES", "20"), "TORCH_DML_OPS_PART": "8"}


def run_python(*arguments: object, cwd: Path | None = None, **environment: str) -> str:
    return run_program(sys.executable, *arguments, cwd=cwd, **environment)


def path_with_lib() -> str:
    """PYTHONPATH for a program that imports from this folder."""
    return os.pathsep.join(filter(None, [str(LIB), str(ROOT), os.environ.get("PYTHONPATH")]))


def file_of_tests(name: str) -> Path:
    """The file of tests of this name, in whatever folder it is."""
    (path,) = (ROOT / "tests").rglob(f"test_{name}.py")
    return path


def assert_returns(function: Callable[..., None], *arguments: Any) -> None:
    """In a process that is forked for it, which may not end otherwise than by returning."""
    process = multiprocessing.get_context("fork").Process(target=function, args=arguments)
    process.start()
    process.join(SECONDS)
    assert process.exitcode == 0, arguments


HIDDEN = """
from importlib.machinery import PathFinder
def hide(missing, found=PathFinder.find_spec):
    PathFinder.find_spec = classmethod(
        lambda cls, name, *more: None if name.partition(".")[0] in missing else found(name, *more)
    )
"""


OPTIONAL = {"numpy", "matplotlib", "onnx", "onnxruntime", "onnxscript", "onnx2torch", "sktime", "tqdm"}


def unnamed(text: str) -> set[str]:
    """The packages that a text does not say are needed."""
    return OPTIONAL.difference(re.findall(r"\w+", text.lower()))
