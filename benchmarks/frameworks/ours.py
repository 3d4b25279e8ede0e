"""torch_dml_ops."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from cases import Case
from torch import Tensor
from torch.utils._pytree import tree_map

import torch_dml_ops as dml

from . import Call
from .torch_eager import inputs_of


def operation(case: Case, x: Tensor) -> tuple[Callable[..., Any], list[Tensor]]:
    """The function that does it, which may be given `out`, and its arguments."""
    if case.operation in ("slice", "slice_grad"):
        window = dml.window(x.shape, case.index)
        if case.operation == "slice":
            return (lambda x, out=None: dml.slice1(x, *window, out=out)), [x]
        return (lambda g, out=None: dml.slice_grad(g, x.shape, *window, out=out)), [dml.slice1(x, *window)]
    axis, sizes = case.axis, case.split_sizes
    if case.operation == "split":
        return (lambda x, out=None: dml.split(x, sizes, axis, out=out)), [x]
    if case.operation == "join":
        return (lambda *pieces, out=None: dml.join(pieces, axis, out=out)), [
            p.contiguous() for p in x.split(sizes, axis)
        ]
    shape = [1 if d == axis else n for d, n in enumerate(x.shape)]
    lengths = torch.from_numpy(case.sequence_lengths()).to(x.device).expand(shape)
    return (lambda x, out=None: dml.reverse_subsequences(x, lengths, axis, out=out)), [x]


def prepare(case: Case, given: Tensor | None = None) -> Call:
    function, arguments = operation(case, inputs_of(case) if given is None else given)
    call = partial(function, *arguments)
    if case.form == "out":
        layout = torch.contiguous_format if case.to_contiguous else torch.preserve_format
        return partial(call, out=tree_map(partial(torch.empty_like, memory_format=layout), call()))
    return call
