"""Measures the operators beside the torch idioms that do the same, alternating in one process.

    python benchmarks/bench.py [--device cpu|cuda] [--quick] [--case NAME …]

Writes benchmarks/results/cpu-<model>.json (or gpu-<model>.json) and prints a table. A ratio under 1 means that the
operator is faster than the idiom.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import results_file
import torch
from torch import Tensor
from torch.utils.benchmark import Timer
from tqdm import tqdm

import torch_dml_ops as dml

SHAPES = {"64 KB": (4, 32, 128), "4 MB": (16, 128, 512), "128 MB": (64, 512, 1024)}
Call = Callable[[], object]


@dataclass
class Case:
    """An operator's call and the torch idiom for it, made for one input."""

    name: str
    make: Callable[[Tensor], tuple[Call, Call]]


def sliced(idiom: Callable[[Tensor], Tensor], *slices: slice) -> Callable[[Tensor], tuple[Call, Call]]:
    def make(x: Tensor) -> tuple[Call, Call]:
        window = dml.window(x.shape, (..., *slices))
        return lambda: dml.slice1(x, *window), lambda: idiom(x)

    return make


def halved(x: Tensor) -> tuple[Call, Call]:
    half = x.shape[-1] // 2
    return sliced(lambda x: x[..., :half].contiguous(), slice(half))(x)


def slice_grad(x: Tensor) -> tuple[Call, Call]:
    n = x.shape[-1]
    window = dml.window(x.shape, (..., slice(None, None, 2)))
    g = x[..., : (n + 1) // 2].contiguous()

    def idiom() -> Tensor:
        result = torch.zeros_like(x)
        result[..., ::2] = g
        return result

    return lambda: dml.slice_grad(g, x.shape, *window), idiom


def split(count: int, axis: int) -> Callable[[Tensor], tuple[Call, Call]]:
    def make(x: Tensor) -> tuple[Call, Call]:
        sizes = [len(range(k, x.shape[axis], count)) for k in range(count)]
        return lambda: dml.split(x, sizes, axis), lambda: torch.split_with_sizes_copy(x, sizes, axis)

    return make


def join(count: int, axis: int) -> Callable[[Tensor], tuple[Call, Call]]:
    def make(x: Tensor) -> tuple[Call, Call]:
        pieces = [piece.contiguous() for piece in x.tensor_split(count, axis)]
        return lambda: dml.join(pieces, axis), lambda: torch.cat(pieces, axis)

    return make


def reversal(axis: int, *varies: int) -> Callable[[Tensor], tuple[Call, Call]]:
    """Reversal along `axis` with lengths that differ along the dimensions named."""

    def make(x: Tensor) -> tuple[Call, Call]:
        n = x.shape[axis]
        shape = [x.shape[d] if d in varies else 1 for d in range(x.dim())]
        lengths = torch.randint(0, n + 1, shape, device=x.device)
        lengths = lengths.expand([1 if d == axis else size for d, size in enumerate(x.shape)])
        i = torch.arange(n, device=x.device).reshape([-1 if d == axis else 1 for d in range(x.dim())])
        index = torch.where(i < lengths, lengths - 1 - i, i).expand_as(x)
        return lambda: dml.reverse_subsequences(x, lengths, axis), lambda: x.gather(axis, index)

    return make


CASES = [
    Case("copy", sliced(torch.clone)),
    Case("window, last axis halved", halved),
    Case("stride 2, last axis", sliced(lambda x: x[..., ::2].contiguous(), slice(None, None, 2))),
    Case("stride -1, last axis", sliced(lambda x: x.flip(-1), slice(None, None, -1))),
    Case("stride -2, last axis", sliced(lambda x: x.flip(-1)[..., ::2].contiguous(), slice(None, None, -2))),
    Case("stride 3, last axis", sliced(lambda x: x[..., ::3].contiguous(), slice(None, None, 3))),
    Case("stride -1, all axes", sliced(lambda x: x.flip(0, 1, 2), *[slice(None, None, -1)] * 3)),
    Case("slice_grad, stride 2, last axis", slice_grad),
    Case("split last axis in 3", split(3, 2)),
    Case("split last axis in 16", split(16, 2)),
    Case("split middle axis in 4", split(4, 1)),
    Case("join last axis of 16", join(16, 2)),
    Case("reverse axis 1, a length per batch item", reversal(1, 0)),
    Case("reverse axis 1, a length per column", reversal(1, 0, 2)),
    Case("reverse last axis, a length per row", reversal(2, 0, 1)),
]


def measure(case: Case, shape: tuple[int, ...], device: str, rounds: int) -> dict[str, float]:
    """Medians over alternating rounds, in microseconds, and the median of the rounds' ratios."""
    calls = case.make(torch.randn(shape, device=device))
    timers = [Timer("call()", globals={"call": call}, num_threads=torch.get_num_threads()) for call in calls]
    times = [[t.blocked_autorange(min_run_time=0.02).median * 1e6 for t in timers] for _ in range(rounds)]
    ours, torch_idiom = torch.tensor(times).median(0).values.tolist()
    ratios = torch.tensor([a / b for a, b in times])
    return {
        "ours_us": ours,
        "torch_us": torch_idiom,
        "ratio": ratios.median().item(),
        "ratio_low": ratios.min().item(),
        "ratio_high": ratios.max().item(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--quick", action="store_true", help="fewer rounds and no 128 MB")
    parser.add_argument("--case", nargs="*", help="only cases whose names contain one of these")
    parser.add_argument("--also", help="a folder that gets a copy of the results")
    arguments = parser.parse_args()
    if arguments.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda needs an NVIDIA GPU, and torch sees none")
    cases = [c for c in CASES if not arguments.case or any(name in c.name for name in arguments.case)]
    shapes = {k: v for k, v in SHAPES.items() if not (arguments.quick and k == "128 MB")}
    rows = []
    for case, size in tqdm([(c, s) for c in cases for s in shapes], unit="case"):
        rows.append(
            {"case": case.name, "size": size}
            | measure(case, shapes[size], arguments.device, 3 if arguments.quick else 7)
        )
    kind = "gpu" if arguments.device == "cuda" else "cpu"
    path = results_file.write(
        f"{kind}-{results_file.machine_name(arguments.device)}.json",
        results_file.environment() | {"threads": torch.get_num_threads(), "dtype": "float32", "rows": rows},
        arguments.also,
    )
    print(f"| case | {' | '.join(shapes)} |\n|---|{'---|' * len(shapes)}")
    for case in cases:
        ratios = [f"{row['ratio']:.2f}" for row in rows if row["case"] == case.name]
        print(f"| {case.name} | {' | '.join(ratios)} |")
    print(f"\ntime / torch idiom's time, medians; all figures: {path.relative_to(results_file.FOLDER.parents[1])}")


if __name__ == "__main__":
    main()
