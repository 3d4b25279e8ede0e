"""Calls in the ordinary way, through torch.ops, which say in one sentence why torch refuses their arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_compiling, is_dynamo_compiling

from torch_dml_ops._operators.signature import NUMBER, NUMBERS, TENSOR, TENSORS, Signature, signatures
from torch_dml_ops._sentences.arguments import (
    are_plain_numbers,
    explanation,
    is_proxy,
    proxy_among,
    require_tensor,
    require_tensors,
    whole_number,
    whole_numbers,
)
from torch_dml_ops._torch import autograd

# What torch raises for arguments that an operator does not take.
_REFUSALS = (AttributeError, OverflowError, RuntimeError, TypeError, ValueError)


def _converted(name: str, kind: str, value: Any, rank: int = 1) -> Any:
    if kind == TENSOR:
        require_tensor(name, value)
    elif kind == TENSORS:
        require_tensors(name, value)
    elif kind == NUMBER:
        return whole_number(name, value)
    elif kind == NUMBERS or value is not None:
        return whole_numbers(name, value, rank)
    return value


def converted(signature: Signature, given: Sequence[Any]) -> list[Any]:
    """The arguments of a call with numbers that are plain; raises TypeError for one of another type."""
    rank = max(given[0].dim(), 1) if isinstance(given[0], Tensor) else 1
    named = zip(signature.arguments, given, strict=False)
    return [_converted(f"{signature.name}: {name}", kind, value, rank) for (name, kind), value in named]


def call_as_given(op: str, *given: Any, out: Any = None) -> Any:
    """A call of a public function that did not go the short way: numbers may be of any type, and tensors be none."""
    signature = signatures[op]
    arguments = converted(signature, given)
    # What was not plain before may be now. Dynamo, which takes long to ask, is never in the short way.
    tried = is_dynamo_compiling() or all(map(are_plain_numbers, signature.numbers(given)))
    if out is None:
        return _call(signature, arguments, signature.ordinary if tried else signature.default)
    _converted(f"{op}: out", TENSORS if signature.gives_list else TENSOR, out)
    _call_out(signature, arguments, out, signature.ordinary_out if tried else signature.out)
    return out


def _call(signature: Signature, arguments: Sequence[Any], function: Callable[..., Any]) -> Any:
    if is_compiling():
        return signature.default(*arguments)
    if torch.jit.is_tracing() and torch.onnx.is_in_onnx_export():  # type: ignore[attr-defined,no-untyped-call]
        raise RuntimeError(f"{signature.name}: torch.onnx.export must be called with dynamo=True, got dynamo=False")
    autograd.prepare()
    try:
        return function(*arguments)
    except _REFUSALS:
        return _traced_or_refused(signature, signature.default, arguments)


def _call_out(signature: Signature, arguments: Sequence[Any], out: Any, function: Callable[..., Any]) -> None:
    if is_compiling():
        signature.out(*arguments, out=out)
        return
    autograd.prepare()
    outs = [] if is_proxy(out) else signature.named_outs(out)
    try:
        # Inference tensors skip the Autograd key, whose kernel would check this.
        autograd.telling_others(partial(autograd.check_writable, signature.name, outs), [*arguments, out])
        function(*arguments, out=out)
    except _REFUSALS:
        _traced_or_refused(signature, signature.out, arguments, out=out)


def _traced_or_refused(signature: Signature, overload: Any, arguments: Sequence[Any], **out: Any) -> Any:
    """Of a call that torch refuses: the node where a number in a list stands for one while torch.fx records, as torch
    itself looks at the first number only; otherwise the refusal is raised, in one sentence."""
    lists = [a for a in signature.numbers(arguments) if isinstance(a, (list, tuple))]
    if (given := proxy_among(*(n for numbers in lists for n in numbers))) is not None:
        # By the proxy itself: a mode, as that of a default device, would make the call that torch refuses.
        return given.__torch_function__(overload, (type(given),), tuple(arguments), out)
    if (reason := explanation(signature, arguments, **out)) is not None:
        raise reason from None
    raise
