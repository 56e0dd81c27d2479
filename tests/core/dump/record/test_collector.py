"""The collector of one step, on the fake framework, with records kept in memory."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from msprobe.core.capture.call_stack import StackTable
from msprobe.core.capture.observer import CurrentObserver
from msprobe.core.capture.thread_state import ThreadState
from msprobe.core.config import load_config
from msprobe.core.dump.record.backward import BackwardCall
from msprobe.core.dump.record.call_record import UNRELATED, CallRecord
from msprobe.core.dump.record.collector import Collector
from msprobe.core.dump.record.error_boundary import ErrorLog
from msprobe.core.dump.record.step_recorder import RecordingPlan, StepOutput, StepRecorder
from msprobe.core.dump.record.tensor_node import MeasuredTensors
from msprobe.core.selection import build_selection
from tests.core.memory_sink import MemorySink
from tests.fake_framework import functional, nn
from tests.fake_framework.backend import make_backend
from tests.fake_framework.tensor import Tensor
from tests.stable_ids import stable_id


class Watched:
    """The fake framework with a collector listening."""

    def __init__(self, **settings: Any) -> None:
        config = load_config({"dump_path": "unused", "risk_level": "ALL", **settings})
        self.current, thread, self.sink = CurrentObserver(), ThreadState(), MemorySink()
        self.backend = make_backend(config, self.current, thread)
        selection, plan = build_selection(config), RecordingPlan.of(config)
        nodes = MeasuredTensors(self.backend.ops, str(config.section.summary_mode), None)
        recorder = StepRecorder(plan, selection, self.backend, nodes, StepOutput(self.sink, ErrorLog(None)))
        self.collector = Collector(recorder, self.backend, thread, StackTable())

    @contextlib.contextmanager
    def on(self, model: Any = None) -> Iterator[None]:
        assert self.backend.apis is not None
        assert self.backend.modules is not None
        with contextlib.ExitStack() as taps:
            taps.enter_context(self.backend.apis.attach())
            if model is not None:
                self.backend.modules.adopt(model)
                taps.enter_context(self.backend.modules.attach())
            self.current.observer = self.collector
            yield
        assert self.collector.errors.count == 0

    @property
    def entries(self) -> dict[str, Any]:
        return self.sink.entries()


def tensor(value: float = 1, grad: bool = False) -> Tensor:
    return Tensor(np.full(3, value, np.float32), grad)


class Outer(nn.Module):
    """A module with one inside, and a call of its own."""

    def __init__(self) -> None:
        self.inner = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x).add(x)


class Model(nn.Module):
    def __init__(self) -> None:
        self.outer, self.last = Outer(), nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.outer(x).mul(x))


@pytest.mark.parametrize(
    ("mode", "forward", "backward"),
    [
        (["all"], {"input_args", "input_kwargs", "output"}, {"input", "output"}),
        (["forward"], {"input_args", "input_kwargs", "output"}, None),
        (["backward"], None, {"input", "output"}),
        (["input"], {"input_args", "input_kwargs"}, {"input"}),
        (["output"], {"output"}, {"output"}),
        (["forward", "output"], {"output"}, None),
    ],
    ids=stable_id,
)
def test_data_mode(mode: list[str], forward: set[str] | None, backward: set[str] | None) -> None:
    watched = Watched(statistics={"data_mode": mode})
    with watched.on():
        tensor(2, True).mul(tensor(3)).backward()
    found = {name: set(body) for name, body in watched.entries.items()}
    expected = {"Tensor.mul.0.forward": forward, "Tensor.mul.0.backward": backward}
    assert found == {name: keys for name, keys in expected.items() if keys is not None}


def test_task_structure_has_names_stacks_and_parents_only() -> None:
    watched = Watched(task="structure", level="mix")
    with watched.on(model := Model()):
        model(tensor())
    assert watched.entries == {}
    parents = {line["e"]: line["p"] for line in watched.sink.lines if "p" in line}
    assert parents == {
        "Functional.relu.0.forward": "Module.outer.inner.ReLU.forward.0",
        "Module.outer.inner.ReLU.forward.0": "Module.outer.Outer.forward.0",
        "Tensor.add.0.forward": "Module.outer.Outer.forward.0",
        "Module.outer.Outer.forward.0": None,
        "Tensor.mul.0.forward": None,
        "Functional.relu.1.forward": "Module.last.ReLU.forward.0",
        "Module.last.ReLU.forward.0": None,
    }


@pytest.mark.parametrize(("mode", "fields"), [("md5", {"Max", "md5"}), ("xor", {"md5"}), ("statistics", {"Max"})])
def test_summary_mode(mode: str, fields: set[str]) -> None:
    watched = Watched(statistics={"summary_mode": mode})
    with watched.on():
        functional.relu(tensor())
    node = watched.entries["Functional.relu.0.forward"]["output"][0]
    assert {"Max", "md5"} & node.keys() == fields


def test_a_listed_module_brings_what_runs_inside_it() -> None:
    watched = Watched(level="mix", statistics={"list": ["Module.outer.Outer.forward.0"]})
    with watched.on(model := Model()):
        model(tensor())
    assert list(watched.entries) == [
        "Functional.relu.0.forward",
        "Module.outer.inner.ReLU.forward.0",
        "Tensor.add.0.forward",
        "Module.outer.Outer.forward.0",
    ]


def test_scope_keeps_a_closing_module_whole() -> None:
    watched = Watched(level="mix", statistics={"scope": ["Tensor.mul.0.forward", "Module.last.ReLU.forward.0"]})
    with watched.on(model := Model()):
        model(tensor())
        model(tensor())
    assert list(watched.entries) == [
        "Tensor.mul.0.forward",
        "Functional.relu.1.forward",
        "Module.last.ReLU.forward.0",
    ]
    assert "output" in watched.entries["Module.last.ReLU.forward.0"]


def test_what_a_filter_drops_is_still_counted() -> None:
    watched = Watched(statistics={"list": ["Tensor.add.2.forward"]})
    with watched.on():
        for _ in range(4):
            tensor().add(tensor())
    assert list(watched.entries) == ["Tensor.add.2.forward"]
    assert watched.collector.recorder.skipped[:2] == ["Tensor.add.0.forward", "Tensor.add.1.forward"]


def test_a_risk_level_counts_all_calls_and_records_some() -> None:
    watched = Watched(risk_level="CORE")
    with watched.on():
        functional.relu(tensor())
        for _ in range(2):
            Tensor(np.eye(2)).matmul(Tensor(np.eye(2)))
    assert list(watched.entries) == ["Tensor.matmul.0.forward", "Tensor.matmul.1.forward"]


def test_inputs_of_a_running_call_can_be_had_early() -> None:
    watched = Watched()
    early: list[Any] = []

    class Slow(nn.Module):
        def __init__(self) -> None:
            self.inner = Waits()

    class Waits(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            for _ in range(3):
                watched.collector.tick()
                early.append([line for line in watched.sink.lines if "d" in line])
            return x

    slow = Slow()
    with watched.on(slow):
        slow.inner(tensor(5))
    assert [len(lines) for lines in early] == [0, 1, 1]
    (line,) = early[1]
    assert line["e"] == "Module.inner.Waits.forward.0"
    assert line["d"]["input_args"][0]["Max"] == 5
    assert "output" not in line["d"]


@pytest.mark.parametrize("late", [0, 1, 2, 3])
def test_a_step_ends_while_a_gradient_is_measured(late: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What came before stays, what comes later is no error; another thread of the program ends the step."""
    watched, measured = Watched(), []
    describer, collector = watched.collector.recorder.describer, watched.collector
    call = BackwardCall(collector._backward, "Module.x.backward.0", UNRELATED, ([0, 1, 2], {}))
    call.expect(1)

    def node(value: Any, name: str) -> Any:
        if len(measured) == late:
            measured.append(None)
            thread = threading.Thread(target=collector.end_step)
            thread.start()
            thread.join()
        if value is not None:
            measured.append(value)
        return None if value is None else {"value": value}

    monkeypatch.setattr(describer, "node", node)
    call.grad_output(0, 1)
    call.grad_input(0, 2)
    call.grad_inputs({1: 3, 2: 4})
    assert collector.errors.count == 0
    values = [{"value": number} if number <= late else None for number in range(1, 5)]
    expected = {"input": values[:1], "output": [*values[1:3], None]}
    assert [line["d"] for line in watched.sink.lines if "d" in line] == [
        expected if late < 2 else {**expected, "output": [values[1], None, None]}
    ]


