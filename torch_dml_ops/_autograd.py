"""Derivatives of every order. Each operator is linear, and its transpose is another one of the set.

`register_linear` puts a kernel at the Autograd key that applies a single-level autograd.Function. That composes with
reverse and forward mode, torch.func, torch.compile and their nestings, where torch.library.register_autograd raises or
gives wrong tangents under torch.func. It uses names that are private to torch; on a torch that lacks one of them,
register_autograd serves instead (`composes` is False then).
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
import torch.autograd.forward_ad as forward_ad
from torch import Tensor
from torch.compiler import is_compiling

from torch_dml_ops._checks import check_types

try:
    from torch._C import (
        _after_ADInplaceOrView_keyset,
        _after_autograd_keyset,
        _AutoDispatchBelowADInplaceOrView,
        _AutoDispatchBelowAutograd,
    )
    from torch._C import _are_functorch_transforms_active as transforms_active
    from torch._C._functorch import (
        get_single_level_autograd_function_allowed,
        set_single_level_autograd_function_allowed,
    )
    from torch.autograd.forward_ad import _set_fwd_grad_enabled
    from torch.autograd.function import _SingleLevelFunction

    forward_ad._current_level  # noqa: B018
    composes = True
except (ImportError, AttributeError) as missing:
    composes = False
    warnings.warn(
        f"torch_dml_ops: this torch ({torch.__version__}) lacks a name that the derivatives are built on ({missing}). "
        "Backward works; torch.func transforms of these operators do not.",
        stacklevel=2,
    )

_library = torch.library.Library("torch_dml_ops", "IMPL")
_ops = torch.ops.torch_dml_ops
_recorded: dict[Any, Callable[..., Any]] = {}  # by operator: (dispatch keys or None, arguments) -> results with a graph

# (cotangents of the results, shapes of the linear inputs, the other arguments) -> cotangents of the linear inputs
Transpose = Callable[[list[Tensor], list[torch.Size], tuple[Any, ...]], list[Tensor]]


def _as_list(tensors: Tensor | Sequence[Tensor]) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _named_tensors(arguments: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Tensor]]:
    """The tensors among an operator's arguments; one of a list has its index in its name."""
    for name, value in arguments:
        if isinstance(value, Tensor):
            yield name, value
        elif isinstance(value, (list, tuple)):
            yield from ((f"{name}[{k}]", t) for k, t in enumerate(value) if isinstance(t, Tensor))


def _only_reverse_mode() -> bool:
    """Whether no transform of torch.func and no forward mode is at work: what is left can be seen at requires_grad."""
    return not transforms_active() and forward_ad._current_level < 0  # compile(jvp) has no open level, but a transform


def _derivative_needed(tensors: Sequence[Tensor]) -> bool:
    return not _only_reverse_mode() or _requires_grad(tensors)


def _requires_grad(tensors: Sequence[Tensor]) -> bool:
    if torch.is_grad_enabled():
        for t in tensors:
            if t.requires_grad:
                return True
    return False


def call(op: Any, tensors: Sequence[Tensor], *arguments: Any) -> Any:
    """The operator, past the Autograd key where there is no more to do than record it, or not even that.

    `tensors` are those of its linear argument, the first one. The key's kernel would do the same, but to get there and
    back costs as much as a small operator does.
    """
    if not composes or is_compiling() or not _only_reverse_mode():
        return op(*arguments)
    try:
        if _requires_grad(tensors):
            return _recorded[op](None, *arguments)
        with _AutoDispatchBelowAutograd():
            return op(*arguments)
    except (AttributeError, RuntimeError, TypeError):
        check_types(op, arguments)
        raise


def call_out(op: Any, outs: Sequence[Tensor], tensors: Sequence[Tensor], *arguments: Any, out: Any) -> None:
    """The same for an operator that writes into `out`; it counts as a write."""
    if not composes or is_compiling():
        op(*arguments, out=out)
        return
    try:
        _call_out(op, outs, tensors, *arguments, out=out)
    except (AttributeError, RuntimeError, TypeError):
        check_types(op, (*arguments, out))
        raise


