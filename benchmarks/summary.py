"""What results come to: tables of all cases, and the targets, each with the geometric mean of its ratios and the worst.

python benchmarks/summary.py benchmarks/results/cpu-….json            prints the latter
python benchmarks/summary.py benchmarks/results/cpu-….json --update   writes what the pages quote of the results
python benchmarks/summary.py benchmarks/results/cpu-….json --beside benchmarks/results/cpu-…-avx2.json
                                                                      compares two SIMD levels of a processor
"""

import argparse
import json
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from results_file import Row
from targets import GPU_TARGETS, LARGE, TARGETS, Target, geometric_mean


def _threads(rows: list[Row], peer: str) -> list[Row]:
    """What all threads take by what one takes."""
    times = {(r["case"], r["threads"]): r["us"][peer] for r in rows if r["size"] in LARGE and peer in r["us"]}
    most = max((threads for _, threads in times), default=1)
    found = {case: time / times[case, 1] for (case, threads), time in times.items() if threads == most > 1}
    return [{"case": case, "ratio": ratio} for case, ratio in found.items()]


def _of_cpu(content: dict[str, Any]) -> list[str | None]:
    lines = [target.line(content["rows"]) for target in TARGETS]
    by_one = Target("all threads by one, 4 and 128 MB", lambda r: r["ratio"], each=1 / 1.6)
    copy_by_one = Target("the same of torch's copy_, 4 and 128 MB", lambda r: r["ratio"])
    by_op = Target("a call of 16 elements, by the bare op below autograd", lambda r: r["ratio"], each=1.3)
    overhead = [c | {"case": c["name"]} for c in content["calls"] if c["peer"] == "bare op"]
    threads = [
        by_one.line(_threads(content["rows"], "ours")),
        copy_by_one.line(_threads(content["rows"], "torch_copy")),
    ]
    return [*lines, *threads, by_op.line(overhead)]


def _table(head: Sequence[str], lines: Iterable[str]) -> list[str]:
    return [f"| {' | '.join(head)} |", "|" + "---|" * len(head), *lines]


def targets(kind: str, content: dict[str, Any]) -> str:
    """In Markdown, what the results come to."""
    if kind == "fused":
        return f"{_by_reason(content['rows'])}\n{_overhead(content['rows'])}"
    lines = _of_cpu(content) if kind == "cpu" else [target.line(content["rows"]) for target in GPU_TARGETS]
    head = "ratio of times", "wanted, at most", "geometric mean", "worst", "cases", "reached"
    return "\n".join(_table(head, filter(None, lines))) + "\n"


def _by_reason(rows: list[Row]) -> str:
    """For every line of the rule that fused something: the mean and the worst."""
    measured = [row for row in rows if "speed" in row]
    lines = []
    groups = {because: [r for r in measured if r["fused"] == [because]] for r in measured for because in r["fused"]}
    for because, group in [*groups.items(), ("all", measured)]:
        if group:
            worst = min(group, key=lambda row: row["speed"])
            mean = geometric_mean(row["speed"] for row in group)
            lines.append(f"| {because} | {len(group)} | {mean:.2f} | {worst['speed']:.2f}: {worst['case']} |")
    slower = [row for row in measured if row["speed"] < 0.95]
    lines = _table(("fused, as", "cases", "mean", "worst"), lines)
    return "\n".join([*lines, "", f"Slower by more than 5 %: {len(slower)} of {len(measured)}.", ""])


def _overhead(rows: list[Row]) -> str:
    """What a compiled call takes, beside that of a function of torch's own."""
    lines = []
    for row in rows:
        if "torch" in row.get("us", {}):
            us = {name: f"{time:.1f} µs" for name, time in row["us"].items()}
            lines.append(
                f"{row['case']}: {us['fused']} fused, {us['kernels']} with a kernel, {us['torch']} of torch's own"
            )
    return "\n".join([*lines, ""])


# ---- Every case ----


