"""Whether anything was recorded since the program began, which the first process of a program checks at its end."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

_FIRST_PROCESS = "MSPROBE_RUN_FIRST"
_CLOCKS_DIFFER_S = 1.0


def first_watch(config: str) -> RecordWatch | None:
    """Return a watch in the first Python process of a program, and None in those that it starts."""
    if os.environ.setdefault(_FIRST_PROCESS, str(os.getpid())) != str(os.getpid()):
        return None
    return RecordWatch(config, Path.cwd(), time.time())


@dataclass(frozen=True, slots=True)
class RecordWatch:
    """The start of a program.

    Attributes:
        config: the file of the configuration.
        folder: the folder to which relative paths in it refer.
        started: the time of the start, in seconds of ``time.time``.
    """

    config: str
    folder: Path
    started: float

    def recorded_anything(self) -> bool:
        """Return whether something was recorded, or the script collects by itself; True also where that is unknown."""
        debugger = sys.modules.get("msprobe.adapters.pytorch.debugger")
        if debugger is not None and debugger.PrecisionDebugger._instance is not None:
            return True
        from msprobe.core.config import load_config
        from msprobe.core.errors import MsprobeException

        try:
            dump_path = load_config(self.config).dump_path
            return not dump_path or self._changed(self.folder / dump_path)
        except (MsprobeException, OSError):
            return True

    def _changed(self, dump: Path) -> bool:
        since = self.started - _CLOCKS_DIFFER_S
        return any(path.stat().st_mtime >= since for pattern in ("*", "*/*") for path in dump.glob(pattern))
