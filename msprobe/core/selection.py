"""Decide which calls of a step are recorded, from the filters of the configuration.

The precedence of the filters is decided here only. A call must be selected by ``scope`` and by ``list``. The risk level
has an effect only when neither is set. At level mix a listed module also selects everything that runs inside it, and at
level L2 a listed call does.

    data_mode            which phases and sides of a call are recorded (``DataMode``)
    list, tensor_list    entries by name (``name_test``): a full entry name (``Functional.linear.1.forward``) selects
                         exactly that entry, a fragment (``relu``, ``fc2``) every entry whose name contains it
    scope                the calls between two names, both included (``ScopeWindow``)
    sample               a share of the calls, by a hash of their names (``sample_test``)
    risk_level           APIs by risk (``risk_test``): CORE keeps the operators that compute or communicate, FOCUS drops
                         those that only move, cast or create data, ALL keeps every API
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from msprobe.core.config import DumpConfig
from msprobe.core.errors import json_text
from msprobe.core.naming import NameSyntaxError, parse_entry


@dataclass(frozen=True, slots=True)
class Selection:
    """The filters of one step. ``scope`` has a state, so each step needs its own selection."""

    modes: DataMode
    listed: NameTest | None
    scope: ScopeWindow | None
    inherits: bool
    tensors: NameTest | None
    sampled: NameTest | None = None

    @property
    def filtered(self) -> bool:
        """Whether calls are filtered by their names."""
        return self.listed is not None or self.scope is not None


def describe_filters(config: DumpConfig) -> str:
    """Return the filters of a configuration with their words, for messages about an empty dump; "" without any."""
    section = config.section
    words: dict[str, Collection[str]] = {"list": section.names, "scope": section.scope}
    if DataMode.of(section.data_mode) != DataMode():
        words["data_mode"] = sorted(section.data_mode)
    return ", ".join(f"{key} {json_text(list(chosen))}" for key, chosen in words.items() if chosen)


def build_selection(config: DumpConfig) -> Selection:
    """Return a new selection for one step."""
    section = config.section
    return Selection(
        modes=DataMode.of(section.data_mode),
        listed=name_test(section.names),
        scope=ScopeWindow(section.scope[0], section.scope[1]) if section.scope else None,
        inherits=config.level in ("mix", "L2"),
        tensors=name_test(section.tensor_list),
        sampled=sample_test(section.sampled.share, section.scope),
    )


def describe_sample(config: DumpConfig) -> dict[str, Any]:
    """Return which steps and calls are recorded, for the header; nothing where all are."""
    sample = config.section.sampled
    return {} if sample.every == 1 and sample.share == 1.0 else {"every": sample.every, "share": sample.share}


def sample_test(share: float, always: Collection[str] = ()) -> NameTest | None:
    """Return a test that chooses a share of the forward entry names; None where it chooses all.

    The choice follows from the name alone (CRC-32), so two runs record the same calls. A larger share has the calls of
    a smaller one among it.

    Args:
        share: the share, above 0.
        always: entries whose calls are chosen anyway, as a scope begins and ends with them.
    """
    if share >= 1.0:
        return None
    bound, crc32 = int(share * (1 << 32)), zlib.crc32
    kept = frozenset(name.replace(".backward", ".forward") for name in always)
    return lambda name: crc32(name.encode("utf-8", "surrogatepass")) < bound or name in kept


def uses_risk_level(config: DumpConfig) -> bool:
    """Return whether ``risk_level`` has an effect."""
    return config.level in ("L1", "mix") and not config.section.names and not config.section.scope


def asks_for_operators(config: DumpConfig, prefix: str) -> bool:
    """Return whether ``list`` or ``scope`` names an operator below the APIs; ``prefix`` is that of operators."""
    section = config.section
    return config.level in ("L1", "mix", "L2") and any(
        name == prefix or name.startswith(f"{prefix}.") for name in (*section.names, *section.scope)
    )


@dataclass(frozen=True, slots=True)
class DataMode:
    """The normalised ``data_mode`` of the configuration."""

    forward: bool = True
    backward: bool = True
    input: bool = True
    output: bool = True

    @classmethod
    def of(cls, names: Iterable[str]) -> DataMode:
        """Return the switches for a set of forward, backward, input, output.

        Without a phase both phases are on, without a side both sides.
        """
        chosen = set(names)
        phases = chosen & {"forward", "backward"} or {"forward", "backward"}
        sides = chosen & {"input", "output"} or {"input", "output"}
        return cls("forward" in phases, "backward" in phases, "input" in sides, "output" in sides)

    @property
    def parameters_grad(self) -> bool:
        """Whether gradients of parameters are recorded; they belong to the backward phase and to no side."""
        return self.backward


NameTest = Callable[[str], bool]


def name_test(items: Sequence[str]) -> NameTest | None:
    """Return a test for entry names; None when ``items`` is empty, so that nothing is filtered."""
    if not items:
        return None
    exact = frozenset(item for item in items if is_entry(item))
    fragments = tuple(item for item in items if item not in exact)
    if not fragments:
        return exact.__contains__

    def matches(name: str) -> bool:
        return name in exact or any(fragment in name for fragment in fragments)

    return matches


def is_entry(text: str) -> bool:
    """Return whether ``text`` is a complete entry name."""
    try:
        parse_entry(text)
    except NameSyntaxError:
        return False
    return True


class ScopeWindow:
    """The state of the scope in one step: closed, open or over."""

    __slots__ = ("_first", "_last", "_open", "_over")

    def __init__(self, first: str, last: str) -> None:
        self._first = first
        self._last = last
        self._open = False
        self._over = False

    def begin(self, name: str) -> bool:
        """Note that a call begins; return whether it is in the window."""
        if name == self._first and not self._over:
            self._open = True
        return self._open

    def end(self, name: str) -> None:
        """Note that a call has ended; the last call of the scope closes the window for the rest of the step."""
        if self._open and name == self._last:
            self._open = False
            self._over = True


def risk_test(level: str, core: Collection[str], low: Collection[str]) -> Callable[[str], bool]:
    """Return a test for API names (the part between prefix and call number).

    Args:
        level: CORE, FOCUS or ALL.
        core: the APIs that CORE keeps.
        low: the APIs that FOCUS drops.
    """
    core_names, low_names = frozenset(core), frozenset(low)
    if level == "CORE":
        return core_names.__contains__
    if level == "FOCUS":
        return lambda api: api not in low_names
    return lambda api: True
