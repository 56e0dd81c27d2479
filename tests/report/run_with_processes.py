"""Compares pairs of dumps in this process, which has one thread, with as many processes as asked for.

    python -m tests.report.run_with_processes FOLDER jobs.json

A job is ``[target, golden, options, processes, what to lose]``. Prints a JSON list: for each job whether processes
shared the pair, its summary, the texts of its tables, what was logged, the files left and the processes left.
"""

import json
import os
import re
import signal
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"

from msprobe.compare.workers import compare_workers, row_workers
from msprobe.core.errors import MsprobeException
from msprobe.core.log import logger
from msprobe.jobs import compare, compare_rank, share_rows
from msprobe.report import csv_table

MAIN = os.getpid()


def lost(place: str) -> Callable[..., Any]:
    """The function of that name, which kills a copy of this process that calls it; the parent may be interrupted."""
    name = place.removeprefix("interrupt:")
    original = getattr(_module(name), name)

    def function(*arguments: Any, **options: Any) -> Any:
        if os.getpid() != MAIN:
            os.kill(os.getpid(), signal.SIGKILL)
        if place.startswith("interrupt:"):
            raise KeyboardInterrupt
        return original(*arguments, **options)

    return function


def _module(name: str) -> Any:
    return compare_workers if hasattr(compare_workers, name) else row_workers


def run(folder: Path, job: list[Any]) -> dict[str, Any]:
    target, golden, options, processes, lose = job
    assert compare.cpu_count
    compare.cpu_count = lambda: processes
    shared: list[bool] = []
    warnings: list[str] = []
    conclude = compare_rank._finish_pair
    name = (lose or "").removeprefix("interrupt:")
    kept = getattr(_module(name), name) if name else None
    if lose:
        setattr(_module(name), name, lost(lose))

    def concluded(outcome: Any, rows: Any, *rest: Any) -> None:
        conclude(outcome, rows, *rest)
        shared.append(rows.further is not share_rows._no_further)

    compare_rank._finish_pair, logger.warning = concluded, lambda text, *values: warnings.append(text % values)
    found: dict[str, Any] = {}
    try:
        result = compare.compare(target, golden, output=folder, **options)
        found["summary"] = {**result.summary.document(), "results": []}
        found["tables"] = [content(Path(path)) for path in result.summary.results]
        found["reports"] = [content(Path(options[kind])) for kind in ("html", "junit") if kind in options]
        for path in result.summary.results:
            os.unlink(path)
    except (MsprobeException, KeyboardInterrupt) as error:
        found["error"] = f"{type(error).__name__}: {error}"
    finally:
        compare_rank._finish_pair = conclude
        if kept is not None:
            setattr(_module(name), name, kept)
    return {**found, "shared": shared, "warnings": warnings, "files": os.listdir(folder), "children": children()}


def content(path: Path) -> str:
    """The text of a file, without the time in the names of tables or when it was made; so for a workbook."""
    if path.suffix == ".xlsx":
        with zipfile.ZipFile(path) as book:
            return "\n".join(book.read(name).decode() for name in book.namelist() if "docProps" not in name)
    return re.sub(r"_\d{14}(_\d+)?|<time .*?</time>", "", path.read_text(encoding="utf-8"))


def children() -> int:
    """How many processes were not waited for."""
    try:
        return int(os.waitpid(-1, os.WNOHANG)[0] == 0)
    except ChildProcessError:
        return 0


if __name__ == "__main__":
    compare_rank.WORTH_BYTES = int(os.environ.get("WORTH", "0"))
    compare_rank.WORTH_ROWS = int(os.environ.get("WORTH_ROWS", compare_rank.WORTH_ROWS))
    csv_table.MOST_ROWS = int(os.environ.get("MOST_ROWS", csv_table.MOST_ROWS))
    json.dump([run(Path(sys.argv[1]), job) for job in json.loads(Path(sys.argv[2]).read_text())], sys.stdout)
