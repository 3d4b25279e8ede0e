"""What is made of the operators, window, index, negative_steps and reverse_sequence: traced, compiled, of odd tensors.

Their derivatives, vmap and compiled gradients are tested with those of the operators, as rows of transform_cases.py.
"""

import re
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import plain_torch
import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.checkpoint import checkpoint
from transform_cases import COMPILED, COMPOSITIONS, Case, Mine, by_name, graphs, same, values
from transforms import TRANSFORMS, Problem, point

import torch_dml_ops as dml

pytestmark = pytest.mark.usefixtures("fresh_compiler")
SIZES = (2, 3, 4)
# torch.fx records neither assignments nor numbers of which it does not know how many there are.
BY_FX = tuple(case for case in COMPOSITIONS if not re.search("assigned|window", case.name))


class Module(torch.nn.Module):
    def __init__(self, case: Case) -> None:
        super().__init__()
        self.case = case

    def forward(self, x: Tensor) -> Any:
        return self.case.call(dml, x)


Traced = Callable[[Module, Tensor], Callable[[Tensor], Any]]
TRACERS: dict[str, Traced] = {
    **{f"make_fx, {mode}": lambda m, x, mode=mode: make_fx(m, tracing_mode=mode)(x) for mode in ("real", "fake")},
    "make_fx, symbolic and functionalized": lambda m, x: make_fx(functionalize(m), tracing_mode="symbolic")(x),
    "jit": torch.jit.trace,
    "fx": lambda m, x: torch.fx.symbolic_trace(m),
    "export": lambda m, x: torch.export.export(m, (x,)).module(),
    "export, strict": lambda m, x: torch.export.export(m, (x,), strict=True).module(),
    "compile": lambda m, x: torch.compile(m, fullgraph=True, backend="eager"),
    "checkpoint": lambda m, x: partial(checkpoint, m, use_reentrant=False),
}
IN_PARTS = ("export, strict", "compile")  # by Dynamo


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("around", [nullcontext, dml.negative_steps])
@pytest.mark.parametrize(
    ("case", "tracer"),
    [
        pytest.param(case, tracer, id=f"{case.name}, {tracer}")
        for case in COMPOSITIONS
        for tracer in TRACERS
        if not (tracer == "fx" and case not in BY_FX) and not (tracer in IN_PARTS and case not in COMPILED)
    ],
)
def test_traced_by(case: Case, tracer: str, around: Callable[[], Any]) -> None:
    x = values(SIZES, seed=1)
    with around():
        traced = TRACERS[tracer](Module(case), values(SIZES))
        result = traced(x)
    same(result, case.call(plain_torch, x))


def test_fx_records_no_assignment() -> None:
    with pytest.raises(TypeError, match="does not support item assignment"):
        torch.fx.symbolic_trace(lambda x: dml.index(x).__setitem__(slice(None, None, -1), 1))


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_within_the_mode(transform: str) -> None:
    for case in COMPOSITIONS[-3:]:
        problem, reference = (Problem(case, torch.float64, ops) for ops in (dml, plain_torch))
        x = point(problem, transform)
        with dml.negative_steps():
            actual = TRANSFORMS[transform](problem, x)
        same(actual, TRANSFORMS[transform](reference, x))


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_compiled_once_for_all_sizes(backend: str) -> None:
    # Inductor compiles an assignment again for sizes of which it has assumed too much.
    cases = BY_FX if backend == "inductor" else [case for case in COMPOSITIONS if case in COMPILED]

    def f(x: Tensor) -> list[Tensor]:
        return [case.call(dml, x) for case in cases]

    assert graphs(f, [(values(sizes),) for sizes in ((3, 4, 5), (5, 6, 7), (4, 7, 6))], backend, dynamic=True) == 1


@pytest.mark.parametrize("strict", [False, True])
@by_name([case for case in BY_FX if case.name not in ("index of one element", "index of huge steps")])
def test_exported_with_sizes_that_vary(case: Case, strict: bool) -> None:
    sizes = {d: torch.export.Dim(name, min=3, max=99) for d, name in enumerate(("rows", "columns", "channels"))}
    program = torch.export.export(Module(case), (values((5, 4, 6)),), dynamic_shapes={"x": sizes}, strict=strict)
    for x in (values((7, 3, 4)), values((4, 8, 5))):
        same(program.module()(x), case.call(dml, x))


@by_name(COMPOSITIONS)
def test_tensors_without_data(case: Case) -> None:
    expected, meta = case.call(dml, values(SIZES)), case.call(dml, torch.empty(SIZES, device="meta"))
    with FakeTensorMode():
        fake = case.call(dml, torch.empty(SIZES))
    for result in (meta, fake):
        assert (result.shape, result.stride()) == (expected.shape, expected.stride())


@by_name(COMPOSITIONS)
def test_subclasses_stay_what_they_are(case: Case) -> None:
    x = values(SIZES)
    result = case.call(dml, x.as_subclass(Mine))
    assert type(result) is Mine
    same(result.as_subclass(Tensor), case.call(dml, x))
    assert type(case.call(dml, torch.nn.Parameter(x))) is Tensor


@by_name(COMPOSITIONS)
def test_lazy_conjugates(case: Case) -> None:
    f, x = partial(case.call, dml), values(SIZES, torch.complex64)
    same(f(x.conj()).resolve_conj(), f(x).conj().resolve_conj())
    same(f(x.conj().imag).resolve_neg(), -f(x.imag))
