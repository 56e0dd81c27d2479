"""Modes of files and folders from MSPROBE_FILE_MODE."""

from __future__ import annotations

import pytest

from msprobe.core.store.safe_files import file_mode, folder_mode


@pytest.mark.parametrize(
    ("text", "files", "folders"),
    [
        (None, 0o600, 0o700),
        ("", 0o600, 0o700),
        ("600", 0o600, 0o700),
        ("640", 0o640, 0o750),
        ("0644", 0o644, 0o755),
        ("660", 0o660, 0o770),
    ],
)
def test_folders_can_be_entered_by_readers(text: str | None, files: int, folders: int) -> None:
    assert file_mode(text) == files
    assert folder_mode(files) == folders


@pytest.mark.parametrize("text", ["755", "620", "400", "6400", "u=rw", "640 ", "-640", "0o640"])
def test_anything_else_leaves_files_private(text: str, caplog: pytest.LogCaptureFixture) -> None:
    assert file_mode(text) == 0o600
    assert f"MSPROBE_FILE_MODE={text} is not used" in caplog.text