def test_a_call_that_outlives_its_step_does_not_change_what_is_written() -> None:
    record = CallRecord("Module.x.forward.0", {"input_args": []})
    (line,) = record.lines()
    assert record.body is not None
    record.body["output"] = []
    assert line["d"] == {"input_args": []}


def test_gradients_after_the_end_are_ignored() -> None:
    watched = Watched()
    with watched.on():
        product = tensor(2, True).mul(tensor(3))
    watched.collector.end_step()
    product.backward()
    assert list(watched.entries) == ["Tensor.mul.0.forward"]


def test_incomplete_backwards_are_written_at_the_end() -> None:
    watched = Watched()
    with watched.on():
        first, _never_used = tensor(1, True).chunk(2)
        first.backward()
    watched.collector.end_step()
    record = watched.entries["Tensor.chunk.0.backward"]
    assert record["input"][0]["Max"] == 1
    assert record["input"][1] is None


def test_stacks_are_told_once() -> None:
    watched = Watched()
    with watched.on():
        for _ in range(3):
            functional.relu(tensor())
    told = [line for line in watched.sink.lines if "k" in line]
    used = [line["s"] for line in watched.sink.lines if "s" in line]
    assert (len(told), used) == (1, [told[0]["k"]] * 3)


def test_without_extra_info_there_are_no_stacks_and_parents() -> None:
    watched = Watched(level="mix", extra_info=False)
    with watched.on(model := Model()):
        model(tensor())
    assert {key for line in watched.sink.lines for key in line} == {"e", "d"}
