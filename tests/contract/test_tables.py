"""The tables that tests are made of cover every operator that the library registers, and the form of each of them."""

import inspect
from collections.abc import Iterable

import contract_cases
import oracle
import plain_torch
import pytest
import refusals
import torch
import transform_cases
from backends import ON_HOST, Backend

import torch_dml_ops as dml
from torch_dml_ops._operators import definitions


def registered(namespace: str) -> dict[str, str]:
    """The operators' schemas without the namespace, by overload."""
    schemas = [s for s in torch._C._jit_get_all_schemas() if s.name.startswith(f"{namespace}::")]
    return {
        str(s).removeprefix(f"{namespace}::").partition("(")[0]: str(s).removeprefix(f"{namespace}::") for s in schemas
    }


OPERATORS = {name for name in registered("torch_dml_ops") if "." not in name}

TABLES: dict[str, Iterable[str]] = {
    "derivatives, vmap and compilation": [case.name for case in transform_cases.FIVE],
    "calls of any shape": [case.name for case in transform_cases.ANY_SHAPE],
    "refused arguments": refusals.ARGUMENTS,
    "results that are too large": refusals.TOO_LARGE,
    "refused outs": refusals.OUT,
    "the contract": contract_cases.CALLS,
    "arguments of wrong types": [call.function for call in contract_cases.CALLS_BY_NAME],
    "outs and derivatives": [case.op for case in transform_cases.OUT_CASES],
}


@pytest.mark.parametrize("table", TABLES)
def test_each_table_has_each_operator(table: str) -> None:
    assert set(TABLES[table]) == OPERATORS


def test_each_operator_has_its_oracle_its_equivalent_in_plain_torch_and_its_function() -> None:
    assert set(vars(oracle)) >= OPERATORS
    assert set(vars(plain_torch)) >= OPERATORS
    assert set(dml.__all__) == OPERATORS | set(contract_cases.HELPERS)


def test_each_operator_has_a_form_with_out_and_two_for_fast_calls() -> None:
    forms = {f"{name}.{form}" for name in OPERATORS for form in ("out", "fast", "fast_out")}
    few = {f"{name}.fast_{count}" for name in ("split", "join") for count in (2, 3, 4)}
    assert set(registered("torch_dml_ops")) == OPERATORS | forms | few
    assert set(definitions.OPERATORS) == OPERATORS


@pytest.mark.parametrize("key", ["Conjugate", "Negative"])
def test_what_writes_and_returns_nothing_never_meets_torchs_kernels_for_lazy_views(key: str) -> None:
    """They would take a reference off the stack that is not theirs."""
    writing = [*(f"{name}.out" for name in OPERATORS), *(f"{name}.fast_out" for name in OPERATORS)]
    assert set(writing) <= set(registered("torch_dml_ops"))
    for name in writing:
        assert torch._C._dispatch_has_kernel_for_dispatch_key(f"torch_dml_ops::{name}", key), name


def test_each_integration_serves_each_operator() -> None:
    from torch_dml_ops._compile import rule

    assert {kind.formula.__name__ for kind in rule.Call.__subclasses__()} == OPERATORS
    if torch.distributed.is_available():
        from torch_dml_ops.distributed._plans import PLANNERS

        assert set(PLANNERS) == OPERATORS
    pytest.importorskip("onnxscript")
    from torch_dml_ops.onnx import translation_table

    assert {overload._schema.name for overload in translation_table()} == {f"torch_dml_ops::{op}" for op in OPERATORS}


def test_each_function_takes_what_its_operator_takes() -> None:
    for name in OPERATORS:
        taken = [a.name for a in getattr(torch.ops.torch_dml_ops, name).out._schema.arguments]
        assert list(inspect.signature(getattr(dml, name)).parameters) == taken


def test_the_kernels_under_emulation_are_registered_with_the_same_schemas() -> None:
    x = torch.arange(3.0)
    Backend("cuda_on_host", "cpu", ON_HOST)("slice1", x, [0], [3], [1])  # the first call registers them
    assert registered(ON_HOST) == registered("torch_dml_ops")
