"""Counts the instructions that the compiled CUDA kernels execute in each case, without a GPU.

    python benchmarks/cuda_instructions.py [--case TEXT …] [--ptx] [--opcodes]     prints the table
    python benchmarks/cuda_instructions.py --write                                 writes it to benchmarks/results
    python benchmarks/cuda_instructions.py --check                                 compares with what was written

Copies should be bound by memory. A GPU also has to issue the instructions, and where the ratio of the time for that to
the time for the memory is above 1, it is they that bind the kernel, however well it accesses the memory; from about 0.7
on they may delay it.

The kernels' SASS for sm_90 runs on the CPU (tests/native/cuda_compiled) under the plans of the cases, with the launches
of an H200. Of a large case a few thread blocks are run, one of each of as many equal parts. nvcc, cuobjdump and
nvdisasm are needed. --ptx counts instructions of the PTX instead, for which nvcc is enough; --opcodes lists the most
frequent ones.
"""

import argparse
import itertools
import json
import math
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from cases import ALL, SHORT_ROWS, Case, all_cases, gpu_cases, last, sized

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "native"))
from cuda_compiled import build

ARCH = "sm_90"
RESULTS = Path(__file__).parent / "results" / "cuda-instructions.json"
ALLOWED = 1.1  # times the committed count
SCHEDULERS, WARP, SLOT = 4, 32, 16  # of an SM; threads; bytes


@dataclass(frozen=True)
class Gpu:
    """What bounds a kernel: a scheduler issues one instruction of a warp per cycle. Clocks under load, and bandwidths
    that a copy reaches, which is about nine tenths of what data sheets say."""

    sms: int
    gigahertz: float
    terabytes_per_second: float

    def ratio(self, warp_instructions: float, bytes_moved: float) -> float:
        issue = warp_instructions / (self.sms * SCHEDULERS * self.gigahertz * 1e9)
        return issue / (bytes_moved / (self.terabytes_per_second * 1e12))


GPUS = {
    "A100": Gpu(108, 1.41, 1.8),
    "H100": Gpu(132, 1.7, 3.0),
    "H200": Gpu(132, 1.7, 4.3),
    "B200": Gpu(148, 1.7, 7.2),
}


def counted_cases() -> list[Case]:
    """What is measured on a GPU or on the CPU, the latter at 1 GB but for short rows, and rows that begin anywhere and
    narrow items."""
    windows = [
        Case("window, odd offset and width", "slice", index=last(slice(1, 512))),
        Case("slice_grad, odd offset and width", "slice_grad", index=last(slice(3, 514))),
        Case("slice_grad, stride -1, last axis", "slice_grad", index=last(slice(511, None, -1))),
        Case("stride -1 of a last axis of 1023", "slice", index=(ALL, slice(None, None, -1)), inner=1023),
    ]
    measured = [*gpu_cases(), *(case for case in all_cases() if (case.dtype, case.row) not in SHORT_ROWS)]
    float32 = [case for case in measured if case.dtype == "float32" and case.layout == "contiguous"]
    crossed = [case for case in measured if case.to_contiguous]
    narrow = [replace(case, dtype=dtype) for dtype in ("uint8", "float16") for case in (*windows, *float32, *crossed)]
    large = [replace(sized(case, "1 GB"), form="out") for case in (*windows, *measured, *narrow)]
    return list({case.key: case for case in (*gpu_cases(), *large)}.values())


# ---- Plans, as tests/native/cuda_compiled/programs/count_instructions.cpp reads them ----

ORDERS = {"transposed": [0, 2, 1], "channels last": [0, 2, 3, 1]}  # of dimensions in memory, the innermost last
Numbers = list[int]


def dense_strides(sizes: Sequence[int], layout: str) -> Numbers:
    order = ORDERS.get(layout, list(range(len(sizes))))
    return [math.prod(sizes[d] for d in order[order.index(k) + 1 :]) for k in range(len(sizes))]


def plain_dims(sizes: Iterable[int], dst_strides: Iterable[int], src_strides: Iterable[int]) -> Numbers:
    dims = zip(sizes, dst_strides, src_strides, strict=True)
    return [x for n, dst, src in dims for x in (n, dst, src, 0, 1, n)]


