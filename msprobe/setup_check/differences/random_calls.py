"""Differences of random calls: what each place of the program drew before the first forward pass ended.

Two places are the same when every frame of their stacks names the same function of a file of the same name, and its
line looks alike. Lines may have moved.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import NamedTuple

from msprobe.setup_check.differences.section import Section, one_sided
from msprobe.setup_check.document import RandomCall, RankCalls

COLUMNS = ("op", "rank", "bench_stack", "cmp_stack", "bench_count", "cmp_count", "check_result", "level", "reason")
_FRAME = re.compile(r"File (?P<file>.*?), line \d+, in (?P<function>.*?),\s*(?P<code>.*)", re.DOTALL)
_SIMILAR = 0.8
_NO_MATCH = "no match stack"


class _Frame(NamedTuple):
    file: str
    function: str
    code: str


def compare_random(first: Sequence[RankCalls], second: Sequence[RankCalls]) -> Section:
    """Return a row for each place that draws random numbers."""
    missing = one_sided("random", COLUMNS, first, second)
    if missing is not None:
        return missing
    sides = [{one.rank: list(one.calls) for one in side} for side in (first, second)]
    rows = []
    for rank in sorted(sides[0].keys() | sides[1].keys()):
        for pair in _pairs(sides[0].get(rank, []), sides[1].get(rank, [])):
            rows.append(dict(zip(COLUMNS, _cells(rank, *pair), strict=True)))
    return Section("random", COLUMNS, tuple(rows))


def _pairs(first: list[RandomCall], second: list[RandomCall]) -> list[tuple[RandomCall | None, RandomCall | None]]:
    """Pair the places of both sides; a place that only one side has stands alone."""
    waiting = list(second)
    pairs: list[tuple[RandomCall | None, RandomCall | None]] = []
    for call in first:
        partner = next(
            (other for other in waiting if other.function == call.function and _same_place(call, other)), None
        )
        if partner is not None:
            waiting.remove(partner)
        pairs.append((call, partner))
    return [*pairs, *((None, call) for call in waiting)]


def _same_place(first: RandomCall, second: RandomCall) -> bool:
    if len(first.stack) != len(second.stack):
        return False
    return all(_alike(_frame(one), _frame(other)) for one, other in zip(first.stack, second.stack, strict=True))


def _frame(text: str) -> _Frame:
    match = _FRAME.fullmatch(text.strip())
    if match is None:
        return _Frame("", "", text)
    return _Frame(match["file"].rpartition("/")[2], match["function"], match["code"].strip())


def _alike(first: _Frame, second: _Frame) -> bool:
    return first == second or all(
        one == other or difflib.SequenceMatcher(None, one, other).ratio() >= _SIMILAR
        for one, other in zip(first, second, strict=True)
    )


def _cells(rank: int, first: RandomCall | None, second: RandomCall | None) -> tuple[object, ...]:
    one = first or second
    assert one is not None
    stacks = [_NO_MATCH if call is None else " \n".join(call.stack) for call in (first, second)]
    counts = [0 if call is None else call.count for call in (first, second)]
    same = counts[0] == counts[1]
    reason = "" if same else "random numbers that follow are others: the generator has moved by another number of draws"
    return (one.function, rank, *stacks, *counts, same, "pass" if same else "error", reason)
