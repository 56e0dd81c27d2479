"""What one side did not record, and says so, is left out of both.

Without this a call that one side was not asked to record, or could not measure, would look like a call that only the
other side makes. ``sample`` chooses calls by a hash of their names, so the calls of a smaller share are among those of
a larger one. Modules of compiled graphs may have calls that the graph does not report.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

from msprobe.compare.records.entries import parents_of
from msprobe.core.naming import NameSyntaxError, split_entry
from msprobe.core.selection import sample_test
from msprobe.core.store.reader import Dump
from msprobe.core.store.record_walk import NOT_MEASURED, SAMPLED

_MOST_NAMED = 3


def recorded_by_both(target: Dump, golden: Dump) -> tuple[Dump, Dump, list[str]]:
    """Return both dumps with the calls that both were asked to record and could, and notes where that leaves some
    out."""
    target, golden, sampled = _with_common_sample(target, golden)
    target, golden, unmeasured = _without_unmeasured(target, golden)
    return target, golden, sampled + unmeasured


def _with_common_sample(target: Dump, golden: Dump) -> tuple[Dump, Dump, list[str]]:
    """Return both dumps with the calls that both were asked to record, and a note where that leaves some out."""
    shares = _share(target), _share(golden)
    test = sample_test(min(shares))
    if shares[0] == shares[1] or test is None:
        return target, golden, []
    cut = [
        replace(dump, data={name: body for name, body in dump.data.items() if test(_forward(name))})
        for dump in (target, golden)
    ]
    note = (
        f"the share of calls that were recorded is {shares[0]:g} in the target and {shares[1]:g} in the golden run "
        f"(sample): the calls of the smaller share are compared"
    )
    return cut[0], cut[1], [note]


def _share(dump: Dump) -> float:
    sampled: Any = dump.header.get(SAMPLED)
    share = sampled.get("share") if isinstance(sampled, dict) else None
    return float(share) if isinstance(share, (int, float)) and 0.0 < share < 1.0 else 1.0


def _forward(name: str) -> str:
    """Return the forward entry of a call, by which it was chosen; gradients of parameters are chosen by themselves."""
    head, _, last = name.rpartition(".")
    if last == "backward":
        return f"{head}.forward"
    return f"{head.removesuffix('.backward')}.forward.{last}" if head.endswith(".backward") else name


def _without_unmeasured(target: Dump, golden: Dump) -> tuple[Dump, Dump, list[str]]:
    """Return both dumps without the calls that the other one says it could not measure, and a note for each side."""
    target_left, target_notes = _without(target, golden, "golden run")
    golden_left, golden_notes = _without(golden, target, "target")
    return target_left, golden_left, target_notes + golden_notes


def _without(dump: Dump, other: Dump, side: str) -> tuple[Dump, list[str]]:
    listed = other.header.get(NOT_MEASURED)
    names = {name for name in listed if isinstance(name, str)} if isinstance(listed, list) else set()
    if not names:
        return dump, []
    left_out = {
        name for name in dump.data if name not in other.data and any(one in names for one in _names(dump, name))
    }
    if not left_out:
        return dump, []
    shown = ", ".join(sorted(names)[:_MOST_NAMED]) + (", ..." if len(names) > _MOST_NAMED else "")
    count = "1 record is" if len(left_out) == 1 else f"{len(left_out)} records are"
    note = f"the {side} could not measure {shown} in a compiled graph: {count} not compared"
    return replace(dump, data={name: body for name, body in dump.data.items() if name not in left_out}), [note]


def _names(dump: Dump, name: str) -> Iterator[str]:
    """Yield the names under which a call, or a call around it, is said to be unmeasured: module, and its phase."""
    for call in chain([name], parents_of(dump.construct, name)):
        try:
            stem, phase, _ = split_entry(call)
        except NameSyntaxError:
            continue
        yield stem
        yield f"{stem}.{phase}"
