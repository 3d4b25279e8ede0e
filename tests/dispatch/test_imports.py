"""What is imported, and what only where it is needed: how long `import` takes hangs on nothing else."""

import ast
import importlib
import importlib.metadata
import json
import re
import sys
from collections import Counter
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from processes import run_python, started

import torch_dml_ops
from torch_dml_ops._sentences.packages import need_packages

APART = """
import os, sys, traceback
import torch
for code in sys.argv[1:]:
    print("-", flush=True)
    if os.fork() == 0:
        sys.argv = ["-c"]
        try:
            exec(code)
        except BaseException:
            traceback.print_exc(file=sys.stdout)
        sys.stdout.flush()
        os._exit(0)
    os.wait()
"""


def apart(*programs: str) -> list[list[str]]:
    """The lines that each program prints, in a process that has imported torch and no more."""
    printed = run_python("-c", APART, *programs)
    return [lines.splitlines() for lines in printed.removeprefix("-\n").split("-\n")]


MODEL = str(Path(__file__).parents[2] / "examples" / "models" / "strided_and_padded.json")

COMPILER = ("torch._dynamo", "torch._inductor", "torch.fx.experimental", "sympy")
OPTIONAL = ("matplotlib", "onnx", "onnxruntime", "onnxscript", "torch.distributed.tensor")


REPORTED = """
before = {*sys.modules}
import contextlib, io, runpy
sys.argv += %r
with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
    %s
print(*{*sys.modules} - before)
"""
MAIN = "runpy.run_module('torch_dml_ops', run_name='__main__')"
WAYS_IN = [
    ("import torch_dml_ops", []),
    ("import torch_dml_ops.directml", []),
    ("from torch_dml_ops.directml import *", []),
    (MAIN, []),
    (MAIN, ["validate", MODEL]),
    (MAIN, ["run", MODEL]),
]


def test_nothing_that_takes_long_is_imported() -> None:
    imported = apart(*(REPORTED % (arguments, code) for code, arguments in WAYS_IN))
    for way_in, [line] in zip(WAYS_IN, imported, strict=True):
        # The report says whether the compiler has what is needed of it.
        without = OPTIONAL[:-1] if way_in == (MAIN, []) else COMPILER + OPTIONAL
        assert "torch_dml_ops._libraries" in line.split()
        assert not [m for m in line.split() if f"{m}.".startswith(tuple(f"{n}." for n in without))], way_in


PACKAGE = Path(torch_dml_ops.__file__).parent


def imports(path: Path) -> set[str]:
    """The package's own modules that a module imports: when it is imported itself, or within a function."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    tree.body = [node for node in tree.body if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node))]
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in MODULES else node.module for name in names}
    return found & MODULES.keys()


MODULES = {
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in PACKAGE.rglob("*.py")
}
# Which parts of the package each may import. "" is what they all share.
PARTS: dict[str, set[str]] = {
    "": set(),
    "directml": {""},
    "distributed": {""},
    "onnx": {""},
    "viz": {"", "directml"},
    "__main__": {"", "directml"},
}


def test_imports_point_down_only() -> None:
    """There is no circle, and what the parts share imports none of them."""
    graph = {module: imports(path) for module, path in MODULES.items()}
    TopologicalSorter(graph).prepare()  # which raises CycleError

    def part(module: str) -> str:
        second = module.split(".")[1] if "." in module else ""
        return second if second in PARTS else ""

    assert {(m, n) for m in graph for n in graph[m] if part(n) not in PARTS[part(m)] | {part(m)}} == set()


# What needs which packages besides torch.
NEEDS = {
    "Model.load": {"numpy"},
    "run": {"numpy"},
    "validate": {"numpy"},
    "viz": {"matplotlib", "numpy"},
    "onnx": {"numpy", "onnx", "onnxscript"},
    "register_onnx2torch": {"numpy", "onnx", "onnxscript", "onnx2torch"},
}
WHAT = r"(?:torch_dml_ops: reading model files|torch_dml_ops\.(?:onnx|viz)|register_onnx2torch)"
WITHOUT_A_PACKAGE = """
import contextlib, importlib, io, json, os, sys
import matplotlib.figure, numpy, onnx, onnxscript, torch, torch.onnx  # their time passes once
import torch_dml_ops
from torch_dml_ops.directml import Model, OperatorDesc, TensorDesc
from torch_dml_ops.__main__ import main

model = sys.argv[1]
operator = json.load(open(model))["dispatchables"]
operator = next(iter(operator.values()))

def command(*arguments):
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
        status = main(arguments)
    if status:
        raise ImportError(errors.getvalue().removesuffix("\\n"))

calls = {
    "TensorDesc.from_json": lambda: TensorDesc.from_json({"DataType": "INT64", "Sizes": [6]}),
    "OperatorDesc.from_json": lambda: OperatorDesc.from_json(operator),
    "Model.load": lambda: Model.load(model),
    "run": lambda: command("run", model, "--output-path", os.devnull),
    "validate": lambda: command("validate", model),
    "viz": lambda: importlib.import_module("torch_dml_ops.viz"),
    "onnx": lambda: importlib.import_module("torch_dml_ops.onnx"),
    "register_onnx2torch": lambda: importlib.import_module("torch_dml_ops.onnx").register_onnx2torch(),
}
for missing in sys.argv[2:]:
    if os.fork() == 0:
        for name in [name for name in sys.modules if name.partition(".")[0] == missing]:
            del sys.modules[name]
        sys.modules[missing] = None
        said = {}
        for name, call in calls.items():
            try:
                call()
            except Exception as error:
                said[name] = f"{type(error).__name__}: {error}"
        print(json.dumps([missing, said]), flush=True)
        os._exit(0)
    os.wait()
