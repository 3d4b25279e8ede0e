"""`make test-matrix`: the wheel of dist/ beside each torch and on each Python, and the whole suite on it; on Pythons
without the global interpreter lock, the quick tests, and the wheel for that Python alone.

Every pair has a virtual environment of its own in a folder, which is made once: about 5 GB for a CUDA build of torch.
What pytest said last, and of which commit, becomes a row in docs/building.md. Arguments after `--` go to pytest instead
of the whole suite; then nothing is written.
"""

import argparse
import datetime
import os
import platform
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
TORCHES = ("2.11.0", "2.12.1", "2.13.0", "2.14.1", "2.15.0")  # from the oldest that is supported to the newest known
BUILT_WITH = "2.13.0"
# And the torch that each is tested with. The last two are free-threaded; torch has wheels for 3.13t until 2.12.
PYTHONS = dict.fromkeys(("3.10", "3.12", "3.13", "3.14"), BUILT_WITH) | {"3.13t": "2.12.0", "3.14t": BUILT_WITH}
SUITE = ("tests", "README.md", "docs")
SOURCES = ("csrc", "setup.py", "pyproject.toml", "torch_dml_ops")  # of the wheel
QUICK = ("-m", "not thorough")
TABLE = Path("docs", "building.md")
# Of the development requirements, what the tests do not import, and what they can do without.
NOT_TESTED = ("clang-format", "furo", "mypy", "myst", "onnx2torch", "ruff", "sphinx", "types-")


@dataclass(frozen=True)
class Pair:
    torch: str
    python: str  # its executable
    version: str

    @property
    def name(self) -> str:
        """t213 of torch 2.13 on this script's Python, t213-py310 of another."""
        short = "t" + "".join(self.torch.split(".")[:2])
        return short if self.python == sys.executable else f"{short}-py{self.version.replace('.', '')}"

    @property
    def free_threaded(self) -> bool:
        return self.version.endswith("t")

    @property
    def abi(self) -> str:
        """As the names of wheels have it."""
        return f"cp{self.version.replace('.', '')}" if self.free_threaded else "abi3"


def run(*command: str | Path) -> None:
    done = subprocess.run(list(map(str, command)), cwd=ROOT)
    if done.returncode != 0:
        raise RuntimeError(" ".join(map(str, command))[:200])


def output(*command: str | Path) -> str:
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True, cwd="/").stdout.strip()


def newest_torch() -> str | None:
    """On the registry; None where it does not answer."""
    listed = subprocess.run([sys.executable, "-m", "pip", "index", "versions", "torch"], capture_output=True, text=True)
    found = re.match(r"torch \(([\d.]+)\)", listed.stdout)
    return found[1] if found else None


def python_of(version: str) -> str | None:
    """pyenv's, or the one on the PATH."""
    folder = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    candidates = [*sorted(folder.glob(f"*/bin/python{version}")), shutil.which(f"python{version}")]
    usable = f"import ssl, ctypes, sys; assert ('t' in sys.abiflags) == {version.endswith('t')}"
    for candidate in filter(None, candidates):
        done = subprocess.run([candidate, "-c", usable], capture_output=True)
        if done.returncode == 0:  # a pyenv shim may lead nowhere
            return str(candidate)
    return None


def pairs() -> list[Pair]:
    ours = "{}.{}".format(*sys.version_info)
    torches = list(TORCHES)
    newest = newest_torch()
    if newest is None:
        print("The registry does not say what the newest torch is.")
    elif tuple(map(int, newest.split("."))) > tuple(map(int, TORCHES[-1].split("."))):
        torches.append(newest)
    result = [Pair(torch, sys.executable, ours) for torch in torches]
    for version, torch in PYTHONS.items():
        if version == ours:
            continue
        if python := python_of(version):
            result.append(Pair(torch, python, version))
        else:
            print(f"There is no Python {version}, neither pyenv's nor on the PATH: left out.")
    return result


def requirements() -> list[str]:
    """What the tests need besides torch, as pyproject.toml has it."""
    import tomllib  # of Python 3.11

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = [r for extra in project["optional-dependencies"].values() for r in extra]
    return sorted({r for r in listed if not r.startswith(("torch_dml_ops", *NOT_TESTED))})


def is_installed(pip: Sequence[str | Path], *requirement: str | Path) -> bool:
    """Whether there was a wheel of it."""
    command = map(str, (*pip, "--only-binary", ":all:", *requirement))
    return subprocess.run(list(command), capture_output=True).returncode == 0


def environment(folder: Path, pair: Pair) -> Path:
    """The environment's folder, made unless it is there."""
    result = folder / pair.name
    if not (result / "bin" / "pytest").exists():
        print(f"=== Making {result}: torch {pair.torch} on Python {pair.version}", flush=True)
        run(pair.python, "-m", "venv", "--clear", result)
        pip = [result / "bin" / "python", "-m", "pip", "install", "-q"]
        run(*pip, f"torch=={pair.torch}")
        installed = output(result / "bin" / "python", "-c", "import torch; print(torch.__version__)")
        constraints = result / "constraints"
        constraints.write_text(f"torch=={installed}\n")
        of_any_version = [r.split("==")[0] for r in requirements()]
        if pair.version == "3.10":  # for which the pinned versions are too new
            run(*pip, "-c", constraints, *of_any_version)
        elif pair.free_threaded:  # for which some have no wheel, and what needs them is skipped
            for wanted in zip(requirements(), of_any_version, strict=True):
                if not any(is_installed(pip, "-c", constraints, requirement) for requirement in wanted):
                    print(f"{wanted[0]} is not to be had for Python {pair.version}: left out", flush=True)
        else:
            run(*pip, "-c", constraints, *requirements())
        run(*pip, "--no-deps", "onnx2torch==1.5.15")
        run(*pip[:3], "uninstall", "-q", "-y", "typing")  # of Python 3.4, by way of universalmutator
    return result


