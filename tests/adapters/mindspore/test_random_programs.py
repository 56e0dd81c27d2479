"""Random programs (``random_programs.py``) run with the tool as they run without it: every bit of what they make."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mindspore.common.api import _pynative_executor

from tests.adapters.mindspore.random_programs import PROGRAMS
from tests.adapters.random_programs import differences
from tests.matrices import FUZZ, matrix_params

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

TASKS: list[tuple[str, dict[str, Any]]] = [
    ("statistics", {}),
    ("statistics", {"summary_mode": "md5"}),
    ("statistics", {"summary_mode": "xor"}),
    ("tensor", {}),
]
COMBINATIONS = [(level, task, section) for level in ("L0", "L1", "mix") for task, section in TASKS]
GROUP = len(COMBINATIONS)
"""Programs of one test: each level with each task once. They make about 1,000 records."""
RARE_SHARE = 0.05
"""Share of the blocks that compile."""


@pytest.fixture(autouse=True)
def finished_gradients() -> Iterator[None]:
    """Forget differentiations that failed: MindSpore would run the cells of later trainings twice, with or without the
    tool."""
    yield
    _pynative_executor.clear_res()


@pytest.mark.parametrize("first", matrix_params(FUZZ, range(0, 6 * GROUP, GROUP), sample=["0"]))
def test_programs_run_as_without_the_tool(
    bench: Any, first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_calls: Callable[[int], object]
) -> None:
    monkeypatch.chdir(tmp_path)  # a graph that cannot be compiled is written there
    for seed in range(first, first + GROUP):
        text = PROGRAMS.text(seed, rare=RARE_SHARE)
        settings = COMBINATIONS[seed % GROUP]
        found = differences(bench, PROGRAMS, text, settings, record_calls)
        assert not found, f"{found[0]}\n\nseed {seed}, {settings}; the program:\n{text}"
