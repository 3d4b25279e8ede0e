"""Simulates the compiled CUDA kernels with Accel-Sim, without a GPU.

    python benchmarks/simulate.py ACCEL_SIM_OUT [--case TEXT …] [--write]

ACCEL_SIM_OUT is the simulator's program, where its sources were built, of branch h100-test. The configuration is made
from the one there. A case takes a minute or so. With --write, results are written to benchmarks/results as they come,
and a case is left out that is there already with the same trace.
"""

import argparse
import hashlib
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "native"))
import cases
import cuda_instructions
from cases import BASIC, SHAPES, Case, sized
from cuda_compiled import traces

ROOT = Path(__file__).parents[1]
WORK = ROOT / "build" / "simulated"
RESULTS = ROOT / "benchmarks" / "results" / "gpu-simulated.json"
PLAIN_KERNELS = ROOT / "tests" / "native" / "cuda_compiled" / "programs" / "plain_kernels.cu"

SMS, GIGAHERTZ = 11, 1.755  # a twelfth of an H200
CHANNELS, BUS_BYTES, L2_KB = 16, 8, 512  # so little that what is written reaches the memory
MEMORY_GBPS = 4800 / 12

# About 18 MB on all of an H200: two whole waves of chunks of 16 KB in four blocks an SM, and a little more than that.
SIZES = {"1.38 MB": (4, 176, 512), "1.5 MB": (6, 128, 512)}


@dataclass(frozen=True)
class Launch:
    """A plan as trace_plans.cpp reads it, and the bytes of the sectors it reads and writes."""

    plan: str
    bytes_moved: int


def simulated_cases() -> list[Case]:
    basic = {case.name: case for case in BASIC}
    names = [
        "window, last axis halved",
        "stride -1, last axis",
        "stride 2, last axis",
        "stride 3, last axis",
        "stride 4, last axis",
        "slice_grad, stride 2, last axis",
        "split last axis in 64",
        "join last axis of 3",
        "reverse axis 1, a length per batch item",
        "reverse axis 1, a length per column",
        "reverse last axis, a length per row",
    ]
    crossed = next(case for case in cases.all_cases() if case.to_contiguous and case.layout == "transposed")
    five = next(case for case in cases.gpu_cases() if case.axes == 5)
    return [
        *(basic[name] for name in names),
        replace(crossed, size=""),
        replace(five, size=""),
        replace(basic["stride -1, last axis"], row=511),
        replace(basic["stride 2, last axis"], dtype="float16"),
        replace(basic["reverse last axis, a length per row"], dtype="float16"),
        replace(basic["stride -1, last axis"], dtype="uint8"),
        replace(basic["join last axis of 3"], dtype="uint8"),
    ]


