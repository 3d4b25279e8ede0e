"""One sentence where a package is missing that only model files and their JSON need."""

from importlib.util import find_spec


def require_pydantic() -> None:
    _require("reading DirectML's JSON", "pydantic")


def require_numpy() -> None:
    _require("reading model files", "numpy")


def _require(what: str, package: str) -> None:
    if find_spec(package) is None:
        raise ImportError(f"torch_dml_ops: {what} needs {package}; pip install 'torch_dml_ops[models]'")
