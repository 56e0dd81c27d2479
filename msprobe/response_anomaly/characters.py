"""What a character is: its script, whether it is rare, whether a text says that it is about that script.

Scripts come from the names of ``unicodedata``; how common a Chinese character is comes from the national character sets
(GB 2312, the first level of Big5, JIS X 0208), which Python knows as codecs.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

_NO_SCRIPT = frozenset([
    "MODIFIER",
    "MATHEMATICAL",
    "DOUBLE-STRUCK",
    "SCRIPT",
    "BLACK-LETTER",
    "SUPERSCRIPT",
    "SUBSCRIPT",
    "MICRO",
    "OHM",
    "KELVIN",
    "ANGSTROM",
    "FEMININE",
    "MASCULINE",
    "ALEF",
    "BET",
    "GIMEL",
    "DALET",
    "PLANCK",
    "EULER",
    "INFORMATION",
    "TURNED",
    "ROTATED",
    "IDEOGRAPHIC",
    "VERTICAL",
    "COMBINING",
    "OUNCE",
])
"""First words of names of letters that belong to no script: signs, units, letters of formulas."""
_WIDTHS = ("FULLWIDTH", "HALFWIDTH", "SMALL")
_SAME = {"CJK": "HAN", "HIRAGANA": "KANA", "KATAKANA": "KANA", "KATAKANA-HIRAGANA": "KANA", "BOPOMOFO": "HAN"}
NO_SPACES = frozenset({"HAN", "KANA", "HANGUL", "THAI", "LAO", "KHMER", "MYANMAR"})
"""Scripts that stand beside others without a space."""
_COMMON_FOREIGN = frozenset("のノー・〆〇")
"""Characters of Japanese that Chinese texts use too."""
_QUOTES = frozenset("\"'`“”‘’«»‹›「」『』《》〈〉()[]{}（）【】〔〕*_/|:：=＝<>-–—→、,，;；.。")
_NAMED = {
    "CYRILLIC": "cyrillic russia ukrain bulgar serbia belarus kazakh mongol soviet moscow 俄 西里尔 乌克兰 蒙古",
    "GREEK": "greek greece 希腊",
    "ARABIC": "arab persia farsi urdu iran islam quran muslim 阿拉伯 波斯 乌尔都 维吾尔 伊斯兰 古兰",
    "HEBREW": "hebrew jew israel yiddish bible 希伯来 以色列 犹太",
    "DEVANAGARI": "hindi sanskrit devanagari nepal marathi india yoga 印地 梵 印度 尼泊尔",
    "BENGALI": "bengal bangla india 孟加拉",
    "TAMIL": "tamil india sri lanka 泰米尔",
    "TELUGU": "telugu india 泰卢固",
    "THAI": "thai bangkok 泰国 泰语 泰文 曼谷",
    "HANGUL": "korea hangul seoul kimchi k-pop 韩 朝鲜 首尔",
    "KANA": "japan kana tokyo manga anime haiku 日本 日语 日文 假名 东京",
    "HAN": "chin mandarin kanji hanzi japan tokyo korea taiwan hong kong beijing cantonese pinyin han tai tao zen",
    "GEORGIAN": "georgia 格鲁吉亚",
    "ARMENIAN": "armenia 亚美尼亚",
    "ETHIOPIC": "ethiopia amharic 阿姆哈拉 埃塞俄比亚",
    "TIBETAN": "tibet 藏",
    "MYANMAR": "burm myanmar 缅",
    "KHMER": "khmer cambodia 高棉 柬埔寨",
}
"""Script -> what a text that is about it mentions, also as the beginning of a word."""
_CONTROLS = "\t\n\r\f\v\x1b"


@lru_cache(maxsize=1 << 16)
def script_of(character: str) -> str:
    """Return the script of a letter (``LATIN``, ``HAN``, ...), and "" for everything that has none."""
    if character < "\x80":
        return "LATIN" if character.isalpha() else ""
    if unicodedata.category(character)[0] != "L":
        return ""
    words = unicodedata.name(character, "").split()
    if words and words[0] in _WIDTHS:
        words = words[1:]
    if not words or words[0] in _NO_SCRIPT:
        return ""
    return _SAME.get(words[0], words[0])


@lru_cache(maxsize=1 << 16)
def is_unreadable(character: str) -> bool:
    """Return whether nobody can read a character: U+FFFD, a broken byte, a private, unassigned or control character."""
    if character == "\ufffd":
        return True
    category = unicodedata.category(character)
    return category in ("Co", "Cn", "Cs") or (category == "Cc" and character not in _CONTROLS)


@lru_cache(maxsize=1 << 16)
def han_rarity(character: str) -> int:
    """Return 0 for a Chinese character of everyday sets, 1 for one of the larger sets, 2 for one that is in none."""
    if _level(character, "gb2312", 0xF7) or _level(character, "big5", 0xC6) or _level(character, "shift_jis", 0xEA):
        return 0
    return 1 if any(_level(character, codec, 0xFE) for codec in ("gbk", "big5", "euc_jp", "euc_kr")) else 2


def _level(character: str, codec: str, highest: int) -> bool:
    """Return whether a character set has a character, at a first byte up to ``highest``."""
    try:
        return character.encode(codec)[0] <= highest
    except UnicodeEncodeError:
        return False


@dataclass(frozen=True, slots=True)
class LetterRun:
    """Letters of one script that stand together.

    Attributes:
        script: of all of them.
        start, end: characters of the text.
    """

    script: str
    start: int
    end: int


def letter_runs(text: str) -> list[LetterRun]:
    """Return the runs of letters of one script; marks belong to the letter before them."""
    runs: list[LetterRun] = []
    script, start = "", 0
    for place, character in enumerate(text):
        here = script_of(character)
        if not here and script and unicodedata.category(character)[0] == "M":
            here = script
        if here == script:
            continue
        if script:
            runs.append(LetterRun(script, start, place))
        script, start = here, place
    if script:
        runs.append(LetterRun(script, start, len(text)))
    return runs


def is_set_off(text: str, start: int, end: int) -> bool:
    """Return whether quotes, brackets or marks beside a part of a text say that it is shown on purpose."""
    before, behind = text[:start].rstrip(" ")[-1:], text[end:].lstrip(" ")[:1]
    opened = before != "" and before in _QUOTES and before not in ".。,，;；、-–—"
    closed = behind != "" and behind in _QUOTES and behind not in ".。,，;；、-–—"
    listed = before in ("、", "\n", "") and behind in ("、", "\n", "")
    return opened or closed or (listed and "\n" in (before + behind))


def is_usual_beside(script: str, text: str) -> bool:
    """Return whether every character of a part of a text is used among other scripts too (formulas, borrowed signs)."""
    return (script == "GREEK" and len(text) == 1) or all(character in _COMMON_FOREIGN for character in text)


def mentions(text: str, script: str) -> bool:
    """Return whether a text is about a script: it names the script, a language or a country of it."""
    if re.search(r"\b(unicode|alphabet|translat)|翻译|字母|外语", text, re.IGNORECASE):
        return True
    lowered = text.casefold()
    names = _NAMED.get(script, script.casefold()).split()
    return any(
        name in lowered if not name.isascii() else re.search(rf"\b{re.escape(name)}", lowered) is not None
        for name in names
    )
