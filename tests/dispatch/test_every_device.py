"""Devices without kernels: all that torch knows, and the one of host_device.cpp, on which torch's own functions move.

tests/lib/backends.py has the tests of the contract run on that one. Here is what only such devices have, and that all
that is built on the operators works there.
"""

import contextlib
import itertools
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx_models
import oracle
import pytest
import torch
import torch._lazy.ts_backend
from backends import DEVICE, EVERY_DEVICE
from contract_cases import (
    CALLS,
    FIRST,
    LAYOUTS_WITHOUT_STRIDES,
    OPS,
    assert_right,
    every_op,
    given_as_out,
    lengths_of,
    maker,
    tensors_in,
)
from host_build import HOST_DEVICE, host_device
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import as_list
from processes import FEWER, assert_returns, file_of_tests, run_python
from random_calls import PROFILE, calls, check, dtypes, shapes
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only
from transform_cases import CASES, EXAMPLES, same, values
from transforms import TRANSFORMS, Problem, point

import torch_dml_ops as dml
from torch_dml_ops import _libraries
from torch_dml_ops.__main__ import report
from torch_dml_ops._operators import without_kernels
from torch_dml_ops.onnx import from_onnx

pytestmark = pytest.mark.skipif(DEVICE != "cpu", reason="they are tested once, on no other device")

LONGEST = 400  # characters of a sentence; torch's own has 7 000


def forms(op: str) -> dict[str, Any]:
    packet = getattr(torch.ops.torch_dml_ops, op)
    return {"": packet.default, "out": packet.out}


def sentence_of(call: Callable[[], Any]) -> str:
    with pytest.raises(RuntimeError) as refused:
        call()
    sentence = str(refused.value)
    assert type(refused.value) is RuntimeError
    assert len(sentence) < LONGEST
    assert "\n" not in sentence
    return sentence


# What the dispatcher calls, whatever there is of a backend: CPU tensors stand in for its tensors.

DispatchKey = torch._C.DispatchKey
BACKENDS = [key for key in DispatchKey.__members__ if f"Sparse{key}" in DispatchKey.__members__]
KINDS = {"Sparse": "sparse_coo", "SparseCsr": "sparse_csr", "Quantized": "quantized", "NestedTensor": "nested"}


def redispatched(backend: str, overload: Any, *arguments: Any, **named: Any) -> Any:
    return overload.redispatch(torch._C.DispatchKeySet(getattr(DispatchKey, backend)), *arguments, **named)


def by_torch(op: str, *arguments: Any) -> Any:
    """A new result, moved by torch's own functions."""
    return redispatched("XPU", forms(op)[""], *arguments)


def test_backends_are_found() -> None:
    assert {"CPU", "CUDA", "HIP", "HPU", "MPS", "MTIA", "XLA", "XPU", "Lazy", "Meta", "PrivateUse1"} <= {*BACKENDS}


def test_the_report_registers_no_kernels_that_this_torch_has_no_device_for() -> None:
    report()
    for op, form in itertools.product(OPS, ("", ".out")):
        has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key(f"torch_dml_ops::{op}{form}", "CUDA")
        assert has_kernel == _libraries.cuda_kernels_loaded


@every_op
def test_each_backend_has_a_kernel(op: str) -> None:
    """In a build without CUDA kernels, and beside torch for ROCm, whose device is called cuda, that one has one too."""
    arguments = CALLS[op](maker("cpu"))
    for backend in BACKENDS:
        if backend == "Meta" or (backend == "CUDA" and _libraries.cuda_kernels_loaded):
            continue
        new, into_out = forms(op).values()
        assert_right(redispatched(backend, new, *arguments), op, arguments)
        out = torch.zeros(2, 3)
        assert redispatched(backend, into_out, *arguments, out=given_as_out(op, out)) is None
        assert_right(out, op, arguments)


@pytest.mark.filterwarnings("ignore:.*(Sparse CSR|nested tensors|deprecated)")
@pytest.mark.parametrize("kind", KINDS)
@every_op
def test_each_backend_refuses_tensors_without_strides(op: str, kind: str) -> None:
    convert, rule = LAYOUTS_WITHOUT_STRIDES[KINDS[kind]]
    first, *others = CALLS[op](maker("cpu"))
    odd = [convert(t) for t in first] if op == "join" else convert(first)
    for backend in BACKENDS:
        for form, overload in forms(op).items():
            named = {"out": given_as_out(op, torch.zeros(2, 3))} if form else {}
            sentence = sentence_of(partial(redispatched, f"{kind}{backend}", overload, odd, *others, **named))
            assert rule in sentence


