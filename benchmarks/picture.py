"""The picture of a benchmark's results, and its summary by the rows of the table of targets."""

import math
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

COLORS = {"64 KB": "#E69F00", "4 MB": "#56B4E9", "128 MB": "#0072B2"}
MARKERS = {"64 KB": "^", "4 MB": "s", "128 MB": "o"}


def geometric_mean(numbers: list[float]) -> float:
    return math.exp(sum(map(math.log, numbers)) / len(numbers))


def summary(content: dict[str, Any]) -> str:
    """One thread, medians: by the best peer and by eager torch, and into given memory by copy_, for each size."""
    lines = []
    rows = [r for r in content["rows"] if r["threads"] == 1]
    for size in COLORS:
        fresh = [r for r in rows if r["size"] == size and r["form"] == "fresh" and "best_peer" in r]
        if fresh:
            best = geometric_mean([r["ratio_to_best_peer"] for r in fresh])
            eager = geometric_mean([r["us"]["ours"] / r["us"]["torch_eager"] for r in fresh])
            worst = max(fresh, key=lambda r: r["ratio_to_best_peer"])
            lines.append(
                f"fresh, {size}: {best:.2f} of the best peer's time, {eager:.2f} of eager torch's (geometric means of "
                f"{len(fresh)} cases); worst {worst['ratio_to_best_peer']:.2f}, {worst['case']}"
            )
        for target in sorted({r["target"] for r in rows if r["target"]}):
            given = [r for r in rows if r["size"] == size and "copy" in r and r["target"] == target]
            if given:
                worst = max(given, key=lambda r: r["ratio_to_copy"])
                mean = geometric_mean([r["ratio_to_copy"] for r in given])
                lines.append(
                    f"into out, {size}, {target}: {mean:.2f} of copy_'s time; worst {worst['ratio_to_copy']:.2f}, "
                    f"{worst['name']}"
                )
    return "\n".join(lines)


def draw(content: dict[str, Any], path: Path) -> None:
    rows = [
        r
        for r in content["rows"]
        if r["threads"] == 1
        and r["form"] == "fresh"
        and r["target"]
        and "best_peer" in r
        and r["layout"] == "contiguous"
    ]
    names = list(dict.fromkeys(r["name"] for r in rows))
    figure = Figure(figsize=(9, 0.3 * len(names) + 1.6), layout="constrained")
    axes = figure.subplots()
    for size, color in COLORS.items():
        at = [r for r in rows if r["size"] == size]
        axes.scatter(
            [1 / r["ratio_to_best_peer"] for r in at],
            [names.index(r["name"]) for r in at],
            color=color,
            marker=MARKERS[size],
            label=size,
            zorder=3,
        )
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    ticks = [0.5, 1, 2, 4, 8, 16]
    axes.set_xticks(ticks, [f"{t:g}×" for t in ticks])
    axes.minorticks_off()
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel("times as fast as the best of torch (eager, compiled), NumPy and ONNX Runtime")
    axes.set_title("One thread, float32, fresh results", fontsize=11)
    axes.legend(loc="lower right")
    figure.savefig(path, dpi=110)
