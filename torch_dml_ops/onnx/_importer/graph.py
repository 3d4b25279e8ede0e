"""ONNX graphs that only move data, as PyTorch modules."""

from __future__ import annotations

import keyword
import os
import re
import traceback
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from operator import getitem
from pathlib import Path
from typing import Any

import onnx
import torch
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto
from onnx.helper import make_node, make_sequence_type_proto, make_tensor_type_proto
from torch import Tensor, fx, nn
from torch.compiler import is_dynamo_compiling

from torch_dml_ops._sentences.arguments import require_tensor
from torch_dml_ops._sentences.text import shown, text
from torch_dml_ops.onnx._importer import arithmetic, files, sequences, sizes
from torch_dml_ops.onnx._importer.files import ONNX_DOMAINS, dtype_of, line_of, read_model, tensor_of, type_name, zero
from torch_dml_ops.onnx._importer.inputs import constant_numbers
from torch_dml_ops.onnx._importer.operators import (
    BY_THE_GRAPH,
    COMPUTING,
    COPYING,
    OF_NUMBERS,
    OF_SEVERAL,
    OF_WHOLE_NUMBERS,
    OPERATORS,
    OnnxOperator,
    attributes_of,
    beyond_moving,
    check_node,
    in_todays_form,
    kinds_of_inputs,
    operator_of,
    parameters_of,
)
from torch_dml_ops.onnx._importer.values import MOST_NUMBERS, Constant, SizesNode, TensorSequence, Typed, Value


def from_onnx(model: str | os.PathLike[str] | ModelProto) -> nn.Module:
    """Imports an ONNX model that only moves data, as a module that has gradients, compiles, and runs on any device.

    The operators are Slice, Split, Concat and ReverseSequence, in the form of every opset, and what goes with them:
    Identity, Transpose, Reshape, Flatten, Squeeze, Unsqueeze, Expand, Tile, Pad, CenterCropPad, DepthToSpace,
    SpaceToDepth, Gather, GatherElements, GatherND, Scatter, ScatterElements and ScatterND without a reduction,
    Compress, Trilu, Where, Constant and ConstantOfShape; Upsample and Resize to the nearest element; Shape, Size, Add,
    Sub, Mul, Div, Mod, Neg, Abs, Min, Max, ReduceProd, Equal, Less, LessOrEqual, Greater, GreaterOrEqual, And, Or and
    Not that compute sizes; Add, Cast, CastLike, Clip, Less, Mul and Sub of sequence lengths and indices, and Range, all
    of whole numbers; and all operators on sequences of tensors. The model's own functions are followed, a SequenceMap
    where the model tells how many tensors there are, and of an If the branch that a constant chooses, or the rank of an
    input.

    Args:
        model: the path of a file, or an :class:`onnx.ModelProto`. Data that a file keeps in other files is read
            only from its own folder.

    Returns:
        A :class:`torch.fx.GraphModule`. It takes the inputs of the graph as tensors in their order, and returns its
        output or, if there are several, a tuple of them; a sequence is a list of tensors. Initializers of
        floating-point or complex numbers are its parameters, but for single numbers (0-d), which exporters write for
        what is filled in; these, other initializers, and constants are buffers; they are no inputs, also where the
        graph lists them among its inputs, as their defaults. Numbers that are inputs of the graph, such as the starts
        of a Slice, are read when it runs: on a GPU that waits for them, and :func:`torch.compile` breaks the graph
        there.

    Raises:
        NotImplementedError: a node that does something else, the first of the graph; an element type that torch lacks.
        ValueError: a file that is not a valid model, data outside of the file's folder, local functions that would be
            more than 100 000 nodes.
        TypeError: a ``model`` that is neither a path nor a model.
        OSError: a file that cannot be read.

    Slice, Split, Concat and ReverseSequence copy; the others may return a view of an input, as in torch. Sources: the
    `operators <https://onnx.ai/onnx/operators/>`_ of ONNX.

    >>> import onnx.parser, torch, torch_dml_ops.onnx
    >>> model = onnx.parser.parse_model('''
    ... <ir_version: 8, opset_import: ["": 18]>
    ... every_other (int64[n] x) => (int64[m] y) {
    ...     start = Constant <value_ints = [-1]> ()
    ...     end = Constant <value_ints = [-100]> ()
    ...     axis = Constant <value_ints = [0]> ()
    ...     step = Constant <value_ints = [-2]> ()
    ...     y = Slice(x, start, end, axis, step)
    ... }''')
    >>> module = torch_dml_ops.onnx.from_onnx(model)
    >>> module(torch.arange(6))
    tensor([5, 3, 1])
    """
    read, folder = read_model(model)
    return _Importer(read, folder).module()


