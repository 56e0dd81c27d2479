"""Two runs in one graph: verdicts and where they roll up to, matching, mappings, overflow, links, meta data."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from msprobe.compare.alignment.options import MappingOptions
from msprobe.jobs.compare import compare
from msprobe.visualize.job import Request, visualize
from tests.compare.dumps import call, module, number, tensor, write
from tests.visualize.databases import Tables, check, read

RECORDED = Path(__file__).parents[2] / "golden_vis"
NET, FC, RELU, GELU = (
    "Module.net.Net.forward.0",
    "Module.net.fc.Linear.forward.0",
    "Functional.relu.0.forward",
    "Functional.gelu.0.forward",
)


def draw(output: Path, **request: Any) -> Tables:
    tables = read(visualize(Request(output=output, **request)))
    check(tables)
    return tables


def net(result: float = 0.7, activation: str = RELU, **more: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """A module with a layer and a function inside; the layer's result is ``result``."""
    data = {
        FC: module([tensor()], [tensor(result)], weight=tensor(0.3)),
        activation: call([tensor(result)], [tensor(result)]),
        NET: module([tensor()], [tensor(result)]),
    }
    return data | more, {FC: NET, activation: NET, NET: None} | dict.fromkeys(more)


@pytest.fixture
def good(tmp_path: Path) -> Path:
    return write(tmp_path / "good/rank0", *net(), {FC: ["File model.py, line 3"]})


def test_equal_runs_are_the_same_everywhere(good: Path, tmp_path: Path) -> None:
    tables = draw(tmp_path / "out", target=good, golden=good)
    assert set(tables.verdicts().values()) == {"same", "no_data"}
    assert tables.meta["first_divergence"] == []
    assert tables.meta["summary"][0]["verdict"] == "same"
    assert {row["precision_index"] for row in tables.side().values()} == {0}


def test_an_error_rolls_up_to_every_parent(good: Path, tmp_path: Path) -> None:
    bad = write(tmp_path / "bad/rank0", *net(0.8), {FC: ["File model.py, line 3"]})
    tables = draw(tmp_path / "out", target=bad, golden=good)
    side, ours = tables.side(), tables.ours
    assert tables.verdicts() == {FC: "error", RELU: "warning", NET: "error", "DefaultModel": "no_data"}
    root = ours[side["DefaultModel"]["id"]]
    assert root["rollup_verdict"] == "error"
    assert json.loads(root["counts"]) == {"pass": 0, "warning": 1, "error": 2, "unmatched": 0}
    assert [side[name]["precision_index"] for name in (FC, RELU, NET, "DefaultModel")] == [1, 0.5, 1, 1]
    assert ours[side[FC]["id"]]["error"] > 1000
    assert ours[side[FC]["id"]]["reason"].startswith("output.0: norm differs")
    assert ours[side[FC]["id"]]["execution_order"] == 0
    (first,) = tables.meta["first_divergence"]
    assert (first["node"], first["golden_node"], first["slot"]) == (FC, FC, "output.0")
    assert first["stack"] == ["File model.py, line 3"]


def test_summary_is_that_of_compare(good: Path, tmp_path: Path) -> None:
    bad = write(tmp_path / "bad/rank0", *net(0.8))
    (summary,) = draw(tmp_path / "out", target=bad, golden=good).meta["summary"]
    told = compare(bad, good).summary.document()
    assert summary["counts"] == told["counts"]
    assert summary["first_divergence"] == told["first_divergence"]


def test_a_missing_call_counts_in_the_module_that_lacks_it(good: Path, tmp_path: Path) -> None:
    data, construct = net(activation=GELU)
    tables = draw(tmp_path / "out", target=write(tmp_path / "bad/rank0", data, construct), golden=good)
    assert tables.verdicts()[GELU] == "unmatched"
    assert tables.verdicts("Bench")[RELU] == "unmatched"
    row = tables.ours[tables.side()[NET]["id"]]
    assert row["rollup_verdict"] == "unmatched"
    assert json.loads(row["counts"])["unmatched"] == 2
    assert tables.side()[GELU]["matched_node_link"] == "[]"
    assert tables.side()[GELU]["precision_index"] is None


