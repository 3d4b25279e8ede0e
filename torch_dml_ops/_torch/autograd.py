"""Derivatives of every order. Each operator is linear, and its transpose is another one of the set.

`register` puts a kernel at the Autograd key that applies a single-level autograd.Function. That composes with reverse
and forward mode, torch.func, torch.compile and their nestings. With torch.library.register_autograd, in torch 2.13,
torch.func.grad raises and torch.func.jvp gives zeros. The kernel uses names that are private to torch; on a torch that
lacks one of them, register_autograd serves instead (`has_private_names` is False then).

What runs when an operator is called:

    plain tensors, nothing to differentiate   the operator's overload `fast`, below the Autograd key (short_way.py)
    plain tensors, one of them requires grad  an autograd.Function around the same (_Linear.plain_function)
    all else                                  the kernel at the Autograd key (`kernel` in `register`), with a Function
                                              for all modes (_LinearFunction) if a derivative is needed

"All else" are subclasses of tensors, objects with __torch_function__, transforms of torch.func, forward mode, tracing,
and torch.compile. The first two lines are shortcuts: without them, the overhead of a small call would be larger than
its work.
"""

import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import torch
import torch.autograd.forward_ad as forward_ad
from torch import Tensor

from torch_dml_ops import _libraries
from torch_dml_ops._operators.overlap import check_memory
from torch_dml_ops._operators.signature import Signature
from torch_dml_ops._torch import short_way
from torch_dml_ops._torch.private import DERIVATIVES as private
from torch_dml_ops._torch.private import in_forward_mode

has_private_names = not private.missing
if private.missing:
    warnings.warn(
        f"torch_dml_ops: this torch ({torch.__version__}) lacks a name that the derivatives are built on "
        f"({private.missing}). Backward works; torch.func transforms of these operators do not.",
        stacklevel=2,
    )
_Base: Any = private._SingleLevelFunction if has_private_names else object

_library = torch.library.Library("torch_dml_ops", "IMPL")

# (cotangents of the results, shapes of the linear inputs, *the other arguments) -> cotangents of the linear inputs
Transpose = Callable[..., Sequence[Tensor]]

# Called before each call in the ordinary way: what registers rules for other kinds of tensors once there can be any.
preparations: list[Callable[[], object]] = []
# Types of tensors whose rules take lazily conjugated and negated ones as they are. (torch would resolve them first.)
with_rules_for_lazy_views: set[type] = set()
# Called where `out` is refused, with the refusal and the tensors of the call: on one rank alone, perhaps, while others
# are on the way to a rule that sends something.
when_out_is_refused: list[Callable[[Exception, Sequence[Tensor]], object]] = []


def prepare() -> None:
    for preparation in preparations:
        preparation()


def _tensors_among(arguments: Iterable[Any]) -> list[Tensor]:
    lists = (a if isinstance(a, (list, tuple)) else (a,) for a in arguments)
    return [t for each in lists for t in each if isinstance(t, Tensor)]


def _derivative_needed(tensors: Sequence[Tensor]) -> bool:
    # (Without the first, torch.compile fails at jvp and hessian of split and join.)
    if private._are_functorch_transforms_active() or in_forward_mode():
        return True
    return torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)  # torch lets None pass


def register(signature: Signature, transpose: Transpose) -> None:
    """Makes an operator differentiable, by its transpose, and gives it the short way."""
    _register_lazy_out(signature)
    if not has_private_names:
        short_way.add(signature, None)
        _register_autograd(signature, transpose)
        return
    linear = _Linear(signature, transpose)
    short_way.add(signature, linear.plain_function().apply)

    def kernel(keyset: Any, *arguments: Any) -> Any:
        prepare()
        inputs = arguments[0] if signature.takes_list else arguments[:1]
        below = keyset & private._after_autograd_keyset
        if not with_rules_for_lazy_views.isdisjoint(map(type, inputs)):
            below = below.remove(private.Conjugate).remove(private.Negative)
        if _derivative_needed(inputs):
            return linear.record(below, signature.positional(arguments, {}))
        with private._AutoDispatchBelowAutograd():
            return signature.default.redispatch(below, *arguments)

    _library.impl(signature.name, kernel, "Autograd", with_keyset=True)
    _register_out(signature)


