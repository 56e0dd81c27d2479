"""The copy of an embedding on the last stage is the embedding: its gradient is a summand, its own parameter none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from msprobe.compare.parallel.arrangement import HOLDER
from msprobe.compare.parallel.identity import Call, Key
from msprobe.compare.parallel.tied_parameters import Calls, tie
from msprobe.core.naming import Phase
from tests.compare.parallel.test_pieces import drawn, record

WEIGHT, OTHER = drawn(1, 4, 3), drawn(2, 4, 3)
FIRST, LAST = drawn(3, 4, 3), drawn(4, 4, 3)
AT = (0, 0, 0, 0, 0, 0)


def call(path: str, phase: Phase, body: dict[str, Any]) -> tuple[Key, dict[tuple[int, ...], Call]]:
    key = Key(path, phase, 0, 0)
    return key, {AT: Call(key, f"Module.{path}.Layer.{phase.value}.0", "Layer", body, None)}


def forward(path: str, *given: np.ndarray[Any, Any], **parameters: np.ndarray[Any, Any]) -> Any:
    arguments = [record(values) for values in (drawn(9, 2, 4), *given)]
    own = {name: record(values) for name, values in parameters.items()}
    return call(path, Phase.FORWARD, {"input_args": arguments, "output": [], "parameters": own})


def gradient(path: str, values: np.ndarray[Any, Any]) -> Any:
    return call(path, Phase.PARAMETERS_GRAD, {"weight": record(values)})


def stages(copy: np.ndarray[Any, Any] = WEIGHT) -> Calls:
    """The last stage has a copy."""
    return dict([
        forward("embedding", weight=WEIGHT),
        forward("output", weight=copy),
        gradient("embedding", FIRST),
        gradient("output", LAST),
    ])


def whole() -> Calls:
    """One process gives the embedding to the output layer."""
    return dict([forward("embedding", weight=WEIGHT), forward("output", WEIGHT), gradient("embedding", FIRST + LAST)])


@pytest.mark.parametrize("turned", [False, True], ids=["target", "golden"])
def test_the_gradient_of_the_copy_is_a_summand(turned: bool) -> None:
    split, single = stages(), whole()
    tie(*((single, split) if turned else (split, single)))
    assert Key("output", Phase.PARAMETERS_GRAD, 0, 0) not in split
    parts = split[Key("embedding", Phase.PARAMETERS_GRAD, 0, 0)]
    assert sorted(place[HOLDER] for place in parts) == [0, 1]
    norms = sorted(part.body["weight"]["Norm"] for part in parts.values())
    assert norms == pytest.approx(sorted(float(np.linalg.norm(each)) for each in (FIRST, LAST)))
    assert split[Key("output", Phase.FORWARD, 0, 0)][AT].body["parameters"] == {}
    given = single[Key("output", Phase.FORWARD, 0, 0)][AT].body["input_args"]
    assert given[0] is not None and given[1] is None, "the weight is no argument any more"


def test_another_parameter_is_no_copy() -> None:
    split, single = stages(OTHER), whole()
    tie(split, single)
    assert Key("output", Phase.PARAMETERS_GRAD, 0, 0) in split
    assert "weight" in split[Key("output", Phase.FORWARD, 0, 0)][AT].body["parameters"]


def test_two_sides_that_both_have_the_copy_stay() -> None:
    ours, theirs = stages(), stages()
    tie(ours, theirs)
    assert ours == stages() and theirs == stages()
