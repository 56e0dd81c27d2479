"""A training under the monitor, as a process: ``python -m tests.crash.monitored STEPS CONFIG``."""

import json
import sys

import torch

from msprobe.pytorch import TrainerMon

torch.manual_seed(0)
model = torch.nn.Sequential(*(torch.nn.Linear(16, 16) for _ in range(20)))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
monitor = TrainerMon(json.loads(sys.argv[2]))
monitor.set_monitor(model, optimizer)
for step in range(int(sys.argv[1])):
    model(torch.randn(4, 16)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step} done", flush=True)
monitor.stop()
print("the training has ended", flush=True)
