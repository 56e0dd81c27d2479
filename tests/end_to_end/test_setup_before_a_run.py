"""The set-up check before a run: two trainings that differ in a setting, a variable and the order of the data."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from msprobe.cli.main import run
from tests import forked
from tests.rules.tree import ROOT

pytestmark = pytest.mark.torch
PROGRAM = """\
import argparse
import torch
from msprobe.core.config_check import ConfigChecker
from msprobe.pytorch import PrecisionDebugger
from torch import nn

ConfigChecker.apply_patches("pytorch")
parser = argparse.ArgumentParser()
for name, kind in (("lr", float), ("order", int), ("output-dir", str)):
    parser.add_argument(f"--{name}", type=kind)
arguments = parser.parse_args()
torch.manual_seed(7)
model = nn.Sequential(nn.Embedding(16, 8), nn.Linear(8, 16))
ConfigChecker(model, ["train.sh"], f"{arguments.output_dir}/config_check_pack.zip", "pytorch", arguments=arguments)
debugger = PrecisionDebugger(dump_path=arguments.output_dir, level="L1", task="statistics")
optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.lr)
samples = torch.utils.data.DataLoader(
    torch.arange(16), 4, shuffle=True, generator=torch.Generator().manual_seed(arguments.order)
)
for ids in samples:
    debugger.start(model)
    loss = nn.functional.cross_entropy(model(ids), (ids + 1) % 16)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    debugger.stop()
    debugger.step()
"""


def train(folder: Path, name: str, rate: str, order: int, algorithm: str) -> None:
    """Train as a user does: a script exports a variable and starts the program."""
    (folder / "train.sh").write_text(
        f"export NCCL_ALGO={algorithm} WANDB_API_KEY=hunter2\n"
        f'"{forked.python()}" train.py --lr {rate} --order {order} --output-dir {name}\n'
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(["bash", "train.sh"], cwd=folder, env=environment, check=True, timeout=120)


def test_compare_names_what_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    train(tmp_path, "good", "1e-3", 0, "Ring")
    train(tmp_path, "again", "1e-3", 0, "Ring")
    train(tmp_path, "bad", "2e-3", 1, "Tree")
    packs = {name: str(tmp_path / name / "config_check_pack.zip") for name in ("good", "again", "bad")}

    words = ["config_check", "--json", "-", "--fail-on", "error", "-o", str(tmp_path / "result")]
    assert run([*words, "-c", packs["good"], packs["again"]]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["level"] == "warning"  # they write to other folders
    assert {section["name"] for section in again["sections"] if section["level"] != "pass"} == {"hyperparameters"}

    assert run([*words, "-c", packs["good"], packs["bad"]]) == 1
    text = capsys.readouterr().out
    assert "hunter2" not in text
    sections = {section["name"]: section for section in json.loads(text)["sections"]}
    assert [row["bench_env_name"] for row in sections["env"]["differences"]] == ["NCCL_ALGO"]
    errors = [row for row in sections["hyperparameters"]["differences"] if row["level"] == "error"]
    assert {(row["bench_para"], row["bench_value"], row["cmp_value"]) for row in errors} >= {
        ("lr", "0.001", "0.002"),
        ("order", "0", "1"),
    }
    assert sections["dataset"]["differences"][0]["step"] == 0
    assert min(row["step"] for row in sections["weights"]["differences"]) == 1
    assert [sections[name]["level"] for name in ("pip", "machine", "framework", "random")] == ["pass"] * 4

    dumps = ["compare", "-tp", str(tmp_path / "bad"), "-gp", str(tmp_path / "good"), "-o", str(tmp_path / "compared")]
    assert run(dumps) == 0
    told = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Set-up:")]
    assert any("NCCL_ALGO: Ring against Tree" in line for line in told)
    assert any("hyperparameters: lr: " in line for line in told)
    assert any("hyperparameters: order: 0 against 1" in line for line in told)
    assert any("dataset: step 0" in line for line in told)
