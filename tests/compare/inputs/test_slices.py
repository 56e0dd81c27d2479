"""The grammar of ``--target-slice`` and ``--golden-slice``."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe.compare.inputs.slices import WHOLE, AxisSlice, TensorSlices, parse_slices, sliced_shape
from msprobe.core.errors import MsprobeException

numbers = st.integers(-50, 50)
items = st.builds(
    AxisSlice,
    axis=st.none() | st.integers(-3, 3),
    length=st.none() | st.integers(1, 40),
    begin=numbers,
    end=st.none() | numbers,
)
shapes = st.lists(st.integers(0, 40), max_size=4).map(tuple)


def parsed(axes: list[AxisSlice]) -> TensorSlices | None:
    try:
        return parse_slices(axes, "target_slice")
    except MsprobeException:
        return None


@given(st.lists(items, min_size=1, max_size=4))
def test_the_text_of_slices_is_read_as_the_same_slices(axes: list[AxisSlice]) -> None:
    slices = parsed(axes)
    if slices is not None:
        assert parse_slices(str(slices), "target_slice") == slices
        values = [{"dim": one.axis, "size": one.length, "begin": one.begin, "end": one.end} for one in slices.axes]
        known = [{key: number for key, number in value.items() if number is not None} for value in values]
        if all("dim" in value for value in known):
            assert parse_slices(known, "target_slice") == slices


@given(st.lists(items, min_size=1, max_size=4), shapes)
def test_slices_cut_what_numpy_cuts(axes: list[AxisSlice], shape: tuple[int, ...]) -> None:
    slices = parsed(axes)
    ranges = slices.of(shape) if slices is not None else None
    if slices is None or ranges is None:
        return
    tensor = np.arange(np.prod(shape)).reshape(shape)
    part = tensor[ranges]
    assert part.shape == sliced_shape(ranges) != shape and bool(part.size) == bool(tensor.size)
    expected = tensor
    for axis, length in enumerate(shape):
        fits = [
            one for one in slices.axes if one.axis in (None, axis, axis - len(shape)) and one.length in (None, length)
        ]
        if len(fits) == 1 and ranges[axis] != slice(0, length):
            expected = expected[(slice(None),) * axis + (slice(fits[0].begin, fits[0].end),)]
        else:
            expected = expected[(slice(None),) * axis + (ranges[axis],)]
    assert np.array_equal(part, expected)


@given(st.text(alphabet="0123456789-*/=:, x", max_size=12))
def test_any_text_is_slices_or_one_line_that_says_why(text: str) -> None:
    try:
        assert parse_slices(text, "golden_slice").axes
    except MsprobeException as error:
        assert str(error).count("\n") == 0 and "golden_slice" in str(error)


MEANINGS = {
    "0/8=2": ((8, 4), (1, 4)),
    "0/8=2,1/32=:17": ((8, 32, 16), (1, 17, 16)),
    "*/32=-17:": ((2, 4, 32, 32), (2, 4, 17, 17)),
    "-1/32=:3": ((32, 32), (32, 3)),
    "0=4:9": ((9,), (5,)),
    "0=-1": ((5, 2), (1, 2)),
    "1/4=1:3": ((4,), None),
    "0/8=1:": ((7, 8), None),
    "0=4:9 ": ((8,), None),
    "0/8=:8": ((8,), None),
}


@pytest.mark.parametrize("text", list(MEANINGS))
def test_what_is_taken(text: str) -> None:
    shape, taken = MEANINGS[text]
    ranges = parse_slices(text, "target_slice").of(shape)
    assert (None if ranges is None else sliced_shape(ranges)) == taken


WRONG = {
    "": "give items such as",
    "0": "give items such as",
    "0/8": "give items such as",
    "0/8=2;1/4=1": "give items such as",
    "0=1:2:3": "give items such as",
    "*=0:4": "needs a length",
    "0/0=0": "a length is at least 1",
    "0/8=8": "no such range",
    "0/8=3:3": "no such range",
    "0=5:2": "the range is empty",
    "0/8=1,0/8=2": "given twice",
    "0=99999999999999999999": "no axis is as long",
}


@pytest.mark.parametrize("text", list(WRONG))
def test_a_wrong_text_is_one_clear_line(text: str) -> None:
    with pytest.raises(MsprobeException, match=WRONG[text]):
        parse_slices(text, "target_slice")


@pytest.mark.parametrize("given_", [3, {}, [], [{}], [{"dim": "0"}], [{"dim": 0, "step": 2}], ["0=1"]])
def test_a_wrong_value_is_one_clear_line(given_: object) -> None:
    with pytest.raises(MsprobeException, match="target_slice"):
        parse_slices(given_, "target_slice")


def test_nothing_given_cuts_nothing() -> None:
    assert parse_slices(None, "target_slice") is WHOLE and WHOLE.of((3, 4)) is None and not WHOLE
