"""A budget ends collection once, with complete files; processes on one machine share it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from msprobe.core.config import load_config
from msprobe.core.dump.bounds.disk_budget import DiskBudget, StepAccount
from msprobe.core.dump.session.session import DumpSession
from tests.fake_framework import functional
from tests.fake_framework.backend import make_backend
from tests.fake_framework.tensor import Tensor


def test_it_is_told_once_and_stays_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    told: list[int] = []
    budget = DiskBudget(lambda: told.append(1))
    budget.allow(400)
    assert budget.limit == 100
    account = StepAccount(budget)
    account.set_documents(60)
    assert not budget.reached
    account.set_documents(120)
    account.set_documents(70)  # the journal is gone
    assert budget.reached and budget.used == 70 and told == [1]
    account.refund()
    assert budget.used == 0 and budget.reached


@pytest.mark.parametrize("text", ["", "x", "-3", "0", "99999999"])
def test_a_number_of_processes_that_is_none_counts_as_one(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", text)
    budget = DiskBudget(lambda: None)
    budget.allow(400)
    assert budget.limit == 400


@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_collection_ends_and_the_files_are_complete(tmp_path: Path, task: str) -> None:
    settings = {"dump_path": str(tmp_path), "risk_level": "ALL", "task": task, "disk_budget": 60_000}
    session = DumpSession(load_config(settings), make_backend)
    for number in range(50):
        session.start()
        for _ in range(20):
            functional.relu(Tensor(np.full(30, number, np.float32)))
        session.stop()
        session.step()
    session.close()
    documents = sorted(tmp_path.rglob("dump.json"))
    assert 1 <= len(documents) < 50
    for document in documents:
        assert len(json.loads(document.read_bytes())["data"]) > 0
    assert not list(tmp_path.rglob("*.journal"))
    assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) < 90_000


def test_a_step_that_is_cut_short_says_so(tmp_path: Path) -> None:
    settings = {"dump_path": str(tmp_path), "risk_level": "ALL", "disk_budget": 20_000}
    session = DumpSession(load_config(settings), make_backend)
    session.start()
    for _ in range(40):
        functional.relu(Tensor(np.ones(3, np.float32)))
    assert session._step is not None
    session._step._sink.flush()  # as the flusher does
    for _ in range(100):
        functional.relu(Tensor(np.ones(3, np.float32)))
    session.stop()
    session.step()
    session.close()
    (document,) = tmp_path.rglob("dump.json")
    written = json.loads(document.read_bytes())
    assert written["end"] == {"by": "disk_budget"}
    assert 0 < len(written["data"]) <= 40  # the flusher may have come before
