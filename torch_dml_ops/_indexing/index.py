"""NumPy's basic indexing, steps of either sign included: reading an index, and assigning to one."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal
from numbers import Number, Real
from types import EllipsisType, NoneType
from typing import Any, ClassVar, NoReturn, SupportsIndex

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling
from torch.overrides import handle_torch_function

from torch_dml_ops._indexing.slices import (
    Walk,
    as_written,
    has_negative_step,
    is_undecided_slice,
    numbers_in,
    of_numbers,
    walk_of,
)
from torch_dml_ops._sentences.arguments import (
    index_of,
    is_array,
    is_boolean,
    is_proxy,
    proxy_among,
    refused_layout,
    require_tensor,
    whole_numbers,
)
from torch_dml_ops._sentences.text import dtype_name, shown, text
from torch_dml_ops._torch.private import RESHAPE
from torch_dml_ops._torch.short_way import fast
from torch_dml_ops._torch.symbols import is_exporting, is_undecided, known_true
from torch_dml_ops.ops import slice1

Entry = slice | SupportsIndex | EllipsisType | None
BasicIndex = Entry | tuple[Entry, ...]

# What an index says of a dimension: how to walk along it, or at which index to drop it, where a Tensor is a number that
# vmap has a batch of, which torch alone can use. None makes a new dimension.
Part = Walk | int | Tensor | None

_TO_ASSIGN = "write torch.no_grad() around the assignment, or assign to a clone()"
_LARGE = 2**31  # a step that torch would multiply by the stride, beyond 64 bits, even where it is never taken


class Indexer:
    """What :func:`index` gives: ``index(input)[…]`` reads, and ``index(input)[…] = value`` assigns."""

    __slots__ = ("_input",)
    __iter__: ClassVar[None] = None  # else Python would iterate by __getitem__, over a 0-d tensor without an error

    def __init__(self, input: Tensor) -> None:
        self._input = input

    def __getitem__(self, index: BasicIndex) -> Tensor:
        """A copy of what the index selects."""
        if not is_dynamo_compiling():
            done: Tensor | None = fast.index(self._input, index)
            if done is not None:
                return done
        return read("index", self._input, index)

    def __setitem__(self, index: BasicIndex, value: Any) -> None:
        """Assigns as torch does, broadcasting and converting the value, but where both overlap as NumPy does."""
        assign("index", self._input, index, value)

    def __getattr__(self, name: str) -> NoReturn:
        way_out = f"; index(input)[…] is a tensor, which has {name}" if hasattr(Tensor, name) else ""
        raise AttributeError(f"index(input) has no attribute {name}{way_out}")

    def __repr__(self) -> str:
        return f"index({self._input!r})"


def index(input: Tensor) -> Indexer:
    """NumPy's basic indexing, whole: ``index(x)[i]`` equals ``x.numpy()[i]``, negative steps included.

    An index is an entry or a tuple of them: a slice with any bounds and any step but 0; a whole number, which drops its
    dimension; None, which makes a new one of size 1; at most one Ellipsis, which stands for whole dimensions, as those
    left out at the end do. A slice may select nothing. Whole numbers are what ``operator.index`` takes, NumPy's and 0-d
    tensors included, but not booleans.

    Args:
        input: tensor of any dtype and any number of dimensions, 0 included.

    Returns:
        An object to be indexed. Indexing gives a copy, never a view, whatever the index. Assigning,
        ``index(x)[i] = value``, writes into ``input`` as ``x.numpy()[i] = value`` would: the value is a number or a
        tensor, is broadcast and converted as torch does it, and may share memory with ``input``.

    Raises:
        TypeError: an ``input`` that is no tensor; on indexing, a slice of other than whole numbers; on assigning, a
            value that is neither a number nor a tensor.
        IndexError: on indexing, an entry of another type, lists, booleans and tensors with dimensions (advanced
            indexing) among them; a whole number out of range; more entries than dimensions; more than one Ellipsis.
        ValueError: on indexing, a step of 0.
        RuntimeError: an ``input`` without strides, as a sparse or nested one; on assigning, an ``input`` that is a leaf
            and requires grad, or that overlaps itself, a value that does not broadcast, or that the dtype cannot hold.

    It is differentiable to any order, as is assigning.

    >>> import torch, torch_dml_ops as dml
    >>> x = torch.arange(12).reshape(3, 4)
    >>> dml.index(x)[::-2, 1:]
    tensor([[ 9, 10, 11],
            [ 1,  2,  3]])
    >>> dml.index(x)[-1, ::-1]
    tensor([11, 10,  9,  8])
    >>> dml.index(x)[0, ::-1] = torch.tensor([1, 2, 3, 4])
    >>> x[0]
    tensor([4, 3, 2, 1])
    """
    if not isinstance(input, Tensor):
        require_tensor("index: input", input)
    return Indexer(input)


def read(op: str, input: Tensor, index: Any, _proxy: Any = None) -> Tensor:
    """A copy of what the index selects. Sentences begin with `op`.

    Where torch.fx traces the call, a proxy is handed on by itself too: torch.fx finds none within a slice.
    """
    if (proxy := proxy_among(input, *numbers_in(index))) is not None:
        result: Tensor = handle_torch_function(read, (proxy,), op, input, index, proxy)
        return result
    input, parts = _parts(op, index, input)
    if any(isinstance(part, Tensor) for part in parts):
        input = input[tuple(part if isinstance(part, Tensor) else slice(None) for part in parts if part is not None)]
        parts = [part for part in parts if not isinstance(part, Tensor)]
    along = iter(input.shape)
    if is_exporting() or any(_part_is_undecided(part, next(along)) for part in parts if part is not None):
        input, parts = _narrowed(input, parts)
    if any(isinstance(part, Walk) and known_true(part.length == 0) for part in parts):
        input, parts = _selected(input, parts)
        return input[tuple(map(_for_torch, parts))].clone()
    if not parts or all(part is None for part in parts):  # a 0-d input
        return reshaped(slice1(input[None], [0], [1], [1]), [1] * len(parts))
    walks = [
        part if isinstance(part, Walk) else Walk(part, part + 1, 1, 1)
        for part in parts
        if not (part is None or isinstance(part, Tensor))
    ]
    offsets, windows = zip(*(walk.window() for walk in walks), strict=True)
    copy = slice1(input, offsets, windows, [walk.step for walk in walks])
    if all(isinstance(part, Walk) for part in parts):
        return copy
    # torch selects from sharded dimensions, but does not view them away; and of a size, a model in ONNX may know less.
    if is_exporting() or any(d is not None for d in _sharded(copy)):
        view = copy[tuple(slice(None) if isinstance(p, Walk) else None if p is None else 0 for p in parts)]
        if torch.onnx.is_in_onnx_export():
            return view  # of which torch may export no copy, where it is empty in the example
        return view.clone()
    along = iter(copy.shape)
    sizes = [(part, 1 if part is None else next(along)) for part in parts]
    return reshaped(copy, [size for part, size in sizes if part is None or isinstance(part, Walk)])


def _part_is_undecided(part: Any, size: int) -> bool:
    """Whether it depends on data that a walk finds something, or which index of a dimension a whole number is."""
    if isinstance(part, Walk):
        return is_undecided(part.length == 0)
    return any(map(is_undecided, (part < 0, part < size, -size <= part)))


def _narrowed(input: Tensor, parts: Sequence[Part]) -> tuple[Tensor, list[Part]]:
    """Leaves to torch what slice1 would refuse for some sizes of a program, and in ONNX not even refuse.

    Those are walks that may find nothing, and whole numbers that may be out of range.
    """
    left: list[Part] = []
    d = 0
    for part in parts:
        available = input.shape[d] if d < input.dim() else 0  # for a new dimension at the end
        if isinstance(part, Walk):
            offset, size = part.window()
            least = torch.sym_min(available, 1) if isinstance(available, torch.SymInt) else min(available, 1)
            if not known_true(size >= least):
                input = torch.ops.aten.slice.Tensor(input, d, offset, offset + size)
                part = walk_of("index", slice(None, None, part.step), input.shape[d], d)
        elif part is not None and (isinstance(part + available, torch.SymInt) or _part_is_undecided(part, available)):
            input = torch.ops.aten.select.int(input, d, part)
            continue
        left.append(part)
        d += part is not None
    return input, left


def _selected(input: Tensor, parts: list[Part]) -> tuple[Tensor, list[Part]]:
    """Selects at whole numbers while torch compiles: beside slices, it refuses symbols or makes constants of them."""
    if torch.compiler.is_compiling() and not any(isinstance(part, Tensor) for part in parts):
        for k in reversed(range(len(parts))):
            if not (parts[k] is None or isinstance(parts[k], Walk)):
                d = sum(part is not None for part in parts[:k])
                input, parts = torch.ops.aten.select.int(input, d, parts[k]), [*parts[:k], *parts[k + 1 :]]
    return input, parts


_view: Any = Tensor.view if RESHAPE.missing else RESHAPE.default


def reshaped(copy: Tensor, sizes: Sequence[int]) -> Tensor:
    """The copy in other sizes. Not a view of it: torch refuses to write to one once grad mode has been switched on."""
    result: Tensor = _view(copy, sizes)
    return result


@torch.fx.node.has_side_effect  # graphs keep it, although nothing reads its result
def assign(op: str, input: Tensor, index: Any, value: Any, _proxy: Any = None) -> None:
    """Assigns to what the index selects. Sentences begin with `op`. `_proxy` is as for `read`."""
    if is_proxy(input):
        input[index] = value
        return
    if (proxy := proxy_among(value, *numbers_in(index))) is not None:
        handle_torch_function(assign, (proxy,), op, input, index, value, proxy)
        return
    target, parts = _parts(op, index, input, assigns=True)
    kept = [part for part in parts if part is None or isinstance(part, Walk)]
    _check_not_sharded(op, input, parts)
    _check_not_leaf(op, input)
    if is_array(value) and value.ndim == 0:  # NumPy's numbers, of which torch takes some
        value = value.item()
    if isinstance(value, Number):
        value = value if isinstance(value, (int, float, complex)) else _as_pythons(value)
    elif not isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        require_tensor(f"{op}: the value", value, "a number or a tensor")
    if isinstance(value, Tensor):
        _check_layout(op, "the value", value)
        value = _turned(value, [part is not None and part.step < 0 for part in kept])
    try:
        target, parts = _selected(target, parts)
        selected = tuple(map(_for_torch, parts))
        if is_exporting() and isinstance(value, Tensor) and value.dim() <= len(kept):
            # Else torch drops first dimensions of which the example has one element; and ONNX has no copy that expands.
            into = target[selected]
            into.copy_(value.expand(into.shape))
        else:
            target[selected] = value
    except (RuntimeError, ValueError, OverflowError) as error:
        if (fitting := _beyond_int64(value, input.dtype)) is not None:
            return assign(op, input, index, fitting)
        sizes = [1 if part is None else part.length for part in kept]
        if (rule := _why_not_assigned(input, sizes, value, error)) is None:
            raise
        raise RuntimeError(f"{op}: {rule}") from None


def _as_pythons(value: Any) -> float | complex:
    """A number that torch does not take: a Decimal, a Fraction or a long double."""
    return float(value) if isinstance(value, (Real, Decimal)) else complex(value)


def _beyond_int64(value: Any, dtype: torch.dtype) -> Tensor | float | bool | None:
    """A whole number that torch does not take as such, although the dtype may have it: as what torch takes."""
    if not isinstance(value, int) or -(2**63) <= value < 2**63:
        return None
    if dtype == torch.uint64 and 0 <= value < 2**64:
        return torch.tensor(value, dtype=dtype, device="cpu")  # whatever the default device is
    if dtype.is_floating_point or dtype.is_complex:
        with suppress(OverflowError):
            return float(value)
    return True if dtype == torch.bool else None


def _why_not_assigned(input: Tensor, sizes: Sequence[int], value: Any, error: Exception) -> str | None:
    """What torch refuses for a reason that it says without the argument's name."""
    torchs_own = str(error)
    if "leaf Variable" in torchs_own:
        return f"input must not be a view of a leaf that requires grad where it is assigned to; {_TO_ASSIGN}"
    if "single memory location" in torchs_own:
        return "input must not overlap itself where it is assigned to; assign to a clone()"
    if isinstance(error, OverflowError) or "verflow" in torchs_own:
        return f"the value must fit {dtype_name(input.dtype)}, the dtype of input, got {shown(value)}"
    if isinstance(value, Tensor):
        given = [1] * (len(sizes) - value.dim()) + list(value.shape)
        more = len(given) - len(sizes)
        if any(n != 1 for n in given[:more]) or any(n not in (1, m) for n, m in zip(given[more:], sizes, strict=True)):
            return f"the value must have sizes that broadcast to {text(sizes)}, got {text(value.shape)}"
        if value.is_meta:
            return f"the value must have data, which input on {input.device} can take, got a tensor on meta"
    return None


