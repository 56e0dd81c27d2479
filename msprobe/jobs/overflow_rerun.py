"""``run_overflow_check``: recorded calls that overflow, run again in a worker process, and what came out in a table."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from msprobe.core.errors import NotComparableError
from msprobe.core.store.reader import damage_named, only_dump
from msprobe.core.store.safe_files import make_folder, write_atomic
from msprobe.jobs.executors.guarded import GuardedExecutor, Lost
from msprobe.jobs.precheck_work import case_of, replayer_of, tested_devices
from msprobe.precheck.appended_table import BLANK, append_lines, create_table
from msprobe.precheck.overflowing_calls import OverflowingCall, OverflowStatus, overflows, run_again
from msprobe.replay.cases import cases_of

COLUMNS = ("API name", "Forward", "Backward", "Message")
_WORK = "msprobe.jobs.overflow_rerun:work"


@dataclass(frozen=True, slots=True)
class OverflowRerun:
    """The calls, and the files that were written."""

    calls: list[OverflowingCall]
    device: str
    table: Path
    document: Path


def rerun_overflows(
    api_info: Path,
    folder: Path,
    device: str,
    *,
    seconds: float,
    show: Callable[[float, float], None] | None = None,
) -> OverflowRerun:
    """Run the overflowing calls of a dump again.

    Args:
        api_info: a dump.json, or a folder with one dump.
        folder: for the table and the document.
        device: the device under test; ``best`` is the best one of the machine.
        seconds: what one call may take.
        show: is told how many calls are done, of how many.

    Raises:
        MsprobeException: the input cannot be read, or the device is wrong.
        NotComparableError: no recorded call overflows.
        OSError: a file cannot be written.
    """
    dump = only_dump(api_info)
    framework = dump.framework or "pytorch"
    (device,) = tested_devices((device,), framework)
    with damage_named(dump.place):
        names = [case.name for case in cases_of(dump) if overflows(case)]
    if not names:
        raise NotComparableError(f"{dump.place.document}: no recorded call has an infinity or NaN among its results")
    make_folder(folder)
    stem = folder / f"overflow_check_result_{datetime.now():%Y%m%d%H%M%S}"
    table, document = stem.with_suffix(".csv"), stem.with_suffix(".json")
    create_table(table, COLUMNS)
    tasks = [json.dumps([str(dump.place.document.absolute()), framework, name, device]) for name in names]
    calls = []
    for number, answer in GuardedExecutor(1, seconds).run(_WORK, tasks):
        call = OverflowingCall(names[number], message=answer.reason) if isinstance(answer, Lost) else _parsed(answer)
        append_lines(table, [(call.name, str(call.forward), str(call.backward), call.message or BLANK)])
        calls.append(call)
        if show is not None:
            show(len(calls), len(names))
    content = {"dump": str(dump.place.document), "device": device, "calls": [asdict(call) for call in calls]}
    write_atomic(document, [json.dumps(content, indent=1, ensure_ascii=False).encode()])
    return OverflowRerun(calls, device, table, document)


def work(task: str) -> str:
    """Run the call of a task again."""
    document, framework, name, device = json.loads(task)
    return json.dumps(asdict(run_again(case_of(document, name), replayer_of(framework), device)))


def _parsed(text: str) -> OverflowingCall:
    content = json.loads(text)
    forward, backward = OverflowStatus(content.pop("forward")), OverflowStatus(content.pop("backward"))
    return OverflowingCall(**content, forward=forward, backward=backward)
