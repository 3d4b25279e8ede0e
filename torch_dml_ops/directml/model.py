"""Model files: DxDispatch's JSON of buffers, operators and commands."""

from __future__ import annotations

import io
import os
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import torch
from torch import Tensor

from torch_dml_ops._arguments import instance, listed, string, true_or_false
from torch_dml_ops._paths import resolved
from torch_dml_ops._required import require
from torch_dml_ops._text import JsonPath, as_json, printable, shown
from torch_dml_ops.directml.enums import FeatureLevel, TensorDataType, TensorFlags
from torch_dml_ops.directml.errors import ModelError, Problem
from torch_dml_ops.directml.operator import Operator
from torch_dml_ops.directml.support import check_level
from torch_dml_ops.directml.tensor_desc import TensorDesc

if TYPE_CHECKING:  # with NumPy, which only what runs a model needs
    import numpy as np

    from torch_dml_ops.directml._initial_values import InitialValues

View = Callable[["Bound"], Tensor]


@dataclass(frozen=True)
class Resource:
    """A buffer of bytes, and what fills it when a model is run."""

    size_in_bytes: int
    initial: InitialValues

    @property
    def data_type(self) -> TensorDataType | None:
        """Of the initial values, which commands show and write; None where they are of several types."""
        return self.initial.data_type

    def make(self, path: JsonPath, device: torch.device) -> Tensor:
        beyond = ModelError([Problem(path, f"must fit into memory on {device}, and {self.size_in_bytes} bytes do not")])
        if self.size_in_bytes > sys.maxsize:
            raise beyond
        try:
            buffer = torch.zeros(self.size_in_bytes, dtype=torch.uint8, device="cpu")
        except RuntimeError:  # nothing else can be wrong with it
            raise beyond from None
        self.initial.write(buffer.numpy()[: self.initial.size_in_bytes])
        try:
            return buffer.to(device)
        except torch.OutOfMemoryError:
            raise beyond from None

    def values(self, buffer: Tensor) -> np.ndarray[Any, np.dtype[Any]]:
        """What is in the place of the initial values, flat."""
        from torch_dml_ops.directml._initial_values import numpy_type

        assert self.data_type is not None
        memory = buffer[: self.initial.size_in_bytes].cpu().numpy()
        return memory.view(numpy_type(self.data_type))


@dataclass(frozen=True)
class Bound:
    """A tensor of a descriptor, and where in which buffer it lies."""

    resource: str
    offset: int  # in bytes
    desc: TensorDesc

    @property
    def owned(self) -> bool:
        """Whether it is read before the first command, and constant from then on."""
        return TensorFlags.OWNED_BY_DML in self.desc.flags

    @property
    def end(self) -> int:
        return self.offset + (self.desc.total_tensor_size_in_bytes or 0)


@dataclass(frozen=True)
class Dispatch:
    """A command that runs an operator."""

    operator: Operator
    inputs: tuple[Bound, ...]
    outputs: tuple[Bound, ...]

    def run(self, model: Model, buffers: Mapping[str, Tensor], view: View, file: TextIO) -> None:
        inputs, outs = [view(b) for b in self.inputs], [view(b) for b in self.outputs]
        self.operator._run(inputs, outs if self.operator.gives_list else outs[0])


@dataclass(frozen=True)
class Print:
    """A command that shows a buffer."""

    resource: str
    verbose: bool

    def run(self, model: Model, buffers: Mapping[str, Tensor], view: View, file: TextIO) -> None:
        values = model.resources[self.resource].values(buffers[self.resource])
        texts = [_number(value) for value in values.tolist()]
        if not self.verbose:
            print(f"Resource '{printable(self.resource)}': {', '.join(texts)}", file=file)
            return
        digits, width = 2 * values.dtype.itemsize, len(str(len(texts)))
        bits = values.view(f"<u{values.dtype.itemsize}").tolist()
        print(f"Resource '{printable(self.resource)}':", file=file)
        for k, (value, pattern) in enumerate(zip(texts, bits, strict=True)):
            print(f"[{k:{width}}] {value} (0x{pattern:0{digits}X})", file=file)


def _number(value: int | float) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)  # six digits, as C++ shows them


