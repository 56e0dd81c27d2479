"""One of two processes of ``msrun``: the first argument is the dump folder."""

import sys

import mindspore
import mindspore.mint.distributed as dist
import numpy as np
from mindspore import Tensor
from mindspore.mint.distributed import P2POp, isend

from msprobe.mindspore import PrecisionDebugger

debugger = PrecisionDebugger(task="statistics", level="L1", dump_path=sys.argv[1])
before = {name: getattr(dist, name) for name in dir(dist)}
debugger.start()
mindspore.communication.init("mccl")
rank = dist.get_rank()
mine = Tensor(np.full(3, rank + 1, np.float32))
dist.all_reduce(mine)
later = Tensor(np.full(3, rank + 1, np.float32))
dist.all_reduce(later, async_op=True).wait()
gathered = [Tensor(np.zeros(3, np.float32)) for _ in range(2)]
dist.all_gather(gathered, Tensor(np.full(3, rank + 5, np.float32)))
assert P2POp(dist.isend, mine, 1).op is P2POp(isend, mine, 1).op
debugger.stop()
debugger.step()
assert all(before[name] is getattr(dist, name) for name in before)
assert [part.asnumpy().tolist() for part in gathered] == [[5] * 3, [6] * 3]
