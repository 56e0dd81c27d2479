"""Recorded functions that torch has no samples of: recorded, run again, and right."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch

from tests.adapters.bench import Bench
from tests.replay.further_functions import call_all, run_again

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

DTYPES = (torch.float32, torch.bfloat16, torch.float16)


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("task", ["tensor", "statistics"])
def test_each_is_right_when_it_runs_again(task: str, dtype: torch.dtype, tmp_path: Path) -> None:
    bench = Bench(tmp_path / "dump", "msprobe.pytorch")
    with bench.open("L1", task, risk_level="ALL").collect():
        ran, lacking = call_all(dtype)
    bench.close()
    found = run_again(tmp_path / "dump")
    assert {name: wrong for name, wrong in found.items() if wrong} == {}
    if dtype == torch.float32:
        assert len(found.keys() & ran) >= 98
        assert lacking == {"native_norm", "saddmm"}
