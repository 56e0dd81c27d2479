"""One of two processes of ``msrun`` that take part in collectives: the first argument is the folder of the dump."""

import sys

import mindspore
import mindspore.mint.distributed as dist
import numpy as np
from mindspore import Tensor, nn

from msprobe.mindspore import PrecisionDebugger


class Talk(nn.Cell):
    """Calls in a group of their own stand between those of the world. On a CPU there is no ``send``."""

    def __init__(self, group: str) -> None:
        super().__init__()
        self.group = group

    def construct(self, x: Tensor) -> Tensor:
        dist.all_reduce(x)
        dist.all_reduce(x, group=self.group)
        dist.all_reduce(x)
        dist.broadcast(x, 1)
        dist.broadcast(x, src=0, group=self.group)
        dist.all_gather([Tensor(np.zeros(3, np.float32)) for _ in range(2)], x)
        return x


mindspore.communication.init("mccl")
talk = nn.SequentialCell(Talk(dist.new_group([0, 1])))
debugger = PrecisionDebugger(task="statistics", level="mix", dump_path=sys.argv[1])
with debugger.collect(talk):
    talk(Tensor(np.full(3, dist.get_rank() + 1, np.float32)))
