"""Who is speaking? A bidirectional GRU on the Japanese Vowels recordings, with its data moved by torch_dml_ops.

640 utterances of 7 to 29 frames and 12 channels by 9 speakers: 270 to learn from, 370 to be recognised.

* The backward direction is `reverse_subsequences`: each utterance is reversed within its own length, so that padding
  stays at the end and both directions run forwards in one loop.
* The two directions are put together by `join`. The gates are one product, divided by `torch.split`: its views serve
  where pieces are only read, and cost less to record than the copies of `split`.
* In training, `slice1` speeds up the recordings (time augmentation): it takes a window of the frames and, in half of
  the batches, only every other frame of it.

Before it trains it shows that this GRU equals torch.nn.GRU on a packed sequence, gradients included. Afterwards it
saves a picture of the learning curve and of who was taken for whom.

    python examples/japanese_vowels.py [--compile] [--device cuda] [--quick]
"""

from __future__ import annotations

import argparse
import importlib.util
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

import torch_dml_ops as dml

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TRAIN, TEST = 270, 370  # utterances
SPEAKERS = 9
CHANNELS = 12
SHORTEST, LONGEST = 7, 29  # frames

BATCH = 30
TOLERANCE = 1e-5  # of the largest value; float32 rounds at 6e-8, and gradients sum over thousands of frames

Step = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


class Utterances(NamedTuple):
    frames: Tensor  # (utterances, LONGEST, CHANNELS), zeros after the end of each utterance
    lengths: Tensor  # (utterances,)
    speakers: Tensor  # (utterances,), from 0 to SPEAKERS - 1

    def take(self, index: Tensor | slice) -> Utterances:
        return Utterances(*(t[index] for t in self))

    def to(self, device: torch.device) -> Utterances:
        return Utterances(*(t.to(device) for t in self))


class History(NamedTuple):
    losses: list[float]  # in training, the mean of each epoch
    accuracies: list[float]  # in the test, after each epoch


def load_data() -> tuple[Utterances, Utterances]:
    """The recordings for training and for the test. They lie in the package sktime: nothing is downloaded."""
    from sktime.datasets import load_japanese_vowels

    recordings, labels = load_japanese_vowels(return_type="df-list")  # those for training, then those for the test
    frames = [torch.tensor(recording.to_numpy(), dtype=torch.float32) for recording in recordings]
    lengths = torch.tensor([len(f) for f in frames])
    if (len(frames), int(lengths.min()), int(lengths.max())) != (TRAIN + TEST, SHORTEST, LONGEST):
        raise RuntimeError(f"sktime's recordings must be {TRAIN + TEST} of {SHORTEST} to {LONGEST} frames, got others")
    deviation, mean = torch.std_mean(torch.cat(frames[:TRAIN]), dim=0)
    padded = pad_sequence([(f - mean) / deviation for f in frames], batch_first=True)
    speakers = torch.tensor([int(label) - 1 for label in labels])
    everything = Utterances(padded, lengths, speakers)
    return everything.take(slice(0, TRAIN)), everything.take(slice(TRAIN, None))


def within(frames: Tensor, lengths: Tensor) -> Tensor:
    """Which frames are an utterance's own, and which padding: (utterances, frames, 1)."""
    return (torch.arange(frames.shape[1], device=frames.device) < lengths[:, None]).unsqueeze(2)


def reverse(frames: Tensor, lengths: Tensor) -> Tensor:
    """Reverses each utterance within its own length; padding stays where it is."""
    return dml.reverse_subsequences(frames, dml.sequence_lengths_like(frames, lengths, axis=1), axis=1)


def stretch(frames: Tensor, lengths: Tensor, first: int, size: int, stride: int) -> tuple[Tensor, Tensor]:
    """Every `stride`-th frame of the window [first, first + size), and how many of them are each utterance's own."""
    utterances, _, channels = frames.shape
    taken = dml.slice1(frames, [0, first, 0], [utterances, size, channels], [1, stride, 1])
    return taken, (lengths.clamp(max=first + size) - first + stride - 1) // stride


