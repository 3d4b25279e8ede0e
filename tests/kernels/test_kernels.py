"""The kernels by themselves: engines on random plans, also under the sanitizers, and the CUDA kernels' accesses."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import host_build
import oracle
import pytest
import torch
from host_build import program
from processes import run_program

from torch_dml_ops import _libraries

CASES = int(os.environ.get("TORCH_DML_OPS_FUZZ_CASES", "1000"))
SEED = int(os.environ.get("TORCH_DML_OPS_SEED", "0"))


# The CPU engine at each SIMD level that this processor has, as it runs the next lower one for another; at the highest,
# the CUDA engine too, to which they mean nothing.
HAS_AVX512 = "avx512bw" in Path("/proc/cpuinfo").read_text()
LEVELS = [level for level in _libraries.simd_levels() if HAS_AVX512 or "512" not in level]
ENGINES = [*((level, ["cpu"]) for level in LEVELS[:-1]), (LEVELS[-1], [])]


@pytest.fixture(params=["kernels_fuzz", pytest.param("kernels_fuzz_sanitized", marks=pytest.mark.thorough)])
def fuzz(request):
    """The program that executes plans, and the same one under the sanitizers: the CPU engine, and both for more cases,
    as of the CUDA engine's source these take two minutes to build."""
    return program(request.param if CASES <= 1000 else request.param.replace("fuzz_s", "fuzz_all_s"))


@pytest.mark.parametrize(("level", "engine"), ENGINES)
def test_engines_agree_with_random_plans(fuzz, level, engine):
    assert run_program(fuzz, CASES, SEED, *engine, TORCH_DML_OPS_SIMD=level) == f"{CASES} cases right\n"


@pytest.mark.parametrize(("level", "engine"), ENGINES)
def test_engines_at_every_alignment(fuzz, level, engine):
    """Offsets of 0 to 15 bytes of source and destination, items of 1 to 16 bytes, rows and lengths of a few items
    fewer and more than fill 16 bytes once, twice or more, offsets of 32 and 64 bits. Under the sanitizers a third of
    these, unless there is more time."""
    apart = 3 if fuzz.name == "kernels_fuzz_sanitized" else 1
    said = run_program(fuzz, f"alignments/{apart}", *engine, TORCH_DML_OPS_SIMD=level)
    assert int(said.removesuffix(" cases right\n")) > 5 * 16 * 16 * 7 / apart


# By level, functions of which no plan reaches some lines, or which no plan reaches at all.
OUT_OF_REACH = {
    ".*": r"transpose_matrix<unsigned long __vector\(2\)|::(has_\w+|amd_l3_bytes)\(",  # items of 16 bytes are squares
    "baseline": r"transpose_matrix<|copy_by_overlap<.*UnalignedVector",  # whose vectors are no wider than 16 bytes
    "avx512_gather": r"<unsigned (int|long), true|(reverse_panel|write_reversed)<unsigned (int|long)[,>]",
}


@pytest.mark.thorough
@pytest.mark.parametrize("level", LEVELS)
def test_default_plans_take_every_way_of_the_cpu_engine(level, tmp_path):
    """Every line of every function, for each size of item, stride or whatever else that function is compiled for."""
    fuzz = program("kernels_fuzz_covered")
    for plans in ((CASES, SEED), ("alignments",)):
        run_program(fuzz, *plans, "cpu", TORCH_DML_OPS_SIMD=level, GCOV_PREFIX=str(tmp_path))
    visits = Counter()
    for counts in tmp_path.rglob("cpu_*.gcda"):
        notes = Path("/", counts.relative_to(tmp_path)).with_suffix(".gcno")
        shutil.copy(notes, counts.parent)
        command = ["gcov", "--json-format", "--stdout", "--demangled-names", counts.name]
        for file in json.loads(subprocess.check_output(command, cwd=counts.parent))["files"]:
            names = {function["name"]: function["demangled_name"] for function in file["functions"]}
            for line in file["lines"]:
                if "function_name" in line and "csrc/kernels/cpu" in file["file"]:
                    place = names[line["function_name"]], f"{Path(file['file']).name}:{line['line_number']}"
                    visits[place] += line["count"]  # of an inline function, whichever source's copy ran
    others = [name for name in _libraries.simd_levels() if name not in (level, level.removesuffix("_gather"))]
    not_here = [rf"::({'|'.join(others)})::", *(["gather.inl"] if "gather" not in level else [])]
    not_here += [functions for levels, functions in OUT_OF_REACH.items() if re.fullmatch(levels, level)]
    ways = {way: n for way, n in visits.items() if not re.search("|".join(not_here), " ".join(way))}
    assert len(ways) > 3000
    assert [way for way, n in ways.items() if n == 0] == []


