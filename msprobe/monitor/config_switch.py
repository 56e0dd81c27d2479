"""``DYNAMIC_MONITOR``: a training is watched whenever the configuration file says ``dynamic_on``.

The file is looked at after each step, which costs one ``stat``. What it says holds from the next step on. When the
steps that were asked for are measured, ``dynamic_on`` becomes false in the file; the rest of its text stays as it is.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from msprobe.core.errors import MsprobeException, error_text
from msprobe.core.interruption import let_through
from msprobe.core.log import logger
from msprobe.core.store.safe_files import disk_remedy, write_atomic
from msprobe.monitor.settings.first_version import FirstVersion, read_first_version

VARIABLE: Final = "DYNAMIC_MONITOR"
_SWITCHED_ON: Final = re.compile(r"""(["']?\bdynamic_on["']?\s*:\s*)true\b""", re.IGNORECASE)


def is_dynamic() -> bool:
    """Return whether the environment asks for the dynamic mode."""
    return os.environ.get(VARIABLE, "").lower() == "true"


class ConfigSwitch:
    """Watches the configuration file.

    Args:
        path: the file.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path).absolute()
        self._seen: tuple[int, int] | None = None
        self._missing = False

    def changed(self) -> FirstVersion | None:
        """Return the settings if the file has changed since the last call; None otherwise, or where it is broken."""
        try:
            status = self._path.stat()
        except OSError as error:
            let_through(error)
            if not self._missing:
                logger.warning("monitor: %s: %s; the training goes on as before", self._path, error_text(error))
            self._missing = True
            return None
        signature = status.st_mtime_ns, status.st_size
        if signature == self._seen:
            return None
        self._seen, self._missing = signature, False
        try:
            return read_first_version(self._path)
        except MsprobeException as error:
            text = " ".join(str(error).split())
            logger.warning("monitor: the changed configuration is not used, the one before stays: %s", text)
            return None

    def switch_off(self) -> None:
        """Set ``dynamic_on`` to false in the file."""
        try:
            text = self._path.read_text(encoding="utf-8")
            changed = _SWITCHED_ON.sub(r"\g<1>false", text)
            if changed != text:
                write_atomic(self._path, [changed.encode()])
            status = self._path.stat()
        except (OSError, UnicodeDecodeError) as error:
            let_through(error)
            advice = disk_remedy(error, "configuration file") if isinstance(error, OSError) else ""
            logger.warning("monitor: dynamic_on stays true in %s: %s. %s", self._path, error_text(error), advice)
            return
        self._seen = status.st_mtime_ns, status.st_size
