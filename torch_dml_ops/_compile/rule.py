"""Which calls Inductor computes by their formulas, so that they fuse with what is before and after: `RULE`.

What a formula loads may be a formula itself, and so may what loads from it; all of that becomes one loop.
"""

from __future__ import annotations

import operator
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import sympy
import torch

from torch_dml_ops import _libraries
from torch_dml_ops._compile import formulas
from torch_dml_ops._compile.formulas import IR, known
from torch_dml_ops._torch.private import INDUCTOR as private

V, ir, free_unbacked_symbols = private.V, private.ir, private.free_unbacked_symbols

FORMULA_DTYPES = frozenset(
    {
        *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
        *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
    }
)
# Generated code converts these when it loads and stores them, which may change a NaN's payload, and bools other than 0
# and 1: only what is computed with may pass through it.
_CONVERTED = frozenset({torch.float16, torch.bfloat16, torch.bool})
# With these the CPU's generated code fills whole vectors; with narrower ones a part of each stays empty.
_WHOLE_VECTORS = frozenset({torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32})

_aten = torch.ops.aten
_TOTALS = frozenset({_aten.sum.default, _aten.mean.default})
# Tagged as pointwise, but a loop of these alone converts nothing: they move bits, or change the sign's.
_MOVES = frozenset({_aten.clone.default, _aten.neg.default, _aten.abs.default})
# They view the bits in memory, where a formula has to be stored first.
_VIEWS_OF_MEMORY = frozenset({_aten.view.dtype, _aten.as_strided.default})

# Bytes of a result. Up to TINY the call of a kernel takes longer than a scalar loop, up to SMALL longer than a loop of
# vectors. Less than CACHED stays in the cache, where a pass takes little time. From LARGE on the kernels ask for huge
# pages for a new result, and Inductor does not for its own, whose page faults then take longer than a pass over memory
# (unless torch asks for them too).
TINY = 4 << 10
SMALL = 128 << 10
CACHED = 8 << 20
LARGE = sys.maxsize if os.environ.get("THP_MEM_ALLOC_ENABLE") == "1" else 32 << 20


def _is_view(node: torch.fx.Node) -> bool:
    """Whether it only views a tensor, without writing to it and without needing it in memory, as formulas are not."""
    if node.target is operator.getitem:
        return True
    if not isinstance(node.target, torch._ops.OpOverload) or node.target in _VIEWS_OF_MEMORY:
        return False
    return any(a.alias_info is not None and not a.alias_info.is_write for a in node.target._schema.arguments)


def _readers(node: torch.fx.Node) -> Iterator[torch.fx.Node]:
    """The nodes that read a result, be it through views of it or as an element of a list."""
    for user in node.users:
        if _is_view(user):
            yield from _readers(user)
        else:
            yield user


