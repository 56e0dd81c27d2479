"""start, stop and step in any order: nothing raises, every call lands in its step under its number."""

from __future__ import annotations

import json
import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from msprobe.core.config import load_config
from msprobe.core.dump.session.session import DumpSession
from msprobe.core.errors import MsprobeException
from msprobe.core.log import logger
from tests.fake_framework import functional, nn
from tests.fake_framework.backend import make_backend
from tests.fake_framework.tensor import Tensor
from tests.stable_ids import stable_id


def session_of(path: Path | str, **config: Any) -> DumpSession:
    return DumpSession(load_config({"dump_path": str(path), "risk_level": "ALL", **config}), make_backend)


def recorded(path: Path | str) -> dict[int, dict[str, Any]]:
    """The data of every step below a dump path."""
    found = {}
    for document in Path(path).glob("step*/*/dump.json"):
        found[int(document.parts[-3].removeprefix("step"))] = json.loads(document.read_bytes())["data"]
    return dict(sorted(found.items()))


def tensor(grad: bool = False) -> Tensor:
    return Tensor(np.ones(3, np.float32), grad)


@pytest.fixture
def said() -> Iterator[list[str]]:
    lines: list[str] = []

    class Keeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(f"{record.levelname} {record.getMessage()}")

    handler = Keeper()
    logger.addHandler(handler)
    yield lines
    logger.removeHandler(handler)


class Expected:
    """What the documents must hold, followed by hand."""

    def __init__(self) -> None:
        self.step = 0
        self.running = False
        self.open = False
        self.names: dict[int, list[str]] = {}
        self.unasked: set[int] = set()
        self.waiting: list[tuple[int, Tensor]] = []

    def follow(self, action: str, session: DumpSession) -> None:
        getattr(self, action)(session)

    def start(self, session: DumpSession) -> None:
        session.start()
        if not self.running:
            self.unasked.discard(self.step)  # now it is asked for
        self.running = True
        self.names.setdefault(self.step, [])

    def stop(self, session: DumpSession) -> None:
        session.stop()
        self.running = False

    def end_step(self, session: DumpSession) -> None:
        session.step()
        self.step += 1
        self.waiting.clear()
        if self.running:
            self.names.setdefault(self.step, [])
            self.unasked.add(self.step)

    @property
    def left(self) -> dict[int, list[str]]:
        """A step that began only because the one before was not stopped leaves nothing when nothing happens in it."""
        return {step: names for step, names in self.names.items() if names or step not in self.unasked}

    def call(self, session: DumpSession) -> None:
        result = tensor(True).add(tensor())
        if self.running:
            number = sum(name.endswith("forward") for name in self.names[self.step])
            self.names[self.step].append(f"Tensor.add.{number}.forward")
            self.waiting.append((number, result))

    def backward(self, session: DumpSession) -> None:
        for number, result in self.waiting:
            result.backward()
            self.names[self.step].append(f"Tensor.add.{number}.backward")
        self.waiting.clear()


ACTIONS = st.lists(st.sampled_from(["start", "stop", "end_step", "call", "call", "backward"]), max_size=14)


