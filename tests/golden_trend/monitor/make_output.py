"""The program that made ``output`` with mindstudio-probe 26.2.0 (rank is a number that seeds it; both folders were put
together by hand). ``expected_*.sql`` is what its ``data2db --format monitor`` made of it.

    python make_output.py RANK
"""

import sys

import torch
from torch import nn

from msprobe.pytorch import TrainerMon

CONFIG = {
    "targets": {},
    "xy_distribution": True,
    "all_xy": True,
    "wg_distribution": True,
    "mv_distribution": True,
    "format": "csv",
    "ops": ["norm", "min", "max", "nans", "id"],
    "step_count_per_record": 2,
}


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn = nn.ModuleDict({"qkv": nn.Linear(4, 4)})
        self.norm = nn.LayerNorm(4)

    def forward(self, x):
        return self.norm(x + self.attn["qkv"](x))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(4, 4)
        self.layers = nn.ModuleList([Block(), Block()])
        self.h = nn.Sequential(nn.Sequential(nn.Linear(4, 4)))

    def forward(self, x):
        x = self.embed(x)
        for layer in self.layers:
            x = layer(x)
        return self.h(x)


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[1]))
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    monitor = TrainerMon(CONFIG, process_group=None, params_have_main_grad=False)
    monitor.set_monitor(model, optimizer, grad_acc_steps=2, start_iteration=0)
    for step in range(3):
        for micro in range(2):
            x = torch.randn(4, 4)
            if step == 2:
                x[0, 0] = float("inf") if micro else float("nan")
            if step == 1:
                x *= 1e10
            model(x).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
