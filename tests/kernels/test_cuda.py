"""What only a GPU can show: streams, graphs, devices, memory. The other test files run on it with
TORCH_DML_OPS_TEST_DEVICE=cuda; `make gpu-check` does both.
"""

import re
from concurrent.futures import ThreadPoolExecutor

import oracle
import pytest
import torch
from processes import LIB, run_python
from transform_cases import all_operators

import torch_dml_ops as dml

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")


def reversed_by_length(x, lengths):
    """x of shape (batch, time, channels), reversed along time."""
    return torch.stack([torch.cat([row[:n].flip(0), row[n:]]) for row, n in zip(x, lengths.tolist(), strict=True)])


@pytest.fixture
def x():
    return torch.randn(6, 50, 33, device="cuda")


@pytest.mark.parametrize("dtype", oracle.LENGTH_DTYPES)
def test_graph_replays_with_new_lengths(x, dtype):
    lengths = torch.full((6,), 50).to(dtype).cuda()
    shaped = dml.sequence_lengths_like(x, lengths, axis=1)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        all_operators(x, shaped)
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = all_operators(x, shaped)
    for new in ([0, 1, 2, 3, 49, 50], [50, 7, 99, 0, 1, 25]):
        lengths.copy_(torch.tensor(new).to(dtype))
        x.copy_(torch.randn_like(x))
        graph.replay()
        expected = [t.cpu() for t in all_operators(x, shaped)]
        assert all(torch.equal(a.cpu(), b) for a, b in zip(results, expected, strict=True))
        assert torch.equal(results[-1].cpu(), reversed_by_length(x.cpu(), torch.tensor(new).clamp(max=50)))


def test_graph_of_out_forms_and_backward(x):
    lengths = torch.randint(0, 51, (6, 1, 1), device="cuda").expand(6, 1, 33)
    out = torch.empty_like(x)
    weight = torch.randn_like(x).requires_grad_()

    def step():
        dml.reverse_subsequences(x, lengths, 1, out=out)
        (grad,) = torch.autograd.grad((dml.reverse_subsequences(x * weight, lengths, 1) * out).sum(), weight)
        return grad

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        step()
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        grad = step()
    x.copy_(torch.randn_like(x))
    graph.replay()
    captured = grad.clone()
    assert torch.equal(captured, step())
    assert torch.equal(captured, x * x)


FIRST_CALLS = """
import torch
from transform_cases import all_operators
x = torch.randn(6, 50, 33, device="cuda")
lengths = torch.randint(0, 60, (6, 1, 33), device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    results = all_operators(x, lengths)
graph.replay()
assert all(torch.equal(a, b) for a, b in zip(results, all_operators(x, lengths), strict=True))
"""


@pytest.mark.parametrize("loading", ["LAZY", "EAGER"])
def test_the_first_calls_of_a_process_may_be_captured_into_a_graph(loading):
    """LAZY, which is CUDA's default, loads a kernel when it is first called."""
    run_python("-c", FIRST_CALLS, cwd=LIB, CUDA_MODULE_LOADING=loading)


def reversed_columns(x, lengths):
    """x of shape (time, columns), reversed along time."""
    index = torch.arange(x.shape[0], device=x.device)[:, None]
    return x.gather(0, torch.where(index < lengths, lengths - 1 - index, index))


# Around the most that a block may have without asking, 48 KB, and around the most that it may have at all.
@pytest.mark.parametrize("axis_size", [64, 190, 191, 192, 193, 383, 384, 385, 1000, 3000, 5100, 5200, 7100, 7248, 7300])
def test_columns_of_any_size_fit_into_shared_memory(axis_size):
    """Enough of them that panels are as wide as there is room for."""
    x = torch.randn(axis_size, 20_000 if axis_size <= 1000 else 3000, device="cuda")
    lengths = torch.randint(0, axis_size + 1, (1, x.shape[1]), device="cuda")
    assert torch.equal(dml.reverse_subsequences(x, lengths, 0), reversed_columns(x, lengths))


def test_threads_whose_launches_differ_in_shared_memory():
    def reverse(axis_size):
        with torch.cuda.stream(torch.cuda.Stream()):
            x = torch.randn(axis_size, 20_000, device="cuda")
            lengths = torch.randint(0, axis_size + 1, (1, 20_000), device="cuda")
            expected = reversed_columns(x, lengths)
            return all(torch.equal(dml.reverse_subsequences(x, lengths, 0), expected) for _ in range(20))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(reverse, range(100, 900, 100)))


def test_work_is_queued_on_the_callers_stream(x):
    lengths = torch.randint(0, 51, (6, 1, 1), device="cuda").expand(6, 1, 33)
    expected = all_operators(x.flip(0), lengths)
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]
    torch.cuda.synchronize()
    results = []
    for stream in streams:
        with torch.cuda.stream(stream):
            torch.cuda._sleep(50_000_000)  # tens of milliseconds: who does not wait for it reads old data
            fresh = x.clone()
            torch.cuda._sleep(50_000_000)
            fresh.copy_(x.flip(0))
            results.append(all_operators(fresh, lengths))
    torch.cuda.synchronize()
    for result in results:
        assert all(torch.equal(a, b) for a, b in zip(result, expected, strict=True))


def test_nothing_waits_for_the_host(x):
    lengths = torch.randint(0, 51, (6, 1, 33), device="cuda")
    all_operators(x, lengths)
    torch.cuda.set_sync_debug_mode("error")
    try:
        all_operators(x, lengths)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_no_temporary_memory(x):
    out, lengths = torch.empty_like(x), torch.randint(0, 51, (6, 1, 33), device="cuda")
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    dml.reverse_subsequences(x, lengths, 1, out=out)
    dml.slice1(x, [0, 0, 0], list(x.shape), [-1, 1, -1], out=out)
    dml.join([x[:3], x[3:]], 0, out=out)
    assert torch.cuda.max_memory_allocated() == before


def test_devices_must_be_one(x):
    lengths, host = torch.full((6, 1, 33), 3, device="cpu"), x.cpu()
    way_out = "; write sequence_lengths.to(input.device)"
    for call, said in (
        (lambda: dml.reverse_subsequences(x, lengths, 1), f"of input, cuda:0, got cpu{way_out}"),
        (lambda: dml.reverse_subsequences(host, lengths.cuda(), 1), f"of input, cpu, got cuda:0{way_out}"),
        (lambda: dml.join([x, host], 0), "join: inputs[1] must be on the device of inputs[0], cuda:0, got cpu; write"),
        (lambda: dml.slice1(host, [0] * 3, [*x.shape], [1] * 3, out=x), "out must be on the device of input, cpu, got"),
    ):
        with pytest.raises(RuntimeError, match=re.escape(said)):
            call()


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_runs_on_the_tensors_device():
    x = torch.randn(4, 5, device="cuda:1")
    assert torch.equal(dml.slice1(x, [0, 0], [4, 5], [-1, -1]), x.flip(0, 1))
