"""Operators made from descriptors: their results in every layout, what they refuse, derivatives and torch.compile."""

import copy
import dataclasses
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import oracle
import pytest
import torch
from descriptors.cases import F32, F64, OPERATORS, UINT32, arguments_of_infer_output, descs, op_desc, plain, window
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_cases import EXAMPLES, examples, values
from oracle import Block, Items, as_list
from torch import Tensor

import torch_dml_ops as dml
from torch_dml_ops import directml
from torch_dml_ops.directml import (
    DescriptorError,
    ElementWiseIdentityOperatorDesc,
    FeatureLevel,
    JoinOperatorDesc,
    Operator,
    OperatorDesc,
    ReverseSubsequencesOperatorDesc,
    Slice1OperatorDesc,
    SliceGradOperatorDesc,
    SliceOperatorDesc,
    SplitOperatorDesc,
    TensorDataType,
    TensorDesc,
    TensorFlags,
    TensorPolicy,
    TensorProperties,
)
from torch_dml_ops.directml._schema.json_text import dotted
from torch_dml_ops.directml.tensor_desc import packed_strides

# Buffers of bytes, which descriptors lie at the beginning of.


def block(desc: TensorDesc, seed: int) -> Block:
    total = desc.total_tensor_size_in_bytes
    assert total is not None
    memory = np.random.default_rng(seed).integers(0, 256, total, np.uint8)
    return Block(memory, desc.data_type.dtype, tuple(desc.sizes), desc.effective_strides, 0)


def viewed(desc: TensorDesc, block: Block) -> Tensor:
    return desc.view(torch.from_numpy(block.memory.copy()))


def expected(desc: Any, inputs: list[Block]) -> list[Items]:
    """By the operators' texts."""
    items = [b.items() for b in inputs]
    if isinstance(desc, SliceOperatorDesc):
        extents = [1 + (size - 1) * stride for size, stride in zip(desc.sizes, desc.strides, strict=True)]
        return [oracle.slice1(items[0], desc.offsets, extents, desc.strides, desc.sizes)]
    if isinstance(desc, SplitOperatorDesc):
        return oracle.split(items[0], [t.sizes[desc.axis] for t in desc.output_tensors], desc.axis)
    if isinstance(desc, JoinOperatorDesc):
        return [oracle.join(items, desc.axis)]
    if isinstance(desc, ReverseSubsequencesOperatorDesc):
        lengths = items[1].view(desc.sequence_lengths_tensor.data_type.name.lower())
        return [oracle.reverse_subsequences(items[0], lengths, desc.axis)]
    if isinstance(desc, ElementWiseIdentityOperatorDesc):
        return [items[0]]
    walk = desc.input_window_offsets, desc.input_window_sizes, desc.input_window_strides
    if isinstance(desc, SliceGradOperatorDesc):
        return [oracle.slice_grad(items[0], desc.output_gradient_tensor.sizes, *walk)]
    return [oracle.slice1(items[0], *walk, desc.output_tensor.sizes)]


