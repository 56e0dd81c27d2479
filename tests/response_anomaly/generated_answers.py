"""Answers of a language model, made from a seed: normal ones of many kinds, and ones with one planted fault.

``tokens`` cuts a text as tokenizers do, ``candidates`` gives log-probabilities as a model would that drew these tokens.
"""

# ruff: noqa: E501 - texts of answers

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable

import numpy as np

_NOUNS = [
    "model",
    "gradient",
    "teacher",
    "river",
    "engine",
    "city",
    "result",
    "window",
    "garden",
    "student",
    "market",
    "letter",
    "bridge",
    "machine",
    "story",
]
_VERBS = [
    "shows",
    "follows",
    "changes",
    "reaches",
    "explains",
    "leaves",
    "keeps",
    "needs",
    "finds",
    "moves",
    "opens",
    "helps",
]
_ADJECTIVES = [
    "small",
    "quiet",
    "large",
    "careful",
    "old",
    "bright",
    "simple",
    "careless",
    "distant",
    "early",
    "warm",
    "useful",
]
_LINKS = ["and", "but", "because", "while", "so that", "although", "when", "if"]
_ZH_NOUNS = [
    "模型",
    "梯度",
    "老师",
    "河流",
    "城市",
    "结果",
    "窗户",
    "花园",
    "学生",
    "市场",
    "数据",
    "机器",
    "故事",
    "音乐",
    "问题",
    "方法",
    "孩子",
    "天气",
    "朋友",
    "工作",
]
_ZH_VERBS = ["说明", "改变", "影响", "需要", "发现", "打开", "帮助", "记录", "经过", "喜欢", "离开", "解决"]
_ZH_ADVERBS = ["已经", "总是", "慢慢地", "有时候", "通常", "也许", "果然", "一直", "很快就"]
_ZH_LINKS = ["，因为", "，但是", "，所以", "，而且", "，虽然", "，如果"]
_NAMES = ["Alice", "Bob", "Carol", "Dmitri", "Eve", "Farid", "Grace", "Hans", "Ines", "Jun"]


def english(draw: random.Random, sentences: int = 0) -> str:
    """Return prose."""
    return " ".join(_sentence(draw) for _ in range(sentences or draw.randint(3, 25)))


def _sentence(draw: random.Random) -> str:
    def part() -> str:
        the = draw.choice(["the", "a", "every", "this", "that", "our", "one"])
        where = draw.choice(["", f" in the {draw.choice(_NOUNS)}", f" of {draw.choice(_NAMES)}", " for a long time"])
        adjective = draw.choice(["", f"{draw.choice(_ADJECTIVES)} "])
        return f"{the} {adjective}{draw.choice(_NOUNS)}{where} {draw.choice(_VERBS)} the {draw.choice(_NOUNS)}"

    text = part() + "".join(f" {draw.choice(_LINKS)} {part()}" for _ in range(draw.randint(0, 2)))
    return text[0].upper() + text[1:] + draw.choice([".", ".", ".", "!", "?"])


def chinese(draw: random.Random, sentences: int = 0) -> str:
    """Return Chinese prose."""
    return "".join(_chinese_sentence(draw) for _ in range(sentences or draw.randint(3, 25)))


def _chinese_sentence(draw: random.Random) -> str:
    def part() -> str:
        who = draw.choice(["我们的", "这个", "他们的", "一个", "那些", "很多"]) + draw.choice(_ZH_NOUNS)
        return f"{who}{draw.choice(_ZH_ADVERBS)}{draw.choice(_ZH_VERBS)}了{draw.choice(['', '新的', '自己的'])}{draw.choice(_ZH_NOUNS)}"

    return (
        part() + "".join(draw.choice(_ZH_LINKS) + part() for _ in range(draw.randint(0, 2))) + draw.choice("。。。！？")
    )


def mixed(draw: random.Random) -> str:
    """Return Chinese prose with English terms."""
    terms = [
        "PyTorch",
        "Python 3.11",
        "GPU",
        "loss",
        "batch size",
        "learning rate",
        "API",
        "Transformer",
        "μm",
        "O(n²)",
    ]
    return "".join(
        _chinese_sentence(draw)[:-1] + f"，使用 {draw.choice(terms)} 的时候要注意。" for _ in range(draw.randint(3, 15))
    )


