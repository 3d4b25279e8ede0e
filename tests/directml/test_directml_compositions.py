"""Operators of descriptors, graphs of them and DirectMLX's functions: derivatives, vmap and torch.compile."""

import copy
import pickle
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from descriptors.cases import F32, F64, OPERATORS, UINT32, op_desc, window, with_tensor
from descriptors.graphs import identity
from descriptors.rules import VALID
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend
from transform_cases import Case, by_name, gradients, in_a_backward_pass, same

import torch_dml_ops as dml
from torch_dml_ops import directml
from torch_dml_ops.directml import Graph, Operator, TensorDesc, TensorPolicy, TensorProperties


def of_operator(op: str, padded: bool) -> Case:
    """The operator as a function of its floating tensors, whose first result is padded or not."""
    desc = VALID[op]
    for path, tensor in (*desc.inputs(), *desc.outputs()):
        if tensor.data_type == F32:
            desc = with_tensor(desc, path, data_type=F64, total_tensor_size_in_bytes=None)
    if padded:
        desc = with_tensor(desc, desc.outputs()[0][0], strides=[9, 1], total_tensor_size_in_bytes=400)
    operator = Operator(desc)
    lengths = [torch.tensor([[2], [6], [0], [9]]).to(torch.uint32)] if op == "REVERSE_SUBSEQUENCES" else []
    sizes = tuple(tuple(tensor.sizes) for _, tensor in desc.inputs() if tensor.data_type == F64)
    return Case(f"{op}{' padded' * padded}", lambda _, *xs: operator(*xs, *lengths), sizes)


def of_graph() -> Case:
    """Every operator, edges that reinterpret, a tensor that is read twice, paddings that are read."""
    x, padded = TensorDesc(F64, [3, 4]), TensorDesc(F64, [3, 4], strides=[5, 1], total_tensor_size_in_bytes=15 * 8)
    graph = Graph()
    a, lengths = graph.input(x), graph.input(TensorDesc(UINT32, [3, 1]))
    copied = graph.add(identity(x, padded), a)
    whole = copied.reinterpret(sizes=[5, 3], strides=[1, 5])  # transposed, with the padding
    row = graph.input(TensorDesc(F64, [1, 4]))
    rows = row.reinterpret(sizes=[3, 4], strides=[0, 1])
    both = graph.add(op_desc("JOIN", [x, rows.output_desc], TensorDesc(F64, [6, 4]), 0), a, rows)
    reverse = op_desc("REVERSE_SUBSEQUENCES", x, lengths.output_desc, x, 1)
    pieces = [TensorDesc(F64, [5, 1]), TensorDesc(F64, [5, 2])]
    split = op_desc("SPLIT", whole.output_desc, pieces, 1)
    graph.output(*graph.add(split, whole), both, graph.add(reverse, a, lengths))
    walk = op_desc("SLICE1", x, TensorDesc(F64, [2, 2]), **window([0, 1], [3, 3], [-2, 2]))
    graph.output(graph.add(walk, a))
    run, counts = graph.compile(), torch.tensor([[2], [4], [0]]).to(torch.uint32)
    return Case("graph", lambda _, a, row: run(a, counts, row), ((3, 4), (1, 4)))


def directmlx(_: object, x: Tensor) -> Tensor:
    left, right = directml.split(directml.slice_(x, [0, 0], [3, 4], [-1, 1]), 1, [1, 3])
    lengths = torch.tensor([[2], [4], [0]], device=x.device)
    y = directml.reverse_subsequences(directml.join([right, left], 1), lengths, 1)
    return directml.slice_grad(y, [5, 7], [1, 2], [3, 4], [1, -1])


def interleaved(_: object, x: Tensor) -> Tensor:
    last = x.movedim(1, -1).contiguous().movedim(-1, 1)
    policy = TensorPolicy.interleaved_channel()
    return directml.slice_(last, [0, 0, 0, 0], [1, 2, 4, 3], [1, 1, -1, 2], tensor_policy=policy)


CASES = (
    *(of_operator(op, padded) for op in OPERATORS for padded in (False, True)),
    Case("DirectMLX", directmlx, ((3, 4),)),
    Case("DirectMLX with a layout", interleaved, ((1, 2, 4, 3),)),
    of_graph(),
)


def function_of(case: Case) -> Callable[..., tuple[Tensor, ...]]:
    return lambda *xs: tuple(case.results(dml, *xs))


