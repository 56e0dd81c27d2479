"""The journal: what goes in comes out of it and of the documents, however much of it is cut off."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from msprobe.core.errors import ReadError
from msprobe.core.store import journal

NUMBERS = (
    st.floats() | st.sampled_from([math.nan, math.inf, -math.inf, -0.0, 5e-324]) | st.integers(-(2**63), 2**64 - 1)
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
BODIES = st.dictionaries(st.sampled_from(["input_args", "output", "parameters", "error"]), VALUES, max_size=3)
NAMES = st.sampled_from(["Functional.relu.0.forward", "a.b", "ünïcode.0.forward", 'quote".0.forward', "tab\t.0"])
ENTRIES = st.lists(st.tuples(NAMES, BODIES, st.none() | st.integers(0, 2), st.none() | NAMES), max_size=8)
HEADER = {"v": journal.VERSION, "task": "statistics", "level": "L1", "framework": "fake", "dump_data_dir": None}


def write(path: Path, lines: list[dict[str, Any]]) -> tuple[journal.JournalIndex, list[int]]:
    """A journal of these lines; its index as a writer builds it, and the offset after each piece."""
    index, ends, text = journal.JournalIndex(), [], b""
    for line in lines:
        noted, piece = journal.encode(dict(line))
        index.note(noted, piece.index(b"\n") + 1)
        text += piece
        ends.append(len(text))
    path.write_bytes(text)
    return index, ends


def lines_of(entries: list[Any]) -> list[dict[str, Any]]:
    stacks = [{"k": number, "f": [f"File a.py, line {number}, in f, \n x"]} for number in range(3)]
    found: list[dict[str, Any]] = [HEADER, *stacks]
    for name, body, stack, parent in entries:
        found.append({"e": name, "d": body, **({} if stack is None else {"s": stack}), "p": parent})
    return found


def data_of(entries: list[Any]) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for name, body, _, _ in entries:
        data[name] = {**data.pop(name, {}), **body}
    return data


@given(entries=ENTRIES)
def test_folding_gives_back_what_was_written(entries: list[Any], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("j") / "dump.journal"
    written, _ = write(path, lines_of(entries))
    folded = journal.fold(path)
    assert folded.header == {key: value for key, value in HEADER.items() if key != "v"}
    assert repr(folded.data) == repr(data_of(entries))
    assert folded.construct == {name: parent for name, _, _, parent in entries}
    used = {stack for _, _, stack, _ in entries if stack is not None}
    assert len(folded.stack) == len(used)
    assert written.size == path.stat().st_size


@given(entries=ENTRIES)
def test_the_published_document_is_what_json_would_write(
    entries: list[Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("j") / "dump.journal"
    index, _ = write(path, lines_of(entries))
    journal.publish(path, index, True)
    text = path.with_name("dump.json").read_bytes()
    assert repr(json.loads(text)["data"]) == repr(data_of(entries))
    assert list(json.loads(text)) == ["task", "level", "framework", "dump_data_dir", "data"]
    assert json.loads(path.with_name("construct.json").read_bytes()) == journal.fold(path).construct
    assert json.loads(path.with_name("stack.json").read_bytes()) == journal.fold(path).stack


def test_ascii_content_is_laid_out_like_json_dump(tmp_path: Path) -> None:
    leaf = {"type": "torch.Tensor", "shape": [2, 3], "Max": 1.5, "Min": math.nan, "Mean": -math.inf, "x": [], "y": {}}
    entries = [("A.b.0.forward", {"input_args": [leaf], "output": []}, None, None), ("C.d.0.forward", {}, None, None)]
    index, _ = write(tmp_path / "dump.journal", lines_of(entries))
    journal.publish(tmp_path / "dump.journal", index, False)
    expected = {**{key: value for key, value in HEADER.items() if key != "v"}, "data": data_of(entries)}
    assert (tmp_path / "dump.json").read_text("utf-8") == json.dumps(expected, indent=1)
    assert not (tmp_path / "stack.json").exists()


def test_an_empty_step_is_a_whole_document(tmp_path: Path) -> None:
    index, _ = write(tmp_path / "dump.journal", [HEADER])
    journal.publish(tmp_path / "dump.journal", index, True)
    assert json.loads((tmp_path / "dump.json").read_bytes())["data"] == {}
    assert json.loads((tmp_path / "stack.json").read_bytes()) == {}


def test_cut_at_any_byte_it_keeps_every_whole_piece(tmp_path: Path) -> None:
    body = {"input_args": [{"Max": 1.0, "text": "a\nb {}é"}], "output": []}
    lines = lines_of([
        ("A.b.0.forward", body, 0, None),
        ("A.b.1.forward", body, 0, "p"),
        ("A.b.0.forward", body, 1, "q"),
    ])
    path, cut = tmp_path / "dump.journal", tmp_path / "cut.journal"
    _, ends = write(path, lines)
    text = path.read_bytes()
    for size in range(len(text) + 1):
        cut.write_bytes(text[:size])
        whole = sum(end <= size for end in ends)
        if whole == 0:
            assert journal.fold(cut) == journal.Folded({}, {})  # killed while it created the journal
            continue
        expected = [(line["e"], line["d"], None, None) for line in lines[:whole] if "e" in line]
        assert journal.fold(cut).data == data_of(expected), size


@pytest.mark.parametrize("content", [b"{}\n", b'{"v":1}\n', b"\x00\xff\n", b"[1]\n", b"null\n", b"other"])
def test_what_is_no_journal_is_refused_in_one_line(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "dump.journal").write_bytes(content)
    with pytest.raises(ReadError, match="not a journal") as caught:
        journal.fold(tmp_path / "dump.journal")
    assert "\n" not in str(caught.value)


@given(st.binary(max_size=200))
@example(b'{"q":9223372036854775807,"n":1}\n')
def test_a_damaged_tail_never_hides_what_came_before(tail: bytes) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "dump.journal")
        write(path, lines_of([("A.b.0.forward", {"output": [1]}, None, None)]))
        path.write_bytes(path.read_bytes() + tail)
        assert journal.fold(path).data["A.b.0.forward"] == {"output": [1]}


def test_a_missing_journal_is_a_read_error(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match="cannot be read"):
        journal.fold(tmp_path / "dump.journal")


@pytest.mark.parametrize("value", ["\ud800", {"\udfff": 1}, object(), 10**30, {(1, 2): 3}], ids=type)
def test_what_json_cannot_say_does_not_lose_the_record(value: Any, tmp_path: Path) -> None:
    write(tmp_path / "dump.journal", lines_of([("A.b.0.forward", {"input_args": [value], "output": [2]}, None, None)]))
    assert journal.fold(tmp_path / "dump.journal").data["A.b.0.forward"]["output"] == [2]


def test_a_surrogate_in_a_name_is_kept(tmp_path: Path) -> None:
    name = "Module.\ud800.forward.0"
    write(tmp_path / "dump.journal", [HEADER, {"e": name, "d": {"output": [2]}, "p": None}])
    assert [entry["output"] for entry in journal.fold(tmp_path / "dump.journal").data.values()] == [[2]]


def test_what_a_handler_raises_while_json_is_made_reaches_the_program() -> None:
    """A ValueError is also what pydantic raises where a value has no JSON form."""

    def handler(frame: FrameType, event: str, function: object) -> None:
        if event == "c_return" and function is journal.to_json:
            raise ValueError("from outside")

    sys.setprofile(handler)
    try:
        with pytest.raises(ValueError, match="from outside"):
            journal.dumps({"a": 1})
    finally:
        sys.setprofile(None)
