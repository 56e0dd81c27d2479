"""A torch-shaped program over MindSpore, recorded: ``python -m tests.visualize.msadapter_run FOLDER [FACTOR]``.

FACTOR scales the weight of the second layer.
"""

from __future__ import annotations

import sys
from typing import Any

import mindspore
import numpy as np

from tests.msadapter_stand_in import install

install()

import torch  # noqa: E402  (the stand-in)

from msprobe.mindspore import PrecisionDebugger  # noqa: E402


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.act, self.down = torch.nn.Linear(4, 8), torch.nn.SiLU(), torch.nn.Linear(8, 2)

    def forward(self, x: Any) -> Any:
        return torch.exp(self.down(self.act(self.up(x))))


def main(folder: str, factor: float) -> None:
    net = Net()
    net.down.weight.set_data(net.down.weight * factor)
    debugger = PrecisionDebugger({"dump_path": folder, "level": "mix", "risk_level": "ALL"})
    with debugger.collect(net):
        data = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
        mindspore.value_and_grad(lambda x: net(x).sum(), 0, list(net.parameters()))(torch.tensor(data, torch.float32))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 1.0)
