"""What a dump says beside the values of its calls: who wrote it, modes of calls, optimizers, shared memory, its end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from msprobe import __version__
from msprobe.adapters.pytorch.tensors.tensor_ops import TorchTensorOps
from msprobe.compare.records.source_lines import frame_of, from_source
from msprobe.jobs.compare import compare
from tests import forked
from tests.adapters.bench import Bench


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(8, 4)
        self.layer = nn.Linear(4, 4)
        self.head = nn.Linear(4, 8, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.head(self.layer(self.embedding(tokens)))
        return result


TOKENS = torch.arange(8)


def end_of(bench: Bench, step: int = 0) -> Any:
    return bench.read(step).dump.get("end")


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_the_header_says_who_wrote_the_dump(bench: Bench, level: str) -> None:
    debugger = bench.open(level)
    debugger.start(model=Tied())
    torch.relu(torch.ones(2))
    debugger.stop()
    mark = {"name": "msprobe", "version": __version__, "framework_version": torch.__version__}
    assert bench.read().dump["written_by"] == mark


def test_module_calls_say_their_modes(bench: Bench) -> None:
    model = Tied()
    debugger = bench.open("mix")
    debugger.start(model=model)
    model(TOKENS)
    model.eval()
    with torch.no_grad():
        model(TOKENS)
    with torch.inference_mode():
        model(TOKENS)
    debugger.stop()
    data = bench.read().data
    calls = [data[f"Module.layer.Linear.forward.{number}"] for number in range(3)]
    assert [(call["training"], call["autograd"]) for call in calls] == [
        (True, "grad"),
        (False, "no_grad"),
        (False, "inference"),
    ]
    functions = [data[f"Functional.linear.{number}.forward"] for number in (0, 2, 4)]
    assert [call.get("autograd") for call in functions] == [None, "no_grad", "inference"]
    assert not any("training" in call for call in functions)


def test_a_property_that_raises_costs_the_flag_only(bench: Bench) -> None:
    class Odd(nn.Identity):
        @property
        def training(self) -> bool:
            raise RuntimeError("asked")

        @training.setter
        def training(self, value: bool) -> None: ...

    debugger = bench.open("L0")
    model = nn.Sequential(Odd())
    debugger.start(model=model)
    model(torch.ones(2))
    debugger.stop()
    body = bench.read().data["Module.0.Odd.forward.0"]
    assert "training" not in body and body["autograd"] == "grad" and body["output"]


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_optimizers_with_names_and_learning_rates(bench: Bench, level: str) -> None:
    model = Tied()
    first = torch.optim.SGD([{"params": model.layer.parameters(), "lr": 0.5}, {"params": [model.head.weight]}], lr=0.1)
    second = torch.optim.Adam([torch.ones(2, requires_grad=True)], lr=torch.tensor(0.25))
    debugger = bench.open(level)
    debugger.start(model=model)
    model(TOKENS).sum().backward()
    first.step()
    second.step()
    first.param_groups[1]["lr"] = 0.05
    first.step()
    debugger.stop()
    begun, other, again = bench.read().dump["optimizers"]
    assert (begun["optimizer"], begun["class"], other["optimizer"], other["class"]) == (0, "SGD", 1, "Adam")
    assert [group["lr"] for group in begun["groups"]] == [0.5, 0.1]
    named = [["layer.weight", "layer.bias"], ["embedding.weight"]] if level != "L1" else [[None, None], [None]]
    assert [group["parameters"] for group in begun["groups"]] == named
    assert other["groups"][0]["lr"]["Max"] == 0.25 and other["groups"][0]["betas"] == [0.9, 0.999]
    assert again["optimizer"] == 0 and [group["lr"] for group in again["groups"]] == [0.5, 0.05]
    assert "class" not in again and "parameters" not in again["groups"][0]


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_lines_of_backward_zero_grad_and_step(bench: Bench, level: str) -> None:
    model = Tied()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    debugger = bench.open(level)
    debugger.start(model=model)
    optimizer.zero_grad()
    model(TOKENS).sum().backward()
    optimizer.step()
    debugger.stop()
    model.zero_grad()
    header = bench.read().dump
    lines = [(call["call"], frame_of(from_source(call["stack"])[0]).code) for call in header["gradient_calls"]]
    assert lines == [("zero_grad", "optimizer.zero_grad()"), ("backward", "model(TOKENS).sum().backward()")]
    (step,) = header["optimizers"]
    assert frame_of(from_source(step["stack"])[0]).code == "optimizer.step()"


def test_without_extra_info_no_lines_of_steps(bench: Bench) -> None:
    model = Tied()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    debugger = bench.open("mix", extra_info=False)
    debugger.start(model=model)
    optimizer.zero_grad()
    optimizer.step()
    debugger.stop()
    header = bench.read().dump
    assert "gradient_calls" not in header and "stack" not in header["optimizers"][0]


def test_an_optimizer_that_is_replaced_gets_another_number(bench: Bench) -> None:
    model = Tied()
    debugger = bench.open("mix")
    debugger.start(model=model)
    for _ in range(2):
        torch.optim.SGD(model.parameters(), lr=0.1).step()
    debugger.stop()
    assert [item["optimizer"] for item in bench.read().dump["optimizers"]] == [0, 1]


def test_names_do_not_depend_on_what_surrounds_the_model(bench: Bench) -> None:
    model = Tied()
    models = [nn.DataParallel(model), torch.compile(model, backend="eager")]
    debugger = bench.open("mix")
    debugger.start(model=models)
    torch.optim.SGD([model.layer.bias], lr=0.1).step()
    debugger.stop()
    header = bench.read().dump
    assert header["optimizers"][0]["groups"][0]["parameters"] == ["0.layer.bias"]
    assert ["0.layer.weight", "1.layer.weight"] in header["shared_storage"]


def test_parameters_that_share_memory(bench: Bench) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2))
    model[1].weight.data = model[0].weight.data
    debugger = bench.open("L0")
    debugger.start(model=[model, Tied()])
    debugger.step()
    debugger.stop()
    shared = bench.read().dump["shared_storage"]
    assert shared == [["0.0.weight", "0.1.weight"], ["1.embedding.weight", "1.head.weight"]]


def test_how_a_step_ended(bench: Bench) -> None:
    debugger = bench.open("L1")
    debugger.start()
    torch.relu(torch.ones(2))
    assert end_of(bench) is None
    debugger.stop()
    assert end_of(bench) == {"by": "stop"}
    debugger.start()
    torch.relu(torch.ones(2))
    debugger.step()
    assert end_of(bench) == {"by": "step"}
    torch.relu(torch.ones(2))
    bench.close()
    assert end_of(bench, 1) == {"by": "exit"}


def test_gradients_after_a_stop_are_followed_by_a_mark_of_their_own(bench: Bench) -> None:
    debugger = bench.open("L1")
    debugger.start()
    loss = torch.relu(torch.ones(2, requires_grad=True)).sum()
    debugger.stop()
    loss.backward()
    debugger.step()
    assert end_of(bench) == {"by": "step"}


def test_an_exception_ends_a_collected_block(bench: Bench) -> None:
    debugger = bench.open("L1")
    with pytest.raises(ValueError, match="bad"), debugger.collect():
        torch.relu(torch.ones(2))
        raise ValueError("bad batch")
    assert end_of(bench) == {"by": "exception", "error": "ValueError: bad batch"}


PROGRAM = """
import os, signal, sys, time, torch
from msprobe.pytorch import PrecisionDebugger
debugger = PrecisionDebugger({"task": "statistics", "level": "L1", "dump_path": sys.argv[1]})
debugger.start()
torch.relu(torch.ones(2))
if sys.argv[2] == "raise":
    raise RuntimeError("broken")