def _fused_cases(rows: Iterable[Row]) -> list[str]:
    def line(row: Row) -> str:
        if "speed" not in row:
            return f"| {row['case']} | | | {'; '.join(row['kept'])} |"
        us = row["us"]
        return f"| {row['case']} | {us['kernels']:.1f} | {us['fused']:.1f} | {row['speed']:.2f} |"

    return _table(("case", "kernels, µs", "fused, µs", "speed"), map(line, rows))


def _cases(rows: Sequence[Row]) -> Iterable[str]:
    """Each with its time, its spread over the passes, and its ratios; a table per number of threads."""
    for threads in sorted({r.get("threads", 0) for r in rows}):
        if threads:
            yield from (f"## {threads} thread{'s' if threads > 1 else ''}", "")
        yield from _table(("case", "µs", "by the best peer", "by copy_", "lines"), ())
        for r in (r for r in rows if r.get("threads", 0) == threads):
            peer = f"{r['ratio_to_best_peer']:.2f} ({r['best_peer']})" if "best_peer" in r else ""
            copy = f"{r['ratio_to_copy']:.2f}" if "copy" in r else ""
            spread = f" ± {50 * r['spread']['ours']:.0f} %" if r["spread"]["ours"] else ""  # none of a single pass
            rate = f", {r['bytes'] / r['us']['ours'] / 1000:.0f} GB/s" if "bytes" in r else ""
            bound = f"{r['bound']:.2f}" if copy and r.get("bound", 1) != 1 else ""
            yield f"| {r['case']} | {r['us']['ours']:.1f}{spread}{rate} | {peer} | {copy} | {bound} |"
        yield ""


def _exported(rows: Iterable[Row]) -> Iterable[str]:
    """A table of the cases whose operator was also exported to ONNX, beside the node that one would write by hand."""
    if not (found := [r for r in rows if "onnx_exported" in r["us"]]):
        return
    yield from ("## Exported to ONNX, in ONNX Runtime", "")
    yield from _table(("case", "threads", "µs", "by torch_dml_ops", "by a node written by hand"), ())
    for r in found:
        us = r["us"]
        by_hand = f"{us['onnx_exported'] / us['onnx_runtime']:.2f}" if "onnx_runtime" in us else ""
        ratio = us["onnx_exported"] / us["ours"]
        yield f"| {r['case']} | {r['threads']} | {us['onnx_exported']:.1f} | {ratio:.2f} | {by_hand} |"
    yield ""


def cases(kind: str, content: dict[str, Any]) -> str:
    """Every case, in Markdown."""
    rows = content["rows"]
    lines = _fused_cases(rows) if kind == "fused" else [*_cases(rows), *_exported(rows)]
    if calls := content.get("calls"):
        lines += ["## Calls", "", *_table(("call", "threads", "µs", "by"), map(_call, calls))]
    if skipped := content.get("skipped"):
        lines += ["", *(f"Skipped: {line}" for line in skipped)]
    return "\n".join(lines) + "\n"


def _call(row: Row) -> str:
    return f"| {row['name']} | {row['threads']} | {row['ours_us']:.1f} | {row['ratio']:.2f} ({row['peer']}) |"


# By kind: a title, what made it, and what a reader needs to know before the tables.
HEADS = {
    "cpu": (
        "Benchmark",
        "make bench",
        """\
A ratio is the time of torch_dml_ops divided by another's: **below 1, torch_dml_ops is faster**. "fresh" allocates a
new result each time; its best peer is the fastest of eager torch, torch.compile and NumPy (which cannot reverse by
lengths). "out" writes into given memory; its peer is ONNX Runtime, whose arena keeps its memory, and its yardstick
`out.copy_()` of as many bytes: for strides along the last axis, the cache lines read and the bytes written, which are
"lines" times as many as the bytes written alone; for other layouts, a copy between the same layouts. torch.compile is
not measured on rows of 500 items and the like; all threads are on a third of the cases. A few of the operators also
run in ONNX Runtime, exported. ± is half the range
of the passes. Arrays are (4, 32, 128), (16, 128, 512) and (64, 512, 1024) float32, unless stated otherwise.""",
    ),
    "gpu": (
        "Benchmark",
        "make bench-gpu",
        """\
A ratio is the time of torch_dml_ops divided by another's: **below 1, torch_dml_ops is faster**. The best peer is the
fastest of eager torch, its split into given memory, and torch.compile where it was measured; the yardstick is a copy
of as many bytes, counted in the 32-byte sectors that are touched. ± is half the range of the passes.""",
    ),
    "fused": (
        "Fused by torch.compile",
        "make bench-fused",
        """\
A speed is the time of the compiled function in which every operator is a call of its kernel, divided by the time with
the operators fused by the rule: **above 1, fusing is faster**. Where the rule keeps the kernel, both are the same.""",
    ),
}