@pytest.mark.parametrize("op", OPERATORS)
@settings(examples, max_examples=EXAMPLES // 2)
@given(st.data())
def test_results(op: str, data: st.DataObject) -> None:
    """Descriptors with any strides, padding and broadcasting, against the oracle; padding of outputs stays."""
    desc = data.draw(descs(op))
    operator = Operator(desc)
    inputs = [block(tensor, seed) for seed, (_, tensor) in enumerate(desc.inputs())]
    if isinstance(desc, ReverseSubsequencesOperatorDesc):
        size = desc.input_tensor.sizes[desc.axis]
        lengths = inputs[1].memory.view("<u4")
        lengths[:] = np.random.default_rng(0).integers(0, size + 3, len(lengths))
    given_inputs = [viewed(tensor, b) for (_, tensor), b in zip(desc.inputs(), inputs, strict=True)]
    wanted = expected(desc, inputs)

    for result, want, (_, tensor) in zip(as_list(operator(*given_inputs)), wanted, desc.outputs(), strict=True):
        assert oracle.equal(result, want)
        strides = zip(result.stride(), tensor.effective_strides, tensor.sizes, strict=True)
        assert all(size == 1 or stride == described for stride, described, size in strides)

    before = [block(tensor, 99) for _, tensor in desc.outputs()]
    outs = [viewed(tensor, b) for (_, tensor), b in zip(desc.outputs(), before, strict=True)]
    out: Any = outs if op == "SPLIT" else outs[0]
    assert operator(*given_inputs, out=out) is out
    for b, written, want in zip(before, outs, wanted, strict=True):
        assert oracle.storage_bytes(written).tobytes() == b.written(want).tobytes()


def test_example_2_of_slice1() -> None:
    x = TensorDesc(F32, [1, 1, 4, 4])
    walk = window([0, 0, 0, 1], [1, 1, 4, 3], [1, 1, -2, 2])
    desc = op_desc("SLICE1", x, Slice1OperatorDesc.infer_output(x, **walk), **walk)
    result = Operator(desc)(torch.arange(1.0, 17.0).reshape(1, 1, 4, 4))
    assert result.tolist() == [[[[14, 16], [6, 8]]]]


def test_padding_of_a_new_result_is_zero() -> None:
    x = TensorDesc(F32, [2, 2])
    y = TensorDesc(F32, [2, 2], strides=[5, 1], total_tensor_size_in_bytes=40)
    result = Operator(op_desc("SPLIT", x, [y], 0))(torch.ones(2, 2))[0]
    assert result.stride() == (5, 1)
    assert oracle.storage_bytes(result).view(np.float32).tolist() == [1, 1, 0, 0, 0, 1, 1]


@pytest.mark.parametrize("strides", [None, [5, 1]], ids=["packed", "padded"])
def test_what_follows_the_last_element_is_not_allocated(strides: list[int] | None) -> None:
    x = TensorDesc(F32, [2, 2])
    y = TensorDesc(F32, [2, 2], strides=strides, total_tensor_size_in_bytes=2**64 - 4)
    result = Operator(op_desc("JOIN", [x], y, 0))(torch.ones(2, 2))
    assert torch.equal(result, torch.ones(2, 2))
    assert result.untyped_storage().nbytes() == (28 if strides else 16)


def test_a_result_that_does_not_fit_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    tensors = TensorDesc(F64, [2]), TensorDesc(F64, [2], strides=[2**32 - 2])
    operator = Operator(op_desc("SPLIT", tensors[0], tensors[1:], 0))

    def refuse(*_: object) -> None:
        raise RuntimeError("DefaultCPUAllocator: not enough memory")

    monkeypatch.setattr(Tensor, "new_zeros", refuse)
    sentence = f"SPLIT: output_tensors[0] must fit into memory, and {(2**32 - 1) * 8} bytes do not"
    with pytest.raises(RuntimeError, match=f"^{re.escape(sentence)}$"):
        operator(torch.zeros(2, dtype=torch.float64))


def test_memory_that_the_function_itself_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dml, "split", lambda *_: [torch.empty(2**50, dtype=torch.uint8, device="cpu")])
    with pytest.raises(RuntimeError, match=r"^SPLIT: output_tensors must fit into memory, and 96 bytes do not$"):
        SPLIT(torch.ones(4, 6))

    def refuse(*_: object) -> None:
        raise RuntimeError("split: another thing")

    monkeypatch.setattr(dml, "split", refuse)
    with pytest.raises(RuntimeError, match=r"^split: another thing$"):
        SPLIT(torch.ones(4, 6))


def test_a_result_is_packed_where_the_descriptor_has_no_strides() -> None:
    x = torch.arange(6.0).reshape(3, 2).t()
    desc = TensorDesc(F32, [2, 3])
    result = Operator(op_desc("SPLIT", desc, [desc], 0))(x)[0]
    assert result.is_contiguous()
    assert torch.equal(result, x)


def test_a_tensor_that_repeats_may_have_more_elements_than_a_buffer() -> None:
    whole = TensorDesc(F32, [65536, 65537], strides=[0, 1])
    walk = window([65534, 65533], [2, 4], [1, 3])
    desc = op_desc("SLICE1", whole, Slice1OperatorDesc.infer_output(whole, **walk), **walk)
    x = torch.arange(65537.0).expand(65536, 65537)
    assert Operator(desc)(x).tolist() == [[65533, 65536]] * 2


# What is refused.

