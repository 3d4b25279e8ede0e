"""Where measured results go: a JSON file under benchmarks/results that names versions, machine and commit."""

import datetime
import json
import platform
import re
import subprocess
from pathlib import Path
from typing import Any

import torch

import torch_dml_ops
from torch_dml_ops.__main__ import report

FOLDER = Path(__file__).parent / "results"


def machine_name(device: str) -> str:
    """The processor's or the GPU's model, fit for a file name."""
    if device == "cuda":
        name = torch.cuda.get_device_name()
    else:
        models = re.findall(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
        name = models[0] if models else platform.machine()
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=FOLDER.parent, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def environment() -> dict[str, Any]:
    return {
        "date": datetime.date.today().isoformat(),
        "commit": _git("rev-parse", "HEAD") + (" with changes" if _git("status", "--porcelain", "csrc") else ""),
        "build": report(),
        "version": torch_dml_ops.__version__,
    }


def write(name: str, content: dict[str, Any], also: str | None) -> Path:
    """Writes benchmarks/results/<name>, and a copy into the folder `also` where that is given."""
    folders = [FOLDER] + ([Path(also)] if also else [])
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps(content, indent=1) + "\n")
    return FOLDER / name
