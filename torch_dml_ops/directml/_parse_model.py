"""Models from JSON."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from torch_dml_ops.directml import _json_text
from torch_dml_ops.directml._parse_descs import parse_operator, problem_in_json
from torch_dml_ops.directml._parse_values import parse_initial_values
from torch_dml_ops.directml._structure import Structure, parse, parse_name, parser, read
from torch_dml_ops.directml._text import JsonPath, json_path, names, text
from torch_dml_ops.directml.enums import FeatureLevel, element_type_named
from torch_dml_ops.directml.errors import DescriptorError, ModelError, Problem
from torch_dml_ops.directml.model import Bound, Command, Dispatch, Model, Print, Resource, WriteFile, unfinished_name
from torch_dml_ops.directml.operator import Operator
from torch_dml_ops.directml.operator_descs import name_in_json
from torch_dml_ops.directml.tensor_desc import UINT64_MAX, UINT_MAX, TensorDesc

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


@cache
def most_dimensions() -> int:
    """Of an array of NumPy, whose versions differ in it and do not say it."""
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


class _Reader:
    """Reads the parts of a model; what is wrong with them goes to `problems`, and the others are read all the same."""

    def __init__(
        self,
        folder: Path,
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
        self.files: dict[Path, JsonPath] = {}  # that commands write, and the folders above them: with the first command
        self.folders: dict[Path, JsonPath] = {}
        self.operators: dict[str, Operator] = {}
        for name, value in root.dispatchables.items():
            found = self._operator(value, ("dispatchables", name))
            if found is not None:
                self.operators[name] = found

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
        initial = parse_initial_values(self.problems, json.initialValues, data_type, self.folder, place)
        if initial is None:
            return None
        size = initial.size_in_bytes if json.sizeInBytes is None else json.sizeInBytes
        if size < initial.size_in_bytes:
            rule = f"must be at least {initial.size_in_bytes}, the bytes of the initial values"
            self._problem((*path, "sizeInBytes"), f"{rule}, got {size}")
            return None
        return Resource(-(-size // 4) * 4, initial)

    def _operator(self, value: Any, path: JsonPath) -> Operator | None:
        desc = parse_operator(self.problems, value, path)
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
            path: JsonPath = ("commands", k)
            kind = value.get("type") if isinstance(value, dict) else None
            if not isinstance(value, dict):
                self._problem(path, f"must be an object, got {text(value)}")
            elif "type" not in value:
                self._problem((*path, "type"), "is required")
            elif not isinstance(kind, str) or kind.lower() not in readers:  # DxDispatch takes any case too
                self._problem((*path, "type"), f"must be dispatch, print or writeFile, got {text(kind)}")
            elif (command := readers[kind.lower()](value, path)) is not None:
                yield command

    def _known(self, name: str, known: Mapping[str, object], kind: str, path: JsonPath) -> bool:
        """Whether the model has something of this name; there may be problems with it."""
        if name not in known:
            has = names(known) if len(known) <= 20 else f"{len(known)} others"
            self._problem(path, f"must be the name of a {kind} ({has or 'there is none'}), got {text(name)}")
        return name in known

    def _shown_resource(self, name: str, path: JsonPath) -> Resource | None:
        if not self._known(name, self.root.resources, "resource", path) or name not in self.resources:
            return None
        return self.resources[name]

    def _print(self, value: Any, path: JsonPath) -> Print | None:
        json = parse(self.problems, _PrintJson, value, path)
        if json is None:
            return None
        resource = self._shown_resource(json.resource, (*path, "resource"))
        if resource is None:
            return None
        if resource.data_type is None:
            self._problem((*path, "resource"), f"must have values of one type to be shown, got {text(json.resource)}")
        return Print(json.resource, json.verbose)

    def _write_file(self, value: Any, path: JsonPath) -> WriteFile | None:
        json = parse(self.problems, _WriteFileJson, value, path)
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
            if dimensions is not None and len(dimensions) > most_dimensions():
                rule = f"must have at most {most_dimensions()} entries, as NumPy has no more dimensions"
                self._problem((*path, "dimensions"), f"{rule}, got {len(dimensions)}")
            elif dimensions is not None and math.prod(dimensions) != count:
                rule = f"must make {count} values, as many as {text(json.resource)} has"
                self._problem((*path, "dimensions"), f"{rule}, got {text(dimensions)}")
        return WriteFile(json.resource, target, json.targetPath, dimensions, (*path, "targetPath"))

    def _target(self, target: str, path: JsonPath) -> Path | None:
        """Where to write, with all links followed."""
        relative = Path(target.replace("\\", "/"))  # as Windows writes it
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
            special = file.exists() and not file.is_file()  # a pipe or a device, whose place a file must not take
            if special or not existing.is_dir() or not _can_be_named(file, existing):
                self._problem(path, f"must be a file that can be written, got {text(target)}")
                return None
        except (OSError, ValueError, RuntimeError) as error:  # too long a name, a NUL in it, links in a circle
            why = getattr(error, "strerror", None) or error
            self._problem(path, f"must be a file that can be written, got {text(target)}: {why}")
            return None
        return file

    def _check_nested(self, target: Path, given: str, path: JsonPath) -> None:
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

    def _dispatch(self, value: Any, path: JsonPath) -> Dispatch | None:
        json = parse(self.problems, _DispatchJson, value, path)
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
        bound: list[tuple[JsonPath, Bound]] = []
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

    def _bound(
        self, value: Any, tensors: TensorDesc | Sequence[TensorDesc], path: JsonPath
    ) -> list[tuple[JsonPath, Bound]]:
        """What is bound to a field, with its place; less than the field needs where something is wrong."""
        descs = [tensors] if isinstance(tensors, TensorDesc) else tensors
        ranges = {(*path, k): v for k, v in enumerate(value)} if isinstance(value, list) else {path: value}
        if len(ranges) != len(descs):
            wanted = "1 binding" if len(descs) == 1 else f"an array of {len(descs)} bindings"
            self._problem(path, f"must be {wanted}, got {len(ranges)}")
            return []
        found = [(place, self._range(v, desc, place)) for (place, v), desc in zip(ranges.items(), descs, strict=True)]
        return [(place, bound) for place, bound in found if bound is not None]

    def _range(self, value: Any, desc: TensorDesc, path: JsonPath) -> Bound | None:
        if isinstance(value, str):
            json, name_path = _RangeJson(name=value), path
        elif isinstance(value, dict):
            parsed, name_path = parse(self.problems, _RangeJson, value, path), (*path, "name")
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

    def _check_apart(self, inputs: Sequence[tuple[JsonPath, Bound]], outputs: Sequence[tuple[JsonPath, Bound]]) -> None:
        """No output shares bytes with another one, nor with an input: these operators do not run in place."""
        last: tuple[JsonPath, Bound] | None = None  # of those before, the one that ends last
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

    def _overlap(self, path: JsonPath, b: Bound, other_path: JsonPath, a: Bound) -> None:
        self._problem(
            path,
            f"must not overlap {json_path(other_path[3:]).removeprefix('$.')}, which is bytes {a.offset} to {a.end} of "
            f"{text(a.resource)}, got {b.offset} to {b.end}",
        )


def load_model(path: str | os.PathLike[str], feature_level: FeatureLevel, allow_outside: bool) -> Model:
    file = Path(path)
    # A descriptor of this process may be a file, but not one that lies where the descriptor does.
    descriptor = str(file.absolute()).startswith(("/dev/stdin", "/dev/fd/", "/proc/"))
    if descriptor or "\0" in str(file) or (file.exists() and not file.is_file()):
        rule = "must be a file, whose folder is that of the files it names"
        raise ModelError([Problem((), f"{rule}, got {text(str(path))}")])
    try:
        source = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ModelError([Problem((), f"must be text in UTF-8: {error.reason} at byte {error.start}")]) from None
    return read(_parse_model, _json_text.load(source), file.parent.resolve(), feature_level, allow_outside)


@parser
def _parse_model(
    problems: list[Problem], value: Any, folder: Path, feature_level: FeatureLevel, allow_outside: bool
) -> Model | None:
    root = parse(problems, _RootJson, value, ())
    if root is None and isinstance(value, dict):  # with fields too many, there may be more to say
        known = {"$schema", *_RootJson.model_fields}
        root = parse([], _RootJson, {key: value[key] for key in value if key in known}, ())
    if root is None:
        return None
    reader = _Reader(folder, feature_level, allow_outside, root, problems)
    return Model(reader.resources, tuple(reader.commands()))
