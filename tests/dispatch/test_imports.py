"""What is imported, and what only where it is needed: how long `import` takes hangs on nothing else."""

import ast
import importlib
import importlib.metadata
import json
import re
import sys
from collections import Counter
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from processes import run_python, started

import torch_dml_ops
from torch_dml_ops._sentences.packages import need_packages

MODEL = str(Path(__file__).parents[2] / "examples" / "models" / "strided_and_padded.json")

COMPILER = ("torch._dynamo", "torch._inductor", "torch.fx.experimental", "sympy")
OPTIONAL = ("matplotlib", "onnx", "onnxruntime", "onnxscript", "torch.distributed.tensor")


@cache
def imported(*arguments: str) -> frozenset[str]:
    """The modules that Python imports with these arguments, as it tells itself."""
    done = started(sys.executable, "-X", "importtime", *arguments)
    assert done.returncode == 0, done.stderr
    lines = (line.split("|") for line in done.stderr.splitlines() if line.startswith("import time:"))
    return frozenset(line[2].strip() for line in lines)


@pytest.mark.parametrize(
    ("arguments", "without"),
    [
        (("-c", "import torch_dml_ops"), COMPILER + OPTIONAL),
        (("-c", "import torch_dml_ops.directml"), COMPILER + OPTIONAL),
        (("-c", "from torch_dml_ops.directml import *"), COMPILER + OPTIONAL),
        (("-m", "torch_dml_ops"), OPTIONAL[:-1]),  # which says whether the compiler has what is needed of it
        (("-m", "torch_dml_ops", "validate", MODEL), COMPILER + OPTIONAL),
        (("-m", "torch_dml_ops", "run", MODEL), COMPILER + OPTIONAL),
    ],
    ids=["torch_dml_ops", "directml", "all of directml", "report", "validate", "run"],
)
def test_nothing_that_takes_long_is_imported(arguments: tuple[str, ...], without: tuple[str, ...]) -> None:
    ours = imported(*arguments) - imported("-c", "import torch")
    assert "torch_dml_ops._libraries" in ours
    assert sorted(m for m in ours if m in without or m.startswith(tuple(f"{name}." for name in without))) == []


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
import sys
import torch_dml_ops as dml
lazy = "directml", "distributed", "onnx", "viz"
print({name for name in dir(dml) if not name.startswith("__")} == {*dml.__all__, *lazy})
print([name for name in lazy if f"torch_dml_ops.{name}" in sys.modules])
print(dml.directml.SplitOperatorDesc.__module__, [name for name in lazy if f"torch_dml_ops.{name}" in sys.modules])
sys.modules["matplotlib"] = None
print(hasattr(dml, "viz"), hasattr(dml, "anything"))
try:
    dml.viz
except AttributeError as error:
    print(error)
"""


@pytest.mark.parametrize("name", ["", ".directml", ".distributed", ".onnx", ".ops", ".viz"])
def test_all_that_is_public_is_listed_once(name: str) -> None:
    """What a module's own functions and classes are called that have no underscore, and what it lists besides."""
    module = importlib.import_module(f"torch_dml_ops{name}")
    listed = Counter(module.__all__)
    assert all(hasattr(module, name) and count == 1 for name, count in listed.items())
    own = {key for key, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__}
    assert {key for key in own if not key.startswith("_")} <= set(listed)


def test_the_interface_is_what_dir_lists_and_its_modules_come_when_they_are_used() -> None:
    assert run_python("-c", THE_INTERFACE).splitlines() == [
        "True",
        "[]",
        "torch_dml_ops.directml.operator_descs ['directml']",
        "False False",
        "torch_dml_ops.viz needs matplotlib: pip install matplotlib",
    ]


A_DTENSOR = """
import contextlib, sys, torch
if sys.argv[1] == "before":
    import torch.distributed.tensor
import torch_dml_ops
import torch.distributed.tensor
from torch.testing._internal.distributed.fake_pg import FakeStore
print("torch_dml_ops.distributed" in sys.modules)
torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=1)
mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (1,))
with contextlib.nullcontext() if sys.argv[1] == "after" else torch.inference_mode():
    x = torch.distributed.tensor.DTensor.from_local(torch.arange(3), mesh, [torch.distributed.tensor.Shard(0)])
    slice1 = torch_dml_ops.slice1 if sys.argv[1] == "after, a function" else torch.ops.torch_dml_ops.slice1
    print(slice1(x, [0], [3], [-1]).to_local().tolist())
torch.distributed.destroy_process_group()
"""


def test_a_torch_whose_dtensors_cannot_be_imported() -> None:
    program = "import sys; sys.modules['torch.distributed.tensor'] = None; import torch, torch_dml_ops as dml; "
    assert run_python("-c", f"{program}print(dml.split(torch.arange(2), [1, 1], 0)[1].item())") == "1\n"


@pytest.mark.parametrize("when", ["before", "after", "after, a function"])
def test_rules_for_dtensors_are_there_before_a_call_whenever_torch_has_loaded_its_own(when: str) -> None:
    """In inference mode a call of torch.ops meets none of the package's code before torch looks for the rules."""
    assert run_python("-c", A_DTENSOR, when).splitlines() == [str(when == "before"), "[2, 1, 0]"]
