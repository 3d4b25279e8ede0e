"""Sizes past 32 bits, threads, and processes.

The tests marked `memory` share two uint8 tensors of 2.4 GB, one to read and one to write, and compare them where errors
of 32 bits would show and at every 4 099th element between: less than 5.5 GB in all. They are left out where less than
6 GB are free.
"""

import math
import multiprocessing
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import oracle
import pytest
import torch
from backends import DEVICE, Backend
from contract_cases import assert_written, given_as_out, same_sizes
from oracle import as_list
from processes import run_python
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

import torch_dml_ops as dml

ROW = 1_200_000_000
PAST = 2 * ROW  # more than an int32 can count

# More than 2^31 elements.


def free_memory() -> int:
    """Bytes that this process may still take, on the device under test."""
    if DEVICE != "cpu":
        return torch.cuda.mem_get_info()[0]
    meminfo = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    free = int(meminfo["MemAvailable"].split()[0]) * 1024
    limit, used = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")
    if limit.exists() and limit.read_text().strip() != "max":  # a container's share
        free = min(free, int(limit.read_text()) - int(used.read_text()))
    return free


PERIOD = 65_521  # a prime, so that an index that is wrong by a power of two finds another value


@pytest.fixture(scope="module")
def memory() -> Iterator[tuple[Tensor, Tensor]]:
    """Two vectors of PAST elements, one of random bytes that repeat after PERIOD, and one to write to.

    Each half is one ROW. With 16 threads, the last one begins past 2^31.
    """
    if free_memory() < 6 * 10**9:
        pytest.skip("needs 6 GB of free memory")
    pattern = torch.from_numpy(np.random.default_rng(0).integers(0, 256, PERIOD, np.uint8)).to(DEVICE)
    repeats = PAST // PERIOD + 1
    x = torch.empty(repeats, PERIOD, dtype=torch.uint8, device=DEVICE)
    x[:] = pattern
    threads = torch.get_num_threads()
    torch.set_num_threads(16)
    yield x.view(-1)[:PAST], torch.empty(PAST, dtype=torch.uint8, device=DEVICE)
    torch.set_num_threads(threads)


