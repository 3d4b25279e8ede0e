"""Uses the operators for a long time in ways that wear programs out, each in a process of its own.

    python tests/tools/soak.py [--seconds 1200] [SITUATION ...]

The situations are the functions below. Each gets a part of the seconds, makes its calls again and again, compares
results with torch's own, and ends with an error at the first that is wrong.
"""

import argparse
import ctypes
import gc
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator

import torch
from torch import Tensor
from tqdm import tqdm

import torch_dml_ops as dml

MB = 1 << 20
TRIM = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc


class Kinds:
    """Calls of every kind on tensors of one size, each with what it has to give."""

    def __init__(self, rows: int) -> None:
        x = torch.arange(rows * 12.0).reshape(rows, 12)
        self.x, self.pair, self.turned = x, [x, -x], x.flip(0)
        self.window = [0, 0], [rows, 12], [-1, 1]
        self.lengths = torch.full((rows, 1), 12)
        self.mirrored = x.flip(1)
        self.leaf = x.clone().requires_grad_()
        self.out = torch.empty_like(x)
        self.calls: dict[str, tuple[Callable[[], Tensor], Tensor]] = {
            "slice1": (lambda: dml.slice1(x, *self.window), self.turned),
            "slice_grad": (lambda: dml.slice_grad(x, [rows, 12], *self.window), self.turned),
            "split": (lambda: dml.split(x, [5, 7], 1)[1], x[:, 5:]),
            "join": (lambda: dml.join(self.pair, 1)[:, 12:], -x),
            "reverse_subsequences": (lambda: dml.reverse_subsequences(x, self.lengths, 1), self.mirrored),
            "an overload": (lambda: torch.ops.torch_dml_ops.slice1.default(x, *self.window), self.turned),
            "out": (lambda: dml.slice1(x, *self.window, out=self.out), self.turned),
            "backward": (self._gradient, self.turned),
            "vmap": (lambda: torch.func.vmap(lambda r: dml.slice1(r, [0], [12], [-1]))(x), self.mirrored),
            "index": (lambda: dml.index(x)[::-1], self.turned),
            "a refused call": (self._refused, x),
        }

    def _gradient(self) -> Tensor:
        (gradient,) = torch.autograd.grad(dml.slice1(self.leaf, *self.window), self.leaf, self.x)
        return gradient

    def _refused(self) -> Tensor:
        try:
            dml.slice1(self.x, [0, 0], [0, 0], [1, 1])
        except RuntimeError:
            return self.x
        raise AssertionError("it was not refused")

    def check(self, name: str) -> None:
        call, want = self.calls[name]
        assert torch.equal(call(), want), name

    def check_all(self, *, without: Collection[str] = ()) -> None:
        for name in self.calls:
            if name not in without:
                self.check(name)


def until(end: float) -> Iterator[int]:
    """Counts until then, but to 2 at least."""
    number = 0
    while number < 2 or time.monotonic() < end:
        yield number
        number += 1


def used() -> int:
    """The bytes of memory that this process has."""
    gc.collect()
    if TRIM is not None:
        TRIM(0)
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def calls(seconds: float) -> None:
    """A million calls of each kind, in 400 seconds, take no more memory than the first thousands."""
    kinds = Kinds(4)
    count = max(2000, int(1_000_000 * min(seconds / 400, 1)))
    for name, (call, _) in tqdm(kinds.calls.items(), disable=None):
        for _ in range(2000):
            call()
        before = used()
        for _ in range(count):
            call()
        # A leak of 8 bytes in a call is more than this, at a million of calls; of a small result, at 10000.
        assert used() - before < 4 * MB, f"{name}: {count} calls took {(used() - before) / MB:.1f} MB"
        kinds.check(name)


def threads(seconds: float) -> None:
    """Eight threads at once, which change how many threads a call has."""
    end, failed = time.monotonic() + seconds, []

    def work(seed: int) -> None:
        rng = random.Random(seed)
        try:
            for _ in until(end):
                torch.set_num_threads(rng.randint(1, 4))
                Kinds(rng.choice([4, 400, 40000])).check_all()
        except BaseException as error:
            failed.append(error)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failed:
        raise failed[0]


def forks(seconds: float) -> None:
    """Processes that are forked while another thread makes calls. OpenMP's threads do not survive that, so a child uses
    one, as a DataLoader's workers do. Nor do locks: what imports, torch.func.vmap and torch's engine for backward
    passes hold in that thread, whatever the operator, a child waits for for ever."""
    end = time.monotonic() + seconds
    at_work = threading.Thread(target=lambda: [Kinds(4).check_all(without=("vmap", "backward")) for _ in until(end)])
    torch.set_num_threads(1)
    Kinds(4).check_all()  # imports what is imported at first use
    at_work.start()
    for _ in until(end):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                Kinds(40000).check_all()
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
    at_work.join()


