# ruff: noqa: E501  (a sentence to a line)
"""What descriptors, operators and graphs refuse beside DirectML's rules: each sentence, and the calls that get it."""

import re
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import torch
from descriptors.bad_models import DATA_TYPES, EXECUTION_FLAGS
from descriptors.cases import F32, F64, I8, OPERATORS, op_desc, owned
from descriptors.graphs import expressions, identity
from descriptors.rules import VALID, X

from torch_dml_ops import directml
from torch_dml_ops.directml import FeatureLevel, Graph, Operator, TensorDataType, TensorDesc, TensorFlags, TensorPolicy


def graph_of(desc: directml.OperatorDesc) -> directml.CompiledGraph:
    """Of this operator alone."""
    graph = Graph()
    graph.output(*expressions(graph.add(desc, *(graph.input(tensor) for _, tensor in desc.inputs()))))
    return graph.compile()


def bytes_of(*sizes: int) -> torch.Tensor:
    return torch.zeros(sizes, dtype=torch.uint8)


IDENTITY, HUGE = identity(X, X), 10**5000
SPLIT, REVERSE = Operator(VALID["SPLIT"]), Operator(VALID["REVERSE_SUBSEQUENCES"])
PADDED = Operator(op_desc("JOIN", [X], TensorDesc(F32, [4, 6], strides=[8, 1]), 0))
JOIN = op_desc("JOIN", [TensorDesc(F32, [n, 6]) for n in (1, 2, 1)], X, 0)
FIRST = Operator(owned(JOIN, ("input_tensors", 0)))
SECOND = graph_of(owned(JOIN, ("input_tensors", 1)))
WHOLE, LENGTHS, (A, B, C) = torch.ones(4, 6), torch.ones(4, 1).to(torch.uint32), torch.ones(4, 6).split([1, 2, 1])
GRAPH = Graph()
INPUT = GRAPH.input(X)
OVERLAPPING = TensorPolicy(lambda _, __, sizes: directml.TensorProperties([1] * len(sizes)))
NO_PROPERTIES: Any = TensorPolicy(lambda *_: [1])  # type: ignore[arg-type, return-value]
BFLOAT16 = torch.ones(1, 2, dtype=torch.bfloat16)
COPY = "ElementWiseIdentityOperatorDesc makes a copy"
BUFFER = "TensorDesc.view: buffer must"
HAS = f"must be one that DirectML has ({DATA_TYPES.lower()}), got"
LACKED = ("bool", "bfloat16", "complex64")
ENDLESS = f"1{'0' * 58}…"
LISTS = "must be a list of whole numbers, got"

Refused = dict[str, Callable[[], object] | list[Callable[[], object]]]  # one call, or several that are alike

