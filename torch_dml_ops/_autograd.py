"""Derivatives of every order. Each operator is linear, and its transpose is another one of the set.

`register_linear` puts a kernel at the Autograd key that applies a single-level autograd.Function. That composes with
reverse and forward mode, torch.func, torch.compile and their nestings. With torch.library.register_autograd, in torch
2.13, torch.func.grad raises and torch.func.jvp gives zeros. The kernel uses names that are private to torch; on a torch
that lacks one of them, register_autograd serves instead (`has_private_names` is False then).

What runs when an operator is called:

    plain tensors, nothing to differentiate   the operator's overload `fast`, below the Autograd key (_fast.py)
    plain tensors, one of them requires grad  an autograd.Function around the same (_PlainFunction), whose forward and
                                              backward are C; the backward calls the transpose
    all else                                  the kernel at the Autograd key (`kernel` in register_linear), with a
                                              Function for all modes (_LinearFunction) if a derivative is needed

"All else" are subclasses of tensors, objects with __torch_function__, transforms of torch.func, forward mode, tracing,
and torch.compile. The first two lines are shortcuts: without them, the overhead of a small call would be larger than
its work.
"""

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from importlib import import_module
from typing import Any, ClassVar

import torch
import torch.autograd.forward_ad as forward_ad
from torch import Tensor
from torch.compiler import is_compiling
from torch.overrides import handle_torch_function

from torch_dml_ops import _fast, _libraries
from torch_dml_ops._arguments import explanation, recorded_among
from torch_dml_ops._overlap import check_memory
from torch_dml_ops._private import DERIVATIVES as private
from torch_dml_ops._private import in_forward_mode

has_private_names = not private.missing
if private.missing:
    warnings.warn(
        f"torch_dml_ops: this torch ({torch.__version__}) lacks a name that the derivatives are built on "
        f"({private.missing}). Backward works; torch.func transforms of these operators do not.",
        stacklevel=2,
    )
_Base: Any = private._SingleLevelFunction if has_private_names else object

fast = _fast.fast if has_private_names else _fast.nothing
_library = torch.library.Library("torch_dml_ops", "IMPL")
_ops = torch.ops.torch_dml_ops

# (cotangents of the results, shapes of the linear inputs, *the other arguments) -> cotangents of the linear inputs
Transpose = Callable[..., Sequence[Tensor]]

# What torch raises for arguments that an operator does not take.
_REFUSALS = (AttributeError, OverflowError, RuntimeError, TypeError, ValueError)


def _as_list(tensors: Tensor | Sequence[Tensor]) -> Sequence[Tensor]:
    return tensors if isinstance(tensors, (list, tuple)) else (tensors,)


def _named_tensors(arguments: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Tensor]]:
    """The tensors among an operator's arguments; one of a list has its index in its name."""
    for name, value in arguments:
        if isinstance(value, Tensor):
            yield name, value
        elif isinstance(value, (list, tuple)):
            yield from ((f"{name}[{k}]", t) for k, t in enumerate(value) if isinstance(t, Tensor))


def _requires_grad(tensors: Sequence[Tensor]) -> bool:
    if torch.is_grad_enabled():
        for t in tensors:
            if t is not None and t.requires_grad:  # torch lets None pass for a tensor
                return True
    return False


def _derivative_needed(tensors: Sequence[Tensor]) -> bool:
    # (Without the first, torch.compile fails at jvp and hessian of split and join.)
    return private._are_functorch_transforms_active() or in_forward_mode() or _requires_grad(tensors)


# Set by torch_dml_ops.distributed when it registers the rules for DTensors: makes a call on them past the dispatcher,
# or returns None, as the functions of `fast` do, if the call has to be made in the ordinary way.
call_on_dtensors: Callable[[str, Any, tuple[Any, ...]], Any] | None = None
# Set by it too: tells the other ranks why this one refuses to write into `out`, if there is a DTensor. They are on the
# way to the rule, which sends something.
tell_other_ranks: Callable[[Exception, Sequence[Tensor]], object] | None = None


def _load_rules_for_dtensors() -> None:
    """Registers them once there can be a DTensor: importing torch.distributed.tensor takes longer than this package."""
    if call_on_dtensors is None and "torch.distributed.tensor" in sys.modules:
        import_module("torch_dml_ops.distributed")


