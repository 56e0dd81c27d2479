"""The job of two processes that the tests of distributed training look at."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.ranks import run_ranks

PROGRAM = Path(__file__).with_name("job.py")


@dataclass(frozen=True)
class Job:
    """What the job left: dumps, log lines and what each rank saw."""

    folder: Path
    logs: list[str]
    seen: list[dict[str, Any]]

    def read(self, part: str, rank: int | str, name: str = "dump.json", step: int = 0) -> dict[str, Any]:
        label = f"rank{rank}" if isinstance(rank, int) else rank
        document: dict[str, Any] = json.loads((self.folder / part / f"step{step}" / label / name).read_text())
        return document

    def data(self, part: str, rank: int | str, step: int = 0) -> dict[str, Any]:
        data: dict[str, Any] = self.read(part, rank, step=step)["data"]
        return data


def run_job(folder: Path) -> Job:
    """Run the program on two ranks, with its dumps in ``folder``."""
    logs = run_ranks("tests.adapters.pytorch.distributed.job", 2, lambda rank: (rank, folder), MSPROBE_LOG_LEVEL="1")
    return Job(folder, logs, [json.loads((folder / f"seen{rank}.json").read_text()) for rank in range(2)])
