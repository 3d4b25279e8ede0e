"""Loads what serves parts of torch that take longer to import than this package, once a process has imported them."""

import sys
from importlib import import_module

from torch_dml_ops._torch.autograd import preparations, prepare


def _load_rules_for_dtensors() -> None:
    if sys.modules.get("torch.distributed.tensor") is not None:
        import_module("torch_dml_ops.distributed")
        preparations.clear()


preparations.append(_load_rules_for_dtensors)
prepare()  # for what is imported already
