"""Merged ranks of real gloo jobs against one process that trains the same weights on the same data."""

from __future__ import annotations

import json
import math
from pathlib import Path

import jsonschema
import pytest

from msprobe.compare.parallel.layout import layout_of_sizes, layouts_of_flags
from msprobe.core.errors import MsprobeException, NotComparableError
from msprobe.visualize.job import Request, visualize
from tests.recordings import Recordings
from tests.visualize.databases import check, read
from tests.visualize.job_recordings import RANKS, record_parallel

pytestmark = [pytest.mark.torch, pytest.mark.slow]
SCHEMAS = Path(__file__).parents[3] / "schemas"
SIZES = {"single": (1, 1), "tp": (2, 1), "pp": (1, 2)}


@pytest.fixture(scope="module")
def dumps(recordings: Recordings) -> dict[str, Path]:
    return {mode: recordings(record_parallel, mode) / "dump" for mode in RANKS}


def modules(tables: object) -> list[str]:
    side = tables.side()  # type: ignore[attr-defined]
    return sorted(name for name, row in side.items() if row["node_type"] == "0")


@pytest.mark.parametrize("mode", ["tp", "pp"])
def test_merged_ranks_show_the_modules_of_one_process(mode: str, dumps: dict[str, Path], tmp_path: Path) -> None:
    tp, pp = SIZES[mode]
    merged = visualize(Request(target=dumps[mode], output=tmp_path, layouts=(layout_of_sizes(2, tp, pp),)))
    single = visualize(Request(target=dumps["single"], output=tmp_path))
    tables = read(merged)
    check(tables)
    assert modules(tables) == modules(read(single))
    assert tables.config["rank_list"] == "[0]"


@pytest.mark.parametrize("mode", ["tp", "pp"])
def test_merged_ranks_have_the_values_of_one_process(mode: str, dumps: dict[str, Path], tmp_path: Path) -> None:
    tp, pp = SIZES[mode]
    path = visualize(
        Request(
            target=dumps[mode],
            golden=dumps["single"],
            output=tmp_path,
            layouts=(layout_of_sizes(2, tp, pp), layout_of_sizes(1, 1, 1)),
        )
    )
    tables = read(path)
    check(tables)
    found = tables.verdicts()
    odd = {name for name, verdict in found.items() if verdict in ("warning", "error")}
    assert odd == set()
    linear = [name for name in found if name.startswith("Functional.linear")]
    assert len(linear) == 18
    assert {found[name] for name in linear} <= {"same", "pass"}
    excused = {name for name, verdict in found.items() if verdict == "not_compared"}
    assert all("Distributed" in name or "rank" in name.lower() for name in excused)


def test_formulas_of_shards_are_told(dumps: dict[str, Path], tmp_path: Path) -> None:
    side = read(visualize(Request(target=dumps["tp"], output=tmp_path, layouts=(layout_of_sizes(2, 2, 1),)))).side()
    name = "Module.layers.0.up.ColumnParallelLinear.forward.0"
    told = json.loads(side[name]["parallel_merge_info"])
    assert told[0] == "ranks 0, 1"
    (norm,) = [line for line in told if ".weight.Norm = root of the sum of squares of " in line]
    shards, whole = norm.partition(" of [")[2].split("] = ")
    assert math.isclose(math.hypot(*map(float, shards.split(", "))), float(whole))
    value = json.loads(side[name]["input_data"])[f"{name}.parameters.weight"]
    assert value["Norm"] == whole
    reduced = json.loads(side["Functional.linear.1.forward"]["parallel_merge_info"])
    assert reduced[0] == "result of Distributed.all_reduce.0.forward"
    assert not [line for line in reduced if ".output." in line]


def test_merged_dump_as_files_draws_the_same_graph(dumps: dict[str, Path], tmp_path: Path) -> None:
    sizes = (layout_of_sizes(2, 1, 2),)
    folder = visualize(Request(target=dumps["pp"], output=tmp_path / "files", layouts=sizes, as_json=True))
    document = json.loads((folder / "step0/rank0/dump.json").read_text())
    assert document["is_merged"] is True
    for name in ("dump", "stack", "construct"):
        schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text())
        jsonschema.validate(json.loads((folder / f"step0/rank0/{name}.json").read_text()), schema)
    again = read(visualize(Request(target=folder, output=tmp_path / "again"))).side()
    direct = read(visualize(Request(target=dumps["pp"], output=tmp_path / "direct", layouts=sizes))).side()
    columns = ("up_node", "sub_nodes", "node_order", "node_type", "input_data", "output_data", "parallel_merge_info")
    assert {name: [row[key] for key in columns] for name, row in again.items()} == {
        name: [row[key] for key in columns] for name, row in direct.items()
    }


def test_a_wrong_number_of_ranks_is_told(dumps: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(MsprobeException, match=r"--rank_size 4, but step 0 .* has 2 rank folders"):
        visualize(Request(target=dumps["pp"], output=tmp_path, layouts=(layout_of_sizes(4, 2, 2),)))
    assert not list(tmp_path.iterdir())


def test_replicas_must_be_as_many_on_both_sides(dumps: dict[str, Path], tmp_path: Path) -> None:
    sizes = (layout_of_sizes(2, 1, 1), layout_of_sizes(1, 1, 1))
    with pytest.raises(NotComparableError, match="2 replicas, the golden run to 1"):
        visualize(Request(target=dumps["tp"], golden=dumps["single"], output=tmp_path, layouts=sizes))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param({"rank_size": [8]}, "--tp is missing", id="no-tp"),
        pytest.param({"rank_size": [8], "tp": [3], "pp": [1]}, "--tp 3 does not divide", id="tp-odd"),
        pytest.param({"rank_size": [8], "tp": [4], "pp": [4]}, "is 16, which does not divide", id="product"),
        pytest.param({"rank_size": [8], "tp": [8], "pp": [1], "vpp": [2]}, "--vpp 2 needs --pp", id="vpp-alone"),
        pytest.param({"rank_size": [8], "tp": [1, 2], "pp": [1]}, "--tp has 2 values", id="two-values"),
        pytest.param({"rank_size": [0], "tp": [1], "pp": [1]}, "at least 1", id="zero"),
        pytest.param({"vpp": [2]}, "need --rank_size", id="vpp-only"),
    ],
)
def test_wrong_layouts_are_told(arguments: dict[str, list[int]], message: str) -> None:
    values = {"rank_size": [], "tp": [], "pp": [], "vpp": [], **arguments}
    with pytest.raises(MsprobeException, match=message):
        layouts_of_flags(values, [], 1)


def test_an_unknown_order_is_told() -> None:
    with pytest.raises(MsprobeException, match="--order 'foo'"):
        layout_of_sizes(8, 2, 2, order="foo")


def test_groups_follow_the_order() -> None:
    sizes = layout_of_sizes(8, 2, 2)
    assert sizes.groups("tp") == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert sizes.groups("pp") == [[0, 4], [1, 5], [2, 6], [3, 7]]
    assert layout_of_sizes(8, 2, 2, order="tp-pp-dp").groups("pp") == [[0, 2], [1, 3], [4, 6], [5, 7]]
