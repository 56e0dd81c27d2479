"""Judge all cases: ``python -m tests.real_models.evaluate CACHE [--only PATTERN] [--jobs 2]``.

What is missing in CACHE is recorded; the recordings there are used again as long as the program of a run is the same,
so changed code that compares is judged in seconds. After a change of the collection, remove the folder.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from tests import forked
from tests.real_models.cases import Case
from tests.real_models.catalogue import CASES
from tests.real_models.judge import Answer, judge
from tests.real_models.record import FAILED, LOSSES
from tests.real_models.runs import written

ROOT = Path(__file__).resolve().parents[2]
GAPS = Path(__file__).resolve().parent / "known_gaps.json"
"""Name of each case that is judged wrongly -> why, or what is said instead."""
Recorder = Callable[[Sequence[Case], Path, int], object]
"""Records what cases need and a folder has not, in a number of processes."""
_FOLDERS = re.compile(r"(?<![\w.])(?:/[^\s/:]+)+/")
_REASON = 160
"""Characters of an answer that are kept as a reason."""
_LONGEST = 24 * 3600.0
"""Seconds that the recording of a matrix may take."""


def record_missing(cases: Sequence[Case], cache: Path, jobs: int = 2) -> int:
    """Record what ``cases`` need and ``cache`` has not; returns the number of runs recorded."""
    folders = {written(run, cache) for case in cases for run in (case.target, case.golden)}
    missing = sorted(folder for folder in folders if not any((folder / end).exists() for end in (LOSSES, FAILED)))
    shares = [missing[start::jobs] for start in range(min(jobs, len(missing)))]
    running = [_start(share) for share in shares]
    for process in running:
        output, _ = process.communicate(_LONGEST)
        if process.returncode:
            raise RuntimeError(f"recording ended with status {process.returncode}\n{output.decode(errors='replace')}")
    return len(missing)


def _start(folders: Sequence[Path]) -> forked.ForkedProcess:
    environment = {**os.environ, "MSPROBE_LOG_LEVEL": "4", "OMP_NUM_THREADS": "1", "TRANSFORMERS_VERBOSITY": "error"}
    return forked.start(["-m", "tests.real_models.record", *folders], cwd=ROOT, env=environment)


def judged(cases: Sequence[Case], cache: Path, jobs: int = 2) -> list[Answer]:
    """Return the answers to ``cases``, in their order."""
    if jobs == 1:
        return [judge(case, cache) for case in cases]
    with ProcessPoolExecutor(jobs) as pool:
        return list(pool.map(partial(judge, cache=cache), cases))


def totals(answers: Sequence[Answer]) -> str:
    """Return the numbers of right answers of each kind of case as lines."""
    kinds = list(dict.fromkeys(answer.name.partition("/")[0] for answer in answers))
    return "\n".join(
        f"{kind:20} {_counts([answer for answer in answers if answer.name.startswith(f'{kind}/')])}" for kind in kinds
    )


def _counts(answers: Sequence[Answer]) -> str:
    number = len(answers)
    if answers[0].harmless:
        return f"same {sum(answer.right for answer in answers)}/{number}"
    counts = {
        "diverged": sum(answer.verdict == "diverged" for answer in answers),
        "module right": sum(answer.module for answer in answers),
        "line right": sum(answer.line for answer in answers),
        "line or first use": sum(answer.near for answer in answers),
        "module and such a line": sum(answer.right for answer in answers),
    }
    return ", ".join(f"{name} {right}/{number}" for name, right in counts.items())


def main(all_cases: Sequence[Case] = CASES, gaps: Path = GAPS, record: Recorder = record_missing) -> int:
    """Print a line per case and the totals; returns 1 where an answer is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cache", type=Path)
    parser.add_argument("--only", default="", help="regular expression that the name of a case holds")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--wrong", action="store_true", help="only lines of wrong answers")
    parser.add_argument("--gaps", action="store_true", help=f"write {gaps.name}: wrong answers, and what was said")
    parser.add_argument("--text", action="store_true", help="with what the terminal shows")
    options = parser.parse_args()
    cases = [case for case in all_cases if re.search(options.only, case.name)]
    record(cases, options.cache.resolve(), options.jobs)
    answers = judged(cases, options.cache.resolve(), options.jobs)
    by_name = {case.name: case for case in cases}
    for answer in answers:
        if options.wrong and answer.right:
            continue
        _print(answer, by_name[answer.name], options.text)
    print(totals(answers))
    if options.gaps:
        write_gaps(answers, gaps)
    return int(any(not answer.right for answer in answers))


def write_gaps(answers: Sequence[Answer], gaps: Path = GAPS) -> None:
    """Write the wrong ones among ``answers`` to a file, where other cases stay; reasons there are kept."""
    known: dict[str, str] = json.loads(gaps.read_text(encoding="utf-8")) if gaps.exists() else {}
    others = {name: reason for name, reason in known.items() if name not in {answer.name for answer in answers}}
    said = {answer.name: _FOLDERS.sub("", answer.said)[:_REASON] for answer in answers if not answer.right}
    wrong = {name: known.get(name, reason) for name, reason in said.items()}
    gaps.write_text(json.dumps({**others, **wrong}, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _print(answer: Answer, case: Case, text: bool) -> None:
    mark = "ok   " if answer.right else "WRONG"
    module, line = ("ok" if right else "--" for right in (answer.module, answer.line))
    line = "1st" if answer.near and not answer.line else line
    print(f"{mark} {answer.name:44} {answer.verdict:10} module {module} line {line}  {answer.said}")
    if not answer.right and not case.harmless:
        expected = ", ".join(f"{file}:{line}" for file, line in sorted(case.right_lines()[0] | case.near_lines()[0]))
        print(f"      expected {' or '.join(repr(name) for name in case.modules)} at {expected}")
    if not answer.changed:
        print(
            "      the losses of both runs are the same" if not case.harmless else "", end="" if case.harmless else "\n"
        )
    if text:
        print(answer.text)


if __name__ == "__main__":
    sys.exit(main())