@by_name(CASES)
def test_derivatives(case: Case) -> None:
    xs = [x.requires_grad_() for x in case.tensors()]
    assert torch.autograd.gradcheck(function_of(case), xs, check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(function_of(case), xs)


@by_name(CASES)
def test_vmap(case: Case) -> None:
    call, batches = function_of(case), [torch.stack([x, x * 2, x + 1]) for x in case.tensors()]
    one_by_one = [call(*xs) for xs in zip(*batches, strict=True)]
    same(torch.func.vmap(call)(*batches), tuple(map(torch.stack, zip(*one_by_one, strict=True))))


@pytest.mark.parametrize(
    ("case", "backend"),
    [*((case, "aot_eager") for case in CASES), (CASES[-1], "inductor")],
    ids=lambda value: getattr(value, "name", value),
)
def test_compiles_into_one_graph(case: Case, backend: str, fresh_compiler: None) -> None:
    call, xs = function_of(case), [x.requires_grad_() for x in case.tensors()]
    counter = CompileCounterWithBackend(backend)
    compiled = torch.compile(call, fullgraph=True, backend=counter)
    with torch.no_grad():
        for result, want in zip(compiled(*xs), call(*xs), strict=True):
            assert torch.equal(result, want)
            assert result.stride() == want.stride()
    assert counter.frame_count == 1

    def loss(f: Callable[..., Any]) -> list[Tensor]:
        return list(torch.autograd.grad(sum((t**3).sum() for t in f(*xs)), xs))

    for actual, want in zip(loss(compiled), loss(call), strict=True):
        assert torch.equal(actual, want)
    assert counter.frame_count == 2


@by_name(CASES)
def test_a_backward_pass_of_somebody_else(case: Case, fresh_compiler: None) -> None:
    f, tensors = in_a_backward_pass(function_of(case)), case.tensors()
    compiled = torch.compile(f, fullgraph=True, backend="aot_eager")
    same(gradients(compiled, *tensors), gradients(f, *tensors))


@pytest.mark.parametrize("strides", [[1, 1], [0, 1], [2, 1], [1, 2]], ids=str)
def test_a_layout_with_elements_on_one_another_is_refused_wherever_it_is_traced(
    strides: list[int], fresh_compiler: None
) -> None:
    policy = TensorPolicy(lambda *_: TensorProperties(strides))

    class Sliced(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return directml.slice_(x, [0, 0], [2, 2], [1, 1], tensor_policy=policy)

    x, module = torch.arange(4.0).reshape(2, 2), Sliced()
    for f in (
        module,
        torch.compile(module, backend="aot_eager"),
        torch.compile(module, backend="aot_eager", fullgraph=True, dynamic=True),
        lambda x: torch.export.export(module, (x,)).module()(x),
    ):
        if len({i * strides[0] + j * strides[1] for i in range(2) for j in range(2)}) == 4:
            assert f(x).tolist() == x.tolist()
        else:
            with pytest.raises((ValueError, torch._dynamo.exc.Unsupported), match=r"on one another|must not be 0"):
                f(x)


BREAKING = [
    *map(TensorProperties, ([1], [-6, 2, 1], [2**33, 2, 1], [3, 3, 1])),
    *(TensorProperties(total_tensor_size_in_bytes=n) for n in (4, 49)),
    *(TensorProperties(guaranteed_base_offset_alignment=n) for n in (2, 24)),
]


@pytest.mark.parametrize("properties", BREAKING, ids=str)
def test_compiled_code_refuses_the_policies_of_eager_mode(properties: TensorProperties, fresh_compiler: None) -> None:
    def sliced(x: Tensor) -> Tensor:
        return directml.slice_(x, [0, 0, 0], [2, 2, 3], [1, 1, 1], tensor_policy=policy)

    policy, x = TensorPolicy(lambda *_: properties), torch.zeros(2, 2, 3)
    with pytest.raises(directml.DescriptorError) as refused:
        sliced(x)
    with pytest.raises(directml.DescriptorError, match=f"^{re.escape(str(refused.value))}$"):
        torch.compile(sliced, backend="aot_eager")(x)
    torch._dynamo.reset()  # which leaves to eager mode what it has given up once
    with pytest.raises(torch._dynamo.exc.Unsupported, match=r"slice_: a tensor by tensor_policy.* must"):
        torch.compile(sliced, backend="aot_eager", fullgraph=True)(x)


@pytest.mark.parametrize(
    "kept",
    [
        [TensorProperties((n, 3, 1)) for n in (6, 8, 20)],
        [TensorProperties(total_tensor_size_in_bytes=n) for n in (48, 52, 64)],
        [TensorProperties(guaranteed_base_offset_alignment=n) for n in (16, 64, 128)],
    ],
    ids=["strides", "total size", "alignment"],
)
def test_compiled_code_takes_one_policy_after_another(kept: list[TensorProperties], fresh_compiler: None) -> None:
    def sliced(x: Tensor, policy: TensorPolicy) -> Tensor:
        return directml.slice_(x, [0, 0, 0], list(x.shape), [1, 1, -1], tensor_policy=policy)

    def policy_of(properties: TensorProperties) -> TensorPolicy:
        """One whose numbers Dynamo takes for symbols when they differ."""
        return TensorPolicy(lambda *_: properties)

    compiled: Callable[..., Tensor] = torch.compile(sliced, backend="aot_eager", fullgraph=True)
    x = torch.arange(12.0).reshape(2, 2, 3)
    for properties in kept:
        result = compiled(x, policy_of(properties))
        assert torch.equal(result, x.flip(2))
        assert result.stride() == (properties.strides or (6, 3, 1))


def test_sizes_of_an_exported_program_have_no_bounds_by_a_policy() -> None:
    class Sliced(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return directml.slice_(x, [0, 0, 0], list(x.shape), [1, 1, -1], tensor_policy=policy)

    policy, n = TensorPolicy.interleaved_channel(), torch.export.Dim("n")
    program = torch.export.export(Sliced(), (torch.zeros(3, 4, 5),), dynamic_shapes=({0: n, 2: n + 2},)).module()
    result = program(x := torch.rand(5, 4, 7))
    assert torch.equal(result, x.flip(2))
    assert result.stride() == (28, 1, 4)


@pytest.mark.parametrize("policy", [TensorPolicy.default(), TensorPolicy.interleaved_channel()], ids=repr)
def test_a_copied_policy_is_the_same(policy: TensorPolicy) -> None:
    for again in (copy.copy(policy), copy.deepcopy([policy])[0], pickle.loads(pickle.dumps(policy))):
        assert again is policy
    of_somebody = TensorPolicy(len)  # type: ignore[arg-type]  # what it gives does not matter here
    assert copy.deepcopy(of_somebody)._function is pickle.loads(pickle.dumps(of_somebody))._function is len