VALUES: Refused = {
    # Operators, of tensors other than described.
    "SPLIT: there must be 1 input tensor, got 0": lambda: SPLIT(),
    "REVERSE_SUBSEQUENCES: there must be 2 input tensors, got 1": lambda: REVERSE(WHOLE),
    "SPLIT: input_tensor must have dtype float32, got float64": lambda: SPLIT(WHOLE.double()),
    "SPLIT: input_tensor must have sizes [4, 6], got [6, 4]": lambda: SPLIT(WHOLE.t()),
    "JOIN: input_tensors[0] must have sizes [4, 6], got [4]": lambda: PADDED(torch.ones(4)),
    "REVERSE_SUBSEQUENCES: sequence_lengths_tensor must have dtype uint32, got int64": lambda: REVERSE(WHOLE, LENGTHS.long()),
    "SPLIT: out must be a list of 2 tensors, got a tensor": lambda: SPLIT(WHOLE, out=WHOLE[:, :2]),
    "SPLIT: out must be a list of 2 tensors, got a list of 1": lambda: SPLIT(WHOLE, out=[WHOLE[:, :2]]),
    "SPLIT: output_tensors[1] must have sizes [4, 4], got [4, 3]": lambda: SPLIT(WHOLE, out=[torch.ones(4, 2), torch.ones(4, 3)]),
    "JOIN: out must be a tensor, got a list of 1": lambda: PADDED(WHOLE, out=[torch.ones(4, 6)]),
    "JOIN: output_tensor must have strides [8, 1], got [6, 1]": lambda: PADDED(WHOLE, out=torch.ones(4, 6)),
    "REVERSE_SUBSEQUENCES: output_tensor must have strides [6, 1], got [1, 4]": lambda: REVERSE(WHOLE, LENGTHS, out=torch.ones(6, 4).t()),
    # Inputs that are owned by DirectML.
    "JOIN: initialize: input_tensors[0] must be given, as it is OWNED_BY_DML": [lambda: FIRST.initialize(), lambda: FIRST.initialize(input_tensors=[None] * 3)],
    "JOIN: initialize: input_tensors[1] must be None, as it is not OWNED_BY_DML": lambda: FIRST.initialize(input_tensors=[A, B, C]),
    "JOIN: initialize: input_tensors must have length 3, got 2": lambda: FIRST.initialize(input_tensors=[A, B]),
    "JOIN: initialize: input_tensors must have length 3, got 1": lambda: FIRST.initialize(input_tensors=A),
    "JOIN: initialize: input_tensors[0] must have sizes [1, 6], got [2, 6]": lambda: FIRST.initialize(input_tensors=[B, None, None]),
    "JOIN: input_tensors[0] is OWNED_BY_DML and must be given first; call initialize": lambda: FIRST(A, B, C),
    "JOIN: there must be 2 input tensors besides input_tensors[0], which initialize has bound, got 3": lambda: FIRST.initialize(input_tensors=[A, None, None])(A, B, C),
    "JOIN: initialize must not get output_tensor, as no input of this name is OWNED_BY_DML; those that are: " "input_tensors": lambda: FIRST.initialize(output_tensor=WHOLE),
    "REVERSE_SUBSEQUENCES: initialize must not get input_tensor, as no input of this name is OWNED_BY_DML; those that " "are: none": lambda: REVERSE.initialize(input_tensor=WHOLE),
    "CompiledGraph: inputs[1] is OWNED_BY_DML and must be given first; call initialize": lambda: SECOND(A, B, C),
    "CompiledGraph.initialize: there must be 1 tensor, one for each input that is OWNED_BY_DML, got 0": lambda: SECOND.initialize(),
    "CompiledGraph.initialize: there must be 1 tensor, one for each input that is OWNED_BY_DML, got 2": lambda: SECOND.initialize(B, B),
    "CompiledGraph.initialize: inputs[1] must have sizes [2, 6], got [1, 6]": lambda: SECOND.initialize(A),
    "CompiledGraph: there must be 2 input tensors besides inputs[1], which initialize has bound, got 3": lambda: SECOND.initialize(B)(A, B, C),
    "CompiledGraph.initialize: there must be 0 tensors, one for each input that is OWNED_BY_DML, got 1": lambda: graph_of(IDENTITY).initialize(WHOLE),
    # Graphs.
    "Graph.add: there must be 1 input for ELEMENT_WISE_IDENTITY, got 0": lambda: GRAPH.add(IDENTITY),
    "Graph.add: inputs[0] must be an expression of this graph, got one of another": lambda: Graph().add(IDENTITY, INPUT),
    "Graph.output: outputs[0] must be an expression of this graph, got one of another": lambda: Graph().output(INPUT),
    f"Graph.output: outputs[0] must be an output of a node, got an input; {COPY}": lambda: GRAPH.output(INPUT),
    "Graph.output: outputs[0] must be described as by its operator, TensorDesc(FLOAT32, [4, 6]), got "
    f"TensorDesc(FLOAT32, [24]); {COPY}": lambda: GRAPH.output(GRAPH.add(IDENTITY, INPUT).reinterpret(sizes=[24])),
    "CompiledGraph: there must be 2 input tensors, got 1": lambda: graph_of(REVERSE.desc)(WHOLE),
    "CompiledGraph: inputs[0] must have dtype float32, got float64": lambda: graph_of(IDENTITY)(WHOLE.double()),
    # Tensors and buffers.
    f"{BUFFER} have at least 8 bytes, got 7": lambda: TensorDesc(F32, [2]).view(bytes_of(7)),
    f"{BUFFER} be a 1-D contiguous uint8 tensor, got sizes [64], strides [1] and dtype float32": lambda: X.view(
        torch.zeros(64)
    ),
    f"{BUFFER} be a 1-D contiguous uint8 tensor, got sizes [8, 8], strides [8, 1] and dtype uint8": lambda: X.view(
        bytes_of(8, 8)
    ),
    f"{BUFFER} be a 1-D contiguous uint8 tensor, got sizes [32], strides [2] and dtype uint8": lambda: X.view(
        bytes_of(64)[::2]
    ),
    f"{BUFFER} begin at a multiple of 4 bytes, the size of FLOAT32, got an offset of 2": lambda: X.view(bytes_of(128)[2:]),
    **{f"TensorDesc.view: the data type must be one that torch has, got {name}": lambda name=name: TensorDesc(TensorDataType[name], [4]).view(bytes_of(64)) for name in ("UINT4", "INT4")},
    **{f"TensorDataType.of: dtype {HAS} {name}": lambda name=name: TensorDataType.of(getattr(torch, name)) for name in LACKED},
    **{f"TensorDesc.from_tensor: the dtype of tensor {HAS} {name}": lambda name=name: TensorDesc.from_tensor(torch.zeros(1, dtype=getattr(torch, name))) for name in LACKED},
    f"join: the dtype of tensors by a policy {HAS} bfloat16": lambda: directml.join([BFLOAT16], 0, tensor_policy=TensorPolicy.interleaved_channel()),
    # Names and numbers.
    "TensorFlags must be the number of a member (NONE, OWNED_BY_DML), got 2": lambda: TensorFlags(2),
    **{f"ExecutionFlags must be the number of a member ({EXECUTION_FLAGS}), got {n}": lambda n=n: directml.ExecutionFlags(n) for n in (8, -9)},
    f"FeatureLevel.parse: text must be one of {', '.join(map(str, FeatureLevel))}, got '6_5'": lambda: FeatureLevel.parse("6_5"),
    f"check_support: operator must be an operator of this package ({', '.join(OPERATORS)}), got 'GEMM'": lambda: directml.check_support("GEMM"),
    f"check_support: operator must be an operator of this package ({', '.join(OPERATORS)}), got 'INVALID'": lambda: directml.check_support(directml.OperatorType.INVALID),
}  # fmt: skip

