"""Imported first: what the package meets late in a process, if at all, is there.

The rules for DTensors are asked about every call then, and torch.compile imports what brings them.
"""

import torch
import torch._dynamo
import torch.distributed.tensor
import torch.onnx

import torch_dml_ops as dml
import torch_dml_ops.distributed
import torch_dml_ops.onnx
from torch_dml_ops._compile import setting

assert setting.missing() == ""  # it imports Inductor and registers the formulas
torch.compile(lambda x: dml.slice1(x, [0], [3], [-1]), backend="aot_eager")(torch.arange(3))
