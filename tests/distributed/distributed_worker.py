"""Runs the checks of test_distributed.py in a group of processes.

    python distributed_worker.py RANKS FOLDER [CHECK ...]

FOLDER gets the file by which the processes find each other, and a file with what each of them says. What is compared
with is the same call in one process.
"""

import faulthandler
import math
import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import oracle
import refusals
import torch
import torch._dynamo  # which torch imports when it is used, for longer than most checks take: once, before the forks
import torch.distributed as dist
import torch.distributed.tensor
import torch.multiprocessing
from oracle import as_list
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard
from torch.distributed.tensor.experimental import implicit_replication
from torch.utils._python_dispatch import TorchDispatchMode

import torch_dml_ops as dml
from torch_dml_ops._operators.definitions import OPERATORS


def distribute_tensor(whole: Tensor, mesh: DeviceMesh, placements: Sequence[Placement] | None = None) -> DTensor:
    """Every rank has the whole tensor, so nothing is sent: gloo cannot send every dtype."""
    return torch.distributed.tensor.distribute_tensor(whole, mesh, placements, src_data_rank=None)


def same_bits(a: Tensor, b: Tensor) -> bool:
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    a, b = (t.clone(memory_format=torch.contiguous_format).reshape(-1).view(torch.uint8) for t in (a, b))
    return a.equal(b)


def is_part_of(result: DTensor, whole: Tensor) -> bool:
    """Whether every rank has what it should have of the tensor, and no more."""
    if not any(p.is_partial() for p in result.placements):
        expected = distribute_tensor(whole, result.device_mesh, result.placements)
        if not same_bits(result.to_local(), expected.to_local()):
            return False
    return same_bits(result.full_tensor(), whole)


class Counted(TorchDispatchMode):
    """Counts the bytes that this rank receives in collectives."""

    def __init__(self) -> None:
        super().__init__()
        self.received = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(issubclass(t, DTensor) for t in types):
            return NotImplemented  # first the rule, then what it sends
        result = func(*args, **(kwargs or {}))
        if func.namespace == "_c10d_functional":
            self.received += self.count(func.name().partition("::")[2].partition(".")[0], args)
        return result

    def count(self, name: str, args: Any) -> int:
        if name in ("wait_tensor", "_wrap_tensor_autograd"):
            return 0
        item = args[0].element_size()
        if name == "all_to_all_single":
            return sum(args[1]) * item  # the rules send nothing from a rank to itself
        if name == "all_gather_into_tensor":
            return args[0].numel() * item * (args[1] - 1)
        if name in ("all_reduce", "reduce_scatter_tensor"):
            ranks = dist.distributed_c10d._resolve_process_group(args[-1]).size()
            return round(args[0].numel() * item * (ranks - 1) / ranks) * (2 if name == "all_reduce" else 1)
        raise NotImplementedError(name)


# Random calls.


def random_placements(rng: random.Random, mesh: DeviceMesh, rank: int, partial: bool = True) -> list[Placement]:
    kinds = [Replicate(), *(Shard(d) for d in range(rank)), *([Partial()] if partial else [])]
    return [rng.choice(kinds) for _ in range(mesh.ndim)]


def random_tensor(rng: random.Random, sizes: Sequence[int], least: int, most: int) -> Tensor:
    """Of whole numbers, whose sums are exact."""
    numbers = [float(rng.randint(least, most)) for _ in range(math.prod(sizes))]
    return torch.tensor(numbers).reshape(sizes)


def as_dtensor(whole: Tensor, mesh: DeviceMesh, placements: Sequence[Placement]) -> DTensor:
    """Where it is to be partial, the ranks have parts of it that sum to it."""
    x = distribute_tensor(whole, mesh, [Replicate() if p.is_partial() else p for p in placements])
    reduced = [k for k, p in enumerate(placements) if p.is_partial()]
    if not reduced:
        return x
    here = mesh.get_coordinate()
    assert here is not None
    part = x.to_local() * all(here[k] == 0 for k in reduced)
    if len(reduced) == 1:
        part = part + {0: 1, 1: -1}.get(here[reduced[0]], 0)
    return DTensor.from_local(part, mesh, placements, run_check=False, shape=whole.shape, stride=whole.stride())


def random_window(rng: random.Random, n: int) -> tuple[int, int, int]:
    if rng.random() < 0.4:
        return 0, n, 1
    size = rng.randint(1, n)
    return rng.randint(0, n - size), size, rng.choice([1, -1, 2, -2, 3])


