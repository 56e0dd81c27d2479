"""Parts of two documents are the documents: cut where both have the same record, or not at all."""

import json
from pathlib import Path
from typing import Any

import pytest

from msprobe.core.errors import ReadError
from msprobe.core.store.partial_reader import opened_documents, records_in

HEADER = {"task": "statistics", "level": "mix", "dump_data_dir": "data"}


def records(count: int, length: int = 3) -> dict[str, Any]:
    return {
        f'Torch."odd" \\ ü.{k}.forward': {
            "input_args": [["a,\n  b", "data"]] * length,
            "output": [k, None, float("nan")],
        }
        for k in range(count)
    }


def write(path: Path, data: dict[str, Any], indent: int | None = 1, **more: Any) -> Path:
    path.write_text(json.dumps({**HEADER, "data": data, **more}, indent=indent))
    return path


def always(name: str) -> bool:
    return True


def read(target: Path, golden: Path, shares: list[float]) -> list[tuple[dict[str, Any], dict[str, Any]]] | None:
    with opened_documents(target, golden) as documents:
        parts = None if documents is None else documents.parts(shares, always)
        if documents is None or parts is None:
            return None
        assert documents.headers == ({**HEADER, "data": {}},) * 2
        return [(records_in(ours.document()), records_in(theirs.document())) for ours, theirs in parts]


@pytest.mark.parametrize("indent", [1, 2, 4])
@pytest.mark.parametrize("shares", [[1.0], [0.5, 0.5], [0.1, 0.2, 0.3, 0.4]], ids=["one", "two", "four"])
def test_parts_are_the_document(shares: list[float], indent: int, tmp_path: Path) -> None:
    data = records(200)
    found = read(write(tmp_path / "t", data, indent), write(tmp_path / "g", records(200, 7), indent), shares)
    assert found is not None and len(found) == len(shares)
    assert [list(ours) for ours, _ in found] == [list(theirs) for _, theirs in found]
    joined = {name: record for ours, _ in found for name, record in ours.items()}
    assert json.dumps(joined) == json.dumps(data)
    assert all(abs(len(ours) / 200 - share) < 0.05 for (ours, _), share in zip(found, shares, strict=True))


def test_what_cannot_be_cut(tmp_path: Path) -> None:
    good = write(tmp_path / "good", records(50))
    others = {
        "dense": write(tmp_path / "dense", records(50), None),
        "empty": write(tmp_path / "empty", {}),
        "behind": write(tmp_path / "behind", records(50), further=1),
        "others": write(tmp_path / "others", {f"Tensor.add.{k}.forward": {} for k in range(50)}),
    }
    short = tmp_path / "short"
    short.write_text(good.read_text()[:-20])
    for path in (*others.values(), short):
        assert read(good, path, [0.5, 0.5]) is None
        assert read(path, good, [0.5, 0.5]) is None


def test_a_cut_waits_for_a_record_that_may_end_a_part(tmp_path: Path) -> None:
    path = write(tmp_path / "t", {f"Tensor.add.{k}.forward": {"output": []} for k in range(40)})
    with opened_documents(path, path) as documents:
        assert documents is not None
        parts = documents.parts([0.2, 0.8], lambda name: name == "Tensor.add.29.forward")
        assert parts is not None and len(records_in(parts[0][0].document())) == 30
        assert documents.parts([0.2, 0.8], lambda name: False) is None


def test_no_part_of_a_document() -> None:
    with pytest.raises(ReadError, match="not the records of a part"):
        records_in(b'"a": {"b": [}')
