"""A document in which a part stands twice is refused, with the place; a nested key may have any name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from msprobe.core.errors import ReadError
from msprobe.core.repeated_keys import repeated_entry
from msprobe.core.store.partial_reader import opened_documents
from msprobe.core.store.reader import find_dumps, load_dump
from tests.compare.dumps import call, tensor

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
    return repeated_entry(content, json.loads(content))


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


def test_such_a_dump_is_not_split(tmp_path: Path) -> None:
    """Parts of a document are read by processes that see one of the two entries each."""
    whole, twice = tmp_path / "a.json", tmp_path / "b.json"
    whole.write_text(text())
    twice.write_text(text((*NAMES, NAMES[0])))
    for target, golden, parts in ((whole, whole, 2), (whole, twice, None), (twice, whole, None)):
        with opened_documents(target, golden) as documents:
            assert documents is not None
            found = documents.parts([0.5, 0.5], lambda name: True)
            assert (found if found is None else len(found)) == parts
