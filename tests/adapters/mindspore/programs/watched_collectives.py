"""Two ranks train one net, add up their gradients in three ways, and are watched. The folder is the argument."""

import os
import sys

import mindspore as ms
import numpy as np
from mindspore import Tensor, mint, nn, ops

from msprobe.mindspore import TrainerMon

os.environ["MONITOR_OUTPUT_DIR"] = sys.argv[1]
ms.communication.init("mccl")
rank = ms.communication.get_rank()
net = nn.SequentialCell(nn.Dense(4, 3, weight_init="ones"))
optimizer = nn.SGD(net.trainable_params(), 0.1)
train = ms.value_and_grad(lambda x: ops.square(net(x)).mean(), None, net.trainable_params())
config = {"wg_distribution": True, "cc_distribution": {"enable": True, "cc_pre_hook": True}, "ops": ["max", "norm"]}
monitor = TrainerMon(config)
monitor.set_monitor(net, optimizer)
x = Tensor(np.full((2, 4), rank + 1, np.float32))
for _ in range(2):
    _, (weight, bias) = train(x)
    mint.distributed.all_reduce(weight)
    handle = mint.distributed.all_reduce(bias, async_op=True)
    handle.wait()
    ops.AllReduce()(Tensor(np.full(2, rank + 1.0, np.float32)))
    optimizer((weight, bias))
monitor.stop()
