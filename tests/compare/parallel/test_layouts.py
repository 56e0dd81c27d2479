"""Trainings spread over two real processes agree with their twin on one, and a fault on one rank is named."""

from __future__ import annotations

import pytest

import msprobe
from msprobe.compare.parallel.logical_dumps import LEFT_OUT
from tests.compare.conftest import Trained

pytestmark = [pytest.mark.torch, pytest.mark.slow]

SPREAD = {
    "tensor": ("tensor", "whole", "tp=2"),
    "pipeline": ("pipeline", "whole", "pp=2"),
    "dtensor": ("dtensor", "plain", "tp=2,pp=1"),
}


@pytest.mark.parametrize("turned", [False, True], ids=["spread_target", "spread_golden"])
@pytest.mark.parametrize("kind", SPREAD)
def test_ranks_together_are_the_model(trained: Trained, kind: str, turned: bool) -> None:
    spread, whole, layout = SPREAD[kind]
    if turned:
        result = msprobe.compare(trained(whole, 1), trained(spread, 2), golden_parallel=layout)
    else:
        result = msprobe.compare(trained(spread, 2), trained(whole, 1), target_parallel=layout)
    counts = result.summary.counts
    assert result.verdict == "same", result.summary
    assert result.summary.first_divergence is None
    assert counts.error == 0 and counts.passed > 20
    own = [row for row in result.rows() if (row.golden if turned else row.target) == "N/A"]
    assert not own, "the model on one rank has nothing that the other lacks"


def test_unlike_layouts_on_both_sides(trained: Trained) -> None:
    result = msprobe.compare(
        trained("tensor", 2), trained("pipeline", 2), target_parallel="tp=2", golden_parallel="pp=2"
    )
    assert result.verdict == "same", result.summary
    assert result.summary.counts.pairs > 100


def test_functions_are_left_out_and_the_answer_says_so(trained: Trained) -> None:
    result = msprobe.compare(trained("tensor", 2), trained("whole", 1), target_parallel="tp=2")
    assert all(row.target.startswith("Module.") for row in result.rows())
    assert LEFT_OUT in result.summary.reason


@pytest.mark.parametrize("fault", ["layers.2.up.weight", "layers.1.down.weight", "layers.3.norm.weight"])
def test_a_fault_on_one_rank_is_named(trained: Trained, fault: str) -> None:
    result = msprobe.compare(trained("tensor", 2, fault), trained("whole", 1), target_parallel="tp=2")
    found = result.summary.first_divergence
    assert found is not None
    path, _, parameter = fault.rpartition(".")
    assert found.slot == f"parameters.{parameter}"
    assert found.module is not None and found.module.startswith(path)
    assert (found.kind == "copies_differ") == ("norm" in fault)


def test_a_fault_in_the_second_stage_has_its_number_in_the_model(trained: Trained) -> None:
    result = msprobe.compare(trained("pipeline", 2, "layers.0.up.weight"), trained("whole", 1), target_parallel="pp=2")
    found = result.summary.first_divergence
    assert found is not None
    assert found.golden == "Module.layers.2.up.ColumnParallelLinear.forward.0"


def test_ranks_that_make_no_whole_replica_are_refused(trained: Trained) -> None:
    result = msprobe.compare(trained("tensor", 2), trained("whole", 1), target_parallel="tp=3")
    assert result.verdict == "not_comparable"
    assert "tp=3,pp=1 is 3 ranks, which does not divide 2" in result.summary.reason
