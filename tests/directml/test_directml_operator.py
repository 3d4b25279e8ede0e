"""Operators made from descriptors: their results in every layout, out that is refused or compiled, layouts."""

import copy
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
from descriptors.cases import F32, F64, OPERATORS, descs, op_desc, owned, plain, window
from descriptors.rules import VALID, X
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import Block, Items, as_list
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx
from transform_cases import EXAMPLES, examples, values

import torch_dml_ops as dml
from torch_dml_ops import directml
from torch_dml_ops.directml import Operator, Slice1OperatorDesc, SplitOperatorDesc, TensorDesc, TensorPolicy
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
    if isinstance(desc, directml.SliceOperatorDesc):
        extents = [1 + (size - 1) * stride for size, stride in zip(desc.sizes, desc.strides, strict=True)]
        return [oracle.slice1(items[0], desc.offsets, extents, desc.strides, desc.sizes)]
    if isinstance(desc, SplitOperatorDesc):
        return oracle.split(items[0], [t.sizes[desc.axis] for t in desc.output_tensors], desc.axis)
    if isinstance(desc, directml.JoinOperatorDesc):
        return [oracle.join(items, desc.axis)]
    if isinstance(desc, directml.ReverseSubsequencesOperatorDesc):
        lengths = items[1].view(desc.sequence_lengths_tensor.data_type.name.lower())
        return [oracle.reverse_subsequences(items[0], lengths, desc.axis)]
    if isinstance(desc, directml.ElementWiseIdentityOperatorDesc):
        return [items[0]]
    walk = desc.input_window_offsets, desc.input_window_sizes, desc.input_window_strides
    if isinstance(desc, directml.SliceGradOperatorDesc):
        return [oracle.slice_grad(items[0], desc.output_gradient_tensor.sizes, *walk)]
    return [oracle.slice1(items[0], *walk, desc.output_tensor.sizes)]


@pytest.mark.parametrize("strides", [None, [8, 2]], ids=["packed", "strided"])
def test_an_identity_may_write_into_its_input(strides: list[int] | None) -> None:
    """Which stays as it is, read in the same strides from the same place, and no otherwise."""
    desc = TensorDesc(F32, [2, 3], strides=strides)
    identity = Operator(directml.ElementWiseIdentityOperatorDesc(input_tensor=desc, output_tensor=desc))
    memory = torch.arange(40.0)
    expected = memory.tolist()

    def read(offset: int = 0) -> Tensor:
        return memory.as_strided([2, 3], desc.effective_strides, offset)

    x = read()
    for out in (x, x[:], read()):
        assert identity(x, out=out) is out
    assert torch.compile(lambda x: identity(x, out=x), backend="eager", fullgraph=True)(x) is x
    for mode in ("real", "fake", "symbolic"):
        traced = make_fx(lambda x, out: identity(x, out=out), tracing_mode=mode)(
            x, torch.empty_strided(x.shape, x.stride())
        )
        assert torch.equal(traced(x, torch.empty_strided(x.shape, x.stride())), x)
    for input, out in ((x, read(2)), (memory.as_strided([2, 3], [1, 2]), x), (x._neg_view(), x)):
        with pytest.raises(RuntimeError, match="out must not share memory with input"):
            identity(input, out=out)
    with pytest.raises(RuntimeError, match="out"):
        identity(x.requires_grad_(), out=x)
    assert memory.tolist() == expected