def page(kind: str, content: dict[str, Any]) -> str:
    title, made_by, explained = HEADS[kind]
    versions = ", ".join(f"{name} {number}" for name, number in content["versions"].items())
    return f"""# {title} on {content["machine"]}

{content["machine"]}, {content["cores"]} cores, {content["build"]["SIMD level"]}; {versions};
{content["date"]}, commit {content["commit"]}. Made by `{made_by}`.

{explained}

{targets(kind, content)}
{cases(kind, content)}"""


# ---- SIMD levels ----


def beside(content: dict[str, Any], other: dict[str, Any]) -> str:
    """Two levels on one processor: what each target comes to, and the cases of which one takes a tenth more than by the
    other, where the yardstick took as long."""
    names = [c["build"]["SIMD level"] for c in (content, other)]
    lines = []
    for target in TARGETS:
        found = [[r for row in c["rows"] if (r := target.ratio(row)) is not None] for c in (content, other)]
        if all(found):
            means = (f"{geometric_mean(ratios):.2f}, at worst {max(ratios):.2f}" for ratios in found)
            lines.append(f"| {target.what} | {' | '.join(means)} |")
    ratios = [{(r["case"], r["threads"]): r for r in c["rows"] if "copy" in r} for c in (content, other)]
    quotients = {key: row["ratio_to_copy"] / ratios[0][key]["ratio_to_copy"] for key, row in ratios[1].items()}
    apart = sorted((q, key) for key, q in quotients.items() if not 1 / 1.1 <= q <= 1.1)
    slower = (f"| {case}, {threads} thread(s) | {q:.2f} |" for q, (case, threads) in apart)
    head = f"{names[1]} by {names[0]}"
    return "\n".join([*_table(("ratio of times", *names), lines), "", *_table(("into out", head), slower), ""])


# ---- What the pages quote ----

# The rows of the table in docs/performance.md.
SHOWN = [
    "window, last axis halved",
    "stride -1, last axis",
    "stride 2, last axis",
    "split last axis in 64",
    "join last axis of 3",
    "reverse axis 1, a length per batch item",
    "reverse axis 1, a length per column",
    "reverse last axis, a length per row",
]

SIZES = ("64 KB", "4 MB", "128 MB")

# The columns: form, size, and what is compared with.
COLUMNS = [
    ("fresh", "64 KB", "best_peer"),
    ("fresh", "4 MB", "best_peer"),
    ("fresh", "128 MB", "best_peer"),
    ("out", "4 MB", "copy"),
    ("out", "128 MB", "copy"),
]


def _table_of_some(rows: list[Row]) -> str:
    """How many times as fast as others, one thread."""
    by_case = {r["case"]: r for r in rows}
    lines = _table(("times as fast as", "new result, 64 KB", "4 MB", "128 MB", "into `out`, 4 MB", "128 MB"), ())
    for name in SHOWN:
        ratios = [by_case[f"{name}, {size}, {form}"][f"ratio_to_{peer}"] for form, size, peer in COLUMNS]
        lines.append(f"| {name} | " + " | ".join(f"{1 / ratio:.1f}×" for ratio in ratios) + " |")
    return "\n".join(lines)


