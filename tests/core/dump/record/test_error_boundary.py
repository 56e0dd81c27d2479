"""Whatever goes wrong inside the tool stays inside: the run goes on, the trace is in a file, the rest is recorded."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msprobe.core.config import load_config
from msprobe.core.dump.record.error_boundary import ErrorLog, never_raises
from msprobe.core.dump.session.session import DumpSession
from tests.fake_framework import nn
from tests.fake_framework.backend import make_backend
from tests.fake_framework.tensor import Tensor
from tests.fake_framework.tensor_ops import FakeTensorOps


class FragileOps(FakeTensorOps):
    """Cannot describe tensors that hold a 13."""

    def describe(self, tensor: Tensor, statistics: bool, projection: bool = False) -> dict[str, Any]:
        if 13 in tensor.data:
            raise RuntimeError("unlucky")
        return super().describe(tensor, statistics, projection)


def fragile(config: Any, current: Any, thread: Any) -> Any:
    import dataclasses

    return dataclasses.replace(make_backend(config, current, thread), ops=FragileOps())


def tensor(value: float, grad: bool = False) -> Tensor:
    return Tensor(np.full(3, value, np.float32), grad)


@pytest.mark.parametrize("level", ["L1", "mix"])
def test_the_run_goes_on_and_the_trace_is_kept(level: str, tmp_path: Path) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            self.act = nn.ReLU()

    model = Model()
    session = DumpSession(load_config({"dump_path": str(tmp_path), "risk_level": "ALL", "level": level}), fragile)
    session.start(model)
    unlucky = model.act(tensor(13))
    product = tensor(13, True).mul(tensor(2))
    product.backward()
    model.act(tensor(4))
    session.stop()
    session.step()
    session.close()
    assert unlucky.data.tolist() == [13, 13, 13]
    assert product.data.tolist() == [26, 26, 26]
    (log,) = tmp_path.rglob("dump_error_info.log")
    text = log.read_text("utf-8")
    assert "RuntimeError: unlucky" in text
    assert "a value of type Tensor in Functional.relu.0.forward" in text
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    data = json.loads(log.with_name("dump.json").read_bytes())["data"]
    assert data["Functional.relu.0.forward"]["output"] == [None]
    assert data["Functional.relu.1.forward"]["output"][0]["Max"] == 4
    if level == "mix":
        assert data["Module.act.ReLU.forward.1"]["output"][0]["Max"] == 4


class Guarded:
    """Something with a method that never raises."""

    def __init__(self, log: Path | None) -> None:
        self.errors = ErrorLog(log)

    @never_raises
    def work(self, error: BaseException | None) -> int:
        if error is not None:
            raise error
        return 3


def test_without_an_error_the_answer_passes(tmp_path: Path) -> None:
    guarded = Guarded(tmp_path / "log")
    assert guarded.work(None) == 3
    assert guarded.errors.count == 0
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize("error", [ValueError("x"), RecursionError(), MemoryError(), OSError(28, "full")], ids=repr)
def test_errors_become_none(error: Exception, tmp_path: Path) -> None:
    guarded = Guarded(tmp_path / "log")
    assert guarded.work(error) is None
    assert guarded.errors.count == 1
    assert type(error).__name__ in (tmp_path / "log").read_text("utf-8")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1)], ids=repr)
def test_the_user_can_still_stop_the_program(error: BaseException) -> None:
    with pytest.raises(type(error)):
        Guarded(None).work(error)


def test_the_log_does_not_grow_without_end(tmp_path: Path) -> None:
    guarded = Guarded(tmp_path / "log")
    for _ in range(ErrorLog.LIMIT + 50):
        guarded.work(ValueError("again"))
    assert guarded.errors.count == ErrorLog.LIMIT + 50
    assert (tmp_path / "log").read_text("utf-8").count("ValueError: again\n") == ErrorLog.LIMIT


@pytest.mark.parametrize("path", [Path("/dev/full"), Path("/dev/null/log")], ids=str)
def test_a_log_that_cannot_be_written_is_no_error(path: Path) -> None:
    assert Guarded(path).work(ValueError("x")) is None
