"""Results against the targets: for each, the geometric mean of the ratios and the worst case.

python benchmarks/summary.py benchmarks/results/cpu-….json            prints that
python benchmarks/summary.py benchmarks/results/cpu-….json --update   writes what the pages quote of the results
"""

import argparse
import json
import math
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cases import COLUMN, OTHER, PLAIN, ROW, STRIDED

Row = dict[str, Any]


def geometric_mean(numbers: Iterable[float]) -> float:
    logarithms = [math.log(n) for n in numbers]
    return math.exp(sum(logarithms) / len(logarithms))


@dataclass(frozen=True)
class Target:
    """Bounds of a ratio, our time divided by another's: one for each case, one for the geometric mean."""

    what: str
    ratio: Callable[[Row], float | None]  # None for rows that it does not cover
    each: float = math.inf
    mean: float = math.inf

    def line(self, rows: list[Row]) -> str | None:
        """A row of a Markdown table."""
        ratios = {r["case"]: ratio for r in rows if (ratio := self.ratio(r)) is not None}
        if not ratios:
            return None
        worst = max(ratios, key=ratios.__getitem__)
        mean = geometric_mean(ratios.values())
        wanted = [f"mean {self.mean:.2f}"] * (self.mean < math.inf) + [f"each {self.each:.2f}"] * (self.each < math.inf)
        reached = mean <= self.mean and ratios[worst] <= self.each
        over = sum(ratio > self.each for ratio in ratios.values())
        verdict = "yes" if reached else "no" + (f", {over} over" if over else "")
        if not wanted:
            verdict = ""
        at_worst = f"{ratios[worst]:.2f}: {worst}"
        return f"| {self.what} | {', '.join(wanted)} | {mean:.2f} | {at_worst} | {len(ratios)} | {verdict} |"


def _by(
    peer: str, form: str, sizes: tuple[str, ...], targets: tuple[str, ...] = (), odd: bool = False, threads: int = 1
) -> Callable[[Row], float | None]:
    """Our time divided by a peer's ("best_peer" and "copy" among them); None where it did not run.

    `odd`: of rows that are no power of two, else of the others.
    """

    def ratio(row: Row) -> float | None:
        if row["threads"] != threads or row["form"] != form or row["size"] not in sizes or bool(row.get("row")) != odd:
            return None
        if targets and row["target"] not in targets:
            return None
        if peer in ("best_peer", "copy"):
            return row.get(f"ratio_to_{peer}")
        return row["us"]["ours"] / row["us"][peer] if peer in row["us"] else None

    return ratio


def _reversed_or_strided(row: Row) -> float | None:
    wanted = row["name"].startswith("stride") and row["target"]
    return _by("torch_eager", "fresh", ("64 KB",))(row) if wanted else None


LARGE = ("4 MB", "128 MB")
ODD = "rows of 500 and 1023 (float32), 333 (float16), 1001 (uint8), 4 MB"

TARGETS = [
    Target("into out by copy_, 4 MB: " + PLAIN, _by("copy", "out", ("4 MB",), (PLAIN,)), each=1),
    Target("into out by copy_, 128 MB: the same cases", _by("copy", "out", ("128 MB",), (PLAIN,)), each=1 / 1.3),
    Target(f"into out by copy_ of the bytes touched: {STRIDED}", _by("copy", "out", LARGE, (STRIDED,)), each=1.15),
    Target(f"{COLUMN}, by the best peer", _by("best_peer", "fresh", LARGE, (COLUMN,)), each=1 / 3),
    Target(f"{COLUMN}, by eager gather", _by("torch_eager", "fresh", LARGE, (COLUMN,)), each=1 / 6),
    Target(f"{ROW}, by the best peer", _by("best_peer", "fresh", LARGE, (ROW,)), each=1 / 3),
    Target(f"{ROW}, into out, by ONNX Runtime", _by("onnx_runtime", "out", LARGE, (ROW,)), each=1 / 3),
    Target("fresh, 4 MB, by the best peer", _by("best_peer", "fresh", ("4 MB",)), each=1.05, mean=1 / 1.5),
    Target("fresh, 128 MB, by the best peer", _by("best_peer", "fresh", ("128 MB",)), each=1.05, mean=1 / 1.5),
    Target("fresh, 4 and 128 MB, by eager torch", _by("torch_eager", "fresh", LARGE), mean=1 / 2),
    Target("64 KB, by eager torch", _by("torch_eager", "fresh", ("64 KB",)), each=1.5, mean=1),
    Target("64 KB, strided and reversed, by eager torch", _reversed_or_strided, mean=1 / 1.3),
    Target(
        "64 KB, reversals by length, by eager torch",
        lambda row: _by("torch_eager", "fresh", ("64 KB",))(row) if row["name"].startswith("reverse") else None,
        each=1 / 3,
    ),
    Target("into out by copy_ of the same layouts: " + OTHER, _by("copy", "out", LARGE, (OTHER,)), each=1.3),
    *(
        Target(
            f"{ODD}, into out by copy_ of the bytes touched: {name}",
            _by("copy", "out", ("4 MB",), (name,), odd=True),
            each,
        )
        for name, each in ((PLAIN, 1.05), (STRIDED, 1.15), (COLUMN, 2), (ROW, 1.3))
    ),
    Target(f"{ODD}, fresh, by eager torch", _by("torch_eager", "fresh", ("4 MB",), odd=True), each=1.05),
    Target("2 threads: fresh, 4 and 128 MB, by eager torch", _by("torch_eager", "fresh", LARGE, threads=2), each=1),
    Target(
        f"2 threads, {ODD}, fresh, by eager torch",
        _by("torch_eager", "fresh", LARGE, odd=True, threads=2),
        each=1,
    ),
    Target(
        "huge pages: fresh, 128 MB in one piece, by the same without them",
        lambda row: None if row["name"].startswith("split") else _by("ours_small_pages", "fresh", ("128 MB",))(row),
    ),
]


