"""Random programs (``random_programs.py``) run with the tool as they run without it: every bit of what they make."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.adapters.pytorch.random_programs import PROGRAMS
from tests.adapters.pytorch.test_modes import LEVELS, TASKS
from tests.adapters.random_programs import differences
from tests.matrices import FUZZ, matrix_params

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

COMBINATIONS = [(LEVELS[level], TASKS[task]) for level in LEVELS for task in TASKS]
GROUP = len(COMBINATIONS)
"""Programs of one test: each level with each task once."""


def check(bench: Any, seed: int, text: str, count: Callable[[int], object]) -> None:
    (level, more), (task, section) = COMBINATIONS[seed % GROUP]
    found = differences(bench, PROGRAMS, text, (level, task, more | section), count)
    assert not found, f"{found[0]}\n\nseed {seed}, {level}, {task}, {more | section}; the program:\n{text}"


@pytest.mark.parametrize("first", matrix_params(FUZZ, range(0, 32 * GROUP, GROUP), sample=["0"]))
def test_programs_run_as_without_the_tool(bench: Any, first: int, record_calls: Callable[[int], object]) -> None:
    for seed in range(first, first + GROUP):
        check(bench, seed, PROGRAMS.text(seed), record_calls)


@pytest.mark.parametrize("seed", matrix_params(FUZZ, range(100), sample=["3"]))
@pytest.mark.usefixtures("fresh_compiler")
def test_processes_and_compilers_work_as_without_the_tool(
    bench: Any, seed: int, record_calls: Callable[[int], object]
) -> None:
    check(bench, seed, PROGRAMS.text(seed, blocks=6, rare=1.0), record_calls)
