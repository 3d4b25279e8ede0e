"""ONNX files: what is read of them, and how their tensors become torch's."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import ModelProto, NodeProto, TensorProto, external_data_helper, inliner, numpy_helper
from torch import Tensor

from torch_dml_ops._paths import resolved
from torch_dml_ops._sentences.text import cut, digits, shown

ONNX_DOMAINS = ("", "ai.onnx")

# Functions that call one another twice each give 2 ** 25 nodes where there are 25. Models have some ten thousand nodes.
MOST_NODES = 100_000

# What to write for an object that has this attribute: bytes, a file, what torch.onnx.export returns.
_WAYS_TO_MODELS = {
    "decode": "onnx.load_from_string(model)",
    "read": "onnx.load(model)",
    "model_proto": "model.model_proto",
}

DTYPES = {
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
    name = element_type if isinstance(element_type, str) else type_name(element_type)
    if name not in DTYPES:
        raise NotImplementedError(f"from_onnx: {what} must have an element type that torch has, got {cut(name)}")
    return DTYPES[name]


def type_name(element_type: int) -> str:
    known = element_type in TensorProto.DataType.values()
    return TensorProto.DataType.Name(element_type) if known else f"the unknown type {element_type}"


def read_model(model: str | os.PathLike[str] | ModelProto) -> tuple[ModelProto, Path | None]:
    """The model without local functions, and the folder that its tensors' data may be in."""
    folder = None
    if isinstance(model, (str, os.PathLike)):
        path = os.fspath(model)
        if os.path.isfile(path) and not os.path.getsize(path):
            raise ValueError(f"from_onnx: {shown(path)} must be an ONNX model, got an empty file; export it again")
        try:
            model = onnx.load(path, load_external_data=False)
        except OSError:
            raise
        except Exception as error:  # each format has a parser with errors of its own
            others = ", got one of DxDispatch; torch_dml_ops.directml.Model.load takes it"
            reason = others if _is_dxdispatchs(path) else f": {line_of(error)}"
            raise ValueError(f"from_onnx: {shown(path)} must be an ONNX model{reason}") from None
        folder = Path(path).parent
    elif not isinstance(model, ModelProto):
        way_out = next((f"; write {way}" for name, way in _WAYS_TO_MODELS.items() if hasattr(model, name)), "")
        raise TypeError(f"from_onnx: model must be a path or an onnx.ModelProto, got {shown(model)}{way_out}")
    for name in _names(model):
        if isinstance(name, bytes):  # as protobuf gives what it cannot decode
            raise ValueError(f"from_onnx: the names in the model must be UTF-8, got {shown(name)}")
    _check_opset(model)
    _check_functions(model)
    try:
        if model.functions:
            model = _with_defaults(model)
            inlined = inliner.inline_local_functions(model)
            # Those of another opset are left, unless they are converted, for which not every operator has a rule.
            model = inliner.inline_local_functions(model, convert_version=True) if inlined.functions else inlined
    except Exception as error:  # of no class that is documented
        raise ValueError(f"from_onnx: the functions of the model must be valid: {line_of(error)}") from None
    for tensor in external_tensors(model.graph):
        _check_location(tensor, folder)
    return model, folder


def _is_dxdispatchs(path: str) -> bool:
    if not os.path.isfile(path):  # a pipe has been read
        return False
    with open(path, "rb") as file:
        return b'"dispatchables"' in file.read(2**20)


def _check_opset(model: ModelProto) -> None:
    versions = {opset.version for opset in model.opset_import if opset.domain in ONNX_DOMAINS}
    if not versions:
        others = ", ".join(f"{opset.domain} {opset.version}" for opset in model.opset_import)
        said = f"{cut(others if others.isprintable() else repr(others))} alone" if others else "none"
        raise ValueError(f"from_onnx: model must say which opset of ONNX it uses, and says {said}")
    if len(versions) > 1:
        raise ValueError(f"from_onnx: model must use one opset of ONNX, got {' and '.join(map(str, sorted(versions)))}")
    (version,), last = versions, onnx.defs.onnx_opset_version()
    if not 1 <= version <= last:
        raise ValueError(
            f"from_onnx: model must use an opset from 1 to {last}, the last of onnx {onnx.__version__}, got {version}"
        )


