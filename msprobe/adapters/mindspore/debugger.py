"""``PrecisionDebugger`` for MindSpore: ``from msprobe.mindspore import PrecisionDebugger``."""

from __future__ import annotations

from typing import Any

from mindspore import nn

from msprobe.adapters.mindspore.backend import make
from msprobe.adapters.mindspore.sessions import open_for_mode
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
    def is_model(cls, value: Any) -> bool:
        parts = value if isinstance(value, (list, tuple)) else [value]
        return bool(parts) and all(isinstance(part, nn.Cell) for part in parts)
