"""What nvcc makes of the CUDA kernels, run on the CPU: a short form of `make check-compiled`, and that the checks and
counts of tests/native/cuda_compiled work."""

import json
import os
import re
from pathlib import Path

import host_build
import numpy as np
import pytest
from cuda_compiled import build, ptx
from processes import run_program, run_python, started

pytestmark = pytest.mark.thorough

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
needs_nvcc = pytest.mark.skipif(bool(build.missing_tool()), reason=build.missing_tool())
needs_sass = pytest.mark.skipif(bool(build.missing_tool(with_sass=True)), reason=build.missing_tool(with_sass=True))
CASES = int(os.environ.get("TORCH_DML_OPS_FUZZ_CASES", "1000"))
SEED = int(os.environ.get("TORCH_DML_OPS_SEED", "0"))

# ---- The kernels ----


@needs_nvcc
def test_the_kernels_that_a_page_names_are_there():
    text = (Path(build.__file__).parent / "README.md").read_text()
    for pattern in re.findall(r'--only "(.+)"', text):
        assert len(build.ptx_entries("sm_90", pattern)) == 3
    with pytest.raises(SystemExit, match=r"^--only: no kernel's name has nothing; they are named as copy_\w+<.*>$"):
        build.ptx_entries("sm_90", "nothing")


@needs_nvcc
@pytest.mark.parametrize(
    ("of", "number"), [("unsigned int, int", 10), ("unsigned short, long", 5)], ids=["32 bits", "64 bits"]
)
def test_compiled_kernels_do_what_random_plans_say(of, number):
    """Those for items of 4 bytes and offsets of 32 bits, and for 2 bytes and 64 bits, whose stores compilers take apart
    first, from their PTX; `make check-compiled` runs all."""
    kernels = [entry.kernel() for entry in build.ptx_entries("sm_90", rf"<{of}\b")]
    assert len(kernels) >= number
    folder = build.FOLDER / re.sub(r"\W+", "_", of)
    plans = [CASES, SEED, "cuda"], ["alignments/10", "cuda"]
    programs = (build.each_kernel, []), (build.large_plans, []), *((build.kernels_fuzz, given) for given in plans)
    for program, arguments in programs:
        said = run_program(program(folder, kernels), *arguments, CUDA_COMPILED_PARTIAL="1")
        assert " right" in said


@needs_sass
def test_no_case_takes_more_instructions_than_was_written():
    run_python(BENCHMARKS / "cuda_instructions.py", "--check")


# ---- The machine ----

