"""Which session serves a configuration on MindSpore: by level, task and mode."""

from __future__ import annotations

from typing import Any

from msprobe.adapters.mindspore.exception_dump import open_exception_session
from msprobe.adapters.mindspore.kernel_session import KernelSession
from msprobe.adapters.mindspore.launching import launch_at_once, looks_at_values
from msprobe.adapters.mindspore.runtime_facts import runtime_facts
from msprobe.core.backend.mindspore_modes import mode_problems
from msprobe.core.backend.model import Backend
from msprobe.core.capture.observer import Relay
from msprobe.core.capture.thread import ThreadState
from msprobe.core.config import DumpConfig
from msprobe.core.config.watch import ConfigWatch
from msprobe.core.dump.session import MakeBackend
from msprobe.core.dump.watched import open_session
from msprobe.core.errors import ConfigError, Problem
from msprobe.core.log import first_time, logger


def refuse_for_mode(config: DumpConfig) -> None:
    """Raise ConfigError with everything in ``config`` that the present mode of MindSpore does not have."""
    facts = runtime_facts()
    problems = mode_problems(config, facts)
    if problems:
        raise ConfigError(problems)
    if facts.graph_mode and config.level == "debug" and first_time("mindspore debug in graphs"):
        logger.warning(
            "level debug in a static graph (GRAPH_MODE): save() keeps values outside of compiled code; inside of "
            "construct the compiler refuses it. Return the value and save it there, or use PYNATIVE_MODE or level L0"
        )


def open_for_mode(config: DumpConfig, make: MakeBackend, watch: ConfigWatch | None) -> Any:
    """Kernels (L2) are left to the runtime; everything else is recorded by ourselves."""
    if config.task == "exception_dump":
        return open_exception_session(config, make, watch)
    if config.level == "L2":
        return KernelSession(config, make)
    if looks_at_values(config):
        launch_at_once()
    if config.dump_enable is None:
        session = open_session(config, make, watch)
        session.label.update(_label(config))
        return session
    label: dict[str, str] = {}
    session = open_session(config, _make_watched(make, label), watch)
    session.label = label
    return session


def _make_watched(make: MakeBackend, label: dict[str, str]) -> MakeBackend:
    """``make`` for a session whose configuration may change: ``label`` follows it, and kernels are refused."""

    def made(config: DumpConfig, relay: Relay, thread: ThreadState) -> Backend:
        if config.level == "L2":
            found = "a run that began with dump_enable cannot change to kernels; use L0, L1, mix or debug"
            raise ConfigError([Problem("level", "L2", found)])
        label.clear()
        label.update(_label(config))
        return make(config, relay, thread)

    return made


def _label(config: DumpConfig) -> dict[str, str]:
    """What dump.json says of itself: overflow_check looks at values, no hardware flag is asked."""
    return {"producer": "cpu-fallback"} if config.task == "overflow_check" else {}
