"""What one call returns reaches the next one whole, also over moves that are not recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from msprobe.check.facts.read_step import read_step
from msprobe.check.findings import Finding
from msprobe.check.rules.copies import RULES
from msprobe.core.store.reader import find_dumps
from tests.check.facts.test_read_step import node, read

SENT, GRADIENT = 3.0, 0.25
BETWEEN = {
    "nothing": {},
    "__setitem__ outside of autograd": {
        "Tensor.__setitem__.0.forward": {"input_args": [node(9.0, 8)], "output": [None]}
    },
    "an addition in place": {
        "Tensor.add_.0.forward": {"input_args": [node(SENT, 3, needs=True)], "output": [node(8.0, 3, needs=True)]}
    },
    "a collective": {"Distributed.all_reduce.0.forward": {"input_args": [node(SENT, 12)], "output": [node(8.0, 12)]}},
}


def found(folder: Path, arrives: dict[str, Any], between: dict[str, Any], gradient: float = GRADIENT) -> list[Finding]:
    """Return what the rule says of two layers, of which the second one gets ``arrives``."""
    data = {
        "Functional.silu.0.forward": {
            "input_args": [node(5.0, 3, 4, needs=True)], "output": [node(SENT, 3, 4, needs=True)],
        },
        **between,
        "Functional.gelu.0.forward": {"input_args": [arrives], "output": [node(2.0, 3, 4, needs=True)]},
        "Functional.gelu.0.backward": {"input": [node(0.5, 3, 4)], "output": [node(gradient, 3, 4)]},
        "Functional.silu.0.backward": {"input": [node(GRADIENT, 3, 4)], "output": [node(0.1, 3, 4)]},
    }  # fmt: skip
    read(folder, data)
    (place,) = find_dumps(folder)
    (rule,) = (one.of_step for one in RULES)
    assert rule is not None
    return list(read_step(place, 0, [rule]).local)


@pytest.mark.parametrize(
    ("arrives", "certainty"),
    [
        (node(2.0, 3, 4, needs=True), "likely"),
        (node(0.0, 3, 4, needs=True), "likely"),
        (node(7.0, 3, 4, needs=True), "possible"),
        (node(SENT * 1.001, 3, 4, needs=True), None),  # a cast to fewer digits
        (node(2.0, 3, 4), None),  # detached: something else
        (node(2.0, 2, 6, needs=True), None),  # another shape than its gradient has
    ],
)
def test_what_arrives_changed(tmp_path: Path, arrives: dict[str, Any], certainty: str | None) -> None:
    told = found(tmp_path, arrives, {})
    assert [one.certainty for one in told] == ([] if certainty is None else [certainty])
    assert all(one.call == "Functional.gelu.0.forward" and "Functional.silu.0.forward" in one.reason for one in told)


@pytest.mark.parametrize("between", BETWEEN)
def test_only_what_keeps_the_gradient_and_the_values_may_lie_between(tmp_path: Path, between: str) -> None:
    told = found(tmp_path, node(2.0, 3, 4, needs=True), BETWEEN[between])
    assert bool(told) == (between in {"nothing", "__setitem__ outside of autograd"})


def test_another_gradient_is_another_way(tmp_path: Path) -> None:
    assert found(tmp_path, node(2.0, 3, 4, needs=True), {}, gradient=0.3) == []
