"""Model files, read and checked."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import numpy as np

from torch_dml_ops._paths import resolved
from torch_dml_ops.directml._descriptors.base import not_run, note_violation, place_of_desc, read_operator
from torch_dml_ops.directml._models.commands import (
    Bound,
    Command,
    Dispatch,
    Print,
    Resource,
    WriteFile,
    unfinished_name,
)
from torch_dml_ops.directml._models.initial_values import IMAGES, read_initial_values
from torch_dml_ops.directml._schema.in_sentences import JsonPath, as_json, json_path, names
from torch_dml_ops.directml._schema.json_documents import Cursor, Wrong, load_json
from torch_dml_ops.directml._schema.structs import FileObject, name_in_json, whole_number_within
from torch_dml_ops.directml.enums import MINIMUM_BUFFER_TENSOR_ALIGNMENT, FeatureLevel, TensorFlags, element_type_named
from torch_dml_ops.directml.errors import DescriptorError
from torch_dml_ops.directml.operator import Operator
from torch_dml_ops.directml.tensor_desc import UINT64_MAX, UINT_MAX, TensorDesc

T = TypeVar("T")

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


_Placed = tuple[Cursor, Bound]


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
    """Reads the parts of a model; what is wrong with one is noted, and the others are read all the same."""

    def __init__(self, root: Cursor, options: _Options) -> None:
        self.root, self.options = root, options
        self.files: dict[Path, JsonPath] = {}  # that commands write, and the folders above them: with the first command
        self.folders: dict[Path, JsonPath] = {}
        self.resources = self._all(root["resources"], self._resource)
        self.dispatchables = self._all(root["dispatchables"], self._dispatchable)
        self.commands = root["commands"].each(self._command)

    def _all(self, cursor: Cursor, read: Callable[[Cursor], T]) -> dict[str, T]:
        """Those of an object's fields that nothing is wrong with."""
        found = {}
        for name in cursor.value:
            with suppress(Wrong):
                found[name] = read(cursor[name])
        return found

    def _resource(self, cursor: Cursor) -> Resource:
        json = _ResourceJson._read(cursor)
        data_type, name = None, json.initialValuesDataType
        if name is not None and name.removeprefix("DML_TENSOR_DATA_TYPE_") != "UNKNOWN":
            data_type = cursor["initialValuesDataType"].named(element_type_named)
        initial = read_initial_values(cursor, data_type, self.options.input_path)
        end, size = json.initialValuesOffsetInBytes + initial.size_in_bytes, json.sizeInBytes
        if size is None:
            size = initial.size_in_bytes
        if size < end:
            rule = f"must be at least {end}, the end of the initial values in bytes"
            cursor["sizeInBytes"].fail(f"{rule}, got {size}")
        if json.initialValuesOffsetInBytes:
            sentence = "is not used: DxDispatch checks it, and then writes the values to the buffer's start"
            cursor["initialValuesOffsetInBytes"].ignored(sentence)
        return Resource(-(-size // 4) * 4, initial)

    def _dispatchable(self, cursor: Cursor) -> _Dispatchable:
        desc = read_operator(cursor)
        try:
            operator = Operator(desc, self.options.feature_level)
        except DescriptorError as error:
            for violation in error.violations:
                note_violation(violation, cursor)
            raise Wrong from None
        for name, tensors in desc.tensors().items():
            if not isinstance(tensors, TensorDesc) and len({tensor.flags for tensor in tensors}) > 1:
                rule = "must have OWNED_BY_DML in the Flags of all tensors or of none, as they are bound together"
                place_of_desc(cursor)[name_in_json(name)].fail(rule)
        return _Dispatchable(operator, self._bindings(cursor.get("bindings", {}), operator, True))

    # Commands.

    def _command(self, cursor: Cursor) -> Command:
        readers: dict[str, Callable[[Cursor], Command]] = {
            "dispatch": self._dispatch,
            "print": self._print,
            "writefile": self._write_file,
        }
        cursor.expect(dict)
        kind = cursor["type"].required()
        if not isinstance(kind.value, str) or kind.value.lower() not in readers:  # DxDispatch takes any case too
            kind.fail(f"must be dispatch, print or writeFile, got {as_json(kind.value)}")
        return readers[kind.value.lower()](cursor)

    def _known(self, cursor: Cursor, field: str, read: Mapping[str, T]) -> T:
        """What the model has by this name in one of its fields, of which these could be read."""
        name, known = cursor.value, self.root[field].value
        if name not in known:
            has = names(known) if len(known) <= 20 else f"{len(known)} others"
            cursor.fail(f"must be the name of a {field[:-1]} ({has or 'there is none'}), got {as_json(name)}")
        if name not in read:  # which is noted there
            raise Wrong
        return read[name]

    def _print(self, cursor: Cursor) -> Print:
        json, place = _PrintJson._read(cursor), cursor["resource"]
        if self._known(place, "resources", self.resources).data_type is None:
            place.fail(f"must have values of one type to be shown, got {as_json(json.resource)}")
        return Print(json.resource, json.verbose)

    def _write_file(self, cursor: Cursor) -> WriteFile:
        json, place = _WriteFileJson._read(cursor), cursor["targetPath"]
        try:
            target = self._target(json.targetPath, place)
        finally:  # both are looked at
            resource = self._known(cursor["resource"], "resources", self.resources)
        self._check_nested(target, cursor)
        dimensions = tuple(json.dimensions or ()) or None
        if target.suffix.lower() == ".npy":
            if resource.data_type is None:
                rule = "must have values of one type to be written as .npy"
                cursor["resource"].fail(f"{rule}, got {as_json(json.resource)}")
            count = resource.initial.size_in_bytes // resource.data_type.size_in_bytes
            if dimensions is not None and len(dimensions) > most_dimensions():
                rule = f"must have at most {most_dimensions()} entries, as NumPy has no more dimensions"
                cursor["dimensions"].fail(f"{rule}, got {len(dimensions)}")
            if dimensions is not None and math.prod(dimensions) != count:
                rule = f"must make {count} values, as many as {as_json(json.resource)} has"
                cursor["dimensions"].fail(f"{rule}, got {as_json(dimensions)}")
        return WriteFile(json.resource, target, json.targetPath, dimensions, place.path)

    def _target(self, target: str, cursor: Cursor) -> Path:
        """Where to write, with all links followed."""
        relative = Path(target.replace("\\", "/"))  # as Windows writes it
        if relative.suffix.lower() in IMAGES:
            cursor.fail(f"must not be an image, as images are not supported, got {as_json(target)}")
        folder = self.options.output_path
        try:
            file = resolved(folder / relative)
            outside = not file.is_relative_to(folder)
            if outside and not self.options.allow_outside:
                where = "in the output path (the model's folder if none is given; --allow-outside allows others)"
                cursor.fail(f"must lie {where}, got {as_json(target)}")
            existing = next(parent for parent in file.parents if parent.exists())
            special = file.exists() and not file.is_file()  # a pipe or a device, whose place a file must not take
            if special or not existing.is_dir() or not _can_be_named(file, existing):
                cursor.fail(f"must be a file that can be written, got {as_json(target)}")
        except (OSError, ValueError) as error:  # too long a name, a NUL in it, links in a circle
            why = getattr(error, "strerror", None) or error
            cursor.fail(f"must be a file that can be written, got {as_json(target)}: {why}")
        return file

    def _check_nested(self, target: Path, command: Cursor) -> None:
        """No command writes a file where another one needs a folder."""
        file, cursor = next((parent for parent in target.parents if parent in self.files), None), command["targetPath"]
        if file is not None:
            rule = f"must not lie under the file that {json_path(self.files[file])} writes"
            cursor.note(f"{rule}, got {as_json(cursor.value)}")
        elif target in self.folders:
            rule = f"must not be the folder that {json_path(self.folders[target])} writes to"
            cursor.note(f"{rule}, got {as_json(cursor.value)}")
        self.files.setdefault(target, command.path)
        for parent in target.parents:
            self.folders.setdefault(parent, command.path)

    def _dispatch(self, cursor: Cursor) -> Dispatch:
        _DispatchJson._read(cursor)
        operator, owned = self._known(cursor["dispatchable"], "dispatchables", self.dispatchables)
        bound = self._bindings(cursor["bindings"], operator, False) | owned
        inputs, outputs = (
            [placed for name in fields for placed in bound[name_in_json(name)]]
            for fields in (operator.desc.input_fields, operator.desc.output_fields)
        )
        in_place = operator.desc.in_place and [b.place for _, b in inputs] == [b.place for _, b in outputs]
        self._check_apart([placed for placed in inputs if not placed[1].owned and not in_place], outputs)
        return Dispatch(operator, tuple(b for _, b in inputs), tuple(b for _, b in outputs))

    def _bindings(self, cursor: Cursor, operator: Operator, owned: bool) -> dict[str, list[_Placed]]:
        """What is bound, by field: to the tensors that are owned at initialization, to the others at a dispatch."""
        tensors = {name_in_json(name): found for name, found in operator.desc.tensors().items()}
        for name in cursor.expect(dict):
            if name not in tensors:
                cursor[name].ignored(f"is not a tensor of {operator.desc.operator_type}; it has {', '.join(tensors)}")
            elif _is_owned(tensors[name]) != owned:
                where = "in dispatch commands only, as it is not" if owned else "in the dispatchable only, as it is"
                cursor[name].note(f"must be bound {where} OWNED_BY_DML")
        reason = ", as the tensor is OWNED_BY_DML" if owned else ""
        result = {}
        for name, found in tensors.items():
            if _is_owned(found) == owned:
                with suppress(Wrong):
                    result[name] = self._bound(cursor[name].required(reason), found)
        return cursor.whole(result)

    def _bound(self, cursor: Cursor, tensors: TensorDesc | Sequence[TensorDesc]) -> list[_Placed]:
        """What is bound to a field, with its place; less than the field needs where a resource could not be read."""
        descs = [tensors] if isinstance(tensors, TensorDesc) else tensors
        places = [*cursor.inside()] if isinstance(cursor.value, list) else [cursor]
        if len(places) != len(descs):
            wanted = "1 binding" if len(descs) == 1 else f"an array of {len(descs)} bindings"
            cursor.fail(f"must be {wanted}, got {len(places)}")
        result = []
        for place, desc in zip(places, descs, strict=True):
            with suppress(Wrong):
                result.append((place, self._range(place, desc)))
        return cursor.whole(result)

    def _range(self, cursor: Cursor, desc: TensorDesc) -> Bound:
        """From an offset in a buffer to the buffer's end."""
        if isinstance(cursor.value, str):
            json, name = _BindingJson(name=cursor.value), cursor
        elif isinstance(cursor.value, dict):
            json, name = _BindingJson._read(cursor), cursor["name"]
        else:
            cursor.fail(f"must be the name of a resource or an object, got {as_json(cursor.value)}")
        resource = self._known(name, "resources", self.resources)
        item = json.elementSizeInBytes or (resource.data_type.size_in_bytes if resource.data_type else 0)
        if item == 0 and json.elementOffset:
            rule = f"is required, as {as_json(json.name)} has values of several types"
            cursor["elementSizeInBytes"].fail(rule)
        offset, total = json.elementOffset * item, desc.total_tensor_size_in_bytes or 0
        available = max(resource.size_in_bytes - offset, 0)
        alignment = max(desc.guaranteed_base_offset_alignment, MINIMUM_BUFFER_TENSOR_ALIGNMENT)
        if available < total:
            rule = f"must hold the {total} bytes of the tensor"
            cursor.note(f"{rule}, got {available} bytes of {as_json(json.name)}")
        if offset % alignment != 0:
            rule = f"must begin at a multiple of {alignment} bytes"
            cursor["elementOffset"].note(f"{rule}, got {json.elementOffset} elements of {item} bytes")
        return cursor.whole(Bound(json.name, offset, desc))

    def _check_apart(self, inputs: Sequence[_Placed], outputs: Sequence[_Placed]) -> None:
        """No output shares bytes with another one, nor its buffer with an input."""
        last: _Placed | None = None  # of those before, the one that ends last
        for cursor, b in sorted(outputs, key=lambda output: (output[1].resource, output[1].offset)):
            same = last is not None and last[1].resource == b.resource
            if last is not None and same and b.offset < last[1].end:
                other, a = last
                cursor.note(
                    f"must not overlap {_below_bindings(other)}, which is bytes {a.offset} to {a.end} of "
                    f"{as_json(a.resource)}, got {b.offset} to {b.end}"
                )
            if last is None or not same or b.end > last[1].end:
                last = cursor, b
        read = {source.resource: cursor for cursor, source in reversed(inputs)}
        for cursor, output in outputs:
            if output.resource in read:
                rule = f"must be bound to another resource than {_below_bindings(read[output.resource])} is"
                cursor.note(f"{rule}, got {as_json(output.resource)}")


def _below_bindings(cursor: Cursor) -> str:
    return json_path(cursor.path[3:]).removeprefix("$.")


def load_model(
    document: Cursor,
    path: str | os.PathLike[str],
    feature_level: FeatureLevel,
    allow_outside: bool,
    input_path: str | os.PathLike[str] | None,
    output_path: str | os.PathLike[str] | None,
) -> tuple[dict[str, Resource], list[Command]]:
    """The buffers and the commands of a file, which is read into the document."""
    file = Path(path)
    if input_path is not None and not file.exists():  # where DxDispatch looks for it then
        file = Path(input_path, path)
    # A descriptor of this process may be a file, but not one that lies where the descriptor does.
    descriptor = str(file.absolute()).startswith(("/dev/stdin", "/dev/fd/", "/proc/"))
    if descriptor or "\0" in str(file) or (file.exists() and not file.is_file()):
        document.fail(f"must be a file, whose folder is that of the files it names, got {as_json(str(path))}")
    if file.exists() and file.suffix.lower() in _OTHER_FILES:
        way_out = "; torch_dml_ops.onnx.from_onnx reads such models" if file.suffix.lower() == ".onnx" else ""
        document.fail(not_run(f"by its name {_OTHER_FILES[file.suffix.lower()]}") + way_out)
    try:
        document.value = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        document.fail(f"must be text in UTF-8: {error.reason} at byte {error.start}")
    load_json(document)
    _RootJson._read(document)
    input_path, output_path = (
        Path(os.path.realpath(file.parent if given is None else given)) for given in (input_path, output_path)
    )
    reader = _Reader(document, _Options(feature_level, allow_outside, input_path, output_path))
    return reader.resources, reader.commands
