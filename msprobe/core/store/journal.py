r"""The journal: records are appended to it while training runs, and folded into the documents afterwards.

    {"v":3,"task":"statistics","level":"mix", ...}              the header of dump.json, first line
    {"k":3,"f":["File train.py, line 7, in main, \n ..."]}      stack 3 reads like this
    {"h":{"end":{"by":"stop"}}}                                 fields of the header, known later; null removes one
    {"a":{"optimizers":[{"class":"SGD", ...}]}}                 items that are added to lists in the header
    {"q":21,"n":421,"s":3,"p":"Module.net.Net.forward.0"}       an entry, its stack and parent; 421 bytes of body
      "Torch.add.0.forward": {                                  follow, its name in the first 21 of them, just as
       "input_args": [ ...                                      they will stand in dump.json
    {"e":"Tensor.view.0.forward","p":null}                      a name for construct.json only

A process that dies while it creates the journal leaves a part of the header, or an empty file: it has no records.

A body is serialized once, when it is recorded; folding copies it. A later body of the same entry adds to it and moves
the entry to the end, so a call that is still running may be written early and completed later. A process that dies
leaves at worst an incomplete last piece, which is dropped.

``JournalWriter`` appends lines, ``scan`` rebuilds the ``JournalIndex`` of a file, ``fold`` reads a journal and
``publish`` writes the documents.

An interrupt (Ctrl-C) may happen between any two instructions of the training's thread, and must not lose anything.
Bytes leave the buffer after they are in the file; the size of the file is the end of an interrupted write. An index
that may hold half a line is rebuilt from the file.
"""

from __future__ import annotations

import io
import os
import re
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from json.encoder import encode_basestring_ascii as _quoted
from pathlib import Path
from typing import Any, BinaryIO

from pydantic_core import from_json, to_json

from msprobe.core.errors import ReadError
from msprobe.core.interruption import let_through
from msprobe.core.store.layout import CONSTRUCT, DEBUG, DUMP, SOURCE, STACK
from msprobe.core.store.safe_files import open_private, regular, write_atomic
from msprobe.core.store.source_files import source_document

VERSION = 3
INDENT = 2
_LARGEST = 1 << 48  # no file has a place behind it
HELD = 1 << 24
"""Bytes up to which a journal is held in memory while it is folded."""
POINT = ".debug"
"""How the names of single points (``save``) end; they stand in a document of their own, debug.json."""
_NAME = re.compile(rb' {2}"[^"\\]*(?:\\.[^"\\]*)*"')

_BEGIN = b'{"v":'
_REMEDY = "remove it to read the dump.json beside it"
_NO_BODY = object()


class JournalWriter:
    """Appends lines to a journal. One thread adds at a time, and one flushes: not necessarily the same."""

    def __init__(self) -> None:
        self.index = JournalIndex()
        self.doubtful = False
        self._buffer: list[bytes] = []
        self._file = -1
        self._written = 0
        self._published = -1

    def open(self, path: Path) -> None:
        """Create an empty journal at ``path``. Raises OSError."""
        self._file = open_private(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)

    def add(self, line: dict[str, Any]) -> None:
        """Serialize one line and buffer it for the next flush."""
        indexed, text = encode(line)
        length = text.index(b"\n") + 1
        try:
            self._buffer.append(text)
            self.index.note(indexed, length)
        except BaseException:
            self.doubtful = True
            raise

    @property
    def written(self) -> int:
        """The size of the file."""
        return self._written

    @property
    def last(self) -> bytes:
        """The line that was added last, unless it is in the file already."""
        return self._buffer[-1] if self._buffer else b""

    def flush(self) -> None:
        """Write the buffered lines to the file. Raises OSError."""
        pending = self._buffer[:]
        if not pending:
            return
        data = b"".join(pending)
        count, end = len(pending), self._written + len(data)
        rest = memoryview(data)[max(os.fstat(self._file).st_size - self._written, 0) :]
        while rest:
            rest = rest[os.write(self._file, rest) :]
        del self._buffer[:count]
        self._written = end

    def repair(self, path: Path) -> None:
        """Rebuild the index from the file at ``path``, after an interrupt, while nothing is added. Raises OSError."""
        self.flush()
        with open(regular(path), "rb") as file:
            self.index = scan(file)
        self.doubtful = False

    def announce(self, path: Path, index: JournalIndex) -> None:
        """Write a document without entries beside the journal at ``path``, so that readers find a dump from now on.

        The other documents follow with the first content, because creating a file is slow. Raises OSError.
        """
        publish(path, index, extra_info=False)

    def publish(self, path: Path, index: JournalIndex, extra_info: bool) -> None:
        """Write the documents beside the journal at ``path``, unless nothing is new. Raises OSError.

        ``index`` is a copy of a moment whose lines have all been flushed: meanwhile lines are added, and not flushed.
        """
        if index.size != self._published:
            publish(path, index, extra_info)
            self._published = index.size

    def forget(self) -> None:
        """Drop every line; there is no file."""
        self._buffer.clear()
        self.index = JournalIndex()

    def close(self) -> None:
        """Let go of the file without writing."""
        if self._file >= 0:
            file, self._file = self._file, -1
            os.close(file)


