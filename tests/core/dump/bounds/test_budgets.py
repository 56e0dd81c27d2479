"""A budget of time ends collection once, within a step too, with complete files."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msprobe.compare.records.run_end import end_text, ended_early
from msprobe.core.config import load_config
from msprobe.core.dump.bounds.budgets import Budgets
from msprobe.core.dump.session.session import DumpSession
from msprobe.core.store.reader import find_dumps, load_dump
from tests.fake_framework import functional
from tests.fake_framework.backend import make_backend
from tests.fake_framework.tensor import Tensor


def session_of(path: Path, **config: Any) -> DumpSession:
    return DumpSession(load_config({"dump_path": str(path), "risk_level": "ALL", **config}), make_backend)


def call() -> None:
    functional.relu(Tensor(np.ones(3, np.float32)))


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_collection_ends_within_a_step_and_stays_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = session_of(tmp_path, time_budget=0.2)
    time.sleep(0.3)  # nothing is recorded yet, so nothing counts
    session.start()
    call()
    until(lambda: session._budget.reached)
    call()
    session.stop()
    session.step()
    session.start()
    call()
    session.stop()
    session.step()
    session.close()
    (place,) = find_dumps(tmp_path)
    dump = load_dump(place)
    assert list(dump.data) == ["Functional.relu.0.forward"]
    assert dump.header["end"]["by"] == "time_budget"
    assert ended_early(dump, dump) and "its time_budget was reached" in end_text(dump, "the target")
    assert not list(tmp_path.rglob("*.journal"))
    assert capsys.readouterr().out.count("time_budget: 0.2 seconds have passed") == 1


def test_a_run_that_is_shorter_is_complete(tmp_path: Path) -> None:
    session = session_of(tmp_path, time_budget="1h")
    for _ in range(3):
        session.start()
        call()
        session.stop()
        session.step()
    session.close()
    ends = [json.loads(path.read_bytes())["end"]["by"] for path in tmp_path.rglob("dump.json")]
    assert len(ends) == 3 and set(ends) <= {"step", "stop"}
    assert session._budget._timer is None


def test_the_first_of_two_budgets_counts(tmp_path: Path) -> None:
    told: list[str] = []
    budgets = Budgets(lambda: told.append(budgets.reached))
    budgets.allow(load_config({"dump_path": str(tmp_path), "time_budget": 0.05, "disk_budget": 10}))
    budgets.begin().spend(20)
    time.sleep(0.15)
    assert told == ["disk_budget"] and budgets.reached == "disk_budget"
    budgets.end()


def test_a_new_configuration_begins_anew(tmp_path: Path) -> None:
    told: list[str] = []
    budgets = Budgets(lambda: told.append(budgets.reached))
    budgets.allow(load_config({"dump_path": str(tmp_path), "time_budget": 0.02}))
    budgets.begin()
    until(lambda: told)
    budgets.allow(load_config({"dump_path": str(tmp_path)}))
    assert not budgets.reached
    budgets.begin()
    assert told == ["time_budget"]