"""


def optional_packages() -> set[str]:
    """Those that some module of the package imports, and torch does not bring."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module and not node.level}
    of_torch = {"torch", "torch_dml_ops", "sympy"}
    return {name.partition(".")[0] for name in names} - of_torch - sys.stdlib_module_names


def brought(requirement: str, seen: set[str]) -> set[str]:
    """The packages that pip installs for it, but not what torch and this package need by themselves."""
    needed = Requirement(requirement)
    for extra in needed.extras or {""}:
        key = f"{needed.name}[{extra}]"
        if key not in seen:
            seen |= {key, needed.name}
            for line in importlib.metadata.requires(needed.name) or []:
                then = Requirement(line)
                ours = needed.name == "torch_dml_ops" and then.name == "torch"
                if not ours and (then.marker is None or then.marker.evaluate({"extra": extra})):
                    brought(str(then).partition(";")[0], seen)
    return seen


def test_where_a_package_is_missing_one_sentence_says_what_installs_it() -> None:
    """For each optional package and each way in; the others work on. What the sentence names brings no other torch."""
    packages = sorted(optional_packages() - {"torchvision"})  # without which onnx2torch works
    assert set(packages) == set().union(*NEEDS.values())
    done = started(sys.executable, "-c", WITHOUT_A_PACKAGE, MODEL, *packages)
    said = dict(json.loads(line) for line in done.stdout.splitlines())
    assert list(said) == packages, done.stderr
    for missing in packages:
        assert set(said[missing]) == {name for name, needed in NEEDS.items() if missing in needed}
        for sentence in said[missing].values():
            match = re.fullmatch(rf"ImportError: {WHAT} needs (\w+): pip install (--no-deps )?(\w+)", sentence)
            assert match, sentence
            named, alone, installed = match.groups()
            assert named == installed == missing, sentence
            assert alone or not brought(installed, set()) & {"torch", "torchvision"}, sentence


def test_all_that_is_missing_is_named_at_once() -> None:
    with pytest.raises(
        ImportError, match=r"^it needs no_such_package and nor_this: pip install no_such_package nor_this$"
    ):
        need_packages("it", "no_such_package", "json", "nor_this")


THE_INTERFACE = """
import torch_dml_ops as dml
lazy = "directml", "distributed", "onnx", "viz"
there = lambda: [name for name in lazy if f"torch_dml_ops.{name}" in sys.modules]
print({name for name in dir(dml) if not name.startswith("__")} == {*dml.__all__, *lazy}, there())
print(dml.directml.SplitOperatorDesc.__module__, there())
sys.modules["matplotlib"] = None
print(hasattr(dml, "viz"), hasattr(dml, "anything"))
try:
    dml.viz
except AttributeError as error:
    print(error)
"""
WITHOUT_DTENSORS = """
sys.modules["torch.distributed.tensor"] = None
import torch_dml_ops as dml
print(dml.split(torch.arange(2), [1, 1], 0)[1].item())
"""
# In inference mode a call of torch.ops meets none of the package's code before torch looks for the rules.
A_DTENSOR = """
import contextlib
{first}
import torch_dml_ops
import torch.distributed.tensor
from torch.testing._internal.distributed.fake_pg import FakeStore
print("torch_dml_ops.distributed" in sys.modules)
torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=1)
mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (1,))
with {context}():
    x = torch.distributed.tensor.DTensor.from_local(torch.arange(3), mesh, [torch.distributed.tensor.Shard(0)])
    print({function}.slice1(x, [0], [3], [-1]).to_local().tolist())
"""
OPS, INFERENCE = "torch.ops.torch_dml_ops", "torch.inference_mode"
TENSOR = "import torch.distributed.tensor"
PRINTED = {
    THE_INTERFACE: [
        "True []",
        "torch_dml_ops.directml.operator_descs ['directml']",
        "False False",
        "torch_dml_ops.viz needs matplotlib: pip install matplotlib",
    ],
    WITHOUT_DTENSORS: ["1"],
    A_DTENSOR.format(first=TENSOR, context=INFERENCE, function=OPS): ["True", "[2, 1, 0]"],
    A_DTENSOR.format(first="", context="contextlib.nullcontext", function=OPS): ["False", "[2, 1, 0]"],
    A_DTENSOR.format(first="", context=INFERENCE, function="torch_dml_ops"): ["False", "[2, 1, 0]"],
}


def test_the_interface_and_the_rules_for_dtensors_come_when_they_are_used() -> None:
    """The rules are there before a call, whenever torch has loaded its own, and nobody needs DTensors."""
    assert apart(*PRINTED) == [*PRINTED.values()]


@pytest.mark.parametrize("name", ["", ".directml", ".distributed", ".onnx", ".ops", ".viz"])
def test_all_that_is_public_is_listed_once(name: str) -> None:
    """What a module's own functions and classes are called that have no underscore, and what it lists besides."""
    module = importlib.import_module(f"torch_dml_ops{name}")
    listed = Counter(module.__all__)
    assert all(hasattr(module, name) and count == 1 for name, count in listed.items())
    own = {key for key, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__}
    assert {key for key in own if not key.startswith("_")} <= set(listed)