def call(name: str, first: Any, *others: Any) -> Any:
    """Calls the operator, the short way if possible; where torch refuses the arguments, one sentence says why.

    `first` is a tensor or a list of them, in which the operator is linear. The others are kept for the backward pass:
    they must be of types that cannot change.
    """
    if not is_compiling():
        result = getattr(fast, name, _fast.not_plain)(first, *others, None)
        if result is not None:
            return result
        if call_on_dtensors is not None and (result := call_on_dtensors(name, first, others)) is not None:
            return result
    op = getattr(_ops, name).default
    if is_compiling():
        return op(first, *others)
    _load_rules_for_dtensors()
    try:
        return op(first, *others)
    except _REFUSALS:
        if (given := _recorded_number(others)) is not None:
            return handle_torch_function(op, (given,), first, *others)
        if (reason := explanation(op, (first, *others))) is not None:
            raise reason from None
        raise


def _recorded_number(others: Sequence[Any]) -> Any:
    """What stands for a number in a list while torch.fx records; torch itself looks at the first number only."""
    return recorded_among(*(n for a in others if isinstance(a, (list, tuple)) for n in a))


def call_out(name: str, first: Any, *others: Any, out: Any) -> None:
    """As `call`, but the operator writes into `out`, which counts as a write."""
    op = getattr(_ops, name).out
    if is_compiling():
        op(first, *others, out=out)
        return
    if getattr(fast, name, _fast.not_plain)(first, *others, out) is not None:
        return
    _load_rules_for_dtensors()
    try:
        # Inference tensors skip the Autograd key, whose kernel would check this.
        _check(partial(check_writable, name, out), [first, *others, out])
        op(first, *others, out=out)
    except _REFUSALS:
        if (given := _recorded_number(others)) is not None:
            handle_torch_function(op, (given,), first, *others, out=out)
            return
        if (reason := explanation(op, (first, *others), out)) is not None:
            raise reason from None
        raise


linears: dict[str, "_Linear"] = {}  # by the operator's name; empty on a torch that lacks private names


def register_linear(name: str, transpose: Transpose) -> None:
    """Makes the operator differentiable: linear in its first argument, a tensor or a list, constant in the others."""
    op = getattr(_ops, name).default
    _register_lazy_out(name)
    if not has_private_names:
        _register_autograd(op, transpose)
        return
    linear = linears[name] = _Linear(op, transpose)
    if fast is not _fast.nothing and name in _fast.OPERATORS:
        function = linear.plain_function(getattr(fast, f"{name}_forward"))
        fast.record_with(_fast.OPERATORS.index(name), function)

    short_way = getattr(fast, name, _fast.not_plain)
    missing = tuple([None] * len(op._schema.arguments))  # for arguments that have defaults, and for `out`

    def kernel(keyset: Any, first: Tensor | Sequence[Tensor], *others: Any) -> Any:
        if call_on_dtensors is not None and (results := call_on_dtensors(name, first, others)) is not None:
            return results
        results = short_way(first, *others, *missing[len(others) :])
        if results is not None:
            return results
        _load_rules_for_dtensors()
        if _derivative_needed(_as_list(first)):
            return linear.record(keyset, first, others)
        with private._AutoDispatchBelowAutograd():
            return op.redispatch(keyset & private._after_autograd_keyset, first, *others)

    _library.impl(name, kernel, "Autograd", with_keyset=True)
    _register_out(name)


