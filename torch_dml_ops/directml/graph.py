"""Graphs of operators: described by their edges, as DirectML has them, and built by calls, as DirectMLX has them."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from torch import Tensor

from torch_dml_ops._sentences.arguments import integer
from torch_dml_ops._sentences.text import cut
from torch_dml_ops.directml._descriptors.base import OperatorDesc
from torch_dml_ops.directml._graphs.reinterpreted import Reinterpretation, same_elements
from torch_dml_ops.directml._graphs.wiring import (
    End,
    InputGraphEdgeDesc,
    IntermediateGraphEdgeDesc,
    OperatorGraphNodeDesc,
    OutputGraphEdgeDesc,
    Wiring,
    of_named,
)
from torch_dml_ops.directml._schema.arguments import instance, integers, list_of, listed
from torch_dml_ops.directml._schema.in_sentences import as_json, counted
from torch_dml_ops.directml.enums import WITH_DTYPE, FeatureLevel, TensorDataType
from torch_dml_ops.directml.errors import DescriptorError, Violation
from torch_dml_ops.directml.operator import Expected, Inputs, Operator
from torch_dml_ops.directml.support import check_level
from torch_dml_ops.directml.tensor_desc import TensorDesc


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Expression:
    """A tensor of a graph that is being built: ``dml::Expression``. :meth:`Graph.input` and :meth:`Graph.add` make it.

    Attributes:
        graph: whose tensor it is.
        node_index: the node that it is an output of, None for an input of the graph.
        index: which output of the node, or which input of the graph.
        output_desc: its description, for the descriptors of the operators that read it.

    Source: `DirectMLX.h <https://github.com/microsoft/DirectML/blob/master/Libraries/DirectMLX.h>`_.
    """

    graph: Graph
    node_index: int | None
    index: int
    output_desc: TensorDesc

    def __post_init__(self) -> None:
        instance(Graph, "Expression: graph", self.graph)
        tensors = len(self.graph._inputs)
        if self.node_index is not None:
            node = integer("Expression: node_index", self.node_index)
            object.__setattr__(self, "node_index", node)
            if not 0 <= node < len(self.graph._nodes):
                rule = f"must be that of one of {len(self.graph._nodes)} nodes"
                raise ValueError(f"Expression: node_index {rule}, got {as_json(node)}")
            tensors = self.graph._nodes[node].operator._output_count()
        index = integer("Expression: index", self.index)
        object.__setattr__(self, "index", index)
        if not 0 <= index < tensors:
            raise ValueError(f"Expression: index must be that of one of {tensors} tensors, got {as_json(index)}")
        instance(TensorDesc, "Expression: output_desc", self.output_desc)

    def __repr__(self) -> str:
        owner = "input" if self.node_index is None else f"node {self.node_index}, output"
        return f"<Expression of {owner} {self.index}: {self.output_desc}>"

    def reinterpret(
        self,
        *,
        data_type: TensorDataType | None = None,
        sizes: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
    ) -> Expression:
        """The same memory, described in another way: ``dml::Reinterpret``. Nothing is copied.

        Args:
            data_type: by default the same.
            sizes: by default the same.
            strides: by default packed where there are new sizes, else the same.

        Returns:
            An expression whose description has the ``total_tensor_size_in_bytes`` of this one, as both ends of an edge
            must have. Bytes between and after the elements that an operator wrote are 0.

        Raises:
            TypeError: an argument of another type.

        >>> from torch_dml_ops.directml import *
        >>> x = Graph().input(TensorDesc(TensorDataType.FLOAT32, [2, 3]))
        >>> x.reinterpret(sizes=[3, 2], strides=[1, 3]).output_desc  # transposed
        TensorDesc(FLOAT32, [3, 2], strides=[1, 3])
        """
        desc = self.output_desc
        if data_type is not None:
            instance(TensorDataType, "Expression.reinterpret: data_type", data_type)
            alignment = desc.guaranteed_base_offset_alignment
            kept = alignment if 8 * alignment >= data_type.size_in_bits else 0  # which guarantees nothing
            desc = replace(desc, data_type=data_type, guaranteed_base_offset_alignment=kept)
        if sizes is not None:
            sizes = integers("Expression.reinterpret: sizes", sizes)
            desc = replace(desc, sizes=sizes, strides=None, dimension_count=len(sizes))
        if strides is not None:
            desc = replace(desc, strides=integers("Expression.reinterpret: strides", strides))
        return replace(self, output_desc=desc)


class Graph:
    """Operators and the edges between them: ``DML_GRAPH_DESC``, built as with ``dml::Graph``.

    :meth:`input`, :meth:`add` and :meth:`output` build a graph call by call; :meth:`from_desc` takes one that is
    described by its edges. :meth:`compile` makes a function of it. Two graphs are equal if they have the same
    inputs, nodes and edges.

    An edge passes memory on. Its two ends may have different data types, sizes and strides, and then the memory is
    reinterpreted; only their ``total_tensor_size_in_bytes`` must be the same. That is how DirectML's graphs transpose
    and broadcast.

    Source: `DML_GRAPH_DESC
    <https://learn.microsoft.com/en-us/windows/win32/api/directml/ns-directml-dml_graph_desc>`_ and `DirectMLX.h
    <https://github.com/microsoft/DirectML/blob/master/Libraries/DirectMLX.h>`_.

    >>> import torch
    >>> from torch_dml_ops.directml import *
    >>> graph = Graph()
    >>> x = graph.input(TensorDesc(TensorDataType.INT64, [6]))
    >>> sizes = SplitOperatorDesc.infer_output(x.output_desc, axis=0, output_axis_sizes=[2, 4])
    >>> a, b = graph.add(SplitOperatorDesc(input_tensor=x.output_desc, output_tensors=sizes, axis=0), x)
    >>> pieces = [b.output_desc, a.output_desc]
    >>> whole = JoinOperatorDesc.infer_output(pieces, axis=0)
    >>> graph.output(graph.add(JoinOperatorDesc(input_tensors=pieces, output_tensor=whole, axis=0), b, a))
    >>> run = graph.compile()
    >>> run(torch.arange(6))
    [tensor([2, 3, 4, 5, 0, 1])]
    """

    def __init__(self) -> None:
        self._inputs: list[TensorDesc] = []
        self._nodes: list[OperatorGraphNodeDesc] = []
        self._input_edges: list[InputGraphEdgeDesc] = []
        self._intermediate_edges: list[IntermediateGraphEdgeDesc] = []
        self._output_edges: list[OutputGraphEdgeDesc] = []

    @classmethod
    def from_desc(
        cls,
        *,
        inputs: Sequence[TensorDesc],
        nodes: Sequence[OperatorDesc | OperatorGraphNodeDesc],
        input_edges: Sequence[InputGraphEdgeDesc],
        intermediate_edges: Sequence[IntermediateGraphEdgeDesc] = (),
        output_edges: Sequence[OutputGraphEdgeDesc],
    ) -> Graph:
        """The graph of these edges. Nothing but types is checked; :meth:`validate` checks the rules.

        Args:
            inputs: the descriptions of the graph's inputs, of which DirectML only has the number, ``InputCount``.
            nodes: in any order; a descriptor of an operator stands for a node without a name.
            input_edges: from inputs of the graph to inputs of nodes.
            intermediate_edges: from outputs of nodes to inputs of nodes.
            output_edges: from outputs of nodes to outputs of the graph, of which there are as many.

        Raises:
            TypeError: an argument of another type.

        >>> import torch
        >>> from torch_dml_ops.directml import *
        >>> x, y = TensorDesc(TensorDataType.INT64, [2, 3], strides=[1, 2]), TensorDesc(TensorDataType.INT64, [2, 3])
        >>> transposed = Graph.from_desc(
        ...     inputs=[TensorDesc(TensorDataType.INT64, [3, 2])],
        ...     nodes=[ElementWiseIdentityOperatorDesc(input_tensor=x, output_tensor=y)],
        ...     input_edges=[InputGraphEdgeDesc(graph_input_index=0, to_node_index=0, to_node_input_index=0)],
        ...     output_edges=[OutputGraphEdgeDesc(from_node_index=0, from_node_output_index=0, graph_output_index=0)],
        ... )
        >>> transposed.compile()(torch.arange(6).reshape(3, 2))
        [tensor([[0, 2, 4],
                [1, 3, 5]])]
        """
        graph, given = cls(), listed("Graph.from_desc: nodes", nodes, "OperatorDesc or OperatorGraphNodeDesc")
        graph._inputs += list_of(TensorDesc, "Graph.from_desc: inputs", inputs)
        for k, node in enumerate(given):
            instance((OperatorDesc, OperatorGraphNodeDesc), f"Graph.from_desc: nodes[{k}]", node, "an OperatorDesc")
            graph._nodes.append(OperatorGraphNodeDesc(operator=node) if isinstance(node, OperatorDesc) else node)
        graph._input_edges += list_of(InputGraphEdgeDesc, "Graph.from_desc: input_edges", input_edges)
        graph._intermediate_edges += list_of(
            IntermediateGraphEdgeDesc, "Graph.from_desc: intermediate_edges", intermediate_edges
        )
        graph._output_edges += list_of(OutputGraphEdgeDesc, "Graph.from_desc: output_edges", output_edges)
        return graph

    @property
    def inputs(self) -> tuple[TensorDesc, ...]:
        """What the graph's inputs are."""
        return tuple(self._inputs)

    @property
    def nodes(self) -> tuple[OperatorGraphNodeDesc, ...]:
        """The operators."""
        return tuple(self._nodes)

    @property
    def input_edges(self) -> tuple[InputGraphEdgeDesc, ...]:
        """From inputs of the graph to inputs of nodes."""
        return tuple(self._input_edges)

    @property
    def intermediate_edges(self) -> tuple[IntermediateGraphEdgeDesc, ...]:
        """From outputs of nodes to inputs of nodes."""
        return tuple(self._intermediate_edges)

    @property
    def output_edges(self) -> tuple[OutputGraphEdgeDesc, ...]:
        """From outputs of nodes to outputs of the graph."""
        return tuple(self._output_edges)

    def __repr__(self) -> str:
        counts = f"{len(self._inputs)} inputs, {len(self._nodes)} nodes, {len(self._output_edges)} outputs"
        return f"<Graph of {counts}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Graph) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]  # it can change

    # Building.

    def input(self, desc: TensorDesc) -> Expression:
        """Adds an input, behind those that there are: ``dml::InputTensor``.

        Raises:
            TypeError: something that is no ``TensorDesc``.
        """
        self._inputs.append(instance(TensorDesc, "Graph.input: desc", desc))
        return Expression(graph=self, node_index=None, index=len(self._inputs) - 1, output_desc=desc)

    def add(self, operator: OperatorDesc, *inputs: Expression, name: str | None = None) -> Any:
        """Adds an operator that reads these expressions.

        Args:
            operator: a descriptor, whose input tensors are described as the expressions are.
            inputs: in the order of the descriptor's fields; JOIN takes its tensors one by one.
            name: for the sentences about the node.

        Returns:
            The operator's output as an expression; for SPLIT a list of them.

        Raises:
            DescriptorError: inputs that are described otherwise than by the operator; :meth:`Expression.reinterpret`
                describes them anew.
            ValueError: more or fewer inputs than the operator has; expressions of another graph.
            TypeError: an argument of another type.
        """
        instance(OperatorDesc, "Graph.add: operator", operator, "a descriptor of an operator")
        instance((str, type(None)), "Graph.add: name", name, "a string or None")
        self._check_own("Graph.add: inputs", inputs)
        places = operator.inputs()
        if len(inputs) != len(places):
            rule = f"there must be {counted(len(places), 'input')} for {operator.operator_type}"
            raise ValueError(f"Graph.add: {rule}, got {len(inputs)}")
        violations = [
            Violation(path, f"must be described as inputs[{k}] is, {_short(x.output_desc)}", _short(desc))
            for k, ((path, desc), x) in enumerate(zip(places, inputs, strict=True))
            if not same_elements(desc, x.output_desc)
        ]
        if violations:
            raise DescriptorError(operator.operator_type, violations)
        node = len(self._nodes)
        self._nodes.append(OperatorGraphNodeDesc(operator=operator, name=name))
        for k, x in enumerate(inputs):
            if x.node_index is None:
                self._input_edges.append(
                    InputGraphEdgeDesc(graph_input_index=x.index, to_node_index=node, to_node_input_index=k)
                )
            else:
                self._intermediate_edges.append(
                    IntermediateGraphEdgeDesc(
                        from_node_index=x.node_index,
                        from_node_output_index=x.index,
                        to_node_index=node,
                        to_node_input_index=k,
                    )
                )
        outputs = [
            Expression(graph=self, node_index=node, index=k, output_desc=desc)
            for k, (_, desc) in enumerate(operator.outputs())
        ]
        return outputs if operator._are_list(operator.output_fields) else outputs[0]

    def output(self, *outputs: Expression) -> None:
        """Makes expressions outputs of the graph, behind those that there are.

        Raises:
            ValueError: an input of the graph, which DirectML wants to be copied first; an expression that is
                reinterpreted, which an output cannot be; one of another graph.
            TypeError: something that is no expression.
        """
        self._check_own("Graph.output: outputs", outputs)
        for k, x in enumerate(outputs):
            way_out = "ElementWiseIdentityOperatorDesc makes a copy"
            if x.node_index is None:
                raise ValueError(f"Graph.output: outputs[{k}] must be an output of a node, got an input; {way_out}")
            made = self._nodes[x.node_index].operator.outputs()[x.index][1]
            if not same_elements(x.output_desc, made):
                rule = f"must be described as by its operator, {_short(made)}"
                raise ValueError(f"Graph.output: outputs[{k}] {rule}, got {_short(x.output_desc)}; {way_out}")
        for x in outputs:
            from_node: dict[str, Any] = {"from_node_index": x.node_index, "from_node_output_index": x.index}
            self._output_edges.append(OutputGraphEdgeDesc(**from_node, graph_output_index=len(self._output_edges)))

    def _check_own(self, label: str, expressions: Sequence[Expression]) -> None:
        for k, x in enumerate(expressions):
            instance(Expression, f"{label}[{k}]", x, "an expression of the graph")
            if x.graph is not self:
                raise ValueError(f"{label}[{k}] must be an expression of this graph, got one of another")

    # The rules.

    def validate(self, feature_level: FeatureLevel = FeatureLevel.NEWEST) -> None:
        """Checks the graph as a whole, its operators at a feature level.

        Raises:
            DescriptorError: with every rule that is broken, a sentence each: those of the operators and tensors;
                indices out of range; inputs and outputs of nodes that no edge connects; edges that lead to where
                another one does; edges whose ends differ in ``total_tensor_size_in_bytes``; cycles.

        >>> from torch_dml_ops.directml import *
        >>> x = TensorDesc(TensorDataType.INT8, [4])
        >>> copy = ElementWiseIdentityOperatorDesc(input_tensor=x, output_tensor=x)
        >>> edge = OutputGraphEdgeDesc(from_node_index=0, from_node_output_index=1, graph_output_index=0)
        >>> Graph.from_desc(inputs=[x], nodes=[copy], input_edges=[], output_edges=[edge]).validate()
        Traceback (most recent call last):
            ...
        torch_dml_ops.directml.errors.DescriptorError: Graph at feature level 6_4 breaks 3 rules:
          output_edges[0].from_node_output_index must be 0, the index of an output of nodes[0], got 1
          nodes[0].input_tensor must be connected to an input of the graph or an output of a node, got no edge
          nodes[0].output_tensor must be connected to an input of a node or an output of the graph, got no edge
        """
        check_level(feature_level)
        violations = [*self._part_violations(feature_level), *self._wiring().violations]
        if violations:
            raise DescriptorError(f"Graph at feature level {feature_level}", violations)

    def _wiring(self) -> Wiring:
        return Wiring(self._inputs, self._nodes, self._input_edges, self._intermediate_edges, self._output_edges)

    def _part_violations(self, level: FeatureLevel) -> Iterator[Violation]:
        for k, desc in enumerate(self._inputs):
            yield from desc.violations(("inputs", k))
            if desc.data_type not in (*WITH_DTYPE, TensorDataType.UNKNOWN):  # which is never right
                rule = f"must be one that torch has ({', '.join(t.name for t in WITH_DTYPE)})"
                yield Violation(("inputs", k, "data_type"), rule, desc.data_type)
        for name, parts, what in (("nodes", self._nodes, "operator"), ("output_edges", self._output_edges, "edge")):
            if not parts:
                yield Violation((name,), f"must have at least 1 {what}", "none")
        for k, node in enumerate(self._nodes):
            try:
                node.operator.validate(level)
            except DescriptorError as error:
                for found in error.violations:
                    yield of_named(replace(found, path=("nodes", k, *found.path)), node.name)

    def compile(self, feature_level: FeatureLevel = FeatureLevel.NEWEST) -> CompiledGraph:
        """Makes a function of the graph as it is now.

        Raises:
            DescriptorError: a graph that :meth:`validate` refuses.
        """
        return CompiledGraph(self, feature_level)


