"""Compiled kernels as C++: what the translations of PTX (ptx.py) and of SASS (sass.py) have in common."""

import functools
import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

# What a register holds before it is first written, so that no kernel depends on it by luck.
GARBAGE = {"bool": "true", "u16": "0xA5A5", "u32": "0xA5A5A5A5u", "u64": "0xA5A5A5A5A5A5A5A5ull"}


class Unknown(Exception):
    """An instruction, or a form of one, that is not translated."""


@dataclass
class Instruction:
    at: int  # its line in the PTX, its address in the SASS
    opcode: str
    cpp: str = ""  # the statements that do what it does; nothing for branches and exits
    guard: str = ""  # a C++ condition
    target: str = ""  # the label that it branches to
    is_exit: bool = False
    labels: list[str] = field(default_factory=list)  # that stand before it

    def statement(self) -> str:
        cpp = "return;" if self.is_exit else f"goto {self.target};" if self.target else self.cpp
        return f"if ({self.guard}) {{ {cpp} }}" if self.guard else cpp


@dataclass
class Kernel:
    name: str  # as plain_name says
    parameter_bytes: int
    threads: int  # of a block
    shared_bytes: int  # without dynamic shared memory
    registers: int = 64  # of a thread; in the PTX there are as many as values, of which ptxas makes at most so many
    instructions: list[Instruction] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)  # the registers as C++ variables, and their types

    @functools.cached_property
    def blocks(self) -> list[list[Instruction]]:
        """The basic blocks: instructions that always run one after another."""
        result: list[list[Instruction]] = []
        starts = True
        for instruction in self.instructions:
            if starts or instruction.labels:
                result.append([])
            result[-1].append(instruction)
            starts = bool(instruction.target) or instruction.is_exit
        return result

    def successors(self) -> list[list[int]]:
        """For each block, those that may run next; the one after the last is the end of the thread."""
        labels = {label: k for k, block in enumerate(self.blocks) for label in block[0].labels}
        end, result = len(self.blocks), []
        for k, block in enumerate(self.blocks):
            last = block[-1]
            result.append([labels[last.target]] if last.target else [end] if last.is_exit else [])
            if last.guard or not result[-1]:
                result[-1].append(k + 1)
        return result

    def meeting_points(self) -> list[int]:
        """For each block, where threads meet again that go different ways after it: its immediate post-dominator, the
        first block that every way from it to the end passes."""
        end, successors = len(self.blocks), self.successors()
        # The post-dominators of each block, itself included, as the bits of a number.
        found = [(2 << end) - 1] * end + [1 << end]
        changed = True
        while changed:
            changed = False
            for k in reversed(range(end)):
                on_all_ways = functools.reduce(int.__and__, (found[s] for s in successors[k])) | 1 << k
                changed |= on_all_ways != found[k]
                found[k] = on_all_ways
        numbers = {bits: k for k, bits in enumerate(found)}
        return [numbers.get(found[k] ^ 1 << k, end) for k in range(end)]

    def opcodes(self, visits: Iterable[int]) -> Counter[str]:
        """How often each instruction was executed, if the blocks were so often."""
        result: Counter[str] = Counter()
        for count, block in zip(visits, self.blocks, strict=True):
            for instruction in block:
                result[instruction.opcode] += count
        return result

    def cpp(self, number: int) -> str:
        """A C++ function that runs one thread, and its registration under the kernel's name."""
        blocks = self.blocks
        body = [f"{type_} {name} = {GARBAGE[type_]};" for name, type_ in sorted(self.variables.items())]
        for k, block in enumerate(blocks):
            body += [f"{label}:" for label in block[0].labels]
            body += [f"visit(t, visits{number}[{k}], {k});", *(i.statement() for i in block)]
        has_barriers = any(i.cpp.startswith("barrier(") for i in self.instructions)
        numbers = (self.parameter_bytes, self.threads, self.shared_bytes, self.registers)
        known = f"{', '.join(map(str, numbers))}, {str(has_barriers).lower()}"
        meeting_points = ", ".join(map(str, self.meeting_points()))
        return "\n".join(
            [
                f"u64 visits{number}[{len(blocks)}];",
                f"void run{number}(Thread& t) {{",
                *(f"  {line}" for line in body),
                "}",
                f'const Registration registration{number}({{"{self.name}", run{number}, {known}, visits{number}, '
                f"{{{meeting_points}}}}});\n",
            ]
        )


def plain_name(name: str) -> str:
    """The mangled name, with @ for the anonymous namespace, which each compiler calls something else."""
    match = re.search(r"(\d+)_GLOBAL__N_", name)
    if not match:
        return name
    return name[: match.start()] + "@" + name[match.end(1) + int(match[1]) :]


def readable_names(names: Iterable[str]) -> Mapping[str, str]:
    """Demangled plain names, without parameters and namespaces."""
    names = list(names)
    mangled = "\n".join(name.replace("@", "1A") for name in names)
    text = subprocess.run(["c++filt"], input=mangled, capture_output=True, text=True, check=True).stdout
    text = re.sub(r"torch_dml_ops::|cuda::|A::", "", text)
    text = re.sub(r"\(\w+\)(?=\d)", "", text)  # enumerators as numbers
    readable = [re.sub(r"^void |\(.*\)$", "", line) for line in text.splitlines()]
    return dict(zip(names, readable, strict=True))
