"""What is really written fits the committed schemas."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

ROOT = Path(__file__).resolve().parents[3]
CASES = sorted((ROOT / "tests" / "golden" / "cases").glob("*/expected/step*/*"))


@pytest.mark.parametrize("name", ["dump", "stack", "construct"])
def test_recorded_documents_fit_their_schema(name: str) -> None:
    schema = json.loads((ROOT / "schemas" / f"{name}.schema.json").read_text("utf-8"))
    documents = [folder / f"{name}.json" for folder in CASES if (folder / f"{name}.json").exists()]
    assert documents
    for path in documents:
        Draft202012Validator(schema).validate(json.loads(path.read_text("utf-8")))


def test_a_document_without_data_is_refused() -> None:
    schema = json.loads((ROOT / "schemas" / "dump.schema.json").read_text("utf-8"))
    assert not Draft202012Validator(schema).is_valid({"task": "statistics", "level": "L1"})
