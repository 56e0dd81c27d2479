"""Where a recorded call was made: its call stack, the module around it, and its source line, always from one dump.

Both dumps of a comparison may have an entry of one name that are two different calls. So every question names the side:
ask ``call_source`` with the dump that recorded the entry, or ``source_of_pair`` with both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msprobe.compare.records.entries import EntryPair, parent_of, stem_of
from msprobe.core.naming import NameSyntaxError, parse_entry
from msprobe.core.naming.names import MODULE_PREFIXES, Phase, is_module_name
from msprobe.core.store.reader import Dump

_LIBRARY = ("site-packages", "dist-packages", "/torch/nn/", "/torch/_", "/lib/python")
_GENERATED = "File <"


class CallSource(NamedTuple):
    """Where one call was made.

    ``stack`` has the frames of the forward call, innermost first; it is empty where none were recorded. ``module`` is
    path and class of the module itself or of the innermost module around the call, or another recorded parent such as
    ``optimizer``; None where no parent is recorded. ``source`` is the innermost frame of the user's code as one line.
    """

    stack: tuple[str, ...]
    module: str | None
    source: str


def call_source(dump: Dump, entry: str) -> CallSource:
    """Return where the call of an entry of ``dump`` was made. Backward calls have the stack of their forward call."""
    stack = tuple(dump.stacks.get(in_phase(entry, Phase.FORWARD.value)) or ())
    return CallSource(stack, _module_of(dump, entry), source_line(stack))


def source_of_pair(pair: EntryPair, target: Dump, golden: Dump) -> CallSource:
    """Return where the call of a pair was made: in the target, or in the golden run where only that has the entry.

    Where the target has the entry and recorded no stack, the stack is that of the golden partner.
    """
    if pair.target is None:
        return call_source(golden, pair.golden or "")
    source = call_source(target, pair.target)
    if source.stack or pair.golden is None:
        return source
    partner = call_source(golden, pair.golden)
    return CallSource(partner.stack, source.module, partner.source)


def source_line(stack: Sequence[str]) -> str:
    """Return the innermost frame of the user's own code on one line, or "" for an empty stack."""
    own = [frame for frame in stack if not frame.startswith(_GENERATED) and not any(part in frame for part in _LIBRARY)]
    frames = own or stack
    return " ".join(frames[0].split()) if frames else ""


def in_phase(name: str, phase: str) -> str:
    """Return the name of the same call in another phase; a text that is no entry name stays as it is."""
    try:
        parsed = parse_entry(name)
    except NameSyntaxError:
        return name
    call = parsed.call or 0
    return f"{parsed.stem}.{phase}.{call}" if is_module_name(name) else f"{parsed.stem}.{call}.{phase}"


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
