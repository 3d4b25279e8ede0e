"""The operators on an NVIDIA GPU beside a copy of as many bytes and torch's idioms, eager and compiled.

Calls of up to 16 MB are measured as replays of a CUDA graph of many of them, larger ones one by one. From 16 MB on,
calls cycle through so many inputs and results that each has to come from memory: together they are at least four times
as large as the GPU's L2 cache. 64 KB stay in it, as they would between two operators. Each result is first compared
with the idiom's.

Results are written after every case; with --size or --case they go to --also alone. Cases that have targets come first,
and of them those of 1 GB. Compiling comes last and takes most of the time; cases for which none is left are skipped and
listed. --dry-run does everything but the timing, on the CPU and at a tiny size.
"""

import argparse
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NoReturn

import timing
import torch
from cases import GPU_SIZES, SHAPES, Case, gpu_backward_cases, gpu_cases, selected
from cpu import row
from frameworks import Call, ours, torch_compiled, torch_eager, torch_out
from results_file import Benchmark, Part
from torch import Tensor

REPLAYED = ("64 KB", "16 MB")  # as CUDA graphs
NOT_REPLAYED = "torch_out"  # it copies from temporary host memory, which is reused by the time a graph is replayed
COMPILED = "torch_compiled"
TINY = (2, 32, 128)  # the shape that stands for every size in a dry run; eight axes need the 32


def input_of(case: Case, device: str) -> Tensor:
    """The input, in the case's layout, made on the device: gigabytes take the host seconds."""
    shape = list(case.shape)
    order = {"transposed": [0, 2, 1], "channels last": [0, 2, 3, 1]}.get(case.layout, list(range(len(shape))))
    dense = torch.empty([shape[d] for d in order], dtype=getattr(torch, case.dtype), device=device).random_(0, 100)
    return dense.permute([order.index(d) for d in range(len(shape))])


def tensors(result: object) -> list[Tensor]:
    return list(result) if isinstance(result, list | tuple) else [result]  # type: ignore[list-item]


def the_same(mine: Call, theirs: Call) -> bool:
    """Whether the results are equal. Ours is first overwritten, so that every element must be written anew."""
    for t in tensors(mine()):
        t.fill_(101)  # a value that no input has
    return all(torch.equal(a, b) for a, b in zip(tensors(mine()), tensors(theirs()), strict=True))


def backward(function: Callable[..., object], arguments: Sequence[Tensor]) -> Call:
    """The gradients of whatever has some; those of the results are the same for each function that gives the same."""
    inputs = [x.detach().requires_grad_(x.is_floating_point()) for x in arguments]
    results = tensors(function(*inputs))
    torch.manual_seed(0)
    given = [torch.randn_like(y) for y in results]
    wanted = [x for x in inputs if x.requires_grad]
    return partial(torch.autograd.grad, results, wanted, given, retain_graph=True)


def most_informative_first(cases: Sequence[Case]) -> list[Case]:
    sizes = ["1 GB", "64 KB", "16 MB", "4 GB"]
    return sorted(cases, key=lambda case: (not case.target, case.dtype != "float32", sizes.index(case.size)))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--size", nargs="*", choices=GPU_SIZES, help="only these sizes")
    parser.add_argument(
        "--compiled", nargs="*", choices=["1 GB", "4 GB"], default=["1 GB"], help="also compiled idioms"
    )
    parser.add_argument("--minutes", type=float, default=7, help="what is not begun by then is skipped")
    parser.add_argument(
        "--since", type=float, default=time.time(), metavar="SECONDS", help="when they began, in Unix time"
    )
    parser.add_argument("--dry-run", action="store_true", help="everything but the timing, on the CPU")


