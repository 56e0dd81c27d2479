"""Differences that a user has looked at and accepts: the file of ``--accept``, and which finding an entry means.

A file is a list in YAML or JSON. An entry says what was found (``finding``), where (``place``) and why it is accepted
(``reason``); it may narrow that down (``slot``, ``step``, ``rank``, ``at_most``) and may end (``expires``)::

    - finding: value
      place: Functional.gelu.*.forward
      reason: the device computes the tanh approximation, see ticket 123
      expires: 2026-12-31
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import date
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

from msprobe.compare.alignment.mapping_file import Marked, read_mapping
from msprobe.compare.alignment.options import numbers
from msprobe.compare.inputs.locations import PathLike
from msprobe.compare.rows.summary import AcceptedDifference, AcceptedFinding, AcceptedUse, FirstDivergence, KindText
from msprobe.core.errors import MsprobeException, ReadError
from msprobe.core.store.reader import read_json_object
from msprobe.core.store.safe_files import make_folder, write_atomic
from msprobe.core.yaml_file import load_yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

AcceptOption = PathLike | list[dict[str, Any]] | tuple[dict[str, Any], ...] | None
"""A file, or its content."""

_FINDINGS = get_args(KindText)
_VERDICTS = "incomplete", "not_comparable", "same", "diverged"
_LARGER = 4.0  # what a written entry accepts, in units of the difference found
_NEEDED = "finding", "place", "reason"
_GIVE = "give a file that msprobe compare --json wrote"
_DATE = re.compile(r"\d{4}-\d\d-\d\d")


def accepts(entry: AcceptedDifference, found: FirstDivergence) -> bool:
    """Return whether an entry means this finding, and still counts."""
    if entry.finding != found.kind or (entry.slot is not None and entry.slot != found.slot):
        return False
    if entry.at_most is not None and (found.times_tolerance is None or found.times_tolerance > entry.at_most):
        return False
    names = found.target, found.golden, found.module, found.golden_module
    return covers(entry, names, found.step, found.rank)


def covers(entry: AcceptedDifference, names: Iterable[str | None], step: int | None, rank: int | None) -> bool:
    """Return whether an entry that still counts means one of the names, in this step on this rank."""
    if entry.is_expired or not (_holds("step", entry.step, step) and _holds("rank", entry.rank, rank)):
        return False
    return any(name is not None and _pattern(entry.place).fullmatch(name) for name in names)


def uses_of(entries: Sequence[AcceptedDifference], found: Iterable[AcceptedFinding]) -> list[AcceptedUse]:
    """Return what became of each entry."""
    uses = [AcceptedUse(entry, "expired" if entry.is_expired else "unused") for entry in entries]
    for one in found:
        use = uses[one.entry]
        use.state, use.count, use.first = "used", use.count + 1, use.first or one.name
    return uses


def read_accepted(given: AcceptOption | Marked, known: Sequence[str] = _FINDINGS) -> tuple[AcceptedDifference, ...]:
    """Return the entries of a file, or of its content. ``known`` are the findings that an entry may name.

    Raises:
        ReadError: the file cannot be read, or an entry is wrong; says the line.
    """
    if given is None:
        return ()
    tree = read_mapping(given, "accept", "file")
    if tree.value is None:
        raise tree.fail("it has no entries; write a list of `finding`, `place` and `reason`")
    entries: dict[str, Marked] = {}
    for item in tree.items("a file of accepted differences"):
        entry = _entry(item, known)
        if entry.text in entries:
            raise item.fail(f"{entry.text} is accepted already, at {entries[entry.text].where}; leave one of them out")
        entries[entry.text] = item
    return tuple(_entry(item, known) for item in entries.values())


def _entry(item: Marked, known_findings: Sequence[str]) -> AcceptedDifference:
    if not isinstance(item.value, dict) or not item.value:
        raise item.fail("an accepted difference is written as `finding`, `place` and `reason`")
    known = [one.name for one in fields(AcceptedDifference)]
    for name, value in item.value.items():
        if name not in known:
            raise value.fail(f"there is no key {name!r}; keys: {', '.join(known)}")
    for name in _NEEDED:
        if name not in item.value or not str(item.value[name].value or "").strip():
            why = "say why the difference is accepted" if name == "reason" else f"keys needed: {', '.join(_NEEDED)}"
            raise item.fail(f"an accepted difference without {name}; {why}")
    texts: dict[str, Any] = {name: value.text(name) for name, value in item.value.items() if value.value is not None}
    checks: dict[str, Callable[[Marked, str, str], Any]] = {
        "finding": partial(_finding, known_findings),
        "step": _numbers,
        "rank": _numbers,
        "at_most": _at_most,
        "expires": _day,
    }
    for name, check in checks.items():
        if name in texts:
            texts[name] = check(item.value[name], name, texts[name])
    return AcceptedDifference(**texts)


def _finding(known: Sequence[str], where: Marked, _name: str, text: str) -> str:
    if text in _VERDICTS:
        raise where.fail(
            f"{text!r} is a verdict and no difference, so it cannot be accepted; findings: {', '.join(known)}"
        )
    if text not in known:
        raise where.fail(f"there is no finding {text!r}; findings: {', '.join(known)}")
    return text


def _numbers(where: Marked, name: str, text: str) -> str:
    try:
        numbers(name, text)
    except MsprobeException as error:
        raise where.fail(error.error_info) from None
    return text


def _at_most(where: Marked, name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not value > 0.0:
        raise where.fail(f"{name} is a number above 0 (times the tolerance), not {text!r}")
    return value


def _day(where: Marked, name: str, text: str) -> str:
    try:
        if _DATE.fullmatch(text):
            return date.fromisoformat(text).isoformat()
    except ValueError:
        pass
    raise where.fail(f"{name} is a day such as 2026-12-31, not {text!r}")


def _holds(name: str, wanted: str | int | None, number: int | None) -> bool:
    return wanted is None or (number is not None and number in numbers(name, wanted))


@lru_cache(maxsize=1024)
def _pattern(place: str) -> re.Pattern[str]:
    """Return the expression of a place, in which ``*`` is any text and ``?`` one character."""
    parts = {"*": ".*", "?": "."}
    return re.compile("".join(parts.get(letter) or re.escape(letter) for letter in place), re.DOTALL)


def entry_of(result: Path, given: Mapping[str, str | None]) -> AcceptedDifference:
    """Return the entry that accepts the first divergence of a result.

    Args:
        result: the file of ``compare --json``.
        given: the keys of the entry that the user gives; None for one that follows from the result.

    Raises:
        ReadError: the result cannot be read or has no first divergence, or what the user gives is wrong.
    """
    document = read_json_object(result, '{"verdict": "diverged"}', _GIVE)
    first = document.get("first_divergence")
    if not isinstance(first, dict):
        verdict = document.get("verdict")
        what = f"its verdict is {verdict}; only a difference can be accepted" if verdict else _GIVE
        raise ReadError(f"{result}: there is no first divergence: {what}")
    place = first.get("target") or first.get("golden") or first.get("module")
    said = {"finding": first.get("kind"), "place": place, "slot": first.get("slot")}
    times = first.get("times_tolerance")
    if isinstance(times, (int, float)) and 0.0 < times < math.inf:
        said["at_most"] = float(f"{_LARGER * times:.2g}")
    said.update({name: value for name, value in given.items() if value is not None})
    return read_accepted([said])[0]


def add_accepted(file: Path, entry: AcceptedDifference) -> None:
    """Add an entry to a file of accepted differences; the file is made where it is missing, and else keeps its text.

    Raises:
        ReadError: the file is wrong, or has the entry already.
        MsprobeException: the file cannot be written.
    """
    import yaml

    try:
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        if text.lstrip().startswith("["):
            entries = json.loads(text)
            text = json.dumps([*entries, entry.said], indent=1, ensure_ascii=False)
        else:
            head = f"{text.rstrip()}\n" if text.strip() else ""
            text = head + yaml.safe_dump([entry.said], sort_keys=False, allow_unicode=True, width=200)
        given = read_mapping(file, "accept", "file") if file.exists() else None
        if given is not None and given.value is not None and entry.text in {one.text for one in read_accepted(given)}:
            raise ReadError(f"{file}: {entry.text} is accepted already; change that entry, or give another --place")
        read_accepted(load_yaml(text))
        make_folder(file.absolute().parent)
        write_atomic(file, [text.rstrip().encode(), b"\n"])
    except OSError as error:
        reason = f"the accept file cannot be written to {file} ({error.strerror or error}); choose another file"
        raise MsprobeException(MsprobeException.INVALID_PARAM_ERROR, reason) from error
    except (ValueError, RecursionError) as error:
        raise ReadError(f"{file}: no entry can be added ({str(error).splitlines()[0]}); correct the file") from error


def accepted_schema() -> dict[str, Any]:
    """JSON Schema of the file."""
    from pydantic import Field, TypeAdapter  # not free, and only wanted here

    return TypeAdapter(Annotated[list[AcceptedDifference], Field(title="AcceptedDifferences")]).json_schema()
