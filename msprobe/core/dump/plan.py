"""What a session records, read once from the configuration: the collector asks plain switches, never the
configuration.
"""

from __future__ import annotations

from dataclasses import dataclass

from msprobe.core.config import DumpConfig

_STATISTICS = {"max": "Max", "min": "Min", "mean": "Mean", "l2norm": "Norm"}


@dataclass(frozen=True, slots=True)
class DumpPlan:
    """The switches of one session."""

    apis: bool
    modules: bool
    bodies: bool
    """False for task structure: names, stacks and parents only."""
    save_all: bool
    stacks: bool
    construct: bool
    unchosen: tuple[str, ...] = ()
    """Statistics that a list in ``summary_mode`` leaves out, as dump.json calls them."""

    @classmethod
    def of(cls, config: DumpConfig) -> DumpPlan:
        modules = config.level in ("L0", "mix")
        return cls(
            apis=config.level in ("L1", "mix", "L2"),
            modules=modules,
            bodies=config.task_spec.bodies,
            save_all=config.task_spec.saves_tensors,
            stacks=config.extra_info,
            construct=config.extra_info and modules,
            unchosen=_unchosen(config.section.summary_mode),
        )


def _unchosen(summary_mode: str | tuple[str, ...]) -> tuple[str, ...]:
    if isinstance(summary_mode, str):
        return ()
    return tuple(shown for name, shown in _STATISTICS.items() if name not in summary_mode)
