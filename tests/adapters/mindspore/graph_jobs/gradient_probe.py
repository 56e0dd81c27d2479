"""gradient_probe.py MODE FOLDER: three steps of a training whose gradients are probed; says the losses, as JSON.

MODE is ``dynamic``, ``graph`` or ``plain``, which is a graph without the probe.
"""

import json
import sys

import mindspore as ms
import numpy as np

from msprobe.core.errors import MsprobeException
from msprobe.mindspore import PrecisionDebugger

if sys.argv[1] != "dynamic":
    ms.set_context(mode=ms.GRAPH_MODE)

from mindspore import Tensor, nn, ops


class Loss(nn.Cell):
    def __init__(self, net):
        super().__init__(auto_prefix=False)
        self.net, self.scale = net, ms.Parameter(Tensor(0.5, ms.float32), name="scale")

    def construct(self, x):
        return ops.square(self.net(x)).mean() * self.scale


draw = np.random.default_rng(0).normal
net = nn.SequentialCell(nn.Dense(4, 3), nn.ReLU(), nn.Dense(3, 2))
for one in net.trainable_params():
    one.set_data(Tensor(draw(size=one.shape).astype(np.float32)))
loss = Loss(net)
optimizer = nn.Adam(loss.trainable_params(), 0.1)
debugger = PrecisionDebugger({"task": "grad_probe", "dump_path": sys.argv[2], "grad_probe": {"grad_level": "L0"}})
refused = ""
if sys.argv[1] == "graph":
    try:
        debugger.monitor(net)
    except MsprobeException as error:
        refused = str(error)
if sys.argv[1] != "plain":
    debugger.monitor(optimizer)
step = nn.TrainOneStepCell(loss, optimizer).set_train()
losses = [float(step(Tensor(draw(size=(5, 4)).astype(np.float32))).asnumpy()) for _ in range(3)]
debugger.stop()
if sys.argv[1] == "graph":
    assert "construct" not in vars(optimizer)
    step(Tensor(draw(size=(5, 4)).astype(np.float32)))  # is not seen any more
print("SEEN", json.dumps({"losses": losses, "refused": refused}))