time.sleep(0.3)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("way", ["raise", "kill"])
def test_a_program_that_fails_is_marked_and_one_that_is_killed_is_not(tmp_path: Path, way: str) -> None:
    result = subprocess.run([forked.python(), "-c", PROGRAM, str(tmp_path), way], capture_output=True, check=False)
    assert result.returncode == (1 if way == "raise" else -signal.SIGKILL)
    (folder,) = (tmp_path / "step0").iterdir()
    document = json.loads((folder / "dump.json").read_text())
    expected = {"by": "exception", "error": "RuntimeError: broken"} if way == "raise" else None
    assert document.get("end") == expected
    assert os.path.exists(folder / "dump.journal") == (way == "kill")


def test_further_keys_are_no_differences(bench: Bench, tmp_path: Path) -> None:
    model = Tied()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    debugger = bench.open("mix")
    debugger.start(model=model)
    model(TOKENS).sum().backward()
    optimizer.step()
    debugger.step()
    debugger.stop()
    found = bench.read()
    document = {**found.dump, "data": {name: dict(body) for name, body in found.data.items()}}
    for key in ("written_by", "end", "shared_storage", "optimizers"):
        document.pop(key)
    for body in document["data"].values():
        body.pop("training", None)
        body.pop("autograd", None)
    (tmp_path / "older").mkdir()
    (tmp_path / "older" / "dump.json").write_text(json.dumps(document))
    summary = compare(tmp_path / "older", found.folder).summary
    assert (summary.verdict, summary.reason) == ("same", compare(found.folder, found.folder).summary.reason)


