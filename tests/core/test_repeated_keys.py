"""A document in which a part stands twice is refused, with the place; a nested key may have any name."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from msprobe.core.errors import ReadError
from msprobe.core.repeated_keys import parsed, repeated_key
from msprobe.core.store.partial_reader import opened_documents
from msprobe.core.store.reader import find_dumps, load_dump
from msprobe.jobs.compare import compare
from tests.compare.dumps import call, tensor, write

NAMES = "Torch.abs.0.forward", "Torch.exp.0.forward", "Torch.log.0.forward"
RECORD = call([tensor()], [tensor()])


def text(names: tuple[str, ...] = NAMES, indent: int | None = 1, colon: str = ": ", quoted: str = "") -> str:
    """Return a document; ``quoted`` stands for the last name as it is written."""
    marked = {f"{number} {name}": RECORD for number, name in enumerate(names)}
    written = json.dumps({"task": "statistics", "data": marked}, indent=indent, separators=(",", colon))
    for number, name in enumerate(names):
        written = written.replace(f'"{number} {name}"', quoted if quoted and number == len(names) - 1 else f'"{name}"')
    return written


def problem(written: str) -> str:
    content = written.encode()
    return repeated_key(content, json.loads(content))


@pytest.mark.parametrize("indent", [None, 1, 4])
@pytest.mark.parametrize("colon", [": ", ":", " \n: "])
def test_an_entry_that_stands_twice(indent: int | None, colon: str) -> None:
    assert problem(text(indent=indent, colon=colon)) == ""
    said = problem(text((*NAMES, NAMES[1]), indent, colon))
    assert said.startswith(f"data['{NAMES[1]}'] stands there twice")
    assert ("(lines " in said) == (indent is not None or "\n" in colon)


def test_a_name_that_is_written_in_two_ways() -> None:
    assert "stands there twice" in problem(text((*NAMES, NAMES[0]), quoted='"\\u0054orch.abs.0.forward"'))


def test_data_that_stands_twice() -> None:
    twice = text()[:-2] + f',\n "data": {json.dumps({"Torch.sin.0.forward": RECORD})}\n}}'
    lines = f"lines 3 and {len(twice.splitlines()) - 1}"
    assert problem(twice) == f"`data` stands there twice ({lines}), and nothing tells which of them is right"


def test_arguments_may_have_the_name_of_an_entry() -> None:
    nested = call([tensor()], [tensor()], data={"data": tensor()}, **{NAMES[0]: tensor()})
    assert problem(json.dumps({"task": "statistics", "data": dict.fromkeys(NAMES, nested)})) == ""


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": "), (" , ", " \t:\n"), (",", " " * 90 + ":")])
def test_a_key_that_stands_twice_at_any_depth(separators: tuple[str, str]) -> None:
    written = text(indent=None)
    for once, place in (('"task": "statistics"', "`task`"), ('"Max": 2.0', ".'input_args'..0..'Max'")):
        document = written.replace(once, f"{once}, {once}", 1).replace(", ", separators[0]).replace(": ", separators[1])
        assert re.match(rf"(data..{NAMES[0]}'.)?{place}.? stands there twice", problem(document))
    assert problem(written.replace(", ", separators[0]).replace(": ", separators[1])) == ""


@pytest.mark.parametrize("name", ["Max\\", 'a"', '\\"', "", ":", ' "x" : ', "\u2028é", 'f("a": 1)', "\\\\"])
def test_names_and_texts_with_quotes_and_colons(name: str) -> None:
    for ascii_only in (True, False):
        once = json.dumps({name: [name, {name: 1}]}, ensure_ascii=ascii_only)
        twice = f"{once[:-1]}, {json.dumps(name, ensure_ascii=ascii_only)} : 2}}"
        assert problem(once) == "" and "stands there twice" in problem(twice)


def test_a_key_beyond_the_first_pieces_of_a_text() -> None:
    long = json.dumps({"a": "x" * (1 << 20), "b": {f"{number}": number for number in range(200_000)}})
    assert problem(long) == ""
    assert problem(f'{long[:-2]}, "77": 1}}}}') == (
        "b['77'] stands there twice, and nothing tells which of them is right"
    )


@pytest.mark.parametrize("document", ["construct.json", "stack.json"])
def test_documents_beside_a_dump(tmp_path: Path, document: str) -> None:
    folder = write(tmp_path / "t", dict.fromkeys(NAMES, RECORD), dict.fromkeys(NAMES), {NAMES[0]: ["File a, line 1"]})
    path = folder / document
    key = next(iter(json.loads(path.read_text())))
    path.write_text(f'{path.read_text()[:-1]}, "{key}": null}}')
    with pytest.raises(ReadError, match=rf"{document}: `{re.escape(key)}` stands there twice"):
        compare(folder, folder)


def test_a_small_document() -> None:
    assert parsed('{"a": [{"b": 1}]}') == {"a": [{"b": 1}]}
    with pytest.raises(ValueError, match="'b' is in it twice"):
        parsed(b'{"a": [{"b": 1, "b": 1}]}')


def test_texts_that_look_like_entries() -> None:
    value = {"type": "str", "value": f'"{NAMES[1]}": {{ a\\": {{ \\u12": {{'}
    record = call([value, value], [tensor()])
    assert problem(json.dumps({"task": "statistics", "data": dict.fromkeys(NAMES, record)})) == ""


def test_such_a_dump_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "dump.json"
    path.write_text(text((*NAMES, NAMES[0])))
    (place,) = find_dumps(tmp_path)
    with pytest.raises(ReadError, match=r"dump.json: data\['Torch.abs.0.forward'\] stands there twice .*copy it again"):
        load_dump(place)


def test_a_part_with_a_statistic_that_stands_twice(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(text().replace('"Norm": 5.0', '"Norm": 5.0, "Norm": 6.0', 1))
    with opened_documents(path, path) as documents:
        parts = documents.parts([1.0], lambda name: True) if documents is not None else None
        assert parts
        with pytest.raises(ReadError, match=r"'Norm'. stands there twice"):
            parts[0][0].records()
