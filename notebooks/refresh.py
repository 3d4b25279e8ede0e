"""Executes every notebook of this folder from nothing and writes it back with its new outputs."""

from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parent


def execute(path: Path) -> nbformat.NotebookNode:
    """The notebook with the outputs of a new kernel, run in the notebook's folder. The file stays as it is."""
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=300,
        kernel_name="python3",
        record_timing=False,  # times would change the file at each run
        resources={"metadata": {"path": str(path.parent)}},
    )
    return client.execute()


if __name__ == "__main__":
    for path in sorted(FOLDER.glob("*.ipynb")):
        print(path.name)
        nbformat.write(execute(path), path)
