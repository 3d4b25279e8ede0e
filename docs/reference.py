"""Writes the functions' signatures and first sentences into operators.md, where a viewer of files shows no docstrings.

python docs/reference.py
"""

import inspect
import re
from pathlib import Path

import torch_dml_ops as dml

PAGE = Path(__file__).with_name("operators.md")
BLOCK = re.compile(r"(?:\| function \|.*\n(?:\|.*\n)+\n)?(```\{eval-rst\}\n((?:\.\. autofunction:: \w+\n)+)```)")


def row(name: str) -> str:
    function = getattr(dml, name)
    signature = inspect.signature(function)
    parameters = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    bare = signature.replace(parameters=parameters, return_annotation=signature.empty)
    paragraph = " ".join((inspect.getdoc(function) or "").split("\n\n")[0].split())
    sentence = re.split(r"[.:](?= |$)", paragraph)[0]
    text = re.sub(r"(?::[a-z]+:)?`+([^`]+)`+", r"`\1`", sentence)
    return f"| `{name}{bare}` | {text}. |"


def written(page: str) -> str:
    """The page, with a table before the functions of each section."""

    def section(found: re.Match[str]) -> str:
        rows = map(row, re.findall(r":: (\w+)", found[2]))
        return "\n".join(["| function | what it does |", "|---|---|", *rows, "", found[1]])

    return BLOCK.sub(section, page)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
