"""The command that judges cases, ``python -m tests.layouts.evaluate CACHE`` and ``tests.megatron.evaluate``.

What is missing in CACHE is recorded, which takes a second or two for each run; the recordings there are used again as
long as program, layout and fault are the same. After a change of the collection, remove the folder.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from tests.layout_bed.cases import LayoutCase
from tests.layout_bed.judge import Answer, judge
from tests.layout_bed.known_gaps import write_gaps
from tests.layout_bed.runs import LayoutRun

Record = Callable[[list[LayoutRun], Path], object]
"""Records what is missing of runs in a folder."""


def evaluate(cases: Sequence[LayoutCase], record: Record, gaps: Path) -> int:
    """Print a line per case and the totals; returns 1 where an answer is wrong. ``gaps`` is the file of ``--gaps``."""
    options = _options()
    chosen = [case for case in cases if re.search(options.only, case.name)]
    cache = options.cache.resolve()
    record([run for case in chosen for run in (case.golden, case.target)], cache)
    answers = []
    for answer, case in zip(_answers(chosen, cache, options.jobs), chosen, strict=True):
        answers.append(answer)
        if not (options.wrong and answer.right):
            _print(answer, case, options.text)
    print(totals(answers))
    if options.gaps:
        write_gaps(answers, gaps)
    return int(any(not answer.right for answer in answers))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cache", type=Path)
    parser.add_argument("--only", default="", help="regular expression that the name of a case holds")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--wrong", action="store_true", help="only lines of wrong answers")
    parser.add_argument("--gaps", action="store_true", help="write known_gaps.json: wrong answers, and what was said")
    parser.add_argument("--text", action="store_true", help="with what the terminal shows")
    return parser.parse_args()


def _answers(cases: Sequence[LayoutCase], cache: Path, jobs: int) -> Iterator[Answer]:
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


def _print(answer: Answer, case: LayoutCase, text: bool) -> None:
    mark = "ok   " if answer.right else "WRONG"
    module, line = ("ok" if right else "--" for right in (answer.module, answer.line))
    print(f"{mark} {answer.name:48} {answer.verdict:14} module {module} line {line}  {answer.said}", flush=True)
    if not answer.right and case.fault is not None:
        print(f"      expected {case.fault.module or 'no module'} or {case.expected}")
    if text:
        print(answer.text)
