"""A value without a recorded maker is followed through calls that only move values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from msprobe.core.store.reader import Dump, find_dumps, load_dump
from msprobe.trace.moves import Moves, Trail
from msprobe.trace.trace import Trace
from tests.fresh_debugger import forget

torch = pytest.importorskip("torch")
from msprobe.pytorch import PrecisionDebugger  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Dump:
    folder = tmp_path_factory.mktemp("moves")
    torch.manual_seed(0)
    x = torch.randn(4, 6)
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "L1", "task": "statistics"})
    with debugger.collect():
        left, right = torch.relu(x), torch.tanh(x)
        torch.exp(torch.cat([left.unsqueeze(0), right.flip(1).view(1, 4, 6)]))
        torch.sin(left.reshape(2, 12).permute(1, 0))
        # two values of one shape, moved in one way
        keys, values = torch.sigmoid(x), torch.square(x)
        keys, values = keys.repeat_interleave(2, 0), values.repeat_interleave(2, 0)
        torch.maximum(keys, values)
        turned = torch.view_as_complex(torch.relu(x).reshape(4, 3, 2)) * torch.polar(torch.ones(3), torch.arange(3.0))
        torch.expm1(torch.view_as_real(turned).flatten(1))
        torch.cosh(torch.sinh(x)[:, 1:, None])
    forget()
    (place,) = find_dumps(folder)
    return load_dump(place)


def behind(dump: Dump, name: str) -> Trail:
    trace = Trace(dump.data, dump.construct)
    value = trace.value(name)
    assert value is not None
    return Moves(dump, trace.calls).behind(value)


def functions(trail: Trail) -> list[str]:
    return [move.name.split(".")[1] for move in trail.moves]


def test_what_is_joined_comes_from_all_its_parts(dump: Dump) -> None:
    trail = behind(dump, "Torch.exp.0.forward.input.0")
    assert sorted(functions(trail)) == ["cat", "unsqueeze", "view"] and functions(trail)[0] == "cat"
    assert {source.call.name for source in trail.sources} == {"Torch.relu.0.forward", "Tensor.flip.0.forward"}
    assert all(move.line is not None and "test_moves.py" in move.line for move in trail.moves)


def test_another_order_comes_from_the_same_elements(dump: Dump) -> None:
    trail = behind(dump, "Torch.sin.0.forward.input.0")
    assert functions(trail) == ["permute", "reshape"]
    assert [source.call.name for source in trail.sources] == ["Torch.relu.0.forward"]


@pytest.mark.parametrize(("number", "maker"), [(0, "Torch.sigmoid.0.forward"), (1, "Torch.square.0.forward")])
def test_a_value_has_the_extremes_of_what_it_is_made_of_alone(dump: Dump, number: int, maker: str) -> None:
    trail = behind(dump, f"Torch.maximum.0.forward.input.{number}")
    assert [source.call.name for source in trail.sources] == [maker]


def test_what_an_index_takes_is_known_by_its_extremes(dump: Dump) -> None:
    trail = behind(dump, "Torch.cosh.0.forward.input.0")
    assert [source.call.name for source in trail.sources] == ["Torch.sinh.0.forward"] and not trail.moves


def test_numbers_come_from_complex_ones(dump: Dump) -> None:
    trail = behind(dump, "Torch.expm1.0.forward.input.0")
    (source,) = trail.sources
    assert source.call.name.startswith("Tensor.__mul__.") and source.raw["dtype"] == "torch.complex64"


def test_what_no_move_makes_has_no_trail(dump: Dump) -> None:
    assert behind(dump, "Torch.relu.0.forward.input.0") == Trail((), ())


@pytest.mark.parametrize("memory", [True, False])
def test_memory_tells_apart_what_statistics_do_not(tmp_path: Path, memory: bool) -> None:
    debugger = PrecisionDebugger({
        "dump_path": str(tmp_path),
        "level": "L1",
        "task": "statistics",
        "statistics": {"memory": memory},
    })
    x = torch.linspace(-1.0, 1.0, 6)
    with debugger.collect():
        first, second = (torch.relu(x).view(2, 3).unbind() for _ in range(2))
        torch.exp(first[1])
        torch.sin(second[1])
    forget()
    (place,) = find_dumps(tmp_path)
    sources = {
        name: [source.call.name for source in behind(load_dump(place), f"Torch.{name}.0.forward.input.0").sources]
        for name in ("exp", "sin")
    }
    assert sources["sin"] == ["Torch.relu.1.forward"]
    assert sources["exp"] == (["Torch.relu.0.forward"] if memory else ["Torch.relu.1.forward"])  # the last of its shape


@pytest.mark.parametrize(
    "moves",
    [None, "x", [1, None, {}], [{"call": "a", "from": 3, "to": ["x", 2, "1,-2"], "after": "1"}]],
    ids=["null", "a text", "no moves", "a move of nothing"],
)
def test_damaged_moves_lead_nowhere(dump: Dump, moves: Any) -> None:
    broken = Dump(**{**{name: getattr(dump, name) for name in dump.__slots__}, "header": {"moves": moves}})
    trace = Trace(broken.data, broken.construct)
    (value,) = (one for one in trace.by_name["Torch.exp.0.forward"].given)
    trail = Moves(broken, trace.calls).behind(value)
    assert not trail.moves and {one.call.name for one in trail.sources} == {
        "Torch.relu.0.forward",
        "Tensor.flip.0.forward",
    }
