"""Runs nvcc and records what ptxas reports of every kernel: registers, shared memory, stack, spills, warnings.

    python ptxas_report.py NVCC -Xptxas=-v … -o OBJECT …

writes OBJECT.ptxas with a line for each kernel and architecture, and each warning. torch's builds show a compiler's
output only when it fails, so a kernel that begins to spill into local memory would go unnoticed, as would a bound for
launches that an architecture cannot keep.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

RECORD = re.compile(
    r"Compiling entry function '(?P<kernel>\w+)' for '(?P<architecture>\w+)'\n"
    r".*Function properties for (?P=kernel)\n"
    r" *(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads\n"
    r".*Used (?P<registers>\d+) registers(?P<more>.*)"
)


def demangled(names: list[str]) -> list[str]:
    """Demangled names without parameters and our namespaces; the names unchanged where there is no c++filt."""
    if not shutil.which("c++filt"):
        return names
    text = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    text = re.sub(r"\(anonymous namespace\)::|torch_dml_ops::|cuda::", "", text)
    text = re.sub(r"\(\w+\)(?=\d)", "", text)  # enumerators as numbers
    return [re.sub(r"^void |\(.*\)$", "", name) for name in text.splitlines()]


def lines(output: str) -> list[str]:
    """A line for each kernel and warning in the output of `ptxas -v`, and one that counts what was not understood."""
    records = list(RECORD.finditer(output))
    result = []
    for r, kernel in zip(records, demangled([r["kernel"] for r in records]), strict=True):
        shared = re.search(r"(\d+) bytes smem", r["more"])
        result.append(
            f"{r['architecture']:<7}{r['registers']:>4} registers {shared[1] if shared else 0:>6} shared "
            f"{r['stack']:>4} stack {r['stores']:>4} spill stores {r['loads']:>4} spill loads  {kernel}"
        )
    result += re.findall(r"^ptxas warning.*", output, re.MULTILINE)
    if missing := output.count("Compiling entry function") - len(records):
        result.append(f"not understood: {missing} kernels")
    return result


def main() -> int:
    command = sys.argv[1:]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    sys.stderr.write(done.stderr)
    if done.returncode == 0 and "-o" in command:
        target = Path(command[command.index("-o") + 1] + ".ptxas")
        target.write_text("".join(f"{line}\n" for line in lines(done.stderr)))
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
