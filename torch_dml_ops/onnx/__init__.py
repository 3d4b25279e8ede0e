"""Models with these operators in ONNX; needs NumPy, onnx and onnxscript: ``pip install numpy onnx onnxscript``.

Once this is imported, ``torch.onnx.export(model, arguments, dynamo=True)`` translates the operators. :func:`from_onnx`
and :func:`register_onnx2torch` go the other way.

>>> import torch, torch_dml_ops as dml
>>> import torch_dml_ops.onnx
>>> class EveryOther(torch.nn.Module):
...     def forward(self, x):
...         return dml.index(x)[::-2]
>>> program = torch.onnx.export(EveryOther().eval(), (torch.arange(6),), dynamo=True, verbose=False)
>>> [node.op_type for node in program.model.graph]
['Slice']
"""

from torch_dml_ops._sentences.packages import need_packages

need_packages("torch_dml_ops.onnx", "numpy", "onnx", "onnxscript")

from torch_dml_ops.onnx._export import register, translation_table
from torch_dml_ops.onnx._importer.graph import from_onnx
from torch_dml_ops.onnx._onnx2torch import register_onnx2torch

register()
__all__ = ["from_onnx", "register_onnx2torch", "translation_table"]
