"""Operators on tensors: by a descriptor, and as DirectMLX writes them."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

import torch_dml_ops as dml
from torch_dml_ops._operators.overlap import view_of
from torch_dml_ops._sentences.text import cut, dtype_name, shown
from torch_dml_ops.directml._descriptors.base import OPERATOR_DESCS, OperatorDesc
from torch_dml_ops.directml._schema.arguments import listed, require_strided
from torch_dml_ops.directml._schema.in_sentences import JsonPath, as_json, counted, dotted
from torch_dml_ops.directml.enums import FeatureLevel, TensorFlags
from torch_dml_ops.directml.operator_descs import ElementWiseIdentityOperatorDesc
from torch_dml_ops.directml.tensor_desc import TensorDesc


class Expected(NamedTuple):
    """A tensor of the descriptor, in torch's terms."""

    name: str
    dtype: torch.dtype
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    packed: bool
    items: int  # up to the last element, gaps included
    owned: bool  # and so given to initialize, not to a call

    @classmethod
    def of(cls, path: JsonPath, desc: TensorDesc) -> Expected:
        strides, items = desc.effective_strides, desc.items_up_to_last
        packed, owned = desc.strides is None, TensorFlags.OWNED_BY_DML in desc.flags
        return cls(dotted(path), desc.data_type.dtype, tuple(desc.sizes), strides, packed, items, owned)

    def check(self, op: str, tensor: Tensor) -> None:
        require_strided(f"{op}: {self.name}", tensor)
        if tensor.dtype != self.dtype:
            wanted = dtype_name(self.dtype)
            raise ValueError(f"{op}: {self.name} must have dtype {wanted}, got {dtype_name(tensor.dtype)}")
        if tuple(tensor.shape) != self.sizes:
            raise ValueError(f"{op}: {self.name} must have sizes {as_json(self.sizes)}, got {as_json(tensor.shape)}")

    def check_out(self, op: str, tensor: Tensor) -> None:
        self.check(op, tensor)
        for size, stride, wanted in zip(self.sizes, tensor.stride(), self.strides, strict=True):
            if size != 1 and stride != wanted:
                raise ValueError(
                    f"{op}: {self.name} must have strides {as_json(self.strides)}, got {as_json(tensor.stride())}"
                )

    @property
    def size_in_bytes(self) -> int:
        return self.items * self.dtype.itemsize

    def lay_out(self, op: str, result: Tensor) -> Tensor:
        """The result in the described strides; what lies between its elements is zero."""
        try:
            return laid_out(result, None if self.packed else self.strides, self.items)
        except RuntimeError:  # nothing else can be wrong with it
            raise _beyond_memory(op, self.name, self.size_in_bytes) from None


def laid_out(result: Tensor, strides: Sequence[int] | None, items: int) -> Tensor:
    """The result in these strides, None for packed; what lies between its elements is zero."""
    if strides is None:
        return result.contiguous()
    return result.new_zeros(items).as_strided(tuple(result.shape), tuple(strides)).copy_(result)


