"""What is a shard, a copy, a partial sum, decided tensor by tensor."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from msprobe.compare.parallel.by_name.tensor_parallel import merge_shards
from msprobe.core.store.reader import Dump, Place
from msprobe.core.store.record_walk import damage_of
from tests.compare import dumps

_LINEAR = "Module.fc.Linear.forward.0"
_ROW = "Module.fc.RowParallelLinear.forward.0"


def _dump(data: dict[str, Any]) -> Dump:
    return Dump(Place(Path("dump.json")), "statistics", "mix", "pytorch", data)


def _merge(*bodies: Any, whole: Any = None, name: str = _LINEAR) -> tuple[Any, list[str]]:
    other = [_dump({} if whole is None else {name: whole})]
    found = merge_shards([_dump({name: body}) for body in bodies], other)
    return found.dump.data[name], found.notes


def _norm(*scales: float) -> float:
    return math.hypot(*(5.0 * scale for scale in scales))


def test_a_shape_that_adds_up_is_a_shard_on_that_axis() -> None:
    parts = [dumps.tensor(1, shape=(4, 2)), dumps.tensor(3, shape=(4, 6))]
    whole = dumps.module([], [dumps.tensor(9, shape=(4, 8))])
    found, notes = _merge(*(dumps.module([], [part]) for part in parts), whole=whole)
    made = found["output"][0]
    assert made["shape"] == [4, 8]
    assert (made["Max"], made["Min"]) == (6.0, -4.5)
    assert made["Norm"] == pytest.approx(_norm(1, 3))
    assert made["Mean"] == pytest.approx((8 * 0.1 + 24 * 0.3) / 32)
    assert not notes


def test_equal_shards_of_a_larger_tensor_are_shards() -> None:
    body = dumps.module([], [], weight=dumps.tensor(shape=(4, 8)))
    found, _ = _merge(body, body, whole=dumps.module([], [], weight=dumps.tensor(shape=(8, 8))))
    assert found["parameters"]["weight"]["Norm"] == pytest.approx(_norm(1, 1))


def test_a_copy_stays_as_it_is() -> None:
    body = dumps.module([dumps.tensor()], [], bias=dumps.tensor(2, shape=(8,)))
    found, notes = _merge(body, body, whole=body)
    assert found == body and not notes


def test_without_the_other_side_what_differs_is_a_shard() -> None:
    bodies = [dumps.module([dumps.tensor(1)], [dumps.tensor(scale)]) for scale in (1, 2)]
    found, _ = _merge(*bodies)
    assert found["input_args"][0]["shape"] == [4, 8]
    assert found["output"][0]["shape"] == [4, 16]
    assert found["output"][0]["Norm"] == pytest.approx(_norm(1, 2))


@pytest.mark.parametrize(("name", "shape"), [(_LINEAR, [8, 8]), (_ROW, [4, 16])], ids=["column", "row"])
def test_weights_of_row_parallel_layers_are_cut_along_the_second_axis(name: str, shape: list[int]) -> None:
    found, _ = _merge(*(dumps.module([], [], weight=dumps.tensor(scale)) for scale in (1, 2)), name=name)
    assert found["parameters"]["weight"]["shape"] == shape


def test_a_copy_that_has_drifted_shows() -> None:
    bodies = [dumps.module([], [], bias=dumps.tensor(scale, shape=(8,))) for scale in (1.0, 1.2)]
    found, notes = _merge(*bodies, whole=bodies[0])
    assert found["parameters"]["bias"]["Norm"] == pytest.approx(6.0)
    assert notes == [f"parameters that should be copies differ between ranks: 1, first {_LINEAR}.parameters.bias"]


def test_a_partial_sum_is_never_a_pass() -> None:
    bodies = [dumps.module([], [dumps.tensor(scale)]) for scale in (1.0, 1.2)]
    found, notes = _merge(*bodies, whole=bodies[0])
    assert found["output"][0]["Norm"] is None
    assert len(notes) == 1 and "not compared" in notes[0]


def test_a_partial_sum_that_a_collective_completes_keeps_its_flag() -> None:
    """A collective works without gradients, what it completes does not."""
    name, reduced = "Functional.linear.1.forward", "Distributed.all_reduce.0.forward"
    ranks = [
        _dump({
            name: dumps.call([], [dumps.tensor(scale, requires_grad=True)]),
            reduced: dumps.call([dumps.tensor(scale, requires_grad=False)], [dumps.tensor(9, requires_grad=False)]),
        })
        for scale in (1, 2)
    ]
    whole = {name: dumps.call([], [dumps.tensor(9, requires_grad=True)])}
    (made,) = merge_shards(ranks, [_dump(whole)]).dump.data[name]["output"]
    assert (made["Max"], made["requires_grad"]) == (dumps.tensor(9)["Max"], True)


def test_recorded_placements_come_first() -> None:
    mesh = {"device_mesh": [0, 1]}
    bodies = [
        dumps.module([], [dumps.tensor(scale, shape=(5, 2), placements=[{"Shard": {"dim": 0}}], **mesh)])
        for scale in (1, 2)
    ]
    found, _ = _merge(*bodies, whole=dumps.module([], [dumps.tensor(9, shape=(5, 2))]))
    made = found["output"][0]
    assert made["shape"] == [5, 2]
    assert made["Mean"] == pytest.approx((6 * 0.1 + 4 * 0.2) / 10)  # three rows and two
    assert "placements" not in made and "device_mesh" not in made


MESH = [[0, 1], [2, 3]]
SHARD, COPY = {"Shard": {"dim": 0}}, {"Replicate": {}}
PLACED = {
    "tensor_parallel": ([COPY, SHARD], "norm of both"),
    "copies": ([COPY, COPY], "norm of one"),
    "fully_sharded": ([SHARD, COPY], "other data-parallel ranks hold parts"),
    "both": ([{"StridedShard": {"dim": 0}}, SHARD], "other data-parallel ranks hold parts"),
    "partial_norm": ([COPY, {"NormPartial": {}}], "partial sums"),
    "strided": ([COPY, {"StridedShard": {"dim": 0}}], "partial sums"),
}


@pytest.mark.parametrize("case", list(PLACED))
def test_placements_on_a_mesh_of_two_dimensions(case: str) -> None:
    """The last dimension is tensor parallelism; what those before it cut is on no rank of this model."""
    placements, wanted = PLACED[case]
    bodies = [
        dumps.module([], [], weight=dumps.tensor(scale, shape=(8, 8), placements=placements, device_mesh=MESH))
        for scale in (1, 2)
    ]
    found, notes = _merge(*bodies, whole=bodies[0])
    norm = found["parameters"]["weight"]["Norm"]
    if wanted.startswith("norm"):
        assert norm == pytest.approx(_norm(1, 2) if wanted == "norm of both" else _norm(1)) and not notes
    else:
        assert norm is None and wanted in notes[0]


def test_heads_per_rank_are_the_same_argument() -> None:
    name = "Tensor.view.0.forward"
    bodies = [dumps.call([dumps.number(2), dumps.number(4)], []) for _ in range(2)]
    found, _ = _merge(*bodies, whole=dumps.call([dumps.number(2), dumps.number(8)], []), name=name)
    assert [leaf["value"] for leaf in found["input_args"]] == [2, 8]
    found, _ = _merge(*bodies, whole=dumps.call([dumps.number(2), dumps.number(7)], []), name=name)
    assert [leaf["value"] for leaf in found["input_args"]] == [2, 4]


def test_whole_numbers_and_flags_keep_their_extremes() -> None:
    bodies = [
        dumps.module([], [{"type": "torch.Tensor", "dtype": "torch.bool", "shape": [2], "Max": top, "Min": False}])
        for top in (False, True)
    ]
    found, _ = _merge(*bodies)
    assert found["output"][0]["Max"] is True and found["output"][0]["Min"] is False


def test_a_call_that_a_rank_lacks_is_told() -> None:
    ranks = [_dump({_LINEAR: dumps.module([], [])}), _dump({})]
    assert "not by all" in merge_shards(ranks, [_dump({})]).notes[0]


@pytest.mark.parametrize(
    "damage",
    [
        {"shape": 7},
        {"shape": [4, "x"]},
        {"shape": [2**40, 2**40]},
        {"shape": [8]},
        {"shape": [4, None]},
        {"placements": [{"Shard": {"dim": 5}}]},
        {"placements": [3]},
    ],
    ids=["number", "text", "endless", "axes", "unknown-length", "axis", "placement"],
)
def test_shapes_that_make_no_whole_are_told_and_not_compared(damage: dict[str, Any]) -> None:
    """On one rank the damage leaves the other shards alone; copies that are damaged alike stay for the comparison."""
    good, bad = (
        dumps.module([dumps.tensor(scale) | more], [dumps.tensor(scale)]) for scale, more in ((1, {}), (2, damage))
    )
    found, notes = _merge(good, bad)
    made = found["input_args"][0]
    if "placements" in damage:  # which the other rank does not say, so that shapes decide
        assert made["Norm"] == pytest.approx(_norm(1, 2)) and not notes
    else:
        assert made["Norm"] is None and "make no whole, not compared: 1" in notes[0]
    assert found["output"][0]["Norm"] == pytest.approx(_norm(1, 2))
    alike, notes = _merge(bad, bad)
    assert alike["input_args"][0]["Norm"] == 10.0 and not notes


def test_numbers_that_no_float_holds_are_damage() -> None:
    bodies = [dumps.module([], [dumps.tensor(scale, Norm=10**400, Max=-(10**400))]) for scale in (1, 2)]
    made = _merge(*bodies)[0]["output"][0]
    assert damage_of(made).startswith("Max: ") and (made["Norm"], made["Min"]) == (None, None)


@pytest.mark.parametrize("name", ["Max", "Norm"])
def test_a_copy_with_an_infinity_is_none(name: str) -> None:
    bodies = [dumps.module([], [], bias=dumps.tensor(shape=(8,), **more)) for more in ({}, {name: math.inf})]
    found, notes = _merge(*bodies, whole=bodies[0])
    assert "copies differ" in notes[0]
    assert name == "Max" or found["parameters"]["bias"]["Norm"] == math.inf


@pytest.mark.parametrize("norm", [None, "x", 10**400], ids=["null", "text", "endless"])
def test_a_copy_without_a_norm_is_the_farthest(norm: Any) -> None:
    bodies = [dumps.module([], [], bias=dumps.tensor(shape=(8,), **more)) for more in ({}, {"Norm": norm})]
    found, notes = _merge(*bodies, whole=bodies[0])
    assert found["parameters"]["bias"]["Norm"] == norm and "copies differ" in notes[0]
