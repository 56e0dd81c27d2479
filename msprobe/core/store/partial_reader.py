"""Splits two dumps of the same calls into parts that can be read independently, without parsing them first.

In an indented document every record begins on a line of its own, below ``data``, which comes last. A split is a comma
between two such lines, before a record of the same name in both documents. A wrong split leaves invalid JSON, so parts
that can be parsed are correct.
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
from msprobe.core.repeated_keys import repeated_key
from msprobe.core.store.safe_files import regular

_HEAD = 1 << 24
_TAIL = 1 << 10
_OPENING, _CLOSING = b"{}"
_BEGIN = re.compile(rb'"data"\s*:\s*\{(\s*\n\s*)"')
_END = re.compile(rb"\s*\}\s*\}\s*\Z")
_NAME = re.compile(rb'(?:[^"\\]|\\.)*"')
_TRIES = 1000


@dataclass(frozen=True, slots=True)
class Part:
    """Consecutive records of an open file.

    Attributes:
        descriptor: the open file.
        start: the first byte.
        end: the byte after the last one.
        separator: the bytes between two records, up to the quote of the name.
    """

    descriptor: int
    start: int
    end: int
    separator: bytes

    def text(self) -> bytes:
        """Return the records as bytes of the document."""
        return os.pread(self.descriptor, self.end - self.start, self.start)

    def document(self) -> bytes:
        """Return the records as a document of its own."""
        with mmap.mmap(self.descriptor, 0, access=mmap.ACCESS_COPY) as content:
            content[self.start - 1], content[self.end] = _OPENING, _CLOSING  # white space, and a comma or white space
            return content[self.start - 1 : self.end + 1]

    def records(self) -> dict[str, Any]:
        """Parse the records.

        Raises:
            ReadError: the text is not a part of a document, or a key stands twice in an object of it.
        """
        document = self.document()
        records = records_in(document)
        repeated = repeated_key(document, records)
        if repeated:
            raise ReadError(repeated)
        return records

    def count(self) -> int:
        """Return the number of separators."""
        with mmap.mmap(self.descriptor, 0, access=mmap.ACCESS_READ) as content:
            matches = re.compile(re.escape(self.separator)).finditer(content, self.start, self.end)
            return sum(1 for _ in matches)  # twice as fast as bytes.count


def records_in(document: bytes) -> dict[str, Any]:
    """Parse the records of a part.

    Raises:
        ReadError: ``document`` is not a part of a document.
    """
    try:
        content = from_json(document, allow_inf_nan=True, cache_strings="all")
    except ValueError as error:
        raise ReadError(f"not the records of a part ({error})") from error
    return content if isinstance(content, dict) else {}


class Documents:
    """Two open documents.

    Attributes:
        headers: the documents (target, golden) without their records.
    """

    def __init__(self, target: _Document, golden: _Document, headers: tuple[dict[str, Any], dict[str, Any]]) -> None:
        self._target, self._golden, self.headers = target, golden, headers

    def parts(self, shares: Sequence[float], may_end: Callable[[str], bool]) -> list[tuple[Part, Part]] | None:
        """Split the records of both documents; return None when that is not possible.

        An entry that stands in two parts is told by who puts them together.

        Args:
            shares: the share of the bytes that each part gets, approximately.
            may_end: whether a part may end with the record of this name.
        """
        cuts: list[tuple[int, int]] = []
        share = 0.0
        for fraction in shares[:-1]:
            share += fraction
            target = self._target.cut_near(share, may_end)
            golden = self._golden.cut_before(self._target.name(target), share) if target >= 0 else -1
            before = cuts[-1] if cuts else (0, 0)
            if golden < 0 or target <= before[0] or golden <= before[1]:
                return None
            cuts.append((target, golden))
        left, right = (list(side) for side in zip(*cuts, strict=True)) if cuts else ([], [])
        return list(zip(self._target.parts(left), self._golden.parts(right), strict=True))


@contextmanager
def opened_documents(target: Path, golden: Path) -> Iterator[Documents | None]:
    """Open both documents; yield None when their layout does not allow splitting. Parts are read in the ``with`` block.

    Raises:
        OSError: a document cannot be read.
    """
    with ExitStack() as stack:
        left, right = (stack.enter_context(_opened(path)) for path in (target, golden))
        headers = left.header(), right.header()
        yield None if headers[0] is None or headers[1] is None else Documents(left, right, (headers[0], headers[1]))


class _Document:
    """An indented document that is read at few positions."""

    def __init__(self, descriptor: int, content: mmap.mmap) -> None:
        self.descriptor, self.content = descriptor, content
        begin, end = _BEGIN.search(content, 0, _HEAD), _END.search(content[-_TAIL:])
        self.whole = begin is not None and end is not None
        self.start = begin.end() - 1 if begin else 0
        self.end = max(0, len(content) - _TAIL) + end.start() if end else 0
        self.separator = b"," + (begin[1] if begin else b"\n") + b'"'
        self._opening = begin.start(1) if begin else 0

    def header(self) -> dict[str, Any] | None:
        """Return the document without its records; None when its layout is another one."""
        if not self.whole:
            return None
        text = self.content[: self._opening] + self.content[self.end :]
        try:
            header = from_json(text, allow_inf_nan=True)
        except ValueError:
            return None
        whole = isinstance(header, dict) and header.get("data") == {} and not repeated_key(text, header)
        return header if whole else None

    def name(self, offset: int) -> bytes:
        """Return the name of the record after the separator at ``offset``, as written, with the quote after it."""
        match = _NAME.match(self.content, offset + len(self.separator))
        return match[0] if match else b'"'

    def cut_near(self, share: float, may_end: Callable[[str], bool]) -> int:
        """Return the offset of a separator near ``share`` of the records; -1 when none may be a split."""
        target = self.start + int(share * (self.end - self.start))
        before = self.content.rfind(self.separator, self.start, target)
        for _ in range(_TRIES):
            offset = self.content.find(self.separator, max(before + 1, self.start), self.end)
            if offset < 0 or (before >= 0 and may_end(_text(self.name(before)))):
                return offset
            before = offset
        return -1

    def cut_before(self, name: bytes, share: float) -> int:
        """Return the offset of the separator before the record of this name; -1 when there is no such record."""
        near = self.start + int(max(0.0, share - 0.05) * (self.end - self.start))
        offset = self.content.find(self.separator + name, near, self.end)
        return offset if offset >= 0 else self.content.find(self.separator + name, self.start, self.end)

    def parts(self, cuts: Sequence[int]) -> list[Part]:
        """Return the parts between these offsets."""
        starts = [self.start, *(offset + len(self.separator) - 1 for offset in cuts)]
        return [
            Part(self.descriptor, start, end, self.separator)
            for start, end in zip(starts, (*cuts, self.end), strict=True)
        ]


def _text(name: bytes) -> str:
    try:
        return str(from_json(b'"' + name))
    except ValueError:  # not a name: the part cannot be parsed
        return ""


@contextmanager
def _opened(path: Path) -> Iterator[_Document]:
    with regular(path).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        yield _Document(file.fileno(), content)
