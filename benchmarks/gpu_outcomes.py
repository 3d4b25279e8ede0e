"""A plugin of pytest for gpu_check.py: writes what becomes of each test as soon as it is known, a line of JSON each, so
that a run which is killed loses nothing and names the tests that it was running.

GPU_CHECK_OUTCOMES names the file, to whose end the lines go, GPU_CHECK_RUN the run, which each line repeats. With
GPU_CHECK_DRY_RUN set, only the first test of each file runs.
"""

import json
import os
from typing import Any

import pytest

LONGEST = 2000  # characters of a message, from its end


class Outcomes:
    def __init__(self, path: str) -> None:
        self.path = path

    def write(self, test: str, outcome: str, **more: Any) -> None:
        line = {"run": os.environ["GPU_CHECK_RUN"], "test": test, "outcome": outcome, **more}
        with open(self.path, "a") as file:
            file.write(json.dumps(line) + "\n")

    def write_report(self, report: pytest.TestReport | pytest.CollectReport, **more: Any) -> None:
        if not report.passed:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
            more["message"] = reason[-LONGEST:]
        self.write(report.nodeid, report.outcome, **more)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.write(nodeid, "started")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or not report.passed:
            self.write_report(report, seconds=round(report.duration, 2))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if not report.passed:
            self.write_report(report)


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # pytest-xdist's workers report to the process that started them
        config.pluginmanager.register(Outcomes(os.environ["GPU_CHECK_OUTCOMES"]))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if "GPU_CHECK_DRY_RUN" in os.environ:
        first = {item.path: item for item in reversed(items)}
        items[:] = [item for item in items if item is first[item.path]]
