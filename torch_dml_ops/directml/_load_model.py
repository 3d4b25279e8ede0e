"""Model files, read and checked."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from torch_dml_ops._paths import resolved
from torch_dml_ops._text import JsonPath, as_json, json_path, names
from torch_dml_ops.directml._commands import Bound, Command, Dispatch, Print, Resource, WriteFile, unfinished_name
from torch_dml_ops.directml._initial_values import IMAGES, parse_initial_values
from torch_dml_ops.directml._operator_desc import not_run, parse_operator, place_of_desc, problem_in_json
from torch_dml_ops.directml._struct import (
    FileObject,
    is_wrong,
    load_json,
    name_in_json,
    parse,
    parse_name,
    parser,
    whole_number_within,
)
from torch_dml_ops.directml.enums import MINIMUM_BUFFER_TENSOR_ALIGNMENT, FeatureLevel, TensorFlags, element_type_named
from torch_dml_ops.directml.errors import DescriptorError, Ignored, ModelError, Problem
from torch_dml_ops.directml.operator import Operator
from torch_dml_ops.directml.tensor_desc import UINT64_MAX, UINT_MAX, TensorDesc

Uint = Annotated[int, whole_number_within(0, UINT_MAX)]
Uint64 = Annotated[int, whole_number_within(0, UINT64_MAX)]

# Files that DxDispatch and its models name beside model files.
_OTHER_FILES = {".onnx": "an ONNX model", ".hlsl": "an HLSL shader", ".bin": "a serialized graph"}


@dataclass(frozen=True, kw_only=True)
class _RootJson(FileObject):
    schema_: Any = field(default=None, metadata={"json": "$schema"})
    resources: dict[str, Any]
    dispatchables: dict[str, Any]
    commands: list[Any]


# What is not used, and why, is in docs/model-files.md.


@dataclass(frozen=True, kw_only=True)
class _ResourceJson(FileObject):
    type: Literal["buffer"] = "buffer"
    initialValuesDataType: str | None = None
    initialValues: Any
    initialValuesOffsetInBytes: Uint64 = 0
    sizeInBytes: Uint64 | None = None
    resampleSize: Any = None
    resampleMode: Any = None


@dataclass(frozen=True, kw_only=True)
class _BindingJson(FileObject):
    name: str
    elementOffset: Uint64 = 0
    elementSizeInBytes: Uint64 = 0
    elementCount: Uint64 = 0
    format: Any = None
    shape: Any = None
    counter: Any = None
    counterOffsetBytes: Any = None


@dataclass(frozen=True, kw_only=True)
class _DispatchJson(FileObject):
    type: str
    dispatchable: str
    bindings: dict[str, Any]
    threadGroupCount: Any = None


@dataclass(frozen=True, kw_only=True)
class _PrintJson(FileObject):
    type: str
    resource: str
    verbose: bool = False


@dataclass(frozen=True, kw_only=True)
class _WriteFileJson(FileObject):
    type: str
    resource: str
    targetPath: str
    dimensions: list[Uint] | None = None


@cache
def most_dimensions() -> int:
    """That an array of NumPy can have: its versions differ, and none has a constant for it."""
    count = 1
    try:
        while True:
            np.empty((1,) * (count + 1))
            count += 1
    except ValueError:
        return count


def _can_be_named(file: Path, existing: Path) -> bool:
    """Whether the system, where this folder is, has paths and names as long as those of the file and its folders."""
    longest_name, longest_path = (os.pathconf(existing, limit) for limit in ("PC_NAME_MAX", "PC_PATH_MAX"))
    return all(len(os.fsencode(part)) <= longest_name for part in file.parts) and all(
        len(os.fsencode(path)) < longest_path for path in (file, unfinished_name(file))
    )


_Placed = tuple[JsonPath, Bound]


class _Dispatchable(NamedTuple):
    operator: Operator
    owned: dict[str, list[_Placed]]  # what is bound to it when it is initialized, by field


def _is_owned(tensors: TensorDesc | Sequence[TensorDesc]) -> bool:
    first = tensors if isinstance(tensors, TensorDesc) else tensors[0]
    return TensorFlags.OWNED_BY_DML in first.flags


class _Options(NamedTuple):
    feature_level: FeatureLevel
    allow_outside: bool
    input_path: Path
    output_path: Path


class _Reader:
    """Reads the parts of a model; what is wrong with them goes to `problems`, and the others are read all the same."""

    def __init__(self, root: _RootJson, options: _Options, problems: list[Problem]) -> None:
        self.root, self.options, self.problems = root, options, problems
        self.resources: dict[str, Resource] = {}
        for name, value in root.resources.items():
            resource = self._resource(value, ("resources", name))
            if resource is not None:
                self.resources[name] = resource
        self.files: dict[Path, JsonPath] = {}  # that commands write, and the folders above them: with the first command
        self.folders: dict[Path, JsonPath] = {}
        self.dispatchables: dict[str, _Dispatchable] = {}
        for name, value in root.dispatchables.items():
            found = self._dispatchable(value, ("dispatchables", name))
            if found is not None:
                self.dispatchables[name] = found

    def _problem(self, path: JsonPath, sentence: str) -> None:
        self.problems.append(Problem(path, sentence))

    def _resource(self, value: Any, path: JsonPath) -> Resource | None:
        json = parse(self.problems, _ResourceJson, value, path)
        if json is None:
            return None
        data_type, name = None, json.initialValuesDataType
        if name is not None and name.removeprefix("DML_TENSOR_DATA_TYPE_") != "UNKNOWN":
            place = (*path, "initialValuesDataType")
            data_type = parse_name(self.problems, element_type_named, name, place)
            if data_type is None:
                return None
        place = (*path, "initialValues")
        initial = parse_initial_values(self.problems, json.initialValues, data_type, self.options.input_path, place)
        if initial is None:
            return None
        end, size = json.initialValuesOffsetInBytes + initial.size_in_bytes, json.sizeInBytes
        if size is None:
            size = initial.size_in_bytes
        if size < end:
            rule = f"must be at least {end}, the end of the initial values in bytes"
            self._problem((*path, "sizeInBytes"), f"{rule}, got {size}")
            return None
        if json.initialValuesOffsetInBytes:
            sentence = "is not used: DxDispatch checks it, and then writes the values to the buffer's start"
            self.problems.append(Ignored((*path, "initialValuesOffsetInBytes"), sentence))
        return Resource(-(-size // 4) * 4, initial)

    def _dispatchable(self, value: Any, path: JsonPath) -> _Dispatchable | None:
        desc = parse_operator(self.problems, value, path)
        if desc is None:
            return None
        try:
            operator = Operator(desc, self.options.feature_level)
        except DescriptorError as error:
            self.problems += [problem_in_json(violation, value, path) for violation in error.violations]
            return None
        for name, tensors in desc.tensors().items():
            if not isinstance(tensors, TensorDesc) and len({tensor.flags for tensor in tensors}) > 1:
                rule = "must have OWNED_BY_DML in the Flags of all tensors or of none, as they are bound together"
                self._problem((*place_of_desc(value, path)[0], name_in_json(name)), rule)
                return None
        owned = self._bindings(value.get("bindings", {}), operator, True, (*path, "bindings"))
        return None if owned is None else _Dispatchable(operator, owned)

    # Commands.

    def commands(self) -> Iterator[Command]:
        readers: dict[str, tuple[type[FileObject], Callable[[Any, JsonPath], Command | None]]] = {
            "dispatch": (_DispatchJson, self._dispatch),
            "print": (_PrintJson, self._print),
            "writefile": (_WriteFileJson, self._write_file),
        }
        for k, value in enumerate(self.root.commands):
            path: JsonPath = ("commands", k)
            kind = value.get("type") if isinstance(value, dict) else None
            if not isinstance(value, dict):
                self._problem(path, f"must be an object, got {as_json(value)}")
            elif "type" not in value:
                self._problem((*path, "type"), "is required")
            elif not isinstance(kind, str) or kind.lower() not in readers:  # DxDispatch takes any case too
                self._problem((*path, "type"), f"must be dispatch, print or writeFile, got {as_json(kind)}")
            else:
                form, read = readers[kind.lower()]
                json = parse(self.problems, form, value, path)
                if json is not None and (command := read(json, path)) is not None:
                    yield command

    def _known(self, name: str, known: Mapping[str, object], kind: str, path: JsonPath) -> bool:
        """Whether the model has something of this name; there may be problems with it."""
        if name not in known:
            has = names(known) if len(known) <= 20 else f"{len(known)} others"
            self._problem(path, f"must be the name of a {kind} ({has or 'there is none'}), got {as_json(name)}")
        return name in known

    def _shown_resource(self, name: str, path: JsonPath) -> Resource | None:
        if not self._known(name, self.root.resources, "resource", path) or name not in self.resources:
            return None
        return self.resources[name]

    def _print(self, json: _PrintJson, path: JsonPath) -> Print | None:
        resource = self._shown_resource(json.resource, (*path, "resource"))
        if resource is None:
            return None
        if resource.data_type is None:
            rule = "must have values of one type to be shown"
            self._problem((*path, "resource"), f"{rule}, got {as_json(json.resource)}")
        return Print(json.resource, json.verbose)

    def _write_file(self, json: _WriteFileJson, path: JsonPath) -> WriteFile | None:
        target = self._target(json.targetPath, (*path, "targetPath"))
        resource = self._shown_resource(json.resource, (*path, "resource"))
        if target is None or resource is None:
            return None
        self._check_nested(target, json.targetPath, path)
        dimensions = tuple(json.dimensions or ()) or None
        if target.suffix.lower() == ".npy":
            if resource.data_type is None:
                rule = "must have values of one type to be written as .npy"
                self._problem((*path, "resource"), f"{rule}, got {as_json(json.resource)}")
                return None
            count = resource.initial.size_in_bytes // resource.data_type.size_in_bytes
            if dimensions is not None and len(dimensions) > most_dimensions():
                rule = f"must have at most {most_dimensions()} entries, as NumPy has no more dimensions"
                self._problem((*path, "dimensions"), f"{rule}, got {len(dimensions)}")
            elif dimensions is not None and math.prod(dimensions) != count:
                rule = f"must make {count} values, as many as {as_json(json.resource)} has"
                self._problem((*path, "dimensions"), f"{rule}, got {as_json(dimensions)}")
        return WriteFile(json.resource, target, json.targetPath, dimensions, (*path, "targetPath"))

    def _target(self, target: str, path: JsonPath) -> Path | None:
        """Where to write, with all links followed."""
        relative = Path(target.replace("\\", "/"))  # as Windows writes it
        if relative.suffix.lower() in IMAGES:
            self._problem(path, f"must not be an image, as images are not supported, got {as_json(target)}")
            return None
        folder = self.options.output_path
        try:
            file = resolved(folder / relative)
            outside = not file.is_relative_to(folder)
            if outside and not self.options.allow_outside:
                where = "in the output path (the model's folder if none is given; --allow-outside allows others)"
                self._problem(path, f"must lie {where}, got {as_json(target)}")
                return None
            existing = next(parent for parent in file.parents if parent.exists())
            special = file.exists() and not file.is_file()  # a pipe or a device, whose place a file must not take
            if special or not existing.is_dir() or not _can_be_named(file, existing):
                self._problem(path, f"must be a file that can be written, got {as_json(target)}")
                return None
        except (OSError, ValueError) as error:  # too long a name, a NUL in it, links in a circle
            why = getattr(error, "strerror", None) or error
            self._problem(path, f"must be a file that can be written, got {as_json(target)}: {why}")
            return None
        return file

    def _check_nested(self, target: Path, given: str, path: JsonPath) -> None:
        """No command writes a file where another one needs a folder."""
        file = next((parent for parent in target.parents if parent in self.files), None)
        if file is not None:
            rule = f"must not lie under the file that {json_path(self.files[file])} writes"
            self._problem((*path, "targetPath"), f"{rule}, got {as_json(given)}")
        elif target in self.folders:
            rule = f"must not be the folder that {json_path(self.folders[target])} writes to"
            self._problem((*path, "targetPath"), f"{rule}, got {as_json(given)}")
        self.files.setdefault(target, path)
        for parent in target.parents:
            self.folders.setdefault(parent, path)

    def _dispatch(self, json: _DispatchJson, path: JsonPath) -> Dispatch | None:
        if not self._known(json.dispatchable, self.root.dispatchables, "dispatchable", (*path, "dispatchable")):
            return None
        dispatchable = self.dispatchables.get(json.dispatchable)
        if dispatchable is None:
            return None
        operator, owned = dispatchable
        bound = self._bindings(json.bindings, operator, False, (*path, "bindings"))
        if bound is None:
            return None
        inputs, outputs = (
            [placed for name in fields for placed in (bound | owned)[name_in_json(name)]]
            for fields in (operator.desc.input_fields, operator.desc.output_fields)
        )
        self._check_apart([placed for placed in inputs if not placed[1].owned], outputs)
        return Dispatch(operator, tuple(b for _, b in inputs), tuple(b for _, b in outputs))

    def _bindings(self, given: Any, operator: Operator, owned: bool, path: JsonPath) -> dict[str, list[_Placed]] | None:
        """What is bound, by field: to the tensors that are owned at initialization, to the others at a dispatch."""
        if not isinstance(given, dict):
            self._problem(path, f"must be an object, got {as_json(given)}")
            return None
        tensors = {name_in_json(name): found for name, found in operator.desc.tensors().items()}
        before = len(self.problems)
        for name in given:
            if name not in tensors:
                sentence = f"is not a tensor of {operator.desc.operator_type}; it has {', '.join(tensors)}"
                self.problems.append(Ignored((*path, name), sentence))
            elif _is_owned(tensors[name]) != owned:
                where = "in dispatch commands only, as it is not" if owned else "in the dispatchable only, as it is"
                self._problem((*path, name), f"must be bound {where} OWNED_BY_DML")
        result = {}
        for name, found in tensors.items():
            if _is_owned(found) == owned:
                if name in given:
                    result[name] = self._bound(given[name], found, (*path, name))
                else:
                    reason = ", as the tensor is OWNED_BY_DML" if owned else ""
                    self._problem((*path, name), f"is required{reason}")
        return None if is_wrong(self.problems[before:]) else result

    def _bound(self, value: Any, tensors: TensorDesc | Sequence[TensorDesc], path: JsonPath) -> list[_Placed]:
        """What is bound to a field, with its place; less than the field needs where something is wrong."""
        descs = [tensors] if isinstance(tensors, TensorDesc) else tensors
        given = {(*path, k): v for k, v in enumerate(value)} if isinstance(value, list) else {path: value}
        if len(given) != len(descs):
            wanted = "1 binding" if len(descs) == 1 else f"an array of {len(descs)} bindings"
            self._problem(path, f"must be {wanted}, got {len(given)}")
            return []
        found = [(place, self._range(v, desc, place)) for (place, v), desc in zip(given.items(), descs, strict=True)]
        return [(place, bound) for place, bound in found if bound is not None]

    def _range(self, value: Any, desc: TensorDesc, path: JsonPath) -> Bound | None:
        """From an offset in a buffer to the buffer's end."""
        if isinstance(value, str):
            json, name_path = _BindingJson(name=value), path
        elif isinstance(value, dict):
            parsed, name_path = parse(self.problems, _BindingJson, value, path), (*path, "name")
            if parsed is None:
                return None
            json = parsed
        else:
            self._problem(path, f"must be the name of a resource or an object, got {as_json(value)}")
            return None
        if not self._known(json.name, self.root.resources, "resource", name_path) or json.name not in self.resources:
            return None
        resource = self.resources[json.name]
        item = json.elementSizeInBytes or (resource.data_type.size_in_bytes if resource.data_type else 0)
        if item == 0 and json.elementOffset:
            rule = f"is required, as {as_json(json.name)} has values of several types"
            self._problem((*path, "elementSizeInBytes"), rule)
            return None
        offset, total = json.elementOffset * item, desc.total_tensor_size_in_bytes or 0
        available = max(resource.size_in_bytes - offset, 0)
        alignment = max(desc.guaranteed_base_offset_alignment, MINIMUM_BUFFER_TENSOR_ALIGNMENT)
        if available < total:
            rule = f"must hold the {total} bytes of the tensor"
            self._problem(path, f"{rule}, got {available} bytes of {as_json(json.name)}")
        if offset % alignment != 0:
            rule = f"must begin at a multiple of {alignment} bytes"
            self._problem((*path, "elementOffset"), f"{rule}, got {json.elementOffset} elements of {item} bytes")
        return Bound(json.name, offset, desc) if available >= total and offset % alignment == 0 else None

    def _check_apart(self, inputs: Sequence[_Placed], outputs: Sequence[_Placed]) -> None:
        """No output shares bytes with another one, nor its buffer with an input."""
        last: _Placed | None = None  # of those before, the one that ends last
        for path, b in sorted(outputs, key=lambda output: (output[1].resource, output[1].offset)):
            same = last is not None and last[1].resource == b.resource
            if last is not None and same and b.offset < last[1].end:
                other, a = last
                self._problem(
                    path,
                    f"must not overlap {_below_bindings(other)}, which is bytes {a.offset} to {a.end} of "
                    f"{as_json(a.resource)}, got {b.offset} to {b.end}",
                )
            if last is None or not same or b.end > last[1].end:
                last = path, b
        read = {source.resource: path for path, source in reversed(inputs)}
        for path, output in outputs:
            if output.resource in read:
                rule = f"must be bound to another resource than {_below_bindings(read[output.resource])} is"
                self._problem(path, f"{rule}, got {as_json(output.resource)}")


