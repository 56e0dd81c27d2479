"""The published plugin of TensorBoard gives the same answers for our trend databases as for the recorded ones.

Runs where the variable ``REFERENCE_PYTHON`` names a python that has mindstudio-probe, which brings the plugin, and
tensorboard.
"""

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from msprobe.monitor.recorded.trend_job import write_monitor_trend
from msprobe.trend.job import write_trend
from tests.golden_trend.trendvis import questions, served

REFERENCE = os.environ.get("REFERENCE_PYTHON", "")
CASES = Path(__file__).parent
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not REFERENCE, reason="REFERENCE_PYTHON names no python"),
]


def _answers(database: Path) -> dict[str, Any]:
    with served(Path(REFERENCE).with_name("tensorboard"), database) as plugin:
        return dict(questions(plugin))


@pytest.mark.parametrize("divided", [True, False], ids=["micro-steps", "training-steps"])
@pytest.mark.parametrize(
    ("case", "folder", "make"),
    [("monitor", "output", write_monitor_trend), ("27_data2db", "target", write_trend)],
    ids=["monitor", "dump"],
)
def test_the_plugin_answers_as_for_the_recorded_database(
    case: str, folder: str, make: Callable[..., Any], divided: bool, tmp_path: Path
) -> None:
    recorded = tmp_path / "recorded.trend.db"
    connection = sqlite3.connect(recorded)
    connection.executescript((CASES / case / f"expected_micro_step_{str(divided).lower()}.sql").read_text())
    connection.close()
    ours, theirs = _answers(make(CASES / case / folder, tmp_path / "ours", divided=divided).path), _answers(recorded)
    assert len(theirs) > 20
    assert ours.keys() == theirs.keys()
    assert [question for question, answer in theirs.items() if ours[question] != answer] == []
