"""The keys ring, sample and disk_budget: sizes as texts, wrong values with one line each."""

from __future__ import annotations

from typing import Any

import pytest

from msprobe.core.config import check_config
from msprobe.core.config.when_to_record import parse_seconds, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("10GB", 10**10),
        ("512MiB", 512 * 1024**2),
        ("1.5 kB", 1500),
        ("7", 7),
        ("2 TB", 2 * 10**12),
        ("3b", 3),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "GB", "-3", "10 XB", "1e9", "10GB of disk", "9" * 30, "nan"])
def test_texts_that_are_no_sizes(text: str) -> None:
    with pytest.raises(ValueError, match="10GB"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("1.5 min", 90), ("2h", 7200), ("1d", 86400), (7, 7)]
)
def test_durations(text: Any, seconds: float) -> None:
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "-3", "10 weeks", "1e9", "9" * 30, "nan"])
def test_texts_that_are_no_durations(text: str) -> None:
    with pytest.raises(ValueError, match="10min"):
        parse_seconds(text)


def said(**raw: Any) -> list[str]:
    report = check_config({"dump_path": "./dump", **raw})
    return [*map(str, report.problems), *report.warnings]


@pytest.mark.parametrize(
    ("raw", "word"),
    [
        ({"disk_budget": "much"}, 'disk_budget: got "much"'),
        ({"disk_budget": 0}, "disk_budget: got 0"),
        ({"disk_budget": True}, "disk_budget"),
        ({"time_budget": "long"}, 'time_budget: got "long"'),
        ({"time_budget": 0}, "time_budget: got 0"),
        ({"statistics": {"ring": {"all_ranks": "x"}}}, "statistics.ring.all_ranks"),
        ({"statistics": {"ring": {"steps": 0}}}, "statistics.ring.steps: got 0"),
        (
            {"statistics": {"ring": {"stepz": 3}}},
            'statistics.ring.stepz: unknown key, it has no effect; did you mean "steps"?',
        ),
        ({"statistics": {"ring": {"on": ["nann"]}}}, "statistics.ring.on[0]"),
        ({"statistics": {"ring": 3}}, "statistics.ring"),
        ({"statistics": {"sample": {"share": 0}}}, "statistics.sample.share: got 0"),
        ({"statistics": {"sample": {"share": 1.5}}}, "statistics.sample.share: got 1.5"),
        ({"statistics": {"sample": {"every": -1}}}, "statistics.sample.every: got -1"),
        ({"task": "tensor", "tensor": {"ring": {}}}, "tensor.ring: unknown key"),
        ({"statistics": {"ring": {}, "tensor_list": ["relu"]}}, "statistics.tensor_list"),
        ({"statistics": {"ring": {"on": ["nan"]}, "summary_mode": "xor"}}, "statistics.ring.on"),
        ({"level": "debug", "statistics": {"ring": {}}}, "statistics.ring: has no effect at level debug"),
        ({"level": "L2", "task": "tensor", "disk_budget": 5}, "disk_budget: has no effect at level L2"),
    ],
)
def test_what_is_wrong_is_one_line(raw: dict[str, Any], word: str) -> None:
    lines = said(**raw)
    assert len([line for line in lines if word in line]) == 1, lines


def test_what_is_right_is_not_talked_about() -> None:
    section = {"ring": {"steps": 5, "on": ["nan"]}, "sample": {"every": 10, "share": 0.1}}
    assert said(disk_budget="10GB", statistics=section) == []
