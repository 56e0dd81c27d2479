"""The request for exceptions, field by field as the reference asked."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from msprobe.core.config import load_config
from msprobe.core.kernel_dumps.runtime_request import (
    EXCEPTION_REQUEST,
    OTHER_EXCEPTION_REQUEST,
    exception_document,
    find_exception_request,
    write_exception_request,
)

REQUESTS = Path(__file__).parent / "other_requests"


def recorded(case: str) -> tuple[Any, dict[str, Any]]:
    found = json.loads((REQUESTS / f"{case}.json").read_text())
    config = load_config(found["config"])
    found["request"]["common_dump_settings"]["path"] = os.path.abspath(config.dump_path)
    return config, found["request"]


def test_the_request_for_exceptions_equals_the_recorded_one() -> None:
    config, request = recorded("pynative_L2_exception")
    assert exception_document(config) == request


def test_asynchronous_and_chosen_ranks_reach_their_fields() -> None:
    config = load_config({"task": "exception_dump", "level": "L2", "dump_path": "/d", "rank": ["2-3"]})
    document = exception_document(config)
    assert document["common_dump_settings"]["support_device"] == [2, 3]
    assert document["e2e_dump_settings"]["enable"] is True


def test_it_is_written_under_the_documented_name_and_found_under_both(tmp_path: Path) -> None:
    config = load_config({"task": "exception_dump", "level": "L2", "dump_path": str(tmp_path / "dump")})
    path = write_exception_request(config)
    assert (path.name, json.loads(path.read_text())) == (EXCEPTION_REQUEST, exception_document(config))
    assert (EXCEPTION_REQUEST, OTHER_EXCEPTION_REQUEST) == (
        "kernel_graph_exception_dump.json",
        "kernel_graph_exception_check.json",
    )
    assert find_exception_request(path.parent) == path
    other = path.rename(path.with_name(OTHER_EXCEPTION_REQUEST))
    assert find_exception_request(path.parent) == other
    other.unlink()
    assert find_exception_request(path.parent) is None


@pytest.mark.parametrize("name", ["dump", "dump/deeper"])
def test_a_folder_that_cannot_be_had_is_an_error_of_the_system(name: str, tmp_path: Path) -> None:
    (tmp_path / name.split("/")[0]).write_text("a file")
    config = load_config({"task": "exception_dump", "level": "L2", "dump_path": str(tmp_path / name / "below")})
    with pytest.raises(OSError, match="dump"):
        write_exception_request(config)
