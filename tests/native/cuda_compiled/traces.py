"""Traces of compiled kernels for Accel-Sim: what their SASS says of registers, in the simulator's words."""

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

import host_build
from host_build import CUDA_KERNELS

from . import build, ptx, sass
from .kernels import Kernel

# The simulator knows Ampere's opcodes: these run where Hopper runs theirs, on the pipe for multiplications, or on the
# one for logic.
MULTIPLIES = ("IMAD", "HFMA2")
COMPUTES = ("MOV", "PRMT", "SEL", "PLOP3", "P2R", "R2P", "VIADD", "VIMNMX", "VIADDMNMX")
SPACES = {"LDG": "g", "STG": "g", "LDS": "s", "STS": "s", "LDC": "c"}
WITHOUT_RESULT = (
    "STG",
    "STS",
    "BRA",
    "EXIT",
    "BAR",
    "NOP",
    "BSSY",
    "BSYNC",
    "BREAK",
    "WARPSYNC",
    "R2P",
    "R2UR",
    "S2UR",
)


def _entry(at: int, text: str) -> str:
    """An instruction's address, opcode, space, how many registers it writes, which is the first, and which it reads.
    Predicates and uniform registers are no dependencies, as in the traces of the simulator's own tracer."""
    text = re.sub(r"^@!?U?P(\d|T) ", "", text)
    opcode, _, rest = text.partition(" ")
    head, *modifiers = opcode.split(".")
    operands = [o.strip() for o in rest.split(",")] if rest else []
    wide = 4 if "128" in modifiers else 2 if "64" in modifiers or "WIDE" in modifiers or opcode == "CS2R" else 1
    dsts: list[int] = []
    srcs: list[int] = []
    for k, operand in enumerate(operands):
        registers = [int(r) for r in re.findall(r"(?<![UP\w])R(\d+)", operand)]
        if k == 0 and re.fullmatch(r"R\d+", operand) and head not in WITHOUT_RESULT and not head.startswith("U"):
            dsts = registers
            continue
        srcs += registers
        if ".64" in operand:
            srcs.append(registers[0] + 1)
        if head in ("STG", "STS") and k == 1:
            srcs += [registers[0] + j for j in range(1, wide) if registers]
    if head in MULTIPLIES:
        opcode = "FFMA"
    elif head in COMPUTES:
        opcode = "LOP3.LUT"
    opcode = re.sub(r"\.S(8|16)\b", r".U\1", opcode)
    srcs = list(dict.fromkeys(srcs))
    numbers = " ".join(map(str, [len(dsts), *dsts, len(srcs), *srcs]))
    return f"{at} {opcode} {SPACES.get(head, '-')} {wide} {numbers}"


def _table(kernel: Kernel, code: sass.Code) -> str:
    text = dict(code)
    lines = [f"{kernel.registers} {len(kernel.blocks)}"]
    for block in kernel.blocks:
        lines += [str(len(block)), *(_entry(i.at, text[i.at]) for i in block)]
    return "\n".join(lines)


Launched = list[tuple[str, int, int]]  # a kernel's name, its blocks and its registers


def write(folder: Path, plans: str, sm_count: int, others: Iterable[Path] = ()) -> dict[str, Launched]:
    """Writes the traces of the plans, each into a folder of its name, by the kernels and those of other sources;
    returns the launches of each plan."""
    arch, tables = "sm_90", folder / "tables"
    tables.mkdir(parents=True, exist_ok=True)
    host = host_build.objects([*CUDA_KERNELS, build.PROGRAMS / "trace_plans.cpp"], jobs=2)
    names = build.linked(folder / "names", host, checked=False)
    launched = subprocess.run(
        [names, "kernels"], input=plans, capture_output=True, text=True, check=True
    ).stdout.split()
    entries = [entry for entry in build.ptx_entries(arch) if entry.name in launched]
    code = {name: lines for text in build.compiled_sass(arch) for name, lines in sass.functions(text).items()}
    for source in others:
        target = folder / f"{source.stem}.ptx"
        build.make(target, [source], [*build.NVCC, "-ptx", f"-arch={arch}", str(source), "-o", str(target)])
        entries += ptx.entries(target.read_text())
        code |= sass.functions(build.disassembled(target, arch))
    kernels = [sass.kernel(entry.head(), code[entry.name]) for entry in entries]
    for kernel in kernels:
        (tables / kernel.name).write_text(_table(kernel, code[kernel.name]))
    objects = [*build.translated_objects(kernels, 2), *host]
    program = build.linked(folder / "trace_plans", objects, checked=False)
    command = [str(program), str(tables), str(folder), str(sm_count)]
    done = subprocess.run(command, input=plans, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stdout + done.stderr)
    result: dict[str, Launched] = {}
    for line in done.stdout.splitlines():
        where, kernel_name, blocks, registers = line.split()
        result.setdefault(Path(where).name, []).append((kernel_name, int(blocks), int(registers)))
    return result
