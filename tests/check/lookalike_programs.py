"""Correct trainings that look like faulty ones: rules have to tell them apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from tests.check.correct_programs import Debugger, steps
from tests.check.planted_losses import CLASSES, FEATURES, SAMPLES, Tokens
from tests.check.planted_programs import perceptron


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(SAMPLES, FEATURES), torch.randint(0, CLASSES, (SAMPLES,))


def scores(model: Any, data: torch.Tensor) -> torch.Tensor:
    found: torch.Tensor = model["head"](model["body"](data))
    return found


def attack_on_data(debugger: Debugger) -> None:
    """A first backward pass asks for the gradient of the data alone; its gradients of parameters are cleared."""
    model = perceptron()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    for _ in steps(debugger, model):
        data, classes = batch()
        data.requires_grad_()
        F.cross_entropy(scores(model, data), classes).backward()
        assert data.grad is not None
        moved = (data + 0.1 * data.grad.sign()).detach()
        optimizer.zero_grad()
        F.cross_entropy(scores(model, moved), classes).backward()
        optimizer.step()


def sharpness_aware(debugger: Debugger) -> None:
    """The first gradients move the weights, the second ones make the step."""
    model = perceptron()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    for _ in steps(debugger, model):
        data, classes = batch()
        optimizer.zero_grad()
        F.cross_entropy(scores(model, data), classes).backward()
        moves = [0.05 * one.grad / (one.grad.norm() + 1e-12) for one in model.parameters() if one.grad is not None]
        with torch.no_grad():
            for one, move in zip(model.parameters(), moves, strict=True):
                one.add_(move)
        optimizer.zero_grad()
        F.cross_entropy(scores(model, data), classes).backward()
        with torch.no_grad():
            for one, move in zip(model.parameters(), moves, strict=True):
                one.sub_(move)
        optimizer.step()


def combined_gradients(debugger: Debugger) -> None:
    """Each task has a backward pass of its own, and the step gets what is made of both gradients."""
    model = perceptron()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    for _ in steps(debugger, model):
        kept = []
        for _ in range(2):
            data, classes = batch()
            optimizer.zero_grad()
            F.cross_entropy(scores(model, data), classes).backward()
            kept.append([one.grad.clone() for one in model.parameters() if one.grad is not None])
        for one, first, second in zip(model.parameters(), *kept, strict=True):
            one.grad = first + second - 0.1 * first * second
        optimizer.step()


def sizes_of_gradients(debugger: Debugger) -> None:
    """Two backward passes over one graph are only measured; the third one trains."""
    model = perceptron()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    for _ in steps(debugger, model):
        found, (_, classes) = scores(model, torch.randn(SAMPLES, FEATURES)), batch()
        losses = [F.cross_entropy(found, classes), found.square().mean()]
        sizes = []
        for loss in losses:
            optimizer.zero_grad()
            loss.backward(retain_graph=True)
            sizes.append(model["head"].weight.grad.norm())
        optimizer.zero_grad()
        (losses[0] / sizes[0] + losses[1] / sizes[1]).backward()
        optimizer.step()


def passes_after_the_step(debugger: Debugger) -> None:
    """The step of the optimizer begins what is recorded as a step, and later passes are only looked at."""
    model = perceptron()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    for _ in steps(debugger, model):
        data, classes = batch()
        F.cross_entropy(scores(model, data), classes).backward()
        optimizer.step()
        for _ in range(2):
            optimizer.zero_grad()
            F.cross_entropy(scores(model, data), classes).backward()
        optimizer.zero_grad()


def line_search(debugger: Debugger) -> None:
    model = perceptron()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)
    data, classes = batch()

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(scores(model, data), classes)
        loss.backward()
        return loss

    for _ in steps(debugger, model):
        optimizer.step(closure)


def pairs_on_purpose(debugger: Debugger) -> None:
    """Ranks all pairs of samples: a column meets the row of the same numbers, or the result of another layer."""
    model = nn.ModuleDict({"score": nn.Linear(FEATURES, 1), "other": nn.Linear(FEATURES, 1)})
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    for _ in steps(debugger, model):
        data, relevance = torch.randn(SAMPLES, FEATURES), torch.randn(SAMPLES)
        score, other = model["score"](data), model["other"](data)
        wanted = (relevance[:, None] > relevance).float()
        ranking = F.binary_cross_entropy_with_logits(score - score.squeeze(-1), wanted)
        optimizer.zero_grad()
        (ranking + F.leaky_relu(score + other.squeeze(-1)).square().mean()).backward()
        optimizer.step()


def probabilities_by_hand(debugger: Debugger) -> None:
    """Losses of probabilities that take their logarithms themselves, with targets that are probabilities."""
    model = nn.Linear(FEATURES, CLASSES)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    for _ in steps(debugger, model):
        data, classes = batch()
        shares, soft = model(data).softmax(-1), torch.randn(SAMPLES, CLASSES).softmax(-1)
        optimizer.zero_grad()
        loss = F.nll_loss(shares.log(), classes) + F.cross_entropy(model(data), soft)
        (loss + F.kl_div(shares.log(), soft, reduction="batchmean")).backward()
        optimizer.step()


def time_first(debugger: Debugger) -> None:
    """Sequences with the time first, and a target for each sequence."""
    model = nn.ModuleDict({"cells": nn.LSTM(FEATURES, 16), "head": nn.Linear(16, CLASSES)})
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    for _ in steps(debugger, model):
        found = model["head"](model["cells"](torch.randn(9, SAMPLES, FEATURES))[0][-1])
        optimizer.zero_grad()
        F.cross_entropy(found, batch()[1]).backward()
        optimizer.step()


class Copying(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(32, 16), Tokens()

    def forward(self, tokens: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.target(before) + self.source(tokens).mean()
        return found


def copied_text(debugger: Debugger) -> None:
    """A decoder that hides later places learns to write what the encoder reads."""
    model = Copying()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    for _ in steps(debugger, model):
        tokens = torch.randint(1, 32, (3, 9))
        found = model(tokens, F.pad(tokens, (1, 0))[:, :-1])
        optimizer.zero_grad()
        F.cross_entropy(found.flatten(0, 1), tokens.flatten()).backward()
        optimizer.step()


def drawn_actions(debugger: Debugger) -> None:
    """A policy draws actions without gradients, and their probabilities are trained."""
    model = nn.ModuleDict({"policy": nn.Linear(FEATURES, 2), "value": nn.Linear(FEATURES, 1)})
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    for _ in steps(debugger, model):
        state = torch.randn(SAMPLES, FEATURES)
        policy = torch.distributions.Normal(model["policy"](state), 0.5)
        action = policy.sample()
        reward, value = -action.square().sum(-1), model["value"](state).squeeze(-1)
        chance = policy.log_prob(action).sum(-1)
        optimizer.zero_grad()
        (-(chance * (reward - value).detach()).mean() + F.mse_loss(value, reward)).backward()
        optimizer.step()


def missing_values(debugger: Debugger) -> None:
    """NaN stands for what is missing in the data; the program looks for it."""
    model = nn.Linear(FEATURES, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    for _ in steps(debugger, model):
        data, target = torch.randn(SAMPLES, FEATURES), torch.randn(SAMPLES, 1)
        data[0, :3], target[1] = float("nan"), float("nan")
        known = target == target
        filled = torch.nan_to_num(data - torch.nanmean(data, 0))
        optimizer.zero_grad()
        (torch.where(known, target, 0.0) - model(filled)).square()[known].mean().backward()
        optimizer.step()


def shared_targets(debugger: Debugger) -> None:
    """Several critics have one target, and quantiles of both sides are compared in all pairs."""
    model = nn.Linear(FEATURES, 5)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    for _ in steps(debugger, model):
        found = model(torch.randn(SAMPLES, FEATURES))
        ensemble = F.mse_loss(found.T, torch.randn(1, SAMPLES))
        pairs = F.smooth_l1_loss(found[:, None], torch.randn(SAMPLES, 5, 1), reduction="none")
        optimizer.zero_grad()
        (ensemble + pairs.sum(2).mean()).backward()
        optimizer.step()


@torch.no_grad()
def nudge(model: nn.Module, factor: float) -> None:
    for one in model.parameters():
        one.add_(factor * torch.ones_like(one))


@torch.no_grad()
def descend(model: nn.Module) -> None:
    for one in model.parameters():
        assert one.grad is not None
        one -= 0.1 * one.grad
        one.grad.zero_()


def moved_without_gradients(debugger: Debugger) -> None:
    """One model is moved by what its losses say; another one beside it, by gradients and by hand."""
    model, other = perceptron(), nn.Linear(FEATURES, CLASSES)
    for _ in steps(debugger, model):
        data, classes = batch()
        for factor in (1e-3, -2e-3, 1e-3):
            nudge(model, factor)
            with torch.no_grad():
                F.cross_entropy(scores(model, data), classes)
        F.cross_entropy(other(data), classes).backward()
        descend(other)


def entropy_of_teacher(debugger: Debugger) -> None:
    """A term of the loss is made by the teacher alone, which is frozen: it is there for the figure."""
    model = nn.ModuleDict({"student": nn.Linear(FEATURES, CLASSES), "teacher": nn.Linear(FEATURES, CLASSES)})
    model["teacher"].requires_grad_(False)
    optimizer = torch.optim.SGD(model["student"].parameters(), lr=1e-2)
    for _ in steps(debugger, model):
        data, _ = batch()
        soft = model["teacher"](data).softmax(-1)
        negative_entropy = (soft * soft.log()).sum(-1).mean()
        optimizer.zero_grad()
        (negative_entropy + F.cross_entropy(model["student"](data), soft)).backward()
        optimizer.step()


class Masked(nn.Module):
    """Attention that gets its mask: one layer reads in both directions and forward only."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(16, 48)

    def forward(self, x: torch.Tensor, causal: bool) -> torch.Tensor:
        query, key, value = self.project(x).chunk(3, -1)
        found: torch.Tensor = F.scaled_dot_product_attention(query, key, value, is_causal=causal)
        return found


def both_directions(debugger: Debugger) -> None:
    model = Masked()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    for _ in steps(debugger, model):
        data = torch.randn(3, 7, 16)
        optimizer.zero_grad()
        (model(data, causal=True).square().mean() + model(data, causal=False).square().mean()).backward()
        optimizer.step()


LOOKALIKES: dict[str, Callable[[Debugger], None]] = {
    program.__name__: program
    for program in (
        attack_on_data, sharpness_aware, combined_gradients, sizes_of_gradients, passes_after_the_step,
        line_search, pairs_on_purpose,
        probabilities_by_hand, time_first, copied_text, drawn_actions, missing_values, shared_targets,
        moved_without_gradients, entropy_of_teacher, both_directions,
    )
}  # fmt: skip
