"""load: recorded inputs in place of the live ones."""

from __future__ import annotations

import io
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.adapters.pytorch.networks import Keywords, Mlp

pytestmark = pytest.mark.torch

GOLDEN_INPUT = torch.arange(4.0).reshape(1, 4)
LIVE_INPUT = torch.full((1, 4), 100.0)


def golden(bench: Any, model: nn.Module) -> Path:
    path: Path = bench.root.with_name("golden")
    bench.root, live = path, bench.root
    debugger = bench.open("L0", "tensor")
    debugger.start(model)
    model(GOLDEN_INPUT)
    debugger.stop()
    bench.close()
    bench.root = live
    return path


def loading(bench: Any, path: Path, *modules: str, **load: Any) -> Any:
    section = {"path": str(path), "modules": list(modules), **load}
    return bench.open("L0", "tensor", load=section)


def test_the_recorded_input_is_computed_with_and_nothing_is_dumped(bench: Any) -> None:
    model = Mlp()
    path = golden(bench, model)
    debugger = loading(bench, path, "Module.fc1.Linear.forward.0")
    debugger.start(model)
    fed, live = model(LIVE_INPUT), model(LIVE_INPUT)
    debugger.stop()
    debugger.step()
    assert torch.equal(fed, model(GOLDEN_INPUT))
    assert torch.equal(live, model(LIVE_INPUT))  # only the first call was named
    assert not bench.root.exists()


def test_keyword_inputs_are_replaced(bench: Any) -> None:
    model = Keywords()
    debugger = loading(bench, golden(bench, model), "Module.layer.Linear.forward.0")
    debugger.start(model)
    fed = model(LIVE_INPUT)
    debugger.stop()
    assert torch.equal(fed, model(GOLDEN_INPUT))


def test_what_is_dumped_after_loading_is_the_new_input(bench: Any) -> None:
    model = Mlp()
    path = golden(bench, model)
    debugger = loading(bench, path, "Module.fc1.Linear.forward.0", dump_after_load=True)
    debugger.start(model)
    model(LIVE_INPUT)
    debugger.stop()
    assert torch.equal(bench.read().tensor("Module.fc1.Linear.forward.0.input.0.pt"), GOLDEN_INPUT)
    assert bench.read().names("fc1") == ["Module.fc1.Linear.forward.0"]


def test_gradients_end_at_the_new_input(bench: Any) -> None:
    model = Mlp()
    debugger = loading(bench, golden(bench, model), "Module.fc2.Linear.forward.0")
    debugger.start(model)
    model(LIVE_INPUT).sum().backward()
    debugger.stop()
    assert model.fc2.weight.grad is not None
    assert model.fc1.weight.grad is None


@pytest.mark.parametrize(("load", "fed"), [({"step": [0]}, True), ({"step": [1]}, False), ({"rank": [3]}, False)])
def test_steps_and_ranks_choose_where(bench: Any, load: dict[str, Any], fed: bool) -> None:
    model = Mlp()
    debugger = loading(bench, golden(bench, model), "Module.fc1.Linear.forward.0", **load)
    debugger.start(model)
    result = model(LIVE_INPUT)
    debugger.stop()
    assert torch.equal(result, model(GOLDEN_INPUT if fed else LIVE_INPUT))


def test_what_was_not_recorded_or_has_another_form_is_told(bench: Any, capsys: pytest.CaptureFixture[str]) -> None:
    model = Mlp()
    path = golden(bench, model)
    debugger = loading(bench, path, "Module.fc1.Linear.forward.0", "Module.fc1.Linear.forward.1")
    debugger.start(model)
    model(torch.full((3, 4), 100.0))
    result = model(LIVE_INPUT)
    debugger.stop()
    said = capsys.readouterr().out
    assert "[1, 4], the live one is torch.float32 [3, 4]" in said
    assert "Module.fc1.Linear.forward.1.input.0 was not recorded" in said
    assert torch.equal(result, model(LIVE_INPUT))


