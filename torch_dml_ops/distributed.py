"""The operators on PyTorch's DTensors: how they are placed, and what the ranks send each other.

Importing this module registers the rules; the package imports it by itself when an operator first meets a DTensor. The
numbers of a call (offsets, sizes, axes) are those of the whole tensor, and so are those in an error's sentence. For
each dimension of the device mesh:

* What is replicated stays so.
* What is sharded along a dimension that nothing moves along stays so, without communication.
* What is sharded along a dimension that elements move along stays so too: each rank sends the others the elements that
  belong to their part of the result, and nothing else, in one all-to-all. (``reverse_subsequences`` gathers the axis
  that it reverses instead: where an element goes depends on the lengths. And of several mesh dimensions over which one
  such dimension is sharded, all but the first are gathered.)
* What is partial stays so, whatever its reduction: moving elements and reducing them commute.
* ``join`` finds the common placement of its inputs that takes the least traffic, and ``reverse_subsequences`` places
  the lengths as the input is.

Derivatives, :func:`torch.func.vmap` and :func:`torch.compile` work as they do on plain tensors.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import torch.autograd.forward_ad as forward_ad
from torch import Tensor
from torch.nn import Parameter

if not torch.distributed.is_available():
    raise ImportError("torch_dml_ops.distributed needs a torch that is built with torch.distributed")

from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard

from torch_dml_ops import _autograd
from torch_dml_ops._autograd import call
from torch_dml_ops._fake import RULES, checked_outs
from torch_dml_ops._layout import dense_strides, shared_order
from torch_dml_ops._overlap import check_memory
from torch_dml_ops._shards import Run, Transfer, leaving, received, shard, steps_within, transfers
from torch_dml_ops._text import text

_missing: Exception | None = None
try:
    from torch._C import (
        _are_functorch_transforms_active,
        _get_tracing_state,
        _len_torch_dispatch_stack,
        _len_torch_function_stack,
    )
    from torch._ops import _len_torch_dispatch_stack_pre_dispatch
    from torch.distributed._functional_collectives import AsyncCollectiveTensor, all_reduce, all_to_all_single
    from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta

    for owner, name in (
        (DTensor, "_local_tensor"),
        (DTensor, "_spec"),
        (DTensor._op_dispatcher, "_allow_implicit_replication"),
        (forward_ad, "_current_level"),
    ):
        getattr(owner, name)
except (ImportError, AttributeError) as error:
    _missing = error

__all__ = ["Traffic", "traffic"]

Placements = tuple[Placement, ...]
Step = Callable[[list[Tensor]], list[Tensor]]  # of what a call does with the tensors that this rank has


class Window(NamedTuple):
    """The numbers of slice1 or slice_grad for one dimension."""

    offset: int
    size: int
    stride: int
    steps: int

    @property
    def start(self) -> int:
        return self.offset if self.stride > 0 else self.offset + self.size - 1

    def is_whole(self, size: int) -> bool:
        """Whether it takes a dimension of this size as it is."""
        return self[0] == 0 and self[1] == size and self[3] == size and (self[2] == 1 or size <= 1)


def _whole(size: int) -> Window:
    return Window(0, size, 1, size)


def _walk(start: int, stride: int, steps: int) -> Window:
    """The least window for so many steps."""
    far = (steps - 1) * stride
    return Window(min(start, start + far), abs(far) + 1, stride, steps)


class Exchange:
    """A step that moves elements along a dimension of the tensor that is sharded over one dimension of the mesh.

    A rank copies what it has for others (`slice1` with `windows`, of which that of `axis` is replaced), sends it, and
    joins what it gets to one tensor for each target, whose dimensions have the memory order `order`.
    """

    def __init__(
        self,
        mesh: DeviceMesh,
        mesh_dim: int,
        axis: int,
        runs: Sequence[Run],
        source_sizes: Sequence[int],
        target_sizes: Sequence[int],
        windows: Sequence[Window],
        order: list[int],
    ) -> None:
        ranks, here = mesh.size(mesh_dim), _rank(mesh, mesh_dim)
        # Who sends what is decided while compiling, too: the sizes of this dimension become constants.
        runs = [Run(*map(int, run)) for run in runs]
        layout = runs, list(map(int, source_sizes)), list(map(int, target_sizes)), ranks
        self.group, self.axis, self.order = (mesh, mesh_dim), axis, order
        self.sizes = [window.steps for window in windows]
        self.sizes[axis] = 1
        self.targets = len(target_sizes)
        self.is_local = not any(leaving(*layout))

        sent, got = transfers(*layout, here), received(*layout, here)
        self.kept = {(t.run, t.first): t for t in sent if t.peer == here}
        self.sent = [t for t in sent if t.peer != here]
        self.received = [t for t in got if t.peer != here]
        rest = math.prod(self.sizes)
        self.sent_to, self.received_from = (
            [rest * sum(t.end - t.first for t in some if t.peer == peer) for peer in range(ranks)]
            for some in (self.sent, self.received)
        )
        self.blocks = [
            sorted((t.run, t.first) for t in got if runs[t.run].target == target) for target in range(self.targets)
        ]
        self.copies: dict[Transfer, tuple[Any, ...]] = {}  # which tensor to copy from, and the numbers of slice1
        for t in sent:
            run = runs[t.run]
            begin, _ = shard(layout[1][run.source], ranks, here)
            start = run.source_start + t.first * run.source_step - begin
            columns = list(windows)
            columns[axis] = _walk(start, run.source_step, t.end - t.first)
            self.copies[t] = run.source, *zip(*columns, strict=True)

    def __call__(self, tensors: list[Tensor]) -> list[Tensor]:
        blocks = {key: self._copy(tensors, t) for key, t in self.kept.items()}
        incoming = None if self.is_local else self._exchanged(tensors)
        if incoming is not None:
            blocks |= self._received_blocks(incoming)
        results = []
        for keys in self.blocks:
            # A block that was received lies in memory of its own only if it is all that there is.
            if len(keys) == 1 and (keys[0] in self.kept or self.targets == 1):
                result = blocks[keys[0]]
            elif keys:
                result = call("join", [blocks[key] for key in keys], self.axis)
            else:
                result = _in_order(tensors[0].new_empty(self._sizes(0)), self.order)
            if all(key in self.kept for key in keys):
                result = _depending(result, self.order, tensors if incoming is None else [incoming])
            results.append(result)
        return results

    def _copy(self, tensors: list[Tensor], t: Transfer) -> Tensor:
        source, *numbers = self.copies[t]
        result: Tensor = call("slice1", tensors[source], *numbers)
        return result

    def _exchanged(self, tensors: list[Tensor]) -> Tensor:
        """All elements that this rank receives."""
        like = tensors[0]
        item = like.element_size()
        # As bytes: not every backend knows every dtype, and none may change a bit.
        # In the order of their indices: the memory formats of the ranks' tensors may differ.
        copies = [self._copy(tensors, t).reshape(-1).view(torch.uint8) for t in self.sent]
        outgoing = copies[0] if len(copies) == 1 else torch.cat([like.new_empty(0, dtype=torch.uint8), *copies])
        outgoing = _depending(outgoing, [0], tensors)
        incoming = all_to_all_single(
            outgoing, [n * item for n in self.received_from], [n * item for n in self.sent_to], self.group
        )
        if isinstance(incoming, AsyncCollectiveTensor):
            incoming = incoming.wait()
        return incoming.view(like.dtype)

    def _received_blocks(self, incoming: Tensor) -> dict[tuple[int, int], Tensor]:
        sizes = [self._sizes(t.end - t.first) for t in self.received]
        parts = incoming.split([math.prod(s) for s in sizes]) if sizes else ()
        return {
            (t.run, t.first): _in_order(part.view(s), self.order)
            for t, part, s in zip(self.received, parts, sizes, strict=True)
        }

    def _sizes(self, count: int) -> list[int]:
        return [count if d == self.axis else n for d, n in enumerate(self.sizes)]


def _in_order(tensor: Tensor, order: list[int]) -> Tensor:
    """The tensor with its dimensions in this order in memory; a copy if they are in another one."""
    return tensor.permute(order).contiguous().permute([order.index(d) for d in range(len(order))])


def _depending(tensor: Tensor, order: list[int], others: Sequence[Tensor]) -> Tensor:
    """The tensor, whose memory order is `order`; in a graph that is traced, a copy that depends on the others, too.

    The ranks' graphs have to send in the same order. But torch divides forward from backward by what depends on what,
    drops what nothing depends on and merges what looks alike, and sees one rank's part alone: nothing to send, which
    depends on nothing, would leave the backward on that rank.
    """
    if _is_plain(tensor):
        return tensor
    unique = torch.empty(0, dtype=tensor.dtype, device=tensor.device)  # torch does not merge two of these
    parts = [t.narrow(0, 0, 0).reshape(0).real.to(tensor.dtype) for t in others]
    dense = tensor.permute(order).contiguous()
    # By cat alone the empty parts would go: Inductor leaves them out beside one that is not.
    flat = torch.slice_scatter(dense.view(-1), torch.cat([unique, *parts]), 0, 0, 0)
    return flat.view(dense.shape).permute([order.index(d) for d in range(len(order))])


class Plan(NamedTuple):
    """What a call does on this rank."""

    placed: list[Placements]  # how each tensor is to be placed first
    steps: list[Step]  # what is done then with the tensors that this rank has
    specs: list[DTensorSpec]  # of the results


# Placements.


def _settle(x: DTensor, moved: set[int]) -> tuple[Placements, dict[int, int]]:
    """How `x` is placed before elements move along the dimensions `moved`, and which of these are still sharded then,
    over which dimension of the mesh."""
    placements: list[Placement] = []
    exchanged: dict[int, int] = {}
    for mesh_dim, p in enumerate(x.placements):
        dim = getattr(p, "dim", None)  # Shard and torch's own _StridedShard
        if type(p) is Shard and dim in moved and dim not in exchanged:
            exchanged[dim] = mesh_dim
            # Compiled code is guarded by the sizes of this rank's part: torch drops guards on those of the whole.
            int(x._local_tensor.shape[dim])
        elif not (p.is_replicate() or type(p) is Partial or (dim is not None and dim not in moved)):
            p = Replicate()
        placements.append(p)
    return tuple(placements), exchanged


def _rank(mesh: DeviceMesh, mesh_dim: int) -> int:
    """This rank along a mesh dimension; one outside of the mesh plans as the first one does, to know the placements."""
    coordinate = mesh.get_coordinate()
    return coordinate[mesh_dim] if coordinate is not None else 0


def _sizes_here(sizes: Sequence[int], mesh: DeviceMesh, placements: Placements, first_of: int = -1) -> list[int]:
    """The sizes of this rank's part under placements of Shard, Replicate and Partial; of the first rank's along the
    mesh dimension `first_of`, whose part is the largest."""
    here = list(sizes)
    for mesh_dim, p in enumerate(placements):
        if type(p) is Shard:
            rank = 0 if mesh_dim == first_of else _rank(mesh, mesh_dim)
            begin, end = shard(here[p.dim], mesh.size(mesh_dim), rank)
            here[p.dim] = end - begin
    return here


def _local_sizes(x: DTensor, placed: Placements, moved: set[int]) -> list[int]:
    """The sizes of this rank's part of `x` when it is placed as `_settle` says."""
    part = _sizes_here(x.shape, x.device_mesh, placed)
    if x.device_mesh.get_coordinate() is None:
        return part
    return [part[d] if d in moved else n for d, n in enumerate(x._local_tensor.shape)]


