"""What a thread of the tool does with tensors is no call of the program."""

from __future__ import annotations

import json
import queue
from pathlib import Path

import pytest
import torch

from msprobe.core.interruption import start_thread
from msprobe.pytorch import PrecisionDebugger
from tests.fresh_debugger import forget

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("stopped", [False, True])
def test_what_a_thread_of_the_tool_reads_and_moves_is_not_recorded(tmp_path: Path, stopped: bool) -> None:
    forget()
    debugger = PrecisionDebugger({"dump_path": str(tmp_path), "level": "L1", "task": "statistics"})
    debugger.start()
    value = torch.ones(3).mul(2.0)
    if stopped:
        debugger.stop()
        debugger.service.hold_functions()
    ends: queue.SimpleQueue[object] = queue.SimpleQueue()
    start_thread("msprobe-test", lambda: ends.put(value.view(3, 1).mul(3.0).tolist()))
    assert ends.get(timeout=10) == [[6.0]] * 3
    assert value.sum().item() == 6.0
    debugger.stop()
    debugger.step()
    forget()
    (file,) = tmp_path.glob("step0/*/dump.json")
    dump = json.loads(file.read_text())
    assert [name for name in dump["data"] if "mul" in name] == ["Tensor.mul.0.forward"]
    assert [read["numbers"] for read in dump["reads"]] == [[6.0]]
    assert not dump.get("moves")