class _Linear:
    """An operator, its transpose, and the autograd.Functions that record calls of it."""

    def __init__(self, signature: Signature, transpose: Transpose) -> None:
        self.signature, self.transpose = signature, transpose
        self.function = _named(signature, _LinearFunction)

    def call(self, function: Callable[..., Any], tensors: Sequence[Tensor], numbers: Sequence[Any]) -> Any:
        """Calls a function that takes what the operator takes; returns what an autograd.Function has to."""
        results = function(*self.signature.with_tensors(tensors, numbers))
        return tuple(results) if self.signature.gives_list else results

    def record(self, below: Any, arguments: Sequence[Any]) -> Any:
        """The results, with the call in their graph, in every case. `below` are the call's keys below Autograd."""
        tensors = [t for _, t in self.signature.named_tensors(arguments)]
        allowed = private.get_single_level_autograd_function_allowed()
        private.set_single_level_autograd_function_allowed(True)
        try:
            results = self.function.apply(self, below, self.signature.numbers(arguments), *tensors)
        finally:
            private.set_single_level_autograd_function_allowed(allowed)
        return list(results) if self.signature.gives_list else results

    def transposed(self, ctx: Any, cotangents: Sequence[Tensor]) -> Sequence[Any]:
        """The cotangents of all tensors of a call; `ctx.recorded` is the shapes of the linear ones, and the numbers."""
        shapes, numbers = ctx.recorded
        # Where nothing was saved, torch refuses to look a second time.
        constants = ctx.saved_tensors if self.signature.constants else ()
        grads = self.transpose(list(cotangents), shapes, *self.signature.others(constants, numbers))
        return [*grads, *[None] * len(constants)]

    def plain_function(self) -> Any:
        """What records a call of plain tensors, where no transform, mode or tracing is at work. It is applied to the
        numbers, which nobody else has, and to the tensors."""
        name, constants = self.signature.name, len(self.signature.constants)

        def forward(ctx: Any, numbers: tuple[Any, ...], *tensors: Tensor) -> Any:
            results = short_way.recorded[name](numbers, *tensors)
            if results is None:
                raise short_way.NotPlain
            if constants:  # sequence lengths: writing to them before the backward pass is an error then
                ctx.save_for_backward(*tensors[-constants:])
                tensors = tensors[:-constants]
            ctx.recorded = [t.shape for t in tensors], numbers
            return results

        def backward(ctx: Any, *cotangents: Tensor) -> Any:
            return None, *self.transposed(ctx, cotangents)

        # (Not methods that read attributes of a class: compiled autograd traces them, and would not find any.)
        functions = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
        return _named(self.signature, _Recorded, **functions)


class _Recorded(_Base):  # type: ignore[misc]
    @staticmethod
    def _compiled_autograd_key(ctx: Any) -> tuple[int]:
        return (ctx._autograd_function_id,)  # as autograd.Function has it


class _LinearFunction(_Recorded):
    """A recorded call. `apply` takes a _Linear, dispatch keys, the numbers of the call and its tensors."""

    @staticmethod
    def forward(linear: _Linear, below: Any, numbers: Any, *tensors: Any) -> Any:
        redispatch = partial(linear.signature.default.redispatch, below)
        # Without both grad modes on, the inner levels of a hessian would see constants.
        with torch.enable_grad(), private._set_fwd_grad_enabled(True), private._AutoDispatchBelowAutograd():
            return linear.call(redispatch, tensors, numbers)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.linear, _, numbers, *tensors = inputs
        count = len(tensors) - len(ctx.linear.signature.constants)
        ctx.recorded = [t.shape for t in tensors[:count]], numbers
        ctx.save_for_backward(*tensors[count:])
        ctx.save_for_forward(*tensors[count:])

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> Any:
        return None, None, None, *ctx.linear.transposed(ctx, cotangents)

    @staticmethod
    def jvp(ctx: Any, _linear: Any, _below: Any, _numbers: Any, *tangents: Any) -> Any:
        # torch fills in zeros where only some of the inputs have a tangent
        shapes, numbers = ctx.recorded
        tensors = *tangents[: len(shapes)], *ctx.saved_tensors
        return ctx.linear.call(ctx.linear.signature.default, tensors, numbers)


