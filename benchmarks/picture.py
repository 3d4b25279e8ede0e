"""The pictures of the benchmarks' results.

python benchmarks/picture.py benchmarks/results/….json draws those of a file of results again.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from results_file import Row

# Colours that colour-blind readers can tell apart, and a marker each.
COLORS = ["#E69F00", "#56B4E9", "#0072B2", "#009E73", "#D55E00", "#CC79A7"]
MARKERS = ["^", "s", "o", "D", "v", "P"]


@dataclass(frozen=True)
class Panel:
    """Dots of these rows: how fast, by name and size."""

    title: str
    rows: Sequence[Row]
    speed: Callable[[Row], float]

    def draw(self, axes: Axes, names: Sequence[str], sizes: Sequence[str]) -> None:
        for k, (size, color, marker) in enumerate(zip(sizes, COLORS, MARKERS, strict=False)):
            at = [r for r in self.rows if r["size"] == size]
            lower = 0.2 * (k - (len(sizes) - 1) / 2)  # so that none hides another
            heights = [names.index(_label(r)) + lower for r in at]
            axes.scatter(list(map(self.speed, at)), heights, color=color, marker=marker, label=size, zorder=3)
        axes.axvline(1, color="black", linewidth=1)
        axes.set_xscale("log")
        least, most = axes.get_xlim()
        close, apart = [*(k / 10 for k in range(1, 13)), 1.4, 1.6, 1.8], [0.125, 0.25, 0.5, 0.7, 1, 2, 4, 8, 16, 32]
        ticks = close if most < 3 * least else apart
        if 3 * least <= most <= 6 * least:
            ticks += [1.5, 3]
        ticks = [t for t in ticks if least < t < most]
        axes.set_xticks(ticks, [f"{t:g}×" for t in ticks])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_title(self.title, fontsize=10)


def _label(row: Row) -> str:
    return f"{row['form']}: {row['name']}" if "fused" in row else row["name"]


def _by(peer: str, rows: Sequence[Row], title: str) -> Panel:
    return Panel(title, [r for r in rows if f"ratio_to_{peer}" in r], lambda r: 1 / r[f"ratio_to_{peer}"])


def _by_fastest(peers: Sequence[str], rows: Sequence[Row], title: str) -> Panel:
    """Of these peers, where the row has any."""

    def times(row: Row) -> list[float]:
        return [us for peer, us in row["us"].items() if peer in peers]

    return Panel(title, [r for r in rows if times(r)], lambda r: min(times(r)) / r["us"]["ours"])


def _of_cpu(rows: Sequence[Row]) -> list[Panel]:
    given = [r for r in rows if r["form"] == "out" and r["size"] != "64 KB"]  # where call overhead dominates
    fresh = [r for r in rows if r["form"] == "fresh"]
    return [
        _by("best_peer", fresh, "new result: as the best of torch, torch.compile and NumPy"),
        _by("copy", given, "into out: as out.copy_() of as many bytes"),
    ]


def _of_gpu(rows: Sequence[Row]) -> list[Panel]:
    large = [r for r in rows if r["size"] != "64 KB"]  # where the launch dominates
    sizes = dict.fromkeys(r["size"] for r in large if "torch_compiled" in r["us"])
    return [
        _by("copy", large, "as copying the sectors touched"),
        _by_fastest(["torch_eager", "torch_out"], large, "as torch's own idioms"),
        _by_fastest(["torch_compiled"], large, f"as torch.compile of them ({', '.join(sizes)})"),
    ]


def _of_fused(rows: Sequence[Row]) -> list[Panel]:
    sizes = ["1 KB", "64 KB", "1 MB", "4 MB", "16 MB", "128 MB"]
    operators = [r for r in rows if "speed" in r and r["form"] != "program"]
    title = "fused: as calls of the kernels"
    return [Panel(title, sorted(operators, key=lambda r: (sizes.index(r["size"]), _label(r))), lambda r: r["speed"])]


def draw(kind: str, content: dict[str, Any], path: Path) -> None:
    """Of all cases that have a target; of the CPU's also (….readme.png) of those that the README shows."""
    threads = min((r.get("threads", 0) for r in content["rows"]), default=0)
    rows = [r for r in content["rows"] if r["dtype"] == "float32" and r.get("threads", 0) == threads]
    if kind != "fused":
        rows = [r for r in rows if r["target"] and not r.get("row")]
        rows = [r for r in rows if kind == "gpu" or (r["layout"], r["lengths"]) == ("contiguous", "uniform")]
    panels = {"cpu": _of_cpu, "gpu": _of_gpu, "fused": _of_fused}[kind](rows)
    names = list(dict.fromkeys(_label(r) for panel in panels for r in panel.rows))
    names = sorted(names) if kind == "fused" else names
    sizes = list(dict.fromkeys(r["size"] for panel in panels for r in panel.rows))
    figure = Figure(figsize=(4 + min(4.5 * len(panels), 9), 0.26 * len(names) + 1.8), layout="constrained")
    all_axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, panel in zip(all_axes, panels, strict=True):
        panel.draw(axes, names, sizes)
    all_axes[0].set_yticks(range(len(names)), names)
    all_axes[0].invert_yaxis()
    figure.legend(*all_axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=6)
    of_threads = f", {threads} thread{'s' if threads > 1 else ''}" if threads else ""
    heading = f"torch_dml_ops, float32{of_threads}, {content['machine']}: how many times as fast"
    figure.suptitle(heading, fontsize=12)
    figure.savefig(path, dpi=110)
    if kind == "cpu":
        _draw_at_a_glance(panels[0], sizes, path.with_suffix(".readme.png"))


# The rows of README's picture, as it names them.
AT_A_GLANCE = {
    "reverse axis 1, a length per batch item": "reverse_sequence",
    "reverse last axis, a length per row": "reverse_subsequences",
    "join last axis of 3": "join of 3",
    "split last axis in 3": "split in 3",
    "stride -2, last axis": "index(x)[..., ::-2]",
    "stride -1, last axis": "index(x)[..., ::-1]",
}


def _draw_at_a_glance(fresh: Panel, sizes: Sequence[str], path: Path) -> None:
    """Can be read at the width of a phone."""
    names = list(AT_A_GLANCE)
    figure = Figure(figsize=(6.4, 3.2), layout="constrained")
    axes = figure.subplots()
    replace(fresh, rows=[r for r in fresh.rows if r["name"] in names], title="").draw(axes, names, sizes)
    axes.set_xlim(*(limits := axes.get_xlim()))
    axes.axvspan(1, limits[1], color=COLORS[2], alpha=0.08, linewidth=0)
    axes.text(0.99, 0.03, "faster →", transform=axes.transAxes, ha="right")
    axes.set_yticks(range(len(names)), AT_A_GLANCE.values())
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlabel("on the CPU, times as fast as the best of torch, torch.compile and NumPy", loc="right", fontsize=9)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Draws benchmark results again.")
    parser.add_argument("results", type=Path, help="such as benchmarks/results/cpu-amd-epyc.json")
    results = parser.parse_args().results
    draw(results.name.partition("-")[0], json.loads(results.read_text()), results.with_suffix(".png"))