def _call_out(op: Any, outs: Sequence[Tensor], tensors: Sequence[Tensor], *arguments: Any, out: Any) -> None:
    if _derivative_needed((*tensors, *outs)):
        op(*arguments, out=out)
        return
    for t in outs:
        if t.is_inference() or t.is_conj() or t.is_neg():
            # Inference tensors do not come by the Autograd key, which would check it.
            _check_writable(op.name().partition("::")[2].removesuffix(".out"), _named_tensors([("out", out)]))
            op(*arguments, out=out)
            return
    with _AutoDispatchBelowADInplaceOrView():
        op(*arguments, out=out)
    torch.autograd.graph.increment_version(outs)


def register_linear(name: str, transpose: Transpose) -> None:
    """Makes the operator differentiable: linear in its first argument, a tensor or a list, constant in the others."""
    if composes:
        _register_at_autograd_key(name, transpose)
    else:
        _register_autograd(name, transpose)
    _register_out(name)


def _register_at_autograd_key(name: str, transpose: Transpose) -> None:
    op = getattr(_ops, name).default
    takes_list = op._schema.arguments[0].type.kind() == "ListType"
    gives_list = op._schema.returns[0].type.kind() == "ListType"
    has_tensors = any(a.type.kind() == "TensorType" for a in op._schema.arguments[1:])

    class Linear(_SingleLevelFunction):
        # Arguments: the dispatch keys, how many of the rest are linear inputs, those, and the operator's other ones.
        @staticmethod
        def forward(keyset: Any, count: int, *rest: Any) -> Any:
            inputs = list(rest[:count]) if takes_list else rest[0]
            if keyset is None:
                with _AutoDispatchBelowAutograd():
                    results = op(inputs, *rest[count:])
            else:
                # Without both grad modes on, the inner levels of a hessian would see constants.
                with torch.enable_grad(), _set_fwd_grad_enabled(True), _AutoDispatchBelowAutograd():
                    results = op.redispatch(keyset & _after_autograd_keyset, inputs, *rest[count:])
            return tuple(results) if gives_list else results

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            _, count, *rest = inputs
            ctx.count = count
            ctx.shapes = [t.shape for t in rest[:count]]
            if not has_tensors:
                ctx.others = rest[count:]
                return
            # Sequence lengths are saved as tensors are, so that writing to them before the backward pass is an error.
            ctx.is_tensor = [isinstance(a, Tensor) for a in rest[count:]]
            constants = [a for a in rest[count:] if isinstance(a, Tensor)]
            ctx.save_for_backward(*constants)
            ctx.save_for_forward(*constants)
            ctx.others = [None if isinstance(a, Tensor) else a for a in rest[count:]]

        @staticmethod
        def _compiled_autograd_key(ctx: Any) -> tuple[int]:
            return (ctx._autograd_function_id,)  # as autograd.Function has it

        @staticmethod
        def arguments(ctx: Any) -> tuple[Any, ...]:
            if not has_tensors:
                return tuple(ctx.others)
            saved = iter(ctx.saved_tensors)
            return tuple(next(saved) if t else a for t, a in zip(ctx.is_tensor, ctx.others, strict=True))

        @staticmethod
        def backward(ctx: Any, *cotangents: Tensor) -> Any:
            grads = transpose(list(cotangents), ctx.shapes, Linear.arguments(ctx))
            return None, None, *grads, *(None for _ in ctx.others)

        @staticmethod
        def jvp(ctx: Any, _keyset: Any, _count: Any, *tangents: Any) -> Any:
            given = list(tangents[: ctx.count])  # torch fills in zeros where only some of the inputs have a tangent
            results = op(given if takes_list else given[0], *Linear.arguments(ctx))
            return tuple(results) if gives_list else results

    # Graphs and traces of errors show this name.
    backward_class: Any = Linear._backward_cls
    backward_class.__name__ = backward_class.__qualname__ = name.title().replace("_", "") + "Backward"

    def recorded(keyset: Any, first: Tensor | Sequence[Tensor], *others: Any) -> Any:
        inputs = _as_list(first)
        allowed = get_single_level_autograd_function_allowed()
        set_single_level_autograd_function_allowed(True)
        try:
            results = Linear.apply(keyset, len(inputs), *inputs, *others)  # type: ignore[attr-defined]
        finally:
            set_single_level_autograd_function_allowed(allowed)
        return list(results) if gives_list else results

    def kernel(keyset: Any, first: Tensor | Sequence[Tensor], *others: Any) -> Any:
        if _derivative_needed(_as_list(first)):
            return recorded(keyset, first, *others)
        with _AutoDispatchBelowAutograd():
            return op.redispatch(keyset & _after_autograd_keyset, first, *others)

    _recorded[op] = recorded
    _library.impl(name, kernel, "Autograd", with_keyset=True)


