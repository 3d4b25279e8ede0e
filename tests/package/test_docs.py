"""The documents: they build without a warning, link to what is there, name what exists, and show what commands print.

The examples in Python are run as doctests.
"""

import dataclasses
import inspect
import json
import re
import runpy
import shlex
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import HIDDEN, run_python, started, unnamed

import torch_dml_ops
from torch_dml_ops import directml, onnx, viz

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text()
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())


# As HTML.


@pytest.mark.thorough
def test_built_without_a_warning_with_every_public_name(tmp_path: Path) -> None:
    """A link that leads nowhere is a warning."""
    sphinx = pytest.importorskip("sphinx.util.inventory", reason="needs Sphinx, which builds the documents")
    as_make = re.findall(r"^docs:.*\n\t\$\(BIN\)/python (-m sphinx .*) build/docs$", MAKEFILE, re.M)
    done = started(sys.executable, *shlex.split(as_make[0]), tmp_path / "html", cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")
    inventory = sphinx.InventoryFile.loads((tmp_path / "html" / "objects.inv").read_bytes(), uri="").data
    described = {name for kind, names in inventory.items() if kind.startswith("py:") for name in names}
    assert PUBLIC.keys() - described == set()
    for page in ("docs/index.html", "docs/architecture.html", "CONTRIBUTING.html", "notebooks/06-training.html"):
        assert (tmp_path / "html" / page).is_file()


# What README says of the installation.


@pytest.mark.thorough
def test_what_install_says(tmp_path: Path) -> None:
    """Its commands are there on a machine that has nothing else. Without NumPy, there is the warning that it quotes."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = re.findall(r"^\$ (\w+)", text.partition("## Install")[2].partition("## In sixty")[0], re.M)
    assert commands == ["apt", "python3", "pip", "pip", "cd"]
    program = "import runpy, sys; sys.modules['numpy'] = None; runpy.run_module('torch_dml_ops', run_name='__main__')"
    done = started(sys.executable, "-W", "always:Failed", "-c", program, cwd=tmp_path)
    assert done.stdout.startswith("torch_dml_ops ")
    assert re.findall(r"^\S+: (\w*Warning: [^:]*):", done.stderr, re.M) == ["UserWarning: Failed to initialize NumPy"]
    assert "`Failed to initialize NumPy`" in text


# As they lie in the repository.


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```$|`[^`\n]+`", "", text, flags=re.M | re.S)


def headings(page: Path) -> set[str]:
    """The anchors of its headings, as repositories' hosts and the built pages name them."""
    titles = re.findall(r"^#+ (.+)$", without_code(page.read_text(encoding="utf-8")), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def markdown(page: Path) -> str:
    if page.suffix != ".ipynb":
        return page.read_text(encoding="utf-8")
    cells = json.loads(page.read_text(encoding="utf-8"))["cells"]
    return "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


@pytest.mark.parametrize("page", [*PAGES, *sorted(ROOT.glob("notebooks/*.ipynb"))], ids=lambda page: page.name)
def test_links_between_files(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", without_code(markdown(page))):
        path, _, anchor = link.partition("#")
        if re.match(r"\w+:", link):
            assert link.startswith("https://")
            continue
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{link} is not there"
        assert not anchor or anchor in headings(target), f"{link}: there is no such heading"


NAMED = re.compile(
    r"(?<![\w./{-])(?:benchmarks|csrc|docs|examples|notebooks|tests|torch_dml_ops)/[\w./-]+\.(?:py|cpp|h|cu|inl|md)\b"
)
OTHERS = re.compile("csrc/(inductor|stable)/.*|csrc/(mutant.h|sum.cpp)|tests/test_halves.py")  # of torch, of mutants


def test_files_that_sources_name_exist() -> None:
    """In comments and strings."""
    rooms = [*(ROOT / "tests").iterdir(), *(ROOT / name for name in ("benchmarks", "csrc", "docs", "torch_dml_ops"))]
    paths = [path for room in rooms for path in room.rglob("*") if path.suffix != ".md"]
    files = [path for path in paths if NAMED.fullmatch(path.relative_to(ROOT).as_posix())]
    named = [(path.name, name) for path in files for name in NAMED.findall(path.read_text(encoding="utf-8"))]
    assert [(file, name) for file, name in named if not ((ROOT / name).exists() or OTHERS.fullmatch(name))] == []


def test_rooms_are_small_and_no_test_imports_another() -> None:
    for room in (ROOT / "tests", ROOT / "torch_dml_ops"):
        files = [path for path in room.rglob("*") if path.is_file() and path.suffix not in (".pyc", ".so")]
        entries = {(path.parents[k], ([*path.parents][k - 1] if k else path)) for path in files for k in range(4)}
        crowded = Counter(folder for folder, _ in entries if folder == room or room in folder.parents)
        assert {folder: count for folder, count in crowded.items() if count > 15} == {}
    importing = re.compile(r"^\s*(from|import) test_", re.M)
    assert [path for path in (ROOT / "tests").rglob("*.py") if importing.search(path.read_text())] == []


def test_the_reference_has_the_signatures_and_sentences_of_the_functions() -> None:
    reference = runpy.run_path(str(ROOT / "docs" / "reference.py"))
    assert len(reference["PAGES"]) == 6
    for path in reference["PAGES"]:
        page = path.read_text()
        assert reference["written"](page) == page, f"{path.name}: python docs/reference.py"


@each_page
def test_files_that_are_named_exist(page: Path) -> None:
    named = re.findall(
        r"`((?:\.ci|benchmarks|csrc|docs|examples|notebooks|tests|torch_dml_ops)/[^`\s]*)`", page.read_text()
    )
    missing = [name for name in named if not list(ROOT.glob(name.replace("….", "*.").rstrip("/")))]
    assert [name for name in missing if not name.endswith(".so")] == []  # which are not there before a build


@each_page
def test_make_targets_that_are_named_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.M))
    text = page.read_text(encoding="utf-8")
    assert set(re.findall(r"`make ([a-z-]+)", text) + re.findall(r"^\$ make ([a-z-]+)", text, re.M)) <= targets


def test_every_make_target_is_described() -> None:
    described = set(re.findall(r"^\| `make ([a-z-]+)`", (ROOT / "docs" / "building.md").read_text(), re.M))
    assert described == set(re.findall(r"^([a-z-]+):.*##", MAKEFILE, re.M)) - {"help"}


def commands(page: Path) -> Iterator[tuple[str, str]]:
    """The commands in a page's ```console blocks, and what the page says that they print."""
    for block in re.findall(r"^```console\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S):
        yield from re.findall(r"^\$ (.*)\n((?:(?![$>] ).*\n)*)", block, re.M)


def run(command: str, elsewhere: Path) -> str:
    """What a command of this package prints, whose exit status may tell of what it found. A command for .venv is run in
    the checkout, and one for an environment that has the package in another folder."""
    command = command.partition("  #")[0]
    cwd = ROOT if command.startswith(".venv/") else elsewhere
    command = re.sub(r"^(\.venv/bin/)?python ", f"{sys.executable} ", command)
    done = started(*shlex.split(command), cwd=cwd, COLUMNS="80")
    return done.stdout + done.stderr


@pytest.mark.thorough
@each_page
def test_commands_print_what_is_shown(page: Path, tmp_path: Path) -> None:
    for command, printed in commands(page):
        if printed:
            assert run(command, tmp_path) == printed, command
        for file in re.findall(r"(?:benchmarks|examples|tests)/[\w/.*-]+", command):
            assert any(ROOT.glob(file)), command
            assert ".venv/bin/python " in command, command  # in a checkout, python lacks torch


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_can_be_typed(page: Path) -> None:
    """At Python's prompt, an empty line ends a class."""
    assert re.findall(r"^\.\.\. *\n\.\.\. +\S.*", page.read_text(), re.M) == []


def test_commands_are_found() -> None:
    shown = [printed for page in PAGES for _, printed in commands(page) if printed]
    assert len(shown) >= 3
    assert all("\n" in printed for printed in shown)


SOURCES = [path for room in ("csrc", "torch_dml_ops") for path in (ROOT / room).rglob("*.*")]
CODE = [path for path in SOURCES if path.suffix in (".py", ".h", ".cpp", ".cu", ".inl")]


def test_the_words_of_the_architecture_are_in_the_code() -> None:
    """Each word of the glossary with what to search for."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    table = page.partition("| word | in the code | meaning |\n|---|---|---|\n")[2].partition("\n\n")[0]
    rows = [row.split(" | ") for row in table.splitlines()]
    code = "\n".join(path.read_text() for path in CODE)
    assert len(rows) > 20
    for word, named, _ in rows:
        for name in re.findall(r"`([^`]+)`", named):
            assert re.search(rf"(?<!\w){re.escape(name)}\b", code), f"{word}: no source has {name}"


def test_names_are_in_the_files_that_pages_name_them_in() -> None:
    """Where a page says "`clamp_lengths` in `csrc/kernels/cpu/reverse_copy.cpp`", say."""
    found = [
        (name, ROOT / file)
        for page in PAGES
        for names, file in re.findall(r"((?:`[^`/\n]+`(?:, | and )?)+) in `([^`\n]+)`", page.read_text())
        for name in re.findall(r"`([^`]+)`", names)
        if (ROOT / file).is_file()
    ]
    assert len(found) > 15
    for name, file in found:
        assert re.search(rf"\b{re.escape(name.rpartition('::')[2])}\b", file.read_text()), f"{file} has no {name}"


# Reference.


def names_under(heading: str, described: object) -> list[str] | None:
    """What a docstring describes there, in its order; None where it does not have the heading."""
    block = re.search(rf"^{heading}:\n((?:    .*\n?|\n)+)", inspect.getdoc(described) or "", re.M)
    entries = re.findall(r"^    (\w[\w, ]*):", block[1], re.M) if block else []
    return ", ".join(entries).split(", ") if block else None


PUBLIC = {f"{m.__name__}.{name}": getattr(m, name) for m in (torch_dml_ops, directml, onnx, viz) for name in m.__all__}
METHODS = {
    f"{owner}.{name}": getattr(value, "__func__", value)
    for owner, of in PUBLIC.items()
    if inspect.isclass(of)
    for name, value in vars(of).items()
}


def test_every_field_is_described_and_every_parameter_beside_others_that_are() -> None:
    wrong = []
    for name, value in (PUBLIC | METHODS).items():
        wanted = described = None
        if inspect.isclass(value) and dataclasses.is_dataclass(value):
            wanted, described = [f.name for f in dataclasses.fields(value)] or None, names_under("Attributes", value)
        elif inspect.isfunction(value) and (described := names_under("Args", value)) is not None:
            wanted = [p for p in inspect.signature(value).parameters if p not in ("self", "cls")]
        if wanted != described:
            wrong.append(f"{name} has {wanted}, and its docstring {described}")
    assert wrong == []


# What the front page claims of an installation.

WITH_TORCH_ALONE = f"""{HIDDEN}
hide(["numpy", "matplotlib", "onnx", "onnxruntime", "onnxscript"])
import torch, torch_dml_ops as dml
print(dml.slice1(torch.arange(6), *dml.window((6,), slice(None, None, -2))).tolist())
from torch_dml_ops.directml import *
x = TensorDesc.from_tensor(torch.arange(6))
pieces = SplitOperatorDesc.infer_output(x, axis=0, output_axis_sizes=[2, 4])
split = Operator(SplitOperatorDesc(input_tensor=x, output_tensors=pieces, axis=0))
print([piece.tolist() for piece in split(torch.arange(6))])
try:
    split.desc.validate(FeatureLevel.LEVEL_1_0)
except DescriptorError as error:
    print(error.violations[0])
"""


@pytest.mark.thorough
def test_operators_and_descriptors_need_torch_alone() -> None:
    assert run_python("-c", WITH_TORCH_ALONE).splitlines() == [
        "[5, 3, 1]",
        "[[0, 1], [2, 3, 4, 5]]",
        "input_tensor.dimension_count must be 4 at feature level 1_0, got 1; allowed from feature level 3_0",
    ]


WITHOUT = f"""{HIDDEN}
import doctest, sys
missing, *pages = sys.argv[1:]
hide(missing.split())
results = [doctest.testfile(page, module_relative=False) for page in pages]
assert all(tried > 0 for failed, tried in results)
sys.exit(any(failed for failed, tried in results))
"""


def pages_by_what_they_do_not_name() -> dict[str, list[Path]]:
    """Before the first of their examples."""
    found: dict[str, list[Path]] = {}
    for page in PAGES:
        before, first, _ = page.read_text(encoding="utf-8").partition("```pycon")
        if first:
            found.setdefault(" ".join(sorted(unnamed(before))), []).append(page)
    return found


@pytest.mark.thorough
@pytest.mark.parametrize(("missing", "pages"), pages_by_what_they_do_not_name().items())
def test_examples_need_only_what_the_page_says_that_they_need(missing: str, pages: list[Path]) -> None:
    run_python("-c", WITHOUT, missing, *pages, cwd=ROOT)
