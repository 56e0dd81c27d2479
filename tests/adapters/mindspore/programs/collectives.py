"""One of two processes of ``msrun``: the first argument is the dump folder.

Step 0 is a program of MindSpore. Before step 1 it has imported MSAdapter (a stand-in for it).
"""

import contextlib
import sys

import mindspore
import mindspore.mint.distributed as dist
import numpy as np
from mindspore import Tensor
from mindspore.communication import comm_func
from mindspore.mint.distributed import P2POp, isend

from msprobe.mindspore import PrecisionDebugger
from tests.msadapter_stand_in import install

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
named = dist.new_group([0, 1])
dist.all_reduce(Tensor(np.ones(3, np.float32)), group=named)
with contextlib.suppress(RuntimeError):  # there is no kernel for a CPU
    comm_func.all_reduce(mine)
assert P2POp(dist.isend, mine, 1).op is P2POp(isend, mine, 1).op
debugger.stop()
debugger.step()
assert all(before[name] is getattr(dist, name) for name in before)
assert [part.asnumpy().tolist() for part in gathered] == [[5] * 3, [6] * 3]

torch = install()
before = dict(vars(torch.distributed))
debugger.start()
torch.distributed.all_reduce(torch.tensor([rank + 1.0]))
torch.distributed.all_reduce(torch.tensor([rank + 1.0]), async_op=True).wait()
torch.distributed.all_gather(gathered, tensor=Tensor(np.full(3, rank + 5, np.float32)))
debugger.stop()
debugger.step()
assert vars(torch.distributed) == before