DESCRIPTORS: Refused = {
    "ELEMENT_WISE_IDENTITY breaks a rule:\n  input_tensor must be described as inputs[0] is, TensorDesc(FLOAT32, "
    "[4, 6]), got TensorDesc(FLOAT32, [6, 4])": lambda: GRAPH.add(identity(*[TensorDesc(F32, [6, 4])] * 2), INPUT),
    "TensorDesc breaks a rule:\n  strides[0] must be from 0 to 4294967295, got -1": lambda: TensorDesc(F32, [2], strides=[-1]).view(bytes_of(64)),
    **{f"TensorDesc breaks a rule:\n  dimension_count must be from 1 to 8, got {rank}": (lambda rank=rank: TensorDesc(F32, [1] * rank).view(bytes_of(4))) for rank in (0, 9, 10)},
    "split: a tensor by tensor_policy breaks a rule:\n  strides must not lay elements of an output on one another, got [1, 1]": lambda: directml.split(WHOLE, 1, [6], tensor_policy=OVERLAPPING),
    "JOIN at feature level 6_4 breaks a rule:\n  output_tensor.strides must not lay elements of an output on one "
    "another, got [1, 1]": lambda: directml.JoinOperatorDesc.infer_output([X], 0, tensor_policy=OVERLAPPING),
}  # fmt: skip

make_tensor: Any = TensorDesc
make_support: Any = directml.Support
make_violation: Any = directml.Violation

