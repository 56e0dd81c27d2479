"""What is said about calls that are no divergence: where the code differs, what nothing shows, and what is harmless."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from msprobe.compare.records.call_source import call_source
from msprobe.compare.records.entries import Absence
from msprobe.compare.records.note import Note
from msprobe.compare.records.source_lines import source_frame
from msprobe.compare.table.table import LeafTable
from msprobe.core.naming.names import Phase
from msprobe.core.store.reader import Dump

_TIMES = "once", "{} times"


def other_code_notes(table: LeafTable, target: Dump, golden: Dump) -> list[str]:
    """Return a sentence about the places where the sides make other calls, and all values around them agree."""
    places = list(_places(table, target, golden))
    if not places:
        return []
    one, many = (f"the code differs {times}, and the values that follow from it agree" for times in _TIMES)
    return [Note(len(places), one, many, places[0])]


def harmless_notes(table: LeafTable) -> list[str]:
    """Return a sentence about the calls of both sides that differ, and of which no difference goes on."""
    if not table.harmless:
        return []
    end = "without consequence: what leaves the modules or the formulas around them agrees"
    first = table.entries[min(table.harmless)].name
    return [Note(len(table.harmless), f"1 call differs {end}", f"{{}} calls differ {end}", first)]


def not_shown_notes(table: LeafTable) -> list[str]:
    """Return a sentence for each side with calls that nothing recorded later shows."""
    calls: Counter[bool] = Counter()
    first: dict[bool, str] = {}
    for pair in table.entries:
        if pair.absence is Absence.NOT_SHOWN:
            calls[pair.target is None] += 1
            first.setdefault(pair.target is None, pair.name)
    end = "not judged: nothing that both sides record later shows their values"
    return [
        Note(count, f"1 call that {alone} was {end}", f"{{}} calls that {alone} were {end}", first[in_golden])
        for in_golden, count in calls.items()
        if (alone := f"only the {('target', 'golden run')[in_golden]} makes")
    ]


def _places(table: LeafTable, target: Dump, golden: Dump) -> Iterator[str]:
    """Yield the source lines of each stretch of forward calls that one side alone makes."""
    first: dict[bool, str] = {}
    for number, pair in enumerate(table.entries):
        if pair.absence is Absence.OTHER_CODE:
            if table.keys[number].phase == Phase.FORWARD.value:
                first.setdefault(pair.target is None, pair.name)
        elif first and not pair.benign:
            yield _place(first, target, golden)
            first = {}
    if first:
        yield _place(first, target, golden)


def _place(first: dict[bool, str], target: Dump, golden: Dump) -> str:
    texts = []
    for in_golden, dump, side in ((False, target, "target"), (True, golden, "golden run")):
        if in_golden in first:
            frame = source_frame(call_source(dump, first[in_golden]).stack)
            line = f"{frame.path}:{frame.line}" if frame is not None and frame.line else first[in_golden]
            texts.append(f"{line} in the {side}")
    return " and ".join(texts)
