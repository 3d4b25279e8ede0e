"""The names that torch does not promise to keep: which of them the package uses, and what happens without one."""

import ast
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from processes import started

# torch.library itself, by which the operators are registered, does not work without these; the last is Python's own, of
# named tuples.
ALWAYS_THERE = {"torch._C", "torch._ops", "torch._ops.OpOverload", "torch._schema", "torch._replace"}


def private_names(file: Path, ours: set[str]) -> set[str]:
    """Those in a file's source: `torch._C._get_tracing_state`, and `torch._spec` for an attribute of any value."""
    nodes = list(ast.walk(ast.parse(file.read_text())))
    paths = {"torch": "torch"}  # of torch's names, by the module's names for them
    used = set()
    for node in nodes:
        for path, name in _imported(node):
            paths[name] = path
            used.add(path)

    def path_of(node: ast.AST | None) -> str | None:
        if isinstance(node, ast.Attribute):
            owner = path_of(node.value)
            return owner and f"{owner}.{node.attr}"
        return paths.get(node.id) if isinstance(node, ast.Name) else None

    for node in nodes:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and (path := path_of(node.value)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            paths |= {target.id: path for target in targets if isinstance(target, ast.Name)}
    for node in nodes:
        if isinstance(node, ast.Attribute):
            path = path_of(node)
            if path is not None:
                used.add(path)
            elif node.attr.startswith("_") and node.attr not in ours:
                used.add(f"torch.{node.attr}")
        is_call = isinstance(node, ast.Call) and ast.unparse(node.func) == "getattr"
        if is_call and isinstance(name := node.args[1], ast.Constant) and name.value not in ours:
            used.add(f"torch.{name.value}")
    return {name for name in used if "._" in name.replace(".__", ".")} - ALWAYS_THERE


def defined_names(file: Path) -> Iterator[str]:
    """What a file's source defines: functions, classes, variables and attributes of `self`."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self":
            yield node.attr


def _imported(node: ast.AST) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.partition(".")[0] == "torch":
        for alias in node.names:
            yield f"{node.module}.{alias.name}", alias.asname or alias.name
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.name.startswith("torch.") and alias.asname is not None:
                yield alias.name, alias.asname


EACH_APART = """
import contextlib, functools, json, os, sys, warnings
import hypothesis, numpy, pytest
import torch, torch._dynamo, torch._functorch.utils, torch._inductor.lowering
import torch.autograd.forward_ad as forward_ad

@contextlib.contextmanager
def without(path):
    *parts, name = path.split(".")[1:]
    owner = functools.reduce(getattr, parts, torch)
    holder = owner if name in vars(owner) else type(owner)
    value = getattr(owner, name)
    try:
        delattr(holder, name)
        gone = not hasattr(owner, name)
    except (AttributeError, TypeError):  # inherited from a class that is written in C
        gone = False
    if gone:
        yield
        setattr(holder, name, value)  # torch itself would have something else in its place
    else:  # nor if torch makes it anew when it is asked for
        above = functools.reduce(getattr, parts[:-1], torch)
        setattr(above, parts[-1], object())
        yield
        setattr(above, parts[-1], owner)

@contextlib.contextmanager
def warned_without(path, *words):
    with warnings.catch_warnings(record=True) as caught, without(path):
        warnings.simplefilter("always")
        yield
    [warning] = caught
    assert all(word in str(warning.message) for word in words), warning

def refused(call):
    try:
        call()
    except RuntimeError as error:
        return str(error)
    raise AssertionError("it was not refused")

def apart(function, *arguments):
    child = os.fork()
    if child == 0:
        status = 1
        try:
            function(*arguments)
            status = 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(status)
    print(*arguments[1:], os.waitpid(child, 0)[1], flush=True)

def run(program, title, *given):
    names = dict(globals())
    exec(program, names)
    for argument in given:
        apart(names["work"], argument)

for title, (program, given) in json.loads(sys.argv[1]).items():
    apart(run, program, title, *given)
"""


def assert_work(**programs: tuple[str, Iterable[str]]) -> None:
    """Each program does its work for each of its arguments, in processes that have not imported the package."""
    given = {title: (program, [*arguments]) for title, (program, arguments) in programs.items()}
    done = started(sys.executable, "-c", EACH_APART, json.dumps(given), cwd=Path(__file__).parent)
    ended = [line.rpartition(" ")[2] for line in done.stdout.splitlines()]
    assert ended == ["0"] * sum(1 + len(arguments) for _, arguments in given.values()), done.stdout + done.stderr
