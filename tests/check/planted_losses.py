"""Trainings with a fault in what their losses compare or in what reaches them: ``program(debugger, wrong)``.

``PLANTED_LOSSES`` says of each which rule has to name it, and a word of the place that it has to name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from tests.check.correct_programs import Debugger, steps
from tests.check.planted_programs import Causal, Program, perceptron

SAMPLES, FEATURES, CLASSES = 6, 8, 4


def train(debugger: Debugger, model: Any, loss: Callable[[], torch.Tensor]) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in steps(debugger, model):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()


def softmax_twice(debugger: Debugger, wrong: bool) -> None:
    model = nn.Sequential(nn.Linear(FEATURES, CLASSES), nn.Softmax(-1) if wrong else nn.Identity())
    classes = torch.randint(0, CLASSES, (SAMPLES,))
    train(debugger, model, lambda: F.cross_entropy(model(torch.randn(SAMPLES, FEATURES)), classes))


def sigmoid_twice(debugger: Debugger, wrong: bool) -> None:
    model = nn.Sequential(nn.Linear(FEATURES, CLASSES), nn.Sigmoid() if wrong else nn.Identity())
    targets = torch.rand(SAMPLES, CLASSES).round()
    train(debugger, model, lambda: F.binary_cross_entropy_with_logits(model(torch.randn(SAMPLES, FEATURES)), targets))


def no_logarithms(debugger: Debugger, wrong: bool) -> None:
    model = nn.Linear(FEATURES, CLASSES)
    normalise = F.softmax if wrong else F.log_softmax
    targets = torch.randn(SAMPLES, CLASSES).softmax(-1)
    train(debugger, model, lambda: F.kl_div(normalise(model(torch.randn(SAMPLES, FEATURES)), -1), targets))


class Tokens(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.body, self.head = nn.Embedding(32, 16), Causal(0), nn.Linear(16, 32)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.head(self.body(self.table(tokens))[..., :16])
        return scores


def same_token(debugger: Debugger, wrong: bool) -> None:
    model = Tokens()

    def loss() -> torch.Tensor:
        tokens = torch.randint(0, 32, (3, 9))
        scores = model(tokens)
        scores, targets = (scores, tokens) if wrong else (scores[:, :-1], tokens[:, 1:])
        return F.cross_entropy(scores.flatten(0, 1), targets.flatten())

    train(debugger, model, loss)


def all_pairs(debugger: Debugger, wrong: bool) -> None:
    model = nn.Sequential(nn.Linear(FEATURES, 16), nn.ReLU(), nn.Linear(16, 1))

    def loss() -> torch.Tensor:
        found = model(torch.randn(SAMPLES, FEATURES))
        return ((found if wrong else found.squeeze(-1)) - torch.randn(SAMPLES)).abs().mean()

    train(debugger, model, loss)


class Recurrent(nn.Module):
    def __init__(self, wrong: bool) -> None:
        super().__init__()
        self.cells, self.head = nn.GRU(FEATURES, 16, batch_first=not wrong), nn.Linear(16, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.head(self.cells(x)[0][:, -1])
        return scores


def other_axis(debugger: Debugger, wrong: bool) -> None:
    model = Recurrent(wrong)
    classes = torch.randint(0, CLASSES, (SAMPLES,))
    train(debugger, model, lambda: F.cross_entropy(model(torch.randn(SAMPLES, 9, FEATURES)), classes))


def cut_sample(debugger: Debugger, wrong: bool) -> None:
    model = nn.ModuleDict({"encoder": nn.Linear(FEATURES, 2 * 3), "decoder": nn.Linear(3, FEATURES)})

    def loss() -> torch.Tensor:
        data = torch.randn(SAMPLES, FEATURES)
        mean, size = model["encoder"](data).chunk(2, -1)
        drawn = torch.distributions.Normal(mean, size.exp())
        found = model["decoder"](drawn.sample() if wrong else drawn.rsample())
        return F.mse_loss(found, data) + (mean.square() + size.square()).mean()

    train(debugger, model, loss)


def penalty_without_graph(debugger: Debugger, wrong: bool) -> None:
    """The penalty is made of a gradient of two paths; a term of the data alone is there for the figure."""
    model = nn.ModuleDict({"first": nn.Linear(FEATURES, 1), "second": nn.Bilinear(FEATURES, FEATURES, 1)})

    def scores(data: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = model["first"](data).tanh() + model["second"](data, data)
        return found

    def loss() -> torch.Tensor:
        data = torch.randn(SAMPLES, FEATURES)
        mixed = torch.randn(SAMPLES, FEATURES, requires_grad=True)
        (gradient,) = torch.autograd.grad(scores(mixed).sum(), mixed, create_graph=not wrong)
        penalty = (gradient.norm(2, dim=1) - 1).square().mean()
        return data.square().mean() + scores(data).mean() + 10 * penalty

    train(debugger, model, loss)


def cleared_between_losses(debugger: Debugger, wrong: bool) -> None:
    model = perceptron()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in steps(debugger, model):
        optimizer.zero_grad()
        for sign in (1.0, -1.0):
            F.cross_entropy(
                model["head"](model["body"](sign + torch.randn(6, 8))), torch.randint(0, 4, (6,))
            ).backward()
            if wrong and sign > 0:
                optimizer.zero_grad()
        nn.utils.clip_grad_norm_(model.parameters(), 1e-2)
        optimizer.step()


def schedule_of_parts(debugger: Debugger, wrong: bool) -> None:
    model = perceptron()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=20)
    optimizer.step()
    schedule.step()
    schedule.step()
    for _ in steps(debugger, model):
        for _ in range(3):
            F.cross_entropy(model["head"](model["body"](torch.randn(6, 8))), torch.randint(0, 4, (6,))).backward()
            if wrong:
                schedule.step()
        optimizer.step()
        optimizer.zero_grad()
        if not wrong:
            schedule.step()


class Adapted(nn.Module):
    def __init__(self, wrong: bool) -> None:
        super().__init__()
        self.base = nn.Linear(FEATURES, CLASSES).requires_grad_(False)
        self.inner = nn.Parameter(torch.zeros(2, FEATURES) if wrong else torch.randn(2, FEATURES))
        self.outer = nn.Parameter(torch.zeros(CLASSES, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.base(x) + F.linear(F.linear(x, self.inner), self.outer)
        return scores


def both_zero(debugger: Debugger, wrong: bool) -> None:
    model = nn.ModuleDict({"adapted": Adapted(wrong), "head": nn.Linear(CLASSES, CLASSES)})
    classes = torch.randint(0, CLASSES, (SAMPLES,))
    train(
        debugger,
        model,
        lambda: F.cross_entropy(model["head"](model["adapted"](torch.randn(SAMPLES, FEATURES))), classes),
    )


def factor_of_zero(debugger: Debugger, wrong: bool) -> None:
    model = perceptron()
    classes = torch.randint(0, CLASSES, (SAMPLES,))
    train(
        debugger,
        model,
        lambda: F.cross_entropy(
            (0.0 if wrong else 0.5) * model["head"](model["body"](torch.randn(SAMPLES, FEATURES)))
            + model["body"](torch.randn(SAMPLES, FEATURES))[:, :CLASSES],
            classes,
        ),
    )


PLANTED_LOSSES: dict[str, tuple[Program, str, str]] = {
    "softmax_twice": (softmax_twice, "loss_of_probabilities", "cross_entropy"),
    "sigmoid_twice": (sigmoid_twice, "loss_of_probabilities", "binary_cross_entropy_with_logits"),
    "no_logarithms": (no_logarithms, "loss_of_probabilities", "kl_div"),
    "same_token": (same_token, "target_is_input", "cross_entropy"),
    "all_pairs": (all_pairs, "loss_shapes_differ", "__sub__"),
    "other_axis": (other_axis, "batch_axis_differs", "cells"),
    "cut_sample": (cut_sample, "gradient_cut_by_sampling", "normal"),
    "penalty_without_graph": (penalty_without_graph, "loss_without_path", "__add__"),
    "cleared_between_losses": (cleared_between_losses, "gradients_cleared_too_early", ""),
    "schedule_of_parts": (schedule_of_parts, "scheduler_before_optimizer", ""),
    "factor_of_zero": (factor_of_zero, "gradient_is_zero", "head"),
    "both_zero": (both_zero, "weights_stay_zero", "adapted.inner"),
}