def gru_step(r: Tensor, z: Tensor, n: Tensor, h: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """One frame of a GRU, for both directions at once: r, z, n are the frame's share of the gates, h is the state."""
    hr, hz, hn = torch.split(torch.baddbmm(bias, h, weight.mT), h.shape[2], dim=2)
    r, z = torch.sigmoid(r + hr), torch.sigmoid(z + hz)
    n = torch.tanh(n + r * hn)
    return n + z * (h - n)


class BidirectionalGRU(nn.Module):
    """torch.nn.GRU(inputs, hidden, batch_first=True, bidirectional=True) on sequences of different lengths.

    Its parameters are those of torch.nn.GRU, forward and backward direction stacked. The padding of its result is zero.
    """

    def __init__(self, inputs: int, hidden: int, step: Step = gru_step) -> None:
        super().__init__()
        self.hidden = hidden
        self.step = step
        self.weight_ih = nn.Parameter(torch.empty(2, 3 * hidden, inputs))
        self.weight_hh = nn.Parameter(torch.empty(2, 3 * hidden, hidden))
        self.bias_ih = nn.Parameter(torch.empty(2, 1, 3 * hidden))
        self.bias_hh = nn.Parameter(torch.empty(2, 1, 3 * hidden))
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -(hidden**-0.5), hidden**-0.5)

    def forward(self, frames: Tensor, lengths: Tensor) -> Tensor:
        batch, length, _ = frames.shape
        directions = torch.stack([frames, reverse(frames, lengths)])
        product = torch.baddbmm(self.bias_ih, directions.flatten(1, 2), self.weight_ih.mT)
        gates = torch.split(product.unflatten(1, (batch, length)), self.hidden, dim=3)
        state = frames.new_zeros(2, batch, self.hidden)
        states = []
        for r, z, n in zip(*(gate.unbind(2) for gate in gates), strict=True):
            state = self.step(r, z, n, state, self.weight_hh, self.bias_hh)
            states.append(state)
        stacked = torch.stack(states, dim=2)  # (torch 2.15 does not unbind a DTensor that is sharded by directions)
        both = dml.join([stacked[0], reverse(stacked[1], lengths)], axis=2)
        return torch.where(within(both, lengths), both, 0)


class SpeakerRecogniser(nn.Module):
    """The mean of the GRU's states over an utterance, and a score for each speaker."""

    def __init__(self, hidden: int = 64, step: Step = gru_step) -> None:
        super().__init__()
        self.gru = BidirectionalGRU(CHANNELS, hidden, step)
        self.dropout = nn.Dropout(0.3)
        self.score = nn.Linear(2 * hidden, SPEAKERS)

    def forward(self, frames: Tensor, lengths: Tensor) -> Tensor:
        mean = self.gru(frames, lengths).sum(1) / lengths[:, None]
        scores: Tensor = self.score(self.dropout(mean))
        return scores


