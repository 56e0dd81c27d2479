"""Steps in memory, samples and budgets in real trainings: not a bit changes, memory is flat, alerts write."""

from __future__ import annotations

import gc
import json
import subprocess
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from msprobe.pytorch import PrecisionDebugger, TrainerMon
from tests import forked
from tests.fresh_debugger import forget
from tests.rules.tree import ROOT

pytestmark = pytest.mark.torch

SETTINGS: dict[str, dict[str, Any]] = {
    "ring": {"statistics": {"ring": {"steps": 2}}},
    "ring md5": {"statistics": {"ring": {"steps": 2}, "summary_mode": "md5"}, "async_dump": True},
    "sample": {"statistics": {"sample": {"every": 2, "share": 0.5}}},
    "budget": {"disk_budget": "20kB"},
}


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    forget()
    yield
    forget()


class Training:
    """A small training, with a debugger or without."""

    def __init__(self, config: dict[str, Any] | None) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Dropout(0.2), nn.Linear(8, 3))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01)
        self.debugger = None if config is None else PrecisionDebugger(config)
        self.losses: list[float] = []

    def step(self, factor: float = 1.0) -> None:
        if self.debugger is not None:
            self.debugger.start(self.model)
        loss = (self.model(torch.randn(5, 6) * factor) ** 2).mean()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.losses.append(loss.item())
        if self.debugger is not None:
            self.debugger.stop()
            self.debugger.step()

    def weights(self) -> list[torch.Tensor]:
        return [one.detach().clone() for one in self.model.parameters()]


def config_of(path: Path, **config: Any) -> dict[str, Any]:
    return {"dump_path": str(path), "level": "mix", **config}


def steps_of(path: Path) -> list[int]:
    return sorted(int(document.parts[-3].removeprefix("step")) for document in path.glob("step*/*/dump.json"))


@pytest.mark.parametrize("name", SETTINGS)
def test_not_a_bit_of_the_training_changes(tmp_path: Path, name: str) -> None:
    plain = Training(None)
    for _ in range(6):
        plain.step()
    watched = Training(config_of(tmp_path, **SETTINGS[name]))
    for number in range(6):
        watched.step()
        if number == 3:
            PrecisionDebugger.trigger("look")
    assert watched.losses == plain.losses
    assert all(torch.equal(one, other) for one, other in zip(watched.weights(), plain.weights(), strict=True))


def test_a_spike_of_the_data_writes_the_steps_before_it(tmp_path: Path) -> None:
    training = Training(config_of(tmp_path, statistics={"ring": {"steps": 2, "on": ["spike"]}}))
    for number in range(12):
        training.step(1e4 if number == 9 else 1.0)
    assert steps_of(tmp_path) == [7, 8, 9]
    header = json.loads(next(tmp_path.glob("step7/*/dump.json")).read_bytes())
    assert header["kept_for"]["kind"] == "spike" and header["kept_for"]["step"] == 9


def test_an_alert_of_the_monitor_writes_the_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MONITOR_OUTPUT_DIR", str(tmp_path / "monitor"))
    training = Training(config_of(tmp_path / "dump", statistics={"ring": {"steps": 1, "on": ["alert"]}}))
    rules = [{"rule_name": "AnomalyTurbulence", "args": {"threshold": 0.5}}]
    settings = {"targets": {}, "wg_distribution": True, "ops": ["norm"], "alert": {"rules": rules}, "format": "csv"}
    monitor = TrainerMon(settings, params_have_main_grad=False)
    monitor.set_monitor(training.model, training.optimizer)
    for number in range(8):
        training.step(1e5 if number == 6 else 1.0)
    monitor.stop()
    assert steps_of(tmp_path / "dump") == [5, 6]
    header = json.loads(next((tmp_path / "dump").glob("step6/*/dump.json")).read_bytes())
    assert header["kept_for"]["kind"] == "alert" and "grad_unreduced of" in header["kept_for"]["reason"]


