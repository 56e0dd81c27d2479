"""Calls that only move values: where they are made and between which shapes, beside the entries of a dump."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from msprobe.adapters.pytorch.recorded_names import read_names
from msprobe.adapters.pytorch.tensors.unwritten import COPIERS, MAKERS
from msprobe.core.capture.partial_writes import WRITERS
from tests.adapters.bench import Bench

METHODS = "__invert__", "__neg__", "as_strided", "clone", "conj", "contiguous", "view"
FUNCTIONS = "conj", "meshgrid", "view_as_complex", "view_as_real"
X = torch.arange(6.0).reshape(2, 3)
MOVES: dict[str, tuple[Callable[[torch.Tensor], Any], list[str], list[str]]] = {
    "Tensor.view": (lambda x: x.view(3, 2), ["2,3"], ["3,2"]),
    "Tensor.__neg__": (lambda x: -x, ["2,3"], ["2,3"]),
    "Tensor.contiguous": (lambda x: x.mT.contiguous(), ["3,2"], ["3,2"]),
    "Tensor.clone": (lambda x: x.clone(), ["2,3"], ["2,3"]),
    "Tensor.reshape": (lambda x: x.reshape(-1), ["2,3"], ["6"]),
    "Torch.cat": (lambda x: torch.cat([x, x], 1), ["2,3", "2,3"], ["2,6"]),
    "Torch.view_as_real": (lambda x: torch.view_as_real(x.to(torch.complex64)), ["2,3"], ["2,3,2"]),
    "Torch.view_as_complex": (lambda x: torch.view_as_complex(x.reshape(3, 2)), ["3,2"], ["3"]),
    "Torch.meshgrid": (lambda x: torch.meshgrid(x[0], x[0], indexing="ij"), ["3", "3"], ["3,3", "3,3"]),
    "Tensor.unbind": (lambda x: x.unbind(), ["2,3"], ["3", "3"]),
    "Tensor.sum": (lambda x: x.sum().reshape(()), [], []),  # an entry, and what changes nothing
}


def recorded(bench: Bench, run: Callable[[], Any], level: str = "L1", **settings: Any) -> list[dict[str, Any]]:
    debugger = bench.open(level, **settings)
    debugger.start()
    run()
    debugger.stop()
    header: Any = bench.read().dump
    return list(header.get("moves", []))


@pytest.mark.parametrize("name", MOVES)
def test_a_move_says_its_shapes_and_its_line(bench: Bench, name: str) -> None:
    run, given, made = MOVES[name]
    moves = [move for move in recorded(bench, lambda: run(torch.relu(X))) if move["call"].startswith(f"{name}.")]
    assert [(move["from"], move["to"]) for move in moves] == ([(given, made)] if given else [])
    assert all("test_value_moves.py" in move["line"] and move["after"] == 1 for move in moves)
    assert not any(entry.startswith(tuple(f"Tensor.{method}." for method in METHODS)) for entry in bench.read().data)


def test_what_print_moves_is_its_own_affair(bench: Bench) -> None:
    assert not [move for move in recorded(bench, lambda: str(torch.relu(X))) if move["call"].split(".")[1] in METHODS]


def test_what_is_so_already_is_no_move(bench: Bench) -> None:
    assert not recorded(bench, lambda: (torch.relu(X).contiguous(), X.float()))


def test_memory_stands_behind_the_shape_where_it_is_recorded(bench: Bench) -> None:
    (move,) = recorded(bench, lambda: torch.relu(X).unbind()[1], section={"memory": True})
    (output,) = bench.read().data["Torch.relu.0.forward"]["output"]
    assert move["from"] == [f"2,3 {output['memory']}"] and move["to"][1] == f"3 {output['memory']} 3:1"


class Halves(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.stack(x.chunk(2))


def test_a_move_stands_in_the_module_that_makes_it(bench: Bench) -> None:
    model = nn.Sequential(Halves(), nn.ReLU())
    debugger = bench.open("mix")
    debugger.start(model=model)
    model(X)
    X.view(-1)
    debugger.stop()
    header: Any = bench.read().dump
    assert [(move["call"].split(".")[1], move.get("parent")) for move in header["moves"]] == [
        ("chunk", "Module.0.Halves.forward.0"),
        ("stack", "Module.0.Halves.forward.0"),
        ("view", None),
    ]


@pytest.mark.parametrize(
    "settings",
    [{"extra_info": False}, {"section": {"list": ["relu"]}}],
    ids=["no stacks", "a list"],
)
def test_without_stacks_and_beside_a_choice_of_calls_no_move_is_recorded(
    bench: Bench, settings: dict[str, Any]
) -> None:
    assert not recorded(bench, lambda: torch.relu(X).view(-1), **settings)


def test_a_step_records_the_first_moves_alone(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("msprobe.core.dump.record.collector._MOST_MOVES", 3)
    assert len(recorded(bench, lambda: [torch.relu(X).view(-1) for _ in range(5)])) == 3


def test_methods_are_the_programs_own_again_after_stop(bench: Bench) -> None:
    before = {name: getattr(torch.Tensor, name) for name in METHODS}
    debugger = bench.open("L1")
    debugger.start()
    assert torch.Tensor.view is not before["view"]
    debugger.stop()
    assert {name: getattr(torch.Tensor, name) for name in METHODS} == before


def test_no_other_tap_has_these_functions() -> None:
    """One of two wrappers of a function would not be called."""
    table = read_names()
    moves = {prefix: set(names) for prefix, names in table["moves"].items()}
    assert moves == {"Tensor": set(METHODS), "Torch": set(FUNCTIONS)}
    assert not moves["Tensor"] & {*table["apis"]["Tensor"], *WRITERS, *MAKERS[torch.Tensor], *COPIERS[torch.Tensor]}
    assert not moves["Torch"] & {*table["apis"]["Torch"], *table["extra"]["Torch"]}


def test_a_tensor_is_no_sequence_while_it_is_watched(bench: Bench) -> None:
    """``Tensor.__getitem__`` is not wrapped: with a method of that name in a class of Python, a number counts as a
    sequence, and ``torch.tensor`` asks for its length."""
    debugger = bench.open("L1")
    debugger.start()
    losses = torch.tensor([torch.relu(X).sum(), torch.tensor(2.0)])
    debugger.stop()
    assert losses.tolist() == [15.0, 2.0]
