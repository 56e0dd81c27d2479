"""What the log-probabilities of an answer say: values that are none, tokens that nobody expected.

A token that was drawn from a distribution is, on the average, as surprising as the distribution is uncertain: the mean
of (surprise - entropy) over the tokens is 0, whatever the model and the text are. So one figure tells drawn tokens from
others, for good and for bad models (C. Shannon, "A Mathematical Theory of Communication", 1948: entropy is expected
surprise). Of the tokens that were not recorded only the sum of their probabilities is known; they are taken as equally
probable, which makes the entropy larger than it is, and the figure careful.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.response_anomaly.answer import Answer, Finding

_VOCABULARY = 1e5
_ABOVE_ONE = 0.02
"""Larger values are no logarithms of probabilities, but for rounding."""

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Likelihood:
    """Arrays with one element per token.

    Attributes:
        chosen: log-probability of the token; where it is none of the candidates, that of the last of them.
        top: the largest log-probability.
        mass: sum of the probabilities of the candidates.
        entropy: of the distribution, in nats.
        outside: whether the token is none of the candidates.
    """

    chosen: Array
    top: Array
    mass: Array
    entropy: Array
    outside: NDArray[np.bool_]


def not_numbers(answer: Answer) -> Finding | None:
    """Return the first tokens whose log-probabilities are NaN or infinite.

    A candidate of minus infinity is none: a server masks tokens this way. The token that was chosen cannot be one.
    """
    places = []
    for place, (token, candidates) in enumerate(zip(answer.ids, answer.candidates or (), strict=False)):
        values = list(candidates.values())
        chosen = candidates.get(token, 0.0)
        odd = any(math.isnan(value) or value == math.inf for value in values)
        if odd or chosen == -math.inf or (values and all(value == -math.inf for value in values)):
            places.append(place)
    if not places:
        return None
    row = (answer.candidates or ())[places[0]]
    value = next((v for v in row.values() if math.isnan(v) or v == math.inf), -math.inf)
    word = "NaN" if math.isnan(value) else f"{value:+}".replace("inf", "infinity")
    more = f", and of {len(places) - 1} more tokens" if len(places) > 1 else ""
    return Finding(4, places[0], places[-1] + 1, f"a log-probability of {answer.unit} {places[0]} is {word}{more}")


def likelihood(answer: Answer) -> Likelihood | None:
    """Return what the log-probabilities say, and None where there are none or where they are no logarithms (logits)."""
    rows = answer.candidates
    if not rows or not all(rows) or any(max(row.values()) > _ABOVE_ONE for row in rows):
        return None
    facts = np.array([_facts(token, row) for token, row in zip(answer.ids, rows, strict=True)])
    return Likelihood(facts[:, 0], facts[:, 1], facts[:, 2], facts[:, 3], facts[:, 4] != 0)


def _facts(token: Any, row: Mapping[Any, float]) -> tuple[float, float, float, float, float]:
    values = np.fromiter(row.values(), np.float64, len(row))
    finite = values[np.isfinite(values)]
    if not finite.size:
        return -math.inf, -math.inf, 0.0, math.log(_VOCABULARY), 1.0
    finite = np.minimum(finite, 0.0)
    probabilities = np.exp(finite)
    mass = float(probabilities.sum())
    rest = max(1.0 - mass, 0.0)
    tail = rest * math.log(_VOCABULARY / rest) if rest > 1e-9 else 0.0
    chosen = row.get(token)
    known = chosen is not None
    return (
        min(float(chosen), 0.0) if chosen is not None else float(finite.min()),
        float(finite.max()),
        mass,
        float(-(probabilities * finite).sum()) + tail,
        0.0 if known else 1.0,
    )


def windows(length: int, size: int, stride: int) -> list[tuple[int, int]]:
    """Return the windows over a sequence; the last one reaches its end, a short sequence is one window."""
    if length <= size:
        return [(0, length)]
    starts = [*range(0, length - size, stride), length - size]
    return [(start, start + size) for start in starts]
