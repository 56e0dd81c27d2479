"""What every tap must do: names, numbers, order, parents, and no trace while idle."""

from __future__ import annotations

import inspect
import pickle
from typing import Any

import numpy as np
import pytest

from msprobe.core.capture.observer import CurrentObserver
from msprobe.core.capture.thread_state import ThreadState
from msprobe.core.config import load_config
from msprobe.core.dump.session.session import DumpSession
from tests.contracts.conftest import Collect
from tests.contracts.frameworks import Framework

ONES = np.ones((2, 4), np.float32)


def forward(names: Any) -> list[str]:
    return [name for name in names if ".forward" in name]


def test_calls_are_numbered_per_function(framework: Framework, collect: Collect) -> None:
    def body() -> None:
        x = framework.tensor(ONES)
        framework.functional.relu(x)
        x.mul(x)
        framework.functional.relu(x.mul(x))

    assert list(collect(body).data) == [
        "Functional.relu.0.forward",
        "Tensor.mul.0.forward",
        "Tensor.mul.1.forward",
        "Functional.relu.1.forward",
    ]


def test_nested_calls_are_recorded_outermost_only(framework: Framework, collect: Collect) -> None:
    def body() -> None:
        x, w = framework.tensor(ONES), framework.tensor(np.ones((3, 4), np.float32))
        framework.functional.linear(x, w)
        framework.functional.relu(x)

    assert list(collect(body).data) == ["Functional.linear.0.forward", "Functional.relu.0.forward"]


def test_positional_and_keyword_arguments(framework: Framework, collect: Collect) -> None:
    def body() -> None:
        x, w = framework.tensor(ONES), framework.tensor(np.full((3, 4), 2, np.float32))
        framework.functional.linear(x, weight=w, bias=None)

    record = collect(body).data["Functional.linear.0.forward"]
    assert list(record) == ["input_args", "input_kwargs", "output"]
    assert [node["Max"] for node in record["input_args"]] == [1]
    assert record["input_kwargs"]["weight"]["Max"] == 2
    assert record["input_kwargs"]["bias"] is None
    assert record["output"][0]["shape"] == [2, 3]


def test_several_outputs(framework: Framework, collect: Collect) -> None:
    dump = collect(lambda: framework.tensor(np.arange(6, dtype=np.float32)).chunk(3))
    assert [node["Max"] for node in dump.data["Tensor.chunk.0.forward"]["output"]] == [1, 3, 5]


def test_in_place_operators_keep_their_true_input(framework: Framework, collect: Collect) -> None:
    mul = collect(lambda: framework.tensor(ONES).mul_(framework.tensor(ONES * 3))).data["Tensor.mul_.0.forward"]
    assert (mul["input_args"][0]["Max"], mul["output"][0]["Max"]) == (1, 3)


def test_functions_asked_to_work_in_place_keep_their_true_input(framework: Framework, collect: Collect) -> None:
    data = collect(lambda: framework.functional.relu(framework.tensor(-ONES), inplace=True)).data
    assert list(data) == ["Functional.relu.0.forward"]
    relu = data["Functional.relu.0.forward"]
    assert (relu["input_args"][0]["Min"], relu["output"][0]["Min"]) == (-1, 0)


def test_a_call_that_raises_leaves_its_inputs(framework: Framework, collect: Collect) -> None:
    def body() -> None:
        x = framework.tensor(ONES)
        with pytest.raises((ValueError, RuntimeError)):
            x.matmul(x)
        framework.functional.relu(x)

    data = collect(body).data
    assert list(data) == ["Tensor.matmul.0.forward", "Functional.relu.0.forward"]
    failed = data["Tensor.matmul.0.forward"]
    assert failed["input_args"][0]["Max"] == 1
    assert "output" not in failed
    assert failed["error"].startswith(("ValueError", "RuntimeError"))


def test_a_module_that_raises_does_not_disturb_later_parents(framework: Framework, collect: Collect) -> None:
    broken, model = framework.raising(), framework.mlp()

    def body() -> None:
        with pytest.raises((ValueError, RuntimeError)):
            broken(framework.tensor(ONES))
        model(framework.tensor(ONES))

    dump = collect(body, [broken, model], level="mix")
    assert dump.data["Module.0.inner.Raising.forward.0"]["input_args"][0]["Max"] == 1
    assert dump.construct["Tensor.matmul.0.forward"] == "Module.0.inner.Raising.forward.0"
    assert dump.construct["Module.1.fc1.Linear.forward.0"] is None


