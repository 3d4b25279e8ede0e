"""The operators as Inductor computes them: the bits and strides of eager mode, in as few loops as the rule allows.

Compiling C++ takes seconds: what can share a compilation does, and where the generated code is all that is asked for,
none is compiled.
"""

import contextlib
import logging
import re
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import oracle
import plain_torch
import pytest
import torch
from oracle import as_list
from processes import run_python, started
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend
from torch._dynamo.utils import counters
from torch._functorch import config as functorch_config
from torch._inductor import config as inductor_config
from torch._inductor import metrics
from torch._inductor.utils import fresh_cache, get_code
from transform_cases import ANY_SHAPE, COMPILED, LAYOUTS, gradients, same, values

import torch_dml_ops as dml
from torch_dml_ops import _libraries
from torch_dml_ops._compile import inductor, rule

pytestmark = pytest.mark.usefixtures("uncached_compiler")


@pytest.fixture
def no_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compilations that would leave an operator to its kernel fail."""
    monkeypatch.delattr(inductor, "_kernel")


def run(f: Callable[..., Any], mode: str, *arguments: Any, **options: Any) -> Any:
    """What the compiled function returns."""
    with dml.set_fusion(mode):
        return torch.compile(f, fullgraph=True, **options)(*arguments)


def generated(f: Callable[..., Any], mode: str, *arguments: Any, **options: Any) -> tuple[int, int]:
    """How many kernels Inductor generates for the function, and how many calls of ours it leaves."""
    metrics.reset()
    compiled = torch.compile(f, fullgraph=True, **options)

    def call() -> None:
        with contextlib.suppress(AssertionError):  # nothing is run, so that there are no results
            compiled(*arguments)

    with dml.set_fusion(mode):
        code = get_code(call)
    return metrics.generated_kernel_count, sum(text.count(" = torch.ops.torch_dml_ops.") for text in code)


def same_bits(actual: Any, expected: Any) -> None:
    """Equal to the last bit, NaNs included, and in memory in the same way."""
    for a, e in zip(as_list(actual), as_list(expected), strict=True):
        assert (a.dtype, a.shape, a.stride()) == (e.dtype, e.shape, e.stride())
        assert oracle.items(a).tobytes() == oracle.items(e).tobytes()


def any_bits(sizes: Sequence[int], dtype: torch.dtype) -> Tensor:
    """NaNs with every payload and bools of every byte among them."""
    generator = torch.Generator().manual_seed(0)
    memory = torch.randint(0, 256, (*sizes, dtype.itemsize), generator=generator, dtype=torch.uint8)
    return memory.view(dtype)[..., 0]


# Bits and strides.

# A length per batch item, and a length per row, of every dtype; some are past the axis' end.
PER_ITEM = torch.tensor([0, 5, 30]).reshape(3, 1, 1)
PER_ROW = torch.arange(24).reshape(3, 8, 1)


def every_way(ops: ModuleType, x: Tensor) -> list[Tensor]:
    """Each operator alone on a tensor of sizes (3, 8, 21), with strides of all kinds in the innermost dimension too."""
    a, b, c = x.shape
    return [
        ops.slice1(x, [0, 0, 0], [a, b, c], [1, 1, -1]),
        ops.slice1(x, [0, 0, 0], [a, b, c], [-1, 2, -3]),
        ops.slice1(x, [1, 0, 2], [a - 1, b, c - 3], [1, -1, 1]),
        ops.slice_grad(x, [a, 2 * b + 1, c], [0, 0, 0], [a, 2 * b, c], [-1, 2, 1]),
        ops.slice_grad(x, [a, b, 3 * c], [0, 0, 0], [a, b, 3 * c], [1, 1, -3]),
        ops.slice_grad(x, [a + 1, b, c + 5], [1, 0, 2], [a, b, c], [1, 1, 1]),
        *ops.split(x, [1, b - 1], 1),
        *ops.split(x, [4, c - 5, 1], 2),
        ops.join([x, x], 1),
        ops.join([x, x], 2),
        ops.reverse_subsequences(x, PER_ITEM.expand(a, 1, c), 1),
        ops.reverse_subsequences(x, PER_ROW, 2),
    ]


def alone(x: Tensor) -> list[Tensor]:
    """The result of each operator itself, which nothing else has computed with."""
    return every_way(dml, x)


def computed_with(x: Tensor) -> list[Tensor]:
    """And returned: a loop that converts to compute must not store what it has converted."""
    # This torch negates a bool of other bytes than 0 and 1 wrongly, without these operators too.
    wrong = torch.bool if torch.__version__ < "2.13" else None
    return [z for y in every_way(dml, x) for z in ([y] if y.dtype == wrong else [y, y.logical_not()])]


def between_computations(x: Tensor) -> list[Tensor]:
    """Negation before and after: it is exact in every dtype, so nothing may differ."""
    return [-y for y in every_way(dml, -x)]


# Besides float32: one that is computed with as something wider, one as bytes, and one not at all.
FEW_DTYPES = (torch.float16, torch.bool, torch.complex64)
OTHER_DTYPES = tuple(dtype for dtype in oracle.DTYPES if dtype not in (torch.float32, *FEW_DTYPES))
COMPUTED = tuple(dtype for dtype in oracle.DTYPES if dtype in rule.FORMULA_DTYPES and dtype != torch.bool)


@pytest.mark.parametrize(
    ("used", "mode", "dtypes", "share"),
    [
        (alone, "always", FEW_DTYPES, 1),
        (alone, "never", FEW_DTYPES, 1),
        (computed_with, "always", (torch.float16, torch.bool), 1),
        *(
            pytest.param(*row, marks=pytest.mark.thorough)
            for row in (
                (alone, "always", OTHER_DTYPES, 3),
                (alone, "rule", FEW_DTYPES, 1),
                (computed_with, "always", (torch.bfloat16, torch.float32), 1),
                (between_computations, "always", COMPUTED, 3),
            )
        ),
    ],
)
def test_bits_and_strides_of_dtypes_and_layouts(
    used: Callable[[Tensor], list[Tensor]], mode: str, dtypes: Sequence[torch.dtype], share: int
) -> None:
    """Of each input every result, or one in three, others than of the input before."""

    def f(*inputs: Tensor) -> list[Tensor]:
        return [y for k, x in enumerate(inputs) for y in used(x)[k % share :: share]]

    make = values if used is between_computations else any_bits
    inputs = [make((3, 8, 21), dtype) for dtype in dtypes]
    if used is not computed_with:
        inputs += [layout(make((3, 8, 21), torch.float32)) for layout in LAYOUTS.values()]
    same_bits(run(f, mode, *inputs), f(*inputs))


def test_channels_last_stays() -> None:
    def f(x: Tensor) -> list[Tensor]:
        return [z for case in ANY_SHAPE for y in case.results(dml, x + 1) for z in (y, y * 2)]

    x = values((2, 3, 4, 5), torch.float32).contiguous(memory_format=torch.channels_last)
    same_bits(run(f, "always", x), f(x))


@pytest.mark.parametrize("dtype", oracle.LENGTH_DTYPES, ids=str)
def test_lengths_of_every_dtype_to_the_ends_of_its_range(dtype: torch.dtype) -> None:
    limits = torch.iinfo(dtype)
    numbers = [0, 1, 5, 6, 7, limits.max, limits.max // 2 + 1, limits.min]
    lengths = oracle.tensor(oracle.np.array(numbers, str(dtype).removeprefix("torch.")), dtype, "cpu").reshape(1, 8)

    def f(x: Tensor, lengths: Tensor) -> list[Tensor]:
        y = dml.reverse_subsequences(-x, lengths, 0)
        return [-y, -dml.reverse_subsequences(-x.t(), lengths.t(), 1)]

    x = values((6, 8), torch.float32)
    same_bits(run(f, "always", x, lengths), f(x, lengths))


def test_an_input_that_is_written_to_afterwards() -> None:
    def f(x: Tensor) -> Tensor:
        y = dml.slice1(x, [0], [6], [-1])
        x.mul_(2)
        return y + 1

    x, z = values((6,), torch.float32), values((6,), torch.float32)
    same_bits(run(f, "always", x), f(z))
    same_bits(x, z)


# Sizes and numbers that change.


def test_one_graph_serves_every_size_and_number(no_kernels: None) -> None:
    counter = CompileCounterWithBackend("inductor")

    def f(ops: ModuleType, x: Tensor, y: Tensor, n: int) -> list[Tensor]:
        lengths = torch.full((1, 7), n)
        z = ops.slice1(-x, [0, 0], x.shape, [-1, 2])
        return [
            -t
            for t in (
                ops.slice1(-y, [n, 0], [2, 7], [1, -2], [2, 3]),
                ops.slice_grad(-y, [n * 9, n * 8], [n, 0], [8, 7], [-1, 1]),
                *ops.split(-y, [n, 7 - n], 1),
                ops.join([-y[:n], -y], 0),
                ops.reverse_subsequences(-y, lengths, 0),
                z,
                ops.slice_grad(-z, x.shape, [0, 0], x.shape, [-1, 2]),
                *ops.split(-x, [1, x.shape[1] - 1], 1),
                ops.join([-x, -z], 1),
                ops.reverse_subsequences(-x, torch.arange(x.shape[0])[:, None], 1),
            )
        ]

    g = torch.compile(lambda *arguments: f(dml, *arguments), fullgraph=True, dynamic=True, backend=counter)
    y = values((8, 7), torch.float32)
    with dml.set_fusion("always"):
        for sizes, n in (((4, 5), 2), ((7, 3), 4), ((2, 9), 5)):
            x = values(sizes, torch.float32)
            same(g(x, y, n), f(plain_torch, x, y, n))
            same_bits(g(x, y, n), f(dml, x, y, n))
    assert counter.frame_count == 1


def test_a_stride_of_unknown_sign_is_left_to_the_kernel() -> None:
    """Which end a walk begins at is decided by the kernel, so that one graph serves both."""

    def f(x: Tensor, n: int) -> Tensor:
        return -dml.slice1(-x, [0], [7], [n], [2])

    x, counter = values((7,)), CompileCounterWithBackend("inductor")
    assert generated(f, "always", x, 3, dynamic=True)[1] == 1
    torch._dynamo.reset()
    g = torch.compile(f, fullgraph=True, dynamic=True, backend=counter)
    with dml.set_fusion("always"):
        for n in (3, -2, 5):
            same_bits(g(x, n), f(x, n))
    assert counter.frame_count == 1


# Derivatives.


def test_forward_and_backward() -> None:
    def f(ops: ModuleType) -> Callable[..., list[Tensor]]:
        def g(*tensors: Tensor) -> list[Tensor]:
            given = iter(tensors)
            return [y.sin() for case in COMPILED for y in case.results(ops, *(next(given).exp() for _ in case.sizes))]

        return g

    tensors = [x for case in COMPILED for x in case.tensors(torch.float64)]
    with dml.set_fusion("always"):
        actual = gradients(torch.compile(f(dml), fullgraph=True), *tensors)
    torch.testing.assert_close(actual, gradients(f(plain_torch), *tensors))


# What is generated.

SIZES = (4, 32, 128)
WHOLE = [0, 0, 0], SIZES
ITEMS = torch.tensor([0, 7, 32, 40]).reshape(4, 1, 1).expand(4, 1, 128)
ROWS = torch.arange(128).reshape(4, 32, 1)

# A function of a (4, 32, 128) float32 tensor, and the kernels that are generated and the calls that are left, if
# everything is fused that can be: one kernel, and no call.
ONE_KERNEL: dict[str, Callable[[Tensor], Any]] = {
    "slice1, before": lambda x: (dml.slice1(x, *WHOLE, [1, 1, -1]) * 2 + 1).relu(),
    "slice1, after": lambda x: dml.slice1(x.relu(), *WHOLE, [1, -2, 3]),
    "slice_grad, between": lambda x: dml.slice_grad(x * 2, [4, 32, 256], [0, 0, 0], [4, 32, 256], [1, 1, 2]) + 1,
    "split, before": lambda x: (lambda a, b: a * b.sigmoid())(*dml.split(x, [64, 64], 2)),
    "reverse_subsequences, before": lambda x: (dml.reverse_subsequences(x, ITEMS, 1) * 2 + 1).relu(),
    "reverse_subsequences, between": lambda x: dml.reverse_subsequences(x.exp(), ROWS, 2) + 1,
    "join, after": lambda x: dml.join([x.sin(), x.cos()], 1),
    "sum": lambda x: (dml.slice1(x, *WHOLE, [1, -1, 1]) * 2).sum(-1),
    "chain": lambda x: dml.reverse_subsequences(dml.slice1(x * 2, *WHOLE, [1, -1, 1]), ITEMS, 1).tanh(),
}


@pytest.mark.parametrize("name", ONE_KERNEL)
def test_one_kernel_and_no_call_is_left(name: str) -> None:
    x = values(SIZES, torch.float32)
    kernels, calls = generated(ONE_KERNEL[name], "always", x)
    # On the CPU two, each of which writes its part of what is joined, and no third one that joins them.
    assert (kernels - (name == "join, after" and kernels == 2), calls) == (1, 0)
    assert generated(ONE_KERNEL[name], "never", x)[1] > 0


@pytest.mark.parametrize("dtype", [d for d in oracle.DTYPES if d not in rule.FORMULA_DTYPES], ids=str)
def test_dtypes_without_generated_code_keep_the_kernel(dtype: torch.dtype) -> None:
    x = torch.empty(SIZES, dtype=dtype)
    assert generated(lambda x: dml.slice1(x, *WHOLE, [1, 1, -1]), "always", x) == (0, 1)


@pytest.mark.parametrize(
    "computed",
    [
        lambda x: x.mT + x,
        lambda x: torch.nn.functional.pad(x.mT, (1, 2)),
        lambda x: x.mT.clone(memory_format=torch.contiguous_format),
    ],
)
def test_what_a_kernel_reads_is_stored_as_in_eager_mode(computed: Callable[[Tensor], Tensor]) -> None:
    """Or what it gives would be copied once more, into the strides that it has in eager mode."""
    assert generated(lambda x: reversed_in(1, computed(x)), "never", torch.empty(3, 20, 20)) == (1, 1)


# The rule. Nothing is run, so that large tensors take no memory.


def empty(size: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Of so many bytes, 4096 at least."""
    return torch.empty(size // 4096 // dtype.itemsize, 4, 1024, dtype=dtype)


def reversed_in(d: int, x: Tensor) -> Tensor:
    return dml.slice1(x, [0, 0, 0], x.shape, [-1 if k == d else 1 for k in range(3)])


def every(step: int, x: Tensor) -> Tensor:
    return dml.slice1(x, [0, 0, 0], x.shape, [1, 1, step])


def padded(x: Tensor) -> Tensor:
    a, b, c = x.shape
    return dml.slice_grad(x, [a, b, c + 1], [0, 0, 1], [a, b, c], [1, 1, 1])


def spread(x: Tensor) -> Tensor:
    a, b, c = x.shape
    return dml.slice_grad(x, [a, 2 * b, c], [0, 0, 0], [a, 2 * b, c], [1, 2, 1])


def halves(x: Tensor, axis: int = 2) -> list[Tensor]:
    return [y + 1 for y in dml.split(x, [x.shape[axis] // 2] * 2, axis)]


def gated(x: Tensor) -> Tensor:
    a, b = dml.split(x, [512, 512], 2)
    return a * b.sigmoid()


def by_row(x: Tensor) -> Tensor:
    return dml.reverse_subsequences(x, torch.ones(x.shape[0], 4, 1, dtype=torch.int64), 2)


def by_item(x: Tensor) -> Tensor:
    return dml.reverse_subsequences(x, torch.ones(x.shape[0], 1, 1, dtype=torch.int64).expand(-1, 1, 1024), 1)


def by_column(x: Tensor) -> Tensor:
    return dml.reverse_subsequences(x, torch.ones(x.shape[0], 1, 1024, dtype=torch.int64), 1)


def read_elsewhere(y: Tensor) -> list[Tensor]:
    return [y * 2, reversed_in(1, y)]


def used_twice(y: Tensor) -> Tensor:
    """By a computation and by one that needs it in memory."""
    return y + (y @ y.mT).sum()


KB, MB = 1 << 10, 1 << 20
# By the line of the rule that decides: functions, and the bytes of their tensor, of float32 unless it says otherwise.
SITUATIONS: dict[str, list[tuple[Any, ...]]] = {
    "on a GPU a pass over memory is saved": [
        (lambda x: reversed_in(2, x) + 1, 64 * KB, torch.int16),
        (lambda x: dml.join([x, x + 1], 2), 128 * MB, torch.uint8),
    ],
    "a GPU without kernels would need several of torch's": [(lambda x: reversed_in(2, x), KB)],
    "on a GPU nothing is saved": [(lambda x: reversed_in(2, x), KB)],
    "the result is tiny": [(by_row, 4 * KB, torch.int8)],
    "a scalar loop would be slower": [
        (lambda x: by_row(x) + 1, 64 * KB),
        (lambda x: padded(x) + 1, 64 * KB),
        (lambda x: reversed_in(1, x) + 1, MB, torch.int16),
        (lambda x: reversed_in(2, x) + 1, MB, torch.float16),
        (lambda x: reversed_in(0, x[..., ::2]) + 1, 4 * MB),
        (lambda x: every(5, x) + 1, MB),
        (lambda x: by_column(x) + 1, MB),
    ],
    "the result is small": [(lambda x: reversed_in(2, x) + 1, 64 * KB)],
    "a sum over masked loads would be slower than a pass over the cache": [(lambda x: (spread(x) * 2).mean(), MB)],
    "gathering every vector would be slower than a pass over memory": [
        (lambda x: every(2, x) + 1, MB),
        (lambda x: every(4, x) + 1, MB),
        (lambda x: (reversed_in(2, x) * 2).mean(), 4 * MB),
    ],
    "the result is reduced and never stored": [
        (lambda x: (spread(x) * 2).mean(), 4 * MB),
        (lambda x: spread(x).amax(), MB),
        (lambda x: (reversed_in(2, x) * 2).mean(), 128 * MB),
    ],
    "the result is so large that it needs huge pages": [(lambda x: reversed_in(2, x) + 1, 128 * MB)],
    "an input is a formula, which is then never stored": [
        (lambda x: reversed_in(2, x + 1), 4 * MB),
        (lambda x: dml.join([x, x + 1], 2), 4 * MB),
    ],
    "each piece would be a pass over an input that the cache does not hold": [(halves, 8 * MB)],
    "the result becomes part of formulas, and is never stored": [
        (halves, 4 * MB),
        (lambda x: halves(x, 1), 8 * MB),
        (gated, 8 * MB),
        (lambda x: by_item(x) + 1, 4 * MB),
        (lambda x: reversed_in(1, x) + 1, 4 * MB),
    ],
    "generated code has other bits": [(lambda x: reversed_in(1, x), MB, torch.bfloat16)],  # before the rule is asked
    "no pass over memory would be saved": [
        (lambda x: reversed_in(1, x), 4 * MB),
        (lambda x: dml.join([x, x], 2) + 1, 4 * MB),
        (lambda x: used_twice(by_item(x)), 4 * MB),
        (lambda x: read_elsewhere(x + 1), 4 * MB),
        (lambda x: reversed_in(1, x) @ x.mT, 4 * MB),
    ],
}


Decided = Callable[..., tuple[list[str], int]]


@pytest.fixture
def decided(caplog: pytest.LogCaptureFixture) -> Decided:
    """What the rule says of a function's operator, and how many calls are left."""

    def said(f: Callable[..., Any], *arguments: Any, **options: Any) -> tuple[list[str], int]:
        with caplog.at_level(logging.DEBUG, inductor.log.name):
            _, calls = generated(f, "rule", *arguments, **options)
        texts = [record.getMessage() for record in caplog.records if record.name == inductor.log.name]
        return [text.partition(": ")[2] for text in texts], calls

    return said


@pytest.mark.parametrize(
    ("because", "situation"),
    [pytest.param(because, s, id=because) for because, situations in SITUATIONS.items() for s in situations],
)
def test_the_line_of_the_rule_that_decides(
    because: str, situation: tuple[Any, ...], decided: Decided, monkeypatch: pytest.MonkeyPatch
) -> None:
    f, *of_tensor = situation
    if "GPU" in because:
        monkeypatch.setattr(rule.Call, "device_type", "cuda")
        monkeypatch.setattr(_libraries, "devices_with_kernels", () if "without" in because else ("cuda",))
    fuses = any(line.fuses for line in rule.RULE if line.because == because)
    said = [f"{'fused' if fuses else 'kernel'}, as {because}"]
    assert decided(f, empty(*of_tensor)) == (said, not fuses)


def test_the_rule_visits_each_computation_once() -> None:
    """There are 2**30 ways from the operator to the mean."""

    def f(x: Tensor) -> Tensor:
        y = reversed_in(1, x)
        for _ in range(30):
            y = y * y.sigmoid()
        return y.mean()

    assert generated(f, "rule", empty(MB))[1] == 0


def test_every_line_of_the_rule_has_a_situation() -> None:
    assert {line.because for line in rule.RULE} | {"generated code has other bits"} == {*SITUATIONS}


@pytest.mark.parametrize("line", [line for line in rule.RULE if "GPU" not in line.because], ids=lambda x: x.because)
def test_the_benchmark_case_that_a_line_names_is_decided_by_it(
    line: rule.Line, benchmark: Callable[[str], ModuleType], decided: Decided
) -> None:
    cases = {case.key: case for case in benchmark("fused_cases").cpu_cases(1)}
    f, arguments = cases[line.case].function()
    said, _ = decided(f, *arguments, dynamic=False)
    assert [text.partition(", as ")[2] for text in said] == [line.because]


def test_the_benchmark_cases_that_lines_for_gpus_name_are_measured(benchmark: Callable[[str], ModuleType]) -> None:
    measured = {case.key for case in benchmark("fused_cases").gpu_cases()}
    assert {line.case for line in rule.RULE if "GPU" in line.because} <= measured


# Other ways to compile.


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(16, 16)
        self.weight = torch.nn.Parameter(values((5, 16), torch.float32))

    def forward(self, x: Tensor) -> Tensor:
        y = dml.slice1(self.linear(x).relu(), [0, 0, 0], x.shape, [1, -1, -1])
        y = dml.reverse_subsequences(y, torch.arange(5).reshape(1, 5, 1).expand(x.shape[0], 5, 1), 2)
        y = y * dml.slice1(self.weight, [0, 0], [5, 16], [-1, -1])
        a, b = dml.split(y, [1, 15], 2)
        return dml.join([b.tanh(), a.exp()], 2) + dml.slice_grad(b * 2, x.shape, [0, 0, 1], b.shape, [1, 1, 1])


@pytest.mark.thorough
@pytest.mark.parametrize("way", ["cpp_wrapper", "freezing", "max_autotune"])
def test_other_ways_to_compile(way: str) -> None:
    model, x = Model(), values((3, 5, 16), torch.float32)
    with torch.no_grad():
        torch.testing.assert_close(run(model, "always", x, options={way: True}), model(x))


# Caches, and when the formulas are registered.


@pytest.mark.parametrize(("counted", "prefix"), [("inductor", "fxgraph"), ("aot_autograd", "autograd")])
def test_a_cache_of_one_mode_is_not_read_by_another(counted: str, prefix: str) -> None:
    def f(x: Tensor) -> Tensor:
        return dml.slice1(x, [0], [64], [-2]) + 1

    def hits(mode: str) -> tuple[int, int]:
        """How many graphs came from the cache, and how many did not."""
        torch._dynamo.reset()
        counters.clear()
        same_bits(run(f, mode, x), f(x))
        return counters[counted][f"{prefix}_cache_hit"], counters[counted][f"{prefix}_cache_miss"]

    x = values((64,), torch.float32)
    of_autograd = functorch_config.patch(enable_autograd_cache=prefix == "autograd")
    with fresh_cache(), inductor_config.patch(fx_graph_cache=True), of_autograd:
        assert [hits(mode) for mode in ("never", "always", "never", "always")] == [(0, 1), (0, 1), (1, 0), (1, 0)]


def test_the_mark_of_caches_stays_with_a_tag_of_somebody_else() -> None:
    config = torch.compiler.config
    with config.patch(cache_key_tag="theirs"):
        dml.slice1(torch.empty(4, device="meta"), [0], [4], [-1])
        marked = config.cache_key_tag
        assert marked.startswith("theirs torch_dml_ops:rule_")
        with dml.set_fusion("never"):
            assert config.cache_key_tag.startswith("theirs torch_dml_ops:never_")
        assert config.cache_key_tag == marked


def test_a_constraint_of_an_earlier_compilation_does_not_stay() -> None:
    """Inductor constrains the inputs of operators that it has no formula for, which stores them first."""
    from torch._inductor.lowering import _maybe_layout_constraints, constrain_to_fake_tensors

    _maybe_layout_constraints[torch.ops.torch_dml_ops.slice1.default] = constrain_to_fake_tensors
    inductor.register(dml.get_fusion)
    assert generated(ONE_KERNEL["slice1, after"], "always", values(SIZES, torch.float32)) == (1, 0)


LAZY = """
import sys
import torch, torch_dml_ops as dml

print(torch.compiler.config.cache_key_tag)
assert dml.slice1(torch.empty(4, device="meta"), [0], [4], [-1]).shape == (4,)
assert "torch._inductor.lowering" not in sys.modules
assert "torch_dml_ops._compile.inductor" not in sys.modules
{before}
from torch._inductor.utils import get_code
torch._inductor.config.fx_graph_cache = torch._functorch.config.enable_autograd_cache = False
with dml.set_fusion("always"):
    code = get_code(torch.compile(lambda x: dml.slice1(x.relu(), [0], [64], [-2]) * 2), torch.zeros(64))
print(sum(text.count(" = torch.ops.torch_dml_ops.") for text in code))
from torch_dml_ops.__main__ import report
print(report()["torch.compile"])
"""
REMOVED = "import torch._inductor.lowering as there; del there.lowerings[torch.ops.aten.cat.default]"


@pytest.mark.parametrize(
    ("before", "calls", "reported"),
    [
        ("", "0", "fused into generated code (rule)"),
        pytest.param(REMOVED, "1", "calls of the kernels only: this torch lacks", marks=pytest.mark.thorough),
    ],
    ids=["this torch", "a torch that lacks a name"],
)
def test_the_first_compilation_registers_the_formulas(before: str, calls: str, reported: str) -> None:
    done = started(sys.executable, "-c", LAZY.format(before=before))
    assert done.returncode == 0, done.stderr
    marked, *said = done.stdout.splitlines()
    # From the import on: graphs that were traced in another process may be looked up before any is traced in this one.
    assert re.fullmatch(r" torch_dml_ops:rule_\w+", marked)
    assert said[0] == calls
    assert said[1].startswith(reported)
    assert done.stderr.count("lacks a name that fusing the operators is built on") == int(calls)


# The setting.


def test_the_mode_is_set_until_the_block_ends_or_for_good() -> None:
    assert dml.get_fusion() == "rule"
    with dml.set_fusion("never"):
        with contextlib.suppress(KeyError), dml.set_fusion("always"):
            assert dml.get_fusion() == "always"
            raise KeyError
        assert dml.get_fusion() == "never"
    assert dml.get_fusion() == "rule"
    with pytest.raises(ValueError, match=r"^set_fusion: mode must be rule, always or never, got 'allways'$"):
        dml.set_fusion("allways")
    assert dml.get_fusion() == "rule"
    again = dml.set_fusion("never")
    for _ in range(2):
        with again:
            assert dml.get_fusion() == "never"
        assert dml.get_fusion() == "rule"
    dml.set_fusion("always")
    assert dml.get_fusion() == "always"
    dml.set_fusion("rule")


PRINT_THE_MODE = """
import torch
try:
    import torch_dml_ops as dml
    print(dml.get_fusion())
except ImportError as error:
    print(error)
"""
VARIABLE = {"never": "never", "": "rule", "1": "TORCH_DML_OPS_FUSE must be rule, always or never, got '1'"}


@pytest.mark.parametrize("value", VARIABLE)
def test_the_variable(value: str) -> None:
    assert run_python("-c", PRINT_THE_MODE, TORCH_DML_OPS_FUSE=value) == f"{VARIABLE[value]}\n"
