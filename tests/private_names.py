"""The names that torch does not promise to keep: which of them a module uses, and what happens without one."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType


def private_names(module: ModuleType, values: str = "") -> set[str]:
    """Those that the module's source has, as paths: `torch._C._get_tracing_state`.

    `values` is the path of the class whose private attributes it reads from values, whose types the source lacks.
    """
    assert module.__file__ is not None
    nodes = list(ast.walk(ast.parse(Path(module.__file__).read_text())))
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
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and (path := path_of(node.value)):
            paths[node.target.id] = path
    attributes = [node for node in nodes if isinstance(node, ast.Attribute)]
    used |= {path for node in attributes if (path := path_of(node))}
    ours = {node.id for node in nodes if isinstance(node, ast.Name) and node.id in vars(module)} - set(paths)
    for node in attributes:
        is_ours = isinstance(node.value, ast.Name) and node.value.id in ours | {"self", "cls"}
        if values and node.attr.startswith("_") and path_of(node) is None and not is_ours:
            used.add(f"{values}.{node.attr}")
    without = {"torch._C", "torch._ops", "torch.library._impls"}  # without which torch.library itself does not work
    return {name for name in used if "._" in name.replace(".__", ".")} - without


def _imported(node: ast.AST) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.partition(".")[0] == "torch":
        for alias in node.names:
            yield f"{node.module}.{alias.name}", alias.asname or alias.name
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.name.startswith("torch.") and alias.asname is not None:
                yield alias.name, alias.asname


EACH_APART = """
import contextlib, functools, os, sys, warnings
import hypothesis, numpy, pytest
import torch, torch._dynamo, torch._functorch.utils, torch._inductor.lowering
import torch.autograd.forward_ad as forward_ad

@contextlib.contextmanager
def without(path):
    *owners, name = path.split(".")
    owner = functools.reduce(getattr, owners[1:], torch)
    if name not in vars(owner):
        owner = type(owner)
    value = getattr(owner, name)
    delattr(owner, name)
    yield
    setattr(owner, name, value)  # torch itself would have something else in its place

def each_apart(work, arguments):
    for argument in arguments:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                work(argument)
                status = 0
            except BaseException:
                sys.excepthook(*sys.exc_info())
            finally:
                os._exit(status)
        print(argument, os.waitpid(child, 0)[1], flush=True)
"""


def assert_works(program: str, *arguments: str) -> None:
    """The program does its work in processes that have not imported the package."""
    command = [sys.executable, "-c", EACH_APART + program, *arguments]
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True)
    ended = [line.rpartition(" ")[2] for line in done.stdout.splitlines()]
    assert ended, done.stderr
    assert set(ended) == {"0"}, done.stdout + done.stderr
    assert not arguments or len(ended) == len(arguments)
