"""What a model file consists of: buffers, and commands on them."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TextIO

import torch
from torch import Tensor

from torch_dml_ops._paths import resolved
from torch_dml_ops.directml._schema.in_sentences import JsonPath, as_json, printable
from torch_dml_ops.directml.enums import TensorDataType, TensorFlags
from torch_dml_ops.directml.errors import ModelError, Problem
from torch_dml_ops.directml.operator import Operator
from torch_dml_ops.directml.tensor_desc import TensorDesc

if TYPE_CHECKING:  # with NumPy, which only what runs a model needs
    import numpy as np

    from torch_dml_ops.directml._models.initial_values import InitialValues


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
        from torch_dml_ops.directml._models.initial_values import numpy_type

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
    def place(self) -> tuple[str, int, tuple[int, ...]]:
        """Where its elements are, in equal places for equal sizes and types."""
        return self.resource, self.offset, self.desc.effective_strides

    @property
    def owned(self) -> bool:
        """Whether it is read before the first command, and constant from then on."""
        return TensorFlags.OWNED_BY_DML in self.desc.flags

    @property
    def end(self) -> int:
        return self.offset + (self.desc.total_tensor_size_in_bytes or 0)


View = Callable[[Bound], Tensor]


@dataclass(frozen=True)
class Dispatch:
    """A command that runs an operator."""

    operator: Operator
    inputs: tuple[Bound, ...]
    outputs: tuple[Bound, ...]

    def run(self, resources: Mapping[str, Resource], buffers: Mapping[str, Tensor], view: View, file: TextIO) -> None:
        inputs, outs = [view(b) for b in self.inputs], [view(b) for b in self.outputs]
        self.operator._run(inputs, outs if self.operator.gives_list else outs[0])


@dataclass(frozen=True)
class Print:
    """A command that shows a buffer."""

    resource: str
    verbose: bool

    def run(self, resources: Mapping[str, Resource], buffers: Mapping[str, Tensor], view: View, file: TextIO) -> None:
        values = resources[self.resource].values(buffers[self.resource])
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

    def run(self, resources: Mapping[str, Resource], buffers: Mapping[str, Tensor], view: View, file: TextIO) -> None:
        import numpy as np

        buffer = buffers[self.resource]
        if (leads_to := resolved(self.target)) != self.target:
            sentence = f"leads elsewhere than when the model was loaded, to {as_json(str(leads_to))}"
            raise ModelError([Problem(self.path, sentence)])
        if self.target.exists() and not self.target.is_file():
            sentence = "must lead to a file, or to nothing yet, as it did when the model was loaded"
            raise ModelError([Problem(self.path, sentence)])
        # A new file takes the place of an old one, so that what failed leaves the old one as it was.
        unfinished = unfinished_name(self.target)
        try:
            self.target.parent.mkdir(parents=True, exist_ok=True)
            with unfinished.open("xb") as to:
                if self.target.exists():
                    os.fchmod(to.fileno(), stat.S_IMODE(self.target.stat().st_mode))
                if self.target.suffix.lower() == ".npy":
                    values = resources[self.resource].values(buffer)
                    values = values if self.dimensions is None else values.reshape(self.dimensions)
                    np.save(SimpleNamespace(write=to.write), values)  # ndarray.tofile loses what finds no room
                else:
                    to.write(buffer.cpu().numpy().data)
            unfinished.replace(self.target)
        except OSError as error:
            raise OSError(error.errno, error.strerror or str(error), str(self.target)) from None
        finally:
            with suppress(OSError):  # where it, or its folder, could not be made
                unfinished.unlink()
        name, target_path = printable(self.resource), printable(self.target_path)
        print(f"Resource '{name}' written to '{target_path}'", file=file)


Command = Dispatch | Print | WriteFile
