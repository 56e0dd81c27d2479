"""Two real processes under ``msrun``: what they tell each other is recorded, by rank."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = Path(__file__).parent / "programs" / "collectives.py"


@pytest.mark.slow
def test_two_processes(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    msrun = Path(sys.executable).parent / "msrun"
    path = os.pathsep.join([str(msrun.parent), os.environ["PATH"]])
    command = [str(msrun), "--worker_num=2", "--local_worker_num=2", f"--master_port={port}", "--join=True"]
    done = subprocess.run(
        [*command, f"--log_dir={tmp_path / 'logs'}", str(PROGRAM), str(tmp_path / "dump")],
        cwd=tmp_path,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)},
        timeout=240,
        capture_output=True,
        text=True,
    )
    logs = "".join(log.read_text(errors="replace")[-2000:] for log in (tmp_path / "logs").glob("worker_*.log"))
    assert done.returncode == 0, done.stdout[-2000:] + logs
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
