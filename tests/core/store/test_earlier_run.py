"""What lies in a dump_path before a run begins, and what the run says of it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from msprobe.core.log import logger
from msprobe.core.store import process_folders
from msprobe.core.store.process_folders import warn_of_earlier_folders


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setattr(logger, "warning", lambda text, *args: found.append(text % args))
    return found


def recorded(root: Path, *places: str, earlier: bool = True, document: str = "dump.json") -> None:
    for place in places:
        path = root / place / document
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"{}")
        if earlier:
            os.utime(path, (1, 1))


@pytest.mark.parametrize(
    ("places", "told"),
    [
        pytest.param(["step0/rank0"], None, id="what is replaced"),
        pytest.param(["step0/rank1"], "1 folder written before this program began (step0/rank1)", id="rank"),
        pytest.param(["step0/proc7"], "1 folder written before this program began (step0/proc7)", id="process"),
        pytest.param(["step0/rank0_7"], "1 folder written before this program began (step0/rank0_7)", id="shared rank"),
        pytest.param(
            ["step10/rank0", "step2/rank0", "step0/rank0", "step3/rank0", "step4/rank0"],
            "4 folders written before this program began (step2/rank0, step3/rank0, step4/rank0, ...)",
            id="steps",
        ),
        pytest.param(["step0/notes", "other/rank0", "stepping/rank0"], None, id="nobody's"),
    ],
)
def test_folders_that_this_run_does_not_replace(
    tmp_path: Path, said: list[str], places: list[str], told: str | None
) -> None:
    recorded(tmp_path, *places)
    warn_of_earlier_folders(tmp_path, tmp_path / "step0" / "rank0")
    assert len(said) == (told is not None)
    assert told is None or said[0].startswith(f"{tmp_path} holds {told}: ")


@pytest.mark.parametrize("document", ["dump.json", "debug.json", "dump.journal"])
def test_what_counts_is_when_it_was_written(tmp_path: Path, said: list[str], document: str) -> None:
    recorded(tmp_path, "step0/rank1", document=document)
    recorded(tmp_path, "step0/rank2", document=document, earlier=False)
    warn_of_earlier_folders(tmp_path, tmp_path / "step0" / "rank0")
    assert "1 folder written" in said[0]
    assert "rank1" in said[0]


def test_of_a_large_dump_the_first_folders_are_looked_at(
    tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_folders, "_MOST_FOLDERS", 4)
    recorded(tmp_path, *(f"step{number}/rank0" for number in range(10)))
    warn_of_earlier_folders(tmp_path, tmp_path / "step0" / "rank0")
    assert "3 folders written" in said[0]


def test_a_step_that_another_process_removes_meanwhile_ends_it(
    tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(tmp_path, "step0/rank1", "step1/rank1")
    steps = Path.iterdir

    def removing(path: Path) -> Iterator[Path]:
        if path.name == "step1":
            shutil.rmtree(path)
        return steps(path)

    monkeypatch.setattr(Path, "iterdir", removing)
    warn_of_earlier_folders(tmp_path, tmp_path / "step0" / "rank0")
    assert said == []
    warn_of_earlier_folders(tmp_path / "nowhere", tmp_path / "step0" / "rank0")
    assert said == []
