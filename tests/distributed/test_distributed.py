"""The operators on DTensors.

Groups of processes on this machine run distributed_worker.py. Groups that send nothing are fake ones of any size, in
one process that runs distributed_placements.py.
"""

import random
from pathlib import Path

import pytest
import torch
from processes import path_with_lib, run_python

from torch_dml_ops.distributed._shards import Run, leaving, received, shard, transfers

HERE = Path(__file__).parent
EXAMPLE = HERE.parents[1] / "examples" / "japanese_vowels_distributed.py"


# Which indices go where.


def owner(size: int, ranks: int, index: int) -> int:
    (rank,) = (r for r in range(ranks) if shard(size, ranks, r)[0] <= index < shard(size, ranks, r)[1])
    return rank


def test_shards_are_those_of_torch_chunk() -> None:
    for size in range(1, 12):
        for ranks in range(1, 6):
            chunks = [c.tolist() for c in torch.arange(size).chunk(ranks)]
            chunks += [[]] * (ranks - len(chunks))
            assert [list(range(*shard(size, ranks, rank))) for rank in range(ranks)] == chunks


def random_runs(rng: random.Random) -> tuple[list[Run], list[int], list[int]]:
    """As slice1, slice_grad, split and join have them, with the sizes of the tensors read and written."""
    n = rng.randint(1, 12)
    kind = rng.choice(["slice1", "slice_grad", "split", "join"])
    if kind in ("slice1", "slice_grad"):
        stride = rng.choice([1, -1, 2, -2, 3])
        steps = rng.randint(1, 1 + (n - 1) // abs(stride))
        reach = (steps - 1) * abs(stride)
        first = rng.randint(0, n - 1 - reach)
        run = Run(0, 0, first if stride > 0 else first + reach, stride, 0, 1, steps)
        return ([run], [n], [steps]) if kind == "slice1" else ([run.backwards()], [steps], [n])
    sizes = [rng.randint(1, 6) for _ in range(rng.randint(1, 4))]
    runs = [Run(0, k, sum(sizes[:k]), 1, 0, 1, size) for k, size in enumerate(sizes)]
    if kind == "split":
        return runs, [sum(sizes)], sizes
    return [run.backwards() for run in runs], sizes, [sum(sizes)]


def test_every_index_is_sent_to_the_rank_that_has_it_afterwards() -> None:
    rng = random.Random(0)
    for _ in range(600):
        runs, sources, targets = random_runs(rng)
        ranks = rng.randint(1, 5)
        moves = sorted(
            (
                owner(sources[run.source], ranks, run.source_start + k * run.source_step),
                owner(targets[run.target], ranks, run.target_start + k * run.target_step),
                number,
                k,
            )
            for number, run in enumerate(runs)
            for k in range(run.steps)
        )
        for rank in range(ranks):
            sent = transfers(runs, sources, targets, ranks, rank)
            got = received(runs, sources, targets, ranks, rank)
            assert (sent, got) == (sorted(sent), sorted(got))
            from_here = [(rank, t.peer, t.run, k) for t in sent for k in range(t.first, t.end)]
            to_here = [(t.peer, rank, t.run, k) for t in got for k in range(t.first, t.end)]
            assert sorted(from_here) == [move for move in moves if move[0] == rank]
            assert sorted(to_here) == [move for move in moves if move[1] == rank]
        assert sum(leaving(runs, sources, targets, ranks)) == sum(a != b for a, b, *_ in moves)


# Groups of processes.


@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.thorough)])
def test_as_in_one_process(tmp_path: Path, ranks: int) -> None:
    try:
        # Inductor finds out what the processor can do by compiling for half a minute, if it is not told.
        cache = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache"), "TORCHINDUCTOR_VEC_ISA_OK": "0"}
        run_python(
            str(HERE / "distributed_worker.py"),
            str(ranks),
            str(tmp_path),
            OMP_NUM_THREADS="1",
            PYTHONPATH=path_with_lib(),
            **cache,
        )
    except AssertionError as error:
        logs = [f"--- {log.stem}\n{log.read_text()[-6000:]}" for log in sorted(tmp_path.glob("rank *.txt"))]
        raise AssertionError("\n".join([str(error), *logs])) from None


@pytest.mark.thorough
def test_the_example_trains_as_one_process_does_which_reads_its_checkpoint(tmp_path: Path) -> None:
    launch = "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(EXAMPLE)
    printed = run_python(*launch, "--checkpoint", str(tmp_path / "saved"), GLOO_SOCKET_IFNAME="lo")
    for way in ("ddp", "fsdp", "tensor"):  # it raises where they differ by more than rounding
        assert f"{way}, 2 processes: losses and parameters differ from it by at most " in printed
    (accuracy,) = (line for line in printed.splitlines() if line.startswith("accuracy: "))
    assert run_python(str(EXAMPLE), "--evaluate", str(tmp_path / "saved")) == f"{accuracy}\n"


# Groups that send nothing.


def test_placements_and_plans() -> None:
    assert run_python(HERE / "distributed_placements.py", PYTHONPATH=path_with_lib()) == "done\n"
