"""IntRanges behaves as the set of integers it was written from."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe.core.config.fields import HIGHEST, IntRanges, parse_item

NUMBERS = st.integers(0, 60)
BOUNDS = st.tuples(NUMBERS, NUMBERS).map(lambda ends: (min(ends), max(ends)))
WRITTEN = st.lists(NUMBERS | NUMBERS.map(str) | BOUNDS.map(lambda ends: f"{ends[0]}-{ends[1]}"))


def spread(items: list[int | str]) -> set[int]:
    members: set[int] = set()
    for item in items:
        ends = [int(end) for end in str(item).split("-")]
        members.update(range(ends[0], ends[-1] + 1))
    return members


@given(WRITTEN)
def test_behaves_as_the_set_it_was_written_from(items: list[int | str]) -> None:
    ranges, members = IntRanges.of(*items), spread(items)
    assert list(ranges) == sorted(members)
    assert len(ranges) == len(members)
    assert bool(ranges) == bool(members)
    assert {number for number in range(-2, 70) if number in ranges} == members


@given(WRITTEN, st.randoms())
def test_equal_sets_are_equal_values(items: list[int | str], random) -> None:  # type: ignore[no-untyped-def]
    shuffled = list(items)
    random.shuffle(shuffled)
    first, second = IntRanges.of(*items), IntRanges.of(*shuffled)
    assert first == second
    assert hash(first) == hash(second)
    assert IntRanges.of(*first.to_list()) == first


@given(WRITTEN.filter(bool))
def test_last_is_the_largest(items: list[int | str]) -> None:
    assert IntRanges.of(*items).last == max(spread(items))


def test_last_of_an_empty_set_is_an_error() -> None:
    with pytest.raises(ValueError, match="empty"):
        _ = IntRanges().last


def test_a_huge_range_is_kept_as_its_ends() -> None:
    ranges = IntRanges.of(f"0-{HIGHEST}", 5)
    assert ranges.bounds == ((0, HIGHEST),)
    assert HIGHEST in ranges
    assert HIGHEST + 1 not in ranges


@pytest.mark.parametrize(("item", "bounds"), [(3, (3, 3)), ("3", (3, 3)), ("4-6", (4, 6)), (" 4 - 6 ", (4, 6))])
def test_accepted_items(item: int | str, bounds: tuple[int, int]) -> None:
    assert parse_item(item) == bounds


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (True, "whole number"),
        (1.0, "whole number"),
        (None, "whole number"),
        ([1], "whole number"),
        (-1, "between 0 and 1000000"),
        (HIGHEST + 1, "between 0 and 1000000"),
        ("9" * 5000, "between 0 and 1000000"),
        ("0-9999999", "between 0 and 1000000"),
        ("", "form"),
        ("a", "form"),
        ("1-", "form"),
        ("-1", "form"),
        ("1-2-3", "form"),
        ("٣", "form"),
        ("6-4", 'write "4-6"'),
    ],
)
def test_refused_items_say_what_is_allowed(item: object, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_item(item)


def test_neither_text_nor_fraction_is_a_member() -> None:
    ranges = IntRanges.of("0-9")
    assert "3" not in ranges
    assert 3.5 not in ranges
