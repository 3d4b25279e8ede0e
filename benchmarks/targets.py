"""What is wanted of the ratios of the benchmarks, on CPUs and GPUs."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from cases import COLUMN, CROSSED, ODD_ROWS, OTHER, PLAIN, ROW, SHORT_ROWS, STRIDED, UNEQUAL
from results_file import Row


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
    peer: str,
    form: str,
    sizes: tuple[str, ...],
    targets: tuple[str, ...] = (),
    threads: int = 1,
    where: Callable[[Row], object] = lambda row: not row.get("row"),
) -> Callable[[Row], float | None]:
    """Our time divided by a peer's ("best_peer" and "copy" among them); None where it did not run.

    `where`: of these rows alone; unless given, of those that are a power of two.
    """

    def ratio(row: Row) -> float | None:
        if row.get("threads", 1) != threads or row["form"] != form or row["size"] not in sizes or not where(row):
            return None
        if targets and row["target"] not in targets:
            return None
        if peer in ("best_peer", "copy"):
            return row.get(f"ratio_to_{peer}")
        return row["us"]["ours"] / row["us"][peer] if peer in row["us"] else None

    return ratio


def _odd(row: Row) -> bool:
    return (row["dtype"], row.get("row")) in ODD_ROWS


def _short(row: Row) -> bool:
    return (row["dtype"], row.get("row")) in SHORT_ROWS


LARGE = ("4 MB", "128 MB")


def _rows(rows: Sequence[tuple[str, int]]) -> str:
    dtypes = dict.fromkeys(dtype for dtype, _ in rows)
    each = [f"{' and '.join(str(row) for of, row in rows if of == dtype)} ({dtype})" for dtype in dtypes]
    return f"rows of {', '.join(each)}, 4 MB"


ODD, SHORT = _rows(ODD_ROWS), _rows(SHORT_ROWS)

TARGETS = [
    Target("into out by copy_, 4 MB: " + PLAIN, _by("copy", "out", ("4 MB",), (PLAIN,)), each=1),
    Target("into out by copy_, 128 MB: the same cases", _by("copy", "out", ("128 MB",), (PLAIN,)), each=1 / 1.3),
    Target(f"into out by copy_ of the bytes touched: {STRIDED}", _by("copy", "out", LARGE, (STRIDED,)), each=1.1),
    Target(f"{COLUMN}, into out by copy_", _by("copy", "out", LARGE, (COLUMN,)), each=2.2),
    Target(f"{COLUMN}, by the best peer", _by("best_peer", "fresh", LARGE, (COLUMN,)), each=1 / 3),
    Target(f"{COLUMN}, by eager gather", _by("torch_eager", "fresh", LARGE, (COLUMN,)), each=1 / 6),
    Target(f"{ROW}, by the best peer", _by("best_peer", "fresh", LARGE, (ROW,)), each=1 / 3),
    Target(f"{ROW}, into out, by ONNX Runtime", _by("onnx_runtime", "out", LARGE, (ROW,)), each=1 / 3),
    Target("fresh, 4 MB, by the best peer", _by("best_peer", "fresh", ("4 MB",)), each=1.05, mean=1 / 1.5),
    Target("fresh, 128 MB, by the best peer", _by("best_peer", "fresh", ("128 MB",)), each=1.05, mean=1 / 1.5),
    Target("fresh, 4 and 128 MB, by eager torch", _by("torch_eager", "fresh", LARGE), mean=1 / 2),
    Target("64 KB, by eager torch", _by("torch_eager", "fresh", ("64 KB",)), each=1.5, mean=1),
    Target(
        "64 KB, strided and reversed, by eager torch",
        _by("torch_eager", "fresh", ("64 KB",), where=lambda row: row["name"].startswith("stride") and row["target"]),
        mean=1 / 1.3,
    ),
    Target(
        "64 KB, reversals by length, by eager torch",
        _by("torch_eager", "fresh", ("64 KB",), where=lambda row: row["name"].startswith("reverse")),
        each=1 / 3,
    ),
    Target("64 KB, into out by copy_", _by("copy", "out", ("64 KB",)), mean=1.6),
    Target("into out by copy_ of the same layouts: " + OTHER, _by("copy", "out", LARGE, (OTHER,)), each=1.3),
    *(
        Target(
            f"{ODD}, into out by copy_ of the bytes touched: {name}",
            _by("copy", "out", ("4 MB",), (name,), where=_odd),
            each,
            mean,
        )
        for name, each, mean in (
            (PLAIN, 1.3, 1.15),
            (STRIDED, 1.1, math.inf),
            (COLUMN, 2.2, math.inf),
            (ROW, 1.3, math.inf),
        )
    ),
    *(
        Target(
            f"{SHORT}, into out by copy_ of the bytes touched: {what}",
            _by("copy", "out", ("4 MB",), (target,), where=_short),
            1.3,
            1.15,
        )
        for what, target in (("strides of −1 and −2", PLAIN), (STRIDED, STRIDED), (ROW, ROW))
    ),
    Target(f"{ODD}, fresh, by eager torch", _by("torch_eager", "fresh", ("4 MB",), where=_odd), each=1.05),
    Target("2 threads: fresh, 4 and 128 MB, by eager torch", _by("torch_eager", "fresh", LARGE, threads=2), each=1),
    Target(
        f"2 threads, {ODD}, fresh, by eager torch",
        _by("torch_eager", "fresh", LARGE, threads=2, where=_odd),
        each=1,
    ),
    Target(
        "huge pages: fresh, 128 MB in one piece, by the same without them",
        _by("ours_small_pages", "fresh", ("128 MB",), where=lambda row: not row["name"].startswith("split")),
    ),
]


ON_GPU = ("1 GB", "4 GB")


def _of_copy(*targets: str, reversing: bool | None = None, narrow: bool = False) -> Callable[[Row], float | None]:
    """By a copy, in cases of these targets; `reversing`: only those that reverse the last axis, or only the others."""
    names = ("stride -1, last axis", "stride -1, all axes", "reverse last axis, a length per row")

    def where(row: Row) -> bool:
        return (row["dtype"] != "float32") == narrow and reversing in (None, row["name"] in names)

    return _by("copy", "out", ON_GPU, targets, where=where)


GPU_TARGETS = [
    Target(
        "windows, stride −1 of outer axes, split, join, slice_grad, one length per batch item; 1 and 4 GB, by a copy",
        _of_copy(PLAIN, reversing=False),
        each=1 / 0.92,
    ),
    Target(
        f"stride −1 of the last axis, {ROW}; 1 and 4 GB, by a copy", _of_copy(PLAIN, ROW, reversing=True), each=1 / 0.88
    ),
    Target(f"{STRIDED}; 1 and 4 GB, by a copy of the sectors touched", _of_copy(STRIDED), each=1 / 0.85),
    Target(f"{COLUMN}; 1 and 4 GB, by a copy", _of_copy(COLUMN), each=1 / 0.75),
    Target(f"{CROSSED}; 1 and 4 GB, by a copy", _of_copy(CROSSED), each=1 / 0.80),
    Target(f"uint8 and float16: {PLAIN}; 1 GB, by a copy", _of_copy(PLAIN, narrow=True), each=1 / 0.85),
    Target(
        f"{UNEQUAL}, by the better of torch's two ways; 16 MB", _by("best_peer", "out", ("16 MB",), (UNEQUAL,)), 1 / 3
    ),
    Target("any case, by the best torch idiom; 1 GB", _by("best_peer", "out", ("1 GB",)), each=1),
    Target("64 KB in a graph, by clone", _by("copy", "fresh", ("64 KB",)), each=1.15),
]
