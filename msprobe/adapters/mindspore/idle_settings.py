"""Settings that a configuration may hold because another framework has them, and that have no effect here."""

from __future__ import annotations

from msprobe.adapters.mindspore.graph_tap import in_graph_mode
from msprobe.core.config import DumpConfig
from msprobe.core.log import first_time, logger
from msprobe.core.selection.build import uses_risk_level


def warn_of_idle_settings(config: DumpConfig) -> None:
    """One warning for each, once per process."""
    if config.risk_level == "CORE" and uses_risk_level(config):
        _warn("risk_level: has no effect on MindSpore, whose functions are not ranked: all are recorded; use list")
    if config.task == "overflow_check" and config.overflow_check.check_mode != "all" and not in_graph_mode():
        _warn(
            "overflow_check.check_mode: has no effect in a dynamic graph, where the values of every call are looked at"
        )


def _warn(text: str) -> None:
    if first_time(text):
        logger.warning("config: %s", text)
