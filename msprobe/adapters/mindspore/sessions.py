"""Which session serves a configuration on MindSpore: by level, task and mode."""

from __future__ import annotations

from typing import Any

from msprobe.adapters.mindspore.exception_dump import open_exception_session
from msprobe.adapters.mindspore.kernel_session import KernelSession
from msprobe.adapters.mindspore.launching import launch_at_once, looks_at_values
from msprobe.adapters.mindspore.runtime_facts import runtime_facts
from msprobe.core.backend.mindspore_modes import mode_problems
from msprobe.core.config import DumpConfig
from msprobe.core.config.watch import ConfigWatch
from msprobe.core.dump.session import MakeBackend
from msprobe.core.dump.watched import open_session
from msprobe.core.errors import ConfigError
from msprobe.core.log import logger, once


def refuse_for_mode(config: DumpConfig) -> None:
    """Raise ConfigError with everything in ``config`` that the present mode of MindSpore does not have."""
    facts = runtime_facts()
    problems = mode_problems(config, facts)
    if problems:
        raise ConfigError(problems)
    if facts.graph_mode and config.level == "debug" and once("mindspore debug in graphs"):
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
    session = open_session(config, make, watch)
    if config.task == "overflow_check":
        session.label["producer"] = "cpu-fallback"  # values are looked at; no hardware flag is asked
    return session
