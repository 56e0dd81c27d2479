"""Find what stands twice in a document: JSON allows a key twice in one object, and a parser keeps one of the values.

Such a document says two things of one call, one statistic or one setting. To parse all pairs of all objects would take
longer than to read a dump, so the keys of its text are counted first, and those of what a parser made of it. The text
never seems to have fewer than it has; only where it has more, the document is parsed once more with all pairs.
"""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

_COLON, _QUOTE, _SPACE, _BACKSLASH = b':" \\'
_LEAST = 3
"""No key ends earlier: the shortest one begins a document, ``{"":``."""
_PIECE = 1 << 20


class _Repeated(dict[str, Any]):
    """An object of which a key, ``name``, stands twice."""

    name = ""


def repeated_key(content: bytes, document: Any) -> str:
    """Return which key stands twice in one object of a JSON document, with its lines; "" where none does.

    Args:
        content: the text of the document.
        document: what a parser made of it, with one value for each name.
    """
    if _written(content) == _kept(document):
        return ""
    found = _first(json.loads(content, object_pairs_hook=_object, parse_int=str))
    if found is None:
        return ""
    names = [json.dumps(name, ensure_ascii=False) for name in found]
    where = f"{found[0]}{''.join(f'[{name!r}]' for name in found[1:])}" if len(found) > 1 else f"`{found[0]}`"
    return f"{where} stands there twice{_lines(names[-1], content)}, and nothing tells which of them is right"


def parsed(text: str | bytes) -> Any:
    """Return what a small JSON document holds.

    Raises:
        ValueError: it is no JSON, or a key stands twice in one of its objects.
    """
    return json.loads(text, object_pairs_hook=_refused)


def _refused(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = _object(pairs)
    if isinstance(values, _Repeated):
        raise ValueError(f"{values.name!r} is in it twice")
    return values


def _kept(node: Any) -> int:
    """Return how many keys the objects of a parsed document have; a shape, which begins with a number, holds none.

    Where another list with a number in front holds objects, the document is parsed once more and nothing is found.
    """
    total = 0
    if type(node) is dict:
        total, node = len(node), node.values()
    for child in node:
        kind = type(child)
        if kind is dict or (kind is list and child and type(child[0]) is not int):
            total += _kept(child)
    return total


def _written(content: bytes) -> int:
    """Return how many keys a text has, or more where texts in it look like keys: each colon behind a quote is one."""
    text, total = np.frombuffer(content, np.uint8), 0
    for begin in range(0, len(text), _PIECE):
        piece = text[begin : begin + _PIECE + _LEAST]
        colons = np.flatnonzero(piece[_LEAST:] == _COLON) + _LEAST
        before = piece[colons - 1]
        total += _ends(piece, colons[before == _QUOTE])
        for colon in begin + colons[before <= _SPACE]:
            total += _ends_before(content, int(colon))
    return total


def _ends(piece: NDArray[np.uint8], colons: NDArray[np.intp]) -> int:
    """Return how many of these colons follow a quote that no backslash, or more than one, makes a part of a text."""
    return int(np.count_nonzero((piece[colons - 2] != _BACKSLASH) | (piece[colons - 3] == _BACKSLASH)))


def _ends_before(content: bytes, colon: int) -> bool:
    """Return whether a colon behind white space may follow a key."""
    text = content[max(0, colon - 64) : colon].rstrip()
    return not text.strip(b" \t\r\n") or (text.endswith(b'"') and (text[-2:-1] != b"\\" or text[-3:-2] == b"\\"))


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) == len(pairs):
        return values
    repeated, seen = _Repeated(values), set()
    for name, _ in pairs:
        if name in seen:
            repeated.name = name
            break
        seen.add(name)
    return repeated


def _first(node: Any) -> tuple[str | int, ...] | None:
    """Return the path to the first key that stands twice."""
    if isinstance(node, _Repeated):
        return (node.name,)
    for key, child in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        found = _first(child)
        if found is not None:
            return (key, *found)
    return None


def _lines(name: str, content: bytes) -> str:
    """Return the lines where a key stands that is in the document twice, each on a line of its own."""
    written = re.compile(re.escape(name.encode("utf-8", "surrogatepass")) + rb"\s*:")
    lines = [str(content.count(b"\n", 0, match.start()) + 1) for match in written.finditer(content)]
    return f" (lines {' and '.join(lines)})" if len(lines) == 2 and lines[0] != lines[1] else ""
