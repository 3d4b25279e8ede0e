"""Converters for onnx2torch, which turns whole ONNX models into PyTorch modules."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from importlib import import_module
from types import ModuleType
from typing import Any

import onnx
import torch
from onnx import TensorProto
from onnx.defs import OpSchema
from torch import Tensor, nn

from torch_dml_ops._sentences.packages import need_packages
from torch_dml_ops._sentences.text import shown
from torch_dml_ops.onnx._importer import gather_scatter, moving, sizes
from torch_dml_ops.onnx._importer.files import dtype_of, tensor_of, type_name, zero
from torch_dml_ops.onnx._importer.inputs import constant_numbers
from torch_dml_ops.onnx._importer.operators import (
    IGNORED_ATTRIBUTES,
    OF_WHOLE_NUMBERS,
    OPERATORS,
    OnnxOperator,
    attributes_of,
    beyond_moving,
    check_node,
    in_todays_form,
    operator_of,
    parameters_of,
)

# Those of sizes are among them, which are tensors in the modules of onnx2torch.
OPERATOR_TYPES = {op for op, operator in OPERATORS.items() if operator.on_tensors} | {"Shape", "Size"}


class DataMovement(nn.Module):
    """One node: its function, and what is known of its arguments when the model is converted."""

    def __init__(self, function: Callable[..., Any], inputs: Sequence[str] | None, arguments: dict[str, Any]) -> None:
        super().__init__()
        self.function, self.inputs, self.arguments = function, inputs, {}
        for name, value in arguments.items():
            if isinstance(value, Tensor):
                self.register_buffer(name, value)
            else:
                self.arguments[name] = value

    def forward(self, *inputs: Tensor) -> Any:
        arguments = {**self.arguments, **dict(self.named_buffers())}
        if self.inputs is None:
            result = self.function(*inputs, **arguments)
        else:
            result = self.function(**dict(zip(self.inputs, inputs, strict=True)), **arguments)
        return result[0] if isinstance(result, list) and len(result) == 1 else result  # as onnx2torch expects it

    def extra_repr(self) -> str:
        return ", ".join([self.function.__name__, *(f"{name}={value}" for name, value in self.arguments.items())])


def register_onnx2torch() -> None:
    """Lets onnx2torch convert what moves data, in the form of every opset, with this package's operators.

    That is all that :func:`from_onnx` takes of tensors: Slice, Split, Concat, ReverseSequence, Pad, Resize and Upsample
    to the nearest element, and the others that it lists, some of them of whole numbers alone. onnx2torch (1.5.15) has
    no converters for some of these, and gives wrong results for others; one call fixes that for every model that is
    converted afterwards. Its own converters, of Equal say, are then used for later opsets too, where these differ in
    element types alone. What these operators do not do, such as a linear Resize, is converted as before. A second call
    changes nothing. Where there is no torchvision, call this before you import onnx2torch, which otherwise imports
    torchvision, though it needs it only for NonMaxSuppression and RoiAlign.

    Raises:
        ImportError: without onnx2torch, which ``pip install --no-deps onnx2torch`` installs beside your torch.

    >>> import onnx.parser, torch, torch_dml_ops.onnx
    >>> torch_dml_ops.onnx.register_onnx2torch()
    >>> import onnx2torch
    >>> model = onnx.parser.parse_model('''
    ... <ir_version: 8, opset_import: ["": 18]>
    ... halves (float[2, 3] x) => (float[2, 2] a, float[2, 1] b) {
    ...     y = Relu(x)
    ...     a, b = Split <axis = 1, num_outputs = 2> (y)
    ... }''')
    >>> onnx2torch.convert(model)(torch.tensor([[-1.0, 2.0, -3.0], [4.0, -5.0, 6.0]]))
    [tensor([[0., 2.],
            [4., 0.]]), tensor([[0.],
            [6.]])]
    """
    registry = _registry()
    before: dict[str, tuple[Any, Any]] = {}  # of each operator, the version before: its converter, and its form
    for schema in sorted(onnx.defs.get_all_schemas_with_history(), key=lambda schema: schema.since_version):
        op, version = schema.name, schema.since_version
        if schema.domain:
            continue
        description = registry.OperationDescription(domain="", operation_type=op, version=version)
        own = registry._CONVERTER_REGISTRY.pop(description, None)  # add_converter refuses what it has already
        form, (own_before, form_before) = _form(schema), before.get(op, (None, None))
        if form == form_before:
            own = own or own_before
        before[op] = own, form
        is_ours = op in OPERATOR_TYPES and version >= _operator(op, version).since
        converter = _converter(op, version, own) if is_ours and getattr(own, "__module__", "") != __name__ else own
        if converter:
            registry.add_converter(operation_type=op, version=version)(converter)


def _form(schema: OpSchema) -> Any:
    """What a converter sees of an operator's version: all but the element types."""
    attributes = {name: (a.type, str(a.default_value)) for name, a in schema.attributes.items()}
    inputs = [(given.name, given.option) for given in schema.inputs]
    return inputs, len(schema.outputs), {k: v for k, v in attributes.items() if k not in IGNORED_ATTRIBUTES}


def _registry() -> Any:
    # With what it depends on, pip would install torchvision, and the torch that this one was built for.
    need_packages("register_onnx2torch", "onnx2torch", options="--no-deps ")
    # onnx2torch imports torchvision, of which it needs three functions in two operators. Without it, or with one that
    # was built for another torch, the rest of onnx2torch works as well.
    parts = {name: ModuleType(name) for name in ("torchvision", "torchvision.ops")}
    try:
        import torchvision  # noqa: F401

        parts = {}
    except (ImportError, OSError, RuntimeError):
        ops: Any = parts["torchvision.ops"]
        ops.box_convert = ops.nms = ops.roi_align = _needs_torchvision
        setattr(parts["torchvision"], "ops", ops)  # noqa: B010  (a plain assignment is an error for mypy)
        sys.modules.update(parts)
    try:
        return import_module("onnx2torch.node_converters.registry")
    finally:
        for name in parts:
            del sys.modules[name]


