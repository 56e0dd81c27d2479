"""Layouts that need more ranks than a test should start: small dumps in the documented layout stand for them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

import msprobe
from msprobe.compare.parallel.layout import layout_of_sizes
from msprobe.visualize.job import Request, visualize
from tests.compare.dumps import call, gradient, module, number, tensor, write
from tests.visualize.databases import Tables, check, read

LAYER = "Module.layers.0.Layer.forward.0"


def group(*ranks: int) -> dict[str, Any]:
    return {"type": "torch.ProcessGroup", "group_ranks": list(ranks), "group_id": "g" + "".join(map(str, ranks))}


def stage(folder: Path, first: int, layers: int, chunk: int | None = None, *, shard: int = 1) -> dict[str, Any]:
    """Records of some layers; values depend on the global number of the layer and on the shard."""
    head = "Module." if chunk is None else f"Module.{chunk}."
    data: dict[str, Any] = {}
    for layer in range(layers):
        scale = float(first + layer + 1)
        name = f"{head}layers.{layer}.Layer.forward.0"
        weight = tensor(scale * shard, Norm=3.0 if shard == 1 else 4.0)
        data[name] = module([tensor(scale)], [tensor(scale + 1)], weight=weight)
    for layer in reversed(range(layers)):
        scale = float(first + layer + 1)
        data[f"{head}layers.{layer}.Layer.backward.0"] = gradient([tensor(scale + 1)], [tensor(scale)])
    return data


def draw(target: Path, output: Path, *sizes: Any) -> Tables:
    tables = read(visualize(Request(target=target, output=output, layouts=(layout_of_sizes(*sizes),))))
    check(tables)
    return tables


def children(tables: Tables, name: str = "DefaultModel", rank: int = 0) -> list[str]:
    found: list[str] = json.loads(tables.side(rank=rank)[name]["sub_nodes"])
    return found


def test_virtual_stages_interleave(tmp_path: Path) -> None:
    for rank in range(2):
        data: dict[str, Any] = {}
        for chunk in range(2):
            data |= stage(tmp_path, first=2 * chunk + rank, layers=1, chunk=chunk)
        write(tmp_path / f"dump/rank{rank}", data, dict.fromkeys(data))
    tables = draw(tmp_path / "dump", tmp_path / "out", 2, 1, 2, 2)
    forward = [name for name in children(tables) if "forward" in name]
    assert forward == [f"Module.0.layers.{number}.Layer.forward.0" for number in range(4)]
    values = [json.loads(tables.side()[name]["input_data"])[f"{name}.input.0"]["Max"] for name in forward]
    assert values == ["2.0", "4.0", "6.0", "8.0"]
    backward = [name for name in children(tables) if "backward" in name]
    assert backward == [f"Module.0.layers.{number}.Layer.backward.0" for number in (3, 2, 1, 0)]


def test_tensor_and_pipeline_parallel_replicas(tmp_path: Path) -> None:
    for rank in range(8):
        tp, pp = rank % 2, rank // 4
        data = stage(tmp_path, first=2 * pp, layers=2, shard=tp + 1)
        data["Distributed.all_reduce.0.forward"] = call([tensor()], [tensor()], group=group(rank % 4, rank % 4 + 4))
        write(tmp_path / f"dump/rank{rank}", data, dict.fromkeys(data))
    tables = draw(tmp_path / "dump", tmp_path / "out", 8, 2, 2)
    assert tables.config["rank_list"] == "[0, 1]"
    for replica in range(2):
        layers = [name for name in children(tables, rank=replica) if ".forward" in name and "layers" in name]
        assert layers == [f"Module.layers.{number}.Layer.forward.0" for number in range(4)]
        last = tables.side(rank=replica)[layers[3]]
        weight = json.loads(last["input_data"])[f"{layers[3]}.parameters.weight"]
        assert (weight["Norm"], weight["Max"], weight["Min"]) == ("5.0", "16.0", "-12.0")
        assert json.loads(last["parallel_merge_info"])[0] == f"ranks {2 * replica}, {2 * replica + 1}"


def test_stages_are_ordered_by_who_sends_to_whom(tmp_path: Path) -> None:
    """Ranks 1 and 0, in this order, are the stages: what a layout by numbers would get wrong."""
    first = stage(tmp_path, first=0, layers=1) | {"Distributed.send.0.forward": call([tensor(), number(0)], [])}
    second = stage(tmp_path, first=1, layers=1)
    write(tmp_path / "dump/rank1", first, dict.fromkeys(first))
    write(tmp_path / "dump/rank0", second, dict.fromkeys(second))
    tables = draw(tmp_path / "dump", tmp_path / "out", 2, 1, 2)
    name = "Module.layers.0.Layer.forward.0"
    assert json.loads(tables.side()[name]["input_data"])[f"{name}.input.0"]["Max"] == "2.0"


def test_a_module_of_all_stages_takes_inputs_from_the_first_and_results_from_the_last(tmp_path: Path) -> None:
    name = "Module.net.Net.forward.0"
    back = "Module.net.Net.backward.0"
    for rank in range(2):
        data = {
            name: module([tensor(1.0 + rank)], [tensor(5.0 + rank)]),
            back: gradient([tensor(7.0 + rank)], [tensor(9.0 + rank)]),
        }
        write(tmp_path / f"dump/rank{rank}", data, dict.fromkeys(data))
    side = draw(tmp_path / "dump", tmp_path / "out", 2, 1, 2).side()

    def largest(node: str, column: str) -> str:
        (value,) = json.loads(side[node][column]).values()
        return str(value["Max"])

    assert (largest(name, "input_data"), largest(name, "output_data")) == ("2.0", "12.0")
    assert (largest(back, "input_data"), largest(back, "output_data")) == ("16.0", "18.0")
    assert json.loads(side[name]["parallel_merge_info"]) == ["inputs of rank 0, results of rank 1"]


def test_function_calls_of_later_stages_are_merged_too(tmp_path: Path) -> None:
    """Rank 2 k + i is tensor-parallel rank i of stage k; each function call is on the two ranks of its stage."""
    for rank in range(4):
        tp, pp = rank % 2, rank // 2
        data = stage(tmp_path, first=pp, layers=1, shard=tp + 1)
        data["Functional.linear.0.forward"] = call([tensor()], [tensor(tp + 1.0)])
        data["Distributed.all_reduce.0.forward"] = call([tensor(9.0)], [tensor(9.0)], group=group(rank))
        write(tmp_path / f"dump/rank{rank}", data, dict.fromkeys(data) | {"Functional.linear.0.forward": LAYER})
    side = draw(tmp_path / "dump", tmp_path / "out", 4, 2, 2).side()
    calls = [name for name in side if name.startswith("Functional")]
    assert calls == ["Functional.linear.0.forward", "Functional.linear_rank2.0.forward"]
    for name in calls:
        assert json.loads(side[name]["output_data"])[f"{name}.output.0"]["Norm"] == str(math.hypot(5.0, 10.0))


def test_uneven_shards_have_the_mean_that_a_comparison_finds(tmp_path: Path) -> None:
    """The mean of a shard counts by its number of elements; the graph and the comparison of these ranks agree."""
    name = "Module.up.ColumnParallelLinear.forward.0"
    for rank, rows in enumerate((6, 2)):
        body = module([], [], weight=tensor(rank + 1.0, shape=(rows, 8)))
        write(tmp_path / f"dump/rank{rank}", {name: body}, {name: None})
    whole = {name: module([], [], weight=tensor(shape=(8, 8)))}
    write(tmp_path / "whole/rank0", whole, {name: None})
    mean = (48 * 0.1 + 16 * 0.2) / 64
    side = draw(tmp_path / "dump", tmp_path / "out", 2, 2, 1).side()
    value = json.loads(side[name]["input_data"])[f"{name}.parameters.weight"]
    assert float(value["Mean"]) == pytest.approx(mean)
    notes = json.loads(side[name]["parallel_merge_info"])
    assert any(".Mean = average of [0.1, 0.2] weighted by [48, 16] elements = " in line for line in notes)
    (comparison,) = msprobe.compare(tmp_path / "dump", tmp_path / "whole", target_parallel="tp=2").comparisons()
    assert value["Mean"] == str(comparison.target.data[name]["parameters"]["weight"]["Mean"])


def test_the_published_rules_average_means_and_take_what_a_rank_lacks_from_the_first(tmp_path: Path) -> None:
    name = "Module.up.ColumnParallelLinear.forward.0"
    for rank, rows in enumerate((6, 2)):
        weight = tensor(rank + 1.0, shape=(rows, 8))
        bias = tensor(rank + 1.0, shape=(rows,)) | ({"Norm": None} if rank else {})
        write(tmp_path / f"dump/rank{rank}", {name: module([], [], weight=weight, bias=bias)}, {name: None})
    request = Request(
        tmp_path / "dump", output=tmp_path / "out", layouts=(layout_of_sizes(2, 2, 1),), policy="reference"
    )
    values = json.loads(read(visualize(request)).side()[name]["input_data"])
    assert float(values[f"{name}.parameters.weight"]["Mean"]) == pytest.approx((0.1 + 0.2) / 2)
    assert float(values[f"{name}.parameters.bias"]["Norm"]) == 5.0


@pytest.mark.parametrize("tp", [1, 2])
def test_a_single_rank_per_group_stays_as_it_is(tp: int, tmp_path: Path) -> None:
    data = stage(tmp_path, first=0, layers=1)
    for rank in range(tp):
        write(tmp_path / f"dump/rank{rank}", data, dict.fromkeys(data))
    tables = draw(tmp_path / "dump", tmp_path / "out", tp, tp, 1)
    assert {row["parallel_merge_info"] for row in tables.side().values()} == {""}
