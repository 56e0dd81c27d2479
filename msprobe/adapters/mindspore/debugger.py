"""``PrecisionDebugger`` for MindSpore: ``from msprobe.mindspore import PrecisionDebugger``.

Before a session opens, ``refuse_for_mode`` raises for settings that the present mode of MindSpore does not support, and
``warn_unused_settings`` warns of settings that a configuration has for another framework and that have no effect here.
"""

from __future__ import annotations

from typing import Any

from mindspore import nn

from msprobe.adapters.mindspore.backend import make_backend
from msprobe.adapters.mindspore.kernel.exception_dump import ask_for_failed_kernels
from msprobe.adapters.mindspore.kernel.runtime_dump import withdraw_request
from msprobe.adapters.mindspore.launch_mode import launch_at_once, looks_at_values
from msprobe.adapters.mindspore.runtime import is_scheduler
from msprobe.adapters.mindspore.runtime_facts import in_graph_mode, runtime_facts
from msprobe.adapters.mindspore.versions import require
from msprobe.core.backend.mindspore_modes import mode_problems, watches_kernels
from msprobe.core.backend.protocols import Backend
from msprobe.core.backend.support import MINDSPORE
from msprobe.core.capture.observer import CurrentObserver
from msprobe.core.capture.thread_state import ThreadState
from msprobe.core.config import DumpConfig
from msprobe.core.config.watch import ConfigWatch
from msprobe.core.dump.session.debugger import Debugger
from msprobe.core.dump.session.kernel_session import KernelSession
from msprobe.core.errors import ConfigError
from msprobe.core.log import first_time, logger
from msprobe.core.selection import uses_risk_level
from msprobe.native.loader import log_absence


class PrecisionDebugger(Debugger):
    """The documented API over the collection of this process; see ``Debugger``."""

    support = MINDSPORE

    @classmethod
    def make_backend(cls, config: DumpConfig, current: CurrentObserver, thread: ThreadState) -> Backend:
        return make_backend(config, current, thread)

    @classmethod
    def make_session(cls, config: DumpConfig, watch: ConfigWatch | None) -> Any:
        fails = config.task == "exception_dump"
        if fails and watches_kernels(config, runtime_facts()):
            return KernelSession(config, cls.make_backend)
        request = ask_for_failed_kernels(config) if fails else None
        if looks_at_values(config):
            launch_at_once()
        session = super().make_session(config, watch)
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
    def before_first_start(cls, session: Any) -> None:
        """Check the mode again before the first step: it may have been set after the construction."""
        log_absence()
        if watches_kernels(session.config, runtime_facts()) and not isinstance(session, KernelSession):
            logger.warning(
                "exception_dump: GRAPH_MODE was set after PrecisionDebugger was made: only calls outside of compiled "
                "graphs are watched; set the mode before"
            )
        if session.current_step == session.init_step:
            refuse_for_mode(session.config)

    @classmethod
    def start(cls, model: Any = None, *args: Any, **kwargs: Any) -> None:
        """Begin collecting; see ``Debugger.start``. The scheduler of ``msrun``, which runs no model, does nothing."""
        if not is_scheduler():
            super().start(model, *args, **kwargs)

    @classmethod
    def stop(cls) -> None:
        """Stop collecting; see ``Debugger.stop``. In a static graph it ends ``monitor(optimizer)`` too."""
        super().stop()
        if cls._probe is not None and in_graph_mode():
            cls._probe.detach()

    @classmethod
    def is_model(cls, value: Any) -> bool:
        parts = value if isinstance(value, (list, tuple)) else [value]
        return bool(parts) and all(isinstance(part, nn.Cell) for part in parts)


def refuse_for_mode(config: DumpConfig) -> None:
    """Check that the present mode of MindSpore has everything that ``config`` asks for.

    Raises:
        ConfigError: it has not. The error names every setting that must change.
    """
    facts = runtime_facts()
    problems = mode_problems(config, facts)
    if problems:
        raise ConfigError(problems)
    if facts.graph_mode and config.level == "debug" and first_time("mindspore debug in graphs"):
        logger.warning(
            "level debug in a static graph (GRAPH_MODE): save() keeps values outside of compiled code; inside of "
            "construct the compiler refuses it. Return the value and save it there, or use PYNATIVE_MODE or level L0"
        )


def warn_unused_settings(config: DumpConfig) -> None:
    """Log one warning for each setting without effect, once per process."""
    if config.risk_level == "CORE" and uses_risk_level(config):
        _warn("risk_level: has no effect on MindSpore, whose functions are not ranked: all are recorded; use list")
    if config.task == "overflow_check" and config.overflow_check.check_mode != "all" and not in_graph_mode():
        _warn(
            "overflow_check.check_mode: has no effect in a dynamic graph, where the values of every call are looked at"
        )


def _warn(text: str) -> None:
    if first_time(text):
        logger.warning("config: %s", text)