def _needs_torchvision(*args: Any, **kwargs: Any) -> Any:
    raise ImportError(f"NonMaxSuppression and RoiAlign of onnx2torch need the torchvision of torch {torch.__version__}")


def _converter(op: str, version: int, own: Callable[[Any, Any], Any] | None) -> Callable[[Any, Any], Any]:
    """`own` is that of onnx2torch, for what these operators do not do."""
    from onnx2torch.utils.common import OnnxMapping, OperationConverterResult, get_const_value

    operator = _operator(op, version)
    function = operator.on_tensors
    assert function is not None
    names = parameters_of(function)

    def convert(node: Any, graph: Any) -> Any:
        what = f"register_onnx2torch: node {shown(node.unique_name)}"
        check_node(what, node.proto, version)
        _check_outputs(what, node, graph)
        arguments = in_todays_form(op, attributes_of(node.proto), version, len(node.output_values))
        computes = beyond_moving(op, arguments) or _beyond_whole_numbers(op, arguments, node, graph)
        # onnx2torch's own Resize to the nearest element ignores by which rule that is.
        if own and computes and not (op == "Resize" and arguments.get("mode", "nearest") == "nearest"):
            return own(node, graph)
        if computes:
            raise NotImplementedError(f"{what} must {computes}")
        if op == "Cast":
            arguments["to"] = dtype_of(what, arguments["to"])
        elif op == "ConstantOfShape":
            arguments["value"] = tensor_of(arguments["value"], None) if "value" in arguments else zero()
        inputs, values = [], []
        for k, value in enumerate(node.input_values):
            if not value:
                continue
            if names is not None and names[k] in operator.numbers:
                try:
                    constant = get_const_value(value, graph)
                    arguments[names[k]] = constant_numbers(f"{what}: {names[k]}", constant)
                    if names[k] == "start":
                        arguments["like"] = constant
                    continue
                except KeyError:  # known only when the model runs
                    pass
            inputs.append(names[k] if names is not None else "")
            values.append(value)
        module = DataMovement(function, inputs if names is not None else None, arguments)
        return OperationConverterResult(module, OnnxMapping(tuple(values), node.output_values))

    return convert


def _check_outputs(what: str, node: Any, graph: Any) -> None:
    """onnx2torch returns all outputs of a node in their order, whichever of them the graph returns."""
    outputs, returned = node.output_values, graph.output_values
    places = [k for k, name in enumerate(returned) if name in outputs]
    if len(outputs) > 1 and places and returned[places[0] : places[-1] + 1] != outputs:
        raise NotImplementedError(
            f"{what} must have none of the graph's outputs among its own, or all of them in their order, as onnx2torch "
            "returns them; put Identity nodes between"
        )


def _beyond_whole_numbers(op: str, arguments: Mapping[str, Any], node: Any, graph: Any) -> str | None:
    """What would have to hold of the types for an operator that computes with whole numbers, if it does not."""
    if op in OF_WHOLE_NUMBERS:
        for element_type in (_element_type(node.input_values[0], graph), arguments.get("to", TensorProto.INT64)):
            if (name := type_name(element_type)).removeprefix("U") not in ("INT8", "INT16", "INT32", "INT64"):
                return f"be {op} of whole numbers, got {name}"
    return None


def _element_type(name: str, graph: Any) -> int:
    if name in graph.initializers:
        return int(graph.initializers[name].proto.data_type)
    return int(graph.value_info[name].type.tensor_type.elem_type) if name in graph.value_info else TensorProto.UNDEFINED


def _operator(op: str, version: int) -> OnnxOperator:
    """Sizes are tensors in the modules of onnx2torch, and autocast leaves tensors of several dtypes there."""
    own: Mapping[str, Callable[..., Any]] = {
        "Concat": concat, "Scatter": scatter, "ScatterElements": scatter_elements, "ScatterND": scatter_nd,
        "Shape": shape, "Size": size,
    }  # fmt: skip
    return OnnxOperator(own[op]) if op in own else operator_of(op, version)


def shape(data: Tensor, *, start: int = 0, end: int | None = None) -> Tensor:
    return sizes.as_tensor(sizes.shape(data, start=start, end=end), data)


def size(data: Tensor) -> Tensor:
    return sizes.as_tensor(sizes.size(data), data)


def concat(*inputs: Tensor, axis: int) -> Tensor:
    return moving.concat(*_in_one_dtype(*inputs), axis=axis)


def scatter_elements(data: Tensor, indices: Tensor, updates: Tensor, **attributes: Any) -> Tensor:
    data, updates = _in_one_dtype(data, updates)
    return gather_scatter.scatter_elements(data, indices, updates, **attributes)


def scatter(data: Tensor, indices: Tensor, updates: Tensor, **attributes: Any) -> Tensor:
    return scatter_elements(data, indices, updates, **attributes, op="Scatter")


def scatter_nd(data: Tensor, indices: Tensor, updates: Tensor, **attributes: Any) -> Tensor:
    data, updates = _in_one_dtype(data, updates)
    return gather_scatter.scatter_nd(data, indices, updates, **attributes)


def _in_one_dtype(*tensors: Tensor) -> list[Tensor]:
    """In that which holds all of them, as torch.cat takes them, and torch.index_put under autocast."""
    dtype = reduce(torch.promote_types, (tensor.dtype for tensor in tensors))
    return [tensor.to(dtype) for tensor in tensors]
