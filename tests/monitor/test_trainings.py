"""The monitor in trainings of many kinds: what it says, and that the training does not notice it."""

from __future__ import annotations

import copy
import gc
import io
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from msprobe.pytorch import TrainerMon  # noqa: E402
from tests.fresh_debugger import forget  # noqa: E402
from tests.monitor.trained import Net, rows_of  # noqa: E402

pytestmark = pytest.mark.torch

EVERYTHING: dict[str, Any] = {
    **dict.fromkeys(("xy_distribution", "wg_distribution", "mv_distribution", "param_distribution"), True),
    "ops": ["norm", "max", "nans"],
    "alert": {"policy": "robust"},
    "recording_l2_features": True,
    "l2_targets": {"linear_hook": []},
}


@pytest.fixture(autouse=True)
def output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MONITOR_OUTPUT_DIR", str(tmp_path / "out"))
    monkeypatch.delenv("DYNAMIC_MONITOR", raising=False)
    return tmp_path / "out"


class Repeated(Net):
    """Its block runs again in the backward pass."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.norm(torch.relu(self.fc1(x)))
        return self.out(checkpoint(self.block, hidden, use_reentrant=False))


def plain(model: nn.Module, optimizer: Any, step: int) -> None:
    model(torch.randn(4, 8)).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()


def clipped(model: nn.Module, optimizer: Any, step: int) -> None:
    model(torch.randn(4, 8)).pow(2).mean().backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.01)
    optimizer.step()
    optimizer.zero_grad()


def evaluated(model: nn.Module, optimizer: Any, step: int) -> None:
    plain(model, optimizer, step)
    model.eval()
    with torch.no_grad():
        model(torch.randn(4, 8))
    model.train()


def in_bfloat16(model: nn.Module, optimizer: Any, step: int) -> None:
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(torch.randn(4, 8)).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


def by_closure(model: nn.Module, optimizer: Any, step: int) -> None:
    data = torch.randn(4, 8)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(data).pow(2).mean()
        loss.backward()
        return loss

    optimizer.step(closure)


TRAININGS: dict[str, tuple[Callable[[], nn.Module], Callable[..., None]]] = {
    "plain": (Net, plain),
    "clipped": (Net, clipped),
    "evaluated": (Net, evaluated),
    "bfloat16": (Net, in_bfloat16),
    "closure": (Net, by_closure),
    "checkpointed": (Repeated, plain),
    "inplace": (lambda: nn.Sequential(nn.Linear(8, 8), nn.ReLU(inplace=True), nn.Dropout(0.2), nn.Linear(8, 2)), plain),
    "compiled": (lambda: torch.compile(Net(), backend="eager"), plain),
}


def run(make: Callable[[], nn.Module], step_of: Callable[..., None], config: Any, steps: int = 4) -> list[torch.Tensor]:
    torch.manual_seed(0)
    model = make()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    monitor = TrainerMon(config) if config is not None else None
    if monitor is not None:
        monitor.set_monitor(model, optimizer)
    for step in range(steps):
        step_of(model, optimizer, step)
    if monitor is not None:
        monitor.stop()
        assert monitor.errors.count == 0
    return [one.detach().clone() for one in model.parameters()] + [torch.rand(4)]


@pytest.mark.parametrize("kind", TRAININGS)
def test_a_training_computes_the_same_bits(kind: str, output: Path) -> None:
    bare, watched = run(*TRAININGS[kind], None), run(*TRAININGS[kind], EVERYTHING)
    assert all(torch.equal(one, other) for one, other in zip(bare, watched, strict=True))
    assert {row["step"] for row in rows_of(output, "grad_reduced")} == {"0", "1", "2", "3"}
    assert not (output / "anomaly_detected").exists()


def test_a_repeated_call_and_an_evaluation_are_not_reported(output: Path) -> None:
    run(*TRAININGS["checkpointed"], EVERYTHING, steps=1)
    run(*TRAININGS["evaluated"], EVERYTHING, steps=1)
    assert {row["micro_step"] for row in rows_of(output, "actv")} == {"0"}


def test_gradients_of_a_closure_are_those_of_its_step(output: Path) -> None:
    run(*TRAININGS["closure"], EVERYTHING, steps=2)
    run(*TRAININGS["plain"], EVERYTHING, steps=2)
    first, second = (sorted(output.iterdir())[at] for at in (0, 1))
    names = "grad_reduced_0-0.csv", "grad_reduced_1-1.csv", "param_origin_1-1.csv", "exp_avg_1-1.csv"
    assert all((first / name).read_text() == (second / name).read_text() for name in names)


def test_clipped_gradients_are_those_that_the_optimizer_gets(output: Path) -> None:
    run(*TRAININGS["clipped"], EVERYTHING, steps=1)
    after = sum(float(row["norm"]) ** 2 for row in rows_of(output, "grad_reduced")) ** 0.5
    before = sum(float(row["norm"]) ** 2 for row in rows_of(output, "grad_unreduced")) ** 0.5
    assert after == pytest.approx(0.01, rel=1e-2) and before > 5 * after


def test_compiled_modules_are_told(output: Path, caplog: pytest.LogCaptureFixture) -> None:
    run(*TRAININGS["compiled"], EVERYTHING)
    assert caplog.text.count("compiled, so values of the modules inside are not watched") == 1
    assert {row["name"] for row in rows_of(output, "param_origin")} >= {"fc1.weight"}


def test_a_step_that_a_scaler_skips_belongs_to_the_next_one(output: Path) -> None:
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    monitor = TrainerMon({"wg_distribution": True, "xy_distribution": True, "ops": ["norm", "infs"]})
    monitor.set_monitor(model, optimizer)
    for step in range(3):
        scale = float("inf") if step == 1 else 1.0
        scaler.scale(model(torch.randn(4, 8)).pow(2).mean() * scale).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    monitor.stop()
    assert {row["step"] for row in rows_of(output, "grad_reduced")} == {"0", "1"}
    micro = [row["micro_step"] for row in rows_of(output, "actv") if row["step"] == "1" and row["name"] == "fc1.input"]
    assert micro == ["0", "1"]


def test_several_optimizers_of_which_one_is_watched(output: Path) -> None:
    torch.manual_seed(0)
    model, other = Net(), nn.Linear(3, 1)
    mine, second = torch.optim.SGD(model.parameters(), lr=0.1), torch.optim.SGD(other.parameters(), lr=0.1)
    monitor = TrainerMon({"wg_distribution": True})
    monitor.set_monitor(model, mine)
    for _ in range(2):
        other(model(torch.randn(4, 8))).sum().backward()
        second.step()
        mine.step()
    monitor.stop()
    assert {row["step"] for row in rows_of(output, "grad_reduced")} == {"0", "1"}


def test_a_model_without_gradients_has_only_its_values(output: Path) -> None:
    model = Net().requires_grad_(False)
    head = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
    monitor = TrainerMon(EVERYTHING)
    monitor.set_monitor(model, optimizer)
    head(model(torch.randn(4, 8))).sum().backward()
    optimizer.step()
    monitor.stop()
    assert rows_of(output, "actv")
    assert not rows_of(output, "grad_reduced")


def test_copies_and_pickles_of_the_model_hold_nothing_of_ours_after_the_end() -> None:
    model = Net()
    before = len(pickle.dumps(model))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    monitor = TrainerMon(EVERYTHING)
    monitor.set_monitor(model, optimizer)
    plain(model, optimizer, 0)
    monitor.stop()
    assert len(pickle.dumps(model)) == before
    assert b"msprobe" not in pickle.dumps((model, optimizer.state_dict()))
    for one in (model, copy.deepcopy(model)):
        hooks = [hook for part in one.modules() for hook in (*part._forward_hooks, *part._forward_pre_hooks)]
        assert not hooks
        assert not any(parameter._post_accumulate_grad_hooks for parameter in one.parameters())
    assert not optimizer._optimizer_step_pre_hooks
    assert not optimizer._optimizer_step_post_hooks


def test_a_checkpoint_can_be_saved_while_watching() -> None:
    model = Net()
    monitor = TrainerMon(EVERYTHING)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    monitor.set_monitor(model, optimizer)
    plain(model, optimizer, 0)
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    monitor.stop()
    assert b"msprobe" not in file.getvalue()


def test_a_debugger_at_the_same_time_records_nothing_of_ours(tmp_path: Path) -> None:
    from msprobe.pytorch import PrecisionDebugger

    names = []
    for watched in (False, True):
        torch.manual_seed(0)
        model = Net()
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        debugger = PrecisionDebugger(dump_path=str(tmp_path / str(watched)), level="mix", task="statistics")
        monitor = TrainerMon(EVERYTHING)
        if watched:
            monitor.set_monitor(model, optimizer)
        debugger.start(model)
        plain(model, optimizer, 0)
        debugger.stop()
        debugger.step()
        monitor.stop()
        forget()
        (file,) = (tmp_path / str(watched)).rglob("dump.json")
        names.append(list(json.loads(file.read_text())["data"]))
    assert names[0] == names[1]


def test_memory_stays_flat_over_500_steps() -> None:
    torch.manual_seed(0)
    model = nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    monitor = TrainerMon({**EVERYTHING, "step_count_per_record": 1000})
    monitor.set_monitor(model, optimizer)
    objects = []
    for step in range(500):
        plain(model, optimizer, step)
        if step in {99, 499}:
            gc.collect()
            objects.append(len(gc.get_objects()))
    monitor.stop()
    assert objects[1] - objects[0] < 100
