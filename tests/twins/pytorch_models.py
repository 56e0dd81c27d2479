"""Models in PyTorch, recorded: ``python -m tests.twins.pytorch_models FOLDER NAME...``.

Writes ``FOLDER/weights/NAME.npz``, and records below ``FOLDER/pytorch/LEVEL/NAME/VARIANT``.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from tests.twins.models import (
    CLASSES,
    CODE,
    EXPERTS,
    HEADS,
    LEVELS,
    VARIANTS,
    VOCABULARY,
    WIDTH,
    faulty,
    inputs,
)
from tests.twins.pytorch_recording import record_steps, run


class Mlp(nn.Module):
    def __init__(self, wrong: bool) -> None:
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(WIDTH, 16), nn.Linear(16, 16), nn.Linear(16, CLASSES)
        self.act1, self.act2 = nn.ReLU(), nn.Sigmoid() if wrong else nn.ReLU()

    def forward(self, x: Any) -> Any:
        return self.fc3(self.act2(self.fc2(self.act1(self.fc1(x)))))


class Cnn(nn.Module):
    def __init__(self, wrong: bool) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
        self.conv2 = nn.Conv2d(4, 6, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(6, eps=0.1 if wrong else 1e-5)
        self.pool, self.head = nn.MaxPool2d(2, 2), nn.Linear(6 * 4, CLASSES)

    def forward(self, x: Any) -> Any:
        x = self.pool(F.relu(self.bn1(self.conv1(x))))
        x = self.pool(F.relu(self.bn2(self.conv2(x))))
        return self.head(torch.flatten(x, 1))


def attend(q: Any, k: Any, v: Any, scale: float, causal: bool) -> Any:
    batch, length, width = q.shape
    q, k, v = (part.view(batch, length, HEADS, width // HEADS).transpose(1, 2) for part in (q, k, v))
    scores = q @ k.transpose(-2, -1) / scale
    if causal:
        mask = torch.ones(length, length, dtype=torch.bool).tril()
        scores = scores.masked_fill(~mask, -1e4)
    return (F.softmax(scores, dim=-1) @ v).transpose(1, 2).reshape(batch, length, width)


class EncoderAttention(nn.Module):
    def __init__(self, wrong: bool) -> None:
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.scale = 1.0 if wrong else math.sqrt(WIDTH // HEADS)

    def forward(self, x: Any) -> Any:
        return self.o_proj(attend(self.q_proj(x), self.k_proj(x), self.v_proj(x), self.scale, causal=False))


class EncoderLayer(nn.Module):
    def __init__(self, wrong: bool) -> None:
        super().__init__()
        self.attn, self.norm1, self.norm2 = EncoderAttention(wrong), nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 16), nn.Linear(16, WIDTH)

    def forward(self, x: Any) -> Any:
        x = self.norm1(x + self.attn(x))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class Encoder(nn.Module):
    def __init__(self, wrong: bool) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(EncoderLayer(wrong and number == 1) for number in range(2))
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, tokens: Any) -> Any:
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x.mean(dim=1))


class GptAttention(nn.Module):
    def __init__(self, wrong: bool) -> None:
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.causal = not wrong

    def forward(self, x: Any) -> Any:
        q, k, v = self.c_attn(x).split(WIDTH, dim=2)
        return self.c_proj(attend(q, k, v, math.sqrt(WIDTH // HEADS), self.causal))


class GptBlock(nn.Module):
    def __init__(self, wrong: bool) -> None:
        super().__init__()
        self.ln_1, self.attn, self.ln_2 = nn.LayerNorm(WIDTH), GptAttention(wrong), nn.LayerNorm(WIDTH)
        self.c_fc, self.mlp_proj = nn.Linear(WIDTH, 32), nn.Linear(32, WIDTH)

    def forward(self, x: Any) -> Any:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp_proj(F.gelu(self.c_fc(self.ln_2(x))))


class Gpt(nn.Module):
    def __init__(self, wrong: bool) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(5, WIDTH)
        self.h = nn.ModuleList(GptBlock(wrong and number == 1) for number in range(2))
        self.ln_f, self.lm_head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens: Any) -> Any:
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x)).reshape(-1, VOCABULARY)


class Lstm(nn.Module):
    def __init__(self, wrong: bool) -> None:
        super().__init__()
        self.embed, self.lstm = nn.Embedding(VOCABULARY, WIDTH), nn.LSTM(WIDTH, 6, batch_first=True)
        self.head, self.step = nn.Linear(6, CLASSES), 0 if wrong else -1

    def forward(self, tokens: Any) -> Any:
        return self.head(self.lstm(self.embed(tokens))[0][:, self.step])


class Expert(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 16), nn.Linear(16, WIDTH)

    def forward(self, x: Any) -> Any:
        return self.down(F.silu(self.up(x)))


class Experts(nn.Module):
    def __init__(self, wrong: bool) -> None:
        super().__init__()
        self.router, self.experts = nn.Linear(WIDTH, EXPERTS), nn.ModuleList(Expert() for _ in range(EXPERTS))
        self.normalised = not wrong

    def forward(self, x: Any) -> Any:
        weights = F.softmax(self.router(x), dim=-1)
        weights = weights * (weights >= weights.topk(2, dim=-1)[0][..., -1:])
        if self.normalised:
            weights = weights / weights.sum(dim=-1, keepdim=True)
        result = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            result = result + expert(x) * weights[..., number : number + 1]
        return result


class Moe(nn.Module):
    def __init__(self, wrong: bool) -> None:
        super().__init__()
        self.embed, self.moe, self.norm = nn.Embedding(VOCABULARY, WIDTH), Experts(wrong), nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, tokens: Any) -> Any:
        x = self.embed(tokens)
        return self.head(self.norm(x + self.moe(x)).mean(dim=1))


MODELS = {"mlp": Mlp, "cnn": Cnn, "encoder": Encoder, "gpt": Gpt, "lstm": Lstm, "moe": Moe}


def _record(name: str, folder: Path) -> None:
    torch.manual_seed(0)
    correct = MODELS[name](False)
    weights = {key: value.detach().numpy() for key, value in correct.state_dict().items() if value.dim()}
    np.savez(folder / "weights" / f"{name}.npz", **weights)
    given, labels = map(torch.tensor, inputs(name))
    for variant in VARIANTS:
        for level in LEVELS:
            model = MODELS[name](variant == CODE)
            state = {key: torch.tensor(value) for key, value in faulty(weights, name, variant).items()}
            model.load_state_dict(state, strict=False)

            def step(model: nn.Module = model) -> None:
                F.cross_entropy(model(given), labels.long()).backward()

            record_steps(folder / "pytorch" / level / name / variant, level, model, step)


if __name__ == "__main__":
    run(_record)
