"""What a call does on this rank: how its tensors are placed first, what is done with their parts, and what results."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard

from torch_dml_ops._operators.definitions import OPERATORS
from torch_dml_ops._operators.layout import dense_strides, shared_order
from torch_dml_ops._operators.signature import Signature, call, signatures
from torch_dml_ops._torch.private import DTENSORS as private
from torch_dml_ops.distributed._exchange import Exchange, Span, depending, has_data, in_order, span_of, whole
from torch_dml_ops.distributed._placements import (
    Placements,
    check_part,
    common,
    local_sizes,
    rank_along,
    settle,
    sizes_here,
)
from torch_dml_ops.distributed._shards import Run, runs_of_join, shard, steps_within

Step = Callable[[list[Tensor]], list[Tensor]]  # of what a call does with the tensors that this rank has


class Plan(NamedTuple):
    """What a call does on this rank."""

    placed: list[Placements]  # how each tensor is to be placed first
    steps: list[Step]  # what is done then with the tensors that this rank has
    specs: list[Any]  # of the results


Planned = tuple[list[Placements], Placements, list[Step]]  # before the call, of the results, and between the two


def _windows(offsets: Sequence[int], sizes: Sequence[int], strides: Sequence[int], counts: Sequence[int]) -> list[Span]:
    return [Span(*numbers) for numbers in zip(offsets, sizes, strides, counts, strict=True)]


def _locally(name: str, *numbers: Any) -> Step:
    """A step that calls an operator on the tensors of this rank."""
    signature = signatures[name]
    return lambda tensors: signature.listed(call(name, *signature.with_tensors(tensors, numbers)))


def _copy_of(sizes: Sequence[int]) -> Step:
    """For a single piece: split and join refuse an axis of which this rank has nothing."""
    return _locally("slice1", *zip(*map(whole, sizes), strict=True))


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
    placed, exchanged = settle(x, moved)
    here = local_sizes(x, placed, moved)
    local = [w if d in moved and d not in exchanged else whole(here[d]) for d, w in enumerate(windows)]
    if not exchanged:
        return [placed], placed, [_locally("slice1", *zip(*local, strict=True))]
    steps: list[Step] = []
    for axis, mesh_dim in exchanged.items():
        w = windows[axis]
        runs = [Run(0, 0, w.start, w.stride, 0, 1, w.steps)]
        steps.append(Exchange(x.device_mesh, mesh_dim, axis, runs, [x.shape[axis]], [w.steps], local, order))
        after = sizes_here(counts, x.device_mesh, placed)
        local = [whole(after[d] if d == axis else window.steps) for d, window in enumerate(local)]
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
    placed, exchanged = settle(g, moved)
    mesh = g.device_mesh
    here = local_sizes(g, placed, moved)
    local = [whole(n) for n in here]
    results = [sizes[d] if d in moved else n for d, n in enumerate(here)]
    parts = {axis: shard(int(sizes[axis]), mesh.size(m), rank_along(mesh, m)) for axis, m in exchanged.items()}
    for axis, (begin, end) in parts.items():
        results[axis] = end - begin
    scatter = [w if d in moved else whole(here[d]) for d, w in enumerate(windows)]
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
        scatter[axis] = span_of(start, run.target_step, count)
        local[axis] = whole(count)
    offsets, window_sizes, strides, _ = zip(*scatter, strict=True)
    return [placed], placed, [*steps, _locally("slice_grad", tuple(results), offsets, window_sizes, strides)]


def _zeros(tensors: Sequence[Tensor], sizes: Sequence[int], order: list[int]) -> Tensor:
    return depending(in_order(tensors[0].new_zeros(sizes), order), order, tensors)


def _plan_split(order: list[int], _: Any, x: DTensor, sizes: Sequence[int], axis: int) -> Planned:
    moved = {axis} if len(sizes) > 1 else set()
    placed, exchanged = settle(x, moved)
    here = local_sizes(x, placed, moved)
    if not moved:
        return [placed], placed, [_copy_of(here)]
    if not exchanged:
        return [placed], placed, [_locally("split", sizes, axis)]
    starts = [sum(sizes[:k]) for k in range(len(sizes))]
    runs = [Run(0, k, start, 1, 0, 1, size) for k, (start, size) in enumerate(zip(starts, sizes, strict=True))]
    windows = [whole(n) for n in here]
    exchange = Exchange(x.device_mesh, exchanged[axis], axis, runs, [x.shape[axis]], sizes, windows, order)
    return [placed], placed, [exchange]


def _plan_join(order: list[int], result_sizes: Sequence[int], *pieces_and_axis: Any) -> Planned:
    *pieces, axis = pieces_and_axis
    first = pieces[0]
    if len({t.placements for t in pieces}) == 1:
        placed, exchanged = settle(first, {axis} if len(pieces) > 1 else set())
        here = local_sizes(first, placed, set(exchanged))
    else:
        placed = common(pieces, axis)
        exchanged = {axis: placed.index(Shard(axis))} if Shard(axis) in placed else {}
        here = sizes_here(first.shape, first.device_mesh, placed)
    if len(pieces) == 1:
        return [placed], placed, [_copy_of(here)]
    if not exchanged:
        return [placed] * len(pieces), placed, [_locally("join", axis)]
    sizes = [t.shape[axis] for t in pieces]
    windows = [whole(n) for n in here]
    exchange = Exchange(
        first.device_mesh, exchanged[axis], axis, runs_of_join(sizes), sizes, [sum(sizes)], windows, order
    )
    return [placed] * len(pieces), placed, [exchange]


def _plan_reverse_subsequences(order: Any, sizes: Any, x: DTensor, lengths: DTensor, axis: int) -> Planned:
    placed, exchanged = settle(x, {axis})
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


def _make_plan(signature: Signature, tensors: Sequence[DTensor], numbers: Sequence[Any]) -> Plan:
    name, arguments = signature.name, signature.with_tensors(tensors, numbers)
    if name not in PLANNERS:
        raise NotImplementedError(
            f"{name}: DTensors need a planner for it, and there is none; call full_tensor() first"
        )
    sizes = OPERATORS[name].result_sizes(*arguments)
    every_size = signature.listed(sizes)
    for argument, t in signature.named_tensors(arguments):
        if has_data(t._local_tensor):
            check_part(name, argument, t)
    like = [t for _, t in signature.named_inputs(arguments)]
    strides = [dense_strides(name, sizes, like) for sizes in every_size]
    first = tensors[0]
    placed, placements, steps = PLANNERS[name](shared_order(like), sizes, *tensors, *numbers)
    if first.device_mesh.get_coordinate() is None:  # a rank outside of the mesh has and sends nothing
        placed = [t.placements for t in tensors]
        steps = [lambda tensors: [tensors[0].new_empty(0) for _ in every_size]]
    specs = [
        spec_like(first, placements, private.TensorMeta(torch.Size(n), s, first.dtype))
        for n, s in zip(every_size, strides, strict=True)
    ]
    return Plan(placed, steps, specs)


def spec_like(like: DTensor, placements: Placements, meta: Any) -> Any:
    if placements != like.placements:
        return private.DTensorSpec(like.device_mesh, placements, tensor_meta=meta)
    spec = copy.copy(like._spec)  # with the order in which several mesh dimensions shard one dimension
    spec.tensor_meta = meta
    return spec


_plans: dict[Any, tuple[DeviceMesh, Any, Plan]] = {}  # with the mesh that it was made for, and that one's groups
_MOST_PLANS = 4096  # more than a model has calls; then they are made anew


def plan(signature: Signature, tensors: Sequence[DTensor], numbers: tuple[Any, ...]) -> Plan:
    key: list[Any] = [signature.name, numbers]
    for t in tensors:
        local = t._local_tensor
        if not has_data(local):  # something traces: sizes may be symbols
            _keep_compiled_code_of_ranks_apart()
            return _make_plan(signature, tensors, numbers)
        key += t._spec, local.shape
    found, mesh = tuple(key), tensors[0].device_mesh
    kept = _plans.get(found)
    # Equal meshes may have other process groups, in which this rank may be another.
    if kept is None or (kept[0] is not mesh and kept[1] != _groups(mesh)):
        if len(_plans) >= _MOST_PLANS:
            _plans.clear()
        kept = _plans[found] = mesh, _groups(mesh), _make_plan(signature, tensors, numbers)
    return kept[2]


def _groups(mesh: DeviceMesh) -> Any:
    try:
        return mesh.get_all_groups()
    except Exception:  # of a rank outside of the mesh
        return None


def _keep_compiled_code_of_ranks_apart() -> None:
    """What is traced is this rank's part of a call, but to torch's caches of compiled code, which ranks of one machine
    share, the calls look alike: without this a rank could run another's code."""
    config: Any = torch.compiler.config
    rank = f"rank {torch.distributed.get_rank()} of {torch.distributed.get_world_size()}"
    if rank not in config.cache_key_tag:
        config.cache_key_tag = f"{config.cache_key_tag} {rank}".strip()
