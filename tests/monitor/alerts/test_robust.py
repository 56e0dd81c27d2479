"""Spikes are told once and with their reason; normal trainings give no alert."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from msprobe.monitor.alerts.alert import Alert
from msprobe.monitor.alerts.robust import COOL_DOWN, RobustPolicy
from tests.monitor.alerts.rows import row


def alerts(values: Sequence[float], statistic: str = "norm") -> list[tuple[int, Alert]]:
    policy = RobustPolicy()
    return [
        (step, alert)
        for step, value in enumerate(values)
        for alert in policy.observe(step, [row(step, value, statistic=statistic)])
    ]


def test_a_spike_at_step_4_is_told() -> None:
    ((step, alert),) = alerts([1.0, 1.0, 1.0, 1.0, 1000.0, 1.0])
    assert (step, alert.rule) == (4, "spike")
    assert "1000 times the largest of the 4 steps before" in alert.reason


def test_a_nan_before_it_hides_nothing() -> None:
    told = alerts([1.0, 1.0, math.nan, 1.0, 1000.0])
    assert [(step, alert.rule) for step, alert in told] == [(2, "not finite"), (4, "spike")]


def test_a_spike_hides_no_other() -> None:
    values = [1.0] * 20 + [500.0] + [1.0] * COOL_DOWN + [1.0] * 4 + [500.0]
    assert [step for step, _ in alerts(values)] == [20, len(values) - 1]


def test_a_new_level_is_told_once() -> None:
    assert len(alerts([1.0] * 20 + [500.0] * 60)) == 1


def test_what_stays_odd_is_told_again_only_after_the_cool_down() -> None:
    steps = [step for step, _ in alerts([1.0] + [math.inf] * 25)]
    assert steps == [1, 1 + COOL_DOWN, 1 + 2 * COOL_DOWN]


def test_counts_of_nan_are_odd() -> None:
    ((_, alert),) = alerts([0, 0, 3], "nans")
    assert "3 of its elements are NaN" in alert.reason


@pytest.mark.parametrize("seed", range(10))
def test_normal_series_give_no_alert(seed: int) -> None:
    random = np.random.default_rng(seed)
    steps = np.arange(300)
    decay = 5 * np.exp(-steps / 40) + 0.2
    warm = np.minimum(steps / 50, 1) + 1e-3
    noisy = decay * np.exp(random.normal(0, 0.4, 300))
    heavy = np.exp(random.standard_t(6, 300) * 0.2)
    for values in (decay, warm, noisy, heavy, np.zeros(300), np.ones(300)):
        assert alerts([float(value) for value in values]) == []


def test_rounding_noise_is_no_spike() -> None:
    policy = RobustPolicy()
    told = []
    for step in range(20):
        rows = [row(step, 1.0, "big"), row(step, 2.0, "other"), row(step, 1e-30 if step < 15 else 1e-10, "bias")]
        told += policy.observe(step, rows)
    assert told == []
