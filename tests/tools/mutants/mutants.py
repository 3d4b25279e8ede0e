"""Faults that the tests must notice: `make mutants` switches them on one by one, and prints those that no test noticed.

They are those of mutant_table.py, each with the tests that should notice it, or a sample of those that mutant_sample.py
makes, each with the tests that run what it changes. mutant_copy.py puts them into a copy of the repository. What each
test runs is recorded first, for an hour or so, unless only some TESTS are tried: files, or folders of them.

    mutants.py [--jobs 2] [--sample 300 [--seed 1] [--tests TESTS]] [AREA, FILE or NUMBER …]     all of them, or some
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import itertools
import os
import pickle
import random
import re
import resource
import shlex
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import mutant_reach
import pytest
from mutant_copy import COPY, Mutant, install, make_copy, source
from mutant_reach import Reached, Recorder
from mutant_sample import product_files, reason_of, sample
from mutant_table import ROWS

NO_TESTS = 5  # pytest's status
BEFORE = "before any test"
MOST_SECONDS = 120.0  # of a sample's tests for each fault
CPU_SECONDS = 100  # after which a fault counts as noticed: a loop without an end, say
# What the tests import, but for the package itself: once, before each fault's own process is forked.
IMPORTED = ("hypothesis", "numpy", "onnx", "onnxruntime", "onnxscript", "pytest", "torch._inductor.lowering")


def mutants() -> list[Mutant]:
    """Those of the table. A text occurs once in its file; of it, what is between « and » is replaced, or all of it."""
    result: list[Mutant] = []
    for row in ROWS:
        found = re.sub("[«»]", "", row.text)
        times = source(row.file).count(found)
        assert times == 1, f"{times} times in {row.file}: {found}"
        replaced = row.text.partition("«")[2].partition("»")[0] or row.text
        begin = source(row.file).index(found) + max(row.text.find("«"), 0)
        place = row.file, begin, begin + len(replaced)
        result.append(Mutant(len(result) + 1, row.area, *place, row.becomes, row.tests, row.text))
    return result


def levels(mutant: Mutant, of_processor: Sequence[str]) -> Sequence[str]:
    """Those to run one of the table at. The one with gathers has loops of its own in gather.inl, and the others from
    avx512."""
    gathers = mutant.file.endswith("gather.inl")
    return [level for level in of_processor if level.endswith("_gather") == gathers] if mutant.has_levels else [""]


class Plugin:
    """Keeps the name of the test that runs in a file, so that it is known of a process that ends within it too. Of the
    tests leaves those that are chosen, in their order."""

    def __init__(self, file: Path, chosen: Sequence[str]) -> None:
        self.file, self.place = file, {name: k for k, name in enumerate(chosen)}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self.place:
            items[:] = sorted((i for i in items if i.nodeid in self.place), key=lambda i: self.place[i.nodeid])

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.file.write_text(nodeid)


@dataclass
class Run:
    """Tests in a process of their own, which ends with the first that fails: of pytest, or programs, after a `$`."""

    tests: Sequence[str]
    mutant: Mutant | None = None
    level: str = ""
    chosen: Sequence[str] = ()  # of these tests, in their order, or all of them
    following: Run | None = None  # if these notice nothing
    limit: float = CPU_SECONDS
    record: Path | None = None  # to which it is written what the tests run
    status: int | None = None
    cpu_seconds: float = 0.0
    noticed_by: str = ""

    @property
    def is_switched(self) -> bool:
        return self.mutant is not None and self.mutant.is_switched

    @property
    def switch(self) -> str:
        """MUTANT's value."""
        number = self.mutant.number if self.mutant and self.is_switched else 0
        return f"{number}@{self.level.removesuffix('_gather')}" if self.level else str(number)

    @property
    def program(self) -> str:
        return self.tests[1] if self.tests[:1] == ["$"] else ""

    @property
    def is_noticed(self) -> bool:
        """What fails before any test, as tests are collected, says of any fault whatever that it breaks something: not
        what a fault of the table is there for."""
        return self.status not in (None, 0, NO_TESTS) and (bool(self.chosen) or not self.noticed_by.startswith(BEFORE))

    def start(self) -> int:
        """The process's number."""
        files = COPY / "build" / (self.record.name if self.record else f"mutant_{self.switch}")
        self.log, self.test = Path(f"{files}.log"), Path(f"{files}.test")
        self.test.write_text("")
        if process := os.fork():
            return process
        try:
            os.setsid()  # so that what it starts can be ended with it
            resource.setrlimit(resource.RLIMIT_CPU, (int(self.limit), int(self.limit)))
            signal.alarm(int(4 * self.limit) + 60)
            with self.log.open("wb") as file:
                os.dup2(file.fileno(), 1)
                os.dup2(file.fileno(), 2)
            os.environ.update(PYTHONPATH=str(COPY), MUTANT=self.switch, TORCH_DML_OPS_SIMD=self.level)
            if self.mutant:  # whose graphs are not those of others, which torch keeps on disk
                os.environ["TORCH_COMPILE_CACHE_KEY_TAG"] = f"mutant {self.mutant.number}"
            os.chdir(COPY)
            if self.program:
                os.environ["PATH"] = f"{COPY / 'build' / 'tests'}:{os.environ['PATH']}"
                os.execvp("sh", ["sh", "-c", " ".join(self.tests[1:])])
            sys.path.insert(0, str(COPY))
            if self.mutant and self.is_switched:
                install(self.mutant.number)
            recorder = Recorder(self.record) if self.record else None
            options = ["-q", "--no-header", "--tb=short", "-m", "not thorough", "-p", "no:xdist"]
            plugins = [Plugin(self.test, self.chosen), *([recorder] if recorder else [])]
            status = pytest.main([*options, *([] if recorder else ["-x"]), *self.tests], plugins)
            if recorder:
                recorder.write()
            sys.stdout.flush()
            os._exit(int(status))
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(9)

    def end(self, process: int, status: int, used: resource.struct_rusage) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)
        self.status, self.cpu_seconds = (
            os.waitstatus_to_exitcode(status),
            self.cpu_seconds + used.ru_utime + used.ru_stime,
        )
        if self.status != 0:
            last_lines = " ".join(self.text.splitlines()[-2:])[-150:]
            self.noticed_by = self.test.read_text() or f"{self.program or BEFORE}: {last_lines}"

    @property
    def text(self) -> str:
        """What was printed."""
        return self.log.read_text(errors="replace")


