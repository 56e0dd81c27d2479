"""``TrainerMonitorV2`` in a real training: files, columns, who ends a step."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from msprobe.core.errors import MsprobeException  # noqa: E402
from msprobe.monitor import session  # noqa: E402
from msprobe.monitor.trainer_monitor_v2 import TrainerMonitorV2  # noqa: E402

pytestmark = pytest.mark.torch


def train(config: dict[str, Any], by_hand: bool = False, steps: int = 3) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    monitor = TrainerMonitorV2(config)
    monitor.start(model=model, optimizer=None if by_hand else optimizer)
    for _ in range(steps):
        model(torch.randn(2, 4)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        monitor.step()
    monitor.stop()


def rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


@pytest.mark.parametrize("by_hand", [False, True])
def test_each_monitor_has_its_file(tmp_path: Path, by_hand: bool) -> None:
    sections = {name: {"enabled": True} for name in ("module", "weight_grad", "optimizer", "param")}
    sections["module"] = {"targets": ["0"], "ops": ["norm", "nans"]}
    train({"output_dir": str(tmp_path / "new"), "step_count_per_record": 2, "monitors": sections}, by_hand)
    folder = tmp_path / "new" / "rank_0"
    names = {path.name for path in folder.iterdir()}
    assert names == {f"{one}_step{span}.csv" for one in sections for span in ("0-1", "2-3")}
    module = rows(folder / "module_step0-1.csv")
    assert list(module[0]) == ["vpp_stage", "step", "module_name", "scope", "norm", "nans"]
    assert {(row["module_name"], row["scope"]) for row in module} == {
        ("0.input.0", "forward"), ("0.output.0", "forward"), ("0.grad_output.0", "backward")
    }  # fmt: skip
    moments = rows(folder / "optimizer_step0-1.csv")
    assert moments[0]["module_name"] == "0.weight.exp_avg"
    assert moments[0]["step"] == "0"  # as they are after the step
    gradients = rows(folder / "weight_grad_step2-3.csv")
    assert {(row["scope"], row["micro_step"]) for row in gradients} == {("unreduced", "1"), ("reduced", "1")}


def test_steps_of_a_window(tmp_path: Path) -> None:
    config = {"output_dir": str(tmp_path), "start_step": 1, "stop_step": 2, "monitors": {"param": {"enabled": True}}}
    train(config)
    assert [path.name for path in (tmp_path / "rank_0").iterdir()] == ["param_step1-1.csv"]


def test_step_by_hand_warns_once_where_the_optimizer_ends_steps(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    train({"output_dir": str(tmp_path), "monitors": {}})
    assert caplog.text.count("step() has no effect") == 1


@pytest.mark.parametrize("value", ["tensorflow", "np"])
def test_another_framework_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match="framework"):
        TrainerMonitorV2({"framework": value})
    with pytest.raises(MsprobeException, match="framework"):
        TrainerMonitorV2({}, fr=value)


def test_a_model_is_needed() -> None:
    with pytest.raises(MsprobeException, match="model"):
        TrainerMonitorV2({}).start()


def test_ranks_may_be_one_number(tmp_path: Path) -> None:
    for rank, written in ((1, False), ([0, 3], True), (0, True)):
        folder = tmp_path / str(rank)
        train({"output_dir": str(folder), "rank": rank, "monitors": {"param": {"enabled": True}}})
        assert folder.exists() is written


def test_reserved_and_counting_keys(tmp_path: Path) -> None:
    keys = {"async_write": True, "step_interval": 2, "collect_times": 2}
    train({"output_dir": str(tmp_path), **keys, "monitors": {"param": {"enabled": True}}}, steps=7)
    assert {path.name for path in (tmp_path / "rank_0").iterdir()} == {"param_step0-0.csv", "param_step2-2.csv"}


def test_steps_by_hand_beside_an_optimizer(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = {"output_dir": str(tmp_path), "patch_optimizer_step": False, "monitors": {"param": {"enabled": True}}}
    train(config)
    assert len(list((tmp_path / "rank_0").iterdir())) == 3
    assert "no effect" not in caplog.text


def test_a_step_that_never_ends_has_bounded_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(session, "MOST_ROWS", 40)
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    monitor = TrainerMonitorV2({"output_dir": str(tmp_path), "monitors": {"module": {}, "param": {}}})
    monitor.start(model=model)  # and step() is never called

    def make_steps(count: int) -> None:
        for _ in range(count):
            model(torch.randn(2, 4)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

    make_steps(4)
    early = measured(monitor)
    make_steps(60)
    assert len(early) < len(measured(monitor)) <= 45
    assert measured(monitor)[: len(early)] == early
    assert caplog.text.count("has not ended") == 1 and "call step() after each step" in caplog.text
    monitor.step()
    assert not measured(monitor)
    make_steps(1)  # the next step is measured again
    assert measured(monitor)
    monitor.stop()
    written = [row for path in tmp_path.rglob("*.csv") for row in rows(path)]
    assert len([row for row in written if row["step"] == "0"]) >= 30  # but for gradients that there are not


def measured(monitor: TrainerMonitorV2) -> list[tuple[str, str]]:
    """The sources and names of what the running step has."""
    assert monitor._session is not None
    return [(row.source.name, row.label) for row in monitor._session.present_rows()]
