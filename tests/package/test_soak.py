"""Each situation of soak.py, for seconds instead of minutes."""

import pytest
import soak
from processes import run_python

pytestmark = pytest.mark.thorough


@pytest.mark.parametrize("situation", soak.SITUATIONS)
def test_holds(situation: str) -> None:
    run_python(soak.__file__, situation, "--here", "--seconds", "2")
