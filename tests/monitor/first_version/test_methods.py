"""The methods of ``TrainerMon`` beside ``set_monitor``."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from msprobe.core.errors import MsprobeException  # noqa: E402
from msprobe.pytorch import TrainerMon  # noqa: E402
from tests.monitor.trained import Net, names_of, rows_of, train  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MONITOR_OUTPUT_DIR", str(tmp_path / "out"))
    monkeypatch.delenv("DYNAMIC_MONITOR", raising=False)
    return tmp_path / "out"


def test_ops_may_change_while_training(output: Path) -> None:
    def change(step: int, monitor: TrainerMon) -> None:
        if step == 1:
            monitor.ops = ["min", "max"]
            assert monitor.ops == ["min", "max", "shape", "dtype"]

    train({"wg_distribution": True, "step_count_per_record": 10}, each_step=change)
    assert names_of(output) == {
        f"grad_{one}_{span}.csv" for one in ("reduced", "unreduced") for span in ("0-9", "2-11")
    }
    rows = rows_of(output, "grad_reduced")
    assert "norm" in rows[0] and "min" not in rows[0]
    assert "max" in rows[-1] and "norm" not in rows[-1]
    with pytest.raises(MsprobeException, match="list of names"):
        TrainerMon({}).ops = "norm"


def test_api_format_writes_nothing_and_answers(output: Path) -> None:
    asked = []

    def ask(step: int, monitor: TrainerMon) -> None:
        asked.append((
            monitor.generate_wgrad_metrics(),
            monitor.generate_wgrad_metrics({}),
            monitor.generate_xy_metrics(),
        ))

    train({"format": "api", "wg_distribution": True, "xy_distribution": True}, steps=2, each_step=ask)
    assert not output.exists()
    (reduced, unreduced), same, (actv, actv_grad) = asked[0]
    assert (reduced, unreduced) == same
    assert reduced["0:fc1.weight/rank0/post_grad"]["norm"] > 0
    assert reduced["0:fc1.weight/rank0/post_grad"]["shape"] == (16, 8)
    assert unreduced["0:fc1.weight/rank0/acc_grad"] == reduced["0:fc1.weight/rank0/post_grad"]
    assert "0:fc1.input:0/rank0/actv" in actv
    assert "0:fc1.output:0/rank0/actv_grad" in actv_grad
    assert asked[1][0][0] != reduced


def test_metrics_of_the_running_step_are_there_before_it_ends() -> None:
    model = Net()
    monitor = TrainerMon({"format": "api", "xy_distribution": True})
    monitor.set_monitor(model, torch.optim.SGD(model.parameters(), lr=0.1))
    model(torch.ones(4, 8))
    actv, _ = monitor.generate_xy_metrics()
    monitor.stop()
    assert actv["0:fc1.input:0/rank0/actv"]["norm"] == pytest.approx(32**0.5)


def test_adhoc_check_measures_a_tensor_of_the_program(output: Path) -> None:
    def check(step: int, monitor: TrainerMon) -> None:
        monitor.adhoc_check(torch.arange(4.0), "mine", "one", [0], ["norm", "max"])
        monitor.adhoc_check(torch.ones(2), "mine", "other", [], ["mean"])
        monitor.adhoc_check(torch.ones(2), "mine", "elsewhere", [3], ["mean"])
        with pytest.raises(MsprobeException, match="ops_list"):
            monitor.adhoc_check(torch.ones(2), "mine", "wrong", [], ["bogus"])

    train({}, steps=1, each_step=check)
    rows = rows_of(output, "adhoc_check")
    assert [(row["name"], row["max"], row["mean"], row["norm"]) for row in rows] == [
        ("mine.one", "3.0", "nan", "3.741657"), ("mine.other", "nan", "1.0", "nan")
    ]  # fmt: skip


def test_deprecated_methods_do_what_their_successors_do(output: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    monitor = TrainerMon({"wg_distribution": True})
    monitor.set_wrapped_optimizer(optimizer)
    monitor.monitor_gnorm_with_ad(model, grad_acc_steps=1, start_iteration=5)
    for step in range(2):
        model(torch.randn(4, 8)).sum().backward()
        optimizer.step()
        if step == 0:
            monitor.reload_xy(xy_distribution=True)
    monitor.stop()
    assert {row["step"] for row in rows_of(output, "grad_reduced")} == {"5", "6"}
    assert {row["step"] for row in rows_of(output, "actv")} == {"6"}
    for name in ("set_wrapped_optimizer", "monitor_gnorm_with_ad", "reload_xy"):
        assert f"{name} is deprecated" in caplog.text