@every_op
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_none_for_a_tensor(op: str, device: str) -> None:
    """For one of them, and for all."""
    arguments = CALLS[op](maker(device))
    tensors = [k for k, a in enumerate(arguments) if isinstance(a, Tensor)]
    for missing in (*([k] for k in tensors), tensors, []):
        given = [None if k in missing else a for k, a in enumerate(arguments)]
        for named in ({}, {"out": None}) if op != "split" else ({},):
            if missing or named:
                call = partial(forms(op)["out" if named else ""], *given, **named)
                assert sentence_of(call) == f"{op}: every tensor must be given, got None"


# Tensors of every device that torch knows, for which torch itself has no functions here.


class Elsewhere(Tensor):
    @staticmethod
    def __new__(cls, device: str, like: Tensor) -> "Elsewhere":
        made = Tensor._make_wrapper_subclass(cls, like.shape, like.stride(), dtype=like.dtype, device=device)
        return made

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        device = tensors_in(args)[0].device.type
        if function.namespace == "torch_dml_ops":
            key = torch._C._parse_dispatch_key(torch._C._dispatch_key_for_device(device))
            return function.redispatch(torch._C.DispatchKeySet(key), *args, **(kwargs or {}))
        raise NotImplementedError(
            f"Could not run '{function}' with arguments from the '{device}' backend. " + 99 * "…\n"
        )


def devices_of_torch() -> list[str]:
    """Those that a tensor can be on."""
    with pytest.raises(RuntimeError) as named:
        torch.device("none")
    names = re.search(r"one of (.*) device type", str(named.value))
    assert names is not None
    result = []
    for name in names[1].split(", "):
        with contextlib.suppress(RuntimeError):
            result.append(Elsewhere(name, torch.empty(1)).device.type)  # the name that a vendor has chosen
    return result


@pytest.mark.filterwarnings("ignore:.* is no longer used as device type")
def test_each_device_of_torch_refuses_in_one_sentence_what_it_cannot_move() -> None:
    names = devices_of_torch()
    assert {"hpu", "lazy", "mps", "mtia", "vulkan", "xla", "xpu"} <= {*names}
    for name, op in itertools.product({*names} - {*_libraries.devices_with_kernels, "meta"}, OPS):
        arguments = tree_map_only(Tensor, partial(Elsewhere, name), CALLS[op](maker("cpu")))
        out = given_as_out(op, Elsewhere(name, torch.zeros(2, 3)))
        for named in ({}, {"out": out}):
            sentence = sentence_of(partial(getattr(dml, op), *arguments, **named))
            rule, way_out = f"cannot be moved on {name}", f"; move the tensors to the CPU, as by {FIRST[op]}.cpu()"
            if name in ("lazy", "xla"):
                rule, way_out = f"must not be on {name}", "; call cpu() first"
            assert sentence.startswith(f"{op}: {FIRST[op]} {rule}")
            assert sentence.endswith(way_out)


def refuse_lazy_tensors() -> None:
    torch._lazy.ts_backend.init()
    rule = "must not be on lazy:0, where tensors have no memory until they are needed; call cpu() first"
    for op in OPS:
        given = (*CALLS[op](maker("cpu")), given_as_out(op, torch.zeros(2, 3)))
        *arguments, out = tree_map_only(Tensor, lambda x: x.to("lazy"), given)
        for named in ({}, {"out": out}):
            assert sentence_of(partial(getattr(dml, op), *arguments, **named)) == f"{op}: {FIRST[op]} {rule}"


@pytest.mark.thorough
def test_lazy_tensors_are_refused() -> None:
    """In a process of its own, which ends where the memory of a lazy tensor is viewed as another dtype."""
    assert_returns(refuse_lazy_tensors)


# The device of host_device.cpp.


@pytest.fixture
def t(device: None) -> Any:
    return maker(HOST_DEVICE)


@pytest.fixture
def device() -> Iterator[None]:
    """Tensors are made there where nothing else is said."""
    host_device()
    with torch.device(HOST_DEVICE):
        yield


