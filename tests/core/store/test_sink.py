"""The folder of a step: private, flushed by itself, silent after one error, replacing what an earlier run left."""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from msprobe.core.dump.record.call_record import CallRecord, HeaderItem, StackRecord
from msprobe.core.log import logger
from msprobe.core.store import journal
from msprobe.core.store.flusher import FLUSHER
from msprobe.core.store.journal import fold
from msprobe.core.store.sink import BATCH, DirectorySink, PendingJobs
from tests.core.memory_sink import MemorySink


class Line:
    """A record of one entry."""

    def __init__(self, name: str, body: dict[str, Any]) -> None:
        self.name, self.body = name, body

    def lines(self) -> Iterator[dict[str, Any]]:
        yield {"e": self.name, "d": dict(self.body)}


HEADER = {"task": "statistics", "level": "L1", "framework": "fake", "dump_data_dir": None}


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., DirectorySink]]:
    sinks: list[DirectorySink] = []

    def open_sink(
        folder: Path = tmp_path / "step0" / "rank0", tensors: bool = False, pending: PendingJobs | None = None
    ) -> DirectorySink:
        sinks.append(DirectorySink(folder, HEADER, extra_info=True, tensors=tensors, pending=pending))
        return sinks[-1]

    yield open_sink
    for sink in sinks:
        FLUSHER.remove(sink)
        sink.release()


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    for level in ("warning", "error"):
        monkeypatch.setattr(logger, level, lambda text, *args, level=level: found.append(f"{level}: {text % args}"))
    return found


def within(seconds: float, test: Callable[[], bool]) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if test():
            return True
        time.sleep(0.01)
    return test()


def test_files_and_folders_are_the_users_alone(opened: Callable[..., DirectorySink], tmp_path: Path) -> None:
    sink = opened(tensors=True)
    sink.write(Line("A.b.0.forward", {"output": []}))
    sink.publish()
    for path in tmp_path.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_a_readable_document_is_there_from_the_first_moment(opened: Callable[..., DirectorySink]) -> None:
    assert json.loads((opened().folder / "dump.json").read_bytes())["data"] == {}


def test_records_reach_the_disk_by_themselves(opened: Callable[..., DirectorySink]) -> None:
    sink = opened()
    sink.write(Line("A.b.0.forward", {"output": [1]}))
    assert within(1.0, lambda: "A.b.0.forward" in fold(sink.folder / "dump.journal").data)
    assert json.loads((sink.folder / "dump.json").read_bytes())["data"] == {}


def test_running_calls_reach_the_disk_early(opened: Callable[..., DirectorySink]) -> None:
    sink = opened()

    class Running:
        def tick(self) -> None:
            sink.write(Line("A.slow.0.forward", {"input_args": [1]}))

        def release(self) -> None:
            """Nothing is open."""

    running = Running()
    FLUSHER.add(running)
    assert within(1.0, lambda: "A.slow.0.forward" in fold(sink.folder / "dump.journal").data)
    FLUSHER.remove(running)
    sink.write(Line("A.slow.0.forward", {"input_args": [1], "output": [2]}))
    sink.close()
    assert json.loads((sink.folder / "dump.json").read_bytes())["data"]["A.slow.0.forward"] == {
        "input_args": [1],
        "output": [2],
    }


def test_close_leaves_documents_and_no_journal(opened: Callable[..., DirectorySink]) -> None:
    sink = opened()
    sink.write(Line("A.b.0.forward", {"output": [1]}))
    sink.close()
    assert sorted(path.name for path in sink.folder.iterdir()) == ["construct.json", "dump.json", "stack.json"]


