"""Reads the alerts of ``anomaly.json`` as marks of a trend database."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from msprobe.core.errors import ReadError
from msprobe.core.store.reader import read_json_object
from msprobe.monitor.alerts.anomaly_files import FILE, FOLDER
from msprobe.trend.growing import Mark
from msprobe.trend.monitor_files import rank_of

_ALERTS = re.compile(r"rank(\d+)")
_TAG = re.compile(r"(-?\d+):(.*?)(?::(\d+))?/rank\d+/(\w+)", re.DOTALL)
_STATISTIC = re.compile(r"', '(\w+)'\)")
_VALUES = re.compile(r"Rule (.+?) reports .* current value (\S+), history mean (\S+)\.", re.DOTALL)
_SOURCES: Final = {"acc_grad": "grad_unreduced", "post_grad": "grad_reduced"}


def find_alerts(folder: Path) -> list[tuple[int, Path]]:
    """Return rank and path of each ``anomaly.json`` of the runs in a folder, or beside the folder of one run."""
    top = folder if rank_of(folder) is None else folder.absolute().parent
    return sorted(
        (int(match[1]), path)
        for pattern in (f"{FOLDER}/*/{FILE}", f"*/{FOLDER}/*/{FILE}")
        for path in top.glob(pattern)
        if (match := _ALERTS.fullmatch(path.parent.name)) and not path.is_symlink()
    )


def read_alerts(path: Path) -> Iterator[Mark]:
    """Yield the alerts of one rank; ``target`` has the micro step in which it was found.

    A tensor with a position has two names: the position is only in its name where there are several.

    Raises:
        ReadError: the file cannot be read.
    """
    content = read_json_object(path, "the alerts of a monitor", "remove the file")
    for alert in content.values():
        if isinstance(alert, dict) and (mark := _mark(alert)) is not None:
            yield from mark
        else:
            raise ReadError(f"{path}: an entry is no alert of a monitor; remove the file")


def _mark(alert: dict[str, Any]) -> list[Mark] | None:
    match = _TAG.fullmatch(str(alert.get("tag_name")))
    step, micro = alert.get("step"), alert.get("micro_step", 0)
    message = str(alert.get("message", ""))
    statistic = _STATISTIC.search(message)
    if match is None or type(step) is not int or type(micro) is not int:
        return None
    stage, name, position, kind = match.groups()
    names = [name] if position is None else [name, f"{name}_{position}"]
    metric, which = _SOURCES.get(kind, kind), statistic[1] if statistic else "norm"
    if values := _VALUES.fullmatch(message):
        usual = "" if values[3] == "none" else f", usually {values[3]}"
        message = f"{values[1]}: {which} is {values[2]}{usual}"
    return [Mark(metric, (one, int(stage), micro), step, which, message) for one in names]
