"""What is measured besides the cases: call overhead, backward passes, results that are read right after, and what
devices without kernels have.

    BENCHMARK_THREADS=1 python calls.py SECONDS

prints JSON: a list of {name, ours_us, peer, peer_us}. `python calls.py --instructions` counts the instructions of
calls instead (call_instructions.py).
"""

import importlib.util
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import call_instructions
import torch
import torch.distributed as dist
from frameworks import Call
from timing import microseconds
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

import torch_dml_ops as dml
from torch_dml_ops._indexing.slices import Window

ops = torch.ops.torch_dml_ops
EXAMPLE = Path(__file__).parents[1] / "examples" / "japanese_vowels.py"


def below_autograd(call: Call) -> Call:
    def called() -> object:
        with torch._C._AutoDispatchBelowAutograd():
            return call()

    return called


def overhead() -> Iterator[tuple[str, Call, str, Call]]:
    """On 16 elements, where nothing but the call takes time."""
    x = torch.randn(4, 4)
    lengths = torch.tensor([[2], [4], [3], [0]])
    index = torch.arange(4).expand(4, 4)
    window = [0, 0], [4, 4], [-1, 2]
    gradient = torch.randn(4, 2)
    # by operator: its arguments for x, and what a user of torch would write instead
    calls: dict[str, tuple[Callable[[Tensor], tuple[Any, ...]], Callable[[Tensor], object]]] = {
        "slice1": (lambda x: (x, *window), lambda x: x.flip(0)[:, ::2].contiguous()),
        "slice_grad": (
            lambda x: (x[:, :2], [4, 4], *window),
            lambda x: torch.slice_scatter(x.new_zeros(4, 4), x[:, :2].flip(0), 1, 0, 4, 2),
        ),
        "split": (lambda x: (x, [1, 3], 1), lambda x: torch.split_with_sizes_copy(x, [1, 3], 1)),
        "join": (lambda x: ([x, x], 1), lambda x: torch.cat([x, x], 1)),
        "reverse_subsequences": (
            lambda x: (x, lengths, 1),
            lambda x: x.gather(1, torch.where(index < lengths, lengths - 1 - index, index)),
        ),
    }
    with_grad = x.clone().requires_grad_()
    with torch.inference_mode():
        inference = torch.randn(4, 4)
    for name, (arguments, idiom) in calls.items():
        ours, packet = getattr(dml, name), getattr(ops, name)
        given = arguments(x)
        out = torch.utils._pytree.tree_map(torch.empty_like, ours(*given))
        yield f"{name}, no grad", partial(ours, *given), "bare op", below_autograd(partial(packet.default, *given))
        for mode, tensor in (("no grad", x), ("with grad", with_grad), ("inference mode", inference)):
            yield f"{name}, {mode}", partial(ours, *arguments(tensor)), "torch idiom", partial(idiom, tensor)
        yield f"{name}, into out", partial(ours, *given, out=out), "a new result", partial(ours, *given)
        yield f"torch.ops {name}, no grad", partial(packet, *given), "torch idiom", partial(idiom, x)
        yield f"torch.ops {name}.default, no grad", partial(packet.default, *given), "torch idiom", partial(idiom, x)
    arguments, idiom = calls["slice1"]
    yield "slice1, no grad", partial(dml.slice1, *arguments(x)), "flip", partial(x.flip, 0)
    yield "reverse_subsequences, no grad", partial(dml.reverse_subsequences, x, lengths, 1), "flip", partial(x.flip, 0)
    yield (
        "slice1, forward and backward",
        lambda: torch.autograd.grad(dml.slice1(with_grad, *window), with_grad, gradient),
        "torch idiom",
        lambda: torch.autograd.grad(with_grad.flip(0)[:, ::2].contiguous(), with_grad, gradient),
    )
    slices = (slice(None, None, -1), slice(1, 3), slice(None, None, 2))
    yield "window of 3 dimensions", partial(dml.window, (4, 4, 4), slices), "flip", partial(x.flip, 0)
    for name, (arguments, idiom) in calls.items():
        compiled = [torch.compile(f, fullgraph=True) for f in (partial(_call, getattr(dml, name), arguments), idiom)]
        yield f"{name}, compiled", partial(compiled[0], x), "torch idiom, compiled", partial(compiled[1], x)


