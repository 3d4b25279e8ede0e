"""torch.compile: one graph, the results of eager mode to the bit and the stride, and shapes known without data."""

from collections.abc import Callable, Sequence
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
import plain_torch
import pytest
import torch
from backends import default_device
from contract_cases import same_sizes
from hypothesis import example, given, settings
from hypothesis import strategies as st
from oracle import as_list, without_data
from refusals import ARGUMENTS, OUT, Refusal, every_row
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.library import opcheck
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten
from transform_cases import (
    ANY_SHAPE,
    CASES,
    COMPILED,
    EXAMPLES,
    FIVE,
    LAYOUTS,
    Case,
    by_name,
    examples,
    gradients,
    in_a_backward_pass,
    indices,
    program,
    same,
    values,
)
from transforms import TRANSFORMS, Problem, point

import torch_dml_ops as dml

pytestmark = pytest.mark.usefixtures("uncached_compiler")
# Most of what torch.compile does is done before code is generated. "aot_eager" stops there; "inductor" takes seconds.
BACKENDS = ["aot_eager", "inductor"]


def compiled(f: Callable[..., Any], backend: Any = "aot_eager", **options: Any) -> Callable[..., Any]:
    return torch.compile(f, fullgraph=True, backend=backend, **options)


def strides(results: Sequence[Tensor]) -> list[tuple[int, ...]]:
    return [y.stride() for y in results]


# Layouts.

ALL_LAYOUTS = {**LAYOUTS, "channels_last": lambda x: x.contiguous(memory_format=torch.channels_last)}


@st.composite
def layouts(draw: st.DrawFn) -> Tensor:
    """Dimensions of all sizes, in any order in memory, some with gaps or expanded, those of size 1 with any stride."""
    sizes = draw(st.lists(st.sampled_from([0, 1, 1, 2, 2, 3, 3]), min_size=1, max_size=5).filter(any))
    order = draw(st.permutations(range(len(sizes))))
    strides, stride = [0] * len(sizes), 1
    for d in reversed(order):
        at_will = draw(st.sampled_from([None] * 5 + ["expanded", "gap"]))
        strides[d] = {None: stride, "expanded": 0, "gap": 2 * stride}[at_will]
        if sizes[d] == 1 and draw(st.booleans()):
            strides[d] = draw(st.sampled_from([0, 1, 5, 100]))
        stride *= max(sizes[d], 1) * (2 if at_will == "gap" else 1)
    return torch.empty(stride, dtype=torch.int8).as_strided(sizes, strides)


# opcheck: schemas, fake kernels and what AOT dispatch makes of the operators, as torch's own tool sees it.


class Opcheck:
    """Stands where a call expects the operators' module, and puts both forms of the operator through opcheck."""

    def __init__(self, **options: Any) -> None:
        self.options = options

    def __getattr__(self, name: str) -> Callable[..., Any]:
        op = getattr(torch.ops.torch_dml_ops, name)

        def check(*arguments: Any) -> Any:
            arguments = tuple(list(a) if isinstance(a, tuple) else a for a in arguments)
            opcheck(op.default, arguments, **self.options)
            with torch.no_grad():
                results = op.default(*arguments)
            detached = tree_map(lambda a: a.detach() if isinstance(a, Tensor) else a, arguments)
            opcheck(op.out, detached, {"out": tree_map(torch.empty_like, results)}, **self.options)
            return results

        return check


DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.complex64, torch.int8, torch.uint8, torch.bool]
DTYPES += [torch.float8_e4m3fn]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@by_name(FIVE)
def test_opcheck_of_dtypes(case: Case, dtype: torch.dtype) -> None:
    # Its other parts multiply and compare, which torch cannot do with float8.
    few = {"test_utils": ("test_autograd_registration", "test_faketensor")} if dtype == torch.float8_e4m3fn else {}
    differentiable = not few and (dtype.is_floating_point or dtype.is_complex)
    case.results(Opcheck(**few), *(x.requires_grad_(differentiable) for x in case.tensors(dtype)))


@pytest.mark.parametrize("layout", ALL_LAYOUTS)
@by_name(FIVE)
def test_opcheck_of_layouts(case: Case, layout: str) -> None:
    if layout == "channels_last":
        (case,) = (other for other in ANY_SHAPE if other.name == case.name)
        tensors = [values((2, 3, 4, 5), torch.float32)]
    else:
        tensors = case.tensors(torch.float32)
    case.results(Opcheck(), *(ALL_LAYOUTS[layout](x).requires_grad_() for x in tensors))


# Shapes and strides without data.