def _short(desc: TensorDesc) -> str:
    return cut(repr(desc), 120)


# Running.


class _Step(NamedTuple):
    """A node in the order of running. Tensors have numbers: the graph's inputs, then the outputs of the nodes."""

    operator: Operator
    inputs: tuple[tuple[int, Reinterpretation | None], ...]
    outputs: slice
    released: tuple[int, ...]  # that no later step reads


class _Output(NamedTuple):
    number: int
    expected: Expected
    again: bool  # whether an output before has the same tensor


class CompiledGraph:
    """A graph as a function of tensors, as :meth:`Graph.compile` makes it.

    It is differentiable, and ``torch.compile(fullgraph=True)`` takes it. No derivative passes an edge whose ends differ
    in their data type.

    Args:
        graph: later changes to it have no effect.
        feature_level: the level that the operators are to be valid at, by default the newest.

    Attributes:
        inputs: the descriptions of the inputs, also of those that :meth:`initialize` takes.
        outputs: the descriptions of the outputs.

    Raises:
        DescriptorError: a graph that breaks rules, with all of them.

    Source: `IDMLDevice1::CompileGraph
    <https://learn.microsoft.com/en-us/windows/win32/api/directml/nf-directml-idmldevice1-compilegraph>`_.
    """

    inputs: tuple[TensorDesc, ...]
    outputs: tuple[TensorDesc, ...]

    def __init__(self, graph: Graph, feature_level: FeatureLevel = FeatureLevel.NEWEST) -> None:
        instance(Graph, "CompiledGraph: graph", graph, "a Graph")
        graph.validate(feature_level)
        wiring, nodes = graph._wiring(), graph.nodes
        ends = [End(None, k) for k in range(len(graph.inputs))]
        ends += [End(node, k) for node, desc in enumerate(nodes) for k in range(len(desc.operator.outputs()))]
        numbers = {end: number for number, end in enumerate(ends)}
        self._count = len(ends)
        self.inputs = graph.inputs
        self._inputs = Inputs.of((("inputs", k), desc) for k, desc in enumerate(self.inputs))
        leading_out = [wiring.edges[End(None, k)] for k in range(len(graph.output_edges))]
        self.outputs = tuple(wiring.source_desc(edge) for edge in leading_out)
        self._outputs: list[_Output] = []
        kept: set[int] = set()
        for k, edge in enumerate(leading_out):
            number = numbers[edge.source]
            self._outputs.append(_Output(number, Expected.of(("outputs", k), self.outputs[k]), number in kept))
            kept.add(number)
        self._steps: list[_Step] = []
        for node in reversed(wiring.order):  # from the end, so that the first step that reads a tensor is its last
            operator = nodes[node].operator
            inputs = []
            for k, (_, target) in enumerate(operator.inputs()):
                edge = wiring.edges[End(node, k)]
                source = wiring.source_desc(edge)
                view = None if same_elements(source, target) else Reinterpretation(source, target)
                inputs.append((numbers[edge.source], view))
            released = {number for number, _ in inputs} - kept
            kept |= released
            first = numbers[End(node, 0)]
            outputs = slice(first, first + len(operator.outputs()))
            self._steps.append(_Step(Operator(operator, feature_level), tuple(inputs), outputs, tuple(released)))
        self._steps.reverse()

    def __repr__(self) -> str:
        return f"<CompiledGraph of {len(self.inputs)} inputs, {len(self._steps)} nodes, {len(self.outputs)} outputs>"

    def initialize(self, *owned: Tensor) -> CompiledGraph:
        """The graph with its inputs of flag ``OWNED_BY_DML`` bound: DirectML's initialization.

        They are read now and copied, so that later changes to them have no effect, and no gradient reaches
        them; calls of the result take the other inputs only. This graph stays as it is.

        Args:
            owned: a tensor for each of these inputs, in their order, of the described dtype and sizes.

        Raises:
            ValueError: tensors other than described, or more or fewer.
            TypeError: something that is no tensor.

        Source: `IDMLDevice::CreateOperatorInitializer
        <https://learn.microsoft.com/en-us/windows/win32/api/directml/nf-directml-idmldevice-createoperatorinitializer>`_.

        >>> import torch
        >>> from torch_dml_ops.directml import *
        >>> graph = Graph()
        >>> a = graph.input(TensorDesc(TensorDataType.INT64, [2], flags=TensorFlags.OWNED_BY_DML))
        >>> b = graph.input(TensorDesc(TensorDataType.INT64, [3]))
        >>> pieces = [a.output_desc, b.output_desc]
        >>> whole = JoinOperatorDesc.infer_output(pieces, axis=0)
        >>> graph.output(graph.add(JoinOperatorDesc(input_tensors=pieces, output_tensor=whole, axis=0), a, b))
        >>> run = graph.compile().initialize(torch.tensor([8, 9]))
        >>> run(torch.arange(3))
        [tensor([8, 9, 0, 1, 2])]
        """
        expected = [entry for entry in self._inputs.expected if entry.owned]
        if len(owned) != len(expected):
            rule = f"there must be {counted(len(expected), 'tensor')}, one for each input that is OWNED_BY_DML"
            raise ValueError(f"CompiledGraph.initialize: {rule}, got {len(owned)}")
        for entry, tensor in zip(expected, owned, strict=True):
            entry.check("CompiledGraph.initialize", tensor)
        tensors = iter(owned)
        result = copy.copy(self)
        result._inputs = self._inputs.bind(next(tensors) if entry.owned else None for entry in self._inputs.expected)
        return result

    def __call__(self, *inputs: Tensor) -> list[Tensor]:
        """Runs the operators.

        Args:
            inputs: tensors of the dtypes and sizes of the graph's inputs but those of :meth:`initialize`, of any
                strides.

        Returns:
            New tensors, one for each output of the graph, with the strides that the operator's descriptor gives it.

        Raises:
            ValueError: tensors other than described, or more or fewer; inputs that are ``OWNED_BY_DML`` and not
                initialized.
            TypeError: something that is no tensor.
            RuntimeError: tensors that do not fit into memory.
        """
        tensors: list[Any] = [*self._inputs.of_call("CompiledGraph", inputs)]
        self._inputs.check("CompiledGraph", tensors)
        tensors += [None] * (self._count - len(tensors))
        for step in self._steps:
            read = [tensors[n] if view is None else view(tensors[n]) for n, view in step.inputs]
            results = step.operator._run(read, None)
            tensors[step.outputs] = results if step.operator.gives_list else [results]
            for n in step.released:
                tensors[n] = None
        return [
            expected.lay_out("CompiledGraph", tensors[n].clone()) if again else tensors[n]
            for n, expected, again in self._outputs
        ]
