"""Find names of a configuration that no entry of a dump has, each with the entries that look most like it."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

from msprobe.core.config import DumpConfig
from msprobe.core.selection.names import name_test
from msprobe.core.store.reader import Dump

_SUGGESTIONS = 3


def missing_names(config: DumpConfig, dumps: Sequence[Dump]) -> Iterator[tuple[str, str, list[str]]]:
    """Yield ``(key, name, nearest entries)`` for each item of ``list``, ``scope`` and ``tensor_list`` without a match.

    Names are compared with the recorded entries and with those in the call stacks and module trees. Dumps that hold no
    name at all yield nothing.
    """
    entries = {name for dump in dumps for name in (*dump.data, *dump.stacks, *dump.construct)}
    if not entries:
        return
    section = config.section
    for key, names in (("list", section.names), ("scope", section.scope), ("tensor_list", section.tensor_list)):
        for name in names:
            test = name_test([name])
            if test is not None and not any(map(test, entries)):
                yield key, name, _nearest_entries(name, entries)


def _nearest_entries(name: str, entries: set[str]) -> list[str]:
    close = difflib.get_close_matches(name, entries, n=_SUGGESTIONS, cutoff=0.6)
    if close:
        return close
    parts = sorted({part for entry in entries for part in entry.split(".") if not part.isdigit()})
    similar_parts = difflib.get_close_matches(name, parts, n=_SUGGESTIONS, cutoff=0.75)  # the name may be a fragment
    if similar_parts:
        return similar_parts
    words = {word.lower() for word in name.split(".") if not word.isdigit()} - {"forward", "backward", "module"}
    return sorted(entry for entry in entries if words & set(entry.lower().split(".")))[:_SUGGESTIONS]
