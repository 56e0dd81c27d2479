"""Folders as monitors write them, small enough to see every value."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

TITLE = "vpp_stage,name,step,micro_step,norm,max,shape,dtype"
SECOND = "vpp_stage,step,module_name,scope,norm,nans"


def write_csv(run: Path, name: str, lines: list[str], title: str = TITLE) -> Path:
    run.mkdir(parents=True, exist_ok=True)
    path = run / name
    path.write_text("\n".join([title, *lines]) + "\n")
    return path


def line(name: str, step: int, norm: object, micro: int = 0, shape: str = '"[4, 4]"') -> str:
    return f"0,{name},{step},{micro},{norm},{norm},{shape},torch.float32"


def rank_folder(root: Path, rank: int, age: str = "Nov26_06-22-50") -> Path:
    return root / f"{age}-rank{rank}-5dac5f1{rank}"


def values(path: Path, column: str = "norm") -> dict[tuple[Any, ...], float | None]:
    """(rank, step, name, micro step, metric) -> the value."""
    query = f"""SELECT rank, step, target_name, micro_step, metric_name, {column} FROM trend_data
        JOIN monitoring_targets USING (target_id) JOIN monitoring_metrics USING (metric_id)"""
    return {row[:5]: row[5] for row in sqlite3.connect(path).execute(query)}


def write_alerts(root: Path, rank: int, alerts: list[dict[str, Any]]) -> None:
    folder = root / "anomaly_detected" / f"rank{rank}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "anomaly.json").write_text(json.dumps({str(place): one for place, one in enumerate(alerts)}))