STEP_RECORDS = ["parameters", "gradients"]


def norms(items: list[dict[str, Any]]) -> dict[str, float]:
    return {item["name"]: item["value"]["Norm"] for item in items}


@pytest.mark.parametrize("by_hand", [False, True])
def test_parameters_after_the_step_and_gradients_before_it(bench: Bench, by_hand: bool) -> None:
    model = Tied()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    debugger = bench.open("mix", step_records=STEP_RECORDS)
    debugger.start(model=model)
    model(TOKENS).sum().backward()
    model(TOKENS).sum().backward()  # a second micro step
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    gradients = {name: value.grad.norm().item() for name, value in model.named_parameters() if value.grad is not None}
    if by_hand:
        for parameter in model.parameters():
            parameter.data -= 0.1 * parameter.grad if parameter.grad is not None else 0.0
    else:
        optimizer.step()
        optimizer.zero_grad()
    debugger.stop()
    debugger.step()
    header = bench.read().dump
    expected = {name: value.detach().norm().item() for name, value in model.named_parameters()}
    assert list(expected) == ["embedding.weight", "layer.weight", "layer.bias"]
    assert norms(header["parameters_after_step"]) == pytest.approx(expected)
    (found,) = header["gradients_of_step"]
    assert found["optimizer"] == (None if by_hand else 0)
    assert norms(found["gradients"]) == pytest.approx(gradients)


def test_each_optimizer_has_the_gradients_of_its_own_parameters(bench: Bench) -> None:
    model = Tied()
    debugger = bench.open("L0", step_records=["gradients"])
    debugger.start(model=model)
    model(TOKENS).sum().backward()
    for part in (model.layer, model.head):
        torch.optim.SGD(part.parameters(), lr=0.1).step()
    debugger.step()
    debugger.stop()
    header = bench.read().dump
    assert "parameters_after_step" not in header
    names = [(found["optimizer"], list(norms(found["gradients"]))) for found in header["gradients_of_step"]]
    assert names == [(0, ["layer.weight", "layer.bias"]), (1, ["embedding.weight"])]


def test_a_step_that_did_not_end_has_no_parameters_after_it(bench: Bench) -> None:
    debugger = bench.open("L0", step_records=STEP_RECORDS)
    debugger.start(model=Tied())
    bench.close()
    header = bench.read().dump
    assert header["end"] == {"by": "exit"}
    assert "parameters_after_step" not in header


def test_step_records_and_training_records_measure_together(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[tuple[int, ...]] = []
    describe = TorchTensorOps.describe

    def counted(self: TorchTensorOps, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> dict[str, Any]:
        measured.append(tuple(tensor.shape))
        return describe(self, tensor, *args, **kwargs)

    monkeypatch.setattr(TorchTensorOps, "describe", counted)
    counts = []
    for records in ([], ["parameters", "gradients"]):
        measured.clear()
        torch.manual_seed(0)
        model = torch.nn.Linear(11, 7)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        debugger = bench.open("mix", step_records=records)
        debugger.start(model)
        model(torch.ones(2, 11)).sum().backward()
        optimizer.step()
        debugger.stop()
        debugger.step()
        bench.close()
        counts.append(measured.count((7, 11)))
    assert counts[0] == counts[1] > 0
