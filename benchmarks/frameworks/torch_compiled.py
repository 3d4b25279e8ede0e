"""The same idioms under torch.compile."""

import torch
from cases import Case
from torch import Tensor

from . import Call
from .torch_eager import idiom, inputs_of


def prepare(case: Case, given: Tensor | None = None, backend: str = "inductor") -> Call | None:
    if case.form == "out" or case.row:  # compiling takes longer than all else
        return None
    function, arguments = idiom(case, inputs_of(case) if given is None else given)
    torch._dynamo.reset()
    compiled = torch.compile(function, fullgraph=True, backend=backend)
    compiled(*arguments)
    return lambda: compiled(*arguments)
