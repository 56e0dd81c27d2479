"""The verdict on numbers of many tokens that two programs computed for the same tokens: log-probabilities, values.

``array_verdict.py`` judges each element by the rounding that may stand behind it. Many tokens say more: rounding errors
of tokens are independent, so a difference that all of them share (another temperature, another scale) is seen long
before a single token is beyond its tolerance. With d = target - golden and m = (target + golden) / 2, in float64:

    shift   mean(d)                    limit  e * rms(m) + 5 s / sqrt(n) + s^2
    scale   cov(d, m) / var(m)         limit  e + 5 s / (std(m) sqrt(n)) + s^2 / var(m)

where s is the standard deviation of what is left of d beside them, and e an eighth of the tolerance of an element. The
terms with s^2 allow what unequal noise of both sides does by itself: it widens the spread of the noisier one, and the
mean of log-probabilities of sampled tokens falls by half the variance of the noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe.numerics.array_verdict import ArrayVerdict, judge_arrays
from msprobe.numerics.tolerance import FLOAT32_ROUNDOFF, unit_roundoff

_FEWEST = 16
"""Tokens from which on a common shift or scale is looked for."""
_SIGMAS = 5.0
_SHARE = 1.0 / 8.0
_SPAN = 4.0
"""Nats. The rounding of a log-probability comes from logits, which span at least this where a model is certain."""


@dataclass(frozen=True, slots=True)
class TokenVerdict:
    """Whether the numbers of tokens agree.

    Attributes:
        level: ``pass``, or ``error``.
        reason: why not, in words; empty where they agree.
        first: the first token that differs; None where none does, or all by a common shift or scale.
    """

    level: str
    reason: str
    first: int | None


def judge_tokens(target: NDArray[Any], golden: NDArray[Any], dtype: str, golden_dtype: str = "") -> TokenVerdict:
    """Judge two arrays of shape (tokens,).

    Args:
        target, golden: numbers of any type, of the same tokens.
        dtype, golden_dtype: the types in which both were computed; the coarser one decides.

    Example:
        >>> judge_tokens(np.array([-1.0, -2.0]), np.array([-1.0, -3.0]), "float32").first
        1
    """
    if target.dtype.kind in "biu" and golden.dtype.kind in "biu":
        apart = np.flatnonzero(target != golden)
        if apart.size == 0:
            return TokenVerdict("pass", "", None)
        return TokenVerdict("error", f"{apart.size} of {target.size} tokens are others", int(apart[0]))
    finite = np.isfinite(target) & np.isfinite(golden)
    odd = np.flatnonzero(~finite & (target != golden) & ~(np.isnan(target) & np.isnan(golden)))
    verdict = judge_arrays(target, golden, dtype, golden_dtype)
    if not math.isfinite(verdict.tolerance):  # equal, or NaN and infinities that differ
        return TokenVerdict(verdict.level, verdict.reason, int(odd[0]) if odd.size else None)
    n, b = target[finite].astype(np.float64), golden[finite].astype(np.float64)
    beyond, reason = _beyond(n, b, verdict)
    first = int(np.flatnonzero(finite)[beyond[0]]) if beyond.size else None
    if reason:
        coarser = _coarser_agreement(target, golden, (dtype, golden_dtype))
        return TokenVerdict("error", reason + coarser, first)
    return TokenVerdict("pass", "", None)


def _beyond(n: NDArray[Any], b: NDArray[Any], verdict: ArrayVerdict) -> tuple[NDArray[Any], str]:
    """Return the indices of tokens that differ by more than their tolerance, and why both sides do not agree."""
    allowed, apart = verdict.allowed, np.abs(n - b)
    passed = verdict.level == "pass"
    if n.max(initial=0.0) <= 0.0 and b.max(initial=0.0) <= 0.0:
        allowed = max(allowed, verdict.tolerance * _SPAN)
        rms = max(1.0, math.sqrt(float(np.mean(b * b))))
        passed = bool(apart.max() <= allowed) and math.sqrt(float(np.mean(apart * apart))) <= verdict.tolerance * rms
    beyond = np.flatnonzero(apart > allowed)
    return beyond, _common(n, b, verdict.tolerance) if passed else verdict.reason or "differs in many tokens"


def _coarser_agreement(target: NDArray[Any], golden: NDArray[Any], dtypes: tuple[str, str]) -> str:
    """Return words where both agree within the rounding of a coarser type than theirs; else an empty text."""
    fine = max(unit_roundoff(dtype) for dtype in dtypes) <= FLOAT32_ROUNDOFF
    agrees = fine and judge_tokens(target, golden, "bfloat16").level == "pass"
    return ", but agrees within the rounding of bfloat16" if agrees else ""


def _common(n: NDArray[Any], b: NDArray[Any], tolerance: float) -> str:
    """Return what all tokens share beyond noise; empty where they share nothing; ``tolerance`` is of an element."""
    if n.size < _FEWEST or np.array_equal(n, b):
        return ""
    d, m, count = n - b, (n + b) / 2, math.sqrt(n.size)
    effect = tolerance * _SHARE
    middle, variance = m - m.mean(), float(m.var())
    scale = float((middle * d).mean()) / variance if variance else 0.0
    spread = float((d - d.mean() - scale * middle).var())
    if variance and abs(scale) > effect + _SIGMAS * math.sqrt(spread / variance) / count + spread / variance:
        return f"differs by a scale of {scale:+.2%} common to all tokens"
    shift, rms = float(d.mean()), math.sqrt(float(np.mean(m * m)))
    if abs(shift) > effect * rms + _SIGMAS * math.sqrt(spread) / count + spread:
        return f"differs by {shift:+.3g} common to all tokens"
    return ""
