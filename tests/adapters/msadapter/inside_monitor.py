"""A torch-shaped program over MindSpore that is watched. Run by ``test_alone.py`` in a process of its own."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import mindspore
import numpy as np
import pytest

from tests.msadapter_stand_in import Handle, install

install()

import torch  # noqa: E402  (the stand-in)

from msprobe.mindspore import PrecisionDebugger, TrainerMon  # noqa: E402
from msprobe.monitor.trainer_monitor_v2 import TrainerMonitorV2  # noqa: E402
from msprobe.pytorch import TrainerMon as FromPytorch  # noqa: E402
from tests.fresh_debugger import forget  # noqa: E402


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.l1, self.act, self.l2 = torch.nn.Linear(4, 3), torch.nn.SiLU(), torch.nn.Linear(3, 2)

    def forward(self, x: Any) -> Any:
        return self.l2(self.act(self.l1(x)))


class Stateful(torch.optim.SGD):
    """An optimizer that keeps moments as PyTorch's do, and finds gradients in ``grad`` of its parameters."""

    def step(self) -> None:
        self.state = getattr(self, "state", {})
        for parameter in self.param_groups[0]["params"]:
            self.state[parameter] = {"exp_avg": parameter.grad * 0.1, "exp_avg_sq": parameter.grad * parameter.grad}


def train(net: Net, optimizer: Any, steps: int = 2) -> list[Any]:
    """Train the net; return the gradients of each step as arrays, and the parameters at the end."""
    parameters = list(net.parameters())
    work = mindspore.value_and_grad(lambda x: (net(x) * net(x)).sum(), None, parameters)
    draw, kept = np.random.default_rng(0).normal, []
    for _ in range(steps):
        _, gradients = work(torch.tensor(draw(size=(2, 4)).astype(np.float32), torch.float32))
        kept += [one.asnumpy() for one in gradients]
        if isinstance(optimizer, Stateful):
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad = gradient
            optimizer.step()
        else:
            optimizer.step(gradients)
    return kept + [one.asnumpy() for one in parameters]


def rows(file: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(file.read_text().splitlines()))


def test_both_import_paths_give_one_monitor() -> None:
    assert FromPytorch is TrainerMon


def test_files_of_a_run_and_a_training_that_stays_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MONITOR_OUTPUT_DIR", str(tmp_path))
    call, step = torch.nn.Module.__call__, torch.optim.SGD.step
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    monitor = TrainerMon({
        **dict.fromkeys(("xy_distribution", "wg_distribution", "param_distribution"), True), "ops": ["norm"]
    })  # fmt: skip
    monitor.set_monitor(net, optimizer)
    watched = train(net, optimizer)
    monitor.stop()
    assert torch.nn.Module.__call__ is call and torch.optim.SGD.step is step
    again = Net()
    plain = train(again, torch.optim.SGD(again.parameters(), 0.1))
    assert [one.tobytes() for one in watched] == [one.tobytes() for one in plain]
    (folder,) = tmp_path.iterdir()
    names = ("actv", "actv_grad", "grad_reduced", "grad_unreduced", "param_origin", "param_updated")
    assert {path.name for path in folder.iterdir()} == {
        f"{name}_{step}-{step}.csv" for name in names for step in (0, 1)
    }
    gradients = {row["name"]: float(row["norm"]) for row in rows(folder / "grad_reduced_1-1.csv")}
    assert list(gradients) == ["l1.weight", "l1.bias", "l2.weight", "l2.bias"]
    assert gradients["l1.weight"] == pytest.approx(np.linalg.norm(watched[4]), rel=1e-5)
    cells = {row["name"] for row in rows(folder / "actv_grad_0-0.csv")}
    assert {"l1.output", "act.input", "l2.output"} <= cells


def test_the_second_version_reads_grad_and_state(tmp_path: Path) -> None:
    net = Net()
    optimizer = Stateful(net.parameters(), 0.1)
    sections = {name: {"enabled": True, "ops": ["norm"]} for name in ("weight_grad", "optimizer")}
    monitor = TrainerMonitorV2({"output_dir": str(tmp_path), "monitors": sections}, fr="ms")
    monitor.start(model=net, optimizer=optimizer)
    gradients = train(net, optimizer)
    monitor.stop()
    reduced = [row for row in rows(tmp_path / "rank_0" / "weight_grad_step1-1.csv") if row["scope"] == "reduced"]
    assert float(reduced[0]["norm"]) == pytest.approx(np.linalg.norm(gradients[4]), rel=1e-5)
    moments = rows(tmp_path / "rank_0" / "optimizer_step0-0.csv")
    assert float(moments[0]["norm"]) == pytest.approx(0.1 * np.linalg.norm(gradients[0]), rel=1e-5)


def test_steps_that_a_scheduler_has_wrapped_are_seen_by_hooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("torch.optim.optimizer")
    held: dict[str, dict[int, Any]] = {"pre": {}, "post": {}}
    module.register_optimizer_step_pre_hook = lambda hook: Handle(held["pre"], hook)
    module.register_optimizer_step_post_hook = lambda hook: Handle(held["post"], hook)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    plain = optimizer.step

    def step(gradients: Any) -> None:
        for when in ("pre", "post"):
            for hook in list(held[when].values()):
                hook(optimizer, (gradients,), {})
            if when == "pre":
                plain(gradients)

    optimizer.step = step
    monitor = TrainerMonitorV2({"output_dir": str(tmp_path), "monitors": {"weight_grad": {"enabled": True}}}, fr="ms")
    monitor.start(model=net, optimizer=optimizer)
    gradients = train(net, optimizer)
    monitor.stop()
    assert held == {"pre": {}, "post": {}}
    reduced = [row for row in rows(tmp_path / "rank_0" / "weight_grad_step0-0.csv") if row["scope"] == "reduced"]
    assert float(reduced[0]["norm"]) == pytest.approx(np.linalg.norm(gradients[0]), rel=1e-5)


def test_the_gradient_probe(tmp_path: Path) -> None:
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    forget("msprobe.mindspore")
    PrecisionDebugger({"task": "grad_probe", "dump_path": str(tmp_path), "grad_probe": {"grad_level": "L1"}}).monitor(
        net
    )
    train(net, optimizer)
    PrecisionDebugger._probe.detach()
    forget("msprobe.mindspore")
    found = rows(tmp_path / "rank0" / "grad_summary_1.csv")
    assert [row["param_name"] for row in found] == ["l1.weight", "l1.bias", "l2.weight", "l2.bias"]
    assert (tmp_path / "rank0" / "step1" / "l2.bias.npy").exists()
