"""Derivatives: of every order, in reverse and forward mode, under torch.func, and what must not be differentiated."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
import plain_torch
import pytest
import torch
import torch.autograd.forward_ad as forward_ad
from backends import DEVICE
from contract_cases import OPS
from hypothesis import given
from hypothesis import strategies as st
from oracle import as_list
from random_calls import as_tensors, calls, lengths_in
from torch import Tensor
from torch.func import grad, jacfwd, jacrev, jvp, vmap
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode
from transform_cases import CASES, FIVE, OUT_CASES, Case, OutCase, by_name, examples, same, values
from transforms import TRANSFORMS, Problem, point

import torch_dml_ops as dml
from torch_dml_ops.__main__ import report

pytestmark = pytest.mark.usefixtures("each_way")
by_dtype = pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=["real", "complex"])


@by_dtype
@by_name(CASES)
def test_gradcheck(case: Case, dtype: torch.dtype) -> None:
    leaves = [x.requires_grad_() for x in case.tensors(dtype)]

    def call(*tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(case.results(dml, *tensors))

    def nonlinear(*tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(result.sin() for result in call(*tensors))

    batched = {"check_batched_grad": True, "check_batched_forward_grad": True} if dtype.is_floating_point else {}
    assert torch.autograd.gradcheck(call, leaves, check_forward_ad=True, **batched)
    assert torch.autograd.gradgradcheck(nonlinear, leaves, check_fwd_over_rev=True, check_rev_over_rev=True)


@pytest.mark.parametrize("transform", TRANSFORMS)
@by_dtype
@by_name(CASES)
def test_torch_func(case: Case, dtype: torch.dtype, transform: str) -> None:
    problem, reference = (Problem(case, dtype, ops) for ops in (dml, plain_torch))
    x = point(problem, transform)
    same(TRANSFORMS[transform](problem, x), TRANSFORMS[transform](reference, x))
    assert not torch._C._functorch.get_single_level_autograd_function_allowed()  # which a recorded call switches on


def gradients(case: Case, ops: ModuleType, through: Callable[..., Sequence[Tensor]]) -> list[Tensor | None]:
    leaves = [x.requires_grad_() for x in case.tensors()]
    torch.stack([result.sin().sum() for result in through(ops, *leaves)]).sum().backward()
    return [x.grad for x in leaves]


def same_gradients(case: Case, through: Callable[..., Sequence[Tensor]]) -> None:
    same(gradients(case, dml, through), gradients(case, plain_torch, through))


def written_to(ops: ModuleType, case: Case, *xs: Tensor) -> list[Tensor]:
    results = case.results(ops, *xs)
    results[-1].mul_(2)  # of a split, one piece alone
    return results


def checkpointed(ops: ModuleType, case: Case, *xs: Tensor, use_reentrant: bool = False) -> Any:
    def segment(*ys: Tensor) -> tuple[Tensor, ...]:
        return tuple(case.results(ops, *(y.exp() for y in ys)))

    return checkpoint(segment, *xs, use_reentrant=use_reentrant)


THROUGH: dict[str, Callable[..., Sequence[Tensor]]] = {
    "a checkpoint": checkpointed,
    "a reentrant checkpoint": partial(checkpointed, use_reentrant=True),
    "a result that is written to": written_to,
    "inputs that are results, expanded": lambda ops, case, *xs: case.results(
        ops, *(x.exp()[:1].expand(x.shape) for x in xs)
    ),
    "inputs and cotangents that are transposed": lambda ops, case, *xs: [
        y.t() for y in case.results(ops, *(x.t().contiguous().t() for x in xs))
    ],
}


@pytest.mark.parametrize("way", THROUGH)
@by_name(FIVE)
def test_gradients_through(case: Case, way: str) -> None:
    same_gradients(case, lambda ops, *leaves: THROUGH[way](ops, case, *leaves))


counting = partial(FlopCounterMode, display=False)  # what it displays needs the package tabulate


@pytest.mark.parametrize("around", [counting, dml.negative_steps, lambda: torch.device("cpu")])
@by_name(FIVE)
def test_activation_checkpointing_with_a_mode_around_backward(case: Case, around: Callable[[], Any]) -> None:
    """Each saved tensor may be unpacked once."""
    leaves = [x.requires_grad_() for x in case.tensors()]
    expected = torch.autograd.grad(sum(y.sin().sum() for y in case.results(dml, *leaves)), leaves)
    total = sum(y.sin().sum() for y in checkpoint(lambda *xs: case.results(dml, *xs), *leaves, use_reentrant=False))
    with around():
        same(torch.autograd.grad(total, leaves), expected)


@pytest.mark.parametrize("retain", [True, False])
@by_name(FIVE)
def test_a_graph_can_be_gone_through_again_where_torch_s_can(case: Case, retain: bool) -> None:
    """As long as it keeps nothing or is kept itself."""
    leaves = [x.requires_grad_() for x in case.tensors()]
    total = torch.stack([(y.sin() if retain else y).sum() for y in case.results(dml, *leaves)]).sum()
    first = torch.autograd.grad(total, leaves, retain_graph=retain)
    if retain or case.name != "reverse_subsequences":  # which keeps the lengths
        same(torch.autograd.grad(total, leaves), first)
    if retain or case.name == "reverse_subsequences":
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            total.backward()


@by_name(FIVE)
def test_backward_in_other_threads(case: Case) -> None:
    tensors = case.tensors()

    def gradients_of(k: int) -> list[Tensor | None]:
        leaves = [(k * x).requires_grad_() for x in tensors]
        total = torch.stack([y.sin().sum() for y in case.results(dml, *leaves)]).sum()
        with ThreadPoolExecutor(1) as another:
            another.submit(total.backward).result()
        return [x.grad for x in leaves]

    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(gradients_of, range(8)))
    same(together, [gradients_of(k) for k in range(8)])


@pytest.mark.parametrize("used", [[0], [2], [0, 2], [1, 1]], ids=str)
def test_a_split_of_which_not_every_piece_is_used(used: list[int]) -> None:
    case = Case("", lambda ops, x: [ops.split(x, [1, 3, 2], 1)[k] for k in used], ((2, 6),))
    same_gradients(case, case.results)


CONSTANTS: dict[str, Callable[[ModuleType, Tensor], Tensor]] = {
    "inputs of a join": lambda ops, x: ops.join([torch.ones(x.shape).double(), x, x.detach() * 0], 0),
    "lengths that follow from the input": lambda ops, x: ops.reverse_subsequences(
        x * x, (x > 0).sum(-1, keepdim=True), x.dim() - 1
    ),
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_what_has_no_derivative(name: str) -> None:
    x = values((2, 3, 4))
    for transform in (jacrev, jacfwd, lambda f: jacfwd(jacrev(f)), lambda f: jacrev(vmap(f))):
        actual, expected = (
            transform(lambda x, ops=ops: CONSTANTS[name](ops, x).sin())(x) for ops in (dml, plain_torch)
        )
        same(actual, expected)


def test_lengths_written_to_before_backward_are_an_error() -> None:
    x, lengths = values((3, 4)).requires_grad_(), torch.tensor([[2], [4], [0]])
    y = dml.reverse_subsequences(x, lengths, 1)
    lengths[0] = 3
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])  # Inductor loses the version of a view
def test_lengths_written_to_after_a_compiled_call_are_an_error(backend: str) -> None:
    x, lengths = values((3, 4)).requires_grad_(), torch.tensor([2, 4, 0])
    y = torch.compile(dml.reverse_sequence, fullgraph=True, backend=backend)(x, lengths, 1)
    lengths[0] = 3
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@by_name(FIVE)
def test_nothing_but_sequence_lengths_is_kept_for_backward(case: Case) -> None:
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        case.results(dml, *(x.requires_grad_() for x in case.tensors()))
    assert [t.dtype for t in kept] == ([torch.int64] if case.name == "reverse_subsequences" else [])


@by_name(FIVE)
def test_what_needs_no_derivative_records_none(case: Case) -> None:
    leaves = [x.requires_grad_() for x in case.tensors()]
    with torch.no_grad():
        assert all(y.is_leaf and not y.requires_grad for y in case.results(dml, *leaves))
    assert all(y.is_leaf for y in case.results(dml, *(x.detach() for x in leaves)))
    assert all(y.is_leaf for y in case.results(dml, *(x.detach().to(torch.int16) for x in leaves)))


@by_name(FIVE)
def test_inference_mode(case: Case) -> None:
    expected = case.results(plain_torch, *case.tensors())
    with torch.inference_mode():
        inputs = case.tensors()
        results = case.results(dml, *inputs)
    assert all(y.is_inference() for y in results)
    same(results, expected)
    same(case.results(dml, *inputs), expected)  # inference tensors, outside the mode


def test_lengths_made_in_inference_mode_cannot_be_kept_for_backward() -> None:
    with torch.inference_mode():
        lengths = torch.tensor([[2], [4], [0]])
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        dml.reverse_subsequences(values((3, 4)).requires_grad_(), lengths, 1)


# Whole numbers, so exactly.


@pytest.mark.parametrize("op", OPS)
@examples
@given(st.data())
def test_gradients_of_random_calls(op: str, data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    axis = data.draw(st.integers(0, len(sizes) - 1))
    arguments, _, _ = data.draw(calls(op, sizes, axis, torch.float64))
    first, *others = as_tensors(arguments, DEVICE)
    for_torch = list(others)
    if op == "reverse_subsequences":
        for_torch[0] = torch.from_numpy(np.clip(lengths_in(arguments[1]), 0, sizes[axis]).astype(np.int64)).to(DEVICE)
    gradients = []
    for ops, rest in ((dml, others), (plain_torch, for_torch)):
        leaves = [x.detach().requires_grad_() for x in as_list(first)]
        results = as_list(getattr(ops, op)(leaves if op == "join" else leaves[0], *rest))
        cotangents = [values(y.shape, torch.int64, seed).double() for seed, y in enumerate(results)]
        gradients.append(torch.autograd.grad(results, leaves, cotangents))
    same(*gradients)


# With out, as in ATen: no derivatives, and the write is counted.


by_op = pytest.mark.parametrize("case", OUT_CASES, ids=lambda case: case.op)
by_entry = pytest.mark.parametrize("ops", [dml, torch.ops.torch_dml_ops], ids=["functions", "operators"])
by_argument = pytest.mark.parametrize(
    ("case", "argument"), [(case, name) for case in OUT_CASES for name in case.sizes], ids=lambda v: getattr(v, "op", v)
)


def outs(tensors: dict[str, Tensor]) -> list[Tensor]:
    return [t for name, t in tensors.items() if name.startswith("out")]


MARKED: dict[str, tuple[Callable[[], Any], Callable[[Tensor], Tensor], str]] = {
    "requires grad": (nullcontext, Tensor.requires_grad_, ", or under torch.no_grad()"),
    "has a tangent": (forward_ad.dual_level, lambda t: forward_ad.make_dual(t, torch.ones_like(t)), ""),
}


@pytest.mark.parametrize("mark", MARKED)
@by_entry
@by_argument
def test_out_with_an_argument_that_has_a_derivative_is_refused(
    case: OutCase, argument: str, ops: Any, mark: str
) -> None:
    context, marked, way_out = MARKED[mark]
    tensors = case.tensors()
    before = [t.clone() for t in outs(tensors)]
    with context():
        tensors[argument] = marked(tensors[argument])
        with pytest.raises(RuntimeError) as error:
            case.call(ops, *tensors.values())
        same([t.detach() for t in outs(tensors)], before)
    assert str(error.value) == (
        f"{case.op}: with out there is no automatic differentiation, and {argument} {mark}; "
        f"call it without out{way_out}"
    )
    assert all(t._version == 0 for t in outs(tensors))


@by_entry
@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode, forward_ad.dual_level])
@by_argument
def test_out_with_an_argument_that_requires_grad_is_allowed_where_nothing_is_recorded(
    case: OutCase, argument: str, context: Callable[[], Any], ops: Any
) -> None:
    """And in a dual level without tangents, where nothing requires grad."""
    expected, tensors = case.tensors(), case.tensors()
    case.call(dml, *expected.values())
    tensors[argument].requires_grad_(context is not forward_ad.dual_level)
    with context():
        case.call(ops, *tensors.values())
    same([t.detach() for t in outs(tensors)], outs(expected))
    assert all(t.is_leaf for t in outs(tensors))


@by_op
@pytest.mark.parametrize("transform", [grad, lambda f: lambda x: jvp(f, (x,), (x,))], ids=["grad", "jvp"])
def test_out_under_torch_func_is_refused(case: OutCase, transform: Callable[..., Any]) -> None:
    tensors = case.tensors()
    before = [t.clone() for t in outs(tensors)]
    first, *others = tensors.values()

    def total(x: Tensor) -> Tensor:
        case.call(dml, x, *others)
        return x.sum()

    with pytest.raises(RuntimeError, match=f"^{case.op}: with out there is no automatic differentiation, and "):
        transform(total)(first)
    same(outs(tensors), before)


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
@by_entry
@by_op
def test_a_write_to_out_is_counted(case: OutCase, mode: Callable[[], Any], ops: Any) -> None:
    tensors = case.tensors()
    with mode():
        case.call(ops, *tensors.values())
    assert all(t._version == 1 for t in outs(tensors))
    assert all(t._version == 0 for name, t in tensors.items() if not name.startswith("out"))


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.inference_mode])
@by_op
def test_an_out_that_is_kept_for_backward_makes_backward_an_error(case: OutCase, mode: Callable[[], Any]) -> None:
    tensors = case.tensors()
    leaf = torch.ones((), dtype=torch.float64, requires_grad=True)
    y = leaf * outs(tensors)[-1]
    with mode():
        case.call(dml, *tensors.values())
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_on_this_torch_every_derivative_is_there() -> None:
    assert report()["derivatives"] == "every order, torch.func included"


@pytest.mark.parametrize("fullgraph", [False, True])
def test_compiled_autograd(fullgraph: bool) -> None:
    whole = torch.compile(backend="aot_eager", fullgraph=True)
    for case in FIVE:
        tensors = [t.requires_grad_() for t in case.tensors()]
        expected = torch.autograd.grad(sum(r.sin().sum() for r in case.results(dml, *tensors)), tensors)
        loss = sum(r.sin().sum() for r in case.results(dml, *tensors))
        if fullgraph:
            with torch._dynamo.compiled_autograd._enable(whole):
                loss.backward()
        else:
            with torch._dynamo.config.patch(compiled_autograd=True):
                torch.compile(lambda loss: loss.backward(), backend="aot_eager")(loss)
        same([t.grad for t in tensors], list(expected))


def test_the_backward_function_has_the_operators_name() -> None:
    x = values((3, 4)).requires_grad_()
    assert dml.slice1(x, [0, 0], [3, 4], [1, 1]).grad_fn.name() == "Slice1Backward"
    assert dml.reverse_subsequences(x, torch.ones(3, 1, dtype=torch.int64), 1).grad_fn.name() == (
        "ReverseSubsequencesBackward"
    )


@by_name(FIVE)
def test_a_backward_function_that_is_called_without_cotangents(case: Case) -> None:
    node = case.results(dml, *(t.requires_grad_() for t in case.tensors()))[0].grad_fn
    with pytest.raises((IndexError, RuntimeError, TypeError)):  # and no crash
        node.apply()
