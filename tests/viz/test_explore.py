"""What explores an operator by hand: the page in the documents, and the widgets of notebooks."""

import html
import json
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from browser import Browser, ask, browser, free_port

import torch_dml_ops as dml
from torch_dml_ops import viz

DOCS = Path(__file__).parents[2] / "docs"

in_a_browser = pytest.mark.thorough


# The page, in a browser.


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """The page's own part, without what Sphinx puts around it."""
    folder = tmp_path_factory.mktemp("explore")
    raw = (DOCS / "static" / "explore.html").read_text()
    raw = raw.replace("../_static/explore.js", (DOCS / "static" / "explore.js").as_uri())
    style = (DOCS / "static" / "style.css").as_uri()
    (folder / "explore.html").write_text(f'<meta charset="utf-8"><link rel="stylesheet" href="{style}">{raw}')
    with browser(folder) as opened:
        opened.open((folder / "explore.html").as_uri())
        yield opened


SHOWN = """
const text = (part) => document.querySelector(`[data-part=${part}]`).textContent;
const value = (part) => document.querySelector(`[data-part=${part}]`).value;
return {
  code: text("code"), error: text("error"), sizes: text("shape"), index: value("index"),
  window: ["offsets", "windows", "strides"].map(value),
  output: [...document.querySelectorAll("[data-part=output] td")].map((cell) => Number(cell.firstChild.textContent)),
  start: [...document.querySelectorAll("[data-part=input] td.start")].map((cell) => cell.firstChild.textContent),
  outlined: document.querySelectorAll("[data-part=input] td.window").length,
  wrong: [...document.querySelectorAll("[aria-invalid=true]")].map((field) => field.dataset.part),
  stale: document.querySelector("button").disabled && document.querySelector(".stale") !== null,
  address: location.hash,
};
"""


def type_into(page: Browser, part: str, text: str) -> dict[str, Any]:
    page.run(
        f"const field = document.querySelector('[data-part={part}]'); field.value = arguments[0];"
        "field.dispatchEvent(new Event('input'));",
        text,
    )
    shown: dict[str, Any] = page.run(SHOWN)
    return shown


@in_a_browser
def test_an_index_and_its_window(page: Browser) -> None:
    type_into(page, "sizes", "3, 4")
    assert type_into(page, "index", "::-2, 1:") == {
        "code": "dml.index(x)[::-2, 1:]\ndml.slice1(x, [0, 1], [3, 3], [-2, 1])",
        "error": "",
        "sizes": "[2, 3]",
        "index": "::-2, 1:",
        "window": ["0, 1", "3, 3", "-2, 1"],
        "output": [9, 10, 11, 1, 2, 3],
        "start": ["9"],
        "outlined": 9,
        "wrong": [],
        "stale": False,
        "address": "#sizes=3,4&index=::-2,1:",
    }
    shown = type_into(page, "strides", "-1, 2")
    assert (shown["code"], shown["output"]) == ("dml.slice1(x, [0, 1], [3, 3], [-1, 2])", [9, 11, 5, 7, 1, 3])
    shown = type_into(page, "strides", "-1, 0")
    assert (shown["error"], shown["output"]) == ("slice1: window_strides[1] must not be 0", [9, 11, 5, 7, 1, 3])
    assert (shown["wrong"], shown["stale"]) == (["strides"], True)
    assert type_into(page, "index", "0, None, ::-1")["code"] == "dml.index(x)[0, None, ::-1]"
    slice1 = type_into(page, "index", f":: {10**30}")["code"].split("\n")[1]  # whose numbers have 64 bits
    assert eval(slice1, {"dml": dml, "x": torch.arange(12).view(3, 4)}).tolist() == [[0, 1, 2, 3]]


@in_a_browser
def test_what_is_pasted_and_what_is_sent(page: Browser) -> None:
    type_into(page, "index", "dml.index(x)[0, 1]")
    for sizes in ("(3, 4)", "[3, 4]", "torch.Size([3, 4])", "3, 4,"):
        shown = type_into(page, "sizes", sizes)
        assert (shown["code"], shown["output"], shown["wrong"]) == ("dml.index(x)[0, 1]", [1], [])
    shown = type_into(page, "sizes", "3,,4")
    assert (shown["error"], shown["wrong"]) == ("sizes[1] must be a whole number, got nothing", ["sizes"])
    page.run("location.hash = '#offsets=0,1&windows=3,3&strides=-2,1&sizes=3,4'")
    page.until("return document.querySelector('.stale') === null")
    shown = page.run(SHOWN)
    assert (shown["code"], shown["error"]) == ("dml.slice1(x, [0, 1], [3, 3], [-2, 1])", "")


def outcome(call: Any) -> Any:
    """As on the page, which does not say what to write in the place of a list."""
    try:
        result = call()
    except (IndexError, ValueError, RuntimeError) as error:
        return str(error).partition("; write ")[0]
    return [list(result.shape), result.flatten().tolist()]