def peers(shape: tuple[int, ...]) -> dict[str, Launch]:
    """A plain copy, and kernels of torch's structure."""
    items, columns = math.prod(shape), shape[-1]
    rows = items // columns

    def divisor(d: int) -> list[int]:
        shift = (d - 1).bit_length()
        return [d, (((1 << shift) - d) << 32) // d + 1, shift]

    dims = [*divisor(columns), 4, -4, *divisor(rows), 4 * columns, 4 * columns, *[0] * 10]
    flip = [items, 2, *dims, 4 * (columns - 1)]
    pieces = 3
    per_piece = items // pieces // 512 * 512
    cat_rows = per_piece // 512
    blocks = min(-(-per_piece // 512), 4 * SMS)
    return {
        "plain copy": Launch(f"plain plain_copy {-(-items // 1024)} {items // 4}", 8 * items),
        "flip of the last axis, structure of torch's": Launch(
            f"plain torch_flip {-(-items // 512)} {' '.join(map(str, flip))}", 8 * items
        ),
        "cat of 3 along the last axis, structure of torch's": Launch(
            f"plain torch_cat {pieces * blocks} {cat_rows} 512 {pieces} {blocks}", 8 * pieces * per_piece
        ),
    }


def launches() -> dict[str, Launch]:
    result: dict[str, Launch] = {}
    for size, shape in SIZES.items():
        SHAPES[size] = shape
        result |= {f"{name}, {size}": launch for name, launch in peers(shape).items()}
        for case in simulated_cases():
            case = replace(sized(case, size), form="out")
            result[case.key] = Launch(cuda_instructions.plan(case), case.bytes_in_sectors)
    return result


def configuration(simulator: Path, folder: Path) -> list[Path]:
    """Of the simulator's own SM90_H100, which has a V100's clocks and memory: a twelfth of an H200."""
    root = simulator.parents[2]
    text = (root / "gpgpu-sim" / "configs" / "tested-cfgs" / "SM90_H100" / "gpgpusim.config").read_text()
    core = GIGAHERTZ * 1000
    memory = MEMORY_GBPS * 1000 / (CHANNELS * BUS_BYTES * 2)
    sets = L2_KB * 1024 // CHANNELS // 128 // 16
    options = {
        "-gpgpu_n_clusters": SMS,
        "-gpgpu_n_mem": CHANNELS,
        "-gpgpu_n_sub_partition_per_mchannel": 1,
        "-gpgpu_clock_domains": f"{core}:{core}:{core}:{memory:.1f}",
        "-gpgpu_kernel_launch_latency": 0,
        "-gpgpu_shmem_option": "0,8,16,32,64,100,132,164,196,228",
        "-gpgpu_unified_l1d_size": 256,
        "-gpgpu_shmem_size": 233472,
        "-gpgpu_shmem_sizeDefault": 233472,
        "-gpgpu_shmem_per_block": 232448,
        "-gpgpu_dram_buswidth": BUS_BYTES,
        "-gpgpu_cache:dl2": f"S:{sets}:128:16,L:B:m:L:P,A:192:4,32:0,32",
        "-gpgpu_perf_sim_memcpy": 0,
        "-enable_ptx_file_line_stats": 0,
        "-gpgpu_memlatency_stat": 14,
    }
    for option, value in options.items():
        text, found = re.subn(rf"(?m)^{re.escape(option)}\s+.*$", f"{option} {value}", text)
        if not found:
            sys.exit(f"the simulator's configuration has no {option}")
    of = {name: max(1, round(cycles * memory / 850)) for name, cycles in TIMINGS.items()}  # in cycles of 850 MHz
    timing = "nbk=16:CCD=1:nbkgrp=4:CCDL=2:" + ":".join(f"{name}={cycles}" for name, cycles in of.items())
    text = re.sub(r'-gpgpu_dram_timing_opt "nbk=16:.*?"', f'-gpgpu_dram_timing_opt "{timing}"', text, flags=re.S)
    folder.mkdir(parents=True, exist_ok=True)
    config, trace_config = folder / "gpgpusim.config", folder / "trace.config"
    config.write_text(text)
    pipes = (root / "configs" / "tested-cfgs" / "SM90_H100" / "trace.config").read_text()
    for unit in ("int", "sp"):  # half a warp each cycle, and a result after four
        pipes = re.sub(rf"(-trace_opcode_latency_initiation_{unit}) .*", r"\1 4,2", pipes)
    trace_config.write_text(pipes)
    network = root / "gpgpu-sim" / "configs" / "tested-cfgs" / "SM90_H100" / "config_hopper_islip.icnt"
    (folder / network.name).write_text(network.read_text())
    return [config, trace_config]


TIMINGS = {"RRD": 3, "RCD": 12, "RAS": 28, "RP": 12, "RC": 40, "CL": 12, "WL": 2, "CDLR": 3, "WR": 10, "RTPL": 3}


def simulate(simulator: Path, configs: Iterable[Path], traced: Path) -> dict[str, int]:
    command = [str(simulator), "-trace", str(traced / "kernelslist.g")]
    for config in configs:
        command += ["-config", str(config)]
    [libraries] = {str(path.parent) for path in simulator.parents[2].glob("gpgpu-sim/lib/*/*/release/libcudart.so")}
    environment = {**os.environ, "LD_LIBRARY_PATH": libraries}
    done = subprocess.run(command, capture_output=True, text=True, cwd=WORK, env=environment)
    found = {
        name: re.findall(pattern, done.stdout)
        for name, pattern in {
            "cycles": r"gpu_tot_sim_cycle\s*=\s*(\d+)",
            "l1_accesses": r"L1D_total_cache_accesses = (\d+)",
            "dram_reads": r"total dram reads = (\d+)",
            "dram_writes": r"total dram writes = (\d+)",
        }.items()
    }
    if done.returncode != 0 or not found["cycles"]:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return {name: int(values[-1]) for name, values in found.items() if values}


HEAD = """# A simulation, of a configuration that was never compared with a GPU

What Accel-Sim says of the kernels' own SASS for sm_90, on {sms} SMs at {ghz} GHz with {gbps:.0f} GB/s, a twelfth of an
H200. Bytes per cycle by those of a plain copy of the same size in the same simulation: what is quicker than what, and
no speed of any GPU. The simulator's pipes and caches are a V100's; constants, predicates and uniform registers cost it
nothing. Sectors of 32 bytes are counted once for reading and once for writing.

Written by `make simulate-gpu SIMULATOR=…/accel-sim.out`.

| case | by a plain copy | cycles | blocks | registers |
|---|---:|---:|---:|---:|
"""


def speed(row: Mapping[str, Any]) -> float:
    return float(row["bytes"]) / float(row["cycles"])


def table(rows: Mapping[str, Mapping[str, Any]]) -> str:
    lines = []
    for name, row in rows.items():
        plain = rows[f"plain copy, {row['size']}"]
        ratio = speed(row) / speed(plain)
        lines.append(f"| {name} | {ratio:.2f} | {row['cycles']} | {row['blocks']} | {row['registers']} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("simulator", type=Path)
    parser.add_argument("--case", nargs="+", default=[""], help="only cases whose name contains one of these texts")
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name} and a table beside it")
    options = parser.parse_args()
    simulator = options.simulator.resolve()
    everything = launches()
    chosen = [name for name in everything if any(text in name for text in options.case)]
    plain = [f"plain copy, {size}" for size in SIZES if any(size in name for name in chosen)]
    wanted = {name: everything[name] for name in dict.fromkeys([*plain, *chosen])}
    WORK.mkdir(parents=True, exist_ok=True)
    names = {name: re.sub(r"\W+", "_", name) for name in wanted}
    plans = "".join(f"{names[name]} {launch.plan}\n" for name, launch in wanted.items())
    traced = traces.write(WORK / "traces", plans, SMS, [PLAIN_KERNELS])
    configs = configuration(simulator, WORK)
    rows: dict[str, Any] = json.loads(RESULTS.read_text()) if options.write and RESULTS.exists() else {}
    for name, launch in wanted.items():
        folder = WORK / "traces" / names[name]
        digest = hashlib.sha256(b"".join(p.read_bytes() for p in sorted(folder.glob("*.traceg")))).hexdigest()[:16]
        if rows.get(name, {}).get("trace") == digest:
            continue
        result = simulate(simulator, configs, folder)
        rows[name] = {
            "size": next(size for size in SIZES if size in name),
            "bytes": launch.bytes_moved,
            **result,
            "blocks": sum(blocks for _, blocks, _ in traced[names[name]]),
            "registers": max(registers for *_, registers in traced[names[name]]),
            "trace": digest,
        }
        if f"plain copy, {rows[name]['size']}" in rows:
            print(table({k: rows[k] for k in (f"plain copy, {rows[name]['size']}", name)}).splitlines()[-1], flush=True)
        if options.write:
            ordered = {k: rows[k] for k in wanted if k in rows}
            RESULTS.write_text(
                "{\n" + ",\n".join(f" {json.dumps(k)}: {json.dumps(v)}" for k, v in ordered.items()) + "\n}\n"
            )
            head = HEAD.format(sms=SMS, ghz=GIGAHERTZ, gbps=MEMORY_GBPS)
            RESULTS.with_suffix(".md").write_text(f"{head}{table(ordered)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
