"""Real runs of one small network, recorded at each level."""

from pathlib import Path

import torch
from torch import nn

from msprobe.pytorch import PrecisionDebugger
from tests.fresh_debugger import forget


def record_levels(folder: Path) -> None:
    """Fill the folder with dumps ``good_LEVEL`` and ``bad_LEVEL``; the bad run has another slope."""
    forget()
    for level in ("L0", "L1", "mix"):
        for name, slope in (("good", 0.01), ("bad", 0.2)):
            torch.manual_seed(0)
            net = nn.Sequential(nn.Linear(4, 4), nn.LeakyReLU(slope), nn.Linear(4, 1))
            place = str(folder / f"{name}_{level}")
            debugger = PrecisionDebugger({"task": "statistics", "level": level, "dump_path": place})
            with debugger.collect(net):
                net(torch.randn(8, 4)).mean().backward()
            forget()
