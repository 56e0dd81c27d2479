"""The configuration of ``TrainerMon``: defaults, errors of the documented classes, warnings."""

from __future__ import annotations

from typing import Any

import pytest

from msprobe.core.errors import ConfigError
from msprobe.monitor.settings.first_version import plan_of, read_first_version


def test_defaults() -> None:
    settings = read_first_version({})
    assert settings.statistics == ("norm", "shape", "dtype")
    plan = plan_of(settings, 1)
    assert plan.statistics == {}
    assert plan.module_values("any") == frozenset()


@pytest.mark.parametrize(
    ("key", "value", "kind"),
    [
        ("targets", [], TypeError),
        ("dynamic_on", 1, TypeError),
        ("print_struct", "yes", TypeError),
        ("module_ranks", [True], TypeError),
        ("xy_distribution", None, TypeError),
        ("cc_distribution", [], TypeError),
        ("alert", {"rules": [{"rule_name": "Other"}]}, ValueError),
        ("ops", "norm", TypeError),
        ("ndigits", 0, ValueError),
        ("ndigits", 21, ValueError),
        ("step_count_per_record", 0, ValueError),
        ("eps", "1e-8", TypeError),
        ("append_output", ["Dec03_21-34-40"], TypeError),
        ("sa_order", "h,d", ValueError),
    ],
)
def test_a_wrong_value_is_an_error_of_the_documented_class(key: str, value: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind, match=key) as caught:
        read_first_version({key: value})
    assert isinstance(caught.value, ConfigError)


@pytest.mark.parametrize(
    ("key", "value", "used"), [("start_step", -1, 0), ("collect_times", "3", 100_000_000), ("step_interval", 0, 1)]
)
def test_some_wrong_values_are_warnings(caplog: pytest.LogCaptureFixture, key: str, value: Any, used: int) -> None:
    assert getattr(read_first_version({key: value}), key) == used
    assert key in caplog.text
    assert "default" in caplog.text


def test_unknown_keys_and_statistics_are_warnings(caplog: pytest.LogCaptureFixture) -> None:
    settings = read_first_version({"ops": ["nrom", "max"], "wg_distributoin": True})
    assert settings.statistics == ("max", "shape", "dtype")
    assert "wg_distribution" in caplog.text
    assert "nrom" in caplog.text


def test_sources_of_a_plan() -> None:
    plan = plan_of(read_first_version({"xy_distribution": True, "forward_only": True, "mv_distribution": True}), 1)
    assert [source.name for source in plan.statistics] == ["actv", "exp_avg", "exp_avg_sq"]
    both = read_first_version({"xy_distribution": True, "forward_only": True, "backward_only": True})
    assert not plan_of(both, 1).statistics
