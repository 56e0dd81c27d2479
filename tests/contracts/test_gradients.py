"""What every gradient tap must do: gradients in the places of the arguments, whole and without changing any."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from msprobe.core.capture.observer import CurrentObserver
from msprobe.core.capture.thread_state import ThreadState
from msprobe.core.config import load_config
from msprobe.core.dump.session.session import DumpSession
from tests.contracts.conftest import Collect
from tests.contracts.frameworks import Framework

ONES = np.ones((2, 4), np.float32)


def maxima(nodes: Any) -> Any:
    return [node and node["Max"] for node in nodes]


def test_input_follows_the_outputs_and_output_the_arguments(framework: Framework, collect: Collect) -> None:
    a, b = framework.tensor(ONES * 2, True), framework.tensor(ONES * 5, True)
    record = collect(lambda: framework.differentiate(lambda a, b: a.mul(b).sum(), a, b)).data["Tensor.mul.0.backward"]
    assert list(record) == ["input", "output"]
    assert maxima(record["input"]) == [1]
    assert maxima(record["output"]) == [5, 2]


def test_arguments_without_gradient_are_null(framework: Framework, collect: Collect) -> None:
    a, b = framework.tensor(ONES * 2), framework.tensor(ONES * 5, True)
    record = collect(lambda: framework.differentiate(lambda b: a.mul(b).sum(), b)).data["Tensor.mul.0.backward"]
    assert maxima(record["output"]) == [None, 2]


def test_keyword_arguments_come_last_by_name(framework: Framework, collect: Collect) -> None:
    x, w = framework.tensor(ONES, True), framework.tensor(np.full((3, 4), 2, np.float32), True)
    loss = lambda x, w: framework.functional.linear(x, weight=w).sum()  # noqa: E731
    found = collect(lambda: framework.differentiate(loss, x, w)).data["Functional.linear.0.backward"]["output"]
    assert found[0]["shape"] == [2, 4]
    assert found[-1]["weight"]["shape"] == [3, 4]


def test_each_output_brings_its_own_gradient(framework: Framework, collect: Collect) -> None:
    x = framework.tensor(np.arange(6, dtype=np.float32), True)
    twos, threes = framework.tensor(np.full(2, 2, np.float32)), framework.tensor(np.full(2, 3, np.float32))

    def loss(x: Any) -> Any:
        first, _unused, last = x.chunk(3)
        return first.mul(twos).add(last.mul(threes)).sum()

    record = collect(lambda: framework.differentiate(loss, x)).data["Tensor.chunk.0.backward"]
    assert maxima(record["input"])[0::2] == [2, 3]
    assert record["output"][0]["Max"] == 3
    assert record["output"][0]["Min"] == 0


def test_one_tensor_in_two_places(framework: Framework, collect: Collect) -> None:
    x = framework.tensor(ONES * 3, True)
    record = collect(lambda: framework.differentiate(lambda x: x.mul(x).sum(), x)).data["Tensor.mul.0.backward"]
    assert maxima(record["output"]) == [3, 3]


def test_uses_outside_the_call_are_not_counted_in(framework: Framework, collect: Collect) -> None:
    x, two, nine = (framework.tensor(ONES * factor, factor == 1) for factor in (1, 2, 9))
    data = collect(lambda: framework.differentiate(lambda x: x.mul(two).add(x.mul(nine)).sum(), x)).data
    assert data["Tensor.mul.0.backward"]["output"][0]["Max"] == 2
    assert data["Tensor.mul.1.backward"]["output"][0]["Max"] == 9


def test_in_place_operators_have_backward_records(framework: Framework, collect: Collect) -> None:
    x, three = framework.tensor(ONES, True), framework.tensor(ONES * 3)
    two = framework.tensor(ONES * 2)
    loss = lambda x: x.mul(two).mul_(three).sum()  # noqa: E731
    record = collect(lambda: framework.differentiate(loss, x)).data["Tensor.mul_.0.backward"]
    assert (maxima(record["input"]), record["output"][0]["Max"]) == ([1], 3)


def test_in_place_modules_keep_their_backward_records(framework: Framework, collect: Collect) -> None:
    model = framework.mlp(True)
    loss = lambda: model(framework.tensor(ONES)).sum()  # noqa: E731
    dump = collect(lambda: framework.differentiate(loss, model=model), model, level="L0")
    for name in ("fc1.Linear", "act.ReLU", "fc2.Linear"):
        assert f"Module.{name}.backward.0" in dump.data


def test_backward_runs_from_the_loss_to_the_first_layer(framework: Framework, collect: Collect) -> None:
    model = framework.mlp()
    x = framework.tensor(ONES, True)
    dump = collect(lambda: framework.differentiate(lambda x: model(x).sum(), x, model=model), model, level="mix")
    modules = [name for name in dump.data if name.startswith("Module.") and ".backward." in name]
    assert modules == ["Module.fc2.Linear.backward.0", "Module.act.ReLU.backward.0", "Module.fc1.Linear.backward.0"]
    assert dump.construct["Functional.linear.0.backward"] == "Module.fc1.Linear.backward.0"


def test_parameter_gradients(framework: Framework, collect: Collect) -> None:
    model = framework.mlp()
    loss = lambda: model(framework.tensor(ONES)).sum()  # noqa: E731
    dump = collect(lambda: framework.differentiate(loss, model=model), model, level="mix")
    record = dump.data["Module.fc2.Linear.parameters_grad.0"]
    assert {key: node[0]["shape"] for key, node in record.items()} == {"weight": [2, 3], "bias": [2]}


def test_stop_before_backward_loses_nothing(framework: Framework, tmp_path: Path) -> None:
    model = framework.mlp()
    session = DumpSession(
        load_config({"dump_path": str(tmp_path), "level": "mix", "risk_level": "ALL"}), framework.make
    )
    early: dict[str, Any] = {}

    def loss(x: Any) -> Any:
        value = model(x).sum()
        session.stop()
        early.update(framework.load(tmp_path).data)
        return value

    try:
        session.start(model)
        framework.differentiate(loss, framework.tensor(ONES, True), model=model)
        session.step()
    finally:
        session.close()
    late = framework.load(tmp_path).data
    assert not any("backward" in name for name in early)
    for name in ("Functional.linear.0.backward", "Module.fc1.Linear.backward.0", "Module.fc1.Linear.parameters_grad.0"):
        assert name in late
    assert early.items() <= late.items()


def test_a_second_backward_replaces_the_first(framework: Framework, collect: Collect) -> None:
    x = framework.tensor(ONES, True)
    two, three = framework.tensor(ONES * 2), framework.tensor(ONES * 3)

    def body() -> None:
        shared = x.add(two)  # keeps nothing, so no framework frees anything of it after the first pass
        shared.mul(two).sum().backward()
        shared.mul(three).sum().backward()

    assert collect(body).data["Tensor.add.0.backward"]["input"][0]["Max"] == 3


def test_gradients_are_those_of_a_run_without_the_tool(framework: Framework, collect: Collect) -> None:
    def gradients() -> list[bytes]:
        a, b = (
            framework.tensor(np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4), True),
            framework.tensor(ONES / 3, True),
        )
        loss = lambda a, b: framework.functional.relu(a.mul(b).mul_(framework.tensor(ONES * 7))).sum()  # noqa: E731
        return [gradient.tobytes() for gradient in framework.differentiate(loss, a, b)]

    plain, recorded = gradients(), []
    collect(lambda: recorded.extend(gradients()))
    assert recorded == plain


def test_every_gradient_of_a_watched_tensor_is_reported(framework: Framework) -> None:
    gradients = framework.make(load_config({"dump_path": "unused"}), CurrentObserver(), ThreadState()).gradients
    x, two = framework.tensor(ONES, True), framework.tensor(ONES * 2)
    found: list[Any] = []

    def loss(x: Any) -> Any:
        inner = x.mul(two)
        assert gradients.watch(inner, lambda gradient: found.append(framework.array(gradient))) is not None
        return inner.mul(two).add(inner).sum()

    framework.differentiate(loss, x)
    assert [gradient.tolist() for gradient in found] == [(ONES * 3).tolist()]
