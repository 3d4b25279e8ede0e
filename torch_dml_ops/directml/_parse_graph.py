"""Graphs from JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, make_dataclass
from typing import Any, TypeVar

from torch_dml_ops.directml._parse_descs import parse_operator, parse_tensor
from torch_dml_ops.directml._structure import Structure, parse, parser, read
from torch_dml_ops.directml._text import JsonPath
from torch_dml_ops.directml.errors import Problem
from torch_dml_ops.directml.graph import (
    Graph,
    InputGraphEdgeDesc,
    IntermediateGraphEdgeDesc,
    OperatorGraphNodeDesc,
    OutputGraphEdgeDesc,
)
from torch_dml_ops.directml.operator_descs import name_in_json

E = TypeVar("E", InputGraphEdgeDesc, IntermediateGraphEdgeDesc, OutputGraphEdgeDesc)


@dataclass(frozen=True, kw_only=True)
class _GraphJson(Structure):
    Inputs: list[Any]
    Nodes: list[Any]
    InputEdges: list[Any]
    IntermediateEdges: list[Any]
    OutputEdges: list[Any]


@dataclass(frozen=True, kw_only=True)
class _NodeJson(Structure):
    Operator: Any
    Name: str | None = None


def _edge_json(kind: Any) -> type[Structure]:
    declared = [(name_in_json(f.name), int) for f in fields(kind) if f.name != "name"]
    name = ("Name", str | None, field(default=None))
    return make_dataclass(kind.__name__, [*declared, name], bases=(Structure,), frozen=True, kw_only=True)


_EDGES = {kind: _edge_json(kind) for kind in (InputGraphEdgeDesc, IntermediateGraphEdgeDesc, OutputGraphEdgeDesc)}


@parser
def _parse_node(problems: list[Problem], value: Any, path: JsonPath) -> OperatorGraphNodeDesc | None:
    json = parse(problems, _NodeJson, value, path)
    if json is None:
        return None
    operator = parse_operator(problems, json.Operator, (*path, "Operator"))
    return None if operator is None else OperatorGraphNodeDesc(operator=operator, name=json.Name)


def _parse_edges(problems: list[Problem], kind: type[E], values: Sequence[Any], path: JsonPath) -> list[E]:
    found = [parse(problems, _EDGES[kind], value, (*path, k)) for k, value in enumerate(values)]
    names = {field.name: name_in_json(field.name) for field in fields(kind)}
    return [kind(**{name: getattr(json, key) for name, key in names.items()}) for json in found if json is not None]


@parser
def _parse_graph(problems: list[Problem], value: object) -> Graph | None:
    json = parse(problems, _GraphJson, value, ())
    if json is None:
        return None
    inputs = [parse_tensor(problems, tensor, ("Inputs", k)) for k, tensor in enumerate(json.Inputs)]
    nodes = [_parse_node(problems, node, ("Nodes", k)) for k, node in enumerate(json.Nodes)]
    input_edges = _parse_edges(problems, InputGraphEdgeDesc, json.InputEdges, ("InputEdges",))
    path: JsonPath = ("IntermediateEdges",)
    intermediate_edges = _parse_edges(problems, IntermediateGraphEdgeDesc, json.IntermediateEdges, path)
    output_edges = _parse_edges(problems, OutputGraphEdgeDesc, json.OutputEdges, ("OutputEdges",))
    return Graph.from_desc(
        inputs=[tensor for tensor in inputs if tensor is not None],
        nodes=[node for node in nodes if node is not None],
        input_edges=input_edges,
        intermediate_edges=intermediate_edges,
        output_edges=output_edges,
    )


def graph_from_json(value: object) -> Graph:
    return read(True, _parse_graph, value)
