"""Counts the instructions of every form of call beside those of torch's nearest operator, by valgrind.

    python benchmarks/calls.py --instructions             prints the table
    python benchmarks/calls.py --instructions --write     writes it to benchmarks/results
    python benchmarks/calls.py --instructions --check     compares with what was written

On 16 elements, where nothing but the call takes time. Counts are alike on every machine with the same Python and torch,
however busy it is. They need valgrind with its header files, and a C compiler.
"""

import ctypes
import gc
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "call-instructions.json"
ALLOWED = 0.05  # of the committed count
CALLS = 20
ROUNDS = 3  # the least counts: memory grows in some of them
REQUESTS = """
#include <valgrind/callgrind.h>
void instrument(void) { CALLGRIND_START_INSTRUMENTATION; }
void start(void) { CALLGRIND_ZERO_STATS; }
void stop(const char* name) { CALLGRIND_DUMP_STATS_AT(name); }
"""
Call = Callable[[], object]


def calls() -> Iterator[tuple[str, Call]]:
    """Each with its name: "slice1, function, ours", "theirs", or "ordinary" for ours in the ordinary way."""
    import torch

    import torch_dml_ops as dml

    torch.set_num_threads(1)
    x = torch.randn(4, 4)
    y = x.clone().requires_grad_()
    window, lengths = ([0, 0], [4, 4], [-1, 2]), torch.tensor([[2], [4], [3], [0]])
    # by operator: its arguments for a tensor, torch's nearest, and that one's arguments
    operators: dict[str, tuple[Callable[..., tuple[Any, ...]], str, Callable[..., tuple[Any, ...]]]] = {
        "slice1": (lambda x: (x, *window), "flip", lambda x: (x, [0])),
        "slice_grad": (
            lambda x: (x.narrow(1, 0, 2), [4, 4], *window),
            "slice_backward",
            lambda x: (x.narrow(1, 0, 2), [4, 4], 1, 0, 4, 2),
        ),
        "split": (lambda x: (x, [1, 3], 1), "split_with_sizes_copy", lambda x: (x, [1, 3], 1)),
        "join": (lambda x: ([x, x], 1), "cat", lambda x: ([x, x], 1)),
        "reverse_subsequences": (lambda x: (x, lengths, 1), "flip", lambda x: (x, [1])),
    }
    forms: dict[str, Callable[[Any, Any], Any]] = {
        "function": lambda function, _: function,
        "packet": lambda _, packet: packet,
        "overload": lambda _, packet: packet.default,
    }
    for name, (arguments, peer, peer_arguments) in operators.items():
        packets = getattr(torch.ops.torch_dml_ops, name), getattr(torch.ops.aten, peer)
        functions = getattr(dml, name), getattr(torch, peer, packets[1])
        sides = list(zip(("ours", "theirs"), functions, packets, (arguments, peer_arguments), strict=True))
        sides.append(("ordinary", *sides[0][1:]))
        for gradients, tensor in (("", x), (", recorded", y)):
            for form, of in forms.items():
                for side, function, packet, given in sides:
                    yield f"{name}, {form}{gradients}, {side}", partial(of(function, packet), *given(tensor))
        for form in forms:
            for side, function, packet, given in sides:
                out = torch.utils._pytree.tree_map(torch.empty_like, packet(*given(x)))
                is_ours = form == "function" and side != "theirs"  # torch.flip takes no out
                called = packet.out if form == "overload" else function if is_ours else packet
                yield f"{name}, {form} into out, {side}", partial(called, *given(x), out=out)


def count_within_valgrind(requests: str) -> None:
    import torch

    library = ctypes.CDLL(requests)
    every_call = sorted(calls(), key=lambda row: row[0].endswith(", ordinary"))
    theirs = torch.library.Library("torch_dml_ops", "IMPL")
    gc.disable()
    library.instrument()
    for name, call in every_call:
        if name.endswith(", ordinary") and not theirs._op_impls:
            # Somebody else's kernel, which does nothing here: from now on, every call goes the ordinary way.
            theirs.impl("slice1", torch.library.fallthrough_kernel, "AutocastCUDA")
        for _ in range(10):
            call()
        for _ in range(ROUNDS):
            library.start()
            for _ in range(CALLS):
                call()
            library.stop(name.encode())


