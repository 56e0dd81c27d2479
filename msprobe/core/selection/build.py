"""Build the selection of one step from the configuration. The precedence of the filters is decided here only.

Both scope and list must select a call. The risk level has an effect only when neither is given. At level mix a listed
module selects everything that runs inside it, and at level L2 a listed call does.
"""

from __future__ import annotations

from dataclasses import dataclass

from msprobe.core.config import DumpConfig
from msprobe.core.selection.modes import Modes
from msprobe.core.selection.names import NameTest, name_test
from msprobe.core.selection.scope import ScopeWindow


@dataclass(frozen=True, slots=True)
class Selection:
    """The filters of one step. ``scope`` has a state, so each step needs its own selection."""

    modes: Modes
    listed: NameTest | None
    scope: ScopeWindow | None
    inherits: bool
    tensors: NameTest | None

    @property
    def filtered(self) -> bool:
        """Whether calls are filtered by their names."""
        return self.listed is not None or self.scope is not None

    def describe(self) -> str:
        """Return the names of the filters, for the message that explains an empty dump."""
        parts = []
        if self.listed is not None:
            parts.append("list")
        if self.scope is not None:
            parts.append("scope")
        if self.modes != Modes():
            parts.append("data_mode")
        return ", ".join(parts)


def build_selection(config: DumpConfig) -> Selection:
    """Return a new selection for one step."""
    section = config.section
    return Selection(
        modes=Modes.of(section.data_mode),
        listed=name_test(section.names),
        scope=ScopeWindow(section.scope[0], section.scope[1]) if section.scope else None,
        inherits=config.level in ("mix", "L2"),
        tensors=name_test(section.tensor_list),
    )


def uses_risk_level(config: DumpConfig) -> bool:
    """Return whether ``risk_level`` has an effect."""
    return config.level in ("L1", "mix") and not config.section.names and not config.section.scope


def asks_for_operators(config: DumpConfig, prefix: str) -> bool:
    """Return whether ``list`` or ``scope`` names an operator below the APIs; ``prefix`` is that of operators."""
    section = config.section
    return config.level in ("L1", "mix", "L2") and any(
        name == prefix or name.startswith(f"{prefix}.") for name in (*section.names, *section.scope)
    )