def _named(signature: Signature, base: Any, **attributes: Any) -> Any:
    """A subclass; graphs and traces of errors show its name."""
    function = type(signature.title, (base,), attributes)
    backward: Any = function._backward_cls  # type: ignore[attr-defined]
    backward.__name__ = backward.__qualname__ = f"{signature.title}Backward"
    return function


def _register_autograd(signature: Signature, transpose: Transpose) -> None:
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.shapes = [t.shape for t in (inputs[0] if signature.takes_list else inputs[:1])]
        ctx.others = inputs[1:]

    def backward(ctx: Any, cotangents: Tensor | Sequence[Tensor]) -> Any:
        grads = transpose(signature.listed(cotangents), ctx.shapes, *ctx.others)
        return grads if signature.takes_list else grads[0], *(None for _ in ctx.others)

    torch.library.register_autograd(signature.default.name(), backward, setup_context=setup_context)


def telling_others(check: Callable[[], None], arguments: Sequence[Any]) -> None:
    """Makes a check of `out`; where it fails, perhaps on one rank alone, `when_out_is_refused` tells the others."""
    try:
        check()
    except RuntimeError as refusal:
        for tell in when_out_is_refused:
            tell(refusal, _tensors_among(arguments))
        raise


def check_writable(op: str, outs: Iterable[tuple[str, Tensor]]) -> None:
    for argument, t in outs:
        if not isinstance(t, Tensor):  # None, say: the operator refuses it
            continue
        if t.is_conj() or t.is_neg():
            raise RuntimeError(
                f"{op}: {argument} must not be a lazily conjugated or negated view, whose elements are not "
                "what its memory holds; call resolve_conj() or resolve_neg() first"
            )
        if t.is_inference() and not torch.is_inference_mode_enabled():
            raise RuntimeError(f"{op}: {argument} must not be an inference tensor outside of torch.inference_mode()")


def _register_out(signature: Signature) -> None:
    """Registers what ATen's out functions do: refuse derivatives, and count as a write to `out`."""
    name, op = signature.name, signature.out

    def check_arguments(args: Any, out: Any) -> None:
        for argument, t in (*signature.named_tensors(args), *signature.named_outs(out)):
            if not isinstance(t, Tensor):  # None, say: the operator refuses it
                continue
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
        check_writable(name, signature.named_outs(out))

    def check(keyset: Any, *args: Any, out: Any) -> None:
        prepare()
        telling_others(partial(check_arguments, args, out), [*args, out])
        with private._AutoDispatchBelowAutograd():
            op.redispatch(keyset & private._after_autograd_keyset, *args, out=out)

    def count_write(keyset: Any, *args: Any, out: Any) -> None:
        with private._AutoDispatchBelowADInplaceOrView():
            op.redispatch(keyset & private._after_ADInplaceOrView_keyset, *args, out=out)
        torch.autograd.graph.increment_version(tuple(signature.listed(out)))

    _library.impl(f"{name}.out", check, "Autograd", with_keyset=True)
    _library.impl(f"{name}.out", count_write, "ADInplaceOrView", with_keyset=True)


def _register_lazy_out(signature: Signature) -> None:
    """Keeps torch's own kernels for lazily conjugated and negated tensors from the operators that return nothing.

    They would take a reference off the stack that is not theirs.
    """

    def resolved(argument: Any) -> Any:
        return argument.resolve_conj().resolve_neg() if isinstance(argument, Tensor) else argument

    def kernel(keyset: Any, *args: Any, out: Any) -> None:
        if not with_rules_for_lazy_views.isdisjoint(map(type, _tensors_among([*args, out]))):
            below = keyset.remove(private.Conjugate).remove(private.Negative)  # their rules resolve them
            signature.out.redispatch(below, *args, out=out)
            return
        check_writable(signature.name, signature.named_outs(out))
        # (The operator gets copies of lazy views.)
        check_memory(signature.name, signature.named_outs(out), signature.named_tensors(args))
        signature.out(*(list(map(resolved, a)) if isinstance(a, list) else resolved(a) for a in args), out=out)

    for key in ("Conjugate", "Negative"):
        _library.impl(f"{signature.name}.out", kernel, key, with_keyset=True)


_libraries.leave_to_python()
