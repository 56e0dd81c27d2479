"""Functions that stay outermost: what comes later goes inside, and all of them can be taken away."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from msprobe.core.capture.direct_calls import ReplacedMethods
from msprobe.core.capture.slots import Slot, place_of


class Base:
    def forward(self) -> str:
        return ""


def called(name: str, log: list[str]) -> Callable[[Callable[..., Any]], Any]:
    """Return what makes a function that notes its calls by ``name``."""

    def wrap(original: Callable[..., Any]) -> Any:
        def forward(self: Any) -> Any:
            log.append(name)
            return original(self)

        return forward

    return wrap


def outermost(log: list[str]) -> Callable[[Callable[..., Any]], Any]:
    """Return what makes a function that stays outermost."""

    def wrap(original: Callable[..., Any]) -> Any:
        slot = Slot(original)
        forward = called("outer", log)(lambda self: slot.function(self))
        slot.keep_outermost(forward)
        return forward

    return wrap


@pytest.fixture
def layer() -> Iterator[type[Base]]:
    class Layer(Base):
        def forward(self) -> str:
            return "layer"

    original = Layer.forward
    yield Layer
    assert Layer.forward is original


@pytest.mark.parametrize("outer_first", [True, False])
def test_what_comes_later_goes_inside_and_everything_is_taken_away(layer: type[Base], outer_first: bool) -> None:
    log: list[str] = []
    outer, inner = (ReplacedMethods(Base, "forward", wrap(log)) for wrap in (outermost, lambda log: called("in", log)))
    for methods in (outer, inner):
        methods.cover(layer())
        methods.apply()
    assert place_of(layer, "forward")[0] is not layer
    assert layer().forward() == "layer" and log == ["outer", "in"]
    for methods in (outer, inner) if outer_first else (inner, outer):
        methods.undo()
    log.clear()
    assert layer().forward() == "layer" and log == []