def _require_tensors(names: Sequence[str], module: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """A graph's inputs, which are not NumPy arrays, as in ONNX Runtime."""
    for name, value in (*zip(names, args, strict=False), *kwargs.items()):
        require_tensor(f"OnnxGraph: {name}", value)


class OnnxGraph(fx.GraphModule):
    """What :func:`from_onnx` gives. It checks its inputs by a hook, which torch.fx would neither copy nor pickle."""

    def __init__(self, root: nn.Module, graph: fx.Graph) -> None:
        super().__init__(root, graph, class_name="OnnxGraph")
        self._check_inputs()

    def _check_inputs(self) -> None:
        names = [node.name for node in self.graph.nodes if node.op == "placeholder"]
        self.register_forward_pre_hook(partial(_require_tensors, names), with_kwargs=True)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if is_dynamo_compiling():  # which knows no notes
            return super().__call__(*args, **kwargs)
        try:
            return super().__call__(*args, **kwargs)
        except Exception as error:
            if hasattr(error, "add_note"):  # from Python 3.11 on
                self._add_node_to(error)
            raise

    def _add_node_to(self, error: Any) -> None:
        """Notes the node of the graph at which it was raised, if it was at one."""
        for frame, line in traceback.walk_tb(error.__traceback__):
            if frame.f_code.co_name == "forward" and frame.f_locals.get("self") is self:
                name = self.code.splitlines()[line - 1].partition(" = ")[0].strip()
                for node in self.graph.nodes:
                    if node.name == name:
                        error.add_note(f"OnnxGraph: at {node.format_node()}")

    def __deepcopy__(self, memo: dict[int, Any]) -> OnnxGraph:
        copied: Any = super().__deepcopy__(memo)
        type(copied).__name__ = type(self).__name__
        copied._check_inputs()
        return copied  # type: ignore[no-any-return]

    def __reduce__(self) -> Any:
        return _restored, super().__reduce__()


def _restored(restore: Callable[..., fx.GraphModule], given: Sequence[Any]) -> OnnxGraph:
    module = restore(*given)
    return OnnxGraph(module, module.graph)


_EMPTY = OnnxGraph(nn.Module(), fx.Graph())  # has the attributes that no constant may replace


class _Tracer(fx.Tracer):
    """What records the graph again where it is restored from a pickle: the buffers too, and what is made of them."""

    proxy_buffer_attributes = True


class _Importer:
    """Goes through a graph once and writes down what is to be called."""

    def __init__(self, model: ModelProto, folder: Path | None) -> None:
        self._model, self._folder = model, folder
        self._opset = max(opset.version for opset in model.opset_import if opset.domain in ONNX_DOMAINS)
        self._graph = fx.Graph(tracer_cls=_Tracer)
        self._root = nn.Module()
        self._values = ChainMap[str, Value]()
        self._types = ChainMap[str, TypeProto]()  # of the values for which they can be told
        self._registered: dict[Constant, fx.Node] = {}
        self._numbers_of: dict[fx.Node, Tensor] = {}  # what some nodes make of constants
        self._constants: dict[int, tuple[TensorProto, Constant]] = {}  # by the address of what the model holds
        self._checked: dict[int, NodeProto] = {}  # by their addresses
        self._mapped = 0  # how many nodes the maps of sequences have given

    def module(self) -> nn.Module:
        self._add_initializers(self._model.graph)
        self._add_inputs(self._model.graph)
        self._add_nodes("graph", self._model.graph)
        results = [self._result(self._values[output.name]) for output in self._model.graph.output]
        self._graph.output(results[0] if len(results) == 1 else tuple(results))
        self._graph.eliminate_dead_code()
        return OnnxGraph(self._root, self._graph)

    def _add_initializers(self, graph: GraphProto) -> None:
        if graph.sparse_initializer:
            name = shown(graph.sparse_initializer[0].values.name)
            raise NotImplementedError(f"from_onnx: initializer {name} must be dense, got a sparse tensor")
        for initializer in graph.initializer:
            held = self._held(initializer.name, initializer, trainable=True)
            self._name(initializer.name, held, held.type)

    def _held(self, name: str, data: TensorProto, trainable: bool = False) -> Constant:
        """The same one each time, as in the body of a map."""
        if id(data) not in self._constants:
            self._constants[id(data)] = data, Constant(name, data, self._folder, trainable)
        return self._constants[id(data)][1]

    def _add_nodes(self, where: str, graph: GraphProto) -> None:
        for k, node in enumerate(graph.node):
            self._add_node(f"{where}.node[{k}]{f' ({shown(node.name)})' if node.name else ''}", node)
        for output in graph.output:
            if output.name not in self._values:
                raise ValueError(f"from_onnx: output {shown(output.name)} must be the output of a node, and is of none")
            self._check_type(f"output {shown(output.name)}", output)

    def _add_branch(self, label: str, node: NodeProto, attributes: Mapping[str, GraphProto]) -> None:
        """The nodes of a branch take the place of the node, if a constant chooses it."""
        condition = self._values[node.input[0]]
        if not isinstance(condition, Constant):
            raise self._not_data_movement(label, "If of a condition that depends on the inputs")
        if condition.dtype != torch.bool or condition.tensor.numel() != 1:
            raise ValueError(f"from_onnx: {label} must be an If of one truth value, got {shown(condition.tensor)}")
        name = "then_branch" if condition.tensor.item() else "else_branch"
        for output, made in zip(node.output, self._inner(label, node, name, attributes[name], ()), strict=True):
            self._name(output, *made)

    def _add_map(self, label: str, node: NodeProto, attributes: Mapping[str, GraphProto]) -> None:
        """The nodes of the body take the place of the node, for each of the tensors of a sequence."""
        body, given = attributes["body"], [self._typed(name) for name in node.input]
        lists: list[Any] = [value.tensors if isinstance(value, TensorSequence) else None for value, _ in given]
        if any(isinstance(tensors, fx.Node) for tensors in lists):
            raise self._not_data_movement(label, "SequenceMap of a sequence whose length depends on the inputs")
        if len(lengths := {len(tensors) for tensors in lists if tensors is not None}) > 1:
            raise ValueError(f"from_onnx: {label} must have sequences of one length, got {text(sorted(lengths))}")
        self._mapped += len(lists[0]) * max(len(body.node), 1)
        if self._mapped > files.MOST_NODES:
            raise ValueError(f"from_onnx: {label} must be a SequenceMap that gives at most {files.MOST_NODES} nodes")
        made = []
        for k in range(len(lists[0])):
            inputs = [typed if of is None else of[k] for typed, of in zip(given, lists, strict=True)]
            made.append(self._inner(label, node, "body", body, inputs))
        if any(isinstance(value, TensorSequence) for outputs in made for value, _ in outputs):
            raise ValueError(f"from_onnx: {label} must have a body that gives tensors, got one that gives a sequence")
        for j, output in enumerate(node.output):
            types = {0 if kind is None else _element_type(kind) for _, kind in (outputs[j] for outputs in made)}
            known = [make_sequence_type_proto(make_tensor_type_proto(kind, None)) for kind in types if kind]
            of = known[0] if len(types) == len(known) == 1 else None
            self._name(output, TensorSequence([outputs[j] for outputs in made]), of)

    def _inner(
        self, label: str, node: NodeProto, attribute: str, graph: GraphProto, inputs: Sequence[Typed]
    ) -> Sequence[Typed]:
        """What a graph that is an attribute of the node makes. Other such graphs may have the same names."""
        for what, has, given in ("inputs", graph.input, inputs), ("outputs", graph.output, node.output):
            if len(has) != len(given):
                count = f"{len(has)}, got {len(given)}"
                raise ValueError(f"from_onnx: {label} must have as many {what} as its {attribute}, {count}")
        names: set[str] = set()
        for what, values in ("inputs", graph.input), ("initializers", graph.initializer):
            for name in (value.name for value in values):
                if name in names or name in self._values:
                    again = f"names of their own, got {shown(name)} again"
                    raise ValueError(f"from_onnx: {label} must have {what} with {again}")
                names.add(name)
        with self._scope():
            for value, typed in zip(graph.input, inputs, strict=True):
                self._name(value.name, *typed)
                self._check_type(f"input {shown(value.name)} of {label}", value)
            self._add_initializers(graph)
            self._add_nodes(f"{label}.{attribute}", graph)
            return [self._typed(output.name) for output in graph.output]

    @contextmanager
    def _scope(self) -> Iterator[None]:
        """What gets a name in it has none afterwards."""
        self._values, self._types = self._values.new_child(), self._types.new_child()
        yield
        self._values, self._types = self._values.parents, self._types.parents

    def _typed(self, name: str) -> Typed:
        return self._values[name], self._types.get(name)

    def _name(self, name: str, value: Value, kind: TypeProto | None) -> None:
        if name:
            self._values[name] = value
        if name and kind is not None:
            self._types[name] = kind

    def _add_inputs(self, graph: GraphProto) -> None:
        names: set[str] = set()
        given: set[str] = set()
        for value in graph.input:
            what = f"input {shown(value.name)}"
            if value.name in given:
                raise ValueError(f"from_onnx: inputs must have names of their own, got {shown(value.name)} again")
            given.add(value.name)
            if not value.type.HasField("tensor_type"):
                kind = value.type.WhichOneof("value")
                raise NotImplementedError(f"from_onnx: {what} must be a tensor, got {kind or 'no type'}")
            if element_type := value.type.tensor_type.elem_type:
                dtype_of(what, element_type)
            self._check_type(what, value)
            if value.name not in self._values:  # an initializer is the default of an input of the same name
                if element_type:
                    self._types[value.name] = value.type
                name = _identifier(value.name)
                while name in names:
                    name += "_"
                names.add(name)
                self._values[value.name] = self._graph.create_node("placeholder", name, name=name)

    def _check_type(self, what: str, value: ValueInfoProto) -> None:
        is_sequence, kind = isinstance(self._values.get(value.name), TensorSequence), value.type.WhichOneof("value")
        if value.name in self._values and kind not in (None, "sequence_type" if is_sequence else "tensor_type"):
            got = "a sequence" if is_sequence else "a tensor"
            raise ValueError(f"from_onnx: {what} must be of the type that it is declared as, got {got}")
        given, declared = self._element_type(value.name), _element_type(value.type)
        if given and declared and given != declared:
            types = " and ".join(map(type_name, (declared, given)))
            raise ValueError(f"from_onnx: {what} must be of the type that it is declared as, got {types}")

    def _add_node(self, label: str, node: NodeProto) -> None:
        op = node.op_type
        attributes = attributes_of(node)
        if node.domain not in ONNX_DOMAINS:
            raise self._not_data_movement(label, f"{node.domain}.{op}")
        if op not in OPERATORS and op not in BY_THE_GRAPH:
            raise self._not_data_movement(label, op)
        self._check_node(label, node)
        if op == "Constant":
            ((kind, value),) = attributes.items()
            constant = self._constant(label, node.output[0], kind, value)
            self._name(node.output[0], constant, constant.type)
        elif op == "If":
            self._add_branch(label, node, attributes)
        elif op == "SequenceMap":
            self._add_map(label, node, attributes)
        elif op in ("SequenceConstruct", "SequenceEmpty"):
            self._values[node.output[0]] = TensorSequence([self._typed(name) for name in node.input])
        elif op in sequences.ON_ANYTHING:
            self._add_on_sequence(label, node)
        elif op == "ConcatFromSequence":
            self._add_concat(label, node, attributes)
        elif op == "SplitToSequence":
            self._values[node.output[0]] = self._split(label, node, attributes)
        elif op == "CastLike":
            if not (to := self._element_type(node.input[1])):
                raise self._not_data_movement(label, "CastLike of a type that the model does not tell")
            self._add_node(label, make_node("Cast", node.input[:1], node.output, to=to))
        elif isinstance(value := self._values[node.input[0]], TensorSequence):  # of an Identity
            self._values[node.output[0]] = value
        elif op in ("Shape", "Size"):
            value, function = self._values[node.input[0]], sizes.shape if op == "Shape" else sizes.size
            if op == "Size" and isinstance(value, SizesNode) and (length := self._inferred_length(node.input[0])):
                value = Constant("", torch.empty(length, device="meta"), None)
            if isinstance(value, Constant):
                numbers = torch.tensor(function(value.tensor, **attributes), dtype=torch.int64, device="cpu")
                self._values[node.output[0]] = Constant(node.output[0], numbers, None)
                return
            data = value.node if isinstance(value, SizesNode) else value
            call = self._call(function, (data,), attributes, node.output[0])
            is_length = op == "Shape" and not attributes and isinstance(value, SizesNode) and value.rank == 1
            self._values[node.output[0]] = SizesNode(call, 1 if op == "Shape" else 0, is_length=is_length)
        elif self._opset < (since := operator_of(op, self._opset).since):
            raise NotImplementedError(
                f"from_onnx: {label} must be {op} of opset {since} or later, got opset {self._opset}"
            )
        else:
            attributes = in_todays_form(op, attributes, self._opset, len(node.output))
            inputs = [self._values[name] if name else None for name in node.input]
            if not self._add_on_sizes(label, node, inputs, attributes):
                self._add_on_tensors(label, node, inputs, attributes)

    def _check_node(self, label: str, node: NodeProto) -> None:
        for name in node.input:
            if name and name not in self._values:
                raise ValueError(f"from_onnx: {label} must have inputs that are known before it, got {shown(name)}")
        for name in node.output:
            if name in self._values:
                raise ValueError(
                    f"from_onnx: {label} must have outputs with names of their own, got {shown(name)} again"
                )
        if len(named := [name for name in node.output if name]) > len(set(named)):
            again = next(name for name in named if named.count(name) > 1)
            raise ValueError(f"from_onnx: {label} must have outputs with names of their own, got {shown(again)} again")
        if id(node) not in self._checked:
            self._checked[id(node)] = node
            check_node(f"from_onnx: {label}", node, self._opset, self._model.ir_version)
        kinds = kinds_of_inputs(node.op_type, self._opset)
        for k, name in enumerate(node.input):
            is_sequence = name and isinstance(self._values[name], TensorSequence)
            if name and ("seq" if is_sequence else "tensor") not in kinds[min(k, len(kinds) - 1)]:
                needed, got = ("a tensor", "a sequence") if is_sequence else ("a sequence", "a tensor")
                raise ValueError(f"from_onnx: {label} must have {needed} as input {k}, got {got}, {shown(name)}")
        self._infer_types(label, node)

    def _infer_types(self, label: str, node: NodeProto) -> None:
        """ONNX's own rules on types, ranks and sizes, as far as these are known, and constants."""
        names = [name for name in node.input if name]
        is_constant = node.op_type == "Constant" and len(node.attribute) == 1
        if is_constant or node.op_type in ("If", "SequenceMap") or not all(name in self._types for name in names):
            return
        constants = {name: value for name in names if isinstance(value := self._values[name], Constant)}
        scaled = node.op_type in ("Resize", "Upsample")  # by numbers that are no whole ones
        try:
            outputs = onnx.shape_inference.infer_node_outputs(
                onnx.defs.get_schema(node.op_type, self._opset),
                node,
                {name: self._types[name] for name in names},
                {
                    name: constant.numbers
                    for name, constant in constants.items()
                    if constant.may_be_numbers or (scaled and name != node.input[0])
                },
                opset_imports=[onnx.helper.make_opsetid("", self._opset)],
                ir_version=self._model.ir_version,
            )
        except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError, ValueError) as error:
            line = re.sub(r"^\[\w+\] ", "", line_of(error))
            raise ValueError(f"from_onnx: {label} must be a valid {node.op_type}: {line}") from None
        self._types.update(outputs)

    def _element_type(self, name: str) -> int:
        """0 where it cannot be told."""
        return _element_type(self._types[name]) if name in self._types else 0

    def _inferred_rank(self, name: str) -> int | None:
        tensor = self._types[name].tensor_type if name in self._types else TypeProto.Tensor()
        return len(tensor.shape.dim) if tensor.HasField("shape") else None

    def _inferred_length(self, name: str) -> int | None:
        """Of a list of sizes: of those of a tensor whose rank the model declares, for example."""
        return self._types[name].tensor_type.shape.dim[0].dim_value if self._inferred_rank(name) == 1 else None

    def _not_data_movement(self, label: str, what: str) -> NotImplementedError:
        what = what if what.isprintable() else shown(what)
        return NotImplementedError(
            f"from_onnx: {label} must move data, got {what}; for whole models see register_onnx2torch"
        )

    def _constant(self, label: str, name: str, kind: str, value: Any) -> Constant:
        if kind == "value":
            return self._held(name, value)
        if kind in ("value_int", "value_ints"):
            return Constant(name, torch.tensor(value, dtype=torch.int64, device="cpu"), None)
        if kind in ("value_float", "value_floats"):
            return Constant(name, torch.tensor(value, dtype=torch.float32, device="cpu"), None)
        raise NotImplementedError(f"from_onnx: {label} must be a Constant of dense numbers, got {kind}")

    def _add_on_sizes(
        self, label: str, node: NodeProto, inputs: Sequence[Value | None], attributes: Mapping[str, Any]
    ) -> bool:
        """False where the operator has tensors to work on."""
        operator = OPERATORS[node.op_type]
        if operator.on_sizes is None:
            return False
        names = parameters_of(operator.on_sizes)
        data = []
        for k, value in enumerate(inputs):
            if value is None or (names and names[k] in operator.numbers):
                continue
            if not (isinstance(value, SizesNode) or (isinstance(value, Constant) and value.may_be_sizes)):
                return False
            data.append(value)
        args, kwargs = self._arguments(operator, names, inputs, _sizes)
        inferred = self._inferred_rank(node.output[0])
        kind = operator.rule(data, {**kwargs, **attributes}, inferred)
        if kind is None or inferred not in (kind.rank, None):
            return False
        if node.op_type == "Cast":
            attributes = {"to": kind.dtype}
        elif node.op_type == "ConstantOfShape":
            attributes = {"value": tensor_of(attributes["value"], self._folder).item()}
        results: list[Value]
        if all(value is None or isinstance(value, Constant) for value in inputs):
            try:
                made = operator.on_sizes(*args, **kwargs, **attributes)
                made = made if node.op_type == "Split" else [made]
                tensors = [sizes.as_tensor(numbers, dtype=kind.dtype) for numbers in made]
            except (ValueError, RuntimeError) as error:  # torch's, of a number that does not fit
                raise ValueError(f"from_onnx: {label} cannot be computed: {line_of(error)}") from None
            results = [Constant(*named, None) for named in zip(node.output, tensors, strict=True)]
        else:
            call = self._call(operator.on_sizes, args, {**kwargs, **attributes}, node.output[0])
            if kind.dtype == torch.int32 and node.op_type in COMPUTING:
                call = self._call(sizes.in_int32, (call, node.op_type), {}, "")
            several = range(len(node.output)) if node.op_type == "Split" else ()
            nodes = [self._call(getitem, (call, k), {}, node.output[k]) for k in several] or [call]
            results = [SizesNode(node, *kind) for node in nodes]
        self._values.update((name, result) for name, result in zip(node.output, results, strict=True) if name)
        return True

    def _add_on_tensors(
        self, label: str, node: NodeProto, inputs: Sequence[Value | None], attributes: dict[str, Any]
    ) -> None:
        op = node.op_type
        operator = operator_of(op, self._opset)
        if operator.on_tensors is None:
            raise self._not_data_movement(label, f"{op} of tensors that are no sizes")
        names = parameters_of(operator.on_tensors)
        args, kwargs = self._arguments(operator, names, inputs, self._tensor)
        self._check(label, node, {**kwargs, **attributes})
        if op == "Cast":
            attributes["to"] = dtype_of(label, attributes["to"])
        elif op == "ConstantOfShape":
            value = attributes.get("value", zero())
            attributes["value"] = self._tensor(Constant(f"{node.output[0]}_value", value, self._folder))
        elif op == "Range" and isinstance(inputs[0], Constant | SizesNode):
            attributes["like"] = self._tensor(inputs[0])
        call = self._call(operator.on_tensors, args, {**kwargs, **attributes}, op if op == "Split" else node.output[0])
        if op in OF_NUMBERS and all(self._known(value) is not None for value in inputs if value is not None):
            args, kwargs = self._arguments(operator, names, inputs, self._known)
            with suppress(Exception):  # what is wrong with its numbers, the node says when it runs
                result = operator.on_tensors(*args, **kwargs, **attributes)
                if result.numel() <= MOST_NUMBERS:
                    self._numbers_of[call] = result
        if op != "Split":
            self._values[node.output[0]] = call
            return
        for k, name in enumerate(node.output):
            if name:
                self._values[name] = self._call(getitem, (call, k), {}, name)

    def _add_on_sequence(self, label: str, node: NodeProto) -> None:
        """What the graph says is worked out now; all else when it runs, by the same function."""
        op, output = node.op_type, node.output[0]
        function = sequences.ON_ANYTHING[op]
        first, *others = zip(parameters_of(function) or (), filter(None, node.input), strict=False)
        sequence: Any = self._values[first[1]]
        numbers = {name: self._numbers(name, self._values[of]) for name, of in others if name == "position"}
        is_known = not any(isinstance(value, fx.Node) for value in (sequence.tensors, *numbers.values()))
        if is_known and op in ("SequenceErase", "SequenceInsert"):  # each of which makes another list
            is_known = len(sequence.tensors) <= MOST_NUMBERS
        if is_known:
            typed = {name: self._typed(of) for name, of in others if name == "tensor"}
            try:
                result = function(sequence.tensors, **typed, **numbers)
            except ValueError as error:
                raise ValueError(f"from_onnx: {label} cannot be computed: {error}") from None
        else:
            items = {name: self._tensor(self._values[of]) for name, of in others if name == "tensor"}
            result = self._call(function, (self._list(sequence),), {**items, **numbers}, output)
        if op == "SequenceAt":
            self._name(output, *(result if is_known else (result, None)))
        elif op == "SequenceLength":
            length = torch.tensor(result, device="cpu") if is_known else None
            self._values[output] = SizesNode(result, 0) if length is None else Constant(output, length, None)
        else:
            self._values[output] = TensorSequence(result)

    def _add_concat(self, label: str, node: NodeProto, attributes: dict[str, Any]) -> None:
        sequence: Any = self._values[node.input[0]]
        if not isinstance(sequence.tensors, fx.Node) and not sequence.tensors:
            raise ValueError(f"from_onnx: {label} must have at least one tensor in its sequence, got none")
        if isinstance(sequence.tensors, fx.Node) or attributes.get("new_axis"):
            call = self._call(sequences.concat_from_sequence, (self._list(sequence),), attributes, node.output[0])
            self._values[node.output[0]] = call
            return
        concat, inputs = make_node("Concat", [], node.output), [value for value, _ in sequence.tensors]
        attributes = {"axis": attributes["axis"]}
        if not self._add_on_sizes(label, concat, inputs, attributes):
            self._add_on_tensors(label, concat, inputs, attributes)

    def _split(self, label: str, node: NodeProto, attributes: dict[str, Any]) -> TensorSequence:
        given = self._values[node.input[1]] if len(node.input) == 2 and node.input[1] else None
        known = None if given is None else self._known(given)
        if self._opset >= 13 and known is not None and known.dim() == 1 and len(known):
            stem = node.output[0]
            while not self._values.keys().isdisjoint(names := [f"{stem}[{k}]" for k in range(len(known) + 1)]):
                stem += "'"
            attributes.pop("keepdims", None)  # which a split overrules
            with self._scope():
                split = Constant(names.pop(), known.long(), None)  # as Split takes no other whole numbers
                self._name(split.name, split, make_tensor_type_proto(TensorProto.INT64, [len(known)]))
                self._add_node(label, make_node("Split", [node.input[0], split.name], names, **attributes))
                return TensorSequence([self._typed(name) for name in names])
        if given is not None:
            attributes["split"] = self._numbers("split", given) if known is None or known.dim() else known.item()
        data = self._tensor(self._values[node.input[0]])
        return TensorSequence(self._call(sequences.split_to_sequence, (data,), attributes, node.output[0]))

    def _list(self, sequence: TensorSequence) -> fx.Node:
        """Of the tensors, when the model runs."""
        if isinstance(sequence.tensors, fx.Node):
            return sequence.tensors
        tensors = tuple(self._tensor(value) for value, _ in sequence.tensors)
        return self._call(sequences.sequence_construct, tensors, {}, "")

    def _check(self, label: str, node: NodeProto, arguments: Mapping[str, Any]) -> None:
        """What is data movement only with some arguments or element types."""
        if rule := beyond_moving(node.op_type, arguments):
            raise NotImplementedError(f"from_onnx: {label} must {rule}; for whole models see register_onnx2torch")
        if node.op_type in OF_WHOLE_NUMBERS:
            given, to = self._element_type(node.input[0]), arguments.get("to", 0)
            if not given or given == to:  # if it is not known now, the function says it when it runs
                return
            exact = to and arithmetic.is_exact(dtype_of(label, given), dtype_of(label, to))
            for kind in (given, 0 if exact else to):
                if kind and (dtype_of(label, kind).is_floating_point or dtype_of(label, kind) == torch.bool):
                    what = f"{node.op_type} of {type_name(given)}{f' to {type_name(to)}' if to else ''}"
                    raise self._not_data_movement(label, what)

    def _call(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], name: str) -> fx.Node:
        return self._graph.create_node("call_function", function, args, kwargs, _identifier(name) if name else None)

    def _arguments(
        self,
        operator: OnnxOperator,
        names: Sequence[str] | None,
        inputs: Sequence[Value | None],
        other: Callable[[Value], Any],
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What to call the operator's function with, leaving out what the node leaves out.

        The first input is given by its place, and the others by name where the function has names for them. Numbers and
        lists of them are prepared by `_numbers`, all else by `other`.
        """
        arguments = [
            (k, self._numbers(names[k], value) if names and names[k] in operator.numbers else other(value))
            for k, value in enumerate(inputs)
            if value is not None
        ]
        if names is None:
            return tuple(argument for _, argument in arguments), {}
        (_, first), *others = arguments
        return (first,), {names[k]: argument for k, argument in others}

    def _numbers(self, name: str, value: Value) -> Any:
        """An argument that is a number or a list of them: these themselves where they are known now."""
        tensor = value.tensor if isinstance(value, Constant) else self._known(value)
        if tensor is not None:
            try:
                return constant_numbers(name, tensor)
            except ValueError:  # which the function says in its own words
                return self._tensor(value)
        return value.node if isinstance(value, SizesNode) else value

    def _known(self, value: Value) -> Tensor | None:
        if isinstance(value, Constant):
            return value.tensor if value.may_be_numbers else None
        return self._numbers_of.get(value) if isinstance(value, fx.Node) else None

    def _tensor(self, value: Value) -> fx.Node:
        if isinstance(value, fx.Node):
            return value
        if isinstance(value, SizesNode):
            other: dict[str, Any] = {} if value.dtype == torch.int64 else {"dtype": value.dtype}
            return self._graph.call_function(sizes.as_tensor, (value.node, self._first_input()), other)
        assert isinstance(value, Constant)
        if value not in self._registered:
            self._registered[value] = self._graph.get_attr(self._register(value))
        return self._registered[value]

    def _result(self, value: Value) -> Any:
        """A copy of what may lie in a tensor that the module holds, which the caller would write to."""
        if isinstance(value, TensorSequence) and not isinstance(value.tensors, fx.Node):
            return [self._result(tensor) for tensor, _ in value.tensors]
        result: Any = value.tensors if isinstance(value, TensorSequence) else self._tensor(value)
        reached, seen = [result], set()
        while reached:
            data = reached.pop()
            if not isinstance(data, fx.Node) or data in seen:
                continue
            seen.add(data)
            if data.op == "get_attr":
                copy = sequences.copied if isinstance(value, TensorSequence) else torch.clone
                return self._graph.call_function(copy, (result,))
            if data.op == "call_function" and data.target not in COPYING:
                reached += data.all_input_nodes if data.target in OF_SEVERAL else data.args[:1]
        return result

    def _first_input(self) -> fx.Node | None:
        """On whose device tensors are."""
        return next(iter(self._graph.find_nodes(op="placeholder")), None)

    def _register(self, constant: Constant) -> str:
        name = _identifier(constant.name)
        while hasattr(self._root, name) or hasattr(_EMPTY, name):
            name += "_"
        if constant.is_parameter:
            self._root.register_parameter(name, nn.Parameter(constant.tensor))
        else:
            self._root.register_buffer(name, constant.tensor)
        return name


NAMES_IN_CODE = {"__debug__", "inf", "nan", "self", "torch"}  # that fx writes of a graph, or Python keeps to itself


def _identifier(name: str) -> str:
    name = re.sub(r"[^0-9A-Za-z_]", "_", name)
    if keyword.iskeyword(name) or name in NAMES_IN_CODE:
        return f"{name}_"
    return name if name[:1].isalpha() or name[:1] == "_" else f"_{name}"


def _element_type(kind: TypeProto) -> int:
    """Of a tensor, or of those in a sequence."""
    tensor = kind.sequence_type.elem_type if kind.HasField("sequence_type") else kind
    return tensor.tensor_type.elem_type


def _sizes(value: Value) -> Any:
    """As the functions on sizes take them."""
    if isinstance(value, Constant):
        return tuple(value.tensor.tolist()) if value.tensor.dim() else value.tensor.item()
    return value.node if isinstance(value, SizesNode) else value
