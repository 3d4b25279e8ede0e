"""The copy of the repository, in build/mutants, that has all faults, switched off: the environment's MUTANT names one.

A fault in C++ becomes a second version of the statement that it changes, behind a switch, so that all of them are built
once. A fault in Python is put into its module's text as that is imported. Every statement in C++ also notes that it
ran, in the file that the environment's MUTANTS_SEEN names: a byte for each.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node

ROOT = Path(__file__).parents[3]
COPY = ROOT / "build" / "mutants"
COPIED = ["benchmarks", "csrc", "docs", "examples", "notebooks", "tests", "torch_dml_ops"]
COPIED += [path.name for path in ROOT.iterdir() if path.is_file() and path.name not in (".git", ".gitignore")]
CPP_SUFFIXES = (".cpp", ".cu", ".h", ".inl")
HEADER = """#pragma once
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstdlib>
#include <cstring>
#include <type_traits>

#define UNCOUNTED __attribute__((no_instrument_function)) inline
UNCOUNTED bool mutant_is_on(int number, const char* level) {
  static const char* const given = std::getenv("MUTANT");
  static const int active = given ? std::atoi(given) : 0;
  if (number != active) return false;
  const char* at = std::strchr(given, '@');
  return !at || !level || !std::strcmp(at + 1, level);
}
// After a fault, so that the compiler cannot tell that a function ends there without a result, and leave the fault out.
__attribute__((noinline)) UNCOUNTED void mutant_ran() { asm volatile(""); }
UNCOUNTED char* mutants_map() {
  const char* name = std::getenv("MUTANTS_SEEN");
  const int file = name ? open(name, O_RDWR) : -1;
  struct stat status;
  if (file < 0 || fstat(file, &status) != 0) return nullptr;
  return static_cast<char*>(mmap(nullptr, std::size_t(status.st_size), PROT_WRITE, MAP_SHARED, file, 0));
}
inline char* const mutants_seen = mutants_map();
UNCOUNTED void mutants_see(int statement) {
  if (mutants_seen) mutants_seen[statement] = 1;
}
UNCOUNTED constexpr bool mutant(int number, const char* level = nullptr) {
  return !std::is_constant_evaluated() && mutant_is_on(number, level);
}
UNCOUNTED constexpr void seen(int statement) {
  if (!std::is_constant_evaluated()) mutants_see(statement);
}
"""
START_FILE = "sitecustomize.py"  # which Python runs first, and which the copy alone has
START = """import os, sys

sys.path.append(os.path.join(os.path.dirname(__file__), "tests", "tools", "mutants"))
if "COVERAGE_PROCESS_START" in os.environ:
    import coverage

    coverage.process_startup()
if number := int(os.environ.get("MUTANT", "0").partition("@")[0]):
    import mutant_copy

    mutant_copy.install(number)
"""
LIST = "mutants.json"  # of the copy: file, begin, end and replacement of each fault


@dataclass(frozen=True)
class Mutant:
    """In `file`, the characters from `begin` to `end` become `becomes`."""

    number: int
    area: str
    file: str
    begin: int
    end: int
    becomes: str
    tests: str = ""  # that should notice it; none for those made at random
    text: str = ""  # by which the table knows it
    is_switched: bool = True  # or else the file itself is changed, and what depends on it built again

    def __str__(self) -> str:
        line = source(self.file).count("\n", 0, self.begin) + 1
        before, after = (" ".join(text.split()) or "nothing" for text in self.shown)
        return f"{self.number} {self.area}, {self.file}:{line}: {before}  ->  {after}"

    @property
    def shown(self) -> tuple[str, str]:
        """What it is shown by: the table's text, or its line, and what becomes of it."""
        if self.text:
            return self.text, self.becomes
        text = source(self.file)
        first, last = text.rfind("\n", 0, self.begin) + 1, text.find("\n", self.end)
        return text[first:last], text[first : self.begin] + self.becomes + text[self.end : last]

    def put_into(self, text: str) -> str:
        return text[: self.begin] + self.becomes + text[self.end :]

    @property
    def is_cpp(self) -> bool:
        return self.file.endswith(CPP_SUFFIXES)

    @property
    def has_levels(self) -> bool:
        return "inner_loops/" in self.file


@functools.cache
def source(file: str) -> str:
    return (ROOT / file).read_text()


def cpp_files() -> list[str]:
    return sorted(str(path.relative_to(ROOT)) for path in (ROOT / "csrc").rglob("*") if path.suffix in CPP_SUFFIXES)


@functools.cache
def tree(file: str) -> Node:
    """Of a source in C++, with positions in characters."""
    import tree_sitter
    import tree_sitter_cpp

    text = re.sub(NO_CPP, lambda found: " " * len(found[0]), source(file)).replace("__shared__", "static    ")
    return (
        tree_sitter.Parser(tree_sitter.Language(tree_sitter_cpp.language()))
        .parse(text.encode("ascii", "replace"))
        .root_node
    )


NO_CPP = r"__(device|global|forceinline|grid_constant)__|__launch_bounds__\([^()]*\)|#pragma( GCC)? unroll.*"
WITHIN = ("compound_statement", "else_clause", "case_statement", "function_definition", "lambda_expression")
LOOPS = ("for_statement", "for_range_loop", "while_statement", "do_statement")
BLOCKS = (*WITHIN, *LOOPS, "if_statement", "try_statement", "catch_clause")
STATEMENT = re.compile("(?!case_|labeled_).*_statement|for_range_loop")


def is_statement(node: Node) -> bool:
    """One that a block in braces can stand for."""
    return bool(STATEMENT.fullmatch(node.type)) and node.parent is not None and node.parent.type in BLOCKS


