"""Forward and backward passes of all micro batches, and what goes between pipeline stages."""

from collections.abc import Callable, Iterator
from typing import Any

import parallel_state as ps
import torch
import torch.distributed as dist
from layers import HIDDEN, LENGTH, SAMPLES

Action = tuple[str, int, int]
"""Forward or backward, chunk and micro batch."""


def actions() -> Iterator[Action]:
    """Return what this rank does in a step, in its order."""
    pp, chunks, micro = ps.group("pp"), ps.LAYOUT.vpp, ps.LAYOUT.micro
    total = micro * chunks
    if ps.LAYOUT.schedule == "gpipe":
        warmup = total
    elif chunks == 1:
        warmup = min(pp.size - 1 - pp.rank, total)
    else:
        warmup = min(2 * (pp.size - 1 - pp.rank) + pp.size * (chunks - 1), total)
    forward = [("forward", *part(number, chunks)) for number in range(total)]
    backward = [("backward", chunks - 1 - chunk, batch) for _, chunk, batch in forward]
    yield from forward[:warmup]
    for number in range(total - warmup):
        yield forward[warmup + number]
        yield backward[number]
    yield from backward[total - warmup :]


def part(number: int, chunks: int) -> tuple[int, int]:
    """Return chunk and micro batch of a pass: each chunk takes as many micro batches in a row as there are stages."""
    size = ps.group("pp").size
    chunk = number // size % chunks
    return chunk, number // (size * chunks) * size + number % size


class Wire:
    """Activations to the next stage and gradients to the one before."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def send(self, x: torch.Tensor, offset: int, tag: int) -> None:
        x = x.detach().contiguous()
        self.sent.append((dist.isend(x, self.other(offset), tag=tag), x))

    def receive(self, offset: int, tag: int) -> torch.Tensor:
        shape = (len(ps.norm_positions(LENGTH)), samples_of(0).numel(), HIDDEN)
        x = torch.empty(shape, dtype=getattr(torch, ps.LAYOUT.dtype))
        dist.recv(x, self.other(offset), tag=tag)
        return x

    def finish(self) -> None:
        for work, _ in self.sent:
            work.wait()
        self.sent.clear()

    @staticmethod
    def other(offset: int) -> int:
        pp = ps.group("pp")
        return pp.ranks[(pp.rank + offset) % pp.size]


def samples_of(micro: int) -> torch.Tensor:
    """Return the numbers of the samples that this rank has of a micro batch."""
    dp = ps.group("dp")
    return torch.arange(SAMPLES).chunk(ps.LAYOUT.micro)[micro].chunk(dp.size)[dp.rank]


def run_step(
    chunks: list[Any], tokens: torch.Tensor, step: int, loss_of: Callable[[torch.Tensor], tuple[torch.Tensor, float]]
) -> list[float]:
    """Run all micro batches; return the loss of each, on the last stage."""
    pp, wire, losses = ps.group("pp"), Wire(), []
    kept: dict[tuple[int, int], tuple[torch.Tensor, torch.Tensor]] = {}
    last = pp.size * len(chunks) - 1
    for direction, chunk, micro in actions():
        stage = pp.size * chunk + pp.rank
        tag = 100 * micro + stage
        if direction == "forward":
            samples = samples_of(micro)
            own = tokens[:, samples]
            x = own[:-1] if stage == 0 else wire.receive(-1, tag).requires_grad_()
            y = chunks[chunk](x, own[1:], step, samples)
            if stage == last:
                y, loss = loss_of(y)
                losses.append(loss)
            else:
                wire.send(y, 1, tag + 1)
            kept[chunk, micro] = x, y
        else:
            x, y = kept.pop((chunk, micro))
            gradient = None if stage == last else wire.receive(1, 50 + tag)
            torch.autograd.backward(y, gradient)
            if stage:
                wire.send(x.grad, -1, 50 + tag - 1)
    wire.finish()
    return losses
