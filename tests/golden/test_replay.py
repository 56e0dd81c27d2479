"""Recorded collections of the reference, replayed: the same script and configuration must leave the same facts."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.end_to_end.fork_runner import ROOT, log_of, run_script
from tests.golden.agreement import MISSING, allowances, misses, unexplained, unused
from tests.golden.facts import Facts, facts

HERE = Path(__file__).resolve().parent
CASES = sorted(path for path in (HERE / "cases").iterdir() if path.is_dir())
ALONE = "msadapter_"  # a stand-in takes the name ``torch`` in the process
LENIENCIES = allowances(HERE / "leniencies.json")


def _framework(case: Path) -> str:
    return "mindspore" if case.name.startswith(("mindspore_", ALONE)) else "torch"


def replay(case: Path, folder: Path) -> None:
    """Run the script of a case in a folder of its own."""
    shutil.copy(case / "run.py.txt", folder / "run.py")
    shutil.copy(case / "config.json", folder / "config.json")
    script = folder / "run.py"
    status = _run_alone(script) if case.name.startswith(ALONE) else run_script(script, preloaded=_framework(case))
    assert status == 0, log_of(script)[-2000:]


def _run_alone(script: Path) -> int:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with open(script.with_name(f"{script.name}.log"), "wb") as log:
        command = [sys.executable, str(script)]
        return subprocess.run(
            command, cwd=script.parent, env=environment, stdout=log, stderr=log, check=False, timeout=120
        ).returncode


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case.name, marks=getattr(pytest.mark, _framework(case))) for case in CASES]
)
def test_case_leaves_the_recorded_facts(case: Path, tmp_path: Path) -> None:
    replay(case, tmp_path)
    output = tmp_path / json.loads((case / "config.json").read_text())["dump_path"]
    recorded, ours = _processes(case / "expected"), _processes(output)
    assert list(ours) == list(recorded)
    missed = [
        miss
        for name, folder in recorded.items()
        for miss in misses(_recorded_facts(case, folder), _own_facts(ours[name]), LENIENCIES)
    ]
    departures = allowances(case / "departures.json")
    assert unexplained(missed, departures) == []
    assert unused(missed, departures) == [], "departures that no longer occur"


@pytest.mark.parametrize(
    ("path", "other"),
    [
        ("dump/Torch.add.0.forward/output/0/Max", 2.1),
        ("dump/Torch.add.0.forward/output/0/dtype", "torch.float64"),
        ("dump/Torch.add.0.forward#sections", ["output", "input_args"]),
        ("construct/Torch.add.0.forward", None),
        ("files/Torch.add.0.forward.output.0.pt", MISSING),
    ],
)
def test_a_fact_that_differs_is_a_miss(path: str, other: object) -> None:
    table: Facts = {
        "dump/Torch.add.0.forward#sections": ["input_args", "output"],
        "dump/Torch.add.0.forward/output/0/Max": 2.0,
        "dump/Torch.add.0.forward/output/0/dtype": "torch.float32",
        "construct/Torch.add.0.forward": "Module.fc.Linear.forward.0",
        "files/Torch.add.0.forward.output.0.pt": True,
    }
    assert misses(table, table, LENIENCIES) == []
    assert [miss.path for miss in misses(table, {**table, path: other}, LENIENCIES)] == [path]


def _processes(root: Path) -> dict[str, Path]:
    """Map ``step0/proc`` (without the process number) to its folder."""
    folders = sorted(path for path in root.glob("step*/*") if path.is_dir())
    return {f"{path.parent.name}/{re.sub(r'^proc[0-9]+$', 'proc', path.name)}": path for path in folders}


def _recorded_facts(case: Path, folder: Path) -> Facts:
    """Tensor files of the record are only listed: ``step0/proc/dump_tensor_data/NAME``, one per line."""
    listing = case / "expected" / "tensor_files.txt"
    lines = map(Path, listing.read_text().split()) if listing.exists() else iter(())
    return facts(folder, [line.name for line in lines if line.parts[0] == folder.parent.name])


def _own_facts(folder: Path) -> Facts:
    return facts(folder, sorted(path.name for path in (folder / "dump_tensor_data").glob("*")))