def check_against_torch(frames: Tensor, lengths: Tensor, hidden: int = 64, step: Step = gru_step) -> dict[str, float]:
    """Compares BidirectionalGRU with torch.nn.GRU on a packed sequence: the results and all gradients.

    Returns the largest difference of each, as a part of the largest value.
    """
    batch, length, inputs = frames.shape
    theirs = nn.GRU(inputs, hidden, batch_first=True, bidirectional=True, device=frames.device)
    ours = BidirectionalGRU(inputs, hidden, step).to(frames.device)
    parameters = [name for name, _ in ours.named_parameters()]
    pairs = [[getattr(theirs, f"{name}_l0{direction}") for direction in ("", "_reverse")] for name in parameters]
    with torch.no_grad():
        for parameter, pair in zip(ours.parameters(), pairs, strict=True):
            parameter.copy_(torch.stack(pair).view_as(parameter))

    frames = frames.clone().requires_grad_()
    grad_output = torch.randn(batch, length, 2 * hidden, device=frames.device)
    with torch.backends.cudnn.flags(enabled=False):  # on a GPU it would round the factors of products to TF32
        packed, _ = theirs(pack_padded_sequence(frames, lengths.cpu(), batch_first=True, enforce_sorted=False))
        expected, _ = pad_packed_sequence(packed, batch_first=True, total_length=length)
        grad_frames, *grads = torch.autograd.grad(expected, [frames, *(p for pair in pairs for p in pair)], grad_output)
    expected_grads = [grad_frames, *(torch.stack(pair) for pair in zip(grads[::2], grads[1::2], strict=True))]
    result = ours(frames, lengths)
    result_grads = torch.autograd.grad(result, [frames, *ours.parameters()], grad_output)

    names = ["result", "gradient of frames", *(f"gradient of {name}" for name in parameters)]
    differences = {}
    for name, value, reference in zip(names, [result, *result_grads], [expected, *expected_grads], strict=True):
        difference = (value - reference.view_as(value)).abs().max() / reference.abs().max()
        differences[name] = difference.item()
    for name, difference in differences.items():
        if not difference <= TOLERANCE:
            raise RuntimeError(
                f"BidirectionalGRU must equal torch.nn.GRU: {name} differs by {difference:.1e} of its largest value, "
                f"over {TOLERANCE:.0e}"
            )
    return differences


