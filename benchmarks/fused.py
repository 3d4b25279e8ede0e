"""Compiled functions in which the rule of torch_dml_ops/_compile/rule.py fuses the operators, beside the same
functions in which every operator is a call of its kernel. The two take turns.

Where the rule fuses nothing, both are the same code, which is not measured. On a GPU, where it fuses wherever a pass
over memory is saved, everything is.
"""

import argparse
import logging
import os
import tempfile
import time
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import timing
import torch
from cases import selected
from frameworks import Call
from fused_cases import PEERS, SIZES, Case, Operation, cpu_cases, gpu_cases
from results_file import Benchmark, Part, Row
from torch import Tensor

import torch_dml_ops as dml
from torch_dml_ops._compile import setting


class _Decisions(logging.Handler):
    """What the rule says of each call while something is compiled."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append(record.getMessage().partition(": ")[2])

    def __enter__(self) -> list[str]:
        self.log = logging.getLogger("torch_dml_ops._compile.inductor")
        self.log.setLevel(logging.DEBUG)
        self.log.addHandler(self)
        return self.seen

    def __exit__(self, *_: object) -> None:
        self.log.removeHandler(self)


def compiled(case: Case, mode: str, device: str, backend: str, peer: Operation | None = None) -> Call:
    """A call of the case's function or of its peer, compiled; that of a module runs the backward pass too."""
    torch.manual_seed(0)
    given, arguments = case.function(device)
    function: Any = peer or given
    # Dynamo keeps what it compiled beside a function's code: each mode has code of its own.
    code = function.__code__.replace(co_name=f"{function.__name__.strip('<>')}_{mode}")
    apart = types.FunctionType(code, function.__globals__, code.co_name, function.__defaults__, function.__closure__)
    f = torch.compile(apart, fullgraph=True, dynamic=False, backend=backend)

    def call() -> object:
        result = f(*arguments)
        if isinstance(result, Tensor) and result.requires_grad:
            result.backward()
        return result

    with dml.set_fusion(mode):
        call()
    return call


def _time(call: Call, times: int) -> float:
    began = time.perf_counter()
    for _ in range(times):
        call()
    return 1e6 * (time.perf_counter() - began) / times


def on_cpu(calls: dict[str, Call], seconds: float) -> list[timing.Pass]:
    once = {name: _time(call, 3) for name, call in calls.items()}
    times = max(1, round(300 / max(once.values())))
    turns = max(7, round(seconds * 1e6 / (times * sum(once.values()))))
    return [{name: _time(call, times) for name, call in calls.items()} for _ in range(turns)]


def _row(case: Case, decided: Sequence[str], passes: Sequence[timing.Pass]) -> Row:
    row: Row = {"case": case.key, "name": case.name, "form": case.form, "size": case.size}
    row |= {"dtype": case.dtype, "threads": case.threads}
    row["fused"] = sorted({text.removeprefix("fused, as ") for text in decided if text.startswith("fused")})
    row["kept"] = sorted({text for text in decided if text.startswith("kernel")})
    if passes:
        us = timing.medians(passes)
        row |= {"us": us, "speed": us["kernels"] / us["fused"]}
    return row


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--threads", nargs="+", type=int, help="default: 1 and all")
    parser.add_argument("--seconds", type=float, default=0.4, help="for each case")


class OnCpu(Benchmark):
    kind = "fused"

    def __init__(self, options: argparse.Namespace, refuse: Callable[[str], NoReturn]) -> None:
        super().__init__()
        if setting.missing():
            refuse(f"this torch lacks what fusing is built on: {setting.missing()}")
        self.seconds = options.seconds
        self.whole = not (options.case or options.threads)
        thread_counts = options.threads or sorted({1, torch.get_num_threads()})
        self.cases = {threads: selected(cpu_cases(threads), options.case) for threads in thread_counts}

    def parts(self) -> Iterator[Part]:
        for threads, cases in self.cases.items():
            with tempfile.TemporaryDirectory() as cache:  # the rule says nothing of code that is there
                os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
                torch.set_num_threads(threads)
                yield f"{threads} thread(s)", cases, self.measure

    def measure(self, case: Case) -> None:
        torch._dynamo.reset()
        passes = []
        with _Decisions() as decided:
            calls = {"fused": compiled(case, "rule", "cpu", "inductor")}
        if any(text.startswith("fused") for text in decided):
            calls["kernels"] = compiled(case, "never", "cpu", "inductor")
            if case.name in PEERS:
                calls["torch"] = compiled(case, "never", "cpu", "inductor", PEERS[case.name])
            passes = on_cpu(calls, self.seconds)
        self.rows.append(_row(case, decided, passes))


class OnGpu(Benchmark):
    kind = "fused"
    whole = True

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__()
        self.cases = {0: gpu_cases()}
        self.device, self.backend, self.measurement = "cuda", "inductor", timing.on_gpu
        if options.dry_run:
            SIZES.update(dict.fromkeys(SIZES, 1 << 14))
            self.device, self.backend, self.measurement = "cpu", "eager", timing.dry

    def parts(self) -> Iterator[Part]:
        yield "fused", self.cases[0], self.measure

    def measure(self, case: Case) -> None:
        torch._dynamo.reset()
        with _Decisions() as decided:
            calls = {"fused": compiled(case, "rule", self.device, self.backend)}
        calls["kernels"] = compiled(case, "never", self.device, self.backend)
        torch.testing.assert_close(calls["fused"](), calls["kernels"]())
        measurements = {name: self.measurement([call], case.size == "16 MB") for name, call in calls.items()}
        self.rows.append(_row(case, decided, timing.in_turns(measurements)))
