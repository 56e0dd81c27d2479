"""The switches of a session, read once from the configuration: the collector never reads the configuration itself."""

from __future__ import annotations

from dataclasses import dataclass

from msprobe.core.config import DumpConfig
from msprobe.core.tensors.statistics import STATISTICS


@dataclass(frozen=True, slots=True)
class RecordingPlan:
    """The switches of one session.

    Attributes:
        apis: record calls of functions.
        modules: record calls of modules.
        bodies: record values; False for task ``structure``, which has names, stacks and parents only.
        save_all: save every tensor in a file.
        stacks: record the call stack of each call.
        construct: record the parent of each call.
        dropped: the statistics that a list in ``summary_mode`` leaves out, by their names in dump.json.
    """

    apis: bool
    modules: bool
    bodies: bool
    save_all: bool
    stacks: bool
    construct: bool
    dropped: tuple[str, ...] = ()

    @classmethod
    def of(cls, config: DumpConfig) -> RecordingPlan:
        """Return the switches that ``config`` asks for."""
        modules = config.level in ("L0", "mix")
        return cls(
            apis=config.level in ("L1", "mix", "L2"),
            modules=modules,
            bodies=config.task_spec.bodies,
            save_all=config.task_spec.saves_tensors,
            stacks=config.extra_info,
            construct=config.extra_info and modules,
            dropped=_dropped(config.section.summary_mode),
        )


def _dropped(summary_mode: str | tuple[str, ...]) -> tuple[str, ...]:
    if isinstance(summary_mode, str):
        return ()
    return tuple(statistic.name for statistic in STATISTICS if statistic.config_name not in summary_mode)
