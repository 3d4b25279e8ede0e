import pytest
from backends import Backend, backends


@pytest.fixture(scope="session", params=backends(), ids=str)
def backend(request: pytest.FixtureRequest) -> Backend:
    """Each implementation of the operators, with its device."""
    return request.param
