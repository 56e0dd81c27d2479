"""Programs that never compute the same twice: a further normal run passes, a fault is found where it is made.

A fault multiplies the result of a block so that it moves some times as far as any part of it did between the reruns.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from msprobe.analyze.noise_learning import learn
from msprobe.compare.comparison import Comparison
from msprobe.jobs.compare import CompareResult, compare
from tests.matrices import matrix_params
from tests.noisy.programs import KINDS, NO_FAULT, Fault, run

pytestmark = pytest.mark.torch
SAMPLE = ("routed-statistics", "routed-tensor", "atomics-statistics")
RERUNS, LATER = range(3), range(10, 14)
LAYER = 2
Recorded = Callable[..., Path]
_PROGRAMS = matrix_params(
    "noise",
    [pytest.param((name, task), id=f"{name}-{task}") for name in KINDS for task in ("statistics", "tensor")],
    SAMPLE,
)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """Record a run once."""

    @cache
    def of(program: tuple[str, str], chance: int, fault: Fault = NO_FAULT) -> Path:
        return run(program[0], tmp_path_factory.mktemp("run"), chance, task=program[1], fault=fault)

    return of


@pytest.fixture(scope="module")
def profile(recorded: Recorded, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """Learn from so many reruns."""

    @cache
    def of(program: tuple[str, str], count: int) -> Path:
        path = tmp_path_factory.mktemp("profile") / "noise.json"
        learn([recorded(program, chance) for chance in range(count)]).profile.write(path)
        return path

    return of


@pytest.mark.matrix("wide", sample=3)
@pytest.mark.parametrize("program", _PROGRAMS)
@pytest.mark.parametrize("count", [2, 3, 5])
def test_a_further_run_is_normal(program: tuple[str, str], count: int, recorded: Recorded, profile: Recorded) -> None:
    if program[0] == "sometimes" and count == 2:
        pytest.skip("what happens in four runs of ten is in neither of two reruns of every second pair")
    golden, noise = recorded(program, 0), profile(program, count)
    found = [compare(recorded(program, chance), golden, noise=noise) for chance in LATER]
    assert [result.summary.first_divergence for result in found] == [None] * len(LATER)
    assert any(compare(recorded(program, chance), golden).verdict == "diverged" for chance in LATER)


FAULTS = {"wrong-kernel": (10.0, 0), "and-a-call-more": (10.0, 1), "and-two-calls-more": (30.0, 2)}


@pytest.mark.matrix("wide", sample=2)
@pytest.mark.parametrize("fault", list(FAULTS))
@pytest.mark.parametrize("program", _PROGRAMS)
def test_a_fault_is_found_at_its_place(
    program: tuple[str, str], fault: str, recorded: Recorded, profile: Recorded
) -> None:
    times, extra = FAULTS[fault]
    if program == ("shuffled", "tensor"):
        pytest.skip("element by element, samples in another order differ as much as they can")
    golden, noise = recorded(program, 0), profile(program, 3)
    gain = 1.0 + 0.1 * times / _moved(program, recorded)
    result = compare(recorded(program, 20, Fault(LAYER, gain, extra)), golden, noise=noise)
    assert result.verdict == "diverged"
    first = result.summary.first_divergence
    assert first is not None and (first.module or "").startswith(f"blocks.{LAYER}."), first


@pytest.mark.parametrize("program", _PROGRAMS)
def test_calls_more_blame_no_module(program: tuple[str, str], recorded: Recorded, profile: Recorded) -> None:
    target = recorded(program, 21, Fault(extra=2))
    result = compare(target, recorded(program, 0), noise=profile(program, 3))
    assert result.verdict == "same", result.summary.first_divergence


def _moved(program: tuple[str, str], recorded: Recorded) -> float:
    """Return how many times as far as in the reruns the result of the block moves by a gain of 1.1."""
    golden = recorded(program, 0)
    wrong = compare(recorded(program, 0, Fault(LAYER, 1.1)), golden, step="0")
    reruns = [compare(recorded(program, chance), golden, step="0") for chance in RERUNS[1:]]
    return _worst(program[0], wrong) / max(_worst(program[0], rerun) for rerun in reruns)


def _worst(program: str, result: CompareResult) -> float:
    comparison: Comparison = next(result.comparisons())
    name = f"Module.blocks.{LAYER}.{KINDS[program].block.__name__}.forward.0"
    (number,) = (number for number, pair in enumerate(comparison.table.entries) if pair.golden == name)
    return float(comparison.measured.worst[comparison.table.rows_of(number)[-1]])