X = TensorDesc(F32, [4, 6])
SPLIT = Operator(op_desc("SPLIT", X, SplitOperatorDesc.infer_output(X, 1, [2, 4]), 1))
PADDED = Operator(op_desc("JOIN", [X], TensorDesc(F32, [4, 6], strides=[8, 1]), 0))
REVERSE = Operator(op_desc("REVERSE_SUBSEQUENCES", X, TensorDesc(UINT32, [4, 1]), X, 1))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: SPLIT(), "SPLIT: there must be 1 input tensors, got 0"),
        (lambda: REVERSE(torch.ones(4, 6)), "REVERSE_SUBSEQUENCES: there must be 2 input tensors, got 1"),
        (
            lambda: SPLIT(torch.ones(4, 6, dtype=torch.float64)),
            "SPLIT: input_tensor must have dtype float32, got float64",
        ),
        (lambda: SPLIT(torch.ones(6, 4)), "SPLIT: input_tensor must have sizes [4, 6], got [6, 4]"),
        (lambda: PADDED(torch.ones(4)), "JOIN: input_tensors[0] must have sizes [4, 6], got [4]"),
        (
            lambda: REVERSE(torch.ones(4, 6), torch.ones(4, 1, dtype=torch.int64)),
            "REVERSE_SUBSEQUENCES: sequence_lengths_tensor must have dtype uint32, got int64",
        ),
        (
            lambda: SPLIT(torch.ones(4, 6), out=torch.ones(4, 2)),
            "SPLIT: out must be a list of 2 tensors, got a tensor",
        ),
        (
            lambda: SPLIT(torch.ones(4, 6), out=[torch.ones(4, 2)]),
            "SPLIT: out must be a list of 2 tensors, got a list of 1",
        ),
        (
            lambda: SPLIT(torch.ones(4, 6), out=[torch.ones(4, 2), torch.ones(4, 3)]),
            "SPLIT: output_tensors[1] must have sizes [4, 4], got [4, 3]",
        ),
        (lambda: PADDED(torch.ones(4, 6), out=[torch.ones(4, 6)]), "JOIN: out must be a tensor, got a list of 1"),
        (
            lambda: PADDED(torch.ones(4, 6), out=torch.ones(4, 6)),
            "JOIN: output_tensor must have strides [8, 1], got [6, 1]",
        ),
        (
            lambda: REVERSE(
                torch.ones(4, 6), torch.ones(4, 1, dtype=torch.int64).to(torch.uint32), out=torch.ones(6, 4).t()
            ),
            "REVERSE_SUBSEQUENCES: output_tensor must have strides [6, 1], got [1, 4]",
        ),
    ],
)
def test_tensors_other_than_described(call: Callable[[], object], sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        call()


def test_an_out_may_have_any_stride_where_the_size_is_1() -> None:
    x = TensorDesc(F32, [2, 1, 3])
    out = torch.zeros(6).as_strided((2, 1, 3), (3, 100, 1))
    Operator(op_desc("ELEMENT_WISE_IDENTITY", x, x))(torch.ones(2, 1, 3), out=out)
    assert out.eq(1).all()


def test_no_tensors() -> None:
    with pytest.raises(TypeError, match=r"^SPLIT: input_tensor must be a tensor, got list$"):
        SPLIT([1.0])
    with pytest.raises(TypeError, match=r"^SPLIT: out must be a tensor or a list of them, got int$"):
        SPLIT(torch.ones(4, 6), out=1)
    with pytest.raises(TypeError, match=r"^SPLIT: output_tensors\[1\] must be a tensor, got int$"):
        SPLIT(torch.ones(4, 6), out=[torch.ones(4, 2), 1])


def test_operators_do_not_run_in_place() -> None:
    x = torch.ones(4, 6)
    with pytest.raises(RuntimeError, match=r"^split: out\[0\] must not share memory"):
        Operator(op_desc("SPLIT", X, [X], 0))(x, out=[x])


def test_only_valid_descriptors_make_operators() -> None:
    desc = plain("SPLIT", 1, F64)
    with pytest.raises(DescriptorError, match=r"^SPLIT at feature level 3_0 breaks 2 rules:"):
        Operator(desc, FeatureLevel.LEVEL_3_0)
    assert repr(Operator(desc)) == f"Operator({desc})"
    with pytest.raises(TypeError, match=r"^Operator: desc must be a descriptor of an operator, got 'SPLIT'$"):
        Operator("SPLIT")  # type: ignore[arg-type]


# Derivatives and torch.compile.

PADDED_64 = {"strides": [9, 1], "total_tensor_size_in_bytes": 400}


def differentiable(op: str, padded: bool) -> OperatorDesc:
    """A descriptor of FLOAT64 tensors, whose first output is padded or packed."""
    x, y, pieces = TensorDesc(F64, [3, 4]), TensorDesc(F64, [2, 2]), [TensorDesc(F64, [3, n]) for n in (1, 3)]
    walk = [0, 1], [3, 3], [-2, 2]
    fields: dict[str, tuple[Any, ...]] = {
        "SLICE": (x, y, [0, 1], [2, 2], [2, 2]),
        "SLICE1": (x, y, *walk),
        "SPLIT": (x, pieces, 1),
        "JOIN": (pieces, x, 1),
        "REVERSE_SUBSEQUENCES": (x, TensorDesc(UINT32, [3, 1]), x, 1),
        "SLICE_GRAD": (y, x, *walk),
        "ELEMENT_WISE_IDENTITY": (x, x),
    }
    desc = op_desc(op, *fields[op])
    if not padded:
        return desc
    (field,) = desc.output_fields
    if op == "SPLIT":
        first, *rest = desc.output_tensors
        return dataclasses.replace(desc, output_tensors=[dataclasses.replace(first, **PADDED_64), *rest])
    return dataclasses.replace(desc, **{field: dataclasses.replace(getattr(desc, field), **PADDED_64)})


def problem(op: str, padded: bool) -> tuple[Callable[..., Any], list[Tensor]]:
    """The operator as a function of its floating tensors, and those."""
    desc = differentiable(op, padded)
    operator = Operator(desc)
    xs = [values(t.sizes, torch.float64, seed) for seed, (_, t) in enumerate(desc.inputs()) if t.data_type == F64]
    lengths = torch.tensor([[2], [4], [0]]).to(torch.uint32)

    def call(*tensors: Tensor) -> Any:
        results = operator(*tensors, lengths) if op == "REVERSE_SUBSEQUENCES" else operator(*tensors)
        return tuple(results) if op == "SPLIT" else results

    return call, [x.requires_grad_() for x in xs]


every_problem = pytest.mark.parametrize(
    ("op", "padded"), [(op, padded) for op in OPERATORS for padded in (False, True)]
)


@every_problem
def test_derivatives(op: str, padded: bool) -> None:
    call, xs = problem(op, padded)
    assert torch.autograd.gradcheck(call, xs)
    assert torch.autograd.gradgradcheck(call, xs)


@every_problem
def test_compiles_into_one_graph(op: str, padded: bool) -> None:
    torch._dynamo.reset()
    call, xs = problem(op, padded)
    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    for result, want in zip(as_list(compiled(*xs)), as_list(call(*xs)), strict=True):
        assert torch.equal(result, want)
        assert result.stride() == want.stride()

    def loss(f: Callable[..., Any]) -> list[Tensor]:
        total = sum((t**3).sum() for t in as_list(f(*xs)))
        return list(torch.autograd.grad(total, xs))

    for actual, want in zip(loss(compiled), loss(call), strict=True):
        assert torch.equal(actual, want)


def test_out_compiles_too() -> None:
    torch._dynamo.reset()
    x, out = torch.arange(24.0).reshape(4, 6), torch.full((4, 8), -1.0)

    def call(x: Tensor, out: Tensor) -> Tensor:
        return PADDED(x, out=out[:, :6])

    torch.compile(call, fullgraph=True, backend="aot_eager")(x, out)
    assert torch.equal(out[:, :6], x)
    assert (out[:, 6:] == -1).all()


HALVES = Operator(op_desc("SPLIT", X, [TensorDesc(F32, [2, 6])] * 2, 0))
COPY = Operator(op_desc("SPLIT", X, [X], 0))
GRAD = "with out there is no automatic differentiation, and"


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize(
    ("call", "tensors", "sentence"),
    [
        (lambda x, y: HALVES(x, out=[y, y]), [(4, 6), (2, 6)], r"split: out\[1\] must not share memory with out\[0\]"),
        (
            lambda x, y: HALVES(x, out=[y[:2], y[1:]]),
            [(4, 6), (3, 6)],
            r"split: out\[1\] must not share memory with out\[0\]",
        ),
        (lambda x: COPY(x, out=[x]), [(4, 6)], r"split: out\[0\] must not share memory with input"),
        (lambda x: COPY(x[:4], out=[x[2:]]), [(6, 6)], r"split: out\[0\] must not share memory with input"),
        (lambda x: PADDED(x[:, :6], out=x[:, 2:]), [(4, 8)], r"join: out must not share memory with inputs\[0\]"),
        (
            lambda x, y: COPY(x, out=[y]),
            [(4, 6), "meta"],
            r"split: out\[0\] must be on the device of input, [\w:]+, got meta",
        ),
        (lambda x, y: COPY(x, out=[y]), ["grad", (4, 6)], rf"split: {GRAD} input requires grad"),
        (lambda x, y: PADDED(x, out=y[:, :6]), ["grad", (4, 8)], rf"join: {GRAD} inputs\[0\] requires grad"),
        (lambda x, y: COPY(x, out=[y]), [(4, 6), "grad"], rf"split: {GRAD} out\[0\] requires grad"),
    ],
)
def test_out_that_the_operator_refuses_stays_as_it_is(
    call: Callable[..., object], tensors: list[Any], sentence: str, compiled: bool
) -> None:
    def made(like: Any) -> Tensor:
        if like == "meta":
            return torch.zeros(4, 6, device="meta")
        return values((4, 6), torch.float32).requires_grad_() if like == "grad" else values(like, torch.float32)

    xs = [made(like) for like in tensors]
    before = [x.detach().clone() for x in xs]
    torch._dynamo.reset()
    with pytest.raises(RuntimeError, match=sentence):
        (torch.compile(call, fullgraph=True, backend="eager") if compiled else call)(*xs)
    assert all(x.is_meta or torch.equal(x, y) for x, y in zip(xs, before, strict=True))
    assert not any(x.grad_fn for x in xs)


def test_compiled_out_without_grad_mode() -> None:
    torch._dynamo.reset()
    x, out = torch.ones(4, 6, requires_grad=True), torch.zeros(4, 6)
    with torch.no_grad():
        assert torch.compile(COPY, fullgraph=True, backend="aot_eager")(x, out=[out])[0] is out
    assert torch.equal(out, x)
    assert not out.requires_grad


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda operator: pickle.loads(pickle.dumps(operator))])
@pytest.mark.parametrize("op", OPERATORS)
def test_copies(op: str, copied: Callable[[Operator], Operator]) -> None:
    operator = Operator(plain(op, 2, F32))
    again = copied(operator)
    inputs = [torch.ones(t.sizes).to(t.data_type.dtype) for _, t in operator.desc.inputs()]
    assert again.desc == operator.desc
    for result, want in zip(as_list(again(*inputs)), as_list(operator(*inputs)), strict=True):
        assert torch.equal(result, want)