class JournalIndex:
    """The index of a journal, from which it is folded: positions of the bodies, and the two small documents.

    Bodies are numbered. An entry maps to one number, or to a list of numbers when several bodies add up. Plain numbers
    keep tens of thousands of entries cheap and untracked by the garbage collector.
    """

    def __init__(self) -> None:
        self.header: dict[str, Any] = {}
        self.entries: dict[str, int | list[int]] = {}
        self.points: dict[str, int] = {}
        self.starts = array("Q")
        self.lengths = array("Q")
        self.frames: dict[int, list[str]] = {}
        self.users: dict[int, dict[str, None]] = {}
        self.construct: dict[str, str | None] = {}
        self.size = 0

    def copy(self) -> JournalIndex:
        """Return the index as it is now, which lines that are added later do not change."""
        index = JournalIndex()
        index.header = {key: value[:] if isinstance(value, list) else value for key, value in self.header.items()}
        index.entries, index.points, index.construct = dict(self.entries), dict(self.points), dict(self.construct)
        index.starts, index.lengths = self.starts, self.lengths  # they only grow
        index.frames, index.users = dict(self.frames), {stack: dict(names) for stack, names in self.users.items()}
        index.size = self.size
        return index

    def note(self, line: Mapping[str, Any], length: int) -> None:
        """Add a line of ``length`` bytes, newline included, that stands at the end of the journal."""
        self.size += length
        name = line.get("e")
        if name is None:
            self._note_definition(line)
            return
        body = line.get("n")
        if body is not None:
            number = len(self.starts)
            if name.endswith(POINT):
                self.points[name] = number  # a later body of a point replaces the earlier one
            else:
                earlier = self.entries.pop(name, None)
                self.entries[name] = number if earlier is None else [*_numbers(earlier), number]
            self.starts.append(self.size)
            self.lengths.append(body)
            self.size += body + 1
        if "s" in line:
            users = self.users.get(line["s"])
            if users is None:
                users = self.users[line["s"]] = {}
            users[name] = None
        if "p" in line:
            self.construct[name] = line["p"]

    def _note_definition(self, line: Mapping[str, Any]) -> None:
        if "v" in line:
            self.header = dict(line)
        elif "k" in line:
            self.frames[line["k"]] = list(line["f"])
        elif "h" in line:
            for key, value in line["h"].items():
                self.header[key] = value
                if value is None:
                    del self.header[key]
        elif "a" in line:
            for key, items in line["a"].items():
                self.header.setdefault(key, []).extend(items)

    def stack_document(self) -> dict[str, list[list[str]]]:
        """Return the content of stack.json."""
        used = [(self.frames[stack], names) for stack, names in self.users.items() if stack in self.frames]
        return {str(number): [list(names), frames] for number, (frames, names) in enumerate(used)}

    @property
    def only_points(self) -> bool:
        """Return whether the level is debug, which has no dump.json."""
        return self.header.get("level") == "debug"

    def dump_header(self) -> dict[str, Any]:
        """Return the header of dump.json."""
        return {key: value for key, value in self.header.items() if key != "v"}


@dataclass(frozen=True, slots=True)
class Folded:
    """The content of a journal: the header of dump.json, its ``data``, and the other two documents."""

    header: dict[str, Any]
    data: dict[str, dict[str, Any]]
    stack: dict[str, list[list[str]]] = field(default_factory=dict)
    construct: dict[str, str | None] = field(default_factory=dict)