def same(actual: Tensor, expected: Tensor, backwards: bool = False) -> bool:
    """Whether two vectors are equal, the second one read backwards if so wished."""
    n, part = len(actual), 2**20

    def equal(begin: int, end: int, step: int = 1) -> bool:
        picked = actual[begin:end:step]
        last = begin + step * (len(picked) - 1)
        if backwards:
            return picked.flip(0).equal(expected[n - 1 - last : n - begin : step])
        return picked.equal(expected[begin:end:step])

    corners = [0, 2**30, 2**31 - part, 2**31, 2**31 + 500, n - part, *range(0, n, n // 7 + 1)]
    places = [min(max(begin, 0), n) for begin in corners]
    return len(expected) == n and equal(0, n, 4099) and all(equal(k, min(k + part, n)) for k in places)


@pytest.mark.memory
def test_slice1_of_more_than_2_31_elements(memory: tuple[Tensor, Tensor]) -> None:
    x, out = memory
    assert same(dml.slice1(x, [0], [PAST], [-1], out=out), x, backwards=True)
    assert same(dml.slice1(x, [5], [PAST - 5], [1], out=out[5:]), x[5:])
    thirds = 1 + (PAST - 2) // 3
    dml.slice1(x, [1], [PAST - 1], [-3], out=out[:thirds])
    first = PAST - 1 - 3 * (thirds - 1)
    assert same(out[:thirds], x[first::3], backwards=True)
    assert dml.slice1(x, [0], [PAST], [-(PAST - 1)]).tolist() == [x[-1], x[0]]


@pytest.mark.memory
def test_slice_grad_of_more_than_2_31_elements(memory: tuple[Tensor, Tensor]) -> None:
    x, out = memory
    ends = torch.tensor([7, 9], dtype=torch.uint8, device=DEVICE)
    dml.slice_grad(ends, [PAST], [0], [PAST], [-(PAST - 1)], out=out)
    assert out[[0, -1]].tolist() == [9, 7]
    assert same(out[1:-1], torch.zeros(1, dtype=torch.uint8, device=DEVICE).expand(PAST - 2))
    half = x[: PAST // 2]
    dml.slice_grad(half, [PAST], [0], [PAST - 1], [-2], out=out)
    assert same(out[::2], half, backwards=True)
    assert same(out[1::2], torch.zeros(1, dtype=torch.uint8, device=DEVICE).expand(PAST // 2))


@pytest.mark.memory
def test_split_and_join_of_more_than_2_31_elements(memory: tuple[Tensor, Tensor]) -> None:
    x, out = memory
    sizes = [3, 2**31 - 2, PAST - 2**31 - 1]
    begins = [0, 3, 2**31 + 1]
    pieces = [out[PAST - begin - size : PAST - begin] for begin, size in zip(begins, sizes, strict=True)]
    dml.split(x, sizes, 0, out=pieces)  # the first one lies last in memory
    for piece, begin, size in zip(pieces, begins, sizes, strict=True):
        assert same(piece, x[begin : begin + size])
    dml.join([x[2**31 - 1 :], x[: 2**31 - 1]], 0, out=out)
    assert same(out[: PAST - 2**31 + 1], x[2**31 - 1 :])
    assert same(out[PAST - 2**31 + 1 :], x[: 2**31 - 1])


@pytest.mark.memory
def test_reverse_subsequences_along_an_axis_of_more_than_2_31_elements(memory: tuple[Tensor, Tensor]) -> None:
    x, out = memory
    for length, dtype in ((2**31 + 900, torch.uint32), (2**62, torch.int64)):
        n = min(length, PAST)
        lengths = oracle.tensor(np.array([length], str(dtype).removeprefix("torch.")), dtype, DEVICE)
        dml.reverse_subsequences(x, lengths, 0, out=out)
        assert same(out[:n], x[:n], backwards=True)
        assert same(out[n:], x[n:])


@pytest.mark.memory
def test_reverse_subsequences_of_rows_that_lie_past_2_31(memory: tuple[Tensor, Tensor]) -> None:
    x, out = (m.view(2, ROW) for m in memory)
    dml.reverse_subsequences(x, torch.tensor([[5], [ROW - 7]], device=DEVICE), 1, out=out)
    assert same(out[0, :5], x[0, :5], backwards=True)
    assert same(out[0, 5:], x[0, 5:])
    assert same(out[1, :-7], x[1, :-7], backwards=True)
    assert same(out[1, -7:], x[1, -7:])


@pytest.mark.memory
def test_reverse_subsequences_of_columns_that_lie_past_2_31(memory: tuple[Tensor, Tensor]) -> None:
    """One length for all 65 536 columns of every row, then a length for each of them in every 16th row."""
    rows, columns = PAST // 2**16, 2**16
    x, out = (m[: rows * columns].view(rows, columns) for m in memory)
    for step, n in ((1, torch.tensor([[rows - 3]]).expand(1, columns)), (16, torch.arange(columns)[None] % 2100)):
        source, target, n = x[::step], out[::step], n.to(DEVICE)
        dml.reverse_subsequences(source, n, 0, out=target)
        size = len(source)
        for column in (0, 1, 77, 255, 256, 30_001, columns - 2, columns - 1):
            k = min(int(n[0, column]), size)
            assert same(target[:k, column], source[:k, column], backwards=True)
            assert same(target[k:, column], source[k:, column])
        rows_between, k = torch.arange(0, size, 499, device=DEVICE)[:, None], n.clamp(max=size)
        from_row = torch.where(rows_between < k, k - 1 - rows_between, rows_between)
        assert target[rows_between[:, 0]].equal(source.gather(0, from_row))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32], ids=str)
def test_offsets_past_2_31(dtype: torch.dtype) -> None:
    """Elements far apart in memory of which no more than their pages is touched."""
    far = 2**31 + 1001
    whole = torch.empty(far + 6000, dtype=dtype, device=DEVICE)
    x, out = whole.as_strided((2, 3), (far, 1)), whole.as_strided((2, 3), (far, 1), 5000)
    x.copy_(torch.arange(6, device=DEVICE).reshape(2, 3))
    for op, arguments in (
        *same_sizes(x, 1, stride=-1, length=2).items(),
        ("reverse_subsequences", (x, torch.tensor([[2], [3]], device=DEVICE), 1)),
        ("reverse_subsequences", (x, torch.tensor([[2, 0, 2]], device=DEVICE), 0)),
    ):
        near = [a.clone() if a is x else [x.clone()] if isinstance(a, list) and a[0] is x else a for a in arguments]
        want = as_list(oracle.expected(op, *near))[0]
        assert oracle.equal(as_list(getattr(dml, op)(*arguments))[0], want)
        out.zero_()
        getattr(dml, op)(*arguments, out=given_as_out(op, out))
        assert oracle.equal(out.clone(), want)


# Results of more than 32 MB.


def rooms(*sizes: int) -> Tensor:
    return torch.full((math.prod(sizes),), -1.0, device=DEVICE).view(sizes)


def numbered(*sizes: int) -> Tensor:
    return torch.arange(math.prod(sizes), dtype=torch.float32, device=DEVICE).view(sizes)


def split_in_two(rows: int, first: Tensor, second: Tensor) -> tuple[str, Any, list[Tensor]]:
    return "split", (numbered(rows, 4), [2, 2], 1), [first, second]


N = (32 << 20) // 16 + 1000  # rows of 4 float32: just past the size from which non-temporal stores are used
LARGE: dict[str, Callable[[], tuple[str, Any, list[Tensor]]]] = {
    "pieces in two tensors": lambda: split_in_two(N, rooms(N + 1, 4)[:N, :2], rooms(N + 1, 4)[:N, 2:]),
    "pieces of which the first alone has gaps": lambda: split_in_two(
        N, rooms(N + 1, 4)[:N, :2], rooms(2 * N + 4).as_strided((N, 2), (2, 1), 2)
    ),
    "pieces side by side": lambda: split_in_two(N, *rooms(N + 1, 4)[:N].split(2, 1)),
    "pieces shifted by a row": lambda: split_in_two(N, (room := rooms(N + 1, 4))[:N, :2], room[1:, 2:]),
    # 0 and 3 of each four, 2 of them and 1 of the next four
    "pieces that reach into one another's rows": lambda: split_in_two(
        N, (room := rooms(4 * N + 8)).as_strided((N, 2), (4, 3)), room.as_strided((N, 2), (4, 3), 2)
    ),
    "pieces with room between their rows": lambda: (
        "join",
        ([numbered(2, N // 2, 2).permute(2, 1, 0) + k for k in (0, N)], 2),
        [rooms(2, N // 2, 8)[:, :, :4]],
    ),
    # Rows 6 apart, columns 4 apart: (0, 1), (4, 5), (8, 9), and the next row begins at 6.
    "a join into columns that interleave": lambda: (
        "join",
        ([numbered(N, 1, 2), -numbered(N, 2, 2)], 1),
        [rooms(6 * N + 100).as_strided((N, 3, 2), (6, 4, 1))],
    ),
    **{
        f"transposed inputs of sizes {sizes}": lambda sizes=sizes: (
            "slice1",
            (numbered(*sizes[::-1]).t(), [0, 0], sizes, [-1, 1]),
            [rooms(*sizes)],
        )
        for sizes in ([3000, 3500], [100, 100_000], [100_000, 100])
    },
}


@pytest.mark.parametrize("name", LARGE)
def test_large_results(threads: Callable[[int], None], name: str) -> None:
    op, arguments, outs = LARGE[name]()
    if re.search("room|reach", name):  # so that one thread writes them all
        threads(1)
    assert_written(getattr(dml, op), op, arguments, outs)


# Threads.


def calls(scale: int, dtype: torch.dtype, device: str) -> Iterator[tuple[str, list[Any]]]:
    """Calls that take every path of the kernels, on tensors of about `scale` bytes."""
    columns = 64
    rows = scale // dtype.itemsize // columns
    memory = np.random.default_rng(0).integers(0, 256, rows * columns * dtype.itemsize, np.uint8)
    x = oracle.tensor(memory.view(oracle.ITEMS[dtype.itemsize]).reshape(rows, columns), dtype, device)
    yield "slice1", [x, [0, 0], [rows, columns], [1, 1]]
    n = rows * columns // 4
    few = x.reshape(4, n)  # rows that threads share
    for window in (([0, 0], [4, n], [1, -1]), ([1, 5], [3, n - 6], [-1, 3]), ([0, 0], [4, n - 1], [1, -2])):
        yield "slice1", [few, *window]
        yield "slice_grad", [dml.slice1(few, *window), [4, n], *window]
    yield "reverse_subsequences", [few, torch.tensor([[n], [n - 3], [n // 2], [7]], device=device), 1]
    yield "split", [few, [n - 9, 9], 1]
    yield "join", [[few[:, 7:], few[:, :7]], 1]
    for tensor in (x, x.t()):  # along the memory and across it
        sizes = list(tensor.shape)
        n, m = sizes
        yield "slice1", [tensor, [1, 1], [n - 2, m - 2], [1, 1]]
        yield "slice1", [tensor, [0, 0], sizes, [-1, -1]]
        yield "slice1", [tensor, [0, 0], sizes, [-2, 3]]
        yield "slice_grad", [tensor[::2], sizes, [0, 0], sizes, [2, -1]]
        yield "slice_grad", [tensor[:, 3:-5], sizes, [0, 2], [n, m - 8], [-1, 1]]
        yield "slice_grad", [tensor[:, ::3], sizes, [0, 0], sizes, [1, -3]]
        yield "split", [tensor, [1, n // 3, n - n // 3 - 1], 0]
        yield "split", [tensor, [m - 5, 5], 1]
        yield "join", [[tensor[:5], tensor[5:]], 0]
        yield "join", [[tensor[:, :7], tensor[:, 7:], tensor], 1]
        for axis in (0, 1):
            shape = [1 if d == axis else size for d, size in enumerate(sizes)]
            lengths = torch.arange(shape[0] * shape[1], device=device).reshape(shape) * 7 % (sizes[axis] + 3)
            yield "reverse_subsequences", [tensor, lengths, axis]
            yield "reverse_subsequences", [tensor, lengths[:1, :1].expand(shape) + 0, axis]
            yield "reverse_subsequences", [tensor, (lengths[:1, :1] + sizes[axis] - 2).expand(shape), axis]


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    """Sets the number of threads, and puts it back."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.mark.parametrize("dtype", oracle.DTYPE_OF_SIZE.values(), ids=str)
def test_one_thread_and_several_give_the_same_bits(
    on_cpu: None, threads: Callable[[int], None], dtype: torch.dtype
) -> None:
    """3 MB: more than twenty times what a thread gets at least."""
    for op, arguments in calls(3 * 2**20, dtype, "cpu"):
        wanted = as_list(oracle.expected(op, *arguments))
        for count in (1, 3):
            threads(count)
            contiguous = [torch.empty(want.shape, dtype=dtype) for want in wanted]
            transposed = [torch.empty(want.shape[::-1], dtype=dtype).t() for want in wanted]
            for outs in (None, contiguous, transposed):
                results = outs or as_list(getattr(dml, op)(*arguments))
                if outs:
                    getattr(dml, op)(*arguments, out=outs if op == "split" else outs[0])
                for result, want in zip(results, wanted, strict=True):
                    assert oracle.equal(result, want)


def test_eight_python_threads_at_once(backend: Backend) -> None:
    work = [
        (op, arguments, as_list(oracle.expected(op, *arguments)))
        for dtype in (torch.uint8, torch.float32)
        for op, arguments in calls(10_000 if backend.slow else 300_000, dtype, backend.device)
    ]
    begin = threading.Barrier(8)

    def run(seed: int) -> int:
        begin.wait()
        done = 0
        for k in np.random.default_rng(seed).permutation(len(work)):
            op, arguments, wanted = work[k]
            results = as_list(backend(op, *arguments))
            outs = [torch.empty_like(r) for r in results]
            backend(op, *arguments, out=outs if op == "split" else outs[0])
            for result, out, want in zip(results, outs, wanted, strict=True):
                assert oracle.equal(result, want)
                assert oracle.equal(out, want)
                done += 1
        return done

    with ThreadPoolExecutor(8) as pool:
        counts = list(pool.map(run, range(8)))
    assert len(set(counts)) == 1


# Processes.


class Reversed(Dataset[Tensor]):
    """Rows of 4 MB, reversed, windowed, cut up and put together again in the worker."""

    def __init__(self) -> None:
        self.x = torch.arange(8 * 2**20, dtype=torch.int32).reshape(8, 2**20)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, k: int) -> Tensor:
        row = dml.reverse_subsequences(self.x[k], torch.tensor([1000 * k]), 0)
        row = dml.join(dml.split(row, [5, len(row) - 5], 0)[::-1], 0)
        return dml.slice1(row, [0], [len(row)], [-1])


def test_in_the_forked_workers_of_a_data_loader(on_cpu: None, threads: Callable[[int], None]) -> None:
    threads(2)
    data = Reversed()
    wanted = [data[k] for k in range(len(data))]  # and so the parent has used the operators, with threads
    dml.slice1(data.x, [0, 0], list(data.x.shape), [-1, -1])
    context = multiprocessing.get_context("fork")
    loader = DataLoader(data, batch_size=None, num_workers=2, multiprocessing_context=context, timeout=60)
    for result, want in zip(loader, wanted, strict=True):
        assert result.equal(want)


def test_threads_with_small_stacks() -> None:
    program = """
import threading, torch, torch_dml_ops as dml
torch.set_num_threads(1)
threading.stack_size(64 << 10)
x = torch.arange(900).reshape(10, 90)
lengths = torch.full((10, 1), 5)
done = []
def work():
    done.append(dml.slice1(x, [0, 0], [10, 90], [1, -1]).equal(x.flip(1)))
    done.append(dml.reverse_subsequences(x, lengths, 1)[:, :5].equal(x[:, :5].flip(1)))
thread = threading.Thread(target=work)
thread.start()
thread.join()
print(done)
"""
    assert run_python("-c", program) == "[True, True]\n"
