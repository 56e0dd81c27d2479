"""Steps are kept in memory and written when there is a reason to; memory is bounded whatever happens."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msprobe.core.config import load_config
from msprobe.core.dump.session.session import DumpSession
from msprobe.core.store.reader import find_dumps, load_dump
from tests.fake_framework import functional
from tests.fake_framework.backend import make_backend
from tests.fake_framework.tensor import Tensor

RING = {"steps": 2, "cool_down": 5}


def session_of(path: Path, ring: dict[str, Any], **config: Any) -> DumpSession:
    section = {"ring": ring, **config.pop("statistics", {})}
    settings = {"dump_path": str(path), "risk_level": "ALL", "statistics": section, **config}
    return DumpSession(load_config(settings), make_backend)


def step(session: DumpSession, value: float = 1.0, calls: int = 1, ends: bool = True) -> None:
    session.start()
    for _ in range(calls):
        functional.relu(Tensor(np.full(3, value, np.float32)))
    if ends:
        session.stop()
        session.step()


def headers(path: Path) -> dict[int, dict[str, Any]]:
    """The headers of all steps below a dump path."""
    found = {}
    for document in path.glob("step*/*/dump.json"):
        found[int(document.parts[-3].removeprefix("step"))] = json.loads(document.read_bytes())
    return dict(sorted(found.items()))


def test_without_a_reason_nothing_is_on_the_disk(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    session = session_of(tmp_path / "dump", RING)
    for _ in range(5):
        step(session)
    session.close()
    assert not (tmp_path / "dump").exists()


def test_a_nan_writes_the_steps_before_and_the_present_one(tmp_path: Path) -> None:
    session = session_of(tmp_path, RING)
    for number in range(8):
        step(session, float("nan") if number >= 4 else 1.0)
    found = headers(tmp_path)
    assert list(found) == [2, 3, 4]  # and within the cool-down no more
    assert {header["kept_for"]["kind"] for header in found.values()} == {"nan"}
    assert found[2]["kept_for"]["step"] == 4
    assert "Functional.relu.0.forward" in found[2]["kept_for"]["reason"]
    assert not list(tmp_path.rglob("*.journal"))
    assert [len(load_dump(place).data) for place in find_dumps(tmp_path)] == [1, 1, 1]
    session.close()


def test_a_reason_that_lasts_writes_again_after_the_cool_down(tmp_path: Path) -> None:
    session = session_of(tmp_path, {"steps": 1, "cool_down": 3})
    for _ in range(5):
        step(session, float("nan"))
    session.close()
    assert list(headers(tmp_path)) == [0, 2, 3]


def test_what_is_kept_is_what_would_have_been_written(tmp_path: Path) -> None:
    kept, written = session_of(tmp_path / "kept", RING), session_of(tmp_path / "written", RING)
    written._ring = None
    for session in (kept, written):
        step(session, 2.0, calls=100)
        session.trigger("trigger", "look")
        session.close()
    one, other = headers(tmp_path / "kept")[0], headers(tmp_path / "written")[0]
    assert one["data"] == other["data"] and len(one["data"]) == 100
    for name in ("stack.json", "construct.json"):
        first, second = (next((tmp_path / side).rglob(name)).read_bytes() for side in ("kept", "written"))
        assert first == second


def test_a_trigger_in_a_step_puts_it_on_the_disk_at_once(tmp_path: Path) -> None:
    session = session_of(tmp_path, RING)
    step(session)
    step(session, ends=False)
    session.trigger("trigger", "look")
    assert list(headers(tmp_path)) == [0, 1]
    assert [len(load_dump(place).data) for place in find_dumps(tmp_path)] == [1, 1]  # as after a kill
    functional.relu(Tensor(np.ones(3, np.float32)))
    session.stop()
    session.step()
    assert len(headers(tmp_path)[1]["data"]) == 2
    session.trigger("trigger", "look")  # the same reason within the cool-down
    session.trigger("trigger", "another one")
    step(session)
    assert list(headers(tmp_path)) == [0, 1]
    session.close()


def test_reasons_that_are_not_asked_for_write_nothing(tmp_path: Path) -> None:
    session = session_of(tmp_path / "dump", {"steps": 2, "on": ["exception"]})
    step(session, float("nan"))
    session.trigger("trigger", "look")
    session.trigger("alert", "look")
    session.close()
    assert not (tmp_path / "dump").exists()


def test_an_exception_that_ends_a_step_writes(tmp_path: Path) -> None:
    session = session_of(tmp_path, RING)
    step(session)
    step(session, ends=False)
    session.fail(ValueError("odd"))
    session.stop()
    session.step()
    assert {number: one["kept_for"]["reason"] for number, one in headers(tmp_path).items()} == {
        0: "ValueError: odd",
        1: "ValueError: odd",
    }
    assert headers(tmp_path)[1]["end"]["by"] == "exception"
    session.close()


def test_memory_is_bounded_and_the_oldest_step_goes_first(tmp_path: Path) -> None:
    session = session_of(tmp_path, {"steps": 1000, "megabytes": 1})
    for _ in range(60):
        step(session, calls=100)
        assert session._ring is not None
        assert sum(sink.size for _, sink in session._ring._kept) <= 1_000_000
    session.trigger("trigger", "look")
    found = list(headers(tmp_path))
    assert 2 <= len(found) < 60 and found[-1] == 59 and found == list(range(found[0], 60))
    session.close()


def test_a_step_that_is_too_large_is_given_up_and_the_next_one_is_kept(tmp_path: Path) -> None:
    session = session_of(tmp_path, {"steps": 5, "megabytes": 1})
    step(session)
    step(session, calls=3000)
    step(session)
    session.trigger("trigger", "look")
    assert 1 not in headers(tmp_path) and 2 in headers(tmp_path)
    session.close()


def test_any_thread_may_ask(tmp_path: Path) -> None:
    session = session_of(tmp_path, {"steps": 3})
    step(session)
    faults: list[BaseException] = []

    def ask(number: int) -> None:
        try:
            session.trigger("trigger", f"thread {number}")
        except BaseException as error:  # noqa: BLE001
            faults.append(error)

    threads = [threading.Thread(target=ask, args=[number]) for number in range(8)]
    for thread in threads:
        thread.start()
    for number in range(20):
        step(session, calls=70 + number)
    for thread in threads:
        thread.join()
    session.close()
    assert faults == []
    assert 0 in headers(tmp_path)
    assert not list(tmp_path.rglob("*.journal"))


def test_a_disk_that_is_full_ends_no_training(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    session = session_of(blocked, RING)
    step(session)
    session.trigger("trigger", "look")
    step(session)
    session.close()


def test_a_step_that_is_taken_back_is_not_kept(tmp_path: Path) -> None:
    session = session_of(tmp_path, RING)
    session.start()
    functional.relu(Tensor(np.full(3, np.nan, np.float32)))
    session.stop()
    session.step()
    assert list(headers(tmp_path)) == [0]
    session.start()
    functional.relu(Tensor(np.ones(3, np.float32)))
    session.step(dump=False)
    session.stop()
    session.trigger("trigger", "look")
    assert list(headers(tmp_path)) == [0]
    session.close()


def test_a_trigger_with_the_name_of_another_reason_silences_nothing(tmp_path: Path) -> None:
    session = session_of(tmp_path, {"steps": 1, "cool_down": 50})
    step(session)
    session.trigger("trigger", "nan")
    step(session, float("nan"))
    session.close()
    assert [header["kept_for"]["kind"] for header in headers(tmp_path).values()] == ["trigger", "nan"]


def test_an_infinity_is_seen_in_statistics_that_are_not_written(tmp_path: Path) -> None:
    session = session_of(tmp_path, RING, statistics={"summary_mode": ["min"]})
    session.start()
    with np.errstate(over="ignore"):
        functional.linear(Tensor(np.array([[0], [3e38]], np.float32)), Tensor(np.array([[10]], np.float32)))
    session.stop()
    session.step()
    session.close()
    assert [header["kept_for"]["kind"] for header in headers(tmp_path).values()] == ["nan"]