every_kind = pytest.mark.parametrize("kind", ["meta", "fake", "symbolic"])


def check_known_without_data(kind: str, call: Callable[..., Sequence[Tensor]], *tensors: Tensor) -> None:
    """What the call gives for tensors like these is known from their shapes and strides."""
    if kind == "meta":
        actual = call(*map(without_data, tensors))
    else:
        with FakeTensorMode(shape_env=ShapeEnv() if kind == "symbolic" else None) as mode:
            actual = call(*map(mode.from_tensor, tensors))
    for a, e in zip(actual, call(*tensors), strict=True):
        assert [int(n) for n in a.shape] == list(e.shape)
        assert [int(n) for n in a.stride()] == list(e.stride())
        assert (a.dtype, a.storage_offset()) == (e.dtype, 0)
        assert a.is_meta or isinstance(a, FakeTensor)


@every_kind
@by_name(ANY_SHAPE)
@settings(examples, max_examples=50)
@given(layouts())
def test_results_without_data_have_the_strides_of_eager_mode(case: Case, kind: str, x: Tensor) -> None:
    check_known_without_data(kind, partial(case.results, dml), x)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Tensor, Tensor]:
    """Of equal sizes: as like as two eggs, in another order of dimensions, or in another layout."""
    x = draw(layouts())
    order = draw(st.permutations(range(x.dim())))
    reordered = torch.empty_like(x.permute(order), memory_format=torch.contiguous_format)
    return x, draw(
        st.sampled_from([x, torch.empty_like(x), reordered.permute([order.index(d) for d in range(x.dim())])])
    )


@every_kind
@settings(examples, max_examples=100)
@given(pairs())
def test_a_join_without_data_has_the_strides_of_eager_mode(kind: str, tensors: tuple[Tensor, Tensor]) -> None:
    axis = max(d for d, n in enumerate(tensors[0].shape) if n != 0)
    check_known_without_data(kind, lambda *given: [dml.join(given, axis)], *tensors)


# Compiled calls.


@pytest.mark.parametrize("dynamic", [False, True])
@by_name(COMPILED)
def test_forward_and_backward(case: Case, dynamic: bool) -> None:
    def f(ops: ModuleType) -> Callable[..., list[Tensor]]:
        return lambda *xs: [y.sin() for y in case.results(ops, *(x.exp() for x in xs))]

    tensors = case.tensors(torch.float32)
    actual = gradients(compiled(f(dml), dynamic=dynamic), *tensors)
    same(actual, gradients(f(plain_torch), *tensors))
    assert strides(actual[0]) == strides(f(dml)(*tensors))


@by_name([case for case in COMPILED if not case.name.startswith("negative_steps")])  # Dynamo knows no modes there
def test_a_backward_pass_of_somebody_else(case: Case) -> None:
    f, tensors = in_a_backward_pass(lambda *xs: case.results(dml, *xs)), case.tensors(torch.float32)
    same(gradients(compiled(f), *tensors), gradients(f, *tensors))


@pytest.mark.parametrize("layout", ["contiguous", "transposed"])
@by_name(ANY_SHAPE)
def test_one_graph_serves_every_size(case: Case, layout: str) -> None:
    counter = CompileCounterWithBackend("aot_eager")
    f = compiled(lambda x: case.results(dml, x), counter, dynamic=True)
    for sizes in ((4, 5), (7, 3), (2, 9)):
        x = LAYOUTS[layout](values(sizes, torch.float32))
        results, grads = gradients(f, x)
        same((results, grads), gradients(lambda x: case.results(plain_torch, x), x))
        assert strides(results) == strides(case.results(dml, x))
    assert counter.frame_count == 1


def test_one_graph_assigns_at_numbers_that_follow_from_sizes() -> None:
    def f(x: Tensor) -> Tensor:
        (n, m), y = x.shape, x + 0
        dml.index(y)[n - 1], dml.index(y)[-n, ::-2], dml.index(y)[None, ::-1, 1 - m] = 7, 8, 9
        return y

    counter = CompileCounterWithBackend("aot_eager")
    call = compiled(f, counter, dynamic=True)
    for sizes in ((4, 5), (7, 3), (2, 9)):
        same(call(values(sizes, torch.float32)), f(values(sizes, torch.float32)))
    assert counter.frame_count == 1


def test_a_number_beyond_int64_is_assigned_beside_a_whole_number_in_an_exported_program() -> None:
    """The call for the number that fits begins with the whole input again."""

    def f(x: Tensor) -> Tensor:
        y = x.clone()
        dml.index(y)[1, ::-2] = 2**64 - 1
        return y

    module, x = torch.nn.Module(), torch.zeros(3, 4, dtype=torch.uint64)
    module.forward = f  # type: ignore[method-assign]
    program = torch.export.export(module, (x,))
    assert program.module()(x).tolist() == f(x).tolist()


