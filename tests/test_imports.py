"""What is imported, and what only where it is needed: how long `import` takes hangs on nothing else."""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

MODEL = str(Path(__file__).parents[1] / "examples" / "models" / "strided_and_padded.json")

COMPILER = ("torch._dynamo", "torch._inductor", "torch.fx.experimental", "sympy")
OPTIONAL = ("matplotlib", "onnx", "onnxruntime", "onnxscript", "torch.distributed.tensor")
JSON = ("pydantic",)


@cache
def imported(*arguments: str) -> frozenset[str]:
    """The modules that Python imports with these arguments, as it tells itself."""
    command = [sys.executable, "-X", "importtime", *arguments]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = (line.split("|") for line in run.stderr.splitlines() if line.startswith("import time:"))
    return frozenset(line[2].strip() for line in lines)


@pytest.mark.parametrize(
    ("arguments", "without"),
    [
        (("-c", "import torch_dml_ops"), COMPILER + OPTIONAL + JSON),
        (("-c", "import torch_dml_ops.directml"), COMPILER + OPTIONAL + JSON),
        (("-c", "from torch_dml_ops.directml import *"), COMPILER + OPTIONAL + JSON),
        (("-m", "torch_dml_ops"), OPTIONAL[:-1] + JSON),  # which says whether the compiler has what is needed of it
        (("-m", "torch_dml_ops", "validate", MODEL), COMPILER + OPTIONAL),
        (("-m", "torch_dml_ops", "run", MODEL), COMPILER + OPTIONAL),
    ],
    ids=["torch_dml_ops", "directml", "all of directml", "report", "validate", "run"],
)
def test_nothing_that_takes_long_is_imported(arguments: tuple[str, ...], without: tuple[str, ...]) -> None:
    ours = imported(*arguments) - imported("-c", "import torch")
    assert "torch_dml_ops._libraries" in ours
    assert sorted(m for m in ours if m in without or m.startswith(tuple(f"{name}." for name in without))) == []


def test_descriptors_and_operators_need_no_reader_of_json() -> None:
    code = """
import torch
from torch_dml_ops.directml import *
x = torch.arange(6)
tensor = TensorDesc.from_tensor(x)
pieces = SplitOperatorDesc.infer_output(tensor, axis=0, output_axis_sizes=[2, 4])
Operator(SplitOperatorDesc(input_tensor=tensor, output_tensors=pieces, axis=0))(x)
"""
    assert "pydantic" not in imported("-c", code)
    needs = f"{code}\nTensorDesc.from_json({json.dumps({'DataType': 'INT64', 'Sizes': [6]})})"
    assert "pydantic" in imported("-c", needs)


WITHOUT_PACKAGES = """
import importlib.util
found = importlib.util.find_spec
missing = "pydantic"
importlib.util.find_spec = lambda name, *more: None if name == missing else found(name, *more)
from torch_dml_ops.__main__ import main
from torch_dml_ops.directml import Model, SplitOperatorDesc, TensorDesc
for call in (lambda: Model.load("x.json"), lambda: TensorDesc.from_json({}), lambda: SplitOperatorDesc.from_json({})):
    try:
        call()
    except ImportError as error:
        print(error)
print(main(["run", "x.json"]))
missing = "numpy"
print(main(["run", "x.json"]))
"""


def test_where_a_package_is_missing_one_sentence_says_so() -> None:
    run = subprocess.run([sys.executable, "-c", WITHOUT_PACKAGES], capture_output=True, text=True, check=False)
    sentence = "torch_dml_ops: reading DirectML's JSON needs pydantic; pip install 'torch_dml_ops[models]'\n"
    assert run.stdout == 3 * sentence + "1\n1\n", run.stderr
    assert run.stderr == sentence + sentence.replace("DirectML's JSON", "model files").replace("pydantic", "numpy")


def test_onnx_says_what_to_install() -> None:
    code = """
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name in ("onnx", "onnxscript") else found(name, *more)
try:
    import torch_dml_ops.onnx
except ImportError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    sentence = "torch_dml_ops.onnx needs onnx and onnxscript: pip install 'torch_dml_ops[onnx]'\n"
    assert (run.stdout, run.stderr) == (sentence, "")
