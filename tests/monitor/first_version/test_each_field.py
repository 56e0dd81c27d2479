"""Each field of the configuration of ``TrainerMon`` in a real training; see docs/guide/monitor_fields.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from msprobe.pytorch import TrainerMon  # noqa: E402
from tests.monitor.trained import Net, Recurrent, names_of, rows_of, train  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MONITOR_OUTPUT_DIR", str(tmp_path / "out"))
    monkeypatch.delenv("DYNAMIC_MONITOR", raising=False)
    return tmp_path / "out"


def names(output: Path, source: str) -> set[str]:
    return {row["name"] for row in rows_of(output, source)}


def test_targets_name_modules_with_or_without_their_stage(output: Path) -> None:
    train({"targets": {"0:fc1": {}, "out": {}}, "xy_distribution": True, "wg_distribution": True})
    assert names(output, "actv") == {"fc1.input", "fc1.output", "out.input", "out.output"}
    assert names(output, "grad_reduced") == {"fc1.weight", "fc1.bias", "out.weight", "out.bias"}


def test_targets_name_values_and_one_of_several(output: Path) -> None:
    targets = {"l": {"input": "tensor", "output": "tuple[2]:0", "output_grad": "tuple[3]:0"}}
    train({"targets": targets, "xy_distribution": True}, Recurrent())
    assert names(output, "actv") == {"l.input", "l.output_0"}
    assert names(output, "actv_grad") == {"l.output_0"}


def test_all_xy_adds_the_other_modules(output: Path) -> None:
    train({"targets": {"fc1": {}}, "all_xy": True, "xy_distribution": True, "wg_distribution": True})
    assert {"fc1.input", "norm.output", ".input"} <= names(output, "actv")
    assert names(output, "grad_reduced") == {"fc1.weight", "fc1.bias"}


@pytest.mark.parametrize(
    ("config", "steps"),
    [
        ({"start_step": 2}, [2, 3, 4, 5]),
        ({"step_interval": 2}, [0, 2, 4]),
        ({"collect_times": 2}, [0, 1]),
        ({"start_step": 1, "step_interval": 2, "collect_times": 2}, [1, 3]),
        ({"collect_times": 0}, []),
    ],
)
def test_the_steps_that_are_measured(output: Path, config: dict[str, Any], steps: list[int]) -> None:
    train({"wg_distribution": True, **config}, steps=6)
    assert sorted({int(row["step"]) for row in rows_of(output, "grad_reduced")}) == steps


def test_module_ranks_of_others_measure_nothing(output: Path) -> None:
    train({"module_ranks": [1], "wg_distribution": True})
    assert not output.exists()


def test_update_and_ratio_of_adam(output: Path) -> None:
    train({"ur_distribution": True})
    assert {row["step"] for row in rows_of(output, "update")} == {"1", "2"}  # Adam has none before its first step
    ratio, update = rows_of(output, "ratio")[0], rows_of(output, "update")[0]
    assert float(update["norm"]) == pytest.approx(0.01 * float(ratio["norm"]), abs=2e-6)


@pytest.mark.parametrize(
    ("key", "expected"),
    [("forward_only", {"actv"}), ("backward_only", {"actv_grad"}), (None, {"actv", "actv_grad"})],
)
def test_directions_of_values_of_modules(output: Path, key: str | None, expected: set[str]) -> None:
    train({"xy_distribution": True, **({key: True} if key else {})})
    assert {name.rpartition("_")[0] for name in names_of(output)} == expected


def test_both_directions_excluded_is_nothing_with_a_warning(output: Path, caplog: pytest.LogCaptureFixture) -> None:
    train({"xy_distribution": True, "forward_only": True, "backward_only": True})
    assert not output.exists()
    assert "exclude each other" in caplog.text


def test_moments_parameters_and_directions(output: Path) -> None:
    train({"mv_distribution": True, "param_distribution": True, "mg_direction": True})
    written = {name.rpartition("_")[0] for name in names_of(output)}
    assert written == {"exp_avg", "exp_avg_sq", "param_origin", "param_updated", "other"}
    before, after = rows_of(output, "param_origin"), rows_of(output, "param_updated")
    first = [row["norm"] for row in after if row["step"] == "0"]
    assert first == [row["norm"] for row in before if row["step"] == "1"]


def test_gradients_of_each_micro_step(output: Path) -> None:
    train({"wg_distribution": True, "monitor_mbs_grad": True}, micro_steps=2, steps=1)
    found = [row["micro_step"] for row in rows_of(output, "grad_unreduced") if row["name"] == "fc1.weight"]
    assert found == ["0", "1"]
    assert "micro_step" not in rows_of(output, "grad_reduced")[0]


def test_every_statistic_in_its_order(output: Path) -> None:
    ops = ["zeros", "norm", "min", "max", "nans", "infs", "mean", "id", "bogus"]
    train({"wg_distribution": True, "ops": ops, "eps": 0})
    row = rows_of(output, "grad_reduced")[0]
    assert list(row) == ["vpp_stage", "name", "step", *ops[:-1], "shape", "dtype"]
    assert (row["id"], row["nans"], row["shape"], row["dtype"]) == ("nan", "0", "[16, 8]", "torch.float32")


def test_digits(output: Path) -> None:
    train({"param_distribution": True, "ndigits": 2}, steps=1)
    assert all(len(row["norm"].partition(".")[2]) <= 2 for row in rows_of(output, "param_origin"))


def test_append_output_goes_on_in_the_folder_of_that_time(output: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = {"wg_distribution": True, "step_count_per_record": 10}
    train(config, steps=1)
    (run,) = output.iterdir()
    tag = run.name.partition("-rank")[0]
    train({**config, "append_output": [tag, tag]}, steps=2)
    assert [path.name for path in output.iterdir()] == [run.name]
    assert len((run / "grad_reduced_0-9.csv").read_text().splitlines()) == 1 + 3 * 8
    train({**config, "append_output": ["Jan01_00-00-00", "Jan01_00-00-01"]}, steps=1)
    assert len(list(output.iterdir())) == 2
    assert "append_output" in caplog.text


def test_squash_name_begins_names_at_the_layer(output: Path) -> None:
    model = torch.nn.Module()
    model.layers = torch.nn.ModuleList([Net()])
    whole = torch.nn.Module()
    whole.model, whole.other = model, torch.nn.Linear(8, 8)
    whole.forward = lambda x: model.layers[0](whole.other(x))
    torch.manual_seed(0)
    optimizer = torch.optim.SGD(whole.parameters(), lr=0.1)
    monitor = TrainerMon({"squash_name": True, "wg_distribution": True, "xy_distribution": True})
    monitor.set_monitor(whole, optimizer)
    whole.forward(torch.randn(2, 8)).sum().backward()
    optimizer.step()
    monitor.stop()
    assert {"layers.0.fc1.weight", "layers.0.norm.bias", "other.weight"} <= names(output, "grad_reduced")
    assert {"layers.0.fc1.input", "other.output"} <= names(output, "actv")


def test_an_unknown_kind_of_feature_is_refused() -> None:
    with pytest.raises(TypeError, match="linear_hook"):
        TrainerMon({"l2_targets": {"bogus": []}})


def test_other_collected_things_do_not_matter_for_the_training(output: Path) -> None:
    """The training with everything on computes the same bits as without a monitor."""
    everything = {
        **dict.fromkeys(("xy_distribution", "wg_distribution", "mv_distribution", "param_distribution"), True),
        **dict.fromkeys(("mg_direction", "ur_distribution", "stack_info", "print_struct", "squash_name"), True),
        "recording_l2_features": True,
        "l2_targets": {"linear_hook": []},
        "ops": ["norm", "zeros", "nans", "mean", "max", "min"],
        "alert": {"rules": [{"rule_name": "AnomalyNan"}], "dump": True},
    }
    results = []
    for config in ({}, everything):
        torch.manual_seed(0)
        model = Net()
        train(config, model)
        results.append([one.detach().clone() for one in model.parameters()] + [torch.rand(3)])
    assert all(torch.equal(one, other) for one, other in zip(*results, strict=True))