def _check_part(name: str, argument: str, x: DTensor) -> None:
    """Refuses a part of other sizes than this rank has to have: others would get something else than they expect."""
    shards = [p for p in x.placements if hasattr(p, "dim")]
    # Only torch knows the sizes under its own _StridedShard, and where one dimension is sharded more than once.
    is_known = all(type(p) is Shard for p in shards) and len({p.dim for p in shards}) == len(shards)
    if x.device_mesh.get_coordinate() is None or not is_known:
        return
    wanted, given = _sizes_here(x.shape, x.device_mesh, x.placements), list(x._local_tensor.shape)
    if given != wanted:
        raise RuntimeError(f"{name}: {argument} must have sizes {text(wanted)} on this rank, got {text(given)}")


def _common(pieces: Sequence[DTensor], axis: int) -> Placements:
    """The common placement of a join's inputs that takes the least traffic."""
    mesh = pieces[0].device_mesh
    sizes = [t.shape[axis] for t in pieces]
    rest = math.prod(n for d, n in enumerate(pieces[0].shape) if d != axis)
    common: list[Placement] = []
    for mesh_dim, now in enumerate(zip(*(t.placements for t in pieces), strict=True)):
        ranks = mesh.size(mesh_dim)

        def elements(to: Placement, now: Sequence[Placement] = now, ranks: int = ranks) -> float:
            """How many elements the ranks receive."""
            total = sum(n * rest * _parts_received(p, to, ranks, mesh) for n, p in zip(sizes, now, strict=True))
            if to == Shard(axis):
                runs = _runs_of_join(sizes)
                total += rest * sum(leaving(runs, sizes, [sum(sizes)], ranks))
            return total

        shards = [p for p in dict.fromkeys(now) if type(p) is Shard and (p.dim != axis or p not in common)]
        candidates = [*shards, Replicate()]
        if len(set(now)) == 1 and type(now[0]) in (Partial, Shard) and now[0] != Shard(axis):
            candidates = [now[0]]
        common.append(min(candidates, key=elements))  # of equal ones a shard, which takes less memory
    return tuple(common)


