"""A training that is recorded for 500 steps needs no more memory after the last than after the hundredth."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import forked
from tests.matrices import matrix_params

MOST_GROWTH = 4 << 20
"""Bytes; what a step records, kept for each of 400 steps, would be 40 times as much."""
PROGRAM = """
import gc, os, shutil, sys
import torch
from msprobe.pytorch import PrecisionDebugger

def resident():
    gc.collect()
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

folder, task, mode, steps, warm = *sys.argv[1:4], *map(int, sys.argv[4:])
torch.set_num_threads(1)
model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(4)))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
config = {"dump_path": folder, "task": task, "level": "mix", "async_dump": mode != "plain"}
if mode == "md5":
    config[task] = {"summary_mode": "md5"}
debugger = PrecisionDebugger(config)
for step in range(steps):
    debugger.start(model=model)
    model(torch.randn(64, 64)).sum().backward()
    debugger.stop()
    debugger.step()
    optimizer.step()
    optimizer.zero_grad()
    shutil.rmtree(f"{folder}/step{step - 2}", ignore_errors=True)  # the disk of tests may be memory
    if step + 1 in (warm, steps):
        print("resident", resident(), flush=True)
"""

pytestmark = [pytest.mark.torch, pytest.mark.slow]


@pytest.mark.parametrize(
    ("task", "mode", "steps"),
    matrix_params(
        "memory",
        [(task, mode, 500) for task in ("tensor", "statistics") for mode in ("plain", "async", "md5")]
        + [("tensor", "async", 60)],
        {"tensor-async-60"},
    ),
)
def test_memory_stays_flat(task: str, mode: str, steps: int, tmp_path: Path) -> None:
    warm = min(100, steps // 2)
    words = [tmp_path / "dump", task, mode, str(steps), str(warm)]
    done = forked.run(["-c", PROGRAM, *map(str, words)], env={"MSPROBE_LOG_LEVEL": "1", "OMP_NUM_THREADS": "1"})
    lines = [line.split() for line in done.stdout.decode().splitlines()]
    sizes = [int(line[1]) for line in lines if line[:1] == ["resident"]]
    assert done.returncode == 0 and len(sizes) == 2, done.stdout.decode()
    assert sizes[1] - sizes[0] < MOST_GROWTH, sizes
