"""Two dumps of the same calls, cut into parts that can be read apart from each other, without reading them first.

In an indented document every record begins on a line of its own, below ``data``, which comes last. A cut is a comma
between two such lines, before a record of the same name in both documents. What was cut wrongly is no JSON by itself,
so that parts which can be read are the document.
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from msprobe.core.errors import ReadError

_HEAD = 1 << 16
_TAIL = 1 << 10
_OPENING, _CLOSING = b"{}"
_BEGIN = re.compile(rb'"data"\s*:\s*\{(\s*\n\s*)"')
_END = re.compile(rb"\s*\}\s*\}\s*\Z")
_NAME = re.compile(rb'(?:[^"\\]|\\.)*"')
_TRIES = 1000


@dataclass(frozen=True, slots=True)
class Part:
    """Consecutive records: the bytes ``start`` to ``end`` of an open file. ``separator`` stands between two of them,
    up to the quote of the name."""

    descriptor: int
    start: int
    end: int
    separator: bytes

    def text(self) -> bytes:
        """The records as they stand in the document."""
        return os.pread(self.descriptor, self.end - self.start, self.start)

    def document(self) -> bytes:
        """The records as a document of their own."""
        with mmap.mmap(self.descriptor, 0, access=mmap.ACCESS_COPY) as content:
            content[self.start - 1], content[self.end] = _OPENING, _CLOSING  # white space, and a comma or white space
            return content[self.start - 1 : self.end + 1]

    def count(self) -> int:
        """How many separators there are."""
        with mmap.mmap(self.descriptor, 0, access=mmap.ACCESS_READ) as content:
            found = re.compile(re.escape(self.separator)).finditer(content, self.start, self.end)
            return sum(1 for _ in found)  # twice as fast as bytes.count


def records_in(document: bytes) -> dict[str, Any]:
    """The records of a part as a document.

    Raises:
        ReadError: it is no part of a document.
    """
    try:
        found = from_json(document, allow_inf_nan=True, cache_strings="all")
    except ValueError as error:
        raise ReadError(f"not the records of a part ({error})") from error
    return found if isinstance(found, dict) else {}


class Documents:
    """Two open documents; ``headers`` are both (target, golden) without their records."""

    def __init__(self, target: _Document, golden: _Document, headers: tuple[dict[str, Any], dict[str, Any]]) -> None:
        self._target, self._golden, self.headers = target, golden, headers

    def parts(self, shares: Sequence[float], may_end: Callable[[str], bool]) -> list[tuple[Part, Part]] | None:
        """The records of both in parts of about these ``shares`` of their bytes; None where they cannot be cut.
        ``may_end`` is asked about the name of the last record before a cut."""
        cuts: list[tuple[int, int]] = []
        share = 0.0
        for one in shares[:-1]:
            share += one
            at = self._target.cut_near(share, may_end)
            partner = self._golden.cut_before(self._target.name(at), share) if at >= 0 else -1
            before = cuts[-1] if cuts else (0, 0)
            if partner < 0 or at <= before[0] or partner <= before[1]:
                return None
            cuts.append((at, partner))
        ours, theirs = self._target.parts([at for at, _ in cuts]), self._golden.parts([at for _, at in cuts])
        return list(zip(ours, theirs, strict=True))


@contextmanager
def opened_documents(target: Path, golden: Path) -> Iterator[Documents | None]:
    """Both documents, or None where they are not laid out so that they can be cut. Parts can be read inside the
    ``with`` block.

    Raises:
        OSError: a document cannot be read.
    """
    with ExitStack() as stack:
        ours, theirs = (stack.enter_context(_opened(path)) for path in (target, golden))
        headers = ours.header(), theirs.header()
        yield None if headers[0] is None or headers[1] is None else Documents(ours, theirs, (headers[0], headers[1]))


class _Document:
    """An indented document, looked at in few places."""

    def __init__(self, descriptor: int, content: mmap.mmap) -> None:
        self.descriptor, self.content = descriptor, content
        begin, end = _BEGIN.search(content[:_HEAD]), _END.search(content[-_TAIL:])
        self.whole = begin is not None and end is not None
        self.start = begin.end() - 1 if begin else 0
        self.end = max(0, len(content) - _TAIL) + end.start() if end else 0
        self.separator = b"," + (begin[1] if begin else b"\n") + b'"'
        self._opening = begin.start(1) if begin else 0

    def header(self) -> dict[str, Any] | None:
        """The document without its records; None when it is not what it looks like."""
        if not self.whole:
            return None
        try:
            found = from_json(self.content[: self._opening] + self.content[self.end :], allow_inf_nan=True)
        except ValueError:
            return None
        return found if isinstance(found, dict) and found.get("data") == {} else None

    def name(self, at: int) -> bytes:
        """The name of the record behind the separator at ``at``, as it is written, with the quote after it."""
        found = _NAME.match(self.content, at + len(self.separator))
        return found[0] if found else b'"'

    def cut_near(self, share: float, may_end: Callable[[str], bool]) -> int:
        """Where a separator stands; -1 when there is none that may be a cut."""
        place = self.start + int(share * (self.end - self.start))
        before = self.content.rfind(self.separator, self.start, place)
        for _ in range(_TRIES):
            at = self.content.find(self.separator, max(before + 1, self.start), self.end)
            if at < 0 or (before >= 0 and may_end(_text(self.name(before)))):
                return at
            before = at
        return -1

    def cut_before(self, name: bytes, share: float) -> int:
        """Where the separator before the record of this name stands; -1 when there is no such record."""
        near = self.start + int(max(0.0, share - 0.05) * (self.end - self.start))
        found = self.content.find(self.separator + name, near, self.end)
        return found if found >= 0 else self.content.find(self.separator + name, self.start, self.end)

    def parts(self, cuts: Sequence[int]) -> list[Part]:
        """The parts between these places."""
        starts = [self.start, *(at + len(self.separator) - 1 for at in cuts)]
        return [
            Part(self.descriptor, start, end, self.separator)
            for start, end in zip(starts, (*cuts, self.end), strict=True)
        ]


def _text(name: bytes) -> str:
    try:
        return str(from_json(b'"' + name))
    except ValueError:  # no name: what is cut there cannot be read
        return ""


@contextmanager
def _opened(path: Path) -> Iterator[_Document]:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        yield _Document(file.fileno(), content)
