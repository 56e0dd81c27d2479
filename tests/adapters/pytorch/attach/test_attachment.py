"""Which calls are recorded: models that train and what they depend on, not evaluation and not data."""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode
from torch.utils.data import DataLoader, Dataset

from tests.adapters.pytorch.attach.followed import Notes, followed

pytestmark = pytest.mark.torch
X = torch.linspace(-1, 1, 8).reshape(2, 4)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(torch.relu(self.a(x)))


class Encoder(Net):
    pass


def trained(model: nn.Module, forward: Callable[[], torch.Tensor], times: int = 2) -> None:
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(times):
        forward().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


@torch.no_grad()
def features(encoder: nn.Module) -> torch.Tensor:
    return encoder(X)


def test_a_frozen_encoder_is_recorded_beside_the_model() -> None:
    with followed() as notes:
        encoder, model = Encoder().requires_grad_(False), Net()
        trained(model, lambda: model(features(encoder)))
    assert notes.iterations == [{"Net", "Encoder:Encoder"}] * 2
    assert "forget" not in notes.events


def test_an_encoder_that_was_trained_before_it_was_frozen_is_recorded() -> None:
    with followed() as notes:
        encoder, model = Encoder(), Net()
        first = torch.optim.SGD(encoder.parameters(), 0.1)
        for _ in range(2):
            encoder(X).mean().backward()
            first.step()
            first.zero_grad()
        encoder.requires_grad_(False).eval()
        trained(model, lambda: model(features(encoder)))
    assert notes.iterations == [{"Encoder"}] * 2 + [{"Encoder", "Net:Net"}] * 2


class Autoencoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = Net(), Net()


@pytest.mark.parametrize("held", [False, True], ids=["alone", "in a container with the trained model"])
def test_frozen_parts_belong_to_the_model_that_has_them(*, held: bool) -> None:
    with followed() as notes:
        frozen, model = Autoencoder().requires_grad_(False), Net()
        container = [nn.ModuleDict({"frozen": frozen, "model": model})] if held else []
        trained(model, lambda: model(features(frozen.decoder) + features(frozen.encoder)))
    assert notes.iterations == [{"Net", "Autoencoder:Autoencoder"}] * 2
    del container


def test_a_frozen_part_of_a_model_belongs_to_it_where_its_parts_are_called_one_by_one() -> None:
    with followed() as notes:
        model = Autoencoder()
        model.target = Net().requires_grad_(False)
        optimizer = torch.optim.SGD([*model.encoder.parameters(), *model.decoder.parameters()], 0.1)
        for _ in range(2):
            (model.decoder(model.encoder(X)) - features(model.target)).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    assert notes.iterations == [{"Autoencoder"}] * 2


def test_models_that_share_a_layer_are_named_alike_in_each_iteration() -> None:
    """Which model a layer is named after depends on the order in which they are started."""
    with followed() as notes:
        one, other = Net(), Encoder()
        other.a = one.a
        optimizer = torch.optim.SGD([*one.parameters(), *other.b.parameters()], 0.1)
        for _ in range(2):
            (one(X) + other(X)).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    assert notes.started == [[""], ["", "Encoder"], ["", "Encoder"]]


def test_evaluation_that_begins_with_the_encoder_is_forgotten(capsys: pytest.CaptureFixture[str]) -> None:
    with followed() as notes:
        encoder, model = Encoder().requires_grad_(False), Net()
        for _ in range(2):
            trained(model, lambda: model(features(encoder)), times=1)
            model.eval()
            with torch.no_grad():
                [model(features(encoder)) for _ in range(3)]
            model.train()
    assert notes.iterations == [{"Net", "Encoder:Encoder"}] * 2
    assert notes.events.count("forget") == 1  # the place is known afterwards
    assert "Encoder as Module.Encoder (not trained)" in capsys.readouterr().err


def test_validation_of_averaged_weights_is_no_iteration() -> None:
    with followed() as notes:
        model, average = Net(), Encoder().requires_grad_(False)
        for _ in range(3):
            trained(model, lambda: model(X), times=1)
            for _ in range(3):
                features(average)
    assert notes.iterations == [{"Net"}] * 3


def test_a_thread_that_prepares_data_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    with followed() as notes:
        encoder, model = Encoder().requires_grad_(False), Net()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(3):  # the thread calls while an iteration is open, and between two
            run(lambda: features(encoder))
            optimizer.zero_grad()
            loss = model(X).mean()
            run(lambda: features(encoder))
            loss.backward()
            optimizer.step()
    assert notes.iterations == [{"Net"}] * 3
    assert "forget" not in notes.events
    assert "left out: Encoder (called in a thread that trains nothing)" in capsys.readouterr().err


