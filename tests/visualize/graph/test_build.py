"""Graphs of single runs: places, micro steps, recomputation, MindSpore, several steps and ranks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from msprobe.visualize.job import Request, visualize
from tests.compare.dumps import call, gradient, tensor, write
from tests.visualize.databases import Tables, check, read

CASES = Path(__file__).parents[2] / "golden/cases"
ONE = call([tensor()], [tensor(0.5)])
BACK = gradient([tensor()], [tensor(0.5)])


def draw(target: Path, output: Path) -> Tables:
    tables = read(visualize(Request(target=target, output=output)))
    check(tables)
    return tables


def recorded() -> list[Path]:
    return sorted({path.parent for path in CASES.rglob("dump.json")})


@pytest.mark.parametrize("folder", recorded(), ids=lambda path: str(path.relative_to(CASES)).replace("/", "-"))
def test_every_record_of_every_recorded_dump_is_in_the_graph(folder: Path, tmp_path: Path) -> None:
    names = set(json.loads((folder / "dump.json").read_text())["data"])
    if not names and not json.loads((folder / "construct.json").read_text() or "{}"):
        pytest.skip("an empty dump")
    assert names <= {key[3] for key in draw(folder, tmp_path).nodes}


def test_steps_and_ranks_go_into_one_database(tmp_path: Path) -> None:
    for step in (2, 5):
        for rank in (0, 3):
            write(tmp_path / f"dump/step{step}/rank{rank}", {"Functional.relu.0.forward": ONE})
    write(tmp_path / "dump/step5/proc4711", {"Functional.gelu.0.forward": ONE})
    tables = draw(tmp_path / "dump", tmp_path / "out")
    assert (tables.config["step_list"], tables.config["rank_list"]) == ("[2, 5]", "[0, 1, 3]")
    assert "Functional.gelu.0.forward" in tables.side(step=5, rank=1)


@pytest.mark.parametrize("place", ["dump", "dump/step2", "dump/step2/rank3", "dump/step2/rank3/dump.json"])
def test_numbers_are_known_at_any_level(place: str, tmp_path: Path) -> None:
    write(tmp_path / "dump/step2/rank3", {"Functional.relu.0.forward": ONE})
    assert draw(tmp_path / place, tmp_path / "out").side(step=2, rank=3)


def test_micro_steps_begin_with_a_forward_module_after_backward(tmp_path: Path) -> None:
    forward, backward = "Module.net.Net.forward.{}", "Module.net.Net.backward.{}"
    names = [form.format(number) for number in range(3) for form in (forward, "Torch.mean.{}.forward", backward)]
    data = {name: BACK if "backward" in name else ONE for name in names}
    tables = draw(write(tmp_path / "dump/rank0", data, dict.fromkeys(names)), tmp_path / "out")
    assert tables.config["micro_steps"] == 3
    micro = {name: row["micro_step_id"] for name, row in tables.side().items()}
    assert [micro[name] for name in names] == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_megatron_says_its_micro_steps(tmp_path: Path) -> None:
    construct = {"Module.net.Net.forward.0": [None, 0], "Module.net.Net.forward.1": [None, 1]}
    folder = write(
        tmp_path / "dump/rank0", dict.fromkeys(construct, ONE), construct | {"megatron_micro_step_number": 1}
    )
    tables = draw(folder, tmp_path / "out")
    assert tables.config["micro_steps"] == 2
    assert tables.side()["Module.net.Net.forward.1"]["micro_step_id"] == 1


def test_recomputed_calls_are_in_the_backward_call_that_needs_them(tmp_path: Path) -> None:
    again = {**ONE, "is_recompute": True}
    data = {
        "Module.a.Net.forward.0": ONE,
        "Module.b.Net.forward.0": ONE,
        "Module.b.Net.forward.1": again,
        "Module.b.Net.backward.0": BACK,
        "Module.a.Net.forward.1": again,
        "Module.a.Net.backward.0": BACK,
    }
    tables = draw(write(tmp_path / "dump/rank0", data, dict.fromkeys(data)), tmp_path / "out")
    side = tables.side()
    assert side["Module.b.Net.forward.1"]["up_node"] == "Module.b.Net.backward.0"
    assert side["Module.a.Net.forward.1"]["up_node"] == "Module.a.Net.backward.0"
    assert tables.config["micro_steps"] == 1


def test_backward_modules_without_parent_follow_their_forward_call(tmp_path: Path) -> None:
    construct = {
        "Module.a.Net.forward.0": None,
        "Module.a.fc.Linear.forward.0": "Module.a.Net.forward.0",
        "Module.a.Net.backward.0": None,
        "Module.a.fc.Linear.backward.0": None,
    }
    data = {name: BACK if "backward" in name else ONE for name in construct}
    data["Module.a.fc.Linear.parameters_grad.0"] = {"weight": [tensor()]}
    side = draw(write(tmp_path / "dump/rank0", data, construct), tmp_path / "out").side()
    assert side["Module.a.fc.Linear.backward.0"]["up_node"] == "Module.a.Net.backward.0"
    assert side["Module.a.fc.Linear.parameters_grad.0"]["up_node"] == "Module.a.fc.Linear.backward.0"


@pytest.mark.parametrize(
    ("backwards", "gradients", "parents"),
    [
        pytest.param(1, 1, [0], id="once"),
        pytest.param(2, 1, [1], id="called-twice"),
        pytest.param(2, 2, [0, 1], id="two-micro-steps"),
        pytest.param(4, 2, [1, 3], id="called-twice-in-two-micro-steps"),
        pytest.param(3, 2, [2, 2], id="uneven"),
    ],
)
def test_gradients_are_in_the_backward_call_that_made_them(
    tmp_path: Path, backwards: int, gradients: int, parents: list[int]
) -> None:
    layer = "Module.fc.Linear"
    calls = [f"{layer}.forward.{number}" for number in range(backwards)]
    calls += [f"{layer}.backward.{number}" for number in range(backwards)]
    data: dict[str, Any] = {name: BACK if "backward" in name else ONE for name in calls}
    data |= {f"{layer}.parameters_grad.{number}": {"weight": [tensor()]} for number in range(gradients)}
    side = draw(write(tmp_path / "dump/rank0", data, dict.fromkeys(calls)), tmp_path / "out").side()
    found = [side[f"{layer}.parameters_grad.{number}"]["up_node"] for number in range(gradients)]
    assert found == [f"{layer}.backward.{number}" for number in parents]


def test_gradients_are_in_the_micro_step_of_their_backward_call(tmp_path: Path) -> None:
    layer = "Module.fc.Linear"
    construct = {f"{layer}.{way}.{number}": [None, number] for number in (0, 1) for way in ("forward", "backward")}
    data: dict[str, Any] = {name: BACK if "backward" in name else ONE for name in construct}
    data |= {f"{layer}.parameters_grad.{number}": {"weight": [tensor()]} for number in (0, 1)}
    megatron = construct | {"megatron_micro_step_number": 1}
    for name, told in (("plain", dict.fromkeys(construct)), ("megatron", megatron)):
        side = draw(write(tmp_path / f"{name}/rank0", data, told), tmp_path / f"{name}_out").side()
        assert [side[f"{layer}.parameters_grad.{number}"]["micro_step_id"] for number in (0, 1)] == [0, 1]


def test_calls_around_the_loss_are_collected_by_phase(tmp_path: Path) -> None:
    names = ["Torch.tanh.0.forward", "Torch.mean.0.forward", "Torch.mean.0.backward", "Torch.tanh.0.backward"]
    data = {name: BACK if "backward" in name else ONE for name in names}
    side = draw(write(tmp_path / "dump/rank0", data, dict.fromkeys(names)), tmp_path / "out").side()
    assert [side[name]["up_node"][-1] for name in names] == ["0", "0", "1", "1"]


def test_values_without_statistics_keep_what_is_known(tmp_path: Path) -> None:
    bare = {**tensor(), "Max": None, "Min": None, "Mean": None, "Norm": None}
    folder = write(tmp_path / "dump/rank0", {"Torch.add.0.forward": call([bare, None], [tensor()])})
    values = json.loads(draw(folder, tmp_path / "out").side()["Torch.add.0.forward"]["input_data"])
    first = values["Torch.add.0.forward.input.0"]
    assert (first["dtype"], first["shape"], first["Max"]) == ("torch.float32", "[4, 8]", "null")
    assert values["Torch.add.0.forward.input.1"] == {"value": "null"}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        pytest.param("my_ops.twice.0.forward", "1", id="custom-operator"),
        pytest.param("mylib.fused_norm.0.backward", "1", id="custom-function"),
        pytest.param("MintDistributed.all_reduce.0.forward", "1", id="mint"),
        pytest.param("Cell.net.Net.forward.0", "0", id="cell"),
        pytest.param("optimizer", "0", id="no-call"),
    ],
)
def test_what_is_called_like_a_call_is_one_whatever_its_first_word(name: str, kind: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "dump/rank0", {name: ONE}, {name: None})
    assert draw(folder, tmp_path / "out").side()[name]["node_type"] == kind