def test_records_that_arrive_while_the_documents_are_written_are_in_the_next_ones(
    opened: Callable[..., DirectorySink], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other threads go on with their training while one stops."""
    sink, write_atomic, count = opened(), journal.write_atomic, 0

    def add_batch() -> None:
        nonlocal count
        sink.write(StackRecord(count, [f"line {count}"]))
        sink.write(HeaderItem("optimizers", count))
        for number in range(count, count + BATCH):
            record = CallRecord(f"A.b.{number}.forward", {"output": [number]})
            record.stack, record.parent = count, None
            sink.write(record)
        count += BATCH

    def write_slowly(path: Path, pieces: Iterator[bytes]) -> int:
        def training() -> Iterator[bytes]:
            for piece in pieces:
                add_batch()
                yield piece

        return write_atomic(path, training())

    add_batch()
    monkeypatch.setattr(journal, "write_atomic", write_slowly)
    sink.publish()
    monkeypatch.undo()
    for name, entries in ("dump", BATCH), ("construct", BATCH), ("stack", 1):
        content = json.loads((sink.folder / f"{name}.json").read_bytes())
        assert len(content.get("data", content)) == entries
    sink.close()
    content = json.loads((sink.folder / "dump.json").read_bytes())
    assert content["data"] == {f"A.b.{number}.forward": {"output": [number]} for number in range(count)}
    assert content["optimizers"] == list(range(0, count, BATCH))


def test_a_later_body_adds_to_the_earlier_one_and_moves_to_the_end(opened: Callable[..., DirectorySink]) -> None:
    sink = opened()
    sink.write(Line("A.b.0.forward", {"input_args": [1]}))
    sink.publish()
    sink.write(Line("C.d.0.forward", {"output": [3]}))
    sink.write(Line("A.b.0.forward", {"output": [2]}))
    sink.publish()
    data = json.loads((sink.folder / "dump.json").read_bytes())["data"]
    assert list(data.items()) == [
        ("C.d.0.forward", {"output": [3]}),
        ("A.b.0.forward", {"input_args": [1], "output": [2]}),
    ]


def test_an_earlier_run_is_replaced_with_a_warning(opened: Callable[..., DirectorySink], said: list[str]) -> None:
    first = opened(tensors=True)
    (first.folder / "dump_tensor_data" / "old.pt").write_bytes(b"")
    (first.folder / "mine.txt").write_bytes(b"")
    first.close()
    second = opened()
    assert [line.split(":")[0] for line in said] == ["warning"]
    assert str(second.folder) in said[0]
    assert (second.folder / "mine.txt").exists()
    assert not (second.folder / "dump_tensor_data").exists()


def test_a_linked_tensor_folder_is_not_followed(opened: Callable[..., DirectorySink], tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "data").write_bytes(b"")
    folder = tmp_path / "step0" / "rank0"
    folder.mkdir(parents=True)
    (folder / "dump.json").write_bytes(b"{}")
    (folder / "dump_tensor_data").symlink_to(precious)
    opened()
    assert (precious / "data").exists()


def test_a_full_disk_is_said_once(opened: Callable[..., DirectorySink], said: list[str]) -> None:
    sink = opened()
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, sink._journal._file)
    os.close(full)
    for number in range(5):
        sink.write(Line(f"A.b.{number}.forward", {"output": [number]}))
        sink.flush()
    sink.publish()
    sink.close()
    assert sink.failed
    assert len([line for line in said if line.startswith("error")]) == 1
    assert "No space left on device" in said[0]
    assert str(sink.folder) in said[0]
    assert json.loads((sink.folder / "dump.json").read_bytes())["data"] == {}


def test_a_folder_that_cannot_be_made_is_said_once(
    opened: Callable[..., DirectorySink], said: list[str], tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"")
    sink = opened(tmp_path / "file" / "step0")
    sink.write(Line("A.b.0.forward", {}))
    sink.publish()
    sink.close()
    assert [line.split(":")[0] for line in said] == ["error"]


def test_waiting_statistics_are_fetched_before_their_record_is_written(opened: Callable[..., DirectorySink]) -> None:
    node: dict[str, Any] = {"Max": None}

    class Device:
        put = done = 0
        outstanding = True

        def settle_statistics(self) -> None:
            self.settle()

        def settle(self) -> None:
            node["Max"] = 7
            self.outstanding = False

    sink = opened(pending=Device())
    sink.write(Line("A.b.0.forward", {"output": [node]}))
    sink.write(Line("A.b.1.forward", {"output": []}))
    sink.close()
    data = json.loads((sink.folder / "dump.json").read_bytes())["data"]
    assert list(data) == ["A.b.0.forward", "A.b.1.forward"]
    assert data["A.b.0.forward"]["output"] == [{"Max": 7}]


def test_records_do_not_wait_on_the_disk_for_work_in_the_background(opened: Callable[..., DirectorySink]) -> None:
    """Each is written as it is, and whole when its jobs are done, in the order in which they came."""

    class Work:
        put = done = 0
        outstanding = True

        def settle_statistics(self) -> None:
            pass

        def settle(self) -> None:
            self.done, self.outstanding = self.put, False
            nodes[1]["data_name"] = "1.pt"

    work = Work()
    sink = opened(pending=work)
    nodes: list[dict[str, Any]] = [{"Max": 0}, {"Max": 1}]
    work.put = 2
    sink.write(Line("A.b.0.forward", {"output": [nodes[0]]}))
    assert within(1.0, lambda: "A.b.0.forward" in fold(sink.folder / "dump.journal").data)
    work.put = 4
    sink.write(Line("A.b.1.forward", {"output": [nodes[1]]}))
    assert within(1.0, lambda: "A.b.1.forward" in fold(sink.folder / "dump.journal").data)
    nodes[0]["data_name"] = "0.pt"
    work.done = 2
    first = {"output": [{"Max": 0, "data_name": "0.pt"}]}
    assert within(1.0, lambda: fold(sink.folder / "dump.journal").data["A.b.0.forward"] == first)
    assert fold(sink.folder / "dump.journal").data["A.b.1.forward"] == {"output": [{"Max": 1}]}
    sink.close()
    data = json.loads((sink.folder / "dump.json").read_bytes())["data"]
    assert list(data.items()) == [
        ("A.b.0.forward", first),
        ("A.b.1.forward", {"output": [{"Max": 1, "data_name": "1.pt"}]}),
    ]


def test_a_record_that_cannot_be_laid_out_costs_itself_only(opened: Callable[..., DirectorySink]) -> None:
    sink = opened()
    sink.write(Line("A.b.0.forward", {"output": [{1, 2}]}))
    sink.write(Line("A.b.1.forward", {"output": [3]}))
    sink.close()
    assert json.loads((sink.folder / "dump.json").read_bytes())["data"]["A.b.1.forward"] == {"output": [3]}


def test_the_memory_sink_merges_like_the_documents() -> None:
    sink = MemorySink()
    sink.write(Line("A.b.0.forward", {"input_args": [1]}))
    sink.write(Line("C.d.0.forward", {}))
    sink.write(Line("A.b.0.forward", {"output": [2]}))
    assert list(sink.entries().items()) == [
        ("C.d.0.forward", {}),
        ("A.b.0.forward", {"input_args": [1], "output": [2]}),
    ]
