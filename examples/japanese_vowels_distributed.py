"""The speaker recogniser of japanese_vowels.py, trained by several processes, and how far it is from one process.

    torchrun --standalone --nproc-per-node 2 examples/japanese_vowels_distributed.py [--parallel ddp|fsdp|tensor]

* ddp: every process has the whole model and a share of each batch (torch's DistributedDataParallel).
* fsdp: the same, but each process keeps only its part of the parameters (FSDP2's fully_shard). The operators see plain
  tensors.
* tensor: every process has a part of the gates for the whole batch. Parameters, activations and gradients are DTensors,
  so `join` joins along a dimension that is sharded.

--checkpoint FOLDER saves the parameters as they are sharded. One process reads them:

    python examples/japanese_vowels_distributed.py --evaluate FOLDER
"""

from __future__ import annotations

import argparse
import copy
import os
import random
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import torch
import torch.distributed as dist
from japanese_vowels import (
    BATCH,
    LONGEST,
    SpeakerRecogniser,
    Utterances,
    accuracy,
    evaluate,
    load_data,
    stretch,
)
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_module, distribute_tensor
from torch.distributed.tensor.experimental import implicit_replication
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

TOLERANCE = 1e-9  # in float64, of the largest value; sums are in another order

# Where tensor parallel divides the parameters: along the gates, and the score's inputs.
SHARDS = {"weight_ih": 1, "weight_hh": 1, "bias_ih": 2, "bias_hh": 2, "weight": 1}


def recogniser(seed: int) -> SpeakerRecogniser:
    """In float64, and without dropout: every process would drop something else."""
    torch.manual_seed(seed)
    model = SpeakerRecogniser().double()
    model.dropout.p = 0
    return model


def parallel(model: SpeakerRecogniser, way: str, mesh: DeviceMesh) -> nn.Module:
    if way == "ddp":
        return DistributedDataParallel(model, process_group=mesh.get_group())
    if way == "fsdp":
        for part in (model.gru, model.score, model):
            fully_shard(part, mesh=mesh)
        return model

    def shard(_: str, module: nn.Module, mesh: DeviceMesh) -> None:
        for name, parameter in list(module.named_parameters(recurse=False)):
            placement = Shard(SHARDS[name]) if name in SHARDS else Replicate()
            module.register_parameter(name, nn.Parameter(distribute_tensor(parameter.detach(), mesh, [placement])))

    return distribute_module(model, mesh, shard)


def train(model: nn.Module, data: Utterances, epochs: int, seed: int, share: slice, mesh: DeviceMesh | None) -> Tensor:
    """Trains on a share of each batch, as DTensors if there is a mesh; returns the loss of each batch."""
    rng, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.005)
    losses = []
    for _ in range(epochs):
        for index in torch.randperm(len(data.lengths) // BATCH * BATCH, generator=generator).view(-1, BATCH):
            batch = data.take(index[share])
            if mesh is not None:
                batch = Utterances(*(distribute_tensor(t, mesh, [Replicate()]) for t in batch))
            first, stride = rng.randint(0, 3), rng.choice([1, 2])
            with nullcontext() if mesh is None else implicit_replication():
                scores = model(*stretch(batch.frames, batch.lengths, first, LONGEST - first, stride))
                loss = cross_entropy(scores, batch.speakers)
                optimizer.zero_grad()
                loss.backward()
            optimizer.step()
            losses.append(whole(loss).detach())
    return torch.stack(losses)


def whole(tensor: Tensor) -> Tensor:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def difference(ours: Sequence[Tensor], theirs: Sequence[Tensor]) -> float:
    """The largest one, as a part of the largest value."""
    return max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(ours, theirs, strict=True))


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Trains the speaker recogniser in several processes.")
    parser.add_argument("--parallel", choices=["ddp", "fsdp", "tensor"], nargs="+", default=["ddp", "fsdp", "tensor"])
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checkpoint", type=Path, help="a folder to save the last model in, as it is sharded")
    parser.add_argument("--evaluate", type=Path, help="test what such a folder has, in this process alone")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    if args.evaluate is None and "RANK" not in os.environ:
        parser.error("start it with torchrun --standalone --nproc-per-node 2, or with --evaluate")

    data, test = (u._replace(frames=u.frames.double()) for u in load_data())
    reference = recogniser(args.seed)
    if args.evaluate is not None:
        load(reference.state_dict(), checkpoint_id=args.evaluate, no_dist=True)
        print(f"accuracy: {accuracy(evaluate(reference, test)):.2%}")
        return

    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    mesh = init_device_mesh("cpu", (ranks,))
    if BATCH % ranks:
        parser.error(f"{BATCH} utterances of a batch cannot be shared by {ranks} processes equally")
    untrained = copy.deepcopy(reference)
    losses = train(reference, data, args.epochs, args.seed, slice(None), None)
    if rank == 0:
        print(f"one process: loss {losses[0]:.3f} to {losses[-1]:.3f}")
        print(f"accuracy: {accuracy(evaluate(reference, test)):.2%}")
    for way in args.parallel:
        model = parallel(copy.deepcopy(untrained), way, mesh)
        if way == "tensor":
            found = train(model, data, args.epochs, args.seed, slice(None), mesh)
        else:  # the gradients are averaged over the processes, and so are the losses
            found = train(model, data, args.epochs, args.seed, slice(rank, None, ranks), None)
            dist.all_reduce(found)
            found /= ranks
        parameters = [whole(p.detach()) for p in model.parameters()]
        apart = difference([found, *parameters], [losses, *(p.detach() for p in reference.parameters())])
        if rank == 0:
            print(f"{way}, {ranks} processes: losses and parameters differ from it by at most {apart:.1e}")
        if not apart <= TOLERANCE:
            raise RuntimeError(f"{way} must train as one process does: it differs by {apart:.1e}, over {TOLERANCE:.0e}")
    if args.checkpoint is not None:
        inner = model.module if isinstance(model, DistributedDataParallel) else model
        save(inner.state_dict(), checkpoint_id=args.checkpoint)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
