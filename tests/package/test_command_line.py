"""The command line: what it prints and its exit status, also where its outputs are closed or full."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from descriptors.bad_models import changed, good
from processes import started

import torch_dml_ops
from torch_dml_ops.__main__ import main

Command = Callable[..., tuple[int, str]]
EXAMPLES = Path(torch_dml_ops.__file__).parent / "directml" / "example-models"


BAD_MODEL = changed({"dispatchables/split/desc/Axis": 1})
PROBLEM = "model.json: $.dispatchables.split.desc.Axis must be from 0 to 0, a dimension of InputTensor, got 1\n"
MORE = r"model.json: warning: \$.more is not a field here; "
PRINTS_MUCH = good() | {"commands": [{"type": "print", "resource": "x"}] * 2000}
MISSPELT = changed({"more": 1})
COMMANDS: dict[str, tuple[str, Any, int, str]] = {  # arguments, the model, the exit status, what is printed
    "report": ("", good(), 0, r"torch_dml_ops +[\w.]+\ntorch +.*"),
    "help": ("--help", good(), 0, r"usage: .*"),
    "run": (
        "run model.json",
        good(),
        0,
        r"Resource 'x' written to 'before.npy'\nResource 'a': 1, 2.5\nResource 'b':.*",
    ),
    "run much": ("run model.json", PRINTS_MUCH, 0, r"(Resource 'x': [^\n]*\n)+"),
    "run bad": ("run model.json", BAD_MODEL, 1, re.escape(PROBLEM)),
    "validate": ("validate model.json", good(), 0, r"model.json: nothing is wrong\n"),
    "validate bad": ("validate model.json", BAD_MODEL, 1, re.escape(PROBLEM)),
    "validate misspelt": (
        "validate model.json",
        MISSPELT,
        0,
        rf"{MORE}.*\nmodel.json: nothing is wrong; warnings: 1\n",
    ),
    "run misspelt": ("run model.json", MISSPELT, 0, rf"Resource 'x' .*\n{MORE}[^\n]*\n"),
    "validate none": ("validate none.json", good(), 1, r"there is no file none.json\n"),
    "bad arguments": ("walk", good(), 2, r"usage: .*: error: .*invalid choice: 'walk'.*\n"),
}
processes = pytest.mark.thorough  # which import torch


def shell(tmp_path: Path, name: str, redirection: str, unbuffered: str = "") -> tuple[int, str, str]:
    """The command as a shell runs it, with an output that is closed, or full."""
    arguments, model, *_ = COMMANDS[name]
    (tmp_path / "model.json").write_text(json.dumps(model))
    line = f'exec "$0" "$@" {redirection}'
    command = ["sh", "-c", line, sys.executable, "-m", "torch_dml_ops", *arguments.split()]
    run = started(*command, cwd=tmp_path, PYTHONUNBUFFERED=unbuffered)
    return run.returncode, run.stdout, run.stderr


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Command:
    """Its exit status, and what it prints in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str]:
        try:
            status = main(arguments)
        except SystemExit as ended:
            status = int(ended.code or 0)
        return status, "".join(capfd.readouterr())

    return run


def test_version(command: Command) -> None:
    assert command("--version") == (0, f"{torch_dml_ops.__version__}\n")


def test_examples_can_be_tried_from_any_folder(command: Command) -> None:
    status, listed = command("example")
    assert status == 0
    assert listed.split() == sorted(path.name for path in EXAMPLES.iterdir())
    assert command("example", "slice1.json") == (
        0,
        "slice1.json is written; next: python -m torch_dml_ops run slice1.json\n",
    )
    assert command("run", "slice1.json") == (0, "Resource 'y': 14, 16, 6, 8\n")
    assert command("example", "slice1.json") == (
        1,
        "example: slice1.json exists already; remove it, or call this in another folder\n",
    )
    status, said = command("example", "../x.json")
    assert (status, said.startswith("example: name must be one of chain.json, ")) == (2, True)
    Path("chain.json").symlink_to("missing/chain.json")
    assert command("example", "chain.json")[0] == 1
    resource = pytest.importorskip("resource", reason="needs Python's module resource, to limit the size of files")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        assert command("example", "split.json") == (1, "split.json: File too large\n")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not Path("split.json").exists()