def _register_autograd(name: str, transpose: Transpose) -> None:
    op = getattr(_ops, name).default
    takes_list = op._schema.arguments[0].type.kind() == "ListType"

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.shapes = [t.shape for t in _as_list(inputs[0])]
        ctx.others = inputs[1:]

    def backward(ctx: Any, cotangents: Tensor | Sequence[Tensor]) -> Any:
        grads = transpose(_as_list(cotangents), ctx.shapes, ctx.others)
        return grads if takes_list else grads[0], *(None for _ in ctx.others)

    torch.library.register_autograd(f"torch_dml_ops::{name}", backward, setup_context=setup_context)


def _check_writable(name: str, outs: Iterable[tuple[str, Tensor]]) -> None:
    for argument, t in outs:
        if t.is_conj() or t.is_neg():
            raise RuntimeError(
                f"{name}: {argument} must not be a lazily conjugated or negated view, whose elements are not what its "
                "memory holds; call resolve_conj() or resolve_neg() first"
            )
        if t.is_inference() and not torch.is_inference_mode_enabled():
            raise RuntimeError(f"{name}: {argument} must not be an inference tensor outside of torch.inference_mode()")


def _register_out(name: str) -> None:
    """As ATen treats its out functions: they have no derivatives, say so, and count as a write to `out`."""
    if not composes:
        return
    op = getattr(_ops, name).out
    names = [a.name for a in op._schema.arguments]

    def check_no_derivative(keyset: Any, *args: Any, out: Any) -> None:
        for argument, t in _named_tensors((*zip(names, args, strict=False), ("out", out))):
            if torch.is_grad_enabled() and t.requires_grad:
                raise RuntimeError(
                    f"{name}: with out there is no automatic differentiation, and {argument} requires grad; call it "
                    "without out, or under torch.no_grad()"
                )
            if forward_ad._current_level >= 0 and forward_ad.unpack_dual(t).tangent is not None:
                raise RuntimeError(
                    f"{name}: with out there is no automatic differentiation, and {argument} has a tangent; call it "
                    "without out"
                )
        _check_writable(name, _named_tensors([("out", out)]))
        with _AutoDispatchBelowAutograd():
            op.redispatch(keyset & _after_autograd_keyset, *args, out=out)

    def count_write(keyset: Any, *args: Any, out: Any) -> None:
        with _AutoDispatchBelowADInplaceOrView():
            op.redispatch(keyset & _after_ADInplaceOrView_keyset, *args, out=out)
        torch.autograd.graph.increment_version(tuple(_as_list(out)))

    _library.impl(f"{name}.out", check_no_derivative, "Autograd", with_keyset=True)
    _library.impl(f"{name}.out", count_write, "ADInplaceOrView", with_keyset=True)


def _slice1(cotangents: list[Tensor], shapes: list[torch.Size], others: tuple[Any, ...]) -> list[Tensor]:
    offsets, sizes, strides = others[:3]
    return [_ops.slice_grad.default(cotangents[0], shapes[0], offsets, sizes, strides)]


def _slice_grad(cotangents: list[Tensor], shapes: list[torch.Size], others: tuple[Any, ...]) -> list[Tensor]:
    _, offsets, sizes, strides = others
    return [_ops.slice1.default(cotangents[0], offsets, sizes, strides, shapes[0])]


def _split(cotangents: list[Tensor], shapes: list[torch.Size], others: tuple[Any, ...]) -> list[Tensor]:
    _, axis = others
    return [_ops.join.default(cotangents, axis)]


def _join(cotangents: list[Tensor], shapes: list[torch.Size], others: tuple[Any, ...]) -> list[Tensor]:
    (axis,) = others
    result: list[Tensor] = _ops.split.default(cotangents[0], [shape[axis] for shape in shapes], axis)
    return result


def _reverse_subsequences(cotangents: list[Tensor], shapes: list[torch.Size], others: tuple[Any, ...]) -> list[Tensor]:
    lengths, axis = others
    return [_ops.reverse_subsequences.default(cotangents[0], lengths, axis)]


register_linear("slice1", _slice1)
register_linear("slice_grad", _slice_grad)
register_linear("split", _split)
register_linear("join", _join)
register_linear("reverse_subsequences", _reverse_subsequences)
