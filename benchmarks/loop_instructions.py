"""Counts the instructions of the CPU engine's inner loops, on x86-64 and on ARM, under qemu.

    python benchmarks/loop_instructions.py [--write]     prints the table, or writes it to benchmarks/results

They tell where a compiler leaves a loop to scalar instructions. How long the instructions take they do not tell. Needs
qemu-user and g++-aarch64-linux-gnu, of Debian or Ubuntu. (qemu has no AVX-512.)
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "native"))
from host_build import SOURCES, program  # noqa: E402

RESULTS = Path(__file__).parent / "results" / "loop-instructions.md"
LEVELS = {"SSE2": ("x86_64", "baseline"), "AVX2": ("x86_64", "avx2"), "NEON": ("aarch64", "baseline")}
SIZES = (1, 2, 4, 8, 16)
ITEMS = 252 * 64  # of a call, as loop_calls.cpp has them
LOOPS = {
    **{f"stride {by}": ("stride", by) for by in (1, -1, 2, 3, 4, -2, -3, -4)},
    "transposed": ("transpose", 0),
    **{f"set apart, {by}": ("dilate", by) for by in (2, 3, 4)},
    **{f"interleaved, {by}": ("interleave", by) for by in (2, 3, 4)},
    "a length per row": ("rows", 0),
    "a length per column": ("columns", 0),
}
ABOUT = """# Instructions of the inner loops

For each item that is written, of 1 to 16 bytes, in 64 rows of 252: SSE2 / AVX2 / NEON, by g++ {version}, whose vectors
are 16, 32 and 16 bytes long. `python benchmarks/loop_instructions.py --write` counts them under qemu.

"""


def count(plugin: Path, level: str, loop: str, by: int, size: int, calls: int) -> int:
    machine, name = LEVELS[level]
    command = [f"qemu-{machine}", "-cpu", "max", "-plugin", str(plugin), "-d", "plugin"]
    command += [str(program(f"loop_calls_{machine}")), loop, *map(str, (by, size, calls))]
    environment = os.environ | {"TORCH_DML_OPS_SIMD": name}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return int(done.stderr)


def table() -> str:
    lines = [
        "| | " + " | ".join(f"{size} byte{'s'[: size > 1]}" for size in SIZES) + " |",
        "|---" * (1 + len(SIZES)) + "|",
    ]
    with tempfile.TemporaryDirectory() as folder:
        plugin = Path(folder, "count_instructions.so")
        compiled = ["gcc", "-O2", "-shared", "-fPIC", SOURCES / "count_instructions.c", "-o", plugin]
        subprocess.run(list(map(str, compiled)), check=True)
        for name, (loop, by) in LOOPS.items():
            cells = []
            for size in SIZES:
                few, many = ([count(plugin, level, loop, by, size, calls) for level in LEVELS] for calls in (1, 6))
                cells.append(" / ".join(f"{(b - a) / 5 / ITEMS:.2f}" for a, b in zip(few, many, strict=True)))
            lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def version() -> str:
    return subprocess.run(["g++", "-dumpfullversion"], capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        RESULTS.write_text(ABOUT.format(version=version()) + table())
    else:
        print(table(), end="")
