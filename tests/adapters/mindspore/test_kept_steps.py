"""Steps in memory, samples and budgets in real trainings of MindSpore: not a bit changes, NaN and trigger write."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mindspore
import numpy as np
import pytest
from mindspore import Tensor, nn, ops

from msprobe.mindspore import PrecisionDebugger
from tests.fresh_debugger import forget

SETTINGS: dict[str, dict[str, Any]] = {
    "ring": {"statistics": {"ring": {"steps": 2}}},
    "ring md5": {"statistics": {"ring": {"steps": 2}, "summary_mode": "md5"}},
    "sample": {"statistics": {"sample": {"every": 2, "share": 0.5}}},
    "disk budget": {"disk_budget": "20kB"},
    "time budget": {"time_budget": 0.05},
}


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    mindspore.runtime.launch_blocking()
    forget()
    yield
    forget()


class Net(nn.Cell):
    """Two layers with parameters that are always the same."""

    def __init__(self) -> None:
        super().__init__()
        random = np.random.default_rng(0)
        self.first = nn.Dense(
            6, 8, weight_init=Tensor(random.normal(size=(8, 6)).astype(np.float32)), bias_init="zeros"
        )
        self.second = nn.Dense(
            8, 3, weight_init=Tensor(random.normal(size=(3, 8)).astype(np.float32)), bias_init="zeros"
        )

    def construct(self, x: Tensor) -> Tensor:
        return self.second(ops.relu(self.first(x)))


class Training:
    """A small training, with a debugger or without."""

    def __init__(self, config: dict[str, Any] | None) -> None:
        self.net = Net()
        self.optimizer = nn.Adam(self.net.trainable_params(), 0.01)
        self.gradient = mindspore.value_and_grad(lambda x: (self.net(x) ** 2).mean(), None, self.optimizer.parameters)
        self.random = np.random.default_rng(1)
        self.debugger = None if config is None else PrecisionDebugger(config)
        self.losses: list[bytes] = []

    def step(self, factor: float = 1.0) -> None:
        if self.debugger is not None:
            self.debugger.start(self.net)
        x = Tensor((self.random.normal(size=(5, 6)) * factor).astype(np.float32))
        loss, gradients = self.gradient(x)
        self.optimizer(gradients)
        self.losses.append(loss.asnumpy().tobytes())
        if self.debugger is not None:
            self.debugger.stop()
            self.debugger.step()

    def weights(self) -> list[bytes]:
        return [one.asnumpy().tobytes() for one in self.net.get_parameters()]


def config_of(path: Path, **config: Any) -> dict[str, Any]:
    return {"dump_path": str(path), "level": "mix", **config}


def headers(path: Path) -> dict[int, dict[str, Any]]:
    found = {
        int(one.parts[-3].removeprefix("step")): json.loads(one.read_bytes()) for one in path.glob("step*/*/dump.json")
    }
    return dict(sorted(found.items()))


@pytest.mark.matrix("wide", sample=3)
@pytest.mark.parametrize("name", SETTINGS)
def test_not_a_bit_of_the_training_changes(tmp_path: Path, name: str) -> None:
    plain = Training(None)
    for _ in range(6):
        plain.step()
    watched = Training(config_of(tmp_path, **SETTINGS[name]))
    for number in range(6):
        watched.step()
        if number == 3:
            PrecisionDebugger.trigger("look")
    assert watched.losses == plain.losses
    assert watched.weights() == plain.weights()


def test_a_nan_writes_the_steps_before_it(tmp_path: Path) -> None:
    training = Training(config_of(tmp_path, statistics={"ring": {"steps": 2, "on": ["nan"]}}))
    for number in range(5):
        training.step(float("nan") if number == 3 else 1.0)
    found = headers(tmp_path)
    assert list(found) == [1, 2, 3]
    assert all(one["kept_for"]["kind"] == "nan" and one["kept_for"]["step"] == 3 for one in found.values())
    assert [bool(one["data"]) for one in found.values()] == [True] * 3


def test_a_spike_of_the_data_writes_the_steps_before_it(tmp_path: Path) -> None:
    training = Training(config_of(tmp_path, statistics={"ring": {"steps": 1, "on": ["spike"]}}))
    for number in range(12):
        training.step(1e4 if number == 10 else 1.0)
    assert list(headers(tmp_path)) == [9, 10]


def test_what_is_kept_is_what_would_have_been_written(tmp_path: Path) -> None:
    written = Training(config_of(tmp_path / "written"))
    written.step()
    forget()
    kept = Training(config_of(tmp_path / "kept", statistics={"ring": {"steps": 1}}))
    kept.step()
    PrecisionDebugger.trigger("look")
    one, other = headers(tmp_path / "written")[0], headers(tmp_path / "kept")[0]
    assert one["data"] and one["data"] == other["data"]


def test_two_sampled_runs_record_the_same_calls(tmp_path: Path) -> None:
    names = []
    for run, statistics in (("a", {"share": 0.5}), ("b", {"share": 0.5}), ("whole", {})):
        forget()
        training = Training(config_of(tmp_path / run, statistics={"sample": {"every": 2, **statistics}}))
        for _ in range(3):
            training.step()
        found = headers(tmp_path / run)
        assert list(found) == [0, 2]
        names.append([list(one["data"]) for one in found.values()])
    assert names[0] == names[1]
    assert set(names[0][0]) < set(names[2][0])
    assert 0.2 * len(names[2][0]) < len(names[0][0]) < 0.8 * len(names[2][0])


def test_a_budget_of_time_ends_collection(tmp_path: Path) -> None:
    training = Training(config_of(tmp_path, time_budget=0.5))
    training.step()
    time.sleep(0.6)
    for _ in range(2):
        training.step()
    assert list(headers(tmp_path)) == [0]
