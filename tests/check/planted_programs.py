"""Trainings with one planted fault each, and right without it: ``program(debugger, wrong)``.

``PLANTED`` says of each which rule has to name it, and a word of the place that it has to name.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from tests.check.correct_programs import STEPS, Convolutions, Debugger, step, steps

Program = Callable[[Debugger, bool], None]


def perceptron() -> nn.ModuleDict:
    return nn.ModuleDict({
        "body": nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16)),
        "head": nn.Linear(16, 4),
    })


def classify(model: Any) -> torch.Tensor:
    return F.cross_entropy(model["head"](model["body"](torch.randn(6, 8))), torch.randint(0, 4, (6,)))


def cut_path(debugger: Debugger, wrong: bool) -> None:
    model = perceptron()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in steps(debugger, model):
        hidden = model["body"](torch.randn(6, 8))
        optimizer.zero_grad()
        F.cross_entropy(model["head"](hidden.detach() if wrong else hidden), torch.randint(0, 4, (6,))).backward()
        optimizer.step()


def under_no_grad(debugger: Debugger, wrong: bool) -> None:
    model = perceptron()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in steps(debugger, model):
        with torch.no_grad() if wrong else nullcontext():
            hidden = model["body"](torch.randn(6, 8))
        optimizer.zero_grad()
        F.cross_entropy(model["head"](hidden), torch.randint(0, 4, (6,))).backward()
        optimizer.step()


def head_alone(debugger: Debugger, wrong: bool) -> None:
    model = perceptron()
    optimizer = torch.optim.Adam((model["head"] if wrong else model).parameters(), lr=1e-2)
    for _ in steps(debugger, model):
        optimizer.zero_grad()
        classify(model).backward()
        optimizer.step()


def replaced_head(debugger: Debugger, wrong: bool) -> None:
    model = perceptron()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    model["head"] = nn.Linear(16, 4)
    if not wrong:
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in steps(debugger, model):
        optimizer.zero_grad()
        classify(model).backward()
        optimizer.step()


def step_without_effect(debugger: Debugger, wrong: bool) -> None:
    """A compiled step without hooks that does nothing, or one that does."""
    model = perceptron()
    for _ in steps(debugger, model):
        model.zero_grad()
        classify(model).backward()
        for parameter in () if wrong else model.parameters():
            with torch.no_grad():
                parameter.sub_(parameter.grad, alpha=0.1)


def never_cleared(debugger: Debugger, wrong: bool) -> None:
    model = perceptron()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in steps(debugger, model):
        classify(model).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if not wrong:
            optimizer.zero_grad(set_to_none=False)


def never_cleared_while_scaled(debugger: Debugger, wrong: bool) -> None:
    """Gradients of a step that a gradient scaler skips stay until the next epoch begins."""
    model = perceptron()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**30, backoff_factor=2.0**-20, growth_interval=1000)
    for number in steps(debugger, model, 4):
        if not wrong or number == 2:
            optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            loss = classify(model)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()


def never_cleared_in_closure(debugger: Debugger, wrong: bool) -> None:
    model = perceptron()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=2)
    data, classes = torch.randn(6, 8), torch.randint(0, 4, (6,))

    def closure() -> torch.Tensor:
        if not wrong:
            optimizer.zero_grad()
        loss = F.cross_entropy(model["head"](model["body"](data)), classes)
        loss.backward()
        return loss

    for _ in steps(debugger, model, 2):
        optimizer.step(closure)


def cleared_elsewhere(debugger: Debugger, wrong: bool) -> None:
    model = perceptron()
    other = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    for _ in steps(debugger, model):
        (other if wrong else model).zero_grad()
        classify(model).backward()
        optimizer.step()


def other_schedule(debugger: Debugger, wrong: bool) -> None:
    model = perceptron()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    if wrong:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in steps(debugger, model):
        optimizer.zero_grad()
        classify(model).backward()
        optimizer.step()
        schedule.step()


def early_schedule(debugger: Debugger, wrong: bool) -> None:
    model = perceptron()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    for _ in steps(debugger, model):
        if wrong:
            schedule.step()
        optimizer.zero_grad()
        classify(model).backward()
        optimizer.step()
        if not wrong:
            schedule.step()


def clipped_to_nothing(debugger: Debugger, wrong: bool) -> None:
    model = perceptron()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in steps(debugger, model):
        optimizer.zero_grad()
        classify(model).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.0 if wrong else 1.0)
        optimizer.step()


class OwnAttention(nn.Module):
    def __init__(self, wrong: bool) -> None:
        super().__init__()
        self.project, self.wrong = nn.Linear(16, 48), wrong

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.project(x).chunk(3, -1)
        share = 0.1 if self.wrong or self.training else 0.0
        return F.scaled_dot_product_attention(query[:, None], key[:, None], value[:, None], dropout_p=share)[:, 0]


def dropout_in_evaluation(debugger: Debugger, wrong: bool) -> None:
    model = nn.Sequential(nn.Linear(8, 16), OwnAttention(wrong), nn.Linear(16, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in steps(debugger, model):
        model.train()
        optimizer.zero_grad()
        model(torch.randn(3, 5, 8)).square().mean().backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            model(torch.randn(3, 5, 8))


def left_in_evaluation(debugger: Debugger, wrong: bool) -> None:
    model = Convolutions()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in steps(debugger, model):
        optimizer.zero_grad()
        F.cross_entropy(model(torch.randn(4, 3, 8, 8)), torch.randint(0, 4, (4,))).backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            model(torch.randn(4, 3, 8, 8))
        if not wrong:
            model.train()


def evaluated_in_training(debugger: Debugger, wrong: bool) -> None:
    model = Convolutions()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for number in steps(debugger, model):
        if number == 1:
            model.train(wrong)
            with torch.no_grad():
                model(torch.randn(4, 3, 8, 8))
            model.train()
            continue
        optimizer.zero_grad()
        F.cross_entropy(model(torch.randn(4, 3, 8, 8)), torch.randint(0, 4, (4,))).backward()
        optimizer.step()


class Stages(Convolutions):
    """Freezes its first stage; ``wrong`` forgets it in ``train``."""

    def __init__(self, wrong: bool) -> None:
        super().__init__()
        self.wrong = wrong
        self.stem.requires_grad_(False)

    def train(self, mode: bool = True) -> Stages:
        super().train(mode)
        if not self.wrong:
            self.stem.eval()
        return self


def thawed_by_train(debugger: Debugger, wrong: bool) -> None:
    model = Stages(wrong)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    for _ in steps(debugger, model):
        model.train()
        optimizer.zero_grad()
        F.cross_entropy(model(torch.randn(4, 3, 8, 8)), torch.randint(0, 4, (4,))).backward()
        optimizer.step()


def unready_spectral_norm(debugger: Debugger, wrong: bool) -> None:
    model = nn.Sequential(nn.utils.spectral_norm(nn.Linear(32, 32)), nn.ReLU(), nn.Linear(32, 1))
    if not wrong:
        for _ in range(5):
            model(torch.randn(2, 32))
    for _ in steps(debugger, model):
        model.eval()
        with torch.no_grad():
            model(torch.randn(4, 32))


def wide_target(debugger: Debugger, wrong: bool) -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in steps(debugger, model):
        target = torch.randn(6)
        optimizer.zero_grad()
        F.mse_loss(model(torch.randn(6, 8)), target if wrong else target[:, None]).backward()
        optimizer.step()


def term_without_path(debugger: Debugger, wrong: bool) -> None:
    model = perceptron()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in steps(debugger, model):
        hidden = model["body"](torch.randn(6, 8))
        loss = F.cross_entropy(model["head"](hidden), torch.randint(0, 4, (6,)))
        distance = F.mse_loss(hidden.detach() if wrong else hidden, torch.randn(6, 16))
        optimizer.zero_grad()
        (loss + 0.1 * distance).backward()
        optimizer.step()


def loss_from_numbers(debugger: Debugger, wrong: bool) -> None:
    model = perceptron()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in steps(debugger, model):
        loss = classify(model)
        if wrong:
            loss = torch.tensor(loss.item(), requires_grad=True)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


class Generator(nn.Module):
    def __init__(self, wrong: bool) -> None:
        super().__init__()
        self.embedding, self.head, self.wrong = nn.Embedding(16, 8), nn.Linear(8, 16), wrong

    @torch.no_grad()
    def generate(self, tokens: torch.Tensor, max_new_tokens: int) -> torch.Tensor:
        for _ in range(max_new_tokens + tokens.shape[1] if self.wrong else max_new_tokens):
            tokens = torch.cat([tokens, self.head(self.embedding(tokens[:, -1:])).argmax(-1)], 1)
        return tokens


def too_many_tokens(debugger: Debugger, wrong: bool) -> None:
    model = Generator(wrong).eval()
    for _ in steps(debugger, model):
        model.generate(torch.randint(0, 16, (2, 3)), max_new_tokens=4)


def one_layer_uncast(debugger: Debugger, wrong: bool) -> None:
    blocks = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(3))
    optimizer = torch.optim.Adam(blocks.parameters(), lr=1e-2)
    for _ in steps(debugger, blocks):
        hidden = torch.randn(4, 8)
        for number, block in enumerate(blocks):
            with torch.autocast("cpu", torch.bfloat16, enabled=not (wrong and number == 1)):
                hidden = block(hidden.float())
        optimizer.zero_grad()
        hidden.float().square().mean().backward()
        optimizer.step()


def uncast_later(debugger: Debugger, wrong: bool) -> None:
    model = perceptron()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for number in steps(debugger, model):
        with torch.autocast("cpu", torch.bfloat16, enabled=not (wrong and number == 2)):
            loss = classify(model)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def not_a_number(debugger: Debugger, wrong: bool) -> None:
    model = perceptron()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for number in steps(debugger, model):
        hidden = model["body"](torch.randn(6, 8))
        shift = -1e9 if wrong and number == 1 else 100.0
        loss = F.cross_entropy(model["head"](torch.log(hidden + shift)), torch.randint(0, 4, (6,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def dead_units(debugger: Debugger, wrong: bool) -> None:
    model = perceptron()
    with torch.no_grad():
        model["body"][0].bias.fill_(-100.0 if wrong else 0.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in steps(debugger, model):
        optimizer.zero_grad()
        classify(model).backward()
        optimizer.step()


def saturated(debugger: Debugger, wrong: bool) -> None:
    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 4))
    with torch.no_grad():
        model[0].bias.fill_(50.0 if wrong else 0.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    for _ in steps(debugger, model):
        optimizer.zero_grad()
        F.cross_entropy(model(torch.randn(6, 8)), torch.randint(0, 4, (6,))).backward()
        optimizer.step()


class Softmax(nn.Module):
    def __init__(self, wrong: bool) -> None:
        super().__init__()
        self.wrong = wrong

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights = x.exp()
        return weights / (weights.amax(-1, keepdim=True) if self.wrong else weights.sum(-1, keepdim=True))


def no_distribution(debugger: Debugger, wrong: bool) -> None:
    model = nn.Sequential(nn.Linear(8, 5), Softmax(wrong))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    for _ in steps(debugger, model):
        optimizer.zero_grad()
        model(torch.randn(6, 8)).square().mean().backward()
        optimizer.step()


class Causal(nn.Module):
    def __init__(self, later: int) -> None:
        super().__init__()
        self.project, self.later = nn.Linear(16, 48), later

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.project(x).chunk(3, -1)
        weights = query @ key.transpose(-1, -2)
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1 + self.later)
        return torch.softmax(weights.masked_fill(mask, float("-inf")), -1) @ value


def sees_next(debugger: Debugger, wrong: bool) -> None:
    model = nn.Sequential(nn.Linear(8, 16), Causal(int(wrong)), Causal(int(wrong)), nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    for _ in steps(debugger, model):
        optimizer.zero_grad()
        model(torch.randn(3, 6, 8)).square().mean().backward()
        optimizer.step()


class Residual(nn.Module):
    def __init__(self, scale: float) -> None:
        super().__init__()
        self.layer, self.scale = nn.Linear(16, 16), scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.scale * self.layer(x)


def exploding(debugger: Debugger, wrong: bool) -> None:
    model = nn.ModuleDict({"layers": nn.ModuleList(Residual(30.0 if wrong else 0.3) for _ in range(6))})
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    for _ in steps(debugger, model):
        hidden = torch.randn(4, 16)
        for layer in model["layers"]:
            hidden = layer(hidden)
        optimizer.zero_grad()
        hidden.square().mean().div(1e6 if wrong else 1.0).backward()
        optimizer.step()


def begun_again(debugger: Debugger, wrong: bool) -> None:
    model = perceptron()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    for number in range(STEPS):
        if wrong and number == 1:
            model["body"][2].reset_parameters()
        with step(debugger, model):
            optimizer.zero_grad()
            classify(model).backward()
            optimizer.step()


def begun_again_inside(debugger: Debugger, wrong: bool) -> None:
    model = perceptron()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    for number in steps(debugger, model):
        if wrong and number == 1:
            nn.init.normal_(model["head"].weight)
        optimizer.zero_grad()
        classify(model).backward()
        optimizer.step()


def untied(debugger: Debugger, wrong: bool) -> None:
    model = nn.ModuleDict({"embedding": nn.Embedding(16, 8), "head": nn.Linear(8, 16, bias=False)})
    model["head"].weight = (
        nn.Parameter(model["embedding"].weight.detach().clone()) if wrong else model["embedding"].weight
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in steps(debugger, model):
        tokens = torch.randint(0, 16, (4, 6))
        optimizer.zero_grad()
        logits = model["head"](model["embedding"](tokens[:, :-1]))
        F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).backward()
        optimizer.step()


class ImagesAndText(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.look, self.embedding, self.head = nn.Linear(12, 8), nn.Embedding(16, 8), nn.Linear(8, 4)

    def forward(self, images: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        seen = self.look(images.flatten(-3)).reshape(-1, 8).mean(0, keepdim=images.dim() == 5)
        return self.head(seen + self.embedding(tokens).mean(1))


def merged_images(debugger: Debugger, wrong: bool) -> None:
    model = ImagesAndText()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(STEPS):
        images = torch.randn(4, 3, 2, 2)
        with step(debugger, model):
            optimizer.zero_grad()
            logits = model(images[None] if wrong else images, torch.randint(0, 16, (4, 6)))
            F.cross_entropy(logits, torch.randint(0, 4, (4,))).backward()
            optimizer.step()


class Noise(torch.utils.data.Dataset[torch.Tensor]):
    """Draws samples from a generator that each worker copies; the right one asks torch, which seeds workers apart."""

    def __init__(self, wrong: bool) -> None:
        self.generator = torch.Generator().manual_seed(3) if wrong else None

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.randn(8, generator=self.generator)


def alike_workers(debugger: Debugger, wrong: bool) -> None:
    model = perceptron()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader(Noise(wrong), batch_size=4, num_workers=2, multiprocessing_context="fork")
    batches = iter(loader)
    for _ in steps(debugger, model, 4):
        optimizer.zero_grad()
        F.cross_entropy(model["head"](model["body"](next(batches))), torch.randint(0, 4, (4,))).backward()
        optimizer.step()


PLANTED: dict[str, tuple[Program, str, str]] = {
    "cut_path": (cut_path, "parameter_without_gradient", "body"),
    "under_no_grad": (under_no_grad, "parameter_without_gradient", "body"),
    "head_alone": (head_alone, "parameter_without_optimizer", "body"),
    "replaced_head": (replaced_head, "parameter_without_optimizer", "head"),
    "step_without_effect": (step_without_effect, "parameter_not_updated", "body.0"),
    "never_cleared": (never_cleared, "gradients_not_cleared", "body.0"),
    "never_cleared_in_closure": (never_cleared_in_closure, "gradients_not_cleared", "body.0"),
    "cleared_elsewhere": (cleared_elsewhere, "gradients_not_cleared", "body.0"),
    "other_schedule": (other_schedule, "rate_does_not_follow", ""),
    "early_schedule": (early_schedule, "scheduler_before_optimizer", ""),
    "clipped_to_nothing": (clipped_to_nothing, "clipping_without_measure", ""),
    "dropout_in_evaluation": (dropout_in_evaluation, "dropout_in_evaluation", "1"),
    "left_in_evaluation": (left_in_evaluation, "evaluation_mode_in_training", "stem.1"),
    "evaluated_in_training": (evaluated_in_training, "training_mode_in_evaluation", "stem.1"),
    "thawed_by_train": (thawed_by_train, "frozen_norm_in_training", "stem.1"),
    "unready_spectral_norm": (unready_spectral_norm, "spectral_norm_not_ready", "0"),
    "wide_target": (wide_target, "loss_shapes_differ", "mse_loss"),
    "term_without_path": (term_without_path, "loss_without_path", "mse_loss"),
    "loss_from_numbers": (loss_from_numbers, "loss_without_path", "body.0"),
    "too_many_tokens": (too_many_tokens, "generation_too_long", ""),
    "one_layer_uncast": (one_layer_uncast, "autocast_not_applied", "1"),
    "uncast_later": (uncast_later, "dtype_changes_between_steps", "body"),
    "not_a_number": (not_a_number, "non_finite", "log"),
    "dead_units": (dead_units, "dead_activation", "body.1"),
    "saturated": (saturated, "dead_activation", "1"),
    "no_distribution": (no_distribution, "softmax_rows", "1"),
    "sees_next": (sees_next, "attention_sees_future", "1"),
    "exploding": (exploding, "norms_explode", "layers"),
    "begun_again": (begun_again, "initialised_again", "body.2"),
    "begun_again_inside": (begun_again_inside, "initialised_again", "normal_"),
    "alike_workers": (alike_workers, "batches_repeat", "linear"),
    "untied": (untied, "tied_weights_apart", "head"),
    "merged_images": (merged_images, "batch_merged", "look"),
}  # fmt: skip
"""The program, the rule that finds its fault, and a text that the place has."""
