"""A training that is made to die: trains a small model, collecting, and prints the time and name of every call.

    python training.py DUMP_PATH LEVEL STEPS CALLS TASK

Every line is ``time number``: before forward ``number`` of the step the clock is printed, unbuffered.
"""

from __future__ import annotations

import os
import sys
import time

import torch

from msprobe.pytorch import PrecisionDebugger


def main(dump_path: str, level: str, steps: int, calls: int, task: str) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    debugger = PrecisionDebugger({"dump_path": dump_path, "level": level, "task": task})
    for _ in range(steps):
        debugger.start(model=model)
        for number in range(calls):
            optimizer.zero_grad()
            torch.nn.functional.softplus(model(torch.randn(4, 8))).sum().backward()
            os.write(1, f"{time.time():.6f} {number}\n".encode())
        optimizer.step()
        debugger.stop()
        debugger.step()
    os.write(1, b"finished\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
