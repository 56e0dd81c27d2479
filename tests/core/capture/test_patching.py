"""Patches leave every owner exactly as they found it."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe.core.capture.patching import Patches, noted_in


class Base:
    def inherited(self) -> str:
        return "base"


def owner() -> Any:
    class Child(Base):
        @staticmethod
        def static() -> int:
            return 1

        @classmethod
        def of(cls) -> Any:
            return cls

        @property
        def value(self) -> int:
            return 2

    return Child


@given(st.lists(st.sampled_from(["static", "of", "value", "inherited"]), max_size=8), st.integers(1, 3))
def test_everything_is_put_back_exactly(names: list[str], rounds: int) -> None:
    child, patches = owner(), Patches()
    before = dict(vars(child))
    for number, name in enumerate(names):
        patches.plan(child, name, number)
    for _ in range(rounds):
        patches.apply()
        for name in names:
            assert getattr(child, name) == len(names) - 1 - names[::-1].index(name)
        patches.undo()
        assert dict(vars(child)) == before
        assert all(vars(child)[name] is value for name, value in before.items() if name in names)


def test_an_inherited_attribute_is_inherited_again() -> None:
    child, patches = owner(), Patches()
    patches.plan(child, "inherited", None)
    patches.apply()
    assert child.inherited is None
    assert Base.inherited is not None
    patches.undo()
    assert "inherited" not in vars(child)
    assert child().inherited() == "base"


def test_applying_and_undoing_twice_is_once() -> None:
    module, patches = types.ModuleType("m"), Patches()
    module.f = 1  # type: ignore[attr-defined]
    patches.plan(module, "f", 2)
    patches.apply()
    patches.apply()
    assert patches.applied
    patches.undo()
    patches.undo()
    assert (module.f, patches.applied) == (1, False)  # type: ignore[attr-defined]


def test_planned_while_applied_takes_effect_at_once() -> None:
    module, patches = types.SimpleNamespace(f=1, g=1), Patches()
    patches.plan(module, "f", 2)
    patches.apply()
    patches.plan(module, "g", 3)
    assert module.g == 3
    patches.undo()
    assert (module.f, module.g) == (1, 1)


def test_planned_while_applied_takes_effect_even_as_the_first() -> None:
    module, patches = types.SimpleNamespace(f=1), Patches()
    patches.apply()
    patches.plan(module, "f", 2)
    assert module.f == 2
    patches.undo()
    assert module.f == 1


@pytest.mark.parametrize("running", [False, True])
def test_dropping_puts_the_original_back(running: bool) -> None:
    module, patches = types.SimpleNamespace(f=1, g=1), Patches()
    first, second, other = object(), object(), object()
    patches.plan(module, "f", first)
    patches.plan(module, "f", second)
    patches.plan(module, "g", other)
    if running:
        patches.apply()
    patches.drop(module, "f", second)
    assert module.f is (first if running else 1)
    patches.drop(module, "f", first)
    assert module.f == 1
    patches.apply()
    assert module.f == 1
    assert module.g is other
    patches.undo()
    assert (module.f, module.g) == (1, 1)


def test_in_force_is_inside_only_even_when_it_raises() -> None:
    module, patches = types.SimpleNamespace(f=1), Patches()
    patches.plan(module, "f", 2)
    with pytest.raises(KeyError), patches.in_force():
        assert module.f == 2
        raise KeyError
    assert (module.f, patches.applied) == (1, False)


@pytest.mark.parametrize("running", [False, True])
def test_suspended_shows_the_originals_and_then_what_was_there(running: bool) -> None:
    module, patches = types.SimpleNamespace(f=1), Patches()
    patches.plan(module, "f", 2)
    if running:
        patches.apply()
    with pytest.raises(KeyError), patches.suspended():
        assert module.f == 1
        raise KeyError
    assert (module.f, patches.applied) == ((2, True) if running else (1, False))


def test_attributes_of_modules_come_and_go_like_others() -> None:
    module, patches = types.ModuleType("m"), Patches()
    module.f = 1  # type: ignore[attr-defined]
    before = dict(vars(module))
    patches.plan(module, "f", 2)
    patches.plan(types.SimpleNamespace(f=0), "f", 9)  # another owner in between
    patches.plan(module, "f", 3)
    patches.plan(module, "g", 4)
    patches.apply()
    assert (module.f, module.g) == (3, 4)  # type: ignore[attr-defined]
    patches.undo()
    assert dict(vars(module)) == before


class Stop(BaseException):
    """As Ctrl-C: it may come between any two instructions."""


class Late(Exception):
    """As a handler of a signal raises it."""


def interrupted(at: int, run: Any, kind: type[BaseException]) -> bool:
    """Run ``run``, interrupted at the instruction ``at`` of ``Patches``; False when it has fewer."""
    left = at

    def trace(frame: types.FrameType, event: str, _: Any) -> Any:
        nonlocal left
        if frame.f_code.co_filename != sys.modules[Patches.__module__].__file__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            left -= 1
            if left == 0:
                raise kind
        return trace

    before = sys.gettrace()
    sys._getframe().f_trace_opcodes = True  # Python 3.12 reports instructions only where this is so before settrace
    sys.settrace(trace)
    try:
        run()
    except kind:
        return True
    finally:
        sys.settrace(before)
    return False


@pytest.mark.parametrize("kind", [Stop, Late])
def test_an_interrupt_at_any_instruction_leaves_every_original_in_its_place(kind: type[BaseException]) -> None:
    module = types.ModuleType("m")
    vars(module).update(f=object(), g=object(), h=object())
    child, before = owner(), dict(vars(module))
    of_child = dict(vars(child))
    patches = Patches()
    for name in "fgh":
        patches.plan(module, name, object())
    patches.plan(child, "inherited", 1)
    patches.plan(child, "static", 2)

    def run() -> None:
        try:
            patches.apply()
        finally:
            patches.undo()

    at = 1
    while interrupted(at, run, kind):
        patches.undo()
        assert (dict(vars(module)), dict(vars(child))) == (before, of_child), f"interrupted at instruction {at}"
        at += 1
    assert at > 100


def program_function() -> str:
    return "of the program"


def test_what_the_program_has_put_there_stays() -> None:
    module, patches = types.SimpleNamespace(f=len, g=len), Patches()
    patches.plan(module, "f", print)
    patches.plan(module, "g", print)
    patches.apply()
    module.f = program_function
    patches.undo()
    assert (module.f, module.g) == (program_function, len)


def test_what_the_program_has_put_there_is_replaced_by_a_wrapper_of_it() -> None:
    module, patches = types.SimpleNamespace(f=len), Patches()
    made: list[Any] = []

    def make() -> Any:
        present = module.f
        made.append(lambda: present)
        return made[-1]

    patches.plan(module, "f", make(), make)
    module.f = program_function
    for _ in range(2):
        patches.apply()
        assert module.f is made[1]
        assert module.f() is program_function
        assert patches.target_of(made[1]) == (module, "f")
        patches.undo()
        assert module.f is program_function
    module.f = len
    patches.apply()
    assert module.f is made[0]
    patches.undo()
    assert len(made) == 2


def test_without_a_maker_it_is_left_alone() -> None:
    module, patches = types.SimpleNamespace(f=len), Patches()
    patches.plan(module, "f", print)
    module.f = program_function
    patches.apply()
    assert module.f is program_function
    patches.undo()
    assert module.f is program_function


@pytest.mark.parametrize("first", [0, 1])
def test_two_sets_at_one_attribute_are_undone_in_any_order(first: int) -> None:
    module = types.SimpleNamespace(f=len)
    sets = Patches(), Patches()
    for each in sets:
        each.plan(module, "f", lambda: None)
    for _ in range(2):
        for each in sets:
            each.apply()
        sets[first].undo()
        sets[1 - first].undo()
        assert module.f is len


def test_what_is_put_in_place_is_noted_before_and_taken_away_once() -> None:
    module, patches = types.SimpleNamespace(f=1), Patches()
    patches.plan(module, "f", 2)
    applied: list[Any] = []
    with noted_in(applied):
        context = patches.in_force()
        context.__enter__()
    assert module.f == 2
    for undoable in applied:
        undoable.undo()
    assert module.f == 1
    patches.apply()  # a later collection
    del context  # the context that was cut off ends now
    assert module.f == 2
    patches.undo()