def install(wheel: Path, place: Path) -> None:
    python = place / "bin" / "python"
    run(python, "-m", "pip", "install", "-q", "--force-reinstall", "--no-deps", wheel)
    imported = output(python, "-c", "import torch_dml_ops; print(torch_dml_ops.__file__)")
    if not Path(imported).is_relative_to(place):
        raise RuntimeError(f"{python} imports {imported} instead of the wheel")


def checkout(folder: Path) -> Path:
    """A copy of what git tracks: some of what the tests start imports the package from there."""
    result = folder / "checkout"
    shutil.rmtree(result, ignore_errors=True)
    for name in [*output("git", "-C", ROOT, "ls-files").splitlines(), "build/ptxas.txt"]:
        if (ROOT / name).exists():
            (result / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, result / name, follow_symlinks=False)
    return result


def ran_on(torch: str, python: str) -> str:
    """As the table has it."""
    return f"torch {torch}, Python {python}"


def checked_out() -> str | None:
    """The commit, and None where files have changed since, but for the table."""
    git = ("git", "-C", ROOT)
    if output(*git, "status", "--porcelain", "--untracked-files=no", "--", ROOT, f":!{TABLE}"):
        print(f"No row of {TABLE} is written, as what runs is no commit.")
        return None
    return output(*git, "rev-parse", "--short", "HEAD")


def record(commit: str | None, name: str, tests: Sequence[str], last: str) -> None:
    """The row of the table that says what ran."""
    files = ", ".join(f"`{name}`" for name in tests[len(QUICK) :])
    which = ("quick tests" if tests else "all tests") + (f" of {files}" if files else "")
    row = f"| {name} | {which} | {re.sub(' in [0-9].*', '', last)} | {commit} of {datetime.date.today()} |\n"
    if commit:
        text = (ROOT / TABLE).read_text()
        (ROOT / TABLE).write_text(re.sub(rf"^\| {re.escape(name)} \|.*\n", row, text, flags=re.M))


def outcome(command: Sequence[str | Path], folder: Path, **environment: str) -> str:
    """What pytest says last; it is shown as it comes."""
    last = ""
    variables = os.environ | environment
    with subprocess.Popen(command, cwd=folder, env=variables, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            last = line.strip() or last
    return last if process.returncode == 0 else f"failed with {process.returncode}: {last}"


def test(pair: Pair, place: Path, arguments: Sequence[str]) -> str:
    """On the pair's wheel."""
    wheels = sorted(
        (ROOT / "dist").glob(f"*-{pair.abi}-*_{platform.machine()}.whl"), key=lambda path: path.stat().st_mtime
    )
    if not wheels:
        beside = f" PYTHON={pair.python} VENV=build/venv-{pair.abi} TORCH=torch=={pair.torch}" * pair.free_threaded
        raise RuntimeError(f"there is no wheel for it in dist/: run `make wheel{beside}` first")
    wheel = wheels[-1]
    if wheel.stat().st_mtime < float(output("git", "-C", ROOT, "log", "-1", "--format=%ct", "--", *SOURCES)):
        raise RuntimeError(f"{wheel.name} is older than its sources: run `make wheel` again")
    install(wheel, place)
    tree = checkout(place)
    with zipfile.ZipFile(wheel) as content:
        content.extractall(tree)
    command = [str(place / "bin" / "pytest"), "-p", "no:randomly", "-q", *arguments]
    environment = {"PATH": f"{place / 'bin'}:{os.environ['PATH']}"}
    if pair.free_threaded:
        environment["PYTHON_GIL"] = "0"  # or the first module that does not support it, as triton's, has the lock back
    return outcome(command, tree, **environment)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="of the environments")
    parser.add_argument("--only", nargs="+", help="the names of environments, such as t211 or t213-py310")
    parser.add_argument("--quick", action="store_true", help="without the thorough tests")
    end = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    given = parser.parse_args(sys.argv[1:end])
    own = sys.argv[end + 1 :]
    commit = None if own else checked_out()
    outcomes = {}
    for pair in pairs():
        if not given.only or pair.name in given.only:
            name = ran_on(pair.torch, pair.version)
            print(f"=== {name}", flush=True)
            chosen = QUICK if given.quick or pair.free_threaded else ()
            try:
                outcomes[name] = test(
                    pair, environment(given.folder.resolve(), pair), own or ("-n", "2", *chosen, *SUITE)
                )
                record(commit, name, chosen, outcomes[name])
            except (RuntimeError, subprocess.CalledProcessError) as error:
                outcomes[name] = f"failed: {error}"
    for name, last in outcomes.items():
        print(f"{name}: {last}")
    if any(last.startswith("failed") for last in outcomes.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