class RandomCall:
    """A call of an operator, on plain tensors or on DTensors."""

    def __init__(self, name: str, seed: int, meshes: Sequence[DeviceMesh], partial: bool = True) -> None:
        self.rng = rng = random.Random(f"{name} {seed}")
        self.name, self.mesh = name, rng.choice(meshes)
        self.past_the_dispatcher = seed % 2 == 0
        sizes = [rng.randint(1, 9) for _ in range(rng.randint(1, 4))]
        axis = rng.randrange(len(sizes))
        offsets, extents, strides = map(list, zip(*(random_window(rng, n) for n in sizes), strict=True))
        most = [1 + (n - 1) // abs(s) for n, s in zip(extents, strides, strict=True)]
        fewer = [rng.randint(1, n) if rng.random() < 0.2 else n for n in most]
        shapes, constants, self.numbers = [sizes], [], (axis,)
        if name == "slice1":
            self.numbers = (offsets, extents, strides, rng.choice([None, fewer]))
        elif name == "slice_grad":
            shapes, self.numbers = [fewer], (sizes, offsets, extents, strides)
        elif name == "split":
            pieces: list[int] = []
            while sum(pieces) < sizes[axis]:
                pieces.append(rng.randint(1, sizes[axis] - sum(pieces)))
            self.numbers = (pieces, axis)
        elif name == "join":
            shapes = [[*sizes[:axis], rng.randint(1, 6), *sizes[axis + 1 :]] for _ in range(rng.randint(1, 3))]
        else:
            assert name == "reverse_subsequences"
            lengths = random_tensor(rng, [*sizes[:axis], 1, *sizes[axis + 1 :]], 0, 10)
            constants = [lengths.to(rng.choice([torch.int32, torch.int64, torch.uint32]))]
        self.whole = [random_tensor(rng, s, -50, 50) for s in shapes]
        if len(sizes) > 1 and rng.random() < 0.3:
            self.whole = [
                w.transpose(0, -1).contiguous().transpose(0, -1) if rng.random() < 0.8 else w for w in self.whole
            ]
        common = random_placements(rng, self.mesh, len(sizes), partial)
        alike = rng.random() < 0.5
        self.parts = [
            as_dtensor(w, self.mesh, common if alike else random_placements(rng, self.mesh, len(sizes), partial))
            for w in self.whole
        ]
        self.constants = constants
        self.constant_parts = [self.placed(c) for c in constants]

    def placed(self, whole: Tensor) -> DTensor:
        return distribute_tensor(whole, self.mesh, random_placements(self.rng, self.mesh, whole.dim(), False))

    def __repr__(self) -> str:
        tensors = [(tuple(x.shape), x.placements) for x in (*self.parts, *self.constant_parts)]
        return f"{self.name} {tensors} {self.numbers} on {tuple(self.mesh.shape)}"

    def arguments(self, tensors: Sequence[Tensor], constants: Sequence[Tensor]) -> tuple[Any, ...]:
        return (list(tensors) if self.name == "join" else tensors[0], *constants, *self.numbers)

    def __call__(self, tensors: Sequence[Tensor], constants: Sequence[Tensor]) -> list[Tensor]:
        operators = dml if self.past_the_dispatcher else torch.ops.torch_dml_ops
        function = getattr(operators, self.name)
        arguments = self.arguments(tensors, constants)
        return as_list(function(*arguments) if self.past_the_dispatcher else function.default(*arguments))


def random_calls(meshes: Sequence[DeviceMesh], count: int, partial: bool = True) -> Iterator[RandomCall]:
    for name in OPERATORS:
        for seed in range(count):
            yield RandomCall(name, seed, meshes, partial)


def check_values_strides_gradients(meshes: Sequence[DeviceMesh]) -> None:
    for call in random_calls(meshes, 45):
        whole = [w.clone().requires_grad_() for w in call.whole]
        parts = [x.detach().requires_grad_() for x in call.parts]
        wanted, results = call(whole, call.constants), call(parts, call.constant_parts)
        for result, want in zip(results, wanted, strict=True):
            assert isinstance(result, DTensor), call
            assert (result.shape, result.stride()) == (want.shape, want.stride()), (call, result, want)
            assert is_part_of(result.detach(), want.detach()), call
        local = [r.detach().to_local() for r in results]
        assert len({t.untyped_storage()._cdata for t in local}) == len(local), call
        cotangents = [random_tensor(call.rng, w.shape, -9, 9) for w in wanted]
        grads = torch.autograd.grad(results, parts, [call.placed(c) for c in cotangents])
        expected = torch.autograd.grad(wanted, whole, cotangents)
        assert all(same_bits(grad.full_tensor(), want) for grad, want in zip(grads, expected, strict=True)), call


def check_the_model_counts_what_is_received(meshes: Sequence[DeviceMesh]) -> None:
    from torch_dml_ops.distributed import traffic

    compared = gathered_twice = 0
    for call in random_calls(meshes, 45):
        with Counted() as counted:
            results = call(call.parts, call.constant_parts)
        model = traffic(call.name, *call.arguments(call.parts, call.constant_parts))
        assert model.placements == results[0].placements
        changed = [
            [(p, q) for p, q in zip(x.placements, model.placements, strict=True) if p != q]
            for x in (*call.parts, *call.constant_parts)
        ]
        # Of other changes along several dimensions torch chooses the order.
        if all(len(c) <= 1 or all(p.is_shard() and q.is_replicate() for p, q in c) for c in changed):
            assert model.received == counted.received, (call, model, counted.received)
            compared += 1
            gathered_twice += any(len(c) > 1 for c in changed)
    assert compared > 80, compared
    assert gathered_twice > 1 or all(mesh.ndim == 1 for mesh in meshes), gathered_twice


# Rules, one by one. The first mesh has one dimension.


def raised(call: Callable[..., Any], *args: Any, **named: Any) -> str:
    try:
        call(*args, **named)
    except (RuntimeError, TypeError, ValueError) as error:
        return str(error)
    raise AssertionError("nothing was raised")


def check_every_dtype_is_sent_bit_for_bit(meshes: Sequence[DeviceMesh]) -> None:
    mesh, lengths = meshes[0], torch.tensor([[5, 6, 3, 2, 0]], dtype=torch.uint32)
    for dtype in oracle.DTYPES:
        generator = torch.Generator().manual_seed(0)
        items = torch.randint(0, 256, (6, 5 * dtype.itemsize), dtype=torch.uint8, generator=generator)
        whole = (items % 2 if dtype == torch.bool else items).view(dtype)
        x = distribute_tensor(whole, mesh, [Shard(0)])
        for name, numbers in (("slice1", ([0, 1], [6, 4], [-1, 2])), ("slice_grad", ([9, 5], [1, 0], [6, 5], [-1, 1]))):
            want = distribute_tensor(getattr(dml, name)(whole, *numbers), mesh, [Shard(0)])
            assert same_bits(getattr(dml, name)(x, *numbers).to_local(), want.to_local()), (name, dtype)
        reversed_ = dml.reverse_subsequences(x, distribute_tensor(lengths, mesh, [Shard(1)]), 0)
        assert same_bits(reversed_.to_local(), dml.reverse_subsequences(whole, lengths, 0)), dtype


def check_refusals_are_those_of_one_process(meshes: Sequence[DeviceMesh]) -> None:
    mesh = meshes[0]

    def sharded(*sizes: int, dtype: torch.dtype = torch.float32) -> DTensor:
        placement = Shard(0) if sizes else Replicate()
        return torch.distributed.tensor.empty(*sizes, dtype=dtype, device_mesh=mesh, placements=[placement])

    seen = 0
    for refusal in refusals.rows(refusals.ARGUMENTS):
        with suppress(RuntimeError, ValueError):  # where torch itself does not make it
            given = refusal.arguments(sharded)
            assert raised(getattr(dml, refusal.op), *given) == refusal.sentence
            seen += 1
    assert seen > 60, seen


def check_tensors_that_do_not_fit_together(meshes: Sequence[DeviceMesh]) -> None:
    mesh = meshes[0]
    x = distribute_tensor(torch.arange(12.0).reshape(4, 3), mesh, [Shard(0)])
    plain, lengths = torch.zeros(4, 3), torch.ones(4, 1, dtype=torch.int64)
    way_out = "; call distribute_tensor on it, or implicit_replication if every rank has it whole"
    for name, argument, other, *arguments in (
        ("reverse_subsequences", "sequence_lengths", "input", x, lengths, 1),
        ("reverse_subsequences", "input", "sequence_lengths", plain, distribute_tensor(lengths, mesh), 1),
        ("join", "inputs[1]", "inputs[0]", [x, plain], 1),
        ("join", "inputs[0]", "inputs[1]", [plain, x], 1),
    ):
        sentence = f"{name}: {argument} must be a DTensor, as {other} is, got a plain tensor{way_out}"
        assert raised(getattr(dml, name), *arguments) == sentence
    sentence = f"slice1: out must be a DTensor, as input is, got a plain tensor{way_out}"
    assert raised(dml.slice1, x, [0, 0], [4, 3], [1, 1], out=plain) == sentence
    with implicit_replication():
        assert same_bits(dml.join([x, plain], 0).full_tensor(), dml.join([x.full_tensor(), plain], 0))
        assert same_bits(dml.reverse_subsequences(x, lengths * 3, 1).full_tensor(), x.full_tensor().flip(1))
    other_mesh = DeviceMesh("cpu", list(reversed(range(mesh.size()))))
    y = distribute_tensor(torch.zeros(4, 3), other_mesh, [Shard(0)])
    assert raised(dml.join, [x, y], 0).startswith("join: inputs[1] must be on the mesh of inputs[0], DeviceMesh(")


def check_out(meshes: Sequence[DeviceMesh]) -> None:
    for call in random_calls(meshes, 12, partial=False):
        results = call(call.parts, call.constant_parts)
        outs = [torch.full_like(r, 77) for r in results]
        given = call.arguments(call.parts, call.constant_parts)
        out: Any = outs if call.name == "split" else outs[0]
        assert getattr(dml, call.name)(*given, out=out) is out
        for r, o in zip(results, outs, strict=True):
            assert o.placements == r.placements
            assert same_bits(o.to_local(), r.to_local()), call
    mesh = meshes[0]
    whole = torch.arange(12.0).reshape(4, 3)
    x = distribute_tensor(whole, mesh, [Shard(0)])
    window = [0, 0], [4, 3], [-1, 1]
    before = x.to_local().clone()
    r = distribute_tensor(whole, mesh, [Replicate()])
    way_out = "; call redistribute on it, or the operator without out"
    for sentence, out in (
        (f"out must be placed as the result is, {x.placements}, got {r.placements}{way_out}", r),
        ("out must have sizes [4, 3], got [4, 2]", distribute_tensor(whole[:, :2].contiguous(), mesh, [Shard(0)])),
        ("out must have the dtype of input, float32, got float64", distribute_tensor(whole.double(), mesh, [Shard(0)])),
        ("out must not share memory with input", x),
    ):
        assert raised(dml.slice1, x, *window, out=out) == f"slice1: {sentence}"
        assert same_bits(x.to_local(), before)
    halves = [distribute_tensor(whole, mesh, [Shard(0)])]
    sentence = "split: out must have length 2, a tensor for each of split_sizes, got 1"
    assert raised(dml.split, x, [1, 2], 1, out=halves) == sentence
    leaf = x.detach().requires_grad_()
    sentence = raised(dml.slice1, leaf, *window, out=torch.empty_like(x))
    assert sentence.startswith("slice1: with out there is no automatic differentiation, and input requires grad")
    plain = whole.to(torch.complex64)  # of which no other rank knows
    assert raised(dml.slice1, plain, *window, out=plain.clone().conj()).startswith("slice1: out must ")


def from_parts(part: Tensor, mesh: DeviceMesh, *placements: Placement, **whole: Any) -> DTensor:
    return DTensor.from_local(part, mesh, placements or [Shard(0)], run_check=False, **whole)


def check_what_one_rank_refuses_all_refuse(meshes: Sequence[DeviceMesh]) -> None:
    """Nobody waits for the one. In a call with `out`, where ranks may have different tensors."""
    for mesh in meshes:
        rank, last = dist.get_rank(), dist.get_world_size() - 1
        for alone in (0, last):
            for function in (dml.slice1, torch.ops.torch_dml_ops.slice1.out):
                for sentence, given, out in refused_by(rank == alone, mesh):
                    before = None if out.is_inference() else out._version
                    said = raised(function, *given, out=out)
                    assert said.startswith(f"slice1: {sentence}"), (said, sentence)
                    assert said.endswith(f" (on rank {alone})") == (rank != alone), (said, sentence)
                    assert before is None or before == out._version
    # A rank whose shard is empty shares no memory.
    mesh = meshes[0]
    rows = torch.zeros(2, 3)
    one = from_parts(rows[: rank == 0], mesh, shape=torch.Size([1, 3]), stride=(3, 1))
    both = from_parts(rows[:1] if rank < 2 else rows[:0], mesh, shape=torch.Size([2, 3]), stride=(3, 1))
    sentence = raised(dml.join, [torch.zeros_like(one), one], 0, out=both)
    assert sentence.removesuffix(" (on rank 0)") == "join: out must not share memory with inputs[1]"


def refused_by(here: bool, mesh: DeviceMesh) -> Iterator[tuple[str, tuple[Any, ...], Any]]:
    """Calls that only the ranks where `here` is true refuse, of which all the others want to send something."""
    sizes = torch.Size([2 * mesh.size(0), 4])
    window = [0, 0], sizes, [-1, 1]

    def zeros(rows: int = 2, **named: Any) -> Tensor:
        return torch.zeros(rows, 4, **named)

    def sharded(part: Tensor, **whole: Any) -> DTensor:
        return from_parts(part, mesh, Shard(0), *[Replicate()] * (mesh.ndim - 1), **whole)

    def as_expected(part: Tensor) -> DTensor:
        return sharded(part, shape=sizes, stride=(4, 1))

    x, out = sharded(zeros()), sharded(zeros())
    negated = torch.zeros(2, 4, dtype=torch.complex64).conj().imag
    with torch.inference_mode(here):
        inferred = sharded(zeros())
    for sentence, wrong in (
        ("out must not share memory with input", as_expected(x.to_local())),
        ("out must not overlap itself", as_expected(torch.zeros(4).expand(2, 4))),
        ("out must have the dtype of input", sharded(zeros(dtype=torch.float64))),
        ("out must have sizes", sharded(zeros(3))),
        ("out must have sizes", sharded(torch.zeros([1] * 30))),  # a list that is cut short, by a character of its own
        ("out must have sizes [2, 4] on this rank, got [3, 4]", as_expected(zeros(3))),
        ("out must be placed", distribute_tensor(zeros(sizes[0]), mesh)),
        ("out must be a DTensor", zeros(sizes[0])),
        ("out must not be a lazily", as_expected(negated)),
        ("out must not be an inference tensor", inferred),
        ("with out there is no automatic", sharded(zeros()).requires_grad_()),
    ):
        yield sentence, (x, *window), wrong if here else out
    for sentence, refused in (
        ("out must have the dtype of input", (sharded(zeros(dtype=torch.int32)), *window)),
        ("input must be a DTensor", (zeros(sizes[0]), *window)),
        ("with out there is no automatic", (x.detach().requires_grad_(), *window)),
        ("window_strides[1] must not be 0", (x, [0, 0], sizes, [-1, 0])),
    ):
        yield sentence, refused if here else (x, *window), out


def check_ranks_may_differ_in_what_is_theirs_alone(meshes: Sequence[DeviceMesh]) -> None:
    """In what they record, in modes and memory formats: the others neither wait nor get other values."""
    mesh, rank = meshes[0], dist.get_rank()
    whole = torch.arange(24.0 * mesh.size()).reshape(2 * mesh.size(), 3, 4)
    mine = slice(2 * rank, 2 * rank + 2)
    lengths = distribute_tensor(torch.full((1, 3, 4), len(whole)), mesh)
    complex_ = torch.complex(whole, whole + 1)
    calls: dict[str, Callable[[Any], Tensor]] = {
        "slice1": lambda x: dml.slice1(x, [1, 0, 0], [len(whole) - 1, 3, 4], [-1, 1, 2]),
        "slice_grad": lambda x: dml.slice_grad(x, [30, 3, 4], [1, 0, 0], [len(whole), 3, 4], [1, 1, 1]),
        "split": lambda x: dml.split(x, [1, len(whole) - 1], 0)[1],
        "join": lambda x: dml.join([x, x], 0),
        "reverse_subsequences": lambda x: dml.reverse_subsequences(
            x, lengths if isinstance(x, DTensor) else torch.full((1, 3, 4), len(whole)), 0
        ),
        "slice1.default": lambda x: getattr(torch.ops.torch_dml_ops.slice1, "default" if rank else "__call__")(
            x, [0, 0, 0], whole.shape, [-1, -1, 1]
        ),
    }
    for name, call in calls.items():
        for alone in (0, mesh.size() - 1):
            here = rank == alone
            want = call(whole)
            x = distribute_tensor(whole, mesh, [Shard(0)])
            for context, requires_grad in (
                (nullcontext, here),
                (partial(torch.set_grad_enabled, here), True),
                (partial(torch.inference_mode, here), False),
                (Counted if here else nullcontext, False),
            ):
                given = x.detach().requires_grad_(requires_grad)
                with context():
                    result = call(given)
                assert same_bits(result.detach().full_tensor(), want), (name, context)
            turned = whole[mine].permute(2, 1, 0).contiguous().permute(2, 1, 0)
            for given in (whole[mine], turned), (turned, whole[mine]):
                for whole_as in ({}, {"shape": whole.shape, "stride": whole.stride()}):
                    x = from_parts(given[here].clone(), mesh, **whole_as)
                    assert same_bits(call(x).full_tensor(), want), (name, given[0].stride(), whole_as)
            conjugated = complex_.conj()[mine]
            x = from_parts(conjugated if here else conjugated.resolve_conj(), mesh)
            assert torch.equal(call(x).full_tensor(), call(complex_.conj())), name


def cube(x: Tensor) -> Tensor:
    return (dml.slice1(x, [1, 0], [5, 4], [-2, 1]) ** 3).sum()


DERIVED: tuple[Callable[[Any], Any], ...] = (
    lambda x: torch.autograd.grad(torch.autograd.grad(cube(x), x, create_graph=True)[0].sum(), x)[0],
    lambda x: torch.func.grad(cube)(x.detach()),
    lambda x: torch.autograd.grad(dml.split(x, [1, 3, 2], 0)[1].sum(), x)[0],  # two pieces have no cotangent
    lambda x: torch.func.vmap(lambda row: dml.slice1(row, [0], [4], [-1]))(x.detach()),
)


def check_derivatives(meshes: Sequence[DeviceMesh]) -> None:
    mesh = meshes[0]
    whole = torch.arange(24.0, dtype=torch.float64).reshape(6, 4).requires_grad_()
    for placement in (Shard(0), Shard(1), Replicate()):
        x = distribute_tensor(whole.detach(), mesh, [placement]).requires_grad_()
        for derived in DERIVED:
            assert same_bits(derived(x).full_tensor(), derived(whole))
    # an optimizer finds gradients that are placed as the parameters are
    parameter = torch.nn.Parameter(distribute_tensor(whole.detach(), mesh, [Shard(0)]))
    (dml.slice1(parameter, [0, 0], [6, 4], [-1, -1]) ** 2).sum().backward()
    assert parameter.grad is not None
    assert parameter.grad.placements == parameter.placements
    torch.optim.AdamW([parameter]).step()


def check_ranks_outside_the_mesh(meshes: Sequence[DeviceMesh]) -> None:
    rank, whole = dist.get_rank(), torch.arange(6.0)
    x, other = (distribute_tensor(t, DeviceMesh("cpu", [1]), [Shard(0)]) for t in (whole, whole.int()))
    y = dml.split(x, [2, 4], 0)[1]
    assert y.shape == (4,)
    assert y.to_local().tolist() == ([2, 3, 4, 5] if rank == 1 else [])
    assert raised(dml.slice1, x, [0], [6], [-1], out=other).startswith("slice1: out must have ")
    pair, lengths = DeviceMesh("cpu", [0, 1]), torch.tensor([6])
    for call, placement in (
        (lambda x, n: dml.slice1(x, [0], [6], [-1]), Shard(0)),
        (lambda x, n: dml.slice_grad(x, [12], [0], [12], [2]), Shard(0)),
        (lambda x, n: dml.join([x, x], 0), Shard(0)),
        (lambda x, n: dml.reverse_subsequences(x, n, 0), Replicate()),
    ):
        z = call(distribute_tensor(whole, pair, [Shard(0)]), distribute_tensor(lengths, pair))
        assert z.placements == (placement,)
        assert same_bits(z.full_tensor(), call(whole, lengths)) if rank < 2 else z.to_local().numel() == 0


def random_index(rng: random.Random, sizes: Sequence[int]) -> tuple[Any, ...]:
    """Of slices, whole numbers and new dimensions."""
    entries: list[Any] = []
    for n in sizes:
        offset, size, stride = random_window(rng, n)
        window = slice(offset, offset + size)
        backwards = slice(offset + size - 1, offset - 1 if offset else None, -1)
        entries += [None] * rng.choice([0, 0, 0, 1])
        entries.append(rng.choice([window, backwards, slice(None, None, stride), rng.randrange(-n, n)]))
    return tuple(entries)


def check_indices_and_a_length_for_each_of_a_batch(meshes: Sequence[DeviceMesh]) -> None:
    """Whole numbers drop dimensions that are sharded, and a batch of one item is sharded as others are."""
    for seed in range(60):
        rng = random.Random(seed)
        mesh = rng.choice(meshes)
        sizes = [rng.choice([1, 1, 2, 3, 5, 8]) for _ in range(rng.randint(2, 4))]
        axis, batch_axis = rng.sample(range(len(sizes)), 2)
        whole, n = random_tensor(rng, sizes, -50, 50), random_tensor(rng, [sizes[batch_axis]], -2, 9).int()
        index = random_index(rng, sizes)
        calls: list[Callable[[Tensor, Tensor], Tensor]] = [
            lambda x, n, index=index: dml.index(x)[index],
            lambda x, n, axis=axis, batch=batch_axis: dml.reverse_sequence(x, n, axis, batch),
        ]
        for call in calls:
            x = distribute_tensor(whole, mesh, random_placements(rng, mesh, len(sizes), False)).requires_grad_()
            lengths = distribute_tensor(n, mesh, random_placements(rng, mesh, 1, False))
            leaf = whole.clone().requires_grad_()
            want, result = call(leaf, n), call(x, lengths)
            assert not result._is_view(), (seed, sizes, x.placements, index)  # torch refuses to write to some
            assert same_bits(result.detach().full_tensor(), want.detach()), (seed, sizes, x.placements, index)
            cotangent = random_tensor(rng, want.shape, -9, 9)
            (wanted,) = torch.autograd.grad(want, leaf, cotangent)
            (grad,) = torch.autograd.grad(result, x, distribute_tensor(cotangent, mesh, result.placements))
            assert same_bits(grad.full_tensor(), wanted), (seed, sizes, x.placements, index)
            with dml.negative_steps():
                assert same_bits(x.detach()[::-1].full_tensor(), whole.flip(0)), (seed, sizes, x.placements)


def check_lazy_conjugation_and_negation(meshes: Sequence[DeviceMesh]) -> None:
    """Also where a tensor is redistributed first."""
    mesh = meshes[0]
    plain = torch.arange(14.0, dtype=torch.float64).reshape(7, 2)
    whole = torch.complex(plain, plain + 1)
    lengths = torch.tensor([[5, 7]])
    for placement in (Shard(0), Shard(1), Replicate(), Partial()):
        part = as_dtensor(whole, mesh, [placement]).to_local().conj()
        for lazy, want in ((part, whole.conj().resolve_conj()), (part.imag, whole.conj().imag.clone())):
            assert lazy.is_conj() or lazy.is_neg()
            x = DTensor.from_local(lazy, mesh, [placement], run_check=False, shape=want.shape, stride=(2, 1))
            y = distribute_tensor(want, mesh, [Replicate()])
            n = distribute_tensor(lengths, mesh)
            assert torch.equal(dml.slice1(x, [0, 0], [7, 2], [-1, -1]).full_tensor(), want.flip(0, 1)), placement
            assert torch.equal(dml.join([x, y], 0).full_tensor(), torch.cat([want, want])), placement
            reversed_ = dml.reverse_subsequences(want, lengths, 0)
            assert torch.equal(dml.reverse_subsequences(x, n, 0).full_tensor(), reversed_), placement


def check_lazy_views_of_fewer_elements_than_ranks(meshes: Sequence[DeviceMesh]) -> None:
    """torch resolves them by gathering them. The rules do not: results are placed as those of other tensors are."""
    for call in random_calls(meshes, 30, partial=False):
        for inference in (False, True):
            with torch.inference_mode(inference):
                pairs = zip(call.whole, call.parts, strict=True)
                plain = [distribute_tensor(whole, call.mesh, part.placements) for whole, part in pairs]
                constants = [call.placed(c) for c in call.constants]
                lazy = [
                    from_parts(
                        torch._neg_view(-x.to_local()), call.mesh, *x.placements, shape=x.shape, stride=x.stride()
                    )
                    for x in plain
                ]
                wanted, results = call(plain, constants), call(lazy, constants)
                outs = [torch.full_like(w, 77) for w in wanted]
                out: Any = outs if call.name == "split" else outs[0]
                getattr(dml, call.name)(*call.arguments(lazy, constants), out=out)
                for want, result, written in zip(wanted, results, outs, strict=True):
                    assert result.placements == want.placements, (call, inference)
                    assert same_bits(result.to_local(), want.to_local()), (call, inference)
                    assert same_bits(written.to_local(), want.to_local()), (call, inference)


def check_assigning_to_an_index(meshes: Sequence[DeviceMesh]) -> None:
    """It is either done or refused, never lost in a copy."""
    for mesh in meshes:
        for placements in ([Shard(0)] * mesh.ndim, [Replicate()] * (mesh.ndim - 1) + [Shard(1)]):
            (sharded,) = {p.dim for p in placements if isinstance(p, Shard)}
            for index, selects in (
                (1, 0),
                (slice(1, 3), 0),
                (slice(None, None, -2), 0),
                (slice(None, None, -1), None),
                ((None, slice(None), 2), 1),
                ((Ellipsis, slice(2, 0, -1)), 1),
            ):
                whole = torch.arange(20.0).reshape(5, 4)
                x = distribute_tensor(whole.clone(), mesh, placements)
                value = dml.index(whole)[index] * 2 + 1
                given = distribute_tensor(value, mesh)
                if selects == sharded:
                    sentence = (
                        f"index: input must not be sharded along dimension {sharded}, in which the index leaves out "
                        "elements; torch would assign to a copy; call redistribute on it first"
                    )
                    assert raised(dml.index(x).__setitem__, index, given) == sentence
                else:
                    dml.index(whole)[index] = value
                    dml.index(x)[index] = given
                assert same_bits(x.full_tensor(), whole), (placements, index)


COMPILED: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "slice1": lambda x, n: dml.slice1(x, [0, 3], [x.shape[0], 9], [-1, -2]),
    "slice_grad": lambda x, n: dml.slice_grad(x, [2 * x.shape[0], 30], [0, 3], [2 * x.shape[0], 23], [2, 2]),
    "split and join": lambda x, n: dml.join(dml.split(x, [5, 7], 1)[::-1], 1),
    "split and join, rows": lambda x, n: dml.join(dml.split(x, [5, 3], 0)[::-1], 0),
    "reverse_subsequences": lambda x, n: dml.reverse_subsequences(x, dml.sequence_lengths_like(x, n, 1), 1),
}


