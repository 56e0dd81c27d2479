"""Garbled text: what nobody can read, or no model meant.

Each rule marks characters of the text, and says for which reason; a part of the answer is garbled when one of them, or
all together, marks enough of it. The rules: characters that cannot be read; UTF-8 or GBK read as another encoding;
scripts mixed inside words or in turn; words that are no words; prose without any of the words that every text has;
tokens that are far more surprising than their distributions are uncertain (see ``likelihood.py``).
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from dataclasses import dataclass

import numpy as np

from msprobe.response_anomaly.answer import Answer, Finding
from msprobe.response_anomaly.characters import (
    NO_SPACES,
    LetterRun,
    han_rarity,
    is_set_off,
    is_unreadable,
    letter_runs,
    mentions,
    script_of,
)
from msprobe.response_anomaly.likelihood import Likelihood, windows
from msprobe.response_anomaly.settings import GarbledSettings
from msprobe.response_anomaly.usual_words import HAN_WORDS, WORDS

_LEAST_TOKENS = 16
_SURPLUS = 3.0
"""Nats of mean surprise beyond the entropy; for drawn tokens it is 0 within 2 / sqrt(tokens)."""
_UTF8_AS_LATIN = re.compile(r"(?:[Â-ß][\x80-¿]|[à-ï][\x80-¿]{2}|[ð-ô][\x80-¿]{3})+")
_HIGH = re.compile(r"[^\x00-\x7f]{4,}")
_BYTE_SIGNS = re.compile(r"[ĠĊ]|<0x[0-9A-F]{2}>|(?:[ÃÂâäåæçèéï][¡-¬®-ÿĀ-Ń]{1,2}){2,}")
_WORD = re.compile(r"[^\W_]+", re.UNICODE)
_HEX = re.compile(r"0x[0-9a-fA-F]+|[0-9a-fA-F]{6,}|[0-9a-fA-F]{4}")
_SEPARATORS = re.compile(r"[,;|、，；/:：\n\t]")


@dataclass(frozen=True, slots=True)
class Mark:
    """A part of the text that a rule finds odd: characters ``[start, end)`` and why."""

    start: int
    end: int
    reason: str


def find_garbled(
    answer: Answer, likely: Likelihood | None, settings: GarbledSettings, size: int, stride: int
) -> Finding | None:
    """Return the garbled part of an answer, or None."""
    if likely is not None and (found := _unexpected(answer, likely, settings, size, stride)):
        return found
    if answer.pieces is None or not answer.text:
        return None
    text = answer.text
    marks = [*unreadable(text), *wrong_encoding(text), *mixed_scripts(text), *no_words(text)]
    marks += [*no_usual_words(text), *random_signs(text)]
    if not marks:
        return None
    odd = np.zeros(len(text), bool)
    for mark in marks:
        odd[mark.start : mark.end] = True
    spaces = np.array([character.isspace() for character in text])
    begin = min(mark.start for mark in marks)
    stop = max(mark.end for mark in marks)
    wide = 4 * size
    tried = [(*part, settings.window_ratio) for part in windows(len(text), wide, wide // 2)]
    tried += [(*part, 2 * settings.window_ratio) for part in windows(len(text), 96, 48)]  # a short garbled passage
    for start, end, ratio in tried:
        seen = ~spaces[start:end]
        count = int((odd[start:end] & seen).sum())
        if count >= 8 and count >= ratio * seen.sum():
            main = max(marks, key=lambda mark: mark.end - mark.start)
            return Finding(2, *answer.tokens_of(begin, stop), main.reason)
    return None


def _unexpected(
    answer: Answer, likely: Likelihood, settings: GarbledSettings, size: int, stride: int
) -> Finding | None:
    """Return the windows whose tokens were not drawn from their distributions, or whose distributions say nothing."""
    count = len(likely.chosen)
    if count < _LEAST_TOKENS:
        return None
    surplus = -likely.chosen - likely.entropy
    found: list[tuple[int, int]] = []
    reason = ""
    for start, end in windows(count, size, stride):
        part = slice(start, end)
        flat = float((likely.top[part] <= settings.top1_logp_thresh).mean())
        mean = float(surplus[part].mean())
        odd = float((surplus[part] > 2 * _SURPLUS).mean())
        if mean > _SURPLUS and odd >= settings.window_ratio:
            text = f"the tokens are {mean:.1f} nats more surprising than drawn ones ({odd:.0%} of them are unexpected)"
        elif flat >= settings.window_ratio:
            text = f"for {flat:.0%} of the tokens even the most probable one has a log-probability below "
            text += f"{settings.top1_logp_thresh:g}"
        else:
            continue
        reason = reason or text
        found.append((start, end))
    if not found or (
        len(found) < settings.window_thresh and len(windows(count, size, stride)) > 4 and count > 4 * size
    ):
        return None
    return Finding(2, found[0][0], found[-1][1], reason)


def unreadable(text: str) -> list[Mark]:
    """Mark characters that cannot be read; a character that is cut at the end of the answer is none."""
    places = [place for place, character in enumerate(text) if is_unreadable(character)]
    for cut in range(1, 4):  # a character has four bytes at most
        if places and places[-1] == len(text) - cut and unicodedata.category(text[-cut]) != "Co":
            places.pop()
    reason = f"{len(places)} characters that cannot be read (U+FFFD, broken bytes, private or control characters)"
    return [Mark(place, place + 1, reason) for place in places]


def wrong_encoding(text: str) -> list[Mark]:
    """Mark text that was decoded with another encoding than it was written in."""
    marks = []
    latin = _as_latin(text)
    for match in _UTF8_AS_LATIN.finditer(latin):
        marks.append(Mark(*match.span(), "UTF-8 that was read as Latin-1"))
    for match in _BYTE_SIGNS.finditer(text):
        marks.append(Mark(*_word_around(text, *match.span()), "bytes of tokens that were never decoded"))
    for run in letter_runs(text):
        word = text[run.start : run.end]
        codec = {"HAN": "gbk", "CYRILLIC": "cp1251"}.get(run.script)
        if codec and len(word) >= 3 and _is_utf8_read_as(word, codec):
            marks.append(Mark(run.start, run.end, f"UTF-8 that was read as {codec.upper()}"))
    for place in (match.start() for match in re.finditer("锟斤拷|烫烫烫|屯屯屯", text)):
        marks.append(Mark(place, place + 3, "the trace of broken bytes (锟斤拷)"))
    for match in _HIGH.finditer(text):
        word = match.group()
        if all("\xa0" <= c <= "\xff" for c in word) and sum(c.isalpha() for c in word) >= 3:
            marks.append(Mark(*match.span(), "GBK that was read as Latin-1"))
    return marks


def _as_latin(text: str) -> str:
    """Return the text with the signs of Windows-1252 as the bytes that they are."""
    pairs: dict[str, str | int | None] = {
        bytes([byte]).decode("cp1252"): chr(byte) for byte in range(0x80, 0xA0) if byte not in _UNUSED_1252
    }
    return text.translate(str.maketrans(pairs))


_UNUSED_1252 = frozenset({0x81, 0x8D, 0x8F, 0x90, 0x9D})


def _is_utf8_read_as(word: str, codec: str) -> bool:
    """Return whether the bytes of a word in an encoding are UTF-8, but for the ends, which may have been cut."""
    try:
        data = word.encode(codec)
    except UnicodeEncodeError:
        return False
    if len(set(word)) < 4 and codec == "gbk":  # the bytes of few characters may be UTF-8 by chance, as those of 好的
        return False
    lost = data.decode("utf-8", "ignore")
    return len(lost) >= 2 and len(lost.encode()) >= len(data) - 2 and any(script_of(c) for c in lost)


def _word_around(text: str, start: int, end: int) -> tuple[int, int]:
    while start > 0 and not text[start - 1].isspace() and end - start < 24:
        start -= 1
    while end < len(text) and not text[end].isspace() and text[end] not in "ĠĊ" and end - start < 48:
        end += 1
    return start, end


def mixed_scripts(text: str) -> list[Mark]:
    """Mark scripts that are mixed inside words, or words of many scripts in turn that the text does not speak of."""
    runs = letter_runs(text)
    marks = [
        Mark(first.start, second.end, "scripts that are mixed inside words")
        for first, second in itertools.pairwise(runs)
        if first.end == second.start and _never_together(text, first, second)
    ]
    families: dict[str, list[LetterRun]] = {}
    for run in runs:
        if run.script not in ("LATIN", "HAN", "KANA") and is_set_off(text, run.start, run.end):
            continue
        families.setdefault("CJK" if run.script in ("HAN", "KANA") else run.script, []).append(run)
    strange = [name for name in families if name not in ("LATIN", "CJK") and not mentions(text, name)]
    turns = sum(a.script != b.script for a, b in itertools.pairwise(runs))
    if len(families) >= 4 and len(strange) >= 2 and turns >= 8:
        reason = f"words of {len(families)} scripts in turn ({', '.join(sorted(families)).lower()})"
        marks += [Mark(run.start, run.end, reason) for name in families for run in families[name]]
    return marks


def _never_together(text: str, first: LetterRun, second: LetterRun) -> bool:
    """Return whether no language writes letters of both scripts without a space between them."""
    scripts = {first.script, second.script}
    if "GREEK" in scripts and min(first.end - first.start, second.end - second.start) == 1:
        return False  # Δx, µm
    asian = scripts & NO_SPACES
    if asian and scripts <= {"LATIN", "HAN", "KANA", "HANGUL"}:
        return False
    return not (asian and "LATIN" in scripts and (first.script == "THAI" or second.script == "THAI"))


def no_words(text: str) -> list[Mark]:
    """Mark stretches of Latin letters and digits that have not the shape of words."""
    found: list[tuple[int, int, bool]] = []
    for match in _WORD.finditer(text):
        word = match.group()
        if 3 <= len(word) <= 20 and word.isascii() and not word.isdigit() and not _HEX.fullmatch(word):
            found.append((*match.span(), _has_no_shape(word)))
    marks = []
    odd = np.array([each[2] for each in found], bool)
    for start, end in windows(len(found), 40, 20):
        different = {text[first:last] for first, last, strange in found[start:end] if strange}
        if len(different) >= 6 and odd[start:end].mean() >= 0.4:
            marks.append(
                Mark(found[start][0], found[end - 1][1], "words that are no words (letters and digits at random)")
            )
    return marks


def _has_no_shape(word: str) -> bool:
    """Return whether letters, digits and capitals change in a way that neither words nor identifiers do."""
    pieces = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+", word)
    if len(pieces) >= 3 and len(word) / len(pieces) < 2.5:
        return True
    letters = [c for c in word if c.isalpha()]
    vowels = sum(c in "aeiouyAEIOUY" for c in letters)
    mixed = not (word.isupper() or word[1:].islower())
    return len(letters) >= 4 and vowels == 0 and (mixed or (len(letters) >= 6 and word.islower()))


def random_signs(text: str) -> list[Mark]:
    """Mark stretches in which letters, capitals, digits and signs take turns as if drawn at random.

    Of signs drawn from the keyboard seven in ten are of another class than the one before; code has half of that, and
    keys and hashes have no signs.
    """
    shown = [(place, character) for place, character in enumerate(text) if "\x21" <= character <= "\x7e"]
    classes = np.array([_class_of(character) for _, character in shown], np.int8)
    marks = []
    for start, end in windows(len(shown), 200, 100):
        part = classes[start:end]
        if end - start < 60:
            continue
        share = np.bincount(part, minlength=4) / len(part)
        turns = float(np.mean(part[1:] != part[:-1]))
        signs = len({character for _, character in shown[start:end] if not character.isalnum()})
        if turns > 0.6 and share[1] > 0.12 and share[2] > 0.03 and share[3] > 0.2 and signs > 16:
            marks.append(Mark(shown[start][0], shown[end - 1][0] + 1, "letters, digits and signs at random"))
    return marks


def _class_of(character: str) -> int:
    return 0 if character.islower() else 1 if character.isupper() else 2 if character.isdigit() else 3


def no_usual_words(text: str) -> list[Mark]:
    """Mark prose that has none of the words that about a third of every text is made of."""
    marks = []
    han = [place for place, character in enumerate(text) if script_of(character) == "HAN"]
    rare = np.array([han_rarity(text[place]) > 0 for place in han], bool)
    for start, end in windows(len(han), 40, 20):
        if end - start >= 20 and rare[start:end].mean() >= 0.2:
            marks.append(Mark(han[start], han[end - 1] + 1, "Chinese characters that hardly any text has"))
    for start, end in windows(len(han), 120, 60):
        part = text[han[start] : han[end - 1] + 1] if end else ""
        usual = sum(text[place] in HAN_WORDS for place in han[start:end])
        count = end - start
        varied = len({text[place] for place in han[start:end]}) > 0.4 * count
        if count >= 48 and varied and usual < 0.05 * count and _is_prose(part, count):
            marks.append(Mark(han[start], han[end - 1] + 1, "Chinese characters without any of the usual words"))
    words = [
        match for match in _WORD.finditer(text) if match.group().isalpha() and script_of(match.group()[0]) == "LATIN"
    ]
    for start, end in windows(len(words), 120, 60):
        part = text[words[start].start() : words[end - 1].end()] if end else ""
        lowered = [match.group().lower() for match in words[start:end]]
        if len(lowered) < 60 or len(set(lowered)) < 0.9 * len(lowered) or not _is_prose(part, len(lowered)):
            continue
        if sum(word in WORDS for word in lowered) < 0.03 * len(lowered):
            marks.append(Mark(words[start].start(), words[end - 1].end(), "words without any of the usual words"))
    return marks


def _is_prose(part: str, words: int) -> bool:
    """Return whether a part is no list and no code."""
    separators = len(_SEPARATORS.findall(part))
    signs = sum(character in "{}[]()<>=\\$@#*_" for character in part)
    return separators < 0.2 * words and signs < 0.1 * words
