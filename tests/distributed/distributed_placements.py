"""How results are placed, as one rank of a fake group of any size sees it. Run by test_distributed.py."""

import multiprocessing
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any
from unittest import mock

import torch
import torch._dynamo  # as in distributed_worker.py
import torch.distributed as dist
from processes import assert_returns
from torch import Tensor
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._inductor.decomposition import select_decomp_table
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard, empty
from torch.distributed.tensor.placement_types import _StridedShard
from torch.testing._internal.distributed.fake_pg import FakeStore

import torch_dml_ops as dml
from torch_dml_ops._torch.autograd import preparations

S, R, P = Shard, Replicate(), Partial()
SIZES = (1030, 12, 6)


def tensor(mesh: DeviceMesh, *placements: Placement, sizes: tuple[int, ...] = SIZES, **named: Any) -> DTensor:
    whole = empty(sizes, device_mesh=mesh, placements=[R if p.is_partial() else p for p in placements], **named)
    part = whole.to_local()
    return DTensor.from_local(part, mesh, placements, run_check=False, shape=whole.shape, stride=whole.stride())


def reversed_by(*placements: Placement) -> Any:
    def call(x: DTensor) -> Tensor:
        return dml.reverse_sequence(x, tensor(x.device_mesh, *placements, sizes=(1030,), dtype=torch.int64), 1)

    return call


def window(*strides: int) -> Any:
    return lambda x: dml.slice1(x, [0, 0, 0], x.shape, strides)


def with_another(axis: int, placement: Placement, size: int, first: bool = True) -> Any:
    def call(x: DTensor) -> Tensor:
        y = tensor(x.device_mesh, placement, sizes=(*SIZES[:axis], size, *SIZES[axis + 1 :]))
        return dml.join([x, y] if first else [y, x], axis)

    return call


def twice(x: DTensor) -> Tensor:
    return dml.slice_grad(x, [2060, 12, 6], [0, 0, 0], [2060, 12, 6], [-2, 1, 1])


