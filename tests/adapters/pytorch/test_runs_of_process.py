"""Several runs in one process, as notebooks and programs that train more than once have them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import msprobe
from msprobe.core.errors import MsprobeException
from msprobe.pytorch import PrecisionDebugger
from tests.fresh_debugger import forget

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    forget()
    monkeypatch.delattr(sys, "last_value", raising=False)
    yield
    forget()


def train(folder: Path, model: nn.Module | None = None, steps: int = 2, **fields: Any) -> Any:
    model = nn.Linear(2, 2) if model is None else model
    debugger = PrecisionDebugger({"level": "mix", "dump_path": str(folder), **fields})
    for _ in range(steps):
        debugger.start(model)
        model(torch.ones(1, 2)).sum().backward()
        debugger.stop()
        debugger.step()
    return debugger


def steps_of(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("step*"))


def documents(folder: Path) -> list[dict[str, Any]]:
    paths = sorted(folder.glob("step*/*/dump.json"))
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths]


def test_another_folder_begins_another_run(tmp_path: Path) -> None:
    train(tmp_path / "good")
    train(tmp_path / "bad", steps=3)
    assert steps_of(tmp_path / "good") == ["step0", "step1"]
    assert steps_of(tmp_path / "bad") == ["step0", "step1", "step2"]
    began = [documents(tmp_path / name)[0]["run"]["program_began"] for name in ("good", "bad")]
    assert began[0] < began[1]


@pytest.mark.parametrize("field", [{"level": "L1"}, {"task": "tensor"}], ids=str)
def test_another_task_or_level_begins_another_run(tmp_path: Path, field: dict[str, str]) -> None:
    first = train(tmp_path)
    second = train(tmp_path, steps=1, **field)
    assert second is not first
    document = documents(tmp_path)[0]
    assert document.items() >= field.items()


def test_another_run_has_the_fields_that_it_is_given(tmp_path: Path) -> None:
    """The file and the folder stay; arguments of the run before are not those of the next one."""
    PrecisionDebugger({"level": "mix", "dump_path": str(tmp_path / "file"), "step": [1]}, task="tensor")
    config = PrecisionDebugger(dump_path=str(tmp_path / "b")).config
    assert (config.task, config.level, config.step) == ("statistics", "mix", [1])
    PrecisionDebugger(dump_path=str(tmp_path / "c"), level="L1", task="nan_check")
    config = PrecisionDebugger(dump_path=str(tmp_path / "d")).config
    assert (config.task, config.level) == ("statistics", "mix")
    config = PrecisionDebugger(task="tensor").config
    assert (config.task, config.dump_path) == ("tensor", str(tmp_path / "d"))


def test_a_debugger_whose_run_has_ended_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first = train(tmp_path / "a")
    train(tmp_path / "b", steps=1)
    first.start(nn.Linear(2, 2))
    first.start(nn.Linear(2, 2))
    assert caplog.text.count(f"start() was called on the debugger of {tmp_path / 'a'}, whose run ended") == 1
    assert f"goes into {tmp_path / 'b'}" in caplog.text


def test_a_new_model_in_the_same_folder_begins_another_run_of_it(tmp_path: Path) -> None:
    first = train(tmp_path)
    began = documents(tmp_path)[0]["run"]["program_began"]
    assert train(tmp_path) is first
    assert steps_of(tmp_path) == ["step0", "step1"]
    assert documents(tmp_path)[0]["run"]["program_began"] > began


def test_the_same_model_continues(tmp_path: Path) -> None:
    model = nn.Linear(2, 2)
    train(tmp_path, model)
    train(tmp_path, model)
    assert steps_of(tmp_path) == ["step0", "step1", "step2", "step3"]


def test_the_debugger_is_asked_for_in_each_step(tmp_path: Path) -> None:
    """A function of another file may construct it with the same arguments, or none."""
    model, config = nn.Linear(2, 2), {"level": "mix", "dump_path": str(tmp_path)}
    for _ in range(2):
        PrecisionDebugger(config).start(model)
        model(torch.ones(1, 2))
        PrecisionDebugger().stop()
        PrecisionDebugger(config).step()
    assert steps_of(tmp_path) == ["step0", "step1"]


@pytest.mark.parametrize("shown", [True, False], ids=["error shown", "debugger made again"])
def test_an_interrupted_step_is_closed_and_the_next_one_is_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, shown: bool
) -> None:
    model = nn.Linear(2, 2)
    debugger = train(tmp_path, model, steps=1)
    debugger.start(model)
    model(torch.ones(1, 2))
    if shown:
        monkeypatch.setattr(sys, "last_value", KeyboardInterrupt(), raising=False)
        debugger.start(model)
        model(torch.ones(1, 2)).sum().backward()
        debugger.stop()
        debugger.step()
    else:
        train(tmp_path, model, steps=1)
    assert steps_of(tmp_path) == ["step0", "step1", "step2"]
    ends = [document["end"]["by"] for document in documents(tmp_path)]
    assert ends[1] == "exception"
    assert documents(tmp_path)[2]["data"].keys() == documents(tmp_path)[0]["data"].keys()
    assert caplog.text.count("step 1 is closed: interrupted") == 1


def test_a_debugger_is_closed_by_with_and_by_hand(tmp_path: Path) -> None:
    model = nn.Linear(2, 2)
    with PrecisionDebugger({"level": "mix", "dump_path": str(tmp_path / "a")}) as debugger:
        debugger.start(model)
        model(torch.ones(1, 2))
    assert documents(tmp_path / "a")[0]["data"]
    with pytest.raises(MsprobeException, match="call PrecisionDebugger"):
        debugger.start(model)
    with pytest.raises(KeyError), PrecisionDebugger({"level": "mix", "dump_path": str(tmp_path / "b")}) as debugger:
        debugger.start(model)
        raise KeyError("wrong")
    assert documents(tmp_path / "b")[0]["end"]["by"] == "exception"


def test_common_fields_are_keywords(tmp_path: Path) -> None:
    debugger = PrecisionDebugger({"dump_path": str(tmp_path)}, rank=[0], async_dump=True)
    assert (debugger.config.rank, debugger.config.async_dump) == ([0], True)
    forget()
    with pytest.raises(MsprobeException, match=r"rnak is no common field of the configuration; did you mean rank\?"):
        PrecisionDebugger(rnak=[0])


def test_notebooks_show_cards(tmp_path: Path) -> None:
    debugger = train(tmp_path / "<b>")
    assert "&lt;b&gt;" in debugger._repr_html_() and "<b>" not in debugger._repr_html_().partition("</b>")[2]
    result = msprobe.compare(tmp_path / "<b>", tmp_path / "<b>")
    assert "msprobe compare: SAME" in result._repr_html_()


def test_a_result_is_viewed_as_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    train(tmp_path / "a")
    result = msprobe.compare(tmp_path / "a", tmp_path / "a")
    page = result.view(tmp_path / "page.html")
    assert "SAME" in page.read_text(encoding="utf-8")
    assert opened == [page.as_uri()]
    assert result.view().stat().st_size > 0