def code(draw: random.Random) -> str:
    """Return a function with a loop, tests and a table of constants."""
    name, other = draw.choice(_NOUNS), draw.choice(_NOUNS)
    tests = "".join(f"    assert {name}({n}) == {n * draw.randint(1, 9)}\n" for n in range(draw.randint(3, 20)))
    rows = "".join(f"    [{', '.join('0' for _ in range(8))}],\n" for _ in range(draw.randint(2, 8)))
    return (
        f"Here is the function:\n\n```python\nimport os\n\ndef {name}({other}):\n    result = []\n    for i in range({other}):\n"
        f"        if i % 2 == 0:\n            result.append(i)\n    return result\n\nBOARD = [\n{rows}]\n\ndef test():\n{tests}```\n"
    )


def markup(draw: random.Random) -> str:
    """Return HTML with many equal lines."""
    rows = "\n".join("      <td></td>" for _ in range(draw.randint(4, 20)))
    return (
        f"```html\n<table>\n  <tbody>\n    <tr>\n{rows}\n    </tr>\n  </tbody>\n</table>\n```\n"
        + "=" * draw.randint(5, 80)
    )


def table(draw: random.Random) -> str:
    """Return a table of Markdown."""
    rows = [
        f"| {draw.choice(_NAMES)} | {draw.randint(1, 99)} | {draw.random():.3f} | {draw.choice(['yes', 'no'])} | - | - |"
        for _ in range(draw.randint(4, 40))
    ]
    return "| Name | Age | Score | Done | A | B |\n|------|-----|-------|------|---|---|\n" + "\n".join(rows)


def listing(draw: random.Random) -> str:
    """Return a numbered list."""
    return "\n".join(
        f"{n + 1}. **{draw.choice(_NOUNS).title()}**: {_sentence(draw)}" for n in range(draw.randint(4, 20))
    )


def document(draw: random.Random) -> str:
    """Return JSON with many records of one shape."""
    rows = [{"id": n, "name": draw.choice(_NAMES), "tags": [], "parent": None} for n in range(draw.randint(3, 25))]
    return json.dumps(rows, indent=draw.choice([None, 2, 4]))


def poem(draw: random.Random) -> str:
    """Return stanzas, each with one refrain; in English or Chinese."""
    write = draw.choice([_sentence, _chinese_sentence])
    refrain = "\n".join(write(draw) for _ in range(2))
    return "\n\n".join("\n".join(write(draw) for _ in range(4)) + "\n" + refrain for _ in range(draw.randint(2, 5)))


def numbers(draw: random.Random) -> str:
    """Return numbers, some of which are the same."""
    step = draw.choice([1, 5, 10])
    kinds = [
        ", ".join(str(n * step) for n in range(draw.randint(20, 120))),
        " ".join(str(draw.randint(0, 1)) for _ in range(draw.randint(20, 150))),
        "\n".join(f"{n} x 7 = {n * 7}" for n in range(1, draw.randint(10, 40))),
        "The result is 0." + "3" * draw.randint(10, 60) + " and 1" + "0" * draw.randint(5, 90) + ".",
    ]
    return draw.choice(kinds)


def chat(draw: random.Random) -> str:
    """Return a short answer, with emoji, laughter, or repeated signs."""
    return draw.choice([
        "Yes.", "好的。", "42", "No, no, no, no!", "Great job!!! 🎉🎉🎉 " + "😂" * draw.randint(1, 12), "哈" * draw.randint(2, 15) + "，太好笑了！",
        "Hmm" + "." * draw.randint(3, 30), "Sooooo good! 👍🏽👨‍👩‍👧", "La la la la la la la, la la la!", "是的，" + chinese(draw, 1), "",
        "Wait" + "!" * draw.randint(1, 20), english(draw, 1), "----\n" * draw.randint(1, 6), "**" + _sentence(draw) + "**",
    ])  # fmt: skip