@pytest.mark.parametrize("op", OPERATORS)
def test_operators_of_equal_descriptors_are_equal(op: str) -> None:
    operator, again, other = Operator(plain(op, 2, F32)), Operator(plain(op, 2, F32)), Operator(plain(op, 2, F64))
    assert operator == again
    assert hash(operator) == hash(again)
    assert operator != other
    assert operator != operator.desc


# Inputs that are owned by DirectML.

OWNED = TensorFlags.OWNED_BY_DML


def owned(desc: Any, *fields: str) -> Any:
    """With the flag on these inputs: ``input_tensors[1]``."""
    for field in fields:
        name, _, entry = field.rstrip("]").partition("[")
        value = getattr(desc, name)
        if entry:
            changed: Any = [dataclasses.replace(t, flags=OWNED) if k == int(entry) else t for k, t in enumerate(value)]
        else:
            changed = dataclasses.replace(value, flags=OWNED)
        desc = dataclasses.replace(desc, **{name: changed})
    return desc


THREE = [TensorDesc(F32, [1, 6]), TensorDesc(F32, [2, 6]), TensorDesc(F32, [1, 6])]
JOIN = op_desc("JOIN", THREE, X, 0)


@pytest.mark.parametrize("op", OPERATORS)
@settings(examples, max_examples=30)
@given(st.data())
def test_owned_inputs_give_the_same_results(op: str, data: st.DataObject) -> None:
    desc = data.draw(descs(op))
    xs = [viewed(tensor, block(tensor, seed)) for seed, (_, tensor) in enumerate(desc.inputs())]
    chosen = [data.draw(st.booleans()) for _ in xs]
    names = [dotted(path) for path, _ in desc.inputs()]
    changed = owned(desc, *(name for name, is_owned in zip(names, chosen, strict=True) if is_owned))
    bound: dict[str, Any] = {}
    for (path, _), x, is_owned in zip(desc.inputs(), xs, chosen, strict=True):
        if len(path) == 2 and any(chosen):
            bound.setdefault(str(path[0]), []).append(x if is_owned else None)
        elif is_owned:
            bound[str(path[0])] = x
    operator = Operator(changed).initialize(**bound)
    rest = [x for x, is_owned in zip(xs, chosen, strict=True) if not is_owned]
    for result, want in zip(as_list(operator(*rest)), as_list(Operator(desc)(*xs)), strict=True):
        strides = zip(result.stride(), want.stride(), want.shape, strict=True)
        assert all(size == 1 or stride == other for stride, other, size in strides)
        assert result.numpy().tobytes() == want.numpy().tobytes()


