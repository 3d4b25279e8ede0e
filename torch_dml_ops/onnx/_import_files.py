"""ONNX files: what is read of them, and how their tensors become torch's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import ModelProto, TensorProto, external_data_helper, inliner, numpy_helper
from torch import Tensor

from torch_dml_ops._paths import resolved
from torch_dml_ops._text import cut, shown

ONNX_DOMAINS = ("", "ai.onnx")

_DTYPES = {
    "FLOAT": torch.float32,
    "DOUBLE": torch.float64,
    "FLOAT16": torch.float16,
    "BFLOAT16": torch.bfloat16,
    "FLOAT8E4M3FN": torch.float8_e4m3fn,
    "FLOAT8E4M3FNUZ": torch.float8_e4m3fnuz,
    "FLOAT8E5M2": torch.float8_e5m2,
    "FLOAT8E5M2FNUZ": torch.float8_e5m2fnuz,
    "FLOAT8E8M0": torch.float8_e8m0fnu,
    "INT8": torch.int8,
    "INT16": torch.int16,
    "INT32": torch.int32,
    "INT64": torch.int64,
    "UINT8": torch.uint8,
    "UINT16": torch.uint16,
    "UINT32": torch.uint32,
    "UINT64": torch.uint64,
    "BOOL": torch.bool,
    "COMPLEX64": torch.complex64,
    "COMPLEX128": torch.complex128,
}


def dtype_of(what: str, element_type: int | str) -> torch.dtype:
    try:
        name = element_type if isinstance(element_type, str) else TensorProto.DataType.Name(element_type)
    except ValueError:
        name = f"the unknown type {element_type}"
    if name not in _DTYPES:
        raise NotImplementedError(f"from_onnx: {what} must have an element type that torch has, got {cut(name)}")
    return _DTYPES[name]


def read_model(model: str | os.PathLike[str] | ModelProto) -> tuple[ModelProto, Path | None]:
    """The model without local functions, and the folder that its tensors' data may be in."""
    folder = None
    if isinstance(model, (str, os.PathLike)):
        path = os.fspath(model)
        try:
            model = onnx.load(path, load_external_data=False)
        except OSError:
            raise
        except Exception as error:  # each format has a parser with errors of its own
            raise ValueError(f"from_onnx: {shown(path)} must be an ONNX model: {line_of(error)}") from None
        folder = Path(path).parent
    elif not isinstance(model, ModelProto):
        raise TypeError(f"from_onnx: model must be a path or an onnx.ModelProto, got {shown(model)}")
    for name in _names(model):
        if isinstance(name, bytes):  # as protobuf gives what it cannot decode
            raise ValueError(f"from_onnx: the names in the model must be UTF-8, got {shown(name)}")
    for tensor in _tensors(model):
        if external_data_helper.uses_external_data(tensor):
            _check_location(tensor, folder)
    if not any(opset.domain in ONNX_DOMAINS for opset in model.opset_import):
        raise ValueError("from_onnx: model must say which opset of ONNX it uses, and says none")
    try:
        return inliner.inline_local_functions(model) if model.functions else model, folder
    except Exception as error:  # of no class that is documented
        raise ValueError(f"from_onnx: the functions of the model must be valid: {line_of(error)}") from None


def _names(model: ModelProto) -> Iterator[str | bytes]:
    for named in (*model.graph.input, *model.graph.output, *model.graph.initializer):
        yield named.name
    for node in model.graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        yield from (attribute.name for attribute in node.attribute)


def _tensors(model: ModelProto) -> Iterator[TensorProto]:
    """Those that may be used: graphs within nodes are not looked into, as no node that has one moves data alone."""
    yield from model.graph.initializer
    for nodes in (model.graph.node, *(function.node for function in model.functions)):
        for node in nodes:
            for attribute in node.attribute:
                if attribute.HasField("t"):
                    yield attribute.t


def _check_location(tensor: TensorProto, folder: Path | None) -> None:
    location = next((entry.value for entry in tensor.external_data if entry.key == "location"), "")
    rule = f"from_onnx: the data of tensor {shown(tensor.name)} must lie in the model's folder, got {shown(location)}"
    if folder is None:
        raise ValueError(f"{rule} and a ModelProto, which has none; write the model's path")
    try:
        within = resolved(folder / location).is_relative_to(resolved(folder))
    except (OSError, ValueError):  # too long a name, a NUL in it, links in a circle
        within = False
    if not within or os.path.isabs(location):
        raise ValueError(rule)


def tensor_of(proto: TensorProto, folder: Path | None) -> Tensor:
    """A copy of its data."""
    what = f"tensor {shown(proto.name)}"
    dtype = dtype_of(what, proto.data_type)
    try:
        if any(size < 0 for size in proto.dims):
            raise ValueError("a size is negative")
        array = numpy_helper.to_array(proto, str(folder or ""))
    except OSError:
        raise
    except Exception as error:  # whatever the data are not fit for
        raise ValueError(f"from_onnx: {what} must have data that fit its sizes and type: {line_of(error)}") from None
    tensor = torch.empty(array.size, dtype=dtype)
    tensor.view(torch.uint8).numpy()[:] = array.reshape(-1).view(np.uint8)  # NumPy lacks bfloat16 and float8
    return tensor.reshape(array.shape)


def line_of(error: Exception) -> str:
    """The first line of what may be a page."""
    return cut(next(iter(str(error).strip().splitlines()), type(error).__name__), 200).removesuffix(".")