HEAD = """.version 8.0
.target sm_80
.address_size 64
"""
ENTRY = """.visible .entry {name}(
.param .align 8 .b8 {name}_param_0[16]
)
.maxntid 64, 1, 1
.minnctapersm 1
{{
.reg .pred %p<4>;
.reg .b16 %rs<4>;
.reg .b32 %r<16>;
.reg .b64 %rd<16>;
.shared .align 4 .b8 numbers[256];
ld.param.v2.u64 {{%rd1, %rd2}}, [{name}_param_0];
mov.u32 %r1, %tid.x;
mul.wide.u32 %rd3, %r1, 4;
add.s64 %rd4, %rd1, %rd3;
add.s64 %rd5, %rd2, %rd3;
{body}
}}
"""
# Every thread loads a number, and stores that of another thread.
REVERSE = """ld.global.u32 %r2, [%rd4];
shl.b32 %r3, %r1, 2;
mov.u32 %r4, numbers;
add.s32 %r5, %r4, %r3;
st.shared.u32 [%r5], %r2;
bar.sync 0;
sub.s32 %r6, %r4, %r3;
ld.shared.u32 %r7, [%r6+252];
st.global.u32 [%rd5], %r7;
ret;"""
EXCHANGE = "bar.sync 0;\nsub.s32 %r6, %r4, %r3;\nld.shared.u32 %r7, [%r6+252];"
MISTAKES = {
    "no_barrier": ("bar.sync 0;", "", "reads what nothing wrote"),
    "race": (EXCHANGE, "ld.shared.u32 %r7, [numbers];", "read and write a byte of shared memory without a barrier"),
    "some_wait": (EXCHANGE, "setp.eq.u32 %p1, %r1, 3;\n@%p1 bar.sync 0;", "wait at different barriers"),
    "not_written": ("st.shared.u32 [%r5], %r2;", "", "reads what nothing wrote"),
    "past_shared": ("+252", "+256", "shared memory, out of bounds"),
    "past_the_source": ("[%rd4]", "[%rd4+4]", "which no copy reaches"),
    "not_aligned": ("[%rd4]", "[%rd4+2]", "which is not aligned"),
    "past_the_destination": ("[%rd5]", "[%rd5+4]", "which no copy writes"),
    "twice": ("ret;", "st.global.u32 [%rd5], %r7;\nret;", "a second time"),
    "endless": ("ret;", "$L__1:\nbra $L__1;", "does not end"),
}
OPERATIONS = {  # of x and y, both unsigned
    "add.s32 %r4, %r2, %r3": lambda x, y: x + y,
    "mul.hi.u32 %r4, %r2, %r3": lambda x, y: x * y >> 32,
    "mul.hi.s32 %r4, %r2, %r3": lambda x, y: signed(x) * signed(y) >> 32,
    "mad.lo.s32 %r4, %r2, %r3, 5": lambda x, y: x * y + 5,
    "sub.s32 %r4, %r2, -7": lambda x, y: x + 7,
    "shr.s32 %r4, %r2, 35": lambda x, y: -(x >> 31),
    "shr.u32 %r4, %r2, 35": lambda x, y: 0,
    "shl.b32 %r4, %r2, 5": lambda x, y: x << 5,
    "shf.l.wrap.b32 %r4, %r2, %r3, 35": lambda x, y: (y << 32 | x) << 3 >> 32,
    "shf.r.clamp.b32 %r4, %r2, %r3, 35": lambda x, y: y,
    "prmt.b32 %r4, %r2, %r3, 0x7061": lambda x, y: byte(x, 1) | byte(y, 2) << 8 | byte(x, 0) << 16 | byte(y, 3) << 24,
    "prmt.b32 %r4, %r2, %r3, 0xB210": lambda x, y: x & 0xFFFFFF | (0xFF000000 if x >> 31 else 0),
    "lop3.b32 %r4, %r2, %r3, 0xFF, 0xE2": lambda x, y: x & y | 0xFF & ~y,
    "bfe.s32 %r4, %r2, 28, 4": lambda x, y: signed(x) >> 28,
    "bfi.b32 %r4, %r2, %r3, 8, 16": lambda x, y: y & 0xFF0000FF | (x & 0xFFFF) << 8,
    "min.s32 %r4, %r2, %r3": lambda x, y: min(signed(x), signed(y)),
    "max.u32 %r4, %r2, %r3": max,
    "abs.s32 %r4, %r2": lambda x, y: abs(signed(x)),
    "setp.lt.s32 %p1, %r2, %r3;\nselp.b32 %r4, 1, 2, %p1": lambda x, y: 1 if signed(x) < signed(y) else 2,
    "cvt.u16.u32 %rs1, %r2;\ncvt.s32.s16 %r4, %rs1": lambda x, y: (x & 0xFFFF ^ 0x8000) - 0x8000,
    "mov.b32 {%rs1, %rs2}, %r2;\nmov.b32 %r4, {%rs2, %rs1}": lambda x, y: x >> 16 | x << 16,
    "{ .reg .b16 tmp; mov.b32 {tmp, %rs1}, %r2; }\ncvt.u32.u16 %r4, %rs1": lambda x, y: x >> 16,
    "mul.wide.s32 %rd6, %r2, %r3;\nshr.u64 %rd7, %rd6, 16;\ncvt.u32.u64 %r4, %rd7": lambda x, y: (
        signed(x) * signed(y) >> 16
    ),
}


def signed(x: int) -> int:
    return x - (x >> 31 << 32)


def byte(x: int, k: int) -> int:
    return x >> 8 * k & 255


def self_test(bodies):
    """What self_test.cpp says of kernels with these bodies, by their names."""
    text = HEAD + "".join(ENTRY.format(name=name, body=body) for name, body in bodies.items())
    kernels = [entry.kernel() for entry in ptx.entries(text)]
    host = host_build.objects([build.PROGRAMS / "self_test.cpp"], jobs=1)
    objects = [*build.translated_objects(kernels, jobs=2), *host]
    program = build.linked(build.FOLDER / f"self_test_{next(iter(bodies))}", objects, checked=False)
    return {name: started(program, name).stdout for name in bodies}