def _worst_cases(rows: list[Row]) -> str:
    """In each column, how many of all cases are slower, and the three slowest, whether the table shows them or not."""
    lines = _table(
        ("all cases, of every dtype and row", "slower in", "the slowest, and how many times as long they take"), ()
    )
    for form, size, peer in COLUMNS:
        ratio = f"ratio_to_{peer}"
        found = [r for r in rows if r["form"] == form and r["size"] == size and ratio in r]
        worst = sorted(found, key=lambda r: r[ratio], reverse=True)[:3]
        named = (
            f"{r['case'].replace(f', {size}, {form}', '')}: {r[ratio]:.{1 if r[ratio] >= 1.1 else 2}f}" for r in worst
        )
        slower = f"{sum(r[ratio] > 1 for r in found)} of {len(found)}"
        lines.append(f"| {'new result' if form == 'fresh' else 'into `out`'}, {size} | {slower} | {'; '.join(named)} |")
    return "\n".join(lines)


def _call_times(calls: list[dict[str, Any]]) -> str:
    def between(mode: str, whose: str) -> str:
        times = [c[whose] for c in calls if c["peer"] == "torch idiom" and c["name"].endswith(f", {mode}")]
        return f"{min(times):.1f} to {max(times):.1f}"

    return (
        f"A call on 16 elements takes {between('no grad', 'ours_us')} µs without gradients and "
        f"{between('with grad', 'ours_us')} µs with; the torch idioms take {between('no grad', 'peer_us')} µs and "
        f"{between('with grad', 'peer_us')} µs."
    )


def _paragraph(*sentences: str) -> str:
    return textwrap.fill(" ".join(sentences), 120, break_long_words=False, break_on_hyphens=False) + "\n"


def _between(ratios: Iterable[float]) -> str:
    found = sorted(ratios)
    least, most = (f"{ratio:.{1 if ratio > 0.1 else 2}f}" for ratio in (found[0], found[-1]))
    return least if least == most else f"{least} to {most}"


def _made_on(content: dict[str, Any]) -> str:
    return f"{content['machine']}, float32, one thread, commit {content['commit'][:7]} of {content['date']}"


def _basic(content: dict[str, Any], form: str) -> list[Row]:
    """The rows of one thread and of plain float32 inputs."""
    rows = [r for r in content["rows"] if r["threads"] == 1 and r["form"] == form and not r.get("row")]
    return [r for r in rows if (r["layout"], r["dtype"], r["lengths"]) == ("contiguous", "float32", "uniform")]


def speed(content: dict[str, Any]) -> str:
    """For README: a picture and a paragraph."""
    fresh = _basic(content, "fresh")
    of_size = {s: [r for r in fresh if r["size"] == s] for s in SIZES}
    given = {s: [r for r in _basic(content, "out") if r["size"] == s] for s in SIZES}

    def speeds(rows: list[Row], peer: str) -> list[float]:
        return [r["us"][peer] / r["us"]["ours"] for r in rows if peer in r["us"]]

    def times(rows: list[Row]) -> str:
        return _between(1 / r["ratio_to_copy"] for r in rows) + "×"

    eager = {s: f"{geometric_mean(speeds(rows, 'torch_eager')):.1f}×" for s, rows in of_size.items()}
    best = [f"{geometric_mean([1 / r['ratio_to_best_peer'] for r in rows]):.1f}×" for rows in of_size.values()]
    small, large = (
        speeds([r for r in of_size[s] if r["name"].startswith("join")], "torch_eager") for s in ("64 KB", "4 MB")
    )
    of_numpy = min(speeds(of_size["64 KB"], "numpy_arrays"))
    into = [times(given[s]) for s in SIZES]
    picture = f"benchmarks/results/cpu-{content['machine']}.readme.png"
    text = _paragraph(
        f"On the CPU, a call that makes a new tensor is on average {eager['64 KB']} as fast as eager torch at 64 KB,",
        f"{eager['4 MB']} at 4 MB and {eager['128 MB']} at 128 MB; compared with the best of torch, torch.compile and",
        f"NumPy, {best[0]}, {best[1]} and {best[2]} (contiguous cases, {_made_on(content)}). Some cases are slower:",
        f"joins are {_between(small)}× as fast as `torch.cat` at 64 KB, and down to {min(large):.1f}× at 4 MB; and at",
        f"64 KB, where most of the time is the call's own, slices are down to {of_numpy:.2f}× as fast as NumPy's. Into",
        f"a given `out`, calls are {into[0]} as fast at 64 KB as a plain `copy_` of as many bytes, which rearranges",
        f"nothing, {into[1]} at 4 MB and {into[2]} at 128 MB. [Performance](docs/performance.md) has every case, not",
        "only those of the picture, and how to measure your machine.",
    )
    return f"![How many times as fast as the best of torch, torch.compile and NumPy, on the CPU]({picture})\n\n{text}"


