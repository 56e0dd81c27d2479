"""Repetition: an answer that goes round in a loop.

Two rules look at the units of a text (words without case, numbers, Chinese characters, single signs; no spaces):

* a stretch that is the same as what stands one period before it. How long it must be depends on what repeats: prose
  never says a sentence four times running, while code, tables and rules of dashes are made of repeated signs;
* a window of prose with hardly any new sequence of three units, or whose periods are one sentence with small changes:
  a loop with variations.

Without texts the first rule looks at token numbers, and is as careful as with signs where a period has few of them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.response_anomaly.answer import Answer, Finding
from msprobe.response_anomaly.characters import NO_SPACES, script_of
from msprobe.response_anomaly.likelihood import windows
from msprobe.response_anomaly.settings import RepetitionSettings

_UNIT = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*|\d{1,12}|\n|\S", re.UNICODE)
_ONE_DIGIT = re.compile(r"(\d)\1{119,}")  # a googol has 100 noughts
_WORD, _NUMBER, _SIGN = 0, 1, 2
_LONGEST_PERIOD = 600
_LEAST_PROSE = 24  # units of prose beyond the first period that no text repeats on purpose
_RULE_SIGNS = frozenset("-=_*#~.+|·—─━═…^ ")
_CODE_SIGNS = frozenset("{}[]()<>;=|&\\/$@#+*%_`~^")
_LONGEST_WORD = 60
_CYCLES = 6  # how often a sentence with changes has to come

Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Units:
    """The units of a text.

    Attributes:
        ids: a number for each different unit.
        kinds: word, number or sign.
        code: whether it is a sign of program code and tables.
        places: its first character.
        texts: as written.
    """

    ids: Ids
    kinds: Ids
    code: NDArray[np.bool_]
    places: Ids
    texts: list[str]


@dataclass(frozen=True, slots=True)
class Loop:
    """A stretch that repeats with a period: ``[start, end)`` in units, the first period included."""

    start: int
    end: int
    period: int

    @property
    def cycles(self) -> float:
        """How often it is there, the first time included."""
        return (self.end - self.start) / self.period


def find_repetition(answer: Answer, settings: RepetitionSettings, size: int, stride: int) -> Finding | None:
    """Return the longest loop of an answer, or None."""
    if answer.pieces is None:
        return _of_tokens(answer)
    units = units_of(answer.text)
    loops = [loop for loop in exact_loops(units.ids) if _is_loop(units, loop) and not _is_rule(answer, units, loop)]
    if loops:
        longest = max(loops, key=lambda loop: loop.end - loop.start)
        return _finding(answer, units, longest.start, longest.end, _told(units, longest))
    if found := _inside_words(answer, units):
        return found
    return _varied(answer, units, settings, size, stride)


def units_of(text: str) -> Units:
    """Return the units of a text; scripts without spaces give one for each character."""
    texts, places = [], []
    for match in _UNIT.finditer(text):
        word = match.group()
        if len(word) > 1 and any(script_of(character) in NO_SPACES for character in word):
            texts += list(word)
            places += list(range(match.start(), match.end()))
        else:
            texts.append(word)
            places.append(match.start())
    numbers: dict[str, int] = {}
    ids = [numbers.setdefault(word.casefold(), len(numbers)) for word in texts]
    kinds = [_WORD if word[0].isalpha() else _NUMBER if word[0].isdigit() else _SIGN for word in texts]
    code = [word in _CODE_SIGNS for word in texts]
    return Units(
        np.array(ids, np.int64), np.array(kinds, np.int64), np.array(code, bool), np.array(places, np.int64), texts
    )


def exact_loops(ids: Ids) -> list[Loop]:
    """Return every stretch that is the same as what stands one period before it, for at least one further period.

    Where a period is a multiple of another one, the shorter one is meant.
    """
    loops: list[Loop] = []
    covered = np.zeros(len(ids), bool)
    for period in range(1, min(len(ids) // 2, _LONGEST_PERIOD) + 1):
        same = np.concatenate(([False], ids[period:] == ids[:-period], [False]))
        edges = np.flatnonzero(np.diff(same.astype(np.int8)))
        for begin, end in zip(edges[::2], edges[1::2], strict=True):
            if end - begin < max(period, 8) or covered[begin : end + period].all():
                continue
            covered[begin : end + period] = True
            loops.append(Loop(int(begin), int(end) + period, period))
    return loops


def _is_loop(units: Units, loop: Loop) -> bool:
    """Return whether a stretch is too long to be meant, for what it is made of."""
    one = slice(loop.start, loop.start + loop.period)
    kinds = units.kinds[one]
    beyond = loop.end - loop.start - loop.period
    words = int((kinds == _WORD).sum())
    if loop.period == 1 and words == 0:
        return beyond >= _least_of_one(units.texts[loop.start])
    if words < max(1, 0.5 * loop.period) or units.code[one].sum() > 0.15 * loop.period:
        return beyond >= 300 and loop.cycles >= 6
    han = sum(script_of(word[0]) in NO_SPACES for word in units.texts[one]) > loop.period / 2
    least = _LEAST_PROSE * (1.5 if han else 1.0)
    cycles = 3 if loop.period > 50 else 4
    return beyond >= max(least, loop.period * (cycles - 1)) or (beyond >= 2 * least and loop.cycles >= cycles)


def _is_rule(answer: Answer, units: Units, loop: Loop) -> bool:
    """Return whether a stretch is a line that is drawn with signs; tables have very long ones, of few tokens."""
    if loop.period > 1 or units.texts[loop.start] not in _RULE_SIGNS:
        return False
    start, end = answer.tokens_of(int(units.places[loop.start]), int(units.places[loop.end - 1]) + 1)
    return end - start < (2000 if answer.unit == "character" else 200)


def _least_of_one(sign: str) -> int:
    """Return how often one sign or number must be repeated."""
    if sign == "\n":
        return 50
    return 100 if sign in _RULE_SIGNS or sign.isdigit() else 80


def _inside_words(answer: Answer, units: Units) -> Finding | None:
    """Return a word that is a loop of letters (``thethethethe``) and longer than any word is."""
    if digits := _ONE_DIGIT.search(answer.text):
        shown, count = digits.group(1), digits.end() - digits.start()
        return Finding(3, *answer.tokens_of(*digits.span()), f"the digit {shown} stands {count} times running")
    for word, place in zip(units.texts, units.places, strict=True):
        if len(word) < 2 * _LONGEST_WORD:
            continue
        letters = np.frombuffer(word.casefold().encode("utf-32-le"), np.uint32).astype(np.int64)
        for loop in exact_loops(letters):
            if loop.end - loop.start - loop.period >= _LONGEST_WORD and loop.cycles >= 6 and loop.period <= 40:
                shown = word[loop.start : loop.start + loop.period]
                start, end = answer.tokens_of(int(place) + loop.start, int(place) + loop.end)
                return Finding(3, start, end, f"{_quoted(shown)} stands {loop.cycles:.0f} times inside one word")
    return None


def _varied(answer: Answer, units: Units, settings: RepetitionSettings, size: int, stride: int) -> Finding | None:
    """Return a loop with variations: prose in which hardly anything is new."""
    told = units.kinds != _SIGN
    ids, places = units.ids[told], np.flatnonzero(told)
    for start, end in windows(len(ids), size, stride):
        if end - start < size // 2:
            continue
        begin, stop = int(places[start]), int(places[end - 1]) + 1
        if _is_structured(units, begin, stop):
            continue
        share = distinct_share(ids[start:end], settings.n)
        if share <= settings.distinct_n_thresh + (0.06 if end - start >= size else 0.0):
            reason = f"only {share:.0%} of the sequences of {settings.n} words are new"
            return _loop_with_changes(answer, units, begin, stop, reason)
    if same := _same_sentence(ids):
        begin, stop = int(places[same.start]), int(places[same.end - 1]) + 1
        if not _is_structured(units, begin, stop):
            reason = f"one sentence of {same.period} words comes {same.cycles:.0f} times"
            return _loop_with_changes(answer, units, begin, stop, reason)
    return None


def _loop_with_changes(answer: Answer, units: Units, start: int, end: int, reason: str) -> Finding:
    begins = _quoted(_shown(units.texts[start : start + 14]))
    return _finding(answer, units, start, end, f"a loop with variations: {reason}; it begins {begins}")


def distinct_share(ids: Ids, n: int) -> float:
    """Return how many of the sequences of ``n`` units are different ones, as a share (distinct-n, Li et al. 2016)."""
    if len(ids) < n:
        return 1.0
    rows = np.lib.stride_tricks.sliding_window_view(ids, n)
    return len(np.unique(rows, axis=0)) / len(rows)


def _same_sentence(ids: Ids) -> Loop | None:
    """Return a stretch that is one sentence again and again, of which a ninth is changed at most.

    What is usual at a place of the sentence is what most of its repetitions have there.
    """
    for period in range(8, min(len(ids) // _CYCLES, _LONGEST_PERIOD) + 1):
        span = _CYCLES * period
        if span < 72:
            continue
        sums = np.concatenate(([0], np.cumsum(ids[period:] == ids[:-period])))
        counts = sums[span - period :] - sums[: len(sums) - span + period]
        for start in np.flatnonzero(counts >= 0.75 * (span - period))[: 8 * period : max(period // 4, 1)]:
            rows = ids[start : start + span].reshape(_CYCLES, period)
            usual = np.sort(rows, axis=0)[_CYCLES // 2]
            most = np.maximum((rows == usual).sum(axis=0), 1)
            if most.sum() >= 0.89 * span:
                bad = np.flatnonzero(counts[start:] < 0.7 * (span - period))
                end = start + span + (int(bad[0]) if bad.size else len(counts) - int(start)) - 1
                return Loop(int(start), min(int(end), len(ids)), period)
    return None


def _is_structured(units: Units, start: int, end: int) -> bool:
    """Return whether a part is code, a table or numbers rather than prose."""
    part = slice(start, end)
    words = int((units.kinds[part] == _WORD).sum())
    return words < 0.6 * (end - start) or int(units.code[part].sum()) > 0.08 * (end - start)


def _of_tokens(answer: Answer) -> Finding | None:
    """Return the longest loop of token numbers."""
    numbers: dict[Any, int] = {}
    ids = np.array([numbers.setdefault(token, len(numbers)) for token in answer.ids], np.int64)
    loops = [loop for loop in exact_loops(ids) if _is_token_loop(ids, loop)]
    if not loops:
        return None
    loop = max(loops, key=lambda each: each.end - each.start)
    return Finding(3, loop.start, loop.end, f"the same {loop.period} tokens come {loop.cycles:.0f} times running")


def _is_token_loop(ids: Ids, loop: Loop) -> bool:
    beyond = loop.end - loop.start - loop.period
    different = len(np.unique(ids[loop.start : loop.start + loop.period]))
    if different >= max(6, 0.6 * min(loop.period, 60)):  # a sentence; tables and code repeat few signs
        return beyond >= (180 if loop.period < 16 else max(60, 3 * loop.period))
    return beyond >= (100 if loop.period == 1 else 120 if loop.period < 4 else 250)


def _told(units: Units, loop: Loop) -> str:
    shown = _shown(units.texts[loop.start : loop.start + loop.period])
    return f"{_quoted(shown)} comes {loop.cycles:.0f} times running"


def _shown(words: Sequence[str]) -> str:
    """Return units as a text, with spaces between words of scripts that have them."""
    text = ""
    for word in words:
        spaced = text and word[0].isalnum() and script_of(word[0]) not in NO_SPACES and text[-1] not in "\n([{'\"“"
        text += f" {word}" if spaced else word
    return text


def _quoted(text: str) -> str:
    """Return a text for a message: what cannot be printed is written as an escape, and a long one is cut."""
    short = text if len(text) <= _LONGEST_WORD else f"{text[: _LONGEST_WORD - 1]}…"
    return '"' + "".join(c if unicodedata.category(c)[0] != "C" else ascii(c)[1:-1] for c in short) + '"'


def _finding(answer: Answer, units: Units, start: int, end: int, reason: str) -> Finding:
    last = int(units.places[end - 1]) + len(units.texts[end - 1])
    return Finding(3, *answer.tokens_of(int(units.places[start]), last), reason)