def test_an_extra_call_shifts_nothing(good: Path, tmp_path: Path) -> None:
    data = {RELU: call([tensor(9.0)], [tensor(9.0)])}
    more, construct = net(activation="Functional.relu.1.forward")
    target = write(tmp_path / "bad/rank0", data | more, {RELU: None} | construct)
    tables = draw(tmp_path / "out", target=target, golden=good)
    link = json.loads(tables.side()["Functional.relu.1.forward"]["matched_node_link"])
    assert link == ["DefaultModel", NET, RELU]
    assert tables.verdicts()[RELU] == "unmatched"


def test_surplus_values_are_no_pass(good: Path, tmp_path: Path) -> None:
    data, construct = net()
    data[RELU] = call([tensor(0.7), number(False), number(3)], [tensor(0.7)])
    tables = draw(tmp_path / "out", target=write(tmp_path / "bad/rank0", data, construct), golden=good)
    value = json.loads(tables.side()[RELU]["input_data"])[f"{RELU}.input.2"]
    assert (value["Result"], value["Max diff"]) == ("warning", "N/A")
    assert tables.verdicts()[RELU] == "warning"


def test_layer_mapping_pairs_renamed_layers(good: Path, tmp_path: Path) -> None:
    renamed = "Module.net.dense.Linear.forward.0"
    data, construct = net()
    data = {renamed if name == FC else name: body for name, body in data.items()}
    construct = {renamed if name == FC else name: parent for name, parent in construct.items()}
    target = write(tmp_path / "bad/rank0", data, construct)
    mapping = tmp_path / "map.yaml"
    mapping.write_text("Net:\n  dense: fc\n")
    plain = draw(tmp_path / "out", target=target, golden=good).verdicts()
    assert plain[renamed] == "unmatched"
    mapped = draw(tmp_path / "out", target=target, golden=good, mapping=MappingOptions(layer_mapping=str(mapping)))
    assert json.loads(mapped.side()[renamed]["matched_node_link"]) == ["DefaultModel", NET, FC]
    assert mapped.verdicts()[renamed] == "same"


def test_values_paired_across_entries_keep_their_place(good: Path, tmp_path: Path) -> None:
    mapping = {f"{FC}.output.0": f"{RELU}.input.0"}
    options = MappingOptions(data_mapping=mapping)
    tables = draw(tmp_path / "out", target=good, golden=good, mapping=options)
    for name in (FC, RELU):
        values = json.loads(tables.side("Bench")[name]["input_data"]) | json.loads(
            tables.side("Bench")[name]["output_data"]
        )
        assert all(key.startswith(name) for key in values)
        assert len(values) == (3 if name == FC else 2)


def test_steps_pair_by_number(good: Path, tmp_path: Path) -> None:
    for side, steps in (("a", (1, 2)), ("b", (2, 3))):
        for step in steps:
            shutil.copytree(good, tmp_path / side / f"step{step}/rank0")
    tables = draw(tmp_path / "out", target=tmp_path / "a", golden=tmp_path / "b")
    assert tables.config["step_list"] == "[2]"
    both = draw(tmp_path / "out", target=tmp_path / "a", golden=tmp_path / "b", mapping=MappingOptions(pair="order"))
    assert both.config["step_list"] == "[1, 2]"


def test_folders_of_tensors_are_relative_to_the_database(tmp_path: Path) -> None:
    case = RECORDED / "compare_tensor"
    for side in ("target", "golden"):
        shutil.copytree(case / side, tmp_path / side)
    tables = draw(tmp_path / "out", target=tmp_path / "target/rank0", golden=tmp_path / "golden/rank0")
    found = {row["source"]: row["path"] for row in tables.meta["data_dirs"]}
    assert found == {
        "NPU": "../target/rank0/dump_tensor_data",
        "Bench": "../golden/rank0/dump_tensor_data",
    }
    row = tables.side()[RELU]
    assert row["dump_data_dir"] == str(tmp_path / "target/rank0/dump_tensor_data")
    assert tables.config["task"] == "all"


def test_an_infinite_parameter_is_an_input(tmp_path: Path) -> None:
    odd = tensor(Max=float("inf"))
    folder = write(
        tmp_path / "dump/rank0",
        {
            FC: module([tensor()], [odd], weight=odd),
            "Module.other.Linear.forward.0": module([tensor()], [odd], weight=tensor()),
            "Functional.relu.0.forward": call([odd], [tensor()]),
            "Torch.exp.0.forward": call([tensor()], [tensor(Norm=1000.0)]),
            "Torch.empty.0.forward": call([number(3)], [odd]),
            "Tensor.copy_.0.forward": call([odd, tensor()], [tensor()]),
        },
    )
    side = draw(tmp_path / "out", target=folder, overflow=True).side()
    levels = {name: row["overflow_level"] for name, row in side.items() if row["overflow_level"]}
    assert levels == {
        FC: "high",
        "Module.other.Linear.forward.0": "critical",
        "Functional.relu.0.forward": "medium",
        "Torch.exp.0.forward": "high",
    }


