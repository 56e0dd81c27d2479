"""Train and record runs: ``python -m tests.real_models.record FOLDER...``, in one process."""

from __future__ import annotations

import importlib
import json
import sys
import traceback
import warnings
from pathlib import Path

import torch

from msprobe.pytorch import PrecisionDebugger
from tests.fresh_debugger import forget
from tests.real_models.devices import emulated

DUMP = "dump"
LOSSES = "losses.json"
FAILED = "failed.txt"
TASKS = {"md5": ("statistics", {"summary_mode": "md5"})}
"""Names of runs for tasks with settings."""


def record(folder: Path) -> list[float]:
    """Train the program in ``folder`` as its run.json says, recorded to ``folder/dump``; returns the losses."""
    settings = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    forget()
    torch._dynamo.reset()
    names = [path.stem for path in folder.glob("*.py")]
    sys.path.insert(0, str(folder))
    try:
        program = importlib.import_module("train")
        task, mode = TASKS.get(settings["task"], (settings["task"], {}))
        config = {"task": task, "level": settings["level"], "dump_path": str(folder / DUMP), task: mode}
        with emulated(settings["device"]):
            losses: list[float] = program.train(PrecisionDebugger(config), **settings["arguments"])
        return losses
    finally:
        forget()
        sys.path.remove(str(folder))
        for name in names:
            sys.modules.pop(name, None)


def main() -> None:
    """Record every folder of the arguments; what goes wrong is written to ``failed.txt`` there."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for argument in sys.argv[1:]:
        folder = Path(argument)
        try:
            losses = record(folder)
        except Exception:  # noqa: BLE001  (the other folders are recorded)
            (folder / FAILED).write_text(traceback.format_exc(), encoding="utf-8")
        else:
            (folder / LOSSES).write_text(json.dumps(losses), encoding="utf-8")


if __name__ == "__main__":
    main()
