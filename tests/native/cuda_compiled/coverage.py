"""Which basic blocks of the compiled kernels the checks ran."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from .kernels import Kernel, readable_names

Visits = dict[str, list[int]]  # of each block, by the kernel's name


def read(paths: Iterable[Path]) -> Visits:
    """The sum of what several programs wrote."""
    result: Visits = {}
    for path in paths:
        for line in path.read_text().splitlines():
            name, *visits = line.split()
            before = result.get(name, [0] * len(visits))
            result[name] = [a + int(b) for a, b in zip(before, visits, strict=True)]
    return result


def never_launched(kernels: Iterable[Kernel], visits: Visits) -> list[Kernel]:
    return [kernel for kernel in kernels if not any(visits.get(kernel.name, []))]


def report(kernels: Sequence[Kernel], visits: Visits) -> str:
    """How much of each kind of kernel ran, and which kernels did not."""
    readable = readable_names(kernel.name for kernel in kernels)
    kinds: dict[str, list[Kernel]] = {}
    for kernel in kernels:
        kinds.setdefault(readable[kernel.name].partition("<")[0], []).append(kernel)
    lines = []
    for kind, members in sorted(kinds.items()):
        blocks = [n for kernel in members for n in visits.get(kernel.name, [0] * len(kernel.blocks))]
        missed = never_launched(members, visits)
        part = f"{sum(n > 0 for n in blocks)} of {len(blocks)} basic blocks"
        lines.append(f"{kind}: {len(members) - len(missed)} of {len(members)} kernels ran, {part}")
        lines += [f"  never launched: {readable[kernel.name]}" for kernel in missed]
    return "\n".join(lines)