def _turned(value: Tensor, backwards: Sequence[bool]) -> Tensor:
    """A copy, which the tensor that it is assigned to may share memory with, reversed where that is walked backwards.

    Its last dimensions are those of the target, as in broadcasting.
    """
    rank, shift = value.dim(), len(backwards) - value.dim()
    strides = [-1 if d + shift >= 0 and backwards[d + shift] else 1 for d in range(rank)]
    return slice1(value, [0] * rank, value.shape, strides) if -1 in strides else value.clone()


def _for_torch(part: Part) -> slice | int | Tensor | None:
    """As an index of torch's: what a walk reads, in ascending order."""
    if not isinstance(part, Walk):
        return part
    if known_true(abs(part.step) >= _LARGE) and known_true(part.length <= 1):
        return slice(part.start, part.start + part.length)
    if part.step > 0:
        return slice(part.start, part.stop, part.step)
    if not is_exporting() and known_true(part.stop == -1):
        return slice(part.start % -part.step, part.start + 1, -part.step)  # of which torch knows that it begins within
    offset, size = part.least_window()
    return slice(offset, offset + size, -part.step)


def _check_layout(op: str, name: str, tensor: Tensor) -> None:
    if (rule := refused_layout(tensor)) is not None:
        raise RuntimeError(f"{op}: {name} {rule}")


