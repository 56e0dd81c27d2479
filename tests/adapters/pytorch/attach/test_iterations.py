"""What an iteration is: the same count however a training updates its parameters."""

from __future__ import annotations

import copy
import gc
import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from tests.adapters.pytorch.attach.followed import Notes, followed

pytestmark = pytest.mark.torch
X = torch.linspace(-1, 1, 8).reshape(2, 4)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(torch.relu(self.a(x)))


class Generator(Net):
    pass


class Discriminator(Net):
    pass


def loss(model: nn.Module) -> torch.Tensor:
    return model(X).square().mean()


def with_an_optimizer() -> None:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        loss(model).backward()
        optimizer.step()
        optimizer.zero_grad()


def with_a_new_optimizer_each_time() -> None:
    model = Net()
    for _ in range(3):
        loss(model).backward()
        torch.optim.SGD(model.parameters(), 0.1).step()


def with_accumulation() -> None:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for number in range(12):
        loss(model).backward()
        if number % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()


def with_closures() -> None:
    model = Net()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4)

    def closure() -> float:
        optimizer.zero_grad()
        value = loss(model)
        value.backward()
        return value.item()

    for _ in range(3):
        optimizer.step(closure)


def with_closures_after_another_optimizer() -> None:
    """As trainings of physics-informed networks end."""
    model = Net()
    first = torch.optim.Adam(model.parameters())
    loss(model).backward()
    first.step()
    last = torch.optim.LBFGS(model.parameters(), max_iter=2)

    def closure() -> float:
        last.zero_grad()
        value = loss(model)
        value.backward()
        return value.item()

    for _ in range(2):
        last.step(closure)


def with_a_scaler_that_skips() -> None:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    for number in range(3):
        scaler.scale(loss(model) * (1.0 if number == 1 else float("inf"))).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


def with_steps_that_the_program_skips() -> None:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for number in range(3):
        loss(model).backward()
        if number != 1:
            optimizer.step()
        optimizer.zero_grad()


def with_two_optimizers_of_one_model() -> None:
    model = Net()
    optimizers = torch.optim.SGD(model.a.parameters(), 0.1), torch.optim.Adam(model.b.parameters())
    for _ in range(3):
        loss(model).backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()


def with_an_idle_optimizer() -> None:
    model, other = Net(), Net()
    optimizer, idle = torch.optim.SGD(model.parameters(), 0.1), torch.optim.SGD(other.parameters(), 0.1)
    for _ in range(3):
        loss(model).backward()
        optimizer.step()
        optimizer.zero_grad()
    assert idle.param_groups


def by_hand(update: Callable[[nn.Module], None]) -> Callable[[], None]:
    def train() -> None:
        model = Net()
        for _ in range(3):
            model.zero_grad()
            loss(model).backward()
            update(model)
        model.zero_grad()

    return train


@torch.no_grad()
def in_place(model: nn.Module) -> None:
    for parameter in model.parameters():
        parameter -= 0.1 * parameter.grad


def in_data(model: nn.Module) -> None:
    for parameter in model.parameters():
        parameter.data.sub_(0.1 * parameter.grad)


def by_hand_without_versions() -> None:
    """As old programs: nothing gets a new version."""
    model = Net()
    for _ in range(3):
        loss(model).backward()
        in_data(model)
        for parameter in model.parameters():
            parameter.grad.data.zero_()


def by_hand_without_versions_and_clearing() -> None:
    model = Net()
    for _ in range(3):
        loss(model).backward()
        in_data(model)


def by_hand_from_gradients() -> None:
    model = Net()
    for _ in range(3):
        gradients = torch.autograd.grad(loss(model), list(model.parameters()))
        with torch.no_grad():
            for parameter, gradient in zip(model.parameters(), gradients, strict=True):
                parameter -= 0.1 * gradient


def by_hand_with_accumulation() -> None:
    model = Net()
    for number in range(6):
        loss(model).backward()
        if number % 2:
            in_place(model)
            model.zero_grad()


def with_two_passes() -> None:
    """As sharpness-aware minimization: parameters are moved, and gradients cleared, in the middle of an iteration."""
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        loss(model).backward()
        in_place(model)
        optimizer.zero_grad()
        loss(model).backward()
        optimizer.step()
        optimizer.zero_grad()


