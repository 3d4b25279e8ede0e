"""Model files: DxDispatch's JSON of buffers, operators and commands."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TextIO

import torch
from torch import Tensor

from torch_dml_ops._sentences.packages import need_packages
from torch_dml_ops._sentences.text import shown
from torch_dml_ops.directml._models.commands import Bound, Command, Dispatch, Print, Resource, WriteFile
from torch_dml_ops.directml._schema.arguments import instance, listed, string, true_or_false
from torch_dml_ops.directml._schema.json_documents import Cursor, read
from torch_dml_ops.directml.enums import FeatureLevel
from torch_dml_ops.directml.support import check_level


@dataclass(frozen=True)
class Model:
    """A model file that has been read and checked: buffers, and commands on them.

    Two models are equal if they fill the same buffers in the same way and run the same commands.

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
            instance(Resource, f"Model: resources[{shown(name)}]", resource, "a resource, as Model.load makes it")
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
        need_packages("torch_dml_ops: reading model files", "numpy")
        from torch_dml_ops.directml._models.load_model import load_model

        options = feature_level, allow_outside, input_path, output_path
        return cls(*read(Cursor(None), lambda document: load_model(document, path, *options), strict))

    def run(self, *, device: str | torch.device = "cpu", file: TextIO | None = None) -> dict[str, Tensor]:
        """Fills the buffers and runs the commands.

        Args:
            device: where the buffers are, and the operators run: the CPU, or an accelerator that torch sees.
            file: what the commands print goes there, by default to the standard output.

        Returns:
            The buffers by name, as they are after the last command: 1-D uint8 tensors on the device.
            :meth:`TensorDesc.view` shows the tensors in them.

        Raises:
            ModelError: buffers that do not fit into memory, or files and folders that have changed since.
            OSError: a file that cannot be written.
            TypeError: a device or a file of another type.
            ValueError: a device that is not there.
        """
        device = device_here("Model.run: device", device)
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
            command.run(self.resources, buffers, view, sys.stdout if file is None else file)
        return buffers


def _check_path(name: str, given: Any) -> None:
    if not isinstance(given, (str, os.PathLike)) or not isinstance(os.fspath(given), str):
        wanted = "the name of a file or a path" if name == "path" else "the name of a folder or a path"
        raise TypeError(f"Model.load: {name} must be {wanted}, got {shown(given)}")
    if name != "path" and "\0" in os.fspath(given):
        raise ValueError(f"Model.load: {name} must be the name of a folder, got {shown(given)}")


def device_here(argument: str, given: str | torch.device) -> torch.device:
    instance((str, torch.device), argument, given, "a torch.device or the name of one")
    called = shown(given)
    try:
        device = torch.device(given)
        called = str(device)
        if 0 <= (device.index or 0) < torch.get_device_module(device).device_count():
            return device
    except (AttributeError, RuntimeError):  # of a name that means nothing to torch, or a device that has no module
        pass
    kind = torch.accelerator.current_accelerator()
    seen = f"{torch.accelerator.device_count()} of {kind.type}" if kind else "none"
    raise ValueError(f"{argument} must be cpu, or an accelerator that torch sees, got {called}; it sees {seen}")
