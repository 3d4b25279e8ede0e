"""Whether Inductor, torch.compile's backend, may compute the operators in the code that it generates.

Here are the setting and what keeps Inductor's caches apart; inductor.py registers the formulas. That module imports
Inductor, which takes seconds, so it waits until somebody else has done so: the fake kernels, which run in every
compilation before the operators are lowered, call `prepare`.
"""

import hashlib
import os
import re
import sys
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from torch_dml_ops._sentences.text import shown

_FOLDER = Path(__file__).parents[1]
_VARIABLE = "TORCH_DML_OPS_FUSE"
MODES = ("rule", "always", "never")

# What decides the code that is generated for a graph of these operators.
_SOURCES = (
    *("_compile/formulas.py", "_compile/inductor.py", "_compile/rule.py"),
    *(f"_operators/{name}.py" for name in ("checks", "definitions", "layout", "registration", "signature")),
    *("_torch/private.py", "_torch/symbols.py"),
)
_TAG = re.compile(r" ?torch_dml_ops:\w+")

_mode = "rule"
# What this torch lacks, so that every call is left to the kernels; "" for nothing, None until a compilation or the
# report has asked.
_missing: str | None = None


def _checked(name: str, mode: str) -> str:
    if not isinstance(mode, str) or mode not in MODES:
        raise ValueError(f"{name} must be {', '.join(MODES[:-1])} or {MODES[-1]}, got {shown(mode)}")
    return mode


def _digest() -> str:
    try:
        return hashlib.sha256(b"".join((_FOLDER / name).read_bytes() for name in _SOURCES)).hexdigest()[:16]
    except OSError:  # installed without sources
        return re.sub(r"\W", "_", version("torch_dml_ops"))


class set_fusion:
    """Sets whether :func:`torch.compile` may compute the operators in the code that it generates, fused with the
    computations around them.

    It takes effect at once, in all threads, for what is compiled from then on; in a ``with`` statement, until that
    ends. What is already compiled stays as it is: :func:`torch.compiler.reset` forgets it. The environment variable
    ``TORCH_DML_OPS_FUSE`` sets it for a whole process.

    Args:
        mode: ``"rule"``, the default, where it is faster; ``"always"``, wherever the results have the same bits;
            ``"never"``, so that every operator is a call of its kernel.

    Raises:
        ValueError: another mode.

    >>> import torch_dml_ops as dml
    >>> with dml.set_fusion("never"):
    ...     dml.get_fusion()
    'never'
    >>> dml.get_fusion()
    'rule'
    """

    def __init__(self, mode: str) -> None:
        self._before, self._mode = _mode, _checked("set_fusion: mode", mode)
        _set(self._mode)

    def __enter__(self) -> None:
        _set(self._mode)

    def __exit__(self, *exception: object) -> None:
        _set(self._before)


def get_fusion() -> str:
    """What :class:`set_fusion` or ``TORCH_DML_OPS_FUSE`` has set: ``"rule"``, ``"always"`` or ``"never"``.

    >>> import torch_dml_ops as dml
    >>> dml.get_fusion()
    'rule'
    """
    return _mode


def _set(mode: str) -> None:
    global _mode
    _mode = mode
    _tag_caches()


def _tag_caches() -> None:
    """Keeps apart what Inductor's caches have of other modes, and of other versions of the formulas.

    The caches know a graph by its operators, and would return the code that was generated for them by other formulas.
    """
    config: Any = torch.compiler.config
    tag = f" torch_dml_ops:{_mode}_{_digest_of_sources}"
    if not config.cache_key_tag.endswith(tag):
        config.cache_key_tag = _TAG.sub("", config.cache_key_tag) + tag


def prepare() -> None:
    """Registers the formulas if Inductor is there, and marks the caches again if somebody has set another tag."""
    _tag_caches()
    if _missing is None and "torch._inductor.lowering" in sys.modules:
        missing()


def missing() -> str:
    """Imports Inductor and registers the formulas; what this torch lacks for that, "" for nothing."""
    global _missing
    if _missing is None:
        try:
            from torch_dml_ops._compile import inductor

            inductor.register(get_fusion)
            _missing = ""
        except (ImportError, AttributeError, KeyError) as error:
            _missing = str(error)
            warnings.warn(
                f"torch_dml_ops: this torch ({torch.__version__}) lacks a name that fusing the operators is built on "
                f"({_missing}). Compiled functions call their kernels instead.",
                stacklevel=2,
            )
    return _missing


try:
    _mode = _checked(_VARIABLE, os.environ.get(_VARIABLE) or "rule")
except ValueError as error:
    raise ImportError(str(error)) from None
_digest_of_sources = _digest()
_tag_caches()