def quoting(draw: random.Random) -> str:
    """Return prose that quotes other scripts on purpose, or uses signs of formulas."""
    quoted = draw.choice([
        "The Russian word for peace is мир, and in Greek it is ειρήνη.", "She wrote “здравствуйте” (hello) on the wall.",
        "If α = 0.05 and β > Δx, then Σ xᵢ ≤ π·r² holds for all ε > 0.", "In Japanese, 東京 is read とうきょう.",
        "Beijing (北京) lies north of Tianjin (天津).", "The naïve café owner from Kraków said: “Où est la crème brûlée?”",
        "希腊字母 α 常用来表示学习率，日语里的“の”表示所属。", "The temperature rose by 3 °C → 5 °C ± 0.5 µm ✓.",
        "Use the \\alpha and ∑ signs; the set ℝ ⊂ ℂ, ∀x ∈ ℕ.", "韩语的“안녕하세요”是你好的意思。",
    ])  # fmt: skip
    prose = english(draw, 4) if quoted[0] < "\u3000" else chinese(draw, 4)
    return f"{prose} {quoted} {english(draw, 2) if quoted[0] < chr(0x3000) else chinese(draw, 2)}"


NORMAL: tuple[Callable[[random.Random], str], ...] = (
    english, chinese, english, chinese, mixed, code, markup, table, listing, document, poem, numbers, chat, quoting,
)  # fmt: skip


def normal(seed: int) -> str:
    """Return a normal answer."""
    return NORMAL[seed % len(NORMAL)](random.Random(f"normal {seed}"))


# ---------------------------------------------------------------- planted faults


def repeated(seed: int) -> str:
    """Return an answer that ends in a loop: of a word, a sign, a sentence, a paragraph, some with small changes."""
    draw = random.Random(f"repeated {seed}")
    write = draw.choice([_sentence, _chinese_sentence])
    head = " ".join(write(draw) for _ in range(draw.randint(0, 4)))
    words = _NOUNS if write is _sentence else _ZH_NOUNS
    kinds: list[Callable[[], str]] = [
        lambda: f"{draw.choice(words)} " * draw.randint(40, 200),
        lambda: draw.choice("!?。！0") * draw.randint(120, 400),
        lambda: f"{write(draw)} " * draw.randint(8, 40),
        lambda: f"{' '.join(write(draw) for _ in range(4))}\n\n" * draw.randint(5, 12),
        lambda: _numbered(f"{_long(write, draw)}\n", draw),
        lambda: _with_changes(_long(write, draw), draw),
        lambda: draw.choice(["the ", "of the ", "我", "是的", "and then I "]) * draw.randint(60, 200),
        lambda: "the" * draw.randint(60, 200),
        lambda: "\n" * draw.randint(100, 300),
    ]
    return f"{head} {kinds[seed % len(kinds)]()}"


def _long(write: Callable[[random.Random], str], draw: random.Random) -> str:
    text = write(draw)
    while len(text) < (70 if text.isascii() else 24):
        text = text[:-1] + "," + write(draw).lower()
    return text


def _numbered(sentence: str, draw: random.Random) -> str:
    return "".join(f"{n}. {sentence}" for n in range(1, draw.randint(14, 40)))


def _with_changes(sentence: str, draw: random.Random) -> str:
    """Return a sentence many times; of its words (or characters) one in sixteen is another one."""
    words = sentence.split() if sentence.isascii() else list(sentence)
    glue, others = (" ", _NOUNS) if sentence.isascii() else ("", "东南西北红黄蓝绿")
    return glue.join(draw.choice(others) if draw.random() < 0.06 else word for _ in range(25) for word in words)


_SCRIPTS = ((0x0400, 0x44F), (0x0627, 0x064A), (0x0E01, 0x0E2E), (0x0905, 0x0939), (0x10D0, 0x10F0), (0xAC00, 0xD7A3),
            (0x4E00, 0x9FA5), (0x0531, 0x0556), (0x1200, 0x1248), (0x61, 0x7A), (0x41, 0x5A))  # fmt: skip


