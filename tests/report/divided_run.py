"""Compares pairs of dumps in this process, which has one thread, with as many processes as asked for.

    python -m tests.report.divided_run FOLDER < jobs.json

A job is ``[target, golden, options, processes, what to lose]``. Prints a JSON list: for each job whether processes
shared the pair, its summary, the texts of its tables, what was logged, the files left and the processes left.
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"

from msprobe.compare.divided import team
from msprobe.core.errors import MsprobeException
from msprobe.core.log import logger
from msprobe.report import comparison, csv, divided, rank, worth_dividing

MAIN = os.getpid()


def lost(place: str) -> Callable[..., Any]:
    """The function of that name, which kills a copy of this process that calls it; the parent may be interrupted."""
    original = getattr(team, place.removeprefix("interrupt:"))

    def function(*arguments: Any, **options: Any) -> Any:
        if os.getpid() != MAIN:
            os.kill(os.getpid(), signal.SIGKILL)
        if place.startswith("interrupt:"):
            raise KeyboardInterrupt
        return original(*arguments, **options)

    return function


def run(folder: Path, job: list[Any]) -> dict[str, Any]:
    target, golden, options, processes, lose = job
    comparison.cores = lambda: processes
    shared: list[bool] = []
    warnings: list[str] = []
    original, conclude = divided.team, rank._conclude
    name = (lose or "").removeprefix("interrupt:")
    kept = getattr(team, name) if name else None
    if lose:
        setattr(team, name, lost(lose))

    def concluded(outcome: Any, seen: Any, *rest: Any) -> None:
        conclude(outcome, seen, *rest)
        shared.append(seen.further is not rank._nothing)

    rank._conclude, logger.warning = concluded, lambda text, *values: warnings.append(text % values)
    found: dict[str, Any] = {}
    try:
        result = comparison.compare(target, golden, output=folder, **options)
        found["summary"] = {**result.summary.document(), "results": []}
        found["tables"] = [Path(path).read_text(encoding="utf-8") for path in result.summary.results]
        for path in result.summary.results:
            os.unlink(path)
    except (MsprobeException, KeyboardInterrupt) as error:
        found["error"] = f"{type(error).__name__}: {error}"
    finally:
        rank._conclude, divided.team = conclude, original
        if kept is not None:
            setattr(team, name, kept)
    return {**found, "shared": shared, "warnings": warnings, "files": os.listdir(folder), "children": children()}


def children() -> int:
    """How many processes were not waited for."""
    try:
        return int(os.waitpid(-1, os.WNOHANG)[0] == 0)
    except ChildProcessError:
        return 0


if __name__ == "__main__":
    worth_dividing.WORTH_BYTES = int(os.environ.get("WORTH", "0"))
    csv.MOST_ROWS = int(os.environ.get("MOST_ROWS", csv.MOST_ROWS))
    json.dump([run(Path(sys.argv[1]), job) for job in json.load(sys.stdin)], sys.stdout)