def check_compiled(meshes: Sequence[DeviceMesh]) -> None:
    """All functions in one graph, which is compiled faster than a graph for each."""
    mesh = meshes[0]
    whole = torch.arange(96.0).reshape(8, 12)  # whose squares, and their sums, are exact
    for dynamic in (False, True):
        names = [name for name in COMPILED if not (KNOWN_WRONG_STRIDES and dynamic and name == "reverse_subsequences")]

        def function(x: Tensor, n: Tensor, names: Sequence[str] = names) -> list[Tensor]:
            return [COMPILED[name](x, n) for name in names]

        torch._dynamo.reset()
        compiled = torch.compile(function, backend="aot_eager", fullgraph=True, dynamic=dynamic)
        for placement in (Shard(0), Shard(1)) if dynamic else (Shard(0), Shard(1), Replicate()):
            x = distribute_tensor(whole, mesh, [placement]).requires_grad_()
            n = distribute_tensor(torch.arange(8, dtype=torch.int32), mesh, [Shard(0)])
            ended = []
            for results in (compiled(x, n), function(x, n)):
                (grad,) = torch.autograd.grad(sum((r * r).sum() for r in results), x)
                ended.append([*results, grad])
            for name, result, want in zip([*names, "gradient"], *ended, strict=True):
                what = name, dynamic, placement
                assert (result.placements, result.stride()) == (want.placements, want.stride()), what
                assert same_bits(result.detach().to_local(), want.detach().to_local()), what

    torch._dynamo.reset()
    backwards = torch.compile(lambda x: dml.slice1(x, [0], [x.shape[0]], [-1]), backend="aot_eager", fullgraph=True)
    for size in (12, 7, 9):  # every rank's part changes, and torch makes the sizes dynamic
        numbers = torch.arange(float(size))
        assert same_bits(backwards(distribute_tensor(numbers, mesh, [Shard(0)])).full_tensor(), numbers.flip(0)), size


