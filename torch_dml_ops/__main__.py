"""``python -m torch_dml_ops``: what this build can do; and ``run``, ``validate`` and ``example`` for model files."""

import argparse
import io
import os
import platform
import signal
import sys
import sysconfig
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import torch

import torch_dml_ops
from torch_dml_ops import _libraries
from torch_dml_ops._compile import setting
from torch_dml_ops._torch import autograd, short_way

_LONGEST = 1000  # characters of a message


def report() -> dict[str, str]:
    """Labels and values, in the order in which they are printed."""
    architectures = _libraries.cuda_architectures()
    if architectures is None and torch.version.cuda is None:
        kernels = "none, as this torch is built without CUDA"
    elif architectures is None:
        kernels = "none in this build (build with TORCH_DML_OPS_CUDA=1, nvcc on the PATH or CUDA_HOME set)"
    elif not _libraries.cuda_kernels_loaded:
        kernels = f"compiled for {architectures}; not loaded, as this torch is built without CUDA"
    else:
        kernels = f"compiled for {architectures}"
    gpus = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    return {
        "torch_dml_ops": torch_dml_ops.__version__,
        "torch": torch.__version__,
        "Python": platform.python_version() + _threading(),
        "CPU threads": str(torch.get_num_threads()),
        "SIMD level": _libraries.simd_level(),
        "CUDA kernels": kernels,
        "devices": f"kernels for {' and '.join(_libraries.devices_with_kernels)}; all others by torch's own functions",
        "GPUs": ", ".join(f"{g.name} (compute capability {g.major}.{g.minor})" for g in gpus) or "none seen",
        "calls": _calls(),
        "derivatives": "every order, torch.func included"
        if autograd.has_private_names
        else "backward only: this torch lacks names that torch.func support is built on",
        "torch.compile": f"calls of the kernels only: this torch lacks what fusing is built on ({missing})"
        if (missing := setting.missing())
        else f"fused into generated code ({setting.get_fusion()})",
    }


def _threading() -> str:
    if not sysconfig.get_config_var("Py_GIL_DISABLED"):
        return ""
    enabled = bool(vars(sys)["_is_gil_enabled"]())  # of Python 3.13 and later
    return ", free-threaded" + " (its lock is on, for a module that needs it)" * enabled


def _calls() -> str:
    if short_way.is_set_up:
        return "short way for plain tensors"
    if not _libraries.FAST_CALLS_LIBRARY.exists():
        return "ordinary way only: this build had no Python headers (on Debian, apt install python3-dev; build again)"
    return "ordinary way only: this torch lacks names that the short way is built on"


