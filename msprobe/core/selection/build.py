"""From the configuration to one selection; the only place that knows the precedence of the filters.

scope and list both must hold; the risk level counts only when neither is given; at level mix a module that is listed
brings everything that runs inside it, at level L2 the listed call does.
"""

from __future__ import annotations

from dataclasses import dataclass

from msprobe.core.config import DumpConfig
from msprobe.core.selection.modes import Modes
from msprobe.core.selection.names import NameTest, name_test
from msprobe.core.selection.scope import ScopeWindow


@dataclass(frozen=True, slots=True)
class Selection:
    """What a step records. ``scope`` is stateful, so a selection serves one step."""

    modes: Modes
    listed: NameTest | None
    scope: ScopeWindow | None
    inherits: bool
    tensors: NameTest | None

    @property
    def filtered(self) -> bool:
        """Whether single calls are looked at by name at all."""
        return self.listed is not None or self.scope is not None

    def describe(self) -> str:
        """The filters in words, for the message that explains an empty dump."""
        parts = []
        if self.listed is not None:
            parts.append("list")
        if self.scope is not None:
            parts.append("scope")
        if self.modes != Modes():
            parts.append("data_mode")
        return ", ".join(parts)


def build_selection(config: DumpConfig) -> Selection:
    """A fresh selection for one step."""
    section = config.section
    return Selection(
        modes=Modes.of(section.data_mode),
        listed=name_test(section.names),
        scope=ScopeWindow(section.scope[0], section.scope[1]) if section.scope else None,
        inherits=config.level in ("mix", "L2"),
        tensors=name_test(section.tensor_list),
    )


def uses_risk_level(config: DumpConfig) -> bool:
    return config.level in ("L1", "mix") and not config.section.names and not config.section.scope


def asks_for_operators(config: DumpConfig, prefix: str) -> bool:
    """Whether ``list`` or ``scope`` names something under ``prefix``, that of the operators below the APIs."""
    section = config.section
    return config.level in ("L1", "mix", "L2") and any(
        name == prefix or name.startswith(f"{prefix}.") for name in (*section.names, *section.scope)
    )