@pytest.mark.parametrize("name", COMMANDS)
def test_what_is_printed(name: str, command: Command) -> None:
    arguments, model, status, printed = COMMANDS[name]
    Path("model.json").write_text(json.dumps(model))
    returned, said = command(*arguments.split())
    assert returned == status
    assert re.fullmatch(printed, said, re.S), said


SENTENCES = {
    "run model.json --device mars": (2, r"--device must be .*, got 'mars'; it sees .*\n"),
    "run model.json --device cuda": (2, r"--device must be .*\n"),
    "run model.json --feature-level 7_0": (2, r"usage: .*: error: argument --feature-level: .*, got '7_0'\n"),
    "validate model.json --strict": (0, r"model.json: nothing is wrong\n"),
    "validate .": (1, r"\.: \$ must be a file, .*, got '\.'\n"),
}


@pytest.mark.parametrize("line", SENTENCES)
def test_other_arguments(line: str, command: Command) -> None:
    Path("model.json").write_text(json.dumps(good()))
    status, sentence = SENTENCES[line]
    returned, said = command(*line.split())
    assert returned == status
    assert re.fullmatch(sentence, said, re.S), said


FULL = "No space left on device\n"
WARNING = (
    "model.json: warning: $.more is not a field here; those that are: $schema, resources, dispatchables, commands\n"
)
STDERR_BEGINS = {"run misspelt": WARNING, "bad arguments": "usage: "}
STDERR_IS = {"run bad": PROBLEM, "validate none": "there is no file none.json\n"}


@processes
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize(
    ("name", "unbuffered"), [(name, "") for name in COMMANDS] + [("run", "1"), ("validate misspelt", "1")]
)
def test_an_output_that_is_full(tmp_path: Path, name: str, unbuffered: str) -> None:
    returned, out, error = shell(tmp_path, name, ">/dev/full", unbuffered)
    assert out == ""
    assert returned == (120 if name == "help" else COMMANDS[name][2] or 1)  # argparse leaves it to Python
    assert error.startswith(STDERR_BEGINS.get(name, ""))
    if name in STDERR_IS:
        assert error == STDERR_IS[name]
    elif name != "bad arguments":
        assert error.endswith(FULL if name == "help" else f"standard output: {FULL}")
        assert "Traceback" not in error


@processes
@pytest.mark.parametrize("name", ["report", "run", "validate bad", "bad arguments"])
def test_an_output_that_is_closed(tmp_path: Path, name: str) -> None:
    assert shell(tmp_path, name, ">&-") == (1, "", "standard output is closed\n")
    assert not (tmp_path / "before.npy").exists()  # nothing was run


@processes
@pytest.mark.parametrize("name", ["run", "run misspelt", "run bad", "validate bad", "validate none", "bad arguments"])
def test_an_error_output_that_is_closed(tmp_path: Path, name: str) -> None:
    status = COMMANDS[name][2]
    returned, out, error = shell(tmp_path, name, "2>&-")
    assert (returned, error) == (status, "")
    if name in ("run bad", "validate none", "bad arguments"):
        assert out == ""
    else:
        assert out
        assert (out == PROBLEM) == (name == "validate bad")
    if name == "run":  # and no library took the file for it
        assert np.load(tmp_path / "before.npy").shape == (6,)


@processes
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("name", ["run", "run misspelt", "run bad", "validate bad", "bad arguments"])
def test_an_error_output_that_is_full(tmp_path: Path, name: str) -> None:
    """What is told there is lost; Python says so by its own exit status."""
    returned, out, _ = shell(tmp_path, name, "2>/dev/full")
    assert returned == (COMMANDS[name][2] if name in ("run", "validate bad") else 120)
    assert bool(out) == (name in ("run", "validate bad"))


@processes
def test_all_outputs_closed(tmp_path: Path) -> None:
    assert shell(tmp_path, "run", ">&- 2>&- <&-") == (1, "", "")