def fold(path: str | os.PathLike[str], *, points: bool = False) -> Folded:
    """Read a journal into dump.json, or into debug.json with ``points`` and at level debug.

    Raises:
        ReadError: it cannot be opened, is no journal, or a record in it is damaged.
    """
    try:
        with open(regular(path), "rb") as file:
            index = scan(file)
            entries = index.points if points or index.only_points else index.entries
            data = {name: _body(file, index, name, numbers) for name, numbers in entries.items()}
    except OSError as error:
        raise ReadError(f"{os.fspath(path)}: cannot be read ({error.strerror})") from error
    except (KeyError, ValueError) as error:  # a body that is no JSON, or has another name than its line says
        raise ReadError(f"{os.fspath(path)}: a record is damaged; {_REMEDY}") from error
    return Folded(index.dump_header(), data, index.stack_document(), index.construct)


def scan(file: BinaryIO) -> JournalIndex:
    """Build the index of a journal on disk, up to its last complete piece; without a header where it was just created.

    Raises:
        ReadError: the file does not start with a journal header.
    """
    index = JournalIndex()
    size = os.fstat(file.fileno()).st_size
    if not _has_header(file):
        return index
    for text in iter(file.readline, b""):
        line = _complete_line(text)
        if line is not None and "q" in line:
            line["e"] = _name(file.read(INDENT + line["q"]))
        if line is None or index.size + len(text) + (line.get("n", -1) + 1) > size:
            break
        index.note(line, len(text))
        file.seek(index.size)
        if "v" not in index.header:
            break
    if index.header.get("v") != VERSION:
        raise ReadError(f"{getattr(file, 'name', 'journal')}: not a journal of this version of msprobe; {_REMEDY}")
    return index


def _has_header(file: BinaryIO) -> bool:
    """Return whether the first line of a journal is complete; False for an empty file or a part of a header."""
    start = file.read(len(_BEGIN))
    whole = not _BEGIN.startswith(start) and start != bytes(len(start))
    if start == _BEGIN:
        whole = file.readline().endswith(b"\n")
    file.seek(0)
    return whole


def publish(path: Path, index: JournalIndex, extra_info: bool) -> int:
    """Write the documents beside the journal at ``path``, and debug.json if there are points; return the bytes written.

    Raises:
        OSError: a document cannot be written; the ones already there stay whole.
    """
    size = 0
    with open(regular(path), "rb") as journal:
        # every body is read by itself, which takes a third of the time when the journal is in memory
        file = io.BytesIO(journal.read()) if index.size <= HELD else journal
        if not index.only_points:
            size += write_atomic(path.with_name(DUMP), dump_document(file, index, index.entries))
        if index.only_points or index.points:
            size += write_atomic(path.with_name(DEBUG), dump_document(file, index, index.points))
    if extra_info and not index.only_points:
        size += write_atomic(path.with_name(STACK), [dumps(index.stack_document(), indent=1)])
        size += write_atomic(path.with_name(CONSTRUCT), [dumps(index.construct, indent=1)])
        if source := source_document(index.frames.values()):
            size += write_atomic(path.with_name(SOURCE), [dumps(source, indent=1)])
    return size


def dump_document(file: BinaryIO, index: JournalIndex, entries: Mapping[str, int | list[int]]) -> Iterator[bytes]:
    """Yield the text of a document entry by entry, in the layout of ``json.dump(..., indent=1)``."""
    yield dumps({**index.dump_header(), "data": {}}, indent=1)[: -len(b"{}\n}")] + b"{"
    separator = b"\n"
    for name, numbers in entries.items():
        yield separator
        if isinstance(numbers, int):
            yield _read(file, index, numbers)
        else:
            yield _serialize(name, _body(file, index, name, numbers))
        separator = b",\n"
    yield b"\n }\n}" if entries else b"}\n}"


