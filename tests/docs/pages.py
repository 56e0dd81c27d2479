"""Read the pages for users as lists of blocks. What each kind of block means:

| fence                       | meaning                                                                         |
|-----------------------------|---------------------------------------------------------------------------------|
| ``python``                  | a program of its own, run in the folder of the page                             |
| any with ``title="FILE"``   | written to FILE in the folder of the page, and not run                          |
| ``json``, ``yaml``          | (part of) a configuration that is accepted without a warning                    |
| ``console``                 | each ``$ command`` is run; it ends with 0 unless ``$ echo $?`` follows          |
| ``text title="output"``     | lines which the program before printed                                          |
| ``text``                    | shown only                                                                      |

Lines shown as output must occur in the real output in this order, others may stand between them; ``...`` is anything.
A block directly after a paragraph that begins with "Not run here:" is left out; the paragraph says why.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests.rules.tree import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "guide").rglob("*.md"))]
LANGUAGES = {"python", "json", "yaml", "console", "text"}
_FENCE = re.compile(r"^```(?P<info>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_TITLE = re.compile(r'title="([^"]+)"')
_LEFT_OUT = "Not run here:"


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block; ``line`` is that of its fence, counted from 1, ``reason`` why it is not run."""

    language: str
    title: str
    body: str
    line: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Command:
    """One ``$ line`` of a console and the lines shown below it."""

    line: str
    shown: tuple[str, ...]


def blocks(path: Path) -> list[Block]:
    """Return the blocks of a page in order."""
    text = path.read_text(encoding="utf-8")
    return [_block(found, text) for found in _FENCE.finditer(text)]


def _block(found: re.Match[str], text: str) -> Block:
    before = text[: found.start()]
    paragraph = before.rstrip().rpartition("\n\n")[2].replace("\n", " ")
    reason = paragraph.removeprefix(_LEFT_OUT).strip() if paragraph.startswith(_LEFT_OUT) else ""
    title = _TITLE.search(found["info"])
    language = found["info"].split(" ")[0]
    return Block(language, title[1] if title else "", found["body"], before.count("\n") + 1, reason)


def commands(block: Block) -> list[Command]:
    """Return the commands of a console block. Raises ValueError for text before the first ``$``."""
    first, *rest = re.split(r"^\$ ", block.body, flags=re.MULTILINE)
    if first.strip():
        raise ValueError(f"line {block.line}: a console block begins with '$ command', got {first.strip()!r}")
    parts = [part.rstrip().split("\n") for part in rest]
    return [Command(line, tuple(shown)) for line, *shown in parts]


def missing(shown: str | tuple[str, ...], output: str) -> str | None:
    """Return the first shown line that does not follow in the output after the shown lines before it, or None."""
    lines = iter(line.strip() for line in output.splitlines())
    for wanted in shown.splitlines() if isinstance(shown, str) else shown:
        pattern = re.compile(".*".join(map(re.escape, wanted.strip().split("..."))) + r"\Z")
        if wanted.strip() not in {"", "..."} and not any(pattern.match(line) for line in lines):
            return wanted
    return None
