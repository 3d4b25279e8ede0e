"""Fuzzing of model files and of the descriptors in them: `make fuzz SECONDS=3600`.

With atheris, inputs that reach new code are kept and changed further. Without it, those of tests/directml/model_corpus
are changed at random, as `make test` does for a few seconds. Every text must be loaded or refused with a ModelError,
and nothing may be written outside the model's folder. What has failed is kept as build/fuzz/crash-…; run with its name,
this script tries that file alone.
"""

import argparse
import hashlib
import io
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "lib"))
from descriptors.bad_models import places  # noqa: E402

CORPUS = ROOT / "tests" / "directml" / "model_corpus"
FOUND = ROOT / "build" / "fuzz"
MOST_SECONDS = 20  # of the processor for one input; they take milliseconds
MOST_MEMORY = 2 << 30  # bytes of addresses beyond those that the process has at first
MOST_BYTES_RUN = 1 << 20  # of a model's buffers; larger models are only loaded
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = ("os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod")

try:
    import atheris
except ImportError:
    atheris = None


class Outside(BaseException):
    """Not an Exception, which the code under test might catch."""


class TooLong(BaseException):
    pass


# What is tried.


class Fuzzer:
    """Calls with the bytes of a model file raise if it is handled wrongly."""

    def __init__(self, folder: Path) -> None:
        from torch_dml_ops import directml

        self.directml = directml
        self.folder = folder / "models"
        self.folder.mkdir()
        self.folder.joinpath("values.bin").write_bytes(bytes(range(64)))
        self.file = folder / "model.json"  # read-only in effect: what runs must not write beside its own folder
        self.running = False
        self.loaded = self.ran = 0
        os.chdir(self.folder)
        sys.dont_write_bytecode = True  # of modules that are imported when they are first used
        sys.addaudithook(self.watch)
        signal.signal(signal.SIGVTALRM, self.interrupt)
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MOST_MEMORY, resource.RLIM_INFINITY))

    def watch(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.running:
            return
        if event in ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "socket.connect"):
            raise Outside(f"{event} {arguments}")
        writes = event in CHANGES or (event == "open" and arguments[2] & WRITING)
        if writes and isinstance(arguments[0], (str, bytes, os.PathLike)):
            path = Path(os.fsdecode(arguments[0])).resolve()
            if path != self.folder and self.folder not in path.parents:
                raise Outside(f"{event} {path}")

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        raise TooLong(f"more than {MOST_SECONDS} seconds")

    def __call__(self, data: bytes) -> None:
        self.file.write_bytes(data)
        signal.setitimer(signal.ITIMER_VIRTUAL, MOST_SECONDS)
        self.running = True
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", self.directml.ModelWarning)
                self.model()
                self.descriptors(data)
        finally:
            self.running = False
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)

    def model(self) -> None:
        try:
            model = self.directml.Model.load(self.file, input_path=self.folder, output_path=self.folder)
            self.loaded += 1
            if sum(resource.size_in_bytes for resource in model.resources.values()) > MOST_BYTES_RUN:
                return
            model.run(file=io.StringIO())
            self.ran += 1
        except self.directml.ModelError as error:
            check_message(error)

    def descriptors(self, data: bytes) -> None:
        try:
            root = json.loads(data)
        except (ValueError, RecursionError):
            return
        for value in objects(root):
            for kind in (self.directml.TensorDesc, self.directml.OperatorDesc):
                try:
                    found = kind.from_json(value)
                except self.directml.ModelError as error:
                    check_message(error)
                else:
                    self.both_ways(kind, found)

    def both_ways(self, kind: Any, found: Any) -> None:
        if isinstance(found, self.directml.OperatorDesc):
            try:
                found.validate()
            except self.directml.DescriptorError as error:
                check_message(error)
        assert kind.from_json(json.loads(json.dumps(found.to_json()))) == found, "differs after a round trip"


def check_message(error: ValueError) -> None:
    assert 0 < len(str(error)) < 200_000, "an error without a message, or with one without an end"


def objects(root: Any) -> Iterator[dict[str, Any]]:
    """The first hundred objects in a JSON value."""
    left, count = [root], 0
    while left and count < 100:
        value = left.pop()
        if isinstance(value, dict):
            count += 1
            yield value
        left.extend(value.values() if isinstance(value, dict) else value if isinstance(value, list) else [])


# How inputs are changed.

NUMBERS = (*range(4), 7, 8, 9, 64, -1, -2, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63, 2**64, -(2**63), 0.5, 1e308, -0.0)
TEXTS = ("", "nan", "inf", "x", "FLOAT32", "UINT64", "OWNED_BY_DML", "a\0", "é\ud800")
TEXTS += ("../x.bin", "/x.bin", "values.bin")


