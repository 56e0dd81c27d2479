"""The gradients that are left where tensors know no nodes: the way of older versions, tried on this one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mindspore
import numpy as np
from mindspore import Tensor, ops

from msprobe.adapters.mindspore.backend import make_backend
from msprobe.adapters.mindspore.taps.output_gradient_tap import MindSporeOutputGradientTap
from msprobe.core.config import load_config
from msprobe.core.dump.session.session import DumpSession
from msprobe.core.store.reader import find_dumps, load_dump


def test_gradients_of_outputs_are_recorded(tmp_path: Path) -> None:
    def older(config: Any, current: Any, thread: Any) -> Any:
        import dataclasses

        return dataclasses.replace(make_backend(config, current, thread), gradients=MindSporeOutputGradientTap(thread))

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
