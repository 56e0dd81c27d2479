"""The file of relations, and what a user is told when something is wrong with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from msprobe.check.learned.learn import learn
from msprobe.check.learned.relations import read_relations, write_relations
from msprobe.core.errors import MsprobeException, ReadError
from tests.check.learned.examples import EPS, ORDER, ROWS, SIZE, run_of


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    every = [run_of(subject, *values) for subject, values in (
        (EPS, (1e-5,) * 3), (ROWS, (True,) * 3), (ORDER, (("a", "b"),) * 3), (SIZE, (0.0, 0.5, 0.25)),
    )]  # fmt: skip
    relations = learn(every, {"name": "msprobe"})
    write_relations(relations, tmp_path / "new" / "relations.json")
    assert read_relations(tmp_path / "new" / "relations.json") == relations
    assert (tmp_path / "new" / "relations.json").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "relations.json"),
        ("[]", "--learn"),
        ('{"findings": []}', "no file of relations: relations"),
        ('{"version": 9, "relations": []}', "another version"),
        (
            '{"version": 1, "relations": [{"kind": "guess"}], "runs": 1, "steps": 1, "ranks": 1}',
            "relations.0.says: Field required",
        ),
        (
            '{"version": 1, "relations": [{"says": "", "kind": "output", "owner": "", "path": "", "what": "",'
            ' "when": "", "rule": "within", "support": {"examples": 3, "steps": 3}, "low": 1, "high": -3}],'
            ' "runs": 1, "steps": 1, "ranks": 1}',
            "relations.0.high: Input should be greater than or equal to 0",
        ),
    ],
)
def test_a_file_that_is_none_is_told_in_one_line(tmp_path: Path, content: str, words: str) -> None:
    file = tmp_path / "relations.json"
    file.write_text(content)
    with pytest.raises(ReadError, match=words) as error:
        read_relations(file)
    assert "\n" not in str(error.value)


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MsprobeException, match="cannot be written"):
        write_relations(learn([run_of(EPS, 1e-5, 1e-5, 1e-5)]), tmp_path / "file" / "relations.json")


def test_the_schema_describes_the_file(tmp_path: Path) -> None:
    import jsonschema

    write_relations(learn([run_of(ORDER, ("a", "b"), ("a", "b"), ("a", "b"))]), tmp_path / "relations.json")
    schema = json.loads((Path(__file__).parents[3] / "schemas" / "check_relations.schema.json").read_text())
    jsonschema.validate(json.loads((tmp_path / "relations.json").read_text()), schema)
