"""Correct trainings whose gradients are computed by ``torch.func``, or that call a model with other tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.func import functional_call, grad, grad_and_value, stack_module_state, vmap
from torch.nn import functional as F

from tests.check.correct_programs import steps

Debugger = Any
Tensors = dict[str, torch.Tensor]


def _network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))


def tasks_side_by_side(debugger: Debugger) -> None:
    """Learn to learn: inner steps of several tasks at once, and one outer backward pass."""
    model = _network()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def loss(parameters: Tensors, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return 0.5 * F.mse_loss(functional_call(model, parameters, (x,)), y)

    def after_inner_step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        parameters = dict(model.named_parameters())
        gradients = grad(loss)(parameters, x, y)
        return loss({name: value - 0.1 * gradients[name] for name, value in parameters.items()}, x, y)

    for _ in steps(debugger, model):
        optimizer.zero_grad()
        vmap(after_inner_step)(torch.randn(3, 8, 4), torch.randn(3, 8, 2)).mean().backward()
        optimizer.step()


def gradients_of_each_sample(debugger: Debugger) -> None:
    """Clip the gradient of each sample, and give the optimizer the mean; no backward pass is called."""
    model = _network()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)

    def loss(parameters: Tensors, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        error = functional_call(model, parameters, (x,)) - y
        return (error**2).mean() + 0.01 * (parameters["0.weight"] ** 2).sum()

    for _ in steps(debugger, model):
        parameters = {name: value.detach() for name, value in model.named_parameters()}
        gradients = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, torch.randn(8, 4), torch.randn(8, 2))
        for name, parameter in model.named_parameters():
            rows = gradients[name].flatten(1)
            parameter.grad = (rows / rows.norm(dim=1, keepdim=True).clamp(min=1)).mean(0).view_as(parameter)
        optimizer.step()


def inner_step_of_the_head(debugger: Debugger) -> None:
    """A loss inside of a transform by the head needs no gradient there, and trains the body afterwards."""
    body, head = nn.Linear(4, 16), nn.Linear(16, 2)
    model = nn.Sequential(body, head)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in steps(debugger, model):
        x, y = torch.randn(8, 4), torch.randn(8, 2)

        def loss(parameters: Tensors, x: torch.Tensor = x, y: torch.Tensor = y) -> torch.Tensor:
            hidden = body(x)
            fit = F.mse_loss(functional_call(head, parameters, (hidden,)), y)
            return fit + 0.1 * F.mse_loss(hidden, torch.zeros_like(hidden))

        optimizer.zero_grad()
        parameters = dict(head.named_parameters())
        gradients, before = grad_and_value(loss)(parameters)
        after = loss({name: value - 0.1 * gradients[name] for name, value in parameters.items()})
        (before + after).backward()
        optimizer.step()


def an_ensemble(debugger: Debugger) -> None:
    """Train the stacked parameters of several models; the model that is called lends its code alone."""
    parameters, buffers = stack_module_state([_network() for _ in range(3)])
    model = _network()
    optimizer = torch.optim.Adam(parameters.values(), lr=1e-2)

    def loss(parameters: Tensors, buffers: Tensors, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return 0.5 * F.mse_loss(functional_call(model, (parameters, buffers), (x,)), y)

    for _ in steps(debugger, model):
        optimizer.zero_grad()
        losses = vmap(loss, in_dims=(0, 0, None, None))(parameters, buffers, torch.randn(8, 4), torch.randn(8, 2))
        losses.sum().backward()
        optimizer.step()


def parameters_outside_of_the_model(debugger: Debugger) -> None:
    """Train tensors that stand in for the parameters, by hand."""
    model = _network()
    parameters = {name: value.detach().clone().requires_grad_() for name, value in model.named_parameters()}
    for _ in steps(debugger, model):
        loss = F.mse_loss(functional_call(model, parameters, (torch.randn(8, 4),)), torch.randn(8, 2))
        loss.backward()
        parameters = {
            name: (value - 0.1 * value.grad).detach().requires_grad_()
            for name, value in parameters.items()
            if value.grad is not None
        }


FUNCTIONAL: dict[str, Callable[..., None]] = {
    program.__name__: program
    for program in (
        tasks_side_by_side, gradients_of_each_sample, inner_step_of_the_head, an_ensemble,
        parameters_outside_of_the_model,
    )
}  # fmt: skip
