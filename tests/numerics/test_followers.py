"""What follows from accepted differences, on chains of calls with chosen differences."""

from __future__ import annotations

from dataclasses import MISSING, fields

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from msprobe.numerics.followers import follow
from msprobe.numerics.verdict import AMPLIFICATION, Measured, Role, RowKind

DIFFERENCES = st.lists(st.floats(1e-4, 0.9), min_size=2, max_size=8)


def chain(results: list[float]) -> Measured:
    """Calls of one input and one result each; every input is the result of the call before."""
    calls = len(results)
    worst = np.zeros(2 * calls)
    worst[1::2], worst[2::2] = results, results[:-1]
    origin = np.full(2 * calls, -1)
    origin[2::2] = np.arange(1, 2 * calls - 1, 2)
    rows = 2 * calls
    known = {
        "role": np.tile([Role.INPUT, Role.RESULT], calls).astype(np.int64),
        "kind": np.zeros(rows, np.int64),
        "element": worst,
        "roundoff": np.full(rows, 2.0**-24),
        "passed": np.full(rows, 2.0**-24),
        "numel": np.full(rows, 32.0),
        "reduction": np.ones(rows),
        "rounded": np.zeros(rows, np.bool_),
        "whole": np.ones(rows, np.bool_),
        "fresh": np.zeros(rows, np.bool_),
        "origin": origin,
        "row_starts": np.arange(0, rows + 1, 2),
        "depends": np.full(calls, -1),
        "coarsest": np.full(calls, 2.0**-24),
        "enclosing": np.full(calls, -1),
    }
    others = (field.name for field in fields(Measured) if field.name not in known and field.default_factory is MISSING)
    return Measured(**{name: np.zeros(rows) for name in others}, **known)


def followed(results: list[float], place: int = 0) -> np.ndarray:
    """Return the kinds of the results where that of the call ``place`` is accepted; all rows count as different."""
    measured = chain(results)
    kind = np.where(measured.worst > 0.0, RowKind.VALUE, RowKind.NONE)
    accepted = np.zeros(len(kind), np.bool_)
    accepted[2 * place + 1] = True
    return follow(measured, kind, accepted, place).kind[1::2]


@given(results=DIFFERENCES)
def test_a_result_far_beyond_its_inputs_is_never_taken_for_a_consequence(results: list[float]) -> None:
    for number, kind in enumerate(followed(results)[1:], 1):
        before, own = results[number - 1], results[number]
        if own > 1.01 * AMPLIFICATION * before + 1e-3:
            assert kind == RowKind.VALUE
        if own > 0.26:
            assert kind in (RowKind.VALUE, RowKind.HIDDEN_BY_ACCEPTED)
        if own <= min(before, 0.25):
            assert kind == RowKind.FOLLOWS_ACCEPTED


@given(results=DIFFERENCES, data=st.data())
def test_what_comes_before_is_left_as_it_is(results: list[float], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(results) - 1))
    kinds = followed(results, place)
    assert (kinds[:place] == RowKind.VALUE).all() and kinds[place] == RowKind.ACCEPTED


def test_another_argument_or_a_missing_value_never_follows() -> None:
    measured = chain([0.01, 0.01, 0.01])
    accepted = np.zeros(6, np.bool_)
    accepted[1] = True
    for hard in (RowKind.ARGUMENT, RowKind.MISSING_IN_TARGET, RowKind.SHAPE, RowKind.NON_FINITE):
        kind = np.array([RowKind.NONE, RowKind.VALUE, RowKind.VALUE, hard, RowKind.VALUE, RowKind.VALUE], np.int64)
        assert follow(measured, kind, accepted, 0).kind[3] == hard


def test_shapes_and_nan_follow_from_accepted_ones_and_hide_others() -> None:
    measured = chain([0.01, 0.01, 0.01])
    accepted = np.zeros(6, np.bool_)
    accepted[1] = True
    for hard in (RowKind.SHAPE, RowKind.NON_FINITE):
        kind = np.array([RowKind.NONE, hard, hard, hard, hard, hard], np.int64)
        assert (follow(measured, kind, accepted, 0).kind[2:] >= RowKind.FOLLOWS_ACCEPTED).all()
        assert follow(measured, kind, accepted, 0).kind[3] == RowKind.HIDDEN_BY_ACCEPTED


def test_the_spread_goes_on_to_the_next_step() -> None:
    measured = chain([0.01, 0.012])
    kind = np.array([RowKind.NONE, RowKind.VALUE, RowKind.VALUE, RowKind.VALUE], np.int64)
    accepted = np.array([False, True, False, False])
    assert follow(measured, kind, accepted, 0).spread == 0.012
    assert follow(measured, kind, ~accepted & accepted, 2).spread == 0.0
    assert follow(measured, kind, ~accepted & accepted, 2, 0.05).spread == 0.05
