"""NumPy. It has no way to reverse by lengths but a gather over an index as large as the data."""

import numpy as np
from cases import Case

from . import Call


def prepare(case: Case) -> Call | None:
    if case.form == "out" or case.operation == "reverse":
        return None
    x = case.array()
    if case.operation == "slice":
        return lambda: np.array(x[case.index], order="K" if case.layout != "contiguous" else "C")
    if case.operation == "slice_grad":
        g = x[case.index].copy()

        def scatter() -> object:
            result = np.zeros(case.shape, case.dtype)
            result[case.index] = g
            return result

        return scatter
    at = np.cumsum(case.split_sizes)[:-1].tolist()
    if case.operation == "split":
        return lambda: [piece.copy() for piece in np.split(x, at, case.axis)]
    pieces = [piece.copy() for piece in np.split(x, at, case.axis)]
    return lambda: np.concatenate(pieces, case.axis)
