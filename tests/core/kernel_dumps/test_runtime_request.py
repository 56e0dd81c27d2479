"""What the runtime is asked for, field by field as the reference asked."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from msprobe.core.backend.mindspore_modes import RuntimeFacts
from msprobe.core.config import DumpConfig, load_config
from msprobe.core.kernel_dumps.runtime_request import categories, request_of

REQUESTS = Path(__file__).parent / "requests"
ASCEND = RuntimeFacts(graph_mode=True, jit_level="O0", device="Ascend", version=(2, 10, 0))
CPU = RuntimeFacts(graph_mode=True, jit_level="O0", device="CPU", version=(2, 10, 0))
O2 = RuntimeFacts(graph_mode=True, jit_level="O2", device="Ascend", version=(2, 10, 0))


def config(task: str = "statistics", section: dict[str, Any] | None = None, **common: Any) -> DumpConfig:
    return load_config({"task": task, "level": "L2", "dump_path": "/d", **common, task: section or {}})


def unordered(document: dict[str, Any]) -> dict[str, Any]:
    common = dict(document["common_dump_settings"])
    common["statistic_category"] = set(common["statistic_category"])
    return {**document, "common_dump_settings": common}


@pytest.mark.parametrize("case", sorted(path.stem for path in REQUESTS.glob("*.json")))
@pytest.mark.parametrize("facts", [ASCEND, CPU], ids=["ascend", "cpu"])
def test_requests_equal_the_recorded_ones(case: str, facts: RuntimeFacts) -> None:
    recorded = json.loads((REQUESTS / f"{case}.json").read_text())
    request = request_of(load_config(recorded["config"]), facts)
    expected = recorded["request"]
    expected["common_dump_settings"]["path"] = os.path.abspath(recorded["config"]["dump_path"])
    assert request.name == "kernel_kbyk_dump.json"
    assert unordered(request.document) == unordered(expected)


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("statistics", ["max", "min", "avg", "l2norm"]),
        ("md5", ["hash:md5"]),
        (("mean", "hash", "negative zero count"), ["avg", "hash", "negative zero count"]),
    ],
    ids=["statistics", "md5", "list"],
)
def test_summary_mode_in_the_runtimes_words(written: Any, words: list[str]) -> None:
    assert categories(written, (2, 10, 0)) == words


def test_older_runtimes_know_md5_only() -> None:
    assert categories("md5", (2, 7, 0)) == categories(("hash",), (2, 6, 0)) == ["md5"]


def test_choices_reach_their_fields() -> None:
    section = {"list": ["MatMul"], "data_mode": ["output"], "device": "device", "precision": "low"}
    asked = config("statistics", section, rank=[0, "4-5"], step=[1, "3-5"], async_dump=True)
    document = request_of(asked, ASCEND).document
    common, transport = document["common_dump_settings"], document["e2e_dump_settings"]
    assert (common["dump_mode"], common["kernels"], common["input_output"]) == (1, ["MatMul"], 2)
    assert (common["support_device"], common["iteration"]) == ([0, 4, 5], "1|3-5")
    assert transport == {
        "enable": False,
        "trans_flag": True,
        "stat_calc_mode": "device",
        "device_stat_precision_mode": "low",
    }


def test_whole_graphs_have_a_request_of_their_own() -> None:
    request = request_of(config("tensor", {"file_format": "bin"}), O2)
    common = request.document["common_dump_settings"]
    assert request.name == "kernel_graph_dump.json"
    assert (common["op_debug_mode"], common["file_format"], common["saved_data"]) == (0, "bin", "tensor")
    assert "statistic_category" not in common
    chosen = request_of(config("statistics", {"summary_mode": ["max", "mean"]}), O2).document
    assert chosen["common_dump_settings"]["statistic_category"] == ["max", "avg"]


@pytest.mark.parametrize(("mode", "number"), [("aicore", 1), ("atomic", 2), ("all", 3)])
def test_overflow_check_by_kind(mode: str, number: int) -> None:
    request = request_of(config("overflow_check", {"check_mode": mode}), O2)
    common = request.document["common_dump_settings"]
    assert request.name == "kernel_graph_overflow_check.json"
    assert (common["op_debug_mode"], common["saved_data"], common["file_format"]) == (number, "full", "npy")


def test_a_cpu_is_asked_for_what_it_can_do() -> None:
    request = request_of(config("statistics", step=[3]), CPU)
    served = request.served["common_dump_settings"]
    assert (served["saved_data"], served["iteration"]) == ("tensor", "all")
    assert request.served_name == "cpu_fallback_kernel_kbyk_dump.json"
    assert request.document["common_dump_settings"]["saved_data"] == "statistic"
    assert request_of(config("statistics"), ASCEND).served_name == "kernel_kbyk_dump.json"
    assert request_of(config("tensor"), CPU).served_name == "kernel_kbyk_dump.json"
