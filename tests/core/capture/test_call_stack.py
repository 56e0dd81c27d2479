"""Call stacks: the same place has one number, and reads as the user's own lines."""

from __future__ import annotations

from msprobe.core.capture.call_stack import StackTable


def first(table: StackTable) -> int:
    return table.capture()


def second(table: StackTable) -> int:
    return table.capture()


def test_the_same_place_has_one_number() -> None:
    table = StackTable()
    assert len({first(table) for _ in range(5)}) == 1


def test_different_places_have_different_numbers() -> None:
    table = StackTable()
    numbers = [first(table), second(table)]
    numbers.append(first(table))
    assert len(set(numbers)) == 3


def test_two_calls_on_one_line_share_a_number() -> None:
    table = StackTable()
    one, two = first(table), first(table)
    assert one == two


def test_the_text_is_innermost_first_with_the_source() -> None:
    table = StackTable()
    frames = table.text(first(table))
    assert frames[0].startswith(f"File {__file__}, line ")
    assert frames[0].endswith("in first, \n return table.capture()")
    assert "test_the_text_is_innermost_first_with_the_source" in frames[1]


def test_code_without_source_is_left_out() -> None:
    table = StackTable()
    space = {"first": first, "table": table}
    exec("number = first(table)", space)
    frames = table.text(space["number"])  # type: ignore[arg-type]
    assert not any("<string>" in frame for frame in frames)
    assert "in test_code_without_source_is_left_out" in frames[1]


def test_freed_code_does_not_lend_its_number() -> None:
    table = StackTable()
    numbers = []
    for number in range(20):
        space = {"first": first, "table": table}
        exec(f"def place_{number}(): return first(table)\nnumber = place_{number}()", space)
        numbers.append(space["number"])
        del space
    assert {tuple(table.text(number)) for number in numbers} == {tuple(table.text(numbers[0]))}  # type: ignore[arg-type]


def test_frames_of_the_caller_can_be_passed_over() -> None:
    def inner(table: StackTable) -> int:
        return table.capture(2)

    table = StackTable()
    frames = table.text((lambda: inner(table))())
    assert "in test_frames_of_the_caller_can_be_passed_over" in frames[0]
