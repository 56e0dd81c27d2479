"""The lines of the log that troubleshooting.md explains are lines that the code writes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.rules.tree import ROOT, sources

PAGE = ROOT / "docs" / "guide" / "collection" / "troubleshooting.md"
FILLED_IN = {
    "start": "…",
    "262144": "…",
    "dump_error_info.log": "…",
    " R ": "…",
    "cannot write the dump": "cannot … the dump",
    "folders": "folder…",
    "goes on; see": "goes on…; see",
}
"""What the code fills in, and how the text around it reads."""


def explained_lines() -> list[str]:
    table = PAGE.read_text(encoding="utf-8").split("## Lines in the log while training", 1)[1].split("\n## ", 1)[0]
    return re.findall(r"^\| `(.+?)` \|", table, re.MULTILINE)


def fragments(line: str) -> list[str]:
    """Return the parts of a line that the code writes as they stand."""
    for text, around in FILLED_IN.items():
        line = line.replace(text, around)
    parts = (part.strip(" :;,()/") for part in line.split("…"))
    return [part for part in parts if len(part) > 1]


def messages() -> Iterator[str]:
    """Yield the texts in the code, with … in the place of each value."""
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield re.sub(r"%[sdr]", "…", node.value)


def test_explained_lines_are_written() -> None:
    lines, texts = explained_lines(), "\n".join(messages())
    assert len(lines) > 8
    assert [(line, part) for line in lines for part in fragments(line) if part not in texts] == []


def test_fragments_of_a_line() -> None:
    assert fragments("… holds it: (see …/dump_error_info.log), rank R is 262144 long") == [
        "holds it: (see",
        "rank",
        "is",
        "long",
    ]