NEVER = (1 << 63) - 1


@pytest.mark.parametrize(
    ("make", "l2", "l3", "expected"),
    [
        ("intel", 0, 0, (64 << 10, 1 << 20, 32 << 20, NEVER)),  # unknown
        ("intel", 1 << 20, 32 << 20, (64 << 10, 1 << 20, 32 << 20, NEVER)),
        ("intel", 2 << 20, 260 << 20, (64 << 10, 2 << 20, 32 << 20, NEVER)),
        ("intel", 256 << 10, 8 << 20, (16 << 10, 256 << 10, 8 << 20, NEVER)),
        ("amd", 0, 0, (64 << 10, 1 << 20, 32 << 20, NEVER)),
        ("amd", 1 << 20, 32 << 20, (64 << 10, 1 << 20, 8 << 20, 2 << 20)),
    ],
)
def test_limits_follow_the_processors_caches(make, l2, l3, expected):
    assert tuple(map(int, run_program(program("kernels_fuzz"), "tuning", l2, l3, make).split())) == expected


@pytest.mark.thorough
def test_random_plans_run_every_line_of_the_kernels():
    fuzz, launch_test = program("kernels_fuzz_covered"), program("launch_test_covered")
    objects = [path for each in (fuzz, launch_test) for path in host_build.programs()[each.name].objects]
    folder = objects[-1].parent
    for counts in folder.glob("*.gcda"):
        counts.unlink()
    for notes in folder.glob("*.gcno"):
        if notes.with_suffix(".o") not in objects:  # of a source that has another name now
            notes.unlink()
    for level, engine in ENGINES:
        run_program(fuzz, "alignments/3", *engine, TORCH_DML_OPS_SIMD=level)
    run_program(fuzz, 2500, SEED)
    run_program(launch_test)
    command = [sys.executable, "-m", "gcovr", "--root", str(host_build.ROOT), "--filter", "csrc/kernels/"]
    if not HAS_AVX512:
        command += ["--exclude", r".*/(gather\.inl|inner_loops\.cpp)"]  # which asks only then whether to gather
    if "AuthenticAMD" not in Path("/proc/cpuinfo").read_text():
        command += ["--exclude", ".*/tuning.cpp"]  # which asks AMD's for their caches
    # A line of a template counts once, whichever of its instances ran it.
    command += ["--merge-lines", "--txt", str(host_build.COVERAGE), "--json-summary", "-", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=host_build.ROOT)
    assert done.returncode == 0, done.stderr
    total = json.loads(done.stdout)
    assert total["line_total"] > 500
    assert total["line_covered"] == total["line_total"], host_build.COVERAGE.read_text()


def test_emulation_sees_what_it_is_there_for():
    assert run_program(program("self_test")).splitlines() == [
        "the emulation sees a missing barrier",
        "and counts what is loaded and stored",
        "and multipliers divide",
        "and vectors are at most as many as items",
    ]


def test_what_launches_ask_of_the_cuda_runtime():
    assert run_program(program("launch_test")).splitlines() == [
        "kernels and devices are asked once",
        "threads may need different amounts of shared memory",
        "panels fit on an SM",
        "what has never run can be captured",
        "64 pieces take one launch",
        "a launch allocates nothing",
        "what fails is reported",
    ]


