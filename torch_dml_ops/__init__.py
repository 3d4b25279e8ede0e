"""DirectML's data-movement operators for PyTorch.

Indexing as in NumPy, with steps of either sign, to read and to assign:
    index(x)[::-2, 1:]                 a copy of what is selected
    negative_steps()                   a mode in which plain x[::-2, 1:] works

Sequences of different lengths:
    reverse_sequence(input, lengths, axis)                 a length for each batch item
    reverse_subsequences(input, sequence_lengths, axis)    lengths that vary along other axes too
    sequence_lengths_like(input, lengths, axis)            the former's lengths as the latter takes them

Windows and pieces:
    slice1(input, window_offsets, window_sizes, window_strides)    a window, walked with any stride
    slice_grad(grad_output, input_sizes, …)    its transpose: back into zeros
    window(shape, index)                       the window of a NumPy-style index
    split(input, split_sizes, axis)            copies, never views
    join(inputs, axis)

Under torch.compile:
    set_fusion(mode), get_fusion()            when the operators are fused

Modules, imported when they are first used:
    directml       DirectML's descriptors, graphs and model files
    distributed    what calls on DTensors send between ranks
    onnx           export to ONNX and import from it; needs onnx and onnxscript
    viz            pictures of what an operator moves; needs matplotlib

>>> import torch, torch_dml_ops as dml
>>> dml.index(torch.arange(6))[::-2]
tensor([5, 3, 1])
"""

from functools import partial as _partial
from importlib import import_module as _import_module
from importlib.metadata import version as _version
from typing import TYPE_CHECKING
from typing import Any as _Any

from torch_dml_ops import _libraries  # isort: skip  (before the modules that use the operators)
from torch_dml_ops import ops
from torch_dml_ops._compile.setting import get_fusion, set_fusion
from torch_dml_ops._indexing.index import index
from torch_dml_ops._indexing.negative_steps import negative_steps
from torch_dml_ops._operators import registration as _registration
from torch_dml_ops._operators import without_kernels as _without_kernels
from torch_dml_ops._sentences.arguments import refuse_script as _refuse_script
from torch_dml_ops._torch import loaded_later as _loaded_later
from torch_dml_ops.ops import *  # noqa: F403  (what its __all__ lists)

if TYPE_CHECKING:
    from torch_dml_ops import directml, distributed, onnx, viz

__version__ = _version("torch_dml_ops")
__all__ = ["get_fusion", "index", "negative_steps", "set_fusion"]
__all__ += ops.__all__

for _name in ("index", *ops.__all__):
    # torch.jit.script calls this first. Without it, it would show the line of Python that TorchScript lacks.
    vars(globals()[_name])["__prepare_scriptable__"] = _partial(_refuse_script, _name)

_MODULES = ("directml", "distributed", "onnx", "viz")


def __getattr__(name: str) -> _Any:
    if name in _MODULES:
        try:
            return _import_module(f"torch_dml_ops.{name}")
        except ImportError as error:  # an AttributeError, so that help() and hasattr() pass over what is not installed
            raise AttributeError(str(error)) from error
    raise AttributeError(f"module 'torch_dml_ops' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*(name for name in globals() if name.startswith("__")), *__all__, *_MODULES]
