"""Dumps of other tools do not mark repeated forward calls; that they lie below a backward call tells them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from msprobe.jobs.compare import compare
from tests.compare.dumps import call, gradient, tensor, write

BLOCK, INNER = "Module.block.Block", "Module.block.b.Linear"
CALL = call([tensor()], [tensor()])
FORWARD = {"Functional.linear.0.forward": CALL, f"{INNER}.forward.0": CALL, f"{BLOCK}.forward.0": CALL}
BACKWARD = {
    f"{INNER}.backward.0": gradient([tensor()], [tensor()]),
    f"{BLOCK}.backward.0": gradient([tensor()], [tensor()]),
}
AGAIN = {"Functional.linear.1.forward": CALL, f"{INNER}.forward.1": CALL, f"{BLOCK}.forward.1": CALL}
PARENTS: dict[str, Any] = {
    "Functional.linear.0.forward": f"{INNER}.forward.0",
    f"{INNER}.forward.0": f"{BLOCK}.forward.0",
    f"{BLOCK}.forward.0": None,
    f"{INNER}.backward.0": f"{BLOCK}.backward.0",
    f"{BLOCK}.backward.0": None,
}
REPEATED = {f"{INNER}.forward.1": f"{BLOCK}.forward.1", f"{BLOCK}.forward.1": f"{INNER}.backward.0"}


@pytest.mark.parametrize("early", [True, False], ids=["left_early", "whole"])
@pytest.mark.parametrize("turned", [True, False], ids=["in_golden", "in_target"])
def test_a_repeated_forward_call_is_not_missing(tmp_path: Path, early: bool, turned: bool) -> None:
    inner = {} if early else {"Functional.linear.1.forward": f"{INNER}.forward.1"}
    write(tmp_path / "with", {**FORWARD, **AGAIN, **BACKWARD}, {**PARENTS, **REPEATED, **inner})
    write(tmp_path / "without", {**FORWARD, **BACKWARD}, PARENTS)
    sides = ("without", "with") if turned else ("with", "without")
    summary = compare(*(tmp_path / side for side in sides)).summary
    assert summary.verdict == "same" and not summary.incomplete
    lone = (0, 6) if turned else (6, 0)
    assert (summary.counts.target_only, summary.counts.golden_only) == lone


def test_a_repetition_has_files_of_its_own(tmp_path: Path) -> None:
    """The file of a mask, which has neither Mean nor Norm, is no other value."""

    def masked(number: int) -> Any:
        mask = {**tensor(), "dtype": "torch.bool", "Max": True, "Min": False, "Mean": None, "Norm": None}
        return call([tensor(), {**mask, "data_name": f"{number}.pt"}], [tensor()])

    forward = {**FORWARD, f"{INNER}.forward.0": masked(0)}
    again = {**AGAIN, f"{INNER}.forward.1": masked(1)}
    write(tmp_path / "with", {**forward, **again, **BACKWARD}, {**PARENTS, **REPEATED})
    write(tmp_path / "without", {**forward, **BACKWARD}, PARENTS)
    summary = compare(tmp_path / "with", tmp_path / "without").summary
    assert (summary.verdict, summary.incomplete) == ("same", [])


@pytest.mark.parametrize("turned", [True, False], ids=["in_golden", "in_target"])
def test_a_repetition_with_other_values_is_a_divergence(tmp_path: Path, turned: bool) -> None:
    again = {**AGAIN, f"{INNER}.forward.1": call([tensor()], [tensor(2.0)])}
    parents = {**PARENTS, **REPEATED, "Functional.linear.1.forward": f"{INNER}.forward.1"}
    write(tmp_path / "with", {**FORWARD, **again, **BACKWARD}, parents)
    write(tmp_path / "without", {**FORWARD, **BACKWARD}, PARENTS)
    sides = ("without", "with") if turned else ("with", "without")
    result = compare(*(tmp_path / side for side in sides))
    found = result.summary.first_divergence
    assert found is not None and (found.golden if turned else found.target) == f"{INNER}.forward.1"
    assert (found.kind, found.slot) == ("value", "output.0") and f"{INNER}.forward.0" in found.reason
    levels = {(row.target, row.golden): row.level for row in result.rows() if "N/A" in (row.target, row.golden)}
    assert {level for names, level in levels.items() if f"{INNER}.forward.1.output.0" in names} == {"error"}
    assert {level for names, level in levels.items() if f"{BLOCK}.forward.1.input.0" in names} == {"pass"}


@pytest.mark.parametrize("first", [None, {**tensor(), "Max": None}], ids=["not_recorded", "no_values"])
def test_a_repetition_that_cannot_be_held_against_its_first_run_is_told(tmp_path: Path, first: Any) -> None:
    forward = {name: body for name, body in FORWARD.items() if not name.startswith(INNER)}
    if first is not None:
        forward[f"{INNER}.forward.0"] = call([first], [first])
    parents = {**PARENTS, **REPEATED, "Functional.linear.1.forward": f"{INNER}.forward.1"}
    write(tmp_path / "with", {**forward, **AGAIN, **BACKWARD}, parents)
    write(tmp_path / "without", {**forward, **BACKWARD}, PARENTS)
    result = compare(tmp_path / "with", tmp_path / "without")
    told = [line for line in result.summary.incomplete if line.startswith("recomputed calls of the target")]
    assert result.verdict == "same" and len(told) == 1 and f"{INNER}.forward.1" in told[0]
    levels = {row.level for row in result.rows() if f"{INNER}.forward.1" in row.target}
    assert levels == {"warning"}


def test_a_function_of_a_hand_written_backward_repeats_nothing(tmp_path: Path) -> None:
    extra = {"Torch.mul.0.forward": CALL}
    write(
        tmp_path / "with", {**FORWARD, **extra, **BACKWARD}, {**PARENTS, "Torch.mul.0.forward": f"{INNER}.backward.0"}
    )
    write(tmp_path / "without", {**FORWARD, **BACKWARD}, PARENTS)
    summary = compare(tmp_path / "with", tmp_path / "without").summary
    assert summary.verdict == "same" and "the code differs" in summary.reason, summary


def test_a_cycle_of_parents_ends(tmp_path: Path) -> None:
    loop = {f"{INNER}.forward.0": f"{BLOCK}.forward.0", f"{BLOCK}.forward.0": f"{INNER}.forward.0"}
    for side in ("t", "g"):
        write(tmp_path / side, FORWARD, loop)
    assert compare(tmp_path / "t", tmp_path / "g").verdict == "same"


def test_parents_may_be_as_deep_as_they_like(tmp_path: Path) -> None:
    deep = {f"Module.m.M.forward.{n}": f"Module.m.M.forward.{n + 1}" for n in range(5000)}
    for side in ("t", "g"):
        write(tmp_path / side, FORWARD, {**PARENTS, **deep, f"{BLOCK}.forward.0": "Module.m.M.forward.0"})
    assert compare(tmp_path / "t", tmp_path / "g").verdict == "same"