def test_owned_inputs_are_read_once() -> None:
    constant, x, y = torch.ones(2, 6), torch.full((1, 6), 2.0), torch.full((1, 6), 3.0)
    plain_join = Operator(owned(JOIN, "input_tensors[1]"))
    join = plain_join.initialize(input_tensors=[None, constant, None])
    constant.zero_()
    out = torch.zeros(4, 6)
    assert join(x, y)[:, 0].tolist() == join(x, y, out=out)[:, 0].tolist() == out[:, 0].tolist() == [2, 1, 1, 3]
    again = join.initialize(input_tensors=(t for t in (None, constant, None)))
    assert again(x, y)[:, 0].tolist() == [2, 0, 0, 3]
    assert join(x, y)[:, 0].tolist() == [2, 1, 1, 3]
    with pytest.raises(ValueError, match=r"call initialize$"):
        plain_join(x, y)  # which has stayed as it was
    assert plain_join != join != again
    assert join == copy.copy(join)


def test_all_inputs_may_be_owned() -> None:
    x, lengths = torch.arange(24.0).reshape(4, 6), torch.tensor([[2], [0], [6], [1]]).to(torch.uint32)
    reverse = Operator(owned(REVERSE.desc, "input_tensor", "sequence_lengths_tensor"))
    assert torch.equal(reverse.initialize(input_tensor=x, sequence_lengths_tensor=lengths)(), REVERSE(x, lengths))
    assert torch.equal(REVERSE.initialize()(x, lengths), REVERSE(x, lengths))  # nothing to bind