@in_a_browser
def test_the_page_reads_what_the_package_reads_and_refuses_it_with_the_same_sentences(page: Browser) -> None:
    rng = random.Random(0)
    indices, windows = [], []
    for _ in range(400):
        sizes = [rng.randint(1, 5) for _ in range(rng.randint(1, 3))]
        bound = [None, *range(-7, 8)]
        entries = [
            "...",
            "None",
            "[0, 2]",
            "slice(None, None, -2)",
            "slice(2)",
            "slice(-1, 0)",
            "True",
            *(str(rng.randint(-6, 5)) for _ in range(2)),
        ]
        for _ in range(8):
            entries.append(":".join("" if b is None else str(b) for b in rng.choices(bound, k=rng.choice([2, 3]))))
        indices.append([sizes, ", ".join(rng.choices(entries, k=rng.randint(1, len(sizes) + 1)))])
        numbers = [[rng.randint(-1, 2), rng.randint(0, 3), rng.randint(-3, 3)] for _ in sizes]
        windows.append([sizes, *map(list, zip(*numbers, strict=True))])
    script = """
    const outcome = (call) => {
      try { const {sizes, places} = call(); return [sizes, places]; } catch (error) { return error.message; }
    };
    const {read, walk} = torch_dml_ops_explore, [indices, windows] = JSON.parse(arguments[0]);
    const all = (of, given) => given.map((one) => outcome(() => of(...one)));
    return [all(read, indices), all(walk, windows)];
    """
    of_indices, of_windows = page.run(script, json.dumps([indices, windows]))

    def flat(sizes: list[int]) -> torch.Tensor:
        return torch.arange(torch.Size(sizes).numel()).reshape(sizes)

    expected = [outcome(lambda s=s, t=t: dml.index(flat(s))[eval(f"np.s_[{t}]", {"np": np})]) for s, t in indices]
    assert list(zip(indices, of_indices, strict=True)) == list(zip(indices, expected, strict=True))
    expected = [outcome(lambda s=s, w=w: dml.slice1(flat(s), *w)) for s, *w in windows]
    assert list(zip(windows, of_windows, strict=True)) == list(zip(windows, expected, strict=True))
    for outcomes in (of_indices, of_windows):
        assert min(sum(isinstance(o, kind) for o in outcomes) for kind in (str, list)) > 40


# The widgets.


def test_ipywidgets_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    sentence = r"^torch_dml_ops\.viz\.explore needs ipywidgets: pip install ipywidgets$"
    with pytest.raises(ImportError, match=sentence):
        viz.explore("slice1", [3, 4])


def test_what_cannot_be_explored() -> None:
    with pytest.raises(ValueError, match=r"^explore: operator must be one of index, slice1, .*, got 'join'$"):
        viz.explore("join", [3, 4])
    pytest.importorskip("ipywidgets", reason="needs ipywidgets")
    with pytest.raises(ValueError, match=r"^explore: input must have from 1 to 4 dimensions to be drawn, got 5$"):
        viz.explore("split", [1] * 5)


class Shown:
    def __init__(self, operator: Any, *sizes: int) -> None:
        box = viz.explore(operator, torch.arange(torch.Size(sizes).numel()).reshape(sizes))
        *controls, self.code, self.error, self.picture = box.children
        self.fields = [field for row in controls for field in getattr(row, "children", [row])]

    def __call__(self) -> tuple[str, str]:
        code, error = (html.unescape(re.sub(r"<.*?>", "", widget.value)) for widget in (self.code, self.error))
        assert (self.picture.layout.display == "none") == bool(error)
        assert bytes(self.picture.value).startswith(b"\x89PNG")
        return code, error


@pytest.mark.parametrize("operator", ["index", "slice1", "split", "reverse_subsequences"])
def test_what_is_shown_first_is_a_call_that_works(operator: str) -> None:
    pytest.importorskip("ipywidgets", reason="needs ipywidgets")
    for sizes in ((1,), (1, 3), (3, 1), (1, 1, 1), (5,)):
        assert Shown(operator, *sizes)()[1] == "", sizes
    assert Shown(getattr(dml, operator), 2, 3)() == Shown(operator, 2, 3)()


def test_every_length_that_can_be_chosen_is_one() -> None:
    pytest.importorskip("ipywidgets", reason="needs ipywidgets")
    shown = Shown("reverse_subsequences", 2, 3)
    for slider in shown.fields[1:]:
        assert (slider.min, slider.max) == (0, 3)
        for slider.value in (0, 3):
            assert shown()[1] == ""


