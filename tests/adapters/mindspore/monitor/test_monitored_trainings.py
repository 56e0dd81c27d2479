"""``TrainerMon`` and ``TrainerMonitorV2`` in real trainings of MindSpore: files, alerts, what is refused."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import mindspore
import numpy as np
import pytest
from mindspore import Tensor, nn, ops, value_and_grad

from msprobe.core.errors import MsprobeException
from msprobe.mindspore import TrainerMon
from msprobe.monitor.trainer_monitor_v2 import TrainerMonitorV2


@pytest.fixture(autouse=True)
def output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MONITOR_OUTPUT_DIR", str(tmp_path / "out"))
    return tmp_path / "out"


def make() -> tuple[Any, Any, Any]:
    """Return a net, an optimizer that leaves it as it is, and what computes its gradients."""
    mindspore.set_seed(0)
    net = nn.SequentialCell(nn.Dense(4, 4))
    optimizer = nn.SGD(net.trainable_params(), 0.0)

    def loss(x: Any) -> Any:
        return ops.square(net(x)).mean()

    return net, optimizer, value_and_grad(loss, None, net.trainable_params())


def rows(file: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(file.read_text().splitlines()))


def test_files_and_alerts_of_a_run(output: Path) -> None:
    net, optimizer, compute = make()
    rules = [{"rule_name": "AnomalyTurbulence", "args": {"threshold": 0.5}}]
    config = {"wg_distribution": True, "step_count_per_record": 4, "ops": ["max", "norm"]}
    monitor = TrainerMon({**config, "alert": {"rules": rules, "dump": True}})
    monitor.set_monitor(net, optimizer, grad_acc_steps=1, tp_group=None, dp_group=None, start_iteration=2)
    for step in range(2, 8):
        optimizer(compute(Tensor(np.full((2, 4), 1000 if step == 6 else 1, np.float32)))[1])
    monitor.stop()
    files = sorted(path.name for path in output.glob("*-rank0-*/*"))
    assert files == [
        "grad_reduced_2-5.csv", "grad_reduced_6-9.csv", "grad_unreduced_2-5.csv", "grad_unreduced_6-9.csv"
    ]  # fmt: skip
    (file,) = output.glob("*/grad_reduced_6-9.csv")
    assert list(rows(file)[0]) == ["vpp_stage", "name", "step", "max", "norm", "shape", "dtype"]
    assert {row["dtype"] for row in rows(file)} == {"Float32"}
    document = json.loads((output / "anomaly_detected" / "rank0" / "anomaly.json").read_text())
    assert {(one["step"], one["tag_name"]) for one in document.values()} >= {(6, "0:0.weight/rank0/post_grad")}
    assert {one["step"] for one in document.values()} == {6}


@pytest.mark.parametrize("by_hand", [False, True])
def test_the_second_version_watches_mindspore(tmp_path: Path, by_hand: bool) -> None:
    net, optimizer, compute = make()
    sections = {name: {"enabled": True} for name in ("module", "weight_grad", "param")}
    monitor = TrainerMonitorV2({"output_dir": str(tmp_path), "monitors": sections}, fr="mindspore")
    monitor.start(model=net, optimizer=None if by_hand else optimizer)
    for _ in range(2):
        optimizer(compute(Tensor(np.ones((2, 4), np.float32)))[1])
        monitor.step()
    monitor.stop()
    names = {path.name for path in (tmp_path / "rank_0").iterdir()}
    assert names == {f"{one}_step{step}-{step}.csv" for one in sections for step in (0, 1)}
    module = rows(tmp_path / "rank_0" / "module_step1-1.csv")
    assert {row["module_name"] for row in module} >= {"0.input.0", "0.output.0", "0.grad_output.0"}


def test_a_static_graph_is_refused_in_one_line(output: Path) -> None:
    net, optimizer, _ = make()
    monitor = TrainerMon({"xy_distribution": True})
    mindspore.set_context(mode=mindspore.GRAPH_MODE)
    try:
        with pytest.raises(MsprobeException, match="PYNATIVE_MODE") as refused:
            monitor.set_monitor(net, optimizer)
    finally:
        mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
    assert "\n" not in str(refused.value)


def test_steps_inside_of_a_compiled_function_are_said_to_be_unseen(caplog: pytest.LogCaptureFixture) -> None:
    net, optimizer, compute = make()

    @mindspore.jit
    def step(x: Any) -> Any:
        loss, gradients = compute(x)
        optimizer(gradients)
        return loss

    monitor = TrainerMon({"wg_distribution": True})
    monitor.set_monitor(net, optimizer)
    step(Tensor(np.ones((2, 4), np.float32)))
    monitor.stop()
    assert "no step of an optimizer was seen" in caplog.text