@pytest.mark.xfail(
    torch.__version__ < "2.12", reason="Dynamo cannot trace operator.index there, as the documents on building say"
)
def test_numpys_numbers_and_arrays() -> None:
    """Of which torch.compile makes numbers that depend on data."""
    one, pair = np.int64(1), np.array([1, 2])

    def f(x: Tensor) -> list[Tensor]:
        return [dml.index(x)[one], dml.index(x)[one:], *dml.split(x, [one, 2], 0), dml.slice1(x, [0, 0], pair, pair)]

    same(compiled(f, "aot_eager")(values((3, 4), torch.float32)), f(values((3, 4), torch.float32)))


COMPILED_TRANSFORMS = ["jvp", "grad", "jacrev", "hessian", "jvp of vjp", "vmap", "vmap of grad"]


@pytest.mark.parametrize("transform", COMPILED_TRANSFORMS)
@by_name((*ANY_SHAPE, CASES[-1]))
def test_torch_func_inside_of_compile(case: Case, transform: str) -> None:
    problem, reference = (Problem(case, torch.float64, ops) for ops in (dml, plain_torch))
    x = point(problem, transform)
    with default_device(None):  # in whose mode Dynamo cannot trace a hessian, with torch's own operators neither
        actual = compiled(lambda *x: TRANSFORMS[transform](problem, x))(*x)
        torch.testing.assert_close(actual, TRANSFORMS[transform](reference, x))


@pytest.mark.parametrize("backend", BACKENDS)
def test_compiled_results_have_the_strides_of_eager_mode(backend: str) -> None:
    x = values((2, 3, 4, 5), torch.float32)
    inputs = [layout(x) for layout in ALL_LAYOUTS.values()]

    def f(*inputs: Tensor) -> list[Tensor]:
        results = [y for case in ANY_SHAPE for x in inputs for y in case.results(dml, x)]
        return [*results, *(dml.join([x, y], 1) for x in inputs for y in inputs)]

    expected, actual = f(*inputs), compiled(f, backend)(*inputs)
    same(actual, expected)
    assert strides(actual) == strides(expected)


def with_nothing_to_do(x: Tensor) -> list[Tensor]:
    """Each operator where its result is a copy of the whole input."""
    return [y for op, arguments in same_sizes(x, 0).items() for y in as_list(getattr(dml, op)(*arguments))]