@settings(max_examples=60)
@given(ACTIONS)
def test_any_order_is_right(actions: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        session, expected = session_of(folder), Expected()
        for action in actions:
            expected.follow(action, session)
        session.close()
        assert {step: list(data) for step, data in recorded(folder).items()} == expected.left
        assert not list(Path(folder).rglob("dump.journal"))
        assert not list(Path(folder).rglob("dump_error_info.log"))
    assert Tensor.add.__qualname__ == "Tensor.add"
    assert not hasattr(Tensor.add, "__wrapped__")


def test_documents_are_complete_after_every_stop(tmp_path: Path) -> None:
    session = session_of(tmp_path)
    for count in (1, 2):
        session.start()
        functional.relu(tensor())
        session.stop()
        functional.relu(tensor())
        assert list(recorded(tmp_path)[0]) == [f"Functional.relu.{number}.forward" for number in range(count)]
    session.close()


def loop(session: DumpSession, steps: int = 4) -> None:
    for _ in range(steps):
        session.start()
        functional.relu(tensor())
        session.stop()
        session.step()
    session.close()


def test_steps_that_are_not_asked_for_leave_nothing(tmp_path: Path, said: list[str]) -> None:
    loop(session_of(tmp_path, step=[0, "2-2"]))
    assert {step: list(data) for step, data in recorded(tmp_path).items()} == {
        0: ["Functional.relu.0.forward"],
        2: ["Functional.relu.0.forward"],
    }
    assert len([line for line in said if "all steps asked for (up to 2) are over" in line]) == 1


def test_the_first_step_can_be_numbered(tmp_path: Path) -> None:
    session = session_of(tmp_path)
    session.set_init_step(7)
    loop(session, 2)
    assert list(recorded(tmp_path)) == [7, 8]


@pytest.mark.parametrize(("rank", "folders"), [(1, {"rank1"}), (2, set()), (None, set())])
def test_ranks_that_are_not_asked_for_leave_nothing(
    rank: int | None, folders: set[str], tmp_path: Path, said: list[str]
) -> None:
    session = session_of(tmp_path, rank=[0, 1])
    for _ in range(3):
        session.start(rank_id=rank)
        functional.relu(tensor())
        session.stop()
        session.step()
    session.close()
    assert {path.name for path in tmp_path.glob("step*/*")} == folders
    warned = [line for line in said if line.startswith("WARNING nothing is collected")]
    assert len(warned) == (0 if folders else 1)
    assert all("rank 0-1, this process is" in line for line in warned)


@pytest.mark.parametrize("level", ["L0", "mix"])
def test_modules_need_a_model(level: str, tmp_path: Path) -> None:
    session = session_of(tmp_path, level=level)
    with pytest.raises(MsprobeException, match="needs the model"):
        session.start()
    with pytest.raises(MsprobeException, match="expected a Module, got int"):
        session.start(3)
    assert not session.running
    assert not list(tmp_path.iterdir())
    session.start(nn.ReLU())
    assert session.running
    session.close()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, ["no call was seen between start and stop"]),
        ({"statistics": {"list": ["softmax"]}}, ['list ["softmax"] let nothing through', "Functional.relu.0.forward"]),
        (
            {"statistics": {"scope": ["Tensor.add.5.forward", "Tensor.add.6.forward"]}},
            ['scope ["Tensor.add.5.forward", "Tensor.add.6.forward"] let nothing through', "Functional.relu.0.forward"],
        ),
        ({"risk_level": "CORE"}, ["no API of risk_level CORE", "ALL records all"]),
    ],
    ids=stable_id,
)
def test_an_empty_step_says_why(settings: dict[str, Any], words: list[str], tmp_path: Path, said: list[str]) -> None:
    session = session_of(tmp_path, **settings)
    session.start()
    if settings:
        functional.relu(tensor())
    session.stop()
    session.step()
    session.close()
    warnings = [line for line in said if line.startswith("WARNING step is empty")]
    assert len(warnings) == 1
    assert all(word in warnings[0] for word in words), warnings


def test_a_mode_that_leaves_a_step_empty_is_named(tmp_path: Path, said: list[str]) -> None:
    session = session_of(tmp_path, extra_info=False, statistics={"data_mode": ["backward"]})
    session.start()
    functional.relu(tensor())
    session.close()
    assert any("data_mode" in line for line in said if line.startswith("WARNING step is empty"))


def test_a_step_with_records_says_nothing_of_emptiness(tmp_path: Path, said: list[str]) -> None:
    loop(session_of(tmp_path))
    assert not [line for line in said if "empty" in line]


def test_statistics_from_a_device_arrive_before_the_documents(tmp_path: Path) -> None:
    config = load_config({"dump_path": str(tmp_path), "risk_level": "ALL"})
    session = DumpSession(config, lambda *parts: make_backend(*parts, deferred=True))
    session.start()
    for _ in range(3):
        functional.relu(tensor())
    session.stop()
    data = recorded(tmp_path)[0]
    session.close()
    assert [body["output"][0]["Max"] for body in data.values()] == [1.0] * 3


def test_what_was_not_stopped_is_published_at_the_end(tmp_path: Path) -> None:
    session = session_of(tmp_path)
    session.start()
    functional.relu(tensor())
    session.close()
    session.close()
    assert list(recorded(tmp_path)[0]) == ["Functional.relu.0.forward"]


def test_focus_records_one_module_alone(tmp_path: Path) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            self.first, self.second = nn.ReLU(), nn.ReLU()

        def forward(self, x: Tensor) -> Tensor:
            return self.second(self.first(x))

    model, session = Model(), session_of(tmp_path, level="mix")
    session.start(model)
    session.focus(model.second, "chosen")
    model(tensor())
    session.focus_end()
    model(tensor())
    session.close()
    names = list(recorded(tmp_path)[0])
    assert names[0] == "Module.chosen.ReLU.forward.0"
    assert "Module.first.ReLU.forward.0" in names
