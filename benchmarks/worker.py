"""One process of the benchmark: frameworks that share a thread pool, measured in turns on each case.

Reads cases from standard input, a key per line, and answers each with a line of JSON: microseconds by framework.
"""

import importlib
import json
import os
import signal
import sys

import torch
from cases import all_cases
from frameworks import Call
from timing import microseconds


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process ends when its standard input does
    frameworks, seconds = sys.argv[1].split(","), float(sys.argv[2])
    threads = int(os.environ["BENCHMARK_THREADS"])
    modules = {name: importlib.import_module(f"frameworks.{name}") for name in frameworks}
    cases = {case.key: case for case in all_cases()}
    torch.set_num_threads(threads)
    prepared = ""
    calls: dict[str, Call] = {}
    for line in sys.stdin:
        if line != prepared:  # else it is another pass over the same case
            prepared, calls = line, {}  # frees the previous case's memory first
            for name, module in modules.items():
                if call := module.prepare(cases[line.strip()]):
                    calls[name] = call
        print(json.dumps(microseconds(calls, threads, seconds)), flush=True)


if __name__ == "__main__":
    main()
