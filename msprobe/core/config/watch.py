"""Watch a configuration file for ``dump_enable``: has it changed, and what does it say now?

A look at the file costs one stat, at most every ``ENABLED_SECONDS`` while collecting and every ``DISABLED_SECONDS``
while not. A file that cannot be used right now (half-written, wrong, gone) is an answer too, and is looked at again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from msprobe.core.config.dump_config import DumpConfig
from msprobe.core.config.load import check_config
from msprobe.core.errors import MsprobeException, config_error

ENABLED_SECONDS = 0.5
DISABLED_SECONDS = 3.0

_Signature = tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class Reloaded:
    """What the file says now: a configuration, or in words why it cannot be used."""

    config: DumpConfig | None
    fault: str = ""


class ConfigWatch:
    """Looks at one configuration file.

    Args:
        path: the file.
        overrides: constructor arguments, which beat the file at every reload as they did at the first.
        accept: raises a MsprobeException for a configuration that cannot be served.
        clock: seconds that only go forward.
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
        self._seen = self._signature()
        self._looked = clock()

    def poll(self, enabled: bool, force: bool = False) -> Reloaded | None:
        """What has changed since the last time, or None when nothing has or it is too early to look.

        ``force`` reads the file whatever the clock and its signature say.
        """
        now = self._clock()
        if not force and now - self._looked < (ENABLED_SECONDS if enabled else DISABLED_SECONDS):
            return None
        self._looked = now
        signature = self._signature()
        if not force and signature is not None and signature == self._seen:
            return None
        reloaded = self._read()
        # a broken file is read again next time, even when its signature stays the same
        self._seen = signature if reloaded.config is not None else None
        return reloaded

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
        except (OSError, ValueError):  # ValueError: a NUL in the name
            return None
        return status.st_mtime_ns, status.st_size