def _below_bindings(path: JsonPath) -> str:
    return json_path(path[3:]).removeprefix("$.")


@parser
def load_model(
    problems: list[Problem],
    path: str | os.PathLike[str],
    feature_level: FeatureLevel,
    allow_outside: bool,
    input_path: str | os.PathLike[str] | None,
    output_path: str | os.PathLike[str] | None,
) -> tuple[dict[str, Resource], list[Command]] | None:
    """The buffers and the commands of a file."""
    file = Path(path)
    if input_path is not None and not file.exists():  # where DxDispatch looks for it then
        file = Path(input_path, path)
    # A descriptor of this process may be a file, but not one that lies where the descriptor does.
    descriptor = str(file.absolute()).startswith(("/dev/stdin", "/dev/fd/", "/proc/"))
    if descriptor or "\0" in str(file) or (file.exists() and not file.is_file()):
        rule = "must be a file, whose folder is that of the files it names"
        raise ModelError([Problem((), f"{rule}, got {as_json(str(path))}")])
    if file.exists() and file.suffix.lower() in _OTHER_FILES:
        way_out = "; torch_dml_ops.onnx.from_onnx reads such models" if file.suffix.lower() == ".onnx" else ""
        raise ModelError([Problem((), not_run(f"by its name {_OTHER_FILES[file.suffix.lower()]}") + way_out)])
    try:
        source = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ModelError([Problem((), f"must be text in UTF-8: {error.reason} at byte {error.start}")]) from None
    input_path, output_path = (
        Path(os.path.realpath(file.parent if given is None else given)) for given in (input_path, output_path)
    )
    root = parse(problems, _RootJson, load_json(problems, source), ())
    if root is None:
        return None
    reader = _Reader(root, _Options(feature_level, allow_outside, input_path, output_path), problems)
    return reader.resources, list(reader.commands())
