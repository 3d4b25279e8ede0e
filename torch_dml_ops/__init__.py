"""DirectML's data-movement operators for PyTorch.

>>> import torch, torch_dml_ops as dml
>>> dml.slice1(torch.arange(6), [0], [6], [-2])
tensor([5, 3, 1])
"""

from importlib.metadata import version

from torch_dml_ops import _libraries  # isort: skip  (before the modules that use the operators)
from torch_dml_ops import _autograd, _fake, _packets, _vmap
from torch_dml_ops._fusion import get_fusion, set_fusion
from torch_dml_ops._index import index
from torch_dml_ops._negative_steps import negative_steps
from torch_dml_ops.ops import (
    join,
    reverse_sequence,
    reverse_subsequences,
    sequence_lengths_like,
    slice1,
    slice_grad,
    split,
    window,
)

_packets.put_in_place()
__version__ = version("torch_dml_ops")
__all__ = [
    "get_fusion",
    "index",
    "join",
    "negative_steps",
    "reverse_sequence",
    "reverse_subsequences",
    "sequence_lengths_like",
    "set_fusion",
    "slice1",
    "slice_grad",
    "split",
    "window",
]
