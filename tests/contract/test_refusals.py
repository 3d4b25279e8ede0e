"""What is refused, and with which sentence: by the operators and by the package's functions, with data and without."""

import random
from types import SimpleNamespace
from typing import Any

import pytest
import refusals
import torch
from backends import Backend
from contract_cases import (
    CALLS,
    PACKAGE,
    Make,
    assert_refused,
    every_form,
    maker,
    named,
)
from oracle import as_list
from refusals import Refusal, every_row
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_map_only
from transform_cases import ANY_SHAPE, Case


@every_form
@every_row(refusals.ARGUMENTS, refusals.WITH_OUT, refusals.TOO_LARGE, refusals.OUT)
def test_refused(form: Backend, refusal: Refusal) -> None:
    t = maker(form.device)
    assert_refused(form, refusal.sentence, refusal.op, *refusal.arguments(t), out=refusal.out(t))


def nearly(value: Any, draw: random.Random) -> Any:
    """Another number, list or tensor, that differs in one thing."""
    if isinstance(value, Tensor):
        return value.new_zeros([min(abs(n), 4) for n in nearly([*value.shape], draw)])
    if isinstance(value, int):
        least = draw.choice([0, -2])
        return max(value + draw.choice([-2, -1, 1, 2]), least) if draw.random() < 0.8 else draw.choice([-1, 2**62])
    k = draw.randrange(len(value) + 1)
    others = [*value]
    if k == len(value) or draw.random() < 0.3:
        return [*others[:k], draw.choice([*others, others[0]]), *others[k:]] if others else [1]
    others[k : k + 1] = [] if draw.random() < 0.3 else [nearly(others[k], draw)]
    if all(isinstance(n, int) for n in others) and draw.random() < 0.2:
        return [1] * draw.randrange(4)
    return others


def outcome(form: Backend, op: str, arguments: list[Any]) -> Any:
    try:
        return [(t.shape, t.stride()) for t in as_list(form(op, *arguments))]
    except (RuntimeError, TypeError, ValueError) as error:
        return str(error).replace(form.device, "here")


@every_form
@pytest.mark.parametrize("case", ANY_SHAPE, ids=lambda case: case.name)
def test_calls_that_are_nearly_right_end_alike_with_data_and_without(form: Backend, case: Case) -> None:
    draw = random.Random(case.name)
    without, fake = Backend("torch_dml_ops", "meta"), FakeTensorMode()
    ended = [0, 0]
    for _ in range(600):
        shape = [draw.choice([1, 2, 3]) for _ in range(draw.randint(1, 4))]
        arguments = [*case.call(SimpleNamespace(**{case.name: lambda *given: given}), torch.zeros(shape))]
        for _ in range(draw.randint(0, 2)):
            k = draw.randrange(len(arguments))
            arguments[k] = nearly(arguments[k], draw)

        def on(device: str, value: Any) -> Any:
            if isinstance(value, list):
                return [on(device, v) for v in value]
            return value.to(device) if isinstance(value, Tensor) else value

        here, there = (outcome(f, case.name, on(f.device, arguments)) for f in (form, without))
        assert here == there, arguments
        if form.namespace == without.namespace:  # what a compiled graph is told
            traced = tree_map_only(Tensor, fake.from_tensor, arguments)
            with fake:
                assert here == outcome(form, case.name, traced), arguments
        ended[isinstance(here, str)] += 1
    assert min(ended) > 100


@every_form
def test_a_sentence_does_not_grow_with_a_list(form: Backend) -> None:
    """Not among the other refusals, which are compiled too: with so many numbers that takes minutes."""
    refusal = (
        f"split: split_sizes must sum to 3, the size of input along axis 1, got {refusals.MANY_ONES} (100000 in all, "
        "sum 100000)"
    )
    assert_refused(form, refusal, "split", maker(form.device)(2, 3), [1] * 100_000, 1)


@every_form
def test_join_of_nothing(form: Backend) -> None:
    message = "join: inputs must have at least 1 tensor, got none"
    assert_refused(form, message, "join", [], 0, out=maker(form.device)(1, 1))
    if form.namespace == "torch_dml_ops":  # without Python there is no tensor to tell the device by, and torch says so
        assert_refused(form, message, "join", [], 0)


@pytest.mark.parametrize("form", PACKAGE, ids=str)
@pytest.mark.parametrize("data_is_here", [True, False])
def test_all_tensors_are_on_one_device(form: Backend, data_is_here: bool) -> None:
    here, there = maker(form.device), maker("meta")
    if not data_is_here:
        here, there = there, here
    names = f"{here(1).device}, got {there(1).device}"
    for op, like in (("slice1", "input"), ("slice_grad", "grad_output"), ("reverse_subsequences", "input")):
        refusal = f"{op}: out must be on the device of {like}, {names}"
        assert_refused(form, refusal, op, *CALLS[op](here), out=there(2, 3))
    refusal = f"split: out[1] must be on the device of input, {names}"
    assert_refused(form, refusal, "split", here(2, 3), [1, 2], 1, out=[here(2, 1), there(2, 2)])
    refusal = f"join: inputs[1] must be on the device of inputs[0], {names}; write inputs[1].to(inputs[0].device)"
    assert_refused(form, refusal, "join", [here(2, 1), there(2, 2)], 1)
    refusal = f"join: out must be on the device of inputs[0], {names}"
    assert_refused(form, refusal, "join", [here(2, 1), here(2, 2)], 1, out=there(2, 3))
    way_out = "write sequence_lengths.to(input.device)"
    refusal = f"reverse_subsequences: sequence_lengths must be on the device of input, {names}; {way_out}"
    assert_refused(form, refusal, "reverse_subsequences", here(2, 3), there(2, 1, dtype=torch.int64), 1)


@every_form
def test_every_dtype_of_torch_has_its_name(form: Backend) -> None:
    """Those of fewer bits than a byte too, of which not much more than an empty tensor can be made."""
    dtypes = {dtype for dtype in vars(torch).values() if isinstance(dtype, torch.dtype)}
    plain = [dtype for dtype in dtypes if not named(dtype).startswith(("qint", "quint"))]
    assert {torch.int4, torch.bits8, torch.float4_e2m1fn_x2} < set(plain)
    for dtype in plain:
        out = torch.empty(2, dtype=torch.float64 if dtype != torch.float64 else torch.int8, device=form.device)
        refusal = f"slice1: out must have the dtype of input, {named(dtype)}, got {named(out.dtype)}"
        assert_refused(form, refusal, "slice1", torch.empty(2, dtype=dtype, device=form.device), [0], [2], [1], out=out)


def test_a_result_that_memory_cannot_hold(backend: Backend, t: Make) -> None:
    x = t(1).expand(2**45)
    sentence = f"slice1: out of memory on {x.device}, which cannot allocate a result of sizes [{2**45}], {2**47} bytes"
    with pytest.raises(RuntimeError) as caught:
        backend("slice1", x, [0], [2**45], [1])
    assert str(caught.value) == sentence
