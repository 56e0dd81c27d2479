"""Tells the alerts of each step: in the log, and in ``anomaly.json`` where that is wanted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol

from msprobe.core.dump.session import process_debugger
from msprobe.core.log import logger
from msprobe.monitor.alerts.alert import Alert, AlertPolicy
from msprobe.monitor.alerts.anomaly_files import AnomalyFile
from msprobe.monitor.alerts.published import PublishedPolicy
from msprobe.monitor.alerts.robust import RobustPolicy
from msprobe.monitor.rows import Row
from msprobe.monitor.sources import PARAMETER_BEFORE

MOST_LINES: Final = 10
"""How many alerts of one step are lines in the log; the rest is a number."""


class RuleSettings(Protocol):
    """One rule of a configuration."""

    @property
    def rule_name(self) -> str: ...

    @property
    def args(self) -> dict[str, object]: ...


class AlertSettings(Protocol):
    """What a configuration says of alerts."""

    @property
    def rules(self) -> Sequence[RuleSettings]: ...

    @property
    def dump(self) -> bool: ...

    @property
    def policy(self) -> str | None: ...


class Alerts:
    """Asks a policy about each step, and tells what it finds.

    Args:
        policy: says which values deserve an alert.
        file: where alerts are kept; None for the log alone.
        listener: is called with the alerts of a step that has some.
    """

    def __init__(
        self,
        policy: AlertPolicy,
        file: AnomalyFile | None,
        listener: Callable[[int, Sequence[Alert]], None] | None = None,
    ) -> None:
        self._policy = policy
        self._file = file
        self._listener = listener

    def __call__(self, step: int, rows: Sequence[Row]) -> Sequence[Alert]:
        """Return the alerts of a step, which were told."""
        if self._file is not None:
            self._file.number(rows)
        # A parameter that the step begins with comes first: what is odd in it makes the others odd.
        found = sorted(self._policy.observe(step, rows), key=lambda alert: alert.row.source is not PARAMETER_BEFORE)
        for alert in found[:MOST_LINES]:
            logger.warning("monitor: step %d: %s", step, alert.reason)
        if len(found) > MOST_LINES:
            logger.warning("monitor: step %d: %d further alerts", step, len(found) - MOST_LINES)
        if found and self._file is not None:
            self._file.write(found)
        if found and self._listener is not None:
            self._listener(step, found)
        return found


def make_alerts(settings: AlertSettings, folder: Path, rank: int) -> Alerts | None:
    """Return what tells alerts as a configuration says; None where it asks for none.

    Rules ask for alerts, and so does ``policy``. Robust alerts are the default; the rules as published are for
    ``"policy": "reference"``.
    """
    if not settings.rules and settings.policy is None:
        return None
    file = AnomalyFile(folder, rank) if settings.dump else None
    if settings.policy == "reference":
        rules = [(rule.rule_name, rule.args) for rule in settings.rules]
        return Alerts(PublishedPolicy(rules), file, write_kept_steps)
    return Alerts(RobustPolicy(), file, write_kept_steps)


def write_kept_steps(step: int, alerts: Sequence[Alert]) -> None:
    """Let the debugger of this process write the steps that it keeps in memory, if it does (``ring``)."""
    process_debugger.trigger("alert", f"monitor, its step {step}: {alerts[0].reason}")
