"""Two real processes under ``msrun``: what they tell each other is recorded, by rank."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.ranks import run_msrun

PROGRAM = Path(__file__).parent / "programs" / "collectives.py"


@pytest.mark.slow
def test_two_processes(tmp_path: Path) -> None:
    run_msrun(PROGRAM, 2, tmp_path / "dump")
    folders = {path.name: json.loads((path / "dump.json").read_text()) for path in (tmp_path / "dump/step0").iterdir()}
    assert sorted(folders) == ["rank0", "rank1"]
    for rank in (0, 1):
        data = folders[f"rank{rank}"]["data"]
        assert list(data) == [
            "MintDistributed.all_reduce.0.forward",
            "MintDistributed.all_reduce.1.forward",
            "MintDistributed.all_gather.0.forward",
        ]
        for call in ("MintDistributed.all_reduce.0.forward", "MintDistributed.all_reduce.1.forward"):
            assert data[call]["input_args"][0]["Max"] == rank + 1
            assert data[call]["output"][0]["Max"] == 3
        gathering = data["MintDistributed.all_gather.0.forward"]
        assert gathering["input_args"][0] is None
        assert [part["Max"] for part in gathering["output"][0]] == [5, 6]
