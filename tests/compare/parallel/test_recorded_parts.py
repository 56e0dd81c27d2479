"""Hand-written parallel code that says what it cuts, or marks it as Megatron does: merged as it says, whatever shapes
and values suggest."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import msprobe
from msprobe.compare.parallel.recorded_parts import Part, common_part, declared_parts, recorded_as
from tests.ranks import run_ranks
from tests.recordings import Recordings

Cut = Callable[..., Path]


def record(folder: Path, size: int, level: str, declare: str, fault: str) -> None:
    words = (level, declare, *filter(None, [fault]))
    run_ranks("tests.compare.parallel.declared_job", size, lambda rank: (rank, size, folder / "dump", *words))


@pytest.fixture(scope="session")
def cut(recordings: Recordings) -> Cut:
    """Return a function: ``cut(size, declare)`` is the dump of the layer on that many ranks."""
    return lambda size, declare, level="mix", fault="": recordings(record, size, level, declare, fault) / "dump"


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("declare", ["uneven", "even", "marks"])
def test_the_layout_follows_from_what_was_said(cut: Cut, declare: str) -> None:
    result = msprobe.compare(cut(2, declare), cut(1, declare))
    assert result.verdict == "same", result.summary
    assert result.summary.counts.passed > 8


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("declare", ["uneven", "marks"])
@pytest.mark.parametrize("fault", ["0.up", "0.down", "0.norm.weight"])
def test_a_fault_in_a_piece_is_named(cut: Cut, declare: str, fault: str) -> None:
    found = msprobe.compare(cut(2, declare, fault=fault), cut(1, declare)).summary.first_divergence
    assert found is not None
    assert found.slot == f"parameters.{fault.rpartition('.')[2]}"
    assert (found.kind == "copies_differ") == ("norm" in fault)


@pytest.mark.matrix("wide", sample=2)
@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize(
    ("declare", "kind"),
    [("even", "copies_differ"), ("marks", "copies_differ"), ("axes", "copies_differ"), ("silent", "value")],
)
def test_copies_are_told_from_cuts_also_where_both_sides_are_spread(cut: Cut, declare: str, kind: str) -> None:
    options = {"target_parallel": "tp=2", "golden_parallel": "tp=2"}
    result = msprobe.compare(cut(2, declare, fault="0.norm.weight"), cut(2, declare), **options)
    found = result.summary.first_divergence
    assert found is not None
    assert (found.slot, found.kind) == ("parameters.weight", kind)


@pytest.mark.matrix("wide", sample=2)
@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize(
    ("declare", "shape"), [("even", "[4, 8]"), ("marks", "[4, 8]"), ("axes", "[4, 8]"), ("silent", "[8, 4]")]
)
def test_the_axis_of_square_pieces_is_the_one_that_was_said(cut: Cut, declare: str, shape: str) -> None:
    dump = cut(2, declare, "L1")
    result = msprobe.compare(dump, dump, target_parallel="tp=2", golden_parallel="tp=2")
    (row,) = [row for row in result.rows() if row.target == "Functional.linear.1.forward.input.1"]
    assert shape in row.cells


@pytest.mark.torch
@pytest.mark.slow
def test_the_dump_says_it_under_one_key(cut: Cut) -> None:
    (path,) = cut(2, "uneven").glob("step0/rank1/dump.json")
    parameters = json.loads(path.read_text())["data"]["Module.0.Layer.forward.0"]["parameters"]
    assert parameters["up"]["shape"] == [3, 4]
    assert parameters["up"]["shard"] == [{"dim": 0, "group": [0, 1]}]
    assert parameters["down"]["shard"] == [{"dim": 1, "group": [0, 1]}]


def tensors(node: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the tensors in a record with where they stand."""
    if isinstance(node, dict) and "dtype" in node:
        yield path, node
    elif isinstance(node, (dict, list)):
        for key, below in node.items() if isinstance(node, dict) else enumerate(node):
            yield from tensors(below, f"{path}.{key}")


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("level", ["mix", "L1"])
@pytest.mark.parametrize(
    ("statistic", "value", "verdict"),
    [
        ("Max", "text", "incomplete"),
        ("Max", None, "incomplete"),
        ("Mean", [0.0], "incomplete"),
        ("Projection", "text", "incomplete"),
        ("Projection", [1.0], "incomplete"),
        ("Projection", math.nan, "diverged"),
        ("Projection", 1e6, "diverged"),
        ("Projection", None, "same"),
    ],
)
def test_damage_on_one_rank_is_never_a_pass(
    cut: Cut, level: str, statistic: str, value: Any, verdict: str, tmp_path: Path
) -> None:
    damaged, whole = shutil.copytree(cut(2, "even", level), tmp_path / "damaged"), cut(1, "even", level)
    options = {"target_parallel": "tp=2"} if level == "L1" else {}
    assert msprobe.compare(damaged, whole, **options).verdict == "same"
    (path,) = damaged.glob("step0/rank1/dump.json")
    document = json.loads(path.read_text())
    compared = "Module." if level == "mix" else "Functional."
    copies = ".Module.0.norm", ".Functional.layer_norm.0.forward.output"  # of what is cut the order is not known
    for place, raw in tensors({key: body for key, body in document["data"].items() if key.startswith(compared)}):
        before = raw.get(statistic)
        if before is None or (verdict != "incomplete" and (not place.startswith(copies) or "grad" in place)):
            continue
        raw[statistic] = value
        path.write_text(json.dumps(document))
        result = msprobe.compare(damaged, whole, **options)
        assert result.verdict == verdict, place
        assert verdict != "same" or "on one side only (Projection)" in result.summary.reason, place
        raw[statistic] = before


def test_what_is_damaged_says_nothing() -> None:
    assert declared_parts({"shard": [{"dim": "0", "group": [0, 1]}, {"dim": 0}, 3, {"dim": 1, "group": [2, 3]}]}) == [
        Part(1, (2, 3))
    ]
    assert declared_parts({"shard": {"dim": 0}}) == declared_parts(None) == []


def test_pieces_of_other_groups_are_no_pieces_of_one_tensor() -> None:
    one, other = ({"shard": [{"dim": 0, "group": group}]} for group in ([0, 1], [2, 3]))
    assert common_part([one, one]) == Part(0, (0, 1))
    assert common_part([one, other]) is None
    assert common_part([one, one, one]) is None
    assert common_part([one, {}]) is None


def test_a_part_without_group_is_one_of_the_tensor_parallel_ranks() -> None:
    alone = {"shard": [{"dim": 1, "group": None}]}
    assert common_part([alone, alone], tensor_parallel=True) == Part(1, ())
    assert common_part([alone, alone]) is None
    both = {"shard": [{"dim": 1, "group": None}, {"dim": 0, "group": [0, 1]}]}
    assert common_part([both, both], tensor_parallel=True) == Part(0, (0, 1))
    assert common_part([alone, {"shard": [{"dim": 0, "group": None}]}], tensor_parallel=True) is None


def test_copies_and_summands_are_what_all_placements_of_one_mesh_say() -> None:
    copy, other = {"device_mesh": [0, 1], "placements": [{"Replicate": {}}]}, {"device_mesh": [2, 3]}
    summand, cut = copy | {"placements": [{"Partial": {}}]}, copy | {"placements": [{"Shard": {"dim": 0}}]}
    assert recorded_as([copy, copy]) == "Replicate"
    assert recorded_as([summand, summand]) == "Partial"
    assert recorded_as([copy, copy | other]) is None, "ranks of two meshes are replicas of each other or not"
    assert recorded_as([copy, cut]) is recorded_as([copy, summand]) is recorded_as([{}, {}]) is None
