"""What is measured besides the cases: call overhead, backward passes, and results that are read right after.

    BENCHMARK_THREADS=1 python calls.py SECONDS

prints JSON: a list of {name, ours_us, peer, peer_us}.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial

import torch
from frameworks import Call
from torch import Tensor
from worker import microseconds

import torch_dml_ops as dml
from torch_dml_ops.ops import Window

ops = torch.ops.torch_dml_ops


def below_autograd(call: Call) -> Call:
    def called() -> object:
        with torch._C._AutoDispatchBelowAutograd():
            return call()

    return called


def overhead() -> Iterator[tuple[str, Call, str, Call]]:
    """On 16 elements, where call overhead dominates."""
    x = torch.randn(4, 4)
    lengths = torch.tensor([[2], [4], [3], [0]])
    index = torch.arange(4).expand(4, 4)
    arguments = [0, 0], [4, 4], [-1, 2]
    calls: dict[str, tuple[Callable[[Tensor], object], Callable[[Tensor], object], Callable[[Tensor], object]]] = {
        "slice1": (
            lambda x: dml.slice1(x, *arguments),
            lambda x: ops.slice1.default(x, *arguments),
            lambda x: x.flip(0)[:, ::2].contiguous(),
        ),
        "split": (
            lambda x: dml.split(x, [1, 3], 1),
            lambda x: ops.split.default(x, [1, 3], 1),
            lambda x: torch.split_with_sizes_copy(x, [1, 3], 1),
        ),
        "join": (
            lambda x: dml.join([x, x], 1),
            lambda x: ops.join.default([x, x], 1),
            lambda x: torch.cat([x, x], 1),
        ),
        "reverse_subsequences": (
            lambda x: dml.reverse_subsequences(x, lengths, 1),
            lambda x: ops.reverse_subsequences.default(x, lengths, 1),
            lambda x: x.gather(1, torch.where(index < lengths, lengths - 1 - index, index)),
        ),
    }
    with_grad = x.clone().requires_grad_()
    with torch.inference_mode():
        inference = torch.randn(4, 4)
    for name, (ours, bare, idiom) in calls.items():
        yield f"{name}, no grad", partial(ours, x), "bare op", below_autograd(partial(bare, x))
        for kind, given in (("no grad", x), ("with grad", with_grad), ("inference mode", inference)):
            yield f"{name}, {kind}", partial(ours, given), "torch idiom", partial(idiom, given)


def backward() -> Iterator[tuple[str, Call, str, Call]]:
    """Forward and backward at 4 MB."""
    x = torch.randn(16, 128, 512, requires_grad=True)
    window = dml.window(x.shape, (slice(None), slice(None), slice(None, None, -1)))
    lengths = torch.randint(0, 129, (16, 1, 1)).expand(16, 1, 512)
    i = torch.arange(128)[:, None]

    def grad(function: Callable[[Tensor], Tensor]) -> Call:
        g = torch.randn_like(function(x))
        return lambda: torch.autograd.grad(function(x), x, g)

    def gathered(x: Tensor) -> Tensor:
        return x.gather(1, torch.where(i < lengths, lengths - 1 - i, i))

    pairs: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
        "stride -1, last axis": (lambda x: dml.slice1(x, *window), lambda x: x.flip(-1)),
        "split in 4, join": (
            lambda x: dml.join(dml.split(x, [128] * 4, 2)[::-1], 2),
            lambda x: torch.cat([piece.clone() for piece in x.split(128, 2)][::-1], 2),
        ),
        "reverse axis 1, a length per batch item": (lambda x: dml.reverse_subsequences(x, lengths, 1), gathered),
    }
    for name, (ours, idiom) in pairs.items():
        yield f"{name}, forward and backward", grad(ours), "torch idiom", grad(idiom)


def read_after() -> Iterator[tuple[str, Call, str, Call]]:
    """The result is summed right after. One that fits into the cache must still be there, and non-temporal stores would
    have kept it out."""
    for size, shape in (("4 MB", (16, 128, 512)), ("16 MB", (64, 128, 512)), ("128 MB", (64, 512, 1024))):
        x, out = torch.randn(shape), torch.empty(shape)
        window = dml.window(x.shape, (slice(None), slice(None, None, -1), slice(None)))

        def ours(x: Tensor = x, window: Window = window, out: Tensor = out) -> Tensor:
            return dml.slice1(x, *window, out=out).sum()

        def copied(x: Tensor = x, out: Tensor = out) -> Tensor:
            return out.copy_(x).sum()

        yield f"stride -1, middle axis, {size}, then read", ours, "copy_, then read", copied


def main() -> None:
    threads, seconds = int(os.environ["BENCHMARK_THREADS"]), float(sys.argv[1])
    torch.set_num_threads(threads)
    rows = []
    for part in (overhead, backward, read_after):
        for name, ours, peer, theirs in part():
            grad_free = torch.inference_mode() if "inference" in name else torch.enable_grad()
            with grad_free:
                times = microseconds({"ours": ours, "peer": theirs}, threads, 4 * seconds, turns=12)
            rows.append({"name": name, "ours_us": times["ours"], "peer": peer, "peer_us": times["peer"]})
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
