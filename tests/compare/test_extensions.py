"""Installed metrics are asked for where whole tensors are compared, and nowhere else."""

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from msprobe.core.errors import MsprobeException
from msprobe.jobs.compare import compare
from msprobe.numerics.metrics import user_metrics

CASES = Path(__file__).parents[1] / "golden_compare"


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        user_metrics, "entry_points", lambda group: [EntryPoint("broken", "no_such_module:f", user_metrics.GROUP)]
    )


@pytest.mark.usefixtures("broken")
def test_statistics_do_not_need_them() -> None:
    sides = (CASES / "08_stat_noise" / side / "dump.json" for side in ("target", "golden"))
    assert compare(*sides).verdict in ("same", "diverged")


@pytest.mark.usefixtures("broken")
def test_a_broken_one_ends_a_comparison_of_tensors() -> None:
    sides = (CASES / "02_tensor_noise" / side / "dump.json" for side in ("target", "golden"))
    with pytest.raises(MsprobeException, match="entry point broken = no_such_module:f cannot be loaded"):
        compare(*sides)


@pytest.mark.usefixtures("broken")
def test_named_ones_load_all_at_once() -> None:
    sides = (CASES / "08_stat_noise" / side / "dump.json" for side in ("target", "golden"))
    with pytest.raises(MsprobeException, match="entry point broken"):
        compare(*sides, metrics=["math:hypot"])