def test_somebody_s_own_kernel_is_called(t: Any) -> None:
    x = t(2, 3)
    with torch.library._scoped_library("torch_dml_ops", "IMPL") as library:
        library.impl("slice1", lambda input, *_: input.clone(), "PrivateUse1")
        assert oracle.equal(dml.slice1(x, [0, 0], [2, 3], [-1, -1]), oracle.items(x))
        assert_right(dml.split(x, [1, 1], 0), "split", (x, [1, 1], 0))
    arguments = (x, [0, 0], [2, 3], [-1, -1])
    assert_right(dml.slice1(*arguments), "slice1", arguments)


def test_one_warning_for_each_type_of_device(t: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(without_kernels, "_warned", set())
    x = t(2, 3)
    monkeypatch.setenv("TORCH_DML_OPS_DEVICE_WARNING", "0")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dml.join([x, x], 0)
    monkeypatch.delenv("TORCH_DML_OPS_DEVICE_WARNING")
    out = t(4, 3).zero_()
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "torch_dml_ops: there are no kernels for tensors on hostdev")
        for _ in range(2):
            with pytest.raises(UserWarning, match=r"torch\.compile .* TORCH_DML_OPS_DEVICE_WARNING=0 silences this\.$"):
                dml.join([x, x], 0, out=out)
    assert not out.any()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for _ in range(2):
            dml.join([x, x], 0)
            redispatched("HIP", forms("join")[""], [x.cpu()], 0)
    assert [re.findall(r"tensors on (\w+)", str(w.message)) for w in warned] == [[HOST_DEVICE], ["cpu"]]


@pytest.mark.parametrize(
    ("hip", "words"),
    [(None, "a build where nvcc is on the PATH has kernels"), ("7.2", r"torch\.compile may generate faster code")],
)
def test_a_warning_says_what_is_faster(monkeypatch: pytest.MonkeyPatch, hip: str | None, words: str) -> None:
    monkeypatch.setattr(without_kernels, "_warned", set())
    monkeypatch.setattr(torch.version, "hip", hip)
    with pytest.warns(UserWarning, match=words):
        without_kernels._warn(torch.device("cuda"))


class Functions(TorchDispatchMode):
    """Which of torch's functions are called, and how many elements the largest index has. The device fails, if it is
    given an error, at one of its calls."""

    def __init__(self, error: RuntimeError | None = None, calls_before: int = 0) -> None:
        super().__init__()
        self.error, self.calls_before = error, calls_before
        self.calls, self.largest_index = 0, 0
        self.called: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self.error is not None and self.calls == self.calls_before:
            raise self.error
        self.calls += 1
        result = function(*args, **(kwargs or {}))
        name = function._schema.name.removeprefix("aten::")
        if not function.is_view and name not in ("detach", "empty", "new_empty", "new_empty_strided"):
            self.called.append(name)
            indices = [t for t in as_list(result) if isinstance(t, Tensor) and t.dtype == torch.int64]
            self.largest_index = max([self.largest_index, *(t.numel() for t in indices)])
        return result


X = maker("cpu")(4, 5, 6)
MOVES: dict[str, tuple[str, tuple[Any, ...], list[str]]] = {
    "forwards": ("slice1", (X, [1, 0, 0], [3, 5, 6], [1, 2, 3]), ["copy_"]),
    "backwards": ("slice1", (X, [0, 0, 0], [4, 5, 6], [1, -1, -2]), ["flip"]),
    "into zeros": ("slice_grad", (X, [4, 5, 7], [0, 0, 1], [4, 5, 6], [1, 1, 1]), ["zero_", "copy_"]),
    "into no zeros": ("slice_grad", (X, [4, 5, 6], [0, 0, 0], [4, 5, 6], [1, 1, 1]), ["copy_"]),
    "split": ("split", (X, [1, 2, 2], 1), ["copy_"] * 3),
    "join": ("join", ([X, X, X], 1), ["cat"]),
}


@pytest.mark.parametrize("name", MOVES)
def test_each_element_is_moved_once(name: str) -> None:
    op, arguments, functions = MOVES[name]
    with Functions() as seen:
        result = by_torch(op, *arguments)
    assert seen.called == functions
    assert_right(result, op, arguments)