def test_a_thread_that_trains_is_recorded_with_its_frozen_models() -> None:
    encoder, model = Encoder().requires_grad_(False), Net()
    with followed() as notes:
        run(lambda: trained(model, lambda: model(features(encoder)), times=3))
    assert notes.iterations == [{"Net", "Encoder:Encoder"}] * 3


def run(function: Callable[[], object]) -> None:
    """Run a function in a thread of its own."""
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


ALONE, BOTH = {"Net"}, {"Net", "Encoder:Encoder"}


@pytest.mark.parametrize(
    ("asked", "iterations"),
    [
        pytest.param((2, 4, 6), [ALONE] * 8, id="every second time"),
        pytest.param((1, 3, 5, 7), [ALONE] * 8, id="from the first time on"),
        pytest.param((1, 2, 3, 4, 5, 6, 7), [ALONE] * 8, id="after each iteration"),
        pytest.param((0, 2, 4), [BOTH] * 8, id="before the first iteration"),
        pytest.param((4, 5, 6, 7), [ALONE] * 5 + [BOTH] * 3, id="before each iteration after a warm-up"),
    ],
)
def test_a_single_call_before_some_iterations_is_evaluation(
    asked: tuple[int, ...], iterations: list[set[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """A model that the iterations need is called before the first one, or before one after another."""
    with followed() as notes:
        model, other = Net(), Encoder().requires_grad_(False)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for time in range(8):
            if time in asked:
                features(other)
            optimizer.zero_grad()
            model(X).mean().backward()
            optimizer.step()
    assert notes.iterations == iterations
    logged = capsys.readouterr().err
    named = re.search("attached to [^;]*Encoder as Module.Encoder", logged)
    assert bool(named) is (iterations[-1] == BOTH)
    assert len(re.findall("leave.? out Encoder|left out: Encoder", logged)) == (0 not in asked)


def test_a_model_in_evaluation_mode_beside_one_that_trains() -> None:
    """Each model has modes of its own."""
    with followed() as notes:
        first, second = Net(), Encoder().eval()
        both = torch.optim.SGD(itertools.chain(first.parameters(), second.parameters()), 0.1)
        for _ in range(2):
            first(second(X)).mean().backward()
            both.step()
            both.zero_grad()
    assert notes.iterations == [{"Net:Net", "Encoder:Encoder"}] * 2
    assert "pause" not in notes.events


class Holder(nn.Module):
    """A model whose training calls parts of it from a method, as LightningModule does."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = Net(), Net()

    def training_step(self) -> torch.Tensor:
        return self.decoder(self.encoder(X))


def test_parts_that_are_called_one_by_one_belong_to_the_model_that_has_them() -> None:
    with followed() as notes:
        model = Holder()
        trained(model, model.training_step)
    assert notes.iterations == [{"Holder"}] * 2


def test_an_unused_module_around_the_model_changes_no_name() -> None:
    with followed() as notes:
        model = Net()
        around = nn.ModuleDict({"model": model})
        trained(around, lambda: model(X))
    assert notes.iterations == [{"Net"}] * 2


@pytest.mark.parametrize("whole", [True, False], ids=["model", "parts"])
def test_forward_alone_is_a_call(*, whole: bool) -> None:
    with followed() as notes:
        model = Net()
        trained(model, (lambda: model.forward(X)) if whole else (lambda: model.b.forward(model.a.forward(X))))
    assert notes.iterations == [{"Net"}] * 2


def test_a_prediction_after_a_training_that_was_not_seen() -> None:
    with followed() as notes:
        model = Net()
        trained(model, lambda: nn.functional.linear(X, model.a.weight), times=3)
        model(X)
    assert notes.iterations == [] and not notes.is_open
    assert notes.reason.startswith("an optimizer has made 3 step(s), and no call of a model was seen before")


def test_a_first_step_before_the_training_changes_nothing() -> None:
    """Some programs make one to prepare the state of the optimizer."""
    with followed() as notes:
        model = Net()
        torch.optim.SGD(model.parameters(), 0.1).step()
        trained(model, lambda: model(X))
    assert notes.iterations == [{"Net"}] * 2


@pytest.mark.parametrize("autograd", [True, False], ids=["autograd", "no autograd"])
@pytest.mark.parametrize("lazy", [False, True], ids=["net", "lazy net"])
def test_a_call_to_try_a_model_before_the_optimizer_is_made_is_in_no_iteration(*, autograd: bool, lazy: bool) -> None:
    with followed() as notes:
        model: nn.Module = nn.Sequential(nn.LazyLinear(4), nn.ReLU(), nn.Linear(4, 2)) if lazy else Net()
        with torch.set_grad_enabled(autograd):
            assert model(X).isfinite().all()
        trained(model, lambda: model(X))
    assert notes.events.count("forget") == 1
    assert len(notes.iterations) == 2


def _in_fake_mode(model: nn.Module, x: torch.Tensor) -> None:
    with FakeTensorMode(allow_non_fake_inputs=True):
        model(x)


@pytest.mark.parametrize(
    "write",
    [
        torch.jit.trace,  # which calls the model once more, to check what it has written
        lambda model, x: torch.export.export(model, (x,)),
        lambda model, x: make_fx(model)(x),
        _in_fake_mode,
    ],
    ids=["trace", "export", "make_fx", "fake tensors"],
)
def test_a_graph_that_is_written_down_is_no_iteration(write: Callable[[nn.Module, torch.Tensor], object]) -> None:
    with followed() as notes:
        model = Net()
        write(model, X)
        assert "start" not in notes.events
        trained(model, lambda: model(X))
    assert len(notes.iterations) == 2


@pytest.mark.parametrize(
    "compiler", [lambda model: torch.jit.trace(model, X), torch.jit.script], ids=["trace", "script"]
)
def test_a_model_outside_of_python_that_is_trained(
    compiler: Callable[[nn.Module], nn.Module], capsys: pytest.CaptureFixture[str]
) -> None:
    with followed() as notes:
        model = compiler(Net())
        trained(model, lambda: model(X))
    assert len(notes.iterations) == 2
    assert "not trained" not in capsys.readouterr().err


def test_gradients_of_parameters_alone_are_a_backward_pass() -> None:
    """Evaluation behind a training by ``torch.autograd.grad`` and updates by hand is in no iteration."""
    with followed() as notes:
        model = Net()
        for _ in range(3):
            parameters = list(model.parameters())
            gradients = torch.autograd.grad(model(X).square().mean(), parameters)
            with torch.no_grad():
                torch._foreach_sub_(parameters, gradients, alpha=0.1)
        with torch.no_grad():
            model(X)
    assert len(notes.iterations) == 3
    assert not notes.is_open


class _Names(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(function.__name__)
        return function(*args, **(kwargs or {}))


def test_modes_of_the_program_do_not_see_what_is_looked_at() -> None:
    def seen() -> list[str]:
        model = Net()
        with _Names() as mode:
            trained(model, lambda: model(X))
        return mode.names

    alone = seen()
    with followed() as notes:
        assert seen() == alone
    assert len(notes.iterations) == 2


@pytest.mark.filterwarnings("ignore")
def test_a_model_of_torch_is_compiled_whole_also_behind_another_training() -> None:
    """Dynamo compiles what calls a ``forward`` of torch in another way than one of the program."""

    def model() -> nn.Module:
        return nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))

    with followed() as notes:
        first = model()
        trained(first, lambda: first(X))
        second = model()
        compiled = torch.compile(second, backend="eager", fullgraph=True)
        trained(second, lambda: compiled(X))
    torch._dynamo.reset()
    assert len(notes.iterations) == 4


def test_a_call_before_the_optimizer_is_made_that_is_differentiated_is_of_the_iteration() -> None:
    with followed() as notes:
        model = Net()
        for _ in range(2):
            value = model(X).mean()
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            value.backward()
            model(X).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    assert "forget" not in notes.events
    assert len(notes.iterations) == 2


class Augmented(Dataset[torch.Tensor]):
    def __init__(self) -> None:
        self.transform = Encoder()

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> torch.Tensor:
        with torch.no_grad():
            return self.transform(torch.full((4,), float(index)))


def loaded(workers: int, context: str | None) -> Notes:
    with followed() as notes:
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for batch in DataLoader(Augmented(), 2, num_workers=workers, multiprocessing_context=context):
            model(batch).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    return notes


@pytest.mark.parametrize(("workers", "context"), [(0, None), (1, "fork")], ids=["none", "fork"])
def test_a_module_in_the_data_is_no_model(workers: int, context: str | None) -> None:
    assert loaded(workers, context).iterations == [{"Net"}] * 2


def test_what_a_loader_calls_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    loaded(0, None)
    assert "left out: Encoder (called by a data loader)" in capsys.readouterr().err


def test_an_error_of_the_tool_ends_the_collection_and_not_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    class Odd(Net):
        def parameters(self, recurse: bool = True) -> object:  # type: ignore[override]
            raise RuntimeError("not now")

    with followed() as notes:
        assert Odd()(X).shape == X.shape
    assert notes.iterations == []
    assert "nothing more is recorded: RuntimeError: not now" in capsys.readouterr().err


def test_models_that_are_gone_leave_their_name() -> None:
    with followed() as notes:
        for _ in range(2):
            model = Net()
            trained(model, lambda model=model: model(X), times=1)  # type: ignore[misc]
            del model
    assert notes.iterations == [{"Net"}] * 2


def test_a_model_that_is_called_with_other_parameters_is_the_model_that_trains(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The inner steps of meta-learning are no changes of the parameters by the program."""
    with followed() as notes:
        model, rate = Net(), nn.ParameterDict({"rate": nn.Parameter(torch.tensor(0.1))})
        optimizer = torch.optim.SGD([*model.parameters(), *rate.parameters()], 0.1)

        def loss(parameters: dict[str, torch.Tensor]) -> torch.Tensor:
            return torch.func.functional_call(model, parameters, (X,)).square().mean()

        for _ in range(3):
            adapted: dict[str, torch.Tensor] = dict(model.named_parameters())
            for _ in range(2):
                gradients = torch.func.grad(loss)(adapted)
                adapted = {name: one - rate["rate"] * gradients[name] for name, one in adapted.items()}
            optimizer.zero_grad()
            loss(adapted).backward()
            optimizer.step()
    assert notes.iterations == [{"Net:Net"}] * 3
    assert "is attached to Net as Module.Net; a step ends when SGD has made a step" in capsys.readouterr().err


def test_a_model_that_is_only_evaluated_beside_a_training_that_was_not_seen() -> None:
    with followed() as notes:
        model, frozen = Net(), Encoder().requires_grad_(False)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(3):
            [frozen(X) for _ in range(2)]
            nn.functional.linear(X, model.a.weight).mean()
            optimizer.step()
    assert notes.iterations == []
    assert notes.reason.startswith("no optimizer holds a parameter of Encoder")


class Agent(Holder):
    def actor_and_critic(self) -> torch.Tensor:
        return self.encoder(X) + self.decoder(X)


@pytest.mark.parametrize("part", ["encoder", "decoder"])
def test_a_part_that_no_optimizer_holds_belongs_to_the_model_that_has_it(
    part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with followed() as notes:
        model = Agent()
        optimizer = torch.optim.SGD(getattr(model, part).parameters(), 0.1)
        for _ in range(2):
            model.actor_and_critic().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    assert notes.iterations == [{"Agent"}] * 2
    assert "is attached to Agent; " in capsys.readouterr().err


def test_a_target_in_the_model_begins_an_iteration_as_one_beside_it_does() -> None:
    """What no optimizer holds is there for what is trained, also inside of the same model."""
    with followed() as notes:
        model, running = Agent(), []
        model.encoder.register_forward_hook(lambda *_: running.append((len(notes.iterations), notes.is_open)))
        optimizer = torch.optim.SGD(model.decoder.parameters(), 0.1)
        for _ in range(3):
            with torch.no_grad():
                target = model.encoder(X)
            optimizer.zero_grad()
            (model.decoder(X) - target).mean().backward()
            optimizer.step()
    assert running == [(0, True), (1, True), (2, True)]
    assert notes.iterations == [{"Agent"}] * 3


class Measured(nn.Module):
    """Calls a part of itself while it is made, to know how many numbers come out."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(4, 3)
        with torch.no_grad():
            width = self.body(X).shape[1]
        self.head = nn.Linear(width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x))


def measured_outside() -> nn.Module:
    body = nn.Linear(4, 3)
    return nn.Sequential(body, nn.Linear(body(X).shape[1], 1))


def normed() -> nn.Module:
    return nn.Sequential(*[nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4)) for _ in range(2)])


@pytest.mark.parametrize("make", [Measured, measured_outside, normed])
def test_what_is_called_while_the_model_is_made_is_no_model(make: Callable[[], nn.Module]) -> None:
    with followed() as notes:
        model = make()
        trained(model, lambda: model(X))
    assert notes.iterations == [{type(model).__name__}] * 2


@pytest.mark.parametrize("make", [Measured, normed])
def test_what_is_called_while_a_model_is_made_that_only_predicts_is_no_model(make: Callable[[], nn.Module]) -> None:
    with followed() as notes:
        model = make()
        assert not notes.is_open
        model(X)
        assert notes.is_open
    assert notes.events.count("start") == 1


def test_a_part_that_is_trained_before_the_optimizer_is_made_keeps_its_name() -> None:
    with followed() as notes:
        model = Holder()
        model.training_step().mean().backward()
        trained(model, model.training_step)
    assert notes.iterations == [{"Net", "Net:Net"}] * 2
