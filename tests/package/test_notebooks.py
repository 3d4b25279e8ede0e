"""Every notebook runs from nothing but what it says that it needs, and is kept with the outputs of such a run."""

import importlib.util
import os
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import nbformat
import pytest
from processes import HIDDEN, unnamed

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[2]
NAMES = [
    "01-slice1",
    "02-split-and-join",
    "03-reverse-subsequences",
    "04-gradients",
    "05-from-a-directml-model",
    "06-training",
    "07-from-an-onnx-model",
]
each_notebook = pytest.mark.parametrize("path", [ROOT / "notebooks" / f"{name}.ipynb" for name in NAMES], ids=NAMES)


@pytest.fixture(scope="module")
def refresh() -> ModuleType:
    spec = importlib.util.spec_from_file_location("refresh", ROOT / "notebooks" / "refresh.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def code_cells(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def shown(cell: Any) -> list[str]:
    """What a cell gave: its texts, and that it drew. Where numbers depend on the machine, without them."""
    texts = []
    for output in cell.outputs:
        data = output.get("data", {})
        texts.append("a picture" if "image/png" in data else output.get("text") or data["text/plain"])
    return [re.sub(r"\d", "#", text) for text in texts] if "varies" in cell.metadata.get("tags", ()) else texts


def test_these_are_all() -> None:
    assert sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb")) == NAMES


@each_notebook
def test_runs_from_nothing_and_gives_what_it_is_kept_with(
    refresh: ModuleType, path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # Torch 2.15 warns of what it does itself at the first derivative in forward mode, and all warn of Python 3.13.0.
    ignored = ("`torch.jit.script` is deprecated:FutureWarning", "Guards may run slower:RuntimeWarning")
    monkeypatch.setenv("PYTHONWARNINGS", ",".join(f"ignore:{warning}" for warning in ignored))
    # The kernel finds none of the packages that the first cell does not name.
    missing = unnamed(nbformat.read(path, as_version=4).cells[0].source)
    (tmp_path / "sitecustomize.py").write_text(f"{HIDDEN}hide({missing!r})\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]))
    kept, new = code_cells(nbformat.read(path, as_version=4)), code_cells(refresh.execute(path))
    assert [shown(cell) for cell in new] == [shown(cell) for cell in kept]


@each_notebook
def test_is_kept_as_executed_from_nothing(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = code_cells(notebook)
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell.outputs]
    assert {output.output_type for output in outputs} <= {"stream", "execute_result", "display_data"}
    assert {output.name for output in outputs if output.output_type == "stream"} <= {"stdout"}
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert all(set(cell.metadata) <= {"tags"} for cell in notebook.cells)
    assert notebook.metadata == {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    source = path.read_text(encoding="utf-8")
    assert str(ROOT) not in source
    assert len(source) < 500_000


def notebook_of(tmp_path: Path, code: str) -> Path:
    path = tmp_path / "one.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)]), path)
    return path


def test_an_error_is_not_passed_over(refresh: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="ZeroDivisionError"):
        refresh.execute(notebook_of(tmp_path, "1 / 0"))


def test_a_warning_is_not_passed_over(refresh: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"one\.ipynb: a cell wrote to the standard error stream: .*beware"):
        refresh.execute(notebook_of(tmp_path, "import warnings; warnings.warn('beware')"))


def test_the_picture_of_the_readme(refresh: ModuleType, tmp_path: Path) -> None:
    refresh.draw_picture(tmp_path / "new.png")
    kept = (ROOT / "notebooks" / "slice1.png").read_bytes()
    assert (tmp_path / "new.png").read_bytes()[:24] == kept[:24]  # PNG, of the same width and height
    assert "(notebooks/slice1.png)" in (ROOT / "README.md").read_text(encoding="utf-8")
