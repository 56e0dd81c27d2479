"""Runs the silent errors, their corrected twins and the correct programs, and prints what ``msprobe check`` finds.

    python -m tests.silent_errors.evaluate [NAME...] [--kind errors|twins|correct] [--keep FOLDER] [--jobs N]

An error counts as found if a finding (not a hint) names its place: see ``place_of``. Any finding on a program
without an error is a false one.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from tests.silent_errors.catalogue import CORRECT, ERRORS, Correct, Error
from tests.silent_errors.runs import Result, run

KINDS = ("errors", "twins", "correct")
WIDTH = 150


def is_at_place(finding: dict[str, Any], error: Error) -> bool:
    """Return whether a finding names parameter, module or line of an error, its rank and kind, and no later step."""
    by_name = _matches(finding["parameter"], error.parameters) or _matches(finding["module"], error.modules)
    in_time = finding["step"] is None or finding["step"] <= error.by
    of_kind = re.search(error.about, f"{finding['rule']}: {finding['reason']}") is not None
    return (by_name or names_line(finding, error)) and in_time and of_kind and _on_rank(finding, error)


def names_line(finding: dict[str, Any], error: Error) -> bool:
    """Return whether the stack of a finding passes the planted line."""
    file, line = error.file.name, error.planted_line()
    return any(file in frame and f"line {line}," in f"{frame}," for frame in finding["stack"])


def _matches(name: str | None, patterns: Sequence[str]) -> bool:
    words = (name or "").replace(":", " ").split()
    return any(fnmatch(word, pattern) for word in words for pattern in patterns)


def _on_rank(finding: dict[str, Any], error: Error) -> bool:
    ranks = finding["ranks"] or ([] if finding["rank"] is None else [finding["rank"]])
    return error.rank is None or not ranks or error.rank in ranks


@dataclass(frozen=True)
class Row:
    """One program that ran: how it ended in a word, and what was said of it."""

    kind: str
    name: str
    word: str
    good: bool
    says: tuple[str, ...]


def row_of(kind: str, program: Error | Correct, result: Result) -> Row:
    """Judge the result of a program."""
    if result.failed:
        return Row(kind, program.name, "FAILED", False, tuple(result.failed.splitlines()[-12:]))
    if kind != "errors":
        says = tuple(_told(finding) for finding in result.findings)
        return Row(kind, program.name, f"{len(says)} FALSE" if says else "clean", not says, says)
    assert isinstance(program, Error)
    right = [finding for finding in result.findings if is_at_place(finding, program)]
    others = [finding for finding in result.findings if finding not in right]
    hinted = any(is_at_place(hint, program) for hint in result.hints)
    word = "found" if right else "WRONG PLACE" if others else "HINT ONLY" if hinted else "MISSED"
    says = [_told(one) for one in right[:3]] + [f"beside: {_told(one)}" for one in others[:4]]
    says += [] if right else [f"hint: {_told(one)}" for one in result.hints[:4]]
    return Row(kind, program.name, word, bool(right), tuple(says))


def _told(finding: dict[str, Any]) -> str:
    place = finding["parameter"] or finding["module"] or finding["call"]
    return f"{finding['rule']} [{place}, step {finding['step']}, ranks {finding['ranks']}] {finding['reason']}"


def chosen(names: Sequence[str], kinds: Sequence[str]) -> Iterator[tuple[str, Error | Correct]]:
    """Yield the programs to run, each with its kind."""
    for kind in kinds:
        programs: Sequence[Error | Correct] = CORRECT if kind == "correct" else ERRORS
        for program in programs:
            if not names or program.name in names:
                yield kind, program


def judged(folder: Path, work: tuple[str, Error | Correct]) -> Row:
    """Run one program and judge its result."""
    kind, program = work
    return row_of(kind, program, run(program, folder / kind / program.name, fault=kind == "errors"))


def summary(rows: Sequence[Row]) -> str:
    """Return the counts in one line."""
    counted = {error.name for error in ERRORS if error.counted}
    errors = [row for row in rows if row.kind == "errors"]
    found, of = (sum(row.name in counted for row in part) for part in ([r for r in errors if r.good], errors))
    beside = [row for row in errors if row.name not in counted]
    clean = [row for row in rows if row.kind != "errors"]
    return (
        f"{found} of {of} listed errors found at their place, {sum(row.good for row in beside)} of {len(beside)} "
        f"further ones; {sum(row.good for row in clean)} of {len(clean)} correct programs without a finding "
        f"({sum(row.kind == 'twins' for row in clean)} of them corrected twins)"
    )


def main() -> int:
    """Print the table; the exit status is 1 if an error was missed or a correct program has a finding."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--kind", choices=KINDS, action="append")
    parser.add_argument("--keep", type=Path, help="keep the dumps here")
    parser.add_argument("--jobs", type=int, default=2, help="programs at a time")
    given = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as scratch, ProcessPoolExecutor(given.jobs, get_context("spawn")) as pool:
        folder = (given.keep or Path(scratch)).absolute()
        work = list(chosen(given.names, given.kind or KINDS))
        for row in pool.map(partial(judged, folder), work):
            rows.append(row)
            print(f"{row.kind:8}{row.name:33}{row.word}")
            for line in row.says:
                print(f"          {line[:WIDTH]}")
            sys.stdout.flush()
    print(summary(rows))
    return 0 if all(row.good for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
