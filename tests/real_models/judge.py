"""What a comparison says about a case, and whether it is right."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msprobe
from msprobe.compare.rows.summary import CompareSummary, FirstDivergence
from msprobe.report.summary_text import summary_text
from tests.real_models.cases import ANY, Case, Lines
from tests.real_models.record import DUMP, FAILED, LOSSES

_FRAME = re.compile(r"File (?P<path>.+?), line (?P<line>\d+)|(?P<path2>\S+\.py):(?P<line2>\d+)")
_SOURCE = re.compile(r"^\s*source\b.*?:\s*(.*)$", re.M)

Place = tuple[str, str, int]
"""Folder, file and number of a line."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one case.

    ``module`` and ``line`` say whether these are right, True for a harmless change that is the same; ``near`` is True
    where the line is right, or the first recorded use of what an unrecorded call of the right line computes; ``text``
    is what the terminal shows; ``changed`` says whether the losses of the two runs differ.
    """

    name: str
    harmless: bool
    verdict: str
    module: bool
    line: bool
    near: bool
    said: str
    text: str
    changed: bool

    @property
    def right(self) -> bool:
        return self.verdict == "same" if self.harmless else self.verdict == "diverged" and self.module and self.near


def judge(case: Case, cache: Path) -> Answer:
    """Compare the recordings of a case below ``cache``."""
    target, golden = case.target.folder(cache), case.golden.folder(cache)
    failed = [
        (folder / FAILED).read_text(encoding="utf-8") for folder in (target, golden) if (folder / FAILED).exists()
    ]
    if failed:
        return Answer(case.name, case.harmless, "NO RECORDING", False, False, False, failed[0][-300:], failed[0], False)
    try:
        summary = msprobe.compare(target / DUMP, golden / DUMP).summary
    except Exception as error:  # noqa: BLE001  (an answer like any other)
        return Answer(case.name, case.harmless, "EXCEPTION", False, False, False, repr(error)[:300], repr(error), True)
    changed = _losses(target) != _losses(golden)
    text = summary_text(summary)
    if case.harmless or summary.first_divergence is None:
        right = case.harmless and summary.verdict == "same"
        return Answer(
            case.name, case.harmless, summary.verdict, right, right, right, _said(summary, text), text, changed
        )
    module = ANY in case.modules or _path(summary.first_divergence.module) in case.modules
    named = _named(summary.first_divergence, {target.name, golden.name})
    line = not named.isdisjoint(_places(case, case.right_lines(), cache))
    near = line or not named.isdisjoint(_places(case, case.near_lines(), cache))
    return Answer(case.name, False, summary.verdict, module, line, near, _said(summary, text), text, changed)


def _named(first: FirstDivergence, programs: set[str]) -> set[Place]:
    """Return the printed line, and that of the target beside a call that the golden run alone makes.

    Where one is a line of a library, the line of the program that calls it is taken.
    """
    calls = [call for number, call in enumerate(first.calls) if number == 0 or call.run != "golden run"]
    return {place for call in calls if (place := _in_program(_place(call.source), call.stack, programs))}


def _in_program(printed: Place | None, stack: Sequence[str], programs: set[str]) -> Place | None:
    if printed is None or printed[0] in programs:
        return printed
    frames = (_place(frame) for frame in stack)
    return next((place for place in frames if place and place[0] in programs), printed)


def _places(case: Case, lines: tuple[Lines, Lines], cache: Path) -> set[Place]:
    """Return folder, file and line of lines of the changed and of the healthy program."""
    folders = (case.changed.folder(cache).name, case.healthy.folder(cache).name)
    return {(folder, *line) for folder, own in zip(folders, lines, strict=True) for line in own}


def _source(text: str) -> str:
    found = _SOURCE.search(text)
    return found[1] if found else ""


def _place(frame: str) -> Place | None:
    """Return folder, file and line of a frame."""
    found = _FRAME.search(frame)
    if found is None:
        return None
    path = Path(found["path"] or found["path2"])
    return path.parent.name, path.name, int(found["line"] or found["line2"])


def _path(module: str | None) -> str:
    """Return the path of a module without its class."""
    if module is None or "." not in module:
        return module or ""
    return module.rpartition(".")[0]


def _said(summary: CompareSummary, text: str) -> str:
    first = summary.first_divergence
    if first is None:
        return summary.reason
    place = _place(_source(text))
    stack = _place(first.stack[0]) if first.stack else None
    inner = "" if stack == place else f" (stack[0] {_shown(stack)})"
    entry = first.target or f"golden {first.golden}"
    return (
        f"{first.module} | {_shown(place)}{inner} | step {first.step} {entry} {first.slot} {first.kind}: {first.reason}"
    )


def _shown(place: Place | None) -> str:
    return "no line" if place is None else f"{place[1]}:{place[2]}"


def _losses(folder: Path) -> list[float]:
    losses: list[float] = json.loads((folder / LOSSES).read_text(encoding="utf-8"))
    return losses