def window_plan(case: Case, itemsize: int) -> Numbers:
    """Of a slice or a slice_grad: the window is one end of the copy, the whole the other."""
    shape, layout = case.shape, case.layout
    steps = [range(*s.indices(n)) for s, n in zip(case.index, shape, strict=True)]
    sizes = [len(r) for r in steps]
    whole = dense_strides(shape, layout)
    window = dense_strides(sizes, "contiguous" if case.to_contiguous else layout)
    if case.operation == "slice":
        start = sum(r.start * stride for r, stride in zip(steps, whole, strict=True))
        src_strides = [r.step * stride for r, stride in zip(steps, whole, strict=True)]
        return [1, 0, start * itemsize, len(shape), *plain_dims(sizes, window, src_strides)]
    start, dims = 0, []
    for n, r, dst_stride, src_stride in zip(shape, steps, whole, window, strict=True):
        start += (len(r) - 1) * src_stride if r.step < 0 else 0
        turned = -src_stride if r.step < 0 else src_stride
        dims += [n, dst_stride, turned, min(r[0], r[-1]), abs(r.step), len(r)]
    return [1, 0, start * itemsize, len(shape), *dims]


def pieces_plan(case: Case, itemsize: int) -> Numbers:
    """Of a split or a join; the pieces lie one after another, each at a multiple of 512 bytes."""
    whole = dense_strides(case.shape, case.layout)
    sizes = case.split_sizes
    result, piece_at = [len(sizes)], 0
    for size, index in zip(sizes, itertools.accumulate([0, *sizes]), strict=False):
        shape = [size if d == case.axis else n for d, n in enumerate(case.shape)]
        piece, whole_at = dense_strides(shape, case.layout), index * whole[case.axis] * itemsize
        if case.operation == "split":
            result += [piece_at, whole_at, len(shape), *plain_dims(shape, piece, whole)]
        else:
            result += [whole_at, piece_at, len(shape), *plain_dims(shape, whole, piece)]
        piece_at += -(-math.prod(shape) * itemsize // 512) * 512
    return result


def reverse_plan(case: Case) -> Numbers:
    shape, strides = case.shape, dense_strides(case.shape, case.layout)
    length_strides = dense_strides([n if d in case.varies else 1 for d, n in enumerate(shape)], "contiguous")
    dims = [
        (n, strides[d], strides[d], length_strides[d] if d in case.varies else 0, d == case.axis)
        for d, n in enumerate(shape)
    ]
    return [*case.length_bounds, len(shape), *map(int, itertools.chain(*dims))]


def plan(case: Case) -> str:
    itemsize = np.dtype(case.dtype).itemsize
    if case.operation == "reverse":
        kind, numbers = "reverse", reverse_plan(case)
    else:
        windowed = case.operation in ("slice", "slice_grad")
        kind, numbers = "affine", (window_plan if windowed else pieces_plan)(case, itemsize)
    return " ".join(map(str, [kind, itemsize, *numbers]))


# ---- Counts ----


@dataclass
class Count:
    """What the warps of a case execute, how often they access the L1 cache, and how many bytes they store; and of the
    launch with the most blocks, how many of them an SM runs at once and in how many waves."""

    opcodes: dict[str, float] = field(default_factory=dict)
    wavefronts: float = 0
    stored: float = 0
    blocks: int = 0
    blocks_per_sm: int = 0

    @property
    def per_slot(self) -> float:
        """Instructions that a thread executes for 16 bytes that are written, if all threads of a warp go together."""
        return WARP * sum(self.opcodes.values()) / (self.stored / SLOT)

    def row(self, case: Case) -> dict[str, Any]:
        warp_instructions = self.per_slot / WARP * case.bytes_written / SLOT
        ratio = {name: gpu.ratio(warp_instructions, case.bytes_in_sectors) for name, gpu in GPUS.items()}
        return {
            "case": case.key,
            "instructions_per_16_bytes": round(self.per_slot, 1),
            "wavefronts_per_512_bytes": round(512 * self.wavefronts / self.stored, 1),
            "blocks_per_sm": self.blocks_per_sm,
            "waves": round(self.blocks / (GPUS["H200"].sms * self.blocks_per_sm), 2),
            "ratio": {name: round(value, 2) for name, value in ratio.items()},
        }


def count(cases: Sequence[Case], with_sass: bool = True) -> list[Count]:
    plans = "\n".join(map(plan, cases))
    program, kernels = build.counting_program(ARCH, with_sass, plans)
    done = subprocess.run([program], input=plans, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stdout + done.stderr)
    counts = [Count() for _ in cases]
    for line in done.stdout.splitlines():
        number, name, blocks, per_sm, chosen, stored, wavefronts, *visits = line.split()
        counted, of_all = counts[int(number)], int(blocks) / int(chosen)
        for opcode, n in kernels[name].opcodes(map(int, visits)).items():
            counted.opcodes[opcode] = counted.opcodes.get(opcode, 0) + n * of_all
        counted.stored += int(stored) * of_all
        counted.wavefronts += int(wavefronts) * of_all
        if int(blocks) > counted.blocks:
            counted.blocks, counted.blocks_per_sm = int(blocks), int(per_sm)
    return counts


def worse(before: Iterable[dict[str, Any]], now: Iterable[dict[str, Any]]) -> list[str]:
    """The cases whose count is more than a tenth higher than before, each in a sentence."""
    counts = {row["case"]: row["instructions_per_16_bytes"] for row in before}
    return [
        f"{row['case']}: {row['instructions_per_16_bytes']} instructions per 16 bytes, before {counts[row['case']]}"
        for row in now
        if row["case"] in counts and row["instructions_per_16_bytes"] > ALLOWED * counts[row["case"]]
    ]


def table(rows: Iterable[dict[str, Any]]) -> str:
    head = ["instructions", *GPUS, "wavefronts", "blocks", "waves"]
    lines = [f"| case | {' | '.join(head)} |", "|---|" + "---:|" * len(head)]
    for row in rows:
        ratios = " | ".join(f"{row['ratio'][name]:.2f}" for name in GPUS)
        launched = f"{row['wavefronts_per_512_bytes']} | {row['blocks_per_sm']} | {row['waves']}"
        lines.append(f"| {row['case']} | {row['instructions_per_16_bytes']:.0f} | {ratios} | {launched} |")
    return "\n".join(lines)


HEAD = f"""# Instructions of the CUDA kernels

What a thread executes for 16 bytes that it writes, counted in the kernels' SASS for {ARCH} without a GPU, and for each
GPU the time to issue these instructions by the time that the memory takes. Above 1 the instructions bind the kernel.
The GPUs are taken to have

| GPU | SMs | GHz | TB/s |
|---|---:|---:|---:|
{{gpus}}

Wavefronts are the accesses to the L1 cache, of a line of 128 bytes each, for 512 bytes that are written: a plain copy
takes 8. Blocks are those that an SM runs at once, and waves how many times so many an H200 runs.

Written by `python benchmarks/cuda_instructions.py --write`.

"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", nargs="+", default=[""], help="only cases whose name contains one of these texts")
    parser.add_argument("--ptx", action="store_true", help="count the PTX's instructions instead of the SASS's")
    parser.add_argument("--opcodes", action="store_true", help="list each case's most frequent instructions")
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name} and a table beside it")
    parser.add_argument("--check", action="store_true", help=f"fail if a case is 10 %% worse than in {RESULTS.name}")
    options = parser.parse_args()
    if why := build.missing_tool(with_sass=not options.ptx):
        sys.exit(why)
    cases = [case for case in counted_cases() if any(text in case.key for text in options.case)]
    if not cases:
        sys.exit(f"no case's name contains {' or '.join(map(repr, options.case))}")
    counts = count(cases, with_sass=not options.ptx)
    rows = [counted.row(case) for case, counted in zip(cases, counts, strict=True)]
    if options.write:
        gpus = "\n".join(f"| {n} | {g.sms} | {g.gigahertz} | {g.terabytes_per_second} |" for n, g in GPUS.items())
        RESULTS.write_text("[\n" + ",\n".join(f" {json.dumps(row)}" for row in rows) + "\n]\n")
        RESULTS.with_suffix(".md").write_text(f"{HEAD.format(gpus=gpus)}{table(rows)}\n")
    elif options.check:
        found = worse(json.loads(RESULTS.read_text()), rows)
        print("\n".join(found))
        return bool(found)
    else:
        print(table(rows))
    if options.opcodes:
        for case, counted in zip(cases, counts, strict=True):
            frequent = sorted(counted.opcodes.items(), key=lambda item: -item[1])[:25]
            each = (f"{WARP * n / (counted.stored / SLOT):.1f} {opcode}" for opcode, n in frequent)
            print(f"{case.key}: {', '.join(each)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