class OnGpu(Benchmark):
    kind = "gpu"

    def __init__(self, options: argparse.Namespace, refuse: Callable[[str], NoReturn]) -> None:
        super().__init__()
        if options.dry_run:
            SHAPES.update(dict.fromkeys(GPU_SIZES, TINY))
            self.device, self.backend, self.measurement = "cpu", "eager", timing.dry
            self.l2_bytes = 1 << 13
        elif torch.cuda.is_available():
            gpu = torch.cuda.get_device_properties()
            self.device, self.backend, self.measurement = "cuda", "inductor", timing.on_gpu
            self.l2_bytes = gpu.L2_cache_size
            self.more = {"gpu": gpu.name, "l2_bytes": gpu.L2_cache_size}
        else:
            refuse("an NVIDIA GPU is needed, and torch sees none; --dry-run goes without")
        self.whole = options.size is None and not options.case
        sizes = GPU_SIZES if options.size is None else options.size
        every = [*gpu_cases(), *gpu_backward_cases()]
        cases = selected((case for case in every if case.size in sizes), options.case)
        self.cases = {0: most_informative_first(cases)}
        self.order = [case.key for case in cases]
        self.compiled = options.compiled
        self.passes: dict[str, list[timing.Pass]] = {}

    def parts(self) -> Iterator[Part]:
        yield "all but compiled", self.cases[0], self.measure
        eager = [c for c in self.cases[0] if c.row or c.dtype != "float32" or c.form == "backward"]
        to_compile = [c for c in self.cases[0] if c.size in self.compiled and c not in eager]
        yield COMPILED, [case for case in to_compile if case.key in self.passes], self.measure_compiled

    def inputs(self, case: Case) -> list[Tensor]:
        sets = 1 if case.size == "64 KB" else math.ceil(4 * self.l2_bytes / case.bytes_in_sectors)
        return [input_of(case, self.device) for _ in range(max(sets, 1))]

    def copies(self, case: Case, sets: int) -> list[Call]:
        """The yardstick: a copy that reads and writes as many bytes in total as the case. At 64 KB it allocates a new
        result, as the case does."""
        moved = case.bytes_in_sectors // 2

        def copy() -> Call:
            x = torch.empty(moved, dtype=torch.uint8, device=self.device).random_()
            if case.form == "fresh":
                return x.clone
            y = torch.empty_like(x)
            return lambda: y.copy_(x)

        return [copy() for _ in range(sets)]

    def times(self, case: Case, peers: dict[str, list[Call]]) -> list[timing.Pass]:
        measurements = {}
        for name, calls in peers.items():
            replayed = case.size in REPLAYED and name != NOT_REPLAYED
            try:
                measurements[name] = self.measurement(calls, replayed)
            except RuntimeError as error:
                if name in ("ours", "torch_copy", COMPILED):
                    raise
                self.skipped.append(f"{case.key}, {name}: {str(error).splitlines()[0]}")
        return timing.in_turns(measurements)

    def measure(self, case: Case) -> None:
        """Ours, a copy, and what torch does without compiling."""
        fresh = replace(case, form="fresh")
        inputs = self.inputs(case)
        others: dict[str, Callable[[Tensor], Call | None]]
        if case.form == "backward":
            peers = {"ours": [backward(*ours.operation(case, x)) for x in inputs]}
            others = {"torch_eager": lambda x: backward(*torch_eager.idiom(case, x))}
        else:
            peers = {"ours": [ours.prepare(case, x) for x in inputs]}
            others = {
                "torch_eager": partial(torch_eager.prepare, fresh),
                "torch_out": partial(torch_out.prepare, fresh),
            }
        peers["torch_copy"] = self.copies(case, len(inputs))
        for name, prepare in others.items():
            calls = [call for x in inputs if (call := prepare(x))]
            if not calls or (name == NOT_REPLAYED and case.size == "64 KB"):
                continue
            try:
                if not the_same(peers["ours"][0], calls[0]):
                    raise RuntimeError(f"the result is not that of {name}")
                peers[name] = calls
            except RuntimeError as error:
                if name == "torch_eager":  # by which the results are judged, those of torch's other way too
                    raise
                self.skipped.append(f"{case.key}, {name}: {str(error).splitlines()[0]}")
        self.add(case, self.times(case, peers))

    def measure_compiled(self, case: Case) -> None:
        """Adds the compiled idiom to the case's passes."""
        calls = [torch_compiled.prepare(replace(case, form="fresh"), x, self.backend) for x in self.inputs(case)]
        measured = self.times(case, {COMPILED: [call for call in calls if call]})
        self.add(case, [a | b for a, b in zip(self.passes[case.key], measured, strict=True)])

    def add(self, case: Case, passes: list[timing.Pass]) -> None:
        self.passes[case.key] = passes
        rows = {row["case"]: row for row in self.rows}
        rows[case.key] = row(case, passes) | {"bytes": case.bytes_in_sectors}
        self.rows = [rows[key] for key in self.order if key in rows]