def notes_itself(node: Node) -> bool:
    if node.type == "declaration":
        return node.parent is not None and node.parent.type == "compound_statement"
    return node.type != "compound_statement" and is_statement(node)


def is_constant(node: Node) -> bool:
    """Whether the compiler may evaluate what is in it, which notes nothing then, and asks no switch."""
    kinds = ("declaration", "field_declaration", "function_definition")
    return node.type in kinds and any(child.text in (b"constexpr", b"consteval") for child in node.children)


def walk(node: Node) -> Iterable[Node]:
    yield node
    for child in () if is_constant(node) else node.named_children:
        yield from walk(child)


@functools.cache
def statements(file: str) -> list[Node]:
    """Those that note that they ran, in the order of their numbers."""
    return [node for node in walk(tree(file)) if notes_itself(node)]


@functools.cache
def first_statements() -> dict[str, int]:
    """The number of each file's first statement, and of "", which would follow the last."""
    result, number = {}, 0
    for file in cpp_files():
        result[file] = number
        number += len(statements(file))
    return result | {"": number}


def switched_statement(mutant: Mutant) -> Node | None:
    """The least one that has what changes, or None if it is in none."""
    result, node = None, tree(mutant.file).descendant_for_byte_range(mutant.begin, mutant.end)
    while node is not None:
        if is_constant(node):
            result = None
        elif result is None and is_statement(node) and node.end_byte >= mutant.end:
            result = node
        node = node.parent
    return result


def with_switches(file: str, of_file: Iterable[Mutant]) -> str:
    """The text of a source in C++ with all of its faults and notes."""
    text = source(file).replace("#pragma GCC unroll", "//pragmaGCC unroll")  # which only a loop may follow
    at_begin, at_end = [], []
    for number, node in enumerate(statements(file), first_statements()[file]):
        is_declared = node.type == "declaration"
        at_begin.append((node.start_byte, -node.end_byte, f"{'' if is_declared else '{ '}seen({number}); "))
        if not is_declared:
            at_end.append((node.end_byte, -node.start_byte, " }"))
    for mutant in of_file:
        if (node := switched_statement(mutant)) is None or not mutant.is_switched:
            continue
        fault = text[node.start_byte : mutant.begin] + mutant.becomes + text[mutant.end : node.end_byte]
        on = f"mutant({mutant.number}{', kLevel' if mutant.has_levels else ''})"
        at_begin.append((node.start_byte, -node.end_byte, f"{{ if ({on}) {{\n{fault}\nmutant_ran(); }} else "))
        at_end.append((node.end_byte, -node.start_byte, " }"))
    pieces, past = [], 0
    inserted = [(at, 0, inner, piece) for at, inner, piece in at_end]
    inserted += [(at, 1, inner, piece) for at, inner, piece in at_begin]
    for at, _, _, piece in sorted(inserted):
        pieces += text[past:at], piece
        past = at
    return "".join([*pieces, text[past:]])


def install(number: int) -> None:
    """Puts a fault in Python into its module's text as that is imported. Called wherever Python starts in the copy."""
    from importlib.machinery import SourceFileLoader

    here = ROOT if (ROOT / START_FILE).exists() else COPY
    file, begin, end, becomes = json.loads((here / LIST).read_text())[str(number)]
    whole, code_of = here / file, SourceFileLoader.get_code

    def get_code(self: SourceFileLoader, name: str) -> object:
        if Path(self.path) != whole:
            return code_of(self, name)
        text = whole.read_text()
        return self.source_to_code((text[:begin] + becomes + text[end:]).encode(), self.path)

    if file.endswith(".py"):
        SourceFileLoader.get_code = get_code  # type: ignore[assignment]


def make_copy(every: Sequence[Mutant], changed: Mutant | None = None) -> None:
    """Writes only what has changed, so that little is built again. `changed` is put into its file as if it was always
    there, and nothing else into that file."""
    texts = {"csrc/mutant.h": HEADER.encode(), START_FILE: START.encode()}
    texts[LIST] = json.dumps({m.number: (m.file, m.begin, m.end, m.becomes) for m in every}).encode()
    for name in COPIED:
        for path in sorted((ROOT / name).rglob("*")) if (ROOT / name).is_dir() else [ROOT / name]:
            if not path.is_file() or path.suffix in (".so", ".pyc"):
                continue
            file = str(path.relative_to(ROOT))
            texts[file] = path.read_bytes()
            if changed is not None and changed.file == file:
                texts[file] = changed.put_into(source(file)).encode()
            elif file.startswith("csrc/") and path.suffix in CPP_SUFFIXES:
                text = with_switches(file, [m for m in every if m.file == file])
                include = f'#include "{COPY}/csrc/mutant.h"\n'  # not in .inl, which others include within a namespace
                texts[file] = f"{include if path.suffix != '.inl' else ''}{text}".encode()
    texts["tests/native/host_build.py"] = texts["tests/native/host_build.py"].replace(
        b'"-Wall", "-Wextra", "-Werror"', b'"-w"'
    )
    for link in (path for name in COPIED for path in (ROOT / name).rglob("*") if path.is_symlink()):
        to = COPY / link.relative_to(ROOT)
        to.parent.mkdir(parents=True, exist_ok=True)
        to.unlink(missing_ok=True)
        to.symlink_to(link.readlink())
    for name in COPIED:
        for path in (COPY / name).rglob("*"):
            if path.is_file() and path.suffix not in (".so", ".pyc") and str(path.relative_to(COPY)) not in texts:
                path.unlink()
    for file, data in texts.items():
        to = COPY / file
        if not to.exists() or to.read_bytes() != data:
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_bytes(data)