@pytest.mark.parametrize("op", OPERATORS)
@settings(examples, max_examples=EXAMPLES // 2)
@given(st.data())
def test_results(op: str, data: st.DataObject) -> None:
    """With any strides, padding, broadcasting and owned inputs, against the oracle; padding of outputs stays."""
    desc = data.draw(descs(op))
    operator = Operator(desc)
    inputs = [block(tensor, seed) for seed, (_, tensor) in enumerate(desc.inputs())]
    if isinstance(desc, directml.ReverseSubsequencesOperatorDesc):
        size = desc.input_tensor.sizes[desc.axis]
        lengths = inputs[1].memory.view("<u4")
        lengths[:] = np.random.default_rng(0).integers(0, size + 3, len(lengths))
    given_inputs = [viewed(tensor, b) for (_, tensor), b in zip(desc.inputs(), inputs, strict=True)]
    wanted = expected(desc, inputs)

    chosen = [(path, x) for (path, _), x in zip(desc.inputs(), given_inputs, strict=True) if data.draw(st.booleans())]
    bound: dict[str, Any] = {}
    for (path, _), x in zip(desc.inputs(), given_inputs, strict=True) if chosen else ():
        is_owned = any(path == other for other, _ in chosen)
        if len(path) == 2:
            bound.setdefault(str(path[0]), []).append(x if is_owned else None)
        elif is_owned:
            bound[str(path[0])] = x
    owning = Operator(owned(desc, *(path for path, _ in chosen))).initialize(**bound)
    rest = [x for x in given_inputs if not any(x is other for _, other in chosen)]
    for results in (operator(*given_inputs), owning(*rest)):
        for result, want, (_, tensor) in zip(as_list(results), wanted, desc.outputs(), strict=True):
            assert oracle.equal(result, want)
            strides = zip(result.stride(), tensor.effective_strides, tensor.sizes, strict=True)
            assert all(size == 1 or stride == described for stride, described, size in strides)

    before = [block(tensor, 99) for _, tensor in desc.outputs()]
    outs = [viewed(tensor, b) for (_, tensor), b in zip(desc.outputs(), before, strict=True)]
    out: Any = outs if op == "SPLIT" else outs[0]
    assert operator(*given_inputs, out=out) is out
    for b, written, want in zip(before, outs, wanted, strict=True):
        assert oracle.storage_bytes(written).tobytes() == b.written(want).tobytes()


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


def test_a_tensor_that_repeats_may_have_more_elements_than_a_buffer() -> None:
    whole = TensorDesc(F32, [65536, 65537], strides=[0, 1])
    walk = window([65534, 65533], [2, 4], [1, 3])
    desc = op_desc("SLICE1", whole, Slice1OperatorDesc.infer_output(whole, **walk), **walk)
    x = torch.arange(65537.0).expand(65536, 65537)
    assert Operator(desc)(x).tolist() == [[65533, 65536]] * 2


# Operators of their own.

SPLIT, REVERSE = Operator(VALID["SPLIT"]), Operator(VALID["REVERSE_SUBSEQUENCES"])
PADDED = Operator(op_desc("JOIN", [X], TensorDesc(F32, [4, 6], strides=[8, 1]), 0))


def test_an_out_may_have_any_stride_where_the_size_is_1() -> None:
    x = TensorDesc(F32, [2, 1, 3])
    out = torch.zeros(6).as_strided((2, 1, 3), (3, 100, 1))
    Operator(op_desc("ELEMENT_WISE_IDENTITY", x, x))(torch.ones(2, 1, 3), out=out)
    assert out.eq(1).all()


def test_only_valid_descriptors_make_operators() -> None:
    desc = plain("SPLIT", 1, F64)
    with pytest.raises(directml.DescriptorError, match=r"^SPLIT at feature level 3_0 breaks 2 rules:"):
        Operator(desc, directml.FeatureLevel.LEVEL_3_0)
    assert repr(Operator(desc)) == f"Operator({desc})"


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


SHARED, REQUIRES = "must not share memory with", rf"split: {GRAD} (input|out\[0\]) requires grad"


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize(
    ("call", "tensors", "sentence"),
    [
        (lambda x, y: HALVES(x, out=[y, y]), [(4, 6), (2, 6)], rf"split: out\[1\] {SHARED} out\[0\]"),
        (lambda x: COPY(x[:4], out=[x[2:]]), [(6, 6)], rf"split: out\[0\] {SHARED} input"),
        (lambda x: PADDED(x[:, :6], out=x[:, 2:]), [(4, 8)], rf"join: out {SHARED} inputs\[0\]"),
        (
            lambda x, y: COPY(x, out=[y]),
            [(4, 6), "meta"],
            r"split: out\[0\] must be on the device of input, .* meta",
        ),
        (lambda x, y: COPY(x, out=[y]), ["grad", (4, 6)], REQUIRES),
        (lambda x, y: PADDED(x, out=y[:, :6]), ["grad", (4, 8)], rf"join: {GRAD} inputs\[0\] requires grad"),
        (lambda x, y: COPY(x, out=[y]), [(4, 6), "grad"], REQUIRES),
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
    operator, other = Operator(plain(op, 2, F32)), Operator(plain(op, 2, F64))
    again = copied(operator)
    inputs = [torch.ones(t.sizes).to(t.data_type.dtype) for _, t in operator.desc.inputs()]
    assert again == operator == Operator(plain(op, 2, F32))
    assert hash(again) == hash(operator)
    assert again.desc == operator.desc != operator != other
    for result, want in zip(as_list(again(*inputs)), as_list(operator(*inputs)), strict=True):
        assert torch.equal(result, want)


# Inputs that are owned by DirectML.

JOIN = op_desc("JOIN", [TensorDesc(F32, [n, 6]) for n in (1, 2, 1)], X, 0)


def test_owned_inputs_are_read_once() -> None:
    constant, x, y = torch.ones(2, 6), torch.full((1, 6), 2.0), torch.full((1, 6), 3.0)
    plain_join = Operator(owned(JOIN, ("input_tensors", 1)))
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


def test_owned_inputs_get_no_gradient_and_compile() -> None:
    torch._dynamo.reset()
    constant = torch.ones(2, 6, requires_grad=True)
    join = Operator(owned(JOIN, ("input_tensors", 1))).initialize(input_tensors=[None, constant, None])
    x, y = (torch.ones(1, 6, requires_grad=True) for _ in range(2))
    compiled = torch.compile(lambda x, y: join(x, y).sum() * 3, fullgraph=True, backend="aot_eager")
    compiled(x, y).backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[3.0] * 6]
    assert constant.grad is None


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
    padded = TensorPolicy(lambda _, __, sizes: directml.TensorProperties([s * 2 for s in packed_strides(sizes)]))
    for result, want in zip(interleaved, wanted, strict=True):
        assert torch.equal(result, want)
        assert taken_strides(result) == taken_strides(channels_last(want))
    for result, want in zip(as_list(CALLS[function](x, tensor_policy=padded)), wanted, strict=True):
        assert torch.equal(result, want)
        assert result.stride() == tuple(2 * s for s in want.stride())


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("policy", [TensorPolicy.default(), TensorPolicy.interleaved_channel()], ids=str)
def test_layouts_of_exported_results_follow_the_sizes(policy: TensorPolicy, strict: bool, fresh_compiler: None) -> None:
    class Halved(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return directml.join(directml.split(x, 1, [1, 2], tensor_policy=policy), 1, tensor_policy=policy)

    sizes = {0: torch.export.Dim("n"), 3: torch.export.Dim("width")}
    exported = torch.export.export(Halved(), (IMAGE,), dynamic_shapes=(sizes,), strict=strict).module()
    for x in (IMAGE, torch.arange(7 * 3 * 4 * 6.0).reshape(7, 3, 4, 6)):
        assert torch.equal(exported(x), x)
        assert exported(x).stride() == Halved()(x).stride()


def test_layouts_of_compiled_results_of_any_sizes(fresh_compiler: None) -> None:
    """A dimension of size 1 has a stride that may be another's."""
    policy = TensorPolicy.interleaved_channel()
    doubled = torch.compile(lambda x: directml.join([x, x], 0, tensor_policy=policy), fullgraph=True, backend="eager")
    for sizes in ((2, 3, 4, 1), (2, 3, 1, 4), (2, 1, 4, 3), (1, 3, 1, 1)):
        result = doubled(torch.ones(sizes))
        assert result.stride() == directml.join([torch.ones(sizes)] * 2, 0, tensor_policy=policy).stride()


@pytest.mark.parametrize("sizes", [[4], [2, 3], [2, 3, 4], [2, 3, 4, 5], [2, 3, 4, 5, 6]])
def test_interleaved_channel(sizes: list[int]) -> None:
    """NC, NWC, NHWC, NDHWC."""
    order = [0, *range(2, len(sizes)), 1][: len(sizes)]
    x = torch.zeros([sizes[d] for d in order])
    expected = tuple(x.stride()[order.index(d)] for d in range(len(sizes)))
    properties = TensorPolicy.interleaved_channel().get(F32, directml.TensorFlags.NONE, sizes)
    assert tuple(properties.strides or ()) == expected
    desc = TensorDesc(F32, sizes)
    (inferred,) = SplitOperatorDesc.infer_output(desc, 0, sizes[:1], tensor_policy=TensorPolicy.interleaved_channel())
    assert inferred == TensorDesc(F32, sizes, strides=expected)
    assert inferred.minimum_size_in_bytes == desc.minimum_size_in_bytes


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
    assert torch.equal(directml.join([x.bfloat16()], 1), x.bfloat16())
    with pytest.raises(RuntimeError, match=r"^split: split_sizes must sum to 6, .*, got \[2, 5\]$"):
        directml.split(x, 1, [2, 5])


def test_directmlx_functions_are_traced() -> None:
    def call(x: Tensor) -> Tensor:
        left, right = directml.split(directml.slice_(x, [0, 0], [3, 4], [-1, 1]), 1, [1, 3])
        return directml.join([right, left], 1)

    x = values((3, 4), torch.float32)
    assert torch.equal(torch.fx.symbolic_trace(call)(x), call(x))