def damaged(good: bytes, pickled: bytes) -> bytes:
    """The archive ``good`` with another pickle in it."""
    damaged = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(good)) as archive, zipfile.ZipFile(damaged, "w") as written:
        for name in archive.namelist():
            written.writestr(name, pickled if name.endswith("data.pkl") else archive.read(name))
    return damaged.getvalue()


HEAD = b"\x80\x02"
DAMAGED = {
    "empty": lambda good: b"",
    "cut": lambda good: good[: len(good) // 2],
    "an empty pickle": lambda good: damaged(good, HEAD + b"."),
    "a memo that is not there": lambda good: damaged(good, HEAD + b"h\x07."),
    "a lone number as storage": lambda good: damaged(good, HEAD + b"K\x01Q."),
    "a command": lambda good: damaged(good, pickle.dumps(Command(), 2)),
    "no tensor": lambda good: damaged(good, pickle.dumps({"a": 1}, 2)),
}


class Command:
    def __reduce__(self) -> Any:
        return os.abort, ()


@pytest.mark.parametrize("spoil", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_file_leaves_the_live_input(bench: Any, spoil: Any, capsys: pytest.CaptureFixture[str]) -> None:
    model = Mlp()
    path = golden(bench, model)
    (file,) = path.rglob("Module.fc1.Linear.forward.0.input.0.pt")
    file.write_bytes(spoil(file.read_bytes()))
    debugger = loading(bench, path, "Module.fc1.Linear.forward.0")
    debugger.start(model)
    result = model(LIVE_INPUT)
    debugger.stop()
    assert torch.equal(result, model(LIVE_INPUT))
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "[WARNING]" in line]
    assert f"load: {file} cannot be read (" in line
    assert "Re-running" not in line


def test_an_argument_that_refuses_leaves_the_live_ones(bench: Any, capsys: pytest.CaptureFixture[str]) -> None:
    class Key:
        def __str__(self) -> str:
            raise ValueError("no text")

    class Taking(nn.Module):
        def forward(self, x: torch.Tensor, extra: dict[Any, torch.Tensor]) -> torch.Tensor:
            return x + sum(extra.values())

    model = nn.Sequential()
    model.add_module("taking", Taking())
    model.forward = lambda x: model.taking(x, {Key(): x})  # type: ignore[method-assign]
    path = golden(bench, model)
    debugger = loading(bench, path, "Module.taking.Taking.forward.0")
    debugger.start(model)
    result = model(LIVE_INPUT)
    debugger.stop()
    assert torch.equal(result, GOLDEN_INPUT + LIVE_INPUT)
    assert "forward.0.input.1 cannot be fed (ValueError: no text): the live value is used" in capsys.readouterr().out


def test_the_patch_is_gone_after_stop(bench: Any) -> None:
    model, call = Mlp(), nn.Module.__call__
    debugger = loading(bench, golden(bench, model), "Module.fc1.Linear.forward.0")
    debugger.start(model)
    assert nn.Module.__call__ is not call
    debugger.stop()
    assert nn.Module.__call__ is call


def test_without_modules_every_call_is_fed_and_gradients_go_on(bench: Any) -> None:
    model = Mlp()
    path = golden(bench, model)
    debugger = bench.open("L0", "tensor", load={"path": str(path), "dump_after_load": True})
    debugger.start(model)
    model(LIVE_INPUT).sum().backward()
    debugger.stop()
    assert model.fc1.weight.grad is not None  # behind fc2, which was fed too
    records = bench.read().data
    assert bench.read().dump["inputs_fed"] == str(path)
    first, second = (records[f"Module.{name}.Linear.forward.0"]["input_args"][0] for name in ("fc1", "fc2"))
    assert first["Max"] == 3.0 and first["fed"] == pytest.approx(100.0 / 3.0)
    assert second["fed"] == 0.0  # what comes before it was fed, so the error does not carry on
