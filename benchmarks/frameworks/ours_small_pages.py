"""torch_dml_ops without huge pages for large results, to show what these gain. In a process of its own."""

import os

from cases import BYTES, Case

os.environ["TORCH_DML_OPS_HUGE_PAGES"] = "0"

from . import Call, ours


def prepare(case: Case) -> Call | None:
    if case.form != "fresh" or BYTES[case.size] < BYTES["4 MB"] or not case.target:
        return None
    return ours.prepare(case)
