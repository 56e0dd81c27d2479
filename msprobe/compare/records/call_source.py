"""Where a recorded call was made: its call stack, the module around it, and its source line, always from one dump.

Both dumps of a comparison may have an entry of one name that are two different calls. So every question names the side:
ask ``call_source`` with the dump that recorded the entry, or ``source_of_pair`` with both.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any, NamedTuple

from msprobe.compare.records.entries import EntryPair, parent_of, stem_of
from msprobe.compare.records.source_lines import source_line
from msprobe.core.naming import NameSyntaxError, split_entry
from msprobe.core.naming.names import MODULE_PREFIXES, Phase, is_module_name
from msprobe.core.store.reader import Dump


class CallSource(NamedTuple):
    """Where one call was made.

    ``stack`` has the frames of the forward call, innermost first; it is empty where none were recorded. ``module`` is
    path and class of the module itself or of the innermost module around the call, or another recorded parent such as
    ``optimizer``; None where no parent is recorded. ``source`` is the frame that ``source_line`` chooses, on one line.
    """

    stack: tuple[str, ...]
    module: str | None
    source: str


NO_SOURCE = CallSource((), None, "")


class PairSource(NamedTuple):
    """Where the call of a pair was made on each side; None for the side that lacks the call."""

    target: CallSource | None
    golden: CallSource | None

    @property
    def own(self) -> CallSource:
        """Where the call was made in the target, or in the golden run where only that has it."""
        return self.target or self.golden or NO_SOURCE


def call_source(dump: Dump, entry: str) -> CallSource:
    """Return where the call of an entry of ``dump`` was made. Backward calls have the stack of their forward call."""
    stack = tuple(dump.stacks.get(in_phase(entry, Phase.FORWARD.value)) or ())
    return CallSource(stack, _module_of(dump, entry), source_line(stack))


def of_stack(stack: Sequence[str]) -> CallSource:
    """Return where a call outside of modules with this stack was made."""
    return CallSource(tuple(stack), None, source_line(tuple(stack)))


def source_of_pair(pair: EntryPair, target: Dump, golden: Dump) -> PairSource:
    """Return where the call of a pair was made on either side."""
    return PairSource(
        call_source(target, pair.target) if pair.target is not None else None,
        call_source(golden, pair.golden) if pair.golden is not None else None,
    )


def in_phase(name: str, phase: str) -> str:
    """Return the name of the same call in another phase; a text that is no entry name stays as it is."""
    try:
        stem, _, call = split_entry(name)
    except NameSyntaxError:
        return name
    return f"{stem}.{phase}.{call or 0}" if is_module_name(name) else f"{stem}.{call or 0}.{phase}"


def parent_in_phase(construct: Mapping[str, Any], name: str, names: Container[str]) -> str | None:
    """Return the recorded parent of an entry; of a backward entry without one, that of its forward entry in the
    backward pass, as far as it is among ``names``."""
    parent = parent_of(construct, name)
    forward = None if parent is not None else parent_of(construct, in_phase(name, "forward"))
    if forward is None:
        return parent
    backward = in_phase(forward, "backward")
    return backward if backward in names or forward not in names else forward


def module_text(name: str) -> str:
    """Return path and class of a module entry without prefix and call; another parent (optimizer) stays as it is."""
    stem = stem_of(name)
    prefix, dot, rest = stem.partition(".")
    return rest if dot and prefix in MODULE_PREFIXES else stem


def _module_of(dump: Dump, entry: str) -> str | None:
    if is_module_name(entry):
        return module_text(entry)
    parent = parent_of(dump.construct, entry)
    if parent is None:
        parent = parent_of(dump.construct, in_phase(entry, Phase.FORWARD.value))
    return None if parent is None else module_text(parent)
