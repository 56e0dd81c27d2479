"""A server that packs the tokens of all scheduled requests into one batch, as vLLM does, and records each step.

    python packed_server.py alone "a;a"             # two steps: the prompt, then one token
    python packed_server.py batch "b,a:5;a,b,c;a"   # five tokens of the prompt of a beside b, then the rest
    msprobe compare -tp batch -gp alone --target-request a

Keys and values lie in a cache of slots. Where a request is in the batch and in the cache is no argument of the model:
its attention looks that up, as in vLLM. A step takes a part of each request: a chunk of its prompt, or the token that
was generated last. Prompts may begin with a prefix that is in the cache already, and a batch may be padded to a length
for which a graph was captured. With ``--loop`` attention takes the requests of a batch one after the other, as servers
do without a kernel for packed batches.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from model import BLOCKS, CONTEXT, HEADS, MLP, VOCABULARY, WIDTH, RMSNorm
from torch import Tensor, nn

SLOTS = 96
PROMPTS = {"a": "Hello, my name", "b": "Numbers", "c": "is this it?", "d": "Hello, my dear"}
FAULTS = ("position", "slot", "mask", "scale")


@dataclass
class Batch:
    """One step: ids, positions and slots of its tokens, and which slots hold the tokens so far (the context)."""

    tokens: Tensor
    positions: Tensor
    slots: Tensor
    context_slots: Tensor
    mask: Tensor  # (tokens, context): what each token attends to
    last: Tensor  # the row of the last token of each request
    spans: list[tuple[slice, slice]] = field(default_factory=list)  # with --loop: rows and context of each request


class Attention(nn.Module):
    """Causal self-attention over a cache of slots."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv_proj = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.o_proj = nn.Linear(WIDTH, WIDTH, bias=False)
        self.heads = HEADS
        self.scale = (WIDTH // HEADS) ** -0.5
        self.keys = torch.zeros(SLOTS, HEADS, WIDTH // HEADS)
        self.values = torch.zeros(SLOTS, HEADS, WIDTH // HEADS)
        self.batch: Batch | None = None

    def forward(self, x: Tensor) -> Tensor:
        batch = self.batch
        assert batch is not None  # the server has set it
        query, key, value = (part.reshape(len(x), self.heads, -1) for part in self.qkv_proj(x).chunk(3, dim=-1))
        self.keys[batch.slots], self.values[batch.slots] = key, value
        everything = [(slice(None), slice(None))]
        parts = [self._attend(query[rows], batch, rows, context) for rows, context in batch.spans or everything]
        return self.o_proj(torch.cat(parts) if batch.spans else parts[0])

    def _attend(self, query: Tensor, batch: Batch, rows: slice, context: slice) -> Tensor:
        """Attention of some rows of the batch to a part of the context."""
        slots = batch.context_slots[context]
        keys, values = self.keys[slots], self.values[slots]
        scores = torch.matmul(query.transpose(0, 1), keys.permute(1, 2, 0))
        if self.scale:
            scores = scores * self.scale
        weights = F.softmax(scores.masked_fill(~batch.mask[rows, context], -1e9), dim=-1)
        return torch.matmul(weights, values.transpose(0, 1)).transpose(0, 1).reshape(len(query), -1)


class DecoderLayer(nn.Module):
    """Pre-norm residual block."""

    def __init__(self) -> None:
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = RMSNorm(WIDTH), RMSNorm(WIDTH)
        self.self_attn, self.mlp = Attention(), MLP(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class PackedDecoder(nn.Module):
    """The decoder of ``model.py``, with the same parameters, over packed tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.embed_positions = nn.Embedding(CONTEXT, WIDTH)
        self.layers = nn.ModuleList(DecoderLayer() for _ in range(BLOCKS))
        self.norm = RMSNorm(WIDTH)
        self.lm_head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Return the hidden states of packed tokens: (tokens, width)."""
        x = self.embed_tokens(tokens) + self.embed_positions(positions)
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)

    def logits(self, x: Tensor) -> Tensor:
        """Return the logits of some rows: (rows, vocabulary)."""
        return self.lm_head(x)


@dataclass
class Request:
    """A request, its tokens so far, how many of them are in the cache, and their slots."""

    id: str
    tokens: list[int]
    computed: int = 0
    slots: list[int] = field(default_factory=list)


class Scheduled(NamedTuple):
    """A request, and how many of its tokens a step computes."""

    request: Request
    count: int


class PackedServer:
    """Runs steps: start, forward, stop, step.

    Args:
        model: the decoder.
        debugger: records each step; None records nothing.
        graphs: batches are padded to the next of these lengths.
        fault: what is wrong with the first request of each batch, one of ``FAULTS``.
    """

    loop = False
    """Whether attention takes the requests one after the other."""

    def __init__(self, model: PackedDecoder, debugger: Any = None, graphs: Sequence[int] = (), fault: str = "") -> None:
        self.model, self.debugger, self.graphs, self.fault = model, debugger, graphs, fault
        self.free = list(range(1, SLOTS))  # slot 0 takes what only fills a graph
        for layer in model.layers:
            if fault == "scale":
                layer.self_attn.scale = 0.0

    @torch.inference_mode()
    def run(self, scheduled: Sequence[Scheduled]) -> None:
        """Compute some tokens of each request; a request with a whole prompt gets one more token."""
        batch = self._batch(scheduled)
        for layer in self.model.layers:
            layer.self_attn.batch = batch
        if self.debugger is not None:
            self.debugger.start(
                model=self.model,
                scheduled_tokens={one.request.id: one.count for one in scheduled},
                computed_tokens={one.request.id: one.request.computed for one in scheduled},
            )
        hidden = self.model(batch.tokens, batch.positions)
        chosen = self.model.logits(hidden[batch.last]).argmax(-1).tolist()
        if self.debugger is not None:
            self.debugger.stop()
            self.debugger.step()
        for (request, count), token in zip(scheduled, chosen, strict=True):
            request.computed += count
            if request.computed == len(request.tokens):
                request.tokens.append(token)

    def _batch(self, scheduled: Sequence[Scheduled]) -> Batch:
        tokens, positions, slots, owners, last = [], [], [], [], []
        context_slots, context_positions, context_owners = [], [], []
        spans = []
        for owner, (request, count) in enumerate(scheduled):
            rows = range(request.computed, request.computed + count)
            while len(request.slots) < rows.stop:
                request.slots.append(self.free.pop(0))
            tokens += [request.tokens[row] for row in rows]
            positions += rows
            slots += [request.slots[row] for row in rows]
            owners += [owner] * count
            context_slots += request.slots[: rows.stop]
            context_positions += range(rows.stop)
            context_owners += [owner] * rows.stop
            last.append(len(tokens) - 1)
            spans.append((
                slice(len(tokens) - count, len(tokens)),
                slice(len(context_slots) - rows.stop, len(context_slots)),
            ))
        padding = min((length for length in self.graphs if length >= len(tokens)), default=len(tokens)) - len(tokens)
        owner, position = torch.tensor([*owners, *[-1] * padding]), torch.tensor([*positions, *[0] * padding])
        mask = owner[:, None] == torch.tensor(context_owners)[None]
        if self.fault == "mask":
            mask[0] = True
        mask &= torch.tensor(context_positions)[None] <= position[:, None]
        if self.fault == "position":
            position[last[0]] += 1
        if self.fault == "slot":
            context_slots[2] = self.free[0]
        return Batch(
            torch.tensor([*tokens, *[0] * padding]),
            position,
            torch.tensor([*slots, *[0] * padding]),
            torch.tensor(context_slots),
            mask,
            torch.tensor(last),
            spans if self.loop else [],
        )


def build() -> PackedDecoder:
    """The same weights at every call."""
    torch.manual_seed(0)
    return PackedDecoder().eval()


def requests() -> dict[str, Request]:
    """A request for each of ``PROMPTS``."""
    return {name: Request(name, list(text.encode())) for name, text in PROMPTS.items()}


def share_prefix(server: PackedServer, requests: dict[str, Request], count: int) -> None:
    """Compute the first tokens of d, unrecorded and without a fault, and let a go on from there: both begin alike."""
    debugger, fault = server.debugger, server.fault
    server.debugger, server.fault = None, ""
    server.run([Scheduled(requests["d"], count)])
    requests["a"].slots, requests["a"].computed = requests["d"].slots[:count], count
    server.debugger, server.fault = debugger, fault


def scheduled(step: str, requests: dict[str, Request]) -> list[Scheduled]:
    """What a step of the plan computes: of each request so many tokens, or all that it has."""
    batch = []
    for item in step.split(","):
        name, _, count = item.partition(":")
        request = requests[name]
        batch.append(Scheduled(request, int(count) if count else len(request.tokens) - request.computed))
    return batch


def main() -> None:
    parser = argparse.ArgumentParser(description="Answer requests in packed batches, and record each step.")
    parser.add_argument("dump_path")
    parser.add_argument("plan", help=f"such as 'a:5,b;a,b': steps of ID[:TOKENS]; the ids are {', '.join(PROMPTS)}")
    parser.add_argument("--graphs", default="", metavar="N,...", help="pad each batch to one of these lengths")
    parser.add_argument("--prefix", type=int, default=0, metavar="N", help="N tokens of a are in the cache already")
    parser.add_argument("--fault", choices=FAULTS, default="")
    parser.add_argument("--loop", action="store_true", help="attention takes one request after the other")
    parser.add_argument("--level", default="mix")
    parser.add_argument("--task", choices=("tensor", "statistics"), default="tensor")
    parser.add_argument("--request-id", metavar="ID", help="record the rows of this request alone")
    parser.add_argument("--list", metavar="TEXT,...", help="record the calls alone whose names have one of these texts")
    options = parser.parse_args()
    from msprobe.pytorch import PrecisionDebugger

    section: dict[str, Any] = {"request_id": options.request_id} if options.request_id else {}
    if options.list:
        section["list"] = options.list.split(",")
    config = {"task": options.task, "dump_path": options.dump_path, "level": options.level, options.task: section}
    debugger = PrecisionDebugger(config)
    graphs = [int(length) for length in options.graphs.split(",") if length]
    server, present = PackedServer(build(), debugger, graphs, options.fault), requests()
    server.loop = options.loop
    if options.prefix:
        share_prefix(server, present, options.prefix)
    for step in options.plan.split(";"):
        server.run(scheduled(step, present))
    print({one.id: bytes(one.tokens[len(PROMPTS[one.id]) :]).decode("latin-1") for one in present.values()})


if __name__ == "__main__":
    main()