def unfinished_name(target: Path) -> Path:
    """Of a file that is to take the place of the target: another one each time, always of the same length."""
    return target.with_name(f".{os.urandom(8).hex()}")


@dataclass(frozen=True)
class WriteFile:
    """A command that writes a buffer to a file: to .npy what the print command shows, else all bytes."""

    resource: str
    target: Path
    target_path: str  # as the model has it
    dimensions: tuple[int, ...] | None
    path: JsonPath

    def run(self, model: Model, buffers: Mapping[str, Tensor], view: View, file: TextIO) -> None:
        import numpy as np

        buffer = buffers[self.resource]
        if (leads_to := resolved(self.target)) != self.target:
            sentence = f"leads elsewhere than when the model was loaded, to {as_json(str(leads_to))}"
            raise ModelError([Problem(self.path, sentence)])
        if self.target.exists() and not self.target.is_file():
            sentence = "must lead to a file, or to nothing yet, as it did when the model was loaded"
            raise ModelError([Problem(self.path, sentence)])
        self.target.parent.mkdir(parents=True, exist_ok=True)
        # A new file takes the place of an old one, so that what failed leaves the old one as it was.
        unfinished = unfinished_name(self.target)
        try:
            with unfinished.open("xb") as to:
                if self.target.exists():
                    os.fchmod(to.fileno(), stat.S_IMODE(self.target.stat().st_mode))
                if self.target.suffix.lower() == ".npy":
                    values = model.resources[self.resource].values(buffer)
                    np.save(to, values if self.dimensions is None else values.reshape(self.dimensions))
                else:
                    buffer.cpu().numpy().tofile(to)
            unfinished.replace(self.target)
        finally:
            unfinished.unlink(missing_ok=True)
        name, target_path = printable(self.resource), printable(self.target_path)
        print(f"Resource '{name}' written to '{target_path}'", file=file)


Command = Dispatch | Print | WriteFile


