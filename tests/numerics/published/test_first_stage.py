"""The published first stage, its known wrong answers, and the answers of the default policy beside them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from msprobe.core.tensors.dtypes import DType, find_dtype
from msprobe.numerics.conditioned import by_rounding
from msprobe.numerics.kinds import Level
from msprobe.numerics.published.first_stage import first_stage
from msprobe.numerics.published.metrics import PublishedMetrics, measure


def dtype(name: str) -> DType:
    found = find_dtype(name)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("name", "figures", "level"),
    [
        ("float32", {"cosine": 0.99}, Level.ERROR),
        ("float32", {"max_absolute_error": 9e-4}, Level.PASS),
        ("float32", {"share_1000": 0.999}, Level.ERROR),
        ("float32", {"share_10000": 0.9999}, Level.WARNING),
        ("bfloat16", {"share_100": 0.99}, Level.ERROR),
        ("bfloat16", {"share_1000": 0.999}, Level.WARNING),
        ("bfloat16", {"share_10000": 0.5}, Level.PASS),
        ("int32", {"binary_error_rate": 0.1}, Level.ERROR),
        ("int32", {"binary_error_rate": 0.0}, Level.PASS),
    ],
)
def test_published_rules(name: str, figures: dict[str, float], level: Level) -> None:
    good = {"cosine": 1.0, "max_absolute_error": 1.0, "share_100": 1.0, "share_1000": 1.0, "share_10000": 1.0}
    found = first_stage(PublishedMetrics(**{**good, **figures}), dtype(name), elements=10)
    assert found.level is level
    assert bool(found.message) == (level is not Level.PASS)


def test_the_cosine_of_one_element_and_of_nan_is_not_judged() -> None:
    wrong = PublishedMetrics(cosine=-1.0, max_absolute_error=1e-4)
    assert first_stage(wrong, dtype("float32"), elements=1).level is Level.PASS
    assert first_stage(PublishedMetrics(cosine=math.nan), dtype("float32"), elements=9).level is Level.PASS


def test_a_quantizing_function_may_be_off_by_one() -> None:
    one_off = PublishedMetrics(max_absolute_error=1.0, binary_error_rate=0.5)
    assert first_stage(one_off, dtype("int8"), elements=9, quantizing=True).level is Level.PASS
    assert first_stage(one_off, dtype("int8"), elements=9).level is Level.ERROR


def published_and_default(result: np.ndarray, golden: np.ndarray, name: str) -> tuple[Level, Level]:
    metrics = measure(result, golden, dtype(name))
    published = first_stage(metrics, dtype(name), elements=result.size).level
    return published, by_rounding(result.astype(np.float64), golden, dtype(name)).level


def test_noise_on_small_values_is_found_by_the_default_policy_alone() -> None:
    golden = np.random.default_rng(0).standard_normal(1000) * 1e-5
    noise = golden * (1 + 0.05 * np.random.default_rng(1).standard_normal(1000))
    assert published_and_default(noise, golden, "float32") == (Level.PASS, Level.ERROR)


def test_a_right_result_of_bfloat16_is_right_by_the_default_policy() -> None:
    golden = np.exp(np.random.default_rng(0).standard_normal(1000))
    bits = golden.astype(np.float32).view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)
    assert published_and_default(rounded, golden, "bfloat16") == (Level.WARNING, Level.PASS)


@pytest.mark.parametrize("odd", [math.nan, math.inf])
def test_one_odd_element_in_ten_thousand_is_an_error_by_the_default_policy(odd: float) -> None:
    golden = np.linspace(1.0, 2.0, 10_000)
    result = golden.astype(np.float32)
    result[77] = odd
    assert published_and_default(result, golden.astype(np.float32).astype(np.float64), "float32")[1] is Level.ERROR