def on_host(name, *arguments, **out):
    """The result of the CUDA kernels' code, and its accesses."""
    host_build.take_accesses()
    result = getattr(torch.ops.torch_dml_ops_on_host, name)(*arguments, **out)
    return result, host_build.take_accesses()


@pytest.mark.parametrize("dtype", oracle.DTYPE_OF_SIZE.values())
def test_aligned_copies_move_16_bytes_at_a_time(dtype):
    x = torch.zeros(8, 64, 32, dtype=dtype)
    total = 8 * 32 * 32 * x.element_size()
    for result, accesses in (
        on_host("slice1", x, [0, 16, 0], [8, 32, 32], [1, 1, 1]),
        on_host("slice1", x, [0, 0, 0], [8, 64, 32], [-1, -2, 1]),
        on_host("split", x, [32, 32], 1),
        on_host("join", [x[:4], x[4:]], 0),
        on_host("reverse_subsequences", x, torch.full((8, 1, 1), 20).expand(8, 1, 32), 1),
    ):
        moved = total if isinstance(result, torch.Tensor) and result.numel() < x.numel() else 2 * total
        assert accesses["widths_stored"] == {16: moved // 16}
        assert accesses["widths_loaded"][16] == moved // 16  # besides them, lengths are loaded
        assert accesses["sectors_stored"] == moved // 32


def aligned_moves():
    """Calls of which every row starts at a multiple of 32 bytes, with the bytes of data that each has to load."""
    x = torch.zeros(6, 96, 256)
    everything = [0, 0, 0], list(x.shape)
    middle = torch.full((6, 1, 1), 50).expand(6, 1, 256)
    columns = torch.randint(0, 97, (6, 1, 256), generator=torch.Generator().manual_seed(0))
    rows = torch.full((6, 96, 1), 200)
    size = x.numel() * 4
    yield "window", size // 2, ("slice1", x, [0, 0, 64], [6, 96, 128], [1, 1, 1])
    yield "stride -1 of outer axes", size, ("slice1", x, *everything, [-1, -1, 1])
    yield "stride -1 of the last axis", size, ("slice1", x, *everything, [1, 1, -1])
    yield "stride 2 of the last axis", size // 2, ("slice1", x, *everything, [1, 1, 2])
    yield "stride -2 of the last axis", size // 2, ("slice1", x, *everything, [1, 1, -2])
    yield "slice_grad", size // 2, ("slice_grad", x[:, :, :128], list(x.shape), [0, 0, 64], [6, 96, 128], [1, 1, 1])
    every_fourth = list(x.shape), [0, 3, 64], [6, 93, 128], [1, -4, 1]
    yield "slice_grad of every fourth row", size // 8, ("slice_grad", x[:, :24, :128], *every_fourth)
    yield "split of the last axis", size, ("split", x, [64, 32, 8, 152], 2)
    yield "join to the last axis", size, ("join", [x[..., :64].clone(), x[..., 64:].clone()], 2)
    yield "a length per batch item", size, ("reverse_subsequences", x, middle, 1)
    yield "a length per column", size, ("reverse_subsequences", x, columns, 1)
    yield "a length per row", size, ("reverse_subsequences", x, rows, 2)


MOVES = {name: (needed, call) for name, needed, call in aligned_moves()}


@pytest.mark.parametrize("name", MOVES)
def test_warps_store_whole_sectors_once(name):
    _, call = MOVES[name]
    result, accesses = on_host(*call)
    written = sum(t.numel() * 4 for t in (result if isinstance(result, list) else [result]))
    assert accesses["bytes_stored"] == accesses["distinct_bytes_stored"] == written
    assert accesses["distinct_sectors_stored"] * 32 <= 1.1 * written  # blocks meet within a sector
    assert accesses["sectors_stored"] * 32 <= 1.1 * written


# At most, by the bytes of data: the sectors that all warp-wide loads touch, those that a block touches, each counted
# once, and the bytes that a block loads, repeats left out.
MOST_LOADED = {
    # Every second number is in every sector; four loads of a thread, one after another, share their sectors.
    "stride 2 of the last axis": (8, 2, 1),
    "stride -2 of the last axis": (8, 2, 1),
    "a length per column": (1.25, 1.25, 1.1),  # and a length for each column of a panel
    "a length per row": (1.2, 1.1, 1),
}


@pytest.mark.parametrize("name", MOVES)
def test_warps_load_few_sectors(name):
    needed, call = MOVES[name]
    _, accesses = on_host(*call)
    of_warps, of_blocks, distinct = MOST_LOADED.get(name, (1, 1, 1))
    assert needed <= accesses["distinct_bytes_loaded"] <= 1.1 * distinct * needed
    assert accesses["distinct_sectors_loaded"] * 32 <= 1.1 * of_blocks * needed
    assert accesses["sectors_loaded"] * 32 <= 1.1 * of_warps * needed


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float32, torch.float64])
def test_rows_that_begin_anywhere_are_moved_by_vectors(dtype):
    """A thread loads the one or two vectors that hold the 16 bytes it stores; ends of rows are stored in pieces."""
    item, n = dtype.itemsize, 4096 // dtype.itemsize
    x = torch.zeros(8, n, dtype=dtype)
    rows, ends = 8, 4 * 16 // item  # of a row's vectors, at most so many items lie at an end, or where a length ends
    for name, arguments in (
        ("slice1", (x, [0, 3], [8, n - 5], [1, 1])),
        ("slice1", (x, [0, 3], [8, n - 5], [1, -1])),
        ("slice_grad", (x[:, : n - 5], [8, n], [0, 3], [8, n - 5], [1, 1])),
        ("slice_grad", (x[:, : n - 5], [8, n], [0, 3], [8, n - 5], [1, -1])),
        ("split", (x, [n // 2 + 1, n // 2 - 1], 1)),
        ("join", ([x[:, 1:].clone(), x[:, :3].clone()], 1)),
        ("reverse_subsequences", (x, torch.full((8, 1), n - 3), 1)),
    ):
        result, accesses = on_host(name, *arguments)
        pieces = result if isinstance(result, list) else [result]
        vectors = accesses["widths_stored"][16]
        others = (sum(t.numel() for t in pieces) * item - 16 * vectors) / item
        assert others <= rows * len(pieces) * ends, (name, accesses["widths_stored"])
        with_ends = vectors + 2 * rows * len(pieces)
        whole = 1 if item == 8 else 2  # of items of 8 bytes, half of the second one is enough
        assert vectors / 2 <= accesses["widths_loaded"][16] <= whole * with_ends, (name, accesses["widths_loaded"])


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float32])
def test_ends_of_windows_and_lengths_are_moved_by_vectors_too(dtype):
    """Items are loaded one by one only where a vector would reach beyond the source's memory."""
    vector = 16 // dtype.itemsize
    rows, n = 64, 20 * vector
    grad, x = torch.zeros(rows, n - vector + 3, dtype=dtype), torch.zeros(rows, n, dtype=dtype)
    lengths = torch.arange(rows).reshape(-1, 1) + n // 2
    size = [rows, grad.shape[1]]
    for name, arguments in (
        ("slice_grad", (grad, [rows, n], [0, 1], size, [1, 1])),
        ("slice_grad", (grad, [rows, n], [0, 1], size, [1, -1])),
        ("reverse_subsequences", (x, lengths, 1)),
    ):
        _, accesses = on_host(name, *arguments)
        one_by_one = accesses["widths_loaded"].get(dtype.itemsize, 0)
        assert one_by_one <= 2 * vector, (name, accesses["widths_loaded"])


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float32])
@pytest.mark.parametrize("columns", [1, 3])
def test_short_rows_are_put_in_order_on_the_way(dtype, columns):
    """Every item is loaded and stored once, in whole sectors, and whole vectors where the rows lie side by side."""
    pieces = [torch.arange(8192 * columns).to(dtype).reshape(-1, columns) + k for k in range(16)]
    joined, join = on_host("join", pieces, 1)
    parts, split = on_host("split", joined, [columns] * 16, 1)
    assert torch.equal(joined, torch.cat(pieces, 1))
    assert all(map(torch.equal, parts, pieces))
    size = joined.numel() * dtype.itemsize
    for accesses, of_whole, of_pieces in ((join, "stored", "loaded"), (split, "loaded", "stored")):
        assert accesses["launches"] == 1
        assert accesses[f"widths_{of_whole}"] == {16: size // 16}
        assert accesses[f"widths_{of_pieces}"] == {4: size // 4}
        assert accesses[f"sectors_{of_pieces}"] * 32 <= 1.1 * size
        assert accesses["distinct_bytes_stored"] == size


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float32])
def test_panels_are_moved_in_words(dtype):
    """Columns of less than 4 bytes several at a time, unless the rows begin anywhere."""
    lengths = torch.arange(128).reshape(2, 1, 64)
    x = torch.arange(2 * 130 * 64).to(dtype).reshape(2, 130, 64)
    result, accesses = on_host("reverse_subsequences", x, lengths, 1)
    assert torch.equal(result, torch.ops.torch_dml_ops.reverse_subsequences(x, lengths, 1))
    words = x.numel() * dtype.itemsize // 4
    assert accesses["widths_stored"] == {4: words}
    assert accesses["widths_loaded"] == {4: words, 8: 128}
    narrow = x[:, :, 1:62]
    result, accesses = on_host("reverse_subsequences", narrow, lengths[:, :, 1:62], 1)
    assert torch.equal(result, torch.ops.torch_dml_ops.reverse_subsequences(narrow, lengths[:, :, 1:62], 1))
    assert accesses["widths_stored"] == {dtype.itemsize: narrow.numel()}


