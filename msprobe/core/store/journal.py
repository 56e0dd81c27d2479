"""The journal: one compact JSON line per event, appended while training runs, folded into the documents afterwards.

    {"v":1,"task":"statistics","level":"mix","framework":"pytorch","dump_data_dir":null}     first line
    {"k":3,"f":["File train.py, line 7, in main, \\n loss = model(x)"]}                         stack 3 reads like this
    {"e":"Torch.add.0.forward","d":{...},"s":3,"p":"Module.net.Net.forward.0"}                an entry, its stack, its parent
    {"e":"Tensor.view.0.forward","p":null}                                                    a name for construct.json only

A later line of the same entry adds to it and moves it to the end, so a call that is still running may be written early and
completed later. A process that dies leaves at worst a cut last line, which is dropped. ``fold`` serves every reader;
``documents`` streams, so that folding a large step needs memory for names and places, not for records.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from pydantic_core import from_json, to_json

from msprobe.core.errors import ReadError

VERSION = 1
Span = tuple[int, int]


@dataclass(slots=True)
class Index:
    """What must be known of a journal to fold it: where each entry's lines lie, and the two small documents."""

    header: dict[str, Any] = field(default_factory=dict)
    entries: dict[str, list[Span]] = field(default_factory=dict)
    frames: dict[int, list[str]] = field(default_factory=dict)
    users: dict[int, dict[str, None]] = field(default_factory=dict)
    construct: dict[str, str | None] = field(default_factory=dict)
    size: int = 0

    def place(self, name: str, span: Span) -> None:
        spans = self.entries.pop(name, None)
        self.entries[name] = [span] if spans is None else [*spans, span]

    def use_stack(self, stack: int, name: str) -> None:
        self.users.setdefault(stack, {})[name] = None

    def stack_document(self) -> dict[str, list[list[str]]]:
        used = [(self.frames[stack], names) for stack, names in self.users.items() if stack in self.frames]
        return {str(number): [list(names), frames] for number, (frames, names) in enumerate(used)}


@dataclass(frozen=True, slots=True)
class Folded:
    """A journal read whole: the header fields of dump.json, its ``data``, and the other two documents."""

    header: dict[str, Any]
    data: dict[str, dict[str, Any]]
    stack: dict[str, list[list[str]]]
    construct: dict[str, str | None]


def dumps(value: object, indent: int | None = None) -> bytes:
    """JSON that keeps NaN and infinities as the tokens Python's json reads; odd text is escaped, never an error."""
    try:
        return to_json(value, indent=indent, inf_nan_mode="constants")
    except ValueError:  # a lone surrogate, or an object that has no JSON form
        import json

        return json.dumps(value, indent=indent, default=str).encode("ascii")


def append(index: Index, lines: Iterable[Mapping[str, Any]], encoded: list[bytes]) -> None:
    """Encode ``lines`` onto ``encoded`` and note in ``index`` where they will lie."""
    for line in lines:
        text = dumps(line) + b"\n"
        _note(index, line, (index.size, len(text)))
        index.size += len(text)
        encoded.append(text)


def scan(file: BinaryIO) -> Index:
    """Build the index of a journal found on disk, up to its last whole line.

    Raises:
        ReadError: the file does not start with a journal header.
    """
    index = Index()
    for text in file:
        if not text.endswith(b"\n"):
            break
        try:
            line = from_json(text)
        except ValueError:
            if not index.header:
                break
            index.size += len(text)
            continue
        _note(index, line, (index.size, len(text)))
        index.size += len(text)
    if index.header.get("v") != VERSION:
        raise ReadError(
            f"{getattr(file, 'name', 'journal')}: no journal of this tool (version {VERSION}); "
            "remove it to read the dump.json beside it"
        )
    return index


def fold(path: str | os.PathLike[str]) -> Folded:
    """Read a journal into the documents it stands for.

    Raises:
        ReadError: it cannot be opened or is no journal.
    """
    try:
        with open(path, "rb") as file:
            index = scan(file)
            data = {name: _body(file, spans) for name, spans in index.entries.items()}
    except OSError as error:
        raise ReadError(f"{os.fspath(path)}: cannot be read ({error.strerror})") from error
    return Folded(_document_header(index), data, index.stack_document(), index.construct)


def dump_document(file: BinaryIO, index: Index) -> Iterator[bytes]:
    """The text of dump.json in pieces, entry by entry, as ``json.dump(..., indent=1)`` would lay it out."""
    yield dumps({**_document_header(index), "data": {}}, indent=1)[: -len(b"{}\n}")] + b"{"
    separator = b"\n"
    for name, spans in index.entries.items():
        # Serialised two levels deep so that the piece between the braces carries the right indentation.
        yield separator + dumps({"": {name: _body(file, spans)}}, indent=1)[len(b'{\n "": {\n') : -len(b"\n }\n}")]
        separator = b",\n"
    yield b"\n }\n}" if index.entries else b"}\n}"


def publish(path: Path, index: Index, extra_info: bool) -> int:
    """Write dump.json (and stack.json, construct.json) beside the journal at ``path``; returns the bytes written.

    Raises:
        OSError: a document cannot be written; the ones already there stay whole.
    """
    from msprobe.core.store.atomic import write_atomic
    from msprobe.core.store.layout import CONSTRUCT, DUMP, STACK

    with open(path, "rb") as file:
        size = write_atomic(path.with_name(DUMP), dump_document(file, index))
    if extra_info:
        size += write_atomic(path.with_name(STACK), [dumps(index.stack_document(), indent=1)])
        size += write_atomic(path.with_name(CONSTRUCT), [dumps(index.construct, indent=1)])
    return size


def _note(index: Index, line: Mapping[str, Any], span: Span) -> None:
    name = line.get("e")
    if name is None:
        if "v" in line:
            index.header = dict(line)
        elif "k" in line:
            index.frames[line["k"]] = list(line["f"])
        return
    if "d" in line:
        index.place(name, span)
    if "s" in line:
        index.use_stack(line["s"], name)
    if "p" in line:
        index.construct[name] = line["p"]


def _body(file: BinaryIO, spans: list[Span]) -> dict[str, Any]:
    body: dict[str, Any] = {}
    for offset, length in spans:
        file.seek(offset)
        body.update(from_json(file.read(length))["d"])
    return body


def _document_header(index: Index) -> dict[str, Any]:
    return {key: value for key, value in index.header.items() if key != "v"}
