"""``PrecisionDebugger`` for MindSpore: ``from msprobe.mindspore import PrecisionDebugger``."""

from __future__ import annotations

from typing import Any

from mindspore import nn

from msprobe.adapters.mindspore.asked_runtime import withdraw_request
from msprobe.adapters.mindspore.backend import make
from msprobe.adapters.mindspore.exception_dump import ask_for_failed_kernels
from msprobe.adapters.mindspore.idle_settings import warn_unused_settings
from msprobe.adapters.mindspore.launching import launch_at_once, looks_at_values
from msprobe.adapters.mindspore.runtime import is_scheduler
from msprobe.adapters.mindspore.sessions import refuse_for_mode
from msprobe.adapters.mindspore.versions import require
from msprobe.core.backend.model import Backend
from msprobe.core.backend.support import MINDSPORE
from msprobe.core.capture.observer import Relay
from msprobe.core.capture.thread import ThreadState
from msprobe.core.config import DumpConfig
from msprobe.core.config.watch import ConfigWatch
from msprobe.core.dump.facade import Debugger


class PrecisionDebugger(Debugger):
    """The documented API over the collection of this process; see ``Debugger``."""

    support = MINDSPORE

    @classmethod
    def make(cls, config: DumpConfig, relay: Relay, thread: ThreadState) -> Backend:
        return make(config, relay, thread)

    @classmethod
    def open(cls, config: DumpConfig, watch: ConfigWatch | None) -> Any:
        request = ask_for_failed_kernels(config) if config.task == "exception_dump" else None
        if looks_at_values(config):
            launch_at_once()
        session = super().open(config, watch)
        if request is not None:
            session.closing.callback(withdraw_request, request)
        return session

    @classmethod
    def check(cls, config: DumpConfig) -> None:
        require()
        super().check(config)
        refuse_for_mode(config)
        warn_unused_settings(config)

    @classmethod
    def look_again(cls, session: Any) -> None:
        """Check the mode again before the first step: it may have been set after the construction."""
        if session.current_step == session.init_step:
            refuse_for_mode(session.config)

    @classmethod
    def start(cls, model: Any = None, *args: Any, **kwargs: Any) -> None:
        """Begin collecting; see ``Debugger.start``. The scheduler of ``msrun``, which runs no model, does nothing."""
        if not is_scheduler():
            super().start(model, *args, **kwargs)

    @classmethod
    def is_model(cls, value: Any) -> bool:
        parts = value if isinstance(value, (list, tuple)) else [value]
        return bool(parts) and all(isinstance(part, nn.Cell) for part in parts)