def with_an_evaluation(*, train: bool, graph: bool = False, batches: int = 1) -> Callable[[], None]:
    """The model is set to train again before each iteration, or not; the evaluation computes graphs, or not."""

    def run() -> None:
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(3):
            model.train(train or model.training)
            loss(model).backward()
            optimizer.step()
            optimizer.zero_grad()
            model.eval()
            with torch.set_grad_enabled(graph):
                [loss(model) for _ in range(batches)]

    return run


@torch.inference_mode()
def test_a_model_that_is_made_in_inference_mode_is_recorded(capsys: pytest.CaptureFixture[str]) -> None:
    with followed() as notes:
        loss(Net())
        assert notes.is_open
        gc.collect()
    assert not notes.reason
    assert "is attached to Net;" in capsys.readouterr().err  # also where it is gone at the end


def test_a_look_at_parts_hides_no_update_by_hand() -> None:
    with followed() as notes:
        model = Net()
        parameters = list(model.parameters())
        for number in range(4):
            gradients = torch.autograd.grad(loss(model), parameters)
            with torch.no_grad():
                torch._foreach_sub_(parameters, [0.1 * gradient for gradient in gradients])
                _ = model.b(torch.relu(model.a(X))) if number % 2 else None
    assert len(notes.iterations) == 4


def test_a_look_at_what_is_trained_by_hand_belongs_to_no_iteration() -> None:
    with followed() as notes:
        model = Net()
        for _ in range(2):
            loss(model).backward()
            in_place(model)
            model.zero_grad()
            with torch.no_grad():
                loss(model)
            assert not notes.is_open
    assert len(notes.iterations) == 2