def test_owned_inputs_get_no_gradient_and_compile() -> None:
    torch._dynamo.reset()
    constant = torch.ones(2, 6, requires_grad=True)
    join = Operator(owned(JOIN, "input_tensors[1]")).initialize(input_tensors=[None, constant, None])
    x, y = (torch.ones(1, 6, requires_grad=True) for _ in range(2))
    compiled = torch.compile(lambda x, y: join(x, y).sum() * 3, fullgraph=True, backend="aot_eager")
    compiled(x, y).backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[3.0] * 6]
    assert constant.grad is None


PIECES = [torch.ones(1, 6), torch.ones(2, 6), torch.ones(1, 6)]
NOTHING = object()


@pytest.mark.parametrize(
    ("given", "error", "sentence"),
    [
        (NOTHING, ValueError, "input_tensors[0] must be given, as it is OWNED_BY_DML"),
        ([None] * 3, ValueError, "input_tensors[0] must be given, as it is OWNED_BY_DML"),
        (PIECES, ValueError, "input_tensors[1] must be None, as it is not OWNED_BY_DML"),
        (PIECES[:2], ValueError, "input_tensors must have length 3, got 2"),
        (PIECES[0], ValueError, "input_tensors must have length 3, got 1"),
        (3, TypeError, "input_tensors must be a list of tensors, got 3"),
        ([1, None, None], TypeError, "input_tensors[0] must be a tensor, got int"),
        ([PIECES[1], None, None], ValueError, "input_tensors[0] must have sizes [1, 6], got [2, 6]"),
    ],
)
def test_what_initialize_refuses(given: Any, error: type[Exception], sentence: str) -> None:
    join = Operator(owned(JOIN, "input_tensors[0]"))
    with pytest.raises(error, match=f"^{re.escape(f'JOIN: initialize: {sentence}')}$"):
        join.initialize(**({} if given is NOTHING else {"input_tensors": given}))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda j: j(*PIECES), "JOIN: input_tensors[0] is OWNED_BY_DML and must be given first; call initialize"),
        (
            lambda j: j.initialize(input_tensors=[PIECES[0], None, None])(*PIECES),
            "JOIN: there must be 2 input tensors besides input_tensors[0], which initialize has bound, got 3",
        ),
        (
            lambda j: j.initialize(output_tensor=torch.ones(4, 6)),
            "JOIN: initialize must not get output_tensor, as no input of this name is OWNED_BY_DML; those that are: "
            "input_tensors",
        ),
        (
            lambda _: REVERSE.initialize(input_tensor=torch.ones(4, 6)),
            "REVERSE_SUBSEQUENCES: initialize must not get input_tensor, as no input of this name is OWNED_BY_DML; "
            "those that are: none",
        ),
    ],
)
def test_owned_and_given_inputs_are_told_apart(call: Callable[[Operator], object], sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        call(Operator(owned(JOIN, "input_tensors[0]")))


# Layouts.

IMAGE = torch.arange(2 * 3 * 4 * 5.0).reshape(2, 3, 4, 5)
BACKWARDS = [0, 0, 0, 0], [2, 3, 4, 5], [1, 1, -1, 2]
CALLS: dict[str, Callable[..., Any]] = {
    "slice_": lambda x, **more: directml.slice_(x, *BACKWARDS, **more),
    "slice_grad": lambda x, **more: directml.slice_grad(x, [3, 3, 5, 9], [0] * 4, [2, 3, 4, 9], [1, 1, -1, 2], **more),
    "split": lambda x, **more: directml.split(x, 1, [1, 2], **more),
    "join": lambda x, **more: directml.join([x, x], 0, **more),
    "reverse_subsequences": lambda x, **more: directml.reverse_subsequences(x, torch.full((2, 3, 1, 5), 3), 2, **more),
}


def taken_strides(x: Tensor) -> list[int]:
    """Without those of dimensions of size 1, where torch writes what it likes."""
    return [stride for size, stride in zip(x.shape, x.stride(), strict=True) if size > 1]


def channels_last(x: Tensor) -> Tensor:
    """As torch has it."""
    formats = {3: lambda t: t.transpose(1, 2).contiguous().transpose(1, 2), 5: torch.channels_last_3d}
    chosen: Any = formats.get(x.dim(), torch.channels_last)
    return chosen(x) if callable(chosen) else x.contiguous(memory_format=chosen)


@pytest.mark.parametrize("given", ["packed", "channels last", "transposed"])
@pytest.mark.parametrize("function", CALLS)
def test_layouts_of_results(function: str, given: str) -> None:
    x = {
        "packed": IMAGE,
        "channels last": channels_last(IMAGE),
        "transposed": IMAGE.permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0),
    }[given]
    packed = as_list(CALLS[function](x))
    wanted = as_list(CALLS[function](IMAGE))
    assert all(result.is_contiguous() for result in packed)
    interleaved = as_list(CALLS[function](x, tensor_policy=TensorPolicy.interleaved_channel()))
    padded = TensorPolicy(lambda _, __, sizes: TensorProperties([s * 2 for s in packed_strides(sizes)]))
    for result, want in zip(interleaved, wanted, strict=True):
        assert torch.equal(result, want)
        assert taken_strides(result) == taken_strides(channels_last(want))
    for result, want in zip(as_list(CALLS[function](x, tensor_policy=padded)), wanted, strict=True):
        assert torch.equal(result, want)
        assert result.stride() == tuple(2 * s for s in want.stride())


