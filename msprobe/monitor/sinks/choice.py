"""Which sink the key ``format`` of a configuration means."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from msprobe.core.distribution import install_command
from msprobe.core.errors import json_text
from msprobe.core.log import logger
from msprobe.monitor.rows import RowSink

FORMATS: Final = ("csv", "tensorboard", "append", "trend")


def make_sink(kind: str, csv: RowSink, run: Path, rank: int) -> RowSink:
    """Return the sink of a format; what cannot be used is a warning and the documented csv files.

    Args:
        kind: one of ``FORMATS``.
        csv: the documented csv files of the version.
        run: the folder of the run of this rank.
        rank: the rank of this process.
    """
    if kind == "append":
        from msprobe.monitor.sinks.append_files import AppendFiles

        return AppendFiles(run)
    if kind == "trend":
        from msprobe.monitor.sinks.trend_file import TrendFile

        return TrendFile(run, rank)
    if kind == "tensorboard":
        from msprobe.monitor.sinks.event_files import EventFiles

        try:
            return EventFiles(run)
        except ImportError as error:
            reason = f"format tensorboard needs the package tensorboard ({error}): {install_command('tensorboard')}"
            logger.warning("monitor: %s; csv files are written", reason)
    elif kind != "csv":
        logger.warning("monitor: format %s is none of %s; csv files are written", json_text(kind), ", ".join(FORMATS))
    return csv
