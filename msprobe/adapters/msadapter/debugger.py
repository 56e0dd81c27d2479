"""``PrecisionDebugger`` for programs that import MindSpore, with MSAdapter or without.

Which of the two it is depends on what the program has imported. That is looked up when the debugger is constructed and
again before each step, so that an adapter that is imported late is seen.
"""

from __future__ import annotations

from typing import Any

from msprobe.adapters.mindspore.debugger import PrecisionDebugger as MindSporeDebugger
from msprobe.adapters.msadapter.backend import NAME, make_backend
from msprobe.adapters.msadapter.detection import torch_of_msadapter
from msprobe.core.backend.protocols import Backend
from msprobe.core.backend.support import MSADAPTER, check_support
from msprobe.core.capture.observer import CurrentObserver
from msprobe.core.capture.thread_state import ThreadState
from msprobe.core.config import DumpConfig
from msprobe.core.dump.session.session import DumpSession
from msprobe.core.log import logger


class PrecisionDebugger(MindSporeDebugger):
    """The documented API over the collection of this process; see ``Debugger``."""

    @classmethod
    def make_backend(cls, config: DumpConfig, current: CurrentObserver, thread: ThreadState) -> Backend:
        if torch_of_msadapter() is None:
            return super().make_backend(config, current, thread)
        return make_backend(config, current, thread)

    @classmethod
    def check(cls, config: DumpConfig) -> None:
        if torch_of_msadapter() is None:
            super().check(config)
        else:
            check_support(config, MSADAPTER)

    @classmethod
    def is_model(cls, value: Any) -> bool:
        torch = torch_of_msadapter()
        if torch is None:
            return super().is_model(value)
        parts = value if isinstance(value, (list, tuple)) else [value]
        return bool(parts) and all(isinstance(part, torch.nn.Module) for part in parts)

    @classmethod
    def before_first_start(cls, session: DumpSession) -> None:
        if (session.backend.name == NAME) == (torch_of_msadapter() is not None):
            if session.backend.name != NAME:
                super().before_first_start(session)
            return
        cls.check(session.config)
        session.renew(session.config, cls.make_backend)
        logger.info("the program works with %s", session.backend.name)
