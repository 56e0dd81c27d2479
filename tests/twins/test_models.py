"""Models in two frameworks under other names: correct pairs are the same, a fault on either side is named."""

from __future__ import annotations

from pathlib import Path

import pytest

import msprobe
from msprobe.jobs.compare import CompareResult
from tests.matrices import matrix_params
from tests.recordings import Recordings
from tests.twins.models import CLEAN, CODE, FAULTS, LEVELS, MODELS, WEIGHT
from tests.twins.recorded import record_both

pytestmark = [pytest.mark.mindspore, pytest.mark.slow]

SAMPLE = ("cnn", "gpt")
REST = tuple(name for name in MODELS if name not in SAMPLE)
CASES = [pytest.param(name, level, id=f"{name}-{level}") for name in (*SAMPLE, *REST) for level in LEVELS]
IN_CI = {f"{name}-{level}" for name in SAMPLE for level in LEVELS}
every_model = pytest.mark.parametrize(("name", "level"), matrix_params("twins", CASES, IN_CI))


def record_models(folder: Path, *names: str) -> None:
    """Record the models of these names below ``FRAMEWORK/LEVEL/NAME/VARIANT``."""
    record_both("models", folder, *names)


def _compare(
    recordings: Recordings, name: str, level: str, variants: tuple[str, str], *, swapped: bool, **options: object
) -> CompareResult:
    folder = recordings(record_models, *(SAMPLE if name in SAMPLE else REST))
    frameworks = zip(("pytorch", "mindspore"), variants, strict=True)
    sides = [folder / framework / level / name / variant for framework, variant in frameworks]
    return msprobe.compare(*(reversed(sides) if swapped else sides), **options)


@every_model
@pytest.mark.parametrize("options", [{}, {"api_mapping": True}], ids=["inferred", "am"])
def test_correct_models_are_the_same(recordings: Recordings, name: str, level: str, options: dict[str, object]) -> None:
    for swapped in (False, True):
        result = _compare(recordings, name, level, (CLEAN, CLEAN), swapped=swapped, **options)
        assert result.verdict == "same", result.summary
        assert result.summary.counts.pairs >= 30


@every_model
@pytest.mark.parametrize("variant", [CODE, WEIGHT])
@pytest.mark.parametrize("faulty", ["pytorch", "mindspore"])
def test_the_fault_is_named(recordings: Recordings, name: str, level: str, variant: str, faulty: str) -> None:
    variants = (variant, CLEAN) if faulty == "pytorch" else (CLEAN, variant)
    fault = FAULTS[name, variant]
    for swapped in (False, True):
        first = _compare(recordings, name, level, variants, swapped=swapped).summary.first_divergence
        assert first is not None
        named = (first.target or "", first.golden or "", f".{first.module}.")
        assert any(f".{path}." in text for path in fault[1:] for text in named), first
