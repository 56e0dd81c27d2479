"""Trainings as people have them give no alert; one step that is wrong in them gives one.

Each has everything watched: values of modules, gradients, moments, parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from msprobe.pytorch import TrainerMon  # noqa: E402
from tests.matrices import matrix_params  # noqa: E402

pytestmark = pytest.mark.torch

STEPS = 60
WATCHED = {
    **dict.fromkeys(("xy_distribution", "wg_distribution", "mv_distribution", "param_distribution"), True),
    "ops": ["norm", "max", "min", "mean", "nans", "infs", "zeros"],
    "format": "api",
    "alert": {"policy": "robust", "dump": True},
}


class Training:
    """A model, an optimizer, a loss for each step, and what happens between steps."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: str = "AdamW",
        lr: float = 1e-3,
        schedule: Callable[[int], float] | None = None,
        **options: Any,
    ) -> None:
        self.model = model
        self.optimizer = getattr(torch.optim, optimizer)(model.parameters(), lr=lr, **options)
        self.schedule = None if schedule is None else torch.optim.lr_scheduler.LambdaLR(self.optimizer, schedule)
        self.micro_steps = 1
        self.clip: float | None = None
        self.dtype: torch.dtype | None = None

    def loss(self, step: int) -> torch.Tensor:
        data = torch.randn(16, 12)
        return F.cross_entropy(self.model(data), data[:, :4].argmax(1))


def dense(width: int = 24, dropout: float = 0.0, norm: bool = True) -> nn.Sequential:
    middle = [nn.LayerNorm(width)] if norm else []
    return nn.Sequential(nn.Linear(12, width), nn.GELU(), *middle, nn.Dropout(dropout), nn.Linear(width, 4))


def warm_up(step: int) -> float:
    return min(1.0, (step + 1) / 20)


def cosine(step: int) -> float:
    return 0.5 * (1 + math.cos(math.pi * step / STEPS))


def cyclic(step: int) -> float:
    return 1 + 0.9 * math.sin(step / 3)


class Images(Training):
    def __init__(self, **options: Any) -> None:
        layers = (
            nn.Conv2d(3, 8, 3),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(8, 4),
        )
        super().__init__(nn.Sequential(*layers), **options)

    def loss(self, step: int) -> torch.Tensor:
        return F.cross_entropy(self.model(torch.randn(8, 3, 8, 8)), torch.randint(4, (8,)))


class Text(Training):
    def __init__(self, **options: Any) -> None:
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
        super().__init__(
            nn.Sequential(
                nn.Embedding(20, 16), nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(16, 20)
            ),
            **options,
        )

    def loss(self, step: int) -> torch.Tensor:
        ids = torch.randint(20, (4, 10))
        return F.cross_entropy(self.model(ids).flatten(0, 1), ids.roll(-1, 1).flatten())


class Rare(Training):
    """Rows of an embedding that most steps do not use."""

    def __init__(self) -> None:
        super().__init__(nn.Sequential(nn.Embedding(500, 8), nn.Linear(8, 2)))

    def loss(self, step: int) -> torch.Tensor:
        return self.model(torch.randint(500, (6,))).pow(2).mean()


class Recurrent(Training):
    def __init__(self) -> None:
        super().__init__(nn.LSTM(12, 16, 2, dropout=0.1, batch_first=True), lr=3e-3)

    def loss(self, step: int) -> torch.Tensor:
        return self.model(torch.randn(4, 9, 12))[0].pow(2).mean()


class Regression(Training):
    """Noisy targets over four orders of magnitude, without a normalization."""

    def __init__(self) -> None:
        super().__init__(nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 1)), optimizer="Adam", lr=1e-2)

    def loss(self, step: int) -> torch.Tensor:
        data = torch.randn(16, 12)
        return F.huber_loss(self.model(data)[:, 0], data.sum(1) * 10 ** torch.empty(16).uniform_(-2, 1))


class Adversaries(Training):
    """The discriminator of a GAN, whose generator is trained beside it."""

    def __init__(self) -> None:
        super().__init__(
            nn.Sequential(nn.Linear(4, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1)), lr=2e-3, betas=(0.5, 0.9)
        )
        self.generator = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 4))
        self.other = torch.optim.Adam(self.generator.parameters(), lr=2e-3)

    def loss(self, step: int) -> torch.Tensor:
        self.other.zero_grad()
        (-F.logsigmoid(self.model(self.generator(torch.randn(8, 3)))).mean()).backward()
        self.other.step()
        self.optimizer.zero_grad()
        made, real = self.generator(torch.randn(8, 3)).detach(), torch.randn(8, 4) * 0.5 + 1
        return -(F.logsigmoid(self.model(real)).mean() + F.logsigmoid(-self.model(made)).mean())