def _sharded(tensor: Tensor) -> Sequence[int | None]:
    """The dimensions along which a DTensor is sharded, and None for the others of its mesh."""
    if type(tensor) is Tensor:
        return ()
    return [getattr(p, "dim", None) for p in getattr(tensor, "placements", ())]


def _check_not_sharded(op: str, input: Tensor, parts: Sequence[Part]) -> None:
    """Refuses what torch would write into a copy: it gathers a DTensor's sharded dimension to index into it."""
    if not (sharded := _sharded(input)):
        return
    for d, part in enumerate(part for part in parts if part is not None):
        whole = isinstance(part, Walk) and abs(part.step) == 1 and known_true(part.length == input.shape[d])
        if d in sharded and not whole:
            raise RuntimeError(
                f"{op}: input must not be sharded along dimension {d}, in which the index leaves out elements; torch "
                "would assign to a copy; call redistribute on it first"
            )


def _check_not_leaf(op: str, input: Tensor) -> None:
    """What torch refuses as "a leaf Variable that requires grad"."""
    if input.requires_grad and input.is_leaf and torch.is_grad_enabled():
        raise RuntimeError(f"{op}: input must not be a leaf that requires grad where it is assigned to; {_TO_ASSIGN}")


def _parts(op: str, index: Any, input: Tensor, assigns: bool = False) -> tuple[Tensor, list[Part]]:
    """What the index says of each dimension of the input, or of its part that torch has cut out; None for new ones."""
    _check_layout(op, "input", input)
    sizes = whole_numbers(f"{op}: the shape of input", input.shape)
    given_entries = index if isinstance(index, tuple) else (index,)
    entries = []
    for k, entry in enumerate(given_entries):  # no comprehension, into which Dynamo would hand its numbers as constants
        entries.append(_checked(op, given_entries, k, entry, assigns))
    # By their types: torch.compile would take `entry is None` for a reason to compile for each number anew.
    ellipses = [k for k, entry in enumerate(entries) if isinstance(entry, EllipsisType)]
    if len(ellipses) > 1:
        raise IndexError(f"{op}: index must have at most one Ellipsis, got {len(ellipses)}")
    given = sum(not isinstance(entry, (EllipsisType, NoneType)) for entry in entries)
    if given > len(sizes):
        raise IndexError(
            f"{op}: index must have no more slices and whole numbers than input has dimensions, {len(sizes)}, "
            f"got {given}"
        )
    at = ellipses[0] if ellipses else len(entries)
    whole = [slice(None)] * (len(sizes) - given)
    may_cut = torch.compiler.is_compiling() and not is_exporting()  # where to ask would be a guard, lost in ONNX
    parts: list[Part] = []
    d = 0
    for k, entry in [*enumerate(entries[:at]), *((at, s) for s in whole), *enumerate(entries[at + 1 :], at + 1)]:
        if isinstance(entry, NoneType):
            parts.append(None)
            continue
        if isinstance(entry, slice):
            if may_cut:
                input, entry = _cut(op, input, d, entry, assigns)
                sizes = input.shape
            parts.append(walk_of(op, entry, sizes[d], d))
        else:
            parts.append(entry if isinstance(entry, Tensor) else _in_range(op, k, entry, sizes[d], d))
        d += 1
    return input, parts