def argument_for(test: str) -> str:
    """Of pytest. It reads a module itself, without its fault, that is one of its arguments."""
    return "torch_dml_ops" if test.startswith("torch_dml_ops/") else test.partition("::")[0]


def runs_of(mutant: Mutant, tests: Mapping[str, Reached]) -> list[Run]:
    """Of one of a sample: with the tests that run what it changes, until they have taken MOST_SECONDS."""
    result: list[Run] = []
    left = MOST_SECONDS
    for names in mutant_reach.in_order(mutant, tests):
        chosen = []
        for name in names:
            left -= tests[name].seconds
            if left > 0 or not (chosen or result):
                chosen.append(name)
        if chosen:
            files = dict.fromkeys(map(argument_for, chosen))
            limit = CPU_SECONDS + 5 * sum(tests[name].seconds for name in chosen)
            result.append(Run([*files], mutant, chosen=chosen, limit=limit))
    for run, following in itertools.pairwise(result):
        run.following = following
    return result[:1] or [Run([], mutant)]


def without_faults(runs: Sequence[Run]) -> list[Run]:
    """The tests that noticed something, once more: that one fails means something only if it is right otherwise."""
    tests = sorted({run.noticed_by for run in runs if "::" in run.noticed_by})
    programs = {(shlex.join(run.tests), run.level): Run(run.tests, level=run.level) for run in runs if run.program}
    files = sorted({*map(argument_for, tests)})
    return [*([Run(["-m", "", *files], chosen=tests, limit=3600)] if tests else []), *programs.values()]


def first_to_end(processes: Collection[int]) -> tuple[int, int, resource.struct_rusage]:
    """Of these alone: a process that compiled something has children of torch's, too."""
    while True:
        for process in processes:
            ended = os.wait4(process, os.WNOHANG)
            if ended[0]:
                return ended
        time.sleep(0.02)


def outcomes(runs: Sequence[Run], at_once: int) -> Iterator[Run]:
    running: dict[int, Run] = {}
    waiting = list(reversed(runs))
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                run = waiting.pop()
                running[run.start()] = run
            process, status, used = first_to_end(running)
            run = running.pop(process)
            run.end(process, status, used)
            if run.following and not run.is_noticed:
                run.following.cpu_seconds = run.cpu_seconds
                waiting.append(run.following)
            else:
                yield run
    finally:
        for process in running:
            os.killpg(process, signal.SIGKILL)