def missing() -> str | None:
    """What is missing for counting."""
    if shutil.which("valgrind") is None:
        return "valgrind is not installed"
    if shutil.which("cc") is None:
        return "there is no C compiler"
    return None if Path("/usr/include/valgrind/callgrind.h").exists() else "valgrind's header files are not installed"


def count() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        library, dumps = Path(folder, "requests.so"), Path(folder, "dump")
        subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", library], input=REQUESTS, text=True, check=True)
        valgrind = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={dumps}"]
        done = subprocess.run(
            [*valgrind, sys.executable, __file__, str(library)],
            env={**os.environ, "PYTHONHASHSEED": "0"},
            capture_output=True,
            text=True,
        )
        if done.returncode != 0:
            raise RuntimeError(done.stdout + done.stderr)
        counts: dict[str, int] = {}
        for dump in Path(folder).glob("dump.*"):
            text = dump.read_text()
            if name := re.search(r"^desc: Trigger: Client Request: (.+)$", text, re.M):
                (total,) = re.findall(r"^(?:totals|summary): (\d+)$", text, re.M)[:1]
                counts[name[1]] = min(round(int(total) / CALLS), counts.get(name[1], sys.maxsize))
    names = [name.removesuffix(", ours") for name in counts if name.endswith(", ours")]
    sides = {"instructions": "ours", "ordinary": "ordinary", "torch": "theirs"}
    rows = [{"call": n} | {column: counts[f"{n}, {side}"] for column, side in sides.items()} for n in names]
    return sorted(rows, key=lambda row: str(row["call"]))


def versions() -> dict[str, str]:
    import torch

    return {"python": "{}.{}".format(*sys.version_info), "torch": torch.__version__.partition("+")[0]}


def changed(before: Iterable[dict[str, Any]], now: Iterable[dict[str, Any]]) -> list[str]:
    """The calls whose count is another one than before, each in a sentence."""
    counts = {row["call"]: row["instructions"] for row in before}
    return [
        f"{row['call']}: {row['instructions']} instructions, before {counts.get(row['call'])}"
        for row in now
        if abs(row["instructions"] - counts.get(row["call"], 0)) > ALLOWED * counts.get(row["call"], 0)
    ]


def table(rows: Iterable[dict[str, Any]]) -> str:
    lines = ["| call | instructions | ordinary way | torch's nearest |", "|---|---:|---:|---:|"]
    lines += [f"| {r['call']} | {r['instructions']} | {r['ordinary']} | {r['torch']} |" for r in rows]
    return "\n".join(lines) + "\n"


def main(options: Sequence[str]) -> None:
    if (reason := missing()) is not None:
        sys.exit(f"instructions cannot be counted here: {reason}")
    rows = count()
    if "--write" in options:
        lines = ",\n  ".join(map(json.dumps, rows))
        RESULTS.write_text(f'{{"versions": {json.dumps(versions())},\n "rows": [\n  {lines}\n ]}}\n')
        python, torch = versions().values()
        recorded = "A recorded call is one of a tensor that requires grad"
        RESULTS.with_suffix(".md").write_text(
            f"# Instructions of a call\n\nOn 4 × 4 elements, with Python {python} and torch {torch}. {recorded}. "
            "Torch's\nnearest operators are `flip`, `slice_backward`, `split_with_sizes_copy`, `cat` and `flip`, "
            "called in the same form. The ordinary\nway is what the same call takes without the short one.\n\n"
            f"Written by `python benchmarks/calls.py --instructions --write`.\n\n{table(rows)}"
        )
    elif "--check" in options:
        written = json.loads(RESULTS.read_text())
        if written["versions"] != versions():
            sys.exit(f"the committed counts are of {written['versions']}")
        if problems := changed(written["rows"], rows):
            sys.exit("\n".join(problems))
    else:
        print(table(rows))


if __name__ == "__main__":
    count_within_valgrind(sys.argv[1])
