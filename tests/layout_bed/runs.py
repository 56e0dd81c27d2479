"""Runs: a training in a layout, where its recording lies, and how it is made.

``tests/layouts`` and ``tests/megatron`` have models, layouts and faults of their own, and what lies here in common.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.leftovers import leave_something_everywhere
from tests.ranks import run_ranks

DUMP = "dump"


@dataclass(frozen=True)
class LayoutRun(ABC):
    """A training in a layout.

    Args:
        layout: has a ``name`` and a ``size``, its number of ranks.
        variant: ``healthy``, ``again`` or the name of a fault of the layout.
    """

    layout: Any
    variant: str = "healthy"

    @property
    @abstractmethod
    def content(self) -> str:
        """Return all that the recording follows from."""

    def folder(self, cache: Path) -> Path:
        """Return the folder of the recording below ``cache``: its name follows from the content."""
        return cache / f"{self.layout.name}-{self.variant}-{hashlib.sha256(self.content.encode()).hexdigest()[:8]}"

    def is_recorded(self, cache: Path) -> bool:
        """Return whether every rank has come to its end."""
        return all(result_of(self.folder(cache), rank).exists() for rank in range(self.layout.size))

    def results(self, cache: Path) -> list[dict[str, Any]]:
        """Return what each rank has at the end of the training."""
        import torch

        paths = [result_of(self.folder(cache), rank) for rank in range(self.layout.size)]
        return [torch.load(path, weights_only=True) for path in paths]


def result_of(folder: Path, rank: int) -> Path:
    """Return the file with the result of a rank."""
    return folder / f"result{rank}.pt"


def record_missing(runs: Iterable[LayoutRun], cache: Path, job: str, **environment: str) -> int:
    """Record those of ``runs`` that ``cache`` has not, a layout at a time; returns their number.

    Each rank is ``python -m JOB RANK STORE LAYOUT VARIANT=FOLDER...``, which calls ``record_variants``.
    """
    missing = [run for run in dict.fromkeys(runs) if not run.is_recorded(cache)]
    for layout in dict.fromkeys(run.layout for run in missing):
        own = [run for run in missing if run.layout == layout]
        for run in own:
            shutil.rmtree(run.folder(cache), ignore_errors=True)
        variants = [f"{run.variant}={run.folder(cache)}" for run in own]
        with tempfile.TemporaryDirectory() as folder:
            arguments = Path(folder) / "store", layout.name, *variants
            run_ranks(job, layout.size, lambda rank, given=arguments: [rank, *given], **environment)
    return len(missing)


def record_variants(
    layouts: dict[str, Any], record: Callable[[Any, str, Path, int], Any], begin: Callable[[Any], None] | None = None
) -> None:
    """Record, in the process of a rank, each variant that the command line names.

    Memory that nobody has written holds something else each time.

    Args:
        layouts: the layouts by their names.
        record: trains in a layout with a variant, writes the dump below a folder, as this rank, and returns what the
            rank has at the end: losses and parameters.
        begin: is called once, with the layout, when the process group is there.
    """
    import torch
    import torch.distributed as dist

    rank, store, name, *variants = sys.argv[1:]
    layout = layouts[name]
    torch.set_num_threads(1)
    leave_something_everywhere()
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=int(rank), world_size=layout.size)
    if begin is not None:
        begin(layout)
    for each in variants:
        variant, _, path = each.partition("=")
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        torch.save(record(layout, variant, folder, int(rank)), result_of(folder, int(rank)))
        dist.barrier()
    dist.destroy_process_group()
