"""Finds the csv files that monitors wrote: which rank a folder belongs to, and what each file holds.

The layouts of both versions are known, and that of ``"format": "append"``:

    Dec03_21-34-40-rank0-1f2e3d4c/grad_reduced_0-4.csv       vpp_stage,name,step,[micro_step],<ops>,shape,dtype
    Dec03_21-34-40-rank0-1f2e3d4c/grad_reduced_part0.csv     the same columns
    rank_0/param_step0-4.csv                                 vpp_stage,step,module_name,scope,<ops>
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MONITORS: Final = {
    "actv": ("module", "forward"),
    "actv_grad": ("module", "backward"),
    "grad_unreduced": ("weight_grad", "unreduced"),
    "grad_reduced": ("weight_grad", "reduced"),
    "exp_avg": ("optimizer", "exp_avg"),
    "exp_avg_sq": ("optimizer", "exp_avg_sq"),
    "param_origin": ("param", "param_origin"),
    "param_updated": ("param", "param_updated"),
    "comm": ("cc", "comm"),
}
"""Source of rows -> in files of the second version the monitor whose file has them, and their scope."""
SCOPES: Final = {scope: source for source, (_, scope) in MONITORS.items()}
"""Scope of a row of the second version -> the source, as files of the first version are named."""
ORDER: Final = (
    "actv",
    "actv_grad",
    "exp_avg",
    "exp_avg_sq",
    "grad_unreduced",
    "grad_reduced",
    "param_origin",
    "param_updated",
    "other",
)
"""Metrics in the order in which the published tool numbers them; others follow."""
_RUN = re.compile(r".*-rank(\d+)-[0-9a-f]+|rank_?(\d+)")
_FIRST = re.compile(r"([A-Za-z_][A-Za-z_0-9]*?)_(?:(\d+)-\d+|part(\d+))\.csv")
_SECOND = re.compile(r"(module|weight_grad|optimizer|param|cc)_step(\d+)-\d+\.csv")
_DEPTH = 3


@dataclass(frozen=True, slots=True)
class MonitorFile:
    """One csv file.

    Attributes:
        path: the file.
        rank: the rank that wrote it.
        metric: the source of its rows; empty where each row names its own (second version).
        first: its first step, or the number of its part.
        run: the folder of its run.
    """

    path: Path
    rank: int
    metric: str
    first: int
    run: Path

    @property
    def order(self) -> tuple[int, int, str, str, int]:
        """Return the place of the file: ranks, the older run of a rank first, metrics, steps."""
        number = ORDER.index(self.metric) if self.metric in ORDER else len(ORDER)
        return self.rank, number, self.metric, self.path.parent.name, self.first


def find_files(folder: Path, depth: int = _DEPTH) -> list[MonitorFile]:
    """Return the csv files of monitors in a folder and ``depth`` levels below it, in the order of reading."""
    found = [file for run, rank in _runs(folder, depth) for file in files_of(run, rank)]
    age = {run: run.stat().st_mtime_ns for run in {file.run for file in found}}
    return sorted(found, key=lambda file: (file.order[:3], age[file.run], file.order[3:]))


def rank_of(folder: Path) -> int | None:
    """Return the rank that the name of the folder of a run says; None for the name of any other folder."""
    match = _RUN.fullmatch(folder.absolute().name)
    return int(match[1] or match[2]) if match else None


def _runs(folder: Path, depth: int) -> Iterator[tuple[Path, int]]:
    rank = rank_of(folder)
    if rank is not None:
        yield folder, rank
    if depth:
        for below in sorted(path for path in folder.iterdir() if path.is_dir() and not path.is_symlink()):
            yield from _runs(below, depth - 1)


def files_of(folder: Path, rank: int) -> Iterator[MonitorFile]:
    """Yield the csv files of one run and rank, which lie in one folder."""
    for path in folder.iterdir():
        if path.is_symlink() or not path.is_file():
            continue
        if match := _SECOND.fullmatch(path.name):
            yield MonitorFile(path, rank, "", int(match[2]), folder)
        elif match := _FIRST.fullmatch(path.name):
            yield MonitorFile(path, rank, match[1], int(match[2] or match[3]), folder)
