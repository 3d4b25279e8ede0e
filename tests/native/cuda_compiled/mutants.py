"""Changes single statements of the PTX and looks whether the checks notice."""

import contextlib
import random
import re
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

from . import build, ptx
from .coverage import Visits
from .kernels import Unknown, readable_names

REPLACEMENTS = [
    ("add.s", "sub.s"),
    ("sub.s", "add.s"),
    ("shr.u", "shr.s"),
    ("shl.b32", "shr.u32"),
    ("mul.hi.u32", "mul.lo.s32"),
    ("mul.wide.s32", "mul.wide.u32"),
    ("cvt.s64.s32", "cvt.u64.u32"),
    ("setp.lt", "setp.le"),
    ("setp.le", "setp.lt"),
    ("setp.gt", "setp.ge"),
    ("setp.ge", "setp.gt"),
    ("setp.eq", "setp.ne"),
    ("setp.ne", "setp.eq"),
    ("or.pred", "and.pred"),
    ("and.b", "or.b"),
    ("min.s", "max.s"),
]
OFTEN = 100  # a statement that ran less often is not changed
SECONDS = 60  # of a program, after which it has noticed nothing


@dataclass
class Mutant:
    entry: ptx.Entry
    statement: int
    becomes: str

    def description(self) -> str:
        was = self.entry.statements[self.statement]
        name = readable_names([self.entry.name])[self.entry.name]
        return f"{name}, line {was.line}: {was.text}  ->  {self.becomes}"

    def changed(self) -> ptx.Entry:
        result = deepcopy(self.entry)
        result.statements[self.statement].text = self.becomes
        return result


def changes(text: str) -> list[str]:
    """Statements that differ from this one in one thing."""
    guard, body = re.fullmatch(r"(@!?%p\d+ )?(.*)", text).groups("")  # type: ignore[union-attr]
    result = [guard + new + body[len(old) :] for old, new in REPLACEMENTS if body.startswith(old)]
    if guard:
        result.append(("@" + guard[2:] if guard.startswith("@!") else "@!" + guard[1:]) + body)
    if number := re.search(r", (-?\d+)$", body):
        result.append(guard + body[: number.start(1)] + str(int(number[1]) + 1))
    if choice := re.fullmatch(r"(selp\.\w+ [^,]+), ([^,]+), ([^,]+), (.*)", body):
        result.append(f"{guard}{choice[1]}, {choice[3]}, {choice[2]}, {choice[4]}")
    if offset := re.search(r"\+(-?\d+)\]", body):
        width = 16 if re.search(r"\.v[24]\.", body) else 4
        result.append(guard + body.replace(offset[0], f"+{int(offset[1]) + width}]"))
    if body == "bar.sync 0":
        result.append("mov.pred %p0, 0")
    return result


def choose(entries: Sequence[ptx.Entry], visits: Visits, count: int, seed: int) -> list[Mutant]:
    """Of every kind of kernel about as many, whatever the number of its instances."""
    rng = random.Random(seed)
    kinds: dict[str, list[tuple[ptx.Entry, int]]] = {}
    readable = readable_names(entry.name for entry in entries)
    for entry in entries:
        blocks = zip(visits.get(entry.name, []), entry.kernel().blocks, strict=False)
        often = {instruction.at for n, block in blocks if n >= OFTEN for instruction in block}
        function, _, arguments = readable[entry.name].partition("<")
        pattern = arguments.split(", ")[3:4] if function == "copy_vectorized" else []
        for k, s in enumerate(entry.statements):
            if s.line in often and s.text and changes(s.text):
                kinds.setdefault(" ".join([function, *pattern]), []).append((entry, k))
    result: list[Mutant] = []
    while len(result) < count:
        entry, k = rng.choice(kinds[sorted(kinds)[len(result) % len(kinds)]])
        result.append(Mutant(entry, k, rng.choice(changes(entry.statements[k].text))))
    return result


def noticed(mutant: Mutant, folder: Path, cases: int, seed: int) -> str | None:
    """What the checks say of the mutant; None if nothing. Raises Unknown if it is not PTX."""
    kernels = [mutant.changed().kernel()]
    programs = [(build.large_plans, []), (build.each_kernel, []), (build.kernels_fuzz, [str(cases), str(seed), "cuda"])]
    variables = build.environment(CUDA_COMPILED_PARTIAL="1")
    for program, arguments in programs:
        command = [str(program(folder, kernels, jobs=1)), *arguments]
        with contextlib.suppress(subprocess.TimeoutExpired):
            done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=SECONDS)
            if done.returncode != 0:
                said = (done.stdout.splitlines() or [f"ended by signal {-done.returncode}"])[0]
                return said.removeprefix("MISMATCH ")
    return None


def run(entries: Sequence[ptx.Entry], visits: Visits, count: int, cases: int, seed: int, jobs: int) -> str:
    """Prints each mutant as it is tried; returns how many were noticed."""

    def tried(numbered: tuple[int, Mutant]) -> bool | None:
        number, mutant = numbered
        try:
            what = noticed(mutant, build.FOLDER / "mutants" / str(number % jobs), cases, seed)
        except Unknown:
            return None
        print(f"{'noticed ' if what else 'SURVIVED'} {mutant.description()}{f': {what}' if what else ''}", flush=True)
        return what is not None

    with ThreadPoolExecutor(jobs) as pool:
        results = [r for r in pool.map(tried, enumerate(choose(entries, visits, count, seed))) if r is not None]
    return f"{sum(results)} of {len(results)} mutants noticed"
