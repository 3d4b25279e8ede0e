"""Where DirectMLX lets its caller choose the layout of outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass

from torch_dml_ops._arguments import instance, integer, integers
from torch_dml_ops._text import shown
from torch_dml_ops.directml.enums import TensorDataType, TensorFlags
from torch_dml_ops.directml.tensor_desc import TensorDesc, packed_strides


@dataclass(frozen=True)
class TensorProperties:
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

    def __post_init__(self) -> None:
        if self.strides is not None:
            object.__setattr__(self, "strides", integers("TensorProperties: strides", self.strides))
        for name in ("total_tensor_size_in_bytes", "guaranteed_base_offset_alignment"):
            if (value := getattr(self, name)) is not None or name != "total_tensor_size_in_bytes":
                object.__setattr__(self, name, integer(f"TensorProperties: {name}", value))


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