def test_pieces_are_joined_in_place_where_out_has_steps() -> None:
    out = torch.zeros(4, 15, 12)[..., ::2]
    with Functions() as seen:
        redispatched("XPU", forms("join")["out"], [X, X, X], 1, out=out)
    assert seen.called == ["copy_"] * 3
    assert_right(out, "join", ([X, X, X], 1))


@every_op
def test_errors_of_a_device_are_raised_as_they_are(op: str) -> None:
    arguments = CALLS[op](maker("cpu"))
    error = torch.AcceleratorError("an earlier kernel failed")
    with Functions() as unhindered:
        by_torch(op, *arguments)
    for calls_before in range(unhindered.calls):
        with Functions(error, calls_before), pytest.raises(RuntimeError) as raised:
            by_torch(op, *arguments)
        assert raised.value is error


@pytest.mark.parametrize("sizes", [(4, 1, 1), (1, 1, 6), (4, 1, 6), (1, 1, 1)], ids=str)
def test_lengths_that_are_shared_are_not_made_an_index_as_large_as_the_data(sizes: tuple[int, ...]) -> None:
    arguments = (X, lengths_of(np.arange(np.prod(sizes)).reshape(sizes), torch.int64, "cpu").expand(4, 1, 6), 1)
    with Functions() as seen:
        result = by_torch("reverse_subsequences", *arguments)
    assert seen.called.count("gather") == 1
    assert "copy_" not in seen.called
    assert seen.largest_index == 5 * np.prod(sizes)
    assert_right(result, "reverse_subsequences", arguments)


@every_op
@pytest.mark.parametrize("inference", [False, True])
def test_results_are_new_tensors_as_those_of_the_kernels_are(op: str, inference: bool, t: Any) -> None:
    with torch.inference_mode(inference):
        arguments = CALLS[op](t)
        (result,) = as_list(getattr(dml, op)(*arguments))
        assert result.is_inference() == inference
        assert not result._is_view()
        assert inference or result._version == 0
        out = torch.zeros(2, 3)
        for k, call in enumerate((getattr(dml, op), forms(op)["out"]), 1):
            call(*arguments, out=given_as_out(op, out))
            assert_right(out, op, arguments)
            assert inference or out._version == k
        result.resize_(7)


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize(("here", "elsewhere"), [("cpu", HOST_DEVICE), (HOST_DEVICE, "cpu")])
def test_tensors_on_two_devices_are_refused(here: str, elsewhere: str, gradients: bool) -> None:
    """The device has a fallback for every operator, which would copy them to the CPU."""
    host_device()
    x, y = maker(here)(2, 3).requires_grad_(gradients), maker(elsewhere)(2, 3)
    calls: dict[str, tuple[Any, ...]] = {
        "join: inputs[2]": ([x, x, y], 1),
        "reverse_subsequences: sequence_lengths": (x, lengths_of([[2], [3]], torch.int64, elsewhere), 1),
    }
    for start, arguments in calls.items():
        op = start.partition(":")[0]
        way_out = f"write {start.partition(' ')[2]}.to({FIRST[op]}.device)"
        rule = f"{start} must be on the device of {FIRST[op]}, {x.device}, got {y.device}; {way_out}"
        for named in [{}] if gradients else [{}, {"out": torch.zeros_like(x)}]:
            assert sentence_of(partial(getattr(dml, op), *arguments, **named)) == rule


def test_in_threads(t: Any) -> None:
    def called(number: int) -> None:
        op = OPS[number % len(OPS)]
        arguments = CALLS[op](t, dtype=oracle.DTYPES[number % len(oracle.DTYPES)])
        assert_right(getattr(dml, op)(*arguments), op, arguments)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(called, range(400)))


@contextlib.contextmanager
def limited() -> Iterator[None]:
    host_device().host_device_limit(1)
    try:
        yield
    finally:
        host_device().host_device_limit(0)