@pytest.mark.parametrize("mode", ["rule", "always"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_compiled_result_never_shares_memory_with_an_input(backend: str, mode: str) -> None:
    x = values((4, 5), torch.float32)
    before = x.clone()
    with dml.set_fusion(mode):
        results = compiled(with_nothing_to_do, backend)(x)
    same(results, [x] * 5)
    for y in results:
        y.zero_()
    same(x, before)
    assert len({y.untyped_storage().data_ptr() for y in (x, *results)}) == 6


def all_out(x: Tensor, lengths: Tensor, *out: Tensor) -> tuple[Any, ...]:
    a, b, c, d, e, f = out
    return (
        dml.slice1(x, [0, 0], x.shape, [-1, 2], out=a),
        dml.slice_grad(x, [4, 10], [0, 0], [4, 10], [-1, 2], out=b),
        dml.split(x, [1, 4], 1, out=[c, d]),
        dml.join([x, x], 0, out=e),
        dml.reverse_subsequences(x, lengths, 1, out=f),
    )


@pytest.mark.parametrize("dynamic", [pytest.param(False, marks=pytest.mark.thorough), True])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("gaps", [False, True])
def test_compiled_calls_write_to_out_and_return_it(gaps: bool, backend: str, dynamic: bool) -> None:
    x, lengths = values((4, 5), torch.float32), torch.tensor([[3], [0], [5], [2]])
    step = 2 if gaps else 1
    storages, expected_storages = (
        [torch.full((n * step, m), 7.0) for n, m in [(4, 3), (4, 10), (4, 1), (4, 4), (8, 5), (4, 5)]] for _ in range(2)
    )
    out = [storage[::step] for storage in storages]
    all_out(x, lengths, *(storage[::step] for storage in expected_storages))
    # Dynamo takes no `out` with gaps into a graph, and leaves such a call to eager mode.
    f = torch.compile(all_out, backend=backend, dynamic=dynamic, fullgraph=not gaps)
    returned = f(x, lengths, *out)
    same(storages, expected_storages)
    assert [id(y) for y in tree_flatten(returned)[0]] == [id(y) for y in out]


# Errors.


@pytest.mark.parametrize("dynamic", [pytest.param(False, marks=pytest.mark.thorough), True])
@every_row(ARGUMENTS, OUT)
def test_a_compiled_call_refuses_with_the_sentence_of_eager_mode(refusal: Refusal, dynamic: bool) -> None:
    def ones(*sizes: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.ones(sizes, dtype=dtype)

    leaves, structure = tree_flatten((refusal.arguments(ones), refusal.out(ones)))

    def f(*leaves: Any) -> Any:
        arguments, out = tree_unflatten(leaves, structure)
        return getattr(dml, refusal.op)(*arguments, out=out)

    with pytest.raises(RuntimeError) as error:
        compiled(f, "eager", dynamic=dynamic)(*leaves)
    assert refusal.sentence in str(error.value)


@pytest.mark.parametrize("argument", ["input", "out"])
def test_a_compiled_call_refuses_an_out_where_something_requires_grad(argument: str) -> None:
    tensors = {"input": values((4,)), "out": torch.zeros(4, dtype=torch.float64)}
    tensors[argument].requires_grad_()
    f = compiled(lambda x, out: dml.slice1(x, [0], [4], [-1], out=out))
    with pytest.raises(RuntimeError, match=f"with out there is no automatic differentiation, and {argument} requires"):
        f(*tensors.values())
    assert not tensors["out"].any()
    with torch.no_grad():
        f(*tensors.values())
    same(tensors["out"].detach(), tensors["input"].detach().flip(0))


def test_a_compiled_call_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    x = values((4, 5), torch.float32)
    with dml.set_fusion("never"):
        same(compiled(lambda x: dml.slice1(x, [0, 0], [4, 5], [-1, 1]), "inductor")(x), x.flip(0))
    assert "torch_dml_ops" not in capfd.readouterr().err  # torch itself may write of other things


# Sizes that depend on data: the rows that a mask selects.

SELECTING: dict[str, Callable[..., Any]] = {
    "slice1": lambda ops, x: ops.slice1(x, [0, 0], [x.shape[0], 4], [-1, 2]),
    "slice1, a part of the rows": lambda ops, x: ops.slice1(x, [0, 0], [x.shape[0], 4], [2, -1]),
    "slice_grad": lambda ops, x: ops.slice_grad(x, [x.shape[0], 9], [0, 1], [x.shape[0], 8], [1, -2]),
    "split": lambda ops, x: ops.split(x, [1, 3], 1),
    "join": lambda ops, x: ops.join([x, x], 1),
    "reverse_subsequences": lambda ops, x: ops.reverse_subsequences(x, x.new_full((x.shape[0], 1), 3).int(), 1),
    "reverse_subsequences of rows": lambda ops, x: ops.reverse_subsequences(
        x, torch.arange(4, device=x.device)[None], 0
    ),
    "split of a transposed tensor": lambda ops, x: ops.split(x.t(), [1, 3], 0),
    "slice1 of a transposed tensor, twice": lambda ops, x: ops.slice1(
        ops.slice1(x.t(), [0, 0], [4, x.shape[0]], [1, 1]), [0, 0], [4, x.shape[0]], [-1, 1]
    ),
}


def check_selecting(f: Callable[..., Any], reference: Callable[..., Any]) -> None:
    x = values((6, 4), torch.float32)
    for selected in ([0, 2, 3], [], [0, 1, 2, 3, 4, 5], [4]):
        mask = torch.zeros(6, dtype=torch.bool)
        mask[selected] = True
        actual, expected = f(x, mask), reference(x, mask)
        same(actual, expected)
        for a, e in zip(as_list(actual), as_list(expected), strict=True):
            assert a.stride() == e.stride() or a.numel() == 0


@pytest.mark.parametrize("name", SELECTING)
@torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True)
def test_sizes_that_depend_on_data(name: str) -> None:
    call = SELECTING[name]
    f = compiled(lambda x, mask: call(dml, x[mask]), dynamic=False)
    check_selecting(f, lambda x, mask: call(dml, x[mask]))


BOUNDS = "", "n", "-n", "m", "m - 1", "-m", "n - m", "2 * m", "0", "1", "2", "-3", "9", "-10**30", "x.shape[0] // 2"
NUMBERS = ("0", "-1", "m - 1", "-m"), ("n", "m", "-m", "3", "-1", "x.shape[0] - 1")  # of the rows, and of the columns


several_indices = st.lists(indices(BOUNDS, *NUMBERS), max_size=3)
ROWS_OF_A_MASK = "def f(x, number, mask):\nn, m, x = number.item(), mask.nonzero().shape[0], x[mask]"


@pytest.mark.filterwarnings("ignore")  # of export, from within torch
@settings(examples, max_examples=max(EXAMPLES // 20, 1))
@example(["-1", "-1, n", "None, m - 1, :n:2", "-m:-m:2, -1", "-n:n, m", "-10**30:n"], ["2:-m:-3", "n::-2"], "compile")
@example(["1:", ":3", "-2:", "1::-1", "-2::-2", "1:3, None, ::-1", "::2, -1"], [], "inductor")
@example(["n:, None", ":n - m"], [], "inductor")
@example(["-m:", "m:m - 1:-2, -1"], ["::-2"], "inductor")
@given(several_indices, several_indices, st.sampled_from(["compile", "export", "strict export"]))
@torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True)
def test_indices_that_depend_on_data(read: list[str], assigned: list[str], way: str) -> None:
    """Numbers that tensors hold, and sizes of other tensors, as bounds and as whole numbers, to read and to assign."""
    torch._dynamo.reset()
    # torch may lose a symbol of a slice's size in the one, and the others are told in the documents on building.
    if way == "strict export" or torch.__version__ < "2.13":
        assigned = []
    f = program(ROWS_OF_A_MASK, read, assigned)
    given = [
        (values((6, 7)), torch.tensor(n), torch.arange(1, 7) % k == 0)
        for n, k in ((2, 2), (-6, 1), (5, 3), (-1, 6), (0, 4), (3, 7))
    ]
    if way in ("compile", "inductor"):
        call: Callable[..., Any] = compiled(f, "inductor" if way == "inductor" else "aot_eager")
    else:
        module = torch.nn.Module()
        module.forward = f  # type: ignore[method-assign]
        call = torch.export.export(module, given[0], strict=way == "strict export").module()
    for arguments in given:
        try:
            expected = f(*arguments)
        except IndexError:  # of no rows, none is the first
            with pytest.raises((IndexError, RuntimeError)):
                call(*arguments)
            continue
        actual = call(*arguments)
        same(actual, expected)
        assert all(a.stride() == e.stride() or a.numel() == 0 for a, e in zip(actual, expected, strict=True))


@torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True)
def test_a_slice_in_the_mode_that_depends_on_data() -> None:
    def f(x: Tensor, mask: Tensor) -> list[Tensor]:
        m = mask.nonzero().shape[0]
        with dml.negative_steps():
            return [x[:m:-1], x[::-1, m - 1], x[mask][:-2:-1]]

    x, mask = values((6, 7)), torch.arange(6) % 2 == 0
    same(compiled(f)(x, mask), f(x, mask))


@torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True)
def test_two_sizes_that_depend_on_data() -> None:
    """Strides that are products of unknown sizes, in an order that only their factors tell."""

    def f(x: Tensor, rows: Tensor, columns: Tensor) -> list[Tensor]:
        return dml.split(x[:, rows][:, :, columns].movedim(0, -1), [1, 2], 2)

    x = values((3, 4, 5), torch.float32)
    rows, columns = torch.tensor([True, False, True, True]), torch.tensor([True, True, False, True, True])
    expected, actual = f(x, rows, columns), compiled(f, "inductor")(x, rows, columns)
    same(actual, expected)
    assert strides(actual) == strides(expected) == [(4, 1, 12), (4, 1, 12)]


@pytest.mark.parametrize("mode", ["rule", "always"])
@torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True)
def test_sizes_that_depend_on_data_in_generated_code(mode: str) -> None:
    def f(ops: ModuleType, x: Tensor, mask: Tensor) -> list[Tensor]:
        return [y for call in SELECTING.values() for y in as_list(call(ops, x[mask]))]

    with dml.set_fusion(mode):
        check_selecting(compiled(lambda *a: f(dml, *a), "inductor"), lambda *a: f(dml, *a))


# Generated code, forward and backward: all of it in as few compilations as can be.


def test_generated_code_with_dynamic_sizes_forward_and_backward() -> None:
    counter = CompileCounterWithBackend("inductor")

    def f(ops: ModuleType) -> Callable[[Tensor], list[Tensor]]:
        return lambda x: [y.square() for case in ANY_SHAPE for y in case.results(ops, x + 1)]

    g = compiled(f(dml), counter, dynamic=True)
    for sizes in ((4, 5), (7, 3), (2, 9)):
        x = values(sizes, torch.float32)
        torch.testing.assert_close(gradients(g, x), gradients(f(plain_torch), x))
    assert counter.frame_count == 1
