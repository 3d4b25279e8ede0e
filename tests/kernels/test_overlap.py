"""Whether views share memory, or one overlaps itself: random sets of them, compared with the bytes of each.

Most sets are pieces of one tensor, cut along its dimensions or taken every few items, with padding between rows, and
therefore disjoint but for what is then changed.
"""

import os
from functools import reduce
from itertools import pairwise
from random import Random

import numpy as np
import numpy.typing as npt

from torch_dml_ops._operators.overlap import Overlap, View, find_overlap, overlaps_itself

CASES = int(os.environ.get("TORCH_DML_OPS_FUZZ_CASES", "2000"))
SEED = int(os.environ.get("TORCH_DML_OPS_SEED", "0"))

Addresses = npt.NDArray[np.int64]


def any_tensor(r: Random) -> View:
    """Of 1 to 4 dimensions in some order, with padding now and then."""
    sizes = [r.randint(0, 1) if r.random() < 0.05 else r.randint(1, 9) for _ in range(r.randint(1, 4))]
    strides = [0] * len(sizes)
    stride = r.choice((1, 1, 1, 1, 2, 3))
    for d in r.sample(range(len(sizes)), len(sizes)):
        strides[d] = stride
        stride *= max(sizes[d], 1)
        if r.random() < 0.4:
            far = 1 << r.randint(31, 40)
            stride = max(stride, far) if r.random() < 0.1 else stride + (far if r.random() < 0.1 else r.randint(1, 5))
    return View(r.randint(0, 40), 1 << r.randint(0, 4), tuple(sizes), tuple(strides))


def changed(values: tuple[int, ...], d: int, value: int) -> tuple[int, ...]:
    return *values[:d], value, *values[d + 1 :]


def part(view: View, d: int, begin: int, size: int, step: int = 1) -> View:
    address = view.address + begin * view.strides[d] * view.item_size
    sizes, strides = changed(view.sizes, d, size), changed(view.strides, d, view.strides[d] * step)
    return View(address, view.item_size, sizes, strides)


def cut(r: Random, view: View) -> list[View]:
    """Along a dimension: every n-th of its indices, or blocks of them."""
    d = r.randrange(len(view.sizes))
    size = view.sizes[d]
    if r.random() < 0.4:
        step = r.randint(1, max(size, 1))
        return [part(view, d, k, len(range(k, size, step)), step) for k in range(min(step, size))]
    ends = [0]
    most = r.choice((1, 3))
    while ends[-1] < size:
        ends.append(min(ends[-1] + r.randint(1, most), size))
    return [part(view, d, begin, end - begin) for begin, end in pairwise(ends)]


def moved(r: Random, view: View) -> View:
    """Or stretched, or larger: it may share memory with another now, or with itself."""
    d = r.randrange(len(view.sizes))
    size, stride = view.sizes[d], view.strides[d]
    return r.choice(
        (
            view._replace(address=view.address + r.randint(-20, 20)),
            view._replace(strides=changed(view.strides, d, stride + r.randint(0, 20))),
            view._replace(strides=changed(view.strides, d, r.randint(0, 4))),
            view._replace(sizes=changed(view.sizes, d, size + r.randint(0, 2))),
        )
    )


def disguised(r: Random, view: View) -> View:
    """The same bytes in another way."""
    address, item, sizes, strides = view
    any_stride = r.choice((r.randint(0, 100), 1 << r.randint(0, 60)))
    dims = [(n, any_stride if n == 1 else s) for n, s in zip(sizes, strides, strict=True)]
    if r.random() < 0.2:
        dims.insert(r.randint(0, len(dims)), (1, r.randint(0, 9)))
    if r.random() < 0.3:
        r.shuffle(dims)
    if r.random() < 0.2 and item > 1:  # its halves as a dimension
        item, dims = item // 2, [*((n, 2 * s) for n, s in dims), (2, 1)]
    return View(address, item, tuple(n for n, _ in dims), tuple(s for _, s in dims))


def any_views(r: Random) -> list[View]:
    views = [any_tensor(r)]
    if r.random() < 0.15:  # another tensor, at the end of the first, within it or far away
        other = any_tensor(r)
        views.append(other._replace(address=other.address + r.randint(0, 2000)))
    for _ in range(r.randint(0, 12)):
        if views:
            views += cut(r, views.pop(r.randrange(len(views))))
    if r.random() < 0.4:  # every one cut once more in the same way, as the pieces of a split are
        seed = r.random()
        views = [piece for view in views for piece in cut(Random(seed), view)]
    views = r.sample(views, min(len(views), r.choice((60, r.randint(1, 60)))))
    if views and r.random() < 0.5:
        k = r.randrange(len(views))
        views[k] = moved(r, views[k])
    return [disguised(r, view) for view in views]


def items(view: View) -> Addresses:
    """The address of every item."""
    offsets = [
        np.arange(n) * (s * view.item_size if n > 1 else 0) for n, s in zip(view.sizes, view.strides, strict=True)
    ]
    return reduce(np.add.outer, offsets, np.int64(view.address)).ravel()


def bytes_of(view: View) -> Addresses:
    return np.unique(np.add.outer(items(view), np.arange(view.item_size)))


def test_shared_memory_is_found_exactly() -> None:
    disjoint = shared = 0
    for case in range(CASES):
        r = Random(f"{SEED} {case}")
        views = any_views(r)
        memory = [bytes_of(view) for view in views]
        everything = np.concatenate([*memory, np.empty(0, np.int64)])
        expected = Overlap(len(np.unique(everything)) < len(everything))
        found, second, first = find_overlap(views)
        assert found == expected, (case, views)
        if expected:
            assert first < second, (case, views)
            assert np.intersect1d(memory[first], memory[second]).size, (case, views)
        for a, b in (r.choices(range(len(views)), k=2) for _ in range(3 if views else 0)):  # two alone
            both = np.intersect1d(memory[a], memory[b])
            assert find_overlap([views[a], views[b]])[0] == Overlap(both.size > 0), (views[a], views[b])
        if len(views) > 8:
            disjoint, shared = disjoint + 1 - expected, shared + expected
    assert disjoint > CASES // 10
    assert shared > CASES // 20


def test_a_view_that_overlaps_itself_is_found_exactly() -> None:
    counts = [0, 0]
    for case in range(CASES):
        r = Random(f"{SEED} {case}")
        view = any_tensor(r)
        if r.random() < 0.5:
            least = int(r.random() < 0.9)
            view = view._replace(item_size=1, strides=tuple(r.randint(least, 60) for _ in view.strides))
        places = items(view)
        expected = len(np.unique(places)) < len(places)
        assert overlaps_itself(view) == Overlap(expected), (case, view)
        counts[expected] += 1
    assert min(counts) > CASES // 10