def test_machine_sees_mistakes():
    bodies = {name: REVERSE.replace(old, new) for name, (old, new, _) in MISTAKES.items()}
    said = self_test({"no_mistake": REVERSE} | bodies)
    loaded, stored, _ = said["no_mistake"].splitlines()
    assert stored.split() == loaded.split()[::-1]
    for name, (_, _, message) in MISTAKES.items():
        assert said[name].startswith("MISMATCH"), (name, said[name])
        assert message in said[name].splitlines()[0], (name, said[name])
        assert f"kernel {name}" in said[name]


def test_machine_computes_as_ptx_says():
    loads = "ld.global.u32 %r2, [%rd4];\nxor.b32 %r5, %r1, 1;\nmul.wide.u32 %rd8, %r5, 4;\nadd.s64 %rd9, %rd1, %rd8;\n"
    loads += "ld.global.u32 %r3, [%rd9];\n"
    bodies = {f"k{k}": f"{loads}{code};\nst.global.u32 [%rd5], %r4;\nret;" for k, code in enumerate(OPERATIONS)}
    for said, (code, expected) in zip(self_test(bodies).values(), OPERATIONS.items(), strict=True):
        xs, results, _ = ([int(n) for n in line.split()] for line in said.splitlines())
        for i, result in enumerate(results):
            assert result == expected(xs[i], xs[i ^ 1]) % 2**32, (code, hex(xs[i]), hex(xs[i ^ 1]), hex(result))


def test_threads_of_a_warp_part_and_meet():
    """Threads 0 to 7 of each 32 go another way than the others; thread i goes around a loop i % 4 + 1 times."""
    body = """and.b32 %r2, %r1, 31;
setp.lt.u32 %p1, %r2, 8;
@%p1 bra $L__few;
mov.u32 %r3, 1;
bra $L__meet;
$L__few:
mov.u32 %r3, 2;
$L__meet:
and.b32 %r4, %r1, 3;
$L__loop:
add.s32 %r4, %r4, -1;
setp.ge.s32 %p2, %r4, 0;
@%p2 bra $L__loop;
st.global.u32 [%rd5], %r3;
ret;"""
    [said] = self_test({"ways": body}).values()
    _, stored, visits = ([int(n) for n in line.split()] for line in said.splitlines())
    assert stored == [2 if i % 32 < 8 else 1 for i in range(64)]
    start, many, few, meet, loop, end = visits
    assert (start, many, few, meet, loop, end) == (2, 2, 2, 2, 2 * 4, 2)


def test_what_is_not_understood_is_refused():
    for body, message in (
        ("shfl.sync.idx.b32 %r2, %r1, 0, 31, -1;\nret;", r"line 20: shfl.sync.idx.b32 .*: shfl.sync.idx.b32"),
        ("mov.u32 %r99, 1;\nret;", "register %r99"),
        ("ld.local.u32 %r2, [%rd4];\nret;", "ld.local.u32"),
    ):
        text = HEAD + ENTRY.format(name="k", body=body)
        with pytest.raises(ptx.Unknown, match=message):
            ptx.entries(text)[0].kernel()


# ---- The counts ----


@pytest.fixture
def instructions(benchmark):
    return benchmark("cuda_instructions")