def _parts_received(p: Placement, to: Placement, ranks: int, mesh: DeviceMesh) -> float:
    """How many copies of a tensor the ranks receive together when it is redistributed along one mesh dimension."""
    if p == to or p.is_replicate():
        return 0
    if p.is_partial():
        return (2 if to.is_replicate() else 1) * (ranks - 1)
    # From shard to shard torch gathers on CPUs.
    return ranks - 1 if to.is_replicate() or mesh.device_type == "cpu" else (ranks - 1) / ranks


# Plans.

Planned = tuple[list[Placements], Placements, list[Step]]  # before the call, of the results, and between the two


def _windows(
    offsets: Sequence[int], sizes: Sequence[int], strides: Sequence[int], counts: Sequence[int]
) -> list[Window]:
    return [Window(*numbers) for numbers in zip(offsets, sizes, strides, counts, strict=True)]


def _locally(name: str, *numbers: Any) -> Step:
    """A step that calls an operator on the tensors of this rank."""
    if name == "join":
        return lambda tensors: [call(name, tensors, *numbers)]
    if name == "split":
        return lambda tensors: list(call(name, tensors[0], *numbers))
    return lambda tensors: [call(name, *tensors, *numbers)]


def _copy_of(sizes: Sequence[int]) -> Step:
    """For a single piece: split and join refuse an axis of which this rank has nothing."""
    return _locally("slice1", *zip(*map(_whole, sizes), strict=True))


