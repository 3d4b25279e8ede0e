# ruff: noqa: E501  (a sentence to a line)
"""Graphs of operators: their results, every rule of theirs, and what torch.compile makes of large ones."""

import copy
import itertools
import json
import pickle
import sys
import weakref
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from descriptors.cases import DATA_TYPES, F32, F64, I8, U8, UINT32, op_desc, window
from descriptors.graphs import between, graphs, identity, into, memory, one_by_one, out_of, shuffled
from descriptors.rules import broken
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend
from transform_cases import examples, values

from torch_dml_ops import directml
from torch_dml_ops.directml import FeatureLevel, Graph, Operator, OperatorGraphNodeDesc, TensorDataType, TensorDesc

MODELS = Path(__file__).parents[2] / "examples" / "models"

X = TensorDesc(F32, [2, 3])
OWNED = TensorDesc(F32, [2, 3], flags=directml.TensorFlags.OWNED_BY_DML)


def bits(tensor: Tensor) -> bytes:
    return tensor.detach().cpu().numpy().tobytes()


def check_same(results: list[Tensor], wanted: list[Tensor]) -> None:
    assert len(results) == len(wanted)
    for result, want in zip(results, wanted, strict=True):
        assert (result.dtype, result.shape) == (want.dtype, want.shape)
        strides = zip(result.shape, result.stride(), want.stride(), strict=True)
        assert all(size == 1 or stride == other for size, stride, other in strides)
        assert bits(result) == bits(want)


# Results.


def chain() -> Graph:
    """The graph that examples/models/chain.json runs: what is behind the first column reversed, then that."""
    descs = {
        name: directml.OperatorDesc.from_json(value)
        for name, value in json.loads((MODELS / "chain.json").read_text())["dispatchables"].items()
    }
    graph = Graph()
    x, lengths = graph.input(descs["split"].input_tensor), graph.input(descs["reverse"].sequence_lengths_tensor)
    a, b = graph.add(descs["split"], x, name="split")
    graph.output(graph.add(descs["join"], graph.add(descs["reverse"], b, lengths, name="reverse"), a, name="join"))
    return graph


def test_chain_gives_the_bits_of_the_model_file(capsys: pytest.CaptureFixture[str]) -> None:
    buffers = directml.Model.load(MODELS / "chain.json").run()
    graph = chain()
    x, lengths = (desc.view(buffers[name]) for desc, name in zip(graph.inputs, ("x", "lengths"), strict=True))
    run = graph.compile()
    (y,) = run(x.to(torch.get_default_device()), lengths.to(torch.get_default_device()))
    assert bits(y) == bits(run.outputs[0].view(buffers["y"]))
    assert capsys.readouterr().out == "Resource 'y': 3, 2, 4, 1, 8, 7, 6, 5, 10, 11, 12, 9\n"


@examples
@given(graphs(), st.integers(0, 99))
def test_random_graphs(graph: Graph, seed: int) -> None:
    """With any layouts, and edges that reinterpret, against the operators one by one; nodes in any order.

    What an input of the graph means does not depend on how the tensor that is given lies in memory.
    """
    graph.validate()
    buffers = [memory(desc, seed + k) for k, desc in enumerate(graph.inputs)]
    inputs = [desc.view(buffer) for desc, buffer in zip(graph.inputs, buffers, strict=True)]
    wanted = one_by_one(graph, buffers)
    check_same(graph.compile()(*inputs), wanted)
    other = shuffled(graph, seed)
    check_same(other.compile()(*inputs), wanted)
    apart = [torch.stack([x, x], -1)[..., 1] for x in inputs]  # of bytes, also where no float can begin
    check_same(graph.compile()(*apart), wanted)


