"""Changed model files: a short form of `make fuzz`, and that it sees what it is there for."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "tools" / "fuzz_models.py"
INPUTS = int(os.environ.get("TORCH_DML_OPS_FUZZ_CASES", "6000")) // 6
SEED = os.environ.get("TORCH_DML_OPS_SEED", "0")


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True, cwd=SCRIPT.parent)


def test_changed_model_files_are_loaded_or_refused_with_a_sentence() -> None:
    done = run(SCRIPT, "--inputs", INPUTS, "--seed", SEED, "--seconds", 10_000)
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.fullmatch(r"(\d+) inputs, (\d+) of them models, of which (\d+) ran\n", done.stdout)
    assert found, done.stdout
    assert int(found[1]) == INPUTS
    assert int(found[2]) > INPUTS // 50
    assert int(found[3]) > INPUTS // 100


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("instead", "finding"),
    [
        ("{}['x']", "KeyError: 'x'"),
        ("open('../beside', 'w')", "fuzz_models.Outside: open "),
        ("os.mkdir('/nowhere')", "fuzz_models.Outside: os.mkdir /nowhere"),
        ("os.system('true')", "fuzz_models.Outside: os.system"),
        ("sum(iter(lambda: 0, 1))", "fuzz_models.TooLong: more than 1 seconds"),
        ("bytearray(1 << 33)", "MemoryError"),
    ],
)
def test_the_fuzzer_sees(instead: str, finding: str) -> None:
    """With this instead of what loads a model. The sum has no end."""
    program = (
        "import os, pathlib, tempfile, fuzz_models\n"
        "from torch_dml_ops import directml\n"
        "fuzz_models.MOST_SECONDS = 1\n"
        f"directml.Model.load = lambda *_, **__: {instead}\n"
        "with tempfile.TemporaryDirectory() as folder:\n"
        "    fuzz_models.Fuzzer(pathlib.Path(folder).resolve())(b'{}')\n"
    )
    done = run("-c", program)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(finding), done.stderr
