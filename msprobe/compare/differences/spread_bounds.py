"""From the differences that a few reruns showed to what one run more may show.

The difference of two runs is a draw: of three reruns one value in ten shows less than a third of its usual spread, by
chance. Similar values tell how much of a small spread is chance. With y the logarithm of the spread of a value, its
variance among similar values is that of their true spreads plus that of the draw, which is known for normal values
(``DRAW_VARIANCES``). So each y moves towards the mean of its group by the share of the draw (an estimate after
C. Stein; G. Smyth, "Linear models and empirical Bayes methods", 2004, does the same for variances), and the bound lies
``_CERTAIN`` standard deviations above. A group that varies for the most part also vouches for its members that did not
vary: something that happens now and then has then happened elsewhere.

Differences of whole tensors are no such draws: thousands of elements make them, and every two runs are about equally
far apart. Of three numbers the two farthest are at least twice as far apart as the two nearest. Where the norms of the
differences vary less than that, draw and limit are that much smaller.

``LIMITS`` are the multiples of the bound that count as normal: the normal quantile of one in 10^5 values, in units of
the mean range of so many runs, rounded up.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Parts = tuple[float, float, float]
"""Numbers of element, mean and norm."""

DRAW_VARIANCES = {2: 1.234, 3: 0.414, 4: 0.238, 5: 0.168, 6: 0.130, 7: 0.106, 8: 0.091, 9: 0.080, 10: 0.072}
"""The variance of the logarithm of the range of so many normal numbers."""
LIMITS = {2: 10.0, 3: 5.0, 4: 4.0, 5: 3.5, 6: 3.5, 7: 3.0, 8: 3.0, 9: 3.0, 10: 3.0}
_STEADY_LIMIT = 1.5  # the limit of differences that are the same for any two runs
ROUNDING = 1e-6  # a spread below it is no other than none
_SHARE = 0.25  # of a group: where so many vary, the others agreed by chance
_CERTAIN = 2.0  # standard deviations
_LEAST_VARIANCE = 0.02  # of the logarithms of true spreads in a group: no two values vary alike


def most_runs(runs: int) -> int:
    """Return the number of runs of the tables above that stands for ``runs``."""
    return min(max(runs, 2), max(LIMITS))


def spread_bounds(spreads: Floats, least: Floats, runs: int) -> Floats:
    """Return upper bounds of the spreads of similar values.

    Args:
        spreads: the largest difference of each value between two of the reruns, relative to its scale, shape (values,
            3): of element, mean and norm.
        least: the smallest difference of the norm between any two of them, shape (values,).
        runs: the number of reruns.

    Returns:
        bounds in the same shape, in units of the limit; 0 in parts in which no value of the group varies.
    """
    spreads, unsteady = _of_sums(spreads), _unsteady(spreads[:, 2], least, runs)[:, None]
    draw = DRAW_VARIANCES[most_runs(runs)] * float(unsteady.max()) ** 2
    varying = spreads > ROUNDING
    logs = np.log(np.maximum(spreads, ROUNDING))
    if len(spreads) > 1:
        true = np.maximum(logs.var(axis=0, ddof=1) - draw, _LEAST_VARIANCE)
        own = true / (true + draw)
        of_mean = (true + draw) / math.sqrt(len(spreads))  # values of one run vary together: fewer draws than values
    else:
        own, of_mean = np.ones(spreads.shape[1]), np.zeros(spreads.shape[1])
    certain = _CERTAIN * np.sqrt(own * draw + (1.0 - own) ** 2 * of_mean)
    upper = np.exp(own * logs + (1.0 - own) * logs.mean(axis=0) + certain)
    bounds = np.where(varying.any(axis=0), np.maximum(upper, spreads), spreads)
    limit = LIMITS[most_runs(runs)]
    share = (_STEADY_LIMIT + (limit - _STEADY_LIMIT) * unsteady) / limit
    return np.asarray(np.maximum(bounds, _typical(spreads, varying)) * share)


def _unsteady(norms: Floats, least: Floats, runs: int) -> Floats:
    """Return 1 for spreads that are a draw of chance, and down to 0 where any two runs are equally far apart."""
    if runs < 3:
        return np.ones(len(norms))
    ratio = np.maximum(norms, ROUNDING) / np.maximum(np.minimum(least, norms), ROUNDING / 2.0)
    return np.asarray(np.minimum(np.log(ratio) / math.log(2.0), 1.0))


def _of_sums(spreads: Floats) -> Floats:
    """Return the spreads with those of mean and norm at least half as large as the other one.

    Independent differences of elements move both about equally far.
    """
    element, mean, norm = spreads.T
    return np.stack((element, np.maximum(mean, norm / 2.0), np.maximum(norm, mean / 2.0)), axis=1)


def _typical(spreads: Floats, varying: NDArray[np.bool_]) -> Floats:
    """Return for each part the median of the spreads that vary, 0 where too few values vary."""
    medians = np.zeros(spreads.shape[1])
    for part in (varying.mean(axis=0) >= _SHARE).nonzero()[0].tolist():
        medians[part] = np.median(spreads[varying[:, part], part])
    return medians
