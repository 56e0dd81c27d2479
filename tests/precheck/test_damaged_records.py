"""Damaged records of calls: each is checked, or skipped with a reason; nothing is raised, and no memory is filled."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("torch")

import torch

from msprobe.adapters.pytorch.replay.runner import make_replayer
from msprobe.core.backend.replaying import CannotReplayError
from msprobe.core.errors import MsprobeException
from msprobe.jobs.single_script import make_script
from msprobe.precheck.checked_call import Status, check_case
from msprobe.precheck.settings import CheckSettings
from msprobe.replay.cases import cases_in, prepare
from msprobe.single_call.request import ScriptRequest
from tests.precheck.programs import record

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

ODD: list[Any] = [
    None, True, -1, 3, 10**30, 1e308, float("nan"), "", "inf", "../../etc/passwd", "torch.float32", [], [None], {},
    [10**9, 10**9], {"type": "torch.Tensor"}, {"type": "slice", "value": [1]}, {"type": "torch.Size", "value": ["x"]},
    {"type": "torch.dtype", "value": "os.system"}, [[[[[1]]]]], {"type": "int", "value": "x"},
    {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [10**9, 10**9], "Max": 1.0, "Min": 0.0},
    {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [-2], "Max": 1.0, "Min": 0.0},
    {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], "Max": "x", "Min": None},
    {"type": "torch.Tensor", "dtype": "torch.int64", "shape": [2], "Max": 1e300, "Min": -1e300},
    {"type": "torch.Tensor", "dtype": "torch.int8", "shape": [2], "Max": 1000, "Min": -1000},
    {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], "Max": 0.0, "Min": 1.0},
    {"type": "torch.Tensor", "dtype": "torch.int64", "shape": [2], "Max": float("nan"), "Min": 0},
]  # fmt: skip


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    document = record(tmp_path_factory.mktemp("run"), "block", torch.float32)
    data: dict[str, Any] = json.loads(document.read_text())["data"]
    # Not "lstm": with arguments of other kinds torch 2.13 ends the process. acc_check runs calls in one of their own.
    names = ("linear", "topk", "__setitem__", "embedding", "layer_norm", "exp")
    return {name: body for name, body in data.items() if name.split(".")[1] in names}


def places(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, each in items:
        found += places(each, (*path, key))
    return found


def replaced(node: Any, path: tuple[Any, ...], value: Any) -> Any:
    node = copy.deepcopy(node)
    inner = node
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return node


@pytest.mark.matrix("fuzz", sample=True, examples=6_000)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(data=st.data())
def test_a_damaged_record_has_an_answer(records: dict[str, Any], tmp_path: Path, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(records)))
    path = data.draw(st.sampled_from(places(records[name])))
    damaged = {**records, name: replaced(records[name], path, data.draw(st.sampled_from(ODD)))}
    stem = name.rpartition(".")[0]
    (case,) = [case for case in cases_in(damaged, tmp_path) if case.name == stem]
    checked = check_case(case, make_replayer(), CheckSettings("cpu")).checked
    assert checked.status is not Status.SKIP or checked.message
    document = tmp_path / "dump.json"
    document.write_text(json.dumps({"task": "statistics", "framework": "pytorch", "data": damaged}))
    try:
        make_script(ScriptRequest(document, stem, real=False), tmp_path / "scripts")
    except MsprobeException as error:
        assert "\n" not in str(error)


def test_what_the_memory_cannot_hold_is_a_reason(tmp_path: Path) -> None:
    huge = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [10**7, 10**7], "Max": 1.0, "Min": 0.0}
    (case,) = cases_in({"Torch.exp.0.forward": {"input_args": [huge], "input_kwargs": {}}}, tmp_path)
    with pytest.raises(CannotReplayError, match="too large for the memory"):
        prepare(case)


def test_a_dump_without_arguments_says_so(tmp_path: Path) -> None:
    (case,) = cases_in({"Torch.exp.0.forward": {"output": []}}, tmp_path)
    with pytest.raises(CannotReplayError, match="data_mode"):
        prepare(case)
