"""Names of a configuration that no entry of a dump bears, each with the entries that look most like it."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

from msprobe.core.config import DumpConfig
from msprobe.core.selection.names import name_test
from msprobe.core.store.reader import Dump

_NEAREST = 3


def missing_names(config: DumpConfig, dumps: Sequence[Dump]) -> Iterator[tuple[str, str, list[str]]]:
    """``(key, name, nearest entries)`` for every item of ``list``, ``scope`` and ``tensor_list`` that selects nothing.

    Names are looked for in what was recorded and in the call stacks and module trees beside it; dumps without a
    single name say nothing.
    """
    known = {name for dump in dumps for name in (*dump.data, *dump.stacks, *dump.construct)}
    if not known:
        return
    section = config.section
    for key, names in (("list", section.names), ("scope", section.scope), ("tensor_list", section.tensor_list)):
        for name in names:
            test = name_test([name])
            if test is not None and not any(map(test, known)):
                yield key, name, _nearest(name, known)


def _nearest(name: str, known: set[str]) -> list[str]:
    close = difflib.get_close_matches(name, known, n=_NEAREST, cutoff=0.6)
    if close:
        return close
    parts = sorted({part for entry in known for part in entry.split(".") if not part.isdigit()})
    alike = difflib.get_close_matches(name, parts, n=_NEAREST, cutoff=0.75)  # a fragment: what it may have meant
    if alike:
        return alike
    words = {word.lower() for word in name.split(".") if not word.isdigit()} - {"forward", "backward", "module"}
    return sorted(entry for entry in known if words & set(entry.lower().split(".")))[:_NEAREST]
