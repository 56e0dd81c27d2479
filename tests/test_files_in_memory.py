"""Temporary files of a test run lie in memory only where memory has room for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.files_in_memory import memory_for_files


def test_a_folder_with_room_is_taken(tmp_path: Path) -> None:
    assert memory_for_files(tmp_path, needed=1) == str(tmp_path)


@pytest.mark.parametrize("needed", [pytest.param(1 << 62, id="too-small")])
def test_a_small_one_is_not(tmp_path: Path, needed: int) -> None:
    assert memory_for_files(tmp_path, needed) is None


def test_none_that_is_not_there(tmp_path: Path) -> None:
    assert memory_for_files(tmp_path / "none", needed=1) is None
