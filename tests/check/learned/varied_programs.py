"""Trainings in variants that a relation must survive: other seed, data, rate, number of steps, precision, size.

``CORRECT`` are programs ``program(debugger, variant)``; ``FAULTS`` are the same with one planted fault each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from tests.check.correct_programs import Debugger, step, steps


@dataclass(frozen=True)
class Variant:
    """How a program is varied. ``wrong`` plants its fault."""

    seed: int = 0
    rate: float = 1e-3
    steps: int = 3
    depth: int = 2
    width: int = 32
    precision: str = "float32"
    wrong: str = ""


GOOD = Variant()
RERUN = Variant(seed=1, rate=2e-3, steps=5)
LARGER = Variant(seed=2, rate=5e-4, depth=4, width=64)
LOWER = Variant(seed=3, precision="bfloat16")
CAST = Variant(seed=4, precision="autocast")
VARIANTS = {"rerun": RERUN, "larger": LARGER, "bfloat16": LOWER, "autocast": CAST}


def cast(variant: Variant, wanted: bool = True) -> Any:
    """Return the context of automatic casts of a variant."""
    return torch.autocast("cpu", torch.bfloat16) if variant.precision == "autocast" and wanted else nullcontext()


def prepared(model: Any, variant: Variant) -> Any:
    """Return the model in the precision of the variant."""
    return model.bfloat16() if variant.precision == "bfloat16" else model


def hugging_face(name: str, variant: Variant) -> Any:
    """Return a tiny model of transformers."""
    import transformers as t

    depth, width = variant.depth, variant.width
    small = {
        "hidden_size": width, "num_hidden_layers": depth, "num_attention_heads": 4, "intermediate_size": 2 * width,
    }  # fmt: skip
    if name in ("llama", "mixtral"):
        more = {"num_local_experts": 4} if name == "mixtral" else {}
        kind = "Mixtral" if name == "mixtral" else "Llama"
        config = getattr(t, f"{kind}Config")(vocab_size=64, num_key_value_heads=2, **more, **small)
        return getattr(t, f"{kind}ForCausalLM")(config)
    if name == "gpt2":
        return t.GPT2LMHeadModel(t.GPT2Config(vocab_size=64, n_embd=width, n_layer=depth, n_head=4, n_positions=32))
    if name == "bert":
        return t.BertForMaskedLM(t.BertConfig(vocab_size=64, **small))
    if name == "vit":
        return t.ViTForImageClassification(t.ViTConfig(image_size=16, patch_size=4, num_labels=3, **small))
    config = t.T5Config(
        vocab_size=64, d_model=width, d_kv=8, d_ff=64, num_layers=depth, num_heads=4, decoder_start_token_id=0
    )
    return t.T5ForConditionalGeneration(config)


def transformer(debugger: Debugger, variant: Variant, name: str) -> None:
    """Train a model of transformers: warm-up, clipping, data of other shapes in each variant."""
    import transformers as t

    torch.manual_seed(variant.seed)
    model = prepared(hugging_face(name, variant), variant).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=variant.rate)
    schedule = t.get_linear_schedule_with_warmup(optimizer, 2, 10)
    rows, length = 4 + variant.seed % 3, 12 + variant.seed
    for _ in range(variant.steps):
        ids = torch.randint(4, 60, (rows, length))
        given: dict[str, Any] = {"input_ids": ids, "labels": ids}
        if name == "vit":
            images = torch.randn(rows, 3, 16, 16).to(next(model.parameters()).dtype)
            given = {"pixel_values": images, "labels": torch.randint(0, 3, (rows,))}
        elif variant.seed % 2:
            given["attention_mask"] = (torch.arange(length) < length - torch.arange(rows)[:, None] % 3).long()
        with step(debugger, model):
            with cast(variant):
                loss = model(**given).loss
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()


class Attention(nn.Module):
    """Attention written out, with a scale, a causal mask and dropout."""

    def __init__(self, width: int, wrong: str) -> None:
        super().__init__()
        self.project, self.out, self.wrong = nn.Linear(width, 3 * width), nn.Linear(width, width), wrong

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, length, width = x.shape
        query, key, value = (
            part.view(rows, length, 4, width // 4).transpose(1, 2) for part in self.project(x).chunk(3, -1)
        )
        scale = 1.0 if self.wrong == "scale" else (width // 4) ** -0.5
        scores = torch.matmul(query, key.transpose(-1, -2)) * scale
        future = torch.ones(length, length, dtype=torch.bool).triu(1)
        weights = torch.softmax(scores.masked_fill(future, float("-inf")), -1, dtype=torch.float32).to(x.dtype)
        if self.wrong != "dropout":
            weights = F.dropout(weights, 0.1, self.training)
        return self.out(torch.matmul(weights, value).transpose(1, 2).reshape(rows, length, width))


class Block(nn.Module):
    def __init__(self, width: int, wrong: str) -> None:
        super().__init__()
        eps = 1e-2 if wrong == "eps" else 1e-5
        self.norm, self.attention = nn.LayerNorm(width, eps=eps), Attention(width, wrong)
        self.norm2, self.wrong = nn.LayerNorm(width), wrong
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Dropout(0.1), nn.Linear(2 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.wrong == "order":
            x = x + self.mlp(self.norm2(x))
            return x + self.attention(self.norm(x))
        x = x + self.attention(self.norm(x))
        with torch.autocast("cpu", enabled=False) if self.wrong == "uncast" else nullcontext():
            if self.wrong == "uncast":
                x = x.float()
            return x + self.mlp(self.norm2(x))


class Language(nn.Module):
    """A language model with tied weights and its own blocks, the last of which has the fault of one layer."""

    def __init__(self, variant: Variant) -> None:
        super().__init__()
        self.embedding = nn.Embedding(48, variant.width)
        wrong = [variant.wrong if number == variant.depth - 1 else "" for number in range(variant.depth)]
        self.blocks = nn.ModuleList(Block(variant.width, one) for one in wrong)
        self.norm, self.head = nn.LayerNorm(variant.width), nn.Linear(variant.width, 48, bias=False)
        if variant.wrong != "untied":
            self.head.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden = self.embedding(tokens)
        for block in self.blocks:
            hidden = block(hidden)
        return self.head(self.norm(hidden))


def language(debugger: Debugger, variant: Variant) -> None:
    """Train the language model; faults of the model, of its settings, and of the loop."""
    torch.manual_seed(variant.seed)
    wrong = variant.wrong
    model = prepared(Language(variant), variant)
    rate = variant.rate * (1000.0 if wrong == "rate" else 1.0)
    if wrong == "frozen":
        model.blocks[0].mlp[0].requires_grad_(False)
    if wrong == "large":
        nn.init.normal_(model.blocks[1].mlp[3].weight, std=1e4)
    parameters = [one for name, one in model.named_parameters() if wrong != "left_out" or "norm2" not in name]
    betas = (0.5, 0.999) if wrong == "betas" else (0.9, 0.999)
    optimizer = torch.optim.AdamW(parameters, lr=rate, betas=betas)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 100)
    tokens = torch.randint(0, 48, (4, 9))
    for _ in range(variant.steps):
        tokens = tokens if wrong == "same_data" else torch.randint(0, 48, (4, 9))
        if wrong == "evaluation":
            model.eval()
        with step(debugger, model):
            if wrong != "not_cleared":
                optimizer.zero_grad()
            with cast(variant):
                logits = model(tokens[:, :-1])
            F.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten()).backward()
            if wrong != "not_clipped":
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            if wrong == "scheduled_twice":
                schedule.step()


class Images(nn.Module):
    def __init__(self, variant: Variant) -> None:
        super().__init__()
        width = variant.width // 4
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU())
        self.body = nn.ModuleList(
            nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.Dropout(0.2))
            for _ in range(variant.depth)
        )
        self.head, self.merge = nn.Linear(width, 5), variant.wrong == "merged"

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        hidden = self.stem(images)
        for layer in self.body:
            hidden = hidden + layer(hidden)
        return self.head(hidden.mean((2, 3)))


def images(debugger: Debugger, variant: Variant) -> None:
    """Train on images, and validate in evaluation mode in the same step."""
    torch.manual_seed(variant.seed)
    model = prepared(Images(variant), variant)
    optimizer = torch.optim.SGD(model.parameters(), lr=10 * variant.rate, momentum=0.9)
    dtype = next(model.parameters()).dtype
    rows = 4 + variant.seed
    for _ in steps(debugger, model, variant.steps):
        model.train()
        optimizer.zero_grad()
        with cast(variant):
            logits = model(torch.randn(rows, 3, 8, 8, dtype=dtype))
        F.cross_entropy(logits, torch.randint(0, 5, (rows,))).backward()
        optimizer.step()
        if variant.wrong != "validated_in_training":
            model.eval()
        with torch.no_grad():
            model(torch.randn(rows, 3, 8, 8, dtype=dtype))


class Recurrent(nn.Module):
    def __init__(self, variant: Variant) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, variant.width)
        self.lstm = nn.LSTM(variant.width, variant.width, variant.depth, batch_first=True)
        self.head = nn.Linear(variant.width, 20)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(self.embedding(tokens))[0])


def recurrent(debugger: Debugger, variant: Variant) -> None:
    """Train a recurrent model with two micro steps for each step of the optimizer."""
    torch.manual_seed(variant.seed)
    model = prepared(Recurrent(variant), variant)
    optimizer = torch.optim.Adam(model.parameters(), lr=variant.rate)
    for _ in steps(debugger, model, variant.steps):
        optimizer.zero_grad()
        for _ in range(2):
            tokens = torch.randint(0, 20, (3, 7))
            with cast(variant):
                logits = model(tokens[:, :-1])
            (F.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten()) / 2).backward()
        optimizer.step()


def variational(debugger: Debugger, variant: Variant) -> None:
    """Train an autoencoder with sampled codes and a growing weight of its second term."""
    torch.manual_seed(variant.seed)
    width = variant.width
    model = nn.ModuleDict({"encode": nn.Linear(12, width), "decode": nn.Linear(width // 2, 12)})
    optimizer = torch.optim.Adam(model.parameters(), lr=variant.rate)
    for number in steps(debugger, model, variant.steps):
        data = torch.rand(6, 12)
        mean, spread = model["encode"](data).chunk(2, 1)
        again = torch.sigmoid(model["decode"](mean + torch.randn_like(spread) * (spread / 2).exp()))
        known = -0.5 * (1 + spread - mean**2 - spread.exp()).sum()
        optimizer.zero_grad()
        (F.binary_cross_entropy(again, data, reduction="sum") + known * min(1.0, 0.1 * number)).backward()
        optimizer.step()


def adversaries(debugger: Debugger, variant: Variant) -> None:
    """Train two networks against each other."""
    torch.manual_seed(variant.seed)
    width = variant.width
    model = nn.ModuleDict({
        "generator": nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, 8)),
        "critic": nn.Sequential(nn.Linear(8, width), nn.LeakyReLU(0.2), nn.Linear(width, 1)),
    })
    first = torch.optim.Adam(model["critic"].parameters(), lr=variant.rate)
    second = torch.optim.Adam(model["generator"].parameters(), lr=variant.rate)
    for _ in steps(debugger, model, variant.steps):
        fake, real = model["generator"](torch.randn(6, 4)), torch.randn(6, 8)
        first.zero_grad()
        scores = model["critic"](real), model["critic"](fake.detach())
        loss = F.binary_cross_entropy_with_logits(scores[0], torch.ones(6, 1))
        (loss + F.binary_cross_entropy_with_logits(scores[1], torch.zeros(6, 1))).backward()
        first.step()
        second.zero_grad()
        F.binary_cross_entropy_with_logits(model["critic"](fake), torch.ones(6, 1)).backward()
        second.step()


Program = Callable[[Debugger, Variant], None]
TRANSFORMERS = ("llama", "mixtral", "gpt2", "bert", "vit", "t5")
OWN: dict[str, Program] = {one.__name__: one for one in (language, images, recurrent, variational, adversaries)}
FULL_PRECISION = {"variational", "adversaries"}


def program_of(name: str) -> Program:
    """Return a program by name."""
    if name in OWN:
        return OWN[name]
    return lambda debugger, variant: transformer(debugger, variant, name)


def clean_pairs() -> Iterator[tuple[str, str]]:
    """Yield the programs with the variants that relations of their plain run must hold for."""
    for name in (*TRANSFORMERS, *OWN):
        for variant in VARIANTS:
            if name not in FULL_PRECISION or VARIANTS[variant].precision == "float32":
                yield name, variant


FAULTS: dict[str, tuple[str, str, str, Variant]] = {
    "scale": ("language", "learned:argument", "blocks.1.attention", GOOD),
    "dropout": ("language", "learned:contained", "blocks.1.attention", GOOD),
    "eps": ("language", "learned:argument", "blocks.1.norm", GOOD),
    "order": ("language", "learned:order", "blocks.1", GOOD),
    "uncast": ("language", "learned:output", "blocks.1.mlp", CAST),
    "untied": ("language", "learned:consistent", "head.weight", GOOD),
    "frozen": ("language", "learned:consistent", "blocks.0.mlp.0", GOOD),
    "left_out": ("language", "learned:consistent", "blocks.0.norm2", GOOD),
    "betas": ("language", "learned:argument", "optimizer 0", GOOD),
    "rate": ("language", "learned:argument", "optimizer 0", GOOD),
    "large": ("language", "learned:output", "blocks.1.mlp", GOOD),
    "same_data": ("language", "learned:argument", "training step", GOOD),
    "evaluation": ("language", "learned:argument", "embedding", GOOD),
    "not_cleared": ("language", "learned:contained", "training step", GOOD),
    "not_clipped": ("language", "learned:contained", "training step", GOOD),
    "scheduled_twice": ("language", "learned:argument", "training step", GOOD),
    "validated_in_training": ("images", "learned:argument", "stem.0", GOOD),
}
"""By fault: the program, the rule that finds it, a text that the place has, and the variant that is learned from."""


def planted(name: str) -> tuple[Program, Variant, Variant]:
    """Return the program of a fault, what it is learned from, and the variant with the fault."""
    program, _, _, base = FAULTS[name]
    return program_of(program), base, replace(base, seed=7, wrong=name)
