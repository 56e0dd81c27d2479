"""Train and record runs: ``python -m tests.real_models.record FOLDER...``, in one process.

A program that knows nothing of msprobe (``tests.upgrades``) runs as under ``msprobe run``, in a process of its own.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import multiprocessing
import os
import re
import runpy
import shutil
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # by the first optimizer otherwise, in each process

from msprobe.pytorch import PrecisionDebugger
from tests.fresh_debugger import forget
from tests.real_models.devices import emulated
from tests.rules.tree import ROOT

DUMP = "dump"
LOSSES = "losses.json"
FAILED = "failed.txt"
PACKAGES = "PACKAGES_OF_RUNS"
"""Variable with the folder of each package that a run needs besides those of the tests, as JSON."""
ATTACHED = ROOT / "tests" / "cli" / "collection" / "attached.py"
SAVE_WEIGHTS = ROOT / "tests" / "upgrades" / "save_weights.py"
_NUMBER = re.compile(r"[-+]?(?:\d+\.\d+(?:e[-+]?\d+)?|nan|inf)")
_LONGEST = 240
"""Seconds that a program may take."""
TASKS = {"md5": ("statistics", {"summary_mode": "md5"})}
"""Names of runs for tasks with settings."""


def record(folder: Path) -> list[float]:
    """Train the program in ``folder`` as its run.json says, recorded to ``folder/dump``; returns the losses."""
    settings = _settings(folder)
    if "packages" in settings:
        return record_script(folder, settings)
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


def record_script(folder: Path, settings: dict[str, Any]) -> list[float]:
    """Run the program in ``folder`` as ``msprobe run`` does, with its packages; returns the numbers it prints."""
    home = folder.parent / settings["weights"] if settings["weights"] else folder
    maker = _settings(home)
    if maker["saves"] and not any((home / name).exists() for name in ("checkpoint", "weights.pt")):
        _run([SAVE_WEIGHTS, home / "train.py", maker["saves"]], maker["packages"], home)
    shutil.rmtree(folder / DUMP, ignore_errors=True)  # of a run that was ended
    config = {"task": settings["task"], "level": settings["level"], "dump_path": str(folder / DUMP)}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    printed = _run([ATTACHED, folder / "config.json", "", folder / "train.py"], settings["packages"], home)
    return [float(number) for number in _NUMBER.findall(printed)]


def _settings(folder: Path) -> dict[str, Any]:
    settings: dict[str, Any] = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    return settings


def _run(words: list[object], packages: list[str], folder: Path) -> str:
    """Return what a program prints, which runs in ``folder`` with other packages; raises RuntimeError if it fails."""
    places = json.loads(os.environ.get(PACKAGES, "{}"))
    path = [*(places[package] for package in packages), str(ROOT)]
    arguments = list(map(str, words))
    outputs = folder / f"{os.getpid()}.out", folder / f"{os.getpid()}.err"
    process = multiprocessing.get_context("fork").Process(target=_run_here, args=(arguments, path, folder, outputs))
    gc.freeze()  # a collection would copy what the new process shares with this one
    process.start()
    process.join(_LONGEST)
    if process.exitcode != 0:
        process.kill()
        raise RuntimeError(f"status {process.exitcode}\n{outputs[1].read_text(encoding='utf-8', errors='replace')}")
    return outputs[0].read_text(encoding="utf-8")


def _run_here(words: list[str], path: list[str], folder: Path, outputs: tuple[Path, Path]) -> None:
    """Run a program in this process, which is there for it alone."""
    for number, output in enumerate(outputs, 1):
        os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    os.chdir(folder)
    if any((Path(place) / "torch").exists() for place in path):  # it is not the one that is imported here
        os.execve(sys.executable, [sys.executable, *words], {**os.environ, "PYTHONPATH": os.pathsep.join(path)})
    sys.path[:0] = ["", *path]
    sys.argv = words
    runpy.run_path(words[0], run_name="__main__")
    atexit._run_exitfuncs()


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
