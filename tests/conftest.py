import time
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest
import torch
from backends import DEVICE, Backend, backends
from contract_cases import Make, maker
from host_build import COVERAGE
from ways import WAYS

started = time.time()

if DEVICE != "cpu":
    torch.set_default_device(DEVICE)  # before the test modules make their first tensors


@pytest.fixture(autouse=True)
def seeded() -> None:
    """What a test draws is the same in every run, alone or after others."""
    torch.manual_seed(0)


@pytest.fixture(scope="session", params=backends(), ids=str)
def backend(request: pytest.FixtureRequest) -> Backend:
    """Each implementation of the operators, with its device."""
    return request.param


@pytest.fixture
def t(backend: Backend) -> Make:
    return maker(backend.device)


@pytest.fixture(scope="module", params=WAYS)
def each_way(request: pytest.FixtureRequest) -> Iterator[None]:
    """The tests of a module with the short way for plain calls, and without it."""
    with WAYS[request.param]():
        yield


@pytest.fixture(scope="module")
def demo() -> ModuleType:
    """The example of speaker recognition."""
    script = Path(__file__).parents[1] / "examples" / "japanese_vowels.py"
    spec = spec_from_file_location(script.stem, script)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints which lines of the CPU kernels the tests ran, where they were asked to find out."""
    if COVERAGE.exists() and COVERAGE.stat().st_mtime > started:
        terminalreporter.write(COVERAGE.read_text())
