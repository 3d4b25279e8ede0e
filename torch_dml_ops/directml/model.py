"""Model files: DxDispatch's JSON of buffers, operators and commands."""

from __future__ import annotations

import math
import os
import secrets
import stat
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path as FilePath
from typing import Annotated, Any, TextIO

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from torch_dml_ops.directml import _json_text
from torch_dml_ops.directml._initial_values import InitialValues, numpy_type, parse_initial_values
from torch_dml_ops.directml._structure import Structure, parse, parse_name
from torch_dml_ops.directml.enums import FeatureLevel, TensorDataType
from torch_dml_ops.directml.errors import DescriptorError, ModelError, Path, Problem, json_path, printable, text
from torch_dml_ops.directml.operator import Operator
from torch_dml_ops.directml.operator_descs import name_in_json, parse_operator, problem_in_json
from torch_dml_ops.directml.tensor_desc import UINT64_MAX, UINT_MAX, TensorDesc

View = Callable[[str, int, TensorDesc], Tensor]  # of a buffer, from an offset in bytes on, as the description says
Uint = Annotated[int, Field(ge=0, le=UINT_MAX)]
Uint64 = Annotated[int, Field(ge=0, le=UINT64_MAX)]

FILES = (".npy", ".dat", ".bin")


class _RootJson(Structure):
    schema_: Any = Field(None, alias="$schema")
    resources: dict[str, Any]
    dispatchables: dict[str, Any]
    commands: list[Any]


class _ResourceJson(Structure):
    initialValuesDataType: str | None = None
    initialValues: Any
    sizeInBytes: Uint64 | None = None


class _RangeJson(Structure):
    name: str
    elementCount: Uint64 | None = None
    elementOffset: Uint64 = 0
    elementSizeInBytes: Annotated[int, Field(ge=1, le=UINT64_MAX)] | None = None


class _DispatchJson(Structure):
    type: str
    dispatchable: str
    bindings: dict[str, Any]


class _PrintJson(Structure):
    type: str
    resource: str
    verbose: bool = False


class _WriteFileJson(Structure):
    type: str
    resource: str
    targetPath: str
    dimensions: list[Uint] | None = None


@dataclass(frozen=True)
class Resource:
    """A buffer of bytes, and what fills it when a model is run."""

    size_in_bytes: int
    initial: InitialValues

    @property
    def data_type(self) -> TensorDataType | None:
        """Of the initial values, which commands show and write; None where they are of several types."""
        return self.initial.data_type

    def make(self, path: Path, device: torch.device) -> Tensor:
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
    def end(self) -> int:
        return self.offset + (self.desc.total_tensor_size_in_bytes or 0)


@dataclass(frozen=True)
class Dispatch:
    """A command that runs an operator."""

    operator: Operator
    inputs: tuple[Bound, ...]
    outputs: tuple[Bound, ...]

    def run(self, model: Model, buffers: Mapping[str, Tensor], view: View, file: TextIO) -> None:
        inputs = [view(b.resource, b.offset, b.desc) for b in self.inputs]
        outs = [view(b.resource, b.offset, b.desc) for b in self.outputs]
        self.operator(*inputs, out=outs if self.operator.gives_list else outs[0])


@dataclass(frozen=True)
class Print:
    """A command that shows a buffer."""

    resource: str
    verbose: bool

    def run(self, model: Model, buffers: Mapping[str, Tensor], view: View, file: TextIO) -> None:
        values = model.resources[self.resource].values(buffers[self.resource])
        shown = [_shown(value) for value in values.tolist()]
        if not self.verbose:
            print(f"Resource '{printable(self.resource)}': {', '.join(shown)}", file=file)
            return
        digits, width = 2 * values.dtype.itemsize, len(str(len(shown)))
        bits = values.view(f"<u{values.dtype.itemsize}").tolist()
        print(f"Resource '{printable(self.resource)}':", file=file)
        for k, (value, pattern) in enumerate(zip(shown, bits, strict=True)):
            print(f"[{k:{width}}] {value} (0x{pattern:0{digits}X})", file=file)


