"""Executes every notebook of this folder from nothing and writes it back with its new outputs; draws README's picture.

python notebooks/refresh.py [NOTEBOOK …]
"""

import sys
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import torch
from nbclient import NotebookClient

import torch_dml_ops as dml
from torch_dml_ops import viz

FOLDER = Path(__file__).resolve().parent


def execute(path: Path) -> Any:
    """The notebook with the outputs of a new kernel, run in the notebook's folder. The file stays as it is.

    Raises an error where a cell does, or where one writes to the standard error stream.
    """
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        cell.metadata = {key: cell.metadata[key] for key in cell.metadata if key == "tags"}
    client = NotebookClient(
        notebook,
        timeout=300,
        kernel_name="python3",
        record_timing=False,  # times would change the file at each run
        coalesce_streams=True,
        resources={"metadata": {"path": str(path.parent)}},
    )
    client.execute()
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if output.get("name") == "stderr":
                raise RuntimeError(f"{path.name}: a cell wrote to the standard error stream: {output.text}")
    # The same wherever it is run.
    notebook.metadata.kernelspec = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook.metadata.language_info = {"name": "python"}
    return notebook


def draw_picture(file: Path) -> None:
    """What slice1 does in the first example of README."""
    x = torch.arange(12).reshape(3, 4)
    viz.plot_slice1(x, *dml.window(x.shape, np.s_[::-2, 1:])).savefig(file)


if __name__ == "__main__":
    for path in [Path(name).resolve() for name in sys.argv[1:]] or sorted(FOLDER.glob("*.ipynb")):
        print(path.name)
        nbformat.write(execute(path), path)
    draw_picture(FOLDER / "slice1.png")