@dataclass(frozen=True)
class Model:
    """A model file that was read and found right: buffers, and commands on them.

    Two of them are equal that fill the same buffers in the same way and run the same commands.

    Attributes:
        resources: the buffers by name, and what fills them.
        commands: in their order.

    Source: `DxDispatch's guide <https://github.com/microsoft/DirectML/blob/master/DxDispatch/doc/Guide.md>`_.

    >>> import json, tempfile, pathlib
    >>> from torch_dml_ops.directml import *
    >>> tensor = {"DataType": "INT32", "Sizes": [4]}
    >>> desc = {"InputTensor": tensor, "OutputTensor": tensor, "DimensionCount": 1}
    >>> desc |= {"InputWindowOffsets": [0], "InputWindowSizes": [4], "InputWindowStrides": [-1]}
    >>> bindings = {"InputTensor": "x", "OutputTensor": "y"}
    >>> source = {
    ...     "resources": {
    ...         "x": {"initialValuesDataType": "INT32", "initialValues": [1, 2, 3, 4]},
    ...         "y": {"initialValuesDataType": "INT32", "initialValues": {"valueCount": 4, "value": 0}},
    ...     },
    ...     "dispatchables": {"reverse": {"type": "SLICE1", "desc": desc}},
    ...     "commands": [
    ...         {"type": "dispatch", "dispatchable": "reverse", "bindings": bindings},
    ...         {"type": "print", "resource": "y"},
    ...     ],
    ... }
    >>> file = pathlib.Path(tempfile.mkdtemp(), "model.json")
    >>> _ = file.write_text(json.dumps(source))
    >>> buffers = Model.load(file).run()
    Resource 'y': 4, 3, 2, 1
    >>> TensorDesc.from_json(tensor).view(buffers["y"])
    tensor([4, 3, 2, 1], dtype=torch.int32)
    """

    resources: Mapping[str, Resource]
    commands: Sequence[Command]

    def __post_init__(self) -> None:
        instance(Mapping, "Model: resources", self.resources, "a dict of the resources of a model")
        for name, resource in self.resources.items():
            string("Model: a name in resources", name)
            instance(Resource, f"Model: resources[{shown(name)}]", resource)
        commands = listed("Model: commands", self.commands, "commands of a model")
        for k, command in enumerate(commands):
            instance(
                (Dispatch, Print, WriteFile), f"Model: commands[{k}]", command, "a command, as Model.load makes it"
            )
        object.__setattr__(self, "resources", dict(self.resources))
        object.__setattr__(self, "commands", tuple(commands))

    def __hash__(self) -> int:
        return hash((frozenset(self.resources.items()), self.commands))

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        feature_level: FeatureLevel = FeatureLevel.NEWEST,
        allow_outside: bool = False,
        strict: bool = False,
        input_path: str | os.PathLike[str] | None = None,
        output_path: str | os.PathLike[str] | None = None,
    ) -> Model:
        """Reads a model file and checks all of it; nothing is run, allocated or written.

        Args:
            path: a file of JSON, as DxDispatch reads it; :doc:`/docs/model-files` has every field.
            feature_level: the level that the operators are to be valid at, by default the newest.
            allow_outside: whether ``writeFile`` may write elsewhere than into the output path.
            strict: whether what is not read is an error: unknown fields, and comments.
            input_path: where ``sourcePath`` is looked up before the current directory, by default the model's folder.
            output_path: what ``targetPath`` is relative to, by default the model's folder.

        Warns:
            ModelWarning: of each thing that is not read, with its JSON path.

        Raises:
            ModelError: with everything that is wrong, each with its JSON path.
            OSError: a file that cannot be read.
            TypeError: an argument of another type.
        """
        for name, given in (("path", path), ("input_path", input_path), ("output_path", output_path)):
            if given is not None or name == "path":
                _check_path(name, given)
        check_level(feature_level)
        true_or_false("Model.load: allow_outside", allow_outside)
        true_or_false("Model.load: strict", strict)
        require("torch_dml_ops: reading model files", "numpy", install="numpy")
        from torch_dml_ops.directml._parse_model import load_model

        return load_model(path, feature_level, allow_outside, strict, input_path, output_path)

    def run(self, *, device: str | torch.device = "cpu", file: TextIO | None = None) -> dict[str, Tensor]:
        """Fills the buffers and runs the commands.

        Args:
            device: where the buffers are, and the operators run.
            file: what the commands print goes there, by default to the standard output.

        Returns:
            The buffers by name, as they are after the last command: 1-D uint8 tensors on the device.
            :meth:`TensorDesc.view` shows the tensors in them.

        Raises:
            ModelError: buffers that do not fit into memory, or files and folders that have changed since.
            OSError: a file that cannot be written.
            TypeError: a device or a file of another type.
            ValueError: a device that is not there, or that the operators have no kernels for.
        """
        device = _device(device)
        if file is not None and (not hasattr(file, "write") or isinstance(file, (io.RawIOBase, io.BufferedIOBase))):
            raise TypeError(f"Model.run: file must be a text file that can be written, got {shown(file)}")
        buffers = {name: r.make(("resources", name), device) for name, r in self.resources.items()}

        @cache
        def view(bound: Bound) -> Tensor:
            memory = buffers[bound.resource][bound.offset : bound.end]
            return bound.desc.view(memory.clone() if bound.owned else memory)

        dispatches = (command for command in self.commands if isinstance(command, Dispatch))
        for bound in (bound for dispatch in dispatches for bound in dispatch.inputs if bound.owned):
            view(bound)
        for command in self.commands:
            command.run(self, buffers, view, sys.stdout if file is None else file)
        return buffers


def _check_path(name: str, given: Any) -> None:
    if not isinstance(given, (str, os.PathLike)) or not isinstance(os.fspath(given), str):
        wanted = "the name of a file or a path" if name == "path" else "the name of a folder or a path"
        raise TypeError(f"Model.load: {name} must be {wanted}, got {shown(given)}")
    if name != "path" and "\0" in os.fspath(given):
        raise ValueError(f"Model.load: {name} must be the name of a folder, got {shown(given)}")


def _device(given: str | torch.device) -> torch.device:
    instance((str, torch.device), "Model.run: device", given, "a torch.device or the name of one")
    name = shown(given)
    try:
        device = torch.device(given)
        name = str(device)
        here = device.type == "cuda" and 0 <= (device.index or 0) < torch.cuda.device_count()
        if device.type == "cpu" or here:
            return device
    except RuntimeError:  # of a name that means nothing to torch
        pass
    raise ValueError(f"Model.run: device must be cpu, or cuda where torch sees a GPU, got {name}")