def group(*ranks: int) -> dict[str, Any]:
    return {"type": "torch.ProcessGroup", "group_ranks": list(ranks), "group_id": "g" + "".join(map(str, ranks))}


def batched(*peers: tuple[str, int]) -> list[dict[str, Any]]:
    return [
        {"class_type": "torch.distributed.P2POp", "op": op, "peer": peer, "tag": 0, "tensor": tensor()}
        for op, peer in peers
    ]


def test_communication_is_linked_between_ranks(tmp_path: Path) -> None:
    def sent(rank: int) -> dict[str, Any]:
        other = 1 - rank
        return {
            "Distributed.all_reduce.0.forward": call([tensor()], [tensor()], group=group(0, 1)),
            "Distributed.all_reduce.1.forward": call([tensor()], [tensor()], group=group(0, 1)),
            "Distributed.reduce.0.forward": call([tensor(), number(1)], [tensor()], group=group(0, 1)),
            "Distributed.batch_isend_irecv.0.forward": call([batched(("isend", other), ("irecv", other))], []),
        }

    first = sent(0) | {"Distributed.send.0.forward": call([tensor(), number(1)], [])}
    second = sent(1) | {"Distributed.recv.0.forward": call([tensor()], [number(0)], src=number(0))}
    write(tmp_path / "dump/rank0", first)
    write(tmp_path / "dump/rank1", second)
    tables = draw(tmp_path / "out", target=tmp_path / "dump")
    found = {
        name: (told["communications_type"], told["nodes_info"]["1"][1])
        for name, row in tables.side().items()
        if (told := json.loads(row["matched_distributed"]))
    }
    assert found == {
        "Distributed.all_reduce.0.forward": ("send_receive", "Distributed.all_reduce.0.forward"),
        "Distributed.all_reduce.1.forward": ("send_receive", "Distributed.all_reduce.1.forward"),
        "Distributed.reduce.0.forward": ("send", "Distributed.reduce.0.forward"),
        "Distributed.batch_isend_irecv.0.forward": ("send_receive", "Distributed.batch_isend_irecv.0.forward"),
        "Distributed.send.0.forward": ("send", "Distributed.recv.0.forward"),
    }


def test_groups_that_have_only_a_name_are_told_apart(tmp_path: Path) -> None:
    call_of = "MintDistributed.all_reduce.0.forward"
    for rank in range(4):
        named = {"type": "str", "value": "ab" if rank < 2 else "cd"}
        write(tmp_path / f"dump/rank{rank}", {call_of: call([tensor()], [tensor()], group=named)})
    tables = draw(tmp_path / "out", target=tmp_path / "dump")
    met = [list(json.loads(tables.side(rank=rank)[call_of]["matched_distributed"])["nodes_info"]) for rank in range(4)]
    assert met == [["1"], ["0"], ["3"], ["2"]]


def test_a_recomputed_call_with_other_values_is_an_error(tmp_path: Path) -> None:
    again = FC.replace("forward.0", "forward.1")
    first = {FC: module([tensor()], [tensor(0.7)])}
    repeated = {**module([tensor()], [tensor(0.9)]), "is_recompute": True}
    golden = write(tmp_path / "golden/rank0", first, {FC: None})
    target = write(tmp_path / "target/rank0", first | {again: repeated}, {FC: None, again: None})
    tables = draw(tmp_path / "out", target=target, golden=golden)
    assert tables.verdicts() == {FC: "same", again: "error", "DefaultModel": "no_data"}
    reason = tables.ours[tables.side()[again]["id"]]["reason"]
    assert reason == f"output.0 has another value than in {FC}, which this recomputed call repeats"
    assert tables.meta["first_divergence"][0]["node"] == again
    assert tables.ours[tables.side()["DefaultModel"]["id"]]["rollup_verdict"] == "error"


