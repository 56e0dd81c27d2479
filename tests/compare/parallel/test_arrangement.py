"""How pieces lie on the ranks of both sides, from their values and the size of the whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from msprobe.compare.parallel.arrangement import Grid, Kind, Mode, arranged, likely, whole, why_no_whole
from tests.compare.parallel.test_pieces import drawn, piece

WHOLE = drawn(3, 4, 4)
LEFT, RIGHT = drawn(4, 4, 4), drawn(5, 4, 4)


def tensor_ranks(*parts: np.ndarray[Any, Any]) -> Grid:
    """Return the pieces of ranks of tensor parallelism."""
    return {(number, 0, 0, 0, 0): piece(part) for number, part in enumerate(parts)}


ONE = tensor_ranks(LEFT + RIGHT)


@pytest.mark.parametrize(
    ("parts", "mode"),
    [
        ((LEFT + RIGHT, LEFT + RIGHT), Mode.COPY),
        (((LEFT + RIGHT)[:2], (LEFT + RIGHT)[2:]), Mode.CUT),
        ((LEFT, RIGHT), Mode.SUM),
    ],
    ids=["copies", "cuts", "summands"],
)
def test_pieces_lie_as_the_other_side_asks(parts: tuple[np.ndarray[Any, Any], ...], mode: Mode) -> None:
    pair = arranged(tensor_ranks(*parts), ONE, Kind.ACTIVATION)
    assert pair is not None and pair[0].modes[0] is mode
    made, wanted = whole(tensor_ranks(*parts), pair[0]), whole(ONE, pair[1])
    assert made.numel == wanted.numel and made.mean == pytest.approx(wanted.mean)


def test_a_parameter_is_no_sum_but_a_copy_that_has_come_apart() -> None:
    grid = tensor_ranks(WHOLE, WHOLE + 0.5)
    pair = arranged(grid, tensor_ranks(WHOLE), Kind.PARAMETER)
    assert pair is not None and pair[0].modes[0] is Mode.DRIFTED
    assert whole(grid, pair[0], piece(WHOLE)).mean == pytest.approx(WHOLE.mean() + 0.5), "the one that is farther away"


def test_the_gradient_of_a_copy_is_a_sum_where_sizes_leave_it_open() -> None:
    ours, theirs = (
        tensor_ranks(LEFT, RIGHT),
        tensor_ranks(*(part for half in (LEFT, RIGHT) for part in (half, 0 * half))),
    )
    copies = (Mode.COPY,) * 5
    pair = arranged(ours, theirs, Kind.GRADIENT_OF_PARAMETER, (copies, copies))
    assert pair is not None and (pair[0].modes[0], pair[1].modes[0]) == (Mode.SUM, Mode.SUM)


def test_pieces_that_make_no_whole_are_not_arranged() -> None:
    assert arranged(tensor_ranks(WHOLE[:1], WHOLE[1:3]), ONE, Kind.ACTIVATION) is None


@pytest.mark.parametrize(
    ("parts", "relation"),
    [
        ((WHOLE[:3], WHOLE[1:]), "24 elements, and the other side has 16: they overlap"),
        ((WHOLE[:1], WHOLE[1:3]), "12 elements, and the other side has 16: they leave a gap"),
    ],
    ids=["overlap", "gap"],
)
def test_why_pieces_make_no_whole_is_told(parts: tuple[np.ndarray[Any, Any], ...], relation: str) -> None:
    grid = tensor_ranks(*parts)
    assert arranged(grid, ONE, Kind.PARAMETER) is None
    assert relation in why_no_whole(grid, ONE)


def test_one_side_alone_says_what_its_values_say() -> None:
    assert likely(tensor_ranks(WHOLE, WHOLE), Kind.ACTIVATION).modes[0] is Mode.COPY
    assert likely(tensor_ranks(LEFT, RIGHT), Kind.ACTIVATION).modes[0] is Mode.CUT


def test_what_context_parallelism_gathers_has_an_order_of_its_own() -> None:
    grid = {(0, number, 0, 0, 0): piece(WHOLE) for number in range(2)}
    pair = arranged(grid, tensor_ranks(WHOLE), Kind.ACTIVATION)
    assert pair is not None and whole(grid, pair[0]).projection is None
