"""A fused layer stands beside its parts: judged as ``compare`` judges it, and every value shown as it was recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from msprobe.compare.alignment.options import MappingOptions
from msprobe.jobs.compare import compare
from msprobe.visualize.job import Request, visualize
from tests.compare.dumps import Entry, tensor, write
from tests.compare.exemptions.test_fused_layers import MAP, TURNED, _parts, _whole, _whole_layer
from tests.visualize.databases import Tables, check, read

QKV, Q, K = (f"Module.{name}.L.forward.0" for name in ("qkv", "q", "k"))
TOGETHER = f"{Q} + {K} taken together"


def draw(folder: Path, whole: Entry, parts: Entry, *, turned: bool = False) -> Tables:
    fused, split = write(folder / "fused", whole), write(folder / "split", parts)
    target, golden = (split, fused) if turned else (fused, split)
    mapping = MappingOptions(layer_mapping=TURNED if turned else MAP)
    tables = read(visualize(Request(target=target, golden=golden, output=folder / "out", mapping=mapping)))
    check(tables)
    return tables


def values(tables: Tables, source: str, name: str) -> dict[str, Any]:
    row = tables.side(source)[name]
    return {**json.loads(row["input_data"]), **json.loads(row["output_data"])}


@pytest.mark.parametrize("turned", [False, True], ids=["fused-target", "fused-golden"])
def test_parts_that_make_the_whole_agree(tmp_path: Path, turned: bool) -> None:
    tables = draw(tmp_path, _whole_layer(), _parts(), turned=turned)
    whole, parts = ("Bench", "NPU") if turned else ("NPU", "Bench")
    assert [tables.verdicts(whole)[QKV], *map(tables.verdicts(parts).get, (Q, K))] == ["same"] * 3
    assert json.loads(tables.side(whole)[QKV]["matched_node_link"])[-1] == Q
    assert json.loads(tables.side(parts)[Q]["matched_node_link"])[-1] == QKV
    target = tables.ours[tables.side()[Q if turned else QKV]["id"]]
    assert target["reason"] == TOGETHER
    other = tables.ours[tables.side(parts)[K]["id"]]
    assert other["reason"] == f"judged with {Q}, as a part of {QKV}"


@pytest.mark.parametrize("turned", [False, True], ids=["fused-target", "fused-golden"])
def test_every_value_is_shown_as_recorded(tmp_path: Path, turned: bool) -> None:
    tables = draw(tmp_path, _whole_layer(), _parts(), turned=turned)
    whole, parts = ("Bench", "NPU") if turned else ("NPU", "Bench")
    places = ((whole, QKV), (parts, Q), (parts, K))
    shown = {name: values(tables, side, name)[f"{name}.parameters.weight"] for side, name in places}
    assert {name: (one["shape"], one["Max"]) for name, one in shown.items()} == {
        QKV: ("[4, 4]", "2.0"),
        Q: ("[2, 4]", "1.0"),
        K: ("[2, 4]", "2.0"),
    }
    judged = shown[Q if turned else QKV]
    names = f"{Q}.parameters.weight + {K}.parameters.weight"
    assert (judged["Result"], judged["Max diff"]) == ("pass", "0.0")
    assert json.loads(judged["Err_message"]) == [f"pass: {names} taken together"]
    assert "Result" not in shown[K]


@pytest.mark.parametrize("turned", [False, True], ids=["fused-target", "fused-golden"])
def test_a_fault_in_a_fused_layer_is_red_where_compare_finds_it(tmp_path: Path, turned: bool) -> None:
    tables = draw(tmp_path, _whole_layer(weight=_whole(1.0, 2.5)), _parts(), turned=turned)
    name = Q if turned else QKV
    assert tables.verdicts()[name] == "error"
    row = tables.ours[tables.side()[name]["id"]]
    assert row["reason"].startswith("parameters.weight: ") and row["reason"].endswith(TOGETHER)
    assert tables.meta["first_divergence"][0]["node"] == name
    root = tables.ours[tables.side()["DefaultModel"]["id"]]
    assert json.loads(root["counts"])["error"] == 1, "counted once, not for each part"
    sides = [tmp_path / name for name in (("split", "fused") if turned else ("fused", "split"))]
    result = compare(*sides, layer_mapping=TURNED if turned else MAP)
    assert result.summary.counts.error == 1


def test_what_could_not_be_joined_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = {f"{name}": body for name, body in _parts().items() if ".k." not in name or "forward" not in name}
    tables = draw(tmp_path, _whole_layer(), other)
    (told,) = tables.meta["summary"][0]["incomplete"]
    assert "fused layers were not compared" in told
    assert told in capsys.readouterr().out


def test_a_call_of_another_program_says_why_it_is_not_compared(tmp_path: Path) -> None:
    one = {"input_args": [tensor()], "input_kwargs": {}, "output": [tensor()]}
    tables = draw(tmp_path, {**_whole_layer(), "Torch.exp.0.forward": one}, _parts())
    assert tables.verdicts()["Torch.exp.0.forward"] == "not_compared"
    reason = tables.ours[tables.side()["Torch.exp.0.forward"]["id"]]["reason"]
    assert reason.startswith("only this program makes this call")