def _feature_level(text: str) -> Any:
    from torch_dml_ops.directml.enums import FeatureLevel, named  # imports more than the report needs

    try:
        return named(FeatureLevel, text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        _tell(f"{self.format_usage()}{self.prog}: error: {message}")  # argparse's own is as long as the argument
        sys.exit(2)


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = _Parser(
        prog="python -m torch_dml_ops", description="Without a command: what this build can do on this machine."
    )
    parser.add_argument("--version", action="version", version=torch_dml_ops.__version__)
    commands = parser.add_subparsers(dest="command", metavar="{run,validate,example}")
    run = commands.add_parser("run", help="run a model file of DxDispatch")
    validate = commands.add_parser("validate", help="say all that is wrong with a model file, and run nothing")
    run.add_argument("--device", default="cpu", help="where to run it: cpu (default), or an accelerator, such as cuda")
    example = commands.add_parser("example", help="list the examples of model files, or write one into this folder")
    example.add_argument("name", nargs="?", help="such as slice1.json")
    for command in (run, validate):
        command.add_argument("model", help="the model file")
        command.add_argument(
            "--feature-level", type=_feature_level, default="6_4", metavar="LEVEL", help="of DirectML, from 1_0 to 6_4"
        )
        command.add_argument("--strict", action="store_true", help="refuse unknown fields, and comments")
        folder = "(default: the model's)"
        command.add_argument("--input-path", metavar="FOLDER", help=f"what sourcePath is relative to {folder}")
        command.add_argument("--output-path", metavar="FOLDER", help=f"what targetPath is relative to {folder}")
        command.add_argument("--allow-outside", action="store_true", help="let writeFile write outside that folder")
    return parser.parse_args(given)


def _examples() -> dict[str, Path]:
    """The examples of model files."""
    folder = Path(torch_dml_ops.__file__).parent / "directml" / "example-models"
    return {path.name: path for path in sorted(folder.glob("*.json"))}


def _example(name: str | None) -> int:
    """Lists the examples of model files, or writes one into the current folder; the exit status."""
    examples = _examples()
    if name is None:
        print(*examples, sep="\n")
        return 0
    if name not in examples:
        _tell(f"example: name must be one of {', '.join(examples)}, got {name}")
        return 2
    try:
        with open(name, "xb") as file:
            try:
                file.write(examples[name].read_bytes())
                file.flush()
            except OSError:  # there is no room, and a part of it would be in the way of the next attempt
                os.unlink(name)
                raise
    except FileExistsError:
        _tell(f"example: {name} exists already; remove it, or call this in another folder")
        return 1
    except OSError as error:
        _tell(f"{name}: {error.strerror}")
        return 1
    print(f"{name} is written; next: python -m torch_dml_ops run {name}")
    return 0


def _tell(error: object) -> None:
    message = str(error)
    print(message if len(message) <= _LONGEST else f"{message[: _LONGEST - 1]}…", file=sys.stderr)


def _what_failed(error: OSError) -> str:
    return f"{error.filename}: {error.strerror}" if error.filename else str(error)


def _model(arguments: argparse.Namespace) -> int:
    """Runs or validates a model file; the exit status."""
    from torch_dml_ops.directml import Model, ModelError, ModelWarning
    from torch_dml_ops.directml.model import device_here

    if arguments.command == "run":
        try:
            device_here("--device", arguments.device)
        except ValueError as error:
            _tell(error)
            return 2
    names = ("feature_level", "allow_outside", "strict", "input_path", "output_path")
    tell = _tell if arguments.command == "run" else print
    try:
        with warnings.catch_warnings(record=True) as ignored:
            warnings.simplefilter("always", ModelWarning)
            try:
                model = Model.load(arguments.model, **{name: getattr(arguments, name) for name in names})
            finally:
                for warning in ignored:
                    tell(f"{arguments.model}: warning: {warning.message}")
        if arguments.command == "run":
            model.run(device=arguments.device)
    except FileNotFoundError as error:
        way_out = f"; next: python -m torch_dml_ops example {error.filename}" if error.filename in _examples() else ""
        is_model = error.filename == arguments.model  # or else a folder to write into, or the current one
        _tell(f"there is no file {error.filename}{way_out}" if is_model else _what_failed(error))
        return 1
    except MemoryError:
        _tell(f"{arguments.model}: there is not enough memory to {arguments.command} it")
        return 1
    except ImportError as error:
        _tell(error)
        return 1
    except OSError as error:
        if error.filename is None:
            raise  # of the standard output
        _tell(_what_failed(error))
        return 1
    except ModelError as error:
        for problem in error.problems:  # the error's own message has only the first of them
            tell(f"{arguments.model}: {problem}")
        return 1
    if arguments.command == "validate":
        found = f"nothing is wrong; warnings: {len(ignored)}" if ignored else "nothing is wrong"
        print(f"{arguments.model}: {found}")
    return 0


def main(given: Sequence[str] | None = None) -> int:
    arguments = _arguments(given)
    if arguments.command == "example":
        return _example(arguments.name)
    if arguments.command is not None:
        return _model(arguments)
    lines = report()
    width = max(map(len, lines)) + 2
    for label, value in lines.items():
        print(f"{label:{width}}{value}")
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` ends it quietly, as it ends other tools
    if sys.stderr is None:  # closed: messages would go to the output, and what libraries print into the next open file
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  (it stays open)
    if sys.stdout is None:
        sys.exit("standard output is closed")
    if isinstance(sys.stdout, io.TextIOWrapper):  # names may have characters that the encoding lacks
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        status = main()
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python would try to write it again at exit
        sys.exit(f"standard output: {error.strerror}")
    sys.exit(status)
