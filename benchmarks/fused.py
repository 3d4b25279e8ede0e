"""Compares compiled functions in which the rule of torch_dml_ops/_inductor.py fuses the operators with the same
functions in which every operator is a call of its kernel.

    python benchmarks/fused.py [--case TEXT …] [--threads 1 2] [--seconds 0.4]

A speed is the kernels' time divided by the time of the fused code: above 1, fusing is faster. The two take turns.
Where the rule fuses nothing, both are the same code, which is not measured. Functions are compiled first, by as many
processes as there are cores, into a cache of their own.

Writes benchmarks/results/fused-<model>.json, a table (.md) and a picture (.png) beside it; with --case or --threads it
prints the table alone.
"""

import argparse
import itertools
import json
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import picture
import results_file
import torch
from cases import BYTES
from summary import geometric_mean
from torch import Tensor

import torch_dml_ops as dml
from torch_dml_ops import _fusion

FOLDER = Path(__file__).parent
SIZES = {"1 KB": 1 << 10, "64 KB": BYTES["64 KB"], "1 MB": 1 << 20, "4 MB": 4 << 20, "16 MB": 16 << 20}
SIZES |= {"128 MB": BYTES["128 MB"]}

Row = dict[str, Any]
Operation = Callable[[Tensor], Any]
Function = Callable[..., object]


