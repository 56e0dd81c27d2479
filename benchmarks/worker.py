"""One variant, one live process: builds the workload, then runs steps when it is told to.

Started by ``live.py`` with a JSON job as its only argument; answers every line of its input with one JSON line.
It is started as a file and not as a module, so that ``msprobe`` comes from the environment of its python and never
from the current directory.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import meter
from variants import Variant, parse


def _builder(framework: str) -> Callable[[str], Any]:
    if framework == "mindspore":
        from mindspore_workloads import build as build_for_mindspore

        return build_for_mindspore
    import torch

    torch.set_num_threads(1)
    from workloads import build

    return build


class Subject:
    """The workload of this process with the tool around it, as the variant asks."""

    def __init__(self, workload: str, variant: Variant, folder: Path) -> None:
        self.framework = "mindspore" if workload.startswith("ms") else "pytorch"
        build = _builder(self.framework)
        self.variant = variant
        self.dump_path = folder / "dump"
        self.debugger: Any = None
        self.tool = ""
        began = time.process_time()
        if variant.kind != "none":
            self._create(folder)
        self.create_s = time.process_time() - began
        self.model, self.train = build(workload)
        if variant.compiler:
            self.model.compile(backend=variant.compiler)

    def _create(self, folder: Path) -> None:
        import msprobe

        debugger = importlib.import_module(f"msprobe.{self.framework}").PrecisionDebugger
        self.tool = str(msprobe.__file__)
        config = folder / "config.json"
        config.write_text(json.dumps(self.variant.config(self.dump_path)), encoding="utf-8")
        self.debugger = debugger(config_path=str(config))

    def steps(self, count: int) -> dict[str, float]:
        """Run some steps. Per step: CPU seconds, of them ``during`` until stop and ``caller`` in the thread that
        trains, wall seconds, bytes written.

        ``on_disk`` is the bytes that the last step left, ``peak_mb`` the highest resident memory so far.
        """
        recorded = self.variant.kind == "recorded"
        cpu = caller = wall = during = written = 0.0
        for _ in range(count):
            shutil.rmtree(self.dump_path, ignore_errors=True)
            before = meter.read()
            trained = self._recorded_step() if recorded else self._plain_step()
            after = meter.read()
            cpu += after.cpu - before.cpu
            caller += after.caller - before.caller
            wall += after.wall - before.wall
            written += after.written - before.written
            during += trained - before.cpu
        return {
            "cpu": cpu / count,
            "caller": caller / count,
            "during": during / count,
            "wall": wall / count,
            "written": written / count,
            "peak_mb": meter.peak_resident_mb(),
            "on_disk": meter.folder_size(self.dump_path) if recorded else 0,
        }

    def _plain_step(self) -> float:
        self.train()
        return time.process_time()

    def _recorded_step(self) -> float:
        self.debugger.start(self.model)
        self.train()
        trained = time.process_time()
        self.debugger.stop()
        self.debugger.step()
        return trained

    def entries(self) -> dict[str, int]:
        """Entries of the dump.json files that the last step left, and how many of them are forward calls."""
        documents = [json.loads(path.read_text(encoding="utf-8")) for path in self.dump_path.rglob("dump.json")]
        names = [name for document in documents for name in document.get("data", {})]
        return {"entries": len(names), "calls": sum("forward" in name.split(".")[-2:] for name in names)}


def serve(subject: Subject, answers: TextIO, requests: TextIO) -> None:
    """Answer until the input ends."""
    _answer(answers, {"tool": subject.tool, "create_s": subject.create_s})
    known: dict[str, Callable[[int], Any]] = {
        "steps": subject.steps,
        "entries": lambda _: subject.entries(),
    }
    for line in requests:
        word, _, count = line.strip().partition(" ")
        _answer(answers, known[word](int(count or 1)))


def _answer(answers: TextIO, value: Any) -> None:
    answers.write(json.dumps(value) + "\n")
    answers.flush()


def main() -> None:
    job = json.loads(sys.argv[1])
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # a tool may print: what it prints is no answer
    serve(Subject(job["workload"], parse(job["variant"]), Path(job["folder"])), answers, sys.stdin)
    sys.stdout.flush()
    answers.flush()
    os._exit(0)  # what the tools do at exit is not measured here


if __name__ == "__main__":
    main()
