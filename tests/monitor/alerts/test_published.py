"""The published rules: an exponential mean, and NaN."""

from __future__ import annotations

import math
from typing import Any

import pytest

from msprobe.monitor.alerts.published import NAN, TURBULENCE, PublishedPolicy
from tests.monitor.alerts.rows import row


def rules(values: list[float], *given: tuple[str, dict[str, Any]], statistic: str = "norm") -> list[tuple[int, str]]:
    policy = PublishedPolicy(given)
    return [
        (step, alert.rule)
        for step, value in enumerate(values)
        for alert in policy.observe(step, [row(step, value, statistic=statistic)])
    ]


def test_turbulence_is_told_against_the_history() -> None:
    assert rules([1.0, 1.4, 1.6, 1000.0], (TURBULENCE, {"threshold": 0.5})) == [(2, TURBULENCE), (3, TURBULENCE)]


def test_a_nan_does_not_end_the_history() -> None:
    given = (TURBULENCE, {"threshold": 0.5}), (NAN, {})
    assert rules([1.0, 1.0, math.nan, 1.0, 1000.0], *given) == [(2, NAN), (4, TURBULENCE)]


def test_the_first_rule_is_the_one_that_is_told() -> None:
    given = (NAN, {"threshold": 10}), (TURBULENCE, {"threshold": 0.5})
    assert rules([1.0, 100.0], *given) == [(1, NAN)]


@pytest.mark.parametrize("statistic", ["max", "min"])
def test_extremes_have_no_turbulence(statistic: str) -> None:
    assert rules([1.0, 1000.0], (TURBULENCE, {"threshold": 0.5}), statistic=statistic) == []
