"""Where and how a recorded step ended before its time: an exception, a killed process, a program that exited.

``dump.json`` says how a step ended (``end``), and the record of a call that raised has the text of its ``error``. A
killed process leaves a journal and no ``end``.
"""

from __future__ import annotations

from typing import Any

from msprobe.compare.records.call_source import call_source
from msprobe.core.store.reader import Dump

_BUDGETS = "disk_budget", "time_budget"
_ORDERLY = frozenset({"step", "stop", "reset"})


def ended_early(dump: Dump, other: Dump) -> bool:
    """Return whether a step of ``dump`` ended before its time, so that calls of ``other`` behind its end mean nothing.

    A program that exits without ending its step may be complete. It counts where the other run has ended the step.
    """
    how = _end(dump).get("by")
    return dump.recovered or how in ("exception", *_BUDGETS) or (how == "exit" and _end(other).get("by") in _ORDERLY)


def has_raised(dump: Dump, entry: str | None) -> bool:
    """Return whether the call of an entry raised an exception."""
    body = dump.data.get(entry) if entry is not None else None
    return isinstance(body, dict) and isinstance(body.get("error"), str)


def end_notes(target: Dump, golden: Dump) -> list[str]:
    """Return a sentence for each side whose step ended before its time: how, and at which call and line."""
    sides = (("target", target, golden), ("golden run", golden, target))
    return [end_text(dump, f"the {side}") for side, dump, other in sides if ended_early(dump, other)]


def end_text(dump: Dump, subject: str) -> str:
    """Return in words how and where a step ended; ``subject`` is the run: "the target"."""
    end, place = _end(dump), end_place(dump)
    if dump.recovered:
        how = f"{dump.place.document.parent} was read from its journal: the run is not finished or died"
        return f"{how}; its records end {place}"
    what = "its program exited"
    if end.get("by") == "exception":
        what = str(end.get("error") or "an exception")
    elif end.get("by") in _BUDGETS:
        what = f"its {end['by']} was reached"
    return f"{subject} ended early ({what}) {place}"


def end_place(dump: Dump) -> str:
    """Return in words where the records of a step end: in the call that raised or after the last one, with its line."""
    entry = _last_call(dump)
    if entry is None:
        return "before it recorded a call"
    source = call_source(dump, entry).source
    return f"{'in' if has_raised(dump, entry) else 'after'} {entry}" + (f" ({source})" if source else "")


def _last_call(dump: Dump) -> str | None:
    """Return the innermost call that raised the exception that ended the step, else the last call; None for no call."""
    names = list(dump.data)
    if not names:
        return None
    error = dump.data[names[-1]].get("error") if has_raised(dump, names[-1]) else None
    last = names[-1]
    for name in reversed(names):
        if error is None or not has_raised(dump, name) or dump.data[name]["error"] != error:
            break
        last = name
    return last


def _end(dump: Dump) -> dict[str, Any]:
    end = dump.header.get("end")
    return end if isinstance(end, dict) else {}
