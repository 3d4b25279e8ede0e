"""Graphs of directml for the tests: random ones, and what they give when their operators run one by one."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from descriptors.cases import OPERATORS, data_types, descs, op_desc, tensor_descs
from hypothesis import strategies as st
from torch import Tensor

from torch_dml_ops import directml
from torch_dml_ops.directml import Expression, Graph, IntermediateGraphEdgeDesc, OutputGraphEdgeDesc, TensorDesc


def identity(read: TensorDesc, written: TensorDesc) -> directml.ElementWiseIdentityOperatorDesc:
    return op_desc("ELEMENT_WISE_IDENTITY", read, written)


def into(source: int, node: int, k: int = 0, name: str | None = None) -> directml.InputGraphEdgeDesc:
    return directml.InputGraphEdgeDesc(graph_input_index=source, to_node_index=node, to_node_input_index=k, name=name)


def between(source: tuple[int, int], target: tuple[int, int], name: str | None = None) -> IntermediateGraphEdgeDesc:
    (node, output), (to_node, to_input) = source, target
    return IntermediateGraphEdgeDesc(
        from_node_index=node,
        from_node_output_index=output,
        to_node_index=to_node,
        to_node_input_index=to_input,
        name=name,
    )


def out_of(node: int, output: int, target: int, name: str | None = None) -> OutputGraphEdgeDesc:
    return OutputGraphEdgeDesc(
        from_node_index=node, from_node_output_index=output, graph_output_index=target, name=name
    )


# Random ones.

sizes_of_any_rank = st.lists(st.integers(1, 4), min_size=1, max_size=4)


@st.composite
def reinterpreted(draw: st.DrawFn, x: Expression) -> Expression:
    """Another description of the same memory, where one that is drawn fits into it."""
    desc = draw(tensor_descs(draw(sizes_of_any_rank), draw(data_types)))
    if desc.minimum_size_in_bytes > (x.output_desc.total_tensor_size_in_bytes or 0):
        return x
    return x.reinterpret(data_type=desc.data_type, sizes=desc.sizes, strides=desc.strides)


def expressions(value: Any) -> list[Expression]:
    return value if isinstance(value, list) else [value]


@st.composite
def added(draw: st.DrawFn, graph: Graph, x: Expression) -> list[Expression]:
    """What an operator makes of an expression, which may be each input of the same description."""
    desc = draw(descs(draw(st.sampled_from([*OPERATORS, "JOIN", "ELEMENT_WISE_IDENTITY"])), x.output_desc))
    others = [tensor for _, tensor in desc.inputs()[1:]]
    inputs = [x if tensor == x.output_desc and draw(st.booleans()) else graph.input(tensor) for tensor in others]
    return expressions(graph.add(desc, x, *inputs))


@st.composite
def graphs(draw: st.DrawFn, most: int = 6) -> Graph:
    """Valid ones, whose nodes lie behind those that they read from."""
    graph = Graph()
    values = [graph.input(draw(tensor_descs(draw(sizes_of_any_rank), draw(data_types)))) for _ in range(2)]
    for _ in range(draw(st.integers(1, most))):
        x = draw(st.sampled_from(values))
        if draw(st.booleans()):
            x = draw(reinterpreted(x))
        if sum(x.output_desc.sizes) < 40:
            values += draw(added(graph, x))
    made = [x for x in values if x.node_index is not None]
    read = {(edge.from_node_index, edge.from_node_output_index) for edge in graph.intermediate_edges}
    if not made:
        desc = values[0].output_desc
        made = [graph.add(identity(desc, TensorDesc(desc.data_type, desc.sizes)), values[0])]
    graph.output(*(x for x in made if (x.node_index, x.index) not in read or draw(st.booleans())))
    return graph


def shuffled(graph: Graph, seed: int) -> Graph:
    """The same graph with its nodes and edges in another order."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(graph.nodes)).tolist()
    place = {node: k for k, node in enumerate(order)}

    def moved(edges: Sequence[Any]) -> list[Any]:
        result = []
        for k in rng.permutation(len(edges)):
            names = [name for name in ("from_node_index", "to_node_index") if hasattr(edges[k], name)]
            result.append(dataclasses.replace(edges[k], **{name: place[getattr(edges[k], name)] for name in names}))
        return result

    return Graph.from_desc(
        inputs=graph.inputs,
        nodes=[directml.OperatorGraphNodeDesc(operator=graph.nodes[k].operator, name=f"node {k}") for k in order],
        input_edges=moved(graph.input_edges),
        intermediate_edges=moved(graph.intermediate_edges),
        output_edges=moved(graph.output_edges),
    )


# Run one by one.


def memory(desc: TensorDesc, seed: int) -> Tensor:
    """A buffer of random elements, with zeros between and behind them; of sequence lengths small ones."""
    assert desc.total_tensor_size_in_bytes is not None
    rng = np.random.default_rng(seed)
    buffer = np.zeros(desc.total_tensor_size_in_bytes, np.uint8)
    places = np.zeros((1,), np.int64)
    for size, stride in zip(desc.sizes, desc.effective_strides, strict=True):
        places = (places[:, None] + np.arange(size) * stride).reshape(-1)
    places = np.unique(places)
    items = buffer[: desc.items_up_to_last * desc.data_type.size_in_bytes].reshape(desc.items_up_to_last, -1)
    items[places] = rng.integers(0, 256, (len(places), items.shape[1]), np.uint8)
    if desc.data_type == directml.TensorDataType.UINT32:
        items[places, 1:] = 0
        items[places, 0] %= 6
    return torch.from_numpy(buffer).to(torch.get_default_device())


def one_by_one(graph: Graph, inputs: Sequence[Tensor]) -> list[Tensor]:
    """As DirectML has it: buffers, which each operator sees as its own descriptor says. Nodes are in order."""
    buffers: dict[tuple[int | None, int], Tensor] = {(None, k): buffer for k, buffer in enumerate(inputs)}
    sources: dict[tuple[int, int], tuple[int | None, int]] = {}
    for edge in graph.input_edges:
        sources[edge.to_node_index, edge.to_node_input_index] = (None, edge.graph_input_index)
    for e in graph.intermediate_edges:
        sources[e.to_node_index, e.to_node_input_index] = (e.from_node_index, e.from_node_output_index)
    for node, described in enumerate(graph.nodes):
        operator = directml.Operator(described.operator)
        outs = []
        for k, (_, desc) in enumerate(described.operator.outputs()):
            buffers[node, k] = torch.zeros(desc.total_tensor_size_in_bytes or 0, dtype=torch.uint8)
            outs.append(desc.view(buffers[node, k]))
        read = [desc.view(buffers[sources[node, k]]) for k, (_, desc) in enumerate(described.operator.inputs())]
        operator(*read, out=outs if operator.gives_list else outs[0])
    ends = {e.graph_output_index: (e.from_node_index, e.from_node_output_index) for e in graph.output_edges}
    descs = {end: graph.nodes[end[0]].operator.outputs()[end[1]][1] for end in ends.values()}
    return [descs[ends[k]].view(buffers[ends[k]]) for k in range(len(ends))]