class Inputs(NamedTuple):
    """The tensors that an operator or a graph reads, and those of them that `initialize` has bound."""

    expected: tuple[Expected, ...]
    owned: tuple[str, ...]  # the names of those that are to be bound
    bound: tuple[Tensor | None, ...] | None = None  # in the places of the inputs

    @classmethod
    def of(cls, descs: Iterable[tuple[JsonPath, TensorDesc]]) -> Inputs:
        expected = tuple(Expected.of(*desc) for desc in descs)
        return cls(expected, tuple(entry.name for entry in expected if entry.owned))

    def bind(self, given: Iterable[Tensor | None]) -> Inputs:
        """With copies of the tensors in the places of those that are owned."""
        # No inference tensors even where inference mode is on, as autograd can keep none of those.
        with torch.inference_mode(False):
            return self._replace(bound=tuple(None if t is None else t.detach().clone() for t in given))

    def of_call(self, op: str, given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """All of them in their order: those that a call is given, and those that are bound."""
        if self.owned and self.bound is None:
            raise ValueError(f"{op}: {self.owned[0]} is OWNED_BY_DML and must be given first; call initialize")
        count = len(self.expected) - len(self.owned)
        if len(given) != count:
            but = f" besides {cut(', '.join(self.owned))}, which initialize has bound" if self.owned else ""
            raise ValueError(f"{op}: there must be {counted(count, 'input tensor')}{but}, got {len(given)}")
        if self.bound is None:
            return given
        others = iter(given)
        return tuple([next(others) if tensor is None else tensor for tensor in self.bound])

    def check(self, op: str, tensors: Sequence[Tensor]) -> None:
        for expected, tensor in zip(self.expected, tensors, strict=True):
            expected.check(op, tensor)


def _beyond_memory(op: str, name: str, size: int) -> RuntimeError:
    return RuntimeError(f"{op}: {name} must fit into memory, and {size} bytes do not")


class Operator:
    """An operator that a descriptor describes, to be called on tensors.

    ``operator(*inputs)`` gives new tensors, ``operator(*inputs, out=…)`` writes into given ones. Operators with equal
    descriptors are equal. Calls go through ``torch.ops.torch_dml_ops``, except ELEMENT_WISE_IDENTITY without ``out``,
    which is torch's own copy. Without ``out`` they are differentiable, and ``torch.compile(fullgraph=True)`` takes
    them.

    Args:
        desc: a descriptor of an operator.
        feature_level: the level that the descriptor is to be valid at, by default the newest.

    Raises:
        DescriptorError: a descriptor that breaks rules, with all of them.

    Source: `IDMLDevice::CreateOperator
    <https://learn.microsoft.com/en-us/windows/win32/api/directml/nf-directml-idmldevice-createoperator>`_.

    >>> import torch
    >>> from torch_dml_ops.directml import *
    >>> x = torch.arange(6)
    >>> tensor = TensorDesc.from_tensor(x)
    >>> pieces = SplitOperatorDesc.infer_output(tensor, axis=0, output_axis_sizes=[2, 4])
    >>> split = Operator(SplitOperatorDesc(input_tensor=tensor, output_tensors=pieces, axis=0))
    >>> split(x)
    [tensor([0, 1]), tensor([2, 3, 4, 5])]
    """

    def __init__(self, desc: OperatorDesc, feature_level: FeatureLevel = FeatureLevel.NEWEST) -> None:
        if type(desc) not in OPERATOR_DESCS.values():
            raise TypeError(f"Operator: desc must be a descriptor of an operator, got {shown(desc)}")
        desc.validate(feature_level)
        self.desc = desc
        self._call = desc._call()
        self._inputs = Inputs.of(desc.inputs())
        self._outputs = tuple(Expected.of(*tensor) for tensor in desc.outputs())
        self.takes_list, self.gives_list = map(desc._are_list, (desc.input_fields, desc.output_fields))

    def __repr__(self) -> str:
        return f"Operator({self.desc})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Operator) and self.desc == other.desc and self._inputs.bound is other._inputs.bound

    def __hash__(self) -> int:
        return hash(self.desc)

    def initialize(self, **owned: Tensor | Sequence[Tensor | None]) -> Operator:
        """The operator with its inputs of flag ``OWNED_BY_DML`` bound: DirectML's initialization.

        They are read now and copied, so that what happens to them afterwards changes nothing, and no gradient reaches
        them; calls of the result take the other inputs only. The operator itself stays as it is.

        Args:
            owned: a tensor of the described dtype and sizes by each field that is owned by DirectML. For JOIN
                ``input_tensors``, a list of as many entries as it has inputs, with None for those that are not owned.

        Returns:
            An operator of the same descriptor. It is equal to no other one.

        Raises:
            ValueError: tensors other than described; a field that is not owned, or one that is and is missing.
            TypeError: something that is no tensor, or for JOIN no list of them.

        Source: `DML_TENSOR_FLAGS
        <https://learn.microsoft.com/en-us/windows/win32/api/directml/ne-directml-dml_tensor_flags>`_.

        >>> import torch
        >>> from torch_dml_ops.directml import *
        >>> constant = TensorDesc(TensorDataType.INT64, [2], flags=TensorFlags.OWNED_BY_DML)
        >>> pieces = [constant, TensorDesc(TensorDataType.INT64, [3])]
        >>> whole = JoinOperatorDesc.infer_output(pieces, 0)
        >>> join = Operator(JoinOperatorDesc(input_tensors=pieces, output_tensor=whole, axis=0))
        >>> join = join.initialize(input_tensors=[torch.tensor([8, 9]), None])
        >>> join(torch.arange(3))
        tensor([8, 9, 0, 1, 2])
        """
        op = f"{self.desc.operator_type}: initialize"
        inputs = [(path, e) for (path, _), e in zip(self.desc.inputs(), self._inputs.expected, strict=True)]
        fields = list(dict.fromkeys(str(path[0]) for path, expected in inputs if expected.owned))
        for name in owned:
            if name not in fields:
                rule = f"must not get {cut(name)}, as no input of this name is OWNED_BY_DML"
                raise ValueError(f"{op} {rule}; those that are: {', '.join(fields) or 'none'}")
        if self.takes_list and owned:
            ((field, tensors),) = owned.items()
            given: list[Any] = listed(f"{op}: {field}", tensors, "tensors")
            if len(given) != len(inputs):
                raise ValueError(f"{op}: {field} must have length {len(inputs)}, got {len(given)}")
        else:
            given = [owned.get(str(path[0])) for path, _ in inputs]
        for (_, expected), tensor in zip(inputs, given, strict=True):
            if tensor is None and expected.owned:
                raise ValueError(f"{op}: {expected.name} must be given, as it is OWNED_BY_DML")
            if tensor is not None:
                if not expected.owned:
                    raise ValueError(f"{op}: {expected.name} must be None, as it is not OWNED_BY_DML")
                expected.check(op, tensor)
        result = copy.copy(self)
        result._inputs = self._inputs.bind(given)
        return result

    def __call__(self, *inputs: Tensor, out: Tensor | Sequence[Tensor] | None = None) -> Any:
        """Runs the operator.

        Args:
            inputs: the descriptor's input tensors but those of :meth:`initialize`, in its order, of the described
                dtypes and sizes and of any strides. JOIN takes its tensors one by one.
            out: a tensor of the described dtype, sizes and strides, or for SPLIT a list of them, on the inputs' device.
                Memory between and beside its elements stays as it is.

        Returns:
            ``out``, or a new tensor with the described strides and zeros between its elements where those leave gaps;
            for SPLIT a list of tensors. New memory ends with the last element, however much more
            ``total_tensor_size_in_bytes`` says.

        Raises:
            ValueError: tensors other than described; inputs that are ``OWNED_BY_DML`` and not initialized.
            TypeError: something that is no tensor.
            RuntimeError: what the operator itself refuses, such as an ``out`` that overlaps an input; a new tensor that
                does not fit into memory.
        """
        return self._run(self._inputs.of_call(self.desc.operator_type, inputs), out)

    def _run(self, inputs: Sequence[Tensor], out: Tensor | Sequence[Tensor] | None) -> Any:
        """On all inputs: also on those that are owned, which a model binds by itself."""
        op = self.desc.operator_type
        self._inputs.check(op, inputs)
        tensors = (inputs,) if self.takes_list else inputs
        if out is None:
            results = [
                expected.lay_out(op, result)
                for expected, result in zip(self._outputs, self._results(tensors), strict=True)
            ]
            return results if self.gives_list else results[0]
        if not isinstance(out, (Tensor, list, tuple)):
            raise TypeError(f"{op}: out must be a tensor or a list of them, got {cut(type(out).__name__)}")
        outs = [out] if isinstance(out, Tensor) else list(out)
        if self.gives_list == isinstance(out, Tensor) or len(outs) != len(self._outputs):
            wanted = f"a list of {len(self._outputs)} tensors" if self.gives_list else "a tensor"
            raise ValueError(f"{op}: out must be {wanted}, got {_kind_of(out)}")
        for expected, tensor in zip(self._outputs, outs, strict=True):
            expected.check_out(op, tensor)
        if self.desc.in_place and _same_elements(inputs[0], outs[0]):
            tensors = (inputs[0].clone(),)
        destination = outs if self.gives_list else outs[0]
        if torch.compiler.is_compiling():
            from torch_dml_ops.directml._running.opaque import write  # with torch._dynamo, which takes long to import

            write(self._call.function, tensors, self._call.arguments, destination)
        else:
            getattr(dml, self._call.function)(*tensors, *self._call.arguments, out=destination)
        return out

    def _results(self, tensors: Sequence[Any]) -> list[Tensor]:
        """The dense results of the function; of an identity that has strides, the input, which is laid out next."""
        try:
            if isinstance(self.desc, ElementWiseIdentityOperatorDesc):  # one pass; slice1 would keep another order
                (tensor,) = tensors
                return [tensor.clone(memory_format=torch.contiguous_format) if self._outputs[0].packed else tensor]
            results = getattr(dml, self._call.function)(*tensors, *self._call.arguments)
        except RuntimeError as error:
            if not isinstance(error, torch.OutOfMemoryError) and "DefaultCPUAllocator" not in str(error):
                raise
            (name,) = self.desc.output_fields
            size = sum(math.prod(expected.sizes) * expected.dtype.itemsize for expected in self._outputs)
            raise _beyond_memory(self.desc.operator_type, name, size) from None
        return list(results) if self.gives_list else [results]


def _same_elements(a: Tensor, b: Tensor) -> bool:
    """Whether both are the same memory, read alike; of compiled code, whether they are the same tensor."""
    if a is b or torch.compiler.is_compiling():
        return a is b
    view = view_of(a)  # also of tensors without data
    return view is not None and view == view_of(b) and a.is_conj() == b.is_conj() and a.is_neg() == b.is_neg()


def _kind_of(out: Tensor | Sequence[Tensor]) -> str:
    return "a tensor" if isinstance(out, Tensor) else f"a list of {len(out)}"