def _is_ours(node: torch.fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target.namespace == "torch_dml_ops"


def _is_pointwise(node: torch.fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and torch.Tag.pointwise in node.target.tags


def _is_reduction(node: torch.fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and torch.Tag.reduction in node.target.tags


def _is_total(node: torch.fx.Node) -> bool:
    return node.target in _TOTALS


def _computes(node: torch.fx.Node) -> bool:
    """Whether it is a computation, element by element or a reduction, for which Inductor generates code."""
    return _is_pointwise(node) or _is_reduction(node)


def _converts(node: torch.fx.Node) -> bool:
    """Whether Inductor computes with what it reads and what it gives, so that it converts them itself."""
    return _computes(node) and node.target not in _MOVES


def _loop(node: torch.fx.Node) -> set[torch.fx.Node]:
    """The nodes that read a result, or what is computed of it element by element."""
    seen: set[torch.fx.Node] = set()
    todo = [node]
    while todo:
        readers = set(_readers(todo.pop())) - seen
        seen |= readers
        todo += filter(_is_pointwise, readers)
    return seen


def _ends_in(is_end: Callable[[torch.fx.Node], bool], node: torch.fx.Node) -> bool:
    """Whether all that is made of a result ends in these, so that nothing is stored in its size."""
    loop = _loop(node)
    return bool(loop) and all(_is_pointwise(reader) or is_end(reader) for reader in loop)


def _is_formula(tensor: IR) -> bool:
    """Whether a tensor is still a formula: what it is fused into computes it, and it is never stored."""
    while isinstance(tensor, (ir.TensorBox, ir.BaseView)):
        tensor = tensor.data
    return isinstance(tensor, ir.StorageBox) and isinstance(tensor.data, ir.Pointwise)


def _is_one(n: Any) -> bool:
    return isinstance(n, (int, sympy.Integer)) and n == 1


@dataclass(frozen=True)
class Call:
    """A call of an operator in a graph that is being lowered. An operator's subclass has its formula, and what the rule
    finds otherwise there."""

    formula: ClassVar[Callable[..., Any]]
    name: ClassVar[str]

    arguments: tuple[Any, ...]  # tensors are in Inductor's IR, numbers may be sympy expressions
    node: torch.fx.Node

    @property
    def inputs(self) -> Sequence[IR]:
        first = self.arguments[0]
        return first if isinstance(first, (list, tuple)) else [first]

    @property
    def input_nodes(self) -> Sequence[torch.fx.Node]:
        first: Any = self.node.args[0]
        return first if isinstance(first, (list, tuple)) else [first]

    @property
    def results(self) -> Sequence[torch.Tensor]:
        """Fake tensors."""
        value = self.node.meta["val"]
        return value if isinstance(value, (list, tuple)) else [value]

    @property
    def dtype(self) -> torch.dtype:
        return self.results[0].dtype

    @property
    def device_type(self) -> str:
        return self.results[0].device.type

    @property
    def on_cpu(self) -> bool:
        return self.device_type == "cpu"

    @property
    def has_kernel(self) -> bool:
        return self.device_type in _libraries.devices_with_kernels

    @property
    def bytes(self) -> int:
        """Of the largest result; an estimate where sizes are dynamic."""
        return max(map(_bytes, self.results))

    @property
    def innermost(self) -> int:
        """The dimension whose elements are next to each other in a result."""
        sizes, strides = self.results[0].shape, self.results[0].stride()
        return min(range(len(sizes)), key=lambda d: (_is_one(sizes[d]), not _is_one(strides[d])))

    def has_formula(self) -> bool:
        """Whether generated code may do it: the result has the bits and the strides of the kernel's."""
        if self.dtype not in FORMULA_DTYPES:
            return False
        if any(free_unbacked_symbols(t) for t in self.results):
            return False  # in what order the strides of such a result come, Inductor does not know
        if self.dtype not in _CONVERTED:
            return True
        readers = list(_readers(self.node))
        return (bool(readers) and all(map(_converts, readers))) or all(map(_converts, self.input_nodes))

    def takes_formula(self) -> bool:
        """Whether an input that nobody else reads is a formula: fused, it is not stored."""
        return any(
            _is_formula(tensor) and len(node.users) == 1
            for tensor, node in zip(self.inputs, self.input_nodes, strict=True)
        )

    def becomes_formula(self) -> bool:
        """Whether all that reads the result is a formula: fused, the result is not stored."""
        readers = list(_readers(self.node))
        return bool(readers) and all(_computes(reader) or _is_ours(reader) for reader in readers)

    def is_reduced(self) -> bool:
        return _ends_in(_is_reduction, self.node)

    def is_cached(self) -> bool:
        return sum(_bytes(t) for t in self.results) < CACHED

    def is_total_of_masked(self) -> bool:
        """Whether a sum, each of whose additions waits for the one before, would have to wait for masked loads too."""
        return False

    def is_split_within_rows(self) -> bool:
        """Whether each piece would be a loop of its own over all rows of the input, of which it loads a part."""
        return False

    def is_gathered(self) -> bool:
        """Whether the elements of a vector, which generated code moves whole, are not next to each other."""
        return False

    def is_vectorized(self) -> bool:
        """Whether the CPU's generated code moves whole vectors: the elements of one keep their order and distance."""
        d = self.innermost
        contiguous = all(_is_one(node.meta["val"].stride(d)) for node in self.input_nodes)
        return self.dtype in _WHOLE_VECTORS and contiguous and self.keeps_vectors(d)

    def keeps_vectors(self, d: int) -> bool:
        """The same where the elements of dimension `d` are next to each other, also in the inputs."""
        return True


class Slice1(Call):
    formula = staticmethod(formulas.slice1)

    def is_gathered(self) -> bool:
        return not _is_one(self.arguments[3][self.innermost])

    def keeps_vectors(self, d: int) -> bool:
        stride = self.arguments[3][d]
        if not isinstance(stride, (int, sympy.Integer)) or abs(stride) > 4:
            return False
        # A vector is gathered anew for each reader; narrow elements are loaded one by one.
        return bool(stride == 1) or (self.dtype.itemsize >= 4 and len(set(_readers(self.node))) <= 1)


class SliceGrad(Call):
    formula = staticmethod(formulas.slice_grad)

    def is_total_of_masked(self) -> bool:
        return _ends_in(_is_total, self.node)

    def keeps_vectors(self, d: int) -> bool:
        grad_output, input_sizes, *_, strides = self.arguments  # a mask is computed for each element of a vector
        return _is_one(strides[d]) and known(sympy.Eq(grad_output.get_size()[d], input_sizes[d]))


class Split(Call):
    formula = staticmethod(formulas.split)

    def is_split_within_rows(self) -> bool:
        if self.arguments[2] != self.innermost:
            return False
        loops = [set(filter(_computes, _loop(piece))) for piece in self.node.users]
        return len(set().union(*loops)) == sum(map(len, loops))


class Join(Call):
    formula = staticmethod(formulas.join)

    def has_formula(self) -> bool:
        return not (self.on_cpu and self.dtype.itemsize == 1) and super().has_formula()  # Inductor calls aten.cat

    def becomes_formula(self) -> bool:
        return not self.on_cpu and super().becomes_formula()  # Inductor's cat is stored there

    def is_reduced(self) -> bool:
        return False


class ReverseSubsequences(Call):
    formula = staticmethod(formulas.reverse_subsequences)

    def keeps_vectors(self, d: int) -> bool:
        lengths: Any = self.node.args[1]  # each element of a vector is looked up
        return d != self.arguments[2] and bool(lengths.meta["val"].stride(d) == 0)


def _hint(n: Any) -> int:
    return n if isinstance(n, int) else V.graph.sizevars.optimization_hint(n.node.expr, fallback=1 << 20)


def _bytes(tensor: torch.Tensor) -> int:
    return _hint(tensor.numel()) * tensor.element_size()


class Line(NamedTuple):
    because: str
    fuses: bool
    holds: Callable[[Call], bool]
    case: str  # of benchmarks/fused_cases.py that shows what it gains


# The first line that holds decides.
RULE = (
    Line(
        "a GPU without kernels would need several of torch's",
        True,
        lambda call: not call.has_kernel,
        "relu(op * 2 + 1): join last axis of 2, 128 MB",
    ),
    Line(
        "on a GPU a pass over memory is saved",
        True,
        lambda call: not call.on_cpu and (call.takes_formula() or call.becomes_formula()),
        "relu(op * 2 + 1): stride -1, last axis, 128 MB",
    ),
    Line(
        "on a GPU nothing is saved",
        False,
        lambda call: not call.on_cpu,
        "relu(op * 2 + 1): join last axis of 2, 128 MB",
    ),
    Line(
        "the result is tiny",
        True,
        lambda call: call.bytes <= TINY,
        "op: window, last axis halved, 1 KB, 1 thread",
    ),
    Line(
        "a scalar loop would be slower",
        False,
        lambda call: not call.is_vectorized(),
        "relu(op * 2 + 1): stride -1, last axis, 4 MB, float16, 1 thread",
    ),
    Line(
        "the result is small",
        True,
        lambda call: call.bytes <= SMALL,
        "op: stride -1, last axis, 64 KB, 1 thread",
    ),
    Line(
        "a sum over masked loads would be slower than a pass over the cache",
        False,
        lambda call: call.is_total_of_masked() and call.is_cached(),
        "mean(op * 2): slice_grad, stride -2, middle axis, 1 MB, 1 thread",
    ),
    Line(
        "gathering every vector would be slower than a pass over memory",
        False,
        lambda call: call.is_gathered() and not call.takes_formula() and call.bytes < LARGE,
        "relu(op * 2 + 1): stride -1, last axis, 4 MB, 1 thread",
    ),
    Line(
        "the result is reduced and never stored",
        True,
        lambda call: call.is_reduced(),
        "mean(op * 2): stride 2, last axis, 128 MB, 1 thread",
    ),
    Line(
        "the result is so large that it needs huge pages",
        False,
        lambda call: call.bytes >= LARGE,
        "relu(op * 2 + 1): stride -1, last axis, 128 MB, 1 thread",
    ),
    Line(
        "an input is a formula, which is then never stored",
        True,
        lambda call: call.takes_formula(),
        "op(relu): stride -2, middle axis, 4 MB, 1 thread",
    ),
    Line(
        "each piece would be a pass over an input that the cache does not hold",
        False,
        lambda call: call.is_split_within_rows() and not call.is_cached(),
        "relu(op * 2 + 1): split last axis in 2, 16 MB, 1 thread",
    ),
    Line(
        "the result becomes part of formulas, and is never stored",
        True,
        lambda call: call.becomes_formula(),
        "relu(op * 2 + 1): stride -2, middle axis, 4 MB, 1 thread",
    ),
    Line(
        "no pass over memory would be saved",
        False,
        lambda call: True,
        "relu(op * 2 + 1): join last axis of 2, 4 MB, 1 thread",
    ),
)
