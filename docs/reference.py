"""Writes signatures and first sentences of docstrings into the reference's pages, as a viewer of files shows none.

python docs/reference.py
"""

import importlib
import inspect
import re
from pathlib import Path

PAGES = [p for p in sorted(Path(__file__).parent.glob("*.md")) if ".. currentmodule::" in p.read_text(encoding="utf-8")]
NAME = r"\.\. auto(?:class|exception|function):: (\w+)"
BLOCK = re.compile(
    rf"(?:\| (?:function|name) \|.*\n(?:\|.*\n)+\n)?(```\{{eval-rst\}}\n(?:\.\. currentmodule.*\n)?{NAME}(?:.*\n)+?```)"
)


def row(name: str, value: object) -> str:
    if inspect.isfunction(value) or not isinstance(value, type):
        signature = inspect.signature(value)  # type: ignore[arg-type]
        parameters = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
        bare = str(signature.replace(parameters=parameters, return_annotation=signature.empty))
        name += re.sub(r"<([\w.]+): \d+>", r"\1", bare)  # of an enumeration's members
    paragraph = " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split())
    sentence = re.split(r"[.:](?= |$)", paragraph)[0]
    sentence = re.sub(r":doc:`/docs/([\w-]+)`", r"[\1](\1.md)", sentence)
    text = re.sub(r"(?::[a-z]+:)?`+~?([^`]+)`+", r"`\1`", sentence)
    return f"| `{name}` | {text}. |"


def written(page: str) -> str:
    """The page, with a table before the functions and classes of each section."""
    module = importlib.import_module(re.findall(r"currentmodule:: (\S+)", page)[0])

    def section(found: re.Match[str]) -> str:
        names = re.findall(NAME, found[1])
        head = "| name | what it is |" if "autoclass" in found[1] else "| function | what it does |"
        return "\n".join([head, "|---|---|", *(row(name, getattr(module, name)) for name in names), "", found[1]])

    return BLOCK.sub(section, page)


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(written(path.read_text(encoding="utf-8")), encoding="utf-8")
