"""A step that was not asked for begins at its first call: until then there is no folder."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from msprobe.core.capture.observer import CallSite
from msprobe.core.dump.session.step import LazyStep
from tests.core.dump.session.test_session import recorded, session_of, tensor
from tests.fake_framework import functional, nn
from tests.fake_framework.tensor import Tensor


def steps(path: Path) -> list[str]:
    return sorted(folder.name for folder in path.iterdir())


class Model(nn.Module):
    def __init__(self) -> None:
        self.act = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.act(x)


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_the_folder_comes_with_the_first_call(level: str, tmp_path: Path) -> None:
    model, session = Model(), session_of(tmp_path, level=level)
    session.start(model)
    model(tensor())
    session.step()
    assert steps(tmp_path) == ["step0"]
    assert session.opened
    model(tensor())
    assert steps(tmp_path) == ["step0", "step1"]
    session.close()
    first, second = recorded(tmp_path).values()
    assert list(first)
    assert list(first) == list(second)


def test_a_call_that_is_filtered_out_leaves_nothing(tmp_path: Path) -> None:
    session = session_of(tmp_path, statistics={"list": ["softmax"]})
    session.start()
    session.step()
    functional.relu(tensor())
    session.close()
    assert steps(tmp_path) == ["step0"]


def test_stopped_before_anything_happened(tmp_path: Path) -> None:
    session = session_of(tmp_path)
    session.start()
    functional.relu(tensor())
    session.step()
    session.stop()
    functional.relu(tensor())
    assert steps(tmp_path) == ["step0"]
    session.start()
    assert steps(tmp_path) == ["step0", "step1"]
    functional.relu(tensor())
    session.close()
    assert list(recorded(tmp_path)[1]) == ["Functional.relu.0.forward"]


def test_a_model_focused_before_the_first_call(tmp_path: Path) -> None:
    model, session = nn.ReLU(), session_of(tmp_path, level="L0")
    session.start(model)
    session.step()
    session.focus(model, "chosen")
    model(tensor())
    session.close()
    assert list(recorded(tmp_path)[1]) == ["Module.chosen.ReLU.forward.0"]


def test_many_steps_without_a_stop(tmp_path: Path) -> None:
    session = session_of(tmp_path)
    session.start()
    for _ in range(3):
        functional.relu(tensor()).add(tensor())
        session.step()
    session.close()
    names = ["Functional.relu.0.forward", "Tensor.add.0.forward"]
    assert {step: list(data) for step, data in recorded(tmp_path).items()} == dict.fromkeys(range(3), names)


def test_several_threads_begin_it_once() -> None:
    begun: list[Any] = []
    lazy = LazyStep(lambda: begun.append(1))
    site, barrier = CallSite("Torch", "add"), threading.Barrier(4)

    def call() -> None:
        barrier.wait()
        assert lazy.api_begin(site, (), {}) is None

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert begun == [1]


def test_what_keeps_it_from_beginning_is_told_and_not_raised(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def refuse() -> None:
        raise OSError("no golden step")

    lazy = LazyStep(refuse)
    for _ in range(2):
        assert lazy.module_begin(None, (), {}) is None
    lazy.module_end(None, 1)
    assert lazy.errors.count == 1