@pytest.mark.parametrize("dtype", oracle.DTYPE_OF_SIZE.values())
def test_a_transposed_source_is_read_and_written_along_both_of_its_dimensions(dtype):
    x = torch.zeros(2, 192, 128, dtype=dtype)
    contiguous = torch.empty(2, 128, 192, dtype=dtype)
    _, accesses = on_host("slice1", x.mT, [0, 0, 0], [2, 128, 192], [1, 1, 1], out=contiguous)
    size = x.numel() * dtype.itemsize
    for kind in ("loaded", "stored"):
        assert accesses[f"bytes_{kind}"] == accesses[f"distinct_bytes_{kind}"] == size
        assert accesses[f"sectors_{kind}"] * 32 == size


@pytest.mark.parametrize("rows", [24, 32, 63, 130])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16])
def test_tiles_are_moved_in_words_wherever_the_rows_of_the_source_begin(dtype, rows):
    """Words of the source are loaded whole, with items that nothing needs, except at the ends of its memory."""
    columns = (rows + 8) // 4 * 4  # each begins equally far past an aligned address
    x = torch.arange(2 * 260 * columns).reshape(2, 260, columns).to(dtype)
    for first in range(4):
        contiguous = torch.empty(2, rows, 260, dtype=dtype)
        window = [0, first, 0], list(contiguous.shape), [1, 1, 1]
        _, accesses = on_host("slice1", x.mT, *window, out=contiguous)
        assert torch.equal(contiguous, x.mT[:, first : first + rows])
        assert accesses["widths_stored"] == {4: contiguous.numel() * dtype.itemsize // 4}
        assert accesses["widths_loaded"][4] > 10 * accesses["widths_loaded"].get(dtype.itemsize, 0)


@pytest.mark.parametrize(("pieces", "launches"), [(1, 1), (2, 1), (20, 1), (64, 1), (327, 1), (328, 2)])
def test_many_pieces_take_one_launch(pieces, launches):
    """328 are more than its parameters hold."""
    sizes = [k % 9 + 1 for k in range(pieces)]
    parts, accesses = on_host("split", torch.zeros(16, sum(sizes)), sizes, 1)
    assert accesses["launches"] == launches
    _, accesses = on_host("join", parts, 1)
    assert accesses["launches"] == launches


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16])
def test_small_items_that_are_loaded_one_by_one_are_stored_many_at_once(dtype):
    x = torch.arange(4096 * 7).to(dtype).reshape(4096, 7)
    result, accesses = on_host("slice1", x, [0, 0], [4096, 7], [1, -1])
    assert torch.equal(result, x.flip(1))
    assert accesses["widths_stored"] == {8 * dtype.itemsize: x.numel() // 8}
    result, accesses = on_host("slice_grad", x, [4096, 32], [0, 3], [4096, 13], [1, 2])
    assert torch.equal(result[:, 3:16:2], x)
    assert result.count_nonzero() == x.count_nonzero()
    assert accesses["widths_stored"] == {16: result.numel() * dtype.itemsize // 16}


@pytest.mark.parametrize("stride", [2, -2])
@pytest.mark.parametrize("count", range(493, 501))  # the last vector has so many bytes of a row, and so many zeros
def test_bytes_between_zeros_are_loaded_many_at_once(count, stride):
    x = torch.arange(64 * count).to(torch.uint8).reshape(64, count)
    result, accesses = on_host("slice_grad", x, [64, 1024], [0, 3], [64, 2 * count], [1, stride])
    expected = torch.zeros(64, 1024, dtype=torch.uint8)
    first = 3 if stride > 0 else 4
    expected[:, first : first + 2 * count : 2] = x if stride > 0 else x.flip(1)
    assert torch.equal(result, expected)
    assert accesses["widths_stored"] == {16: result.numel() // 16}
    vectors = 64 * (1024 // 16)
    assert vectors <= accesses["widths_loaded"][16] <= 2 * vectors
    assert accesses["widths_loaded"][1] <= 3 * 8  # in the vectors that end less than 16 bytes before the source does


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_narrow_rows_are_stored_side_by_side(dtype):
    """Vectors of 16 bytes would hold parts of several rows; threads that follow one another take an item each."""
    size = 4096 * 3 * dtype.itemsize
    for x, offset, stride in ((torch.zeros(4096, 8, dtype=dtype), 1, 1), (torch.zeros(4096, 3, dtype=dtype), 0, -1)):
        _, accesses = on_host("slice1", x, [0, offset], [4096, 3], [1, stride])
        assert accesses["sectors_stored"] * 32 == size
        assert accesses["distinct_sectors_loaded"] * 32 <= 1.1 * x.numel() * dtype.itemsize


def test_one_narrow_piece_does_not_slow_the_others_down():
    _, accesses = on_host("split", torch.zeros(2000, 64), [1, 63], 1)
    assert accesses["launches"] == 1
    assert accesses["widths_loaded"][16] * 16 > 1.5 * 2000 * 63 * 4  # two overlapping vectors for each stored


@pytest.mark.parametrize("axis_size", [100, 1024, 3000])
def test_lengths_of_columns_are_reversed_in_panels(axis_size):
    """Everything is loaded and stored once, however far apart the rows are that meet in one."""
    x = torch.zeros(2, axis_size, 64)
    lengths = torch.arange(128).reshape(2, 1, 64) * axis_size // 128
    _, accesses = on_host("reverse_subsequences", x, lengths, 1)
    assert accesses["widths_loaded"] == {4: x.numel(), 8: 128}
    for kind in ("loaded", "stored"):
        assert accesses[f"sectors_{kind}"] * 32 <= 1.02 * x.numel() * 4


@pytest.mark.parametrize("length_type", oracle.LENGTH_DTYPES)
def test_a_length_is_loaded_once_for_each_thread_or_vector(length_type):
    """For each vector where the axis is another dimension; along a row, for all vectors of a thread."""
    x = torch.zeros(8, 64, 128)
    row, item = torch.full((8, 64, 1), 100).to(length_type), torch.full((8, 1, 1), 50).to(length_type)
    for lengths, axis, vectors_of_thread in ((row, 2, 4), (item.expand(8, 1, 128), 1, 1)):
        _, accesses = on_host("reverse_subsequences", x, lengths, axis)
        vectors = x.numel() // 4
        widths = accesses["widths_loaded"]
        assert widths == {length_type.itemsize: vectors // vectors_of_thread, 16: vectors}
