"""Ctrl-C may fall anywhere into the writing of records: those that were handed over are in the documents."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from msprobe.core.dump.record.call_record import CallRecord, EarlyRecord, StackRecord
from msprobe.core.store import journal
from msprobe.core.store import sink as sink_module
from msprobe.core.store.flusher import FLUSHER
from msprobe.core.store.journal import fold
from msprobe.core.store.layout import JOURNAL
from msprobe.core.store.sink import DirectorySink, Record

HEADER = {"task": "statistics", "level": "L1", "framework": "fake", "dump_data_dir": None}
OURS = {module.__file__ for module in (journal, sink_module)}


class Interrupt:
    """Raises KeyboardInterrupt at the ``at``-th moment in which Python looks for signals in the writing of records."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.seen: list[str] = []

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if event in {"call", "c_return"} and frame.f_code.co_filename in OURS:
            self.seen.append(frame.f_code.co_name)
            if len(self.seen) == self.at:
                raise KeyboardInterrupt

    def __enter__(self) -> None:
        sys.setprofile(self)

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)


def records() -> Iterator[Record]:
    """More than one batch: stacks, calls that are seen while they run, and parents."""
    yield StackRecord(0, ["File train.py, line 1, in main, \n step()"])
    for number in range(sink_module.BATCH):
        record = CallRecord(f"Torch.add.{number}.forward", {"input_args": [number]})
        record.parent = None
        if number % 8 == 0:
            yield EarlyRecord(record)
        record.body = {"input_args": [number], "output": [{"value": number}]}
        record.stack = 0
        yield record


def entry(number: int) -> dict[str, Any]:
    return {"input_args": [number], "output": [{"value": number}]}


def write_all(sink: DirectorySink, at: int) -> tuple[set[str], list[str]]:
    """The names handed over by a write that came to its end, and in which functions there were moments."""
    given, interrupt = set[str](), Interrupt(at)
    for record in records():
        try:
            with interrupt:
                sink.write(record)
        except KeyboardInterrupt:
            continue
        given.add(getattr(record, "name", type(record).__name__))
    try:
        with interrupt:
            sink.publish()
    except KeyboardInterrupt:
        pass
    return given, interrupt.seen


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[[int], DirectorySink]]:
    def open_sink(number: int) -> DirectorySink:
        sink = DirectorySink(tmp_path / str(number), HEADER, extra_info=True, tensors=False)
        FLUSHER.remove(sink)  # its beats would make the moments fall elsewhere in every run
        return sink

    return open_sink


# Between the return of open() and its ``with`` an interrupt leaves a file to its last reference, which closes it.
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
def test_every_record_is_written_once(opened: Callable[[int], DirectorySink]) -> None:
    _, moments = write_all(opened(0), 0)
    assert len(moments) > 300
    for at in sorted({*range(1, len(moments), 11), *(at for at, name in enumerate(moments, 1) if name == "flush")}):
        sink = opened(at)
        given, _ = write_all(sink, at)
        told = "StackRecord" in given
        given -= {"StackRecord", "EarlyRecord"}
        sink.write(CallRecord("Torch.add.99.forward", entry(99)))  # as training that catches it goes on
        given |= {"Torch.add.99.forward"}
        sink.flush()
        assert given <= fold(sink.folder / JOURNAL).data.keys(), at
        sink.close()
        data = json.loads((sink.folder / "dump.json").read_bytes())["data"]
        assert given <= data.keys(), at
        assert {name: data[name] for name in given} == {name: entry(int(name.split(".")[2])) for name in given}, at
        stacks = json.loads((sink.folder / "stack.json").read_bytes())
        assert not told or {*stacks["0"][0], "Torch.add.99.forward"} >= given, at
