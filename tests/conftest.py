import gc
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from random import Random
from types import ModuleType

import pytest
import torch
from backends import DEVICE, WAYS, Backend, backends, default_device, use_device
from contract_cases import Make, maker
from host_build import COVERAGE, HOST_DEVICE, host_device

started = time.time()

if DEVICE == HOST_DEVICE:
    host_device()
use_device()  # before the test modules make their first tensors


@pytest.fixture(autouse=True)
def seeded() -> None:
    """What a test draws is the same in every run, alone or after others."""
    torch.manual_seed(0)


@pytest.fixture
def on_cpu() -> Iterator[None]:
    """For tests that are about the CPU, or that fork: a child cannot use a GPU that its parent has used."""
    with default_device(None):
        yield


@pytest.fixture
def fresh_compiler() -> None:
    """No graphs of other tests."""
    torch._dynamo.reset()


@pytest.fixture
def uncached_compiler(fresh_compiler: None) -> Iterator[None]:
    """Nor of other runs: the caches on disk know nothing of changed fake kernels."""
    from torch._functorch import config as functorch_config
    from torch._inductor import config as inductor_config

    with inductor_config.patch(fx_graph_cache=False), functorch_config.patch(enable_autograd_cache=False):
        yield


@pytest.fixture(scope="session", params=backends(), ids=str)
def backend(request: pytest.FixtureRequest) -> Backend:
    """Each implementation of the operators, with its device."""
    return request.param


@pytest.fixture
def t(backend: Backend) -> Make:
    return maker(backend.device)


ONE_WAY, OTHER_WAY = WAYS


@pytest.fixture(scope="module", params=[ONE_WAY, pytest.param(OTHER_WAY, marks=pytest.mark.thorough)])
def each_way(request: pytest.FixtureRequest) -> Iterator[None]:
    """The tests of a module with the short way for plain calls, and without it."""
    with WAYS[request.param]():
        yield


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Imports a module of benchmarks/."""
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "benchmarks")
    return import_module


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


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """What the tests import has no doctests, and would be imported a second time to look for them."""
    return (collection_path.suffix == ".py" and not collection_path.name.startswith("test_")) or None


@pytest.hookimpl(trylast=True)  # of what is selected by name
def pytest_collection_modifyitems(items: list[pytest.Item], config: pytest.Config) -> None:
    """Of the cases of each test one in TORCH_DML_OPS_PART, by chance, the same in every run; the first in any case."""
    if (part := int(os.environ.get("TORCH_DML_OPS_PART", "1"))) > 1:
        kept = {*{item.nodeid.partition("[")[0]: item for item in reversed(items)}.values()}
        kept |= {item for item in items if Random(item.nodeid).random() * part <= 1}
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = [item for item in items if item in kept]


def pytest_collection_finish() -> None:
    """What is imported and collected by now stays: the collector of garbage need not go through it again and again."""
    if DEVICE == "cpu":
        with suppress(AssertionError):  # what cannot be built fails the tests that use it
            host_device()
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000)  # torch's compiler makes many, of which few go


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints which lines of the CPU kernels the tests ran, where they were asked to find out, and how long `make` took
    until now, which began before pytest."""
    if began := os.environ.get("TORCH_DML_OPS_MAKE_BEGAN"):
        minutes, seconds = divmod(int(time.time()) - int(began), 60)
        terminalreporter.write_line(f"{minutes} minutes {seconds} seconds since make began")
    if COVERAGE.exists() and COVERAGE.stat().st_mtime > started:
        terminalreporter.write(COVERAGE.read_text())
