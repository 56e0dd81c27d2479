"""Whether anything was recorded below ``msprobe run``, asked at the end of the first Python process of the program.

A launcher such as torchrun calls no module itself; its workers do, and it is silent for them too. So the question is
not what this process called but whether the dump folder has got anything since.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

_FIRST = "MSPROBE_RUN_FIRST"
_CLOCKS_DIFFER_S = 1.0


@dataclass(frozen=True, slots=True)
class RecordWatch:
    """``config`` is the file of the configuration, ``folder`` where relative paths in it begin, ``started`` in seconds
    of ``time.time``."""

    config: str
    folder: Path
    started: float

    def anything(self) -> bool:
        """Whether something was recorded, or the script collects by itself; True as well where that cannot be told."""
        debugger = sys.modules.get("msprobe.adapters.pytorch.debugger")
        if debugger is not None and debugger.PrecisionDebugger._instance is not None:
            return True
        from msprobe.core.config import load_config
        from msprobe.core.errors import MsprobeException

        try:
            place = load_config(self.config).dump_path
            return not place or self._changed(self.folder / place)
        except (MsprobeException, OSError):
            return True

    def _changed(self, dump: Path) -> bool:
        since = self.started - _CLOCKS_DIFFER_S
        return any(path.stat().st_mtime >= since for pattern in ("*", "*/*") for path in dump.glob(pattern))


def first_watch(config: str) -> RecordWatch | None:
    """A watch in the first Python process of a program, None in those that it starts."""
    if os.environ.setdefault(_FIRST, str(os.getpid())) != str(os.getpid()):
        return None
    return RecordWatch(config, Path.cwd(), time.time())