def _call(function: Callable[..., object], arguments: Callable[[Tensor], tuple[Any, ...]], x: Tensor) -> object:
    return function(*arguments(x))


def on_dtensors() -> Iterator[tuple[str, Call, str, Call]]:
    """Small DTensors, where nothing is sent, beside what torch needs for one of its own operators on them."""
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
    mesh = init_device_mesh("cpu", (4,))
    x = distribute_tensor(torch.randn(8, 12), mesh, [Shard(0)])
    lengths = distribute_tensor(torch.full((8, 1), 5), mesh, [Shard(0)])
    with_grad = x.detach().requires_grad_()
    window = [0, 0], [8, 12], [1, -1]
    calls: dict[str, Call] = {
        "slice1": partial(dml.slice1, x, *window),
        "split": partial(dml.split, x, [5, 7], 1),
        "join": partial(dml.join, [x, x], 1),
        "reverse_subsequences": partial(dml.reverse_subsequences, x, lengths, 1),
    }
    for name, call in calls.items():
        yield f"{name} on DTensors, no grad", call, "flip", partial(torch.flip, x, [1])
    overload = torch.ops.torch_dml_ops.slice1.default
    yield "slice1.default on DTensors, no grad", partial(overload, x, *window), "flip", partial(torch.flip, x, [1])
    yield "slice1 on DTensors, with grad", partial(dml.slice1, with_grad, *window), "flip", partial(with_grad.flip, 1)


def backward() -> Iterator[tuple[str, Call, str, Call]]:
    """Forward and backward at 4 MB."""
    x = torch.randn(16, 128, 512, requires_grad=True)
    half = dml.window(x.shape, (..., slice(128, 384)))
    backwards = dml.window(x.shape, (..., slice(None, None, -1)))
    lengths = torch.randint(0, 129, (16, 1, 1)).expand(16, 1, 512)
    i = torch.arange(128)[:, None]

    def grad(function: Callable[[Tensor], Any]) -> Call:
        y = function(x)
        g = torch.randn_like(y) if isinstance(y, Tensor) else [torch.randn_like(piece) for piece in y]
        return lambda: torch.autograd.grad(function(x), x, g)

    def gathered(x: Tensor) -> Tensor:
        return x.gather(1, torch.where(i < lengths, lengths - 1 - i, i))

    pairs: dict[str, tuple[Callable[[Tensor], Any], Callable[[Tensor], Any]]] = {
        "window, last axis halved": (lambda x: dml.slice1(x, *half), lambda x: x[..., 128:384].contiguous()),
        "stride -1, last axis": (lambda x: dml.slice1(x, *backwards), lambda x: x.flip(-1)),
        "split in 4": (lambda x: dml.split(x, [128] * 4, 2), lambda x: [y.clone() for y in x.split(128, 2)]),
        "split in 4, join": (
            lambda x: dml.join(dml.split(x, [128] * 4, 2)[::-1], 2),
            lambda x: torch.cat([piece.clone() for piece in x.split(128, 2)][::-1], 2),
        ),
        "reverse axis 1, a length per batch item": (lambda x: dml.reverse_subsequences(x, lengths, 1), gathered),
    }
    for name, (ours, idiom) in pairs.items():
        yield f"{name}, forward and backward", grad(ours), "torch idiom", grad(idiom)


def read_after() -> Iterator[tuple[str, Call, str, Call]]:
    """The result is summed right after the call. If it fits into the cache, it should still be there, but non-temporal
    stores would have kept it out."""
    for size, shape in (("4 MB", (16, 128, 512)), ("16 MB", (64, 128, 512)), ("128 MB", (64, 512, 1024))):
        x, out = torch.randn(shape), torch.empty(shape)
        window = dml.window(x.shape, (slice(None), slice(None, None, -1), slice(None)))

        def ours(x: Tensor = x, window: Window = window, out: Tensor = out) -> Tensor:
            return dml.slice1(x, *window, out=out).sum()

        def copied(x: Tensor = x, out: Tensor = out) -> Tensor:
            return out.copy_(x).sum()

        yield f"stride -1, middle axis, {size}, then read", ours, "copy_, then read", copied