class _Linear:
    """An operator, its transpose, and the autograd.Function that records calls of it."""

    def __init__(self, op: Any, transpose: Transpose) -> None:
        first, *others = op._schema.arguments
        self.op, self.transpose = op, transpose
        self.takes_list = first.type.kind() == "ListType"
        self.gives_list = op._schema.returns[0].type.kind() == "ListType"
        self.takes_constants = any(a.type.kind() == "TensorType" for a in others)  # tensors that it is not linear in
        self.title = op.name().partition("::")[2].title().replace("_", "")
        self.function = _named(self.title, _LinearFunction)

    def call(self, inputs: Sequence[Tensor], others: Sequence[Any], call: Callable[..., Any] | None = None) -> Any:
        """Calls the operator on a sequence of its linear inputs; returns the results as an autograd.Function has to."""
        results = (self.op if call is None else call)(list(inputs) if self.takes_list else inputs[0], *others)
        return tuple(results) if self.gives_list else results

    def plain_function(self, forward: Any) -> Any:
        """What records a call where no transform, mode or tracing is at work."""

        def transposed(recorded: Any, saved: tuple[Tensor, ...], cotangents: tuple[Tensor, ...]) -> Any:
            shapes, others = recorded
            grads = self.transpose(cotangents, shapes if self.takes_list else [shapes], *saved, *others)
            return (None, *grads) if self.takes_list else (*grads, None)

        # No attribute for `transposed` to read: compiled autograd traces it, and would not find one.
        return _named(self.title, _PlainFunction, transposed=staticmethod(transposed), forward=staticmethod(forward))

    def record(self, keyset: Any, first: Tensor | Sequence[Tensor], others: Sequence[Any]) -> Any:
        """The results, with the call in their graph, in every case. `keyset` has the call's dispatch keys."""
        inputs = _as_list(first)
        allowed = private.get_single_level_autograd_function_allowed()
        private.set_single_level_autograd_function_allowed(True)
        try:
            results = self.function.apply(self, keyset, len(inputs), *inputs, *others)
        finally:
            private.set_single_level_autograd_function_allowed(allowed)
        return list(results) if self.gives_list else results


class _Recorded(_Base):  # type: ignore[misc]
    @staticmethod
    def _compiled_autograd_key(ctx: Any) -> tuple[int]:
        return (ctx._autograd_function_id,)  # as autograd.Function has it


class _LinearFunction(_Recorded):
    """A recorded call. The first arguments of `apply` are a _Linear, dispatch keys and the number of linear inputs."""

    @staticmethod
    def forward(linear: _Linear, keyset: Any, count: int, *rest: Any) -> Any:
        inputs, others = rest[:count], rest[count:]
        # Without both grad modes on, the inner levels of a hessian would see constants.
        with torch.enable_grad(), private._set_fwd_grad_enabled(True), private._AutoDispatchBelowAutograd():
            return linear.call(inputs, others, partial(linear.op.redispatch, keyset & private._after_autograd_keyset))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        linear, _, count, *rest = inputs
        ctx.linear, ctx.count, others = linear, count, rest[count:]
        ctx.shapes = [t.shape for t in rest[:count]]
        if not linear.takes_constants:
            ctx.others = others
            return
        # Sequence lengths are saved as tensors are, so that writing to them before the backward pass is an error.
        ctx.is_tensor = [isinstance(a, Tensor) for a in others]
        constants = [a for a in others if isinstance(a, Tensor)]
        ctx.save_for_backward(*constants)
        ctx.save_for_forward(*constants)
        ctx.others = [None if isinstance(a, Tensor) else a for a in others]

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> Any:
        grads = ctx.linear.transpose(list(cotangents), ctx.shapes, *_others(ctx))
        return None, None, None, *grads, *(None for _ in ctx.others)

    @staticmethod
    def jvp(ctx: Any, _linear: Any, _keyset: Any, _count: Any, *tangents: Any) -> Any:
        # torch fills in zeros where only some of the inputs have a tangent
        return ctx.linear.call(tangents[: ctx.count], _others(ctx))


def _others(ctx: Any) -> tuple[Any, ...]:
    """The other arguments of a recorded call, as they were given."""
    if not ctx.linear.takes_constants:
        return tuple(ctx.others)
    saved = iter(ctx.saved_tensors)
    return tuple(next(saved) if t else a for t, a in zip(ctx.is_tensor, ctx.others, strict=True))


class _PlainFunction(_Recorded):
    """A recorded call of plain tensors: forward mode cannot reach it, nor can a transform.

    `forward` is of csrc/python/fast_calls.cpp, and so is what autograd calls in the backward pass; that calls
    `transposed`, where the cotangents are not plain.
    """

    transposed: ClassVar[Callable[..., Any]]

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> Any:
        return ctx._forward_cls.transposed(ctx.recorded, ctx.saved_tensors, cotangents)


def _named(name: str, base: Any, **attributes: Any) -> Any:
    """A subclass; graphs and traces of errors show its name."""
    function = type(name, (base,), attributes)
    backward: Any = function._backward_cls  # type: ignore[attr-defined]
    backward.__name__ = backward.__qualname__ = f"{name}Backward"
    return function