def check_placements(_: int, ranks: int) -> None:
    line, grid = init_device_mesh("cpu", (ranks,)), init_device_mesh("cpu", (ranks // 2, 2))
    for call, mesh, given, wanted in (
        (window(-1, 1, 1), line, [R], [R]),
        (window(-1, 1, 1), line, [S(0)], [S(0)]),
        (window(-1, 1, 1), line, [S(1)], [S(1)]),
        (window(-1, 1, 1), line, [P], [P]),
        (window(-1, 1, 1), line, [Partial("max")], [Partial("max")]),
        (window(-1, 1, 1), grid, [S(0), S(1)], [S(0), S(1)]),
        (window(-1, 1, 1), grid, [S(0), P], [S(0), P]),
        (window(-1, 1, 1), grid, [S(0), S(0)], [S(0), R]),  # of two mesh dimensions for one dimension, the first
        (window(1, -1, 1), grid, [S(0), S(0)], [S(0), S(0)]),
        (window(-1, -1, 2), grid, [S(2), S(0)], [S(2), S(0)]),
        (twice, grid, [S(0), P], [S(0), P]),
        (lambda x: dml.split(x, [1000, 30], 0)[1], line, [S(0)], [S(0)]),
        (lambda x: dml.split(x, [1030], 0)[0], grid, [S(0), S(0)], [S(0), S(0)]),  # a single piece does not move
        (lambda x: dml.join([x, x], 0), line, [S(0)], [S(0)]),
        (lambda x: dml.join([x, x], 0), grid, [P, S(1)], [P, S(1)]),
        # a replicated input is sharded where the other one is
        (with_another(1, R, 12), line, [S(0)], [S(0)]),
        (with_another(0, R, 1030, first=False), line, [S(0)], [S(0)]),
        (with_another(1, R, 12), line, [P], [R]),
        # the smaller input changes its placement
        (with_another(2, S(1), 1), line, [S(0)], [S(0)]),
        (with_another(2, S(1), 60), line, [S(0)], [S(1)]),
        (reversed_by(R), line, [S(0)], [S(0)]),
        (reversed_by(R), line, [S(1)], [R]),
        (reversed_by(S(0)), line, [P], [P]),
        (reversed_by(R, S(0)), grid, [S(0), S(2)], [S(0), S(2)]),
    ):
        y = call(tensor(mesh, *given))
        assert y.placements == tuple(wanted), (given, y.placements, wanted)
        part, expected = y.to_local(), tensor(mesh, *wanted, sizes=tuple(y.shape)).to_local()
        assert part.shape == expected.shape, (given, wanted, part.shape, expected.shape)
        assert part.is_contiguous()


def raised(call: Callable[..., Any], *arguments: Any) -> str:
    try:
        call(*arguments)
    except (RuntimeError, TypeError, ValueError) as error:
        return str(error)
    return ""


def check_parts_have_the_sizes_that_this_rank_has_to_have(_: int, ranks: int) -> None:
    line, grid = init_device_mesh("cpu", (ranks,)), init_device_mesh("cpu", (ranks // 2, 2))
    sizes = (2 * ranks, 12)
    x = tensor(line, S(0), sizes=sizes)
    for rows in (2, 1):  # first what is right, whose plans are not for what is wrong
        given = DTensor.from_local(torch.zeros(rows, 12), line, [S(0)], run_check=False, shape=sizes, stride=(12, 1))
        for name, argument, columns, *arguments in (
            ("slice1", "input", 12, given, [0, 0], sizes, [-1, 1]),
            ("slice_grad", "grad_output", 12, given, [2 * ranks, 13], [0, 1], sizes, [1, 1]),
            ("join", "inputs[1]", 12, [x, given], 0),
            ("reverse_subsequences", "sequence_lengths", 1, x, given[:, :1].int(), 1),
        ):
            wrong = f"{name}: {argument} must have sizes [2, {columns}] on this rank, got [1, {columns}]"
            assert raised(getattr(dml, name), *arguments) == (wrong if rows == 1 else "")
    # What torch alone knows the sizes of is taken as it is.
    strided = _StridedShard(0, split_factor=2)
    for placements in ([strided, S(0)], [S(1), strided], [S(0), S(0)]):
        x = tensor(grid, *placements)
        out = torch.empty_like(x)
        assert dml.slice1(x, [0, 0, 0], SIZES, [1, 1, -1], out=out) is out


def check_plans_are_those_of_the_process_group(rank: int, _: int) -> None:
    """A mesh of a later group equals one of an earlier group, but this rank may be another, and the groups are. Within
    a group a plan is made once."""
    from torch_dml_ops.distributed import _plans, traffic

    def made() -> list[Any]:
        return [kept for key, kept in _plans._plans.items() if earlier.get(key) is not kept]

    earlier = dict(_plans._plans)
    x = empty(9, device_mesh=init_device_mesh("cpu", (3,)), placements=[Shard(0)])
    dml.slice1(x, [0], [9], [-1])
    assert len(made()) == 1
    assert traffic("slice1", x, [0], [9], [-1]).received == (0 if rank == 1 else 12)
    earlier = dict(_plans._plans)
    dml.slice1(x, [0], [9], [-1])
    assert made() == []
    named = init_device_mesh("cpu", (1, 3), mesh_dim_names=("one", "three"))
    for again in (False, True):  # a part of the mesh, made anew each time
        dml.slice1(empty(9, device_mesh=named["three"], placements=[Shard(0)]), [0], [9], [-1])
        assert len(made()) == (not again)
        earlier = dict(_plans._plans)
    with mock.patch.object(_plans, "_MOST_PLANS", len(earlier)):
        dml.slice1(x, [0], [9], [1])
    assert len(_plans._plans) == 1
    for arguments, sentence in {
        ("split", x): "traffic: split must have its arguments, input, split_sizes, axis, got 1",
        ("split", x, (4.0, 5), 0): "split: split_sizes[0] must be a whole number, got 4.0",
        ("split", torch.zeros(9), (4, 5), 0): "traffic: input must be a DTensor, got a plain tensor; call "
        "distribute_tensor on it",
        ("roll", x): "traffic: op must be one of slice1, slice_grad, split, join, reverse_subsequences, got 'roll'",
    }.items():
        assert raised(traffic, *arguments) == sentence


def few_rows(x: Tensor) -> list[Tensor]:
    """Calls in which some ranks send or receive nothing, or the same in two of them."""
    rows = x.shape[0]
    wide = [dml.slice_grad(x, [3 * rows, 2], [offset, 0], [rows, 2], [1, 1]) for offset in (0, rows // 2)]
    return [
        dml.slice1(x, [0, 0], [2, 2], [1, 1]),
        dml.slice1(x, [0, 0], [3, 2], [1, 1]),
        dml.slice1(dml.slice1(x * x, [1, 0], [2, 2], [1, 1]), [0, 0], [2, 2], [-1, 1]),
        dml.split(x, [3, rows - 3], 0)[0],
        dml.join([dml.slice1(x, [0, 0], [1, 2], [1, 1]), x], 0),
        *(dml.slice1(t, [0, 0], t.shape, [-1, 1]) for t in wide),
    ]


def put_what_is_sent(queue: Any, rank: int, ranks: int) -> None:
    """In the compiled forward and in the backward, the bytes that this rank receives from each and sends to each."""
    exchange = torch.ops._c10d_functional.all_to_all_single.default

    def partition(*args: Any, **named: Any) -> None:
        graphs = min_cut_rematerialization_partition(*args, **named)
        queue.put([[n.args[1:3] for n in g.graph.nodes if n.target is exchange] for g in graphs])
        raise NotImplementedError  # a fake group cannot run them

    backend = aot_autograd(
        fw_compiler=lambda graph, _: graph, partition_fn=partition, decompositions=select_decomp_table()
    )
    x = tensor(init_device_mesh("cpu", (ranks,)), S(0), sizes=(13, 2)).requires_grad_()
    with suppress(torch._dynamo.exc.BackendCompilerFailed):
        torch.compile(few_rows, backend=backend, fullgraph=True)(x)


def check_compiled_ranks_send_what_the_others_expect(ranks: int) -> None:
    queue = multiprocessing.get_context("fork").SimpleQueue()
    graphs_of_ranks = []
    for rank in range(ranks):
        assert_returns(run, rank, ranks, partial(put_what_is_sent, queue))
        assert not queue.empty(), rank
        graphs_of_ranks.append(queue.get())
    for graphs in zip(*graphs_of_ranks, strict=True):
        assert len(graphs[0]) >= 6, len(graphs[0])
        for exchange in zip(*graphs, strict=True):
            for sender, (_, sent) in enumerate(exchange):
                assert list(sent) == [received[sender] for received, _ in exchange], (sender, exchange)


def check_numbers_of_a_graph_that_is_recorded(rank: int, ranks: int) -> None:
    x = tensor(init_device_mesh("cpu", (ranks,)), S(0), sizes=(4, 6))
    for call in (
        lambda n: dml.slice1(x, [0, n], [4, 5], [1, -1]),
        lambda n: dml.split(x, [1, 5], n)[1],
        lambda n: dml.join([x, x], n),
    ):
        recorded, direct = (f(1).to_local().view(torch.int32) for f in (torch.fx.symbolic_trace(call), call))
        assert torch.equal(recorded, direct)  # of whatever the memory holds, NaNs too


def run(rank: int, ranks: int, check: Callable[[int, int], None]) -> None:
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=ranks)
    check(rank, ranks)
    assert preparations == []  # the rules for DTensors are loaded once
    dist.destroy_process_group()


def main() -> None:
    torch.set_num_threads(1)  # a forked process cannot use the threads of OpenMP
    # torch keeps what it has computed for another rank of an equal mesh.
    for rank, ranks in ((0, 2), (5, 8), (0, 512), (511, 512)):
        assert_returns(run, rank, ranks, check_placements)
    assert_returns(run, 5, 8, check_parts_have_the_sizes_that_this_rank_has_to_have)
    check_compiled_ranks_send_what_the_others_expect(4)
    for rank in range(3):
        run(rank, 3, check_plans_are_those_of_the_process_group)
    run(0, 2, check_numbers_of_a_graph_that_is_recorded)
    print("done")


if __name__ == "__main__":
    main()
