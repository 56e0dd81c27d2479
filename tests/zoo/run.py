"""Dump many runs of the zoo from one process: ``python -m tests.zoo.run OUT < jobs.json``.

A job is ``{"name", "variant", "level", "task", "summary_mode", "update"}``; its dump goes to ``OUT/name``. One process for
many runs, because loading the framework takes longer than a training.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from msprobe.adapters.pytorch.debugger import PrecisionDebugger
from msprobe.core.dump import handle
from tests.zoo.benign import BENIGN
from tests.zoo.faults import FAULTS, GOLDEN
from tests.zoo.model import Recording, healthy, train


@dataclass(frozen=True, slots=True)
class Job:
    """One run: ``variant`` names a golden run, a fault or a benign change; ``update`` records the optimizer too."""

    name: str
    variant: str = "adamw"
    level: str = "mix"
    task: str = "statistics"
    summary_mode: str = "statistics"
    update: bool = True

    def config(self, out: Path) -> dict[str, Any]:
        section = {"summary_mode": self.summary_mode} if self.task == "statistics" else {}
        return {"task": self.task, "level": self.level, "dump_path": str(out / self.name), self.task: section}


def record(job: Job, out: Path) -> list[float]:
    """Train one variant under a debugger of its own."""
    threads = torch.get_num_threads()
    training = healthy()
    _change(job.variant)(training)
    handle.put(None)  # the debugger is one per process: end the one of the job before
    PrecisionDebugger._instance = None
    debugger = PrecisionDebugger(job.config(out))
    try:
        torch.manual_seed(1)
        return train(training, Recording(debugger, job.update))
    finally:
        handle.current().close()
        handle.put(None)
        torch.set_num_threads(threads)


def _change(variant: str) -> Any:
    return GOLDEN.get(variant) or BENIGN.get(variant) or FAULTS[variant].plant


def dumped(jobs: list[Job]) -> str:
    """The standard input that records these jobs."""
    return json.dumps([asdict(job) for job in jobs])


def main() -> None:
    out = Path(sys.argv[1])
    losses = {item["name"]: record(Job(**item), out) for item in json.load(sys.stdin)}
    (out / "losses.json").write_text(json.dumps(losses), encoding="utf-8")


if __name__ == "__main__":
    main()
