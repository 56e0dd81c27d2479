"""Calls of modules and functions have one identity on every rank, stage and micro batch."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from msprobe.compare.parallel.identity import Part, RankCalls, rank_calls
from msprobe.compare.parallel.layout import Coordinates
from msprobe.core.naming import Phase
from msprobe.core.store.reader import Dump, Place
from tests.compare import dumps


def dump(data: dict[str, Any], stacks: dict[str, list[str]] | None = None) -> Dump:
    return Dump(Place(Path("dump.json")), "statistics", "mix", "pytorch", data, construct={}, stacks=stacks or {})


def modules(paths: Iterable[str], calls: int = 1) -> dict[str, Any]:
    """Return the forward calls of modules of these paths, one micro batch after the other."""
    return {
        f"Module.{path}.Layer.forward.{call}": dumps.module([dumps.tensor()], [dumps.tensor(call + 1.0)])
        for call in range(calls)
        for path in paths
    }


def paths_of(rank: RankCalls) -> list[str]:
    return [call.key.path for call in rank.calls]


def numbered(paths: list[list[str]], places: list[Coordinates], chunks: int = 1) -> list[list[str]]:
    ranks = rank_calls([dump(modules(own)) for own in paths], places, chunks)
    return [paths_of(rank) for rank in ranks]


STAGES = [Coordinates(pp=0), Coordinates(pp=1)]


@pytest.mark.parametrize(
    ("own", "wanted"),
    [
        ([["d.layers.0", "d.layers.1"], ["d.layers.0", "d.layers.1"]], [["0", "1"], ["2", "3"]]),
        ([["d.layers.0", "d.layers.1"], ["d.layers.2", "d.layers.3"]], [["0", "1"], ["2", "3"]]),
        ([["d.layers.0", "d.layers.1", "d.layers.2"], ["d.layers.0"]], [["0", "1", "2"], ["3"]]),
    ],
    ids=["from-zero", "numbered-on", "unequal"],
)
def test_layers_are_numbered_through_all_stages(own: list[list[str]], wanted: list[list[str]]) -> None:
    assert numbered(own, STAGES) == [[f"d.layers.{number}" for number in numbers] for numbers in wanted]


def test_chunks_of_interleaved_stages_take_turns() -> None:
    own = ["0.d.layers.0", "1.d.layers.0"]
    assert numbered([own, own], STAGES, chunks=2) == [["d.layers.0", "d.layers.2"], ["d.layers.1", "d.layers.3"]]


def test_experts_are_numbered_through_all_ranks() -> None:
    own = [f"d.layers.0.experts.{number}" for number in range(2)]
    places = [Coordinates(dp=0, ep=0), Coordinates(dp=1, ep=1)]
    assert numbered([own, own], places) == [own, [f"d.layers.0.experts.{number}" for number in (2, 3)]]


@pytest.mark.parametrize("wrapper", ["module.", "module.module.", "_fsdp_wrapped_module.", "_orig_mod.", ""])
def test_wrappers_leave_no_trace(wrapper: str) -> None:
    assert numbered([[f"{wrapper}d.norm"]], [Coordinates()]) == [["d.norm"]]


def test_a_module_that_is_called_twice_has_two_turns_in_each_micro_batch() -> None:
    data = modules(["a"], 2) | {
        f"Module.b.Layer.forward.{call}": dumps.module([dumps.tensor()], [dumps.tensor()]) for call in range(4)
    }
    (rank,) = rank_calls([dump(data)], [Coordinates()], 1)
    assert rank.micro == 2
    assert [call.key[2:4] for call in rank.calls if call.key.path == "b"] == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_a_repeated_call_is_none() -> None:
    data = modules(["a"]) | {"Module.a.Layer.forward.1": dumps.module([], []) | {"is_recompute": True}}
    (rank,) = rank_calls([dump(data)], [Coordinates()], 1)
    assert [call.name for call in rank.calls] == ["Module.a.Layer.forward.0"]


def test_functions_belong_together_by_place_and_part_of_the_step() -> None:
    loss, after = ['File "/a/train.py", line 3, in loss_of, \n x'], ['File "/a/train.py", line 9, in finish, \n x']
    data = modules(["a"], 2) | {f"Torch.div.{number}.forward": dumps.call([], [dumps.tensor()]) for number in (0, 1)}
    data["Module.a.Layer.backward.0"] = dumps.gradient([dumps.tensor()], [dumps.tensor()])
    data["Torch.div.2.forward"] = dumps.call([], [dumps.tensor()])
    stacks = {"Torch.div.0.forward": loss, "Torch.div.1.forward": loss, "Torch.div.2.forward": after}
    (rank,) = rank_calls([dump(data, stacks)], [Coordinates()], 1)
    first, second, last = rank.functions
    assert first.key.function == second.key.function != last.key.function
    assert (first.key.micro, second.key.micro) == (0, 1)
    assert [call.part for call in rank.functions] == [Part.FORWARD, Part.FORWARD, Part.UPDATE]
    assert {call.key.phase for call in rank.functions} == {Phase.FORWARD}