@pytest.mark.matrix("wide")
def test_memory_is_flat_over_300_steps(tmp_path: Path) -> None:
    training = Training(config_of(tmp_path / "dump", statistics={"ring": {"steps": 3}}))
    sizes = []
    for number in range(300):
        if number == 60:
            tracemalloc.start()
        training.step()
        if number in (100, 299):
            gc.collect()
            sizes.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert sizes[1] - sizes[0] < 150_000
    assert not (tmp_path / "dump").exists()


def test_an_exception_at_the_end_of_the_program_writes(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    config = config_of(tmp_path / "dump", level="L1", statistics={"ring": {"steps": 1}})
    script.write_text(
        "import torch\nfrom msprobe.pytorch import PrecisionDebugger\n"
        f"debugger = PrecisionDebugger({config!r})\n"
        "for number in range(5):\n"
        "    debugger.start()\n    torch.ones(2).exp()\n    debugger.stop()\n    debugger.step()\n"
        "    if number == 3:\n        raise ValueError('odd')\n"
    )
    done = subprocess.run([forked.python(), script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "ValueError: odd" in done.stderr
    assert steps_of(tmp_path / "dump") == [3]


def test_two_sampled_runs_record_the_same_calls(tmp_path: Path) -> None:
    names = []
    for run in ("a", "b"):
        forget()
        training = Training(config_of(tmp_path / run, statistics={"sample": {"every": 2, "share": 0.5}}))
        for _ in range(4):
            training.step()
        assert steps_of(tmp_path / run) == [0, 2]
        documents = [json.loads(path.read_bytes()) for path in sorted((tmp_path / run).glob("step*/*/dump.json"))]
        assert documents[0]["sampled"] == {"every": 2, "share": 0.5}
        names.append([list(document["data"]) for document in documents])
    assert names[0] == names[1]
    forget()
    whole = Training(config_of(tmp_path / "whole"))
    whole.step()
    everything = list(json.loads(next((tmp_path / "whole").glob("step0/*/dump.json")).read_bytes())["data"])
    assert [name for name in everything if name in set(names[0][0])] == names[0][0]
    assert 0.2 * len(everything) < len(names[0][0]) < 0.8 * len(everything)
    forwards = {name.replace("backward", "forward") for name in names[0][0] if "parameters_grad" not in name}
    assert {name for name in everything if "forward" in name} & forwards == {n for n in names[0][0] if "forward" in n}


def test_trigger_takes_a_text_and_says_when_nothing_is_kept(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from msprobe.core.errors import MsprobeException

    training = Training(config_of(tmp_path))
    training.step()
    with pytest.raises(MsprobeException, match="reason must be a text"):
        PrecisionDebugger.trigger(3)
    capfd.readouterr()
    PrecisionDebugger.trigger("loss is odd")
    told = capfd.readouterr()
    assert "loss is odd" in told.out + told.err


RANK = """
import sys
import torch
import torch.distributed as dist
from msprobe.pytorch import PrecisionDebugger

rank, folder = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
ring = {"ring": {"steps": 1}}
debugger = PrecisionDebugger({"dump_path": f"{folder}/dump", "level": "L1", "statistics": ring})
for number in range(6):
    debugger.start()
    value = torch.ones(2).exp()
    dist.all_reduce(value)
    if number == 3 and rank == 1:
        torch.full((2,), float("nan")).sqrt()
    debugger.stop()
    debugger.step()
    dist.barrier()
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_a_nan_on_one_rank_writes_the_steps_of_both(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(RANK)
    command = [forked.python(), str(script)]
    ranks = [subprocess.Popen([*command, str(rank), str(tmp_path)], cwd=ROOT) for rank in range(2)]
    assert [process.wait(120) for process in ranks] == [0, 0]
    found = {
        rank: sorted(one.parts[-3] for one in tmp_path.glob(f"dump/step*/rank{rank}/dump.json")) for rank in (0, 1)
    }
    assert found[1] == ["step2", "step3"]
    assert found[0] in (["step2", "step3"], ["step3", "step4"])  # it ends its step before or after the other one
    header = json.loads((tmp_path / "dump" / "step3" / "rank0" / "dump.json").read_bytes())
    assert header["kept_for"]["reason"].startswith("rank 1, its step 3: ")
