"""A server with a row per request: ``python -m tests.compare.requests.padded_job FOLDER left|right IDS [FAULT]``.

IDS are requests in the order of the batch, such as ``b,a,c``. FAULT is ``mask`` (the first request sees its padding, or
what comes after its tokens), ``position`` or ``scale`` (of the third token of the first request).
"""

from __future__ import annotations

import sys

import torch
from torch import nn

from msprobe.pytorch import PrecisionDebugger

WIDTH, HEADS, WORDS, STEPS = 16, 2, 64, 3
PROMPTS = {"a": [5, 9, 33, 2, 7], "b": [1, 2, 3, 4, 5, 6, 7, 8], "c": [40, 41], "d": [9, 9, 9, 9, 9]}


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        shape = (*x.shape[:2], HEADS, WIDTH // HEADS)
        query, key, value = (part.reshape(shape).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        length = x.shape[1]
        allowed = torch.tril(torch.ones(length, length)).bool() & (mask[:, None, None, :] > 0)
        scores = torch.matmul(query, key.transpose(2, 3)).masked_fill(~allowed, -1e9)
        return self.out(torch.matmul(torch.softmax(scores, -1), value).transpose(1, 2).reshape(x.shape))


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(32, WIDTH)
        self.norms, self.layers = (
            nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2)),
            nn.ModuleList(Attention() for _ in range(2)),
        )
        self.head = nn.Linear(WIDTH, WORDS)
        self.fault: tuple[int, int] | None = None

    def forward(self, ids: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids) + self.places(positions)
        for norm, layer in zip(self.norms, self.layers, strict=True):
            y = norm(x)
            if self.fault is not None:
                y = y.clone()
                y[self.fault] = torch.mul(y[self.fault], 1.5)
            x = x + layer(y, mask)
        return x

    def logits(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(x)


def main(folder: str, side: str, names: list[str], fault: str) -> None:
    torch.manual_seed(0)
    model = Decoder().eval()
    texts = {name: list(PROMPTS[name]) for name in names}
    debugger = PrecisionDebugger(task="tensor", dump_path=folder, level="mix")
    for _ in range(STEPS):
        width = max(map(len, texts.values()))
        pads = [width - len(texts[name]) for name in names]
        before = [pad if side == "left" else 0 for pad in pads]
        ids, mask = torch.zeros(len(names), width, dtype=torch.long), torch.zeros(len(names), width, dtype=torch.long)
        positions = torch.zeros(len(names), width, dtype=torch.long)
        for row, (name, start) in enumerate(zip(names, before, strict=True)):
            rows = slice(start, start + len(texts[name]))
            ids[row, rows], mask[row, rows] = torch.tensor(texts[name]), 1
            positions[row, rows] = torch.arange(len(texts[name]))
        if fault == "position":
            positions[0, before[0] + 2] += 1
        if fault == "mask":
            mask[0] = 1
        model.fault = (0, before[0] + 2) if fault == "scale" else None
        counts = {name: len(texts[name]) for name in names}
        debugger.start(model=model, rank_id=0, scheduled_tokens=counts, computed_tokens=dict.fromkeys(names, 0))
        with torch.inference_mode():
            hidden = model(ids, mask, positions)
            last = [start + len(texts[name]) - 1 for name, start in zip(names, before, strict=True)]
            chosen = model.logits(hidden[torch.arange(len(names)), torch.tensor(last)]).argmax(-1).tolist()
        debugger.stop()
        debugger.step()
        for name, word in zip(names, chosen, strict=True):
            texts[name].append(word)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3].split(","), sys.argv[4] if len(sys.argv) > 4 else "")