def garbled(seed: int) -> str:
    """Return an answer of which the rest, or all, is garbled."""
    draw = random.Random(f"garbled {seed}")
    write = draw.choice([english, chinese])
    head = write(draw, draw.randint(0, 2)) if draw.random() < 0.6 else ""
    kinds: list[Callable[[], str]] = [
        lambda: "".join(_other_token(draw) for _ in range(draw.randint(60, 200))),
        lambda: chinese(draw, 6).encode().decode("cp1252", "replace"),
        lambda: chinese(draw, 8).encode().decode("gbk", "replace"),
        lambda: chinese(draw, 8).encode("gbk").decode("utf-8", "replace"),
        lambda: chinese(draw, 6).encode("gbk").decode("latin-1"),
        lambda: "".join(
            chr(draw.randint(0x21, 0x7E)) + " " * (draw.random() < 0.1) for _ in range(draw.randint(200, 500))
        ),
        lambda: bytes(draw.randint(0x80, 0xFF) for _ in range(draw.randint(60, 300))).decode(
            "utf-8", "surrogateescape"
        ),
        lambda: "".join(chr(draw.randint(0x4E00, 0x9FA5)) for _ in range(draw.randint(80, 300))),
        lambda: english(draw, 10).replace(" ", "Ġ").replace(".", ".Ċ"),
        lambda: "".join(chr(draw.randint(0xE000, 0xF8FF)) for _ in range(draw.randint(40, 90))),
    ]
    return head + kinds[seed % len(kinds)]()


def _other_token(draw: random.Random) -> str:
    low, high = draw.choice(_SCRIPTS)
    return " " * (draw.random() < 0.3) + "".join(chr(draw.randint(low, high)) for _ in range(draw.randint(1, 4)))


RARE = ["ჯ", "ض", "ฎ", "क़", "ዠ", "Ж", "𠮷", "�", "\ue123", "ຮ", "㐂", "ሀ", "ڪ", "ԇ"]


def rare(seed: int) -> tuple[str, str]:
    """Return a normal text with one rare character in it, and that character."""
    draw = random.Random(f"rare {seed}")
    write = draw.choice([english, chinese])
    text, sign = write(draw, draw.randint(4, 12)), draw.choice(RARE)
    place = draw.randint(len(text) // 4, 3 * len(text) // 4)
    return text[:place] + sign + text[place:], sign


# ---------------------------------------------------------------- tokens and log-probabilities


def tokens(text: str) -> list[str]:
    """Return the tokens of a text: words with the space before them, in pieces of six letters, one or two characters."""
    return re.findall(r" ?[A-Za-z]{1,6}|\d{1,3}|[\u4e00-\u9fff]{1,2}|[^\S\n]+|\n|[-=]{1,8}|.", text, re.DOTALL)


def candidates(texts: list[str], seed: int, odd: set[int] | None = None, k: int = 20) -> list[dict[str, float]]:
    """Return for each token the ``k`` best candidates of a distribution that it was drawn from.

    The tokens at ``odd`` were not drawn: nearly nothing of the probability is theirs.
    """
    draw = np.random.default_rng(seed)
    vocabulary = sorted(set(texts)) + [f"<{n}>" for n in range(400)]
    distributions = [_distribution(draw, len(vocabulary), spread, k) for spread in (1.2, 3.0, 10.0) for _ in range(6)]
    rows = []
    for place, text in enumerate(texts):
        values, best = distributions[draw.integers(len(distributions))]
        drawn = np.searchsorted(np.cumsum(np.exp(values)), draw.random() * 0.999999)
        others = draw.integers(len(vocabulary), size=k)
        row = {vocabulary[other]: float(value) for other, value in zip(others, best, strict=True)}
        row[text] = float(draw.uniform(-16, -9)) if odd and place in odd else float(values[drawn])
        rows.append(row)
    return rows


def _distribution(draw: np.random.Generator, size: int, spread: float, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the log-probabilities of a vocabulary, and the largest of them."""
    logits = draw.normal(0, spread, size)
    values = logits - np.logaddexp.reduce(logits)
    return values, np.sort(values)[::-1][:k]
