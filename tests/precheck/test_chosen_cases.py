"""Which recorded calls are checked: both lists, calls that say nothing, one of a kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from msprobe.precheck.chosen_cases import Selection, choose, unknown_names
from msprobe.replay.cases import Case, cases_in


def tensor(largest: float = 1.0, length: int = 2) -> dict[str, Any]:
    return {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [length], "Max": largest, "Min": 0.0}


def cases(**arguments: Any) -> list[Case]:
    records = {f"{name.replace('__', '.')}.forward": {"input_args": [each]} for name, each in arguments.items()}
    return list(cases_in(records, Path("nowhere")))


CALLS = cases(Torch__exp__0=tensor(), Torch__exp__1=tensor(3.0), Torch__exp__2=tensor(length=3), Torch__sin__0=tensor())


@pytest.mark.parametrize(
    ("selection", "names"),
    [
        (Selection(), ["Torch.exp.0", "Torch.exp.1", "Torch.exp.2", "Torch.sin.0"]),
        (Selection(white=("sin",)), ["Torch.sin.0"]),
        (Selection(black=("exp",)), ["Torch.sin.0"]),
        (Selection(white=("sin", "exp"), black=("exp",)), ["Torch.sin.0"]),
        (Selection(white=("sin",), black=("exp",)), ["Torch.sin.0"]),
        (Selection(white=("exp",), black=("exp",)), []),
        (Selection(done=("Torch.exp.0", "Torch.exp.1")), ["Torch.exp.2", "Torch.sin.0"]),
        (Selection(one_of_a_kind=True), ["Torch.exp.0", "Torch.exp.2", "Torch.sin.0"]),
    ],
)
def test_what_is_chosen(selection: Selection, names: list[str]) -> None:
    assert [each.case.name for each in choose(CALLS, selection)] == names


@pytest.mark.parametrize(
    "name", ["Distributed__all_reduce__0", "Torch__empty__0", "Tensor__to__0", "Tensor__new_empty__0"]
)
def test_what_says_nothing_is_skipped_with_a_reason(name: str) -> None:
    (chosen,) = choose(cases(**{name: tensor()}), Selection())
    assert chosen.skipped


def test_names_that_no_call_has() -> None:
    assert unknown_names(CALLS, ["sin", "conv1d", "abs"]) == ["abs", "conv1d"]