def execute_affine(numbers, dst, src):
    """A plan of affine copies as text says it, by index arithmetic on the memory of arrays."""
    numbers = iter(numbers)
    for _ in range(next(numbers)):
        to, at = (np.array(next(numbers) // src.itemsize) for _ in range(2))
        inside = np.array(True)
        for _ in range(next(numbers)):
            n, dst_stride, src_stride, begin, step, count = (next(numbers) for _ in range(6))
            j = np.arange(n)
            q, r = np.divmod(j - begin, step)
            to = to[..., None] + j * dst_stride
            at = at[..., None] + q * src_stride
            inside = inside[..., None] & (r == 0) & (q >= 0) & (q < count)
        dst[to] = np.where(inside, src[np.where(inside, at, 0)], 0)


def execute_reverse(numbers, dst, src, lengths):
    _, _, rank, *dims = numbers
    dims = [dims[5 * k : 5 * k + 5] for k in range(rank)]
    index = np.indices([n for n, *_ in dims])
    [axis] = (k for k, d in enumerate(dims) if d[4])
    length = lengths[sum(i * d[3] for i, d in zip(index, dims, strict=True))]
    to = sum(i * d[1] for i, d in zip(index, dims, strict=True))
    index[axis] = np.where(index[axis] < length, length - 1 - index[axis], index[axis])
    dst[to] = src[sum(i * d[2] for i, d in zip(index, dims, strict=True))]


def test_plans_of_the_counted_cases_do_what_the_cases_say(instructions):
    """Each at the smallest size, compared with NumPy."""
    seen = set()
    for case in instructions.counted_cases():
        case = instructions.sized(case, "64 KB")
        if case.key in seen:
            continue
        seen.add(case.key)
        x = case.array()

        def in_memory(a, layout=case.layout):
            return a.transpose(instructions.ORDERS.get(layout, range(a.ndim))).ravel()

        kind, item, *numbers = instructions.plan(case).split()
        numbers = list(map(int, numbers))
        assert int(item) == x.itemsize
        src, dst = in_memory(x), np.full(2 * x.size + 512 * 64, 101, x.dtype)
        padding = 512 // x.itemsize
        if kind == "reverse":
            lengths = case.sequence_lengths()
            assert numbers[0] <= lengths.min() <= lengths.max() <= numbers[1]
            execute_reverse(numbers, dst, src, lengths.ravel())
            i = np.arange(x.shape[case.axis]).reshape([-1 if d == case.axis else 1 for d in range(x.ndim)])
            i = np.where(i < lengths, lengths - 1 - i, i)
            expected = [in_memory(np.take_along_axis(x, np.broadcast_to(i, x.shape), case.axis))]
        elif case.operation == "slice":
            execute_affine(numbers, dst, src)
            expected = [in_memory(x[case.index], "contiguous" if case.to_contiguous else case.layout)]
        elif case.operation == "slice_grad":
            execute_affine(numbers, dst, in_memory(x[case.index]))
            whole = np.zeros_like(x)
            whole[case.index] = x[case.index]
            expected = [in_memory(whole)]
        else:
            pieces = np.split(x, np.cumsum(case.split_sizes)[:-1], case.axis)
            pieces = [in_memory(piece) for piece in pieces]
            apart = np.concatenate([np.append(p, np.zeros(-p.size % padding, p.dtype)) for p in pieces])
            execute_affine(numbers, dst, src if case.operation == "split" else apart)
            expected = pieces if case.operation == "split" else [src]
        at = 0
        for piece in expected:
            assert np.array_equal(dst[at : at + piece.size], piece), case.key
            at += -(-piece.size // padding) * padding
    assert len(seen) > 150


def test_a_case_that_gets_worse_by_a_tenth_is_refused(instructions):
    before = [{"case": "a", "instructions_per_16_bytes": 100.0}, {"case": "b", "instructions_per_16_bytes": 30.0}]
    for factor, refused in ((0.5, 0), (1.0, 0), (1.09, 0), (1.11, 2)):
        now = [row | {"instructions_per_16_bytes": factor * row["instructions_per_16_bytes"]} for row in before]
        assert len(instructions.worse(before, now)) == refused
    assert instructions.worse(before[:1], [before[0] | {"instructions_per_16_bytes": 150.0}]) == [
        "a: 150.0 instructions per 16 bytes, before 100.0"
    ]


def test_every_case_of_the_gpu_benchmark_is_counted(instructions):
    rows = json.loads(instructions.RESULTS.read_text())
    assert {case.key for case in instructions.counted_cases()} == {row["case"] for row in rows}
    assert {case.key for case in instructions.gpu_cases()} <= {row["case"] for row in rows}
    assert all(set(row["ratio"]) == {"A100", "H100", "H200", "B200"} for row in rows)
    assert f"{instructions.table(rows)}\n" in instructions.RESULTS.with_suffix(".md").read_text()
