"""A rare character: one that does not belong into the text it stands in, which is readable otherwise.

Where the log-probabilities say that nobody expected a token, it is enough that its script is another one. Without them,
or against them, the text itself has to say that a character is out of place: it stands inside a word of another script,
or alone, in a text that does not speak of its script and does not set it off by quotes or brackets.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from msprobe.response_anomaly.answer import Answer, Finding
from msprobe.response_anomaly.characters import (
    NO_SPACES,
    LetterRun,
    han_rarity,
    is_set_off,
    is_unreadable,
    is_usual_beside,
    letter_runs,
    mentions,
    script_of,
)
from msprobe.response_anomaly.likelihood import Likelihood
from msprobe.response_anomaly.settings import RareSettings

_FEW = 0.1  # of all letters: what more of are is a language of the text
_ALONE = 6  # letters of a script that a text has by mistake, and not because it quotes a word
_LEAST_LETTERS = 12
_NEVER_DRAWN = 16.1  # log(100,000 tokens x 100): a less probable token is drawn in one of 100 answers, at most
_SURELY_NOT = 7.0  # nats of surprise beyond the entropy: once in a thousand tokens


def find_rare(answer: Answer, likely: Likelihood | None, settings: RareSettings) -> Finding | None:
    """Return the first character that is out of place, or None."""
    if answer.pieces is None:
        return _of_tokens(answer, likely, settings)
    text = answer.text
    return _broken(answer, text) or _of_another_script(answer, likely, settings) or _rare_han(answer, likely, settings)


def _broken(answer: Answer, text: str) -> Finding | None:
    """Return a character that cannot be read; at the end of an answer it is one that was cut."""
    whole = text.rstrip("\ufffd").rstrip("".join(map(chr, range(0xDC80, 0xDD00))))
    for place, character in enumerate(whole):
        if is_unreadable(character) and not is_set_off(text, place, place + 1):
            number = ord(character)
            name = (
                f"the byte 0x{number & 0xFF:02X}, which is no UTF-8" if 0xDC80 <= number < 0xDD00 else _name(character)
            )
            return Finding(1, *answer.tokens_of(place, place + 1), f"{name} cannot be read")
    return None


def _of_another_script(answer: Answer, likely: Likelihood | None, settings: RareSettings) -> Finding | None:
    text = answer.text
    runs = letter_runs(text)
    letters = Counter[str]()
    for run in runs:
        letters[run.script] += run.end - run.start
    total = sum(letters.values())
    if total < _LEAST_LETTERS:
        return None
    if letters["KANA"] > _FEW * (letters["KANA"] + letters["HAN"]) or mentions(text, "KANA"):
        letters["HAN"] = letters["KANA"] = total  # a text in or about Japanese
    for run in runs:
        word = text[run.start : run.end]
        if run.script == "LATIN" or letters[run.script] > _FEW * total or is_usual_beside(run.script, word):
            continue
        if _is_unexpected(answer, likely, settings, run) and not is_set_off(text, run.start, run.end):
            why = "nobody expected it there"
        elif _is_out_of_place(text, run, letters[run.script]):
            why = "the text has no other letter of it" if letters[run.script] == len(word) else "it is inside a word"
        else:
            continue
        start, end = answer.tokens_of(run.start, run.end)
        return Finding(1, start, end, f'"{word}" ({_name(word[0])}) is of another script than the text, and {why}')
    return None


def _is_unexpected(answer: Answer, likely: Likelihood | None, settings: RareSettings, run: LetterRun) -> bool:
    """Return whether a token of a run was very improbable, or drawn from a distribution that says little."""
    if likely is None:
        return False
    part = slice(*answer.tokens_of(run.start, run.end))
    surprise = -likely.chosen[part]
    if mentions(answer.text, run.script):  # drawn, though seldom
        return bool((surprise > likely.entropy[part] + _SURELY_NOT).any())
    unlikely = (surprise >= -settings.top1_logp_thresh) & (surprise > likely.entropy[part] + 2)
    said_little = (likely.mass[part] < settings.explogp_sum_thresh) & (surprise > 2)
    return bool((unlikely | said_little | likely.outside[part]).any())


def _is_out_of_place(text: str, run: LetterRun, letters: int) -> bool:
    """Return whether the text alone says that a run is there by mistake."""
    before, behind = text[run.start - 1 : run.start], text[run.end : run.end + 1]
    beside = {script_of(each) for each in (before, behind) if each} - {""}
    inside = bool(beside) and not (run.script in ("HAN", "KANA", "HANGUL") and beside <= {"HAN", "KANA", "HANGUL"})
    if is_set_off(text, run.start, run.end) or mentions(text, run.script):
        return False
    if inside and beside == {"LATIN"} and run.script in ("HAN", "KANA", "HANGUL"):
        return bool(before and behind) and before.isalpha() and behind.isalpha()
    if inside:
        return letters <= 2 * _ALONE
    if run.script in ("HAN", "KANA", "HANGUL"):
        surrounded = script_of(before) in NO_SPACES and script_of(behind) in NO_SPACES
        return letters == 1 or (surrounded and letters <= 2)
    return letters <= _ALONE


def _rare_han(answer: Answer, likely: Likelihood | None, settings: RareSettings) -> Finding | None:
    """Return a Chinese character that hardly anybody knows: unexpected, or in none of the national character sets."""
    text = answer.text
    for place, character in enumerate(text):
        if character < "\u3400" or script_of(character) != "HAN" or not (rarity := han_rarity(character)):
            continue
        if is_set_off(text, place, place + 1) or text.count(character) > 2:
            continue
        run = LetterRun("HAN", place, place + 1)
        if _is_unexpected(answer, likely, settings, run):
            why = "nobody expected it there"
        elif rarity == 2:
            why = "no national character set has it"
        else:
            continue
        start, end = answer.tokens_of(place, place + 1)
        return Finding(1, start, end, f'"{character}" ({_name(character)}) is a rare character, and {why}')
    return None


def _of_tokens(answer: Answer, likely: Likelihood | None, settings: RareSettings) -> Finding | None:
    """Return a token without text whose distribution says little, or that is far from probable."""
    if likely is None:
        return None
    odd = likely.top <= settings.top1_logp_thresh
    if answer.groups is not None:
        groups = answer.groups
        several = np.array([
            len({groups[token] for token in row if token in groups}) > settings.category_thresh
            for row in answer.candidates or ()
        ])
        odd |= (likely.mass < settings.explogp_sum_thresh) & several
    unlikely = -likely.chosen > _NEVER_DRAWN + np.log(len(likely.chosen))
    places = np.flatnonzero(odd | unlikely)
    if not places.size:
        return None
    place = int(places[0])
    reason = f"token {answer.ids[place]} has the log-probability {likely.chosen[place]:.1f}, the best one "
    return Finding(1, place, place + 1, f"{reason}{likely.top[place]:.1f}: nobody expected it there")


def _name(character: str) -> str:
    import unicodedata

    return f"U+{ord(character):04X} {unicodedata.name(character, 'without a name')}"