def encode(line: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Serialize a line and its body (key ``d``). Return the line for the index, and the bytes for the file."""
    name: Any = line.get("e")
    parent = line.get("p")
    if name is not None and not name.isascii():
        line["e"] = name = plain_text(name)
    if parent is not None and not parent.isascii():
        line["p"] = plain_text(parent)
    body = line.pop("d", _NO_BODY)
    if body is _NO_BODY:
        return line, dumps(line) + b"\n"
    piece = _serialize(name, body)
    line["n"] = len(piece)
    return line, b"%b\n%b\n" % (_head(line, _length_of_name(name, piece)), piece)


def dumps(value: object, indent: int | None = None) -> bytes:
    """Return JSON in which NaN and infinities are the tokens that Python's json reads; unusual text is escaped."""
    try:
        return to_json(value, indent=indent, inf_nan_mode="constants")
    except ValueError as error:  # a lone surrogate, or an object that has no JSON form
        let_through(error)
        import json

        return json.dumps(_json_compatible(value), indent=indent, default=str).encode("ascii")


def plain_text(text: str) -> str:
    """Return ``text`` with lone surrogates escaped: only Python's own JSON reader accepts them."""
    return text.encode("utf-8", "backslashreplace").decode() if not text.isascii() else text


def _json_compatible(value: Any) -> Any:
    """Return ``value`` with text for whatever JSON cannot hold: other keys, lone surrogates, very large integers."""
    if isinstance(value, str):
        return plain_text(value)
    if isinstance(value, Mapping):
        return {plain_text(str(key)): _json_compatible(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_compatible(part) for part in value]
    if type(value) is int and value.bit_length() > 1024:
        return f"{'-' if value < 0 else ''}0x{abs(value):x}"[:4096]
    return value


def _length_of_name(name: str, piece: bytes) -> int:
    """Return how many bytes the name in front of its body has, quotes included."""
    raw = b'"%b"' % name.encode()
    if piece.startswith(raw, INDENT):  # nothing in it is escaped
        return len(raw)
    quoted = _NAME.match(piece)
    assert quoted is not None
    return quoted.end() - INDENT


def _head(line: Mapping[str, Any], name: int) -> bytes:
    """Return the line in front of a body. It is formatted by hand because it is written for every record.

    The name is not in it: it is the first ``name`` bytes of the body.
    """
    text = f'{{"q":{name},"n":{line["n"]}'
    if "s" in line:
        text += f',"s":{line["s"]}'
    if "p" in line:
        parent = line["p"]
        text += ',"p":null' if parent is None else f',"p":{_quoted(parent)}'
    return (text + "}").encode("ascii")


def _serialize(name: str, body: object) -> bytes:
    """Return ``"name": body`` in the layout of dump.json, serialized two levels deep to be indented right."""
    return dumps({"": {name: body}}, indent=1)[len(b'{\n "": {\n') : -len(b"\n }\n}")]


def _body(file: BinaryIO, index: JournalIndex, name: str, numbers: int | list[int]) -> Any:
    """Return the body of an entry: the body of this number, or several bodies added up."""
    if isinstance(numbers, int):
        return from_json(b"{%b}" % _read(file, index, numbers))[name]
    body: dict[str, Any] = {}
    for number in numbers:
        body.update(from_json(b"{%b}" % _read(file, index, number))[name])
    return body


def _read(file: BinaryIO, index: JournalIndex, number: int) -> bytes:
    file.seek(index.starts[number])
    return file.read(index.lengths[number])


def _numbers(numbers: int | list[int]) -> list[int]:
    return [numbers] if isinstance(numbers, int) else numbers


def _name(text: bytes) -> str | None:
    try:
        return str(from_json(text))
    except ValueError:  # incomplete: the caller notices that the body is incomplete, too
        return None


def _complete_line(text: bytes) -> dict[str, Any] | None:
    """Return the JSON object of a line; None when it is incomplete or no line of a journal."""
    if not text.endswith(b"\n"):
        return None
    try:
        line = from_json(text)
    except ValueError:
        return None
    return line if isinstance(line, dict) and all(_is_valid(key, value) for key, value in line.items()) else None


def _is_valid(key: str, value: object) -> bool:
    """Return whether a line may have this value under ``key``."""
    if key in "qnsk":
        return type(value) is int and 0 <= value < _LARGEST
    if key == "e":
        return isinstance(value, str)
    if key == "p":
        return value is None or isinstance(value, str)
    return key != "f" or (isinstance(value, list) and set(map(type, value)) <= {str})
