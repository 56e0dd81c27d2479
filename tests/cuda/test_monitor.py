"""The monitor and compiled code on a CUDA device."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.profiler import ProfilerActivity, profile  # noqa: E402

from msprobe.adapters.pytorch.compile import recorded_graph  # noqa: E402
from msprobe.adapters.pytorch.compiled_check.checker import PrecisionChecker  # noqa: E402
from msprobe.cli.main import run  # noqa: E402
from msprobe.pytorch import PrecisionDebugger, TrainerMon  # noqa: E402
from tests.cuda.training import Block, entries, model_and_data, train  # noqa: E402
from tests.fresh_debugger import forget  # noqa: E402

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
OPS = ["min", "max", "mean", "norm", "nans", "zeros"]


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    forget()
    yield
    forget()


def monitored(folder: Path, device: str, monkeypatch: pytest.MonkeyPatch, steps: int = 2) -> Any:
    """Train with everything watched; return the function that makes one more step."""
    monkeypatch.setenv("MONITOR_OUTPUT_DIR", str(folder / "out"))
    kinds = ("wg_distribution", "param_distribution", "mv_distribution", "xy_distribution")
    config = folder / "monitor.json"
    folder.mkdir(exist_ok=True)
    config.write_text(json.dumps({**dict.fromkeys(kinds, True), "ops": OPS}))
    model, ids = model_and_data(device=device)
    model.eval()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    monitor = TrainerMon(str(config), params_have_main_grad=False)
    monitor.set_monitor(model, optimizer, grad_acc_steps=1)

    def step() -> None:
        nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()

    for _ in range(steps):
        step()
    return step


def rows(folder: Path) -> dict[tuple[str, str, str], dict[str, str]]:
    found = {}
    for file in folder.rglob("*.csv"):
        with file.open() as stream:
            for row in csv.DictReader(stream):
                found[file.name.split("_")[0], row["step"], next(iter(row.values())) + row["name"]] = row
    return found


def test_the_numbers_are_those_of_a_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for device in ("cpu", "cuda"):
        monitored(tmp_path / device, device, monkeypatch)
        forget()
    ours, theirs = rows(tmp_path / "cuda"), rows(tmp_path / "cpu")
    assert len(theirs) > 50
    assert set(ours) == set(theirs)
    for key, row in theirs.items():
        size = max(abs(float(row["max"])), abs(float(row["min"])), 1e-6)
        for name in ("min", "max", "mean", "norm"):
            near = pytest.approx(float(row[name]), rel=1e-3, abs=1e-3 * size)
            assert float(ours[key][name]) == near, (key, name)


def test_a_step_is_copied_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step = monitored(tmp_path, "cuda", monkeypatch)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as trace:
        step()
    assert sum(event.name.startswith("Memcpy DtoH") for event in trace.events()) <= 4


@pytest.mark.parametrize("backend", ["inductor", "aot_eager", recorded_graph.msprobe, recorded_graph.msprobe_aten])
def test_compiled_code_has_the_records_of_eager_code(
    backend: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("eager", "compiled"):
        model, ids = model_and_data()
        model.eval()
        debugger = PrecisionDebugger({"task": "statistics", "level": "L0", "dump_path": str(tmp_path / name)})
        debugger.start(model)
        called = torch.compile(model, backend=backend) if name == "compiled" else model
        nn.functional.cross_entropy(called(ids).flatten(0, 1), ids.flatten()).backward()
        debugger.stop()
        debugger.step()
        forget()
    assert set(entries(tmp_path / "eager")) == set(entries(tmp_path / "compiled"))
    run(["compare", "-tp", str(tmp_path / "compiled"), "-gp", str(tmp_path / "eager"), "-o", str(tmp_path / "out")])
    text = capsys.readouterr().out
    assert "Verdict: SAME" in text, text


def test_a_right_compiled_model_passes() -> None:
    model, ids = model_and_data()
    model.eval()
    checker = PrecisionChecker(backend="inductor")
    model = checker.install(checker.wrap_by_policy(model, (Block,)))
    loss = nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten())
    loss.backward()
    result = checker.collect(loss)
    assert result.all_pass
    assert result.compared > 10


def test_findings_without_a_golden_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, ids = model_and_data()
    debugger = PrecisionDebugger({"task": "statistics", "level": "mix", "dump_path": str(tmp_path / "right")})
    train(model, ids, 3, debugger)
    forget()
    assert run(["check", str(tmp_path / "right"), "--fail-on", "found"]) == 0, capsys.readouterr().out
