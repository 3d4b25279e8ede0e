"""What calls meet: tensors of every kind, modes, transforms, tracing, graphs; and what can be seen of their results.

A situation is a function of a form of an operator, which it calls on tensors that it makes.
"""

import collections
import contextlib
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch._dynamo
import torch.autograd.forward_ad as forward_ad
from backends import DEVICE, default_device
from oracle import as_list
from torch import Tensor
from torch._C import _functorch
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint
from transform_cases import ANY_SHAPE, Mine

import torch_dml_ops as dml
from torch_dml_ops import ops
from torch_dml_ops._compile import setting
from torch_dml_ops._operators import definitions
from torch_dml_ops._operators.signature import signatures
from torch_dml_ops._torch import short_way

# By operator, right arguments for a tensor of any shape.
ARGUMENTS: dict[str, Callable[[Tensor], tuple[Any, ...]]] = {
    case.name: partial(case.call, SimpleNamespace(**{case.name: lambda *arguments: arguments})) for case in ANY_SHAPE
}
OPERATORS = tuple(definitions.OPERATORS)


def sizes_of_results(op: str, arguments: Sequence[Any]) -> list[list[int]]:
    first, *others = arguments

    def along(axis: int, size: int, like: Tensor) -> list[int]:
        return [size if d == axis else n for d, n in enumerate(like.shape)]

    if op == "slice1":
        return [[-(-n // abs(s)) for n, s in zip(others[1], others[2], strict=True)]]
    if op == "split":
        return [along(others[1], n, first) for n in others[0]]
    if op == "join":
        return [along(others[0], sum(t.shape[others[0]] for t in first), first[0])]
    return [list(others[0] if op == "slice_grad" else first.shape)]


def outs_for(op: str, arguments: Sequence[Any], dtype: torch.dtype | None = None, device: Any = DEVICE) -> Any:
    """What the results fit into."""
    outs = [torch.zeros(sizes, dtype=dtype, device=device) for sizes in sizes_of_results(op, arguments)]
    return outs if op == "split" else outs[0]


# Forms.


@dataclass(frozen=True)
class Form:
    """A way to call an operator, as a function of a tensor of any shape."""

    op: str
    entry: str = "dml"  # or of torch.ops: "packet", "overload" or, for a packet with its arguments by name, "names"
    out: bool = False

    def __str__(self) -> str:
        return f"{self.op}, {self.entry}{' into out' if self.out else ''}"

    def function(self) -> Any:
        if self.entry == "dml":
            return getattr(dml, self.op)
        packet = getattr(torch.ops.torch_dml_ops, self.op)
        overload = packet.out if self.out else packet.default
        if self.entry != "names":
            return overload if self.entry == "overload" else packet
        names = [argument.name for argument in overload._schema.arguments]
        return lambda *given, **out: packet(**dict(zip(names, given, strict=False)), **out)

    def arguments(self, x: Tensor) -> tuple[Any, ...]:
        return ARGUMENTS[self.op](x)

    def outs(self, x: Tensor) -> Any:
        dtype = torch.float32 if x.is_quantized else x.dtype
        return outs_for(self.op, self.arguments(x), dtype, x.device)

    def into(self, out: Any, *arguments: Any) -> Any:
        result = self.function()(*arguments, out=out)
        if isinstance(result, torch.fx.Proxy):
            return result
        assert result is (out if self.entry == "dml" else None)
        return out

    def __call__(self, x: Tensor, change: Callable[..., tuple[Any, ...]] | None = None) -> Any:
        """The results; `change` gives other arguments, into an `out` for those that it is given."""
        right = self.arguments(x)
        given = change(*right) if change else right
        return self.into(self.outs(x), *given) if self.out else self.function()(*given)


ENTRIES = ("dml", "packet", "overload", "names")
FORMS = tuple(Form(op, entry, out) for op in OPERATORS for entry in ENTRIES for out in (False, True))


class AllForms:
    """Most of them in one function, for what takes its time with each."""

    op, entry, out = "all operators", "every entry", False

    def __str__(self) -> str:
        return "all forms"

    def __call__(self, x: Tensor) -> Tensor:
        forms = [form for form in FORMS if form.entry == "dml" or (form.entry == "packet" and not form.out)]
        return torch.cat([one(form(x)).flatten() for form in forms])


@dataclass(frozen=True)
class Index:
    """A tensor backwards, by an index or by the operator that does what the index says."""

    by: str
    op, entry, out = "slice1", "index", False

    def __str__(self) -> str:
        return "index"

    def __call__(self, x: Tensor, change: Callable[..., tuple[Any, ...]] | None = None) -> Any:
        x = change(*Form(self.op).arguments(x))[0] if change else x
        return dml.index(x)[::-1] if self.by == "index" else dml.slice1(x, *dml.window(x.shape, slice(None, None, -1)))


def one(results: Any) -> Tensor:
    return results if isinstance(results, Tensor) else torch.cat([r.flatten() for r in results])


# What can be seen of a value, to be compared.


def _values(t: Tensor) -> Any:
    if type(t).__name__ == "FakeTensor" or t.device.type == "meta":
        return None
    if torch._is_functional_tensor(t):
        torch._sync(t)
        t = torch._from_functional_tensor(t)
    return t.detach().as_subclass(Tensor).tolist()


LOOKS: dict[str, Callable[[Tensor], Any]] = {
    **{
        name: operator.attrgetter(name)
        for name in ("dtype", "device", "layout", "shape", "requires_grad", "is_leaf", "output_nr", "_version")
    },
    **{
        name: operator.methodcaller(name)
        for name in ("stride", "storage_offset", "is_inference", "_is_view", "is_conj", "is_neg", "_is_zerotensor")
    },
    "type": lambda t: type(t).__name__,
    "values": _values,
    "grad_fn": lambda t: t.grad_fn and (t.grad_fn.name(), type(t.grad_fn).__name__),
    "functional": torch._is_functional_tensor,
    "lazy clone": torch._C._is_cow_tensor,
    "of vmap": _functorch.is_batchedtensor,
    "of grad": _functorch.is_gradtrackingtensor,
    "tangent": lambda t: forward_ad._current_level >= 0 and seen(forward_ad.unpack_dual(t).tangent),
}


def seen(value: Any) -> Any:
    if isinstance(value, Tensor):
        return {name: outcome(look, value) for name, look in LOOKS.items()}
    if isinstance(value, (list, tuple)):
        return [seen(v) for v in value]
    if isinstance(value, (bool, int, float, str, type(None))):
        return value
    return re.sub(r"\bj\d+$", "j", str(value))  # the size of a jagged tensor, which has a number of its own


def outcome(f: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """What can be seen of what `f` returns, or of what it raises."""
    try:
        return seen(f(*arguments, **named))
    except BaseException as error:
        before = None if error.__suppress_context__ else error.__context__
        return f"raised {type(error).__name__}: {error}" + (f", after {before!r}" if before else "")


# Tensors.


def fresh(dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.arange(1, 121, device=DEVICE).reshape(2, 3, 4, 5).to(dtype)


def requires_grad() -> Tensor:
    return fresh().requires_grad_()


def conjugate() -> Tensor:
    return (fresh(torch.complex64) * (1 - 2j)).conj()


def functional(dtype: torch.dtype = torch.float32) -> Tensor:
    return torch._to_functional_tensor(fresh(dtype))


def zero_tensor(like: Tensor) -> Tensor:
    return torch._efficientzerotensor(like.shape, dtype=like.dtype, device=like.device)


def leaked(transform: Callable[[Callable[[Tensor], Tensor]], Callable[..., Any]]) -> Tensor:
    """A tensor of a transform that has ended."""
    kept = []

    def f(x: Tensor) -> Tensor:
        kept.append(x)
        return (x * 1).sum()

    transform(f)(fresh())
    return kept[0]


class Wrapper(Tensor):
    """A subclass around a tensor, to which it passes what it is asked for."""

    @staticmethod
    def __new__(cls, inner: Tensor) -> "Wrapper":
        return Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)

    def __init__(self, inner: Tensor) -> None:
        self.wrapped = inner

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        def unwrapped(v: Any) -> Any:
            return [unwrapped(u) for u in v] if isinstance(v, (list, tuple)) else getattr(v, "wrapped", v)

        result = function(*map(unwrapped, args), **{k: unwrapped(v) for k, v in (kwargs or {}).items()})
        if isinstance(result, (list, tuple)):
            return [Wrapper(r) for r in result]
        return Wrapper(result) if isinstance(result, Tensor) else result


WITHOUT_STRIDES: dict[str, Callable[[Tensor], Tensor]] = {
    "sparse": Tensor.to_sparse,
    "sparse CSR": lambda x: x.reshape(6, -1).to_sparse_csr(),
    "mkldnn": Tensor.to_mkldnn,
    "nested": lambda x: torch.nested.nested_tensor([x, x]),
    "jagged": lambda x: torch.nested.nested_tensor([x, x], layout=torch.jagged),
}

# Of the device's own kernels, for which torch has keys of its own to dispatch by.
OF_ONE_DEVICE: dict[str, Callable[[], Tensor]] = {
    "plain": fresh,
    "requires grad": requires_grad,
    "conjugate view": conjugate,
    "negative view": lambda: conjugate().imag,
    "ZeroTensor": lambda: zero_tensor(fresh()),
    "inference tensor": torch.inference_mode()(fresh),
    "functional": functional,
}

# What may stand in the place of a tensor.
KINDS: dict[str, Callable[[Tensor], Any]] = {
    "requires grad": Tensor.requires_grad_,
    "Parameter": torch.nn.Parameter,
    "Parameter without grad": partial(torch.nn.Parameter, requires_grad=False),
    "Buffer": torch.nn.Buffer,
    "subclass": lambda x: x.as_subclass(Mine),
    "subclass with __torch_dispatch__": Wrapper,
    "meta": lambda x: x.to("meta"),
    "functional": torch._to_functional_tensor,
    "ZeroTensor": zero_tensor,
    "lazy clone": torch._lazy_clone,
    "negative view": torch._neg_view,
    "inference tensor": lambda x: torch.inference_mode()(x.clone)(),
    "another dtype": Tensor.double,
    "another shape": lambda x: x[:1],
    "a list": Tensor.tolist,
    **WITHOUT_STRIDES,
}


# Calls.

Run = Callable[[Any], Any]  # of a form


def of(make: Callable[[], Tensor]) -> Run:
    """The call of a tensor, and what became of that."""

    def run(call: Form) -> Any:
        x = make()
        return outcome(call, x), x

    return run


def with_arguments(change: Callable[..., tuple[Any, ...]]) -> Run:
    return lambda call: call(fresh(), change)


def with_first(change: Callable[[Tensor], Any]) -> Run:
    """The call with another first tensor."""
    return with_arguments(lambda x, *others: ([change(x[0]), x[1]] if isinstance(x, list) else change(x), *others))


def with_second(change: Callable[[Tensor], Any]) -> Run:
    """With another second tensor: of a join, or the lengths; with another first one where there is no second."""

    def changed(x: Any, *others: Any) -> tuple[Any, ...]:
        if isinstance(x, list):
            return [x[0], change(x[1].clone())], *others
        if isinstance(others[0], Tensor):
            return x, change(others[0]), *others[1:]
        return change(x), *others

    return with_arguments(changed)


def with_numbers(change: Callable[[list[int]], Any]) -> Run:
    """With other lists of numbers, and another axis."""

    def changed(value: Any) -> Any:
        if isinstance(value, int):
            return next(iter(change([value])), None)
        return change(list(value)) if isinstance(value, (list, torch.Size)) else value

    return with_arguments(lambda x, *others: (x, *map(changed, others)))


def inside(*contexts: Callable[[], Any], x: Callable[[], Tensor] = fresh) -> Run:
    """The call in contexts, of a tensor that is made before them, and of one that is made there."""

    def run(call: Form) -> Any:
        given = x()
        with contextlib.ExitStack() as stack:
            for context in contexts:
                stack.enter_context(context())
            return outcome(call, given), outcome(lambda: call(fresh()))

    return run


def into(change: Callable[[Tensor], Any], kind: Callable[[Any], Any] = list, dtype: torch.dtype = torch.float32) -> Run:
    """Into another `out`; of several the last one alone is another."""

    def run(call: Form) -> Any:
        plain, arguments = call.outs(fresh(dtype)), call.arguments(fresh(dtype))
        out = change(plain) if isinstance(plain, Tensor) else kind([*plain[:-1], change(plain[-1])])
        return outcome(call.into, out, *arguments), seen(plain), out

    return run


def into_the_input(call: Form) -> Any:
    arguments = call.arguments(fresh())
    first = as_list(arguments[0])[0]
    outs = [first.flatten()[: t.numel()].reshape(t.shape) for t in as_list(call.outs(first)) if t.numel() <= 120]
    return outcome(call.into, outs if call.op == "split" else (outs or [first])[0], *arguments), first


# Numbers.


class Liar(tuple):
    """Python's own functions for tuples find other items in it than those that it gives."""

    def __iter__(self) -> Iterator[Any]:
        return iter([7] * len(self))

    def __getitem__(self, k: Any) -> Any:
        return 7


def named_tuple(numbers: Sequence[int]) -> Any:
    return collections.namedtuple("Named", [f"field_{k}" for k in range(len(numbers))])(*numbers)


# Modes, and what they see.


class Sees:
    def __init__(self) -> None:
        self.seen: list[str] = []
        super().__init__()

    def look(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(str(function))
        return function(*args, **(kwargs or {}))


class SeesDispatch(Sees, TorchDispatchMode):
    __torch_dispatch__ = Sees.look


class SeesFunctions(Sees, TorchFunctionMode):
    __torch_function__ = Sees.look


def ours(names: list[str]) -> list[str]:
    return [name for name in names if "torch_dml_ops" in name]


def sees(mode: Callable[[], Any], *above: Callable[[], Any]) -> Run:
    """A mode, within which others may be active that do nothing to an operator."""

    def run(call: Form) -> Any:
        x, m = fresh(), mode()
        with m, contextlib.ExitStack() as stack:
            for other_mode in above:
                stack.enter_context(other_mode())
            result = call(x)
        return ours(m.seen), result

    return run


def profiled(call: Form) -> Any:
    """The names under which it sees the operator; it may see the overload's."""
    x = fresh()
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as p:
        result = call(x)
    return sorted({e.name.partition(".")[0] for e in p.events() if e.name.startswith("torch_dml_ops::")}), result


def with_default_device(call: Form) -> Any:
    x = fresh()
    with default_device("meta"):
        return outcome(call, x), outcome(lambda: call(torch.ones(2, 3, 4, 5)))


def dispatched_by_a_mode(f: Callable[[Tensor], Any]) -> None:
    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return f(args[0]) if function is torch.ops.aten.sin.default else function(*args, **(kwargs or {}))

    with Mode():
        requires_grad().sin()


def dispatched_by_a_subclass(f: Callable[[Tensor], Any]) -> None:
    class Calls(Wrapper):
        @classmethod
        def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return Wrapper(f(args[0].wrapped))

    Calls(requires_grad()).sin()


def below_an_operator_in_python(f: Callable[[Tensor], Any]) -> None:
    with torch.library._scoped_library("dml_fast_test", "FRAGMENT") as library:
        library.define("sin(Tensor x) -> Tensor")
        library.impl("sin", f, "CompositeExplicitAutograd")
        torch.ops.dml_fast_test.sin(requires_grad())


def called_from(caller: Callable[[Callable[[Tensor], Any]], None]) -> Run:
    """The call of a tensor that requires grad, from a place where autograd has done its part already."""

    def run(call: Form) -> Any:
        results = []

        def f(x: Tensor) -> Tensor:
            results.append(outcome(call, x))
            return torch.zeros_like(x)

        caller(f)
        return results

    return run


# Derivatives.


def backward(call: Any, through: Callable[[Callable[[Tensor], Tensor], Tensor], Tensor] = lambda f, x: f(x)) -> Any:
    x = requires_grad()
    result = through(lambda y: one(call(y)), x)
    result.sin().sum().backward()
    return result, x.grad


def within(context: Callable[[], Any]) -> Run:
    def run(call: Form) -> Any:
        with context():
            return backward(call)

    return run


def saving(call: Form) -> Any:
    kept: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        return backward(call), kept


def hooks_that_raise(kind: type[BaseException]) -> Run:
    def run(call: Form) -> Any:
        def hook(t: Tensor) -> Tensor:
            raise kind("from a hook")

        x = requires_grad()
        with torch.autograd.graph.saved_tensors_hooks(hook, lambda t: t):
            packed = outcome(call, x)
        y = one(Form(call.op, call.entry)(x))
        y.register_hook(hook)
        return packed, outcome(lambda: y.sum().backward()), call(fresh())

    return run


def dual(call: Form) -> Any:
    """With a tangent and without one."""
    with forward_ad.dual_level():
        return [outcome(call, x) for x in (forward_ad.make_dual(fresh(), fresh() * 2), fresh())]


# Transforms and tracing.


def transformed(transform: Callable[[Callable[[Tensor], Tensor]], Callable[..., Any]], x: Callable[[], Tensor]) -> Run:
    return lambda call: transform(lambda y: one(call(y)))(x())


def beside(transform: Callable[[Callable[[Tensor], Tensor]], Callable[..., Any]], x: Callable[[], Tensor]) -> Run:
    """A call of a tensor that the transform does not know."""

    def run(call: Any) -> Any:
        outer = x()
        return transform(lambda y: one(call(outer)) + y.sum())(fresh())

    return run


def total(transform: Callable[[Callable[[Tensor], Tensor]], Callable[..., Any]]) -> Any:
    """The transform for functions with one number as their result."""
    return lambda f: transform(lambda x: f(x).sin().sum())


def compiled_whole(**options: Any) -> Run:
    def run(call: Any) -> Any:
        torch._dynamo.reset()
        f = torch.compile(lambda x: one(call(x)) + 1, backend="aot_eager", fullgraph=True, **options)
        return f(fresh()), f(fresh()[:, :2, 1:])

    return run


def compiled_in_parts(call: Any) -> Any:
    def f(_: Any, x: Tensor) -> Tensor:
        y = x * 2
        torch._dynamo.graph_break()
        return torch.cat([one(form(y)).flatten() for form in FORMS if not form.out])

    torch._dynamo.reset()
    return backward(call, torch.compile(f, backend="aot_eager"))


def targets(graph: Any) -> list[str]:
    return ours([str(n.target) for n in graph.nodes if n.op == "call_function"])


def traced_by_make_fx(mode: str, **options: Any) -> Run:
    def run(call: Any) -> Any:
        graph = make_fx(lambda x: one(call(x)), tracing_mode=mode, **options)(fresh())
        return targets(graph.graph), graph(fresh() + 1)

    return run


class Called(torch.nn.Module):
    def __init__(self, f: Callable[..., Any]) -> None:
        super().__init__()
        self.f, self.weight = f, torch.nn.Parameter(torch.ones(5, device=DEVICE))

    def forward(self, x: Tensor) -> Any:
        return self.f(self, x)


def exported(call: Any) -> Any:
    program = torch.export.export(Called(lambda _, x: one(call(x))), (fresh(),), strict=False)
    return targets(program.graph), program.module()(fresh() + 1)


def traced_by_jit(call: Form) -> Any:
    graph = torch.jit.trace(lambda x: one(call(x)), (fresh(),), check_trace=False)
    return [n.kind() for n in graph.graph.nodes() if n.kind().startswith("torch_dml_ops")], graph(fresh() + 1)


def traced_by_fx(call: Form) -> Any:
    def f(module: Called, x: Tensor) -> Any:
        y = x * module.weight  # a Proxy, which has no sizes
        return call(fresh(), lambda x, *others: ([y, y] if call.op == "join" else y, *others))

    graph = torch.fx.symbolic_trace(Called(f))
    return targets(graph.graph), graph(fresh())


# The table.


@dataclass(frozen=True)
class Situation:
    """`short` and `short_out`: whether all calls go the short way (True) or none (False), without `out` and with it.

    None is for situations with several calls, or with calls that the operators refuse; they may go either way.
    """

    run: Run
    short: bool | None = None
    short_out: bool | None = None
    at_once: bool = False  # all forms in one call

    def forms(self) -> tuple[Any, ...]:
        return (AllForms(),) if self.at_once else FORMS

    def short_for(self, form: Any) -> bool | None:
        return self.short_out if form.out else self.short


plain = partial(Situation, short=True, short_out=True)
plain_without_out = partial(Situation, short=True, short_out=False)  # where `out` is refused, or not plain
other = partial(Situation, short=False, short_out=False)
either = Situation

TENSORS: dict[str, Situation] = {
    "Parameter under no_grad": plain(inside(torch.no_grad, x=lambda: torch.nn.Parameter(fresh()))),
    "Buffer": plain(of(lambda: torch.nn.Buffer(fresh()))),
    "channels_last": plain(of(lambda: fresh().contiguous(memory_format=torch.channels_last))),
    "transposed": plain(of(lambda: fresh().transpose(1, 3))),
    "expanded": plain(of(lambda: fresh()[:1].expand(2, 3, 4, 5))),
    **{
        str(dtype).removeprefix("torch."): plain(of(lambda dtype=dtype: fresh(dtype)))
        for dtype in (torch.bool, torch.uint8, torch.bfloat16, torch.float64, torch.complex64, torch.complex128)
    },
    **{kind: either(of(make)) for kind, make in OF_ONE_DEVICE.items()},
    "plain": plain(of(fresh)),
    "meta": other(of(lambda: fresh().to("meta"))),
    **{kind: other(with_first(convert)) for kind, convert in WITHOUT_STRIDES.items() if kind != "nested"},
    "nested": either(with_first(WITHOUT_STRIDES["nested"])),
    "quantized": either(with_first(lambda x: torch.quantize_per_tensor(x, 1.0, 0, torch.quint8))),
    **{
        f"{kind}, requires grad": either(with_first(lambda x, convert=convert: convert(x).requires_grad_()))
        for kind, convert in WITHOUT_STRIDES.items()
    },
    "lazy clone": plain(of(lambda: torch._lazy_clone(fresh()))),
    "inference tensor": plain(of(torch.inference_mode()(fresh))),
    "leaked from vmap": either(of(lambda: leaked(torch.func.vmap))),
    "leaked from jvp": either(of(lambda: leaked(lambda f: lambda x: torch.func.jvp(f, (x,), (x,))))),
    "leaked from grad": either(of(lambda: leaked(torch.func.grad))),
    "leaked from functionalize": either(of(lambda: leaked(torch.func.functionalize))),
    "subclass": other(of(lambda: fresh().as_subclass(Mine))),
    "subclass with __torch_dispatch__": other(of(lambda: Wrapper(fresh()))),
    **{
        f"{place}: {kind}": either(where(change))
        for place, where in (("first", with_first), ("second", with_second))
        for kind, change in KINDS.items()
    },
    "second: subclass": other(with_second(lambda x: x.as_subclass(Mine))),
    "second: sparse, requires grad": either(with_second(lambda x: x.float().to_sparse().requires_grad_())),
    "second: Parameter": plain(with_second(lambda x: torch.nn.Parameter(x, requires_grad=False))),
    "second: inference tensor": plain(with_second(lambda x: torch.inference_mode()(x.clone)())),
    "second: a list": other(with_second(Tensor.tolist)),
}

NUMBERS: dict[str, Situation] = {
    "empty": plain(of(lambda: fresh()[:0])),
    "rank 1": plain(of(lambda: fresh().flatten())),
    # up to 64 numbers go the short way
    **{f"rank {n}": plain(of(lambda n=n: fresh()[0, 0, 0].reshape([1] * (n - 1) + [5]))) for n in (8, 9, 16)},
    **{
        f"rank {n}, perhaps too many numbers": either(of(lambda n=n: fresh()[0, 0, 0].reshape([1] * (n - 1) + [5])))
        for n in (17, 21, 22)
    },
    "tuples": plain(with_numbers(tuple)),
    "torch.Size": plain(with_numbers(lambda n: torch.Size(n) if min(n) >= 0 else n)),
    "namedtuples": either(with_numbers(named_tuple)),
    "tuples that say something else": other(with_numbers(Liar)),
    "NumPy ints": either(with_numbers(lambda n: [np.int64(k) for k in n])),
    "booleans where they fit": either(with_numbers(lambda n: [bool(k) if k in (0, 1) else k for k in n])),
    "floats": other(with_numbers(lambda n: [k + 0.5 for k in n])),
    "the largest number": either(with_numbers(lambda n: [2**63 - 1 for _ in n])),
    "numbers too large, all": other(with_numbers(lambda n: [2**63 for _ in n])),
    "numbers too large, where -1 is right": either(with_numbers(lambda n: [2**63 if k == -1 else k for k in n])),
    "lists too short": either(with_numbers(lambda n: n[:-1] if len(n) > 1 else [n[0] + 9])),
    "lists too long": either(with_numbers(lambda n: [*n, 1] if len(n) > 1 else [n[0] + 9])),
    "65 ones": either(with_numbers(lambda n: [1] * 65 if len(n) > 1 else n)),
    "negative ones": either(with_numbers(lambda n: [-1 - k for k in n])),
}

DERIVATIVES: dict[str, Situation] = {
    "requires grad": plain_without_out(of(requires_grad)),
    "Parameter": plain_without_out(of(lambda: torch.nn.Parameter(fresh()))),
    "a result": plain_without_out(of(lambda: requires_grad() * 2)),
    "functional": either(of(lambda: functional().requires_grad_())),
    "meta": either(of(lambda: requires_grad().detach().to("meta").requires_grad_())),
    "no_grad": plain(inside(torch.no_grad, x=requires_grad)),
    "forward and backward": either(backward),
    "saved_tensors_hooks": either(saving),
    "anomaly mode": either(within(torch.autograd.detect_anomaly)),
    **{
        f"hooks that raise {kind.__name__}": either(hooks_that_raise(kind))
        for kind in (ValueError, AttributeError, KeyboardInterrupt, SystemExit)
    },
    "checkpoint": either(lambda call: backward(call, lambda f, x: checkpoint(f, x, use_reentrant=False))),
    "reentrant checkpoint": either(lambda call: backward(call, lambda f, x: checkpoint(f, x, use_reentrant=True))),
    "inference mode": plain_without_out(inside(torch.inference_mode)),
    "requires grad in inference mode": plain_without_out(inside(torch.inference_mode, x=requires_grad)),
    "grad mode in inference mode": either(inside(torch.inference_mode, torch.enable_grad, x=requires_grad)),
    "below autograd": either(inside(torch._C._AutoDispatchBelowAutograd, x=requires_grad)),
    "from __torch_dispatch__ of a mode": either(called_from(dispatched_by_a_mode)),
    "from __torch_dispatch__ of a subclass": either(called_from(dispatched_by_a_subclass)),
    "from an operator in Python": either(called_from(below_an_operator_in_python)),
    "forward mode": other(dual),
    "grad": other(transformed(total(torch.func.grad), fresh)),
    "jvp": other(transformed(total(lambda f: lambda x: torch.func.jvp(f, (x,), (x,))), fresh)),
    "hessian": other(transformed(total(torch.func.hessian), lambda: fresh()[:1, :1, :3, :2])),
}

MODES: dict[str, Situation] = {
    "TorchDispatchMode": other(sees(SeesDispatch)),
    "TorchFunctionMode": other(sees(SeesFunctions)),
    "TorchFunctionMode below negative_steps": other(sees(SeesFunctions, dml.negative_steps)),
    "TorchFunctionMode below two": other(sees(SeesFunctions, lambda: torch.device(DEVICE), dml.negative_steps)),
    "FakeTensorMode": other(inside(FakeTensorMode)),
    "fake tensors": other(of(lambda: FakeTensorMode().from_tensor(fresh()))),
    "set_default_device": either(with_default_device),
    "in torch.device": plain(inside(lambda: torch.device("meta"))),
    "in negative_steps": plain(inside(dml.negative_steps)),
    "autocast": plain(inside(lambda: torch.autocast(DEVICE, torch.bfloat16))),
    "profiler": plain(profiled),
    "DisableTorchFunction": plain(inside(torch._C.DisableTorchFunction)),
    "DisableTorchFunctionSubclass": either(
        inside(torch._C.DisableTorchFunctionSubclass, x=lambda: fresh().as_subclass(Mine))
    ),
    "Python's dispatcher": either(inside(enable_python_dispatcher)),
    "functionalization switched on": either(
        inside(lambda: torch._C._IncludeDispatchKeyGuard(torch._C.DispatchKey.Functionalize))
    ),
    "vmap": other(transformed(torch.func.vmap, fresh)),
    **{
        f"{name} of something else, {kind}": other(beside(transform, x))
        for name, transform in {
            "vmap": torch.func.vmap,
            "grad": total(torch.func.grad),
            "jvp": lambda f: lambda y: torch.func.jvp(f, (y,), (y,)),
            "functionalize": torch.func.functionalize,
        }.items()
        for kind, x in (("plain", fresh), ("requires grad", requires_grad))
    },
    "functionalize": other(transformed(torch.func.functionalize, fresh)),
    "torch.compile": other(compiled_whole(), at_once=True),
    "torch.compile, dynamic": other(compiled_whole(dynamic=True), at_once=True),
    "torch.compile in parts": Situation(compiled_in_parts, at_once=True),
    "make_fx": other(traced_by_make_fx("real")),
    "make_fx, symbolic": other(traced_by_make_fx("symbolic"), at_once=True),
    "make_fx before dispatch": other(traced_by_make_fx("real", pre_dispatch=True)),
    "make_fx before dispatch, symbolic": other(traced_by_make_fx("symbolic", pre_dispatch=True), at_once=True),
    "export": other(exported, at_once=True),
    "jit.trace": other(traced_by_jit),
    "fx.symbolic_trace": either(traced_by_fx),
}

# For the forms with `out`.
OUTS: dict[str, Situation] = {
    **{kind: either(into(change)) for kind, change in KINDS.items()},
    "requires grad": other(into(lambda t: t.requires_grad_())),
    "Parameter": other(into(torch.nn.Parameter)),
    "Parameter without grad": plain(into(lambda t: torch.nn.Parameter(t, requires_grad=False))),
    "subclass": other(into(lambda t: t.as_subclass(Mine))),
    "meta": other(into(lambda t: t.to("meta"))),
    "sparse": other(into(Tensor.to_sparse)),
    "conjugate view": other(into(Tensor.conj, dtype=torch.complex64)),
    "negative view": other(into(torch._neg_view)),
    "inference tensor": other(into(lambda t: torch.inference_mode()(t.clone)())),
    "no tensor": other(into(Tensor.tolist)),
    "transposed": plain(into(lambda t: t.mT.contiguous().mT)),
    "overlaps itself": either(into(lambda t: t[:1, :1, :1, :1].expand(t.shape))),
    "a view": plain(into(lambda t: torch.stack([t, t])[1])),
    "tuple": plain(into(lambda t: t, kind=tuple)),
    "the input": either(into_the_input),
}

TABLES = {"tensors": TENSORS, "numbers": NUMBERS, "derivatives": DERIVATIVES, "modes": MODES, "out": OUTS}
CPU_ONLY = ("mkldnn", "quantized")  # kinds of tensors that a GPU lacks


# Running them.


class Counted:
    """The functions of the short way, and for each call of one whether it was served."""

    def __init__(self) -> None:
        self.served: list[bool] = []

    def __getattr__(self, name: str) -> Any:
        return partial(self.counted, getattr(short_way.fast, name))

    def counted(self, function: Callable[..., Any], *arguments: Any) -> Any:
        self.served.append(False)
        result = function(*arguments)
        self.served[-1] = result is not None
        return result

    def counted_unless_not_served(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        self.served.append(True)
        return function(*arguments, **named)

    def not_served(self, original: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        self.served[-1] = False
        return original(*arguments, **named)

    def entries(self, op: str) -> Iterator[tuple[Any, Callable[..., Any]]]:
        """A packet and its overloads, each with what is to be called in its place, for which calls are counted."""
        signature = signatures[op]
        packets_own = torch._C._jit_get_operation(f"torch_dml_ops::{op}")[0]
        originals = (partial(self.not_served, f) for f in (packets_own, signature.ordinary, signature.ordinary_out))
        functions = short_way.fast_calls.functions_of(
            f"torch_dml_ops::{op}", signature.arguments, signature.gives_list, short_way.recorders[op], *originals
        )
        for entry, function in zip((signature.packet, signature.default, signature.out), functions[3:], strict=True):
            yield entry, partial(self.counted_unless_not_served, function)


def run(situation: Situation, forms: Sequence[Any]) -> tuple[dict[str, Any], dict[str, list[bool]]]:
    """For each form, what is seen of it in the situation, and which calls of the short way were served."""
    counted, results, served = Counted(), {}, {}
    setting.missing()  # before: Inductor keeps formulas by an operator's hash, which is that of its _op
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ops, "fast", counted)
        for op in OPERATORS:
            for entry, function in counted.entries(op):
                patch.setattr(entry, "_op", function)
        for form in forms:
            counted.served = []
            results[str(form)] = outcome(situation.run, form)
            served[str(form)] = counted.served
    return results, served
