"""DirectML's description of a tensor in a buffer of bytes, and the policies that lay out tensors in them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from functools import cache
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from torch_dml_ops._operators.overlap import Overlap, View, overlaps_itself
from torch_dml_ops._sentences.text import dtype_name, shown
from torch_dml_ops.directml._schema.arguments import instance, integers, place, require_strided, true_or_false
from torch_dml_ops.directml._schema.in_sentences import JsonPath, as_json
from torch_dml_ops.directml._schema.json_documents import Cursor, Wrong, read
from torch_dml_ops.directml._schema.structs import Field, FileObject, Struct, fields_of, read_fields
from torch_dml_ops.directml.enums import (
    TENSOR_DIMENSION_COUNT_MAX1,
    WITH_DTYPE,
    TensorDataType,
    TensorFlags,
    data_type_of,
)
from torch_dml_ops.directml.errors import DescriptorError, Violation

UINT_MAX = 2**32 - 1
UINT64_MAX = 2**64 - 1


def packed_strides(sizes: Sequence[int]) -> tuple[int, ...]:
    """The strides, in elements, of a tensor that has its elements one after another, the last dimension innermost.

    >>> packed_strides([2, 3, 4])
    (12, 4, 1)
    """
    return tuple(accumulate(reversed(sizes[1:]), operator.mul, initial=1))[::-1] if sizes else ()


def _product(numbers: Sequence[int]) -> int:
    """As math.prod has it, which takes quadratic time where there are many of them and large."""
    if len(numbers) <= 64:
        return math.prod(numbers)
    middle = len(numbers) // 2
    return _product(numbers[:middle]) * _product(numbers[middle:])


OVERLAP = "must not lay elements of an output on one another"


@dataclass(frozen=True, repr=False)
class TensorDesc(Struct):
    """A tensor in a buffer: the fields of ``DML_BUFFER_TENSOR_DESC``.

    Making one checks nothing but types; an operator's ``validate`` checks the rules, and so does :meth:`violations`.

    The arguments after ``sizes`` are given by name, because in pydirectml and DirectMLX the flags come next.

    Attributes:
        data_type: the type of the elements.
        sizes: of 1 to 8 dimensions, each from 1 to 2^32 - 1. From the first element to the last one there are at most
            2^32 - 1 places: a tensor that repeats by strides of 0 may have more elements, and one with padding less.
        strides: in elements, one for each dimension; 0 repeats (for inputs), larger than packed leaves padding. None
            means packed.
        flags: ``NONE``, or for inputs ``OWNED_BY_DML``.
        total_tensor_size_in_bytes: at least :attr:`minimum_size_in_bytes`, which None stands for, and a multiple of 4.
        guaranteed_base_offset_alignment: what the tensor's offset in its buffer is a multiple of, in bytes: a power of
            two that is at least an element's size, or 0 for no guarantee.
        dimension_count: the number of ``sizes``, which None stands for.

    Source: `DML_BUFFER_TENSOR_DESC
    <https://learn.microsoft.com/en-us/windows/win32/api/directml/ns-directml-dml_buffer_tensor_desc>`_.

    >>> from torch_dml_ops.directml import TensorDataType, TensorDesc
    >>> TensorDesc(TensorDataType.FLOAT32, [2, 3], strides=[4, 1])
    TensorDesc(FLOAT32, [2, 3], strides=[4, 1])
    """

    data_type: TensorDataType
    sizes: Sequence[int]
    _: KW_ONLY
    strides: Sequence[int] | None = None
    flags: TensorFlags = TensorFlags.NONE
    total_tensor_size_in_bytes: int | None = None
    guaranteed_base_offset_alignment: int = 0
    dimension_count: int | None = None

    def _assumed(self) -> dict[str, Any]:
        return {"total_tensor_size_in_bytes": self.minimum_size_in_bytes, "dimension_count": len(self.sizes)}

    @property
    def packed_strides(self) -> tuple[int, ...]:
        """The strides, in elements, that a tensor of these sizes has without padding.

        >>> TensorDesc(TensorDataType.INT8, [2, 3]).packed_strides
        (3, 1)
        """
        return packed_strides(self.sizes)

    @property
    def effective_strides(self) -> tuple[int, ...]:
        """``strides`` where there are any, else the packed ones."""
        return self.packed_strides if self.strides is None else tuple(self.strides)

    @property
    def minimum_size_in_bytes(self) -> int:
        """The bytes from the first element to the end of the last one, rounded up to a multiple of 4.

        >>> TensorDesc(TensorDataType.FLOAT16, [3]).minimum_size_in_bytes
        8
        """
        return -(-self.items_up_to_last * self.data_type.size_in_bits // 32) * 4

    @property
    def items_up_to_last(self) -> int:
        """The elements' places from the first one to the last one, gaps between them included.

        >>> TensorDesc(TensorDataType.FLOAT16, [2, 3], strides=[4, 1]).items_up_to_last
        7
        """
        if self.strides is None:
            return _product(self.sizes)
        pairs = zip(self.sizes, self.strides, strict=False)  # lengths may differ before they are checked
        return sum((size - 1) * stride for size, stride in pairs) + 1

    @classmethod
    def from_tensor(
        cls,
        tensor: Tensor,
        *,
        flags: TensorFlags = TensorFlags.NONE,
        guaranteed_base_offset_alignment: int = 0,
    ) -> TensorDesc:
        """Describes a tensor of torch; one that is not contiguous gets strides.

        Raises:
            TypeError: something that is no tensor.
            ValueError: a dtype that DirectML does not have, such as bfloat16; a tensor without strides, such as a
                sparse one.

        >>> TensorDesc.from_tensor(torch.zeros(2, 3).t())
        TensorDesc(FLOAT32, [3, 2], strides=[1, 3])
        """
        require_strided("TensorDesc.from_tensor: tensor", tensor)
        return cls(
            data_type_of("TensorDesc.from_tensor: the dtype of tensor", tensor.dtype),
            tensor.shape,
            strides=None if tensor.is_contiguous() else tensor.stride(),
            flags=flags,
            guaranteed_base_offset_alignment=guaranteed_base_offset_alignment,
        )

    def view(self, buffer: Tensor) -> Tensor:
        """The tensor that this describes at the beginning of a buffer, as a view of it: nothing is copied.

        Args:
            buffer: 1-D contiguous uint8 tensor, on any device, of at least ``total_tensor_size_in_bytes`` bytes.

        Returns:
            A tensor of the described dtype, sizes and strides.

        Raises:
            TypeError: a buffer that is no tensor.
            ValueError: a buffer of another dtype or shape, one that is too small, or one that begins where elements of
                this size cannot (a slice of a larger buffer, at an offset that is no multiple of their size); the data
                types ``UINT4`` and ``INT4``, which torch lacks.
            DescriptorError: a description that breaks rules.

        >>> buffer = torch.arange(8, dtype=torch.uint8)
        >>> TensorDesc(TensorDataType.UINT8, [2, 3], strides=[4, 1]).view(buffer)
        tensor([[0, 1, 2],
                [4, 5, 6]], dtype=torch.uint8)
        """
        require_strided("TensorDesc.view: buffer", buffer)
        if buffer.dtype != torch.uint8 or buffer.dim() != 1 or not buffer.is_contiguous():
            raise ValueError(
                f"TensorDesc.view: buffer must be a 1-D contiguous uint8 tensor, got sizes {as_json(buffer.shape)}, "
                f"strides {as_json(buffer.stride())} and dtype {dtype_name(buffer.dtype)}"
            )
        if violations := list(self.violations()):
            raise DescriptorError("TensorDesc", violations)
        total = self.total_tensor_size_in_bytes or 0
        if len(buffer) < total:
            raise ValueError(f"TensorDesc.view: buffer must have at least {total} bytes, got {len(buffer)}")
        if self.data_type not in WITH_DTYPE:
            raise ValueError(f"TensorDesc.view: the data type must be one that torch has, got {self.data_type.name}")
        item = self.data_type.size_in_bytes
        if buffer.storage_offset() % item != 0:
            raise ValueError(
                f"TensorDesc.view: buffer must begin at a multiple of {item} bytes, the size of {self.data_type.name}, "
                f"got an offset of {buffer.storage_offset()}"
            )
        whole_items = buffer[: len(buffer) // item * item].view(self.data_type.dtype)
        return whole_items.as_strided(tuple(self.sizes), self.effective_strides)

    def violations(self, path: JsonPath = (), *, written: bool = False) -> Iterator[Violation]:
        """The rules that the description breaks by itself, whatever the operator.

        Args:
            path: what it is in an operator's descriptor, for the sentences.
            written: whether it is an output, whose elements must not overlap.

        >>> print(*TensorDesc(TensorDataType.INT32, [2, 0]).violations(("input_tensor",)))
        input_tensor.sizes[1] must be from 1 to 4294967295, got 0
        """
        place("TensorDesc.violations: path", path)
        true_or_false("TensorDesc.violations: written", written)
        return self._violations(tuple(path), written)

    def _violations(self, path: JsonPath, written: bool) -> Iterator[Violation]:
        count, item = len(self.sizes), max(self.data_type.size_in_bits // 8, 1)
        if self.data_type is TensorDataType.UNKNOWN:
            yield Violation((*path, "data_type"), "must be a known type", self.data_type)
        if self.dimension_count != count:
            yield Violation(
                (*path, "dimension_count"), (f"must be {count}, the number of ", ("sizes",)), self.dimension_count
            )
        for d, size in enumerate(self.sizes):
            if not 1 <= size <= UINT_MAX:
                yield Violation((*path, "sizes", d), f"must be from 1 to {UINT_MAX}", size)
        most = TENSOR_DIMENSION_COUNT_MAX1
        if not 1 <= count <= most:
            yield Violation((*path, "dimension_count"), f"must be from 1 to {most}", count)
        places = self.items_up_to_last if all(size >= 1 for size in self.sizes) else 0
        if places > UINT_MAX:
            field = "sizes" if self.strides is None else "strides"
            yield Violation((*path, field), f"must reach over at most {UINT_MAX} elements", places)
        if written and self.flags & TensorFlags.OWNED_BY_DML:
            yield Violation((*path, "flags"), "must be NONE, as only inputs can be owned by DirectML", self.flags)
        if self.strides is not None:
            yield from self._stride_violations((*path, "strides"), self.strides, written)
        total, least = self.total_tensor_size_in_bytes or 0, self.minimum_size_in_bytes
        if not least <= total <= UINT64_MAX:
            rule = f"must be from {as_json(least)}, the bytes up to the last element, to {UINT64_MAX}"
            yield Violation((*path, "total_tensor_size_in_bytes"), rule, total)
        if total % 4 != 0:
            yield Violation((*path, "total_tensor_size_in_bytes"), "must be a multiple of 4", total)
        alignment = self.guaranteed_base_offset_alignment
        if alignment != 0 and (not item <= alignment <= UINT_MAX or alignment & (alignment - 1) != 0):
            rule = f"must be 0 or a power of two from {item}, the size of {self.data_type.name}, on"
            yield Violation((*path, "guaranteed_base_offset_alignment"), rule, alignment)

    def _stride_violations(self, path: JsonPath, strides: Sequence[int], written: bool) -> Iterator[Violation]:
        if len(strides) != len(self.sizes):
            rule = (f"must have length {len(self.sizes)}, an entry for each of ", ("sizes",))
            yield Violation(path, rule, str(len(strides)))
            return
        for d, stride in enumerate(strides):
            if not 0 <= stride <= UINT_MAX:
                yield Violation((*path, d), f"must be from 0 to {UINT_MAX}", stride)
        legal = all(0 <= n <= UINT_MAX for n in (*strides, *self.sizes))
        if not written or not legal or len(strides) > TENSOR_DIMENSION_COUNT_MAX1:  # which is said already
            return
        repeated = [d for d, stride in enumerate(strides) if stride == 0 and self.sizes[d] > 1]
        for d in repeated:
            yield Violation((*path, d), "must not be 0, as the tensor is written to", strides[d])
        # Strides that are too complicated to tell count as overlapping.
        if not repeated and overlaps_itself(View(0, 1, tuple(self.sizes), tuple(strides))) != Overlap.NONE:
            yield Violation(path, OVERLAP, strides)

    def to_json(self) -> dict[str, Any]:
        """The tensor in a model file's form, without what would be assumed anyway.

        >>> TensorDesc(TensorDataType.FLOAT32, [2, 3], strides=[4, 1]).to_json()
        {'DataType': 'FLOAT32', 'Sizes': [2, 3], 'Strides': [4, 1]}
        """
        return self._to_json()

    @classmethod
    def from_json(cls, value: object) -> TensorDesc:
        """The tensor that an object of a model file describes, in its short or its long form.

        Raises:
            ModelError: an object of another structure; it names every field that is wrong.

        Warns:
            ModelWarning: of unknown fields.

        >>> TensorDesc.from_json({"DataType": "DML_TENSOR_DATA_TYPE_INT8", "Sizes": [4]})
        TensorDesc(INT8, [4])
        """
        return read(Cursor(value), cls._read)

    @classmethod
    def _read(cls, cursor: Cursor) -> TensorDesc:
        tensor = cursor
        if isinstance(cursor.value, dict):
            kind = cursor.get("Type", "BUFFER")
            if not isinstance(kind.value, str) or kind.value.removeprefix("DML_TENSOR_TYPE_") != "BUFFER":
                kind.note(f"must be DML_TENSOR_TYPE_BUFFER, got {as_json(kind.value)}")
            if "Desc" in cursor.value:
                with suppress(Wrong):
                    _LongForm._read(cursor)
                tensor = cursor["Desc"]
        found = read_fields(tensor, _fields())
        for name in ("strides", "total_tensor_size_in_bytes"):  # where [] and 0 stand for what is assumed
            found[name] = found.get(name) or None
        found.pop("Type", None)
        return cursor.whole(TensorDesc(**found))


@dataclass(frozen=True, kw_only=True)
class _LongForm(FileObject):
    Type: Any = None
    Desc: Any


@cache
def _fields() -> dict[str, Field]:
    """In the order in which sentences list them, and `Type`, which has no meaning of its own."""
    known = fields_of(TensorDesc)
    order = ("DataType", "Sizes", "Flags", "DimensionCount", "Strides")
    return {key: known[key] for key in dict.fromkeys((*order, *known))} | {"Type": fields_of(_LongForm)["Type"]}


# Where DirectMLX lets its caller choose the layout of outputs.


@dataclass(frozen=True)
class TensorProperties(Struct):
    """What a policy chooses for a tensor: ``dml::TensorProperties``.

    Attributes:
        strides: in elements; None means packed.
        total_tensor_size_in_bytes: None means as many as the strides need.
        guaranteed_base_offset_alignment: in bytes, or 0.
    """

    strides: Sequence[int] | None = None
    _: KW_ONLY
    total_tensor_size_in_bytes: int | None = None
    guaranteed_base_offset_alignment: int = 0


class TensorPolicy:
    """How outputs lie in memory: ``dml::TensorPolicy``.

    Args:
        function: gives the :class:`TensorProperties` of a tensor of this data type, these flags and these sizes.

    Raises:
        TypeError: something that cannot be called.

    Source: `DirectMLX.h <https://github.com/microsoft/DirectML/blob/master/Libraries/DirectMLX.h>`_.

    >>> import torch, torch_dml_ops.directml as directml
    >>> x = torch.arange(16).reshape(1, 2, 2, 4)
    >>> window = [0, 0, 0, 1], [1, 2, 2, 3], [1, 1, 1, 2]
    >>> directml.slice_(x, *window).stride()
    (8, 4, 2, 1)
    >>> directml.slice_(x, *window, tensor_policy=directml.TensorPolicy.interleaved_channel()).stride()
    (8, 1, 4, 2)
    >>> rows_of_8 = directml.TensorPolicy(lambda data_type, flags, sizes: directml.TensorProperties([32, 16, 8, 1]))
    >>> directml.slice_(x, *window, tensor_policy=rows_of_8).stride()
    (32, 16, 8, 1)
    """

    def __init__(self, function: Callable[[TensorDataType, TensorFlags, tuple[int, ...]], TensorProperties]) -> None:
        if not callable(function):
            raise TypeError(f"TensorPolicy: function must be a function, got {shown(function)}")
        self._function = function

    @classmethod
    def default(cls) -> TensorPolicy:
        """Packed: ``dml::TensorPolicy::Default()``."""
        return PACKED

    @classmethod
    def interleaved_channel(cls) -> TensorPolicy:
        """Channels last, as NHWC: ``dml::TensorPolicy::InterleavedChannel()``."""
        return _INTERLEAVED_CHANNEL

    def __reduce__(self) -> str | tuple[Any, ...]:
        """The two that have names stay themselves when they are copied or pickled."""
        named = {PACKED: "PACKED", _INTERLEAVED_CHANNEL: "_INTERLEAVED_CHANNEL"}
        return named.get(self, (TensorPolicy, (self._function,)))

    def __repr__(self) -> str:
        named = {PACKED: "default()", _INTERLEAVED_CHANNEL: "interleaved_channel()"}
        return f"TensorPolicy.{named[self]}" if self in named else f"TensorPolicy({self._function!r})"

    def get(self, data_type: TensorDataType, flags: TensorFlags, sizes: Sequence[int]) -> TensorProperties:
        """The properties of a tensor.

        Raises:
            TypeError: arguments of other types; a function of the caller's that gives no ``TensorProperties``.

        >>> from torch_dml_ops.directml import *
        >>> TensorPolicy.interleaved_channel().get(TensorDataType.INT8, TensorFlags.NONE, [1, 3, 4, 5]).strides
        (60, 1, 15, 3)
        """
        instance(TensorDataType, "TensorPolicy.get: data_type", data_type)
        instance(TensorFlags, "TensorPolicy.get: flags", flags, "TensorFlags")
        properties = self._function(data_type, flags, integers("TensorPolicy.get: sizes", sizes))
        return instance(TensorProperties, "TensorPolicy: what its function returns", properties, "TensorProperties")


def output_desc(policy: TensorPolicy, data_type: TensorDataType, sizes: Sequence[int]) -> TensorDesc:
    properties = policy.get(data_type, TensorFlags.NONE, sizes)
    return TensorDesc(
        data_type,
        sizes,
        strides=properties.strides,
        total_tensor_size_in_bytes=properties.total_tensor_size_in_bytes,
        guaranteed_base_offset_alignment=properties.guaranteed_base_offset_alignment,
    )


def _interleaved(_: TensorDataType, __: TensorFlags, sizes: tuple[int, ...]) -> TensorProperties:
    """Dimension 1 innermost, the others in their order."""
    if len(sizes) < 2:
        return TensorProperties(packed_strides(sizes))
    outermost, *spatial, innermost = packed_strides((sizes[0], *sizes[2:], sizes[1]))
    return TensorProperties((outermost, innermost, *spatial))


PACKED = TensorPolicy(lambda *_: TensorProperties())
_INTERLEAVED_CHANNEL = TensorPolicy(_interleaved)

# Now, as torch.compile cannot look them up while it follows a policy.
for _struct in (TensorDesc, TensorProperties):
    fields_of(_struct)
