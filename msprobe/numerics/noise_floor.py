"""What reruns of one program showed to be normal, as the judge needs it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(slots=True)
class NoiseFloor:
    """Learned spreads per row, one value per part; NaN where none was learned.

    A difference up to ``limit`` times its spread is normal, and so is the rounding of one operation.
    """

    element: Floats
    mean: Floats
    norm: Floats
    limit: float = 4.0

    def beyond(self, tolerance: Floats) -> NoiseFloor:
        """Return the spreads that allow more than a tolerance does, NaN for the others.

        Reruns of one layout round alike, another layout does not: what agreed in them may still differ by rounding.
        """
        wider = np.fmax(np.fmax(self.element, self.mean), self.norm) * self.limit > tolerance
        element, mean, norm = (np.where(wider, each, np.nan) for each in (self.element, self.mean, self.norm))
        return NoiseFloor(element, mean, norm, self.limit)