def check_ranks_do_not_run_code_compiled_for_another(meshes: Sequence[DeviceMesh]) -> None:
    """The caches of compiled code are shared. The second rank compiles when the first one has filled them."""
    whole = torch.randn(8, 12, generator=torch.Generator().manual_seed(0))
    x = distribute_tensor(whole, meshes[0], [Shard(0)])
    assert torch._functorch.config.enable_autograd_cache
    cache = Path(os.environ["TORCHINDUCTOR_CACHE_DIR"]) / "aotautograd"
    while dist.get_rank() == 1 and not any(path.is_file() for path in cache.rglob("*")):
        time.sleep(0.05)
    compiled = torch.compile(lambda x: dml.slice1(x, [0, 3], [8, 9], [-1, -2]), fullgraph=True)
    assert is_part_of(compiled(x), dml.slice1(whole, [0, 3], [8, 9], [-1, -2]))


def check_equal_meshes_send_by_their_own_groups(meshes: Sequence[DeviceMesh]) -> None:
    """One that was made by hand is destroyed, another takes its place."""
    whole = torch.arange(3 * dist.get_world_size())
    for _ in range(2):
        group = dist.new_group()
        mesh = DeviceMesh.from_group(group, "cpu")
        x = distribute_tensor(whole, mesh, [Shard(0)])
        reversed_ = dml.slice1(x, [0], [len(whole)], [-1])
        assert same_bits(reversed_.to_local(), distribute_tensor(whole.flip(0), mesh, [Shard(0)]).to_local())
        dist.destroy_process_group(group)