def _cut(op: str, input: Tensor, d: int, s: slice, assigns: bool) -> tuple[Tensor, slice]:
    """Where it depends on data where the slice lies, that part, which torch finds when it runs, and the slice of it."""
    first, last, step = of_numbers(op, s, d)
    if not is_undecided_slice(first, last, step, input.shape[d]):
        return input, s
    if step is not None and step < 0:
        if not any(index is not None and is_undecided(index == -1) for index in (first, last)):
            first, last = _after(last), _after(first)
        elif assigns:
            return input, s
        else:  # after -1 comes 0, which would be counted from the other end
            input = slice1(input, [0] * input.dim(), input.shape, [-1 if k == d else 1 for k in range(input.dim())])
            first, last = None if first is None else -1 - first, None if last is None else -1 - last
            step = -step
    start, stop = 0 if first is None else _in_int64(first), sys.maxsize if last is None else _in_int64(last)
    return torch.ops.aten.slice.Tensor(input, d, start, stop), slice(None, None, step)


def _after(index: int | None) -> int | None:
    """The index that follows, of the same sign."""
    return None if index is None else sys.maxsize if known_true(index == -1) else index + 1


def _in_int64(index: int) -> int:
    largest = sys.maxsize
    return largest if known_true(index > largest) else -largest if known_true(index < -largest) else index


