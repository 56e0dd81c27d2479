"""Judge all cases: ``python -m tests.layouts.evaluate CACHE [--only PATTERN] [--wrong] [--text]``.

What is missing in CACHE is recorded, which takes a second or two for each run; the recordings there are used again as
long as program, layout and fault are the same. After a change of the collection, remove the folder.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from tests.layouts.cases import CASES, Case
from tests.layouts.judge import Answer, judge
from tests.layouts.runs import record_missing

GAPS = Path(__file__).resolve().parent / "known_gaps.json"
"""Name of each case that is judged wrongly -> why, or what is said instead."""
_REASON = 200
"""Characters of an answer that are kept as a reason."""


def evaluate(cases: Sequence[Case], cache: Path, jobs: int = 1) -> Iterator[Answer]:
    """Yield the answers to ``cases``, in their order; recordings are made where they are missing."""
    record_missing([run for case in cases for run in (case.golden, case.target)], cache)
    if jobs == 1:
        yield from (judge(case, cache) for case in cases)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(partial(judge, cache=cache), cases)


def totals(answers: Sequence[Answer]) -> str:
    """Return the numbers of right answers of each kind of case as lines."""
    kinds = list(dict.fromkeys(kind_of(answer.name) for answer in answers))
    return "\n".join(f"{kind:22} {_counts([a for a in answers if kind_of(a.name) == kind])}" for kind in kinds)


def kind_of(name: str) -> str:
    """Return the kind of a case; the second runs of a layout are kinds of their own."""
    kind, _, rest = name.partition("/")
    again = rest.rpartition("/")[2]
    return f"{kind}, {again}" if again.startswith("again") else kind


def _counts(answers: Sequence[Answer]) -> str:
    number = len(answers)
    if answers[0].harmless:
        return f"same {sum(answer.right for answer in answers)}/{number}"
    counts = {
        "diverged": sum(answer.verdict == "diverged" for answer in answers),
        "module right": sum(answer.module for answer in answers),
        "line right": sum(answer.line for answer in answers),
        "module or line": sum(answer.right for answer in answers),
    }
    return ", ".join(f"{name} {right}/{number}" for name, right in counts.items())


def main() -> int:
    """Print a line per case and the totals; returns 1 where an answer is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cache", type=Path)
    parser.add_argument("--only", default="", help="regular expression that the name of a case holds")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--wrong", action="store_true", help="only lines of wrong answers")
    parser.add_argument("--gaps", action="store_true", help="write known_gaps.json: wrong answers, and what was said")
    parser.add_argument("--text", action="store_true", help="with what the terminal shows")
    options = parser.parse_args()
    cases = [case for case in CASES if re.search(options.only, case.name)]
    answers = []
    for answer, case in zip(evaluate(cases, options.cache.resolve(), options.jobs), cases, strict=True):
        answers.append(answer)
        if not (options.wrong and answer.right):
            _print(answer, case, options.text)
    print(totals(answers))
    if options.gaps:
        write_gaps(answers)
    return int(any(not answer.right for answer in answers))


def write_gaps(answers: Sequence[Answer], file: Path = GAPS) -> None:
    """Write the wrong ones among ``answers`` to ``file``, where other cases stay; reasons there are kept."""
    known: dict[str, str] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    others = {name: reason for name, reason in known.items() if name not in {answer.name for answer in answers}}
    wrong = {
        answer.name: known.get(answer.name, f"{answer.verdict}: {answer.said}"[:_REASON])
        for answer in answers
        if not answer.right
    }
    file.write_text(json.dumps({**others, **wrong}, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _print(answer: Answer, case: Case, text: bool) -> None:
    mark = "ok   " if answer.right else "WRONG"
    module, line = ("ok" if right else "--" for right in (answer.module, answer.line))
    print(f"{mark} {answer.name:48} {answer.verdict:14} module {module} line {line}  {answer.said}", flush=True)
    if not answer.right and case.fault is not None:
        places = ", ".join(f"{file}:{line}" for file, line in sorted(case.right_lines()))
        print(f"      expected {case.fault.module or 'no module'} or {places}")
    if text:
        print(answer.text)


if __name__ == "__main__":
    sys.exit(main())
