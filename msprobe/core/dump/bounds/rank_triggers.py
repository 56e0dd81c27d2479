"""One rank tells the others that it writes the steps it keeps in memory: through a file in the dump folder.

Each rank looks at the file when it settles a step, which costs one ``stat``. Nobody waits for anybody: a rank that is
late reads the file at its next step. The last writer wins, because one reason is enough.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from msprobe.core.dump.bounds.value_watch import Reason
from msprobe.core.interruption import let_through
from msprobe.core.log import first_time, logger
from msprobe.core.store.journal import dumps
from msprobe.core.store.safe_files import make_folder, write_atomic

FILE: Final = "ring_trigger.json"
_LARGEST: Final = 1 << 16


class RankTriggers:
    """The file of one job, as one rank uses it. What stands in it at the beginning is of an earlier run.

    Args:
        root: the dump folder, which the ranks share.
    """

    def __init__(self, root: Path) -> None:
        self._path = root.joinpath(FILE)
        self._seen = self._state()

    def announce(self, rank: int, reason: Reason, step: int) -> None:
        """Tell the other ranks why this one writes its steps."""
        text = {"rank": rank, "step": step, "kind": reason.kind, "reason": reason.text}
        try:
            make_folder(self._path.parent)
            write_atomic(self._path, [dumps(text)])
        except OSError as error:
            let_through(error)
            if first_time("ring: not announced"):
                logger.warning("ring: the other ranks are not told to write their steps: %s", error)
        self._seen = self._state()

    def news(self, rank: int) -> tuple[Reason, str] | None:
        """Return the reason of another rank, and whose it is in words, where there is one since the last look."""
        state = self._state()
        if state == self._seen or state is None:
            return None
        self._seen = state
        try:
            found = json.loads(self._path.read_bytes()) if state[-1] <= _LARGEST else None
        except (OSError, ValueError, RecursionError) as error:
            let_through(error)
            return None
        return _reason_of(found, rank)

    def _state(self) -> tuple[int, int, int] | None:
        """Return what changes whenever the file does; None without one."""
        try:
            facts = self._path.stat()
        except OSError as error:
            let_through(error)
            return None
        return facts.st_mtime_ns, facts.st_ino, facts.st_size


def _reason_of(found: Any, rank: int) -> tuple[Reason, str] | None:
    if not isinstance(found, dict) or found.get("rank") == rank:
        return None
    kind, text = found.get("kind"), found.get("reason")
    if not isinstance(kind, str) or not isinstance(text, str):
        return None
    return Reason(kind, text), f"rank {found.get('rank')}, its step {found.get('step')}"
