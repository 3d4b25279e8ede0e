"""The nodes of a graph, the edges that connect them, and the rules of that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from torch_dml_ops.directml._descriptors.base import OperatorDesc
from torch_dml_ops.directml._graphs.reinterpreted import can_be_laid_out, same_elements
from torch_dml_ops.directml._schema.in_sentences import JsonPath, as_json, dotted
from torch_dml_ops.directml._schema.structs import Struct
from torch_dml_ops.directml.enums import TensorFlags
from torch_dml_ops.directml.errors import Violation
from torch_dml_ops.directml.tensor_desc import TensorDesc


class End(NamedTuple):
    """Of an edge: an input or output of a node, or, where the node is None, of the graph."""

    node: int | None
    number: int


@dataclass(frozen=True, kw_only=True, repr=False)
class OperatorGraphNodeDesc(Struct):
    """An operator of a graph: ``DML_OPERATOR_GRAPH_NODE_DESC``.

    Attributes:
        operator: the operator's descriptor.
        name: for the sentences about it.

    Source: `DML_OPERATOR_GRAPH_NODE_DESC
    <https://learn.microsoft.com/en-us/windows/win32/api/directml/ns-directml-dml_operator_graph_node_desc>`_.
    """

    operator: OperatorDesc
    name: str | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class InputGraphEdgeDesc(Struct):
    """A connection from an input of the graph to an input of a node: ``DML_INPUT_GRAPH_EDGE_DESC``.

    The inputs of a node are counted in the order of its descriptor's fields; those of JOIN one by one.

    Attributes:
        graph_input_index: which input of the graph.
        to_node_index: which node.
        to_node_input_index: which input of the node.
        name: for the sentences about it.

    Source: `DML_INPUT_GRAPH_EDGE_DESC
    <https://learn.microsoft.com/en-us/windows/win32/api/directml/ns-directml-dml_input_graph_edge_desc>`_.
    """

    graph_input_index: int
    to_node_index: int
    to_node_input_index: int
    name: str | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class IntermediateGraphEdgeDesc(Struct):
    """A connection from an output of a node to an input of a node: ``DML_INTERMEDIATE_GRAPH_EDGE_DESC``.

    Attributes:
        from_node_index: which node makes the tensor.
        from_node_output_index: which output of it; those of SPLIT are counted one by one.
        to_node_index: which node reads the tensor.
        to_node_input_index: which input of it.
        name: for the sentences about it.

    Source: `DML_INTERMEDIATE_GRAPH_EDGE_DESC
    <https://learn.microsoft.com/en-us/windows/win32/api/directml/ns-directml-dml_intermediate_graph_edge_desc>`_.
    """

    from_node_index: int
    from_node_output_index: int
    to_node_index: int
    to_node_input_index: int
    name: str | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class OutputGraphEdgeDesc(Struct):
    """A connection from an output of a node to an output of the graph: ``DML_OUTPUT_GRAPH_EDGE_DESC``.

    Attributes:
        from_node_index: which node makes the tensor.
        from_node_output_index: which output of it.
        graph_output_index: which output of the graph; each has one edge.
        name: for the sentences about it.

    Source: `DML_OUTPUT_GRAPH_EDGE_DESC
    <https://learn.microsoft.com/en-us/windows/win32/api/directml/ns-directml-dml_output_graph_edge_desc>`_.
    """

    from_node_index: int
    from_node_output_index: int
    graph_output_index: int
    name: str | None = None


class Edge(NamedTuple):
    path: JsonPath
    name: str | None
    source: End
    target: End


def _source(desc: IntermediateGraphEdgeDesc | OutputGraphEdgeDesc) -> End:
    return End(desc.from_node_index, desc.from_node_output_index)


def _target(desc: InputGraphEdgeDesc | IntermediateGraphEdgeDesc) -> End:
    return End(desc.to_node_index, desc.to_node_input_index)


def of_named(violation: Violation, name: str | None) -> Violation:
    """With the name of the node or edge that it is about, where there is one."""
    if name is None:
        return violation
    of = "of " if len(violation.path) > 2 else ""
    rule = [violation.rule] if isinstance(violation.rule, str) else violation.rule
    return replace(violation, rule=(f"{of}{as_json(name)} ", *rule))


class Wiring:
    """The edges of a graph: to each input of a node, to each output of the graph, and what is wrong with them.

    ``order`` has the nodes, each behind those that it reads from.
    """

    def __init__(
        self,
        inputs: Sequence[TensorDesc],
        nodes: Sequence[OperatorGraphNodeDesc],
        input_edges: Sequence[InputGraphEdgeDesc],
        intermediate_edges: Sequence[IntermediateGraphEdgeDesc],
        output_edges: Sequence[OutputGraphEdgeDesc],
    ) -> None:
        self._inputs, self._nodes, self._count_of_outputs = inputs, nodes, len(output_edges)
        self._ins = [node.operator.inputs() for node in nodes]
        self._outs = [node.operator.outputs() for node in nodes]
        self._into: list[list[Edge]] = [[] for _ in nodes]  # from other nodes
        self.edges: dict[End, Edge] = {}  # by the end that they lead to
        self.violations: list[Violation] = []
        connected = set()
        edges = {
            "input_edges": [(e.name, End(None, e.graph_input_index), _target(e)) for e in input_edges],
            "intermediate_edges": [(e.name, _source(e), _target(e)) for e in intermediate_edges],
            "output_edges": [(e.name, _source(e), End(None, e.graph_output_index)) for e in output_edges],
        }
        for field, ends in edges.items():
            for k, (name, source, target) in enumerate(ends):
                edge = Edge((field, k), name, source, target)
                if all([self._is_in_range(edge, edge.source, "from"), self._is_in_range(edge, edge.target, "to")]):
                    connected.add(edge.source)
                    self._connect(edge)
        for node, (ins, outs) in enumerate(zip(self._ins, self._outs, strict=True)):
            for k, (path, _) in enumerate(ins):
                if End(node, k) not in self.edges:
                    self._unconnected(node, path, "an input of the graph or an output of a node")
            for k, (path, _) in enumerate(outs):
                if End(node, k) not in connected:
                    self._unconnected(node, path, "an input of a node or an output of the graph")
        self.order = self._sorted()

    def source_desc(self, edge: Edge) -> TensorDesc:
        node, k = edge.source
        return self._inputs[k] if node is None else self._outs[node][k][1]

    def _add(self, path: JsonPath, name: str | None, rule: str, value: object) -> None:
        self.violations.append(of_named(Violation(path, rule, value), name))

    def _node(self, node: int) -> str:
        name = self._nodes[node].name
        return f"nodes[{node}]" if name is None else f"nodes[{node}] {as_json(name)}"

    # Indices.

    def _is_in_range(self, edge: Edge, end: End, way: Literal["from", "to"]) -> bool:
        node, k = end
        if node is None:
            count = len(self._inputs) if way == "from" else self._count_of_outputs
            field, of = (
                ("graph_input_index", "an input of the graph")
                if way == "from"
                else ("graph_output_index", "an output of the graph, which has as many as output_edges")
            )
            return self._is_index(edge, field, k, count, of)
        if not self._is_index(edge, f"{way}_node_index", node, len(self._nodes), "a node"):
            return False
        tensors, kind = (self._outs, "output") if way == "from" else (self._ins, "input")
        of = f"an {kind} of {self._node(node)}"
        return self._is_index(edge, f"{way}_node_{kind}_index", k, len(tensors[node]), of)

    def _is_index(self, edge: Edge, field: str, index: int, count: int, of: str) -> bool:
        if 0 <= index < count:
            return True
        if count == 0:
            rule = f"must be the index of {of}, and there is none"
        else:
            rule = f"must be {'0' if count == 1 else f'from 0 to {count - 1}'}, the index of {of}"
        self._add((*edge.path, field), edge.name, rule, index)
        return False

    # Edges.

    def _connect(self, edge: Edge) -> None:
        node, k = edge.target
        place: JsonPath = () if node is None else self._ins[node][k][0]
        target = f"output {k} of the graph" if node is None else f"{dotted(place)} of {self._node(node)}"
        first = self.edges.setdefault(edge.target, edge)
        if first is not edge:
            rule = "must lead to where no other edge does"
            self._add(edge.path, edge.name, rule, f"{target}, as {dotted(first.path)}")
        if node is not None:
            if edge.source.node is not None:
                self._into[node].append(edge)
            self._check_memory(edge, self._ins[node][k][1], target)
            self._check_flags(edge, self._ins[node][k][1], node, place)

    def _check_memory(self, edge: Edge, desc: TensorDesc, target: str) -> None:
        source = self.source_desc(edge)
        size, total = source.total_tensor_size_in_bytes, desc.total_tensor_size_in_bytes
        if size != total:
            rule = f"must lead to a tensor of the same total_tensor_size_in_bytes, {as_json(size)}"
            self._add(edge.path, edge.name, rule, f"{as_json(total)} of {target}")
        reinterpreted = edge.source.node is None and not same_elements(source, desc)
        if reinterpreted and not any(source.violations()) and not can_be_laid_out(source):
            rule = f"must not lay elements on one another, as {dotted(edge.path)} reinterprets them"
            self._add(("inputs", edge.source.number, "strides"), None, rule, source.strides)

    def _check_flags(self, edge: Edge, desc: TensorDesc, node: int, place: JsonPath) -> None:
        """Only an input of the graph can be bound when the graph is initialized, and only as a whole."""
        path, name = ("nodes", node, *place, "flags"), self._nodes[node].name
        if edge.source.node is None:
            like = self._inputs[edge.source.number].flags
            if desc.flags != like:
                self._add(path, name, f"must be {like.name}, those of inputs[{edge.source.number}]", desc.flags)
        elif desc.flags & TensorFlags.OWNED_BY_DML:
            self._add(path, name, f"must be NONE, as {dotted(edge.path)} comes from another node", desc.flags)

    def _unconnected(self, node: int, place: JsonPath, to: str) -> None:
        self._add(("nodes", node, *place), self._nodes[node].name, f"must be connected to {to}", "no edge")

    # Order.

    def _sorted(self) -> list[int]:
        """Depth first, against the edges; one from a node of the path that led to it closes a cycle."""
        order: list[int] = []
        done: set[int] = set()
        for root in range(len(self._into)):
            if root in done:
                continue
            path, pending = {root: 0}, [iter(self._into[root])]  # nodes with their places in the path
            while path:
                edge = next(pending[-1], None)
                if edge is None:
                    pending.pop()
                    node, _ = path.popitem()
                    done.add(node)
                    order.append(node)
                    continue
                source = edge.source.node
                assert source is not None
                if source in path:
                    self._add(edge.path, edge.name, "must not close a cycle", self._cycle([*path][path[source] :]))
                elif source not in done:
                    path[source] = len(path)
                    pending.append(iter(self._into[source]))
        return order

    def _cycle(self, against: Sequence[int]) -> str:
        """From the first of these nodes, by the edge that closes the cycle, back to it."""
        nodes = [self._node(node) for node in (against[0], *reversed(against))]
        if len(nodes) > 8:
            nodes[4:-3] = [f"{len(nodes) - 7} others"]
        return " to ".join(nodes)
