"""The session of level L2 where a runtime dumps kernels by itself, with a runtime that writes recorded files."""

from __future__ import annotations

import dataclasses
import re
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from msprobe.core.backend.mindspore_modes import RuntimeFacts
from msprobe.core.backend.protocols import Backend
from msprobe.core.config import DumpConfig, load_config
from msprobe.core.dump.session.kernel_session import KernelSession
from msprobe.core.errors import MsprobeException
from msprobe.core.store.reader import find_dumps, load_dump
from tests.fake_framework import backend

RECORDED = Path(__file__).parents[2] / "kernel_dumps" / "recorded" / "graph"


class RecordedRuntime:
    """Implements ``KernelDump``: each ``run`` writes the recorded files again, as if they had been made now."""

    facts = RuntimeFacts(graph_mode=True, jit_level="O0", device="Ascend", version=(2, 10, 0))
    substitute = False

    def __init__(self, config: DumpConfig) -> None:
        self.folder = Path(config.dump_path)
        self.calls: list[str] = []

    def run(self) -> None:
        """Run the graph once: a device writes only what runs between start and stop."""
        if self.calls[-1:] != ["start"]:
            return
        for path in filter(Path.is_file, RECORDED.rglob("*")):
            now = time.time_ns() // 1000
            target = self.folder / path.relative_to(RECORDED)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target.with_name(re.sub(r"1795\d{12}", str(now), path.name)))

    def refresh(self) -> None: ...

    def settle(self) -> None: ...

    def start(self) -> None:
        self.calls.append("start")

    def stop(self) -> None:
        self.calls.append("stop")

    def step(self) -> None:
        self.calls.append("step")

    def withdraw(self) -> None:
        self.calls.append("withdraw")


def session_of(folder: Path, **config: Any) -> tuple[KernelSession, RecordedRuntime]:
    settings = load_config({"dump_path": str(folder), "task": "tensor", "level": "L2", **config})
    runtime = RecordedRuntime(settings)

    def make_with_kernels(*arguments: Any) -> Backend:
        return dataclasses.replace(backend.make_backend(*arguments), kernel_dump=lambda: runtime)

    return KernelSession(settings, make_with_kernels), runtime


def test_what_the_runtime_writes_in_a_step_becomes_a_dump(tmp_path: Path) -> None:
    session, runtime = session_of(tmp_path)
    session.start()
    runtime.run()
    session.stop()
    session.step()
    session.close()
    assert runtime.calls == ["start", "stop", "step", "withdraw"]
    (place,) = find_dumps(tmp_path)
    dump = load_dump(place)
    assert (dump.task, dump.level, place.step) == ("tensor", "L2", 0)
    assert "Kernel.Default.fc1-Dense.MatMul.0.forward" in dump.data


def test_a_step_that_the_configuration_leaves_out_does_not_start_the_runtime(tmp_path: Path) -> None:
    session, runtime = session_of(tmp_path, step=[1])
    for _ in range(2):
        session.start()
        runtime.run()
        session.stop()
        session.step()
    session.close()
    assert runtime.calls == ["stop", "step", "start", "stop", "step", "withdraw"]
    assert [place.step for place in find_dumps(tmp_path)] == [1]


def test_tokens_have_no_meaning_for_kernels(tmp_path: Path) -> None:
    session, _ = session_of(tmp_path)
    with pytest.raises(MsprobeException, match="do not work at level L2"):
        session.start(token_range=[0, 1])
    session.close()