def _sliced(*strides: int, halved: bool = False) -> Operation:
    def operation(x: Tensor) -> Tensor:
        a, b, c = x.shape
        return dml.slice1(x, [0, 0, 0], [a, b, c // 2 if halved else c], strides)

    return operation


def _spread(x: Tensor) -> Tensor:
    a, b, c = x.shape
    return dml.slice_grad(x, [a, 2 * b, c], [0, 0, 0], [a, 2 * b, c], [1, -2, 1])


def _joined(x: Tensor) -> Tensor:
    half = x.shape[0] // 2
    return dml.join([x[:half], x[half:]], 2)


def _joined_after(f: Operation) -> Operation:
    """What is joined is computed by two formulas, not by one that both parts are taken from."""
    return lambda x: dml.join([f(x[: x.shape[0] // 2]), f(x[x.shape[0] // 2 :])], 2)


def _reversed(x: Tensor) -> Tensor:
    n, size, inner = x.shape
    lengths = (torch.arange(n) * 7919 % (size + 1)).reshape(n, 1, 1)
    return dml.reverse_subsequences(x, lengths.expand(n, 1, inner), 1)


OPERATIONS: dict[str, Operation] = {
    "window, last axis halved": _sliced(1, 1, 1, halved=True),
    "stride -1, last axis": _sliced(1, 1, -1),
    "stride 2, last axis": _sliced(1, 1, 2),
    "stride -2, middle axis": _sliced(1, -2, 1),
    "slice_grad, stride -2, middle axis": _spread,
    "split last axis in 2": lambda x: dml.split(x, [x.shape[2] // 2] * 2, 2),
    "join last axis of 2": _joined,
    "reverse axis 1, a length per batch item": _reversed,
}


def _each(f: Operation, result: Any) -> Any:
    return [f(y) for y in result] if isinstance(result, list) else f(result)


def _before(name: str, f: Operation) -> Operation:
    operation = OPERATIONS[name]
    return _joined_after(f) if operation is _joined else lambda x: operation(f(x))


# The operator before a computation, after one, and alone.
FORMS: dict[str, Callable[[str], Operation]] = {
    "relu(op * 2 + 1)": lambda name: lambda x: _each(lambda y: (y * 2 + 1).relu(), OPERATIONS[name](x)),
    "op(relu)": lambda name: _before(name, torch.relu),
    "mean(op * 2)": lambda name: lambda x: _each(lambda y: (y * 2).mean(), OPERATIONS[name](x)),
    "softmax(op)": lambda name: lambda x: _each(lambda y: y.softmax(-1), OPERATIONS[name](x)),
    "op": lambda name: OPERATIONS[name],
}


@dataclass(frozen=True)
class Case:
    name: str  # of OPERATIONS, or of PROGRAMS
    form: str  # of FORMS, or "program"
    size: str
    dtype: str = "float32"
    threads: int = 1

    @property
    def key(self) -> str:
        size = f", {self.size}" if self.size else ""
        dtype = "" if self.dtype == "float32" else f", {self.dtype}"
        return f"{self.form}: {self.name}{size}{dtype}, {self.threads} thread{'s' * (self.threads > 1)}"

    def function(self) -> tuple[Function, list[Tensor]]:
        """What is compiled, and its arguments."""
        if self.form == "program":
            return PROGRAMS[self.name]()
        dtype = getattr(torch, self.dtype)
        elements = SIZES[self.size] // dtype.itemsize
        inner = 128 if elements <= 1 << 15 else 512
        shape = (elements // inner // 16, 16, inner) if elements >= 32 * inner else (2, 2, elements // 4)
        return FORMS[self.form](self.name), [torch.randn(shape).to(dtype)]


# Programs: functions that are longer than one operator and its neighbour.


def _between_matmuls() -> tuple[Function, list[Tensor]]:
    def f(x: Tensor, w: Tensor) -> Tensor:
        return dml.slice1(x @ w, [0, 0, 0], x.shape, [1, -1, 1]) @ w

    return f, [torch.randn(16, 64, 256), torch.randn(256, 256)]


def _step(model: torch.nn.Module, *inputs: Tensor) -> tuple[Function, list[Tensor]]:
    """Forward and backward."""

    def step(*inputs: Tensor) -> Tensor:
        loss: Tensor = model(*inputs).square().mean()
        return loss

    return step, list(inputs)


class _Bidirectional(torch.nn.Module):
    """Two layers, one of which reads backwards, and what a training step makes of all five operators."""

    def __init__(self) -> None:
        super().__init__()
        self.there, self.back, self.out = (torch.nn.Linear(n, m) for n, m in ((64, 64), (64, 64), (128, 64)))

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        back = dml.reverse_sequence(self.back(dml.reverse_sequence(x, lengths, axis=1)).tanh(), lengths, axis=1)
        gates, values = dml.split(self.out(dml.join([self.there(x).tanh(), back], 2)), [32, 32], 2)
        every_second: Tensor = dml.index(gates.sigmoid() * values)[:, ::-2]
        return every_second


def _training_step() -> tuple[Function, list[Tensor]]:
    return _step(_Bidirectional(), torch.randn(16, 64, 64), torch.arange(16) * 4)


def _gru() -> tuple[Function, list[Tensor]]:
    sys.path.insert(0, str(FOLDER.parent / "examples"))
    from japanese_vowels import BidirectionalGRU

    return _step(BidirectionalGRU(12, 64), torch.randn(30, 8, 12), torch.arange(30) % 8 + 1)


def _sixteen_elements() -> tuple[Function, list[Tensor]]:
    return _sliced(1, -1, 1), [torch.randn(1, 4, 4)]


PROGRAMS = {
    "between matmuls": _between_matmuls,
    "training step": _training_step,
    "bidirectional GRU": _gru,
    "a call on 16 elements": _sixteen_elements,
}
# Functions of torch's own that do as much as a program.
PEERS: dict[str, Operation] = {"a call on 16 elements": lambda x: x.flip(1)}


def all_cases(threads: int) -> list[Case]:
    """With one thread every operator in every form and size that matters; with more, a part."""
    names, forms = list(OPERATIONS), ["relu(op * 2 + 1)", "op(relu)", "mean(op * 2)"]
    programs = [Case(name, "program", "", threads=threads) for name in PROGRAMS]
    cases = [Case(n, f, "4 MB", threads=threads) for n in names for f in FORMS if f != "op"]
    if threads > 1:
        return cases + [Case(n, "relu(op * 2 + 1)", "16 MB", threads=threads) for n in names] + programs
    cases += [Case(n, f, s) for n, f, s in itertools.product(names, forms, ("64 KB", "1 MB", "16 MB", "128 MB"))]
    cases += [Case(n, "op", s) for n in names for s in ("1 KB", "64 KB")]
    cases += [Case(n, f, "4 MB", "float16") for n in names for f in forms]
    return cases + [Case(n, "relu(op * 2 + 1)", "64 KB", "float16") for n in names] + programs


# What is measured.


class _Decisions(logging.Handler):
    """What the rule says of each call while something is compiled."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append(record.getMessage().partition(": ")[2])


def compiled(case: Case, mode: str, peer: Operation | None = None) -> Callable[[], object]:
    """A call of the case's function or of its peer, compiled; that of a module runs the backward pass too."""
    torch.manual_seed(0)
    given, arguments = case.function()
    function: Any = peer or given
    # Dynamo keeps what it compiled beside a function's code: each mode has code of its own.
    code = function.__code__.replace(co_name=f"{function.__name__.strip('<>')}_{mode}")
    apart = types.FunctionType(code, function.__globals__, code.co_name, function.__defaults__, function.__closure__)
    f = torch.compile(apart, fullgraph=True, dynamic=False)

    def call() -> object:
        result = f(*arguments)
        if isinstance(result, Tensor) and result.requires_grad:
            result.backward()
        return result

    with dml.set_fusion(mode):
        call()
    return call


def decisions(case: Case) -> list[str]:
    """Compiles it by the rule, and without fusing if the rule fuses anything."""
    torch._dynamo.reset()
    handler = _Decisions()
    log = logging.getLogger("torch_dml_ops._inductor")
    log.setLevel(logging.DEBUG)
    log.addHandler(handler)
    compiled(case, "rule")
    log.removeHandler(handler)
    if fused(handler.seen):
        compiled(case, "never")
    return handler.seen


def fused(decided: list[str]) -> list[str]:
    return [text.removeprefix("fused, as ") for text in decided if text.startswith("fused")]


def _prepare(cases: list[Case], threads: int) -> dict[str, list[str]]:
    """Compiles all cases into the cache, in processes of their own."""
    workers = []
    count = os.cpu_count() or 1
    for k in range(count):
        command = [sys.executable, __file__, "--compile", json.dumps([c.key for c in cases[k::count]])]
        workers.append(
            subprocess.Popen([*command, "--threads", str(threads)], stdout=subprocess.PIPE, text=True, cwd=FOLDER)
        )
    decided: dict[str, list[str]] = {}
    for worker in workers:
        out, _ = worker.communicate()
        if worker.returncode:
            raise RuntimeError(f"a process that compiles ended with {worker.returncode}")
        decided |= json.loads(out)
    return decided


def _time(call: Callable[[], object], times: int) -> float:
    began = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - began) / times


class FusedBenchmark:
    """Measures cases in both ways, which take turns for so many seconds each."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.rows: list[Row] = []

    def measure(self, case: Case, decided: list[str]) -> None:
        row: Row = {"case": case.key, "name": case.name, "form": case.form, "size": case.size}
        row |= {"dtype": case.dtype, "threads": case.threads, "fused": sorted(set(fused(decided)))}
        self.rows.append(row | {"kept": sorted({text for text in decided if text.startswith("kernel")})})
        if not fused(decided):
            return
        torch._dynamo.reset()
        calls = {"fused": compiled(case, "rule"), "kernels": compiled(case, "never")}
        if case.name in PEERS:
            calls["torch"] = compiled(case, "never", PEERS[case.name])
        once = max(_time(call, 3) for call in calls.values())
        times = max(1, round(300e-6 / once))
        turns: dict[str, list[float]] = {name: [] for name in calls}
        end = time.perf_counter() + self.seconds
        while time.perf_counter() < end or len(turns["fused"]) < 7:
            for name, call in calls.items():
                turns[name].append(_time(call, times))
        us = {name: 1e6 * statistics.median(taken) for name, taken in turns.items()}
        self.rows[-1] |= {"us": us, "speed": us["kernels"] / us["fused"]}


def by_line(rows: list[Row]) -> str:
    """For every line of the rule that fused something: the mean and the worst."""
    measured = [row for row in rows if "speed" in row]
    lines = ["| fused, as | cases | mean | worst |", "|---|---|---|---|"]
    groups = {because: [r for r in measured if r["fused"] == [because]] for r in measured for because in r["fused"]}
    for because, group in [*groups.items(), ("all", measured)]:
        if group:
            worst = min(group, key=lambda row: row["speed"])
            mean = geometric_mean(row["speed"] for row in group)
            lines.append(f"| {because} | {len(group)} | {mean:.2f} | {worst['speed']:.2f}: {worst['case']} |")
    slower = [row for row in measured if row["speed"] < 0.95]
    return "\n".join([*lines, "", f"Slower by more than 5 %: {len(slower)} of {len(measured)}.", ""])


def table(rows: list[Row]) -> str:
    lines = ["| case | kernels, µs | fused, µs | speed |", "|---|---|---|---|"]
    for row in rows:
        if "speed" in row:
            us = row["us"]
            lines.append(f"| {row['case']} | {us['kernels']:.1f} | {us['fused']:.1f} | {row['speed']:.2f} |")
        else:
            lines.append(f"| {row['case']} | | | {'; '.join(row['kept'])} |")
    return "\n".join(lines) + "\n"


def overhead(rows: list[Row]) -> str:
    """What a compiled call takes, beside that of a function of torch's own."""
    lines = []
    for row in rows:
        if "torch" in row.get("us", {}):
            us = {name: f"{time:.1f} µs" for name, time in row["us"].items()}
            lines.append(
                f"{row['case']}: {us['fused']} fused, {us['kernels']} with a kernel, {us['torch']} of torch's own"
            )
    return "\n".join([*lines, ""])


def head(content: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in content["versions"].items())
    return f"""# Fused by torch.compile on {content["machine"]}

{content["machine"]}, {content["cores"]} cores; {versions}; {content["date"]}, commit {content["commit"]}. Made by
`make bench-fused`.

A speed is the time of the compiled function in which every operator is a call of its kernel, divided by the time with
the operators fused by the rule: **above 1, fusing is faster**. Where the rule keeps the kernel, both are the same.
"""


def _selected(arguments: argparse.Namespace) -> Iterator[tuple[int, list[Case]]]:
    for threads in arguments.threads or sorted({1, torch.get_num_threads()}):
        cases = [c for c in all_cases(threads) if not arguments.case or any(t in c.key for t in arguments.case)]
        if cases:
            yield threads, cases


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", nargs="+", default=[], help="only cases whose names contain one of these")
    parser.add_argument("--threads", nargs="+", type=int, help="default: 1 and all")
    parser.add_argument("--seconds", type=float, default=0.4, help="for each case")
    parser.add_argument("--compile", help=argparse.SUPPRESS)  # a process that compiles the cases of these names
    arguments = parser.parse_args()
    if arguments.compile is not None:
        [threads] = arguments.threads
        torch.set_num_threads(threads)
        keys = set(json.loads(arguments.compile))
        print(json.dumps({case.key: decisions(case) for case in all_cases(threads) if case.key in keys}))
        return
    if _fusion.missing():
        parser.error(f"this torch lacks what fusing is built on: {_fusion.missing()}")
    selected = list(_selected(arguments))
    if not selected:
        parser.error(f"--case: no case's name contains {' or '.join(map(repr, arguments.case))}")
    benchmark = FusedBenchmark(arguments.seconds)
    for threads, cases in selected:
        with tempfile.TemporaryDirectory() as cache:  # code for one number of threads is no code for another
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
            torch.set_num_threads(threads)
            print(f"compiling {len(cases)} functions for {threads} thread(s)", file=sys.stderr)
            decided = _prepare(cases, threads)
            print("measuring", file=sys.stderr)
            for case in cases:
                benchmark.measure(case, decided[case.key])
    rows = benchmark.rows
    if arguments.case or arguments.threads:
        print(table(rows), by_line(rows), overhead(rows), sep="\n")
        return
    content = results_file.environment() | {"machine": results_file.machine_name("cpu"), "rows": rows}
    written = results_file.write(f"fused-{content['machine']}.json", content)
    written.with_suffix(".md").write_text(f"{head(content)}\n{by_line(rows)}\n{overhead(rows)}\n{table(rows)}")
    picture.draw_fused(content, written.with_suffix(".png"))
    print(by_line(rows), overhead(rows), sep="\n")
    print(f"{written.with_suffix('').relative_to(FOLDER.parent)}.json, .md, .png")


if __name__ == "__main__":
    main()
