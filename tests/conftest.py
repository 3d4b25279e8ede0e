import pytest
import torch
from backends import DEVICE, Backend, backends

if DEVICE != "cpu":
    torch.set_default_device(DEVICE)  # before the test modules make their first tensors


@pytest.fixture(scope="session", params=backends(), ids=str)
def backend(request: pytest.FixtureRequest) -> Backend:
    """Each implementation of the operators, with its device."""
    return request.param
