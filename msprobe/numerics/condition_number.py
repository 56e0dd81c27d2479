"""How much of the error of a result its inputs decide: their condition number times the unit round-off.

    kappa = (‖g' - g‖ / ‖g‖) / u        g: the exact result; g': that of inputs moved by one round-off u, up or down

kappa * u is the relative error that a perfect function has, because its inputs are rounded. Where it exceeds sqrt(u),
more than half of the digits are lost: the result is ill-conditioned. That is the case for a small difference of large
numbers, and for exp of large ones. The norm is Euclidean, over the finite elements; the largest of a few draws counts.

Sources of the method: N. J. Higham, "Accuracy and Stability of Numerical Algorithms", chapter 1; stochastic arithmetic
as in CADNA (J. Vignes, "A stochastic arithmetic for reliable scientific computation", 1993) and Verificarlo (C. Denis,
P. de Oliveira Castro, E. Petit, 2016).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Condition:
    """The condition of one result.

    Attributes:
        number: kappa.
        error: the relative error that one round-off of the inputs makes, kappa * u.
        roundoff: u, the coarsest of the inputs.
    """

    number: float
    error: float
    roundoff: float

    @property
    def is_ill(self) -> bool:
        """Return whether more than half of the digits are lost."""
        return self.error > float(np.sqrt(self.roundoff)) > 0.0


_NOTHING = 1e9
WELL = Condition(0.0, 0.0, 0.0)
"""The condition of a result that does not depend on rounded numbers."""


def condition_of(golden: Array, moved: Sequence[Array], roundoff: float) -> Condition:
    """Return the condition of a result.

    Args:
        golden: the exact result, of any shape.
        moved: the results of moved inputs; those of another shape say nothing.
        roundoff: by which share the inputs were moved.
    """
    if golden.dtype.kind not in "fc" or not roundoff:
        return WELL
    error = 0.0
    with np.errstate(all="ignore"):
        for values in moved:
            if values.shape != golden.shape:
                continue
            known = np.isfinite(golden) & np.isfinite(values)
            size = float(np.linalg.norm(golden[known]))
            change = float(np.linalg.norm(values[known] - golden[known]))
            if size * _NOTHING > change:  # an exact 0, up to the rounding of float64, has no digits to lose
                error = max(error, change / size)
    return Condition(error / roundoff, error, roundoff) if np.isfinite(error) else WELL
