"""The pictures of the benchmarks' results.

python benchmarks/picture.py benchmarks/results/….json draws those of a file of results again.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import gpu_summary
import summary
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Colours that colour-blind readers can tell apart, and a marker each.
COLORS = ["#E69F00", "#56B4E9", "#0072B2"]
MARKERS = ["^", "s", "o"]


def _dots(axes: Axes, rows: list[dict[str, Any]], sizes: list[str], names: list[str], ratio: str) -> None:
    for size, color, marker in zip(sizes, COLORS, MARKERS, strict=False):
        at = [r for r in rows if r["size"] == size and ratio in r]
        speeds = [1 / r[ratio] for r in at]
        axes.scatter(speeds, [names.index(r["name"]) for r in at], color=color, marker=marker, label=size, zorder=3)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    least, most = axes.get_xlim()
    ticks = [t for t in (0.125, 0.25, 0.5, 1, 2, 4, 8, 16, 32) if least < t < most]
    axes.set_xticks(ticks, [f"{t:g}×" for t in ticks])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


def draw(content: dict[str, Any], path: Path) -> None:
    """Two pictures: of all cases that have a target, and beside it (….readme.png) of those that the README shows."""
    threads = min(r["threads"] for r in content["rows"])
    rows = [r for r in content["rows"] if r["threads"] == threads and r["target"] and r["layout"] == "contiguous"]
    rows = [r for r in rows if r["dtype"] == "float32" and r["lengths"] == "uniform" and not r.get("row")]
    title = f"torch_dml_ops, float32, {threads} thread{'s' if threads > 1 else ''}, {content['machine']}"
    _draw_rows(rows, title, path)
    _draw_at_a_glance([r for r in rows if r["form"] == "fresh"], path.with_suffix(".readme.png"))


def _draw_rows(rows: list[dict[str, Any]], title: str, path: Path) -> None:
    fresh = [r for r in rows if r["form"] == "fresh"]
    given = [r for r in rows if r["form"] == "out" and r["size"] != "64 KB"]  # at 64 KB call overhead dominates
    names = list(dict.fromkeys(r["name"] for r in fresh))
    sizes = list(dict.fromkeys(r["size"] for r in fresh))
    figure = Figure(figsize=(12, 0.28 * len(names) + 1.8), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    _dots(left, fresh, sizes, names, "ratio_to_best_peer")
    _dots(right, given, sizes, names, "ratio_to_copy")
    left.set_yticks(range(len(names)), names)
    left.invert_yaxis()
    left.set_title("new result: times as fast as the best of torch, torch.compile, NumPy", fontsize=10)
    left.set_xlabel("right of 1×, torch_dml_ops is faster")
    right.set_title("into out: times as fast as out.copy_() of as many bytes", fontsize=10)
    right.set_xlabel("right of 1×, torch_dml_ops is faster")
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    figure.suptitle(title, fontsize=12)
    figure.savefig(path, dpi=110)


# The rows of README's picture, as it names them.
AT_A_GLANCE = {
    "reverse last axis, a length per row": "reverse, a length per row",
    "reverse axis 1, a length per batch item": "reverse, a length per item",
    "join last axis of 3": "join 3",
    "split last axis in 3": "split in 3",
    "stride 2, last axis": "x[..., ::2]",
    "stride -1, last axis": "x[..., ::-1]",
}


def _draw_at_a_glance(rows: list[dict[str, Any]], path: Path) -> None:
    """Can be read at the width of a phone."""
    names = list(AT_A_GLANCE)
    figure = Figure(figsize=(6.4, 3.2), layout="constrained")
    axes = figure.subplots()
    _dots(axes, [r for r in rows if r["name"] in names], list(summary.SIZES), names, "ratio_to_best_peer")
    axes.set_xlim(*(limits := axes.get_xlim()))
    axes.axvspan(1, limits[1], color=COLORS[2], alpha=0.08, linewidth=0)
    axes.text(0.99, 0.03, "faster →", transform=axes.transAxes, ha="right")
    axes.set_yticks(range(len(names)), AT_A_GLANCE.values())
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlabel("times as fast as the best of torch, torch.compile and NumPy", loc="right")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False)
    figure.savefig(path, dpi=150)


def draw_gpu(content: dict[str, Any], path: Path) -> None:
    rows = [r for r in content["rows"] if r["target"] and r["dtype"] == "float32"]
    rows = [r for r in rows if r["size"] != "64 KB"]  # where the launch dominates
    names = list(dict.fromkeys(r["name"] for r in rows))
    figure = Figure(figsize=(12, 0.28 * len(names) + 1.8), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    sizes = list(dict.fromkeys(r["size"] for r in rows))
    for size, color, marker in zip(sizes, COLORS, MARKERS, strict=False):
        for axes, speed in ((left, lambda r: r["of_copy"]), (right, gpu_summary.by_best_idiom)):
            at = [r for r in rows if r["size"] == size and speed(r)]
            heights = [names.index(r["name"]) for r in at]
            axes.scatter([speed(r) for r in at], heights, color=color, marker=marker, label=size, zorder=3)
    for axes in (left, right):
        axes.axvline(1, color="black", linewidth=1)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    left.set_xlim(left=0)
    left.set_yticks(range(len(names)), names)
    left.invert_yaxis()
    left.set_title("fraction of a copy's bandwidth", fontsize=11)
    left.set_xlabel("a copy of as many bytes, counted in the 32-byte sectors that are touched")
    right.set_xscale("log")
    right.set_title("times as fast as the best torch idiom", fontsize=11)
    right.set_xlabel("eager, and compiled where it was measured")
    left.legend(loc="lower left")
    figure.suptitle(f"float32, {content['machine']}", fontsize=12)
    figure.savefig(path, dpi=110)


def draw_fused(content: dict[str, Any], path: Path) -> None:
    """The rows of fused.py: how many times as fast as calls of the kernels, by operator, computation and size."""
    rows = [r for r in content["rows"] if "speed" in r and r["form"] != "program" and r["dtype"] == "float32"]
    rows = [r for r in rows if r["threads"] == 1]
    labels = sorted({f"{r['form']}: {r['name']}" for r in rows})
    sizes = [
        size for size in ("1 KB", "64 KB", "1 MB", "4 MB", "16 MB", "128 MB") if any(r["size"] == size for r in rows)
    ]
    figure = Figure(figsize=(10, 0.24 * len(labels) + 1.6), layout="constrained")
    axes = figure.subplots()
    for k, size in enumerate(sizes):
        at = [r for r in rows if r["size"] == size]
        heights = [labels.index(f"{r['form']}: {r['name']}") for r in at]
        color, marker = f"C{k}", "v^soDP"[k]
        axes.scatter([r["speed"] for r in at], heights, color=color, marker=marker, label=size, zorder=3)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    least, most = axes.get_xlim()
    ticks = [t for t in (0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4) if least < t < most]
    axes.set_xticks(ticks, [f"{t:g}×" for t in ticks])
    axes.minorticks_off()
    axes.set_yticks(range(len(labels)), labels)
    axes.invert_yaxis()
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel("right of 1×, fusing is faster than calling the kernels")
    figure.legend(loc="outside lower center", ncols=6)
    figure.suptitle(f"fused by torch.compile, float32, 1 thread, {content['machine']}", fontsize=12)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Draws benchmark results again.")
    parser.add_argument("results", type=Path, help="such as benchmarks/results/cpu-amd-epyc.json")
    results = parser.parse_args().results
    draw_again = draw_gpu if results.name.startswith("gpu-") else draw
    draw_again(json.loads(results.read_text()), results.with_suffix(".png"))
