"""Learned spreads: what another layout may differ by, beside them."""

import numpy as np

from msprobe.numerics.noise_floor import NoiseFloor


def test_only_spreads_that_allow_more_than_the_tolerance_are_kept() -> None:
    spread = np.array([0.0, 1e-3, np.nan, 1e-7])
    wider = NoiseFloor(spread, spread, spread, limit=4.0).beyond(np.full(4, 1e-6))
    for values in (wider.element, wider.mean, wider.norm):
        assert np.isfinite(values).tolist() == [False, True, False, False]
