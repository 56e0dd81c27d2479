"""The gradients that are left where tensors know no nodes: the way of older versions, tried on this one."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path
from typing import Any

import mindspore
import numpy as np
import pytest
from mindspore import Tensor, ops

from msprobe.adapters.mindspore.backend import make_backend
from msprobe.adapters.mindspore.taps import tensor_hooks
from msprobe.adapters.mindspore.taps.output_gradient_tap import MindSporeOutputGradientTap
from msprobe.core.config import load_config
from msprobe.core.dump.session.session import DumpSession
from msprobe.core.store.reader import find_dumps, load_dump


def older(config: Any, current: Any, thread: Any) -> Any:
    return dataclasses.replace(make_backend(config, current, thread), gradients=MindSporeOutputGradientTap(thread))


def test_a_call_whose_output_needs_no_gradient_has_its_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """MindSpore 2.7 tells only by refusing a hook that a tensor needs no gradient."""
    monkeypatch.setattr(tensor_hooks, "can_have_gradient", lambda tensor: True)
    gradient = mindspore.grad(lambda x: (ops.zeros(2) + ops.exp(x) * ops.meshgrid(ops.ones(2), x)[1]).sum())
    session = DumpSession(load_config({"dump_path": str(tmp_path), "level": "L1"}), older)
    try:
        session.start()
        gradient(Tensor(np.zeros(2, np.float32)))
        session.stop()
        session.step()
    finally:
        session.close()
    data = load_dump(find_dumps(tmp_path)[0]).data
    assert {"Functional.zeros.0.forward", "Functional.exp.0.backward"} <= data.keys()
    assert "Functional.zeros.0.backward" not in data
    assert [node["shape"] for node in data["Functional.meshgrid.0.backward"]["input"] if node] == [[2, 2]]
    assert [record for record in caplog.records if record.levelno >= logging.ERROR or "hook" in record.message] == []


def test_gradients_of_outputs_are_recorded(tmp_path: Path) -> None:
    gradient = mindspore.grad(lambda x: (ops.exp(x) * 3).sum())
    x = Tensor(np.zeros(2, np.float32))
    plain = gradient(x).asnumpy()
    session = DumpSession(load_config({"dump_path": str(tmp_path), "level": "L1"}), older)
    try:
        session.start()
        assert gradient(x).asnumpy().tobytes() == plain.tobytes()
        session.stop()
        session.step()
    finally:
        session.close()
    record = load_dump(find_dumps(tmp_path)[0]).data["Functional.exp.0.backward"]
    assert record["input"][0]["Max"] == 3
    assert record["output"] == [None]
