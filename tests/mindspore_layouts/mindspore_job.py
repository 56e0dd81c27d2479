"""A model of MindSpore, cut by hand: ``... mindspore_job.py FOLDER DECLARE FAULT``, alone or under ``msrun``.

With DECLARE ``uneven`` two ranks have 5 and 3 of the 8 hidden units, else 4 each. The program says what it cuts, unless
DECLARE is ``silent``. The ranks communicate by ``mint.distributed``.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import mindspore as ms
import mindspore.mint.distributed as dist
from mindspore import Parameter, Tensor, mint, nn

from msprobe.mindspore import PrecisionDebugger
from msprobe.mindspore.parallel import shard
from tests.mindspore_layouts.first_values import EVEN, HIDDEN, UNEVEN, WIDTH, parts, samples

SIZE = int(os.environ.get("MS_WORKER_NUM", "1"))


class CopyInput(nn.Cell):
    """To all ranks; gradients add up, unless that is forgotten."""

    def __init__(self, forgotten: bool) -> None:
        super().__init__()
        self.forgotten = forgotten

    def construct(self, x: Tensor) -> Tensor:
        return x.copy()

    def bprop(self, x: Tensor, out: Tensor, dout: Tensor) -> tuple[Tensor]:
        gradient = dout.copy()
        if SIZE > 1 and not self.forgotten:
            dist.all_reduce(gradient)
        return (gradient,)


class ReduceOutput(nn.Cell):
    """Partial sums add up, unless that is forgotten; the gradient is the same on all ranks."""

    def __init__(self, forgotten: bool) -> None:
        super().__init__()
        self.forgotten = forgotten

    def construct(self, x: Tensor) -> Tensor:
        y = x.copy()
        if SIZE > 1 and not self.forgotten:
            dist.all_reduce(y)
        return y

    def bprop(self, x: Tensor, out: Tensor, dout: Tensor) -> tuple[Tensor]:
        return (dout,)


class Layer(nn.Cell):
    """A norm that every rank has, and two products of which a rank has some hidden units."""

    def __init__(self, values: dict[str, Any], declare: bool, fault: str) -> None:
        super().__init__()
        self.norm = nn.LayerNorm([WIDTH], epsilon=1e-5)
        self.norm.gamma.set_data(Tensor(values["scale"]))
        self.up = Parameter(Tensor(values["up"]), name="up")
        self.down = Parameter(Tensor(values["down"]), name="down")
        if declare:
            shard(self.up, dim=0)
            shard(self.down, dim=-1)
            shard(self.norm, dim=None)
        self.declare = declare
        self.factor = 1.5 if fault == "scale" else 1.0
        self.enter, self.leave = CopyInput(fault == "gradient"), ReduceOutput(fault == "sum")

    def construct(self, x: Tensor) -> Tensor:
        hidden = mint.nn.functional.relu(mint.nn.functional.linear(self.enter(self.norm(x)), self.up))
        hidden = shard(hidden, dim=-1) if self.declare else hidden
        return x + self.leave(mint.nn.functional.linear(hidden, self.down)) * self.factor


def main(folder: Path, declare: str, fault: str = "") -> None:
    ms.set_context(mode=ms.PYNATIVE_MODE)
    if SIZE > 1:
        ms.communication.init("mccl")
    lengths = (HIDDEN,) if SIZE == 1 else UNEVEN if declare == "uneven" else EVEN
    values = parts(dist.get_rank() if SIZE > 1 else 0, lengths, fault)
    layers = [Layer(each, declare != "silent", fault if place == 1 else "") for place, each in enumerate(values)]
    model = nn.SequentialCell(*layers).set_train()
    step = ms.value_and_grad(lambda x: mint.square(model(x)).sum(), 0, model.trainable_params())
    optimizer = nn.SGD(model.trainable_params(), learning_rate=0.01)
    debugger = PrecisionDebugger({"task": "statistics", "level": "mix", "dump_path": str(folder)})
    for _ in range(2):
        debugger.start(model)
        _, (_, gradients) = step(Tensor(samples()))
        optimizer(gradients)
        debugger.stop()
        debugger.step()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
