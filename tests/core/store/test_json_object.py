"""Any file that should be one JSON object is that object or one line of what is wrong."""

import math
from pathlib import Path

import pytest

from msprobe.core.errors import ReadError
from msprobe.core.store.reader import read_json_object


def test_the_object_with_what_python_writes_for_odd_numbers(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"a": [NaN, Infinity, 12345678901234567890123], "ü": "✓"}', encoding="utf-8")
    found = read_json_object(path)
    assert math.isnan(found["a"][0])
    assert found["a"][1:] == [math.inf, 12345678901234567890123]
    assert found["ü"] == "✓"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not valid JSON"),
        (b'{"a": 1', "not valid JSON"),
        (b'{"a": "\xff"}', "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
        (b"[1]", "not a JSON object such as {}"),
        (b"null", "not a JSON object such as {}"),
    ],
    ids=["empty", "cut", "not UTF-8", "deep", "list", "null"],
)
def test_anything_else_is_named_in_one_line(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(ReadError) as told:
        read_json_object(path, "{}")
    assert str(path) in told.value.error_info
    assert said in told.value.error_info
    assert "\n" not in told.value.error_info


def test_a_file_that_is_not_there_or_a_folder(tmp_path: Path) -> None:
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(ReadError, match="cannot be read"):
            read_json_object(path)