@pytest.mark.parametrize("target", DATA_TYPES, ids=lambda t: t.name)
@pytest.mark.parametrize("source", DATA_TYPES, ids=lambda t: t.name)
def test_reinterpreted_data_types(source: TensorDataType, target: TensorDataType) -> None:
    """What no operator wrote is 0: of 24 bytes, the last elements of a small type."""
    graph = Graph()
    desc = TensorDesc(source, [3], total_tensor_size_in_bytes=24)
    x = graph.input(desc)
    y = graph.add(identity(desc, desc), x)
    for value in (x, y):
        other = value.reinterpret(data_type=target, sizes=[24 // target.size_in_bytes])
        graph.output(graph.add(identity(other.output_desc, TensorDesc(target, other.output_desc.sizes)), other))
    buffer = memory(desc, 1)
    for result in graph.compile()(desc.view(buffer)):
        assert result.dtype == target.dtype
        assert bits(result) == bytes(buffer.cpu().numpy())


def test_outputs_are_apart() -> None:
    """From one another, also where one output of a node is two of the graph, and from the inputs."""
    padded = TensorDesc(F32, [2, 3], strides=[4, 1])
    graph = Graph()
    x = graph.input(X)
    for desc in (X, padded):
        y = graph.add(identity(X, desc), x)
        graph.output(y, y)
    given_tensor = torch.zeros(2, 3)
    results = graph.compile()(given_tensor)
    for k, result in enumerate(results):
        result.fill_(k + 1)
    assert [result.unique().tolist() for result in results] == [[1], [2], [3], [4]]
    assert [result.stride() for result in results] == [(3, 1), (3, 1), (4, 1), (4, 1)]
    assert given_tensor.count_nonzero() == 0


def test_an_output_given_a_second_time_that_does_not_fit_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    operator = sys.modules[Operator.__module__]
    graph = Graph()
    y = graph.add(identity(X, TensorDesc(F32, [2, 3], strides=[4, 1])), graph.input(X))
    graph.output(y, y)
    right, asked = operator.laid_out, itertools.count()

    def refuse(*arguments: Any) -> Tensor:
        if next(asked):
            raise RuntimeError("DefaultCPUAllocator: not enough memory")
        return right(*arguments)

    monkeypatch.setattr(operator, "laid_out", refuse)
    sentence = r"^CompiledGraph: outputs\[1\] must fit into memory, and 28 bytes do not$"
    with pytest.raises(RuntimeError, match=sentence):
        graph.compile()(torch.zeros(2, 3))


def test_inputs_that_nothing_reads() -> None:
    """An input of the graph has any number of edges."""
    graph = Graph.from_desc(
        inputs=[X, X], nodes=[identity(X, X)], input_edges=[into(1, 0)], output_edges=[out_of(0, 0, 0)]
    )
    (y,) = graph.compile()(torch.zeros(2, 3), torch.ones(2, 3))
    assert y.tolist() == [[1] * 3] * 2
    with pytest.raises(ValueError, match=r"^CompiledGraph: inputs\[0\] must have sizes \[2, 3\], got \[3, 2\]$"):
        graph.compile()(torch.zeros(3, 2), torch.ones(2, 3))


def line(count: int, *, reverse: bool = False) -> Graph:
    """Nodes that each reverse what the one before made; described from the last one on if that is asked for."""
    flip = op_desc("SLICE1", X, X, **window([0, 0], [2, 3], [1, -1]))
    nodes = list(range(count))[:: -1 if reverse else 1]
    return Graph.from_desc(
        inputs=[X],
        nodes=[flip] * count,
        input_edges=[into(0, nodes[0])],
        intermediate_edges=[between((a, 0), (b, 0)) for a, b in itertools.pairwise(nodes)],
        output_edges=[out_of(nodes[-1], 0, 0)],
    )


@pytest.mark.parametrize("reverse", [False, True])
def test_graphs_of_many_nodes(reverse: bool) -> None:
    x = torch.arange(6.0).reshape(2, 3)
    for count in (200, 3001):
        (y,) = line(count, reverse=reverse).compile()(x)
        assert torch.equal(y, x.flip(1) if count % 2 else x)


def test_tensors_that_are_not_needed_any_more_are_released(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[weakref.ref[Tensor]] = []
    most = 0
    run_operator = Operator._run

    def counted(self: Operator, inputs: Sequence[Tensor], out: None) -> Any:
        nonlocal most
        result = run_operator(self, inputs, out)
        made.append(weakref.ref(result))
        most = max(most, sum(ref() is not None for ref in made))
        return result

    run = line(20).compile()
    monkeypatch.setattr(Operator, "_run", counted)
    run(torch.ones(2, 3))
    assert len(made) == 20
    assert most <= 3


def owned_and_given() -> Graph:
    """The rows of an owned tensor between those of one that is given twice; the owned one transposed."""
    graph = Graph()
    first, owned, last = (graph.input(desc) for desc in (X, OWNED, X))
    join = op_desc("JOIN", [X, OWNED, X], TensorDesc(F32, [6, 3]), 0)
    columns = owned.reinterpret(sizes=[3, 2], strides=[1, 3])
    graph.output(graph.add(join, first, owned, last))
    graph.output(graph.add(identity(columns.output_desc, TensorDesc(F32, [3, 2])), columns))
    return graph


def test_the_strides_of_dimensions_of_size_1_mean_nothing() -> None:
    row, same_row = TensorDesc(F32, [1, 3]), TensorDesc(F32, [1, 3], strides=[7, 1])
    graph = Graph()
    copy = graph.add(identity(same_row, row), graph.input(row))
    graph.output(graph.add(identity(same_row, row), copy))
    x = values((1, 3), torch.float32)
    assert torch.equal(graph.compile()(x)[0], x)


def test_owned_inputs_given_in_inference_mode_serve_outside() -> None:
    lengths = TensorDesc(TensorDataType.UINT32, [3, 1], flags=directml.TensorFlags.OWNED_BY_DML)
    rows = TensorDesc(F32, [3, 4])
    desc = op_desc("REVERSE_SUBSEQUENCES", rows, lengths, rows, 1)
    graph = Graph()
    graph.output(graph.add(desc, graph.input(rows), graph.input(lengths)))
    with torch.inference_mode():
        counts = torch.full((3, 1), 2, dtype=torch.uint32)
        runs = [graph.compile().initialize(counts), Operator(desc).initialize(sequence_lengths_tensor=counts)]
    for run in runs:
        x = torch.zeros(3, 4, requires_grad=True)
        result: Any = run(x)
        torch.autograd.backward(result, [torch.ones(3, 4)] if isinstance(result, list) else torch.ones(3, 4))
        assert x.grad is not None


def test_owned_inputs() -> None:
    run = owned_and_given().compile()
    a, owned, b = (values((2, 3), torch.float32, seed).requires_grad_() for seed in range(3))
    before = owned.detach().clone()
    bound = run.initialize(owned)
    with torch.no_grad():
        owned.zero_()
    for call in (bound, torch.compile(bound, fullgraph=True, backend="aot_eager"), copy.deepcopy(bound)):
        whole, columns = call(a, b)
        assert torch.equal(whole, torch.cat([a, before, b]))
        assert torch.equal(columns, before.t())
        assert not columns.requires_grad
        assert [g.tolist() for g in torch.autograd.grad(whole.sum(), [a, b])] == [[[1.0] * 3] * 2] * 2
    again = bound.initialize(torch.ones(2, 3))
    assert again(a, b)[1].unique().tolist() == [1]
    assert torch.equal(bound(a, b)[1], before.t())


def test_what_is_compiled_does_not_change_with_the_graph() -> None:
    graph = chain()
    run = graph.compile()
    graph.input(X)
    assert (len(run.inputs), len(run.outputs)) == (2, 1)
    assert repr(run) == "<CompiledGraph of 2 inputs, 3 nodes, 1 outputs>"
    x, lengths = (desc.view(memory(desc, k)) for k, desc in enumerate(run.inputs))
    for again in (copy.deepcopy(run), pickle.loads(pickle.dumps(run))):
        check_same(again(x, lengths), run(x, lengths))


# Rules.

IDENTITY = identity(X, X)
Y, WIDE = TensorDesc(F32, [3, 2]), TensorDesc(F32, [2, 3], total_tensor_size_in_bytes=32)
HALVES = op_desc("SPLIT", X, [TensorDesc(F32, [2, 1]), TensorDesc(F32, [2, 2])], 1)


def described(**parts: Any) -> Graph:
    """Two copies one after another, but for what is given."""
    whole: dict[str, Any] = {
        "inputs": [X],
        "nodes": [IDENTITY, OperatorGraphNodeDesc(operator=IDENTITY, name="second")],
        "input_edges": [into(0, 0)],
        "intermediate_edges": [between((0, 0), (1, 0))],
        "output_edges": [out_of(1, 0, 0)],
    }
    return Graph.from_desc(**whole | parts)


def told(graph: Graph, level: FeatureLevel = FeatureLevel.NEWEST) -> list[str]:
    """What is wrong with the graph, which compiling says too."""
    sentences = broken(graph, level)
    assert (
        broken(graph, level, graph.compile) == broken(graph, level, partial(directml.CompiledGraph, graph)) == sentences
    )
    return sentences


NO_INPUT = "must be connected to an input of the graph or an output of a node, got no edge"
NO_OUTPUT = "must be connected to an input of a node or an output of the graph, got no edge"

RULES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "valid": ({}, []),
    # Indices.
    "graph_input_index too large": ({"input_edges": [into(1, 0)]}, ["input_edges[0].graph_input_index must be 0, the index of an input of the graph, got 1", f"nodes[0].input_tensor {NO_INPUT}"]),
    "the last graph_input_index": ({"inputs": [X, X], "input_edges": [into(1, 0)]}, []),
    "graph_input_index negative": ({"inputs": [X, X, X], "input_edges": [into(-1, 0, name="in")]}, ["input_edges[0].graph_input_index of 'in' must be from 0 to 2, the index of an input of the graph, got -1", f"nodes[0].input_tensor {NO_INPUT}"]),
    "no inputs": ({"inputs": []}, ["input_edges[0].graph_input_index must be the index of an input of the graph, and there is none, got 0", f"nodes[0].input_tensor {NO_INPUT}"]),
    "to_node_index": ({"input_edges": [into(0, 2)]}, ["input_edges[0].to_node_index must be from 0 to 1, the index of a node, got 2", f"nodes[0].input_tensor {NO_INPUT}"]),
    "to_node_input_index": ({"input_edges": [into(0, 0, 1)]}, ["input_edges[0].to_node_input_index must be 0, the index of an input of nodes[0], got 1", f"nodes[0].input_tensor {NO_INPUT}"]),
    "every index of an edge": ({"intermediate_edges": [between((2, 0), (1, 1), "e"), between((0, 1), (-1, 0))]}, [
        "intermediate_edges[0].from_node_index of 'e' must be from 0 to 1, the index of a node, got 2",
        "intermediate_edges[0].to_node_input_index of 'e' must be 0, the index of an input of nodes[1] 'second', got 1",
        "intermediate_edges[1].from_node_output_index must be 0, the index of an output of nodes[0], got 1",
        "intermediate_edges[1].to_node_index must be from 0 to 1, the index of a node, got -1",
        f"nodes[0].output_tensor {NO_OUTPUT}",
        f"nodes[1].input_tensor of 'second' {NO_INPUT}",
    ]),
    "graph_output_index": ({"output_edges": [out_of(1, 0, 1)]}, ["output_edges[0].graph_output_index must be 0, the index of an output of the graph, which has as many as output_edges, got 1", f"nodes[1].output_tensor of 'second' {NO_OUTPUT}"]),
    "outputs in any order": ({"output_edges": [out_of(1, 0, 1), out_of(0, 0, 0)]}, []),
    # Connections.
    "no edges": ({"input_edges": [], "intermediate_edges": [], "output_edges": []}, [
        "output_edges must have at least 1 edge, got none",
        f"nodes[0].input_tensor {NO_INPUT}",
        f"nodes[0].output_tensor {NO_OUTPUT}",
        f"nodes[1].input_tensor of 'second' {NO_INPUT}",
        f"nodes[1].output_tensor of 'second' {NO_OUTPUT}",
    ]),
    "an input connected twice": ({"inputs": [X, X], "input_edges": [into(0, 0), into(1, 0, name="again")]}, ["input_edges[1] 'again' must lead to where no other edge does, got input_tensor of nodes[0], as input_edges[0]"]),
    "an input connected to the graph and to a node": ({"input_edges": [into(0, 0), into(0, 1)]}, ["intermediate_edges[0] must lead to where no other edge does, got input_tensor of nodes[1] 'second', as input_edges[1]"]),
    "an output of the graph connected twice": ({"output_edges": [out_of(1, 0, 0), out_of(0, 0, 0)]}, ["output_edges[1] must lead to where no other edge does, got output 0 of the graph, as output_edges[0]"]),
    "an output of a node connected twice": ({"output_edges": [out_of(1, 0, 0), out_of(1, 0, 1), out_of(0, 0, 2)]}, []),
    "one of several outputs unconnected": ({"nodes": [IDENTITY, HALVES], "output_edges": [out_of(1, 1, 0)]}, [f"nodes[1].output_tensors[0] {NO_OUTPUT}"]),
    "one of several inputs unconnected": ({"nodes": [IDENTITY, op_desc("JOIN", [X, X], TensorDesc(F32, [4, 3]), 0)]}, [f"nodes[1].input_tensors[1] {NO_INPUT}"],),
    "no nodes": ({"nodes": [], "input_edges": [], "intermediate_edges": [], "output_edges": []}, ["nodes must have at least 1 operator, got none", "output_edges must have at least 1 edge, got none"]),
    # Memory.
    "other sizes": ({"nodes": [IDENTITY, identity(Y, Y)]}, []),
    "another data type": ({"nodes": [IDENTITY, identity(TensorDesc(I8, [24]), TensorDesc(I8, [24]))]}, []),
    "another size in bytes": ({"nodes": [identity(WIDE, X), identity(WIDE, X)]}, [
        "input_edges[0] must lead to a tensor of the same total_tensor_size_in_bytes, 24, got 32 of input_tensor of nodes[0]",
        "intermediate_edges[0] must lead to a tensor of the same total_tensor_size_in_bytes, 24, got 32 of input_tensor of nodes[1]",
    ]),
    "elements on one another": ({"inputs": [TensorDesc(F32, [3, 2], strides=[1, 1], total_tensor_size_in_bytes=24)]}, ["inputs[0].strides must not lay elements on one another, as input_edges[0] reinterprets them, got [1, 1]"]),
    "elements on one another that are read as they are": (
        {"inputs": [TensorDesc(F32, [3, 2], strides=[1, 1])], "nodes": [identity(TensorDesc(F32, [3, 2], strides=[1, 1]), X), IDENTITY]},
        ["nodes[0].output_tensor.sizes[0] must be 3, the size of input_tensor there, got 2",
         "nodes[0].output_tensor.sizes[1] must be 2, the size of input_tensor there, got 3"],
    ),
    "elements that a stride of 0 repeats": ({"inputs": [TensorDesc(F32, [5, 6], strides=[0, 1])]}, []),
    # Flags.
    "owned input of the graph": ({"inputs": [OWNED], "nodes": [identity(OWNED, X), IDENTITY]}, []),
    "owned by one operator alone": ({"nodes": [identity(OWNED, X), identity(X, X)], "input_edges": [into(0, 0)]}, ["nodes[0].input_tensor.flags must be NONE, those of inputs[0], got OWNED_BY_DML"],),
    "not owned by one operator": ({"inputs": [OWNED]}, ["nodes[0].input_tensor.flags must be OWNED_BY_DML, those of inputs[0], got NONE"]),
    "owned, of a node": ({"nodes": [IDENTITY, identity(OWNED, X)]}, ["nodes[1].input_tensor.flags must be NONE, as intermediate_edges[0] comes from another node, got OWNED_BY_DML"]),
    # Cycles.
    "two nodes that read one another": ({"input_edges": [], "intermediate_edges": [between((0, 0), (1, 0), "there"), between((1, 0), (0, 0), "back")]}, ["intermediate_edges[0] 'there' must not close a cycle, got nodes[0] to nodes[1] 'second' to nodes[0]"],),
    # Parts.
    "a bad input": ({"inputs": [TensorDesc(F32, [2, 3], guaranteed_base_offset_alignment=3)]}, ["inputs[0].guaranteed_base_offset_alignment must be 0 or a power of two from 4, the size of FLOAT32, on, got 3"]),
    "inputs of other data types": (
        {"inputs": [X, TensorDesc(TensorDataType.INT4, [8]), TensorDesc(TensorDataType.UNKNOWN, [8])]},
        ["inputs[1].data_type must be one that torch has (FLOAT32, FLOAT16, UINT32, UINT16, UINT8, INT32, INT16, INT8, FLOAT64, UINT64, INT64), got INT4",
         "inputs[2].data_type must be a known type, got UNKNOWN"],
    ),
    "bad operators": (
        {"nodes": [identity(X, Y), OperatorGraphNodeDesc(operator=op_desc("SPLIT", X, [X], 2), name="s")]},
        ["nodes[0].output_tensor.sizes[0] must be 2, the size of input_tensor there, got 3",
         "nodes[0].output_tensor.sizes[1] must be 3, the size of input_tensor there, got 2",
         "nodes[1].axis of 's' must be from 0 to 1, a dimension of input_tensor, got 2"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", RULES)
def test_rules(case: str) -> None:
    parts, sentences = RULES[case]
    assert told(described(**parts)) == sentences


def test_all_that_is_wrong_is_told_together() -> None:
    graph = described(
        inputs=[TensorDesc(F32, [2, 0])], input_edges=[into(0, 0), into(3, 1)], output_edges=[out_of(1, 4, 0)]
    )
    assert [sentence.partition(" ")[0] for sentence in told(graph)] == [
        "inputs[0].sizes[1]",
        "input_edges[0]",
        "input_edges[1].graph_input_index",
        "output_edges[0].from_node_output_index",
        "nodes[1].output_tensor",
    ]


def test_rules_of_a_feature_level() -> None:
    rule = "must be from 4 to 5 at feature level 2_1, got 2; allowed from feature level 3_0"
    assert told(described(), FeatureLevel.LEVEL_2_1) == [
        f"nodes[{node}].{tensor}.dimension_count{' of ' * node}{repr('second') * node} {rule}"
        for node in (0, 1)
        for tensor in ("input_tensor", "output_tensor")
    ]
    assert told(described(), FeatureLevel.LEVEL_3_0) == []


# Of copies: how many there are, which reads which, and by the edges that close a cycle the nodes on it.
CYCLES: list[tuple[int, list[tuple[int, int]], dict[int, list[object]]]] = [
    (1, [(0, 0)], {0: [0, 0]}),
    (5, [(1, 2), (2, 1), (3, 4), (4, 3)], {0: [1, 2, 1], 2: [3, 4, 3]}),
    (3, [(1, 0), (1, 2), (2, 1)], {1: [1, 2, 1]}),  # which another node reads
    (30, [(k, (k + 1) % 30) for k in range(30)], {0: [0, 1, 2, 3, "24 others", 28, 29, 0]}),
    (5000, [(k, (k + 1) % 5000) for k in range(5000)], {0: [0, 1, 2, 3, "4994 others", 4998, 4999, 0]}),
]


@pytest.mark.parametrize(("count", "pairs", "cycles"), CYCLES, ids=lambda value: str(value)[:20])
def test_cycles(count: int, pairs: list[tuple[int, int]], cycles: dict[int, list[object]]) -> None:
    graph = described(
        nodes=[IDENTITY] * count,
        input_edges=[] if 0 in dict(map(reversed, pairs)) else [into(0, 0)],  # type: ignore[call-overload]
        intermediate_edges=[between((a, 0), (b, 0)) for a, b in pairs],
        output_edges=[out_of(0, 0, 0)],
    )
    assert told(graph) == [
        f"intermediate_edges[{edge}] must not close a cycle, got "
        + " to ".join(f"nodes[{node}]" if isinstance(node, int) else str(node) for node in nodes)
        for edge, nodes in cycles.items()
    ]


# Building.


def test_expressions() -> None:
    graph = Graph()
    x = graph.input(X)
    y = graph.add(IDENTITY, x, name="copy")
    a, b = graph.add(HALVES, y)
    graph.output(b, a)
    assert repr(graph) == "<Graph of 1 inputs, 2 nodes, 2 outputs>"
    assert repr(x) == "<Expression of input 0: TensorDesc(FLOAT32, [2, 3])>"
    assert repr(b) == "<Expression of node 1, output 1: TensorDesc(FLOAT32, [2, 2])>"
    assert graph == Graph.from_desc(
        inputs=[X],
        nodes=[OperatorGraphNodeDesc(operator=IDENTITY, name="copy"), HALVES],
        input_edges=[into(0, 0)],
        intermediate_edges=[between((0, 0), (1, 0))],
        output_edges=[out_of(1, 1, 0), out_of(1, 0, 1)],
    )
    assert graph != chain()
    assert graph.inputs == (X,)
    assert graph.output_edges[0].from_node_output_index == 1
    for name, rule in (("node_index", "one of 2 nodes"), ("index", "one of 2 tensors")):
        for wrong in (-1, 2, -(2**70)):
            with pytest.raises(ValueError, match=rf"^Expression: {name} must be that of {rule}, got {wrong}$"):
                replace(b, **{name: wrong})


def test_reinterpret() -> None:
    x = Graph().input(TensorDesc(F32, [2, 3], strides=[4, 1], guaranteed_base_offset_alignment=16))
    assert x.reinterpret().output_desc == x.output_desc
    assert x.reinterpret(data_type=UINT32).output_desc.strides == (4, 1)
    small = Graph().input(TensorDesc(U8, [8], guaranteed_base_offset_alignment=4))
    for data_type, alignment in ((F32, 4), (F64, 0)):  # of which less than an element's size would be wrong
        desc = small.reinterpret(data_type=data_type, sizes=[1]).output_desc
        assert desc.guaranteed_base_offset_alignment == alignment
        assert not list(desc.violations())
    assert small.reinterpret(data_type=TensorDataType.UINT4, sizes=[16]).output_desc.minimum_size_in_bytes == 8
    flat = x.reinterpret(sizes=[7]).output_desc
    assert (flat.sizes, flat.strides, flat.dimension_count) == ((7,), None, 1)
    assert (flat.total_tensor_size_in_bytes, flat.guaranteed_base_offset_alignment) == (28, 16)
    assert x.reinterpret(strides=[1, 2]).output_desc.strides == (1, 2)
    assert x.reinterpret(sizes=[3, 2], strides=[1, 3]).output_desc.effective_strides == (1, 3)


def test_a_refused_call_leaves_the_graph_as_it_is() -> None:
    graph = Graph()
    x = graph.input(X)
    y = graph.add(IDENTITY, x)
    before = copy.deepcopy(graph)
    for call in (lambda: graph.add(HALVES, x.reinterpret(sizes=[6])), lambda: graph.output(y, x)):
        with pytest.raises(ValueError):
            call()
    assert graph == before


# torch.compile.


def test_data_types_that_change_compile_and_end_derivatives() -> None:
    torch._dynamo.reset()
    graph = Graph()
    x = graph.input(X).reinterpret(data_type=UINT32)
    y = graph.add(identity(x.output_desc, x.output_desc), x)
    z = y.reinterpret(data_type=F32)
    graph.output(graph.add(identity(X, X), z))
    run = graph.compile()
    counter = CompileCounterWithBackend("aot_eager")
    given_tensor = values((2, 3), torch.float32).requires_grad_()
    for call in (run, torch.compile(run, fullgraph=True, backend=counter)):
        (result,) = call(given_tensor)
        assert bits(result) == bits(given_tensor)
        assert not result.requires_grad
    assert counter.frame_count == 1


def test_a_graph_of_many_nodes_compiles_into_one_graph() -> None:
    torch._dynamo.reset()
    run, x = line(201).compile(), torch.arange(6.0).reshape(2, 3)
    counter = CompileCounterWithBackend("eager")
    (result,) = torch.compile(run, fullgraph=True, backend=counter)(x)
    assert torch.equal(result, x.flip(1))
    assert counter.frame_count == 1