def _threads(rows: list[Row]) -> str | None:
    """All threads compared with one."""
    ours = {(r["case"], r["threads"]): r["us"]["ours"] for r in rows if r["size"] in LARGE}
    most = max((threads for _, threads in ours), default=1)
    gains = {case: ours[case, 1] / time for (case, threads), time in ours.items() if threads == most > 1}
    if not gains:
        return None
    worst = min(gains, key=gains.__getitem__)
    under = sum(gain < 1.6 for gain in gains.values())
    verdict = f"no, {under} under" if under else "yes"
    return (
        f"| {most} threads by one, 4 and 128 MB, as a gain | each at least 1.60 | "
        f"{geometric_mean(gains.values()):.2f} | {gains[worst]:.2f}: {worst} | {len(gains)} | {verdict} |"
    )


def table(content: dict[str, Any]) -> str:
    rows, calls = content["rows"], content["calls"]
    lines = [target.line(rows) for target in TARGETS]
    lines.append(_threads(rows))
    overhead = [c | {"case": c["name"], "target": "", "form": ""} for c in calls if c["peer"] == "bare op"]
    lines.append(
        Target("a call of 16 elements, by the bare op below autograd", lambda c: c["ratio"], each=1.3).line(overhead)
    )
    head = [
        "| ratio of times | wanted, at most | geometric mean | worst | cases | reached |",
        "|---|---|---|---|---|---|",
    ]
    return "\n".join([*head, *(line for line in lines if line)]) + "\n"


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
    lines = [
        "| times as fast as | new result, 64 KB | 4 MB | 128 MB | into `out`, 4 MB | 128 MB |",
        "|---|---|---|---|---|---|",
    ]
    for name in SHOWN:
        ratios = [by_case[f"{name}, {size}, {form}"][f"ratio_to_{peer}"] for form, size, peer in COLUMNS]
        lines.append(f"| {name} | " + " | ".join(f"{1 / ratio:.1f}×" for ratio in ratios) + " |")
    return "\n".join(lines)


def _worst_cases(rows: list[Row]) -> str:
    """In each column, how many of all cases are slower, and the three slowest, whether the table shows them or not."""
    lines = ["| all cases | slower in | the slowest, and how many times as long they take |", "|---|---|---|"]
    for form, size, peer in COLUMNS:
        ratio = f"ratio_to_{peer}"
        found = [r for r in rows if r["form"] == form and r["size"] == size and ratio in r]
        worst = sorted(found, key=lambda r: r[ratio], reverse=True)[:3]
        named = (f"{r['case'].replace(f', {size}, {form}', '')}: {r[ratio]:.1f}" for r in worst)
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
    least, most = f"{found[0]:.1f}", f"{found[-1]:.1f}"
    return least if least == most else f"{least} to {most}"


def _made_on(content: dict[str, Any]) -> str:
    return f"{content['machine']}, float32, one thread, commit {content['commit'][:7]} of {content['date']}"


def _basic(content: dict[str, Any], form: str) -> list[Row]:
    """The rows of one thread and of plain float32 inputs, which the pictures show as well."""
    rows = [r for r in content["rows"] if r["threads"] == 1 and r["form"] == form and r["target"] and not r.get("row")]
    return [r for r in rows if (r["layout"], r["dtype"], r["lengths"]) == ("contiguous", "float32", "uniform")]


def speed(content: dict[str, Any]) -> str:
    """For README: a picture and three sentences."""
    fresh = _basic(content, "fresh")
    reversals = {s: [r for r in fresh if r["size"] == s and r["name"].startswith("reverse")] for s in SIZES}
    others = {s: [r for r in fresh if r["size"] == s and not r["name"].startswith("reverse")] for s in SIZES}
    given = {s: [r for r in _basic(content, "out") if r["size"] == s] for s in SIZES}

    def times(rows: list[Row], peer: str = "best_peer") -> str:
        return _between(1 / r[f"ratio_to_{peer}"] for r in rows) + "×"

    picture = f"benchmarks/results/cpu-{content['machine']}.readme.png"
    text = _paragraph(
        f"Against the fastest of eager torch, `torch.compile` and NumPy ({_made_on(content)}), reversals by length are",
        f"{times(reversals['64 KB'])} as fast at 64 KB, {times(reversals['4 MB'])} at 4 MB and",
        f"{times(reversals['128 MB'])} at 128 MB.",
        f"Slices, split and join are {times(others['64 KB'])} as fast at 64 KB, where the call itself takes longest,",
        f"{times(others['4 MB'])} at 4 MB, and {times(others['128 MB'])} at 128 MB, mostly by huge pages.",
        f"Into a given `out`, all of them are {times(given['4 MB'], 'copy')} as fast as a plain `copy_` at 4 MB and",
        f"{times(given['128 MB'], 'copy')} at 128 MB.",
    )
    return f"![How many times as fast as the best of torch, torch.compile and NumPy]({picture})\n\n{text}"


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
    arguments = parser.parse_args()
    results = json.load(arguments.results)
    print(table(results))
    for path in PAGES if arguments.update else []:
        path.write_text(quoted(path.read_text(encoding="utf-8"), results), encoding="utf-8")