def test_a_rank_inside_a_group_is_that_of_the_job(tmp_path: Path) -> None:
    pair = group(2, 5)
    sends = {
        "Distributed.reduce.0.forward": call([tensor()], [tensor()], group=pair, group_dst=number(1)),
        "Distributed.send.0.forward": call([tensor()], [], group=pair, group_dst=number(1)),
    }
    receives = {
        "Distributed.reduce.0.forward": call([tensor()], [tensor()], group=pair, group_dst=number(1)),
        "Distributed.recv.0.forward": call([tensor()], [], group=pair, group_src=number(0)),
    }
    write(tmp_path / "dump/rank2", sends)
    write(tmp_path / "dump/rank5", receives)
    tables = draw(tmp_path / "out", target=tmp_path / "dump")
    told = [json.loads(row["matched_distributed"]) for row in tables.side(rank=2).values() if row["is_distributed"]]
    assert told == [
        {"communications_type": "send", "nodes_info": {"5": ["Nan", "Distributed.reduce.0.forward"]}},
        {"communications_type": "send", "nodes_info": {"5": ["Nan", "Distributed.recv.0.forward"]}},
    ]


def test_two_frameworks_side_by_side(good: Path, tmp_path: Path) -> None:
    data = {name.replace("Module.", "Cell."): body for name, body in net()[0].items()}
    text = json.dumps(data).replace("torch.Tensor", "mindspore.Tensor").replace("torch.float32", "Float32")
    construct = {
        name.replace("Module.", "Cell."): parent and parent.replace("Module.", "Cell.")
        for name, parent in net()[1].items()
    }
    target = write(tmp_path / "ms/rank0", json.loads(text), construct)
    document = json.loads((target / "dump.json").read_text())
    (target / "dump.json").write_text(json.dumps({**document, "framework": "mindspore"}))
    tables = draw(tmp_path / "out", target=target, golden=good)
    cell = FC.replace("Module.", "Cell.")
    assert json.loads(tables.side()[cell]["matched_node_link"]) == ["DefaultModel", NET, FC]
    assert tables.verdicts()[cell] == "same"


def test_log_lines_for_values_and_progress(good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = write(tmp_path / "bad/rank0", *net(0.8))
    draw(tmp_path / "out", target=bad, golden=good, log_values=True, log_progress=True)
    told = capsys.readouterr().out
    assert "1 of 1: step 0 rank 0" in told
    assert f"{FC}.output.0: error: norm differs" in told


@pytest.mark.parametrize(
    ("policy", "expected"), [("default", (0, 0, 0)), ("reference", (0, 1, 3))], ids=["default", "reference"]
)
def test_what_only_the_golden_run_has_is_in_a_micro_step_that_exists(
    tmp_path: Path, policy: str, expected: tuple[int, int, int]
) -> None:
    adds, layer = [f"Tensor.add.{number}.forward" for number in range(4)], "Module.more.Linear.forward.3"
    one = call([tensor()], [tensor()])
    names = [adds[0], adds[1], NET, adds[2], adds[3]]
    golden = write(tmp_path / "golden/rank0", dict.fromkeys([*names, layer], one), dict.fromkeys([*names, layer]))
    target = write(tmp_path / "target/rank0", {NET: one}, {NET: None})
    tables = draw(tmp_path / "out", target=target, golden=golden, policy=policy)
    side = tables.side("Bench")
    assert tables.config["micro_steps"] == 1
    found = [side[name]["micro_step_id"] for name in ("Apis_Between_Modules.0", "Apis_Between_Modules.1", layer)]
    assert tuple(found) == expected


def test_a_collection_of_the_golden_run_is_in_the_micro_step_of_its_place(tmp_path: Path) -> None:
    one, again = call([tensor()], [tensor()]), NET.replace("forward.0", "forward.1")
    back = NET.replace("forward.0", "backward.0")
    adds = [f"Tensor.add.{number}.forward" for number in range(2)]
    ours, theirs = [NET, back, again], [NET, back, again, *adds]
    target = write(tmp_path / "target/rank0", dict.fromkeys(ours, one), dict.fromkeys(ours))
    golden = write(tmp_path / "golden/rank0", dict.fromkeys(theirs, one), dict.fromkeys(theirs))
    tables = draw(tmp_path / "out", target=target, golden=golden)
    assert tables.config["micro_steps"] == 2
    assert tables.side("Bench")["Apis_Between_Modules.0"]["micro_step_id"] == 1
    assert tables.side("Bench")[adds[1]]["micro_step_id"] == 1
