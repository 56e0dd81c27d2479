"""What depends on the mode of MindSpore when a session opens: settings that are refused, and the header of its dump."""

from __future__ import annotations

from msprobe.adapters.mindspore.runtime_facts import on_cpu, runtime_facts
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


def header_of(config: DumpConfig) -> dict[str, str]:
    """Return the fields of dump.json that say who found what task ``overflow_check`` or ``exception_dump`` records.

    ``overflow_check`` looks at values and asks no hardware flag. A CPU has no service for ``exception_dump``: calls are
    recorded instead of kernels.
    """
    if config.task == "overflow_check":
        return {"producer": "cpu-fallback"}
    if config.task == "exception_dump":
        return {"producer": "cpu-fallback", "record_level": "api"} if on_cpu() else {"producer": "runtime"}
    return {}
