"""Which session serves a configuration on MindSpore: by level, task and mode."""

from __future__ import annotations

from typing import Any

from msprobe.adapters.mindspore.exception_dump import open_exception_session
from msprobe.core.config import DumpConfig
from msprobe.core.config.watch import ConfigWatch
from msprobe.core.dump.session import MakeBackend
from msprobe.core.dump.watched import open_session


def open_for_mode(config: DumpConfig, make: MakeBackend, watch: ConfigWatch | None) -> Any:
    """Kernels that fail are asked of the runtime; everything else is recorded by ourselves."""
    if config.task == "exception_dump":
        return open_exception_session(config, make, watch)
    session = open_session(config, make, watch)
    if config.task == "overflow_check":
        session.label["producer"] = "cpu-fallback"  # values are looked at; no hardware flag is asked
    return session
