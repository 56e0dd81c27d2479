"""Optimizers of two frameworks: the same one makes the same steps, another learning rate is named as the optimizer."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import msprobe
from tests.matrices import matrix_params
from tests.recordings import Recordings
from tests.twins.kinds import CLEAN, CODE, OPTIMIZERS, kinds
from tests.twins.recorded import record_both

pytestmark = [pytest.mark.mindspore, pytest.mark.slow]

LEVELS = ("L0", "mix")
SAMPLE = ("Adam",)
REST = tuple(name for name in kinds(OPTIMIZERS) if name not in SAMPLE)
CASES = [pytest.param(name, level, id=f"{name}-{level}") for name in (*SAMPLE, *REST) for level in LEVELS]
IN_CI = {f"{name}-{level}" for name in SAMPLE for level in LEVELS}


def record_optimizers(folder: Path, *names: str) -> None:
    """Record the optimizers of these names below ``FRAMEWORK/LEVEL/NAME/VARIANT``."""
    record_both("optimizers", folder, *names)


@pytest.mark.parametrize(("name", "level"), matrix_params("twins", CASES, IN_CI))
@pytest.mark.parametrize("target", ["pytorch", "mindspore"])
def test_an_optimizer_and_its_twin(recordings: Recordings, name: str, level: str, target: str) -> None:
    folder = recordings(record_optimizers, *(SAMPLE if name in SAMPLE else REST))
    golden = "mindspore" if target == "pytorch" else "pytorch"
    correct, wrong = (
        [folder / side / level / name / variant for side in (target, golden)] for variant in (CLEAN, CODE)
    )
    result = msprobe.compare(*correct)
    assert result.verdict == "same", result.summary
    for sides in ((wrong[0], correct[1]), (correct[0], wrong[1])):
        first = msprobe.compare(*sides).summary.first_divergence
        assert first is not None and (first.module, first.step in (0, 1, 2)) == ("optimizer", True), first
        told = re.search(r"the learning rate of \w+ is (\S+) in the target, (\S+) in the golden run", first.reason)
        assert told is not None and float(told[1]) != float(told[2]), first.reason