def figures(content: dict[str, Any]) -> str:
    """For docs/performance.md: a picture and a table of some cases, and where they are slower."""
    rows = [r for r in content["rows"] if r["threads"] == 1]
    machine, versions, level = content["machine"], content["versions"], content["build"]["SIMD level"]
    picture = f"../benchmarks/results/cpu-{machine}.readme.png"
    return "\n\n".join(
        [
            f"![How many times as fast as the best of torch, torch.compile and NumPy]({picture})",
            _paragraph(
                f"{_made_on(content)}; {content['cores']} cores, {level}, torch {versions['torch']}, NumPy",
                f"{versions['numpy']} ([every case and target](../benchmarks/results/cpu-{machine}.md), [a picture of",
                f"all](../benchmarks/results/cpu-{machine}.png)):",
            ).rstrip(),
            _table_of_some(rows),
            _worst_cases(rows),
            _paragraph(_call_times([c for c in content["calls"] if c["threads"] == 1])),
        ]
    )


def onnx(content: dict[str, Any]) -> str:
    """For docs/onnx.md: how many times as long ONNX Runtime takes."""
    rows = [r for r in _basic(content, "out") if r["size"] == "4 MB"]

    def times(*names: str, peer: str = "onnx_runtime") -> str:
        chosen = [r["us"] for r in rows if r["name"].startswith(names) and peer in r["us"]]
        return _between(us[peer] / us["ours"] for us in chosen) + "×"

    walks = tuple(r["name"] for r in rows if r["name"].startswith("stride") and "middle" not in r["name"])
    return _paragraph(
        f"Into 4 MB of memory that is given ({_made_on(content)}), ONNX Runtime takes",
        f"{times('window', 'split middle', 'stride -2, middle')} as long as these operators for windows, and for steps",
        f"and splits of outer axes, {times('split last', 'join last')} for split and join along the last axis,",
        f"{times(*walks)} for strides along the last axis, {times('reverse axis 1, a length per batch item')} for",
        f"reversals by one length per batch item, and {times('reverse last axis')} by one per row of the last axis.",
        "Lengths that vary along several axes, which its `ReverseSequence` does not have, take it",
        f"{times('reverse axis 1, a length per column', peer='onnx_exported')} as long, as exported.",
    )


# What the pages quote, by the name that marks its place, from `<!-- NAME: written by benchmarks/summary.py -->` to
# `<!-- end of NAME -->`.
QUOTED = {"speed": speed, "figures": figures, "onnx": onnx}
PAGES = [Path(__file__).parents[1] / page for page in ("README.md", "docs/performance.md", "docs/onnx.md")]


def quoted(page: str, content: dict[str, Any]) -> str:
    """The page with what it quotes of the results."""
    for name, write in QUOTED.items():
        begin, end = f"<!-- {name}: written by benchmarks/summary.py -->\n", f"<!-- end of {name} -->\n"
        before, found, rest = page.partition(begin)
        if found:
            page = before + begin + write(content) + end + rest.partition(end)[2]
    return page


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="What benchmark results come to, and what the pages quote of them.")
    parser.add_argument("results", type=argparse.FileType(), help="such as benchmarks/results/cpu-intel-xeon.json")
    parser.add_argument("--update", action="store_true", help="write it into the pages")
    parser.add_argument("--beside", type=argparse.FileType(), help="results of another level of the same processor")
    arguments = parser.parse_args()
    results = json.load(arguments.results)
    print(beside(results, json.load(arguments.beside)) if arguments.beside else targets("cpu", results))
    for path in PAGES if arguments.update else []:
        path.write_text(quoted(path.read_text(encoding="utf-8"), results), encoding="utf-8")