TYPES: Refused = {
    "SPLIT: input_tensor must be a tensor, got list": lambda: SPLIT([1.0]),
    "SPLIT: out must be a tensor or a list of them, got int": lambda: SPLIT(WHOLE, out=1),
    "SPLIT: output_tensors[1] must be a tensor, got int": lambda: SPLIT(WHOLE, out=[torch.ones(4, 2), 1]),
    "JOIN: initialize: input_tensors must be a list of tensors, got 3": lambda: FIRST.initialize(input_tensors=3),
    "JOIN: initialize: input_tensors[0] must be a tensor, got int": lambda: FIRST.initialize(input_tensors=[1, None, None]),
    "Operator: desc must be a descriptor of an operator, got 'SPLIT'": lambda: Operator("SPLIT"),  # type: ignore[arg-type]
    "CompiledGraph: inputs[0] must be a tensor, got list": lambda: graph_of(IDENTITY)([[0.0] * 6] * 4),
    "TensorPolicy: what its function returns must be TensorProperties, got [1]": [
        lambda: directml.join([WHOLE], 0, tensor_policy=NO_PROPERTIES),
        lambda: directml.JoinOperatorDesc.infer_output([X], 0, tensor_policy=NO_PROPERTIES),
    ],
    "TensorDesc: data_type must be a TensorDataType, got 'FLOAT32'; write TensorDataType.FLOAT32": lambda: make_tensor("FLOAT32", [1]),
    f"TensorDesc: data_type must be a TensorDataType, got {ENDLESS}": lambda: make_tensor(HUGE, [1]),
    f"TensorDesc: sizes {LISTS} 3; write [3]": lambda: make_tensor(F32, 3),
    f"TensorDesc: sizes {LISTS} {2**63 - 1}; write [{2**63 - 1}]": lambda: make_tensor(F32, 2**63 - 1),
    f"TensorDesc: sizes {LISTS} {2**63}": lambda: make_tensor(F32, 2**63),
    f"TensorDesc: sizes {LISTS} '{'1' * 58}…": lambda: make_tensor(F32, "1" * 99),
    "TensorDesc: sizes[0] must be a whole number, got 0.5": lambda: make_tensor(F32, [0.5, HUGE]),
    "TensorDesc: flags must be TensorFlags, got 1": lambda: make_tensor(F32, [1], flags=1),
    "Slice1OperatorDesc: input_tensor must be a TensorDesc, got 'x'": lambda: op_desc("SLICE1", "x", X, [], [], []),
    "SplitOperatorDesc: output_tensors[0] must be a TensorDesc, got 1": lambda: op_desc("SPLIT", X, [1], 0),
    f"SliceOperatorDesc: offsets {LISTS} None": lambda: op_desc("SLICE", X, X, None, [], []),
    "ElementWiseIdentityOperatorDesc: scale_bias must be None, got tuple; elements are copied here, not computed": (lambda: op_desc("ELEMENT_WISE_IDENTITY", X, X, (2.0, 10.0))),
    "feature_level must be a FeatureLevel, got '6_4'; FeatureLevel.parse reads text": (
        lambda: VALID["SPLIT"].validate("6_4")  # type: ignore[arg-type]
    ),
    **{
        f"{desc.__name__}.infer_output: {sentence}": lambda desc=desc, given=given: desc.infer_output(*given)
        for desc, given, sentence in (
            (directml.SplitOperatorDesc, ([4, 6], 0, [4]), "input_tensor must be a TensorDesc, got [4, 6]"),
            (directml.SplitOperatorDesc, (X, 0, 4), f"output_axis_sizes {LISTS} 4; write [4]"),
            (directml.JoinOperatorDesc, ([X, None], 0), "input_tensors[1] must be a TensorDesc, got None"),
            (directml.Slice1OperatorDesc, (X, 0, 4, 1), f"input_window_sizes {LISTS} 4; write [4]"),
            (directml.SliceOperatorDesc, (X, [0], 4, [1]), f"sizes {LISTS} 4; write [4]"),
        )
    },
    "Violation: rule must be a string, or a tuple of strings and paths, got 3": lambda: make_violation(("x",), 3, 3),
    "Violation: rule[1] must be a tuple of names and indices, got 1.5": lambda: make_violation(("x",), ["is", 1.5], 3),
    # What has to be named.
    "InputGraphEdgeDesc.__init__() takes 1 positional argument but 4 were given": lambda: directml.InputGraphEdgeDesc(0, 0, 0),
    "TensorDesc.__init__() takes 3 positional arguments but 4 were given": [
        lambda: make_tensor(F32, [4], [4]),
        lambda: make_tensor(F32, [4], TensorFlags.NONE),
        lambda: make_tensor(F32, TensorFlags.OWNED_BY_DML, [4]),  # as pydirectml and DirectMLX have it
    ],
    "TensorDesc.__init__() takes 3 positional arguments but 5 were given": lambda: make_tensor(F32, [4], [1], TensorFlags.NONE),
    "Support.__init__() takes 3 positional arguments but 4 were given": lambda: make_support(range(1, 9), [F32], [F64]),
}  # fmt: skip

REFUSED: dict[type[Exception], Refused] = {ValueError: VALUES, directml.DescriptorError: DESCRIPTORS, TypeError: TYPES}


@pytest.mark.parametrize(
    ("kind", "sentence"), [(kind, sentence) for kind, rows in REFUSED.items() for sentence in rows]
)
def test_refused(kind: type[Exception], sentence: str) -> None:
    calls = REFUSED[kind][sentence]
    for call in calls if isinstance(calls, list) else [calls]:
        with pytest.raises(kind) as caught:
            call()
        assert str(caught.value) == sentence


@pytest.mark.parametrize(
    "sizes",
    [TensorFlags.NONE, TensorFlags.OWNED_BY_DML, I8, TensorDataType, True, 4, np.int64(4), torch.tensor(4)],
    ids=repr,
)
def test_what_is_no_list_of_sizes(sizes: Any) -> None:
    with pytest.raises(TypeError, match=f"^TensorDesc: sizes {LISTS} "):
        TensorDesc(F32, sizes)


def lists_of_numbers(desc: Any) -> list[str]:
    values = {field.name: getattr(desc, field.name) for field in fields(desc)}
    return [n for n, v in values.items() if isinstance(v, (list, tuple)) and all(isinstance(k, int) for k in v)]


@pytest.mark.parametrize(("op", "field"), [(op, name) for op, desc in VALID.items() for name in lists_of_numbers(desc)])
def test_what_is_no_list_of_a_descriptor(op: str, field: str) -> None:
    for value in (4, None, "4", {4}):
        with pytest.raises(TypeError, match=rf"^\w+: {field} {LISTS} "):
            replace(VALID[op], **{field: value})


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged], ids=str)
def test_a_nested_tensor_is_to_be_padded(layout: torch.layout) -> None:
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=layout)
    sentence = "tensor must be a strided tensor, got a nested one; call to_padded_tensor(0.0) first"
    with pytest.raises(ValueError, match=re.escape(sentence)):
        TensorDesc.from_tensor(nested)
