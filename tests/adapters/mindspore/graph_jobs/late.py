"""Everything that is refused at once, each tried on the way."""

import sys

import mindspore as ms
import numpy as np
from mindspore import Tensor, ops

from msprobe.core.errors import MsprobeException
from msprobe.mindspore import PrecisionDebugger

folder = sys.argv[1]


def attempt(**config):
    try:
        PrecisionDebugger({"dump_path": folder, **config})
    except MsprobeException as error:
        print("REFUSED", type(error).__name__, str(error).replace("\n", " "))
    else:
        print("ACCEPTED")


@ms.jit
def double(x):
    return ops.add(x, x)


attempt(level="L1", statistics={"summary_mode": ["hash"]})
ms.set_context(mode=ms.GRAPH_MODE, jit_level="O0")
attempt(level="L1")
attempt(level="L2", task="overflow_check")
double(Tensor(np.ones(2, np.float32)))
attempt(level="L2")
