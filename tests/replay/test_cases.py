"""Calls of real dumps run again: all are right, also with drawn values; what cannot run has a reason."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from torch.nn import functional as F

from msprobe.adapters.pytorch.replay.runner import TorchReplayer, make_replayer
from msprobe.core.backend.replaying import CannotReplayError, PreparedCall
from msprobe.core.store.reader import find_dumps, load_dump
from msprobe.numerics.kinds import Level
from msprobe.pytorch import PrecisionDebugger
from msprobe.replay.cases import Case, cases_of, prepare
from msprobe.replay.judged_call import CallJudgement, judge_call

pytestmark = pytest.mark.torch


def program() -> None:
    """Call functions with every kind of argument that a dump has, forward and backward."""
    torch.manual_seed(0)
    x = torch.randn(4, 6, requires_grad=True)
    weight = torch.randn(3, 6, requires_grad=True)
    y = F.linear(x, weight)
    shares = torch.softmax(y, dim=-1, dtype=torch.float32)
    largest, _ = torch.topk(shares, 2)
    both = torch.cat([y, shares], dim=0)
    short = y.to(torch.bfloat16)
    words = F.embedding(torch.tensor([1, 2, 2]), torch.randn(5, 3, requires_grad=True))
    hidden = y.masked_fill(y > 0, float("-inf")).softmax(-1)
    first, second = torch.split(y, [1, 2], dim=1)
    loss = F.cross_entropy(y, torch.tensor([0, 1, 2, 1]))
    product = torch.einsum("ij,kj->ik", x, weight)
    spread = torch.var(y, dim=(0,), keepdim=True)
    normed = F.layer_norm(x, (6,), torch.ones(6), bias=torch.zeros(6), eps=1e-6)
    attended = F.scaled_dot_product_attention(x[None], x[None], x[None], is_causal=True)
    changed = torch.zeros(4, 3).add_(y, alpha=2.0).mul_(3)
    parts = (largest, both, short, words, hidden, first, second, product, spread, normed, attended, changed)
    (loss + sum(part.float().sum() for part in parts)).backward()


@pytest.fixture(scope="module", params=("statistics", "tensor"))
def dump(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("dump")
    PrecisionDebugger._instance = None
    debugger: Any = PrecisionDebugger({"dump_path": str(folder), "level": "L1", "task": request.param})
    debugger.start()
    program()
    debugger.stop()
    debugger.step()
    (place,) = find_dumps(folder)
    return load_dump(place)


@pytest.fixture(scope="module")
def replayer() -> TorchReplayer:
    return make_replayer()


def judged(dump: Any, replayer: TorchReplayer) -> Iterator[tuple[Case, CallJudgement]]:
    for case in cases_of(dump):
        yield case, judge_call(prepare(case), replayer, "cpu")


def test_every_call_of_a_right_program_is_right(dump: Any, replayer: TorchReplayer) -> None:
    answers = list(judged(dump, replayer))
    values = {
        (case.name, value.slot): value for case, answer in answers for value in (*answer.forward, *answer.backward)
    }
    assert len(answers) > 25
    assert [key for key, value in values.items() if value.conditioned.level is Level.ERROR] == []


def test_gradients_are_judged_where_they_were_recorded(dump: Any, replayer: TorchReplayer) -> None:
    answers = {case.name: answer for case, answer in judged(dump, replayer)}
    assert {value.slot for value in answers["Functional.linear.0"].backward} == {"input.0", "input.1"}
    assert {value.slot for value in answers["Torch.topk.0"].backward} == {"input.0"}
    assert [value.slot for value in answers["Functional.embedding.0"].backward] == ["input.1"]
    assert answers["Tensor.__gt__.0"].backward == []


def test_wrong_values_of_files_are_a_reason(dump: Any, replayer: TorchReplayer, tmp_path: Path) -> None:
    if dump.task != "tensor":
        pytest.skip("statistics have no files")
    case = next(iter(cases_of(dump)))
    moved = Case(case.name, case.api, case.forward, case.backward, tmp_path)
    with pytest.raises(CannotReplayError, match="the tensor file is missing"):
        prepare(moved)


def test_records_that_hold_less_than_the_call_are_a_reason(tmp_path: Path) -> None:
    record = {"input_args": [{"type": "MyClass", "value": "<MyClass>"}], "input_kwargs": {}, "output": []}
    text = json.dumps({
        "task": "statistics",
        "level": "L1",
        "framework": "pytorch",
        "data": {"Torch.abs.0.forward": record},
    })
    (tmp_path / "dump.json").write_text(text, encoding="utf-8")
    (place,) = find_dumps(tmp_path / "dump.json")
    (case,) = cases_of(load_dump(place))
    with pytest.raises(CannotReplayError, match="MyClass is recorded without its value"):
        prepare(case)


@pytest.mark.parametrize("name", ("Torch.system.0", "Functional.__import__.0", "Aten.__class__.0", "os.system.0"))
def test_names_of_a_dump_call_nothing_but_what_is_recorded(name: str, replayer: TorchReplayer) -> None:
    prefix, api, _ = name.split(".")
    with pytest.raises(CannotReplayError):
        replayer.function(PreparedCall(prefix, api, [], {}))
