"""A training that is made to die: trains a small model, collecting, and prints the time and name of every call.

    python training.py DUMP_PATH LEVEL STEPS CALLS TASK [async] [points] [beats] [ring]

A line is ``time number`` when call ``number`` of the step has ended. ``async`` sets async_dump, with a checksum for it
to make; ``points`` saves the output of every call. ``ring`` keeps the last two steps in memory, and writes them after
every third step. With ``beats`` a thread says ``beat time`` every 50 ms, as often as
the flusher of the tool wants to write: it tells how late this machine lets such a thread be.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import Any

import torch

from msprobe.pytorch import PrecisionDebugger


def beat() -> None:
    while True:
        time.sleep(0.05)
        os.write(1, f"beat {time.time():.6f}\n".encode())


def main(config: dict[str, Any], steps: int, calls: int, words: list[str]) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    debugger = PrecisionDebugger(config)
    for step in range(steps):
        debugger.start(model=model)
        for number in range(calls):
            optimizer.zero_grad()
            output = model(torch.randn(4, 8))
            if "points" in words:
                debugger.save(output, "point")
            torch.nn.functional.softplus(output).sum().backward()
            os.write(1, f"{time.time():.6f} {number}\n".encode())
        optimizer.step()
        if "ring" in words and step % 3 == 2:
            PrecisionDebugger.trigger(f"after step {step}")
        debugger.stop()
        debugger.step()
    os.write(1, b"finished\n")


if __name__ == "__main__":
    settings: dict[str, Any] = {"dump_path": sys.argv[1], "level": sys.argv[2], "task": sys.argv[5]}
    if "async" in sys.argv[6:]:
        settings |= {"async_dump": True, sys.argv[5]: {"summary_mode": "md5"}}
    if "ring" in sys.argv[6:]:
        settings["statistics"] = {"ring": {"steps": 2, "on": ["trigger"], "cool_down": 1}}
    if "beats" in sys.argv[6:]:
        threading.Thread(target=beat, daemon=True).start()
    main(settings, int(sys.argv[3]), int(sys.argv[4]), sys.argv[6:])
