"""Watch a configuration file for ``dump_enable``: find out whether it has changed, and read it again.

A poll costs one stat, at most every ``ENABLED_SECONDS`` while collecting and every ``DISABLED_SECONDS`` while not. A
file that cannot be used may be half-written: it is read again every ``RETRY_SECONDS``. If it still cannot be used after
``SETTLING_SECONDS``, that is reported; the file is polled further.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from msprobe.core.config.load import check_config
from msprobe.core.config.models import DumpConfig
from msprobe.core.errors import MsprobeException, config_error
from msprobe.core.interruption import let_through

ENABLED_SECONDS = 0.5
DISABLED_SECONDS = 3.0
RETRY_SECONDS = 0.05
SETTLING_SECONDS = 1.0

_Signature = tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class Reloaded:
    """The result of reading the file again: a configuration, or the reason why it cannot be used."""

    config: DumpConfig | None
    fault: str = ""


class ConfigWatch:
    """Watches one configuration file.

    Args:
        path: the file.
        overrides: constructor arguments, which replace the fields of the file whenever it is read.
        accept: raises a MsprobeException for a configuration that cannot be served.
        clock: returns monotonic seconds.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        overrides: Mapping[str, Any],
        accept: Callable[[DumpConfig], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = os.path.abspath(os.fspath(path))
        self._overrides = dict(overrides)
        self._accept = accept
        self._clock = clock
        self._last_signature = self._signature()
        self._polled_at = clock()
        self._unusable_since: float | None = None

    def poll(self, enabled: bool, force: bool = False) -> Reloaded | None:
        """Return what has changed since the last poll; None when nothing has, or when it is too early to look.

        Args:
            enabled: whether data is being collected, which decides how often the file is looked at.
            force: read the file in any case, and do not wait for it to be written to its end.
        """
        now = self._clock()
        if not force and now - self._polled_at < self._pause(enabled, now):
            return None
        self._polled_at = now
        signature = self._signature()
        if not force and signature is not None and signature == self._last_signature:
            return None
        reloaded = self._read()
        if reloaded.config is not None:
            self._last_signature, self._unusable_since = signature, None
            return reloaded
        self._last_signature = None  # it is read again next time, even when its signature stays the same
        if self._unusable_since is None:
            self._unusable_since = now
        return reloaded if force or not self._settling(now) else None

    def _pause(self, enabled: bool, now: float) -> float:
        if self._settling(now):
            return RETRY_SECONDS
        return ENABLED_SECONDS if enabled or self._unusable_since is not None else DISABLED_SECONDS

    def _settling(self, now: float) -> bool:
        """Return whether the file became unusable a moment ago: another program may be writing it."""
        return self._unusable_since is not None and now - self._unusable_since < SETTLING_SECONDS

    def _read(self) -> Reloaded:
        try:
            report = check_config(self._path, **self._overrides)
            if report.config is None:
                raise config_error(report.problems, report.source)
            self._accept(report.config)
        except MsprobeException as error:
            return Reloaded(None, str(error))
        return Reloaded(report.config)

    def _signature(self) -> _Signature:
        try:
            status = os.stat(self._path)
        except (OSError, ValueError) as error:  # ValueError: a NUL in the name
            let_through(error)
            return None
        return status.st_mtime_ns, status.st_size
