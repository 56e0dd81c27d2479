"""Settings that the present mode of MindSpore refuses when a session opens."""

from __future__ import annotations

from msprobe.adapters.mindspore.runtime_facts import runtime_facts
from msprobe.core.backend.mindspore_modes import mode_problems
from msprobe.core.config import DumpConfig
from msprobe.core.errors import ConfigError
from msprobe.core.log import first_time, logger


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