# torch 2.11 gives the result of a compiled function with dynamic sizes other strides, if its rule makes them anew.
KNOWN_WRONG_STRIDES = torch.__version__.startswith("2.11.")

CHECKS: dict[str, Callable[[Sequence[DeviceMesh]], None]] = {
    name.removeprefix("check_"): check for name, check in list(globals().items()) if name.startswith("check_")
}


FOR_TWO = ("compiled", "ranks_do_not_run_code_compiled_for_another")  # more of them compile the same, but for longer
SECONDS = 200  # for a check; one that needs them hangs


def run_rank(rank: int, ranks: int, folder: Path, names: Sequence[str]) -> None:
    file = (folder / f"rank {rank}.txt").open("w")
    for stream in (1, 2):
        os.dup2(file.fileno(), stream)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder / 'store'}",
        rank=rank,
        world_size=ranks,
        timeout=timedelta(seconds=SECONDS + 100),
    )
    meshes = [init_device_mesh("cpu", (ranks,))]
    if ranks == 4:
        meshes.append(init_device_mesh("cpu", (2, 2)))
    for name in names:
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        CHECKS[name](meshes)
        dist.barrier()
        print("passed", name, flush=True)
    faulthandler.cancel_dump_traceback_later()
    dist.destroy_process_group()


def main() -> None:
    """Forks the processes: the imports take longer than most checks. When one fails, the others are ended."""
    ranks, folder = int(sys.argv[1]), Path(sys.argv[2])
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    names = sys.argv[3:] or [name for name in CHECKS if ranks == 2 or name not in FOR_TWO]
    torch.multiprocessing.start_processes(run_rank, (ranks, folder, names), ranks, start_method="fork")


if __name__ == "__main__":
    main()