def train(
    model: nn.Module, data: Utterances, test: Utterances, epochs: int, seed: int = 0, quiet: bool = False
) -> History:
    """Trains the model in place; says after each epoch how it did, unless quiet."""
    from tqdm import tqdm

    rng = random.Random(seed)
    batches = len(data.lengths) // BATCH
    optimizer = torch.optim.AdamW(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.01, total_steps=epochs * batches)
    history = History([], [])
    progress = tqdm(range(epochs), unit="epoch", disable=quiet)
    for _ in progress:
        model.train()
        total = torch.zeros((), device=data.frames.device)
        for index in torch.randperm(batches * BATCH).view(batches, BATCH):
            frames, lengths, speakers = data.take(index.to(data.frames.device))
            # At worst two frames are left, of an utterance of seven.
            first = rng.randint(0, 3)
            size = rng.randint(LONGEST // 2, LONGEST - first)
            loss = cross_entropy(model(*stretch(frames, lengths, first, size, rng.choice([1, 2]))), speakers)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.detach()
        history.losses.append(float(total) / batches)
        history.accuracies.append(accuracy(evaluate(model, test)))
        progress.set_postfix(loss=f"{history.losses[-1]:.3f}", accuracy=f"{history.accuracies[-1]:.1%}")
    return history


@torch.no_grad()
def evaluate(model: nn.Module, data: Utterances) -> Tensor:
    """How often each speaker (row) was taken for each speaker (column)."""
    model.eval()
    recognised = model(data.frames, data.lengths).argmax(1)
    return torch.bincount(data.speakers * SPEAKERS + recognised, minlength=SPEAKERS**2).view(SPEAKERS, SPEAKERS).cpu()


def accuracy(confusion: Tensor) -> float:
    return float(confusion.trace() / confusion.sum())


def plot(history: History, confusion: Tensor) -> Figure:
    """The learning curve, and who was taken for whom."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 5), layout="constrained")
    grid = figure.add_gridspec(2, 2, width_ratios=[1, 1.1])
    epochs = range(1, len(history.losses) + 1)

    upper = figure.add_subplot(grid[0, 0])
    upper.plot(epochs, history.losses, color="#0072B2")
    upper.set(ylabel="loss in training", yscale="log")
    upper.tick_params(labelbottom=False)
    lower = figure.add_subplot(grid[1, 0], sharex=upper)
    lower.plot(epochs, [100 * a for a in history.accuracies], color="#D55E00")
    lower.set(xlabel="epoch", ylabel="test accuracy, %")
    figure.align_ylabels([upper, lower])
    for axes in (upper, lower):
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)

    matrix = figure.add_subplot(grid[:, 1])
    share = confusion / confusion.sum(1, keepdim=True)
    matrix.imshow(share.numpy(), cmap="Blues", vmin=0, vmax=1.2)
    for speaker, row in enumerate(confusion.tolist()):
        for recognised, count in enumerate(row):
            if count:
                color = "white" if share[speaker, recognised] > 0.5 else "black"
                matrix.text(recognised, speaker, str(count), ha="center", va="center", color=color, weight="bold")
    numbers = [str(k + 1) for k in range(SPEAKERS)]
    matrix.set_xticks(range(SPEAKERS), numbers)
    matrix.set_yticks(range(SPEAKERS), numbers)
    matrix.set_xticks([k + 0.5 for k in range(SPEAKERS - 1)], minor=True)
    matrix.set_yticks([k + 0.5 for k in range(SPEAKERS - 1)], minor=True)
    matrix.grid(which="minor", color="lightgray")
    matrix.tick_params(which="both", length=0)
    matrix.set(xlabel="recognised as speaker", ylabel="utterances of speaker (shade: share of the row)")
    right, all_ = int(confusion.trace()), int(confusion.sum())
    matrix.set_title(f"{right} of {all_} test utterances recognised: {accuracy(confusion):.1%}")
    return figure


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Recognises speakers by the Japanese Vowels recordings.")
    parser.add_argument("--epochs", type=int, help="default: 40, with --quick 10")
    parser.add_argument("--compile", action="store_true", help="compile the GRU's step with torch.compile")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="default: cpu")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", type=Path, default=Path("japanese_vowels.png"), help="where to save the picture")
    parser.add_argument("--quick", action="store_true", help="a short training of a few seconds")
    args = parser.parse_args(argv)
    epochs = args.epochs if args.epochs is not None else 10 if args.quick else 40
    missing = [name for name in ("matplotlib", "sktime", "tqdm") if importlib.util.find_spec(name) is None]
    if missing:
        raise SystemExit(f"This example needs {', '.join(missing)}; install with: pip install {' '.join(missing)}")
    if epochs < 1:
        parser.error(f"--epochs must be at least 1, got {epochs}")
    if args.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: torch finds no GPU on this machine")
    if not args.picture.parent.is_dir():
        parser.error(f"--picture: there is no folder {args.picture.parent}")

    print("Loading the recordings", flush=True)  # importing sktime takes seconds
    torch.set_num_threads(1)  # the tensors are so small that a second thread only waits
    torch.manual_seed(args.seed)
    device = torch.device(args.device)
    data, test = (utterances.to(device) for utterances in load_data())
    # Only the step: unrolled, the loop over the frames would take half a minute to compile, for every number of frames.
    step = torch.compile(gru_step, fullgraph=True, dynamic=True) if args.compile else gru_step

    print("BidirectionalGRU and torch.nn.GRU on a packed sequence, largest difference, relative to the largest value:")
    for name, difference in check_against_torch(test.frames, test.lengths, step=step).items():
        print(f"  {name:22} {difference:.1e}")

    model = SpeakerRecogniser(step=step).to(device)
    begin = time.perf_counter()
    history = train(model, data, test, epochs, args.seed)
    seconds = time.perf_counter() - begin
    confusion = evaluate(model, test)
    plot(history, confusion).savefig(args.picture, dpi=150)
    print(f"Trained for {epochs} epochs in {seconds:.1f} s")
    right, all_ = int(confusion.trace()), int(confusion.sum())
    print(f"accuracy: {accuracy(confusion):.2%} ({right} of {all_} test utterances)")
    print("What the operators did, with gradients: reverse_subsequences reversed each utterance within its own length")
    print("for the second direction, and reversed it back; join put both directions together; slice1 cut and sped up")
    print(f"the recordings. The learning curve, and who was taken for whom, are in {args.picture}.")


if __name__ == "__main__":
    main()