def test_the_call_follows_the_fields() -> None:
    pytest.importorskip("ipywidgets", reason="needs ipywidgets")
    shown = Shown("slice1", 3, 4)
    before = bytes(shown.picture.value)
    assert shown() == ("dml.slice1(x, [0, 0], [3, 4], [-1, 1])", "")
    shown.fields[2].value = 2
    assert shown() == ("dml.slice1(x, [0, 0], [3, 4], [2, 1])", "")
    assert bytes(shown.picture.value) != before
    shown.fields[2].value = 0
    assert shown() == ("dml.slice1(x, [0, 0], [3, 4], [0, 1])", "RuntimeError: slice1: window_strides[0] must not be 0")
    shown = Shown("index", 3, 4)
    shown.fields[0].value = "::-2, 1:"
    assert shown() == ("dml.index(x)[::-2, 1:]", "")
    whole = "explore: index must be written as between brackets, as in ::-2, 1:, got"
    for index, error in [
        ("0", ""),
        ("None, ::-1, -1", ""),
        ("3:1, 0", "selects nothing: the result has sizes [0]"),
        ("3", "IndexError: index: index[0] must be from -3 to 2, as dimension 0 has size 3, got 3"),
        ("exit()", f"ValueError: {whole} exit()"),
        ("](", f"ValueError: {whole} ]("),
        ("0] + x[1", f"ValueError: {whole} 0] + x[1"),
    ]:
        shown.fields[0].value = index
        assert shown() == (f"dml.index(x)[{index}]", error)
    shown = Shown("split", 6, 2)
    shown.fields[0].value = "1, 2, 3"
    assert shown() == ("dml.split(x, [1, 2, 3], axis=0)", "")
    shown.fields[1].value = 1
    assert shown()[1].startswith("RuntimeError: split: split_sizes must sum to 2, ")
    shown.fields[0].value = "1, a"
    assert shown()[1] == "TypeError: plot_split: split_sizes[1] must be a whole number, got 'a'"
    shown = Shown("reverse_subsequences", 2, 3)
    shown.fields[1].value = 2
    assert shown() == ("dml.reverse_subsequences(x, torch.tensor([[2], [3]]), axis=1)", "")
    shown.fields[0].value = 0
    assert shown() == ("dml.reverse_subsequences(x, torch.tensor([[2, 2, 2]]), axis=0)", "")
    shown = Shown("reverse_subsequences", 20, 3)
    shown.fields[1].value = "1, 2"
    assert "sequence_lengths must have sizes [20, 1], " in shown()[1]
    shown.fields[1].value = ""
    assert shown()[1].endswith("sequence_lengths must have sizes [20, 1], those of input with 1 at axis 1, got [0]")
    for typed, code, error in [
        ("1, a", "[1, 'a']", "TypeError: explore: sequence_lengths[1] must be a whole number, got 'a'"),
        (
            f"{2**70}",
            f"[{2**70}]",
            "ValueError: explore: sequence_lengths[0] must be a whole number of 64 bits, got one of 71",
        ),
    ]:
        shown.fields[1].value = typed
        assert shown()[0] == f"dml.reverse_subsequences(x, torch.tensor({code}), axis=1)"
        assert shown()[1].startswith(error)


SLIDER = """
const [field] = [...document.querySelectorAll(".widget-readout")].slice(2);
field.innerText = arguments[0];
field.dispatchEvent(new KeyboardEvent("keydown", {keyCode: 13, bubbles: true}));  // Enter
"""


@in_a_browser
def test_in_a_notebook(tmp_path: Path) -> None:
    """A slider is moved in JupyterLab, and the kernel answers."""
    for package in ("ipywidgets", "jupyterlab"):
        pytest.importorskip(package, reason=f"needs {package}")
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    cell["source"] = "from torch_dml_ops import viz\nviz.explore('slice1', [3, 4])"
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    notebook = {"cells": [cell], "metadata": kernel, "nbformat": 4, "nbformat_minor": 4}
    (tmp_path / "explore.ipynb").write_text(json.dumps(notebook))
    settings = ["--no-browser", "--allow-root", f"--port={(port := free_port())}", "--IdentityProvider.token="]
    settings += [f"--ServerApp.root_dir={tmp_path}", "--LabApp.expose_app_in_browser=True"]
    folders = {f"{name}_DIR": str(tmp_path / name) for name in ("JUPYTER_CONFIG", "JUPYTER_RUNTIME", "JUPYTER_DATA")}
    paths = {"PYTHONPATH": os.pathsep.join([str(DOCS.parent), os.environ.get("PYTHONPATH", "")])}
    with (
        open(tmp_path / "log", "w") as log,
        subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", *settings], env=os.environ | folders | paths, stdout=log, stderr=log
        ) as server,
    ):
        try:
            with browser(tmp_path) as opened:
                while True:
                    try:
                        ask("GET", f"http://localhost:{port}/api/status")
                        break
                    except OSError:
                        assert server.poll() is None, (tmp_path / "log").read_text()
                        time.sleep(0.2)
                    except KeyError:
                        break
                opened.open(f"http://localhost:{port}/lab/tree/explore.ipynb")
                opened.until("return window.jupyterapp && document.querySelector('.jp-Notebook .jp-Cell') !== null")
                opened.until("return jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel?.status == 'idle'")
                opened.run("jupyterapp.commands.execute('notebook:run-all-cells')")
                opened.until("return document.querySelectorAll('.widget-readout').length >= 6")
                opened.run(SLIDER, "-2")
                opened.until(
                    "return [...document.querySelectorAll('.jp-OutputArea pre')]"
                    ".some((shown) => shown.textContent == 'dml.slice1(x, [0, 0], [3, 4], [-2, 1])')"
                )
                opened.save(tmp_path / "explore.png")
        finally:
            server.terminate()
    assert (tmp_path / "explore.png").read_bytes().startswith(b"\x89PNG")
