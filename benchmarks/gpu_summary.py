"""Results on a GPU against the targets: for each, the geometric mean and the worst case."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cases import COLUMN, CROSSED, PLAIN, ROW, STRIDED, UNEQUAL
from summary import geometric_mean

Row = dict[str, Any]

# Cases that reverse the last axis.
REVERSED = ("stride -1, last axis", "stride -1, all axes", "reverse last axis, a length per row")
IDIOMS = ("torch_eager", "torch_out", "torch_compiled")


def by_best_idiom(row: Row) -> float | None:
    """Our speed divided by that of the fastest torch idiom."""
    times = [row["us"][name] for name in IDIOMS if name in row["us"]]
    return min(times) / row["us"]["ours"] if times else None


@dataclass(frozen=True)
class Target:
    """A speed, relative to another's, that each case should reach."""

    what: str
    speed: Callable[[Row], float | None]  # None for rows that it does not cover
    least: float

    def line(self, rows: list[Row]) -> str | None:
        """A row of a Markdown table."""
        speeds = {r["case"]: speed for r in rows if (speed := self.speed(r)) is not None}
        if not speeds:
            return None
        worst = min(speeds, key=speeds.__getitem__)
        under = sum(speed < self.least for speed in speeds.values())
        verdict = f"no, {under} under" if under else "yes"
        mean, at_worst = geometric_mean(speeds.values()), f"{speeds[worst]:.2f}: {worst}"
        return f"| {self.what} | {self.least:.2f} | {mean:.2f} | {at_worst} | {len(speeds)} | {verdict} |"


def _of_copy(
    *targets: str,
    sizes: tuple[str, ...] = ("1 GB", "4 GB"),
    dtypes: tuple[str, ...] = ("float32",),
    reversing: bool | None = None,
) -> Callable[[Row], float | None]:
    """The fraction of a copy's bandwidth, in cases of these targets, or of all; `reversing`: only those in REVERSED, or
    only the others."""

    def speed(row: Row) -> float | None:
        if row["size"] not in sizes or row["dtype"] not in dtypes or (targets and row["target"] not in targets):
            return None
        return row["of_copy"] if reversing in (None, row["name"] in REVERSED) else None

    return speed


def _by_idiom(size: str, *targets: str) -> Callable[[Row], float | None]:
    return lambda row: (
        by_best_idiom(row) if row["size"] == size and row["target"] in (targets or [row["target"]]) else None
    )


TARGETS = [
    Target(
        "windows, stride −1 of outer axes, split, join, slice_grad, one length per batch item; 1 and 4 GB",
        _of_copy(PLAIN, reversing=False),
        0.92,
    ),
    Target(f"stride −1 of the last axis, {ROW}; 1 and 4 GB", _of_copy(PLAIN, ROW, reversing=True), 0.88),
    Target(f"{STRIDED}, of the sectors touched; 1 and 4 GB", _of_copy(STRIDED), 0.85),
    Target(f"{COLUMN}; 1 and 4 GB", _of_copy(COLUMN), 0.75),
    Target(f"{CROSSED}; 1 and 4 GB", _of_copy(CROSSED), 0.80),
    Target(f"uint8 and float16: {PLAIN}; 1 GB", _of_copy(PLAIN, dtypes=("uint8", "float16")), 0.85),
    Target(f"{UNEQUAL}, by the better of torch's two ways; 16 MB", _by_idiom("16 MB", UNEQUAL), 3),
    Target("any case, by the best torch idiom; 1 GB", _by_idiom("1 GB"), 1),
    Target("64 KB in a graph, by clone: at most 1.15 times its time", _of_copy(sizes=("64 KB",)), 1 / 1.15),
]


def targets(content: dict[str, Any]) -> str:
    lines = [target.line(content["rows"]) for target in TARGETS]
    head = [
        "| times as fast as a copy of as many bytes, or as said | at least | mean | worst | cases | reached |",
        "|---|---|---|---|---|---|",
    ]
    return "\n".join([*head, *(line for line in lines if line)]) + "\n"


def table(content: dict[str, Any]) -> str:
    """Markdown: every case with its time, its bandwidth, and how it compares."""
    lines = [
        f"{content['machine']}: times as fast as a copy of as many bytes, and as the best torch idiom.",
        "",
        "| case | µs | GB/s | by a copy | by torch |",
        "|---|---|---|---|---|",
    ]
    for row in content["rows"]:
        us = row["us"]["ours"]
        idiom = by_best_idiom(row)
        best = min((name for name in IDIOMS if name in row["us"]), key=row["us"].__getitem__, default="")
        by_torch = f"{idiom:.2f} ({best})" if idiom else ""
        lines.append(
            f"| {row['case']} | {us:.1f} | {row['bytes'] / us / 1000:.0f} | {row['of_copy']:.2f} | {by_torch} |"
        )
    lines += ["", *(f"Skipped: {line}" for line in content["skipped"])]
    return "\n".join(lines) + "\n"
