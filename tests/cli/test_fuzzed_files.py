"""Every further kind of file, damaged or replaced by a link: a status and lines, no traceback, no hang, no memory."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cli.damages import damage, plant
from tests.cli.hostile_files import READERS, FurtherInputs
from tests.cli.outcome import ends_well

EXAMPLES = 60
"""Of each kind in CI, and 10,000 in the matrix."""

pytestmark = [pytest.mark.torch, pytest.mark.slow]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> FurtherInputs:
    return FurtherInputs(tmp_path_factory.mktemp("files") / "case")


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.matrix("fuzz", sample=True, examples=10_000)
@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32 - 1))
def test_damaged_files(kind: str, inputs: FurtherInputs, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setenv("MSPROBE_LOG_LEVEL", "1")
    once(kind, inputs, seed)


def once(kind: str, inputs: FurtherInputs, seed: int) -> None:
    """Run one of the commands of a kind on what one or two damages left."""
    rng = random.Random(seed)
    inputs.renewed()
    commands = [line.strip() for line in READERS[kind].splitlines() if line.strip()]
    action, marked = inputs.chosen(rng.choice(commands))
    if kind == "links":
        for place in rng.sample(marked, rng.randint(1, len(marked))):
            plant(place, rng, inputs.root / "outside")
    else:
        every = sorted({path for place in marked for path in files(place)})
        for path in rng.sample(every, min(rng.choice([1, 1, 2]), len(every))):
            damage(path, rng)
    ends_well(action, inputs)


def files(place: Path) -> list[Path]:
    return [place] if place.is_file() else sorted(path for path in place.rglob("*") if path.is_file())
