"""``TrainerMon`` in a real training: files, alerts, arguments."""

from __future__ import annotations

import csv
import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from msprobe.core.errors import MsprobeException  # noqa: E402
from msprobe.pytorch import TrainerMon  # noqa: E402

pytestmark = pytest.mark.torch

RULES = [{"rule_name": "AnomalyTurbulence", "args": {"threshold": 0.5}}, {"rule_name": "AnomalyNan"}]


@pytest.fixture(autouse=True)
def output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MONITOR_OUTPUT_DIR", str(tmp_path / "out"))
    return tmp_path / "out"


def train(config: dict[str, Any], steps: int = 6, spike: int = 4, nan: int | None = None) -> Any:
    """Train a model with constant weights; its data is 1000 times larger in one step."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    monitor = TrainerMon(config, params_have_main_grad=False)
    monitor.set_monitor(model, optimizer)
    data = torch.randn(2, 4)
    for step in range(steps):
        model(data * (1000 if step == spike else 1)).sum().backward()
        if step == nan:
            model[0].weight.grad[0, 0] = math.nan
        optimizer.step()
        optimizer.zero_grad()
    monitor.stop()
    return model


def names_of(output: Path) -> list[str]:
    (run,) = (path for path in output.iterdir() if path.name != "anomaly_detected")
    return sorted(path.name for path in run.iterdir())


def test_files_of_a_run(output: Path) -> None:
    train({"wg_distribution": True, "step_count_per_record": 4, "ops": ["max", "norm"]})
    assert names_of(output) == [
        "grad_reduced_0-3.csv", "grad_reduced_4-7.csv", "grad_unreduced_0-3.csv", "grad_unreduced_4-7.csv"
    ]  # fmt: skip
    (file,) = output.glob("*/grad_reduced_4-7.csv")
    rows = list(csv.DictReader(file.read_text().splitlines()))
    assert [row["step"] for row in rows] == ["4", "4", "5", "5"]
    assert list(rows[0]) == ["vpp_stage", "name", "step", "max", "norm", "shape", "dtype"]
    assert float(rows[0]["norm"]) == pytest.approx(1000 * float(rows[2]["norm"]), rel=1e-3)


@pytest.mark.parametrize("nan", [None, 2])
@pytest.mark.parametrize("policy", ["robust", "reference"])
def test_a_spike_is_told_with_and_without_a_nan_before_it(
    output: Path, caplog: pytest.LogCaptureFixture, nan: int | None, policy: str
) -> None:
    train({"wg_distribution": True, "alert": {"rules": RULES, "dump": True, "policy": policy}}, nan=nan)
    document = json.loads((output / "anomaly_detected" / "rank0" / "anomaly.json").read_text())
    told = {(one["step"], one["tag_name"]) for one in document.values()}
    assert (4, "0:0.weight/rank0/post_grad") in told
    assert ((2, "0:0.weight/rank0/post_grad") in told) is (nan is not None)
    assert {step for step, _ in told} == {4} | ({nan} if nan else set())
    assert "step 4: grad_reduced of 0.weight: norm is" in caplog.text


def test_an_unwritable_folder_costs_rows_not_the_training(output: Path, caplog: pytest.LogCaptureFixture) -> None:
    output.write_text("a file")
    model = train({"wg_distribution": True})
    assert model[0].weight.grad is None
    assert caplog.text.count("not written") == 1


@pytest.mark.parametrize(("key", "value"), [("grad_acc_steps", 0), ("start_iteration", -1), ("grad_acc_steps", True)])
def test_wrong_arguments_are_told(key: str, value: Any) -> None:
    model = torch.nn.Linear(2, 2)
    with pytest.raises(MsprobeException, match=key):
        TrainerMon({}).set_monitor(model, torch.optim.SGD(model.parameters(), lr=0.1), **{key: value})


def test_the_first_step_has_the_number_that_is_given(output: Path) -> None:
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    monitor = TrainerMon({"wg_distribution": True})
    monitor.set_monitor(model, optimizer, start_iteration=7)
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    monitor.stop()
    assert names_of(output) == ["grad_reduced_7-7.csv", "grad_unreduced_7-7.csv"]


def test_a_database_in_a_folder_that_is_gone_ends_no_training(output: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    monitor = TrainerMon({"wg_distribution": True, "ops": ["norm"], "format": "trend"}, params_have_main_grad=False)
    monitor.set_monitor(model, optimizer)
    model(torch.randn(2, 4)).sum().backward()
    optimizer.step()
    shutil.rmtree(output)
    with caplog.at_level("WARNING", logger="msprobe"):
        monitor.stop()
    assert "the end of the last file is not written" in caplog.text


@pytest.mark.parametrize(("target", "told"), [("0", ""), ("00", "did you mean '0'?"), ("encoder", "named_modules")])
def test_targets_that_no_module_has_are_told(target: str, told: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("WARNING", logger="msprobe"):
        train({"xy_distribution": True, "targets": {target: {}}})
    assert ("no module is called" in caplog.text) is bool(told)
    assert told in caplog.text
