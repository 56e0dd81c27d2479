"""Runs that have recorded into one folder are told apart, and one of them is read."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from msprobe.core.errors import ReadError
from msprobe.core.log import logger
from msprobe.core.store import runs
from msprobe.core.store.reader import Place, find_dumps, find_run, load_dump

Recorded = Callable[..., Path]


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []
    monkeypatch.setattr(logger, "warning", lambda text, *args: lines.append(text % args))
    return lines


def recorded(root: Path, place: str, *times: float, document: str = "dump.json", processes: int = 0) -> None:
    """Write a dump of a program that began at the first time, and whose step began at the second."""
    header = {"task": "statistics", "level": "L1", "framework": "pytorch", "dump_data_dir": None}
    if times:
        header["run"] = dict(zip(("program_began", "step_began"), times, strict=True)) | (
            {"processes": processes} if processes else {}
        )
    path = root / place / document
    path.parent.mkdir(parents=True)
    body = {"v": 1, **header} if document == "dump.journal" else {**header, "data": {}}
    path.write_text(json.dumps(body) + "\n")


def names(places: list[Place]) -> list[str]:
    return [f"step{place.step}/{place.document.parent.name}" for place in places]


def test_the_newest_run_is_read_and_the_others_are_named(tmp_path: Path, said: list[str]) -> None:
    recorded(tmp_path, "step0/proc9", 1000.0, 1002.5)
    recorded(tmp_path, "step1/proc9", 1000.0, 1003.5)
    recorded(tmp_path, "step0/proc5", 2000.0, 2002.5, document="dump.journal")
    assert names(find_dumps(tmp_path)) == names(find_dumps(tmp_path, "2")) == ["step0/proc5"]
    assert names(find_dumps(tmp_path, "1")) == ["step0/proc9", "step1/proc9"]
    assert names(find_dumps(tmp_path, "all")) == ["step0/proc5", "step0/proc9", "step1/proc9"]
    assert names(find_dumps(tmp_path / "step1")) == ["step1/proc9"]
    assert names(find_dumps(tmp_path / "step0")) == ["step0/proc5"]
    (line, alone, _) = said
    assert alone.startswith(f"{tmp_path / 'step1' / 'proc9' / 'dump.json'} is of an earlier run, begun 1970-")
    assert line.startswith(f"{tmp_path} holds 2 runs (1: steps 0 to 1 of proc9 begun 1970-")
    assert line.endswith("the newest is read; --run 1 to 2 chooses another, --run all takes them together")
    for wrong in ("0", "3", "x", "-1"):
        with pytest.raises(ReadError, match=f"there is no run .{wrong}.; it holds 2 runs .*; give 1 to 2, or all"):
            find_dumps(tmp_path, wrong)


def test_ranks_of_one_run_begin_one_after_the_other(tmp_path: Path, said: list[str]) -> None:
    """A rank that begins while another one records belongs to its run, also where the first one has ended by then."""
    for rank in range(20):
        recorded(tmp_path, f"step0/rank{rank}", 1000.0 + rank, 1001.5 + rank)
    recorded(tmp_path, "step1/rank0", 1000.0, 1001.7)
    recorded(tmp_path, "step7/rank0", 900.0, 999.0)  # of an earlier run, which had more steps
    assert len(find_dumps(tmp_path)) == 21
    assert names(find_dumps(tmp_path, "1")) == ["step7/rank0"]
    assert len(said) == 1


@pytest.mark.parametrize("kind", ["proc", "rank"])
@pytest.mark.parametrize("place", ["step3", "step3/{}1", "step3/{}1/dump.json"])
def test_a_step_that_an_earlier_run_left_is_named_where_it_is_read_alone(
    kind: str, place: str, tmp_path: Path, said: list[str]
) -> None:
    later = 1 if kind == "rank" else 2
    for step in range(4):
        recorded(tmp_path, f"step{step}/{kind}{1 if step > 1 else later}", *(2000.0 - 1000.0 * (step > 1), 2001.0))
    recorded(tmp_path, f"step3/{kind}0", 1000.0, 1001.0)
    path = tmp_path / "step3" / f"{kind}1" / "dump.json"
    path.write_text(path.read_text().replace("2001.0", "1001.0"))
    find_dumps(tmp_path / place.format(kind))
    assert ["is of an earlier run" in line and "step 0 beside it is of one begun" in line for line in said] == [True]


def test_a_rank_with_another_clock_is_of_no_earlier_run(tmp_path: Path, said: list[str]) -> None:
    recorded(tmp_path, "step0/rank0", 1120.0, 1121.0)
    recorded(tmp_path, "step0/rank1", 1000.0, 1001.0)
    recorded(tmp_path, "step1/rank1", 1000.0, 1002.0)
    assert names(find_dumps(tmp_path / "step1")) == ["step1/rank1"]
    assert said == []


def test_dumps_without_times_are_one_run_the_oldest(tmp_path: Path, said: list[str]) -> None:
    recorded(tmp_path, "step0/rank0")
    recorded(tmp_path, "step0/rank1")
    assert len(find_dumps(tmp_path)) == 2
    assert said == []
    recorded(tmp_path, "step0/rank2", 1000.0, 1001.0)
    assert names(find_dumps(tmp_path)) == ["step0/rank2"]
    assert names(find_dumps(tmp_path, "1")) == ["step0/rank0", "step0/rank1"]
    assert "(1: step 0 of 2 processes; 2: step 0 of rank2 begun" in said[0]


def test_a_clock_that_goes_back_makes_no_run_of_its_own(tmp_path: Path, said: list[str]) -> None:
    recorded(tmp_path, "step0/rank0", 1000.0, 1002.0)
    recorded(tmp_path, "step1/rank0", 1000.0, 990.0)
    assert len(find_dumps(tmp_path)) == 2
    assert said == []


@pytest.mark.parametrize("processes", [0, 2])
def test_ranks_whose_clocks_differ_are_one_run(processes: int, tmp_path: Path, said: list[str]) -> None:
    for step in range(3):
        for rank, late in ((0, 0.0), (1, 120.0)):
            times = 1000.0 + late, 1001.0 + late + step
            recorded(tmp_path, f"step{step}/rank{rank}", *times, processes=processes)
    assert len(find_dumps(tmp_path)) == 6
    (line,) = said
    assert "its ranks were not there at the same time; they are read as one run" in line


def test_a_rank_that_is_there_twice_is_of_two_runs(tmp_path: Path, said: list[str]) -> None:
    """The second run has replaced the first steps of the first one; the clock of rank 1 is two minutes ahead."""
    for rank, late in ((0, 0.0), (1, 120.0)):
        recorded(tmp_path, f"step0/rank{rank}", 5000.0 + late, 5001.0 + late)
        recorded(tmp_path, f"step1/rank{rank}", 1000.0 + late, 1009.0 + late)
    assert names(find_dumps(tmp_path)) == ["step0/rank0", "step0/rank1"]
    assert names(find_dumps(tmp_path, "1")) == ["step1/rank0", "step1/rank1"]
    run = find_run(tmp_path)
    assert len(run.unread) == 1 and run.unread[0].startswith("1: step 1 of 2 processes begun")
    assert find_run(tmp_path, "2").unread == find_run(tmp_path, "all").unread == []


def test_jobs_of_other_sizes_are_two_runs(tmp_path: Path) -> None:
    """The second run, of two ranks, has replaced those of the first one, which had four."""
    for rank in range(4):
        recorded(tmp_path, f"step0/rank{rank}", *((5000.0, 5001.0) if rank < 2 else (1000.0, 1001.0)), processes=0)
    assert len(find_dumps(tmp_path)) == 4
    for rank in range(4):
        document = tmp_path / f"step0/rank{rank}/dump.json"
        content = json.loads(document.read_text())
        content["run"]["processes"] = 2 if rank < 2 else 4
        document.write_text(json.dumps(content))
    assert names(find_dumps(tmp_path)) == ["step0/rank0", "step0/rank1"]


RECORDING = """
import os, sys, time
from pathlib import Path
from msprobe.core.store.sink import DirectorySink
def record(name):
    sink = DirectorySink(Path(sys.argv[1]) / "step0" / name, {"task": "statistics"}, extra_info=False, tensors=False)
    sink.close()
record("proc%d" % os.getpid())
if not os.fork():
    record("proc%d" % os.getpid())
"""


def test_programs_that_record_one_after_the_other(tmp_path: Path, said: list[str]) -> None:
    """A forked process belongs to the run of its parent; ``dump.json`` holds the times in its head."""
    for _ in range(2):
        subprocess.run([sys.executable, "-c", RECORDING, str(tmp_path)], check=True)
    assert len(list((tmp_path / "step0").iterdir())) == 4
    first, second = find_dumps(tmp_path, "1"), find_dumps(tmp_path)
    assert (len(first), len(second)) == (2, 2)
    times = [load_dump(place).header["run"]["program_began"] for place in (*first, *second)]
    assert times[0] == times[1] < times[2] == times[3]
    assert len(said) == 1


def test_the_run_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WORLD_SIZE", "RANK_SIZE"):
        monkeypatch.delenv(name, raising=False)
    times = runs.run_of_step()
    assert "processes" not in times
    monkeypatch.setenv("RANK_SIZE", "8")
    assert runs.run_of_step()["processes"] == 8
    monkeypatch.setenv("RANK_SIZE", "9" * 5000)
    assert "processes" not in runs.run_of_step()
    assert times["program_began"] < times["step_began"]
