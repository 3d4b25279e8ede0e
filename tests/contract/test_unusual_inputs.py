"""Inputs that are not plain strided tensors in normal mode: lazy views, other layouts, subclasses, odd addresses."""

from collections.abc import Callable
from itertools import product

import numpy as np
import oracle
import pytest
import torch
from backends import DEVICE, backends
from contract_cases import (
    CALLS,
    LAYOUTS_WITHOUT_STRIDES,
    SEVERAL,
    assert_right,
    every_op,
    given_as_out,
    maker,
    tensors_in,
)
from oracle import as_list
from processes import assert_returns
from torch import Tensor
from transform_cases import Mine

import torch_dml_ops as dml
from torch_dml_ops._operators.signature import signatures

# Inference tensors pass by the kernels at the Autograd key.
in_every_mode = pytest.mark.parametrize("inference", [False, True], ids=["normal", "inference"])


@every_op
@in_every_mode
def test_conjugate_views_and_negative_views(op: str, inference: bool) -> None:
    def conjugate(*sizes: int) -> Tensor:
        return torch.view_as_complex(maker(DEVICE)(*sizes, 2)).conj()

    def negative(*sizes: int) -> Tensor:
        return conjugate(*sizes).imag

    with torch.inference_mode(inference):
        for lazy in (conjugate, negative):
            arguments = CALLS[op](lazy)
            assert all(t.is_conj() or t.is_neg() for t in tensors_in(arguments)[:1])
            resolved = CALLS[op](lambda *sizes, lazy=lazy: lazy(*sizes).resolve_conj().resolve_neg())
            wanted = as_list(oracle.expected(op, *resolved))[0]
            result = as_list(getattr(dml, op)(*arguments))[0]
            assert oracle.equal(result.resolve_conj().resolve_neg(), wanted)
            for call in (getattr(dml, op), getattr(torch.ops.torch_dml_ops, op).out):
                out = torch.zeros_like(result)
                call(*arguments, out=given_as_out(op, out))
                assert oracle.equal(out, wanted)


@every_op
@in_every_mode
def test_out_must_not_be_a_lazy_view(op: str, inference: bool) -> None:
    with torch.inference_mode(inference):
        memory = torch.zeros(2, 3, dtype=torch.complex64, device=DEVICE)
        for lazy in (memory.conj(), memory.conj().imag):
            arguments = CALLS[op](maker(DEVICE), dtype=lazy.dtype)
            for call in (getattr(dml, op), getattr(torch.ops.torch_dml_ops, op).out):
                with pytest.raises(RuntimeError, match=rf"^{op}: out(\[0\])? must not be a lazily conjugated or neg"):
                    call(*arguments, out=given_as_out(op, lazy))
        with pytest.raises(RuntimeError, match=r"^split: out\[1\] must not be a lazily conjugated or negated view"):
            dml.split(
                torch.ones(4, 3, dtype=memory.dtype, device=DEVICE), [2, 2], 0, out=[memory.clone(), memory.conj()]
            )
        assert not memory.any()


@every_op
@in_every_mode
def test_out_must_not_share_memory_with_a_lazy_view(op: str, inference: bool) -> None:
    with torch.inference_mode(inference):
        base = torch.ones(4, 4, dtype=torch.complex64, device=DEVICE)
        for lazy, memory in ((base.conj(), base), (base.conj().imag, base.imag)):
            arguments = CALLS[op](lambda rows, columns=1, lazy=lazy: lazy[:rows, :columns])
            rows, columns = as_list(getattr(dml, op)(*arguments))[0].shape
            for call in (getattr(dml, op), getattr(torch.ops.torch_dml_ops, op).out):
                with pytest.raises(RuntimeError, match=rf"^{op}: out(\[0\])? must not share memory with "):
                    call(*arguments, out=given_as_out(op, memory[:rows, :columns]))


each_device = pytest.mark.parametrize("device", sorted({backend.device for backend in backends()}))
BEYOND_STORAGE = "must lie within its storage, but this was made smaller: it has {} bytes of the {} that are needed"


@pytest.mark.parametrize("bytes_left", [0, 1, -1], ids=["none", "one", "all but one"])
@every_op
@each_device
def test_a_tensor_that_its_storage_no_longer_holds_is_refused(device: str, op: str, bytes_left: int) -> None:
    """As that of a parameter is that FSDP has freed: its sizes say that there are elements. It is named."""
    signature, names, k = signatures[op], [""], 0
    while k < len(names):
        arguments = SEVERAL[op](maker(device))
        outs = [torch.full_like(y, 7) for y in as_list(getattr(dml, op)(*arguments))]
        out = outs if op == "split" else outs[0]
        names = [name for name, _ in (*signature.named_tensors(arguments), *signature.named_outs(out))]
        changed, kept = [*tensors_in(arguments), *outs][k], [out.clone() for out in outs]
        needed = shrink(changed, bytes_left)
        sentence = f"{op}: {names[k]} {BEYOND_STORAGE.format(changed.untyped_storage().nbytes(), needed)}"
        ops = torch.ops.torch_dml_ops
        for call, with_out in ((getattr(dml, op), getattr(dml, op)), (getattr(ops, op), getattr(ops, op).out)):
            with pytest.raises(RuntimeError) as refused:
                with_out(*arguments, out=out)
            assert str(refused.value) == sentence
            assert all(a is changed or a.equal(b) for a, b in zip(outs, kept, strict=True))
            if all(a is not changed for a in outs):
                with pytest.raises(RuntimeError) as refused:
                    call(*arguments)
                assert str(refused.value) == sentence
        k += 1


