"""A model that is watched can be saved and copied, and its copies are not watched."""

from __future__ import annotations

import copy
import io
import subprocess
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from msprobe.pytorch import TrainerMon  # noqa: E402
from tests import forked  # noqa: E402
from tests.monitor.trained import Net  # noqa: E402

pytestmark = pytest.mark.torch


READS = """
import sys, torch
for name in [name for name in sys.modules if name.startswith("msprobe")]:  # that tests/forked.py has imported
    del sys.modules[name]
torch.load(sys.argv[1], weights_only=False)(torch.ones(2, 3))
assert not any(name.startswith("msprobe") for name in sys.modules)
"""


def test_a_watched_model_can_be_saved_and_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MONITOR_OUTPUT_DIR", str(tmp_path))
    model, saved, inputs = Net(), io.BytesIO(), torch.randn(2, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    config = {"xy_distribution": True, "ops": ["norm"], "step_count_per_record": 10}
    monitor = TrainerMon(config, params_have_main_grad=False)
    monitor.set_monitor(model, optimizer)
    torch.save(model, saved)
    saved.seek(0)
    for copied in (copy.deepcopy(model), torch.load(saved, weights_only=False)):
        copied.train()(inputs)
    model(inputs).sum().backward()
    optimizer.step()
    monitor.stop()
    (file,) = tmp_path.glob("*/actv_0-9.csv")
    micro_steps = {line.split(",")[3] for line in file.read_text().splitlines()[1:]}
    assert micro_steps == {"0"}, "the calls of the copies do not count"


def test_a_file_of_a_watched_model_is_read_without_msprobe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MONITOR_OUTPUT_DIR", str(tmp_path))
    model = torch.nn.Sequential(torch.nn.Linear(3, 3))
    monitor = TrainerMon({"xy_distribution": True}, params_have_main_grad=False)
    monitor.set_monitor(model, torch.optim.SGD(model.parameters(), lr=0.1))
    torch.save(model, tmp_path / "model.pt")
    monitor.stop()
    subprocess.run([forked.python(), "-c", READS, str(tmp_path / "model.pt")], check=True)
