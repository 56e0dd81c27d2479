"""The order in which the runtime of an NPU is asked, with a runtime that writes down what it is asked."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from msprobe.core.dump.session.kernel_level import KernelWindow
from msprobe.core.store.sink import DirectorySink


class RecordingRuntime:
    """Implements ``NpuRuntime``; ``failing`` raises as the runtime does for a bad configuration."""

    def __init__(self, failing: str = "") -> None:
        self.asked: list[str] = []
        self.paths: list[Path] = []
        self._failing = failing

    def _note(self, name: str) -> None:
        self.asked.append(name)
        if name == self._failing:
            raise RuntimeError(f"{name} failed")

    def synchronize(self) -> None:
        self._note("synchronize")

    def init_dump(self) -> None:
        self._note("init_dump")

    def set_dump(self, path: str) -> None:
        self.paths.append(Path(path))
        self._note("set_dump")

    def finalize_dump(self) -> None:
        self._note("finalize_dump")


OPENED = ["synchronize", "init_dump", "set_dump", "synchronize"]
CLOSED = ["synchronize", "finalize_dump", "synchronize"]


@pytest.fixture
def sink(tmp_path: Path) -> Iterator[DirectorySink]:
    sink = DirectorySink(tmp_path / "step0" / "rank0", {"task": "tensor"}, extra_info=False, tensors=False)
    yield sink
    sink.close()


def test_the_device_is_waited_for_at_every_turn(sink: DirectorySink) -> None:
    runtime = RecordingRuntime()
    window = KernelWindow(runtime, sink)
    window.open()
    assert runtime.asked == OPENED
    window.close()
    assert runtime.asked == OPENED + CLOSED


def test_opening_and_closing_twice_is_once(sink: DirectorySink) -> None:
    runtime = RecordingRuntime()
    window = KernelWindow(runtime, sink)
    window.close()
    window.open()
    window.open()
    window.close()
    window.close()
    assert runtime.asked == OPENED + CLOSED


def test_the_configuration_of_the_runtime_lies_in_the_folder_of_the_step(sink: DirectorySink) -> None:
    runtime = RecordingRuntime()
    KernelWindow(runtime, sink).open()
    (path,) = runtime.paths
    folder = sink.folder.parent.resolve()
    assert path == folder / f"kernel_config_{os.getpid()}.json"
    assert json.loads(path.read_text()) == {
        "dump": {"dump_list": [], "dump_path": str(folder), "dump_mode": "all", "dump_op_switch": "on"}
    }
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_was_begun_is_ended_when_the_runtime_refuses_the_configuration(sink: DirectorySink) -> None:
    runtime = RecordingRuntime(failing="set_dump")
    window = KernelWindow(runtime, sink)
    with pytest.raises(RuntimeError, match="set_dump"):
        window.open()
    assert runtime.asked == ["synchronize", "init_dump", "set_dump", *CLOSED]
    window.close()
    assert runtime.asked[-1] == "synchronize" and runtime.asked.count("finalize_dump") == 1


def test_a_runtime_that_does_not_begin_is_not_ended(sink: DirectorySink) -> None:
    runtime = RecordingRuntime(failing="init_dump")
    window = KernelWindow(runtime, sink)
    with pytest.raises(RuntimeError, match="init_dump"):
        window.open()
    window.close()
    assert "finalize_dump" not in runtime.asked
