"""The result of a check as lines for people and as a document, and what of it the user has accepted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from msprobe.check.findings import AcceptedItem, CheckDocument, Finding
from msprobe.compare.accepted import AcceptOption, covers, read_accepted
from msprobe.compare.records.source_lines import excerpt, source_line
from msprobe.core.errors import MsprobeException
from msprobe.core.store.safe_files import make_folder, write_atomic

_MOST_HINTS = 10
_UNNAMED = "the whole model"


def with_accepted(document: CheckDocument, given: AcceptOption, rules: Sequence[str]) -> CheckDocument:
    """Return the document without the findings and hints that the entries of a file mean; these stand apart.

    An entry names the rule as its ``finding``, and the parameter, module or call as its ``place``.

    Raises:
        ReadError: the file cannot be read, or an entry is wrong; says the line.
    """
    entries = read_accepted(given, rules)
    accepted: list[AcceptedItem] = []
    used: set[int] = set()

    def remains(one: Finding) -> bool:
        names = one.parameter, one.module, one.call, None if one.parameter or one.module or one.call else _UNNAMED
        for number, entry in enumerate(entries):
            if entry.finding == one.rule and covers(entry, names, one.step, one.rank):
                used.add(number)
                accepted.append(AcceptedItem(one, entry.reason))
                return False
        return True

    findings, hints = list(filter(remains, document.findings)), list(filter(remains, document.hints))
    unused = [
        f"An accepted finding has expired: {entry.text} ({entry.expires})"
        if entry.is_expired
        else f"An accepted finding was not found: {entry.text}"
        for number, entry in enumerate(entries)
        if number not in used
    ]
    return replace(document, findings=findings, hints=hints, accepted=accepted, notes=[*document.notes, *unused])


def result_lines(document: CheckDocument) -> Iterator[str]:
    """Yield the result in words: the first finding first, then the hints, then what was not judged."""
    yield _first_line(document)
    for number, finding in enumerate(document.findings, 1):
        yield from _lines(f"{number}. {finding.rule} ({finding.certainty})", finding)
    if document.hints:
        yield f"{_count(len(document.hints), 'hint')} (a correct program may show this too):"
        for finding in document.hints[:_MOST_HINTS]:
            yield from _lines(f"- {finding.rule}", finding)
        if len(document.hints) > _MOST_HINTS:
            yield f"- and {len(document.hints) - _MOST_HINTS} more; --json has them all"
    for item in document.accepted:
        yield f"Accepted: {item.finding.rule} at {_place(item.finding)} ({item.reason})"
    missing: dict[str, list[str]] = {}
    for state in document.rules:
        if not state.judged:
            missing.setdefault(state.why, []).append(state.name)
    for why, names in missing.items():
        yield f"Not judged, {why}: {', '.join(names)}"
    yield from document.notes


def _first_line(document: CheckDocument) -> str:
    """Return what was found, and how many rules could say so: a rule that could not judge the run is no pass."""
    steps, ranks, every = len(document.steps), len(document.ranks), len(document.rules)
    judged = sum(state.judged for state in document.rules)
    checked = f"{_count(steps, 'step')} of {_count(ranks, 'rank')} checked by {judged} of {every} rules"
    rest = f"; the other {every - judged} could not judge this run, as it says below" if judged < every else ""
    if document.findings:
        return f"{_count(len(document.findings), 'finding')}: {checked}{rest}."
    if 2 * judged < every:
        return f"Most of it could not be judged: {checked}, which find nothing{rest}."
    return f"Nothing is wrong as far as these rules can tell: {checked}{rest}."


def _lines(head: str, finding: Finding) -> Iterator[str]:
    where = [] if finding.step is None else [f"step {finding.step}"]
    if len(finding.ranks) > 1:
        where.append(f"ranks {', '.join(map(str, finding.ranks))}")
    elif finding.rank is not None:
        where.append(f"rank {finding.rank}")
    yield f"{head}: {_place(finding)}" + (f", {', '.join(where)}" if where else "")
    yield f"   {finding.reason}"
    source = source_line(finding.stack)
    if source:
        yield f"   source: {source}"
        yield from (f"     {line}" for line in excerpt(finding.stack))


def _place(finding: Finding) -> str:
    names = [finding.parameter or finding.module, finding.call]
    return ", ".join(name for name in names if name) or _UNNAMED


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def document_json(document: CheckDocument) -> bytes:
    """Return the document as JSON."""
    from pydantic import TypeAdapter  # not free, and only wanted here

    text: bytes = TypeAdapter(CheckDocument).dump_json(document, indent=1)
    return text + b"\n"


def write_json(document: CheckDocument, path: Path) -> None:
    """Write the document to a file, readable by this user only; a missing folder is created.

    Raises:
        MsprobeException: the file cannot be written.
    """
    try:
        make_folder(path.absolute().parent)
        write_atomic(path, [document_json(document)])
    except OSError as error:
        reason = f"the result cannot be written to {path} ({error.strerror or error}); choose another file"
        raise MsprobeException(MsprobeException.INVALID_PARAM_ERROR, reason) from error
