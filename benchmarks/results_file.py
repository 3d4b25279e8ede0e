"""Files of results: JSON under benchmarks/results that names versions, machine and commit."""

import datetime
import json
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from torch_dml_ops.__main__ import report

FOLDER = Path(__file__).parent / "results"

Row = dict[str, Any]
Part = tuple[str, Sequence[Any], Callable[[Any], None]]  # of a benchmark: what it is, its cases, what measures each


class Benchmark:
    """A list of cases that are measured, whose results are one file."""

    kind: str  # how the file's name begins
    cases: dict[int, list[Any]]  # by the number of threads, 0 on a GPU
    whole: bool  # so that the results replace older ones

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.skipped: list[str] = []
        self.more: dict[str, Any] = {}  # that the file tells

    def parts(self) -> Iterator[Part]:
        raise NotImplementedError


def machine_name(device: str) -> str:
    """The processor's or the GPU's model, fit for a file name; with the SIMD level, if TORCH_DML_OPS_SIMD names one."""
    if device == "cuda":
        name = torch.cuda.get_device_name()
    else:
        models = re.findall(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
        name = re.sub(r"\((?:R|TM)\)|\bprocessor\b", "", models[0], flags=re.I) if models else platform.machine()
        name += f" {os.environ.get('TORCH_DML_OPS_SIMD', '')}"
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _git(*arguments: str) -> str:
    if not shutil.which("git"):
        return ""
    done = subprocess.run(["git", *arguments], cwd=FOLDER.parent, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _commit() -> str:
    """What the environment's COMMIT says, for a copy that has no history, or another one."""
    commit = os.environ.get("COMMIT") or _git("rev-parse", "HEAD") or "unknown"
    return commit + (" with changes" if _git("status", "--porcelain", "csrc") else "")


def _has(distribution: str) -> bool:
    return bool(list(metadata.distributions(name=distribution)))


def environment() -> dict[str, Any]:
    return {
        "date": datetime.date.today().isoformat(),
        "commit": _commit(),
        "build": report(),
        "cores": os.cpu_count(),
        "versions": {name: version(name) for name in ("torch_dml_ops", "torch", "numpy", "onnxruntime") if _has(name)},
    }


def _lines(value: Any) -> str:
    """JSON, with a line for each row, so that a change of one is read as such."""
    if not isinstance(value, list) or not value:
        return json.dumps(value)
    return "[\n" + ",\n".join(f"  {json.dumps(row)}" for row in value) + "\n ]"


def write(name: str, content: dict[str, Any], folder: Path = FOLDER) -> Path:
    """Writes a file of that name and returns its path. Where it is interrupted, an older file of that name remains."""
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / f"{name}.part"
    unfinished.write_text("{\n" + ",\n".join(f' "{key}": {_lines(value)}' for key, value in content.items()) + "\n}\n")
    return unfinished.replace(folder / name)