def test_modules_and_their_calls(framework: Framework, collect: Collect) -> None:
    model = framework.mlp()

    def body() -> None:
        model(framework.tensor(ONES))
        model(framework.tensor(ONES))

    dump = collect(body, model, level="mix")
    assert forward(dump.data)[:6] == [
        "Functional.linear.0.forward",
        "Module.fc1.Linear.forward.0",
        "Functional.relu.0.forward",
        "Module.act.ReLU.forward.0",
        "Functional.linear.1.forward",
        "Module.fc2.Linear.forward.0",
    ]
    assert "Module.fc2.Linear.forward.1" in dump.data
    assert dump.construct["Functional.linear.3.forward"] == "Module.fc2.Linear.forward.1"
    assert list(dump.data["Module.fc1.Linear.forward.0"]["parameters"]) == ["weight", "bias"]


def test_modules_alone_at_l0(framework: Framework, collect: Collect) -> None:
    model = framework.mlp()
    dump = collect(lambda: model(framework.tensor(ONES)), model, level="L0")
    assert {name.split(".")[0] for name in dump.data} == {"Module"}


def test_optimizer_step_has_a_place(framework: Framework, collect: Collect) -> None:
    model = framework.mlp()
    optimizer = framework.sgd(model)

    def body() -> None:
        framework.differentiate(lambda: model(framework.tensor(ONES)).sum(), model=model)
        framework.optimize(optimizer)

    assert collect(body, model, level="mix").construct["optimizer"] is None


def test_every_frame_of_the_stack_is_the_users(framework: Framework, collect: Collect) -> None:
    dump = collect(lambda: framework.functional.relu(framework.tensor(ONES)))
    frames = dump.stacks["Functional.relu.0.forward"]
    assert f"File {__file__}, " in frames[0]
    assert "framework.functional.relu" in frames[0]
    assert not any("msprobe/core" in frame or "msprobe/adapters" in frame for frame in frames)


WHILE_GRADIENTS_ARE_AWAITED = {"mindspore": ["<class 'mindspore.graph.api._JitExecutor'>.compile"]}
"""What stays replaced from ``stop`` to ``step``: the compiler must not read the hooks of parameters."""


def test_nothing_is_wrapped_while_idle(framework: Framework, tmp_path: Any) -> None:
    before = dict(framework.attributes())
    session = DumpSession(load_config(None, dump_path=str(tmp_path), level="mix"), framework.make)

    def changed() -> list[str]:  # a number counts something, as MindSpore counts its cells
        now = [(name, value) for name, value in framework.attributes() if not isinstance(value, int)]
        return [name for name, value in now if before.get(name) is not value]

    assert changed() == []
    session.start(framework.mlp())
    assert changed()
    session.stop()
    assert changed() == WHILE_GRADIENTS_ARE_AWAITED.get(framework.name, [])
    session.step()
    assert changed() == []
    session.start(framework.mlp())
    session.step()
    session.close()
    assert changed() == []
    assert dict(framework.attributes()).keys() == before.keys()


def test_wrapped_functions_look_like_the_originals(framework: Framework, tmp_path: Any) -> None:
    original = framework.functional.linear
    session = DumpSession(load_config(None, dump_path=str(tmp_path)), framework.make)
    session.start()
    try:
        wrapped = framework.functional.linear
        assert wrapped is not original
        assert (wrapped.__name__, wrapped.__doc__) == (original.__name__, original.__doc__)
        assert pickle.loads(pickle.dumps(framework.functional.relu)) is framework.functional.relu
        if framework.name == "fake":  # torch's linear is built in and shows no signature
            assert inspect.signature(wrapped) == inspect.signature(original)
    finally:
        session.close()
    assert framework.functional.linear is original


def test_added_functions_are_recorded_until_removed(framework: Framework, tmp_path: Any) -> None:
    class Owner:
        @staticmethod
        def double(x: Any) -> Any:
            return x

    calls: list[str] = []
    current, thread = CurrentObserver(), ThreadState()

    class Watch:
        def api_begin(self, site: Any, args: Any, kwargs: Any) -> None:
            calls.append(f"{site.stem}{next(site.calls)}")

    apis = framework.make(load_config(None, dump_path=str(tmp_path)), current, thread).apis
    original = vars(Owner)["double"]
    apis.add(Owner, "double", "Mine")
    with apis.attach():
        current.observer = Watch()  # type: ignore[assignment]
        Owner.double(1)
        Owner.double(2)
        apis.remove(Owner, "double")
        Owner.double(3)
    assert calls == ["Mine.double.0", "Mine.double.1"]
    assert vars(Owner)["double"] is original