def _checked(op: str, entries: Sequence[Any], k: int, entry: Any, assigns: bool) -> Any:
    """Entry `k` of these, a whole number as an int."""
    if isinstance(entry, (slice, EllipsisType, NoneType, torch.SymInt)) or type(entry) is int:
        return entry
    try:
        if _may_be_number(entry):
            return index_of(entry)
    except TypeError:
        pass
    except RuntimeError:
        if not isinstance(entry, Tensor):
            raise
        return entry.long()  # without one value, as under vmap; torch would take uint8 for a mask
    raise IndexError(
        f"{op}: index[{k}] must be a slice, a whole number, None or an Ellipsis, got {shown(entry)}"
        f"{_way_out(op, entries, k, assigns)}"
    )


def _way_out(op: str, entries: Sequence[Any], k: int, assigns: bool) -> str:
    """What selects or assigns the same as an index whose entry `k` is no basic one, if that can be said."""
    entry = entries[k]
    if isinstance(entry, list) and any(isinstance(e, (slice, EllipsisType, NoneType)) for e in entry):
        return "; write a tuple of entries, as in x[tuple(…)]"
    if len(entries) == 3 and all(isinstance(e, tuple) for e in entries):
        return "; a window is for slice1, as in slice1(x, *window)"
    if entry is True:
        return "; write None for a new dimension of size 1"
    if isinstance(entry, (float, type)):
        return ""
    rank = getattr(entry, "ndim", int(isinstance(entry, (list, tuple))))
    if rank == 0:
        return ""
    dtype = str(getattr(entry, "dtype", type(entry[0]) if isinstance(entry, list) and entry else ""))
    called = "mask" if "bool" in dtype else "indices"
    written = [as_written(e) for e in entries]
    value = " = value" if assigns else ""
    if not has_negative_step(tuple(entries)):
        return f"; write x[{', '.join(w or called for w in written)}]{value}"  # which torch itself takes
    if any(isinstance(e, int) or (not written[j] and j != k) for j, e in enumerate(entries)):
        return ""  # NumPy may put the dimension of the indices elsewhere
    source = "x" if op == "negative_steps" else "index(x)"
    colons = ", ".join([":"] * (rank if called == "mask" else 1))
    first = f"{source}[{', '.join(w or colons for w in written)}]"
    needed = written if "..." in written[:k] else written[: k + 1]
    second = ", ".join(called if j == k else "..." if w == "..." else ":" for j, w in enumerate(needed))
    return f"; write y = {first}; y[{second}] = value; {first} = y" if assigns else f"; write {first}[{second}]"


def _may_be_number(entry: Any) -> bool:
    """Not booleans, nor arrays and tensors with dimensions, although `operator.index` takes some of them."""
    if isinstance(entry, Tensor):
        whole = not (entry.dtype == torch.bool or entry.is_floating_point() or entry.is_complex())
        return entry.dim() == 0 and whole and not entry.is_meta
    if isinstance(entry, float):  # which Dynamo cannot ask for an attribute
        return False
    # What has no index is not asked for it, as torch.compile of torch 2.11 would end there.
    return hasattr(entry, "__index__") and not is_boolean(entry) and getattr(entry, "ndim", 0) == 0


def _in_range(op: str, k: int, number: int, size: int, d: int) -> int:
    """The number as an index from 0 on, or as it is where torch has to find out which one it is."""
    if _part_is_undecided(number, size):
        return number
    if not -size <= number < size:
        rule = f"from {-size} to {size - 1}" if size else "a slice"
        raise IndexError(f"{op}: index[{k}] must be {rule}, as dimension {d} has size {size}, got {shown(number)}")
    if is_exporting() and isinstance(number + size, torch.SymInt):
        return number  # with other sizes the sum may be in range where the number is not, or the number positive
    return number + size if number < 0 else number
