"""Find what stands twice in a document: JSON allows a key twice in one object, and a parser keeps one of the values.

A dump.json in which an entry, or ``data`` itself, stands twice says two things of one call. To parse all pairs of all
objects would take longer than to read the dump, so the keys of objects are searched in its text first, and only a name
that is there twice makes the document be parsed once more.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic_core import from_json

_OBJECT = re.compile(rb'"\s*:\s*\{')
_DATA = "data"


class _Repeated(dict[str, Any]):
    """An object of which a key, ``name``, stands twice."""

    name = ""


def repeated_entry(content: bytes, document: Mapping[str, Any]) -> str:
    """Return which part of a dump.json stands twice in it, with its lines; "" where none does.

    Args:
        content: the text of the document.
        document: what a parser made of it, with one value for each name.
    """
    data = document.get(_DATA)
    seen: set[str] = set()
    for name in _names(content):
        if name == _DATA or (isinstance(data, dict) and name in data):
            if name in seen:
                return _confirmed(content)
            seen.add(name)
    return ""


def _names(content: bytes) -> Iterator[str]:
    """Yield each key whose value is an object, at any depth, and texts that look like one."""
    for match in _OBJECT.finditer(content):
        end = match.start()
        name = content[content.rfind(b'"', 0, end) + 1 : end]
        if b"\\" in name:
            try:
                yield str(from_json(b'"' + name + b'"'))
            except ValueError:  # the end of a name with a quote in it
                continue
        else:
            yield name.decode("utf-8", "replace")


def _confirmed(content: bytes) -> str:
    """Parse the document with all pairs of its objects; a nested key may have the name of an entry."""
    document = json.loads(content, object_pairs_hook=_object, parse_int=str)
    if isinstance(document, _Repeated):
        return _placed(f"`{document.name}`", document.name, content)
    data = document[_DATA]
    return _placed(f"data[{data.name!r}]", data.name, content) if isinstance(data, _Repeated) else ""


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


def _placed(what: str, name: str, content: bytes) -> str:
    written = re.compile(re.escape(json.dumps(name, ensure_ascii=False).encode("utf-8", "surrogatepass")) + rb"\s*:")
    lines = [str(content.count(b"\n", 0, match.start()) + 1) for match in written.finditer(content)]
    where = f" (lines {' and '.join(lines)})" if len(lines) == 2 and lines[0] != lines[1] else ""  # else on one line
    return f"{what} stands there twice{where}, and nothing tells which of them is right"