@pytest.mark.parametrize("sizes", [[4], [2, 3], [2, 3, 4], [2, 3, 4, 5], [2, 3, 4, 5, 6]])
def test_interleaved_channel(sizes: list[int]) -> None:
    """NC, NWC, NHWC, NDHWC."""
    order = [0, *range(2, len(sizes)), 1][: len(sizes)]
    x = torch.zeros([sizes[d] for d in order])
    expected = tuple(x.stride()[order.index(d)] for d in range(len(sizes)))
    properties = TensorPolicy.interleaved_channel().get(F32, TensorFlags.NONE, sizes)
    assert tuple(properties.strides or ()) == expected
    desc = TensorDesc(F32, sizes)
    (inferred,) = SplitOperatorDesc.infer_output(desc, 0, sizes[:1], tensor_policy=TensorPolicy.interleaved_channel())
    assert inferred == TensorDesc(F32, sizes, strides=expected)
    assert inferred.minimum_size_in_bytes == desc.minimum_size_in_bytes


@pytest.mark.parametrize("op", OPERATORS)
@settings(examples, max_examples=20)
@given(st.data())
def test_inferred_outputs_lie_as_the_policy_says(op: str, data: st.DataObject) -> None:
    desc: Any = data.draw(descs(op))
    arguments = arguments_of_infer_output(desc)
    seen = []

    def choose(data_type: TensorDataType, flags: TensorFlags, sizes: tuple[int, ...]) -> TensorProperties:
        seen.append((data_type, flags, sizes))
        return TensorProperties(
            [2 * s for s in packed_strides(sizes)],
            total_tensor_size_in_bytes=4096 * 64,
            guaranteed_base_offset_alignment=64,
        )

    inferred = type(desc).infer_output(**arguments, tensor_policy=TensorPolicy(choose))
    made = list(inferred) if op == "SPLIT" else [inferred]
    assert seen == [(t.data_type, TensorFlags.NONE, t.sizes) for t in made]
    for tensor in made:
        assert tensor.strides == tuple(2 * s for s in packed_strides(tensor.sizes))
        assert (tensor.total_tensor_size_in_bytes, tensor.guaranteed_base_offset_alignment) == (4096 * 64, 64)
    dataclasses.replace(desc, **{desc.output_fields[0]: inferred}).validate()