def _plan_slice1(
    order: list[int],
    counts: Sequence[int],
    x: DTensor,
    offsets: Sequence[int],
    sizes: Sequence[int],
    strides: Sequence[int],
    _: Any = None,
) -> Planned:
    windows = _windows(offsets, sizes, strides, counts)
    moved = {d for d, (w, n) in enumerate(zip(windows, x.shape, strict=True)) if not w.is_whole(n)}
    placed, exchanged = _settle(x, moved)
    here = _local_sizes(x, placed, moved)
    local = [w if d in moved and d not in exchanged else _whole(here[d]) for d, w in enumerate(windows)]
    if not exchanged:
        return [placed], placed, [_locally("slice1", *zip(*local, strict=True))]
    steps: list[Step] = []
    for axis, mesh_dim in exchanged.items():
        w = windows[axis]
        runs = [Run(0, 0, w.start, w.stride, 0, 1, w.steps)]
        steps.append(Exchange(x.device_mesh, mesh_dim, axis, runs, [x.shape[axis]], [w.steps], local, order))
        after = _sizes_here(counts, x.device_mesh, placed)
        local = [_whole(after[d] if d == axis else window.steps) for d, window in enumerate(local)]
    return [placed], placed, steps


def _plan_slice_grad(
    order: list[int],
    _: Sequence[int],
    g: DTensor,
    sizes: Sequence[int],
    offsets: Sequence[int],
    window_sizes: Sequence[int],
    strides: Sequence[int],
) -> Planned:
    windows = _windows(offsets, window_sizes, strides, g.shape)
    moved = {d for d, (w, n) in enumerate(zip(windows, sizes, strict=True)) if not w.is_whole(n)}
    placed, exchanged = _settle(g, moved)
    mesh = g.device_mesh
    here = _local_sizes(g, placed, moved)
    local = [_whole(n) for n in here]
    results = [sizes[d] if d in moved else n for d, n in enumerate(here)]
    parts = {axis: shard(int(sizes[axis]), mesh.size(m), _rank(mesh, m)) for axis, m in exchanged.items()}
    for axis, (begin, end) in parts.items():
        results[axis] = end - begin
    scatter = [w if d in moved else _whole(here[d]) for d, w in enumerate(windows)]
    steps: list[Step] = []
    for axis, mesh_dim in exchanged.items():
        w, n = windows[axis], int(sizes[axis])
        run = Run(0, 0, 0, 1, int(w.start), int(w.stride), int(w.steps))
        steps.append(Exchange(mesh, mesh_dim, axis, [run], [w.steps], [n], local, order))
        first, count = steps_within(run.target_start, run.target_step, run.steps, *parts[axis])
        count -= first
        if count <= 0:  # and so on every rank with the same part
            return [placed], placed, [*steps, lambda tensors: [_zeros(tensors, results, order)]]
        start = run.target_start + first * run.target_step - parts[axis][0]
        scatter[axis] = _walk(start, run.target_step, count)
        local[axis] = _whole(count)
    offsets, window_sizes, strides, _ = zip(*scatter, strict=True)
    return [placed], placed, [*steps, _locally("slice_grad", tuple(results), offsets, window_sizes, strides)]


def _zeros(tensors: Sequence[Tensor], sizes: Sequence[int], order: list[int]) -> Tensor:
    return _depending(_in_order(tensors[0].new_zeros(sizes), order), order, tensors)


def _plan_split(order: list[int], _: Any, x: DTensor, sizes: Sequence[int], axis: int) -> Planned:
    moved = {axis} if len(sizes) > 1 else set()
    placed, exchanged = _settle(x, moved)
    here = _local_sizes(x, placed, moved)
    if not moved:
        return [placed], placed, [_copy_of(here)]
    if not exchanged:
        return [placed], placed, [_locally("split", sizes, axis)]
    starts = [sum(sizes[:k]) for k in range(len(sizes))]
    runs = [Run(0, k, start, 1, 0, 1, size) for k, (start, size) in enumerate(zip(starts, sizes, strict=True))]
    windows = [_whole(n) for n in here]
    exchange = Exchange(x.device_mesh, exchanged[axis], axis, runs, [x.shape[axis]], sizes, windows, order)
    return [placed], placed, [exchange]


