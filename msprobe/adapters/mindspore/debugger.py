"""``PrecisionDebugger`` for MindSpore: ``from msprobe.mindspore import PrecisionDebugger``."""

from __future__ import annotations

from typing import Any

from mindspore import nn

from msprobe.adapters.mindspore.backend import make
from msprobe.adapters.mindspore.idle_settings import warn_of_idle_settings
from msprobe.adapters.mindspore.runtime import is_scheduler
from msprobe.adapters.mindspore.sessions import open_for_mode, refuse_for_mode
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
        return open_for_mode(config, cls.make, watch)

    @classmethod
    def check(cls, config: DumpConfig) -> None:
        require()
        super().check(config)
        refuse_for_mode(config)
        warn_of_idle_settings(config)

    @classmethod
    def look_again(cls, session: Any) -> None:
        """The mode may have been set after the construction. Once a step is over, training is let alone."""
        if session.current_step == session.init_step:
            refuse_for_mode(session.config)

    @classmethod
    def start(cls, model: Any = None, *args: Any, **kwargs: Any) -> None:
        """See ``Debugger.start``. Does nothing in the scheduler of ``msrun``, which does not run the model."""
        if not is_scheduler():
            super().start(model, *args, **kwargs)

    @classmethod
    def is_model(cls, value: Any) -> bool:
        parts = value if isinstance(value, (list, tuple)) else [value]
        return bool(parts) and all(isinstance(part, nn.Cell) for part in parts)
