"""What the names of an ONNX graph stand for while it is imported."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import prod
from pathlib import Path
from typing import NamedTuple, TypeAlias

import onnx
import torch
from onnx import TensorProto, TypeProto
from onnx.helper import make_tensor_type_proto
from torch import Tensor, fx

from torch_dml_ops.onnx._importer.files import tensor_of
from torch_dml_ops.onnx._importer.inputs import WHOLE

MOST_NUMBERS = 1000  # of a list whose length is that of a tensor's rank or of a node's outputs


class Constant:
    """A tensor that the model holds, read when it is first used."""

    def __init__(self, name: str, data: Tensor | TensorProto, folder: Path | None, trainable: bool = False) -> None:
        self.name, self._data, self._folder, self._trainable = name, data, folder, trainable

    @cached_property
    def tensor(self) -> Tensor:
        return self._data if isinstance(self._data, Tensor) else tensor_of(self._data, self._folder)

    @property
    def is_parameter(self) -> bool:
        """Not of a single number, as exporters write what is filled in: training would change zeros and infinities."""
        return self._trainable and self.rank > 0 and (self.tensor.is_floating_point() or self.tensor.is_complex())

    @property
    def may_be_sizes(self) -> bool:
        """Not where a model holds many."""
        is_few = isinstance(self._data, Tensor) or prod(self._data.dims) <= MOST_NUMBERS
        return is_few and self.dtype in (*WHOLE, torch.bool) and self.rank <= 1

    @property
    def rank(self) -> int:
        return self.tensor.dim()

    @property
    def dtype(self) -> torch.dtype:
        return self.tensor.dtype

    @property
    def type(self) -> TypeProto | None:
        """None of an element type that this onnx does not know."""
        if isinstance(self._data, Tensor):
            kind = {torch.int64: TensorProto.INT64, torch.float32: TensorProto.FLOAT}[self._data.dtype]
            return make_tensor_type_proto(kind, self._data.shape)
        known = self._data.data_type in TensorProto.DataType.values()
        return make_tensor_type_proto(self._data.data_type, self._data.dims) if known else None

    @property
    def may_be_numbers(self) -> bool:
        """Whether an operator's rules may depend on what it holds: not on weights, which are not read for that."""
        if isinstance(self._data, Tensor):
            return self._data.dtype == torch.int64 and self._data.numel() <= MOST_NUMBERS
        return self._data.data_type in (TensorProto.INT32, TensorProto.INT64) and prod(self._data.dims) <= MOST_NUMBERS

    @property
    def numbers(self) -> TensorProto:
        return onnx.numpy_helper.from_array(self.tensor.numpy(), self.name)


class SizesNode(NamedTuple):
    """Sizes that the graph computes: a tuple of them where the rank is 1, one where it is 0."""

    node: fx.Node
    rank: int
    dtype: torch.dtype = torch.int64
    is_length: bool = False  # a list of one number, of how many there are in another


class TensorSequence(NamedTuple):
    """What the graph says that it holds, or a list that is made when the model runs."""

    tensors: Sequence[Typed] | fx.Node


Value: TypeAlias = fx.Node | SizesNode | Constant | TensorSequence
Typed: TypeAlias = tuple[Value, TypeProto | None]  # None where the type is not known