def _runs_of_join(sizes: Sequence[int]) -> list[Run]:
    return [Run(k, 0, 0, 1, sum(sizes[:k]), 1, size) for k, size in enumerate(sizes)]


def _plan_join(order: list[int], result_sizes: Sequence[int], *pieces_and_axis: Any) -> Planned:
    *pieces, axis = pieces_and_axis
    first = pieces[0]
    if len({t.placements for t in pieces}) == 1:
        placed, exchanged = _settle(first, {axis} if len(pieces) > 1 else set())
        here = _local_sizes(first, placed, set(exchanged))
    else:
        placed = _common(pieces, axis)
        exchanged = {axis: placed.index(Shard(axis))} if Shard(axis) in placed else {}
        here = _sizes_here(first.shape, first.device_mesh, placed)
    if len(pieces) == 1:
        return [placed], placed, [_copy_of(here)]
    if not exchanged:
        return [placed] * len(pieces), placed, [_locally("join", axis)]
    sizes = [t.shape[axis] for t in pieces]
    windows = [_whole(n) for n in here]
    exchange = Exchange(
        first.device_mesh, exchanged[axis], axis, _runs_of_join(sizes), sizes, [sum(sizes)], windows, order
    )
    return [placed] * len(pieces), placed, [exchange]


def _plan_reverse_subsequences(order: Any, sizes: Any, x: DTensor, lengths: DTensor, axis: int) -> Planned:
    placed, exchanged = _settle(x, {axis})
    placed = tuple(Replicate() if mesh_dim in exchanged.values() else p for mesh_dim, p in enumerate(placed))
    lengths_placed = tuple(Replicate() if p.is_partial() else p for p in placed)
    return [placed, lengths_placed], placed, [_locally("reverse_subsequences", axis)]


PLANNERS: dict[str, Callable[..., Planned]] = {
    "slice1": _plan_slice1,
    "slice_grad": _plan_slice_grad,
    "split": _plan_split,
    "join": _plan_join,
    "reverse_subsequences": _plan_reverse_subsequences,
}


def _make_plan(name: str, tensors: Sequence[DTensor], numbers: Sequence[Any]) -> Plan:
    arguments = ([tensors] if name == "join" else [*tensors]) + [*numbers]
    result = RULES[name](*arguments)
    every_size = result.sizes if name == "split" else [result.sizes]
    named: list[tuple[str, Any]] = [*result.like.items(), *result.also_read]
    for argument, t in named:
        if _is_plain(t._local_tensor):
            _check_part(name, argument, t)
    like = list(result.like.values())
    strides = [dense_strides(name, sizes, like) for sizes in every_size]
    first = tensors[0]
    placed, placements, steps = PLANNERS[name](shared_order(like), result.sizes, *tensors, *numbers)
    if first.device_mesh.get_coordinate() is None:  # a rank outside of the mesh has and sends nothing
        placed = [t.placements for t in tensors]
        steps = [lambda tensors: [tensors[0].new_empty(0) for _ in every_size]]
    specs = [
        _spec(first, placements, TensorMeta(torch.Size(n), s, first.dtype))
        for n, s in zip(every_size, strides, strict=True)
    ]
    return Plan(placed, steps, specs)


def _spec(like: DTensor, placements: Placements, meta: TensorMeta) -> DTensorSpec:
    if placements != like.placements:
        return DTensorSpec(like.device_mesh, placements, tensor_meta=meta)
    spec = copy.copy(like._spec)  # with the order in which several mesh dimensions shard one dimension
    spec.tensor_meta = meta
    return spec


_plans: dict[Any, Plan] = {}
_MOST_PLANS = 4096  # more than a model has calls; then they are made anew
_plans_are_of: Any = None  # the default process group; after another one was set up, equal meshes have other groups


def _plan(name: str, tensors: Sequence[DTensor], numbers: tuple[Any, ...]) -> Plan:
    key: list[Any] = [name, numbers]
    for t in tensors:
        local = t._local_tensor
        if not _is_plain(local):  # something traces: sizes may be symbols
            _keep_compiled_code_of_ranks_apart()
            return _make_plan(name, tensors, numbers)
        key += t._spec, local.shape
    global _plans_are_of
    found = tuple(key)
    world = torch.distributed.group.WORLD
    plan = _plans.get(found) if world is _plans_are_of else None
    if plan is None:
        if world is not _plans_are_of or len(_plans) >= _MOST_PLANS:
            _plans.clear()
            _plans_are_of = world
        plan = _plans[found] = _make_plan(name, tensors, numbers)
    return plan


