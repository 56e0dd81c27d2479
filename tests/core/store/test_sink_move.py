"""A sink whose folder is renamed while it writes."""

from __future__ import annotations

from pathlib import Path

from msprobe.core.dump.record.call_record import CallRecord
from msprobe.core.store.layout import DUMP, JOURNAL, TENSORS
from msprobe.core.store.reader import find_dumps, load_dump
from msprobe.core.store.sink import DirectorySink

BODY = {"input_args": [], "input_kwargs": {}, "output": []}


def open_sink(folder: Path) -> DirectorySink:
    header = {"task": "tensor", "level": "L1", "framework": "pytorch", "dump_data_dir": str(folder / TENSORS)}
    return DirectorySink(folder, header, extra_info=True, tensors=True)


def names(sink: DirectorySink) -> list[str]:
    return list(load_dump(find_dumps(sink.folder)[0]).data)


def test_records_before_and_after_are_in_one_dump(tmp_path: Path) -> None:
    sink = open_sink(tmp_path / "proc7")
    sink.write(CallRecord("Torch.add.0.forward", dict(BODY)))
    assert sink.move(tmp_path / "rank0")
    sink.write(CallRecord("Torch.add.1.forward", dict(BODY)))
    sink.close()
    assert names(sink) == ["Torch.add.0.forward", "Torch.add.1.forward"]
    assert str(tmp_path / "rank0" / TENSORS) in (tmp_path / "rank0" / DUMP).read_text()
    assert not (tmp_path / "proc7").exists()


def test_a_process_killed_after_the_move_loses_nothing(tmp_path: Path) -> None:
    sink = open_sink(tmp_path / "proc7")
    sink.write(CallRecord("Torch.add.0.forward", dict(BODY)))
    assert sink.move(tmp_path / "rank0")
    sink.flush()
    assert (tmp_path / "rank0" / JOURNAL).is_file()
    assert names(sink) == ["Torch.add.0.forward"]
    sink.close()


def test_an_earlier_run_in_the_place_is_replaced(tmp_path: Path) -> None:
    earlier = open_sink(tmp_path / "rank0")
    earlier.write(CallRecord("Torch.mul.0.forward", dict(BODY)))
    earlier.close()
    sink = open_sink(tmp_path / "proc7")
    assert sink.move(tmp_path / "rank0")
    sink.write(CallRecord("Torch.add.0.forward", dict(BODY)))
    sink.close()
    assert names(sink) == ["Torch.add.0.forward"]


def test_files_of_someone_else_stay_and_the_move_fails(tmp_path: Path) -> None:
    (tmp_path / "rank0").mkdir()
    (tmp_path / "rank0" / "notes.txt").write_text("mine")
    sink = open_sink(tmp_path / "proc7")
    assert not sink.move(tmp_path / "rank0")
    sink.write(CallRecord("Torch.add.0.forward", dict(BODY)))
    sink.close()
    assert sink.folder == tmp_path / "proc7"
    assert names(sink) == ["Torch.add.0.forward"]
    assert (tmp_path / "rank0" / "notes.txt").read_text() == "mine"
