"""Hyperparameters: paired by name, synonym or similarity, and how that is told."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe.setup_check.differences.hyperparameters import SYNONYMS, compare_hyperparameters
from msprobe.setup_check.document import SetupDocument


def rows(first: dict[str, Any], second: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Return names, how they were paired, and the level of each difference."""
    section = compare_hyperparameters(
        SetupDocument(hyperparameters={"a.sh": {"_": 0, **first}}),
        SetupDocument(hyperparameters={"b.sh": {"_": 0, **second}}),
    )
    return [(row["bench_para"], row["cmp_para"], row["matched_with"], row["level"]) for row in section.rows]


@pytest.mark.parametrize(
    ("first", "second", "how"),
    [
        ({"lr": 1}, {"lr": 2}, "pure name"),
        ({"a.num-layers": 1}, {"b.num_layers": 2}, "pure name"),
        ({"learning-rate": 1}, {"optim.lr": 2}, "mapping"),
        ({"tp": 2}, {"tensor_model_parallel_size": 4}, "mapping"),
        ({"eval_interval": 1}, {"evaluation_interval": 2}, "similarity:0.8125"),
    ],
)
def test_how_names_are_paired(first: dict[str, Any], second: dict[str, Any], how: str) -> None:
    assert rows(first, second) == [(*first, *second, how, "error")]


def test_one_side_only() -> None:
    assert rows({"a": 1}, {"zzz": 1}) == [
        ("Only in comparison", "zzz", None, "warning"),
        ("a", "Only in benchmark", None, "warning"),
    ]


def test_files_of_two_machines_may_have_other_names() -> None:
    first = {"good.sh": {"lr": 1, "x": 1}, "good.yaml": {"seed": 1}, "megatron": {"lr": 1}, "only.json": {"lr": 1}}
    second = {"bad.yml": {"seed": 2}, "model": {"lr": 3}, "bad.sh": {"learning_rate": 2, "x": 1}}
    section = compare_hyperparameters(SetupDocument(hyperparameters=first), SetupDocument(hyperparameters=second))
    found = [(row["file_name"], row["bench_para"], row["cmp_para"]) for row in section.rows]
    assert found == [
        ("model", "Only in comparison", "lr"),
        ("megatron", "lr", "Only in benchmark"),
        ("only.json", "lr", "Only in benchmark"),
        ("good.sh | bad.sh", "lr", "learning_rate"),
        ("good.yaml | bad.yml", "seed", "seed"),
    ]


@pytest.mark.parametrize(
    ("first", "second", "level"),
    [
        ("1e-4", 0.0001, "warning"),
        ("true", True, "warning"),
        ("1", 1, "pass"),
        (1, 2, "error"),
        (None, 0, "error"),
        ([1], [2], "error"),
    ],
)
def test_values(first: Any, second: Any, level: str) -> None:
    found = rows({"x": first}, {"x": second})
    assert [row[-1] for row in found] == ([] if level == "pass" else [level])


@pytest.mark.parametrize(
    ("name", "level", "reason"),
    [
        ("optim.lr", "error", "the optimizer moves"),
        ("per_device_train_batch_size", "error", "gradients are averages"),
        ("data_seed", "error", "other random numbers"),
        ("num-layers", "error", "another model"),
        ("tp", "error", "sums are split"),
        ("output_dir", "warning", "values stay as they are"),
        ("whatever", "error", "train differently"),
    ],
)
def test_every_difference_has_a_reason(name: str, level: str, reason: str) -> None:
    section = compare_hyperparameters(
        SetupDocument(hyperparameters={"a": {name: 1}}), SetupDocument(hyperparameters={"a": {name: 2}})
    )
    assert [row["level"] for row in section.rows] == [level] and reason in section.rows[0]["reason"]


def test_an_exact_name_comes_before_a_synonym() -> None:
    assert rows({"lr": 1, "learning_rate": 5}, {"learning_rate": 5, "base_lr": 2}) == [
        ("lr", "base_lr", "mapping", "error")
    ]


@given(st.dictionaries(st.text(min_size=1, max_size=8), st.integers(), min_size=1))
def test_equal_tables_do_not_differ(table: dict[str, int]) -> None:
    assert rows(table, dict(reversed(table.items()))) == []


def test_a_name_means_one_thing() -> None:
    names = [name for group in SYNONYMS for name in group]
    assert len(names) == len(set(names))