def _is_plain(local: Tensor) -> bool:
    return type(local) is Tensor or type(local) is Parameter


def _keep_compiled_code_of_ranks_apart() -> None:
    """What is traced is this rank's part of a call, but to torch's caches of compiled code, which ranks of one machine
    share, the calls look alike: without this a rank could run another's code."""
    config: Any = torch.compiler.config
    rank = f"rank {torch.distributed.get_rank()} of {torch.distributed.get_world_size()}"
    if rank not in config.cache_key_tag:
        config.cache_key_tag = f"{config.cache_key_tag} {rank}".strip()


# Calls.

_CARRIERS = {1: torch.uint8, 2: torch.bfloat16, 4: torch.int32, 8: torch.int64}  # dtypes that every backend can send


def _redistributed(x: DTensor, placements: Placements) -> Tensor:
    """This rank's part of `x` when it is placed so."""
    carrier = _CARRIERS.get(x.element_size(), x.dtype)
    if any(p.is_partial() for p in x.placements):
        carrier = x.dtype  # it is to be reduced
    spec = _spec(x, x.placements, TensorMeta(x.shape, x.stride(), carrier))
    part = x._local_tensor.detach().resolve_conj().resolve_neg()  # other views have no dtype but their own
    bits = _wrapped(part.view(carrier), spec)
    return bits.redistribute(placements=placements)._local_tensor.view(x.dtype)


def _run(name: str, tensors: Sequence[DTensor], numbers: tuple[Any, ...]) -> list[DTensor]:
    placed, steps, specs = _plan(name, tensors, numbers)
    local = [
        t._local_tensor if t._spec.placements == placements else _redistributed(t, placements)
        for t, placements in zip(tensors, placed, strict=True)
    ]
    for step in steps:
        local = step(local)
    return [_wrapped(t, spec) for t, spec in zip(local, specs, strict=True)]


def _wrapped(local: Tensor, spec: DTensorSpec) -> DTensor:
    return DTensor.__new__(DTensor, local, spec, requires_grad=False)  # __init__ does nothing, and takes as long again


def _call_past_the_dispatcher(name: str, first: Any, others: tuple[Any, ...]) -> Any:
    """The result of a call where only the rule is at work, or None where a mode, a transform or tracing is, too."""
    constants = others[:1] if name == "reverse_subsequences" else ()
    tensors = first if name == "join" else (first, *constants)
    recorded = False
    for t in tensors:
        if type(t) is not DTensor or not _is_plain(t._local_tensor):
            return None
        if t is not tensors[0] and t._spec.mesh != tensors[0]._spec.mesh:
            return None
        recorded = recorded or t.requires_grad
    if (
        _len_torch_dispatch_stack()
        or _len_torch_function_stack()
        or _are_functorch_transforms_active()
        or _get_tracing_state()
        or _len_torch_dispatch_stack_pre_dispatch()
        or forward_ad._current_level >= 0
    ):
        return None
    numbers = _frozen(others[len(constants) :])
    if recorded and torch.is_grad_enabled():
        if name not in _recorders:
            return None
        given = (numbers, *tensors) if name == "join" else (first, (*constants, *numbers))
        results = _recorders[name].apply(*given)
        return list(results) if name == "split" else results
    results = _run(name, tensors, numbers)
    return results if name == "split" else results[0]


def _recorder(name: str, linear: Any) -> Any:
    """An autograd.Function that records such a call, as _autograd.py has for plain tensors."""

    def forward(ctx: Any, first: DTensor, others: tuple[Any, ...]) -> Any:
        constants = [a for a in others if isinstance(a, DTensor)]
        numbers = others[len(constants) :]
        ctx.recorded = first.shape, numbers
        ctx.save_for_backward(*constants)
        results = _run(name, [first, *constants], numbers)
        return tuple(results) if name == "split" else results[0]

    def forward_of_list(ctx: Any, others: tuple[Any, ...], *tensors: DTensor) -> Any:
        ctx.recorded = [t.shape for t in tensors], others
        return _run(name, tensors, others)[0]

    return linear.plain_function(forward_of_list if name == "join" else forward)


_recorders = {name: _recorder(name, linear) for name, linear in _autograd.linears.items()}


def _named(name: str, arguments: Sequence[Any]) -> tuple[list[tuple[str, Any]], tuple[Any, ...]]:
    """A call's tensors with their names, and its numbers, whose lists are tuples."""
    if name == "join":
        return [(f"inputs[{k}]", t) for k, t in enumerate(arguments[0])], tuple(arguments[1:])
    count = 2 if name == "reverse_subsequences" else 1
    names = ("grad_output" if name == "slice_grad" else "input", "sequence_lengths")
    return list(zip(names, arguments[:count], strict=False)), _frozen(arguments[count:])


