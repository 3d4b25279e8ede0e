"""What is imported, and what only where it is needed: how long `import` takes hangs on nothing else."""

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

MODEL = str(Path(__file__).parents[1] / "examples" / "models" / "strided_and_padded.json")

COMPILER = ("torch._dynamo", "torch._inductor", "torch.fx.experimental", "sympy")
OPTIONAL = ("matplotlib", "onnx", "onnxruntime", "onnxscript", "torch.distributed.tensor")


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


WITHOUT_NUMPY = """
import importlib.util, sys
import torch  # which warns where there is no NumPy
sys.modules["numpy"] = None
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == "numpy" else found(name, *more)
from torch_dml_ops.__main__ import main
from torch_dml_ops.directml import OperatorDesc, SplitOperatorDesc, TensorDesc
x = TensorDesc.from_json({"DataType": "INT64", "Sizes": [6]})
desc = SplitOperatorDesc(input_tensor=x, output_tensors=[x], axis=0)
assert OperatorDesc.from_json(desc.to_json()) == desc
print(main(["run", "x.json"]))
"""


def test_json_needs_torch_alone_and_model_files_say_that_they_need_numpy() -> None:
    run = subprocess.run([sys.executable, "-c", WITHOUT_NUMPY], capture_output=True, text=True, check=False)
    assert run.stderr == "torch_dml_ops: reading model files needs numpy; pip install numpy\n"
    assert run.stdout == "1\n"


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
