"""A recording is made once, whoever asks. Changes are found, and a recording that was broken off is made again."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from tests.recordings import Recordings, copy_of, name_of

CALLS: list[tuple[object, ...]] = []


@pytest.fixture(autouse=True)
def _no_calls() -> None:
    CALLS.clear()


def record(folder: Path, *arguments: object) -> None:
    CALLS.append(arguments)
    time.sleep(0.05)
    assert list(folder.iterdir()) == []
    (folder / "step0").mkdir()
    (folder / "step0/dump.json").write_text(repr(arguments))


def record_and_fail_once(folder: Path) -> None:
    first = not CALLS
    record(folder)
    assert not first


def test_each_function_and_arguments_once(tmp_path: Path) -> None:
    recordings = Recordings(tmp_path / "shared")
    folders = [recordings(record, *arguments) for arguments in [("mix",), ("L0",), ("mix",), ("mix", 1), ("mix", "1")]]
    assert CALLS == [("mix",), ("L0",), ("mix", 1), ("mix", "1")]
    assert folders[0] == folders[2] and len(set(folders)) == 4
    assert (folders[3] / "step0/dump.json").read_text() == "('mix', 1)"


def test_workers_share_what_one_of_them_makes(tmp_path: Path) -> None:
    found: list[Path] = []

    def work() -> None:
        found.append(Recordings(tmp_path / "shared")(record, "mix"))

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(CALLS) == 1 and len(found) == 3
    assert {(folder / "step0/dump.json").read_text() for folder in found} == {"('mix',)"}


def test_what_a_failure_left_is_made_again(tmp_path: Path) -> None:
    recordings = Recordings(tmp_path / "shared")
    with pytest.raises(AssertionError):
        recordings(record_and_fail_once)
    recordings(record_and_fail_once)
    assert len(CALLS) == 2


def test_changes_are_told_and_a_copy_may_be_changed(tmp_path: Path) -> None:
    recordings = Recordings(tmp_path / "shared")
    recorded, kept = recordings(record, "changed"), recordings(record, "kept")
    (copy_of(kept / "step0", tmp_path / "copy") / "dump.json").write_text("other")
    assert recordings.changed() == []
    (recorded / "step0/dump.json").write_text("other")
    (recorded / "result.csv").write_text("")
    assert recordings.changed() == [f"{recorded.name}/result.csv", f"{recorded.name}/step0/dump.json"]


def test_a_function_needs_a_name_of_its_own() -> None:
    with pytest.raises(ValueError, match="has no name of its own"):
        name_of(lambda folder: None, ())


def test_names_are_readable() -> None:
    assert name_of(record, ("mix", ("train", 1.0))).startswith("test_recordings-record-mix-train-1.0-")