def without_kernels() -> Iterator[tuple[str, Call, str, Call]]:
    """What serves devices without kernels, xpu for one, on tensors of the CPU of 4 MB."""
    warnings.filterwarnings("ignore", "torch_dml_ops: there are no kernels")
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.XPU)
    x = torch.randn(16, 128, 512)
    lengths = torch.randint(0, 129, (16, 1, 1)).expand(16, 1, 512)
    window = [0, 0, 0], [16, 128, 512]
    calls: dict[str, tuple[str, tuple[Any, ...]]] = {
        "slice1, stride 2": ("slice1", (x, *window, [1, 1, 2])),
        "slice1, stride -1": ("slice1", (x, *window, [1, 1, -1])),
        "slice_grad, last axis halved": ("slice_grad", (x[..., :256], x.shape, *window, [1, 1, 2])),
        "split in 4": ("split", (x, [128] * 4, 2)),
        "join of 4": ("join", (list(x.split(128, 2)), 2)),
        "reverse_subsequences, a length per batch item": ("reverse_subsequences", (x, lengths, 1)),
    }
    for name, (op, arguments) in calls.items():
        kernel = getattr(ops, op).default
        by_torch = partial(kernel.redispatch, keys, *arguments)
        yield f"{name}, by torch's functions", by_torch, "its kernel", partial(kernel, *arguments)


class PlainTorch:
    """What the example would be without this package: torch's own functions, views where they give views."""

    @staticmethod
    def slice1(x: Tensor, offsets: list[int], sizes: list[int], strides: list[int]) -> Tensor:
        return x[tuple(slice(o, o + n, s) for o, n, s in zip(offsets, sizes, strides, strict=True))]

    @staticmethod
    def split(x: Tensor, sizes: list[int], axis: int) -> tuple[Tensor, ...]:
        return torch.split(x, sizes, axis)

    @staticmethod
    def join(xs: list[Tensor], axis: int) -> Tensor:
        return torch.cat(xs, axis)

    @staticmethod
    def sequence_lengths_like(x: Tensor, lengths: Tensor, axis: int) -> Tensor:
        return lengths[:, None]

    @staticmethod
    def reverse_subsequences(x: Tensor, lengths: Tensor, axis: int) -> Tensor:
        steps = torch.arange(x.shape[1])
        index = torch.where(steps < lengths, lengths - 1 - steps, steps)
        return x.gather(1, index[:, :, None].expand_as(x))


def training() -> Iterator[tuple[str, Call, str, Call]]:
    """A step of the example: forward, backward and optimizer, on a batch of its size."""

    def step_of(operators: Any, compiled: bool) -> Call:
        spec = importlib.util.spec_from_file_location("example", EXAMPLE)
        assert spec is not None and spec.loader is not None  # noqa: PT018
        example = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(example)
        vars(example)["dml"] = operators
        torch.manual_seed(0)
        frames = torch.randn(example.BATCH, 20, example.CHANNELS)
        lengths, speakers = torch.randint(7, 21, (example.BATCH,)), torch.randint(0, 9, (example.BATCH,))
        step = torch.compile(example.gru_step, fullgraph=True, dynamic=True) if compiled else example.gru_step
        model = example.SpeakerRecogniser(step=step)
        optimizer = torch.optim.AdamW(model.parameters())

        def call() -> Tensor:
            loss: Tensor = torch.nn.functional.cross_entropy(
                model(*example.stretch(frames, lengths, 1, 16, 1)), speakers
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return call

    for compiled in (False, True):
        name = "training step of the example" + (", its GRU step compiled" if compiled else "")
        yield name, step_of(dml, compiled), "the same in plain torch", step_of(PlainTorch, compiled)


def main() -> None:
    if sys.argv[1] == "--instructions":
        call_instructions.main(sys.argv[2:])
        return
    threads, seconds = int(os.environ["BENCHMARK_THREADS"]), float(sys.argv[1])
    torch.set_num_threads(threads)
    rows = []
    for part in (overhead, on_dtensors, backward, read_after, without_kernels, training):
        for name, ours, peer, theirs in part():
            grad_free = torch.inference_mode() if "inference" in name else torch.enable_grad()
            with grad_free:
                times = microseconds({"ours": ours, "peer": theirs}, threads, 4 * seconds, turns=12)
            rows.append({"name": name, "ours_us": times["ours"], "peer": peer, "peer_us": times["peer"]})
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
