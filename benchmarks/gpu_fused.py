"""The part of the GPU benchmark that compiles: functions with the operators fused, and with calls of their kernels.

It measures the rule for GPUs, which fuses wherever a pass over memory is saved. A speed is the kernels' time divided by
the time of the fused code: above 1, fusing is faster. Writes gpu-fused-<model>.json and .md.
"""

import itertools
import statistics
import time
import types
from pathlib import Path
from typing import Any

import results_file
import torch
from fused import FORMS, OPERATIONS, SIZES
from gpu_timing import Timer

import torch_dml_ops as dml

MEASURED = ("relu(op * 2 + 1)", "op(relu)", "mean(op * 2)")
TURNS, RUNS = 3, 5  # the median of so many runs, in so many turns

Row = dict[str, Any]


def _row(name: str, form: str, size: str, device: str, timer: Timer, backend: str) -> Row:
    elements = SIZES[size] // 4 if device == "cuda" else 1 << 12
    x = torch.randn(elements // 1024, 4, 256, device=device)
    calls, results = {}, {}
    for mode in ("rule", "never"):
        function: Any = FORMS[form](name)
        code = function.__code__.replace(co_name=mode)  # Dynamo keeps what it compiled beside a function's code
        apart = types.FunctionType(code, function.__globals__, mode, None, function.__closure__)
        compiled = torch.compile(apart, fullgraph=True, dynamic=False, backend=backend)
        with dml.set_fusion(mode):
            results[mode] = compiled(x)
        calls[mode] = timer.measurement([lambda compiled=compiled: compiled(x)], size == "16 MB")  # type: ignore[misc]
    torch.testing.assert_close(results["rule"], results["never"])
    turns: dict[str, list[float]] = {mode: [] for mode in calls}
    for _ in range(TURNS):
        for mode, measure in calls.items():
            turns[mode].append(statistics.median(measure() for _ in range(RUNS)))
    us = {mode: statistics.median(times) for mode, times in turns.items()}
    case = f"{form}: {name}, {size}"
    return {"case": case, "us": {"fused": us["rule"], "kernels": us["never"]}, "speed": us["never"] / us["rule"]}


def table(rows: list[Row]) -> str:
    lines = ["| compiled on the GPU | kernels, µs | fused, µs | speed |", "|---|---|---|---|"]
    lines += [f"| {r['case']} | {r['us']['kernels']:.1f} | {r['us']['fused']:.1f} | {r['speed']:.2f} |" for r in rows]
    return "\n".join(lines) + "\n"


def measure(device: str, timer: Timer, backend: str, deadline: float, machine: str, folders: list[Path]) -> str:
    """Measures what there is time for, and returns the table and what was skipped. Each row is in the folders when it
    is known."""
    rows: list[Row] = []
    skipped: list[str] = []
    environment = results_file.environment()
    for size, form, name in itertools.product(("16 MB", "128 MB"), MEASURED, OPERATIONS):
        case = f"{form}: {name}, {size}"
        if time.monotonic() > deadline:
            skipped.append(f"skipped: {case}: no time left\n")
            continue
        try:
            rows.append(_row(name, form, size, device, timer, backend))
        except torch.OutOfMemoryError as error:
            skipped.append(f"skipped: {case}: {str(error).splitlines()[0]}\n")
        torch._dynamo.reset()
        for folder in folders:
            content = environment | {"machine": machine, "rows": rows, "skipped": skipped}
            written = results_file.write(f"gpu-fused-{machine}.json", content, folder)
            written.with_suffix(".md").write_text(f"# Fused on {machine}\n\n{table(rows)}{''.join(skipped)}")
    return table(rows) + "".join(skipped)
