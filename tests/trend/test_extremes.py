"""What stands for several cells in a picture."""

from __future__ import annotations

import math

import numpy as np

from msprobe.trend.extremes import ABSENT_BITS, absent_cells, extremes


def test_extremes_keep_spikes_signs_and_nan() -> None:
    cells = np.array([[1, -5], [3, 2], [np.nan, 1], [2, 1], [-7, 0]], np.float32)
    cells[4, 1] = absent_cells(1)[0]
    found = extremes(cells, 2)
    assert found[0].tolist() == [3, -5] and math.isnan(found[1, 0]) and found[2, 0] == -7
    assert found.view(np.uint32)[2, 1] == ABSENT_BITS and found.view(np.uint32)[1, 0] != ABSENT_BITS
