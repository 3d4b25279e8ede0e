"""What newcomers type, and what they read then: mistakes.txt has each call, and after an arrow the error.

Those that the tables of refusals.py have are not among them.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from backends import DEVICE
from descriptors.cases import op_desc
from torch.nn.utils.rnn import pack_padded_sequence

import torch_dml_ops as dml
from torch_dml_ops.directml import TensorDataType, TensorDesc

pytestmark = pytest.mark.skipif(DEVICE != "cpu", reason="the sentences that name a device name this one")

MISTAKES = dict(line.split("  →  ") for line in Path(__file__).with_name("mistakes.txt").read_text().splitlines())
# Another function refuses the same, but for the lengths' dtype and device.
MISTAKES |= {
    call.replace("reverse_sequence", "sequence_lengths_like"): said.replace("reverse_sequence", "sequence_lengths_like")
    for call, said in MISTAKES.items()
    if call.startswith("dml.reverse_sequence(") and not re.search("have dtype|on the device", said)
}


def names() -> dict[str, Any]:
    packed = pack_padded_sequence(torch.zeros(4, 2, 1), [4, 3])
    x, lengths = torch.arange(24.0).reshape(4, 6), torch.tensor([1, 2, 3, 4])
    leaf, out = torch.zeros(4, 6, requires_grad=True), torch.zeros(2, 6)
    four, one = TensorDesc(TensorDataType.FLOAT32, [4]), TensorDesc(TensorDataType.UINT32, [1])
    slice1, split = op_desc("SLICE1", four, four, [0], [4], [1]), op_desc("SPLIT", four, [four], 0)
    reverse = op_desc("REVERSE_SUBSEQUENCES", four, one, four, 0)
    return locals() | {"torch": torch, "np": np, "dml": dml}


@pytest.mark.filterwarnings("ignore:.*(nested tensors|deprecated)")
@pytest.mark.parametrize("call", MISTAKES)
def test_what_is_typed_is_answered(call: str) -> None:
    if "viz.explore(" in call:
        pytest.importorskip("ipywidgets", reason="needs ipywidgets")
    with pytest.raises(Exception) as raised:
        exec(call, names())
    said = re.sub(r"(keyword argument '\w+')\. Did you mean .*", r"\1", str(raised.value))  # by Python 3.13 and later
    assert f"{raised.type.__name__}: {said}" == MISTAKES[call]


OF_TENSORS = re.compile(
    r"dml\.(index\(x\)\[|window\(|reverse_\w+\(x|sequence_lengths_like\(x|slice1\(x|split\(x|join\(\[x)"
)


class _LiftNumbers(ast.NodeTransformer):
    """Gives every number of an expression a name, so that it can be an argument."""

    def __init__(self) -> None:
        self.numbers: dict[str, float] = {}

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if type(node.value) not in (int, float):
            return node
        name = f"n{len(self.numbers)}"
        self.numbers[name] = node.value
        return ast.Name(name, ast.Load())


class _S:
    """As np.s_, which Dynamo does not trace."""

    def __getitem__(self, index: Any) -> Any:
        return index


def compiled_calls() -> Iterator[str]:
    """Those that Dynamo itself can trace and bind, but for assigned values that do not fit: torch refuses those."""
    beyond_dynamo = re.compile(
        r"\*\*|directml|to_sparse|\.tolist|\.numpy|np\.(array|ones)|torch\.tensor\((\[0\.0|1\.5)|\] = (torch|x\.to|1j)"
    )
    for call, said in MISTAKES.items():
        if OF_TENSORS.match(call) and not beyond_dynamo.search(call) and ": " in said and "() " not in said:
            yield call


@pytest.mark.thorough
@pytest.mark.parametrize("call", compiled_calls())
def test_it_is_answered_in_compiled_code_where_all_numbers_are_symbols(call: str) -> None:
    """Within what Dynamo says of an error. (Of more than 64 bits torch says what it always does.)"""
    lift = _LiftNumbers()
    statements = ast.unparse(lift.visit(ast.parse(call.replace("np.s_", "s_"))))
    known = names() | {"s_": _S()}
    exec(f"def function(x, lengths, {', '.join(lift.numbers)}): {statements}", known)
    compiled = torch.compile(known["function"], dynamic=True, fullgraph=True, backend="eager")
    with pytest.raises(Exception) as raised:
        compiled(known["x"], known["lengths"], *lift.numbers.values())
    said = f"{raised.value!s}".replace("\\'", "'")
    assert MISTAKES[call].partition(": ")[2] in said
