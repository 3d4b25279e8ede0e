"""torch_dml_ops."""

import torch
from cases import Case
from torch import Tensor

import torch_dml_ops as dml

from . import Call
from .torch_eager import inputs_of


def prepare(case: Case, given: Tensor | None = None) -> Call:
    x = inputs_of(case) if given is None else given
    window = dml.window(x.shape, case.index) if case.index else None
    if case.operation == "slice":
        assert window
        layout = torch.contiguous_format if case.to_contiguous else torch.preserve_format
        out = torch.empty_like(dml.slice1(x, *window), memory_format=layout) if case.form == "out" else None
        return lambda: dml.slice1(x, *window, out=out)
    if case.operation == "slice_grad":
        assert window
        g = dml.slice1(x, *window)
        out = torch.empty_like(x) if case.form == "out" else None
        return lambda: dml.slice_grad(g, x.shape, *window, out=out)
    if case.operation == "split":
        sizes = case.split_sizes
        outs = [torch.empty_like(p) for p in dml.split(x, sizes, case.axis)] if case.form == "out" else None
        return lambda: dml.split(x, sizes, case.axis, out=outs)
    if case.operation == "join":
        pieces = [piece.contiguous() for piece in x.split(case.split_sizes, case.axis)]
        out = torch.empty_like(x) if case.form == "out" else None
        return lambda: dml.join(pieces, case.axis, out=out)
    shape = [1 if d == case.axis else n for d, n in enumerate(x.shape)]
    lengths = torch.from_numpy(case.sequence_lengths()).to(x.device).expand(shape)
    out = torch.empty_like(x) if case.form == "out" else None
    return lambda: dml.reverse_subsequences(x, lengths, case.axis, out=out)