def all_outcomes(every: Sequence[Mutant], runs: Sequence[Run], at_once: int) -> Iterator[Run]:
    """Those whose file itself is changed come last, one by one."""
    yield from (run for run in runs if not run.tests)
    runs = [run for run in runs if run.tests]
    yield from outcomes([run for run in runs if run.is_switched], at_once)
    for run in runs:
        if not run.is_switched:
            make_copy(every, run.mutant)
            try:
                build()
                yield from outcomes([run], 1)
            except subprocess.CalledProcessError:
                run.status, run.noticed_by = 1, "the build"
                yield run
            make_copy(every)


def build() -> None:
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    subprocess.run(command, cwd=COPY, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)


def recorded(at_once: int, only: str) -> dict[str, Reached]:
    """What each test runs."""
    chosen = tuple(only.split())
    files = [file for file in mutant_reach.test_files() if not chosen or file.startswith(chosen)]
    kept = {file: mutant_reach.kept(file) for file in files}
    runs = [Run([file], record=path, limit=3600) for file, path in kept.items() if not path.exists()]
    for run in outcomes(runs, at_once):
        print(f"recorded {run.tests[0]}, {run.cpu_seconds:.0f} s, status {run.status}", flush=True)
    return {name: test for path in kept.values() for name, test in pickle.loads(path.read_bytes()).items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("only", nargs="*", metavar="AREA, FILE or NUMBER")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--seed", default=str(random.randrange(10**6)))
    parser.add_argument("--tests", default="")
    options = parser.parse_args()
    every = sample(options.sample, options.seed, options.only) if options.sample else mutants()
    chosen = [m for m in every if not options.only or {m.area, m.file, str(m.number)} & {*options.only}]
    make_copy(every)
    os.environ["TORCH_DML_OPS_CUDA"] = "0"
    build()
    for name in IMPORTED:
        __import__(name)
    gc.collect()
    gc.freeze()  # or each process would go through it all again, and copy it
    if options.sample:
        print(f"SAMPLE={options.sample} SEED={options.seed}")
        subprocess.run([sys.executable, "host_build.py", "test"], cwd=COPY / "tests" / "native", check=True)
        tests = recorded(options.jobs, options.tests)
        unseen = mutant_reach.run_by_none(tests, {m.file for m in chosen} if options.tests else {*product_files()})
        print("no test runs", *unseen, sep="\n  ", flush=True)
        runs = [run for mutant in chosen for run in runs_of(mutant, tests)]
    else:
        command = [sys.executable, "-c", "from torch_dml_ops import _libraries as l; print(*l.simd_levels())"]
        known = subprocess.check_output(command, cwd=COPY, text=True, env=os.environ | {"PYTHONPATH": "."}).split()
        runs = [Run(shlex.split(m.tests), m, level) for m in chosen for level in levels(m, known)]
        if programs := {run.program for run in runs} - {""}:
            command = "import sys, host_build; [host_build.program(name) for name in sys.argv[1:]]"
            subprocess.run([sys.executable, "-c", command, *programs], cwd=COPY / "tests" / "native", check=True)
    areas: dict[str, Counter[str]] = {}
    done: list[Run] = []
    for run in all_outcomes(every, runs, options.jobs):
        mutant = run.mutant
        assert mutant is not None
        if run.status == NO_TESTS and not run.program and not options.sample:
            print(f"no such tests: {shlex.join(run.tests)}")
            return 2
        done.append(run)
        reason = "" if run.is_noticed else reason_of(mutant)
        word = "noticed" if run.is_noticed else "same" if reason else "SURVIVED" if run.tests else "NOT RUN"
        areas.setdefault(mutant.area, Counter()).update({"faults": 1, word: 1, "CPU": run.cpu_seconds})
        what = run.noticed_by or reason
        print(f"{word:8} {run.cpu_seconds:5.1f} s  {run.level} {mutant}: {what}", flush=True)

    again = without_faults(done)
    for run in outcomes(again, options.jobs):
        if run.status != 0:
            print(f"fails without any fault: {run.noticed_by}\n{run.text}")
            return 2
    total = sum(areas.values(), Counter())
    for area, counted in [*areas.items(), ("all", total)]:
        survived = counted["SURVIVED"] + counted["NOT RUN"]
        rate = f", {100 * survived / max(1, counted['faults'] - counted['same']):4.1f} %" if options.sample else ""
        print(
            f"{area:20} {counted['faults']:4} faults, {counted['noticed']:4} noticed, {counted['same']:2} change "
            f"nothing, {survived:2} survived{rate}, {counted['CPU']:5.0f} CPU seconds"
        )
    print(f"Without any fault these tests are right, in {sum(run.cpu_seconds for run in again):.0f} CPU seconds.")
    return int(total["SURVIVED"] + total["NOT RUN"] > 0)


if __name__ == "__main__":
    sys.exit(main())
