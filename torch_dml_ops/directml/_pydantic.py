"""One sentence where pydantic is missing, which only what reads JSON needs."""

from importlib.util import find_spec


def require_pydantic() -> None:
    if find_spec("pydantic") is None:
        raise ImportError("torch_dml_ops: reading DirectML's JSON needs pydantic; pip install 'torch_dml_ops[models]'")