def interrupts(seconds: float) -> None:
    """Ctrl-C at random moments: what follows is right."""
    end, rng = time.monotonic() + seconds, random.Random(0)
    sizes = [Kinds(rows) for rows in (4, 4000)]

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, interrupt)  # that of SIGINT does the same
    interrupted = 0
    for _ in until(end):
        kinds = rng.choice(sizes)
        try:
            signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-6, 3e-3))
            latest = time.monotonic() + 1  # Python ignores an exception that meets a destructor
            while time.monotonic() < latest:
                # torch.func.vmap itself does not stand it: interrupted before it enters a level, it still leaves one.
                kinds.check_all(without=["vmap"])
        except KeyboardInterrupt:
            interrupted += 1
        kinds.check_all()
    assert interrupted


def shutdown(seconds: float) -> None:
    """The main thread ends while others make calls, and the interpreter waits for them. (It does not for daemon
    threads: before Python 3.14 it ends them inside of C++, where torch's own operators, too, abort the process.)"""
    program = """
import sys, threading, time, soak
def work():
    kinds = soak.Kinds(int(sys.argv[1]))
    while threading.main_thread().is_alive():
        kinds.check_all()
for _ in range(4):
    threading.Thread(target=work).start()
time.sleep(float(sys.argv[2]))
"""
    end, rng = time.monotonic() + seconds, random.Random(0)
    for number in until(end):
        arguments = str([4, 40000][number % 2]), str(rng.uniform(0, 0.2))
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            env=os.environ | {"PYTHONPATH": os.path.dirname(os.path.abspath(__file__))},
        )
        assert (done.returncode, done.stderr) == (0, ""), (done.returncode, done.stderr[-3000:])


def memory(seconds: float) -> None:
    """What there is no memory for is refused, nothing is lost by that, and the next call works."""
    kinds = Kinds(4)
    kinds.check_all()
    x = torch.ones(16 * MB, dtype=torch.uint8)
    lengths = torch.full((1,), 16 * MB)
    with open("/proc/self/statm") as file:
        taken = int(file.read().split()[0]) * resource.getpagesize()
    most = resource.getrlimit(resource.RLIMIT_AS)[1]
    rng = random.Random(0)
    refused = made = 0
    before = used()
    for number in until(time.monotonic() + seconds):
        room = 8 * MB if number == 0 else 96 * MB if number == 1 else rng.randint(0, 64 * MB)
        resource.setrlimit(resource.RLIMIT_AS, (taken + room, most))
        for call in (
            lambda: dml.slice1(x, [0], [16 * MB], [-1]),
            lambda: dml.slice_grad(x, [16 * MB], [0], [16 * MB], [-1]),
            lambda: dml.split(x, [4 * MB] * 4, 0),
            lambda: dml.join([x, x], 0),
            lambda: dml.reverse_subsequences(x, lengths, 0),
        ):
            try:
                call()
                made += 1
            except (RuntimeError, MemoryError) as error:
                if isinstance(error, RuntimeError) and "memory" not in str(error):
                    raise
                refused += 1
            kinds.check_all()
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    assert refused, "everything was done"
    assert made, "nothing was done"
    assert used() - before < 16 * MB, f"{(used() - before) / MB:.1f} MB were lost"


SITUATIONS = {f.__name__: f for f in (calls, threads, forks, interrupts, shutdown, memory)}


def main() -> None:
    parser = argparse.ArgumentParser(description="Uses the operators for a long time in ways that wear programs out.")
    parser.add_argument("situations", nargs="*", metavar="SITUATION", help=", ".join(SITUATIONS))
    parser.add_argument("--seconds", type=float, default=1200)
    parser.add_argument("--here", action="store_true", help="in this process: one situation")
    args = parser.parse_args()
    names = args.situations or list(SITUATIONS)
    for name in names:
        if name not in SITUATIONS:
            parser.error(f"the situations are {', '.join(SITUATIONS)}, got {name}")
    if args.here:
        SITUATIONS[names[0]](args.seconds)
        return
    # The calls take twice as long as any other situation.
    shares = {name: 2 if name == "calls" else 1 for name in names}
    for name in tqdm(names, disable=None):
        part = args.seconds * shares[name] / sum(shares.values())
        command = [sys.executable, os.path.abspath(__file__), name, "--here", "--seconds", str(part)]
        done = subprocess.run(command, timeout=10 * part + 300)
        if done.returncode:
            sys.exit(f"{name}: ended with {done.returncode}")


if __name__ == "__main__":
    main()
