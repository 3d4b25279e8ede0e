"""The same idioms under torch.compile."""

import torch
from cases import Case

from . import Call
from .torch_eager import idiom


def prepare(case: Case) -> Call | None:
    if case.form == "out":
        return None
    function, arguments = idiom(case)
    torch._dynamo.reset()
    compiled = torch.compile(function, fullgraph=True)
    compiled(*arguments)
    return lambda: compiled(*arguments)
