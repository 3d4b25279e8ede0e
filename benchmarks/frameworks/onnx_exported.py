"""The operators exported to ONNX, in ONNX Runtime: as onnx_runtime.py, whose models are written by hand."""

import logging
import warnings

import numpy as np
import torch
from cases import Case
from torch import Tensor

import torch_dml_ops as dml
import torch_dml_ops.onnx

from . import Call
from .onnx_runtime import bound

# Exporting a case takes seconds, so one of each kind is enough.
NAMES = {
    "window, last axis halved",
    "stride -1, last axis",
    "stride 2, last axis",
    "slice_grad, stride 2, last axis",
    "split last axis in 64",
    "join last axis of 3",
    "reverse axis 1, a length per batch item",
    "reverse axis 1, a length per column",
    "reverse last axis, a length per row",
}


class Model(torch.nn.Module):
    def __init__(self, case: Case) -> None:
        super().__init__()
        self.case = case

    def forward(self, *inputs: Tensor) -> Tensor | list[Tensor]:
        case, x = self.case, inputs[0]
        if case.operation == "slice":
            return dml.slice1(x, *dml.window(case.shape, case.index))
        if case.operation == "slice_grad":
            return dml.slice_grad(x, case.shape, *dml.window(case.shape, case.index))
        if case.operation == "split":
            return dml.split(x, case.split_sizes, case.axis)
        if case.operation == "join":
            return dml.join(inputs, case.axis)
        lengths = inputs[1].expand([1 if d == case.axis else n for d, n in enumerate(case.shape)])
        return dml.reverse_subsequences(x, lengths, case.axis)


def inputs_of(case: Case) -> list[np.ndarray]:
    x = case.array()
    if case.operation == "slice_grad":
        return [x[case.index].copy()]
    if case.operation == "join":
        return [piece.copy() for piece in np.split(x, np.cumsum(case.split_sizes)[:-1].tolist(), case.axis)]
    return [x, case.sequence_lengths()] if case.operation == "reverse" else [x]


def prepare(case: Case) -> Call | None:
    if (case.size, case.form, case.dtype, case.layout) != ("4 MB", "out", "float32", "contiguous"):
        return None
    if case.name not in NAMES or case.row:
        return None
    arrays = inputs_of(case)
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch's own
        program = torch.onnx.export(Model(case), tuple(map(torch.from_numpy, arrays)), dynamo=True, verbose=False)
    assert program is not None
    names = [str(value.name) for value in program.model.graph.inputs]
    return bound(program.model_proto, dict(zip(names, arrays, strict=True)))