def _register_autograd(op: Any, transpose: Transpose) -> None:
    takes_list = op._schema.arguments[0].type.kind() == "ListType"

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.shapes = [t.shape for t in _as_list(inputs[0])]
        ctx.others = inputs[1:]

    def backward(ctx: Any, cotangents: Tensor | Sequence[Tensor]) -> Any:
        grads = transpose(list(_as_list(cotangents)), ctx.shapes, *ctx.others)
        return grads if takes_list else grads[0], *(None for _ in ctx.others)

    torch.library.register_autograd(op.name(), backward, setup_context=setup_context)


def _check(check: Callable[[], None], arguments: Sequence[Any]) -> None:
    """Makes a check of `out` that may fail on one rank alone."""
    try:
        check()
    except RuntimeError as refusal:
        if tell_other_ranks is not None:
            tell_other_ranks(refusal, [t for _, t in _named_tensors(("", a) for a in arguments)])
        raise


def check_writable(name: str, out: Any) -> None:
    for argument, t in _named_tensors([("out", out)]):
        if t.is_conj() or t.is_neg():
            raise RuntimeError(
                f"{name}: {argument} must not be a lazily conjugated or negated view, whose elements are not what its "
                "memory holds; call resolve_conj() or resolve_neg() first"
            )
        if t.is_inference() and not torch.is_inference_mode_enabled():
            raise RuntimeError(f"{name}: {argument} must not be an inference tensor outside of torch.inference_mode()")


def _register_out(name: str) -> None:
    """Registers what ATen's out functions do: refuse derivatives, and count as a write to `out`."""
    op = getattr(_ops, name).out
    names = [a.name for a in op._schema.arguments]

    def check_arguments(args: Any, out: Any) -> None:
        for argument, t in _named_tensors((*zip(names, args, strict=False), ("out", out))):
            if torch.is_grad_enabled() and t.requires_grad:
                raise RuntimeError(
                    f"{name}: with out there is no automatic differentiation, and {argument} requires grad; call it "
                    "without out, or under torch.no_grad()"
                )
            if in_forward_mode() and forward_ad.unpack_dual(t).tangent is not None:
                raise RuntimeError(
                    f"{name}: with out there is no automatic differentiation, and {argument} has a tangent; call it "
                    "without out"
                )
        check_writable(name, out)

    short_way = getattr(fast, name, _fast.not_plain)
    missing = (None,) * (len(names) - 1)  # for arguments that have defaults

    def check(keyset: Any, *args: Any, out: Any) -> None:
        # (To the short way, None as `out` means that a new result is wanted.)
        if out is not None and short_way(*args, *missing[len(args) :], out) is not None:
            return
        _load_rules_for_dtensors()
        _check(partial(check_arguments, args, out), [*args, out])
        with private._AutoDispatchBelowAutograd():
            op.redispatch(keyset & private._after_autograd_keyset, *args, out=out)

    def count_write(keyset: Any, *args: Any, out: Any) -> None:
        with private._AutoDispatchBelowADInplaceOrView():
            op.redispatch(keyset & private._after_ADInplaceOrView_keyset, *args, out=out)
        torch.autograd.graph.increment_version(tuple(_as_list(out)))

    # (Plain tensors come this far from C++, TorchScript for example.)
    _library.impl(f"{name}.out", check, "Autograd", with_keyset=True)
    _library.impl(f"{name}.out", count_write, "ADInplaceOrView", with_keyset=True)


def _register_lazy_out(name: str) -> None:
    """Keeps torch's own kernels for lazily conjugated and negated tensors from the operators that return nothing.

    They would take a reference off the stack that is not theirs.
    """
    op = getattr(_ops, name).out
    names = [a.name for a in op._schema.arguments]

    def resolved(argument: Any) -> Any:
        return argument.resolve_conj().resolve_neg() if isinstance(argument, Tensor) else argument

    def kernel(*args: Any, out: Any) -> None:
        check_writable(name, out)
        inputs = _named_tensors(zip(names, args, strict=False))
        check_memory(name, list(_named_tensors([("out", out)])), list(inputs))  # the operator gets copies of lazy views
        op(*(list(map(resolved, a)) if isinstance(a, list) else resolved(a) for a in args), out=out)

    for key in ("Conjugate", "Negative"):
        _library.impl(f"{name}.out", kernel, key)


_libraries.leave_to_python()