def change(root: Any, rng: random.Random) -> Any:
    """One change to a JSON value, most often to a number."""
    found = list(places(root))
    if not found:
        return rng.choice([{}, [], 1, root])
    numbers = [p for p in found if isinstance(p[0][p[1]], (int, float))]
    container, key = rng.choice(numbers if numbers and rng.random() < 0.4 else found)
    value, other = container[key], rng.choice(found)
    instead = [rng.choice(NUMBERS), rng.choice(TEXTS), json.loads(json.dumps(other[0][other[1]]))]
    instead += [None, True, [], {}, [value], {"x": value}]
    if isinstance(value, (int, float)):
        instead += [value - 1, value + 1] * 2
    if isinstance(value, list) and value:
        instead += [value[:-1], value * rng.choice([2, 3, 9])] * 2
    kind = rng.random()
    if kind < 0.1:
        del container[key]
    elif kind < 0.2 and isinstance(container, dict):
        container[rng.choice([rng.choice(TEXTS), str(other[1])])] = container.pop(key)
    else:
        container[key] = rng.choice(instead)
    return root


def changed(data: bytes, most: int, seed: int, bytes_changed: Callable[[bytes, int], bytes]) -> bytes:
    rng = random.Random(seed)
    try:
        root = json.loads(data)
    except (ValueError, RecursionError):
        return bytes_changed(data, most)
    if rng.random() < 0.1:
        return bytes_changed(data, most)
    try:
        for _ in range(rng.choice([1, 1, 1, 2, 4])):
            root = change(root, rng)
            if not isinstance(root, (dict, list)):
                break
        result = json.dumps(root).encode()
    except (ValueError, RecursionError):  # a container in itself
        return data
    return result if len(result) <= most else data


def with_random_bytes(rng: random.Random) -> Callable[[bytes, int], bytes]:
    def result(data: bytes, most: int) -> bytes:
        text = bytearray(data)
        for _ in range(rng.randint(1, 4)):
            at = rng.randint(0, len(text))
            text[at : at + rng.choice([0, 1, 5])] = rng.choice(
                [b"", b"[", b"{", b'"', b",", b"/*", b"//", b"\xff", b"\0", b"1e", b"-"]
            )
        return bytes(text[:most])

    return result


# How it is run.


def randomly(fuzzer: Fuzzer, inputs: int, seconds: float, seed: int) -> int:
    """Changes the corpus until either is used up; returns how many inputs were tried."""
    corpus = [path.read_bytes() for path in sorted(CORPUS.iterdir())]
    for data in corpus:
        attempt(fuzzer, data)
    until = time.monotonic() + seconds
    tried = 0
    while tried < inputs and time.monotonic() < until:
        rng = random.Random(f"{seed} {tried}")
        data = rng.choice(corpus)
        for _ in range(rng.randint(1, 3)):
            data = changed(data, 4096, rng.getrandbits(32), with_random_bytes(rng))
        attempt(fuzzer, data)
        tried += 1
    return tried


def attempt(fuzzer: Fuzzer, data: bytes) -> None:
    try:
        fuzzer(data)
    except BaseException:
        FOUND.mkdir(parents=True, exist_ok=True)
        crash = FOUND / f"crash-{hashlib.sha1(data).hexdigest()}"
        crash.write_bytes(data)
        print(f"failed: {crash}", flush=True)
        raise


def guided(fuzzer: Fuzzer, seconds: int) -> None:
    kept = FOUND / "kept"
    kept.mkdir(parents=True, exist_ok=True)
    options = [f"-max_total_time={seconds}", f"-artifact_prefix={FOUND}/", "-max_len=4096", "-timeout=600"]
    options += ["-rss_limit_mb=4096", "-print_final_stats=1", str(kept), str(CORPUS)]

    def custom_mutator(data: bytes, most: int, seed: int) -> bytes:
        return changed(data, most, seed, atheris.Mutate)

    atheris.Setup([sys.argv[0], *options], fuzzer, custom_mutator=custom_mutator)
    atheris.Fuzz()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("crash", nargs="?", type=Path, help="a file to try alone")
    parser.add_argument("--seconds", type=int, default=3600)
    parser.add_argument("--inputs", type=int, default=0, help="change the corpus at random, so many times")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if atheris is not None and not given.inputs and not given.crash:
        atheris.instrument_imports(include=["torch_dml_ops.directml"]).__enter__()  # what Fuzzer imports
    crash = given.crash.read_bytes() if given.crash else b""
    with tempfile.TemporaryDirectory() as folder:
        fuzzer = Fuzzer(Path(folder).resolve())
        if given.crash:
            fuzzer(crash)
        elif given.inputs or atheris is None:
            tried = randomly(fuzzer, given.inputs or sys.maxsize, given.seconds, given.seed)
            print(f"{tried} inputs, {fuzzer.loaded} of them models, of which {fuzzer.ran} ran")
        else:
            guided(fuzzer, given.seconds)
        os.chdir("/")


if __name__ == "__main__":
    main()