def shrink(tensor: Tensor, bytes_left: int) -> int:
    """Leaves so many bytes of its storage, or with a negative number, all but so many; how many there were."""
    memory = torch.cat([tensor.flatten()[:1], tensor.flatten()])  # torch's own, which can be resized
    tensor.set_(memory[1:].view_as(tensor))
    tensor.untyped_storage().resize_(bytes_left % memory.nbytes)
    return memory.nbytes


@every_op
@each_device
def test_tensors_without_memory_do_not_count_as_sharing_it(device: str, op: str) -> None:
    """Neither arguments and outs, nor several outs."""
    for empty_arguments in (True, False):
        arguments = SEVERAL[op](maker(device))
        outs = [torch.zeros_like(y) for y in as_list(getattr(dml, op)(*arguments))]
        for tensor in (*(tensors_in(arguments) if empty_arguments else ()), *outs):
            needed = shrink(tensor, 0)
        with pytest.raises(RuntimeError, match=rf"^{op}: out(\[\d\])? {BEYOND_STORAGE.format(0, needed)}$"):
            getattr(dml, op)(*arguments, out=outs if op == "split" else outs[0])


def test_lengths_that_their_storage_no_longer_holds_are_refused_though_nothing_is_reversed() -> None:
    lengths = torch.ones(1, 3, dtype=torch.int64, device=DEVICE)
    shrink(lengths, 0)
    with pytest.raises(
        RuntimeError, match=rf"^reverse_subsequences: sequence_lengths {BEYOND_STORAGE.format(0, 4 * 8)}$"
    ):
        dml.reverse_subsequences(torch.zeros(1, 3, device=DEVICE), lengths, 0)


@pytest.mark.filterwarnings("ignore:.*(Sparse CSR|nested tensors|deprecated)")
@pytest.mark.parametrize("layout", LAYOUTS_WITHOUT_STRIDES)
@pytest.mark.skipif(DEVICE != "cpu", reason="some of these layouts are the CPU's only")
@every_op
def test_tensors_without_strides_are_refused(op: str, layout: str) -> None:
    """Any of a call."""
    convert, sentence = LAYOUTS_WITHOUT_STRIDES[layout]
    arguments = [*CALLS[op](maker(DEVICE)), getattr(dml, op)(*CALLS[op](maker(DEVICE)))]
    names = [*(name for name, _ in signatures[op].arguments[: len(arguments) - 1]), "out"]
    for k, value in enumerate(arguments):
        if not isinstance(as_list(value)[0], Tensor):
            continue
        several = isinstance(value, (list, tuple))
        wrong = [convert(torch.ones(tensor.shape)) for tensor in as_list(value)]
        *given, out = [*arguments[:k], wrong if several else wrong[0], *arguments[k + 1 :]]
        for function, keywords in product((getattr(dml, op), getattr(torch.ops.torch_dml_ops, op)), ({}, {"out": out})):
            if keywords or names[k] != "out":
                with pytest.raises(RuntimeError) as refused:
                    function(*given, **keywords)
                assert str(refused.value) == f"{op}: {names[k]}{'[0]' if several else ''} {sentence}"


@pytest.mark.parametrize("wrap", [torch.nn.Parameter, lambda x: x.as_subclass(Mine)], ids=["parameter", "subclass"])
@pytest.mark.parametrize("requires_grad", [False, True])
@every_op
def test_parameters_and_subclasses(op: str, requires_grad: bool, wrap: Callable[[Tensor], Tensor]) -> None:
    arguments = CALLS[op](maker(DEVICE))
    wanted = as_list(getattr(dml, op)(*arguments))[0]
    wrapped = [wrap(x).requires_grad_(requires_grad) for x in as_list(arguments[0])]
    result = as_list(getattr(dml, op)(wrapped if op == "join" else wrapped[0], *arguments[1:]))[0]
    assert oracle.equal(result.detach(), oracle.items(wanted))
    assert isinstance(result, Mine) == isinstance(wrapped[0], Mine)
    assert result.requires_grad == requires_grad


def unaligned_calls() -> None:
    memory = np.arange(1, 1200).astype(np.uint8)
    lengths = torch.frombuffer(bytearray(3) + np.array([4, 2, 0, 6]).tobytes(), dtype=torch.int64, offset=3)
    lengths = lengths.reshape(4, 1)
    for dtype in oracle.DTYPES:
        for offset in (1, 2, 4, 8, 15):
            x = torch.frombuffer(memory, dtype=dtype, offset=offset, count=24).reshape(4, 6)
            out = torch.frombuffer(bytearray(1200), dtype=dtype, offset=offset, count=24).reshape(4, 6)
            for op, arguments in (
                *(("slice1", (x, [0, 0], [4, 6], [1, stride])) for stride in (1, -1, 2, -2, 3)),
                ("slice1", (x.t(), [0, 0], [6, 4], [1, 1])),
                ("slice_grad", (x[:, ::2], [4, 6], [0, 0], [4, 6], [1, -2])),
                ("split", (x, [6], 1)),
                ("join", ([x[:, 3:], x[:, :3]], 1)),
                ("reverse_subsequences", (x, lengths, 1)),
                ("reverse_subsequences", (x.t(), lengths.t(), 0)),
            ):
                assert_right(getattr(dml, op)(*arguments), op, arguments)
                if as_list(oracle.expected(op, *arguments))[0].shape == (4, 6):
                    assert_right(getattr(dml, op)(*arguments, out=given_as_out(op, out)), op, arguments)


def test_elements_may_lie_at_any_address() -> None:
    """Views of foreign memory need not be aligned. In a process of its own, which an unaligned access may end."""
    assert_returns(unaligned_calls)
