"""dump_enable in a dynamic graph: what the configuration file says at the time decides."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mindspore import Tensor, nn, ops, value_and_grad

from msprobe.mindspore import PrecisionDebugger


class Net(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Dense(4, 2, weight_init="ones")

    def construct(self, x: Any) -> Any:
        return ops.relu(self.fc(x)).sum()


class Run:
    """A training whose configuration file is edited."""

    def __init__(self, root: Path, path: Path, **fields: Any) -> None:
        self._path = path
        self._content = {"task": "statistics", "level": "mix", "dump_path": str(root), **fields}
        self._write()
        self._net = Net()
        self.debugger = PrecisionDebugger(str(path))

    def change(self, **fields: Any) -> None:
        """Write the fields and have the debugger look at once."""
        self._content = {**self._content, **fields}
        self._content = {key: value for key, value in self._content.items() if value is not None}
        self._write()
        assert PrecisionDebugger._maybe_reload_config(force=True)

    def train(self) -> tuple[bytes, ...]:
        self.debugger.start(self._net)
        step = value_and_grad(self._net, None, self._net.trainable_params())
        loss, gradients = step(Tensor(np.ones((3, 4), np.float32)))
        self.debugger.stop()
        self.debugger.step()
        return tuple(value.asnumpy().tobytes() for value in (loss, *gradients))

    def _write(self) -> None:
        self._path.write_text(json.dumps(self._content))


@pytest.fixture
def begin(bench: Any, tmp_path: Path) -> Any:
    bench.close()
    return lambda **fields: Run(bench.root, tmp_path / "config.json", **fields)


def test_switching_on_and_off(begin: Any, bench: Any) -> None:
    run = begin(dump_enable=False)
    plain = run.train()
    assert not bench.root.exists()
    run.change(dump_enable=True)
    assert run.train() == plain
    run.change(dump_enable=False)
    assert run.train() == plain
    assert bench.steps() == ["step1"]
    assert {"Cell.fc.Dense.backward.0", "Functional.relu.0.backward"} < set(bench.read(1).names())


@pytest.mark.parametrize(("before", "after"), [("L0", "mix"), ("mix", "L1"), ("L1", "L0")])
def test_the_level_can_change(begin: Any, bench: Any, before: str, after: str) -> None:
    run = begin(dump_enable=True, level=before)
    plain = run.train()
    run.change(level=after)
    assert run.train() == plain
    for step, level in ((0, before), (1, after)):
        recorded = bench.read(step)
        assert recorded.dump["level"] == level
        assert bool(recorded.names("Cell.fc")) == (level != "L1")
        assert bool(recorded.names("Functional.relu")) == (level != "L0")


def test_a_change_of_the_task_changes_the_label(begin: Any, bench: Any) -> None:
    run = begin(dump_enable=True)
    run.train()
    run.change(task="overflow_check", overflow_check={"overflow_nums": 1})
    run.train()
    run.change(task="tensor")
    run.train()
    producers = [bench.read(step).dump.get("producer") for step in (0, 1, 2)]
    assert producers == [None, "cpu-fallback", None]
    assert bench.read(2).files()


@pytest.mark.parametrize("switch", [True, None], ids=["watched", "key taken out"])
def test_kernels_are_no_change_of_a_run(
    begin: Any, bench: Any, switch: bool | None, capsys: pytest.CaptureFixture[str]
) -> None:
    run = begin(dump_enable=True)
    plain = run.train()
    run.change(level="L2", dump_enable=switch)
    assert run.train() == plain
    assert "collection is off until it is good" in capsys.readouterr().out
    run.change(level="L1", dump_enable=True)
    run.train()
    assert bench.steps() == ["step0", "step2"]
