"""Dump many runs of the zoo from one process: ``python -m tests.zoo.run OUT JOBS``.

The file of jobs is a list of the fields of ``Job``; the dump of each goes to ``OUT/name``. One process makes many runs,
because loading the framework takes longer than a training.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from msprobe.pytorch import PrecisionDebugger
from tests.fresh_debugger import forget
from tests.zoo.faults import FAULTS, GOLDEN
from tests.zoo.harmless import HARMLESS
from tests.zoo.model import Recording, healthy, train


@dataclass(frozen=True, slots=True)
class Job:
    """One run: ``variant`` names a golden run, a harmless change or a fault; ``update`` records the optimizer too."""

    name: str
    variant: str
    level: str = "mix"
    task: str = "statistics"
    summary_mode: str | None = None
    update: bool = True

    def config(self, out: Path) -> dict[str, Any]:
        section = {} if self.summary_mode is None else {"summary_mode": self.summary_mode}
        return {"task": self.task, "level": self.level, "dump_path": str(out / self.name), self.task: section}


def record(job: Job, out: Path) -> list[float]:
    """Train one variant under a debugger of its own; returns the losses."""
    threads, onednn = torch.get_num_threads(), torch.backends.mkldnn.enabled
    training = healthy()
    change = GOLDEN.get(job.variant) or HARMLESS.get(job.variant) or FAULTS[job.variant].apply
    change(training)
    debugger = PrecisionDebugger(job.config(out))
    try:
        torch.manual_seed(1)
        return train(training, Recording(debugger, job.update))
    finally:
        forget()
        torch.set_num_threads(threads)
        torch.backends.mkldnn.enabled = onednn


def main() -> None:
    out = Path(sys.argv[1])
    for item in json.loads(Path(sys.argv[2]).read_text(encoding="utf-8")):
        job = Job(**item)
        losses = record(job, out)
        (out / job.name / "losses.json").write_text(json.dumps(losses), encoding="utf-8")


if __name__ == "__main__":
    main()
