"""A reason on one rank writes the steps of all ranks with the same dump folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msprobe.core.config import load_config
from msprobe.core.dump.bounds.rank_triggers import FILE, RankTriggers
from msprobe.core.dump.bounds.value_watch import Reason
from msprobe.core.dump.session.session import DumpSession
from tests.fake_framework import functional
from tests.fake_framework.backend import make_backend
from tests.fake_framework.tensor import Tensor


class Ranks:
    """The sessions of two ranks, which make their steps in turn."""

    def __init__(self, path: Path, **ring: Any) -> None:
        section = {"ring": {"steps": 2, "cool_down": 5, **ring}}
        config = {"dump_path": str(path), "risk_level": "ALL", "statistics": section}
        self.path = path
        self.sessions = [DumpSession(load_config(config), make_backend) for _ in range(2)]

    def step(self, *values: float) -> None:
        for rank, (session, value) in enumerate(zip(self.sessions, values, strict=True)):
            session.start(rank_id=rank)
            functional.relu(Tensor(np.full(3, value, np.float32)))
            session.stop()
            session.step()

    def written(self, rank: int) -> dict[int, str]:
        """The reasons of the steps of a rank that are on the disk."""
        found = {}
        for document in self.path.glob(f"step*/rank{rank}/dump.json"):
            found[int(document.parts[-3].removeprefix("step"))] = json.loads(document.read_bytes())["kept_for"][
                "reason"
            ]
        return dict(sorted(found.items()))

    def close(self) -> None:
        for session in self.sessions:
            session.close()


@pytest.mark.parametrize("bad", [0, 1])
def test_both_ranks_write_the_same_steps(tmp_path: Path, bad: int) -> None:
    ranks = Ranks(tmp_path)
    for number in range(4):
        values = [1.0, 1.0]
        values[bad] = float("nan") if number == 3 else 1.0
        ranks.step(*values)
    ranks.step(1.0, 1.0)  # the rank whose turn came before the bad one learns of it here
    assert list(ranks.written(bad)) == [1, 2, 3]
    other = ranks.written(1 - bad)
    assert list(other) == ([1, 2, 3] if bad == 0 else [2, 3, 4])
    assert all(reason.startswith(f"rank {bad}, its step 3: Functional.relu") for reason in other.values())
    ranks.close()


def test_a_reason_of_all_ranks_is_written_once(tmp_path: Path) -> None:
    ranks = Ranks(tmp_path)
    ranks.step(1.0, 1.0)
    for session in ranks.sessions:
        session.trigger("trigger", "look")
    for _ in range(3):
        ranks.step(1.0, 1.0)
    assert list(ranks.written(0)) == list(ranks.written(1)) == [0]
    assert not any("rank" in reason for rank in (0, 1) for reason in ranks.written(rank).values())
    ranks.close()


def test_it_can_be_switched_off(tmp_path: Path) -> None:
    ranks = Ranks(tmp_path, all_ranks=False)
    for value in (1.0, float("nan"), 1.0):
        ranks.step(1.0, value)
    assert not ranks.written(0) and list(ranks.written(1)) == [0, 1]
    assert not (tmp_path / FILE).exists()
    ranks.close()


def test_what_an_earlier_run_left_is_no_news(tmp_path: Path) -> None:
    RankTriggers(tmp_path).announce(0, Reason("nan", "old"), 7)
    later = RankTriggers(tmp_path)
    assert later.news(1) is None
    RankTriggers(tmp_path).announce(0, Reason("nan", "new"), 8)
    assert later.news(1) == (Reason("nan", "new"), "rank 0, its step 8")
    assert later.news(1) is None


@pytest.mark.parametrize("content", ["{", "[]", '{"rank": 0}', '{"rank": 0, "kind": 3, "reason": "x"}', " " * 100_000])
def test_a_file_that_says_nothing_is_ignored(tmp_path: Path, content: str) -> None:
    triggers = RankTriggers(tmp_path)
    (tmp_path / FILE).write_text(content)
    assert triggers.news(1) is None


def test_a_folder_that_cannot_be_made_costs_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    RankTriggers(tmp_path / "file" / "dump").announce(0, Reason("nan", "x"), 1)
    assert "the other ranks are not told" in capsys.readouterr().out
