"""``PtdbgDispatch``: a training goes on as without it, right kernels are right, a planted one has its line."""

from __future__ import annotations

import csv
import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from torch.nn import functional

from msprobe.core.errors import MsprobeException
from msprobe.online.online_check import COLUMNS
from msprobe.pytorch import PtdbgDispatch
from tests.precheck.planted_kernels import PlantedKernel
from tests.precheck.programs import Block

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


def train(context: Any = None, dtype: torch.dtype = torch.float32) -> tuple[list[float], torch.Tensor, torch.Tensor]:
    """Train for two steps, and return losses, a parameter and the state of the random generator."""
    torch.manual_seed(0)
    model = Block().to(dtype)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    losses = []
    with context or nullcontext():
        for _ in range(2):
            ids = torch.randint(0, 100, (4, 16))
            loss = functional.cross_entropy(model(ids).flatten(0, 1).float(), ids.flatten())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
    return losses, model.out.weight.detach().clone(), torch.get_rng_state()


def wrong(check: PtdbgDispatch) -> set[str]:
    return {name for name, result in check.operators.items() if result.wrong}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_training_is_the_same_and_right(dtype: torch.dtype, tmp_path: Path) -> None:
    check = PtdbgDispatch(dump_path=str(tmp_path))
    plain, watched = train(dtype=dtype), train(check, dtype)
    assert plain[0] == watched[0]
    assert torch.equal(plain[1], watched[1])
    assert torch.equal(plain[2], watched[2])
    assert wrong(check) <= {"native_layer_norm_backward.default"}  # adds up in bfloat16: tests/precheck
    assert len(check.operators) > 30
    names = {name.partition(".")[0] for name in check.operators}
    assert {"addmm", "gelu", "gelu_backward", "mul_"} <= names
    assert not names & {"t", "view", "native_dropout", "empty_like", "bernoulli_"}


PLANTS = [("gelu", "scale"), ("gelu_backward", "sign"), ("mm", "one element"), ("exp", "NaN")]


@pytest.mark.matrix("wide", sample=2)
@pytest.mark.parametrize(("operator", "kind"), PLANTS)
def test_a_wrong_kernel_is_named_with_its_line(operator: str, kind: str, tmp_path: Path) -> None:
    check = PtdbgDispatch(dump_path=str(tmp_path), dump_mode="auto", tag="x")
    with PlantedKernel(operator, kind).planted():
        train(check)
    assert wrong(check) == {f"{operator}.default"}
    result = check.operators[f"{operator}.default"]
    if not operator.endswith("_backward") and operator != "mm":
        assert "tests/precheck/programs.py" in result.stack[0]
    assert check.folder.name.startswith("msprobe_x_rank0_")
    (table,) = check.folder.glob("compare_result_rank0_*.csv")
    with table.open(encoding="utf-8-sig", newline="") as file:
        head, *lines = list(csv.reader(file))
    assert tuple(head) == COLUMNS
    assert {line[0].partition(".")[0] for line in lines if line[-2] == "error"} == {operator}
    assert json.loads((check.folder / "summary.json").read_text())[f"{operator}.default"]["wrong"] == result.wrong
    kept = {path.name.partition(".")[0] for path in check.folder.glob("*/*.npy")}
    assert kept == {operator}


def test_operators_that_write_their_input_are_judged_by_what_it_was(tmp_path: Path) -> None:
    check = PtdbgDispatch(dump_path=str(tmp_path))
    with check:
        values = torch.ones(8)
        values.mul_(3).add_(1).exp_()
        torch.cumsum(values, 0, out=torch.empty(8))
    assert not wrong(check)
    assert {"mul_", "add_", "exp_"} <= {name.partition(".")[0] for name in check.operators}


def test_the_sampled_check_looks_at_the_first_calls_of_a_kind(tmp_path: Path) -> None:
    check = PtdbgDispatch.sampled(first=2, dump_path=str(tmp_path))
    with check:
        for size in (4, 4, 4, 8):
            torch.sin(torch.ones(size))
    assert check.operators["sin.default"].checked == 3


def test_what_the_program_raises_reaches_it(tmp_path: Path) -> None:
    check = PtdbgDispatch(dump_path=str(tmp_path))
    with pytest.raises(RuntimeError, match="mat1 and mat2"), check:
        torch.mm(torch.ones(2, 3), torch.ones(2, 3))
    assert (check.folder / "summary.json").exists()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"dump_mode": "some"}, "dump_mode 'some': give one of OFF, all, list, auto"),
        ({"dump_mode": "list"}, "needs api_list"),
        ({"tag": "../x"}, "without path separators"),
        ({"process_num": -1}, "process_num -1"),
    ],
)
def test_wrong_arguments(given: dict[str, Any], said: str) -> None:
    with pytest.raises(MsprobeException, match=said.replace("[", r"\[")):
        PtdbgDispatch(**given)