def _shown(value: int | float) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)  # six digits, as C++ shows them


@dataclass(frozen=True)
class WriteFile:
    """A command that writes a buffer to a file: to .npy what the print command shows, else all bytes."""

    resource: str
    target: FilePath
    target_path: str  # as the model has it
    dimensions: tuple[int, ...] | None
    path: Path

    def run(self, model: Model, buffers: Mapping[str, Tensor], view: View, file: TextIO) -> None:
        buffer = buffers[self.resource]
        if (leads_to := self.target.resolve()) != self.target:
            sentence = f"leads elsewhere than when the model was loaded, to {text(str(leads_to))}"
            raise ModelError([Problem(self.path, sentence)])
        self.target.parent.mkdir(parents=True, exist_ok=True)
        # A new file takes the place of an old one, so that what failed leaves the old one as it was.
        unfinished = self.target.with_name(f".{secrets.token_hex(8)}")
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

    resources: dict[str, Resource]
    commands: tuple[Command, ...]

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        feature_level: FeatureLevel = FeatureLevel.NEWEST,
        allow_outside: bool = False,
    ) -> Model:
        """Reads a model file and checks all of it; nothing is run, allocated or written.

        Args:
            path: a file of JSON; comments and commas before closing brackets are allowed, as DxDispatch allows them.
            feature_level: the level that the operators are to be valid at, by default the newest.
            allow_outside: whether ``writeFile`` may write elsewhere than into the folder of the model.

        Raises:
            ModelError: with everything that is wrong, each with its JSON path.
            OSError: a file that cannot be read.
        """
        file = FilePath(path)
        # A descriptor of this process may be a file, but not one that lies where the descriptor does.
        descriptor = str(file.absolute()).startswith(("/dev/stdin", "/dev/fd/", "/proc/"))
        if descriptor or (file.exists() and not file.is_file()):
            rule = "must be a file, whose folder is that of the files it names"
            raise ModelError([Problem((), f"{rule}, got {text(str(path))}")])
        try:
            source = file.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise ModelError([Problem((), f"must be text in UTF-8: {error.reason} at byte {error.start}")]) from None
        problems: list[Problem] = []
        value = _json_text.load(source)
        root = parse(_RootJson, value, (), problems)
        if root is None and isinstance(value, dict):  # with fields too many, there may be more to say
            known = {"$schema", *_RootJson.model_fields}
            root = parse(_RootJson, {key: value[key] for key in value if key in known}, (), [])
        if root is None:
            raise ModelError(problems)
        reader = _Reader(file.parent.resolve(), feature_level, allow_outside, root, problems)
        model = cls(reader.resources, tuple(reader.commands()))
        if problems:
            raise ModelError(problems)
        return model

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
            ValueError: a device that is not there, or that the operators have no kernels for.
        """
        device = torch.device(device)
        here = device.type == "cuda" and 0 <= (device.index or 0) < torch.cuda.device_count()
        if device.type != "cpu" and not here:
            raise ValueError(f"Model.run: device must be cpu, or cuda where torch sees a GPU, got {device}")
        buffers = {name: r.make(("resources", name), device) for name, r in self.resources.items()}
        view = cache(lambda name, offset, desc: desc.view(buffers[name][offset:]))
        for command in self.commands:
            command.run(self, buffers, view, sys.stdout if file is None else file)
        return buffers


class _Reader:
    """Reads the parts of a model; what is wrong with them goes to `problems`, and the others are read all the same."""

    def __init__(
        self,
        folder: FilePath,
        feature_level: FeatureLevel,
        allow_outside: bool,
        root: _RootJson,
        problems: list[Problem],
    ) -> None:
        self.folder, self.feature_level, self.allow_outside = folder, feature_level, allow_outside
        self.root, self.problems = root, problems
        self.resources: dict[str, Resource] = {}
        for name, value in root.resources.items():
            resource = self._resource(value, ("resources", name))
            if resource is not None:
                self.resources[name] = resource
        self.files: dict[FilePath, Path] = {}  # that commands write, and the folders above them: with the first command
        self.folders: dict[FilePath, Path] = {}
        self.operators: dict[str, Operator] = {}
        for name, value in root.dispatchables.items():
            found = self._operator(value, ("dispatchables", name))
            if found is not None:
                self.operators[name] = found

    def _problem(self, path: Path, sentence: str) -> None:
        self.problems.append(Problem(path, sentence))

    def _resource(self, value: Any, path: Path) -> Resource | None:
        json = parse(_ResourceJson, value, path, self.problems)
        if json is None:
            return None
        data_type, name = None, json.initialValuesDataType
        if name is not None and name.removeprefix("DML_TENSOR_DATA_TYPE_") != "UNKNOWN":
            place = (*path, "initialValuesDataType")
            data_type = parse_name(TensorDataType.parse, name, place, self.problems)
            if data_type is None:
                return None
        place = (*path, "initialValues")
        initial = parse_initial_values(json.initialValues, data_type, self.folder, place, self.problems)
        if initial is None:
            return None
        size = initial.size_in_bytes if json.sizeInBytes is None else json.sizeInBytes
        if size < initial.size_in_bytes:
            rule = f"must be at least {initial.size_in_bytes}, the bytes of the initial values"
            self._problem((*path, "sizeInBytes"), f"{rule}, got {size}")
            return None
        return Resource(-(-size // 4) * 4, initial)

    def _operator(self, value: Any, path: Path) -> Operator | None:
        desc = parse_operator(value, path, self.problems)
        if desc is None:
            return None
        try:
            return Operator(desc, self.feature_level)
        except DescriptorError as error:
            self.problems += [problem_in_json(violation, value, path) for violation in error.violations]
            return None

    # Commands.

    def commands(self) -> Iterator[Command]:
        readers = {"dispatch": self._dispatch, "print": self._print, "writefile": self._write_file}
        for k, value in enumerate(self.root.commands):
            path: Path = ("commands", k)
            kind = value.get("type") if isinstance(value, dict) else None
            if not isinstance(value, dict):
                self._problem(path, f"must be an object, got {text(value)}")
            elif "type" not in value:
                self._problem((*path, "type"), "is required")
            elif not isinstance(kind, str) or kind.lower() not in readers:  # DxDispatch takes any case too
                self._problem((*path, "type"), f"must be dispatch, print or writeFile, got {text(kind)}")
            elif (command := readers[kind.lower()](value, path)) is not None:
                yield command

    def _known(self, name: str, names: Mapping[str, object], kind: str, path: Path) -> bool:
        """Whether the model has something of this name; there may be problems with it."""
        if name not in names:
            has = ", ".join(map(text, names)) if len(names) <= 20 else f"{len(names)} others"
            self._problem(path, f"must be the name of a {kind} ({has or 'there is none'}), got {text(name)}")
        return name in names

    def _shown_resource(self, name: str, path: Path) -> Resource | None:
        if not self._known(name, self.root.resources, "resource", path) or name not in self.resources:
            return None
        return self.resources[name]

    def _print(self, value: Any, path: Path) -> Print | None:
        json = parse(_PrintJson, value, path, self.problems)
        if json is None:
            return None
        resource = self._shown_resource(json.resource, (*path, "resource"))
        if resource is None:
            return None
        if resource.data_type is None:
            self._problem((*path, "resource"), f"must have values of one type to be shown, got {text(json.resource)}")
        return Print(json.resource, json.verbose)

    def _write_file(self, value: Any, path: Path) -> WriteFile | None:
        json = parse(_WriteFileJson, value, path, self.problems)
        if json is None:
            return None
        target = self._target(json.targetPath, (*path, "targetPath"))
        resource = self._shown_resource(json.resource, (*path, "resource"))
        if target is None or resource is None:
            return None
        self._check_nested(target, json.targetPath, path)
        dimensions = None if json.dimensions is None else tuple(json.dimensions)
        if target.suffix.lower() == ".npy":
            if resource.data_type is None:
                rule = "must have values of one type to be written as .npy"
                self._problem((*path, "resource"), f"{rule}, got {text(json.resource)}")
                return None
            count = resource.initial.size_in_bytes // resource.data_type.size_in_bytes
            if dimensions is not None and math.prod(dimensions) != count:
                rule = f"must make {count} values, as many as {text(json.resource)} has"
                self._problem((*path, "dimensions"), f"{rule}, got {text(dimensions)}")
        return WriteFile(json.resource, target, json.targetPath, dimensions, (*path, "targetPath"))

    def _target(self, target: str, path: Path) -> FilePath | None:
        """Where to write, with all links followed."""
        relative = FilePath(target.replace("\\", "/"))  # as Windows writes it
        if relative.suffix.lower() not in FILES:
            images = ", as images are not supported" if relative.suffix.lower() in (".png", ".jpg", ".jpeg") else ""
            self._problem(path, f"must end in .npy, .dat or .bin{images}, got {text(target)}")
            return None
        try:
            file = (self.folder / relative).resolve()
            outside = not file.is_relative_to(self.folder)
            if outside and not self.allow_outside:
                rule = "must lie in the folder of the model (--allow-outside allows others)"
                self._problem(path, f"{rule}, got {text(target)}")
                return None
            existing = next(parent for parent in file.parents if parent.exists())
            if file.is_dir() or not existing.is_dir():
                self._problem(path, f"must be a file that can be written, got {text(target)}")
                return None
        except (OSError, ValueError, RuntimeError) as error:  # too long a name, a NUL in it, links in a circle
            self._problem(path, f"must be a file that can be written, got {text(target)}: {error}")
            return None
        return file

    def _check_nested(self, target: FilePath, given: str, path: Path) -> None:
        """No command writes a file where another one needs a folder."""
        file = next((parent for parent in target.parents if parent in self.files), None)
        if file is not None:
            rule = f"must not lie under the file that {json_path(self.files[file])} writes"
            self._problem((*path, "targetPath"), f"{rule}, got {text(given)}")
        elif target in self.folders:
            rule = f"must not be the folder that {json_path(self.folders[target])} writes to"
            self._problem((*path, "targetPath"), f"{rule}, got {text(given)}")
        self.files.setdefault(target, path)
        for parent in target.parents:
            self.folders.setdefault(parent, path)

    def _dispatch(self, value: Any, path: Path) -> Dispatch | None:
        json = parse(_DispatchJson, value, path, self.problems)
        if json is None:
            return None
        if not self._known(json.dispatchable, self.root.dispatchables, "dispatchable", (*path, "dispatchable")):
            return None
        operator = self.operators.get(json.dispatchable)
        if operator is None:
            return None
        desc, place = operator.desc, (*path, "bindings")
        tensors = {name_in_json(name): found for name, found in desc.tensors().items()}
        for field in json.bindings:
            if field not in tensors:
                self._problem((*place, field), f"is not a tensor of {desc.operator_type}; it has {', '.join(tensors)}")
        bound: list[tuple[Path, Bound]] = []
        for field, found in tensors.items():
            if field in json.bindings:
                bound += self._bound(json.bindings[field], found, (*place, field))
            else:
                self._problem((*place, field), "is required")
        count = len(desc.inputs())
        if len(bound) != count + len(desc.outputs()):
            return None
        self._check_apart(bound[:count], bound[count:])
        return Dispatch(operator, tuple(b for _, b in bound[:count]), tuple(b for _, b in bound[count:]))

    def _bound(self, value: Any, tensors: TensorDesc | Sequence[TensorDesc], path: Path) -> list[tuple[Path, Bound]]:
        """What is bound to a field, with its place; less than the field needs where something is wrong."""
        descs = [tensors] if isinstance(tensors, TensorDesc) else tensors
        ranges = {(*path, k): v for k, v in enumerate(value)} if isinstance(value, list) else {path: value}
        if len(ranges) != len(descs):
            wanted = "1 binding" if len(descs) == 1 else f"an array of {len(descs)} bindings"
            self._problem(path, f"must be {wanted}, got {len(ranges)}")
            return []
        found = [(place, self._range(v, desc, place)) for (place, v), desc in zip(ranges.items(), descs, strict=True)]
        return [(place, bound) for place, bound in found if bound is not None]

    def _range(self, value: Any, desc: TensorDesc, path: Path) -> Bound | None:
        if isinstance(value, str):
            json, name_path = _RangeJson(name=value), path
        elif isinstance(value, dict):
            parsed, name_path = parse(_RangeJson, value, path, self.problems), (*path, "name")
            if parsed is None:
                return None
            json = parsed
        else:
            self._problem(path, f"must be the name of a resource or an object, got {text(value)}")
            return None
        if not self._known(json.name, self.root.resources, "resource", name_path) or json.name not in self.resources:
            return None
        resource = self.resources[json.name]
        item = json.elementSizeInBytes or (resource.data_type.size_in_bytes if resource.data_type else 0)
        if item == 0 and (json.elementOffset or json.elementCount is not None):
            self._problem(
                (*path, "elementSizeInBytes"), f"is required, as {text(json.name)} has values of several types"
            )
            return None
        offset, before = json.elementOffset * item, len(self.problems)
        available = max(resource.size_in_bytes - offset, 0)
        if json.elementCount is not None:
            wanted = json.elementCount * item
            if wanted > available:
                rule = f"must stay within the {resource.size_in_bytes} bytes of {text(json.name)}"
                got = f"{json.elementCount} elements of {item} bytes from {offset} on"
                self._problem((*path, "elementCount"), f"{rule}, got {got}")
            available = min(available, -(-wanted // 4) * 4)  # buffers, and so tensors, end at multiples of 4
        total = desc.total_tensor_size_in_bytes or 0
        if available < total and len(self.problems) == before:
            self._problem(
                path, f"must hold the {total} bytes of the tensor, got {available} bytes of {text(json.name)}"
            )
        alignment = max(desc.guaranteed_base_offset_alignment, desc.data_type.size_in_bytes)
        if offset % alignment != 0:
            rule = f"must begin at a multiple of {alignment} bytes"
            self._problem((*path, "elementOffset"), f"{rule}, got {json.elementOffset} elements of {item} bytes")
        return Bound(json.name, offset, desc) if len(self.problems) == before else None

    def _check_apart(self, inputs: Sequence[tuple[Path, Bound]], outputs: Sequence[tuple[Path, Bound]]) -> None:
        """No output shares bytes with another one, nor with an input: these operators do not run in place."""
        last: tuple[Path, Bound] | None = None  # of those before, the one that ends last
        for path, b in sorted(outputs, key=lambda output: (output[1].resource, output[1].offset)):
            same = last is not None and last[1].resource == b.resource
            if last is not None and same and b.offset < last[1].end:
                self._overlap(path, b, *last)
            if last is None or not same or b.end > last[1].end:
                last = path, b
        for path, output in outputs:
            for input_path, source in inputs:
                if source.resource == output.resource and max(source.offset, output.offset) < min(
                    source.end, output.end
                ):
                    self._overlap(path, output, input_path, source)

    def _overlap(self, path: Path, b: Bound, other_path: Path, a: Bound) -> None:
        self._problem(
            path,
            f"must not overlap {json_path(other_path[3:]).removeprefix('$.')}, which is bytes {a.offset} to {a.end} of "
            f"{text(a.resource)}, got {b.offset} to {b.end}",
        )