@pytest.mark.matrix("wide", sample=2)
@pytest.mark.parametrize(
    ("train", "ends"),
    [
        (with_an_optimizer, "when SGD has made a step"),
        (with_a_new_optimizer_each_time, "when SGD has made a step"),
        (with_accumulation, "when SGD has made a step"),
        (with_closures, "when LBFGS has made a step"),
        (with_closures_after_another_optimizer, "when Adam has made a step"),
        (with_a_scaler_that_skips, "when SGD has made a step"),
        (with_steps_that_the_program_skips, "when SGD has made a step"),
        (with_two_optimizers_of_one_model, "when each of 2 optimizers (Adam and SGD) has made a step"),
        (with_an_idle_optimizer, "before Net is called from the same place again after an update"),
        (by_hand(in_place), "the program itself has changed parameters or cleared gradients"),
        (by_hand(in_data), "the program itself has changed parameters or cleared gradients"),
        (by_hand_without_versions, "the program itself has changed parameters or cleared gradients"),
        (by_hand_without_versions_and_clearing, "the program itself has changed parameters or cleared gradients"),
        (by_hand_from_gradients, "the program itself has changed parameters or cleared gradients"),
        (by_hand_with_accumulation, "the program itself has changed parameters or cleared gradients"),
        (with_two_passes, "when SGD has made a step"),
        (with_an_evaluation(train=True), "when SGD has made a step"),
        (with_an_evaluation(train=False), "when SGD has made a step"),
        (with_an_evaluation(train=True, graph=True), "when SGD has made a step"),
        (with_an_evaluation(train=True, graph=True, batches=3), "when SGD has made a step"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_each_training_has_three_iterations(
    train: Callable[[], None], ends: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with followed() as notes:
        train()
    assert [len(models) for models in notes.iterations] == [1] * 3
    assert not notes.is_open
    said = capsys.readouterr().err
    assert said.count("is attached to") == 1
    assert "is attached to Net" in said and ends in said


@pytest.mark.parametrize(
    ("critics", "last"),
    [(1, {"Generator", "Discriminator"}), (3, {"Generator", "Discriminator"})],
    ids=["by turns", "three critics"],
)
def test_both_steps_of_a_gan_are_one_iteration(critics: int, last: set[str]) -> None:
    with followed() as notes:
        generator, discriminator = Generator(), Discriminator()
        ours, theirs = torch.optim.Adam(generator.parameters()), torch.optim.Adam(discriminator.parameters())
        for number in range(6):
            theirs.zero_grad()
            (discriminator(X).mean() - discriminator(generator(X).detach()).mean()).backward()
            theirs.step()
            if number % critics == critics - 1:
                ours.zero_grad()
                discriminator(generator(X)).mean().backward()
                ours.step()
    assert notes.iterations == [{f"{name}:{name}" for name in last}] * 6


def test_clearing_gradients_begins_an_iteration_as_a_call_does() -> None:
    """An iteration in which one of two optimizers is idle ends where one with both does: before ``zero_grad``."""
    with followed() as notes:
        generator, discriminator = Generator(), Discriminator()
        ours, theirs = torch.optim.Adam(generator.parameters()), torch.optim.Adam(discriminator.parameters())
        for number in range(6):
            theirs.zero_grad()
            assert not notes.is_open
            (discriminator(X) - discriminator(generator(X).detach())).mean().backward()
            theirs.step()
            if number % 3 == 0:
                ours.zero_grad()
                discriminator(generator(X)).mean().backward()
                ours.step()
    assert len(notes.iterations) == 6


def learn(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    loss(model).backward()
    optimizer.step()


def test_models_that_are_trained_one_after_the_other_share_no_iteration() -> None:
    """As layers that learn greedily, and folds of a cross-validation."""
    with followed() as notes:
        models = [Net() for _ in range(3)]
        optimizers = [torch.optim.Adam(model.parameters()) for model in models]
        for model, optimizer in zip(models, optimizers, strict=True):
            for _ in range(4):
                learn(model, optimizer)
            with torch.no_grad():
                loss(model)
    assert len(notes.iterations) == 12


def test_models_that_are_trained_by_turns_share_an_iteration() -> None:
    """As members of an ensemble, also where one of them is trained every second time."""
    with followed() as notes:
        models = [Net() for _ in range(3)]
        optimizers = [torch.optim.Adam(model.parameters()) for model in models]
        for number in range(4):
            for model, optimizer in zip(models[: 3 - number % 2], optimizers, strict=False):
                learn(model, optimizer)
    assert len(notes.iterations) == 4


def places_of_calls(model: nn.Module, notes: Notes) -> list[tuple[int, bool]]:
    """Return a list that gets, with each call of a model, the number of its iteration and whether one runs."""
    places: list[tuple[int, bool]] = []
    model.register_forward_hook(lambda *_: places.append((len(notes.iterations), notes.is_open)))
    return places


def test_what_a_generator_makes_without_autograd_belongs_to_the_iteration_that_it_is_for() -> None:
    with followed() as notes:
        generator, critic = Generator(), Discriminator()
        ours, theirs = torch.optim.Adam(generator.parameters()), torch.optim.Adam(critic.parameters())
        places = places_of_calls(generator, notes)
        for number in range(6):
            with torch.no_grad():
                fake = generator(X)
            theirs.zero_grad()
            (critic(X) - critic(2 * fake)).mean().backward()
            theirs.step()
            if number % 3 == 2:
                ours.zero_grad()
                critic(generator(X)).mean().backward()
                ours.step()
    assert places == [(number, True) for number in (0, 1, 2, 2, 3, 4, 5, 5)]
    assert len(notes.iterations) == 6


def test_a_look_at_what_a_generator_has_learned_belongs_to_no_iteration() -> None:
    """Also where it is made in training mode."""
    with followed() as notes:
        generator, critic = Generator(), Discriminator()
        ours, theirs = torch.optim.Adam(generator.parameters()), torch.optim.Adam(critic.parameters())
        for _ in range(3):
            theirs.zero_grad()
            (critic(X) - critic(generator(X).detach())).mean().backward()
            theirs.step()
            ours.zero_grad()
            critic(generator(X)).mean().backward()
            ours.step()
            with torch.no_grad():
                generator(X)
            assert not notes.is_open
    assert len(notes.iterations) == 3
    assert "pause" not in notes.events and "forget" not in notes.events


def test_a_first_look_at_a_model_belongs_to_no_iteration() -> None:
    with followed() as notes:
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        places = places_of_calls(model, notes)
        for _ in range(3):
            with torch.no_grad():
                loss(model)
            optimizer.zero_grad()
            loss(model).backward()
            optimizer.step()
    assert places == [(0, True), (0, True), (1, False), (1, True), (2, False), (2, True)]
    assert notes.events.count("forget") == 1


class Recomputed(torch.autograd.Function):
    """Calls a model without autograd, and again in its backward pass: adjoint methods and reversible networks do."""

    @staticmethod
    def forward(ctx: Any, model: nn.Module, x: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
        ctx.model, ctx.parameters = model, parameters
        ctx.save_for_backward(x)
        with torch.no_grad():
            for _ in range(3):
                x = model(x)
        return x

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        with torch.enable_grad():
            (x,) = ctx.saved_tensors
            for _ in range(3):
                x = ctx.model(x)
        return None, None, *torch.autograd.grad(x, ctx.parameters, *gradients)


def in_a_function(model: nn.Module) -> torch.Tensor:
    result: torch.Tensor = Recomputed.apply(model, X, *model.parameters())
    return result


def in_a_checkpoint(model: nn.Module) -> torch.Tensor:
    result: torch.Tensor = checkpoint(model, X.clone().requires_grad_(), use_reentrant=True)
    return result


@pytest.mark.parametrize("forward", [in_a_function, in_a_checkpoint])
def test_what_a_function_of_autograd_calls_belongs_to_the_iteration_of_its_call(
    forward: Callable[[nn.Module], torch.Tensor],
) -> None:
    """Autograd is off in there, in an evaluation and elsewhere: the mode around it counts."""
    with followed() as notes:
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        places = places_of_calls(model, notes)
        for number in range(4):
            optimizer.zero_grad()
            forward(model).mean().backward()
            assert {*places} == {(number, True)}
            optimizer.step()
            places.clear()
            with torch.no_grad():
                forward(model)
            assert {*places} == {(number + 1, False)}
            places.clear()
    assert len(notes.iterations) == 4
    assert "forget" not in notes.events


def test_an_optimizer_of_inputs_ends_no_iteration_of_a_training() -> None:
    """The inner steps of an attack are no iterations, where another optimizer trains the model."""
    with followed() as notes:
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(2):
            moved = X.clone().requires_grad_()
            attack = torch.optim.SGD([moved], 0.1)
            model(moved).mean().backward()
            attack.step()
            optimizer.zero_grad()
            model(moved).mean().backward()
            optimizer.step()
    assert len(notes.iterations) == 2


def test_an_optimizer_of_a_free_tensor_belongs_to_the_iteration() -> None:
    """As the temperature of a soft actor-critic, which is trained last."""
    with followed() as notes:
        model, temperature = Net(), torch.zeros(1, requires_grad=True)
        optimizer, last = torch.optim.Adam(model.parameters()), torch.optim.Adam([temperature])
        for number in range(3):
            optimizer.zero_grad()
            assert len(notes.iterations) == number
            loss(model).backward()
            optimizer.step()
            last.zero_grad()
            (temperature.exp() * loss(model).detach()).backward()
            last.step()
            assert notes.is_open
    assert len(notes.iterations) == 3


def _calls(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    model(X)


def _loads(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    next(iter(torch.utils.data.DataLoader([1.0])))


def _differentiates(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    next(model.parameters()).sum().backward()


def _updates(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.step()


@pytest.mark.parametrize("what", [_calls, _loads, _differentiates, _updates])
def test_what_is_done_after_the_update_belongs_to_the_iteration_until_the_program_goes_on(
    what: Callable[[nn.Module, torch.optim.Optimizer], None],
) -> None:
    with followed() as notes:
        model = Net()
        average, optimizer = copy.deepcopy(model), torch.optim.SGD(model.parameters(), 0.1)
        loss(model).backward()
        optimizer.step()
        for follower, parameter in zip(average.parameters(), model.parameters(), strict=True):
            follower.data.lerp_(parameter.data, 0.1)
        assert notes.is_open
        what(model, optimizer)
        assert len(notes.iterations) == 1


@pytest.mark.parametrize("idle", [False, True], ids=["", "idle optimizer"])
def test_clearing_gradients_after_the_update_ends_no_iteration(*, idle: bool) -> None:
    """Averages are often updated behind it. Where gradients are cleared before the first call, it begins iterations."""
    with followed() as notes:
        generator, discriminator, other = Generator(), Discriminator(), Net()
        ours, theirs = torch.optim.Adam(generator.parameters()), torch.optim.Adam(discriminator.parameters())
        waits = torch.optim.SGD(other.parameters(), 0.1) if idle else None
        for number in range(4):
            ours.zero_grad()
            assert not notes.is_open
            loss(generator).backward()
            ours.step()
            loss(discriminator).backward()
            theirs.step()
            theirs.zero_grad()
            discriminator.zero_grad()
            assert notes.is_open
            assert len(notes.iterations) == number
    assert len(notes.iterations) == 4
    del waits


def test_an_optimizer_of_inputs_alone_ends_iterations() -> None:
    with followed() as notes:
        model, image = Net().requires_grad_(False), X.clone().requires_grad_()
        optimizer = torch.optim.Adam([image])
        for _ in range(3):
            optimizer.zero_grad()
            model(image).mean().backward()
            optimizer.step()
    assert len(notes.iterations) == 3


def test_optimizers_that_were_there_before_are_seen() -> None:
    model = Net()
    optimizer = torch.optim.Adagrad(model.parameters())
    with followed() as notes:
        for _ in range(2):
            loss(model).backward()
            optimizer.step()
            optimizer.zero_grad()
    assert notes.iterations == [{"Net"}] * 2


def test_each_step_of_lbfgs_is_an_iteration_beside_another_optimizer() -> None:
    with followed() as notes:
        model = Net()
        adam, lbfgs = torch.optim.Adam(model.parameters(), 0.01), torch.optim.LBFGS(model.parameters(), max_iter=3)

        def closure() -> torch.Tensor:
            lbfgs.zero_grad()
            loss = model(X).square().mean()
            loss.backward()
            return loss

        for number in range(8):
            if number // 2 % 2:
                lbfgs.step(closure)
                continue
            adam.zero_grad()
            model(X).square().mean().backward()
            adam.step()
    assert len(notes.iterations) == 8


@pytest.mark.parametrize("every", [1, 2], ids=["always", "every second time"])
def test_a_loop_inside_of_an_iteration_ends_none(*, every: int) -> None:
    """As in soft actor-critic: the policy is trained several times behind each update of the value."""
    with followed() as notes:
        actor, critic = Generator(), Discriminator()
        of_actor, of_critic = torch.optim.Adam(actor.parameters()), torch.optim.Adam(critic.parameters())
        places = places_of_calls(actor, notes)
        for number in range(4):
            of_critic.zero_grad()
            critic(X).square().mean().backward()
            of_critic.step()
            for _ in range(2 if number % every == 0 else 0):
                of_actor.zero_grad()
                critic(actor(X)).mean().backward()
                of_actor.step()
    assert len(notes.iterations) == 4
    assert [number for number, _ in places] == [number for number in range(0, 4, every) for _ in range(2)]


def test_actor_and_critic_with_a_rollout_between() -> None:
    with followed() as notes:
        actor, critic = Net(), Net()
        first, second = torch.optim.Adam(actor.parameters()), torch.optim.Adam(critic.parameters())
        for _ in range(2):
            with torch.no_grad():
                [actor(X) for _ in range(3)]
            for model, optimizer in [(critic, second), (actor, first)] * 2:
                optimizer.zero_grad()
                loss(model).backward()
                optimizer.step()
    assert notes.iterations == [{"Net:Net", "Net_1:Net"}] * 4


def test_nothing_of_it_is_left() -> None:
    places = (
        nn.Module,
        torch.optim.Optimizer,
        torch.optim.SGD,
        torch.autograd,
        torch.autograd.Function,
        torch.utils.data.dataloader,
    )
    before = [dict(vars(place)) for place in places]
    with followed():
        with_an_optimizer()
        assert dict(vars(nn.Module)) != before[0]
    after = [dict(vars(place)) for place in places]
    torch.optim.SGD([nn.Parameter(X)], 0.1)
    changed = {key for old, new in zip(before, after, strict=True) for key in new if old.get(key) is not new[key]}
    assert changed <= {"step"}  # torch replaces it at the first optimizer of a class


def _batches(epochs: int) -> Iterator[torch.Tensor]:
    loader = torch.utils.data.DataLoader([X, X, X], batch_size=None)
    for _ in range(epochs):
        yield from loader


@pytest.mark.parametrize("clears", ["before", "before backward", "behind"])
@pytest.mark.parametrize("loads", [True, False], ids=["loader", "no loader"])
def test_an_iteration_that_is_given_up_before_its_backward_pass_is_one(clears: str, *, loads: bool) -> None:
    """Where nothing is fetched or cleared between two calls they may be those of one iteration."""
    given_up = {0, 2, 3, 5} if clears == "before" else {2, 3, 5}  # before any update only clearing tells of it
    with followed() as notes:
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        places = places_of_calls(model, notes)
        for number, x in enumerate(_batches(2) if loads else [X] * 6):
            if clears == "before":
                optimizer.zero_grad()
            value = model(x).mean()
            if number in given_up:
                continue
            if clears == "before backward":
                optimizer.zero_grad()
            value.backward()
            optimizer.step()
            if clears == "behind":
                optimizer.zero_grad()
    told = [0, 1, 2, 3, 4, 5] if loads or clears == "before" else [0, 1, 2, 2, 2, 3]
    assert [iteration for iteration, _ in places] == told


@pytest.mark.parametrize("adds", [False, True], ids=["a backward pass each", "one backward pass"])
def test_an_iteration_of_several_batches_is_one_also_behind_a_shorter_one(*, adds: bool) -> None:
    """Three batches are an iteration, and the rest of an epoch is one; ``adds``: losses are summed."""
    with followed() as notes:
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        places = places_of_calls(model, notes)
        for batches in (3, 1, 3, 3, 1, 3):
            losses = [model(x).mean() for x in itertools.islice(_batches(1), batches)] if adds else []
            for x in itertools.islice(_batches(1), batches) if not adds else ():
                model(x).mean().backward()
            if adds:
                torch.stack(losses).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    told = [number for number, batches in enumerate((3, 1, 3, 3, 1, 3)) for _ in range(batches)]
    assert [iteration for iteration, _ in places] == told


def test_calls_at_one_place_without_a_backward_pass_between_are_of_one_iteration() -> None:
    """As episodes, of which the first may have one move: no batch is fetched, and no gradient cleared, between."""
    with followed() as notes:
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for moves in (1, 1, 4, 2):
            optimizer.zero_grad()
            torch.stack([model(X).mean() for _ in range(moves)]).sum().backward()
            optimizer.step()
    assert len(notes.iterations) == 4


def test_what_another_thread_fetches_ends_no_iteration() -> None:
    """A thread may fetch ahead, between the call of a model and its backward pass."""
    with followed() as notes:
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        loader = torch.utils.data.DataLoader([X] * 8, batch_size=None)
        for number in range(4):
            value = model(next(iter(loader))).mean()
            fetch = threading.Thread(target=lambda: [*loader])
            fetch.start(), fetch.join()
            if number > 1:
                value = value + model(X).mean()
            value.backward()
            optimizer.step()
            optimizer.zero_grad()
    assert len(notes.iterations) == 4


def _in_a_transform(x: torch.Tensor, *, batched: bool = False, moves: bool = True) -> list[tuple[int, bool]]:
    """Train by ``torch.func`` alone, whose parameters are no others but new tensors; return the places of the calls."""
    with followed() as notes:
        model = Net()
        places = places_of_calls(model, notes)
        parameters = {name: one.detach() for name, one in model.named_parameters()}

        def cost(parameters: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
            return torch.func.functional_call(model, parameters, (x,)).square().mean()

        gradient = torch.func.grad(cost)
        for _ in range(3):
            if batched:
                moved = {k: one.mean(0) for k, one in torch.func.vmap(gradient, (None, 0))(parameters, x).items()}
            else:
                moved = gradient(parameters, x)
            if moves:
                parameters = {name: one - 0.1 * moved[name] for name, one in parameters.items()}
    return places


@pytest.mark.parametrize("batched", [False, True], ids=["grad", "vmap of grad"])
def test_other_parameters_that_a_transform_differentiates_by_are_an_update(*, batched: bool) -> None:
    assert [number for number, _ in _in_a_transform(X, batched=batched)] == [0, 1, 2]


def test_gradients_by_the_same_parameters_in_a_transform_are_of_one_iteration() -> None:
    assert [number for number, _ in _in_a_transform(X, moves=False)] == [0, 0, 0]


def test_inner_steps_in_a_transform_are_of_one_iteration(capsys: pytest.CaptureFixture[str]) -> None:
    """As in meta-learning: what is differentiated by is made of what an outer transform differentiates by."""
    with followed() as notes:
        model = Net()
        places = places_of_calls(model, notes)
        parameters = {name: one.detach() for name, one in model.named_parameters()}

        def inner(parameters: dict[str, torch.Tensor]) -> torch.Tensor:
            return torch.func.functional_call(model, parameters, (X,)).square().mean()

        def outer(parameters: dict[str, torch.Tensor]) -> torch.Tensor:
            for _ in range(3):
                gradients = torch.func.grad(inner)(parameters)
                parameters = {name: one - 0.1 * gradients[name] for name, one in parameters.items()}
            return inner(parameters)

        torch.func.grad(outer)(parameters)
    assert [number for number, _ in places] == [0] * 4
    assert "no update was seen, so all is one step" in capsys.readouterr().err