class Policy(Training):
    """Returns that are zero in most episodes."""

    def loss(self, step: int) -> torch.Tensor:
        data = torch.randn(8, 12)
        chosen = torch.distributions.Categorical(logits=self.model(data))
        action = chosen.sample()
        reward = (torch.rand(8) < 0.2).float() * (action == data[:, :4].argmax(1))
        return -(chosen.log_prob(action) * (reward - 0.05)).mean()


def with_(training: Training, **attributes: Any) -> Training:
    for name, value in attributes.items():
        setattr(training, name, value)
    return training


NORMAL: dict[str, Callable[[], Training]] = {
    "dense": lambda: Training(dense()),
    "warm_up": lambda: Training(dense(), lr=1e-2, schedule=warm_up),
    "cosine": lambda: Training(dense(), lr=1e-2, schedule=cosine),
    "cyclic": lambda: Training(dense(), lr=3e-3, schedule=cyclic),
    "step_schedule": lambda: Training(dense(), lr=1e-2, schedule=lambda step: 0.1 ** (step // 20)),
    "dropout": lambda: Training(dense(dropout=0.5)),
    "sgd": lambda: Training(dense(norm=False), "SGD", 0.1),
    "momentum": lambda: Training(dense(), "SGD", 0.05, momentum=0.9, nesterov=True),
    "rmsprop": lambda: Training(dense(), "RMSprop"),
    "clipped": lambda: with_(Training(dense(), lr=1e-2), clip=0.1),
    "accumulated": lambda: with_(Training(dense()), micro_steps=4),
    "bfloat16": lambda: with_(Training(dense()), dtype=torch.bfloat16),
    "images": Images,
    "images_sgd": lambda: Images(optimizer="SGD", lr=0.1, momentum=0.9),
    "text": lambda: Text(lr=3e-3, schedule=warm_up),
    "text_bfloat16": lambda: with_(Text(), dtype=torch.bfloat16),
    "rare": Rare,
    "recurrent": Recurrent,
    "regression": Regression,
    "adversaries": Adversaries,
    "policy": lambda: Policy(dense()),
    "weight_decay": lambda: Training(dense(), lr=1e-2, weight_decay=0.5),
    "tiny_steps": lambda: Training(dense(), lr=1e-7),
}
UNFIT = ("clipped", "policy")
"""Clipping takes a spike away, and torch refuses to draw from NaN."""
SAMPLE = ("dense", "text", "adversaries", "clipped")


def alerts_of(
    make: Callable[[], Training], seed: int, wrong: Callable[[Training, int], None] | None = None
) -> list[Any]:
    """Train, and return the alerts; ``wrong`` is called after each backward pass."""
    torch.manual_seed(seed)
    training, told = make(), []
    monitor = TrainerMon(WATCHED)
    monitor.set_monitor(training.model, training.optimizer, grad_acc_steps=training.micro_steps)
    session = monitor._session
    assert session is not None
    alerts = session._on_rows
    alerts._listener = lambda step, found: told.extend((step, one.reason) for one in found)  # type: ignore[union-attr]
    for step in range(STEPS):
        for _ in range(training.micro_steps):
            with torch.autocast("cpu", training.dtype or torch.bfloat16, enabled=training.dtype is not None):
                loss = training.loss(step)
            loss.backward()
        if wrong is not None:
            wrong(training, step)
        if training.clip:
            nn.utils.clip_grad_norm_(training.model.parameters(), training.clip)
        training.optimizer.step()
        training.optimizer.zero_grad()
        if training.schedule is not None:
            training.schedule.step()
    monitor.stop()
    assert monitor.errors.count == session.errors.count == 0
    return told


@pytest.fixture(autouse=True)
def output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MONITOR_OUTPUT_DIR", str(tmp_path))


def test_there_are_twenty() -> None:
    assert len(NORMAL) >= 20


@pytest.mark.matrix("wide", sample=2)
@pytest.mark.parametrize("kind", matrix_params("alerts", NORMAL, SAMPLE))
def test_a_normal_training_gives_no_alert(kind: str) -> None:
    for seed in range(1 if kind in SAMPLE else 3):
        assert alerts_of(NORMAL[kind], seed) == []


def a_spike(training: Training, step: int) -> None:
    if step == 40:
        for one in training.model.parameters():
            if one.grad is not None:
                one.grad.mul_(1000)


def a_nan(training: Training, step: int) -> None:
    if step == 30:
        next(one for one in training.model.parameters() if one.grad is not None).grad.view(-1)[0] = math.nan  # type: ignore[union-attr]


@pytest.mark.matrix("wide", sample=3)
@pytest.mark.parametrize("kind", matrix_params("alerts", [one for one in NORMAL if one not in UNFIT], SAMPLE))
def test_a_spike_and_a_nan_are_found_at_their_step(kind: str) -> None:
    spike, nan = alerts_of(NORMAL[kind], 0, a_spike), alerts_of(NORMAL[kind], 0, a_nan)
    assert {step for step, _ in spike} and min(step for step, _ in spike) == 40
    assert {step for step, _ in nan} and min(step for step, _ in nan) == 30
