"""The published second stage: the standard of each function, and its limits."""

from __future__ import annotations

import math

import pytest

from msprobe.numerics.kinds import Level
from msprobe.numerics.published.categories import Standard, limits_of, standard_of
from msprobe.numerics.published.metrics import PublishedMetrics
from msprobe.numerics.published.second_stage import second_stage

NONE = PublishedMetrics(
    small_value_error_share=0.0, rmse=0.0, max_relative_error=0.0, mean_relative_error=0.0, error_balance=0.0,
    nonfinite_error_rate=0.0, relative_error_rate=0.0, absolute_error_rate=0.0, binary_error_rate=0.0,
    max_ulp_error=0.0, mean_ulp_error=0.0, ulp_share_over_threshold=0.0, share_1000=1.0,
)  # fmt: skip


def with_(**figures: float) -> PublishedMetrics:
    return PublishedMetrics(**{name: figures.get(name, getattr(NONE, name)) for name in PublishedMetrics.__slots__})


@pytest.mark.parametrize(
    ("function", "dtype", "standard"),
    [
        ("mul", "float32", Standard.ABSOLUTE),
        ("relu", "bfloat16", Standard.BINARY),
        ("matmul", "float16", Standard.ULP),
        ("conv2d", "float32", Standard.THOUSANDTH),
        ("softmax", "float32", Standard.BENCHMARK),
        ("softmax", "int64", Standard.BINARY),
        ("softmax", "float8_e4m3fn", Standard.ULP),
    ],
)
def test_the_standard_of_a_function(function: str, dtype: str, standard: Standard) -> None:
    assert standard_of(function, dtype) is standard


@pytest.mark.parametrize("function", ["mul", "relu", "matmul", "conv2d", "softmax"])
def test_what_has_no_error_passes(function: str) -> None:
    assert second_stage(function, "float32", NONE, NONE).level is Level.PASS


@pytest.mark.parametrize(
    ("function", "dtype", "wrong", "name"),
    [
        ("mul", "float32", {"relative_error_rate": 1e-6}, "relative_error_rate"),
        ("mul", "float32", {"nonfinite_error_rate": 1e-6}, "nonfinite_error_rate"),
        ("relu", "float32", {"binary_error_rate": 1e-9}, "binary_error_rate"),
        ("conv2d", "float32", {"share_1000": 0.999}, "share_1000"),
        ("matmul", "float32", {"mean_ulp_error": 64.0, "ulp_share_over_threshold": 0.05}, "ulp_share_over_threshold"),
        ("matmul", "float16", {"ulp_share_over_threshold": 0.001}, "ulp_share_over_threshold"),
        ("softmax", "float32", {"rmse": 2.1 * 2.0**-14}, "rmse"),
        ("softmax", "float32", {"nonfinite_error_rate": 1e-4}, "nonfinite_error_rate"),
        ("softmax", "float32", {"rmse": math.nan}, "rmse"),
        ("sum", "float32", {"rmse": 1.3 * 2.0**-14}, "rmse"),
    ],
)
def test_what_is_beyond_its_limit_is_an_error(function: str, dtype: str, wrong: dict[str, float], name: str) -> None:
    found = second_stage(function, dtype, with_(**wrong), NONE)
    assert found.level is Level.ERROR
    assert found.levels[name] is Level.ERROR
    assert name in found.message


def test_the_other_device_may_be_as_wrong() -> None:
    both = with_(rmse=0.1, max_relative_error=0.3)
    assert second_stage("softmax", "float32", both, both).level is Level.PASS
    assert second_stage("softmax", "float32", with_(rmse=0.21), with_(rmse=0.1)).level is Level.ERROR


def test_the_balance_of_errors_is_told_and_never_judged() -> None:
    found = second_stage("softmax", "float32", with_(error_balance=1.0), NONE)
    assert found.level is Level.PASS
    assert found.metrics["error_balance"] == 2.0**14


@pytest.mark.parametrize(("function", "dtype"), [("softmax", "float32"), ("matmul", "float32"), ("add", "float64")])
def test_what_cannot_be_judged_is_no_pass(function: str, dtype: str) -> None:
    found = second_stage(function, dtype, NONE, None)
    assert found.level is None
    assert found.message


def test_a_table_without_the_metrics_of_the_standard_is_no_pass() -> None:
    assert second_stage("softmax", "float32", PublishedMetrics(), PublishedMetrics()).level is None


def test_limits_are_stricter_for_listed_functions() -> None:
    assert [limits_of(name).name for name in ("softmax", "embedding", "matmul")] == ["L0", "L1", "L2"]
