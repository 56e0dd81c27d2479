"""``seed_all``: the same numbers again, and dropout out of the way."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from mindspore import ops

from msprobe.core.errors import MsprobeException
from tests import forked

WITHOUT_DROPOUT = """
import mindspore as ms, numpy as np
from mindspore import nn, ops
from msprobe.mindspore import seed_all
seed_all(7, rm_dropout=True)
x = ms.Tensor(np.ones((3, 4), np.float32))
cell = nn.Dropout(p=0.9).set_train()
assert cell(x).asnumpy().sum() == 12
assert ops.dropout(x, 0.9).asnumpy().sum() == 12
"""


def test_all_generators_start_again() -> None:
    from msprobe.mindspore import seed_all

    def numbers() -> list[Any]:
        seed_all(7)
        return [random.random(), np.random.rand(), *ops.standard_normal((3,)).asnumpy().tolist()]

    assert numbers() == numbers()


def test_dropout_is_idle() -> None:
    done = forked.run(["-c", WITHOUT_DROPOUT], timeout=60, preloaded=forked.MINDSPORE)
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.parametrize("arguments", [{"seed": -1}, {"seed": 1.5}, {"mode": 1}], ids=str)
def test_a_wrong_argument_is_named(arguments: dict[str, Any]) -> None:
    from msprobe.mindspore import seed_all

    with pytest.raises(MsprobeException, match=next(iter(arguments))):
        seed_all(**arguments)