def _check_functions(model: ModelProto) -> None:
    """How many nodes the functions would give is known before they are inlined."""
    functions = {(function.domain, function.name, _overload(function)): function for function in model.functions}
    nodes = {name: _operators_in(function.node) for name, function in functions.items()}
    try:
        order = tuple(TopologicalSorter({name: set(nodes[name]) & set(functions) for name in functions}).static_order())
    except CycleError as error:
        domain, name, _ = error.args[1][0]
        raise ValueError(
            f"from_onnx: the functions of the model must not call themselves, got {shown(f'{domain}.{name}')}"
        ) from None
    inlined: dict[tuple[str, str, str], int] = {}
    for name in order:
        inlined[name] = _number(nodes[name], inlined)
    if (number := _number(_operators_in(model.graph.node), inlined)) > MOST_NODES and functions:
        raise ValueError(
            f"from_onnx: the functions of the model must give at most {MOST_NODES} nodes where they are inlined, got "
            f"{digits(number)}"
        )


def _with_defaults(model: ModelProto) -> ModelProto:
    """With the values of attributes that calls of functions leave out, which onnx's inliner forgets."""
    result = ModelProto()
    result.CopyFrom(model)
    defaults = {
        (function.domain, function.name, _overload(function)): function.attribute_proto for function in model.functions
    }
    for node in _nodes_in(result.graph.node, *(function.node for function in result.functions)):
        given = {attribute.name for attribute in node.attribute}
        for default in defaults.get((node.domain, node.op_type, _overload(node)), ()):
            if default.name not in given:
                node.attribute.append(default)
    return result


def _operators_in(nodes: Iterable[NodeProto]) -> Counter[tuple[str, str, str]]:
    """How often each is called."""
    return Counter((node.domain, node.op_type, _overload(node)) for node in _nodes_in(nodes))


def _nodes_in(*lists: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """Also of the graphs that nodes have."""
    waiting = [node for nodes in lists for node in nodes]
    while waiting:
        node = waiting.pop()
        yield node
        for attribute in node.attribute:
            for graph in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                waiting.extend(graph.node)


def _number(calls: Counter[tuple[str, str, str]], inlined: dict[tuple[str, str, str], int]) -> int:
    return sum(count * inlined.get(name, 1) for name, count in calls.items())


def _overload(of: Any) -> str:
    """Which came with IR version 10."""
    return getattr(of, "overload", "")


def _parts(message: Any) -> Iterator[Any]:
    """It and the messages that it holds, but not those of a tensor, whose data would be copied."""
    waiting = [message]
    while waiting:
        part = waiting.pop()
        yield part
        for field, value in () if isinstance(part, TensorProto) else part.ListFields():
            if field.message_type:
                waiting.extend([value] if hasattr(value, "ListFields") else value)


def _names(model: ModelProto) -> Iterator[str | bytes]:
    for part in itertools.chain(*map(_parts, (model.graph, *model.functions))):
        if isinstance(part, TensorProto):
            yield part.name
            continue
        for field, value in part.ListFields():
            if field.type == field.TYPE_STRING and field.name != "doc_string":
                yield from [value] if isinstance(value, (str, bytes)) else value


def external_tensors(message: Any) -> Iterator[TensorProto]:
    """Those with data in other files, wherever the message holds them."""
    for part in _parts(message):
        if isinstance(part, TensorProto) and external_data_helper.uses_external_data(part):
            yield part


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
    tensor = torch.empty(array.size, dtype=dtype, device="cpu")
    tensor.view(torch.uint8).numpy()[:] = array.reshape(-1).view(np.uint8)  # NumPy lacks bfloat16 and float8
    return tensor.reshape(array.shape)


def zero() -> Tensor:
    """The value of a ConstantOfShape that has none."""
    return torch.zeros(1, dtype=torch.float32, device="cpu")


def line_of(error: Exception) -> str:
    """The first line of what may be a page."""
    return cut(next(iter(str(error).strip().splitlines()), type(error).__name__), 200).removesuffix(".")
