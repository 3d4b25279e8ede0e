"""Checks what nvcc makes of the CUDA kernels: see README.md.

PYTHONPATH=tests python -m cuda_compiled [--arch sm_80 …] [--sass sm_90 …] [--only REGEX] [--cases N] [--seed S]
PYTHONPATH=tests python -m cuda_compiled --mutants N [--only REGEX]
"""

import argparse
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import build, coverage, mutants
from .kernels import Kernel

Run = tuple[str, list[str]]  # a name and a command


def check(what: str, kernels: list[Kernel], options: argparse.Namespace) -> tuple[bool, coverage.Visits]:
    """Runs the kernels under all plans and prints what came of it: right only if every kernel was launched, too."""
    folder = build.FOLDER / what.replace(" ", "_")
    blocks = sum(len(kernel.blocks) for kernel in kernels)
    print(f"=== {what}: {len(kernels)} kernels, {blocks} basic blocks", flush=True)
    each = str(build.each_kernel(folder, kernels, options.jobs))
    large = str(build.large_plans(folder, kernels, options.jobs))
    fuzz = str(build.kernels_fuzz(folder, kernels, options.jobs))
    runs: list[Run] = [("a plan for each kernel", [each]), ("large plans", [large])]
    runs += [("alignments", [fuzz, "alignments", "cuda"])]
    for seed in range(options.seed, options.seed + 2):
        runs += [(f"random plans, seed {seed}", [fuzz, str(options.cases), str(seed), "cuda"])]
    environment = {"CUDA_COMPILED_PARTIAL": "1"} if options.only else {}

    def run(numbered: tuple[int, Run]) -> tuple[bool, Path]:
        number, (name, command) = numbered
        visits = folder / f"coverage{number}.txt"  # of large plans there is none
        visits.unlink(missing_ok=True)
        variables = build.environment(CUDA_COMPILED_COVERAGE=str(visits), **environment)
        done = subprocess.run(command, env=variables, capture_output=True, text=True)
        print(f"{name}: {done.stdout.strip()[-3000:]}{done.stderr[-1000:]}", flush=True)
        if done.returncode != 0:
            print(f"  exit status {done.returncode} of: {' '.join(command)}", flush=True)
        return done.returncode == 0, visits

    with ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(run, enumerate(runs)))
    visits = coverage.read(path for right, path in results if right and path.exists())
    print(coverage.report(kernels, visits), flush=True)
    complete = bool(options.only) or not coverage.never_launched(kernels, visits)
    return complete and all(right for right, _ in results), visits


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", nargs="*", default=["sm_80", "sm_90", "sm_100", "sm_120"], help="whose PTX to check")
    parser.add_argument("--sass", nargs="*", default=["sm_90"], help="whose SASS to check, where it can be had")
    parser.add_argument("--only", default="", metavar="REGEX", help="only kernels in whose name this is found")
    parser.add_argument("--cases", type=int, default=4000, help="random plans of each seed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--mutants", type=int, default=0, help="only try so many mutants of the first architecture's PTX"
    )
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    if why := build.missing_tool():
        sys.exit(why)
    if options.mutants:
        entries = build.ptx_entries(options.arch[0], options.only)
        _, visits = check(f"{options.arch[0]} ptx", [entry.kernel() for entry in entries], options)
        print(mutants.run(entries, visits, options.mutants, 10 * options.cases, options.seed, options.jobs))
        return 0
    all_right = True
    seen: dict[str, str] = {}  # architectures by what their kernels were translated to
    for arch, with_sass in [(arch, False) for arch in options.arch] + [(arch, True) for arch in options.sass]:
        what = f"{arch} {'sass' if with_sass else 'ptx'}"
        if why := build.missing_tool(with_sass):
            print(f"=== {what}: {why}")
            continue
        kernels = build.translated_kernels(arch, with_sass, build.ptx_entries(arch, options.only))
        same = seen.setdefault(build.translation(kernels), what)
        if same != what:
            print(f"=== {what}: the same instructions as {same}", flush=True)
        else:
            right, _ = check(what, kernels, options)
            all_right &= right
    return 0 if all_right else 1


if __name__ == "__main__":
    sys.exit(main())
