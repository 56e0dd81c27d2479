"""A database that is not finished leaves nothing behind: those of graphs and those of trends."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from msprobe.core.errors import MsprobeException
from msprobe.core.store.sqlite_file import AtomicSqliteFile
from msprobe.trend.database import TrendDatabase
from msprobe.visualize.database.database import Database

Make = Callable[[Path], AtomicSqliteFile]


@pytest.fixture(params=["graph", "trend"])
def make(request: pytest.FixtureRequest) -> Make:
    makes: dict[str, Make] = {
        "graph": lambda folder: Database(folder, "build"),
        "trend": lambda folder: TrendDatabase(folder / "dump_data.trend.db"),
    }
    return makes[request.param]


def test_an_interrupt_while_a_database_is_begun_leaves_nothing(make: Make, tmp_path: Path) -> None:
    """Whichever of the first calls it comes in."""
    for calls in itertools.count(1):
        begun = Countdown(calls)
        sys.setprofile(begun)
        try:
            with make(tmp_path / "out"):
                sys.setprofile(None)
                break
        except KeyboardInterrupt:
            pass
        finally:
            sys.setprofile(None)
        assert not list((tmp_path / "out").glob(".*")), f"after {calls} calls, in {begun.last}"
    assert calls > 5


class Countdown:
    """A profile function that interrupts when the n-th built-in returns, which is where Python looks for signals."""

    def __init__(self, calls: int) -> None:
        self.left, self.last = calls, ""

    def __call__(self, frame: FrameType, event: str, what: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event != "c_return" or not ("database" in path.name or path.parent.name == "store"):
            return
        self.left -= 1
        if not self.left:
            self.last = str(what)
            raise KeyboardInterrupt


def test_an_error_inside_leaves_nothing(make: Make, tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), make(tmp_path / "out"):
        raise ZeroDivisionError
    assert list((tmp_path / "out").iterdir()) == []


def test_a_folder_that_cannot_be_made_is_one_error(make: Make, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    with pytest.raises(MsprobeException, match=r"cannot be written.*choose another folder"):
        make(tmp_path / "out")
