"""The order in which the source of a cell calls its parts."""

from __future__ import annotations

from typing import Any

from msprobe.adapters.mindspore.compile.compiled_calls import parts_called


class Straight:
    def construct(self: Any, x: Any) -> Any:
        key = self.key(self.norm(x))
        value = self.value(x) if x else self.other(x)
        return self.out(value + key) + self.layers[0](x) + x.sum()


class Renamed:
    def construct(cell: Any, x: Any) -> Any:
        return cell.second(cell.first(x))


def test_inner_calls_come_before_the_call_that_takes_their_result() -> None:
    assert parts_called(Straight) == ("norm", "key", "value", "other", "out")
    assert parts_called(Renamed) == ("first", "second")


def test_a_cell_without_source_has_no_order() -> None:
    assert parts_called(type("Made", (), {})) == ()
    assert parts_called(type("Builtin", (), {"construct": len})) == ()
