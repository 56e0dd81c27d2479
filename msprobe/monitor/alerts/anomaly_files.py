"""``anomaly.json``: the alerts of one rank as the published monitor writes them, read by the anomaly processor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from msprobe.core.store.journal import dumps
from msprobe.core.store.safe_files import make_folder, write_atomic
from msprobe.monitor.alerts.alert import Alert
from msprobe.monitor.rows import Row

FOLDER: Final = "anomaly_detected"
FILE: Final = "anomaly.json"
_TAGS: Final = {"grad_unreduced": "acc_grad", "grad_reduced": "post_grad"}
MOST_OF_TENSOR: Final = 20
"""Alerts of one tensor that are kept: the earliest ones say where something began, and the file is written anew."""
_WITHOUT_CALL: Final = ("param_origin", "param_updated")


class AnomalyFile:
    """Keeps the alerts of one rank, and writes them all whenever a step has some.

    Args:
        folder: the output folder of the monitor.
        rank: the rank of this process.
        stage: its pipeline stage.
        group: the ranks of its group.
    """

    def __init__(self, folder: Path, rank: int, stage: int = 0, group: tuple[int, ...] = ()) -> None:
        self._path = folder / FOLDER / f"rank{rank}" / FILE
        self._rank = rank
        self._stage = stage
        self._group = list(group) or [rank]
        self._calls: dict[str, int] = {}
        self._counts: Counter[str] = Counter()
        self._found: dict[str, dict[str, Any]] = {}

    def number(self, rows: Iterable[Row]) -> None:
        """Give each tensor the number of its first appearance, which orders the alerts of a step."""
        for row in rows:
            if row.source.name not in _WITHOUT_CALL:
                self._calls.setdefault(tag_of(row, self._rank), len(self._calls))

    def write(self, alerts: Iterable[Alert]) -> None:
        """Add alerts and write the file.

        Raises:
            OSError: it cannot be written.
        """
        for alert in alerts:
            row = alert.row
            tag = tag_of(row, self._rank)
            call = self._calls.get(tag, -1)
            usual = "none" if alert.usual is None else alert.usual
            if self._counts[tag] >= MOST_OF_TENSOR:
                continue
            self._counts[tag] += 1
            self._found[f"{tag}_step_{row.step}_call_{call}"] = {
                "rank": self._rank,
                "step": row.step,
                "micro_step": row.micro_step or 0,
                "pp_stage": self._stage,
                "vpp_stage": row.stage,
                "call_id": call,
                "tag_name": tag,
                "message": f"Rule {alert.rule} reports anomaly signal in ('{tag}', '{alert.statistic}') at step "
                f"{row.step}, current value {alert.value}, history mean {usual}.",
                "group_mates": self._group,
            }
        make_folder(self._path.parent)
        write_atomic(self._path, [dumps(self._found, indent=1)])


def tag_of(row: Row, rank: int) -> str:
    """Return the name of a tensor in ``anomaly.json``: ``0:fc1.input:0/rank0/actv``."""
    kind = _TAGS.get(row.source.name, row.source.name)
    position = "" if row.position is None else f":{row.position}"
    return f"{row.stage}:{row.name}{position}/rank{rank}/{kind}"
