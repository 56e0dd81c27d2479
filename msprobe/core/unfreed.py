"""What a command need not free, because its process ends.

Freeing the records of two large dumps object by object takes a twentieth of a comparison. A command line that ends
anyway leaves them to the system; in a program that calls ``msprobe.compare`` and goes on, nothing here does anything.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from typing import NoReturn


@dataclass(slots=True)
class _Process:
    ends_soon: bool = False
    left: list[object] = field(default_factory=list)


_process = _Process()


def ends_soon() -> None:
    """Say that this process ends after the command it runs now."""
    _process.ends_soon = True


def leave(thing: object) -> None:
    """Do not free this, where the process ends soon."""
    if _process.ends_soon:
        _process.left.append(thing)


def end(status: int) -> NoReturn:
    """End the process: at once where something was left, with its outputs written; else as ever."""
    if not _process.left:
        sys.exit(status)
    import logging  # not free, and help does not log

    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
