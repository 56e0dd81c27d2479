"""A device context that is first used while functions are replaced holds, then and afterwards."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests import forked

pytestmark = pytest.mark.torch

PROGRAM = """
import json, sys
import torch
from msprobe.pytorch import PrecisionDebugger, random_save, seed_all

def made():
    with torch.device("meta"):
        values = torch.full((2,), 1.0), torch.arange(3), torch.rand(2), torch.ones(2), torch.nn.Linear(2, 2).weight
    return sorted({value.device.type for value in values})

debugger = PrecisionDebugger({"dump_path": "dump", "level": "mix", "risk_level": "ALL"})
BEGIN
seen = made()
END
print(json.dumps([seen, made()]))
"""
CASES = {
    "collecting": ("debugger.start(torch.nn.Sequential())", "debugger.stop(); debugger.step()"),
    "is_enhanced": ("seed_all(is_enhanced=True)", "seed_all()"),
    "random_save": ("random_save()", ""),
}


@pytest.mark.parametrize("case", CASES)
def test_tensors_are_made_where_the_context_says(tmp_path: Path, case: str) -> None:
    begin, end = CASES[case]
    program = PROGRAM.replace("BEGIN", begin).replace("END", end)
    path = os.pathsep.join(part for part in sys.path if part)
    quiet = "import warnings\nwarnings.simplefilter('ignore')\n"
    environment = {**os.environ, "PYTHONPATH": path}
    done = forked.run(["-c", quiet + program], cwd=tmp_path, env=environment, timeout=240)
    assert done.returncode == 0, done.stderr
    (found,) = [line for line in done.stdout.splitlines() if line.startswith(b"[[")]
    assert json.loads(found) == [["meta"], ["meta"]]
