"""``save``, ``save_grad`` and ``step`` without a debugger."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import mindspore
import numpy as np
import pytest
from mindspore import Tensor

from msprobe.core.errors import MsprobeException


def test_values_and_gradients_are_files_by_step(tmp_path: Path) -> None:
    from msprobe.mindspore import save, save_grad, step

    def loss(x: Any) -> Any:
        y = save_grad(str(tmp_path), "y", x * 2)
        save(str(tmp_path), "pair", [x, y])
        return (y * 3).sum()

    step()  # another test may have saved before
    gradient = mindspore.grad(loss)(Tensor(np.ones(3, np.float32)))
    assert gradient.asnumpy().tolist() == [6, 6, 6]
    step()
    save(str(tmp_path), "x", gradient)
    files = {path.name: np.load(path).tolist() for path in tmp_path.rglob("*.npy")}
    assert files == {
        "pair.0.0.npy": [1, 1, 1],
        "pair.0.1.npy": [2, 2, 2],
        "y_grad.0.npy": [3, 3, 3],
        "x.0.npy": [6, 6, 6],
    }
    assert {path.parent.name for path in tmp_path.rglob("*.npy")} == {f"proc{os.getpid()}"}
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("name", ["", "../x", ".x", 3], ids=repr)
def test_a_name_is_a_plain_file_name(name: Any, tmp_path: Path) -> None:
    from msprobe.mindspore import save

    with pytest.raises(MsprobeException, match="plain file name"):
        save(str(tmp_path), name, Tensor(np.ones(1, np.float32)))