def _frozen(numbers: Sequence[Any]) -> tuple[Any, ...]:
    return tuple([tuple(a) if isinstance(a, list) else a for a in numbers])


def _require_dtensors(name: str, named: Sequence[tuple[str, Any]]) -> list[DTensor]:
    """The tensors, if all are DTensors on one mesh."""
    first_name, first = next((n, t) for n, t in named if isinstance(t, DTensor))
    mesh = first.device_mesh
    tensors = []
    for argument, t in named:
        if not isinstance(t, DTensor):
            if not DTensor._op_dispatcher._allow_implicit_replication:
                raise RuntimeError(
                    f"{name}: {argument} must be a DTensor, as {first_name} is, got a plain tensor; call "
                    "distribute_tensor on it, or implicit_replication if every rank has it whole"
                )
            t = DTensor.from_local(t, mesh, [Replicate()] * mesh.ndim, run_check=False)
        if t.device_mesh != mesh:
            raise RuntimeError(f"{name}: {argument} must be on the mesh of {first_name}, {mesh}, got {t.device_mesh}")
        tensors.append(t)
    return tensors


def _dispatch(name: str) -> Callable[..., Any]:
    def rule(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named, numbers = _named(name, args)
        results = _run(name, _require_dtensors(name, named), numbers)
        return results if name == "split" else results[0]

    return rule


def _dispatch_out(name: str) -> Callable[..., None]:
    def rule(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> None:
        given, numbers = _named(name, args)
        out = kwargs["out"]
        outs = [(f"out[{k}]", t) for k, t in enumerate(out)] if name == "split" else [("out", out)]
        refusal: Exception | None = None
        try:
            read, written = _checked_for_out(name, args, given, numbers, outs, out)
        except (RuntimeError, TypeError, ValueError) as error:
            refusal = error
        if (refusal := _refusal_of_a_rank(refusal, [t for _, t in (*given, *outs)])) is not None:
            raise refusal
        for t, result in zip(written, _run(name, read, numbers), strict=True):
            t._local_tensor.copy_(result._local_tensor)

    return rule


def _checked_for_out(
    name: str, args: Any, given: Sequence[tuple[str, Any]], numbers: tuple[Any, ...], outs: Any, out: Any
) -> tuple[list[DTensor], list[DTensor]]:
    """What a call with `out` reads and writes, if it may."""
    checked_outs(name, RULES[name](*args), out)
    tensors = _require_dtensors(name, [*given, *outs])
    read, written = tensors[: len(given)], tensors[len(given) :]
    parts = _parts(outs, written)
    for _, part in parts:
        _autograd.check_writable(name, part)
    for (argument, _), t, spec in zip(outs, written, _plan(name, read, numbers).specs, strict=True):
        if t.placements != spec.placements:
            raise RuntimeError(
                f"{name}: {argument} must be placed as the result is, {spec.placements}, got {t.placements}; call "
                "redistribute on it, or the operator without out"
            )
    for (argument, _), t in zip(outs, written, strict=True):
        _check_part(name, argument, t)
    check_memory(name, parts, _parts(given, read))
    return read, written


_LONGEST = 1024  # of a sentence in bytes, that ranks send each other


def _refusal_of_a_rank(refusal: Exception | None, tensors: Sequence[Any]) -> Exception | None:
    """What this rank refuses a call with `out` for, or another one does; None on all ranks if none does.

    Whether tensors share memory, for example, may not be the same on every rank. If one raised alone, the others would
    wait for what it does not send.
    """
    sharded = [t for t in tensors if isinstance(t, DTensor)]
    if not sharded or not all(_is_plain(t._local_tensor) for t in sharded):
        return refusal
    mesh = sharded[0].device_mesh
    if mesh.get_coordinate() is None:
        return refusal

    def largest(numbers: list[int]) -> list[int]:
        tensor = torch.tensor(numbers, device=mesh.device_type)
        for mesh_dim in range(mesh.ndim):
            tensor = all_reduce(tensor, "max", (mesh, mesh_dim))
        found: list[int] = tensor.tolist()
        return found

    rank = torch.distributed.get_rank()
    (refusing,) = largest([-1 if refusal is None else rank])
    if refusing < 0:
        return None
    said = list(str(refusal).encode()[:_LONGEST]) if refusing == rank else []
    sentence = bytes(largest(said + [0] * (_LONGEST - len(said)))).rstrip(b"\0").decode(errors="ignore")
    return refusal or RuntimeError(f"{sentence} (on rank {refusing})")


def _parts(named: Sequence[tuple[str, Any]], tensors: Sequence[DTensor]) -> list[tuple[str, Tensor]]:
    """This rank's parts of tensors, with their names."""
    return [(argument, t._local_tensor) for (argument, _), t in zip(named, tensors, strict=True)]


def _require_private_names(op: str) -> None:
    if _missing is not None:
        raise RuntimeError(
            f"{op}: DTensors need a torch with the names that their rules are built on, got {torch.__version__} "
            f"({_missing}); call to_local() for this rank's part, or full_tensor()"
        )


def _dispatch_nothing(name: str) -> Callable[..., None]:
    def rule(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> None:
        _require_private_names(name)

    return rule


def _register() -> None:
    """Once, also where the package is imported again after it was removed from sys.modules."""
    if _autograd.call_on_dtensors is not None:
        return
    if _missing is not None:
        for name in RULES:
            for form in ("", ".out"):
                torch.library.register_torch_dispatch(f"torch_dml_ops::{name}{form}", DTensor, _dispatch_nothing(name))
        _autograd.call_on_dtensors = lambda name, first, others: None
        return
    for name in RULES:
        torch.library.register_torch_dispatch(f"torch_dml_ops::{name}", DTensor, _dispatch(name))
        torch.library.register_torch_dispatch(f"torch_dml_ops::{name}.out", DTensor, _dispatch_out(name))
    _autograd.call_on_dtensors, _autograd.tell_other_ranks = _call_past_the_dispatcher, _refusal_of_a_rank


_register()


# What a call costs.


class Traffic(NamedTuple):
    """What a call on DTensors sends.

    Where a tensor has to be redistributed over several dimensions of the mesh, or to or from a placement by which
    several of them shard one dimension, torch chooses how, and may receive more.

    Attributes:
        placements: of the result, or of each result.
        received: the bytes that this rank receives from others.
        gathered: what it would receive if every shard along a dimension that elements move along were gathered.
    """

    placements: Placements
    received: int
    gathered: int


def traffic(op: str, *arguments: Any) -> Traffic:
    """How the result of a call would be placed, and how many bytes this rank would receive for it.

    Nothing is sent, so the process group may be a fake one, of any size. An all-reduce counts as two passes over the
    tensor, as a ring does it.

    Args:
        op: the name of one of the five operators, ``"slice1"`` for example.
        arguments: those of the call, with DTensors.

    Returns:
        A :class:`Traffic`.

    Raises:
        RuntimeError: what the operator refuses.
        ValueError: a name that is none of the five.

    >>> import torch, torch.distributed as dist
    >>> from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh
    >>> from torch.testing._internal.distributed.fake_pg import FakeStore
    >>> from torch_dml_ops.distributed import traffic
    >>> dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=8)
    >>> x = distribute_tensor(torch.zeros(64), init_device_mesh("cpu", (8,)), [Shard(0)])
    >>> traffic("slice1", x, [0], [64], [-1])  # eight elements of four bytes, from the last rank
    Traffic(placements=(Shard(dim=0),), received=32, gathered=224)
    >>> dist.destroy_process_group()
    """
    if op not in RULES:
        raise ValueError(f"traffic: op must be one of {', '.join(RULES)}, got {op!r}")
    _require_private_names("traffic")
    named, numbers = _named(op, arguments)
    tensors = _require_dtensors(op, named)
    placed, steps, specs = _plan(op, tensors, numbers)
    bytes_received = sum(_bytes_received(t, p) for t, p in zip(tensors, placed, strict=True))
    item = tensors[0].element_size()
    bytes_received += sum(item * sum(step.received_from) for step in steps if isinstance(step, Exchange))
    moved = {step.axis for step in steps if isinstance(step, Exchange)}
    gathered = 0
    for t, p in zip(tensors, placed, strict=True):
        whole = tuple(Replicate() if isinstance(q, Shard) and q.dim in moved else q for q in p)
        gathered += _bytes_received(t, whole)
    return Traffic(specs[0].placements, bytes_received, gathered)


def _bytes_received(x: DTensor, placements: Placements) -> int:
    """What this rank receives when `x` is redistributed."""
    mesh, now, total = x.device_mesh, list(x.placements), 0
    for mesh_dim in reversed(range(mesh.ndim)):
        ranks, p, to = mesh.size(mesh_dim), now[mesh_dim], placements[mesh_dim]
        # torch pads shards to the largest one, that of the first rank
        part = _sizes_here(x.shape, mesh, tuple(now), first_of=mesh_dim)
        if isinstance(to, Shard) and not p.is_replicate():
            part[to.dim] = -(-part[to.dim] // ranks) * ranks
        # A gather brings a part from every other rank; all else is a share of this rank's own part.
        parts = ranks if isinstance(p, Shard) else 1
        total += round(math.prod(part) * parts * _parts_received(p, to, ranks, mesh) / ranks)
        now[mesh_dim] = to
    return total * x.element_size()
