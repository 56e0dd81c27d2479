"""Random programs (``random_programs.py``) run with the tool as they run without it: every bit of what they make."""

from __future__ import annotations

from typing import Any

import pytest

from tests.adapters.pytorch.random_programs import load, program, run
from tests.adapters.pytorch.test_modes import LEVELS, TASKS
from tests.matrices import FUZZ, matrix_params

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

COMBINATIONS = [(level, task) for level in LEVELS for task in TASKS]
GROUP = len(COMBINATIONS)
"""Programs of one test: each level with each task once. They make about 4,000 records."""


def check(bench: Any, seed: int) -> None:
    """Run the program of ``seed`` without and with the tool and compare what it makes."""
    text = program(seed)
    alone = run(load(text))
    level, task = COMBINATIONS[seed % GROUP]
    debugger = bench.open(*LEVELS[level][:1], TASKS[task][0], {**LEVELS[level][1], **TASKS[task][1]}, risk_level="ALL")
    names = load(text)
    debugger.start(names["MODEL"])
    watched = run(names)
    debugger.stop()
    different = [(*pair,) for pair in zip(alone, watched, strict=True) if pair[0] != pair[1]]
    assert not different, f"{different[0]}\n\nseed {seed}, {level}, {task}; the program:\n{text}"


@pytest.mark.slow
@pytest.mark.parametrize("first", matrix_params(FUZZ, range(0, 30 * GROUP, GROUP), sample=["0"]))
def test_programs_run_as_without_the_tool(bench: Any, first: int) -> None:
    for seed in range(first, first + GROUP):
        check(bench, seed)
