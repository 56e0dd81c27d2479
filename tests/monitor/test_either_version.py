"""A configuration of either version: recognised, checked, and watched without the optimizer, as trainers need it."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from msprobe.cli.main import run  # noqa: E402
from msprobe.core.errors import MsprobeException  # noqa: E402
from msprobe.monitor.either_version import WatchedIterations, check, is_second_version, watch_training  # noqa: E402
from tests.monitor.trained import Net, rows_of  # noqa: E402
from tests.rules.tree import ROOT  # noqa: E402

pytestmark = pytest.mark.torch

SCRIPT = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
after = torch.nn.Linear(1, 1)
first, second = torch.optim.SGD(after.parameters(), lr=.1), torch.optim.Adam(model.parameters())
for step in range(3):
    model.train()
    after(model(torch.randn(2, 4))).sum().backward()
    first.step()
    second.step()
    second.zero_grad()
    model.eval()
    with torch.no_grad():
        model(torch.randn(2, 4))
"""


def configs(folder: Path) -> list[dict[str, Any]]:
    return [{"wg_distribution": True}, {"output_dir": str(folder), "monitors": {"weight_grad": {"enabled": True}}}]


def test_the_version_is_recognised_and_checked(tmp_path: Path) -> None:
    first, second = configs(tmp_path)
    assert (is_second_version(first), is_second_version(second)) == (False, True)
    check(first)
    check(second)
    for wrong in ({"ops": 3}, {"monitors": {"param": {"ops": 3}}}):
        with pytest.raises(MsprobeException, match="ops"):
            check(wrong)


@pytest.mark.parametrize("version", [0, 1])
def test_the_first_optimizer_that_holds_parameters_ends_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    monkeypatch.setenv("MONITOR_OUTPUT_DIR", str(tmp_path / "out"))
    model, other = Net(), torch.nn.Linear(3, 1)
    mine, second = torch.optim.SGD(model.parameters(), lr=0.1), torch.optim.SGD(other.parameters(), lr=0.1)
    stop = watch_training(configs(tmp_path / "out")[version], "pytorch", model, first_step=3)
    for _ in range(2):
        other(model(torch.randn(4, 8))).sum().backward()
        second.step()
        mine.step()
    stop()
    names = {path.name for path in (tmp_path / "out").glob("*/*")}
    expected = {"grad_reduced_3-3.csv", "grad_reduced_4-4.csv"}, {"weight_grad_step3-3.csv", "weight_grad_step4-4.csv"}
    assert names >= expected[version]
    assert not any("5" in name for name in names)


@pytest.mark.parametrize("version", [0, 1])
def test_steps_that_the_caller_ends_hold_all_optimizers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """The second model is named in the middle of a step, as one is that is called for the first time."""
    monkeypatch.setenv("MONITOR_OUTPUT_DIR", str(tmp_path / "out"))
    models = torch.nn.Linear(8, 3), torch.nn.Linear(3, 1)
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in models]
    watched = WatchedIterations(configs(tmp_path / "out")[version], "pytorch", models[:1], first_step=3)
    watched.add(models[1])
    for _ in range(2):
        models[1](models[0](torch.randn(4, 8))).sum().backward()
        for optimizer in optimizers:
            optimizer.step()
        watched.end_step()
    watched.stop()
    files = sorted((tmp_path / "out").glob("*/*grad_reduced*" if version == 0 else "*/weight_grad*"))
    assert len(files) == 2
    for path in files:
        with path.open() as lines:
            assert {row["vpp_stage"] for row in csv.DictReader(lines)} == {"0", "1"}


@pytest.mark.matrix("wide", sample=2)
@pytest.mark.slow
@pytest.mark.parametrize("version", [0, 1])
def test_a_script_that_knows_nothing_of_it(tmp_path: Path, version: int) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "monitor.json").write_text(json.dumps(configs(tmp_path / "out")[version]))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MONITOR_OUTPUT_DIR": str(tmp_path / "out")}
    words = [sys.executable, "-m", "msprobe", "run", "--monitor", "monitor.json", "--", "train.py"]
    subprocess.run(words, cwd=tmp_path, env=environment, check=True, capture_output=True)
    if version == 0:
        assert {row["step"] for row in rows_of(tmp_path / "out", "grad_reduced")} == {"0", "1", "2"}
    else:
        assert len(list((tmp_path / "out" / "rank_0").iterdir())) == 3


@pytest.mark.parametrize(
    ("words", "said"), [([], "--monitor FILE"), (["--monitor", "wrong.json"], "ops"), (["--monitor", "none"], "none")]
)
def test_wrong_requests_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("wrong.json").write_text('{"ops": 3}')
    assert run(["run", *words, "--", "train.py"]) == 2
    assert said in capsys.readouterr().err
