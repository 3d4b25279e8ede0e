"""Each situation of soak.py, for seconds instead of minutes."""

import subprocess
import sys
from pathlib import Path

import pytest
import soak

pytestmark = pytest.mark.thorough


@pytest.mark.parametrize("situation", soak.SITUATIONS)
def test_holds(situation: str) -> None:
    command = [sys.executable, str(Path(soak.__file__)), situation, "--here", "--seconds", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
