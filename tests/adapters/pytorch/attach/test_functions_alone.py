"""Programs that call no model, only functions: the iterations that they are recorded in."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from msprobe.adapters.pytorch.attach.attachment import Attachment
from msprobe.adapters.pytorch.attach.collection import debugger_steps
from msprobe.pytorch import PrecisionDebugger
from tests.fresh_debugger import forget

pytestmark = pytest.mark.torch

X, Y = torch.linspace(-1, 1, 12).reshape(4, 3), torch.linspace(0, 1, 8).reshape(4, 2)
Steps = list[list[str]]


@pytest.fixture
def steps_of(tmp_path: Path) -> Iterator[Callable[[Callable[[], object]], Steps]]:
    """Return what returns the calls of functions in each step of a program."""
    settings = {"task": "statistics", "level": "mix", "dump_path": f"{tmp_path}/dump"}
    (tmp_path / "c.json").write_text(json.dumps(settings))

    def record(program: Callable[[], object]) -> Steps:
        attachment = Attachment(debugger_steps(f"{tmp_path}/c.json", None, 0), None)
        attachment.install()
        try:
            program()
        finally:
            attachment.finish()
            attachment.conclude()
            attachment.remove()
        forget()
        files = sorted(tmp_path.glob("dump/step*/*/dump.json"), key=lambda one: int(one.parts[-3][4:]))
        dumps = [json.loads(file.read_text())["data"] for file in files]
        return [[name for name in data if name.endswith("forward") and "linear" in name] for data in dumps]

    gc.collect()  # optimizers of earlier tests
    forget()
    yield record
    forget()


def weights() -> list[torch.Tensor]:
    return [torch.full((2, 3), 0.5).requires_grad_(), torch.zeros(2).requires_grad_()]


def loss(parameters: list[torch.Tensor], x: torch.Tensor = X) -> torch.Tensor:
    return F.mse_loss(F.linear(x, *parameters), Y)


def by_hand(parameters: list[torch.Tensor], gradients: tuple[torch.Tensor, ...]) -> None:
    with torch.no_grad():
        for one, gradient in zip(parameters, gradients, strict=True):
            one -= 0.1 * gradient


def with_grad() -> list[torch.Tensor]:
    parameters = weights()
    for _ in range(3):
        by_hand(parameters, torch.autograd.grad(loss(parameters), parameters))
    return parameters


def with_backward() -> list[torch.Tensor]:
    parameters = weights()
    for _ in range(3):
        loss(parameters).backward()
        for one in parameters:
            assert one.grad is not None
            one.data.sub_(0.1 * one.grad)
            one.grad = None
    return parameters


def with_new_tensors() -> list[torch.Tensor]:
    parameters = weights()
    for _ in range(3):
        gradients = torch.autograd.grad(loss(parameters), parameters)
        pairs = zip(parameters, gradients, strict=True)
        parameters = [(one.detach() - 0.1 * gradient).requires_grad_() for one, gradient in pairs]
    return parameters


def with_new_tensors_while_the_old_ones_live() -> list[torch.Tensor]:
    parameters, kept = weights(), list[torch.Tensor]()
    for _ in range(3):
        kept.append(loss([one.view_as(one) for one in parameters]))
        gradients = torch.autograd.grad(kept[-1], parameters)
        pairs = zip(parameters, gradients, strict=True)
        parameters = [(one.detach() - 0.1 * gradient).requires_grad_() for one, gradient in pairs]
    return parameters


def with_an_optimizer() -> list[torch.Tensor]:
    parameters = weights()
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        loss(parameters).backward()
        optimizer.step()
    return parameters


def with_a_model_that_nobody_calls() -> list[torch.Tensor]:
    model = nn.Linear(3, 2)
    for one, value in zip(model.parameters(), (0.5, 0.0), strict=True):
        nn.init.constant_(one, value)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        loss([model.weight, model.bias]).backward()
        optimizer.step()
    return list(model.parameters())


def with_a_transform() -> list[torch.Tensor]:
    parameters = [one.detach() for one in weights()]
    for _ in range(3):
        gradients = torch.func.grad(loss)(parameters)
        parameters = [one - 0.1 * gradient for one, gradient in zip(parameters, gradients, strict=True)]
    return parameters


def with_weights_of_a_model_that_nobody_calls() -> list[torch.Tensor]:
    model = nn.Linear(3, 2)
    parameters = [
        (value * torch.ones_like(one)).detach() for one, value in zip(model.parameters(), (0.5, 0.0), strict=True)
    ]
    for one in parameters:
        one.requires_grad_()
    for _ in range(3):
        by_hand(parameters, torch.autograd.grad(loss(parameters), parameters))
    return parameters


TRAININGS = [
    with_grad,
    with_backward,
    with_new_tensors,
    with_new_tensors_while_the_old_ones_live,
    with_an_optimizer,
    with_a_model_that_nobody_calls,
    with_weights_of_a_model_that_nobody_calls,
    with_a_transform,
]


@pytest.mark.parametrize("training", TRAININGS, ids=[one.__name__ for one in TRAININGS])
def test_each_iteration_is_a_step_and_the_training_is_the_same(
    steps_of: Callable[[Callable[[], object]], Steps], training: Callable[[], list[torch.Tensor]]
) -> None:
    expected, got = training(), list[torch.Tensor]()
    assert steps_of(lambda: got.extend(training())) == [["Functional.linear.0.forward"]] * 3
    assert all(map(torch.equal, got, expected))


def test_gradients_that_add_up_are_of_one_iteration(steps_of: Callable[[Callable[[], object]], Steps]) -> None:
    def accumulate() -> None:
        parameters = weights()
        for _ in range(2):
            for _ in range(3):
                loss(parameters).backward()
            by_hand(parameters, tuple(one.grad for one in parameters if one.grad is not None))
            for one in parameters:
                one.grad = None

    assert [len(calls) for calls in steps_of(accumulate)] == [3, 3]


def test_inner_steps_are_of_one_iteration(steps_of: Callable[[Callable[[], object]], Steps]) -> None:
    def learn_to_learn() -> None:
        parameters = weights()
        for _ in range(2):
            fast = parameters
            for _ in range(2):
                gradients = torch.autograd.grad(loss(fast), fast, create_graph=True)
                fast = [one - 0.1 * gradient for one, gradient in zip(fast, gradients, strict=True)]
            by_hand(parameters, torch.autograd.grad(loss(fast), parameters))

    assert [len(calls) for calls in steps_of(learn_to_learn)] == [3, 3]


def inner_steps(fast: list[torch.Tensor], x: torch.Tensor) -> list[torch.Tensor]:
    for _ in range(2):
        gradients = torch.func.grad(loss)(fast, x)
        fast = [one - 0.1 * gradient for one, gradient in zip(fast, gradients, strict=True)]
    return fast


def of_tasks(parameters: list[torch.Tensor]) -> torch.Tensor:
    tasks = torch.stack([X, 2.0 * X])
    return torch.func.vmap(lambda x: loss(inner_steps(parameters, x), x))(tasks).mean()


def of_forces(parameters: list[torch.Tensor]) -> torch.Tensor:
    forces = torch.func.vmap(torch.func.grad(lambda x: torch.tanh(F.linear(x, *parameters)).sum()))(X)
    return F.linear(forces, *parameters).square().mean()


@pytest.mark.parametrize("of", [of_tasks, of_forces])
@pytest.mark.parametrize("by", ["grad of autograd", "transform"])
def test_gradients_inside_of_a_formula_end_no_iteration(
    steps_of: Callable[[Callable[[], object]], Steps], of: Callable[[list[torch.Tensor]], torch.Tensor], by: str
) -> None:
    def train() -> None:
        parameters = weights()
        for _ in range(3):
            if by == "transform":
                gradients = torch.func.grad(of)([one.detach() for one in parameters])
            else:
                gradients = torch.autograd.grad(of(parameters), parameters)
            by_hand(parameters, gradients)

    steps = steps_of(train)
    assert len(steps) == 3 and len(set(map(len, steps))) == 1


def test_parameters_that_are_made_as_such_are_known_at_the_first_backward_pass(
    steps_of: Callable[[Callable[[], object]], Steps], capsys: pytest.CaptureFixture[str]
) -> None:
    made = weights()

    def train() -> None:
        parameters: list[torch.Tensor] = [nn.Parameter(one.detach()) for one in made]
        for _ in range(3):
            by_hand(parameters, torch.autograd.grad(loss(parameters), parameters))

    assert len(steps_of(train)) == 2
    assert "what comes before the first backward pass is in no step" in capsys.readouterr().err


def test_what_is_not_trained_is_no_iteration(steps_of: Callable[[Callable[[], object]], Steps]) -> None:
    assert steps_of(lambda: loss(weights())) == []


def test_a_model_that_is_called_later_is_recorded_alone(steps_of: Callable[[Callable[[], object]], Steps]) -> None:
    def train() -> None:
        loss(weights())
        model = nn.Linear(3, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            F.mse_loss(model(X), Y).backward()
            optimizer.step()
            optimizer.zero_grad()

    assert [len(calls) for calls in steps_of(train)] == [1, 1]


@torch.no_grad()
def predict(model: nn.Linear) -> torch.Tensor:
    return F.linear(2.0 * X, model.weight, model.bias)


def test_a_prediction_by_functions_alone_is_one_step(steps_of: Callable[[Callable[[], object]], Steps]) -> None:
    def program() -> None:
        model = nn.Linear(3, 2)
        for _ in range(2):
            predict(model)

    assert [len(calls) for calls in steps_of(program)] == [2]


def test_numbers_without_a_product_are_no_prediction(steps_of: Callable[[Callable[[], object]], Steps]) -> None:
    assert steps_of(lambda: nn.Linear(3, 2).weight.detach().abs().mean()) == []


@pytest.mark.parametrize("alone", [False, True])
def test_what_comes_before_a_training_is_forgotten(
    steps_of: Callable[[Callable[[], object]], Steps], alone: bool
) -> None:
    def program() -> None:
        model = nn.Linear(3, 2)
        predict(model)
        parameters = list(model.parameters())
        for _ in range(2):
            result = loss(parameters) if alone else F.mse_loss(model(X), Y)
            by_hand(parameters, torch.autograd.grad(result, parameters))

    assert [len(calls) for calls in steps_of(program)] == [1, 1]


def test_a_debugger_of_the_script_takes_the_place_of_a_prediction(
    steps_of: Callable[[Callable[[], object]], Steps], tmp_path: Path
) -> None:
    def program() -> None:
        model = nn.Linear(3, 2)
        predict(model)
        debugger = PrecisionDebugger({"task": "statistics", "level": "mix", "dump_path": f"{tmp_path}/own"})
        with debugger.collect(model=model):
            model(X)
            model(X)

    assert steps_of(program) == []
    (file,) = tmp_path.glob("own/step*/*/dump.json")
    assert list(json.loads(file.read_text())["data"]).count("Functional.linear.1.forward") == 1
