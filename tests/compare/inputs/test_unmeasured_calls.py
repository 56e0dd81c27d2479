"""What one side says it could not measure is left out of the other one, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msprobe.compare.inputs.recorded_by_both import recorded_by_both
from msprobe.core.store.reader import Dump, Place

OWN, OTHER, INSIDE = "Cell.a.Own", "Cell.b.Dense", "Mint.exp.0.forward"


def dump(*names: str, listed: Any = None) -> Dump:
    header = {} if listed is None else {"not_measured": listed}
    construct = {INSIDE: f"{OWN}.forward.0"}
    place = Place(Path("dump.json"), 0, "rank", 0)
    data: dict[str, Any] = {name: {} for name in names}
    return Dump(place, "statistics", "L0", "mindspore", data=data, stacks={}, construct=construct, header=header)


def compared(listed: Any, *names: str) -> tuple[list[str], list[str]]:
    target, golden, notes = recorded_by_both(dump(*names), dump(f"{OTHER}.forward.0", listed=listed))
    assert list(golden.data) == [f"{OTHER}.forward.0"]
    return list(target.data), notes


def test_backward_calls_alone() -> None:
    kept, notes = compared([f"{OWN}.backward"], f"{OWN}.forward.0", f"{OTHER}.forward.0", f"{OWN}.backward.0")
    assert kept == [f"{OWN}.forward.0", f"{OTHER}.forward.0"]
    assert notes == [f"the golden run could not measure {OWN}.backward in a compiled graph: 1 record is not compared"]


def test_all_calls_with_what_is_inside() -> None:
    names = (f"{OWN}.forward.0", f"{OWN}.backward.0", f"{OWN}.parameters_grad.0", INSIDE, f"{OTHER}.forward.0")
    assert compared([OWN], *names)[0] == [f"{OTHER}.forward.0"]


def test_what_is_recorded_all_the_same_is_compared() -> None:
    assert compared([OTHER], f"{OTHER}.forward.0") == ([f"{OTHER}.forward.0"], [])


def test_damaged_lists_leave_nothing_out() -> None:
    for listed in (None, "Cell", [3, None], {}):
        assert compared(listed, f"{OWN}.forward.0") == ([f"{OWN}.forward.0"], [])