def test_policies_that_are_refused() -> None:
    overlapping = TensorPolicy(lambda _, __, sizes: TensorProperties([1] * len(sizes)))
    with pytest.raises(
        DescriptorError, match=r"^split: a tensor by tensor_policy breaks a rule:\n  strides must not lay "
    ):
        directml.split(IMAGE, 1, [1, 2], tensor_policy=overlapping)
    with pytest.raises(DescriptorError, match=r"output_tensor.strides must not lay elements"):
        JoinOperatorDesc.infer_output([X], 0, tensor_policy=overlapping)
    wrong: Any = TensorPolicy(lambda *_: [1])  # type: ignore[arg-type, return-value]
    sentence = r"^TensorPolicy: what its function returns must be TensorProperties, got \[1\]$"
    for call in (
        lambda: directml.join([IMAGE], 0, tensor_policy=wrong),
        lambda: JoinOperatorDesc.infer_output([X], 0, tensor_policy=wrong),
    ):
        with pytest.raises(TypeError, match=sentence):
            call()
    with pytest.raises(
        ValueError, match=r"^join: the dtype of tensors by a policy must be one that DirectML has .* bfloat16$"
    ):
        directml.join([IMAGE.bfloat16()], 0, tensor_policy=TensorPolicy.interleaved_channel())
    assert directml.join([IMAGE.bfloat16()], 0).is_contiguous()


def test_a_layout_compiles_before_anything_else_was_done() -> None:
    """What descriptors look up once in a process, torch.compile could not."""
    program = (
        "import torch\n"
        "from torch_dml_ops import directml\n"
        "layout = {'tensor_policy': directml.TensorPolicy.interleaved_channel()}\n"
        "split = torch.compile(lambda x: directml.split(x, 1, [2], **layout), fullgraph=True, backend='eager')\n"
        "assert split(torch.ones(1, 2, 3))[0].stride() == (6, 1, 2)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_layouts_compile_and_differentiate() -> None:
    def call(x: Tensor) -> Tensor:
        return directml.slice_(x, *BACKWARDS, tensor_policy=TensorPolicy.interleaved_channel())

    torch._dynamo.reset()
    x = channels_last(IMAGE.double()).requires_grad_()
    result = torch.compile(call, fullgraph=True, backend="aot_eager")(x)
    assert torch.equal(result, call(x))
    assert result.stride() == call(x).stride()
    small = torch.rand(1, 2, 4, 3, dtype=torch.float64, requires_grad=True)
    window = [0, 0, 0, 0], [1, 2, 4, 3], [1, 1, -1, 2]
    policy = TensorPolicy.interleaved_channel()
    assert torch.autograd.gradcheck(lambda t: directml.slice_(t, *window, tensor_policy=policy), [small])


# DirectMLX's functions.


def test_directmlx_functions() -> None:
    x = torch.arange(24).reshape(4, 6)
    walk = [0, 1], [4, 5], [-2, 2]
    assert torch.equal(directml.slice_(x, *walk), dml.slice1(x, *walk))
    part = directml.slice_(x, *walk)
    assert torch.equal(directml.slice_grad(part, [4, 6], *walk), dml.slice_grad(part, [4, 6], *walk))
    split = directml.split(x, 1, [2, 4])
    assert [t.tolist() for t in split] == [t.tolist() for t in dml.split(x, [2, 4], 1)]
    assert torch.equal(directml.join(split, 1), x)
    lengths = torch.tensor([[2], [6], [0], [9]])
    assert torch.equal(directml.reverse_subsequences(x, lengths, 1), dml.reverse_subsequences(x, lengths, 1))
    with pytest.raises(RuntimeError, match=r"^split: split_sizes must sum to 6, .*, got \[2, 5\]$"):
        directml.split(x, 1, [2, 5])


def test_directmlx_functions_compile_and_differentiate() -> None:
    def call(x: Tensor) -> Tensor:
        left, right = directml.split(directml.slice_(x, [0, 0], [3, 4], [-1, 1]), 1, [1, 3])
        lengths = torch.tensor([[2], [4], [0]])
        y = directml.reverse_subsequences(directml.join([right, left], 1), lengths, 1)
        return directml.slice_grad(y, [5, 7], [1, 2], [3, 4], [1, -1])

    torch._dynamo.reset()
    x = values((3, 4)).requires_grad_()
    assert torch.equal(torch.compile(call, fullgraph=True, backend="aot_eager")(x), call(x))
    assert torch.autograd.gradcheck(call, [x])


def test_directmlx_functions_are_traced() -> None:
    def call(x: Tensor) -> Tensor:
        left, right = directml.split(directml.slice_(x, [0, 0], [3, 4], [-1, 1]), 1, [1, 3])
        return directml.join([right, left], 1)

    x = values((3, 4), torch.float32)
    assert torch.equal(torch.fx.symbolic_trace(call)(x), call(x))