@every_op
@settings(PROFILE, max_examples=EXAMPLES // 2)
@given(st.data())
def test_dtypes_for_which_a_device_lacks_functions(op: str, data: st.DataObject) -> None:
    """Their bits are moved as whole numbers. Of 16 bytes there are none."""
    sizes, dtype = data.draw(shapes(max_rank=4, most_elements=200)), data.draw(dtypes)
    call = data.draw(calls(op, sizes, data.draw(st.integers(0, len(sizes) - 1)), dtype))
    try:
        with limited():
            check(EVERY_DEVICE, op, *call)
    except RuntimeError as refusal:
        assert dtype == torch.complex128
        said = re.sub(r"aten::\w+", "aten::…", str(refusal))
        assert said == (
            f"{op}: {FIRST[op]} cannot be moved on hostdev:0, as torch says: aten::… has no kernel for ComplexDouble; "
            f"move the tensors to the CPU, as by {FIRST[op]}.cpu()"
        )


# What is built on the operators.


def with_lengths_there(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda x, lengths, *others: function(x, lengths.to(x.device), *others)


THERE: Any = SimpleNamespace(
    **vars(dml)
    | {name: with_lengths_there(getattr(dml, name)) for name in ("reverse_sequence", "reverse_subsequences")}
)
(ALL_FIVE,) = (case for case in CASES if case.name == "all five")


def on_cpu(results: Any) -> Any:
    return tree_map_only(Tensor, Tensor.cpu, results)


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_derivatives_and_vmap(transform: str, device: None) -> None:
    problem = Problem(ALL_FIVE, torch.float64, THERE)
    actual = TRANSFORMS[transform](problem, point(problem, transform))
    with torch.device("cpu"):
        problem = Problem(ALL_FIVE, torch.float64, dml)
        same(on_cpu(actual), TRANSFORMS[transform](problem, point(problem, transform)))


class AllFive(torch.nn.Module):
    def forward(self, x: Tensor) -> list[Tensor]:
        return ALL_FIVE.results(THERE, x)


TRACED: dict[str, Callable[..., Any]] = {
    "exported": lambda module, x: torch.export.export(module, (x,)).module(),
    "compiled": lambda module, x: torch.compile(module, backend="aot_eager", fullgraph=True),
}


@pytest.mark.parametrize("way", TRACED)
def test_traced(way: str, device: None) -> None:
    x = values((3, 4))
    same(TRACED[way](AllFive(), x)(x), AllFive()(x))


def there(arrays: Sequence[Any]) -> list[Tensor]:
    return [onnx_models.tensor_of(array).to(HOST_DEVICE) for array in arrays]


def test_imported_models() -> None:
    """The cases that the onnx package has of operators that move elements."""
    host_device()
    for name, case in onnx_models.onnx_cases().items():
        if not onnx_models.reason(name):
            ((inputs, outputs),) = case.data_sets
            module = from_onnx(case.model).to(HOST_DEVICE)
            results = as_list(module(*there(inputs)))
            bits = [onnx_models.bits(result.cpu()) for result in results]
            assert bits == [onnx_models.bits(np.asarray(output)) for output in outputs], name


@pytest.mark.parametrize("name", ["test_shape_example", "test_size_example"])
def test_sizes_by_onnx2torch_are_where_their_tensor_is(name: str) -> None:
    host_device()
    case = onnx_models.onnx_cases()[name]
    ((inputs, outputs),) = case.data_sets
    module = onnx_models.by_onnx2torch(case.model)
    result = module(*there(inputs))
    assert (result.device.type, result.cpu().tolist()) == (HOST_DEVICE, outputs[0].tolist())


# Files of tests that run there as they are, but for what there is not on that device, and for what compiles for long.
FILES = ("autograd", "compositions", "directml_graph", "directml_operator", "index", "negative_steps")
FILES += ("reverse_sequence", "unusual_inputs", "vmap", "windows_and_lengths")
LEFT_OUT = "inductor", "compil", "gradcheck", "without_strides", "short_way_within", "recurrent"
# Of them, and quickly.
PROPERTIES = "index_is_numpys or is_read_is_numpys or is_assigned_is_numpys or it_is_onnxs or random_graphs"


def run_there(selected: str, *names: str) -> None:
    files = map(file_of_tests, names)
    options = "-q", "-m", "not thorough", "-k", selected
    run_python("-m", "pytest", *options, *files, TORCH_DML_OPS_TEST_DEVICE=HOST_DEVICE, **FEWER)


def test_properties_of_what_is_built_on_the_operators() -> None:
    run_there(PROPERTIES, "directml_graph", "index", "negative_steps", "reverse_sequence")


@pytest.mark.thorough
@pytest.mark.parametrize("file", FILES)
def test_other_tests_of_what_is_built_on_the_operators(file: str) -> None:
    run_there(" and ".join(f"not {name}" for name in LEFT_OUT), file)
