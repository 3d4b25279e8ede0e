"""A step of a call in which ranks send each other elements of a sharded dimension."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.nn import Parameter

from torch_dml_ops._operators.signature import call
from torch_dml_ops._torch.private import DTENSORS as private
from torch_dml_ops.distributed._placements import rank_along
from torch_dml_ops.distributed._shards import Run, Transfer, leaving, received, shard, transfers


class Span(NamedTuple):
    """The numbers of slice1 or slice_grad for one dimension."""

    offset: int
    size: int
    stride: int
    steps: int

    @property
    def start(self) -> int:
        return self.offset if self.stride > 0 else self.offset + self.size - 1

    def is_whole(self, size: int) -> bool:
        """Whether it takes a dimension of this size as it is."""
        return self[0] == 0 and self[1] == size and self[3] == size and (self[2] == 1 or size <= 1)


def whole(size: int) -> Span:
    return Span(0, size, 1, size)


def span_of(start: int, stride: int, steps: int) -> Span:
    """The least window for so many steps."""
    far = (steps - 1) * stride
    return Span(min(start, start + far), abs(far) + 1, stride, steps)


class Exchange:
    """A step that moves elements along a dimension of the tensor that is sharded over one dimension of the mesh.

    A rank copies what it has for others (`slice1` with `windows`, of which that of `axis` is replaced), sends it, and
    joins what it gets to one tensor for each target, whose dimensions have the memory order `order`.
    """

    def __init__(
        self,
        mesh: DeviceMesh,
        mesh_dim: int,
        axis: int,
        runs: Sequence[Run],
        source_sizes: Sequence[int],
        target_sizes: Sequence[int],
        windows: Sequence[Span],
        order: list[int],
    ) -> None:
        ranks, here = mesh.size(mesh_dim), rank_along(mesh, mesh_dim)
        # Who sends what is decided while compiling, too: the sizes of this dimension become constants.
        runs = [Run(*map(int, run)) for run in runs]
        layout = runs, list(map(int, source_sizes)), list(map(int, target_sizes)), ranks
        self.group, self.axis, self.order = (mesh, mesh_dim), axis, order
        self.sizes = [window.steps for window in windows]
        self.sizes[axis] = 1
        self.targets = len(target_sizes)
        self.is_local = not any(leaving(*layout))

        sent, got = transfers(*layout, here), received(*layout, here)
        self.kept = {(t.run, t.first): t for t in sent if t.peer == here}
        self.sent = [t for t in sent if t.peer != here]
        self.received = [t for t in got if t.peer != here]
        rest = math.prod(self.sizes)
        self.sent_to, self.received_from = (
            [rest * sum(t.end - t.first for t in some if t.peer == peer) for peer in range(ranks)]
            for some in (self.sent, self.received)
        )
        self.blocks = [
            sorted((t.run, t.first) for t in got if runs[t.run].target == target) for target in range(self.targets)
        ]
        self.copies: dict[Transfer, tuple[Any, ...]] = {}  # which tensor to copy from, and the numbers of slice1
        for t in sent:
            run = runs[t.run]
            begin, _ = shard(layout[1][run.source], ranks, here)
            start = run.source_start + t.first * run.source_step - begin
            columns = list(windows)
            columns[axis] = span_of(start, run.source_step, t.end - t.first)
            self.copies[t] = run.source, *zip(*columns, strict=True)

    def __call__(self, tensors: list[Tensor]) -> list[Tensor]:
        blocks = {key: self._copy(tensors, t) for key, t in self.kept.items()}
        incoming = None if self.is_local else self._exchanged(tensors)
        if incoming is not None:
            blocks |= self._received_blocks(incoming)
        results = []
        for keys in self.blocks:
            # A block that was received lies in memory of its own only if it is all that there is.
            if len(keys) == 1 and (keys[0] in self.kept or self.targets == 1):
                result = blocks[keys[0]]
            elif keys:
                result = call("join", [blocks[key] for key in keys], self.axis)
            else:
                result = in_order(tensors[0].new_empty(self._sizes(0)), self.order)
            if all(key in self.kept for key in keys):
                result = depending(result, self.order, tensors if incoming is None else [incoming])
            results.append(result)
        return results

    def _copy(self, tensors: list[Tensor], t: Transfer) -> Tensor:
        source, *numbers = self.copies[t]
        result: Tensor = call("slice1", tensors[source], *numbers)
        return result

    def _exchanged(self, tensors: list[Tensor]) -> Tensor:
        """All elements that this rank receives."""
        like = tensors[0]
        item = like.element_size()
        # As bytes: not every backend knows every dtype, and none may change a bit.
        # With their dimensions in order of index: the memory formats of the ranks' tensors may differ.
        copies = [self._copy(tensors, t).reshape(-1).view(torch.uint8) for t in self.sent]
        outgoing = copies[0] if len(copies) == 1 else torch.cat([like.new_empty(0, dtype=torch.uint8), *copies])
        outgoing = depending(outgoing, [0], tensors)
        incoming = private.all_to_all_single(
            outgoing, [n * item for n in self.received_from], [n * item for n in self.sent_to], self.group
        )
        if isinstance(incoming, private.AsyncCollectiveTensor):
            incoming = incoming.wait()
        received: Tensor = incoming.view(like.dtype)
        return received

    def _received_blocks(self, incoming: Tensor) -> dict[tuple[int, int], Tensor]:
        sizes = [self._sizes(t.end - t.first) for t in self.received]
        parts = incoming.split([math.prod(s) for s in sizes]) if sizes else ()
        return {
            (t.run, t.first): in_order(part.view(s), self.order)
            for t, part, s in zip(self.received, parts, sizes, strict=True)
        }

    def _sizes(self, count: int) -> list[int]:
        return [count if d == self.axis else n for d, n in enumerate(self.sizes)]


def in_order(tensor: Tensor, order: list[int]) -> Tensor:
    """The tensor with its dimensions in this order in memory; a copy if they are in another one."""
    return tensor.permute(order).contiguous().permute([order.index(d) for d in range(len(order))])


def depending(tensor: Tensor, order: list[int], others: Sequence[Tensor]) -> Tensor:
    """The tensor, whose memory order is `order`; in a graph that is traced, a copy that depends on the others, too.

    The ranks' graphs have to send in the same order. But torch divides forward from backward by what depends on what,
    drops what nothing depends on and merges what looks alike, and sees one rank's part alone: nothing to send, which
    depends on nothing, would leave the backward on that rank.
    """
    if has_data(tensor):
        return tensor
    unique = torch.empty(0, dtype=tensor.dtype, device=tensor.device)  # torch does not merge two of these
    parts = [t.narrow(0, 0, 0).reshape(0).real.to(tensor.dtype) for t in others]
    dense = tensor.permute(order).contiguous()
    # By cat alone the empty parts would go: Inductor leaves them out beside one that is not.
    flat = torch.slice_scatter(dense.view(-1), torch.cat([unique, *parts]), 0, 0, 0)
    return flat.view(dense.shape).permute([order.index(d) for d in range(len(order))])


def has_data(local: Tensor) -> bool:
    return type(local) is Tensor or type(local) is Parameter
