"""The torch idioms: what one writes without these operators."""

from collections.abc import Callable

import torch
from cases import Case
from torch import Tensor

from . import Call


def inputs_of(case: Case) -> Tensor:
    """The input in memory of torch's own. (NumPy's would have huge pages behind it.)"""
    return torch.from_numpy(case.array()).clone()


def idiom(case: Case, x: Tensor) -> tuple[Callable[..., object], list[Tensor]]:
    """The function that does it, and its arguments."""
    if case.operation in ("slice", "slice_grad"):
        backwards = [d for d, s in enumerate(case.index) if (s.step or 1) < 0]
        # torch has no negative steps: those dimensions are flipped first.
        forwards = tuple(slice(None, None, abs(s.step)) if (s.step or 1) < 0 else s for s in case.index)
        if case.operation == "slice":
            if backwards:
                plain = all(abs(s.step or 1) == 1 and s.start is None for s in case.index)
                if plain:
                    return (lambda x: x.flip(backwards)), [x]
                return (lambda x: x.flip(backwards)[forwards].contiguous()), [x]
            return (lambda x: x[forwards].clone(memory_format=torch.contiguous_format)), [x]

        def scatter(g: Tensor) -> Tensor:
            result = g.new_zeros(case.shape)
            result[forwards] = g
            return result

        return scatter, [x[forwards].contiguous()]
    if case.operation == "split":
        sizes = case.split_sizes
        return (lambda x: torch.split_with_sizes_copy(x, sizes, case.axis)), [x]
    if case.operation == "join":
        return (lambda *pieces: torch.cat(pieces, case.axis)), [
            p.contiguous() for p in x.split(case.split_sizes, case.axis)
        ]
    axis, n = case.axis, x.shape[case.axis]
    lengths = torch.from_numpy(case.sequence_lengths()).to(x.device)
    i = torch.arange(n, device=x.device).reshape([-1 if d == axis else 1 for d in range(x.dim())])

    def reverse(x: Tensor, lengths: Tensor) -> Tensor:
        index = torch.where(i < lengths, lengths - 1 - i, i)
        return x.gather(axis, index.expand(x.shape))

    return reverse, [x, lengths]


def prepare(case: Case, given: Tensor | None = None) -> Call | None:
    if case.form == "out":
        return None
    function, arguments = idiom(case, inputs_of(case) if given is None else given)
    return lambda: function(*arguments)
